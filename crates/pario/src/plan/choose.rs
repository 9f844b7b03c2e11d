//! Which way serves a request: what hints say, and otherwise the one that the cost model predicts
//! to be fastest.
//!
//! Hints come first. A strategy that a hint names is taken; a switch (`romio_cb_write`,
//! `romio_ds_read`, ...) leaves only the ways that it allows. Of those that are left, `auto` makes
//! the plans and takes the one with the least predicted time ([`cost`](super::cost)). Equal input
//! gives equal plans, so that all ranks of a collective come to the same one.
//!
//! Some ways are never allowed: atomic mode serialises whole requests, and a view that names bytes
//! twice or out of order cannot be sieved or shuffled.

use super::constants::{LONGER_SIEVE_BYTES, LONGER_WINDOWS_BYTES, ROUNDS_MAX};
use super::cost::{Correction, Cost, Part, cost, is_slow};
use super::{
    Chance, Direction, Doubt, Planning, Request, Steps, independent, phased, predicted_us,
};
use super::{rank_of, two_phase};
use crate::access::InMemory;
use crate::hints::{Hints, Strategy, Switch};

/// A way to serve a request, its plan, and what it is predicted to cost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) strategy: Strategy,
    pub(crate) steps: Steps,
    /// Without correction.
    pub(crate) base: Cost,
}

/// The way that is taken, why, and what the others would cost.
pub(super) struct Choice {
    pub(super) best: Candidate,
    pub(super) others: Vec<Cost>,
    pub(super) reason: &'static str,
    pub(super) chance: Option<Chance>,
}

/// The ways that hints and the request allow, and why there are no others.
struct Allowed {
    strategies: Vec<Strategy>,
    reason: Option<&'static str>,
}

impl Allowed {
    fn only(strategy: Strategy, reason: &'static str) -> Allowed {
        Allowed { strategies: vec![strategy], reason: Some(reason) }
    }
}

/// The way that is taken, and why.
pub(super) fn choose(planning: &Planning<'_>) -> Choice {
    let Allowed { strategies, reason } = allowed(planning);
    let mut candidates = candidates(planning, &strategies);
    let correction = planning.conditions.correction;
    let place = best(&candidates, correction, planning.conditions.doubt);
    let own_us = predicted_us(&candidates[place].base, correction, planning.conditions.doubt);
    let costs = candidates.iter().map(|candidate| &candidate.base).enumerate();
    let others = costs.filter(|(other, _)| *other != place);
    let chance =
        planning.conditions.doubt.and_then(|doubt| doubt.chance(own_us, others, correction));
    let (place, reason) = match chance {
        Some(Chance { place, pays: true, .. }) => (place, "a trial: calls or bytes, one is slow"),
        _ => (place, reason.unwrap_or_else(|| why(&candidates, place, correction))),
    };
    let best = candidates.swap_remove(place);
    let others = candidates.into_iter().map(|candidate| candidate.base).collect();
    Choice { best, others, reason, chance }
}

/// Every way to serve a request, whether or not switches allow it.
pub(crate) fn all_candidates(planning: &Planning<'_>) -> Vec<Candidate> {
    let strategies: &[Strategy] = match planning.conditions.collective {
        _ if planning.requests.iter().any(|request| !request.sorted) => &[Strategy::Direct],
        true => &[
            Strategy::Direct,
            Strategy::List,
            Strategy::Sieve,
            Strategy::Gather,
            Strategy::TwoPhase,
            Strategy::MultiPhase,
        ],
        false => &[Strategy::Direct, Strategy::List, Strategy::Sieve],
    };
    let possible = |strategy: &&Strategy| **strategy != Strategy::Sieve || may_sieve(planning);
    let strategies: Vec<Strategy> = strategies.iter().filter(possible).copied().collect();
    candidates(planning, &strategies)
}

