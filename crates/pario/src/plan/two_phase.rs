//! Two-phase collective I/O, generalised (papers 003 and 004, section on collective I/O).
//!
//! The touched range of the file is divided into one domain for each aggregator, aligned to
//! stripes or blocks. In each round a window of each domain, of at most one collective buffer, is
//! in memory: it has the pieces of all ranks, and one storage access moves it. Windows are in
//! shared memory where that is possible, otherwise in that of the aggregators ([`Placement`]).
//!
//! Windows are shorter than a collective buffer where that is faster; with the hint
//! `pario_exact_windows` they are exactly one, as the papers have it.
//!
//! Holes are read first and written back. In a blocking collective no lock is needed, because
//! a window has one server at a time and no rank writes by itself. While a collective runs in the
//! background, ranks may do so: then every window is locked. `gather` is the case of one
//! aggregator, the sequential baseline of paper 000.
//!
//! Cost: every byte is copied once between its rank and a shared window; with messages twice,
//! besides their transfer. Storage sees accesses of one window each.

use std::ops::Range;

use super::constants::{
    CACHE_LINE_BYTES, CACHED_WINDOW_BYTES, FORWARDED_WINDOW_BYTES, MANY_PER_CORE, MESSAGE_BYTES,
    PACKED_PARTS, READ_SLOTS_MIN, ROUNDS_MAX, SHARED_SLOTS_MAX, SHARED_WINDOW_BYTES,
    SHARED_WINDOW_BYTES_MIN, SHARED_WINDOWS_MAX, SLOTS_PER_CORE, WRITE_SLOTS_MIN,
};
use super::{
    Direction, Domain, FileFacts, Holes, Phases, Placement, Planning, Route, Servers, Service,
    SharedWindows, Shuffled, Storing, index, rank_of,
};
use crate::hints::{Hints, Strategy, Switch};
use crate::number::wide;

/// What becomes of holes: others may write there meanwhile.
fn holes(planning: &Planning<'_>) -> Holes {
    match planning.others_write() {
        _ if !planning.file.readable => Holes::Skipped,
        false => Holes::Rewritten,
        true if planning.file.range_locks => Holes::Locked,
        true => Holes::Skipped,
    }
}

pub(super) fn two_phase(planning: &Planning<'_>) -> Shuffled {
    direct(planning, &chosen(planning.hints, planning.file))
}

pub(super) fn gather(planning: &Planning<'_>) -> Shuffled {
    direct(planning, &[0])
}

/// Windows in shared memory where that is possible, otherwise in that of the aggregators.
fn direct(planning: &Planning<'_>, aggregators: &[u32]) -> Shuffled {
    let own = |align: u64| {
        let messages = MESSAGE_BYTES.saturating_mul(wide(planning.requests.len()));
        let messages = messages.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        let bytes = if planning.requests.len() == 1 { CACHED_WINDOW_BYTES } else { messages };
        (bytes, Placement::Own(Route::Direct))
    };
    let shared = shared_windows(planning, aggregators.len());
    let found = shared
        .map(|(bytes, shared)| shuffled(planning, aggregators, (bytes, Placement::Shared(shared))));
    let fits = |shuffled: &Shuffled| {
        shuffled.rounds <= ROUNDS_MAX && shuffled.window_count() < SHARED_WINDOWS_MAX
    };
    found.filter(fits).unwrap_or_else(|| shuffled(planning, aggregators, own(alignment(planning))))
}

/// Through phases, a domain for each class of ranks.
pub(super) fn through(planning: &Planning<'_>, classes: &[u32], phases: Phases) -> Shuffled {
    let placement = Placement::Own(Route::Phases(phases));
    shuffled(planning, classes, (FORWARDED_WINDOW_BYTES, placement))
}

/// Multiples of this are where domains best begin and end.
fn alignment(planning: &Planning<'_>) -> u64 {
    planning.hints.stripe_bytes.unwrap_or(planning.file.block_bytes).max(1)
}

