//! Results for people (a table) and for programs (JSON, one object a line).

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use pario::hints::Switch;
use pario::model::Direction;
use pario::storage::{Driver, OpenMode, Posix};
use pario::{CallStatistics, Platform, Strategy};
use serde::Serialize;
use serde_json::Value;

use super::bed::full_name;
use super::part::{Part, Sizes};
use super::scratch::Scratch;
use super::settings::{Files, Settings, Transport};
use super::turn::Measured;
use crate::failure::Failure;
use crate::scenario::contender::{Contender, Level};
use crate::scenario::workload::{Program, Workload};
use crate::scenario::workloads::Workloads;
use crate::{date, output, sweep};

/// What is known of a workload, besides its measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    sizes: Sizes,
    /// Calls of a rank in a step at levels 2 and 3.
    calls: u64,
    /// How data lies in memory.
    memory: &'static str,
}

impl Facts {
    pub(crate) fn of(part: &Part<'_>) -> Facts {
        let (calls, memory) = (part.call_count(), part.memory_name());
        Facts { sizes: part.sizes, calls, memory }
    }

    fn calls(&self, contender: Contender) -> u64 {
        match contender.level() {
            None => 1,
            Some(Level::Pieces) => self.sizes.calls,
            Some(Level::CollectivePieces) => self.sizes.calls_max,
            Some(Level::View | Level::CollectiveView) => self.calls,
        }
    }
}

/// What became of one contender on one workload.
pub(crate) struct Line {
    pub(crate) contender: Contender,
    /// Why it was not measured, if it was not; then there are no figures.
    pub(crate) skipped: Option<String>,
    /// How often it was measured.
    pub(crate) repetitions: u32,
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
struct BenchRecord<'a> {
    workload: &'a str,
    /// Which part of its program, if there are several.
    #[serde(skip_serializing_if = "str::is_empty")]
    part: &'a str,
    /// Its parameters, in words.
    shape: &'a str,
    strategy: &'a str,
    /// How requests are made; none for Block I/O.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    /// The strategy that pario used; differs for `auto`.
    served_by: &'a str,
    ranks: u32,
    nodes: u32,
    /// How ranks reach each other: `threads` or `mpi`.
    transport: &'a str,
    /// The MPI library, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    mpi: Option<&'a str>,
    /// Bytes of the longest piece.
    block: u64,
    /// Bytes that move, and the pieces of the file that they are.
    bytes: u64,
    pieces: u64,
    /// Calls of each rank: of that with the most at level 1, of all together at level 0.
    calls: u64,
    /// `packed`, `reordered` or `gaps`.
    memory: &'a str,
    /// `same` or `new`.
    files: &'a str,
    /// The device whose time was taken, if it was not the real one.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    /// The limit of the machine's own page cache, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    page_cache_bytes: Option<u64>,
    direction: &'a str,
    /// From the first rank that begins to the last one that has ended its calls.
    seconds: f64,
    /// The same from open to close, where each step has a file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_seconds: Option<f64>,
    /// Of these to that of Block I/O; of steps, where they were measured.
    ratio: f64,
    verified: bool,
    /// The times are those of the one with the median time.
    repetitions: u32,
    /// What pario did, if it was pario; of MPI nobody knows.
    #[serde(flatten)]
    done: Option<Done>,
    #[serde(flatten)]
    origin: &'a Origin,
}

/// What pario did in a measurement, as programs get it.
#[derive(Serialize)]
struct Done {
    /// The rank whose times the following are, the one with the most storage time.
    times_of_rank: u32,
    /// Of the exchange: each phase, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phase_seconds: Vec<f64>,
    /// Of that rank.
    rounds: u64,
    /// Of all ranks, as are all counts: accesses that reach the system, of a list one for each run
    /// of adjacent pieces.
    storage_calls: u64,
    #[serde(flatten)]
    figures: BTreeMap<String, Value>,
}

/// Where a result comes from: the same in all records of a run.
#[derive(Serialize)]
struct Origin {
    /// When the run began: seconds since 1970.
    unix_seconds: u64,
    /// The version of pario.
    pario: &'static str,
    command: Vec<String>,
    /// What the pattern of a result is made from again.
    workloads: Workloads,
    hints: BTreeMap<String, String>,
    machine: Machine,
}

#[derive(Serialize)]
struct Machine {
    #[serde(flatten)]
    platform: Platform,
    file_system: String,
}

