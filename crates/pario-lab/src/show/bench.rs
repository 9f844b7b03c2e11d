//! Sections of runs of `pario bench` and of `cargo xtask peers`: one for each workload.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::chart::{BLOCK_BYTES, Chart, Kind, Point, Scale, bar_names, number, place_of, size};
use super::document::{Cell, Section, Table, shell};
use super::pattern;
use super::records::{Bench, Machine};
use super::rounds;
use crate::date;

const MEGABYTE: f64 = 1e6;
const PARTS_CAPTION: &str = "A bar is the time in the table, its parts are those of the rank with \
                             the most storage time. Rest: it waits, or does what is not timed.";
/// As many sizes of blocks are a line; fewer are bars.
const LINE_POINTS: usize = 3;

/// What is compared in one section.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    workload: String,
    shape: String,
    ranks: u32,
    around: String,
}

impl Key {
    fn of(record: &Bench) -> Key {
        // Peers have short shapes, and name the size of a block as that of a vector.
        let (detail, shape) = match (&record.side, record.workload.as_str()) {
            (Some(_), "block-cyclic") => (record.part.as_str(), String::new()),
            (Some(_), _) => (record.shape.as_str(), String::new()),
            (None, _) => (record.part.as_str(), record.shape.clone()),
        };
        let workload = match detail.is_empty() {
            true => record.workload.clone(),
            false => format!("{} {detail}", record.workload),
        };
        Key { workload, shape, ranks: record.ranks, around: around(record) }
    }
}

/// What else decides whether two results can be compared.
fn around(record: &Bench) -> String {
    [conditions(record), vec![shell(&record.command)]].concat().join("\n")
}

/// The same without the command, in words.
fn conditions(record: &Bench) -> Vec<String> {
    let hints = record.hints.iter().map(|(key, value)| format!("{key}={value}"));
    let files = record.files.as_ref().map(|files| format!("{files} file"));
    let given = [&record.directory, &record.device, &record.memory];
    let mut conditions = vec![transport(record), files.unwrap_or_default()];
    conditions.extend(given.map(|one| one.clone().unwrap_or_default()));
    conditions.push(hints.collect::<Vec<String>>().join(" "));
    conditions
}

/// How ranks reach each other.
fn transport(record: &Bench) -> String {
    match (&record.side, &record.mpi, record.transport.as_deref()) {
        (Some(_), ..) => "MPI".to_owned(),
        (None, Some(mpi), _) => mpi.clone(),
        (None, None, Some(transport)) => transport.to_owned(),
        (None, None, None) => String::new(),
    }
}

/// A section for each workload, in the order of the records.
pub(super) fn sections(records: &[Bench]) -> Vec<Section> {
    let mut groups: Vec<(Key, Vec<&Bench>)> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    for record in records {
        let key = Key::of(record);
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(record);
    }
    let mut sections: Vec<Section> =
        groups.iter().map(|(key, group)| section(key, group)).collect();
    tell_apart(&mut sections, &groups);
    sections
}

/// Adds to titles that are the same what differs: the transport, a hint, the shape, the command.
fn tell_apart(sections: &mut [Section], groups: &[(Key, Vec<&Bench>)]) {
    let words = |(key, group): &(Key, Vec<&Bench>)| {
        let first = group.first();
        let mut words = first.map_or_else(Vec::new, |first| conditions(first));
        words.push(key.shape.clone());
        let date = first.and_then(|first| first.unix_seconds).map(date::minute);
        words.push(date.unwrap_or_default());
        words
    };
    let words: Vec<Vec<String>> = groups.iter().map(words).collect();
    let titles: Vec<String> = sections.iter().map(|section| section.title.clone()).collect();
    for (index, section) in sections.iter_mut().enumerate() {
        let same: Vec<usize> =
            (0..titles.len()).filter(|other| titles[*other] == titles[index]).collect();
        let differs = |place: &usize| {
            same.iter().any(|other| words[*other].get(*place) != words[index].get(*place))
        };
        let own = (0..words[index].len()).filter(differs).map(|place| words[index][place].as_str());
        if let Some(word) = own.into_iter().find(|word| !word.is_empty()) {
            section.title += &format!(" ({word})");
        }
    }
}

