//! One short measurement, on all ranks.
//!
//! Every rank runs the same probes in the same order. Where one rank works, the others wait for it
//! in the agreement at the end. A rank that fails makes all of them fail.
//!
//! The file: a part that is read and overwritten through the page cache, a part for accesses
//! without it, and after these the part that is new each time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario::comm::{Lane, Tag, block_on, is_oversubscribed, receive};
use pario::model::Direction;
use pario::model::profile::Pattern;
use pario::storage::{Driver, MappedPart, OpenMode, Posix, Storage};
use pario::{Communicator, Datatype, Position, View};

use super::copies::Copies;
use super::place::Ground;
use super::probe::{Probe, Situation};
use crate::failure::Failure;
use crate::measure::team::Team;
use crate::measure::turn::now;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bytes of the part without the page cache, and of the part that is new.
const DIRECT_PART_BYTES: u64 = 8 * MIB;
const NEW_PART_BYTES: u64 = 4 * MIB;

/// Bytes that a rank may move in one measurement, and when it stops before that.
const MOVED_BYTES: u64 = 4 * MIB;
/// Bytes that each rank moves where several move bytes at the same time.
const TOGETHER_BYTES: u64 = 16 * MIB;
const CALLS_MAX: u64 = 2000;
/// How far after a page of the file accesses of programs begin.
const UNALIGNED_BYTES: u64 = 1400;
/// Memory of windows: a collective uses several in turn, so that a window is in no core's own
/// cache.
const WINDOWS_BYTES: u64 = 8 * MIB;
/// The longest access or copy of a working set.
const AGAIN_BYTES: u64 = 64 * KIB;
const ENOUGH: Duration = Duration::from_millis(3);

/// Where `O_DIRECT` wants memory and offsets to begin, and where windows begin. Some processors
/// copy several times slower to memory that begins a few bytes after a page, as that of malloc(3).
const ALIGNMENT: usize = 4096;

/// Bytes of the part that goes through the page cache: more than caches of processors hold.
fn cached_part_bytes(situation: &Situation) -> u64 {
    2 * u64::from(situation.ranks.max(32)) * MIB
}

/// Bytes of a rank that stand for the memory of a program: all ranks that work at the same time
/// have together more than caches of processors hold.
fn program_bytes(situation: &Situation, rank: u32) -> u64 {
    match situation.with_a_core() {
        working if rank < working => (64 / u64::from(working)).max(4) * MIB,
        _ => 4 * MIB,
    }
}

/// The greatest size of the file.
pub(super) fn file_bytes(situation: &Situation) -> u64 {
    cached_part_bytes(situation) + DIRECT_PART_BYTES + 8 * NEW_PART_BYTES
}

/// What measurements need.
pub(super) struct Bed<'a> {
    team: &'a Team<'a>,
    ground: &'a Ground,
    situation: Situation,
    /// For messages of this command only.
    comm: Arc<dyn Communicator>,
    next_call: u64,
    /// The file without the page cache, where there is such a thing.
    direct: Option<File>,
    /// The file for writes through a mapping, where there are such.
    mapped: Option<Arc<dyn Storage>>,
    /// As windows.
    buffer: Vec<u8>,
    /// Where the aligned part of the buffer begins.
    aligned: usize,
    /// As the memory of a program.
    program: Vec<u8>,
    /// Bytes of earlier measurements: the next one finds others, which are in no cache.
    visited: u64,
    copies: Copies,
}

