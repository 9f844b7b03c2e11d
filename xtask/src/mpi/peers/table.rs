//! The table of what was measured, and what all of it together says.
//!
//! A ratio above 1 speaks for pario where the library's own time is divided by that of pario, and
//! against it where the time of pario is divided by that of Block I/O.

use std::fmt::Write;

use super::super::report::distinct;
use super::output::median;
use super::record::{Line, Side};

/// How long something takes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    seconds: f64,
    /// It takes longer than that.
    is_bound: bool,
}

/// One line of the table: all sides of one thing.
struct TableRow<'a> {
    lines: Vec<&'a Line>,
}

/// The MPI libraries of some lines, in the order in which they come.
fn mpis(lines: &[Line]) -> Vec<&str> {
    distinct(lines.iter().map(|line| line.mpi.as_str()))
}

/// What the MPI-IO of a library is called.
pub(super) fn own_name(mpi: &str) -> &'static str {
    if mpi.starts_with("mpich") { "ROMIO" } else { "OMPIO" }
}

/// What a library is called.
pub(super) fn mpi_name(mpi: &str) -> &str {
    match mpi {
        "mpich5" => "MPICH",
        "openmpi5" => "Open MPI",
        name => name,
    }
}

/// Groups lines into rows, in the order in which they come.
fn rows(lines: &[Line]) -> Vec<TableRow<'_>> {
    let mut rows: Vec<TableRow<'_>> = Vec::new();
    let place = |line: &Line| {
        let texts = [&line.directory, &line.workload, &line.shape, &line.direction];
        (texts.map(String::clone), line.level, line.ranks)
    };
    for line in lines {
        match rows.iter_mut().find(|row| place(row.lines[0]) == place(line)) {
            Some(row) => row.lines.push(line),
            None => rows.push(TableRow { lines: vec![line] }),
        }
    }
    rows
}

impl TableRow<'_> {
    fn time(&self, mpi: &str, side: Side) -> Option<Time> {
        let line = self.lines.iter().find(|line| line.mpi == mpi && line.side == side)?;
        let exact = line.seconds.map(|seconds| Time { seconds, is_bound: false });
        let bound = line.longer_than_seconds.map(|seconds| Time { seconds, is_bound: true });
        exact.or(bound)
    }

    /// Block I/O in the runs of all libraries.
    fn block_io(&self) -> Option<f64> {
        let lines = self.lines.iter().filter(|line| line.side == Side::BlockIo);
        median(&lines.filter_map(|line| line.seconds).collect::<Vec<f64>>())
    }

    /// How much faster pario is than a library's own MPI-IO, or how much at least.
    fn gain(&self, own: &str, pario: &str) -> Option<Time> {
        let own = self.time(own, Side::Own)?;
        let pario = self.time(pario, Side::Pario).filter(|time| !time.is_bound)?;
        Some(Time { seconds: own.seconds / pario.seconds, is_bound: own.is_bound })
    }

    /// The same against the better of all libraries.
    fn least_gain(&self, mpis: &[&str], pario: &str) -> Option<Time> {
        let gains: Vec<Time> = mpis.iter().filter_map(|own| self.gain(own, pario)).collect();
        gains.into_iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds))
    }

    fn cost(&self, mpi: &str) -> Option<f64> {
        let pario = self.time(mpi, Side::Pario).filter(|time| !time.is_bound)?;
        Some(pario.seconds / self.block_io()?)
    }

    fn name(&self) -> String {
        let Line { workload, shape, ranks, direction, .. } = self.lines[0];
        format!("{workload} {shape}, {ranks} ranks, {direction}")
    }
}

fn milliseconds(time: Option<Time>) -> String {
    match time {
        None => "-".to_owned(),
        Some(Time { seconds, is_bound: true }) => format!("> {seconds:.0} s"),
        Some(Time { seconds, .. }) if seconds < 0.01 => format!("{:.3}", seconds * 1e3),
        Some(Time { seconds, .. }) => format!("{:.1}", seconds * 1e3),
    }
}

fn ratio(time: Option<Time>) -> String {
    match time {
        None => "-".to_owned(),
        Some(Time { seconds, is_bound }) => {
            format!("{}{seconds:.2}", if is_bound { ">" } else { "" })
        }
    }
}

/// The head of the table for some libraries.
pub(super) fn head(mpis: &[&str]) -> String {
    let mut text = String::from("milliseconds a call; medians\n");
    let _ = write!(text, "{:25} level ranks {:5} {:>10}", "workload", "", "Block I/O");
    for mpi in mpis {
        let _ = write!(text, " {:>10} {:>14}", own_name(mpi), format!("on {}", mpi_name(mpi)));
    }
    for mpi in mpis {
        let _ = write!(text, " {:>11}", format!("{}/pario", own_name(mpi)));
    }
    for mpi in mpis {
        let _ = write!(text, " {:>14}", format!("{}/Block", mpi_name(mpi)));
    }
    text.push('\n');
    text
}

