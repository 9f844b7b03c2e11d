//! Warnings: statistics are wanted and the program opens no file through pario, or its ranks do not
//! see each other.
//!
//! Both are printed once in a job, by the rank that the launcher calls rank 0. MPI cannot say which
//! rank that is: without a file pario has no communicator, and a rank that is alone in its world is
//! always rank 0.
//!
//! For programs without a logger, the drop-in installs one that prints what pario logs.

use std::sync::Once;
use std::sync::atomic::Ordering;

use super::OPENED;
use crate::binding::{self, Mpi};
use crate::environment;
use crate::launcher::{self, Launch};

/// Runs when the library is loaded, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let function: extern "C" fn() = at_load;
    if !binding::is_in_library(function as *mut _) {
        return;
    }
    pario::log_to_stderr();
    if environment::wants_statistics() {
        // SAFETY: the function may run at any time after the library was loaded.
        unsafe { libc::atexit(at_exit) };
    }
}

/// Says so when MPI was used and no file was opened through pario.
extern "C" fn at_exit() {
    let first = launcher::launched().is_none_or(|launch| launch.rank == 0);
    if !first || environment::is_disabled() || OPENED.load(Ordering::Relaxed) {
        return;
    }
    if Mpi::get().is_ok_and(Mpi::was_initialized) {
        log::warn!(
            "rank 0 opened no file through pario. Likely reasons: the program makes no MPI-IO \
             calls (PnetCDF 1.15 needs PNETCDF_HINTS=nc_driver=mpiio; HDF5 and ADIOS have drivers \
             without MPI-IO), only other ranks do, or it is linked with MPI statically"
        );
    }
}

/// Warns once in a job whose launcher started several ranks that are all alone: all would write
/// the same file as rank 0 of 1.
pub(super) fn warn_if_alone(mpi: &Mpi) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        let Some(launch) = launcher::launched().filter(|launch| launch.rank == 0) else { return };
        if !mpi.is_active() {
            return;
        }
        let mut size = 0;
        // SAFETY: MPI is active. A failure leaves 0, and nothing is said.
        unsafe { (mpi.call.Comm_size)(mpi.handle(mpi.abi.comm_world), &mut size) };
        if let Some(text) = alone(&launch, size, mpi) {
            log::warn!("{text}");
        }
    });
}

fn alone(launch: &Launch, size: i32, mpi: &Mpi) -> Option<String> {
    let started = launch.size.filter(|started| *started > 1 && size == 1)?;
    Some(format!(
        "warning: the launcher started {started} ranks, but each is alone in the world of \
         {} ({}), and all write the same files: start the program with that library's mpirun",
        mpi.path(),
        mpi.version()
    ))
}
