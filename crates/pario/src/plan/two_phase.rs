//! Two-phase collective I/O, generalised (papers 003 and 004, section on collective I/O).
//!
//! The touched range of the file is divided into one domain for each aggregator, aligned to
//! stripes or blocks. Each round, an aggregator works on one window of its domain, of at most one
//! collective buffer: the ranks' pieces of the window meet there, and one storage access moves
//! them. Holes are read first and written back; in a blocking collective no lock is needed,
//! because a domain has one owner. While a collective runs in the background, ranks may write by
//! themselves too: then every window is locked. `gather` is the case of one aggregator, the
//! sequential baseline of paper 000.
//!
//! Cost: every byte is copied once into the window (twice more between address spaces), and
//! storage sees accesses of one window each.

use std::fmt;
use std::ops::Range;

use super::{Direction, FileFacts, Memory, Phases, Planning};
use crate::comm::board::{SLOTS_MAX, WINDOWS_MAX};
use crate::comm::collective::{index, rank_of};
use crate::hints::{Hints, Strategy, Switch};
use crate::number::wide;

/// More rounds than these are not planned.
pub(super) const ROUNDS_MAX: u64 = 1 << 20;
/// Window where no messages are sent: small enough to stay in the cache of a core while it is
/// assembled and stored.
const CACHED_WINDOW_BYTES: u64 = 1 << 20;
/// Window where bytes of other processes come by way of a buffer as long: both stay in that cache.
const PROCESS_WINDOW_BYTES: u64 = 512 << 10;
/// Pieces of so many bytes are read straight to the memory of threads as fast as through a window.
const STRAIGHT_PIECE_BYTES: u64 = 4096;
/// Pieces of so many bytes are copied by the system to or from another process as fast as by way of
/// that buffer.
const REMOTE_PIECE_BYTES: u64 = 1024;
/// Bytes of a message, if all ranks have as many in each window. MPI libraries send longer ones
/// only when the receiver is ready for them: 4 ranks on 4 nodes with links of 1 Gb/s wrote 100 MiB
/// in 437 ms with windows of 16 MiB and in 164 ms with these; the limit of the links is 157 ms.
const MESSAGE_BYTES: u64 = 32 << 10;
const CACHE_LINE_BYTES: u64 = 64;
/// In how many parts a common window is packed: each stays in the cache of a core.
const PACKED_PARTS: u64 = 4;
/// A common window: a rank copies so much at a time that waiting for others costs less.
const COMMON_WINDOW_BYTES: u64 = 1 << 20;
/// Common windows that are read at a time: all stay in the cache that cores have in common. What is
/// written goes past the cache, and with more windows ([`SLOTS_MAX`]) ranks wait less. (16
/// processes on 2 cores, 100 MiB in pieces of 512 bytes, times Block I/O: with 16 windows reads
/// 1.75 instead of 1.58, writes 1.30 instead of 1.43.)
const READ_SLOTS_MAX: u64 = 8;
/// Ranks for each core of a node on which most of them sleep at any time.
const MANY_PER_CORE: usize = 4;
/// Window where every rank has one and bytes are copied in each phase: as above.
const RELAYED_WINDOW_BYTES: u64 = 512 << 10;

/// The part of the file that one aggregator owns, or the ranks of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) aggregator: u32,
    pub(crate) file: Range<u64>,
}

/// Rounds of a shuffle and a storage access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shuffled {
    domains: Vec<Domain>,
    window_bytes: u64,
    rounds: u64,
    holes: Holes,
    /// Whether others may rewrite bytes meanwhile, so that plain writes need protection too.
    careful: bool,
    route: Route,
    long_piece_bytes: u64,
    /// How many windows in common memory there are at a time, in which ranks may place and take
    /// their bytes by themselves; none, if they must not.
    slots: u64,
    /// Whether a rank's bytes lie one after the other there.
    packed: bool,
    servers: Servers,
    /// Cores of all nodes.
    processors: u32,
    oversubscribed: bool,
}

/// Who fetches and stores windows in common memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// Whoever has nothing else to do.
    Anybody,
    /// The aggregators, each those of its domain.
    Aggregators,
}

