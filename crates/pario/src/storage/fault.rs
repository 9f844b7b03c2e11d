//! A driver that fails when a test wants it to.
//!
//! A test runs a program once for each of its storage calls and lets that one fail: call 1,
//! call 2, and so on, until a run sees no failure ([`Fault::failures`]). So every place where a
//! device can fail is visited, without a list of such places.
//!
//! What counts as a call: each call of [`Driver`] and [`Storage`] that can fail, which is all but
//! `capabilities`, and the end of a lock, in the order in which they begin. A list counts once,
//! however many pieces it has; to fail inside of it, let bytes move first
//! ([`FaultPlan::moved_bytes`]).
//!
//! Short transfers and interruptions are not simulated here: by the contract of [`Storage`] they
//! end inside a driver, and are never seen above it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::sticky::StickySync;
use super::{Call, Driver, Layer, Operation, Proceed, Wrapper};
use crate::error::{Error, Result};

/// Which call fails, and how.
///
/// ```
/// use pario::storage::{FaultPlan, Operation};
///
/// const EIO: i32 = 5;
/// let third_call = FaultPlan::fail_call(3, EIO);
/// let every_sync = FaultPlan {
///     counts: |operation| operation == Operation::Sync,
///     persistent: true,
///     ..FaultPlan::fail_call(1, EIO)
/// };
/// # let _ = (third_call, every_sync);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FaultPlan {
    /// The number of the call that fails, from one; with zero none fails.
    pub call: u64,
    /// The reason, as a number of the operating system. Neither `EINTR` nor `EAGAIN` make sense:
    /// drivers do not let them out.
    pub errno: i32,
    /// All later calls fail as well, as on a broken device; otherwise only this one.
    pub persistent: bool,
    /// How many bytes a failing read or write moves first. It always leaves the last byte undone,
    /// as a call that has moved everything has not failed.
    pub moved_bytes: u64,
    /// Which calls are counted; the others never fail.
    pub counts: fn(Operation) -> bool,
}

impl FaultPlan {
    /// No call fails; all are counted.
    pub fn none() -> FaultPlan {
        FaultPlan::fail_call(0, 0)
    }

    /// The call of this number, from one, fails once, before it moves anything.
    pub fn fail_call(call: u64, errno: i32) -> FaultPlan {
        FaultPlan { call, errno, persistent: false, moved_bytes: 0, counts: |_| true }
    }
}

/// Wraps a driver and fails calls by plan; clones share the plan and the count.
///
/// ```
/// use pario::{ErrorClass, storage::{Driver, Fault, FaultPlan, Memory, OpenMode}};
/// use std::{path::Path, sync::Arc};
///
/// const ENOSPC: i32 = 28;
/// let fault = Fault::new(Arc::new(Memory::new()), FaultPlan::fail_call(2, ENOSPC));
/// let mode = OpenMode { write: true, create: true, ..OpenMode::default() };
/// let file = fault.open(Path::new("a"), mode)?;
/// assert_eq!(file.write_at(0, b"abc").unwrap_err().class(), ErrorClass::NoSpace);
/// assert!(file.write_at(0, b"abc").is_ok());
/// assert_eq!((fault.calls(), fault.failures()), (3, 1));
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone)]
pub struct Fault {
    inner: Arc<dyn Driver>,
    countdown: Arc<Countdown>,
}

impl Fault {
    /// Fails calls to `inner` as `plan` says.
    pub fn new(inner: Arc<dyn Driver>, plan: FaultPlan) -> Fault {
        let (calls, failures, repaired) = Default::default();
        Fault { inner, countdown: Arc::new(Countdown { plan, calls, failures, repaired }) }
    }

    /// From now on no call fails and none is counted, also on files that are open; only a sync of a
    /// file whose sync has failed goes on to fail.
    pub fn repair(&self) {
        self.countdown.repaired.store(true, Ordering::SeqCst);
    }

    /// How many calls were counted so far.
    pub fn calls(&self) -> u64 {
        self.countdown.calls.load(Ordering::Relaxed)
    }

