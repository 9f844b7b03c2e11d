//! An open file on one rank, with calls as futures.
//!
//! `Handle::begin` does what belongs to the moment of the call: it takes the position, moves the
//! file pointer and takes a call number. What may wait is in the futures. A blocking call drives
//! its future at once; a non-blocking one hands it over, to be driven in the background.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::kept::KeptPlans;
use super::opening;
use super::options::{AccessMode, OpenOptions};
use super::pending::Done;
use super::reported::{Reported, Served};
use super::unsynced::Unsynced;
use crate::comm::Communicator;
use crate::comm::collective::broadcast;
use crate::error::{Error, ErrorClass, Result};
use crate::escaped::escaped;
use crate::exchange::agree::{agree_on, enter};
use crate::hints::{EffectiveHint, Environment, HintReport, HintSet, Hints, Statistics, is_served};
use crate::plan::{FileFacts, Learned};
use crate::statistics::{CallStatistics, FileStatistics, OpenTime, Recorder};
use crate::storage::{AccessLog, Deletion, Driver, Storage};
use crate::view::{CompiledView, Representation, View};

/// An open file, with every waiting call as a future.
///
/// [`File`](super::File) has the same calls blocking; most programs use that.
pub struct Handle {
    pub(super) communicator: Arc<dyn Communicator>,
    pub(super) storage: Arc<dyn Storage>,
    /// When it was opened, and the accesses since then if they are traced.
    pub(super) opened: OpenTime,
    pub(super) accesses: Option<Arc<AccessLog>>,
    pub(super) facts: FileFacts,
    pub(super) reported: Reported,
    pub(super) mode: AccessMode,
    pub(super) path: PathBuf,
    pub(super) driver: Arc<dyn Driver>,
    /// How the close deletes the file, on the rank that does so and where the name is not enough.
    pub(super) deletion: Mutex<Option<Deletion>>,
    pub(super) calls: AtomicU64,
    /// Whether a blocking collective goes on.
    pub(super) alone: Arc<AtomicBool>,
    /// Whether there may be calls in `State::running`: a look at it saves a lock.
    pub(super) handed_over: AtomicBool,
    pub(super) unsynced: Unsynced,
    /// Whether a close has begun.
    pub(super) closed: AtomicBool,
    pub(super) state: Mutex<State>,
}

/// What changes while a file is open.
pub(super) struct State {
    pub(super) view: Arc<CompiledView>,
    pub(super) hints: Arc<Hints>,
    pub(super) report: Arc<HintReport>,
    pub(super) given: HintSet,
    /// The individual file pointer, in etypes.
    pub(super) pointer: u64,
    /// Whether this rank may have moved the shared file pointer since all ranks set it to 0.
    pub(super) shared_moved: bool,
    pub(super) atomic: bool,
    pub(super) split_active: bool,
    /// Calls that have been handed over and may not have ended.
    pub(super) running: Vec<Arc<Done>>,
    pub(super) plans: KeptPlans,
    pub(super) learned: Learned,
    pub(super) statistics: FileStatistics,
    pub(super) last_call: CallStatistics,
    /// When a short call was timed for all of its like.
    pub(super) last_timed: Option<Instant>,
    pub(super) served: Served,
    /// Every call, if statistics are recorded.
    pub(super) recorder: Recorder,
}

impl State {
    /// Whether hints change anything: the values in effect, or what the report says. If rank 0's
    /// do not, no rank has to hear of them.
    fn changes(&self, hints: &HintSet) -> bool {
        let in_effect = |key, value| is_served(key) || self.report.value(key) == Some(value);
        hints.iter().any(|(key, value)| !in_effect(key, value) && !self.given.holds(key, value))
    }
}

/// Whose hints change anything.
#[derive(Clone, Copy)]
struct HintChange {
    own: bool,
    /// Those of rank 0, which count.
    common: bool,
}

