//! What a sync has to do, and with whom.
//!
//! `MPI_File_sync` moves what the calling rank wrote to the device (MPI-4.1, section 14.6.1). It is
//! collective, but it is no barrier: ranks that want to see each other's bytes sync, meet, and sync
//! again. So a rank syncs by itself, and only if it has written since its last sync.
//!
//! In a collective write, other ranks may store bytes of this one. All of its ranks count as
//! writers. None leaves it before all bytes are stored, and the ranks of a node have one cache: the
//! sync of any rank moves what all of them stored. Another node has a cache of its own. After a
//! collective write, or a change of the size, of ranks on several nodes, every rank syncs, and no
//! rank returns before all have. This is known to all ranks, so all of them meet or none does.
//!
//! A rank whose sync fails returns the error at once. Ranks that did not wait for it get an error
//! of the same class from their next sync if they share memory or meet there, and from the close
//! in any case.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::handle::Handle;
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::exchange::SYNC_FAILED;

/// What has changed since the last sync, as one rank knows it.
#[derive(Default)]
pub(super) struct Unsynced {
    /// Writes that have ended. Only that the number changes has a meaning.
    writes: AtomicU64,
    /// That number at the beginning of the last sync that went well.
    synced: AtomicU64,
    /// Whether another node may have stored bytes of this rank; the same on all ranks.
    elsewhere: AtomicBool,
    /// The first error of a sync of this rank.
    failure: Mutex<Option<Error>>,
}

impl Unsynced {
    /// This rank, or a rank of its node in a collective of both, may have changed the file. Called
    /// after the change: a sync that begins in between need not move it, and the next one does.
    pub(super) fn changed(&self) {
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    fn is_synced(&self) -> bool {
        self.synced.load(Ordering::SeqCst) == self.writes.load(Ordering::SeqCst)
    }

    fn keep(&self, error: &Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| error.clone());
    }

    /// The error of a sync that failed on this rank, for the close.
    pub(super) fn failure(&self) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map_or(Ok(()), |first| Err(failed_before(first.class(), first)))
    }
}

impl Handle {
    /// Moves written bytes to the device; all ranks call it. It is no barrier: see [`File::sync`].
    ///
    /// # Errors
    /// What the storage says. A failed sync is never retried: later ones fail too, and so does the
    /// close, on all ranks.
    ///
    /// [`File::sync`]: super::File::sync
    pub async fn sync(&self) -> Result<()> {
        self.wait_for(self.running()).await;
        if !self.unsynced.elsewhere.load(Ordering::SeqCst) {
            return self.sync_own().map_err(|error| self.explain(error));
        }
        let call = self.next_call();
        let own = self.sync_own();
        self.enter(call, "sync", own.map(|()| 0)).await?;
        self.unsynced.elsewhere.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// As [`Handle::sync`], if that takes no time; `None` otherwise.
    pub(super) fn sync_briefly(&self) -> Option<Result<()>> {
        let waits = self.unsynced.elsewhere.load(Ordering::SeqCst) || !self.running().is_empty();
        let is_brief = !waits && (self.facts.in_memory || self.unsynced.is_synced());
        is_brief.then(|| self.sync_own().map_err(|error| self.explain(error)))
    }

    /// Syncs what this rank may have changed. An error of another rank that this one can see is its
    /// own as well.
    fn sync_own(&self) -> Result<()> {
        let unsynced = &self.unsynced;
        if self.mode.write && !unsynced.is_synced() {
            let writes = unsynced.writes.load(Ordering::SeqCst);
            self.storage.sync().inspect_err(|error| {
                unsynced.keep(error);
                publish(&*self.communicator, error);
            })?;
            // One that began earlier and ends later lets the next do too much, never too little.
            unsynced.synced.store(writes, Ordering::Release);
        }
        published(&*self.communicator)
    }

    /// A collective has changed the file, or will: bytes of this rank may be on another node. All
    /// ranks call it in the same collectives.
    pub(super) fn changed_together(&self) {
        let nodes = &self.facts.nodes;
        if nodes.iter().any(|node| *node != nodes[0]) {
            self.unsynced.elsewhere.store(true, Ordering::SeqCst);
        }
    }
}

fn failed_before(class: ErrorClass, what: impl std::fmt::Display) -> Error {
    let text = format!("sync: failed before, so written bytes may be lost: {what}");
    Error::new(class, text)
}

/// Lets the ranks that share memory with this one know that its sync has failed. The first failure
/// stays.
fn publish(communicator: &dyn Communicator, error: &Error) {
    let Some(region) = communicator.region() else { return };
    let [a, b, c, d] = communicator.rank().to_le_bytes();
    let notice = u64::from_le_bytes([1, error.class().number(), a, b, c, d, 0, 0]);
    let number = &region.numbers()[SYNC_FAILED];
    let _ = number.compare_exchange(0, notice, Ordering::SeqCst, Ordering::SeqCst);
}

/// An error if the sync of a rank that shares memory with this one has failed.
fn published(communicator: &dyn Communicator) -> Result<()> {
    let Some(region) = communicator.region() else { return Ok(()) };
    let notice = region.numbers()[SYNC_FAILED].load(Ordering::SeqCst);
    if notice == 0 {
        return Ok(());
    }
    let [_, class, a, b, c, d, ..] = notice.to_le_bytes();
    let rank = u32::from_le_bytes([a, b, c, d]);
    Err(failed_before(ErrorClass::of_number(class), format!("on rank {rank}")))
}

/// Forgets failures of the file that was open before on this communicator. One rank calls it,
/// before any can sync.
pub(super) fn forget_failures(communicator: &dyn Communicator) {
    if let Some(region) = communicator.region() {
        region.numbers()[SYNC_FAILED].store(0, Ordering::SeqCst);
    }
}
