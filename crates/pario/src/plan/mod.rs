//! Step 3 of a call: who does what, in which round. Pure data.
//!
//! A planner looks at what all ranks ask for (in summary), at the hints and at the file, and
//! emits a [`Plan`]. It opens no file and sends no message; the same input gives the same plan,
//! on every rank, so that nothing about a collective has to be negotiated later.
//!
//! | file | concept |
//! | --- | --- |
//! | `request` | what a planner is asked, in the words of calls and of `explain` |
//! | `constants` | the numbers that plans depend on |
//! | `choose` | which strategy serves a request; the choice of `auto` |
//! | `cost` | what a plan is predicted to cost |
//! | `learned` | what calls teach: how measured times compare with predicted ones |
//! | `doubt` | which way that no call has used is worth a trial |
//! | `independent` | `direct`, `list`, `sieve`: every rank for itself |
//! | `two_phase` | `two-phase`, and `gather` as its case of one aggregator |
//! | `phased` | `multi-phase` and `inspector-executor`: store-and-forward between partners |
//! | `butterfly` | the partners of each phase, and which rank gets which part of the file |
//!
//! Plans are lazy: the number of rounds is known, a round is computed when it is reached.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::direction::Direction;
use crate::hints::{Hints, Strategy, Switch};
use crate::model::profile::Profile;

pub(crate) mod butterfly;
mod cause;
pub(crate) mod choose;
mod constants;
pub(crate) mod cost;
mod doubt;
pub(crate) mod independent;
mod learned;
mod lesson;
mod phased;
mod request;
pub(crate) mod two_phase;

pub use cause::Cause;
pub(crate) use choose::is_left_open;
use choose::{Candidate, Choice};
pub use cost::{Correction, Factors, Part, Term};
pub(crate) use cost::{Cost, Kind, calls_at_once};
pub(crate) use doubt::Chance;
pub use doubt::{Doubt, Observed};
pub(crate) use independent::Independent;
pub(crate) use learned::Learned;
pub(crate) use lesson::Lesson;
pub(crate) use phased::Phases;
pub use request::{Conditions, Request};
pub(crate) use two_phase::{Shuffled, may_serve};

/// What the planner must know of an open file; the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileFacts {
    /// Node of every rank.
    pub(crate) nodes: Vec<u32>,
    /// Bytes for windows in memory that all ranks share; none if there is no such memory.
    pub(crate) shared_bytes: u64,
    /// Windows there at a time, and in all, at most.
    pub(crate) slots_max: u64,
    pub(crate) windows_max: u32,
    /// Cores of every node.
    pub(crate) cores: Vec<u32>,
    /// Multiples of this are where storage accesses best begin and end.
    pub(crate) block_bytes: u64,
    /// Whether the file is in memory and nowhere else.
    pub(crate) in_memory: bool,
    /// Whether the storage has range locks.
    pub(crate) range_locks: bool,
    /// Whether bytes can be read, also if the user opened the file for writing only.
    pub(crate) readable: bool,
    /// Whether the program promises that nobody else has the file open.
    pub(crate) unique_open: bool,
    /// What storage, copies and messages cost.
    pub(crate) profile: Arc<Profile>,
}

impl FileFacts {
    /// The ranks of every node, and its cores.
    fn members(&self) -> impl Iterator<Item = (Vec<u32>, u32)> {
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); self.cores.len()];
        for (rank, &node) in self.nodes.iter().enumerate() {
            members[index(node)].push(rank_of(rank));
        }
        members.into_iter().zip(self.cores.iter().copied())
    }
}

#[cfg(test)]
impl FileFacts {
    /// Those of a file of ranks that are threads, as tests change them.
    pub(crate) fn of_threads(ranks: usize) -> FileFacts {
        FileFacts {
            nodes: vec![0; ranks],
            shared_bytes: 16 << 20,
            slots_max: 64,
            windows_max: u32::MAX,
            cores: vec![2],
            block_bytes: 4096,
            in_memory: true,
            range_locks: true,
            readable: true,
            unique_open: false,
            profile: Arc::new(Profile::built_in("tmpfs").unwrap()),
        }
    }
}

/// Everything a planner looks at.
pub(crate) struct Planning<'a> {
    /// Requests of all ranks of a collective, or the one of an independent call.
    pub(crate) requests: &'a [Request],
    pub(crate) conditions: Conditions,
    pub(crate) hints: &'a Hints,
    pub(crate) file: &'a FileFacts,
}

#[cfg(test)]
impl<'a> Planning<'a> {
    /// Requests that all ranks know and that do not overlap; those of a collective are undisturbed.
    fn of(
        direction: Direction,
        requests: &'a [Request],
        collective: bool,
        hints: &'a Hints,
        file: &'a FileFacts,
    ) -> Planning<'a> {
        let conditions = match collective {
            true => Conditions::collective(direction),
            false => Conditions::independent(direction),
        };
        Planning { requests, conditions, hints, file }
    }
}

