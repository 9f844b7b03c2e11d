//! The command line of `pario report`.

use std::path::PathBuf;

use clap::Args;
use pario_lab::failure::Failure;
use pario_lab::show::{self, Outputs};

/// Turns runs, studies and recordings into one page with charts.
///
/// The page is one HTML file: no network, no scripts, light and dark, good on paper. Point at a
/// bar, a dot or a tile to see its values.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// What to show, in any mixture: `pario bench --json`, `pario study --json`,
    /// `pario explain --json`, or a recording of `pario run --stats=FILE.jsonl`; `-` is
    /// standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// The page [default: report.html, unless only other outputs are asked for]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "pario report")]
    title: String,

    /// Each chart as an SVG file in this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Each chart as a PNG file in this directory, twice the size of the page's
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,

    /// The values of all charts, a line for each
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// The calls and storage accesses of recordings as a trace for ui.perfetto.dev or
    /// chrome://tracing: a process for each node, a thread for each rank
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  pario bench --quick --json > run.jsonl && pario report run.jsonl
  pario report run.jsonl --title 'Before and after' --output compare.html
  pario report run.jsonl --svg charts --png charts --csv values.csv
  pario run --stats=trace:run.jsonl -- mpirun -n 4 ./program
  pario report run.jsonl --output run.html --perfetto run.trace.json
  pario explain paper --json | pario report -

docs/report.md says what each chart shows.";

/// Runs the subcommand.
///
/// # Errors
/// As [`show::run`].
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { inputs, output, title, svg, png, csv, perfetto } = arguments;
    let others = [&svg, &png, &csv, &perfetto].into_iter().any(Option::is_some);
    let page = output.or_else(|| (!others).then(|| "report.html".into()));
    show::run(&Outputs { inputs, page, title, svg, png, csv, perfetto })
}