impl<'a> Bed<'a> {
    /// Writes the file once.
    pub(super) fn new(
        team: &'a Team<'a>,
        ground: &'a Ground,
        situation: Situation,
    ) -> Result<Bed<'a>, Failure> {
        let buffer = vec![7; usize::try_from(WINDOWS_BYTES).unwrap_or(0) + ALIGNMENT];
        let old_bytes = cached_part_bytes(&situation) + DIRECT_PART_BYTES;
        team.first(|| {
            let chunk = &buffer[..usize::try_from(MIB).unwrap_or(0)];
            let written = (0..old_bytes / MIB)
                .try_for_each(|index| ground.file.write_all_at(chunk, index * MIB))
                .and_then(|()| ground.file.sync_data());
            written.map_err(|error| Failure::during("writing the file", error))
        })?;
        let comm = team.comm().duplicate();
        let comm = comm.map_err(|error| Failure::Lost(error.to_string()))?;
        let direct_flag = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(direct_flag);
        let direct = options.open(ground.path()).ok();
        let mode = OpenMode { read: true, write: true, ..OpenMode::default() };
        let mapped = Posix.open(ground.path(), mode).ok();
        let mapped = mapped.filter(|file| file.capabilities().mapped_writes);
        let aligned = buffer.as_ptr().align_offset(ALIGNMENT) % ALIGNMENT;
        let bytes = usize::try_from(program_bytes(&situation, team.rank())).unwrap_or(0);
        let windows_bytes = usize::try_from(WINDOWS_BYTES).unwrap_or(0);
        let (program, copies) = (vec![7; bytes], Copies::new(bytes, windows_bytes));
        let (next_call, visited) = (0, 0);
        Ok(Bed {
            team,
            ground,
            situation,
            comm,
            next_call,
            direct,
            mapped,
            buffer,
            aligned,
            program,
            visited,
            copies,
        })
    }

    /// Measures once; the seconds of one access, piece, message, barrier or plan, the longest of
    /// all ranks. None where it cannot be measured.
    pub(super) fn measure(&mut self, probe: &Probe) -> Result<Option<f64>, Failure> {
        let own = match *probe {
            Probe::Access { direction, pattern, bytes } => {
                self.alone(|bed| bed.access(direction, pattern, bytes))
            }
            Probe::AccessTogether { direction, pattern, ranks } => {
                let file = &self.ground.file;
                self.together(ranks, |bed| {
                    bed.access_own_part(pattern, ranks, |buffer, offset| match direction {
                        Direction::Read => file.read_exact_at(buffer, offset),
                        Direction::Write => file.write_all_at(buffer, offset),
                    })
                })
            }
            Probe::MappedTogether { ranks } => self.mapped_together(ranks),
            Probe::Copy { scatter, random, bytes } => {
                self.alone(|bed| Ok(Some(bed.copy(scatter, random, bytes))))
            }
            Probe::CopyTogether { ranks } => self.together(ranks, |bed| {
                // The first rank has just copied; the caches of the others are cold before this.
                bed.copy(false, false, MIB);
                Ok(bed.copy(false, false, MIB))
            }),
            Probe::AccessReused { direction, working_set } => {
                let ranks = self.situation.with_a_core();
                self.together(ranks, |bed| {
                    bed.access_again(direction, working_set / u64::from(ranks))
                })
            }
            Probe::CopyReused { working_set } => {
                let ranks = self.situation.with_a_core();
                self.together(ranks, |bed| Ok(bed.copy_again(working_set / u64::from(ranks))))
            }
            Probe::Message { to, bytes } => self.ping_pong(to, bytes),
            Probe::Barrier => barrier_seconds(self.team).map(Some),
            Probe::Wake => wake_seconds(self.team).map(Some),
            Probe::Plan { pieces } => self.plan(pieces),
        };
        let all = self.team.all(own)?;
        let measured = all.into_iter().flatten();
        Ok(measured.reduce(f64::max))
    }

    /// The first rank works.
    fn alone(
        &mut self,
        work: impl FnOnce(&mut Bed<'a>) -> io::Result<Option<f64>>,
    ) -> Result<Option<f64>, Failure> {
        match self.team.is_first() {
            true => work(self).map_err(|error| Failure::during("measuring", error)),
            false => Ok(None),
        }
    }

    /// The first ranks work at the same time.
    fn together(
        &mut self,
        ranks: u32,
        work: impl FnOnce(&mut Bed<'a>) -> io::Result<f64>,
    ) -> Result<Option<f64>, Failure> {
        self.team.barrier()?;
        match self.team.rank() < ranks {
            true => work(self).map(Some).map_err(|error| Failure::during("measuring", error)),
            false => Ok(None),
        }
    }

    /// The first ranks write through a mapping, where the file system has several writers only so.
    fn mapped_together(&mut self, ranks: u32) -> Result<Option<f64>, Failure> {
        let Some(file) = self.mapped.clone() else {
            return self.team.barrier().map(|()| None);
        };
        let within = 0..cached_part_bytes(&self.situation);
        let part = MappedPart { within, new_bytes: false };
        self.together(ranks, |bed| {
            bed.access_own_part(Pattern::Sequential, ranks, |buffer, offset| {
                file.write_mapped(offset, buffer, &part).map(drop).map_err(io::Error::from)
            })
        })
    }

    fn access(
        &mut self,
        direction: Direction,
        pattern: Pattern,
        bytes: u64,
    ) -> io::Result<Option<f64>> {
        let cached_bytes = cached_part_bytes(&self.situation);
        let old_bytes = cached_bytes + DIRECT_PART_BYTES;
        let slot = bytes.max(4096);
        // Other pieces of programs seldom begin at a page. Where both do, or almost, some
        // processors copy several times slower.
        let shift = match pattern {
            Pattern::Contiguous | Pattern::Scattered => UNALIGNED_BYTES,
            _ => 0,
        };
        let (file, start, part_bytes, step) = match (pattern, &self.direct) {
            (Pattern::Sequential | Pattern::Contiguous, _) => {
                (&self.ground.file, 0, cached_bytes, bytes)
            }
            (Pattern::Scattered | Pattern::Aligned, _) => {
                (&self.ground.file, 0, cached_bytes, slot)
            }
            (Pattern::NewFile, _) => (&self.ground.file, old_bytes, NEW_PART_BYTES, bytes),
            (Pattern::Direct, Some(file)) => (file, cached_bytes, DIRECT_PART_BYTES, slot),
            (Pattern::Direct, None) => return Ok(None),
        };
        let in_order = !matches!(pattern, Pattern::Scattered | Pattern::Aligned | Pattern::Direct);
        let places = (part_bytes - shift) / step;
        let calls = (MOVED_BYTES / bytes).min(CALLS_MAX);
        let len = usize::try_from(bytes).unwrap_or(0);
        let memory = match pattern {
            Pattern::Contiguous | Pattern::Scattered | Pattern::Aligned => &mut self.program[..],
            Pattern::Sequential | Pattern::NewFile => {
                let bytes = usize::try_from(WINDOWS_BYTES).unwrap_or(0);
                &mut self.buffer[self.aligned..self.aligned + bytes]
            }
            Pattern::Direct => &mut self.buffer[self.aligned..self.aligned + len],
        };
        let parts = u64::try_from(memory.len()).unwrap_or(0) / bytes;
        let first = match pattern {
            Pattern::NewFile => 0,
            _ => self.visited / step,
        };
        self.visited += calls * step;
        if pattern == Pattern::NewFile {
            self.ground.file.set_len(old_bytes)?;
        }
        repeated(calls, |index| {
            let index = first + index;
            let start_in_memory = usize::try_from(index % parts * bytes).unwrap_or(0);
            let buffer = &mut memory[start_in_memory..start_in_memory + len];
            // A prime of this size visits every place once, far from the last one.
            let index = if in_order { index } else { index.wrapping_mul(7919) };
            let offset = start + shift + index % places * step;
            match direction {
                Direction::Read => file.read_exact_at(buffer, offset),
                Direction::Write => file.write_all_at(buffer, offset),
            }
        })
        .map(Some)
        .or_else(|error| match pattern {
            // Some file systems open a file this way and refuse every access.
            Pattern::Direct if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            _ => Err(error),
        })
    }

    /// Accesses of 1 MiB in this rank's own part of the file. The ranks share the windows.
    fn access_own_part(
        &mut self,
        pattern: Pattern,
        ranks: u32,
        access: impl Fn(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<f64> {
        let shift = if pattern == Pattern::Contiguous { UNALIGNED_BYTES } else { 0 };
        let parts = cached_part_bytes(&self.situation) / u64::from(self.situation.ranks) / MIB - 1;
        let first = u64::from(self.team.rank()) * (parts + 1);
        let visited = self.visited / MIB;
        self.visited += TOGETHER_BYTES;
        let len = usize::try_from(MIB).unwrap_or(0);
        let memory = match pattern {
            Pattern::Contiguous => &mut self.program[..],
            _ => {
                let own = (WINDOWS_BYTES / u64::from(ranks)).max(MIB);
                &mut self.buffer[self.aligned..self.aligned + usize::try_from(own).unwrap_or(0)]
            }
        };
        let memory_parts = u64::try_from(memory.len()).unwrap_or(0) / MIB;
        // All calls count: where a file has one writer at a time, one rank may wait in its first
        // call for all those of another.
        let begin = Instant::now();
        for index in visited..visited + TOGETHER_BYTES / MIB {
            let offset = (first + index % parts) * MIB + shift;
            let start = usize::try_from(index % memory_parts * MIB).unwrap_or(0);
            access(&mut memory[start..start + len], offset)?;
        }
        Ok(begin.elapsed().as_secs_f64() / count(TOGETHER_BYTES / MIB))
    }

    /// Accesses of a working set of this rank: half of it is memory, half of it a part of the file.
    fn access_again(&mut self, direction: Direction, working_set: u64) -> io::Result<f64> {
        let half = (working_set / 2).max(KIB);
        let len = half.min(AGAIN_BYTES);
        let start = u64::from(self.team.rank()) * half;
        let (file, memory) = (&self.ground.file, &mut self.program[..]);
        again(half, len, |at| {
            let first = usize::try_from(at).unwrap_or(0);
            let buffer = &mut memory[first..first + usize::try_from(len).unwrap_or(0)];
            match direction {
                Direction::Read => file.read_exact_at(buffer, start + at),
                Direction::Write => file.write_all_at(buffer, start + at),
            }
        })
    }

    /// Copies from memory of a working set of this rank to a window. The other half of the working
    /// set would be the file.
    fn copy_again(&mut self, working_set: u64) -> f64 {
        let half = (working_set / 2).max(KIB);
        let len = half.min(AGAIN_BYTES);
        let (program, window) = (&self.program, &mut self.buffer[self.aligned..]);
        let copied = again(half, len, |at| {
            let [from, to, len] = [at, at % MIB, len].map(|at| usize::try_from(at).unwrap_or(0));
            window[to..to + len].copy_from_slice(&program[from..from + len]);
            std::hint::black_box(&window);
            Ok(())
        });
        copied.unwrap_or(f64::NAN)
    }

    fn copy(&mut self, scatter: bool, random: bool, bytes: u64) -> f64 {
        let piece_bytes = usize::try_from(bytes).unwrap_or(1);
        let copies = &mut self.copies;
        let mut seconds = [(); 4].map(|()| {
            let begin = Instant::now();
            let pieces = copies.run(scatter, random, piece_bytes);
            begin.elapsed().as_secs_f64() / count(pieces)
        });
        median(&mut seconds)
    }

    /// Messages to and fro between the first rank and another one. Who gets them reads them; what
    /// it costs to fill them is another part of the model. On a node several go at a time, as those
    /// of all ranks to an aggregator: a rank that sleeps is woken by the first of them.
    fn ping_pong(&mut self, other: u32, bytes: u64) -> Result<Option<f64>, Failure> {
        const AT_A_TIME: usize = 16;
        let rounds = (MIB / bytes).clamp(4, 100);
        let on_node = self.situation.same_node == Some(other);
        let at_a_time = if on_node { AT_A_TIME } else { 1 };
        let (own, call) = (self.team.rank(), self.next_call);
        self.next_call += 1;
        self.team.barrier()?;
        let (comm, tag) = (&*self.comm, Tag { call, lane: Lane::Data });
        let buffer = &mut self.buffer[..usize::try_from(bytes).unwrap_or(0)];
        let peer = match own {
            0 => other,
            _ if own == other => 0,
            _ => return Ok(None),
        };
        let mut messages = vec![buffer.to_vec(); at_a_time];
        let send = |messages: &mut Vec<Vec<u8>>| {
            messages.drain(..).try_for_each(|message| comm.send(peer, tag, message))
        };
        let mut receive = |messages: &mut Vec<Vec<u8>>| {
            (0..at_a_time).try_for_each(|_| {
                let message = block_on(comm, receive(comm, peer, tag))?;
                buffer.copy_from_slice(&message);
                messages.push(message);
                Ok(())
            })
        };
        let mut seconds = Vec::new();
        for _ in 0..rounds {
            let begin = Instant::now();
            let exchanged = match own {
                0 => send(&mut messages).and_then(|()| receive(&mut messages)),
                _ => {
                    messages.clear();
                    receive(&mut messages).and_then(|()| send(&mut messages))
                }
            };
            exchanged.map_err(|error: pario::Error| Failure::Lost(error.to_string()))?;
            let moved = count(u64::try_from(2 * at_a_time).unwrap_or(1));
            seconds.push(begin.elapsed().as_secs_f64() / moved);
        }
        Ok((own == 0).then(|| undisturbed(&mut seconds)))
    }

    /// The plan of a collective write, by the library's own clock.
    fn plan(&mut self, pieces: u64) -> Result<Option<f64>, Failure> {
        let planned = self.plan_once(pieces);
        planned.map(Some).map_err(|error| Failure::during("planning", error))
    }

    fn plan_once(&self, pieces: u64) -> pario::Result<f64> {
        // Pieces of 8 bytes of all ranks in turn; distances differ, so that no loop describes them.
        let ranks = i64::from(self.situation.ranks);
        let own = i64::from(self.team.rank());
        let place = |index: i64| (index * ranks + own) * 8 + index % 3 * ranks * 8;
        let element = Datatype::of::<u64>();
        let last = i64::try_from(pieces).unwrap_or(1);
        let displacements: Vec<i64> = (0..last).map(|index| place(index * 3)).collect();
        let filetype = Datatype::hindexed_block(1, &displacements, &element)?;
        let start = cached_part_bytes(&self.situation) + DIRECT_PART_BYTES;
        let options = pario::File::options().write(true).hint("pario_strategy", "two-phase");
        let file = options.open(self.team.comm(), self.ground.path())?;
        file.set_view(&View::new(start, &element, &filetype))?;
        let data = vec![1u64; displacements.len()];
        file.write_all(Position::Individual, &data)?;
        let planning = file.statistics().total.planning;
        file.close()?;
        Ok(planning.as_secs_f64())
    }
}

/// Makes calls until they are enough, and returns the time of one: the median of short batches, so
/// that a batch in which the system ran another program does not count.
fn repeated(calls: u64, mut call: impl FnMut(u64) -> io::Result<()>) -> io::Result<f64> {
    const BATCH: Duration = Duration::from_micros(100);
    let begin = Instant::now();
    let (mut done, mut batch) = (0, 1);
    let mut seconds = Vec::new();
    while done < calls && begin.elapsed() < ENOUGH {
        let (end, started) = (calls.min(done + batch), Instant::now());
        (done..end).try_for_each(&mut call)?;
        let elapsed = started.elapsed();
        if elapsed < BATCH && end < calls {
            // Too short to be measured well: the next one is longer, and this one is forgotten.
            batch *= 2;
            seconds.clear();
        }
        seconds.push(elapsed.as_secs_f64() / count(end - done));
        done = end;
    }
    Ok(median(&mut seconds))
}

/// Moves `bytes` in steps of `len`, once so that they are where they stay, then several times. The
/// time of a KiB.
fn again(bytes: u64, len: u64, mut step: impl FnMut(u64) -> io::Result<()>) -> io::Result<f64> {
    let mut all = || (0..bytes / len).try_for_each(|index| step(index * len));
    all()?;
    let turns = (TOGETHER_BYTES / bytes).max(1);
    let begin = Instant::now();
    (0..turns).try_for_each(|_| all())?;
    Ok(begin.elapsed().as_secs_f64() / count(turns * (bytes / len) * (len / KIB)))
}

fn median(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What a step takes whose partner is there: the end of the fastest quarter. The others have waited
/// until the system woke a rank that had gone to sleep, which happens now and then.
fn undisturbed(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 4).copied().unwrap_or(f64::NAN)
}

fn count(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

/// The time of a barrier, by a few of them.
fn barrier_seconds(team: &Team<'_>) -> Result<f64, Failure> {
    const BARRIERS: usize = 20;
    let comm = team.comm();
    let on_node = (0..team.size()).filter(|&rank| comm.node(rank) == comm.node(0)).count();
    let cores = comm.cores(comm.node(0));
    if is_oversubscribed(on_node, cores) {
        let per_core = count(on_node.try_into().unwrap_or(0)) / f64::from(cores.max(1));
        return barrier_of_busy_seconds(team, per_core);
    }
    team.barrier()?;
    let mut seconds = [0.0; BARRIERS];
    for one in &mut seconds {
        let begin = Instant::now();
        team.barrier()?;
        *one = begin.elapsed().as_secs_f64();
    }
    Ok(undisturbed(&mut seconds))
}

/// The time of a barrier of ranks that share cores and use memory in between: what they take longer
/// than their work alone. A rank that has to wait for a core finds other bytes in its caches, and
/// one core has nothing to do while the last rank runs on another.
fn barrier_of_busy_seconds(team: &Team<'_>, per_core: f64) -> Result<f64, Failure> {
    const BARRIERS: usize = 60;
    const WORK_BYTES: usize = 256 << 10;
    let (from, mut to) = (vec![1u8; WORK_BYTES], vec![2u8; WORK_BYTES]);
    let (mut work, mut all) = ([0.0; BARRIERS], [0.0; BARRIERS]);
    team.barrier()?;
    for (work, all) in work.iter_mut().zip(&mut all) {
        let begin = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
        *work = begin.elapsed().as_secs_f64();
        team.barrier()?;
        *all = begin.elapsed().as_secs_f64();
    }
    Ok((median(&mut all) - per_core * median(&mut work)).max(0.0))
}

/// From the moment when the last rank comes to a barrier until this one leaves it, if it sleeps
/// there; 0 on other machines.
fn wake_seconds(team: &Team<'_>) -> Result<f64, Failure> {
    const LATE: Duration = Duration::from_micros(200);
    let start = team.start_together()?;
    if team.is_first() {
        while now() < start + LATE {
            std::hint::spin_loop();
        }
    }
    let (came, met, left) = (now(), team.barrier(), now());
    met?;
    let all = team.all(Ok((team.clock(), came)))?;
    let first = all.first().filter(|(clock, _)| *clock == team.clock());
    Ok(first.map_or(0.0, |(_, came)| left.saturating_sub(*came).as_secs_f64()))
}

/// Times of barriers, for about this long.
pub(super) fn barriers(team: &Team<'_>, time: Duration) -> Result<Vec<f64>, Failure> {
    let (begin, mut all) = (Instant::now(), Vec::new());
    loop {
        let seconds = team.all(barrier_seconds(team))?;
        all.extend(seconds.into_iter().reduce(f64::max));
        let over = team.all(Ok(begin.elapsed() >= time))?;
        if over.first() == Some(&true) {
            return Ok(all);
        }
    }
}
