//! MPI, found in the running process.
//!
//! pario is built without any MPI. When a program makes its first MPI-IO call, the MPI library is
//! in the process already: its functions are looked up by name, always as `PMPI_*`, so that tools
//! that watch `MPI_*` do not see what pario does for itself.
//!
//! Where: in the global scope, and if that fails among the loaded libraries, since Python loads MPI
//! privately (`RTLD_LOCAL`). Variables of Open MPI are looked up in the global scope first, because
//! programs may hold the only live copy of them (copy relocations).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::OnceLock;

use crate::abi::{Abi, Family, Handle};

/// An MPI library in this process.
pub(crate) struct Mpi {
    pub(crate) family: Family,
    pub(crate) abi: &'static Abi,
    pub(crate) call: Functions,
    library: Library,
    path: String,
}

/// The address of a library for `dlsym`.
struct Library(*mut c_void);

// SAFETY: a handle of the dynamic loader, whose functions may be called from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

macro_rules! functions {
    ($( $(#[$kind:ident])? $name:ident ( $($argument:ident : $type:ty),* $(,)? ); )*) => {
        /// The functions of MPI that pario calls, by the names that they have there.
        #[allow(non_snake_case)]
        pub(crate) struct Functions {
            $( pub(crate) $name: functions!(@type $($kind)? ($($type),*)), )*
        }

        impl Functions {
            fn resolve(library: &Library) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $( $name: functions!(@find library $name $($kind)?), )*
                })
            }
        }
    };
    (@type own ($($type:ty),*)) => { unsafe extern "C" fn($($type),*) -> c_int };
    (@type optional ($($type:ty),*)) => { Option<unsafe extern "C" fn($($type),*) -> c_int> };
    (@type ($($type:ty),*)) => { unsafe extern "C" fn($($type),*) -> c_int };
    (@find $library:ident $name:ident optional) => {{
        let address = $library.symbol(concat!("PMPI_", stringify!($name), "\0"))
            .or_else(|| $library.symbol(concat!("PMPIX_", stringify!($name), "\0")))
            .or_else(|| $library.symbol(concat!(stringify!($name), "\0")));
        // SAFETY: a function of that name has this signature in every MPI library; handles are
        // passed as `crate::abi` explains.
        address.map(|address| unsafe { transmute_copy(&address) })
    }};
    (@find $library:ident $name:ident own) => {{
        let name = concat!("PMPI_", stringify!($name), "\0");
        let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
        let address = $library.own_symbol(name).ok_or(stringify!($name))?;
        // SAFETY: as for optional functions.
        unsafe { transmute_copy(&address) }
    }};
    (@find $library:ident $name:ident) => {{
        let address = $library.symbol(concat!("PMPI_", stringify!($name), "\0"));
        let address = address.ok_or(stringify!($name))?;
        // SAFETY: as for optional functions.
        unsafe { transmute_copy(&address) }
    }};
}

type Out<T> = *mut T;

