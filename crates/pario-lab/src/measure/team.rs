//! The ranks of a benchmark, wherever they run, and what they send each other.
//!
//! A rank that fails must not leave the others waiting. So whatever a rank does by itself ends in
//! [`Team::all`]: every rank learns what became of every other, and all go on or none.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pario::Communicator;
use pario::comm::block_on;
use pario::comm::collective::{all_gather, barrier};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::turn::now;
use crate::failure::Failure;

/// How long before a common start all ranks know of it, and how much longer for each rank.
const LEAD: Duration = Duration::from_micros(100);
const LEAD_OF_A_RANK: Duration = Duration::from_micros(50);

/// All ranks, as one of them sees them.
pub(crate) struct Team<'a> {
    comm: &'a dyn Communicator,
    /// Number of the next call.
    calls: AtomicU64,
    clock: u64,
}

impl<'a> Team<'a> {
    pub(crate) fn new(comm: &'a dyn Communicator) -> Team<'a> {
        Team { comm, calls: AtomicU64::new(0), clock: clock() }
    }

    pub(crate) fn comm(&self) -> &'a dyn Communicator {
        self.comm
    }

    pub(crate) fn rank(&self) -> u32 {
        self.comm.rank()
    }

    pub(crate) fn size(&self) -> u32 {
        self.comm.size()
    }

    /// Whether this rank does what only one of them may do.
    pub(crate) fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// A number that ranks share if the times that they measure can be compared.
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits until every rank is here.
    pub(crate) fn barrier(&self) -> Result<(), Failure> {
        let met = block_on(self.comm, barrier(self.comm, self.next_call()));
        met.map_err(|error| lost(&error))
    }

    /// Waits until every rank is here, and then until a time that all ranks of a machine have
    /// agreed on; that time. Ranks leave a barrier one after the other, and those that slept there
    /// are late: that is not the time of what comes next.
    pub(crate) fn start_together(&self) -> Result<Duration, Failure> {
        let all = self.all(Ok((self.clock, now())))?;
        let here = all.iter().filter(|(clock, _)| *clock == self.clock).map(|(_, time)| *time);
        let start = here.max().unwrap_or_default() + LEAD + LEAD_OF_A_RANK * self.size();
        while now() < start {
            // A rank that has no core gets one.
            thread::yield_now();
        }
        Ok(start)
    }

    /// What every rank has, in their order; if some have failed, the failure of the first of them,
    /// on all ranks.
    pub(crate) fn all<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        if let Err(Failure::Lost(text)) = own {
            return Err(Failure::Lost(text));
        }
        let unreadable = |error: serde_json::Error| lost(&error);
        let own = serde_json::to_vec(&own).map_err(unreadable)?;
        let all = block_on(self.comm, all_gather(self.comm, self.next_call(), own));
        let all = all.map_err(|error| lost(&error))?;
        let each = all.iter().map(|bytes| serde_json::from_slice(bytes).map_err(unreadable)?);
        each.collect()
    }

    /// Success if all ranks have it; otherwise the failure of the first that has none.
    pub(crate) fn agree(&self, own: Result<(), Failure>) -> Result<(), Failure> {
        self.all(own).map(|_| ())
    }

    /// Has the first rank do something, and sends its outcome to all.
    pub(crate) fn first(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.agree(if self.is_first() { work() } else { Ok(()) })
    }
}

pub(crate) fn lost(error: &dyn std::fmt::Display) -> Failure {
    Failure::Lost(format!("the ranks have lost each other: {error}"))
}

/// Clocks of processes agree if they run under the same kernel since it was started.
fn clock() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario::Threads;

    #[test]
    fn all_ranks_know_when_they_start() {
        let starts = Threads::new(3).run(|comm| {
            let start = Team::new(&*comm).start_together().ok()?;
            (now() >= start).then_some(start)
        });
        assert!(starts[0].is_some() && starts.iter().all(|start| *start == starts[0]));
    }

    #[test]
    fn one_failure_is_everybodys() {
        let outcomes = Threads::new(3).run(|comm| {
            let team = Team::new(&*comm);
            let all = team.all(Ok(u64::from(team.rank()) * 10));
            assert!(matches!(all.as_deref(), Ok([0, 10, 20])));
            team.barrier().map_err(|_| "barrier")?;
            let outcome = match team.rank() {
                0 => Ok(()),
                rank => Err(Failure::Run(format!("rank {rank} fails"))),
            };
            match team.agree(outcome) {
                Err(Failure::Run(text)) if text == "rank 1 fails" => Ok(()),
                _ => Err("one failure is everybody's"),
            }
        });
        assert_eq!(outcomes, [Ok(()); 3]);
    }
}
