//! Loads an MPI library into a program that was not linked with one.
//!
//! The library must belong to the launcher that started the program, or every rank is alone in its
//! world. So, in this order: the library that is loaded already; the one that `PARIO_MPI_LIBRARY`
//! names; the one beside the launcher's program, which is found among the parents of this process;
//! the usual names on the loader's own path, those of the launcher's kind only.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pario::own_file::{self, Streams};
use pario::{Error, ErrorClass, Result};

use crate::abi::Family;
use crate::binding;
use crate::launcher::{self, LIBRARY, Launch};

/// Names of launchers' programs, and whose they are.
const LAUNCHERS: [(&str, Option<Family>); 11] = [
    ("hydra_pmi_proxy", Some(Family::Mpich)),
    ("hydra_bstrap_proxy", Some(Family::Mpich)),
    ("mpiexec.hydra", Some(Family::Mpich)),
    ("mpiexec.gforker", Some(Family::Mpich)),
    ("prterun", Some(Family::OpenMpi)),
    ("prted", Some(Family::OpenMpi)),
    ("prte", Some(Family::OpenMpi)),
    ("orterun", Some(Family::OpenMpi)),
    ("orted", Some(Family::OpenMpi)),
    ("mpirun", None),
    ("mpiexec", None),
];

/// File names of libraries.
const MPICH: [&str; 3] = ["libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1"];
const OPEN_MPI: [&str; 2] = ["libmpi.so.40", "libmpi_abi.so.1"];

/// Where libraries lie, from the directory above the launcher's.
const DIRECTORIES: [&str; 3] = ["lib", "lib64", "lib/release"];

/// Makes sure that an MPI library is in this process.
pub(crate) fn load(launch: Option<&Launch>) -> Result<()> {
    if binding::is_loaded() {
        return Ok(());
    }
    if let Some(name) = launcher::wanted_library() {
        return open(&name).map_err(|reason| {
            let text = format!("{LIBRARY}={}: {reason}", name.display());
            Error::new(ErrorClass::Other, text)
        });
    }
    let family = launch.and_then(|launch| launch.family);
    let programs = launcher::ancestors();
    let beside = programs.iter().flat_map(|program| beside(program, family));
    let beside: Vec<PathBuf> = beside.filter(|path| path.is_file()).collect();
    let anywhere = names(family).into_iter().map(PathBuf::from);
    let mut tried = String::new();
    for candidate in beside.into_iter().chain(anywhere) {
        match open(candidate.as_os_str()) {
            Ok(()) => return Ok(()),
            Err(reason) => tried += &format!("\n  {}: {reason}", candidate.display()),
        }
    }
    let text = format!(
        "no MPI library was found; set {LIBRARY} to the path of the one whose mpirun started this \
         program. Tried:{tried}"
    );
    Err(Error::new(ErrorClass::Other, text))
}

/// The names that libraries of a kind have.
fn names(family: Option<Family>) -> Vec<&'static str> {
    match family {
        Some(Family::OpenMpi) => OPEN_MPI.to_vec(),
        Some(Family::Mpich | Family::Standard) => MPICH.to_vec(),
        None => MPICH.iter().chain(&OPEN_MPI[..1]).copied().collect(),
    }
}

/// Where the library of a launcher may lie, if a program is one.
fn beside(program: &Path, family: Option<Family>) -> Vec<PathBuf> {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    // Debian's have their kind as a suffix: mpiexec.openmpi.
    let known = LAUNCHERS.iter().find(|(known, _)| name == *known || name.starts_with("mpiexec."));
    let Some((_, of_launcher)) = known else { return Vec::new() };
    let Some(prefix) = program.parent().and_then(Path::parent) else { return Vec::new() };
    let names = names(family.or(*of_launcher));
    let multi_arch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let directories = DIRECTORIES.iter().copied().chain([multi_arch.as_str()]);
    directories
        .flat_map(|directory| names.iter().map(move |name| prefix.join(directory).join(name)))
        .collect()
}

/// Loads a library for good, or says why not.
fn open(name: &OsStr) -> std::result::Result<(), String> {
    // The loader would wait for the other end of a FIFO. Names without a slash it looks up itself.
    if name.as_bytes().contains(&b'/') {
        own_file::open(Path::new(name), Streams::Refused).map_err(|error| error.to_string())?;
    }
    let name = CString::new(name.as_bytes()).map_err(|_| "not a file name".to_owned())?;
    // Open MPI's components look its symbols up in the global scope.
    let flags = libc::RTLD_NOW | libc::RTLD_GLOBAL;
    // SAFETY: an MPI library may be loaded at any time; it stays loaded.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if !handle.is_null() && binding::is_loaded() {
        return Ok(());
    }
    if !handle.is_null() {
        // SAFETY: the handle was just given, and nothing of it is in use.
        unsafe { libc::dlclose(handle) };
        return Err("it has no MPI_Init".to_owned());
    }
    Err(binding::loader_error())
}

#[cfg(test)]
mod tests {
    use pario_testkit::scratch::Scratch;
    use pario_testkit::watchdog::Watchdog;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_library_is_looked_for_beside_its_launcher() {
        let found = |program: &str, family| {
            let paths = beside(Path::new(program), family);
            paths.into_iter().map(|path| path.display().to_string()).collect::<Vec<String>>()
        };
        let hydra = found("/opt/mpich/bin/hydra_pmi_proxy", None);
        assert_eq!(hydra[0], "/opt/mpich/lib/libmpi.so.12");
        assert!(hydra.iter().all(|path| !path.ends_with(".40")));
        let debian = found("/usr/bin/orterun", Some(Family::OpenMpi));
        assert!(debian.contains(&"/usr/lib/x86_64-linux-gnu/libmpi.so.40".to_owned()));
        assert!(debian.iter().all(|path| !path.ends_with("libmpich.so.12")));
        assert!(found("/usr/bin/bash", Some(Family::OpenMpi)).is_empty());
        assert!(found("/usr/bin/mpiexec.openmpi", None).len() > 1);
    }

    #[test]
    fn what_is_no_library_is_told() {
        assert!(open(OsStr::new("/does/not/exist.so")).unwrap_err().contains("No such file"));
        assert!(open(OsStr::new("libdoes_not_exist.so")).unwrap_err().contains("does_not_exist"));
        assert!(open(OsStr::new("libc.so.6")).unwrap_err().contains("MPI_Init"));
    }

    /// The loader opens what it is given, and waits there for somebody who writes to a FIFO.
    #[test]
    fn a_library_is_a_regular_file() {
        let _watchdog = Watchdog::new("a_library_is_a_regular_file");
        let scratch = Scratch::new();
        let fifo = scratch.path("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        let reason = open(fifo.as_os_str()).unwrap_err();
        assert_eq!(reason, "not a regular file but a pipe or FIFO");
    }
}
