//! A section for each file of a recording: where the time of each rank went, and when.
//!
//! A recording may have any number of files. Those with the most time have a section each; all are
//! in the totals. What a section needs is computed when the file is read, and then only as many
//! calls and accesses are kept as are drawn.

use std::collections::{BTreeSet, HashMap};

use super::bench::{machine, without_empty};
use super::chart::{Chart, Kind, Point, Scale, number, size};
use super::document::{Cell, Section, Table, exact, shell};
use super::records::{Call, Event, Hint, REST, Recording, Times};
use super::sampled::Most;
use crate::date;

/// Ranks that are drawn.
const RANKS_MAX: u32 = 64;
/// Files that have a section.
const SECTIONS_MAX: u64 = 24;
/// Calls and accesses that all timelines have at most together, and each at least.
const SPANS: (usize, usize) = (12_000, 400);
/// Calls and accesses that one timeline has at most.
const SPANS_MAX: usize = 3000;
/// A call is drawn as about so many spans.
const SPANS_OF_CALL: usize = 4;
/// Names of files that are counted by themselves, and those in the table.
const NAMES_MAX: usize = 10_000;
const NAMES_SHOWN: usize = 40;
const NOT_CLOSED: &str = "The program was ended before it closed the file: only the calls of rank \
                          0 are known.";
const MEBIBYTE: f64 = 1_048_576.0;

/// Sums over opens of files.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    opens: u64,
    calls: u64,
    bytes: f64,
    seconds: f64,
}

impl Totals {
    fn of(recording: &Recording) -> Totals {
        // Casts that round only beyond 2^53 bytes.
        let bytes: u64 = recording.calls.iter().map(|call| call.moved_bytes).sum();
        Totals {
            opens: 1,
            calls: recording.calls.count() + recording.calls_missed,
            bytes: recording.calls.scaled(bytes as f64),
            seconds: recording.seconds(),
        }
    }

    fn add(&mut self, other: Totals) {
        self.opens += other.opens;
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.seconds += other.seconds;
    }

    fn row(self, name: String) -> Vec<Cell> {
        vec![
            Cell::text(name),
            Cell::number(self.opens),
            Cell::number(self.calls),
            Cell::number(size(self.bytes)),
            Cell::number(number(self.seconds * 1e3)),
        ]
    }
}

/// All files of all recordings, in bounded memory.
pub(super) struct Files {
    most: Most<Digest>,
    names: HashMap<String, Totals>,
    /// Files beyond those whose names are kept.
    others: Totals,
    all: Totals,
}

impl Files {
    pub(super) fn new() -> Files {
        Files {
            most: Most::new(SECTIONS_MAX),
            names: HashMap::new(),
            others: Totals::default(),
            all: Totals::default(),
        }
    }

    /// Adds what was done with a file.
    pub(super) fn add(&mut self, recording: Recording) {
        let totals = Totals::of(&recording);
        self.all.add(totals);
        if self.names.len() < NAMES_MAX && !self.names.contains_key(&recording.file) {
            self.names.insert(recording.file.clone(), Totals::default());
        }
        let named = self.names.get_mut(&recording.file).unwrap_or(&mut self.others);
        named.add(totals);
        let open = named.opens;
        self.most.add((totals.seconds, 1), || Digest::new(recording, open));
    }

    /// The totals, where there are several files, and a section for each of the longest.
    pub(super) fn sections(self) -> Vec<Section> {
        let spans = (SPANS.0 / self.most.len().max(1)).clamp(SPANS.1, SPANS_MAX);
        let mut sections: Vec<Section> = self.overview().into_iter().collect();
        let opens = |file: &str| self.names.get(file).map_or(1, |totals| totals.opens);
        let of_file = |mut digest: Digest| {
            digest.thin(spans);
            section(&digest, opens(&digest.recording.file))
        };
        sections.extend(self.most.into_vec().into_iter().map(of_file));
        sections
    }

