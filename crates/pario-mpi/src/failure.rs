//! An error of the transport, which is an error of all ranks.
//!
//! A rank whose message failed leaves its collective in the middle, and the others would wait for
//! it. So it notifies them: ranks of its node through the memory that they share, all others by a
//! short MPI message. A rank that waits looks for both. From then on the communicator is not used:
//! each of its calls gives the same error on every rank.
//!
//! A failure in the last message of a call is known to its receiver alone, since no other rank
//! waits any more. The others have completed the call, and get the error from the next one.
//!
//! Cost: nothing while messages arrive; otherwise a load for each look, and a call of MPI for one
//! in [`LOOKS`] looks.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use pario::{Error, ErrorClass, Result};

use crate::binding::Mpi;
use crate::comm::check;
use crate::messages::{StatusRoom, number};
use crate::panics;

/// The highest tag that every MPI library has. No message has it: it would be of a fourth lane.
const TAG: c_int = 32767;
/// Longest text of an error in a notice.
pub(crate) const TEXT_BYTES_MAX: usize = 200;
/// How often a rank that waits looks for a message that did not come, before it looks for a notice.
const LOOKS: u32 = 16;

/// What one rank knows of the transport of a communicator.
pub(crate) struct Failure {
    mpi: &'static Mpi,
    comm: usize,
    known: OnceLock<Error>,
    looks: AtomicU32,
}

/// An error of the transport: all have one class.
pub(crate) fn of_transport(rank: u32, text: &str) -> Error {
    Error::new(ErrorClass::Other, text).on_rank(rank)
}

/// A text of at most [`TEXT_BYTES_MAX`] bytes.
pub(crate) fn short(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

impl Failure {
    pub(crate) fn new(mpi: &'static Mpi, comm: usize) -> Failure {
        Failure { mpi, comm, known: OnceLock::new(), looks: AtomicU32::new(0) }
    }

    /// The error, if there is one.
    pub(crate) fn known(&self) -> Option<Error> {
        self.known.get().cloned()
    }

    /// Remembers an error that this rank has heard of.
    pub(crate) fn learn(&self, error: Error) -> Error {
        self.known.get_or_init(|| error).clone()
    }

    /// Remembers an error that this rank has got; returns whether it is the first one.
    pub(crate) fn meet(&self, error: &Error) -> bool {
        self.known.set(error.clone()).is_ok()
    }

    /// Notifies ranks by MPI. If that fails for all, the job ends: they would wait for ever.
    pub(crate) fn tell(&self, own: u32, text: &str, ranks: &[u32]) {
        // MPI may need it for as long as it lives.
        let notice: &'static [u8] = [&own.to_le_bytes(), short(text).as_bytes()].concat().leak();
        let mut told = false;
        for &rank in ranks {
            let mut request = 0;
            let byte = self.mpi.handle(self.mpi.abi.byte);
            // SAFETY: the bytes are never freed; the communicator is not freed after a failure.
            let code = unsafe {
                (self.mpi.call.Isend)(
                    notice.as_ptr().cast(),
                    number(notice.len()),
                    byte,
                    number(rank),
                    TAG,
                    self.comm,
                    &mut request,
                )
            };
            told |= code == 0;
        }
        if !told && !ranks.is_empty() {
            let text = format!("{text}; no other rank can be notified, so the job ends");
            panics::print(&format!("pario: rank {own}: {text}\n"));
            crate::universe::abort(self.mpi, 1);
        }
    }

    /// The failure that another rank has reported by MPI, if any; looks once in [`LOOKS`] calls.
    ///
    /// # Errors
    /// If MPI cannot even be asked.
    pub(crate) fn look(&self) -> Result<Option<Error>> {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if !looks.is_multiple_of(LOOKS) {
            return Ok(None);
        }
        let (mut found, mut message, mut status) = (0, 0usize, StatusRoom::new());
        let (any, call) = (number(self.mpi.abi.any_source), &self.mpi.call);
        // SAFETY: all places for answers are valid; the communicator is alive.
        let code = unsafe {
            (call.Improbe)(any, TAG, self.comm, &mut found, &mut message, status.as_mut_ptr())
        };
        check(code, "MPI_Improbe")?;
        Ok((found != 0).then(|| self.receive(message)))
    }

    /// Takes a notice that is here.
    fn receive(&self, mut message: usize) -> Error {
        const ROOM: usize = 4 + TEXT_BYTES_MAX;
        // If it cannot be received now, MPI may write to it later.
        let room: &'static mut [u8; ROOM] = Box::leak(Box::new([0; ROOM]));
        let (mut request, mut done, mut status) = (0, 0, StatusRoom::new());
        let (byte, call) = (self.mpi.handle(self.mpi.abi.byte), &self.mpi.call);
        // SAFETY: there is room for the longest notice, which is never freed.
        let received = unsafe {
            let target = room.as_mut_ptr().cast();
            let mut code = (call.Imrecv)(target, number(ROOM), byte, &mut message, &mut request);
            while code == 0 && done == 0 {
                code = (call.Test)(&mut request, &mut done, status.as_mut_ptr());
            }
            code == 0
        };
        let (rank, text) = room.split_at(4);
        let rank = u32::from_le_bytes(rank.try_into().unwrap_or_default());
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        match received {
            true => of_transport(rank, &String::from_utf8_lossy(&text[..end])),
            false => {
                Error::new(ErrorClass::Other, "another rank has met an error of the transport")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_letters() {
        assert_eq!(short("short"), "short");
        let long = format!("a{}", "ä".repeat(TEXT_BYTES_MAX));
        assert_eq!(short(&long).len(), TEXT_BYTES_MAX - 1);
    }
}
