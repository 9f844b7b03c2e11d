//! Reads and writes: from the call to the executor.
//!
//! `begin` does what belongs to the moment of the call; `run` is the future that does the rest:
//! request, access, plan, exchange, storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::handle::{Handle, State};
use super::kept::Setting;
use super::pending::Done;
use super::{Plan, Status};
use crate::access::{Access, Buffer, InMemory, Source, Target};
use crate::comm::collective::broadcast;
use crate::comm::{CoreWork, catch_up, charge, since};
use crate::datatype::signature::{Form, Signature};
use crate::datatype::wire::{Reader, Writer};
use crate::direction::Direction;
use crate::error::{Error, ErrorClass, Result};
use crate::escaped::escaped;
use crate::exchange::inspect::{Circumstances, Known, Outlook, alone, together};
use crate::exchange::{Gate, Job, Prepared};
use crate::hints::Hints;
use crate::number::{index, narrow, wide};
use crate::plan::{Learned, Lesson, Steps, is_left_open, plain_writes_lock};
use crate::request::{self, Kind, Position};
use crate::statistics::CallStatistics;
use crate::view::{CompiledView, Representation};

/// A call that has begun: everything that the moment of the call decides.
pub(super) struct Begun {
    pub(super) kind: Kind,
    call: u64,
    view: Arc<CompiledView>,
    hints: Arc<Hints>,
    atomic: bool,
    /// Whether the rank makes no other call on the file before the end of this one.
    blocking: bool,
    /// Keeps other collectives of this rank, in other threads, from being blocking as well.
    _alone: Option<Alone>,
    /// The etype position, or what is wrong with the request.
    place: Result<u64>,
    /// The file pointer before and after the call, if the call moved it.
    pointer: Option<(u64, u64)>,
    /// Whether the position is at the shared pointer, in the order of the ranks, and still open.
    ordered: bool,
    /// Calls handed over before a collective, which end first: then no byte of this rank is on
    /// its way while windows with holes are read and written back.
    earlier: Vec<Arc<Done>>,
}

/// The one blocking collective of a rank on a file. What two of them shared, neither could use.
pub(super) struct Alone(Arc<AtomicBool>);

