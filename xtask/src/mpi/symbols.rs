//! Whether the drop-in library has every function on files that an MPI library has: one that it
//! lacks would get pario's handles and not know them. And it needs no MPI library itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Places;
use super::library::Mpi;
use super::report::{Outcome, Report};

/// The name of this check.
pub(super) const NAME: &str = "symbols";

/// Compares the drop-in library with each MPI. Programs that `constants` has built say which
/// library they are linked with.
pub(super) fn check(
    places: &Places,
    mpis: &[Mpi],
    library: &Path,
    report: &mut Report,
) -> Result<(), String> {
    let own = on_files(&output(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?);
    let needed = output(Command::new("readelf").arg("-d").arg(library))?;
    let needs_mpi = needed.lines().any(|line| line.contains("NEEDED") && line.contains("libmpi"));
    for mpi in mpis {
        let program = places.mpi.join("constants").join(mpi.name).join("print-constants");
        let path = linked(mpi, &program)?;
        let names = output(Command::new("nm").args(["-D", "--defined-only"]).arg(&path))?;
        let names = on_files(&names);
        let mut faults: Vec<String> =
            names.difference(&own).map(|name| format!("{name} is not in the library")).collect();
        if needs_mpi {
            faults.push("the library needs an MPI library".to_owned());
        }
        if names.is_empty() {
            faults.push(format!("{} has no functions on files", path.display()));
        }
        faults.iter().for_each(|fault| println!("FAIL: {} {fault}", mpi.name));
        let note = format!("{} names", names.len());
        let (program, mpi) = (NAME.to_owned(), mpi.name);
        report.add(Outcome { program, mpi, seconds: 0.0, faults, note });
    }
    Ok(())
}

/// The MPI library that a program is linked with.
fn linked(mpi: &Mpi, program: &Path) -> Result<PathBuf, String> {
    let mut command = Command::new("ldd");
    if let Some(path) = mpi.library_path() {
        command.env("LD_LIBRARY_PATH", path);
    }
    let text = output(command.arg(program))?;
    let path = text.lines().filter(|line| line.trim_start().starts_with("libmpi"));
    let mut paths = path.filter_map(|line| line.split_whitespace().find(|word| word.contains('/')));
    let missing = || format!("{} is linked with no MPI library", program.display());
    paths.next().map(PathBuf::from).ok_or_else(missing)
}

/// The functions on files in what `nm` printed.
fn on_files(names: &str) -> BTreeSet<String> {
    let on_files = |name: &&str| {
        let plain = name.strip_prefix('P').unwrap_or(name);
        plain.starts_with("MPI_File_") && !plain.ends_with("_f") && !plain.ends_with("_f08")
            || plain.starts_with("MPI_Register_datarep")
                && ["MPI_Register_datarep", "MPI_Register_datarep_c"].contains(&plain)
    };
    names.split_whitespace().filter(on_files).map(str::to_owned).collect()
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let program = command.get_program().display().to_string();
    let output = output.map_err(|error| format!("cannot start {program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_on_files_are_found_by_their_names() {
        let text = "0 T MPI_File_open\n1 W PMPI_File_open_c\n2 T MPI_Send\n\
                    3 T PMPI_Register_datarep\n4 W MPI_File_open_f08\n5 T MPI_Register_datarep_f\n";
        let names: Vec<String> = on_files(text).into_iter().collect();
        assert_eq!(names, ["MPI_File_open", "PMPI_File_open_c", "PMPI_Register_datarep"]);
    }
}
