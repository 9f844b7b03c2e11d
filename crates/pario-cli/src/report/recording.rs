//! A section for each file of a recording: where the time of each rank went, and when.

use std::collections::BTreeMap;

use super::bench::machine;
use super::chart::{Chart, Kind, Point, number};
use super::document::{Cell, Section, Table, shell};
use super::records::{Call, Event, Hint, Recording};

/// Ranks that are drawn.
const RANKS_MAX: u32 = 64;
/// Calls and accesses that a timeline has at most.
const SPANS_MAX: usize = 3000;
const MEBIBYTE: f64 = 1_048_576.0;

pub(super) fn section(recording: &Recording) -> Section {
    let charts = [split(recording), timeline(recording), accesses(recording)];
    let mut section = Section {
        title: format!("File {}", recording.file),
        summary: summary(recording),
        charts: charts.into_iter().flatten().collect(),
        tables: vec![calls(recording)],
        facts: facts(recording),
        ..Section::default()
    };
    let all: Vec<&Hint> = recording.hints.iter().chain(&recording.ignored_hints).collect();
    if !all.is_empty() {
        section.tables.push(hints(&all));
    }
    if !recording.command.is_empty() {
        section.commands.push(shell(&recording.command));
    }
    for (missed, what) in
        [(recording.calls_missed, "calls"), (recording.events_missed, "storage accesses")]
    {
        if missed > 0 {
            section
                .notes
                .push(format!("{missed} more {what} were not recorded, as there was no room."));
        }
    }
    section
}

fn summary(recording: &Recording) -> String {
    let plural = |count: u32, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let (ranks, nodes) = (plural(recording.ranks, "rank"), plural(recording.nodes, "node"));
    let bytes: u64 = recording.calls.iter().map(|call| call.moved_bytes).sum();
    let mode = if recording.mode.is_empty() { "" } else { ", opened to " };
    format!("{ranks} on {nodes}{mode}{}; {bytes} bytes moved", recording.mode)
}

fn facts(recording: &Recording) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    if let Some(version) = &recording.pario {
        facts.push(("pario".to_owned(), version.clone()));
    }
    facts.extend(machine(recording.machine.as_ref()));
    facts
}

/// The name of the file without its directories.
fn name(recording: &Recording) -> &str {
    recording.file.rsplit('/').next().unwrap_or(&recording.file)
}

/// The time of each rank over all its calls.
fn split(recording: &Recording) -> Option<Chart> {
    let mut points = Vec::new();
    for rank in 0..recording.ranks.min(RANKS_MAX) {
        let own = || recording.calls.iter().filter(|call| call.rank == rank);
        let mut sums = super::records::Times::default().parts();
        for call in own() {
            let parts = sums.iter_mut().zip(call.times.parts());
            parts.for_each(|((_, sum), (_, seconds))| *sum += seconds);
        }
        let note = format!("{} calls", own().count());
        for (series, seconds) in sums {
            points.push(Point {
                series: series.to_owned(),
                label: format!("rank {rank}"),
                x: None,
                y: seconds * 1e3,
                note: note.clone(),
            });
        }
    }
    super::bench::without_empty(&mut points);
    (!points.is_empty()).then(|| Chart {
        id: format!("{} time", name(recording)),
        title: "Time of each rank in all its calls".to_owned(),
        caption: first_ranks(recording, "Shuffle is without the phases."),
        kind: Kind::Bars,
        x_name: String::new(),
        y_name: "ms".to_owned(),
        points,
    })
}

/// Says that not all ranks are drawn.
fn first_ranks(recording: &Recording, text: &str) -> String {
    match recording.ranks > RANKS_MAX {
        true => format!("{text} The first {RANKS_MAX} of {} ranks.", recording.ranks),
        false => text.to_owned(),
    }
}

/// What each rank did when.
fn timeline(recording: &Recording) -> Option<Chart> {
    let drawn = |rank: u32| rank < RANKS_MAX;
    let mut points: Vec<Point> = Vec::new();
    let traced = !recording.events.is_empty();
    for call in recording.calls.iter().filter(|call| drawn(call.rank)) {
        points.extend(spans(call, traced));
    }
    let events = recording.events.iter().filter(|event| drawn(event.rank));
    points.extend(events.map(|event| Point {
        series: "storage".to_owned(),
        label: format!("rank {}", event.rank),
        x: Some(event.begin_seconds * 1e3),
        y: event.seconds * 1e3,
        note: format!("{} of {} bytes at {}", event.what, event.bytes, event.offset),
    }));
    let cut = points.len().saturating_sub(SPANS_MAX);
    points.truncate(SPANS_MAX);
    points.sort_by_key(|point| rank_of(&point.label));
    let mut caption = match traced {
        true => "Storage accesses as they were traced.".to_owned(),
        false => {
            "Within a call, the order of the parts is schematic: nothing was traced.".to_owned()
        }
    };
    if cut > 0 {
        caption += &format!(" {cut} spans are not drawn.");
    }
    (!points.is_empty()).then(|| Chart {
        id: format!("{} timeline", name(recording)),
        title: "Timeline of the ranks".to_owned(),
        caption: first_ranks(recording, &caption),
        kind: Kind::Spans,
        x_name: "ms since the open".to_owned(),
        y_name: "lasts ms".to_owned(),
        points,
    })
}

