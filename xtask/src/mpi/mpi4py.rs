//! The tests of mpi4py that touch files, on each MPI that has a Python.
//!
//! Under pario none may fail, and none is skipped because the library's own MPI-IO is known to fail
//! it. With the library's own MPI-IO they run for comparison: failures there are only reported.
//! Since nothing changes a library that was fetched, they run on it once and the outcome is kept.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Places;
use super::clients;
use super::header::Mode;
use super::launch::{self, Finished};
use super::library::{Mpi, Start};
use super::report::{self, Outcome, Report};
use super::setup::Setup;
use super::verdict;

const RANKS: [u32; 3] = [1, 2, 5];
const LIMIT: Duration = Duration::from_secs(600);

/// How a fault begins that the time limit made.
const HANGS: &str = "hangs";

/// What marks a test file that touches files.
const TOUCHES_FILES: [&str; 2] = ["MPI.File", "MPI.FILE_NULL"];

/// What unittest said at the end, over all ranks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    /// Ranks that came to the end.
    ranks: u32,
    /// Of the rank that ran the least.
    ran: u64,
    failed: u64,
    /// Of the rank that skipped the most.
    skipped: u64,
}

/// Runs the tests everywhere, natively and under pario.
pub(super) fn run_all(
    places: &Places,
    setup: &Setup,
    library: Option<&Path>,
    report: &mut Report,
) -> Result<(), String> {
    let Some(tests) = &setup.mpi4py_tests else { return Ok(()) };
    let pattern = pattern(tests)?;
    let mut cases = Vec::new();
    for mpi in setup.mpis.iter().filter(|mpi| mpi.python.is_some()) {
        for ranks in RANKS.into_iter().rev() {
            cases.push((mpi, ranks, None));
            cases.extend(library.map(|library| (mpi, ranks, Some(library))));
        }
    }
    let outcomes =
        clients::at_once("runs of mpi4py's tests done", cases, |(mpi, ranks, library)| {
            let kept = tests.join(format!("native-{}-{ranks}.txt", mpi.name));
            if library.is_none()
                && let Ok(note) = fs::read_to_string(&kept)
            {
                let program = row(ranks, Mode::Native);
                return Ok(Outcome {
                    program,
                    mpi: mpi.name,
                    seconds: 0.0,
                    faults: Vec::new(),
                    note,
                });
            }
            let start = start(mpi, ranks, tests, &pattern)?;
            let outcome = run(places, setup, mpi, library, start)?;
            // A time limit says more about the machine than about the library.
            if library.is_none() && !outcome.note.contains(HANGS) {
                let written = fs::write(&kept, &outcome.note);
                written.map_err(|error| format!("cannot write {}: {error}", kept.display()))?;
            }
            Ok(outcome)
        })?;
    outcomes.into_iter().for_each(|outcome| report.add(outcome));
    Ok(())
}

/// A regular expression for the names of test files that touch files.
fn pattern(tests: &Path) -> Result<String, String> {
    let failed = |error| format!("cannot read {}: {error}", tests.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(tests).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().display().to_string();
        if name.starts_with("test_") && name.ends_with(".py") {
            let text = fs::read_to_string(&path).map_err(failed)?;
            if TOUCHES_FILES.iter().any(|word| text.contains(word)) {
                names.push(name.replace('.', "\\."));
            }
        }
    }
    names.sort();
    match names.is_empty() {
        true => Err(format!("no test in {} touches files", tests.display())),
        false => Ok(format!("^({})$", names.join("|"))),
    }
}

fn start(mpi: &Mpi, ranks: u32, tests: &Path, pattern: &str) -> Result<Start, String> {
    let python = mpi.python.as_ref().ok_or("this MPI has no Python")?;
    let main = tests.join("main.py");
    let words = vec![python.into(), main.into(), "-v".into(), "-i".into(), pattern.into()];
    Ok(Start { ranks, words, env: Vec::new(), preload: Vec::new() })
}

