//! Hints on the command line.
//!
//! A program starts whatever its hints are, as MPI says: [`without_effect`] is for warnings. Where
//! a command predicts or measures what hints do, one without effect is refused ([`resolve`]): the
//! outcome would be that of other hints.

use pario::{Environment, HintReport, HintSet, Hints};

use crate::failure::Failure;

/// Reads `KEY=VALUE`.
pub fn parse(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or_else(|| "not of the form KEY=VALUE".to_owned())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Why a hint has no effect, if it has none.
pub fn without_effect(hint: &(String, String)) -> Option<String> {
    let hint_set: HintSet = std::iter::once(hint.clone()).collect();
    let (_, report) = hint_set.resolve("".as_ref(), &Environment::default());
    report.ignored.into_iter().next().map(|hint| hint.reason)
}

/// The hints, if all of them have an effect.
///
/// # Errors
/// `Usage` with the reason of the first one that has none.
pub fn resolve(given: &[(String, String)]) -> Result<(HintSet, Hints), Failure> {
    let (hint_set, hints, report) = all(given);
    match report.ignored.first() {
        Some(hint) => {
            Err(Failure::Usage(format!("--hint {}={}: {}", hint.name, hint.value, hint.reason)))
        }
        None => Ok((hint_set, hints)),
    }
}

/// The hints where an MPI library gets them, too: it may have some of its own.
pub fn resolve_with_mpi(given: &[(String, String)]) -> (HintSet, Hints) {
    let (hint_set, hints, _) = all(given);
    (hint_set, hints)
}

fn all(given: &[(String, String)]) -> (HintSet, Hints, HintReport) {
    let hint_set: HintSet = given.iter().cloned().collect();
    // What the environment says is for pario; here it is about what was typed.
    let (hints, report) = hint_set.resolve("".as_ref(), &Environment::default());
    (hint_set, hints, report)
}
