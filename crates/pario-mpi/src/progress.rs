//! Carries non-blocking calls forward while the program does something else.
//!
//! pario starts no thread that calls MPI. Tasks are polled by the program's own threads: whenever
//! one of them waits inside pario, and, where the MPI library has a hook for it, whenever it waits
//! inside MPI (`MPIX_Async_start` of MPICH 5, `opal_progress_register` of Open MPI). Such a
//! *global* hook is what makes non-blocking collectives safe: without it a rank that waits in
//! `MPI_Recv` would not take part, and a legal program could wait for ever. Where there is none
//! ([`has_global_hook`]), non-blocking collectives must not need partners.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use pario::comm::Task;

use crate::abi::Family;
use crate::binding::Mpi;

static TASKS: Mutex<Vec<Task>> = Mutex::new(Vec::new());
/// Tasks that were added while others were polled.
static ADDED: Mutex<Vec<Task>> = Mutex::new(Vec::new());
static HOOKED: AtomicBool = AtomicBool::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether tasks go on while the program waits inside MPI.
pub(crate) fn has_global_hook(mpi: &Mpi) -> bool {
    match mpi.family {
        Family::Mpich => mpi.call.Async_start.is_some(),
        Family::OpenMpi => mpi.call.opal_progress_register.is_some(),
        Family::Standard => false,
    }
}

/// Adds a task; it is polled from now on.
pub(crate) fn spawn(mpi: &Mpi, task: Task) {
    lock(&ADDED).push(task);
    hook(mpi);
}

/// Polls all tasks once. Does nothing if they are being polled already.
pub(crate) fn poll() {
    let Ok(mut tasks) = TASKS.try_lock() else { return };
    tasks.append(&mut lock(&ADDED));
    let mut context = Context::from_waker(Waker::noop());
    tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
}

fn is_idle() -> bool {
    let polled = TASKS.try_lock().is_ok_and(|tasks| tasks.is_empty());
    polled && lock(&ADDED).is_empty()
}

/// Asks the MPI library to call [`poll`] while it waits.
fn hook(mpi: &Mpi) {
    if HOOKED.swap(true, Ordering::AcqRel) {
        return;
    }
    /// MPICH's value of `MPIX_STREAM_NULL`.
    const STREAM_NULL: usize = 0x3c00_0000;
    match (mpi.family, mpi.call.Async_start, mpi.call.opal_progress_register) {
        (Family::Mpich, Some(start), _) => {
            let poll: unsafe extern "C" fn(*mut c_void) -> c_int = on_mpich_progress;
            // SAFETY: the function has the signature of MPIX_Async_poll_function.
            unsafe { start(poll as usize, ptr::null_mut(), STREAM_NULL) };
        }
        (Family::OpenMpi, _, Some(register)) => {
            let poll: unsafe extern "C" fn() -> c_int = on_open_mpi_progress;
            // SAFETY: the function has the signature of opal_progress_callback_t.
            unsafe { register(poll as usize) };
        }
        _ => HOOKED.store(false, Ordering::Release),
    }
}

/// Called by MPICH; says whether it may be forgotten.
unsafe extern "C" fn on_mpich_progress(_thing: *mut c_void) -> c_int {
    const NO_PROGRESS: c_int = 0;
    const DONE: c_int = 1;
    poll();
    if !is_idle() {
        return NO_PROGRESS;
    }
    HOOKED.store(false, Ordering::Release);
    DONE
}

/// Called by Open MPI; says how much went on. Stays registered: it costs one lock when idle.
unsafe extern "C" fn on_open_mpi_progress() -> c_int {
    poll();
    0
}
