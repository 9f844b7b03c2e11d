//! Storage that remembers when each access began and how long it took.
//!
//! The recording of statistics wraps the storage of a file in it when accesses are to be traced.
//!
//! Cost: two looks at the clock, a lock and 48 bytes for each access. The number is bounded; what
//! comes later is only counted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Capabilities, LockGuard, LockRange, Storage, file_len, total_len};
use crate::error::Result;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedAccess {
    pub(crate) what: &'static str,
    /// Since the start of the log.
    pub(crate) begin: Duration,
    pub(crate) lasted: Duration,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// The accesses to one file on one rank.
#[derive(Debug)]
pub(crate) struct AccessLog {
    start: Instant,
    accesses_max: usize,
    /// The accesses, and how many had no room.
    kept: Mutex<(Vec<TimedAccess>, u64)>,
}

impl AccessLog {
    pub(crate) fn new(start: Instant, accesses_max: usize) -> AccessLog {
        AccessLog { start, accesses_max, kept: Mutex::default() }
    }

    /// The accesses so far, and how many had no room.
    pub(crate) fn kept(&self) -> (Vec<TimedAccess>, u64) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn run<T>(&self, what: &'static str, place: (u64, u64), access: impl FnOnce() -> T) -> T {
        let begin = self.start.elapsed();
        let outcome = access();
        let lasted = self.start.elapsed() - begin;
        let (offset, len) = place;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.0.len() < self.accesses_max {
            true => kept.0.push(TimedAccess { what, begin, lasted, offset, len }),
            false => kept.1 += 1,
        }
        outcome
    }
}

/// An open file whose accesses are timed.
pub(crate) struct Timed {
    pub(crate) inner: Arc<dyn Storage>,
    pub(crate) log: Arc<AccessLog>,
}

#[deny(clippy::missing_trait_methods)]
impl Storage for Timed {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        let place = (offset, file_len(target.len()));
        self.log.run("read", place, || self.inner.read_at(offset, target))
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        let place = (offset, file_len(source.len()));
        self.log.run("write", place, || self.inner.write_at(offset, source))
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        let place = (pieces.first().map_or(0, |piece| piece.0), total_len(pieces));
        self.log.run("read list", place, || self.inner.read_list(pieces))
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        let place = (pieces.first().map_or(0, |piece| piece.0), total_len(pieces));
        self.log.run("write list", place, || self.inner.write_list(pieces))
    }

    fn size(&self) -> Result<u64> {
        self.inner.size()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.log.run("set size", (0, bytes), || self.inner.set_size(bytes))
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.log.run("preallocate", (0, bytes), || self.inner.preallocate(bytes))
    }

    fn sync(&self) -> Result<()> {
        self.log.run("sync", (0, 0), || self.inner.sync())
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        self.inner.try_lock(lock)
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::storage::{Driver, Memory, OpenMode};

    #[test]
    fn accesses_are_kept_in_order_up_to_their_number() {
        let mode = OpenMode { read: true, write: true, create: true, exclusive: false };
        let inner = Memory::new().open(Path::new("a"), mode).unwrap();
        let log = Arc::new(AccessLog::new(Instant::now(), 2));
        let file = Timed { inner, log: log.clone() };
        file.write_at(3, b"abc").unwrap();
        file.write_list(&[(8, b"x"), (20, b"yz")]).unwrap();
        file.sync().unwrap();
        let (kept, missed) = log.kept();
        let found: Vec<_> = kept.iter().map(|one| (one.what, one.offset, one.len)).collect();
        assert_eq!((found.as_slice(), missed), (&[("write", 3, 3), ("write list", 8, 3)][..], 1));
        assert!(kept[0].begin + kept[0].lasted <= kept[1].begin);
    }
}