fn section(key: &Key, records: &[&Bench]) -> Section {
    let mut section = Section { title: title(key), ..Section::default() };
    let Some(first) = records.first() else { return section };
    section.summary = summary(key, records);
    let mut sorted = records.to_vec();
    sorted.sort_by_key(|record| (block(record), place_of(&technique(record))));
    let (all, records): (&[&Bench], &[&Bench]) = (&sorted, &sorted);
    let measured = |record: &&Bench| record.seconds.is_some();
    let records: &[&Bench] = &records.iter().copied().filter(measured).collect::<Vec<_>>();
    for direction in ["write", "read"] {
        let own: Vec<&Bench> =
            records.iter().copied().filter(|record| record.direction == direction).collect();
        section.charts.extend(bandwidth(key, direction, &own));
    }
    section.charts.extend(prediction(key, records));
    section.charts.extend(pattern::chart(&key.workload, first));
    section.charts.extend(rounds::of_benches(&key.workload, records));
    for direction in ["write", "read"] {
        let own = records.iter().copied().filter(|record| record.direction == direction);
        for (size, own) in by_block(own) {
            section.charts.extend(split(key, (direction, size), &own));
        }
    }
    section.tables.push(table(all));
    section.facts = facts(first);
    if !first.command.is_empty() {
        section.commands.push(shell(&first.command));
    }
    section
}

fn title(key: &Key) -> String {
    let plural = if key.ranks == 1 { "" } else { "s" };
    format!("{}, {} rank{plural}", key.workload, key.ranks)
}

fn summary(key: &Key, records: &[&Bench]) -> String {
    let mut parts = Vec::new();
    let Some(first) = records.first() else { return String::new() };
    if !key.shape.is_empty() {
        parts.push(key.shape.clone());
    }
    // A cast that rounds only beyond 2^53 bytes.
    parts.push(size(first.bytes as f64));
    let transport = transport(first);
    if !transport.is_empty() {
        let nodes = if first.nodes == 1 { "node" } else { "nodes" };
        parts.push(format!("ranks by {transport} on {} {nodes}", first.nodes));
    }
    if first.files.as_deref() == Some("new") {
        parts.push("a new file for each step".to_owned());
    }
    let date = date::span(records.iter().filter_map(|record| record.unix_seconds));
    parts.extend(date.map(|date| format!("measured {date}")));
    parts.join("; ")
}

/// The name of what was measured; the same for all sizes of blocks.
fn technique(record: &Bench) -> String {
    let level = match record.level {
        None | Some(3) => String::new(),
        Some(level) => format!("level {level} "),
    };
    match (&record.strategy, &record.side, &record.mpi) {
        (Some(strategy), ..) if strategy == "block" => "Block I/O".to_owned(),
        (Some(strategy), ..) if strategy == "posix" => strategy.clone(),
        (Some(strategy), ..) if strategy == "auto" && record.level == Some(0) => {
            "level 0".to_owned()
        }
        (Some(strategy), ..) => format!("{level}{strategy}"),
        (None, Some(side), Some(mpi)) => format!("{level}{side} on {mpi}"),
        (None, Some(side), None) => format!("{level}{side}"),
        (None, None, _) => format!("{level}pario"),
    }
}

/// The same with the strategy that was really used.
fn technique_in_full(record: &Bench) -> String {
    let name = technique(record);
    match (&record.strategy, &record.served_by) {
        (Some(asked), Some(used)) if asked != used => format!("{name}: {used}"),
        _ => name,
    }
}

/// Results by the size of their blocks, small ones first.
fn by_block<'a>(records: impl Iterator<Item = &'a Bench>) -> BTreeMap<u64, Vec<&'a Bench>> {
    let mut blocks: BTreeMap<u64, Vec<&Bench>> = BTreeMap::new();
    records.for_each(|record| blocks.entry(block(record)).or_default().push(record));
    blocks
}

/// Bytes of a block; 0 if they are not known.
pub(super) fn block(record: &Bench) -> u64 {
    record.block.unwrap_or(0)
}

