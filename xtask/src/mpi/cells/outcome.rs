//! What `pario bench` measured, cell by cell, and how `auto` does.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What is measured of a workload.
pub(super) const DIRECTIONS: [&str; 2] = ["write", "read"];
/// The strategy that is judged.
const AUTO: &str = "auto";
/// Block I/O, which is measured besides.
const BLOCK: &str = "block";

/// One line of `pario bench --json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Line {
    strategy: String,
    direction: String,
    served_by: String,
    seconds: f64,
    predicted_seconds: Option<f64>,
    verified: bool,
    machine: RecordedMachine,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedMachine {
    file_system: Option<String>,
}

/// One workload in one direction, on some ranks, by one transport, on one file system.
#[derive(Debug, Serialize)]
pub(super) struct Cell {
    transport: &'static str,
    file_system: String,
    ranks: u32,
    workload: String,
    direction: &'static str,
    /// What `auto` chose.
    chosen: String,
    auto_seconds: f64,
    predicted_seconds: f64,
    /// The best fixed strategy.
    best: String,
    best_seconds: f64,
    /// Time of `auto` relative to it, the median of the turns.
    ratio: f64,
    /// Predicted time relative to the measured one, of `auto` and of each fixed strategy.
    prediction: f64,
    predictions: Vec<(String, f64)>,
}

/// The lines of a run.
pub(super) fn parse(text: &str) -> Result<Vec<Line>, String> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let parsed = lines.map(|line| {
        serde_json::from_str(line).map_err(|error| format!("{error} in a result: {line}"))
    });
    let parsed = parsed.collect::<Result<Vec<Line>, String>>()?;
    match parsed.iter().find(|line| !line.verified) {
        Some(line) => Err(format!("{}: wrong bytes", line.strategy)),
        None => Ok(parsed),
    }
}

/// `auto`, and what takes at most `factor` times as long as the best in one direction at least.
pub(super) fn near(lines: &[Line], factor: f64) -> Vec<String> {
    let mut near = vec![AUTO.to_owned()];
    for direction in DIRECTIONS {
        let of = || {
            let is_fixed = |line: &&Line| line.strategy != BLOCK && line.strategy != AUTO;
            lines.iter().filter(is_fixed).filter(|line| line.direction == direction)
        };
        let best = of().map(|line| line.seconds).fold(f64::INFINITY, f64::min);
        for line in of().filter(|line| line.seconds <= factor * best) {
            if !near.contains(&line.strategy) {
                near.push(line.strategy.clone());
            }
        }
    }
    near
}

/// The middle of some values; of an even number of them, the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = if values.len().is_multiple_of(2) { values[values.len() / 2 - 1] } else { upper };
    Some((lower + upper) / 2.0)
}

/// The line of a strategy in one turn.
fn line<'a>(turn: &'a [Line], strategy: &str, direction: &str) -> Option<&'a Line> {
    turn.iter().find(|line| line.strategy == strategy && line.direction == direction)
}

/// Time of `auto` relative to a strategy, the median of the turns.
fn ratio(turns: &[Vec<Line>], strategy: &str, direction: &str) -> Option<f64> {
    median(turns.iter().filter_map(|turn| {
        let auto = line(turn, AUTO, direction)?;
        Some(auto.seconds / line(turn, strategy, direction)?.seconds)
    }))
}

/// Predicted time relative to the measured one, the median of the turns.
fn prediction(turns: &[Vec<Line>], strategy: &str, direction: &str) -> Option<f64> {
    median(turns.iter().filter_map(|turn| {
        let line = line(turn, strategy, direction)?;
        Some(line.predicted_seconds? / line.seconds)
    }))
}

/// Strategies of a turn, without `auto` and Block I/O.
fn fixed(turns: &[Vec<Line>]) -> Vec<String> {
    let all = turns.first().into_iter().flatten().map(|line| line.strategy.clone());
    let mut fixed: Vec<String> = all.filter(|name| name != AUTO && name != BLOCK).collect();
    fixed.sort();
    fixed.dedup();
    fixed
}

/// The fixed strategy that is fastest in comparison with `auto`; none if there are none.
pub(super) fn best(direction: &str, turns: &[Vec<Line>]) -> Option<String> {
    let ratios = fixed(turns).into_iter().filter_map(|name| {
        let ratio = ratio(turns, &name, direction)?;
        Some((ratio, name))
    });
    ratios.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// `auto` and these strategies, each once.
pub(super) fn with_auto(strategies: &[Option<String>]) -> Vec<String> {
    let mut all = vec![AUTO.to_owned()];
    for strategy in strategies.iter().flatten() {
        if !all.contains(strategy) {
            all.push(strategy.clone());
        }
    }
    all
}

/// The runs that found the best strategy of a cell, and those of `auto` against it.
#[derive(Clone, Copy)]
pub(super) struct Turns<'a> {
    pub(super) found: &'a [Vec<Line>],
    pub(super) against: &'a [Vec<Line>],
}

impl Cell {
    /// From the lines of several turns; none if this was not measured.
    pub(super) fn new(
        transport: &'static str,
        ranks: u32,
        workload: &str,
        direction: &'static str,
        best: &str,
        Turns { found, against }: Turns<'_>,
    ) -> Option<Cell> {
        let seconds = |strategy: &str| {
            let lines = against.iter().filter_map(|turn| line(turn, strategy, direction));
            median(lines.map(|line| line.seconds))
        };
        let auto = line(against.last()?, AUTO, direction)?;
        let predictions = fixed(found).into_iter().filter_map(|name| {
            let prediction = prediction(found, &name, direction)?;
            Some((name, prediction))
        });
        Some(Cell {
            transport,
            file_system: auto.machine.file_system.clone().unwrap_or_default(),
            ranks,
            workload: workload.to_owned(),
            direction,
            chosen: auto.served_by.clone(),
            auto_seconds: seconds(AUTO)?,
            predicted_seconds: auto.predicted_seconds?,
            best: best.to_owned(),
            best_seconds: seconds(best)?,
            ratio: ratio(against, best, direction)?,
            prediction: prediction(against, AUTO, direction)?,
            predictions: predictions.collect(),
        })
    }

