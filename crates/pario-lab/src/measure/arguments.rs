//! The command line of `pario bench`, and what it means.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum, value_parser};
use pario::storage::Driver;
use pario::{HintSet, Hints, Strategy};

use crate::failure::Failure;
use crate::hint;
use crate::scenario::contender::{Choice, Contender, Level, POSIX, Plain, ROMIO_LIKE, Way};
use crate::scenario::device::{self, DeviceChoice};
use crate::scenario::workload::{Catalogue, Chosen, KINDS, Kind, Program, Wanted, Ways};
use crate::scenario::workload::{description, parse_parameters};

const MIB: u64 = 1 << 20;
const BLOCK_BYTES: [u64; 5] = [4, 64, 512, 4096, 65536];
/// Blocks are made of numbers of this size.
const ELEMENT_BYTES: u64 = 4;
/// How the name of a described pattern ends.
const DESCRIPTION: &str = ".toml";
const STRATEGY_HINT: &str = "pario_strategy";
const PHASES_HINT: &str = "pario_phases";

/// Compares strategies of parallel I/O with each other and with Block I/O.
///
/// Ranks are threads of this process; no MPI is needed. Under mpirun, the ranks are the
/// processes that it started, and reach each other by its MPI.
///
/// Every combination of workload, block size and strategy is measured in turn with Block I/O. In
/// Block I/O each rank moves its bytes in one piece, to or from its own part of the file; the order
/// of the file is lost. The column `x Block I/O` is the time divided by that of
/// Block I/O.
#[derive(Args, Clone, Debug)]
#[command(after_help = after_help())]
pub struct Arguments {
    /// What to write and read: names of workloads (see below), or a file FILE.toml that describes a
    /// pattern [default: block-cyclic, dist3d]
    #[arg(value_name = "WORKLOAD", value_parser = parse_workload)]
    names: Vec<String>,

    /// A short run: 4 ranks, small sizes, 1 repetition, at most 500000 storage calls; other options
    /// override this
    #[arg(long)]
    quick: bool,

    /// Sets a parameter of a workload, such as transferSize=1M; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE,...", value_delimiter = ',')]
    #[arg(value_parser = hint::parse)]
    parameters: Vec<(String, String)>,

    /// Number of ranks [default: as in the paper; under mpirun as many as it started]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=4096))]
    ranks: Option<u32>,

    /// Bytes of the file, with K, M, G or T for KiB, MiB, GiB or TiB, of workloads that can have
    /// any size [default: as in the paper]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes: Option<u64>,

    /// Block sizes of the workload block-cyclic, in bytes [default: 4,64,512,4K,64K]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = parse_block)]
    blocks: Vec<u64>,

    /// Edge of the cube of the workloads dist3d and btio
    #[arg(long, value_name = "N", value_parser = |text: &str| parse_count(text, 1))]
    edge: Option<u64>,

