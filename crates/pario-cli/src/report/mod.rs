//! `pario report`: runs, studies and recordings as one page, pictures, CSV or a trace.
//!
//! | file | concept |
//! | --- | --- |
//! | `arguments` | the command line |
//! | `input` | from files to records, with the line of what is wrong |
//! | `records` | what the other commands write |
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

mod arguments;
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
mod study;
#[cfg(test)]
mod tests;

pub(crate) use arguments::Arguments;

use std::path::Path;

use document::Document;
use input::Records;
use picture::write;

use crate::failure::Failure;
use crate::sweep;

/// Runs the subcommand.
///
/// # Errors
/// `Run` if an input is no record, or an output cannot be written.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if pario_mpi::launched().is_some_and(|launch| launch.rank > 0) {
        return Ok(());
    }
    let records = input::read(&arguments.inputs)?;
    if arguments.perfetto.is_some()
        && records.recordings.iter().all(|recording| recording.calls.is_empty())
    {
        let hint = "record one by pario run --stats=trace:FILE.jsonl";
        return Err(Failure::Run(format!("--perfetto: no recording among the inputs; {hint}")));
    }
    let document = document(&records);
    if let Some(path) = arguments.page() {
        let sources: Vec<String> = arguments.inputs.iter().map(|path| source(path)).collect();
        write(&path, page::html(&arguments.title, &sources, &document).as_bytes())?;
        sweep::say(&format!("the report is in {}; open it in a browser", path.display()));
    }
    if let Some(directory) = &arguments.svg {
        say_pictures(&picture::svg(&document, directory)?, directory);
    }
    if let Some(directory) = &arguments.png {
        say_pictures(&picture::png(&document, directory)?, directory);
    }
    if let Some(path) = &arguments.csv {
        write(path, csv::text(&document).as_bytes())?;
        sweep::say(&format!("the values of all charts are in {}", path.display()));
    }
    if let Some(path) = &arguments.perfetto {
        write(path, perfetto::text(&records.recordings).as_bytes())?;
        sweep::say(&format!("the trace is in {}; open it at ui.perfetto.dev", path.display()));
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
    let records = input::read(&[input.to_owned()])?;
    let page = page::html(title, &[source(input)], &document(&records));
    write(output, page.as_bytes())
}

/// The recordings in a file.
///
/// # Errors
/// `Run` if it cannot be read, or if there is none in it.
pub(crate) fn recordings(path: &Path) -> Result<Vec<records::Recording>, Failure> {
    let records = input::read(&[path.to_owned()])?;
    match records.recordings.is_empty() {
        false => Ok(records.recordings),
        true => Err(Failure::Run(format!(
            "{}: no file was recorded; record one by pario run --stats=FILE.jsonl -- COMMAND",
            source(path)
        ))),
    }
}

/// The name of an input on the page, without its directories.
fn source(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.file_name().unwrap_or(path.as_os_str()).display().to_string(),
    }
}

/// All sections, studies first: they answer questions.
fn document(records: &Records) -> Document {
    let mut sections: Vec<_> = study::overview(&records.studies).into_iter().collect();
    sections.extend(records.studies.iter().map(study::section));
    sections.extend(records.papers.iter().map(paper::section));
    sections.extend(records.explained.iter().map(explained::section));
    sections.extend(bench::sections(&records.bench));
    sections.extend(records.recordings.iter().map(recording::section));
    Document::new(sections)
}
