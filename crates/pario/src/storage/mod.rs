//! Step 5 of a call: bytes on a device.
//!
//! Two small traits: a [`Driver`] opens files by name, a [`Storage`] is one open file. Both know
//! nothing of ranks, views or strategies. What a driver can do beyond the trait it says in its
//! [`Capabilities`]; nobody asks for its name.
//!
//! A new driver is one file here, one line in [`for_path`], and a green conformance suite
//! (`pario_testkit::conformance::storage`).

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;

mod fault;
mod locks;
mod memory;
mod posix;
mod throttle;
mod trace;

pub use fault::{Fault, FaultPlan};
pub use memory::Memory;
pub use posix::Posix;
pub use throttle::{Throttle, ThrottleLimits};
pub use trace::{Operation, Trace, TraceEvent};

/// How a file is to be opened; the rest of MPI's access modes is handled above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenMode {
    /// The file will be read.
    pub read: bool,
    /// The file will be written.
    pub write: bool,
    /// The file is created if it does not exist.
    pub create: bool,
    /// With `create`: it is an error if the file exists.
    pub exclusive: bool,
}

/// Opens and deletes files of one kind.
pub trait Driver: Send + Sync {
    /// Opens a file. A directory is `BadFile`, a missing file `NoSuchFile`.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>>;

    /// Deletes a file.
    fn delete(&self, path: &Path) -> Result<()>;
}

/// What an open file can do beyond the required calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Storage::try_lock`] excludes other opens of the same file.
    pub range_locks: bool,
    /// Multiples of this many bytes are where accesses best begin and end.
    pub block_bytes: u64,
}

/// One open file.
///
/// Offsets are absolute. All calls may come from several threads at once.
pub trait Storage: Send + Sync {
    /// What this file can do.
    fn capabilities(&self) -> Capabilities;

    /// Fills `target` from `offset` on. Less than `target.len()` bytes are returned only where
    /// the file ends. Interrupted and short transfers are continued here.
    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize>;

    /// Writes all of `source` at `offset`, or fails. The error tells with
    /// [`Error::moved`](crate::Error::moved) how many bytes were written before it happened.
    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()>;

    /// Reads pieces with as few system calls as the driver can; the pieces are sorted by offset
    /// and do not overlap. Returns the number of bytes read before the first one that lies
    /// behind the end of the file.
    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize>;

    /// Writes pieces with as few system calls as the driver can; the pieces are sorted by offset
    /// and do not overlap. The error tells how many bytes, in the order of the pieces, were
    /// written before it happened.
    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()>;

    /// The size of the file in bytes.
    fn size(&self) -> Result<u64>;

    /// Cuts or extends the file; new bytes are zero.
    fn set_size(&self, bytes: u64) -> Result<()>;

    /// Makes sure that the first `bytes` bytes have room on the device; the file grows to at
    /// least that size and never shrinks.
    fn preallocate(&self, bytes: u64) -> Result<()>;

    /// Moves all written bytes to the device. A failed `sync` is never retried: once it has
    /// failed, every later one on this open file fails too.
    fn sync(&self) -> Result<()>;

    /// Locks `len` bytes at `offset` against every other open of the file; `None` if somebody
    /// holds a conflicting lock. Shared locks do not conflict with each other. The lock ends when
    /// the guard is dropped. An error of class `UnsupportedOperation` without
    /// [`Capabilities::range_locks`].
    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>>;
}

/// A byte range to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes, at least one.
    pub len: u64,
    /// Nobody else may hold any lock on these bytes; otherwise others may hold shared ones.
    pub exclusive: bool,
}

/// Keeps a range locked until it is dropped.
pub struct LockGuard {
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl LockGuard {
    /// A guard that calls `release` when it is dropped.
    pub fn new(release: impl FnOnce() + Send + Sync + 'static) -> LockGuard {
        LockGuard { release: Some(Box::new(release)) }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// The driver for a file name, and the name without its prefix.
///
/// `memory:NAME` is a file in this process's memory; `posix:NAME` and ROMIO's `ufs:NAME` and a
/// bare name are files of the operating system.
pub(crate) fn for_path(path: &Path) -> (Arc<dyn Driver>, &Path) {
    let prefixed = |prefix: &str| path.to_str().and_then(|path| path.strip_prefix(prefix));
    if let Some(rest) = prefixed("memory:") {
        return (Arc::new(Memory::global()), Path::new(rest));
    }
    let rest = prefixed("posix:").or_else(|| prefixed("ufs:"));
    (Arc::new(Posix), rest.map_or(path, Path::new))
}
