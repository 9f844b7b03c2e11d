//! A logger for programs that have none: it prints warnings on stderr.

use std::io::Write;

use log::{LevelFilter, Log, Metadata, Record};

use crate::escaped::escaped_lines;

/// Prints warnings and errors of pario on stderr, in a program that has no logger of its own.
///
/// The library prints nothing by itself but statistics and hints that were asked for: it logs with
/// the crate [`log`]. The program `pario` and the drop-in library call this function first. It does
/// nothing if there is a logger already.
///
/// ```
/// pario::log_to_stderr();
/// ```
pub fn log_to_stderr() {
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_of_pario(metadata.target())
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // One write, so that lines of several processes do not mix. A closed stderr cannot be
            // reported.
            let _ = std::io::stderr().write_all(line(record).as_bytes());
        }
    }

    fn flush(&self) {}
}

/// Whether the crate that logs is one of pario's.
fn is_of_pario(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    ["pario", "pario_mpi"].contains(&name)
}

fn line(record: &Record<'_>) -> String {
    // A message may name files.
    let text = record.args().to_string();
    format!("pario: {}\n", escaped_lines(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_pario_are_printed() {
        for (target, expected) in
            [("pario", true), ("pario::comm::watchdog", true), ("pario_mpi::node", true)]
                .into_iter()
                .chain([("parious", false), ("other", false), ("other::pario", false)])
        {
            assert_eq!(is_of_pario(target), expected, "{target}");
        }
        let record = Record::builder().args(format_args!("rank 1 waits")).build();
        assert_eq!(line(&record), "pario: rank 1 waits\n");
        let record = Record::builder().args(format_args!("a\u{1b}]0;b\u{7}.dat: waits")).build();
        assert_eq!(line(&record), "pario: a\\u{1b}]0;b\\u{7}.dat: waits\n");
    }
}
