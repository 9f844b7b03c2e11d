//! A number on which threads of several processes sleep until it changes (`futex`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

/// The number. Zeroed memory is one.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct Futex(AtomicU32);

impl Futex {
    pub(super) fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    pub(super) fn fetch_add(&self, added: u32, order: Ordering) -> u32 {
        self.0.fetch_add(added, order)
    }

    /// Sleeps until it is woken or `longest` has passed; not at all if the number is another one
    /// by now. It may also wake without a reason.
    pub(super) fn wait(&self, expected: u32, longest: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        // All its errors (another number, interrupted, time passed) mean: look again.
        let _ = futex::wait(&self.0, Flags::empty(), expected, Some(&timeout));
    }

    /// Wakes all threads that sleep on the number.
    pub(super) fn wake_all(&self) {
        // It fails for addresses that are not mapped only.
        let _ = futex::wake(&self.0, Flags::empty(), i32::MAX.unsigned_abs());
    }
}
