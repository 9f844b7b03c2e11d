//! Multiple-phase collective I/O (paper 000), for any number of ranks and any request.
//!
//! In each of k phases a rank exchanges half of the bytes that it holds with one partner, so that
//! the bytes of one range of the file gather on fewer and fewer ranks. After k phases, all ranks
//! whose numbers have the same last k bits (a *class*) hold the bytes of one domain of the file.
//! With all ceil(log2 P) phases that is one rank for each domain, which stores whole windows. With
//! fewer phases, several ranks store a domain, in pieces that are larger than their own requests'.
//! With none, each rank stores its own pieces.
//!
//! The domains of the classes lie in the file in the order of the reversed bits of the classes'
//! numbers, since the first phase, by the last bit, divides the file into halves. Where the number
//! of ranks is no power of two, some classes have no ranks and no domain, and a rank whose partner
//! does not exist sends to the rank before it in the partner's class.
//!
//! Cost: each byte is copied at most once in a phase, half of them in each; a rank exchanges
//! messages with at most ceil(log2 P) others (one or two more where partners are missing).

use super::butterfly::Butterfly;
use super::{Holes, Planning, Shuffled, two_phase};

/// The phases of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phases {
    butterfly: Butterfly,
    ranks: u32,
    pub(crate) count: u32,
}

impl Phases {
    /// This number of phases, but at most log2 of the ranks, rounded up; that many by default.
    pub(crate) fn new(ranks: u32, wanted: Option<u32>) -> Phases {
        let ranks = ranks.max(1);
        let butterfly = Butterfly::new(ranks);
        let all = butterfly.phases();
        Phases { butterfly, ranks, count: wanted.map_or(all, |wanted| wanted.min(all)) }
    }

    /// Whether each domain is one rank's alone at the end.
    pub(crate) fn is_complete(self) -> bool {
        self.count == self.butterfly.phases()
    }

    /// The class of a rank at the end: its domain is that of the class.
    pub(crate) fn class(self, rank: u32) -> u32 {
        self.butterfly.class(rank, self.count)
    }

    /// The rank that has a source's packet for a class at the end.
    pub(crate) fn holder(self, source: u32, class: u32) -> u32 {
        self.butterfly.holder(source, class, self.count)
    }

    /// The ranks that send to a rank in a phase.
    pub(crate) fn senders(self, rank: u32, phase: u32) -> Vec<u32> {
        self.butterfly.senders(rank, phase)
    }

    /// The rank to which a rank sends in a phase, if there is a class for what it would send.
    pub(crate) fn target(self, rank: u32, phase: u32) -> Option<u32> {
        let wanted = self.butterfly.class(rank ^ (1 << phase), phase + 1);
        (wanted < self.ranks).then(|| self.butterfly.next(rank, phase, wanted))
    }

    /// The sources whose packets a rank has before a phase, in ascending order.
    pub(crate) fn sources(self, rank: u32, phase: u32) -> Vec<u32> {
        self.butterfly.sources(rank, phase)
    }

    /// The classes for which a rank may have packets before a phase, in ascending order.
    pub(crate) fn classes_of(self, rank: u32, phase: u32) -> impl Iterator<Item = u32> {
        let first = self.butterfly.class(rank, phase);
        let last = self.butterfly.class_count(self.count);
        (first..last).step_by(1 << phase)
    }
}

/// Inspector-executor collective I/O (paper 002): all phases, so that each rank has one block of
/// the file. What a rank passes on takes memory as equation 2 of the paper says, but of one round
/// at a time.
pub(super) fn inspector_executor(planning: &Planning<'_>) -> Shuffled {
    shuffled(planning, None)
}

/// Phases that make sense for the ranks of a file.
pub(super) fn phases_of(planning: &Planning<'_>) -> u32 {
    let ranks = u32::try_from(planning.file.nodes.len()).unwrap_or(u32::MAX);
    Phases::new(ranks, None).count
}

