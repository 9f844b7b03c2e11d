//! Files of the operating system, by positioned reads and writes.
//!
//! The driver for every mounted file system. It hides what is awkward about the kernel from the
//! steps above: it continues transfers that are interrupted or short ([`transfer_all`]), and a
//! failed sync stays failed. Files are created with the mode that the kernel makes of 0666 and
//! the process's umask; neither `umask` nor `chmod` is called, as both would race with other
//! threads and users.
//!
//! Cost: one system call per access. Pieces of a list that are adjacent in the file share one
//! (`preadv`, `pwritev`); each hole between pieces begins a new one. Windows that many ranks store
//! at a time can go through a mapping of the file (`mapped`).
//!
//! Hazard: where the file system cannot reserve room (`fallocate`), `preallocate` only makes the
//! file longer. The kernel has no call that does this without the risk of cutting the file, so
//! bytes that another open writes beyond the new end at that very moment can be lost.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};

use self::mapped::Mapped;
use self::ofd::FileLocks;
use super::data_files::DataFile;
use super::sticky::StickySync;
use super::{
    Capabilities, Deletion, Driver, LockGuard, LockRange, MappedPart, OpenMode, Storage, adjacent,
    check_pieces, check_run, file_len, total_len,
};
use crate::direction::Direction;
use crate::error::{Error, ErrorClass, Result};
use crate::number::narrow;

#[cfg(feature = "io-uring")]
mod at_once;
mod kinds;
mod mapped;
#[cfg(not(feature = "io-uring"))]
mod at_once {
    //! Without io_uring pieces are read one by one.
    pub(super) fn read(_: &std::fs::File, _: &mut [(u64, &mut [u8])]) -> Vec<bool> {
        Vec::new()
    }
}
mod ofd;

/// The most pieces that Linux takes in one vectored call (`UIO_MAXIOV`).
const VECTOR_MAX: usize = 1024;

/// Fewer scattered pieces are read one after the other.
const AT_ONCE_MIN: usize = 8;

/// Smaller blocks than a memory page are never worth an alignment.
const BLOCK_BYTES_MIN: u64 = 4096;

/// What `statfs` says of tmpfs and ramfs.
const MEMORY_FILE_SYSTEMS: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x8584_58f6];

/// The driver for files of the operating system.
///
/// ```
/// use pario::storage::{Driver, OpenMode, Posix};
///
/// let path = std::env::temp_dir().join(format!("pario-example-{}", std::process::id()));
/// let mode = OpenMode { read: true, write: true, create: true, exclusive: true };
/// let file = Posix.open(&path, mode)?;
/// Posix.delete(&path)?;
/// file.write_at(4, b"data")?;
/// let mut target = [1; 16];
/// assert_eq!(file.read_at(0, &mut target)?, 8);
/// assert_eq!(&target[..8], b"\0\0\0\0data");
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Posix;

impl Driver for Posix {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        let file = mode.check().and_then(|()| PosixFile::open(path, mode));
        Ok(Arc::new(file.map_err(|error| error.in_file(path))?))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(|error| name_error("delete", &error).in_file(path))
    }

    fn deletion(&self, path: &Path) -> Result<Option<Deletion>> {
        let explain = |error: io::Error| name_error("delete", &error);
        let entry = Entry::new(path).map_err(|error| explain(error).in_file(path))?;
        let path = path.to_owned();
        Ok(Some(Deletion::new(move || entry.delete().map_err(|error| error.in_file(&path)))))
    }
}

/// One entry of a directory, wherever the program or the directory goes.
struct Entry {
    directory: OwnedFd,
    name: OsString,
    /// Device and number of what has that name; of a symbolic link, not of what it points to.
    identity: (u64, u64),
}

