//! Commands whose work is seen while they do it: what they build and fetch, with their progress.

use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};

use crate::steps::shown;

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// What it wrote to its standard error, which was also shown.
    pub(crate) errors: String,
}

/// Runs a command without input. It is shown as one would type it, and so is all that it prints.
///
/// A program that prints its progress to a terminal still finds one as its standard output.
pub(crate) fn run(command: &mut Command) -> Result<Ended, String> {
    println!("$ {}", shown(command));
    let failed = |error: io::Error, command: &Command| {
        format!("cannot start {}: {error}", command.get_program().display())
    };
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error, command))?;
    let mut errors = Vec::new();
    if let Some(mut pipe) = child.stderr.take() {
        let mut part = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut part) {
            // Where nobody reads what is shown, it is still in the text.
            let _ = io::stderr().write_all(&part[..count]);
            errors.extend_from_slice(&part[..count]);
        }
    }
    let status = child.wait().map_err(|error| failed(error, command))?;
    Ok(Ended { status, errors: String::from_utf8_lossy(&errors).into_owned() })
}

/// Runs cargo in a directory with its own way of showing progress.
pub(crate) fn cargo(words: &[&str], directory: &std::path::Path) -> Result<(), String> {
    let mut command = Command::new(crate::steps::cargo_path());
    command.args(words).current_dir(directory).stdin(Stdio::null());
    println!("$ {}", shown(&command));
    let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("cargo {} failed with {status}", words.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_and_the_end_is_known() {
        let mut command = Command::new("sh");
        let ended = run(command.args(["-c", "echo one >&2; echo two >&2; exit 3"])).unwrap();
        assert_eq!((ended.errors.as_str(), ended.status.code()), ("one\ntwo\n", Some(3)));
        assert!(run(&mut Command::new("/nonexistent")).is_err());
    }
}