    /// Workloads, as the arguments without an option
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_workload)]
    workloads: Vec<String>,

    /// How requests are made: 0 an independent call for each contiguous piece, 1 a collective call
    /// for each piece, 2 independent calls with a view, 3 collective calls with a view
    /// [default: 3; with posix 0,3]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u8).range(0..=3))]
    levels: Vec<u8>,

    /// same: one file, written again in each step. new: a new file for each step; then the time
    /// from open to close is measured, too
    #[arg(long, value_enum, default_value_t = Files::Same)]
    files: Files,

    /// Steps of each repetition; the file stays open between them, unless each has its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    steps: u32,

    /// Memory as the papers' programs have it, with ghost cells and the like, or without gaps
    #[arg(long, value_enum, default_value_t = MemoryLayout::Paper)]
    memory: MemoryLayout,

    /// Strategies: direct, list, sieve, two-phase, gather, multi-phase, inspector-executor, auto
    /// [default: all]; also posix (a system call for each piece) and romio-like (what papers 003
    /// and 004 say of ROMIO; at levels 2 and 3). sieve skips holes above pario_sieve_hole_bytes,
    /// romio-like does not; inspector-executor is multi-phase with all phases
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_choice)]
    strategies: Vec<Choice>,

    /// Also multi-phase with these numbers of phases, such as 0,1,2,3,4
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u32).range(0..=9))]
    phases: Vec<u32>,

    /// Writes, reads or both
    #[arg(long, value_enum, default_value_t = Directions::Both)]
    direction: Directions,

    /// Repetitions; each line shows the one with the median time [default: 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,

    /// No more repetitions of a workload after this time; there is one at least
    #[arg(long, value_name = "S", value_parser = value_parser!(u32).range(1..=86400))]
    seconds_max: Option<u32>,

    /// Directory for the file, which is removed at the end [default: the system's temporary
    /// directory]
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    dir: Option<PathBuf>,

    /// Emulate a device, which must be slower than the real one: hdd, sata-ssd, nvm, or FILE.toml
    /// with positioning_us, latency_us, read_bytes_per_s and write_bytes_per_s; ranks must be
    /// threads
    #[arg(long, value_name = "DEVICE", value_parser = device::parse)]
    device: Option<DeviceChoice>,

    /// Page cache of that device
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "device")]
    device_cache: Option<u64>,

    /// Limit this machine's page cache during the measured calls, by a control group. The file is
    /// dropped from the cache before each call. Needs root; ranks must be threads
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with = "planned")]
    page_cache: Option<u64>,

    /// Truncate the file before each write; otherwise writes overwrite it
    #[arg(long)]
    fresh: bool,

    /// Make each call once before it is measured, so that its plan is known
    #[arg(long, conflicts_with_all = ["fresh", "files"])]
    planned: bool,

    /// A hint for all strategies, such as cb_nodes=4; may be repeated. One without effect is
    /// refused: the times would be those of other hints
    #[arg(long = "hint", value_name = "KEY=VALUE", value_parser = hint::parse)]
    hints: Vec<(String, String)>,

    /// Skip what needs more than N storage calls, by a rough estimate [default: 1000000, with
    /// --quick 500000]
    #[arg(long, value_name = "N", value_parser = |text: &str| parse_count(text, 0))]
    calls_max: Option<u64>,

    /// Skip level 1 where a rank needs more than N collective calls [default: 20000, with
    /// --quick 2000]
    #[arg(long, value_name = "N", value_parser = |text: &str| parse_count(text, 0))]
    collective_calls_max: Option<u64>,

    /// Skip nothing, however long it takes
    #[arg(long)]
    all: bool,

    /// Pretend that the ranks run on N nodes, which share no memory
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    nodes: u32,

    /// Ranks share no memory, and send messages instead
    #[arg(long)]
    messages: bool,

    /// Ranks are threads of this process, even if mpirun started it
    #[arg(long)]
    embedded: bool,

    /// Print one JSON object for each result on stdout, and nothing else there
    #[arg(long)]
    json: bool,

    /// Print what pario did in the repetition that each line shows
    #[arg(long)]
    stats: bool,

    /// End when standard input ends: what `pario study` starts must not outlive it
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

const EXAMPLES: &str = "\
How it is measured:
  The file exists and has been written before; every measured write overwrites all of it (with
  --fresh it is truncated first, with --files new there is none), every measured read finds it
  in the page cache. That holds for Block I/O as well. Opening, views and sync are not part
  of the time, unless each step has a new file: then x compares whole steps. Time counts from the
  moment at which all ranks have agreed to start to the one when the last has ended its calls.
  Strategies take turns in every repetition.
  After each write the file is read back by plain system calls, after each read the buffers are
  checked: every byte is compared, also those of holes and gaps, which must be untouched. A wrong
  byte ends the run with exit code 1.

Examples:
  pario bench
  pario bench block-cyclic --blocks 4 --strategies two-phase --stats
  pario bench dist3d --set edge=512,ghost=1 --levels 0,2,3 --repeat 5
  pario bench btio --ranks 36 --levels 2,3 --strategies sieve,auto
  pario bench unstruc --set elements=100000,element_bytes=8,seed=7
  pario bench stem2 --set array=SL1 --phases 0,1,2,3,4
  pario bench stem2 --set array=loop,Ntime_steps=10 --files new --strategies auto
  pario bench ior --set blockSize=64M,transferSize=1M,reorderTasksRandom=0
  pario bench hacc-io --set numparticles=1M,layout=soa --files new
  pario bench madbench2 --set no_pix=2000,no_gang=2
  pario bench dist3d --quick --levels 0,2,3 --strategies posix,romio-like,auto --device hdd
  pario bench s3asim --set query_count=10,seed=3 --direction read
  pario bench benchmarks/pattern.toml --levels 0,1,2,3
  mpirun -n 8 pario bench hacc-io --quick --dir /scratch
  pario bench --nodes 4 --messages --hint cb_nodes=4 --dir /scratch --json > results.jsonl";

/// What follows the options: the workloads, then how it is measured.
fn after_help() -> String {
    format!("{Catalogue}\n{EXAMPLES}")
}

impl Arguments {
    /// Whether ranks are threads, even under a launcher of MPI.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded
    }

    /// Whether the end of standard input ends the run.
    pub(crate) fn ends_with_stdin(&self) -> bool {
        self.end_with_stdin
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

/// Which files the steps of a program have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Files {
    /// One, again and again
    Same,
    /// A new one for each step
    New,
}

