//! A section for the model of paper 001.

use super::chart::{Chart, Kind, Point, Scale, number};
use super::document::{Cell, Section, Table};
use super::records::{Paper, PaperPoint, PaperRow};

pub(super) fn section(paper: &Paper) -> Section {
    let mut tables: Vec<&str> = paper.tables.iter().map(|row| row.table.as_str()).collect();
    tables.dedup();
    let mut charts: Vec<Chart> = tables.iter().map(|table| bars(paper, table)).collect();
    charts.push(figure(&paper.figure_11));
    Section {
        title: "The model of paper 001".to_owned(),
        summary: format!(
            "Estimates of collective and individual I/O by the equations and parameters of the \
             paper (profile {}).",
            paper.profile
        ),
        charts,
        tables: vec![table(&paper.tables), tradeoffs(&paper.figure_11)],
        commands: vec!["pario explain paper".to_owned()],
        ..Section::default()
    }
}

/// One of the tables, with the three times beside each other.
fn bars(paper: &Paper, name: &str) -> Chart {
    let mut points = Vec::new();
    for row in paper.tables.iter().filter(|row| row.table == name) {
        let times =
            [("measured", row.measured_s), ("estimated", row.estimated_s), ("ours", row.ours_s)];
        for (series, seconds) in times {
            points.push(Point {
                series: series.to_owned(),
                label: format!("{} {}, {series}", row.device, row.technique),
                x: None,
                y: seconds,
                note: format!("{} ranks on {} nodes", row.ranks, row.nodes),
            });
        }
    }
    Chart {
        id: format!("paper 001 table {name}"),
        title: format!("Table {name}: seconds"),
        caption: "Measured and estimated by the paper, and its equations computed here.".to_owned(),
        kind: Kind::Bars,
        x_name: String::new(),
        y_name: "s".to_owned(),
        points,
    }
}

pub(super) fn figure(points: &[PaperPoint]) -> Chart {
    let point = |series: String, one: &PaperPoint, seconds: f64| Point {
        series,
        label: String::new(),
        x: Some(one.message_mb),
        y: seconds * 1e3,
        note: if one.pays { "collective pays" } else { "individual pays" }.to_owned(),
    };
    let benefit =
        |one: &PaperPoint| point(format!("benefit on {}", one.device), one, one.benefit_s);
    // The shuffle is the same on all devices.
    let first = points.first().map(|one| one.device.clone()).unwrap_or_default();
    let shuffle = points.iter().filter(|one| one.device == first);
    let shuffle = shuffle.map(|one| point("shuffle".to_owned(), one, one.shuffle_s));
    Chart {
        id: "paper 001 figure 11".to_owned(),
        title: "Figure 11: one iteration of collective I/O".to_owned(),
        caption: "Collective I/O pays where the benefit is above the shuffle.".to_owned(),
        kind: Kind::Lines { x: Scale::Log, y: Scale::Log },
        x_name: "MB of a message".to_owned(),
        y_name: "ms".to_owned(),
        points: shuffle.chain(points.iter().map(benefit)).collect(),
    }
}

fn table(rows: &[PaperRow]) -> Table {
    let row = |row: &PaperRow| {
        vec![
            Cell::text(&row.table),
            Cell::number(row.nodes),
            Cell::text(&row.device),
            Cell::text(&row.technique),
            Cell::number(number(row.measured_s)),
            Cell::number(number(row.estimated_s)),
            Cell::number(number(row.ours_s)),
            Cell::number(format!("{:.2} %", row.difference * 100.0)),
            Cell::text(&row.winner),
        ]
    };
    Table {
        title: "Tables V and VI".to_owned(),
        columns: vec![
            "table",
            "nodes",
            "device",
            "technique",
            "measured s",
            "estimated s",
            "ours s",
            "difference",
            "winner",
        ],
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    }
}

fn tradeoffs(points: &[PaperPoint]) -> Table {
    let row = |one: &PaperPoint| {
        vec![
            Cell::text(&one.device),
            Cell::number(number(one.message_mb)),
            Cell::number(number(one.shuffle_s * 1e3)),
            Cell::number(number(one.benefit_s * 1e3)),
            Cell::text(if one.pays { "collective" } else { "individual" }),
        ]
    };
    Table {
        title: "Figure 11".to_owned(),
        columns: vec!["device", "message MB", "shuffle ms", "benefit ms", "pays"],
        rows: points.iter().map(row).collect(),
        ..Table::default()
    }
}
