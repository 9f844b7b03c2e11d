//! Communicators that are kept for the next file.
//!
//! A file needs a duplicate of the program's communicator: MPI has to agree on it, ranks have to
//! find each other's memory, and pages of that memory are touched for the first time. Programs open
//! one file after the other on the same communicator. So a duplicate whose ranks share one node is
//! not freed when its file is closed, but given to the next file: each loan is a *turn*.
//!
//! A [`Pool`] has the duplicates of one communicator. It belongs to the program's communicator, as
//! an attribute of it, and ends with it; or to a communicator of pario's. A file that is still open
//! then keeps its own.
//!
//! Which duplicate a file gets is agreed on: each rank says which ones are free on it, by a gather
//! on the first one, and the first that is free on all ranks is taken. Threads of a rank may close
//! a file while others open one, so no rank can know that alone. Files that are open at the same
//! time have different ones.
//!
//! Nothing of an earlier turn is seen in a later one. Messages carry the number of their turn, and
//! those of turns that are over are forgotten (`node::traffic`). The shared counter begins at 0
//! (`counter`). The numbers of the region count on, since they carry epochs; no rank uses it
//! outside of its turn.
//!
//! A duplicate whose transport has failed is never free again. If it is the first one, the failure
//! is the outcome of all later opens on that communicator.
//!
//! Cost: a gather for each open but the first, and memory between files: a process keeps at most
//! [`KEPT_MAX`] duplicates.

use std::ffi::{c_int, c_void};
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};

use pario::comm::{Condition, Group, Region, Tag, Task, Watchdog};
use pario::{Communicator, Result};

use crate::binding::Mpi;
use crate::comm::MpiCommunicator;
use crate::{attribute, panics};

/// Duplicates that a process keeps, at most, of all its communicators.
const KEPT_MAX: usize = 8;
/// The last turn of a duplicate.
const TURN_MAX: u32 = u32::MAX - 1;

/// Duplicates that this process keeps.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// One that is kept, while it lives.
pub(crate) struct Counted(());

impl Counted {
    fn new() -> Counted {
        KEPT.fetch_add(1, Ordering::Relaxed);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The duplicates of one communicator, as one rank has them.
pub(crate) struct Pool {
    /// Whether it is there for the next file.
    stays: bool,
    /// Whether all ranks pass their calls on, so that nothing is duplicated (`dropin::passing_on`).
    passes_on: AtomicBool,
    /// Whether tasks of all ranks go on while their programs wait inside MPI; known once there was
    /// a duplicate.
    all_go_on: AtomicBool,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// The same on all ranks, in the same order.
    kept: Vec<KeptDuplicate>,
    /// How many times the ranks have gathered; the same on all ranks.
    gathers: u64,
}

struct KeptDuplicate {
    communicator: Arc<MpiCommunicator>,
    /// Its last turn.
    turn: u32,
    is_free: bool,
}

impl Pool {
    /// One that stays if it says so.
    pub(crate) fn new(stays: bool) -> Arc<Pool> {
        let (passes_on, all_go_on) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Pool { stays, passes_on, all_go_on, state: Mutex::default() })
    }

    /// Whether the ranks of the communicator have agreed to pass their calls on.
    pub(crate) fn all_pass_on(&self) -> bool {
        self.passes_on.load(Ordering::Relaxed)
    }

    /// The ranks have agreed to pass their calls on.
    pub(crate) fn note_all_pass_on(&self) {
        self.passes_on.store(true, Ordering::Relaxed);
    }

    /// Whether tasks of all ranks go on while their programs wait inside MPI: the same on all
    /// ranks, once they have got a duplicate.
    pub(crate) fn all_go_on(&self) -> bool {
        self.all_go_on.load(Ordering::Relaxed)
    }

    /// That of a communicator of the program's, for as long as the program has it.
    ///
    /// # Safety
    /// The communicator is valid.
    pub(crate) unsafe fn of_program(mpi: &'static Mpi, comm: usize) -> Arc<Pool> {
        /// Threads may open files on one communicator that has one rank.
        static LOCK: Mutex<()> = Mutex::new(());
        let Some(key) = key(mpi) else { return Pool::new(false) };
        let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut value, mut found) = (ptr::null::<Pool>(), 0);
        // SAFETY: the communicator is valid; the value is an address that `set_attr` got below, of
        // a pool that is there until MPI deletes the attribute.
        unsafe {
            let place = (&raw mut value).cast();
            let code = (mpi.call.Comm_get_attr)(comm, key, place, &mut found);
            if code == 0 && found != 0 && !value.is_null() {
                Arc::increment_strong_count(value);
                return Arc::from_raw(value);
            }
        }
        let pool = Pool::new(true);
        let value = Arc::into_raw(pool.clone());
        // SAFETY: as above.
        let code = unsafe { (mpi.call.Comm_set_attr)(comm, key, value.cast_mut().cast()) };
        if code != 0 {
            // SAFETY: MPI has not taken the address.
            drop(unsafe { Arc::from_raw(value) });
            return Pool::new(false);
        }
        pool
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A duplicate for a file: one that is free on all ranks, or a new one. All ranks of `of`,
    /// whose pool this is, call it.
    pub(crate) fn duplicate(
        self: &Arc<Self>,
        of: &MpiCommunicator,
    ) -> Result<Arc<dyn Communicator>> {
        let (first, gather, free) = {
            let mut state = self.lock();
            if of.size() == 1 {
                // There is nobody to ask, and threads may open files at the same time.
                let taken = lowest(state.free()).map(|place| state.take(place));
                drop(state);
                return taken.map_or_else(|| self.add(of), |taken| Ok(self.lend(taken)));
            }
            state.gathers += 1;
            let first = state.kept.first().map(|kept| kept.communicator.clone());
            (first, state.gathers, state.free())
        };
        let Some(first) = first else { return self.add(of) };
        let free = first.gather_numbers(gather, free)?;
        match lowest(free.into_iter().fold(u64::MAX, |common, free| common & free)) {
            None => self.add(of),
            Some(place) => {
                let taken = self.lock().take(place);
                Ok(self.lend(taken))
            }
        }
    }

    /// A new one, which is kept if all ranks have room for it.
    fn add(self: &Arc<Self>, of: &MpiCommunicator) -> Result<Arc<dyn Communicator>> {
        let keeps = self.stays && KEPT.load(Ordering::Relaxed) < KEPT_MAX;
        let mut made = of.own_duplicate(keeps)?;
        self.all_go_on.store(made.all_go_on, Ordering::Relaxed);
        if !made.is_kept() {
            return Ok(Arc::new(made));
        }
        made.counted = Some(Counted::new());
        let taken = {
            let mut state = self.lock();
            state.kept.push(KeptDuplicate { communicator: Arc::new(made), turn: 0, is_free: true });
            let place = state.kept.len() - 1;
            state.take(place)
        };
        Ok(self.lend(taken))
    }

    /// Lends one that was taken to a file.
    fn lend(self: &Arc<Self>, (place, turn, communicator): Taken) -> Arc<dyn Communicator> {
        communicator.begin_turn(turn);
        let (watchdog, pool) = (Watchdog::default(), Arc::downgrade(self));
        Arc::new(InUse { communicator, watchdog, turn, place, pool })
    }
}

/// One that is free no more: its place, its next turn, and itself.
type Taken = (usize, u32, Arc<MpiCommunicator>);

/// The place of the lowest bit.
fn lowest(bits: u64) -> Option<usize> {
    (bits != 0).then(|| usize::try_from(bits.trailing_zeros()).unwrap_or(0))
}

impl PoolState {
    /// A bit for each that is free on this rank.
    fn free(&self) -> u64 {
        let is_free = |kept: &KeptDuplicate| kept.is_free && kept.turn < TURN_MAX;
        let bit = |(place, kept): (usize, &KeptDuplicate)| u64::from(is_free(kept)) << place;
        self.kept.iter().enumerate().map(bit).sum()
    }

