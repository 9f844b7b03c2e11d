//! The user's call: [`File`] and what it gives back.
//!
//! | file | concept |
//! | --- | --- |
//! | `options` | opening: access modes, hints, drivers |
//! | `opening` | the steps of an open, which all ranks take together |
//! | `handle` | an open file: views, pointers, sizes; calls as futures |
//! | `local` | what a file says and does on one rank alone |
//! | `transfer` | reads and writes, from the call to the executor |
//! | `planned` | collective calls planned once and run many times |
//! | `pending` | calls that have been handed over |
//! | `unsynced` | what a sync has to do, and with whom |
//! | `reported` | what a file reports of itself beside the hints |

use std::io::SeekFrom;
use std::path::Path;
use std::sync::Arc;

use crate::access::{Buffer, OwnedBuffer, Record, Source, Target};
use crate::comm::block_on;
use crate::datatype::{Datatype, Elementary};
use crate::direction::Direction;
use crate::error::{Error, ErrorClass, Result};
use crate::hints::HintSet;
use crate::request::{Kind, Position};
use crate::storage;
use crate::view::View;

mod handle;
mod kept;
mod local;
mod opening;
mod options;
mod pending;
mod planned;
mod reported;
mod summary;
mod transfer;
mod unsynced;

use transfer::{Begun, Run};

pub use handle::Handle;
pub use options::{AccessMode, OpenOptions};
pub use pending::{Pending, Split};
pub use planned::Plan;

/// What became of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Bytes that really moved; fewer than asked for where the file ends.
    pub bytes: u64,
}

impl Status {
    fn new(bytes: u64) -> Status {
        Status { bytes }
    }

    /// Whole values of a type that moved.
    pub fn count<T: Elementary>(&self) -> u64 {
        self.bytes / T::ELEMENT.size()
    }

    /// Whole records of a type that moved.
    pub fn records<T: Record>(&self) -> u64 {
        self.bytes / T::datatype().size().max(1)
    }
}

/// A file that all ranks of a communicator have open.
///
/// Calls named `*_all`, and those that change the file or the handle, are collective: every rank
/// makes them, in the same order. If one fails on any rank, all ranks return an error of the same
/// class; its [`Error::moved`] says how many leading bytes of the rank's own request moved.
///
/// Close it with [`File::close`], on all ranks. A file that is dropped instead is not deleted by
/// `delete_on_close`, shows no statistics and hides the errors of a close; rank 0 logs a warning.
///
/// ```
/// use pario::{Datatype, File, Position, Threads, View};
/// // Four ranks write every fourth number each, and one reads them all back.
/// Threads::new(4).run(|comm| -> pario::Result<()> {
///     let file =
///         File::options().read(true).write(true).create(true).open(&*comm, "memory:numbers")?;
///     let number = Datatype::of::<u32>();
///     let every_fourth = Datatype::resized(0, 16, &number)?;
///     file.set_view(&View::new(u64::from(comm.rank()) * 4, &number, &every_fourth))?;
///     let mine: Vec<u32> = (0..100).map(|turn| turn * 4 + comm.rank()).collect();
///     file.write_all(Position::Individual, &mine)?;
///
///     file.set_view(&View::bytes())?;
///     let mut all = [0u32; 400];
///     file.read(0, &mut all)?;
///     assert!(all.iter().enumerate().all(|(index, &value)| index == value as usize));
///     file.close()
/// });
/// ```
pub struct File {
    handle: Arc<Handle>,
}

impl File {
    fn new(handle: Handle) -> File {
        File { handle: Arc::new(handle) }
    }

    /// Options to open a file with.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Deletes a file that nobody has open; not collective.
    ///
    /// # Errors
    /// `NoSuchFile`, `Access`, or what the storage says.
    pub fn delete(path: impl AsRef<Path>) -> Result<()> {
        let (driver, path) = storage::for_path(path.as_ref())?;
        driver.delete(path).map_err(|error| error.in_file(path))
    }

