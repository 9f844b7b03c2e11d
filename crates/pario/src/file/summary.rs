//! What was done with a file: a summary of this rank, and at the close one of all ranks.

use std::time::{Duration, Instant};

use super::Handle;
use super::handle::State;
use crate::comm::collective::{broadcast, reduce};
use crate::datatype::wire::{Reader, Writer};
use crate::direction::Direction;
use crate::error::Result;
use crate::hints::Statistics;
use crate::statistics::{CallStatistics, FileStatistics, RankRecords, Summary, calls_max};

impl Handle {
    /// What all calls on this file did, on this rank, in the form in which the close of the file
    /// prints it for all ranks when the hint `pario_statistics` is set.
    pub fn summary(&self) -> Summary {
        let state = self.state();
        let recording = state.hints.statistics.recording().cloned();
        let full = state.hints.statistics == Statistics::Full;
        let directions = [Direction::Read, Direction::Write];
        let profile = directions.into_iter().filter_map(|one| state.learned.wrong(one)).collect();
        drop(state);
        Summary {
            unix_seconds: self.opened.unix.as_secs(),
            name: self.path.display().to_string(),
            ranks: self.communicator.size(),
            nodes: self.facts.nodes.iter().max().map_or(1, |last| last + 1),
            facts: self.facts.clone(),
            mode: self.mode,
            statistics: self.statistics(),
            profile,
            of_all_ranks: false,
            hints: self.hints(),
            full,
            recording: recording.map(|recording| (recording, self.records(self.opened.unix))),
        }
    }

    /// Keeps a call that began then, for the recording.
    pub(super) fn record(&self, state: &mut State, began: Instant, call: CallStatistics) {
        let begin = began.saturating_duration_since(self.opened.instant);
        let most = calls_max(self.communicator.size());
        state.recorder.add(most, (begin, began.elapsed()), call);
    }

    /// The calls and accesses of this rank; times count from this one since 1970.
    fn records(&self, base: Duration) -> RankRecords {
        let (rank, state) = (self.communicator.rank(), self.state());
        RankRecords::new(rank, (&self.opened, base), &state.recorder, self.accesses.as_deref())
    }

    /// What all ranks did, printed or recorded by rank 0.
    pub(super) async fn print_summary(&self, call: u64) -> Result<()> {
        let combine = |one: &[u8], other: &[u8]| {
            // What cannot be read is left out: nobody may wait for it.
            let Ok(mut sum) = FileStatistics::from_wire(one) else { return other.to_vec() };
            FileStatistics::from_wire(other).into_iter().for_each(|other| sum.add_rank(other));
            sum.to_wire()
        };
        let own = self.statistics().to_wire();
        let all = reduce(&*self.communicator, call, own, combine).await?;
        let recording = self.state().hints.statistics.recording().cloned();
        let records = match &recording {
            None => None,
            Some(_) => self.all_records(call).await?,
        };
        if let Some(all) = all {
            let statistics = FileStatistics::from_wire(&all)?;
            let recording = recording.zip(records);
            Summary { statistics, of_all_ranks: true, recording, ..self.summary() }.print();
        }
        Ok(())
    }

    /// The records of all ranks, on rank 0.
    async fn all_records(&self, call: u64) -> Result<Option<RankRecords>> {
        let comm = &*self.communicator;
        let mut writer = Writer::default();
        writer.unsigned(u64::try_from(self.opened.unix.as_nanos()).unwrap_or(u64::MAX));
        let base = broadcast(comm, call, writer.bytes).await?;
        let base = Duration::from_nanos(Reader::new(&base).unsigned()?);
        let combine = |one: &[u8], other: &[u8]| {
            let Ok(mut all) = RankRecords::from_wire(one) else { return other.to_vec() };
            RankRecords::from_wire(other).iter().for_each(|other| all.join(other));
            all.to_wire()
        };
        let all = reduce(comm, call, self.records(base).to_wire(), combine).await?;
        all.map(|all| RankRecords::from_wire(&all)).transpose()
    }
}
