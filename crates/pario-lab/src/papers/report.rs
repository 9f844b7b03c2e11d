//! What `pario study` prints: a table for people, a line of JSON for programs.
//!
//! Results are written as they come, each line as a whole; at the end there is a page. Ctrl-C
//! ends the run with a word about where those are that were done; files of a measurement that runs
//! meanwhile are removed by the process that made them.

use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use super::here;
use super::list::{EXPERIMENTS, Experiment};
use super::outcome::{Findings, Row, Series, Verdict};
use super::progress::Progress;
use super::{Mode, Run, Selection};
use crate::failure::Failure;
use crate::output::{self, Lines};
use crate::{date, show, sweep};

/// A result as programs get it.
#[derive(Serialize)]
struct StudyRecord<'a> {
    kind: &'static str,
    id: &'a str,
    paper: &'a str,
    place: &'a str,
    question: &'a str,
    mode: &'a str,
    size: &'a str,
    rows: &'a [Row],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    series: &'a [Series],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [String],
    command: String,
    /// When it was measured: seconds since 1970. What is computed is the same at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    unix_seconds: Option<u64>,
}

/// Where results are.
#[derive(Clone)]
struct Place {
    /// Experiments that are done, of how many.
    done: Arc<AtomicUsize>,
    count: usize,
    /// Besides stdout.
    output: Option<PathBuf>,
}

impl Place {
    fn words(&self) -> String {
        let (done, count) = (self.done.load(Ordering::Relaxed), self.count);
        if done == 0 {
            return "there are no results yet".to_owned();
        }
        let place = match &self.output {
            Some(path) => format!("in {}", path.display()),
            None => "on stdout".to_owned(),
        };
        format!("the results of {done} of {count} are {place}")
    }
}

/// Prints results as they come.
pub(super) struct Report {
    json: bool,
    /// What was typed, for the title of the page.
    title: String,
    output: Option<Lines>,
    /// Where results are, for the word at the end.
    place: Place,
    verdicts: [usize; 4],
    /// Drawn on stderr, and only if that is a terminal.
    bar: ProgressBar,
}

impl Report {
    /// Arranges for Ctrl-C; `count` experiments are to come.
    pub(super) fn new(selection: &Selection, what: &str, count: usize) -> Result<Report, Failure> {
        let output = match results(selection, what) {
            Some(path) => match Lines::new(path) {
                Ok(lines) => Some(lines),
                // Nobody has asked for this one.
                Err(Failure::Run(text)) if selection.output.is_none() => {
                    sweep::say(&format!("there will be no report: {text}"));
                    None
                }
                Err(failure) => return Err(failure),
            },
            None => None,
        };
        let done = Arc::new(AtomicUsize::new(0));
        let place =
            Place { done, count, output: output.as_ref().map(|lines| lines.path().to_owned()) };
        let handed = place.clone();
        let handled = ctrlc::set_handler(move || {
            here::interrupt();
            sweep::say(&format!("interrupted; {}", handed.words()));
            process::exit(130);
        });
        handled.map_err(|error| Failure::during("arranging for Ctrl-C", error))?;
        let size = if selection.full { "full" } else { "quick" };
        let title = format!("pario study {what} --{size}");
        let bar = ProgressBar::new(u64::try_from(count).unwrap_or(u64::MAX));
        let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} {msg}");
        bar.set_style(style.map_err(|error| Failure::during("progress bar", error))?);
        bar.enable_steady_tick(Duration::from_secs(1));
        Ok(Report { json: selection.json, title, output, place, verdicts: [0; 4], bar })
    }

    /// Says what is run now.
    pub(super) fn begin(&self, experiment: &Experiment, mode: Mode) -> Progress {
        Progress::new(&self.bar, format!("{} ({})", experiment.id, mode.name()))
    }

    /// Where the results so far are.
    pub(super) fn results_are(&self) -> String {
        self.place.words()
    }

    /// Prints what an experiment has found.
    pub(super) fn add(
        &mut self,
        experiment: &Experiment,
        run: &Run,
        findings: Findings,
    ) -> Result<(), Failure> {
        let line = record(experiment, run, &findings)?;
        self.output.as_mut().map_or(Ok(()), |output| output.add(&line))?;
        for row in &findings.rows {
            let index = match row.verdict {
                Verdict::Same => 0,
                Verdict::SameOrder => 1,
                Verdict::NotSame => 2,
                Verdict::Cannot(_) => 3,
            };
            self.verdicts[index] += 1;
        }
        let text = if self.json { line } else { table(experiment, run, &findings) };
        self.bar.suspend(|| output::print(&text, self.json))?;
        self.bar.inc(1);
        self.place.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Counts verdicts, makes the page, and says what can be done with it.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        let [same, order, not, cannot] = self.verdicts;
        let text = format!(
            "{same} the same, {order} the same order, {not} not the same, {cannot} not run\n\
             docs/studies.md says why what is not the same is not.\n"
        );
        if self.json {
            return Ok(());
        }
        output::print(&text, false)?;
        if let Some(path) = self.output.as_ref().map(Lines::path) {
            let page = path.with_extension("html");
            show::page(path, &self.title, &page)?;
            sweep::say(&format!("the report is in {}; open it in a browser", page.display()));
            let command = format!("pario report {} --png pictures", path.display());
            sweep::say(&format!("its charts as pictures: {command}"));
        }
        Ok(())
    }
}

