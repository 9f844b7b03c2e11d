//! What a call did, and what all calls on a file did together, on one rank and on all.
//!
//! Counts of bytes, messages and storage calls add up over ranks. Times do not: ranks work at the
//! same time, so that the longest counts. A collective call is one call, however many ranks make
//! it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::datatype::wire::{Reader, Writer};
use crate::direction::Direction;
use crate::error::Result;
use crate::hints::Strategy;
use crate::number::wide;
use crate::plan::{Conditions, Correction, Plan, Request};
use crate::request::Kind;

mod figures;
mod json;
mod platform;
mod record;
mod summary;

pub use figures::CallStatistics;
pub use platform::Platform;
pub(crate) use record::{OpenTime, RankRecords, Recorder, accesses_max, calls_max};
pub use summary::Summary;

/// Why a call is served without a plan.
const STRAIGHT: &str = "one run of bytes";

/// What one rank asked for in one call, as the planner saw it. With the hints, the file and the
/// profile of the machine it is all that a plan depends on ([`plan`](crate::plan)).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Asked {
    /// What this rank asked for.
    pub request: Request,
    /// What is the same on all ranks of the call.
    pub conditions: Conditions,
}

impl Asked {
    pub(crate) fn new(request: Request, conditions: Conditions) -> Asked {
        Asked { request, conditions }
    }

    /// Adds another part of the same call.
    fn add(&mut self, part: &Asked) {
        let (one, other) = (&mut self.request, &part.request);
        let pieces = one.pieces() + other.pieces();
        one.start = one.start.min(other.start);
        one.end = one.end.max(other.end);
        one.bytes += other.bytes;
        one.piece_bytes = (one.bytes / pieces.max(1)).max(1);
        one.sorted &= other.sorted;
    }
}

/// Calls of one kind that one strategy served for one reason.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServedCalls {
    /// The call, such as `write_all`.
    pub call: Cow<'static, str>,
    /// The strategy; `Auto` if the call was refused before there was a plan.
    pub strategy: Strategy,
    /// Why this strategy.
    pub reason: Cow<'static, str>,
    /// How many there were.
    pub calls: u64,
    /// Bytes that they asked for.
    pub requested_bytes: u64,
    /// Bytes that really moved.
    pub moved_bytes: u64,
}

/// What was done on a file, over all its reads and writes.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FileStatistics {
    /// The calls by kind, strategy and reason, in the order of their first calls.
    pub served: Vec<ServedCalls>,
    /// Their sums; call, strategy and reason are those of the last one. Rounds are those of
    /// collective calls through windows.
    pub total: CallStatistics,
}

impl CallStatistics {
    /// One run of bytes, moved by one storage call.
    pub(crate) fn straight(kind: Kind, start: u64, len: u64) -> CallStatistics {
        let (writes, reads) = match kind.direction {
            Direction::Write => (1, 0),
            Direction::Read => (0, 1),
        };
        let conditions = match kind.collective {
            true => Conditions::collective(kind.direction),
            false => Conditions::independent(kind.direction),
        };
        let request = Request::of_pieces(start..start + len, len, len.max(1));
        CallStatistics {
            call: kind.name,
            strategy: Strategy::Direct,
            reason: STRAIGHT,
            rounds: 1,
            requested_bytes: len,
            asked: Some(Asked { request, conditions }),
            moved_bytes: len,
            storage_writes: writes,
            storage_written_bytes: len * writes,
            storage_reads: reads,
            storage_read_bytes: len * reads,
            ..CallStatistics::default()
        }
    }

    /// Adds a part of what was asked for; most calls have one.
    pub(crate) fn ask(&mut self, part: &Asked) {
        match &mut self.asked {
            Some(asked) => asked.add(part),
            None => self.asked = Some(*part),
        }
    }

