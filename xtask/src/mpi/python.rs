//! Packages from PyPI: MPI libraries, each with mpi4py in a virtual environment of its own.
//!
//! A directory is ready when its stamp says what it was made of. What has no stamp or another one,
//! as after an interrupted run, is made anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::open_command;

pub(super) const MPI4PY: &str = "mpi4py==4.1.2";

/// With these, mpi4py's tests skip nothing for want of a package.
const COMPANIONS: [&str; 2] = ["numpy", "cffi"];

const STAMP: &str = ".ready";

/// Makes a virtual environment with an MPI and mpi4py.
pub(super) fn environment(directory: &Path, package: &str) -> Result<(), String> {
    let mut packages = vec![package, MPI4PY];
    packages.extend(COMPANIONS);
    made_once(directory, &packages.join(" "), || {
        println!("installing {} in {}", packages.join(" "), directory.display());
        let venv = ["-m", "venv"].map(PathBuf::from);
        let words = venv.iter().map(PathBuf::as_path).chain([directory]);
        run("make a virtual environment", Path::new("python3"), words)?;
        let words = ["-m", "pip", "install", "--no-input", "--only-binary=:all:"];
        let words = words.iter().chain(&packages).map(Path::new);
        run(&format!("install {package} from PyPI"), &directory.join("bin/python"), words)
    })
}

/// Unpacks the source package of mpi4py.
pub(super) fn mpi4py_source(directory: &Path, python: &Path) -> Result<(), String> {
    made_once(directory, MPI4PY, || {
        println!("fetching the source of {MPI4PY}");
        let words = ["-m", "pip", "download", "--no-input", "--no-deps"];
        let words = words.iter().chain(&["--no-binary=mpi4py", MPI4PY, "--dest"]).map(Path::new);
        run(&format!("fetch {MPI4PY} from PyPI"), python, words.chain([directory]))?;
        let archive = directory.join(format!("{}.tar.gz", MPI4PY.replace("==", "-")));
        let words = ["-m", "tarfile", "--extract"].map(Path::new);
        run("unpack it", python, words.into_iter().chain([archive.as_path(), directory]))
    })
}

/// Where the tests are in it.
pub(super) fn mpi4py_tests(directory: &Path) -> PathBuf {
    directory.join(MPI4PY.replace("==", "-")).join("test")
}

/// Makes a virtual environment with programs; the outcome is where they are.
pub(super) fn tools(directory: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let words = ["-m", "venv"].iter().map(Path::new).chain([directory]);
    run("make a virtual environment", Path::new("python3"), words)?;
    let bin = directory.join("bin");
    let words = ["-m", "pip", "install", "--no-input", "--only-binary=:all:"];
    let words = words.iter().chain(packages).map(Path::new);
    run(&format!("install {} from PyPI", packages.join(" ")), &bin.join("python"), words)?;
    Ok(bin)
}

/// Makes a directory unless its stamp says that it is made of this, here.
pub(super) fn made_once(
    directory: &Path,
    of: &str,
    make: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let stamp = directory.join(STAMP);
    let wanted = format!("{of}\n{}\n", directory.display());
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let failed = |error| format!("cannot make {}: {error}", directory.display());
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failed)?;
    }
    fs::create_dir_all(directory).map_err(failed)?;
    make()?;
    fs::write(&stamp, wanted).map_err(failed)
}

/// The first line of an error says what it was to do, the others what was printed.
fn run<'a>(
    what: &str,
    program: &Path,
    words: impl Iterator<Item = &'a Path>,
) -> Result<(), String> {
    let mut command = Command::new(program);
    let ended = open_command::run(command.args(words))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("cannot {what}\n{}{}", ended.errors, ended.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ready_is_not_made_again_and_what_is_not_is_made_anew() {
        let directory = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        let make = |of: &str| {
            let mut made = false;
            let outcome = made_once(&directory, of, || {
                assert!(!directory.join("old").exists());
                fs::write(directory.join("old"), "").map_err(|error| error.to_string())?;
                made = true;
                Ok(())
            });
            outcome.unwrap();
            made
        };
        assert!(make("a"));
        assert!(!make("a"));
        assert!(make("b"));
        assert!(made_once(&directory, "c", || Err("broken".to_owned())).is_err());
        assert!(make("b"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
