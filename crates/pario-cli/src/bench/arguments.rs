//! The command line of `pario bench`, and what it means.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum, value_parser};
use pario::{HintSet, Hints, Strategy};

use super::workload::{ELEMENT_BYTES, KINDS, Wanted, Workload};
use crate::failure::Failure;
use crate::hint;

const MIB: u64 = 1 << 20;
const BLOCK_BYTES: [u64; 5] = [4, 64, 512, 4096, 65536];
const STRATEGY_HINT: &str = "pario_strategy";
const PHASES_HINT: &str = "pario_phases";

/// Compares strategies of parallel I/O with each other and with Block I/O.
///
/// Ranks are threads of this process; no MPI is needed. Started by mpirun, the ranks are the
/// processes that it started, and talk to each other by its MPI.
///
/// Every combination of workload, block size and strategy is measured against Block I/O in the same
/// rounds: there each rank writes (reads) its bytes in one piece to (from) its own part of the
/// file, and the order of the file is lost. The column `x Block I/O` is the time divided by that of
/// Block I/O.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// A run of a few seconds: 4 ranks, 4M bytes, 1 repetition, 500000 calls at most, unless given
    /// otherwise
    #[arg(long)]
    quick: bool,

    /// Number of ranks [default: 16; under mpirun as many as it started]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=4096))]
    ranks: Option<u32>,

    /// Bytes of the file, with K, M or G for KiB, MiB or GiB [default: 100M]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes: Option<u64>,

    /// Block sizes of the workload block-cyclic, in bytes [default: 4,64,512,4K,64K]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = parse_block)]
    blocks: Vec<u64>,

    /// Edge of the cube of the workload dist3d [default: the largest power of two that fits in
    /// the bytes; 512 in paper 003], or of btio [default: 162]
    #[arg(long, value_name = "N")]
    edge: Option<u64>,

    /// What to write and read [default: block-cyclic, dist3d]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = workload_names())]
    workloads: Vec<String>,

    /// How to do it, as direct, list, sieve, two-phase, gather, multi-phase, inspector-executor,
    /// auto [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_strategy)]
    strategies: Vec<Strategy>,

    /// Also multi-phase with these numbers of phases, as 0,1,2,3,4
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u32).range(0..=9))]
    phases: Vec<u32>,

    /// Which way
    #[arg(long, value_enum, default_value_t = Directions::Both)]
    direction: Directions,

    /// Repetitions; each line shows the one with the median time [default: 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,

    /// Directory for the file, which is removed at the end [default: the system's temporary
    /// directory]
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    dir: Option<PathBuf>,

    /// Cut the file to nothing before each write; otherwise writes overwrite it
    #[arg(long)]
    fresh: bool,

    /// Make each call once before it is measured, so that its plan is known
    #[arg(long, conflicts_with = "fresh")]
    planned: bool,

    /// A hint for all strategies, as cb_nodes=4; may be repeated
    #[arg(long = "hint", value_name = "KEY=VALUE", value_parser = hint::parse)]
    hints: Vec<(String, String)>,

    /// Skip what needs more storage calls than these, by a rough estimate [default: 1000000]
    #[arg(long, value_name = "N")]
    calls_max: Option<u64>,

    /// Skip nothing, however long it takes
    #[arg(long)]
    all: bool,

    /// Pretend that the ranks run on so many nodes, which share no memory
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    nodes: u32,

    /// Ranks send messages instead of using each other's memory
    #[arg(long)]
    messages: bool,

    /// Ranks are threads of this process even if mpirun started it
    #[arg(long)]
    embedded: bool,

    /// One JSON object for each result on stdout, and nothing else there
    #[arg(long)]
    json: bool,

    /// Print what pario did in the repetition that each line shows
    #[arg(long)]
    stats: bool,
}

const AFTER_HELP: &str = "\
How it is measured:
  The file exists and has been written before; every measured write overwrites all of it (with
  --fresh it is cut to nothing first), every measured read finds it in the cache of the system.
  That holds for Block I/O as well. Opening, views and sync are not part of the time. It counts
  from the moment when the first rank leaves a barrier to the moment when the last one has ended
  its call. Strategies take turns in every repetition.
  After each write the file is read back by plain system calls, after each read the buffers are
  looked at: every byte is compared. A wrong byte ends the run with exit code 1.

