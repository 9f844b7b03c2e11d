//! `pario run` on each MPI: served, passed on, aborted, killed; and what is left behind.
//!
//! Other checks preload the library by hand. Here the program `pario` starts the launcher, finds
//! the library by itself and gives the launcher the options that it needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::Places;
use super::clients::{self, Client};
use super::header::Mode;
use super::launch::{self, Finished};
use super::library::{Mpi, Start};
use super::report::{self, Outcome, Report};
use super::setup::Setup;
use super::shared_memory;
use super::traces;
use super::verdict;

/// The name of this check.
pub(super) const NAME: &str = "run";

const RANKS: u32 = 4;
/// A client that runs to its end, and the one that does not.
const WHOLE: &str = "smoke";
const INTERRUPTED: &str = "interrupted";
const ALONE: &str = "alone";

/// A launcher and a library of different kinds, whose programs start nevertheless: MPICH 5 refuses
/// the launchers of Open MPI by itself.
const STRANGERS: [(&str, &str); 2] = [("mpich5", "openmpi5"), ("openmpi4", "mpich4")];

/// How a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunMode {
    /// With statistics, as two programs of one command line.
    Served,
    /// With pario switched off.
    PassedOn,
    /// One rank aborts while the others write.
    Aborted,
    /// All ranks are killed while they write.
    Killed,
    /// The launcher is that of another MPI.
    Alone,
}

impl RunMode {
    const ALL: [RunMode; 4] =
        [RunMode::Served, RunMode::PassedOn, RunMode::Aborted, RunMode::Killed];

    fn name(self) -> &'static str {
        match self {
            RunMode::Served => "run served",
            RunMode::PassedOn => "run passed on",
            RunMode::Aborted => "run aborted",
            RunMode::Killed => "run killed",
            RunMode::Alone => "run alone",
        }
    }

    fn client(self) -> &'static str {
        match self {
            RunMode::Served | RunMode::PassedOn => WHOLE,
            RunMode::Aborted | RunMode::Killed => INTERRUPTED,
            RunMode::Alone => ALONE,
        }
    }

    fn mode(self) -> Mode {
        if self == RunMode::PassedOn { Mode::Native } else { Mode::Pario }
    }
}

/// Runs all ways on all libraries.
pub(super) fn run_all(places: &Places, setup: &Setup, report: &mut Report) -> Result<(), String> {
    let pario = crate::install::build(&places.root)?.join("pario");
    let directory = places.package().join("tests/clients");
    for way in RunMode::ALL {
        let source = directory.join(way.client()).with_extension("c");
        for mpi in &setup.mpis {
            let client = Client::read(&source)?;
            let program = client.build(places, setup, mpi)?;
            let case =
                Case { places, setup, mpi, launcher: mpi, pario: &pario, way, client, program };
            report.add(case.run()?);
        }
    }
    let known = |name| setup.mpis.iter().find(|mpi| mpi.name == name);
    for (launcher, library) in STRANGERS {
        let (Some(launcher), Some(mpi)) = (known(launcher), known(library)) else { continue };
        let client = Client::read(&directory.join(ALONE).with_extension("c"))?;
        let (program, way) = (client.build(places, setup, mpi)?, RunMode::Alone);
        let case = Case { places, setup, mpi, launcher, pario: &pario, way, client, program };
        report.add(case.run()?);
    }
    Ok(())
}

struct Case<'a> {
    places: &'a Places,
    setup: &'a Setup,
    mpi: &'a Mpi,
    /// Whose launcher starts it.
    launcher: &'a Mpi,
    /// The program `pario`.
    pario: &'a Path,
    way: RunMode,
    client: Client,
    /// The client, compiled.
    program: PathBuf,
}

