//! One measurement: bytes move, a clock runs, every byte is compared.
//!
//! All of this runs on every rank. Only the call itself is timed. All ranks meet at a barrier
//! before it; the time goes from the first rank that leaves the barrier to the last one that has
//! ended, because with more ranks than processors a rank's own time says little. Ranks on other
//! machines have other clocks; then the slowest machine counts.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use pario::{CallStatistics, File, Strategy, View};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::arguments::{Settings, with_strategy};
use super::scratch::Scratch;
use super::team::Team;
use super::verify::{Pattern, Share, check_len};
use super::workload::{ELEMENT_BYTES, Workload};
use crate::failure::Failure;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Every rank in one piece, in its own part of the file: the reference of paper 002.
    BlockIo,
    Strategy(Strategy),
    /// Multi-phase with so many phases.
    Phases(u32),
}

/// Names of [`Contender::Phases`].
const PHASED: [&str; 10] = [
    "multi-phase 0",
    "multi-phase 1",
    "multi-phase 2",
    "multi-phase 3",
    "multi-phase 4",
    "multi-phase 5",
    "multi-phase 6",
    "multi-phase 7",
    "multi-phase 8",
    "multi-phase 9",
];

impl Contender {
    /// The name in the output for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::BlockIo => "block",
            Contender::Strategy(strategy) => strategy.name(),
            Contender::Phases(phases) => {
                let index = usize::try_from(phases).unwrap_or(usize::MAX);
                PHASED.get(index).copied().unwrap_or("multi-phase")
            }
        }
    }

    /// The strategy that is asked for, and the number of phases.
    pub(crate) fn wanted(self) -> Option<(Strategy, Option<u32>)> {
        match self {
            Contender::BlockIo => None,
            Contender::Strategy(strategy) => Some((strategy, None)),
            Contender::Phases(phases) => Some((Strategy::MultiPhase, Some(phases))),
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Contender::BlockIo => "Block I/O",
            other => other.name(),
        })
    }
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Write,
    Read,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Direction::Write => "write",
            Direction::Read => "read",
        }
    }
}

/// What one call of all ranks took. Every byte of it was right.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// Counts are sums over the ranks; times are those of the rank with the most storage time,
    /// because the others mostly wait for it.
    pub(crate) statistics: CallStatistics,
}

/// A write and a read of the same bytes, as far as they were asked for.
#[derive(Clone, Debug)]
pub(crate) struct Repetition {
    pub(crate) write: Option<Measured>,
    pub(crate) read: Option<Measured>,
}

/// What all ranks measure with.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) team: &'a Team<'a>,
    pub(crate) scratch: &'a Scratch,
}

/// A workload with this rank's part of it, ready to be measured.
pub(crate) struct Bed<'a> {
    settings: &'a Settings,
    team: &'a Team<'a>,
    scratch: &'a Scratch,
    workload: &'a dyn Workload,
    view: View,
    buffer: Vec<u32>,
    /// This rank's place in the file of Block I/O, in elements.
    block_start: u64,
    /// Number of contiguous pieces in the file, over all ranks.
    pieces: u64,
    salt: u8,
}

/// One rank's part of a measurement, as all ranks learn it.
#[derive(Serialize, Deserialize)]
struct Turn {
    clock: u64,
    begin: Duration,
    end: Duration,
    /// Of meeting, planning, exchange and storage.
    times: [Duration; 4],
    counts: [u64; COUNTS],
}

/// A rank's elements and pieces.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Size {
    elements: u64,
    pieces: u64,
}

