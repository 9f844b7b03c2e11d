//! Open, close, views, sizes, hints: what is not data access.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::SeekFrom;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use pario::{
    Datatype, EffectiveHint, Error, ErrorClass, File, HintSet, Representation, Result, View,
};

use super::errors;
use super::files::{self, FileState, OpenFile};
use super::representations::{self, Conversion};
use super::{OPENED, put_handle, unused};
use crate::binding::Mpi;
use crate::comm::{MpiCommunicator, check};
use crate::datatype;
use crate::kept::Pool;

fn argument(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::Arg, text)
}

fn positive(value: i64, what: &str) -> Result<u64> {
    u64::try_from(value).map_err(|_| argument(format!("{what} of {value} is negative")))
}

/// A string of the program.
///
/// # Safety
/// `text` is null or a valid C string.
pub(super) unsafe fn string<'a>(text: *const c_char) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(argument("a string is a null pointer"));
    }
    // SAFETY: the caller says so.
    Ok(unsafe { CStr::from_ptr(text) })
}

fn path(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// The hints of an info object.
///
/// # Errors
/// `Arg` if the library cannot read it.
fn hints(mpi: &Mpi, info: usize) -> Result<HintSet> {
    let mut hints = HintSet::new();
    if info == mpi.handle(mpi.abi.info_null) {
        return Ok(hints);
    }
    let read = |code: c_int| match code {
        0 => Ok(()),
        code => Err(argument(format!("the info object cannot be read: MPI error {code}"))),
    };
    let mut count = 0;
    // SAFETY: the program passes an info object; all places for answers are large enough.
    read(unsafe { (mpi.call.Info_get_nkeys)(info, &mut count) })?;
    let (mut key, mut value) = ([0u8; 1024], [0u8; 4096]);
    let len = c_int::try_from(mpi.abi.max_info_val).unwrap_or(256).min(4095);
    for index in 0..count {
        let mut found = 0;
        // SAFETY: as above.
        unsafe {
            read((mpi.call.Info_get_nthkey)(info, index, key.as_mut_ptr().cast()))?;
            let key = key.as_ptr().cast();
            read((mpi.call.Info_get)(info, key, len, value.as_mut_ptr().cast(), &mut found))?;
        }
        let text = |bytes: &[u8]| {
            let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
            text.to_string_lossy().into_owned()
        };
        if found != 0 {
            hints = hints.with(text(&key), text(&value));
        }
    }
    Ok(hints)
}

/// The bits of an access mode that a program gave.
fn has(amode: c_int, bit: i64) -> bool {
    i64::from(amode) & bit != 0
}

/// MPI_File_open.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn open(
    mpi: &'static Mpi,
    comm: usize,
    name: *const c_char,
    amode: c_int,
    info: usize,
    out: *mut usize,
) -> c_int {
    // SAFETY: the program passes room for a file handle, which has 8 bytes in every ABI.
    unsafe { write_to(out, files::null(mpi)) };
    OPENED.store(true, Ordering::Relaxed);
    unused::warn_if_alone(mpi);
    // Without a communicator there is nobody to announce an error to.
    let opened = communicator(mpi, comm).and_then(|communicator| {
        let own = match out.is_null() {
            true => Err(argument("open: no place for the handle")),
            // SAFETY: passed on from the caller.
            false => unsafe { string(name) }.and_then(|name| {
                Ok(Opening { path: path(name), hints: hints(mpi, info)?, group: group(mpi, comm)? })
            }),
        };
        open_file(mpi, &communicator, own, amode)
    });
    match opened {
        Ok(handle) => {
            // SAFETY: as above.
            unsafe { write_to(out, handle) };
            0
        }
        Err(error) => errors::raise(mpi, None, &error),
    }
}

/// What a rank brings to an open. What is wrong with it is the outcome on all ranks.
struct Opening<'a> {
    path: &'a Path,
    hints: HintSet,
    group: Group,
}

/// A group of the library that is this value's own.
pub(super) struct Group {
    mpi: &'static Mpi,
    pub(super) handle: usize,
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the group is this value's own.
        unsafe { (self.mpi.call.Group_free)(&mut self.handle) };
    }
}

fn group(mpi: &'static Mpi, comm: usize) -> Result<Group> {
    let mut handle = 0;
    // SAFETY: the program passes a communicator.
    check(unsafe { (mpi.call.Comm_group)(comm, &mut handle) }, "MPI_Comm_group")?;
    Ok(Group { mpi, handle })
}