impl Entry {
    fn new(path: &Path) -> io::Result<Entry> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = parent.unwrap_or(Path::new("."));
        let directory = uninterrupted(|| Ok(rustix::fs::open(parent, flags, Mode::empty())?))?;
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_owned();
        let identity = identity(&directory, &name)?;
        Ok(Entry { directory, name, identity })
    }

    fn delete(self) -> Result<()> {
        let failed = |error: io::Error| Error::from_io("delete", &error);
        if identity(&self.directory, &self.name).map_err(failed)? != self.identity {
            let text = "delete: another file has the name now; the one that was opened is kept";
            return Err(Error::new(ErrorClass::NoSuchFile, text));
        }
        let unlink = || Ok(rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty())?);
        uninterrupted(unlink).map_err(failed)
    }
}

/// Device and number of what has a name in a directory.
fn identity(directory: &OwnedFd, name: &OsStr) -> io::Result<(u64, u64)> {
    let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev, found.st_ino))
}

/// One open of a file: an open file description of its own, so that the kernel's locks hold
/// between any two opens, also of one process.
struct PosixFile {
    file: Arc<File>,
    mode: OpenMode,
    capabilities: Capabilities,
    locks: Arc<FileLocks>,
    synced: StickySync,
    mapped: Mapped,
    /// Keeps statistics out of the file.
    _data: DataFile,
}

impl PosixFile {
    fn open(path: &Path, mode: OpenMode) -> Result<PosixFile> {
        let opened = OpenOptions::new()
            .read(mode.read)
            .write(mode.write)
            .create(mode.create && !mode.exclusive)
            .create_new(mode.create && mode.exclusive)
            .truncate(false)
            .open(path);
        let file = Arc::new(opened.map_err(|error| name_error("open", &error))?);
        let metadata = file.metadata().map_err(|error| Error::from_io("open", &error))?;
        // The kernel refuses a directory only to those who want to write.
        if metadata.is_dir() {
            return Err(Error::new(ErrorClass::BadFile, "open: this is a directory"));
        }
        let locks = Arc::new(FileLocks::new(Arc::clone(&file), mode));
        let mut capabilities = Capabilities {
            range_locks: locks.supported(),
            block_bytes: metadata.blksize().max(BLOCK_BYTES_MIN),
            in_memory: is_in_memory(&file),
            file_system: rustix::fs::fstatfs(&file)
                .ok()
                .and_then(|system| kinds::known(system.f_type)),
            described: None,
            mapped_writes: false,
        };
        capabilities.mapped_writes =
            mode.read && mode.write && metadata.is_file() && mapped::is_possible(&capabilities);
        let (synced, mapped) = (StickySync::default(), Mapped::default());
        let data = DataFile::new(&metadata);
        Ok(PosixFile { file, mode, capabilities, locks, synced, mapped, _data: data })
    }

    /// Reads scattered pieces at the same time where that pays; which of them are whole, or nothing
    /// if none were tried.
    fn read_at_once(&self, pieces: &mut [(u64, &mut [u8])]) -> Vec<bool> {
        let scattered = || pieces.chunk_by(adjacent).count();
        if self.capabilities.in_memory || pieces.len() < AT_ONCE_MIN || scattered() < AT_ONCE_MIN {
            return Vec::new();
        }
        at_once::read(&self.file, pieces)
    }

    /// Reads pieces that are adjacent in the file, at most [`VECTOR_MAX`] of them.
    fn read_run(&self, run: &mut [(u64, &mut [u8])]) -> Result<usize> {
        if let [(offset, target)] = run {
            return self.read_piece(*offset, target);
        }
        let offset = run.first().map_or(0, |(offset, _)| *offset);
        let mut slices: Vec<_> = run.iter_mut().map(|(_, piece)| IoSliceMut::new(piece)).collect();
        let transfer = read_vector(&mut slices, |done, rest| {
            Ok(rustix::io::preadv(&*self.file, rest, offset + file_len(done))?)
        });
        transfer.finish("read", offset)
    }

