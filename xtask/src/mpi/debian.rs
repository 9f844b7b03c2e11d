//! Packages of Debian: installed by apt-get where that is possible, else skipped with the reason.
//!
//! Debian's PnetCDF is built against Debian's Open MPI, not against its MPICH, so both are needed.
//! They live side by side as `mpicc.mpich` and `mpicc.openmpi`. The plain names are symbolic links
//! that installing an MPI may turn to another one; where they existed before, they are turned back.

use std::process::{Command, Stdio};

use super::skips::Skips;
use crate::open_command;

/// Packages that are of use together.
pub(super) struct Group {
    pub(super) name: &'static str,
    packages: &'static [&'static str],
}

pub(super) const GROUPS: [Group; 6] = [
    Group { name: "MPICH 4", packages: &["mpich", "libmpich-dev"] },
    Group { name: "Fortran", packages: &["gfortran"] },
    Group { name: "parallel HDF5", packages: &["libhdf5-mpich-dev", "hdf5-tools"] },
    Group { name: "Open MPI 4", packages: &["openmpi-bin", "libopenmpi-dev"] },
    Group { name: "PnetCDF", packages: &["libpnetcdf-dev", "pnetcdf-bin"] },
    // The crate `mpi` needs it to be built.
    Group { name: "libclang", packages: &["libclang-dev"] },
];

/// Python as Debian has it, only where no other can make virtual environments.
pub(super) const PYTHON: Group =
    Group { name: "MPICH 5, Open MPI 5, mpi4py", packages: &["python3-venv"] };

/// Links that belong to whichever MPI was installed with the highest priority.
const LINKS: [&str; 2] = ["mpi", "mpirun"];

impl Group {
    fn shown(&self) -> String {
        format!("{} ({})", self.name, self.packages.join(", "))
    }
}

/// Installs what is missing; says whether all is here now.
pub(super) fn install(groups: &[Group], skips: &mut Skips) -> Result<bool, String> {
    let missing: Vec<&Group> = groups.iter().filter(|group| !is_installed(group)).collect();
    if missing.is_empty() {
        return Ok(true);
    }
    if let Some(reason) = hindrance() {
        missing.iter().for_each(|group| skips.cannot(&group.shown(), reason));
        return Ok(false);
    }
    let before = LINKS.map(link_target);
    // What is wrong with one of the sources need not concern these packages, so it is shown only
    // where one of them cannot be had.
    let updated = apt(&["update", "--option", "APT::Update::Error-Mode=any"]);
    let mut failures = Vec::new();
    // One after the other: what one group lacks must not keep the others away.
    for group in missing {
        println!("installing {}", group.shown());
        let words = ["install", "--yes", "--no-install-recommends"];
        let words: Vec<&str> = words.iter().chain(group.packages).copied().collect();
        failures.extend(apt(&words).err().map(|reason| (group, reason)));
    }
    for (link, before) in LINKS.iter().zip(before) {
        restore(link, before.as_deref())?;
    }
    let update = updated.err().unwrap_or_default();
    for (group, reason) in &failures {
        skips.failed(&group.shown(), format!("{reason}{update}").trim_end())?;
    }
    Ok(failures.is_empty())
}

/// Whether the packages of a group are here; nothing if there is no such group.
pub(super) fn has(name: &str) -> Option<bool> {
    GROUPS.iter().find(|group| group.name == name).map(is_installed)
}

/// Why packages cannot be installed here.
fn hindrance() -> Option<&'static str> {
    if !runs("apt-get", &["--version"]) {
        return Some("there is no apt-get");
    }
    (!rustix::process::geteuid().is_root()).then_some("only root may install packages")
}

fn is_installed(group: &Group) -> bool {
    group.packages.iter().all(|package| {
        let output = quiet("dpkg-query", &["--show", "--showformat=${db:Status-Status}", package]);
        output.is_some_and(|text| text == "installed")
    })
}

/// Waits for others that install something at the same time.
fn apt(words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(["--option", "DPkg::Lock::Timeout=600"]).args(words);
    let ended = open_command::run(command.env("DEBIAN_FRONTEND", "noninteractive"))?;
    let verb = words.first().copied().unwrap_or_default();
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("apt-get {verb} failed with {}:\n{}", ended.status, ended.errors)),
    }
}

/// What one of Debian's links points to.
fn link_target(name: &str) -> Option<String> {
    let text = quiet("update-alternatives", &["--query", name])?;
    let value = text.lines().find_map(|line| line.strip_prefix("Value: "))?;
    Some(value.to_owned())
}

/// Turns a link back that an installation has turned.
fn restore(name: &str, before: Option<&str>) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    if link_target(name).as_deref() == Some(before) {
        return Ok(());
    }
    println!("turning the link {name} back to {before}");
    match runs("update-alternatives", &["--set", name, before]) {
        true => Ok(()),
        false => Err(format!("cannot turn the link {name} back to {before}")),
    }
}

/// Whether a program can be started and ends well.
pub(super) fn runs(program: &str, words: &[&str]) -> bool {
    quiet(program, words).is_some()
}

/// The output of a program that ends well.
fn quiet(program: &str, words: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).env("LC_ALL", "C");
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}