/// The ranks that open a file.
pub(super) fn communicator(mpi: &'static Mpi, comm: usize) -> Result<MpiCommunicator> {
    if comm == mpi.handle(mpi.abi.comm_null) {
        return Err(argument("open: the communicator is MPI_COMM_NULL"));
    }
    let mut inter = 0;
    // SAFETY: the program passes a communicator.
    check(unsafe { (mpi.call.Comm_test_inter)(comm, &mut inter) }, "MPI_Comm_test_inter")?;
    if inter != 0 {
        return Err(argument("open: files need an intracommunicator"));
    }
    let mut ranks = MpiCommunicator::borrow(mpi, comm)?;
    // SAFETY: the communicator is valid, since MPI knows its rank.
    ranks.pool = unsafe { Pool::of_program(mpi, comm) };
    Ok(ranks)
}

fn open_file(
    mpi: &'static Mpi,
    communicator: &MpiCommunicator,
    own: Result<Opening<'_>>,
    amode: c_int,
) -> Result<usize> {
    let abi = mpi.abi;
    let modes = [abi.mode_rdonly, abi.mode_wronly, abi.mode_rdwr];
    let accesses = modes.iter().filter(|&&bit| has(amode, bit)).count();
    let (read, write) = (
        has(amode, abi.mode_rdonly) || has(amode, abi.mode_rdwr),
        has(amode, abi.mode_wronly) || has(amode, abi.mode_rdwr),
    );
    let mut options = File::options()
        .read(read && accesses == 1)
        .write(write && accesses == 1)
        .create(has(amode, abi.mode_create))
        .exclusive(has(amode, abi.mode_excl))
        .append(has(amode, abi.mode_append))
        .sequential(has(amode, abi.mode_sequential))
        .delete_on_close(has(amode, abi.mode_delete_on_close))
        .unique_open(has(amode, abi.mode_unique_open));
    for (key, value) in own.iter().flat_map(|own| own.hints.iter()) {
        options = options.hint(key, value);
    }
    let name = own.as_ref().map(|own| own.path).map_err(Clone::clone);
    let file = options.try_open(communicator, name)?;
    let group = own?.group;
    let handler = errors::default_handler(mpi);
    errors::take_reference(handler);
    let state = FileState {
        etype: OwnType::predefined(mpi, mpi.handle(abi.byte)),
        filetype: OwnType::predefined(mpi, mpi.handle(abi.byte)),
        representation: "native".into(),
        conversion: None,
        handler,
        split: None,
    };
    let in_background = communicator.pool.all_go_on();
    Ok(files::insert(|handle| OpenFile {
        mpi,
        file,
        amode,
        group,
        converts: AtomicBool::new(false),
        state: Mutex::new(state),
        in_background,
        unfinished: Mutex::default(),
        handle,
    }))
}

/// MPI_File_close.
///
/// # Safety
/// `place` holds a file handle.
pub(super) unsafe fn close(mpi: &'static Mpi, place: *mut usize) -> c_int {
    if place.is_null() {
        return errors::raise(mpi, None, &argument("close: no file handle"));
    }
    // SAFETY: the program passes a handle.
    let handle = unsafe { place.read() };
    let open = match files::remove(handle) {
        Ok(open) => open,
        Err(error) => return errors::raise(mpi, None, &error),
    };
    // SAFETY: as above.
    unsafe { place.write(files::null(mpi)) };
    // An error handler may close the file of the call that failed, and a non-blocking call may not
    // have ended: the file is closed for all of them, and its memory freed with the last.
    let handler = open.handler();
    errors::take_reference(handler);
    open.finish();
    let communicator = open.file.communicator();
    let closed = pario::comm::block_on(communicator, open.file.handle().close());
    drop(open);
    let code = closed.map_or_else(
        |error| errors::call(mpi, handle, handler, errors::code(mpi, &error), Some(&error)),
        |()| 0,
    );
    errors::drop_reference(mpi, handler);
    code
}

/// MPI_File_delete.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn delete(mpi: &'static Mpi, name: *const c_char) -> c_int {
    // SAFETY: passed on from the caller.
    let deleted = unsafe { string(name) }.and_then(|name| File::delete(path(name)));
    deleted.map_or_else(|error| errors::raise(mpi, None, &error), |()| 0)
}

/// A type that a view keeps: a predefined one as it is, another as a duplicate.
pub(super) struct OwnType {
    mpi: &'static Mpi,
    handle: usize,
    is_duplicate: bool,
}

