//! In which order ranks that wait are woken: those on idle processors first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Ranks that wait, by processor; the one whose processor has the least to do comes first, and of
/// several such the one that comes first in the given order.
pub(super) struct IdleFirst {
    /// Running ranks of each processor.
    loads: BTreeMap<u64, usize>,
    /// Waiting ranks of each processor, with their places in the order.
    queues: BTreeMap<u64, VecDeque<(usize, u32)>>,
}

impl IdleFirst {
    pub(super) fn new(
        waiting: impl Iterator<Item = (u32, u64)>,
        busy: impl Iterator<Item = u64>,
    ) -> IdleFirst {
        let (mut loads, mut queues): (BTreeMap<u64, usize>, BTreeMap<u64, VecDeque<_>>) =
            Default::default();
        busy.for_each(|processor| *loads.entry(processor).or_default() += 1);
        for (place, (rank, processor)) in waiting.enumerate() {
            queues.entry(processor).or_default().push_back((place, rank));
        }
        IdleFirst { loads, queues }
    }

    /// Takes ranks for which `wakes` says that they run from now on, as many as the limit.
    ///
    /// Cost: a logarithm of the processors for each rank.
    pub(super) fn take(mut self, limit: usize, wakes: impl Fn(u32) -> bool) -> Vec<u32> {
        let key = |loads: &BTreeMap<u64, usize>, processor: u64, place: usize| {
            Reverse((loads.get(&processor).copied().unwrap_or(0), place, processor))
        };
        let mut order: BinaryHeap<_> = self
            .queues
            .iter()
            .filter_map(|(&processor, queue)| Some(key(&self.loads, processor, queue.front()?.0)))
            .collect();
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(Reverse((_, _, processor))) = order.pop()
        {
            let Some(queue) = self.queues.get_mut(&processor) else { continue };
            let Some((_, rank)) = queue.pop_front() else { continue };
            if wakes(rank) {
                *self.loads.entry(processor).or_default() += 1;
                taken.push(rank);
            }
            if let Some(&(place, _)) = queue.front() {
                order.push(key(&self.loads, processor, place));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word, beside the order that is used.
    #[test]
    fn idle_processors_come_first_in_the_given_order() {
        let naive = |waiting: &[(u32, u64)], busy: &[u64], limit: usize| {
            let (mut waiting, mut busy, mut woken) =
                (waiting.to_vec(), busy.to_vec(), Vec::<u32>::new());
            while woken.len() < limit && !waiting.is_empty() {
                let load = |processor| busy.iter().filter(|&&one| one == processor).count();
                let at = (0..waiting.len()).min_by_key(|&at| load(waiting[at].1)).unwrap();
                let (rank, processor) = waiting.remove(at);
                if rank % 5 > 0 {
                    busy.push(processor);
                    woken.push(rank);
                }
            }
            woken
        };
        let mut random = 7u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % limit
        };
        for _ in 0..500 {
            let processors = 1 + below(6);
            let waiting: Vec<(u32, u64)> =
                (0..below(20) as u32).map(|rank| (rank, below(processors))).collect();
            let busy: Vec<u64> = (0..below(9)).map(|_| below(processors)).collect();
            let limit = below(20) as usize;
            let found = IdleFirst::new(waiting.iter().copied(), busy.iter().copied())
                .take(limit, |rank| rank % 5 > 0);
            assert_eq!(found, naive(&waiting, &busy, limit), "{waiting:?} {busy:?} {limit}");
        }
    }

    /// Comparing each of them with each other one, once for each that is woken, would take hours.
    #[test]
    fn a_hundred_thousand_ranks_are_put_in_order() {
        const RANKS: u32 = 512 * 200;
        let ranks = || (0..RANKS).map(|rank| (rank, u64::from(rank % 512)));
        let woken = IdleFirst::new(ranks(), ranks().map(|(_, processor)| processor))
            .take(usize::MAX, |_| true);
        assert_eq!(woken, (0..RANKS).collect::<Vec<u32>>());
    }
}
