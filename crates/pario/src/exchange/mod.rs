//! Step 4 of a call: carry the plan out between the ranks.
//!
//! | file | concept |
//! | --- | --- |
//! | `inspect` | the ranks tell each other what they ask for; everybody makes the same plan |
//! | `ways` | how bytes get from one rank to another: by memory, in messages, by partners |
//! | `shuffle` | rounds: bytes between the ranks and the aggregators' windows |
//! | `help` | aggregators that are threads do rounds of each other |
//! | `relay` | bytes from partner to partner, in the phases of a round |
//! | `common` | windows in common memory, in which ranks place and take their bytes by themselves |
//! | `packed` | such windows for short pieces |
//! | `straight` | long pieces read straight into the memory of threads |
//! | `window` | one aggregator's window: assembled, stored, fetched, handed out |
//! | `independent` | a rank serves its own request |
//! | `agree` | one outcome out of each rank's own |
//!
//! One executor runs every plan. It knows rounds, not strategies. A failure is data: the rank
//! that has it goes on through the rounds without touching storage, tells the others with its
//! messages, and all of them learn it at the end, in `agree`. Only a lost rank ends a collective
//! early, and it ends it for everybody.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::access::memory::Parcel;
use crate::access::{Access, Buffer};
use crate::comm::{Communicator, Gate, Pass, pause};
use crate::error::{Error, Result};
use crate::plan::two_phase::Servers;
use crate::plan::{Direction, Plan, Steps};
use crate::statistics::CallStatistics;
use crate::storage::{LockGuard, LockRange, Storage};

pub(crate) mod agree;
mod common;
mod coverage;
mod help;
mod independent;
pub(crate) mod inspect;
mod packed;
mod relay;
mod shuffle;
mod straight;
mod ways;
mod window;

/// Rounds of which a plan remembers whether their windows have holes.
const ROUNDS_KNOWN_MAX: usize = 4096;

/// A planned request: the plan, and what is known of the ranks' accesses.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) direction: Direction,
    /// This rank's own access.
    pub(crate) own: Access,
    /// Accesses of all ranks, as far as this rank needs them: none for independent plans, parts
    /// for irregular ones.
    pub(crate) peers: Vec<Access>,
    /// Whether no byte of the file is asked for by two ranks, as far as that has been seen.
    pub(crate) disjoint: bool,
    /// Who serves windows in memory that all ranks have in common, if they are there; the same on
    /// all ranks.
    pub(crate) common: Option<Servers>,
    /// Whether ranks tell each other by notes in common memory that they are done; the same on all
    /// ranks. As with windows there, nobody makes other calls meanwhile.
    ends_by_notes: bool,
    /// Whether all ranks take part.
    pub(crate) collective: bool,
    /// Whether windows have no holes, by where they begin, as far as it was found out.
    complete: Mutex<HashMap<u64, bool>>,
}

impl Prepared {
    /// Whether the parcels of a window leave no hole; looked at once, if that takes long.
    fn is_complete(&self, file: &Range<u64>, parcels: &[Parcel<'_>]) -> bool {
        if parcels.iter().map(Parcel::len).sum::<u64>() < file.end - file.start {
            return false;
        }
        if self.disjoint {
            return true;
        }
        let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = complete.get(&file.start) {
            return known;
        }
        let found = coverage::is_complete(file, parcels);
        if complete.len() < ROUNDS_KNOWN_MAX {
            complete.insert(file.start, found);
        }
        found
    }
}

/// One execution of a planned request.
pub(crate) struct Job<'a> {
    pub(crate) communicator: &'a dyn Communicator,
    /// Number of the collective call, for its messages.
    pub(crate) call: u64,
    pub(crate) storage: &'a dyn Storage,
    pub(crate) prepared: &'a Arc<Prepared>,
    /// The user's memory. Alive and not touched by the user while the job runs: whoever makes a
    /// job borrows it for that long.
    pub(crate) buffer: &'a Buffer,
    /// What is wrong with this rank's buffer. It is not touched then, but the rank takes part.
    pub(crate) refused: Option<Error>,
}

/// What became of one rank's part of a job.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Bytes of the rank's own request that moved.
    pub(crate) moved: u64,
    pub(crate) error: Option<Error>,
    /// Whether all ranks have to do it again, another way.
    pub(crate) must_repeat: bool,
}

impl Outcome {
    /// The bytes that moved, or the error, which knows them too.
    pub(crate) fn into_result(self) -> Result<u64> {
        match self.error {
            None => Ok(self.moved),
            Some(error) => Err(error.after_moving(self.moved)),
        }
    }
}