    /// What the plan says of a call of this number of ranks.
    pub(crate) fn describe(&mut self, plan: &Plan, correction: Correction, ranks: u32) {
        self.strategy = plan.strategy;
        self.reason = plan.reason;
        self.windows = plan.steps.windows();
        self.predicted += plan.predicted(correction, self.planned);
        self.rounds += plan.steps.rounds();
        self.aggregators = wide(plan.steps.aggregators(ranks));
    }

    /// Adds to the time in a phase.
    pub(crate) fn add_phase(&mut self, phase: u32, time: Duration) {
        let phase = usize::try_from(phase).unwrap_or(0);
        if self.phases.len() <= phase {
            self.phases.resize(phase + 1, Duration::ZERO);
        }
        self.phases[phase] += time;
    }

    /// Takes back what did not move in a straight call, and adds the time it took.
    pub(crate) fn correct(&mut self, kind: Kind, missing: u64, storage: Duration) {
        let bytes = match kind.direction {
            Direction::Write => &mut self.storage_written_bytes,
            Direction::Read => &mut self.storage_read_bytes,
        };
        *bytes = bytes.saturating_sub(missing);
        self.moved_bytes = self.moved_bytes.saturating_sub(missing);
        self.storage += storage;
    }

    fn add_counts(&mut self, other: &CallStatistics) {
        for (sum, one) in self.counts_mut().into_iter().zip(other.counts()) {
            *sum += one;
        }
        self.aggregators = self.aggregators.max(other.aggregators);
    }

    /// Everything but the strategy and the like, in lines.
    fn figures(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        writeln!(
            formatter,
            "between     {} in {} messages, {} through shared memory",
            Bytes(self.sent_bytes),
            self.messages,
            Bytes(self.shared_bytes)
        )?;
        writeln!(
            formatter,
            "storage     {} reads of {}, {} writes of {}, {} locks",
            self.storage_reads,
            Bytes(self.storage_read_bytes),
            self.storage_writes,
            Bytes(self.storage_written_bytes),
            self.locks
        )?;
        if self.storage_mapped_bytes > 0 {
            let mapped = Bytes(self.storage_mapped_bytes);
            writeln!(
                formatter,
                "mapped      {mapped} of the writes, through a mapping of the file"
            )?;
        }
        writeln!(
            formatter,
            "time        {:.3} ms synchronisation, {:.3} ms planning, {:.3} ms exchange, \
             {:.3} ms storage",
            ms(self.synchronisation),
            ms(self.planning),
            ms(self.exchange),
            ms(self.storage)
        )?;
        if !self.predicted.is_zero() {
            writeln!(formatter, "predicted   {:.3} ms in all", ms(self.predicted))?;
        }
        if self.phases.is_empty() {
            return Ok(());
        }
        let phases: Vec<String> =
            self.phases.iter().map(|&phase| format!("{:.3}", ms(phase))).collect();
        let packing = ms(self.packing);
        writeln!(formatter, "phases      {} ms, packing {packing:.3} ms", phases.join(", "))
    }
}

impl ServedCalls {
    /// Whether all ranks make such a call together.
    fn is_collective(&self) -> bool {
        [Kind::READ_ALL.name, Kind::WRITE_ALL.name].contains(&&*self.call)
    }
}

/// Most often they are the very same text.
fn same_text(one: &str, other: &str) -> bool {
    std::ptr::eq(one, other) || one == other
}

/// Whether these are straight calls of a kind.
fn is_straight(served: &ServedCalls, kind: Kind) -> bool {
    same_text(&served.call, kind.name) && same_text(&served.reason, STRAIGHT)
}

