//! The drop-in: MPI's own names (MPI-4.1, chapter 14), served by pario.
//!
//! | file | concept |
//! | --- | --- |
//! | `entries` | every `MPI_File_*` and `PMPI_File_*`, one line each |
//! | `files` | open files and their handles |
//! | `manage` | open, close, views, sizes, hints: what is not data access |
//! | `passing_on` | whether all ranks pass calls on to the library's own MPI-IO |
//! | `representations` | data representations that a program registers |
//! | `transfer` | reads and writes |
//! | `requests` | non-blocking calls as requests of the MPI library |
//! | `device` | buffers in device memory, which are refused |
//! | `errors` | error classes, codes, strings and handlers |
//! | `fortran` | error handlers written in Fortran |
//! | `unused` | what is said of programs that open no file, or whose ranks are alone |
//!
//! Every entry point goes through [`enter`]: it finds the MPI library, counts the call, and ends
//! the job on a panic.

mod agreement;
mod device;
mod entries;
mod errors;
mod files;
mod fortran;
mod manage;
mod passing_on;
mod representations;
mod requests;
mod transfer;
mod unused;

use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::binding::Mpi;
use crate::{attribute, environment, panics};

static SERVED: AtomicU64 = AtomicU64::new(0);
/// Whether the program has tried to open a file.
static OPENED: AtomicBool = AtomicBool::new(false);

/// What an entry point returns when there is no MPI to say it better: a failure.
const FAILURE: c_int = 1;

/// The name of an entry point.
#[derive(Clone, Copy)]
struct Name {
    full: &'static CStr,
    /// Whether the form without large counts does as well.
    short: bool,
}

impl From<&'static CStr> for Name {
    fn from(full: &'static CStr) -> Name {
        Name { full, short: false }
    }
}

/// As programs know it.
impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.full.to_string_lossy();
        formatter.write_str(name.strip_prefix('P').unwrap_or(&name))
    }
}

impl Name {
    /// The library's own function. Programs find large-count forms here, and call them, also where
    /// the library has none.
    fn own_function(self, mpi: &Mpi) -> Option<*mut c_void> {
        mpi.own_function(self.full).or_else(|| {
            let short = self.full.to_bytes().strip_suffix(b"_c").filter(|_| self.short)?;
            mpi.own_function(&CString::new(short).ok()?)
        })
    }
}

/// Runs an entry point: passes it on if pario is switched off, otherwise serves it.
#[inline(always)]
fn enter(
    name: impl Into<Name>,
    pass_on: impl FnOnce(*mut c_void) -> c_int,
    serve: impl FnOnce(&'static Mpi) -> c_int,
) -> c_int {
    let name = name.into();
    let mpi = match Mpi::get() {
        Ok(mpi) => mpi,
        Err(reason) => {
            log::error!("{name}: {reason}");
            return FAILURE;
        }
    };
    if environment::is_disabled() {
        let none = || c_int::try_from(mpi.abi.err_unsupported_operation).unwrap_or(FAILURE);
        return name.own_function(mpi).map_or_else(none, pass_on);
    }
    // Not one atomic operation, which would cost as much as the rest of this function: calls of
    // several threads at the same moment may be counted as one.
    SERVED.store(SERVED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    watch_end(mpi);
    panics::end_the_job(mpi, name, || serve(mpi))
}

/// Arranges that something happens when MPI ends: an attribute of MPI_COMM_SELF is deleted then.
fn watch_end(mpi: &'static Mpi) {
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        if !mpi.is_active() {
            return;
        }
        let (copy, delete) = attribute::callbacks(at_end);
        let mut key = 0;
        // SAFETY: the callbacks have the signatures of MPI's; the communicator is valid.
        // Without the attribute, nothing is printed for files that are still open at the end.
        unsafe {
            if (mpi.call.Comm_create_keyval)(copy, delete, &mut key, ptr::null_mut()) == 0 {
                (mpi.call.Comm_set_attr)(mpi.handle(mpi.abi.comm_self), key, ptr::null_mut());
            }
        }
    });
}

unsafe extern "C" fn at_end(
    _comm: usize,
    _key: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    files::print_open();
    if !environment::tells_count() {
        return 0;
    }
    panics::print(&format!("pario-mpi: served {} calls\n", SERVED.load(Ordering::Relaxed)));
    0
}

/// Writes a handle to memory of the program, which has room for one of its library's.
///
/// # Safety
/// `place` is valid for a handle of the MPI library, or null.
unsafe fn put_handle(mpi: &Mpi, place: *mut c_void, handle: usize) {
    if place.is_null() {
        return;
    }
    // SAFETY: handles have 4 or 8 bytes; the caller answers for the place.
    unsafe {
        match mpi.abi.handle_size {
            4 => place.cast::<u32>().write(u32::try_from(handle & 0xffff_ffff).unwrap_or(0)),
            _ => place.cast::<usize>().write(handle),
        }
    }
}

/// Reads a handle from memory of the program.
///
/// # Safety
/// `place` holds a handle of the MPI library.
unsafe fn get_handle(mpi: &Mpi, place: *const c_void) -> usize {
    // SAFETY: as for `put_handle`.
    unsafe {
        match mpi.abi.handle_size {
            4 => place.cast::<u32>().read() as usize,
            _ => place.cast::<usize>().read(),
        }
    }
}
