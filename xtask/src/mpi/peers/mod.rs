//! `cargo xtask peers`: pario beside the MPI libraries' own MPI-IO.
//!
//! One program in C (`crates/pario-mpi/benches/peers/workloads.c`) runs in turn on a library's own
//! MPI-IO and on pario, on each MPI, and measures Block I/O besides; what is compared was measured
//! in one go on one machine. Every byte is verified, outside of the times. Nothing fails because of
//! a time: what takes too long is not run or ended, and counts as longer than its limit.
//!
//! | module | what it does |
//! | --- | --- |
//! | `job` | what is measured |
//! | `output` | what the program prints |
//! | `record`, `table`, `plot` | what is kept, shown and drawn |
//! | `overhead` | what one call costs |

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use super::library::{Mpi, Start};
use super::report::{Outcome, Report};
use super::setup::{self, Setup};
use super::{MpiTestArguments, Places, clients, launch};

mod job;
mod output;
mod overhead;
mod plot;
mod record;
mod table;

use job::{Job, Pace, Sizes};
use output::{Figures, Key, Skipped};
use record::{Line, Side};

/// The name of the quick run among the tests.
pub(super) const NAME: &str = "peers";

/// The libraries that are compared unless another is named.
const MPIS: [&str; 2] = ["mpich5", "openmpi5"];

/// What a default directory must have free: the largest file is half of it.
const FREE_BYTES: u64 = 1 << 30;

/// Seconds that a run may take for all that is not measured.
const BESIDES_SECONDS: f64 = 120.0;

/// How much is measured.
#[derive(Args, Clone)]
pub(crate) struct PeersArguments {
    /// Only with this MPI, for example mpich5.
    #[arg(long, value_name = "NAME")]
    mpi: Option<String>,
    /// Runs of the program for each line, native and under pario in turn [default: 2, overhead 5].
    /// What takes more than half of the budget is run once.
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Calls after the first in each run; their median is told.
    #[arg(long, value_name = "N", default_value_t = 5)]
    calls: u32,
    /// Where the files are written [default: /dev/shm, and the file system of the build].
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Numbers of ranks [default: 4,16; overhead 1,2].
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    ranks: Vec<u32>,
    /// Only these: block-cyclic, dist3d, btio, unstruc, stem2, contiguous, small, overhead.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Levels of the ROMIO papers: 0 independent calls for each piece, 2 independent calls with a
    /// view, 3 collective calls with a view.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = job::LEVELS)]
    levels: Vec<u32>,
    /// Elements of the workload unstruc, 64 bytes each.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    elements: u64,
    /// Seconds for one direction of a line; what a smaller problem says to take longer is not run.
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    budget: f64,
    /// Runs also what takes longer, once (ROMIO with blocks of 4 bytes takes minutes).
    #[arg(long)]
    full: bool,
    /// Small problems, one run of all of them on 4 ranks: whether everything works.
    #[arg(long, conflicts_with_all = ["full", "record"])]
    quick: bool,
    /// Adds what was measured to benchmarks/record/MACHINE/DATE-peers.jsonl.
    #[arg(long)]
    record: bool,
    /// The drop-in library [default: build it].
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Measures nothing; prints the table of a record.
    #[arg(long, value_name = "RECORD", exclusive = true)]
    table: Option<PathBuf>,
    /// Measures nothing; draws a record as SVG.
    #[arg(long, num_args = 2, value_names = ["RECORD", "SVG"], exclusive = true)]
    plot: Option<Vec<PathBuf>>,
}

/// What all measurements need.
struct Bench<'a> {
    setup: &'a Setup,
    mpis: Vec<&'a Mpi>,
    /// The program for each MPI.
    programs: Vec<PathBuf>,
    library: Option<PathBuf>,
    pace: Pace,
    repeat: usize,
    limit: Duration,
}

/// Where files are written.
struct Place {
    directory: PathBuf,
    kind: String,
}

/// Figures of each side (`false` own, `true` pario) of each MPI.
type All = BTreeMap<(usize, bool), BTreeMap<Key, Figures>>;