    /// How far the prediction is from what was measured.
    fn error(&self) -> f64 {
        (self.prediction - 1.0).abs()
    }
}

/// The first line of the table.
pub(super) fn head() -> String {
    format!(
        "{:9} {:6} {:>5} {:17} {:5} {:18} {:>9} {:18} {:>9} {:>6} {:>9} {:>6}\n",
        "transport",
        "files",
        "ranks",
        "workload",
        "",
        "auto",
        "ms",
        "best",
        "ms",
        "ratio",
        "predicted",
        "%"
    )
}

/// A line of the table.
pub(super) fn row(cell: &Cell) -> String {
    let percent = (cell.prediction - 1.0) * 100.0;
    format!(
        "{:9} {:6} {:5} {:17} {:5} {:18} {:9.3} {:18} {:9.3} {:6.2} {:9.3} {percent:+6.0}\n",
        cell.transport,
        cell.file_system,
        cell.ranks,
        cell.workload,
        cell.direction,
        cell.chosen,
        cell.auto_seconds * 1e3,
        cell.best,
        cell.best_seconds * 1e3,
        cell.ratio,
        cell.predicted_seconds * 1e3,
    )
}

/// How `auto` does over all cells.
pub(super) fn summary(cells: &[Cell]) -> String {
    let share = |limit: f64| cells.iter().filter(|cell| cell.ratio <= limit).count();
    let mut text = String::new();
    let count = cells.len();
    let worst = cells.iter().max_by(|one, other| one.ratio.total_cmp(&other.ratio));
    let least = cells.iter().max_by(|one, other| one.error().total_cmp(&other.error()));
    let mean = |values: &[f64]| {
        values.iter().sum::<f64>() / f64::from(u32::try_from(values.len().max(1)).unwrap_or(1))
    };
    let errors: Vec<f64> = cells.iter().map(Cell::error).collect();
    let all: Vec<f64> = cells
        .iter()
        .flat_map(|cell| cell.predictions.iter().map(|(_, value)| (value - 1.0).abs()))
        .collect();
    let _ = writeln!(text, "\n{count} cells, every byte verified");
    let _ = writeln!(
        text,
        "auto is within 10 % of the best fixed strategy in {} of them ({:.0} %), within 25 % in {}",
        share(1.1),
        100.0 * mean(&cells.iter().map(|cell| f64::from(cell.ratio <= 1.1)).collect::<Vec<f64>>()),
        share(1.25)
    );
    if let (Some(worst), Some(least)) = (worst, least) {
        let _ = write!(text, "the worst:\n{}", row(worst));
        let _ = writeln!(
            text,
            "error of auto's predictions: mean {:.0} %, worst {:.0} %; of fixed strategies near \
             the best: mean {:.0} %\nthe worst:",
            100.0 * mean(&errors),
            100.0 * least.error(),
            100.0 * mean(&all)
        );
        text += &row(least);
    }
    text
}

/// Writes a line of JSON for each cell.
pub(super) fn write(path: &Path, cells: &[Cell]) -> Result<(), String> {
    let mut text = String::new();
    for cell in cells {
        text += &serde_json::to_string(cell).map_err(|error| error.to_string())?;
        text.push('\n');
    }
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(strategy: &str, seconds: f64, predicted: f64) -> String {
        format!(
            "{{\"strategy\":\"{strategy}\",\"direction\":\"write\",\"served_by\":\"list\",\
             \"seconds\":{seconds},\"predicted_seconds\":{predicted},\"verified\":true,\
             \"machine\":{{\"file_system\":\"tmpfs\"}}}}\n"
        )
    }

    #[test]
    fn auto_is_compared_with_the_best_of_the_same_turn() {
        let turn = |factor: f64| {
            let lines = [("block", 0.1), ("auto", 1.2), ("list", 1.0), ("sieve", 3.0)];
            let lines = lines.map(|(name, seconds)| text(name, factor * seconds, 0.6));
            parse(&lines.concat()).unwrap()
        };
        let found = [turn(1.0), turn(2.0), turn(1.0)];
        assert_eq!(near(&found[0], 1.5), ["auto", "list"]);
        let bests = DIRECTIONS.map(|direction| best(direction, &found));
        assert_eq!(bests, [Some("list".to_owned()), None]);
        assert_eq!(with_auto(&bests), ["auto", "list"]);
        let turns = Turns { found: &found, against: &found };
        let cell = Cell::new("threads", 4, "a", "write", "list", turns).unwrap();
        assert_eq!((cell.best.as_str(), cell.chosen.as_str()), ("list", "list"));
        assert!((cell.ratio - 1.2).abs() < 1e-9 && (cell.prediction - 0.5).abs() < 1e-9);
        assert!(Cell::new("threads", 4, "a", "read", "list", turns).is_none());
        let text = summary(&[cell]);
        assert!(text.contains("in 0 of them (0 %), within 25 % in 1"), "{text}");
        assert!(text.contains("mean 50 %, worst 50 %"), "{text}");
    }

    #[test]
    fn a_median_is_in_the_middle() {
        let of = |values: &[f64]| median(values.iter().copied());
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn wrong_bytes_are_an_error() {
        let wrong = text("list", 1.0, 1.0).replace("true", "false");
        assert_eq!(parse(&wrong).unwrap_err(), "list: wrong bytes");
        assert!(parse("{}").is_err());
    }
}