/// Windows of about this number of bytes, but of no more than the collective buffer; of exactly
/// one, if that is asked for.
fn shuffled(
    planning: &Planning<'_>,
    aggregators: &[u32],
    (window_bytes, placement): (u64, Placement),
) -> Shuffled {
    let busy = || planning.requests.iter().filter(|request| request.bytes > 0);
    let start = busy().map(|request| request.start).min().unwrap_or(0);
    let end = busy().map(|request| request.end).max().unwrap_or(0);
    let (align, least) = (alignment(planning), planning.hints.domain_min_bytes);
    let domains = divide(start..end, aggregators, align, least);
    let buffer = planning.hints.collective_buffer_bytes;
    let mut shuffled = Shuffled {
        domains,
        window_bytes: match planning.hints.exact_windows {
            true => buffer.max(1),
            false => buffer.min(window_bytes).max(1),
        },
        rounds: 0,
        holes: holes(planning),
        storing: Storing::Plain,
        careful: planning.others_write() && planning.somebody_rewrites(),
        placement,
    };
    shuffled.count_rounds();
    if shuffled.rounds > ROUNDS_MAX && matches!(placement, Placement::Own(_)) {
        shuffled.window_bytes = buffer;
        shuffled.count_rounds();
    }
    shuffled.storing = Storing::new(planning, &shuffled);
    shuffled
}

/// Windows in shared memory and their size, where they can be used: no two calls have the same
/// windows at a time, and no byte is written by two ranks.
fn shared_windows(planning: &Planning<'_>, aggregators: usize) -> Option<(u64, SharedWindows)> {
    let (file, hints) = (planning.file, planning.hints);
    let overlaps =
        planning.conditions.direction == Direction::Write && planning.conditions.overlaps;
    let wanted = hints.shared_windows != Switch::Disable;
    if !wanted || file.shared_bytes == 0 || !planning.conditions.undisturbed || overlaps {
        return None;
    }
    let exact = hints.exact_windows.then_some(hints.collective_buffer_bytes);
    if exact.is_some_and(|bytes| bytes > file.shared_bytes) {
        return None;
    }
    let cores = file.cores.first().copied().unwrap_or(1).max(1);
    let least = match planning.conditions.direction {
        Direction::Read => READ_SLOTS_MIN,
        Direction::Write => WRITE_SLOTS_MIN,
    };
    let most = least.max(SLOTS_PER_CORE * u64::from(cores)).min(wide(SHARED_SLOTS_MAX));
    let share = (file.shared_bytes / most).max(SHARED_WINDOW_BYTES_MIN).min(file.shared_bytes);
    let fast = hints.collective_buffer_bytes.min(SHARED_WINDOW_BYTES).min(share);
    let bytes = exact.unwrap_or(fast).max(1);
    // Two collective buffers for each aggregator, as elsewhere at most.
    let promised = hints.collective_buffer_bytes.saturating_mul(2 * wide(aggregators).max(1));
    let slots = most.min(file.shared_bytes.min(promised) / bytes).max(1);
    let packed = is_packed(planning);
    let part_bytes = match file.in_memory && exact.is_none() {
        true => (bytes / PACKED_PARTS).max(1).next_multiple_of(alignment(planning)).min(bytes),
        false => bytes,
    };
    // Ranks that do not know all pieces cannot store them, nor pack them.
    let is_known =
        planning.conditions.regular || planning.conditions.direction == Direction::Read && !packed;
    let service = match is_known {
        true => Service::SelfScheduled(servers(hints)),
        false => Service::Fixed,
    };
    Some((bytes, SharedWindows { slots, packed, part_bytes, service, cores }))
}

/// Whether ranks' bytes lie one after the other in shared windows: ranks that write short pieces in
/// turn would take cache lines from each other, and many that read them all load every line.
fn is_packed(planning: &Planning<'_>) -> bool {
    let short = super::choose::total(planning.requests).piece_bytes < CACHE_LINE_BYTES;
    short && (planning.conditions.direction == Direction::Write || has_many_per_core(planning.file))
}

