//! Results for people (a table) and for programs (JSON, one object a line).

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::arguments::{Settings, Transport};
use super::measure::{Contender, Direction, Measured};
use super::scratch::Scratch;
use super::workload::{ELEMENT_BYTES, Workload};
use crate::failure::Failure;

/// What became of one contender on one workload.
pub(crate) struct Line {
    pub(crate) contender: Contender,
    /// Why it was not measured, if it was not; then there are no figures.
    pub(crate) skipped: Option<String>,
    pub(crate) write: Option<Figure>,
    pub(crate) read: Option<Figure>,
}

impl Line {
    /// The figures of both directions.
    fn figures(&self) -> impl Iterator<Item = (Direction, &Figure)> {
        let ways = [(Direction::Write, &self.write), (Direction::Read, &self.read)];
        ways.into_iter().filter_map(|(direction, figure)| Some((direction, figure.as_ref()?)))
    }
}

/// The repetition with the median time, compared with Block I/O. Every byte of it was right.
pub(crate) struct Figure {
    pub(crate) measured: Measured,
    /// Its time divided by the median time of Block I/O.
    pub(crate) ratio: f64,
}

/// A result as programs get it.
#[derive(Serialize)]
struct Record<'a> {
    workload: &'a str,
    strategy: &'a str,
    /// The strategy that pario used; differs for `auto`.
    served_by: &'a str,
    ranks: u32,
    nodes: u32,
    /// How ranks reach each other: `threads` or `mpi`.
    transport: &'a str,
    /// The MPI library, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    mpi: Option<&'a str>,
    block: u64,
    bytes: u64,
    direction: &'a str,
    seconds: f64,
    ratio: f64,
    verified: bool,
    meeting_seconds: f64,
    planning_seconds: f64,
    exchange_seconds: f64,
    storage_seconds: f64,
    /// Of the exchange: each phase, if there are any, and the packing of windows then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phase_seconds: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packing_seconds: Option<f64>,
    rounds: u64,
    storage_calls: u64,
}

/// Prints results as they come.
pub(crate) struct Report<'a> {
    settings: &'a Settings,
    bar: ProgressBar,
}

const MEGABYTE: f64 = 1e6;

impl<'a> Report<'a> {
    /// Begins with the header; `steps` is the number of measurements to come.
    pub(crate) fn new(
        settings: &'a Settings,
        scratch: &Scratch,
        steps: u64,
    ) -> Result<Report<'a>, Failure> {
        // Draws on stderr, and only if that is a terminal.
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} {msg}");
        bar.set_style(style.map_err(|error| Failure::during("progress bar", error))?);
        let report = Report { settings, bar };
        match settings.json {
            true => eprint!("{}", busy_note()),
            false => report.print(&header(settings, scratch))?,
        }
        Ok(report)
    }

    /// Says what is measured now.
    pub(crate) fn begin(&self, workload: &dyn Workload, contender: Contender) {
        let block = size(workload.block_bytes());
        self.bar.set_message(format!("{} {block} {contender}", workload.name()));
    }

    /// One more measurement is done, or will not be.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints all results of a workload.
    pub(crate) fn lines(&self, workload: &dyn Workload, lines: &[Line]) -> Result<(), Failure> {
        let (mut results, mut asides) = (String::new(), String::new());
        for line in lines {
            match self.settings.json {
                true => results += &self.records(workload, line)?,
                false => results += &self.row(workload, line),
            }
            asides += &self.aside(workload, line);
        }
        if self.settings.json {
            self.bar.suspend(|| eprint!("{asides}"));
            return self.print(&results);
        }
        self.print(&format!("{results}\n{asides}"))
    }

    /// Explains the table.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        match self.settings.json {
            true => Ok(()),
            false => self.print(FOOTER),
        }
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        let printed = self.bar.suspend(|| {
            let mut output = io::stdout().lock();
            output.write_all(text.as_bytes()).and_then(|()| output.flush())
        });
        printed.map_err(|error| Failure::during("printing results", error))
    }

    /// What is not a result: what pario did, and for programs what was skipped.
    fn aside(&self, workload: &dyn Workload, line: &Line) -> String {
        let name = format!("{} {} {}", workload.name(), workload.block_bytes(), line.contender);
        match &line.skipped {
            Some(reason) if self.settings.json => format!("pario: {name} skipped: {reason}\n"),
            None if self.settings.stats && line.contender != Contender::BlockIo => {
                let text = |(direction, figure): (Direction, &Figure)| {
                    format!("{name} {}:\n{}\n", direction.name(), figure.measured.statistics)
                };
                line.figures().map(text).collect()
            }
            _ => String::new(),
        }
    }

    /// The results of a line for programs.
    fn records(&self, workload: &dyn Workload, line: &Line) -> Result<String, Failure> {
        let mut text = String::new();
        let (transport, nodes, mpi) = match &self.settings.transport {
            Transport::Threads { nodes, .. } => ("threads", *nodes, None),
            Transport::Mpi { nodes, library } => ("mpi", *nodes, Some(library.as_str())),
        };
        for (direction, figure) in line.figures() {
            let Figure { measured, ratio } = figure;
            let statistics = &measured.statistics;
            let record = Record {
                workload: workload.name(),
                strategy: line.contender.name(),
                served_by: served_by(line.contender, figure),
                ranks: self.settings.ranks,
                nodes,
                transport,
                mpi,
                block: workload.block_bytes(),
                bytes: workload.elements() * ELEMENT_BYTES,
                direction: direction.name(),
                seconds: measured.seconds,
                ratio: *ratio,
                verified: true,
                meeting_seconds: statistics.meeting.as_secs_f64(),
                planning_seconds: statistics.planning.as_secs_f64(),
                exchange_seconds: statistics.exchange.as_secs_f64(),
                storage_seconds: statistics.storage.as_secs_f64(),
                phase_seconds: statistics.phases.iter().map(Duration::as_secs_f64).collect(),
                packing_seconds: (!statistics.phases.is_empty())
                    .then_some(statistics.packing.as_secs_f64()),
                rounds: statistics.rounds,
                storage_calls: statistics.storage_reads + statistics.storage_writes,
            };
            let line = serde_json::to_string(&record);
            text += &line.map_err(|error| Failure::during("printing results", error))?;
            text.push('\n');
        }
        Ok(text)
    }

    /// The results of a line for people.
    fn row(&self, workload: &dyn Workload, line: &Line) -> String {
        let place = format!("{:<13}{:>7}", workload.name(), size(workload.block_bytes()));
        if let Some(reason) = &line.skipped {
            return format!("{place}  {:<20}  skipped: {reason}\n", line.contender);
        }
        let figures: String = line.figures().map(|(_, figure)| cells(workload, figure)).collect();
        format!("{place}  {:<20}{figures}  yes\n", full_name(line))
    }
}

