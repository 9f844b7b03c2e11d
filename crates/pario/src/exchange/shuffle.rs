//! Rounds: bytes between the ranks and the aggregators' windows.
//!
//! Between ranks of one node, an aggregator copies straight from or to the other's buffer, which
//! its owner offers once, at the start (`ways`). Elsewhere bytes travel in messages; at most
//! [`ROUNDS_AHEAD`] of them from one rank to another are not yet answered, which bounds the
//! memory they take. Who sends what to whom follows from the plan on both sides: there are no
//! counts to exchange.
//!
//! The last byte of each message says whether its sender goes on or has given up; a rank that
//! learns of a failure gives up too, but stays in the rounds to their end.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::agree::{Report, leading, reports};
use super::common;
use super::help::Rounds;
use super::relay::{Packet, Packets};
use super::ways::{Way, Ways};
use super::window::{Window, reach};
use super::{Job, Outcome, Protection};
use crate::access::memory::{Held, Parcel, Turns};
use crate::comm::collective::{index, rank_of};
use crate::comm::{Lane, Message, ProcessMemory, Tag, receive};
use crate::datatype::copy::Stores;
use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};
use crate::plan::two_phase::{Domain, Holes, Route};
use crate::plan::{Direction, Shuffled};
use crate::statistics::CallStatistics;

/// How many messages a rank may send to another before the first is answered.
const ROUNDS_AHEAD: u32 = 2;

pub(super) const GOES_ON: u8 = 0;
pub(super) const GAVE_UP: u8 = 1;

/// Carries out all rounds; every rank returns the same error.
pub(super) async fn run(
    job: &Job<'_>,
    shuffled: &Shuffled,
    statistics: &mut CallStatistics,
) -> Result<Outcome> {
    let (start, storage_before) = (Instant::now(), statistics.storage);
    let mut shuffle = Shuffle::start(job, shuffled, statistics).await?;
    for round in 0..shuffled.rounds() {
        match job.prepared.direction {
            Direction::Write => {
                match shuffled.route() {
                    Route::Direct => shuffle.send_own(round).await?,
                    Route::Phases(phases) => shuffle.relay_forth(phases, round).await?,
                }
                shuffle.serve_own(round).await?;
            }
            Direction::Read => {
                shuffle.serve_own(round).await?;
                match shuffled.route() {
                    Route::Direct => shuffle.receive_own(round).await?,
                    Route::Phases(phases) => shuffle.relay_back(phases, round).await?,
                }
            }
        }
    }
    shuffle.help().await?;
    let outcome = shuffle.finish().await?;
    let storage = statistics.storage - storage_before;
    statistics.exchange += start.elapsed().saturating_sub(storage);
    Ok(outcome)
}

/// A rank whose memory is gone, and how that was noticed.
pub(super) type Gone = (u32, Error);

pub(super) struct Shuffle<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) shuffled: &'a Shuffled,
    pub(super) statistics: &'a mut CallStatistics,
    /// This rank's window, if it is an aggregator.
    pub(super) window: Option<(&'a Domain, Window)>,
    pub(super) ways: Ways,
    /// Bytes between the window and other processes.
    staging: Vec<u8>,
    /// Messages that a rank has not answered yet.
    unanswered: HashMap<u32, u32>,
    /// Bytes that came, or go, in phases.
    pub(super) packets: Packets,
    /// Whether this rank knows of a failure.
    pub(super) gave_up: bool,
    /// The rounds of this aggregator, if others help with them.
    pub(super) rounds: Option<Arc<Rounds>>,
    /// What this aggregator has not done, of rounds in any order.
    pub(super) undone: Vec<Range<u64>>,
}

