//! A driver that remembers which calls it saw.
//!
//! Tests ask it what really reached storage: how many calls, in which order, which bytes.
//!
//! Cost: a lock and 24 bytes per event. The number of events is bounded; what comes later is
//! only counted, so that the beginning of a long run, which is what a test describes, stays.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Call, Driver, Layer, Operation, Proceed, Wrapper};
use crate::error::Result;

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

/// The record that a trace and its open files share.
type Log = Record<TraceEvent>;

impl Trace {
    /// Records at most `events_max` events of the calls to `inner`.
    pub fn new(inner: Arc<dyn Driver>, events_max: usize) -> Trace {
        Trace { inner, log: Arc::new(Log::new(events_max)) }
    }

    /// The events so far, in order.
    pub fn events(&self) -> Vec<TraceEvent> {
        self.log.kept().0
    }

    /// How many events were not recorded, as the record was full.
    pub fn missed(&self) -> u64 {
        self.log.hold().1
    }

    /// Forgets all events so far.
    pub fn clear(&self) {
        *self.log.hold() = Default::default();
    }
}

impl Wrapper for Trace {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn layer(&self, _path: &Path) -> Arc<dyn Layer> {
        self.log.clone()
    }
}

impl Layer for Log {
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
        if call.operation != Operation::Lock {
            self.extend(events(call));
            return proceed(call.len);
        }
        let obtained = proceed(call.len)?;
        if obtained > 0 {
            self.extend(events(call));
        }
        Ok(obtained)
    }
}

/// A call and the pieces of its list.
fn events<'a>(call: &'a Call<'_>) -> impl Iterator<Item = TraceEvent> + 'a {
    let event = |operation, offset, len| TraceEvent { operation, offset, len };
    let piece = match call.operation {
        Operation::ReadList => Operation::ReadPiece,
        _ => Operation::WritePiece,
    };
    let pieces = call.pieces.iter().map(move |&(offset, len)| event(piece, offset, len));
    std::iter::once(event(call.operation, call.offset, call.len)).chain(pieces)
}

/// The first events, up to a number, and how many had no room.
#[derive(Debug)]
pub(super) struct Record<E> {
    events_max: usize,
    kept: Mutex<(Vec<E>, u64)>,
}

impl<E: Clone> Record<E> {
    pub(super) fn new(events_max: usize) -> Record<E> {
        Record { events_max, kept: Mutex::new((Vec::new(), 0)) }
    }

    pub(super) fn kept(&self) -> (Vec<E>, u64) {
        self.hold().clone()
    }

    /// Adds events that stay together.
    pub(super) fn extend(&self, events: impl IntoIterator<Item = E>) {
        let mut kept = self.hold();
        for event in events {
            match kept.0.len() < self.events_max {
                true => kept.0.push(event),
                false => kept.1 += 1,
            }
        }
    }

    fn hold(&self) -> MutexGuard<'_, (Vec<E>, u64)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{LockRange, Memory, OpenMode, Storage};

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