impl Case<'_> {
    fn run(&self) -> Result<Outcome, String> {
        let (mpi, way) = (self.mpi.name, self.way.name());
        let file_name = way.replace(' ', "-");
        let directory = self.places.mpi.join("scratch").join(mpi).join(&file_name);
        clients::make_empty(&directory)?;
        let limit = Duration::from_secs(self.client.header.seconds);
        let mut killed = self.way != RunMode::Killed;
        let output = directory.with_extension("out");
        let mut finished = launch::carry_out(self.command(), &directory, limit, &mut |mark| {
            killed = killed || is_writing(&output) && self.kill_ranks(mark);
        })?;
        if self.way == RunMode::Alone {
            // Open MPI without its own launcher does not remove its files.
            finished.left_in_memory.retain(|name| !shared_memory::is_of_library(name));
        }
        let run = (self.way.mode(), RANKS);
        let mut faults = verdict::faults(&self.client.header, run, &finished, &directory);
        faults.extend(self.told_faults(&finished));
        let log = self.places.mpi.join("logs").join(mpi).join(file_name + ".log");
        report::write_log(&log, &finished.log, &faults)?;
        if faults.is_empty() {
            clients::remove(&directory)?;
        }
        let (program, seconds) = (way.to_owned(), finished.seconds);
        Ok(Outcome { program, mpi, seconds, faults, note: String::new() })
    }

    /// `pario run` with the launcher after it.
    fn command(&self) -> Command {
        let program = self.program.clone().into_os_string();
        let half = (RANKS / 2).to_string().into();
        let (ranks, words) = match self.way {
            RunMode::Served => {
                (RANKS / 2, vec![program.clone(), ":".into(), "-n".into(), half, program])
            }
            RunMode::Killed => (RANKS, vec![program, "endless".into()]),
            RunMode::PassedOn | RunMode::Aborted | RunMode::Alone => (RANKS, vec![program]),
        };
        let patience = self.mpi.needs_patience().then(|| self.setup.patience.clone());
        let preload = patience.into_iter().collect();
        let launcher = self.launcher.command(&Start { ranks, words, env: Vec::new(), preload });
        let mut command = Command::new(self.pario);
        command.args(["run", "--stats", "--"]).arg(launcher.get_program());
        command.args(launcher.get_args()).env("PARIO_MPI_COUNT", "1");
        command.envs(launcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if self.way == RunMode::PassedOn {
            command.env("PARIO_DISABLE", "1");
        }
        command
    }

    /// Kills the ranks of a run; says whether there were any.
    fn kill_ranks(&self, mark: &str) -> bool {
        let program = self.program.canonicalize().unwrap_or_default();
        let is_rank = |process: &Pid| {
            let path = format!("/proc/{}/exe", process.as_raw_nonzero());
            fs::read_link(path).is_ok_and(|path| path == program)
        };
        let ranks: Vec<Pid> = traces::marked_processes(mark).into_iter().filter(is_rank).collect();
        for rank in &ranks {
            // One that has ended meanwhile needs no signal.
            let _ = kill_process(*rank, Signal::KILL);
        }
        !ranks.is_empty()
    }

    /// What is wrong with what pario printed of itself.
    fn told_faults(&self, finished: &Finished) -> Vec<String> {
        let text = &finished.stderr;
        let missing = |part: &&str| !text.contains(*part);
        match self.way {
            RunMode::Served => {
                let lines = SUMMARY.iter().filter(|part| missing(part));
                let twice = text.matches(SUMMARY[0]).count() > 1;
                let twice = twice.then(|| "more than one summary of a file".to_owned());
                lines.map(|part| format!("no `{part}` in the summary")).chain(twice).collect()
            }
            RunMode::PassedOn => {
                let told = ["pario-mpi: served", SUMMARY[0]].into_iter().filter(|p| !missing(p));
                told.map(|part| format!("`{part}` although pario is switched off")).collect()
            }
            // What the header asks for is enough.
            RunMode::Alone => Vec::new(),
            RunMode::Aborted | RunMode::Killed => {
                let served = finished.stdout.contains("ENGINE pario");
                (!served)
                    .then(|| "pario did not serve the program".to_owned())
                    .into_iter()
                    .collect()
            }
        }
    }
}

/// What the summary of the client's file has in it.
const SUMMARY: [&str; 7] = [
    "pario: smoke.dat: 4 ranks on 1 node, ",
    " write_all by ",
    " read_all by ",
    "\n  aggregators ",
    "\n  between     ",
    "\n  storage     ",
    "\n  time        ",
];

/// Whether the client says that it has begun to write.
fn is_writing(output: &Path) -> bool {
    fs::read_to_string(output).is_ok_and(|text| text.lines().any(|line| line.trim() == "PASS"))
}