/// The plans of some strategies, with all numbers of aggregators and phases, and all windows, that
/// hints leave open.
fn candidates(planning: &Planning<'_>, strategies: &[Strategy]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for &strategy in strategies {
        for hints in variants(planning, strategy) {
            let varied = Planning { hints: &hints, ..*planning };
            let steps = steps(&varied, strategy);
            let fits = match &steps {
                Steps::Independent(_) => true,
                Steps::Shuffled(shuffled) => shuffled.rounds() <= ROUNDS_MAX,
            };
            if fits {
                let base = cost(&varied, &steps);
                candidates.push(Candidate { strategy, steps, base });
            }
        }
    }
    if candidates.is_empty() {
        // The touched range needs too many rounds.
        let steps = steps(planning, Strategy::List);
        let base = cost(planning, &steps);
        candidates.push(Candidate { strategy: Strategy::List, steps, base });
    }
    candidates
}

/// The hints with every number that they leave open.
fn variants(planning: &Planning<'_>, strategy: Strategy) -> Vec<Hints> {
    let hints = planning.hints;
    let several_nodes = planning.file.cores.len() > 1;
    let open = hints.aggregators.is_none() && hints.aggregators_per_node.is_none();
    let numbers = match strategy {
        Strategy::TwoPhase if open && several_nodes => numbers_of_aggregators(planning),
        Strategy::MultiPhase if hints.phases.is_none() && hints.strategy == Strategy::Auto => {
            let all = phased::phases_of(planning);
            let some = |phases| Hints { phases: Some(phases), ..hints.clone() };
            (1..=all).map(some).collect()
        }
        Strategy::Sieve => sieve_buffers(planning),
        // The one aggregator serves all windows, also shared ones.
        Strategy::Gather => vec![Hints { aggregators: Some(1), ..hints.clone() }],
        _ => vec![hints.clone()],
    };
    let sends = matches!(strategy, Strategy::TwoPhase | Strategy::Gather | Strategy::MultiPhase);
    match sends && several_nodes && !hints.exact_windows {
        true => numbers.iter().flat_map(windows).collect(),
        false => numbers,
    }
}

/// The buffer for sieving; a longer one for writes, if nobody has set it and storage is slow.
fn sieve_buffers(planning: &Planning<'_>) -> Vec<Hints> {
    let hints = planning.hints;
    let open = hints.sieve_write_buffer_bytes == Hints::default().sieve_write_buffer_bytes;
    let slow = is_slow(&planning.file.profile.storage.write);
    let sieve_write_buffer_bytes = LONGER_SIEVE_BYTES;
    let longer = Hints { sieve_write_buffer_bytes, ..hints.clone() };
    let longer =
        (open && slow && planning.conditions.direction == Direction::Write).then_some(longer);
    [hints.clone()].into_iter().chain(longer).collect()
}

/// One aggregator, two, four and so on, fewer than there are nodes; then as many on each node,
/// fewer than it has cores; then one for each core.
fn numbers_of_aggregators(planning: &Planning<'_>) -> Vec<Hints> {
    let (file, hints) = (planning.file, planning.hints);
    let below = |limit| (0..u32::BITS).map(|power| 1 << power).take_while(move |&one| one < limit);
    let cores = file.cores.iter().copied().max().unwrap_or(1);
    let in_all = |number| Hints { aggregators: Some(number), ..hints.clone() };
    let of_each = |number| Hints { aggregators_per_node: Some(number), ..hints.clone() };
    let fewer = below(rank_of(file.cores.len())).map(in_all);
    fewer.chain(below(cores).map(of_each)).chain([hints.clone()]).collect()
}

/// Windows as they usually are, and longer ones, up to a collective buffer.
fn windows(hints: &Hints) -> impl Iterator<Item = Hints> + use<'_> {
    let bytes =
        LONGER_WINDOWS_BYTES.into_iter().filter(|&one| one <= hints.collective_buffer_bytes);
    let exact = |collective_buffer_bytes| Hints {
        collective_buffer_bytes,
        exact_windows: true,
        ..hints.clone()
    };
    std::iter::once(hints.clone()).chain(bytes.map(exact))
}

