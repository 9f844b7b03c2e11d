//! Why a subcommand ended early: the one error type of the program.

use std::fmt;

/// Why a subcommand ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense; exit code 2.
    Usage(String),
    /// The run failed, or bytes were wrong; exit code 1.
    Run(String),
}

impl Failure {
    /// A run that failed while it did something.
    pub(crate) fn during(what: impl fmt::Display, error: impl fmt::Display) -> Failure {
        Failure::Run(format!("{what}: {error}"))
    }
}
