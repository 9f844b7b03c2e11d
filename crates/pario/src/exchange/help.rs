//! Aggregators of one process help each other.
//!
//! Their domains are of one length, but the times that these take are not: one of them gets its
//! processor later, or shares it for a while. So each takes its rounds from a counter, and tells a
//! few others of it; whoever has done its own rounds takes theirs. (16 threads on 2 processors read
//! 100 MiB in pieces of 512 bytes in 16 ms, of which one aggregator had nothing to do for 1 to 5.)
//!
//! This needs ranks that let others use their memory, in this process: whoever sends messages has
//! to know to whom.
//!
//! Rounds are done in any order then, so that what is not done is told as ranges.
//!
//! Cost: a message to each of [`HELPERS`] aggregators in a call, an atomic number in a round.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::shuffle::Shuffle;
use super::ways::{Way, Ways};
use super::{Job, Prepared};
use crate::comm::{Lane, Message, Tag, receive};
use crate::error::Result;
use crate::plan::two_phase::Route;

/// How many others an aggregator tells of its rounds.
const HELPERS: usize = 3;

/// The rounds of one aggregator.
pub(super) struct Rounds {
    /// The next one that nobody has taken.
    next: AtomicU64,
    /// What whoever helps has to know: the parcels that the aggregator knows, and the ways of their
    /// bytes.
    prepared: Arc<Prepared>,
    ways: Vec<Way>,
}

impl Rounds {
    /// Rounds that others can take, if the ways are such.
    fn shared(prepared: &Arc<Prepared>, ways: &Ways) -> Option<Arc<Rounds>> {
        let (next, ways) = (AtomicU64::new(0), ways.for_others()?);
        Some(Arc::new(Rounds { next, prepared: prepared.clone(), ways }))
    }

    fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes all that are left; returns the first of them.
    fn take_rest(&self) -> u64 {
        self.next.fetch_max(u64::MAX / 2, Ordering::Relaxed)
    }
}

impl Shuffle<'_> {
    /// The aggregators at some distance from this one, before it or behind it, if they are threads
    /// of one process.
    fn others(&self, before: bool) -> Vec<u32> {
        let (communicator, domains) = (self.job.communicator, self.shuffled.domains());
        let is_own = |rank: u32| rank == communicator.rank();
        let own = domains.iter().position(|domain| is_own(domain.aggregator));
        let (Some(own), Route::Direct) = (own, self.shuffled.route()) else { return Vec::new() };
        let at = |distance: usize| match before {
            true => own + domains.len() - distance,
            false => own + distance,
        };
        (1..domains.len().min(HELPERS + 1))
            .map(|distance| domains[at(distance) % domains.len()].aggregator)
            .filter(|&rank| communicator.shares_memory(rank))
            .collect()
    }

    /// Tells others of this aggregator's rounds, or that they cannot help.
    pub(super) fn ask_for_help(&mut self) -> Result<()> {
        let others = self.others(false);
        if others.is_empty() {
            return Ok(());
        }
        self.rounds = Rounds::shared(self.job.prepared, &self.ways);
        let tag = Tag { call: self.job.call, lane: Lane::Control };
        for rank in others {
            let shared = self.rounds.clone().map(|rounds| rounds as _);
            self.job.communicator.send(rank, tag, Message { bytes: Vec::new(), shared })?;
        }
        Ok(())
    }

    /// Does a round of this aggregator's own domain; `next` is the one whose turn it is if nobody
    /// helps.
    pub(super) async fn serve_own(&mut self, next: u64) -> Result<()> {
        match self.rounds.clone() {
            Some(rounds) => self.serve_one_of(&rounds).await.map(drop),
            None => self.serve(next).await,
        }
    }

    /// Does rounds of others, once those of this aggregator are done.
    pub(super) async fn help(&mut self) -> Result<()> {
        let tag = Tag { call: self.job.call, lane: Lane::Control };
        for rank in self.others(true) {
            let message = receive(self.job.communicator, rank, tag).await?;
            let rounds = message.shared.and_then(|shared| shared.downcast::<Rounds>().ok());
            let is_able = self.rounds.is_some() && !self.gave_up;
            let (Some(rounds), true) = (rounds, is_able) else { continue };
            self.help_one(rank, &rounds).await?;
        }
        Ok(())
    }

    /// Does rounds of another aggregator as if this were that one, but with its own window.
    async fn help_one(&mut self, rank: u32, rounds: &Rounds) -> Result<()> {
        let (Some(domain), Some((own, window))) =
            (self.shuffled.domain_of(rank), self.window.take_if(|(_, window)| !window.is_closed()))
        else {
            return Ok(());
        };
        let job = Job { prepared: &rounds.prepared, refused: None, ..*self.job };
        let ways = Ways::of_another(rounds.ways.clone());
        let mut theirs = Shuffle::new((&job, self.shuffled), ways, &mut *self.statistics);
        theirs.window = Some((domain, window));
        theirs.undone = std::mem::take(&mut self.undone);
        let helped = theirs.serve_all_of(rounds).await;
        let Shuffle { window, undone, gave_up, .. } = theirs;
        self.window = window.map(|(_, window)| (own, window));
        self.undone = undone;
        self.gave_up |= gave_up;
        helped
    }

    async fn serve_all_of(&mut self, rounds: &Rounds) -> Result<()> {
        while self.serve_one_of(rounds).await? {}
        Ok(())
    }

    /// Does one of the rounds that nobody has taken; whether there was one.
    async fn serve_one_of(&mut self, rounds: &Rounds) -> Result<bool> {
        let (round, count) = (rounds.take(), self.shuffled.rounds());
        let Some((domain, window)) = &mut self.window else { return Ok(false) };
        if round >= count {
            return Ok(false);
        }
        let domain = *domain;
        let file = self.shuffled.window(domain, round);
        window.reached = file.start;
        self.serve(round).await?;
        let Some((_, window)) = &mut self.window else { return Ok(false) };
        if !window.is_closed() {
            return Ok(true);
        }
        self.undone.push(window.reached.clamp(file.start, file.end)..file.end);
        // The end of the file is not the end of all rounds, but a failure is.
        window.open_again();
        if window.is_closed() {
            let rest = rounds.take_rest().min(count);
            self.undone.push(self.shuffled.window(domain, rest).start..domain.file.end);
        }
        Ok(true)
    }
}
