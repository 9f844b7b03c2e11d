//! Open files and their handles.
//!
//! A handle is a pattern and the number of a file, never an address: a null, freed or
//! foreign handle is an error of class `File` and not a crash. Fortran's and the standard ABI's
//! integer handles are the same numbers.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pario::{Error, ErrorClass, File, Result};

use super::agreement::Agreement;
use super::errors::{self, Handler};
use super::manage::{Group, OwnType};
use super::representations::Conversion;
use super::requests::RequestState;
use crate::binding::Mpi;

/// Integer handles begin here; smaller ones are predefined.
const FIRST_SLOT: c_int = 4096;

/// A file that the program has open.
pub(super) struct OpenFile {
    pub(super) mpi: &'static Mpi,
    pub(super) file: File,
    /// The access mode as the program gave it.
    pub(super) amode: c_int,
    /// The group of the ranks that opened it.
    pub(super) group: Group,
    /// Whether the state has a conversion, which reads and writes look at without a lock.
    pub(super) converts: AtomicBool,
    /// Whether non-blocking collectives go on in the background, on all ranks.
    pub(super) in_background: bool,
    pub(super) state: Mutex<FileState>,
    pub(super) unfinished: Mutex<Vec<Unfinished>>,
    pub(super) handle: usize,
}

/// What all ranks do not have in common yet, and the program may never ask for.
pub(super) enum Unfinished {
    /// Others wait for it, and no request of this rank.
    Agreement(Agreement),
    /// A request that the program may have freed.
    Request(Arc<RequestState>),
}

impl Unfinished {
    /// Waits for its end.
    fn finish(&self) {
        match self {
            Unfinished::Agreement(agreement) => agreement.finish(),
            Unfinished::Request(request) => request.finish(),
        }
    }
}

/// What MPI lets a program ask for and pario does not keep.
pub(super) struct FileState {
    /// The types of the view, as handles that are this file's own.
    pub(super) etype: OwnType,
    pub(super) filetype: OwnType,
    pub(super) representation: String,
    /// How data is converted, if the program does that itself.
    pub(super) conversion: Option<Conversion>,
    pub(super) handler: Handler,
    /// The split collective that was begun last and has not ended.
    pub(super) split: Option<Split>,
}

/// A split collective, whose begin has done all of the work.
#[derive(Clone, Copy)]
pub(super) struct Split {
    pub(super) name: &'static str,
    /// What its begin returned. After a failure the next may begin.
    pub(super) code: c_int,
    pub(super) bytes: u64,
}

impl OpenFile {
    pub(super) fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handle(&self) -> usize {
        self.handle
    }

    /// How the program converts data in this direction, if it does.
    pub(super) fn conversion(&self, write: bool) -> Option<Conversion> {
        if !self.converts.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state();
        state.conversion.as_ref().filter(|conversion| conversion.converts(write)).cloned()
    }

    /// Keeps something until a request has ended, or the file is closed.
    pub(super) fn keep(&self, one: Unfinished) {
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let has_ended =
            |one: &Unfinished| matches!(one, Unfinished::Request(one) if one.has_ended());
        unfinished.retain(|one| !has_ended(one));
        unfinished.push(one);
    }

    /// Waits for what was kept.
    pub(super) fn finish(&self) {
        let kept =
            std::mem::take(&mut *self.unfinished.lock().unwrap_or_else(PoisonError::into_inner));
        kept.iter().for_each(Unfinished::finish);
    }

    pub(super) fn handler(&self) -> Handler {
        self.state().handler
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        errors::drop_reference(self.mpi, self.handler());
    }
}

/// The files that are open, by their numbers.
struct FileTable {
    files: BTreeMap<usize, Arc<OpenFile>>,
    /// The number of the next file.
    next: usize,
}

static TABLE: RwLock<FileTable> = RwLock::new(FileTable { files: BTreeMap::new(), next: 0 });

/// What all handles have in common, and no address and no predefined handle has.
const PATTERN: usize = 0x7061_7269_0000_0000;

/// The number of a file.
fn number(handle: usize) -> Option<usize> {
    let number = (handle ^ PATTERN) >> 3;
    (handle & 7 == 0 && number <= u32::MAX as usize).then_some(number)
}

/// The null handle.
pub(super) fn null(mpi: &Mpi) -> usize {
    mpi.handle(mpi.abi.file_null)
}

/// Adds a file; `make` gets its handle, which is never used again for another.
pub(super) fn insert(make: impl FnOnce(usize) -> OpenFile) -> usize {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let number = table.next;
    table.next += 1;
    let handle = PATTERN | number << 3;
    table.files.insert(number, Arc::new(make(handle)));
    handle
}

/// The file of a handle.
pub(super) fn get(handle: usize) -> Result<Arc<OpenFile>> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let found = number(handle).and_then(|number| table.files.get(&number).cloned());
    found.ok_or_else(not_open)
}

fn not_open() -> Error {
    Error::new(ErrorClass::File, "the file handle is null, or of a file that was closed")
}

/// Prints what was done with files that are still open, where statistics are wanted. That is
/// known of this rank only: the others need not come here at the same time.
pub(super) fn print_open() {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    for open in table.files.values() {
        let wanted = open.file.hints().value("pario_statistics") != Some("false");
        if wanted && open.file.communicator().rank() == 0 {
            open.file.summary().print();
        }
    }
}

/// Runs something short on the file of a handle, if it is open: nobody opens or closes a file
/// meanwhile.
pub(super) fn briefly<T>(handle: usize, action: impl FnOnce(&OpenFile) -> Option<T>) -> Option<T> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    action(number(handle).and_then(|number| table.files.get(&number))?)
}

/// Takes a file out of the table.
pub(super) fn remove(handle: usize) -> Result<Arc<OpenFile>> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    number(handle).and_then(|number| table.files.remove(&number)).ok_or_else(not_open)
}

/// The integer handle of a file; 0 for the null handle and unknown ones.
pub(super) fn slot_of(handle: usize) -> c_int {
    let number = number(handle).filter(|_| get(handle).is_ok());
    let slot = number.and_then(|number| c_int::try_from(number).ok()?.checked_add(FIRST_SLOT));
    slot.unwrap_or(0)
}

/// The integer handle of a file in the standard ABI, where predefined handles are small integers.
pub(super) fn to_int(mpi: &Mpi, handle: usize) -> c_int {
    match slot_of(handle) {
        0 => c_int::try_from(null(mpi)).unwrap_or(0),
        slot => slot,
    }
}

/// The handle of an integer handle; the null handle for unknown ones.
pub(super) fn of_slot(mpi: &Mpi, slot: c_int) -> usize {
    let number = slot.checked_sub(FIRST_SLOT).and_then(|number| usize::try_from(number).ok());
    let handle = number.map(|number| PATTERN | number << 3);
    handle.filter(|handle| get(*handle).is_ok()).unwrap_or_else(|| null(mpi))
}

/// Runs a function on the file of a handle; an error goes to the file's handler, which may close
/// the file.
pub(super) fn with(
    mpi: &'static Mpi,
    handle: usize,
    action: impl FnOnce(&OpenFile) -> Result<()>,
) -> c_int {
    let file = match get(handle) {
        Ok(file) => file,
        Err(error) => return errors::raise(mpi, None, &error),
    };
    match action(&file) {
        Ok(()) => 0,
        Err(error) => errors::raise(mpi, Some(file), &error),
    }
}