    /// Writes pieces that are adjacent in the file, at most [`VECTOR_MAX`] of them.
    fn write_run(&self, run: &[(u64, &[u8])]) -> Result<usize> {
        if let [(offset, source)] = run {
            return self.write_piece(*offset, source);
        }
        let offset = run.first().map_or(0, |(offset, _)| *offset);
        let mut slices: Vec<_> = run.iter().map(|(_, piece)| IoSlice::new(piece)).collect();
        let transfer = write_vector(&mut slices, |done, rest| {
            Ok(rustix::io::pwritev(&*self.file, rest, offset + file_len(done))?)
        });
        transfer.finish("write", offset)
    }

    fn read_piece(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        let transfer = transfer_all(target.len(), Direction::Read, |done| {
            self.file.read_at(&mut target[done..], offset + file_len(done))
        });
        transfer.finish("read", offset)
    }

    fn write_piece(&self, offset: u64, source: &[u8]) -> Result<usize> {
        let transfer = transfer_all(source.len(), Direction::Write, |done| {
            self.file.write_at(&source[done..], offset + file_len(done))
        });
        transfer.finish("write", offset)
    }

    /// What `preallocate` does on file systems that cannot reserve room.
    fn extend(&self, bytes: u64) -> Result<()> {
        match self.size()? < bytes {
            true => self.set_size(bytes),
            false => Ok(()),
        }
    }
}

impl Storage for PosixFile {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        self.mode.permits_reading()?;
        check_run("read", offset, file_len(target.len()))?;
        self.read_piece(offset, target)
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.mode.permits_writing()?;
        check_run("write", offset, file_len(source.len()))?;
        self.write_piece(offset, source).map(|_| ())
    }

    fn write_mapped(&self, offset: u64, source: &[u8], part: &MappedPart) -> Result<u64> {
        self.mode.permits_writing()?;
        let len = file_len(source.len());
        check_run("write", offset, len)?;
        let Capabilities { in_memory, mapped_writes, .. } = self.capabilities;
        match mapped_writes && self.mapped.store((&self.file, in_memory), offset, source, part) {
            true => Ok(len),
            false => self.write_piece(offset, source).map(|_| 0),
        }
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.mode.permits_reading()?;
        check_pieces("read", pieces)?;
        let whole = self.read_at_once(pieces);
        let mut moved = 0;
        let mut before = 0;
        let runs = pieces.chunk_by_mut(adjacent).flat_map(|run| run.chunks_mut(VECTOR_MAX));
        for run in runs {
            let known = whole.get(before..before + run.len()).unwrap_or_default();
            before += run.len();
            if !known.is_empty() && known.iter().all(|&whole| whole) {
                moved += narrow(total_len(run));
                continue;
            }
            let count = self.read_run(run).map_err(|error| moved_before(error, moved))?;
            moved += count;
            if file_len(count) < total_len(run) {
                break;
            }
        }
        Ok(moved)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        self.mode.permits_writing()?;
        check_pieces("write", pieces)?;
        let mut moved = 0;
        for run in pieces.chunk_by(adjacent).flat_map(|run| run.chunks(VECTOR_MAX)) {
            moved += self.write_run(run).map_err(|error| moved_before(error, moved))?;
        }
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|error| Error::from_io("size", &error))?.len())
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.mode.permits_writing()?;
        check_run("set_size", bytes, 0)?;
        self.mapped.end();
        self.file.set_len(bytes).map_err(|error| Error::from_io("set_size", &error))
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.mode.permits_writing()?;
        check_run("preallocate", bytes, 0)?;
        // The kernel calls a request for no bytes an error.
        if bytes == 0 {
            return Ok(());
        }
        let reserved = uninterrupted(|| {
            Ok(rustix::fs::fallocate(&*self.file, FallocateFlags::empty(), 0, bytes)?)
        });
        match reserved.map_err(|error| Error::from_io("preallocate", &error)) {
            Err(error) if error.class() == ErrorClass::UnsupportedOperation => self.extend(bytes),
            outcome => outcome,
        }
    }

    fn sync(&self) -> Result<()> {
        if self.capabilities.in_memory {
            // There is no device below it: the system would do nothing either.
            return Ok(());
        }
        // The data and what is needed to find it again, which includes the size of the file but
        // not its times. An interruption says nothing about the bytes; the standard library
        // goes on after it.
        self.synced.run(|| self.file.sync_data().map_err(|error| Error::from_io("sync", &error)))
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        if !self.capabilities.range_locks {
            let text = "lock: this file system has no range locks";
            return Err(Error::new(ErrorClass::UnsupportedOperation, text));
        }
        self.locks.try_lock(lock)
    }

    fn close(&self) -> Result<()> {
        self.mapped.end();
        // The kernel flushes a file at each close of a descriptor, the last one or not. This one's
        // own stays until nobody can use it any more.
        match self.file.try_clone() {
            Ok(duplicate) => {
                close(duplicate.into()).map_err(|error| Error::from_io("close", &error))
            }
            // There is no descriptor left, which is no fault of this file.
            Err(_) if self.mode.write => self.sync(),
            Err(_) => Ok(()),
        }
    }
}

