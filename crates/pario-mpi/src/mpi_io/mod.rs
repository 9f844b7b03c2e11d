//! `MPI_File_*` called as a program in C calls it: what `pario bench` measures beside pario.
//!
//! The functions are the MPI library's own, looked up in its file, past tools that watch MPI. Or
//! they are those of the drop-in, which is loaded beside the program, and not before the MPI
//! library. Both get the same datatypes (`datatype`), the same info and the same calls.
//!
//! Hazards: where the drop-in is preloaded, the library's own functions would call it for parts of
//! their work; that is refused. Where a rank of the library's own MPI-IO fails in a collective
//! call, the others may wait for it for ever.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pario::{Datatype, Error, ErrorClass, Result};

use crate::binding::{self, Mpi};
use crate::environment;

mod datatype;

pub use datatype::MpiDatatype;

type MoveBytes<Bytes> = unsafe extern "C" fn(usize, i64, Bytes, c_int, usize, *mut c_void) -> c_int;
type Write = MoveBytes<*const c_void>;
type Read = MoveBytes<*mut c_void>;

/// The functions of an implementation.
#[derive(Clone, Copy)]
pub struct MpiIo {
    mpi: &'static Mpi,
    open: unsafe extern "C" fn(usize, *const c_char, c_int, usize, *mut usize) -> c_int,
    close: unsafe extern "C" fn(*mut usize) -> c_int,
    set_view: unsafe extern "C" fn(usize, i64, usize, usize, *const c_char, usize) -> c_int,
    write: Write,
    write_all: Write,
    read: Read,
    read_all: Read,
}

impl MpiIo {
    /// The functions of the MPI library.
    ///
    /// # Errors
    /// `Other` if MPI is not active, if the library has no MPI-IO, or if the drop-in is preloaded.
    pub fn of_library() -> Result<MpiIo> {
        let mpi = active()?;
        let first = mpi.first_function("MPI_File_open");
        if first.is_some_and(binding::is_in_library) && !environment::is_disabled() {
            return Err(other(
                "libpario_mpi.so is preloaded, and the MPI library's own MPI-IO would call it for \
                 parts of its work: start without pario run, or with PARIO_DISABLE=1",
            ));
        }
        MpiIo::find(mpi, |name| {
            let missing = || other(format!("{} has no {}", mpi.path(), name.to_string_lossy()));
            mpi.own_function(name).ok_or_else(missing)
        })
    }

    /// The functions of the drop-in in a file, which stays loaded.
    ///
    /// # Errors
    /// `Other` if MPI is not active, or the file is no drop-in.
    pub fn of_drop_in(library: &Path) -> Result<MpiIo> {
        let mpi = active()?;
        let path = c_string(library.as_os_str().as_bytes())?;
        // SAFETY: the drop-in may be loaded at any time; its names stay out of the global scope.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(other(format!("{}: {}", library.display(), binding::loader_error())));
        }
        MpiIo::find(mpi, |name| {
            // SAFETY: the handle was just given.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            let missing = format!("{} has no {}", library.display(), name.to_string_lossy());
            if found.is_null() { Err(other(missing)) } else { Ok(found) }
        })
    }

    fn find(mpi: &'static Mpi, function: impl Fn(&CStr) -> Result<*mut c_void>) -> Result<MpiIo> {
        macro_rules! function {
            ($name:literal) => {{
                let address = function($name)?;
                // SAFETY: a function of that name has this signature in every MPI library; handles
                // are passed as `crate::abi` explains.
                unsafe { transmute_copy(&address) }
            }};
        }
        // By default, an error of the constructors of datatypes ends the job.
        for comm in [mpi.abi.comm_world, mpi.abi.comm_self] {
            let handler = mpi.handle(mpi.abi.errors_return);
            // SAFETY: MPI is active, and these communicators are there as long as it is.
            unsafe { (mpi.call.Comm_set_errhandler)(mpi.handle(comm), handler) };
        }
        Ok(MpiIo {
            mpi,
            open: function!(c"MPI_File_open"),
            close: function!(c"MPI_File_close"),
            set_view: function!(c"MPI_File_set_view"),
            write: function!(c"MPI_File_write_at"),
            write_all: function!(c"MPI_File_write_at_all"),
            read: function!(c"MPI_File_read_at"),
            read_all: function!(c"MPI_File_read_at_all"),
        })
    }

    /// A datatype of the library with the bytes, the bounds and the regularity of one of pario's.
    ///
    /// # Errors
    /// `Type` if a number is too large for MPI, or the library refuses it.
    pub fn datatype(&self, datatype: &Datatype) -> Result<MpiDatatype> {
        MpiDatatype::new(self.mpi, datatype)
    }

    /// Opens a file for reading and writing; all ranks of the world call this.
    ///
    /// # Errors
    /// What the library says; `Arg` for a path or a hint with a null byte.
    pub fn open<'a>(
        &self,
        path: &Path,
        create: bool,
        hints: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<MpiFile> {
        let abi = self.mpi.abi;
        let mode = if create { abi.mode_rdwr | abi.mode_create } else { abi.mode_rdwr };
        let mode = c_int::try_from(mode).unwrap_or(0);
        let path = c_string(path.as_os_str().as_bytes())?;
        let info = Info::new(self.mpi, hints)?;
        let (world, mut file) = (self.mpi.handle(abi.comm_world), 0);
        // SAFETY: MPI is active; the arguments are valid.
        let code = unsafe { (self.open)(world, path.as_ptr(), mode, info.handle, &mut file) };
        check(self.mpi, code, "MPI_File_open")?;
        Ok(MpiFile { io: *self, file })
    }
}

