//! The command line of `pario bench`.

use std::path::PathBuf;
use std::thread;

use clap::{Args, value_parser};
use pario_lab::failure::Failure;
use pario_lab::measure::{self, Directions, Files, MemoryLayout, Options};
use pario_lab::scenario::contender::{Choice, Implementation};
use pario_lab::scenario::device::{self, DeviceChoice};
use pario_lab::scenario::workload::Catalogue;
use pario_lab::scenario::workloads::{Workloads, parse_name};
use pario_lab::{hint, size};

use crate::library;
use crate::values::{self, Named};

pub(crate) const DIRECTIONS: [Named<Directions>; 3] = [
    ("write", "Writes only", Directions::Write),
    ("read", "Reads only", Directions::Read),
    ("both", "Writes, then reads", Directions::Both),
];

const FILES: [Named<Files>; 2] =
    [("same", "One, again and again", Files::Same), ("new", "A new one for each step", Files::New)];

const MEMORY: [Named<MemoryLayout>; 2] = [
    ("paper", "As in the papers' programs", MemoryLayout::Paper),
    ("packed", "Without gaps, in the order of the file", MemoryLayout::Packed),
];

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
pub(crate) struct Arguments {
    /// What to write and read: names of workloads (see below), or a file FILE.toml that describes a
    /// pattern [default: block-cyclic, dist3d]
    #[arg(value_name = "WORKLOAD", value_parser = parse_name)]
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
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    bytes: Option<u64>,

    /// Block sizes of the workload block-cyclic, in bytes [default: 4,64,512,4K,64K]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = values::block)]
    blocks: Vec<u64>,

    /// Edge of the cube of the workloads dist3d and btio
    #[arg(long, value_name = "N", value_parser = |text: &str| values::count(text, 1))]
    edge: Option<u64>,