impl Handle {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for the next collective call; the same on all ranks, which make the same calls.
    pub(super) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds file and rank to an error.
    pub(super) fn explain(&self, error: Error) -> Error {
        error.in_file(&self.path).on_rank(self.communicator.rank())
    }

    /// Opens a file; an error in place of the name is announced to all ranks.
    pub(super) async fn open(
        options: &OpenOptions,
        communicator: &dyn Communicator,
        path: Result<&Path>,
    ) -> Result<Handle> {
        let communicator = communicator.duplicate()?;
        let rank = communicator.rank();
        let opened = opening::open(options, &communicator, path.clone()).await;
        opened.map_err(|error| match path {
            Ok(path) => error.in_file(path).on_rank(rank),
            Err(_) => error.on_rank(rank),
        })
    }

    /// The file's name, without a driver prefix.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The access mode it was opened with.
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// The ranks that opened it.
    pub fn communicator(&self) -> &dyn Communicator {
        &*self.communicator
    }

    /// The hints in effect, and those that were ignored, with the reasons.
    pub fn hints(&self) -> Arc<HintReport> {
        self.state().report.clone()
    }

    /// What `MPI_File_get_info` shows: the hints in effect, what the file says of itself, and how
    /// the last collective read and write were served (`pario_write_strategy`,
    /// `pario_write_reason`, `pario_write_predicted_us`; the same with `read`). Where there was no
    /// collective in a direction, that is about this rank's last call, if it was in that direction.
    ///
    /// Given back as hints, the last ones change nothing and are not reported as ignored.
    pub fn info(&self) -> Vec<EffectiveHint> {
        let state = self.state();
        let served = state.served.keys(&state.last_call);
        state.report.effective.iter().cloned().chain(served).collect()
    }

    /// This rank's view.
    pub fn view(&self) -> View {
        self.state().view.view.clone()
    }

    /// Whether atomic mode is on.
    pub fn atomicity(&self) -> bool {
        self.state().atomic
    }

    /// What all calls on this file did, on this rank.
    pub fn statistics(&self) -> FileStatistics {
        self.state().statistics.clone()
    }

