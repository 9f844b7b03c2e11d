//! `pario bench`: strategies against Block I/O, side by side.
//!
//! | file | concept |
//! | --- | --- |
//! | `settings` | what is asked for, and what it means |
//! | `workload` | which bytes each rank has |
//! | `contender` | strategies and levels of requests |
//! | `device` | devices that are emulated |
//! | `page_cache` | a limit on this machine's own page cache |
//! | `team` | the ranks, and what they send each other |
//! | `part` | a rank's memory and its calls |
//! | `opened` | the same calls on files of pario and of MPI |
//! | `pieces` | what is contiguous in the file and in memory |
//! | `measure` | one timed step of all ranks; `measure/plain`: of contenders without pario |
//! | `romio` | what papers 003 and 004 say of ROMIO, in real and in virtual time |
//! | `memory` | the memory of its callers |
//! | `turn` | times and counts of all ranks |
//! | `verify` | the right value of every byte |
//! | `scratch` | the directory of the files, and its removal |
//! | `report` | the table, and JSON |
//!
//! Measurements on a busy machine vary. So in each repetition all contenders, and the reference,
//! are measured in turn, in an order that rotates; and a line shows the repetition with the median
//! time, with all its figures.
//!
//! Every rank runs the same code, on whatever communicator it is given: ranks are threads of this
//! process, or, if a launcher of MPI started it, the processes that were started. The first one
//! makes the file and prints.

mod bed;
pub(crate) mod memory;

pub(crate) mod opened;
mod page_cache;
pub(crate) mod part;
mod report;
pub(crate) mod romio;
pub mod scratch;
mod settings;
pub(crate) mod team;
pub(crate) mod turn;
pub(crate) mod verify;

pub use settings::{Directions, Files, MemoryLayout, Options};

use std::io;
use std::time::Instant;

use crate::scenario::contender::{Contender, Level, Plain, Way};
use crate::scenario::workload::Program;
use bed::{Bed, Bench, Repetition};
use page_cache::PageCache;
use pario::{Communicator, Strategy, Threads};
use report::{Facts, Figure, Line, Report};
use rustix::process::{Signal, getpid, kill_process};
use scratch::Scratch;
use settings::{Settings, Transport, World};
use team::Team;
use turn::Measured;

use crate::failure::Failure;
use crate::sweep;

/// Runs the subcommand.
///
/// # Errors
/// `Usage` if the arguments make no sense together, `Run` if a call failed or a byte was wrong.
pub fn run(options: &Options) -> Result<(), Failure> {
    on_all(options, on_rank)
}

/// Does the same on all ranks, wherever they run; gives what the first rank of this process has.
fn on_all<T: Send>(options: &Options, work: impl Work<T>) -> Result<T, Failure> {
    match pario_mpi::launched() {
        Some(_) if !options.embedded => on_mpi(options, work),
        _ => on_threads(options, work),
    }
}

