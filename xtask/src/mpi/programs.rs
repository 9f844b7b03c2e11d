//! Programs in Rust on each MPI: those that find their MPI library themselves, and one of the crate
//! `mpi`, which is linked with it.
//!
//! | name | what runs |
//! | --- | --- |
//! | `conformance` | the contract of communicators, 1 to 5 ranks, [`NODE_MEMORY`] in some |
//! | `interleaved` | the example of `pario-mpi` |
//! | `bench` | `pario bench`, which must give each result once |
//! | `calibrate` | `pario calibrate`, which must store one profile |
//! | `rsmpi` | `crates/pario-mpi/tests/rsmpi`, built with each MPI |

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::clients::at_once;
use super::launch::{self, Finished};
use super::library::{Mpi, Start};
use super::report::{self, Outcome, Report};
use super::setup::{self, Setup};
use super::traces;
use super::verdict;
use super::{MpiTestArguments, Places};
use crate::open_command;

const LIMIT: Duration = Duration::from_secs(120);
const RANKS: [u32; 5] = [1, 2, 3, 4, 5];

/// What ranks of one node may use of each other besides the default.
const NODE_MEMORY: [&str; 1] = ["none"];

/// What `pario bench` measures: the workloads that need not be named, and some with gaps in
/// memory, several parts and several calls, at all levels and with new files.
const BENCHES: [&str; 3] = [
    "",
    "btio unstruc madbench2 --strategies list,two-phase,auto --levels 0,2,3",
    "stem2 ior hacc-io s3asim --strategies auto --files new --levels 2,3",
];

/// Beside the MPI libraries' own `MPI_File_*`, and beside those of the drop-in.
const PEERS: &str = "--contenders pario,mpi";
const PEERS_OF_DROP_IN: &str = "btio dist3d unstruc stem2 ior s3asim --set ghost=1 \
    --contenders pario,mpi,drop-in --levels 0,1,2,3 --files new --hint cb_nodes=2";

/// What is said where the library's own MPI-IO would call the drop-in.
const REFUSED: &str = "start without pario run, or with PARIO_DISABLE=1";

/// More than MPI can send at once. Four ranks' worth of it is in memory at a time.
const VERY_LONG_BYTES: &str = "2200000011";

/// What a program has printed, or why that is wrong.
type Check = fn(&Finished, u32) -> Option<String>;

/// A program on one MPI.
struct Case<'a> {
    name: &'static str,
    mpi: &'a Mpi,
    program: PathBuf,
    words: Vec<OsString>,
    ranks: u32,
    check: Check,
    /// `PARIO_NODE_MEMORY`, if it is set.
    memory: Option<&'static str>,
    /// The drop-in, if it is preloaded; the program refuses that.
    drop_in: Option<PathBuf>,
}

/// Builds and runs all programs that are asked for.
pub(super) fn run_all(
    places: &Places,
    setup: &Setup,
    library: Option<&Path>,
    arguments: &MpiTestArguments,
    skipped: &mut Vec<String>,
    report: &mut Report,
) -> Result<(), String> {
    let mut cases = Vec::new();
    let release = places.target.join("release");
    if arguments.wants("conformance") || arguments.wants("interleaved") {
        build(places, &["--examples"])?;
    }
    if arguments.wants("bench") || arguments.wants("calibrate") {
        build(places, &[])?;
    }
    for mpi in &setup.mpis {
        let case = |name, program: &str, words: &str, ranks, check: Check| Case {
            name,
            mpi,
            program: release.join(program),
            words: words.split_whitespace().map(OsString::from).collect(),
            ranks,
            check,
            memory: None,
            drop_in: None,
        };
        if arguments.wants("conformance") {
            for ranks in RANKS {
                for level in ["single", "multiple"] {
                    cases.push(case("conformance", "examples/conformance", level, ranks, passed));
                }
            }
            for memory in NODE_MEMORY {
                for (ranks, level) in [(2, "single"), (5, "multiple")] {
                    let usual = case("conformance", "examples/conformance", level, ranks, passed);
                    cases.push(Case { memory: Some(memory), ..usual });
                }
            }
        }
        if arguments.wants("interleaved") {
            let words = "interleaved.dat";
            cases.push(case("interleaved", "examples/interleaved", words, 4, every_rank));
        }
        if arguments.wants("bench") {
            for words in BENCHES {
                let words = format!("bench --quick --json --dir . {words}");
                cases.push(case("bench", "pario", &words, 4, results_once));
            }
            let words = |of: &str| format!("bench --quick --json --dir . {of}");
            let peers = || case("bench", "pario", &words(PEERS), 4, results_of_peers);
            cases.push(peers());
            if let Some(library) = library {
                let all = words(PEERS_OF_DROP_IN);
                cases.push(case("bench", "pario", &all, 4, results_of_drop_in));
                cases.push(Case { drop_in: Some(library.to_owned()), ..peers() });
            }
        }
        if arguments.wants("calibrate") {
            let words = "calibrate --seconds 1 --json --dir . --output profile.toml";
            cases.push(case("calibrate", "pario", words, 4, stored_once));
        }
    }
    let outcomes = at_once("programs in Rust run", cases, |case| run(places, setup, &case))?;
    outcomes.into_iter().for_each(|outcome| report.add(outcome));
    if arguments.long && arguments.wants("conformance") {
        run_long(places, setup, report)?;
    }
    match arguments.wants("rsmpi") {
        true => rsmpi(places, setup, skipped, report),
        false => Ok(()),
    }
}