impl OwnType {
    fn predefined(mpi: &'static Mpi, handle: usize) -> OwnType {
        OwnType { mpi, handle, is_duplicate: false }
    }

    fn of(mpi: &'static Mpi, handle: usize) -> Result<OwnType> {
        if datatype::is_predefined(mpi, handle)? {
            return Ok(OwnType::predefined(mpi, handle));
        }
        let mut duplicate = 0;
        // SAFETY: the type is valid, since its envelope could be read.
        let code = unsafe { (mpi.call.Type_dup)(handle, &mut duplicate) };
        match code {
            0 => Ok(OwnType { mpi, handle: duplicate, is_duplicate: true }),
            code => Err(Error::new(ErrorClass::Type, format!("MPI_Type_dup failed with {code}"))),
        }
    }

    /// The handle, which the program frees.
    fn into_handle(mut self) -> usize {
        self.is_duplicate = false;
        self.handle
    }
}

impl Drop for OwnType {
    fn drop(&mut self) {
        if self.is_duplicate {
            // SAFETY: the duplicate is this value's own.
            unsafe { (self.mpi.call.Type_free)(&mut self.handle) };
        }
    }
}

/// MPI_File_set_view.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn set_view(
    mpi: &'static Mpi,
    handle: usize,
    displacement: i64,
    types: (usize, usize),
    representation: *const c_char,
    info: usize,
) -> c_int {
    files::with(mpi, handle, |open| {
        // SAFETY: passed on from the caller.
        let new = unsafe { describe(open, displacement, types, representation, info) };
        let nothing = HintSet::new();
        let (given, common) = new.as_ref().map_or((&nothing, 0), |new| (&new.hints, new.common()));
        let view = new.as_ref().map(|new| &new.view).map_err(Clone::clone);
        open.file.try_set_view_with(view, given, common)?;
        let new = new?;
        let mut state = open.state();
        (state.etype, state.filetype) = new.types;
        state.representation = new.name;
        open.converts.store(new.conversion.is_some(), Ordering::Release);
        state.conversion = new.conversion;
        Ok(())
    })
}

/// The view that a program describes.
struct NewView {
    view: View,
    types: (OwnType, OwnType),
    /// The name of its representation, and how the program converts it.
    name: String,
    conversion: Option<Conversion>,
    hints: HintSet,
}

impl NewView {
    /// A number that is the same on all ranks: how a program converts data decides which steps a
    /// collective takes.
    fn common(&self) -> u64 {
        let Some(conversion) = &self.conversion else { return 0 };
        let mut hasher = DefaultHasher::new();
        (&self.name, conversion.converts(false), conversion.converts(true)).hash(&mut hasher);
        hasher.finish()
    }
}

unsafe fn describe(
    open: &OpenFile,
    displacement: i64,
    types: (usize, usize),
    representation: *const c_char,
    info: usize,
) -> Result<NewView> {
    let mpi = open.mpi;
    let displacement = match displacement == mpi.abi.displacement_current {
        true if open.file.mode().sequential => {
            open.file.byte_offset(open.file.position_shared()?)?
        }
        true => return Err(argument("set_view: MPI_DISPLACEMENT_CURRENT needs a sequential file")),
        false => positive(displacement, "set_view: a displacement")?,
    };
    // SAFETY: passed on from the caller.
    let name = unsafe { string(representation) }?.to_string_lossy().into_owned();
    let (representation, conversion) = representations::known(mpi, &name)?;
    let decode = |handle| match &conversion {
        Some(conversion) => conversion.in_file(handle),
        None => datatype::decode(mpi, handle),
    };
    let view = View::new(displacement, &decode(types.0)?, &decode(types.1)?);
    let view = view.with_representation(representation);
    let types = (OwnType::of(mpi, types.0)?, OwnType::of(mpi, types.1)?);
    Ok(NewView { view, types, name, conversion, hints: hints(mpi, info)? })
}

