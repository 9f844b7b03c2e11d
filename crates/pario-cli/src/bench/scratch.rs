//! The file that is measured: made at the start, removed at the end, whatever the end is.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process;

use super::team::Team;
use crate::failure::Failure;

/// A new file with a name of its own, open on every rank. The first one removes it when this is
/// dropped, and on Ctrl-C.
pub(crate) struct Scratch {
    path: PathBuf,
    pub(crate) file: File,
    removes: bool,
}

impl Scratch {
    /// Makes the file in a directory that has room for `bytes`.
    pub(crate) fn new(team: &Team<'_>, directory: &Path, bytes: u64) -> Result<Scratch, Failure> {
        let made = match team.is_first() {
            true => Scratch::make(directory, bytes).map(Some),
            false => Ok(None),
        };
        let (made, own) = match made {
            Ok(Some(scratch)) => {
                let name = scratch.path.as_os_str().as_bytes().to_vec();
                (Some(scratch), Ok(name))
            }
            Ok(None) => (None, Ok(Vec::new())),
            Err(failure) => (None, Err(failure)),
        };
        let names = team.all(own)?;
        let opened = made.map_or_else(|| Scratch::open(&names), Ok);
        match opened {
            Ok(scratch) => team.agree(Ok(())).map(|()| scratch),
            Err(failure) => Err(team.agree(Err(failure)).err().unwrap_or(Failure::Told(1))),
        }
    }

    fn make(directory: &Path, bytes: u64) -> Result<Scratch, Failure> {
        check_room(directory, bytes)?;
        let path = directory.join(format!("pario-bench-{}.tmp", process::id()));
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = opened.map_err(|error| {
            Failure::Usage(format!("--dir {}: cannot make a file: {error}", directory.display()))
        })?;
        let scratch = Scratch { path: path.clone(), file, removes: true };
        let handled = ctrlc::set_handler(move || {
            // The program ends here; there is nobody to tell if the file stays.
            let _ = fs::remove_file(&path);
            process::exit(130);
        });
        handled.map_err(|error| Failure::during("arranging for Ctrl-C", error))?;
        Ok(scratch)
    }

    /// Opens what the first rank has made.
    fn open(names: &[Vec<u8>]) -> Result<Scratch, Failure> {
        let name = names.first().cloned().unwrap_or_default();
        let path = PathBuf::from(OsString::from_vec(name));
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let file = opened.map_err(|error| {
            let what = "opening the file that rank 0 has made; do all nodes have the directory?";
            Failure::during(format!("{what} {}", path.display()), error)
        })?;
        Ok(Scratch { path, file, removes: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.removes {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            eprintln!("pario: {} could not be removed: {error}", self.path.display());
        }
    }
}

fn check_room(directory: &Path, bytes: u64) -> Result<(), Failure> {
    let shown = directory.display();
    let space = rustix::fs::statvfs(directory)
        .map_err(|error| Failure::Usage(format!("--dir {shown}: {error}")))?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    match free_bytes < bytes {
        true => {
            let text = format!("--dir {shown}: {free_bytes} bytes are free, {bytes} are needed");
            Err(Failure::Usage(text))
        }
        false => Ok(()),
    }
}
