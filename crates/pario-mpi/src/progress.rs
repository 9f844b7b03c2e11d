//! Makes progress on non-blocking calls while the program does something else.
//!
//! Below `MPI_THREAD_MULTIPLE` pario starts no thread that calls MPI. Tasks are polled by the
//! program's own threads: whenever one of them waits inside pario, and, where the MPI library has a
//! hook for it, whenever it waits inside MPI (`MPIX_Async_start` of MPICH 5,
//! `opal_progress_register` of Open MPI). With `MPI_THREAD_MULTIPLE` a thread of pario's polls
//! them while there are any; MPICH's hook must not be used then, since it is called with a lock
//! held.
//!
//! What other ranks ask this one for ([`Service`]) is answered in the same ways.
//!
//! Either way a rank takes part in its non-blocking collectives while it waits in `MPI_Recv`.
//! Without that a legal program could wait for ever. Where neither is possible
//! ([`go_on_by_themselves`] is false), each rank does its part of a non-blocking collective alone.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use pario::comm::Task;

use crate::abi::Family;
use crate::binding::Mpi;
use crate::node::traffic::OnBehalf;
use crate::{panics, wait};

static TASKS: Mutex<Vec<Task>> = Mutex::new(Vec::new());
/// Tasks that were added while others were polled.
static ADDED: Mutex<Vec<Task>> = Mutex::new(Vec::new());
static HOOKED: AtomicBool = AtomicBool::new(false);
/// Whether a service has answered since somebody looked.
static SERVED: AtomicBool = AtomicBool::new(false);

/// Something that others ask this rank for, whatever its program does.
pub(crate) trait Service: Send + Sync {
    /// Answers the ranks that have asked; whether one had.
    fn serve(&self) -> bool;
}

static SERVICES: Mutex<Vec<Weak<dyn Service>>> = Mutex::new(Vec::new());

/// Offers a service for as long as it lives.
pub(crate) fn serve(mpi: &Mpi, service: Weak<dyn Service>) {
    lock(&SERVICES).push(service);
    hook(mpi);
}

/// Whether there are services.
fn has_services() -> bool {
    let mut services = lock(&SERVICES);
    services.retain(|service| service.strong_count() > 0);
    !services.is_empty()
}

/// Lets all services answer once; whether somebody had asked.
fn serve_all() -> bool {
    // MPI is called without the lock.
    let services: Vec<Arc<dyn Service>> = match lock(&SERVICES).as_slice() {
        [] => return false,
        services => services.iter().filter_map(Weak::upgrade).collect(),
    };
    services.iter().filter(|service| service.serve()).count() > 0
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How tasks are carried forward.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Thread,
    MpichHook,
    OpenMpiHook,
    /// Only while a thread of the program waits inside pario.
    WaitsOnly,
}

fn way(mpi: &Mpi) -> Way {
    let mut level = 0;
    // SAFETY: the place for the answer is valid; callers are inside an MPI call.
    unsafe { (mpi.call.Query_thread)(&mut level) };
    match mpi.family {
        _ if i64::from(level) == mpi.abi.thread_multiple => Way::Thread,
        Family::Mpich if mpi.call.Async_start.is_some() => Way::MpichHook,
        Family::OpenMpi if mpi.call.opal_progress_register.is_some() => Way::OpenMpiHook,
        _ => Way::WaitsOnly,
    }
}

/// Whether tasks go on while the program waits inside MPI.
pub(crate) fn go_on_by_themselves(mpi: &Mpi) -> bool {
    way(mpi) != Way::WaitsOnly
}

/// Adds a task; it is polled from now on.
pub(crate) fn spawn(mpi: &Mpi, task: Task) {
    lock(&ADDED).push(task);
    hook(mpi);
}