    /// Workloads, as the arguments without an option
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_name)]
    workloads: Vec<String>,

    /// How requests are made: 0 an independent call for each contiguous piece, 1 a collective call
    /// for each piece, 2 independent calls with a view, 3 collective calls with a view
    /// [default: 3; with posix 0,3]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u8).range(0..=3))]
    levels: Vec<u8>,

    /// same: one file, written again in each step. new: a new file for each step; then the time
    /// from open to close is measured, too
    #[arg(long, value_parser = values::one_of(&FILES), default_value = "same")]
    files: Files,

    /// Steps of each repetition; the file stays open between them, unless each has its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    steps: u32,

    /// Memory as the papers' programs have it, with ghost cells and the like, or without gaps
    #[arg(long, value_parser = values::one_of(&MEMORY), default_value = "paper")]
    memory: MemoryLayout,

    /// Who is measured: pario (its own choice), or pario with a strategy: direct, list, sieve,
    /// two-phase, gather, multi-phase, inspector-executor, auto [default: all strategies]. mpi: the
    /// MPI library's own MPI_File_*, called as a program in C does, with the hints that are given;
    /// drop-in: the same calls served by pario's drop-in library. posix: a system call for each
    /// piece; romio-like: what papers 003 and 004 say of ROMIO, at levels 2 and 3. sieve skips
    /// holes above pario_sieve_hole_bytes, romio-like does not; inspector-executor is multi-phase
    /// with all phases
    #[arg(long, visible_alias = "strategies", value_name = "NAME,...", value_delimiter = ',')]
    contenders: Vec<Choice>,

    /// The library of drop-in [default: libpario_mpi.so beside this program, or in ../lib]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,

    /// Also multi-phase with these numbers of phases, such as 0,1,2,3,4
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u32).range(0..=9))]
    phases: Vec<u32>,

    /// Writes, reads or both
    #[arg(long, value_parser = values::one_of(&DIRECTIONS), default_value = "both")]
    direction: Directions,

    /// Repetitions; each line shows the one with the median time [default: 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,

    /// No more repetitions of a workload after this time; there is one at least
    #[arg(long, value_name = "S", value_parser = value_parser!(u32).range(1..=86400))]
    seconds_max: Option<u32>,

    /// Directory for the file, which is removed at the end [default: the system's temporary
    /// directory]
    #[arg(long, value_name = "DIR", value_parser = values::directory)]
    dir: Option<PathBuf>,

    /// Emulate a device, which must be slower than the real one: hdd, sata-ssd, nvm, or FILE.toml
    /// with positioning_us, latency_us, read_bytes_per_s and write_bytes_per_s; ranks must be
    /// threads
    #[arg(long, value_name = "DEVICE", value_parser = device::parse)]
    device: Option<DeviceChoice>,

    /// Page cache of that device
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "device")]
    device_cache: Option<u64>,

    /// Limit this machine's page cache during the measured calls, by a control group. The file is
    /// dropped from the cache before each call. Needs root; ranks must be threads
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "planned")]
    page_cache: Option<u64>,

    /// Truncate the file before each write; otherwise writes overwrite it
    #[arg(long)]
    fresh: bool,

    /// Make each call once before it is measured, so that its plan is known
    #[arg(long, conflicts_with_all = ["fresh", "files"])]
    planned: bool,

    /// A hint for all strategies, such as cb_nodes=4; may be repeated. One without effect is
    /// refused: the times would be those of other hints. With mpi, the MPI library gets it, too,
    /// and may have hints that pario does not know
    #[arg(long = "hint", value_name = "KEY=VALUE", value_parser = hint::parse)]
    hints: Vec<(String, String)>,

    /// Skip what needs more than N storage calls, by a rough estimate [default: 1000000, with
    /// --quick 500000]
    #[arg(long, value_name = "N", value_parser = |text: &str| values::count(text, 0))]
    calls_max: Option<u64>,

    /// Skip level 1 where a rank needs more than N collective calls [default: 20000, with
    /// --quick 2000]
    #[arg(long, value_name = "N", value_parser = |text: &str| values::count(text, 0))]
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
  mpirun -n 8 pario bench --contenders pario,mpi --dir /scratch
  mpirun -n 8 pario bench btio --contenders pario,posix,romio-like,mpi --hint cb_nodes=2
  mpirun -n 8 pario bench --contenders mpi,drop-in --files new
  pario bench --nodes 4 --messages --hint cb_nodes=4 --dir /scratch --json > results.jsonl";

/// What follows the options: the workloads, then how it is measured.
fn after_help() -> String {
    format!("{Catalogue}\n{EXAMPLES}")
}

/// Runs the subcommand.
///
/// # Errors
/// As [`measure::run`].
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.end_with_stdin {
        thread::spawn(measure::end_with_stdin);
    }
    measure::run(&arguments.options()?)
}

impl Arguments {
    /// What they ask for.
    fn options(self) -> Result<Options, Failure> {
        let names = [self.names, self.workloads].concat();
        let wants_drop_in = self.contenders.contains(&Choice::Mpi(Implementation::DropIn));
        let drop_in = wants_drop_in.then(|| library::find(self.library.as_deref())).transpose()?;
        Ok(Options {
            workloads: Workloads {
                names,
                parameters: self.parameters,
                bytes: self.bytes,
                blocks: self.blocks,
                edge: self.edge,
                quick: self.quick,
            },
            ranks: self.ranks,
            levels: self.levels,
            files: self.files,
            steps: Some(self.steps),
            memory: self.memory,
            contenders: self.contenders,
            drop_in,
            phases: self.phases,
            directions: self.direction,
            repeat: self.repeat,
            seconds_max: self.seconds_max,
            directory: self.dir,
            device: self.device,
            device_cache: self.device_cache,
            page_cache: self.page_cache,
            fresh: self.fresh,
            planned: self.planned,
            hints: self.hints,
            calls_max: self.calls_max,
            collective_calls_max: self.collective_calls_max,
            all: self.all,
            nodes: Some(self.nodes),
            messages: self.messages,
            embedded: self.embedded,
            json: self.json,
            stats: self.stats,
        })
    }
}