impl Origin {
    fn new(settings: &Settings, scratch: &Scratch) -> Origin {
        let own = std::env::args_os().skip(1).map(|word| word.display().to_string());
        let launcher = match &settings.transport {
            Transport::Threads { .. } => Vec::new(),
            Transport::Mpi { .. } => {
                vec!["mpirun".to_owned(), "-n".to_owned(), settings.ranks.to_string()]
            }
        };
        let command = launcher.into_iter().chain(["pario".to_owned()]).chain(own);
        let hints = settings.hint_set.iter();
        let hints = hints.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Origin {
            unix_seconds: date::now(),
            pario: env!("CARGO_PKG_VERSION"),
            command: command.collect(),
            workloads: settings.workloads.clone(),
            hints: hints.collect(),
            machine: Machine { platform: Platform::here(), file_system: file_system(scratch) },
        }
    }
}

fn done(measured: &Measured) -> Done {
    let statistics = &measured.statistics;
    Done {
        times_of_rank: measured.times_rank,
        phase_seconds: statistics.phases.iter().map(Duration::as_secs_f64).collect(),
        rounds: statistics.rounds,
        storage_calls: statistics.storage_reads + statistics.storage_writes,
        figures: figures(statistics),
    }
}

/// The counts of a call by their names, and the times; no predicted one without a plan.
fn figures(statistics: &CallStatistics) -> BTreeMap<String, Value> {
    let counts = CallStatistics::COUNTS.into_iter().zip(statistics.counts());
    let counts = counts.map(|(name, count)| (name.to_owned(), count.into()));
    let times = CallStatistics::TIMES.into_iter().zip(statistics.times());
    let times = times.filter(|(name, time)| *name != "predicted" || !time.is_zero());
    let times = times.map(|(name, time)| (format!("{name}_seconds"), time.as_secs_f64().into()));
    counts.chain(times).collect()
}

/// The file system of the directory, as pario's driver knows it.
fn file_system(scratch: &Scratch) -> String {
    let (path, mode) =
        (scratch.file("probe"), OpenMode { write: true, create: true, ..OpenMode::default() });
    let opened = Posix.open(&path, mode).ok();
    let known = opened.and_then(|file| file.capabilities().file_system);
    // The directory is removed at the end in any case.
    let _ = Posix.delete(&path);
    known.map_or("other", |known| known.name).to_owned()
}

