//! `pario explain RECORDING.jsonl`: each kind of call of a recorded program with every way to serve
//! it, what was measured, and what to change.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Command, Output};

use pario::{Datatype, File, Position, Threads, View};
use serde_json::{Value, json};

/// A file that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("pario-explain-{name}-{}.jsonl", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    fn with(name: &str, lines: &[Value]) -> Scratch {
        let scratch = Scratch::new(name);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&scratch.0, text).unwrap();
        scratch
    }

    fn line(&self) -> Value {
        let text = std::fs::read_to_string(&self.0).unwrap();
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn explain(scratch: &Scratch, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
    command.arg("explain").arg(&scratch.0).args(options);
    for name in ["PARIO_HINTS", "PARIO_PROFILE", "PARIO_STATS", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

fn documents(scratch: &Scratch, options: &[&str]) -> Vec<Value> {
    let output = explain(scratch, &[options, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn chosen(document: &Value) -> &Value {
    document["ways"].as_array().unwrap().iter().find(|way| way["chosen"] == true).unwrap()
}

/// Four ranks write and read pieces of 64 bytes in turn.
fn program(scratch: &Scratch, file: &str, hints: &[(&str, &str)]) {
    let recording = format!("json:{}", scratch.0.display());
    let results = Threads::new(4).run(|comm| -> pario::Result<()> {
        let options = File::options().read(true).write(true).create(true);
        let options = options.hint("pario_statistics", recording.as_str());
        let options =
            hints.iter().fold(options, |options, (key, value)| options.hint(*key, *value));
        let file = options.open(&*comm, file)?;
        let block = Datatype::contiguous(64, &Datatype::of::<u8>())?;
        let turn = Datatype::resized(0, 256, &block)?;
        file.set_view(&View::new(u64::from(comm.rank()) * 64, &Datatype::of::<u8>(), &turn))?;
        file.write_all(Position::Individual, &vec![1u8; 64 * 4096])?;
        file.read_all(0, &mut vec![0u8; 64 * 4096])?;
        file.close()
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// All calls took a second: how busy this machine is does not decide what is shown or advised.
fn take_a_second(scratch: &Scratch) {
    let mut recorded = scratch.line();
    for call in recorded["calls"].as_array_mut().unwrap() {
        call["seconds"] = json!(1.0);
    }
    std::fs::write(&scratch.0, format!("{recorded}\n")).unwrap();
}

/// The recording has all that the program knew: the same prediction comes out.
#[test]
fn the_prediction_of_the_program_comes_out_again() {
    for (name, hints) in [
        ("auto", &[][..]),
        ("sieve", &[("romio_cb_write", "disable"), ("romio_cb_read", "disable")][..]),
        ("list", &[("pario_strategy", "list")][..]),
        ("few", &[("cb_nodes", "1"), ("cb_buffer_size", "64K")][..]),
        ("phases", &[("pario_strategy", "inspector-executor")][..]),
    ] {
        let scratch = Scratch::new(name);
        program(&scratch, &format!("memory:{name}"), hints);
        take_a_second(&scratch);
        let recorded = scratch.line();
        let documents = documents(&scratch, &[]);
        assert_eq!(documents.len(), 2, "a write and a read");
        for document in &documents {
            let call = document["workload"].as_str().unwrap().rsplit(": ").next().unwrap();
            let calls = recorded["calls"].as_array().unwrap();
            let record = calls.iter().find(|record| record["call"] == call).unwrap();
            let way = chosen(document);
            assert_eq!(way["strategy"], record["strategy"], "{name}");
            assert_eq!(document["reason"], record["reason"], "{name}");
            let recorded_ms = record["predicted_seconds"].as_f64().unwrap() * 1e3;
            let ms = way["predicted_ms"].as_f64().unwrap();
            // Recorded times have whole nanoseconds.
            assert!((ms - recorded_ms).abs() < 2e-6, "{name} {call}: {ms} {recorded_ms}");
            assert!(way["measured_ms"].as_f64().unwrap() > 0.0, "{way}");
        }
    }
}

#[test]
fn a_hint_that_forbids_the_best_way_is_named_with_its_better_value() {
    let scratch = Scratch::new("disabled");
    program(&scratch, "memory:disabled", &[("romio_cb_write", "disable"), ("cb_node", "2")]);
    take_a_second(&scratch);
    let documents = documents(&scratch, &[]);
    let of = |name: &str| documents.iter().find(|one| one["direction"] == name).unwrap();
    let change = &of("write")["changes"][0];
    assert_eq!(
        (&change["hint"], &change["value"]),
        (&json!("romio_cb_write"), &json!("automatic"))
    );
    let now = chosen(of("write"))["predicted_ms"].as_f64().unwrap();
    assert!(change["predicted_ms"].as_f64().unwrap() < now, "{change}");
    // The read is not concerned, and is served in the best way.
    assert_eq!(of("read")["changes"], json!([]));
    let advice = of("read")["advice"].as_str().unwrap();
    assert!(advice.contains("no other way is predicted to be"), "{advice}");
    let text = String::from_utf8(explain(&scratch, &[]).stdout).unwrap();
    // The best of the ways that combine pieces.
    let ways = of("write")["ways"].as_array().unwrap();
    let predicted_ms = |way: &&Value| way["predicted_ms"].as_f64().unwrap();
    let is_less = |one: &&Value, other: &&Value| predicted_ms(one).total_cmp(&predicted_ms(other));
    let best = ways.iter().min_by(is_less).unwrap();
    assert!(["two-phase", "gather"].contains(&best["strategy"].as_str().unwrap()), "{best}");
    for words in [
        "change: leave out the hint romio_cb_write=disable (program)",
        "pario run --hint romio_cb_write=automatic",
        "collective buffering is switched off",
        "the hint cb_node=2 (program) is ignored: unknown hint; did you mean cb_nodes?",
        &format!("compared with {}:", best["strategy"].as_str().unwrap()),
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // What if: with that hint, the same program is served in the best way.
    let again = self::documents(&scratch, &["--hint", "romio_cb_write=automatic"]);
    let write = again.iter().find(|one| one["direction"] == "write").unwrap();
    assert_eq!((&chosen(write)["strategy"], &write["changes"]), (&json!("two-phase"), &json!([])));
}

/// Two ranks with 100 independent writes of 64 bytes each, which take 0.1 ms, in turn.
fn small_writes() -> Value {
    let call = |number: u64| {
        json!({"rank": number % 2, "call": "write", "strategy": "direct",
            "reason": "one run of bytes", "windows": "", "rounds": 1, "aggregators": 0,
            "requested_bytes": 64, "offset": number * 64, "end_offset": number * 64 + 64,
            "pieces": 1, "regular": true, "moved_bytes": 64, "storage_writes": 1,
            "begin_seconds": 0.0001 * f64::from(u32::try_from(number).unwrap()),
            "seconds": 0.0001, "storage_seconds": 0.0001, "predicted_seconds": 0})
    };
    json!({"kind": "statistics", "pario": "0.1.0", "file": "/data/small.dat",
        "ranks": 2, "nodes": 1,
        "node_of_rank": [0, 0], "cores_of_node": [2], "mode": "write create",
        "storage": {"shared_bytes": 16777216, "block_bytes": 4096, "in_memory": true,
            "range_locks": true, "readable": true, "unique_open": false},
        "profile": "tmpfs", "of_all_ranks": true, "hints": [], "ignored_hints": [],
        "calls": (0..200).map(call).collect::<Vec<Value>>(), "calls_missed": 5, "events": []})
}

#[test]
fn many_small_independent_calls_are_better_made_as_one_collective_call() {
    let scratch = Scratch::with("small", &[small_writes()]);
    let documents = documents(&scratch, &[]);
    let [document] = documents.as_slice() else { panic!("{} kinds", documents.len()) };
    assert_eq!((&document["calls"], &document["collective"]), (&json!(200), &json!(false)));
    let change = &document["changes"][0];
    let text = change["what"].as_str().unwrap();
    assert!(text.contains("100 calls of each rank by one MPI_File_write_at_all"), "{text}");
    assert!(text.contains("(measured: 10.00 ms)"), "{text}");
    let alone = chosen(document)["predicted_ms"].as_f64().unwrap();
    assert!(change["predicted_ms"].as_f64().unwrap() < 0.7 * 100.0 * alone, "{change}");
    assert!((chosen(document)["measured_ms"].as_f64().unwrap() - 0.1).abs() < 1e-9);
    let advice = document["advice"].as_str().unwrap();
    assert!(advice.contains("5 more calls were not recorded"), "{advice}");
}

/// Calls that write the same bytes again are not one call.
#[test]
fn calls_on_the_same_bytes_are_not_combined() {
    let mut line = small_writes();
    for call in line["calls"].as_array_mut().unwrap() {
        (call["offset"], call["end_offset"]) = (json!(0), json!(64));
    }
    let scratch = Scratch::with("same", &[line]);
    assert_eq!(documents(&scratch, &[])[0]["changes"], json!([]));
}

/// A collective counts from the arrival of its last rank, and waiting before that is said.
#[test]
fn waiting_for_the_last_rank_is_no_cost_of_a_collective() {
    let mut line = small_writes();
    let calls = line["calls"].as_array_mut().unwrap();
    calls.truncate(2);
    for (call, (seconds, waited)) in calls.iter_mut().zip([(0.5, 0.499), (0.002, 0.001)]) {
        call["call"] = json!("write_all");
        call["seconds"] = json!(seconds);
        call["synchronisation_seconds"] = json!(waited);
    }
    let scratch = Scratch::with("late", &[line]);
    let documents = documents(&scratch, &[]);
    assert!((chosen(&documents[0])["measured_ms"].as_f64().unwrap() - 2.0).abs() < 1e-9);
    let advice = documents[0]["advice"].as_str().unwrap();
    assert!(advice.contains("ranks wait 250.00 ms on average for the last one"), "{advice}");
}

/// What was measured counts for more than what is predicted.
#[test]
fn a_strategy_that_served_equal_calls_faster_is_named() {
    let mut line = small_writes();
    let calls = line["calls"].as_array_mut().unwrap();
    calls.truncate(8);
    for (number, call) in calls.iter_mut().enumerate() {
        let (strategy, seconds) = if number < 4 { ("direct", 0.03) } else { ("two-phase", 0.003) };
        (call["call"], call["strategy"]) = (json!("write_all"), json!(strategy));
        call["seconds"] = json!(seconds);
    }
    let scratch = Scratch::with("faster", &[line]);
    let documents = documents(&scratch, &[]);
    assert_eq!(documents.len(), 2);
    let change = &documents[0]["changes"][0];
    assert_eq!(
        (&change["hint"], &change["value"]),
        (&json!("pario_strategy"), &json!("two-phase"))
    );
    let text = change["what"].as_str().unwrap();
    assert!(text.contains("it took 3.00 ms in 2 calls like these, instead of 30.00 ms"), "{text}");
    let ways = documents[0]["ways"].as_array().unwrap();
    let measured = ways.iter().filter(|way| way["measured_ms"].is_number()).count();
    assert_eq!(measured, 2, "both were run");
    assert_eq!(documents[1]["changes"], json!([]), "{}", documents[1]);
}

/// A collective of two ranks that was in the exchange for most of its time, though storage is
/// predicted to take longer.
fn long_exchange() -> Value {
    let mut line = small_writes();
    let calls = line["calls"].as_array_mut().unwrap();
    calls.truncate(2);
    for (rank, call) in calls.iter_mut().enumerate() {
        (call["call"], call["strategy"]) = (json!("write_all"), json!("two-phase"));
        (call["requested_bytes"], call["pieces"]) = (json!(16 << 20), json!(16));
        (call["offset"], call["end_offset"]) = (json!(rank << 20), json!((31 + rank) << 20));
        (call["seconds"], call["planning_seconds"]) = (json!(0.021), json!(0.0));
        (call["exchange_seconds"], call["storage_seconds"]) = (json!(0.017), json!(0.004));
    }
    line
}

#[test]
fn advice_follows_what_was_measured() {
    let scratch = Scratch::with("measured", &[long_exchange()]);
    let document = &documents(&scratch, &[])[0];
    let storage = |way: &Value| way["storage_ms"].as_f64() > way["exchange_ms"].as_f64();
    assert!(storage(chosen(document)), "storage is predicted to be longest: {document}");
    let advice = document["advice"].as_str().unwrap();
    assert!(advice.contains("81 % of the measured time: exchange"), "{advice}");
    assert!(!advice.contains("faster storage"), "{advice}");
}

/// Another way was advised for what it is predicted to take less than, though the call took less.
#[test]
fn no_hint_is_better_left_out_that_took_less_than_others_are_predicted_to() {
    let with_hint = |seconds: f64| {
        let mut line = long_exchange();
        line["hints"] = json!([{"name": "pario_strategy", "value": "direct", "origin": "program"}]);
        for call in line["calls"].as_array_mut().unwrap() {
            (call["strategy"], call["reason"]) = (json!("direct"), json!("asked for by a hint"));
            (call["pieces"], call["piece_bytes"]) = (json!(262_144), json!(64));
            (call["aggregators"], call["windows"]) = (json!(0), json!(""));
            (call["seconds"], call["exchange_seconds"]) = (json!(seconds), json!(0));
        }
        let document = documents(&Scratch::with("took", &[line]), &[]).remove(0);
        let advice = document["advice"].as_str().unwrap().to_owned();
        (document["changes"].as_array().unwrap().len(), advice)
    };
    let (changes, advice) = with_hint(9.0);
    assert!(changes == 1 && advice.contains("(measured: 9.00 s)"), "{advice}");
    let (changes, advice) = with_hint(1e-6);
    assert!(changes == 0 && advice.contains("faster than what was measured"), "{advice}");
}

/// What a program can do is never called nothing.
#[test]
fn advice_does_not_contradict_itself() {
    let mut same_bytes = small_writes();
    for call in same_bytes["calls"].as_array_mut().unwrap() {
        (call["offset"], call["end_offset"]) = (json!(0), json!(64));
    }
    for (name, line) in [("same bytes", same_bytes), ("exchange", long_exchange())] {
        let scratch = Scratch::with(name, &[line]);
        for document in documents(&scratch, &[]) {
            let advice = document["advice"].as_str().unwrap();
            let is_nothing = advice.contains("nothing to change");
            let changes = ["change:", "collectively", "make ", "leave no holes", "use fewer"];
            let is_something = changes.iter().any(|words| advice.contains(words));
            assert!(is_nothing != is_something, "{name}: {advice}");
        }
    }
}

#[test]
fn a_file_that_was_opened_twice_has_two_names_and_all_shares_make_100_percent() {
    let elsewhere = |path: &str| {
        let mut line = small_writes();
        line["file"] = json!(path);
        line
    };
    let lines = [small_writes(), small_writes(), elsewhere("/other/a.dat")];
    let scratch = Scratch::with("twice", &lines);
    let documents = documents(&scratch, &[]);
    let names: Vec<&str> = documents.iter().map(|one| one["workload"].as_str().unwrap()).collect();
    let expected =
        ["small.dat, opening 1 of 2: write", "small.dat, opening 2 of 2: write", "a.dat: write"];
    assert_eq!(names, expected);
    let percent = |one: &Value| one["share_percent"].as_f64().unwrap();
    let all: f64 = documents.iter().map(percent).sum();
    assert!((all - 100.0).abs() < 1e-6, "{all}");
    let text = String::from_utf8(explain(&scratch, &[]).stdout).unwrap();
    assert_eq!(text.matches("33 % of all calls").count(), 3, "{text}");
    // Files of one name have their directories.
    let scratch = Scratch::with("alike", &[small_writes(), elsewhere("/other/small.dat")]);
    assert_eq!(self::documents(&scratch, &[])[0]["workload"], "/data/small.dat: write");
}

/// A library for files makes many short calls beside those that move the data.
#[test]
fn what_takes_little_time_is_summed_up_in_one_line() {
    let mut line = small_writes();
    let calls = line["calls"].as_array_mut().unwrap();
    calls.truncate(13);
    for (number, call) in calls.iter_mut().enumerate() {
        let bytes = 64 << number;
        call["requested_bytes"] = json!(bytes);
        (call["offset"], call["end_offset"]) = (json!(bytes), json!(2 * bytes));
        call["seconds"] = json!(if number == 12 { 0.01 } else { 0.00003 });
    }
    let scratch = Scratch::with("little", &[line]);
    let documents = documents(&scratch, &[]);
    assert_eq!(documents.len(), 1, "one kind has most of the time");
    assert!(chosen(&documents[0])["measured_ms"].as_f64().unwrap() > 9.0);
    let advice = documents[0]["advice"].as_str().unwrap();
    assert!(
        advice.contains("12 other kinds of calls: 180.0 us in all, 3 % of the time"),
        "{advice}"
    );
}

#[test]
fn another_machine_can_be_asked_for_and_a_picture_drawn() {
    let scratch = Scratch::with("machine", &[small_writes()]);
    let picture = Scratch(scratch.0.with_extension("svg"));
    let path = picture.0.display().to_string();
    let output = explain(&scratch, &["--profile", "hdd", "--svg", &path]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("profile hdd, built in"));
    let drawn = std::fs::read_to_string(&picture.0).unwrap();
    assert!(drawn.contains("small.dat: write") && drawn.contains("0.1 ms."), "{drawn}");
}

#[test]
fn what_cannot_be_explained_is_refused_with_a_reason() {
    let scratch = Scratch::with("refused", &[small_writes()]);
    let mut old = small_writes();
    old["calls"].as_array_mut().unwrap().iter_mut().for_each(|call| {
        call.as_object_mut().unwrap().remove("pieces");
    });
    let old = Scratch::with("old", &[old]);
    let head = Scratch::with("head", &[json!({"kind": "run", "command": ["pario", "run"]})]);
    let mut profile = small_writes();
    profile["profile"] = json!("version = 7");
    let profile = Scratch::with("profile", &[profile]);
    for (scratch, options, code, words) in [
        (&scratch, &["--ranks", "4"][..], 2, "--ranks: the recording has that"),
        (&scratch, &["--run"][..], 2, "--run: the recording has that"),
        (&scratch, &["--hint", "cb_node=1"][..], 2, "did you mean cb_nodes?"),
        (&old, &[][..], 1, "recorded by an earlier version of pario"),
        (&head, &[][..], 1, "no file was recorded"),
        (&profile, &[][..], 1, "small.dat: "),
    ] {
        let output = explain(scratch, options);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {message}");
        assert!(message.contains(words), "{words}: {message}");
        assert!(output.stdout.is_empty());
    }
}

/// A profile that was measured is part of the recording.
#[test]
fn a_profile_of_ones_own_is_recorded_as_it_is() {
    let mut own = pario::model::profile::Profile::built_in("tmpfs").unwrap();
    own.machine.host = "elsewhere".to_owned();
    own.storage.write.call_us *= 3.0;
    let mut line = small_writes();
    line["profile"] = json!(own.to_text().unwrap());
    let scratch = Scratch::with("own", &[line]);
    let text = String::from_utf8(explain(&scratch, &[]).stdout).unwrap();
    assert!(text.contains("profile of elsewhere, as recorded"), "{text}");
}