/// Measures and prints; the outcome is a line for the end.
pub(crate) fn run(root: &Path, arguments: &PeersArguments) -> Result<String, String> {
    if let Some(record) = &arguments.table {
        print!("{}", table::whole(&record::read(record)?));
        return Ok(format!("as {} says", record.display()));
    }
    if let Some([record, svg]) = arguments.plot.as_deref() {
        plot::draw(&record::read(record)?, svg)?;
        return Ok(format!("{} is drawn", svg.display()));
    }
    arguments.check()?;
    let places = Places::new(root);
    let setup = setup::run(&places)?;
    let test = MpiTestArguments { library: arguments.library.clone(), ..Default::default() };
    let library = clients::drop_in(&places, &test, &mut Vec::new())?;
    let library = library.ok_or("there is no drop-in library")?;
    let bench = Bench::new(&places, &setup, Some(library), arguments)?;
    let mut lines = Vec::new();
    let record = arguments.record.then(|| record::path(root));
    let scratch = arguments.places(&places)?;
    for place in &scratch {
        let outcome = bench.run_in(place, arguments, record.as_deref(), &mut lines);
        clients::remove(&place.directory)?;
        outcome?;
    }
    if !lines.is_empty() {
        print!("{}", table::summary(&lines));
    }
    let wanted = arguments.workloads.iter().any(|name| name == overhead::NAME);
    if wanted || (arguments.workloads.is_empty() && !arguments.quick) {
        overhead::run(&places, &bench, arguments)?;
    }
    let wrong = lines.iter().filter(|line| line.seconds.is_some() && !line.verified).count();
    match wrong {
        0 => Ok(format!("{} lines measured, every byte verified", lines.len())),
        wrong => Err(format!("{wrong} of {} lines have wrong bytes", lines.len())),
    }
}

impl PeersArguments {
    /// Small problems on 4 ranks.
    fn quick() -> Self {
        Self {
            mpi: None,
            repeat: None,
            calls: 1,
            directory: None,
            ranks: Vec::new(),
            workloads: Vec::new(),
            levels: job::LEVELS.to_vec(),
            elements: 1_000_000,
            budget: 120.0,
            full: false,
            quick: true,
            record: false,
            library: None,
            table: None,
            plot: None,
        }
    }

    fn check(&self) -> Result<(), String> {
        let known = |name: &String| {
            job::WORKLOADS.contains(&name.as_str())
                || [job::SMALL, overhead::NAME].contains(&&**name)
        };
        if let Some(name) = self.workloads.iter().find(|name| !known(name)) {
            return Err(format!("there is no workload {name}; see cargo xtask peers --help"));
        }
        if let Some(level) = self.levels.iter().find(|level| !job::LEVELS.contains(level)) {
            return Err(format!("there is no level {level}, only 0, 2 and 3"));
        }
        if self.ranks.contains(&0) {
            return Err("there must be at least one rank".to_owned());
        }
        if self.elements < 1 || self.elements > 1 << 30 {
            return Err("--elements: not between 1 and 2^30".to_owned());
        }
        match self.budget > 0.0 && self.budget < 1e6 {
            true => Ok(()),
            false => Err("--budget: not between 0 and a million seconds".to_owned()),
        }
    }