    fn take(&mut self, place: usize) -> Taken {
        let kept = &mut self.kept[place];
        assert!(kept.is_free, "what a file gets is free");
        (kept.turn, kept.is_free) = (kept.turn + 1, false);
        (place, kept.turn, kept.communicator.clone())
    }
}

/// The key of the attribute.
fn key(mpi: &Mpi) -> Option<c_int> {
    static KEY: OnceLock<Option<c_int>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let (copy, delete) = attribute::callbacks(delete);
        let mut key = 0;
        // SAFETY: the callbacks have the signatures of MPI's.
        let code =
            unsafe { (mpi.call.Comm_create_keyval)(copy, delete, &mut key, ptr::null_mut()) };
        (code == 0).then_some(key)
    })
}

/// The program has freed its communicator, or MPI ends.
unsafe extern "C" fn delete(
    _comm: usize,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    panics::end_the_process("the end of a communicator", || {
        // SAFETY: the value is an address that MPI got in `Pool::of_program`.
        drop(unsafe { Arc::from_raw(value.cast_const().cast::<Pool>()) });
    });
    0
}

/// A duplicate that one file uses.
struct InUse {
    communicator: Arc<MpiCommunicator>,
    /// Of this file only.
    watchdog: Watchdog,
    turn: u32,
    place: usize,
    pool: Weak<Pool>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if !self.communicator.end_turn(self.turn) {
            return;
        }
        if let Some(pool) = self.pool.upgrade() {
            pool.lock().kept[self.place].is_free = true;
        }
    }
}

impl Communicator for InUse {
    fn group(&self) -> &Group {
        self.communicator.group()
    }

    fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        self.communicator.duplicate()
    }

    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        self.communicator.send_in(self.turn, to, tag, bytes)
    }

    fn poll_receive(
        &self,
        from: u32,
        tag: Tag,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Vec<u8>>> {
        self.communicator.poll_receive_in(self.turn, from, tag)
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        self.communicator.counter_add(delta)
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        self.communicator.counter_set(value)
    }

    fn region(&self) -> Option<&Region> {
        self.communicator.region()
    }

    fn poll_until(
        &self,
        condition: &mut dyn Condition,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.communicator.poll_until(condition, context)
    }

    fn wake(&self, rank: u32) {
        self.communicator.wake(rank);
    }

    fn spawn(&self, task: Task) {
        self.communicator.spawn(task);
    }

    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        self.communicator.block_on(task);
    }
}