impl Alone {
    fn new(taken: &Arc<AtomicBool>) -> Option<Alone> {
        (!taken.swap(true, Ordering::Acquire)).then(|| Alone(taken.clone()))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// One run of memory, and which way its bytes go.
pub(super) enum Run<'a> {
    Write(&'a [u8]),
    Read(&'a mut [u8]),
}

impl<'a> Run<'a> {
    /// All data of a buffer, if it is contiguous.
    pub(super) fn of(kind: Kind, buffer: &'a Buffer) -> Option<Run<'a>> {
        let all = 0..buffer.len();
        match kind.direction {
            Direction::Write => buffer.contiguous(&all).map(Run::Write),
            Direction::Read => buffer.contiguous_mut(&all).map(Run::Read),
        }
    }
}

/// Straight calls of fewer bytes are timed only once in [`TIMED_CALLS`], for all since the last
/// one; they take no longer than the time since then.
const TIMED_BYTES: u64 = 16 << 10;
const TIMED_CALLS: u32 = 64;
/// How often an equal request gets another plan.
const SWITCHES_MAX: u32 = 4;
/// The least part of a conversion: each part is a call of its own, which must move an element.
const PART_BYTES_MIN: u64 = 64;

/// The time of the calls since the last one that was timed, from that of one of them.
fn time_of_all(one: Duration, since_last: Option<Duration>) -> Duration {
    since_last.map_or(one, |since| since.min(one * TIMED_CALLS))
}

impl Handle {
    /// Serves the call that most programs make most often: one run of memory from or to one run
    /// of the file, on this rank alone, with nobody in the way. One storage call, nothing planned.
    /// A collective of one rank is such a call, unless a hint wants it to go through windows.
    ///
    /// `None` for anything else, also for whatever is wrong with the call: nothing has happened
    /// then, and the long way serves or refuses it.
    pub(super) fn straight(
        &self,
        kind: Kind,
        position: Position,
        run: Run<'_>,
    ) -> Option<Result<Status>> {
        let len = match &run {
            Run::Write(bytes) => wide(bytes.len()),
            Run::Read(bytes) => wide(bytes.len()),
        };
        let is_own = !kind.collective || self.facts.nodes.len() == 1;
        if !is_own || position == Position::Shared || len == 0 {
            return None;
        }
        if !kind.is_allowed(&self.mode, position) {
            return None;
        }
        let mut state = self.state();
        let view = &*state.view;
        let native = view.view.representation().form() == Form::Native;
        // As every collective, it ends what was handed over before it.
        let is_planned = kind.collective
            && !(is_left_open(&state.hints, kind.direction) && state.running.is_empty());
        if state.atomic || is_planned || !native || !view.layout.is_contiguous() {
            return None;
        }
        // Most views count bytes, and a division costs more than most of the rest.
        let etypes = match view.etype_bytes {
            1 => len,
            etype if len.is_multiple_of(etype) => len / etype,
            _ => return None,
        };
        let place = match position {
            Position::At(position) => position,
            _ => state.pointer,
        };
        let start = place.checked_mul(view.etype_bytes)?;
        start.checked_add(len).filter(|end| *end <= view.layout.size())?;
        let offset = view.layout.lower().cast_unsigned() + start;
        let behind = place + etypes;
        let careful =
            kind.direction == Direction::Write && plain_writes_lock(&state.hints, &self.facts);
        let _pass = match careful {
            true => Some(Gate::of(&*self.communicator).and_then(Gate::pass)?),
            false => None,
        };
        if position == Position::Individual {
            state.pointer = behind;
        }
        // Looking at the clock takes as long as writing some bytes: short calls do it now and then.
        let recorded = state.hints.statistics.recording().is_some();
        let always = len >= TIMED_BYTES || recorded;
        let CallStatistics { storage_reads, storage_writes, .. } = state.statistics.total;
        let now_and_then = (storage_reads + storage_writes).is_multiple_of(TIMED_CALLS.into());
        let began = (always || now_and_then).then(Instant::now);
        let last_timed = match began {
            Some(began) if !always => state.last_timed.replace(began),
            _ => None,
        };
        // Counted as if all went well, and corrected otherwise: that saves a lock.
        let State { statistics, last_call, served, .. } = &mut *state;
        *last_call = CallStatistics::straight(kind, offset, len);
        statistics.add_straight(kind, len);
        if kind.collective {
            served.add(last_call);
        }
        drop(state);
        let moved = match run {
            Run::Write(bytes) => {
                let written = self.storage.write_at(offset, bytes);
                self.unsynced.changed();
                written.map(|()| len)
            }
            Run::Read(bytes) => self.storage.read_at(offset, bytes).map(wide),
        };
        let moved_bytes = moved.as_ref().map_or_else(Error::moved, |&moved| moved);
        if began.is_some() || moved_bytes < len {
            let elapsed = began.map_or(Duration::ZERO, |began| began.elapsed());
            let storage = time_of_all(elapsed, last_timed.map(|last| last.elapsed()));
            let mut state = self.state();
            let State { statistics, last_call, .. } = &mut *state;
            statistics.correct(kind, len - moved_bytes, storage);
            last_call.correct(kind, len - moved_bytes, storage);
            if let Some(began) = began.filter(|_| recorded) {
                let mut call = CallStatistics::straight(kind, offset, len);
                call.correct(kind, len - moved_bytes, storage);
                self.record(&mut state, began, call);
            }
        }
        let explain =
            |error: Error| self.explain(error.at_offset(offset).after_moving(moved_bytes));
        Some(moved.map(Status::new).map_err(explain))
    }

    /// Keeps what a call did that began then.
    fn count(&self, began: Instant, statistics: CallStatistics) {
        let mut state = self.state();
        state.statistics.add(&statistics);
        state.served.add(&statistics);
        if state.hints.statistics.recording().is_some() {
            self.record(&mut state, began, statistics.clone());
        }
        state.last_call = statistics;
    }

    /// Begins a call for `signature`'s data: checks it, and moves the file pointer.
    pub(super) fn begin(
        &self,
        kind: Kind,
        position: Position,
        signature: Result<&Signature>,
        blocking: bool,
    ) -> Begun {
        let call = if kind.collective { self.next_call() } else { 0 };
        let earlier = if kind.collective { self.running() } else { Vec::new() };
        let alone = (kind.collective && blocking).then(|| Alone::new(&self.alone)).flatten();
        let blocking = blocking && (alone.is_some() || !kind.collective);
        let mut state = self.state();
        let (view, hints, atomic) = (state.view.clone(), state.hints.clone(), state.atomic);
        let counted = kind.check(&self.mode, position).and_then(|()| {
            let form = view.view.representation().form();
            signature.and_then(|signature| {
                signature.check(form)?;
                request::etypes(&view, signature.bytes(form))
            })
        });
        let ordered = kind.collective && position == Position::Shared;
        state.shared_moved |= position == Position::Shared;
        let mut pointer = None;
        let place = counted.map(|etypes| match position {
            Position::At(position) => position,
            Position::Individual => {
                let position = state.pointer;
                state.pointer = position.saturating_add(etypes);
                pointer = Some((position, state.pointer));
                position
            }
            Position::Shared if ordered => 0,
            Position::Shared => etypes,
        });
        drop(state);
        // It may wait for another rank, and tasks that need the state go on meanwhile.
        let place = match position {
            Position::Shared if !ordered => {
                place.and_then(|etypes| self.communicator.counter_add(etypes))
            }
            _ => place,
        };
        Begun {
            kind,
            call,
            view,
            hints,
            atomic,
            blocking,
            _alone: alone,
            place,
            pointer,
            ordered,
            earlier,
        }
    }

    /// As [`File::write_all`](super::File::write_all), for programs that await their calls, such as
    /// those of [`Simulated`](crate::Simulated).
    ///
    /// # Errors
    /// As there.
    pub async fn write_all<'a>(
        &self,
        position: impl Into<Position>,
        source: impl Into<Source<'a>>,
    ) -> Result<Status> {
        self.call(Kind::WRITE_ALL, position.into(), &source.into().buffer).await
    }

    /// As [`File::read_all`](super::File::read_all); see [`Handle::write_all`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_all<'a>(
        &self,
        position: impl Into<Position>,
        target: impl Into<Target<'a>>,
    ) -> Result<Status> {
        self.call(Kind::READ_ALL, position.into(), &target.into().buffer).await
    }

    /// As [`File::write`](super::File::write); see [`Handle::write_all`].
    ///
    /// # Errors
    /// As there.
    pub async fn write<'a>(
        &self,
        position: impl Into<Position>,
        source: impl Into<Source<'a>>,
    ) -> Result<Status> {
        self.call(Kind::WRITE, position.into(), &source.into().buffer).await
    }

    /// As [`File::read`](super::File::read); see [`Handle::write_all`].
    ///
    /// # Errors
    /// As there.
    pub async fn read<'a>(
        &self,
        position: impl Into<Position>,
        target: impl Into<Target<'a>>,
    ) -> Result<Status> {
        self.call(Kind::READ, position.into(), &target.into().buffer).await
    }

