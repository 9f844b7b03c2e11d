//! The range locks of one process.
//!
//! A plain table of held ranges. The memory driver uses it alone ([`try_lock`]); the POSIX driver
//! uses it on top of the kernel's locks, which do not distinguish two threads with the same open
//! file.
//!
//! Two guards conflict when their ranges overlap and one of them is exclusive, also where the same
//! thread or the same open holds both.
//!
//! Cost: a search through all held ranges for each lock. There are about as many as there are
//! threads, so a list is the fastest container.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{LockGuard, LockRange, check_run};
use crate::error::{Error, ErrorClass, Result};

/// The ranges that are locked at present.
#[derive(Default)]
pub(super) struct LockTable {
    held: Vec<Held>,
    tickets: u64,
}

/// Names one held range, for its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

struct Held {
    ticket: Ticket,
    lock: LockRange,
}

impl LockTable {
    /// Whether somebody holds a range that `lock` must not share.
    pub(super) fn conflicts(&self, lock: LockRange) -> bool {
        self.held.iter().any(|held| {
            let exclusive = held.lock.exclusive || lock.exclusive;
            exclusive && overlap(&bytes_of(held.lock), &bytes_of(lock)).is_some()
        })
    }

    /// Adds a range that does not conflict.
    pub(super) fn add(&mut self, lock: LockRange) -> Ticket {
        assert!(!self.conflicts(lock), "a lock is granted only where nobody is in its way");
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.held.push(Held { ticket, lock });
        ticket
    }

    /// Removes a range. Returns those of its bytes that nobody holds any more: shared ranges
    /// overlap, and the others' parts have to stay locked.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Vec<Range<u64>> {
        let Some(index) = self.held.iter().position(|held| held.ticket == ticket) else {
            return Vec::new();
        };
        let released = bytes_of(self.held.swap_remove(index).lock);
        self.held.iter().fold(vec![released], |free, held| {
            free.into_iter().flat_map(|part| without(part, &bytes_of(held.lock))).collect()
        })
    }
}

/// Refuses a range that cannot be locked, on any driver.
pub(super) fn check(lock: LockRange) -> Result<()> {
    if lock.len == 0 {
        let error = Error::new(ErrorClass::Arg, "lock: a range of no bytes cannot be locked");
        return Err(error.at_offset(lock.offset));
    }
    check_run("lock", lock.offset, lock.len)
}

/// The table for this thread alone. A panic elsewhere leaves no half-made change in it.
fn hold(table: &Mutex<LockTable>) -> MutexGuard<'_, LockTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a range against all others that use the same table.
pub(super) fn try_lock(
    table: &Arc<Mutex<LockTable>>,
    lock: LockRange,
) -> Result<Option<LockGuard>> {
    check(lock)?;
    let mut locked = hold(table);
    if locked.conflicts(lock) {
        return Ok(None);
    }
    let ticket = locked.add(lock);
    let table = Arc::clone(table);
    Ok(Some(LockGuard::new(move || {
        hold(&table).remove(ticket);
        Ok(())
    })))
}

/// The locked bytes. [`check`] has seen every range before it comes here, so nothing saturates.
fn bytes_of(lock: LockRange) -> Range<u64> {
    lock.offset..lock.offset.saturating_add(lock.len)
}

fn overlap(first: &Range<u64>, second: &Range<u64>) -> Option<Range<u64>> {
    let common = first.start.max(second.start)..first.end.min(second.end);
    (!common.is_empty()).then_some(common)
}

/// What is left of `part` when `taken` is cut out of it.
fn without(part: Range<u64>, taken: &Range<u64>) -> Vec<Range<u64>> {
    match overlap(&part, taken) {
        None => vec![part],
        Some(common) => [part.start..common.start, common.end..part.end]
            .into_iter()
            .filter(|rest| !rest.is_empty())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, len: u64, exclusive: bool) -> LockRange {
        LockRange { offset, len, exclusive }
    }

    #[test]
    fn only_overlap_with_an_exclusive_range_conflicts() {
        let mut table = LockTable::default();
        table.add(range(10, 10, true));
        table.add(range(30, 10, false));
        for (lock, conflicts) in [
            (range(0, 10, true), false),
            (range(0, 11, false), true),
            (range(19, 1, false), true),
            (range(20, 10, true), false),
            (range(35, 1, false), false),
            (range(35, 1, true), true),
            (range(0, 1 << 40, false), true),
        ] {
            assert_eq!(table.conflicts(lock), conflicts, "{lock:?}");
        }
    }

    #[test]
    fn release_frees_only_what_nobody_else_shares() {
        let mut table = LockTable::default();
        let wide = table.add(range(0, 100, false));
        let left = table.add(range(10, 10, false));
        let right = table.add(range(90, 20, false));
        assert_eq!(table.remove(wide), [0..10, 20..90]);
        assert_eq!(table.remove(right), vec![90..110]);
        assert_eq!(table.remove(left), vec![10..20]);
        assert_eq!(table.remove(left), [], "a ticket counts once");
        assert!(!table.conflicts(range(0, 200, true)));
    }

    #[test]
    fn guard_unlocks_when_dropped() {
        let table = Arc::default();
        let guard = try_lock(&table, range(0, 8, true)).unwrap();
        assert!(guard.is_some());
        assert!(try_lock(&table, range(7, 1, false)).unwrap().is_none());
        drop(guard);
        assert!(try_lock(&table, range(7, 1, false)).unwrap().is_some());
    }

    #[test]
    fn empty_and_endless_ranges_are_refused() {
        assert_eq!(check(range(5, 0, true)).unwrap_err().class(), ErrorClass::Arg);
        assert_eq!(check(range(5, u64::MAX, true)).unwrap_err().class(), ErrorClass::Type);
    }
}