impl<'a> Shuffle<'a> {
    async fn start(
        job: &'a Job<'a>,
        shuffled: &'a Shuffled,
        statistics: &'a mut CallStatistics,
    ) -> Result<Shuffle<'a>> {
        let ways = Ways::find(job, shuffled, statistics).await?;
        let rank = job.communicator.rank();
        let window = shuffled.domain_of(rank).map(|domain| {
            (domain, Window::new(shuffled.window_bytes(), shuffled.holes(), domain.file.start))
        });
        let mut shuffle = Shuffle::new((job, shuffled), ways, statistics);
        shuffle.window = window;
        shuffle.ask_for_help()?;
        Ok(shuffle)
    }

    /// Without a window.
    pub(super) fn new(
        (job, shuffled): (&'a Job<'a>, &'a Shuffled),
        ways: Ways,
        statistics: &'a mut CallStatistics,
    ) -> Shuffle<'a> {
        Shuffle {
            job,
            shuffled,
            statistics,
            window: None,
            ways,
            staging: Vec::new(),
            unanswered: HashMap::new(),
            packets: Packets::new(),
            gave_up: job.refused.is_some(),
            rounds: None,
            undone: Vec::new(),
        }
    }

    /// As an aggregator: does a round of the domain that its window is in.
    pub(super) async fn serve(&mut self, round: u64) -> Result<()> {
        match self.job.prepared.direction {
            Direction::Write => self.store_window(round).await,
            Direction::Read => self.fetch_window(round).await,
        }
    }

    /// The aggregators to which this rank sends, or from which it receives, messages in a round,
    /// with its parcels for them.
    fn own_parcels(&self, round: u64) -> Vec<(u32, Parcel<'a>)> {
        let communicator = self.job.communicator;
        let own = &self.job.prepared.own;
        let mut parcels = Vec::new();
        for domain in self.shuffled.domains() {
            let aggregator = domain.aggregator;
            let is_own = aggregator == communicator.rank();
            if is_own || self.ways.is_used_by(communicator, aggregator) {
                continue;
            }
            let positions = own.within(&self.shuffled.window(domain, round));
            if !positions.is_empty() {
                parcels.push((aggregator, Parcel { access: own, positions }));
            }
        }
        parcels
    }

    /// The ranks that have bytes in this aggregator's window of a round, and their parcels.
    pub(super) fn window_parcels(&self, round: u64) -> (Vec<u32>, Vec<Parcel<'a>>) {
        let Some((domain, _)) = &self.window else { return (Vec::new(), Vec::new()) };
        let file = self.shuffled.window(domain, round);
        if file.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let rank = match self.shuffled.route() {
            Route::Direct => domain.aggregator,
            Route::Phases(_) => self.job.communicator.rank(),
        };
        let parcel = |(peer, access): (usize, &'a crate::access::Access)| {
            let source = rank_of(peer);
            let positions = match self.shuffled.holder(source, domain) == rank {
                true => access.within(&file),
                false => 0..0,
            };
            (!positions.is_empty()).then_some((source, Parcel { access, positions }))
        };
        self.job.prepared.peers.iter().enumerate().filter_map(parcel).unzip()
    }

    /// Write, as a rank: sends the bytes that other aggregators store in this round.
    async fn send_own(&mut self, round: u64) -> Result<()> {
        for (aggregator, parcel) in self.own_parcels(round) {
            self.wait_for_answers(aggregator, ROUNDS_AHEAD - 1).await?;
            let mut bytes = Vec::new();
            if !self.gave_up {
                bytes = vec![GOES_ON; narrow(parcel.len()) + 1];
                let payload = bytes.split_last_mut().map_or(&mut [][..], |(_, payload)| payload);
                self.job.buffer.pack(&parcel.positions, payload);
            } else {
                bytes.push(GAVE_UP);
            }
            self.send(aggregator, Lane::Data, bytes)?;
            *self.unanswered.entry(aggregator).or_default() += 1;
        }
        Ok(())
    }

    /// Write, as an aggregator: assembles the window of this round and stores it.
    async fn store_window(&mut self, round: u64) -> Result<()> {
        let (ranks, parcels) = self.window_parcels(round);
        let Some((domain, window)) = &mut self.window else { return Ok(()) };
        if parcels.is_empty() {
            return Ok(());
        }
        if self.gave_up {
            window.close();
        }
        let guard = match self.shuffled.holes() {
            Holes::Locked if !window.is_closed() => {
                let file = reach(&parcels);
                let protected = self.job.protect_rewrite(&file, self.statistics).await;
                protected.map_err(|error| window.fail(error)).ok()
            }
            Holes::Skipped if self.shuffled.is_careful() && !window.is_closed() => {
                let file = reach(&parcels);
                let protected = self.job.protect_write(&file, self.statistics).await;
                protected.map_err(|error| window.fail(error)).ok()
            }
            _ => None,
        };
        let start = self.shuffled.window(domain, round).start;
        window.open_for_write(self.job, (round, start), &parcels, self.statistics);
        let arrived = self.arrivals(&ranks, &parcels).await?;
        if let Err((rank, error)) = self.assemble(round, (&ranks, &parcels), &arrived) {
            return Err(self.who_left(rank, error).await);
        }
        drop(arrived);
        let Some((_, window)) = &mut self.window else { return Ok(()) };
        window.store(self.job, round, &parcels, self.statistics);
        if let Some(Err(error)) = guard.map(Protection::release) {
            window.fail(error);
        }
        let answer = if window.is_closed() { GAVE_UP } else { GOES_ON };
        self.gave_up |= window.is_closed();
        for rank in ranks {
            if matches!(self.ways.from(rank), Way::Messages) {
                self.send(rank, Lane::Answer, vec![answer])?;
            }
        }
        Ok(())
    }

    /// The bytes of a window that came in messages or packets, by parcel; closes the window if a
    /// rank has given up.
    async fn arrivals(&mut self, ranks: &[u32], parcels: &[Parcel<'a>]) -> Result<Vec<Packet>> {
        let mut arrived = Vec::with_capacity(ranks.len());
        for (&rank, parcel) in ranks.iter().zip(parcels) {
            let packet = match self.ways.from(rank) {
                Way::Messages => payload(self.receive(rank, Lane::Data).await?, parcel.len())?,
                Way::Relayed => {
                    let class = self.window.as_ref().map_or(0, |(domain, _)| domain.aggregator);
                    let packet = self.packets.remove(&(rank, class));
                    let whole = packet.filter(|packet| wide(packet.bytes().len()) == parcel.len());
                    if whole.is_none() && !self.gave_up {
                        return Err(malformed());
                    }
                    whole
                }
                _ => Some(Packet::default()),
            };
            if let (None, Some((_, window))) = (&packet, &mut self.window) {
                // Whoever sent it, or had to pass it on, has given up.
                window.close();
            }
            arrived.push(packet.unwrap_or_default());
        }
        Ok(arrived)
    }

    /// Puts all ranks' bytes into the window. An error names the rank whose memory is gone.
    fn assemble(
        &mut self,
        round: u64,
        (ranks, parcels): (&[u32], &[Parcel<'a>]),
        arrived: &[Packet],
    ) -> std::result::Result<(), Gone> {
        let Some((_, window)) = self.window.as_mut().filter(|(_, window)| !window.is_closed())
        else {
            return Ok(());
        };
        let began = Instant::now();
        let communicator = self.job.communicator;
        let mut contents = window.contents(round);
        let held = hold(&self.ways, ranks)?;
        let mut staged = stage(&mut self.staging, (&self.ways, self.shuffled), ranks, parcels);
        for ((&rank, parcel), staged) in ranks.iter().zip(parcels).zip(&mut staged) {
            let Way::Process(remote) = self.ways.from(rank) else { continue };
            let Some(memory) = communicator.process_memory() else { continue };
            self.statistics.shared_bytes += parcel.len();
            let pulled = match staged {
                Some(bytes) => remote.pull(memory, &parcel.positions, bytes),
                None => remote.pull_into(memory, &mut contents, parcel),
            };
            if let Err(error) = pulled {
                window.fail_round(round, error.on_rank(rank));
                return Ok(());
            }
        }
        let mut turns = Turns::new(&mut contents, parcels.len());
        for (number, (&rank, parcel)) in ranks.iter().zip(parcels).enumerate() {
            match (self.ways.from(rank), &held[number], &staged[number]) {
                (Way::Own, ..) => turns.fill(self.job.buffer, parcel),
                (Way::Memory(_), Some(exposed), _) => {
                    self.statistics.shared_bytes += parcel.len();
                    turns.fill(exposed, parcel);
                }
                (Way::Process(_), _, Some(bytes)) => turns.unpack(bytes, parcel),
                (Way::Messages | Way::Relayed, ..) => {
                    turns.unpack(arrived[number].bytes(), parcel);
                }
                _ => {}
            }
        }
        turns.run(self.job.prepared.disjoint);
        self.statistics.packing += began.elapsed();
        Ok(())
    }

    /// Why a rank took its buffer away before the end: it is lost, or it knows of a lost rank.
    /// Whoever waits for it now learns which one that is.
    async fn who_left(&self, rank: u32, gone: Error) -> Error {
        self.receive(rank, Lane::Data).await.err().unwrap_or(gone)
    }

    /// Read, as an aggregator: fetches the window of this round and hands its bytes out.
    async fn fetch_window(&mut self, round: u64) -> Result<()> {
        let (ranks, mut parcels) = self.window_parcels(round);
        let Some((_, window)) = &mut self.window else { return Ok(()) };
        if parcels.is_empty() {
            return Ok(());
        }
        if self.gave_up {
            window.close();
        }
        match self.fetch_straight(&ranks, &parcels) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err((rank, error)) => return Err(self.who_left(rank, error).await),
        }
        let Some((domain, window)) = &mut self.window else { return Ok(()) };
        let start = self.shuffled.window(domain, round).start;
        let file = reach(&parcels);
        let end = window.fetch(self.job, (round, start), &file, self.statistics);
        if end < file.end {
            window.close();
            parcels = parcels.into_iter().map(|parcel| parcel.before(end)).collect();
        }
        for &rank in &ranks {
            if matches!(self.ways.from(rank), Way::Messages) {
                self.wait_for_answers(rank, ROUNDS_AHEAD - 1).await?;
            }
        }
        let leaving = match self.hand_out(round, &ranks, &parcels) {
            Ok(leaving) => leaving,
            Err((rank, error)) => return Err(self.who_left(rank, error).await),
        };
        self.dispatch(&ranks, leaving)
    }

    /// Gives all ranks their bytes of the window; returns those that leave in messages or packets,
    /// by parcel. An error names the rank whose memory is gone.
    fn hand_out(
        &mut self,
        round: u64,
        ranks: &[u32],
        parcels: &[Parcel<'a>],
    ) -> std::result::Result<Vec<Vec<u8>>, Gone> {
        let Some((_, window)) = &mut self.window else { return Ok(Vec::new()) };
        let began = Instant::now();
        let communicator = self.job.communicator;
        let mut contents = window.contents(round);
        let held = hold(&self.ways, ranks)?;
        let mut staged = stage(&mut self.staging, (&self.ways, self.shuffled), ranks, parcels);
        let room = |(&rank, parcel): (&u32, &Parcel<'_>)| match self.ways.from(rank) {
            // The last byte of a message says how its sender fares.
            Way::Messages => vec![GOES_ON; narrow(parcel.len()) + 1],
            Way::Relayed => vec![0; narrow(parcel.len())],
            _ => Vec::new(),
        };
        let mut leaving: Vec<Vec<u8>> = ranks.iter().zip(parcels).map(room).collect();
        let rooms = staged.iter_mut().zip(&mut leaving);
        let mut turns = Turns::new(&mut contents, parcels.len());
        for ((number, (&rank, parcel)), (staged, leaving)) in
            ranks.iter().zip(parcels).enumerate().zip(rooms)
        {
            match (self.ways.from(rank), &held[number], staged) {
                (Way::Own, ..) if self.job.refused.is_some() => {}
                (Way::Own, ..) => turns.take(self.job.buffer, parcel),
                (Way::Memory(_), Some(exposed), _) => {
                    self.statistics.shared_bytes += parcel.len();
                    turns.take(exposed, parcel);
                }
                (Way::Process(_), _, Some(bytes)) => turns.pack(bytes, parcel, Stores::Cached),
                (Way::Messages | Way::Relayed, ..) => {
                    turns.pack(&mut leaving[..narrow(parcel.len())], parcel, Stores::Cached);
                }
                _ => {}
            }
        }
        turns.run(true);
        for ((&rank, parcel), staged) in ranks.iter().zip(parcels).zip(&staged) {
            let Way::Process(remote) = self.ways.from(rank) else { continue };
            let Some(memory) = communicator.process_memory() else { continue };
            self.statistics.shared_bytes += parcel.len();
            let pushed = match staged {
                Some(bytes) => remote.push(memory, &parcel.positions, bytes),
                None => remote.push_from(memory, &contents, parcel),
            };
            if let Err(error) = pushed {
                window.fail_round(round, error.on_rank(rank));
                break;
            }
        }
        self.statistics.packing += began.elapsed();
        Ok(leaving)
    }

    /// Sends the bytes of a window on their way.
    fn dispatch(&mut self, ranks: &[u32], leaving: Vec<Vec<u8>>) -> Result<()> {
        let Some((domain, window)) = &self.window else { return Ok(()) };
        let (class, failed) = (domain.aggregator, window.error.is_some());
        for (&rank, mut bytes) in ranks.iter().zip(leaving) {
            match self.ways.from(rank) {
                Way::Relayed => {
                    self.gave_up |= failed;
                    self.packets.insert((rank, class), Packet::new(bytes));
                }
                Way::Messages => {
                    if let (true, Some(state)) = (failed, bytes.last_mut()) {
                        *state = GAVE_UP;
                    }
                    self.send(rank, Lane::Data, bytes)?;
                    *self.unanswered.entry(rank).or_default() += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Read, as a rank: receives the bytes that other aggregators fetched in this round.
    async fn receive_own(&mut self, round: u64) -> Result<()> {
        for (aggregator, parcel) in self.own_parcels(round) {
            let bytes = self.receive(aggregator, Lane::Data).await?;
            let (&state, payload) = bytes.split_last().ok_or_else(malformed)?;
            self.gave_up |= state == GAVE_UP;
            if wide(payload.len()) > parcel.len() {
                return Err(malformed());
            }
            let start = parcel.positions.start;
            let there = start..start + wide(payload.len());
            if self.job.refused.is_none() {
                self.job.buffer.unpack(&there, payload);
            }
            let answer = if self.gave_up { GAVE_UP } else { GOES_ON };
            self.send(aggregator, Lane::Answer, vec![answer])?;
        }
        Ok(())
    }

    /// Waits until a rank has at most `limit` unanswered messages.
    async fn wait_for_answers(&mut self, rank: u32, limit: u32) -> Result<()> {
        while self.unanswered.get(&rank).is_some_and(|&count| count > limit) {
            let answer = self.receive(rank, Lane::Answer).await?;
            self.gave_up |= answer.first() == Some(&GAVE_UP);
            self.unanswered.entry(rank).and_modify(|count| *count -= 1);
        }
        Ok(())
    }

    /// After the last round: what became of this rank's request, and the error of all.
    async fn finish(mut self) -> Result<Outcome> {
        let mut ranks: Vec<u32> = self.unanswered.keys().copied().collect();
        ranks.sort_unstable();
        for rank in ranks {
            self.wait_for_answers(rank, 0).await?;
        }
        let served = |(domain, _): &(&Domain, Window)| domain.file.end - domain.file.start;
        let served = self.window.as_ref().map_or(0, served);
        let worked_much = common::works_much(self.job, self.shuffled, served);
        let is_closed = |(_, window): &(&Domain, Window)| window.is_closed();
        let is_well = self.job.refused.is_none()
            && self.undone.is_empty()
            && !self.window.as_ref().is_some_and(is_closed);
        let undone = self.undone;
        let mut report = match self.window {
            Some((domain, window)) => {
                // A window that was never closed has done its whole domain.
                let done = self.rounds.is_some() || !window.is_closed();
                let reached = if done { domain.file.end } else { window.reached };
                Report { reached, undone, error: window.error, ..Report::default() }
            }
            None => Report::default(),
        };
        report.error = self.job.refused.clone().or(report.error);
        let memory = self.job.communicator.process_memory();
        report.refused_memory = memory.is_some_and(ProcessMemory::is_refused);
        // Giving memory back takes a while, and others wait.
        drop(std::mem::take(&mut self.staging));
        let communicator = self.job.communicator;
        if self.job.all_are_well(is_well, worked_much).await? {
            return Ok(Outcome { moved: self.job.prepared.own.len(), ..Outcome::default() });
        }
        let (reports, error) = reports(communicator, self.job.call, report).await?;
        let refused = reports.iter().any(|report| report.refused_memory);
        let memory = memory.filter(|_| refused && error.is_some());
        memory.iter().for_each(|memory| memory.give_up());
        let must_repeat = memory.is_some();
        let rest = |domain: &Domain| {
            let holder = self.shuffled.holder(communicator.rank(), domain);
            let Range { start, end } = domain.file;
            reports[index(holder)].reached.clamp(start, end)..end
        };
        let rests = self.shuffled.domains().iter().map(rest);
        let undone = reports.iter().flat_map(|report| report.undone.iter().cloned());
        let moved = match self.job.refused {
            None => leading(&self.job.prepared.own, rests.chain(undone)),
            Some(_) => 0,
        };
        Ok(Outcome { moved, error, must_repeat })
    }

    pub(super) fn send(&mut self, to: u32, lane: Lane, bytes: Vec<u8>) -> Result<()> {
        self.statistics.messages += 1;
        self.statistics.sent_bytes += wide(bytes.len());
        let tag = Tag { call: self.job.call, lane };
        self.job.communicator.send(to, tag, Message::from(bytes))
    }

    pub(super) async fn receive(&self, from: u32, lane: Lane) -> Result<Vec<u8>> {
        let tag = Tag { call: self.job.call, lane };
        Ok(receive(self.job.communicator, from, tag).await?.bytes)
    }
}

pub(super) fn malformed() -> Error {
    Error::new(ErrorClass::Intern, "a rank sent a malformed piece of data")
}

/// The bytes of a message of known length; `None` if its sender gave up.
fn payload(mut message: Vec<u8>, len: u64) -> Result<Option<Packet>> {
    match message.pop().ok_or_else(malformed)? {
        GAVE_UP => Ok(None),
        _ if wide(message.len()) == len => Ok(Some(Packet::new(message))),
        _ => Err(malformed()),
    }
}

/// Keeps the buffers of this process in place while they are used, by parcel.
pub(super) fn hold<'a>(
    ways: &'a Ways,
    ranks: &[u32],
) -> std::result::Result<Vec<Option<Held<'a>>>, Gone> {
    let held = |&rank: &u32| match ways.from(rank) {
        Way::Memory(exposure) => exposure.hold().map(Some).map_err(|error| (rank, error)),
        _ => Ok(None),
    };
    ranks.iter().map(held).collect()
}

/// Room for the bytes of parcels in other processes, by parcel; none for those whose pieces are
/// long enough to be copied one by one.
fn stage<'a>(
    staging: &'a mut Vec<u8>,
    (ways, shuffled): (&Ways, &Shuffled),
    ranks: &[u32],
    parcels: &[Parcel<'_>],
) -> Vec<Option<&'a mut [u8]>> {
    let len = |(&rank, parcel): (&u32, &Parcel<'_>)| match ways.from(rank) {
        Way::Process(_) if parcel.access.piece_bytes() < shuffled.long_piece_bytes() => {
            Some(narrow(parcel.len()))
        }
        _ => None,
    };
    let lens: Vec<Option<usize>> = ranks.iter().zip(parcels).map(len).collect();
    let total = lens.iter().flatten().sum();
    if staging.len() < total {
        staging.resize(total, 0);
    }
    let mut rest = &mut staging[..];
    let mut take = |len: usize| {
        let (room, behind) = std::mem::take(&mut rest).split_at_mut(len);
        rest = behind;
        room
    };
    lens.into_iter().map(|len| len.map(&mut take)).collect()
}
