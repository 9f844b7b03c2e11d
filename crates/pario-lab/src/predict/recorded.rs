//! The calls of a program that was recorded: every way to serve each kind of them, beside what was
//! measured.
//!
//! The recording has what each rank asked for and the profile that it was planned with, so that the
//! same numbers come out here as in the program, on any machine.
//!
//! A collective counts from the moment when its last rank arrives: the time of the rank that waited
//! least. What others waited before is no cost of the call, and is said by itself.

use std::collections::BTreeMap;
use std::path::Path;

use pario::Strategy;
use pario::model::Direction;
use pario::model::profile::Profile;
use pario::plan::{Conditions, Plan, Request};

use super::Query;
use super::advice::{Change, Given, Now, hint_change, hint_set};
use super::answer::{Document, Measured, Scene, size, time};
use super::call;
use super::machine::Described;
use crate::failure::Failure;
use crate::hint;
use crate::scenario::question::{Answer, Question, explain};
use crate::show::recordings;
use crate::show::records::{Call, Hint, Recording};

#[cfg(test)]
mod tests;

/// Kinds of calls that are explained.
const KINDS_MAX: usize = 6;
/// Those with less of the time do not matter, once those before them have most of it.
const PERCENT_MIN: f64 = 5.0;
const PERCENT_MOST: f64 = 80.0;
/// Bytes that a rank can well keep in memory to move them by one call.
const COMBINED_BYTES_MAX: u64 = 64 << 20;
/// Fewer collectives are few.
const COLLECTIVES_MIN: usize = 4;
/// One call for many counts if it takes less than this part of the time.
const COMBINED_WORTH: f64 = 0.7;
/// A strategy that was measured to take less than this part of the time is better.
const FASTER_WORTH: f64 = 0.7;
/// From this factor on a prediction is wrong, where it is about more than some microseconds.
const WRONG: f64 = 3.0;
const WRONG_MIN_MS: f64 = 0.1;

/// A call of all ranks, or of one that calls for itself.
#[derive(Clone, Debug)]
struct Done<'a> {
    /// What is the same on all ranks.
    call: &'a Call,
    requests: Vec<Request>,
    /// From the arrival of the last rank.
    ms: f64,
    /// Planning, synchronisation, exchange, storage: the means of the ranks.
    parts_ms: [f64; 4],
    conditions: Conditions,
}

/// Calls of about the same size that were served in one way for one reason.
struct Kind<'a> {
    calls: Vec<Done<'a>>,
    /// Of a rank, in all of them.
    total_ms: f64,
}

/// Explains the calls of a recording: those kinds that take most of the time, the longest first.
///
/// # Errors
/// `Usage` if an option makes no sense, `Run` if the file cannot be read or the output written.
pub(super) fn documents(query: &Query, path: &Path) -> Result<Vec<Document>, Failure> {
    let recordings = recordings(path)?;
    let names = names(&recordings);
    let opens = recordings.iter().zip(&names);
    let opens = opens.map(|(recording, name)| Open::new(recording, name));
    let opens = opens.collect::<Result<Vec<Open<'_>>, Failure>>()?;
    let mut all: Vec<(&Open<'_>, &Kind<'_>)> =
        opens.iter().flat_map(|open| open.kinds.iter().map(move |kind| (open, kind))).collect();
    all.sort_by(|(_, one), (_, other)| other.total_ms.total_cmp(&one.total_ms));
    let all_ms: f64 = all.iter().map(|(_, kind)| kind.total_ms).sum();
    let percent = |ms: f64| 100.0 * ms / all_ms.max(f64::MIN_POSITIVE);
    let mut before = 0.0;
    let matters = all.iter().take_while(|(_, kind)| {
        let own = percent(kind.total_ms);
        before += own;
        own >= PERCENT_MIN || before - own < PERCENT_MOST
    });
    let matters = matters.count();
    let left_out = all.split_off(matters.clamp(1, KINDS_MAX).min(all.len()));
    let mut documents = Vec::new();
    for (open, kind) in all {
        documents.push(document(query, (open, kind), percent(kind.total_ms))?);
    }
    let Some(last) = documents.last_mut() else {
        let reason = unexplained(&recordings);
        return Err(Failure::Run(format!("{}: {reason}", path.display())));
    };
    opens.iter().flat_map(|open| open.notes(opens.len() > 1)).for_each(|note| last.note(note));
    if !left_out.is_empty() {
        let (count, ms) = (left_out.len(), left_out.iter().map(|(_, kind)| kind.total_ms).sum());
        let what = if count == 1 { "kind of calls" } else { "kinds of calls" };
        let (shown, percent) = (time(ms), percent(ms));
        last.note(format!("{count} other {what}: {shown} in all, {percent:.0} % of the time"));
    }
    Ok(documents)
}