/// Where the JSON objects go besides stdout, if they do.
fn results(selection: &Selection, what: &str) -> Option<PathBuf> {
    let size = if selection.full { "full" } else { "quick" };
    match &selection.output {
        // Who names a page gets it: the objects are beside it.
        Some(path) if path.extension().is_some_and(|ending| ending == "html") => {
            Some(path.with_extension("jsonl"))
        }
        Some(path) => Some(path.clone()),
        None if selection.json => None,
        None => Some(format!("study-{what}-{size}.jsonl").into()),
    }
}

fn size(run: &Run) -> &'static str {
    run.size("quick", "full")
}

fn command(experiment: &Experiment, run: &Run) -> String {
    format!("pario study {} --{} --mode {}", experiment.id, size(run), run.mode.name())
}

fn record(experiment: &Experiment, run: &Run, findings: &Findings) -> Result<String, Failure> {
    let record = StudyRecord {
        kind: "study",
        id: experiment.id,
        paper: experiment.paper,
        place: experiment.place,
        question: experiment.question,
        mode: run.mode.name(),
        size: size(run),
        rows: &findings.rows,
        series: &findings.series,
        notes: &findings.notes,
        command: command(experiment, run),
        unix_seconds: (run.mode == Mode::Here).then(date::now),
    };
    let line = serde_json::to_string(&record);
    line.map(|line| line + "\n").map_err(|error| Failure::during("printing results", error))
}

/// A value without the quotes of JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn table(experiment: &Experiment, run: &Run, findings: &Findings) -> String {
    let Experiment { id, paper, place, question, .. } = experiment;
    let (mode, size) = (run.mode.name(), size(run));
    let mut text = format!("{id}: paper {paper}, {place} ({mode}, {size})\n{question}\n");
    let head = ["", "paper", "ours", "tolerance", "verdict"].map(str::to_owned);
    let cells = |row: &Row| {
        let ours = format!("{} {}", plain(&row.ours), row.unit).trim_end().to_owned();
        let paper = plain(&row.paper);
        [row.name.clone(), paper, ours, row.tolerance.clone(), row.verdict.to_string()]
    };
    let lines: Vec<[String; 5]> =
        std::iter::once(head).chain(findings.rows.iter().map(cells)).collect();
    let widths = [0, 1, 2, 3].map(|column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
    });
    for line in &lines {
        for (cell, width) in line.iter().zip(widths) {
            text += &format!("  {cell:<width$}");
        }
        text += &format!("  {}\n", line[4]);
    }
    for note in &findings.notes {
        text += &format!("  note: {note}\n");
    }
    text + "\n"
}

/// Prints what can be run.
pub(super) fn print_list(json: bool) -> Result<(), Failure> {
    let mut text = String::new();
    for experiment in &EXPERIMENTS {
        let modes: Vec<&str> = experiment.modes.iter().map(|mode: &Mode| mode.name()).collect();
        let Experiment { id, paper, place, question, .. } = experiment;
        text += &match json {
            true => {
                let entry = serde_json::json!({
                    "kind": "experiment", "id": id, "paper": paper, "place": place,
                    "question": question, "modes": modes,
                });
                format!("{entry}\n")
            }
            false => format!("{id:<18} {place:<22} {:<20} {question}\n", modes.join(", ")),
        };
    }
    if !json {
        text += "\npario study ID, or PAPER, or `pario study --quick` for all; \
                 `pario help study` has more\n";
    }
    output::print(&text, json)
}
