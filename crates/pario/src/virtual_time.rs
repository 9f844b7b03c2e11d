//! Real calls on a machine that is described: they take virtual time.
//!
//! A [simulation](crate::Simulated) on a machine has a [`Timeline`]: the
//! [clock](crate::model::clock) of the machine and the time of each rank. A message or a storage
//! access is an activity of the clock; the rank that waits for it goes on when it ends. Plans,
//! rounds, messages and accesses are those of the library itself, and the bytes are really stored.
//!
//! A storage call moves its bytes at once and leaves its accesses on the timeline. The rank
//! goes on when they are done ([`await_storage`]); other ranks may be earlier meanwhile. A list is
//! carried out as the cost model assumes: short calls one after another, long ones some at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::comm::pause;
use crate::model::clock::{Access, Clock, Machine, Storage};
use crate::number::index;
use crate::plan::calls_at_once;
use crate::storage::Timer;

/// The times of all ranks of a described machine.
pub(crate) struct Timeline {
    pub(crate) machine: Machine,
    times: Mutex<Times>,
}

struct Times {
    clock: Clock,
    ranks: Vec<RankTime>,
}

#[derive(Default)]
struct RankTime {
    at_s: f64,
    /// What it has asked storage for, and waits for.
    due: VecDeque<Due>,
}

enum Due {
    /// Accesses that are on their way at once.
    Accesses(Vec<Access>),
    Flush,
}

thread_local! {
    /// The simulated rank that this thread lets go on now.
    static CURRENT: RefCell<Option<(Arc<Timeline>, u32)>> = const { RefCell::new(None) };
}

impl Timeline {
    pub(crate) fn new(machine: Machine) -> Timeline {
        let ranks = machine.nodes.max(1).saturating_mul(machine.ranks_per_node.max(1));
        let ranks = (0..ranks).map(|_| RankTime::default()).collect();
        Timeline { machine, times: Mutex::new(Times { clock: Clock::new(machine), ranks }) }
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of a rank.
    pub(crate) fn at_s(&self, rank: u32) -> f64 {
        self.times().ranks[index(rank)].at_s
    }

    /// A rank does not go on before this time.
    pub(crate) fn delay(&self, rank: u32, until_s: f64) {
        let at_s = &mut self.times().ranks[index(rank)].at_s;
        *at_s = at_s.max(until_s);
    }

    /// Whether a rank waits for storage.
    pub(crate) fn is_due(&self, rank: u32) -> bool {
        !self.times().ranks[index(rank)].due.is_empty()
    }

    /// When a message that a rank sends now arrives.
    pub(crate) fn message(&self, from: u32, to: u32, bytes: u64) -> f64 {
        let mut times = self.times();
        let at_s = times.ranks[index(from)].at_s;
        if from == to { at_s } else { times.clock.message(from, to, bytes, at_s).end_s }
    }

    /// Storage does the next thing that a rank waits for.
    pub(crate) fn serve(&self, rank: u32) {
        let mut times = self.times();
        let Times { clock, ranks } = &mut *times;
        let RankTime { at_s, due } = &mut ranks[index(rank)];
        *at_s = match due.pop_front() {
            Some(Due::Accesses(accesses)) => {
                let end_s = |access: Access| clock.access(rank, access, *at_s).end_s;
                accesses.into_iter().map(end_s).fold(*at_s, f64::max)
            }
            Some(Due::Flush) => clock.flush(*at_s).end_s,
            None => *at_s,
        };
    }

    /// Lets a rank do something now.
    pub(crate) fn run<T>(self: &Arc<Timeline>, rank: u32, action: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some((self.clone(), rank)));
        let result = action();
        CURRENT.set(before);
        result
    }
}

/// The timeline and the rank that goes on now, if it is simulated on a machine.
fn current() -> Option<(Arc<Timeline>, u32)> {
    CURRENT.with_borrow(Clone::clone)
}

/// The virtual time of the rank that goes on now, if it has one.
pub(crate) fn now() -> Option<Duration> {
    let at_s = CURRENT
        .with_borrow(|current| current.as_ref().map(|(timeline, rank)| timeline.at_s(*rank)));
    at_s.map(|at_s| Duration::try_from_secs_f64(at_s).unwrap_or_default())
}

/// Waits until storage is done with what this rank has asked for, in virtual time, and adds that
/// time to a sum. Real storage is done when its calls return.
pub(crate) async fn await_storage(sum: &mut Duration) {
    let is_due = |(timeline, rank): (Arc<Timeline>, u32)| timeline.is_due(rank);
    if current().is_some_and(is_due) {
        let began = Moment::now();
        pause().await;
        *sum += began.elapsed();
    }
}

/// The storage of the machine on which the caller is simulated.
pub(crate) struct VirtualTimer;

impl Timer for VirtualTimer {
    fn now(&self) -> Duration {
        now().unwrap_or_default()
    }

    fn storage(&self) -> Option<Storage> {
        current().map(|(timeline, _)| timeline.machine.storage)
    }

    fn wait(&self, _arrival: Duration, accesses: &[Access]) {
        let Some((timeline, rank)) = current() else { return };
        let at_once = index(calls_at_once(timeline.machine.storage.device.latency_us));
        let due = accesses.chunks(at_once).map(|together| Due::Accesses(together.to_vec()));
        timeline.times().ranks[index(rank)].due.extend(due);
    }

    fn flush(&self, _arrival: Duration) {
        let Some((timeline, rank)) = current() else { return };
        timeline.times().ranks[index(rank)].due.push_back(Due::Flush);
    }
}

/// Where the clock of the system begins.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A point in time: of the rank that is simulated on a machine, or else of the system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment(now().unwrap_or_else(|| BEGIN.elapsed()))
    }

    /// The time since then.
    pub(crate) fn elapsed(self) -> Duration {
        Moment::now().0.saturating_sub(self.0)
    }
}