impl<'a> Bed<'a> {
    /// Makes the buffers, and a file of the right size that has been written once.
    pub(crate) fn new(bench: Bench<'a>, workload: &'a dyn Workload) -> Result<Bed<'a>, Failure> {
        let Bench { settings, team, scratch } = bench;
        let own = size(workload, team.rank());
        let made = buffer(own.elements, team.rank()).and_then(|buffer| {
            let view = workload.view(team.rank());
            Ok((buffer, view.map_err(|error| Failure::during("making views", error))?))
        });
        let (made, own) = match made {
            Ok(made) => (Some(made), Ok(own)),
            Err(failure) => (None, Err(failure)),
        };
        let sizes = team.all(own)?;
        let (buffer, view) = made.ok_or(Failure::Told(1))?;
        let before = sizes.iter().zip(0..team.rank()).map(|(size, _)| size.elements);
        let (block_start, pieces) = (before.sum(), sizes.iter().map(|size| size.pieces).sum());
        let bed =
            Bed { settings, team, scratch, workload, view, buffer, block_start, pieces, salt: 0 };
        bed.cut_file()?;
        team.agree(bed.write_share(Pattern::new(bed.salt)))?;
        Ok(bed)
    }

    fn cut_file(&self) -> Result<(), Failure> {
        self.team.first(|| {
            let cut = self.scratch.file.set_len(0);
            cut.map_err(|error| Failure::during("cutting the file", error))
        })
    }

    /// This rank's part of work on the whole file.
    fn share(&self) -> Share {
        Share { number: self.team.rank(), count: self.team.size() }
    }

    fn write_share(&self, pattern: Pattern) -> Result<(), Failure> {
        pattern.write_file(&self.scratch.file, self.workload.elements(), self.share())
    }

    /// About how many storage calls a strategy needs, at most.
    pub(crate) fn storage_calls(&self, strategy: Strategy, phases: Option<u32>) -> u64 {
        let pieces = self.pieces;
        let hints = &self.settings.hints;
        let ranks = u64::from(self.settings.ranks);
        let bytes = self.workload.elements() * ELEMENT_BYTES;
        // Scattered pieces need a system call each, also when they come as a list.
        match strategy {
            Strategy::Direct | Strategy::List => pieces,
            // Each phase halves the number of pieces; with all of them there is one.
            Strategy::MultiPhase => match phases.or(hints.phases) {
                Some(phases) if 1 << phases < ranks => pieces >> phases,
                _ => 0,
            },
            Strategy::Sieve => {
                let hole_bytes = bytes.saturating_mul(ranks - 1) / pieces.max(1);
                let window_bytes =
                    hints.sieve_read_buffer_bytes.min(hints.sieve_write_buffer_bytes);
                match hole_bytes <= hints.sieve_hole_bytes {
                    true => bytes.div_ceil(window_bytes).saturating_mul(2 * ranks).min(pieces),
                    false => pieces,
                }
            }
            _ => 0,
        }
    }

    /// Measures a contender once; every byte is compared.
    pub(crate) fn repeat(&mut self, contender: Contender) -> Result<Repetition, Failure> {
        self.salt = self.salt.wrapping_add(1);
        let pattern = Pattern::new(self.salt);
        pattern.fill(&mut self.buffer, self.workload.runs(self.team.rank()));
        let directions = self.settings.directions;
        let write = match directions.writes() {
            true => Some(self.write(contender, pattern)?),
            false => {
                self.lay_out(contender, pattern)?;
                None
            }
        };
        let read = match directions.reads() {
            true => Some(self.read(contender, pattern)?),
            false => None,
        };
        Ok(Repetition { write, read })
    }

    fn write(&mut self, contender: Contender, pattern: Pattern) -> Result<Measured, Failure> {
        if self.settings.fresh {
            self.cut_file()?;
        }
        let measured = self.transfer(contender, Direction::Write)?;
        let (file, elements) = (&self.scratch.file, self.workload.elements());
        let checked = match contender {
            Contender::Strategy(_) | Contender::Phases(_) => {
                pattern.check_file(file, elements, self.share())
            }
            Contender::BlockIo => self.check_block(pattern),
        };
        let explain = |failure| self.explain(contender, Direction::Write, failure);
        self.team.agree(checked.map_err(explain))?;
        Ok(measured)
    }

    fn read(&mut self, contender: Contender, pattern: Pattern) -> Result<Measured, Failure> {
        // No byte of what was written may pass for something that was read.
        invert(&mut self.buffer);
        let measured = self.transfer(contender, Direction::Read)?;
        let rank = self.team.rank();
        let checked = pattern.check(&self.buffer, self.workload.runs(rank)).map_err(|mismatch| {
            let offset = mismatch.index * ELEMENT_BYTES;
            let failure = Failure::during(format!("rank {rank}, offset {offset}"), mismatch);
            self.explain(contender, Direction::Read, failure)
        });
        self.team.agree(checked)?;
        Ok(measured)
    }

    /// Writes what a contender will read, by plain system calls.
    fn lay_out(&self, contender: Contender, pattern: Pattern) -> Result<(), Failure> {
        let written = match contender {
            Contender::Strategy(_) | Contender::Phases(_) => self.write_share(pattern),
            Contender::BlockIo => {
                let bytes = bytemuck::cast_slice(&self.buffer);
                let written = self.scratch.file.write_all_at(bytes, self.block_offset());
                written.map_err(|error| Failure::during("writing the file", error))
            }
        };
        self.team.agree(written)
    }

    /// Compares this rank's part of a file of Block I/O.
    fn check_block(&self, pattern: Pattern) -> Result<(), Failure> {
        let file = &self.scratch.file;
        check_len(file, self.workload.elements())?;
        let mut found = vec![0; self.buffer.len()];
        let runs = self.workload.runs(self.team.rank());
        pattern.check_part(file, self.block_start, &mut found, runs)
    }

    /// This rank's place in the file of Block I/O, in bytes.
    fn block_offset(&self) -> u64 {
        self.block_start * ELEMENT_BYTES
    }

    /// Adds to a failure what was measured.
    fn explain(&self, contender: Contender, direction: Direction, failure: Failure) -> Failure {
        let (Failure::Usage(text) | Failure::Run(text)) = failure else { return failure };
        Failure::Run(format!(
            "{}, blocks of {} bytes, {contender}, {}: {text}",
            self.workload.name(),
            self.workload.block_bytes(),
            direction.name()
        ))
    }

    /// Moves the bytes of all ranks, with the clock running.
    fn transfer(
        &mut self,
        contender: Contender,
        direction: Direction,
    ) -> Result<Measured, Failure> {
        let turn = match contender {
            Contender::BlockIo => self.block_turn(direction),
            Contender::Strategy(strategy) => self.turn((strategy, None), direction),
            Contender::Phases(phases) => self.turn((Strategy::MultiPhase, Some(phases)), direction),
        };
        let turn = turn.map_err(|failure| self.explain(contender, direction, failure));
        let (own, statistics) = match turn {
            Ok((turn, statistics)) => (Ok(turn), statistics),
            Err(failure) => (Err(failure), CallStatistics::default()),
        };
        Ok(Measured::of(&self.team.all(own)?, statistics))
    }

    /// A rank of Block I/O: one plain system call. Nothing can fail before the barrier.
    fn block_turn(&mut self, direction: Direction) -> Result<(Turn, CallStatistics), Failure> {
        let offset = self.block_offset();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.buffer);
        self.team.barrier()?;
        let begin = now();
        let moved = match direction {
            Direction::Write => self.scratch.file.write_all_at(bytes, offset),
            Direction::Read => self.scratch.file.read_exact_at(bytes, offset),
        };
        let end = now();
        moved.map_err(|error| Failure::Run(error.to_string()))?;
        let mut statistics = CallStatistics::default();
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        statistics.rounds = 1;
        statistics.storage = end.saturating_sub(begin);
        (statistics.requested_bytes, statistics.moved_bytes) = (len, len);
        match direction {
            Direction::Write => {
                (statistics.storage_writes, statistics.storage_written_bytes) = (1, len);
            }
            Direction::Read => (statistics.storage_reads, statistics.storage_read_bytes) = (1, len),
        }
        Ok((Turn::new(self.team.clock(), (begin, end), &statistics), statistics))
    }

    /// A rank's part of a collective call of pario. What comes before the barrier fails on all
    /// ranks or on none, so that nobody waits there for ever.
    fn turn(
        &mut self,
        (strategy, phases): (Strategy, Option<u32>),
        direction: Direction,
    ) -> Result<(Turn, CallStatistics), Failure> {
        let failed = |error: pario::Error| Failure::Run(error.to_string());
        let options = match direction {
            Direction::Write => File::options().write(true),
            Direction::Read => File::options().read(true),
        };
        let hints = with_strategy(&self.settings.hint_set, strategy, phases);
        let options = hints.iter().fold(options, |options, (key, value)| options.hint(key, value));
        let file = options.open(self.team.comm(), self.scratch.path()).map_err(failed)?;
        file.set_view(&self.view).map_err(failed)?;
        let call = |buffer: &mut Vec<u32>| match direction {
            Direction::Write => file.write_all(0, &*buffer),
            Direction::Read => file.read_all(0, buffer),
        };
        if self.settings.planned {
            // What this call moves must not pass for what the measured one does.
            invert(&mut self.buffer);
            call(&mut self.buffer).map_err(failed)?;
            invert(&mut self.buffer);
        }
        self.team.barrier()?;
        let begin = now();
        let moved = call(&mut self.buffer);
        let end = now();
        let statistics = file.last_call();
        moved.map_err(failed)?;
        file.close().map_err(failed)?;
        Ok((Turn::new(self.team.clock(), (begin, end), &statistics), statistics))
    }
}