/// The rows of some lines for some libraries.
pub(super) fn body(lines: &[Line], mpis: &[&str]) -> String {
    let mut text = String::new();
    for row in rows(lines) {
        let Line { workload, shape, level, ranks, direction, .. } = row.lines[0];
        let name = format!("{workload} {shape}");
        let block = row.block_io().map(|seconds| Time { seconds, is_bound: false });
        let block = milliseconds(block);
        let _ = write!(text, "{name:25} {level:5} {ranks:5} {direction:5} {block:>10}");
        for mpi in mpis {
            let [own, pario] = [Side::Own, Side::Pario].map(|side| row.time(mpi, side));
            let _ = write!(text, " {:>10} {:>14}", milliseconds(own), milliseconds(pario));
        }
        for mpi in mpis {
            let _ = write!(text, " {:>11}", ratio(row.gain(mpi, mpi)));
        }
        for mpi in mpis {
            let cost = row.cost(mpi).map(|seconds| Time { seconds, is_bound: false });
            let _ = write!(text, " {:>14}", ratio(cost));
        }
        if row.lines.iter().any(|line| !line.verified && line.seconds.is_some()) {
            text += "  WRONG BYTES";
        }
        text.push('\n');
    }
    text
}

/// Head and rows for each kind of directory, and the summary.
pub(super) fn whole(lines: &[Line]) -> String {
    let mut text = String::new();
    for directory in distinct(lines.iter().map(|line| line.directory.as_str())) {
        let here: Vec<Line> =
            lines.iter().filter(|line| line.directory == directory).cloned().collect();
        let mpis = mpis(lines);
        let _ = write!(text, "\n{directory}: {}{}", head(&mpis), body(&here, &mpis));
    }
    text + &summary(lines)
}

/// Means over all rows of each level, with the worst row of each.
pub(super) fn summary(lines: &[Line]) -> String {
    let mpis = mpis(lines);
    let mut text = String::from("\nhow many times faster than the library's own MPI-IO:\n");
    let rows = rows(lines);
    for directory in distinct(lines.iter().map(|line| line.directory.as_str())) {
        for level in [0, 2, 3] {
            let is_here = |row: &&TableRow<'_>| {
                row.lines[0].directory == directory && row.lines[0].level == level
            };
            let here: Vec<&TableRow<'_>> = rows.iter().filter(is_here).collect();
            for pario in &mpis {
                let mut tell = |own: &str, gain: &dyn Fn(&TableRow<'_>) -> Option<Time>| {
                    let gains = here.iter().filter_map(|row| Some((gain(row)?, row.name())));
                    if let Some(said) = said(gains.collect()) {
                        let name = mpi_name(pario);
                        let _ = writeln!(
                            text,
                            "  {directory}, level {level}, pario on {name} against {own}: {said}"
                        );
                    }
                };
                tell(own_name(pario), &|row| row.gain(pario, pario));
                if mpis.len() > 1 {
                    tell("the better", &|row| row.least_gain(&mpis, pario));
                }
            }
        }
    }
    text
}

/// Each row of pario beside that of its baseline, if one was measured, and the mean over all rows.
pub(super) fn turns(lines: &[Line]) -> String {
    let mut text = String::new();
    for mpi in mpis(lines) {
        let mut changes = Vec::new();
        for row in rows(lines) {
            let times = [Side::Baseline, Side::Pario].map(|side| row.time(mpi, side));
            let [Some(before), Some(after)] = times else { continue };
            let change = after.seconds / before.seconds;
            let block = row.block_io().unwrap_or(f64::NAN);
            let costs = [before, after].map(|time| time.seconds / block);
            let (name, directory) = (row.name(), &row.lines[0].directory);
            let _ = writeln!(
                text,
                "  {name:45} {directory:6} {:>10} {:>10} {change:8.2} {:8.2} {:8.2}",
                milliseconds(Some(before)),
                milliseconds(Some(after)),
                costs[0],
                costs[1]
            );
            changes.push(change);
        }
        if let Some(mean) = geometric_mean(&changes) {
            let _ = writeln!(text, "  {}: {mean:.3} times the baseline in the mean", mpi_name(mpi));
        }
    }
    match text.is_empty() {
        true => text,
        false => format!(
            "\nbaseline, pario: milliseconds; pario/baseline; baseline/Block, pario/Block\n{text}"
        ),
    }
}

