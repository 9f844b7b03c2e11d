//! `pario calibrate`: measures the costs of this machine and stores them as a profile.
//!
//! | file | concept |
//! | --- | --- |
//! | `probe` | what is measured, and its key in the profile |
//! | `bed` | one short measurement, on all ranks |
//! | `copies` | copies of pieces in memory |
//! | `judge` | many measurements become a value, or the reason why not |
//! | `assemble` | values become a profile |
//! | `place` | host, file system and the kind of its device |
//! | `report` | progress, the table, and JSON |
//!
//! Measurements on a busy machine vary. So all probes are measured in turn, a few milliseconds
//! each, until the time is up, and a value is the median of its measurements. A value whose
//! measurements differ too much is not stored. That of an earlier run stays, or the built-in
//! default, and the profile says why.

mod assemble;
mod bed;
mod copies;
mod judge;
mod place;
mod probe;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pario::model::profile::{Machine, Places, Profile};
use pario::{Communicator, Threads};

use crate::failure::Failure;
use crate::measure::team::Team;
use crate::{output, sweep};
use assemble::Before;
use bed::Bed;
use place::Ground;
use probe::{Probe, Situation};
use report::Report;

/// How a machine is measured.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    /// Directory on the file system to measure; the system's temporary one unless it is said.
    pub directory: Option<PathBuf>,
    /// How long to measure.
    pub seconds: u32,
    /// Where to store the profile; where pario looks for it unless it is said.
    pub output: Option<PathBuf>,
    /// Whether the outcome is printed as JSON.
    pub json: bool,
    /// Whether ranks are threads, even under a launcher of MPI.
    pub embedded: bool,
}

/// Measures this machine, and stores its profile.
///
/// # Errors
/// `Usage` if the arguments make no sense, `Run` if something cannot be measured or stored.
pub fn run(calibration: &Calibration) -> Result<(), Failure> {
    match pario_mpi::launched() {
        Some(_) if !calibration.embedded => on_mpi(calibration),
        _ => on_threads(calibration),
    }
}

/// Every rank is a thread, with a core of its own. Barriers of more ranks are measured afterwards.
fn on_threads(calibration: &Calibration) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    let ranks = cores.clamp(2, 256);
    let outcomes = Threads::new(ranks.saturating_mul(4))
        .run(|comm| bed::barriers(&Team::new(&*comm), Duration::from_millis(500)));
    let seconds: Result<Vec<Vec<f64>>, Failure> = outcomes.into_iter().collect();
    let seconds = seconds?.swap_remove(0);
    let oversubscribed = Oversubscribed { ranks: ranks.saturating_mul(4), seconds };
    let outcomes = Threads::new(ranks)
        .run(|comm| on_rank(calibration, "threads", &Team::new(&*comm), Some(&oversubscribed)));
    outcomes.into_iter().collect()
}

/// Barriers of more ranks than cores.
struct Oversubscribed {
    ranks: u32,
    seconds: Vec<f64>,
}

/// This process is a rank. The first rank prints a failure of all ranks.
fn on_mpi(calibration: &Calibration) -> Result<(), Failure> {
    let universe = pario_mpi::initialize().map_err(|error| {
        Failure::Run(format!("{error}\n(--embedded runs the ranks as threads, without MPI)"))
    })?;
    let transport = universe.family().name();
    let comm = universe.world();
    match on_rank(calibration, transport, &Team::new(&*comm), None) {
        Err(Failure::Lost(text)) => {
            sweep::say(&format!("rank {}: {text}", comm.rank()));
            universe.abort(1)
        }
        Err(failure) if comm.rank() > 0 => Err(Failure::Told(failure.exit_code())),
        outcome => outcome,
    }
}

