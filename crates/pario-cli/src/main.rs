//! The program `pario`.
//!
//! Each subcommand is a module with `Arguments` for the command line and a function `run`; a new
//! one is its module, a variant of [`Command`] and a line in [`run`].
//!
//! Exit codes: 0 if all went well, 1 if a run failed or bytes were wrong, 2 for arguments that
//! make no sense. `pario run` becomes the program that it starts, and ends with that one's.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

mod bench;
mod failure;
mod hint;
mod run;

use failure::Failure;

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
                         serve the MPI-IO of a program, and tell what was done
  pario bench            compare all strategies with Block I/O, in one to two minutes
  pario bench --quick    the same in a few seconds, with little data
  pario help bench       all options";

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Bench(bench::Arguments),
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            Cli::command().error(ErrorKind::ValueValidation, text).exit();
        }
        Err(Failure::Run(text)) => {
            eprintln!("pario: {text}");
            ExitCode::FAILURE
        }
    }
}