impl Job<'_> {
    /// Carries the plan out. On a collective all ranks return the same error class.
    pub(crate) async fn run(&self, statistics: &mut CallStatistics) -> Result<u64> {
        let plan = &self.prepared.plan;
        statistics.strategy = plan.strategy;
        statistics.reason = plan.reason;
        statistics.rounds += plan.rounds();
        statistics.aggregators = match self.prepared.common {
            Some(Servers::Anybody) => u64::from(self.communicator.size()),
            _ => crate::number::wide(plan.aggregators()),
        };
        let outcome = match &plan.steps {
            Steps::Independent(steps) => {
                let outcome = match &self.refused {
                    None => independent::serve(self, steps, statistics).await,
                    Some(error) => Outcome { error: Some(error.clone()), ..Outcome::default() },
                };
                match self.prepared.collective {
                    true if self.all_are_well(outcome.error.is_none(), false).await? => outcome,
                    true => agree::agree(self.communicator, self.call, outcome).await?,
                    false => outcome,
                }
            }
            Steps::Shuffled(shuffled) => match self.prepared.common {
                Some(servers) => common::run(self, shuffled, (servers, statistics)).await?,
                None => {
                    let outcome = shuffle::run(self, shuffled, statistics).await?;
                    // Once at most: the memory that was refused is not used again.
                    match outcome.must_repeat {
                        true => shuffle::run(self, shuffled, statistics).await?,
                        false => outcome,
                    }
                }
            },
        };
        outcome.into_result()
    }

    /// Whether it is known, without messages, that all ranks have ended their part and have nothing
    /// to tell each other, neither an error nor where the file ends. All ranks get the same answer.
    async fn all_are_well(&self, is_well: bool, worked_much: bool) -> Result<bool> {
        let by_notes = self.prepared.ends_by_notes;
        Ok(by_notes && common::all_are_well(self, is_well, worked_much).await?)
    }
}

/// Attempts at a lock before a rank sleeps between them.
const EAGER_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_micros(50);

/// Locks a range of the file, as soon as nobody else holds a part of it.
async fn lock(storage: &dyn Storage, range: LockRange) -> Result<LockGuard> {
    let mut attempts = 0;
    loop {
        if let Some(guard) = storage.try_lock(range)? {
            // Others get their turn, and must wait for this lock.
            pause().await;
            return Ok(guard);
        }
        attempts += 1;
        if attempts > EAGER_ATTEMPTS {
            std::thread::sleep(LOCK_PAUSE);
        }
        pause().await;
    }
}

/// What keeps writers and rewriters of a file apart while it lives.
enum Protection<'a> {
    /// The write has passed the gate.
    Passed { _pass: Pass<'a> },
    /// The range is locked; a rewriter has closed the gate as well.
    Locked { lock: LockGuard, closed: Option<Pass<'a>> },
}

impl Protection<'_> {
    /// Ends the protection; an error if the bytes were not protected to the end.
    fn release(self) -> Result<()> {
        match self {
            Protection::Passed { .. } => Ok(()),
            Protection::Locked { lock, closed } => {
                let released = lock.release();
                drop(closed);
                released
            }
        }
    }
}

impl<'a> Job<'a> {
    /// Lets a plain write go: past the gate if it is open, or under a lock.
    async fn protect_write(
        &self,
        file: &Range<u64>,
        statistics: &mut CallStatistics,
    ) -> Result<Protection<'a>> {
        if let Some(pass) = Gate::of(self.communicator).and_then(Gate::pass) {
            return Ok(Protection::Passed { _pass: pass });
        }
        statistics.locks += 1;
        let range = LockRange::exclusive(file);
        Ok(Protection::Locked { lock: lock(self.storage, range).await?, closed: None })
    }

    /// Lets bytes of others be read and written back: nobody else writes them meanwhile.
    async fn protect_rewrite(
        &self,
        file: &Range<u64>,
        statistics: &mut CallStatistics,
    ) -> Result<Protection<'a>> {
        let closed = match Gate::of(self.communicator) {
            Some(gate) => Some(gate.close().await),
            None => None,
        };
        statistics.locks += 1;
        let range = LockRange::exclusive(file);
        Ok(Protection::Locked { lock: lock(self.storage, range).await?, closed })
    }
}

/// Adds the time that an action takes to a sum.
fn timed<T>(sum: &mut Duration, action: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = action();
    *sum += start.elapsed();
    result
}
