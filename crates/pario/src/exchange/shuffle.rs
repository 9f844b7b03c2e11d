//! Rounds: bytes between the ranks and the aggregators' windows.
//!
//! Between ranks of one address space, an aggregator copies straight from or to the other's
//! buffer, which its owner exposes once, at the start. Elsewhere bytes travel in messages; at
//! most [`ROUNDS_AHEAD`] of them from one rank to another are not yet answered, which bounds the
//! memory they take. Who sends what to whom follows from the plan on both sides: there are no
//! counts to exchange.
//!
//! The last byte of each message says whether its sender goes on or has given up; a rank that
//! learns of a failure gives up too, but stays in the rounds to their end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::agree::{Report, reports};
use super::relay::{Packet, Packets};
use super::window::{Window, reach};
use super::{Job, Outcome, timed};
use crate::access::memory::{ExposureGuard, Parcel};
use crate::access::{Buffer, Exposure};
use crate::comm::collective::{index, rank_of};
use crate::comm::{Lane, Message, Tag, receive};
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
                shuffle.store_window(round).await?;
            }
            Direction::Read => {
                shuffle.fetch_window(round).await?;
                match shuffled.route() {
                    Route::Direct => shuffle.receive_own(round).await?,
                    Route::Phases(phases) => shuffle.relay_back(phases, round).await?,
                }
            }
        }
    }
    let outcome = shuffle.finish().await?;
    let storage = statistics.storage - storage_before;
    statistics.exchange += start.elapsed().saturating_sub(storage);
    Ok(outcome)
}

/// How bytes get from a rank to an aggregator and back.
#[derive(Clone)]
enum Way {
    /// They are the same rank.
    Own,
    /// The aggregator uses the rank's memory.
    Memory(Arc<Exposure>),
    Messages,
    /// By other ranks; the bytes are among the packets.
    Relayed,
}

pub(super) struct Shuffle<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) shuffled: &'a Shuffled,
    pub(super) statistics: &'a mut CallStatistics,
    /// This rank's window, if it is an aggregator, and the ways to the ranks it serves.
    window: Option<(&'a Domain, Window)>,
    ways: Vec<Way>,
    /// Keeps this rank's buffer usable for the aggregators that share its memory.
    exposure: Option<ExposureGuard>,
    /// Messages that a rank has not answered yet.
    unanswered: HashMap<u32, u32>,
    /// Bytes that came, or go, in phases.
    pub(super) packets: Packets,
    /// Whether this rank knows of a failure.
    pub(super) gave_up: bool,
}

