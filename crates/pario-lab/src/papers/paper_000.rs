//! Paper 000: multiple-phase collective I/O on the arrays of STEM-II.
//!
//! The paper speaks of three phases with 16 clients; log2 16 is 4. Here it is 8 ranks with up to
//! three phases and 16 ranks with up to four.

use pario::model::Direction;
use pario::model::presets::Link;

use super::count::{self, Counted, Request};
use super::outcome::{Findings, Row};
use super::{Mode, Outcome, Run};
use super::{calls, here};
use crate::failure::Failure;
use crate::scenario::contender::Plain;
use crate::scenario::pattern::Pattern;
use crate::scenario::stage::Stage;
use crate::simulate::{Taken, real};

/// Servers of PVFS in the paper.
const SERVERS: u32 = 16;
const RANKS: [u32; 2] = [8, 16];

/// Chemical species: all of them, or a few in quick counts.
fn species(run: &Run) -> u64 {
    match run.mode {
        Mode::Count | Mode::Here => run.size(4, 56),
        Mode::Virtual => 56,
    }
}

/// A real collective write through phases.
fn counted(pattern: &Pattern, phases: u32) -> Result<Counted, Failure> {
    count::write(&Request::collective(pattern, "multi-phase").hint("pario_phases", phases))
}

/// 000-eq1: N / (2 Np) bytes a rank and phase.
pub(super) fn eq1(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    findings.note("pario's messages have 8 bytes more for each packet, and 1 for each message");
    for ranks in RANKS {
        let pattern = Pattern::stem2("SL1", ranks, species(run))?;
        let paper = real(pattern.bytes()) / 2.0 / f64::from(ranks);
        for phases in 1..=ranks.trailing_zeros() {
            let sent = counted(&pattern, phases)?.sum(|rank| rank.statistics.sent_bytes);
            let ours = real(sent) / f64::from(ranks) / f64::from(phases);
            let name = format!("bytes of a rank in a phase, P {ranks}, {phases} phases");
            findings.push(Row::near(name, paper, (ours, "bytes"), 0.01));
        }
    }
    Ok(findings)
}

/// 000-fig4: pieces halve with each phase.
pub(super) fn fig4(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    for ranks in RANKS {
        let pattern = Pattern::stem2("SL1", ranks, species(run))?;
        let all = ranks.trailing_zeros();
        let mut pieces = Vec::new();
        let mut last = None;
        for phases in 0..=all {
            let counted = counted(&pattern, phases)?;
            pieces.push(counted.sum(runs));
            last = Some(counted);
        }
        for (phase, pair) in (1..all).zip(pieces.windows(2)) {
            let ratio = real(pair[1]) / real(pair[0]);
            let name = format!("pieces after phase {phase} to before, P {ranks}");
            findings.push(Row::within(name, 0.5, (ratio, "times"), 0.45..=0.55));
        }
        let most = last.iter().flat_map(|counted| counted.ranks.iter().map(runs)).max();
        let name = format!("blocks of a rank after all phases, P {ranks}");
        findings.push(Row::equal(name, 1, most.unwrap_or(0)));
        let points = (0..).zip(&pieces).map(|(phases, &count)| (f64::from(phases), real(count)));
        findings.draw(format!("P {ranks}"), ("phases", "pieces"), points);
    }
    Ok(findings)
}

/// Contiguous runs that a rank wrote.
fn runs(rank: &count::Rank) -> u64 {
    u64::try_from(rank.writes.len()).unwrap_or(u64::MAX)
}

/// A contender of Figures 6 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Phases(u32),
    List,
    Romio,
    Gather,
}

impl Contender {
    fn all(ranks: u32) -> Vec<Contender> {
        let phases = (0..=ranks.trailing_zeros()).map(Contender::Phases);
        phases.chain([Contender::List, Contender::Romio, Contender::Gather]).collect()
    }

    fn name(self) -> String {
        match self {
            Contender::Phases(count) => format!("{count} phases"),
            Contender::List => "list".to_owned(),
            Contender::Romio => "romio-like".to_owned(),
            Contender::Gather => "gather".to_owned(),
        }
    }

