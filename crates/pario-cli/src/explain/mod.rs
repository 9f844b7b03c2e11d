//! `pario explain`: times from models, and why one technique is faster than another.
//!
//! | file | concept |
//! | --- | --- |
//! | `paper` | the tables and the figure of paper 001, from its own parameters |
//! | `figure` | that figure as a picture |
//!
//! Nothing is measured here, and nothing is sent: under a launcher the first rank answers.

mod figure;
mod paper;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Predicts times of I/O from models.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    topic: Topic,
}

#[derive(Subcommand, Clone, Debug)]
enum Topic {
    Paper(paper::Arguments),
}

/// Runs the subcommand.
///
/// # Errors
/// `Run` if the output cannot be written.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if pario_mpi::launched().is_some_and(|launch| launch.rank > 0) {
        return Ok(());
    }
    match &arguments.topic {
        Topic::Paper(arguments) => paper::run(arguments),
    }
}
