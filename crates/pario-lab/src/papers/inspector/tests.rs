//! The worked examples of paper 002, number by number, and what must hold for all distributions.

use super::general::{Indexed, Inspector, Run, packing};
use super::*;
use crate::number::{index, rank_of};

/// A source of distributions; its seed is printed and can be set with `PARIO_SEED`.
struct Random {
    state: u64,
}

impl Random {
    fn new() -> Random {
        let given = std::env::var("PARIO_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or(0x2545_f491_4f6c_dd1d);
        println!("PARIO_SEED={seed}");
        Random { state: seed }
    }

    /// A number below a limit (splitmix64).
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, narrow(self.below(wide(last) + 1)));
        }
    }
}

fn narrow(len: u64) -> usize {
    usize::try_from(len).unwrap()
}

/// Whether halving lists of entries gives every rank its part of the file.
///
/// The ranks' tuples, which together name each entry of the file once, are halved at the same
/// addresses if, for every phase `ph`, each `2^ph` ranks that have exchanged data so far (those
/// with the same higher bits) have the same number of entries, half a share, in each of the
/// `2^(ph+1)` equal parts of the file. That is necessary, too: otherwise a rank sends away an
/// entry of its own part, and some parts of the file are written in the wrong order.
fn halves_follow_file(distributions: &[Vec<Tuple>]) -> bool {
    let Some(share) = equal_share(distributions) else { return false };
    let ranks = distributions.len();
    if share == 0 {
        return true;
    }
    // Entries of each rank in each part of the file that is as long as a share.
    let counts = distributions.iter().map(|tuples| {
        let inside = |part: usize| tuples.iter().map(move |tuple| overlap(tuple, part, share));
        (0..ranks).map(|part| inside(part).sum::<u64>()).collect::<Vec<_>>()
    });
    let counts: Vec<Vec<u64>> = counts.collect();
    let phases = ranks.trailing_zeros();
    (0..phases).all(|phase| {
        let (group, part) = (1_usize << phase, ranks >> (phase + 1));
        counts.chunks(group).all(|members| {
            (0..ranks).step_by(part).all(|first| {
                let of_member = |member: &Vec<u64>| member[first..first + part].iter().sum::<u64>();
                members.iter().map(of_member).sum::<u64>() == share / 2
            })
        })
    })
}

/// Entries of a tuple in one of the parts of the file.
fn overlap(tuple: &Tuple, part: usize, part_len: u64) -> u64 {
    let start = wide(part) * part_len;
    let end = (start + part_len).min(tuple.offset + tuple.len);
    end.saturating_sub(start.max(tuple.offset))
}

fn t(offset: u64, len: u64) -> Tuple {
    Tuple { offset, len }
}

fn tuples(addresses: impl IntoIterator<Item = u64>) -> Vec<Tuple> {
    joined(addresses.into_iter().map(|offset| t(offset, 1)))
}

fn cyclic(ranks: u32, block_len: u64, blocks: u64) -> BlockCyclic {
    BlockCyclic { ranks, block_len, blocks }
}

/// The case study of the paper: 16 entries on four ranks in blocks of one, and that of figure 8.
fn case_study() -> BlockCyclic {
    cyclic(4, 1, 4)
}

fn figure_8() -> BlockCyclic {
    cyclic(4, 1, 8)
}

fn distributions(regular: &BlockCyclic) -> Vec<Vec<Tuple>> {
    (0..regular.ranks).map(|rank| regular.tuples(rank)).collect()
}

/// What all ranks do, from the equations; the algorithm must give the same.
fn inspected(regular: &BlockCyclic) -> Vec<Inspection> {
    let closed: Option<Vec<_>> =
        (0..regular.ranks).map(|rank| Inspection::regular(rank, regular)).collect();
    let general = Inspection::general(&distributions(regular));
    assert_eq!(closed, general, "{regular:?}");
    closed.unwrap()
}

fn addresses(tuples: &[Tuple]) -> impl Iterator<Item = usize> {
    tuples.iter().flat_map(|tuple| narrow(tuple.offset)..narrow(tuple.offset + tuple.len))
}

