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
        for key in ["block", "bytes", "storage_calls"] {
            assert!(result[key].as_u64().unwrap() > 0, "{key}: {result}");
        }
        if ["two-phase", "gather"].contains(&word("strategy")) {
            assert!(number("rounds") > 0.0, "{result}");
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
    assert!(text(&output.stderr).contains("direct not run: about 1048576 storage calls"));
    assert!(text(&output.stdout).lines().all(|line| line.contains("\"strategy\":\"block\"")));
    let output = pario(&arguments.replace("--json", ""));
    assert!(text(&output.stdout).contains("not run: about 1048576 storage calls"));
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

const WORKLOADS: &str =
    "block-cyclic dist3d btio unstruc stem2 ior hacc-io madbench2 s3asim --blocks 512";

/// The example that comes with the documentation.
fn example() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/pattern.toml").to_owned()
}

fn word<'a>(result: &'a Value, key: &str) -> &'a str {
    result[key].as_str().unwrap_or_default()
}

#[test]
fn every_workload_is_verified_and_has_its_parts() {
    let results = results(&format!("{WORKLOADS} {} --strategies list,auto", example()));
    let directions = |workload: &str, part: &str| -> Vec<&str> {
        let auto = results.iter().filter(|result| word(result, "strategy") == "auto");
        let named = auto
            .filter(|result| (word(result, "workload"), word(result, "part")) == (workload, part));
        named.map(|result| word(result, "direction")).collect()
    };
    for workload in WORKLOADS.split(' ').take(9).chain(["planes"]) {
        let of_workload = results.iter().filter(|result| word(result, "workload") == workload);
        assert!(of_workload.count() > 0, "{workload}");
    }
    for part in ["SL1", "SL2", "SL3", "output", "checkpoint"] {
        assert_eq!(directions("stem2", part), ["write", "read"], "{part}");
    }
    assert_eq!(directions("madbench2", "S"), ["write"]);
    assert_eq!(directions("madbench2", "W"), ["write", "read"]);
    assert_eq!(directions("madbench2", "C"), ["read"]);
    let memory = |workload: &str| {
        let found = results.iter().find(|result| word(result, "workload") == workload).unwrap();
        word(found, "memory")
    };
    let expected = [("dist3d", "packed"), ("btio", "gaps"), ("unstruc", "reordered")];
    for (workload, kind) in expected {
        assert_eq!(memory(workload), kind, "{workload}");
    }
    assert_eq!((memory("stem2"), memory("planes")), ("gaps", "gaps"));
    for result in &results {
        assert_eq!(result["verified"], true, "{result}");
        assert!(result["times_of_rank"].as_u64().unwrap() < 4, "{result}");
    }
}

#[test]
fn levels_make_the_calls_that_they_are_defined_by() {
    let results = results("dist3d --ranks 8 --edge 16 --levels 0,1,2,3 --strategies list,auto");
    // 8 ranks form a grid of 2 x 2 x 2: 8 x 8 rows each, 64 pieces.
    for (level, calls, strategies) in
        [(0, 512, vec!["auto"]), (1, 64, vec!["list", "auto"]), (2, 1, vec!["list", "auto"])]
    {
        let of_level = results.iter().filter(|result| result["level"] == level);
        let writes = of_level.filter(|result| word(result, "direction") == "write");
        let mut found = Vec::new();
        for result in writes {
            assert_eq!(result["calls"], calls, "{result}");
            assert_eq!(result["pieces"], 512, "{result}");
            found.push(word(result, "strategy"));
        }
        assert_eq!(found, strategies, "level {level}");
    }
    let level_0 = results.iter().find(|result| result["level"] == 0).unwrap();
    assert_eq!((word(level_0, "served_by"), &level_0["storage_calls"]), ("direct", &512.into()));
    // A list of 64 rows is one call of pario, and 64 that reach the system.
    for result in results.iter().filter(|result| word(result, "served_by") == "list") {
        assert_eq!(result["storage_calls"], 512, "{result}");
    }
}

#[test]
fn a_level_with_too_many_calls_is_not_run_and_says_so() {
    let limits = "--calls-max 100 --collective-calls-max 99";
    let arguments = format!("bench --quick dist3d --ranks 8 --edge 20 --levels 0,1 {limits}");
    let output = pario(&arguments);
    assert!(output.status.success());
    let table = text(&output.stdout);
    assert!(table.contains("level 0               not run: about 800 storage calls"), "{table}");
    let level_1 = "level 1 auto          not run: 100 collective calls (limit 99;";
    assert!(table.contains(level_1), "{table}");
    let output = pario(&format!("{arguments} --all"));
    assert!(!text(&output.stdout).contains("not run"));
}