Examples:
  pario bench
  pario bench --workloads block-cyclic --blocks 4 --strategies two-phase --stats
  pario bench --workloads dist3d --edge 512 --repeat 5
  pario bench --workloads btio,unstruc,stem2 --strategies auto
  pario bench --workloads stem2 --phases 0,1,2,3,4
  mpirun -n 8 pario bench --dir /scratch
  pario bench --nodes 4 --messages --hint cb_nodes=4 --dir /scratch --json > results.jsonl";

impl Arguments {
    /// Whether ranks are threads, whoever started this.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded
    }
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Directions {
    /// Writes only
    Write,
    /// Reads only
    Read,
    /// Writes, then reads
    Both,
}

impl Directions {
    pub(crate) fn writes(self) -> bool {
        self != Directions::Read
    }

    pub(crate) fn reads(self) -> bool {
        self != Directions::Write
    }
}

/// The ranks of MPI.
pub(crate) struct World {
    pub(crate) ranks: u32,
    pub(crate) nodes: u32,
    /// What the MPI library calls itself.
    pub(crate) mpi: String,
}

/// How ranks reach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// They are threads of this process, on pretended nodes.
    Threads { nodes: u32, share_memory: bool },
    /// By the MPI library of this name.
    Mpi { nodes: u32, library: String },
}

/// What is to be measured, checked.
pub(crate) struct Settings {
    pub(crate) ranks: u32,
    pub(crate) transport: Transport,
    pub(crate) workloads: Vec<Box<dyn Workload>>,
    pub(crate) strategies: Vec<Strategy>,
    pub(crate) phases: Vec<u32>,
    pub(crate) directions: Directions,
    pub(crate) repeat: u32,
    pub(crate) directory: PathBuf,
    pub(crate) fresh: bool,
    pub(crate) planned: bool,
    /// The hints that all strategies are given, as text and with their meaning.
    pub(crate) hint_set: HintSet,
    pub(crate) hints: Hints,
    /// `None` to skip nothing.
    pub(crate) calls_max: Option<u64>,
    pub(crate) json: bool,
    pub(crate) stats: bool,
}

impl Settings {
    /// What arguments mean together, and with the ranks of MPI if they run there.
    ///
    /// # Errors
    /// `Usage` if they contradict each other.
    pub(crate) fn new(arguments: &Arguments, world: Option<&World>) -> Result<Settings, Failure> {
        let (ranks, bytes, repeat, calls_max) = match arguments.quick {
            true => (4, 4 * MIB, 1, 500_000),
            false => (16, 100 * MIB, 3, 1_000_000),
        };
        let ranks = world.map_or(arguments.ranks.unwrap_or(ranks), |world| world.ranks);
        let transport = match world {
            Some(world) => on_mpi(arguments, world)?,
            None => on_threads(arguments, ranks)?,
        };
        let given = Wanted {
            ranks,
            bytes: arguments.bytes.unwrap_or(bytes),
            block_bytes: or_else(unique(&arguments.blocks), || BLOCK_BYTES.to_vec()),
            edge: arguments.edge,
        };
        let (hint_set, hints) = hints(&arguments.hints)?;
        Ok(Settings {
            ranks,
            transport,
            workloads: workloads(&arguments.workloads, &given)?,
            strategies: or_else(unique(&arguments.strategies), default_strategies),
            phases: unique(&arguments.phases),
            directions: arguments.direction,
            repeat: arguments.repeat.unwrap_or(repeat),
            directory: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
            fresh: arguments.fresh,
            planned: arguments.planned,
            hint_set,
            hints,
            calls_max: (!arguments.all).then(|| arguments.calls_max.unwrap_or(calls_max)),
            json: arguments.json,
            stats: arguments.stats,
        })
    }

    /// Size of the largest file.
    pub(crate) fn file_bytes(&self) -> u64 {
        let elements = self.workloads.iter().map(|workload| workload.elements());
        elements.max().unwrap_or(0) * ELEMENT_BYTES
    }
}

fn on_threads(arguments: &Arguments, ranks: u32) -> Result<Transport, Failure> {
    let nodes = arguments.nodes;
    match nodes > ranks {
        true => Err(Failure::Usage(format!("--nodes {nodes}: more than {ranks} ranks"))),
        false => Ok(Transport::Threads { nodes, share_memory: !arguments.messages }),
    }
}