functions! {
    Initialized(flag: Out<c_int>);
    Finalized(flag: Out<c_int>);
    Query_thread(level: Out<c_int>);
    Get_library_version(text: *mut c_char, len: Out<c_int>);
    Abort(comm: usize, code: c_int);

    Comm_rank(comm: usize, rank: Out<c_int>);
    Comm_size(comm: usize, size: Out<c_int>);
    Comm_dup(comm: usize, new: Out<usize>);
    Comm_free(comm: Out<usize>);
    Comm_group(comm: usize, group: Out<usize>);
    Group_excl(group: usize, count: c_int, ranks: *const c_int, new: Out<usize>);
    Group_free(group: Out<usize>);
    Comm_set_errhandler(comm: usize, handler: usize);
    Comm_create_keyval(copy: usize, delete: usize, key: Out<c_int>, extra: *mut c_void);
    Comm_set_attr(comm: usize, key: c_int, value: *mut c_void);
    Comm_get_attr(comm: usize, key: c_int, value: *mut c_void, flag: Out<c_int>);
    Comm_test_inter(comm: usize, flag: Out<c_int>);

    Isend(
        bytes: *const c_void, count: c_int, datatype: usize, to: c_int, tag: c_int, comm: usize,
        request: Out<usize>,
    );
    Iprobe(from: c_int, tag: c_int, comm: usize, flag: Out<c_int>, status: *mut c_void);
    Improbe(
        from: c_int, tag: c_int, comm: usize, flag: Out<c_int>, message: Out<usize>,
        status: *mut c_void,
    );
    Imrecv(
        bytes: *mut c_void, count: c_int, datatype: usize, message: Out<usize>,
        request: Out<usize>,
    );
    Get_count(status: *const c_void, datatype: usize, count: Out<c_int>);
    Test(request: Out<usize>, flag: Out<c_int>, status: *mut c_void);
    Barrier(comm: usize);
    Iallgather(
        from: *const c_void, count: c_int, datatype: usize, to: *mut c_void, to_count: c_int,
        to_datatype: usize, comm: usize, request: Out<usize>,
    );

    Win_allocate(
        size: isize, unit: c_int, info: usize, comm: usize, base: Out<*mut c_void>,
        win: Out<usize>,
    );
    Win_free(win: Out<usize>);
    Win_lock_all(assertion: c_int, win: usize);
    Win_unlock_all(win: usize);
    Win_sync(win: usize);
    Win_flush(rank: c_int, win: usize);
    Fetch_and_op(
        from: *const c_void, to: *mut c_void, datatype: usize, rank: c_int, place: isize,
        operation: usize, win: usize,
    );

    Type_size_x(datatype: usize, size: Out<i64>);
    Type_get_extent_x(datatype: usize, lower: Out<i64>, extent: Out<i64>);
    Type_get_envelope(
        datatype: usize, integers: Out<c_int>, addresses: Out<c_int>, types: Out<c_int>,
        combiner: Out<c_int>,
    );
    Type_get_contents(
        datatype: usize, integers: c_int, addresses: c_int, types: c_int,
        integer_list: *mut c_int, address_list: *mut isize, type_list: *mut c_void,
    );
    #[optional] Type_get_envelope_c(
        datatype: usize, integers: Out<i64>, addresses: Out<i64>, counts: Out<i64>,
        types: Out<i64>, combiner: Out<c_int>,
    );
    #[optional] Type_get_contents_c(
        datatype: usize, integers: i64, addresses: i64, counts: i64, types: i64,
        integer_list: *mut c_int, address_list: *mut isize, count_list: *mut i64,
        type_list: *mut c_void,
    );
    Type_contiguous(count: c_int, old: usize, new: Out<usize>);
    Type_vector(count: c_int, block_len: c_int, stride: c_int, old: usize, new: Out<usize>);
    Type_create_hvector(
        count: c_int, block_len: c_int, stride: isize, old: usize, new: Out<usize>,
    );
    Type_create_hindexed(
        count: c_int, block_lens: *const c_int, places: *const isize, old: usize, new: Out<usize>,
    );
    Type_create_hindexed_block(
        count: c_int, block_len: c_int, places: *const isize, old: usize, new: Out<usize>,
    );
    Type_create_struct(
        count: c_int, block_lens: *const c_int, places: *const isize, types: *const c_void,
        new: Out<usize>,
    );
    Type_create_resized(old: usize, lower: isize, extent: isize, new: Out<usize>);
    Type_commit(datatype: Out<usize>);
    Type_free(datatype: Out<usize>);
    Type_dup(datatype: usize, new: Out<usize>);
    Type_create_keyval(copy: usize, delete: usize, key: Out<c_int>, extra: *mut c_void);
    Type_set_attr(datatype: usize, key: c_int, value: *mut c_void);
    Type_get_attr(datatype: usize, key: c_int, value: *mut c_void, flag: Out<c_int>);

    Status_set_elements_x(status: *mut c_void, datatype: usize, count: i64);
    Status_set_cancelled(status: *mut c_void, flag: c_int);

    Grequest_start(
        query: usize, free: usize, cancel: usize, state: *mut c_void, request: Out<usize>,
    );
    Grequest_complete(request: usize);
    // MPICH's extension. Open MPI's function of this name has other arguments.
    #[optional] MPIX_Grequest_start(
        query: usize, free: usize, cancel: usize, poll: usize, wait: usize, state: *mut c_void,
        request: Out<usize>,
    );

    Info_create(info: Out<usize>);
    Info_free(info: Out<usize>);
    Info_set(info: usize, key: *const c_char, value: *const c_char);
    Info_get_nkeys(info: usize, count: Out<c_int>);
    Info_get_nthkey(info: usize, index: c_int, key: *mut c_char);
    Info_get(info: usize, key: *const c_char, len: c_int, value: *mut c_char, flag: Out<c_int>);

    Error_string(code: c_int, text: *mut c_char, len: Out<c_int>);
    Add_error_code(class: c_int, code: Out<c_int>);
    Add_error_string(code: c_int, text: *const c_char);
    Comm_create_errhandler(function: usize, handler: Out<usize>);
    // pario has a function of this name too, which stands before the library's.
    #[own] Errhandler_free(handler: Out<usize>);

    #[optional] Errhandler_c2f(handler: usize);
    #[optional] Async_start(poll: usize, state: *mut c_void, stream: usize);
    #[optional] opal_progress_register(callback: usize);
}

impl Library {
    fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
        // SAFETY: `dlsym` only reads the name.
        let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let found = match global.is_null() && !self.0.is_null() {
            // SAFETY: as above; the handle is one that `dlopen` gave.
            true => unsafe { libc::dlsym(self.0, name.as_ptr()) },
            false => global,
        };
        (!found.is_null()).then_some(found)
    }

    /// A symbol of the library itself, past whatever stands before it in the global scope.
    fn own_symbol(&self, name: &CStr) -> Option<*mut c_void> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the handle is one that `dlopen` gave; `dlsym` only reads the name.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

