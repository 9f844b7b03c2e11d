//! MPI, started and ended by a Rust program that was built without it.

use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::mem::transmute;
use std::ptr;
use std::sync::Arc;

use pario::{Communicator, Error, ErrorClass, Result};

use crate::abi::Family;
use crate::binding::Mpi;
use crate::comm::{MpiCommunicator, check};
use crate::launcher::{self, LIBRARY, Launch};
use crate::locate;
use crate::panics::PANICKED;
use crate::progress;

/// Which threads may call MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threading {
    /// The program has one thread.
    Single,
    /// The thread that initialised MPI.
    Funneled,
    /// All, one at a time.
    Serialized,
    /// All. Non-blocking calls of pario then go on by themselves, in a thread of their own.
    Multiple,
}

/// MPI, from its initialisation to its end.
///
/// ```no_run
/// use pario::{Communicator, File};
///
/// # fn main() -> pario::Result<()> {
/// let universe = pario_mpi::initialize()?;
/// let world = universe.world();
/// let file = File::options().write(true).create(true).open(&*world, "ranks.dat")?;
/// file.write_all(u64::from(world.rank()) * 4, &world.rank().to_le_bytes()[..])?;
/// file.close()
/// # }
/// ```
///
/// Dropping it waits for the non-blocking calls of files and finalises MPI, if it has initialised
/// it: keep it in `main`. If it is dropped by a
/// panic, it ends all ranks (`MPI_Abort`), which would otherwise wait for this one.
pub struct Universe {
    mpi: &'static Mpi,
    /// `None` only at the end.
    world: Option<Arc<MpiCommunicator>>,
    finalizes: bool,
    /// MPI ends in the thread in which it began.
    _stays: PhantomData<*mut ()>,
}

/// Initialises MPI for any number of threads: [`initialize_with`] of [`Threading::Multiple`].
///
/// # Errors
/// As [`initialize_with`].
pub fn initialize() -> Result<Universe> {
    initialize_with(Threading::Multiple)
}

/// Initialises MPI, unless it is. All ranks call it, at the start of `main`.
///
/// The MPI library is the one in the process already, or the one that the environment variable
/// `PARIO_MPI_LIBRARY` names, or the one whose `mpirun` started this program. A library may offer
/// less `threading` than was asked for; see [`Universe::threading`].
///
/// # Errors
/// `Other` if no library is found, if MPI has ended already, or if the launcher belongs to another
/// MPI, so that every rank would be alone.
pub fn initialize_with(threading: Threading) -> Result<Universe> {
    let launch = launcher::launched();
    locate::load(launch.as_ref())?;
    let mpi = Mpi::get().map_err(|reason| {
        Error::new(ErrorClass::Other, format!("the MPI library lacks MPI_{reason}"))
    })?;
    let finalizes = begin(mpi, threading)?;
    let mut universe = Universe { mpi, world: None, finalizes, _stays: PhantomData };
    let world = MpiCommunicator::world()?;
    check_size(mpi, launch, world.size())?;
    universe.world = Some(world);
    Ok(universe)
}

/// Initialises MPI if nobody has; whether that was done here.
fn begin(mpi: &Mpi, threading: Threading) -> Result<bool> {
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: both may be called at any time.
    unsafe {
        (mpi.call.Initialized)(&mut initialized);
        (mpi.call.Finalized)(&mut finalized);
    }
    if finalized != 0 {
        return Err(Error::new(ErrorClass::Other, "MPI has ended; it cannot begin again"));
    }
    if initialized != 0 {
        return Ok(false);
    }
    type InitThread =
        unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int;
    let missing = || Error::new(ErrorClass::Other, "the MPI library lacks MPI_Init_thread");
    let function = mpi.first_function("MPI_Init_thread").ok_or_else(missing)?;
    let level = c_int::try_from(level(mpi, threading)).unwrap_or(0);
    let mut provided = 0;
    // SAFETY: the function of that name has this signature; it may get no arguments.
    let code = unsafe {
        let init = transmute::<*mut std::ffi::c_void, InitThread>(function);
        init(ptr::null_mut(), ptr::null_mut(), level, &mut provided)
    };
    check(code, "MPI_Init_thread")?;
    Ok(true)
}

/// MPI's number for it.
fn level(mpi: &Mpi, threading: Threading) -> i64 {
    match threading {
        Threading::Single => mpi.abi.thread_single,
        Threading::Funneled => mpi.abi.thread_funneled,
        Threading::Serialized => mpi.abi.thread_serialized,
        Threading::Multiple => mpi.abi.thread_multiple,
    }
}

/// An error if ranks do not see each other.
fn check_size(mpi: &Mpi, launch: Option<Launch>, size: u32) -> Result<()> {
    match launch.and_then(|launch| launch.size) {
        Some(started) if started > 1 && size == 1 => {
            let text = format!(
                "the launcher started {started} ranks, but each is alone in the world of {} ({}): \
                 start them with that library's mpirun, or set {LIBRARY} to the library of this \
                 one",
                mpi.path(),
                mpi.version()
            );
            Err(Error::new(ErrorClass::Other, text))
        }
        _ => Ok(()),
    }
}

impl Universe {
    /// All ranks that were started together.
    pub fn world(&self) -> Arc<MpiCommunicator> {
        match &self.world {
            Some(world) => world.clone(),
            None => unreachable!("the world is there until the end"),
        }
    }

    /// Which threads may call MPI, as the library has it.
    pub fn threading(&self) -> Threading {
        let mut provided = 0;
        // SAFETY: MPI is active as long as this value lives.
        unsafe { (self.mpi.call.Query_thread)(&mut provided) };
        let levels = [Threading::Multiple, Threading::Serialized, Threading::Funneled];
        let same = |&threading: &Threading| level(self.mpi, threading) == i64::from(provided);
        levels.into_iter().find(same).unwrap_or(Threading::Single)
    }

    /// The binary interface of the library.
    pub fn family(&self) -> Family {
        self.mpi.family
    }

    /// What the library calls itself, such as `MPICH Version: 5.0.2`.
    pub fn version(&self) -> String {
        self.mpi.version()
    }

    /// The file of the library.
    pub fn library(&self) -> &str {
        self.mpi.path()
    }

    /// Ends all ranks at once, as far as the launcher can; for a rank that knows that the others
    /// wait for it in vain.
    pub fn abort(&self, code: i32) -> ! {
        abort(self.mpi, code)
    }
}

/// Ends all ranks.
pub(crate) fn abort(mpi: &Mpi, code: c_int) -> ! {
    // SAFETY: MPI is active.
    unsafe { (mpi.call.Abort)(mpi.handle(mpi.abi.comm_world), code) };
    std::process::exit(code)
}

impl Drop for Universe {
    fn drop(&mut self) {
        if !self.finalizes || !self.mpi.is_active() {
            return;
        }
        if std::thread::panicking() {
            abort(self.mpi, PANICKED);
        }
        progress::finish();
        self.world = None;
        if let Some(function) = self.mpi.first_function("MPI_Finalize") {
            // SAFETY: the function of that name has this signature, and MPI is active.
            unsafe {
                let finalize =
                    transmute::<*mut std::ffi::c_void, unsafe extern "C" fn() -> c_int>(function);
                finalize();
            }
        }
    }
}
