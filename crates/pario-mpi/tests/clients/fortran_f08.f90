! ranks: 1 2 4
! mpis: mpich4 openmpi4
! pario: both
! calls: at least 30
!
! MPI-IO from Fortran by the module mpi_f08: views, collective, non-blocking, split and shared access,
! error codes and texts, and an error handler written in Fortran. Open MPI's Fortran calls only
! PMPI_File_* and makes error handlers inside of its own library.
module fortran_f08_state
  use mpi_f08
  implicit none
  integer :: rank = -1, handler_calls = 0, handler_code = 0, left_code = 0
  type(MPI_File) :: handler_file
contains
  subroutine remember(failed, error)
    type(MPI_File) :: failed
    integer :: error
    if (failed == MPI_FILE_NULL) return
    handler_calls = handler_calls + 1
    handler_code = error
    if (left_code /= 0) error = left_code
    handler_file = failed
  end subroutine remember
end module fortran_f08_state

program fortran_f08
  use mpi_f08
  use fortran_f08_state
  implicit none
  integer, parameter :: count = 12
  character(*), parameter :: name = 'fortran_f08.data'
  character(4096) :: directory, path
  character(MPI_MAX_DATAREP_STRING) :: datarep
  character(MPI_MAX_ERROR_STRING) :: text
  type(MPI_File) :: file, missing
  type(MPI_Datatype) :: piece, filetype, got_etype, got_filetype
  type(MPI_Request) :: request
  type(MPI_Group) :: group
  type(MPI_Info) :: info
  type(MPI_Errhandler) :: handler, got_handler
  type(MPI_Status) :: status
  integer(MPI_OFFSET_KIND) :: disp, offset
  integer(MPI_ADDRESS_KIND) :: lower, extent
  integer :: values(count), back(count), ranks, code, got, class, ignored, i
  logical :: flag

  include 'fortran_body.inc'
contains
  include 'fortran_check.inc'
end program fortran_f08
