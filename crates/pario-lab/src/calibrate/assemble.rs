//! Values become a profile. What cannot be used leaves the default, with the reason.

use std::collections::BTreeMap;

use pario::model::Direction;
use pario::model::presets::Link;
use pario::model::profile::{Accesses, Concurrency, Curve, Machine, Pattern, Profile, Reuse};
use serde::Serialize;

use super::Oversubscribed;
use super::judge::{Estimate, judge, monotone};
use super::probe::{
    CACHED_BYTES, MESSAGE_BYTES, PAGES_BYTES, PIECE_BYTES, PLANNED_PIECES, Probe, Situation,
    WORKING_SETS,
};

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;

/// No memory and no link of today is faster.
const BYTES_PER_S_MAX: f64 = 1e12;

/// Lengths that a curve needs.
const LENGTHS_MIN: usize = 3;

/// The profile whose values stay where nothing is measured.
pub(super) enum Before {
    /// Of an earlier run, which measured what its `defaults` do not name.
    Measured(Profile),
    BuiltIn(Profile),
}

/// All measurements.
pub(super) struct Measured<'a> {
    pub(super) probes: &'a [Probe],
    pub(super) samples: &'a [Vec<f64>],
    pub(super) oversubscribed: Option<&'a Oversubscribed>,
}

/// A profile and what became of each of its keys.
pub(super) struct Calibrated {
    pub(super) profile: Profile,
    pub(super) findings: Vec<Finding>,
}

/// What became of a key.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) key: String,
    /// The value for people.
    pub(super) value: String,
    /// How far its measurements lie apart, relative to their median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spread: Option<f64>,
    /// A length that is not part of a curve, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<String>,
    /// Why the value is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default: Option<String>,
    /// Why the value is that of an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) earlier: Option<String>,
}

/// A value with the spread of what it was made of.
struct Found<T> {
    value: T,
    spread: f64,
    /// A length that is not part of a curve, and why.
    left_out: Option<String>,
}

impl<T> Found<T> {
    fn new(value: T, spread: f64) -> Found<T> {
        Found { value, spread, left_out: None }
    }
}

