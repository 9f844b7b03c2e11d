//! Which strategy serves a request: what the hints say, and otherwise a simple rule.
//!
//! The rule of `auto`, until there is a measured cost model:
//!
//! * A collective goes to `two-phase` if the ranks' ranges interleave, pieces are not large on
//!   average ([`large_piece_bytes`]), and at least one byte in [`SPARSE`] of the touched range is
//!   asked for. Otherwise every rank works for itself.
//! * On its own, a rank uses `direct` for contiguous requests and large pieces, `sieve` where
//!   holes are small enough that moving them costs less than a storage call each, else `list`.

use super::constants::{
    LARGE_PIECE_BYTES, LARGE_PIECE_BYTES_IN_MEMORY, LARGE_WRITTEN_PIECE_BYTES, ROUNDS_MAX, SPARSE,
};
use super::{Direction, Planning, Summary, two_phase};
use crate::hints::{Strategy, Switch};

/// The strategy, and why.
pub(super) fn choose(planning: &Planning<'_>) -> (Strategy, &'static str) {
    let wanted = planning.hints.strategy;
    let shuffled = match wanted {
        Strategy::TwoPhase | Strategy::Gather => true,
        Strategy::MultiPhase | Strategy::InspectorExecutor => true,
        Strategy::Auto | Strategy::Direct | Strategy::List | Strategy::Sieve => false,
    };
    let needs_order = shuffled || wanted == Strategy::Sieve;
    if planning.atomic && planning.collective {
        return (independent(planning), "atomic mode serialises whole requests");
    }
    if needs_order && planning.requests.iter().any(|request| !request.sorted) {
        return (Strategy::Direct, "a view names bytes twice or out of order");
    }
    match wanted {
        Strategy::Auto if planning.collective => collective(planning),
        Strategy::Auto => (independent(planning), "the rule for independent requests"),
        _ if shuffled && !planning.collective => {
            (independent(planning), "an independent request has no partners")
        }
        _ if shuffled && too_many_rounds(planning) => {
            (Strategy::List, "the touched range needs too many rounds")
        }
        Strategy::Sieve if !may_sieve(planning) => {
            (Strategy::List, "sieving writes needs a readable file with range locks")
        }
        other => (other, "asked for by a hint"),
    }
}

fn collective(planning: &Planning<'_>) -> (Strategy, &'static str) {
    let switch = match planning.direction {
        Direction::Read => planning.hints.collective_read,
        Direction::Write => planning.hints.collective_write,
    };
    let total = total(planning.requests);
    let reach = total.reach.end - total.reach.start;
    if planning.requests.iter().any(|request| !request.sorted) {
        return (Strategy::Direct, "a view names bytes twice or out of order");
    }
    match switch {
        Switch::Disable => (independent(planning), "collective buffering is switched off"),
        _ if too_many_rounds(planning) => {
            (independent(planning), "the touched range needs too many rounds")
        }
        Switch::Enable => (Strategy::TwoPhase, "collective buffering is switched on"),
        Switch::Automatic if !interleaved(planning.requests) => {
            (independent(planning), "the ranks' ranges do not interleave")
        }
        Switch::Automatic if total.piece_bytes >= large_piece_bytes(planning) => {
            (independent(planning), "the pieces are large")
        }
        Switch::Automatic if total.len < reach / SPARSE => {
            (independent(planning), "the request is sparse")
        }
        Switch::Automatic => (Strategy::TwoPhase, "the ranks' small pieces interleave"),
    }
}

/// From which mean size on the pieces of a collective are large.
fn large_piece_bytes(planning: &Planning<'_>) -> u64 {
    let file = planning.file;
    if let Some(bytes) = planning.hints.long_piece_bytes {
        return bytes;
    }
    match planning.direction {
        Direction::Read if file.in_memory && file.shared_bytes > 0 => LARGE_PIECE_BYTES_IN_MEMORY,
        Direction::Write if file.shared_bytes > 0 => LARGE_WRITTEN_PIECE_BYTES,
        _ => LARGE_PIECE_BYTES,
    }
}

