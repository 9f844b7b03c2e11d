//! Two-phase collective I/O: domains, windows, rounds.
//!
//! pario: nobody waits for all. A rank sends its bytes of a round and goes on, at most two rounds
//! ahead of an aggregator's answers; who sends what is known to all. ROMIO: lists of offsets go to
//! the aggregators first; in each round all ranks exchange counts, then bytes, then the aggregators
//! access storage, and the next round begins when all are done (papers 001, listing 1, and 003).

use std::collections::BTreeMap;
use std::ops::Range;

use pario::model::Direction;
use pario::model::clock::Access;

use super::{Taken, World, index, latest, real};
use crate::scenario::pattern::Pattern;
use crate::scenario::stage::Stage;

/// How rounds follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounds {
    /// As pario does with messages.
    Overlapping,
    /// As ROMIO does.
    Alternating,
}

/// How bytes are shuffled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shuffle {
    pub(crate) aggregators: Vec<u32>,
    pub(crate) window_bytes: u64,
    /// Domains end at multiples of this.
    pub(crate) align: u64,
    pub(crate) rounds: Rounds,
}

/// Rounds that a rank may send before the first is answered.
const ROUNDS_AHEAD: usize = 2;
/// Bytes of an offset and a length in a list.
const LISTED_BYTES: u64 = 16;

impl Shuffle {
    /// ROMIO with every rank an aggregator and windows of 4 MB (paper 003, section 6).
    pub(crate) fn romio(ranks: u32) -> Shuffle {
        let aggregators = (0..ranks).collect();
        Shuffle { aggregators, window_bytes: 4 << 20, align: 1, rounds: Rounds::Alternating }
    }

    /// pario's two-phase with messages, every rank an aggregator.
    pub(crate) fn pario(ranks: u32) -> Shuffle {
        let window_bytes = (32 << 10) * u64::from(ranks);
        let aggregators = (0..ranks).collect();
        Shuffle { aggregators, window_bytes, align: 4096, rounds: Rounds::Overlapping }
    }

    /// One rank gathers all.
    pub(crate) fn gather() -> Shuffle {
        let window_bytes = 16 << 20;
        Shuffle { aggregators: vec![0], window_bytes, align: 4096, rounds: Rounds::Alternating }
    }
}

/// The domains of aggregators: equal parts that end at multiples of `align`.
pub(super) fn domains(file: &Range<u64>, count: usize, align: u64) -> Vec<Range<u64>> {
    let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
    let share = (file.end - file.start).div_ceil(count);
    let (mut start, mut all) = (file.start, Vec::new());
    for number in 1..=count {
        let ideal = file.start.saturating_add(share.saturating_mul(number));
        let end = match number == count {
            true => file.end,
            false => ideal.next_multiple_of(align).min(file.end),
        };
        all.push(start..end.max(start));
        start = end.max(start);
    }
    all
}

/// What the ranks have in one window.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Bytes and pieces of each rank that has any.
    pub(super) ranks: BTreeMap<u32, (u64, u64)>,
    /// From the first to the last byte of any rank.
    pub(super) file: Range<u64>,
}

impl Content {
    fn bytes(&self) -> u64 {
        self.ranks.values().map(|(bytes, _)| bytes).sum()
    }

    fn add(&mut self, rank: u32, run: &Range<u64>) {
        let (bytes, pieces) = self.ranks.entry(rank).or_default();
        *bytes += run.end - run.start;
        *pieces += 1;
        self.file = match self.file.is_empty() {
            true => run.clone(),
            false => self.file.start.min(run.start)..self.file.end.max(run.end),
        };
    }

    /// All of it.
    fn access(&self, direction: Direction) -> Access {
        let (offset, bytes) = (self.file.start, self.file.end - self.file.start);
        Access { direction, offset, bytes, regions: 1 }
    }

    /// Whether nobody has some bytes in between. No byte has two owners.
    pub(super) fn has_holes(&self) -> bool {
        self.bytes() < self.file.end - self.file.start
    }
}

/// Contents by round, then by domain.
pub(super) type Contents = BTreeMap<u64, BTreeMap<usize, Content>>;

/// Where windows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// They end at multiples of their size, as pario's.
    Aligned,
    /// The first one of a domain begins with the first byte that any rank has there, as ROMIO's.
    FromFirst,
}

