//! A driver that makes its device slower than it is.
//!
//! Shows on a fast machine what a strategy does to a disk: an access takes the time that it took on
//! the devices of the papers, `T = latency + bytes / bandwidth`.
//!
//! There is one device: all opens of all files wait for the same arm, so two writers get half the
//! bandwidth each. An access costs its latency each time; a list costs it once for each run of
//! adjacent pieces, as holes are what a disk pays for. `size` and `try_lock` are free: a server
//! answers them from memory.
//!
//! Cost: threads sleep until the emulated device would be done. What the real device needs is
//! part of that time, so results are right as long as the real device is the faster one. Sleeps
//! end late by some tens of microseconds.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{
    Capabilities, Deletion, Driver, LockGuard, LockRange, OpenMode, Storage, adjacent, file_len,
    total_len,
};
use crate::error::{Error, Result};

/// How slow the device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleLimits {
    /// What an access costs before its first byte moves.
    pub latency: Duration,
    /// How many bytes move in a second; zero stands for no limit.
    pub bytes_per_second: u64,
}

impl ThrottleLimits {
    /// How long the device is busy with this number of accesses and bytes.
    fn cost(self, accesses: usize, bytes: u64) -> Duration {
        let latency = self.latency.saturating_mul(u32::try_from(accesses).unwrap_or(u32::MAX));
        let nanoseconds = u128::from(bytes) * 1_000_000_000;
        let nanoseconds = nanoseconds.checked_div(self.bytes_per_second.into()).unwrap_or(0);
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        latency.saturating_add(Duration::from_nanos(nanoseconds))
    }
}

/// Wraps a driver and slows it down; clones share the device.
///
/// ```
/// use pario::storage::{Driver, Memory, OpenMode, Throttle, ThrottleLimits};
/// use std::{path::Path, sync::Arc, time::{Duration, Instant}};
///
/// let limits = ThrottleLimits { latency: Duration::from_micros(1), bytes_per_second: 0 };
/// let disk = Throttle::new(Arc::new(Memory::new()), limits);
/// let begin = Instant::now();
/// let mode = OpenMode { write: true, create: true, ..OpenMode::default() };
/// disk.open(Path::new("a"), mode)?.write_at(0, b"abc")?;
/// assert!(begin.elapsed() >= Duration::from_micros(2));
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone)]
pub struct Throttle {
    inner: Arc<dyn Driver>,
    device: Arc<Device>,
}

