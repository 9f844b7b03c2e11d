//! A section for each study: the paper's relations beside ours, and what was measured.

use serde_json::Value;

use super::bench::machine;
use super::chart::{Chart, Kind, Point, Scale, number};
use super::document::{Cell, Section, Table, shell};
use super::records::{Study, StudyRow};

pub(super) fn section(study: &Study) -> Section {
    let mode: Vec<&str> = [&study.mode, &study.size]
        .into_iter()
        .map(String::as_str)
        .filter(|one| !one.is_empty())
        .collect();
    let mode = if mode.is_empty() { String::new() } else { format!(" ({})", mode.join(", ")) };
    let of_paper = match shown(&study.paper).as_str() {
        "" => String::new(),
        paper if study.place.is_empty() => format!("Paper {paper}. "),
        paper => format!("Paper {paper}, {}. ", study.place),
    };
    let commands = match &study.command {
        Value::String(command) => vec![command.clone()],
        Value::Array(words) => vec![shell(&words.iter().map(shown).collect::<Vec<_>>())],
        _ => vec![format!("pario study {} --mode {}", study.id, study.mode)],
    };
    Section {
        title: format!("Study {}{mode}", study.id),
        summary: format!("{of_paper}{}", study.question),
        charts: charts(study),
        tables: vec![table(&study.rows)],
        facts: machine(study.machine.as_ref()),
        commands,
        notes: study.notes.clone(),
    }
}

/// Verdicts of all studies side by side, where there are several.
pub(super) fn overview(studies: &[Study]) -> Option<Section> {
    const KINDS: [&str; 4] = ["same", "same order", "not the same", "cannot run here"];
    let row = |study: &Study| {
        let count = |kind: &str| {
            let of_kind = |row: &&StudyRow| match row.verdict.trim_start_matches("the ") {
                verdict if kind.starts_with("same") => verdict == kind,
                verdict => verdict.starts_with(kind),
            };
            study.rows.iter().filter(of_kind).count()
        };
        let texts = [&study.id, &study.mode, &study.question].map(|text| Cell::text(text.as_str()));
        let counts = KINDS.map(|kind| Cell::number(count(kind)));
        texts.into_iter().chain(counts).collect()
    };
    let columns = ["study", "mode", "question"].into_iter().chain(KINDS).collect();
    let rows = studies.iter().map(row).collect();
    let tables = vec![Table { title: "Verdicts".to_owned(), columns, rows }];
    let summary = "How many relations of the papers hold here.".to_owned();
    let title = "Studies".to_owned();
    (studies.len() > 1).then(|| Section { title, summary, tables, ..Section::default() })
}

/// A chart for all series with the same axes.
fn charts(study: &Study) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for series in &study.series {
        let points = series.points.iter().map(|&[x, y]| Point {
            series: series.name.clone(),
            label: String::new(),
            x: Some(x),
            y,
            note: String::new(),
        });
        let (x_name, y_name) = (quantity(&series.x_label), quantity(&series.y_label));
        let axes = |chart: &&mut Chart| chart.x_name == x_name && chart.y_name == y_name;
        match charts.iter_mut().find(axes) {
            Some(chart) => chart.points.extend(points),
            None => charts.push(Chart {
                id: format!("study {} {} {}", study.id, study.mode, series.y_label),
                title: study.question.clone(),
                caption: origin(study),
                kind: Kind::Lines { x: Scale::Linear, y: Scale::Linear },
                x_name,
                y_name,
                points: points.collect(),
            }),
        }
    }
    for chart in &mut charts {
        chart.kind = Kind::Lines {
            x: scale(chart.points.iter().filter_map(|point| point.x)),
            y: scale(chart.points.iter().map(|point| point.y)),
        };
    }
    charts
}

/// What a unit or a letter of the papers means; labels of studies are short.
fn quantity(label: &str) -> String {
    match label {
        "s" | "ms" => format!("time ({label})"),
        "MB/s" => "bandwidth (MB/s)".to_owned(),
        "Bx" => "Bx (elements of a block)".to_owned(),
        "Nx" => "Nx (elements of the vector)".to_owned(),
        other => other.to_owned(),
    }
}

/// Where the values of a chart come from.
fn origin(study: &Study) -> String {
    let mode = match study.mode.as_str() {
        "virtual" => "computed on a virtual clock",
        "here" => "measured on this machine",
        "count" => "counted",
        other => other,
    };
    let place = match (shown(&study.paper).as_str(), study.place.as_str()) {
        ("", _) => String::new(),
        (paper, "") => format!("paper {paper}, "),
        (paper, place) => format!("paper {paper}, {place}, "),
    };
    let size = if study.size == "quick" { ", with little data" } else { "" };
    format!("{}: {place}{mode}{size}", study.id)
}

/// Values over more than a decade and a half are shown by their logarithm.
fn scale(values: impl Iterator<Item = f64>) -> Scale {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    match low > 0.0 && high / low > 30.0 {
        true => Scale::Log,
        false => Scale::Linear,
    }
}

fn table(rows: &[StudyRow]) -> Table {
    // A column with words among its numbers is read from the left.
    let cell = |own: fn(&StudyRow) -> &Value, row: &StudyRow| {
        let plain = |row: &StudyRow| own(row).is_number() || own(row).is_null();
        match rows.iter().all(plain) {
            true => Cell::Number(shown(own(row))),
            false => Cell::Text(shown(own(row))),
        }
    };
    let row = |row: &StudyRow| {
        vec![
            Cell::text(&row.name),
            cell(|row| &row.paper, row),
            cell(|row| &row.ours, row),
            Cell::text(shown(&row.unit)),
            Cell::text(shown(&row.tolerance)),
            Cell::Verdict(row.verdict.clone()),
        ]
    };
    Table {
        title: "Relations".to_owned(),
        columns: vec!["relation", "paper", "ours", "unit", "tolerance", "verdict"],
        rows: rows.iter().map(row).collect(),
    }
}

/// A value as people read it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(value) => value.as_f64().map_or_else(|| value.to_string(), number),
        Value::Array(all) => all.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
