//! What calls on a file teach: how measured times compare with predicted ones.
//!
//! After a blocking collective whose plan was kept, or that sent messages between nodes, each rank
//! knows how long it was in the exchange and in storage. It announces that with its next
//! collective. Rank 0 learns from the mean of all ranks, and announces with the call after that
//! what it has learned: all ranks correct their predictions by that, so that their plans are equal
//! whatever order their calls end in. A plan is given up only if another way is then predicted to
//! be clearly faster, and only a few times for each file: a choice that changes with every call
//! helps nobody.
//!
//! The model errs by another factor for each kind of plan (independent, windows in shared memory,
//! messages). A kind that no call has used takes over the factors of the one that calls use.

use crate::direction::Direction;
use crate::number::real;
use crate::plan::{Correction, Cost, Factors, Kind, Lesson, Part};

/// Shorter times say nothing.
const TIME_MIN_US: f64 = 50.0;
/// How far one call moves a correction to what it measured.
const WEIGHT: f64 = 0.5;
/// No correction is beyond this, or below its inverse.
const CORRECTION_MAX: f64 = 100.0;
/// From this correction on, the profile is wrong.
const WRONG: f64 = 4.0;
/// Calls before that is said.
const CALLS_MIN: u32 = 3;
/// How often a file gets another plan for an equal request.
const SWITCHES_MAX: u32 = 4;

/// What was learned from the calls of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learned {
    read: Known,
    write: Known,
    switches: u32,
    last: Option<LastCall>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    correction: Correction,
    calls: u32,
    /// Whether calls have used each kind of plan.
    is_used: [bool; Kind::ALL.len()],
    is_reported: bool,
}

impl Known {
    /// The factor of the plans in use that is farthest from 1.
    fn worst(&self, factor: fn(Factors) -> f64) -> f64 {
        let used = Kind::ALL.into_iter().zip(self.is_used).filter(|(_, is_used)| *is_used);
        let factors = used.map(|(kind, _)| factor(self.correction.of(kind)));
        let far = |one: &f64| one.ln().abs();
        factors.max_by(|one, other| far(one).total_cmp(&far(other))).unwrap_or(1.0)
    }
}

/// The last blocking collective.
#[derive(Clone, Copy, Debug)]
struct LastCall {
    direction: Direction,
    kind: Kind,
    ranks_in_storage: u32,
    /// Predicted without correction.
    exchange_us: f64,
    storage_us: f64,
    lesson: Lesson,
}

impl Learned {
    fn of(&mut self, direction: Direction) -> &mut Known {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }

