//! What is measured: a file, its host, its file system, and whether its device is a rotating disk.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pario::model::profile::{Machine, host};
use pario::storage::FileSystem;

use crate::failure::Failure;
use crate::measure::scratch::{Scratch, make_together};
use crate::measure::team::Team;

/// The file that is measured, open on every rank, in a directory that is removed at the end.
pub(super) struct Ground {
    path: PathBuf,
    pub(super) file: File,
    _directory: Scratch,
}

impl Ground {
    /// Makes the file in a directory that has room for `bytes`.
    pub(super) fn new(team: &Team<'_>, directory: &Path, bytes: u64) -> Result<Ground, Failure> {
        let directory = Scratch::new(team, directory, bytes)?;
        directory.results_are("no profile was written");
        let path = directory.file("calibrate");
        let file = make_together(team, &path)?;
        Ok(Ground { path, file, _directory: directory })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The machine of a profile.
pub(super) fn machine(transport: &str, ground: &Ground, cores: u32) -> Machine {
    Machine {
        host: host(),
        transport: transport.to_owned(),
        file_system: FileSystem::of_path(ground.path())
            .map_or("other", |known| known.name)
            .to_owned(),
        cores,
    }
}

/// Whether the device of a file turns, as far as the system says.
pub(super) fn is_rotational(ground: &Ground) -> bool {
    let Ok(metadata) = ground.file.metadata() else {
        return false;
    };
    let device = metadata.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let directory = format!("/sys/dev/block/{major}:{minor}");
    // A partition has no queue of its own; that of its disk is one directory above.
    let read = |name: &str| fs::read_to_string(Path::new(&directory).join(name)).ok();
    let flag = read("queue/rotational").or_else(|| read("../queue/rotational"));
    flag.is_some_and(|flag| flag.trim() == "1")
}
