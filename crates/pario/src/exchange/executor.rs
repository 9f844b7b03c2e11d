//! Rounds over windows: the one executor of every shuffled plan.
//!
//! In each round a rank gives its bytes to the windows of the round, or takes them from there, and
//! serves those that are its to serve: assembles and stores them, or fetches them and hands them
//! out. Where windows are, how bytes get there, and who serves them are values of the plan:
//!
//! | placement | give and take | serve |
//! | --- | --- | --- |
//! | own memory, direct (`messages`) | a message to or from each aggregator | the aggregator |
//! | own memory, phases (`forward`) | store-and-forward between partners | the holder |
//! | shared memory (`shared`) | a rank copies its own bytes | self-scheduled, or the aggregator |
//!
//! A failure is data: the rank that has it goes on through the rounds without touching storage, and
//! all ranks learn of it at the end (`outcome`).

use std::ops::Range;

use super::Job;
use super::messages::Mail;
use super::outcome::{Part, conclude};
use super::shared::Shared;
use super::window::Window;
use crate::access::Access;
use crate::access::memory::Parcel;
use crate::comm::since;
use crate::direction::Direction;
use crate::error::Result;
use crate::plan::{Placement, Route, Shuffled};
use crate::statistics::CallStatistics;

/// Carries out all rounds; every rank returns the same error.
pub(super) async fn run(
    job: &Job<'_>,
    shuffled: &Shuffled,
    statistics: &mut CallStatistics,
) -> Result<u64> {
    let (start, storage_before) = (job.communicator.now(), statistics.storage);
    let mut executor = Executor::new(job, shuffled, statistics);
    for round in 0..shuffled.rounds() {
        executor.round(round).await?;
    }
    let outcome = executor.finish().await;
    let storage = statistics.storage - storage_before;
    statistics.exchange += since(job.communicator, start).saturating_sub(storage);
    outcome
}

pub(super) struct Executor<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) shuffled: &'a Shuffled,
    pub(super) statistics: &'a mut CallStatistics,
    /// The window that this rank serves now.
    pub(super) window: Window,
    /// Messages of this rank, where windows are in the memory of their aggregators.
    pub(super) mail: Mail,
    /// Windows in shared memory, where the plan says so.
    pub(super) shared: Option<Shared<'a>>,
    /// What became of this rank's part.
    pub(super) part: Part,
}

impl<'a> Executor<'a> {
    fn new(
        job: &'a Job<'a>,
        shuffled: &'a Shuffled,
        statistics: &'a mut CallStatistics,
    ) -> Executor<'a> {
        let (shared, bytes) = match shuffled.placement() {
            Placement::Own(_) => {
                let serves = shuffled.domain_of(job.communicator.rank()).is_some();
                (None, if serves { shuffled.window_bytes() } else { 0 })
            }
            Placement::Shared(windows) => {
                let bytes = if windows.packed { windows.part_bytes } else { 0 };
                (Some(Shared::new(job, shuffled, windows)), bytes)
            }
        };
        let (window, mail) = (Window::new(bytes, shuffled), Mail::new(job));
        let part = Part::new(&job.prepared.own);
        if job.refused.is_some() || window.error.is_some() {
            // This rank touches no storage, and the others need not either.
            shared.iter().for_each(|shared| shared.schedule.fail());
        }
        Executor { job, shuffled, statistics, window, mail, shared, part }
    }

    /// In a write, ranks give their bytes to the windows of a round, which are then stored; in a
    /// read, windows are fetched, and ranks take their bytes from there. Ranks that wait serve
    /// shared windows.
    async fn round(&mut self, round: u64) -> Result<()> {
        match (self.shuffled.placement(), self.job.prepared.direction) {
            (Placement::Shared(_), _) => self.copy_own(round).await,
            (Placement::Own(route), Direction::Write) => {
                match route {
                    Route::Direct => self.send_own(round).await?,
                    Route::Phases(phases) => self.forward_writes(phases, round).await?,
                }
                self.store_window(round).await
            }
            (Placement::Own(route), Direction::Read) => {
                self.fetch_window(round).await?;
                match route {
                    Route::Direct => self.receive_own(round).await,
                    Route::Phases(phases) => self.forward_reads(phases, round).await,
                }
            }
        }
    }

    /// After the last round: what became of this rank's request, and the error of all.
    async fn finish(mut self) -> Result<u64> {
        match &self.shared {
            Some(_) => self.serve_to_the_end().await?,
            None => self.wait_for_all_answers().await?,
        }
        self.part.error = self.job.refused.clone().or(self.window.error.take());
        // Giving memory back takes a while, and others wait.
        let Executor { job, shuffled, shared, part, window, .. } = self;
        drop(window);
        let has_failed = shared.map(|shared| shared.schedule.has_failed());
        conclude(job, part, has_failed, |from, file| {
            let domains = shuffled.domains();
            let domain = domains.iter().find(|domain| domain.file.contains(&file.start));
            // In phases, several ranks store parts of one domain.
            let is_holder = |domain| shuffled.holder(job.communicator.rank(), domain) == from;
            shuffled.phases().is_none() || domain.is_none_or(is_holder)
        })
        .await
    }

    /// The ranks that have bytes in a part of the file and for which `counts` says so, and their
    /// parcels.
    pub(super) fn parcels(
        &self,
        file: &Range<u64>,
        counts: impl Fn(u32) -> bool,
    ) -> (Vec<u32>, Vec<Parcel<'a>>) {
        let parcel = |(rank, access): (u32, &'a Access)| {
            let positions = if counts(rank) { access.within(file) } else { 0..0 };
            (!positions.is_empty()).then_some((rank, Parcel { access, positions }))
        };
        (0..).zip(&self.job.prepared.peers).filter_map(parcel).unzip()
    }
}
