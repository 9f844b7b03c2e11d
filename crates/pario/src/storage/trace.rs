//! A driver that remembers which calls it saw.
//!
//! Tests ask it what really reached storage: how many calls, in which order, which bytes.
//!
//! Cost: a lock and 24 bytes per event. The number of events is bounded; what comes later is
//! only counted, so that the beginning of a long run, which is what a test describes, stays.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    Capabilities, Deletion, Driver, LockGuard, LockRange, OpenMode, Storage, file_len, total_len,
};
use crate::error::Result;

/// A kind of storage call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A file was opened.
    Open,
    /// A file was deleted.
    Delete,
    /// One run was read.
    Read,
    /// One run was written.
    Write,
    /// A list was read; `offset` is that of its first piece, `len` counts all pieces.
    ReadList,
    /// A list was written; `offset` is that of its first piece, `len` counts all pieces.
    WriteList,
    /// One piece of the list just read. This is a part of a call, not a call.
    ReadPiece,
    /// One piece of the list just written. This is a part of a call, not a call.
    WritePiece,
    /// The size was asked for.
    Size,
    /// The size was set; `len` is the new one.
    SetSize,
    /// Room was reserved for `len` bytes.
    Preallocate,
    /// Written bytes were moved to the device.
    Sync,
    /// A lock was asked for; in a trace: was obtained.
    Lock,
    /// A lock was released.
    Unlock,
    /// A file was closed.
    Close,
}

impl Operation {
    /// Whether this is a call, or a part of a call, that reads bytes.
    pub fn reads(self) -> bool {
        matches!(self, Operation::Read | Operation::ReadList | Operation::ReadPiece)
    }

    /// Whether this is a call, or a part of a call, that writes bytes.
    pub fn writes(self) -> bool {
        matches!(self, Operation::Write | Operation::WriteList | Operation::WritePiece)
    }

    /// Whether this is a call of its own and not a piece of a list.
    pub fn is_call(self) -> bool {
        !matches!(self, Operation::ReadPiece | Operation::WritePiece)
    }
}

/// One event of a [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceEvent {
    /// What happened.
    pub operation: Operation,
    /// The first byte it concerns; zero for calls that concern the whole file.
    pub offset: u64,
    /// The number of bytes it concerns; zero where there are none.
    pub len: u64,
}

/// Wraps a driver and records its calls; clones share the record.
///
/// A call is recorded when it begins, whether it fails or not; a list as one event for the call
/// followed by one for each piece. Locks are recorded while they are held: after they were
/// obtained and before they are released, so that the order of events shows who excluded whom.
///
/// ```
/// use pario::storage::{Driver, Memory, OpenMode, Operation, Trace, TraceEvent};
/// use std::{path::Path, sync::Arc};
///
/// let trace = Trace::new(Arc::new(Memory::new()), 1000);
/// let mode = OpenMode { write: true, create: true, ..OpenMode::default() };
/// let file = trace.open(Path::new("a"), mode)?;
/// trace.clear();
/// file.write_at(5, b"abc")?;
/// assert_eq!(trace.events(), [TraceEvent { operation: Operation::Write, offset: 5, len: 3 }]);
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone)]
pub struct Trace {
    inner: Arc<dyn Driver>,
    log: Arc<Log>,
}

impl Trace {
    /// Records at most `events_max` events of the calls to `inner`.
    pub fn new(inner: Arc<dyn Driver>, events_max: usize) -> Trace {
        Trace { inner, log: Arc::new(Log { events_max, kept: Mutex::default() }) }
    }

    /// The events so far, in order.
    pub fn events(&self) -> Vec<TraceEvent> {
        self.log.hold().events.clone()
    }

    /// How many events were not recorded, as the record was full.
    pub fn missed(&self) -> u64 {
        self.log.hold().missed
    }

    /// Forgets all events so far.
    pub fn clear(&self) {
        *self.log.hold() = Kept::default();
    }
}

#[deny(clippy::missing_trait_methods)]
impl Driver for Trace {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        self.log.add(Operation::Open, 0, 0);
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(Traced { inner, log: Arc::clone(&self.log) }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.log.add(Operation::Delete, 0, 0);
        self.inner.delete(path)
    }

    fn deletion(&self, path: &Path) -> Result<Option<Deletion>> {
        let log = Arc::clone(&self.log);
        let traced = |inner: Deletion| {
            Deletion::new(move || {
                log.add(Operation::Delete, 0, 0);
                inner.run()
            })
        };
        Ok(self.inner.deletion(path)?.map(traced))
    }
}

/// One open file whose calls are recorded.
struct Traced {
    inner: Arc<dyn Storage>,
    log: Arc<Log>,
}

