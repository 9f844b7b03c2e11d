//! The program `pario`.
//!
//! Each subcommand is a module with `Arguments` for the command line and a function `run`, which
//! calls the lab (`pario run` needs no lab); a new one is its module, a variant of [`Command`] and
//! a line in [`run`].
//!
//! Exit codes: 0 if all went well, 1 if a run failed or bytes were wrong, 2 for arguments that
//! make no sense. Under a launcher, only the first rank prints the reason. `pario run` replaces
//! itself by the program that it starts, so that the exit code is the program's; as in a shell it
//! is 127 if there is no such program, and 126 if it cannot be started. It is 141 if nobody reads
//! the output any more, as for programs that SIGPIPE ends.

use std::any::TypeId;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

mod bench;
mod calibrate;
mod explain;
mod library;
mod report;
mod run;
mod study;
mod values;

use pario_lab::failure::Failure;
use pario_lab::{measure, sweep};

/// Parallel I/O for programs that run as many ranks.
#[derive(Parser)]
#[command(name = "pario", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  pario run --stats -- mpirun -n 4 ./program
                         serve the MPI-IO of a program, and report what was done
  pario bench            compare all strategies with Block I/O, in one to two minutes
  pario bench --quick    the same in a few seconds, with little data
  pario calibrate        measure this machine's costs and store them as a profile
  pario explain dist3d   every way to serve a call, with its predicted time
  pario explain paper    the model of paper 001: when collective I/O pays
  pario report run.jsonl a page with charts from bench --json or run --stats=run.jsonl
  pario study --quick    repeat the experiments of the papers, and make a page of them
  pario help bench       all options";

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Bench(Box<bench::Arguments>),
    Calibrate(calibrate::Arguments),
    Explain(Box<explain::Arguments>),
    Report(report::Arguments),
    Study(study::Arguments),
    /// Removes a directory once standard input has ended. For use by pario itself.
    #[command(hide = true)]
    Sweep {
        directory: PathBuf,
    },
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Bench(arguments) => bench::run(*arguments),
        Command::Calibrate(arguments) => calibrate::run(arguments),
        Command::Explain(arguments) => explain::run(*arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Study(arguments) => study::run(arguments),
        Command::Sweep { directory } => sweep::run(&directory),
    }
}

/// The command line. An option takes a negative number as its value, and refuses it by what it says
/// of its values; otherwise clap would take the number for an option, and propose `-- -3`.
fn command_line() -> clap::Command {
    fn with_numbers(command: clap::Command) -> clap::Command {
        let numbers = [TypeId::of::<u8>(), TypeId::of::<u32>(), TypeId::of::<u64>()];
        let is_number =
            |arg: &Arg| numbers.iter().any(|one| arg.get_value_parser().type_id() == *one);
        let is_size = |arg: &Arg| {
            let names = arg.get_value_names().unwrap_or_default();
            names.iter().any(|name| name.starts_with("SIZE"))
        };
        let arg = |arg: Arg| match () {
            // With its unit, as -1K, it is no number for clap.
            () if is_size(&arg) => arg.allow_hyphen_values(true),
            () if is_number(&arg) && arg.get_action().takes_values() => {
                arg.allow_negative_numbers(true)
            }
            () => arg,
        };
        command.mut_args(arg).mut_subcommands(with_numbers)
    }
    with_numbers(Cli::command())
}

/// What was typed.
fn parse() -> Result<Cli, clap::Error> {
    let mut matches = command_line().try_get_matches()?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// Ends the program with what is to be said about its arguments.
fn refuse(error: &clap::Error) -> ! {
    if pario_mpi::launched().is_some_and(|launch| launch.rank > 0) {
        std::process::exit(error.exit_code());
    }
    error.exit();
}

fn main() -> ExitCode {
    pario::log_to_stderr();
    let cli = parse().unwrap_or_else(|error| refuse(&error));
    let ended = run(cli.command);
    measure::scratch::wait_if_interrupted();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            let text = pario::escaped_lines(&text);
            refuse(&command_line().error(ErrorKind::ValueValidation, text));
        }
        Err(failure) => {
            if let Failure::Run(text) | Failure::Lost(text) | Failure::Start { text, .. } = &failure
            {
                sweep::say(text);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