impl Measured<'_> {
    fn estimate(&self, probe: Probe) -> Result<Estimate, String> {
        let both = self.probes.iter().zip(self.samples);
        let samples = both.filter(|(known, _)| **known == probe).map(|(_, samples)| samples);
        judge(samples.flatten().copied().collect::<Vec<f64>>().as_slice())
    }

    /// Whether there is a single measurement.
    fn is_measured(&self, probe: Probe) -> bool {
        let mut both = self.probes.iter().zip(self.samples);
        both.any(|(known, samples)| *known == probe && !samples.is_empty())
    }

    /// Lengths with their microseconds, those aside that were not measured well.
    fn times(
        &self,
        lengths: &[u64],
        probe: impl Fn(u64) -> Probe,
    ) -> Result<Found<Vec<(u64, f64)>>, String> {
        let (mut times, mut spread, mut left_out) = (Vec::new(), 0f64, None);
        for &bytes in lengths {
            match self.estimate(probe(bytes)) {
                Ok(estimate) => {
                    times.push((bytes, estimate.seconds * 1e6));
                    spread = spread.max(estimate.spread);
                }
                Err(reason) => left_out = Some(format!("{bytes} bytes: {reason}")),
            }
        }
        let is_known = times.len() >= LENGTHS_MIN.min(lengths.len());
        match left_out.take_if(|_| !is_known) {
            Some(reason) => Err(reason),
            None => Ok(Found { value: times, spread, left_out }),
        }
    }

    /// A curve through the lengths that were measured well. Others are left out: what is between
    /// two lengths is interpolated. Of a curve with too few of them, the default stays.
    fn curve(&self, lengths: &[u64], probe: impl Fn(u64) -> Probe) -> Result<Found<Curve>, String> {
        let Found { value: times, spread, left_out } = self.times(lengths, probe)?;
        let mut value = Curve::from_times_us(monotone(times)?);
        value.bytes_per_s.iter_mut().for_each(|bytes_per_s| *bytes_per_s = rounded(*bytes_per_s));
        value.bytes_per_s.iter().try_for_each(|&bytes_per_s| possible(bytes_per_s))?;
        Ok(Found { value, spread, left_out })
    }

    fn concurrency(
        &self,
        groups: &[u32],
        probe: impl Fn(u32) -> Probe,
    ) -> Result<Found<Concurrency>, String> {
        let (mut value, mut spread) = (Concurrency::default(), 0f64);
        for &ranks in groups {
            let found = self.estimate(probe(ranks));
            let estimate = found.map_err(|reason| format!("{ranks} ranks: {reason}"))?;
            value.ranks.push(ranks);
            value.bytes_per_s.push(rounded(f64::from(ranks) * MIB / estimate.seconds));
            spread = spread.max(estimate.spread);
        }
        value.bytes_per_s.iter().try_for_each(|&bytes_per_s| possible(bytes_per_s))?;
        Ok(Found::new(value, spread))
    }

    /// More bytes that come out faster are noise: they are as fast as fewer.
    fn reused(&self, probe: impl Fn(u64) -> Probe) -> Result<Found<Reuse>, String> {
        let Found { value: times, spread, left_out } = self.times(&WORKING_SETS, probe)?;
        // What a cache saves is the difference to the most bytes.
        let is_whole = times.last().map(|(working_set, _)| working_set) == WORKING_SETS.last();
        if let (false, Some(reason)) = (is_whole, &left_out) {
            return Err(reason.clone());
        }
        let mut value = Reuse::default();
        for (working_set, us) in times {
            let bytes_per_s = rounded(KIB / us * 1e6);
            possible(bytes_per_s)?;
            let fewer = value.bytes_per_s.last().copied().unwrap_or(f64::INFINITY);
            value.bytes.push(working_set);
            value.bytes_per_s.push(bytes_per_s.min(fewer));
        }
        Ok(Found { value, spread, left_out })
    }

    fn link(&self, to: Option<u32>, missing: &str) -> Result<Found<Link>, String> {
        let to = to.ok_or(missing)?;
        let [short, long] = MESSAGE_BYTES.map(|bytes| self.estimate(Probe::Message { to, bytes }));
        let (short, long) = (short?, long?);
        let bytes = u32::try_from(MESSAGE_BYTES[1] - MESSAGE_BYTES[0]).map_or(0.0, f64::from);
        let bytes_per_s = bytes / (long.seconds - short.seconds);
        possible(bytes_per_s)?;
        let bytes_per_s = rounded(bytes_per_s);
        let value = Link { latency_us: rounded(short.seconds * 1e6), bytes_per_s };
        Ok(Found::new(value, short.spread.max(long.spread)))
    }

    /// A barrier of ranks with a core each, for each doubling.
    fn barrier_step(&self, situation: &Situation) -> Result<Found<f64>, String> {
        match situation.ranks {
            1 => Err("one rank has no barriers".to_owned()),
            ranks if ranks > situation.cores => Err("there are more ranks than cores".to_owned()),
            ranks => {
                let steps = ranks.next_power_of_two().trailing_zeros();
                let estimate = self.estimate(Probe::Barrier)?;
                let value = rounded(estimate.seconds * 1e6 / f64::from(steps.max(1)));
                Ok(Found::new(value, estimate.spread))
            }
        }
    }

    /// What a barrier takes longer if all ranks but the last sleep.
    fn wake(&self, situation: &Situation) -> Result<Found<f64>, String> {
        self.barrier_step(situation)?;
        let [barrier, wake] = [self.estimate(Probe::Barrier)?, self.estimate(Probe::Wake)?];
        let value = rounded(((wake.seconds - barrier.seconds) * 1e6).max(0.0));
        Ok(Found::new(value, wake.spread))
    }

    /// A barrier of more ranks than cores, for each rank of a core.
    fn oversubscribed_rank(&self, situation: &Situation) -> Result<Found<f64>, String> {
        let (ranks, estimate) = match self.oversubscribed {
            Some(oversubscribed) => (oversubscribed.ranks, judge(&oversubscribed.seconds)?),
            None if situation.ranks > situation.cores => {
                (situation.ranks, self.estimate(Probe::Barrier)?)
            }
            None => return Err("there are no more ranks than cores".to_owned()),
        };
        let value = estimate.seconds * 1e6 * f64::from(situation.cores) / f64::from(ranks);
        Ok(Found::new(rounded(value), estimate.spread))
    }

    fn plan_rank(&self, situation: &Situation) -> Result<Found<f64>, String> {
        let estimate = self.estimate(Probe::Plan { pieces: 1 })?;
        let value = rounded(estimate.seconds * 1e6 / f64::from(situation.ranks));
        Ok(Found::new(value, estimate.spread))
    }

    fn plan_piece(&self) -> Result<Found<f64>, String> {
        let [few, many] = [1, PLANNED_PIECES].map(|pieces| self.estimate(Probe::Plan { pieces }));
        let (few, many) = (few?, many?);
        let pieces = u32::try_from(PLANNED_PIECES).map_or(1.0, f64::from);
        // Where ranks share memory, lists are not described to each other: pieces cost nothing.
        let value = ((many.seconds - few.seconds) * 1e6 / pieces).max(0.0);
        match many.seconds > few.seconds / 2.0 {
            true => Ok(Found::new(rounded(value), many.spread.max(few.spread))),
            false => Err("impossible: more pieces take less time".to_owned()),
        }
    }
}

