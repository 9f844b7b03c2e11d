//! A number that all ranks of a communicator can add to: the shared file pointer.
//!
//! On one node it lies in anonymous memory (`memfd`) of rank 0. The others open it through
//! `/proc/PID/fd/N` when they first need it, so that files that never use it pay for one system
//! call. Nothing has a name in a file system, and nothing is left behind, however a rank ends.
//! Between nodes it is a window of MPI at rank 0.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pario::{Error, ErrorClass, Result};

use crate::binding::Mpi;

/// Where a rank runs, and where it keeps a counter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// A number for the node.
    pub(crate) host: u64,
    process: i32,
    descriptor: i32,
}

impl Place {
    pub(crate) fn of_this_process(segment: &Option<File>) -> Place {
        let process = i32::try_from(std::process::id()).unwrap_or(0);
        let descriptor = segment.as_ref().map_or(-1, File::as_raw_fd);
        Place { host: host(), process, descriptor }
    }
}

/// A number that processes share if they can map each other's memory: those of one kernel, one
/// host name and one `/dev/shm`.
fn host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| {
        use std::os::unix::fs::MetadataExt;
        let read = |path| std::fs::read(path).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        read("/proc/sys/kernel/hostname").hash(&mut hasher);
        read("/proc/sys/kernel/random/boot_id").hash(&mut hasher);
        std::fs::metadata("/dev/shm").map_or(0, |metadata| metadata.dev()).hash(&mut hasher);
        hasher.finish()
    })
}

pub(crate) struct Counter {
    kind: Kind,
}

enum Kind {
    /// One rank alone.
    Own(AtomicU64),
    Mapped {
        owner: Place,
        /// Rank 0 keeps the memory alive by its descriptor.
        segment: Option<File>,
        mapping: OnceLock<Result<Mapping>>,
    },
    Window {
        mpi: &'static Mpi,
        window: usize,
    },
}

impl Counter {
    /// Anonymous memory for the counter, on the rank that keeps it.
    pub(crate) fn segment(keeps: bool) -> Option<File> {
        if !keeps {
            return None;
        }
        // SAFETY: the name is a valid string; the result is checked.
        let descriptor =
            unsafe { libc::memfd_create(c"pario-counter".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(8).ok()?;
        Some(file)
    }

    pub(crate) fn new(
        mpi: &'static Mpi,
        comm: usize,
        places: &[Place],
        segment: Option<File>,
    ) -> Result<Counter> {
        let owner = places.first().copied().unwrap_or_default();
        let one_node = places.iter().all(|place| place.host == owner.host);
        let kind = match () {
            () if places.len() == 1 => Kind::Own(AtomicU64::new(0)),
            () if one_node && owner.descriptor >= 0 => {
                Kind::Mapped { owner, segment, mapping: OnceLock::new() }
            }
            () => Kind::Window { mpi, window: make_window(mpi, comm)? },
        };
        Ok(Counter { kind })
    }

    pub(crate) fn add(&self, delta: u64) -> Result<u64> {
        match &self.kind {
            Kind::Own(value) => add_atomic(value, delta),
            Kind::Mapped { .. } => add_atomic(self.mapped()?, delta),
            Kind::Window { mpi, window } => {
                let old = change_window(mpi, *window, delta, mpi.abi.sum)?;
                if old.checked_add(delta).is_some() {
                    return Ok(old);
                }
                change_window(mpi, *window, delta.wrapping_neg(), mpi.abi.sum)?;
                Err(too_far())
            }
        }
    }

    /// Sets the value; nobody adds to it at the same time.
    pub(crate) fn set(&self, value: u64) -> Result<()> {
        match &self.kind {
            Kind::Own(place) => place.store(value, Ordering::SeqCst),
            Kind::Mapped { .. } => self.mapped()?.store(value, Ordering::SeqCst),
            Kind::Window { mpi, window } => {
                let old = change_window(mpi, *window, 0, mpi.abi.sum)?;
                change_window(mpi, *window, value.wrapping_sub(old), mpi.abi.sum)?;
            }
        }
        Ok(())
    }

    fn mapped(&self) -> Result<&AtomicU64> {
        let Kind::Mapped { owner, segment, mapping } = &self.kind else {
            return Err(Error::new(ErrorClass::Intern, "the shared counter is not mapped"));
        };
        let mapping = mapping.get_or_init(|| match segment {
            Some(file) => Mapping::new(file),
            None => {
                let path = format!("/proc/{}/fd/{}", owner.process, owner.descriptor);
                let file = File::options().read(true).write(true).open(path);
                let reach = |error| Error::from_io("shared file pointer of rank 0", &error);
                Mapping::new(&file.map_err(reach)?)
            }
        });
        mapping.as_ref().map(Mapping::value).map_err(Clone::clone)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if let Kind::Window { mpi, window } = &mut self.kind
            && mpi.is_active()
        {
            // SAFETY: all ranks drop their counters together, when a file is closed.
            unsafe {
                (mpi.call.Win_unlock_all)(*window);
                (mpi.call.Win_free)(window);
            }
        }
    }
}

/// Eight bytes of shared memory.
struct Mapping(*mut c_void);

// SAFETY: the memory is only used as an atomic number.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File) -> Result<Mapping> {
        // SAFETY: a new mapping of a file of at least eight bytes; the result is checked.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match address == libc::MAP_FAILED {
            true => {
                let error = std::io::Error::last_os_error();
                Err(Error::from_io("shared file pointer", &error))
            }
            false => Ok(Mapping(address)),
        }
    }

    fn value(&self) -> &AtomicU64 {
        // SAFETY: the mapping is aligned to a page, eight bytes long, and lives as long as `self`;
        // all processes use it as an atomic number only.
        unsafe { &*self.0.cast::<AtomicU64>() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.0, 8) };
    }
}