/// Which ranks serve windows: all, unless hints name them.
fn servers(hints: &Hints) -> Servers {
    let named = hints.aggregators.is_some() || hints.aggregators_per_node.is_some();
    match named || hints.strategy == Strategy::Gather {
        true => Servers::Aggregators,
        false => Servers::All,
    }
}

/// Whether a node is oversubscribed so far that most of its ranks sleep.
fn has_many_per_core(file: &FileFacts) -> bool {
    file.members().any(|(ranks, cores)| ranks.len() >= MANY_PER_CORE * index(cores))
}

/// Divides a range among aggregators: equal parts that end at multiples of `align`.
fn divide(file: Range<u64>, aggregators: &[u32], align: u64, min_bytes: u64) -> Vec<Domain> {
    let share = (file.end - file.start).div_ceil(wide(aggregators.len()).max(1)).max(min_bytes);
    let mut domains = Vec::new();
    let mut start = file.start;
    for (number, &aggregator) in aggregators.iter().enumerate() {
        let ideal = file.start.saturating_add(share.saturating_mul(wide(number) + 1));
        let aligned = ideal.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        let last = number + 1 == aggregators.len();
        let end = if last { file.end } else { aligned.min(file.end) };
        if start < end {
            domains.push(Domain { aggregator, file: start..end });
            start = end;
        }
    }
    domains
}

/// All ranks that collective calls may let touch storage for others.
pub(crate) fn may_serve(hints: &Hints, file: &FileFacts) -> Vec<u32> {
    let all = || (0..rank_of(file.nodes.len())).collect();
    let shared = file.shared_bytes > 0 && hints.shared_windows != Switch::Disable;
    match hints.strategy {
        Strategy::Gather => vec![0],
        Strategy::MultiPhase | Strategy::InspectorExecutor => all(),
        _ if shared && servers(hints) == Servers::All => all(),
        _ => chosen(hints, file),
    }
}

