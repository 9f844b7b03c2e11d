//! Rounds in which ranks place and take their bytes in the aggregators' windows by themselves.
//!
//! The windows are in memory that the processes of a node have in common, two for each aggregator.
//! A write: the aggregator says that a window is open, each rank that has bytes in it places them
//! there and says so, and the aggregator stores them; the other window is filled meanwhile. A read:
//! the aggregator fetches a window and says how far the file goes, and each rank takes its bytes
//! and says so. What is said is some bytes, whose last one tells whether its sender goes on or has
//! given up.
//!
//! Cost: each byte is copied once, by the rank whose it is, besides the storage access; two short
//! messages for each rank in each window.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::Job;
use super::shuffle::{GAVE_UP, GOES_ON, Shuffle, malformed};
use crate::access::memory::{COMMON_WINDOWS, CommonWindow, Parcel};
use crate::comm::Lane;
use crate::error::Result;

/// The windows of an aggregator, in the order in which rounds take them.
pub(super) fn windows(job: &Job<'_>, aggregator: u32) -> Vec<CommonWindow> {
    let memory = job.communicator.common_memory();
    let window = |round| CommonWindow::of(memory?, aggregator, round);
    (0..COMMON_WINDOWS).map_while(window).collect()
}

/// The rounds whose window a rank has not let go of yet, by rank.
#[derive(Default)]
pub(super) struct Lent(HashMap<u32, VecDeque<u64>>);

impl<'a> Shuffle<'a> {
    /// Write, as an aggregator: opens the windows of the first rounds.
    pub(super) fn open_first(&mut self) -> Result<()> {
        (0..COMMON_WINDOWS).try_for_each(|round| self.open_common(round))
    }

    /// Write, as an aggregator: prepares the window of a round, and says that it is open.
    fn open_common(&mut self, round: u64) -> Result<()> {
        let (ranks, parcels) = self.window_parcels(round);
        let Some((domain, window)) = &mut self.window else { return Ok(()) };
        if parcels.is_empty() {
            return Ok(());
        }
        if self.gave_up {
            window.close();
        }
        let start = self.shuffled.window(domain, round).start;
        window.open_for_write(self.job, (round, start), &parcels, self.statistics);
        let state = state(window.is_closed());
        self.gave_up |= window.is_closed();
        for rank in self.others(ranks) {
            self.send(rank, Lane::Answer, vec![state])?;
        }
        Ok(())
    }

    /// Write, as a rank: places its bytes in the windows of a round.
    pub(super) async fn fill_own(&mut self, round: u64) -> Result<()> {
        for (aggregator, parcel) in self.common_parcels(round) {
            let is_own = self.is_own(aggregator);
            if !is_own {
                let open = self.receive(aggregator, Lane::Answer).await?;
                self.gave_up |= open.last() != Some(&GOES_ON);
            }
            if !self.gave_up {
                self.copy(round, aggregator, &parcel, Copying::ToWindow);
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
        for rank in self.others(ranks) {
            closes |= self.receive(rank, Lane::Data).await?.last() != Some(&GOES_ON);
        }
        let Some((_, window)) = &mut self.window else { return Ok(()) };
        if closes {
            window.close();
        }
        if !parcels.is_empty() {
            window.store(self.job, round, &parcels, self.statistics);
        }
        self.gave_up |= window.is_closed();
        self.open_common(round + COMMON_WINDOWS)
    }

    /// Read, as an aggregator: fetches the window of a round, and says how far the file goes.
    pub(super) async fn fetch_common(&mut self, round: u64) -> Result<()> {
        let (ranks, parcels) = self.window_parcels(round);
        if parcels.is_empty() {
            return Ok(());
        }
        if let Some(last) = round.checked_sub(COMMON_WINDOWS) {
            self.take_back(last).await?;
        }
        let Some((domain, window)) = &mut self.window else { return Ok(()) };
        if self.gave_up {
            window.close();
        }
        let start = self.shuffled.window(domain, round).start;
        let end = window.fetch(self.job, (round, start), &parcels, self.statistics);
        let failed = window.error.is_some();
        let mut said = end.to_le_bytes().to_vec();
        said.push(state(failed));
        for &rank in &ranks {
            if !self.is_own(rank) {
                self.send(rank, Lane::Data, said.clone())?;
                self.lent.0.entry(rank).or_default().push_back(round);
            }
        }
        let own = ranks.iter().zip(parcels).find(|(rank, _)| self.is_own(**rank));
        if let Some((&rank, parcel)) = own {
            self.copy(round, rank, &parcel.before(end), Copying::FromWindow);
        }
        Ok(())
    }

    /// Read, as a rank: takes its bytes out of the windows of a round.
    pub(super) async fn take_own(&mut self, round: u64) -> Result<()> {
        for (aggregator, parcel) in self.common_parcels(round) {
            if self.is_own(aggregator) {
                continue;
            }
            let said = self.receive(aggregator, Lane::Data).await?;
            let (&state_there, end) = said.split_last().ok_or_else(malformed)?;
            let end = u64::from_le_bytes(end.try_into().map_err(|_| malformed())?);
            self.gave_up |= state_there == GAVE_UP;
            self.copy(round, aggregator, &parcel.before(end), Copying::FromWindow);
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

    fn is_own(&self, rank: u32) -> bool {
        rank == self.job.communicator.rank()
    }

    fn others(&self, ranks: Vec<u32>) -> Vec<u32> {
        ranks.into_iter().filter(|&rank| !self.is_own(rank)).collect()
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

    /// Copies the bytes of this rank's parcel to or from a window.
    fn copy(&mut self, round: u64, aggregator: u32, parcel: &Parcel<'_>, copying: Copying) {
        let Job { communicator, buffer, refused, .. } = self.job;
        if refused.is_some() {
            return;
        }
        let domain = self.shuffled.domain_of(aggregator);
        let memory = communicator.common_memory();
        let window = memory.and_then(|memory| CommonWindow::of(memory, aggregator, round));
        let (Some(domain), Some(window)) = (domain, window) else {
            unreachable!("all ranks have agreed that they have the aggregators' windows");
        };
        let (began, offset) = (Instant::now(), self.shuffled.window(domain, round).start);
        match copying {
            Copying::ToWindow => buffer.fill_common(&window, offset, parcel),
            Copying::FromWindow => buffer.take_common(&window, offset, parcel),
        }
        if !self.is_own(aggregator) {
            self.statistics.shared_bytes += parcel.len();
        }
        self.statistics.packing += began.elapsed();
    }
}

enum Copying {
    ToWindow,
    FromWindow,
}

fn state(gave_up: bool) -> u8 {
    if gave_up { GAVE_UP } else { GOES_ON }
}
