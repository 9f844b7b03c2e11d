//! The storage of a program's file: memory, with fewer capabilities, or with a flaw.

use pario::storage::{Capabilities, Driver, LockGuard, LockRange, Memory, OpenMode, Storage};
use pario::{Error, ErrorClass, Result};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a file lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Files in memory, with all that pario can ask for.
    Memory,
    /// Without range locks, so that writes cannot sieve.
    WithoutLocks,
    /// Existing files cannot be opened for reading.
    WriteOnly,
    /// The nth byte string that is written, counted from zero, has one wrong bit: to test the
    /// tests.
    Flawed(u64),
}

/// A driver that stores in memory what a device lets through.
pub(super) struct Limited {
    pub(super) memory: Memory,
    pub(super) device: Device,
    writes: Arc<AtomicU64>,
}

impl Limited {
    pub(super) fn new(memory: &Memory, device: Device) -> Limited {
        Limited { memory: memory.clone(), device, writes: Arc::default() }
    }
}

impl Driver for Limited {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        if self.device == Device::WriteOnly && mode.read && !mode.create {
            return Err(Error::new(ErrorClass::Access, "open: reading is not permitted"));
        }
        let inner = self.memory.open(path, mode)?;
        Ok(Arc::new(LimitedFile { inner, device: self.device, writes: self.writes.clone() }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.memory.delete(path)
    }
}

struct LimitedFile {
    inner: Arc<dyn Storage>,
    device: Device,
    writes: Arc<AtomicU64>,
}

#[deny(clippy::missing_trait_methods)]
impl Storage for LimitedFile {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.range_locks = self.device != Device::WithoutLocks;
        capabilities
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, target)
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        if self.device == Device::Flawed(number) && !source.is_empty() {
            let mut flawed = source.to_vec();
            flawed[source.len() / 2] ^= 1;
            return self.inner.write_at(offset, &flawed);
        }
        self.inner.write_at(offset, source)
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.inner.read_list(pieces)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        match self.device {
            Device::Flawed(_) => {
                pieces.iter().try_for_each(|(offset, piece)| self.write_at(*offset, piece))
            }
            _ => self.inner.write_list(pieces),
        }
    }

    fn size(&self) -> Result<u64> {
        self.inner.size()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.inner.set_size(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.inner.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        match self.device {
            Device::WithoutLocks => {
                Err(Error::new(ErrorClass::UnsupportedOperation, "lock: not supported"))
            }
            _ => self.inner.try_lock(lock),
        }
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}
