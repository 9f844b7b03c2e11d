//! Every way to serve a described call.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, value_parser};
use pario::explain::{Conditions, InMemory, Question, Request, explain};
use pario::model::Direction;
use pario::model::presets::{Device, Link};

use super::advice::{Change, Given, WORTH, hint_change};
use super::answer::{Document, Scene, time};
use super::machine::Described;
use super::{answer, machine, measured, recorded};
use crate::failure::Failure;
use crate::hint;
use crate::measure::arguments::{
    named_programs, paper_ranks, parse_block, parse_bytes, parse_count, parse_directory,
    parse_workload,
};
use crate::scenario::workload::Workload;

pub(super) const AFTER_HELP: &str = "\
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
pub(crate) struct Arguments {
    /// The call: a workload of `pario bench`, a file FILE.toml that describes a pattern, or what
    /// `pario run --stats=FILE.jsonl` recorded of a program [default: block-cyclic]
    #[arg(value_name = "CALL", value_parser = parse_call, default_value = "block-cyclic")]
    #[arg(hide_default_value = true)]
    pub(super) workload: String,

    /// Sets a parameter of the workload, as transferSize=1M; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE,...", value_delimiter = ',')]
    #[arg(value_parser = hint::parse)]
    pub(super) parameters: Vec<(String, String)>,

    /// Number of ranks [default: as in the paper]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: Option<u32>,

    /// Nodes on which they run [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(super) nodes: Option<u32>,

    /// Cores of each node [default: one for each of its ranks]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    cores: Option<u32>,

    /// Bytes of the file, with K, M, G or T, where a workload can have any [default: as in the
    /// paper]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) bytes: Option<u64>,

    /// Block size of the workload block-cyclic, in bytes [default: 512]
    #[arg(long, value_name = "SIZE", value_parser = parse_block)]
    block: Option<u64>,

    /// Edge of the cube of the workloads dist3d and btio
    #[arg(long, value_name = "N", value_parser = |text: &str| parse_count(text, 1))]
    pub(super) edge: Option<u64>,

    /// Writes, reads or both [default: both]
    #[arg(long, value_enum)]
    direction: Option<Way>,

    /// Independent calls instead of a collective one
    #[arg(long)]
    pub(super) independent: bool,

    /// Costs of the machine: the name of a built-in profile, or a file [default: that of this
    /// machine, or of the recording]
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,

    /// Directory whose file system counts if no profile is given [default: files in memory; with
    /// --run the system's temporary directory]
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    pub(super) dir: Option<PathBuf>,

    /// Another network between nodes: a name, or LATENCY_US:MB_PER_S
    #[arg(long, value_name = "NAME", value_parser = machine::parse_link)]
    network: Option<Link>,

    /// Storage is this device, without a cache
    #[arg(long, value_name = "NAME", value_parser = machine::parse_device)]
    device: Option<(String, Device)>,

    /// A hint of the program, as cb_nodes=4; may be repeated. One without effect is refused: the
    /// answer would be about other hints
    #[arg(long = "hint", value_name = "KEY=VALUE", value_parser = hint::parse)]
    pub(super) hints: Vec<(String, String)>,

    /// Run every way on this machine, as `pario bench` does, and show the measured times beside the
    /// predicted ones. Ranks are threads, or what mpirun started
    #[arg(long, conflicts_with_all = ["network", "device", "cores"])]
    pub(super) run: bool,

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

/// How the name of a recording ends.
const RECORDINGS: [&str; 2] = [".jsonl", ".json"];

fn is_recording(text: &str) -> bool {
    text == "-" || RECORDINGS.iter().any(|end| text.ends_with(end))
}

/// A workload, or the name of a recording.
fn parse_call(text: &str) -> Result<String, String> {
    match is_recording(text) {
        true => Ok(text.to_owned()),
        false => parse_workload(text).map_err(|error| format!("{error}, or RECORDING.jsonl")),
    }
}

/// Runs the subcommand.
///
/// # Errors
/// `Usage` if the call or the machine makes no sense, `Run` if a recording cannot be read or the
/// output cannot be written.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let documents = match is_recording(&arguments.workload) {
        true => {
            arguments.refuse_description()?;
            recorded::documents(arguments, Path::new(&arguments.workload))?
        }
        false => described_calls(arguments)?,
    };
    if pario_mpi::launched().is_some_and(|launch| launch.rank > 0) {
        return Ok(());
    }
    answer::print(&documents, arguments.json)?;
    match &arguments.svg {
        Some(path) => answer::draw(path, &documents),
        None => Ok(()),
    }
}

impl Arguments {
    pub(super) fn block_bytes(&self) -> u64 {
        self.block.unwrap_or(BLOCK_BYTES)
    }