/// A message of more than 2 GiB, one MPI after the other.
fn run_long(places: &Places, setup: &Setup, report: &mut Report) -> Result<(), String> {
    for mpi in &setup.mpis {
        let program = places.target.join("release/examples/conformance");
        let words = vec!["multiple".into(), VERY_LONG_BYTES.into()];
        let name = "conformance, 2 GiB";
        let (memory, drop_in) = (None, None);
        let case = Case { name, mpi, program, words, ranks: 2, check: passed, memory, drop_in };
        report.add(run(places, setup, &case)?);
    }
    Ok(())
}

/// The program of the crate `mpi` with each MPI that the crate can be built with.
fn rsmpi(
    places: &Places,
    setup: &Setup,
    skipped: &mut Vec<String>,
    report: &mut Report,
) -> Result<(), String> {
    // The crate does not know the standard ABI.
    for mpi in setup.mpis.iter().filter(|mpi| !mpi.has_standard_abi()) {
        let program = places.mpi.join("clients").join(mpi.name).join("rsmpi");
        if let Err(reason) = build_rsmpi(places, mpi, &program)? {
            println!("skipped: rsmpi: {reason}");
            skipped.push(format!("rsmpi: {reason}"));
            return Ok(());
        }
        let (name, words) = ("rsmpi", Vec::new());
        let (memory, drop_in) = (None, None);
        let case = Case { name, mpi, program, words, ranks: 4, check: passed, memory, drop_in };
        report.add(run(places, setup, &case)?);
    }
    Ok(())
}

/// Builds it unless it is newer than all it is made of. The inner outcome is a reason that is not
/// the program's fault.
///
/// All MPIs share a target directory, so that only what depends on MPI is built for each.
fn build_rsmpi(
    places: &Places,
    mpi: &Mpi,
    program: &Path,
) -> Result<Result<(), &'static str>, String> {
    let package = places.package().join("tests/rsmpi");
    let library = places.target.join("release/libpario_mpi.so");
    let sources = [package.join("src/main.rs"), package.join("Cargo.toml"), library];
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    if setup::is_newer(program, &sources) {
        return Ok(Ok(()));
    }
    let target = places.mpi.join("rsmpi");
    let cargo = |words: &[&str]| {
        let mut command = Command::new(crate::steps::cargo_path());
        command.args(words).current_dir(&package);
        command.env("CARGO_TARGET_DIR", &target).env("MPICC", &mpi.mpicc);
        open_command::run(&mut command)
    };
    // The crate does not notice that it is another MPI now.
    cargo(&["clean", "--quiet", "--release", "--package", "mpi-sys"])?;
    let ended = cargo(&["build", "--release"])?;
    if !ended.status.success() {
        return match hindrance(&ended.errors) {
            Some(reason) => Ok(Err(reason)),
            None => Err(format!("cannot build rsmpi with {}:\n{}", mpi.name, ended.errors)),
        };
    }
    let directory = program.parent().unwrap_or(program);
    let copied = fs::create_dir_all(directory)
        .and_then(|()| fs::copy(target.join("release/rsmpi"), program));
    copied.map_err(|error| format!("cannot copy {}: {error}", program.display()))?;
    Ok(Ok(()))
}

/// What is missing here, if that is why a build failed.
fn hindrance(errors: &str) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 4] = [
        ("Unable to find libclang", "there is no libclang"),
        ("failed to download", "its crates cannot be downloaded"),
        ("failed to get `", "its crates cannot be downloaded"),
        ("Could not resolve host", "its crates cannot be downloaded"),
    ];
    KNOWN.iter().find(|(text, _)| errors.contains(text)).map(|(_, reason)| *reason)
}

fn build(places: &Places, words: &[&str]) -> Result<(), String> {
    let words: Vec<&str> = ["build", "--release"].iter().chain(words).copied().collect();
    open_command::cargo(&words, &places.root)
}

