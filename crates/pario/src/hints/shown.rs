//! What is said of hints when a file is opened, by rank 0.
//!
//! Hints that do not come from the program and have no effect are warned of: who sets a
//! variable or writes a hint file expects that it does something. Programs are different: theirs
//! may be for another MPI library. Hints that a stronger one overrides are not warned of.
//!
//! | variable | all hints in effect, as `MPI_File_get_info` gives them |
//! | --- | --- |
//! | `ROMIO_PRINT_HINTS=1` | on stdout, in ROMIO's form |
//! | `MPICH_MPIIO_HINTS_DISPLAY=1` | on stderr after the name of the file, in Cray's form |

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::report::{HintOrigin, HintReport, IgnoredHint, printable};
use super::{Environment, keys};

/// Different warnings of a process, at most.
const WARNINGS_MAX: usize = 100;

impl Environment {
    /// Prints the hints of a file as the variables ask for.
    pub(crate) fn show_hints(&self, path: &Path, report: &HintReport) {
        // One write each, so that lines of several processes do not mix. What cannot be printed
        // cannot be reported either.
        if self.romio_shows_hints {
            let _ = std::io::stdout().lock().write_all(romio_text(report).as_bytes());
        }
        if self.cray_shows_hints {
            let _ = std::io::stderr().write_all(cray_text(path, report).as_bytes());
        }
    }
}

fn romio_text(report: &HintReport) -> String {
    let line = |(name, value)| format!("key = {name:<25} value = {value}\n");
    in_effect(report).map(line).collect()
}

fn cray_text(path: &Path, report: &HintReport) -> String {
    let head = format!("PE 0: MPIIO hints for {}:\n", printable(&path.to_string_lossy()));
    let lines = in_effect(report).map(|(name, value)| format!("    {name:<25} = {value}\n"));
    std::iter::once(head).chain(lines).collect()
}

fn in_effect(report: &HintReport) -> impl Iterator<Item = (&str, String)> {
    report.effective.iter().map(|hint| (hint.name, printable(&hint.value)))
}

impl HintReport {
    /// Warns of the hints from outside the program that have no effect, of each once in a process.
    pub(crate) fn warn(&self) {
        static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        for text in self.ignored.iter().filter(|hint| is_worth_a_warning(hint)).map(warning) {
            let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
            if warned.len() < WARNINGS_MAX && warned.insert(text.clone()) {
                drop(warned);
                log::warn!("{text}");
            }
        }
    }
}

fn is_worth_a_warning(hint: &IgnoredHint) -> bool {
    let from_outside = matches!(hint.origin, HintOrigin::HintFile | HintOrigin::Environment);
    // One that could be used is overridden.
    from_outside && !keys::is_usable(&hint.name, &hint.value)
}

fn warning(hint: &IgnoredHint) -> String {
    let [name, value, reason] = [&hint.name, &hint.value, &hint.reason].map(|text| printable(text));
    format!("{name}={value} ({}) has no effect: {reason}", hint.origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::HintSet;

    fn report(given: &HintSet, variable: &str) -> HintReport {
        let environment = Environment { hints: Some(variable.to_owned()), ..Default::default() };
        given.resolve(Path::new("x"), &environment).1
    }

    #[test]
    fn what_somebody_typed_in_vain_is_worth_a_warning_and_what_is_overridden_is_not() {
        let given = HintSet::new().with("cb_node", "1").with("cb_nodes", "2");
        let variable =
            "*:cb_node=4:cb_nodes=many:direct_io=true:pario_phases=1:pario_phases=2,oops";
        let report = report(&given, variable);
        let warned = report.ignored.iter().filter(|hint| is_worth_a_warning(hint)).map(warning);
        let expected = [
            "PARIO_HINTS=oops (environment) has no effect: no key=value after the file name",
            "cb_node=4 (environment) has no effect: unknown hint; did you mean cb_nodes?",
            "cb_nodes=many (environment) has no effect: not a number",
            "direct_io=true (environment) has no effect: pario always uses the page cache",
        ];
        assert_eq!(warned.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn hints_are_shown_in_the_forms_of_romio_and_cray() {
        let report = report(&HintSet::new(), "*:cb_nodes=2");
        let romio = romio_text(&report);
        assert_eq!(romio.lines().count(), report.effective.len());
        assert!(romio.contains("key = cb_nodes                  value = 2\n"), "{romio}");
        let cray = cray_text(Path::new("run/x"), &report);
        assert!(cray.starts_with("PE 0: MPIIO hints for run/x:\n"), "{cray}");
        assert!(cray.contains("\n    cb_nodes                  = 2\n"), "{cray}");
    }
}