/// Prints results as they come.
pub(crate) struct Report<'a> {
    settings: &'a Settings,
    origin: Origin,
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
        let report = Report { settings, origin: Origin::new(settings, scratch), bar };
        match settings.json {
            true => sweep::write(&busy_note()),
            false => report.print(&header(settings, scratch))?,
        }
        if matches!(settings.transport, Transport::Mpi { .. }) {
            // Some launchers, when they are ended, show nothing that ranks say after that.
            sweep::say(
                "results come on stdout, workload by workload, and stay if the run is ended",
            );
        }
        Ok(report)
    }

    /// Says what is measured now.
    pub(crate) fn begin(&self, program: &Program, contender: Contender) {
        let Some(first) = program.parts.first() else { return };
        let block = size(first.block_bytes());
        self.bar.set_message(format!("{} {block} {contender}", first.name()));
    }

    /// One more measurement is done, or will not be.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints all results of a workload.
    pub(crate) fn lines(
        &self,
        workload: &dyn Workload,
        facts: &Facts,
        lines: &[Line],
    ) -> Result<(), Failure> {
        let (mut results, mut asides) = (String::new(), String::new());
        for line in lines {
            match self.settings.json {
                true => results += &self.records(workload, facts, line)?,
                false => results += &self.row(workload, facts, line),
            }
            asides += &self.aside(workload, line);
        }
        if self.settings.json {
            self.bar.suspend(|| sweep::write(&asides));
            return self.print(&results);
        }
        self.print(&format!("{results}\n{asides}"))
    }

    /// Explains the table.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        match self.settings.json {
            true => Ok(()),
            false => {
                let notes = footnotes(&self.settings.contenders, &self.settings.hints);
                self.print(&format!("{FOOTER}{notes}"))
            }
        }
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        self.bar.suspend(|| output::print(text, self.settings.json))
    }

    /// What is not a result: what pario did, and for programs what was skipped.
    fn aside(&self, workload: &dyn Workload, line: &Line) -> String {
        let name = format!("{} {} {}", full_name(workload), workload.block_bytes(), line.contender);
        match &line.skipped {
            Some(reason) if self.settings.json => format!("pario: {name} not run: {reason}\n"),
            None if self.settings.stats
                && line.contender != Contender::BlockIo
                && !line.contender.calls_mpi() =>
            {
                let text = |(direction, figure): (Direction, &Figure)| {
                    format!("{name} {}:\n{}\n", direction.name(), figure.measured.statistics)
                };
                line.figures().map(text).collect()
            }
            _ => String::new(),
        }
    }

    /// The results of a line for programs.
    fn records(
        &self,
        workload: &dyn Workload,
        facts: &Facts,
        line: &Line,
    ) -> Result<String, Failure> {
        let (mut text, shape) = (String::new(), workload.shape());
        let (transport, nodes, mpi) = match &self.settings.transport {
            Transport::Threads { nodes, .. } => ("threads", *nodes, None),
            Transport::Mpi { nodes, library } => ("mpi", *nodes, Some(library.as_str())),
        };
        for (direction, figure) in line.figures() {
            let Figure { measured, ratio } = figure;
            let record = BenchRecord {
                workload: workload.name(),
                part: workload.part(),
                shape: &shape,
                strategy: line.contender.name(),
                level: line.contender.level().map(|level| level.number()),
                served_by: served_by(line.contender, figure),
                ranks: self.settings.ranks,
                nodes,
                transport,
                mpi,
                block: workload.block_bytes(),
                bytes: facts.sizes.bytes,
                pieces: facts.sizes.pieces,
                calls: facts.calls(line.contender),
                memory: facts.memory,
                files: self.settings.files.name(),
                device: self.settings.device.as_ref().map(|(name, _)| name.as_str()),
                page_cache_bytes: self.settings.page_cache_bytes,
                direction: direction.name(),
                seconds: measured.seconds,
                step_seconds: measured.step_seconds,
                ratio: *ratio,
                verified: true,
                repetitions: line.repetitions,
                done: (!line.contender.calls_mpi()).then(|| done(measured)),
                origin: &self.origin,
            };
            let line = serde_json::to_string(&record);
            text += &line.map_err(|error| Failure::during("printing results", error))?;
            text.push('\n');
        }
        Ok(text)
    }

    /// The results of a line for people.
    fn row(&self, workload: &dyn Workload, facts: &Facts, line: &Line) -> String {
        let place = format!("{:<17}{:>8}", full_name(workload), size(workload.block_bytes()));
        if let Some(reason) = &line.skipped {
            return format!("{place}  {:<20}  not run: {reason}\n", line.contender);
        }
        let directions = self.settings.directions;
        let asked = [(directions.writes(), &line.write), (directions.reads(), &line.read)];
        let cells = asked.iter().filter(|(asked, _)| *asked).map(|(_, figure)| match figure {
            Some(figure) => self.cells(facts, figure),
            None => self.no_cells(),
        });
        let verified = if line.figures().next().is_some() { "yes" } else { "-" };
        format!("{place}  {:<20}{}  {verified}\n", name_in_full(line), cells.collect::<String>())
    }

    fn cells(&self, facts: &Facts, figure: &Figure) -> String {
        // A rounded number of bytes is good enough for a speed.
        let bytes = facts.sizes.bytes as f64;
        let seconds = figure.measured.seconds;
        let speed = bytes / seconds / MEGABYTE;
        let step = match figure.measured.step_seconds {
            Some(seconds) => format!(" {:>9.1}", seconds * 1000.0),
            None => String::new(),
        };
        format!("  {:>9.1}{step} {speed:>7.0} {:>12.2}", seconds * 1000.0, figure.ratio)
    }

    /// A direction in which the workload does not go.
    fn no_cells(&self) -> String {
        let step = match self.settings.files {
            Files::New => format!(" {:>9}", "-"),
            Files::Same => String::new(),
        };
        format!("  {:>9}{step} {:>7} {:>12}", "-", "-", "-")
    }
}

const FOOTER: &str = "\
Block I/O: each rank moves its bytes in one piece; the order of the file is lost.
x: time divided by that of Block I/O in the same rounds; less is better. MB are 10^6 bytes.
Every byte of every write and read was compared with its expected value.
";

/// Where a strategy with the name of a paper's differs from the paper.
fn footnotes(contenders: &[Contender], hints: &pario::Hints) -> String {
    let has = |wanted: Strategy| {
        let is_it = |contender: &Contender| match contender {
            Contender::Pario(way) => way.strategy == wanted,
            _ => false,
        };
        contenders.iter().any(is_it)
    };
    let mut text = String::new();
    let moves_all = hints.sieve_read == Switch::Enable && hints.sieve_write == Switch::Enable;
    if has(Strategy::Sieve) && !moves_all {
        let bytes = hints.sieve_hole_bytes;
        text += &format!(
            "sieve: holes above {bytes} bytes are skipped; papers 003 and 004 move all of them.\n"
        );
    }
    if has(Strategy::InspectorExecutor) && has(Strategy::MultiPhase) && hints.phases.is_none() {
        text +=
            "inspector-executor: the plan of multi-phase with all phases; they differ by noise.\n";
    }
    if has(Strategy::TwoPhase) && !hints.exact_windows {
        text += "two-phase: windows are at most cb_buffer_size; --hint pario_exact_windows=true \
                 for exactly that.\n";
    }
    text
}

fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(u32::MAX)
}

/// A warning where other programs want all cores, as far as the system shows. Two aggregators
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
    let state = match settings.files {
        Files::New => "new for each step; ms call, then ms step from open to close",
        Files::Same => state,
    };
    let mut text = format!(
        "pario {} bench: {ranks} ranks {way}, {cores} cores, median of {repeat}\n\
         files in {}, {state}\n",
        env!("CARGO_PKG_VERSION"),
        scratch.path().display()
    );
    if let Some((device, _)) = &settings.device {
        text += &format!("times of an emulated device: {device}\n");
    }
    if let Some(bytes) = settings.page_cache_bytes {
        text +=
            &format!("page cache limited to {bytes} bytes, without the file before each call\n");
    }
    text += &busy_note();
    let parts = settings.programs.iter().flat_map(|program| &program.parts);
    let mut shown = Vec::new();
    for part in parts {
        let (name, bytes) = (full_name(&**part), part.file_bytes());
        let line = format!("{name}: {bytes} bytes, {}\n", part.shape());
        if !shown.contains(&line) {
            text += &line;
            shown.push(line);
        }
    }
    let mut columns = format!("\n{:<17}{:>8}  {:<20}", "workload", "block", "strategy");
    let directions = settings.directions;
    let step = match settings.files {
        Files::New => format!(" {:>9}", "step ms"),
        Files::Same => String::new(),
    };
    for (asked, name) in [(directions.writes(), "write ms"), (directions.reads(), "read ms")] {
        if asked {
            columns += &format!("  {name:>9}{step} {:>7} {:>12}", "MB/s", "x Block I/O");
        }
    }
    text + &columns + "  verified\n"
}

/// The strategy that was used, whatever was asked for.
fn served_by(contender: Contender, figure: &Figure) -> &'static str {
    match contender {
        Contender::Pario(way) if way.phases.is_none() => figure.measured.statistics.strategy.name(),
        _ => contender.name(),
    }
}

/// A contender with the strategies that were really used, where they are others.
fn name_in_full(line: &Line) -> String {
    let contender = line.contender;
    let mut used: Vec<&str> =
        line.figures().map(|(_, figure)| served_by(contender, figure)).collect();
    used.dedup();
    match used.is_empty() || used == [contender.name()] {
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
    use crate::scenario::contender::Way;
    use pario::Hints;

    #[test]
    fn sizes_are_short() {
        let cases = [(4, "4"), (1000, "1000"), (4096, "4K"), (65536, "64K"), (3 << 20, "3M")];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    fn figure(strategy: Strategy) -> Option<Figure> {
        let mut statistics = pario::CallStatistics::default();
        statistics.strategy = strategy;
        let measured = Measured { seconds: 1.0, step_seconds: None, statistics, times_rank: 0 };
        Some(Figure { measured, ratio: 1.0 })
    }

    fn asked(strategy: Strategy, level: u8) -> Contender {
        let level = Level::new(level).unwrap();
        Contender::Pario(Way { strategy, phases: None, level })
    }

    #[test]
    fn what_differs_from_the_papers_is_said() {
        let all: Vec<Contender> = Strategy::all().map(|strategy| asked(strategy, 3)).collect();
        let mut hints = Hints::default();
        let text = footnotes(&all, &hints);
        for part in ["sieve: holes above 4096 bytes", "inspector-executor: ", "two-phase: windows"]
        {
            assert!(text.contains(part), "{text}");
        }
        (hints.sieve_read, hints.sieve_write) = (Switch::Enable, Switch::Enable);
        (hints.exact_windows, hints.phases) = (true, Some(1));
        assert_eq!(footnotes(&all, &hints), "");
        assert_eq!(footnotes(&[asked(Strategy::List, 3)], &Hints::default()), "");
    }

    #[test]
    fn a_line_names_the_strategies_that_were_used() {
        let name = |contender, write, read| {
            let (write, read) = (figure(write), figure(read));
            name_in_full(&Line { contender, skipped: None, repetitions: 1, write, read })
        };
        let (auto, list) = (Strategy::Auto, Strategy::List);
        assert_eq!(name(asked(list, 3), list, list), "list");
        assert_eq!(name(asked(auto, 3), list, list), "auto: list");
        assert_eq!(name(asked(auto, 3), list, Strategy::Sieve), "auto: list/sieve");
        assert_eq!(name(asked(auto, 0), Strategy::Direct, Strategy::Direct), "level 0: direct");
        assert_eq!(name(Contender::BlockIo, auto, auto), "Block I/O");
    }
}
