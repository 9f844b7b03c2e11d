//! Rounds in which ranks place and take their bytes in the aggregators' windows by themselves.
//!
//! The windows are in memory that the processes of a node have in common, one or two for each
//! aggregator. A write: the aggregator says that a window is open, each rank that has bytes in it
//! places them there and says so, and the aggregator stores them; the other window is filled
//! meanwhile. A read: the aggregator fetches a window and says how far the file goes, and each rank
//! takes its bytes and says so. What is said is some bytes, whose last one tells whether its sender
//! goes on or has given up.
//!
//! Short pieces are packed in these windows (`packed`).
//!
//! Cost: each byte is copied once, by the rank whose it is, besides the storage access; two short
//! messages for each rank in each window.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::Job;
use super::packed::Begin;
use super::shuffle::{GAVE_UP, GOES_ON, Shuffle, malformed};
use crate::access::memory::{CommonWindow, Parcel};
use crate::comm::Lane;
use crate::error::Result;

/// The windows of an aggregator, in the order in which rounds take them.
pub(super) fn windows(job: &Job<'_>, aggregator: u32, count: u64) -> Vec<CommonWindow> {
    let memory = job.communicator.common_memory();
    let window = |round| CommonWindow::of(memory?, aggregator, (round, count));
    (0..count).map_while(window).collect()
}

/// What an aggregator says of a window.
struct Said {
    /// Where the file ends, or later.
    end: u64,
    begin: Begin,
    gave_up: bool,
}

impl Said {
    fn to_wire(&self) -> Vec<u8> {
        let mut wire = self.end.to_le_bytes().to_vec();
        wire.extend(self.begin.to_wire().to_le_bytes());
        wire.push(state(self.gave_up));
        wire
    }

    fn from_wire(wire: &[u8]) -> Result<Said> {
        let (&state, numbers) = wire.split_last().ok_or_else(malformed)?;
        let (numbers, rest) = numbers.as_chunks::<8>();
        let &[end, begin] = numbers else { return Err(malformed()) };
        match rest.is_empty() {
            true => Ok(Said {
                end: u64::from_le_bytes(end),
                begin: Begin::from_wire(u64::from_le_bytes(begin)),
                gave_up: state != GOES_ON,
            }),
            false => Err(malformed()),
        }
    }
}

/// The rounds whose window a rank has not let go of yet, by rank.
#[derive(Default)]
pub(super) struct Lent(HashMap<u32, VecDeque<u64>>);

impl<'a> Shuffle<'a> {
    /// Write, as an aggregator: opens the windows of the first rounds.
    pub(super) fn open_first(&mut self) -> Result<()> {
        (0..self.shuffled.common_windows()).try_for_each(|round| self.open_common(round))
    }

    /// Write, as an aggregator: prepares the window of a round, and says that it is open.
    fn open_common(&mut self, round: u64) -> Result<()> {
        let (ranks, parcels) = self.window_parcels(round);
        let packed = self.shuffled.packs_common();
        let Some((domain, window)) = &mut self.window else { return Ok(()) };
        if parcels.is_empty() {
            return Ok(());
        }
        if self.gave_up {
            window.close();
        }
        if !packed {
            let start = self.shuffled.window(domain, round).start;
            window.open_for_write(self.job, (round, start), &parcels, self.statistics);
        }
        self.gave_up |= window.is_closed();
        let begins = Begin::of_all(&parcels, packed, u64::MAX);
        for (rank, begin) in ranks.into_iter().zip(begins) {
            if !self.is_own(rank) {
                let said = Said { end: u64::MAX, begin, gave_up: self.gave_up };
                self.send(rank, Lane::Answer, said.to_wire())?;
            }
        }
        Ok(())
    }

    /// Write, as a rank: places its bytes in the windows of a round.
    pub(super) async fn fill_own(&mut self, round: u64) -> Result<()> {
        for (aggregator, parcel) in self.common_parcels(round) {
            let mut begin = Begin::InPlace;
            let is_own = self.is_own(aggregator);
            if is_own && self.shuffled.packs_common() {
                continue;
            }
            if !is_own {
                let said = Said::from_wire(&self.receive(aggregator, Lane::Answer).await?)?;
                begin = said.begin;
                self.gave_up |= said.gave_up;
            }
            if !self.gave_up {
                self.copy((round, aggregator), (&parcel, begin), Copy::ToWindow)?;
            }
            if !is_own {
                self.send(aggregator, Lane::Data, vec![state(self.gave_up)])?;
            }
        }
        Ok(())
    }

    /// Write, as an aggregator: stores the window of a round when all ranks have filled it.
    pub(super) async fn store_common(&mut self, round: u64) -> Result<()> {
        let (ranks, parcels) = self.window_parcels(round);
        let mut closes = self.gave_up;
        for &rank in &ranks {
            if !self.is_own(rank) {
                closes |= self.receive(rank, Lane::Data).await?.last() != Some(&GOES_ON);
            }
        }
        let Some((_, window)) = &mut self.window else { return Ok(()) };
        if closes {
            window.close();
        }
        match self.shuffled.packs_common() {
            _ if parcels.is_empty() => {}
            true => self.store_packed(round, &ranks, &parcels),
            false => window.store(self.job, round, &parcels, self.statistics),
        }
        self.gave_up |= self.window.as_ref().is_some_and(|(_, window)| window.is_closed());
        self.open_common(round + self.shuffled.common_windows())
    }

