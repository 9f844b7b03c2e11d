//! The one Fortran routine that does not reach pario through C: `MPI_FILE_CREATE_ERRHANDLER`.
//!
//! Open MPI makes Fortran's error handlers inside of its own library, where pario does not see the
//! callback. MPICH passes it to the C function, where it looks like a callback in C; but Fortran's
//! wants an integer handle. So pario has the names that Fortran compilers and the modules of both
//! libraries give to the routine: all take references, and an error code that may be absent.

use std::ffi::{CStr, c_int};

use super::enter;
use super::errors::{self, Language};
use super::manage::write_to;

type Routine = unsafe extern "C" fn(usize, *mut c_int, *mut c_int);

/// Makes a handler from a routine of Fortran.
///
/// # Safety
/// The arguments are those of a call in Fortran.
unsafe fn create(name: &'static CStr, routine: usize, handler: *mut c_int, code: *mut c_int) {
    let pass_on = |_| {
        // SAFETY: `dlsym` only reads the name.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if next.is_null() {
            return 1;
        }
        // SAFETY: the library's own routine of this name has this type, and sets the code.
        unsafe {
            let next = std::mem::transmute::<*mut libc::c_void, Routine>(next);
            let mut own = 0;
            next(routine, handler, &mut own);
            own
        }
    };
    let outcome =
        enter(name, pass_on, |mpi| match errors::create(mpi, routine, Language::Fortran) {
            Ok(made) => {
                let number = match mpi.call.Errhandler_c2f {
                    // SAFETY: the handler has just been made.
                    Some(to_fortran) => unsafe { to_fortran(made) },
                    // Where there is no function for it, handles are integers.
                    None => u32::try_from(made & 0xffff_ffff).unwrap_or(0).cast_signed(),
                };
                // SAFETY: passed on from the caller.
                unsafe { write_to(handler, number) };
                0
            }
            Err(error) => errors::raise(mpi, None, &error),
        });
    // SAFETY: passed on from the caller.
    unsafe { write_to(code, outcome) };
}

macro_rules! names {
    ($($module:ident $name:literal)*) => {$(
        mod $module {
            use super::*;

            #[unsafe(export_name = $name)]
            unsafe extern "C" fn routine(function: usize, handler: *mut c_int, code: *mut c_int) {
                const NAME: &str = concat!($name, "\0");
                let name = CStr::from_bytes_with_nul(NAME.as_bytes()).unwrap_or_default();
                // SAFETY: a program in Fortran calls this as MPI defines it.
                unsafe { create(name, function, handler, code) }
            }
        }
    )*};
}

names! {
    plain "mpi_file_create_errhandler"
    one "mpi_file_create_errhandler_"
    two "mpi_file_create_errhandler__"
    capital "MPI_FILE_CREATE_ERRHANDLER"
    profiled_plain "pmpi_file_create_errhandler"
    profiled_one "pmpi_file_create_errhandler_"
    profiled_two "pmpi_file_create_errhandler__"
    profiled_capital "PMPI_FILE_CREATE_ERRHANDLER"
    f08 "mpi_file_create_errhandler_f08_"
    profiled_f08 "pmpi_file_create_errhandler_f08_"
    mpich_f08 "pmpir_file_create_errhandler_f08_"
    openmpi "ompi_file_create_errhandler_f"
}
