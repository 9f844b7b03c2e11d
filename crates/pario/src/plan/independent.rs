//! Every rank for itself: `direct`, `list` and `sieve`.
//!
//! | strategy | storage calls |
//! | --- | --- |
//! | `direct` | one for each contiguous run (papers 003, 004: level 0, Unix style) |
//! | `list` | runs batched into vectored calls (List I/O of papers 000 and 002) |
//! | `sieve` | one for each window of runs and small holes (papers 003, 004: data sieving) |
//!
//! Hazard: a sieving write carries hole bytes that belong to others. Where a rank may sieve,
//! *every* writer locks what it writes or passes the gate, also one whose request is contiguous.

use super::{Direction, Independent, LockRule, Planning};
use crate::hints::{Strategy, Switch};

pub(super) fn steps(strategy: Strategy, planning: &Planning<'_>) -> Independent {
    let hints = planning.hints;
    let (buffer_bytes, switch) = match planning.conditions.direction {
        Direction::Read => (hints.sieve_read_buffer_bytes, hints.sieve_read),
        Direction::Write => (hints.sieve_write_buffer_bytes, hints.sieve_write),
    };
    let sorted = planning.requests.iter().all(|request| request.sorted);
    let hole_bytes = match strategy {
        Strategy::Sieve if switch == Switch::Enable => buffer_bytes,
        Strategy::Sieve => hints.sieve_hole_bytes,
        _ => 0,
    };
    Independent {
        buffer_bytes,
        hole_bytes,
        batched: strategy == Strategy::List && sorted,
        lock: lock_rule(strategy, planning),
    }
}

fn lock_rule(strategy: Strategy, planning: &Planning<'_>) -> LockRule {
    let file = planning.file;
    let sieves_beside_others = strategy == Strategy::Sieve && !file.unique_open;
    let others = file.range_locks && (file.nodes.len() > 1 || sieves_beside_others);
    let writes = planning.conditions.direction == Direction::Write;
    // In an undisturbed collective all ranks follow one plan: it is known whether anybody sieves.
    let somebody_sieves = match planning.conditions.undisturbed {
        true => strategy == Strategy::Sieve,
        false => planning.somebody_rewrites(),
    };
    match () {
        () if !others => LockRule::Nothing,
        () if planning.conditions.atomic => LockRule::WholeRequest,
        () if writes && somebody_sieves => LockRule::EachWrite,
        () => LockRule::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Hints;
    use crate::plan::{FileFacts, Request};

    const WITH_HOLES: Request = Request::of_pieces(0..100, 10, 1);

    fn lock_of_a_write(hints: &Hints) -> LockRule {
        let file = FileFacts::of_threads(2);
        let requests = [WITH_HOLES];
        let planning = Planning::of(Direction::Write, &requests, false, hints, &file);
        lock_rule(Strategy::Sieve, &planning)
    }

    #[test]
    fn sieving_that_skips_holes_says_so() {
        let file = FileFacts::of_threads(2);
        let requests = [WITH_HOLES];
        let words = |strategy, sieve_write| {
            let hints = Hints { sieve_write, ..Hints::default() };
            let planning = Planning::of(Direction::Write, &requests, false, &hints, &file);
            steps(strategy, &planning).in_words()
        };
        assert!(words(Strategy::Sieve, Switch::Automatic).ends_with("are skipped"));
        assert!(words(Strategy::Sieve, Switch::Enable).contains("all holes"));
        assert_eq!(words(Strategy::List, Switch::Enable), "");
    }

    /// A strategy that a hint asks for sieves, whatever the switch says; then all must lock.
    #[test]
    fn sieving_locks_also_where_the_switch_is_off() {
        let (sieve_write, collective_write) = (Switch::Disable, Switch::Disable);
        let hints = Hints { sieve_write, collective_write, ..Hints::default() };
        assert_eq!(lock_of_a_write(&hints), LockRule::Nothing);
        let hints = Hints { strategy: Strategy::Sieve, ..hints };
        assert_eq!(lock_of_a_write(&hints), LockRule::EachWrite);
    }
}
