//! Non-blocking calls as requests of the MPI library.
//!
//! Each is a generalised request: the library's own Wait and Test accept it, and ask pario for the
//! status when it has ended. It is completed at once, or where tasks make progress
//! (`crate::progress`).
//!
//! MPICH calls functions of a request while a thread waits for it or tests it, if it is given any
//! (`MPIX_Grequest_start`). So the thread that waits carries the call forward, and sleeps if there
//! is nothing to do. MPICH holds no lock then.
//!
//! Where each rank has done its own part at once, the same functions end the request when all ranks
//! have agreed on the outcome (`agreement`). A program may free the request and never ask for it:
//! then the close of the file ends it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pario::{Error, ErrorClass, Result, Status};

use super::agreement::{Agreement, agreed};
use super::files::{OpenFile, Unfinished};
use super::transfer::ending;
use crate::abi::Family;
use crate::binding::Mpi;
use crate::node::doorbells;
use crate::panics;
use crate::wait::Asked;

/// How a call ended.
#[derive(Clone, Copy, Default)]
pub(super) struct Ending {
    pub(super) code: c_int,
    pub(super) bytes: u64,
}

/// A request on its way.
pub(super) struct Request {
    request: usize,
    state: Arc<RequestState>,
}

/// What pario knows of a request, as long as it or the library needs it.
pub(super) struct RequestState {
    mpi: &'static Mpi,
    ending: Mutex<Ending>,
    has_ended: AtomicBool,
    part: Mutex<Option<CollectivePart>>,
}

/// This rank's part of a collective, which is done; its outcome is that of all ranks.
struct CollectivePart {
    request: usize,
    open: Arc<OpenFile>,
    own: Result<Status>,
    agreement: Agreement,
}

impl Request {
    /// Starts a request.
    ///
    /// # Errors
    /// `Other` if the MPI library does not start one.
    pub(super) fn start(mpi: &'static Mpi) -> Result<Request> {
        type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
        type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
        type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
        type Wait = unsafe extern "C" fn(c_int, *mut *mut c_void, f64, *mut c_void) -> c_int;
        let (query, free, cancel): (Query, Free, Cancel) =
            (tell_status, free_state, cancel_nothing);
        let (query, free, cancel) = (query as usize, free as usize, cancel as usize);
        let (poll, wait): (Query, Wait) = (poll_request, wait_for_requests);
        let ending = Mutex::new(Ending::default());
        let (has_ended, part) = (AtomicBool::new(false), Mutex::new(None));
        let state = Arc::new(RequestState { mpi, ending, has_ended, part });
        let kept = Arc::into_raw(state.clone()).cast_mut().cast();
        let extended = mpi.call.MPIX_Grequest_start.filter(|_| Request::is_polled(mpi));
        let mut request = 0;
        // SAFETY: the callbacks have the signatures of MPI's, and MPICH's for the extended ones;
        // `free_state` takes the state back.
        let code = unsafe {
            match extended {
                Some(start) => {
                    start(query, free, cancel, poll as usize, wait as usize, kept, &mut request)
                }
                None => (mpi.call.Grequest_start)(query, free, cancel, kept, &mut request),
            }
        };
        match code {
            0 => Ok(Request { request, state }),
            code => {
                // SAFETY: the library has not taken the state.
                drop(unsafe { Arc::from_raw(kept.cast::<RequestState>()) });
                let text = format!("MPI_Grequest_start failed with MPI error {code}");
                Err(Error::new(ErrorClass::Other, text))
            }
        }
    }

    /// Whether the library calls functions of a request while a thread waits for it.
    pub(super) fn is_polled(mpi: &Mpi) -> bool {
        mpi.family != Family::OpenMpi && mpi.call.MPIX_Grequest_start.is_some()
    }

    /// The library's handle, for the program.
    pub(super) fn handle(&self) -> usize {
        self.request
    }

    /// Ends the request.
    pub(super) fn complete(self, ending: Ending) {
        self.state.complete(self.request, ending);
    }

    /// Ends the request when all ranks have agreed on the outcome.
    pub(super) fn complete_together(
        self,
        open: Arc<OpenFile>,
        own: Result<Status>,
        agreement: Agreement,
    ) {
        let part = CollectivePart { request: self.request, open: open.clone(), own, agreement };
        *self.state.part() = Some(part);
        open.keep(Unfinished::Request(self.state));
    }
}

impl RequestState {
    fn complete(&self, request: usize, ending: Ending) {
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = ending;
        // SAFETY: the request was started and is completed once.
        unsafe { (self.mpi.call.Grequest_complete)(request) };
        self.has_ended.store(true, Ordering::Release);
        // The thread that waits for it may be another one, and asleep.
        doorbells::own().ring();
    }

    fn part(&self) -> MutexGuard<'_, Option<CollectivePart>> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Waits until all ranks have agreed. From then on somebody ends the request, who may be the
    /// caller: an error handler may close the file of the call that failed.
    pub(super) fn finish(&self) {
        while self.part().is_some() {
            self.poll();
        }
    }

    /// Carries forward what the request waits for.
    fn poll(&self) {
        let mut part = self.part();
        let Some(outcome) = part.as_ref().map(|part| part.agreement.poll()) else {
            drop(part);
            return Asked::alone(self.mpi).poll_for_request();
        };
        let Some(class) = outcome else {
            drop(part);
            // MPI has gone on; another rank may need this core.
            return std::thread::yield_now();
        };
        let ended = part.take();
        drop(part);
        if let Some(CollectivePart { request, open, own, .. }) = ended {
            let all = agreed(own, class);
            self.complete(request, ending(open, &all));
        }
    }
}

unsafe extern "C" fn tell_status(state: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: the state is the one that `start` kept, alive until `free_state`.
    let state = unsafe { &*state.cast::<RequestState>() };
    let ending = *state.ending.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the library passes a status of its own.
    unsafe { super::transfer::set_status(state.mpi, status, ending.bytes) };
    ending.code
}

unsafe extern "C" fn free_state(state: *mut c_void) -> c_int {
    // SAFETY: the state is the one that `start` kept; the library frees it once.
    drop(unsafe { Arc::from_raw(state.cast::<RequestState>()) });
    0
}

unsafe extern "C" fn cancel_nothing(_state: *mut c_void, _complete: c_int) -> c_int {
    0
}

/// Called by MPICH again and again while a thread waits for a request, and once when it tests it.
unsafe extern "C" fn poll_request(state: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: the state is the one that `start` kept, alive until `free_state`.
    let state = unsafe { &*state.cast::<RequestState>() };
    let place = "a thread that waits for a non-blocking call";
    panics::end_the_job(state.mpi, place, || state.poll());
    0
}

/// Called by MPICH when a thread waits for all of several requests.
unsafe extern "C" fn wait_for_requests(
    count: c_int,
    states: *mut *mut c_void,
    _seconds: f64,
    status: *mut c_void,
) -> c_int {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the library passes this number of states, which `start` kept.
        let (place, state) =
            unsafe { (*states.add(index), &*(*states.add(index)).cast::<RequestState>()) };
        while !state.has_ended() {
            // SAFETY: as above.
            unsafe { poll_request(place, status) };
        }
    }
    0
}