    /// What the last read or write did, on this rank.
    pub fn last_call(&self) -> CallStatistics {
        self.state().last_call.clone()
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// `Io` or more specific if the storage fails.
    pub fn size(&self) -> Result<u64> {
        self.storage.size().map_err(|error| self.explain(error))
    }

    /// This rank's file pointer, in etypes of the view.
    pub fn position(&self) -> u64 {
        self.state().pointer
    }

    /// The shared file pointer, in etypes of the view.
    ///
    /// # Errors
    /// `PeerLost` if the rank that keeps it is gone.
    pub fn position_shared(&self) -> Result<u64> {
        self.communicator.counter_add(0)
    }

    /// Offset in the file of a position in the view. Position 0 of a view that shows nothing is at
    /// its displacement.
    ///
    /// # Errors
    /// `Type` if it lies beyond 2^63, `Arg` if the view shows nothing and the position is not 0.
    pub fn byte_offset(&self, position: u64) -> Result<u64> {
        let view = self.state().view.clone();
        if position == 0 && view.filetype_bytes == 0 {
            return Ok(view.view.displacement());
        }
        crate::request::etypes(&view, view.etype_bytes).map_err(|error| self.explain(error))?;
        let access = crate::request::access(&view, position, view.etype_bytes);
        Ok(access.map_err(|error| self.explain(error))?.offset_of(0))
    }

    /// Moves this rank's file pointer.
    ///
    /// # Errors
    /// `Arg` if it would become negative, `UnsupportedOperation` on sequential files.
    pub fn seek(&self, to: SeekFrom) -> Result<u64> {
        self.refuse_sequential("seek")?;
        let position = self.seek_target(to, self.position())?;
        self.state().pointer = position;
        Ok(position)
    }

    /// Moves the shared file pointer; all ranks call it with the same argument.
    ///
    /// # Errors
    /// As [`Handle::seek`]; `NotSame` if the ranks differ.
    pub async fn seek_shared(&self, to: SeekFrom) -> Result<u64> {
        self.try_seek_shared(Ok(to)).await
    }

    /// Moves the shared file pointer; an error that this rank found in its argument is the outcome
    /// on all ranks, and nobody waits for it.
    ///
    /// # Errors
    /// As [`Handle::seek_shared`], and the error that was given.
    #[doc(hidden)]
    pub async fn try_seek_shared(&self, to: Result<SeekFrom>) -> Result<u64> {
        // The mode is the same on all ranks.
        self.refuse_sequential("seek_shared")?;
        let call = self.next_call();
        self.state().shared_moved = true;
        let position = self.communicator.counter_add(0);
        let own = to.and_then(|to| self.seek_target(to, position?));
        let position = self.enter_same(call, "seek_shared", own).await?;
        let own = match self.communicator.rank() {
            0 => self.communicator.counter_set(position),
            _ => Ok(()),
        };
        self.agree(call, own).await.map(|()| position)
    }

    /// An error for what a sequential file, which only goes forward, does not have.
    fn refuse_sequential(&self, name: &str) -> Result<()> {
        if !self.mode.sequential {
            return Ok(());
        }
        let text = format!("{name}: a sequential file has its shared file pointer only");
        Err(self.explain(Error::new(ErrorClass::UnsupportedOperation, text)))
    }

    fn seek_target(&self, to: SeekFrom, current: u64) -> Result<u64> {
        let (base, distance) = match to {
            SeekFrom::Start(position) => return Ok(position),
            SeekFrom::Current(distance) => (current, distance),
            SeekFrom::End(distance) => (self.end_position()?, distance),
        };
        base.checked_add_signed(distance).ok_or_else(|| {
            let text = format!("seek: {distance} from {base} is before the start of the view");
            self.explain(Error::new(ErrorClass::Arg, text))
        })
    }

    /// The position after the last etype that has a byte in the file.
    fn end_position(&self) -> Result<u64> {
        let (view, size) = (self.state().view.clone(), self.size()?);
        if !view.layout.is_sorted() {
            let text = "seek: the end is not defined in a view that names bytes twice";
            return Err(self.explain(Error::new(ErrorClass::UnsupportedOperation, text)));
        }
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        Ok(view.layout.bytes_below(size).div_ceil(view.etype_bytes))
    }

    /// Changes this rank's view, together with all ranks; both file pointers go to 0.
    ///
    /// # Errors
    /// The same class on all ranks: `Type` if a view breaks a rule of the standard, `NotSame` if
    /// extents of the etypes or representations differ between the ranks. Etypes of one extent may
    /// differ in size: each rank counts its own, also where it moves the shared file pointer.
    pub async fn set_view(&self, view: &View) -> Result<()> {
        self.try_set_view(Ok(view)).await
    }

    /// Changes this rank's view; an error that this rank found while it made the view is the
    /// outcome on all ranks, and nobody waits for it.
    ///
    /// # Errors
    /// As [`Handle::set_view`], and the error that was given.
    #[doc(hidden)]
    pub async fn try_set_view(&self, view: Result<&View>) -> Result<()> {
        self.try_set_view_with(view, &HintSet::new(), 0).await
    }

    /// Changes this rank's view and gives more hints, as [`Handle::set_hints`] does, in one step:
    /// all ranks call it, with hints or without. Hints of rank 0 that change nothing cost nothing
    /// but a comparison. `common` is a number of the caller's that must be the same on all ranks,
    /// such as one for the name of a data representation.
    ///
    /// # Errors
    /// As [`Handle::try_set_view`], and `NotSame` if `common` differs; then the hints stay as they
    /// were.
    #[doc(hidden)]
    pub async fn try_set_view_with(
        &self,
        view: Result<&View>,
        hints: &HintSet,
        common: u64,
    ) -> Result<()> {
        let call = self.next_call();
        let (changes, moved) = {
            let state = self.state();
            (state.changes(hints), state.shared_moved)
        };
        let compiled = view.and_then(|view| CompiledView::new(view, self.mode.write));
        let own = compiled.as_ref().map_err(Clone::clone).map(|compiled| {
            let representation = compiled.view.representation() == Representation::External32;
            let mut hasher = DefaultHasher::new();
            (compiled.etype_extent, representation, common).hash(&mut hasher);
            hasher.finish() << 2 | u64::from(moved) << 1 | u64::from(changes)
        });
        let values = self.enter(call, "set_view", own).await?;
        let common: Vec<u64> = values.iter().map(|value| value >> 2).collect();
        same_values(&common, "set_view: extent of the etype, or representation")
            .map_err(|error| self.explain(error))?;
        {
            let mut state = self.state();
            state.view = Arc::new(compiled?);
            (state.pointer, state.shared_moved) = (0, false);
        }
        let change = HintChange { own: changes, common: values[0] & 1 != 0 };
        let own = self.take_hints(call, hints, change).await;
        if !change.common && values.iter().all(|value| value & 2 == 0) {
            // Nothing has changed that the ranks share: no rank has to wait for another one.
            return own.map_err(|error| self.explain(error));
        }
        let own = own.and_then(|()| match self.communicator.rank() {
            0 => self.communicator.counter_set(0),
            _ => Ok(()),
        });
        self.agree(call, own).await
    }

    /// Gives more hints, together with all ranks; rank 0's count.
    ///
    /// # Errors
    /// `PeerLost` if a rank is gone.
    pub async fn set_hints(&self, hints: &HintSet) -> Result<()> {
        self.try_set_hints(Ok(hints)).await
    }

    /// Gives more hints; an error that this rank found while it made them is the outcome on all
    /// ranks, and nobody waits for it.
    ///
    /// # Errors
    /// As [`Handle::set_hints`], and the error that was given.
    #[doc(hidden)]
    pub async fn try_set_hints(&self, hints: Result<&HintSet>) -> Result<()> {
        let call = self.next_call();
        let own = hints.as_ref().is_ok_and(|hints| self.state().changes(hints));
        let argument = hints.as_ref().map_err(Clone::clone).map(|_| u64::from(own));
        let values = self.enter(call, "set_hints", argument).await?;
        let change = HintChange { own, common: values[0] != 0 };
        let taken = self.take_hints(call, hints?, change).await;
        match change.common {
            // No rank begins a call by the new rules for locks while another ends one by the old.
            true => self.agree(call, taken).await,
            false => taken,
        }
    }

    /// Adds hints to those that were given, and makes rank 0's the hints in effect if they change
    /// anything. Of another rank's hints, the report says what became of them.
    async fn take_hints(&self, call: u64, hints: &HintSet, change: HintChange) -> Result<()> {
        if !change.own && !change.common {
            return Ok(());
        }
        let given = {
            let state = self.state();
            let of_file = |&(key, value): &(&str, &str)| {
                is_served(key) || state.report.says_of_file(key, value)
            };
            let news = hints.iter().filter(|hint| !of_file(hint)).collect();
            state.given.clone().and_later(&news)
        };
        let (found, report) = given.resolve(&self.path, &Environment::of_process());
        let agreed = match change.common {
            true => {
                // Calls that are still running follow the rules for locks that they began with.
                self.wait_for(self.running()).await;
                Arc::new(from_rank_0(&*self.communicator, call, &found).await?)
            }
            false => self.state().hints.clone(),
        };
        let patience = Duration::from_secs(agreed.collective_wait_s);
        self.communicator.watchdog().watch(self.path.display(), patience);
        let of_file = self.reported.keys(&agreed, &self.facts);
        let mut state = self.state();
        state.report = Arc::new(report.with_agreed(&agreed).and_of_file(of_file));
        state.given = given;
        if state.hints != agreed {
            state.hints = agreed;
        }
        Ok(())
    }

    /// Switches atomic mode, together with all ranks.
    ///
    /// # Errors
    /// `NotSame` if the ranks differ, `UnsupportedOperation` if the storage has no range locks.
    pub async fn set_atomicity(&self, atomic: bool) -> Result<()> {
        let call = self.next_call();
        self.enter_same(call, "set_atomicity", Ok(u64::from(atomic))).await?;
        if atomic && self.facts.nodes.len() > 1 && !self.facts.range_locks {
            let text = "set_atomicity: this file system has no range locks";
            return Err(self.explain(Error::new(ErrorClass::UnsupportedOperation, text)));
        }
        self.state().atomic = atomic;
        Ok(())
    }

    /// Cuts or extends the file, together with all ranks.
    ///
    /// # Errors
    /// `NotSame` if the ranks differ, `ReadOnly` if the file was opened for reading only, or what
    /// the storage says.
    pub async fn set_size(&self, bytes: u64) -> Result<()> {
        self.try_set_size(Ok(bytes)).await
    }

    /// Cuts or extends the file; an error that this rank found in its argument is the outcome on
    /// all ranks, and nobody waits for it.
    ///
    /// # Errors
    /// As [`Handle::set_size`], and the error that was given.
    #[doc(hidden)]
    pub async fn try_set_size(&self, bytes: Result<u64>) -> Result<()> {
        self.resize(bytes, "set_size", |storage, bytes| storage.set_size(bytes)).await
    }

    /// Makes room for the first `bytes` bytes on the device, together with all ranks.
    ///
    /// # Errors
    /// As [`Handle::set_size`].
    pub async fn preallocate(&self, bytes: u64) -> Result<()> {
        self.try_preallocate(Ok(bytes)).await
    }

    /// Makes room on the device; an error that this rank found in its argument is the outcome on
    /// all ranks, and nobody waits for it.
    ///
    /// # Errors
    /// As [`Handle::set_size`], and the error that was given.
    #[doc(hidden)]
    pub async fn try_preallocate(&self, bytes: Result<u64>) -> Result<()> {
        self.resize(bytes, "preallocate", |storage, bytes| storage.preallocate(bytes)).await
    }

    async fn resize(
        &self,
        bytes: Result<u64>,
        name: &str,
        change: impl Fn(&dyn Storage, u64) -> Result<()>,
    ) -> Result<()> {
        let call = self.next_call();
        self.wait_for(self.running()).await;
        let bytes = self.enter_same(call, name, bytes).await?;
        self.changed_together();
        let own = match (self.mode.write, self.communicator.rank()) {
            (false, _) => {
                let text = format!("{name}: the file was opened for reading only");
                Err(Error::new(ErrorClass::ReadOnly, text))
            }
            (true, 0) => change(&*self.storage, bytes),
            (true, _) => Ok(()),
        };
        let agreed = self.agree(call, own).await;
        self.unsynced.changed();
        agreed
    }

    /// Makes the result of something that every rank did by itself that of all ranks; all ranks
    /// call it.
    ///
    /// # Errors
    /// The same class on all ranks: the most specific that any rank gave.
    #[doc(hidden)]
    pub async fn agree_on<T: Send>(&self, own: Result<T>) -> Result<T> {
        self.agree_in(self.next_call(), own).await
    }

    /// As [`Handle::agree_on`], as a call whose number the ranks took earlier, all in one order.
    pub(super) async fn agree_in<T: Send>(&self, call: u64, own: Result<T>) -> Result<T> {
        self.enter(call, "agree_on", own.as_ref().map(|_| 0).map_err(Clone::clone)).await?;
        own
    }

    /// Ends all calls that are still running, and closes the file on all ranks.
    ///
    /// # Errors
    /// The same class on all ranks: what the system finds on any of them when it closes the file,
    /// or when it deletes it, or what an earlier sync found. The file is closed all the same.
    pub async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        let call = self.next_call();
        self.wait_for(self.running()).await;
        // Both are the same on all ranks.
        let told = self.state().hints.statistics != Statistics::Off;
        if !told && !self.mode.delete_on_close {
            // What is left to do is every rank's own: one message says all.
            let closed = self.close_own();
            return self.enter(call, "close", closed.map(|()| 0)).await.map(|_| ());
        }
        self.enter(call, "close", Ok(0)).await?;
        if told {
            // A rank that is gone is found, and reported, by what follows.
            let _ = self.print_summary(call).await;
        }
        let closed = self.close_own();
        let deleted = match self.mode.delete_on_close && self.communicator.rank() == 0 {
            true => self.delete(),
            false => Ok(()),
        };
        self.agree(call, closed.and(deleted)).await
    }