impl FileStatistics {
    pub(crate) fn add(&mut self, call: &CallStatistics) {
        let same = |served: &&mut ServedCalls| {
            served.strategy == call.strategy
                && same_text(&served.call, call.call)
                && same_text(&served.reason, call.reason)
        };
        match self.served.iter_mut().find(same) {
            Some(served) => {
                served.calls += 1;
                served.requested_bytes += call.requested_bytes;
                served.moved_bytes += call.moved_bytes;
            }
            None => self.served.push(ServedCalls {
                call: Cow::Borrowed(call.call),
                strategy: call.strategy,
                reason: Cow::Borrowed(call.reason),
                calls: 1,
                requested_bytes: call.requested_bytes,
                moved_bytes: call.moved_bytes,
            }),
        }
        let total = &mut self.total;
        total.add_counts(call);
        // Where every rank works for itself, there is nothing to go through in rounds.
        total.rounds += if call.aggregators > 0 { call.rounds } else { 0 };
        for (phase, &time) in (0..).zip(&call.phases) {
            total.add_phase(phase, time);
        }
        for (sum, one) in total.times_mut().into_iter().zip(call.times()) {
            *sum += one;
        }
        (total.call, total.strategy) = (call.call, call.strategy);
        (total.reason, total.planned) = (call.reason, call.planned);
        total.windows = call.windows;
    }

    /// Adds [`CallStatistics::straight`], without what is zero in it.
    pub(crate) fn add_straight(&mut self, kind: Kind, len: u64) {
        let straight = |one: &&mut ServedCalls| is_straight(one, kind);
        let Some(served) = self.served.iter_mut().find(straight) else {
            return self.add(&CallStatistics::straight(kind, 0, len));
        };
        served.calls += 1;
        served.requested_bytes += len;
        served.moved_bytes += len;
        let total = &mut self.total;
        let (calls, bytes) = match kind.direction {
            Direction::Write => (&mut total.storage_writes, &mut total.storage_written_bytes),
            Direction::Read => (&mut total.storage_reads, &mut total.storage_read_bytes),
        };
        *calls += 1;
        *bytes += len;
        total.requested_bytes += len;
        total.moved_bytes += len;
        (total.call, total.strategy) = (kind.name, Strategy::Direct);
        (total.reason, total.planned) = (STRAIGHT, false);
        total.windows = "";
    }

    /// As [`CallStatistics::correct`], after the call was added.
    pub(crate) fn correct(&mut self, kind: Kind, missing: u64, storage: Duration) {
        self.total.correct(kind, missing, storage);
        if let Some(served) = self.served.iter_mut().find(|one| is_straight(one, kind)) {
            served.moved_bytes = served.moved_bytes.saturating_sub(missing);
        }
    }

    /// Adds what another rank did.
    pub(crate) fn add_rank(&mut self, mut other: FileStatistics) {
        for served in std::mem::take(&mut other.served) {
            let collective = served.is_collective();
            self.add_served(served, |sum, one| if collective { sum.max(one) } else { sum + one });
        }
        let (total, other) = (&mut self.total, &other.total);
        total.add_counts(other);
        total.rounds = total.rounds.max(other.rounds);
        let times = total.times_mut().into_iter().zip(other.times());
        times.for_each(|(longest, one)| *longest = (*longest).max(one));
        let phases = total.phases.len().max(other.phases.len());
        total.phases.resize(phases, Duration::ZERO);
        for (longest, &one) in total.phases.iter_mut().zip(&other.phases) {
            *longest = (*longest).max(one);
        }
    }

    fn add_served(&mut self, one: ServedCalls, count: impl Fn(u64, u64) -> u64) {
        let key =
            |served: &ServedCalls| (served.call.clone(), served.strategy, served.reason.clone());
        match self.served.iter_mut().find(|served| key(served) == key(&one)) {
            Some(served) => {
                served.calls = count(served.calls, one.calls);
                served.requested_bytes += one.requested_bytes;
                served.moved_bytes += one.moved_bytes;
            }
            None => self.served.push(one),
        }
    }