    fn overview(&self) -> Option<Section> {
        if self.all.opens < 2 {
            return None;
        }
        let mut named: Vec<(&String, &Totals)> = self.names.iter().collect();
        named.sort_by(|one, other| {
            other.1.seconds.total_cmp(&one.1.seconds).then(one.0.cmp(other.0))
        });
        let mut rest = self.others;
        let left = named.split_off(named.len().min(NAMES_SHOWN));
        left.iter().for_each(|(_, totals)| rest.add(**totals));
        let mut rows: Vec<Vec<Cell>> =
            named.iter().map(|(name, totals)| totals.row((*name).clone())).collect();
        if rest.opens > 0 {
            rows.push(rest.row("all others".to_owned()));
        }
        rows.push(self.all.row("all".to_owned()));
        let (left_out, left_seconds) = self.most.left_out();
        let note = format!(
            "The {} openings with the most time have a section each; {left_out} others, with {} ms \
             in all, are only in this table.",
            self.most.len(),
            number(left_seconds * 1e3)
        );
        Some(Section {
            title: "Recorded files".to_owned(),
            summary: format!("{} openings of files.", self.all.opens),
            tables: vec![Table {
                title: "Files".to_owned(),
                columns: vec!["file", "opened", "calls of ranks", "moved", "ms of all ranks"],
                strong: vec![rows.len() - 1],
                rows,
                ..Table::default()
            }],
            notes: (left_out > 0).then_some(note).into_iter().collect(),
            ..Section::default()
        })
    }
}

/// What a section shows of one open of a file.
struct Digest {
    /// With as many calls and accesses as are drawn.
    recording: Recording,
    /// Which open of the file it is.
    open: u64,
    totals: Totals,
    times: Vec<RankTimes>,
    lines: Vec<(Manner, Line)>,
    notes: Vec<String>,
}

/// The time of one rank over all its calls.
#[derive(Clone, Default)]
struct RankTimes {
    calls: u64,
    parts: [f64; 6],
}

impl Digest {
    fn new(mut recording: Recording, open: u64) -> Digest {
        let sampled = [recording.calls.note("calls"), recording.events.note("storage accesses")];
        let notes = sampled.into_iter().flatten().collect();
        let (totals, times) = (Totals::of(&recording), rank_times(&recording));
        let lines = lines(&recording);
        recording.calls.retain(|call| call.rank < RANKS_MAX);
        recording.events.retain(|event| event.rank < RANKS_MAX);
        let mut digest = Digest { recording, open, totals, times, lines, notes };
        digest.thin(SPANS_MAX);
        digest
    }

    /// Keeps as many calls and accesses as are drawn by so many spans.
    fn thin(&mut self, spans: usize) {
        self.recording.calls.thin(spans / SPANS_OF_CALL);
        self.recording.events.thin(spans);
    }
}

