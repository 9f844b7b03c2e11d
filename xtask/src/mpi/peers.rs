//! `cargo xtask peers`: `pario bench` beside the MPI libraries' own MPI-IO, on each of them.
//!
//! Users run `pario bench --contenders pario,mpi` under their own `mpirun`. Developers have several
//! MPI libraries, records, and builds of before: two builds run in turn, so that what is compared
//! was measured on one machine at one time. `pario bench` verifies every byte. Nothing fails
//! because of a time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::library::{Mpi, Start};
use super::setup::{self, Setup};
use super::{Places, clients, launch};
use crate::open_command;

/// The libraries that are measured with unless another is named.
const MPIS: [&str; 2] = ["mpich5", "openmpi5"];

/// What is measured unless it is said.
const WORKLOADS: &str = "block-cyclic dist3d unstruc stem2 ior --seconds-max 20";

const LIMIT: Duration = Duration::from_secs(3600);

/// What is measured.
#[derive(Args, Clone)]
pub(crate) struct PeersArguments {
    /// Only with this MPI, for example mpich4 [default: mpich5 and openmpi5].
    #[arg(long, value_name = "NAME")]
    mpi: Option<String>,
    /// Numbers of ranks.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "4,16")]
    ranks: Vec<u32>,
    /// Who is measured [default: pario,mpi; with --baseline auto].
    #[arg(long, value_name = "NAME,NAME")]
    contenders: Option<String>,
    /// Where the files are written.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    directory: PathBuf,
    /// Adds the results to a file, such as benchmarks/record/MACHINE/DATE-peers.jsonl, instead of
    /// printing them; `pario report` shows it.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Another build of the program pario, measured in turn with this one.
    #[arg(long, value_name = "PARIO", conflicts_with = "record")]
    baseline: Option<PathBuf>,
    /// Runs of each build in turn.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "baseline")]
    turns: usize,
    /// Workloads and options of `pario bench`, after `--` [default: some workloads of the papers].
    #[arg(last = true, value_name = "WORD")]
    words: Vec<String>,
}

/// What all runs need.
struct PeerBench<'a> {
    setup: &'a Setup,
    arguments: &'a PeersArguments,
    contenders: String,
    directory: PathBuf,
}

/// Measures and prints; the outcome is a line for the end.
pub(crate) fn run(root: &Path, arguments: &PeersArguments) -> Result<String, String> {
    let places = Places::new(root);
    let setup = setup::run(&places)?;
    open_command::cargo(&["build", "--release"], root)?;
    let program = places.target.join("release/pario");
    // Ranks start in other directories.
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let baseline = arguments.baseline.as_ref().map(absolute).transpose()?;
    let record = arguments.record.as_ref().map(absolute).transpose()?;
    let default = if baseline.is_some() { "auto" } else { "pario,mpi" };
    let contenders = arguments.contenders.clone().unwrap_or_else(|| default.to_owned());
    let name = format!("pario-peers-{}", std::process::id());
    let directory = absolute(&arguments.directory)?.join(name);
    let bench = PeerBench { setup: &setup, arguments, contenders, directory };
    clients::make_empty(&bench.directory)?;
    let outcome = match &baseline {
        Some(baseline) => bench.in_turn(&program, baseline),
        None => bench.side_by_side(&program, record.as_deref()),
    };
    clients::remove(&bench.directory)?;
    outcome
}

