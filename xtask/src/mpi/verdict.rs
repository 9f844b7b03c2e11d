//! What makes a run good: its end, its last line, the calls that pario served, and no traces.

use std::path::Path;
use std::process::{Command, Stdio};

use super::header::{Header, Mode};
use super::launch::Finished;
use super::shared_memory;
use super::traces;

/// How the library's line begins that says how many calls it served.
const SERVED: &str = "pario-mpi: served ";

/// All that was wrong with a run; nothing if it was good.
pub(super) fn faults(
    header: &Header,
    run: (Mode, u32),
    finished: &Finished,
    directory: &Path,
) -> Vec<String> {
    let (mode, ranks) = run;
    let mut faults = Vec::new();
    match finished.status {
        None => faults.push(finished.hangs()),
        Some(status) if status.success() != header.ends_well => {
            faults.push(format!("ended with {status}"));
        }
        Some(_) => {}
    }
    if !passed(&finished.stdout) {
        faults.push("no line PASS, or a line FAIL".to_owned());
    }
    if mode == Mode::Pario {
        faults.extend(header.calls_min.and_then(|min| unserved(&finished.stderr, ranks, min)));
        faults.extend(said(&finished.stderr, &header.says));
    }
    if mode == Mode::Pario && finished.stderr.contains("OSC UCX component") {
        faults.push("Open MPI made a window, which it complains of".to_owned());
    }
    if finished.strays > 0 && finished.status.is_some() {
        faults.push(format!("{} processes were left behind", finished.strays));
    }
    faults.extend(directory_faults(header, directory));
    faults.extend(memory_faults(finished, header.ends_well && header.tidies));
    faults
}

/// Files that a run left in shared memory. After a kill the MPI library cannot remove its own, and
/// neither can a rank that has dropped its rights.
pub(super) fn memory_faults(finished: &Finished, tidies: bool) -> Vec<String> {
    let came_to_its_end = tidies && finished.status.is_some();
    let left = finished.left_in_memory.iter();
    let left = left.filter(|name| came_to_its_end || !shared_memory::is_of_library(name));
    left.map(|name| format!("left in shared memory: {name}")).collect()
}

/// What is wrong unless each text is on stderr once.
pub(super) fn said(stderr: &str, texts: &[String]) -> Vec<String> {
    let counted = texts.iter().map(|text| (text, stderr.matches(text.as_str()).count()));
    let wrong = counted.filter(|(_, count)| *count != 1);
    wrong.map(|(text, count)| format!("`{text}` is said {count} times, not once")).collect()
}

fn directory_faults(header: &Header, directory: &Path) -> Vec<String> {
    let found = traces::unexpected(directory, &[]);
    let missing = header.leaves.iter().filter(|name| !found.contains(name));
    let missing = missing.map(|name| format!("the file {name} is missing"));
    let left = traces::unexpected(directory, &header.leaves);
    missing.chain(left.iter().map(|name| format!("left in its directory: {name}"))).collect()
}

/// What a program says that it has left out, and why.
pub(super) fn skipped(stdout: &str) -> Vec<&str> {
    stdout.lines().filter_map(|line| line.trim().strip_prefix("SKIPPED ")).collect()
}

/// What a client wants to have in the table: what follows `TABLE` in its last such line.
pub(super) fn note(stdout: &str) -> String {
    let mut notes = stdout.lines().rev().filter_map(|line| line.trim().strip_prefix("TABLE "));
    notes.next().map(|note| format!("({note})")).unwrap_or_default()
}

/// Ranks write to one pipe, so that lines of others may come after the last one of rank 0.
fn passed(stdout: &str) -> bool {
    let mut lines = stdout.lines().map(str::trim);
    let failed = stdout.lines().any(|line| line.contains("FAIL "));
    lines.any(|line| line == "PASS") && !failed
}

/// What is wrong if not every rank says that pario served the wanted number of its calls.
pub(super) fn unserved(stderr: &str, ranks: u32, min: u64) -> Option<String> {
    let counts = served(stderr);
    if counts.len() != usize::try_from(ranks).unwrap_or(usize::MAX) {
        let told = counts.len();
        return Some(format!("{told} of {ranks} ranks told how many calls pario served"));
    }
    let least = counts.into_iter().min()?;
    (least < min).then(|| format!("pario served {least} calls on a rank, not {min}"))
}

/// How many calls each rank served. A launcher may put its own words before a line.
fn served(stderr: &str) -> Vec<u64> {
    let count = |line: &str| {
        let (_, rest) = line.split_once(SERVED)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    stderr.lines().filter_map(count).collect()
}

/// Runs the programs that look at what a client left; adds their output to the log.
pub(super) fn after_faults(header: &Header, directory: &Path, log: &mut String) -> Vec<String> {
    let mut faults = Vec::new();
    let mut text = String::new();
    for words in &header.after {
        let Some((program, arguments)) = words.split_first() else { continue };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory).stdin(Stdio::null());
        match command.output() {
            Ok(output) => {
                text += &String::from_utf8_lossy(&output.stdout);
                text += &String::from_utf8_lossy(&output.stderr);
                if !output.status.success() {
                    faults.push(format!("{} ended with {}", words.join(" "), output.status));
                }
            }
            Err(error) => faults.push(format!("cannot start {program}: {error}")),
        }
    }
    let missing = header.expect.iter().filter(|expected| !text.contains(expected.as_str()));
    faults.extend(missing.map(|expected| format!("no `{expected}` in what was read back")));
    if !header.after.is_empty() {
        *log += &format!("--- afterwards\n{text}");
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_to_be_served() {
        let two = "pario-mpi: served 3 calls\nnoise\n[1,0]<stderr>: pario-mpi: served 4 calls\n";
        assert_eq!(unserved(two, 2, 3), None);
        assert!(unserved(two, 2, 4).is_some());
        assert!(unserved(two, 3, 1).is_some());
        assert!(unserved("", 1, 0).is_some());
    }

    #[test]
    fn a_line_has_to_be_pass_and_none_fail() {
        assert!(passed("x\nPASS\n\n") && passed("PASS\nx\n"));
        assert_eq!([note("TABLE a\nTABLE b\nPASS\n"), note("NOTE c\n")], ["(b)", ""]);
        assert!(!passed("") && !passed("xPASS\n") && !passed("PASS\nFAIL x\n"));
    }
}
