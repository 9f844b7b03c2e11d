//! What calls on a file teach: how measured times compare with predicted ones.
//!
//! After a blocking collective each rank knows how long it was in the exchange and in storage. It
//! announces that with its next collective, and rank 0 announces with it what was learned until
//! then. All ranks learn the same from the same words, at once, whatever order their calls end in:
//! so their plans are equal.
//!
//! Reads and writes are apart, and each [`Kind`] of plan has factors of its own, since the model
//! errs by another factor for each: one for the exchange, one for storage calls, one for their
//! bytes. One measured time cannot tell calls from bytes. If it is much longer than predicted, the
//! part that was predicted to be the longer one gets all that is missing; if it is shorter, no part
//! can take as long as predicted, and all get shorter. A kind that no call has used takes over the
//! factors of the one that calls use, and `doubt` says what bounds there are.
//!
//! A call that takes much longer than predicted may have had bad luck. So that is believed only
//! when it happens twice. None is much faster by luck, but one such call says nothing of other
//! kinds.
//!
//! Only additions, multiplications, divisions and comparisons: all ranks get the same numbers.

use super::doubt::{Chance, Doubt, Observed};
use super::{Cause, Correction, Cost, Factors, Kind, Lesson, Part};
use crate::datatype::wire::{Reader, Writer};
use crate::direction::Direction;
use crate::error::{Error, ErrorClass, Result};
use crate::number::{real, wide};

/// Shorter times say nothing.
const TIME_MIN_US: f64 = 50.0;
/// How far one call moves a factor to what it measured.
const WEIGHT: f64 = 0.5;
/// Noise does not make a call as many times longer or shorter as this.
const SURPRISING: f64 = 2.0;
/// From this factor on, more than noise is wrong with the profile.
const DOUBTFUL: f64 = 1.5;
/// The first call of a kind that makes its plan counts from this factor on: it also pays for memory
/// that is touched for the first time.
const FIRST_TIME: f64 = 8.0;
/// From this factor on, the profile is wrong.
const WRONG: f64 = 4.0;
/// Calls of a kind that say something of others, if the first one was surprising.
const CALLS_THAT_SAY: u32 = 2;
/// Calls before that is said.
const CALLS_MIN: u32 = 3;

/// What was learned from the calls of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Learned {
    read: Known,
    write: Known,
    last: Option<LastCall>,
}

/// What was learned of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Known {
    kinds: [Experience; Kind::ALL.len()],
    calls: u32,
    is_reported: bool,
    /// Time that a way might have saved that no call has used.
    missed_us: f64,
}

/// What was learned of one kind of plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Experience {
    factors: Factors,
    calls: u32,
    /// How many times longer than predicted the last call was, if that is not believed yet: in the
    /// exchange and in storage. Otherwise 0.
    surprises: [f64; 2],
    /// What the last call showed of storage.
    observed: Option<Observed>,
}

