//! Every `MPI_File_*` and `PMPI_File_*`, one line each, with the large-count forms.
//!
//! A macro makes both names of each function. What a line says is what the function does.
#![allow(non_snake_case)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one comment, below, is for all")]

use std::ffi::{CStr, c_char, c_int, c_void};

use super::manage::{self, number, offset};
use super::representations::{self, Registered};
use super::transfer::{Access, Place, UserBuffer, begin, end, start, transfer};
use super::{Name, enter, files, passing_on};
use crate::binding::Mpi;

/// A name that ends with a zero byte.
const fn terminated(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// Defines entry points under their `MPI_` and `PMPI_` names.
///
/// `short if` says when a large-count form may be passed on to a library that has the other form
/// only: both take their arguments in the same registers, so that numbers that fit are the same.
/// `unless` names what may keep a call from being passed on.
macro_rules! entries {
    ($prefix:literal,
     $( $name:ident ( $($argument:ident : $type:ty),* $(,)? )
        $( unless $refuse:ident )? $( short if $fits:expr )? => $serve:expr; )*) => {
        $(
            mod $name {
                #[allow(unused_imports)]
                use super::*;

                #[unsafe(export_name = concat!("MPI_", $prefix, stringify!($name)))]
                unsafe extern "C" fn mpi($($argument: $type),*) -> c_int {
                    // SAFETY: the program calls this as MPI defines it.
                    unsafe { both($($argument),*) }
                }

                #[unsafe(export_name = concat!("PMPI_", $prefix, stringify!($name)))]
                unsafe extern "C" fn pmpi($($argument: $type),*) -> c_int {
                    // SAFETY: as above.
                    unsafe { both($($argument),*) }
                }

                unsafe fn both($($argument: $type),*) -> c_int {
                    const NAME: &CStr =
                        terminated(concat!("PMPI_", $prefix, stringify!($name), "\0"));
                    type Refuse = unsafe fn($($type),*) -> Option<c_int>;
                    #[allow(unused_mut, unused_assignments)]
                    let mut refuse: Option<Refuse> = None;
                    $( refuse = Some(passing_on::$refuse); )?
                    let pass_on = |function: *mut c_void| {
                        type Function = unsafe extern "C" fn($($type),*) -> c_int;
                        // SAFETY: both take the arguments of the call; the library's own function
                        // of this name has this type.
                        unsafe {
                            let refused = refuse.and_then(|refuse| refuse($($argument),*));
                            if let Some(code) = refused {
                                return code;
                            }
                            let function = std::mem::transmute::<*mut c_void, Function>(function);
                            function($($argument),*)
                        }
                    };
                    let serve: fn(&'static Mpi, $($type),*) -> c_int = $serve;
                    #[allow(unused_mut, unused_assignments)]
                    let mut short = false;
                    $( short = $fits; )?
                    let name = Name { full: NAME, short };
                    enter(name, pass_on, |mpi| serve(mpi, $($argument),*))
                }
            }
        )*
    };
}

// SAFETY of the unsafe blocks below: they pass on what a program gave to an MPI function, and the
// functions called say what they need of it.

entries! { "File_",
    open(comm: usize, name: *const c_char, amode: c_int, info: usize, file: *mut usize)
        unless refuse_open =>
        |mpi, comm, name, amode, info, file| unsafe {
            manage::open(mpi, comm, name, amode, info, file)
        };
    close(file: *mut usize) => |mpi, file| unsafe { manage::close(mpi, file) };
    delete(name: *const c_char, info: usize) =>
        |mpi, name, _info| unsafe { manage::delete(mpi, name) };
    set_size(file: usize, bytes: i64) => |mpi, file, bytes| manage::resize(mpi, file, bytes, false);
    preallocate(file: usize, bytes: i64) =>
        |mpi, file, bytes| manage::resize(mpi, file, bytes, true);
    get_size(file: usize, bytes: *mut i64) => |mpi, file, bytes| unsafe {
        number(mpi, file, bytes, |open| open.file.size().map(offset))
    };
    get_group(file: usize, group: *mut c_void) =>
        |mpi, file, group| unsafe { manage::get_group(mpi, file, group) };
    get_amode(file: usize, amode: *mut c_int) =>
        |mpi, file, amode| unsafe { number(mpi, file, amode, |open| Ok(open.amode)) };
    set_info(file: usize, info: usize) => |mpi, file, info| manage::set_info(mpi, file, info);
    get_info(file: usize, info: *mut c_void) =>
        |mpi, file, info| unsafe { manage::get_info(mpi, file, info) };
    set_view(
        file: usize, displacement: i64, etype: usize, filetype: usize,
        representation: *const c_char, info: usize,
    ) => |mpi, file, displacement, etype, filetype, representation, info| unsafe {
        manage::set_view(mpi, file, displacement, (etype, filetype), representation, info)
    };
    get_view(
        file: usize, displacement: *mut i64, etype: *mut c_void, filetype: *mut c_void,
        representation: *mut c_char,
    ) => |mpi, file, displacement, etype, filetype, representation| unsafe {
        manage::get_view(mpi, file, displacement, (etype, filetype), representation)
    };
    seek(file: usize, distance: i64, whence: c_int) =>
        |mpi, file, distance, whence| manage::seek(mpi, file, distance, whence, false);
    seek_shared(file: usize, distance: i64, whence: c_int) =>
        |mpi, file, distance, whence| manage::seek(mpi, file, distance, whence, true);
    get_position(file: usize, position: *mut i64) => |mpi, file, position| unsafe {
        number(mpi, file, position, manage::position)
    };
    get_position_shared(file: usize, position: *mut i64) => |mpi, file, position| unsafe {
        number(mpi, file, position, manage::position_shared)
    };
    get_byte_offset(file: usize, position: i64, bytes: *mut i64) =>
        |mpi, file, position, bytes| unsafe {
            number(mpi, file, bytes, |open| manage::byte_offset(open, position))
        };
    get_type_extent(file: usize, datatype: usize, extent: *mut isize) =>
        |mpi, file, datatype, extent| unsafe {
            let narrow = |extent: i64| isize::try_from(extent).unwrap_or(isize::MAX);
            number(mpi, file, extent, |open| manage::type_extent(open, datatype).map(narrow))
        };
    get_type_extent_c(file: usize, datatype: usize, extent: *mut i64) short if true =>
        |mpi, file, datatype, extent| unsafe {
            number(mpi, file, extent, |open| manage::type_extent(open, datatype))
        };
    set_atomicity(file: usize, atomic: c_int) =>
        |mpi, file, atomic| files::with(mpi, file, |open| open.file.set_atomicity(atomic != 0));
    get_atomicity(file: usize, atomic: *mut c_int) => |mpi, file, atomic| unsafe {
        number(mpi, file, atomic, |open| Ok(c_int::from(open.file.atomicity())))
    };
    sync(file: usize) => |mpi, file| manage::sync(mpi, file);
    create_errhandler(callback: usize, handler: *mut c_void) =>
        |mpi, callback, handler| unsafe { manage::create_errhandler(mpi, callback, handler) };
    set_errhandler(file: usize, handler: usize) =>
        |mpi, file, handler| manage::set_errhandler(mpi, file, handler);
    get_errhandler(file: usize, handler: *mut c_void) =>
        |mpi, file, handler| unsafe { manage::get_errhandler(mpi, file, handler) };
    call_errhandler(file: usize, code: c_int) =>
        |mpi, file, code| manage::call_errhandler(mpi, file, code);
}

entries! { "",
    Errhandler_free(handler: *mut c_void) =>
        |mpi, handler| unsafe { manage::errhandler_free(mpi, handler) };
    Register_datarep(
        name: *const c_char, read: usize, write: usize, extent: usize, extra: *mut c_void,
    ) => |mpi, name, read, write, extent, extra| unsafe {
        let state = extra.expose_provenance();
        let registered = Registered { read, write, extent, state, large: false };
        representations::register(mpi, name, registered)
    };
    Register_datarep_c(
        name: *const c_char, read: usize, write: usize, extent: usize, extra: *mut c_void,
    ) => |mpi, name, read, write, extent, extra| unsafe {
        let state = extra.expose_provenance();
        let registered = Registered { read, write, extent, state, large: true };
        representations::register(mpi, name, registered)
    };
}

const fn access(write: bool, collective: bool, place: Place) -> Access {
    Access { write, collective, place }
}

fn fits(count: impl TryInto<c_int>) -> bool {
    count.try_into().is_ok()
}

fn buffer(address: *mut c_void, count: i64, datatype: usize) -> UserBuffer {
    UserBuffer { address, count, datatype }
}

/// A blocking call, in both forms: `name(file, [offset,] buffer, count, datatype, status)`.
macro_rules! blocking {
    ($name:ident, $large:ident, at, $write:literal, $collective:literal) => {
        blocking!(@at $name, c_int, $write, $collective);
        blocking!(@at $large, i64, $write, $collective);
    };
    ($name:ident, $large:ident, $place:ident, $write:literal, $collective:literal) => {
        blocking!(@pointer $name, c_int, $place, $write, $collective);
        blocking!(@pointer $large, i64, $place, $write, $collective);
    };
    (@at $name:ident, $count:ty, $write:literal, $collective:literal) => {
        entries! { "File_",
            $name(
                file: usize, position: i64, address: *mut c_void, count: $count, datatype: usize,
                status: *mut c_void,
            ) short if fits(count) =>
                |mpi, file, position, address, count, datatype, status| unsafe {
                    let access = access($write, $collective, Place::At(position));
                    transfer(mpi, file, access, buffer(address, i64::from(count), datatype), status)
                };
        }
    };
    (@pointer $name:ident, $count:ty, $place:ident, $write:literal, $collective:literal) => {
        entries! { "File_",
            $name(
                file: usize, address: *mut c_void, count: $count, datatype: usize,
                status: *mut c_void,
            ) short if fits(count) =>
                |mpi, file, address, count, datatype, status| unsafe {
                    let access = access($write, $collective, Place::$place);
                    transfer(mpi, file, access, buffer(address, i64::from(count), datatype), status)
                };
        }
    };
}

/// A non-blocking call, in both forms: the last argument is a request.
macro_rules! nonblocking {
    ($name:ident, $large:ident, at, $write:literal, $collective:literal) => {
        nonblocking!(@at $name, c_int, $write, $collective);
        nonblocking!(@at $large, i64, $write, $collective);
    };
    ($name:ident, $large:ident, $place:ident, $write:literal, $collective:literal) => {
        nonblocking!(@pointer $name, c_int, $place, $write, $collective);
        nonblocking!(@pointer $large, i64, $place, $write, $collective);
    };
    (@at $name:ident, $count:ty, $write:literal, $collective:literal) => {
        entries! { "File_",
            $name(
                file: usize, position: i64, address: *mut c_void, count: $count, datatype: usize,
                request: *mut c_void,
            ) short if fits(count) =>
                |mpi, file, position, address, count, datatype, request| unsafe {
                    let access = access($write, $collective, Place::At(position));
                    start(mpi, file, access, buffer(address, i64::from(count), datatype), request)
                };
        }
    };
    (@pointer $name:ident, $count:ty, $place:ident, $write:literal, $collective:literal) => {
        entries! { "File_",
            $name(
                file: usize, address: *mut c_void, count: $count, datatype: usize,
                request: *mut c_void,
            ) short if fits(count) =>
                |mpi, file, address, count, datatype, request| unsafe {
                    let access = access($write, $collective, Place::$place);
                    start(mpi, file, access, buffer(address, i64::from(count), datatype), request)
                };
        }
    };
}

/// A split collective: begin in both forms, and end.
macro_rules! split {
    ($call:literal, $name:ident, $large:ident, $end:ident, at, $write:literal) => {
        split!(@at $call, $name, c_int, $write);
        split!(@at $call, $large, i64, $write);
        split!(@end $call, $end);
    };
    ($call:literal, $name:ident, $large:ident, $end:ident, $place:ident, $write:literal) => {
        split!(@pointer $call, $name, c_int, $place, $write);
        split!(@pointer $call, $large, i64, $place, $write);
        split!(@end $call, $end);
    };
    (@at $call:literal, $name:ident, $count:ty, $write:literal) => {
        entries! { "File_",
            $name(
                file: usize, position: i64, address: *mut c_void, count: $count, datatype: usize,
            ) short if fits(count) =>
                |mpi, file, position, address, count, datatype| unsafe {
                    let access = access($write, true, Place::At(position));
                    begin(mpi, file, $call, access, buffer(address, i64::from(count), datatype))
                };
        }
    };
    (@pointer $call:literal, $name:ident, $count:ty, $place:ident, $write:literal) => {
        entries! { "File_",
            $name(file: usize, address: *mut c_void, count: $count, datatype: usize)
                short if fits(count) => |mpi, file, address, count, datatype| unsafe {
                    let access = access($write, true, Place::$place);
                    begin(mpi, file, $call, access, buffer(address, i64::from(count), datatype))
                };
        }
    };
    (@end $call:literal, $end:ident) => {
        entries! { "File_",
            $end(file: usize, address: *mut c_void, status: *mut c_void) =>
                |mpi, file, _address, status| unsafe { end(mpi, file, $call, status) };
        }
    };
}

blocking!(read_at, read_at_c, at, false, false);
blocking!(read_at_all, read_at_all_c, at, false, true);
blocking!(read, read_c, Individual, false, false);
blocking!(read_all, read_all_c, Individual, false, true);
blocking!(read_shared, read_shared_c, Shared, false, false);
blocking!(read_ordered, read_ordered_c, Shared, false, true);
blocking!(write_at, write_at_c, at, true, false);
blocking!(write_at_all, write_at_all_c, at, true, true);
blocking!(write, write_c, Individual, true, false);
blocking!(write_all, write_all_c, Individual, true, true);
blocking!(write_shared, write_shared_c, Shared, true, false);
blocking!(write_ordered, write_ordered_c, Shared, true, true);
nonblocking!(iread_at, iread_at_c, at, false, false);
nonblocking!(iread_at_all, iread_at_all_c, at, false, true);
nonblocking!(iread, iread_c, Individual, false, false);
nonblocking!(iread_all, iread_all_c, Individual, false, true);
nonblocking!(iread_shared, iread_shared_c, Shared, false, false);
nonblocking!(iwrite_at, iwrite_at_c, at, true, false);
nonblocking!(iwrite_at_all, iwrite_at_all_c, at, true, true);
nonblocking!(iwrite, iwrite_c, Individual, true, false);
nonblocking!(iwrite_all, iwrite_all_c, Individual, true, true);
nonblocking!(iwrite_shared, iwrite_shared_c, Shared, true, false);
split!("read_at_all", read_at_all_begin, read_at_all_begin_c, read_at_all_end, at, false);
split!("read_all", read_all_begin, read_all_begin_c, read_all_end, Individual, false);
split!("read_ordered", read_ordered_begin, read_ordered_begin_c, read_ordered_end, Shared, false);
split!("write_at_all", write_at_all_begin, write_at_all_begin_c, write_at_all_end, at, true);
split!("write_all", write_all_begin, write_all_begin_c, write_all_end, Individual, true);
split!(
    "write_ordered",
    write_ordered_begin,
    write_ordered_begin_c,
    write_ordered_end,
    Shared,
    true
);

/// Conversions between a file handle and an integer, which return what they make.
macro_rules! conversions {
    ($( $name:literal, $pname:literal, $function:ident ( $argument:ident : $type:ty ) -> $result:ty
        => $convert:expr; )*) => {
        $(
            mod $function {
                use super::*;

                #[unsafe(export_name = $name)]
                unsafe extern "C" fn mpi($argument: $type) -> $result {
                    both($argument)
                }

                #[unsafe(export_name = $pname)]
                unsafe extern "C" fn pmpi($argument: $type) -> $result {
                    both($argument)
                }

                fn both($argument: $type) -> $result {
                    let name = concat!($pname, "\0").as_bytes();
                    let name = std::ffi::CStr::from_bytes_with_nul(name).unwrap_or_default();
                    let Ok(mpi) = Mpi::get() else { return 0 };
                    if crate::environment::is_disabled() {
                        type Function = unsafe extern "C" fn($type) -> $result;
                        let Some(function) = mpi.own_function(name) else { return 0 };
                        // SAFETY: the library's own function of this name has this type.
                        return unsafe {
                            std::mem::transmute::<*mut c_void, Function>(function)($argument)
                        };
                    }
                    let convert: fn(&'static Mpi, $type) -> $result = $convert;
                    convert(mpi, $argument)
                }
            }
        )*
    };
}

conversions! {
    "MPI_File_c2f", "PMPI_File_c2f", c2f(file: usize) -> c_int =>
        |_mpi, file| files::slot_of(file);
    "MPI_File_f2c", "PMPI_File_f2c", f2c(file: c_int) -> usize =>
        |mpi, file| files::of_slot(mpi, file);
    "MPI_File_toint", "PMPI_File_toint", toint(file: usize) -> c_int =>
        |mpi, file| files::to_int(mpi, file);
    "MPI_File_fromint", "PMPI_File_fromint", fromint(file: c_int) -> usize =>
        |mpi, file| files::of_slot(mpi, file);
}
