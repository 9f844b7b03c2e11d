//! Error classes, codes, strings and handlers of files (MPI-4.1, sections 9.3.3 and 14.7).
//!
//! Handlers are pario's own: the MPI library never sees its file handles.
//! `MPI_File_create_errhandler` asks the library only for a fresh handle value, under which the
//! callback is remembered. A program may free a handler right after it was set, so that references
//! are counted and the value goes back to the library with the last of them.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pario::{Error, ErrorClass, Result};

use super::FAILURE;
use super::files::{self, OpenFile};
use crate::abi::Family;
use crate::binding::Mpi;
use crate::comm::check;
use crate::panics;

/// Distinct error texts that are given codes of their own; later ones share their class.
const TEXTS_MAX: usize = 1000;

/// A callback of the program: `void (*)(MPI_File *, int *, ...)`, or with an integer handle.
#[derive(Clone, Copy)]
enum Callback {
    C(CHandler),
    Fortran(FortranHandler),
}

type CHandler = unsafe extern "C" fn(*mut usize, *mut c_int);
type FortranHandler = unsafe extern "C" fn(*mut c_int, *mut c_int);

/// What a callback is written in.
pub(super) enum Language {
    C,
    Fortran,
}

/// What happens on an error: the value of an error handler.
pub(super) type Handler = usize;

struct Handlers {
    /// Callbacks by handler value, with the number of references to them.
    callbacks: Option<HashMap<usize, (Callback, u64)>>,
    /// The handler of `MPI_FILE_NULL`, which files get when they are opened.
    default: Option<usize>,
    /// Codes by class and text.
    codes: Option<HashMap<(c_int, String), c_int>>,
}

static HANDLERS: Mutex<Handlers> =
    Mutex::new(Handlers { callbacks: None, default: None, codes: None });

fn handlers() -> MutexGuard<'static, Handlers> {
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of an error in the numbers of the library.
fn class(mpi: &Mpi, error: &Error) -> c_int {
    let abi = mpi.abi;
    let class = match error.class() {
        ErrorClass::Arg => abi.err_arg,
        ErrorClass::Count => abi.err_count,
        ErrorClass::Type => abi.err_type,
        ErrorClass::Amode => abi.err_amode,
        ErrorClass::File => abi.err_file,
        ErrorClass::NotSame => abi.err_not_same,
        ErrorClass::UnsupportedOperation => abi.err_unsupported_operation,
        ErrorClass::UnsupportedDatarep => abi.err_unsupported_datarep,
        ErrorClass::DupDatarep => abi.err_dup_datarep,
        ErrorClass::BadFile => abi.err_bad_file,
        ErrorClass::FileInUse => abi.err_file_in_use,
        ErrorClass::FileExists => abi.err_file_exists,
        ErrorClass::NoSuchFile => abi.err_no_such_file,
        ErrorClass::Access => abi.err_access,
        ErrorClass::ReadOnly => abi.err_read_only,
        ErrorClass::Quota => abi.err_quota,
        ErrorClass::NoSpace => abi.err_no_space,
        ErrorClass::Conversion => abi.err_conversion,
        ErrorClass::Io | ErrorClass::NoMemory => abi.err_io,
        _ => abi.err_other,
    };
    c_int::try_from(class).unwrap_or(1)
}

/// A code whose class is that of the error and whose string is its text.
pub(super) fn code(mpi: &Mpi, error: &Error) -> c_int {
    let class = class(mpi, error);
    // MPICH 4 gives codes made this way a wrong text; its own text of the class is better.
    let old_mpich = mpi.family == Family::Mpich && mpi.call.Async_start.is_none();
    if old_mpich || !mpi.is_active() {
        return class;
    }
    let limit = usize::try_from(mpi.abi.max_error_string).unwrap_or(256).saturating_sub(1);
    let mut text = format!("pario: {error}");
    let end = (0..=text.len().min(limit)).rev().find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or(0));
    let mut handlers = handlers();
    let codes = handlers.codes.get_or_insert_with(HashMap::new);
    if let Some(&code) = codes.get(&(class, text.clone())) {
        return code;
    }
    let Ok(string) = CString::new(text.clone()) else { return class };
    let mut code = class;
    if codes.len() >= TEXTS_MAX {
        return class;
    }
    // SAFETY: MPI is active; the string is valid.
    unsafe {
        if (mpi.call.Add_error_code)(class, &mut code) != 0 {
            return class;
        }
        (mpi.call.Add_error_string)(code, string.as_ptr());
    }
    codes.insert((class, text), code);
    code
}

/// The handler of files that are not open.
pub(super) fn default_handler(mpi: &Mpi) -> Handler {
    handlers().default.unwrap_or_else(|| mpi.handle(mpi.abi.errors_return))
}

pub(super) fn set_default_handler(mpi: &Mpi, handler: Handler) {
    take_reference(handler);
    let old = handlers().default.replace(handler);
    if let Some(old) = old {
        drop_reference(mpi, old);
    }
}