impl Files {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Files::Same => "same",
            Files::New => "new",
        }
    }
}

/// How data lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryLayout {
    /// As in the papers' programs
    Paper,
    /// Without gaps, in the order of the file
    Packed,
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

/// An emulated device: what it is, and files with its times.
pub(crate) type NamedDriver = (String, Arc<dyn Driver>);

/// What is to be measured, checked.
pub(crate) struct Settings {
    pub(crate) ranks: u32,
    pub(crate) transport: Transport,
    pub(crate) programs: Vec<Program>,
    /// The reference, and what is compared with it.
    pub(crate) contenders: Vec<Contender>,
    pub(crate) directions: Directions,
    pub(crate) files: Files,
    /// Whether data has no gaps in memory.
    pub(crate) packed: bool,
    pub(crate) repeat: u32,
    /// No repetition of a workload begins after this time.
    pub(crate) time_max: Option<Duration>,
    pub(crate) directory: PathBuf,
    pub(crate) fresh: bool,
    pub(crate) planned: bool,
    /// The hints that all strategies are given, as text and with their meaning.
    pub(crate) hint_set: HintSet,
    pub(crate) hints: Hints,
    /// `None` to skip nothing.
    pub(crate) calls_max: Option<u64>,
    pub(crate) collective_calls_max: Option<u64>,
    pub(crate) json: bool,
    pub(crate) stats: bool,
    /// The device that is emulated, and its driver.
    pub(crate) device: Option<NamedDriver>,
    /// The limit of the machine's own page cache.
    pub(crate) page_cache_bytes: Option<u64>,
}

impl Settings {
    /// What arguments mean together, and with the ranks of MPI if they run there.
    ///
    /// # Errors
    /// `Usage` if they contradict each other.
    pub(crate) fn new(arguments: &Arguments, world: Option<&World>) -> Result<Settings, Failure> {
        let (repeat, calls_max, collective_calls_max) = match arguments.quick {
            true => (1, 500_000, 2_000),
            false => (3, 1_000_000, 20_000),
        };
        let names: Vec<&str> =
            arguments.names.iter().chain(&arguments.workloads).map(String::as_str).collect();
        let kinds = kinds(&names);
        let ranks = arguments.ranks.unwrap_or_else(|| default_ranks(arguments.quick, &kinds));
        let ranks = world.map_or(ranks, |world| world.ranks);
        let transport = match world {
            Some(world) => on_mpi(arguments, world)?,
            None => on_threads(arguments, ranks)?,
        };
        let programs = programs(arguments, &names, ranks).map_err(Failure::Usage)?;
        let (hint_set, hints) = hints(&arguments.hints)?;
        let limit =
            |given: Option<u64>, default| (!arguments.all).then(|| given.unwrap_or(default));
        Ok(Settings {
            ranks,
            transport,
            programs,
            contenders: contenders(arguments),
            directions: arguments.direction,
            files: arguments.files,
            packed: arguments.memory == MemoryLayout::Packed,
            repeat: arguments.repeat.unwrap_or(repeat),
            time_max: arguments.seconds_max.map(|seconds| Duration::from_secs(seconds.into())),
            directory: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
            fresh: arguments.fresh,
            planned: arguments.planned,
            hint_set,
            hints,
            calls_max: limit(arguments.calls_max, calls_max),
            collective_calls_max: limit(arguments.collective_calls_max, collective_calls_max),
            json: arguments.json,
            stats: arguments.stats,
            device: device(arguments, world.is_some())?,
            page_cache_bytes: page_cache(arguments, world.is_some())?,
        })
    }

    /// Size of the files of the largest program.
    pub(crate) fn file_bytes(&self) -> u64 {
        let bytes = |program: &Program| -> u64 {
            (0..program.files()).map(|file| program.file_bytes(file)).sum()
        };
        self.programs.iter().map(bytes).max().unwrap_or(0)
    }
}