/// The strategy of a rank that works for itself.
fn independent(planning: &Planning<'_>) -> Strategy {
    let total = total(planning.requests);
    let unsorted = planning.requests.iter().any(|request| !request.sorted);
    let reach: u64 = planning.requests.iter().map(|one| one.reach.end - one.reach.start).sum();
    let contiguous = planning.requests.iter().all(|one| one.reach.end - one.reach.start == one.len);
    if unsorted || contiguous || total.piece_bytes >= LARGE_PIECE_BYTES {
        return Strategy::Direct;
    }
    let pieces = (total.len / total.piece_bytes).max(1);
    let hole = (reach.saturating_sub(total.len)) / pieces;
    let limit = planning.hints.sieve_hole_bytes;
    let (switch, pays) = match planning.direction {
        Direction::Read => (planning.hints.sieve_read, hole <= limit),
        // A sieving write moves every byte of the window twice, the piece's own once too often.
        Direction::Write => {
            let moved = total.piece_bytes.saturating_add(hole.saturating_mul(2));
            (planning.hints.sieve_write, moved <= limit.saturating_mul(2))
        }
    };
    match switch {
        Switch::Disable => Strategy::List,
        _ if !may_sieve(planning) => Strategy::List,
        Switch::Enable => Strategy::Sieve,
        Switch::Automatic if pays => Strategy::Sieve,
        Switch::Automatic => Strategy::List,
    }
}

/// Whether read-modify-write is possible and safe.
///
/// Ranks that opened a file together lock what they write where one of them may sieve. A rank that
/// opened it alone cannot know whether others, who have it open too, do the same: it sieves writes
/// only if nobody else has the file open, or if a hint asks for it.
fn may_sieve(planning: &Planning<'_>) -> bool {
    let (file, hints) = (planning.file, planning.hints);
    let asked = hints.strategy == Strategy::Sieve || hints.sieve_write == Switch::Enable;
    let safe = match file.nodes.len() {
        1 => file.unique_open || file.range_locks && asked,
        _ => file.range_locks,
    };
    planning.direction == Direction::Read || file.readable && safe
}

/// All requests as one.
pub(super) fn total(requests: &[Summary]) -> Summary {
    let busy = || requests.iter().filter(|request| request.len > 0);
    let len: u64 = busy().map(|request| request.len).sum();
    let pieces: u64 = busy().map(|request| (request.len / request.piece_bytes).max(1)).sum();
    let start = busy().map(|request| request.reach.start).min().unwrap_or(0);
    let end = busy().map(|request| request.reach.end).max().unwrap_or(0);
    let sorted = requests.iter().all(|request| request.sorted);
    Summary { reach: start..end, len, piece_bytes: (len / pieces.max(1)).max(1), sorted }
}

/// Whether the range of any rank overlaps that of another.
fn interleaved(requests: &[Summary]) -> bool {
    let mut reaches: Vec<_> =
        requests.iter().filter(|one| one.len > 0).map(|one| one.reach.clone()).collect();
    reaches.sort_by_key(|reach| reach.start);
    reaches.windows(2).any(|pair| pair[1].start < pair[0].end)
}