impl PeerBench<'_> {
    /// Each MPI with each number of ranks.
    fn places(&self) -> Result<Vec<(&Mpi, u32)>, String> {
        let PeersArguments { mpi, ranks, .. } = self.arguments;
        let wanted = |one: &&Mpi| match mpi {
            Some(name) => one.name == name,
            None => MPIS.contains(&one.name),
        };
        let mpis = self.setup.mpis.iter().filter(wanted);
        let places: Vec<(&Mpi, u32)> =
            mpis.flat_map(|mpi| ranks.iter().map(move |&ranks| (mpi, ranks))).collect();
        match places.is_empty() {
            true => Err("there is no such MPI here".to_owned()),
            false => Ok(places),
        }
    }

    /// One run for each place, shown or recorded.
    fn side_by_side(&self, program: &Path, record: Option<&Path>) -> Result<String, String> {
        for (mpi, ranks) in self.places()? {
            let text = self.pario(program, mpi, ranks, record.is_some())?;
            match record {
                Some(path) => append(path, &text)?,
                None => println!("{text}"),
            }
        }
        Ok(record.map_or("measured, every byte verified".to_owned(), |path| {
            format!("added to {}; pario report shows it", path.display())
        }))
    }

    /// Both builds in turn at each place.
    fn in_turn(&self, program: &Path, baseline: &Path) -> Result<String, String> {
        println!("{}", head());
        let mut changes = Vec::new();
        for (mpi, ranks) in self.places()? {
            let mut turns = Vec::new();
            for turn in 0..self.arguments.turns {
                let mut both = [baseline, program];
                // What runs second finds the machine warm.
                both.rotate_left(turn % 2);
                let mut lines = Vec::new();
                for program in both {
                    lines.push(parse(&self.pario(program, mpi, ranks, true)?)?);
                }
                lines.rotate_left(turn % 2);
                turns.push(lines);
            }
            for (name, change) in changes_of(&turns) {
                println!("{:9} {ranks:5} {name:45} {}", mpi.name, change.text());
                changes.push(change.ratio);
            }
        }
        let mean = geometric_mean(&changes).ok_or("nothing was measured")?;
        Ok(format!("{mean:.3} times the baseline in the mean of {}", changes.len()))
    }

    /// What `pario bench` prints.
    fn pario(&self, program: &Path, mpi: &Mpi, ranks: u32, json: bool) -> Result<String, String> {
        let mut words: Vec<OsString> = vec![program.into(), "bench".into()];
        words.extend(["--strategies".into(), OsString::from(&self.contenders)]);
        words.extend(["--dir".into(), self.directory.clone().into_os_string()]);
        words.extend(json.then(|| "--json".into()));
        match self.arguments.words.is_empty() {
            true => words.extend(WORKLOADS.split(' ').map(OsString::from)),
            false => words.extend(self.arguments.words.iter().map(OsString::from)),
        }
        let patience = has_too_few_cores(ranks) && mpi.needs_patience();
        let patience = patience.then(|| self.setup.patience.clone());
        let preload = patience.into_iter().collect();
        let start = Start { ranks, words, env: mpi.chosen_library(), preload };
        let finished = launch::launch(&mpi.without_path(), &start, &self.directory, LIMIT)?;
        match finished.status {
            Some(status) if status.success() => Ok(finished.stdout),
            _ => Err(format!("failed on {}:\n{}", mpi.name, finished.log)),
        }
    }
}

fn has_too_few_cores(ranks: u32) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    usize::try_from(ranks).is_ok_and(|ranks| ranks > cores)
}