/// What every rank does.
trait Work<T>: Fn(&Settings, &Team<'_>, Option<&PageCache>) -> Result<T, Failure> + Sync {}

impl<T, F> Work<T> for F where
    F: Fn(&Settings, &Team<'_>, Option<&PageCache>) -> Result<T, Failure> + Sync
{
}

/// Ends the program as Ctrl-C does once nobody can write to its input: `pario study`, which
/// started it, is gone.
pub fn end_with_stdin() {
    let ended = io::copy(&mut io::stdin().lock(), &mut io::sink());
    if ended.is_ok() {
        // This process exists.
        let _ = kill_process(getpid(), Signal::INT);
    }
}

/// Every rank is a thread.
fn on_threads<T: Send>(options: &Options, work: impl Work<T>) -> Result<T, Failure> {
    let settings = Settings::new(options, None)?;
    let mut threads = Threads::new(settings.ranks);
    if let Transport::Threads { nodes, share_memory } = settings.transport {
        threads = threads.nodes(nodes).share_memory(share_memory);
    }
    let page_cache = settings.page_cache_bytes.map(PageCache::new).transpose()?;
    let outcomes = threads.run(|comm| work(&settings, &Team::new(&*comm), page_cache.as_ref()));
    let all = outcomes.into_iter().collect::<Result<Vec<T>, Failure>>()?;
    all.into_iter().next().ok_or_else(|| Failure::Run("there are no ranks".to_owned()))
}

/// This process is a rank. The first rank prints a failure of all ranks.
fn on_mpi<T>(options: &Options, work: impl Work<T>) -> Result<T, Failure> {
    let universe = pario_mpi::initialize().map_err(|error| {
        Failure::Run(format!("{error}\n(--embedded runs the ranks as threads, without MPI)"))
    })?;
    let comm = universe.world();
    let nodes = (0..comm.size()).map(|rank| comm.node(rank) + 1).max().unwrap_or(1);
    let world = World { ranks: comm.size(), nodes, mpi: universe.version() };
    let settings = Settings::new(options, Some(&world));
    let outcome = settings.and_then(|settings| work(&settings, &Team::new(&*comm), None));
    match outcome {
        Err(Failure::Lost(text)) => {
            sweep::say(&format!("rank {}: {text}", comm.rank()));
            universe.abort(1)
        }
        Err(failure) if comm.rank() > 0 => Err(Failure::Told(failure.exit_code())),
        // Once MPI has ended, some launchers end this rank as soon as another one has failed.
        Err(Failure::Run(text)) => {
            sweep::say(&text);
            Err(Failure::Told(1))
        }
        outcome => outcome,
    }
}

/// What every rank does.
fn on_rank(
    settings: &Settings,
    team: &Team<'_>,
    page_cache: Option<&PageCache>,
) -> Result<(), Failure> {
    let scratch = Scratch::new(team, &settings.directory, settings.file_bytes())?;
    let bench = Bench { settings, team, scratch: &scratch, page_cache };
    let per_program = settings.contenders.len() * settings.programs.len();
    let steps = u64::try_from(per_program).unwrap_or(u64::MAX) * u64::from(settings.repeat);
    let report = match team.is_first() {
        true => Report::new(settings, &scratch, steps).map(Some),
        false => Ok(None),
    };
    let (report, begun) = match report {
        Ok(report) => (report, Ok(())),
        Err(failure) => (None, Err(failure)),
    };
    team.agree(begun)?;
    let count = settings.programs.len();
    scratch.results_are(&results_so_far(0, count));
    for (done, program) in (1..).zip(&settings.programs) {
        let measured = measure(bench, program, report.as_ref())?;
        let printed = report.as_ref().map(|report| {
            let parts = program.parts.iter().zip(&measured);
            let mut parts = parts.map(|(part, (facts, lines))| report.lines(&**part, facts, lines));
            scratch.publish(&results_so_far(done, count), || parts.try_for_each(|one| one))
        });
        team.agree(printed.unwrap_or(Ok(())))?;
    }
    team.agree(report.map_or(Ok(()), |report| report.finish()))
}

/// Where the results of a run are that has not ended.
fn results_so_far(done: usize, count: usize) -> String {
    match done {
        0 => format!("none of {count} workloads was measured to its end, so there are no results"),
        _ => format!("the results of {done} of {count} workloads are on stdout"),
    }
}

/// Ways that were run, and where.
pub(crate) struct Ran {
    pub(crate) ranks: u32,
    pub(crate) nodes: u32,
    pub(crate) cores: u32,
    pub(crate) transport: &'static str,
    /// Of each part of each program, in their order.
    pub(crate) parts: Vec<Vec<RanWay>>,
}

/// A way that was run.
pub(crate) struct RanWay {
    pub(crate) strategy: Strategy,
    /// If a number was given.
    pub(crate) phases: Option<u32>,
    pub(crate) write: Option<Measured>,
    pub(crate) read: Option<Measured>,
}

/// Measures strategies without printing them; on every rank.
///
/// # Errors
/// As [`run`].
pub(crate) fn ran(options: &Options) -> Result<Ran, Failure> {
    on_all(options, |settings, team, page_cache| {
        let scratch = Scratch::new(team, &settings.directory, settings.file_bytes())?;
        let bench = Bench { settings, team, scratch: &scratch, page_cache };
        let mut parts = Vec::new();
        for program in &settings.programs {
            let measured = measure(bench, program, None)?;
            parts.extend(measured.into_iter().map(|(_, lines)| ran_ways(lines)));
        }
        let comm = team.comm();
        let nodes = (0..comm.size()).map(|rank| comm.node(rank) + 1).max().unwrap_or(1);
        let (ranks, cores) = (comm.size(), comm.cores(comm.node(0)));
        Ok(Ran { ranks, nodes, cores, transport: comm.transport(), parts })
    })
}

fn ran_ways(lines: Vec<Line>) -> Vec<RanWay> {
    let way = |line: Line| match line.contender {
        Contender::Pario(Way { strategy, phases, .. }) => {
            let measured = |figure: Option<Figure>| figure.map(|figure| figure.measured);
            let (write, read) = (measured(line.write), measured(line.read));
            Some(RanWay { strategy, phases, write, read })
        }
        Contender::BlockIo | Contender::Plain(_) | Contender::Mpi { .. } => None,
    };
    lines.into_iter().filter_map(way).collect()
}

/// One contender's repetitions of one part, or why it has none.
struct Series {
    contender: Contender,
    skipped: Option<String>,
    repetitions: Vec<Repetition>,
}

/// Measures all contenders on one program; what is to say of each part.
fn measure(
    bench: Bench<'_>,
    program: &Program,
    report: Option<&Report<'_>>,
) -> Result<Vec<(Facts, Vec<Line>)>, Failure> {
    let settings = bench.settings;
    let mut bed = Bed::new(bench, program)?;
    let series = |&contender: &Contender| -> Vec<Series> {
        let of_part = |part| {
            let skipped = skip_reason(settings, &bed, part, contender);
            Series { contender, skipped, repetitions: Vec::new() }
        };
        (0..program.parts.len()).map(of_part).collect()
    };
    let mut all: Vec<Vec<Series>> = settings.contenders.iter().map(series).collect();
    let (count, repeat) = (all.len(), usize::try_from(settings.repeat).unwrap_or(usize::MAX));
    let began = Instant::now();
    for repetition in 0..repeat {
        for turn in 0..count {
            let parts = &mut all[(repetition + turn) % count];
            let contender = parts[0].contender;
            let skipped: Vec<bool> = parts.iter().map(|part| part.skipped.is_some()).collect();
            report.inspect(|report| report.begin(program, contender));
            for (part, outcome) in bed.repeat(contender, &skipped)? {
                parts[part].repetitions.push(outcome);
            }
            report.inspect(|report| report.step());
        }
        if is_late(bench, began)? {
            let left = count * (repeat - repetition - 1);
            report.inspect(|report| (0..left).for_each(|_| report.step()));
            break;
        }
    }
    bed.finish()?;
    let facts: Vec<Facts> = bed.parts.iter().map(Facts::of).collect();
    Ok(facts.into_iter().zip(by_part(all).into_iter().map(lines)).collect())
}

/// Whether the time for repetitions is over, by the clock of the first rank.
fn is_late(bench: Bench<'_>, began: Instant) -> Result<bool, Failure> {
    let Some(time_max) = bench.settings.time_max else { return Ok(false) };
    Ok(bench.team.all(Ok(began.elapsed() > time_max))?.first() == Some(&true))
}

/// The same with the parts outside.
fn by_part(all: Vec<Vec<Series>>) -> Vec<Vec<Series>> {
    let mut parts: Vec<Vec<Series>> = Vec::new();
    for contender in all {
        for (part, series) in contender.into_iter().enumerate() {
            if parts.len() <= part {
                parts.push(Vec::new());
            }
            parts[part].push(series);
        }
    }
    parts
}

/// Why a contender is not measured, if it is not.
fn skip_reason(
    settings: &Settings,
    bed: &Bed<'_>,
    part: usize,
    contender: Contender,
) -> Option<String> {
    let way = match contender {
        Contender::BlockIo => return None,
        Contender::Plain(Plain::RomioLike { .. }) => return None,
        // As many calls as level 0 of pario.
        Contender::Plain(Plain::Posix) => {
            Way { strategy: Strategy::Direct, phases: None, level: Level::Pieces }
        }
        Contender::Mpi { level, .. } if !level.is_by_piece() => return None,
        // As many calls as pario has at that level.
        Contender::Mpi { level, .. } => Way { strategy: Strategy::Direct, phases: None, level },
        Contender::Pario(way) => way,
    };
    if way.level == Level::CollectivePieces {
        let (calls, limit) = (bed.parts[part].sizes.calls_max, settings.collective_calls_max?);
        return (calls > limit).then(|| {
            format!("{calls} collective calls (limit {limit}; --collective-calls-max or --all)")
        });
    }
    let (calls, limit) = (bed.storage_calls(part, way), settings.calls_max?);
    let too_many = calls > limit;
    too_many.then(|| format!("about {calls} storage calls (limit {limit}; --all runs it)"))
}

/// Medians and ratios; the reference comes first.
fn lines(all: Vec<Series>) -> Vec<Line> {
    let writes = |one: &Repetition| one.write.clone();
    let reads = |one: &Repetition| one.read.clone();
    let reference = all
        .first()
        .map(|series| (median(&series.repetitions, writes), median(&series.repetitions, reads)));
    let (write_limit, read_limit) = reference.unwrap_or_default();
    let line = |series: Series| {
        let figure = |measured: Option<Measured>, limit: &Option<Measured>| {
            let (measured, limit) = measured.zip(limit.as_ref())?;
            let ratio = measured.whole_seconds() / limit.whole_seconds();
            Some(Figure { measured, ratio })
        };
        Line {
            contender: series.contender,
            repetitions: u32::try_from(series.repetitions.len()).unwrap_or(u32::MAX),
            skipped: series.skipped,
            write: figure(median(&series.repetitions, writes), &write_limit),
            read: figure(median(&series.repetitions, reads), &read_limit),
        }
    };
    all.into_iter().map(line).collect()
}

/// The repetition with the median time; the slower one of two in the middle.
fn median(
    repetitions: &[Repetition],
    way: impl Fn(&Repetition) -> Option<Measured>,
) -> Option<Measured> {
    let mut measured: Vec<Measured> = repetitions.iter().filter_map(way).collect();
    measured.sort_by(|one, two| one.whole_seconds().total_cmp(&two.whole_seconds()));
    let middle = measured.len() / 2;
    measured.into_iter().nth(middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario::CallStatistics;

    fn repetition(write: f64, read: f64) -> Repetition {
        let measured = |seconds| {
            let statistics = CallStatistics::default();
            Some(Measured { seconds, step_seconds: None, statistics, times_rank: 0 })
        };
        Repetition { write: measured(write), read: measured(read) }
    }

    #[test]
    fn a_line_shows_the_median_of_each_direction_and_its_ratio() {
        let series = |contender, repetitions| Series { contender, skipped: None, repetitions };
        let all = vec![
            series(Contender::BlockIo, vec![repetition(2.0, 9.0), repetition(1.0, 4.0)]),
            series(
                Contender::Pario(Way {
                    strategy: pario::Strategy::Auto,
                    phases: None,
                    level: Level::CollectiveView,
                }),
                vec![repetition(9.0, 2.0), repetition(3.0, 1.0), repetition(5.0, 9.0)],
            ),
        ];
        let lines = lines(all);
        let figures = |line: &Line| {
            let (write, read) = (line.write.as_ref().unwrap(), line.read.as_ref().unwrap());
            [write.measured.seconds, write.ratio, read.measured.seconds, read.ratio]
        };
        assert_eq!(figures(&lines[0]), [2.0, 1.0, 9.0, 1.0]);
        assert_eq!(figures(&lines[1]), [5.0, 2.5, 2.0, 2.0 / 9.0]);
    }
}
