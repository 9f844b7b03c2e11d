//! The storage of a program's file: memory, with fewer capabilities, or with a flaw; or a file of
//! the operating system.

use crate::scratch::Scratch;
use pario::storage::{
    Capabilities, Driver, LockGuard, LockRange, MappedPart, Memory, OpenMode, Posix, Storage,
};
use pario::{Error, ErrorClass, Result};
use std::path::{Path, PathBuf};
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
    /// A file of the operating system, in `/dev/shm` or where temporary files are.
    File {
        /// Which of the two.
        shared_memory: bool,
    },
}

/// Where the bytes are.
enum Backing {
    Memory(Memory),
    File(Scratch),
}

/// A driver that stores what a device lets through.
pub(super) struct Limited {
    backing: Backing,
    device: Device,
    writes: Arc<AtomicU64>,
    /// Bytes that were written through a mapping.
    mapped: Arc<AtomicU64>,
}

impl Limited {
    pub(super) fn new(device: Device) -> Limited {
        let shared_memory = Path::new("/dev/shm");
        let backing = match device {
            Device::File { shared_memory: true } if shared_memory.is_dir() => {
                Backing::File(Scratch::below(shared_memory))
            }
            Device::File { .. } => Backing::File(Scratch::new()),
            _ => Backing::Memory(Memory::new()),
        };
        Limited { backing, device, writes: Arc::default(), mapped: Arc::default() }
    }

    /// The driver below, and what it calls a file.
    fn inner(&self, path: &Path) -> (&dyn Driver, PathBuf) {
        match &self.backing {
            Backing::Memory(memory) => (memory, path.to_owned()),
            Backing::File(scratch) => (&Posix, scratch.directory().join(path)),
        }
    }

    /// Makes a file.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        match &self.backing {
            Backing::Memory(memory) => memory.put(name, bytes),
            Backing::File(scratch) => {
                std::fs::write(scratch.path(name), bytes).expect("a file can be made");
            }
        }
    }

    /// The bytes of a file, if there is one.
    pub(super) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        match &self.backing {
            Backing::Memory(memory) => memory.contents(name),
            Backing::File(scratch) => std::fs::read(scratch.path(name)).ok(),
        }
    }

    pub(super) fn mapped_bytes(&self) -> u64 {
        self.mapped.load(Ordering::Relaxed)
    }
}

impl Driver for Limited {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        if self.device == Device::WriteOnly && mode.read && !mode.create {
            return Err(Error::new(ErrorClass::Access, "open: reading is not permitted"));
        }
        let (driver, path) = self.inner(path);
        let inner = driver.open(&path, mode)?;
        let (writes, mapped) = (self.writes.clone(), self.mapped.clone());
        Ok(Arc::new(LimitedFile { inner, device: self.device, writes, mapped }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let (driver, path) = self.inner(path);
        driver.delete(&path)
    }
}

struct LimitedFile {
    inner: Arc<dyn Storage>,
    device: Device,
    writes: Arc<AtomicU64>,
    mapped: Arc<AtomicU64>,
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

    fn write_mapped(&self, offset: u64, source: &[u8], part: &MappedPart) -> Result<u64> {
        let mapped = self.inner.write_mapped(offset, source, part)?;
        self.mapped.fetch_add(mapped, Ordering::Relaxed);
        Ok(mapped)
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
