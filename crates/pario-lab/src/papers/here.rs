//! Measurements on this machine: `pario bench` in a process of its own, its results read as JSON.
//!
//! That process verifies every byte and removes its files, also on Ctrl-C, which is passed on. Its
//! input is a pipe that ends with this process, so that it ends, too, if this one is killed.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::Run;
use super::disk::{self, Disk};
use super::outcome::Findings;
use crate::failure::Failure;

/// After this, a short measurement makes no more repetitions.
const SECONDS_MAX: &str = "20";

/// What measures now. Nothing is started while this is locked, nor after an interruption.
static NOW: Mutex<Now> = Mutex::new(Now { child: None, interrupted: false });

struct Now {
    child: Option<Pid>,
    interrupted: bool,
}

fn now() -> MutexGuard<'static, Now> {
    // Nothing in there can be half done.
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a measurement that runs, and waits until it has removed its files.
pub(super) fn interrupt() {
    /// On a busy machine it may take seconds.
    const TRIES: u32 = 6000;
    let child = {
        let mut now = now();
        now.interrupted = true;
        now.child
    };
    if let Some(pid) = child {
        // It may have ended.
        let _ = kill_process_group(pid, Signal::INT);
    }
    for _ in 0..TRIES {
        if now().child.is_none() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the end of the program if it was interrupted: the handler of Ctrl-C ends it.
fn wait_if_interrupted(now: MutexGuard<'_, Now>) -> MutexGuard<'_, Now> {
    if !now.interrupted {
        return now;
    }
    drop(now);
    loop {
        thread::park();
    }
}

/// One line of results.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    record: Value,
}

impl Measured {
    fn word(&self, key: &str) -> &str {
        self.record[key].as_str().unwrap_or_default()
    }

    pub(crate) fn number(&self, key: &str) -> f64 {
        self.record[key].as_f64().unwrap_or(f64::NAN)
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.number("seconds")
    }

    /// MB/s, as the papers count.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.number("bytes") / self.seconds() / 1e6
    }

    /// All times of a key that has several.
    pub(crate) fn numbers(&self, key: &str) -> Vec<f64> {
        let all = self.record[key].as_array().into_iter().flatten();
        all.filter_map(Value::as_f64).collect()
    }
}

/// Results of a run.
pub(crate) struct Table {
    all: Vec<Measured>,
}

impl Table {
    /// Only the results of one part of a program.
    pub(crate) fn part(mut self, name: &str) -> Table {
        self.all.retain(|one| one.word("part") == name);
        self
    }

    /// The result of a strategy at a level, one way; the first if there are several.
    pub(crate) fn find(
        &self,
        strategy: &str,
        level: Option<u64>,
        direction: &str,
    ) -> Result<&Measured, Failure> {
        let fits = |one: &&Measured| {
            one.word("strategy") == strategy
                && one.word("direction") == direction
                && (level.is_none() || one.record["level"].as_u64() == level)
        };
        let missing = || Failure::Run(format!("bench has no result of {strategy}, {direction}"));
        self.all.iter().find(fits).ok_or_else(missing)
    }
}

/// Runs `pario bench` with these words.
///
/// # Errors
/// It failed: a byte was wrong, or it could not run.
pub(crate) fn bench(run: &Run, words: &str, findings: &mut Findings) -> Result<Table, Failure> {
    let mut command = Command::new(program()?);
    let output = measure(run, &mut command, words)?;
    table(words, &output, findings)
}

/// The same on a disk in memory, with a limit on the page cache; or why there can be no such thing.
///
/// # Errors
/// It failed: a byte was wrong.
pub(super) fn bench_on(
    run: &Run,
    words: &str,
    disk: Disk,
    findings: &mut Findings,
) -> Result<Result<Table, String>, Failure> {
    /// That of `pario bench` if it cannot limit the page cache.
    const USAGE: i32 = 2;
    if let Some(reason) = Disk::hindrance() {
        return Ok(Err(reason.to_owned()));
    }
    let mut command = disk.command(run);
    command.arg(program()?);
    let output = measure(run, &mut command, words)?;
    if let Some(disk::REFUSED | USAGE) = output.status.code() {
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no disk");
        return Ok(Err(reason.trim().to_owned()));
    }
    table(words, &output, findings).map(Ok)
}

fn program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::during("finding the program itself", error))
}

/// Runs the rest of a command; its process group is its own, so that Ctrl-C reaches it once.
fn measure(run: &Run, command: &mut Command, words: &str) -> Result<Output, Failure> {
    run.progress.measure();
    command.args(["bench", "--embedded", "--json", "--end-with-stdin"]);
    command.args(words.split_whitespace());
    if !run.full {
        command.args(["--seconds-max", SECONDS_MAX]);
    }
    if let Some(directory) = &run.directory {
        command.arg("--dir").arg(directory);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = {
        let mut now = wait_if_interrupted(now());
        let child = command.spawn();
        let child = child.map_err(|error| Failure::during("starting pario bench", error))?;
        now.child = Some(Pid::from_child(&child));
        child
    };
    let pipe = child.stdin.take();
    let output = child.wait_with_output();
    drop(pipe);
    let mut now = now();
    now.child = None;
    drop(wait_if_interrupted(now));
    output.map_err(|error| Failure::during("pario bench", error))
}

fn table(words: &str, output: &Output, findings: &mut Findings) -> Result<Table, Failure> {
    if !output.status.success() {
        let (text, status) = (String::from_utf8_lossy(&output.stderr), output.status);
        return Err(Failure::Run(format!("pario bench {words}: {status}: {}", text.trim())));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let record = |line: &str| {
        let record = serde_json::from_str(line);
        record.map(|record| Measured { record })
    };
    let all = text.lines().map(record).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| Failure::during("results of pario bench", error))?;
    findings.note(format!("pario bench {words}"));
    findings.notes.extend(cut_short(&all, repetitions(words)));
    Ok(Table { all })
}

/// Repetitions that a command line asks for.
fn repetitions(words: &str) -> u32 {
    let unasked = if words.split_whitespace().any(|word| word == "--quick") { 1 } else { 3 };
    let mut after = words.split_whitespace().skip_while(|word| *word != "--repeat").skip(1);
    after.next().and_then(|count| count.parse().ok()).unwrap_or(unasked)
}

/// That there was no time for all repetitions, if so.
fn cut_short(all: &[Measured], asked: u32) -> Option<String> {
    let least = all.iter().map(|one| one.number("repetitions")).fold(f64::INFINITY, f64::min);
    let is_cut = least < f64::from(asked);
    is_cut.then(|| {
        format!(
            "{least:.0} of {asked} repetitions, since they took more than {SECONDS_MAX} s; --full \
             makes all"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_with_fewer_repetitions_than_asked_for_says_so() {
        assert_eq!(repetitions("dist3d --repeat 5 --ranks 4"), 5);
        assert_eq!(repetitions("dist3d --ranks 4"), 3);
        assert_eq!(repetitions("dist3d --quick --ranks 4"), 1);
        assert_eq!(repetitions("dist3d --quick --repeat 2"), 2);
        let measured = |count: u32| Measured { record: serde_json::json!({"repetitions": count}) };
        assert_eq!(cut_short(&[measured(3), measured(3)], 3), None);
        let note = cut_short(&[measured(3), measured(1)], 3).unwrap();
        assert!(note.starts_with("1 of 3 repetitions"), "{note}");
    }
}
