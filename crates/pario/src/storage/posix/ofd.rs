//! Range locks of the kernel, held by an open file.
//!
//! Open file description locks (`F_OFD_SETLK`, Linux 3.15) belong to one open of a file. The
//! older record locks of POSIX belong to the process: ranks that are threads would not exclude
//! each other, and closing any open of the file would drop the locks of all. Over network file
//! systems the locks are those of the server, as far as it is mounted with them.
//!
//! The kernel takes a second lock of the same open for a change of the first one. A
//! [`LockTable`] per open stands in front of it, so that guards of one open conflict as well,
//! and so that the end of one shared guard leaves the bytes of another one locked.
//!
//! The kernel asks for write permission for an exclusive lock and for read permission for a
//! shared one. In a file open only for writing a shared lock is therefore taken as an exclusive
//! one, which excludes more than was asked. In a file open only for reading an exclusive lock is
//! taken as a shared one: it keeps writers away, which is all that a reader can want.
//!
//! Hazard: some mounts accept locks and keep them within one machine (Lustre with `localflock`,
//! NFS with `local_lock`). No call tells; users of such a mount have to turn sieving off.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

use super::uninterrupted;
use crate::error::{Error, Result};
use crate::storage::locks::{self, LockTable};
use crate::storage::{LockGuard, LockRange, OpenMode};

/// The locks of one open file.
pub(super) struct FileLocks {
    file: Arc<File>,
    mode: OpenMode,
    // Held while the kernel is asked, so that table and kernel always agree. The kernel does not
    // wait for other holders of locks in these calls.
    table: Mutex<LockTable>,
}

impl FileLocks {
    pub(super) fn new(file: Arc<File>, mode: OpenMode) -> FileLocks {
        FileLocks { file, mode, table: Mutex::default() }
    }

    /// Whether the file system has locks: asks who holds the first byte, and takes nothing.
    pub(super) fn supported(&self) -> bool {
        self.ask(libc::F_OFD_GETLK, self.kind(false), &(0..1)).is_ok()
    }

    /// Locks a range against other opens and against other guards of this one.
    pub(super) fn try_lock(self: &Arc<FileLocks>, lock: LockRange) -> Result<Option<LockGuard>> {
        locks::check(lock)?;
        let mut table = locks::hold(&self.table);
        if table.conflicts(lock) {
            return Ok(None);
        }
        let bytes = lock.offset..lock.offset + lock.len;
        match self.ask(libc::F_OFD_SETLK, self.kind(lock.exclusive), &bytes) {
            Ok(()) => {}
            Err(error) if means_held(&error) => return Ok(None),
            Err(error) => return Err(Error::from_io("lock", &error).at_offset(lock.offset)),
        }
        let ticket = table.add(lock);
        let locks = Arc::clone(self);
        Ok(Some(LockGuard::new(move || {
            let mut table = locks::hold(&locks.table);
            for free in table.remove(ticket) {
                // A guard has nobody to report to. Should this ever fail, the lock ends when
                // the file is closed.
                let _ = locks.ask(libc::F_OFD_SETLK, libc::F_UNLCK, &free);
            }
        })))
    }

    /// The kind of lock that the kernel grants to a file opened like this one.
    fn kind(&self, exclusive: bool) -> libc::c_int {
        match (exclusive && self.mode.write) || !self.mode.read {
            true => libc::F_WRLCK,
            false => libc::F_RDLCK,
        }
    }

    fn ask(&self, command: libc::c_int, kind: libc::c_int, bytes: &Range<u64>) -> io::Result<()> {
        let lock = record(kind, bytes)?;
        uninterrupted(|| ask_kernel(&self.file, command, lock))
    }
}

/// Whether a refusal means that somebody else holds the range; POSIX permits both.
fn means_held(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::PermissionDenied)
}

/// The request in the kernel's form.
fn record(kind: libc::c_int, bytes: &Range<u64>) -> io::Result<libc::flock> {
    Ok(libc::flock {
        l_type: kind.try_into().map_err(io::Error::other)?,
        l_whence: libc::SEEK_SET.try_into().map_err(io::Error::other)?,
        l_start: bytes.start.try_into().map_err(io::Error::other)?,
        l_len: (bytes.end - bytes.start).try_into().map_err(io::Error::other)?,
        // The kernel insists on zero: these locks have no process.
        l_pid: 0,
    })
}