/// How bytes get from the ranks to the domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Straight from each rank to each aggregator.
    Direct,
    /// From partner to partner; a domain's aggregator is a class of ranks.
    Phases(Phases),
}

impl Route {
    pub(crate) fn phases(self) -> Option<Phases> {
        match self {
            Route::Direct => None,
            Route::Phases(phases) => Some(phases),
        }
    }
}

/// What becomes of the bytes of a window that nobody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holes {
    /// They are read and written back.
    Rewritten,
    /// The same under a lock; windows without holes are locked as well.
    Locked,
    /// They are not touched: pieces are written one by one.
    Skipped,
}

impl Holes {
    fn new(planning: &Planning<'_>) -> Holes {
        match planning.others_write() {
            _ if !planning.file.readable => Holes::Skipped,
            false => Holes::Rewritten,
            true if planning.file.range_locks => Holes::Locked,
            true => Holes::Skipped,
        }
    }
}

pub(super) fn two_phase(planning: &Planning<'_>) -> Shuffled {
    Shuffled::new(planning, &aggregators(planning), Route::Direct)
}

pub(super) fn gather(planning: &Planning<'_>) -> Shuffled {
    Shuffled::new(planning, &[0], Route::Direct)
}

impl Shuffled {
    pub(super) fn new(planning: &Planning<'_>, aggregators: &[u32], route: Route) -> Shuffled {
        let busy = || planning.requests.iter().filter(|request| request.len > 0);
        let start = busy().map(|request| request.reach.start).min().unwrap_or(0);
        let end = busy().map(|request| request.reach.end).max().unwrap_or(0);
        let align = planning.hints.stripe_bytes.unwrap_or(planning.file.block_bytes).max(1);
        let domains = divide(start..end, aggregators, align, planning.hints.domain_min_bytes);
        let buffer = planning.hints.collective_buffer_bytes;
        let common = route == Route::Direct && uses_common_windows(planning);
        let window_bytes = match route {
            Route::Phases(_) => buffer.min(RELAYED_WINDOW_BYTES),
            Route::Direct if common => {
                buffer.min(planning.file.common_bytes).min(COMMON_WINDOW_BYTES)
            }
            Route::Direct => match planning.file.memory {
                Memory::Shared => buffer.min(CACHED_WINDOW_BYTES),
                Memory::Processes => buffer.min(PROCESS_WINDOW_BYTES),
                Memory::Apart => {
                    let messages = MESSAGE_BYTES.saturating_mul(wide(planning.requests.len()));
                    messages.checked_next_multiple_of(align).map_or(buffer, |all| buffer.min(all))
                }
            },
        };
        let holes = Holes::new(planning);
        let careful = planning.others_write() && planning.somebody_rewrites();
        let long_piece_bytes = planning.hints.long_piece_bytes.unwrap_or({
            match planning.file.memory {
                Memory::Shared => STRAIGHT_PIECE_BYTES,
                Memory::Processes | Memory::Apart => REMOTE_PIECE_BYTES,
            }
        });
        let mut shuffled = Shuffled {
            domains,
            window_bytes,
            rounds: 0,
            holes,
            careful,
            route,
            long_piece_bytes,
            slots: match common {
                true => {
                    // Two collective buffers for each aggregator, as elsewhere at most.
                    let promised = buffer.saturating_mul(2 * wide(aggregators.len()));
                    let most = match planning.direction {
                        Direction::Read => READ_SLOTS_MAX,
                        Direction::Write => wide(SLOTS_MAX),
                    };
                    most.min(planning.file.common_bytes.min(promised) / window_bytes)
                }
                false => 0,
            },
            packed: packs_common(planning),
            servers: servers(planning.hints),
            processors: planning.file.cores.iter().copied().fold(0, u32::saturating_add),
            oversubscribed: planning.file.is_oversubscribed(),
        };
        shuffled.count_rounds();
        let too_many = shuffled.slots > 0 && shuffled.windows_in_all() >= WINDOWS_MAX;
        if shuffled.rounds > ROUNDS_MAX || too_many {
            (shuffled.window_bytes, shuffled.slots) = (buffer, 0);
            shuffled.count_rounds();
        }
        shuffled
    }