fn rank_of(label: &str) -> u32 {
    label.strip_prefix("rank ").and_then(|rank| rank.parse().ok()).unwrap_or(u32::MAX)
}

/// The parts of a call one after the other. Where accesses were traced, they are drawn over the
/// shuffle.
fn spans(call: &Call, traced: bool) -> Vec<Point> {
    let times = &call.times;
    let (waits, plans) = (times.synchronisation_seconds, times.planning_seconds);
    let rest = (call.seconds - waits - plans).max(0.0);
    let storage = if traced { 0.0 } else { times.storage_seconds.min(rest) };
    let parts = [
        ("synchronisation", waits),
        ("planning", plans),
        ("shuffle", rest - storage),
        ("storage", storage),
    ];
    let note = format!("{} by {}, {} bytes", call.call, call.strategy, call.moved_bytes);
    let mut begin = call.begin_seconds;
    let mut points = Vec::new();
    for (series, seconds) in parts.into_iter().filter(|(_, seconds)| *seconds > 0.0) {
        points.push(Point {
            series: series.to_owned(),
            label: format!("rank {}", call.rank),
            x: Some(begin * 1e3),
            y: seconds * 1e3,
            note: note.clone(),
        });
        begin += seconds;
    }
    points
}

/// Which part of the file was touched when.
fn accesses(recording: &Recording) -> Option<Chart> {
    let point = |event: &Event| Point {
        series: event.what.clone(),
        label: format!("rank {}", event.rank),
        x: Some(event.begin_seconds * 1e3),
        // A cast that rounds only beyond 2^53 bytes.
        y: event.offset as f64 / MEBIBYTE,
        note: format!("{} bytes in {} ms", event.bytes, number(event.seconds * 1e3)),
    };
    let points: Vec<Point> = recording.events.iter().take(SPANS_MAX).map(point).collect();
    (!points.is_empty()).then(|| Chart {
        id: format!("{} accesses", name(recording)),
        title: "Storage accesses: where in the file, and when".to_owned(),
        caption: "Each dot is one access; what a round moves is a column of dots.".to_owned(),
        kind: Kind::Dots { scale: super::chart::Scale::Linear, diagonal: false },
        x_name: "ms since the open".to_owned(),
        y_name: "offset MiB".to_owned(),
        points,
    })
}

/// What is the same for calls of one line.
type Manner<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Calls of one kind by one strategy in one line.
#[derive(Default)]
struct Line {
    calls: u64,
    ranks: BTreeMap<u32, u64>,
    bytes: u64,
    rounds: u64,
    aggregators: u64,
    accesses: u64,
    longest_seconds: f64,
}

fn calls(recording: &Recording) -> Table {
    let mut lines: Vec<(Manner<'_>, Line)> = Vec::new();
    for call in &recording.calls {
        let key = (&*call.call, &*call.strategy, &*call.reason, &*call.windows);
        let index = lines.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            lines.push((key, Line::default()));
            lines.len() - 1
        });
        let line = &mut lines[index].1;
        line.calls += 1;
        *line.ranks.entry(call.rank).or_default() += 1;
        line.bytes += call.moved_bytes;
        line.rounds = line.rounds.max(call.rounds);
        line.aggregators = line.aggregators.max(call.aggregators);
        line.accesses += call.storage_reads + call.storage_writes;
        line.longest_seconds = line.longest_seconds.max(call.seconds);
    }
    let row = |((call, strategy, reason, windows), line): &(Manner<'_>, Line)| {
        vec![
            Cell::text(*call),
            Cell::text(*strategy),
            Cell::text(*reason),
            Cell::text(*windows),
            Cell::number(line.calls),
            Cell::number(line.ranks.len()),
            Cell::number(line.bytes),
            Cell::number(line.rounds),
            Cell::number(line.aggregators),
            Cell::number(line.accesses),
            Cell::number(number(line.longest_seconds * 1e3)),
        ]
    };
    Table {
        title: "Calls".to_owned(),
        columns: vec![
            "call",
            "strategy",
            "reason",
            "windows",
            "calls of ranks",
            "ranks",
            "bytes",
            "rounds at most",
            "aggregators",
            "storage calls",
            "longest ms",
        ],
        rows: lines.iter().map(row).collect(),
    }
}

fn hints(all: &[&Hint]) -> Table {
    let row = |hint: &&Hint| {
        let effect = match hint.reason.is_empty() {
            true => "in effect".to_owned(),
            false => format!("ignored: {}", hint.reason),
        };
        let texts = [&hint.name, &hint.value, &hint.origin, &effect];
        texts.map(|text| Cell::text(text.as_str())).into()
    };
    Table {
        title: "Hints".to_owned(),
        columns: vec!["hint", "value", "from", ""],
        rows: all.iter().map(row).collect(),
    }
}