fn invert(buffer: &mut [u32]) {
    buffer.iter_mut().for_each(|element| *element = !*element);
}

/// A rank's part of a workload.
fn size(workload: &dyn Workload, rank: u32) -> Size {
    let (mut size, mut end) = (Size { elements: 0, pieces: 0 }, None);
    for run in workload.runs(rank) {
        size.elements += run.end - run.start;
        size.pieces += u64::from(end != Some(run.start));
        end = Some(run.end);
    }
    size
}

fn buffer(len: u64, rank: u32) -> Result<Vec<u32>, Failure> {
    let mut buffer = Vec::new();
    let room = usize::try_from(len).ok().filter(|&len| buffer.try_reserve_exact(len).is_ok());
    let room = room.ok_or_else(|| {
        Failure::Run(format!("no memory for {len} elements of rank {rank}; use less --bytes"))
    })?;
    buffer.resize(room, 0);
    Ok(buffer)
}

/// The time on a clock that all processes of a machine share.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Numbers of a call that add up over the ranks.
const COUNTS: usize = 10;

fn counts(statistics: &mut CallStatistics) -> [&mut u64; COUNTS] {
    [
        &mut statistics.requested_bytes,
        &mut statistics.moved_bytes,
        &mut statistics.messages,
        &mut statistics.sent_bytes,
        &mut statistics.shared_bytes,
        &mut statistics.storage_reads,
        &mut statistics.storage_read_bytes,
        &mut statistics.storage_writes,
        &mut statistics.storage_written_bytes,
        &mut statistics.locks,
    ]
}