    async fn call(&self, kind: Kind, position: Position, buffer: &Buffer) -> Result<Status> {
        let begun = self.begin(kind, position, Ok(buffer.signature()), true);
        self.run(begun, Ok(buffer)).await
    }

    /// Carries a begun call out.
    pub(super) async fn run(&self, begun: Begun, buffer: Result<&Buffer>) -> Result<Status> {
        let began = Instant::now();
        let mut statistics =
            CallStatistics { call: begun.kind.name, number: begun.call, ..Default::default() };
        let writes = begun.kind.direction == Direction::Write;
        let result = self.run_counted(begun, buffer, &mut statistics).await;
        if writes {
            self.unsynced.changed();
        }
        let moved = result.as_ref().map_or_else(Error::moved, |&bytes| bytes);
        statistics.moved_bytes = moved;
        self.count(began, statistics);
        result.map(Status::new).map_err(|error| self.explain(error))
    }

    async fn run_counted(
        &self,
        mut begun: Begun,
        buffer: Result<&Buffer>,
        statistics: &mut CallStatistics,
    ) -> Result<u64> {
        self.wait_for(std::mem::take(&mut begun.earlier)).await;
        let nothing = Buffer::nothing();
        let buffer = buffer.unwrap_or_else(|error| {
            begun.place = begun.place.clone().and(Err(error));
            &nothing
        });
        if begun.ordered {
            begun.place = self.take_turn(&begun, buffer).await?;
        }
        statistics.requested_bytes = buffer.len();
        match begun.view.view.representation() {
            Representation::External32 => self.converted(&begun, buffer, statistics).await,
            _ => {
                let access = begun.access(0, buffer.len());
                self.carry_out(&begun, access, buffer, statistics).await
            }
        }
    }