fn run(
    places: &Places,
    setup: &Setup,
    mpi: &Mpi,
    library: Option<&Path>,
    mut start: Start,
) -> Result<Outcome, String> {
    let mode = if library.is_some() { Mode::Pario } else { Mode::Native };
    let ranks = start.ranks;
    let name = format!("mpi4py-{ranks}-{}", mode.name());
    let directory = places.mpi.join("scratch").join(mpi.name).join(&name);
    fs::create_dir_all(&directory)
        .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    start.env.push(("TMPDIR".to_owned(), directory.clone().into()));
    start.env.push(("PYTHONDONTWRITEBYTECODE".to_owned(), "1".into()));
    if let Some(library) = library {
        start.words.push("--no-skip-mpi".into());
        start.env.push(("PARIO_MPI_COUNT".to_owned(), "1".into()));
        start.preload.push(library.to_owned());
    }
    start.preload.extend(mpi.needs_patience().then(|| setup.patience.clone()));
    let finished = launch::launch(mpi, &start, &directory, LIMIT)?;
    let summary = summary(&finished.stderr);
    let mut faults = faults(&finished, &summary, ranks);
    faults.extend(library.and_then(|_| verdict::unserved(&finished.stderr, ranks, 1)));
    let mut note =
        format!("{} ran {} failed {} skipped", summary.ran, summary.failed, summary.skipped);
    if mode == Mode::Native && !faults.is_empty() {
        note = format!("({note}; {})", faults.join("; "));
        faults.clear();
    }
    let log = places.mpi.join("logs").join(mpi.name).join(name + ".log");
    report::write_log(&log, &finished.log, &faults)?;
    fs::remove_dir_all(&directory)
        .map_err(|error| format!("cannot remove {}: {error}", directory.display()))?;
    let program = row(ranks, mode);
    Ok(Outcome { program, mpi: mpi.name, seconds: finished.seconds, faults, note })
}

fn row(ranks: u32, mode: Mode) -> String {
    format!("mpi4py, {ranks} ranks, {}", mode.name())
}

fn faults(finished: &Finished, summary: &Summary, ranks: u32) -> Vec<String> {
    let mut faults = Vec::new();
    match finished.status {
        None => faults.push(finished.hangs()),
        Some(status) if !status.success() => faults.push(format!("ended with {status}")),
        Some(_) => {}
    }
    if summary.ranks != ranks {
        faults.push(format!("{} of {ranks} ranks came to the end", summary.ranks));
    }
    if summary.failed > 0 {
        faults.push(format!("{} tests failed", summary.failed));
    }
    faults
}

/// Reads unittest's last lines, of each rank: `Ran 212 tests in 4.3s`, `OK (skipped=2)`.
/// They may follow what another rank has begun a line with.
fn summary(stderr: &str) -> Summary {
    let mut summary = Summary::default();
    for line in stderr.lines() {
        for rest in line.split("Ran ").skip(1).filter(|rest| rest.contains(" test")) {
            let ran = rest.split_whitespace().next().and_then(|word| word.parse().ok());
            let ran = ran.unwrap_or_default();
            summary.ran = if summary.ranks == 0 { ran } else { summary.ran.min(ran) };
            summary.ranks += 1;
        }
        for last in ["OK (", "FAILED ("].iter().filter_map(|word| line.find(word)) {
            let numbers = report::named_numbers(&line[last..]);
            let number = |name| numbers.get(name).copied().unwrap_or_default();
            summary.failed += number("failures") + number("errors");
            summary.skipped = summary.skipped.max(number("skipped"));
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_all_ranks_are_added_up() {
        let text = "x ... ok\nRan 212 tests in 4.3s\n\nOK (skipped=2)\nRan 211 tests in 1s\n\n\
                    FAILED (failures=1, errors=2, skipped=3)\n";
        let expected = Summary { ranks: 2, ran: 211, failed: 3, skipped: 3 };
        assert_eq!(summary(text), expected);
        let torn = "Ran 2 tests in 1s\n\nOK\nx ... Ran 3 tests in 1s\ny ... FAILED (errors=1)\n";
        assert_eq!(summary(torn), Summary { ranks: 2, ran: 2, failed: 1, skipped: 0 });
        assert_eq!(summary(""), Summary::default());
    }
}