/// A name for each recorded opening, without directories where that names one file only.
fn names(recordings: &[Recording]) -> Vec<String> {
    let short = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let name = |(index, recording): (usize, &Recording)| {
        let file = &recording.file;
        let is_alike = |other: &Recording| short(&other.file) == short(file) && other.file != *file;
        let name = match recordings.iter().any(is_alike) {
            true => file.clone(),
            false => short(file),
        };
        let same = |others: &[Recording]| others.iter().filter(|one| one.file == *file).count();
        let name = pario::escaped(&name).into_owned();
        match same(recordings) {
            1 => name,
            count => format!("{name}, opening {} of {count}", same(&recordings[..index]) + 1),
        }
    };
    recordings.iter().enumerate().map(name).collect()
}

/// A file that was opened, with its calls.
struct Open<'a> {
    recording: &'a Recording,
    name: &'a str,
    kinds: Vec<Kind<'a>>,
}

impl<'a> Open<'a> {
    fn new(recording: &'a Recording, name: &'a str) -> Result<Open<'a>, Failure> {
        if recording.calls.iter().any(|call| call.pieces.is_none()) {
            let text = "recorded by an earlier version of pario, without what was asked for";
            return Err(Failure::Run(format!("{}: {text}; record it again", recording.file)));
        }
        Ok(Open { recording, name, kinds: kinds(recording) })
    }

    /// What is to be said of the whole file; with its name where there are several.
    fn notes(&self, several: bool) -> Vec<String> {
        let (recording, mut notes) = (self.recording, Vec::new());
        for Hint { name, value, origin, reason } in &recording.ignored_hints {
            let text = format!("the hint {name}={value} ({origin}) is ignored: {reason}");
            notes.push(pario::escaped(&text).into_owned());
        }
        if recording.calls_missed > 0 {
            let missed = recording.calls_missed;
            notes.push(format!("{missed} more calls were not recorded, as there was no room"));
        }
        if !recording.of_all_ranks {
            notes.push("the file was not closed: only the calls of rank 0 are known".to_owned());
        }
        let named = |note: String| if several { format!("{}: {note}", self.name) } else { note };
        notes.into_iter().map(named).collect()
    }
}

/// Why nothing is explained of calls that were recorded.
fn unexplained(recordings: &[Recording]) -> String {
    let Some(recording) = recordings.iter().find(|recording| !recording.of_all_ranks) else {
        return "every read and write was refused, or moved nothing".to_owned();
    };
    let (file, count) = (&recording.file, recording.calls.len());
    format!(
        "the program was ended before it closed {file}: {count} calls of rank 0 are known, but \
         collectives are explained from those of all ranks; `pario report` shows what is there"
    )
}

/// The calls by kind.
fn kinds(recording: &Recording) -> Vec<Kind<'_>> {
    let all = collectives(recording).into_iter().chain(independent(recording));
    // Without a strategy, a call was refused.
    let served = all.filter(|done| done.call.strategy != Strategy::Auto.name());
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for done in served {
        let same = |kind: &&mut Kind<'_>| key(&kind.calls[0]) == key(&done);
        let share = if done.call.is_collective() { 1 } else { recording.ranks.max(1) };
        let own_ms = done.ms / f64::from(share);
        match kinds.iter_mut().find(same) {
            Some(kind) => {
                kind.total_ms += own_ms;
                kind.calls.push(done);
            }
            None => kinds.push(Kind { calls: vec![done], total_ms: own_ms }),
        }
    }
    kinds
}

