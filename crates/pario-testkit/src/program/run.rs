//! Ranks that run a program and compare what they see with what the oracle expects.
//!
//! One asynchronous function is the program of a rank on every transport. Where ranks are threads
//! it makes blocking calls; where they are simulated it awaits non-blocking ones instead, because
//! nobody may block there, and a planned call is made as a plain one, since plans have no
//! asynchronous form.
//!
//! After a step all ranks meet; the last to come compares the file and the shared pointer while
//! nobody touches them. A rank that finds a difference goes on to the meeting, where all leave.

use super::device::Limited;
use super::meeting::{Attendance, Meeting};
use super::oracle::{self, Expected, Outcome};
use super::{Call, Piece, Pointer, Program, Step, Transfer, Views};
use crate::shrink::caught;
use pario::storage::Memory;
use pario::{
    Communicator, File, HintSet, OwnedBuffer, Pending, Position, Representation, Simulated, Source,
    Split, Status, Target, Threads, Typed, View,
};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

const PATH: &str = "program";

/// How the ranks of a program talk to each other.
#[derive(Clone, Copy, Debug)]
pub enum Transport {
    /// Threads that use each other's memory.
    SharedMemory,
    /// Threads on so many pretended nodes, which send messages.
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
    let expected = oracle::apply(program).map_err(|error| format!("no program: {error}"))?;
    let memory = Memory::new();
    if let Some(initial) = program.initial() {
        memory.put(PATH, &initial);
    }
    let world = Arc::new(World {
        program: program.clone(),
        expected,
        driver: Arc::new(Limited::new(&memory, program.device)),
        memory,
        meeting: Meeting::new(program.ranks),
        may_block: !matches!(transport, Transport::Simulated(_)),
        differences: Mutex::default(),
    });
    let ranks = u32::try_from(program.ranks).expect("few ranks");
    let ended = match transport {
        Transport::SharedMemory => on_threads(&world, &Threads::new(ranks)),
        Transport::Messages(nodes) => {
            on_threads(&world, &Threads::new(ranks).nodes(nodes).share_memory(false))
        }
        Transport::Simulated(seed) => simulated(&world, ranks, seed),
    };
    let mut differences = world.take_differences();
    differences.extend(ended.err());
    match differences.as_slice() {
        [] => Ok(()),
        some => Err(some.join("\n")),
    }
}