/// The last blocking collective.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LastCall {
    direction: Direction,
    kind: Kind,
    ranks_in_storage: u32,
    /// Whether it made its plan.
    is_new: bool,
    /// Predicted without correction: exchange, storage calls, their bytes.
    predicted_us: [f64; 3],
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
    pub(crate) fn correction(&self, direction: Direction) -> Correction {
        let mut correction = Correction::default();
        for (kind, way) in Kind::ALL.into_iter().zip(self.known(direction).kinds) {
            *correction.of_mut(kind) = way.factors;
        }
        correction
    }

    /// What is not known of ways that no call has used, if the profile is wrong.
    pub(crate) fn doubt(&self, direction: Direction) -> Option<Doubt> {
        let known = self.known(direction);
        let is_wrong = |way: &Experience| {
            let Factors { storage_call, storage_byte, .. } = way.factors;
            let is_off = |factor| !(1.0 / DOUBTFUL..=DOUBTFUL).contains(&factor);
            way.observed.is_some() && (is_off(storage_call) || is_off(storage_byte))
        };
        let is_doubtful = known.calls >= CALLS_THAT_SAY && known.kinds.iter().any(is_wrong);
        is_doubtful.then(|| Doubt {
            untried: known.kinds.map(|way| way.calls == 0),
            observed: known.kinds.map(|way| way.observed),
            missed_us: known.missed_us,
        })
    }

    /// A call is planned: beside a way that no call has used and that might have saved time, or
    /// with it, as a trial.
    pub(crate) fn weigh(&mut self, direction: Direction, chance: Option<Chance>) {
        let missed_us = &mut self.of(direction).missed_us;
        match chance {
            Some(Chance { pays: true, .. }) => *missed_us = 0.0,
            Some(Chance { gain_us, .. }) => *missed_us += gain_us,
            None => {}
        }
    }

    /// A blocking collective has ended on this rank.
    pub(crate) fn remember(
        &mut self,
        direction: Direction,
        predicted: &Cost,
        is_new: bool,
        lesson: Lesson,
    ) {
        let (kind, ranks_in_storage) = (predicted.kind, predicted.ranks_in_storage);
        let calls_us = predicted.storage_us(|cause| !cause.is_of_bytes());
        let bytes_us = predicted.storage_us(Cause::is_of_bytes);
        let predicted_us = [predicted.of(Part::Exchange), calls_us, bytes_us];
        let call = LastCall { direction, kind, ranks_in_storage, is_new, predicted_us, lesson };
        self.last = Some(call);
    }

    /// What this rank measured in its last collective.
    pub(crate) fn lesson(&self) -> Lesson {
        self.last.map_or_else(Lesson::default, |call| call.lesson)
    }

    /// Learns what the ranks have announced: nothing, unless all speak of one call.
    pub(crate) fn learn(&mut self, lessons: &[Lesson]) {
        let Some(call) = self.last.take() else { return };
        if lessons.iter().any(|lesson| lesson.call != call.lesson.call) {
            return;
        }
        let measured_us = measured(&call, lessons);
        let known = self.of(call.direction);
        known.calls = known.calls.saturating_add(1);
        let mut kinds = Kind::ALL.into_iter().zip(&mut known.kinds);
        let Some((_, way)) = kinds.find(|(kind, _)| *kind == call.kind) else { return };
        let before = way.factors;
        way.learn(&call, measured_us);
        let factors = way.factors;
        let is_surprise = factors.storage_byte * SURPRISING < before.storage_byte
            || factors.exchange * SURPRISING < before.exchange;
        if is_surprise && way.calls < CALLS_THAT_SAY {
            return;
        }
        for way in known.kinds.iter_mut().filter(|way| way.calls == 0) {
            way.factors = factors;
        }
    }

    /// What is wrong with the profile for this direction.
    pub(crate) fn wrong(&self, direction: Direction) -> Option<String> {
        let known = self.known(direction);
        let of = |name: &str, factor: f64| {
            let is_wrong = !(1.0 / WRONG..=WRONG).contains(&factor);
            is_wrong.then(|| format!("{name} takes {factor:.2} times as long"))
        };
        let (storage, exchange) =
            (known.usual(Experience::storage_factor), known.usual(|way| way.factors.exchange));
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
    pub(crate) fn report(&mut self, direction: Direction) -> Option<String> {
        let wrong = self.wrong(direction).filter(|_| !self.known(direction).is_reported)?;
        self.of(direction).is_reported = true;
        Some(format!(
            "{wrong}; predictions are corrected, `pario calibrate` measures a new profile"
        ))
    }
}

impl Known {
    /// The factor of the plans that most calls have used.
    fn usual(&self, factor: fn(&Experience) -> f64) -> f64 {
        let used = self.kinds.iter().filter(|one| one.calls > 0);
        used.max_by_key(|one| one.calls).map_or(1.0, factor)
    }
}

impl Experience {
    fn learn(&mut self, call: &LastCall, [exchange_us, storage_us]: [f64; 2]) {
        let is_first = call.is_new && self.calls == 0;
        self.calls = self.calls.saturating_add(1);
        let Factors { exchange, storage_call, storage_byte } = &mut self.factors;
        let [exchange_base, call_base, byte_base] = call.predicted_us;
        let [in_exchange, in_storage] = &mut self.surprises;
        let mut one = [(exchange_base, exchange)];
        fit(&mut one, exchange_us, is_first, in_exchange);
        let mut two = [(call_base, storage_call), (byte_base, storage_byte)];
        fit(&mut two, storage_us, is_first, in_storage);
        if call_base + byte_base > 0.0 && storage_us >= TIME_MIN_US && *in_storage <= 0.0 {
            self.observed =
                Some(Observed { us: storage_us, calls_us: call_base, bytes_us: byte_base });
        }
    }

