//! Windows in the memory of their aggregators: bytes travel in messages.
//!
//! At most [`ROUNDS_AHEAD`] messages from one rank to another are unacknowledged, which bounds
//! the memory they take. Both sides know from the plan which rank sends what to which: no
//! counts are exchanged.
//!
//! The last byte of each message says whether its sender goes on or has given up; a rank that
//! learns of a failure gives up too, but takes part until the last round.
//!
//! Cost: a copy into a message, its transfer, and a copy into the window.

use std::collections::HashMap;

use super::executor::Executor;
use super::forward::{Packet, Packets};
use super::window::reach;
use super::{Intent, Job, Protection};
use crate::access::memory::{Parcel, Turns};
use crate::comm::{Lane, Tag, catch_up, receive, since};
use crate::datatype::copy::Stores;
use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};
use crate::plan::{Domain, Holes};

/// How many unacknowledged messages a rank may have sent to another.
const ROUNDS_AHEAD: u32 = 2;

pub(super) const GOES_ON: u8 = 0;
pub(super) const GAVE_UP: u8 = 1;

/// Messages of a rank in one call.
pub(super) struct Mail {
    /// Messages that a rank has not answered yet.
    unanswered: HashMap<u32, u32>,
    /// Bytes that came, or go, in phases.
    pub(super) packets: Packets,
    /// Whether this rank knows of a failure.
    pub(super) gave_up: bool,
}

impl Mail {
    pub(super) fn new(job: &Job<'_>) -> Mail {
        let gave_up = job.refused.is_some();
        Mail { unanswered: HashMap::new(), packets: Packets::new(), gave_up }
    }

    /// Whether this rank goes on, as others learn it.
    pub(super) fn state(&self) -> u8 {
        if self.gave_up { GAVE_UP } else { GOES_ON }
    }
}

impl<'a> Executor<'a> {
    /// The aggregators to which this rank sends, or from which it receives, messages in a round,
    /// with its parcels for them.
    fn own_parcels(&self, round: u64) -> Vec<(u32, Parcel<'a>)> {
        let own = &self.job.prepared.own;
        let rank = self.job.communicator.rank();
        let others = self.shuffled.domains().iter().filter(|domain| domain.aggregator != rank);
        let parcel = |domain: &Domain| {
            let positions = own.within(&self.shuffled.window(domain, round));
            let parcel = Parcel { access: own, positions };
            (parcel.len() > 0).then_some((domain.aggregator, parcel))
        };
        others.filter_map(parcel).collect()
    }

    /// The ranks that have bytes in this rank's window of a round, and their parcels.
    fn window_parcels(&self, round: u64) -> Option<(&'a Domain, Vec<u32>, Vec<Parcel<'a>>)> {
        let rank = self.job.communicator.rank();
        let domain = self.shuffled.domain_of(rank)?;
        let file = self.shuffled.window(domain, round);
        let holds = |source| self.shuffled.holder(source, domain) == rank;
        let (ranks, parcels) = self.parcels(&file, holds);
        (!parcels.is_empty()).then_some((domain, ranks, parcels))
    }

    /// Write, as a rank: sends the bytes that other aggregators store in this round.
    pub(super) async fn send_own(&mut self, round: u64) -> Result<()> {
        for (aggregator, parcel) in self.own_parcels(round) {
            self.wait_for_answers(aggregator, ROUNDS_AHEAD - 1).await?;
            let len = if self.mail.gave_up { 0 } else { narrow(parcel.len()) };
            let mut bytes = vec![self.mail.state(); len + 1];
            if len > 0 {
                self.job.buffer.pack(&parcel.positions, &mut bytes[..len]);
                self.job.charge_copy(&parcel);
                self.statistics.packing += catch_up(self.job.communicator).await;
            }
            self.send(aggregator, Lane::Data, bytes)?;
            *self.mail.unanswered.entry(aggregator).or_default() += 1;
        }
        Ok(())
    }

