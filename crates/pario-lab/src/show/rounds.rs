//! What each round moves: the windows of a plan, in a row for each round.
//!
//! `pario explain` writes them down. For a benchmark the plan is made again, from the workload of
//! its command and the strategy that served it; if it does not have the number of rounds that were
//! measured, it was another plan, and nothing is drawn.

use pario::model::Direction;
use pario::model::profile::Profile;
use pario::plan::Request;
use pario::{HintSet, Strategy};

use super::bench::{block, of_blocks};
use super::chart::{Chart, Kind, Point};
use super::pattern;
use super::records::{Bench, Move};
use crate::scenario::question::{Question, WINDOWS_LISTED, explain};
use crate::scenario::workload::Workload;

/// Rounds that are drawn.
const ROUNDS_MAX: u64 = 16;

/// What a plan is, besides its windows.
pub(super) struct Planned<'a> {
    /// What the chart is called in lists of values.
    pub(super) name: String,
    /// What it is of, as `dist3d: two-phase write`.
    pub(super) title: String,
    /// How windows are served.
    pub(super) windows: &'a str,
    /// How many rounds there are.
    pub(super) count: u64,
    /// Where the plan comes from.
    pub(super) from: &'a str,
}

/// The rounds of a plan.
pub(super) fn chart(planned: &Planned, moves: &[Move]) -> Option<Chart> {
    let &Planned { windows, count, from, .. } = planned;
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
        true if count == 1 => "The only round".to_owned(),
        true => format!("All {count} rounds"),
        false => format!("The first {shown} of {count} rounds"),
    };
    // A rank that has time serves them, whatever part of the file they are in.
    let whose = match windows.contains("self-scheduled") {
        true => "the rank whose part it is in; any rank serves it",
        false => "its aggregator",
    };
    Some(Chart {
        id: format!("{} rounds", planned.name),
        title: format!("{}: what each round moves", planned.title),
        caption: format!("{rounds}, each window in the colour of {whose}; {from}."),
        kind: Kind::Spans,
        x_name: "offset".to_owned(),
        y_name: "bytes".to_owned(),
        points: points.collect(),
    })
}

/// The rounds of the first of some results that has any.
pub(super) fn of_benches(name: &str, records: &[&Bench]) -> Option<Chart> {
    records.iter().find_map(|record| {
        let (moves, count, windows) = planned(record)?;
        let Bench { ranks, direction, .. } = record;
        let strategy = record.served_by.as_deref().unwrap_or_default();
        let planned = Planned {
            name: format!("{name} {ranks} ranks {strategy} {direction}"),
            title: format!("{name}: {strategy} {direction}{}", of_blocks(block(record))),
            windows,
            count,
            from: "by the plan of the workload, which has as many as were measured",
        };
        chart(&planned, &moves)
    })
}

/// The plan of a result, its rounds, and how its windows are served.
fn planned(record: &Bench) -> Option<(Vec<Move>, u64, &'static str)> {
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
    let cores = fact("cores").and_then(|cores| cores.as_u64());
    let cores = cores.map_or(Some(record.ranks), |cores| u32::try_from(cores).ok())?;
    let cores = cores.div_ceil(record.nodes.max(1)).max(1);
    let question = Question::new(direction, requests, profile);
    let mut question = question.on_nodes(record.ranks, record.nodes, cores).ok()?;
    if record.command.iter().any(|word| word == "--messages") {
        question.file.shared_bytes = 0;
    }
    let given = record.hints.iter().fold(HintSet::new(), |set, (key, text)| set.with(key, text));
    question.hints = given.with("pario_strategy", strategy.name());
    let answer = explain(&question).ok()?;
    let plan = answer.chosen();
    let moves = plan.windows().take(WINDOWS_LISTED).map(|window| Move {
        round: window.round,
        aggregator: window.aggregator,
        offset: window.start,
        bytes: window.end - window.start,
    });
    let rounds = plan.rounds();
    (Some(rounds) == record.rounds).then(|| (moves.collect(), rounds, plan.placement()))
}

fn request(workload: &dyn Workload, rank: u32) -> Option<Request> {
    Request::of_view(&workload.view(rank).ok()?, workload.rank_bytes(rank)).ok()
}