/// The mean and the worst of some gains.
fn said(gains: Vec<(Time, String)>) -> Option<String> {
    let mean = geometric_mean(&gains.iter().map(|(gain, _)| gain.seconds).collect::<Vec<f64>>())?;
    let bound = if gains.iter().any(|(gain, _)| gain.is_bound) { "more than " } else { "" };
    let count = gains.len();
    let (least, name) =
        gains.into_iter().min_by(|(one, _), (other, _)| one.seconds.total_cmp(&other.seconds))?;
    let least = ratio(Some(least));
    Some(format!("{bound}{mean:.2} in the mean of {count}, least {least} ({name})"))
}

/// The geometric mean; of nothing there is none.
fn geometric_mean(numbers: &[f64]) -> Option<f64> {
    let count = u32::try_from(numbers.len()).ok().filter(|count| *count > 0)?;
    let sum: f64 = numbers.iter().map(|number| number.ln()).sum();
    Some((sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::line;
    use super::*;

    fn near(one: Option<f64>, other: f64) -> bool {
        one.is_some_and(|one| (one - other).abs() < 1e-9)
    }

    #[test]
    fn the_geometric_mean_of_a_gain_and_an_equal_loss_is_one() {
        assert_eq!(geometric_mean(&[]), None);
        assert!(near(geometric_mean(&[4.0, 0.25]), 1.0));
        assert!(near(geometric_mean(&[2.0, 8.0]), 4.0));
    }

    #[test]
    fn a_baseline_is_compared_with_what_was_measured_in_turn() {
        assert_eq!(turns(&both()), "");
        let mut lines = both();
        lines.push(line("mpich5", Side::Baseline, 8.0));
        let text = turns(&lines);
        // 8 s before and 2 s after; Block I/O is 2 s.
        assert!(text.contains("8000.0     2000.0     0.25     4.00     1.00"), "{text}");
        assert!(text.contains("MPICH: 0.250 times the baseline"), "{text}");
    }

    /// ROMIO 4 s, pario 2 s on MPICH; OMPIO 3 s, pario 1 s on Open MPI; Block I/O 1 s and 3 s.
    fn both() -> Vec<Line> {
        vec![
            line("mpich5", Side::Own, 4.0),
            line("mpich5", Side::Pario, 2.0),
            line("mpich5", Side::BlockIo, 1.0),
            line("openmpi5", Side::Own, 3.0),
            line("openmpi5", Side::Pario, 1.0),
            line("openmpi5", Side::BlockIo, 3.0),
        ]
    }

    #[test]
    fn pario_is_compared_with_its_host_with_the_better_and_with_block_io() {
        let lines = both();
        let rows = rows(&lines);
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        let seconds = |time: Option<Time>| time.map(|time| time.seconds);
        assert!(near(seconds(row.gain("mpich5", "mpich5")), 2.0));
        assert!(near(seconds(row.gain("openmpi5", "openmpi5")), 3.0));
        assert!(near(seconds(row.least_gain(&["mpich5", "openmpi5"], "mpich5")), 1.5));
        assert!(near(row.block_io(), 2.0));
        assert!(near(row.cost("openmpi5"), 0.5));
    }

    #[test]
    fn what_takes_too_long_counts_as_its_limit_and_is_told() {
        let mut lines = both();
        lines[0].seconds = None;
        lines[0].longer_than_seconds = Some(120.0);
        let mpis = ["mpich5", "openmpi5"];
        assert!(body(&lines, &mpis).contains("> 120 s"));
        assert!(body(&lines, &mpis).contains(">60.00"));
        assert!(summary(&lines).contains("against ROMIO: more than 60.00 in the mean of 1"));
        lines[1].seconds = None;
        assert!(rows(&lines)[0].gain("mpich5", "mpich5").is_none());
    }

    #[test]
    fn the_worst_row_is_named() {
        let mut lines = both();
        let slow = lines.clone().into_iter().map(|mut line| {
            line.shape = "64 B".to_owned();
            if line.side == Side::Pario {
                line.seconds = Some(8.0);
            }
            line
        });
        lines.extend(slow);
        let text = summary(&lines);
        let expected = "level 3, pario on MPICH against ROMIO: 1.00 in the mean of 2, \
            least 0.50 (block-cyclic 64 B, 16 ranks, write)";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn wrong_bytes_are_told() {
        let mut lines = both();
        assert!(!whole(&lines).contains("WRONG"));
        lines[1].verified = false;
        assert!(whole(&lines).contains("WRONG"));
    }
}
