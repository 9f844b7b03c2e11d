//! Ranks that run a program and compare what they see with what the oracle expects.
//!
//! One asynchronous function is the program of a rank on every transport. Where ranks are threads
//! it makes blocking calls; where they are simulated it awaits non-blocking ones instead, because
//! nobody may block there, and a planned call is made as a plain one, since plans have no
//! asynchronous form.
//!
//! There is a barrier after each step; the last rank to arrive compares the file and the shared
//! pointer while no rank touches them. A rank that finds a difference goes on to the barrier, after
//! which all ranks end.

use super::barrier::{Attendance, Barrier};
use super::device::Limited;
use super::oracle::{self, Expected};
use super::{Program, actor::Actor};
use crate::shrink::caught;
use pario::{Communicator, File, Simulated, Threads};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

const PATH: &str = "program";
/// Memory of a rank in which others place bytes: few, so that programs need several rounds.
const LITTLE_BYTES: usize = 1000;

/// How the ranks of a program talk to each other.
#[derive(Clone, Copy, Debug)]
pub enum Transport {
    /// Threads that share memory.
    SharedMemory,
    /// The same with room for a few short windows.
    LittleMemory,
    /// Threads on this number of pretended nodes, which send messages.
    Messages(u32),
    /// One thread, in an order that a seed decides.
    Simulated(u64),
}

/// Runs a program; an error says what was wrong.
///
/// # Errors
///
/// If anything differs from what the oracle expects.
pub fn run(program: &Program, transport: Transport) -> Result<(), String> {
    run_counting(program, transport).map(drop)
}

/// Runs a program; returns how many bytes were written through a mapping of the file.
///
/// # Errors
///
/// As [`run`].
pub fn run_counting(program: &Program, transport: Transport) -> Result<u64, String> {
    let expected = oracle::apply(program).map_err(|error| format!("no program: {error}"))?;
    let driver = Limited::new(program.device);
    if let Some(initial) = program.initial() {
        driver.put(PATH, &initial);
    }
    let world = Arc::new(World {
        program: program.clone(),
        expected,
        driver: Arc::new(driver),
        barrier: Barrier::new(program.ranks),
        may_block: !matches!(transport, Transport::Simulated(_)),
        differences: Mutex::default(),
    });
    let ranks = u32::try_from(program.ranks).expect("few ranks");
    let ended = match transport {
        Transport::SharedMemory => on_threads(&world, &Threads::new(ranks)),
        Transport::LittleMemory => {
            on_threads(&world, &Threads::new(ranks).shared_bytes(LITTLE_BYTES))
        }
        Transport::Messages(nodes) => {
            on_threads(&world, &Threads::new(ranks).nodes(nodes).share_memory(false))
        }
        Transport::Simulated(seed) => simulated(&world, ranks, seed),
    };
    let mut differences = world.take_differences();
    differences.extend(ended.err());
    match differences.as_slice() {
        [] => Ok(world.driver.mapped_bytes()),
        some => Err(some.join("\n")),
    }
}

fn on_threads(world: &Arc<World>, threads: &Threads) -> Result<(), String> {
    let results = threads.try_run(|comm| {
        let work = || {
            let attendance = Attendance(&world.barrier);
            comm.block_on(pin!(rank_program(world.clone(), comm.clone())));
            drop(attendance);
        };
        if let Err(text) = caught(work) {
            world.differ(format!("rank {}: {text}", comm.rank()));
            // The others must learn that this rank is gone.
            std::panic::resume_unwind(Box::new("a rank panicked"));
        }
    });
    match results.iter().all(Result::is_ok) {
        true => Ok(()),
        false => Err("a rank panicked".to_string()),
    }
}

fn simulated(world: &Arc<World>, ranks: u32, seed: u64) -> Result<(), String> {
    let shared_bytes = match seed % 3 {
        0 => 0,
        1 => LITTLE_BYTES,
        _ => 1 << 20,
    };
    let ranks = Simulated::new(ranks, seed).shared_bytes(shared_bytes);
    caught(|| ranks.run(|comm| rank_program(world.clone(), comm)))?;
    Ok(())
}

/// What all ranks know.
pub(super) struct World {
    pub(super) program: Program,
    pub(super) expected: Vec<Expected>,
    driver: Arc<Limited>,
    pub(super) barrier: Barrier,
    /// Whether blocking calls can be made.
    pub(super) may_block: bool,
    differences: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn differ(&self, text: String) {
        self.differences.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn is_well(&self) -> bool {
        self.differences.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take_differences(&self) -> Vec<String> {
        std::mem::take(&mut self.differences.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compares the bytes of the file, and records where they differ.
    pub(super) fn compare_file(&self, when: &str, wanted: Option<&[u8]>) {
        let found = self.driver.contents(PATH);
        match (wanted, found) {
            (None, None) => {}
            (Some(wanted), Some(found)) => {
                if let Some(text) = difference(&found, wanted) {
                    self.differ(format!("file after {when}: {text}"));
                }
            }
            (_, found) => {
                self.differ(format!("after {when}: the file exists: {}", found.is_some()));
            }
        }
    }
}

/// Where bytes differ first.
pub(super) fn difference(found: &[u8], wanted: &[u8]) -> Option<String> {
    let pairs = found.iter().zip(wanted);
    let first = pairs.enumerate().find(|(_, (one, two))| one != two);
    let sizes = format!("{} bytes, expected {}", found.len(), wanted.len());
    match first {
        Some((at, (one, two))) => Some(format!("byte {at} is {one}, expected {two}; {sizes}")),
        None if found.len() != wanted.len() => Some(sizes),
        None => None,
    }
}

/// One rank, from the open to the close.
async fn rank_program(world: Arc<World>, comm: Arc<dyn Communicator>) {
    let file = match open(&world, &*comm).await {
        Ok(file) => file,
        Err(error) => return world.differ(format!("rank {}: open: {error}", comm.rank())),
    };
    let rank = usize::try_from(comm.rank()).expect("few ranks");
    for number in 0..world.program.steps.len() {
        let actor = Actor { world: &world, file: &file, rank, number };
        if let Err(text) = actor.step().await {
            actor.differ(&text);
        }
        world.barrier.meet(|| actor.compare()).await;
        if !world.is_well() {
            return;
        }
    }
    // Nobody closes, and deletes the file, before the last comparison.
    if let Err(error) = file.handle().close().await {
        world.differ(format!("rank {rank}: close: {error}"));
    }
    let last = || {
        let initial = world.program.initial().unwrap_or_default();
        let wanted = world.expected.last().map_or(&initial, |expected| &expected.file);
        let deleted = world.program.mode.delete_on_close;
        world.compare_file("close", (!deleted).then_some(wanted));
    };
    world.barrier.meet(last).await;
}

async fn open(world: &World, comm: &dyn Communicator) -> pario::Result<File> {
    let mode = world.program.mode;
    let mut options = File::options()
        .read(mode.read)
        .write(mode.write)
        .create(mode.create)
        .exclusive(mode.exclusive)
        .append(mode.append)
        .sequential(mode.sequential)
        .delete_on_close(mode.delete_on_close)
        .unique_open(mode.unique_open)
        .driver(world.driver.clone());
    for (key, value) in &world.program.hints {
        options = options.hint(key, value);
    }
    match world.may_block {
        true => options.open(comm, PATH),
        false => options.open_async(comm, PATH).await,
    }
}