/// MPI_File_get_view.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn get_view(
    mpi: &'static Mpi,
    handle: usize,
    displacement: *mut i64,
    types: (*mut c_void, *mut c_void),
    representation: *mut c_char,
) -> c_int {
    files::with(mpi, handle, |open| {
        let view = open.file.view();
        let (etype, filetype, name) = {
            let state = open.state();
            (state.etype.handle, state.filetype.handle, state.representation.clone())
        };
        let (etype, filetype) = (OwnType::of(mpi, etype)?, OwnType::of(mpi, filetype)?);
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the program passes room for all of them; names of representations are shorter
        // than MPI_MAX_DATAREP_STRING.
        unsafe {
            write_to(displacement, i64::try_from(view.displacement()).unwrap_or(i64::MAX));
            put_handle(mpi, types.0, etype.into_handle());
            put_handle(mpi, types.1, filetype.into_handle());
            if !representation.is_null() {
                let bytes = name.as_bytes_with_nul();
                bytes.as_ptr().copy_to_nonoverlapping(representation.cast(), bytes.len());
            }
        }
        Ok(())
    })
}

/// Writes to a place that a program gave.
///
/// # Safety
/// `place` is null or valid.
pub(super) unsafe fn write_to<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller says so.
        unsafe { place.write(value) };
    }
}

/// A call that gives one number.
///
/// # Safety
/// `place` is null or valid.
pub(super) unsafe fn number<T>(
    mpi: &'static Mpi,
    handle: usize,
    place: *mut T,
    ask: impl FnOnce(&OpenFile) -> Result<T>,
) -> c_int {
    files::with(mpi, handle, |open| {
        let value = ask(open)?;
        // SAFETY: passed on from the caller.
        unsafe { write_to(place, value) };
        Ok(())
    })
}

pub(super) fn offset(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// MPI_File_sync.
pub(super) fn sync(mpi: &'static Mpi, handle: usize) -> c_int {
    match files::briefly(handle, |open| open.file.sync_briefly()) {
        Some(Ok(())) => 0,
        // An error is said once more, where its handler may close the file.
        _ => files::with(mpi, handle, |open| open.file.sync()),
    }
}

/// MPI_File_set_size and MPI_File_preallocate.
pub(super) fn resize(mpi: &'static Mpi, handle: usize, bytes: i64, preallocate: bool) -> c_int {
    files::with(mpi, handle, |open| {
        let bytes = positive(bytes, "a size");
        match preallocate {
            true => open.file.try_preallocate(bytes),
            false => open.file.try_set_size(bytes),
        }
    })
}

/// Where a seek goes.
fn seek_from(mpi: &Mpi, offset: i64, whence: c_int) -> Result<SeekFrom> {
    let abi = mpi.abi;
    match i64::from(whence) {
        it if it == abi.seek_set => Ok(SeekFrom::Start(positive(offset, "seek: an offset")?)),
        it if it == abi.seek_cur => Ok(SeekFrom::Current(offset)),
        it if it == abi.seek_end => Ok(SeekFrom::End(offset)),
        other => Err(argument(format!("seek: {other} is none of MPI_SEEK_SET, _CUR and _END"))),
    }
}

/// MPI_File_seek and MPI_File_seek_shared.
pub(super) fn seek(
    mpi: &'static Mpi,
    handle: usize,
    offset: i64,
    whence: c_int,
    shared: bool,
) -> c_int {
    files::with(mpi, handle, |open| {
        let to = seek_from(mpi, offset, whence);
        match shared {
            true => open.file.try_seek_shared(to).map(|_| ()),
            false => open.file.seek(to?).map(|_| ()),
        }
    })
}

/// MPI_File_get_group.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn get_group(mpi: &'static Mpi, handle: usize, place: *mut c_void) -> c_int {
    files::with(mpi, handle, |open| {
        let mut group = 0;
        // SAFETY: excluding nobody makes a copy; the program passes room for a group.
        unsafe {
            let excl = mpi.call.Group_excl;
            check(excl(open.group.handle, 0, std::ptr::null(), &mut group), "MPI_Group_excl")?;
            put_handle(mpi, place, group);
        }
        Ok(())
    })
}

/// MPI_File_get_info.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn get_info(mpi: &'static Mpi, handle: usize, place: *mut c_void) -> c_int {
    files::with(mpi, handle, |open| {
        let mut info = 0;
        // SAFETY: the strings are valid; the program passes room for an info object.
        unsafe {
            check((mpi.call.Info_create)(&mut info), "MPI_Info_create")?;
            // A longer value would be an error of the library, which ends the program.
            let most = usize::try_from(mpi.abi.max_info_val).unwrap_or(0);
            let fits = |hint: &&EffectiveHint| hint.value.len() < most;
            for hint in open.file.info().iter().filter(fits) {
                let (key, value) = (CString::new(hint.name), CString::new(&*hint.value));
                if let (Ok(key), Ok(value)) = (key, value) {
                    (mpi.call.Info_set)(info, key.as_ptr(), value.as_ptr());
                }
            }
            put_handle(mpi, place, info);
        }
        Ok(())
    })
}