fn run(places: &Places, setup: &Setup, case: &Case<'_>) -> Result<Outcome, String> {
    let mpi = case.mpi;
    let words: Vec<String> = case.words.iter().map(|word| word.display().to_string()).collect();
    let word = words.join("").replace(['/', '.', '-'], "");
    let memory = case.memory.map(|memory| format!("-{memory}")).unwrap_or_default();
    let refused = if case.drop_in.is_some() { "-refused" } else { "" };
    let name = format!("{}-{}-{word}{memory}{refused}", case.name, case.ranks);
    let name = name.replace([' ', ','], "");
    let directory = places.mpi.join("scratch").join(mpi.name).join(&name);
    let failed = |error| format!("cannot make {}: {error}", directory.display());
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(failed)?;
    }
    fs::create_dir_all(&directory).map_err(failed)?;
    let mut words = vec![case.program.clone().into_os_string()];
    words.extend(case.words.iter().cloned());
    // A program that is linked with MPI has to find it; the others do that by themselves.
    let linked = case.name == "rsmpi";
    let mut env = if linked { Vec::new() } else { mpi.chosen_library() };
    env.extend(case.memory.map(|memory| ("PARIO_NODE_MEMORY".to_owned(), memory.into())));
    let patience = mpi.needs_patience().then(|| setup.patience.clone());
    let preload = case.drop_in.iter().cloned().chain(patience).collect();
    let start = Start { ranks: case.ranks, words, env, preload };
    let finished = match linked {
        true => launch::launch(mpi, &start, &directory, LIMIT)?,
        false => launch::launch(&mpi.without_path(), &start, &directory, LIMIT)?,
    };
    let faults = faults(case, &finished, &directory);
    let log = places.mpi.join("logs").join(mpi.name).join(name + ".log");
    report::write_log(&log, &finished.log, &faults)?;
    if faults.is_empty() {
        fs::remove_dir_all(&directory).map_err(failed)?;
    }
    let memory = case.memory.map(|memory| format!(", {memory}")).unwrap_or_default();
    let (program, note) = (format!("{} (Rust{memory})", case.name), String::new());
    Ok(Outcome { program, mpi: mpi.name, seconds: finished.seconds, faults, note })
}

fn faults(case: &Case<'_>, finished: &Finished, directory: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    match finished.status {
        None => faults.push(finished.hangs()),
        Some(status) if case.drop_in.is_some() => {
            let told = finished.stderr.contains(REFUSED);
            let refused = !status.success() && told && finished.stdout.is_empty();
            faults.extend((!refused).then(|| format!("does not say `{REFUSED}`: {status}")));
        }
        Some(status) if !status.success() => faults.push(format!("ended with {status}")),
        Some(_) => faults.extend((case.check)(finished, case.ranks)),
    }
    if finished.strays > 0 && finished.status.is_some() {
        faults.push(format!("{} processes were left behind", finished.strays));
    }
    let left =
        traces::unexpected(directory, &["interleaved.dat", "profile.toml"].map(str::to_owned));
    faults.extend(left.iter().map(|name| format!("left in its directory: {name}")));
    faults.extend(verdict::memory_faults(finished, true));
    faults
}

fn passed(finished: &Finished, _ranks: u32) -> Option<String> {
    let count = finished.stdout.lines().filter(|line| line.trim() == "PASS").count();
    (count != 1).then(|| format!("{count} ranks printed PASS, not the first one"))
}

/// What the example prints on every rank.
fn every_rank(finished: &Finished, ranks: u32) -> Option<String> {
    let told = |rank: &u32| {
        let start = format!("rank {rank}: all 100000 floats of rank ");
        finished.stdout.lines().any(|line| line.starts_with(&start))
    };
    let silent = (0..ranks).find(|rank| !told(rank));
    silent.map(|rank| format!("rank {rank} does not say that all is right"))
}

/// Every line is a verified result on MPI, and none is there twice.
fn results_once(finished: &Finished, ranks: u32) -> Option<String> {
    if let Err(reason) = crate::steps::verified(&finished.stdout) {
        return Some(reason);
    }
    let mut seen = BTreeSet::new();
    for line in finished.stdout.lines() {
        let part = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
            rest.split([',', '}']).next()
        };
        let expected = [("transport", "\"mpi\"".to_owned()), ("ranks", ranks.to_string())];
        let wrong = expected.iter().find(|(name, value)| part(name) != Some(value.as_str()));
        if let Some((name, _)) = wrong {
            return Some(format!("a result has another {name}: {line}"));
        }
        let key = ["workload", "part", "level", "strategy", "block", "direction"].map(part);
        if !seen.insert(key.map(|word| word.unwrap_or_default().to_owned())) {
            return Some(format!("a result is there twice: {line}"));
        }
    }
    None
}