    /// The place of this rank's data after that of the ranks before it.
    async fn take_turn(&self, begun: &Begun, buffer: &Buffer) -> Result<Result<u64>> {
        let form = begun.view.view.representation().form();
        let etypes = buffer.signature().bytes(form) / begun.view.etype_bytes;
        let own = begun.place.clone().map(|_| etypes);
        let counts = self.enter(begun.call, begun.kind.name, own).await?;
        let comm = &*self.communicator;
        let mut writer = Writer::default();
        if comm.rank() == 0 {
            // A failure is sent to the others, which wait for this message.
            let base = comm.counter_add(counts.iter().sum());
            writer.error(base.as_ref().err());
            writer.unsigned(base.unwrap_or(0));
        }
        let answer = broadcast(comm, begun.call, writer.bytes).await?;
        let mut reader = Reader::new(&answer);
        if let Some(error) = reader.error()? {
            return Ok(Err(error));
        }
        let base = reader.unsigned()?;
        let before: u64 = counts[..index(comm.rank())].iter().sum();
        Ok(Ok(base.saturating_add(before)))
    }

    /// Plans an access and executes the plan.
    async fn carry_out(
        &self,
        begun: &Begun,
        access: Result<Access>,
        buffer: &Buffer,
        statistics: &mut CallStatistics,
    ) -> Result<u64> {
        let comm = &*self.communicator;
        let start = comm.now();
        charge(comm, || CoreWork::Plan);
        catch_up(comm).await;
        let mut synchronisation = Duration::ZERO;
        let asked = (access, buffer.in_memory());
        let prepared = self.prepare(begun, asked, &mut synchronisation).await;
        statistics.planning += since(comm, start).saturating_sub(synchronisation);
        statistics.synchronisation += synchronisation;
        statistics.planned |= !matches!(prepared, Ok((_, false)));
        match prepared {
            Ok((prepared, is_new)) => {
                let before = (statistics.exchange, statistics.storage);
                let started = comm.now();
                let result = self.execute(begun.call, &prepared, buffer, statistics).await;
                let plan = &prepared.plan;
                // The first call also pays for memory that is touched for the first time. That is
                // little beside messages between nodes, and a program may never repeat a call.
                let is_new = is_new && !plan.base.is_between_nodes(&self.facts);
                // Where the file ends, a read takes no time.
                let is_whole = matches!(result, Ok(moved) if moved == buffer.len());
                if begun.blocking && begun.kind.collective && is_whole {
                    let storage = match &plan.steps {
                        // A rank that is done waits for the others, which may not have had a core.
                        Steps::Independent(_) => since(comm, started),
                        Steps::Shuffled(_) => statistics.storage - before.1,
                    };
                    let nanoseconds =
                        |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                    let lesson = Lesson {
                        call: begun.call,
                        exchange_ns: nanoseconds(statistics.exchange - before.0),
                        storage_ns: nanoseconds(storage),
                    };
                    let direction = prepared.direction;
                    self.state().learned.remember(direction, &plan.base, is_new, lesson);
                }
                result
            }
            Err(error) => {
                if statistics.rounds == 0 {
                    self.put_back(begun);
                }
                Err(error)
            }
        }
    }

    /// Puts the file pointer back where a refused call found it, unless another call moved it on.
    fn put_back(&self, begun: &Begun) {
        let mut state = self.state();
        if let Some((before, behind)) = begun.pointer
            && state.pointer == behind
        {
            state.pointer = before;
        }
    }