impl Mpi {
    /// The MPI of this process, or why there is none yet.
    pub(crate) fn get() -> Result<&'static Mpi, &'static str> {
        static MPI: OnceLock<Mpi> = OnceLock::new();
        match MPI.get() {
            Some(mpi) => Ok(mpi),
            None => Mpi::find().map(|found| MPI.get_or_init(|| found)),
        }
    }

    fn find() -> Result<Mpi, &'static str> {
        let (library, name) = loaded().ok_or("no MPI library is loaded")?;
        let family = match () {
            () if name.contains("libmpi_abi") => Family::Standard,
            () if library.symbol("ompi_mpi_comm_world\0").is_some() => Family::OpenMpi,
            () => Family::Mpich,
        };
        let call = Functions::resolve(&library)?;
        Ok(Mpi { family, abi: family.table(), call, library, path: name })
    }

    /// The value of a predefined handle.
    pub(crate) fn handle(&self, handle: Handle) -> usize {
        match handle {
            Handle::Value(value) => value,
            Handle::Symbol(symbol) => symbol.address(|name| {
                self.library.symbol(&format!("{name}\0")).map_or(0, |address| address.addr())
            }),
        }
    }

    /// A function of the library itself by its full name, for calls that are passed through.
    pub(crate) fn own_function(&self, name: &CStr) -> Option<*mut c_void> {
        self.library.own_symbol(name)
    }

    /// A function by its full name, from the first object that has it: a tool that watches MPI, or
    /// the library.
    pub(crate) fn first_function(&self, name: &str) -> Option<*mut c_void> {
        self.library.symbol(&format!("{name}\0"))
    }

    /// The file of the library.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What the library calls itself, in a few words.
    pub(crate) fn version(&self) -> String {
        const ROOM: usize = 8192;
        let (mut text, mut len) = (vec![0u8; ROOM + 1], 0);
        // SAFETY: MPI_MAX_LIBRARY_VERSION_STRING is 8192 or less in every library; may be called at
        // any time.
        unsafe { (self.call.Get_library_version)(text.as_mut_ptr().cast(), &mut len) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy();
        // Open MPI goes on, after a comma, with the machine on which it was built.
        let first = text.split(['\n', ',']).next().unwrap_or_default();
        let words = first.split_whitespace();
        words.collect::<Vec<&str>>().join(" ")
    }

    /// Whether MPI was initialised, also if it has ended since.
    pub(crate) fn was_initialized(&self) -> bool {
        let mut initialized = 0;
        // SAFETY: it may be called at any time.
        unsafe { (self.call.Initialized)(&mut initialized) };
        initialized != 0
    }

    /// Whether MPI can be called now.
    pub(crate) fn is_active(&self) -> bool {
        let (mut initialized, mut finalized) = (0, 0);
        // SAFETY: both may be called at any time.
        unsafe {
            (self.call.Initialized)(&mut initialized);
            (self.call.Finalized)(&mut finalized);
        }
        initialized != 0 && finalized == 0
    }
}

/// Whether an MPI library is in this process.
pub(crate) fn is_loaded() -> bool {
    loaded().is_some()
}

/// The loaded library that has MPI's functions, and its file name.
fn loaded() -> Option<(Library, String)> {
    // SAFETY: `dlsym` only reads the name.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PMPI_Init".as_ptr()) };
    let name = match address.is_null() {
        false => object_of(address)?,
        true => libraries().into_iter().find(|name| is_mpi(name))?,
    };
    let path = std::ffi::CString::new(name.clone()).ok()?;
    // SAFETY: the library is loaded; this only takes another handle of it.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    Some((Library(handle), name))
}

/// Whether a file name is that of an MPI library.
fn is_mpi(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["libmpi.so", "libmpi_abi.so", "libmpich.so"].iter().any(|start| name.starts_with(start))
}

/// The file that an address belongs to.
fn object_of(address: *mut c_void) -> Option<String> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: `info` is a valid place for the answer.
    let found = unsafe { libc::dladdr(address, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the name as long as the object is loaded.
    Some(unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned())
}

/// Whether a function of this crate is in the drop-in library, and not in a program in Rust.
pub(crate) fn is_in_library(function: *mut c_void) -> bool {
    let object = object_of(function).unwrap_or_default();
    object.rsplit('/').next().is_some_and(|name| name.starts_with("libpario_mpi"))
}

/// Why a library could not be loaded.
pub(crate) fn loader_error() -> String {
    // SAFETY: the text belongs to the loader until the next call of it on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "cannot be loaded".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The files of all loaded libraries.
fn libraries() -> Vec<String> {
    unsafe extern "C" fn collect(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry, and `names` is the vector given below.
        unsafe {
            let names = &mut *names.cast::<Vec<String>>();
            let name = (*info).dlpi_name;
            if !name.is_null() {
                names.push(CStr::from_ptr(name).to_string_lossy().into_owned());
            }
        }
        0
    }
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the callback gets the address of `names`, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    names
}
