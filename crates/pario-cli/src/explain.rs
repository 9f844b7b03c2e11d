//! The command line of `pario explain`.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};
use pario::model::presets::Link;
use pario_lab::failure::Failure;
use pario_lab::measure::Directions;
use pario_lab::predict::{self, Query};
use pario_lab::scenario::device::{self, DeviceChoice};
use pario_lab::scenario::workloads::{Workloads, parse_name};
use pario_lab::{hint, size};

use crate::bench::DIRECTIONS;
use crate::values;

/// Shows every way to serve a call, with its predicted time, and why one is chosen.
///
/// The call is described: a workload of `pario bench` or a pattern from a file, any number of ranks
/// and nodes, and the profile of a machine (`pario calibrate`, or a built-in one). It is planned as
/// a real call is; nothing is opened, sent or stored, so a call on a thousand nodes takes less
/// than a second.
///
/// Or the calls are those of a program: `pario run --stats=run.jsonl` records them, and `pario
/// explain run.jsonl` shows each kind of them beside what was measured, and what to change.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    topic: Option<Topic>,

    #[command(flatten)]
    call: CallArguments,
}

#[derive(Subcommand, Clone, Debug)]
enum Topic {
    Paper(PaperArguments),
}

const AFTER_HELP: &str = "\
Networks: myrinet-2000, fast-ethernet, 1gbe, 10gbe, 100gbe, paper-001. Devices: hdd, sata-ssd, nvm.
Profiles: tmpfs, ssd, hdd, nfs, lustre, or a file of `pario calibrate`. docs/model.md explains the
model.

Examples:
  pario explain block-cyclic --block 64 --ranks 16 --cores 2
  pario explain dist3d --ranks 64 --nodes 4 --network 1gbe --device hdd
  pario explain block-cyclic --bytes 1T --block 512 --ranks 65536 --nodes 1024 --profile lustre
  pario explain pattern.toml --svg ways.svg
  pario explain dist3d --ranks 4 --run --dir /scratch
  pario run --stats=run.jsonl -- mpirun -n 4 ./program && pario explain run.jsonl
  pario explain run.jsonl --hint cb_nodes=2
  pario explain paper";

/// Block size unless one is given.
const BLOCK_BYTES: u64 = 512;
/// Ranks that can be described.
const RANKS_MAX: i64 = 1 << 20;

#[derive(Args, Clone, Debug)]
#[group(skip)]
struct CallArguments {
    /// The call: a workload of `pario bench`, a file FILE.toml that describes a pattern, or what
    /// `pario run --stats=FILE.jsonl` recorded of a program [default: block-cyclic]
    #[arg(value_name = "CALL", value_parser = parse_call, default_value = "block-cyclic")]
    #[arg(hide_default_value = true)]
    workload: String,

    /// Sets a parameter of the workload, as transferSize=1M; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE,...", value_delimiter = ',')]
    #[arg(value_parser = hint::parse)]
    parameters: Vec<(String, String)>,

    /// Number of ranks [default: as in the paper]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: Option<u32>,

    /// Nodes on which they run [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    nodes: Option<u32>,

    /// Cores of each node [default: one for each of its ranks]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    cores: Option<u32>,

    /// Bytes of the file, with K, M, G or T, where a workload can have any [default: as in the
    /// paper]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    bytes: Option<u64>,

    /// Block size of the workload block-cyclic, in bytes [default: 512]
    #[arg(long, value_name = "SIZE", value_parser = values::block)]
    block: Option<u64>,

    /// Edge of the cube of the workloads dist3d and btio
    #[arg(long, value_name = "N", value_parser = |text: &str| values::count(text, 1))]
    edge: Option<u64>,

    /// Writes, reads or both [default: both]
    #[arg(long, value_parser = values::one_of(&DIRECTIONS))]
    direction: Option<Directions>,

    /// Independent calls instead of a collective one
    #[arg(long)]
    independent: bool,

    /// Costs of the machine: the name of a built-in profile, or a file [default: that of this
    /// machine, or of the recording]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// Directory whose file system counts if no profile is given [default: files in memory; with
    /// --run the system's temporary directory]
    #[arg(long, value_name = "DIR", value_parser = values::directory)]
    dir: Option<PathBuf>,

    /// Another network between nodes: a name, or LATENCY_US:MB_PER_S
    #[arg(long, value_name = "NAME", value_parser = parse_link)]
    network: Option<Link>,

    /// Storage is this device, as with `pario bench`: hdd, sata-ssd, nvm, or FILE.toml
    #[arg(long, value_name = "DEVICE", value_parser = device::parse)]
    device: Option<DeviceChoice>,