    /// The plan for an access, and whether it was made now.
    async fn prepare(
        &self,
        begun: &Begun,
        (access, memory): (Result<Access>, InMemory),
        synchronisation: &mut Duration,
    ) -> Result<(Arc<Prepared>, bool)> {
        let around = Circumstances {
            hints: &begun.hints,
            file: &self.facts,
            atomic: begun.atomic,
            blocking: begun.blocking,
            direction: begun.kind.direction,
            name: begun.kind.name,
            memory,
            learned: self.state().learned,
        };
        if !begun.kind.collective {
            return Ok((Arc::new(alone(&around, access?)), true));
        }
        let setting = Setting {
            name: begun.kind.name,
            blocking: begun.blocking,
            atomic: begun.atomic,
            hints: begun.hints.clone(),
        };
        let known = match &access {
            Ok(access) => self.state().plans.known(&setting, access),
            Err(_) => Known::default(),
        };
        let (comm, call) = (&*self.communicator, begun.call);
        let (learned, outlook) =
            together(&around, comm, call, access, known, synchronisation).await?;
        self.learn(begun.kind.direction, learned);
        if begun.kind.direction == Direction::Write {
            self.changed_together();
        }
        let (outlook, switches) = match outlook {
            Outlook::Known(number) => {
                let (prepared, given_up) = self.kept(number, learned)?;
                let Some(switches) = given_up else { return Ok((prepared, false)) };
                let (own, known) = (Ok(prepared.own.clone()), Known::default());
                let around = Circumstances { learned: self.state().learned, ..around };
                let (learned, outlook) =
                    together(&around, comm, call, own, known, synchronisation).await?;
                self.learn(begun.kind.direction, learned);
                (outlook, switches)
            }
            new => (new, 0),
        };
        match outlook {
            Outlook::Known(_) => Err(Error::new(ErrorClass::Intern, "a plan was kept twice")),
            Outlook::New(prepared) => {
                self.state().plans.keep(setting, &prepared, switches);
                Ok((prepared, true))
            }
        }
    }

    /// Takes over what all ranks have learned from the last collective.
    fn learn(&self, direction: Direction, learned: Learned) {
        let mut state = self.state();
        state.learned = learned;
        let is_first = self.communicator.rank() == 0;
        let report = is_first.then(|| state.learned.report(direction)).flatten();
        drop(state);
        let name = self.path().display().to_string();
        report.into_iter().for_each(|text| log::warn!("{}: {text}", escaped(&name)));
    }

    /// The plan of a number. If it is given up, since another way is clearly faster by what was
    /// learned, or worth a trial: how many plans of the request were given up with it.
    fn kept(&self, number: u64, learned: Learned) -> Result<(Arc<Prepared>, Option<u32>)> {
        let mut state = self.state();
        let lost = || Error::new(ErrorClass::Intern, "a kept plan got lost");
        let (prepared, switches) = state.plans.take(number).ok_or_else(lost)?;
        if switches >= SWITCHES_MAX {
            return Ok((prepared, None));
        }
        let (plan, direction) = (&prepared.plan, prepared.direction);
        let correction = learned.correction(direction);
        let doubt = learned.doubt(direction);
        let chance = plan.chance(correction, doubt);
        if plan.is_beaten(correction, doubt, switches > 0)
            || chance.is_some_and(|chance| chance.pays)
        {
            state.plans.forget(number);
            return Ok((prepared, Some(switches + 1)));
        }
        state.learned.weigh(direction, chance);
        Ok((prepared, None))
    }

    async fn execute(
        &self,
        call: u64,
        prepared: &Arc<Prepared>,
        buffer: &Buffer,
        statistics: &mut CallStatistics,
    ) -> Result<u64> {
        self.job(call, prepared, buffer).run(statistics).await
    }

