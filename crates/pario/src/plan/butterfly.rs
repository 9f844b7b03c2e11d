//! The partners of a multi-phase exchange, and which rank ends up with which part of the file.
//!
//! The pairs are those of papers 000 (figure 5) and 002 (figure 2, L5): in phase `ph` a rank and
//! its partner differ in bit `ph` only. The rank whose bit is 0 keeps the lower half of the file
//! range that both hold, the other one the upper half. So after `k` phases the last `k` bits of a
//! rank, its *class*, say which range it has: reversed, they are the number of that range in the
//! order of the file (paper 002, table 4). All ranks of a class hold the same range, each
//! with the data of other sources.
//!
//! The papers need powers of two. Here any number of ranks will do: a class without ranks gets
//! no range, and a rank without a partner sends its upper half to the rank `2^ph` below it, which
//! has the class of the missing partner. It receives nothing in that phase.
//!
//! Cost: a few operations on bits for each question; `sources` and `classes` are as long as their
//! answers. A rank sends at most one message a phase, and receives at most two.

/// The exchange partners of a number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Butterfly {
    ranks: u32,
}

/// As many ones as there are phases.
fn mask(phases: u32) -> u32 {
    u32::MAX.checked_shr(u32::BITS - phases).unwrap_or(0)
}

impl Butterfly {
    pub(crate) fn new(ranks: u32) -> Butterfly {
        assert!(ranks > 0, "somebody takes part in an exchange");
        Butterfly { ranks }
    }

    /// Phases after which every rank has a range of its own: log2 of the ranks, rounded up.
    pub(crate) fn phases(self) -> u32 {
        u32::BITS - (self.ranks - 1).leading_zeros()
    }

    /// The rank that a rank exchanges with in a phase, if there is one of that number.
    pub(crate) fn partner(self, rank: u32, phase: u32) -> Option<u32> {
        let partner = rank ^ (1 << phase);
        (partner < self.ranks).then_some(partner)
    }

    /// The class of a rank after this number of phases; after none, all have the same.
    pub(crate) fn class(self, rank: u32, phases: u32) -> u32 {
        rank & mask(phases)
    }

    /// Number of classes after this number of phases.
    pub(crate) fn class_count(self, phases: u32) -> u32 {
        mask(phases).saturating_add(1).min(self.ranks)
    }

    /// The classes after this number of phases, in the order of their ranges in the file.
    ///
    /// One more phase divides a range between a class and the one that differs in the new bit, if
    /// that one exists: ranges of fewer phases are unions of neighbouring ranges of more.
    pub(crate) fn classes(self, phases: u32) -> Vec<u32> {
        let mut classes: Vec<u32> = (0..self.class_count(phases)).collect();
        classes.sort_unstable_by_key(|&class| reversed(class, phases));
        classes
    }

    /// The ranks of a class, in order.
    #[cfg(test)]
    fn members(self, class: u32, phases: u32) -> impl Iterator<Item = u32> {
        let next = move |rank: &u32| rank.checked_add(1_u32.checked_shl(phases)?);
        let first = (class < self.ranks).then_some(class);
        std::iter::successors(first, next).take_while(move |&rank| rank < self.ranks)
    }

    /// Where a packet on `rank` for `class` is after a phase. It has taken all earlier phases, so
    /// it is on a rank that has the lower bits of the class.
    pub(crate) fn next(self, rank: u32, phase: u32, class: u32) -> u32 {
        assert!(class < self.ranks, "packets are for classes that exist");
        assert!((rank ^ class) & mask(phase) == 0, "earlier phases brought a packet nearer");
        let bit = 1 << phase;
        match self.partner(rank, phase) {
            _ if (rank ^ class) & bit == 0 => rank,
            Some(partner) => partner,
            // With `rank < bit` the missing partner would be the class itself.
            None => rank - bit,
        }
    }

    /// The rank that has the data of a source for a class after this number of phases.
    pub(crate) fn holder(self, source: u32, class: u32, phases: u32) -> u32 {
        (0..phases).fold(source, |rank, phase| self.next(rank, phase, class))
    }

    /// The ranks that send to a rank in a phase, in order: its partner, and the rank without a
    /// partner that sends here instead.
    pub(crate) fn senders(self, rank: u32, phase: u32) -> Vec<u32> {
        let bit = 1 << phase;
        let above = rank.checked_add(bit).filter(|&above| rank & bit != 0 && above < self.ranks);
        let orphan = above.filter(|&above| self.partner(above, phase).is_none());
        self.partner(rank, phase).into_iter().chain(orphan).collect()
    }

