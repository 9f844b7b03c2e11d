//! The answer of `pario explain` as text, JSON and a picture.

use std::io::{self, Write};
use std::path::Path;

use pario::plan::{self, Cause, Part, Plan, Window};
use serde::Serialize;

use super::advice::{self, Change};
use crate::failure::Failure;
use crate::output;
use crate::scenario::question::{Answer, WINDOWS_LISTED};
use crate::show;

/// What was asked.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scene {
    pub(super) workload: String,
    pub(super) shape: String,
    pub(super) direction: &'static str,
    pub(super) ranks: u32,
    pub(super) nodes: u32,
    pub(super) cores: u32,
    pub(super) collective: bool,
    pub(super) profile: String,
    pub(super) bytes: u64,
    pub(super) piece_bytes: u64,
    /// How often it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) calls: Option<u64>,
    /// Of the time of all calls that were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) share_percent: Option<f64>,
}

/// What was measured of a way, in milliseconds: all of it, then planning, synchronisation, exchange
/// and storage (in a recording the means of the ranks, else of the one with the most storage time).
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Measured {
    pub(super) ms: f64,
    pub(super) parts_ms: Option<[f64; 4]>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Term {
    part: &'static str,
    name: &'static str,
    #[serde(skip)]
    pub(super) cause: Cause,
    pub(super) ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) strategy: String,
    chosen: bool,
    pub(super) predicted_ms: f64,
    /// If it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) measured_ms: Option<f64>,
    /// The prediction in comparison with that: negative if it took longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_parts_ms: Option<[f64; 4]>,
    planning_ms: f64,
    synchronisation_ms: f64,
    exchange_ms: f64,
    storage_ms: f64,
    pub(super) aggregators: u64,
    pub(super) phases: Option<u32>,
    rounds: u64,
    window_bytes: u64,
    windows: &'static str,
    pub(super) terms: Vec<Term>,
}

/// One call with all its ways, the fastest first.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Document {
    kind: &'static str,
    #[serde(flatten)]
    scene: Scene,
    reason: String,
    /// Where the chosen way differs from the best of the others.
    comparison: String,
    /// A line for each.
    advice: String,
    changes: Vec<Change>,
    ways: Vec<Row>,
    plan: String,
    /// What each round moves, as far as it is listed.
    moves: Vec<Move>,
}

/// What an aggregator moves in a round.
#[derive(Clone, Debug, Serialize)]
struct Move {
    round: u64,
    aggregator: u32,
    offset: u64,
    bytes: u64,
}

impl Move {
    fn new(window: Window) -> Move {
        let Window { round, aggregator, start, end, .. } = window;
        Move { round, aggregator, offset: start, bytes: end - start }
    }
}

const PARTS: [(Part, &str); 4] = [
    (Part::Planning, "planning"),
    (Part::Synchronisation, "synchronisation"),
    (Part::Exchange, "exchange"),
    (Part::Storage, "storage"),
];

pub(super) fn part_name(part: Part) -> &'static str {
    PARTS.iter().find(|(one, _)| *one == part).map_or("", |(_, name)| *name)
}

impl Row {
    fn new(way: &Plan, ranks: u32, chosen: bool) -> Row {
        let part_ms = |part| way.part_us(part) / 1e3;
        let term = |term: plan::Term| Term {
            part: part_name(term.part()),
            name: term.cause.name(),
            cause: term.cause,
            ms: term.us / 1e3,
        };
        Row {
            strategy: way.strategy.to_string(),
            chosen,
            predicted_ms: way.total_us() / 1e3,
            measured_ms: None,
            error_percent: None,
            measured_parts_ms: None,
            planning_ms: part_ms(Part::Planning),
            synchronisation_ms: part_ms(Part::Synchronisation),
            exchange_ms: part_ms(Part::Exchange),
            storage_ms: part_ms(Part::Storage),
            aggregators: way.aggregators(ranks),
            phases: way.phases(),
            rounds: way.rounds(),
            window_bytes: way.window_bytes(),
            windows: way.placement(),
            terms: way.terms().map(term).collect(),
        }
    }

    pub(super) fn parts_ms(&self) -> [f64; 4] {
        [self.planning_ms, self.synchronisation_ms, self.exchange_ms, self.storage_ms]
    }

