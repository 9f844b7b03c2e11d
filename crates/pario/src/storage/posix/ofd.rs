//! Range locks of the kernel, held by an open file.
//!
//! Open file description locks (`F_OFD_SETLK`, Linux 3.15) belong to one open of a file. The
//! older record locks of POSIX belong to the process: ranks that are threads would not exclude
//! each other, and closing any open of the file would drop the locks of all. On network file
//! systems the locks are those of the server, if it is mounted with them.
//!
//! The kernel treats a second lock of the same open as a change of the first one. So each open has
//! a [`LockTable`] that is asked first: guards of one open conflict as well, and the end of one
//! shared guard leaves the bytes of another one locked.
//!
//! The kernel asks for write permission for an exclusive lock and for read permission for a
//! shared one. In a file open only for writing a shared lock is therefore taken as an exclusive
//! one, which excludes more than was asked. In a file open only for reading an exclusive lock is
//! taken as a shared one: it keeps writers away, which is all that a reader can want.
//!
//! An unlock that the system refuses would leave others waiting for ever. The file is then opened
//! again and the old open closed, which ends all its locks. Guards that were held at that time
//! return an error when they are released: they did not protect their bytes until their end.
//!
//! Hazard: some mounts accept locks and keep them within one machine (Lustre with `localflock`,
//! NFS with `local_lock`). No system call shows that; users of such a mount have to turn sieving
//! off.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::uninterrupted;
use crate::error::{Error, ErrorClass, Result};
use crate::storage::locks::{self, LockTable, Ticket};
use crate::storage::{LockGuard, LockRange, OpenMode};

/// The locks of one open file.
pub(super) struct FileLocks {
    file: Arc<File>,
    mode: OpenMode,
    // Held while the kernel is asked, so that table and kernel always agree. The kernel does not
    // wait for other holders of locks in these calls.
    state: Mutex<LocksState>,
}

#[derive(Default)]
struct LocksState {
    table: LockTable,
    /// How often all locks of the file have been given up.
    given_up: u64,
}

impl FileLocks {
    pub(super) fn new(file: Arc<File>, mode: OpenMode) -> FileLocks {
        FileLocks { file, mode, state: Mutex::default() }
    }

    /// Whether the file system has locks: asks who holds the first byte, and takes nothing.
    pub(super) fn supported(&self) -> bool {
        self.ask(libc::F_OFD_GETLK, self.kind(false), &(0..1)).is_ok()
    }

    /// Locks a range against other opens and against other guards of this one.
    pub(super) fn try_lock(self: &Arc<FileLocks>, lock: LockRange) -> Result<Option<LockGuard>> {
        locks::check(lock)?;
        let mut state = self.hold();
        if state.table.conflicts(lock) {
            return Ok(None);
        }
        let bytes = lock.offset..lock.offset + lock.len;
        match self.ask(libc::F_OFD_SETLK, self.kind(lock.exclusive), &bytes) {
            Ok(()) => {}
            Err(error) if means_held(&error) => return Ok(None),
            Err(error) => return Err(Error::from_io("lock", &error).at_offset(lock.offset)),
        }
        let (ticket, given_up) = (state.table.add(lock), state.given_up);
        let locks = Arc::clone(self);
        Ok(Some(LockGuard::new(move || {
            let outcome = locks.release(ticket, given_up);
            outcome.map_err(|error| error.at_offset(lock.offset))
        })))
    }

    fn hold(&self) -> MutexGuard<'_, LocksState> {
        // A panic elsewhere leaves no half-made change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a lock that was taken when locks had been given up `given_up` times.
    fn release(&self, ticket: Ticket, given_up: u64) -> Result<()> {
        let mut state = self.hold();
        let free = state.table.remove(ticket);
        if state.given_up != given_up {
            let text = "unlock: the lock was lost when another one could not be released";
            return Err(Error::new(ErrorClass::Io, text));
        }
        let unlock = |range| self.ask(libc::F_OFD_SETLK, libc::F_UNLCK, range);
        let Err(error) = free.iter().try_for_each(unlock) else { return Ok(()) };
        state.given_up += 1;
        // If that fails too, there is nothing left to do: others wait until the file is closed.
        let _ = self.open_anew();
        Err(Error::from_io("unlock", &error))
    }

    /// Puts a new open of the file in place of the old one, under the same descriptor.
    #[allow(unsafe_code)]
    fn open_anew(&self) -> io::Result<()> {
        let descriptor = self.file.as_raw_fd();
        let path = format!("/proc/self/fd/{descriptor}");
        let anew = File::options().read(self.mode.read).write(self.mode.write).open(path)?;
        uninterrupted(|| {
            // SAFETY: both descriptors are open, since their files are borrowed. The number stays
            // that of `file`; calls that are under way end with the open that they began with.
            match unsafe { libc::dup3(anew.as_raw_fd(), descriptor, libc::O_CLOEXEC) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        })
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

    /// An unlock that the system refuses must not leave others waiting.
    #[test]
    fn locks_end_with_the_open_that_held_them() {
        let scratch = Scratch::new("anew");
        let path = scratch.path("file");
        let other = open(&path, BOTH);
        let file = Arc::new(File::options().read(true).write(true).open(&path).unwrap());
        let locks = Arc::new(FileLocks::new(file.clone(), WRITE));
        let kept = locks.try_lock(exclusive(0, 10)).unwrap().unwrap();
        // The kernel refuses a range that begins before the file does.
        let ticket = locks.hold().table.add(exclusive(1 << 63, 1));
        assert!(!free(&other, exclusive(0, 10)));
        assert!(locks.release(ticket, 0).is_err());
        assert!(free(&other, exclusive(0, 10)), "nobody waits for it");
        assert!(kept.release().is_err(), "its bytes were not protected to the end");
        std::os::unix::fs::FileExt::write_at(&*file, b"x", 0).unwrap();
        assert!(locks.try_lock(exclusive(0, 10)).unwrap().unwrap().release().is_ok());
    }

    #[test]
    fn refusal_of_the_kernel_is_seen() {
        let locks = FileLocks::new(Arc::new(File::open("/").unwrap()), READ);
        let no_such_kind = 77;
        assert!(locks.ask(libc::F_OFD_GETLK, no_such_kind, &(0..1)).is_err());
    }
}