/// The emulated device; one for all ranks, so that they must be threads.
fn device(arguments: &Arguments, on_mpi: bool) -> Result<Option<NamedDriver>, Failure> {
    let Some(chosen) = &arguments.device else { return Ok(None) };
    if on_mpi {
        let text = "--device: processes would have one each; --embedded makes ranks threads";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(Some(chosen.driver(arguments.device_cache)))
}

/// The limit of the page cache; this process enters the group, so that ranks must be threads.
fn page_cache(arguments: &Arguments, on_mpi: bool) -> Result<Option<u64>, Failure> {
    if arguments.page_cache.is_some() && on_mpi {
        let text = "--page-cache: processes would have one each; --embedded makes ranks threads";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(arguments.page_cache)
}

/// The kinds that are named, or those that need not be.
fn kinds(names: &[&str]) -> Vec<&'static Kind> {
    let chosen = |kind: &&Kind| match names.is_empty() {
        true => !kind.on_request,
        false => names.contains(&kind.name),
    };
    KINDS.iter().filter(chosen).collect()
}

/// The ranks of the papers; the fewest where several are run.
fn default_ranks(quick: bool, kinds: &[&Kind]) -> u32 {
    let ranks = kinds.iter().map(|kind| kind.ranks).min();
    if quick { 4 } else { ranks.unwrap_or(16) }
}

/// The programs of one workload, by name or from a file, for `pario explain`.
///
/// # Errors
/// Why there is no such workload.
pub(crate) fn named_programs(
    name: &str,
    ranks: u32,
    sizes: (Option<u64>, &[u64], Option<u64>),
    parameters: &[(String, String)],
) -> Result<Vec<Program>, String> {
    let (bytes, blocks, edge) = sizes;
    if name.ends_with(DESCRIPTION) {
        return Ok(vec![description::make(name.as_ref(), ranks, 1)?]);
    }
    let kinds = kinds(&[name]);
    let given = parse_parameters(parameters, &kinds)?;
    let mut programs = Vec::new();
    for kind in kinds {
        let wanted = Wanted {
            ranks,
            bytes,
            quick: false,
            named: true,
            block_bytes: or_else(unique(blocks), || BLOCK_BYTES.to_vec()),
            edge,
            steps: 1,
            chosen: Chosen::new(kind.parameters, &given),
        };
        programs.extend((kind.make)(&wanted)?);
    }
    Ok(programs)
}

/// The ranks of the paper for a workload.
pub(crate) fn paper_ranks(name: &str) -> u32 {
    default_ranks(false, &kinds(&[name]))
}

/// The workloads that were asked for, those of files at the end.
fn programs(arguments: &Arguments, names: &[&str], ranks: u32) -> Result<Vec<Program>, String> {
    let kinds = kinds(names);
    let given = parse_parameters(&arguments.parameters, &kinds)?;
    let mut programs = Vec::new();
    for kind in kinds {
        let wanted = Wanted {
            ranks,
            bytes: arguments.bytes,
            quick: arguments.quick,
            named: !names.is_empty(),
            block_bytes: or_else(unique(&arguments.blocks), || BLOCK_BYTES.to_vec()),
            edge: arguments.edge,
            steps: arguments.steps,
            chosen: Chosen::new(kind.parameters, &given),
        };
        programs.extend((kind.make)(&wanted)?);
    }
    for name in names.iter().filter(|name| name.ends_with(DESCRIPTION)) {
        programs.push(description::make(name.as_ref(), ranks, arguments.steps)?);
    }
    check_directions(arguments.direction, &programs)?;
    Ok(programs)
}

/// The command line of a run that is not repeated, but looked at.
#[derive(Parser)]
struct Again {
    #[command(flatten)]
    arguments: Arguments,
}

/// A command line in words.
///
/// # Errors
/// Words that make no sense.
pub(crate) fn parse(words: &[String]) -> Result<Arguments, String> {
    let words = std::iter::once("bench").chain(words.iter().map(String::as_str));
    Ok(Again::try_parse_from(words).map_err(|error| error.to_string())?.arguments)
}

/// The workloads of a command line that ran on some ranks.
///
/// # Errors
/// Words that this version does not understand, or a description that is not there.
pub(crate) fn programs_of(words: &[String], ranks: u32) -> Result<Vec<Program>, String> {
    // The directory need not exist here, and has nothing to do with the workloads.
    let (mut kept, mut words) = (Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dir" => {
                words.next();
            }
            word if word.starts_with("--dir=") => {}
            word => kept.push(word.to_owned()),
        }
    }
    let arguments = parse(&kept)?;
    let names: Vec<&str> =
        arguments.names.iter().chain(&arguments.workloads).map(String::as_str).collect();
    programs(&arguments, &names, ranks)
}

/// Refuses a direction in which nothing goes.
fn check_directions(asked: Directions, programs: &[Program]) -> Result<(), String> {
    let moves = |ways: Ways| {
        let writes = asked.writes() && ways != Ways::ReadOnly;
        writes || asked.reads() && ways != Ways::WriteOnly
    };
    for program in programs {
        if !program.parts.iter().any(|part| moves(part.ways())) {
            let shapes: Vec<String> = program.parts.iter().map(|part| part.shape()).collect();
            return Err(format!("--direction: nothing goes that way: {}", shapes.join(", ")));
        }
    }
    Ok(())
}