/// What the title of a chart says of blocks.
pub(super) fn of_blocks(block: u64) -> String {
    match block {
        0 => String::new(),
        // A cast that rounds: sizes of blocks are small.
        block => format!(", blocks of {}", size(block as f64)),
    }
}

fn milliseconds(record: &Bench) -> f64 {
    record.seconds.unwrap_or(f64::NAN) * 1e3
}

/// Bytes of all ranks in a second; the cast rounds, which a speed bears.
fn speed(record: &Bench) -> f64 {
    record.bytes as f64 / milliseconds(record) * 1e3 / MEGABYTE
}

fn bandwidth(key: &Key, direction: &str, records: &[&Bench]) -> Vec<Chart> {
    let blocks = by_block(records.iter().copied());
    let id = format!("{} {} ranks bandwidth {direction}", key.workload, key.ranks);
    let chart = |id: String, title: String, kind, points| Chart {
        id,
        title,
        caption: "MB are 10^6 bytes of all ranks; more is better.".to_owned(),
        kind,
        x_name: BLOCK_BYTES.to_owned(),
        y_name: "MB/s".to_owned(),
        points,
    };
    if blocks.len() >= LINE_POINTS {
        let kind = Kind::Lines { x: Scale::Log, y: Scale::Log };
        let title = format!("{}: bandwidth of the {direction} by block size", key.workload);
        let points = records.iter().map(|record| speed_point(record, None)).collect();
        return vec![chart(id, title, kind, points)];
    }
    let of_block = |(size, own): (&u64, &Vec<&Bench>)| {
        let bars = own.iter().zip(labels(own));
        let points = bars.map(|(record, label)| speed_point(record, Some(label))).collect();
        let title = format!("{}: bandwidth of the {direction}{}", key.workload, of_blocks(*size));
        chart(format!("{id} {size}"), title, Kind::Bars, points)
    };
    blocks.iter().map(of_block).collect()
}

/// A bar with a name, or a place on a line.
fn speed_point(record: &Bench, bar: Option<String>) -> Point {
    let ratio =
        record.ratio.map_or(String::new(), |ratio| format!("; {} x Block I/O", number(ratio)));
    let note = format!("{} ms{ratio}", number(milliseconds(record)));
    let y = speed(record);
    match bar {
        Some(label) => Point { series: technique(record), label, x: None, y, note },
        None => {
            // A cast that rounds: sizes of blocks are small.
            let x = Some(block(record) as f64);
            Point { series: technique(record), label: String::new(), x, y, note }
        }
    }
}

/// Where the time went, for one size of blocks: a bar is as long as the time in the table.
fn split(key: &Key, (direction, size): (&str, u64), records: &[&Bench]) -> Option<Chart> {
    // Results of MPI libraries have no parts.
    if !records.iter().any(|record| record.times.is_known()) {
        return None;
    }
    let mut points = Vec::new();
    for (record, label) in records.iter().zip(labels(records)) {
        let whole = record.seconds.unwrap_or(0.0);
        let of_rank = record.times_of_rank.map_or(String::new(), |rank| format!(" of rank {rank}"));
        let note = format!("a part{of_rank}; {} ms for all ranks", number(whole * 1e3));
        points.extend(record.times.within(whole).map(|(series, seconds)| Point {
            series: series.to_owned(),
            label: label.clone(),
            x: None,
            y: seconds * 1e3,
            note: note.clone(),
        }));
    }
    without_empty(&mut points);
    (!points.is_empty()).then(|| Chart {
        id: format!("{} {} ranks time {direction} {size}", key.workload, key.ranks),
        title: format!("{}: time of the {direction}{}", key.workload, of_blocks(size)),
        caption: PARTS_CAPTION.to_owned(),
        kind: Kind::Bars,
        x_name: String::new(),
        y_name: "ms".to_owned(),
        points,
    })
}

/// The names of bars.
fn labels(records: &[&Bench]) -> Vec<String> {
    bar_names(records.iter().map(|record| technique_in_full(record)))
}

/// Leaves out series that are 0 everywhere: they would only be in the legend.
pub(super) fn without_empty(points: &mut Vec<Point>) {
    let used: HashSet<String> =
        points.iter().filter(|point| point.y > 0.0).map(|point| point.series.clone()).collect();
    points.retain(|point| used.contains(&point.series));
}

