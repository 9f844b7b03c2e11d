//! `pario report`: runs, studies and recordings as one page, pictures, CSV or a trace.
//!
//! | file | concept |
//! | --- | --- |
//! | `input` | from files to records, with the line of what is wrong |
//! | `records` | what the other commands write |
//! | `sampled` | bounded memory for recordings of any length |
//! | `document` | sections of charts, tables and facts, before they have a form |
//! | `bench`, `study`, `paper`, `explained`, `recording` | a section for each kind of record |
//! | `pattern` | who has which part of the file |
//! | `rounds` | what each round moves |
//! | `chart` | charts as SVG |
//! | `page` | the HTML page |
//! | `picture` | single charts as SVG and PNG |
//! | `csv` | the values of all charts |
//! | `perfetto` | a trace of the ranks |
//!
//! Nothing is measured here. The page has no script and fetches nothing. Every value that is drawn
//! is in the CSV, and in the attributes of the element that shows it.

mod bench;
mod chart;
mod csv;
mod document;
mod explained;
mod input;
mod page;
mod paper;
mod pattern;
mod perfetto;
mod picture;
mod recording;
pub(crate) mod records;
mod rounds;
mod sampled;
mod study;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use document::Document;
use input::Records;
use perfetto::Trace;
use recording::Files;
use records::Recording;
use sampled::{Most, Sampled};

use serde_json::Value;

use crate::failure::Failure;
use crate::output::write;
use crate::{date, sweep};

/// Calls of all files that are kept to be explained, and what a file counts besides its calls.
const EXPLAINED_CALLS_MAX: u64 = 1 << 18;
const EXPLAINED_FILE: u64 = 1 << 10;

/// What is shown, and in which forms.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// Files of records; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// Where the page goes, if there is to be one.
    pub page: Option<PathBuf>,
    /// Its title.
    pub title: String,
    /// A directory for each chart as SVG.
    pub svg: Option<PathBuf>,
    /// A directory for each chart as PNG.
    pub png: Option<PathBuf>,
    /// Where the values of all charts go.
    pub csv: Option<PathBuf>,
    /// Where the trace of recordings goes.
    pub perfetto: Option<PathBuf>,
}

/// Shows records.
///
/// # Errors
/// `Run` if an input is no record, or an output cannot be written.
pub fn run(outputs: &Outputs) -> Result<(), Failure> {
    if pario_mpi::launched().is_some_and(|launch| launch.rank > 0) {
        return Ok(());
    }
    let mut trace = outputs.perfetto.as_deref().map(Trace::create).transpose()?;
    let mut files = Files::new();
    let records = input::read(&outputs.inputs, &mut |recording| {
        trace.as_mut().map_or(Ok(()), |trace| trace.add(&recording))?;
        files.add(recording);
        Ok(())
    })?;
    if records.is_without_calls() {
        let names: Vec<String> = outputs.inputs.iter().map(|path| source(path)).collect();
        return Err(without_calls(&names.join(", "), &records));
    }
    if let (Some(trace), Some(path)) = (trace, &outputs.perfetto) {
        trace.finish()?;
        sweep::say(&format!("the trace is in {}; open it at ui.perfetto.dev", path.display()));
    }
    let document = document(&records, files);
    if let Some(path) = &outputs.page {
        let header = Header::new(&outputs.title, &outputs.inputs);
        write(path, page::html(&header, &document).as_bytes())?;
        sweep::say(&format!("the report is in {}; open it in a browser", path.display()));
    }
    if let Some(directory) = &outputs.svg {
        say_pictures(&picture::svg(&document, directory)?, directory);
    }
    if let Some(directory) = &outputs.png {
        say_pictures(&picture::png(&document, directory)?, directory);
    }
    if let Some(path) = &outputs.csv {
        write(path, csv::text(&document).as_bytes())?;
        sweep::say(&format!("the values of all charts are in {}", path.display()));
    }
    Ok(())
}

/// Says which pictures there are.
fn say_pictures(names: &[String], directory: &Path) {
    let shown = directory.display();
    match names {
        [] => sweep::say("there are no charts in what was read, so there are no pictures"),
        [one] => sweep::say(&format!("{shown} has the picture {one}")),
        [first, .., last] => {
            let count = names.len();
            sweep::say(&format!("{shown} has {count} pictures: {first} to {last}"));
        }
    }
}

/// Writes the page of one file of records.
///
/// # Errors
/// `Run` if it is no record, or the page cannot be written.
pub(crate) fn page(input: &Path, title: &str, output: &Path) -> Result<(), Failure> {
    let (records, files) = read(&[input.to_owned()])?;
    let header = Header::new(title, &[input.to_owned()]);
    let page = page::html(&header, &document(&records, files));
    write(output, page.as_bytes())
}

