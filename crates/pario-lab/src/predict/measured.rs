//! Every way of a described call, run on this machine: `pario bench` measures them in turn and
//! compares every byte.

use pario::model::Direction;

use super::answer::{Document, Measured, Row};
use super::call::Arguments;
use crate::failure::Failure;
use crate::measure::{self, Ran, RanWay};

/// Repetitions; the one with the median time counts.
const REPEAT: &str = "5";

/// Runs all ways, on every rank.
///
/// # Errors
/// `Usage` if the options contradict each other, `Run` if a call failed or a byte was wrong.
pub(super) fn all(arguments: &Arguments, ranks: u32) -> Result<Ran, Failure> {
    measure::ran(&words(arguments, ranks))
}

/// The command line of `pario bench` for the same call.
fn words(arguments: &Arguments, ranks: u32) -> Vec<String> {
    let mut words = vec![arguments.workload.clone(), "--memory=packed".to_owned()];
    let mut add = |name: &str, value: String| words.push(format!("--{name}={value}"));
    add("repeat", REPEAT.to_owned());
    add("levels", if arguments.independent { "2" } else { "3" }.to_owned());
    add("strategies", "direct,list,sieve,gather,two-phase".to_owned());
    let phases = ranks.next_power_of_two().trailing_zeros().clamp(1, 9);
    let phases: Vec<String> = (1..=phases).map(|phases| phases.to_string()).collect();
    add("phases", phases.join(","));
    add("direction", arguments.direction_name().to_owned());
    add("blocks", arguments.block_bytes().to_string());
    // A launcher has started the ranks on their nodes.
    if pario_mpi::launched().is_none() {
        add("ranks", ranks.to_string());
        add("nodes", arguments.nodes.unwrap_or(1).to_string());
    }
    let optional = [("bytes", arguments.bytes), ("edge", arguments.edge)];
    let given = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.for_each(|(name, value)| add(name, value.to_string()));
    for (name, value) in &arguments.parameters {
        add("set", format!("{name}={value}"));
    }
    // Strategies are run whatever a hint says of them.
    for (name, value) in arguments.hints.iter().filter(|(name, _)| name != "pario_strategy") {
        add("hint", format!("{name}={value}"));
    }
    if let Some(directory) = &arguments.dir {
        add("dir", directory.display().to_string());
    }
    words
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