    /// Write, as an aggregator: assembles the window of this round and stores it.
    pub(super) async fn store_window(&mut self, round: u64) -> Result<()> {
        let Some((domain, ranks, parcels)) = self.window_parcels(round) else { return Ok(()) };
        if self.mail.gave_up {
            self.window.close();
        }
        let file = reach(&parcels);
        let intent = match self.shuffled.holes() {
            Holes::Locked => Some(Intent::Rewrite),
            Holes::Skipped if self.shuffled.is_careful() => Some(Intent::Write),
            _ => None,
        };
        let guard = match intent {
            Some(intent) if !self.window.is_closed() => {
                self.job.protect(&file, intent, self.statistics).await
            }
            _ => Ok(Protection::default()),
        };
        let guard = guard.unwrap_or_else(|error| {
            self.window.fail(error);
            Protection::default()
        });
        self.window.prepare(self.job, &parcels, self.statistics);
        self.statistics.storage += catch_up(self.job.communicator).await;
        let arrived = self.arrivals(domain, &ranks, &parcels).await?;
        self.assemble((&ranks, &parcels), &arrived);
        drop(arrived);
        self.statistics.packing += catch_up(self.job.communicator).await;
        let end = self.window.store(self.job, &parcels, self.statistics);
        self.statistics.storage += catch_up(self.job.communicator).await;
        if let Err(error) = guard.release() {
            self.window.fail(error);
        }
        self.part.leave_undone(end..file.end);
        self.mail.gave_up |= self.window.is_closed();
        if self.shuffled.phases().is_none() {
            let own = self.job.communicator.rank();
            for rank in ranks.into_iter().filter(|&rank| rank != own) {
                self.send(rank, Lane::Answer, vec![self.mail.state()])?;
            }
        }
        Ok(())
    }

