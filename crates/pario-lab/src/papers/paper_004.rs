//! Paper 004: Unix-style access, sieving and collective I/O for three applications.
//!
//! The levels are those of paper 003: 0 is Unix-style access, 2 is sieving, 3 is collective I/O;
//! levels 2 and 3 do what ROMIO does in the papers.

use std::ops::RangeInclusive;

use pario::model::Direction;
use pario::model::presets::Device;

use super::count::Request;
use super::outcome::{Findings, Row};
use super::{Mode, Outcome, Run};
use super::{calls, here};
use crate::failure::Failure;
use crate::scenario::contender::Plain;
use crate::scenario::pattern::Pattern;
use crate::scenario::stage::Stage;
use crate::simulate::{Taken, real};

/// A table of the paper: which way, its factors, and the ranks of a run here.
struct Table {
    direction: Direction,
    word: &'static str,
}

const READ: Table = Table { direction: Direction::Read, word: "read" };
const WRITE: Table = Table { direction: Direction::Write, word: "write" };

/// Bandwidths of the levels, in MB/s of useful bytes.
struct Levels {
    zero: f64,
    two: f64,
    three: f64,
    /// Sieving that leaves holes of more than 4 KiB out, as pario does.
    skips: f64,
}

fn levels(
    stage: &Stage,
    pattern: &Pattern,
    direction: Direction,
    unix: bool,
) -> Result<Levels, Failure> {
    let bandwidth = |taken: Taken| real(pattern.bytes()) / taken.seconds / 1e6;
    let plain = |plain| calls::plain(stage, pattern, direction, plain).map(bandwidth);
    Ok(Levels {
        zero: if unix { plain(Plain::Posix)? } else { f64::NAN },
        two: plain(Plain::RomioLike { collective: false })?,
        three: plain(Plain::RomioLike { collective: true })?,
        skips: f64::NAN,
    })
}

/// All levels, and sieving as pario does it.
fn levels_and_skips(
    stage: &Stage,
    pattern: &Pattern,
    direction: Direction,
) -> Result<Levels, Failure> {
    let sieve = Request::collective(pattern, "sieve").at_level(2);
    let seconds = calls::pario(stage, direction, &sieve)?.seconds;
    let skips = real(pattern.bytes()) / seconds / 1e6;
    Ok(Levels { skips, ..levels(stage, pattern, direction, true)? })
}

/// Levels 0, 2 and 3 measured here.
fn levels_here(
    run: &Run,
    words: &str,
    direction: &str,
    findings: &mut Findings,
) -> Result<Levels, Failure> {
    let words =
        format!("{words} --levels 0,2,3 --strategies posix,romio-like --direction {direction}");
    let table = here::bench(run, &words, findings)?;
    let of = |strategy, level| -> Result<f64, Failure> {
        Ok(table.find(strategy, Some(level), direction)?.bandwidth())
    };
    let (two, three) = (of("romio-like", 2)?, of("romio-like", 3)?);
    Ok(Levels { zero: of("posix", 0)?, two, three, skips: f64::NAN })
}

fn shown(levels: &Levels) -> String {
    let Levels { zero, two, three, .. } = levels;
    match zero.is_nan() {
        true => format!("{two:.2}, {three:.2} MB/s"),
        false => format!("{zero:.2}, {two:.2}, {three:.2} MB/s"),
    }
}

/// Factors of DIST3D.
struct Factors {
    two_to_zero: RangeInclusive<f64>,
    three_to_two: RangeInclusive<f64>,
}

/// 004-table1: DIST3D, reads.
pub(super) fn table1(run: &Run) -> Outcome {
    dist3d(run, &READ, &Factors { two_to_zero: 2.6..=453.0, three_to_two: 1.5..=14.0 })
}

/// 004-table2: DIST3D, writes.
pub(super) fn table2(run: &Run) -> Outcome {
    dist3d(run, &WRITE, &Factors { two_to_zero: 2.3..=121.0, three_to_two: 5.0..=55.0 })
}

