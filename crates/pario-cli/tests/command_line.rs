//! The program does what its help says: results that are verified, and clear refusals.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn pario(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
    command.args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
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

    fn shown(&self) -> String {
        Path::display(&self.0).to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The results of a successful run, one object each.
fn results(arguments: &str) -> Vec<Value> {
    let output = pario(&format!("bench --quick --json {arguments}"));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    let stdout = text(&output.stdout);
    assert!(!stdout.is_empty(), "{arguments}");
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_result_is_a_verified_json_object() {
    let results = results("");
    for result in &results {
        let number = |key: &str| result[key].as_f64().unwrap_or_else(|| panic!("{key}: {result}"));
        let word = |key: &str| result[key].as_str().unwrap_or_else(|| panic!("{key}: {result}"));
        assert_eq!(result["verified"], true, "{result}");
        assert!(["block-cyclic", "dist3d"].contains(&word("workload")));
        assert!(["write", "read"].contains(&word("direction")));
        assert_eq!(number("ranks"), 4.0);
        assert!(number("seconds") > 0.0 && number("ratio") > 0.0);
        for key in ["block", "bytes", "rounds", "storage_calls"] {
            assert!(result[key].as_u64().unwrap() > 0, "{key}: {result}");
        }
        for key in ["planning_seconds", "exchange_seconds", "storage_seconds"] {
            assert!(number(key) >= 0.0, "{key}: {result}");
        }
        if word("strategy") == "block" {
            assert_eq!(number("ratio"), 1.0);
        }
    }
    for strategy in ["block", "direct", "list", "sieve", "two-phase", "gather", "auto"] {
        assert!(results.iter().any(|result| result["strategy"] == strategy), "{strategy}");
    }
}

#[test]
fn each_strategy_has_one_result_for_each_block_and_direction() {
    let results = results("--workloads block-cyclic --blocks 512,4K --strategies list,two-phase");
    let found: Vec<(u64, &str, &str)> = results
        .iter()
        .map(|result| {
            let word = |key: &str| result[key].as_str().unwrap();
            (result["block"].as_u64().unwrap(), word("strategy"), word("direction"))
        })
        .collect();
    let mut expected = Vec::new();
    for block in [512, 4096] {
        for strategy in ["block", "list", "two-phase"] {
            expected.extend([(block, strategy, "write"), (block, strategy, "read")]);
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn skipped_combinations_are_named_on_stderr_only() {
    let arguments = "bench --quick --json --workloads block-cyclic --blocks 4 --strategies direct";
    let output = pario(arguments);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("direct skipped: about 1048576 storage calls"));
    assert!(text(&output.stdout).lines().all(|line| line.contains("\"strategy\":\"block\"")));
    let output = pario(&arguments.replace("--json", ""));
    assert!(text(&output.stdout).contains("skipped: about 1048576 storage calls"));
    let output = pario(&format!("{arguments} --all --bytes 64K"));
    assert!(text(&output.stdout).contains("\"strategy\":\"direct\""));
}

#[test]
fn all_ways_of_running_are_verified() {
    let ways = [
        "--nodes 2",
        "--nodes 2 --messages",
        "--messages",
        "--fresh",
        "--direction read",
        "--direction write",
        "--ranks 3 --bytes 1000004 --edge 31 --repeat 2",
        "--ranks 1",
        "--hint cb_nodes=1 --hint cb_buffer_size=64K",
    ];
    for way in ways {
        let blocks = if way.contains("1000004") { "" } else { "--blocks 64" };
        for result in results(&format!("{way} {blocks}")) {
            assert_eq!(result["verified"], true, "{way}: {result}");
        }
    }
}

#[test]
fn the_table_has_a_row_for_each_strategy_and_the_file_is_removed() {
    let directory = Directory::new("table");
    let output = pario(&format!("bench --quick --stats --dir {}", directory.shown()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(directory.is_empty());
    let table = text(&output.stdout);
    for word in ["4 ranks", &directory.shown(), "Block I/O", "two-phase", "auto: ", "storage  "] {
        assert!(table.contains(word), "{word}: {table}");
    }
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn arguments_that_make_no_sense_are_refused_with_code_2() {
    let cases = [
        ("bench --ranks 0", "--ranks"),
        ("bench --ranks many", "--ranks"),
        ("bench --bytes 0", "more than 0"),
        ("bench --bytes 5X", "not a number of bytes"),
        ("bench --bytes 1K --ranks 4 --blocks 512", "too few for a block of 512 bytes"),
        ("bench --bytes 1001 --blocks 4", "not a multiple of 4"),
        ("bench --blocks 6", "not a multiple of 4"),
        ("bench --edge 0", "--edge 0"),
        ("bench --strategies fast", "not a strategy"),
        ("bench --strategies block", "not available"),
        ("bench --workloads sort", "block-cyclic"),
        ("bench --direction up", "both"),
        ("bench --repeat 0", "--repeat"),
        ("bench --nodes 17", "more than 16 ranks"),
        ("bench --dir /does/not/exist", "No such file"),
        ("bench --dir /dev/null", "not a directory"),
        ("bench --bytes 4000000G --workloads block-cyclic --blocks 1G", "bytes are free"),
        ("bench --hint cb_nodes", "KEY=VALUE"),
        ("bench --hint cb_node=3", "did you mean cb_nodes?"),
        ("bench --hint pario_strategy=list", "use --strategies list"),
        ("bench --fast", "--fast"),
        ("explain", "paper"),
        ("explain papers", "paper"),
        ("", "Usage"),
    ];
    for (arguments, reason) in cases {
        let output = pario(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let message = text(&output.stderr);
        assert!(message.contains(reason), "{arguments}: {message}");
        assert_eq!(text(&output.stdout), "", "{arguments}");
    }
}

#[test]
fn the_tables_of_paper_001_are_printed_and_its_figure_is_drawn() {
    let directory = Directory::new("explain");
    let picture = directory.0.join("figure.svg");
    let output = pario(&format!("explain paper --svg {}", picture.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    for word in ["Table V:", "Table VI:", "Figure 11:", "wins, as measured", "figure.svg"] {
        assert!(stdout.contains(word), "{word}: {stdout}");
    }
    assert!(std::fs::read_to_string(&picture).unwrap().contains("benefit on HDD"));
    let output = pario("explain paper --json");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["tables"].as_array().unwrap();
    assert_eq!((rows.len(), document["figure_11"].as_array().unwrap().len()), (12, 9));
    assert!(rows.iter().all(|row| row["winner"] == row["measured_winner"]), "{document}");
    let output = pario("explain paper --svg /does/not/exist.svg");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/does/not/exist.svg"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn help_and_version_are_printed() {
    let version = pario("--version");
    assert_eq!(text(&version.stdout), concat!("pario ", env!("CARGO_PKG_VERSION"), "\n"));
    let help = text(&pario("bench --help").stdout);
    assert!(help.contains("Examples:") && help.contains("--strategies"), "{help}");
}