#[test]
fn a_new_file_for_each_step_is_timed_from_open_to_close() {
    let directory = Directory::new("steps");
    let arguments = format!(
        "{WORKLOADS} {} --files new --steps 2 --levels 2,3 --strategies auto --dir {}",
        example(),
        directory.shown()
    );
    let mut steps = 0;
    for result in results(&arguments) {
        let seconds = |key: &str| result[key].as_f64().unwrap_or_else(|| panic!("{key}: {result}"));
        assert!(seconds("step_seconds") >= seconds("seconds"), "{result}");
        assert_eq!((word(&result, "files"), &result["verified"]), ("new", &true.into()));
        steps += 1;
    }
    assert!(steps > 40, "{steps}");
    assert!(directory.is_empty());
    for result in results("dist3d --strategies auto --steps 3") {
        assert_eq!((word(&result, "files"), &result["step_seconds"]), ("same", &Value::Null));
    }
}

#[test]
fn memory_can_be_without_gaps() {
    for result in results("btio unstruc stem2 --memory packed --strategies auto") {
        assert_eq!((word(&result, "memory"), &result["verified"]), ("packed", &true.into()));
    }
    for result in results("dist3d --set ghost=2 --strategies two-phase,sieve --levels 0,2,3") {
        assert_eq!((word(&result, "memory"), &result["verified"]), ("gaps", &true.into()));
    }
}

