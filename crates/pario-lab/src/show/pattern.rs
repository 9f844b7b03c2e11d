//! Who has which part of the file: the first runs of a workload, from the code that measured it.
//!
//! A record says which workloads were asked for. Those of earlier versions do not; then the sizes
//! in the record are tried, and what does not come out equal is not drawn.

use std::ops::Range;

use super::chart::{Chart, Kind, Point, size};
use super::records::Bench;
use crate::scenario::workload::{Program, Workload};
use crate::scenario::workloads::Workloads;

/// Runs that are drawn.
const RUNS_MAX: usize = 256;

/// What a function makes of the workload of a record, if it can be found out.
pub(super) fn of_workload<T>(
    record: &Bench,
    function: impl FnOnce(&dyn Workload) -> T,
) -> Option<T> {
    let programs = again(record)?;
    let parts = programs.iter().flat_map(|program| &program.parts);
    parts.map(|part| &**part).find(|part| is_same(*part, record)).map(function)
}

/// The pattern of a record, if it can be found out.
pub(super) fn chart(name: &str, record: &Bench) -> Option<Chart> {
    of_workload(record, |own| drawn(name, record, own)).flatten()
}

fn drawn(name: &str, record: &Bench, own: &dyn Workload) -> Option<Chart> {
    let points = runs(own, record.ranks).into_iter().map(|(rank, run)| Point {
        series: format!("rank {rank}"),
        label: String::new(),
        // Casts that round only beyond 2^53 bytes.
        x: Some(run.start as f64),
        y: (run.end - run.start) as f64,
        note: String::new(),
    });
    let points: Vec<Point> = points.collect();
    let (count, block) = (points.len(), own.block_bytes());
    (count > 0).then(|| Chart {
        id: format!("{name} {} ranks pattern", record.ranks),
        title: format!("{name}: who has which part of the file"),
        // A cast that rounds only beyond 2^53 bytes.
        caption: format!("The first {count} runs; the longest has {}.", size(block as f64)),
        kind: Kind::Tiles,
        x_name: "offset".to_owned(),
        y_name: "bytes".to_owned(),
        points,
    })
}

/// Makes the workloads of a record again.
fn again(record: &Bench) -> Option<Vec<Program>> {
    let from_sizes = || Workloads {
        names: vec![record.workload.clone()],
        bytes: Some(record.bytes),
        blocks: record.block.into_iter().collect(),
        ..Workloads::default()
    };
    let workloads = record.workloads.clone().unwrap_or_else(from_sizes);
    workloads.programs(record.ranks, 1).ok()
}

fn is_same(part: &dyn Workload, record: &Bench) -> bool {
    let shaped = record.shape.is_empty() || part.shape() == record.shape;
    part.name() == record.workload
        && part.part() == record.part
        && Some(part.block_bytes()) == record.block
        && shaped
        && part.file_bytes() >= record.bytes
}

/// The first runs of all ranks, in the order of the file.
fn runs(workload: &dyn Workload, ranks: u32) -> Vec<(u32, Range<u64>)> {
    let of_rank = |rank| workload.runs(rank).take(RUNS_MAX).map(move |run| (rank, run));
    let mut runs: Vec<(u32, Range<u64>)> = (0..ranks).flat_map(of_rank).collect();
    runs.sort_by_key(|(_, run)| run.start);
    runs.truncate(RUNS_MAX);
    runs
}