/// What a model expected beside what was measured.
fn prediction(key: &Key, records: &[&Bench]) -> Option<Chart> {
    let point = |record: &&Bench| {
        let predicted = record.predicted?.seconds();
        let share = number(predicted * 1e3 / milliseconds(record));
        let size = of_blocks(block(record));
        let note = format!("{}{size}; predicted / measured {share}", record.direction);
        let (x, y) = (Some(milliseconds(record)), predicted * 1e3);
        Some(Point { series: technique(record), label: String::new(), x, y, note })
    };
    let points: Vec<Point> = records.iter().filter_map(point).collect();
    (!points.is_empty()).then(|| Chart {
        id: format!("{} {} ranks prediction", key.workload, key.ranks),
        title: format!("{}: predicted against measured", key.workload),
        caption: "On the dashed line the prediction is exact; above it, it was too slow."
            .to_owned(),
        kind: Kind::Dots { scale: Scale::Log, diagonal: true },
        x_name: "measured ms".to_owned(),
        y_name: "predicted ms".to_owned(),
        points,
    })
}

fn table(records: &[&Bench]) -> Table {
    let predicted = records.iter().any(|record| record.predicted.is_some());
    let mut columns = vec![
        "block",
        "technique",
        "direction",
        "ms",
        "MB/s",
        "x Block I/O",
        "rounds",
        "storage calls",
        "messages",
        "sent",
        "shared",
        "verified",
    ];
    if predicted {
        columns.push("predicted ms");
    }
    let row = |record: &&Bench| {
        let verified = match record.verified {
            _ if record.seconds.is_none() => "not ended",
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        };
        let mut row = vec![
            Cell::bytes(record.block),
            Cell::text(technique_in_full(record)),
            Cell::text(&record.direction),
            Cell::maybe(record.seconds.map(|_| number(milliseconds(record)))),
            Cell::maybe(record.seconds.map(|_| number(speed(record)))),
            Cell::maybe(record.ratio.map(number)),
            Cell::maybe(record.rounds),
            Cell::maybe(record.storage_calls),
            Cell::maybe(record.messages),
            Cell::bytes(record.sent_bytes),
            Cell::bytes(record.shared_bytes),
            Cell::text(verified),
        ];
        if predicted {
            row.push(Cell::maybe(record.predicted.map(|one| number(one.seconds() * 1e3))));
        }
        row
    };
    let is_auto =
        |(index, record): (usize, &&Bench)| (technique(record) == "auto").then_some(index);
    Table {
        title: "All values".to_owned(),
        columns,
        rows: records.iter().map(row).collect(),
        strong: records.iter().enumerate().filter_map(is_auto).collect(),
        ..Table::default()
    }
}

fn facts(first: &Bench) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    if let Some(version) = &first.pario {
        facts.push(("pario".to_owned(), version.clone()));
    }
    facts.extend(machine(first.machine.as_ref()));
    if let Some(mpi) = first.mpi.as_ref().filter(|_| first.side.is_none()) {
        facts.push(("MPI".to_owned(), mpi.clone()));
    }
    if let Some(directory) = &first.directory {
        facts.push(("file system".to_owned(), directory.clone()));
    }
    if let Some(device) = &first.device {
        facts.push(("emulated device".to_owned(), device.clone()));
    }
    if let Some(memory) = &first.memory {
        facts.push(("memory".to_owned(), memory.clone()));
    }
    if let Some(seconds) = first.step_seconds {
        facts.push(("a step of Block I/O".to_owned(), format!("{} ms", number(seconds * 1e3))));
    }
    let hint = |(key, value): (&String, &String)| (format!("hint {key}"), value.clone());
    facts.extend(first.hints.iter().map(hint));
    facts
}

/// What was written down of a machine.
pub(super) fn machine(machine: Option<&Machine>) -> Vec<(String, String)> {
    let shown = |(key, value): (&String, &serde_json::Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (key.replace('_', " "), value)
    };
    machine.into_iter().flatten().map(shown).collect()
}
