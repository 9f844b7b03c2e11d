//! `pario explain`: times from models, and why one technique is faster than another.
//!
//! | file | concept |
//! | --- | --- |
//! | `call` | every way to serve a described call, with its predicted time |
//! | `machine` | the machine that is described: profile, network, device |
//! | `recorded` | the calls of a program that was recorded, beside what was measured |
//! | `measured` | every way of a described call, measured on this machine |
//! | `advice` | what a caller can change |
//! | `answer` | the answer as text, JSON and a picture |
//! | [`paper`] | the model of paper 001, its tables and its figure, from its own parameters |
//!
//! Unless it is asked to run the ways, nothing is measured here, and nothing is sent: under a
//! launcher the first rank answers.

mod advice;
mod answer;
mod call;
mod machine;
mod measured;
pub mod paper;
mod recorded;

use std::path::{Path, PathBuf};

use pario::model::presets::Link;

use crate::failure::Failure;
use crate::measure::Directions;
use crate::scenario::device::DeviceChoice;
use crate::scenario::workloads::Workloads;

/// What is asked: how a call can be served, on which machine.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The call that is described: one workload.
    pub workloads: Workloads,
    /// The recording whose calls are explained instead.
    pub recording: Option<PathBuf>,
    /// Number of ranks; as in the paper unless it is said.
    pub ranks: Option<u32>,
    /// Nodes on which they run; 1 unless it is said.
    pub nodes: Option<u32>,
    /// Cores of each node; one for each of its ranks unless it is said.
    pub cores: Option<u32>,
    /// Which way the bytes go.
    pub directions: Directions,
    /// Whether calls are independent, not collective.
    pub independent: bool,
    /// Costs of the machine: the name of a built-in profile, or a file.
    pub profile: Option<String>,
    /// Directory whose file system counts if no profile is given.
    pub directory: Option<PathBuf>,
    /// Another network between nodes.
    pub network: Option<Link>,
    /// The device of the storage.
    pub device: Option<DeviceChoice>,
    /// Hints of the program.
    pub hints: Vec<(String, String)>,
    /// Whether every way is run, and measured.
    pub run: bool,
    /// Where the ways are drawn.
    pub svg: Option<PathBuf>,
    /// Whether the answer is printed as JSON.
    pub json: bool,
}

/// Explains calls.
///
/// # Errors
/// `Usage` if the call or the machine makes no sense, `Run` if a recording cannot be read or the
/// output cannot be written.
pub fn run(query: &Query) -> Result<(), Failure> {
    match query.run || answers() {
        true => call::run(query),
        false => Ok(()),
    }
}

/// Prints the tables of paper 001, and draws its figure if there is a path for it.
///
/// # Errors
/// `Run` if the output cannot be written.
pub fn run_paper(svg: Option<&Path>, json: bool) -> Result<(), Failure> {
    match answers() {
        true => paper::run(svg, json),
        false => Ok(()),
    }
}

/// Whether this process answers: under a launcher the first rank does.
fn answers() -> bool {
    pario_mpi::launched().is_none_or(|launch| launch.rank == 0)
}