#[test]
fn a_mistake_in_a_description_is_named_with_its_line() {
    let directory = Directory::new("description");
    let path = directory.0.join("bad.toml");
    for (content, reason) in [
        ("[[part]]\nstart = 0\nblock = \"rank *\"\n", "bad.toml: line 3: "),
        ("[[part]]\nstart = 0\nlength = 4\n", "line 3: unknown field `length`"),
        ("ranks = 3\n[[part]]\nstart = 0\nblock = 1\n", "made for 3 ranks, run with 4"),
    ] {
        std::fs::write(&path, content).unwrap();
        let output = pario(&format!("bench --quick {}", path.display()));
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(reason), "{message}");
    }
    // Ranks that overlap can only read.
    std::fs::write(&path, "[[part]]\nstart = \"rank * 5\"\nblock = 10\n").unwrap();
    let read = results(&format!("{} --strategies auto,sieve", path.display()));
    assert!(read.iter().all(|result| word(result, "direction") == "read"));
    let output = pario(&format!("bench --quick --direction write {}", path.display()));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn help_names_every_workload_and_its_parameters() {
    let help = text(&pario("bench --help").stdout);
    let words = "hacc-io numparticles madbench2 no_gang reorderTasksRandom query_count \
                 element_bytes problem_size Ntime_steps segmentCount FILE.toml --levels --files";
    for word in words.split_whitespace() {
        assert!(help.contains(word), "{word}: {help}");
    }
    for workload in WORKLOADS.split(' ').take(9) {
        assert!(help.contains(&format!("\n  {workload}: ")), "{workload}");
        assert!(help.contains(&format!("pario bench {workload} ")), "an example of {workload}");
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
        ("bench --edge 0", "must be at least 1"),
        ("bench --strategies fast", "not a strategy"),
        ("bench --strategies block", "not a strategy; known are auto"),
        ("bench --contenders pario,ompio", "not a strategy"),
        ("bench --contenders pario,mpi", "mpirun -n 4 pario bench --contenders pario,mpi"),
        ("bench --quick --contenders mpi --embedded", "without --embedded"),
        ("bench --workloads sort", "block-cyclic"),
        ("bench sort", "use block-cyclic, dist3d"),
        ("bench none.toml", "none.toml: No such file"),
        ("bench ior --set transfersize=1", "there are: segmentCount, blockSize"),
        ("bench ior --set blockSize=3,transferSize=2", "not a multiple of transferSize=2"),
        ("bench hacc-io --set layout=both", "use aos or soa"),
        ("bench btio --ranks 5", "needs a square"),
        ("bench dist3d --levels 4", "--levels"),
        ("bench dist3d --files old", "same"),
        ("bench dist3d --files new --planned", "cannot be used with"),
        ("bench dist3d --steps 0", "--steps"),
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
        ("explain papers", "use block-cyclic"),
        ("explain papers", "or RECORDING.jsonl"),
        ("explain --run --device hdd", "cannot be used with"),
        ("explain --ranks 4 --nodes 9", "9 nodes for 4 ranks"),
        ("explain --profile none", "--profile"),
        ("explain --network token-ring", "LATENCY_US:MB_PER_S"),
        ("explain --device tape", "use hdd"),
        ("explain --hint cb_node=3", "did you mean cb_nodes?"),
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
fn every_way_to_serve_a_call_is_explained() {
    let directory = Directory::new("ways");
    let picture = directory.0.join("ways.svg");
    let described = "explain block-cyclic --block 64 --ranks 16 --nodes 4 --profile hdd";
    let output = pario(&format!("{described} --direction write --svg {}", picture.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for word in ["  list ", "  sieve ", "predicted fastest", "% of the predicted time"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert_eq!(shown.matches("\n* ").count(), 2, "one is chosen, and explained: {shown}");
    assert!(std::fs::read_to_string(picture).unwrap().contains("two-phase"));
    let shown = pario("explain --dir /dev/shm");
    assert!(text(&shown.stdout).contains("profile tmpfs"), "a directory has a file system");
    let output = pario(&format!("{described} --json"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "a write and a read");
    for line in lines {
        let ways = line["ways"].as_array().unwrap();
        let ms = |way: &Value| way["predicted_ms"].as_f64().unwrap();
        let chosen = ways.iter().find(|way| way["chosen"] == true).unwrap();
        assert!(ways.len() >= 5 && ways.iter().all(|way| ms(way) >= ms(chosen)), "{line}");
        let terms = chosen["terms"].as_array().unwrap();
        let sum: f64 = terms.iter().map(|term| term["ms"].as_f64().unwrap()).sum();
        assert!((sum - ms(chosen)).abs() < 1e-6 * sum, "{line}");
    }
}

/// `--run` measures what it predicts, on the ranks and cores that there are.
#[test]
fn every_way_is_run_beside_its_prediction() {
    let call = "explain block-cyclic --bytes 64K --block 64 --ranks 4 --run --dir /dev/shm";
    let output = pario(&format!("{call} --json"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "a write and a read");
    for line in &lines {
        let ways = line["ways"].as_array().unwrap();
        assert!(ways.len() >= 6, "{line}");
        for way in ways {
            let number = |key: &str| way[key].as_f64().unwrap();
            assert!(number("measured_ms") > 0.0, "{way}");
            let error = 100.0 * (number("predicted_ms") / number("measured_ms") - 1.0);
            assert!((number("error_percent") - error).abs() < 1e-6, "{way}");
        }
        assert!(line["advice"].as_str().unwrap().contains("measured fastest: "), "{line}");
        assert!(line["cores"].as_u64().unwrap() >= 1);
    }
    let shown = text(&pario(&format!("{call} --direction read")).stdout);
    assert!(shown.contains("measured") && shown.contains("predictions are off by"), "{shown}");
    let alone = text(&pario(&format!("{call} --independent --direction write")).stdout);
    assert!(alone.contains("independent write") && alone.contains("measured fastest"), "{alone}");
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
    let output = pario("explain paper --svg /dev/null/exist.svg");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/dev/null/exist.svg"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn help_and_version_are_printed() {
    let version = pario("--version");
    assert_eq!(text(&version.stdout), concat!("pario ", env!("CARGO_PKG_VERSION"), "\n"));
    let help = text(&pario("bench --help").stdout);
    assert!(help.contains("Examples:") && help.contains("--strategies"), "{help}");
}

/// Nothing was killed, and nobody asked for results.
#[test]
fn a_directory_in_which_no_other_can_be_made_is_all_that_is_said() {
    let directory = Directory::new("long");
    let mut path = directory.0.clone();
    // Paths have at most 4095 bytes, also for root, who may write everywhere.
    while path.as_os_str().len() < 4000 {
        path.push("d".repeat(60));
    }
    path.push("d".repeat(4080 - path.as_os_str().len()));
    std::fs::create_dir_all(&path).unwrap();
    for command in ["bench --quick", "calibrate --seconds 1"] {
        let output = pario(&format!("{command} --dir {}", path.display()));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot make a directory: File name too long"), "{said}");
        assert!(!said.contains("killed") && !said.contains("results"), "{said}");
    }
}

#[test]
fn a_negative_number_is_refused_with_what_is_allowed() {
    let cases = [
        ("bench --ranks -3", "-3 is not in 1..=4096"),
        ("bench --bytes -1K", "must be more than 0"),
        ("bench --edge -3", "must be at least 1"),
        ("bench --calls-max -1", "must be at least 0"),
        ("calibrate --seconds -1", "-1 is not in 1..=25"),
        ("explain dist3d --nodes -2", "-2 is not in 1..="),
        ("explain --block -4", "must be more than 0"),
    ];
    for (arguments, reason) in cases {
        let output = pario(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(reason) && !said.contains("-- -"), "{arguments}: {said}");
    }
}

/// A busy machine must not make a short run a long one.
#[test]
fn no_repetition_begins_after_the_time_for_them() {
    let words = "bench block-cyclic --embedded --ranks 2 --bytes 64M --blocks 512 --strategies \
                 list,two-phase --direction write --repeat 1000 --seconds-max 1 --json";
    let output = Command::new(env!("CARGO_BIN_EXE_pario")).args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let records = lines.lines().map(serde_json::from_str::<serde_json::Value>);
    let counts: Vec<u64> =
        records.map(|record| record.unwrap()["repetitions"].as_u64().unwrap()).collect();
    assert_eq!(counts.len(), 3);
    assert!(counts.iter().all(|count| (1..1000).contains(count)), "{counts:?}");
}
