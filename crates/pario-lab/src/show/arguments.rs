//! The command line of `pario report`.

use std::path::PathBuf;

use clap::Args;

/// Turns runs, studies and recordings into one page with charts.
///
/// The page is one HTML file: no network, no scripts, light and dark, good on paper. Point at a
/// bar, a dot or a tile to see its values.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// What to show, in any mixture: `pario bench --json`, `pario study --json`,
    /// `pario explain --json`, or a recording of `pario run --stats=FILE.jsonl`; `-` is
    /// standard input
    #[arg(required = true, value_name = "INPUT")]
    pub(super) inputs: Vec<PathBuf>,

    /// The page [default: report.html, unless only other outputs are asked for]
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "pario report")]
    pub(super) title: String,

    /// Each chart as an SVG file in this directory
    #[arg(long, value_name = "DIR")]
    pub(super) svg: Option<PathBuf>,

    /// Each chart as a PNG file in this directory, twice the size of the page's
    #[arg(long, value_name = "DIR")]
    pub(super) png: Option<PathBuf>,

    /// The values of all charts, a line for each
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,

    /// The calls and storage accesses of recordings as a trace for ui.perfetto.dev or
    /// chrome://tracing: a process for each node, a thread for each rank
    #[arg(long, value_name = "FILE")]
    pub(super) perfetto: Option<PathBuf>,
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

impl Arguments {
    /// Where the page goes, if there is to be one.
    pub(super) fn page(&self) -> Option<PathBuf> {
        let others = self.svg.is_some()
            || self.png.is_some()
            || self.csv.is_some()
            || self.perfetto.is_some();
        match &self.output {
            Some(path) => Some(path.clone()),
            None if others => None,
            None => Some("report.html".into()),
        }
    }
}
