//! Recordings as a Chrome trace, which Perfetto reads: a process for each node, a thread for each
//! rank.
//!
//! Slices of one thread must lie inside each other or apart. Those of calls that overlap, as
//! non-blocking ones do, go to further threads of their rank.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde_json::{Value, json};

use super::records::{Call, Event, Recording};
use crate::failure::Failure;
use crate::output::Growing;

/// Threads of a rank, for calls that overlap.
const LANES: u64 = 8;

/// A trace that is written while recordings come, and has its name when it is whole.
pub(super) struct Trace {
    file: Growing,
    /// Processes and threads that have a name; several files have the same.
    named: HashSet<(u32, Option<u32>)>,
    is_first: bool,
    calls: u64,
}

impl Trace {
    /// Begins a trace.
    pub(super) fn create(path: &Path) -> Result<Trace, Failure> {
        let file = Growing::create(path)?;
        let mut trace = Trace { file, named: HashSet::new(), is_first: true, calls: 0 };
        trace.file.add(r#"{"displayTimeUnit":"ms","traceEvents":["#)?;
        Ok(trace)
    }

    /// Adds what was done with a file.
    pub(super) fn add(&mut self, recording: &Recording) -> Result<(), Failure> {
        self.calls += recording.calls.count();
        for event in names(recording, &mut self.named) {
            self.event(&event)?;
        }
        for slices in by_rank(recording) {
            for event in placed(recording, slices) {
                self.event(&event)?;
            }
        }
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// `Run` if there are no calls in it, or it cannot be written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if self.calls == 0 {
            let hint = "record one by pario run --stats=trace:FILE.jsonl";
            let text = format!("--perfetto: no recording among the inputs; {hint}");
            return Err(Failure::Run(text));
        }
        self.file.add("]}\n")?;
        self.file.finish()
    }

    fn event(&mut self, event: &Value) -> Result<(), Failure> {
        let comma = if self.is_first { "" } else { ",\n" };
        self.is_first = false;
        self.file.add(&format!("{comma}{event}"))
    }
}

fn node(recording: &Recording, rank: u32) -> u32 {
    let index = usize::try_from(rank).unwrap_or(usize::MAX);
    recording.node_of_rank.get(index).copied().unwrap_or(0)
}

/// Names of processes and threads that have none yet.
fn names(recording: &Recording, named: &mut HashSet<(u32, Option<u32>)>) -> Vec<Value> {
    let mut events = Vec::new();
    for node in 0..recording.nodes.max(1) {
        if named.insert((node, None)) {
            let name = json!({ "name": format!("node {node}") });
            events.push(json!({ "ph": "M", "name": "process_name", "pid": node, "args": name }));
        }
    }
    for rank in 0..recording.ranks {
        let (node, thread) = (node(recording, rank), thread(rank, 0));
        if named.insert((node, Some(rank))) {
            let name = json!({ "name": format!("rank {rank}") });
            events.push(json!({
                "ph": "M", "name": "thread_name", "pid": node, "tid": thread, "args": name,
            }));
            events.push(json!({
                "ph": "M", "name": "thread_sort_index", "pid": node, "tid": thread,
                "args": { "sort_index": thread },
            }));
        }
    }
    events
}

fn thread(rank: u32, lane: u64) -> u64 {
    // 0 is no thread to some readers.
    u64::from(rank) * LANES + lane + 1
}

/// A slice of time with its place.
struct Slice {
    begin: f64,
    end: f64,
    value: Value,
}

/// The slices of each rank that has any.
fn by_rank(recording: &Recording) -> BTreeMap<u32, Vec<Slice>> {
    let mut ranks: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    for call in &recording.calls {
        ranks.entry(call.rank).or_default().extend(of_call(call, &recording.file));
    }
    for event in &recording.events {
        ranks.entry(event.rank).or_default().push(of_access(event));
    }
    ranks
}

/// The slices of a rank in its threads.
fn placed(recording: &Recording, (rank, mut slices): (u32, Vec<Slice>)) -> Vec<Value> {
    // What contains another comes before it.
    slices.sort_by(|one, two| one.begin.total_cmp(&two.begin).then(two.end.total_cmp(&one.end)));
    let mut lanes: Vec<Vec<f64>> = Vec::new();
    let of_slice = |slice: Slice| {
        let lane = place(&mut lanes, &slice);
        let mut value = slice.value;
        value["pid"] = json!(node(recording, rank));
        value["tid"] = json!(thread(rank, lane));
        value
    };
    slices.into_iter().map(of_slice).collect()
}

/// The first lane where a slice lies inside what is open there, or after it. What is open is kept
/// as the ends of the slices around.
fn place(lanes: &mut Vec<Vec<f64>>, slice: &Slice) -> u64 {
    for (index, open) in (0..).zip(lanes.iter_mut()) {
        while open.last().is_some_and(|end| *end <= slice.begin) {
            open.pop();
        }
        if index + 1 == LANES || open.last().is_none_or(|end| slice.end <= *end) {
            open.push(slice.end);
            return index;
        }
    }
    lanes.push(vec![slice.end]);
    u64::try_from(lanes.len()).unwrap_or(1) - 1
}

fn slice(name: &str, category: &str, (begin, seconds): (f64, f64), arguments: Value) -> Slice {
    // Whole nanoseconds, so that neighbours do not overlap by rounding.
    let microseconds = |seconds: f64| (seconds * 1e9).round() / 1e3;
    let (from, to) = (microseconds(begin), microseconds(begin + seconds));
    let value = json!({
        "ph": "X", "name": name, "cat": category, "ts": from, "dur": to - from, "args": arguments,
    });
    Slice { begin: from, end: to, value }
}

fn of_call(call: &Call, file: &str) -> Vec<Slice> {
    let times = &call.times;
    let (waits, plans) = (times.synchronisation_seconds, times.planning_seconds);
    let whole = slice(
        &call.call,
        "call",
        (call.begin_seconds, call.seconds),
        json!({
            "file": file, "strategy": call.strategy, "reason": call.reason,
            "bytes": call.moved_bytes, "rounds": call.rounds, "aggregators": call.aggregators,
            "storage_ms": times.storage_seconds * 1e3, "exchange_ms": times.exchange_seconds * 1e3,
        }),
    );
    let inside = [
        ("synchronisation", call.begin_seconds, waits),
        ("planning", call.begin_seconds + waits, plans),
    ];
    let inside = inside.into_iter().filter(|(_, begin, seconds)| {
        *seconds > 0.0 && begin + seconds <= call.begin_seconds + call.seconds
    });
    let part = |(name, begin, seconds)| slice(name, "part", (begin, seconds), json!({}));
    std::iter::once(whole).chain(inside.map(part)).collect()
}

fn of_access(event: &Event) -> Slice {
    let arguments = json!({ "offset": event.offset, "bytes": event.bytes });
    slice(&event.what, "storage", (event.begin_seconds, event.seconds), arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_a_thread_lie_inside_each_other_or_apart() {
        let one = |begin, end| Slice { begin, end, value: Value::Null };
        let slices =
            [one(0.0, 10.0), one(1.0, 4.0), one(3.0, 12.0), one(4.0, 9.0), one(11.0, 12.0)];
        let mut lanes = Vec::new();
        let placed: Vec<u64> = slices.iter().map(|slice| place(&mut lanes, slice)).collect();
        assert_eq!(placed, [0, 0, 1, 0, 0]);
    }
}
