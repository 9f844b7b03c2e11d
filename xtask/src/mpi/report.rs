//! The outcomes of all runs as a table of programs and MPI libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

const LINES_SHOWN: usize = 40;

/// The outcome of one run, or of some that share a cell of the table.
pub(super) struct Outcome {
    /// The row.
    pub(super) program: String,
    /// The column.
    pub(super) mpi: &'static str,
    pub(super) seconds: f64,
    /// All that was wrong.
    pub(super) faults: Vec<String>,
    /// What the table says besides.
    pub(super) note: String,
}

#[derive(Default)]
pub(super) struct Report {
    outcomes: Vec<Outcome>,
}

impl Report {
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// A line for the end of the log; an error if a run failed, or if there was none although
    /// nothing was skipped.
    pub(super) fn outcome(&self, skipped: &[String]) -> Result<String, String> {
        let failed = self.outcomes.iter().filter(|outcome| !outcome.faults.is_empty()).count();
        match (failed, self.outcomes.len()) {
            (0, 0) if skipped.is_empty() => Err("no run was asked for".to_owned()),
            (0, 0) => Ok("no run on MPI is possible here".to_owned()),
            (0, count) => Ok(format!("{count} runs on MPI passed")),
            (failed, count) => Err(format!("{failed} of {count} runs on MPI failed")),
        }
    }

    fn cell(&self, program: &str, mpi: &str) -> String {
        let here = |outcome: &&Outcome| outcome.program == program && outcome.mpi == mpi;
        let outcomes: Vec<&Outcome> = self.outcomes.iter().filter(here).collect();
        if outcomes.is_empty() {
            return "-".to_owned();
        }
        let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
        let good = outcomes.iter().all(|outcome| outcome.faults.is_empty());
        let word = if good { "ok" } else { "FAIL" };
        let notes = outcomes.iter().map(|outcome| outcome.note.as_str());
        let notes: Vec<&str> = notes.filter(|note| !note.is_empty()).collect();
        let text = format!("{word} {} {seconds:.1} s", notes.join(" "));
        text.replace("  ", " ")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outcomes.is_empty() {
            return Ok(());
        }
        let programs = distinct(self.outcomes.iter().map(|outcome| outcome.program.as_str()));
        let mpis = distinct(self.outcomes.iter().map(|outcome| outcome.mpi));
        let mut columns = vec![programs.iter().map(|program| (*program).to_owned()).collect()];
        for mpi in &mpis {
            columns.push(programs.iter().map(|program| self.cell(program, mpi)).collect());
        }
        let heads = std::iter::once("program").chain(mpis.iter().copied());
        let mut lines = vec![String::new(); programs.len() + 1];
        for (head, mut column) in heads.zip(columns) {
            let column: &mut Vec<String> = &mut column;
            column.insert(0, head.to_owned());
            let width = column.iter().map(String::len).max().unwrap_or_default();
            for (line, cell) in lines.iter_mut().zip(column) {
                *line += &format!("{cell:width$}  ");
            }
        }
        lines.iter().try_for_each(|line| writeln!(formatter, "{}", line.trim_end()))
    }
}

/// Each once, in the order in which they come.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}

/// Writes the log of a run; if there were faults, its end is shown with them.
pub(super) fn write_log(path: &Path, log: &str, faults: &[String]) -> Result<(), String> {
    let failed = |error| format!("cannot write {}: {error}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let verdict = match faults.is_empty() {
        true => "good".to_owned(),
        false => faults.join("; "),
    };
    fs::write(path, format!("{log}\n--- verdict\n{verdict}\n")).map_err(failed)?;
    if !faults.is_empty() {
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        println!("FAIL: {verdict}\n{}\n(all of it: {})", shown.join("\n"), path.display());
    }
    Ok(())
}

/// Numbers that a text has as `name=number`.
pub(super) fn named_numbers(text: &str) -> BTreeMap<&str, u64> {
    let words = text.split(|character: char| !character.is_alphanumeric() && character != '=');
    let pairs = words.filter_map(|word| word.split_once('='));
    pairs.filter_map(|(name, number)| Some((name, number.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_program_and_tells_failures() {
        let outcome = |program: &str, mpi, fault: Option<&str>| Outcome {
            program: program.to_owned(),
            mpi,
            seconds: 0.5,
            faults: fault.map(str::to_owned).into_iter().collect(),
            note: String::new(),
        };
        let mut report = Report::default();
        assert_eq!(report.to_string(), "");
        assert!(report.outcome(&[]).is_err());
        assert!(report.outcome(&["MPICH".to_owned()]).is_ok());
        report.add(outcome("one", "a", None));
        report.add(outcome("one", "a", None));
        report.add(outcome("two", "bb", None));
        assert!(report.outcome(&[]).is_ok());
        assert_eq!(
            report.to_string(),
            "program  a         bb\none      ok 1.0 s  -\ntwo      -         ok 0.5 s\n"
        );
        report.add(outcome("two", "bb", Some("broken")));
        assert!(report.outcome(&["MPICH".to_owned()]).is_err());
        assert!(report.to_string().contains("FAIL 1.0 s"));
    }

    #[test]
    fn numbers_are_found_by_their_names() {
        let numbers = named_numbers("FAILED (failures=1, errors=2, skipped=3)");
        assert_eq!(numbers.get("errors"), Some(&2));
        assert_eq!(numbers.len(), 3);
    }
}
