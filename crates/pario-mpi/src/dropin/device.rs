//! Device memory: buffers of a GPU, which the processor cannot use.
//!
//! Without this check a device pointer ends in a crash, or in "Bad address" where the system
//! copies. CUDA's and HIP's libraries know their memory. They are asked only if they are in the
//! process already, and looked for only if a library was loaded since the last time, because a
//! search takes time in the loader. Level Zero answers for a context only, which pario does not
//! have.
//!
//! Memory that host and device share (managed, pinned) is memory like any other.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pario::{Error, ErrorClass, Result};

/// A library that knows device memory, and what it is asked.
struct Vendor {
    name: &'static str,
    libraries: &'static [&'static CStr],
    function: &'static CStr,
    /// Whether an address is device memory; the first argument is that of the function.
    has: unsafe fn(usize, *const c_void) -> bool,
    /// The address of the function, 0 if the library is not in the process.
    found: AtomicUsize,
}

static VENDORS: [Vendor; 2] = [
    Vendor {
        name: "CUDA",
        libraries: &[c"libcuda.so.1"],
        function: c"cuPointerGetAttribute",
        has: is_of_cuda,
        found: AtomicUsize::new(0),
    },
    Vendor {
        name: "HIP",
        libraries: &[
            c"libamdhip64.so.7",
            c"libamdhip64.so.6",
            c"libamdhip64.so.5",
            c"libamdhip64.so",
        ],
        function: c"hipPointerGetAttributes",
        has: is_of_hip,
        found: AtomicUsize::new(0),
    },
];

/// An error if an address is device memory.
///
/// # Errors
/// `UnsupportedOperation`.
pub(super) fn refuse(address: *const c_void) -> Result<()> {
    look_for_vendors();
    for vendor in &VENDORS {
        let function = vendor.found.load(Ordering::Acquire);
        // SAFETY: the function is the vendor's, and only looks the address up.
        if function != 0 && unsafe { (vendor.has)(function, address) } {
            let text = format!(
                "the buffer is device memory ({}), which is not supported yet: copy it to or from \
                 a buffer of the host",
                vendor.name
            );
            return Err(Error::new(ErrorClass::UnsupportedOperation, text));
        }
    }
    Ok(())
}

/// Finds the libraries of vendors that were loaded since the last call.
fn look_for_vendors() {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let loaded = libraries_loaded();
    if SEEN.load(Ordering::Acquire) == loaded {
        return;
    }
    for vendor in &VENDORS {
        if vendor.found.load(Ordering::Relaxed) == 0 {
            let found = vendor.libraries.iter().find_map(|name| function(name, vendor.function));
            vendor.found.store(found.unwrap_or(0), Ordering::Release);
        }
    }
    SEEN.store(loaded, Ordering::Release);
}

/// The address of a function of a library that is in the process; the library then stays there.
fn function(library: &CStr, name: &CStr) -> Option<usize> {
    // SAFETY: the library is not loaded by this, only another handle of it taken.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is valid; `dlsym` only reads the name.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!found.is_null()).then(|| found.expose_provenance())
}

/// How many libraries were ever loaded into this process.
fn libraries_loaded() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        loaded: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry, and `loaded` is the number given below.
        unsafe { *loaded.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut loaded = 0u64;
    // SAFETY: the callback gets the address of `loaded`, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut loaded).cast()) };
    loaded
}

/// Asks `cuPointerGetAttribute`, which fails for memory that CUDA does not know.
///
/// # Safety
/// `function` is the address of that function.
unsafe fn is_of_cuda(function: usize, address: *const c_void) -> bool {
    type Get = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;
    /// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE` and its value `CU_MEMORYTYPE_DEVICE`.
    const MEMORY_TYPE: c_int = 2;
    const DEVICE: u32 = 2;
    /// `CU_POINTER_ATTRIBUTE_IS_MANAGED`.
    const IS_MANAGED: c_int = 8;
    // SAFETY: the caller says so; answers have 4 bytes.
    let ask = |attribute| unsafe {
        let get = transmute::<usize, Get>(function);
        let mut answer = 0u32;
        let code =
            get((&raw mut answer).cast(), attribute, u64::try_from(address.addr()).unwrap_or(0));
        (code == 0).then_some(answer)
    };
    ask(MEMORY_TYPE) == Some(DEVICE) && ask(IS_MANAGED).is_none_or(|managed| managed == 0)
}

/// Asks `hipPointerGetAttributes`. What its memory types are called changed between versions; where
/// the host's address of the memory is, did not.
///
/// # Safety
/// `function` is the address of that function.
unsafe fn is_of_hip(function: usize, address: *const c_void) -> bool {
    type Get = unsafe extern "C" fn(*mut Attributes, *const c_void) -> c_int;
    #[repr(C)]
    struct Attributes {
        memory_type: c_int,
        device: c_int,
        on_device: usize,
        on_host: usize,
        is_managed: c_int,
        flags: u32,
        /// Room for what later versions add.
        more: [u64; 8],
    }
    let mut answer = Attributes {
        memory_type: 0,
        device: 0,
        on_device: 0,
        on_host: 0,
        is_managed: 0,
        flags: 0,
        more: [0; 8],
    };
    // SAFETY: the caller says so; the answer has room for every version.
    let code = unsafe { transmute::<usize, Get>(function)(&mut answer, address) };
    code == 0 && answer.on_device != 0 && answer.on_host == 0 && answer.is_managed == 0
}
