//! Statistics for programs: one JSON object a line for each file, with every call.
//!
//! Each rank keeps its calls, and the storage accesses if these are traced, up to a number; what
//! comes later is only counted, so that memory stays bounded. The close of the file brings the
//! records of all ranks together as text, which nobody has to understand on the way, and rank 0
//! appends one line to the file of the recording.
//!
//! Times count from the open of the file on rank 0, by the clocks of the nodes: between nodes
//! they are as good as the nodes' clocks agree.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::json::Object;
use super::platform::Platform;
use super::{Asked, CallStatistics, ServedCalls, Summary};
use crate::access::InMemory;
use crate::datatype::wire::{Reader, Writer};
use crate::error::Result;
use crate::hints::HintOrigin;
use crate::model::profile::Profile;
use crate::own_file;
use crate::plan::{Correction, Doubt, FileFacts, Observed};
use crate::storage::{AccessLog, TimedAccess};

/// Calls that all ranks keep together, and each at least and at most.
const CALLS: (u32, u32, u32) = (1 << 15, 16, 1024);
/// The same for storage accesses.
const ACCESSES: (u32, u32, u32) = (1 << 17, 64, 4096);

/// How many calls a rank keeps.
pub(crate) fn calls_max(ranks: u32) -> usize {
    share(CALLS, ranks)
}

/// How many storage accesses a rank keeps.
pub(crate) fn accesses_max(ranks: u32) -> usize {
    share(ACCESSES, ranks)
}

fn share((all, least, most): (u32, u32, u32), ranks: u32) -> usize {
    usize::try_from((all / ranks.max(1)).clamp(least, most)).unwrap_or(usize::MAX)
}

/// When a file was opened, on the clock that measures and on the one that ranks share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenTime {
    pub(crate) instant: Instant,
    /// Since 1970.
    pub(crate) unix: Duration,
}

impl OpenTime {
    pub(crate) fn now() -> OpenTime {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        OpenTime { instant: Instant::now(), unix }
    }

    /// Seconds from another open until something that happened after this one.
    fn seconds_since(&self, other_unix: Duration, begin: Duration) -> f64 {
        let then = self.unix + begin;
        match then.checked_sub(other_unix) {
            Some(after) => after.as_secs_f64(),
            None => -(other_unix - then).as_secs_f64(),
        }
    }
}

/// The calls of one rank.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    calls: Vec<(Duration, Duration, CallStatistics)>,
    missed: u64,
}

impl Recorder {
    /// Adds a call that began so long after the open, and lasted so long.
    pub(crate) fn add(
        &mut self,
        calls_max: usize,
        (begin, lasted): (Duration, Duration),
        statistics: CallStatistics,
    ) {
        match self.calls.len() < calls_max {
            true => self.calls.push((begin, lasted, statistics)),
            false => self.missed += 1,
        }
    }
}

/// A call as JSON.
fn call_record(rank: u32, (begin, seconds): (f64, f64), call: &CallStatistics) -> String {
    let object = Object::new()
        .number("rank", rank)
        .text("call", call.call)
        .text("strategy", call.strategy.name())
        .text("reason", call.reason)
        .text("windows", call.windows)
        .number("rounds", call.rounds)
        .number("aggregators", call.aggregators)
        .number("planned", call.planned)
        .number("number", call.number);
    let object = match &call.asked {
        Some(asked) => asked_record(object, asked),
        None => object,
    };
    let counts = CallStatistics::COUNTS.into_iter().zip(call.counts());
    let object = counts.fold(object, |object, (name, count)| object.number(name, count));
    let object = object.number("begin_seconds", begin).number("seconds", seconds);
    let times = CallStatistics::TIMES.into_iter().zip(call.times());
    let object = times.fold(object, |object, (name, time)| {
        object.number(&format!("{name}_seconds"), time.as_secs_f64())
    });
    let phases = call.phases.iter().map(|phase| phase.as_secs_f64().to_string());
    object.list("phase_seconds", phases).finish()
}