/// Four digits: more than any measurement has, and short to read.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn possible(bytes_per_s: f64) -> Result<(), String> {
    match bytes_per_s > 0.0 && bytes_per_s <= BYTES_PER_S_MAX {
        true => Ok(()),
        false => Err(format!("impossible: {bytes_per_s:.3e} bytes/s")),
    }
}

/// Collects findings while a profile is filled.
struct Findings {
    all: Vec<Finding>,
    /// Keys that no earlier run measured; none if there is no earlier run.
    unmeasured: Option<BTreeMap<String, String>>,
}

impl Findings {
    /// Takes a value if there is one; otherwise the default stays.
    fn take<T: Shown>(&mut self, key: &str, place: &mut T, found: Result<Found<T>, String>) {
        let was_measured = place.is_known()
            && self.unmeasured.as_ref().is_some_and(|keys| !keys.contains_key(key));
        let (mut spread, mut left_out, mut default, mut earlier) = (None, None, None, None);
        match found {
            Ok(found) => {
                *place = found.value;
                (spread, left_out) = (Some(found.spread), found.left_out);
            }
            Err(reason) if was_measured => earlier = Some(reason),
            Err(reason) => default = Some(reason),
        }
        let (key, value) = (key.to_owned(), place.shown());
        self.all.push(Finding { key, value, spread, left_out, default, earlier });
    }
}

