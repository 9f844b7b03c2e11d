//! The directory of the files that are measured: made at the start, removed at the end with all
//! that is in it, whatever the end is.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::team::Team;
use crate::failure::Failure;

/// Whether Ctrl-C is being handled: files vanish, and the program ends with code 130.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Waits for the end of the program if Ctrl-C is being handled: what failed since then, failed
/// because files were removed.
pub(crate) fn wait_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// A new directory with a name of its own, known to every rank. The first one removes it when this
/// is dropped, and on Ctrl-C.
pub(crate) struct Scratch {
    path: PathBuf,
    removes: bool,
}

impl Scratch {
    /// Makes the directory in one that has room for `bytes`.
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
        let name = names.into_iter().next().unwrap_or_default();
        let path = PathBuf::from(OsString::from_vec(name));
        Ok(made.unwrap_or(Scratch { path, removes: false }))
    }

    fn make(directory: &Path, bytes: u64) -> Result<Scratch, Failure> {
        check_room(directory, bytes)?;
        let path = directory.join(format!("pario-bench-{}.tmp", process::id()));
        // Before there is a directory: a Ctrl-C right after its creation would leave it.
        let removed = path.clone();
        let handled = ctrlc::set_handler(move || {
            INTERRUPTED.store(true, Ordering::SeqCst);
            remove_while_in_use(&removed);
            process::exit(130);
        });
        handled.map_err(|error| Failure::during("arranging for Ctrl-C", error))?;
        fs::create_dir(&path).map_err(|error| {
            let shown = directory.display();
            Failure::Usage(format!("--dir {shown}: cannot make a directory: {error}"))
        })?;
        Ok(Scratch { path, removes: true })
    }

    /// Where a file of this name is.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
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
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("pario: {} could not be removed: {error}", self.path.display());
        }
    }
}

/// Removes a directory in which another thread may just make a file; then there is one more try.
fn remove_while_in_use(path: &Path) {
    const TRIES: usize = 10;
    // The program ends afterwards; there is nobody to notify if files stay.
    let _ = (0..TRIES).find(|_| fs::remove_dir_all(path).is_ok() || !path.exists());
}

/// Makes a file that all ranks then open.
pub(crate) fn make_together(team: &Team<'_>, path: &Path) -> Result<File, Failure> {
    team.first(|| {
        let made = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        made.map(|_| ()).map_err(|error| Failure::during(path.display(), error))
    })?;
    open_together(team, path)
}

/// Opens a file on all ranks, or fails on all.
pub(crate) fn open_together(team: &Team<'_>, path: &Path) -> Result<File, Failure> {
    let opened = OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
        let what = "opening the file that rank 0 has made; do all nodes have the directory?";
        Failure::during(format!("{what} {}", path.display()), error)
    });
    let (file, own) = match opened {
        Ok(file) => (Some(file), Ok(())),
        Err(failure) => (None, Err(failure)),
    };
    team.agree(own)?;
    file.ok_or(Failure::Told(1))
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