/// Multiple-phase collective I/O (paper 000), with as many phases as a hint says.
pub(super) fn multi_phase(planning: &Planning<'_>) -> Shuffled {
    shuffled(planning, planning.hints.phases)
}

fn shuffled(planning: &Planning<'_>, wanted: Option<u32>) -> Shuffled {
    let ranks = u32::try_from(planning.file.nodes.len()).unwrap_or(u32::MAX);
    let phases = Phases::new(ranks, wanted);
    let classes = phases.butterfly.classes(phases.count);
    let mut shuffled = two_phase::through(planning, &classes, phases);
    if !phases.is_complete() {
        // Several ranks write to one window.
        shuffled.holes = Holes::Skipped;
    }
    shuffled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where paper 002 applies, dividing the file by ranges sends what halving lists sends: to the
    /// partner, as many entries of each of `2^ph` sources (equations 3 and 5).
    #[test]
    fn ranges_send_what_the_paper_sends() {
        for ranks in [2, 4, 8, 16] {
            for (block_len, turns) in [(1, 1), (1, 3), (3, 2), (64, 1)] {
                let blocks = u64::from(ranks) * turns;
                // The address of an entry of a block-cyclic distribution (equation 6).
                let address = |source: u32, entry: u64| {
                    let turn = u64::from(ranks) * block_len;
                    let block = entry / block_len * turn + entry % block_len;
                    u64::from(source) * block_len + block
                };
                let phases = Phases::new(ranks, None);
                let share = block_len * blocks;
                let classes = phases.butterfly.classes(phases.count);
                let domain = |class: u32| {
                    let number = classes.iter().position(|&one| one == class).unwrap();
                    u64::try_from(number).unwrap() * share
                };
                let in_domain = |source: u32, class: u32| {
                    let domain = domain(class)..domain(class) + share;
                    let logical = (0..share).map(|entry| address(source, entry));
                    u64::try_from(logical.filter(|place| domain.contains(place)).count()).unwrap()
                };
                for rank in 0..ranks {
                    let number = rank.reverse_bits() >> (u32::BITS - phases.count);
                    assert_eq!(u64::from(number) * share, domain(rank));
                    for phase in 0..phases.count {
                        let to = phases.target(rank, phase).unwrap();
                        let sent = |source: u32| -> u64 {
                            phases.classes_of(to, phase + 1).map(|c| in_domain(source, c)).sum()
                        };
                        let ours: Vec<u64> =
                            phases.sources(rank, phase).into_iter().map(sent).collect();
                        assert_eq!(to, rank ^ (1 << phase));
                        let theirs = vec![share >> (phase + 1); 1 << phase];
                        assert_eq!(theirs, ours, "{ranks} {block_len} {turns}: {rank}, {phase}");
                    }
                }
            }
        }
    }

    /// What a message has, its sender and its receiver must agree on.
    #[test]
    fn every_packet_is_where_both_sides_expect_it() {
        for ranks in 1..=40 {
            for wanted in 0..=6 {
                let phases = Phases::new(ranks, Some(wanted));
                for source in 0..ranks {
                    for class in phases.butterfly.classes(phases.count) {
                        let mut rank = source;
                        for phase in 0..phases.count {
                            assert!(phases.sources(rank, phase).contains(&source));
                            assert!(phases.classes_of(rank, phase).any(|one| one == class));
                            let next = phases.butterfly.next(rank, phase, class);
                            if next != rank {
                                assert_eq!(phases.target(rank, phase), Some(next));
                                assert!(phases.senders(next, phase).contains(&rank));
                            }
                            rank = next;
                        }
                        assert_eq!(phases.class(rank), class);
                        assert_eq!(phases.holder(source, class), rank);
                    }
                }
                for rank in 0..ranks {
                    for phase in 0..phases.count {
                        for from in phases.senders(rank, phase) {
                            assert_eq!(phases.target(from, phase), Some(rank));
                        }
                    }
                }
            }
        }
    }
}