    /// Page cache of that device
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "device")]
    device_cache: Option<u64>,

    /// A hint of the program, as cb_nodes=4; may be repeated. One without effect is refused: the
    /// answer would be about other hints
    #[arg(long = "hint", value_name = "KEY=VALUE", value_parser = hint::parse)]
    hints: Vec<(String, String)>,

    /// Run every way on this machine, as `pario bench` does, and show the measured times beside the
    /// predicted ones. Ranks are threads, or what mpirun started
    #[arg(long, conflicts_with_all = ["network", "device", "cores"])]
    run: bool,

    /// Draw the ways to this file
    #[arg(long, value_name = "PATH")]
    svg: Option<PathBuf>,

    /// One JSON object for each call on stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

/// Repeats the model of paper 001: Tables V and VI, and Figure 11.
///
/// The paper's equations and parameters estimate the time of collective and of individual I/O on
/// HDD, SSD and NVM. The tables show what the paper measured, what it estimated, and what the same
/// equations give here.
#[derive(Args, Clone, Debug)]
#[command(after_help = PAPER_AFTER_HELP)]
struct PaperArguments {
    /// Draw Figure 11 to this file
    #[arg(long, value_name = "PATH")]
    svg: Option<PathBuf>,

    /// One JSON object with all values on stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

const PAPER_AFTER_HELP: &str = "\
Where the paper is unclear, the documentation of pario_lab::predict::paper::model and docs/model.md
say which reading was taken.

Examples:
  pario explain paper
  pario explain paper --svg figure-11.svg
  pario explain paper --json";

/// Runs the subcommand.
///
/// # Errors
/// `Usage` if the arguments make no sense together, and as [`predict::run`].
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.topic {
        Some(Topic::Paper(paper)) => predict::run_paper(paper.svg.as_deref(), paper.json),
        None => predict::run(&arguments.call.query()?),
    }
}

impl CallArguments {
    /// What they ask for.
    fn query(self) -> Result<Query, Failure> {
        let is_recording = is_recording(&self.workload);
        if is_recording {
            self.refuse_description()?;
        }
        Ok(Query {
            recording: is_recording.then(|| PathBuf::from(&self.workload)),
            workloads: Workloads {
                names: vec![self.workload],
                parameters: self.parameters,
                bytes: self.bytes,
                blocks: vec![self.block.unwrap_or(BLOCK_BYTES)],
                edge: self.edge,
                quick: false,
            },
            ranks: self.ranks,
            nodes: self.nodes,
            cores: self.cores,
            directions: self.direction.unwrap_or_default(),
            independent: self.independent,
            profile: self.profile,
            directory: self.dir,
            network: self.network,
            device: self.device.map(|device| device.cached(self.device_cache.unwrap_or(0))),
            hints: self.hints,
            run: self.run,
            svg: self.svg,
            json: self.json,
        })
    }

    /// An error for options that describe a call, where a recording has it.
    fn refuse_description(&self) -> Result<(), Failure> {
        let given = [
            ("--ranks", self.ranks.is_some()),
            ("--nodes", self.nodes.is_some()),
            ("--cores", self.cores.is_some()),
            ("--bytes", self.bytes.is_some()),
            ("--block", self.block.is_some()),
            ("--edge", self.edge.is_some()),
            ("--set", !self.parameters.is_empty()),
            ("--direction", self.direction.is_some()),
            ("--independent", self.independent),
            ("--run", self.run),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(Failure::Usage(format!("{name}: the recording has that"))),
            None => Ok(()),
        }
    }
}

/// How the name of a recording ends.
const RECORDINGS: [&str; 2] = [".jsonl", ".json"];

fn is_recording(text: &str) -> bool {
    text == "-" || RECORDINGS.iter().any(|end| text.ends_with(end))
}

/// A workload, or the name of a recording.
fn parse_call(text: &str) -> Result<String, String> {
    match is_recording(text) {
        true => Ok(text.to_owned()),
        false => parse_name(text).map_err(|error| format!("{error}, or RECORDING.jsonl")),
    }
}

/// Reads a link: the name of a preset, or LATENCY_US:MB_PER_S.
fn parse_link(text: &str) -> Result<Link, String> {
    if let Some(link) = Link::named(text) {
        return Ok(link);
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
    let pair = text.split_once(':').and_then(|(latency, bandwidth)| {
        Some(Link { latency_us: number(latency)?, bytes_per_s: number(bandwidth)? * 1e6 })
    });
    let names: Vec<&str> = Link::PRESETS.iter().map(|(name, _)| *name).collect();
    pair.ok_or_else(|| format!("use {} or LATENCY_US:MB_PER_S, as 2:12000", names.join(", ")))
}