const FOOTER: &str = "\
Block I/O: each rank moves its bytes in one piece; the order of the file is lost.
x: time divided by that of Block I/O in the same rounds; less is better. MB are 10^6 bytes.
Every byte of every write and read was compared with its expected value.
";

fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(u32::MAX)
}

/// A warning where other programs want all processors, as far as the system tells. Two aggregators
/// then get a smaller share of them than the sixteen ranks of Block I/O, and ratios grow.
fn busy_note() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    match load > f64::from(cores()) {
        true => format!(
            "note: other programs keep this machine busy (load average {load:.1}, {} cores); times \
             and ratios suffer\n",
            cores()
        ),
        false => String::new(),
    }
}

fn header(settings: &Settings, scratch: &Scratch) -> String {
    let cores = cores();
    let Settings { ranks, repeat, .. } = *settings;
    let way = match &settings.transport {
        Transport::Threads { nodes, share_memory: true } => {
            format!("as threads, {nodes} node(s), shared memory")
        }
        Transport::Threads { nodes, .. } => format!("as threads, {nodes} node(s), messages"),
        Transport::Mpi { nodes, library } => format!("on {library}, {nodes} node(s)"),
    };
    let state = if settings.fresh { "new for each write" } else { "overwritten by each write" };
    let state = if settings.planned { "overwritten twice, plans known" } else { state };
    let mut text = format!(
        "pario {} bench: {ranks} ranks {way}, {cores} cores, median of {repeat}\n\
         file {}, {state}\n",
        env!("CARGO_PKG_VERSION"),
        scratch.path().display()
    );
    text += &busy_note();
    for same in settings.workloads.chunk_by(|one, two| one.name() == two.name()) {
        let first = &same[0];
        let bytes = first.elements() * ELEMENT_BYTES;
        text += &format!("{}: {bytes} bytes, {}\n", first.name(), first.shape());
    }
    let mut columns = format!("\n{:<13}{:>7}  {:<20}", "workload", "block", "strategy");
    let directions = settings.directions;
    for (asked, name) in [(directions.writes(), "write ms"), (directions.reads(), "read ms")] {
        if asked {
            columns += &format!("  {name:>9} {:>7} {:>12}", "MB/s", "x Block I/O");
        }
    }
    text + &columns + "  verified\n"
}

fn cells(workload: &dyn Workload, figure: &Figure) -> String {
    // A rounded number of bytes is good enough for a speed.
    let bytes = (workload.elements() * ELEMENT_BYTES) as f64;
    let seconds = figure.measured.seconds;
    let speed = bytes / seconds / MEGABYTE;
    format!("  {:>9.1} {speed:>7.0} {:>12.2}", seconds * 1000.0, figure.ratio)
}

/// The strategy that was used, whatever was asked for.
fn served_by(contender: Contender, figure: &Figure) -> &'static str {
    match contender {
        Contender::Strategy(_) => figure.measured.statistics.strategy.name(),
        Contender::Phases(_) => contender.name(),
        Contender::BlockIo => contender.name(),
    }
}

/// A contender with the strategies that were really used, where they are others.
fn full_name(line: &Line) -> String {
    let contender = line.contender;
    let mut used: Vec<&str> =
        line.figures().map(|(_, figure)| served_by(contender, figure)).collect();
    used.dedup();
    match used == [contender.name()] {
        true => contender.to_string(),
        false => format!("{contender}: {}", used.join("/")),
    }
}

/// Bytes as people write them.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario::Strategy;

    #[test]
    fn sizes_are_short() {
        let cases = [(4, "4"), (1000, "1000"), (4096, "4K"), (65536, "64K"), (3 << 20, "3M")];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_line_names_the_strategies_that_were_used() {
        let figure = |strategy| {
            let mut statistics = pario::CallStatistics::default();
            statistics.strategy = strategy;
            Some(Figure { measured: Measured { seconds: 1.0, statistics }, ratio: 1.0 })
        };
        let name = |asked, write, read| {
            let (write, read) = (figure(write), figure(read));
            full_name(&Line { contender: asked, skipped: None, write, read })
        };
        let (auto, list) = (Strategy::Auto, Strategy::List);
        assert_eq!(name(Contender::Strategy(list), list, list), "list");
        assert_eq!(name(Contender::Strategy(auto), list, list), "auto: list");
        assert_eq!(name(Contender::Strategy(auto), list, Strategy::Sieve), "auto: list/sieve");
        assert_eq!(name(Contender::BlockIo, auto, auto), "Block I/O");
    }
}