    /// How many calls were made to fail so far.
    pub fn failures(&self) -> u64 {
        self.countdown.failures.load(Ordering::Relaxed)
    }
}

impl Wrapper for Fault {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn layer(&self, _path: &Path) -> Arc<dyn Layer> {
        let countdown = Arc::clone(&self.countdown);
        Arc::new(Faulty { countdown, synced: StickySync::default() })
    }
}

/// One open file with planned failures.
struct Faulty {
    countdown: Arc<Countdown>,
    synced: StickySync,
}

impl Layer for Faulty {
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
        let planned = self.countdown.pass(call.operation);
        match (call.operation, planned) {
            // Counted also where an earlier failure answers: it is a call of the program.
            (Operation::Sync, planned) => {
                self.synced.run(|| planned.and_then(|()| proceed(call.len).map(drop))).map(|()| 0)
            }
            (_, Ok(())) => proceed(call.len),
            (operation, Err(error)) if operation.reads() || operation.writes() => {
                let most = self.countdown.plan.moved_bytes.min(call.len.saturating_sub(1));
                let moved = proceed(most)?;
                Err(error.at_offset(offset_after(call, moved)).after_moving(moved))
            }
            // Also a file whose close fails is closed, and a lock whose end fails is gone.
            (Operation::Close, Err(error)) => proceed(call.len).and(Err(error)),
            (Operation::Unlock, Err(error)) => {
                proceed(call.len).and(Err(error.at_offset(call.offset)))
            }
            (Operation::Lock, Err(error)) => Err(error.at_offset(call.offset)),
            (_, Err(error)) => Err(error),
        }
    }
}

/// The offset of the byte at which a read or write stops after `moved` bytes.
fn offset_after(call: &Call<'_>, mut moved: u64) -> u64 {
    for &(offset, len) in call.pieces {
        if moved < len {
            return offset.saturating_add(moved);
        }
        moved -= len;
    }
    call.offset.saturating_add(moved)
}

/// The plan and how far it has come.
struct Countdown {
    plan: FaultPlan,
    calls: AtomicU64,
    failures: AtomicU64,
    repaired: AtomicBool,
}

