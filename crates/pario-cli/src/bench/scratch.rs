//! The file that is measured: made at the start, removed at the end, whatever the end is.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process;

use crate::failure::Failure;

/// A new file with a name of its own, removed when this is dropped, and on Ctrl-C.
pub(crate) struct Scratch {
    path: PathBuf,
    pub(crate) file: File,
}

impl Scratch {
    /// Makes the file in a directory that has room for `bytes`.
    pub(crate) fn new(directory: &Path, bytes: u64) -> Result<Scratch, Failure> {
        check_room(directory, bytes)?;
        let path = directory.join(format!("pario-bench-{}.tmp", process::id()));
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = opened.map_err(|error| {
            Failure::Usage(format!("--dir {}: cannot make a file: {error}", directory.display()))
        })?;
        let scratch = Scratch { path: path.clone(), file };
        let handled = ctrlc::set_handler(move || {
            // The program ends here; there is nobody to tell if the file stays.
            let _ = fs::remove_file(&path);
            process::exit(130);
        });
        handled.map_err(|error| Failure::during("arranging for Ctrl-C", error))?;
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
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
