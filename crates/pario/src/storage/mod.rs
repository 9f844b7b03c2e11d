//! Step 5 of a call: bytes on a device.
//!
//! Two small traits: a [`Driver`] opens files by name, a [`Storage`] is one open file. Both know
//! nothing of ranks, views or strategies. What a driver can do beyond the trait it says in its
//! [`Capabilities`]; nobody asks for its name.
//!
//! A new driver is one file here, one line in `for_path`, and a green conformance suite
//! (`pario_testkit::conformance::storage`).

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorClass, Result};

mod fault;
mod locks;
mod memory;
mod posix;
mod sticky;
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
    /// The file is created if it does not exist; only together with `write`.
    pub create: bool,
    /// With `create`: it is an error if the file exists. Without it, this says nothing.
    pub exclusive: bool,
}

impl OpenMode {
    /// Refuses flags that make no sense together, before any file is touched.
    fn check(self) -> Result<()> {
        if !self.read && !self.write {
            return Err(Error::new(ErrorClass::Amode, "open: neither for reading nor for writing"));
        }
        if self.create && !self.write {
            let text = "open: a file is created only for writing; open it for writing as well";
            return Err(Error::new(ErrorClass::Amode, text));
        }
        Ok(())
    }

    fn permits_reading(self) -> Result<()> {
        match self.read {
            true => Ok(()),
            false => Err(Error::new(ErrorClass::Amode, "read: the file is open only for writing")),
        }
    }

    fn permits_writing(self) -> Result<()> {
        match self.write {
            true => Ok(()),
            false => Err(Error::new(ErrorClass::Amode, "write: the file is open only for reading")),
        }
    }
}

/// Opens and deletes files of one kind.
pub trait Driver: Send + Sync {
    /// Opens a file. A directory is `BadFile`, a missing file `NoSuchFile`, an existing one with
    /// `create` and `exclusive` is `FileExists`; a mode that neither reads nor writes, or that
    /// creates without writing, is `Amode`.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>>;

    /// Deletes a file. Whoever has it open keeps it until the last of them closes it.
    fn delete(&self, path: &Path) -> Result<()>;
}

/// What an open file can do beyond the required calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// [`Storage::try_lock`] excludes other opens of the same file.
    pub range_locks: bool,
    /// Multiples of this many bytes are where accesses best begin and end.
    pub block_bytes: u64,
    /// The bytes are in memory and nowhere else: small accesses wait for no device.
    pub in_memory: bool,
}

impl Default for Capabilities {
    /// The least that a file can do; a driver sets what it can do beyond that.
    fn default() -> Capabilities {
        Capabilities { range_locks: false, block_bytes: 4096, in_memory: false }
    }
}

/// One open file.
///
/// Offsets are absolute. All calls may come from several threads at once. A call that the mode of
/// the open does not permit is `Amode`. A byte at or behind offset 2^63 - 1 does not exist on any
/// system: a call that names one is `Type`, and moves nothing.
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

impl LockRange {
    /// A lock that nobody shares.
    pub(crate) fn exclusive(file: &std::ops::Range<u64>) -> LockRange {
        LockRange { offset: file.start, len: file.end - file.start, exclusive: true }
    }
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

/// The greatest size of a file: system calls carry offsets as signed 64-bit numbers.
const SIZE_MAX: u64 = i64::MAX.unsigned_abs();

/// A length in memory as a length in a file. No machine has memory lengths beyond 64 bits; were
/// there one, the saturated length would be refused by [`check_run`].
fn file_len(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A length in a file as a length in memory, for lengths that a slice in memory bounds anyway.
fn memory_len(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Refuses a run that reaches behind [`SIZE_MAX`].
fn check_run(operation: &str, offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= SIZE_MAX => Ok(()),
        _ => {
            let text = format!("{operation}: {len} bytes reach behind the greatest file offset");
            Err(Error::new(ErrorClass::Type, text).at_offset(offset))
        }
    }
}

/// Refuses a list of which one piece reaches behind [`SIZE_MAX`], before the first byte moves.
fn check_pieces(operation: &str, pieces: &[(u64, impl AsRef<[u8]>)]) -> Result<()> {
    pieces.iter().try_for_each(|(offset, piece)| {
        check_run(operation, *offset, file_len(piece.as_ref().len()))
    })
}

/// The number of bytes of a list. Only a list that names one source billions of times could come
/// near the limit; the sum then saturates.
fn total_len(pieces: &[(u64, impl AsRef<[u8]>)]) -> u64 {
    pieces.iter().fold(0, |sum: u64, (_, piece)| sum.saturating_add(file_len(piece.as_ref().len())))
}

/// Whether `second` begins in the file where `first` ends, so that one access serves both.
fn adjacent<T: AsRef<[u8]>>(first: &(u64, T), second: &(u64, T)) -> bool {
    first.0.checked_add(file_len(first.1.as_ref().len())) == Some(second.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_byte_is_before_two_to_the_63_less_one() {
        assert!(check_run("write", SIZE_MAX - 8, 8).is_ok());
        for (offset, len) in [(SIZE_MAX - 8, 9), (SIZE_MAX + 1, 0), (u64::MAX, u64::MAX)] {
            let error = check_run("write", offset, len).unwrap_err();
            assert_eq!((error.class(), error.offset()), (ErrorClass::Type, Some(offset)));
        }
    }

    #[test]
    fn pieces_are_adjacent_only_without_hole_and_overlap() {
        let data: &[u8] = &[0; 4];
        assert!(adjacent(&(8, data), &(12, data)));
        assert!(!adjacent(&(8, data), &(13, data)));
        assert!(!adjacent(&(8, data), &(11, data)));
        assert!(!adjacent(&(u64::MAX, data), &(3, data)), "offsets do not wrap");
    }

    #[test]
    fn modes_without_sense_are_refused() {
        let read = OpenMode { read: true, ..OpenMode::default() };
        for mode in [OpenMode::default(), OpenMode { create: true, ..read }] {
            assert_eq!(mode.check().unwrap_err().class(), ErrorClass::Amode);
        }
        assert!(read.check().is_ok());
        assert_eq!(read.permits_writing().unwrap_err().class(), ErrorClass::Amode);
    }

    #[test]
    fn prefix_chooses_the_driver_and_goes_away() {
        for name in ["posix:/a/b", "ufs:/a/b", "/a/b"] {
            assert_eq!(for_path(Path::new(name)).1, Path::new("/a/b"));
        }
        assert_eq!(for_path(Path::new("memory:b")).1, Path::new("b"));
    }
}
