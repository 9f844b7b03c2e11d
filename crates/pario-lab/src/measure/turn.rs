//! What one rank measured in one step, and what all of them did together.
//!
//! The time of a step goes from the common start to the last rank that has ended, because on
//! oversubscribed nodes a rank's own time says little. Ranks on other machines have other clocks;
//! then the slowest machine counts.
//!
//! Counts are sums over the ranks. The parts of the time are all those of one rank, the one with
//! the most storage time, because the others mostly wait for it; the output names it.

use std::collections::BTreeMap;
use std::time::Duration;

use pario::CallStatistics;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A time from its begin to its end.
pub(crate) type Span = (Duration, Duration);

/// One rank's part of a measurement, as all ranks learn it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Turn {
    clock: u64,
    /// Of the calls.
    calls: Span,
    /// Of the whole step, from open to close, if it has a file of its own.
    step: Option<Span>,
    /// The time in storage calls.
    storage: Duration,
    /// The times of [`CallStatistics::TIMES`].
    times: [Duration; TIMES],
    phases: Vec<Duration>,
    rounds: u64,
    counts: [u64; COUNTS],
}

/// What one step of all ranks took. Every byte of it was right.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Of the calls.
    pub(crate) seconds: f64,
    /// From open to close, if the step has a file of its own.
    pub(crate) step_seconds: Option<f64>,
    /// Counts are sums over the ranks; times and rounds are those of one rank.
    pub(crate) statistics: CallStatistics,
    /// That rank.
    pub(crate) times_rank: u32,
}

impl Measured {
    /// What comparisons are made with: the whole step where it was measured.
    pub(crate) fn whole_seconds(&self) -> f64 {
        self.step_seconds.unwrap_or(self.seconds)
    }
}

/// The time on a clock that all processes of a machine share.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

const COUNTS: usize = CallStatistics::COUNTS.len();
const TIMES: usize = CallStatistics::TIMES.len();

/// What was done between two looks at the statistics of a file.
pub(crate) fn difference(mut after: CallStatistics, before: &CallStatistics) -> CallStatistics {
    for (sum, earlier) in after.counts_mut().into_iter().zip(before.counts()) {
        *sum -= earlier;
    }
    for (sum, earlier) in after.times_mut().into_iter().zip(before.times()) {
        *sum = sum.saturating_sub(earlier);
    }
    for (sum, earlier) in after.phases.iter_mut().zip(&before.phases) {
        *sum = sum.saturating_sub(*earlier);
    }
    after.rounds -= before.rounds;
    after
}

impl Turn {
    pub(crate) fn new(
        clock: u64,
        calls: Span,
        step: Option<Span>,
        statistics: &CallStatistics,
    ) -> Turn {
        let (counts, times) = (statistics.counts(), statistics.times());
        let (phases, rounds) = (statistics.phases.clone(), statistics.rounds);
        let storage = statistics.storage;
        Turn { clock, calls, step, storage, times, phases, rounds, counts }
    }
}

impl Measured {
    /// All ranks' turns as one; the rest is as one rank's statistics say.
    pub(crate) fn of(turns: &[Turn], mut statistics: CallStatistics) -> Measured {
        for (index, sum) in statistics.counts_mut().into_iter().enumerate() {
            *sum = turns.iter().map(|turn| turn.counts[index]).sum();
        }
        let busiest = (0..).zip(turns).max_by_key(|(_, turn)| turn.storage);
        let mut times_rank = 0;
        if let Some((rank, busiest)) = busiest {
            for (time, own) in statistics.times_mut().into_iter().zip(busiest.times) {
                *time = own;
            }
            (statistics.phases, statistics.rounds) = (busiest.phases.clone(), busiest.rounds);
            times_rank = rank;
        }
        let seconds = span(turns, |turn| turn.calls).as_secs_f64();
        let whole = |turn: &Turn| turn.step.unwrap_or(turn.calls);
        let has_step = turns.iter().any(|turn| turn.step.is_some());
        let step_seconds = has_step.then(|| span(turns, whole).as_secs_f64());
        Measured { seconds, step_seconds, statistics, times_rank }
    }
}

