//! The answer of `pario explain` as text, JSON and a picture.

use std::io::{self, Write};
use std::path::Path;

use pario::explain::{Answer, TimePart, Way};
use plotters::prelude::*;
use serde::Serialize;

use crate::failure::Failure;

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
}

#[derive(Clone, Debug, Serialize)]
struct Term {
    part: &'static str,
    name: &'static str,
    ms: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    strategy: String,
    chosen: bool,
    predicted_ms: f64,
    planning_ms: f64,
    synchronisation_ms: f64,
    exchange_ms: f64,
    storage_ms: f64,
    aggregators: u64,
    phases: Option<u32>,
    rounds: u64,
    window_bytes: u64,
    windows: &'static str,
    terms: Vec<Term>,
}

/// One call with all its ways, the fastest first.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Document {
    kind: &'static str,
    #[serde(flatten)]
    scene: Scene,
    reason: &'static str,
    advice: String,
    ways: Vec<Row>,
    plan: String,
}

const PARTS: [(TimePart, &str); 4] = [
    (TimePart::Planning, "planning"),
    (TimePart::Synchronisation, "synchronisation"),
    (TimePart::Exchange, "exchange"),
    (TimePart::Storage, "storage"),
];

impl Row {
    fn new(way: &Way, chosen: bool) -> Row {
        let part_ms = |part| way.part_us(part) / 1e3;
        let name = |part| PARTS.iter().find(|(one, _)| *one == part).map_or("", |(_, name)| *name);
        let term = |share: &pario::explain::Share| Term {
            part: name(share.part),
            name: share.name,
            ms: share.us / 1e3,
        };
        Row {
            strategy: way.strategy.to_string(),
            chosen,
            predicted_ms: way.total_us() / 1e3,
            planning_ms: part_ms(TimePart::Planning),
            synchronisation_ms: part_ms(TimePart::Synchronisation),
            exchange_ms: part_ms(TimePart::Exchange),
            storage_ms: part_ms(TimePart::Storage),
            aggregators: way.aggregators,
            phases: way.phases,
            rounds: way.rounds,
            window_bytes: way.window_bytes,
            windows: way.windows,
            terms: way.times.iter().map(term).collect(),
        }
    }

    fn parts_ms(&self) -> [f64; 4] {
        [self.planning_ms, self.synchronisation_ms, self.exchange_ms, self.storage_ms]
    }
}

impl Document {
    pub(super) fn new(scene: Scene, answer: &Answer) -> Document {
        let chosen = answer.chosen();
        let mut ways: Vec<&Way> = answer.best_of_each();
        if !ways.iter().any(|way| std::ptr::eq(*way, chosen)) {
            ways.push(chosen);
        }
        let rows: Vec<Row> =
            ways.iter().map(|way| Row::new(way, std::ptr::eq(*way, chosen))).collect();
        let advice = advice(&scene, &Row::new(chosen, true), rows.first());
        let (reason, plan) = (answer.reason, answer.plan.clone());
        Document { kind: "explain", scene, reason, advice, ways: rows, plan }
    }

    fn chosen(&self) -> Option<&Row> {
        self.ways.iter().find(|row| row.chosen)
    }
}

/// What takes most of the time, and what would change that.
fn advice(scene: &Scene, chosen: &Row, fastest: Option<&Row>) -> String {
    if let Some(fastest) = fastest
        && fastest.predicted_ms < 0.9 * chosen.predicted_ms
    {
        return format!(
            "a hint forbids the fastest way: {} is predicted to take {}",
            fastest.strategy,
            time(fastest.predicted_ms)
        );
    }
    let longest = chosen.terms.iter().max_by(|one, other| one.ms.total_cmp(&other.ms));
    let Some(term) = longest else { return "there is nothing to do".to_owned() };
    let what = match term.name {
        "storage calls" | "calls that read first" if !scene.collective => {
            "call collectively, so that calls are combined, or make pieces longer"
        }
        "storage calls" | "calls that read first" => "make pieces longer, or calls larger",
        "bytes that are read first" => "leave no holes: they are read and written back",
        "bytes" => "only faster storage helps",
        "messages" => "use fewer aggregators (cb_nodes), or a larger cb_buffer_size",
        "bytes between nodes" => "only a faster network helps, or aggregators on more nodes",
        "pieces are copied" | "pieces are packed" | "windows are assembled" => {
            "make pieces longer in the file, if you can"
        }
        "requests are planned" => "keep the file open: a plan is kept for equal calls",
        "locks" => "call collectively, or write without holes: no locks then",
        _ => "run one rank for each core",
    };
    let part = 100.0 * term.ms / chosen.predicted_ms.max(f64::MIN_POSITIVE);
    format!("{part:.0} % of the time: {}; {what}", term.name)
}

/// Prints all documents.
///
/// # Errors
/// `Run` if the output cannot be written.
pub(super) fn print(documents: &[Document], json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = documents.iter().try_for_each(|document| match json {
        true => serde_json::to_writer(&mut out, document)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
        false => write_text(&mut out, document),
    });
    written.map_err(|error| Failure::during("stdout", error))
}

