//! Multiple-phase collective I/O (paper 000) and the executor of paper 002: bytes are stored
//! and forwarded, half of them in each phase; then every rank stores what it has.
//!
//! The file is divided among classes of ranks as in pario's plan: in the order of the reversed
//! bits of their numbers. With all phases a rank has one contiguous domain, with fewer it has
//! pieces of several ranks, each stored by itself. Only powers of two of ranks.

use std::ops::Range;

use pario::model::Direction;
use pario::model::clock::Access;

use super::shuffled::{Contents, Windows, contents, domains};
use super::{Taken, World, index, latest};
use crate::failure::Failure;
use crate::scenario::pattern::Pattern;
use crate::scenario::stage::Stage;

/// How bytes go through phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phased {
    /// Number of phases; at most log2 of the ranks.
    pub(crate) count: u32,
    /// Bytes of a domain that a round has; all of them for the papers' way.
    pub(crate) window_bytes: u64,
    pub(crate) align: u64,
}

impl Phased {
    /// As in the papers: all bytes of a phase in one message.
    pub(crate) fn paper(count: u32) -> Phased {
        Phased { count, window_bytes: u64::MAX, align: 1 }
    }
}

/// Bytes of a length in pario's messages.
const LEN_BYTES: u64 = 8;

/// The last bits of a rank.
fn class(rank: u32, phases: u32) -> u32 {
    rank & ((1 << phases) - 1)
}

/// The number of a class's domain in the order of the file.
fn domain_of(class: u32, phases: u32) -> usize {
    index(class.reverse_bits().checked_shr(u32::BITS - phases).unwrap_or(0))
}

/// The ranks whose bytes a rank has after some phases.
fn sources(rank: u32, phases: u32) -> Range<u32> {
    let first = rank >> phases << phases;
    first..first + (1 << phases)
}

/// Writes through phases.
///
/// # Errors
/// The number of ranks is no power of two, or there are fewer phases.
pub(crate) fn phased(stage: &Stage, pattern: &Pattern, phased: Phased) -> Result<Taken, Failure> {
    let (ranks, count) = (pattern.ranks, phased.count);
    if !ranks.is_power_of_two() || count > ranks.trailing_zeros() {
        return Err(Failure::Run(format!("{count} phases on {ranks} ranks")));
    }
    let domains = domains(&pattern.reach(), 1 << count, phased.align);
    let runs = || (0..ranks).map(|rank| pattern.runs(rank));
    let contents = contents(runs, &domains, phased.window_bytes, Windows::Aligned);
    let mut world = World::new(stage);
    let mut ready_s = vec![0.0; index(ranks)];
    let mut taken = Taken { phase_s: vec![0.0; index(count)], ..Taken::default() };
    let stores = Stores::new(pattern, &domains, phased);
    let rounds = contents.keys().next_back().map_or(0, |last| last + 1);
    for round in 0..rounds {
        for phase in 0..count {
            let begin_s = latest(&ready_s);
            exchange(&mut world, &mut ready_s, &contents, (round, phase, count));
            taken.phase_s[index(phase)] += latest(&ready_s) - begin_s;
        }
        let begin_s = latest(&ready_s);
        stores.round(&mut world, &mut ready_s, round);
        taken.storage_s += latest(&ready_s) - begin_s;
    }
    world.counts.rounds = rounds;
    let Taken { seconds, counts, .. } = world.taken(&ready_s);
    Ok(Taken { seconds, counts, exchange_s: taken.phase_s.iter().sum(), ..taken })
}

/// Bytes and pieces of a source for a class in a round.
fn packet(contents: &Contents, round: u64, class: u32, count: u32, source: u32) -> (u64, u64) {
    let content = contents.get(&round).and_then(|round| round.get(&domain_of(class, count)));
    content.and_then(|content| content.ranks.get(&source)).copied().unwrap_or((0, 0))
}