/// Polls all tasks once, and lets services answer. Does nothing if that is being done already.
pub(crate) fn poll() {
    let Ok(mut tasks) = TASKS.try_lock() else { return };
    if serve_all() {
        SERVED.store(true, Ordering::Relaxed);
    }
    tasks.append(&mut lock(&ADDED));
    if tasks.is_empty() {
        return;
    }
    let _task = OnBehalf::task();
    let mut context = Context::from_waker(Waker::noop());
    tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
}

/// Carries all tasks to their end.
pub(crate) fn finish() {
    while !is_idle() {
        poll();
        std::thread::yield_now();
    }
}

/// Whether there are no tasks.
pub(crate) fn is_idle() -> bool {
    let polled = TASKS.try_lock().is_ok_and(|tasks| tasks.is_empty());
    polled && lock(&ADDED).is_empty()
}

/// Arranges that [`poll`] is called until there are no more tasks.
fn hook(mpi: &Mpi) {
    if HOOKED.swap(true, Ordering::AcqRel) {
        return;
    }
    /// MPICH's value of `MPIX_STREAM_NULL`.
    const STREAM_NULL: usize = 0x3c00_0000;
    let poll_mpich: unsafe extern "C" fn(*mut c_void) -> c_int = on_mpich_progress;
    let poll_open_mpi: unsafe extern "C" fn() -> c_int = on_open_mpi_progress;
    match (way(mpi), mpi.call.Async_start, mpi.call.opal_progress_register) {
        (Way::Thread, ..) => drop(std::thread::spawn(poll_in_thread)),
        (Way::MpichHook, Some(start), _) => {
            // SAFETY: the function has the signature of MPIX_Async_poll_function.
            unsafe { start(poll_mpich as usize, ptr::null_mut(), STREAM_NULL) };
        }
        (Way::OpenMpiHook, _, Some(register)) => {
            // SAFETY: the function has the signature of opal_progress_callback_t.
            unsafe { register(poll_open_mpi as usize) };
        }
        _ => HOOKED.store(false, Ordering::Release),
    }
}

/// Polls from a thread of pario's.
fn poll_in_thread() {
    if let Ok(mpi) = Mpi::get() {
        panics::end_the_job(mpi, "the thread of non-blocking calls", poll_until_idle);
    }
}

/// Polls until there are neither tasks nor services.
fn poll_until_idle() {
    const PAUSE: Duration = Duration::from_micros(20);
    /// The same when there are only services, and nobody has asked for `QUIET` pauses.
    const LONG_PAUSE: Duration = Duration::from_millis(1);
    const QUIET: u32 = 1000;
    let is_over = || is_idle() && !has_services();
    let mut quiet = 0u32;
    loop {
        poll();
        if is_over() {
            HOOKED.store(false, Ordering::Release);
            // A thread that added a task meanwhile may have seen that this one is there.
            if is_over() || HOOKED.swap(true, Ordering::AcqRel) {
                return;
            }
        }
        let is_quiet = is_idle() && !SERVED.swap(false, Ordering::Relaxed);
        quiet = if is_quiet { quiet.saturating_add(1) } else { 0 };
        std::thread::sleep(if quiet > QUIET { LONG_PAUSE } else { PAUSE });
    }
}

/// Where tasks are polled, for messages.
const INSIDE_MPI: &str = "a non-blocking call, carried on inside MPI,";

/// Called by MPICH; says whether it may be forgotten.
unsafe extern "C" fn on_mpich_progress(_thing: *mut c_void) -> c_int {
    const NO_PROGRESS: c_int = 0;
    const DONE: c_int = 1;
    panics::end_the_process(INSIDE_MPI, wait::poll_inside_mpi);
    if !is_idle() || has_services() {
        return NO_PROGRESS;
    }
    HOOKED.store(false, Ordering::Release);
    DONE
}

/// Called by Open MPI; says how much went on. Stays registered: it costs one lock when idle.
unsafe extern "C" fn on_open_mpi_progress() -> c_int {
    panics::end_the_process(INSIDE_MPI, wait::poll_inside_mpi);
    0
}
