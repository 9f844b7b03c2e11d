//! Techniques of parallel I/O on the virtual clock.
//!
//! A technique is driven as its plan would be carried out: which rank copies, sends and stores what
//! in which round follows from the pattern by the rules of pario's plans, or of ROMIO as papers 003
//! and 004 describe it. Each activity goes to the clock, which says when it ends. Ranks that do not
//! wait for each other are taken in the order of their times.
//!
//! | file | techniques |
//! | --- | --- |
//! | `independent` | an access for each piece, lists, Block I/O |
//! | `sieve` | windows of pieces and holes, with locks for writes |
//! | `shuffled` | two-phase with pario's overlap or ROMIO's rounds, gather |
//! | `phased` | multi-phase, inspector-executor |
//!
//! Counts of messages, bytes and storage accesses are kept, too; `tests` compares them with the
//! statistics of real runs.

mod independent;
mod phased;
mod shuffled;
mod sieve;
#[cfg(test)]
mod tests;

pub(crate) use independent::{Way, block, independent, individual, level_1};
pub(crate) use phased::{Phased, phased};
pub(crate) use shuffled::{Rounds, Shuffle, shuffled};
pub(crate) use sieve::{Sieve, sieve};

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

use pario::model::Direction;
use pario::model::clock::{Access, Clock, Machine};

use crate::scenario::stage::Stage;

/// A number for a time; above 2^53 the nearest one that fits.
pub(crate) fn real(number: u64) -> f64 {
    number as f64
}

/// What was done, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) messages: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) locks: u64,
    pub(crate) rounds: u64,
}

/// What a technique took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) seconds: f64,
    /// Time in which bytes were exchanged, where rounds alternate.
    pub(crate) exchange_s: f64,
    /// Time of each phase, the slowest rank of each round.
    pub(crate) phase_s: Vec<f64>,
    /// Time after the last exchange of each round, the same way.
    pub(crate) storage_s: f64,
    pub(crate) counts: Counts,
}

/// A stage with its clocks running.
pub(crate) struct World {
    stage: Stage,
    clock: Clock,
    /// The clock of the storage network, if it is another one.
    storage: Option<Clock>,
    counts: Counts,
}

impl World {
    pub(crate) fn new(stage: &Stage) -> World {
        let apart = |network| Clock::new(Machine { network, ..stage.machine });
        World {
            stage: *stage,
            clock: Clock::new(stage.machine),
            storage: stage.storage_network.map(apart),
            counts: Counts::default(),
        }
    }

    /// Work of a processor for copying.
    fn copy(&mut self, rank: u32, bytes: u64, pieces: u64, at_s: f64) -> f64 {
        let costs = self.stage.costs;
        let us = real(bytes) / costs.copy_bytes_per_s * 1e6 + real(pieces) * costs.copy_piece_us;
        self.clock.compute(rank, us, at_s).end_s
    }

    fn work(&mut self, rank: u32, us: f64, at_s: f64) -> f64 {
        self.clock.compute(rank, us, at_s).end_s
    }

    fn message(&mut self, from: u32, to: u32, bytes: u64, at_s: f64) -> f64 {
        self.counts.messages += 1;
        self.counts.sent_bytes += bytes;
        self.clock.message(from, to, bytes, at_s).end_s
    }

    /// An access of storage begins: its regions are counted, and the rank calls the system.
    fn begin(&mut self, rank: u32, access: &Access, at_s: f64) -> f64 {
        match access.direction {
            Direction::Read => {
                self.counts.reads += access.regions;
                self.counts.read_bytes += access.bytes;
            }
            Direction::Write => {
                self.counts.writes += access.regions;
                self.counts.written_bytes += access.bytes;
            }
        }
        let costs = self.stage.costs;
        let copied_us = real(access.bytes) / costs.call_bytes_per_s * 1e6;
        self.work(rank, costs.call_us + copied_us, at_s)
    }

    /// The first request of what is left of an access; when it ends.
    fn request(&mut self, rank: u32, rest: &mut Access, at_s: f64) -> f64 {
        let bytes = rest.bytes.min(self.stage.request_bytes_max);
        let clock = self.storage.as_mut().unwrap_or(&mut self.clock);
        let end_s = clock.access(rank, Access { bytes, ..*rest }, at_s).end_s;
        rest.offset += bytes;
        rest.bytes -= bytes;
        end_s
    }

