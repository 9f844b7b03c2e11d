//! A driver that takes as long as a device that is described: a disk, an SSD, NVM, with or without
//! a page cache.
//!
//! The times are those of the virtual clock (`model::clock`): an access that continues the last
//! one needs no positioning, latencies overlap, bytes do not, and what is in the cache costs a
//! copy.
//!
//! The device is one: all opens of all files by clones of a driver share it, and every file has a
//! place of its own there. `size`, opening, closing and locks are free.
//!
//! Cost: threads sleep until the emulated device would be done. What the real device needs is part
//! of that time, so results are right as long as the real device is the faster one. Sleeps end late
//! by some tens of microseconds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Call, Capabilities, Driver, Layer, Operation, Proceed, Wrapper};
use crate::error::{Error, Result};
use crate::model::Direction;
use crate::model::clock::{self, Access, Clock, Machine};
use crate::model::presets::{Device, Link};
use crate::number::wide;

/// Files lie this far apart on the device.
const FILE_BITS: u32 = 44;
/// More files than these share their places.
const FILES_MAX: u64 = 1 << 16;

/// Wraps a driver and takes the time of a described device; clones share the device.
///
/// ```
/// use pario::model::presets::Device;
/// use pario::storage::{Driver, Emulated, Memory, OpenMode};
/// use std::{path::Path, sync::Arc, time::{Duration, Instant}};
///
/// let disk = Emulated::new(Arc::new(Memory::new()), Device::HDD, 0);
/// let mode = OpenMode { write: true, create: true, ..OpenMode::default() };
/// let file = disk.open(Path::new("a"), mode)?;
/// let begin = Instant::now();
/// file.write_at(0, b"abc")?;
/// assert!(begin.elapsed() >= Duration::from_millis(12), "an arm moves, a disk turns");
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone)]
pub struct Emulated {
    inner: Arc<dyn Driver>,
    timer: Arc<dyn Timer>,
    places: Arc<Places>,
}

impl Emulated {
    /// Makes `inner` take the time of a device behind a page cache of `cache_bytes`; 0 for none.
    pub fn new(inner: Arc<dyn Driver>, device: Device, cache_bytes: u64) -> Emulated {
        let local = clock::Storage::local(device);
        let link = Link { latency_us: 0.0, bytes_per_s: f64::INFINITY };
        let machine = Machine {
            nodes: 1,
            ranks_per_node: 1,
            cores_per_node: 1,
            node_link: link,
            network: link,
            storage: if cache_bytes > 0 { local.cached(cache_bytes) } else { local },
        };
        let (begin, clock) = (Instant::now(), Mutex::new(Clock::new(machine)));
        Emulated::timed(inner, Arc::new(Sleeper { begin, storage: machine.storage, clock }))
    }

    /// With a timer from outside.
    pub(crate) fn timed(inner: Arc<dyn Driver>, timer: Arc<dyn Timer>) -> Emulated {
        Emulated { inner, timer, places: Arc::default() }
    }
}

impl Wrapper for Emulated {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn layer(&self, path: &Path) -> Arc<dyn Layer> {
        Arc::new(EmulatedFile { timer: Arc::clone(&self.timer), base: self.places.of(path) })
    }
}

/// One open file on the device.
struct EmulatedFile {
    timer: Arc<dyn Timer>,
    /// Where it begins on the device.
    base: u64,
}

impl Layer for EmulatedFile {
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
        let arrival = self.timer.now();
        let outcome = proceed(call.len);
        let moved = outcome.as_ref().map_or_else(Error::moved, |&moved| moved);
        match call.operation {
            Operation::Sync => self.timer.flush(arrival),
            operation if operation.reads() || operation.writes() => {
                self.timer.wait(arrival, &self.accesses(call, moved));
            }
            _ => {}
        }
        outcome
    }

    fn capabilities(&self, inner: Capabilities) -> Capabilities {
        Capabilities {
            in_memory: false,
            mapped_writes: false,
            described: self.timer.storage(),
            ..inner
        }
    }
}