    fn job<'a>(&'a self, call: u64, prepared: &'a Arc<Prepared>, buffer: &'a Buffer) -> Job<'a> {
        let (communicator, storage) = (&*self.communicator, &*self.storage);
        let correction = self.state().learned.correction(prepared.direction);
        Job { communicator, call, storage, prepared, buffer, refused: None, correction }
    }

    /// Reads or writes through a conversion, in parts of at most one collective buffer; the ranks
    /// of a collective make the same number of parts.
    async fn converted(
        &self,
        begun: &Begun,
        buffer: &Buffer,
        statistics: &mut CallStatistics,
    ) -> Result<u64> {
        let signature = buffer.signature();
        let part_bytes = begun.hints.collective_buffer_bytes.max(PART_BYTES_MIN);
        let own_parts = buffer.len().div_ceil(part_bytes).max(1);
        let parts = match begun.kind.collective {
            true => {
                let own = begun.place.clone().map(|_| own_parts);
                let parts = self.enter(begun.call, begun.kind.name, own).await;
                parts.inspect_err(|_| self.put_back(begun))?
            }
            false => vec![own_parts],
        };
        let (mut moved, mut complete) = (0, true);
        for part in 0..parts.into_iter().max().unwrap_or(1) {
            let cut = |part: u64| {
                signature.boundary(part.saturating_mul(part_bytes).min(buffer.len()), Form::Native)
            };
            let (native, external) = cut(part);
            // After a part in which the file ended, nothing is read; the rank still takes part.
            let (native_end, external_end) = if complete { cut(part + 1) } else { cut(part) };
            let conversion =
                Conversion { buffer, native: native..native_end, external: external..external_end };
            let encoded = match begun.kind.direction {
                Direction::Write => conversion.encode(),
                Direction::Read => Ok(conversion.room()),
            };
            let len = external_end - external;
            let (mut bytes, error) = match encoded {
                Ok(bytes) => (bytes, None),
                Err(error) => (Vec::new(), Some(error)),
            };
            let access = match error {
                None => begun.access(external, len),
                Some(error) => Err(error),
            };
            let staged = Buffer::of_bytes(&mut bytes);
            let result = self.carry_out(begun, access, &staged, statistics).await;
            let external_moved = result.as_ref().map_or_else(Error::moved, |&moved| moved);
            let native_moved = conversion.finish(begun.kind, &bytes, external_moved)?;
            if complete {
                moved += native_moved;
                complete = external_moved == len;
            }
            result.map_err(|error| error.after_moving(moved))?;
        }
        Ok(moved)
    }

    /// Plans a collective once, to run it many times.
    pub(super) async fn plan(&self, begun: Begun, len: u64) -> Result<Plan> {
        let unsupported = |text: &str| Error::new(ErrorClass::UnsupportedOperation, text);
        let access = match begun.view.view.representation() {
            Representation::External32 => Err(unsupported("plans need a native view")),
            _ if begun.ordered => Err(unsupported("plans need a position that stays the same")),
            _ => begun.access(0, len),
        };
        let start = Instant::now();
        self.wait_for(begun.earlier.clone()).await;
        let mut synchronisation = Duration::ZERO;
        // The memory is not known yet.
        let prepared =
            self.prepare(&begun, (access, InMemory::CONTIGUOUS), &mut synchronisation).await;
        let (prepared, _) = prepared.map_err(|error| self.explain(error))?;
        Ok(Plan::new(prepared, begun.kind, len, start.elapsed()))
    }

    /// Runs a plan; all ranks run theirs.
    ///
    /// `refused` says what is wrong with this rank's buffer: it is not touched then, but the rank
    /// takes part to the end, so that all ranks learn of it.
    pub(super) async fn run_plan(
        &self,
        plan: &Plan,
        buffer: &Buffer,
        refused: Option<Error>,
    ) -> Result<Status> {
        let (call, began) = (self.next_call(), Instant::now());
        self.wait_for(self.running()).await;
        let mut statistics =
            CallStatistics { call: plan.kind.name, number: call, ..Default::default() };
        statistics.requested_bytes = plan.len;
        let job = Job { refused, ..self.job(call, &plan.prepared, buffer) };
        if plan.kind.direction == Direction::Write {
            self.changed_together();
        }
        let result = job.run(&mut statistics).await;
        if plan.kind.direction == Direction::Write {
            self.unsynced.changed();
        }
        statistics.moved_bytes = result.as_ref().map_or_else(Error::moved, |&bytes| bytes);
        self.count(began, statistics);
        result.map(Status::new).map_err(|error| self.explain(error))
    }
}

