//! Every way to serve a described call.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use pario::explain::{Question, Request, explain};
use pario::model::Direction;
use pario::model::presets::{Device, Link};

use super::answer::{Document, Scene};
use super::{answer, machine};
use crate::bench::arguments::{
    named_programs, paper_ranks, parse_block, parse_bytes, parse_directory, parse_workload,
};
use crate::bench::workload::Workload;
use crate::failure::Failure;
use crate::hint;

pub(super) const AFTER_HELP: &str = "\
Networks: myrinet-2000, fast-ethernet, 1gbe, 10gbe, 100gbe, paper-001. Devices: hdd, sata-ssd, nvm.
Profiles: tmpfs, ssd, hdd, nfs, lustre, or a file of `pario calibrate`. docs/model.md explains the
model.

Examples:
  pario explain block-cyclic --block 64 --ranks 16 --cores 2
  pario explain dist3d --ranks 64 --nodes 4 --network 1gbe --device hdd
  pario explain block-cyclic --bytes 1T --block 512 --ranks 65536 --nodes 1024 --profile lustre
  pario explain pattern.toml --svg ways.svg
  pario explain paper";

/// Ranks that can be described.
const RANKS_MAX: i64 = 1 << 20;

#[derive(Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The call: a workload of `pario bench`, or a file FILE.toml that describes a pattern
    /// [default: block-cyclic]
    #[arg(value_name = "WORKLOAD", value_parser = parse_workload, default_value = "block-cyclic")]
    #[arg(hide_default_value = true)]
    workload: String,

    /// Sets a parameter of the workload, as transferSize=1M; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE,...", value_delimiter = ',')]
    #[arg(value_parser = hint::parse)]
    parameters: Vec<(String, String)>,

    /// Number of ranks [default: as in the paper]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: Option<u32>,

    /// Nodes on which they run
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    nodes: u32,

    /// Cores of each node [default: one for each of its ranks]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    cores: Option<u32>,

    /// Bytes of the file, with K, M, G or T, where a workload can have any [default: as in the
    /// paper]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes: Option<u64>,

    /// Block size of the workload block-cyclic, in bytes [default: 512]
    #[arg(long, value_name = "SIZE", value_parser = parse_block, default_value = "512")]
    #[arg(hide_default_value = true)]
    block: u64,

    /// Edge of the cube of the workloads dist3d and btio
    #[arg(long, value_name = "N")]
    edge: Option<u64>,

    /// Which way
    #[arg(long, value_enum, default_value_t = Way::Both)]
    direction: Way,

    /// Every rank calls for itself
    #[arg(long)]
    independent: bool,

    /// Costs of the machine: the name of a built-in profile, or a file
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// The directory whose file system counts, where no profile is given [default: files in memory]
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    dir: Option<PathBuf>,

    /// Another network between nodes: a name, or LATENCY_US:MB_PER_S
    #[arg(long, value_name = "NAME", value_parser = machine::parse_link)]
    network: Option<Link>,

    /// Storage on a device by itself, without a cache
    #[arg(long, value_name = "NAME", value_parser = machine::parse_device)]
    device: Option<(String, Device)>,

    /// A hint of the program, as cb_nodes=4; may be repeated
    #[arg(long = "hint", value_name = "KEY=VALUE", value_parser = hint::parse)]
    hints: Vec<(String, String)>,

    /// Draw the ways to this file
    #[arg(long, value_name = "PATH")]
    svg: Option<PathBuf>,

    /// One JSON object for each call on stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Write,
    Read,
    Both,
}

impl Way {
    fn directions(self) -> &'static [Direction] {
        match self {
            Way::Write => &[Direction::Write],
            Way::Read => &[Direction::Read],
            Way::Both => &[Direction::Write, Direction::Read],
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// `Usage` if the call or the machine makes no sense, `Run` if the output cannot be written.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let ranks = arguments.ranks.unwrap_or_else(|| paper_ranks(&arguments.workload));
    let sizes = (arguments.bytes, &[arguments.block][..], arguments.edge);
    let programs = named_programs(&arguments.workload, ranks, sizes, &arguments.parameters)
        .map_err(Failure::Usage)?;
    let mut documents = Vec::new();
    for workload in programs.iter().flat_map(|program| &program.parts) {
        for &direction in arguments.direction.directions() {
            documents.push(document(arguments, &**workload, ranks, direction)?);
        }
    }
    answer::print(&documents, arguments.json)?;
    match &arguments.svg {
        Some(path) => answer::draw(path, &documents).map_err(Failure::Run),
        None => Ok(()),
    }
}

fn document(
    arguments: &Arguments,
    workload: &dyn Workload,
    ranks: u32,
    direction: Direction,
) -> Result<Document, Failure> {
    let usage = |error: pario::Error| Failure::Usage(error.to_string());
    let described = machine::profile(arguments.profile.as_deref(), arguments.dir.as_deref())?;
    let (mut profile, mut origin) = (described.profile, described.origin);
    if let Some((name, device)) = &arguments.device {
        profile = profile.with_device(name, *device);
        origin = format!("{origin}; device {name}");
    }
    if let Some(network) = arguments.network {
        profile = profile.with_network(network);
        origin = format!("{origin}; network described");
    }
    let requests = match arguments.independent {
        true => vec![request(workload, 0).map_err(usage)?],
        false => (0..ranks)
            .map(|rank| request(workload, rank))
            .collect::<pario::Result<Vec<_>>>()
            .map_err(usage)?,
    };
    let mut question = Question::new(direction, requests, profile);
    question.collective = !arguments.independent;
    question.nodes = if arguments.independent { 1 } else { arguments.nodes };
    question.cores = arguments.cores.unwrap_or_else(|| ranks.div_ceil(arguments.nodes));
    question.hints = hint::resolve(&arguments.hints)?.0;
    let answer = explain(&question).map_err(usage)?;
    let scene = Scene {
        workload: workload.name().to_owned(),
        shape: workload.shape(),
        direction: match direction {
            Direction::Read => "read",
            Direction::Write => "write",
        },
        ranks,
        nodes: arguments.nodes,
        cores: question.cores,
        collective: question.collective,
        profile: origin,
        bytes: question.requests.iter().map(|request| request.bytes).sum(),
        piece_bytes: question.requests.first().map_or(0, |request| request.piece_bytes),
    };
    Ok(Document::new(scene, &answer))
}

fn request(workload: &dyn Workload, rank: u32) -> pario::Result<Request> {
    Request::of_view(&workload.view(rank)?, workload.rank_bytes(rank))
}