fn append(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

/// One line of `pario bench --json`.
#[derive(Clone, Debug, Deserialize)]
struct BenchLine {
    workload: String,
    #[serde(default)]
    part: String,
    block: u64,
    level: Option<u8>,
    strategy: String,
    direction: String,
    seconds: f64,
    step_seconds: Option<f64>,
    ratio: f64,
}

impl BenchLine {
    fn name(&self) -> String {
        let Self { workload, part, block, strategy, direction, .. } = self;
        let level = self.level.unwrap_or(3);
        let part = if part.is_empty() { String::new() } else { format!(" {part}") };
        format!("{workload}{part} {block} B, level {level} {strategy}, {direction}")
    }
}

/// The results of contenders; Block I/O is in their ratios.
fn parse(text: &str) -> Result<BTreeMap<String, BenchLine>, String> {
    crate::steps::verified(text)?;
    let line = |line| {
        let line: BenchLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok((line.name(), line))
    };
    let lines = text.lines().map(line).collect::<Result<BTreeMap<_, _>, String>>()?;
    Ok(lines.into_iter().filter(|(_, line)| line.level.is_some()).collect())
}

/// A result before and after: medians over the turns.
#[derive(Debug, PartialEq)]
struct Change {
    seconds: [f64; 2],
    /// Relative to Block I/O of the same run.
    costs: [f64; 2],
    /// Of the time after to the one before, within a turn.
    ratio: f64,
}

fn head() -> String {
    format!(
        "{:9} {:>5} {:45} {:>10} {:>10} {:>6} {:>9} {:>9}",
        "mpi", "ranks", "", "before ms", "after ms", "ratio", "x Block", "x Block"
    )
}

impl Change {
    fn text(&self) -> String {
        let ([before, after], [cost_before, cost_after]) = (self.seconds, self.costs);
        let mut text = format!("{:10.3} {:10.3} {:6.2}", before * 1e3, after * 1e3, self.ratio);
        let _ = write!(text, " {cost_before:9.2} {cost_after:9.2}");
        text
    }
}

/// What changed of each result that both builds have in all turns.
fn changes_of(turns: &[Vec<BTreeMap<String, BenchLine>>]) -> Vec<(String, Change)> {
    let Some(first) = turns.first().and_then(|both| both.first()) else { return Vec::new() };
    let change = |name: &String| {
        let of = |figure: &dyn Fn(&[&BenchLine]) -> f64| {
            let both = turns.iter().map(|both| both.iter().map(|lines| lines.get(name)).collect());
            let both: Option<Vec<Vec<&BenchLine>>> = both.collect();
            median(both?.iter().map(|both| figure(both)).collect())
        };
        let seconds = |line: &BenchLine| line.step_seconds.unwrap_or(line.seconds);
        let [before, after] = [0, 1].map(|build| of(&|both| seconds(both[build])));
        let [cost_before, cost_after] = [0, 1].map(|build| of(&|both| both[build].ratio));
        let ratio = of(&|both| seconds(both[1]) / seconds(both[0]))?;
        let (seconds, costs) = ([before?, after?], [cost_before?, cost_after?]);
        Some((name.clone(), Change { seconds, costs, ratio }))
    };
    first.keys().filter_map(change).collect()
}

/// The one in the middle; of two, the mean.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let upper = *figures.get(figures.len() / 2)?;
    let lower = figures[(figures.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// The geometric mean; of nothing there is none.
fn geometric_mean(numbers: &[f64]) -> Option<f64> {
    let count = u32::try_from(numbers.len()).ok().filter(|count| *count > 0)?;
    let sum: f64 = numbers.iter().map(|number| number.ln()).sum();
    Some((sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(strategy: &str, level: &str, seconds: f64, block_io: f64) -> String {
        format!(
            "{{\"workload\":\"dist3d\",\"strategy\":\"{strategy}\",{level}\"block\":4,\
             \"direction\":\"write\",\"seconds\":{seconds},\"ratio\":{},\"verified\":true}}\n",
            seconds / block_io
        )
    }

    fn lines(seconds: f64, block_io: f64) -> BTreeMap<String, BenchLine> {
        let reference = line("block", "", block_io, block_io);
        parse(&(reference + &line("auto", "\"level\":3,", seconds, block_io))).unwrap()
    }

    #[test]
    fn builds_are_compared_within_each_turn() {
        // The machine is half as fast in the second turn.
        let turn = |factor: f64| vec![lines(4.0 * factor, factor), lines(3.0 * factor, factor)];
        let changes = changes_of(&[turn(1.0), turn(2.0), turn(1.0)]);
        let change = Change { seconds: [4.0, 3.0], costs: [4.0, 3.0], ratio: 0.75 };
        assert_eq!(changes, [("dist3d 4 B, level 3 auto, write".to_owned(), change)]);
        // What only one of them has cannot be compared.
        assert!(changes_of(&[vec![lines(1.0, 1.0), BTreeMap::new()]]).is_empty());
    }

    #[test]
    fn wrong_bytes_are_an_error() {
        let wrong = line("auto", "\"level\":3,", 1.0, 1.0).replace("true", "false");
        assert!(parse(&wrong).is_err());
    }

    #[test]
    fn means_are_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
        let mean = geometric_mean(&[4.0, 0.25]).unwrap();
        assert!((mean - 1.0).abs() < 1e-9 && geometric_mean(&[]).is_none());
    }
}