impl Begun {
    /// `len` bytes of the file's data, `skip` bytes after the place of the call.
    fn access(&self, skip: u64, len: u64) -> Result<Access> {
        let place = self.place.clone()?;
        // Parts of a conversion begin inside the request, maybe inside an etype.
        let access = request::access(&self.view, place, skip + len)?;
        if self.kind.direction == Direction::Write && !access.is_sorted() {
            let text = "the filetype is longer than its extent, so that what this call writes \
                        overlaps itself; write one filetype at a time, or resize it";
            return Err(Error::new(ErrorClass::Type, text));
        }
        Ok(access.without_first(skip))
    }
}

/// A part of a buffer, in both representations.
struct Conversion<'a> {
    buffer: &'a Buffer,
    native: std::ops::Range<u64>,
    external: std::ops::Range<u64>,
}

impl Conversion<'_> {
    fn encode(&self) -> Result<Vec<u8>> {
        let mut native = vec![0; narrow(self.native.end - self.native.start)];
        self.buffer.pack(&self.native, &mut native);
        self.buffer.signature().encode(self.native.clone(), &native)
    }

    /// Room for the external form of the part.
    fn room(&self) -> Vec<u8> {
        vec![0; narrow(self.external.end - self.external.start)]
    }

    /// Puts what was read into the buffer; returns the native bytes that moved.
    fn finish(&self, kind: Kind, bytes: &[u8], moved: u64) -> Result<u64> {
        let signature = self.buffer.signature();
        let end = signature.boundary(self.external.start + moved, Form::External);
        if kind.direction == Direction::Read {
            let external = self.external.start..end.1;
            let len = narrow(external.end - external.start);
            let native = signature.decode(external, &bytes[..len])?;
            self.buffer.unpack(&(self.native.start..end.0), &native);
        }
        Ok(end.0 - self.native.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;
    use crate::{Datatype, File, Simulated, Solo, View};

    /// If the system runs another program while one of many calls is timed, that was not the time
    /// of all of them.
    #[test]
    fn short_calls_take_no_longer_than_the_time_since_the_last() {
        let ms = Duration::from_millis;
        assert_eq!(time_of_all(ms(5), None), ms(5));
        assert_eq!(time_of_all(ms(5), Some(ms(6))), ms(6));
        assert_eq!(time_of_all(ms(1), Some(ms(100))), ms(64));
        let options = File::options().write(true).create(true);
        let file = options.open(&*Solo::new(), "memory:short_calls").unwrap();
        for index in 0..2000 {
            file.write(Position::At(index * 8), &[1u8; 8]).unwrap();
        }
        assert!(file.statistics().total.storage > Duration::ZERO);
    }

    /// Like every collective, a planned call ends what was handed over before it: otherwise a
    /// window with holes could undo the bytes of an earlier write.
    #[test]
    fn a_planned_call_waits_for_earlier_calls() {
        for seed in 0..20 {
            Simulated::new(2, seed).run(|comm| async move {
                let options = File::options().write(true).create(true);
                let name = format!("memory:a_planned_call_waits_{seed}");
                let file = options.open_async(&*comm, name).await.unwrap();
                let signature = Signature::empty();
                let begun =
                    file.handle.begin(Kind::WRITE_ALL, Position::At(0), Ok(&signature), false);
                let plan = file.handle.plan(begun, 0).await.unwrap();
                let earlier = file.iwrite(0, vec![1u8; 4]);
                file.handle.run_plan(&plan, &Buffer::nothing(), None).await.unwrap();
                assert!(earlier.is_done(), "seed {seed}");
            });
        }
    }
    /// A conversion works in parts; where a view names bytes twice, a later part may begin before
    /// the end of the file although an earlier one reached it.
    #[test]
    fn a_conversion_reads_nothing_behind_the_end_of_the_file() {
        let memory = Memory::new();
        memory.put("a", &[7; 30]);
        let options = File::options().read(true).hint("cb_buffer_size", "64");
        let file = options.driver(Arc::new(memory)).open(&*Solo::new(), "a").unwrap();
        let byte = Datatype::byte();
        let twice = Datatype::indexed_block(40, &[0, 1], &byte).unwrap();
        let view = View::new(0, &byte, &twice).with_representation(Representation::External32);
        file.set_view(&view).unwrap();
        let mut target = [0u8; 80];
        assert_eq!(file.read(0, &mut target).unwrap().bytes, 30);
        assert_eq!((&target[..30], &target[30..]), (&[7; 30][..], &[0; 50][..]));
    }
}