impl<'a> Shuffle<'a> {
    /// Exposes this rank's buffer to the aggregators that share its memory, and learns which
    /// buffers are exposed to this one.
    async fn start(
        job: &'a Job<'a>,
        shuffled: &'a Shuffled,
        statistics: &'a mut CallStatistics,
    ) -> Result<Shuffle<'a>> {
        let communicator = job.communicator;
        let rank = communicator.rank();
        let tag = Tag { call: job.call, lane: Lane::Data };
        // Several aggregators write to one buffer at once: then no byte may be named twice.
        let direct = shuffled.route() == Route::Direct;
        let exposable = direct
            && job.refused.is_none()
            && (job.prepared.direction == Direction::Write || job.buffer.is_sorted());
        let exposure = exposable.then(|| ExposureGuard::new(job.buffer.clone()));
        for domain in shuffled.domains().iter().filter(|_| direct) {
            let to = domain.aggregator;
            let concerned = !job.prepared.own.within(&domain.file).is_empty();
            if to != rank && concerned && communicator.shares_memory(to) {
                let shared = exposure.as_ref().map(|guard| guard.share() as _);
                communicator.send(to, tag, Message { bytes: Vec::new(), shared })?;
            }
        }
        let domain = shuffled.domain_of(rank);
        let other = if direct { Way::Messages } else { Way::Relayed };
        let mut ways = vec![other; job.prepared.peers.len()];
        ways[index(rank)] = Way::Own;
        if let Some(domain) = domain.filter(|_| direct) {
            for (peer, access) in job.prepared.peers.iter().enumerate() {
                let from = rank_of(peer);
                let concerned = !access.within(&domain.file).is_empty();
                if from != rank && concerned && communicator.shares_memory(from) {
                    let message = receive(communicator, from, tag).await?;
                    let shared = message.shared.and_then(|shared| shared.downcast().ok());
                    ways[peer] = shared.map_or(Way::Messages, Way::Memory);
                }
            }
        }
        let window = domain.map(|domain| (domain, Window::new(domain, shuffled)));
        let unanswered = HashMap::new();
        let gave_up = job.refused.is_some();
        let packets = Packets::new();
        Ok(Shuffle {
            job,
            shuffled,
            statistics,
            window,
            ways,
            exposure,
            unanswered,
            packets,
            gave_up,
        })
    }

    /// The aggregators to which this rank sends, or from which it receives, messages in a round,
    /// with its parcels for them.
    fn own_parcels(&self, round: u64) -> Vec<(u32, Parcel<'a>)> {
        let communicator = self.job.communicator;
        let exposed = self.exposure.is_some();
        let own = &self.job.prepared.own;
        let mut parcels = Vec::new();
        for domain in self.shuffled.domains() {
            let aggregator = domain.aggregator;
            let by_memory = exposed && communicator.shares_memory(aggregator);
            if aggregator == communicator.rank() || by_memory {
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
    fn window_parcels(&self, round: u64) -> (Vec<u32>, Vec<Parcel<'a>>) {
        let Some((domain, _)) = &self.window else { return (Vec::new(), Vec::new()) };
        let file = self.shuffled.window(domain, round);
        if file.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let rank = self.job.communicator.rank();
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
        let Some((_, window)) = &mut self.window else { return Ok(()) };
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
        window.open_for_write(self.job, &parcels, self.statistics);
        for (&rank, parcel) in ranks.iter().zip(&parcels) {
            self.place(rank, parcel).await?;
        }
        let Some((_, window)) = &mut self.window else { return Ok(()) };
        window.store(self.job, &parcels, self.statistics);
        drop(guard);
        let answer = if window.is_closed() { GAVE_UP } else { GOES_ON };
        self.gave_up |= window.is_closed();
        for rank in ranks {
            if matches!(self.ways[index(rank)], Way::Messages) {
                self.send(rank, Lane::Answer, vec![answer])?;
            }
        }
        Ok(())
    }

    /// Puts one rank's bytes into the window.
    async fn place(&mut self, rank: u32, parcel: &Parcel<'a>) -> Result<()> {
        let way = self.ways[index(rank)].clone();
        let message = match way {
            Way::Messages => Some(self.receive(rank, Lane::Data).await?),
            _ => None,
        };
        let Some((domain, window)) = &mut self.window else { return Ok(()) };
        if let Way::Relayed = way {
            match self.packets.remove(&(rank, domain.aggregator)) {
                Some(packet) if wide(packet.bytes().len()) == parcel.len() => {
                    if !window.is_closed() {
                        timed(&mut self.statistics.packing, || {
                            window.contents().unpack(parcel.clone(), packet.bytes());
                        });
                    }
                }
                // Whoever had to pass it on has given up.
                _ if self.gave_up => window.close(),
                _ => return Err(malformed()),
            }
            return Ok(());
        }
        if let Some(bytes) = message {
            match payload(&bytes, parcel.len())? {
                Some(payload) if !window.is_closed() => {
                    window.contents().unpack(parcel.clone(), payload);
                }
                Some(_) => {}
                None => window.close(),
            }
        }
        if window.is_closed() {
            return Ok(());
        }
        match way {
            Way::Own => timed(&mut self.statistics.packing, || {
                self.job.buffer.fill(&mut window.contents(), parcel.clone());
            }),
            Way::Memory(exposure) => {
                self.statistics.shared_bytes += parcel.len();
                let fill = |buffer: &Buffer| buffer.fill(&mut window.contents(), parcel.clone());
                if let Err(gone) = exposure.with(fill) {
                    return Err(self.who_left(rank, gone).await);
                }
            }
            Way::Messages | Way::Relayed => {}
        }
        Ok(())
    }

    /// Why a rank took its buffer away before the end: it is lost, or it knows of a lost rank.
    /// Whoever waits for it now learns which one that is.
    async fn who_left(&self, rank: u32, gone: Error) -> Error {
        self.receive(rank, Lane::Data).await.err().unwrap_or(gone)
    }

    /// Read, as an aggregator: fetches the window of this round and hands its bytes out.
    async fn fetch_window(&mut self, round: u64) -> Result<()> {
        let (ranks, parcels) = self.window_parcels(round);
        let Some((_, window)) = &mut self.window else { return Ok(()) };
        if parcels.is_empty() {
            return Ok(());
        }
        if self.gave_up {
            window.close();
        }
        let end = window.fetch(self.job, &parcels, self.statistics);
        for (rank, parcel) in ranks.into_iter().zip(parcels) {
            // Where the file ends, a rank gets the first of its positions only.
            let there = parcel.access.within(&(0..end)).end.max(parcel.positions.start);
            let positions = parcel.positions.start..there.min(parcel.positions.end);
            self.hand_out(rank, Parcel { positions, ..parcel }).await?;
        }
        Ok(())
    }

    /// Gives one rank its bytes of the window.
    async fn hand_out(&mut self, rank: u32, parcel: Parcel<'a>) -> Result<()> {
        let way = self.ways[index(rank)].clone();
        if matches!(way, Way::Messages) {
            self.wait_for_answers(rank, ROUNDS_AHEAD - 1).await?;
        }
        let Some((domain, window)) = &mut self.window else { return Ok(()) };
        match way {
            Way::Relayed => {
                let mut bytes = vec![0; narrow(parcel.len())];
                timed(&mut self.statistics.packing, || window.contents().pack(parcel, &mut bytes));
                self.gave_up |= window.error.is_some();
                self.packets.insert((rank, domain.aggregator), Packet::new(bytes));
            }
            Way::Own if self.job.refused.is_some() => {}
            Way::Own => timed(&mut self.statistics.packing, || {
                self.job.buffer.take(&window.contents(), parcel);
            }),
            Way::Memory(exposure) => {
                self.statistics.shared_bytes += parcel.len();
                let take = |buffer: &Buffer| buffer.take(&window.contents(), parcel);
                if let Err(gone) = exposure.with(take) {
                    return Err(self.who_left(rank, gone).await);
                }
            }
            Way::Messages => {
                let state = if window.error.is_some() { GAVE_UP } else { GOES_ON };
                let mut bytes = vec![state; narrow(parcel.len()) + 1];
                let payload = bytes.split_last_mut().map_or(&mut [][..], |(_, payload)| payload);
                window.contents().pack(parcel, payload);
                self.send(rank, Lane::Data, bytes)?;
                *self.unanswered.entry(rank).or_default() += 1;
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
        let mut report = match self.window {
            Some((domain, window)) => {
                // A window that was never closed has done its whole domain.
                let reached = if window.is_closed() { window.reached } else { domain.file.end };
                Report { reached, error: window.error }
            }
            None => Report { reached: 0, error: None },
        };
        report.error = self.job.refused.clone().or(report.error);
        let communicator = self.job.communicator;
        let (reached, error) = reports(communicator, self.job.call, report).await?;
        let own = &self.job.prepared.own;
        let done = |domain: &Domain| {
            let holder = self.shuffled.holder(communicator.rank(), domain);
            let end = reached[index(holder)].min(domain.file.end);
            let positions = own.within(&(domain.file.start..end.max(domain.file.start)));
            positions.end - positions.start
        };
        let moved = match self.job.refused {
            None => self.shuffled.domains().iter().map(done).sum(),
            Some(_) => 0,
        };
        Ok(Outcome { moved, error })
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
fn payload(message: &[u8], len: u64) -> Result<Option<&[u8]>> {
    match message.split_last().ok_or_else(malformed)? {
        (&GAVE_UP, _) => Ok(None),
        (_, payload) if wide(payload.len()) == len => Ok(Some(payload)),
        _ => Err(malformed()),
    }
}
