//! A section for a call that `pario explain` looked at: every way to serve it, with its predicted
//! time.

use super::chart::{Chart, Kind, Point, bar_names, number};
use super::document::{Cell, Section, Table};
use super::records::{Explained, Way};
use super::rounds::{self, Planned};

pub(super) fn section(explained: &Explained) -> Section {
    let Explained { workload, direction, ranks, nodes, .. } = explained;
    let mut facts = Vec::new();
    if !explained.profile.is_empty() {
        facts.push(("profile".to_owned(), explained.profile.clone()));
    }
    let plan = explained.plan.trim_end();
    if !plan.is_empty() {
        facts.push(("plan".to_owned(), plan.to_owned()));
    }
    Section {
        title: match explained.calls {
            Some(_) => workload.clone(),
            None => format!("Ways to {direction} {workload}"),
        },
        summary: format!(
            "{shape}; {ranks} ranks on {nodes} node{}. {}",
            if *nodes == 1 { "" } else { "s" },
            sentences(&explained.advice),
            shape = sentences(&explained.shape).trim_end_matches('.')
        ),
        charts: std::iter::once(chart(explained)).chain(moves(explained)).collect(),
        tables: vec![table(&explained.ways)],
        facts,
        ..Section::default()
    }
}

/// Lines as sentences.
fn sentences(advice: &str) -> String {
    let sentence = |line: &str| {
        let mut characters = line.trim_end_matches('.').chars();
        let first = characters.next().into_iter().flat_map(char::to_uppercase);
        first.chain(characters).chain(['.']).collect::<String>()
    };
    advice.lines().map(sentence).collect::<Vec<String>>().join(" ")
}

fn name(way: &Way) -> String {
    match way.chosen {
        true => format!("{} (chosen)", way.strategy),
        false => way.strategy.clone(),
    }
}

fn chart(explained: &Explained) -> Chart {
    let mut points = Vec::new();
    let names = bar_names(explained.ways.iter().map(name));
    for (way, label) in explained.ways.iter().zip(names) {
        let parts = [
            ("planning", way.planning_ms),
            ("synchronisation", way.synchronisation_ms),
            ("shuffle", way.exchange_ms),
            ("storage", way.storage_ms),
        ];
        points.extend(parts.map(|(series, ms)| Point {
            series: series.to_owned(),
            label: label.clone(),
            x: None,
            y: ms,
            note: format!("{} ms in all", number(way.predicted_ms)),
        }));
    }
    let Explained { workload, direction, .. } = explained;
    Chart {
        id: format!("explain {workload} {direction}"),
        title: format!("{workload}: predicted time of the {direction}"),
        caption: caption(&explained.ways),
        kind: Kind::Bars,
        x_name: String::new(),
        y_name: "ms".to_owned(),
        points,
    }
}

/// The ways of one call or of several, as one picture.
pub(super) fn picture(all: &[Explained]) -> String {
    let Some(mut whole) = all.first().map(chart) else { return String::new() };
    if all.len() > 1 {
        // Names of bars are short: workloads are named where they differ.
        let is_one = all.iter().all(|one| one.workload == all[0].workload);
        let call = |one: &Explained| match is_one {
            true => one.direction.clone(),
            false => format!("{} {}", one.workload, one.direction),
        };
        let labelled = |(one, chart): (&Explained, Chart)| {
            let call = call(one);
            let with_call = move |point: Point| {
                let label = format!("{call}: {}", point.label);
                Point { label, ..point }
            };
            chart.points.into_iter().map(with_call)
        };
        whole.points = all.iter().map(|one| (one, chart(one))).flat_map(labelled).collect();
        whole.title = match is_one {
            true => format!("{}: predicted times", all[0].workload),
            false => "Predicted times".to_owned(),
        };
        let captions = all.iter().map(|one| format!("{}: {}", call(one), caption(&one.ways)));
        whole.caption = captions.collect::<Vec<String>>().join(" ");
    }
    whole.standalone()
}

fn caption(ways: &[Way]) -> String {
    let measured: Vec<String> = ways.iter().filter_map(measured).collect();
    match measured.is_empty() {
        true => "By the model; nothing was measured.".to_owned(),
        false => format!("By the model. Measured: {}.", measured.join(", ")),
    }
}

fn measured(way: &Way) -> Option<String> {
    Some(format!("{} {} ms", way.strategy, number(way.measured_ms?)))
}

/// What each round of the chosen way moves.
fn moves(explained: &Explained) -> Option<Chart> {
    let Explained { workload, direction, .. } = explained;
    let chosen = explained.ways.iter().find(|way| way.chosen)?;
    let Way { strategy, windows, rounds: count, .. } = chosen;
    let planned = Planned {
        name: format!("explain {workload} {direction} {strategy}"),
        title: format!("{workload}: {strategy} {direction}"),
        windows,
        count: *count,
        from: "by the plan",
    };
    rounds::chart(&planned, &explained.moves)
}

fn table(ways: &[Way]) -> Table {
    let row = |way: &Way| {
        vec![
            Cell::text(name(way)),
            Cell::number(number(way.predicted_ms)),
            Cell::maybe(way.measured_ms.map(number)),
            // Ranks that work for themselves have no rounds.
            Cell::maybe((way.aggregators > 0).then_some(way.rounds)),
            Cell::number(way.aggregators),
            Cell::text(&way.windows),
        ]
    };
    Table {
        title: "Ways".to_owned(),
        columns: vec![
            "strategy",
            "predicted ms",
            "measured ms",
            "rounds",
            "aggregators",
            "windows",
        ],
        rows: ways.iter().map(row).collect(),
        strong: ways.iter().enumerate().filter(|(_, way)| way.chosen).map(|(at, _)| at).collect(),
        ..Table::default()
    }
}