/// The reference, and at each level the strategies that make a difference there.
fn contenders(arguments: &Arguments) -> Vec<Contender> {
    let named = unique(&arguments.strategies);
    let strategies = named.iter().filter_map(|choice| match choice {
        Choice::Pario(strategy) => Some(*strategy),
        Choice::Plain(_) => None,
    });
    let strategies: Vec<Strategy> = strategies.collect();
    let asked = if named.is_empty() { default_strategies() } else { strategies };
    let levels = or_else(unique(&arguments.levels), || default_levels(&named));
    let mut contenders = vec![Contender::BlockIo];
    for level in levels.into_iter().filter_map(Level::new) {
        let plain = named.iter().filter_map(|choice| match choice {
            Choice::Plain(name) => Plain::at(name, level),
            Choice::Pario(_) => None,
        });
        contenders.extend(plain.map(Contender::Plain));
        // Who names only others wants no strategy of pario.
        if asked.is_empty() {
            continue;
        }
        for strategy in level.strategies(&asked, named.is_empty()) {
            contenders.push(Contender::Pario(Way { strategy, phases: None, level }));
        }
        if level == Level::CollectiveView {
            let phased =
                |&phases: &u32| Way { strategy: Strategy::MultiPhase, phases: Some(phases), level };
            contenders.extend(unique(&arguments.phases).iter().map(phased).map(Contender::Pario));
        }
    }
    contenders
}

/// Level 3, and the level of `posix` if that is named.
fn default_levels(named: &[Choice]) -> Vec<u8> {
    match named.contains(&Choice::Plain(POSIX)) {
        true => vec![0, 3],
        false => vec![3],
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
        _ if arguments.messages => {
            refused("--messages: under MPI, set PARIO_NODE_MEMORY=none instead".to_owned())
        }
        _ => Ok(Transport::Mpi { nodes: *nodes, library: mpi.clone() }),
    }
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

/// The name of a workload, or that of a description.
pub(crate) fn parse_workload(text: &str) -> Result<String, String> {
    if text.ends_with(DESCRIPTION) || KINDS.iter().any(|kind| kind.name == text) {
        return Ok(text.to_owned());
    }
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    Err(format!("use {} or FILE.toml", names.join(", ")))
}

fn parse_choice(text: &str) -> Result<Choice, String> {
    match [POSIX, ROMIO_LIKE].into_iter().find(|name| *name == text) {
        Some(name) => Ok(Choice::Plain(name)),
        None => {
            let strategy = text.parse().map_err(|error: pario::Error| error.to_string());
            strategy.map(Choice::Pario)
        }
    }
}

/// A number that is not less than another one.
pub(crate) fn parse_count(text: &str, least: u64) -> Result<u64, String> {
    let number: i128 = text.parse().map_err(|_| "not a whole number".to_owned())?;
    match u64::try_from(number) {
        Ok(count) if count >= least => Ok(count),
        Err(_) if number > 0 => Err("too large".to_owned()),
        _ => Err(format!("must be at least {least}")),
    }
}

/// A number of bytes, maybe with one of the suffixes K, M, G, T.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [('K', 1 << 10), ('M', MIB), ('G', 1 << 30), ('T', 1 << 40)];
    let with_unit = units.iter().find_map(|&(suffix, unit)| {
        Some((text.strip_suffix([suffix, suffix.to_ascii_lowercase()])?, unit))
    });
    let (digits, unit) = with_unit.unwrap_or((text, 1));
    let number: Option<u64> = digits.parse().ok();
    if digits.parse::<i64>().is_ok_and(|number| number < 0) {
        return Err("must be more than 0".to_owned());
    }
    match number.and_then(|number| number.checked_mul(unit)) {
        // Offsets in files have 63 bits.
        Some(bytes) if bytes > 0 && i64::try_from(bytes).is_ok() => Ok(bytes),
        Some(0) => Err("must be more than 0".to_owned()),
        Some(_) => Err("too large".to_owned()),
        None => Err("not a number of bytes, as 4096, 64K, 100M or 1G".to_owned()),
    }
}

pub(crate) fn parse_block(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    match bytes.is_multiple_of(ELEMENT_BYTES) {
        true => Ok(bytes),
        false => Err(format!("not a multiple of {ELEMENT_BYTES} bytes, the size of an element")),
    }
}

pub(crate) fn parse_directory(text: &str) -> Result<PathBuf, String> {
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
        for text in ["", "0", "-4", "4Q", "K", "9223372036854775808", "99999999999G"] {
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
