//! The file of `--stats=FILE`: made anew, with the command in its first line.
//!
//! The ranks append a line for each file that they close. They may run elsewhere, so they get the
//! whole path.

use std::io::Write;
use std::path::{Path, absolute};

use pario::{Statistics, own_file};
use serde::Serialize;

use pario_lab::failure::Failure;
use pario_lab::{date, output};

/// The first line.
#[derive(Serialize)]
struct Head {
    kind: &'static str,
    pario: &'static str,
    /// When the run began: seconds since 1970.
    unix_seconds: u64,
    command: Vec<String>,
}

/// The value of `PARIO_STATS` for the ranks; makes the file if there is one.
///
/// # Errors
/// `Run` if the file cannot be made.
pub(super) fn begin(mut stats: Statistics) -> Result<String, Failure> {
    if let Statistics::Record(recording) = &mut stats
        && !recording.path.is_empty()
    {
        let failed = |error| Failure::during(format!("--stats: {}", recording.path), error);
        let path = absolute(Path::new(&recording.path)).map_err(failed)?;
        output::make_directory(&path).map_err(failed)?;
        let mut file = own_file::begin_statistics(&path).map_err(failed)?;
        file.write_all(head()?.as_bytes()).map_err(failed)?;
        recording.path = path.display().to_string();
    }
    // The word that users know from the documentation.
    Ok(if stats == Statistics::Summary { "1".to_owned() } else { stats.to_string() })
}

fn head() -> Result<String, Failure> {
    let own = std::env::args_os().skip(1).map(|word| word.display().to_string());
    let command: Vec<String> = std::iter::once("pario".to_owned()).chain(own).collect();
    let (pario, unix_seconds) = (env!("CARGO_PKG_VERSION"), date::now());
    let head = Head { kind: "run", pario, unix_seconds, command };
    let text = serde_json::to_string(&head);
    text.map(|text| text + "\n").map_err(|error| Failure::during("--stats", error))
}