    /// The ranks whose data a rank has after this number of phases, in order; always itself too.
    pub(crate) fn sources(self, rank: u32, phases: u32) -> Vec<u32> {
        let mut sources = vec![rank];
        // Backwards: the sender of a later phase brings along what it got in earlier ones.
        for phase in (0..phases).rev() {
            let senders = sources.iter().flat_map(|&holder| self.senders(holder, phase));
            sources.extend(senders.collect::<Vec<_>>());
        }
        sources.sort_unstable();
        sources
    }
}

/// The number of a class's range, counted from the start of the file, where all classes exist: its
/// bits backwards (paper 002: `perm_bin_rank`).
pub(crate) fn reversed(class: u32, phases: u32) -> u32 {
    class.reverse_bits().checked_shr(u32::BITS - phases).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS_MAX: u32 = 70;

    fn all() -> impl Iterator<Item = Butterfly> {
        (1..=RANKS_MAX).map(Butterfly::new)
    }

    /// Paper 002, table 2.
    #[test]
    fn pairs_of_eight_ranks_are_those_of_the_paper() {
        let butterfly = Butterfly::new(8);
        assert_eq!(butterfly.phases(), 3);
        let pairs = |phase| -> Vec<(u32, u32)> {
            let pair = |rank| (rank, butterfly.partner(rank, phase).unwrap());
            (0..8).map(pair).filter(|(one, other)| one < other).collect()
        };
        assert_eq!(pairs(0), [(0, 1), (2, 3), (4, 5), (6, 7)]);
        assert_eq!(pairs(1), [(0, 2), (1, 3), (4, 6), (5, 7)]);
        assert_eq!(pairs(2), [(0, 4), (1, 5), (2, 6), (3, 7)]);
    }

    /// Paper 000: "processor 0 exchanges data with processors 1 and 2", and its figure 5 as it is.
    #[test]
    fn partners_follow_the_papers_formula() {
        let four = Butterfly::new(4);
        assert_eq!((four.partner(0, 0), four.partner(0, 1)), (Some(1), Some(2)));
        for butterfly in all() {
            for (rank, phase) in (0..butterfly.ranks)
                .flat_map(|rank| (0..butterfly.phases()).map(move |ph| (rank, ph)))
            {
                let formula = match rank % 2_u32.pow(phase + 1) < 2_u32.pow(phase) {
                    true => rank + 2_u32.pow(phase),
                    false => rank - 2_u32.pow(phase),
                };
                let expected = Some(formula).filter(|&partner| partner < butterfly.ranks);
                assert_eq!(butterfly.partner(rank, phase), expected);
            }
        }
    }

    #[test]
    fn the_number_of_phases_is_the_rounded_logarithm() {
        let phases: Vec<u32> = (1..=9).map(|ranks| Butterfly::new(ranks).phases()).collect();
        assert_eq!(phases, [0, 1, 2, 2, 3, 3, 3, 3, 4]);
        assert_eq!(Butterfly::new(65_536).phases(), 16);
        assert_eq!(Butterfly::new(u32::MAX).phases(), 32);
    }

    /// Paper 002, table 4: 16 entries on four ranks.
    #[test]
    fn ranges_of_four_ranks_are_where_the_paper_has_them() {
        assert_eq!([0, 1, 2, 3].map(|rank| reversed(rank, 2)), [0b00, 0b10, 0b01, 0b11]);
        assert_eq!([0, 1, 2, 3].map(|rank| reversed(rank, 2) * 16 / 4), [0, 8, 4, 12]);
        assert_eq!(Butterfly::new(4).classes(2), [0, 2, 1, 3]);
    }

    #[test]
    fn classes_that_nobody_has_are_left_out() {
        assert_eq!(Butterfly::new(3).classes(2), [0, 2, 1]);
        assert_eq!(Butterfly::new(6).classes(3), [0, 4, 2, 1, 5, 3]);
        assert_eq!(Butterfly::new(6).classes(1), [0, 1]);
        assert_eq!(Butterfly::new(1).classes(0), [0]);
        assert_eq!(Butterfly::new(6).members(1, 1).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(Butterfly::new(6).members(6, 3).count(), 0);
    }

    #[test]
    fn a_range_is_a_union_of_neighbouring_ranges_of_the_next_phase() {
        for butterfly in all() {
            for phases in 0..butterfly.phases() {
                let finer = butterfly.classes(phases + 1);
                let mut coarse: Vec<u32> =
                    finer.iter().map(|&class| butterfly.class(class, phases)).collect();
                coarse.dedup();
                assert_eq!(coarse, butterfly.classes(phases), "{butterfly:?}");
            }
        }
    }

    #[test]
    fn every_rank_is_in_the_class_that_lists_it() {
        for butterfly in all() {
            for phases in 0..=butterfly.phases() {
                let mut ranks: Vec<u32> = Vec::new();
                for class in butterfly.classes(phases) {
                    let members: Vec<u32> = butterfly.members(class, phases).collect();
                    assert!(members.iter().all(|&rank| butterfly.class(rank, phases) == class));
                    ranks.extend(members);
                }
                ranks.sort_unstable();
                assert!(ranks.into_iter().eq(0..butterfly.ranks));
            }
        }
    }

    #[test]
    fn every_packet_ends_on_a_rank_of_its_class() {
        for butterfly in all() {
            for phases in 0..=butterfly.phases() {
                for class in butterfly.classes(phases) {
                    for source in 0..butterfly.ranks {
                        let holder = butterfly.holder(source, class, phases);
                        assert!(holder < butterfly.ranks);
                        assert_eq!(butterfly.class(holder, phases), class, "{butterfly:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn senders_are_the_ranks_whose_packets_come_here() {
        for butterfly in all() {
            for phase in 0..butterfly.phases() {
                let mut senders = vec![Vec::new(); RANKS_MAX.try_into().unwrap()];
                for rank in 0..butterfly.ranks {
                    let mut targets: Vec<u32> = (0..butterfly.class_count(phase + 1))
                        .filter(|class| (rank ^ class) & mask(phase) == 0)
                        .map(|class| butterfly.next(rank, phase, class))
                        .filter(|&target| target != rank)
                        .collect();
                    targets.dedup();
                    assert!(targets.len() <= 1, "a rank sends one message a phase");
                    for target in targets {
                        senders[usize::try_from(target).unwrap()].push(rank);
                    }
                }
                for rank in 0..butterfly.ranks {
                    let expected = &senders[usize::try_from(rank).unwrap()];
                    assert_eq!(&butterfly.senders(rank, phase), expected, "{butterfly:?} {phase}");
                    assert!(expected.len() <= 2);
                }
            }
        }
    }

    #[test]
    fn sources_are_the_ranks_whose_packets_are_here() {
        for butterfly in all() {
            for phases in 0..=butterfly.phases() {
                for rank in 0..butterfly.ranks {
                    let class = butterfly.class(rank, phases);
                    let holds = |source: &u32| butterfly.holder(*source, class, phases) == rank;
                    let expected: Vec<u32> = (0..butterfly.ranks).filter(holds).collect();
                    assert_eq!(butterfly.sources(rank, phases), expected, "{butterfly:?} {phases}");
                    assert!(expected.contains(&rank));
                }
            }
        }
    }

    #[test]
    fn a_rank_of_a_power_of_two_has_two_to_the_phases_sources() {
        for exponent in 0..=6 {
            let butterfly = Butterfly::new(1 << exponent);
            for phases in 0..=exponent {
                for rank in 0..butterfly.ranks {
                    let first = rank >> phases << phases;
                    let sources = butterfly.sources(rank, phases);
                    assert!(sources.into_iter().eq(first..first + (1 << phases)));
                }
            }
        }
    }

    #[test]
    fn after_all_phases_a_rank_has_the_data_of_all() {
        for butterfly in all() {
            for rank in 0..butterfly.ranks {
                let sources = butterfly.sources(rank, butterfly.phases());
                assert!(sources.into_iter().eq(0..butterfly.ranks));
            }
        }
    }

    #[test]
    fn of_three_ranks_the_last_sends_its_upper_part_to_the_middle() {
        let butterfly = Butterfly::new(3);
        assert_eq!(butterfly.partner(2, 0), None);
        assert_eq!(butterfly.senders(1, 0), [0, 2]);
        assert_eq!(butterfly.senders(2, 0), []);
        assert_eq!(butterfly.sources(1, 1), [0, 1, 2]);
        assert_eq!(butterfly.sources(0, 1), [0, 1]);
        assert_eq!(butterfly.sources(2, 2), [0, 1, 2]);
    }
}