    /// The calls as futures.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Reads on this rank alone.
    ///
    /// # Errors
    /// `Access` if the file was opened for writing only; what the storage says.
    pub fn read<'a>(
        &self,
        position: impl Into<Position>,
        target: impl Into<Target<'a>>,
    ) -> Result<Status> {
        self.call(Kind::READ, position.into(), target.into().buffer)
    }

    /// Writes on this rank alone.
    ///
    /// # Errors
    /// `ReadOnly` if the file was opened for reading only; what the storage says, such as
    /// `NoSpace` or `Quota`.
    pub fn write<'a>(
        &self,
        position: impl Into<Position>,
        source: impl Into<Source<'a>>,
    ) -> Result<Status> {
        self.call(Kind::WRITE, position.into(), source.into().buffer)
    }

    /// Reads on all ranks together.
    ///
    /// # Errors
    /// As [`File::read`], the same class on all ranks; `NotSame` if a rank makes another call.
    pub fn read_all<'a>(
        &self,
        position: impl Into<Position>,
        target: impl Into<Target<'a>>,
    ) -> Result<Status> {
        self.call(Kind::READ_ALL, position.into(), target.into().buffer)
    }

    /// Reads on all ranks together; an error that this rank found while it prepared its target is
    /// the outcome on all ranks, and nobody waits for it.
    ///
    /// # Errors
    /// As [`File::read_all`], and the error that was given.
    #[doc(hidden)]
    pub fn try_read_all(
        &self,
        position: impl Into<Position>,
        target: Result<Target<'_>>,
    ) -> Result<Status> {
        self.try_call(Kind::READ_ALL, position.into(), target.map(|target| target.buffer))
    }

    /// Writes on all ranks together; an error that this rank found while it prepared its source is
    /// the outcome on all ranks, and nobody waits for it.
    ///
    /// # Errors
    /// As [`File::write_all`], and the error that was given.
    #[doc(hidden)]
    pub fn try_write_all(
        &self,
        position: impl Into<Position>,
        source: Result<Source<'_>>,
    ) -> Result<Status> {
        self.try_call(Kind::WRITE_ALL, position.into(), source.map(|source| source.buffer))
    }

    /// Writes on all ranks together.
    ///
    /// # Errors
    /// As [`File::write`], the same class on all ranks; `NotSame` if a rank makes another call.
    pub fn write_all<'a>(
        &self,
        position: impl Into<Position>,
        source: impl Into<Source<'a>>,
    ) -> Result<Status> {
        self.call(Kind::WRITE_ALL, position.into(), source.into().buffer)
    }

    fn call(&self, kind: Kind, position: Position, buffer: Buffer) -> Result<Status> {
        self.try_call(kind, position, Ok(buffer))
    }

    /// The buffer comes from a source or target that the caller borrows for this call.
    fn try_call(&self, kind: Kind, position: Position, buffer: Result<Buffer>) -> Result<Status> {
        if let Ok(buffer) = &buffer
            && buffer.is_contiguous()
            && let Some(run) = Run::of(kind, buffer)
            && let Some(result) = self.handle.straight(kind, position, run)
        {
            return result;
        }
        let signature = buffer.as_ref().map(Buffer::signature).map_err(Clone::clone);
        let begun = self.handle.begin(kind, position, signature, true);
        let run = self.handle.run(begun, buffer.as_ref().map_err(Clone::clone));
        block_on(&*self.handle.communicator, run)
    }

    /// Writes bytes on this rank alone, if that takes one storage call and nothing else: a quick
    /// way for libraries that offer files to others, such as MPI's. `None` if it takes more, or if
    /// something is wrong; nothing has happened then, and [`File::write`] serves or refuses it.
    #[doc(hidden)]
    pub fn write_run(&self, position: Position, bytes: &[u8]) -> Option<Result<Status>> {
        self.handle.straight(Kind::WRITE, position, Run::Write(bytes))
    }

    /// Writes bytes on all ranks together, if there is only one, and this takes one storage call
    /// and nothing else; as [`File::write_run`].
    #[doc(hidden)]
    pub fn write_all_run(&self, position: Position, bytes: &[u8]) -> Option<Result<Status>> {
        self.handle.straight(Kind::WRITE_ALL, position, Run::Write(bytes))
    }

    /// Reads bytes on this rank alone, if that takes one storage call and nothing else; as
    /// [`File::write_run`].
    #[doc(hidden)]
    pub fn read_run(&self, position: Position, bytes: &mut [u8]) -> Option<Result<Status>> {
        self.handle.straight(Kind::READ, position, Run::Read(bytes))
    }

    /// Reads bytes on all ranks together, if there is only one, and this takes one storage call
    /// and nothing else; as [`File::write_run`].
    #[doc(hidden)]
    pub fn read_all_run(&self, position: Position, bytes: &mut [u8]) -> Option<Result<Status>> {
        self.handle.straight(Kind::READ_ALL, position, Run::Read(bytes))
    }

    /// Reads on this rank alone, in the background.
    pub fn iread<B: OwnedBuffer>(&self, position: impl Into<Position>, target: B) -> Pending<B> {
        self.start(Kind::READ, position.into(), target)
    }

    /// Writes on this rank alone, in the background.
    pub fn iwrite<B: OwnedBuffer>(&self, position: impl Into<Position>, source: B) -> Pending<B> {
        self.start(Kind::WRITE, position.into(), source)
    }

    /// Reads on all ranks together, in the background.
    pub fn iread_all<B: OwnedBuffer>(
        &self,
        position: impl Into<Position>,
        target: B,
    ) -> Pending<B> {
        self.start(Kind::READ_ALL, position.into(), target)
    }

    /// Writes on all ranks together, in the background.
    pub fn iwrite_all<B: OwnedBuffer>(
        &self,
        position: impl Into<Position>,
        source: B,
    ) -> Pending<B> {
        self.start(Kind::WRITE_ALL, position.into(), source)
    }

    /// Reads on all ranks together, in the background. Then each rank converts what it has read,
    /// which has one outcome for all ranks: an error of one is an error of each.
    #[doc(hidden)]
    pub fn iread_all_converted<B: OwnedBuffer>(
        &self,
        position: impl Into<Position>,
        mut target: B,
        convert: impl FnOnce(&mut B, Status) -> Result<Status> + Send + 'static,
    ) -> Pending<B> {
        let begun = self.begin_owned(Kind::READ_ALL, position.into(), &mut target);
        // All ranks start their calls in one order, and end them in any.
        let agreement = self.handle.next_call();
        let handle = self.handle.clone();
        Pending::spawn(self.handle.clone(), async move {
            let read = run_owned(&handle, Kind::READ_ALL, begun, &mut target).await;
            let converted = read.and_then(|status| convert(&mut target, status));
            let bytes = converted.as_ref().map_or_else(Error::moved, |status| status.bytes);
            let agreed = handle.agree_in(agreement, converted).await;
            (agreed.map_err(|error| error.after_moving(bytes)), target)
        })
    }

    fn start<B: OwnedBuffer>(&self, kind: Kind, position: Position, mut buffer: B) -> Pending<B> {
        let begun = self.begin_owned(kind, position, &mut buffer);
        let handle = self.handle.clone();
        Pending::spawn(self.handle.clone(), async move {
            (run_owned(&handle, kind, begun, &mut buffer).await, buffer)
        })
    }

    fn begin_owned<B: OwnedBuffer>(&self, kind: Kind, position: Position, buffer: &mut B) -> Begun {
        let memory = memory_of(kind, buffer);
        let signature = memory.as_ref().map(|memory| memory.signature()).map_err(Clone::clone);
        self.handle.begin(kind, position, signature, false)
    }

    /// Begins a collective read; [`Split::end`] ends it.
    ///
    /// # Errors
    /// `RequestActive` if another split collective is active on this file; the ranks where none is
    /// get it from [`Split::end`].
    pub fn read_all_begin<B: OwnedBuffer>(
        &self,
        position: impl Into<Position>,
        target: B,
    ) -> Result<Split<B>> {
        self.begin_split(Kind::READ_ALL, position.into(), target)
    }

    /// Begins a collective write; [`Split::end`] ends it.
    ///
    /// # Errors
    /// As [`File::read_all_begin`].
    pub fn write_all_begin<B: OwnedBuffer>(
        &self,
        position: impl Into<Position>,
        source: B,
    ) -> Result<Split<B>> {
        self.begin_split(Kind::WRITE_ALL, position.into(), source)
    }

    fn begin_split<B: OwnedBuffer>(
        &self,
        kind: Kind,
        position: Position,
        buffer: B,
    ) -> Result<Split<B>> {
        if let Err(error) = Split::<B>::reserve(&self.handle) {
            // The others may be right: this rank takes part, so that they learn of it.
            let begun = self.handle.begin(kind, position, Err(error.clone()), false);
            let refused = self.handle.run(begun, Err(error.clone()));
            let refused = block_on(&*self.handle.communicator, refused);
            return Err(refused.err().unwrap_or(error));
        }
        let pending = self.start(kind, position, buffer);
        Ok(Split::new(self.handle.clone(), pending))
    }

    /// Plans a collective read of `count` values, to run it often.
    ///
    /// # Errors
    /// As [`File::read_all`].
    pub fn plan_read_all(
        &self,
        position: impl Into<Position>,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Plan> {
        self.make_plan(Kind::READ_ALL, position.into(), count, datatype)
    }

    /// Plans a collective write of `count` values, to run it often.
    ///
    /// # Errors
    /// As [`File::write_all`].
    pub fn plan_write_all(
        &self,
        position: impl Into<Position>,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Plan> {
        self.make_plan(Kind::WRITE_ALL, position.into(), count, datatype)
    }

    fn make_plan(
        &self,
        kind: Kind,
        position: Position,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Plan> {
        let signature = datatype.signature().repeated(count);
        let len = signature.bytes(crate::datatype::signature::Form::Native);
        // Ranks that run a plan do not wait for each other: one may still write by itself.
        let begun = self.handle.begin(kind, position, Ok(&signature), false);
        block_on(&*self.handle.communicator, self.handle.plan(begun, len))
    }

    /// Runs a planned read; all ranks run theirs.
    ///
    /// # Errors
    /// As [`File::read_all`]; `Arg` if a rank's target does not fit its plan.
    pub fn read_planned<'a>(&self, plan: &Plan, target: impl Into<Target<'a>>) -> Result<Status> {
        self.run_planned(Kind::READ_ALL, plan, target.into().buffer)
    }

    /// Runs a planned write; all ranks run theirs.
    ///
    /// # Errors
    /// As [`File::write_all`]; `Arg` if a rank's source does not fit its plan.
    pub fn write_planned<'a>(&self, plan: &Plan, source: impl Into<Source<'a>>) -> Result<Status> {
        self.run_planned(Kind::WRITE_ALL, plan, source.into().buffer)
    }

    fn run_planned(&self, kind: Kind, plan: &Plan, buffer: Buffer) -> Result<Status> {
        let fits = plan.kind.direction == kind.direction && plan.len == buffer.len();
        let refused = (!fits).then(|| {
            let text = format!(
                "{} of {} bytes with a plan for {} of {} bytes",
                kind.name,
                buffer.len(),
                plan.kind.name,
                plan.len
            );
            Error::new(ErrorClass::Arg, text)
        });
        block_on(&*self.handle.communicator, self.handle.run_plan(plan, &buffer, refused))
    }

    /// Changes this rank's view; see [`Handle::set_view`].
    ///
    /// # Errors
    /// As [`Handle::set_view`].
    pub fn set_view(&self, view: &View) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.set_view(view))
    }

    /// Changes this rank's view, or fails on all ranks; see [`Handle::try_set_view`].
    ///
    /// # Errors
    /// As [`Handle::try_set_view`].
    #[doc(hidden)]
    pub fn try_set_view(&self, view: Result<&View>) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.try_set_view(view))
    }

    /// Changes this rank's view and gives more hints, or fails on all ranks; see
    /// [`Handle::try_set_view_with`].
    ///
    /// # Errors
    /// As [`Handle::try_set_view_with`].
    #[doc(hidden)]
    pub fn try_set_view_with(
        &self,
        view: Result<&View>,
        hints: &HintSet,
        common: u64,
    ) -> Result<()> {
        let change = self.handle.try_set_view_with(view, hints, common);
        block_on(&*self.handle.communicator, change)
    }

    /// Gives more hints; see [`Handle::set_hints`].
    ///
    /// # Errors
    /// As [`Handle::set_hints`].
    pub fn set_hints(&self, hints: &HintSet) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.set_hints(hints))
    }

    /// Gives more hints, or fails on all ranks; see [`Handle::try_set_hints`].
    ///
    /// # Errors
    /// As [`Handle::try_set_hints`].
    #[doc(hidden)]
    pub fn try_set_hints(&self, hints: Result<&HintSet>) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.try_set_hints(hints))
    }

    /// Switches atomic mode; see [`Handle::set_atomicity`].
    ///
    /// # Errors
    /// As [`Handle::set_atomicity`].
    pub fn set_atomicity(&self, atomic: bool) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.set_atomicity(atomic))
    }

    /// Moves the shared file pointer; see [`Handle::seek_shared`].
    ///
    /// # Errors
    /// As [`Handle::seek_shared`].
    pub fn seek_shared(&self, to: SeekFrom) -> Result<u64> {
        block_on(&*self.handle.communicator, self.handle.seek_shared(to))
    }

    /// Moves the shared file pointer, or fails on all ranks; see [`Handle::try_seek_shared`].
    ///
    /// # Errors
    /// As [`Handle::try_seek_shared`].
    #[doc(hidden)]
    pub fn try_seek_shared(&self, to: Result<SeekFrom>) -> Result<u64> {
        block_on(&*self.handle.communicator, self.handle.try_seek_shared(to))
    }

    /// Cuts or extends the file; see [`Handle::set_size`].
    ///
    /// # Errors
    /// As [`Handle::set_size`].
    pub fn set_size(&self, bytes: u64) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.set_size(bytes))
    }

    /// Cuts or extends the file, or fails on all ranks; see [`Handle::try_set_size`].
    ///
    /// # Errors
    /// As [`Handle::try_set_size`].
    #[doc(hidden)]
    pub fn try_set_size(&self, bytes: Result<u64>) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.try_set_size(bytes))
    }

    /// Makes room on the device; see [`Handle::preallocate`].
    ///
    /// # Errors
    /// As [`Handle::preallocate`].
    pub fn preallocate(&self, bytes: u64) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.preallocate(bytes))
    }

    /// Makes room on the device, or fails on all ranks; see [`Handle::try_preallocate`].
    ///
    /// # Errors
    /// As [`Handle::try_preallocate`].
    #[doc(hidden)]
    pub fn try_preallocate(&self, bytes: Result<u64>) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.try_preallocate(bytes))
    }

    /// Moves what this rank wrote to the device; all ranks call it.
    ///
    /// It is no barrier: a rank that has written nothing since its last sync returns at once, and
    /// ranks wait for each other only where another node may have stored their bytes. To read what
    /// another rank wrote, sync, let the ranks meet, and sync again.
    ///
    /// # Errors
    /// What the storage says. A failed sync is never retried: later ones fail too, and so does the
    /// close, on all ranks.
    pub fn sync(&self) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.sync())
    }

    /// Syncs if that takes no time: if this rank has written nothing since its last sync, or the
    /// file is in memory, and it waits for nothing. `None` otherwise; nothing has happened then.
    #[doc(hidden)]
    pub fn sync_briefly(&self) -> Option<Result<()>> {
        self.handle.sync_briefly()
    }

    /// One result of all ranks; see [`Handle::agree_on`].
    ///
    /// # Errors
    /// As [`Handle::agree_on`].
    #[doc(hidden)]
    pub fn agree_on<T: Send>(&self, own: Result<T>) -> Result<T> {
        block_on(&*self.handle.communicator, self.handle.agree_on(own))
    }

    /// Closes the file on all ranks, after all calls that are still running.
    ///
    /// # Errors
    /// The same class on all ranks.
    pub fn close(self) -> Result<()> {
        block_on(&*self.handle.communicator, self.handle.close())
    }
}

/// The memory of a buffer for a call of this kind.
fn memory_of<B: OwnedBuffer>(kind: Kind, buffer: &mut B) -> Result<Buffer> {
    match kind.direction {
        Direction::Read => buffer.target().map(|target| target.buffer),
        Direction::Write => buffer.source().map(|source| source.buffer),
    }
}

/// Carries a begun call out. The buffer has moved since, and its memory with it: it is named again.
async fn run_owned<B: OwnedBuffer>(
    handle: &Handle,
    kind: Kind,
    begun: Begun,
    buffer: &mut B,
) -> Result<Status> {
    let memory = memory_of(kind, buffer);
    handle.run(begun, memory.as_ref().map_err(Clone::clone)).await
}
