//! Runs the program in C on every MPI, on its own MPI-IO and on pario in turn.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::library::{Mpi, Start};
use super::super::report::Outcome;
use super::super::setup::{self, Setup};
use super::super::{Places, launch};
use super::job::{Job, Pace};
use super::output::{self, Figures, Key, Skipped};
use super::record::{self, Line, Side};
use super::{MPIS, NAME, PeersArguments, ScratchPlace, table};

/// Seconds that a run may take for all that is not measured.
const BESIDES_SECONDS: f64 = 120.0;

/// What all measurements need.
pub(super) struct Bench<'a> {
    setup: &'a Setup,
    pub(super) mpis: Vec<&'a Mpi>,
    /// The program for each MPI.
    programs: Vec<PathBuf>,
    pub(super) library: Option<PathBuf>,
    /// Another build of it, to be compared with.
    baseline: Option<PathBuf>,
    pace: Pace,
    repeat: usize,
    limit: Duration,
}

/// What was measured, and what went wrong.
#[derive(Default)]
pub(super) struct Done {
    pub(super) lines: Vec<Line>,
    failed: usize,
}

impl Done {
    /// A line for the end of the log; an error if bytes were wrong or a program failed.
    pub(super) fn outcome(&self) -> Result<String, String> {
        let count = self.lines.len();
        let is_wrong = |line: &&Line| line.seconds.is_some() && !line.verified;
        match (self.lines.iter().filter(is_wrong).count(), self.failed) {
            (0, 0) if count == 0 => Ok("measured".to_owned()),
            (0, 0) => Ok(format!("{count} lines measured, every byte verified")),
            (0, failed) => Err(format!("{failed} calls failed; the other lines are right")),
            (wrong, _) => Err(format!("{wrong} of {count} lines have wrong bytes")),
        }
    }
}

/// Figures of each side of each MPI; those of Block I/O are with the side in whose runs they were
/// measured.
type All = BTreeMap<(usize, Side), BTreeMap<Key, Figures>>;

/// The sides that runs are for, in turn.
const TURNS: [Side; 3] = [Side::Own, Side::Pario, Side::Baseline];

