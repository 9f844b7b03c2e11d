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
//! | `bench` | runs it on every MPI and on both sides |
//! | `output` | what the program prints |
//! | `record`, `table`, `plot` | what is kept, shown and drawn |
//! | `overhead` | what one call costs |

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::report::Report;
use super::setup::{self, Setup};
use super::{MpiTestArguments, Places, clients};

mod bench;
mod job;
mod output;
mod overhead;
mod plot;
mod record;
mod table;

use bench::{Bench, Done};
use job::{Job, Pace, Sizes};

/// The name of the quick run among the tests.
pub(super) const NAME: &str = "peers";

/// The libraries that are compared unless another is named.
const MPIS: [&str; 2] = ["mpich5", "openmpi5"];

/// What a default directory must have free: the largest file is half of it.
const FREE_BYTES: u64 = 1 << 30;

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
    /// Calls after the first in each run; their median is reported.
    #[arg(long, value_name = "N", default_value_t = 5)]
    calls: u32,
    /// Where the files are written [default: /dev/shm, and the file system of the build].
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Numbers of ranks [default: 4,16; overhead 1,2].
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    ranks: Vec<u32>,
    /// Only these: block-cyclic, dist3d, btio, unstruc, stem2, contiguous, small, step, overhead.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Levels of the ROMIO papers: 0 independent calls for each piece, 2 independent calls with a
    /// view, 3 collective calls with a view.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = job::LEVELS)]
    levels: Vec<u32>,
    /// Elements of the workload unstruc, 64 bytes each.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    elements: u64,
    /// Seconds for one direction of a line; what takes longer, by an estimate, is not run.
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
    /// Another build of the drop-in library, measured in turn with it: before and after a change.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["record", "quick"])]
    baseline: Option<PathBuf>,
    /// Measures nothing; prints the table of a record.
    #[arg(long, value_name = "RECORD", exclusive = true)]
    table: Option<PathBuf>,
    /// Measures nothing; draws a record as SVG.
    #[arg(long, num_args = 2, value_names = ["RECORD", "SVG"], exclusive = true)]
    plot: Option<Vec<PathBuf>>,
}

/// Where files are written.
struct ScratchPlace {
    directory: PathBuf,
    kind: String,
}

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
    let mut done = Done::default();
    let record = arguments.record.then(|| record::path(root));
    let scratch = arguments.places(&places)?;
    arguments.tell_what_does_not_fit();
    let mut run_in = |place| bench.run_in(place, arguments, record.as_deref(), &mut done);
    let outcome = scratch.iter().try_for_each(&mut run_in);
    scratch.iter().try_for_each(|place| clients::remove(&place.directory))?;
    outcome?;
    if !done.lines.is_empty() {
        print!("{}{}", table::summary(&done.lines), table::turns(&done.lines));
    }
    let wanted = arguments.workloads.iter().any(|name| name == overhead::NAME);
    if wanted || (arguments.workloads.is_empty() && !arguments.quick) {
        overhead::run(&places, &bench, arguments)?;
    }
    done.outcome()
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
            baseline: None,
            table: None,
            plot: None,
        }
    }

    fn check(&self) -> Result<(), String> {
        let known = |name: &String| {
            job::WORKLOADS.contains(&name.as_str())
                || [job::SMALL, job::STEP, overhead::NAME].contains(&&**name)
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

    /// The baseline, by a path that ranks in other directories can use.
    fn baseline(&self) -> Result<Option<PathBuf>, String> {
        let Some(path) = &self.baseline else { return Ok(None) };
        path.canonicalize().map(Some).map_err(|error| format!("{}: {error}", path.display()))
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

    fn ranks(&self) -> Vec<u32> {
        match (self.ranks.is_empty(), self.quick) {
            (true, true) => vec![4],
            (true, false) => vec![4, 16],
            _ => self.ranks.clone(),
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes { quick: self.quick, elements: self.elements }
    }

    /// The names of the workloads that are wanted, but for the overhead.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        job::WORKLOADS.into_iter().chain([job::SMALL, job::STEP]).filter(|name| self.wants(name))
    }

    /// Not every workload can be dealt out to any number of ranks.
    fn tell_what_does_not_fit(&self) {
        for name in self.names() {
            for ranks in self.ranks() {
                if job::jobs(name, 3, ranks, self.sizes()).is_empty() {
                    println!("skipped: {name} on {ranks} ranks: it needs a square number of them");
                }
            }
        }
    }

    /// The jobs in the order in which they are measured; what is in one list runs in one go.
    fn batches(&self) -> Vec<Vec<Job>> {
        let (ranks, sizes) = (self.ranks(), self.sizes());
        let mut jobs = Vec::new();
        for name in self.names() {
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
    fn places(&self, places: &Places) -> Result<Vec<ScratchPlace>, String> {
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
            Ok(ScratchPlace { directory, kind })
        };
        wanted.into_iter().map(place).collect()
    }
}

/// What is free on the file system of a directory.
fn free_bytes(directory: &Path) -> u64 {
    let free = |stat: rustix::fs::StatVfs| stat.f_bavail.saturating_mul(stat.f_frsize);
    rustix::fs::statvfs(directory).map_or(0, free)
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
        // 5 blocks, 3 arrays, 2 contiguous, 3 steps and 4 others, on 4 and on 16 ranks.
        assert_eq!(batches.len(), 34);
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
}