/// Adds what was asked for: all that it takes to plan the call again.
fn asked_record(object: Object, Asked { request, conditions }: &Asked) -> Object {
    let object = object
        .number("offset", request.start)
        .number("end_offset", request.end)
        .number("pieces", request.pieces())
        .number("piece_bytes", request.piece_bytes)
        .number("sorted", request.sorted)
        .number("memory_in_order", request.memory.in_order)
        .number("collective", conditions.collective)
        .number("regular", conditions.regular)
        .number("atomic", conditions.atomic)
        .number("undisturbed", conditions.undisturbed)
        .number("overlaps", conditions.overlaps);
    let object = match request.memory {
        InMemory { piece_bytes: u64::MAX, .. } => object,
        InMemory { piece_bytes, .. } => object.number("memory_piece_bytes", piece_bytes),
    };
    let object = match conditions.doubt {
        Some(doubt) => object.raw("doubt", &doubt_record(&doubt)),
        None => object,
    };
    // Most often the profile is all that predictions follow, and nothing is said.
    if conditions.correction == Correction::default() {
        return object;
    }
    let Correction { independent, sieve, shared, messages, phases, some_phases } =
        conditions.correction;
    let kinds = [
        ("independent", independent),
        ("sieve", sieve),
        ("shared", shared),
        ("messages", messages),
        ("phases", phases),
        ("some_phases", some_phases),
    ];
    let factors = kinds.into_iter().fold(Object::new(), |all, (kind, factors)| {
        let of_kind = Object::new()
            .number("exchange", factors.exchange)
            .number("storage_call", factors.storage_call)
            .number("storage_byte", factors.storage_byte);
        all.raw(kind, &of_kind.finish())
    });
    object.raw("correction", &factors.finish())
}

/// What was not known of ways that no call had used, as JSON.
fn doubt_record(doubt: &Doubt) -> String {
    let observed = doubt.observed.iter().map(|one| match one {
        None => "null".to_owned(),
        Some(Observed { us, calls_us, bytes_us }) => {
            let object = Object::new().number("us", us).number("calls_us", calls_us);
            object.number("bytes_us", bytes_us).finish()
        }
    });
    let untried = doubt.untried.iter().map(bool::to_string);
    let object = Object::new().list("untried", untried).list("observed", observed);
    object.number("missed_us", doubt.missed_us).finish()
}

/// A storage access as JSON.
fn access_record(rank: u32, begin_seconds: f64, access: &TimedAccess) -> String {
    Object::new()
        .number("rank", rank)
        .text("what", access.what)
        .number("begin_seconds", begin_seconds)
        .number("seconds", access.lasted.as_secs_f64())
        .number("offset", access.offset)
        .number("bytes", access.len)
        .finish()
}

/// RankRecords of one rank or of several, as JSON without the brackets around.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RankRecords {
    calls: String,
    events: String,
    calls_missed: u64,
    events_missed: u64,
}

impl RankRecords {
    /// What one rank has; times count from an open on the clock that ranks share.
    pub(crate) fn new(
        rank: u32,
        (opened, base_unix): (&OpenTime, Duration),
        recorder: &Recorder,
        accesses: Option<&AccessLog>,
    ) -> RankRecords {
        let calls = recorder.calls.iter().map(|(begin, lasted, call)| {
            let begin = opened.seconds_since(base_unix, *begin);
            call_record(rank, (begin, lasted.as_secs_f64()), call)
        });
        let (events, events_missed) = accesses.map(AccessLog::kept).unwrap_or_default();
        let events = events.iter().map(|access| {
            access_record(rank, opened.seconds_since(base_unix, access.begin), access)
        });
        RankRecords {
            calls: calls.collect::<Vec<String>>().join(","),
            events: events.collect::<Vec<String>>().join(","),
            calls_missed: recorder.missed,
            events_missed,
        }
    }

    pub(crate) fn to_wire(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.text(self.calls.as_bytes());
        writer.text(self.events.as_bytes());
        writer.unsigned(self.calls_missed);
        writer.unsigned(self.events_missed);
        writer.bytes
    }

    pub(crate) fn from_wire(wire: &[u8]) -> Result<RankRecords> {
        let mut reader = Reader::new(wire);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let records = RankRecords {
            calls: text(reader.text()?),
            events: text(reader.text()?),
            calls_missed: reader.unsigned()?,
            events_missed: reader.unsigned()?,
        };
        reader.finish()?;
        Ok(records)
    }

    /// Adds those of other ranks.
    pub(crate) fn join(&mut self, other: &RankRecords) {
        let parts = [(&mut self.calls, &other.calls), (&mut self.events, &other.events)];
        for (own, other) in parts {
            if !own.is_empty() && !other.is_empty() {
                own.push(',');
            }
            *own += other;
        }
        self.calls_missed += other.calls_missed;
        self.events_missed += other.events_missed;
    }
}

/// A hint as JSON; `reason` says why it was ignored, if it was.
fn hint_record((name, value): (&str, &str), origin: HintOrigin, reason: &str) -> String {
    let hint = Object::new().text("name", name).text("value", value);
    let hint = hint.text("origin", &origin.to_string());
    let hint = if reason.is_empty() { hint } else { hint.text("reason", reason) };
    hint.finish()
}

/// Calls of one kind, over all ranks, as JSON.
fn served_record(served: &ServedCalls) -> String {
    Object::new()
        .text("call", &served.call)
        .text("strategy", served.strategy.name())
        .text("reason", &served.reason)
        .number("calls", served.calls)
        .number("requested_bytes", served.requested_bytes)
        .number("moved_bytes", served.moved_bytes)
        .finish()
}