    /// Whether it stores single blocks.
    fn stores_blocks(self, ranks: u32) -> bool {
        self == Contender::Phases(ranks.trailing_zeros()) || self == Contender::Gather
    }

    fn write(self, stage: &Stage, pattern: &Pattern) -> Result<Taken, Failure> {
        let write = Direction::Write;
        match self {
            Contender::Phases(count) => calls::phased(stage, pattern, count),
            Contender::List => calls::list(stage, pattern),
            Contender::Romio => {
                calls::plain(stage, pattern, write, Plain::RomioLike { collective: true })
            }
            Contender::Gather => {
                // A sequential program has all data before it writes.
                let gather = Request::collective(pattern, "gather");
                let whole = calls::in_one_window(gather, pattern.reach().end);
                calls::pario(stage, write, &whole)
            }
        }
    }

    /// Its name in `pario bench`.
    fn bench_name(self) -> String {
        match self {
            Contender::Phases(count) => format!("multi-phase {count}"),
            other => other.name(),
        }
    }
}

/// Times of all contenders on an array.
type Times = Vec<(Contender, f64)>;

fn virtual_times(array: &str, ranks: u32, network: Link) -> Result<Times, Failure> {
    let (stage, pattern) =
        (Stage::pvfs(ranks, SERVERS, network), Pattern::stem2(array, ranks, 56)?);
    let time = |contender: Contender| {
        contender.write(&stage, &pattern).map(|taken| (contender, taken.seconds))
    };
    Contender::all(ranks).into_iter().map(time).collect()
}

/// Times here; bytes travel in messages.
fn here_times(
    run: &Run,
    array: &str,
    ranks: u32,
    findings: &mut Findings,
) -> Result<Times, Failure> {
    let phases: Vec<String> = (0..=ranks.trailing_zeros()).map(|count| count.to_string()).collect();
    let words = format!(
        "stem2 --set array={array},Nl={} --ranks {ranks} --messages --memory packed \
         --direction write --repeat 3 --strategies list,romio-like,gather --phases {}",
        species(run),
        phases.join(",")
    );
    let table = here::bench(run, &words, findings)?;
    let time = |contender: Contender| {
        let measured = table.find(&contender.bench_name(), Some(3), "write")?;
        Ok((contender, measured.seconds()))
    };
    Contender::all(ranks).into_iter().map(time).collect()
}

fn times(run: &Run, array: &str, ranks: u32, findings: &mut Findings) -> Result<Times, Failure> {
    match run.mode {
        Mode::Here => here_times(run, array, ranks, findings),
        Mode::Count | Mode::Virtual => virtual_times(array, ranks, Link::MYRINET_2000),
    }
}

fn of(times: &Times, contender: Contender) -> f64 {
    times.iter().find(|(one, _)| *one == contender).map_or(f64::NAN, |(_, seconds)| *seconds)
}

