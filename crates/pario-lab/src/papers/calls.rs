//! Programs of the papers in virtual time: calls of pario, of ROMIO as the papers have it, and of
//! the system.

use std::ops::Range;
use std::sync::Arc;

use pario::model::Direction;
use pario::model::profile::Profile;
use pario::storage::OpenMode;
use pario::{CallStatistics, File, Hints};

use super::count::Request;
use crate::failure::Failure;
use crate::measure::memory::{CallerMemory, Nothing};
use crate::measure::romio::{Disk, Romio};
use crate::measure::team::Team;
use crate::scenario::contender::Plain;
use crate::scenario::pattern::Pattern;
use crate::scenario::pieces::Piece;
use crate::scenario::stage::Stage;
use crate::simulate::{NAME, RankTaken, StageRank, Taken, run};

fn failed(error: pario::Error) -> Failure {
    Failure::during("a call in virtual time", error)
}

/// Calls of pario on a file.
///
/// # Errors
/// A call failed.
pub(super) fn pario(
    stage: &Stage,
    direction: Direction,
    request: &Request<'_>,
) -> Result<Taken, Failure> {
    let longest = (0..request.pattern.ranks).map(|rank| request.pattern.bytes_of(rank)).max();
    let zeros = Arc::new(vec![0; length(longest.unwrap_or(0))]);
    run(stage, request.pattern.reach().end, |rank| {
        let hints: Vec<(String, String)> =
            request.hints.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let (pattern, zeros) = (request.pattern.clone(), zeros.clone());
        let program = RankCalls { pattern, level: request.level, direction, hints, zeros };
        async move { program.on_rank(&rank).await }
    })
}

struct RankCalls {
    pattern: Pattern,
    level: u8,
    direction: Direction,
    hints: Vec<(String, String)>,
    /// What all ranks write. Nobody touches it.
    zeros: Arc<Vec<u8>>,
}

impl RankCalls {
    async fn on_rank(&self, rank: &StageRank) -> Result<RankTaken, Failure> {
        let options = File::options().read(true).write(true).create(true);
        // Not the profile that is stored for this machine.
        let profile = Profile::built_in("ssd").unwrap_or_default();
        let options = options.driver(rank.driver.clone()).profile(profile);
        let options = self
            .hints
            .iter()
            .fold(options, |options, (key, value)| options.hint(key.clone(), value.clone()));
        let file = options.open_async(&*rank.comm, NAME).await.map_err(failed)?;
        let number = rank.comm.rank();
        if self.level >= 2 {
            let view = self.pattern.workload.view(number).map_err(failed)?;
            file.handle().set_view(&view).await.map_err(failed)?;
        }
        let began = rank.start().await?;
        match self.level {
            0 | 1 => self.pieces(&file, number).await,
            _ => self.whole(&file, number).await,
        }
        .map_err(failed)?;
        let measured = rank.end(began, file.statistics().total);
        file.handle().close().await.map_err(failed)?;
        Ok(measured)
    }

    /// A call for each piece; at level 1 all ranks make as many.
    async fn pieces(&self, file: &File, rank: u32) -> pario::Result<()> {
        let own = pieces(&self.pattern, rank);
        let longest = own.iter().map(|run| run.end - run.start).max().unwrap_or(0);
        let mut target = self.room(longest);
        let count = match self.level {
            0 => own.len(),
            _ => {
                let counts = (0..self.pattern.ranks).map(|rank| pieces(&self.pattern, rank).len());
                counts.max().unwrap_or(0)
            }
        };
        for run in own.into_iter().chain(std::iter::repeat(0..0)).take(count) {
            let len = length(run.end - run.start);
            let (place, handle) = (run.start, file.handle());
            match (self.level, self.direction) {
                (0, Direction::Write) => handle.write(place, &self.zeros[..len]).await?,
                (0, Direction::Read) => handle.read(place, &mut target[..len]).await?,
                (_, Direction::Write) => handle.write_all(place, &self.zeros[..len]).await?,
                (_, Direction::Read) => handle.read_all(place, &mut target[..len]).await?,
            };
        }
        Ok(())
    }

    /// One call for all pieces.
    async fn whole(&self, file: &File, rank: u32) -> pario::Result<()> {
        let bytes = self.pattern.bytes_of(rank);
        let (source, mut target) = (&self.zeros[..length(bytes)], self.room(bytes));
        match (self.level, self.direction) {
            (2, Direction::Write) => file.handle().write(0, source).await?,
            (2, Direction::Read) => file.handle().read(0, &mut target[..]).await?,
            (_, Direction::Write) => file.handle().write_all(0, source).await?,
            (_, Direction::Read) => file.handle().read_all(0, &mut target[..]).await?,
        };
        Ok(())
    }

