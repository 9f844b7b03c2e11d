//! A number that all ranks of a communicator can add to: the shared file pointer.
//!
//! On one node it lies in memory that the ranks share (`node`); between nodes it is a window of
//! MPI at rank 0.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario::comm::GateLine;
use pario::{Error, ErrorClass, Result};

use crate::binding::Mpi;
use crate::node::Segment;

pub(crate) struct Counter {
    kind: Kind,
}

enum Kind {
    /// One rank alone.
    Own(AtomicU64),
    Shared(Arc<Segment>),
    Window {
        mpi: &'static Mpi,
        window: usize,
    },
}

impl Counter {
    /// The counter of a new communicator; `lines` is what its ranks share.
    pub(crate) fn new(
        mpi: &'static Mpi,
        comm: usize,
        size: u32,
        lines: Option<Arc<Segment>>,
    ) -> Result<Counter> {
        let kind = match lines {
            _ if size == 1 => Kind::Own(AtomicU64::new(0)),
            Some(lines) => Kind::Shared(lines),
            None => Kind::Window { mpi, window: make_window(mpi, comm)? },
        };
        Ok(Counter { kind })
    }

    /// The gate for writes, where ranks share memory.
    pub(crate) fn gate(&self) -> Option<&[GateLine]> {
        match &self.kind {
            Kind::Shared(lines) => Some(lines.gate()),
            _ => None,
        }
    }

    pub(crate) fn add(&self, delta: u64) -> Result<u64> {
        match &self.kind {
            Kind::Own(value) => add_atomic(value, delta),
            Kind::Shared(lines) => add_atomic(lines.pointer(), delta),
            Kind::Window { mpi, window } => {
                let old = change_window(mpi, *window, delta, mpi.abi.sum)?;
                if old.checked_add(delta).is_some() {
                    return Ok(old);
                }
                change_window(mpi, *window, delta.wrapping_neg(), mpi.abi.sum)?;
                Err(too_far())
            }
        }
    }

    /// Forgets a counter whose ranks do not end it together.
    pub(crate) fn abandon(mut self) {
        self.kind = Kind::Own(AtomicU64::new(0));
    }

    /// Sets the value; nobody adds to it at the same time.
    pub(crate) fn set(&self, value: u64) -> Result<()> {
        match &self.kind {
            Kind::Own(place) => place.store(value, Ordering::SeqCst),
            Kind::Shared(lines) => lines.pointer().store(value, Ordering::SeqCst),
            Kind::Window { mpi, window } => {
                let old = change_window(mpi, *window, 0, mpi.abi.sum)?;
                change_window(mpi, *window, value.wrapping_sub(old), mpi.abi.sum)?;
            }
        }
        Ok(())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if let Kind::Window { mpi, window } = &mut self.kind
            && mpi.is_active()
        {
            // SAFETY: all ranks drop their counters together, when a file is closed.
            unsafe {
                (mpi.call.Win_unlock_all)(*window);
                (mpi.call.Win_free)(window);
            }
        }
    }
}

fn too_far() -> Error {
    Error::new(ErrorClass::Arg, "the shared file pointer would pass 2^64")
}

fn add_atomic(value: &AtomicU64, delta: u64) -> Result<u64> {
    let add = |value: u64| value.checked_add(delta);
    let added = value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    added.map_err(|_| too_far())
}

fn failed(what: &str, code: c_int) -> Error {
    Error::new(ErrorClass::Other, format!("shared file pointer: {what} gave MPI error {code}"))
}

fn make_window(mpi: &'static Mpi, comm: usize) -> Result<usize> {
    let (mut base, mut window) = (ptr::null_mut::<c_void>(), 0);
    let info = mpi.handle(mpi.abi.info_null);
    // SAFETY: collective over a valid communicator; all places for answers are valid.
    unsafe {
        let code = (mpi.call.Win_allocate)(8, 8, info, comm, &mut base, &mut window);
        if code != 0 {
            return Err(failed("MPI_Win_allocate", code));
        }
        (mpi.call.Win_lock_all)(0, window);
        base.cast::<u64>().write(0);
        (mpi.call.Win_sync)(window);
        // Nobody adds to a number that its rank has yet to set.
        match (mpi.call.Barrier)(comm) {
            0 => Ok(window),
            code => Err(failed("MPI_Barrier", code)),
        }
    }
}

fn change_window(
    mpi: &Mpi,
    window: usize,
    delta: u64,
    operation: crate::abi::Handle,
) -> Result<u64> {
    let mut old = 0u64;
    let number = mpi.handle(mpi.abi.long_long);
    // SAFETY: the window is locked for all ranks; the places are valid until the flush.
    let code = unsafe {
        (mpi.call.Fetch_and_op)(
            (&raw const delta).cast(),
            (&raw mut old).cast(),
            number,
            0,
            0,
            mpi.handle(operation),
            window,
        );
        (mpi.call.Win_flush)(0, window)
    };
    match code {
        0 => Ok(old),
        code => Err(failed("MPI_Fetch_and_op", code)),
    }
}
