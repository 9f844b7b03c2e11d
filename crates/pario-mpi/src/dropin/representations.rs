//! Data representations that a program registers (MPI-4.1, section 14.5.3).
//!
//! The program says how long each predefined type is in the file, and converts buffers itself. A
//! view in such a representation is one whose types have those lengths; a write converts its data
//! into a buffer of the file's form and writes that, a read does the reverse. The buffer is as long
//! as the request.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pario::{Datatype, Error, ErrorClass, Representation, Result};

use super::errors;
use super::manage::string;
use super::transfer::UserBuffer;
use crate::binding::Mpi;
use crate::datatype;

/// Longest name of a representation, `MPI_MAX_DATAREP_STRING` of all libraries.
const NAME_MAX: usize = 127;

/// What a program gave to `MPI_Register_datarep`.
#[derive(Clone, Copy)]
pub(super) struct Registered {
    /// Conversion functions; 0 for none.
    pub(super) read: usize,
    pub(super) write: usize,
    /// `int (*)(MPI_Datatype, MPI_Aint *extent, void *state)`.
    pub(super) extent: usize,
    /// The program's own, only passed on.
    pub(super) state: usize,
    /// Whether counts are `MPI_Count`.
    pub(super) large: bool,
}

static REPRESENTATIONS: Mutex<BTreeMap<String, Registered>> = Mutex::new(BTreeMap::new());

fn representations() -> MutexGuard<'static, BTreeMap<String, Registered>> {
    REPRESENTATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// MPI_Register_datarep.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn register(
    mpi: &'static Mpi,
    name: *const c_char,
    registered: Registered,
) -> c_int {
    // SAFETY: passed on from the caller.
    let outcome = unsafe { string(name) }.and_then(|name| {
        let name = name.to_string_lossy().into_owned();
        let argument = |text: String| Err(Error::new(ErrorClass::Arg, text));
        if name.is_empty() || name.len() > NAME_MAX {
            return argument(format!("a data representation's name has 1 to {NAME_MAX} bytes"));
        }
        if registered.extent == 0 {
            return argument(format!("data representation {name:?}: no extent function"));
        }
        if name.parse::<Representation>().is_ok() || representations().contains_key(&name) {
            let text = format!("data representation {name:?} is registered already");
            return Err(Error::new(ErrorClass::DupDatarep, text));
        }
        representations().insert(name, registered);
        Ok(())
    });
    outcome.map_or_else(|error| errors::raise(mpi, None, &error), |()| 0)
}

/// The representation of a name, and how the program converts it. One that was registered without
/// conversion functions is that of memory.
pub(super) fn known(mpi: &'static Mpi, name: &str) -> Result<(Representation, Option<Conversion>)> {
    match representations().get(name) {
        Some(&functions) => {
            let converts = functions.read != 0 || functions.write != 0;
            let conversion = converts.then(|| Conversion { mpi, name: name.to_owned(), functions });
            Ok((Representation::Internal, conversion))
        }
        None => Ok((name.parse()?, None)),
    }
}

/// How a program converts the data of a file.
#[derive(Clone)]
pub(super) struct Conversion {
    mpi: &'static Mpi,
    name: String,
    functions: Registered,
}

/// What a buffer becomes in the file.
pub(super) struct Converted {
    /// Its bytes there.
    pub(super) bytes: Vec<u8>,
    items: u64,
    memory_bytes: u64,
}

impl Converted {
    /// What part of a quantity belongs to the first `moved` bytes in the file.
    fn share(&self, whole: u64, moved: u64) -> u64 {
        let share = u128::from(whole) * u128::from(moved) / (self.bytes.len().max(1) as u128);
        u64::try_from(share).unwrap_or(whole)
    }

    /// How many bytes of the program's buffer were moved, for its status.
    pub(super) fn memory_moved(&self, moved: u64) -> u64 {
        self.share(self.memory_bytes, moved)
    }
}

impl Conversion {
    /// A type as it is in the file.
    ///
    /// # Errors
    /// `Conversion` if the program's extent function fails.
    pub(super) fn in_file(&self, handle: usize) -> Result<Datatype> {
        datatype::replaced(self.mpi, handle, &|element| {
            Datatype::contiguous(self.extent(element)?, &Datatype::byte())
        })
    }

    /// Whether data is converted in this direction; without a function it is as in memory.
    pub(super) fn converts(&self, write: bool) -> bool {
        let function = if write { self.functions.write } else { self.functions.read };
        function != 0
    }

