//! `cargo xtask cells`: is `auto` as good as the best fixed strategy, and is its prediction right?
//!
//! The machine is calibrated for threads and for each MPI, on each file system, and again for some
//! seconds before each workload: the speed of a shared machine changes within minutes. A cell is
//! one workload of the papers in one direction, on some ranks, by one transport, on one file
//! system. `pario bench` measures it, verifies every byte, and lets the strategies alternate. One
//! run with all strategies drops those that are far behind; the others run again several times: so
//! the best is found. It and `auto` then run against each other. These runs are others than those
//! that found the best one, because the best of several equal strategies is the one that was lucky.
//! What is compared was measured in one run. Nothing fails because of a time.
//!
//! | module | what it does |
//! | --- | --- |
//! | `job` | what is measured |
//! | `outcome` | what comes out of it, and the table |

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use super::library::{Mpi, Start};
use super::setup::{self, Setup};
use super::{Places, clients, launch};
use crate::open_command;

mod job;
mod outcome;

use job::Job;
use outcome::{Cell, DIRECTIONS, Line, Turns};

const LIMIT: Duration = Duration::from_secs(900);

/// The libraries that are measured with unless another is named.
const MPIS: [&str; 2] = ["mpich5", "openmpi5"];

/// Ranks that calibrate under an MPI.
const CALIBRATING_RANKS: u32 = 2;
/// Ranks of each core that measure barriers of oversubscribed ranks there, before the others
/// measure all else.
const OVERSUBSCRIBING_RANKS: u32 = 4;

/// A fixed strategy that takes longer than this, relative to the best, is measured once.
const FAR_BEHIND: f64 = 1.6;

/// Runs of `auto` against the best, for each run that finds it, and how often they repeat what that
/// one repeats.
const AGAINST: usize = 3;
const REPEATED: usize = 3;