/// MPI_File_set_info.
pub(super) fn set_info(mpi: &'static Mpi, handle: usize, info: usize) -> c_int {
    files::with(mpi, handle, |open| {
        let given = hints(mpi, info);
        open.file.try_set_hints(given.as_ref().map_err(Clone::clone))
    })
}

/// MPI_File_get_type_extent: the extent in the file's representation.
pub(super) fn type_extent(open: &OpenFile, handle: usize) -> Result<i64> {
    let conversion = open.state().conversion.clone();
    if let Some(conversion) = conversion {
        return Ok(conversion.in_file(handle)?.extent());
    }
    let datatype: Datatype = datatype::decode(open.mpi, handle)?;
    match open.file.view().representation() {
        Representation::External32 => datatype.external_extent(),
        _ => Ok(datatype.extent()),
    }
}

/// MPI_File_set_errhandler.
pub(super) fn set_errhandler(mpi: &'static Mpi, handle: usize, handler: usize) -> c_int {
    if handle == files::null(mpi) {
        errors::set_default_handler(mpi, handler);
        return 0;
    }
    files::with(mpi, handle, |open| {
        errors::take_reference(handler);
        let old = std::mem::replace(&mut open.state().handler, handler);
        errors::drop_reference(mpi, old);
        Ok(())
    })
}

/// MPI_File_get_errhandler.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn get_errhandler(mpi: &'static Mpi, handle: usize, place: *mut c_void) -> c_int {
    let handler = match handle == files::null(mpi) {
        true => errors::default_handler(mpi),
        false => match files::get(handle) {
            Ok(open) => open.handler(),
            Err(error) => return errors::raise(mpi, None, &error),
        },
    };
    // The program frees what it gets.
    errors::take_reference(handler);
    // SAFETY: the program passes room for a handler.
    unsafe { put_handle(mpi, place, handler) };
    0
}

/// MPI_File_create_errhandler.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn create_errhandler(
    mpi: &'static Mpi,
    callback: usize,
    place: *mut c_void,
) -> c_int {
    match errors::create(mpi, callback, errors::Language::C) {
        Ok(handler) => {
            // SAFETY: the program passes room for a handler.
            unsafe { put_handle(mpi, place, handler) };
            0
        }
        Err(error) => errors::raise(mpi, None, &error),
    }
}

/// MPI_File_call_errhandler.
pub(super) fn call_errhandler(mpi: &'static Mpi, handle: usize, code: c_int) -> c_int {
    let handler = match handle == files::null(mpi) {
        true => errors::default_handler(mpi),
        false => match files::get(handle) {
            Ok(open) => open.handler(),
            Err(error) => return errors::raise(mpi, None, &error),
        },
    };
    errors::call(mpi, handle, handler, code, None);
    0
}

/// MPI_Errhandler_free.
///
/// # Safety
/// `place` holds an error handler.
pub(super) unsafe fn errhandler_free(mpi: &'static Mpi, place: *mut c_void) -> c_int {
    if place.is_null() {
        return errors::raise(mpi, None, &argument("MPI_Errhandler_free: no handler"));
    }
    // SAFETY: passed on from the caller.
    unsafe { errors::free_handler(mpi, place) }
}

/// An error for questions of position, which sequential files do not answer.
fn refuse_sequential(open: &OpenFile, name: &str) -> Result<()> {
    if !open.file.mode().sequential {
        return Ok(());
    }
    let text = format!("{name}: a sequential file has a shared file pointer only");
    Err(Error::new(ErrorClass::UnsupportedOperation, text))
}

/// MPI_File_get_position.
pub(super) fn position(open: &OpenFile) -> Result<i64> {
    refuse_sequential(open, "get_position")?;
    Ok(offset(open.file.position()))
}

/// MPI_File_get_position_shared.
pub(super) fn position_shared(open: &OpenFile) -> Result<i64> {
    refuse_sequential(open, "get_position_shared")?;
    open.file.position_shared().map(offset)
}

/// MPI_File_get_byte_offset.
pub(super) fn byte_offset(open: &OpenFile, position: i64) -> Result<i64> {
    refuse_sequential(open, "get_byte_offset")?;
    let position = positive(position, "get_byte_offset: an offset")?;
    open.file.byte_offset(position).map(offset)
}