/// What calls of one kind share.
fn key<'a>(done: &Done<'a>) -> (&'a str, &'a str, (&'a str, Option<u32>, Option<u32>)) {
    (&done.call.strategy, &done.call.reason, shape(done))
}

/// What was asked for; sizes within a power of two.
fn shape<'a>(done: &Done<'a>) -> (&'a str, Option<u32>, Option<u32>) {
    let (bytes, piece_bytes) = sizes(&done.requests);
    (&done.call.call, bytes.checked_ilog2(), piece_bytes.checked_ilog2())
}

impl Kind<'_> {
    /// Whether calls of another kind ask for about the same.
    fn is_like(&self, other: &Kind<'_>) -> bool {
        shape(&self.calls[0]) == shape(&other.calls[0])
    }
}

/// Bytes of all requests, and the mean length of their pieces.
fn sizes(requests: &[Request]) -> (u64, u64) {
    let bytes = requests.iter().map(|request| request.bytes).sum();
    let pieces: u64 = requests.iter().map(Request::pieces).sum();
    (bytes, bytes / pieces.max(1))
}

fn parts_ms(call: &Call) -> [f64; 4] {
    let times = &call.times;
    let seconds = [
        times.planning_seconds,
        times.synchronisation_seconds,
        times.exchange_seconds,
        times.storage_seconds,
    ];
    seconds.map(|seconds| seconds * 1e3)
}

/// The collective calls of which all ranks have a record, by their numbers. In recordings of
/// earlier versions they have none: the first of all ranks, then the second, and so on.
fn collectives(recording: &Recording) -> Vec<Done<'_>> {
    let ranks = usize::try_from(recording.ranks).unwrap_or(0);
    let mut all: Vec<&Call> = recording.calls.iter().filter(|call| call.is_collective()).collect();
    all.sort_by(|one, other| one.begin_seconds.total_cmp(&other.begin_seconds));
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    let mut numbered: BTreeMap<u64, BTreeMap<u32, &Call>> = BTreeMap::new();
    for call in all {
        let count = counts.entry(call.rank).or_default();
        numbered.entry(call.number.unwrap_or(*count)).or_default().insert(call.rank, call);
        *count += 1;
    }
    let whole = numbered.into_values().filter(|calls| calls.len() == ranks);
    whole.filter_map(|calls| together(&calls.into_values().collect::<Vec<&Call>>())).collect()
}

/// One call of all ranks.
fn together<'a>(calls: &[&'a Call]) -> Option<Done<'a>> {
    let first = *calls.first()?;
    let waited = |call: &&&Call| call.times.synchronisation_seconds;
    let last = calls.iter().min_by(|one, other| waited(one).total_cmp(&waited(other)))?;
    let mut parts = [0.0; 4];
    for call in calls {
        let own = parts.iter_mut().zip(parts_ms(call));
        own.for_each(|(sum, ms)| *sum += ms / f64::from(u32::try_from(calls.len()).unwrap_or(1)));
    }
    Some(Done {
        call: first,
        requests: calls.iter().map(|call| call.request()).collect(),
        ms: last.seconds * 1e3,
        parts_ms: parts,
        conditions: first.conditions(),
    })
}

fn independent(recording: &Recording) -> Vec<Done<'_>> {
    let done = |call| Done {
        call,
        requests: vec![call.request()],
        ms: call.seconds * 1e3,
        parts_ms: parts_ms(call),
        conditions: call.conditions(),
    };
    recording.calls.iter().filter(|call| !call.is_collective()).map(done).collect()
}

/// What is known of the file and the machine.
struct Setting<'a> {
    recording: &'a Recording,
    /// As people read it.
    name: &'a str,
    described: Described,
    given: Vec<Given>,
    /// Whether the hints are not those of the program.
    is_changed: bool,
}

