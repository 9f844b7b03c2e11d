//! `pario study`: the experiments of the papers, repeated.
//!
//! | file | concept |
//! | --- | --- |
//! | `list` | all experiments |
//! | `outcome` | rows, verdicts, series |
//! | `progress` | signs of life while something is measured |
//! | `report` | what is printed, and what is left after Ctrl-C |
//! | `count` | real calls on files in memory, counted |
//! | `calls` | real calls in virtual time: of pario, of ROMIO as papers have it, of the system |
//! | `here` | runs of `pario bench` |
//! | `disk` | a disk in memory for them, with the page cache of this machine |
//! | `inspector` | the inspector of paper 002 |
//! | `paper_000`, ... | the experiments of each paper |
//!
//! Patterns and the machines of the papers are in `scenario`.
//!
//! An experiment is an entry of `list::EXPERIMENTS` and a function, which knows the mode. The modes
//! `count` and `virtual` depend on nothing but their parameters, so that their results are the same
//! on every machine; `benchmarks/studies/expected.jsonl` has them.

pub(crate) mod calls;
mod count;
mod disk;
mod here;
mod inspector;
mod list;
mod outcome;
mod paper_000;
mod paper_001;
mod paper_002;
mod paper_003;
mod paper_004;
mod progress;
mod report;

use std::path::PathBuf;

use list::{EXPERIMENTS, Experiment};
use outcome::Findings;
use progress::Progress;
use report::Report;

use crate::failure::Failure;
use crate::sweep;

/// Which experiments are run, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// An experiment, a paper, or all; without it they are listed.
    pub what: Option<String>,
    /// The sizes of the papers instead of small ones.
    pub full: bool,
    /// What is run; all modes of each experiment if there are none.
    pub modes: Vec<Mode>,
    /// Whether results are printed as JSON.
    pub json: bool,
    /// Where the JSON objects go besides.
    pub output: Option<PathBuf>,
    /// Where the mode `here` has its files.
    pub directory: Option<PathBuf>,
}

/// How an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Calls, messages, bytes and pieces, counted.
    Count,
    /// Times on a virtual clock.
    Virtual,
    /// Times on this machine.
    Here,
}

impl Mode {
    pub(crate) const ALL: [Mode; 3] = [Mode::Count, Mode::Virtual, Mode::Here];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Count => "count",
            Mode::Virtual => "virtual",
            Mode::Here => "here",
        }
    }
}

/// One run of an experiment.
#[derive(Clone, Debug)]
struct Run {
    mode: Mode,
    /// The sizes of the papers instead of small ones.
    full: bool,
    /// Where the mode `here` has its files.
    directory: Option<PathBuf>,
    progress: Progress,
}

impl Run {
    /// One of two sizes.
    fn size<T>(&self, quick: T, full: T) -> T {
        if self.full { full } else { quick }
    }
}

/// What an experiment in one mode comes out with.
type Outcome = Result<Findings, Failure>;

/// Runs experiments, or lists them.
///
/// # Errors
/// `Usage` if there is no such experiment or mode, `Run` if one could not be run or bytes were
/// wrong. A verdict is no error.
pub fn run(selection: &Selection) -> Result<(), Failure> {
    let Some(what) = &selection.what else { return report::print_list(selection.json) };
    let chosen = chosen(what, &selection.modes)?;
    if pario_mpi::launched().is_some_and(|launch| launch.size != Some(1)) {
        let text = "study starts ranks itself, as threads: start it without mpirun or srun";
        return Err(Failure::Usage(text.to_owned()));
    }
    let mut report = Report::new(selection, what, chosen.len())?;
    for (experiment, mode) in chosen {
        let (full, directory) = (selection.full, selection.directory.clone());
        let run = Run { mode, full, directory, progress: report.begin(experiment, mode) };
        let findings = (experiment.run)(&run).map_err(|failure| {
            sweep::say(&report.results_are());
            failure.in_part(&format!("{} ({})", experiment.id, mode.name()))
        })?;
        report.add(experiment, &run, findings)?;
    }
    report.finish()
}

/// The experiments that were asked for, with each mode.
fn chosen(what: &str, modes: &[Mode]) -> Result<Vec<(&'static Experiment, Mode)>, Failure> {
    let fits = |one: &&Experiment| what == "all" || one.id == what || one.paper == what;
    let experiments: Vec<&Experiment> = EXPERIMENTS.iter().filter(fits).collect();
    if experiments.is_empty() {
        let text = format!("{what}: no such experiment or paper; `pario study` lists them");
        return Err(Failure::Usage(text));
    }
    let modes = if modes.is_empty() { &Mode::ALL[..] } else { modes };
    let mut all = Vec::new();
    for experiment in experiments {
        let own = modes.iter().filter(|mode| experiment.modes.contains(mode));
        all.extend(own.map(|&mode| (experiment, mode)));
    }
    match all.is_empty() {
        true => Err(Failure::Usage(format!("{what}: has no such mode"))),
        false => Ok(all),
    }
}
