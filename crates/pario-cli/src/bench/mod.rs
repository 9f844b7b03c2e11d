//! `pario bench`: strategies against Block I/O, side by side.
//!
//! | file | concept |
//! | --- | --- |
//! | `arguments` | the command line and what it means |
//! | `workload` | which bytes each rank has |
//! | `measure` | one timed call of all ranks |
//! | `verify` | the right value of every byte |
//! | `scratch` | the file, and its removal |
//! | `report` | the table, and JSON |
//!
//! Measurements on a busy machine wander. So all contenders take turns in each repetition, in an
//! order that moves on, the reference among them; and a line shows the repetition with the median
//! time, with all its figures.

mod arguments;
mod measure;
mod report;
mod scratch;
mod verify;
mod workload;

pub(crate) use arguments::Arguments;

use arguments::Settings;
use measure::{Bed, Contender, Measured, Repetition};
use report::{Figure, Line, Report};
use scratch::Scratch;
use workload::Workload;

use crate::failure::Failure;

/// Runs the subcommand.
///
/// # Errors
/// `Usage` if the arguments make no sense together, `Run` if a call failed or a byte was wrong.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = Settings::new(arguments)?;
    let scratch = Scratch::new(&settings.directory, settings.file_bytes())?;
    let per_workload = contenders(&settings).len() * settings.workloads.len();
    let steps = u64::try_from(per_workload).unwrap_or(u64::MAX) * u64::from(settings.repeat);
    let report = Report::new(&settings, &scratch, steps)?;
    for workload in &settings.workloads {
        let lines = measure(&settings, &scratch, &**workload, &report)?;
        report.lines(&**workload, &lines)?;
    }
    report.finish()
}

/// The reference, and what is compared with it.
fn contenders(settings: &Settings) -> Vec<Contender> {
    let strategies = settings.strategies.iter().map(|&strategy| Contender::Strategy(strategy));
    std::iter::once(Contender::BlockIo).chain(strategies).collect()
}

/// One contender's repetitions, or why it has none.
struct Series {
    contender: Contender,
    skipped: Option<String>,
    repetitions: Vec<Repetition>,
}

/// Measures all contenders on one workload.
fn measure(
    settings: &Settings,
    scratch: &Scratch,
    workload: &dyn Workload,
    report: &Report<'_>,
) -> Result<Vec<Line>, Failure> {
    let mut bed = Bed::new(settings, scratch, workload)?;
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
                report.begin(workload, series.contender);
                series.repetitions.push(bed.repeat(series.contender)?);
            }
            report.step();
        }
    }
    Ok(lines(all))
}

/// Why a contender is not measured, if it is not.
fn skip_reason(settings: &Settings, bed: &Bed<'_>, contender: Contender) -> Option<String> {
    let Contender::Strategy(strategy) = contender else { return None };
    let (calls, limit) = (bed.storage_calls(strategy), settings.calls_max?);
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