impl Setting<'_> {
    fn question(&self, requests: Vec<Request>, conditions: Conditions) -> Question {
        let (recording, profile) = (self.recording, self.described.profile.clone());
        let mut question = Question::new(conditions.direction, requests, profile);
        question.conditions = conditions;
        let file = &mut question.file;
        file.nodes = match recording.node_of_rank.is_empty() {
            true => vec![0; usize::try_from(recording.ranks).unwrap_or(1)],
            false => recording.node_of_rank.clone(),
        };
        let last = file.nodes.iter().max().and_then(|&last| usize::try_from(last).ok());
        let nodes = last.map_or(1, |last| last + 1);
        file.cores = match recording.cores_of_node.len() == nodes {
            true => recording.cores_of_node.clone(),
            false => vec![recording.cores_of_node.iter().copied().max().unwrap_or(1); nodes],
        };
        if let Some(storage) = recording.storage {
            file.shared_bytes = if nodes == 1 { storage.shared_bytes } else { 0 };
            file.block_bytes = storage.block_bytes.max(1);
            file.in_memory = storage.in_memory;
            file.range_locks = storage.range_locks;
            file.readable = storage.readable;
            file.mapped_writes = storage.mapped_writes;
            file.unique_open = storage.unique_open;
        }
        question.hints = hint_set(&self.given);
        question
    }
}

fn setting<'a>(query: &Query, open: &Open<'a>) -> Result<Setting<'a>, Failure> {
    let (recording, name) = (open.recording, open.name);
    let described = match &*recording.profile {
        _ if query.profile.is_some() => call::described(query, "threads")?,
        "" => call::described(query, "threads")?,
        name => {
            let recorded = recorded_profile(name)
                .map_err(|error| Failure::Run(format!("{}: {error}", recording.file)))?;
            call::replaced(query, recorded)
        }
    };
    hint::resolve(&query.hints)?;
    // A hint of the command line replaces one of the program.
    let is_new = |hint: &&Hint| query.hints.iter().all(|(name, _)| *name != hint.name);
    let is_given = |hint: &&Hint| {
        !matches!(&*hint.origin, "default" | "file") && hint.name != "pario_statistics"
    };
    let kept = recording.hints.iter().filter(is_given).filter(is_new).map(|hint| Given {
        name: hint.name.clone(),
        value: hint.value.clone(),
        origin: hint.origin.clone(),
    });
    let given = kept.chain(call::given(query)).collect();
    Ok(Setting { recording, name, described, given, is_changed: !query.hints.is_empty() })
}

/// The name of a built-in profile, or the text of another one.
fn recorded_profile(text: &str) -> pario::Result<Described> {
    if let Some(profile) = Profile::built_in(text) {
        let origin = format!("{text}, built in; `pario calibrate` measures this machine");
        return Ok(Described { profile, origin });
    }
    let profile = Profile::parse(text)?;
    let origin = format!("of {}, as recorded", profile.machine.host);
    Ok(Described { profile, origin })
}

fn document(
    query: &Query,
    (open, kind): (&Open<'_>, &Kind<'_>),
    share_percent: f64,
) -> Result<Document, Failure> {
    let setting = &setting(query, open)?;
    let alike: Vec<&Kind<'_>> = open.kinds.iter().filter(|other| other.is_like(kind)).collect();
    let usage = |error: pario::Error| Failure::Usage(error.to_string());
    let done = median(&kind.calls);
    let question = setting.question(done.requests.clone(), done.conditions);
    let answer = explain(&question).map_err(usage)?;
    let recorded = (!setting.is_changed).then(|| taken(&answer, done.call)).flatten();
    let (taken, reason) = match recorded {
        Some(way) => (way, &*done.call.reason),
        None => (answer.chosen(), answer.chosen().reason),
    };
    let now_ms = taken.total_us() / 1e3;
    // Other hints are another way, of which nothing was measured.
    let measured_ms = (!setting.is_changed).then_some(done.ms);
    let now = Now { predicted_ms: now_ms, measured_ms };
    let hint = hint_change(&question, &setting.given, now).map_err(usage)?;
    let faster = faster(&alike, &done, &answer);
    let combined = combined(setting, kind, (&question, now_ms)).map_err(usage)?;
    let changes: Vec<Change> = hint.into_iter().chain(faster).chain(combined).collect();
    let scene = scene(setting, kind, &question, share_percent);
    let mut document = Document::new(scene, &answer, (taken, reason));
    document.measure(|row| {
        let same = |done: &Done<'_>| done.call.strategy == row.strategy;
        let other = || alike.iter().map(|kind| median(&kind.calls)).find(same);
        let found = if same(&done) { Some(done.clone()) } else { other() };
        found.map(|done| Measured { ms: done.ms, parts_ms: Some(done.parts_ms) })
    });
    document.advise(changes);
    remarks(&done, now_ms).into_iter().for_each(|remark| document.note(remark));
    Ok(document)
}