/// What is measured, and how often.
#[derive(Args, Clone)]
pub(crate) struct CellsArguments {
    /// Only by this transport: threads, mpich5 or openmpi5.
    #[arg(long, value_name = "NAME")]
    transport: Option<String>,
    /// Numbers of ranks.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "2,4,16")]
    ranks: Vec<u32>,
    /// Only workloads whose name contains this, such as dist3d.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Bytes of a file, about, with K or M for KiB or MiB.
    #[arg(long, value_name = "SIZE", default_value = "32M")]
    bytes: String,
    /// Runs that find the best strategy of a cell; three times as many compare `auto` with it.
    #[arg(long, value_name = "N", default_value_t = 3)]
    turns: usize,
    /// Repetitions in each run that finds the best, three times as many then; their median counts.
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: usize,
    /// Measures the first call on a file, and not a call whose plan is known.
    #[arg(long)]
    first: bool,
    /// Only in this directory [default: /dev/shm, and the file system of the build].
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Uses the profiles of the last run of this command.
    #[arg(long)]
    keep_profiles: bool,
    /// Writes a line of JSON for each cell.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Where ranks are: in threads of one process, or in processes of an MPI.
type Transport<'a> = Option<&'a Mpi>;

fn name(transport: Transport<'_>) -> &'static str {
    transport.map_or("threads", |mpi| mpi.name)
}

/// What all runs need.
struct CellBench<'a> {
    setup: &'a Setup,
    program: PathBuf,
    /// Where profiles are.
    config: PathBuf,
    arguments: &'a CellsArguments,
}

/// Calibrates, measures and prints; the outcome is a line for the end.
pub(crate) fn run(root: &Path, arguments: &CellsArguments) -> Result<String, String> {
    if arguments.ranks.contains(&0) || arguments.turns == 0 || arguments.repeat == 0 {
        return Err("--ranks, --turns, --repeat: not 0".to_owned());
    }
    let places = Places::new(root);
    let setup = setup::run(&places)?;
    open_command::cargo(&["build", "--release", "--package", "pario-cli"], root)?;
    let config = places.mpi.join("cells");
    let program = places.target.join("release/pario");
    if !arguments.keep_profiles {
        clients::remove(&config)?;
    }
    let bench = CellBench { setup: &setup, program, config, arguments };
    let directories = match &arguments.directory {
        // Ranks of an MPI may start elsewhere.
        Some(directory) => vec![std::path::absolute(directory).map_err(|error| error.to_string())?],
        None => vec![PathBuf::from("/dev/shm"), places.mpi.join("scratch")],
    };
    let mut cells = Vec::new();
    for directory in directories {
        let directory = directory.join(format!("pario-cells-{}", std::process::id()));
        clients::make_empty(&directory)?;
        let measured = bench.measure_in(&directory, &mut cells);
        clients::remove(&directory)?;
        measured?;
    }
    if let Some(path) = &arguments.json {
        outcome::write(path, &cells)?;
    }
    match cells.is_empty() {
        true => Err("no cell has these ranks, this transport and this name".to_owned()),
        false => Ok(outcome::summary(&cells)),
    }
}

impl CellBench<'_> {
    fn transports(&self) -> impl Iterator<Item = Transport<'_>> {
        let mpis = self.setup.mpis.iter().filter(|mpi| MPIS.contains(&mpi.name)).map(Some);
        let wanted = |transport: &Transport<'_>| {
            let wanted = self.arguments.transport.as_ref();
            wanted.is_none_or(|wanted| wanted == name(*transport))
        };
        [None].into_iter().chain(mpis).filter(wanted)
    }

    /// Measures all cells of a directory, and prints each as soon as it is known.
    fn measure_in(&self, directory: &Path, cells: &mut Vec<Cell>) -> Result<(), String> {
        for transport in self.transports() {
            println!("{}: calibrating in {}", name(transport), directory.display());
            // Threads oversubscribe cores by themselves.
            if transport.is_some() {
                self.calibrate(transport, OVERSUBSCRIBING_RANKS * cores(), "3", directory)?;
            }
            self.calibrate(transport, CALIBRATING_RANKS, "10", directory)?;
        }
        print!("{}", outcome::head());
        for &ranks in &self.arguments.ranks {
            for job in job::all(ranks, &self.arguments.bytes) {
                let wanted = self.arguments.only.as_ref();
                if wanted.is_some_and(|pattern| !job.name.contains(pattern.as_str())) {
                    continue;
                }
                for transport in self.transports() {
                    self.calibrate(transport, CALIBRATING_RANKS, "4", directory)?;
                    let new = self.cells(transport, ranks, &job, directory)?;
                    new.iter().for_each(|cell| print!("{}", outcome::row(cell)));
                    cells.extend(new);
                }
            }
        }
        Ok(())
    }

    /// Measures the profile, unless that of the last run of this command is to be used.
    fn calibrate(
        &self,
        transport: Transport<'_>,
        ranks: u32,
        seconds: &str,
        directory: &Path,
    ) -> Result<(), String> {
        if self.arguments.keep_profiles {
            return Ok(());
        }
        let words = ["calibrate", "--json", "--seconds", seconds].map(str::to_owned);
        self.pario(transport, ranks, &words, directory).map(|_| ())
    }

    /// Both directions of a job.
    fn cells(
        &self,
        transport: Transport<'_>,
        ranks: u32,
        job: &Job,
        directory: &Path,
    ) -> Result<Vec<Cell>, String> {
        let all = job::STRATEGIES.map(str::to_owned);
        let first = self.lines(transport, ranks, job, (&all, 1), directory)?;
        // What runs first after Block I/O finds other caches: another strategy in each turn.
        let measure = |strategies: &[String], turns: usize, repeat: usize| {
            let turns = (0..turns).map(|turn| {
                let (first, others) = strategies.split_at(turn % strategies.len());
                let strategies = [others, first].concat();
                let strategies = (&strategies[..], repeat);
                self.lines(transport, ranks, job, strategies, directory)
            });
            turns.collect::<Result<Vec<Vec<Line>>, String>>()
        };
        let CellsArguments { turns, repeat, .. } = *self.arguments;
        let found = measure(&outcome::near(&first, FAR_BEHIND), turns, repeat)?;
        let bests = DIRECTIONS.map(|direction| outcome::best(direction, &found));
        let against = measure(&outcome::with_auto(&bests), AGAINST * turns, REPEATED * repeat)?;
        let cell = |(direction, best): (&'static str, &Option<String>)| {
            let turns = Turns { found: &found, against: &against };
            Cell::new(name(transport), ranks, &job.name, direction, best.as_deref()?, turns)
        };
        Ok(DIRECTIONS.into_iter().zip(&bests).filter_map(cell).collect())
    }

    /// What one run of `pario bench` measured.
    fn lines(
        &self,
        transport: Transport<'_>,
        ranks: u32,
        job: &Job,
        (strategies, repeat): (&[String], usize),
        directory: &Path,
    ) -> Result<Vec<Line>, String> {
        let mut words = vec!["bench".to_owned(), "--json".to_owned()];
        words.extend(job.words.iter().cloned());
        words.extend(["--strategies".to_owned(), strategies.join(",")]);
        words.extend(["--repeat".to_owned(), repeat.to_string()]);
        words.extend(["--ranks".to_owned(), ranks.to_string()]);
        words.extend((!self.arguments.first).then(|| "--planned".to_owned()));
        let text = self.pario(transport, ranks, &words, directory)?;
        outcome::parse(&text)
    }

    /// Runs the program on some ranks; its standard output.
    fn pario(
        &self,
        transport: Transport<'_>,
        ranks: u32,
        words: &[String],
        directory: &Path,
    ) -> Result<String, String> {
        let mut all: Vec<OsString> = vec![self.program.clone().into()];
        all.extend(words.iter().map(OsString::from));
        all.extend(["--dir".into(), directory.as_os_str().to_owned()]);
        let config = ("XDG_CONFIG_HOME".to_owned(), self.config.clone().into_os_string());
        let Some(mpi) = transport else {
            return threads(&all, &config);
        };
        let mut env = mpi.chosen_library();
        env.push(config);
        let patience = mpi.needs_patience().then(|| self.setup.patience.clone());
        let preload = patience.into_iter().collect();
        let start = Start { ranks, words: all, env, preload };
        let finished = launch::launch(&mpi.without_path(), &start, directory, LIMIT)?;
        match finished.status {
            Some(status) if status.success() => Ok(finished.stdout),
            _ => Err(format!("failed on {}:\n{}", mpi.name, finished.log)),
        }
    }
}

fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(u32::MAX / OVERSUBSCRIBING_RANKS)
}

fn threads(words: &[OsString], config: &(String, OsString)) -> Result<String, String> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(&config.0, &config.1).env_remove("PARIO_PROFILE");
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", words[0].display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{words:?}:\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}
