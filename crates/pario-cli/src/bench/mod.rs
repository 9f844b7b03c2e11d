//! `pario bench`: strategies against Block I/O, side by side.
//!
//! | file | concept |
//! | --- | --- |
//! | `arguments` | the command line and what it means |
//! | `workload` | which bytes each rank has |
//! | `team` | the ranks, and what they tell each other |
//! | `measure` | one timed call of all ranks |
//! | `verify` | the right value of every byte |
//! | `scratch` | the file, and its removal |
//! | `report` | the table, and JSON |
//!
//! Measurements on a busy machine wander. So all contenders take turns in each repetition, in an
//! order that moves on, the reference among them; and a line shows the repetition with the median
//! time, with all its figures.
//!
//! Every rank runs the same code, on whatever communicator it is given: ranks are threads of this
//! process, or, if a launcher of MPI started it, the processes that were started. The first one
//! makes the file and prints.

mod arguments;
mod measure;
mod report;
mod scratch;
mod team;
mod verify;
mod workload;

pub(crate) use arguments::Arguments;

use arguments::{Settings, Transport, World};
use measure::{Bed, Bench, Contender, Measured, Repetition};
use pario::{Communicator, Threads};
use report::{Figure, Line, Report};
use scratch::Scratch;
use team::Team;
use workload::Workload;

use crate::failure::Failure;

/// Runs the subcommand.
///
/// # Errors
/// `Usage` if the arguments make no sense together, `Run` if a call failed or a byte was wrong.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match pario_mpi::launched() {
        Some(_) if !arguments.is_embedded() => on_mpi(arguments),
        _ => on_threads(arguments),
    }
}

/// Every rank is a thread.
fn on_threads(arguments: &Arguments) -> Result<(), Failure> {
    let settings = Settings::new(arguments, None)?;
    let mut threads = Threads::new(settings.ranks);
    if let Transport::Threads { nodes, share_memory } = settings.transport {
        threads = threads.nodes(nodes).share_memory(share_memory);
    }
    let outcomes = threads.run(|comm| on_rank(&settings, &Team::new(&*comm)));
    outcomes.into_iter().collect()
}

/// This process is a rank. A failure of all ranks is told by the first one.
fn on_mpi(arguments: &Arguments) -> Result<(), Failure> {
    let universe = pario_mpi::initialize().map_err(|error| {
        Failure::Run(format!("{error}\n(--embedded runs the ranks as threads, without MPI)"))
    })?;
    let comm = universe.world();
    let nodes = (0..comm.size()).map(|rank| comm.node(rank) + 1).max().unwrap_or(1);
    let world = World { ranks: comm.size(), nodes, mpi: universe.version() };
    let settings = Settings::new(arguments, Some(&world));
    let outcome = settings.and_then(|settings| on_rank(&settings, &Team::new(&*comm)));
    match outcome {
        Err(Failure::Lost(text)) => {
            eprintln!("pario: rank {}: {text}", comm.rank());
            universe.abort(1)
        }
        Err(failure) if comm.rank() > 0 => Err(Failure::Told(failure.exit_code())),
        outcome => outcome,
    }
}

/// What every rank does.
fn on_rank(settings: &Settings, team: &Team<'_>) -> Result<(), Failure> {
    let scratch = Scratch::new(team, &settings.directory, settings.file_bytes())?;
    let bench = Bench { settings, team, scratch: &scratch };
    let per_workload = contenders(settings).len() * settings.workloads.len();
    let steps = u64::try_from(per_workload).unwrap_or(u64::MAX) * u64::from(settings.repeat);
    let report = match team.is_first() {
        true => Report::new(settings, &scratch, steps).map(Some),
        false => Ok(None),
    };
    let (report, begun) = match report {
        Ok(report) => (report, Ok(())),
        Err(failure) => (None, Err(failure)),
    };
    team.agree(begun)?;
    for workload in &settings.workloads {
        let lines = measure(bench, &**workload, report.as_ref())?;
        let printed = report.as_ref().map(|report| report.lines(&**workload, &lines));
        team.agree(printed.unwrap_or(Ok(())))?;
    }
    team.agree(report.map_or(Ok(()), |report| report.finish()))
}

/// The reference, and what is compared with it.
fn contenders(settings: &Settings) -> Vec<Contender> {
    let strategies = settings.strategies.iter().map(|&strategy| Contender::Strategy(strategy));
    let phased = settings.phases.iter().map(|&phases| Contender::Phases(phases));
    std::iter::once(Contender::BlockIo).chain(strategies).chain(phased).collect()
}

/// One contender's repetitions, or why it has none.
struct Series {
    contender: Contender,
    skipped: Option<String>,
    repetitions: Vec<Repetition>,
}

/// Measures all contenders on one workload.
fn measure(
    bench: Bench<'_>,
    workload: &dyn Workload,
    report: Option<&Report<'_>>,
) -> Result<Vec<Line>, Failure> {
    let settings = bench.settings;
    let mut bed = Bed::new(bench, workload)?;
    let series = |contender| {
        let skipped = skip_reason(settings, &bed, contender);
        Series { contender, skipped, repetitions: Vec::new() }
    };
    let mut all: Vec<Series> = contenders(settings).into_iter().map(series).collect();
    let (count, repeat) = (all.len(), usize::try_from(settings.repeat).unwrap_or(usize::MAX));
    for repetition in 0..repeat {
        for turn in 0..count {
            let series = &mut all[(repetition + turn) % count];
            if series.skipped.is_none() {
                report.inspect(|report| report.begin(workload, series.contender));
                series.repetitions.push(bed.repeat(series.contender)?);
            }
            report.inspect(|report| report.step());
        }
    }
    Ok(lines(all))
}

/// Why a contender is not measured, if it is not.
fn skip_reason(settings: &Settings, bed: &Bed<'_>, contender: Contender) -> Option<String> {
    let (strategy, phases) = contender.wanted()?;
    let (calls, limit) = (bed.storage_calls(strategy, phases), settings.calls_max?);
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
            let ratio = measured.seconds / limit.seconds;
            Some(Figure { measured, ratio })
        };
        Line {
            contender: series.contender,
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
    measured.sort_by(|one, two| one.seconds.total_cmp(&two.seconds));
    let middle = measured.len() / 2;
    measured.into_iter().nth(middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario::CallStatistics;

    fn repetition(write: f64, read: f64) -> Repetition {
        let measured = |seconds| Some(Measured { seconds, statistics: CallStatistics::default() });
        Repetition { write: measured(write), read: measured(read) }
    }

    #[test]
    fn a_line_shows_the_median_of_each_direction_and_its_ratio() {
        let series = |contender, repetitions| Series { contender, skipped: None, repetitions };
        let all = vec![
            series(Contender::BlockIo, vec![repetition(2.0, 9.0), repetition(1.0, 4.0)]),
            series(
                Contender::Strategy(pario::Strategy::Auto),
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
