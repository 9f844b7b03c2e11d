//! Step 5 of a call: bytes on a device.
//!
//! Two small traits: a [`Driver`] opens files by name, a [`Storage`] is one open file. Both know
//! nothing of ranks, views or strategies. A driver says in its [`Capabilities`] what it can do
//! beyond the trait; no code looks at its name.
//!
//! A new driver is one file here, one line in `for_path`, and a green conformance suite
//! (`pario_testkit::conformance::storage`).

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorClass, Result};
use crate::model::clock;

pub(crate) mod data_files;
mod emulated;
mod fault;
mod layer;
mod locks;
mod memory;
mod posix;
mod sticky;
mod timed;
mod trace;

pub use emulated::Emulated;
pub(crate) use emulated::Timer;
pub use fault::{Fault, FaultPlan};
pub(crate) use layer::over_file;
pub use layer::{Call, Layer, Operation, Proceed, Wrapper};
pub use memory::Memory;
pub use posix::Posix;
pub(crate) use timed::{AccessLog, TimedAccess};
pub use trace::{Trace, TraceEvent};

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

    /// Deletes a file. Its bytes stay until the last rank that has it open closes it.
    fn delete(&self, path: &Path) -> Result<()>;

    /// How the file that `path` names now is deleted later, where the name alone does not suffice
    /// for that: a relative one names another file after the program has changed its directory.
    /// `None` means [`Driver::delete`] with the same name.
    fn deletion(&self, path: &Path) -> Result<Option<Deletion>> {
        let _ = path;
        Ok(None)
    }
}

/// Deletes a certain file when it is run.
pub struct Deletion {
    run: Box<dyn FnOnce() -> Result<()> + Send + Sync>,
}

impl std::fmt::Debug for Deletion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Deletion")
    }
}

impl Deletion {
    /// Calls `run` to delete the file.
    pub fn new(run: impl FnOnce() -> Result<()> + Send + Sync + 'static) -> Deletion {
        Deletion { run: Box::new(run) }
    }

    /// Deletes the file.
    ///
    /// # Errors
    /// `NoSuchFile` if the name is gone or is another file's now, or what the system says.
    pub fn run(self) -> Result<()> {
        (self.run)()
    }
}

/// What an open file can do beyond the required calls.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Capabilities {
    /// [`Storage::try_lock`] excludes other opens of the same file.
    pub range_locks: bool,
    /// Multiples of this many bytes are where accesses best begin and end.
    pub block_bytes: u64,
    /// The bytes are in memory and nowhere else: small accesses wait for no device.
    pub in_memory: bool,
    /// The file system, where it is known.
    pub file_system: Option<FileSystem>,
    /// What accesses cost, if they take the time of storage that is described. Plans follow it, as
    /// they follow a profile that was measured.
    pub described: Option<clock::Storage>,
    /// [`Storage::write_mapped`] does more than [`Storage::write_at`].
    pub mapped_writes: bool,
}

/// What a caller will write through a mapping of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedPart {
    /// The part of the file that this write and later ones lie in.
    pub within: Range<u64>,
    /// Whether bytes beyond the end of the file go through it, too.
    pub new_bytes: bool,
}

/// What is known of a file system, whatever file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// A name as mount(8) has it, such as `ext4`.
    pub name: &'static str,
    /// Whether other nodes see a write as soon as it has returned; `None` if nobody knows, or if
    /// there are no other nodes.
    pub coherent: Option<bool>,
}

impl Default for Capabilities {
    /// The least that a file can do; a driver sets what it can do beyond that.
    fn default() -> Capabilities {
        Capabilities {
            range_locks: false,
            block_bytes: 4096,
            in_memory: false,
            file_system: None,
            described: None,
            mapped_writes: false,
        }
    }
}

/// One open file.
///
/// Offsets are absolute. All calls may come from several threads at once. A call that the mode of
/// the open does not permit is `Amode`. A byte at or beyond offset 2^63 - 1 does not exist on any
/// system: a call that names one is `Type`, and moves nothing.
pub trait Storage: Send + Sync {
    /// What this file can do.
    fn capabilities(&self) -> Capabilities;

    /// Fills `target` from `offset` on. Less than `target.len()` bytes are returned only where
    /// the file ends. Interrupted and short transfers are continued here.
    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize>;

    /// Writes all of `source` at `offset`, or fails. The error says with
    /// [`Error::moved`](crate::Error::moved) how many bytes were written before it happened.
    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()>;

    /// The same as [`Storage::write_at`], through a mapping of the file where the driver can do so:
    /// others may then write at the same time. Returns the bytes that went through it, all or none.
    fn write_mapped(&self, offset: u64, source: &[u8], part: &MappedPart) -> Result<u64> {
        let _ = part;
        self.write_at(offset, source).map(|()| 0)
    }

    /// Reads pieces with as few system calls as the driver can; the pieces are sorted by offset
    /// and do not overlap. Returns the number of bytes read before the first one that lies
    /// beyond the end of the file.
    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize>;

    /// Writes pieces with as few system calls as the driver can; the pieces are sorted by offset
    /// and do not overlap. The error says how many bytes, in the order of the pieces, were
    /// written before it happened.
    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()>;

    /// The size of the file in bytes.
    fn size(&self) -> Result<u64>;

    /// Cuts or extends the file; new bytes are zero.
    fn set_size(&self, bytes: u64) -> Result<()>;

    /// Makes sure that the first `bytes` bytes have room on the device; the file grows to at
    /// least that size and never shrinks.
    fn preallocate(&self, bytes: u64) -> Result<()>;