    /// Closes the file on this rank; a sync that failed here is the concern of all ranks now.
    fn close_own(&self) -> Result<()> {
        self.storage.close().and(self.unsynced.failure())
    }

    /// Deletes the file that was opened.
    fn delete(&self) -> Result<()> {
        let deletion = self.deletion.lock().unwrap_or_else(PoisonError::into_inner).take();
        deletion.map_or_else(|| self.driver.delete(&self.path), Deletion::run)
    }

    /// Calls that have been handed over and have not ended.
    pub(super) fn running(&self) -> Vec<Arc<Done>> {
        if !self.handed_over.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut state = self.state();
        state.running.retain(|done| !done.is_done());
        self.handed_over.store(!state.running.is_empty(), Ordering::SeqCst);
        state.running.clone()
    }

    pub(super) async fn wait_for(&self, running: Vec<Arc<Done>>) {
        for done in running {
            done.wait().await;
        }
    }

    async fn agree<T>(&self, call: u64, own: Result<T>) -> Result<T> {
        let agreed = agree_on(&*self.communicator, call, own).await;
        agreed.map_err(|error| self.explain(error))
    }

    /// The first step of a collective: one number of each rank, or an error on all of them.
    pub(super) async fn enter(&self, call: u64, name: &str, own: Result<u64>) -> Result<Vec<u64>> {
        let entered = enter(&*self.communicator, call, name, own).await;
        entered.map_err(|error| self.explain(error))
    }

