//! Keeps plain writes apart from rewriters: ranks that read bytes of others and write them back.
//!
//! A plain write passes the gate, or locks its range where the gate is closed; a rewriter closes
//! the gate and locks. The watchdog sees both waits, and both end when a rank is lost.

use std::ops::Range;

use super::Job;
use super::gate::{Gate, Pass};
use crate::comm::{look_until, pause};
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

/// What keeps writers and rewriters of a file apart while it lives.
pub(super) enum Protection<'a> {
    /// The write has passed the gate.
    Passed { _pass: Pass<'a> },
    /// The range is locked; a rewriter has closed the gate as well.
    Locked { lock: LockGuard, closed: Option<Pass<'a>> },
}

impl Protection<'_> {
    /// Ends the protection; an error if the bytes were not protected to the end.
    pub(super) fn release(self) -> Result<()> {
        match self {
            Protection::Passed { .. } => Ok(()),
            Protection::Locked { lock, closed } => {
                let released = lock.release();
                drop(closed);
                released
            }
        }
    }
}

impl<'a> Job<'a> {
    /// Protects a plain write: it passes the gate if that is open, or locks its range.
    pub(super) async fn protect_write(
        &self,
        file: &Range<u64>,
        statistics: &mut CallStatistics,
    ) -> Result<Protection<'a>> {
        if let Some(pass) = Gate::of(self.communicator).and_then(Gate::pass) {
            return Ok(Protection::Passed { _pass: pass });
        }
        statistics.locks += 1;
        let range = LockRange::exclusive(file);
        Ok(Protection::Locked { lock: lock(self, range).await?, closed: None })
    }

    /// Protects a rewrite of bytes of others: no other rank writes them meanwhile.
    pub(super) async fn protect_rewrite(
        &self,
        file: &Range<u64>,
        statistics: &mut CallStatistics,
    ) -> Result<Protection<'a>> {
        let closed = match Gate::of(self.communicator) {
            Some(gate) => Some(gate.close(self.communicator).await?),
            None => None,
        };
        statistics.locks += 1;
        let range = LockRange::exclusive(file);
        Ok(Protection::Locked { lock: lock(self, range).await?, closed })
    }
}