/// Each rank sends its partner what it has for the partner's classes.
fn exchange(
    world: &mut World,
    ready_s: &mut [f64],
    contents: &Contents,
    (round, phase, count): (u64, u32, u32),
) {
    let mut arrived_s = ready_s.to_vec();
    for rank in 0..u32::try_from(ready_s.len()).unwrap_or(u32::MAX) {
        let to = rank ^ (1 << phase);
        let classes = (class(to, phase + 1)..1 << count).step_by(1 << (phase + 1));
        let (mut bytes, mut pieces, mut packets) = (0, 0, 0);
        for class in classes {
            for source in sources(rank, phase) {
                let (own, count) = packet(contents, round, class, count, source);
                bytes += own;
                packets += 1;
                // What came from others is copied in one piece.
                pieces += if source == rank { count } else { 1 };
            }
        }
        let packed_s = world.copy(rank, bytes, pieces, ready_s[index(rank)]);
        let message = bytes + packets * LEN_BYTES + 1;
        let end_s = world.message(rank, to, message, packed_s);
        arrived_s[index(to)] = arrived_s[index(to)].max(end_s).max(packed_s);
        arrived_s[index(rank)] = arrived_s[index(rank)].max(packed_s);
    }
    ready_s.copy_from_slice(&arrived_s);
}

/// What ranks store in the end.
struct Stores {
    /// Runs of each rank that it stores one by one, with their rounds.
    runs: Vec<Vec<(u64, Range<u64>)>>,
}

impl Stores {
    fn new(pattern: &Pattern, domains: &[Range<u64>], phased: Phased) -> Stores {
        let runs = (0..pattern.ranks).map(|rank| stored(pattern, rank, domains, phased));
        Stores { runs: runs.collect() }
    }

    /// Ranks put their bytes in the order of the file and store them.
    fn round(&self, world: &mut World, ready_s: &mut [f64], round: u64) {
        let mut next: Vec<_> = self.runs.iter().map(|runs| of_round(runs, round)).collect();
        for (rank, runs) in (0..).zip(&next) {
            let bytes = runs.iter().map(|(_, run)| run.end - run.start).sum();
            let pieces = u64::try_from(runs.len()).unwrap_or(u64::MAX);
            ready_s[index(rank)] = world.copy(rank, bytes, pieces, ready_s[index(rank)]);
        }
        let ends_s = super::in_order(ready_s, |rank, at_s| {
            let ((_, run), rest) = next[index(rank)].split_first()?;
            let (offset, bytes) = (run.start, run.end - run.start);
            next[index(rank)] = rest;
            let access = Access { direction: Direction::Write, offset, bytes, regions: 1 };
            Some(world.access(rank, access, at_s))
        });
        ready_s.copy_from_slice(&ends_s);
    }
}

fn of_round(runs: &[(u64, Range<u64>)], round: u64) -> &[(u64, Range<u64>)] {
    let first = runs.partition_point(|(at, _)| *at < round);
    let last = runs.partition_point(|(at, _)| *at <= round);
    &runs[first..last]
}

/// The runs that a rank stores, cut at its windows.
fn stored(
    pattern: &Pattern,
    rank: u32,
    domains: &[Range<u64>],
    phased: Phased,
) -> Vec<(u64, Range<u64>)> {
    let Phased { count, window_bytes, .. } = phased;
    let domain = &domains[domain_of(class(rank, count), count)];
    let complete = 1 << count == pattern.ranks;
    let mut runs: Vec<Range<u64>> = match complete {
        // All bytes of the domain meet here.
        true => vec![domain.clone()],
        false => clipped(pattern, sources(rank, count), domain),
    };
    runs.retain(|run| !run.is_empty());
    let base = domain.start / window_bytes * window_bytes;
    let mut all = Vec::new();
    for mut run in runs {
        while !run.is_empty() {
            let round = (run.start - base) / window_bytes;
            let end = base.saturating_add((round + 1).saturating_mul(window_bytes)).min(run.end);
            all.push((round, run.start..end));
            run.start = end;
        }
    }
    all
}

/// The bytes of some ranks in a domain, neighbours joined.
fn clipped(pattern: &Pattern, ranks: Range<u32>, domain: &Range<u64>) -> Vec<Range<u64>> {
    let clip = |run: Range<u64>| run.start.max(domain.start)..run.end.min(domain.end);
    let mut runs: Vec<Range<u64>> =
        ranks.flat_map(|rank| pattern.runs(rank).map(clip)).filter(|run| !run.is_empty()).collect();
    runs.sort_unstable_by_key(|run| run.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => joined.push(run),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_of_classes_lie_in_the_order_of_reversed_bits() {
        let order: Vec<usize> = (0..8).map(|class| domain_of(class, 3)).collect();
        assert_eq!(order, [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(domain_of(0, 0), 0);
        assert_eq!((sources(5, 0), sources(5, 2), sources(5, 3)), (5..6, 4..8, 0..8));
    }
}