fn dist3d(run: &Run, table: &Table, factors: &Factors) -> Outcome {
    let mut findings = Findings::default();
    let ranks: &[u32] = if run.mode == Mode::Here { &[8] } else { &[8, 16, 64] };
    let mut drawn = [Vec::new(), Vec::new(), Vec::new()];
    for &ranks in ranks {
        let levels = match run.mode {
            Mode::Here => {
                let edge = run.size(64, 256);
                let words = format!("dist3d --edge {edge} --ranks {ranks} --repeat 3");
                levels_here(run, &words, table.word, &mut findings)?
            }
            Mode::Count | Mode::Virtual => {
                let pattern = Pattern::new("dist3d", ranks, &[("edge", run.size(128, 512))])?;
                levels(&Stage::mpp(ranks), &pattern, table.direction, true)?
            }
        };
        let name = |what: &str| format!("{what}, {ranks} ranks");
        let holds = levels.zero < levels.two && levels.two < levels.three;
        let label = name("level 0 < level 2 < level 3");
        findings.push(Row::relation(label, "the order", shown(&levels), holds));
        let range = &factors.two_to_zero;
        let paper = format!("{} to {}", range.start(), range.end());
        let label = name("sieving to Unix-style");
        findings.push(Row::factor(label, paper, levels.two / levels.zero, range.clone()));
        let range = &factors.three_to_two;
        let paper = format!("{} to {}", range.start(), range.end());
        let label = name("collective to sieving");
        findings.push(Row::factor(label, paper, levels.three / levels.two, range.clone()));
        for (points, mbps) in drawn.iter_mut().zip([levels.zero, levels.two, levels.three]) {
            points.push((f64::from(ranks), mbps));
        }
    }
    if run.mode == Mode::Virtual {
        findings.note(Stage::MPP_ASSUMED);
    }
    for (points, name) in drawn.into_iter().zip(["level 0", "level 2", "level 3"]) {
        findings.draw(name, ("ranks", "MB/s"), points);
    }
    Ok(findings)
}

/// 004-table3: BTIO, reads.
pub(super) fn table3(run: &Run) -> Outcome {
    btio(run, &READ)
}

/// 004-table4: BTIO, writes.
pub(super) fn table4(run: &Run) -> Outcome {
    btio(run, &WRITE)
}

fn btio(run: &Run, table: &Table) -> Outcome {
    let mut findings = Findings::default();
    let ranks: &[u32] = if run.mode == Mode::Here { &[9] } else { &[9, 36, 64] };
    for &ranks in ranks {
        let levels = match run.mode {
            Mode::Here => {
                let edge = run.size(40, 102);
                let words =
                    format!("btio --edge {edge} --ranks {ranks} --memory packed --repeat 3");
                levels_here(run, &words, table.word, &mut findings)?
            }
            Mode::Count | Mode::Virtual => {
                let set = [("problem_size", run.size(81, 162))];
                let pattern = Pattern::new("btio", ranks, &set)?;
                levels_and_skips(&Stage::mpp(ranks), &pattern, table.direction)?
            }
        };
        let name = |what: &str| format!("{what}, {ranks} ranks");
        if ranks == 64 {
            let label = name("level 0 > level 2");
            let holds = levels.zero > levels.two;
            findings.push(Row::relation(label, "on 3 of 5 machines", shown(&levels), holds));
        }
        let first = levels.three > levels.zero && levels.three > levels.two;
        let label = name("level 3 first");
        findings.push(Row::relation(label, "first", shown(&levels), first));
        let label = name("collective to Unix-style");
        let ratio = levels.three / levels.zero;
        findings.push(Row::factor(label, "at least 7", ratio, 7.0..=f64::INFINITY));
        if !levels.skips.is_nan() {
            let best = levels.zero.max(levels.two);
            let ours = format!("{:.2} of {best:.2} MB/s", levels.skips);
            let label = name("sieving that leaves holes above 4 KiB out");
            let holds = levels.skips >= best * 0.999;
            findings.push(Row::relation(label, "at least as good as both", ours, holds));
        }
    }
    if run.mode == Mode::Virtual {
        findings.note(Stage::MPP_ASSUMED);
    }
    Ok(findings)
}