fn section(digest: &Digest, opens: u64) -> Section {
    let recording = &digest.recording;
    let charts = [split(digest), timeline(recording), accesses(recording)];
    let title = match opens {
        1 => format!("File {}", recording.file),
        opens => format!("File {}, opening {} of {opens}", recording.file, digest.open),
    };
    let link = match opens {
        1 => name(recording).to_owned(),
        opens => format!("{}, opening {} of {opens}", name(recording), digest.open),
    };
    let mut section = Section {
        title,
        link,
        summary: summary(digest),
        charts: charts.into_iter().flatten().collect(),
        tables: vec![calls(digest)],
        facts: facts(recording),
        notes: digest.notes.clone(),
        ..Section::default()
    };
    section.tables.extend(hints(recording));
    section.tables.extend(other_hints(recording));
    if !recording.command.is_empty() {
        section.commands.push(shell(&recording.command));
    }
    if !recording.of_all_ranks {
        section.notes.push(NOT_CLOSED.to_owned());
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

fn summary(digest: &Digest) -> String {
    let recording = &digest.recording;
    let plural = |count: u32, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let (ranks, nodes) = (plural(recording.ranks, "rank"), plural(recording.nodes, "node"));
    let mode = if recording.mode.is_empty() { "" } else { ", mode " };
    let moved = size(digest.totals.bytes);
    let date = recording.unix_seconds.map(|time| format!("; recorded {}", date::minute(time)));
    let date = date.unwrap_or_default();
    format!("{ranks} on {nodes}{mode}{}; {moved} moved{date}", recording.mode)
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

fn rank_times(recording: &Recording) -> Vec<RankTimes> {
    let ranks = usize::try_from(recording.ranks.min(RANKS_MAX)).unwrap_or(0);
    let mut times = vec![RankTimes::default(); ranks];
    for call in &recording.calls {
        let rank = usize::try_from(call.rank).unwrap_or(usize::MAX);
        let Some(own) = times.get_mut(rank) else { continue };
        own.calls += 1;
        let parts = own.parts.iter_mut().zip(call.times.within(call.seconds));
        parts.for_each(|(sum, (_, seconds))| *sum += recording.calls.scaled(seconds));
    }
    times
}

/// The time of each rank over all its calls.
fn split(digest: &Digest) -> Option<Chart> {
    let mut points = Vec::new();
    let names = Times::default().within(0.0).map(|(name, _)| name);
    for (rank, own) in digest.times.iter().enumerate() {
        points.extend(names.iter().zip(own.parts).map(|(series, seconds)| Point {
            series: (*series).to_owned(),
            label: format!("rank {rank}"),
            x: None,
            y: seconds * 1e3,
            note: format!("{} calls", own.calls),
        }));
    }
    without_empty(&mut points);
    let recording = &digest.recording;
    let caption = "Shuffle is without the phases; rest is all that is not timed by itself.";
    (!points.is_empty()).then(|| Chart {
        id: format!("{} time", name(recording)),
        title: "Time of each rank in all its calls".to_owned(),
        caption: first_ranks(recording, caption),
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
    let traced = !recording.events.is_empty();
    let mut points: Vec<Point> =
        recording.calls.iter().flat_map(|call| spans(call, traced)).collect();
    points.extend(recording.events.iter().map(|event| Point {
        series: "storage".to_owned(),
        label: format!("rank {}", event.rank),
        x: Some(event.begin_seconds * 1e3),
        y: event.seconds * 1e3,
        note: format!("{} of {} at {}", event.what, exactly(event.bytes), exactly(event.offset)),
    }));
    points.sort_by_key(|point| rank_of(&point.label));
    let base = match traced {
        true => "Storage accesses as they were traced, over the other parts of the calls.",
        false => "Within a call, the order of the parts is schematic: nothing was traced.",
    };
    (!points.is_empty()).then(|| Chart {
        id: format!("{} timeline", name(recording)),
        title: "Timeline of the ranks".to_owned(),
        caption: first_ranks(recording, &drawn(recording, base)),
        kind: Kind::Spans,
        x_name: "ms since the open".to_owned(),
        y_name: "lasts ms".to_owned(),
        points,
    })
}

/// Says that not all calls and accesses are drawn.
fn drawn(recording: &Recording, text: &str) -> String {
    let of_calls = recording.calls.drawn_note("calls");
    let of_events = recording.events.drawn_note("accesses");
    let notes = [Some(text.to_owned()), of_calls, of_events];
    notes.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

fn rank_of(label: &str) -> u32 {
    label.strip_prefix("rank ").and_then(|rank| rank.parse().ok()).unwrap_or(u32::MAX)
}

/// The parts of a call one after the other. Where accesses were traced, they are drawn over the
/// rest.
fn spans(call: &Call, traced: bool) -> Vec<Point> {
    let [planning, synchronisation, phases, shuffle, storage, rest] =
        call.times.within(call.seconds).map(|(_, seconds)| seconds);
    let (storage, rest) = if traced { (0.0, rest + storage) } else { (storage, rest) };
    let parts = [
        ("synchronisation", synchronisation),
        ("planning", planning),
        ("phases", phases),
        ("shuffle", shuffle),
        ("storage", storage),
        (REST, rest),
    ];
    let note = format!("{} by {}, {}", call.call, call.strategy, exactly(call.moved_bytes));
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
        note: format!("{} in {} ms", exactly(event.bytes), number(event.seconds * 1e3)),
    };
    let points: Vec<Point> = recording.events.iter().map(point).collect();
    let base = "A dot is the begin of one access; what a round moves is a column of dots.";
    let dropped = recording.events.drawn_note("accesses");
    let dots = dropped.map_or(base.to_owned(), |note| format!("{base} {note}"));
    (!points.is_empty()).then(|| Chart {
        id: format!("{} accesses", name(recording)),
        title: "Storage accesses: where in the file, and when".to_owned(),
        caption: first_ranks(recording, &dots),
        kind: Kind::Dots { scale: Scale::Linear, diagonal: false },
        x_name: "ms since the open".to_owned(),
        y_name: "offset MiB".to_owned(),
        points,
    })
}

/// What is the same for calls of one line: call, strategy, reason and windows.
type Manner = [String; 4];

/// Calls of one kind by one strategy in one line.
#[derive(Default)]
struct Line {
    calls: u64,
    ranks: BTreeSet<u32>,
    bytes: u64,
    rounds: u64,
    aggregators: u64,
    accesses: u64,
    seconds: f64,
    longest_seconds: f64,
}

fn lines(recording: &Recording) -> Vec<(Manner, Line)> {
    let mut lines: Vec<(Manner, Line)> = Vec::new();
    let mut places: HashMap<[&str; 4], usize> = HashMap::new();
    for call in &recording.calls {
        let manner = [&*call.call, &*call.strategy, &*call.reason, &*call.windows];
        let place = *places.entry(manner).or_insert_with(|| {
            lines.push((manner.map(str::to_owned), Line::default()));
            lines.len() - 1
        });
        let line = &mut lines[place].1;
        line.calls += 1;
        line.ranks.insert(call.rank);
        line.bytes += call.moved_bytes;
        line.rounds = line.rounds.max(call.rounds);
        line.aggregators = line.aggregators.max(call.aggregators);
        line.accesses += call.storage_reads + call.storage_writes;
        line.seconds += recording.calls.scaled(call.seconds);
        line.longest_seconds = line.longest_seconds.max(call.seconds);
    }
    lines
}

fn calls(digest: &Digest) -> Table {
    let row = |(manner, line): &(Manner, Line)| {
        let texts = manner.iter().map(|text| Cell::text(text.as_str()));
        let numbers = [
            Cell::number(line.calls),
            Cell::number(line.ranks.len()),
            Cell::Bytes(line.bytes),
            // Ranks that work for themselves have no rounds.
            Cell::maybe((line.aggregators > 0).then_some(line.rounds)),
            Cell::number(line.aggregators),
            Cell::number(line.accesses),
            Cell::number(number(line.seconds * 1e3)),
            Cell::number(number(line.longest_seconds * 1e3)),
        ];
        texts.chain(numbers).collect()
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
            "moved",
            "rounds at most",
            "aggregators",
            "storage calls",
            "ms of all ranks",
            "longest ms",
        ],
        rows: digest.lines.iter().map(row).collect(),
        ..Table::default()
    }
}

/// A size with its number of bytes, for what is shown when one points at a mark.
fn exactly(bytes: u64) -> String {
    match exact(bytes) {
        (size, _) if bytes < 1024 => size,
        (size, bytes) => format!("{size} ({bytes})"),
    }
}

/// Whether somebody gave a hint; others have their defaults, or are what the file says of itself.
fn is_given(hint: &Hint) -> bool {
    !matches!(&*hint.origin, "default" | "file")
}

/// The value of a hint. Sizes are shown in the unit that people read.
fn value_of(hint: &Hint) -> String {
    let is_size = hint.name.ends_with("_size") || hint.name.ends_with("_bytes");
    match hint.value.parse::<u64>() {
        Ok(bytes) if is_size && bytes >= 1024 => exact(bytes).0,
        _ => hint.value.clone(),
    }
}

/// The hints that somebody gave.
fn hints(recording: &Recording) -> Option<Table> {
    let row = |hint: &Hint| {
        let effect = match hint.reason.is_empty() {
            true => "in effect".to_owned(),
            false => format!("ignored: {}", hint.reason),
        };
        let value = value_of(hint);
        let texts = [&hint.name, &value, &hint.origin, &effect];
        texts.map(|text| Cell::text(text.as_str())).into()
    };
    let given = recording.hints.iter().filter(|hint| is_given(hint));
    let given = given.chain(&recording.ignored_hints);
    let rows: Vec<Vec<Cell>> = given.map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Hints that were given".to_owned(),
        columns: vec!["hint", "value", "from", "effect"],
        rows,
        ..Table::default()
    })
}

/// All other hints, folded: they are many, and rarely asked for.
fn other_hints(recording: &Recording) -> Option<Table> {
    let row = |hint: &Hint| {
        let value = value_of(hint);
        [&hint.name, &value, &hint.origin].map(|text| Cell::text(text.as_str())).into()
    };
    let others = recording.hints.iter().filter(|hint| !is_given(hint));
    let rows: Vec<Vec<Cell>> = others.map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: match rows.len() {
            1 => "1 hint that nobody gave".to_owned(),
            count => format!("{count} hints that nobody gave"),
        },
        columns: vec!["hint", "value", "from"],
        rows,
        is_folded: true,
        ..Table::default()
    })
}
