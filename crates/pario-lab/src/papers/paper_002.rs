//! Paper 002: the inspector, and the executor beside list I/O, two-phase I/O and Block I/O.

use std::time::Instant;

use pario::model::Direction;
use pario::model::presets::Link;

use super::count::{self, Request};
use super::inspector::{BlockCyclic, Inspection, Tuple};
use super::outcome::{Findings, Row};
use super::{Mode, Outcome, Run};
use super::{calls, here};
use crate::failure::Failure;
use crate::scenario::contender::Plain;
use crate::scenario::pattern::Pattern;
use crate::scenario::stage::Stage;
use crate::simulate::{Taken, real};

/// I/O servers of PVFS in this paper (section 4); paper 000 has 16.
const SERVERS: u32 = 8;
const RANKS: u32 = 16;
const ELEMENT_BYTES: u64 = 4;
const MB: u64 = 1 << 20;

/// What all ranks do, by the algorithm for any distribution, entry by entry.
fn by_algorithm(vector: &BlockCyclic) -> Option<Vec<Inspection>> {
    let distributions: Vec<Vec<Tuple>> =
        (0..vector.ranks).map(|rank| vector.tuples(rank)).collect();
    Inspection::general(&distributions)
}

fn all(vector: &BlockCyclic) -> Result<Vec<Inspection>, Failure> {
    let one = |rank| Inspection::regular(rank, vector);
    let all: Option<Vec<Inspection>> = (0..vector.ranks).map(one).collect();
    let equations = all.ok_or_else(|| Failure::Run(format!("no equations for {vector:?}")))?;
    match by_algorithm(vector).as_ref() == Some(&equations) {
        true => Ok(equations),
        false => Err(Failure::Run(format!("equations and algorithm differ for {vector:?}"))),
    }
}

fn listed<T: std::fmt::Debug>(values: impl Iterator<Item = T>) -> String {
    let values: Vec<String> = values.map(|value| format!("{value:?}")).collect();
    values.join(" ")
}

/// Tuples as the paper prints them.
fn pairs(tuples: &[Tuple]) -> String {
    listed(tuples.iter().map(|tuple| (tuple.offset, tuple.len)))
}

/// 002-examples: the numbers that the paper prints.
pub(super) fn examples(_run: &Run) -> Outcome {
    let mut findings = Findings::default();
    findings.note("each value by the equations and by the general algorithm; both agree");
    findings.note(
        "section 4.1 says 16 tuples in both datatypes; by property 1, 15 are sent and 16 packed",
    );
    let case = all(&BlockCyclic { ranks: 4, block_len: 1, blocks: 4 })?;
    let mut equal = |name: &str, paper: &str, ours: String| {
        findings.push(Row::equal(name, paper, ours));
    };
    let alloc = listed(case.iter().map(|one| one.alloc_offset));
    equal("Table 1, alloc_offset", "0 2 2 4", alloc);
    for (phase, paper) in [(0, "4 0 6 2"), (1, "6 6 0 0")] {
        let offsets = listed(case.iter().map(|one| one.phases[phase].receive_offset));
        equal(&format!("Table 3, Recv_offset, ph {phase}"), paper, offsets);
    }
    let files = listed(case.iter().map(|one| one.file_offset));
    equal("Table 4, file_offset", "0 8 4 12", files);
    let sent = |phase: usize| pairs(&case[0].phases[phase].send);
    equal("Figure 5, sending datatype of process 0", "(2, 2)", sent(0));
    equal("Figure 6, sending datatype of process 0", "(1, 1) (5, 1)", sent(1));
    let packed = pairs(&case[0].packing.tuples);
    equal("Figure 7, packing datatype of process 0", "(0, 1) (4, 1) (6, 2)", packed);
    equal("Equation 2, entries of memory", "8", case[0].memory_len().to_string());
    let larger = all(&BlockCyclic { ranks: 4, block_len: 1, blocks: 8 })?;
    let packing = &larger[0].packing;
    let packed = pairs(&packing.tuples);
    equal("Figure 8, packing datatype of process 0", "(0, 1) (8, 1) (12, 1) (14, 1)", packed);
    equal("Figure 8, intervals", "2", packing.times.to_string());
    let sixteen = all(&BlockCyclic { ranks: 16, block_len: 1, blocks: 256 })?;
    for (phase, paper) in ["1", "2", "4", "8"].into_iter().enumerate() {
        let tuples = sixteen[0].phases[phase].send.len();
        equal(&format!("Property 1, tuples of phase {phase}"), paper, tuples.to_string());
    }
    equal("Section 4.1, packed tuples", "16", sixteen[0].packing.tuples.len().to_string());
    let sent: usize = sixteen[0].phases.iter().map(|phase| phase.send.len()).sum();
    equal("Section 4.1, sent tuples", "16", sent.to_string());
    Ok(findings)
}

