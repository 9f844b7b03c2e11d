//! From a run to a page, pictures, CSV and a trace, as a user types it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A new directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("pario-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    /// Runs pario there.
    fn pario(&self, arguments: &str, statistics: Option<&str>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
        command.args(arguments.split_whitespace()).current_dir(&self.0);
        if let Some(value) = statistics {
            command.env("PARIO_STATS", value);
        }
        command.output().unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_and_its_recording_become_a_page_charts_values_and_a_trace() {
    let directory = Directory::new("report");
    let bench = "bench dist3d --quick --strategies two-phase,auto --json --hint cb_nodes=2";
    let run = directory.pario(bench, Some("trace:recording.jsonl"));
    assert!(run.status.success(), "{}", stderr(&run));
    fs::write(directory.0.join("run.jsonl"), &run.stdout).unwrap();
    let report = "report run.jsonl recording.jsonl --output page.html --svg charts \
                  --csv values.csv --perfetto trace.json";
    let report = directory.pario(report, None);
    assert!(report.status.success(), "{}", stderr(&report));
    let page = directory.read("page.html");
    for text in ["pario bench dist3d --quick", "hint cb_nodes", "Timeline of the ranks", "64^3"] {
        assert!(page.contains(text), "{text}");
    }
    let trace: serde_json::Value = serde_json::from_str(&directory.read("trace.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["name"] == "write_all" && event["ph"] == "X"));
    let values = directory.read("values.csv");
    let charts: std::collections::BTreeSet<&str> =
        values.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert!(charts.contains("dist3d-4-ranks-pattern"), "{charts:?}");
    for chart in &charts {
        assert!(directory.read(&format!("charts/{chart}.svg")).starts_with("<svg "), "{chart}");
    }
    assert_eq!(fs::read_dir(directory.0.join("charts")).unwrap().count(), charts.len());
}

/// The same results make the same page at any time, if the time is given; runs have theirs.
#[test]
fn a_page_has_the_date_that_is_given_and_that_of_the_run() {
    let directory = Directory::new("dates");
    let run = directory.pario("bench dist3d --quick --strategies auto --json", None);
    fs::write(directory.0.join("run.jsonl"), &run.stdout).unwrap();
    let first: serde_json::Value =
        serde_json::from_str(directory.read("run.jsonl").lines().next().unwrap()).unwrap();
    assert!(first["unix_seconds"].as_u64().unwrap() > 1_700_000_000, "{first}");
    let page = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
        command.args(["report", "run.jsonl", "--output", name]).current_dir(&directory.0);
        command.env("SOURCE_DATE_EPOCH", "1000000000").output().unwrap();
        directory.read(name)
    };
    let text = page("one.html");
    assert!(text.contains("Page made 2001-09-09 01:46 UTC") && text.contains("; measured 20"));
    assert_eq!(text, page("other.html"));
}

/// `report` and `explain` have one rule: a recording without calls is refused with the reason.
#[test]
fn a_recording_without_calls_is_refused_and_one_that_was_cut_off_is_shown() {
    let directory = Directory::new("no-calls");
    let head = r#"{"kind":"run","pario":"0.1.0","command":["pario"]}"#;
    let file = r#"{"kind":"statistics","file":"a","ranks":2,"calls":[]}"#;
    fs::write(directory.0.join("head.jsonl"), format!("{head}\n")).unwrap();
    fs::write(directory.0.join("opened.jsonl"), format!("{head}\n{file}\n{file}\n")).unwrap();
    for (name, reason) in [("head", "no file was recorded"), ("opened", "no reads and no writes")] {
        for command in ["report", "explain"] {
            let output = directory.pario(&format!("{command} {name}.jsonl"), None);
            assert_eq!(output.status.code(), Some(1), "{command} {name}");
            assert!(stderr(&output).contains(reason), "{command}: {}", stderr(&output));
        }
    }
    assert!(!directory.0.join("report.html").exists());
    // A program that is ended knows only of rank 0, and the last line may be cut.
    let run = directory.pario("bench dist3d --quick --strategies auto", Some("run.jsonl"));
    assert!(run.status.success(), "{}", stderr(&run));
    let recording = directory.read("run.jsonl");
    let line = recording.lines().next().unwrap();
    let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["of_all_ranks"] = false.into();
    value["calls"].as_array_mut().unwrap().retain(|call| call["rank"] == 0);
    fs::write(directory.0.join("cut.jsonl"), format!("{value}\n{}", &line[..200])).unwrap();
    let explain = directory.pario("explain cut.jsonl", None);
    assert_eq!(explain.status.code(), Some(1));
    let said = stderr(&explain);
    for part in ["cut.jsonl:2: the recording was cut off here", "ended before it closed "] {
        assert!(said.contains(part), "{said}");
    }
    let report = directory.pario("report cut.jsonl", None);
    assert!(report.status.success(), "{}", stderr(&report));
    let page = directory.read("report.html");
    assert!(page.contains("ended before it closed the file") && page.contains("write_all"));
}

/// A limit on the size of files ends a write as a full disk does.
#[test]
fn a_full_disk_leaves_no_part_of_a_file() {
    let directory = Directory::new("full-disk");
    let paper = directory.pario("explain paper --json", None);
    fs::write(directory.0.join("paper.json"), &paper.stdout).unwrap();
    let limited = |arguments: &str| {
        let program = env!("CARGO_BIN_EXE_pario");
        let script = format!("trap '' XFSZ; ulimit -f 1; exec {program} {arguments}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(&directory.0).output().unwrap()
    };
    let outputs = ["report.html", "charts/figure-11.svg", "ways.svg", "study.html"];
    for arguments in [
        "report paper.json",
        "report paper.json --svg charts",
        "explain dist3d --svg ways.svg",
        "study 000-eq1 --mode count --output study.jsonl",
    ] {
        let output = limited(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).contains("File too large"), "{arguments}: {}", stderr(&output));
    }
    for name in outputs {
        assert!(!directory.0.join(name).exists(), "{name}");
    }
    // Results are there as they come: none did.
    assert_eq!(directory.read("study.jsonl"), "");
}

#[test]
fn what_cannot_be_shown_is_refused_with_file_and_line_and_nothing_is_written() {
    let directory = Directory::new("refused-report");
    fs::write(directory.0.join("bad.jsonl"), "\n{\"workload\":\"w\"}\n").unwrap();
    fs::write(directory.0.join("cut.jsonl"), "[{\"workload\":\n\"w").unwrap();
    let paper = directory.pario("explain paper --json", None);
    fs::write(directory.0.join("paper.json"), &paper.stdout).unwrap();
    let cases = [
        ("report bad.jsonl", 1, "bad.jsonl:2: not a record of"),
        ("report cut.jsonl", 1, "cut.jsonl:2: not JSON: EOF"),
        ("report gone.jsonl", 1, "gone.jsonl: No such file"),
        ("report paper.json --output p.html --perfetto t.json", 1, "no recording among the inputs"),
        ("report", 2, "<INPUT>"),
    ];
    for (arguments, code, reason) in cases {
        let output = directory.pario(arguments, None);
        assert_eq!(output.status.code(), Some(code), "{arguments}");
        assert!(stderr(&output).contains(reason), "{arguments}: {}", stderr(&output));
    }
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 3, "only what was there");
}