    fn known(&self, direction: Direction) -> &Known {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// How measured times compare with predicted ones.
    pub(super) fn correction(&self, direction: Direction) -> Correction {
        self.known(direction).correction
    }

    /// A blocking collective has ended on this rank.
    pub(super) fn remember(&mut self, direction: Direction, predicted: &Cost, lesson: Lesson) {
        let (exchange_us, storage_us) = (predicted.of(Part::Exchange), predicted.of(Part::Storage));
        let (kind, ranks_in_storage) = (predicted.kind, predicted.ranks_in_storage);
        let call = LastCall { direction, kind, ranks_in_storage, exchange_us, storage_us, lesson };
        self.last = Some(call);
    }

    /// What this rank announces with its next collective.
    pub(super) fn lesson(&self, direction: Direction) -> Lesson {
        let lesson = self.last.map_or_else(Lesson::default, |call| call.lesson);
        let (correction, may_switch) = (self.correction(direction), self.switches < SWITCHES_MAX);
        Lesson { correction, may_switch, ..lesson }
    }

    /// What the ranks have announced. Rank 0 learns nothing unless all speak of one call; the
    /// others take over what it has learned.
    pub(super) fn learn(&mut self, direction: Direction, lessons: &[Lesson], is_first: bool) {
        if !is_first {
            self.of(direction).correction = lessons[0].correction;
            return;
        }
        let Some(call) = self.last.take() else { return };
        if lessons.iter().any(|lesson| lesson.call != call.lesson.call) {
            return;
        }
        let (exchange_us, storage_us) = measured(&call, lessons);
        let known = self.of(call.direction);
        known.calls = known.calls.saturating_add(1);
        let factors = known.correction.of_mut(call.kind);
        correct(&mut factors.exchange, call.exchange_us, exchange_us);
        correct(&mut factors.storage, call.storage_us, storage_us);
        let factors = *factors;
        for (kind, is_used) in Kind::ALL.into_iter().zip(&mut known.is_used) {
            *is_used |= kind == call.kind;
            if !*is_used {
                *known.correction.of_mut(kind) = factors;
            }
        }
    }

    /// A plan is given up.
    pub(super) fn switch(&mut self) {
        self.switches += 1;
    }

    /// What is wrong with the profile for this direction.
    pub(super) fn wrong(&self, direction: Direction) -> Option<String> {
        let known = self.known(direction);
        let of = |name: &str, factor: f64| {
            let is_wrong = !(1.0 / WRONG..=WRONG).contains(&factor);
            is_wrong.then(|| format!("{name} takes {factor:.2} times as long"))
        };
        let (storage, exchange) = (known.worst(|one| one.storage), known.worst(|one| one.exchange));
        let wrong: Vec<String> =
            [of("storage", storage), of("the exchange", exchange)].into_iter().flatten().collect();
        let name = match direction {
            Direction::Read => "reads",
            Direction::Write => "writes",
        };
        let is_known = known.calls >= CALLS_MIN && !wrong.is_empty();
        is_known.then(|| format!("{name}: {} as the profile says", wrong.join(", ")))
    }

    /// The same for the log, once.
    pub(super) fn report(&mut self, direction: Direction) -> Option<String> {
        let wrong = self.wrong(direction).filter(|_| !self.known(direction).is_reported)?;
        self.of(direction).is_reported = true;
        Some(format!(
            "{wrong}; predictions are corrected, `pario calibrate` measures a new profile"
        ))
    }
}

/// Microseconds in the exchange and in storage of a call, from those of all ranks: their means.
/// Where some ranks serve windows, the others wait for them. That is not exchange: the slowest
/// aggregator has the time of storage. Ranks that serve shared windows in turn wait for cores and
/// for each other as well, and nobody can tell for what: both parts take their share of the time.
fn measured(call: &LastCall, lessons: &[Lesson]) -> (f64, f64) {
    let count = real(crate::number::wide(lessons.len().max(1)));
    let mean_us = |time: fn(&Lesson) -> u64| {
        lessons.iter().map(|lesson| real(time(lesson))).sum::<f64>() / count / 1e3
    };
    let (exchange_us, storage_us) =
        (mean_us(|lesson| lesson.exchange_ns), mean_us(|lesson| lesson.storage_ns));
    match call.kind {
        Kind::Shared if count > f64::from(call.ranks_in_storage) => {
            let predicted_us = call.exchange_us + call.storage_us;
            let factor = (exchange_us + storage_us) / predicted_us.max(1.0);
            (call.exchange_us * factor, call.storage_us * factor)
        }
        Kind::Independent | Kind::Shared => (exchange_us, storage_us),
        Kind::Messages => {
            let slowest_ns = lessons.iter().map(|lesson| lesson.storage_ns).max().unwrap_or(0);
            let slowest_us = real(slowest_ns) / 1e3;
            ((exchange_us + storage_us - slowest_us).max(0.0), slowest_us)
        }
    }
}

fn correct(factor: &mut f64, predicted_us: f64, measured_us: f64) {
    if predicted_us < TIME_MIN_US || measured_us < TIME_MIN_US {
        return;
    }
    let measured = (measured_us / predicted_us).clamp(1.0 / CORRECTION_MAX, CORRECTION_MAX);
    *factor += (measured - *factor) * WEIGHT;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Cause, Term};

