//! Why a subcommand ended early: the one error type of the program.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// What a shell reports of a program that SIGPIPE has ended: 128 and the number of the signal.
const UNREAD: u8 = 141;

/// Why a subcommand ended early.
#[derive(Debug, Serialize, Deserialize)]
pub enum Failure {
    /// The arguments make no sense; exit code 2.
    Usage(String),
    /// The run failed, or bytes were wrong; exit code 1.
    Run(String),
    /// A rank cannot reach the others, who may wait for it; exit code 1.
    Lost(String),
    /// A command of the user cannot be started, with the exit code that shells have for it.
    Start {
        /// What is said.
        text: String,
        /// The exit code.
        code: u8,
    },
    /// Nobody reads the output any more, as after `| head -1`: nothing is said.
    Unread,
    /// A failure of all ranks that another one prints, with its exit code.
    Told(u8),
}

impl Failure {
    /// What the program ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) | Failure::Lost(_) => 1,
            Failure::Start { code, .. } | Failure::Told(code) => *code,
            Failure::Unread => UNREAD,
        }
    }

    /// The same, with the part of a program in which it happened.
    pub fn in_part(self, part: &str) -> Failure {
        match self {
            Failure::Usage(text) => Failure::Usage(format!("{part}: {text}")),
            Failure::Run(text) => Failure::Run(format!("{part}: {text}")),
            Failure::Lost(text) => Failure::Lost(format!("{part}: {text}")),
            Failure::Start { text, code } => {
                Failure::Start { text: format!("{part}: {text}"), code }
            }
            Failure::Told(code) => Failure::Told(code),
            Failure::Unread => Failure::Unread,
        }
    }

    /// Output that could not be written.
    pub fn of_output(what: impl fmt::Display, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Unread,
            _ => Failure::during(what, error),
        }
    }

    /// A run that failed while it did something.
    pub fn during(what: impl fmt::Display, error: impl fmt::Display) -> Failure {
        Failure::Run(format!("{what}: {error}"))
    }
}
