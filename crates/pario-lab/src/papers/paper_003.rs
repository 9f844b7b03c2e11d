//! Paper 003: levels of requests, and the size of the sieving buffer.

use pario::model::Direction;

use super::calls;
use super::count::{self, Request};
use super::here;
use super::outcome::{Findings, Row};
use super::{Mode, Outcome, Run};
use crate::scenario::contender::Plain;
use crate::scenario::pattern::Pattern;
use crate::scenario::stage::Stage;
use crate::simulate::Taken;

/// 003-level1: collective calls of single pieces are no better than independent ones.
pub(super) fn level1(run: &Run) -> Outcome {
    match run.mode {
        Mode::Count => level1_count(run),
        Mode::Virtual => level1_virtual(run),
        Mode::Here => level1_here(run),
    }
}

fn dist3d(run: &Run, ranks: u32) -> Result<Pattern, crate::failure::Failure> {
    Pattern::new("dist3d", ranks, &[("edge", run.size(64, 512))])
}

fn level1_count(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    for ranks in [8, 16] {
        let pattern = Pattern::new("dist3d", ranks, &[("edge", run.size(32, 64))])?;
        let pieces = |level| {
            let request = Request::collective(&pattern, "auto").at_level(level);
            count::write(&request).map(|counted| counted.sum(|rank| rank.pieces))
        };
        let (zero, one) = (pieces(0)?, pieces(1)?);
        let name = format!("storage accesses at level 1, {ranks} ranks");
        findings.push(Row::equal(name, zero, one));
    }
    Ok(findings)
}

fn level1_virtual(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    findings.note(Stage::MPP_ASSUMED);
    let ranks = 16;
    let (stage, pattern) = (Stage::mpp(ranks), dist3d(run, ranks)?);
    for (direction, name) in [(Direction::Read, "reads"), (Direction::Write, "writes")] {
        let at_level = |level| {
            let request = Request::collective(&pattern, "auto").at_level(level);
            calls::pario(&stage, direction, &request)
        };
        let (zero, one) = (at_level(0)?, at_level(1)?);
        let accesses = |taken: &Taken| taken.sum(|rank| rank.storage_reads + rank.storage_writes);
        let label = format!("storage accesses, {name}");
        findings.push(Row::equal(label, accesses(&zero), accesses(&one)));
        let ratio = one.seconds / zero.seconds;
        let label = format!("time of level 1 to level 0, {name}");
        findings.push(Row::within(label, "about 1", (ratio, "times"), 0.0..=1.3));
    }
    Ok(findings)
}

fn level1_here(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    let edge = run.size(32, 128);
    let words = format!("dist3d --quick --edge {edge} --levels 0,1 --collective-calls-max 100000");
    let table = here::bench(run, &words, &mut findings)?;
    for direction in ["write", "read"] {
        let zero = table.find("auto", Some(0), direction)?.seconds();
        let one = table.find("auto", Some(1), direction)?.seconds();
        let label = format!("time of level 1 to level 0, {direction}");
        findings.push(Row::within(label, "about 1", (one / zero, "times"), 0.0..=1.3));
    }
    Ok(findings)
}

/// 003-sieve-buffer: 512 KB is a good size for writes with locks.
pub(super) fn sieve_buffer(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    let sizes: Vec<u64> = (16..=22).map(|bits| 1 << bits).collect();
    let times = match run.mode {
        Mode::Here => buffer_here(run, &sizes, &mut findings)?,
        Mode::Count | Mode::Virtual => {
            findings.note(Stage::MPP_ASSUMED);
            buffer_virtual(run, &sizes)?
        }
    };
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let own = sizes.iter().zip(&times).find(|(bytes, _)| **bytes == 512 << 10);
    let ratio = own.map_or(f64::NAN, |(_, seconds)| seconds / best);
    let name = "time with 512 KB to the best";
    findings.push(Row::within(name, "a good trade-off", (ratio, "times"), 0.0..=1.25));
    let points =
        sizes.iter().zip(&times).map(|(&bytes, &seconds)| (crate::simulate::real(bytes), seconds));
    findings.draw("level 2 writes", ("bytes of the buffer", "s"), points);
    Ok(findings)
}

fn buffer_virtual(run: &Run, sizes: &[u64]) -> Result<Vec<f64>, crate::failure::Failure> {
    let ranks = 16;
    let (stage, pattern) =
        (Stage::mpp(ranks), Pattern::new("dist3d", ranks, &[("edge", run.size(128, 512))])?);
    let time = |&buffer_bytes: &u64| {
        let mut hints = calls::romio_hints();
        hints.sieve_write_buffer_bytes = buffer_bytes;
        let sieve = (Plain::RomioLike { collective: false }, hints);
        Ok(calls::plain_with(&stage, &pattern, Direction::Write, sieve)?.seconds)
    };
    sizes.iter().map(time).collect()
}

fn buffer_here(
    run: &Run,
    sizes: &[u64],
    findings: &mut Findings,
) -> Result<Vec<f64>, crate::failure::Failure> {
    let edge = run.size(64, 256);
    let mut times = Vec::new();
    for bytes in sizes {
        let words = format!(
            "dist3d --quick --edge {edge} --levels 2 --strategies romio-like --direction write \
             --hint ind_wr_buffer_size={bytes}"
        );
        let table = here::bench(run, &words, findings)?;
        times.push(table.find("romio-like", Some(2), "write")?.seconds());
    }
    Ok(times)
}