impl Windows {
    /// The offset from which the windows of each domain are counted.
    fn bases<R: Iterator<Item = Range<u64>>>(
        self,
        ranks: impl Iterator<Item = R>,
        domains: &[Range<u64>],
        window_bytes: u64,
    ) -> Vec<u64> {
        if self == Windows::Aligned {
            let base = |domain: &Range<u64>| domain.start / window_bytes * window_bytes;
            return domains.iter().map(base).collect();
        }
        let mut bases: Vec<u64> = domains.iter().map(|domain| domain.end).collect();
        for runs in ranks {
            let mut domain = 0;
            for run in runs {
                while domain < domains.len() && domains[domain].end <= run.start {
                    domain += 1;
                }
                let met = domains.iter().zip(&mut bases).skip(domain);
                for (file, base) in met.take_while(|(file, _)| file.start < run.end) {
                    *base = (*base).min(run.start.max(file.start));
                }
            }
        }
        bases
    }
}

/// Divides all runs among the windows of the domains.
pub(super) fn contents<R: Iterator<Item = Range<u64>>, I: Iterator<Item = R>>(
    ranks: impl Fn() -> I,
    domains: &[Range<u64>],
    window_bytes: u64,
    windows: Windows,
) -> Contents {
    let bases = windows.bases(ranks(), domains, window_bytes);
    let mut all = Contents::new();
    for (rank, runs) in (0..).zip(ranks()) {
        let mut domain = 0;
        for mut run in runs {
            while !run.is_empty() {
                while domain + 1 < domains.len() && run.start >= domains[domain].end {
                    domain += 1;
                }
                let base = bases[domain];
                let round = (run.start - base) / window_bytes;
                let window_end = base.saturating_add((round + 1).saturating_mul(window_bytes));
                let end = run.end.min(window_end).min(domains[domain].end.max(run.start + 1));
                let part = run.start..end;
                all.entry(round).or_default().entry(domain).or_default().add(rank, &part);
                run.start = end;
            }
        }
    }
    all
}

/// Bytes go through the windows of aggregators, one call after another.
pub(crate) fn shuffled(
    stage: &Stage,
    pattern: &Pattern,
    direction: Direction,
    shuffle: &Shuffle,
) -> Taken {
    let mut drive = Drive {
        world: World::new(stage),
        shuffle,
        direction,
        ready_s: vec![0.0; index(pattern.ranks)],
        answers_s: BTreeMap::new(),
        exchange_s: 0.0,
        storage_s: 0.0,
    };
    let ranks = || (0..pattern.ranks).map(|rank| pattern.runs(rank));
    match pattern.workload.calls(0) {
        None => drive.call(&pattern.reach(), ranks),
        Some(_) => {
            let calls: Vec<Vec<Vec<Range<u64>>>> =
                (0..pattern.ranks).map(|rank| pattern.calls(rank)).collect();
            for number in 0..calls.first().map_or(0, Vec::len) {
                let own = |calls: &Vec<Vec<Range<u64>>>| calls[number].clone().into_iter();
                let pieces = || calls.iter().flat_map(own);
                let start = pieces().map(|run| run.start).min().unwrap_or(0);
                let end = pieces().map(|run| run.end).max().unwrap_or(0);
                drive.call(&(start..end), || calls.iter().map(own));
            }
        }
    }
    let taken = drive.world.taken(&drive.ready_s);
    Taken { exchange_s: drive.exchange_s, storage_s: drive.storage_s, ..taken }
}

struct Drive<'a> {
    world: World,
    shuffle: &'a Shuffle,
    direction: Direction,
    ready_s: Vec<f64>,
    /// When an aggregator's answers come to a rank, by both.
    answers_s: BTreeMap<(u32, u32), Vec<f64>>,
    exchange_s: f64,
    storage_s: f64,
}