fn steps(planning: &Planning<'_>, strategy: Strategy) -> Steps {
    match strategy {
        Strategy::TwoPhase => Steps::Shuffled(two_phase::two_phase(planning)),
        Strategy::Gather => Steps::Shuffled(two_phase::gather(planning)),
        Strategy::MultiPhase => Steps::Shuffled(phased::multi_phase(planning)),
        Strategy::InspectorExecutor => Steps::Shuffled(phased::inspector_executor(planning)),
        other => Steps::Independent(independent::steps(other, planning)),
    }
}

/// The place of the candidate with the least predicted time; of equal ones, the first.
fn best(candidates: &[Candidate], correction: Correction, doubt: Option<Doubt>) -> usize {
    let us = |place: usize| predicted_us(&candidates[place].base, correction, doubt);
    (1..candidates.len()).fold(0, |best, place| if us(place) < us(best) { place } else { best })
}

/// Why the model prefers one candidate: what it saves in comparison with the best of the others
/// that work in another way.
pub(crate) fn why(candidates: &[Candidate], best: usize, correction: Correction) -> &'static str {
    let winner = &candidates[best];
    let shuffled = |candidate: &Candidate| matches!(candidate.steps, Steps::Shuffled(_));
    let others = candidates.iter().filter(|one| shuffled(one) != shuffled(winner));
    let second = others.min_by(|one, other| {
        one.base.corrected_us(correction).total_cmp(&other.base.corrected_us(correction))
    });
    let Some(second) = second else {
        return match winner.strategy {
            Strategy::Sieve => "predicted fastest: moving holes costs less than storage calls",
            Strategy::Direct => "one run of bytes",
            _ => "predicted fastest: moving holes costs more than storage calls",
        };
    };
    let us = |one: &Candidate, part: Part| one.base.corrected_of(part, correction);
    let saved = |part: Part| us(second, part) - us(winner, part);
    match shuffled(winner) {
        true => "predicted fastest: the shuffle costs less than the storage calls it saves",
        false if saved(Part::Exchange) > saved(Part::Storage) => {
            "predicted fastest: the shuffle costs more than it saves"
        }
        false => "predicted fastest: windows move more bytes than are asked for",
    }
}

/// What hints and the request allow.
fn allowed(planning: &Planning<'_>) -> Allowed {
    let wanted = planning.hints.strategy;
    let shuffled = match wanted {
        Strategy::TwoPhase | Strategy::Gather => true,
        Strategy::MultiPhase | Strategy::InspectorExecutor => true,
        Strategy::Auto | Strategy::Direct | Strategy::List | Strategy::Sieve => false,
    };
    let needs_order = shuffled || matches!(wanted, Strategy::Sieve | Strategy::Auto);
    if needs_order && planning.requests.iter().any(|request| !request.sorted) {
        return Allowed::only(Strategy::Direct, "a view names bytes twice or out of order");
    }
    if planning.conditions.atomic && planning.conditions.collective {
        let strategies = independent(planning).strategies;
        return Allowed { strategies, reason: Some("atomic mode serialises whole requests") };
    }
    match wanted {
        Strategy::Auto if planning.conditions.collective => collective(planning),
        Strategy::Auto => independent(planning),
        _ if shuffled && !planning.conditions.collective => {
            let reason = Some("an independent request has no partners");
            Allowed { reason, ..independent(planning) }
        }
        _ if shuffled && too_many_rounds(planning, wanted) => {
            Allowed::only(Strategy::List, "the touched range needs too many rounds")
        }
        Strategy::Sieve if !may_sieve(planning) => {
            Allowed::only(Strategy::List, "sieving writes needs a readable file with range locks")
        }
        other => Allowed::only(other, "asked for by a hint"),
    }
}

fn too_many_rounds(planning: &Planning<'_>, strategy: Strategy) -> bool {
    match steps(planning, strategy) {
        Steps::Independent(_) => false,
        Steps::Shuffled(shuffled) => shuffled.rounds() > ROUNDS_MAX,
    }
}