/// How a request is carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) strategy: Strategy,
    /// Why this strategy.
    pub(crate) reason: &'static str,
    /// What it is predicted to cost, without correction.
    pub(crate) base: Cost,
    /// The same of the other ways that were considered.
    pub(crate) others: Vec<Cost>,
    /// A way that no call has used and that may be faster; if a trial pays, this is the plan of it.
    pub(crate) chance: Option<Chance>,
    /// How measured times compared with predicted ones when the plan was made.
    pub(crate) correction: Correction,
    pub(crate) steps: Steps,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// Every rank for itself, in one round without messages.
    Independent(Independent),
    /// Rounds of a shuffle to or from aggregators and a storage access by them.
    Shuffled(Shuffled),
}

impl Planning<'_> {
    /// Whether other ranks may touch the file while this request is served, and bytes that a
    /// storage call only carries along may be theirs.
    fn others_write(&self) -> bool {
        self.file.nodes.len() > 1
            && !self.conditions.undisturbed
            && self.conditions.direction == Direction::Write
    }

    /// Whether any call on this file may read bytes of others and write them back.
    fn somebody_rewrites(&self) -> bool {
        somebody_rewrites(self.hints, self.file)
    }
}

fn somebody_rewrites(hints: &Hints, file: &FileFacts) -> bool {
    let off = |switch| switch == Switch::Disable;
    file.readable
        && file.range_locks
        && match hints.strategy {
            Strategy::Direct | Strategy::List => false,
            Strategy::Auto => !off(hints.sieve_write) || !off(hints.collective_write),
            _ => true,
        }
}

/// Whether an independent write of one run of bytes has to take care of ranks that rewrite bytes
/// of others.
pub(crate) fn plain_writes_lock(hints: &Hints, file: &FileFacts) -> bool {
    file.nodes.len() > 1 && somebody_rewrites(hints, file)
}

impl Plan {
    /// The plan for a request.
    pub(crate) fn new(planning: &Planning<'_>) -> Plan {
        let Choice { best, others, reason, chance } = choose::choose(planning);
        let Candidate { strategy, steps, base } = best;
        let correction = planning.conditions.correction;
        Plan { strategy, reason, base, others, chance, correction, steps }
    }

    /// The predicted time of a call that makes the plan, or of one that finds it kept, by what was
    /// learned until now.
    pub(crate) fn predicted(&self, correction: Correction, is_new: bool) -> Duration {
        let planning_us = if is_new { 0.0 } else { self.base.of(Part::Planning) };
        let us = (self.base.corrected_us(correction) - planning_us).max(0.0);
        Duration::try_from_secs_f64(us / 1e6).unwrap_or_default()
    }

    /// Whether another way is predicted to be clearly faster, by what was learned since. After
    /// another plan was given up, ways that calls have used need not be clearly faster.
    pub(crate) fn is_beaten(
        &self,
        correction: Correction,
        doubt: Option<Doubt>,
        is_second: bool,
    ) -> bool {
        let own_us = self.base.corrected_us(correction);
        let is_known = |kind| kind != self.base.kind && doubt.is_some_and(|one| one.knows(kind));
        self.others.iter().any(|other| {
            let part = match is_second && is_known(other.kind) {
                true => doubt::FASTER,
                false => doubt::CLEARLY_FASTER,
            };
            predicted_us(other, correction, doubt) < part * own_us
        })
    }

    /// A way that no call has used and that may be clearly faster than this plan.
    pub(crate) fn chance(&self, correction: Correction, doubt: Option<Doubt>) -> Option<Chance> {
        let own_us = self.base.corrected_us(correction);
        doubt.and_then(|doubt| doubt.chance(own_us, self.others.iter().enumerate(), correction))
    }
}

/// The time of a way by what was learned, and by what is not known of it.
fn predicted_us(cost: &Cost, correction: Correction, doubt: Option<Doubt>) -> f64 {
    match doubt {
        Some(doubt) => doubt.predicted_us(cost, correction),
        None => cost.corrected_us(correction),
    }
}

impl Steps {
    /// Where windows are, how bytes get there and who serves them, in words; what windows of
    /// sieving hold; nothing without windows.
    pub(crate) fn windows(&self) -> &'static str {
        match self {
            Steps::Independent(steps) => steps.in_words(),
            Steps::Shuffled(shuffled) => shuffled.in_words(),
        }
    }

    /// Number of rounds; the same on every rank.
    pub(crate) fn rounds(&self) -> u64 {
        match self {
            Steps::Independent(_) => 1,
            Steps::Shuffled(shuffled) => shuffled.rounds(),
        }
    }

    /// Number of ranks, of all, that may touch storage for others.
    pub(crate) fn aggregators(&self, ranks: u32) -> usize {
        match self {
            Steps::Independent(_) => 0,
            Steps::Shuffled(shuffled) if shuffled.all_serve() => index(ranks),
            Steps::Shuffled(shuffled) => shuffled.domains().len(),
        }
    }
}

/// Index of a rank in lists that have one entry for each rank.
fn index(rank: u32) -> usize {
    crate::number::narrow(u64::from(rank))
}

/// Rank of an index in such lists.
fn rank_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "strategy   {} ({})", self.strategy, self.reason)?;
        let predicted_us = self.base.corrected_us(self.correction);
        writeln!(formatter, "predicted  {:.3} ms", predicted_us / 1e3)?;
        writeln!(formatter, "rounds     {}", self.steps.rounds())?;
        match &self.steps {
            Steps::Independent(steps) => write!(formatter, "{steps}"),
            Steps::Shuffled(shuffled) => write!(formatter, "{shuffled}"),
        }
    }
}