impl Countdown {
    /// Counts a call; the error if it has to fail.
    fn pass(&self, operation: Operation) -> Result<()> {
        if self.repaired.load(Ordering::SeqCst) || !(self.plan.counts)(operation) {
            return Ok(());
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let later = self.plan.persistent && self.plan.call != 0 && number > self.plan.call;
        if number != self.plan.call && !later {
            return Ok(());
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let text = format!("planned failure of call {number}, {operation:?}");
        Err(Error::from_errno(&text, self.plan.errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;
    use crate::storage::{LockGuard, LockRange, Memory, OpenMode, Storage, file_len};

    const CREATE: OpenMode = OpenMode { read: true, write: true, create: true, exclusive: false };

    fn faulty(plan: FaultPlan) -> (Fault, Memory, Arc<dyn Storage>) {
        let memory = Memory::new();
        let fault = Fault::new(Arc::new(memory.clone()), plan);
        let file = fault.open(Path::new("a"), CREATE).unwrap();
        (fault, memory, file)
    }

    /// Makes every counted call once; returns how many of them failed.
    fn program(driver: &dyn Driver) -> usize {
        let path = Path::new("a");
        let Ok(file) = driver.open(path, CREATE) else { return 1 };
        let lock = LockRange { offset: 0, len: 1, exclusive: true };
        [
            file.write_at(0, b"abcd").is_err(),
            file.write_list(&[(9, b"e")]).is_err(),
            file.read_at(0, &mut [0; 4]).is_err(),
            file.read_list(&mut [(0, &mut [0; 4])]).is_err(),
            file.size().is_err(),
            file.set_size(20).is_err(),
            file.preallocate(30).is_err(),
            file.sync().is_err(),
            file.try_lock(lock).and_then(|guard| guard.map_or(Ok(()), LockGuard::release)).is_err(),
            file.close().is_err(),
            driver.delete(path).is_err(),
        ]
        .into_iter()
        .filter(|&failed| failed)
        .count()
    }

    #[test]
    fn every_call_can_be_made_to_fail_alone() {
        let mut visited = 0;
        loop {
            let plan = FaultPlan::fail_call(visited + 1, libc::EIO);
            let fault = Fault::new(Arc::new(Memory::new()), plan);
            let failed = program(&fault);
            assert_eq!(file_len(failed), fault.failures());
            if failed == 0 {
                break;
            }
            visited += 1;
        }
        assert_eq!(visited, 13);
    }

    #[test]
    fn plan_without_faults_only_counts() {
        let fault = Fault::new(Arc::new(Memory::new()), FaultPlan::none());
        assert_eq!((program(&fault), fault.calls(), fault.failures()), (0, 13, 0));
    }

    #[test]
    fn persistent_fault_goes_on() {
        let plan = FaultPlan { persistent: true, ..FaultPlan::fail_call(4, libc::EIO) };
        let fault = Fault::new(Arc::new(Memory::new()), plan);
        assert_eq!((program(&fault), fault.failures()), (9, 9));
    }

    #[test]
    fn repaired_device_neither_fails_nor_counts() {
        let plan = FaultPlan { persistent: true, ..FaultPlan::fail_call(2, libc::EIO) };
        let (fault, _, file) = faulty(plan);
        assert!(file.write_at(0, b"abc").is_err() && file.size().is_err());
        fault.repair();
        assert!(file.write_at(0, b"abc").is_ok());
        assert_eq!((program(&fault), fault.calls(), fault.failures()), (0, 3, 2));
    }

    #[test]
    fn failed_write_tells_what_moved() {
        let counts: fn(Operation) -> bool = Operation::writes;
        let plan = FaultPlan { counts, moved_bytes: 2, ..FaultPlan::fail_call(1, libc::EDQUOT) };
        let (_, memory, file) = faulty(plan);
        let error = file.write_at(10, b"abc").unwrap_err();
        assert_eq!(error.class(), ErrorClass::Quota);
        assert_eq!((error.moved(), error.offset()), (2, Some(12)));
        assert_eq!(memory.contents("a").unwrap()[10..], *b"ab");
    }

    #[test]
    fn list_fails_in_the_middle_of_a_piece() {
        let plan = FaultPlan { moved_bytes: 5, ..FaultPlan::fail_call(2, libc::ENOSPC) };
        let (_, memory, file) = faulty(plan);
        let error = file.write_list(&[(0, b"abc"), (10, b"def"), (20, b"ghi")]).unwrap_err();
        assert_eq!((error.moved(), error.offset()), (5, Some(12)));
        assert_eq!(memory.contents("a").unwrap(), b"abc\0\0\0\0\0\0\0de");

        let (_, memory, file) = faulty(plan);
        memory.put("a", b"abcdefghij");
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let error = file.read_list(&mut [(0, &mut first), (6, &mut second)]).unwrap_err();
        assert_eq!((error.moved(), error.offset()), (5, Some(7)));
        assert_eq!((first, second), (*b"abcd", *b"g\0\0\0"));
    }

    #[test]
    fn failing_call_never_moves_everything() {
        let plan = FaultPlan { moved_bytes: u64::MAX, ..FaultPlan::fail_call(2, libc::EIO) };
        let (_, memory, file) = faulty(plan);
        assert_eq!(file.write_at(0, b"abc").unwrap_err().moved(), 2);
        assert_eq!(memory.contents("a").unwrap(), b"ab");
        let (_, _, file) = faulty(plan);
        assert_eq!(file.write_list(&[]).unwrap_err().moved(), 0);
    }

    #[test]
    fn failed_sync_is_sticky_for_its_open_only() {
        let (fault, _, file) = faulty(FaultPlan::fail_call(2, libc::EIO));
        for _ in 0..3 {
            assert_eq!(file.sync().unwrap_err().class(), ErrorClass::Io);
        }
        assert!(fault.open(Path::new("a"), CREATE).unwrap().sync().is_ok());
        assert_eq!(fault.failures(), 1);
    }
}
