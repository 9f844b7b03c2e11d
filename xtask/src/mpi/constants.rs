//! The constants of each MPI, as its own compiler wrapper sees them.
//!
//! `abi/print-constants.c` prints them. `cargo xtask abi` writes that to the tables beside it, one
//! for each version of each library, and the tests compare. A name that a library does not declare
//! is found by compiling twice: the compiler says which names are not declared, and the second time
//! they are defined as absent.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Places;
use super::clients;
use super::launch;
use super::library::{Mpi, Start};
use super::report::{Outcome, Report};
use super::tables;

const LIMIT: Duration = Duration::from_secs(60);

/// Where the tables are.
pub(super) fn directory(places: &Places) -> PathBuf {
    places.package().join("abi")
}

/// Compares each MPI with its table, and the Rust code with the tables.
pub(super) fn check(places: &Places, mpis: &[Mpi], report: &mut Report) -> Result<(), String> {
    let begin = Instant::now();
    let printed = clients::at_once("tables of constants printed", mpis.iter().collect(), |mpi| {
        print(places, mpi)
    })?;
    let stale = tables::stale(places)?;
    for (mpi, printed) in mpis.iter().zip(printed) {
        let table = fs::read_to_string(directory(places).join(mpi.table)).unwrap_or_default();
        let mut faults = differences(&table, &printed);
        faults.extend(stale.iter().map(|path| format!("{path}: run cargo xtask abi")));
        faults.iter().for_each(|fault| println!("FAIL: {} {fault}", mpi.name));
        report.add(Outcome {
            program: "constants".to_owned(),
            mpi: mpi.name,
            seconds: begin.elapsed().as_secs_f64(),
            faults,
            note: format!("{} names", printed.lines().count()),
        });
    }
    Ok(())
}

/// Writes the table of each MPI; the outcome is how many.
pub(super) fn write(places: &Places, mpis: &[Mpi]) -> Result<usize, String> {
    for mpi in mpis {
        let path = directory(places).join(mpi.table);
        let written = fs::write(&path, print(places, mpi)?);
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(mpis.len())
}

/// The constants of an MPI, one `NAME value` per line.
fn print(places: &Places, mpi: &Mpi) -> Result<String, String> {
    let source = directory(places).join("print-constants.c");
    let out = places.mpi.join("constants").join(mpi.name);
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let (_, errors) = compile(mpi, &source, &[Path::new("-fsyntax-only")])?;
    let absent = undeclared(&errors);
    let program = out.join("print-constants");
    let defined: Vec<String> = absent.iter().map(|name| format!("-D{name}=ABSENT")).collect();
    let mut words: Vec<&Path> = defined.iter().map(Path::new).collect();
    words.extend([Path::new("-o"), &program]);
    let (compiled, errors) = compile(mpi, &source, &words)?;
    if !compiled {
        return Err(format!("{} cannot compile {}:\n{errors}", mpi.name, source.display()));
    }
    let words = vec![program.into()];
    let start = Start { ranks: 1, words, env: Vec::new(), preload: Vec::new() };
    let finished = launch::launch(mpi, &start, &out, LIMIT)?;
    match finished.status {
        Some(status) if status.success() => Ok(constants(&finished.stdout)),
        _ => Err(format!("{} cannot print its constants:\n{}", mpi.name, finished.log)),
    }
}

/// The lines of constants. What is below an MPI prints there, too: UCX where there is no `/sys`.
fn constants(stdout: &str) -> String {
    let lines =
        stdout.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Whether it worked, and what the compiler said.
fn compile(mpi: &Mpi, source: &Path, words: &[&Path]) -> Result<(bool, String), String> {
    let mut command = Command::new(&mpi.mpicc);
    command.args(["-std=gnu11", "-fmax-errors=0"]).arg(source).args(words);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output();
    let output =
        output.map_err(|error| format!("cannot start {}: {error}", mpi.mpicc.display()))?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Names that the compiler does not know: `error: 'MPI_X' undeclared (first use in ...`.
fn undeclared(errors: &str) -> BTreeSet<&str> {
    let name = |line: &'_ str| -> Option<(usize, usize)> {
        let end = line.find("' undeclared")?;
        let start = line[..end].rfind('\'')? + 1;
        Some((start, end))
    };
    let names = errors.lines().filter_map(|line| name(line).map(|(start, end)| &line[start..end]));
    names.filter(|name| name.starts_with("MPI_")).collect()
}

/// Lines that are in only one of two tables.
fn differences(table: &str, printed: &str) -> Vec<String> {
    let [expected, found] = [table, printed].map(|text| text.lines().collect::<BTreeSet<&str>>());
    let missing = expected.difference(&found).map(|line| format!("does not print `{line}`"));
    let new = found.difference(&expected).map(|line| format!("prints `{line}`"));
    missing.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undeclared_names_are_those_before_the_word_and_not_the_suggestions() {
        let errors = "x.c:1:2: error: 'MPI_A' undeclared (first use in this function); \
                      did you mean 'MPI_B'?\nx.c: error: 'other' undeclared\nx.c: note: 'MPI_C'\n";
        assert_eq!(undeclared(errors), BTreeSet::from(["MPI_A"]));
    }

    #[test]
    fn what_others_print_is_no_constant() {
        let stdout = "[1.5] [host:7:0] tcp_iface.c:9 UCX ERROR no /sys\nMPI_A 1\nSIZE_B 2\n";
        assert_eq!(constants(stdout), "MPI_A 1\nSIZE_B 2\n");
    }

    #[test]
    fn tables_differ_by_lines() {
        assert!(differences("A 1\nB 2\n", "B 2\nA 1\n").is_empty());
        assert_eq!(differences("A 1\n", "A 2\n"), ["does not print `A 1`", "prints `A 2`"]);
    }
}