    /// All that [`FileStatistics::add_rank`] needs, to send it to another rank.
    pub(crate) fn to_wire(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.unsigned(wide(self.served.len()));
        for served in &self.served {
            writer.text(served.call.as_bytes());
            writer.text(served.strategy.name().as_bytes());
            writer.text(served.reason.as_bytes());
            let numbers = [served.calls, served.requested_bytes, served.moved_bytes];
            numbers.into_iter().for_each(|number| writer.unsigned(number));
        }
        let total = &self.total;
        [total.rounds, total.aggregators].into_iter().for_each(|number| writer.unsigned(number));
        total.counts().into_iter().for_each(|count| writer.unsigned(count));
        writer.unsigned(wide(total.phases.len()));
        for time in total.times().into_iter().chain(total.phases.iter().copied()) {
            writer.unsigned(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
        writer.bytes
    }

    pub(crate) fn from_wire(wire: &[u8]) -> Result<FileStatistics> {
        let mut reader = Reader::new(wire);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut statistics = FileStatistics::default();
        for _ in 0..reader.unsigned()? {
            statistics.served.push(ServedCalls {
                call: text(reader.text()?).into(),
                strategy: text(reader.text()?).parse()?,
                reason: text(reader.text()?).into(),
                calls: reader.unsigned()?,
                requested_bytes: reader.unsigned()?,
                moved_bytes: reader.unsigned()?,
            });
        }
        let total = &mut statistics.total;
        (total.rounds, total.aggregators) = (reader.unsigned()?, reader.unsigned()?);
        for count in total.counts_mut() {
            *count = reader.unsigned()?;
        }
        let phases = reader.unsigned()?;
        for time in total.times_mut() {
            *time = Duration::from_nanos(reader.unsigned()?);
        }
        for _ in 0..phases {
            total.phases.push(Duration::from_nanos(reader.unsigned()?));
        }
        reader.finish()?;
        Ok(statistics)
    }
}

/// A number of bytes as people read it.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        let scale = (self.0.max(1).ilog2() / 10).min(4);
        match scale.checked_sub(1).and_then(|index| UNITS.get(usize::try_from(index).ok()?)) {
            None => write!(formatter, "{} bytes", self.0),
            Some(unit) => {
                let tenths = (u128::from(self.0) * 10) >> (10 * scale);
                write!(formatter, "{}.{} {unit}", tenths / 10, tenths % 10)
            }
        }
    }
}

impl fmt::Display for CallStatistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "strategy    {} ({})", self.strategy, self.reason)?;
        if !self.windows.is_empty() {
            writeln!(formatter, "windows     {}", self.windows)?;
        }
        writeln!(formatter, "rounds      {} by {} aggregators", self.rounds, self.aggregators)?;
        let (moved, requested) = (Bytes(self.moved_bytes), Bytes(self.requested_bytes));
        writeln!(formatter, "bytes       {moved} of {requested}")?;
        self.figures(formatter)
    }
}

impl fmt::Display for ServedCalls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.calls, self.call)?;
        if self.strategy == Strategy::Auto {
            return write!(formatter, " refused");
        }
        let (moved, requested) = (Bytes(self.moved_bytes), Bytes(self.requested_bytes));
        let (strategy, reason) = (self.strategy, &self.reason);
        write!(formatter, " by {strategy}: {moved} of {requested} ({reason})")
    }
}

