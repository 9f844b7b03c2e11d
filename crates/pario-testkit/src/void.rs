//! A driver without a device: what is written is counted and forgotten, what is read is zero.
//!
//! For requests that are too large for a test's disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pario::storage::{Capabilities, Driver, LockGuard, LockRange, OpenMode, Storage};
use pario::{Error, ErrorClass, Result};

/// Opens files of a given size that keep nothing.
#[derive(Clone, Default)]
pub struct Void {
    size: u64,
    written: Arc<AtomicU64>,
}

impl Void {
    /// Files of `size` zeros.
    pub fn new(size: u64) -> Void {
        Void { size, written: Arc::default() }
    }

    /// Bytes that were written to all files.
    pub fn written_bytes(&self) -> u64 {
        self.written.load(Relaxed)
    }
}

impl Driver for Void {
    fn open(&self, _path: &Path, _mode: OpenMode) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.clone()))
    }

    fn delete(&self, _path: &Path) -> Result<()> {
        Ok(())
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Storage for Void {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        (capabilities.range_locks, capabilities.in_memory) = (true, true);
        capabilities
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        let there = self.size.saturating_sub(offset).min(length(target.len()));
        let there = usize::try_from(there).unwrap_or(usize::MAX);
        target[..there].fill(0);
        Ok(there)
    }

    fn write_at(&self, _offset: u64, source: &[u8]) -> Result<()> {
        self.written.fetch_add(length(source.len()), Relaxed);
        Ok(())
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        let mut total = 0;
        for (offset, target) in pieces {
            let count = self.read_at(*offset, target)?;
            total += count;
            if count < target.len() {
                break;
            }
        }
        Ok(total)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        pieces.iter().try_for_each(|(offset, source)| self.write_at(*offset, source))
    }

    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }

    fn set_size(&self, _bytes: u64) -> Result<()> {
        Err(Error::new(ErrorClass::UnsupportedOperation, "a void file keeps its size"))
    }

    fn preallocate(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn try_lock(&self, _lock: LockRange) -> Result<Option<LockGuard>> {
        Ok(Some(LockGuard::new(|| Ok(()))))
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