/// The profile of before with the values that could be measured.
pub(super) fn profile(
    before: Before,
    machine: Machine,
    situation: &Situation,
    measured: &Measured<'_>,
) -> Calibrated {
    let (before, unmeasured) = match before {
        Before::Measured(mut profile) => {
            let unmeasured = std::mem::take(&mut profile.defaults);
            (profile, Some(unmeasured))
        }
        Before::BuiltIn(profile) => (profile, None),
    };
    let mut profile = Profile { machine, defaults: BTreeMap::new(), ..before };
    let mut findings = Findings { all: Vec::new(), unmeasured };
    storage(&mut findings, Direction::Read, &mut profile.storage.read, (situation, measured));
    storage(&mut findings, Direction::Write, &mut profile.storage.write, (situation, measured));
    let memory = &mut profile.memory;
    let random = (memory.gather_random.clone(), memory.scatter_random.clone());
    let mut gather_random = random.0.unwrap_or_else(|| memory.gather.clone());
    let mut scatter_random = random.1.unwrap_or_else(|| memory.scatter.clone());
    for (key, (scatter, random), place) in [
        ("memory.gather", (false, false), &mut memory.gather),
        ("memory.scatter", (true, false), &mut memory.scatter),
        ("memory.gather_random", (false, true), &mut gather_random),
        ("memory.scatter_random", (true, true), &mut scatter_random),
    ] {
        let probe = |bytes| Probe::Copy { scatter, random, bytes };
        findings.take(key, place, measured.curve(&PIECE_BYTES, probe));
    }
    memory.gather_random = Some(gather_random);
    memory.scatter_random = Some(scatter_random);
    let copied = measured.concurrency(&situation.groups(), |ranks| Probe::CopyTogether { ranks });
    findings.take("memory.concurrent", &mut memory.concurrent, copied);
    let reused = measured.reused(|working_set| Probe::CopyReused { working_set });
    findings.take("memory.reused", &mut memory.reused, reused);
    others(&mut findings, &mut profile, (situation, measured));
    for finding in &findings.all {
        if let Some(reason) = &finding.default {
            profile.defaults.insert(finding.key.clone(), reason.clone());
        }
    }
    Calibrated { profile, findings: findings.all }
}