    fn wants(&self, workload: &str) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|name| name == workload)
    }

    fn pace(&self) -> Pace {
        match (self.quick, self.full) {
            (true, _) => Pace { calls: 2, budget: self.budget, probe: false },
            (_, true) => Pace { calls: self.calls, budget: self.budget, probe: false },
            _ => Pace { calls: self.calls, budget: self.budget, probe: true },
        }
    }

    /// The jobs in the order in which they are measured; what is in one list runs in one go.
    fn batches(&self) -> Vec<Vec<Job>> {
        let sizes = Sizes { quick: self.quick, elements: self.elements };
        let ranks = match (self.ranks.is_empty(), self.quick) {
            (true, true) => vec![4],
            (true, false) => vec![4, 16],
            _ => self.ranks.clone(),
        };
        let names = job::WORKLOADS.into_iter().chain([job::SMALL]);
        let mut jobs = Vec::new();
        for name in names.filter(|name| self.wants(name)) {
            for &level in &self.levels {
                for &ranks in &ranks {
                    jobs.extend(job::jobs(name, level, ranks, sizes));
                }
            }
        }
        match self.quick {
            false => jobs.into_iter().map(|job| vec![job]).collect(),
            true => {
                let of = |ranks: &u32| {
                    jobs.iter().filter(|job| job.ranks == *ranks).cloned().collect::<Vec<Job>>()
                };
                ranks.iter().map(of).filter(|batch| !batch.is_empty()).collect()
            }
        }
    }

    /// The directories to write in; those of before are gone.
    fn places(&self, places: &Places) -> Result<Vec<Place>, String> {
        let shared = PathBuf::from("/dev/shm");
        let build = places.mpi.join("scratch");
        let mut wanted = match (&self.directory, self.quick) {
            (Some(directory), _) => vec![directory.clone()],
            (None, true) => vec![build],
            (None, false) => vec![shared.clone(), build],
        };
        if self.directory.is_none() && wanted.contains(&shared) && free_bytes(&shared) < FREE_BYTES
        {
            println!("skipped: {}: less than 1 GiB is free there", shared.display());
            wanted.retain(|directory| *directory != shared);
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let place = |directory: PathBuf| {
            let directory = directory.join(format!("pario-peers-{}", std::process::id()));
            clients::make_empty(&directory)?;
            let real = directory.canonicalize();
            let directory = real.map_err(|error| format!("{}: {error}", directory.display()))?;
            let kind = record::file_system(&mounts, &directory);
            Ok(Place { directory, kind })
        };
        wanted.into_iter().map(place).collect()
    }
}

/// What is free on the file system of a directory.
fn free_bytes(directory: &Path) -> u64 {
    let free = |stat: rustix::fs::StatVfs| stat.f_bavail.saturating_mul(stat.f_frsize);
    rustix::fs::statvfs(directory).map_or(0, free)
}

