//! The steps of `cargo xtask test`, from the quickest to the longest.
//!
//! A step that fails ends the run: what follows would only repeat the news.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::TestArguments;
use crate::browser;
use crate::mpi;
use crate::style;

const PROGRAMS: u64 = 50_000;
const PROGRAMS_QUICK: u64 = 2_000;

/// Everything that `pario bench` can measure.
const WORKLOADS: [&str; 10] = [
    "block-cyclic",
    "dist3d",
    "btio",
    "unstruc",
    "stem2",
    "ior",
    "hacc-io",
    "madbench2",
    "s3asim",
    "benchmarks/pattern.toml",
];

/// What `pario study` prints for the modes that are the same everywhere.
const STUDIES: &str = "benchmarks/studies/expected.jsonl";

/// A name for the log, and what to do.
struct TestStep {
    name: &'static str,
    action: Action,
}

enum Action {
    /// Has to end with success.
    Run(Command),
    /// Has to end with success and to say on each line that the bytes were right.
    Bench(Command),
    /// Has to end with success and to print what a file has, byte for byte.
    Expect(Command, &'static str),
    /// Has to end with success; skipped with a message where this program is not installed.
    RunWith(&'static str, Command),
    /// Has to end with success, and to show programs nothing that only transports need.
    Doc(Command),
    /// The checks of [`style`].
    Style,
    /// A report in a browser; see [`browser`].
    Browser,
    /// Programs on MPI libraries, with this seed; see [`mpi`].
    Mpi(Option<u64>),
}

/// Runs all steps; the outcome is a line for the end of the log.
pub(crate) fn run_all(root: &Path, arguments: &TestArguments) -> Result<String, String> {
    // A seed that is printed with the command repeats the run.
    let seed = arguments.seed.unwrap_or_else(new_seed);
    let arguments = TestArguments { seed: Some(seed), ..*arguments };
    let steps = steps(root, &arguments);
    let count = steps.len();
    let begin = Instant::now();
    let mut skipped = Vec::new();
    for (index, step) in steps.into_iter().enumerate() {
        let label = format!("[{}/{count}] {}", index + 1, step.name);
        println!("{label} ...");
        let step_begin = Instant::now();
        let outcome = run(root, step.action, &mut skipped);
        let elapsed_s = step_begin.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("{label}: ok, {elapsed_s:.1} s"),
            Err(reason) => return Err(format!("{label}: {reason}, after {elapsed_s:.1} s")),
        }
    }
    let elapsed_s = begin.elapsed().as_secs_f64();
    Ok(format!("{count} steps passed in {elapsed_s:.1} s{}", mpi::skipped_text(&skipped)))
}

/// A seed that differs from run to run.
pub(crate) fn new_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn steps(root: &Path, arguments: &TestArguments) -> Vec<TestStep> {
    let cargo = |words: &str| {
        let mut command = Command::new(cargo_path());
        command.args(words.split_whitespace()).current_dir(root).stdin(Stdio::null());
        command
    };
    let step = |name, command| TestStep { name, action: Action::Run(command) };
    let programs = arguments.programs.unwrap_or(match arguments.quick {
        true => PROGRAMS_QUICK,
        false => PROGRAMS,
    });
    // Without loom, whose dependencies would have all others built anew with more features.
    let mut test = cargo("test --workspace --exclude pario-loom --release");
    test.env("PARIO_PROGRAMS", programs.to_string());
    // A profile of this machine would change what is chosen.
    test.env_remove("PARIO_PROFILE").env("XDG_CONFIG_HOME", target_path(root).join("no-profiles"));
    if let Some(seed) = arguments.seed {
        test.env("PARIO_SEED", seed.to_string());
    }
    let mut doc = cargo("doc --no-deps --workspace --lib");
    doc.env("RUSTDOCFLAGS", "-D warnings");
    let mut bench = Command::new(target_path(root).join("release/pario"));
    bench.args(["bench", "--quick", "--json"]).args(WORKLOADS);
    bench.current_dir(root).stdin(Stdio::null());
    let mut study = Command::new(target_path(root).join("release/pario"));
    study.args(["study", "all", "--quick", "--mode", "count,virtual", "--json"]);
    study.current_dir(root).stdin(Stdio::null());
    let arrays = "test -p pario --features ndarray,num-complex --lib --examples -- array complex";
    let mut steps = vec![
        step("format", cargo("fmt --all -- --check")),
        TestStep { name: "style", action: Action::Style },
        step("clippy", cargo("clippy --workspace --all-targets --all-features -- -D warnings")),
        step("build", cargo("build --workspace --exclude pario-loom --release")),
        step("test", test),
        step("loom", cargo("test -p pario-loom --release")),
        step("arrays", cargo(arrays)),
        TestStep { name: "memory", action: Action::RunWith("valgrind", memory_check(root)) },
        TestStep { name: "doc", action: Action::Doc(doc) },
        step("package", package(root)),
        TestStep { name: "bench", action: Action::Bench(bench) },
        TestStep { name: "studies", action: Action::Expect(study, STUDIES) },
        TestStep { name: "browser", action: Action::Browser },
    ];
    if !arguments.no_mpi && !arguments.quick {
        steps.push(TestStep { name: "mpi", action: Action::Mpi(arguments.seed) });
    }
    steps
}

/// What may be put on a registry can be packaged. Nothing is fetched: what the packages need has
/// been built before.
fn package(root: &Path) -> Command {
    let mut command = Command::new(cargo_path());
    command.args(["package", "--offline", "--no-verify", "--allow-dirty", "--quiet"]);
    command.args(["--package=pario-derive", "--package=pario", "--package=pario-mpi"]);
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// The tests of the modules with unsafe code, under valgrind's memcheck. Sanitizers find more, but
/// need a nightly compiler.
fn memory_check(root: &Path) -> Command {
    const RUNNER: &str = "target.\"cfg(all())\".runner=[\"valgrind\", \"--quiet\", \
                          \"--error-exitcode=99\", \"--leak-check=no\", \"--fair-sched=yes\"]";
    const MODULES: [&str; 5] =
        ["datatype::copy", "access::memory", "comm::", "node::", "storage::posix::mapped"];
    let mut command = Command::new(cargo_path());
    command.args(["test", "--release", "--lib", "--package=pario", "--package=pario-mpi"]);
    command.args(["--config", RUNNER, "--"]).args(MODULES);
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// Whether a program can be started.
fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Says that something is left out, now and at the end.
fn skip(text: String, skipped: &mut Vec<String>) {
    println!("skipped: {text}");
    skipped.push(text);
}

fn run(root: &Path, action: Action, skipped: &mut Vec<String>) -> Result<(), String> {
    match action {
        Action::Mpi(seed) => {
            let arguments = mpi::MpiTestArguments { seed, ..Default::default() };
            mpi::test_and_tell(root, &arguments, skipped).map(|summary| println!("{summary}"))
        }
        Action::Style => style::check(root).map(|summary| println!("{summary}")),
        Action::Browser => {
            match browser::check(root, &target_path(root).join("release/pario"))? {
                Ok(summary) => println!("{summary}"),
                Err(reason) => skip(reason, skipped),
            }
            Ok(())
        }
        Action::RunWith(program, _) if !is_installed(program) => {
            skip(format!("what needs {program}: it is not installed"), skipped);
            Ok(())
        }
        Action::Run(mut command) | Action::RunWith(_, mut command) => {
            println!("$ {}", shown(&command));
            let status = command.status().map_err(|error| unstartable(&command, &error))?;
            succeeded(status)
        }
        Action::Doc(command) => {
            run(root, Action::Run(command), skipped)?;
            let path = target_path(root).join("doc/pario/all.html");
            let pages = std::fs::read_to_string(&path);
            only_for_programs(&pages.map_err(|error| format!("{}: {error}", path.display()))?)
        }
        Action::Expect(mut command, name) => {
            println!("$ {}", shown(&command));
            command.stderr(Stdio::inherit());
            let output = command.output().map_err(|error| unstartable(&command, &error))?;
            succeeded(output.status)?;
            let expected = std::fs::read(root.join(name));
            let expected = expected.map_err(|error| format!("{name}: {error}"))?;
            let renew = format!("{} > {name}", shown(&command));
            as_expected(&expected, &output.stdout).map_err(|line| {
                format!(
                    "line {line} is not that of {name}; if it is right, renew the file: {renew}"
                )
            })
        }
        Action::Bench(mut command) => {
            println!("$ {}", shown(&command));
            command.stderr(Stdio::inherit());
            let output = command.output().map_err(|error| unstartable(&command, &error))?;
            let text = String::from_utf8_lossy(&output.stdout);
            print!("{text}");
            succeeded(output.status)?;
            verified(&text)
        }
    }
}

/// Success if two texts are the same; otherwise the number of the first line that differs.
fn as_expected(expected: &[u8], found: &[u8]) -> Result<(), usize> {
    if expected == found {
        return Ok(());
    }
    let lines = |text: &[u8]| text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let (expected, found): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (lines(expected), lines(found));
    let same = expected.iter().zip(&found).take_while(|(one, other)| one == other).count();
    Err(same + 1)
}

/// The pages of `pario::comm` for programs. What else is public there is for transports in other
/// crates, and hidden.
const COMM_PAGES: [&str; 12] = [
    "collective/fn.all_gather",
    "collective/fn.barrier",
    "collective/fn.broadcast",
    "enum.Lane",
    "fn.block_on",
    "fn.receive",
    "struct.Simulated",
    "struct.Solo",
    "struct.Tag",
    "struct.Threads",
    "trait.Communicator",
    "type.Task",
];

/// An error for pages of `pario::comm` that are not for programs, in the list of all pages.
fn only_for_programs(all_pages: &str) -> Result<(), String> {
    let pages = all_pages.split("href=\"comm/").skip(1).filter_map(|rest| rest.split('"').next());
    let names = pages.map(|page| page.trim_end_matches(".html"));
    let (known, others): (Vec<&str>, Vec<&str>) = names.partition(|name| COMM_PAGES.contains(name));
    match (known.is_empty(), others.as_slice()) {
        (true, _) => Err("the documentation has no page of pario::comm".to_owned()),
        (false, []) => Ok(()),
        (false, others) => Err(format!(
            "pario::comm shows {}: hide what only transports need, or name it in COMM_PAGES",
            others.join(", ")
        )),
    }
}

fn succeeded(status: std::process::ExitStatus) -> Result<(), String> {
    match status.success() {
        true => Ok(()),
        false => Err(format!("failed with {status}")),
    }
}

/// Whether a benchmark printed results, each a JSON object that says its bytes were right.
pub(crate) fn verified(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("the benchmark printed no result".to_owned());
    }
    let right = |line: &str| {
        let object = line.starts_with('{') && line.ends_with('}');
        object && line.replace(' ', "").contains("\"verified\":true")
    };
    match text.lines().find(|line| !right(line.trim())) {
        Some(line) => Err(format!("a result is not verified: {line}")),
        None => Ok(()),
    }
}

fn unstartable(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", command.get_program().display())
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let set = set.map(|(name, value)| format!("{}={:?}", name.display(), value));
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words = words.map(|word| word.display().to_string());
    set.chain(words).collect::<Vec<String>>().join(" ")
}

/// The cargo that runs this program, or the one in the path.
pub(crate) fn cargo_path() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub(crate) fn target_path(root: &Path) -> PathBuf {
    let given = env::var_os("CARGO_TARGET_DIR").filter(|path| !path.is_empty());
    root.join(given.unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(quick: bool, programs: Option<u64>, seed: Option<u64>) -> TestArguments {
        TestArguments { programs, no_mpi: true, quick, seed }
    }

    /// What the test step gets in its environment, besides the place without profiles.
    fn environment(arguments: &TestArguments) -> Vec<(String, String)> {
        let steps = steps(Path::new("."), arguments);
        let step = steps.into_iter().find(|step| step.name == "test").unwrap();
        let Action::Run(command) = step.action else { panic!("tests are run by cargo") };
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let set = set.filter(|(name, _)| *name != "XDG_CONFIG_HOME");
        set.map(|(name, value)| (name.display().to_string(), value.display().to_string())).collect()
    }

    #[test]
    fn the_number_of_programs_and_the_seed_reach_the_tests() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let programs = |value| pair("PARIO_PROGRAMS", value);
        assert_eq!(environment(&arguments(false, None, None)), [programs("50000")]);
        assert_eq!(environment(&arguments(true, None, None)), [programs("2000")]);
        let given = environment(&arguments(true, Some(7), Some(9)));
        assert_eq!(given, [programs("7"), pair("PARIO_SEED", "9")]);
    }

    #[test]
    fn what_needs_a_missing_program_is_skipped_aloud() {
        let action = Action::RunWith("pario-no-such-program", Command::new("false"));
        let mut skipped = Vec::new();
        assert_eq!(run(Path::new("."), action, &mut skipped), Ok(()));
        assert_eq!(skipped, ["what needs pario-no-such-program: it is not installed"]);
        let action = Action::RunWith("cargo", Command::new("false"));
        assert!(run(Path::new("."), action, &mut skipped).is_err());
    }

    #[test]
    fn pages_that_only_transports_need_are_found() {
        let page = |name: &str| format!("<li><a href=\"comm/{name}.html\">{name}</a></li>");
        let good = page("struct.Tag") + "<a href=\"file/struct.File.html\">" + &page("fn.receive");
        assert_eq!(only_for_programs(&good), Ok(()));
        let error = only_for_programs(&(good + &page("struct.GateLine"))).unwrap_err();
        assert!(error.starts_with("pario::comm shows struct.GateLine: "), "{error}");
        assert!(only_for_programs("").is_err());
    }

    #[test]
    fn packages_for_others_say_what_they_are() {
        let mut cargo = Command::new(cargo_path());
        cargo.args(["metadata", "--offline", "--no-deps", "--format-version=1"]);
        let output = cargo.current_dir(crate::root()).output().unwrap();
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let packages = all["packages"].as_array().unwrap();
        for name in ["pario-derive", "pario", "pario-mpi"] {
            let package = packages.iter().find(|package| package["name"] == name).unwrap();
            for key in ["description", "license", "readme", "rust_version"] {
                assert!(package[key].is_string(), "{name} has no {key}");
            }
            for key in ["keywords", "categories"] {
                let words = package[key].as_array().unwrap();
                assert!((1..=5).contains(&words.len()), "{name}: {key} {words:?}");
            }
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                assert!(crate::root().join("crates").join(name).join(licence).is_file());
            }
        }
    }

    #[test]
    fn a_benchmark_without_verified_results_is_a_failure() {
        assert!(verified("{\"verified\":true}\n{\"a\":1, \"verified\": true}\n").is_ok());
        for text in ["", "\n", "{\"verified\":false}", "{}", "verified", "{\"verified\":true}\nx"] {
            assert!(verified(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_first_line_that_is_not_expected_is_named() {
        assert_eq!(as_expected(b"a\nb\n", b"a\nb\n"), Ok(()));
        assert_eq!(as_expected(b"a\nb\n", b"a\nc\n"), Err(2));
        assert_eq!(as_expected(b"a\nb\n", b"a\n"), Err(2));
        assert_eq!(as_expected(b"", b"a\n"), Err(1));
    }

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }
}
