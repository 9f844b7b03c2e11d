! ranks: 1 2 4
! mpis: mpich4 openmpi4
! pario: both
! calls: at least 30
!
! MPI-IO from Fortran by the module mpi: views, collective, non-blocking, split and shared access,
! error codes and texts, and an error handler written in Fortran. Open MPI's Fortran calls only
! PMPI_File_* and makes error handlers inside of its own library.
module fortran_usempi_state
  implicit none
  integer :: rank = -1, handler_calls = 0, handler_code = 0, left_code = 0, handler_file = 0
end module fortran_usempi_state

program fortran_usempi
  use mpi
  use fortran_usempi_state
  implicit none
  integer, parameter :: count = 12
  character(*), parameter :: name = 'fortran_usempi.data'
  character(4096) :: directory, path
  character(MPI_MAX_DATAREP_STRING) :: datarep
  character(MPI_MAX_ERROR_STRING) :: text
  integer :: file, missing
  integer :: piece, filetype, got_etype, got_filetype
  integer :: request
  integer :: group
  integer :: info
  integer :: handler, got_handler
  integer :: status(MPI_STATUS_SIZE)
  integer(MPI_OFFSET_KIND) :: disp, offset
  integer(MPI_ADDRESS_KIND) :: lower, extent
  integer :: values(count), back(count), ranks, code, got, class, ignored, i
  logical :: flag
  external :: remember

  include 'fortran_body.inc'
contains
  include 'fortran_check.inc'
end program fortran_usempi

subroutine remember(failed, error)
  use fortran_usempi_state
  implicit none
  integer :: failed, error
  if (failed == 0) return
  handler_calls = handler_calls + 1
  handler_code = error
  if (left_code /= 0) error = left_code
  handler_file = failed
end subroutine remember