/// 004-table5: UNSTRUC, reads.
pub(super) fn table5(run: &Run) -> Outcome {
    unstruc(run, &READ, 2.7..=66.0)
}

/// 004-table6: UNSTRUC, writes.
pub(super) fn table6(run: &Run) -> Outcome {
    unstruc(run, &WRITE, 4.8..=431.0)
}

fn unstruc(run: &Run, table: &Table, factors: RangeInclusive<f64>) -> Outcome {
    let mut findings = Findings::default();
    let ranks: &[u32] = if run.mode == Mode::Here { &[8] } else { &[8, 64] };
    let paper = format!("{} to {}", factors.start(), factors.end());
    for &ranks in ranks {
        let elements = run.size(100_000, 8_000_000);
        let levels = match run.mode {
            Mode::Here => {
                let elements = elements.min(1_000_000);
                let words = format!(
                    "unstruc --set elements={elements} --ranks {ranks} --memory packed --repeat 3"
                );
                levels_here(run, &words, table.word, &mut findings)?
            }
            Mode::Count | Mode::Virtual => {
                let pattern = Pattern::new("unstruc", ranks, &[("elements", elements)])?;
                levels(&Stage::mpp(ranks), &pattern, table.direction, false)?
            }
        };
        let label = format!("collective to sieving, {ranks} ranks");
        let ratio = levels.three / levels.two;
        findings.push(Row::factor(label, paper.as_str(), ratio, factors.clone()));
        findings.note(format!("sieving, collective at {ranks} ranks: {}", shown(&levels)));
    }
    if run.mode == Mode::Virtual {
        findings.note(Stage::MPP_ASSUMED);
    }
    Ok(findings)
}

/// 004-fast: the same on fast storage.
pub(super) fn fast(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    if run.mode == Mode::Here {
        let elements = run.size(100_000, 1_000_000);
        let cases = [
            ("DIST3D", format!("dist3d --edge {}", run.size(64, 256))),
            ("UNSTRUC", format!("unstruc --set elements={elements}")),
        ];
        for (name, words) in cases {
            let words = format!("{words} --ranks 8 --repeat 3");
            let levels = levels_here(run, &words, "read", &mut findings)?;
            let label = format!("{name}, reads: level 2 ahead of level 3");
            let (paper, holds) = ("yes for ROMIO on tmpfs today", levels.two > levels.three);
            findings.push(Row::relation(label, paper, shown(&levels), holds));
        }
        return Ok(findings);
    }
    let ranks = 8;
    let (stage, elements) = (Stage::fast_node(ranks), run.size(100_000, 8_000_000));
    let dist3d = Pattern::new("dist3d", ranks, &[("edge", run.size(128, 512))])?;
    let unstruc = Pattern::new("unstruc", ranks, &[("elements", elements)])?;
    let cases = [
        ("DIST3D", "no on the SX-4; yes for ROMIO on tmpfs today", dist3d),
        ("UNSTRUC", "yes on the SX-4", unstruc),
    ];
    findings.note(Stage::FAST_ASSUMED);
    let mut cheap = stage;
    cheap.costs.list_piece_us = 0.05;
    let mut device = Stage::node(ranks, Device::NVM, 0);
    device.costs.list_piece_us = 0.05;
    let others = [("0.05 us for a piece of a list", cheap), ("that on a device of 4 GB/s", device)];
    for (name, paper, pattern) in &cases {
        let found = |stage: &Stage| levels(stage, pattern, Direction::Read, false);
        let levels = found(&stage)?;
        let label = format!("{name}, reads: level 2 ahead of level 3");
        let holds = levels.two > levels.three;
        findings.push(Row::relation(label, paper, shown(&levels), holds));
        for (what, other) in &others {
            findings.note(format!("{name} with {what}: {}", shown(&found(other)?)));
        }
    }
    Ok(findings)
}