const UNSET: u64 = u64::MAX;

/// An executor of vectors: the memory of every rank.
struct Memories<'a> {
    inspections: &'a [Inspection],
    memories: Vec<Vec<u64>>,
}

impl<'a> Memories<'a> {
    /// Every rank has its own entries; the value of an entry is its logical address.
    fn new(inspections: &'a [Inspection], distributions: &[Vec<Tuple>]) -> Memories<'a> {
        let memory = |(inspection, tuples): (&Inspection, &Vec<Tuple>)| {
            let mut memory = vec![UNSET; narrow(inspection.memory_len())];
            let own = addresses(tuples).map(wide);
            for (target, entry) in memory[narrow(inspection.alloc_offset)..].iter_mut().zip(own) {
                *target = entry;
            }
            memory
        };
        let memories = inspections.iter().zip(distributions).map(memory).collect();
        Memories { inspections, memories }
    }

    fn exchange(&mut self, phase: usize) {
        let sent = |(memory, inspection): (&Vec<u64>, &Inspection)| {
            let send = &inspection.phases[phase].send;
            addresses(send).map(|address| memory[address]).collect::<Vec<_>>()
        };
        let sent: Vec<_> = self.memories.iter().zip(self.inspections).map(sent).collect();
        for (memory, inspection) in self.memories.iter_mut().zip(self.inspections) {
            let Phase { partner, receive_offset, receive_len, .. } = inspection.phases[phase];
            let (start, end) = (narrow(receive_offset), narrow(receive_offset + receive_len));
            assert!(memory[start..end].iter().all(|&entry| entry == UNSET), "regions do not meet");
            memory[start..end].copy_from_slice(&sent[index(partner)]);
        }
    }

    fn exchange_all(&mut self) {
        (0..self.inspections[0].phases.len()).for_each(|phase| self.exchange(phase));
    }

    fn packed(&self, rank: usize) -> Vec<u64> {
        let Packing { tuples, times, stride } = &self.inspections[rank].packing;
        let shifts = (0..*times).map(|time| narrow(time * stride));
        shifts
            .flat_map(|by| addresses(tuples).map(move |at| self.memories[rank][at + by]))
            .collect()
    }

    fn file(&self) -> Vec<u64> {
        let mut file = vec![UNSET; narrow(self.inspections.iter().map(|one| one.len).sum())];
        for (rank, inspection) in self.inspections.iter().enumerate() {
            let packed = self.packed(rank);
            let start = narrow(inspection.file_offset);
            file[start..start + packed.len()].copy_from_slice(&packed);
        }
        file
    }
}

/// The file that the ranks write.
fn written(inspections: &[Inspection], distributions: &[Vec<Tuple>]) -> Vec<u64> {
    let mut memories = Memories::new(inspections, distributions);
    memories.exchange_all();
    memories.file()
}

fn in_order(file: &[u64]) -> bool {
    file.iter().copied().eq(0..wide(file.len()))
}

/// Memory as the paper's figures draw it; `_` is space.
fn drawn(memory: &[u64]) -> String {
    let entry = |&entry: &u64| if entry == UNSET { "_".to_owned() } else { entry.to_string() };
    memory.iter().map(entry).collect::<Vec<_>>().join(" ")
}

#[test]
fn table_1_where_own_entries_are() {
    let all = inspected(&case_study());
    assert_eq!(all.iter().map(|one| one.alloc_offset).collect::<Vec<_>>(), [0, 2, 2, 4]);
    assert!(all.iter().all(|one| one.memory_len() == 8 && one.len == 4));
}

#[test]
fn table_3_where_received_entries_are_put() {
    let all = inspected(&case_study());
    let offsets =
        |phase: usize| all.iter().map(|one| one.phases[phase].receive_offset).collect::<Vec<_>>();
    assert_eq!(offsets(0), [4, 0, 6, 2]);
    assert_eq!(offsets(1), [6, 6, 0, 0]);
}

#[test]
fn table_4_where_in_the_file_ranks_write() {
    let all = inspected(&case_study());
    assert_eq!(all.iter().map(|one| one.file_offset).collect::<Vec<_>>(), [0, 8, 4, 12]);
}

/// The datatypes that sections 3.3.1 and 3.3.3 name: those of ranks 0 and 2, and what they receive.
#[test]
fn datatypes_of_the_case_study() {
    let all = inspected(&case_study());
    let send = |rank: usize, phase: usize| all[rank].phases[phase].send.as_slice();
    assert_eq!(send(0, 0), [t(2, 2)]);
    assert_eq!(send(0, 1), [t(1, 1), t(5, 1)]);
    assert_eq!(send(1, 0), [t(2, 2)], "what rank 0 receives first");
    assert_eq!(send(2, 1), [t(2, 1), t(6, 1)], "what rank 0 receives then");
    assert_eq!(send(3, 0), [t(4, 2)], "what rank 2 receives first");
    let packing = Packing { tuples: vec![t(0, 1), t(4, 1), t(6, 2)], times: 1, stride: 0 };
    assert_eq!(all[0].packing, packing);
}

/// The lists of section 3.3.3. (Its text adds 5 to the addresses of the second phase; the list that
/// follows, and table 3, have 6.)
#[test]
fn lists_of_the_case_study() {
    let regular = case_study();
    let start = |rank| Inspector::new(Place::new(rank, 4, 4), &regular.tuples(rank));
    let mut ranks: Vec<Inspector> = (0..4).map(start).collect();
    let list = |inspector: &Inspector| {
        let pairs = |&Run { logical, physical, len }: &Run| {
            (0..len).map(move |entry| (logical + entry, physical + entry))
        };
        inspector.list.iter().flat_map(pairs).collect::<Vec<_>>()
    };
    let pass = |ranks: &mut Vec<Inspector>, phase: u32| {
        let messages: Vec<_> = ranks.iter_mut().map(Inspector::send).collect();
        for rank in 0..4_u32 {
            let partner = rank ^ (1 << phase);
            ranks[index(rank)].receive(messages[index(partner)].clone());
        }
    };
    assert_eq!(list(&ranks[0]), [(0, 0), (4, 1), (8, 2), (12, 3)]);
    pass(&mut ranks, 0);
    assert_eq!(list(&ranks[0]), [(0, 0), (1, 4), (4, 1), (5, 5)]);
    // Of rank 2's entries for rank 0, one is its own and one came from rank 3.
    assert_eq!((ranks[2].origins.logical(2), ranks[2].origins.logical(6)), (2, 3));
    pass(&mut ranks, 1);
    assert_eq!(list(&ranks[0]), [(0, 0), (1, 4), (2, 6), (3, 7)]);
}

#[test]
fn figures_3_and_5_to_7_what_is_in_memory() {
    let all = inspected(&case_study());
    let mut memories = Memories::new(&all, &distributions(&case_study()));
    let figure = |memories: &Memories<'_>| memories.memories.iter().map(|one| drawn(one)).collect();
    let figure_3: Vec<String> = figure(&memories);
    assert_eq!(
        figure_3,
        ["0 4 8 12 _ _ _ _", "_ _ 1 5 9 13 _ _", "_ _ 2 6 10 14 _ _", "_ _ _ _ 3 7 11 15"]
    );
    memories.exchange(0);
    let figure_5: Vec<String> = figure(&memories);
    assert_eq!(
        figure_5,
        ["0 4 8 12 1 5 _ _", "8 12 1 5 9 13 _ _", "_ _ 2 6 10 14 3 7", "_ _ 10 14 3 7 11 15"]
    );
    memories.exchange(1);
    let figure_6: Vec<String> = figure(&memories);
    assert_eq!(
        figure_6,
        ["0 4 8 12 1 5 2 3", "8 12 1 5 9 13 10 11", "4 5 2 6 10 14 3 7", "12 13 10 14 3 7 11 15"]
    );
    let figure_7: Vec<_> = (0..4).map(|rank| memories.packed(rank)).collect();
    assert_eq!(figure_7, [[0, 1, 2, 3], [8, 9, 10, 11], [4, 5, 6, 7], [12, 13, 14, 15]]);
    assert!(in_order(&memories.file()));
}

/// The list of section 3.3.3 and the packing datatype of 3.3.1 for 32 entries.
#[test]
fn figure_8_packing_in_two_intervals() {
    let all = inspected(&figure_8());
    let expected = [(0, 0), (1, 8), (2, 12), (3, 14), (4, 1), (5, 9), (6, 13), (7, 15)];
    let mut memories = Memories::new(&all, &distributions(&figure_8()));
    memories.exchange_all();
    for (logical, physical) in expected {
        assert_eq!(memories.memories[0][physical], logical);
    }
    let tuples = vec![t(0, 1), t(8, 1), t(12, 1), t(14, 1)];
    assert_eq!(all[0].packing, Packing { tuples, times: 2, stride: 1 });
    assert_eq!(memories.packed(0), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(in_order(&memories.file()));
}

/// With 32 entries, rank 2 sends 2, 6, 3, 7 and not 2, 3, 6, 7: two tuples instead of four.
#[test]
fn sent_entries_are_in_the_order_of_memory() {
    let all = inspected(&figure_8());
    assert_eq!(all[2].phases[1].send, [t(4, 2), t(12, 2)]);
    assert_eq!(tuples([4, 12, 5, 13]).len(), 4, "in the order of the file");
}

#[test]
fn figure_11_logical_addresses_of_an_irregular_distribution() {
    let distribution = Indexed::new(vec![t(0, 1), t(7, 2), t(12, 1)]);
    assert_eq!(distribution.address(2), 8);
    assert_eq!([0, 1, 2, 3].map(|entry| distribution.address(entry)), [0, 7, 8, 12]);
}

/// Properties 1 to 3, with the factors of equation 4 found for one size and used for another.
#[test]
fn tuples_follow_properties_1_to_3() {
    for ranks in [2, 4, 8, 16, 32_u32] {
        let small = cyclic(ranks, 1, u64::from(ranks));
        let large = cyclic(ranks, 3, u64::from(ranks) * 5);
        for (small_one, large_one) in inspected(&small).iter().zip(inspected(&large)) {
            for (ph, (small_phase, large_phase)) in
                small_one.phases.iter().zip(large_one.phases).enumerate()
            {
                assert_eq!(large_phase.send.len(), 1 << ph);
                let pairs = small_phase.send.iter().zip(&large_phase.send);
                for (of_small, of_large) in pairs {
                    assert_eq!(of_large.len, large.share() / (1 << (ph + 1)));
                    assert_eq!(of_large.offset * small.share(), of_small.offset * large.share());
                }
            }
        }
    }
    let first = &inspected(&case_study())[0].phases[0].send[0];
    assert_eq!(first.offset * 2, case_study().share(), "a_1 = 0.5 for rank 0");
}

/// Tuples of section 4.1: their number does not depend on the number of entries.
#[test]
fn the_number_of_tuples_does_not_grow_with_the_entries() {
    for ranks in [2, 4, 16, 64_u32] {
        for turns in [2, 3, 100, 1 << 40] {
            let regular = cyclic(ranks, 7, u64::from(ranks) * turns);
            for rank in 0..ranks {
                let one = Inspection::regular(rank, &regular).unwrap();
                let sent: usize = one.phases.iter().map(|phase| phase.send.len()).sum();
                assert_eq!((sent, one.packing.tuples.len()), (index(ranks - 1), index(ranks)));
                assert_eq!((one.packing.times, one.packing.stride), (turns, 7));
            }
        }
    }
}

#[test]
fn equations_and_algorithm_agree_on_random_block_cyclic_distributions() {
    let mut random = Random::new();
    for number in 0..3000 {
        let ranks = 1 << random.below(6);
        // Most files are small, so that there can be many.
        let entries_max = if number % 50 == 0 { 1 << 16 } else { 1 << 12 };
        let longest = (entries_max / u64::from(ranks * ranks)).clamp(1, 64);
        let block_len = 1 + random.below(longest);
        let turns = random.below(1 + (entries_max / u64::from(ranks * ranks) / block_len).min(9));
        let regular = cyclic(ranks, block_len, turns * u64::from(ranks));
        let all = inspected(&regular);
        assert!(in_order(&written(&all, &distributions(&regular))), "{regular:?}");
    }
}

/// Equation 6 against dealing out blocks one by one.
#[test]
fn logical_addresses_follow_equation_6() {
    for (ranks, block_len, blocks) in [(4, 1, 4), (3, 5, 7), (1, 2, 9), (8, 64, 2)] {
        let regular = cyclic(ranks, block_len, blocks);
        let mut dealt = vec![Vec::new(); index(ranks)];
        for entry in 0..regular.share() * u64::from(ranks) {
            dealt[narrow(entry / block_len % u64::from(ranks))].push(entry);
        }
        for (rank, entries) in dealt.iter().enumerate() {
            let rank = rank_of(rank);
            let of_equation = (0..regular.share()).map(|entry| regular.logical(rank, entry));
            assert!(of_equation.eq(entries.iter().copied()));
            assert!(addresses(&regular.tuples(rank)).map(wide).eq(entries.iter().copied()));
        }
    }
}

/// Where halves cut blocks, they also cut the files of ranks at different places.
#[test]
fn a_block_cyclic_file_is_in_order_only_if_ranks_divide_blocks() {
    for ranks in [1, 2, 4, 8, 16_u32] {
        for blocks in 1..=2 * u64::from(ranks) {
            for block_len in 1..=4 {
                let regular = cyclic(ranks, block_len, blocks);
                let divides = blocks.is_multiple_of(u64::from(ranks));
                assert_eq!(Inspection::regular(0, &regular).is_some(), divides);
                let tuples = distributions(&regular);
                assert_eq!(halves_follow_file(&tuples), divides, "{regular:?}");
                // Without a number of entries that can be halved there is no inspection.
                let even = ranks == 1 || regular.share().is_multiple_of(2);
                let all = Inspection::general(&tuples);
                assert_eq!(all.is_some(), even);
                if let Some(all) = all {
                    assert_eq!(in_order(&written(&all, &tuples)), divides, "{regular:?}");
                }
            }
        }
    }
}

/// The setting that figures 13 and 14 name.
#[test]
fn eight_blocks_on_each_of_sixteen_ranks_do_not_come_out_in_order() {
    let tuples = distributions(&cyclic(16, 4, 8));
    let all = Inspection::general(&tuples).unwrap();
    assert!(!halves_follow_file(&tuples));
    assert!(!in_order(&written(&all, &tuples)));
}

/// Blocks that follow each other in the file, one a rank, are the plainest of all distributions.
#[test]
fn one_block_a_rank_does_not_come_out_in_order() {
    let tuples = vec![vec![t(0, 2)], vec![t(2, 2)]];
    let all = Inspection::general(&tuples).unwrap();
    assert_eq!(written(&all, &tuples), [0, 2, 1, 3]);
}

/// A distribution in which entry `e` of the file belongs to rank `owners[e]`.
fn of_owners(owners: &[usize], ranks: usize) -> Vec<Vec<Tuple>> {
    let entries = |rank| (0..).zip(owners).filter(move |(_, owner)| **owner == rank);
    (0..ranks).map(|rank| tuples(entries(rank).map(|(entry, _)| entry))).collect()
}

/// The next order of the owners, or false after the last one.
fn next_permutation(owners: &mut [usize]) -> bool {
    let Some(pivot) = owners.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let larger = owners.iter().rposition(|&owner| owner > owners[pivot]).unwrap();
    owners.swap(pivot, larger);
    owners[pivot + 1..].reverse();
    true
}

#[test]
fn the_file_is_in_order_exactly_if_halves_follow_it() {
    for (ranks, share) in [(2, 2), (2, 4), (2, 6), (4, 2)] {
        let mut owners: Vec<usize> = (0..ranks * share).map(|entry| entry / share).collect();
        let (mut ordered, mut total) = (0, 0);
        loop {
            let tuples = of_owners(&owners, ranks);
            let all = Inspection::general(&tuples).unwrap();
            let right = in_order(&written(&all, &tuples));
            assert_eq!(halves_follow_file(&tuples), right, "{owners:?}");
            ordered += u32::from(right);
            total += 1;
            if !next_permutation(&mut owners) {
                break;
            }
        }
        println!("{ranks} ranks, {share} entries each: {ordered} of {total} come out in order");
        assert!(0 < ordered && ordered < total);
    }
}

#[test]
fn the_same_for_random_owners() {
    let mut random = Random::new();
    for _ in 0..2000 {
        let ranks = narrow(1 << random.below(4));
        let share = 2 * narrow(random.below(3));
        let mut owners: Vec<usize> = (0..ranks * share).map(|entry| entry / share.max(1)).collect();
        random.shuffle(&mut owners);
        let tuples = of_owners(&owners, ranks);
        let all = Inspection::general(&tuples).unwrap();
        assert_eq!(halves_follow_file(&tuples), in_order(&written(&all, &tuples)), "{owners:?}");
    }
}

/// Any distribution whose halves follow the file, found by going through the phases backwards: the
/// partners' lists are dealt to both of them by halves, at random.
fn ordered_distribution(random: &mut Random, ranks: u32, share: u64) -> Vec<Vec<Tuple>> {
    let part = |rank| {
        let start = Place::new(rank, ranks, share).file_offset();
        (start..start + share).collect::<Vec<u64>>()
    };
    let mut lists: Vec<Vec<u64>> = (0..ranks).map(part).collect();
    for phase in (0..ranks.trailing_zeros()).rev() {
        for rank in 0..ranks {
            let partner = rank ^ (1 << phase);
            if partner < rank {
                continue;
            }
            let [own, other] = lists.get_disjoint_mut([index(rank), index(partner)]).unwrap();
            random.shuffle(own);
            random.shuffle(other);
            let half = narrow(share / 2);
            own[half..].swap_with_slice(&mut other[..half]);
        }
    }
    for list in &mut lists {
        match random.below(2) {
            0 => list.sort_unstable(),
            _ => random.shuffle(list),
        }
    }
    lists.into_iter().map(tuples).collect()
}

#[test]
fn irregular_distributions_come_out_in_order() {
    let mut random = Random::new();
    for _ in 0..1000 {
        let (ranks, share) = (1 << random.below(6), 2 * random.below(20));
        let tuples = ordered_distribution(&mut random, ranks, share);
        assert!(halves_follow_file(&tuples));
        let all = Inspection::general(&tuples).unwrap();
        let file = written(&all, &tuples);
        assert_eq!(wide(file.len()), share * u64::from(ranks));
        assert!(in_order(&file), "{tuples:?}");
    }
}

#[test]
fn what_the_paper_does_not_cover_has_no_inspection() {
    let none = |tuples: &[Vec<Tuple>]| {
        assert!(!halves_follow_file(tuples));
        Inspection::general(tuples).is_none()
    };
    assert!(none(&[]));
    assert!(none(&distributions(&cyclic(3, 1, 6))), "three ranks");
    assert!(none(&[vec![t(0, 3)], vec![t(3, 3)]]), "shares that cannot be halved");
    assert!(none(&[vec![t(0, 4)], vec![t(4, 2)]]), "unequal shares");
    assert!(Inspection::regular(0, &cyclic(3, 1, 6)).is_none());
}

#[test]
fn packing_finds_repeated_intervals_only() {
    let packed = |addresses: &[u64]| {
        let Packing { tuples, times, stride } = packing(tuples(addresses.iter().copied()));
        (tuples, times, stride)
    };
    assert_eq!(packed(&[]), (vec![], 1, 0));
    assert_eq!(packed(&[3, 4, 5]), (vec![t(3, 3)], 1, 0));
    assert_eq!(packed(&[0, 1, 8, 2, 3, 10]), (vec![t(0, 2), t(8, 1)], 2, 2));
    assert_eq!(packed(&[0, 8, 1, 9, 3, 11]), (tuples([0, 8, 1, 9, 3, 11]), 1, 0));
    assert_eq!(packed(&[0, 8, 1, 9, 2]), (tuples([0, 8, 1, 9, 2]), 1, 0));
    assert_eq!(packed(&[5, 4, 3]), (tuples([5, 4, 3]), 1, 0));
}