/// A strategy that served calls like this one clearly faster, several times.
fn faster(alike: &[&Kind<'_>], done: &Done<'_>, answer: &Answer) -> Option<Change> {
    let often = alike.iter().filter(|kind| kind.calls.len() > 1);
    let others = often.map(|kind| (median(&kind.calls), kind.calls.len()));
    let others = others.filter(|(other, _)| other.call.strategy != done.call.strategy);
    let (best, count) = others.min_by(|(one, _), (other, _)| one.ms.total_cmp(&other.ms))?;
    let strategy = best.call.strategy.clone();
    let predicted_us = taken(answer, best.call).map_or(0.0, Plan::total_us);
    let what = format!(
        "give the hint pario_strategy={strategy}: it took {} in {count} calls like these, instead \
         of {}; to try it: pario run --hint pario_strategy={strategy} -- COMMAND",
        time(best.ms),
        time(done.ms)
    );
    let (hint, value) = (Some("pario_strategy".to_owned()), Some(strategy));
    let change = Change { what, hint, value, predicted_ms: predicted_us / 1e3 };
    (best.ms < FASTER_WORTH * done.ms).then_some(change)
}

/// The call with the median time.
fn median<'a>(calls: &[Done<'a>]) -> Done<'a> {
    let mut sorted: Vec<&Done<'a>> = calls.iter().collect();
    sorted.sort_by(|one, other| one.ms.total_cmp(&other.ms));
    sorted[sorted.len() / 2].clone()
}

/// The way that served a call.
fn taken<'a>(answer: &'a Answer, call: &Call) -> Option<&'a Plan> {
    let strategy: Strategy = call.strategy.parse().ok()?;
    let same = || answer.ways.iter().filter(move |way| way.strategy == strategy);
    let exact = same().find(|way| {
        way.aggregators(answer.ranks) == call.aggregators && way.rounds() == call.rounds
    });
    exact.or_else(|| same().min_by(|one, other| one.total_us().total_cmp(&other.total_us())))
}

fn scene(setting: &Setting<'_>, kind: &Kind<'_>, question: &Question, share_percent: f64) -> Scene {
    let Recording { ranks, nodes, .. } = setting.recording;
    let (count, call) = (kind.calls.len(), &kind.calls[0].call.call);
    let (bytes, piece_bytes) = sizes(&question.requests);
    let name = setting.name;
    let times = match (count, question.conditions.collective) {
        (1, _) => "once".to_owned(),
        (count, true) => format!("{count} times"),
        (count, false) => format!("{count} times on all ranks together"),
    };
    let total = time(kind.total_ms);
    Scene {
        workload: format!("{name}: {call}"),
        shape: format!("{times}, {total} of a rank's time, {share_percent:.0} % of all calls"),
        direction: question.conditions.direction.name(),
        ranks: *ranks,
        nodes: *nodes,
        cores: question.file.cores.iter().copied().max().unwrap_or(1),
        collective: question.conditions.collective,
        profile: setting.described.origin.clone(),
        bytes,
        piece_bytes,
        calls: Some(u64::try_from(count).unwrap_or(u64::MAX)),
        share_percent: Some(share_percent),
    }
}

/// What the measured times say.
fn remarks(done: &Done<'_>, predicted_ms: f64) -> Vec<String> {
    let mut remarks = Vec::new();
    let waiting_ms = done.parts_ms[1];
    if waiting_ms > done.ms {
        remarks.push(format!(
            "ranks wait {} on average for the last one, which the call does not cause: let all \
             ranks reach it at the same time",
            time(waiting_ms)
        ));
    }
    let ratio = done.ms / predicted_ms.max(f64::MIN_POSITIVE);
    let is_wrong = !(1.0 / WRONG..=WRONG).contains(&ratio);
    if is_wrong && done.ms.max(predicted_ms) > WRONG_MIN_MS {
        remarks.push(format!(
            "it took {ratio:.1} times as long as predicted: `pario calibrate` measures the profile \
             of this machine, or something else slowed it down"
        ));
    }
    remarks
}