impl<'a> Bench<'a> {
    fn new(
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
            return Err("there is no such MPI here".to_owned());
        }
        let programs = mpis.iter().map(|mpi| build(places, mpi, "workloads"));
        let programs = programs.collect::<Result<Vec<PathBuf>, String>>()?;
        let pace = arguments.pace();
        Ok(Bench {
            setup,
            mpis,
            programs,
            library,
            pace,
            repeat: if arguments.quick { 1 } else { arguments.repeat.unwrap_or(2).max(1) },
            limit: limit(pace, arguments.full),
        })
    }

    /// Measures everything in one directory.
    fn run_in(
        &self,
        place: &Place,
        arguments: &PeersArguments,
        record: Option<&Path>,
        lines: &mut Vec<Line>,
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
            lines.extend(new);
        }
        Ok(())
    }

    /// Runs some jobs on every MPI and on both sides in turn, as often as is cheap.
    fn measure(&self, batch: &[Job], place: &Place) -> Result<All, String> {
        let mut all = All::new();
        let mut is_long = BTreeMap::new();
        for _ in 0..self.repeat {
            for mpi in 0..self.mpis.len() {
                for pario in [false, true] {
                    let side = (mpi, pario);
                    if is_long.get(&side) == Some(&true) || (pario && self.library.is_none()) {
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

    /// One run of the program; the outcome is how long it took.
    fn run_once(
        &self,
        (mpi, pario): (usize, bool),
        batch: &[Job],
        place: &Place,
        figures: &mut BTreeMap<Key, Figures>,
    ) -> Result<f64, String> {
        let ranks = batch.first().map_or(1, |job| job.ranks);
        let program = self.programs[mpi].clone();
        let file = place.directory.join("data");
        let words = [program.into(), file.into()];
        let words = words.into_iter().chain(batch.iter().map(|job| job.word(self.pace).into()));
        let mpi = self.mpis[mpi];
        let library = self.library.as_deref().filter(|_| pario);
        let patience = has_too_few_cores(ranks) && mpi.needs_patience();
        let patience = patience.then_some(self.setup.patience.as_path());
        let preload = library.into_iter().chain(patience).map(Path::to_owned).collect();
        let start = Start { ranks, words: words.collect(), env: Vec::new(), preload };
        let finished = launch::launch(mpi, &start, &place.directory, self.limit)?;
        output::collect(&finished.stdout, self.pace.budget, figures)?;
        // What a run did not come to is told by what ended it.
        let reason = match finished.status {
            None => Some(Skipped::Longer(self.pace.budget)),
            Some(status) if !status.success() => Some(Skipped::Failed),
            Some(_) => None,
        };
        if reason == Some(Skipped::Failed) {
            let side = if pario { "pario" } else { "its own MPI-IO" };
            println!("FAILED on {} with {side}:\n{}", mpi.name, finished.log);
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
                    let figures = |pario: bool, side: &str| {
                        let key = (number, direction.to_owned(), side.to_owned());
                        all.get(&(index, pario)).and_then(|all| all.get(&key)).cloned()
                    };
                    let mut block = figures(false, "block").unwrap_or_default();
                    let other = figures(true, "block").unwrap_or_default();
                    block.seconds.extend(other.seconds);
                    block.first_seconds.extend(other.first_seconds);
                    block.cpu_seconds.extend(other.cpu_seconds);
                    block.bytes = block.bytes.max(other.bytes);
                    block.wrong_bytes += other.wrong_bytes;
                    let sides = [
                        (Side::Own, figures(false, "mpi")),
                        (Side::Pario, figures(true, "mpi")),
                        (Side::BlockIo, Some(block)),
                    ];
                    for (side, figures) in sides {
                        let Some(figures) = figures else { continue };
                        lines.push(to_line(job, mpi.name, (side, direction, directory), &figures));
                    }
                }
            }
        }
        // What was not run and has no limit tells nothing.
        lines.retain(|line| line.seconds.is_some() || line.longer_than_seconds.is_some());
        lines
    }
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
fn build(places: &Places, mpi: &Mpi, name: &str) -> Result<PathBuf, String> {
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

/// Runs all workloads in small on the libraries' own MPI-IO and on pario, so that the program keeps
/// working: every byte must be right, and no time matters.
pub(super) fn test(
    places: &Places,
    setup: &Setup,
    library: Option<&Path>,
    report: &mut Report,
) -> Result<(), String> {
    let arguments = PeersArguments::quick();
    for mpi in setup.mpis.iter().filter(|mpi| MPIS.contains(&mpi.name)) {
        let arguments = PeersArguments { mpi: Some(mpi.name.to_owned()), ..arguments.clone() };
        let bench = Bench::new(places, setup, library.map(Path::to_owned), &arguments)?;
        for place in arguments.places(places)? {
            for pario in [false, true] {
                if pario && library.is_none() {
                    continue;
                }
                for batch in arguments.batches() {
                    report.add(bench.test_once(pario, &batch, &place)?);
                }
            }
            clients::remove(&place.directory)?;
        }
    }
    Ok(())
}

impl Bench<'_> {
    fn test_once(&self, pario: bool, batch: &[Job], place: &Place) -> Result<Outcome, String> {
        let mut figures = BTreeMap::new();
        let seconds = self.run_once((0, pario), batch, place, &mut figures)?;
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
    use super::*;

    #[test]
    fn a_long_measurement_has_one_job_in_each_run() {
        let quick = PeersArguments::quick();
        assert_eq!(quick.batches().len(), 1);
        let long = PeersArguments { quick: false, levels: vec![3], ..quick };
        let batches = long.batches();
        assert!(batches.iter().all(|batch| batch.len() == 1));
        // 5 blocks, 3 arrays, 2 contiguous and 4 others, on 4 and on 16 ranks.
        assert_eq!(batches.len(), 28);
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let quick = PeersArguments::quick();
        assert_eq!(quick.check(), Ok(()));
        let words = |workload: &str| PeersArguments {
            workloads: vec![workload.to_owned()],
            ..PeersArguments::quick()
        };
        assert!(words("overhead").check().is_ok());
        assert!(words("blocks").check().is_err());
        assert!(PeersArguments { levels: vec![1], ..quick.clone() }.check().is_err());
        assert!(PeersArguments { budget: 0.0, ..quick.clone() }.check().is_err());
        assert!(PeersArguments { ranks: vec![4, 0], ..quick }.check().is_err());
    }

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
