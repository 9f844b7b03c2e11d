//! Progress, and what was found: a table for people, an object for programs.

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use pario::model::profile::{Machine, Profile};
use serde::Serialize;

use super::Calibration;
use super::assemble::{Calibrated, Finding};
use super::place::Ground;
use super::probe::Probe;
use crate::failure::Failure;
use crate::output;

pub(super) struct Report<'a> {
    calibration: &'a Calibration,
    bar: ProgressBar,
}

#[derive(Serialize)]
struct Document<'a> {
    path: &'a Path,
    profile: &'a Profile,
    findings: &'a [Finding],
}

impl<'a> Report<'a> {
    pub(super) fn new(
        calibration: &'a Calibration,
        machine: &Machine,
        ground: &Ground,
    ) -> Result<Report<'a>, Failure> {
        // Draws on stderr, and only if that is a terminal.
        let bar = ProgressBar::new(u64::from(calibration.seconds) * 1000);
        let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {msg}");
        bar.set_style(style.map_err(|error| Failure::during("progress bar", error))?);
        let report = Report { calibration, bar };
        if !calibration.json {
            let Machine { host, transport, file_system, cores } = machine;
            report.print(&format!(
                "pario {} calibrate: {host}, {transport}, {file_system}, {cores} cores, {} s\n\
                 file {}\n",
                env!("CARGO_PKG_VERSION"),
                calibration.seconds,
                ground.path().display()
            ))?;
        }
        Ok(report)
    }

    /// Says what is measured now.
    pub(super) fn step(&self, probe: &Probe, elapsed: Duration) {
        self.bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        self.bar.set_message(probe.to_string());
    }

    /// Prints what was found and where it is.
    pub(super) fn finish(&self, calibrated: &Calibrated, path: &Path) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        let Calibrated { profile, findings } = calibrated;
        if self.calibration.json {
            let text = serde_json::to_string(&Document { path, profile, findings });
            let text = text.map_err(|error| Failure::during("printing results", error))?;
            return self.print(&(text + "\n"));
        }
        let rows: String = findings.iter().map(row).collect();
        let count = findings.len();
        let measured = findings.iter().filter(|finding| finding.spread.is_some()).count();
        self.print(&format!(
            "\n{:<39}{:<44}spread\n{rows}\n{measured} of {count} values measured; stored in {}\n",
            "key",
            "value",
            path.display()
        ))
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        self.bar.suspend(|| output::print(text, self.calibration.json))
    }
}

fn row(finding: &Finding) -> String {
    let end = match (&finding.default, &finding.earlier, finding.spread) {
        (Some(reason), _, _) => format!("default: {reason}"),
        (None, Some(reason), _) => format!("of an earlier run: {reason}"),
        (None, None, Some(spread)) => {
            let without = finding.left_out.as_ref().map(|reason| format!(", without {reason}"));
            format!("{:.0} %{}", spread * 100.0, without.unwrap_or_default())
        }
        (None, None, None) => String::new(),
    };
    format!("{:<39}{:<43} {end}\n", finding.key, finding.value)
}