impl fmt::Display for FileStatistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.served.is_empty() {
            return writeln!(formatter, "calls       no reads and no writes");
        }
        for (index, served) in self.served.iter().enumerate() {
            let name = if index == 0 { "calls" } else { "" };
            writeln!(formatter, "{name:12}{served}")?;
        }
        match self.total {
            CallStatistics { aggregators: 0, .. } => writeln!(formatter, "aggregators none")?,
            CallStatistics { aggregators, rounds, .. } => {
                writeln!(formatter, "aggregators {aggregators} at most; rounds {rounds}")?;
            }
        }
        self.total.figures(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &'static str, bytes: u64, ms: u64) -> CallStatistics {
        CallStatistics {
            call: name,
            strategy: Strategy::Direct,
            reason: "a reason",
            rounds: 1,
            aggregators: bytes % 7,
            requested_bytes: bytes,
            moved_bytes: bytes / 2,
            storage_writes: 1,
            storage: Duration::from_millis(ms),
            ..CallStatistics::default()
        }
    }

    fn phased(ms: &[u64]) -> CallStatistics {
        let phases = ms.iter().copied().map(Duration::from_millis).collect();
        let packing = Duration::from_millis(ms[0]);
        CallStatistics { phases, packing, ..call("write_all", 8, 1) }
    }

    /// No time of a summary is of one rank while the others are of the slowest.
    #[test]
    fn phases_too_are_of_the_slowest_rank() {
        let mut all = file(&[phased(&[5, 1])]);
        let other = file(&[phased(&[2, 7, 3])]);
        all.add_rank(FileStatistics::from_wire(&other.to_wire()).unwrap());
        let phases: Vec<u128> = all.total.phases.iter().map(Duration::as_millis).collect();
        assert_eq!((phases, all.total.packing.as_millis()), (vec![5, 7, 3], 5));
    }

    fn file(calls: &[CallStatistics]) -> FileStatistics {
        let mut file = FileStatistics::default();
        calls.iter().for_each(|call| file.add(call));
        file
    }

    #[test]
    fn the_parts_of_a_call_ask_for_one_range() {
        let conditions = Conditions::independent(Direction::Write);
        let part = |within, bytes, piece_bytes| {
            Asked::new(Request::of_pieces(within, bytes, piece_bytes), conditions)
        };
        let mut call = CallStatistics::default();
        call.ask(&part(100..200, 80, 40));
        call.ask(&part(40..60, 15, 5));
        let request = call.asked.unwrap().request;
        assert_eq!((request.start, request.end, request.bytes), (40, 200, 95));
        assert_eq!((request.pieces(), request.piece_bytes), (5, 19));
    }

    #[test]
    fn collective_calls_count_once_and_the_longest_time_counts() {
        let mut all = file(&[call("write_all", 10, 5), call("write", 4, 1), call("write", 4, 1)]);
        all.add_rank(file(&[call("write_all", 20, 9), call("write", 4, 1)]));
        let counts: Vec<_> = all.served.iter().map(|one| (&*one.call, one.calls)).collect();
        assert_eq!(counts, [("write_all", 1), ("write", 3)]);
        assert_eq!(all.served[0].requested_bytes, 30);
        assert_eq!((all.total.requested_bytes, all.total.storage_writes), (42, 5));
        assert_eq!(all.total.storage.as_millis(), 10);
    }

    /// Writes of one rank, and collectives that every rank serves for itself, have none.
    #[test]
    fn rounds_are_those_of_collectives_through_windows() {
        let collective = CallStatistics { rounds: 9, ..call("write_all", 8, 1) };
        let for_itself = CallStatistics { rounds: 5, aggregators: 0, ..call("write_all", 8, 1) };
        let mut all = file(&[collective.clone(), for_itself]);
        (0..255).for_each(|_| all.add_straight(Kind::WRITE, 8));
        all.add_rank(file(&[collective]));
        assert_eq!(all.total.rounds, 9);
        assert!(all.to_string().contains("aggregators 1 at most; rounds 9\n"), "{all}");
    }

    #[test]
    fn statistics_survive_the_wire_and_a_cut_wire_is_refused() {
        let own = file(&[call("write_all", 1 << 40, 5), call("read", 4, 1)]);
        let wire = own.to_wire();
        let read = FileStatistics::from_wire(&wire).unwrap();
        assert_eq!(read.served, own.served);
        assert_eq!(read.to_wire(), wire);
        for len in 0..wire.len() {
            assert!(FileStatistics::from_wire(&wire[..len]).is_err());
        }
    }

    #[test]
    fn bytes_are_shown_with_their_unit() {
        let cases = [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.5 KiB"),
            (104_857_600, "100.0 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Bytes(bytes).to_string(), expected);
        }
    }
}
