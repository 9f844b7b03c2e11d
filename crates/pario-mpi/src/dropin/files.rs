//! Open files and their handles.
//!
//! A handle is the address of the open file, never followed: it is looked up in a table, so that a
//! null, freed or foreign handle is an error of class `File` and not a crash. Fortran's and the
//! standard ABI's integer handles are numbers of slots.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pario::{Error, ErrorClass, File, Result};

use super::errors::{self, Handler};
use super::representations::Conversion;
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
    pub(super) group: usize,
    pub(super) state: Mutex<FileState>,
    pub(super) handle: usize,
}

/// What MPI lets a program ask for and pario does not keep.
pub(super) struct FileState {
    /// The types of the view, as handles that are this file's own.
    pub(super) etype: usize,
    pub(super) filetype: usize,
    pub(super) representation: String,
    /// How data is converted, if the program does that itself.
    pub(super) conversion: Option<Conversion>,
    pub(super) handler: Handler,
    /// What the active split collective will return: its name, its code and its bytes.
    pub(super) split: Option<(&'static str, c_int, u64)>,
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
        let state = self.state();
        state.conversion.as_ref().filter(|conversion| conversion.converts(write)).cloned()
    }

    pub(super) fn handler(&self) -> Handler {
        self.state().handler
    }
}

#[derive(Default)]
struct Table {
    files: HashMap<usize, (Arc<OpenFile>, c_int)>,
    slots: HashMap<c_int, usize>,
    next: usize,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

/// The null handle.
pub(super) fn null(mpi: &Mpi) -> usize {
    mpi.handle(mpi.abi.file_null)
}

/// Adds a file; `make` gets its handle.
pub(super) fn insert(make: impl FnOnce(usize) -> OpenFile) -> usize {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let table = table.get_or_insert_with(Table::default);
    // Handles are made up of a number that is never used twice and a pattern that no address and
    // no predefined handle has.
    table.next += 1;
    let handle = 0x7061_7269_0000_0000 | table.next << 3;
    let slot = FIRST_SLOT + c_int::try_from(table.next).unwrap_or(0);
    table.files.insert(handle, (Arc::new(make(handle)), slot));
    table.slots.insert(slot, handle);
    handle
}

/// The file of a handle.
pub(super) fn get(handle: usize) -> Result<Arc<OpenFile>> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let found = table.as_ref().and_then(|table| table.files.get(&handle));
    found.map(|(file, _)| file.clone()).ok_or_else(|| {
        Error::new(ErrorClass::File, "the file handle is null, or of a file that was closed")
    })
}

/// Takes a file out of the table.
pub(super) fn remove(handle: usize) -> Result<Arc<OpenFile>> {
    let file = get(handle)?;
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = table.as_mut()
        && let Some((_, slot)) = table.files.remove(&handle)
    {
        table.slots.remove(&slot);
    }
    Ok(file)
}

/// The integer handle of a file; 0 for the null handle and unknown ones.
pub(super) fn slot_of(handle: usize) -> c_int {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let found = table.as_ref().and_then(|table| table.files.get(&handle));
    found.map_or(0, |(_, slot)| *slot)
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
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let found = table.as_ref().and_then(|table| table.slots.get(&slot));
    found.copied().unwrap_or_else(|| null(mpi))
}

/// Runs a function on the file of a handle; an error goes to the file's handler.
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
        Err(error) => errors::raise(mpi, Some(&file), &error),
    }
}