    /// Read, as an aggregator: fetches the window of a round, and says how far the file goes.
    pub(super) async fn fetch_common(&mut self, round: u64) -> Result<()> {
        let (ranks, parcels) = self.window_parcels(round);
        if parcels.is_empty() {
            return Ok(());
        }
        if let Some(last) = round.checked_sub(self.shuffled.common_windows()) {
            self.take_back(last).await?;
        }
        let Some((domain, window)) = &mut self.window else { return Ok(()) };
        if self.gave_up {
            window.close();
        }
        let file = self.shuffled.window(domain, round);
        let packed = self.shuffled.packs_common();
        let begins = Begin::of_all(&parcels, packed, file.end - file.start);
        let end = match packed {
            true => self.fetch_packed(round, (&ranks, &parcels), &begins),
            false => window.fetch(self.job, (round, file.start), &parcels, self.statistics),
        };
        let gave_up = self.window.as_ref().is_some_and(|(_, window)| window.error.is_some());
        for (&rank, &begin) in ranks.iter().zip(&begins) {
            if !self.is_own(rank) {
                self.send(rank, Lane::Data, Said { end, begin, gave_up }.to_wire())?;
                self.lent.0.entry(rank).or_default().push_back(round);
            }
        }
        let own = ranks.iter().zip(parcels).find(|(rank, _)| self.is_own(**rank));
        if let (false, Some((&rank, parcel))) = (packed, own) {
            self.copy((round, rank), (&parcel.before(end), Begin::InPlace), Copy::FromWindow)?;
        }
        Ok(())
    }

    /// Read, as a rank: takes its bytes out of the windows of a round.
    pub(super) async fn take_own(&mut self, round: u64) -> Result<()> {
        for (aggregator, parcel) in self.common_parcels(round) {
            if self.is_own(aggregator) {
                continue;
            }
            let said = Said::from_wire(&self.receive(aggregator, Lane::Data).await?)?;
            self.gave_up |= said.gave_up;
            let there = parcel.before(said.end);
            self.copy((round, aggregator), (&there, said.begin), Copy::FromWindow)?;
            self.send(aggregator, Lane::Answer, vec![state(self.gave_up)])?;
        }
        Ok(())
    }

    /// Read, as an aggregator: waits until all ranks have let go of the windows up to a round.
    pub(super) async fn take_back(&mut self, last: u64) -> Result<()> {
        let mut ranks: Vec<u32> = self.lent.0.keys().copied().collect();
        ranks.sort_unstable();
        for rank in ranks {
            let is_due = |rounds: &VecDeque<u64>| rounds.front().is_some_and(|&one| one <= last);
            while self.lent.0.get(&rank).is_some_and(is_due) {
                let answer = self.receive(rank, Lane::Answer).await?;
                self.gave_up |= answer.last() != Some(&GOES_ON);
                self.lent.0.entry(rank).or_default().pop_front();
            }
        }
        Ok(())
    }

    pub(super) fn is_own(&self, rank: u32) -> bool {
        rank == self.job.communicator.rank()
    }

    /// This rank's parcels in the windows of a round, its own window's included.
    fn common_parcels(&self, round: u64) -> Vec<(u32, Parcel<'a>)> {
        let own = &self.job.prepared.own;
        let parcel = |domain: &crate::plan::two_phase::Domain| {
            let positions = own.within(&self.shuffled.window(domain, round));
            let parcel = Parcel { access: own, positions };
            (!parcel.positions.is_empty()).then_some((domain.aggregator, parcel))
        };
        self.shuffled.domains().iter().filter_map(parcel).collect()
    }

    /// The window of an aggregator in a round.
    pub(super) fn common_window(&self, round: u64, aggregator: u32) -> CommonWindow {
        let memory = self.job.communicator.common_memory();
        let windows = (round, self.shuffled.common_windows());
        let window = memory.and_then(|memory| CommonWindow::of(memory, aggregator, windows));
        match window {
            Some(window) => window,
            None => unreachable!("all ranks have agreed that they have the aggregators' windows"),
        }
    }

    /// Copies the bytes of this rank's parcel to or from a window.
    fn copy(
        &mut self,
        (round, aggregator): (u64, u32),
        (parcel, begin): (&Parcel<'_>, Begin),
        copy: Copy,
    ) -> Result<()> {
        let Job { buffer, refused, .. } = self.job;
        let Some(domain) = self.shuffled.domain_of(aggregator) else { return Err(malformed()) };
        if refused.is_some() {
            return Ok(());
        }
        let window = self.common_window(round, aggregator);
        let (began, file) = (Instant::now(), self.shuffled.window(domain, round));
        match (copy, begin) {
            (Copy::ToWindow, Begin::InPlace) => buffer.fill_common(&window, file.start, parcel),
            (Copy::FromWindow, Begin::InPlace) => buffer.take_common(&window, file.start, parcel),
            (_, Begin::At(first)) if !window.holds(first, parcel.len()) => {
                return Err(malformed());
            }
            (Copy::ToWindow, Begin::At(first)) => buffer.pack_common(&window, first, parcel),
            (Copy::FromWindow, Begin::At(first)) => buffer.unpack_common(&window, first, parcel),
        }
        if !self.is_own(aggregator) {
            self.statistics.shared_bytes += parcel.len();
        }
        self.statistics.packing += began.elapsed();
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Copy {
    ToWindow,
    FromWindow,
}

fn state(gave_up: bool) -> u8 {
    if gave_up { GAVE_UP } else { GOES_ON }
}