fn write_text(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let Document { scene, reason, advice, ways, .. } = document;
    let Scene { workload, shape, direction, ranks, nodes, cores, .. } = scene;
    let call = if scene.collective { "collective" } else { "independent" };
    writeln!(out, "{workload}: {shape}; {call} {direction}")?;
    writeln!(out, "{ranks} ranks on {nodes} nodes of {cores} cores; profile {}", scene.profile)?;
    let (total, piece) = (size(scene.bytes), size(scene.piece_bytes));
    writeln!(out, "{total} in pieces of {piece} on average\n")?;
    writeln!(
        out,
        "  {:<12} {:>11} {:>11} {:>11} {:>11} {:>11} {:>6} {:>6} {:>7}",
        "strategy",
        "predicted",
        "planning",
        "waiting",
        "exchange",
        "storage",
        "aggr.",
        "phases",
        "rounds"
    )?;
    for row in ways {
        let mark = if row.chosen { '*' } else { ' ' };
        write!(out, "{mark} {:<12} {:>11}", row.strategy, time(row.predicted_ms))?;
        for ms in row.parts_ms() {
            write!(out, " {:>11}", time(ms))?;
        }
        let phases = row.phases.map_or(String::new(), |phases| phases.to_string());
        writeln!(out, " {:>6} {phases:>6} {:>7}", row.aggregators, row.rounds)?;
    }
    if let Some(chosen) = document.chosen() {
        writeln!(out, "\n* {}: {reason}", chosen.strategy)?;
        for term in &chosen.terms {
            writeln!(out, "    {:>11}  {} ({})", time(term.ms), term.name, term.part)?;
        }
    }
    writeln!(out, "  {advice}\n")
}

/// A time with a unit that suits it.
fn time(ms: f64) -> String {
    match ms {
        0.0 => "-".to_owned(),
        ms if ms < 1.0 => format!("{:.1} us", ms * 1e3),
        ms if ms < 1e3 => format!("{ms:.2} ms"),
        ms if ms < 3.6e6 => format!("{:.2} s", ms / 1e3),
        ms => format!("{:.1} h", ms / 3.6e6),
    }
}

/// A number of bytes with a unit that suits it.
fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let whole = bytes / unit;
            format!("{whole}.{} {name}", bytes % unit * 10 / unit)
        }
        None => format!("{bytes} bytes"),
    }
}

const WIDTH: u32 = 760;
const ROW: u32 = 26;
const COLORS: [RGBColor; 4] =
    [RGBColor(230, 159, 0), RGBColor(153, 153, 153), RGBColor(0, 114, 178), RGBColor(0, 158, 115)];

/// Draws the ways of all documents as stacked bars.
///
/// # Errors
/// Why the file cannot be written.
pub(super) fn draw(path: &Path, documents: &[Document]) -> Result<(), String> {
    draw_to(path, documents).map_err(|error| format!("{}: {error}", path.display()))
}

fn draw_to(path: &Path, documents: &[Document]) -> Result<(), Box<dyn std::error::Error>> {
    let count = |document: &Document| u32::try_from(document.ways.len()).unwrap_or(0);
    let rows: u32 = documents.iter().map(|document| count(document) + 3).sum();
    let area = SVGBackend::new(path, (WIDTH, rows * ROW + 2 * ROW)).into_drawing_area();
    area.fill(&WHITE)?;
    let text = |size: u32| ("sans-serif", size).into_font();
    let mut legend = 12;
    for ((_, name), color) in PARTS.iter().zip(COLORS) {
        area.draw(&Rectangle::new([(legend, 10), (legend + 12, 22)], color.filled()))?;
        area.draw(&Text::new(*name, (legend + 16, 9), text(13)))?;
        legend += 130;
    }
    let mut top: i32 = 40;
    for document in documents {
        let Scene { workload, direction, ranks, nodes, .. } = &document.scene;
        let title = format!("{workload}, {direction}, {ranks} ranks on {nodes} nodes");
        area.draw(&Text::new(title, (12, top), text(15)))?;
        top += 26;
        let longest =
            document.ways.iter().map(|row| row.predicted_ms).fold(f64::MIN_POSITIVE, f64::max);
        for row in &document.ways {
            let mark = if row.chosen { "* " } else { "" };
            area.draw(&Text::new(format!("{mark}{}", row.strategy), (12, top + 3), text(13)))?;
            let mut left = 150;
            for (ms, color) in row.parts_ms().into_iter().zip(COLORS) {
                let right = left + pixels(ms / longest * 480.0);
                area.draw(&Rectangle::new([(left, top), (right, top + 18)], color.filled()))?;
                left = right;
            }
            area.draw(&Text::new(time(row.predicted_ms), (left + 6, top + 3), text(13)))?;
            top += 26;
        }
        area.draw(&Text::new(document.reason, (12, top + 2), text(13)))?;
        top += 40;
    }
    area.present()?;
    Ok(())
}

/// A length in whole pixels.
fn pixels(length: f64) -> i32 {
    // Lengths are at most the width of the picture.
    #[allow(clippy::cast_possible_truncation)]
    let whole = length.round() as i32;
    whole
}
