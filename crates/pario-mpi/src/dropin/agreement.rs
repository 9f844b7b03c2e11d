//! What all ranks say of a non-blocking collective of which each has done its own part at once.
//!
//! That is so where nothing calls pario while a rank waits inside MPI (`progress`). One byte of
//! each rank, the class of its error, goes to all others by `MPI_Iallgather`, which MPI carries
//! forward by itself, also while a rank waits in `MPI_Recv`.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pario::{Communicator, Error, ErrorClass, Result, Status};

use crate::binding::Mpi;
use crate::messages::StatusRoom;

/// An agreement on its way.
pub(super) struct Agreement {
    mpi: &'static Mpi,
    state: Mutex<AgreementState>,
}

struct AgreementState {
    request: usize,
    /// This rank's byte, and the bytes of all ranks; MPI uses them until it is done.
    bytes: Option<(Box<u8>, Vec<u8>)>,
    /// What was agreed on, once that is known.
    outcome: Option<Option<ErrorClass>>,
}

/// What a rank says that has no error.
const GOOD: u8 = u8::MAX;

impl Agreement {
    /// Begins it, on all ranks in the order of their calls.
    ///
    /// # Errors
    /// `Other` if MPI does not begin it.
    pub(super) fn begin(
        mpi: &'static Mpi,
        communicator: &dyn Communicator,
        own: Option<ErrorClass>,
    ) -> Result<Agreement> {
        let (comm, ranks) = (communicator.group().handle, communicator.group().nodes.len());
        let own = Box::new(own.map_or(GOOD, ErrorClass::number));
        let mut all = vec![GOOD; ranks];
        let (byte, mut request) = (mpi.handle(mpi.abi.byte), 0);
        // SAFETY: the communicator is pario's own and alive while the file is open; the bytes stay
        // where they are until MPI is done, as `State` and `Drop` see to.
        let code = unsafe {
            let (from, to) = ((&raw const *own).cast(), all.as_mut_ptr().cast());
            (mpi.call.Iallgather)(from, 1, byte, to, 1, byte, comm, &mut request)
        };
        if code != 0 {
            let text = format!("MPI_Iallgather failed with MPI error {code}");
            return Err(Error::new(ErrorClass::Other, text));
        }
        let state = AgreementState { request, bytes: Some((own, all)), outcome: None };
        Ok(Agreement { mpi, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, AgreementState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most specific class of all ranks' errors, or none; `None` if it is not known yet. Lets
    /// MPI go on.
    pub(super) fn poll(&self) -> Option<Option<ErrorClass>> {
        let mut state = self.state();
        if state.outcome.is_none() {
            let (mut flag, mut status): (c_int, _) = (0, StatusRoom::new());
            // SAFETY: the request is the one that was begun, and not done yet.
            let code =
                unsafe { (self.mpi.call.Test)(&mut state.request, &mut flag, status.as_mut_ptr()) };
            if code != 0 {
                state.outcome = Some(Some(ErrorClass::Other));
            } else if flag != 0 {
                let bytes = state.bytes.take();
                let classes = bytes.iter().flat_map(|(_, all)| all).filter(|&&one| one != GOOD);
                state.outcome = Some(classes.map(|&one| ErrorClass::of_number(one)).max());
            }
        }
        state.outcome
    }

    /// Waits for its end.
    pub(super) fn finish(&self) {
        while self.poll().is_none() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Agreement {
    fn drop(&mut self) {
        // MPI may still write to them: better a few bytes lost.
        if let Some(bytes) = self.state().bytes.take() {
            std::mem::forget(bytes);
        }
    }
}

/// The outcome of a call by that of its own rank and what was agreed on.
pub(super) fn agreed(own: Result<Status>, all: Option<ErrorClass>) -> Result<Status> {
    let Some(class) = all else { return own };
    match own {
        Err(error) if error.class() == class => Err(error),
        own => {
            let moved = own.as_ref().map_or_else(Error::moved, |status| status.bytes);
            let text = "a non-blocking collective failed on another rank, which has the reason";
            Err(Error::new(class, text).after_moving(moved))
        }
    }
}