/// The ranks that touch storage: as many as the hints say, spread over the nodes; by default one
/// for each core of their node.
fn chosen(hints: &Hints, file: &FileFacts) -> Vec<u32> {
    let ranks = file.nodes.len();
    let per_node = |cores: u32| match (hints.aggregators_per_node, hints.aggregators) {
        (Some(limit), _) => index(limit),
        (None, Some(_)) => ranks,
        (None, None) => index(cores),
    };
    let limit = hints.aggregators.map_or(ranks, index).min(ranks);
    let of_node = |(mut members, cores): (Vec<u32>, u32)| {
        members.truncate(per_node(cores));
        members
    };
    let members: Vec<Vec<u32>> = file.members().map(of_node).collect();
    // Take a rank from each node in turn.
    let most = members.iter().map(Vec::len).max().unwrap_or(0);
    let turns =
        (0..most).flat_map(|turn| members.iter().filter_map(move |ranks| ranks.get(turn).copied()));
    let mut chosen: Vec<u32> = turns.take(limit).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Direction;
    use crate::hints::Hints;
    use crate::plan::{Conditions, Request};

    fn plan(nodes: Vec<u32>, reach: Range<u64>, hints: &Hints) -> Shuffled {
        let cores = vec![2; nodes.iter().max().map_or(0, |&last| index(last) + 1)];
        plan_on((nodes, cores), reach, hints)
    }

    fn plan_on((nodes, cores): (Vec<u32>, Vec<u32>), reach: Range<u64>, hints: &Hints) -> Shuffled {
        let file = FileFacts { nodes, cores, shared_bytes: 0, ..FileFacts::of_threads(0) };
        let len = reach.end - reach.start;
        // Two ranks, so that there are messages.
        let requests = [Request::of_pieces(reach, len, 4); 2];
        two_phase(&Planning::of(Direction::Write, &requests, true, hints, &file))
    }

    fn shared(
        direction: Direction,
        piece_bytes: u64,
        (ranks, cores, shared_bytes): (usize, u32, u64),
        hints: &Hints,
    ) -> Shuffled {
        let file = FileFacts { shared_bytes, cores: vec![cores], ..FileFacts::of_threads(ranks) };
        let requests = [Request::of_pieces(0..1 << 30, 1 << 30, piece_bytes)];
        two_phase(&Planning::of(direction, &requests, true, hints, &file))
    }

    #[test]
    fn windows_are_shared_where_memory_is() {
        use Direction::{Read, Write};
        // Windows at a time, their kibibytes, and whether bytes are packed there.
        for (direction, piece_bytes, facts, expected) in [
            (Read, 4, (4, 2, 8 << 20), Some((8, 1024, false))),
            (Read, 4, (8, 2, 8 << 20), Some((8, 1024, true))),
            (Read, 64, (8, 2, 32 << 20), Some((8, 1024, false))),
            (Read, 64, (8, 2, 4 << 20), Some((8, 512, false))),
            (Read, 64, (8, 2, 64 << 10), Some((1, 64, false))),
            (Read, 64, (16, 16, 16 << 20), Some((32, 512, false))),
            (Read, 64, (128, 128, 16 << 20), Some((64, 256, false))),
            (Read, 64, (8, 2, 0), None),
            (Write, 64, (4, 2, 8 << 20), Some((16, 512, false))),
            (Write, 64, (2, 2, 16 << 20), Some((16, 1024, false))),
            (Write, 63, (4, 2, 16 << 20), Some((16, 1024, true))),
        ] {
            let label = format!("{direction:?} {piece_bytes} {facts:?}");
            let shuffled = shared(direction, piece_bytes, facts, &Hints::default());
            let found = shuffled.shared().map(|SharedWindows { slots, packed, .. }| {
                (slots, shuffled.window_bytes() >> 10, packed)
            });
            assert_eq!(found, expected, "{label}");
        }
    }

    /// Nothing makes ranks wait for each other that `cb_nodes` does not ask for.
    #[test]
    fn every_core_has_windows_to_read() {
        for cores in [1, 2, 4, 16, 32] {
            let facts = (cores, u32::try_from(cores).unwrap(), 16 << 20);
            for direction in [Direction::Read, Direction::Write] {
                let shuffled = shared(direction, 512, facts, &Hints::default());
                let windows = shuffled.shared().unwrap();
                assert!(windows.slots >= 2 * wide(cores), "{cores} cores: {shuffled}");
                assert_eq!(windows.service, Service::SelfScheduled(Servers::All));
                assert!((0..rank_of(cores)).all(|rank| shuffled.may_serve(rank, 0)));
            }
        }
    }

    #[test]
    fn hints_and_knowledge_decide_who_serves() {
        let two = Hints { aggregators: Some(2), ..Hints::default() };
        let shuffled = shared(Direction::Write, 512, (4, 2, 1 << 20), &two);
        let serving = |shuffled: &Shuffled, number: u32| {
            (0..4).filter(|&rank| shuffled.may_serve(rank, number)).collect::<Vec<u32>>()
        };
        assert_eq!(serving(&shuffled, 0), [0, 1]);
        let file = FileFacts::of_threads(4);
        let requests = [Request::of_pieces(0..1 << 30, 1 << 30, 9)];
        let hints = Hints::default();
        let mut planning = Planning::of(Direction::Write, &requests, true, &hints, &file);
        planning.conditions.regular = false;
        let shuffled = two_phase(&planning);
        assert_eq!(shuffled.shared().unwrap().service, Service::Fixed);
        assert_eq!((serving(&shuffled, 0), serving(&shuffled, 3)), (vec![0], vec![1]));
        planning.conditions = Conditions::collective(Direction::Write);
        planning.conditions.overlaps = true;
        assert_eq!(two_phase(&planning).shared(), None);
    }

    #[test]
    fn shared_windows_keep_the_promise_of_the_collective_buffer() {
        let slots = |collective_buffer_bytes, aggregators| {
            let hints = Hints { collective_buffer_bytes, aggregators, ..Hints::default() };
            let shuffled = shared(Direction::Read, 64, (8, 2, 8 << 20), &hints);
            (shuffled.shared().unwrap().slots, shuffled.window_bytes())
        };
        assert_eq!(slots(16 << 20, None), (8, 1 << 20));
        assert_eq!(slots(1 << 20, Some(2)), (4, 1 << 20));
        assert_eq!(slots(64 << 10, Some(1)), (2, 64 << 10));
    }

    /// Windows of one collective buffer each, wherever they are: what the papers call a round.
    #[test]
    fn windows_are_exactly_as_large_as_asked() {
        let hints = |collective_buffer_bytes| Hints {
            collective_buffer_bytes,
            exact_windows: true,
            aggregators: Some(2),
            ..Hints::default()
        };
        for bytes in [64 << 10, 4 << 20, 16 << 20] {
            let shuffled = shared(Direction::Write, 4, (4, 2, 16 << 20), &hints(bytes));
            assert_eq!((shuffled.window_bytes(), shuffled.rounds()), (bytes, (1 << 29) / bytes));
            let windows = shuffled.shared().unwrap();
            assert!(windows.slots * bytes <= 16 << 20, "{shuffled}");
            assert_eq!(windows.part_bytes, bytes, "storage gets whole windows");
        }
        let beyond = shared(Direction::Write, 4, (4, 2, 16 << 20), &hints(32 << 20));
        assert_eq!((beyond.shared(), beyond.window_bytes()), (None, 32 << 20));
        let between_nodes = plan(vec![0, 1], 0..1 << 30, &hints(4 << 20));
        assert_eq!(between_nodes.window_bytes(), 4 << 20);
        let file = FileFacts::of_threads(4);
        let requests = [Request::of_pieces(0..1 << 30, 1 << 28, 4); 4];
        let hints = hints(4 << 20);
        let planning = Planning::of(Direction::Write, &requests, true, &hints, &file);
        let phased = crate::plan::phased::inspector_executor(&planning);
        assert_eq!(phased.window_bytes(), 4 << 20);
    }

    #[test]
    fn a_plan_is_printed_whole() {
        let shuffled = shared(Direction::Write, 4, (4, 2, 1 << 20), &Hints::default());
        let text = shuffled.to_string();
        for part in ["in shared memory", "packed by rank", "self-scheduled among all ranks"] {
            assert!(text.contains(part), "{text}");
        }
        let text = plan(vec![0, 1], 0..1 << 20, &Hints::default()).to_string();
        assert!(text.contains("by messages") && text.contains("domain     rank 1"), "{text}");
    }

    /// The example of paper 003: bytes 100 to 399, three processes.
    #[test]
    fn domains_divide_the_range_as_in_the_paper() {
        let hints = Hints { aggregators: Some(3), stripe_bytes: Some(1), ..Hints::default() };
        let shuffled = plan(vec![0; 3], 100..400, &hints);
        let ranges: Vec<_> = shuffled.domains.iter().map(|domain| domain.file.clone()).collect();
        assert_eq!(ranges, [100..200, 200..300, 300..400]);
    }

    #[test]
    fn windows_cover_each_domain_once_and_are_aligned() {
        let hints =
            Hints { aggregators: Some(4), collective_buffer_bytes: 8192, ..Hints::default() };
        let shuffled = plan(vec![0; 8], 5000..123_457, &hints);
        let mut covered = 5000;
        for domain in shuffled.domains() {
            assert_eq!(domain.file.start, covered);
            for round in 0..shuffled.rounds() {
                let window = shuffled.window(domain, round);
                assert!(window.is_empty() || window.start == covered);
                assert!(
                    window.is_empty() || window.end.is_multiple_of(4096) || window.end == 123_457
                );
                covered = covered.max(window.end);
            }
            assert_eq!(covered, domain.file.end);
        }
        assert_eq!(covered, 123_457);
    }

    /// Small windows are for speed; a long range must still be possible.
    #[test]
    fn windows_grow_where_there_would_be_too_many_rounds() {
        let hints = Hints { aggregators: Some(1), ..Hints::default() };
        let window = |end| plan(vec![0, 1, 2, 3], 0..end, &hints).window_bytes;
        assert_eq!(window(1 << 30), 64 << 10);
        assert_eq!(window(ROUNDS_MAX << 18), 16 << 20);
    }

    #[test]
    fn aggregators_are_spread_over_the_nodes() {
        let hints = |aggregators| Hints { aggregators, ..Hints::default() };
        let ranks = |nodes: &[u32], hints: &Hints| {
            let shuffled = plan(nodes.to_vec(), 0..1 << 30, hints);
            shuffled.domains.iter().map(|domain| domain.aggregator).collect::<Vec<_>>()
        };
        assert_eq!(ranks(&[0, 0, 0, 1, 1, 1], &hints(None)), [0, 1, 3, 4]);
        assert_eq!(ranks(&[0, 0, 0, 1, 1, 1], &hints(Some(2))), [0, 3]);
        assert_eq!(ranks(&[0, 0, 0, 1, 1, 1], &hints(Some(9))), [0, 1, 2, 3, 4, 5]);
        let one = Hints { aggregators_per_node: Some(1), ..Hints::default() };
        assert_eq!(ranks(&[0, 0, 1, 2, 2], &one), [0, 2, 3]);
    }

    #[test]
    fn each_node_has_as_many_aggregators_as_cores() {
        let ranks = |nodes: &[u32], cores: &[u32], hints: &Hints| {
            let shuffled = plan_on((nodes.to_vec(), cores.to_vec()), 0..1 << 30, hints);
            shuffled.domains.iter().map(|domain| domain.aggregator).collect::<Vec<_>>()
        };
        let hints = Hints::default();
        let nodes = [0, 0, 0, 1, 1, 1];
        assert_eq!(ranks(&nodes, &[1, 3], &hints), [0, 3, 4, 5]);
        assert_eq!(ranks(&nodes, &[2, 64], &hints), [0, 1, 3, 4, 5]);
        assert_eq!(ranks(&[0, 1, 0, 1, 0], &[3, 1], &hints), [0, 1, 2, 4]);
        let two = Hints { aggregators: Some(4), ..Hints::default() };
        assert_eq!(ranks(&nodes, &[1, 3], &two), [0, 1, 3, 4]);
        let one = Hints { aggregators_per_node: Some(1), ..Hints::default() };
        assert_eq!(ranks(&nodes, &[1, 3], &one), [0, 3]);
    }

    /// Ranks of all nodes are more than the cores of one; but each has a core.
    #[test]
    fn a_node_is_oversubscribed_by_its_own_ranks_only() {
        let many = |nodes: &[u32], cores: &[u32]| {
            let (nodes, cores) = (nodes.to_vec(), cores.to_vec());
            has_many_per_core(&FileFacts { nodes, cores, ..FileFacts::of_threads(0) })
        };
        assert!(!many(&[0, 0, 0, 0, 1, 1, 1, 1], &[2, 2]));
        assert!(many(&[0, 0, 0, 0, 1, 1, 1, 1], &[2, 1]));
    }

    #[test]
    fn a_small_range_needs_few_domains() {
        let hints = Hints { aggregators: Some(8), ..Hints::default() };
        assert_eq!(plan(vec![0; 8], 10..20, &hints).domains.len(), 1);
        assert!(plan(vec![0; 8], 0..0, &hints).domains.is_empty());
    }
}