impl Drive<'_> {
    /// One collective call.
    fn call<R: Iterator<Item = Range<u64>>, I: Iterator<Item = R>>(
        &mut self,
        reach: &Range<u64>,
        ranks: impl Fn() -> I,
    ) {
        let domains = domains(reach, self.shuffle.aggregators.len(), self.shuffle.align);
        let windows = match self.shuffle.rounds {
            Rounds::Overlapping => Windows::Aligned,
            Rounds::Alternating => Windows::FromFirst,
        };
        let contents = contents(ranks, &domains, self.shuffle.window_bytes, windows);
        if self.shuffle.rounds == Rounds::Alternating {
            self.send_lists(&contents);
        }
        for round in contents.values() {
            self.world.counts.rounds += 1;
            match self.shuffle.rounds {
                Rounds::Alternating => self.alternate(round),
                Rounds::Overlapping => self.overlap(round),
            }
        }
    }

    /// Lists of offsets: made by their owners, sent to the aggregators, and worked on there.
    fn send_lists(&mut self, contents: &Contents) {
        let begin_s = latest(&self.ready_s);
        let mut pieces: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (&domain, content) in contents.values().flatten() {
            let aggregator = self.shuffle.aggregators[domain];
            for (&rank, &(_, count)) in &content.ranks {
                *pieces.entry((rank, aggregator)).or_default() += count;
            }
        }
        let us = self.world.stage.costs.list_piece_us;
        let mut arrived_s = self.ready_s.clone();
        for (&(rank, aggregator), &count) in &pieces {
            let at_s = self.ready_s[index(rank)];
            let made_s = self.world.work(rank, real(count) * us, at_s);
            self.ready_s[index(rank)] = made_s;
            let mut end_s = made_s;
            if rank != aggregator {
                end_s = self.world.message(rank, aggregator, count * LISTED_BYTES, made_s);
            }
            let arrived = &mut arrived_s[index(aggregator)];
            *arrived = arrived.max(end_s);
        }
        for (&(_, aggregator), &count) in &pieces {
            let at_s = arrived_s[index(aggregator)].max(self.ready_s[index(aggregator)]);
            arrived_s[index(aggregator)] = self.world.work(aggregator, real(count) * us, at_s);
        }
        for (ready_s, arrived_s) in self.ready_s.iter_mut().zip(arrived_s) {
            *ready_s = ready_s.max(arrived_s);
        }
        self.exchange_s += latest(&self.ready_s) - begin_s;
    }

    /// A round of ROMIO: all wait for all.
    fn alternate(&mut self, round: &BTreeMap<usize, Content>) {
        let begin_s = latest(&self.ready_s);
        let counted_s = self.world.barrier(&self.ready_s);
        self.ready_s.fill(counted_s);
        match self.direction {
            Direction::Write => {
                self.send(round);
                let sent_s = latest(&self.ready_s);
                self.exchange_s += sent_s - begin_s;
                self.store_all(round);
                self.storage_s += latest(&self.ready_s) - sent_s;
            }
            Direction::Read => {
                self.fetch_all(round);
                let fetched_s = latest(&self.ready_s);
                self.storage_s += fetched_s - counted_s;
                self.deliver(round);
                self.exchange_s += latest(&self.ready_s) - fetched_s + counted_s - begin_s;
            }
        }
    }

    /// A round of pario.
    fn overlap(&mut self, round: &BTreeMap<usize, Content>) {
        match self.direction {
            Direction::Write => {
                self.send(round);
                for (&domain, content) in round {
                    self.store(domain, content);
                    self.answer(domain, content);
                }
            }
            Direction::Read => {
                self.fetch_all(round);
                self.deliver(round);
            }
        }
    }

    /// Ranks send their bytes to the aggregators, each beginning with another one.
    fn send(&mut self, round: &BTreeMap<usize, Content>) {
        let count = self.shuffle.aggregators.len();
        let mut arrived_s: BTreeMap<u32, f64> = BTreeMap::new();
        for turn in 0..count {
            for rank in 0..u32::try_from(self.ready_s.len()).unwrap_or(u32::MAX) {
                let domain = (index(rank) + turn) % count;
                let Some(content) = round.get(&domain) else { continue };
                let Some(&(bytes, pieces)) = content.ranks.get(&rank) else { continue };
                let aggregator = self.shuffle.aggregators[domain];
                if rank == aggregator {
                    continue;
                }
                let at_s = self.may_send(rank, aggregator);
                let packed_s = self.world.copy(rank, bytes, pieces, at_s);
                self.ready_s[index(rank)] = packed_s;
                let end_s = self.world.message(rank, aggregator, bytes + self.mark(), packed_s);
                let arrived = arrived_s.entry(aggregator).or_default();
                *arrived = arrived.max(end_s);
            }
        }
        for (&domain, content) in round {
            let aggregator = self.shuffle.aggregators[domain];
            let arrived = arrived_s.get(&aggregator).copied().unwrap_or(0.0);
            let at_s = self.ready_s[index(aggregator)].max(arrived);
            let pieces = content.ranks.values().map(|(_, pieces)| pieces).sum();
            let placed_s = self.world.copy(aggregator, content.bytes(), pieces, at_s);
            self.ready_s[index(aggregator)] = placed_s;
        }
    }

    /// pario's messages say at their end whether their sender goes on.
    fn mark(&self) -> u64 {
        u64::from(self.shuffle.rounds == Rounds::Overlapping)
    }

    /// When a rank may send to an aggregator: not too far ahead of its answers.
    fn may_send(&self, rank: u32, aggregator: u32) -> f64 {
        let ready_s = self.ready_s[index(rank)];
        let answers = self.answers_s.get(&(rank, aggregator)).map_or(&[][..], Vec::as_slice);
        let awaited = answers.len().checked_sub(ROUNDS_AHEAD).map_or(0.0, |at| answers[at]);
        ready_s.max(awaited)
    }

    /// The aggregator stores the window; holes are read first.
    fn store(&mut self, domain: usize, content: &Content) {
        let aggregator = self.shuffle.aggregators[domain];
        let mut at_s = self.ready_s[index(aggregator)];
        if content.has_holes() {
            at_s = self.world.access(aggregator, content.access(Direction::Read), at_s);
        }
        let end_s = self.world.access(aggregator, content.access(Direction::Write), at_s);
        self.ready_s[index(aggregator)] = end_s;
    }

    /// The aggregator answers those who sent.
    fn answer(&mut self, domain: usize, content: &Content) {
        let aggregator = self.shuffle.aggregators[domain];
        let at_s = self.ready_s[index(aggregator)];
        for &rank in content.ranks.keys().filter(|&&rank| rank != aggregator) {
            let end_s = self.world.message(aggregator, rank, 1, at_s);
            self.answers_s.entry((rank, aggregator)).or_default().push(end_s);
        }
    }

    /// All aggregators store their windows at the same time.
    fn store_all(&mut self, round: &BTreeMap<usize, Content>) {
        let steps = |content: &Content| {
            let holes = content.has_holes().then(|| content.access(Direction::Read));
            holes.into_iter().chain([content.access(Direction::Write)]).collect()
        };
        self.access_all(round, steps);
    }

    /// All aggregators read their windows at the same time.
    fn fetch_all(&mut self, round: &BTreeMap<usize, Content>) {
        self.access_all(round, |content| vec![content.access(Direction::Read)]);
    }

    fn access_all(
        &mut self,
        round: &BTreeMap<usize, Content>,
        steps: impl Fn(&Content) -> Vec<Access>,
    ) {
        let mut accesses: Vec<Vec<Access>> = vec![Vec::new(); self.ready_s.len()];
        for (&domain, content) in round {
            accesses[index(self.shuffle.aggregators[domain])].extend(steps(content));
        }
        let accesses = accesses.into_iter().map(Vec::into_iter).collect();
        self.ready_s = self.world.run(&self.ready_s, accesses);
    }

    /// Aggregators send what they have read; ranks put it in place.
    fn deliver(&mut self, round: &BTreeMap<usize, Content>) {
        let mut arrived_s = self.ready_s.clone();
        for (&domain, content) in round {
            let aggregator = self.shuffle.aggregators[domain];
            for (&rank, &(bytes, pieces)) in &content.ranks {
                let at_s = self.ready_s[index(aggregator)];
                let packed_s = self.world.copy(aggregator, bytes, pieces, at_s);
                self.ready_s[index(aggregator)] = packed_s;
                let mut end_s = packed_s;
                if rank != aggregator {
                    let bytes = bytes + self.mark();
                    end_s = self.world.message(aggregator, rank, bytes, packed_s);
                    end_s = self.world.copy(rank, bytes, pieces, end_s);
                }
                arrived_s[index(rank)] = arrived_s[index(rank)].max(end_s);
            }
        }
        for (ready_s, arrived_s) in self.ready_s.iter_mut().zip(arrived_s) {
            *ready_s = ready_s.max(arrived_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of paper 003: bytes 100 to 399, three processes.
    #[test]
    fn domains_are_those_of_the_paper() {
        assert_eq!(domains(&(100..400), 3, 1), [100..200, 200..300, 300..400]);
        assert_eq!(domains(&(0..10), 3, 4096), [0..10, 10..10, 10..10]);
    }

    #[test]
    fn windows_have_the_bytes_of_all_ranks() {
        let pattern = Pattern::new("block-cyclic", 4, &[("Nx", 64), ("Bx", 2)]).unwrap();
        let domains = domains(&pattern.reach(), 2, 1);
        let all =
            contents(|| (0..4).map(|rank| pattern.runs(rank)), &domains, 48, Windows::FromFirst);
        let windows: Vec<(u64, usize, u64)> = all
            .iter()
            .flat_map(|(&round, windows)| {
                windows.iter().map(move |(&domain, content)| (round, domain, content.bytes()))
            })
            .collect();
        let expected = [(0, 0, 48), (0, 1, 48), (1, 0, 48), (1, 1, 48), (2, 0, 32), (2, 1, 32)];
        assert_eq!(windows, expected);
        let first = &all[&0][&0];
        assert_eq!(first.ranks.values().copied().collect::<Vec<_>>()[0], (16, 2));
        assert!(!first.has_holes());
    }
}