    fn state(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.functions.state)
    }

    fn failed(&self, what: &str, code: c_int) -> Error {
        let text = format!("data representation {:?}: {what} returned {code}", self.name);
        Error::new(ErrorClass::Conversion, text)
    }

    fn extent(&self, element: usize) -> Result<u64> {
        type Extent = unsafe extern "C" fn(usize, *mut isize, *mut c_void) -> c_int;
        let mut extent = 0;
        // SAFETY: the program registered a function of this type.
        let code = unsafe {
            let ask = std::mem::transmute::<usize, Extent>(self.functions.extent);
            ask(element, &mut extent, self.state())
        };
        match (code, u64::try_from(extent)) {
            (0, Ok(extent)) => Ok(extent),
            (0, Err(_)) => Err(self.failed("the extent function gave less than nothing and", 0)),
            (code, _) => Err(self.failed("the extent function", code)),
        }
    }

    /// Room for what a buffer becomes in the file.
    ///
    /// # Errors
    /// `Count` if the buffer is too long, and those of [`UserBuffer::memory`] and
    /// [`Conversion::in_file`].
    pub(super) fn room(&self, buffer: &UserBuffer) -> Result<Converted> {
        let too_long = || Error::new(ErrorClass::Count, "the buffer is too long to be converted");
        let memory = buffer.memory(self.mpi)?;
        let count = memory.count;
        let times = |bytes: u64| bytes.checked_mul(count).ok_or_else(too_long);
        // With every predefined type of one byte, the size is the number of items.
        let items = datatype::replaced(self.mpi, buffer.datatype, &|_| Ok(Datatype::byte()))?;
        let items = times(items.size())?;
        let bytes = times(self.in_file(buffer.datatype)?.size())?;
        let memory_bytes = times(memory.datatype.size())?;
        let mut room = Vec::new();
        let bytes = usize::try_from(bytes).map_err(|_| too_long())?;
        room.try_reserve_exact(bytes).map_err(|_| {
            let text = format!("no memory for {bytes} bytes to be converted; write in pieces");
            Error::new(ErrorClass::NoMemory, text)
        })?;
        room.resize(bytes, 0);
        Ok(Converted { bytes: room, items, memory_bytes })
    }

    /// Converts a buffer for a write.
    ///
    /// # Errors
    /// `Conversion` if the program's function fails, and those of [`Conversion::room`].
    ///
    /// # Safety
    /// The buffer is one that the program wants to write.
    pub(super) unsafe fn encode(&self, buffer: &UserBuffer) -> Result<Converted> {
        let mut converted = self.room(buffer)?;
        let items = converted.items;
        // SAFETY: passed on from the caller; the room is as long as all items.
        unsafe { self.call(self.functions.write, buffer, items, &mut converted.bytes)? };
        Ok(converted)
    }

    /// Converts what a read brought, into the program's buffer.
    ///
    /// # Errors
    /// `Conversion` if the program's function fails.
    ///
    /// # Safety
    /// The buffer is one that the program wants to fill, and `converted` its room.
    pub(super) unsafe fn decode(
        &self,
        buffer: &UserBuffer,
        converted: &mut Converted,
        moved: u64,
    ) -> Result<()> {
        let items = converted.share(converted.items, moved);
        // SAFETY: passed on from the caller.
        unsafe { self.call(self.functions.read, buffer, items, &mut converted.bytes) }
    }

    /// Calls a conversion function of the program.
    ///
    /// # Safety
    /// The program's buffer and the bytes in the file's form have room for `items` items.
    unsafe fn call(
        &self,
        function: usize,
        buffer: &UserBuffer,
        items: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        type Small =
            unsafe extern "C" fn(*mut c_void, usize, c_int, *mut c_void, i64, *mut c_void) -> c_int;
        type Large =
            unsafe extern "C" fn(*mut c_void, usize, i64, *mut c_void, i64, *mut c_void) -> c_int;
        if items == 0 {
            return Ok(());
        }
        let (user, file) = (buffer.address, bytes.as_mut_ptr().cast());
        let state = self.state();
        let too_many = |_| {
            let text = format!("{items} items are more than the conversion function can count");
            Error::new(ErrorClass::Count, text)
        };
        // SAFETY: the program registered functions of these types, and the caller answers for the
        // buffers.
        let code = unsafe {
            match self.functions.large {
                true => {
                    let convert = std::mem::transmute::<usize, Large>(function);
                    let items = i64::try_from(items).map_err(too_many)?;
                    convert(user, buffer.datatype, items, file, 0, state)
                }
                false => {
                    let convert = std::mem::transmute::<usize, Small>(function);
                    let items = c_int::try_from(items).map_err(too_many)?;
                    convert(user, buffer.datatype, items, file, 0, state)
                }
            }
        };
        match code {
            0 => Ok(()),
            code => Err(self.failed("the conversion function", code)),
        }
    }
}
