//! Step 3 of a call: who does what, in which round. Pure data.
//!
//! A planner looks at what all ranks ask for (in summary), at the hints and at the file, and
//! emits a [`Plan`]. It opens no file and sends no message; the same input gives the same plan,
//! on every rank, so that nothing about a collective has to be negotiated later. Anybody may ask:
//!
//! ```
//! use std::sync::Arc;
//! use pario::model::{Direction, profile::Profile};
//! use pario::plan::{Conditions, FileFacts, Plan, Planning, Request};
//! use pario::{Environment, HintSet, Strategy};
//!
//! // Four ranks on one node write blocks of 64 bytes in turn to a disk.
//! let block = |rank: u64| Request::of_pieces(rank * 64..(1 << 20) - (3 - rank) * 64, 1 << 18, 64);
//! let requests: Vec<Request> = (0..4).map(block).collect();
//! let profile = Profile::built_in("hdd").expect("there is one for disks");
//! let file = FileFacts::on_nodes(vec![0; 4], vec![4], Arc::new(profile));
//! let (hints, _) = HintSet::new().resolve("a".as_ref(), &Environment::default());
//! let conditions = Conditions::collective(Direction::Write);
//! let plan = Plan::new(&Planning { requests: &requests, conditions, hints: &hints, file: &file });
//! assert_eq!(plan.strategy, Strategy::TwoPhase);
//! println!("{plan}");
//! ```
//!
//! | file | concept |
//! | --- | --- |
//! | `request` | what a planner is asked, in the words of calls and of `explain` |
//! | `form` | what planners emit: windows, domains, placements, holes |
//! | `constants` | the numbers that plans depend on |
//! | `choose` | which strategy serves a request; the choice of `auto` |
//! | `cost`, `cause` | what a plan is predicted to cost, and why |
//! | `learned`, `lesson` | what calls teach: how measured times compare with predicted ones |
//! | `doubt` | which way that no call has used is worth a trial |
//! | `independent` | `direct`, `list`, `sieve`: every rank for itself |
//! | `storing` | whether windows are stored through a mapping of the file |
//! | `two_phase` | `two-phase`, and `gather` as its case of one aggregator |
//! | `phased` | `multi-phase` and `inspector-executor`: store-and-forward between partners |
//! | `butterfly` | the partners of each phase, and which rank gets which part of the file |
//!
//! Plans are lazy: the number of rounds is known, a round is computed when it is reached.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::direction::Direction;
use crate::hints::{Hints, Strategy, Switch};
use crate::model::profile::Profile;
use crate::number::wide;

pub(crate) mod butterfly;
mod cause;
pub(crate) mod choose;
mod constants;
pub(crate) mod cost;
mod doubt;
mod form;
pub(crate) mod independent;
mod learned;
mod lesson;
mod phased;
mod request;
mod storing;
pub(crate) mod two_phase;

pub use crate::access::InMemory;
pub use cause::Cause;
pub(crate) use choose::is_left_open;
use choose::{Candidate, Choice};
pub(crate) use constants::{SHARED_SLOTS_MAX, SHARED_WINDOWS_MAX};
pub use cost::{Correction, Factors, Part, Term};
pub(crate) use cost::{Cost, Kind, calls_at_once};
pub(crate) use doubt::Chance;
pub use doubt::{Doubt, Observed};
pub(crate) use form::{
    Domain, Holes, Independent, LockRule, Placement, Route, Servers, Service, SharedWindows,
    Shuffled, Steps,
};
pub(crate) use learned::Learned;
pub(crate) use lesson::Lesson;
pub(crate) use phased::Phases;
pub use request::{Conditions, Request};
pub(crate) use storing::Storing;
pub(crate) use two_phase::may_serve;

/// What the planner must know of an open file and the machine; the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub struct FileFacts {
    /// Node of every rank.
    pub nodes: Vec<u32>,
    /// Bytes for windows in memory that all ranks share; none if there is no such memory.
    pub shared_bytes: u64,
    /// Cores of every node.
    pub cores: Vec<u32>,
    /// Multiples of this are where storage accesses best begin and end.
    pub block_bytes: u64,
    /// Whether the file is in memory and nowhere else.
    pub in_memory: bool,
    /// Whether the storage has range locks.
    pub range_locks: bool,
    /// Whether bytes can be read, also if the user opened the file for writing only.
    pub readable: bool,
    /// Whether storage can write through a mapping of the file.
    pub mapped_writes: bool,
    /// Whether the program promises that nobody else has the file open.
    pub unique_open: bool,
    /// What storage, copies and messages cost.
    pub profile: Arc<Profile>,
}