    /// Moves all written bytes to the device, also those that other opens of the file on this node
    /// wrote. A failed `sync` is never retried: once it has
    /// failed, every later one on this open file fails too.
    fn sync(&self) -> Result<()>;

    /// Locks `len` bytes at `offset` against every other open of the file; `None` if somebody
    /// holds a conflicting lock. Shared locks do not conflict with each other. The lock ends when
    /// the guard is released or dropped. An error of class `UnsupportedOperation` without
    /// [`Capabilities::range_locks`].
    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>>;

    /// Says what the system finds when the file is closed: over a network, a full disk may be
    /// found only then. The last call; the file itself is closed when the value is dropped, which
    /// says nothing.
    fn close(&self) -> Result<()>;
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

/// Keeps a range locked until it is released or dropped.
pub struct LockGuard {
    release: Option<Box<dyn FnOnce() -> Result<()> + Send + Sync>>,
}

impl LockGuard {
    /// A guard that calls `release` in the end. After an error of it nobody waits for the lock
    /// any more, as far as the driver can see to that.
    pub fn new(release: impl FnOnce() -> Result<()> + Send + Sync + 'static) -> LockGuard {
        LockGuard { release: Some(Box::new(release)) }
    }

    /// Ends the lock.
    ///
    /// # Errors
    /// What the system says; then the bytes may not have been protected to the end.
    pub fn release(mut self) -> Result<()> {
        self.release.take().map_or(Ok(()), |release| release())
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            // A caller that wants the outcome releases it.
            let _ = release();
        }
    }
}

/// Prefixes of names that are files of the operating system: pario's own, and those by which
/// ROMIO chooses a driver. Its drivers for file systems without a mount are not here; such a name
/// is looked for where the system has it.
const SYSTEM_PREFIXES: [&str; 14] = [
    "posix",
    "ufs",
    "nfs",
    "xfs",
    "gpfs",
    "panfs",
    "lustre",
    "pvfs",
    "pvfs2",
    "daos",
    "ime",
    "quobyte",
    "quobytefs",
    "hfs",
];

/// The driver for a file name, and the name without its prefix.
///
/// `memory:NAME` is a file in this process's memory; a bare name, and one with a prefix of
/// [`SYSTEM_PREFIXES`], is a file of the operating system. As for ROMIO, prefixes are of small
/// letters, and any other colon belongs to the name.
///
/// # Errors
/// `Io`, as ROMIO has it where it is built without that driver, for `testfs:NAME`: ROMIO's prints
/// calls and moves no bytes, and a file of that name would be a surprise to everybody.
pub(crate) fn for_path(path: &Path) -> Result<(Arc<dyn Driver>, &Path)> {
    let name = path.as_os_str().as_bytes();
    let colon = name.iter().position(|&byte| byte == b':');
    let (prefix, rest) = name.split_at(colon.unwrap_or(0));
    let rest = || Path::new(OsStr::from_bytes(rest.get(1..).unwrap_or_default()));
    match std::str::from_utf8(prefix) {
        Ok("memory") => Ok((Arc::new(Memory::global()), rest())),
        Ok("testfs") => {
            let text = "ROMIO's testfs, which moves no bytes, is not supported";
            Err(Error::new(ErrorClass::Io, text).in_file(path))
        }
        Ok(prefix) if SYSTEM_PREFIXES.contains(&prefix) => Ok((Arc::new(Posix), rest())),
        _ => Ok((Arc::new(Posix), path)),
    }
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

/// Refuses a run that reaches beyond [`SIZE_MAX`].
fn check_run(operation: &str, offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= SIZE_MAX => Ok(()),
        _ => {
            let text = format!("{operation}: {len} bytes reach beyond the greatest file offset");
            Err(Error::new(ErrorClass::Type, text).at_offset(offset))
        }
    }
}

/// Refuses a list of which one piece reaches beyond [`SIZE_MAX`], before the first byte moves.
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

/// The accesses that reach the system when a list is moved: one for all pieces that are adjacent in
/// the file. Statistics count these, so that they mean the same for lists and for single calls.
pub(crate) fn accesses<T: AsRef<[u8]>>(pieces: &[(u64, T)]) -> u64 {
    file_len(pieces.chunk_by(adjacent).count())
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
        let pieces = [(8, data), (12, data), (20, data)];
        assert_eq!((accesses(&pieces), accesses(&pieces[..2]), accesses(&pieces[..0])), (2, 1, 0));
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
        let name = |name: &'static str| for_path(Path::new(name)).map(|(_, path)| path);
        for prefix in SYSTEM_PREFIXES {
            let full = format!("{prefix}:/a/b");
            assert_eq!(for_path(Path::new(&full)).unwrap().1, Path::new("/a/b"));
        }
        for (given, expected) in [
            ("/a/b", "/a/b"),
            ("memory:b", "b"),
            ("nfs:a:b", "a:b"),
            ("nfs:", ""),
            ("12:30:00", "12:30:00"),
            ("NFS:a", "NFS:a"),
            ("nf:a", "nf:a"),
            ("c:a", "c:a"),
            ("d/nfs:a", "d/nfs:a"),
            (":a", ":a"),
            ("nfs", "nfs"),
        ] {
            assert_eq!(name(given).unwrap(), Path::new(expected), "{given}");
        }
        assert_eq!(name("testfs:a").unwrap_err().class(), ErrorClass::Io);
        let bytes = Path::new(OsStr::from_bytes(b"nfs:\xff"));
        assert_eq!(for_path(bytes).unwrap().1, Path::new(OsStr::from_bytes(b"\xff")));
    }
}