/// What planners know of the file, as JSON.
fn storage_record(facts: &FileFacts) -> String {
    Object::new()
        .number("shared_bytes", facts.shared_bytes)
        .number("block_bytes", facts.block_bytes)
        .number("in_memory", facts.in_memory)
        .number("range_locks", facts.range_locks)
        .number("readable", facts.readable)
        .number("mapped_writes", facts.mapped_writes)
        .number("unique_open", facts.unique_open)
        .finish()
}

/// The name of a built-in profile, or the text of one that was measured: at most 64 KiB.
fn profile_record(profile: &Profile) -> String {
    let is_it = |name: &&str| Profile::built_in(name).as_ref() == Some(profile);
    match Profile::built_in_names().find(is_it) {
        Some(name) => name.to_owned(),
        None => profile.to_text().unwrap_or_default(),
    }
}

/// A summary as a line of JSON.
pub(super) fn line(summary: &Summary, records: &RankRecords) -> String {
    let Platform { cores, processor, system } = Platform::here();
    let machine = Object::new().number("cores", cores).text("processor", &processor);
    let machine = machine.text("system", &system).finish();
    let (effective, ignored) = (&summary.hints.effective, &summary.hints.ignored);
    let effective = effective.iter().map(|one| hint_record((one.name, &one.value), one.origin, ""));
    let ignored =
        ignored.iter().map(|one| hint_record((&one.name, &one.value), one.origin, &one.reason));
    let line = Object::new()
        .text("kind", "statistics")
        .text("pario", env!("CARGO_PKG_VERSION"))
        .number("unix_seconds", summary.unix_seconds)
        .text("file", &summary.name)
        .number("ranks", summary.ranks)
        .number("nodes", summary.nodes)
        .list("node_of_rank", summary.facts.nodes.iter().map(u32::to_string))
        .list("cores_of_node", summary.facts.cores.iter().map(u32::to_string))
        .text("mode", &summary.mode.to_string())
        .raw("storage", &storage_record(&summary.facts))
        .text("profile", &profile_record(&summary.facts.profile))
        // Otherwise the file was not closed, and the records are those of one rank.
        .number("of_all_ranks", summary.of_all_ranks || summary.ranks == 1)
        .raw("machine", &machine)
        .list("hints", effective)
        .list("ignored_hints", ignored)
        .list("served", summary.statistics.served.iter().map(served_record))
        .list("calls", [&records.calls])
        .number("calls_missed", records.calls_missed)
        .list("events", [&records.events])
        .number("events_missed", records.events_missed);
    line.finish() + "\n"
}

/// Appends a line to a file, in one piece also where several processes do so.
pub(super) fn append(path: &str, line: &str) -> io::Result<()> {
    let file = own_file::open_for_statistics(Path::new(path))?;
    lock_if_free(&file);
    own_file::append(&file, line.as_bytes())
}

/// Locks a file against the lines of other processes. One that keeps the lock for long is not
/// waited for: without the lock, the write is one call for all but the longest lines.
fn lock_if_free(file: &File) {
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(rank: u32, calls: u64) -> RankRecords {
        let opened = OpenTime { instant: Instant::now(), unix: Duration::from_secs(100) };
        let mut recorder = Recorder::default();
        for number in 0..calls {
            let times = (Duration::from_secs(number), Duration::from_millis(5));
            recorder.add(2, times, CallStatistics { call: "write", ..Default::default() });
        }
        RankRecords::new(rank, (&opened, Duration::from_secs(101)), &recorder, None)
    }

    #[test]
    fn records_of_ranks_are_joined_and_what_has_no_room_is_counted() {
        let mut all = records(0, 1);
        let other = records(1, 5);
        all.join(&RankRecords::from_wire(&other.to_wire()).unwrap());
        all.join(&records(2, 0));
        let found: Vec<&str> = all.calls.split("{\"rank\":").skip(1).map(|one| &one[..1]).collect();
        assert_eq!((found.as_slice(), all.calls_missed), (&["0", "1", "1"][..], 3));
        let begins: Vec<_> = all.calls.split("\"begin_seconds\":").skip(1).collect();
        assert!(begins[0].starts_with("-1,") && begins[2].starts_with("0,"), "{begins:?}");
    }

    #[test]
    fn a_cut_wire_is_refused() {
        let wire = records(3, 2).to_wire();
        for len in 0..wire.len() {
            assert!(RankRecords::from_wire(&wire[..len]).is_err());
        }
    }

    #[test]
    fn many_ranks_keep_less_each() {
        assert_eq!((calls_max(1), calls_max(64), calls_max(100_000)), (1024, 512, 16));
        assert_eq!(accesses_max(0), 4096);
    }
}
