//! The command line of `pario study`.

use std::path::PathBuf;

use clap::Args;
use pario_lab::failure::Failure;
use pario_lab::papers::{self, Mode, Selection};

use crate::values::{self, Named};

const MODES: [Named<Mode>; 3] = [
    ("count", "Calls, messages, bytes and pieces, counted", Mode::Count),
    ("virtual", "Times on a virtual clock", Mode::Virtual),
    ("here", "Times on this machine", Mode::Here),
];

/// Repeats the experiments of the papers, and says whether they come out the same.
///
/// Without arguments it lists the experiments. Each has one or more modes: `count` counts what
/// follows from plans and real calls on files in memory, `virtual` computes times on a described
/// machine (both give the same result on every machine and every run), `here` measures on this
/// machine with `pario bench`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// An experiment (000-fig6), a paper (000), or all
    #[arg(value_name = "ID|PAPER")]
    what: Option<String>,

    /// Small sizes [default]
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The sizes of the papers
    #[arg(long)]
    full: bool,

    /// What to run [default: all modes of each experiment]
    #[arg(long, value_name = "MODE,...", value_delimiter = ',')]
    #[arg(value_parser = values::one_of(&MODES))]
    mode: Vec<Mode>,

    /// One JSON object for each experiment and mode on stdout, and nothing else there
    #[arg(long)]
    json: bool,

    /// Write the JSON objects to this file, too; without --json a page with tables and charts is
    /// made beside it [default: study-WHAT-SIZE.jsonl and .html here; with --json no files]
    #[arg(long, value_name = "FILE.jsonl")]
    output: Option<PathBuf>,

    /// Directory for the files of the mode `here` [default: the system's temporary directory]
    #[arg(long, value_name = "DIR", value_parser = values::directory)]
    dir: Option<PathBuf>,
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

/// Runs the subcommand.
///
/// # Errors
/// As [`papers::run`].
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { what, quick, full, mode, json, output, dir } = arguments;
    let asked = quick || full || !mode.is_empty();
    let what = what.or_else(|| asked.then(|| "all".to_owned()));
    papers::run(&Selection { what, full, modes: mode, json, output, directory: dir })
}