impl FileFacts {
    /// Those of a file that can be read and has range locks, on nodes with such cores. Ranks of one
    /// node share memory, as transports offer it.
    pub fn on_nodes(nodes: Vec<u32>, cores: Vec<u32>, profile: Arc<Profile>) -> FileFacts {
        let file_system = profile.machine.file_system.as_str();
        FileFacts {
            nodes,
            shared_bytes: if cores.len() == 1 { SHARED_BYTES } else { 0 },
            cores,
            block_bytes: PAGE_BYTES,
            in_memory: matches!(file_system, "tmpfs" | "ramfs" | "memory"),
            range_locks: true,
            readable: true,
            mapped_writes: matches!(file_system, "tmpfs" | "ext4" | "xfs"),
            unique_open: false,
            profile,
        }
    }

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
        let profile = Arc::new(Profile::built_in("tmpfs").unwrap());
        let facts = FileFacts::on_nodes(vec![0; ranks], vec![2], profile);
        FileFacts { mapped_writes: false, ..facts }
    }
}

/// Everything a planner looks at.
#[derive(Clone, Copy, Debug)]
pub struct Planning<'a> {
    /// Requests of all ranks of a collective, or the one of an independent call.
    pub requests: &'a [Request],
    /// What is the same on all ranks of the call.
    pub conditions: Conditions,
    /// The hints in effect.
    pub hints: &'a Hints,
    /// The file and the machine.
    pub file: &'a FileFacts,
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

/// Shared memory of a node, as transports offer it.
const SHARED_BYTES: u64 = 16 << 20;
/// Pages of the page cache.
const PAGE_BYTES: u64 = 4096;

/// How a request is carried out. It can be printed and compared, and says what it is predicted to
/// cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The strategy.
    pub strategy: Strategy,
    /// Why this strategy.
    pub reason: &'static str,
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

/// What one aggregator moves in one round: a part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// Counted from 0.
    pub round: u64,
    /// The rank that owns it. Windows in shared memory may be served by other ranks, too.
    pub aggregator: u32,
    /// Offset of its first byte.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
}

impl Plan {
    /// The plan for a request.
    pub fn new(planning: &Planning<'_>) -> Plan {
        let Choice { best, others, reason, chance } = choose::choose(planning);
        Plan { others, chance, ..Plan::of(best, reason, planning) }
    }

    /// A plan for each way to serve a request, whether or not hints allow it. The first one is that
    /// of [`Plan::new`].
    pub fn ways(planning: &Planning<'_>) -> Vec<Plan> {
        let taken = Plan::new(planning);
        let mut others = choose::all_candidates(planning);
        others.retain(|one| one.strategy != taken.strategy || one.steps != taken.steps);
        let others = others.into_iter().map(|one| Plan::of(one, "", planning));
        std::iter::once(taken).chain(others).collect()
    }

    fn of(candidate: Candidate, reason: &'static str, planning: &Planning<'_>) -> Plan {
        let Candidate { strategy, steps, base } = candidate;
        let correction = planning.conditions.correction;
        Plan { strategy, reason, base, others: Vec::new(), chance: None, correction, steps }
    }

    /// Number of the ranks, of all, that may touch storage for others.
    pub fn aggregators(&self, ranks: u32) -> u64 {
        wide(self.steps.aggregators(ranks))
    }

    /// Phases of the exchange, where it has some.
    pub fn phases(&self) -> Option<u32> {
        self.steps.shuffled()?.phases().map(|phases| phases.count)
    }

    /// Number of rounds; the same on every rank.
    pub fn rounds(&self) -> u64 {
        self.steps.rounds()
    }

    /// Bytes of a window at most; none without windows.
    pub fn window_bytes(&self) -> u64 {
        self.steps.shuffled().map_or(0, Shuffled::window_bytes)
    }

    /// Where windows are, how bytes get there, and who serves them, in words.
    pub fn placement(&self) -> &'static str {
        self.steps.windows()
    }

    /// What rounds move, the first round first; nothing where every rank works for itself.
    pub fn windows(&self) -> impl Iterator<Item = Window> {
        let window = |shuffled: &Shuffled, round: u64, domain: &Domain| {
            let Range { start, end } = shuffled.window(domain, round);
            Window { round, aggregator: domain.aggregator, start, end }
        };
        let of_round = move |shuffled: &'_ Shuffled, round: u64| -> Vec<Window> {
            shuffled.domains().iter().map(|domain| window(shuffled, round, domain)).collect()
        };
        let rounds = self.steps.shuffled().into_iter();
        let rounds = rounds.flat_map(|one| (0..one.rounds()).map(move |round| (one, round)));
        let all = rounds.flat_map(move |(shuffled, round)| of_round(shuffled, round));
        all.filter(|window| window.start < window.end)
    }

    /// Where the predicted time goes, corrected by what was learned.
    pub fn terms(&self) -> impl Iterator<Item = Term> {
        let factors = self.correction.of(self.base.kind);
        self.base
            .terms
            .iter()
            .map(move |term| Term { us: term.us * factors.of(term.cause), ..*term })
    }

    /// The predicted time.
    pub fn total_us(&self) -> f64 {
        self.terms().fold(0.0, |sum, term| sum + term.us)
    }

    /// The predicted time of one part.
    pub fn part_us(&self, part: Part) -> f64 {
        let of_part = self.terms().filter(|term| term.part() == part);
        of_part.fold(0.0, |sum, term| sum + term.us)
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
