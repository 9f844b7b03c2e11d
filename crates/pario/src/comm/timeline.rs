//! Virtual time: the times of the ranks of a described machine.
//!
//! A [simulation](super::Simulated) on a machine has a [`Timeline`]: the
//! [clock](crate::model::clock) of the machine and the time of each rank. What a rank does is an
//! activity of the clock: a message, a storage access, work of its processor. These two are
//! charged when they are made, and the rank waits for their end ([`catch_up`]) before others see
//! what comes of them. Meanwhile ranks go on that are earlier.
//!
//! Cost for other communicators: [`catch_up`] and [`charge`] ask once whether there is a timeline.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Communicator, pause};
use crate::model::clock::{Access, Clock, CoreWork, Costs, Machine};
use crate::number::index;

/// The times of all ranks of a described machine.
pub(crate) struct Timeline {
    pub(crate) machine: Machine,
    costs: Costs,
    times: Mutex<Times>,
}

/// What passes on a timeline.
pub(super) struct Times {
    clock: Clock,
    ranks: Vec<RankTime>,
}

#[derive(Default)]
struct RankTime {
    at_s: f64,
    /// What was charged to it, and is not done yet.
    due: VecDeque<Due>,
}

/// Something that takes time of a rank.
pub(crate) enum Due {
    /// Work of its processor, in microseconds.
    Work(f64),
    /// Accesses that are on their way at once.
    Accesses(Vec<Access>),
    /// Regions of a list, for servers that know lists.
    List(Vec<Access>),
    /// Caches are written back.
    Flush,
    /// Nothing, until this time.
    Rest(f64),
}

thread_local! {
    /// The simulated rank that this thread lets go on now.
    static CURRENT: RefCell<Option<RankClock>> = const { RefCell::new(None) };
}

impl Timeline {
    pub(super) fn new(machine: Machine, costs: Costs) -> Timeline {
        let ranks = machine.nodes.max(1).saturating_mul(machine.ranks_per_node.max(1));
        let ranks = (0..ranks).map(|_| RankTime::default()).collect();
        Timeline { machine, costs, times: Mutex::new(Times { clock: Clock::new(machine), ranks }) }
    }

    pub(super) fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a rank do something now.
    pub(super) fn run<T>(self: &Arc<Timeline>, rank: u32, action: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(RankClock::new(self.clone(), rank)));
        let result = action();
        CURRENT.set(before);
        result
    }
}

impl Times {
    /// The time of a rank.
    pub(super) fn at_s(&self, rank: u32) -> f64 {
        self.ranks[index(rank)].at_s
    }

    /// A rank does not go on before this time.
    pub(super) fn delay(&mut self, rank: u32, until_s: f64) {
        let at_s = &mut self.ranks[index(rank)].at_s;
        *at_s = at_s.max(until_s);
    }

    /// Whether something that was charged to a rank is not done yet.
    pub(super) fn is_due(&self, rank: u32) -> bool {
        !self.ranks[index(rank)].due.is_empty()
    }

    /// When a message that a rank sends now arrives.
    pub(super) fn message(&mut self, from: u32, to: u32, bytes: u64) -> f64 {
        let at_s = self.at_s(from);
        if from == to { at_s } else { self.clock.message(from, to, bytes, at_s).end_s }
    }

    /// The next thing is done that was charged to a rank.
    pub(super) fn serve(&mut self, rank: u32) {
        let Times { clock, ranks } = self;
        let RankTime { at_s, due } = &mut ranks[index(rank)];
        *at_s = match due.pop_front() {
            Some(Due::Work(us)) => clock.compute(rank, us, *at_s).end_s,
            Some(Due::Accesses(accesses)) => {
                let end_s = |access: Access| clock.access(rank, access, *at_s).end_s;
                accesses.into_iter().map(end_s).fold(*at_s, f64::max)
            }
            Some(Due::List(regions)) => clock.list(rank, &regions, *at_s).end_s,
            Some(Due::Flush) => clock.flush(*at_s).end_s,
            Some(Due::Rest(until_s)) => at_s.max(until_s),
            None => *at_s,
        };
    }
}

/// The virtual time of one rank.
#[derive(Clone)]
pub struct RankClock {
    timeline: Arc<Timeline>,
    rank: u32,
}

impl RankClock {
    pub(super) fn new(timeline: Arc<Timeline>, rank: u32) -> RankClock {
        RankClock { timeline, rank }
    }

    /// The clock of the simulated rank that goes on now in this thread.
    pub(crate) fn current() -> Option<RankClock> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.timeline.machine
    }

    pub(crate) fn now(&self) -> Duration {
        let at_s = self.timeline.times().at_s(self.rank);
        Duration::try_from_secs_f64(at_s).unwrap_or_default()
    }

    fn is_due(&self) -> bool {
        self.timeline.times().is_due(self.rank)
    }

    pub(crate) fn add(&self, due: impl IntoIterator<Item = Due>) {
        self.timeline.times().ranks[index(self.rank)].due.extend(due);
    }

    /// Charges work; work that takes no time is none.
    pub(crate) fn charge(&self, work: CoreWork) {
        let us = self.timeline.costs.us(work);
        self.add((us > 0.0).then_some(Due::Work(us)));
    }
}

/// Charges work to this rank, where time is virtual.
#[doc(hidden)]
pub fn charge(communicator: &dyn Communicator, work: impl FnOnce() -> CoreWork) {
    if let Some(clock) = communicator.clock() {
        clock.charge(work());
    }
}

/// Waits until a virtual time; not at all where time is real.
#[doc(hidden)]
pub async fn rest_until(communicator: &dyn Communicator, time: Duration) {
    if let Some(clock) = communicator.clock() {
        clock.add([Due::Rest(time.as_secs_f64())]);
        catch_up(communicator).await;
    }
}

/// Waits until all is done that was charged to this rank; the virtual time that this took.
#[doc(hidden)]
pub async fn catch_up(communicator: &dyn Communicator) -> Duration {
    match communicator.clock() {
        Some(clock) if clock.is_due() => {
            let began = clock.now();
            pause().await;
            clock.now().saturating_sub(began)
        }
        _ => Duration::ZERO,
    }
}

/// Time of the system, from its first use on.
pub(super) fn system_time() -> Duration {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGIN.elapsed()
}
