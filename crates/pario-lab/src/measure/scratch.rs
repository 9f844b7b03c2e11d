//! The directory of the files that are measured: made at the start, removed at the end with all
//! that is in it, whatever the end is. An end before its time says where the results so far are.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use pario::model::profile;

use super::team::Team;
use crate::failure::Failure;
use crate::sweep::{self, Sweeper};

/// Whether Ctrl-C is being handled: files vanish, and the program ends with code 130.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Waits for the end of the program if Ctrl-C is being handled: what failed since then, failed
/// because files were removed.
pub fn wait_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// A new directory with a name of its own, known to every rank. The first one removes it when this
/// is dropped, and on Ctrl-C; a process of its own does so if the first one is killed.
pub(crate) struct Scratch {
    path: PathBuf,
    /// Of the first rank.
    early_end: Option<Arc<Mutex<EarlyEnd>>>,
}

/// What an end before its time needs.
struct EarlyEnd {
    sweeper: Option<Sweeper>,
    /// Where results are.
    text: String,
}

impl EarlyEnd {
    fn results_are(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        if let Some(sweeper) = &mut self.sweeper {
            sweeper.if_killed(text);
        }
    }
}

fn locked(early_end: &Mutex<EarlyEnd>) -> MutexGuard<'_, EarlyEnd> {
    // Nothing in there can be half done.
    early_end.lock().unwrap_or_else(PoisonError::into_inner)
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
        Ok(made.unwrap_or(Scratch { path, early_end: None }))
    }

    fn make(directory: &Path, bytes: u64) -> Result<Scratch, Failure> {
        check_room(directory, bytes)?;
        // Other hosts may use the directory, and have processes of the same number.
        let name = format!("pario-bench-{}-{}.tmp", profile::host(), process::id());
        let path = directory.join(name);
        // Before there is a directory: a Ctrl-C right after its creation would leave it.
        let mut early_end = EarlyEnd { sweeper: Sweeper::start(&path), text: String::new() };
        early_end.results_are("there are no results yet");
        let early_end = Arc::new(Mutex::new(early_end));
        let (removed, handed) = (path.clone(), Arc::clone(&early_end));
        let handled = ctrlc::set_handler(move || {
            INTERRUPTED.store(true, Ordering::SeqCst);
            let mut early_end = locked(&handed);
            sweep::say(&format!("interrupted; {}", early_end.text));
            if let Some(sweeper) = &mut early_end.sweeper {
                sweeper.if_killed("");
            }
            remove_while_in_use(&removed);
            process::exit(130);
        });
        handled.map_err(|error| Failure::during("arranging for Ctrl-C", error))?;
        fs::create_dir(&path).map_err(|error| {
            // There is nothing to remove, and the error below is all that is to be said.
            locked(&early_end).sweeper = None;
            let shown = directory.display();
            Failure::Usage(format!("--dir {shown}: cannot make a directory: {error}"))
        })?;
        Ok(Scratch { path, early_end: Some(early_end) })
    }

    /// Says where results are, for an end before its time.
    pub(crate) fn results_are(&self, text: &str) {
        if let Some(early_end) = &self.early_end {
            locked(early_end).results_are(text);
        }
    }

    /// Prints results and says where they are; an interruption comes before or after both.
    pub(crate) fn publish(
        &self,
        text: &str,
        print: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(early_end) = &self.early_end else { return Ok(()) };
        let mut early_end = locked(early_end);
        print()?;
        early_end.results_are(text);
        Ok(())
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
        let Some(early_end) = &self.early_end else { return };
        // The handler of Ctrl-C may have been faster.
        if let Err(error) = fs::remove_dir_all(&self.path)
            && self.path.exists()
        {
            sweep::say(&format!("{} could not be removed: {error}", self.path.display()));
        }
        locked(early_end).sweeper = None;
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
