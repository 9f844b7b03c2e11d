//! What is to be measured: as it is asked for, and checked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pario::storage::Driver;
use pario::{HintSet, Hints, Strategy};

use crate::failure::Failure;
use crate::hint;
use crate::scenario::contender::{Choice, Contender, Level, POSIX, Plain, Way};
use crate::scenario::device::DeviceChoice;
use crate::scenario::workload::{Program, Ways};
use crate::scenario::workloads::{Workloads, unique};

const STRATEGY_HINT: &str = "pario_strategy";
const PHASES_HINT: &str = "pario_phases";

/// What a user asks for. What is not said has its default.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is written and read.
    pub workloads: Workloads,
    /// Number of ranks; under a launcher of MPI as many as it started.
    pub ranks: Option<u32>,
    /// How requests are made: levels 0 to 3.
    pub levels: Vec<u8>,
    /// Which files steps have.
    pub files: Files,
    /// Steps of each repetition; 1 unless it is said.
    pub steps: Option<u32>,
    /// How data lies in memory.
    pub memory: MemoryLayout,
    /// Who is measured; all strategies if none is named.
    pub contenders: Vec<Choice>,
    /// The drop-in library, for the contender of that name.
    pub drop_in: Option<PathBuf>,
    /// Also multi-phase with these numbers of phases.
    pub phases: Vec<u32>,
    /// Which way the bytes go.
    pub directions: Directions,
    /// Repetitions; the one with the median time counts.
    pub repeat: Option<u32>,
    /// No more repetitions of a workload after this time.
    pub seconds_max: Option<u32>,
    /// Where the files are; the system's temporary directory unless it is said.
    pub directory: Option<PathBuf>,
    /// A device that is emulated.
    pub device: Option<DeviceChoice>,
    /// Bytes of the page cache of that device.
    pub device_cache: Option<u64>,
    /// A limit of this machine's page cache.
    pub page_cache: Option<u64>,
    /// Whether the file is truncated before each write.
    pub fresh: bool,
    /// Whether each call is made once before it is measured.
    pub planned: bool,
    /// Hints for all strategies.
    pub hints: Vec<(String, String)>,
    /// What needs more storage calls is skipped.
    pub calls_max: Option<u64>,
    /// Level 1 is skipped where a rank needs more collective calls.
    pub collective_calls_max: Option<u64>,
    /// Whether nothing is skipped.
    pub all: bool,
    /// Nodes that are pretended; 1 unless it is said.
    pub nodes: Option<u32>,
    /// Whether ranks share no memory.
    pub messages: bool,
    /// Whether ranks are threads, even under a launcher of MPI.
    pub embedded: bool,
    /// Whether results are printed as JSON.
    pub json: bool,
    /// Whether it is printed what pario did.
    pub stats: bool,
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directions {
    /// Writes only.
    Write,
    /// Reads only.
    Read,
    /// Writes, then reads.
    #[default]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// One, again and again.
    #[default]
    Same,
    /// A new one for each step.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLayout {
    /// As in the papers' programs.
    #[default]
    Paper,
    /// Without gaps, in the order of the file.
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
    pub(crate) workloads: Workloads,
    pub(crate) programs: Vec<Program>,
    /// The reference, and what is compared with it.
    pub(crate) contenders: Vec<Contender>,
    pub(crate) drop_in: Option<PathBuf>,
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
    /// What options mean together, and with the ranks of MPI if they run there.
    ///
    /// # Errors
    /// `Usage` if they contradict each other.
    pub(crate) fn new(options: &Options, world: Option<&World>) -> Result<Settings, Failure> {
        let workloads = &options.workloads;
        let (repeat, calls_max, collective_calls_max) = match workloads.quick {
            true => (1, 500_000, 2_000),
            false => (3, 1_000_000, 20_000),
        };
        let ranks = options.ranks.unwrap_or_else(|| workloads.default_ranks());
        let ranks = world.map_or(ranks, |world| world.ranks);
        let transport = match world {
            Some(world) => on_mpi(options, world)?,
            None => on_threads(options, ranks)?,
        };
        let programs = workloads.programs(ranks, options.steps.unwrap_or(1));
        let programs = programs.map_err(Failure::Usage)?;
        check_directions(options.directions, &programs).map_err(Failure::Usage)?;
        let contenders = contenders(options);
        let calls_mpi = contenders.iter().find(|one| one.calls_mpi());
        if let (Some(contender), None) = (calls_mpi, world) {
            return Err(needs_mpi(contender.name()));
        }
        let (hint_set, hints) = hints(&options.hints, calls_mpi.is_some())?;
        let limit = |given: Option<u64>, default| (!options.all).then(|| given.unwrap_or(default));
        Ok(Settings {
            ranks,
            transport,
            workloads: workloads.clone(),
            programs,
            contenders,
            drop_in: options.drop_in.clone(),
            directions: options.directions,
            files: options.files,
            packed: options.memory == MemoryLayout::Packed,
            repeat: options.repeat.unwrap_or(repeat),
            time_max: options.seconds_max.map(|seconds| Duration::from_secs(seconds.into())),
            directory: options.directory.clone().unwrap_or_else(std::env::temp_dir),
            fresh: options.fresh,
            planned: options.planned,
            hint_set,
            hints,
            calls_max: limit(options.calls_max, calls_max),
            collective_calls_max: limit(options.collective_calls_max, collective_calls_max),
            json: options.json,
            stats: options.stats,
            device: device(options, world.is_some())?,
            page_cache_bytes: page_cache(options, world.is_some())?,
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
fn device(options: &Options, on_mpi: bool) -> Result<Option<NamedDriver>, Failure> {
    let Some(chosen) = &options.device else { return Ok(None) };
    if on_mpi {
        let text = "--device: processes would have one each; --embedded makes ranks threads";
        return Err(Failure::Usage(text.to_owned()));
    }
    let chosen = chosen.clone().cached(options.device_cache.unwrap_or(0));
    Ok(Some((chosen.full_name(), chosen.driver())))
}

/// The limit of the page cache; this process enters the group, so that ranks must be threads.
fn page_cache(options: &Options, on_mpi: bool) -> Result<Option<u64>, Failure> {
    if options.page_cache.is_some() && on_mpi {
        let text = "--page-cache: processes would have one each; --embedded makes ranks threads";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(options.page_cache)
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
fn contenders(options: &Options) -> Vec<Contender> {
    let named = unique(&options.contenders);
    let strategies = named.iter().filter_map(|choice| match choice {
        Choice::Pario(strategy) => Some(*strategy),
        Choice::Plain(_) | Choice::Mpi(_) => None,
    });
    let strategies: Vec<Strategy> = strategies.collect();
    let asked = if named.is_empty() { default_strategies() } else { strategies };
    let levels = match options.levels.is_empty() {
        true => default_levels(&named),
        false => unique(&options.levels),
    };
    let mut contenders = vec![Contender::BlockIo];
    for level in levels.into_iter().filter_map(Level::new) {
        let others = named.iter().filter_map(|choice| match *choice {
            Choice::Plain(name) => Plain::at(name, level).map(Contender::Plain),
            Choice::Mpi(whose) => Some(Contender::Mpi { whose, level }),
            Choice::Pario(_) => None,
        });
        contenders.extend(others);
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
            contenders.extend(unique(&options.phases).iter().map(phased).map(Contender::Pario));
        }
    }
    contenders
}

/// What to do about a contender that ranks in threads cannot have.
fn needs_mpi(name: &str) -> Failure {
    Failure::Usage(format!(
        "--contenders {name}: it calls MPI, and these ranks are threads. Start them with mpirun \
         and without --embedded, as in: mpirun -n 4 pario bench --contenders pario,{name}"
    ))
}

/// Level 3, and the level of `posix` if that is named.
fn default_levels(named: &[Choice]) -> Vec<u8> {
    match named.contains(&Choice::Plain(POSIX)) {
        true => vec![0, 3],
        false => vec![3],
    }
}

fn on_threads(options: &Options, ranks: u32) -> Result<Transport, Failure> {
    let nodes = options.nodes.unwrap_or(1);
    match nodes > ranks {
        true => Err(Failure::Usage(format!("--nodes {nodes}: more than {ranks} ranks"))),
        false => Ok(Transport::Threads { nodes, share_memory: !options.messages }),
    }
}

fn on_mpi(options: &Options, world: &World) -> Result<Transport, Failure> {
    let World { ranks, nodes, mpi } = world;
    let refused = |text: String| Err(Failure::Usage(text));
    match options.ranks {
        Some(asked) if asked != *ranks => {
            refused(format!("--ranks {asked}: mpirun has started {ranks}"))
        }
        _ if options.nodes.is_some_and(|nodes| nodes > 1) => {
            refused("--nodes: MPI has its own".to_owned())
        }
        _ if options.messages => {
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

/// The hints, if all of them have an effect. The MPI library may have hints of its own.
fn hints(given: &[(String, String)], calls_mpi: bool) -> Result<(HintSet, Hints), Failure> {
    if let Some((key, value)) = given.iter().find(|(key, _)| key == STRATEGY_HINT) {
        return Err(Failure::Usage(format!("--hint {key}={value}: use --strategies {value}")));
    }
    match calls_mpi {
        true => Ok(hint::resolve_with_mpi(given)),
        false => hint::resolve(given),
    }
}

/// The hints that make pario use a strategy, with a number of phases if that is given.
pub(crate) fn with_strategy(hints: &HintSet, strategy: Strategy, phases: Option<u32>) -> HintSet {
    let hints = hints.clone().with(STRATEGY_HINT, strategy.name());
    match phases {
        Some(phases) => hints.with(PHASES_HINT, phases.to_string()),
        None => hints,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_of_pario_is_measured_last() {
        let strategies = default_strategies();
        assert_eq!(strategies.len(), Strategy::all().count());
        assert_eq!(strategies.last(), Some(&Strategy::Auto));
    }

    #[test]
    fn hints_without_effect_are_refused() {
        let pair = |key: &str, value: &str| [(key.to_owned(), value.to_owned())];
        let aggregators = |key, value, calls_mpi| {
            hints(&pair(key, value), calls_mpi).map(|(_, hints)| hints.aggregators)
        };
        assert_eq!(aggregators("cb_nodes", "3", false).unwrap(), Some(3));
        let refused = |key, value, calls_mpi| {
            matches!(aggregators(key, value, calls_mpi), Err(Failure::Usage(_)))
        };
        for (key, value) in [("cb_node", "3"), ("cb_nodes", "x"), ("pario_strategy", "list")] {
            assert!(refused(key, value, false), "{key}={value}");
        }
        // It may be one of the MPI library's.
        assert!(!refused("fcoll", "vulcan", true) && refused("pario_strategy", "list", true));
    }

    #[test]
    fn contenders_that_call_mpi_need_it() {
        let contenders = vec!["pario".parse().unwrap(), "mpi".parse().unwrap()];
        let workloads = Workloads { quick: true, ..Workloads::default() };
        let options = Options { workloads, contenders, ..Options::default() };
        let Err(Failure::Usage(text)) = Settings::new(&options, None) else { panic!("threads") };
        assert!(text.contains("mpirun -n 4 pario bench --contenders pario,mpi"), "{text}");
        let world = World { ranks: 4, nodes: 1, mpi: "an MPI".to_owned() };
        let settings = Settings::new(&options, Some(&world)).map_err(|_| ()).unwrap();
        let names: Vec<&str> = settings.contenders.iter().map(|one| one.name()).collect();
        assert_eq!(names, ["block", "mpi", "auto"]);
    }
}