fn on_mpi(arguments: &Arguments, world: &World) -> Result<Transport, Failure> {
    let World { ranks, nodes, mpi } = world;
    let refused = |text: String| Err(Failure::Usage(text));
    match arguments.ranks {
        Some(asked) if asked != *ranks => {
            refused(format!("--ranks {asked}: mpirun has started {ranks}"))
        }
        _ if arguments.nodes > 1 => refused("--nodes: MPI has its own".to_owned()),
        _ if arguments.messages => refused("--messages: on MPI there is nothing else".to_owned()),
        _ => Ok(Transport::Mpi { nodes: *nodes, library: mpi.clone() }),
    }
}

fn workloads(names: &[String], wanted: &Wanted) -> Result<Vec<Box<dyn Workload>>, Failure> {
    let mut workloads = Vec::new();
    for kind in &KINDS {
        let named = names.iter().any(|name| name == kind.name);
        if named || names.is_empty() && !kind.on_request {
            workloads.extend((kind.make)(wanted).map_err(Failure::Usage)?);
        }
    }
    Ok(workloads)
}

/// All strategies, the one that pario chooses itself at the end.
fn default_strategies() -> Vec<Strategy> {
    let chosen = Strategy::all().filter(|&strategy| strategy != Strategy::Auto);
    chosen.chain([Strategy::Auto]).collect()
}

/// The hints, if all of them have an effect.
fn hints(given: &[(String, String)]) -> Result<(HintSet, Hints), Failure> {
    if let Some((key, value)) = given.iter().find(|(key, _)| key == STRATEGY_HINT) {
        return Err(Failure::Usage(format!("--hint {key}={value}: use --strategies {value}")));
    }
    hint::resolve(given)
}

/// The hints that make pario use a strategy, with a number of phases if that is given.
pub(crate) fn with_strategy(hints: &HintSet, strategy: Strategy, phases: Option<u32>) -> HintSet {
    let hints = hints.clone().with(STRATEGY_HINT, strategy.name());
    match phases {
        Some(phases) => hints.with(PHASES_HINT, phases.to_string()),
        None => hints,
    }
}

fn unique<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}

fn or_else<T>(values: Vec<T>, default: impl FnOnce() -> Vec<T>) -> Vec<T> {
    if values.is_empty() { default() } else { values }
}

fn workload_names() -> PossibleValuesParser {
    PossibleValuesParser::new(KINDS.iter().map(|kind| kind.name))
}

fn parse_strategy(text: &str) -> Result<Strategy, String> {
    text.parse().map_err(|error: pario::Error| error.to_string())
}

/// A number of bytes, maybe with one of the suffixes K, M, G.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [('K', 1 << 10), ('M', MIB), ('G', 1 << 30)];
    let with_unit = units.iter().find_map(|&(suffix, unit)| {
        Some((text.strip_suffix([suffix, suffix.to_ascii_lowercase()])?, unit))
    });
    let (digits, unit) = with_unit.unwrap_or((text, 1));
    let number: Option<u64> = digits.parse().ok();
    match number.and_then(|number| number.checked_mul(unit)) {
        // Offsets in files have 63 bits.
        Some(bytes) if bytes > 0 && i64::try_from(bytes).is_ok() => Ok(bytes),
        Some(0) => Err("must be more than 0".to_owned()),
        Some(_) => Err("too large".to_owned()),
        None => Err("not a number of bytes, as 4096, 64K, 100M or 1G".to_owned()),
    }
}

fn parse_block(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    match bytes.is_multiple_of(ELEMENT_BYTES) {
        true => Ok(bytes),
        false => Err(format!("not a multiple of {ELEMENT_BYTES} bytes, the size of an element")),
    }
}

fn parse_directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err("not a directory".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_suffix() {
        let cases = [("4", 4), ("64k", 65536), ("100M", 104_857_600), ("2G", 2 << 30)];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        for text in ["", "0", "-4", "4T", "K", "9223372036854775808", "99999999999G"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!(parse_block("8"), Ok(8));
        assert!(parse_block("6").is_err());
    }

    #[test]
    fn the_choice_of_pario_is_measured_last() {
        let strategies = default_strategies();
        assert_eq!(strategies.len(), Strategy::all().count());
        assert_eq!(strategies.last(), Some(&Strategy::Auto));
    }

    #[test]
    fn hints_without_effect_are_refused() {
        let pair = |key: &str, value: &str| [(key.to_owned(), value.to_owned())];
        assert_eq!(hints(&pair("cb_nodes", "3")).unwrap().1.aggregators, Some(3));
        for (key, value) in [("cb_node", "3"), ("cb_nodes", "x"), ("pario_strategy", "list")] {
            assert!(matches!(hints(&pair(key, value)), Err(Failure::Usage(_))), "{key}={value}");
        }
    }
}