fn too_many_rounds(planning: &Planning<'_>) -> bool {
    let shuffled = match planning.hints.strategy {
        Strategy::Gather => two_phase::gather(planning),
        _ => two_phase::two_phase(planning),
    };
    shuffled.rounds() > ROUNDS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Hints;
    use crate::plan::FileFacts;

    /// Ranks with pieces of `piece` bytes dealt out in turn, `gap` unused bytes after each turn.
    fn cyclic(ranks: u64, piece: u64, turns: u64, gap: u64) -> Vec<Summary> {
        let period = ranks * piece + gap;
        let one = |rank: u64| Summary {
            reach: rank * piece..rank * piece + (turns - 1) * period + piece,
            len: piece * turns,
            piece_bytes: piece,
            sorted: true,
        };
        (0..ranks).map(one).collect()
    }

    fn chosen(requests: &[Summary], collective: bool, hints: &Hints) -> Strategy {
        let file = FileFacts::of_threads(if collective { requests.len() } else { 4 });
        choose(&Planning::of(Direction::Write, requests, collective, hints, &file)).0
    }

    #[test]
    fn the_rule_for_collectives() {
        let hints = Hints::default();
        assert_eq!(chosen(&cyclic(4, 4, 1000, 0), true, &hints), Strategy::TwoPhase);
        assert_eq!(chosen(&cyclic(4, 1 << 20, 10, 0), true, &hints), Strategy::Direct);
        assert_eq!(chosen(&cyclic(4, 4096, 1, 0), true, &hints), Strategy::Direct);
        assert_eq!(chosen(&cyclic(4, 4, 100, 1 << 20), true, &hints), Strategy::List);
        let off = Hints { collective_write: Switch::Disable, ..Hints::default() };
        assert_eq!(chosen(&cyclic(4, 4, 1000, 0), true, &off), Strategy::Sieve);
    }

    #[test]
    fn long_pieces_are_read_without_windows_where_no_device_is() {
        let hints = Hints::default();
        let chosen = |piece: u64, shared_bytes: u64, in_memory: bool| {
            let requests = &cyclic(16, piece, 100, 0)[..];
            let file = &FileFacts { shared_bytes, in_memory, ..FileFacts::of_threads(16) };
            choose(&Planning::of(Direction::Read, requests, true, &hints, file)).0
        };
        assert_eq!(chosen(16383, 1 << 20, true), Strategy::TwoPhase);
        assert_eq!(chosen(16384, 1 << 20, true), Strategy::List);
        assert_eq!(chosen(16384, 1 << 20, false), Strategy::TwoPhase);
        assert_eq!(chosen(16384, 0, true), Strategy::TwoPhase);
        assert_eq!(chosen(64 << 10, 0, false), Strategy::Direct);
    }

    #[test]
    fn the_rule_for_independent_requests() {
        let hints = Hints::default();
        let alone = |piece, gap| [cyclic(1, piece, 100, gap).remove(0)];
        assert_eq!(chosen(&alone(64, 0), false, &hints), Strategy::Direct);
        assert_eq!(chosen(&alone(64, 64), false, &hints), Strategy::Sieve);
        assert_eq!(chosen(&alone(64, 100_000), false, &hints), Strategy::List);
        let never = Hints { sieve_write: Switch::Disable, ..Hints::default() };
        assert_eq!(chosen(&alone(64, 64), false, &never), Strategy::List);
    }

    /// Each rank of a program may open one file for itself (MPI_COMM_SELF) and write its own bytes.
    #[test]
    fn a_rank_alone_sieves_writes_only_where_it_is_safe() {
        let hints = Hints::default();
        let requests = [cyclic(1, 64, 100, 64).remove(0)];
        let chosen = |file: &FileFacts, hints: &Hints| {
            choose(&Planning::of(Direction::Write, &requests, false, hints, file)).0
        };
        let unique = FileFacts { unique_open: true, ..FileFacts::of_threads(1) };
        assert_eq!(chosen(&FileFacts::of_threads(1), &hints), Strategy::List);
        assert_eq!(chosen(&unique, &hints), Strategy::Sieve);
        let enabled = Hints { sieve_write: Switch::Enable, ..Hints::default() };
        assert_eq!(chosen(&FileFacts::of_threads(1), &enabled), Strategy::Sieve);
    }

    #[test]
    fn a_range_of_too_many_rounds_is_not_shuffled() {
        let hints = Hints { strategy: Strategy::TwoPhase, ..Hints::default() };
        let far = Summary { reach: 0..1 << 62, len: 8, piece_bytes: 4, sorted: true };
        assert_eq!(chosen(&[far.clone(), far], true, &hints), Strategy::List);
    }
}