    fn count_rounds(&mut self) {
        self.rounds = self.domains.iter().map(|domain| self.windows(domain)).max().unwrap_or(0);
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.rounds
    }

    pub(crate) fn holes(&self) -> Holes {
        self.holes
    }

    pub(super) fn set_holes(&mut self, holes: Holes) {
        self.holes = holes;
    }

    /// Whether writes that carry no bytes of others need protection from those that do.
    pub(crate) fn is_careful(&self) -> bool {
        self.careful
    }

    /// Pieces of this mean length and more need not go through the window.
    pub(crate) fn long_piece_bytes(&self) -> u64 {
        self.long_piece_bytes
    }

    /// How many windows in common memory there are at a time.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    pub(crate) fn servers(&self) -> Servers {
        self.servers
    }

    /// Cores of all nodes; of the one node where windows are in common memory.
    pub(crate) fn processors(&self) -> u32 {
        self.processors
    }

    /// Whether ranks are more than cores on some node.
    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// Windows of all domains. They are numbered in turn, so that the first ones of all domains
    /// come first.
    pub(crate) fn windows_in_all(&self) -> u32 {
        u32::try_from(self.rounds.saturating_mul(wide(self.domains.len()))).unwrap_or(u32::MAX)
    }

    /// How far apart the numbers of a domain's windows are.
    pub(crate) fn stride(&self) -> u32 {
        rank_of(self.domains.len())
    }

    /// The domain and the round of a window.
    pub(crate) fn numbered(&self, number: u32) -> (&Domain, u64) {
        let (round, domain) = (number / self.stride(), number % self.stride());
        (&self.domains[index(domain)], u64::from(round))
    }

    /// Whether ranks' bytes lie one after the other in these windows.
    pub(crate) fn packs_common(&self) -> bool {
        self.packed
    }

    /// The parts of a window that is packed in common memory.
    pub(crate) fn parts(&self, window: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let bytes = self.part_bytes();
        let (first, last) = (window.start / bytes, window.end / bytes);
        let bound = move |part: u64| (part * bytes).clamp(window.start, window.end);
        (first..=last).map(move |part| bound(part)..bound(part + 1)).filter(|part| !part.is_empty())
    }

    /// Bytes of such a part.
    pub(crate) fn part_bytes(&self) -> u64 {
        self.window_bytes().div_ceil(PACKED_PARTS).max(1)
    }

    pub(crate) fn route(&self) -> Route {
        self.route
    }

    /// The rank that stores a source's bytes of a domain.
    pub(crate) fn holder(&self, source: u32, domain: &Domain) -> u32 {
        let phases = self.route.phases();
        phases.map_or(domain.aggregator, |phases| phases.holder(source, domain.aggregator))
    }

    pub(crate) fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The domain that a rank owns.
    pub(crate) fn domain_of(&self, rank: u32) -> Option<&Domain> {
        let aggregator = self.route.phases().map_or(rank, |phases| phases.class(rank));
        self.domains.iter().find(|domain| domain.aggregator == aggregator)
    }

    /// Largest window of any round.
    pub(crate) fn window_bytes(&self) -> u64 {
        let longest = self.domains.iter().map(|domain| domain.file.end - domain.file.start).max();
        self.window_bytes.min(longest.unwrap_or(0))
    }

    /// The part of a domain that its aggregator works on in a round; may be empty.
    pub(crate) fn window(&self, domain: &Domain, round: u64) -> Range<u64> {
        // Windows end at multiples of their size, so that all but the first are aligned.
        let base = domain.file.start / self.window_bytes * self.window_bytes;
        let at = |window: u64| base.saturating_add(window.saturating_mul(self.window_bytes));
        let clamp = |offset: u64| offset.clamp(domain.file.start, domain.file.end);
        clamp(at(round))..clamp(at(round + 1))
    }

    fn windows(&self, domain: &Domain) -> u64 {
        let base = domain.file.start / self.window_bytes;
        domain.file.end.div_ceil(self.window_bytes) - base
    }
}

impl fmt::Display for Shuffled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "window     {} bytes", self.window_bytes)?;
        for Domain { aggregator, file } in &self.domains {
            writeln!(formatter, "domain     rank {aggregator}: {}..{}", file.start, file.end)?;
        }
        Ok(())
    }
}