/// Reads inputs for a page.
fn read(inputs: &[PathBuf]) -> Result<(Records, Files), Failure> {
    let mut files = Files::new();
    let records = input::read(inputs, &mut |recording| {
        files.add(recording);
        Ok(())
    })?;
    Ok((records, files))
}

/// The recordings in a file, without storage accesses. Of very many, those with the most time.
///
/// # Errors
/// `Run` if it cannot be read, or if no call was recorded.
pub(crate) fn recordings(path: &Path) -> Result<Vec<Recording>, Failure> {
    let mut most = Most::new(EXPLAINED_CALLS_MAX);
    let records = input::read(&[path.to_owned()], &mut |mut recording| {
        recording.events = Sampled::default();
        let calls = u64::try_from(recording.calls.len()).unwrap_or(u64::MAX);
        most.add((recording.seconds(), calls + EXPLAINED_FILE), || recording);
        Ok(())
    })?;
    if records.with_calls == 0 {
        return Err(without_calls(&source(path), &records));
    }
    let (left_out, seconds) = most.left_out();
    if left_out > 0 {
        let name = source(path);
        let kept = most.len();
        let kept = match kept {
            1 => "the opening of a file with the most time is".to_owned(),
            kept => format!("the {kept} openings of files with the most time are"),
        };
        sweep::say(&format!(
            "{name}: {kept} looked at; {left_out} others have {seconds:.3} s in all, and count in \
             no percentage"
        ));
    }
    Ok(most.into_vec())
}

/// What is to be said of recordings in which nothing is to be shown.
fn without_calls(name: &str, records: &Records) -> Failure {
    let text = match records.recordings {
        0 => {
            "no file was recorded: the program closed none that pario served, or was ended before; \
             record one by pario run --stats=FILE.jsonl -- COMMAND"
        }
        1 => "no reads and no writes: the program only opened and closed the file",
        _ => "no reads and no writes: the program only opened and closed its files",
    };
    Failure::Run(format!("{name}: {text}"))
}

/// The picture of what `pario explain --json` prints.
///
/// # Errors
/// If it is not that.
pub(crate) fn svg_of_ways(documents: Vec<Value>) -> serde_json::Result<String> {
    let all: serde_json::Result<Vec<_>> =
        documents.into_iter().map(serde_json::from_value).collect();
    Ok(explained::picture(&all?))
}

/// The picture of Figure 11 of paper 001, from its points.
///
/// # Errors
/// If they are not points.
pub(crate) fn svg_of_figure_11(points: Value) -> serde_json::Result<String> {
    let points: Vec<records::PaperPoint> = serde_json::from_value(points)?;
    Ok(paper::figure(&points).standalone())
}

/// The name of an input on the page, without its directories.
fn source(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.file_name().unwrap_or(path.as_os_str()).display().to_string(),
    }
}

/// The names of inputs on the page: with as many directories as are needed to tell them apart.
fn sources(inputs: &[PathBuf]) -> Vec<String> {
    let last = |path: &Path, count: usize| -> String {
        let parts: Vec<_> = path.iter().collect();
        let kept: PathBuf = parts[parts.len().saturating_sub(count)..].iter().collect();
        kept.display().to_string()
    };
    let name = |path: &PathBuf| {
        let is_clear = |count: &usize| {
            inputs.iter().all(|other| other == path || last(other, *count) != last(path, *count))
        };
        match (1..=path.iter().count()).find(is_clear) {
            Some(1) => source(path),
            Some(count) => last(path, count),
            None => path.display().to_string(),
        }
    };
    inputs.iter().map(name).collect()
}

/// What a page says before its sections.
struct Header {
    title: String,
    /// The names of what was read.
    sources: Vec<String>,
    /// When the page is made: seconds since 1970.
    unix_seconds: u64,
}

impl Header {
    fn new(title: &str, inputs: &[PathBuf]) -> Header {
        Header { title: title.to_owned(), sources: sources(inputs), unix_seconds: date::now() }
    }
}

/// All sections, studies first: they answer questions.
fn document(records: &Records, files: Files) -> Document {
    let mut sections = study::sections(&records.studies);
    sections.extend(records.papers.iter().map(paper::section));
    sections.extend(records.explained.iter().map(explained::section));
    sections.extend(bench::sections(&records.bench));
    sections.extend(files.sections());
    Document::new(sections)
}
