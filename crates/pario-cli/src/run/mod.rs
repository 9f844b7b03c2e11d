//! `pario run`: starts a program whose MPI-IO pario serves.
//!
//! | file | concept |
//! | --- | --- |
//! | `library` | where the drop-in library is |
//! | `recording` | the file that statistics go to |
//! | `variables` | what the ranks must find in their environment |
//! | `launcher` | how each launcher of MPI programs passes that on |
//! | `slurm` | how Slurm's does |
//!
//! pario replaces itself by the command, so that signals, terminal and exit code are the command's
//! own, and there is nothing to clean up.

mod launcher;
mod recording;
mod slurm;
mod variables;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use pario::Statistics;

use launcher::Launcher;
use pario_lab::failure::Failure;
use pario_lab::{hint, sweep};
use variables::Variables;

use crate::library;

/// Starts an MPI program with its MPI-IO served by pario.
///
/// The program is not changed: every MPI_File_* call that it makes itself, or through HDF5,
/// PnetCDF or mpi4py, goes to pario; all other calls go to its MPI library: MPICH, Open MPI, or
/// one with the standard ABI.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Print for each file, when it is closed, what was done: calls, strategies, aggregators,
    /// bytes, times, hints given and ignored; --stats=full also shows all hints in effect.
    /// --stats=FILE.jsonl writes it to a new file instead, every call of every rank as JSON;
    /// --stats=trace:FILE.jsonl adds every storage access. `pario report FILE.jsonl` shows both
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1", value_parser = parse_statistics)]
    stats: Option<Statistics>,

    /// The drop-in library [default: libpario_mpi.so beside this program, or in ../lib]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,

    /// A hint for all files, such as cb_nodes=4; may be repeated. It overrides the program's own.
    /// One that is unknown or has no effect is warned of and left out
    #[arg(long = "hint", value_name = "KEY=VALUE", value_parser = hint::parse)]
    hints: Vec<(String, String)>,

    /// The command: a launcher with its program, or a program alone
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Launchers:
  mpirun and mpiexec of MPICH (and its derivatives) and of Open MPI, and srun, get options that
  pass the variables below on to the ranks, also on other hosts. Any other command (a program alone,
  a script, `time mpirun ...`) inherits them in its environment. All variables that begin with
  PARIO_, and ROMIO_HINTS, ROMIO_PRINT_HINTS, PNETCDF_HINTS and Cray's MPICH_MPIIO_HINTS,
  MPICH_MPIIO_HINTS_DISPLAY, MPICH_MPIIO_STATS and MPICH_MPIIO_TIMERS, are passed on in the same
  way.

Environment of the ranks:
  LD_PRELOAD       the library, after what is there already (such as tools that use PMPI)
  PARIO_STATS=1    as --stats; PARIO_STATS=full, =FILE.jsonl, =trace:FILE.jsonl as with --stats=,
                   but lines are added to a file that is there already
  PARIO_HINTS      hints by file name: '*.h5:cb_nodes=4:cb_buffer_size=64M,/scratch/*:...'
  ROMIO_PRINT_HINTS=1, MPICH_MPIIO_HINTS_DISPLAY=1
                   print all hints in effect when a file is opened, on stdout or on stderr
  PARIO_DISABLE=1  pass all calls on to the MPI library's own MPI-IO
  PNETCDF_HINTS    gets nc_driver=mpiio unless it names a driver: PnetCDF 1.15 and later make no
                   MPI-IO calls otherwise

The exit code is that of the command; 127 if there is no such command, and 126 if it cannot be
started.

Examples:
  pario run -- mpirun -n 16 ./program
  pario run --stats -- mpiexec -n 4 python3 script.py
  pario run --stats=trace:run.jsonl -- mpirun -n 4 ./program && pario report run.jsonl
  pario run --hint cb_nodes=2 --hint pario_strategy=two-phase -- srun -n 64 ./program
  pario run --stats -- mpirun -n 2 ./ocean : -n 2 ./ice
  PARIO_DISABLE=1 pario run -- mpirun -n 16 ./program";

/// Runs the subcommand; returns only if that is not possible.
///
/// # Errors
/// `Usage` if there is no command, `Start` if the command cannot be started, `Run` if there is no
/// library.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(program) = arguments.command.first() else {
        return Err(Failure::Usage("there is no command to run".to_owned()));
    };
    let path = launcher::in_path(program).map_err(|error| cannot_start(program, &error))?;
    let library = library::find(arguments.library.as_deref())?;
    let statistics = arguments.stats.clone().map(recording::begin);
    let statistics = statistics.transpose()?;
    let variables = Variables::new(&library, statistics.as_deref(), &usable(&arguments.hints));
    let launcher = Launcher::recognise(program, &path);
    for warning in warnings(program, &path, launcher) {
        sweep::say(&format!("warning: {warning}"));
    }
    if arguments.stats.is_some() && variables.is_disabled() {
        sweep::say("warning: PARIO_DISABLE is set, so that there are no statistics");
    }
    let prepared = launcher.prepare(&arguments.command, variables);
    let mut command = Command::new(program);
    command.args(prepared.words.iter().skip(1)).envs(prepared.environment);
    Err(cannot_start(program, &command.exec()))
}

/// The hints that the ranks are given; the user is warned of the others. None stops the program, as
/// no hint stops a call of MPI.
fn usable(hints: &[(String, String)]) -> Vec<(String, String)> {
    let (refused, usable): (Vec<_>, Vec<_>) = hints
        .iter()
        .map(|hint| (hint, variables::refusal(hint)))
        .partition(|(_, refusal)| refusal.is_some());
    for ((key, value), reason) in refused {
        let reason = reason.unwrap_or_default();
        eprintln!("pario: warning: --hint {key}={value} has no effect: {reason}");
    }
    usable.into_iter().map(|(hint, _)| hint.clone()).collect()
}

/// Why a command cannot be started, with the exit code that shells have for it.
fn cannot_start(program: &OsStr, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure::Start { text: format!("cannot start {}: {error}", program.display()), code }
}

/// What `--stats=` means; what would be no statistics is refused.
fn parse_statistics(text: &str) -> Result<Statistics, String> {
    match text.parse() {
        Ok(Statistics::Off) | Err(_) => {
            Err("use 1, full, FILE.json, FILE.jsonl, json:FILE or trace:FILE".to_owned())
        }
        Ok(statistics) => Ok(statistics),
    }
}

/// Why pario may not reach the ranks that a command starts.
fn warnings(program: &OsStr, path: &Path, launcher: Launcher) -> Vec<String> {
    if launcher != Launcher::None {
        return Vec::new();
    }
    let unknown = launcher::has_common_name(program).then(|| {
        let program = program.display();
        format!("{program} is a launcher that is not known; ranks on other hosts may be left out")
    });
    privilege(path).into_iter().chain(unknown).collect()
}

/// Why the loader will not preload anything into a program, if so.
fn privilege(program: &Path) -> Option<String> {
    const SET_ID: u32 = 0o6000;
    let set_id = program.metadata().is_ok_and(|data| data.permissions().mode() & SET_ID != 0);
    let capable = rustix::fs::getxattr(program, "security.capability", &mut [0u8; 64][..]).is_ok();
    let what = match (set_id, capable) {
        (true, _) => "runs with the rights of its owner (set-uid or set-gid)",
        (_, true) => "has capabilities of its own",
        _ => return None,
    };
    let program = program.display();
    Some(format!("{program} {what}: the system lets nobody preload a library into it"))
}