impl Turn {
    fn new(clock: u64, (begin, end): (Duration, Duration), statistics: &CallStatistics) -> Turn {
        let CallStatistics { meeting, planning, exchange, storage, .. } = *statistics;
        let times = [meeting, planning, exchange, storage];
        let counts = counts(&mut statistics.clone()).map(|count| *count);
        Turn { clock, begin, end, times, counts }
    }
}

impl Measured {
    /// All ranks' turns as one; the rest is as one rank's statistics say.
    fn of(turns: &[Turn], mut statistics: CallStatistics) -> Measured {
        for (index, sum) in counts(&mut statistics).into_iter().enumerate() {
            *sum = turns.iter().map(|turn| turn.counts[index]).sum();
        }
        let busiest = turns.iter().max_by_key(|turn| turn.times[3]);
        if let Some(busiest) = busiest {
            let [meeting, planning, exchange, storage] = busiest.times;
            (statistics.meeting, statistics.planning) = (meeting, planning);
            (statistics.exchange, statistics.storage) = (exchange, storage);
        }
        Measured { seconds: span(turns).as_secs_f64(), statistics }
    }
}

/// From the first begin to the last end, of the ranks of each clock; the longest of these.
fn span(turns: &[Turn]) -> Duration {
    let mut spans: BTreeMap<u64, (Duration, Duration)> = BTreeMap::new();
    for turn in turns {
        let (begin, end) = spans.entry(turn.clock).or_insert((turn.begin, turn.end));
        (*begin, *end) = (turn.begin.min(*begin), turn.end.max(*end));
    }
    spans.into_values().map(|(begin, end)| end.saturating_sub(begin)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_goes_from_the_first_to_the_last_on_the_slowest_machine() {
        let turn = |clock, begin, end| {
            let times = (Duration::from_secs(begin), Duration::from_secs(end));
            Turn::new(clock, times, &CallStatistics::default())
        };
        let turns = [turn(1, 10, 14), turn(2, 900, 903), turn(1, 13, 17), turn(2, 905, 906)];
        assert_eq!(span(&turns), Duration::from_secs(7));
        assert_eq!(span(&turns[1..2]), Duration::from_secs(3));
    }

    #[test]
    fn counts_add_up_and_times_are_those_of_the_busiest() {
        let turn = |storage, bytes| {
            let mut statistics = CallStatistics::default();
            statistics.storage = Duration::from_secs(storage);
            statistics.exchange = Duration::from_secs(100 - storage);
            (statistics.moved_bytes, statistics.locks) = (bytes, 1);
            Turn::new(0, (Duration::ZERO, Duration::from_secs(1)), &statistics)
        };
        let measured = Measured::of(&[turn(1, 5), turn(3, 7)], CallStatistics::default());
        assert_eq!((measured.statistics.moved_bytes, measured.statistics.locks), (12, 2));
        assert_eq!(measured.statistics.storage, Duration::from_secs(3));
        assert_eq!(measured.statistics.exchange, Duration::from_secs(97));
    }
}
