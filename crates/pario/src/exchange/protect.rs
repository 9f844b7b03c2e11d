//! Keeps plain writes apart from rewriters: ranks that read bytes of others and write them back.
//!
//! A plain write passes the gate, or locks its range where the gate is closed; a rewriter closes
//! the gate and locks. The watchdog sees both waits, and both end when a rank is lost.

use std::ops::Range;

use super::Job;
use super::gate::{Gate, Pass};
use crate::comm::{Communicator, look_until, named, pause};
use crate::error::Result;
use crate::statistics::CallStatistics;
use crate::storage::{LockGuard, LockRange};

/// Locks a range of the file, as soon as no other rank or program holds a part of it.
pub(super) async fn lock(job: &Job<'_>, range: LockRange) -> Result<LockGuard> {
    let mut tried = Ok(None);
    let is_done = || {
        tried = job.storage.try_lock(range);
        !matches!(tried, Ok(None))
    };
    let LockRange { offset, len, .. } = range;
    let awaited = || {
        let whom = format!("a lock on bytes {offset}..{}", offset.saturating_add(len));
        (whom, "does another program hold one?")
    };
    look_until(job.communicator, is_done, awaited).await?;
    let Some(guard) = tried? else {
        unreachable!("the wait has ended with a lock or an error");
    };
    // Others get their turn, and must wait for this lock.
    pause().await;
    Ok(guard)
}

impl<'a> Gate<'a> {
    /// The gate of a file that several ranks opened, if they share memory for one.
    pub(crate) fn of(communicator: &'a dyn Communicator) -> Option<Gate<'a>> {
        let numbers = communicator.region()?.numbers();
        Some(Gate::new(numbers, communicator.rank(), communicator.size()))
    }
}

/// Closes a gate until the pass is dropped, and waits for the writes that have passed it.
///
/// # Errors
/// `PeerLost` if a rank is lost meanwhile: its writes would never end.
async fn close<'a>(gate: Gate<'a>, communicator: &dyn Communicator) -> Result<Pass<'a>> {
    let closed = gate.close();
    let awaited =
        || (format!("a write of {}", named(&gate.writers())), "does storage answer there?");
    look_until(communicator, || gate.writers().is_empty(), awaited).await?;
    Ok(closed)
}

/// What a rank does to bytes of the file that other ranks may want as well.
#[derive(Clone, Copy)]
pub(super) enum Intent {
    /// It writes them.
    Write,
    /// It reads them, with bytes of others among them, and writes them back.
    Rewrite,
}

/// What keeps writers and rewriters of a file apart while it lives; nothing, by default.
#[derive(Default)]
pub(super) struct Protection<'a> {
    lock: Option<LockGuard>,
    /// A plain write has passed the gate, or a rewriter has closed it.
    pass: Option<Pass<'a>>,
}

impl Protection<'_> {
    /// Ends the protection; an error if the bytes were not protected to the end.
    pub(super) fn release(self) -> Result<()> {
        let released = self.lock.map_or(Ok(()), LockGuard::release);
        drop(self.pass);
        released
    }
}

impl<'a> Job<'a> {
    /// Protects a range of the file. A plain write passes the gate if that is open, or locks the
    /// range; no other rank writes there while a rewriter does.
    pub(super) async fn protect(
        &self,
        file: &Range<u64>,
        intent: Intent,
        statistics: &mut CallStatistics,
    ) -> Result<Protection<'a>> {
        let pass = match (Gate::of(self.communicator), intent) {
            (None, _) => None,
            (Some(gate), Intent::Write) => gate.pass(),
            (Some(gate), Intent::Rewrite) => Some(close(gate, self.communicator).await?),
        };
        if let (Intent::Write, Some(_)) = (intent, &pass) {
            return Ok(Protection { lock: None, pass });
        }
        statistics.locks += 1;
        let lock = lock(self, LockRange::exclusive(file)).await?;
        Ok(Protection { lock: Some(lock), pass })
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::super::schedule::{HEAD, RANK};
    use super::super::sync::AtomicU64;
    use super::*;
    use crate::comm::Solo;

    #[test]
    fn a_rewriter_waits_for_writers_and_keeps_new_ones_out() {
        let numbers: Vec<AtomicU64> = (0..HEAD + 2 * RANK).map(|_| AtomicU64::new(0)).collect();
        let (one, two, comm) = (Gate::new(&numbers, 0, 2), Gate::new(&numbers, 1, 2), Solo::new());
        let pass = one.pass();
        assert!(pass.is_some());
        let mut context = Context::from_waker(Waker::noop());
        let mut close = pin!(close(two, &*comm));
        assert!(close.as_mut().poll(&mut context).is_pending());
        assert!(one.pass().is_none(), "the gate is closed");
        drop(pass);
        let std::task::Poll::Ready(Ok(closed)) = close.as_mut().poll(&mut context) else {
            panic!("nobody writes any more")
        };
        assert!(one.pass().is_none(), "the gate is still closed");
        drop(closed);
        assert!(one.pass().is_some(), "the gate is open again");
    }
}