/// How far a transfer came, and why it did not come further.
#[derive(Debug)]
struct Moved {
    moved: usize,
    outcome: io::Result<()>,
}

impl Moved {
    /// The bytes that moved, or an error that names the first byte that did not.
    fn finish(self, operation: &str, offset: u64) -> Result<usize> {
        let moved = file_len(self.moved);
        match self.outcome {
            Ok(()) => Ok(self.moved),
            Err(error) => Err(Error::from_io(operation, &error)
                .at_offset(offset.saturating_add(moved))
                .after_moving(moved)),
        }
    }
}

/// Repeats `raw`, which gets the number of bytes that are done, until `len` bytes have moved.
///
/// A read of zero bytes is the end of the file. A write of zero bytes is tried once more; a second
/// one in a row is an error, because a loop that waits for progress could wait for ever. An
/// interruption is not counted: each stands for a signal that was delivered meanwhile.
fn transfer_all(
    len: usize,
    direction: Direction,
    mut raw: impl FnMut(usize) -> io::Result<usize>,
) -> Moved {
    let mut moved = 0;
    let mut idle = false;
    while moved < len {
        match raw(moved) {
            Ok(0) if direction == Direction::Read => break,
            Ok(0) if idle => {
                let error = io::Error::new(ErrorKind::WriteZero, "the device takes no bytes");
                return Moved { moved, outcome: Err(error) };
            }
            Ok(0) => idle = true,
            Ok(count) => {
                assert!(count <= len - moved, "the kernel moves no more than it was asked to");
                moved += count;
                idle = false;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Moved { moved, outcome: Err(error) },
        }
    }
    Moved { moved, outcome: Ok(()) }
}

/// [`transfer_all`] into several slices: `raw` also gets what is left of them.
fn read_vector(
    mut rest: &mut [IoSliceMut<'_>],
    mut raw: impl FnMut(usize, &mut [IoSliceMut<'_>]) -> io::Result<usize>,
) -> Moved {
    let len = rest.iter().map(|slice| slice.len()).sum();
    let mut before = 0;
    transfer_all(len, Direction::Read, |done| {
        IoSliceMut::advance_slices(&mut rest, done - before);
        before = done;
        raw(done, rest)
    })
}

/// [`transfer_all`] from several slices: `raw` also gets what is left of them.
fn write_vector(
    mut rest: &mut [IoSlice<'_>],
    mut raw: impl FnMut(usize, &[IoSlice<'_>]) -> io::Result<usize>,
) -> Moved {
    let len = rest.iter().map(|slice| slice.len()).sum();
    let mut before = 0;
    transfer_all(len, Direction::Write, |done| {
        IoSlice::advance_slices(&mut rest, done - before);
        before = done;
        raw(done, rest)
    })
}

/// Repeats a call as long as signals interrupt it.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Closes a descriptor, which is gone afterwards also if that fails.
#[allow(unsafe_code)]
fn close(descriptor: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is this function's own, and is not used again.
    match unsafe { libc::close(descriptor.into_raw_fd()) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
        _ => Ok(()),
    }
}

/// The error of a call that takes a name. A name that the kernel never saw, as it contains a zero
/// byte, is a bad name.
fn name_error(operation: &str, error: &io::Error) -> Error {
    match error.raw_os_error() {
        None => Error::new(ErrorClass::BadFile, format!("{operation}: {error}")),
        Some(_) => Error::from_io(operation, error),
    }
}

/// Counts what earlier pieces of a list have moved.
fn moved_before(error: Error, before: usize) -> Error {
    let moved = file_len(before).saturating_add(error.moved());
    error.after_moving(moved)
}

/// Whether a file is in memory and nowhere else, by the kind of its file system.
fn is_in_memory(file: &File) -> bool {
    let known = |kind| MEMORY_FILE_SYSTEMS.contains(&kind);
    rustix::fs::fstatfs(file).is_ok_and(|system| known(system.f_type))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use rustix::io::FdFlags;

    use super::*;

    const CREATE: OpenMode = OpenMode { read: true, write: true, create: true, exclusive: true };
    const READ: OpenMode = OpenMode { read: true, write: false, create: false, exclusive: false };
    const WRITE: OpenMode = OpenMode { read: false, write: true, create: false, exclusive: false };

    /// A directory that goes away with the test.
    pub(super) struct Scratch(PathBuf);

    impl Scratch {
        pub(super) fn new(name: &str) -> Scratch {
            Scratch::below(&std::env::temp_dir(), name)
        }

        pub(super) fn below(parent: &Path, name: &str) -> Scratch {
            let name = format!("pario-posix-{}-{name}", std::process::id());
            let path = parent.join(name);
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        pub(super) fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Runs [`transfer_all`] over results made by hand; returns it and the `done` of each call.
    fn replay(
        len: usize,
        direction: Direction,
        results: impl IntoIterator<Item = io::Result<usize>>,
    ) -> (Moved, Vec<usize>) {
        let mut results: VecDeque<_> = results.into_iter().collect();
        let mut calls = Vec::new();
        let transfer = transfer_all(len, direction, |done| {
            calls.push(done);
            results.pop_front().expect("the loop ends before the results do")
        });
        assert!(results.is_empty(), "the loop uses all results");
        (transfer, calls)
    }

    fn errno(errno: i32) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn fault_short_and_interrupted() {
        for direction in [Direction::Read, Direction::Write] {
            let results = [Ok(3), errno(libc::EINTR), errno(libc::EINTR), Ok(1), Ok(6)];
            let (transfer, calls) = replay(10, direction, results);
            assert_eq!(transfer.finish("move", 100).unwrap(), 10);
            assert_eq!(calls, [0, 3, 3, 3, 4]);
        }
    }

    #[test]
    fn short_vectored_transfers_go_on_inside_a_piece() {
        let data = b"abcdefghij";
        for count in 1..=data.len() {
            let mut slices = [&data[..3], &[], &data[3..4], &data[4..]].map(IoSlice::new);
            let mut device = Vec::new();
            let transfer = write_vector(&mut slices, |done, rest| {
                assert_eq!(done, device.len());
                let left: Vec<u8> = rest.iter().flat_map(|slice| slice.to_vec()).collect();
                let moved = count.min(left.len());
                device.extend_from_slice(&left[..moved]);
                Ok(moved)
            });
            assert_eq!((transfer.finish("write", 0).unwrap(), &device[..]), (10, &data[..]));

            let (mut first, mut second) = ([0; 4], [0; 8]);
            let mut slices = [&mut first[..], &mut second].map(IoSliceMut::new);
            let transfer = read_vector(&mut slices, |done, rest| {
                let moved = count.min(data.len() - done).min(rest[0].len());
                rest[0][..moved].copy_from_slice(&data[done..done + moved]);
                Ok(moved)
            });
            assert_eq!(transfer.finish("read", 0).unwrap(), 10, "the file ends before the slices");
            assert_eq!((&first, &second), (b"abcd", b"efghij\0\0"));
        }
    }

    #[test]
    fn second_write_of_nothing_in_a_row_is_an_error() {
        let (transfer, _) = replay(10, Direction::Write, [Ok(4), Ok(0), Ok(0)]);
        let error = transfer.finish("write", 100).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Io);
        assert_eq!((error.offset(), error.moved()), (Some(104), 4));
        let (transfer, calls) = replay(10, Direction::Write, [Ok(0), Ok(5), Ok(0), Ok(5)]);
        assert_eq!(transfer.finish("write", 0).unwrap(), 10);
        assert_eq!(calls, [0, 0, 5, 5]);
    }

    #[test]
    fn read_of_nothing_is_the_end_of_the_file() {
        let (transfer, _) = replay(10, Direction::Read, [Ok(4), Ok(0)]);
        assert_eq!(transfer.finish("read", 0).unwrap(), 4);
        let (transfer, calls) = replay(0, Direction::Read, []);
        assert_eq!((transfer.finish("read", 0).unwrap(), calls.len()), (0, 0));
    }

    #[test]
    fn error_after_a_short_write_tells_what_moved() {
        let (transfer, _) = replay(10, Direction::Write, [Ok(7), errno(libc::EDQUOT)]);
        let error = transfer.finish("write", 1000).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Quota);
        assert_eq!((error.offset(), error.moved()), (Some(1007), 7));
    }

    #[test]
    fn directory_is_a_bad_file_also_for_readers() {
        let scratch = Scratch::new("directory");
        let directory = scratch.path("inner");
        std::fs::create_dir(&directory).unwrap();
        for mode in [READ, WRITE, OpenMode { exclusive: false, ..CREATE }] {
            let error = Posix.open(&directory, mode).map(|_| ()).unwrap_err();
            assert_eq!(error.class(), ErrorClass::BadFile, "{mode:?}");
            assert_eq!(error.file(), Some(directory.as_path()));
        }
        assert_eq!(Posix.delete(&directory).unwrap_err().class(), ErrorClass::BadFile);
    }

    #[test]
    fn name_with_a_zero_byte_is_a_bad_file() {
        let error = Posix.open(Path::new("a\0b"), READ).map(|_| ()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::BadFile);
    }

    #[test]
    fn new_file_has_the_kernels_mode_and_is_not_inherited() {
        let scratch = Scratch::new("mode");
        let file = PosixFile::open(&scratch.path("ours"), CREATE).unwrap();
        let reference = File::create(scratch.path("reference")).unwrap();
        let mode = |file: &File| file.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&file.file), mode(&reference));
        assert!(rustix::io::fcntl_getfd(&*file.file).unwrap().contains(FdFlags::CLOEXEC));
    }

    #[test]
    fn opening_does_not_truncate() {
        let scratch = Scratch::new("truncate");
        let path = scratch.path("file");
        std::fs::write(&path, b"data").unwrap();
        let file = Posix.open(&path, OpenMode { exclusive: false, ..CREATE }).unwrap();
        assert_eq!(file.size().unwrap(), 4);
    }

    #[test]
    fn full_device_is_no_space_and_nothing_moved() {
        let file = Posix.open(Path::new("/dev/full"), WRITE).unwrap();
        let pieces: [(u64, &[u8]); 3] = [(0, b"abc"), (3, b"de"), (9, b"f")];
        for error in [file.write_at(0, b"abc").unwrap_err(), file.write_list(&pieces).unwrap_err()]
        {
            assert_eq!((error.class(), error.moved()), (ErrorClass::NoSpace, 0));
        }
    }

    #[test]
    fn error_in_a_list_counts_the_pieces_before() {
        let error = Error::from_errno("write", libc::EIO).after_moving(2);
        assert_eq!(moved_before(error, 5).moved(), 7);

        let scratch = Scratch::new("list");
        let file = PosixFile::open(&scratch.path("file"), CREATE).unwrap();
        // Most file systems end before this offset. Those in memory do not, and have nothing to
        // show here.
        let far = crate::storage::SIZE_MAX - 1;
        let pieces: [(u64, &[u8]); 3] = [(0, b"abc"), (3, b"de"), (far, b"f")];
        if let Err(error) = file.write_list(&pieces) {
            assert_eq!((error.moved(), error.offset()), (5, Some(far)));
            assert_eq!(file.size().unwrap(), 5);
        }
    }

    #[test]
    fn run_of_more_pieces_than_one_call_takes_is_whole() {
        let scratch = Scratch::new("vector");
        let path = scratch.path("file");
        let file = Posix.open(&path, CREATE).unwrap();
        let data: Vec<u8> = (0..=255).cycle().take(3 * VECTOR_MAX + 5).collect();
        let pieces: Vec<(u64, &[u8])> =
            data.chunks(1).enumerate().map(|(index, byte)| (file_len(index) + 9, byte)).collect();
        file.write_list(&pieces).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[9..], data);
        let mut found = vec![0; data.len() + 4];
        let mut pieces: Vec<(u64, &mut [u8])> = found
            .chunks_mut(1)
            .enumerate()
            .map(|(index, byte)| (file_len(index) + 9, byte))
            .collect();
        assert_eq!(file.read_list(&mut pieces).unwrap(), data.len());
        assert_eq!(found[..data.len()], data);
    }

    #[test]
    fn files_in_memory_say_so() {
        let memory = rustix::fs::memfd_create("in memory", rustix::fs::MemfdFlags::CLOEXEC);
        assert!(is_in_memory(&File::from(memory.unwrap())));
        assert!(!is_in_memory(&File::open("/proc/self/stat").unwrap()));
    }

    /// Whether they are read at once or not, depends on where the temporary files are.
    #[test]
    fn scattered_pieces_are_read_up_to_the_end_of_the_file() {
        let scratch = Scratch::new("scattered");
        let path = scratch.path("file");
        let file = Posix.open(&path, CREATE).unwrap();
        let data: Vec<u8> = (0..=250).cycle().take(100_000).collect();
        file.write_at(0, &data).unwrap();
        for (count, len, expected) in [(50, 10, 500), (50, 1500, 75_000), (60, 1500, 50 * 1500)] {
            let mut found = vec![0; count * len];
            let mut pieces: Vec<(u64, &mut [u8])> = found
                .chunks_mut(len)
                .enumerate()
                .map(|(number, piece)| (file_len(number * 2000), piece))
                .collect();
            assert_eq!(file.read_list(&mut pieces).unwrap(), expected);
            for (number, piece) in found.chunks(len).enumerate().take(50) {
                assert_eq!(*piece, data[number * 2000..][..len]);
            }
        }
    }

    #[test]
    fn extending_never_shrinks() {
        let scratch = Scratch::new("extend");
        let file = PosixFile::open(&scratch.path("file"), CREATE).unwrap();
        file.write_at(0, &[1; 100]).unwrap();
        for (bytes, size) in [(50, 100), (100, 100), (150, 150)] {
            file.extend(bytes).unwrap();
            assert_eq!(file.size().unwrap(), size);
        }
    }

    #[test]
    fn preallocate_reserves_room() {
        let scratch = Scratch::new("reserve");
        let file = PosixFile::open(&scratch.path("file"), CREATE).unwrap();
        file.preallocate(1 << 20).unwrap();
        assert_eq!(file.size().unwrap(), 1 << 20);
        file.preallocate(0).unwrap();
        assert_eq!(file.size().unwrap(), 1 << 20);
    }

    #[test]
    fn permission_denied_has_its_class() {
        let scratch = Scratch::new("denied");
        let path = scratch.path("file");
        std::fs::write(&path, b"data").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        // The superuser may write all the same.
        if let Err(error) = Posix.open(&path, WRITE) {
            assert_eq!(error.class(), ErrorClass::Access);
        }
    }
}