    pub(super) fn direction_name(&self) -> &'static str {
        match self.direction {
            Some(Way::Write) => "write",
            Some(Way::Read) => "read",
            Some(Way::Both) | None => "both",
        }
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

fn described_calls(arguments: &Arguments) -> Result<Vec<Document>, Failure> {
    let ranks = arguments.ranks.unwrap_or_else(|| paper_ranks(&arguments.workload));
    let ran = arguments.run.then(|| measured::all(arguments, ranks)).transpose()?;
    let place = match &ran {
        Some(ran) => Place { ranks: ran.ranks, nodes: ran.nodes, cores: ran.cores },
        None => {
            let nodes = arguments.nodes.unwrap_or(1);
            let cores = arguments.cores.unwrap_or_else(|| ranks.div_ceil(nodes));
            Place { ranks, nodes, cores }
        }
    };
    let transport = ran.as_ref().map_or("threads", |ran| ran.transport);
    let machine = described(arguments, transport)?;
    let sizes = (arguments.bytes, &[arguments.block_bytes()][..], arguments.edge);
    let programs = named_programs(&arguments.workload, place.ranks, sizes, &arguments.parameters)
        .map_err(Failure::Usage)?;
    let mut documents = Vec::new();
    let workloads = programs.iter().flat_map(|program| &program.parts);
    for (index, workload) in workloads.enumerate() {
        for &direction in arguments.direction.unwrap_or(Way::Both).directions() {
            let call = document(arguments, &machine, &**workload, (place, direction))?;
            let (mut document, changes) = call;
            let ways = ran.as_ref().and_then(|ran| ran.parts.get(index));
            ways.iter().for_each(|ways| measured::add(&mut document, ways, direction));
            document.advise(changes);
            document.judge();
            documents.push(document);
        }
    }
    Ok(documents)
}

/// Where the ranks run.
#[derive(Clone, Copy)]
struct Place {
    ranks: u32,
    nodes: u32,
    cores: u32,
}

/// The machine of the command line.
pub(super) fn described(arguments: &Arguments, transport: &str) -> Result<Described, Failure> {
    // What is run has its files there.
    let temporary = arguments.run.then(std::env::temp_dir);
    let directory = arguments.dir.as_deref().or(temporary.as_deref());
    let described = machine::profile(arguments.profile.as_deref(), transport, directory)?;
    Ok(replaced(arguments, described))
}

/// A machine with the parts that the command line replaces.
pub(super) fn replaced(arguments: &Arguments, described: Described) -> Described {
    let Described { mut profile, mut origin } = described;
    if let Some((name, device)) = &arguments.device {
        profile = profile.with_device(name, *device);
        origin = format!("{origin}; device {name}");
    }
    if let Some(network) = arguments.network {
        profile = profile.with_network(network);
        origin = format!("{origin}; network described");
    }
    Described { profile, origin }
}

/// The hints of the command line.
pub(super) fn given(arguments: &Arguments) -> impl Iterator<Item = Given> {
    let origin = || "--hint".to_owned();
    let one = move |(name, value): &(String, String)| Given {
        name: name.clone(),
        value: value.clone(),
        origin: origin(),
    };
    arguments.hints.iter().map(one)
}

fn document(
    arguments: &Arguments,
    machine: &Described,
    workload: &dyn Workload,
    (Place { ranks, nodes, cores }, direction): (Place, Direction),
) -> Result<(Document, Vec<Change>), Failure> {
    let usage = |error: pario::Error| Failure::Usage(error.to_string());
    let all = (0..ranks).map(|rank| request(workload, rank)).collect::<pario::Result<Vec<_>>>();
    let all = all.map_err(usage)?;
    let requests = match arguments.independent {
        true => all[..1].to_vec(),
        false => all.clone(),
    };
    let mut question = Question::new(direction, requests, machine.profile.clone());
    question.nodes = nodes;
    if arguments.independent {
        question.conditions = Conditions::independent(direction);
        // One rank calls, and others have the file open: they decide on locks and sieving.
        let per_node = ranks.div_ceil(nodes).max(1);
        question.node_of_rank = (0..ranks).map(|rank| rank / per_node).collect();
    }
    question.cores = cores;
    question.hints = hint::resolve(&arguments.hints)?.0;
    let answer = explain(&question).map_err(usage)?;
    let scene = Scene {
        workload: workload.name().to_owned(),
        shape: workload.shape(),
        direction: direction.name(),
        ranks,
        nodes,
        cores: question.cores,
        collective: question.conditions.collective,
        profile: machine.origin.clone(),
        bytes: question.requests.iter().map(|request| request.bytes).sum(),
        piece_bytes: question.requests.first().map_or(0, |request| request.piece_bytes),
        calls: None,
        share_percent: None,
    };
    let hints: Vec<Given> = given(arguments).collect();
    let now_ms = answer.chosen().total_us() / 1e3;
    let hint = hint_change(&question, &hints, now_ms).map_err(usage)?;
    let collective = match arguments.independent {
        true => collective_change(&question, all, now_ms).map_err(usage)?,
        false => None,
    };
    let document = Document::new(scene, &answer, (answer.chosen(), answer.reason));
    Ok((document, hint.into_iter().chain(collective).collect()))
}

/// One collective call of all ranks in place of one of each, if that is predicted to be faster.
fn collective_change(
    question: &Question,
    requests: Vec<Request>,
    now_ms: f64,
) -> pario::Result<Option<Change>> {
    let mut together = question.clone();
    let conditions = Conditions::collective(question.conditions.direction);
    (together.requests, together.conditions) = (requests, conditions);
    let answer = explain(&together)?;
    let predicted_ms = answer.chosen().total_us() / 1e3;
    let what = format!(
        "call collectively: {} is predicted to take {} instead of {}",
        answer.chosen().strategy,
        time(predicted_ms),
        time(now_ms)
    );
    let change = Change { what, hint: None, value: None, predicted_ms };
    Ok((predicted_ms < WORTH * now_ms).then_some(change))
}

fn request(workload: &dyn Workload, rank: u32) -> pario::Result<Request> {
    let request = Request::of_view(&workload.view(rank)?, workload.rank_bytes(rank))?;
    Ok(match workload.memory(rank)? {
        Some(memory) => Request { memory: InMemory::of(&memory.datatype, 1)?, ..request },
        None => request,
    })
}
