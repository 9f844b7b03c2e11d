//! `pario study` lists and runs the experiments, and `pario bench` has the papers' contenders.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pario"))
}

fn pario(arguments: &str) -> Output {
    program().args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A new directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("pario-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The identifiers of the notes, each with the modes that it must have.
const EXPERIMENTS: [(&str, &str); 38] = [
    ("000-eq1", "count"),
    ("000-fig4", "count"),
    ("000-fig6", "virtual,here"),
    ("000-fig7", "virtual"),
    ("000-fig8", "virtual"),
    ("000-fig9", "virtual,here"),
    ("000-fig10", "virtual"),
    ("000-scale", "virtual"),
    ("001-fig4", "virtual,here"),
    ("001-fig5", "virtual,here"),
    ("001-fig6", "virtual,here"),
    ("001-fig7", "virtual,here"),
    ("001-fig8", "virtual"),
    ("001-fig9", "virtual,here"),
    ("001-fig10", "virtual,here"),
    ("001-table2", "virtual,here"),
    ("001-table4", "virtual"),
    ("001-table5", "count"),
    ("001-table6", "count"),
    ("001-fig11", "count"),
    ("002-examples", "count"),
    ("002-fig13", "count,here"),
    ("002-fig14", "count,here"),
    ("002-amortise", "count,here"),
    ("002-fig15", "virtual,here"),
    ("002-fig16", "virtual"),
    ("002-fig17", "virtual,here"),
    ("002-fig18", "virtual"),
    ("002-fig19", "virtual"),
    ("002-fig20", "virtual"),
    ("003-level1", "count,virtual,here"),
    ("003-sieve-buffer", "virtual,here"),
    ("004-table1", "virtual,here"),
    ("004-table2", "virtual,here"),
    ("004-table3", "virtual,here"),
    ("004-table4", "virtual,here"),
    ("004-table5", "virtual,here"),
    ("004-table6", "virtual,here"),
];

#[test]
fn every_experiment_of_the_papers_is_listed_with_its_modes() {
    let listed = objects(&pario("study --json"));
    for (id, modes) in EXPERIMENTS {
        let one = listed.iter().find(|one| one["id"] == id);
        let one = one.unwrap_or_else(|| panic!("{id} is not listed"));
        let own: Vec<&str> =
            one["modes"].as_array().unwrap().iter().map(|mode| mode.as_str().unwrap()).collect();
        assert!(modes.split(',').all(|mode| own.contains(&mode)), "{id}: {own:?}");
        assert!(one["question"].as_str().unwrap().ends_with('?'));
    }
    let table = text(&pario("study").stdout);
    assert!(EXPERIMENTS.iter().all(|(id, _)| table.contains(id)), "{table}");
}

#[test]
fn a_result_has_the_paper_beside_ours_and_a_verdict() {
    let results = objects(&pario("study 002-examples --json"));
    assert_eq!(results.len(), 1);
    let one = &results[0];
    assert_eq!(
        (&one["kind"], &one["id"], &one["mode"]),
        (&Value::from("study"), &Value::from("002-examples"), &Value::from("count"),)
    );
    let rows = one["rows"].as_array().unwrap();
    let table_4 = rows.iter().find(|row| row["name"] == "Table 4, file_offset").unwrap();
    assert_eq!(table_4["paper"], "0 8 4 12");
    assert_eq!(table_4["ours"], "0 8 4 12");
    assert_eq!(table_4["verdict"], "the same");
    // The paper contradicts itself here.
    let sent = rows.iter().find(|row| row["name"] == "Section 4.1, sent tuples").unwrap();
    assert_eq!((&sent["ours"], &sent["verdict"]), (&"15".into(), &"not the same".into()));
    // Its command gives it again.
    let command = one["command"].as_str().unwrap().strip_prefix("pario ").unwrap();
    assert_eq!(objects(&pario(&format!("{command} --json"))), results);
}

/// Each has a paragraph in the documentation, whose heading names it.
#[test]
fn every_result_that_is_not_the_same_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let document = read("docs/studies.md");
    let (_, section) = document.split_once("## What is not the same, and why").unwrap();
    let headings: Vec<&str> = section.split("**").skip(1).step_by(2).collect();
    let expected = read("benchmarks/studies/expected.jsonl");
    let results = expected.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut explained = 0;
    for result in results {
        let rows = result["rows"].as_array().unwrap();
        if rows.iter().any(|row| row["verdict"] == "not the same") {
            let id = result["id"].as_str().unwrap();
            assert!(headings.iter().any(|heading| heading.contains(id)), "{id}");
            explained += 1;
        }
    }
    assert!(explained > 5, "{explained}");
}

#[test]
fn a_study_is_the_same_on_every_run() {
    let run = || {
        text(&pario("study 000-eq1 --json").stdout)
            + &text(&pario("study 004-table5 --mode virtual --json").stdout)
    };
    assert_eq!(run(), run());
}

#[test]
fn what_does_not_exist_is_refused() {
    for arguments in ["study 005", "study 000-fig99", "study 000-eq1 --mode here"] {
        let output = pario(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn results_go_to_a_file_as_well() {
    let directory = Directory::new("study-output");
    let path = directory.0.join("results.jsonl");
    let output = pario(&format!("study 001-table5 --json --output {}", path.display()));
    assert!(output.status.success());
    assert_eq!(std::fs::read(&path).unwrap(), output.stdout);
}

/// What is typed next is what the program has said: from a study to a picture.
#[test]
fn a_study_leads_to_a_page_and_to_pictures() {
    let directory = Directory::new("study-page");
    let run = |words: &str| {
        let mut command = program();
        command.args(words.split_whitespace()).current_dir(&directory.0).output().unwrap()
    };
    let said = text(&run("study 002-fig13 --quick --mode count").stderr);
    assert!(said.contains("the report is in study-002-fig13-quick.html"), "{said}");
    let page = std::fs::read_to_string(directory.0.join("study-002-fig13-quick.html")).unwrap();
    assert!(page.contains("pario study 002-fig13 --quick") && page.contains("<svg"));
    let (_, next) = said.split_once("as pictures: pario ").unwrap();
    let drawn = run(next.lines().next().unwrap());
    let said = text(&drawn.stderr);
    if said.contains("there are no fonts") {
        return;
    }
    assert!(drawn.status.success(), "{said}");
    let (_, name) = said.trim_end().rsplit_once(' ').unwrap();
    let picture = std::fs::read(directory.0.join("pictures").join(name)).unwrap();
    assert!(picture.starts_with(b"\x89PNG"), "{said}");
}

/// Every workload, both ways, at all levels; every byte is compared.
#[test]
fn posix_and_romio_like_move_the_right_bytes() {
    let workloads = "block-cyclic dist3d btio unstruc stem2 ior hacc-io madbench2 s3asim \
                     benchmarks/pattern.toml";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for more in ["", "--files new", "--hint cb_nodes=2 --hint cb_buffer_size=65536 --messages"] {
        let words = format!(
            "bench --quick --json {workloads} --levels 0,2,3 --strategies posix,romio-like {more}"
        );
        let mut command = program();
        command.args(words.split_whitespace()).current_dir(&root);
        let results = objects(&command.output().unwrap());
        assert!(results.iter().all(|one| one["verified"] == true));
        for (strategy, level) in [("posix", 0), ("romio-like", 2), ("romio-like", 3)] {
            let fits = |one: &&Value| one["strategy"] == strategy && one["level"] == level;
            assert!(results.iter().filter(fits).count() >= 15, "{strategy} at level {level}");
        }
        assert!(results.iter().all(|one| one["strategy"] != "auto"), "nobody asked for it");
    }
}

/// What the papers say of ROMIO can be counted: windows, locks and rounds.
#[test]
fn romio_like_sieves_whole_windows_and_has_even_domains() {
    // 64^3 integers on 8 ranks: each rank reaches over 32 planes, half a megabyte.
    let words = "bench --quick --json dist3d --ranks 8 --edge 64 --levels 2,3 --direction write \
                 --strategies romio-like --hint ind_wr_buffer_size=65536 --hint cb_nodes=4 \
                 --hint cb_buffer_size=131072";
    let results = objects(&pario(words));
    let of = |level: u64| {
        let fits = |one: &&Value| one["strategy"] == "romio-like" && one["level"] == level;
        results.iter().find(fits).unwrap().clone()
    };
    // 508 or so KiB of extent in windows of 64 KiB, each read and written.
    let calls = of(2)["storage_calls"].as_u64().unwrap();
    assert!((8 * 7 * 2..=8 * 9 * 2).contains(&calls), "{calls}");
    // 1 MiB on 4 aggregators in windows of 128 KiB: two rounds, no holes.
    assert_eq!((&of(3)["storage_calls"], &of(3)["rounds"]), (&8.into(), &2.into()));
}

#[test]
fn a_device_makes_accesses_as_slow_as_it_is() {
    let words = "bench --quick --json dist3d --edge 16 --levels 0 --strategies posix \
                 --direction write --device hdd";
    let results = objects(&pario(words));
    let posix = results.iter().find(|one| one["strategy"] == "posix").unwrap();
    assert_eq!(posix["device"], "hdd");
    // A row in the middle of others: the arm moves for most of the pieces.
    let (pieces, seconds) = (posix["pieces"].as_f64().unwrap(), posix["seconds"].as_f64().unwrap());
    assert!(seconds >= pieces / 2.0 * 0.0126, "{pieces} pieces in {seconds} s");
    let refused = pario("bench --quick dist3d --device tape");
    assert_eq!(refused.status.code(), Some(2));
}

/// The measurement that runs removes its files; what was done is said.
#[test]
fn an_interrupted_study_leaves_no_files() {
    let directory = Directory::new("study-interrupted");
    let mut command = program();
    command.args("study all --mode count,here --json --dir".split_whitespace());
    command.arg(&directory.0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The first result of the mode `here` is there: the next measurement may run already.
    while !lines.next().unwrap().unwrap().contains("\"mode\":\"here\"") {}
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    for line in lines {
        line.unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = text(&output.stderr);
    assert!(said.contains("interrupted; the results of "), "{said}");
    assert!(directory.is_empty(), "{:?}", std::fs::read_dir(&directory.0).unwrap().next());
}
