//! Every way of a described call, run on this machine: `pario bench` measures them in turn and
//! compares every byte.

use pario::Strategy;
use pario::model::Direction;

use super::Query;
use super::answer::{Document, Measured, Row};
use crate::failure::Failure;
use crate::measure::{self, MemoryLayout, Options, Ran, RanWay};
use crate::scenario::contender::Choice;

/// Repetitions; the one with the median time counts.
const REPEAT: u32 = 5;

/// Runs all ways, on every rank.
///
/// # Errors
/// `Usage` if the options contradict each other, `Run` if a call failed or a byte was wrong.
pub(super) fn all(query: &Query, ranks: u32) -> Result<Ran, Failure> {
    use Strategy::{Direct, Gather, List, Sieve, TwoPhase};
    let phases = ranks.next_power_of_two().trailing_zeros().clamp(1, 9);
    // A launcher has started the ranks on their nodes.
    let is_launched = pario_mpi::launched().is_some();
    // Strategies are run whatever a hint says of them.
    let is_kept = |(name, _): &&(String, String)| name != "pario_strategy";
    measure::ran(&Options {
        workloads: query.workloads.clone(),
        ranks: (!is_launched).then_some(ranks),
        nodes: query.nodes.filter(|_| !is_launched),
        levels: vec![if query.independent { 2 } else { 3 }],
        contenders: [Direct, List, Sieve, Gather, TwoPhase].map(Choice::Pario).to_vec(),
        phases: (1..=phases).collect(),
        directions: query.directions,
        memory: MemoryLayout::Packed,
        repeat: Some(REPEAT),
        hints: query.hints.iter().filter(is_kept).cloned().collect(),
        directory: query.directory.clone(),
        ..Options::default()
    })
}

/// Adds what was measured of one part of a program.
pub(super) fn add(document: &mut Document, ways: &[RanWay], direction: Direction) {
    let of_row = |row: &Row| {
        let phases_fit = |way: &RanWay| way.phases.is_none() || way.phases == row.phases;
        let same = |way: &&RanWay| way.strategy.name() == row.strategy && phases_fit(way);
        let way = ways.iter().find(same)?;
        let measured = match direction {
            Direction::Write => way.write.as_ref(),
            Direction::Read => way.read.as_ref(),
        }?;
        let statistics = &measured.statistics;
        let parts = [
            statistics.planning,
            statistics.synchronisation,
            statistics.exchange,
            statistics.storage,
        ];
        let parts_ms = Some(parts.map(|part| part.as_secs_f64() * 1e3));
        Some(Measured { ms: measured.seconds * 1e3, parts_ms })
    };
    document.measure(of_row);
}