fn shown(times: &Times) -> String {
    let one = |(contender, seconds): &(Contender, f64)| {
        format!("{} {:.4}", contender.name(), super::outcome::rounded(*seconds))
    };
    times.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// 000-fig6: time falls with the phases.
pub(super) fn fig6(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    if run.mode == Mode::Virtual {
        findings.note(Stage::PVFS_ASSUMED);
    }
    for ranks in RANKS {
        let times = times(run, "SL1", ranks, &mut findings)?;
        let all = ranks.trailing_zeros();
        let by_phase: Vec<f64> =
            (0..=all).map(|count| of(&times, Contender::Phases(count))).collect();
        let falls = by_phase.windows(2).all(|pair| pair[1] < pair[0]);
        let name = |what: &str| format!("{what}, P {ranks}");
        let seconds: Vec<String> = by_phase.iter().map(|one| format!("{one:.4}")).collect();
        let ours = format!("{} s", seconds.join(" > "));
        let label = name("time falls with each phase");
        findings.push(Row::relation(label, "monotone", ours, falls));
        if run.mode == Mode::Virtual {
            let full = of(&times, Contender::Phases(all));
            let first = times.iter().all(|(_, seconds)| *seconds >= full);
            let label = name("all phases are best");
            findings.push(Row::relation(label, "first", shown(&times), first));
            let gather = of(&times, Contender::Gather) / full;
            let label = name("gather to all phases");
            findings.push(Row::within(label, "poor", (gather, "times"), 2.0..=f64::INFINITY));
        }
        let points = (0..).zip(&by_phase).map(|(count, &s)| (f64::from(count), s));
        findings.draw(format!("P {ranks}"), ("phases", "s"), points);
    }
    Ok(findings)
}

/// 000-fig7: SL2 has twice the planes of SL1.
pub(super) fn fig7(run: &Run) -> Outcome {
    compared(run, "SL2", |_, _| (2.0, 1.8..=2.2))
}

/// 000-fig8: SL3 has rows that are 1.5 times as long.
pub(super) fn fig8(run: &Run) -> Outcome {
    compared(run, "SL3", |contender, ranks| match contender.stores_blocks(ranks) {
        true => (1.5, 1.4..=1.6),
        false => (1.0, 0.0..=1.25),
    })
}

/// Times of another array to those of SL1, with what is expected of each contender.
fn compared(
    run: &Run,
    array: &str,
    expected: impl Fn(Contender, u32) -> (f64, std::ops::RangeInclusive<f64>),
) -> Outcome {
    let mut findings = Findings::default();
    if run.mode == Mode::Virtual {
        findings.note(Stage::PVFS_ASSUMED);
    }
    for ranks in RANKS {
        let one = times(run, "SL1", ranks, &mut findings)?;
        let other = times(run, array, ranks, &mut findings)?;
        for (contender, seconds) in &other {
            let ratio = seconds / of(&one, *contender);
            let (paper, range) = expected(*contender, ranks);
            let name = format!("{array} to SL1, {}, P {ranks}", contender.name());
            findings.push(Row::within(name, paper, (ratio, "times"), range));
        }
    }
    Ok(findings)
}

/// The phases of SL1 on a network.
fn phases_on(ranks: u32, network: Link) -> Result<Vec<Taken>, Failure> {
    phases_at(ranks, Stage::pvfs(ranks, SERVERS, network))
}

/// The phases of SL1 on a machine.
fn phases_at(ranks: u32, stage: Stage) -> Result<Vec<Taken>, Failure> {
    let pattern = Pattern::stem2("SL1", ranks, 56)?;
    let all = ranks.trailing_zeros();
    (0..=all).map(|count| calls::phased(&stage, &pattern, count)).collect()
}

/// Each phase of a call here; bytes travel in messages between threads.
fn fig9_here(run: &Run, findings: &mut Findings) -> Result<(), Failure> {
    for ranks in RANKS {
        let all = ranks.trailing_zeros();
        let words = format!(
            "stem2 --set array=SL1,Nl={} --ranks {ranks} --messages --memory packed --direction \
             write --repeat 5 --strategies gather --phases {all}",
            species(run)
        );
        let table = here::bench(run, &words, findings)?;
        let measured = table.find(&Contender::Phases(all).bench_name(), Some(3), "write")?;
        let seconds = measured.numbers("phase_seconds");
        let most = seconds.iter().copied().fold(0.0, f64::max);
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let name = format!("longest to shortest phase, P {ranks}");
        findings.push(Row::within(name, "about 1", (most / least, "times"), 0.0..=1.2));
        let points = (1..).zip(&seconds).map(|(phase, &s)| (f64::from(phase), s));
        findings.draw(format!("phases, P {ranks}"), ("phase", "s"), points);
    }
    Ok(())
}

/// 000-fig9: each phase costs about the same.
pub(super) fn fig9(run: &Run) -> Outcome {
    let mut findings = Findings::default();
    if run.mode == Mode::Here {
        fig9_here(run, &mut findings)?;
        return Ok(findings);
    }
    findings.note(Stage::PVFS_ASSUMED);
    for ranks in RANKS {
        let taken = phases_on(ranks, Link::MYRINET_2000)?;
        let Some(full) = taken.last() else { continue };
        let phase_s = full.phase_s();
        let most = phase_s.iter().copied().fold(0.0, f64::max);
        let least = phase_s.iter().copied().fold(f64::INFINITY, f64::min);
        let name = format!("longest to shortest phase, P {ranks}");
        findings.push(Row::within(name, "about 1", (most / least, "times"), 0.0..=1.2));
        let points = (1..).zip(&phase_s).map(|(phase, &s)| (f64::from(phase), s));
        findings.draw(format!("phases, P {ranks}"), ("phase", "s"), points);
    }
    Ok(findings)
}

/// What the last phase saves of the time before it.
fn last_gain(taken: &[Taken]) -> f64 {
    match taken {
        [.., before, last] => 1.0 - last.seconds / before.seconds,
        _ => f64::NAN,
    }
}

/// The number of phases with the least time.
fn best(taken: &[Taken]) -> usize {
    let times = taken.iter().map(|one| one.seconds).enumerate();
    times.min_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(count, _)| count)
}

