//! The program `pario`.
//!
//! Each subcommand is a module with `Arguments` for the command line and a function `run`; a new
//! one is its module, a variant of [`Command`] and a line in [`run`].
//!
//! Exit codes: 0 if all went well, 1 if a run failed or bytes were wrong, 2 for arguments that
//! make no sense.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

mod bench;
mod failure;

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
  pario bench            compare all strategies with Block I/O, in one to two minutes
  pario bench --quick    the same in a few seconds, with little data
  pario help bench       all options";

#[derive(Subcommand)]
enum Command {
    Bench(bench::Arguments),
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
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
