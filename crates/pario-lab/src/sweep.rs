//! Removes a directory after the process that made it has ended, however it ended.
//!
//! A process that is killed cannot remove its files, and launchers kill ranks: Open MPI's does it
//! right after SIGTERM. So the process starts this program once more, with a pipe for its input,
//! and the end of that pipe is the end of the process. Signals of the terminal do not reach it,
//! because it has a process group of its own.
//!
//! Each line in the pipe is what is to be said if no other line follows; an empty one is nothing.
//!
//! Where a system ends all processes of a job at once (a control group of Slurm), this one ends,
//! too, and files stay.

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::failure::Failure;

/// How the names of directories begin that pario makes, and removes.
const PREFIX: &str = "pario-";

/// Waits, says what is to be said, removes.
///
/// # Errors
/// `Usage` for a directory that pario cannot have made, `Run` if it could not be removed.
pub fn run(directory: &Path) -> Result<(), Failure> {
    let name = directory.file_name().unwrap_or_default();
    if !name.to_string_lossy().starts_with(PREFIX) {
        let text = format!("{}: not made by pario", directory.display());
        return Err(Failure::Usage(text));
    }
    // A launcher may send its signals to every process that it finds.
    ctrlc::set_handler(|| ()).map_err(|error| Failure::during("arranging for signals", error))?;
    let last = io::stdin().lock().lines().map_while(Result::ok).last().unwrap_or_default();
    let removed = remove(directory);
    if !last.is_empty() {
        say(&format!("killed; {last}"));
    }
    removed.map_err(|error| Failure::during(directory.display(), error))
}

/// Says something to a reader that may be gone.
pub fn say(text: &str) {
    write(&format!("pario: {text}\n"));
}

/// Writes to stderr, without control characters of names; a reader that is gone is no reason to
/// panic while files are to be removed.
pub fn write(text: &str) {
    let _ = io::stderr().write_all(pario::escaped_lines(text).as_bytes());
}

/// Other processes may still make files there until they are ended, or belong to a control group.
fn remove(path: &Path) -> io::Result<()> {
    const TRIES: u32 = 500;
    let mut outcome = Ok(());
    for _ in 0..TRIES {
        // A control group has files that only vanish with it.
        outcome = fs::remove_dir(path).or_else(|_| fs::remove_dir_all(path));
        if outcome.is_ok() || !path.exists() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    outcome
}

/// The process that removes a directory after this one.
pub struct Sweeper {
    child: Child,
}

impl Sweeper {
    /// Starts it; `None` where that is not possible, and only a kill leaves files then.
    pub fn start(directory: &Path) -> Option<Sweeper> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("sweep").arg(directory).process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok()?;
        Some(Sweeper { child })
    }

    /// What is to be said if this process is killed.
    pub fn if_killed(&mut self, text: &str) {
        if let Some(pipe) = &mut self.child.stdin {
            // Without a reader there is nobody who could say it.
            let _ = writeln!(pipe, "{text}");
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.if_killed("");
        drop(self.child.stdin.take());
        // Its own outcome is about what is gone by now.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_pario_made_is_removed() {
        let directory = std::env::temp_dir().join(format!("not-pario-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let refused = run(&directory);
        assert!(matches!(refused, Err(Failure::Usage(_))));
        fs::remove_dir(&directory).unwrap();
    }
}
