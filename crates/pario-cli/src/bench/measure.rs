//! One measurement: bytes move, a clock runs, every byte is compared.
//!
//! Only the call itself is timed. All ranks meet at a barrier before it; the time goes from the
//! first rank that leaves the barrier to the last one that has ended, because with more ranks
//! than processors a rank's own time says little.

use std::fmt;
use std::os::unix::fs::FileExt;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pario::{CallStatistics, Communicator, File, Strategy, Threads, View};

use super::arguments::{Settings, with_strategy};
use super::scratch::Scratch;
use super::verify::{Pattern, check_len, in_parallel};
use super::workload::{ELEMENT_BYTES, Workload};
use crate::failure::Failure;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Every rank in one piece, in its own part of the file: the reference of paper 002.
    BlockIo,
    Strategy(Strategy),
}

impl Contender {
    /// The name in the output for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::BlockIo => "block",
            Contender::Strategy(strategy) => strategy.name(),
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Contender::BlockIo => "Block I/O",
            Contender::Strategy(strategy) => strategy.name(),
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

/// A workload with its buffers, ready to be measured.
pub(crate) struct Bed<'a> {
    settings: &'a Settings,
    scratch: &'a Scratch,
    workload: &'a dyn Workload,
    ranks: Vec<Rank>,
    salt: u8,
}

/// One rank's part of a workload.
struct Rank {
    view: View,
    buffer: Mutex<Vec<u32>>,
    /// Its place in the file of Block I/O, in elements.
    block_start: u64,
    /// Number of contiguous pieces in the file.
    pieces: u64,
}