    /// How many times as long as the profile says storage took in the last call.
    fn storage_factor(&self) -> f64 {
        let Some(Observed { calls_us, bytes_us, .. }) = self.observed else { return 1.0 };
        let Factors { storage_call, storage_byte, .. } = self.factors;
        (storage_call * calls_us + storage_byte * bytes_us) / (calls_us + bytes_us)
    }
}

/// Corrects the factors of the parts of a time, each with what was predicted of it without them.
/// A surprise is kept until the next call.
fn fit(parts: &mut [(f64, &mut f64)], measured_us: f64, is_first: bool, surprise: &mut f64) {
    let corrected_us: f64 = parts.iter().map(|(base_us, factor)| base_us * **factor).sum();
    let ratio = measured_us.max(TIME_MIN_US) / corrected_us.max(TIME_MIN_US);
    let before = std::mem::take(surprise);
    if corrected_us <= 0.0 || is_first && (1.0..FIRST_TIME).contains(&ratio) {
        return;
    }
    let (is_slow, is_fast) = (ratio > SURPRISING, ratio < 1.0 / SURPRISING);
    if is_slow && before <= 0.0 {
        *surprise = ratio;
        return;
    }
    let all = |parts: &mut [(f64, &mut f64)], ratio: f64| {
        parts.iter_mut().for_each(|(_, factor)| **factor *= ratio);
    };
    if is_fast {
        all(parts, ratio);
    } else if !is_slow {
        all(parts, 1.0 + (ratio - 1.0) * WEIGHT);
    } else {
        let of = |(base_us, factor): &(f64, &mut f64)| base_us * **factor;
        let longest = parts.iter_mut().max_by(|one, other| of(one).total_cmp(&of(other)));
        if let Some((base_us, factor)) = longest {
            **factor += corrected_us * (ratio.min(before) - 1.0) / *base_us;
        }
    }
}

/// Microseconds in the exchange and in storage of a call, from those of all ranks: their means.
/// Where some ranks serve windows, the others wait for them. That is not exchange: the slowest
/// aggregator has the time of storage. Ranks that serve shared windows in turn wait for cores and
/// for each other as well, and nobody can tell for what: both parts take their share of the time.
fn measured(call: &LastCall, lessons: &[Lesson]) -> [f64; 2] {
    let count = real(wide(lessons.len().max(1)));
    let mean_us = |time: fn(&Lesson) -> u64| {
        lessons.iter().map(|lesson| real(time(lesson))).sum::<f64>() / count / 1e3
    };
    let (exchange_us, storage_us) =
        (mean_us(|lesson| lesson.exchange_ns), mean_us(|lesson| lesson.storage_ns));
    let [exchange_base, call_base, byte_base] = call.predicted_us;
    match call.kind {
        Kind::Shared if count > f64::from(call.ranks_in_storage) => {
            let predicted_us = exchange_base + call_base + byte_base;
            let factor = (exchange_us + storage_us) / predicted_us.max(1.0);
            [exchange_base * factor, (call_base + byte_base) * factor]
        }
        Kind::Independent | Kind::Sieve | Kind::Shared => [exchange_us, storage_us],
        Kind::Messages | Kind::Phases | Kind::SomePhases => {
            let slowest_ns = lessons.iter().map(|lesson| lesson.storage_ns).max().unwrap_or(0);
            let slowest_us = real(slowest_ns) / 1e3;
            [(exchange_us + storage_us - slowest_us).max(0.0), slowest_us]
        }
    }
}

