//! Non-blocking calls as requests of the MPI library.
//!
//! Each is a generalised request: the library's own Wait and Test accept it, and ask pario for the
//! status when it has ended. It is completed at once, or where tasks make progress
//! (`crate::progress`).

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use pario::{Error, ErrorClass, Result};

use crate::binding::Mpi;

/// How a call ended.
#[derive(Clone, Copy, Default)]
pub(super) struct Ending {
    pub(super) code: c_int,
    pub(super) bytes: u64,
}

/// A request on its way.
pub(super) struct Request {
    mpi: &'static Mpi,
    request: usize,
    ending: Arc<Mutex<Ending>>,
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
        let (query, free, cancel): (Query, Free, Cancel) =
            (tell_status, free_state, cancel_nothing);
        let ending: Arc<Mutex<Ending>> = Arc::default();
        let state = Box::into_raw(Box::new((mpi, ending.clone())));
        let mut request = 0;
        // SAFETY: the callbacks have the signatures of MPI's; `free_state` takes the state back.
        let code = unsafe {
            (mpi.call.Grequest_start)(
                query as usize,
                free as usize,
                cancel as usize,
                state.cast(),
                &mut request,
            )
        };
        match code {
            0 => Ok(Request { mpi, request, ending }),
            code => {
                // SAFETY: the library has not taken the state.
                drop(unsafe { Box::from_raw(state) });
                let text = format!("MPI_Grequest_start failed with MPI error {code}");
                Err(Error::new(ErrorClass::Other, text))
            }
        }
    }

    /// The library's handle, for the program.
    pub(super) fn handle(&self) -> usize {
        self.request
    }

    /// Ends the request.
    pub(super) fn complete(self, ending: Ending) {
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = ending;
        // SAFETY: the request was started and is completed once.
        unsafe { (self.mpi.call.Grequest_complete)(self.request) };
    }
}

type State = (&'static Mpi, Arc<Mutex<Ending>>);

unsafe extern "C" fn tell_status(state: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: the state is the one that `start` boxed, alive until `free_state`.
    let (mpi, ending) = unsafe { &*state.cast::<State>() };
    let ending = *ending.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the library passes a status of its own.
    unsafe { super::transfer::set_status(mpi, status, ending.bytes) };
    ending.code
}

unsafe extern "C" fn free_state(state: *mut c_void) -> c_int {
    // SAFETY: the state is the one that `start` boxed; the library frees it once.
    drop(unsafe { Box::from_raw(state.cast::<State>()) });
    0
}

unsafe extern "C" fn cancel_nothing(_state: *mut c_void, _complete: c_int) -> c_int {
    0
}