/// Whether windows are in memory that all ranks have in common.
///
/// Two calls that run at the same time would have the same windows: so only where no rank makes
/// other calls meanwhile. Aggregators that can fetch others' bytes by themselves wait for nobody,
/// which matters less where many ranks share a processor anyway.
fn uses_common_windows(planning: &Planning<'_>) -> bool {
    let file = planning.file;
    let pays = match planning.direction {
        Direction::Read => true,
        Direction::Write if file.memory == Memory::Apart => true,
        Direction::Write => has_many_per_core(file),
    };
    let wanted = match planning.hints.common_windows {
        Switch::Automatic => pays,
        Switch::Enable => true,
        Switch::Disable => false,
    };
    wanted && file.common_bytes > 0 && planning.undisturbed
}

/// Whether several ranks have pieces in one cache line.
fn has_short_pieces(planning: &Planning<'_>) -> bool {
    super::choose::total(planning.requests).piece_bytes < CACHE_LINE_BYTES
}

/// Whether ranks' bytes lie one after the other in common windows: ranks that write short pieces in
/// turn would fight for the same cache lines, and many that read them all load every line.
fn packs_common(planning: &Planning<'_>) -> bool {
    let writes = planning.direction == Direction::Write;
    has_short_pieces(planning) && (writes || has_many_per_core(planning.file))
}