fn on_threads(world: &Arc<World>, threads: &Threads) -> Result<(), String> {
    let results = threads.try_run(|comm| {
        let work = || {
            let attendance = Attendance(&world.meeting);
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
    let ranks = Simulated::new(ranks, seed).share_memory(seed.is_multiple_of(3));
    caught(|| ranks.run(|comm| rank_program(world.clone(), comm)))?;
    Ok(())
}

/// What all ranks know.
struct World {
    program: Program,
    expected: Vec<Expected>,
    memory: Memory,
    driver: Arc<Limited>,
    meeting: Meeting,
    /// Whether blocking calls can be made.
    may_block: bool,
    differences: Mutex<Vec<String>>,
}

impl World {
    fn differ(&self, text: String) {
        self.differences.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn is_well(&self) -> bool {
        self.differences.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take_differences(&self) -> Vec<String> {
        std::mem::take(&mut self.differences.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compares the bytes of the file, and notes where they differ.
    fn compare_file(&self, when: &str, wanted: Option<&[u8]>) {
        let found = self.memory.contents(PATH);
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
fn difference(found: &[u8], wanted: &[u8]) -> Option<String> {
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
        world.meeting.meet(|| actor.compare()).await;
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
    world.meeting.meet(last).await;
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

/// A rank in a step.
struct Actor<'a> {
    world: &'a World,
    file: &'a File,
    rank: usize,
    number: usize,
}

/// The text of an error, or of a value that is not the expected one.
type Checked = Result<(), String>;

fn text(error: pario::Error) -> String {
    error.to_string()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Checked {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{what} is {found:?}, expected {wanted:?}")),
    }
}

impl Actor<'_> {
    fn differ(&self, text: &str) {
        self.world.differ(format!("rank {}, step {}: {text}", self.rank, self.number));
    }

    fn expected(&self) -> &Expected {
        &self.world.expected[self.number]
    }

    /// What the last rank compares while the others wait.
    fn compare(&self) {
        let expected = self.expected();
        self.world.compare_file(&format!("step {}", self.number), Some(&expected.file));
        let shared = self.file.position_shared().map_err(text);
        let size = self.file.size().map_err(text);
        let checked = shared
            .and_then(|found| same("the shared pointer", found, expected.shared))
            .and(size.and_then(|found| same("the size", found, oracle::wide(expected.file.len()))));
        if let Err(text) = checked {
            self.differ(&text);
        }
    }

    async fn step(&self) -> Checked {
        let file = self.file;
        match &self.world.program.steps[self.number] {
            Step::View(views) => self.set_view(views).await?,
            Step::Transfers(transfers) => self.transfers(transfers).await?,
            Step::Seek(targets) => {
                let position = file.seek(targets[self.rank]).map_err(text)?;
                same("the result of seek", position, self.expected().pointers[self.rank])?;
            }
            Step::SeekShared(target) => {
                let position = match self.world.may_block {
                    true => file.seek_shared(*target),
                    false => file.handle().seek_shared(*target).await,
                };
                same("the result of seek_shared", position.map_err(text)?, self.expected().shared)?;
            }
            Step::SetSize(bytes) => match self.world.may_block {
                true => file.set_size(*bytes).map_err(text)?,
                false => file.handle().set_size(*bytes).await.map_err(text)?,
            },
            Step::Preallocate(bytes) => match self.world.may_block {
                true => file.preallocate(*bytes).map_err(text)?,
                false => file.handle().preallocate(*bytes).await.map_err(text)?,
            },
            Step::Sync => match self.world.may_block {
                true => file.sync().map_err(text)?,
                false => file.handle().sync().await.map_err(text)?,
            },
            Step::Atomicity(on) => {
                match self.world.may_block {
                    true => file.set_atomicity(*on).map_err(text)?,
                    false => file.handle().set_atomicity(*on).await.map_err(text)?,
                }
                same("atomicity", file.atomicity(), *on)?;
            }
            Step::Hints(hints) => {
                let given =
                    hints.iter().fold(HintSet::new(), |set, (key, value)| set.with(key, value));
                match self.world.may_block {
                    true => file.set_hints(&given).map_err(text)?,
                    false => file.handle().set_hints(&given).await.map_err(text)?,
                }
            }
        }
        same("the own pointer", file.position(), self.expected().pointers[self.rank])
    }

    async fn set_view(&self, views: &Views) -> Checked {
        let (displacement, filetype) = &views.ranks[self.rank];
        let etype = views.etype.build().map_err(text)?;
        let filetype = filetype.build().map_err(text)?;
        let representation = match views.external {
            true => Representation::External32,
            false => Representation::Native,
        };
        let view = View::new(*displacement, &etype, &filetype).with_representation(representation);
        match self.world.may_block {
            true => self.file.set_view(&view).map_err(text),
            false => self.file.handle().set_view(&view).await.map_err(text),
        }
    }

    /// Begins all calls of a step, then waits for those that are under way.
    async fn transfers(&self, transfers: &[Transfer]) -> Checked {
        let mut checked = Ok(());
        let mut running = Vec::new();
        for (nth, transfer) in transfers.iter().enumerate() {
            let turns = if transfer.in_turns { self.world.program.ranks } else { 1 };
            for turn in 0..turns {
                if !transfer.in_turns || turn == self.rank {
                    let begun = self.begin(nth, transfer);
                    match begun {
                        Ok(Some(under_way))
                            if transfer.call == Call::Nonblocking && !transfer.in_turns =>
                        {
                            running.push((nth, under_way))
                        }
                        Ok(Some(under_way)) if matches!(under_way, Running::Split(_)) => {
                            running.push((nth, under_way));
                        }
                        Ok(Some(under_way)) => {
                            let (status, buffer) = under_way.end().await;
                            checked = checked.and(self.check(nth, 0, status, &buffer));
                        }
                        Ok(None) => {}
                        Err(text) => checked = checked.and(Err(text)),
                    }
                }
                if transfer.in_turns {
                    self.world.meeting.meet(|| {}).await;
                }
            }
        }
        for (nth, under_way) in running {
            let (status, buffer) = under_way.end().await;
            checked = checked.and(self.check(nth, 0, status, &buffer));
        }
        checked
    }

    /// Makes or begins one call; returns it if it must be waited for.
    fn begin(&self, nth: usize, transfer: &Transfer) -> Result<Option<Running>, String> {
        let nothing = Piece { at: 0, count: 0, memory: None };
        let piece = match &transfer.pieces[self.rank] {
            None if !transfer.collective => return Ok(None),
            piece => piece.as_ref().unwrap_or(&nothing),
        };
        let position = match transfer.pointer {
            Pointer::Explicit => Position::At(piece.at),
            Pointer::Individual => Position::Individual,
            Pointer::Shared => Position::Shared,
        };
        let call = match (transfer.call, self.world.may_block) {
            (Call::Planned(_), true) => return self.planned(nth, transfer, (position, piece)),
            (Call::Planned(_), false) => Call::Blocking,
            (call, _) => call,
        };
        let last = transfer.call.runs() - 1;
        let buffer = Memorized::new(piece, self.outcome(nth, last).map(|outcome| &*outcome))?;
        let file = self.file;
        let started = match (call, transfer.write, transfer.collective) {
            (Call::Blocking, ..) if self.world.may_block => {
                let (status, buffer) = self.blocking(transfer, position, buffer);
                return self.check(nth, 0, status, &buffer).map(|()| None);
            }
            (Call::Split, true, _) if self.world.may_block => {
                let split = file.write_all_begin(position, buffer).map_err(text)?;
                return Ok(Some(Running::Split(split)));
            }
            (Call::Split, false, _) if self.world.may_block => {
                let split = file.read_all_begin(position, buffer).map_err(text)?;
                return Ok(Some(Running::Split(split)));
            }
            (_, true, true) => file.iwrite_all(position, buffer),
            (_, true, false) => file.iwrite(position, buffer),
            (_, false, true) => file.iread_all(position, buffer),
            (_, false, false) => file.iread(position, buffer),
        };
        Ok(Some(Running::Pending(started)))
    }

    fn blocking(
        &self,
        transfer: &Transfer,
        position: Position,
        mut buffer: Memorized,
    ) -> (pario::Result<Status>, Memorized) {
        let file = self.file;
        let status = match (transfer.write, transfer.collective) {
            (true, true) => buffer.source().and_then(|source| file.write_all(position, source)),
            (true, false) => buffer.source().and_then(|source| file.write(position, source)),
            (false, true) => buffer.target().and_then(|target| file.read_all(position, target)),
            (false, false) => buffer.target().and_then(|target| file.read(position, target)),
        };
        (status, buffer)
    }

    /// Plans a call and runs the plan as often as the program says.
    fn planned(
        &self,
        nth: usize,
        transfer: &Transfer,
        (position, piece): (Position, &Piece),
    ) -> Result<Option<Running>, String> {
        let datatype = match &piece.memory {
            Some(memory) => memory.build().map_err(text)?,
            None => pario::Datatype::byte(),
        };
        let plan = match transfer.write {
            true => self.file.plan_write_all(position, piece.count, &datatype),
            false => self.file.plan_read_all(position, piece.count, &datatype),
        };
        let plan = plan.map_err(text)?;
        let mut checked = Ok(None);
        for run in 0..transfer.call.runs() {
            let mut buffer = Memorized::new(piece, self.outcome(nth, run))?;
            let status = match transfer.write {
                true => buffer.source().and_then(|from| self.file.write_planned(&plan, from)),
                false => buffer.target().and_then(|into| self.file.read_planned(&plan, into)),
            };
            checked = checked.and(self.check(nth, run, status, &buffer).map(|()| None));
        }
        checked
    }

    /// What must become of a call of this rank; `None` if it has nothing to move.
    fn outcome(&self, nth: usize, run: usize) -> Option<&Outcome> {
        self.expected().outcomes[nth][self.rank].get(run)
    }

    fn check(
        &self,
        nth: usize,
        run: usize,
        status: pario::Result<Status>,
        buffer: &Memorized,
    ) -> Checked {
        let status = status.map_err(text)?;
        // Where plans are not available, the last of their runs is the only one.
        let run = if self.world.may_block { run } else { self.last_run(nth) };
        let (moved, after) = match self.outcome(nth, run) {
            Some(outcome) => (outcome.moved, outcome.after.as_slice()),
            None => (0, &[][..]),
        };
        same("Status::bytes", status.bytes, moved)?;
        match difference(buffer.bytes(), after) {
            Some(text) => Err(format!("memory of transfer {nth}: {text}")),
            None => Ok(()),
        }
    }

    fn last_run(&self, nth: usize) -> usize {
        self.expected().outcomes[nth][self.rank].len().saturating_sub(1)
    }
}

/// A call that has begun.
enum Running {
    Pending(Pending<Memorized>),
    Split(Split<Memorized>),
}

impl Running {
    async fn end(self) -> (pario::Result<Status>, Memorized) {
        match self {
            Running::Pending(pending) => pending.await,
            Running::Split(split) => split.end(),
        }
    }
}

/// The memory of a piece.
enum Memorized {
    Plain(Vec<u8>),
    Typed(Typed),
}

impl Memorized {
    fn new(piece: &Piece, outcome: Option<&Outcome>) -> Result<Memorized, String> {
        let (bytes, origin) = match outcome {
            Some(outcome) => (outcome.before.clone(), outcome.origin),
            None => (Vec::new(), 0),
        };
        Ok(match &piece.memory {
            None => Memorized::Plain(bytes),
            Some(memory) => {
                let datatype = memory.build().map_err(text)?;
                Memorized::Typed(Typed { bytes, origin, count: piece.count, datatype })
            }
        })
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Memorized::Plain(bytes) => bytes,
            Memorized::Typed(typed) => &typed.bytes,
        }
    }
}

impl OwnedBuffer for Memorized {
    fn source(&self) -> pario::Result<Source<'_>> {
        match self {
            Memorized::Plain(bytes) => bytes.source(),
            Memorized::Typed(typed) => typed.source(),
        }
    }

    fn target(&mut self) -> pario::Result<Target<'_>> {
        match self {
            Memorized::Plain(bytes) => bytes.target(),
            Memorized::Typed(typed) => typed.target(),
        }
    }
}