fn too_far() -> Error {
    Error::new(ErrorClass::Arg, "the shared file pointer would pass 2^64")
}

fn add_atomic(value: &AtomicU64, delta: u64) -> Result<u64> {
    let add = |value: u64| value.checked_add(delta);
    let added = value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    added.map_err(|_| too_far())
}

fn failed(what: &str, code: c_int) -> Error {
    Error::new(ErrorClass::Other, format!("shared file pointer: {what} gave MPI error {code}"))
}

fn make_window(mpi: &'static Mpi, comm: usize) -> Result<usize> {
    let (mut base, mut window) = (ptr::null_mut::<c_void>(), 0);
    let info = mpi.handle(mpi.abi.info_null);
    // SAFETY: collective over a valid communicator; all places for answers are valid.
    unsafe {
        let code = (mpi.call.Win_allocate)(8, 8, info, comm, &mut base, &mut window);
        if code != 0 {
            return Err(failed("MPI_Win_allocate", code));
        }
        (mpi.call.Win_lock_all)(0, window);
        base.cast::<u64>().write(0);
        (mpi.call.Win_sync)(window);
        // Nobody adds to a number that its rank has yet to set.
        match (mpi.call.Barrier)(comm) {
            0 => Ok(window),
            code => Err(failed("MPI_Barrier", code)),
        }
    }
}

fn change_window(
    mpi: &Mpi,
    window: usize,
    delta: u64,
    operation: crate::abi::Handle,
) -> Result<u64> {
    let mut old = 0u64;
    let number = mpi.handle(mpi.abi.long_long);
    // SAFETY: the window is locked for all ranks; the places are valid until the flush.
    let code = unsafe {
        (mpi.call.Fetch_and_op)(
            (&raw const delta).cast(),
            (&raw mut old).cast(),
            number,
            0,
            0,
            mpi.handle(operation),
            window,
        );
        (mpi.call.Win_flush)(0, window)
    };
    match code {
        0 => Ok(old),
        code => Err(failed("MPI_Fetch_and_op", code)),
    }
}
