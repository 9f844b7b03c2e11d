//! Drivers that misbehave when a test wants it.
//!
//! [`Hooked`] asks a function before each call, which may refuse it or panic. [`Repairable`]
//! fails by a [`FaultPlan`] until it is repaired. [`Lockless`] grants every lock, also two that
//! conflict: a test of locks must fail on it, or it tests nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pario::Result;
use pario::storage::{
    Capabilities, Driver, Fault, FaultPlan, LockGuard, LockRange, OpenMode, Operation, Storage,
};

/// Decides before each storage call whether it happens.
pub type Hook = Arc<dyn Fn(Operation) -> Result<()> + Send + Sync>;

/// Asks a function before each call of a driver and its files.
#[derive(Clone)]
pub struct Hooked {
    inner: Arc<dyn Driver>,
    hook: Hook,
}

impl Hooked {
    /// Asks `hook` before each call to `inner`.
    pub fn new(
        inner: impl Driver + 'static,
        hook: impl Fn(Operation) -> Result<()> + Send + Sync + 'static,
    ) -> Hooked {
        Hooked { inner: Arc::new(inner), hook: Arc::new(hook) }
    }
}

impl Driver for Hooked {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        (self.hook)(Operation::Open)?;
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(HookedFile { inner, hook: self.hook.clone() }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        (self.hook)(Operation::Delete)?;
        self.inner.delete(path)
    }
}

struct HookedFile {
    inner: Arc<dyn Storage>,
    hook: Hook,
}

#[deny(clippy::missing_trait_methods)]
impl Storage for HookedFile {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        (self.hook)(Operation::Read)?;
        self.inner.read_at(offset, target)
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        (self.hook)(Operation::Write)?;
        self.inner.write_at(offset, source)
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        (self.hook)(Operation::ReadList)?;
        self.inner.read_list(pieces)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        (self.hook)(Operation::WriteList)?;
        self.inner.write_list(pieces)
    }

    fn size(&self) -> Result<u64> {
        (self.hook)(Operation::Size)?;
        self.inner.size()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        (self.hook)(Operation::SetSize)?;
        self.inner.set_size(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        (self.hook)(Operation::Preallocate)?;
        self.inner.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        (self.hook)(Operation::Sync)?;
        self.inner.sync()
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        (self.hook)(Operation::Lock)?;
        self.inner.try_lock(lock)
    }

    fn close(&self) -> Result<()> {
        (self.hook)(Operation::Close)?;
        self.inner.close()
    }
}

/// Fails by a plan until it is repaired; clones are the same device.
#[derive(Clone)]
pub struct Repairable {
    faulty: Fault,
    healthy: Arc<dyn Driver>,
    repaired: Arc<AtomicBool>,
}

impl Repairable {
    /// Fails calls to `inner` as `plan` says.
    pub fn new(inner: Arc<dyn Driver>, plan: FaultPlan) -> Repairable {
        let faulty = Fault::new(inner.clone(), plan);
        Repairable { faulty, healthy: inner, repaired: Arc::default() }
    }

    /// Ends all faults, also those of files that are open.
    pub fn repair(&self) {
        self.repaired.store(true, Ordering::SeqCst);
    }

    /// How many calls were counted before the repair.
    pub fn calls(&self) -> u64 {
        self.faulty.calls()
    }

    /// How many calls were made to fail.
    pub fn failures(&self) -> u64 {
        self.faulty.failures()
    }

    fn driver(&self) -> &dyn Driver {
        match self.repaired.load(Ordering::SeqCst) {
            true => &*self.healthy,
            false => &self.faulty,
        }
    }
}

impl Driver for Repairable {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        let faulty = self.driver().open(path, mode)?;
        let again = OpenMode { create: false, exclusive: false, ..mode };
        let healthy = self.healthy.open(path, again)?;
        Ok(Arc::new(RepairableFile { faulty, healthy, repaired: self.repaired.clone() }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.driver().delete(path)
    }
}

struct RepairableFile {
    faulty: Arc<dyn Storage>,
    healthy: Arc<dyn Storage>,
    repaired: Arc<AtomicBool>,
}

impl RepairableFile {
    fn file(&self) -> &dyn Storage {
        match self.repaired.load(Ordering::SeqCst) {
            true => &*self.healthy,
            false => &*self.faulty,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Storage for RepairableFile {
    fn capabilities(&self) -> Capabilities {
        self.file().capabilities()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        self.file().read_at(offset, target)
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.file().write_at(offset, source)
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.file().read_list(pieces)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        self.file().write_list(pieces)
    }

    fn size(&self) -> Result<u64> {
        self.file().size()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.file().set_size(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.file().preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.file().sync()
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        self.file().try_lock(lock)
    }

    fn close(&self) -> Result<()> {
        self.file().close()
    }
}

/// Says that it has locks, and lets everybody in.
#[derive(Clone)]
pub struct Lockless(pub Arc<dyn Driver>);

impl Driver for Lockless {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(LocklessFile(self.0.open(path, mode)?)))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.0.delete(path)
    }
}

struct LocklessFile(Arc<dyn Storage>);

#[deny(clippy::missing_trait_methods)]
impl Storage for LocklessFile {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, target)
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.0.write_at(offset, source)
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.0.read_list(pieces)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        self.0.write_list(pieces)
    }

    fn size(&self) -> Result<u64> {
        self.0.size()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.0.set_size(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.0.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn try_lock(&self, _: LockRange) -> Result<Option<LockGuard>> {
        Ok(Some(LockGuard::new(|| Ok(()))))
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}