    /// The part that took most of the measured time, and its percentage of all parts. Ranks that
    /// wait for longer than the call takes came early, which is no time of the call.
    pub(super) fn longest_part(&self) -> Option<(Part, f64)> {
        let (ms, parts_ms) = (self.measured_ms?, self.measured_parts_ms?);
        let of_call =
            |(part, part_ms): &(Part, f64)| *part != Part::Synchronisation || *part_ms <= ms;
        let parts = || PARTS.iter().map(|(part, _)| *part).zip(parts_ms).filter(of_call);
        let all_ms: f64 = parts().map(|(_, ms)| ms).sum();
        let (part, ms) = parts().max_by(|one, other| one.1.total_cmp(&other.1))?;
        (ms > 0.0).then_some((part, 100.0 * ms / all_ms))
    }

    /// Adds what was measured.
    fn measure(&mut self, measured: Measured) {
        self.measured_ms = Some(measured.ms);
        self.error_percent =
            (measured.ms > 0.0).then_some(100.0 * (self.predicted_ms - measured.ms) / measured.ms);
        self.measured_parts_ms = measured.parts_ms;
    }
}

impl Document {
    /// The answer, without advice, for a way that was taken for a reason.
    pub(super) fn new(scene: Scene, answer: &Answer, (taken, reason): (&Plan, &str)) -> Document {
        let mut ways: Vec<&Plan> = answer.best_of_each();
        ways.retain(|way| way.strategy != taken.strategy);
        let place = ways.partition_point(|way| way.total_us() < taken.total_us());
        ways.insert(place, taken);
        let row = |way: &&Plan| Row::new(way, answer.ranks, std::ptr::eq(*way, taken));
        let rows: Vec<Row> = ways.iter().map(row).collect();
        Document {
            kind: "explain",
            scene,
            reason: reason.to_owned(),
            comparison: advice::comparison(&rows[place], &rows),
            advice: String::new(),
            changes: Vec::new(),
            ways: rows,
            plan: taken.to_string(),
            moves: taken.windows().take(WINDOWS_LISTED).map(Move::new).collect(),
        }
    }

    /// Adds what can be changed. What was measured is known by now, and counts for more than what
    /// is predicted.
    pub(super) fn advise(&mut self, changes: Vec<Change>) {
        let lines: Vec<String> = match self.chosen() {
            _ if !changes.is_empty() => {
                changes.iter().map(|change| format!("change: {}", change.what)).collect()
            }
            Some(chosen) => vec![advice::best(chosen, &self.ways), advice::longest(chosen)],
            None => Vec::new(),
        };
        lines.into_iter().for_each(|line| self.note(line));
        self.changes = changes;
    }

    /// Adds what was measured of each way that was run.
    pub(super) fn measure(&mut self, measured: impl Fn(&Row) -> Option<Measured>) {
        for row in &mut self.ways {
            if let Some(measured) = measured(row) {
                row.measure(measured);
            }
        }
    }

    /// Says which way was measured to be fastest, and how far predictions are off.
    pub(super) fn judge(&mut self) {
        let known = || self.ways.iter().filter_map(|row| Some((row, row.measured_ms?)));
        let Some((fastest, ms)) = known().min_by(|one, other| one.1.total_cmp(&other.1)) else {
            return;
        };
        let mut lines = Vec::new();
        lines.push(match known().find(|(row, _)| row.chosen) {
            _ if fastest.chosen => format!("measured fastest: {}, as chosen", fastest.strategy),
            Some((chosen, chosen_ms)) => format!(
                "measured fastest: {}; {} takes {:.0} % more",
                fastest.strategy,
                chosen.strategy,
                100.0 * (chosen_ms / ms.max(f64::MIN_POSITIVE) - 1.0)
            ),
            None => format!("measured fastest: {}", fastest.strategy),
        });
        let errors: Vec<f64> = self.ways.iter().filter_map(|row| row.error_percent).collect();
        let count = u32::try_from(errors.len()).unwrap_or(1).max(1);
        let mean = errors.iter().map(|percent| percent.abs()).sum::<f64>() / f64::from(count);
        lines.push(format!("predictions are off by {mean:.0} % on average"));
        lines.into_iter().for_each(|line| self.note(line));
    }

    /// Adds a line of advice.
    pub(super) fn note(&mut self, line: String) {
        if !self.advice.is_empty() {
            self.advice += "\n";
        }
        self.advice += &line;
    }

    fn chosen(&self) -> Option<&Row> {
        self.ways.iter().find(|row| row.chosen)
    }
}

/// Prints all documents.
///
/// # Errors
/// `Run` if the output cannot be written.
pub(super) fn print(documents: &[Document], json: bool) -> Result<(), Failure> {
    let mut text = Vec::new();
    let written = documents.iter().try_for_each(|document| match json {
        true => serde_json::to_writer(&mut text, document)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(text)),
        false => write_text(&mut text, document),
    });
    written.map_err(|error| Failure::during("printing results", error))?;
    output::print(&String::from_utf8_lossy(&text), json)
}