/// The MPI of this process.
fn active() -> Result<&'static Mpi> {
    let mpi = Mpi::get().map_err(other)?;
    match mpi.is_active() {
        true => Ok(mpi),
        false => Err(other("MPI is not initialised, or finalised")),
    }
}

/// An open file. It must be closed by all ranks, before MPI ends.
pub struct MpiFile {
    io: MpiIo,
    file: usize,
}

impl MpiFile {
    /// Sets the view; positions in it count bytes. All ranks call this.
    ///
    /// # Errors
    /// What the library says.
    pub fn set_view(&self, displacement: u64, filetype: &MpiDatatype) -> Result<()> {
        let (mpi, displacement) = (self.io.mpi, offset(displacement)?);
        let byte = mpi.handle(mpi.abi.byte);
        // A filetype without data is not allowed everywhere.
        let filetype = if filetype.size() == 0 { byte } else { filetype.handle() };
        let info = mpi.handle(mpi.abi.info_null);
        let name = c"native".as_ptr();
        // SAFETY: the file is open, the types are committed.
        let code =
            unsafe { (self.io.set_view)(self.file, displacement, byte, filetype, name, info) };
        check(mpi, code, "MPI_File_set_view")
    }

    /// Writes bytes of `data`: all of them, or those of one value of a datatype.
    ///
    /// # Errors
    /// What the library says; `Count` if the datatype reaches out of `data`.
    pub fn write(
        &self,
        position: u64,
        data: &[u8],
        datatype: Option<&MpiDatatype>,
        collective: bool,
    ) -> Result<()> {
        let (function, name) = match collective {
            true => (self.io.write_all, "MPI_File_write_at_all"),
            false => (self.io.write, "MPI_File_write_at"),
        };
        let start = data.as_ptr().cast();
        self.transfer(function, name, position, (start, data.len()), datatype)
    }

    /// Reads into `data`: into all of it, or into the bytes of one value of a datatype.
    ///
    /// # Errors
    /// As [`MpiFile::write`].
    pub fn read(
        &self,
        position: u64,
        data: &mut [u8],
        datatype: Option<&MpiDatatype>,
        collective: bool,
    ) -> Result<()> {
        let (function, name) = match collective {
            true => (self.io.read_all, "MPI_File_read_at_all"),
            false => (self.io.read, "MPI_File_read_at"),
        };
        let start = data.as_mut_ptr().cast();
        self.transfer(function, name, position, (start, data.len()), datatype)
    }

    fn transfer<Bytes>(
        &self,
        function: MoveBytes<Bytes>,
        name: &str,
        position: u64,
        (start, len): (Bytes, usize),
        datatype: Option<&MpiDatatype>,
    ) -> Result<()> {
        let (mpi, position) = (self.io.mpi, offset(position)?);
        let long;
        let (count, handle) = match (datatype, c_int::try_from(len)) {
            (Some(datatype), _) => {
                datatype.check_inside(len)?;
                (1, datatype.handle())
            }
            (None, Ok(count)) => (count, mpi.handle(mpi.abi.byte)),
            (None, Err(_)) => {
                long = MpiDatatype::bytes(mpi, len)?;
                (1, long.handle())
            }
        };
        let status = std::ptr::without_provenance_mut(mpi.abi.status_ignore);
        // SAFETY: the file is open, the type is committed, and its bytes lie inside the memory.
        let code = unsafe { function(self.file, position, start, count, handle, status) };
        check(mpi, code, name)
    }

    /// Closes it; all ranks call this.
    ///
    /// # Errors
    /// What the library says.
    pub fn close(mut self) -> Result<()> {
        // SAFETY: the file is open, and not used afterwards.
        let code = unsafe { (self.io.close)(&mut self.file) };
        check(self.io.mpi, code, "MPI_File_close")
    }
}

/// Hints as MPI has them.
struct Info {
    mpi: &'static Mpi,
    handle: usize,
}

impl Info {
    fn new<'a>(mpi: &'static Mpi, hints: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Info> {
        let mut info = Info { mpi, handle: 0 };
        // SAFETY: MPI is active.
        let code = unsafe { (mpi.call.Info_create)(&mut info.handle) };
        check(mpi, code, "MPI_Info_create")?;
        for (key, value) in hints {
            let (key, value) = (c_string(key.as_bytes())?, c_string(value.as_bytes())?);
            // SAFETY: the object was made above, the strings are valid.
            let code = unsafe { (mpi.call.Info_set)(info.handle, key.as_ptr(), value.as_ptr()) };
            check(mpi, code, "MPI_Info_set")?;
        }
        Ok(info)
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: the object was made by `new`, as long as MPI is active.
        unsafe { (self.mpi.call.Info_free)(&mut self.handle) };
    }
}

/// The library's text of an error, if it is one.
fn check(mpi: &Mpi, code: c_int, what: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    const ROOM: usize = 8192;
    let (mut text, mut len) = (vec![0u8; ROOM + 1], 0);
    // SAFETY: MPI_MAX_ERROR_STRING is less than that in every library.
    unsafe { (mpi.call.Error_string)(code, text.as_mut_ptr().cast(), &mut len) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy();
    let words: Vec<&str> = text.split_whitespace().collect();
    Err(other(format!("{what} failed: {}", words.join(" "))))
}

fn other(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::Other, text)
}

fn offset(bytes: u64) -> Result<i64> {
    let too_far = |_| Error::new(ErrorClass::Arg, format!("no file has {bytes} bytes"));
    i64::try_from(bytes).map_err(too_far)
}

fn c_string(bytes: &[u8]) -> Result<CString> {
    let broken = |_| Error::new(ErrorClass::Arg, "a path or a hint with a null byte");
    CString::new(bytes).map_err(broken)
}
