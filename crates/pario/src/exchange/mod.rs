//! Step 4 of a call: carry the plan out between the ranks.
//!
//! | file | concept |
//! | --- | --- |
//! | `inspect` | the ranks announce what they ask for; all make the same plan |
//! | `executor` | rounds over windows: give, serve, take |
//! | `messages` | windows in the memory of their aggregators |
//! | `forward` | store-and-forward between partners, in the phases of a round |
//! | `shared` | windows in shared memory, where each rank copies its own bytes |
//! | `schedule` | which rank uses which shared window when |
//! | `window`, `coverage` | one window: assembled, stored, fetched; storage accesses |
//! | `independent` | a rank serves its own request |
//! | `outcome`, `agree` | one outcome out of each rank's part |
//! | `gate`, `protect` | keep writers and rewriters of bytes of others apart |
//!
//! One executor runs every shuffled plan. It knows rounds, not strategies. A failure is data: the
//! rank that has it goes on through the rounds without touching storage, and all of them learn it
//! at the end, in `outcome`. Only a lost rank or a failed transport ends a collective early, and
//! it does so on all ranks.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::access::memory::Parcel;
use crate::access::{Access, Buffer};
use crate::comm::{Communicator, CoreWork, charge};
use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::plan::{Correction, Plan, SHARED_SLOTS_MAX, SHARED_WINDOWS_MAX, Steps};
use crate::statistics::{Asked, CallStatistics};
use crate::storage::Storage;

pub(crate) mod agree;
mod coverage;
mod executor;
mod forward;
mod gate;
mod independent;
pub(crate) mod inspect;
mod messages;
mod outcome;
mod protect;
mod schedule;
#[cfg(test)]
mod schedule_tests;
mod shared;
mod window;

pub(crate) use gate::Gate;
use outcome::Part;
use protect::{Intent, Protection, lock};
pub(crate) use schedule::SYNC_FAILED;
use schedule::{SLOTS_MAX, WINDOWS_MAX};

// Plans have no more windows than the schedule has numbers for.
const _: () = assert!(SHARED_SLOTS_MAX <= SLOTS_MAX && SHARED_WINDOWS_MAX <= WINDOWS_MAX);

/// The atomic numbers of `schedule` and `gate`; a model checker has its own.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

/// The numbers of a region are enough.
const _: () = assert!(
    schedule::HEAD <= crate::comm::HEAD_NUMBERS && schedule::RANK <= crate::comm::RANK_NUMBERS
);

/// Rounds of which a plan remembers whether their windows have holes.
const ROUNDS_KNOWN_MAX: usize = 4096;

/// A planned request: the plan, and what is known of the ranks' accesses.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) direction: Direction,
    /// This rank's own access.
    pub(crate) own: Access,
    /// The same as the planner saw it.
    asked: Asked,
    /// Accesses of all ranks, as far as this rank needs them: none for independent plans, parts
    /// for irregular ones.
    pub(crate) peers: Vec<Access>,
    /// Whether no byte of the file is asked for by two ranks, as far as that has been seen.
    pub(crate) disjoint: bool,
    /// Whether the call ends with a barrier in shared memory; the same on all ranks. As with
    /// windows there, no rank makes other calls on the file meanwhile.
    ends_in_region: bool,
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
    /// The user's memory. Alive and not touched by the user while the job runs: the caller that
    /// makes a job borrows it for that long.
    pub(crate) buffer: &'a Buffer,
    /// What is wrong with this rank's buffer. It is not touched then, but the rank takes part.
    pub(crate) refused: Option<Error>,
    /// How measured times compared with predicted ones until now.
    pub(crate) correction: Correction,
}

impl Job<'_> {
    /// Carries the plan out. On a collective all ranks return the same error class.
    pub(crate) async fn run(&self, statistics: &mut CallStatistics) -> Result<u64> {
        let plan = &self.prepared.plan;
        statistics.describe(plan, self.correction, self.communicator.size());
        statistics.ask(&self.prepared.asked);
        match &plan.steps {
            Steps::Independent(steps) => {
                let part = match &self.refused {
                    None => independent::serve(self, steps, statistics).await,
                    Some(error) => self.nothing(error.clone()),
                };
                outcome::conclude(self, part, None, |_, _| true).await
            }
            Steps::Shuffled(shuffled) => executor::run(self, shuffled, statistics).await,
        }
    }

    /// Copying a parcel takes time of this rank, where time is virtual.
    fn charge_copy(&self, parcel: &Parcel<'_>) {
        let (bytes, pieces) = (parcel.len(), parcel.pieces());
        charge(self.communicator, || CoreWork::Copy { bytes, pieces });
    }

    /// The part of a rank that moves nothing.
    fn nothing(&self, error: Error) -> Part {
        let reached = self.prepared.own.positions().start;
        Part { reached, error: Some(error), ..Part::new(&self.prepared.own) }
    }
}