/// The same, and the library's own MPI-IO has as many results as pario.
fn results_of_peers(finished: &Finished, ranks: u32) -> Option<String> {
    results_once(finished, ranks).or_else(|| as_many_results(finished, &["auto", "mpi"]))
}

/// The same with the drop-in.
fn results_of_drop_in(finished: &Finished, ranks: u32) -> Option<String> {
    let all = ["auto", "mpi", "drop-in"];
    results_once(finished, ranks).or_else(|| as_many_results(finished, &all))
}

fn as_many_results(finished: &Finished, strategies: &[&str]) -> Option<String> {
    let count = |strategy: &&str| {
        let part = format!("\"strategy\":\"{strategy}\"");
        finished.stdout.lines().filter(|line| line.contains(&part)).count()
    };
    let counts: Vec<usize> = strategies.iter().map(count).collect();
    let same = counts[0] > 0 && counts.iter().all(|count| *count == counts[0]);
    (!same).then(|| format!("results of {strategies:?}: {counts:?}"))
}

/// One object, of a profile that was measured on MPI.
fn stored_once(finished: &Finished, _ranks: u32) -> Option<String> {
    let lines: Vec<&str> = finished.stdout.lines().collect();
    match lines.as_slice() {
        [line] if !line.contains("\"path\":\"profile.toml\"") => Some("no profile".to_owned()),
        [line] if line.contains("\"transport\":\"threads\"") => Some("not on MPI".to_owned()),
        [_] => None,
        _ => Some(format!("{} lines instead of one", lines.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(stdout: &str) -> Finished {
        let (stdout, stderr, log) = (stdout.to_owned(), String::new(), String::new());
        let left_in_memory = Vec::new();
        Finished { status: None, stdout, stderr, seconds: 0.0, strays: 0, left_in_memory, log }
    }

    #[test]
    fn results_come_once_and_from_mpi() {
        let line = |strategy: &str, transport: &str| {
            format!(
                "{{\"workload\":\"w\",\"strategy\":\"{strategy}\",\"ranks\":4,\
                 \"transport\":\"{transport}\",\"block\":4,\"direction\":\"write\",\
                 \"verified\":true}}\n"
            )
        };
        let (one, two) = (line("list", "mpi"), line("auto", "mpi"));
        assert_eq!(results_once(&finished(&format!("{one}{two}")), 4), None);
        assert!(results_once(&finished(&format!("{one}{two}{one}")), 4).is_some());
        assert!(results_once(&finished(&one), 3).is_some());
        assert!(results_once(&finished(&line("list", "threads")), 4).is_some());
        assert!(results_once(&finished(""), 4).is_some());
    }

    #[test]
    fn each_contender_has_as_many_results() {
        let line = |strategy: &str, direction: &str| {
            format!(
                "{{\"strategy\":\"{strategy}\",\"ranks\":4,\"transport\":\"mpi\",\
                 \"direction\":\"{direction}\",\"verified\":true}}\n"
            )
        };
        let lines = |strategy| line(strategy, "write") + &line(strategy, "read");
        let both = lines("auto") + &lines("mpi");
        assert_eq!(results_of_peers(&finished(&both), 4), None);
        assert!(results_of_drop_in(&finished(&both), 4).is_some());
        assert_eq!(results_of_drop_in(&finished(&(both + &lines("drop-in"))), 4), None);
        let less = lines("auto") + &line("mpi", "write");
        assert!(results_of_peers(&finished(&less), 4).is_some());
        assert!(results_of_peers(&finished(""), 4).is_some());
    }

    #[test]
    fn a_profile_is_stored_once_and_from_mpi() {
        let line = |path: &str, transport: &str| {
            format!("{{\"path\":\"{path}\",\"machine\":{{\"transport\":\"{transport}\"}}}}\n")
        };
        let good = line("profile.toml", "mpich");
        assert_eq!(stored_once(&finished(&good), 4), None);
        assert!(stored_once(&finished(&good.repeat(2)), 4).is_some());
        assert!(stored_once(&finished(&line("profile.toml", "threads")), 4).is_some());
        assert!(stored_once(&finished(&line("other.toml", "mpich")), 4).is_some());
        assert!(stored_once(&finished(""), 4).is_some());
    }

    #[test]
    fn a_missing_tool_is_told_from_a_broken_program() {
        assert!(hindrance("thread panicked: Unable to find libclang: \"...\"").is_some());
        assert!(hindrance("error[E0308]: mismatched types").is_none());
    }
}