/// The order of a repeat. It alternates: what runs second finds the machine warm.
fn turns(repeat: usize) -> [Side; 3] {
    let mut turns = TURNS;
    if repeat % 2 == 1 {
        turns.reverse();
    }
    turns
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        places: &Places,
        setup: &'a Setup,
        library: Option<PathBuf>,
        arguments: &PeersArguments,
    ) -> Result<Self, String> {
        let wanted = |mpi: &&Mpi| match &arguments.mpi {
            Some(name) => mpi.name == name,
            None => MPIS.contains(&mpi.name),
        };
        let mpis: Vec<&Mpi> = setup.mpis.iter().filter(wanted).collect();
        if mpis.is_empty() {
            let name = arguments.mpi.as_deref().unwrap_or("mpich5 or openmpi5");
            return Err(format!("there is no MPI named {name} here"));
        }
        let programs = mpis.iter().map(|mpi| build(places, mpi, "workloads"));
        let programs = programs.collect::<Result<Vec<PathBuf>, String>>()?;
        let pace = arguments.pace();
        Ok(Bench {
            setup,
            mpis,
            programs,
            library,
            baseline: arguments.baseline()?,
            pace,
            repeat: if arguments.quick { 1 } else { arguments.repeat.unwrap_or(2).max(1) },
            limit: limit(pace, arguments.full),
        })
    }

    /// Measures everything in one directory.
    pub(super) fn run_in(
        &self,
        place: &ScratchPlace,
        arguments: &PeersArguments,
        record: Option<&Path>,
        done: &mut Done,
    ) -> Result<(), String> {
        let batches = arguments.batches();
        let names: Vec<&str> = self.mpis.iter().map(|mpi| mpi.name).collect();
        if !batches.is_empty() {
            print!("\n{}: {}", place.kind, table::head(&names));
        }
        for batch in &batches {
            let all = self.measure(batch, place)?;
            let new = self.lines(batch, &all, &place.kind);
            print!("{}", table::body(&new, &names));
            if let Some(path) = record {
                record::append(path, &new)?;
            }
            done.failed += tell_skipped(batch, &all);
            done.lines.extend(new);
        }
        Ok(())
    }

    /// Runs some jobs on every MPI and on both sides in turn, as often as is cheap.
    fn measure(&self, batch: &[Job], place: &ScratchPlace) -> Result<All, String> {
        let mut all = All::new();
        let mut is_long = BTreeMap::new();
        for repeat in 0..self.repeat {
            for mpi in 0..self.mpis.len() {
                for turn in turns(repeat) {
                    let side = (mpi, turn);
                    let is_there = turn == Side::Own || self.library_of(turn).is_some();
                    if is_long.get(&side) == Some(&true) || !is_there {
                        continue;
                    }
                    let figures = all.entry(side).or_default();
                    let seconds = self.run_once(side, batch, place, figures)?;
                    is_long.insert(side, seconds > self.pace.budget / 2.0);
                }
            }
        }
        Ok(all)
    }

    /// What is preloaded for a side.
    fn library_of(&self, side: Side) -> Option<&Path> {
        match side {
            Side::Own | Side::BlockIo => None,
            Side::Pario => self.library.as_deref(),
            Side::Baseline => self.baseline.as_deref(),
        }
    }

    /// One run of the program; the outcome is how long it took.
    fn run_once(
        &self,
        (mpi, side): (usize, Side),
        batch: &[Job],
        place: &ScratchPlace,
        figures: &mut BTreeMap<Key, Figures>,
    ) -> Result<f64, String> {
        let ranks = batch.first().map_or(1, |job| job.ranks);
        let program = self.programs[mpi].clone();
        let file = place.directory.join("data");
        // The file of a run that was ended is not overwritten, but made again.
        let _ = fs::remove_file(&file);
        let words = [program.into(), file.into()];
        let words = words.into_iter().chain(batch.iter().map(|job| job.word(self.pace).into()));
        let mpi = self.mpis[mpi];
        let library = self.library_of(side);
        let patience = has_too_few_cores(ranks) && mpi.needs_patience();
        let patience = patience.then_some(self.setup.patience.as_path());
        let preload = library.into_iter().chain(patience).map(Path::to_owned).collect();
        let start = Start { ranks, words: words.collect(), env: Vec::new(), preload };
        let finished = launch::launch(mpi, &start, &place.directory, self.limit)?;
        output::collect(&finished.stdout, self.pace.budget, figures)?;
        // For what a run did not reach, the reason of its end is shown.
        let reason = match finished.status {
            None => Some(Skipped::Longer(self.pace.budget)),
            Some(status) if !status.success() => Some(Skipped::Failed),
            Some(_) => None,
        };
        if reason == Some(Skipped::Failed) {
            let name = match side {
                Side::Own | Side::BlockIo => "its own MPI-IO",
                Side::Pario => "pario",
                Side::Baseline => "the baseline",
            };
            println!("FAILED on {} with {name}:\n{}", mpi.name, finished.log);
        }
        for job in 0..batch.len() {
            for direction in ["write", "read"] {
                let key = (job, direction.to_owned(), "mpi".to_owned());
                let entry = figures.entry(key).or_default();
                if entry.done == 0 && entry.skipped.is_none() {
                    entry.skipped.clone_from(&reason);
                }
            }
        }
        Ok(finished.seconds)
    }

    /// What was measured as lines of the record.
    fn lines(&self, batch: &[Job], all: &All, directory: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        for (number, job) in batch.iter().enumerate() {
            for direction in ["write", "read"] {
                for (index, mpi) in self.mpis.iter().enumerate() {
                    let figures = |turn: Side, side: &str| {
                        let key = (number, direction.to_owned(), side.to_owned());
                        all.get(&(index, turn)).and_then(|all| all.get(&key)).cloned()
                    };
                    let block = TURNS.map(|turn| figures(turn, "block").unwrap_or_default());
                    let block = block.into_iter().reduce(together);
                    let sides = TURNS.map(|turn| (turn, figures(turn, "mpi")));
                    for (side, figures) in sides.into_iter().chain([(Side::BlockIo, block)]) {
                        let Some(figures) = figures else { continue };
                        lines.push(to_line(job, mpi.name, (side, direction, directory), &figures));
                    }
                }
            }
        }
        // What was not run and has no limit says nothing.
        lines.retain(|line| line.seconds.is_some() || line.longer_than_seconds.is_some());
        lines
    }
}

/// Figures of Block I/O from runs of two sides.
fn together(mut one: Figures, other: Figures) -> Figures {
    one.seconds.extend(other.seconds);
    one.first_seconds.extend(other.first_seconds);
    one.longest_seconds.extend(other.longest_seconds);
    one.cpu_seconds.extend(other.cpu_seconds);
    one.bytes = one.bytes.max(other.bytes);
    one.wrong_bytes += other.wrong_bytes;
    one
}

/// Prints what was not run for its number of calls; returns how much failed.
fn tell_skipped(batch: &[Job], all: &All) -> usize {
    let figures = || all.values().flatten();
    for (number, job) in batch.iter().enumerate() {
        let calls = figures().find_map(|((index, ..), figures)| match figures.skipped {
            Some(Skipped::Calls(calls)) if *index == number => Some(calls),
            _ => None,
        });
        if let Some(calls) = calls {
            let Job { workload, shape, level, ranks, .. } = job;
            let name = format!("{workload} {shape}");
            println!("{name:25} {level:5} {ranks:5} skipped: {calls} calls on one rank");
        }
    }
    figures().filter(|(_, figures)| figures.skipped == Some(Skipped::Failed)).count()
}

