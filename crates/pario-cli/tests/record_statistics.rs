//! Where statistics are recorded, the close of a file appends a line of JSON with every call.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use pario::{Datatype, File, Position, Threads, View};
use serde_json::Value;

/// A file that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("pario-{name}-{}.jsonl", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Four ranks on two nodes write every fourth number together; then one of them writes alone.
fn program(statistics: &str, file: &str) {
    let results = Threads::new(4).nodes(2).run(|comm| -> pario::Result<()> {
        let options = File::options().write(true).create(true).hint("pario_statistics", statistics);
        let file =
            options.hint("romio_cb_write", "enable").hint("cb_node", "3").open(&*comm, file)?;
        let number = Datatype::of::<u32>();
        let every_fourth = Datatype::resized(0, 16, &number)?;
        file.set_view(&View::new(u64::from(comm.rank()) * 4, &number, &every_fourth))?;
        file.write_all(Position::Individual, &vec![comm.rank(); 4096])?;
        file.set_view(&View::bytes())?;
        if comm.rank() == 3 {
            file.write(0, &[7u8; 2])?;
        }
        file.close()
    });
    results.into_iter().for_each(|result| result.unwrap());
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The records of a rank.
fn of_rank(records: &Value, rank: u64) -> Vec<&Value> {
    records.as_array().unwrap().iter().filter(|record| record["rank"] == rank).collect()
}

#[test]
fn each_close_appends_every_call_of_every_rank() {
    let scratch = Scratch::new("recorded");
    program(&format!("json:{}", shown(&scratch.0)), "memory:one");
    program(&shown(&scratch.0), "memory:two");
    let lines = scratch.lines();
    let names: Vec<&str> = lines.iter().map(|line| line["file"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "two"]);
    for line in &lines {
        assert_eq!((&line["kind"], &line["of_all_ranks"]), (&"statistics".into(), &true.into()));
        assert_eq!((&line["ranks"], &line["nodes"]), (&4.into(), &2.into()));
        assert_eq!(line["node_of_rank"].as_array().unwrap().len(), 4);
        assert!(line["machine"]["cores"].as_u64().unwrap() > 0);
        assert_eq!(line["ignored_hints"][0]["name"], "cb_node");
        assert_eq!(line["events"], serde_json::json!([]), "nothing was to be traced");
        let bytes: u64 = line["calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["moved_bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(bytes, 4 * 4 * 4096 + 2);
        for rank in 0..4 {
            let calls = of_rank(&line["calls"], rank);
            assert_eq!(calls.len(), if rank == 3 { 2 } else { 1 });
            let call = calls[0];
            assert_eq!(
                (&call["call"], &call["strategy"]),
                (&"write_all".into(), &"two-phase".into())
            );
            assert!(call["rounds"].as_u64().unwrap() > 0 && call["reason"] != "");
            let asked = ["offset", "end_offset", "pieces"].map(|key| call[key].as_u64().unwrap());
            assert_eq!(asked, [rank * 4, 4095 * 16 + rank * 4 + 4, 4096]);
            assert_eq!(call["regular"], true);
            assert!(call["predicted_seconds"].as_f64().unwrap() > 0.0);
            let seconds = |key: &str| call[key].as_f64().unwrap();
            let parts = ["synchronisation", "planning", "exchange", "storage"];
            let parts: f64 = parts.iter().map(|part| seconds(&format!("{part}_seconds"))).sum();
            assert!(parts <= seconds("seconds") * 1.001 + 1e-6, "{call}");
        }
        let alone = of_rank(&line["calls"], 3)[1];
        assert_eq!((&alone["call"], &alone["moved_bytes"]), (&"write".into(), &2.into()));
        let asked = ["offset", "end_offset", "pieces"].map(|key| alone[key].as_u64().unwrap());
        assert_eq!(asked, [0, 2, 1]);
        assert!(line["cores_of_node"].as_array().unwrap().len() == 2 && line["profile"] != "");
        assert_eq!(line["storage"]["readable"], true);
    }
}

/// Every byte that calls say they stored is in a traced access, inside the time of its call.
#[test]
fn a_trace_has_every_storage_access_with_its_time() {
    let scratch = Scratch::new("traced");
    program(&format!("trace:{}", shown(&scratch.0)), "memory:three");
    let lines = scratch.lines();
    let [line] = lines.as_slice() else { panic!("{} lines", lines.len()) };
    for rank in 0..4 {
        let (calls, events) = (of_rank(&line["calls"], rank), of_rank(&line["events"], rank));
        let sum = |records: &[&Value], key: &str| -> u64 {
            records.iter().map(|record| record[key].as_u64().unwrap()).sum()
        };
        assert_eq!(sum(&calls, "storage_written_bytes"), sum(&events, "bytes"));
        assert_eq!(sum(&calls, "storage_writes"), u64::try_from(events.len()).unwrap());
        let span = |record: &Value| {
            let begin = record["begin_seconds"].as_f64().unwrap();
            (begin, begin + record["seconds"].as_f64().unwrap())
        };
        for event in &events {
            assert_eq!(event["what"], "write");
            let (begin, end) = span(event);
            let inside = |call: &&Value| span(call).0 <= begin + 1e-6 && end <= span(call).1 + 1e-6;
            assert!(calls.iter().any(inside), "{event}");
        }
    }
    assert_eq!((&line["calls_missed"], &line["events_missed"]), (&0.into(), &0.into()));
}

/// A recording that cannot be written does not fail the close, and is said on stderr.
#[test]
fn a_recording_that_cannot_be_written_fails_no_call() {
    program("json:/does/not/exist/a.jsonl", "memory:four");
}