    /// The first step of a collective whose ranks all give the same number.
    async fn enter_same(&self, call: u64, name: &str, own: Result<u64>) -> Result<u64> {
        let values = self.enter(call, name, own).await?;
        same_values(&values, name).map_err(|error| self.explain(error))?;
        Ok(values[0])
    }
}

/// A close is collective and may fail, so a drop cannot do it. It says so, on rank 0 only.
impl Drop for Handle {
    fn drop(&mut self) {
        let closed = self.closed.load(Ordering::Relaxed) || self.communicator.rank() != 0;
        // A panic says more.
        if !closed && !std::thread::panicking() {
            let name = self.path.display().to_string();
            log::warn!(
                "{}: dropped without close; call close on all ranks to learn of late errors",
                escaped(&name)
            );
        }
    }
}

pub(super) fn same_values(values: &[u64], what: &str) -> Result<()> {
    match values.iter().position(|value| *value != values[0]) {
        None => Ok(()),
        Some(rank) => {
            let text = format!("{what}: differs between rank 0 and rank {rank}");
            Err(Error::new(ErrorClass::NotSame, text))
        }
    }
}

/// The hints that rank 0 has.
async fn from_rank_0(communicator: &dyn Communicator, call: u64, own: &Hints) -> Result<Hints> {
    Hints::from_wire(&broadcast(communicator, call, own.to_wire()).await?)
}