/// Whether hints leave it to `auto` how a collective is served. One rank with one run of bytes
/// needs no plan then.
pub(crate) fn is_left_open(hints: &Hints, direction: Direction) -> bool {
    let switch = match direction {
        Direction::Read => hints.collective_read,
        Direction::Write => hints.collective_write,
    };
    hints.strategy == Strategy::Auto && switch != Switch::Enable
}

/// What `auto` chooses from for a collective.
fn collective(planning: &Planning<'_>) -> Allowed {
    let hints = planning.hints;
    let switch = match planning.conditions.direction {
        Direction::Read => hints.collective_read,
        Direction::Write => hints.collective_write,
    };
    let alone = |reason| Allowed { reason: Some(reason), ..independent(planning) };
    let is_long = |bytes| total(planning.requests).piece_bytes >= bytes;
    match switch {
        Switch::Disable => alone("collective buffering is switched off"),
        _ if too_many_rounds(planning, Strategy::TwoPhase) => {
            alone("the touched range needs too many rounds")
        }
        Switch::Enable => Allowed::only(Strategy::TwoPhase, "collective buffering is switched on"),
        Switch::Automatic if hints.long_piece_bytes.is_some_and(is_long) => {
            alone("the pieces are long by a hint")
        }
        Switch::Automatic => {
            let mut allowed = independent(planning);
            allowed.strategies.push(Strategy::TwoPhase);
            if planning.file.cores.len() > 1 {
                allowed.strategies.push(Strategy::MultiPhase);
            }
            allowed
        }
    }
}

/// What `auto` chooses from where a rank works for itself.
fn independent(planning: &Planning<'_>) -> Allowed {
    let contiguous = planning.requests.iter().all(|one| one.reach() == one.bytes);
    let unsorted = planning.requests.iter().any(|request| !request.sorted);
    if contiguous || unsorted {
        return Allowed { strategies: vec![Strategy::Direct], reason: None };
    }
    let switch = match planning.conditions.direction {
        Direction::Read => planning.hints.sieve_read,
        Direction::Write => planning.hints.sieve_write,
    };
    let strategies = match switch {
        Switch::Disable => vec![Strategy::List],
        _ if !may_sieve(planning) => vec![Strategy::List],
        Switch::Enable => vec![Strategy::Sieve],
        Switch::Automatic => vec![Strategy::List, Strategy::Sieve],
    };
    Allowed { strategies, reason: None }
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
    planning.conditions.direction == Direction::Read || file.readable && safe
}