    /// The bytes of other ranks in a window, which came in messages or packets, by parcel; closes
    /// the window if a rank has given up.
    async fn arrivals(
        &mut self,
        domain: &Domain,
        ranks: &[u32],
        parcels: &[Parcel<'a>],
    ) -> Result<Vec<Packet>> {
        let own = self.job.communicator.rank();
        let mut arrived = Vec::with_capacity(ranks.len());
        for (&rank, parcel) in ranks.iter().zip(parcels) {
            let packet = match self.shuffled.phases() {
                _ if rank == own => Packet::default(),
                None => Packet::new(self.receive_data(rank).await?),
                Some(_) => self.mail.packets.remove(&(rank, domain.aggregator)).unwrap_or_default(),
            };
            if rank != own && wide(packet.bytes().len()) != parcel.len() {
                // Its sender, or a rank that had to pass it on, has given up.
                match self.mail.gave_up {
                    true => self.window.close(),
                    false => self.refuse(),
                }
            }
            arrived.push(packet);
        }
        Ok(arrived)
    }

    /// Puts all ranks' bytes into the window.
    fn assemble(&mut self, (ranks, parcels): (&[u32], &[Parcel<'a>]), arrived: &[Packet]) {
        if self.window.is_closed() {
            return;
        }
        let began = self.job.communicator.now();
        let own = self.job.communicator.rank();
        let mut contents = self.window.contents();
        let mut turns = Turns::new(&mut contents, parcels.len());
        for ((&rank, parcel), packet) in ranks.iter().zip(parcels).zip(arrived) {
            match rank == own {
                true => turns.fill(self.job.buffer, parcel),
                false => turns.unpack(packet.bytes(), parcel),
            }
        }
        turns.run(self.job.prepared.disjoint);
        parcels.iter().for_each(|parcel| self.job.charge_copy(parcel));
        self.statistics.packing += since(self.job.communicator, began);
    }

    /// Read, as an aggregator: fetches the window of this round and hands its bytes out.
    pub(super) async fn fetch_window(&mut self, round: u64) -> Result<()> {
        let Some((domain, ranks, mut parcels)) = self.window_parcels(round) else { return Ok(()) };
        if self.mail.gave_up {
            self.window.close();
        }
        let file = reach(&parcels);
        let end = self.window.fetch(self.job, &file, self.statistics);
        self.statistics.storage += catch_up(self.job.communicator).await;
        if end < file.end {
            self.window.close();
            parcels = parcels.into_iter().map(|parcel| parcel.before(end)).collect();
        }
        let own = self.job.communicator.rank();
        if let Some(at) = ranks.iter().position(|&rank| rank == own).filter(|_| end < file.end) {
            self.part.miss(parcels[at].positions.end);
        }
        if self.shuffled.phases().is_none() {
            for &rank in ranks.iter().filter(|&&rank| rank != own) {
                self.wait_for_answers(rank, ROUNDS_AHEAD - 1).await?;
            }
        }
        let leaving = self.hand_out(&ranks, &parcels);
        self.statistics.packing += catch_up(self.job.communicator).await;
        self.dispatch(domain, leaving)
    }

    /// Gives this rank its bytes of the window; returns those of others, each with a last byte that
    /// says whether this rank goes on.
    fn hand_out(&mut self, ranks: &[u32], parcels: &[Parcel<'a>]) -> Vec<(u32, Vec<u8>)> {
        let began = self.job.communicator.now();
        let own = self.job.communicator.rank();
        let state = if self.window.error.is_some() { GAVE_UP } else { GOES_ON };
        let others = ranks.iter().zip(parcels).filter(|&(&rank, _)| rank != own);
        let mut leaving: Vec<(u32, Vec<u8>)> =
            others.map(|(&rank, parcel)| (rank, vec![state; narrow(parcel.len()) + 1])).collect();
        let mut contents = self.window.contents();
        let mut turns = Turns::new(&mut contents, parcels.len());
        let mut rooms = leaving.iter_mut();
        for (&rank, parcel) in ranks.iter().zip(parcels) {
            if rank == own {
                if self.job.refused.is_none() {
                    turns.take(self.job.buffer, parcel);
                }
            } else if let Some((_, room)) = rooms.next() {
                turns.pack(&mut room[..narrow(parcel.len())], parcel, Stores::Cached);
            }
        }
        turns.run(true);
        parcels.iter().for_each(|parcel| self.job.charge_copy(parcel));
        self.statistics.packing += since(self.job.communicator, began);
        leaving
    }

    /// Sends the bytes of a window on their way.
    fn dispatch(&mut self, domain: &Domain, leaving: Vec<(u32, Vec<u8>)>) -> Result<()> {
        for (rank, mut bytes) in leaving {
            if self.shuffled.phases().is_some() {
                self.mail.gave_up |= bytes.pop() == Some(GAVE_UP);
                self.mail.packets.insert((rank, domain.aggregator), Packet::new(bytes));
            } else {
                self.send(rank, Lane::Data, bytes)?;
                *self.mail.unanswered.entry(rank).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Read, as a rank: receives the bytes that other aggregators fetched in this round.
    pub(super) async fn receive_own(&mut self, round: u64) -> Result<()> {
        for (aggregator, parcel) in self.own_parcels(round) {
            let bytes = self.receive_data(aggregator).await?;
            self.unpack_own(&parcel, &bytes);
            self.statistics.packing += catch_up(self.job.communicator).await;
            self.send(aggregator, Lane::Answer, vec![self.mail.state()])?;
        }
        Ok(())
    }

    /// Puts bytes of a parcel to their places; there may be fewer than were asked for.
    pub(super) fn unpack_own(&mut self, parcel: &Parcel<'_>, payload: &[u8]) {
        let (start, len) = (parcel.positions.start, wide(payload.len()));
        if len > parcel.len() {
            self.part.miss(start);
            return self.refuse();
        }
        if len < parcel.len() {
            self.part.miss(start + len);
        }
        if self.job.refused.is_none() {
            self.job.buffer.unpack(&(start..start + len), payload);
            self.job.charge_copy(parcel);
        }
    }

    /// Waits until a rank has at most `limit` unanswered messages.
    async fn wait_for_answers(&mut self, rank: u32, limit: u32) -> Result<()> {
        while self.mail.unanswered.get(&rank).is_some_and(|&count| count > limit) {
            let answer = self.receive(rank, Lane::Answer).await?;
            self.mail.gave_up |= answer.first() == Some(&GAVE_UP);
            self.mail.unanswered.entry(rank).and_modify(|count| *count -= 1);
        }
        Ok(())
    }

    /// After the last round.
    pub(super) async fn wait_for_all_answers(&mut self) -> Result<()> {
        let mut ranks: Vec<u32> = self.mail.unanswered.keys().copied().collect();
        ranks.sort_unstable();
        for rank in ranks {
            self.wait_for_answers(rank, 0).await?;
        }
        Ok(())
    }

    pub(super) fn send(&mut self, to: u32, lane: Lane, bytes: Vec<u8>) -> Result<()> {
        self.statistics.messages += 1;
        self.statistics.sent_bytes += wide(bytes.len());
        self.job.communicator.send(to, Tag { call: self.job.call, lane }, bytes)
    }

    /// The bytes of the next message from a rank, without the last one: that says whether its
    /// sender goes on.
    pub(super) async fn receive_data(&mut self, from: u32) -> Result<Vec<u8>> {
        let mut bytes = self.receive(from, Lane::Data).await?;
        match bytes.pop() {
            Some(state) => self.mail.gave_up |= state == GAVE_UP,
            None => self.refuse(),
        }
        Ok(bytes)
    }

    /// Gives up because of a message that is not as the plan says.
    pub(super) fn refuse(&mut self) {
        self.window.fail(malformed());
        self.mail.gave_up = true;
    }

    async fn receive(&self, from: u32, lane: Lane) -> Result<Vec<u8>> {
        receive(self.job.communicator, from, Tag { call: self.job.call, lane }).await
    }
}

pub(super) fn malformed() -> Error {
    Error::new(ErrorClass::Intern, "a rank sent a malformed piece of data")
}
