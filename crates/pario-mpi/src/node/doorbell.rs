//! The doorbell of a process: how a rank waits, and how others wake it.
//!
//! A doorbell counts its rings and its listeners.
//!
//! * A rank that waits becomes a listener and reads the number of rings; looks once more for what
//!   it waits for; and sleeps unless the number of rings has changed (a futex compares and sleeps
//!   in one step).
//! * A rank that rings first publishes what there is to see; looks for listeners; and, if there are
//!   any, adds a ring and wakes them.
//!
//! No ring is lost. There is a sequentially consistent fence between the first two steps on each
//! side. So the listener sees what was published, or the ringer sees the listener. In the second
//! case the ring comes before the listener reads the number, and the listener looks after it; or it
//! changes the number, and the listener does not sleep, or is woken.
//!
//! Cost: a fence and a load for a ring without listeners, a system call otherwise.
//!
//! A model checker includes this file as it is (`pario-loom`).

use std::time::Duration;

use super::futex::Futex;
use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// What a process listens to. Zeroed memory is one.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Doorbell {
    /// Says whose it is.
    pub(super) nonce: AtomicU64,
    pub(super) rings: Futex,
    listeners: AtomicU32,
}

impl Doorbell {
    /// Wakes all listeners, and makes everything done before visible to them.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.listeners.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.rings.wake_all();
    }

    /// From now on rings are heard.
    pub(crate) fn listen(&self) -> Listening<'_> {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        let heard = self.rings.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Listening { doorbell: self, heard }
    }
}

/// Somebody who hears a doorbell.
pub(crate) struct Listening<'a> {
    doorbell: &'a Doorbell,
    heard: u32,
}

impl Listening<'_> {
    /// Sleeps until the doorbell has been rung since this began to listen, or `longest` has passed.
    /// It may also wake without a reason.
    pub(crate) fn sleep(&self, longest: Duration) {
        self.doorbell.rings.wait(self.heard, longest);
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.doorbell.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}