fn to_line(
    job: &Job,
    mpi: &str,
    (side, direction, directory): (Side, &str, &str),
    figures: &Figures,
) -> Line {
    let seconds = figures.median_seconds();
    let longer = match figures.skipped {
        Some(Skipped::Longer(limit)) if seconds.is_none() => Some(limit),
        _ => None,
    };
    Line {
        workload: job.workload.to_owned(),
        shape: job.shape.clone(),
        level: job.level,
        block: job.block,
        ranks: job.ranks,
        mpi: mpi.to_owned(),
        side,
        direction: direction.to_owned(),
        seconds,
        first_seconds: output::median(&figures.first_seconds),
        longest_rank_seconds: output::median(&figures.longest_seconds),
        cpu_seconds: output::median(&figures.cpu_seconds),
        peak_bytes: (side != Side::BlockIo && seconds.is_some()).then_some(figures.peak_bytes),
        bytes: figures.bytes,
        calls: figures.seconds.len().max(usize::from(seconds.is_some())),
        verified: seconds.is_some() && figures.wrong_bytes == 0,
        directory: directory.to_owned(),
        longer_than_seconds: longer,
    }
}

/// How long a run may take: both directions, and as much again for those that a small problem told
/// too well of.
fn limit(pace: Pace, full: bool) -> Duration {
    let factor = if full { 60.0 } else { 3.0 };
    Duration::from_secs_f64(factor * pace.budget + BESIDES_SECONDS)
}

fn has_too_few_cores(ranks: u32) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    usize::try_from(ranks).is_ok_and(|ranks| ranks > cores)
}

/// Compiles a program of this benchmark for an MPI, unless it is newer than its sources.
pub(super) fn build(places: &Places, mpi: &Mpi, name: &str) -> Result<PathBuf, String> {
    let sources = places.package().join("benches/peers");
    let source = sources.join(format!("{name}.c"));
    let directory = places.mpi.join("peers").join(mpi.name);
    let program = directory.join(name);
    if setup::is_newer(&program, &[&source, &sources.join("pattern.h")]) {
        return Ok(program);
    }
    let created = fs::create_dir_all(&directory);
    created.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    let mut command = Command::new(&mpi.mpicc);
    command.args(["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]);
    command.arg(&source).arg("-o").arg(&program).stdin(Stdio::null());
    let output = command.output();
    let output = output.map_err(|error| format!("{}: {error}", mpi.mpicc.display()))?;
    match output.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

impl Bench<'_> {
    /// One run of small problems; every byte must be right.
    pub(super) fn test_once(
        &self,
        pario: bool,
        batch: &[Job],
        place: &ScratchPlace,
    ) -> Result<Outcome, String> {
        let mut figures = BTreeMap::new();
        let side = if pario { Side::Pario } else { Side::Own };
        let seconds = self.run_once((0, side), batch, place, &mut figures)?;
        let through_mpi = figures.iter().filter(|((_, _, side), _)| side == "mpi");
        let faults = through_mpi.filter_map(|((number, direction, _), figures)| {
            let Job { workload, shape, level, .. } = &batch[*number];
            let reason = match (figures.done, figures.wrong_bytes) {
                (0, _) => "was not run to its end",
                (_, 0) => return None,
                _ => "has wrong bytes",
            };
            Some(format!("{workload} {shape}, level {level}, {direction} {reason}"))
        });
        let program = format!("{NAME} {}", if pario { "pario" } else { "native" });
        let faults = faults.collect();
        let note = format!("{} jobs", batch.len());
        Ok(Outcome { program, mpi: self.mpis[0].name, seconds, faults, note })
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::{self, Sizes};
    use super::*;

    #[test]
    fn a_run_may_take_both_budgets_and_more() {
        let pace = Pace { calls: 5, budget: 100.0, probe: true };
        assert!(limit(pace, false) > Duration::from_secs(2 * 100));
        assert!(limit(pace, true) > Duration::from_secs(3600));
    }

    #[test]
    fn what_was_ended_is_longer_than_the_budget_and_not_verified() {
        let sizes = Sizes { quick: true, elements: 1 };
        let job = &job::jobs("dist3d", 3, 4, sizes)[0];
        let place = (Side::Own, "read", "tmpfs");
        let ended = Figures { skipped: Some(Skipped::Longer(7.0)), ..Figures::default() };
        let line = to_line(job, "mpich5", place, &ended);
        assert_eq!((line.seconds, line.longer_than_seconds), (None, Some(7.0)));
        assert!(!line.verified);
        // A run that was measured once and ended another time was measured.
        let once = Figures { first_seconds: vec![3.0], done: 1, ..ended };
        let line = to_line(job, "mpich5", place, &once);
        assert_eq!((line.seconds, line.longer_than_seconds, line.calls), (Some(3.0), None, 1));
        assert!(line.verified);
    }
}