/// All requests as one.
pub(super) fn total(requests: &[Request]) -> Request {
    let busy = || requests.iter().filter(|request| request.bytes > 0);
    let len: u64 = busy().map(|request| request.bytes).sum();
    let pieces: u64 = busy().map(|request| (request.bytes / request.piece_bytes).max(1)).sum();
    let start = busy().map(|request| request.start).min().unwrap_or(0);
    let end = busy().map(|request| request.end).max().unwrap_or(0);
    let sorted = requests.iter().all(|request| request.sorted);
    let piece_bytes = (len / pieces.max(1)).max(1);
    let in_order = requests.iter().all(|request| request.memory.in_order);
    let pieces = busy().map(|request| (request.bytes / request.memory.piece_bytes).max(1));
    let memory = InMemory { in_order, piece_bytes: (len / pieces.sum::<u64>().max(1)).max(1) };
    Request { start, end, bytes: len, piece_bytes, sorted, memory }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Hints;
    use crate::plan::FileFacts;

    /// Ranks with pieces of `piece` bytes dealt out in turn, `gap` unused bytes after each turn.
    fn cyclic(ranks: u64, piece: u64, turns: u64, gap: u64) -> Vec<Request> {
        let period = ranks * piece + gap;
        let one = |rank: u64| {
            Request::of_pieces(
                rank * piece..rank * piece + (turns - 1) * period + piece,
                piece * turns,
                piece,
            )
        };
        (0..ranks).map(one).collect()
    }

    fn chosen(requests: &[Request], collective: bool, hints: &Hints) -> Strategy {
        let file = FileFacts::of_threads(if collective { requests.len() } else { 4 });
        choose(&Planning::of(Direction::Write, requests, collective, hints, &file)).best.strategy
    }

    #[test]
    fn collectives_are_shuffled_where_that_pays() {
        let hints = Hints::default();
        assert_eq!(chosen(&cyclic(4, 4, 1000, 0), true, &hints), Strategy::TwoPhase);
        assert_eq!(chosen(&cyclic(4, 1 << 20, 10, 0), true, &hints), Strategy::List);
        assert_eq!(chosen(&cyclic(4, 4096, 1, 0), true, &hints), Strategy::Direct);
        assert_eq!(chosen(&cyclic(4, 4, 100, 1 << 20), true, &hints), Strategy::List);
        let off = Hints { collective_write: Switch::Disable, ..Hints::default() };
        assert_eq!(chosen(&cyclic(4, 4, 1000, 0), true, &off), Strategy::Sieve);
    }

    #[test]
    fn a_hint_wins_over_the_model() {
        let requests = &cyclic(16, 4, 1000, 0)[..];
        let of = |hints: &Hints| chosen(requests, true, hints);
        assert_eq!(of(&Hints::default()), Strategy::TwoPhase);
        for strategy in [Strategy::Direct, Strategy::List, Strategy::Gather, Strategy::MultiPhase] {
            assert_eq!(of(&Hints { strategy, ..Hints::default() }), strategy);
        }
        let long = Hints { long_piece_bytes: Some(4), ..Hints::default() };
        assert_ne!(of(&long), Strategy::TwoPhase);
        let on = Hints { collective_write: Switch::Enable, ..Hints::default() };
        assert_eq!(chosen(&cyclic(4, 1 << 20, 10, 0), true, &on), Strategy::TwoPhase);
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

    /// A short buffer stays in the cache of a core; a long one saves calls that wait.
    #[test]
    fn sieving_writes_have_a_longer_buffer_on_slow_storage() {
        use crate::model::presets::Device;
        use crate::model::profile::Profile;
        let requests = [cyclic(1, 64, 1 << 17, 64).remove(0)];
        let buffer_bytes = |device: Option<Device>, hints: &Hints| {
            let profile = Profile::built_in("tmpfs").unwrap();
            let profile = match device {
                Some(device) => profile.with_device("a", device),
                None => profile,
            };
            let profile = profile.into();
            let file = FileFacts { unique_open: true, profile, ..FileFacts::of_threads(1) };
            let planning = Planning::of(Direction::Write, &requests, false, hints, &file);
            match choose(&planning).best.steps {
                Steps::Independent(steps) => steps.buffer_bytes,
                Steps::Shuffled(_) => 0,
            }
        };
        let hints = Hints::default();
        assert_eq!(buffer_bytes(None, &hints), 512 << 10);
        assert_eq!(buffer_bytes(Some(Device::HDD), &hints), 4 << 20);
        let set = Hints { sieve_write_buffer_bytes: 64 << 10, ..hints };
        assert_eq!(buffer_bytes(Some(Device::HDD), &set), 64 << 10);
    }

    /// Each rank of a program may open one file for itself (MPI_COMM_SELF) and write its own bytes.
    #[test]
    fn a_rank_alone_sieves_writes_only_where_it_is_safe() {
        let hints = Hints::default();
        let requests = [cyclic(1, 64, 100, 64).remove(0)];
        let chosen = |file: &FileFacts, hints: &Hints| {
            choose(&Planning::of(Direction::Write, &requests, false, hints, file)).best.strategy
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
        let far = Request::of_pieces(0..1 << 62, 8, 4);
        assert_eq!(chosen(&[far, far], true, &hints), Strategy::List);
    }
}