/// 000-fig10: a slower network.
pub(super) fn fig10(_run: &Run) -> Outcome {
    let mut findings = Findings::default();
    findings.note(Stage::PVFS_ASSUMED);
    for ranks in RANKS {
        let fast = phases_on(ranks, Link::MYRINET_2000)?;
        let slow = phases_on(ranks, Link::FAST_ETHERNET)?;
        let all = index(ranks.trailing_zeros());
        let phases =
            |taken: &[Taken]| taken.last().map_or(f64::NAN, |full| full.phase_s().iter().sum());
        let name = |what: &str| format!("{what}, P {ranks}");
        let ratio = phases(&slow) / phases(&fast);
        findings.push(Row::within(
            name("phases on Fast Ethernet to Myrinet"),
            "dearer",
            (ratio, "times"),
            1.0..=f64::INFINITY,
        ));
        let (one, other) = (last_gain(&fast), last_gain(&slow));
        let ours = format!("{:.1} % on Myrinet, {:.1} % here", one * 100.0, other * 100.0);
        let label = name("the last phase gains less");
        findings.push(Row::relation(label, "less than on Myrinet", ours, other < one));
        let ours = format!("best: {} phases", best(&slow));
        let label = name("all phases are still best");
        findings.push(Row::relation(label, "best: all", ours, best(&slow) == all));
        let link =
            Link { bytes_per_s: Link::FAST_ETHERNET.bytes_per_s / 10.0, ..Link::FAST_ETHERNET };
        let slowest = phases_on(ranks, link)?;
        let ours = format!("best: {} phases", best(&slowest));
        let label = name("beyond the paper: a link 10 times slower");
        findings.push(Row::relation(label, "fewer than all", ours, best(&slowest) < all));
        let mut cheap = Stage::pvfs(ranks, SERVERS, Link::FAST_ETHERNET);
        cheap.machine.storage.request_us = 100.0;
        let count = best(&phases_at(ranks, cheap)?);
        findings.note(format!(
            "this rests on the cost of a request: with 100 us, {count} phases are best, P {ranks}"
        ));
        for (taken, network) in [(&fast, "Myrinet"), (&slow, "Fast Ethernet")] {
            let points = (0..).zip(taken).map(|(count, one)| (f64::from(count), one.seconds));
            findings.draw(format!("{network}, P {ranks}"), ("phases", "s"), points);
        }
    }
    Ok(findings)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// 000-scale: the volume of a phase falls as 1 / P.
pub(super) fn scale(_run: &Run) -> Outcome {
    let mut findings = Findings::default();
    let mut points = Vec::new();
    for ranks in [4, 8, 16, 32, 64_u32] {
        let stage = Stage::pvfs(ranks, SERVERS, Link::MYRINET_2000);
        let pattern = Pattern::stem2("SL1", ranks, 56)?;
        let taken = calls::phased(&stage, &pattern, ranks.trailing_zeros())?;
        let phases = f64::from(ranks.trailing_zeros());
        let ours = real(taken.sum(|rank| rank.sent_bytes)) / phases / f64::from(ranks);
        let paper = real(pattern.bytes()) / 2.0 / f64::from(ranks);
        let name = format!("bytes of a rank in a phase, P {ranks}");
        findings.push(Row::near(name, paper, (ours, "bytes"), 0.02));
        points.push((f64::from(ranks), ours));
    }
    findings.draw("a rank in a phase", ("ranks", "bytes"), points);
    Ok(findings)
}