#[deny(clippy::missing_trait_methods)]
impl Storage for Traced {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        self.log.add(Operation::Read, offset, file_len(target.len()));
        self.inner.read_at(offset, target)
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.log.add(Operation::Write, offset, file_len(source.len()));
        self.inner.write_at(offset, source)
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.log.add_list(Operation::ReadList, Operation::ReadPiece, pieces);
        self.inner.read_list(pieces)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        self.log.add_list(Operation::WriteList, Operation::WritePiece, pieces);
        self.inner.write_list(pieces)
    }

    fn size(&self) -> Result<u64> {
        self.log.add(Operation::Size, 0, 0);
        self.inner.size()
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.log.add(Operation::SetSize, 0, bytes);
        self.inner.set_size(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.log.add(Operation::Preallocate, 0, bytes);
        self.inner.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.log.add(Operation::Sync, 0, 0);
        self.inner.sync()
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        let Some(guard) = self.inner.try_lock(lock)? else {
            return Ok(None);
        };
        self.log.add(Operation::Lock, lock.offset, lock.len);
        let log = Arc::clone(&self.log);
        Ok(Some(LockGuard::new(move || {
            log.add(Operation::Unlock, lock.offset, lock.len);
            guard.release()
        })))
    }

    fn close(&self) -> Result<()> {
        self.log.add(Operation::Close, 0, 0);
        self.inner.close()
    }
}

/// The record that a trace and its open files share.
struct Log {
    events_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    events: Vec<TraceEvent>,
    missed: u64,
}

impl Log {
    fn hold(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, operation: Operation, offset: u64, len: u64) {
        self.extend([TraceEvent { operation, offset, len }]);
    }

    /// Adds a list under one lock, so that its pieces stay together.
    fn add_list(&self, call: Operation, piece: Operation, pieces: &[(u64, impl AsRef<[u8]>)]) {
        let offset = pieces.first().map_or(0, |(offset, _)| *offset);
        let whole = TraceEvent { operation: call, offset, len: total_len(pieces) };
        let pieces = pieces.iter().map(|(offset, bytes)| TraceEvent {
            operation: piece,
            offset: *offset,
            len: file_len(bytes.as_ref().len()),
        });
        self.extend(std::iter::once(whole).chain(pieces));
    }

    fn extend(&self, events: impl IntoIterator<Item = TraceEvent>) {
        let mut kept = self.hold();
        for event in events {
            match kept.events.len() < self.events_max {
                true => kept.events.push(event),
                false => kept.missed += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;

    const CREATE: OpenMode = OpenMode { read: true, write: true, create: true, exclusive: false };

    fn traced(events_max: usize) -> (Trace, Arc<dyn Storage>) {
        let trace = Trace::new(Arc::new(Memory::new()), events_max);
        let file = trace.open(Path::new("a"), CREATE).unwrap();
        trace.clear();
        (trace, file)
    }

    fn event(operation: Operation, offset: u64, len: u64) -> TraceEvent {
        TraceEvent { operation, offset, len }
    }

    #[test]
    fn list_is_one_call_with_its_pieces() {
        let (trace, file) = traced(10);
        file.write_list(&[(4, b"ab"), (9, b"c")]).unwrap();
        file.read_list(&mut [(9, &mut [0])]).unwrap();
        let events = trace.events();
        assert_eq!(
            events,
            [
                event(Operation::WriteList, 4, 3),
                event(Operation::WritePiece, 4, 2),
                event(Operation::WritePiece, 9, 1),
                event(Operation::ReadList, 9, 1),
                event(Operation::ReadPiece, 9, 1),
            ]
        );
        assert_eq!(events.iter().filter(|event| event.operation.is_call()).count(), 2);
        assert!(events[..3].iter().all(|event| event.operation.writes()));
        assert!(events[3..].iter().all(|event| event.operation.reads()));
    }

    #[test]
    fn lock_is_recorded_while_it_is_held() {
        let (trace, file) = traced(10);
        let lock = LockRange { offset: 3, len: 4, exclusive: true };
        let guard = file.try_lock(lock).unwrap();
        assert!(file.try_lock(lock).unwrap().is_none(), "not obtained, so not recorded");
        file.write_at(3, b"x").unwrap();
        drop(guard);
        assert_eq!(
            trace.events(),
            [
                event(Operation::Lock, 3, 4),
                event(Operation::Write, 3, 1),
                event(Operation::Unlock, 3, 4),
            ]
        );
    }

    #[test]
    fn full_record_keeps_the_beginning_and_counts_the_rest() {
        let (trace, file) = traced(2);
        file.size().unwrap();
        file.write_list(&[(0, b"a"), (2, b"b")]).unwrap();
        assert_eq!(
            trace.events(),
            [event(Operation::Size, 0, 0), event(Operation::WriteList, 0, 2)]
        );
        assert_eq!(trace.missed(), 2);
        trace.clear();
        assert_eq!((trace.events().len(), trace.missed()), (0, 0));
    }

    #[test]
    fn failed_call_is_recorded() {
        let trace = Trace::new(Arc::new(Memory::new()), 10);
        assert!(trace.delete(Path::new("missing")).is_err());
        assert_eq!(trace.events(), [event(Operation::Delete, 0, 0)]);
    }
}
