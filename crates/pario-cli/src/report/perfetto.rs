//! Recordings as a Chrome trace, which Perfetto reads: a process for each node, a thread for each
//! rank.
//!
//! Slices of one thread must lie inside each other or apart. Those of calls that overlap, as
//! non-blocking ones do, go to further threads of their rank.

use serde_json::{Value, json};

use super::records::{Call, Event, Recording};

/// Threads of a rank, for calls that overlap.
const LANES: u64 = 8;

/// The trace of all files.
pub(super) fn text(recordings: &[Recording]) -> String {
    let mut events = Vec::new();
    for recording in recordings {
        names(recording, &mut events);
        for rank in 0..recording.ranks {
            of_rank(recording, rank, &mut events);
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    // Several files have the same processes and threads.
    events.retain(|event| event["ph"] != "M" || seen.insert(event.to_string()));
    json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string() + "\n"
}

fn node(recording: &Recording, rank: u32) -> u32 {
    let index = usize::try_from(rank).unwrap_or(usize::MAX);
    recording.node_of_rank.get(index).copied().unwrap_or(0)
}

fn names(recording: &Recording, events: &mut Vec<Value>) {
    for node in 0..recording.nodes.max(1) {
        let name = json!({ "name": format!("node {node}") });
        events.push(json!({ "ph": "M", "name": "process_name", "pid": node, "args": name }));
    }
    for rank in 0..recording.ranks {
        let thread = thread(rank, 0);
        let name = json!({ "name": format!("rank {rank}") });
        events.push(json!({
            "ph": "M", "name": "thread_name", "pid": node(recording, rank), "tid": thread,
            "args": name,
        }));
        events.push(json!({
            "ph": "M", "name": "thread_sort_index", "pid": node(recording, rank), "tid": thread,
            "args": { "sort_index": thread },
        }));
    }
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

fn of_rank(recording: &Recording, rank: u32, events: &mut Vec<Value>) {
    let calls = recording.calls.iter().filter(|call| call.rank == rank);
    let accesses = recording.events.iter().filter(|event| event.rank == rank);
    let mut slices: Vec<Slice> = calls.flat_map(|call| of_call(call, &recording.file)).collect();
    slices.extend(accesses.map(of_access));
    // What contains another comes before it.
    slices.sort_by(|one, two| one.begin.total_cmp(&two.begin).then(two.end.total_cmp(&one.end)));
    let mut lanes: Vec<Vec<f64>> = Vec::new();
    for slice in slices {
        let lane = place(&mut lanes, &slice);
        let mut value = slice.value;
        value["pid"] = json!(node(recording, rank));
        value["tid"] = json!(thread(rank, lane));
        events.push(value);
    }
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