fn storage(
    findings: &mut Findings,
    direction: Direction,
    accesses: &mut Accesses,
    (situation, measured): (&Situation, &Measured<'_>),
) {
    let name = match direction {
        Direction::Read => "storage.read",
        Direction::Write => "storage.write",
    };
    let probe = |pattern, bytes| Probe::Access { direction, pattern, bytes };
    let curve = |pattern, lengths: &[u64]| measured.curve(lengths, |bytes| probe(pattern, bytes));
    let call = measured.estimate(probe(Pattern::Sequential, CACHED_BYTES[0]));
    let call = call.map(|call| Found::new(rounded(call.seconds * 1e6), call.spread));
    findings.take(&format!("{name}.call_us"), &mut accesses.call_us, call);
    let default = accesses.contiguous.clone();
    let mut contiguous = default.unwrap_or_else(|| accesses.sequential.clone());
    for (key, pattern, place) in [
        ("sequential", Pattern::Sequential, &mut accesses.sequential),
        ("contiguous", Pattern::Contiguous, &mut contiguous),
        ("scattered", Pattern::Scattered, &mut accesses.scattered),
    ] {
        findings.take(&format!("{name}.{key}"), place, curve(pattern, &CACHED_BYTES));
    }
    accesses.contiguous = Some(contiguous);
    let mut aligned = accesses.aligned.clone().unwrap_or_else(|| accesses.scattered.clone());
    let key = format!("{name}.aligned");
    findings.take(&key, &mut aligned, curve(Pattern::Aligned, &PAGES_BYTES));
    accesses.aligned = Some(aligned);
    if let Some(place) = &mut accesses.new_file {
        findings.take(&format!("{name}.new_file"), place, curve(Pattern::NewFile, &CACHED_BYTES));
    }
    // Where no access goes without the cache, there is nothing that a default could stand for.
    if !measured.is_measured(probe(Pattern::Direct, PAGES_BYTES[0])) {
        accesses.direct = None;
    }
    if let Some(place) = &mut accesses.direct {
        findings.take(&format!("{name}.direct"), place, curve(Pattern::Direct, &PAGES_BYTES));
    }
    let concurrent = |pattern| {
        let probe = |ranks| Probe::AccessTogether { direction, pattern, ranks };
        measured.concurrency(&situation.groups(), probe)
    };
    let place = &mut accesses.concurrent;
    findings.take(&format!("{name}.concurrent"), place, concurrent(Pattern::Sequential));
    let default = accesses.concurrent_contiguous.clone();
    let mut of_programs = default.unwrap_or_else(|| accesses.concurrent.clone());
    let key = format!("{name}.concurrent_contiguous");
    findings.take(&key, &mut of_programs, concurrent(Pattern::Contiguous));
    accesses.concurrent_contiguous = Some(of_programs);
    let probe = |ranks| Probe::MappedTogether { ranks };
    if direction == Direction::Write && measured.is_measured(probe(1)) {
        let default = accesses.mapped.clone();
        let mut mapped = default.unwrap_or_else(|| accesses.concurrent.clone());
        let found = measured.concurrency(&situation.groups(), probe);
        findings.take(&format!("{name}.mapped"), &mut mapped, found);
        accesses.mapped = Some(mapped);
    } else {
        (accesses.mapped, accesses.mapped_new_file) = (None, None);
    }
    let reused = measured.reused(|working_set| Probe::AccessReused { direction, working_set });
    findings.take(&format!("{name}.reused"), &mut accesses.reused, reused);
}

/// Messages, synchronisation and planning.
fn others(
    findings: &mut Findings,
    profile: &mut Profile,
    (situation, measured): (&Situation, &Measured<'_>),
) {
    let node = measured.link(situation.same_node, "no other rank is on the node of the first");
    findings.take("messages.node", &mut profile.messages.node, node);
    let network = measured.link(situation.other_node, "all ranks are on one node");
    findings.take("messages.network", &mut profile.messages.network, network);
    let synchronisation = &mut profile.synchronisation;
    findings.take(
        "synchronisation.barrier_step_us",
        &mut synchronisation.barrier_step_us,
        measured.barrier_step(situation),
    );
    findings.take(
        "synchronisation.oversubscribed_rank_us",
        &mut synchronisation.oversubscribed_rank_us,
        measured.oversubscribed_rank(situation),
    );
    let key = "synchronisation.wake_us";
    findings.take(key, &mut synchronisation.wake_us, measured.wake(situation));
    let planning = &mut profile.planning;
    findings.take("planning.rank_us", &mut planning.rank_us, measured.plan_rank(situation));
    findings.take("planning.piece_us", &mut planning.piece_us, measured.plan_piece());
}

/// A value for people.
trait Shown {
    fn shown(&self) -> String;

    /// Whether there is a value. A profile of an older version does not have all of them.
    fn is_known(&self) -> bool {
        true
    }
}

impl Shown for f64 {
    fn shown(&self) -> String {
        format!("{self:.3} us")
    }

    fn is_known(&self) -> bool {
        *self > 0.0
    }
}

impl Shown for Curve {
    fn shown(&self) -> String {
        let mut times = self.times_us();
        let first = times.next().map(|(bytes, us)| format!("{bytes} B in {us:.3} us"));
        let last = self.bytes_per_s.last().map(|bytes_per_s| rate(*bytes_per_s));
        format!("{} ... {}", first.unwrap_or_default(), last.unwrap_or_default())
    }
}

impl Shown for Concurrency {
    fn shown(&self) -> String {
        let both = self.ranks.iter().zip(&self.bytes_per_s);
        let parts: Vec<String> =
            both.map(|(ranks, bytes_per_s)| format!("{ranks}: {}", rate(*bytes_per_s))).collect();
        parts.join(", ")
    }
}

impl Shown for Reuse {
    fn shown(&self) -> String {
        match (self.bytes_per_s.first(), self.bytes_per_s.last()) {
            (Some(few), Some(many)) => format!("{} in caches, {} beyond", rate(*few), rate(*many)),
            _ => "not known".to_owned(),
        }
    }

    fn is_known(&self) -> bool {
        !self.is_empty()
    }
}

impl Shown for Link {
    fn shown(&self) -> String {
        format!("{:.3} us, {}", self.latency_us, rate(self.bytes_per_s))
    }
}

fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s >= 1e9 {
        true => format!("{:.2} GB/s", bytes_per_s / 1e9),
        false => format!("{:.2} MB/s", bytes_per_s / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITUATION: Situation =
        Situation { ranks: 4, cores: 4, same_node: Some(1), other_node: None };

    /// A machine that moves 1 GB/s after 1 us, wherever it is asked.
    fn seconds(probe: &Probe) -> f64 {
        let time = |bytes: u64| 1e-6 + u32::try_from(bytes).map_or(0.0, f64::from) / 1e9;
        match *probe {
            Probe::Access { bytes, .. } | Probe::Copy { bytes, .. } => time(bytes),
            Probe::Message { bytes, .. } => time(bytes),
            Probe::AccessTogether { ranks, .. }
            | Probe::MappedTogether { ranks }
            | Probe::CopyTogether { ranks } => f64::from(ranks) * 1e-3,
            Probe::AccessReused { working_set, .. } | Probe::CopyReused { working_set } => {
                if working_set <= 8 << 20 {
                    0.5e-6
                } else {
                    1e-6
                }
            }
            Probe::Barrier => 8e-6,
            Probe::Wake => 20e-6,
            Probe::Plan { pieces: 1 } => 12e-6,
            Probe::Plan { .. } => 12e-6 + 4096e-7,
        }
    }

    fn calibrated(change: impl Fn(&Probe, &mut Vec<f64>)) -> Calibrated {
        calibrated_after(Before::BuiltIn(Profile::built_in("hdd").unwrap()), change)
    }

    fn calibrated_after(before: Before, change: impl Fn(&Probe, &mut Vec<f64>)) -> Calibrated {
        let probes = Probe::all(&SITUATION);
        let samples: Vec<Vec<f64>> = probes
            .iter()
            .map(|probe| {
                let mut samples = vec![seconds(probe); 7];
                change(probe, &mut samples);
                samples
            })
            .collect();
        let measured = Measured { probes: &probes, samples: &samples, oversubscribed: None };
        let machine = Machine { cores: 4, ..Profile::built_in("hdd").unwrap().machine };
        profile(before, machine, &SITUATION, &measured)
    }

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-3, "{value} is not {expected}");
    }

    #[test]
    fn a_profile_predicts_what_was_measured() {
        let Calibrated { profile, .. } = calibrated(|_, _| {});
        profile.check().unwrap();
        near(profile.storage.read.sequential.us(65536), 66.536);
        near(profile.memory.gather.us(512), 1.512);
        near(profile.storage.write.concurrent.slowdown(4), 4.0);
        let reused = &profile.memory.reused;
        near(reused.saved_us(1024.0, 4 << 20, 1.0), 0.5);
        near(reused.saved_us(1024.0, 12 << 20, 1.0), 0.25);
        assert_eq!(profile.storage.read.reused, profile.memory.reused);
        near(profile.messages.node.latency_us, 1.008);
        near(profile.barrier_us(4), 8.0);
        near(profile.synchronisation.wake_us, 12.0);
        near(profile.planning.rank_us, 3.0);
        near(profile.planning.piece_us, 0.1);
        let kept: Vec<&str> = profile.defaults.keys().map(String::as_str).collect();
        assert_eq!(kept, ["messages.network", "synchronisation.oversubscribed_rank_us"]);
    }

    #[test]
    fn noisy_and_impossible_values_leave_the_default_and_are_named() {
        let is_gather = |probe: &Probe| {
            matches!(probe, Probe::Copy { scatter: false, random: false, bytes: 4..=4096 })
        };
        let message = Probe::Message { to: 1, bytes: MESSAGE_BYTES[1] };
        let Calibrated { profile, findings } = calibrated(|probe, samples| {
            if is_gather(probe) {
                *samples = (1..=7).map(|index| f64::from(index) * 1e-6).collect();
            } else if *probe == message {
                *samples = vec![1e-9; 7];
            }
        });
        profile.check().unwrap();
        let default = Profile::built_in("hdd").unwrap();
        assert_eq!(profile.memory.gather, default.memory.gather);
        assert_eq!(profile.messages.node, default.messages.node);
        assert!(profile.defaults["memory.gather"].contains("4096 bytes: noisy"));
        assert!(profile.defaults["messages.node"].contains("impossible"));
        let marked = findings.iter().filter(|finding| finding.default.is_some()).count();
        assert_eq!(marked, profile.defaults.len());
    }

    #[test]
    fn what_an_earlier_run_measured_stays() {
        let mut earlier = calibrated(|_, _| {}).profile;
        earlier.synchronisation.oversubscribed_rank_us = 77.0;
        earlier.defaults.remove("synchronisation.oversubscribed_rank_us");
        earlier.storage.write.call_us = 55.0;
        let Calibrated { profile, findings } =
            calibrated_after(Before::Measured(earlier), |_, _| {});
        near(profile.synchronisation.oversubscribed_rank_us, 77.0);
        near(profile.storage.write.call_us, 1.004);
        assert_eq!(profile.defaults.keys().collect::<Vec<_>>(), ["messages.network"]);
        let finding = findings.iter().find(|finding| finding.earlier.is_some()).unwrap();
        assert_eq!(finding.key, "synchronisation.oversubscribed_rank_us");
    }

    #[test]
    fn working_sets_need_the_one_that_fits_in_no_cache() {
        let noisy = |of: u64| {
            calibrated(move |probe, samples| {
                if *probe == (Probe::CopyReused { working_set: of }) {
                    *samples = (1..=7).map(|index| f64::from(index) * 1e-6).collect();
                }
            })
        };
        assert_eq!(noisy(8 << 20).profile.memory.reused.bytes.len(), WORKING_SETS.len() - 1);
        let Calibrated { profile, findings } = noisy(64 << 20);
        assert!(profile.memory.reused.is_empty());
        assert!(profile.defaults["memory.reused"].contains("67108864 bytes: noisy"));
        // What no run has measured is not of an earlier run.
        let again = calibrated_after(Before::Measured(profile), |probe, samples| {
            if matches!(probe, Probe::CopyReused { .. }) {
                samples.clear();
            }
        });
        assert!(again.profile.defaults.contains_key("memory.reused"));
        assert!(findings.iter().any(|finding| finding.key == "memory.reused"));
    }

    #[test]
    fn a_noisy_length_is_left_out_of_its_curve() {
        let noisy =
            Probe::Access { direction: Direction::Read, pattern: Pattern::Sequential, bytes: 4096 };
        let Calibrated { profile, findings } = calibrated(|probe, samples| {
            if *probe == noisy {
                *samples = (1..=7).map(|index| f64::from(index) * 1e-6).collect();
            }
        });
        let curve = &profile.storage.read.sequential;
        assert_eq!(curve.bytes, [4, 512, 65536, 1 << 20]);
        near(curve.us(4096), 1e0 + 4.096);
        let finding = findings.iter().find(|one| one.key == "storage.read.sequential").unwrap();
        assert!(finding.left_out.as_ref().unwrap().contains("4096 bytes: noisy"), "{finding:?}");
        assert_eq!(finding.default, None);
    }

    #[test]
    fn a_file_system_without_direct_access_has_no_such_curve() {
        let Calibrated { profile, .. } = calibrated(|probe, samples| {
            if matches!(probe, Probe::Access { pattern: Pattern::Direct, .. }) {
                samples.clear();
            }
        });
        assert_eq!((&profile.storage.read.direct, &profile.storage.write.direct), (&None, &None));
        profile.check().unwrap();
    }
}
