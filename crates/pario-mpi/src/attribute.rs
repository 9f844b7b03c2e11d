//! Attributes of MPI objects: values that MPI gives back when the object ends.

use std::ffi::{c_int, c_void};

/// MPI's callback for an attribute of an object that is duplicated.
type Copy =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// MPI's callback for an attribute whose object ends.
pub(crate) type Delete = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// The callbacks of an attribute that duplicates do not get, as MPI's functions take them.
pub(crate) fn callbacks(delete: Delete) -> (usize, usize) {
    let copy: Copy = copy_nothing;
    (copy as usize, delete as usize)
}

unsafe extern "C" fn copy_nothing(
    _object: usize,
    _key: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes a valid place.
    unsafe { flag.write(0) };
    0
}