impl Throttle {
    /// Makes `inner` look as slow as `limits` say.
    pub fn new(inner: Arc<dyn Driver>, limits: ThrottleLimits) -> Throttle {
        let (begin, free_at) = (Instant::now(), Mutex::new(Duration::ZERO));
        Throttle { inner, device: Arc::new(Device { limits, begin, free_at }) }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Driver for Throttle {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        let inner = self.device.run(1, || self.inner.open(path, mode), |_| 0)?;
        Ok(Arc::new(Throttled { inner, device: Arc::clone(&self.device) }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.device.run(1, || self.inner.delete(path), |()| 0)
    }

    fn deletion(&self, path: &Path) -> Result<Option<Deletion>> {
        let device = Arc::clone(&self.device);
        let throttled =
            |inner: Deletion| Deletion::new(move || device.run(1, || inner.run(), |()| 0));
        Ok(self.inner.deletion(path)?.map(throttled))
    }
}

/// One open file on the slow device.
struct Throttled {
    inner: Arc<dyn Storage>,
    device: Arc<Device>,
}

#[deny(clippy::missing_trait_methods)]
impl Storage for Throttled {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        self.device.run(1, || self.inner.read_at(offset, target), |&count| file_len(count))
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.device.run(1, || self.inner.write_at(offset, source), |()| file_len(source.len()))
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        let accesses = pieces.chunk_by(adjacent).count();
        self.device.run(accesses, || self.inner.read_list(pieces), |&count| file_len(count))
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        let accesses = pieces.chunk_by(adjacent).count();
        self.device.run(accesses, || self.inner.write_list(pieces), |()| total_len(pieces))
    }

    fn size(&self) -> Result<u64> {
        self.inner.size()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.device.run(1, || self.inner.set_size(bytes), |()| 0)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.device.run(1, || self.inner.preallocate(bytes), |()| 0)
    }

    fn sync(&self) -> Result<()> {
        self.device.run(1, || self.inner.sync(), |()| 0)
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        self.inner.try_lock(lock)
    }

    fn close(&self) -> Result<()> {
        self.device.run(1, || self.inner.close(), |()| 0)
    }
}

/// The one device of all opens. Its times count from `begin`.
struct Device {
    limits: ThrottleLimits,
    begin: Instant,
    free_at: Mutex<Duration>,
}

impl Device {
    /// Makes a call, and returns when the device would be done with it. `bytes` says how many a
    /// successful call has moved; an error knows its own number.
    fn run<T>(
        &self,
        accesses: usize,
        call: impl FnOnce() -> Result<T>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        let arrival = self.begin.elapsed();
        let outcome = call();
        let due = self.due(arrival, accesses, &outcome, bytes);
        let wait = due.saturating_sub(self.begin.elapsed());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        outcome
    }

    /// When a call that arrived at that time is done: it waits for all that came before it.
    fn due<T>(
        &self,
        arrival: Duration,
        accesses: usize,
        outcome: &Result<T>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Duration {
        let moved = outcome.as_ref().map_or_else(Error::moved, bytes);
        let cost = self.limits.cost(accesses, moved);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = arrival.max(*free_at).saturating_add(cost);
        *free_at = due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;

    const SECOND: Duration = Duration::from_secs(1);
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn device(limits: ThrottleLimits) -> Arc<Device> {
        Throttle::new(Arc::new(Memory::new()), limits).device
    }

    #[test]
    fn cost_is_latency_and_bytes() {
        let limits = ThrottleLimits { latency: MILLISECOND, bytes_per_second: 1000 };
        assert_eq!(limits.cost(1, 0), MILLISECOND);
        assert_eq!(limits.cost(3, 500), Duration::from_millis(503));
        assert_eq!(limits.cost(0, 1), MILLISECOND);
        let unlimited = ThrottleLimits { bytes_per_second: 0, ..limits };
        assert_eq!(unlimited.cost(2, u64::MAX), 2 * MILLISECOND);
        let slow = ThrottleLimits { latency: Duration::MAX, bytes_per_second: 1 };
        assert_eq!(slow.cost(usize::MAX, u64::MAX), Duration::MAX, "no overflow");
    }

    #[test]
    fn two_writers_share_the_bandwidth() {
        let limits = ThrottleLimits { latency: Duration::ZERO, bytes_per_second: 1000 };
        let device = device(limits);
        let write_at = |arrival| device.due(arrival, 1, &Ok(()), |()| 500);
        let due: Vec<_> = (0..4).map(|_| write_at(Duration::ZERO)).collect();
        assert_eq!(due, [SECOND / 2, SECOND, SECOND * 3 / 2, SECOND * 2]);
        assert_eq!(write_at(SECOND * 9), SECOND * 19 / 2, "an idle device begins at once");
    }

    #[test]
    fn hole_in_a_list_costs_an_access() {
        let pieces: [(u64, &[u8]); 3] = [(0, b"ab"), (2, b"c"), (9, b"d")];
        assert_eq!(pieces.chunk_by(adjacent).count(), 2);
    }

    #[test]
    fn failed_call_costs_what_it_moved() {
        let device = device(ThrottleLimits { latency: MILLISECOND, bytes_per_second: 1000 });
        let failure = Err::<(), _>(Error::from_errno("write", libc::EIO).after_moving(500));
        let due = device.due(Duration::ZERO, 1, &failure, |()| 1000);
        assert_eq!(due, Duration::from_millis(501));
    }
}