impl EmulatedFile {
    /// The accesses of a call, as far as bytes have moved. Adjacent pieces of a list are one.
    fn accesses(&self, call: &Call<'_>, mut moved: u64) -> Vec<Access> {
        let writes = call.operation.writes();
        let direction = if writes { Direction::Write } else { Direction::Read };
        let access = |offset: u64, bytes| {
            let offset = self.base.saturating_add(offset);
            Access { direction, offset, bytes, regions: 1 }
        };
        if matches!(call.operation, Operation::Read | Operation::Write) {
            return vec![access(call.offset, moved)];
        }
        let adjacent = |&(offset, len): &(u64, u64), next: &(u64, u64)| {
            offset.checked_add(len) == Some(next.0)
        };
        let runs = call.pieces.chunk_by(adjacent).map_while(|run| {
            let bytes = run.iter().map(|(_, len)| len).sum::<u64>().min(moved);
            moved -= bytes;
            (bytes > 0).then(|| access(run.first().map_or(0, |(offset, _)| *offset), bytes))
        });
        runs.collect()
    }
}

/// Where files are on the device: numbers by their names.
#[derive(Default)]
struct Places(Mutex<HashMap<PathBuf, u64>>);

impl Places {
    /// Where a file begins on the device.
    fn of(&self, path: &Path) -> u64 {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = wide(files.len()) % FILES_MAX;
        *files.entry(path.to_owned()).or_insert(next) << FILE_BITS
    }
}

/// How the time of a device passes.
pub(crate) trait Timer: Send + Sync {
    /// The time of the caller.
    fn now(&self) -> Duration;

    /// The storage whose time passes, if there is one.
    fn storage(&self) -> Option<clock::Storage>;

    /// Returns when the device is done with accesses that arrived together at that time.
    fn wait(&self, arrival: Duration, accesses: &[Access]);

    /// Returns when the device has written back what its cache held at that time.
    fn flush(&self, arrival: Duration);
}

/// The one device behind all opens. Threads sleep until it is done; times count from `begin`.
struct Sleeper {
    begin: Instant,
    storage: clock::Storage,
    clock: Mutex<Clock>,
}

impl Sleeper {
    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep_until(&self, due_s: f64) {
        let due = Duration::try_from_secs_f64(due_s).unwrap_or(Duration::ZERO);
        let wait = due.saturating_sub(self.now());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }
}

impl Timer for Sleeper {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn storage(&self) -> Option<clock::Storage> {
        Some(self.storage)
    }

    fn wait(&self, arrival: Duration, accesses: &[Access]) {
        let mut clock = self.clock();
        let end_s = |&access| clock.access(0, access, arrival.as_secs_f64()).end_s;
        let due_s = accesses.iter().map(end_s).fold(0.0, f64::max);
        drop(clock);
        self.sleep_until(due_s);
    }

    fn flush(&self, arrival: Duration) {
        let due_s = self.clock().flush(arrival.as_secs_f64()).end_s;
        self.sleep_until(due_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Memory, OpenMode, Storage};

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn opened(device: Device, cache_bytes: u64) -> Arc<dyn Storage> {
        let driver = Emulated::new(Arc::new(Memory::new()), device, cache_bytes);
        let mode = OpenMode { read: true, write: true, create: true, exclusive: false };
        driver.open(Path::new("file"), mode).unwrap()
    }

    fn time(work: impl FnOnce()) -> Duration {
        let begin = Instant::now();
        work();
        begin.elapsed()
    }

    #[test]
    fn scattered_pieces_of_a_list_wait_for_the_arm_each() {
        let disk = opened(Device { positioning_us: 2000.0, ..Device::NVM }, 0);
        let pieces: [(u64, &[u8]); 3] = [(0, b"ab"), (2, b"c"), (9000, b"d")];
        assert!(time(|| disk.write_list(&pieces).unwrap()) >= 4 * MILLISECOND);
        let mut read = [0; 3];
        assert!(time(|| assert_eq!(disk.read_at(0, &mut read).unwrap(), 3)) >= 2 * MILLISECOND);
        assert_eq!(&read, b"abc");
        assert!(!disk.capabilities().in_memory);
    }

    #[test]
    fn a_cache_delays_the_device_until_sync() {
        let disk = opened(Device { positioning_us: 20_000.0, ..Device::NVM }, 1 << 20);
        disk.write_at(0, &[1; 100]).unwrap();
        assert!(time(|| disk.sync().unwrap()) >= 20 * MILLISECOND);
    }

    #[test]
    fn files_have_places_of_their_own() {
        let driver = Emulated::new(Arc::new(Memory::new()), Device::NVM, 0);
        let places = ["a", "b", "a"].map(|name| driver.places.of(Path::new(name)));
        assert_eq!(places, [0, 1 << FILE_BITS, 0]);
    }
}
