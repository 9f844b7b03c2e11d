//! Multiple-phase collective I/O (paper 000), for any number of ranks and any request.
//!
//! In each of k phases a rank exchanges half of the bytes that it holds with one partner, so that
//! the bytes of one range of the file meet on fewer and fewer ranks. After k phases, all ranks
//! whose numbers have the same last k bits (a *class*) hold the bytes of one domain of the file.
//! With all ceil(log2 P) phases that is one rank for each domain, which stores whole windows; with
//! fewer, the ranks of a class store fewer, larger pieces; with none, each its own.
//!
//! The domains of the classes lie in the file in the order of the reversed bits of the classes'
//! numbers, since the first phase, by the last bit, parts the halves of the file. Where the number
//! of ranks is no power of two, some classes have no ranks and no domain, and a rank whose partner
//! does not exist sends to the one before it in the partner's class.
//!
//! Cost: each byte is copied at most once in a phase, half of them in each; a rank talks to at
//! most ceil(log2 P) others (one or two more where partners are missing), never to all.

use super::Planning;
use super::two_phase::{Holes, Route, Shuffled};

/// Who exchanges with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Butterfly {
    pub(crate) ranks: u32,
    pub(crate) phases: u32,
}

impl Butterfly {
    /// An exchange of at most so many phases; all that make sense, if none are given.
    pub(crate) fn new(ranks: u32, phases: Option<u32>) -> Butterfly {
        let all = ranks.max(1).next_power_of_two().ilog2();
        Butterfly { ranks, phases: phases.map_or(all, |phases| phases.min(all)) }
    }

    /// Whether each domain is one rank's alone at the end.
    pub(crate) fn is_complete(self) -> bool {
        1 << self.phases >= self.ranks
    }

    /// The class of a rank: its domain is that of the class.
    pub(crate) fn class(self, rank: u32) -> u32 {
        rank & ((1 << self.phases) - 1)
    }

    /// All classes in the order of their domains.
    pub(crate) fn classes(self) -> Vec<u32> {
        let reversed = |class: u32| match self.phases {
            0 => 0,
            phases => class.reverse_bits() >> (32 - phases),
        };
        (0..1 << self.phases).map(reversed).filter(|&class| class < self.ranks).collect()
    }

    /// Where a packet for a class goes in a phase from the rank that has it.
    pub(crate) fn next(self, rank: u32, phase: u32, class: u32) -> u32 {
        let bit = 1 << phase;
        match (rank & bit == class & bit, rank ^ bit < self.ranks) {
            (true, _) => rank,
            (false, true) => rank ^ bit,
            // The partner would have this bit set; the rank before it in its class exists, since
            // the class does.
            (false, false) => rank - bit,
        }
    }

    /// The rank that has a source's packet for a class after all phases.
    pub(crate) fn holder(self, source: u32, class: u32) -> u32 {
        (0..self.phases).fold(source, |rank, phase| self.next(rank, phase, class))
    }

    /// The ranks that send to a rank in a phase.
    pub(crate) fn senders(self, rank: u32, phase: u32) -> Vec<u32> {
        let bit = 1 << phase;
        let candidates = [rank.checked_sub(bit), rank.checked_add(bit)];
        let sends = |&from: &u32| {
            from < self.ranks && from & bit != rank & bit && self.next(from, phase, rank) == rank
        };
        candidates.into_iter().flatten().filter(sends).collect()
    }

    /// The rank to which a rank sends in a phase, if there is a class for it.
    pub(crate) fn target(self, rank: u32, phase: u32) -> Option<u32> {
        let wanted = (rank ^ (1 << phase)) & ((2 << phase) - 1);
        (wanted < self.ranks).then(|| self.next(rank, phase, wanted))
    }

    /// The sources whose packets a rank has after some phases, in ascending order.
    pub(crate) fn sources(self, rank: u32, phases: u32) -> Vec<u32> {
        let mut sources = vec![rank];
        for phase in 0..phases {
            // Those of a sender in this phase are what it had before it.
            for from in self.senders(rank, phase) {
                sources.extend(self.sources(from, phase));
            }
        }
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    /// The classes for which a rank may have packets before a phase, in ascending order.
    pub(crate) fn classes_of(self, rank: u32, phase: u32) -> impl Iterator<Item = u32> {
        let step = 1 << phase;
        let last = (1u32 << self.phases).min(self.ranks);
        (rank & (step - 1)..last).step_by(usize::try_from(step).unwrap_or(1))
    }
}

pub(super) fn multi_phase(planning: &Planning<'_>) -> Shuffled {
    let ranks = u32::try_from(planning.file.nodes.len()).unwrap_or(u32::MAX);
    let butterfly = Butterfly::new(ranks, planning.hints.phases);
    let mut shuffled = Shuffled::new(planning, &butterfly.classes(), Route::Phases(butterfly));
    if !butterfly.is_complete() {
        // Several ranks write to one window.
        shuffled.set_holes(Holes::Skipped);
    }
    shuffled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 5 of paper 000 and Table 2 of paper 002.
    #[test]
    fn partners_are_those_of_the_papers() {
        let eight = Butterfly::new(8, None);
        let pairs = |phase| -> Vec<(u32, u32)> {
            let pair = |rank| (rank, eight.target(rank, phase).unwrap());
            (0..8).map(pair).filter(|(one, other)| one < other).collect()
        };
        assert_eq!(pairs(0), [(0, 1), (2, 3), (4, 5), (6, 7)]);
        assert_eq!(pairs(1), [(0, 2), (1, 3), (4, 6), (5, 7)]);
        assert_eq!(pairs(2), [(0, 4), (1, 5), (2, 6), (3, 7)]);
    }

    /// Table 4 of paper 002: ranks 0, 2, 1, 3 hold the quarters of the file in this order.
    #[test]
    fn domains_are_in_the_order_of_reversed_bits() {
        assert_eq!(Butterfly::new(4, None).classes(), [0, 2, 1, 3]);
        assert_eq!(Butterfly::new(8, None).classes(), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(Butterfly::new(8, Some(1)).classes(), [0, 1]);
        assert_eq!(Butterfly::new(5, None).classes(), [0, 4, 2, 1, 3]);
        assert_eq!(Butterfly::new(5, Some(0)).classes(), [0]);
    }

    #[test]
    fn every_packet_reaches_a_rank_of_its_class_as_sender_and_receiver_expect() {
        for ranks in 1..=40 {
            for phases in 0..=6 {
                let butterfly = Butterfly::new(ranks, Some(phases));
                for source in 0..ranks {
                    for class in butterfly.classes() {
                        let mut rank = source;
                        for phase in 0..butterfly.phases {
                            assert!(butterfly.sources(rank, phase).contains(&source));
                            assert!(butterfly.classes_of(rank, phase).any(|one| one == class));
                            let next = butterfly.next(rank, phase, class);
                            assert!(next < ranks);
                            if next != rank {
                                assert_eq!(butterfly.target(rank, phase), Some(next));
                                assert!(butterfly.senders(next, phase).contains(&rank));
                            }
                            rank = next;
                        }
                        assert_eq!(butterfly.class(rank), class);
                        assert_eq!(butterfly.holder(source, class), rank);
                        assert!(butterfly.sources(rank, butterfly.phases).contains(&source));
                    }
                }
                for rank in 0..ranks {
                    for phase in 0..butterfly.phases {
                        for from in butterfly.senders(rank, phase) {
                            assert_eq!(butterfly.target(from, phase), Some(rank));
                        }
                    }
                }
            }
        }
    }
}