/// The exponent of y in x: the slope of a line through the logarithms.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = f64::from(u32::try_from(points.len()).unwrap_or(1));
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.log2(), y.log2())).collect();
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let both: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    both / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

/// The vector of Figures 13 and 14. The paper has 8 blocks a rank; with more ranks than that its
/// file is out of order, so there are as many blocks as ranks then.
fn vector(entries: u64, ranks: u32) -> BlockCyclic {
    let blocks = u64::from(ranks).max(8);
    BlockCyclic { ranks, block_len: entries / u64::from(ranks) / blocks, blocks }
}

/// The inspector's time for one rank, in ms: the best of some tries. The ranks work at the same
/// time, so that the time of all is divided by their number.
fn inspector_ms(vector: &BlockCyclic) -> Result<f64, Failure> {
    const TRIES: u32 = 5;
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let begin = Instant::now();
        let all = by_algorithm(vector);
        let ms = begin.elapsed().as_secs_f64() * 1e3 / f64::from(vector.ranks);
        all.ok_or_else(|| Failure::Run(format!("{vector:?}: the algorithm does not apply")))?;
        best = best.min(ms);
    }
    Ok(best)
}

/// Tuples of a rank, sent and packed.
fn tuples(one: &Inspection) -> f64 {
    let sent: usize = one.phases.iter().map(|phase| phase.send.len()).sum();
    let count = sent + one.packing.tuples.len();
    real(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Figure 13 or 14: what the inspector makes (count) or takes (here) for several vectors.
fn inspector(run: &Run, label: &str, vectors: &[(f64, BlockCyclic)]) -> Outcome {
    let mut findings = Findings::default();
    let mut points = Vec::new();
    for (x, vector) in vectors {
        let value = match run.mode {
            Mode::Here => inspector_ms(vector)?,
            Mode::Count | Mode::Virtual => all(vector)?.iter().map(tuples).fold(0.0, f64::max),
        };
        points.push((*x, value));
    }
    let (what, unit) = match run.mode {
        Mode::Here => ("time of the inspector", "ms"),
        Mode::Count | Mode::Virtual => ("tuples of a rank", "tuples"),
    };
    let found = slope(&points);
    let name = format!("growth of the {what} with {label}");
    let below_linear = f64::NEG_INFINITY..=1.0 - 1e-6;
    findings.push(Row::within(name, "less than linear", (found, "exponent"), below_linear));
    findings.note(
        "blocks: as many as ranks, at least 8; with the paper's 8 on 16 ranks its file \
                   is out of order",
    );
    findings.draw(what, (label, unit), points);
    Ok(findings)
}

/// 002-fig13: the inspector by Nx.
pub(super) fn fig13(run: &Run) -> Outcome {
    let sizes: Vec<(f64, BlockCyclic)> =
        (14..=19).map(|bits| (real(1 << bits), vector(1 << bits, RANKS))).collect();
    inspector(run, "Nx", &sizes)
}

/// 002-fig14: the inspector by ranks.
pub(super) fn fig14(run: &Run) -> Outcome {
    let ranks = [2, 4, 8, 16, 32_u32];
    let sizes: Vec<(f64, BlockCyclic)> =
        ranks.iter().map(|&ranks| (f64::from(ranks), vector(524_288, ranks))).collect();
    inspector(run, "ranks", &sizes)
}

/// 002-amortise: one plan for many writes.
pub(super) fn amortise(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    if run.mode == Mode::Here {
        let words = "block-cyclic --quick --blocks 64 --steps 100 --direction write \
                     --strategies inspector-executor";
        let table = here::bench(run, words, &mut findings)?;
        let measured = table.find("inspector-executor", Some(3), "write")?;
        let part = measured.number("planning_seconds") / measured.seconds() * 100.0;
        let name = "planning of the last of 100 writes to its time";
        findings.push(Row::within(name, "amortised", (part, "%"), 0.0..=1.0));
        return Ok(findings);
    }
    let pattern = block_cyclic(RANKS, MB, 16)?;
    let request = Request { times: 100, ..Request::collective(&pattern, "inspector-executor") };
    let plans = count::write(&request)?.ranks.iter().map(|rank| rank.plans).max();
    findings.push(Row::equal("plans of 100 writes", 1, plans.unwrap_or(0)));
    Ok(findings)
}

fn block_cyclic(ranks: u32, bytes: u64, block: u64) -> Result<Pattern, Failure> {
    Pattern::new("block-cyclic", ranks, &[("Nx", bytes / ELEMENT_BYTES), ("Bx", block)])
}

/// The executor: all phases.
fn executor(stage: &Stage, pattern: &Pattern) -> Result<Taken, Failure> {
    calls::phased(stage, pattern, pattern.ranks.trailing_zeros())
}

/// The time of all phases.
fn phases_s(taken: &Taken) -> f64 {
    taken.phase_s().iter().sum()
}

fn storage_s(taken: &Taken) -> f64 {
    taken.parts_s().1
}

/// 002-fig15: the executor by Bx on Myrinet.
pub(super) fn fig15(run: &Run) -> Outcome {
    if run.mode == Mode::Here {
        return executor_here(run);
    }
    executor_by_block(run, Link::MYRINET_2000, "Myrinet")
}

/// The executor by Bx here, where bytes travel in messages between threads.
fn executor_here(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    let mut points = Vec::new();
    for block in [1_u64, 16, 256, 4096] {
        let words = format!(
            "block-cyclic --bytes {}M --blocks {} --ranks {RANKS} --messages --direction write \
             --repeat 3 --strategies inspector-executor",
            run.size(16, 256),
            block * ELEMENT_BYTES
        );
        let table = here::bench(run, &words, &mut findings)?;
        let measured = table.find("inspector-executor", Some(3), "write")?;
        points.push((real(block), measured.seconds()));
    }
    let most = points.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let least = points.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
    let label = "slowest to fastest Bx";
    findings.push(Row::within(label, "flat", (most / least, "times"), 0.0..=1.2));
    findings.draw("inspector-executor", ("Bx", "s"), points);
    Ok(findings)
}

/// 002-fig16: the same on Fast Ethernet.
pub(super) fn fig16(run: &Run) -> Outcome {
    executor_by_block(run, Link::FAST_ETHERNET, "Fast Ethernet")
}

fn executor_by_block(run: &Run, network: Link, name: &str) -> Outcome {
    let mut findings = Findings::default();
    findings.note(Stage::PVFS_ASSUMED);
    let bytes = run.size(32, 300) * MB;
    let stage = Stage::pvfs(RANKS, SERVERS, network);
    let myrinet = Stage::pvfs(RANKS, SERVERS, Link::MYRINET_2000);
    let mut all = Vec::new();
    for bits in (0..=12).step_by(2) {
        let block = 1 << bits;
        let pattern = block_cyclic(RANKS, bytes, block)?;
        all.push((real(block), executor(&stage, &pattern)?, executor(&myrinet, &pattern)?));
    }
    let times: Vec<f64> = all.iter().map(|(_, taken, _)| taken.seconds).collect();
    let most = times.iter().copied().fold(0.0, f64::max);
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let label = format!("slowest to fastest Bx, {name}");
    findings.push(Row::within(label, "almost constant", (most / least, "times"), 0.0..=1.2));
    let mut dear = stage;
    dear.costs.copy_piece_us = 0.05;
    let time =
        |block| Ok::<f64, Failure>(executor(&dear, &block_cyclic(RANKS, bytes, block)?)?.seconds);
    let ratio = super::outcome::rounded(time(1)? / time(4096)?);
    findings.note(format!(
        "this rests on 0.01 us for a piece of a copy: with 0.05 us, Bx 1 takes {ratio} times as \
         long as Bx 4096"
    ));
    if network != Link::MYRINET_2000 {
        let sum = |of: fn(&Taken) -> f64, slow: bool| -> f64 {
            all.iter().map(|(_, here, there)| of(if slow { here } else { there })).sum()
        };
        let ratio = sum(phases_s, true) / sum(phases_s, false);
        let range = 1.0..=f64::INFINITY;
        findings.push(Row::within("phases to those on Myrinet", "dearer", (ratio, "times"), range));
        let ratio = sum(storage_s, true) / sum(storage_s, false);
        let label = "storage to that on Myrinet";
        findings.push(Row::within(label, "unchanged", (ratio, "times"), 0.95..=1.05));
    }
    findings.draw(name, ("Bx", "s"), all.iter().map(|(block, taken, _)| (*block, taken.seconds)));
    Ok(findings)
}

/// Times of all contenders for one Bx.
#[derive(Clone, Copy, Debug)]
struct Contest {
    block: f64,
    iec: f64,
    romio: f64,
    /// pario's own two-phase, which has no lists.
    two_phase: f64,
    list: f64,
    reference: f64,
}

/// All contenders for one Bx on a network.
fn contest(bytes: u64, network: Link, block: u64) -> Result<Contest, Failure> {
    let (stage, write) = (Stage::pvfs(RANKS, SERVERS, network), Direction::Write);
    let pattern = block_cyclic(RANKS, bytes, block)?;
    let two_phase = Request::collective(&pattern, "two-phase");
    let romio = Plain::RomioLike { collective: true };
    Ok(Contest {
        block: real(block),
        iec: executor(&stage, &pattern)?.seconds,
        romio: calls::plain(&stage, &pattern, write, romio)?.seconds,
        two_phase: calls::pario(&stage, write, &two_phase)?.seconds,
        list: calls::list(&stage, &pattern)?.seconds,
        reference: calls::block(&stage, &pattern, write)?.seconds,
    })
}

/// The same for each Bx, up to the longest.
fn contests(bytes: u64, network: Link) -> Result<Vec<Contest>, Failure> {
    let blocks = (0..=LONGEST.trailing_zeros()).map(|bits| 1 << bits);
    blocks.map(|block| contest(bytes, network, block)).collect()
}

/// The longest Bx.
const LONGEST: u64 = 4096;

/// The first Bx from which on a contender is within 10 % of inspector-executor.
fn meets(
    all: &[Contest],
    name: &str,
    (paper, range): (f64, std::ops::RangeInclusive<f64>),
    time: impl Fn(&Contest) -> f64,
) -> Row {
    let label = format!("Bx at which {name} meets inspector-executor");
    match all.iter().find(|one| time(one) <= one.iec * 1.1) {
        Some(one) => Row::within(label, paper, (one.block, "elements"), range),
        None => Row::relation(label, &paper.to_string(), "not up to 4096", false),
    }
}

fn draw(findings: &mut Findings, all: &[Contest]) {
    let mut line = |name: &str, time: fn(&Contest) -> f64| {
        findings.draw(name, ("Bx", "s"), all.iter().map(|one| (one.block, time(one))));
    };
    line("Block I/O", |one| one.reference);
    line("inspector-executor", |one| one.iec);
    line("romio-like", |one| one.romio);
    line("two-phase of pario", |one| one.two_phase);
    line("list", |one| one.list);
}

/// 002-fig17: 100 MB on Myrinet.
pub(super) fn fig17(run: &Run) -> Outcome {
    on_myrinet(run, run.size(16, 100))
}

/// 002-fig18: 500 MB on Myrinet.
pub(super) fn fig18(run: &Run) -> Outcome {
    on_myrinet(run, run.size(80, 500))
}

fn on_myrinet(run: &Run, megabytes: u64) -> Outcome {
    let mut findings = Findings::default();
    if run.mode == Mode::Here {
        return by_block_here(run, megabytes, findings);
    }
    findings.note(Stage::PVFS_ASSUMED);
    let all = contests(megabytes * MB, Link::MYRINET_2000)?;
    let first = all.iter().all(|one| {
        [one.iec, one.romio, one.list, one.two_phase].iter().all(|time| *time >= one.reference)
    });
    let times = |time: fn(&Contest) -> f64| -> Vec<f64> { all.iter().map(time).collect() };
    let reference = times(|one| one.reference);
    let ours = format!("{:.4} s", super::outcome::rounded(reference[0]));
    findings.push(Row::relation("Block I/O is best for every Bx", "best", ours, first));
    let iec = times(|one| one.iec);
    let flat =
        iec.iter().copied().fold(0.0, f64::max) / iec.iter().copied().fold(f64::INFINITY, f64::min);
    let label = "inspector-executor, slowest to fastest Bx";
    findings.push(Row::within(label, "flat", (flat, "times"), 0.0..=1.2));
    findings.push(meets(&all, "romio-like", (16.0, 4.0..=64.0), |one| one.romio));
    findings.push(meets(&all, "list", (512.0, 128.0..=2048.0), |one| one.list));
    let list = times(|one| one.list);
    let ratio = list[0] / list.last().copied().unwrap_or(f64::NAN);
    let label = "list at Bx 1 to Bx 4096";
    findings.push(Row::within(label, "poor", (ratio, "times"), 10.0..=f64::INFINITY));
    let ahead = all[0].two_phase > all[0].iec;
    let ours = format!("{:.4} and {:.4} s", all[0].iec, all[0].two_phase);
    let label = "Bx 1: inspector-executor ahead of pario's own two-phase";
    findings.push(Row::relation(label, "ahead of two-phase", ours, ahead));
    draw(&mut findings, &all);
    Ok(findings)
}

/// The same here, where all bytes travel in messages.
fn by_block_here(run: &Run, megabytes: u64, mut findings: Findings) -> Outcome {
    let mut times = Vec::new();
    for block in [1_u64, 16, 512, 4096] {
        let words = format!(
            "block-cyclic --bytes {}M --blocks {} --ranks 16 --messages --direction write \
             --repeat 3 --strategies list,two-phase,romio-like,inspector-executor \
             --calls-max 6000000",
            megabytes.min(16),
            block * ELEMENT_BYTES
        );
        let table = here::bench(run, &words, &mut findings)?;
        let of = |name: &str| table.find(name, Some(3), "write").map(here::Measured::seconds);
        let block_io = table.find("block", None, "write")?.seconds();
        let row = (of("inspector-executor")?, of("romio-like")?, of("list")?, of("two-phase")?);
        times.push((real(block), row, block_io));
    }
    let iec: Vec<f64> = times.iter().map(|(_, row, _)| row.0).collect();
    let flat =
        iec.iter().copied().fold(0.0, f64::max) / iec.iter().copied().fold(f64::INFINITY, f64::min);
    let label = "inspector-executor, slowest to fastest Bx";
    findings.push(Row::within(label, "flat", (flat, "times"), 0.0..=1.2));
    let first = times.iter().all(|(_, row, block_io)| row.0 >= *block_io);
    let ours = format!("{:.4} s at Bx 1", times[0].2);
    findings.push(Row::relation("Block I/O ahead of inspector-executor", "best", ours, first));
    let ratio = times[0].1.2 / times[3].1.2;
    let label = "list at Bx 1 to Bx 4096";
    findings.push(Row::within(label, "poor", (ratio, "times"), 10.0..=f64::INFINITY));
    let (iec, romio) = (times[0].1.0, times[0].1.1);
    let label = "Bx 1: inspector-executor ahead of romio-like";
    let ours = format!("{iec:.4} and {romio:.4} s");
    findings.push(Row::relation(label, "ahead", ours, iec < romio));
    findings.draw("inspector-executor", ("Bx", "s"), times.iter().map(|one| (one.0, one.1.0)));
    findings.draw("romio-like", ("Bx", "s"), times.iter().map(|one| (one.0, one.1.1)));
    findings.draw("list", ("Bx", "s"), times.iter().map(|one| (one.0, one.1.2)));
    findings.draw("two-phase of pario", ("Bx", "s"), times.iter().map(|one| (one.0, one.1.3)));
    findings.draw("Block I/O", ("Bx", "s"), times.iter().map(|one| (one.0, one.2)));
    Ok(findings)
}

/// 002-fig19: 100 MB on Fast Ethernet.
pub(super) fn fig19(run: &Run) -> Outcome {
    on_fast_ethernet(run.size(16, 100))
}

/// 002-fig20: 500 MB on Fast Ethernet.
pub(super) fn fig20(run: &Run) -> Outcome {
    on_fast_ethernet(run.size(80, 500))
}

fn on_fast_ethernet(megabytes: u64) -> Outcome {
    let mut findings = Findings::default();
    findings.note(Stage::PVFS_ASSUMED);
    let fast = contest(megabytes * MB, Link::MYRINET_2000, LONGEST)?;
    let slow = contests(megabytes * MB, Link::FAST_ETHERNET)?;
    let last = |all: &[Contest], time: fn(&Contest) -> f64| all.last().map_or(f64::NAN, time);
    let mut against = |name: &str, time: fn(&Contest) -> f64, range, paper: &str| {
        let ratio = last(&slow, time) / time(&fast);
        let label = format!("{name} to its time on Myrinet, Bx 4096");
        findings.push(Row::within(label, paper, (ratio, "times"), range));
    };
    against("inspector-executor", |one| one.iec, 1.05..=f64::INFINITY, "slower");
    against("romio-like", |one| one.romio, 1.05..=f64::INFINITY, "slower");
    against("list", |one| one.list, 0.95..=1.05, "similar");
    against("Block I/O", |one| one.reference, 0.95..=1.05, "similar");
    let (list, romio) = (last(&slow, |one| one.list), last(&slow, |one| one.romio));
    let ours = format!("{list:.3} and {romio:.3} s");
    let label = "Bx 4096: list ahead of romio-like";
    findings.push(Row::relation(label, "ahead", ours, list < romio));
    let ratio = last(&slow, |one| one.iec) / romio;
    let label = "Bx 4096: inspector-executor to romio-like";
    findings.push(Row::within(label, "about 1", (ratio, "times"), 0.0..=1.5));
    draw(&mut findings, &slow);
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_the_exponent() {
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0].map(|x: f64| (x, 3.0 * x * x)).into();
        assert!((slope(&points) - 2.0).abs() < 1e-9);
    }
}
