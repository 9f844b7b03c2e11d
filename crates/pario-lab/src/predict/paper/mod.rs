//! Paper 001: its [`model`], and the model's results beside those that the paper prints.

pub mod model;

use std::path::Path;

use serde::Serialize;

use self::model::{Device, PAPER_001, Times, Tradeoff, Validation, figure_11, table_v, table_vi};
use crate::failure::Failure;
use crate::output;
use crate::show;

/// Sizes of messages in the picture: powers of two, from 32 KB to 16 MB.
const DRAWN_MB: std::ops::RangeInclusive<i32> = -5..=4;
/// Sizes of messages that the paper discusses: 32 KB, 2 MB, 16 MB.
const MESSAGES_MB: [f64; 3] = [0.03125, 2.0, 16.0];

#[derive(Serialize)]
struct Row {
    table: &'static str,
    nodes: u32,
    ranks: u32,
    device: &'static str,
    technique: &'static str,
    measured_s: f64,
    estimated_s: f64,
    ours_s: f64,
    difference: f64,
    /// The faster technique by our estimate, and by the paper's measurement.
    winner: &'static str,
    measured_winner: &'static str,
}

#[derive(Serialize)]
struct Point {
    device: &'static str,
    message_mb: f64,
    shuffle_s: f64,
    benefit_s: f64,
    pays: bool,
}

#[derive(Serialize)]
struct Document {
    profile: &'static str,
    tables: Vec<Row>,
    figure_11: Vec<Point>,
}

/// A table of the paper: its number, nodes, and columns.
struct Table {
    name: &'static str,
    nodes: u32,
    columns: [Validation; 3],
}

const RANKS: u32 = 16;

fn tables() -> [Table; 2] {
    [
        Table { name: "V", nodes: 4, columns: table_v() },
        Table { name: "VI", nodes: 2, columns: table_vi() },
    ]
}

/// Prints the tables, and draws the figure if asked to.
pub(super) fn run(svg: Option<&Path>, json: bool) -> Result<(), Failure> {
    let mut text = match json {
        true => records()?,
        false => document(),
    };
    if let Some(path) = svg {
        output::write(path, figure()?.as_bytes())?;
        if !json {
            text += &format!("\nFigure 11 is in {}\n", path.display());
        }
    }
    output::print(&text, json)
}

fn rows(table: &Table) -> Vec<Row> {
    let row = |column: &Validation, technique, times: Times| Row {
        table: table.name,
        nodes: table.nodes,
        ranks: RANKS,
        device: column.device,
        technique,
        measured_s: times.measured_s,
        estimated_s: times.estimated_s,
        ours_s: times.ours_s,
        difference: times.difference(),
        winner: column.winner(|times| times.ours_s).name(),
        measured_winner: column.winner(|times| times.measured_s).name(),
    };
    let both = |column: &Validation| {
        [row(column, "collective", column.collective), row(column, "individual", column.individual)]
    };
    table.columns.iter().flat_map(both).collect()
}

fn points(messages_mb: &[f64]) -> Vec<Point> {
    let point = |device: &Device, message_mb| {
        let tradeoff = figure_11(device.bandwidth, message_mb);
        let Tradeoff { message_mb, shuffle_s, benefit_s } = tradeoff;
        Point { device: device.name, message_mb, shuffle_s, benefit_s, pays: tradeoff.pays() }
    };
    let of = |device| messages_mb.iter().map(move |&message_mb| point(device, message_mb));
    PAPER_001.devices.iter().flat_map(of).collect()
}

/// Figure 11 as SVG, as a report draws it.
fn figure() -> Result<String, Failure> {
    let sizes: Vec<f64> = DRAWN_MB.map(|power| 2f64.powi(power)).collect();
    let drawn = serde_json::to_value(points(&sizes)).and_then(show::svg_of_figure_11);
    drawn.map_err(|error| Failure::during("drawing Figure 11", error))
}

fn records() -> Result<String, Failure> {
    let tables = tables().iter().flat_map(rows).collect();
    let document = Document { profile: "paper-001", tables, figure_11: points(&MESSAGES_MB) };
    let text = serde_json::to_string(&document);
    text.map(|text| text + "\n").map_err(|error| Failure::during("printing results", error))
}

fn document() -> String {
    let network = PAPER_001.network;
    let mut text = format!(
        "Paper 001: Ts {} s, Tw {} s/MB; MB/s sequential and random:",
        network.ts_s, network.tw_s_per_mb
    );
    for Device { name, bandwidth } in PAPER_001.devices {
        let (sequential, random) = (bandwidth.sequential_mb_per_s, bandwidth.random_mb_per_s);
        text += &format!(" {name} {sequential} and {random}{}", comma(name));
    }
    for table in tables() {
        text += &format!(
            "\nTable {}: {} nodes, {RANKS} ranks; seconds\n\
             device  technique    measured  estimated     ours  difference  winner\n",
            table.name, table.nodes
        );
        for row in rows(&table) {
            text += &format!(
                "{:<8}{:<12}{:>9.2}{:>11.2}{:>9.2}{:>10.2} %  {}\n",
                row.device,
                row.technique,
                row.measured_s,
                row.estimated_s,
                row.ours_s,
                row.difference * 100.0,
                winner(&row)
            );
        }
    }
    text += "\nFigure 11: one iteration on 4 nodes; ms\ndevice    message   shuffle   benefit\n";
    for point in points(&MESSAGES_MB) {
        let verdict = if point.pays { "collective pays" } else { "individual pays" };
        text += &format!(
            "{:<8}{:>6.0} KB{:>10.1}{:>10.1}  {verdict}\n",
            point.device,
            point.message_mb * 1024.0,
            point.shuffle_s * 1e3,
            point.benefit_s * 1e3
        );
    }
    text + FOOTER
}

const FOOTER: &str = "
measured, estimated: the paper's values; ours: its equations, computed here. benefit: time saved in
storage. Why one estimate differs, and how unclear places were read: pario explain paper --help
";

fn comma(device: &str) -> &'static str {
    if PAPER_001.devices.last().is_some_and(|last| last.name == device) { "\n" } else { "," }
}

/// The winner, beside the faster technique; on the other row nothing.
fn winner(row: &Row) -> &'static str {
    match row.winner == row.technique {
        true if row.winner == row.measured_winner => "wins, as measured",
        true => "wins, not as measured",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_winner_of_the_tables_is_the_measured_one() {
        let text = document();
        assert_eq!(text.matches("wins, as measured").count(), 6);
        assert_eq!(text.matches("collective pays").count(), 2);
        assert_eq!(text.matches("individual pays").count(), 7);
        assert!(!text.contains("not as measured") && text.contains("420.54      2.13 %"), "{text}");
    }

    #[test]
    fn the_picture_has_the_shuffle_and_each_device() {
        let text = figure().unwrap();
        for name in ["shuffle", "benefit on HDD", "benefit on SSD", "benefit on NVM"] {
            assert!(text.contains(name), "{name}");
        }
    }
}