/// One rank's part of a measurement.
struct Turn {
    begin: Instant,
    end: Instant,
    statistics: CallStatistics,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Bed<'a> {
    /// Makes the buffers, and a file of the right size that has been written once.
    pub(crate) fn new(
        settings: &'a Settings,
        scratch: &'a Scratch,
        workload: &'a dyn Workload,
    ) -> Result<Bed<'a>, Failure> {
        let mut ranks = Vec::new();
        let mut block_start = 0;
        for rank in 0..settings.ranks {
            let made = Rank::new(workload, rank, block_start)?;
            block_start += made.len();
            ranks.push(made);
        }
        let bed = Bed { settings, scratch, workload, ranks, salt: 0 };
        let file = &scratch.file;
        file.set_len(0).map_err(|error| Failure::during("cutting the file", error))?;
        Pattern::new(bed.salt).write_file(file, workload.elements())?;
        Ok(bed)
    }

    /// About how many storage calls a strategy needs, at most.
    pub(crate) fn storage_calls(&self, strategy: Strategy) -> u64 {
        let pieces: u64 = self.ranks.iter().map(|rank| rank.pieces).sum();
        let hints = &self.settings.hints;
        let ranks = u64::from(self.settings.ranks);
        let bytes = self.workload.elements() * ELEMENT_BYTES;
        // Scattered pieces need a system call each, also when they come as a list.
        match strategy {
            Strategy::Direct | Strategy::List => pieces,
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
        self.each_rank(|rank, number| {
            pattern.fill(&mut lock(&rank.buffer), self.workload.runs(number));
            Ok(())
        })?;
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

    fn write(&self, contender: Contender, pattern: Pattern) -> Result<Measured, Failure> {
        let file = &self.scratch.file;
        if self.settings.fresh {
            file.set_len(0).map_err(|error| Failure::during("cutting the file", error))?;
        }
        let measured = self.transfer(contender, Direction::Write)?;
        let checked = match contender {
            Contender::Strategy(_) => pattern.check_file(file, self.workload.elements()),
            Contender::BlockIo => self.check_blocks(pattern),
        };
        checked.map_err(|failure| self.explain(contender, Direction::Write, failure))?;
        Ok(measured)
    }

    fn read(&self, contender: Contender, pattern: Pattern) -> Result<Measured, Failure> {
        // No byte of what was written may pass for something that was read.
        self.each_rank(|rank, _| {
            lock(&rank.buffer).iter_mut().for_each(|element| *element = !*element);
            Ok(())
        })?;
        let measured = self.transfer(contender, Direction::Read)?;
        let checked = self.each_rank(|rank, number| {
            let checked = pattern.check(&lock(&rank.buffer), self.workload.runs(number));
            checked.map_err(|mismatch| {
                let offset = mismatch.index * ELEMENT_BYTES;
                Failure::during(format!("rank {number}, offset {offset}"), mismatch)
            })
        });
        checked.map_err(|failure| self.explain(contender, Direction::Read, failure))?;
        Ok(measured)
    }

    /// Writes what a contender will read, by plain system calls.
    fn lay_out(&self, contender: Contender, pattern: Pattern) -> Result<(), Failure> {
        let file = &self.scratch.file;
        match contender {
            Contender::Strategy(_) => pattern.write_file(file, self.workload.elements()),
            Contender::BlockIo => self.each_rank(|rank, _| {
                let buffer = lock(&rank.buffer);
                let written = file.write_all_at(bytemuck::cast_slice(&buffer), rank.block_offset());
                written.map_err(|error| Failure::during("writing the file", error))
            }),
        }
    }

    /// Compares a file of Block I/O, rank by rank.
    fn check_blocks(&self, pattern: Pattern) -> Result<(), Failure> {
        let file = &self.scratch.file;
        check_len(file, self.workload.elements())?;
        in_parallel(u64::from(self.settings.ranks), |number, found: &mut Vec<u32>| {
            let (rank, number) = self.rank(number);
            found.resize(lock(&rank.buffer).len(), 0);
            pattern.check_part(file, rank.block_start, found, self.workload.runs(number))
        })
    }

    /// Adds to a failure what was measured.
    fn explain(&self, contender: Contender, direction: Direction, failure: Failure) -> Failure {
        let (Failure::Usage(text) | Failure::Run(text)) = failure;
        Failure::Run(format!(
            "{}, blocks of {} bytes, {contender}, {}: {text}",
            self.workload.name(),
            self.workload.block_bytes(),
            direction.name()
        ))
    }

    fn rank(&self, number: u64) -> (&Rank, u32) {
        // Ranks are counted by an `u32`.
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        (&self.ranks[usize::try_from(number).unwrap_or(usize::MAX)], number)
    }

    /// Works on all ranks' buffers, on all processors.
    fn each_rank(
        &self,
        work: impl Fn(&Rank, u32) -> Result<(), Failure> + Sync,
    ) -> Result<(), Failure> {
        in_parallel(u64::from(self.settings.ranks), |number, _: &mut ()| {
            let (rank, number) = self.rank(number);
            work(rank, number)
        })
    }

    /// Moves the bytes of all ranks, with the clock running.
    fn transfer(&self, contender: Contender, direction: Direction) -> Result<Measured, Failure> {
        let settings = self.settings;
        let barrier = Barrier::new(self.ranks.len());
        let threads =
            Threads::new(settings.ranks).nodes(settings.nodes).share_memory(settings.share_memory);
        let turns = threads.run(|comm| {
            let (rank, _) = self.rank(u64::from(comm.rank()));
            let mut buffer = lock(&rank.buffer);
            match contender {
                Contender::BlockIo => {
                    block_turn(self.scratch, rank, &mut buffer, direction, &barrier)
                }
                Contender::Strategy(strategy) => {
                    let call = Call { bed: self, strategy, direction, barrier: &barrier };
                    call.turn(&*comm, rank, &mut buffer).map_err(|error| error.to_string())
                }
            }
        });
        let turns: Result<Vec<Turn>, String> = turns.into_iter().collect();
        let turns = turns.map_err(|text| self.explain(contender, direction, Failure::Run(text)))?;
        Ok(Measured::of(&turns))
    }
}

impl Rank {
    fn new(workload: &dyn Workload, rank: u32, block_start: u64) -> Result<Rank, Failure> {
        let (mut len, mut pieces, mut end) = (0, 0, None);
        for run in workload.runs(rank) {
            len += run.end - run.start;
            pieces += u64::from(end != Some(run.start));
            end = Some(run.end);
        }
        let mut buffer = Vec::new();
        let room = usize::try_from(len).ok().filter(|&len| buffer.try_reserve_exact(len).is_ok());
        let room = room.ok_or_else(|| {
            Failure::Run(format!("no memory for {len} elements of rank {rank}; use less --bytes"))
        })?;
        buffer.resize(room, 0);
        let view = workload.view(rank).map_err(|error| Failure::during("making views", error))?;
        Ok(Rank { view, buffer: Mutex::new(buffer), block_start, pieces })
    }

    fn len(&self) -> u64 {
        u64::try_from(lock(&self.buffer).len()).unwrap_or(u64::MAX)
    }

    /// Its place in the file of Block I/O, in bytes.
    fn block_offset(&self) -> u64 {
        self.block_start * ELEMENT_BYTES
    }
}

impl Measured {
    /// All ranks' turns as one.
    fn of(turns: &[Turn]) -> Measured {
        let begin = turns.iter().map(|turn| turn.begin).min();
        let end = turns.iter().map(|turn| turn.end).max();
        let span = begin.zip(end).map(|(begin, end)| end - begin).unwrap_or_default();
        let mut statistics = CallStatistics::default();
        for one in turns.iter().map(|turn| &turn.statistics) {
            (statistics.call, statistics.strategy) = (one.call, one.strategy);
            (statistics.reason, statistics.planned) = (one.reason, one.planned);
            (statistics.rounds, statistics.aggregators) = (one.rounds, one.aggregators);
            statistics.requested_bytes += one.requested_bytes;
            statistics.moved_bytes += one.moved_bytes;
            statistics.messages += one.messages;
            statistics.sent_bytes += one.sent_bytes;
            statistics.shared_bytes += one.shared_bytes;
            statistics.storage_reads += one.storage_reads;
            statistics.storage_read_bytes += one.storage_read_bytes;
            statistics.storage_writes += one.storage_writes;
            statistics.storage_written_bytes += one.storage_written_bytes;
            statistics.locks += one.locks;
        }
        let busiest = turns.iter().map(|turn| &turn.statistics).max_by_key(|one| one.storage);
        if let Some(busiest) = busiest {
            statistics.planning = busiest.planning;
            (statistics.exchange, statistics.storage) = (busiest.exchange, busiest.storage);
        }
        Measured { seconds: span.as_secs_f64(), statistics }
    }
}

/// A rank of Block I/O: one plain system call. Nothing can fail before the barrier.
fn block_turn(
    scratch: &Scratch,
    rank: &Rank,
    buffer: &mut [u32],
    direction: Direction,
    barrier: &Barrier,
) -> Result<Turn, String> {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(buffer);
    barrier.wait();
    let begin = Instant::now();
    let moved = match direction {
        Direction::Write => scratch.file.write_all_at(bytes, rank.block_offset()),
        Direction::Read => scratch.file.read_exact_at(bytes, rank.block_offset()),
    };
    let end = Instant::now();
    moved.map_err(|error| error.to_string())?;
    let mut statistics = CallStatistics::default();
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    statistics.rounds = 1;
    statistics.storage = end - begin;
    (statistics.requested_bytes, statistics.moved_bytes) = (len, len);
    match direction {
        Direction::Write => {
            (statistics.storage_writes, statistics.storage_written_bytes) = (1, len);
        }
        Direction::Read => (statistics.storage_reads, statistics.storage_read_bytes) = (1, len),
    }
    Ok(Turn { begin, end, statistics })
}

/// A collective call of pario.
struct Call<'a> {
    bed: &'a Bed<'a>,
    strategy: Strategy,
    direction: Direction,
    barrier: &'a Barrier,
}

impl Call<'_> {
    /// A rank's part. What comes before the barrier fails on all ranks or on none, so that nobody
    /// waits there for ever.
    fn turn(
        &self,
        comm: &dyn Communicator,
        rank: &Rank,
        buffer: &mut [u32],
    ) -> pario::Result<Turn> {
        let options = match self.direction {
            Direction::Write => File::options().write(true),
            Direction::Read => File::options().read(true),
        };
        let hints = with_strategy(&self.bed.settings.hint_set, self.strategy);
        let options = hints.iter().fold(options, |options, (key, value)| options.hint(key, value));
        let file = options.open(comm, self.bed.scratch.path())?;
        file.set_view(&rank.view)?;
        self.barrier.wait();
        let begin = Instant::now();
        let moved = match self.direction {
            Direction::Write => file.write_all(0, &*buffer),
            Direction::Read => file.read_all(0, buffer),
        };
        let end = Instant::now();
        let statistics = file.last_call();
        moved?;
        file.close()?;
        Ok(Turn { begin, end, statistics })
    }
}
