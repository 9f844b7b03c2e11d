//! Which launcher started this process, by the environment that it gives its ranks.
//!
//! A program that is not linked with MPI must know before it loads one whether it is a rank of a
//! job, and of whose: MPICH under Open MPI's `mpirun` would see as many jobs of one rank.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::abi::Family;
use crate::environment;

/// The variable that names the MPI library to load.
pub(crate) const LIBRARY: &str = "PARIO_MPI_LIBRARY";

/// What a rank knows from its launcher before MPI is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of this rank in the world.
    pub rank: u32,
    /// How many ranks were started, if the launcher says so.
    pub size: Option<u32>,
    /// The kind of MPI that the launcher belongs to, where that is sure.
    pub family: Option<Family>,
}

/// A launcher's variables for rank and size.
struct Words {
    rank: &'static str,
    size: &'static str,
    family: Option<Family>,
}

/// The most particular ones first: Open MPI sets those of PMIx as well.
const KNOWN: [Words; 4] = [
    Words {
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        family: Some(Family::OpenMpi),
    },
    Words { rank: "MV2_COMM_WORLD_RANK", size: "MV2_COMM_WORLD_SIZE", family: Some(Family::Mpich) },
    // Hydra, Intel MPI, Cray, and Slurm with PMI.
    Words { rank: "PMI_RANK", size: "PMI_SIZE", family: Some(Family::Mpich) },
    // PMIx, of PRRTE or of Slurm.
    Words { rank: "PMIX_RANK", size: "SLURM_STEP_NUM_TASKS", family: None },
];

/// What this process knows from its launcher; `None` if no launcher of MPI started it.
///
/// ```
/// // `cargo test` is none.
/// assert_eq!(pario_mpi::launched(), None);
/// ```
pub fn launched() -> Option<Launch> {
    launch(|name| std::env::var(name).ok())
}

fn launch(value: impl Fn(&str) -> Option<String>) -> Option<Launch> {
    let number = |name| value(name).and_then(|text| text.parse().ok());
    KNOWN.iter().find_map(|words| {
        let rank = number(words.rank)?;
        Some(Launch { rank, size: number(words.size), family: words.family })
    })
}

/// The library that the user wants.
pub(crate) fn wanted_library() -> Option<OsString> {
    environment::value(LIBRARY)
}

/// The programs that started this one, the nearest first, as far as the system shows them.
pub(crate) fn ancestors() -> Vec<PathBuf> {
    /// Deeper than any launcher and its shells.
    const GENERATIONS: usize = 16;
    let mut programs = Vec::new();
    let mut process = std::os::unix::process::parent_id();
    while process > 1 && programs.len() < GENERATIONS {
        if let Ok(program) = std::fs::read_link(format!("/proc/{process}/exe")) {
            programs.push(program);
        }
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        let status = status.unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        process = parent.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_their_variables() {
        let launch_of = |set: &[(&str, &str)]| {
            launch(|name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(launch_of(&[]), None);
        assert_eq!(launch_of(&[("SLURM_PROCID", "1")]), None);
        let hydra = launch_of(&[("PMI_RANK", "1"), ("PMI_SIZE", "4")]);
        assert_eq!(hydra, Some(Launch { rank: 1, size: Some(4), family: Some(Family::Mpich) }));
        let open_mpi =
            [("PMIX_RANK", "2"), ("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "3")];
        let expected = Launch { rank: 2, size: Some(3), family: Some(Family::OpenMpi) };
        assert_eq!(launch_of(&open_mpi), Some(expected));
        let slurm = launch_of(&[("PMIX_RANK", "0")]);
        assert_eq!(slurm, Some(Launch { rank: 0, size: None, family: None }));
    }

    #[test]
    fn a_test_was_started_by_something() {
        assert!(!ancestors().is_empty());
    }
}
