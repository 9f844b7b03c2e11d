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
//! | `paper` | the tables and the figure of paper 001, from its own parameters |
//! | `figure` | that figure as a picture |
//!
//! Unless it is asked to run the ways, nothing is measured here, and nothing is sent: under a
//! launcher the first rank answers.

mod advice;
mod answer;
mod call;
mod figure;
mod machine;
mod measured;
mod paper;
mod recorded;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Shows every way to serve a call, with its predicted time, and why one is chosen.
///
/// The call is described: a workload of `pario bench` or a pattern from a file, any number of ranks
/// and nodes, and the profile of a machine (`pario calibrate`, or a built-in one). It is planned as
/// a real call is; nothing is opened, sent or stored, so a call on a thousand nodes takes less
/// than a second.
///
/// Or the calls are those of a program: `pario run --stats=run.jsonl` records them, and `pario
/// explain run.jsonl` shows each kind of them beside what was measured, and what to change.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = call::AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    topic: Option<Topic>,

    #[command(flatten)]
    call: call::Arguments,
}

#[derive(Subcommand, Clone, Debug)]
enum Topic {
    Paper(paper::Arguments),
}

/// Runs the subcommand.
///
/// # Errors
/// `Run` if the output cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let runs = arguments.topic.is_none() && arguments.call.run;
    if !runs && pario_mpi::launched().is_some_and(|launch| launch.rank > 0) {
        return Ok(());
    }
    match &arguments.topic {
        Some(Topic::Paper(arguments)) => paper::run(arguments),
        None => call::run(&arguments.call),
    }
}