/// One more use of a handler; those of the library itself are not counted.
pub(super) fn take_reference(handler: Handler) {
    if let Some((_, count)) = handlers().callbacks.as_mut().and_then(|all| all.get_mut(&handler)) {
        *count += 1;
    }
}

/// One use less; the last one gives the value back to the library. Returns whether it was pario's.
pub(super) fn drop_reference(mpi: &Mpi, handler: Handler) -> bool {
    let mut all = handlers();
    let Some(callbacks) = all.callbacks.as_mut() else { return false };
    let Some((_, count)) = callbacks.get_mut(&handler) else { return false };
    *count -= 1;
    if *count == 0 {
        callbacks.remove(&handler);
        drop(all);
        let mut handler = handler;
        // SAFETY: the value came from `Comm_create_errhandler`, and nobody uses it any more.
        unsafe { (mpi.call.Errhandler_free)(&mut handler) };
    }
    true
}

/// A fresh handler for a callback.
///
/// # Errors
/// `Arg` for no callback; `Other` if the library makes no handler.
pub(super) fn create(mpi: &Mpi, callback: usize, language: Language) -> Result<Handler> {
    if callback == 0 {
        return Err(Error::new(ErrorClass::Arg, "an error handler without a function"));
    }
    let mut handler = 0;
    // SAFETY: the library only remembers the function; it never calls it, since no communicator
    // gets this handler.
    let code = unsafe { (mpi.call.Comm_create_errhandler)(callback, &mut handler) };
    check(code, "MPI_Comm_create_errhandler")?;
    // SAFETY: the program passes a function of this type, as the standard demands.
    let callback = unsafe {
        match language {
            Language::C => Callback::C(std::mem::transmute::<usize, CHandler>(callback)),
            Language::Fortran => {
                Callback::Fortran(std::mem::transmute::<usize, FortranHandler>(callback))
            }
        }
    };
    let mut all = handlers();
    all.callbacks.get_or_insert_with(HashMap::new).insert(handler, (callback, 1));
    Ok(handler)
}

/// Reports an error on a file: calls its handler, and returns what the call returns.
///
/// The file is let go first: the handler may close it.
pub(super) fn raise(mpi: &'static Mpi, file: Option<Arc<OpenFile>>, error: &Error) -> c_int {
    let code = code(mpi, error);
    let (handle, handler) = match &file {
        Some(file) => (file.handle(), file.handler()),
        None => (files::null(mpi), default_handler(mpi)),
    };
    drop(file);
    call(mpi, handle, handler, code, Some(error))
}

/// Calls a handler with a code; returns the code that it leaves, which is what the failed call
/// returns.
pub(super) fn call(
    mpi: &'static Mpi,
    mut handle: usize,
    handler: Handler,
    mut code: c_int,
    error: Option<&Error>,
) -> c_int {
    let known = handlers().callbacks.as_ref().and_then(|all| all.get(&handler)).copied();
    if let Some((callback, _)) = known {
        let mut slot = files::slot_of(handle);
        // SAFETY: the program gave this function for errors of files.
        unsafe {
            match callback {
                Callback::C(callback) => callback(&mut handle, &mut code),
                Callback::Fortran(callback) => callback(&mut slot, &mut code),
            }
        };
    } else if [mpi.abi.errors_are_fatal, mpi.abi.errors_abort]
        .map(|one| mpi.handle(one))
        .contains(&handler)
    {
        if let Some(error) = error {
            panics::print(&format!("pario: fatal error on a file: {error}\n"));
        }
        // A code may end in a zero byte, which would look like success to a shell.
        let status = error.map_or(FAILURE, |error| class(mpi, error));
        // SAFETY: the handler says so.
        unsafe { (mpi.call.Abort)(mpi.handle(mpi.abi.comm_world), status) };
        // MPICH's may return when another rank was faster.
        std::process::exit(status);
    }
    code
}

/// `MPI_Errhandler_free`, which must not free what files still use.
pub(super) unsafe fn free_handler(mpi: &'static Mpi, place: *mut c_void) -> c_int {
    // SAFETY: the program passes a handler.
    let handler = unsafe { super::get_handle(mpi, place) };
    // Predefined handlers come from `MPI_File_get_errhandler` without a reference of the library.
    let abi = mpi.abi;
    let predefined = [abi.errors_return, abi.errors_are_fatal, abi.errors_abort];
    let predefined = predefined.iter().any(|&known| mpi.handle(known) == handler);
    if predefined || drop_reference(mpi, handler) {
        // SAFETY: as above.
        unsafe { super::put_handle(mpi, place, mpi.handle(mpi.abi.errhandler_null)) };
        return 0;
    }
    // SAFETY: the library's own handler, at the program's own place.
    unsafe { (mpi.call.Errhandler_free)(place.cast()) }
}