    /// A list of regions: every server that has some gets one request with its own, all at once.
    fn list(&mut self, rank: u32, direction: Direction, regions: &[Range<u64>], at_s: f64) -> f64 {
        let bytes = regions.iter().map(|region| region.end - region.start).sum();
        let offset = regions.first().map_or(0, |region| region.start);
        let count = u64::try_from(regions.len()).unwrap_or(u64::MAX);
        let whole = Access { direction, offset, bytes, regions: count };
        let sent_s = self.begin(rank, &whole, at_s);
        let requests = self.requests(&whole, regions);
        let clock = self.storage.as_mut().unwrap_or(&mut self.clock);
        let ends_s = requests.into_iter().map(|one| clock.access(rank, one, sent_s).end_s);
        ends_s.fold(sent_s, f64::max)
    }

    /// The requests of a list. The clock knows contiguous ranges only, so each is moved to the
    /// begin of a stripe, where its bytes stay on one server. Lists that have more for a server are
    /// long enough to be spread over all of them, as one range is.
    fn requests(&self, whole: &Access, regions: &[Range<u64>]) -> Vec<Access> {
        let storage = self.stage.machine.storage;
        let (stripe, servers) = (storage.stripe_bytes.max(1), u64::from(storage.servers.max(1)));
        let mut shares: BTreeMap<u64, Access> = BTreeMap::new();
        for region in regions {
            let number = region.start / stripe;
            let empty = Access { offset: number * stripe, bytes: 0, regions: 0, ..*whole };
            let share = shares.entry(number % servers).or_insert(empty);
            share.bytes += region.end - region.start;
            share.regions += 1;
        }
        match shares.values().any(|share| share.bytes > stripe) {
            true => vec![Access { offset: whole.offset / stripe * stripe, ..*whole }],
            false => shares.into_values().collect(),
        }
    }

    /// An access that others do not come between.
    fn access(&mut self, rank: u32, access: Access, at_s: f64) -> f64 {
        let mut end_s = self.begin(rank, &access, at_s);
        let mut rest = access;
        while rest.bytes > 0 {
            end_s = self.request(rank, &mut rest, end_s);
        }
        end_s
    }

    /// Every rank makes its accesses, one after another; requests of different ranks alternate.
    /// When each rank has ended.
    pub(crate) fn run<I: Iterator<Item = Access>>(
        &mut self,
        begin_s: &[f64],
        mut accesses: Vec<I>,
    ) -> Vec<f64> {
        let mut rests: Vec<Option<Access>> = accesses.iter().map(|_| None).collect();
        in_order(begin_s, |rank, at_s| {
            let rest = &mut rests[index(rank)];
            let mut at_s = at_s;
            if rest.is_none_or(|rest| rest.bytes == 0) {
                let access = accesses[index(rank)].next()?;
                at_s = self.begin(rank, &access, at_s);
                *rest = Some(access);
            }
            let rest = rest.as_mut()?;
            Some(self.request(rank, rest, at_s))
        })
    }

    /// All ranks learn something from all: as often as their number can be halved.
    fn barrier(&self, ready_s: &[f64]) -> f64 {
        let ranks = u32::try_from(ready_s.len()).unwrap_or(u32::MAX);
        let steps = f64::from(u32::BITS - ranks.saturating_sub(1).leading_zeros());
        let latency_us = match self.stage.machine.nodes > 1 {
            true => self.stage.machine.network.latency_us,
            false => self.stage.machine.node_link.latency_us,
        };
        latest(ready_s) + steps * latency_us / 1e6
    }

    pub(crate) fn taken(&self, ready_s: &[f64]) -> Taken {
        Taken { seconds: latest(ready_s), counts: self.counts, ..Taken::default() }
    }
}

/// The last of some times.
fn latest(times_s: &[f64]) -> f64 {
    times_s.iter().copied().fold(0.0, f64::max)
}

/// When a rank can go on. The earliest, then the lowest rank, comes first in a heap.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ready {
    at_s: f64,
    rank: u32,
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Ready) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Ready) -> Ordering {
        other.at_s.total_cmp(&self.at_s).then(other.rank.cmp(&self.rank))
    }
}

/// Lets each rank take steps until it has none, in the order of their times; when each has ended.
fn in_order(begin_s: &[f64], mut step: impl FnMut(u32, f64) -> Option<f64>) -> Vec<f64> {
    let mut ends_s = begin_s.to_vec();
    let ready = (0..).zip(begin_s).map(|(rank, &at_s)| Ready { at_s, rank });
    let mut heap: BinaryHeap<Ready> = ready.collect();
    while let Some(Ready { at_s, rank }) = heap.pop() {
        match step(rank, at_s) {
            Some(at_s) => heap.push(Ready { at_s, rank }),
            None => ends_s[usize::try_from(rank).unwrap_or(0)] = at_s,
        }
    }
    ends_s
}

/// Index of a rank.
fn index(rank: u32) -> usize {
    usize::try_from(rank).unwrap_or(usize::MAX)
}
