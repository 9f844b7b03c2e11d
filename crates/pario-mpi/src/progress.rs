//! Makes progress on non-blocking calls while the program does something else.
//!
//! Below `MPI_THREAD_MULTIPLE` pario starts no thread that calls MPI. Tasks are polled by the
//! program's own threads: whenever one of them waits inside pario, and, where the MPI library has a
//! hook for it, whenever it waits inside MPI (`MPIX_Async_start` of MPICH 5,
//! `opal_progress_register` of Open MPI). MPICH's hook must not be used with
//! `MPI_THREAD_MULTIPLE`, since it is called with a lock held; there, a request of pario's has
//! functions of its own, which MPICH calls while a thread waits for it (`dropin::requests`).
//!
//! With `MPI_THREAD_MULTIPLE` a thread of pario's stands by: it polls tasks while no thread of the
//! program does. It sleeps on the doorbell of the process, and for good while there are no tasks.
//!
//! What other ranks ask this one for ([`Service`]) is answered in the same ways.
//!
//! Either way a rank takes part in its non-blocking collectives while it waits in `MPI_Recv`.
//! Without that a legal program could wait for ever. Where neither is possible
//! ([`go_on_by_themselves`] is false), each rank does its part of a non-blocking collective alone.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Waker};
use std::thread::Thread;
use std::time::Duration;

use pario::comm::Task;

use crate::abi::Family;
use crate::binding::Mpi;
use crate::node::doorbells;
use crate::node::traffic::OnBehalf;
use crate::panics;
use crate::wait::{self, Awaited};

static TASKS: Mutex<Vec<Task>> = Mutex::new(Vec::new());
/// Tasks that were added while others were polled.
static ADDED: Mutex<Vec<Task>> = Mutex::new(Vec::new());
/// Whether MPI calls [`poll`] while a thread of the program waits inside it.
static HOOKED: AtomicBool = AtomicBool::new(false);
/// How often threads of the program have polled.
static ATTENDED: AtomicU64 = AtomicU64::new(0);
/// The thread that stands by.
static STANDS_BY: OnceLock<Option<Thread>> = OnceLock::new();
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
enum Drive {
    Thread,
    MpichHook,
    OpenMpiHook,
    /// Only while a thread of the program waits inside pario.
    WaitsOnly,
}

fn way(mpi: &Mpi) -> Drive {
    let mut level = 0;
    // SAFETY: the place for the answer is valid; callers are inside an MPI call.
    unsafe { (mpi.call.Query_thread)(&mut level) };
    match mpi.family {
        _ if i64::from(level) == mpi.abi.thread_multiple => Drive::Thread,
        Family::Mpich if mpi.call.Async_start.is_some() => Drive::MpichHook,
        Family::OpenMpi if mpi.call.opal_progress_register.is_some() => Drive::OpenMpiHook,
        _ => Drive::WaitsOnly,
    }
}

/// Whether tasks go on while the program waits inside MPI.
pub(crate) fn go_on_by_themselves(mpi: &Mpi) -> bool {
    way(mpi) != Drive::WaitsOnly
}

/// Adds a task; it is polled from now on.
pub(crate) fn spawn(mpi: &Mpi, task: Task) {
    lock(&ADDED).push(task);
    hook(mpi);
}

thread_local! {
    static IS_POLLING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is polling: MPI may call it back from any of its functions.
pub(crate) fn is_polling() -> bool {
    IS_POLLING.get()
}

/// Polls all tasks once, on a thread of the program.
pub(crate) fn poll() {
    // A lost count does not matter: what counts is that it changes.
    ATTENDED.store(ATTENDED.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    poll_once();
}

/// Polls all tasks once, and lets services answer. Does nothing if that is being done already.
fn poll_once() {
    let Ok(mut tasks) = TASKS.try_lock() else { return };
    IS_POLLING.set(true);
    poll_locked(&mut tasks);
    IS_POLLING.set(false);
}

fn poll_locked(tasks: &mut Vec<Task>) {
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

/// Arranges that tasks are polled until there are no more of them.
fn hook(mpi: &Mpi) {
    /// MPICH's value of `MPIX_STREAM_NULL`.
    const STREAM_NULL: usize = 0x3c00_0000;
    let way = way(mpi);
    if way == Drive::Thread {
        let thread = STANDS_BY.get_or_init(|| {
            let started =
                std::thread::Builder::new().name("pario".into()).spawn(stand_by_in_thread);
            started.ok().map(|handle| handle.thread().clone())
        });
        thread.iter().for_each(Thread::unpark);
    }
    let poll_mpich: unsafe extern "C" fn(*mut c_void) -> c_int = on_mpich_progress;
    let poll_open_mpi: unsafe extern "C" fn() -> c_int = on_open_mpi_progress;
    match (way, mpi.call.Async_start, mpi.call.opal_progress_register) {
        _ if HOOKED.swap(true, Ordering::AcqRel) => {}
        (Drive::MpichHook, Some(start), _) => {
            // SAFETY: the function has the signature of MPIX_Async_poll_function.
            unsafe { start(poll_mpich as usize, ptr::null_mut(), STREAM_NULL) };
        }
        (Drive::OpenMpiHook | Drive::Thread, _, Some(register)) => {
            // SAFETY: the function has the signature of opal_progress_callback_t.
            unsafe { register(poll_open_mpi as usize) };
        }
        _ => HOOKED.store(false, Ordering::Release),
    }
}

/// Stands by in a thread of pario's.
fn stand_by_in_thread() {
    if let Ok(mpi) = Mpi::get() {
        panics::end_the_job(mpi, "the thread of non-blocking calls", stand_by);
    }
}

/// Polls whenever there are tasks or services, and no thread of the program polls.
fn stand_by() {
    /// After a thread of the program has polled, it is likely to do so again.
    const ATTENDED_PAUSE: Duration = Duration::from_millis(1);
    let mut attended = ATTENDED.load(Ordering::Relaxed);
    let mut quiet = 0u32;
    loop {
        if is_idle() && !has_services() {
            // `hook` unparks, also if it is called before this.
            std::thread::park();
        }
        let now = ATTENDED.load(Ordering::Relaxed);
        if std::mem::replace(&mut attended, now) != now {
            std::thread::sleep(ATTENDED_PAUSE);
            continue;
        }
        let listening = doorbells::own().listen();
        poll_once();
        if !wait::has_got() {
            let is_quiet = is_idle() && !SERVED.swap(false, Ordering::Relaxed);
            quiet = if is_quiet { quiet.saturating_add(1) } else { 0 };
            listening.sleep(wait::pause_in_background(quiet));
        }
    }
}

/// Where tasks are polled, for messages.
const INSIDE_MPI: &str = "a non-blocking call, carried on inside MPI,";

/// Called by MPICH; says whether it may be forgotten.
unsafe extern "C" fn on_mpich_progress(_thing: *mut c_void) -> c_int {
    const NO_PROGRESS: c_int = 0;
    const DONE: c_int = 1;
    panics::end_the_process(INSIDE_MPI, || wait::poll_inside_mpi(Awaited::Anything));
    if !is_idle() || has_services() {
        return NO_PROGRESS;
    }
    HOOKED.store(false, Ordering::Release);
    DONE
}

/// Called by Open MPI; says how much went on. Stays registered: it costs one lock when idle.
unsafe extern "C" fn on_open_mpi_progress() -> c_int {
    panics::end_the_process(INSIDE_MPI, || wait::poll_inside_mpi(Awaited::Anything));
    0
}
