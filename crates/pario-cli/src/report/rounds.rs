//! What each round moves: the windows of a plan, in a row for each round.
//!
//! `pario explain` writes them down. For a benchmark the plan is made again, from the workload of
//! its command and the strategy that served it; if it does not have the number of rounds that were
//! measured, it was another plan, and nothing is drawn.

use pario::explain::{Question, Request, explain};
use pario::model::Direction;
use pario::model::profile::Profile;
use pario::{HintSet, Strategy};

use super::chart::{Chart, Kind, Point};
use super::pattern;
use super::records::{Bench, Move};
use crate::bench::Workload;

/// Rounds that are drawn.
const ROUNDS_MAX: u64 = 16;

/// The rounds of a plan. `count` is how many there are; `from` is where the plan comes from.
pub(super) fn chart(name: &str, moves: &[Move], count: u64, from: &str) -> Option<Chart> {
    // The last round may be cut off.
    let last = moves.last()?.round;
    let shown = if last + 1 < count { last.max(1) } else { count }.min(ROUNDS_MAX);
    let drawn = moves.iter().filter(|one| one.round < shown);
    let points = drawn.map(|one| Point {
        series: format!("rank {}", one.aggregator),
        label: format!("round {}", one.round + 1),
        // Casts that round only beyond 2^53 bytes.
        x: Some(one.offset as f64),
        y: one.bytes as f64,
        note: String::new(),
    });
    let rounds = match shown == count {
        true => format!("All {count} rounds"),
        false => format!("The first {shown} of {count} rounds"),
    };
    Some(Chart {
        id: format!("{name} rounds"),
        title: format!("{name}: what each round moves"),
        caption: format!("{rounds}, each window in the colour of its aggregator; {from}."),
        kind: Kind::Spans,
        x_name: "offset".to_owned(),
        y_name: "bytes".to_owned(),
        points: points.collect(),
    })
}

/// The rounds of the first of some results that has any.
pub(super) fn of_benches(name: &str, records: &[&Bench]) -> Option<Chart> {
    records.iter().find_map(|record| {
        let (moves, count) = planned(record)?;
        let Bench { ranks, direction, .. } = record;
        let strategy = record.served_by.as_deref().unwrap_or_default();
        let name = format!("{name} {ranks} ranks {strategy} {direction}");
        chart(
            &name,
            &moves,
            count,
            "by the plan of the workload, which has as many as were measured",
        )
    })
}

/// The plan of a result, and its rounds.
fn planned(record: &Bench) -> Option<(Vec<Move>, u64)> {
    let strategy: Strategy = record.served_by.as_deref()?.parse().ok()?;
    if record.level != Some(3) || record.calls != Some(1) {
        return None;
    }
    let requests = pattern::of_workload(record, |workload| {
        (0..record.ranks).map(|rank| request(workload, rank)).collect::<Option<Vec<_>>>()
    })??;
    let machine = record.machine.as_ref();
    let fact = |key: &str| machine.and_then(|machine| machine.get(key));
    let file_system = fact("file_system").and_then(|name| name.as_str()).unwrap_or("tmpfs");
    let profile = Profile::built_in(Profile::built_in_name(file_system, false))?;
    let direction = match record.direction.as_str() {
        "read" => Direction::Read,
        _ => Direction::Write,
    };
    let mut question = Question::new(direction, requests, profile);
    question.nodes = record.nodes;
    let cores = fact("cores").and_then(|cores| cores.as_u64());
    if let Some(cores) = cores.and_then(|cores| u32::try_from(cores).ok()) {
        question.cores = cores.div_ceil(record.nodes).max(1);
    }
    if record.command.iter().any(|word| word == "--messages") {
        question.shared_bytes = 0;
    }
    let given = record.hints.iter().fold(HintSet::new(), |set, (key, text)| set.with(key, text));
    question.hints = given.with("pario_strategy", strategy.name());
    let answer = explain(&question).ok()?;
    let rounds = answer.chosen().rounds;
    let moves = answer.windows.iter().map(|window| Move {
        round: window.round,
        aggregator: window.aggregator,
        offset: window.start,
        bytes: window.end - window.start,
    });
    (Some(rounds) == record.rounds).then(|| (moves.collect(), rounds))
}

fn request(workload: &dyn Workload, rank: u32) -> Option<Request> {
    Request::of_view(&workload.view(rank).ok()?, workload.rank_bytes(rank)).ok()
}