/// From the first begin to the last end, of the ranks of each clock; the longest of these.
fn span(turns: &[Turn], time: impl Fn(&Turn) -> Span) -> Duration {
    let mut spans: BTreeMap<u64, Span> = BTreeMap::new();
    for turn in turns {
        let own = time(turn);
        let (begin, end) = spans.entry(turn.clock).or_insert(own);
        (*begin, *end) = (own.0.min(*begin), own.1.max(*end));
    }
    spans.into_values().map(|(begin, end)| end.saturating_sub(begin)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_goes_from_the_first_to_the_last_on_the_slowest_machine() {
        let turn = |clock, begin, end| {
            let calls = (Duration::from_secs(begin), Duration::from_secs(end));
            let step = (Duration::from_secs(begin - 1), Duration::from_secs(end + 2));
            Turn::new(clock, calls, Some(step), &CallStatistics::default())
        };
        let turns = [turn(1, 10, 14), turn(2, 900, 903), turn(1, 13, 17), turn(2, 905, 906)];
        assert_eq!(span(&turns, |turn| turn.calls), Duration::from_secs(7));
        assert_eq!(span(&turns[1..2], |turn| turn.calls), Duration::from_secs(3));
        let measured = Measured::of(&turns, CallStatistics::default());
        assert_eq!((measured.seconds, measured.step_seconds), (7.0, Some(10.0)));
        assert_eq!(measured.whole_seconds(), 10.0);
    }

    /// No time of a record comes from another rank than the others.
    #[test]
    fn counts_add_up_and_times_are_those_of_the_busiest() {
        let turn = |storage, bytes| {
            let mut statistics = CallStatistics::default();
            statistics.storage = Duration::from_secs(storage);
            statistics.exchange = Duration::from_secs(100 - storage);
            statistics.packing = Duration::from_secs(storage + 20);
            statistics.phases = vec![Duration::from_secs(storage + 10)];
            statistics.rounds = storage;
            (statistics.moved_bytes, statistics.locks) = (bytes, 1);
            Turn::new(0, (Duration::ZERO, Duration::from_secs(1)), None, &statistics)
        };
        let mut first = CallStatistics::default();
        first.phases = vec![Duration::from_secs(77); 2];
        let measured = Measured::of(&[turn(1, 5), turn(3, 7), turn(2, 0)], first);
        let statistics = &measured.statistics;
        assert_eq!((statistics.moved_bytes, statistics.locks), (12, 3));
        assert_eq!(statistics.storage, Duration::from_secs(3));
        assert_eq!(statistics.exchange, Duration::from_secs(97));
        assert_eq!(statistics.packing, Duration::from_secs(23));
        assert_eq!(statistics.phases, [Duration::from_secs(13)]);
        assert_eq!((statistics.rounds, measured.times_rank), (3, 1));
        assert_eq!(measured.step_seconds, None);
    }

    #[test]
    fn a_step_has_what_was_done_since_the_one_before() {
        let statistics = |number: u64| {
            let mut statistics = CallStatistics::default();
            (statistics.rounds, statistics.storage_writes) = (number, 3 * number);
            statistics.planning = Duration::from_secs(2 * number);
            let phases = [number, 5].map(Duration::from_secs);
            statistics.phases = phases[..usize::try_from(number.min(2)).unwrap()].to_vec();
            statistics
        };
        let step = difference(statistics(5), &statistics(1));
        assert_eq!((step.rounds, step.storage_writes), (4, 12));
        assert_eq!(step.planning, Duration::from_secs(8));
        assert_eq!(step.phases, [Duration::from_secs(4), Duration::from_secs(5)]);
    }
}
