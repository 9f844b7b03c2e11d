//! The command line of `pario calibrate`.

use std::path::PathBuf;

use clap::{Args, value_parser};
use pario_lab::calibrate::{self, Calibration};
use pario_lab::failure::Failure;

use crate::values;

/// Measures what I/O, copies and messages cost on this machine, and stores it as a profile.
///
/// Ranks are threads of this process, one for each core; under mpirun, they are the processes
/// that it started. Run it on an idle machine. A value that varies too much is not stored: that of
/// an earlier run stays, or the default for the kind of file system, and the table says why.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Directory on the file system to measure, for a file of 104 MiB (2 MiB more for each rank
    /// above 32) that is removed at the end [default: the system's temporary directory]
    #[arg(long, value_name = "DIR", value_parser = values::directory)]
    dir: Option<PathBuf>,

    /// How long to measure
    #[arg(long, value_name = "S", default_value_t = 10)]
    #[arg(value_parser = value_parser!(u32).range(1..=25))]
    seconds: u32,

    /// Where to store the profile [default: $PARIO_PROFILE, or
    /// $XDG_CONFIG_HOME/pario/profile-HOST-TRANSPORT-FILESYSTEM.toml]
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Print one JSON object with the profile on stdout, and nothing else there
    #[arg(long)]
    json: bool,

    /// Ranks are threads of this process, even if mpirun started it
    #[arg(long)]
    embedded: bool,
}

const AFTER_HELP: &str = "\
What is measured:
  system calls that read and write, by length, in order and scattered, with and without the page
  cache, to old and new parts of a file, by one rank and by several; copies of pieces; messages;
  barriers; planning. docs/model.md explains the profile.

Examples:
  pario calibrate
  pario calibrate --dir /scratch --seconds 20
  mpirun -n 8 pario calibrate --dir /scratch
  pario calibrate --output profile.toml --json";

/// Runs the subcommand.
///
/// # Errors
/// As [`calibrate::run`].
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { dir, seconds, output, json, embedded } = arguments;
    calibrate::run(&Calibration { directory: dir, seconds, output, json, embedded })
}