/// Many calls as one collective call, if that is predicted to be clearly faster than all of them by
/// themselves. One of them is a question that has a predicted time.
fn combined(
    setting: &Setting<'_>,
    kind: &Kind<'_>,
    (single, single_ms): (&Question, f64),
) -> pario::Result<Option<Change>> {
    let Conditions { direction, correction, .. } = single.conditions;
    let together = kind.calls[0].call.is_collective();
    let ranks = usize::try_from(setting.recording.ranks).unwrap_or(1);
    let mut sums = vec![Sum::default(); ranks];
    for done in &kind.calls {
        let rank = usize::try_from(done.call.rank).unwrap_or(0);
        for (number, request) in done.requests.iter().enumerate() {
            let place = if together { number } else { rank };
            if let Some(sum) = sums.get_mut(place) {
                sum.add(request, done.ms);
            }
        }
    }
    let calls = sums.iter().map(|sum| sum.runs.len()).max().unwrap_or(0);
    let callers = sums.iter().filter(|sum| !sum.runs.is_empty()).count();
    let is_many = match together {
        true => calls >= COLLECTIVES_MIN,
        false => calls > 1 || callers > 1,
    };
    if !is_many {
        return Ok(None);
    }
    let requests: Option<Vec<Request>> = sums.iter().map(Sum::request).collect();
    let Some(requests) = requests else { return Ok(None) };
    let now = Now {
        predicted_ms: single_ms * f64::from(u32::try_from(calls).unwrap_or(u32::MAX)),
        measured_ms: Some(sums.iter().map(|sum| sum.ms).fold(0.0, f64::max)),
    };
    let bytes = requests.iter().map(|request| request.bytes).max().unwrap_or(0);
    let conditions = match ranks {
        1 => Conditions::independent(direction),
        _ => Conditions::collective(direction),
    };
    let question = setting.question(requests, Conditions { correction, ..conditions });
    let answer = explain(&question)?;
    let predicted_ms = answer.chosen().total_us() / 1e3;
    let name = match (direction, ranks) {
        (Direction::Read, 1) => "MPI_File_read_at",
        (Direction::Write, 1) => "MPI_File_write_at",
        (Direction::Read, _) => "MPI_File_read_at_all",
        (Direction::Write, _) => "MPI_File_write_at_all",
    };
    let what = format!(
        "move {calls} calls of each rank by one {name}, with a view of all their pieces ({} of a \
         rank): {} is predicted to take {} instead of {now}",
        size(bytes),
        answer.chosen().strategy,
        time(predicted_ms),
    );
    let change = Change { what, hint: None, value: None, predicted_ms };
    Ok(now.is_worth(predicted_ms, COMBINED_WORTH).then_some(change))
}

/// The calls of a rank, as one.
#[derive(Clone, Debug, Default)]
struct Sum {
    runs: Vec<Request>,
    bytes: u64,
    ms: f64,
}

impl Sum {
    fn add(&mut self, request: &Request, ms: f64) {
        if self.bytes + request.bytes <= COMBINED_BYTES_MAX {
            self.bytes += request.bytes;
            self.ms += ms;
            self.runs.push(*request);
        }
    }

    /// None if calls name the same bytes, which one call cannot.
    fn request(&self) -> Option<Request> {
        let mut sorted = self.runs.clone();
        sorted.sort_by_key(|request| request.start);
        let start = sorted.first().map_or(0, |first| first.start);
        let end = sorted.iter().map(|request| request.end).max().unwrap_or(start);
        let touching = |pair: &&[Request]| {
            let contiguous = |request: &Request| request.end - request.start == request.bytes;
            pair[0].end == pair[1].start && contiguous(&pair[0]) && contiguous(&pair[1])
        };
        let joined = u64::try_from(sorted.windows(2).filter(touching).count()).unwrap_or(0);
        let pieces = sorted.iter().map(Request::pieces).sum::<u64>().saturating_sub(joined).max(1);
        let distinct = sorted.windows(2).all(|pair| pair[0].start != pair[1].start);
        let piece_bytes = (self.bytes / pieces).max(1);
        let request = Request::of_pieces(start..end, self.bytes, piece_bytes);
        (self.bytes <= end - start && distinct).then_some(request)
    }
}