/// What every rank does.
fn on_rank(
    calibration: &Calibration,
    transport: &str,
    team: &Team<'_>,
    oversubscribed: Option<&Oversubscribed>,
) -> Result<(), Failure> {
    let directory = calibration.directory.clone().unwrap_or_else(std::env::temp_dir);
    let comm = team.comm();
    let situation = Situation {
        ranks: team.size(),
        cores: comm.cores(comm.node(0)),
        same_node: (1..team.size()).find(|&rank| comm.node(rank) == comm.node(0)),
        other_node: (1..team.size()).find(|&rank| comm.node(rank) != comm.node(0)),
    };
    let ground = Ground::new(team, &directory, bed::file_bytes(&situation))?;
    let machine = place::machine(transport, &ground, situation.cores);
    let probes = Probe::all(&situation);
    let begun = match team.is_first() {
        true => begin(calibration, &machine, &ground).map(Some),
        false => Ok(None),
    };
    let (begun, agreed) = match begun {
        Ok(begun) => (begun, Ok(())),
        Err(failure) => (None, Err(failure)),
    };
    team.agree(agreed)?;
    let report = begun.as_ref().map(|(report, _)| report);
    let samples = measure(calibration, team, &ground, (&probes, &situation), report)?;
    let stored = begun.as_ref().map_or(Ok(()), |(report, output)| {
        let before = before(&machine, &ground, output)?;
        let measured = assemble::Measured { probes: &probes, samples: &samples, oversubscribed };
        let calibrated = assemble::profile(before, machine, &situation, &measured);
        store(&calibrated.profile, output)?;
        report.finish(&calibrated, output)
    });
    team.agree(stored)
}

/// What only the first rank has: the place of the profile, and the output.
fn begin<'a>(
    calibration: &'a Calibration,
    machine: &Machine,
    ground: &Ground,
) -> Result<(Report<'a>, PathBuf), Failure> {
    let output = output_path(calibration, machine)?;
    output::check(&output)?;
    Ok((Report::new(calibration, machine, ground)?, output))
}

/// All probes in turn until the time is up; the measurements of each, on the first rank.
fn measure(
    calibration: &Calibration,
    team: &Team<'_>,
    ground: &Ground,
    (probes, situation): (&[Probe], &Situation),
    report: Option<&Report<'_>>,
) -> Result<Vec<Vec<f64>>, Failure> {
    let mut bed = Bed::new(team, ground, *situation)?;
    let begin = Instant::now();
    let limit = Duration::from_secs(calibration.seconds.into());
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); probes.len()];
    loop {
        for (probe, samples) in probes.iter().zip(&mut samples) {
            report.inspect(|report| report.step(probe, begin.elapsed()));
            // What a rank cannot measure, as O_DIRECT on some file systems, has no samples.
            samples.extend(bed.measure(probe)?);
        }
        let over = team.all(Ok(begin.elapsed() >= limit))?;
        if over.first() == Some(&true) {
            return Ok(samples);
        }
    }
}

fn output_path(calibration: &Calibration, machine: &Machine) -> Result<PathBuf, Failure> {
    let place = || Places::of_process().path(machine);
    calibration.output.clone().or_else(place).ok_or_else(|| {
        Failure::Usage("neither HOME nor XDG_CONFIG_HOME is set: name a file, --output".to_owned())
    })
}

/// What a profile begins with.
const HEADER: &str = "\
# Costs of parallel I/O on this machine, measured by `pario calibrate`; docs/model.md explains them.
# [defaults] lists values that were not measured here, and why.
";

fn store(profile: &Profile, path: &Path) -> Result<(), Failure> {
    let text = profile.to_text().map_err(|error| Failure::Run(error.to_string()))?;
    output::write(path, (HEADER.to_owned() + &text).as_bytes())
}

/// What stays where this run measures nothing: the profile of an earlier run on this machine, or
/// else the built-in one.
fn before(machine: &Machine, ground: &Ground, output: &Path) -> Result<Before, Failure> {
    let earlier = Profile::load(output).ok().filter(|profile| profile.machine == *machine);
    if let Some(profile) = earlier {
        return Ok(Before::Measured(profile));
    }
    let name = Profile::built_in_name(&machine.file_system, place::is_rotational(ground));
    let built_in = Profile::built_in(name).map(Before::BuiltIn);
    built_in.ok_or_else(|| Failure::Run(format!("no built-in profile {name}")))
}
