//! What the driver counts is what real runs count.

use super::*;
use crate::papers::count::{self, Counted, Request};
use crate::scenario::pattern::Pattern;
use crate::scenario::stage::Stage;

fn dist3d() -> Pattern {
    Pattern::new("dist3d", 8, &[("edge", 64)]).unwrap()
}

/// A pattern with holes between all bytes of a rank, none in the file.
fn cyclic(ranks: u32) -> Pattern {
    Pattern::new("block-cyclic", ranks, &[("Nx", 1 << 18), ("Bx", 24)]).unwrap()
}

fn stage(ranks: u32) -> Stage {
    Stage::mpp(ranks)
}

/// Hints that pin down what plans otherwise take from the file.
fn request<'a>(pattern: &'a Pattern, strategy: &str) -> Request<'a> {
    Request::collective(pattern, strategy).hint("striping_unit", 4096)
}

#[track_caller]
fn assert_counts(counted: &Counted, counts: &Counts, what: &str) {
    let sum = |of: fn(&pario::CallStatistics) -> u64| counted.sum(|rank| of(&rank.statistics));
    let real = [
        sum(|one| one.storage_writes),
        sum(|one| one.storage_written_bytes),
        sum(|one| one.storage_reads),
        sum(|one| one.messages),
        sum(|one| one.sent_bytes),
    ];
    let Counts { writes, written_bytes, reads, messages, sent_bytes, .. } = *counts;
    assert_eq!([writes, written_bytes, reads, messages, sent_bytes], real, "{what}");
}

#[test]
fn independent_writes_are_counted_as_pario_makes_them() {
    for pattern in [dist3d(), cyclic(4)] {
        let stage = stage(pattern.ranks);
        let drive = |way| independent(&stage, &pattern, Direction::Write, way).counts;
        let real = count::write(&request(&pattern, "direct")).unwrap();
        assert_counts(&real, &drive(Way::Each), "direct");
        let real = count::write(&request(&pattern, "list")).unwrap();
        let way = Way::List { pieces_max: 1024, bytes_max: 512 << 10 };
        assert_counts(&real, &drive(way), "list");
    }
}

#[test]
fn level_1_makes_the_calls_of_level_0() {
    let pattern = dist3d();
    let level_0 = independent(&stage(8), &pattern, Direction::Write, Way::Each).counts;
    let real = count::write(&Request::collective(&pattern, "auto").at_level(0)).unwrap();
    assert_counts(&real, &level_0, "level 0");
    let level_1 = level_1(&stage(8), &pattern, Direction::Write).counts;
    assert_eq!(level_1.writes, level_0.writes);
}

#[test]
fn sieving_is_counted_as_pario_does_it() {
    for pattern in [dist3d(), cyclic(4)] {
        let own = Sieve::pario(Direction::Write);
        let counts = sieve(&stage(pattern.ranks), &pattern, Direction::Write, own).counts;
        let real = count::write(&request(&pattern, "sieve").at_level(2)).unwrap();
        assert_counts(&real, &counts, "sieve");
    }
}

#[test]
fn two_phase_is_counted_as_pario_does_it() {
    for pattern in [dist3d(), cyclic(4), cyclic(6)] {
        for aggregators in [1, 2, pattern.ranks] {
            let shuffle = Shuffle {
                aggregators: (0..aggregators).collect(),
                ..Shuffle::pario(pattern.ranks)
            };
            let stage = stage(pattern.ranks);
            let counts = shuffled(&stage, &pattern, Direction::Write, &shuffle).counts;
            let request = request(&pattern, "two-phase").hint("cb_nodes", aggregators);
            let real = count::write(&request).unwrap();
            assert_counts(&real, &counts, &format!("{aggregators} of {} ranks", pattern.ranks));
            assert_eq!(real.ranks[0].statistics.rounds, counts.rounds);
        }
    }
}

#[test]
fn phases_are_counted_as_pario_does_them() {
    for pattern in [dist3d(), cyclic(4), Pattern::stem2("SL1", 8, 2).unwrap()] {
        for count in 0..=pattern.ranks.trailing_zeros() {
            let own = Phased { count, window_bytes: 512 << 10, align: 4096 };
            let counts = phased(&stage(pattern.ranks), &pattern, own).unwrap().counts;
            let request = request(&pattern, "multi-phase").hint("pario_phases", count);
            let real = count::write(&request).unwrap();
            assert_counts(&real, &counts, &format!("{count} of {} ranks", pattern.ranks));
        }
    }
}

/// The same on every run, and slower with less bandwidth.
#[test]
fn times_follow_from_the_stage_alone() {
    let pattern = cyclic(4);
    let time =
        |stage: &Stage| shuffled(stage, &pattern, Direction::Write, &Shuffle::romio(4)).seconds;
    let fast = stage(4);
    let mut slow = fast;
    slow.machine.network.bytes_per_s /= 10.0;
    assert_eq!(time(&fast).to_bits(), time(&fast).to_bits());
    assert!(time(&slow) > time(&fast));
}

/// Two ranks that lock the same window wait for each other.
#[test]
fn locks_make_sieving_ranks_wait() {
    let pattern = cyclic(2);
    let alone = cyclic(1);
    let windows = Sieve::romio(Direction::Write);
    let time = |pattern: &Pattern| {
        sieve(&stage(pattern.ranks), pattern, Direction::Write, windows).seconds
    };
    assert!(time(&pattern) > time(&alone));
}