/// Who fetches and stores common windows: whoever can, unless hints say who may.
fn servers(hints: &Hints) -> Servers {
    let told = hints.aggregators.is_some() || hints.aggregators_per_node.is_some();
    match told || hints.strategy == Strategy::Gather {
        true => Servers::Aggregators,
        false => Servers::Anybody,
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

/// The ranks that touch storage: as many as the hints say, spread over the nodes; by default one
/// for each core of their node.
fn aggregators(planning: &Planning<'_>) -> Vec<u32> {
    chosen(planning.hints, planning.file)
}

/// All ranks that collective calls may let touch storage for others.
pub(crate) fn may_serve(hints: &Hints, file: &FileFacts) -> Vec<u32> {
    let all = || (0..rank_of(file.nodes.len())).collect();
    let common = file.common_bytes > 0 && hints.common_windows != Switch::Disable;
    match hints.strategy {
        Strategy::Gather => vec![0],
        Strategy::MultiPhase | Strategy::InspectorExecutor => all(),
        _ if common && servers(hints) == Servers::Anybody => all(),
        _ => chosen(hints, file),
    }
}

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
    let turns = (0..ranks)
        .flat_map(|turn| members.iter().filter_map(move |ranks| ranks.get(turn).copied()));
    let mut chosen: Vec<u32> = turns.take(limit).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Hints;
    use crate::plan::{Direction, Summary};

    fn plan(nodes: Vec<u32>, reach: Range<u64>, hints: &Hints) -> Shuffled {
        let cores = vec![2; nodes.iter().max().map_or(0, |&last| index(last) + 1)];
        plan_on((nodes, cores), reach, hints)
    }

    fn plan_on((nodes, cores): (Vec<u32>, Vec<u32>), reach: Range<u64>, hints: &Hints) -> Shuffled {
        let memory = Memory::Apart;
        let file = FileFacts { nodes, cores, memory, ..FileFacts::of_threads(0) };
        let len = reach.end - reach.start;
        let requests = [Summary { reach, len, piece_bytes: 4, sorted: true }];
        two_phase(&Planning {
            direction: Direction::Write,
            requests: &requests,
            collective: true,
            atomic: false,
            undisturbed: true,
            hints,
            file: &file,
        })
    }

    #[test]
    fn windows_are_common_where_that_pays() {
        let chosen = |direction, piece_bytes, memory, (ranks, common_bytes)| {
            let threads = FileFacts::of_threads(ranks);
            let file = &FileFacts { memory, common_bytes, ..threads };
            let requests = &[Summary { reach: 0..4096, len: 4096, piece_bytes, sorted: true }];
            let (collective, atomic, undisturbed) = (true, false, true);
            let hints = &Hints::default();
            let planning =
                Planning { direction, requests, collective, atomic, undisturbed, hints, file };
            let shuffled = two_phase(&planning);
            (shuffled.slots(), shuffled.packs_common())
        };
        use Direction::{Read, Write};
        use Memory::{Apart, Processes};
        // Common windows at a time, and whether bytes are packed there.
        for (direction, piece_bytes, memory, facts, expected) in [
            (Read, 4, Processes, (4, 8 << 20), (8, false)),
            (Read, 4, Processes, (8, 8 << 20), (8, true)),
            (Read, 64, Processes, (8, 8 << 20), (8, false)),
            (Read, 64, Processes, (8, 32 << 20), (8, false)),
            (Read, 64, Processes, (8, 5 << 20), (5, false)),
            (Read, 64, Processes, (8, 4096), (1, false)),
            (Read, 64, Apart, (4, 8 << 20), (8, false)),
            (Read, 64, Processes, (8, 0), (0, false)),
            (Write, 64, Processes, (4, 8 << 20), (0, false)),
            (Write, 64, Processes, (8, 8 << 20), (8, false)),
            (Write, 64, Processes, (8, 32 << 20), (16, false)),
            (Write, 63, Processes, (4, 8 << 20), (0, true)),
            (Write, 63, Processes, (8, 8 << 20), (8, true)),
            (Write, 64, Apart, (4, 8 << 20), (8, false)),
            (Write, 63, Apart, (4, 8 << 20), (8, true)),
        ] {
            let label = format!("{direction:?} {piece_bytes} {memory:?} {facts:?}");
            assert_eq!(chosen(direction, piece_bytes, memory, facts), expected, "{label}");
        }
    }

    #[test]
    fn common_windows_keep_the_promise_of_the_collective_buffer() {
        let slots = |collective_buffer_bytes, aggregators| {
            let hints = Hints { collective_buffer_bytes, aggregators, ..Hints::default() };
            let (memory, common_bytes) = (Memory::Apart, 8 << 20);
            let file = &FileFacts { memory, common_bytes, ..FileFacts::of_threads(8) };
            let reach = 0..100 << 20;
            let requests = &[Summary { reach, len: 100 << 20, piece_bytes: 64, sorted: true }];
            let (collective, atomic, undisturbed) = (true, false, true);
            let (direction, hints) = (Direction::Read, &hints);
            let planning =
                Planning { direction, requests, collective, atomic, undisturbed, hints, file };
            let shuffled = two_phase(&planning);
            (shuffled.slots(), shuffled.window_bytes())
        };
        assert_eq!(slots(16 << 20, None), (8, 1 << 20));
        assert_eq!(slots(1 << 20, Some(2)), (4, 1 << 20));
        assert_eq!(slots(64 << 10, Some(1)), (2, 64 << 10));
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
        assert_eq!(window(1 << 30), 32 << 10);
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
        let oversubscribed = |nodes: &[u32], cores: &[u32]| {
            let planned = (nodes.to_vec(), cores.to_vec());
            let shuffled = plan_on(planned, 0..1 << 30, &Hints::default());
            (shuffled.is_oversubscribed(), shuffled.packs_common())
        };
        let read = |nodes: &[u32], cores: &[u32]| {
            let (nodes, cores) = (nodes.to_vec(), cores.to_vec());
            has_many_per_core(&FileFacts { nodes, cores, ..FileFacts::of_threads(0) })
        };
        assert_eq!(oversubscribed(&[0, 0, 1, 1], &[2, 2]), (false, true));
        assert_eq!(oversubscribed(&[0, 0, 1, 1], &[2, 1]), (true, true));
        assert!(!read(&[0, 0, 0, 0, 1, 1, 1, 1], &[2, 2]));
        assert!(read(&[0, 0, 0, 0, 1, 1, 1, 1], &[2, 1]));
    }

    #[test]
    fn a_small_range_needs_few_domains() {
        let hints = Hints { aggregators: Some(8), ..Hints::default() };
        assert_eq!(plan(vec![0; 8], 10..20, &hints).domains.len(), 1);
        assert!(plan(vec![0; 8], 0..0, &hints).domains.is_empty());
    }
}