fn write_text(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let Document { scene, reason, comparison, advice, ways, .. } = document;
    let Scene { workload, shape, direction, ranks, nodes, cores, .. } = scene;
    let call = if scene.collective { "collective" } else { "independent" };
    writeln!(out, "{workload}: {shape}; {call} {direction}")?;
    let [ranks, nodes, cores] =
        [plural(*ranks, "rank"), plural(*nodes, "node"), plural(*cores, "core")];
    writeln!(out, "{ranks} on {nodes} of {cores}; profile {}", scene.profile)?;
    let (total, piece) = (size(scene.bytes), size(scene.piece_bytes));
    writeln!(out, "{total} in pieces of {piece} on average\n")?;
    write_ways(out, ways)?;
    if let Some(chosen) = document.chosen() {
        let reason = advice::honest(reason, chosen, ways);
        writeln!(out, "\n* {}: {reason}", chosen.strategy)?;
        for term in &chosen.terms {
            writeln!(out, "    {:>11}  {} ({})", time(term.ms), term.name, term.part)?;
        }
        if let Some(parts) = chosen.measured_parts_ms {
            let named = ["planning", "waiting", "exchange", "storage"].into_iter().zip(parts);
            let named: Vec<String> =
                named.map(|(name, ms)| format!("{name} {}", time(ms))).collect();
            writeln!(out, "  measured: {}", named.join(", "))?;
        }
    }
    for line in [comparison].into_iter().filter(|text| !text.is_empty()) {
        writeln!(out, "  {line}")?;
    }
    advice.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    writeln!(out)
}

/// The table of the ways; what was measured is beside what is predicted.
fn write_ways(out: &mut dyn Write, ways: &[Row]) -> io::Result<()> {
    let is_measured = ways.iter().any(|row| row.measured_ms.is_some());
    write!(out, "  {:<18} {:>11}", "strategy", "predicted")?;
    if is_measured {
        write!(out, " {:>11} {:>8}", "measured", "error")?;
    }
    for name in ["planning", "waiting", "exchange", "storage"] {
        write!(out, " {name:>11}")?;
    }
    writeln!(out, " {:>6} {:>6} {:>7}", "aggr.", "phases", "rounds")?;
    for row in ways {
        let mark = if row.chosen { '*' } else { ' ' };
        write!(out, "{mark} {:<18} {:>11}", row.strategy, time(row.predicted_ms))?;
        if is_measured {
            let measured = row.measured_ms.map(time).unwrap_or_default();
            let error = row.error_percent.map(|percent| format!("{percent:+.0} %"));
            write!(out, " {measured:>11} {:>8}", error.unwrap_or_default())?;
        }
        for ms in row.parts_ms() {
            write!(out, " {:>11}", time(ms))?;
        }
        let phases = row.phases.map_or(String::new(), |phases| phases.to_string());
        // Ranks that work for themselves have no rounds.
        let rounds = if row.aggregators > 0 { row.rounds.to_string() } else { String::new() };
        writeln!(out, " {:>6} {phases:>6} {rounds:>7}", row.aggregators)?;
    }
    Ok(())
}

pub(super) fn plural(count: u32, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// A time with a unit that suits it.
pub(super) fn time(ms: f64) -> String {
    match ms {
        0.0 => "-".to_owned(),
        ms if ms < 1.0 => format!("{:.1} us", ms * 1e3),
        ms if ms < 1e3 => format!("{ms:.2} ms"),
        ms if ms < 3.6e6 => format!("{:.2} s", ms / 1e3),
        ms => format!("{:.1} h", ms / 3.6e6),
    }
}

/// A number of bytes with a unit that suits it.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let whole = bytes / unit;
            format!("{whole}.{} {name}", bytes % unit * 10 / unit)
        }
        None => format!("{bytes} bytes"),
    }
}

/// Draws the ways of all documents, as a report does.
///
/// # Errors
/// `Run` if the file cannot be written.
pub(super) fn draw(path: &Path, documents: &[Document]) -> Result<(), Failure> {
    let values: Result<Vec<_>, _> = documents.iter().map(serde_json::to_value).collect();
    let drawn = values.and_then(show::svg_of_ways);
    let drawn = drawn.map_err(|error| Failure::during(path.display(), error))?;
    output::write(path, drawn.as_bytes())
}
