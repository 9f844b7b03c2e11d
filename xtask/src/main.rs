//! Tasks of the project: `cargo xtask test`, which runs all others, and its parts.
//!
//! `test` is the one command that says whether a change is good; continuous integration runs it
//! and nothing else. It needs no terminal and asks no questions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

// Files of the test kit, and not the crate: that would have pario built before any task.
mod browser;
#[path = "../../crates/pario-testkit/src/fair_clock.rs"]
mod fair_clock;
mod install;
mod mpi;
mod open_command;
mod source;
#[path = "../../crates/pario-testkit/src/stacks.rs"]
mod stacks;
mod steps;
mod style;

/// Tasks of the project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs all checks and tests; stops at the first failure.
    Test(TestArguments),
    /// Checks rules of style that neither rustfmt nor clippy checks.
    Style,
    /// Installs the program pario and the drop-in library.
    Install(install::InstallArguments),
    /// Fetches the MPI libraries that the tests need, unless they are there.
    Setup,
    /// Runs client programs on MPI libraries, natively and under pario.
    MpiTest(mpi::MpiTestArguments),
    /// Measures pario beside the MPI libraries' own MPI-IO, every byte verified.
    Peers(mpi::PeersArguments),
    /// Measures `auto` beside the best fixed strategy, and its predictions, over many cells.
    Cells(mpi::CellsArguments),
    /// Opens a report of `target/release/pario` in headless Chromium and compares it with its CSV.
    Browser,
    /// Generates the tables of MPI constants again, and the Rust code from them.
    Abi,
}

/// How much is tested.
#[derive(Args)]
struct TestArguments {
    /// Number of random programs to compare with the oracle [default: 50000, with --quick 2000].
    #[arg(long, value_name = "N")]
    programs: Option<u64>,
    /// Runs no programs on MPI libraries; see `cargo xtask mpi-test` for those.
    #[arg(long)]
    no_mpi: bool,
    /// Fewer random programs and no MPI, for use between two edits.
    #[arg(long)]
    quick: bool,
    /// Seed of the random programs, as a failed run printed it.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let root = root();
    let outcome = match &arguments.task {
        Task::Test(arguments) => steps::run_all(&root, arguments),
        Task::Style => style::check(&root),
        Task::Install(arguments) => install::run(&root, arguments),
        Task::Setup => mpi::setup(&root),
        Task::MpiTest(arguments) => mpi::test(&root, arguments),
        Task::Peers(arguments) => mpi::peers(&root, arguments),
        Task::Cells(arguments) => mpi::cells(&root, arguments),
        Task::Browser => browser::check_built(&root),
        Task::Abi => mpi::abi(&root),
    };
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the repository, one level above this package.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("xtask/src/main.rs").is_file());
    }
}