/// How rank 0 announces what was learned.
impl Learned {
    pub(crate) fn write(&self, writer: &mut Writer) {
        // Most files have learned nothing yet.
        for known in [&self.read, &self.write] {
            let is_something = *known != Known::default();
            writer.unsigned(u64::from(is_something));
            if is_something {
                known.write(writer);
            }
        }
        writer.unsigned(u64::from(self.last.is_some()));
        if let Some(call) = &self.last {
            call.write(writer);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Learned> {
        let mut of_direction = || match reader.unsigned()? {
            0 => Ok(Known::default()),
            _ => Known::read(reader),
        };
        let (read, write) = (of_direction()?, of_direction()?);
        let last = match reader.unsigned()? {
            0 => None,
            _ => Some(LastCall::read(reader)?),
        };
        Ok(Learned { read, write, last })
    }
}

impl Known {
    fn write(&self, writer: &mut Writer) {
        writer.unsigned(u64::from(self.calls));
        writer.unsigned(u64::from(self.is_reported));
        writer.unsigned(self.missed_us.to_bits());
        for Experience { factors, calls, surprises, observed } in &self.kinds {
            let Factors { exchange, storage_call, storage_byte } = *factors;
            let Observed { us, calls_us, bytes_us } = observed.unwrap_or_default();
            writer.unsigned(u64::from(*calls));
            writer.unsigned(u64::from(observed.is_some()));
            let [one, two] = *surprises;
            for number in [exchange, storage_call, storage_byte, one, two, us, calls_us, bytes_us] {
                writer.unsigned(number.to_bits());
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Known> {
        let calls = count(reader)?;
        let is_reported = reader.unsigned()? != 0;
        let missed_us = time(reader)?;
        let mut kinds = [Experience::default(); Kind::ALL.len()];
        for way in &mut kinds {
            way.calls = count(reader)?;
            let is_observed = reader.unsigned()? != 0;
            let (exchange, storage_call) = (factor(reader)?, factor(reader)?);
            way.factors = Factors { exchange, storage_call, storage_byte: factor(reader)? };
            way.surprises = [time(reader)?, time(reader)?];
            let (us, calls_us) = (time(reader)?, time(reader)?);
            let observed = Observed { us, calls_us, bytes_us: time(reader)? };
            way.observed = is_observed.then_some(observed);
        }
        Ok(Known { kinds, calls, is_reported, missed_us })
    }
}

impl LastCall {
    fn write(&self, writer: &mut Writer) {
        let LastCall { direction, kind, ranks_in_storage, is_new, predicted_us, lesson } = self;
        writer.unsigned(u64::from(*direction == Direction::Write));
        writer.unsigned(wide(Kind::ALL.iter().take_while(|one| *one != kind).count()));
        writer.unsigned(u64::from(*ranks_in_storage));
        writer.unsigned(u64::from(*is_new));
        predicted_us.iter().for_each(|us| writer.unsigned(us.to_bits()));
        lesson.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<LastCall> {
        let direction = match reader.unsigned()? {
            0 => Direction::Read,
            _ => Direction::Write,
        };
        let kind = usize::try_from(reader.unsigned()?).ok().and_then(|kind| Kind::ALL.get(kind));
        let kind = *kind.ok_or_else(malformed)?;
        let (ranks_in_storage, is_new) = (count(reader)?, reader.unsigned()? != 0);
        let predicted_us = [time(reader)?, time(reader)?, time(reader)?];
        let lesson = Lesson::read(reader)?;
        Ok(LastCall { direction, kind, ranks_in_storage, is_new, predicted_us, lesson })
    }
}

fn malformed() -> Error {
    Error::new(ErrorClass::Intern, "rank 0 sent what it cannot have learned")
}

fn count(reader: &mut Reader<'_>) -> Result<u32> {
    u32::try_from(reader.unsigned()?).map_err(|_| malformed())
}

fn time(reader: &mut Reader<'_>) -> Result<f64> {
    let time = f64::from_bits(reader.unsigned()?);
    if time >= 0.0 && time.is_finite() { Ok(time) } else { Err(malformed()) }
}

fn factor(reader: &mut Reader<'_>) -> Result<f64> {
    time(reader).and_then(|factor| if factor > 0.0 { Ok(factor) } else { Err(malformed()) })
}

#[cfg(test)]
impl Learned {
    /// Writes that are as wrong as this, whatever serves them.
    pub(crate) fn of_writes(factors: Factors) -> Learned {
        let mut learned = Learned::default();
        learned.write.kinds.iter_mut().for_each(|one| one.factors = factors);
        learned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Term;

    fn cost(kind: Kind, exchange: f64, calls: f64, bytes: f64) -> Cost {
        let term = |cause, us| Term { cause, us };
        let storage =
            [term(Cause::StorageCalls, calls), term(Cause::StorageBytes, bytes)].into_iter();
        let terms = [term(Cause::Messages, exchange)].into_iter().chain(storage).collect();
        Cost { kind, ranks_in_storage: 2, terms }
    }

    /// With 2 ranks in storage at a time.
    fn predicted(kind: Kind, exchange_us: f64, storage_us: f64) -> LastCall {
        LastCall {
            direction: Direction::Write,
            kind,
            ranks_in_storage: 2,
            is_new: false,
            predicted_us: [exchange_us, 0.0, storage_us],
            lesson: Lesson::default(),
        }
    }

    fn lesson(call: u64, exchange_us: u64, storage_us: u64) -> Lesson {
        Lesson { call, exchange_ns: exchange_us * 1000, storage_ns: storage_us * 1000 }
    }

    /// All ranks learn the same from a call that took such times on each of them.
    fn call(learned: &mut Learned, cost: &Cost, is_new: bool, times: &[(u64, u64)]) {
        let lessons: Vec<Lesson> =
            times.iter().map(|&(exchange, storage)| lesson(7, exchange, storage)).collect();
        learned.remember(Direction::Write, cost, is_new, lessons[0]);
        let mut writer = Writer::default();
        learned.write(&mut writer);
        let mut other = Learned::read(&mut Reader::new(&writer.bytes)).unwrap();
        assert_eq!(*learned, other);
        learned.learn(&lessons);
        other.learn(&lessons);
        assert_eq!(*learned, other);
    }

    fn factors(learned: &Learned, kind: Kind) -> Factors {
        learned.correction(Direction::Write).of(kind)
    }

    #[test]
    fn corrections_follow_the_mean_of_all_ranks() {
        let mut learned = Learned::default();
        let cost = cost(Kind::Shared, 1000.0, 0.0, 1000.0);
        for _ in 0..8 {
            call(&mut learned, &cost, false, &[(1000, 5000), (1000, 15000)]);
        }
        let shared = factors(&learned, Kind::Shared);
        let Factors { exchange, storage_byte, .. } = shared;
        assert!((exchange - 1.0).abs() < 1e-9 && (storage_byte - 10.0).abs() < 0.1, "{shared:?}");
        // Other kinds of plans have not been tried.
        assert_eq!(factors(&learned, Kind::Messages), shared);
        assert_eq!(learned.correction(Direction::Read), Correction::default());
        let report = learned.report(Direction::Write).unwrap();
        assert!(report.contains("storage takes 10.0"), "{report}");
        assert!(!report.contains("exchange") && learned.report(Direction::Write).is_none());
    }

    /// Others wait while the slowest aggregator is in storage.
    #[test]
    fn waiting_for_an_aggregator_is_not_exchange() {
        let lessons = [lesson(1, 9000, 1000), lesson(1, 2000, 8000)];
        let of = |kind| measured(&predicted(kind, 1000.0, 1000.0), &lessons);
        assert_eq!(of(Kind::Messages), [2000.0, 8000.0]);
        assert_eq!(of(Kind::Shared), [5500.0, 4500.0]);
        assert_eq!(of(Kind::Independent), [5500.0, 4500.0]);
    }

    /// 8 ranks on 2 cores serve windows in turn: each is in storage for a short time only, and
    /// storage is not faster than predicted.
    #[test]
    fn oversubscribed_ranks_do_not_make_storage_faster() {
        let lessons = [lesson(1, 9000, 1000); 8];
        let call = predicted(Kind::Shared, 2000.0, 3000.0);
        assert_eq!(measured(&call, &lessons), [4000.0, 6000.0]);
    }

    #[test]
    fn nothing_is_learned_from_different_calls_and_short_times() {
        let mut learned = Learned::default();
        let long = cost(Kind::Shared, 1000.0, 0.0, 1000.0);
        learned.remember(Direction::Write, &long, false, lesson(3, 99, 99));
        learned.learn(&[lesson(3, 99, 99), lesson(2, 99, 99)]);
        let short = cost(Kind::Shared, 10.0, 0.0, 10.0);
        call(&mut learned, &short, false, &[(40, 40)]);
        learned.learn(&[lesson(4, 9000, 9000)]);
        assert_eq!(learned.correction(Direction::Write), Correction::default());
        assert!(learned.report(Direction::Write).is_none());
    }

    /// A thousand times is a thousand times, and it is that of the part which takes the time.
    #[test]
    fn calls_and_bytes_are_told_apart_without_a_limit() {
        let list = cost(Kind::Independent, 0.0, 1000.0, 10.0);
        let window = cost(Kind::Messages, 0.0, 10.0, 1000.0);
        let learned = |cost: &Cost, us: u64| {
            let mut learned = Learned::default();
            for _ in 0..2 {
                call(&mut learned, cost, false, &[(0, us)]);
            }
            factors(&learned, cost.kind)
        };
        let slow_calls = learned(&list, 1_000_010);
        assert!((slow_calls.storage_call - 1000.0).abs() < 1.0, "{slow_calls:?}");
        assert_eq!(slow_calls.storage_byte, 1.0);
        let slow_bytes = learned(&window, 1_000_010);
        assert!((slow_bytes.storage_byte - 1000.0).abs() < 1.0, "{slow_bytes:?}");
        assert_eq!(slow_bytes.storage_call, 1.0);
        let fast = learned(&cost(Kind::Messages, 0.0, 1e6, 60.0), 1060);
        assert!((fast.storage_call - 1e-3).abs() < 1e-4, "{fast:?}");
    }

    /// One call that had bad luck changes nothing; none has so good luck.
    #[test]
    fn much_longer_times_are_believed_the_second_time() {
        let list = cost(Kind::Independent, 0.0, 1000.0, 10.0);
        let mut learned = Learned::default();
        for us in [1010, 50_000, 1010, 50_000, 1010] {
            call(&mut learned, &list, false, &[(0, us)]);
            assert_eq!(factors(&learned, Kind::Independent), Factors::default());
        }
        call(&mut learned, &list, false, &[(0, 101)]);
        assert!(factors(&learned, Kind::Independent).storage_call < 0.2);
    }

    /// The first call pays for more than storage, but not a thousand times as much.
    #[test]
    fn the_first_call_counts_if_it_is_far_off() {
        let list = cost(Kind::Independent, 0.0, 1000.0, 10.0);
        let after = |us: u64| {
            let mut learned = Learned::default();
            call(&mut learned, &list, true, &[(0, us)]);
            call(&mut learned, &list, false, &[(0, us)]);
            factors(&learned, Kind::Independent).storage_call
        };
        assert_eq!(after(5000), 1.0);
        assert!(after(500_000) > 400.0);
        assert!(after(100) < 0.2);
    }

    /// Noise of 30 % moves factors by less than what lets a plan be given up.
    #[test]
    fn noise_does_not_move_factors_far() {
        let list = cost(Kind::Independent, 0.0, 10_000.0, 100.0);
        let (mut learned, mut random) = (Learned::default(), 1_u64);
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let us = 10_100 * (700 + (random >> 33) % 601) / 1000;
            call(&mut learned, &list, false, &[(0, us)]);
            let Factors { storage_call, .. } = factors(&learned, Kind::Independent);
            assert!((0.7..1.3).contains(&storage_call), "{storage_call}");
            assert!(learned.doubt(Direction::Write).is_none());
        }
    }

    /// Calls that are up to 30 % faster or slower by luck, each planned anew.
    #[test]
    fn noise_changes_no_choice() {
        use crate::hints::Hints;
        use crate::model::presets::Device;
        use crate::model::profile::Profile;
        use crate::plan::{Conditions, FileFacts, Plan, Planning, Request};
        let of_rank = |rank: u64| {
            let first = rank * 65_536;
            Request::of_pieces(first..first + 3 * 4 * 65_536 + 65_536, 4 * 65_536, 65_536)
        };
        let requests: Vec<Request> = (0..4).map(of_rank).collect();
        for (name, device) in Device::PRESETS {
            let profile = Profile::default().with_device(name, device).into();
            let file = FileFacts { profile, ..FileFacts::of_threads(4) };
            let (mut learned, mut random, mut first) = (Learned::default(), 1_u64, None);
            for number in 0..2000 {
                let (correction, doubt) =
                    (learned.correction(Direction::Write), learned.doubt(Direction::Write));
                let conditions =
                    Conditions { correction, doubt, ..Conditions::collective(Direction::Write) };
                let hints = &Hints::default();
                let plan =
                    Plan::new(&Planning { requests: &requests, conditions, hints, file: &file });
                assert_eq!(*first.get_or_insert(plan.strategy), plan.strategy, "{name} {number}");
                let mut nanoseconds = |us: f64| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let noise = f64::from(u32::try_from(700 + (random >> 33) % 601).unwrap());
                    u64::try_from(std::time::Duration::from_secs_f64(us * noise / 1e9).as_nanos())
                        .unwrap()
                };
                let exchange_ns = nanoseconds(plan.base.of(Part::Exchange));
                let storage_ns = nanoseconds(plan.base.of(Part::Storage));
                let lesson = Lesson { call: number + 1, exchange_ns, storage_ns };
                learned.remember(Direction::Write, &plan.base, false, lesson);
                learned.learn(&[lesson; 4]);
            }
        }
    }
}