    /// Room for what is read.
    fn room(&self, bytes: u64) -> Vec<u8> {
        match self.direction {
            Direction::Read => vec![0; length(bytes)],
            Direction::Write => Vec::new(),
        }
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// What a rank asks for, one after the other: the pieces of its calls, if the program has several.
fn pieces(pattern: &Pattern, rank: u32) -> Vec<Range<u64>> {
    match pattern.workload.calls(rank) {
        Some(_) => pattern.calls(rank).into_iter().flatten().collect(),
        None => pattern.runs(rank).collect(),
    }
}

/// A collective write through some phases, as the papers have it: all bytes of a phase in one
/// message.
///
/// # Errors
/// A call failed.
pub(super) fn phased(stage: &Stage, pattern: &Pattern, phases: u32) -> Result<Taken, Failure> {
    let domain_bytes = pattern.reach().end.div_ceil(1 << phases);
    let request = Request::collective(pattern, "multi-phase").hint("pario_phases", phases);
    pario(stage, Direction::Write, &in_one_window(request, domain_bytes))
}

/// With windows of this size that end anywhere.
pub(super) fn in_one_window(request: Request<'_>, bytes: u64) -> Request<'_> {
    let request = request.hint("cb_buffer_size", bytes).hint("pario_exact_windows", true);
    request.hint("striping_unit", 1)
}

/// A collective write in lists of PVFS.
///
/// # Errors
/// A call failed.
pub(super) fn list(stage: &Stage, pattern: &Pattern) -> Result<Taken, Failure> {
    pario(&stage.with_lists(), Direction::Write, &Request::collective(pattern, "list"))
}

fn piece(run: Range<u64>) -> Piece {
    Piece { offset: run.start, memory: 0, len: run.end - run.start }
}

/// What ROMIO of the papers has by default: 4 MB for windows and sieving reads, 512 KB for sieving
/// writes; every rank is an aggregator (paper 003, section 6).
pub(super) fn romio_hints() -> Hints {
    let mut hints = Hints::default();
    (hints.collective_buffer_bytes, hints.sieve_read_buffer_bytes) = (4 << 20, 4 << 20);
    hints.sieve_write_buffer_bytes = 512 << 10;
    hints
}

/// A contender without pario.
///
/// # Errors
/// An access failed.
pub(super) fn plain(
    stage: &Stage,
    pattern: &Pattern,
    direction: Direction,
    plain: Plain,
) -> Result<Taken, Failure> {
    plain_with(stage, pattern, direction, (plain, romio_hints()))
}

/// The same with other hints.
///
/// # Errors
/// An access failed.
pub(super) fn plain_with(
    stage: &Stage,
    pattern: &Pattern,
    direction: Direction,
    (plain, hints): (Plain, Hints),
) -> Result<Taken, Failure> {
    let nothing = Nothing::default();
    run(stage, pattern.reach().end, |rank| {
        let (pattern, hints, nothing) = (pattern.clone(), hints.clone(), nothing.clone());
        async move {
            let number = rank.comm.rank();
            let calls: Vec<Vec<Piece>> = match plain {
                Plain::Posix => vec![pieces(&pattern, number).into_iter().map(piece).collect()],
                Plain::RomioLike { .. } => calls(&pattern, number),
            };
            let mut disk = open(&rank);
            let team = Team::new(&*rank.comm);
            let began = rank.start().await?;
            let mut memory = CallerMemory::Nothing(nothing);
            for pieces in calls {
                let mut romio = Romio::new(&team, &hints, &mut disk);
                match plain {
                    Plain::Posix => disk.each(direction, pieces, &mut memory).await,
                    Plain::RomioLike { collective: false } => {
                        romio.sieve(direction, &pieces, &mut memory).await;
                    }
                    Plain::RomioLike { collective: true } => {
                        romio.collective(direction, &pieces, &mut memory).await?;
                    }
                }
            }
            end(&rank, began, disk)
        }
    })
}

/// The pieces of each call.
fn calls(pattern: &Pattern, rank: u32) -> Vec<Vec<Piece>> {
    match pattern.workload.calls(rank) {
        Some(_) => {
            let calls = pattern.calls(rank).into_iter();
            calls.map(|runs| runs.into_iter().map(piece).collect()).collect()
        }
        None => vec![pattern.runs(rank).map(piece).collect()],
    }
}

fn open<'a>(rank: &'a StageRank) -> Disk<'a> {
    let mode = OpenMode { read: true, write: true, create: true, exclusive: false };
    Disk::new(&*rank.comm, rank.driver.open(NAME.as_ref(), mode))
}

fn end(rank: &StageRank, began: std::time::Duration, disk: Disk<'_>) -> Result<RankTaken, Failure> {
    let ended: CallStatistics = disk.close().map_err(failed)?;
    Ok(rank.end(began, ended))
}

/// Block I/O: every rank has its bytes in one piece of the file.
///
/// # Errors
/// An access failed.
pub(super) fn block(
    stage: &Stage,
    pattern: &Pattern,
    direction: Direction,
) -> Result<Taken, Failure> {
    let mut end = 0;
    let block = |rank| {
        let start = end;
        end += pattern.bytes_of(rank);
        vec![(direction, start..end)]
    };
    let blocks = (0..pattern.ranks).map(block).collect();
    accesses(stage, pattern.bytes(), &[blocks])
}

/// Accesses of a rank, one after the other.
pub(super) type Accesses = Vec<(Direction, Range<u64>)>;

/// Ranks make accesses of the system, part after part; the last part is measured.
///
/// # Errors
/// An access failed.
pub(super) fn accesses(
    stage: &Stage,
    file_bytes: u64,
    parts: &[Vec<Accesses>],
) -> Result<Taken, Failure> {
    let nothing = Nothing::default();
    run(stage, file_bytes, |rank| {
        let number = length(u64::from(rank.comm.rank()));
        let parts: Vec<Accesses> = parts.iter().map(|part| part[number].clone()).collect();
        let mut memory = CallerMemory::Nothing(nothing.clone());
        async move {
            let mut began = rank.start().await?;
            let mut disk = open(&rank);
            for part in parts {
                began = rank.start().await?;
                for (direction, run) in part {
                    disk.each(direction, [piece(run)], &mut memory).await;
                }
            }
            end(&rank, began, disk)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario::model::presets::Link;

    /// A pattern with holes between all bytes of a rank, none in the file.
    fn cyclic(ranks: u32) -> Pattern {
        Pattern::new("block-cyclic", ranks, &[("Nx", 1 << 18), ("Bx", 24)]).unwrap()
    }

    fn seconds(stage: &Stage, pattern: &Pattern, collective: bool) -> f64 {
        let romio = Plain::RomioLike { collective };
        plain(stage, pattern, Direction::Write, romio).unwrap().seconds
    }

    /// The same on every run, and slower with less bandwidth.
    #[test]
    fn times_follow_from_the_stage_alone() {
        let (fast, pattern) = (Stage::mpp(4), cyclic(4));
        let mut slow = fast;
        slow.machine.network.bytes_per_s /= 10.0;
        let time = |stage: &Stage| seconds(stage, &pattern, true);
        assert_eq!(time(&fast).to_bits(), time(&fast).to_bits());
        assert!(time(&slow) > time(&fast));
    }

    /// Two ranks that lock the same window wait for each other.
    #[test]
    fn locks_make_sieving_ranks_wait() {
        let time = |ranks| seconds(&Stage::mpp(ranks), &cyclic(ranks), false);
        assert!(time(2) > time(1));
    }

    /// Copies, lists of offsets and calls take time of processors.
    #[test]
    fn work_of_processors_takes_time() {
        let (stage, pattern) = (Stage::pvfs(4, 4, Link::MYRINET_2000), cyclic(4));
        let time = |change: fn(&mut Stage)| {
            let mut dear = stage;
            change(&mut dear);
            (seconds(&dear, &pattern, true), phased(&dear, &pattern, 2).unwrap().seconds)
        };
        let (romio, phases) = time(|_| ());
        let copies = time(|stage| stage.costs.copy_piece_us *= 100.0);
        assert!(copies.0 > romio && copies.1 > phases);
        let lists = time(|stage| stage.costs.list_piece_us *= 100.0);
        assert!(lists.0 > romio && (lists.1 - phases).abs() < 1e-12);
        let calls = time(|stage| stage.costs.call_us += 1000.0);
        assert!(calls.0 > romio + 0.0009 && calls.1 > phases + 0.0009);
    }
}
