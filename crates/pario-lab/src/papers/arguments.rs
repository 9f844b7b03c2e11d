//! The command line of `pario study`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::measure::parse_directory;

/// Repeats the experiments of the papers, and says whether they come out the same.
///
/// Without arguments it lists the experiments. Each has one or more modes: `count` counts what
/// follows from plans and real calls on files in memory, `virtual` computes times on a described
/// machine (both give the same result on every machine and every run), `here` measures on this
/// machine with `pario bench`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// An experiment (000-fig6), a paper (000), or all
    #[arg(value_name = "ID|PAPER")]
    pub(crate) what: Option<String>,

    /// Small sizes [default]
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,

    /// The sizes of the papers
    #[arg(long)]
    pub(crate) full: bool,

    /// What to run [default: all modes of each experiment]
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', value_enum)]
    pub(crate) mode: Vec<Mode>,

    /// One JSON object for each experiment and mode on stdout, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the JSON objects to this file, too; without --json a page with tables and charts is
    /// made beside it [default: study-WHAT-SIZE.jsonl and .html here; with --json no files]
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) output: Option<PathBuf>,

    /// Directory for the files of the mode `here` [default: the system's temporary directory]
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    pub(crate) dir: Option<PathBuf>,
}

/// How an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Calls, messages, bytes and pieces, counted
    Count,
    /// Times on a virtual clock
    Virtual,
    /// Times on this machine
    Here,
}

impl Arguments {
    /// Where the JSON objects go besides stdout, if they do.
    pub(super) fn results(&self) -> Option<PathBuf> {
        let size = if self.full { "full" } else { "quick" };
        match &self.output {
            // Who names a page gets it: the objects are beside it.
            Some(path) if path.extension().is_some_and(|ending| ending == "html") => {
                Some(path.with_extension("jsonl"))
            }
            Some(path) => Some(path.clone()),
            None if self.json => None,
            None => {
                let what = self.what.as_deref().unwrap_or("all");
                Some(format!("study-{what}-{size}.jsonl").into())
            }
        }
    }
}

impl Mode {
    pub(crate) const ALL: [Mode; 3] = [Mode::Count, Mode::Virtual, Mode::Here];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Count => "count",
            Mode::Virtual => "virtual",
            Mode::Here => "here",
        }
    }
}

const AFTER_HELP: &str = "\
Verdicts: `the same` (relation and factor), `the same order` (the relation holds, the factor
differs), `not the same` (docs/studies.md says why), `cannot run here: WHY`. None of them changes
the exit code; wrong bytes do.

Examples:
  pario study                              list the experiments
  pario study 000-fig6                     one of them, in all its modes
  pario study 002 --mode virtual           those of a paper, on the virtual clock
  pario study --quick                      everything, in some minutes; the report is in
                                           study-all-quick.html
  pario report study-all-quick.jsonl --png pictures
                                           its charts as pictures
  pario study all --mode count,virtual --json --output results.jsonl";