    fn cost(exchange: f64, storage: f64) -> Cost {
        let term = |cause, us| Term { cause, us };
        let terms = vec![term(Cause::Messages, exchange), term(Cause::StorageBytes, storage)];
        Cost { kind: Kind::Shared, ranks_in_storage: 2, terms }
    }

    /// With 2 ranks in storage at a time.
    fn predicted(kind: Kind, exchange_us: f64, storage_us: f64) -> LastCall {
        let (direction, lesson) = (Direction::Write, Lesson::default());
        LastCall { direction, kind, ranks_in_storage: 2, exchange_us, storage_us, lesson }
    }

    fn lesson(call: u64, exchange_us: u64, storage_us: u64) -> Lesson {
        let (exchange_ns, storage_ns) = (exchange_us * 1000, storage_us * 1000);
        Lesson { call, exchange_ns, storage_ns, ..Lesson::default() }
    }

    fn call(learned: &mut Learned, number: u64, times: &[(u64, u64)]) {
        let lessons: Vec<Lesson> =
            times.iter().map(|&(exchange, storage)| lesson(number, exchange, storage)).collect();
        learned.remember(Direction::Write, &cost(1000.0, 1000.0), lessons[0]);
        learned.learn(Direction::Write, &lessons, true);
    }

    #[test]
    fn corrections_follow_the_mean_of_all_ranks() {
        let mut learned = Learned::default();
        for number in 1..=8 {
            call(&mut learned, number, &[(1000, 5000), (1000, 15000)]);
        }
        let factors = learned.correction(Direction::Write).of(Kind::Shared);
        let Factors { exchange, storage } = factors;
        assert!((exchange - 1.0).abs() < 1e-9 && (storage - 10.0).abs() < 0.1, "{storage}");
        // Other kinds of plans have not been tried.
        assert_eq!(learned.correction(Direction::Write).of(Kind::Messages), factors);
        assert_eq!(learned.correction(Direction::Read), Correction::default());
        let report = learned.report(Direction::Write).unwrap();
        assert!(report.contains("storage takes 9.9"), "{report}");
        assert!(!report.contains("exchange") && learned.report(Direction::Write).is_none());
    }

    /// Others wait while the slowest aggregator is in storage.
    #[test]
    fn waiting_for_an_aggregator_is_not_exchange() {
        let lessons = [lesson(1, 9000, 1000), lesson(1, 2000, 8000)];
        let of = |kind| measured(&predicted(kind, 1000.0, 1000.0), &lessons);
        assert_eq!(of(Kind::Messages), (2000.0, 8000.0));
        assert_eq!(of(Kind::Shared), (5500.0, 4500.0));
        assert_eq!(of(Kind::Independent), (5500.0, 4500.0));
    }

    /// 8 ranks on 2 cores serve windows in turn: each is in storage for a short time only, and
    /// storage is not faster than predicted.
    #[test]
    fn oversubscribed_ranks_do_not_make_storage_faster() {
        let lessons = [lesson(1, 9000, 1000); 8];
        let call = predicted(Kind::Shared, 2000.0, 3000.0);
        assert_eq!(measured(&call, &lessons), (4000.0, 6000.0));
    }

    #[test]
    fn nothing_is_learned_from_different_calls_and_short_times() {
        let mut learned = Learned::default();
        learned.remember(Direction::Write, &cost(1000.0, 1000.0), lesson(3, 9000, 9000));
        let learn = |learned: &mut Learned, lessons: &[Lesson]| {
            learned.learn(Direction::Write, lessons, true);
        };
        learn(&mut learned, &[lesson(3, 9000, 9000), lesson(2, 9000, 9000)]);
        learned.remember(Direction::Write, &cost(10.0, 10.0), lesson(4, 9000, 9000));
        learn(&mut learned, &[lesson(4, 9000, 9000)]);
        learn(&mut learned, &[lesson(4, 9000, 9000)]);
        assert_eq!(learned.correction(Direction::Write), Correction::default());
        assert!(learned.report(Direction::Write).is_none());
    }
}