#[allow(unsafe_code)]
fn ask_kernel(file: &File, command: libc::c_int, mut lock: libc::flock) -> io::Result<()> {
    assert!(
        [libc::F_OFD_GETLK, libc::F_OFD_SETLK].contains(&command),
        "only commands that take a lock record come here"
    );
    // SAFETY: `file` is borrowed, so its descriptor is open during the call. Both commands (just
    // checked) take a pointer to one `flock` and keep it no longer than the call; `lock` is a
    // whole one, on this stack, and nobody else refers to it.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Posix;
    use super::super::tests::Scratch;
    use super::*;
    use crate::storage::{Driver, Storage};

    const BOTH: OpenMode = OpenMode { read: true, write: true, create: true, exclusive: false };
    const READ: OpenMode = OpenMode { read: true, write: false, create: false, exclusive: false };
    const WRITE: OpenMode = OpenMode { read: false, write: true, create: false, exclusive: false };

    fn open(path: &Path, mode: OpenMode) -> Arc<dyn Storage> {
        let file = Posix.open(path, mode).unwrap();
        assert!(file.capabilities().range_locks, "the directory for tests has range locks");
        file
    }

    fn exclusive(offset: u64, len: u64) -> LockRange {
        LockRange { offset, len, exclusive: true }
    }

    fn shared(offset: u64, len: u64) -> LockRange {
        LockRange { offset, len, exclusive: false }
    }

    fn free(file: &Arc<dyn Storage>, lock: LockRange) -> bool {
        file.try_lock(lock).unwrap().is_some()
    }

    #[test]
    fn guards_of_one_open_conflict() {
        let scratch = Scratch::new("one-open");
        let file = open(&scratch.path("file"), BOTH);
        let guard = file.try_lock(exclusive(0, 10)).unwrap();
        assert!(!free(&file, exclusive(9, 1)));
        assert!(!free(&file, shared(9, 1)));
        assert!(free(&file, exclusive(10, 1)));
        drop(guard);
        assert!(free(&file, exclusive(9, 1)));
    }

    #[test]
    fn end_of_a_shared_guard_leaves_the_other_locked() {
        let scratch = Scratch::new("overlap");
        let path = scratch.path("file");
        let (file, other) = (open(&path, BOTH), open(&path, BOTH));
        let wide = file.try_lock(shared(0, 30)).unwrap();
        let narrow = file.try_lock(shared(10, 10)).unwrap();
        drop(wide);
        assert!(free(&other, exclusive(0, 10)));
        assert!(!free(&other, exclusive(10, 1)));
        assert!(!free(&other, exclusive(19, 1)));
        assert!(free(&other, exclusive(20, 10)));
        drop(narrow);
        assert!(free(&other, exclusive(0, 30)));
    }

    #[test]
    fn writer_and_reader_take_the_lock_they_may_have() {
        let scratch = Scratch::new("modes");
        let path = scratch.path("file");
        let both = open(&path, BOTH);
        let (reader, writer) = (open(&path, READ), open(&path, WRITE));
        let guard = writer.try_lock(shared(0, 10)).unwrap();
        assert!(guard.is_some() && !free(&both, shared(0, 1)), "taken as exclusive");
        drop(guard);
        let guard = reader.try_lock(exclusive(0, 10)).unwrap();
        assert!(guard.is_some() && free(&both, shared(0, 1)), "taken as shared");
        assert!(!free(&writer, exclusive(0, 1)), "writers are kept away");
    }

    #[test]
    fn guard_outlives_the_open_file() {
        let scratch = Scratch::new("outlive");
        let path = scratch.path("file");
        let (file, other) = (open(&path, BOTH), open(&path, BOTH));
        let guard = file.try_lock(exclusive(0, 10)).unwrap();
        drop(file);
        assert!(!free(&other, exclusive(0, 10)));
        drop(guard);
        assert!(free(&other, exclusive(0, 10)));
    }

    #[test]
    fn closing_another_open_keeps_the_lock() {
        let scratch = Scratch::new("closing");
        let path = scratch.path("file");
        let (file, other) = (open(&path, BOTH), open(&path, BOTH));
        let _guard = file.try_lock(exclusive(0, 10)).unwrap();
        drop(open(&path, BOTH));
        assert!(!free(&other, exclusive(0, 10)));
    }

    #[test]
    fn refusal_of_the_kernel_is_seen() {
        let locks = FileLocks::new(Arc::new(File::open("/").unwrap()), READ);
        let no_such_kind = 77;
        assert!(locks.ask(libc::F_OFD_GETLK, no_such_kind, &(0..1)).is_err());
    }
}
