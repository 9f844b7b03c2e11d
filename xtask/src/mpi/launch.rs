//! One run of a program on an MPI, with a time limit.
//!
//! Launchers put ranks into process groups of their own, so a group is not enough to end all that a
//! run has started. Each run therefore carries a mark in its environment, by which its processes
//! are found; after a time limit they are killed, and after any other end there must be none.
//!
//! Each also has a directory of its own for temporary files. Launchers of Open MPI make one for all
//! that a user runs, and whoever ends as the last one removes it; another one that begins at that
//! moment fails.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::library::{Mpi, Start};
use super::traces;

const POLL: Duration = Duration::from_millis(5);
const GRACE: Duration = Duration::from_secs(2);

/// The name of the mark in the environment.
const MARK: &str = "PARIO_TEST_RUN";

static RUNS: AtomicU64 = AtomicU64::new(0);

/// What a run did.
pub(super) struct Finished {
    /// `None` if the time limit ended it.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) seconds: f64,
    /// Processes that were still there after the launcher had ended.
    pub(super) strays: usize,
    /// The command and all output.
    pub(super) log: String,
}

/// A directory for temporary files, removed in the end. Its name is short: it is a part of the
/// names of sockets.
struct Temporary(PathBuf);

impl Temporary {
    fn new(mark: &str) -> Result<Temporary, String> {
        let path = std::env::temp_dir().join(format!("pario-{mark}"));
        let created = fs::create_dir_all(&path);
        created.map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing that is left there matters.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program on an MPI, in a directory.
pub(super) fn launch(
    mpi: &Mpi,
    start: &Start,
    directory: &Path,
    limit: Duration,
) -> Result<Finished, String> {
    carry_out(mpi.command(start), directory, limit, &mut |_| ())
}

/// Runs a command in a directory; its output goes through files beside that directory. Something
/// may be done again and again meanwhile; it gets the mark of the run.
pub(super) fn carry_out(
    mut command: Command,
    directory: &Path,
    limit: Duration,
    meanwhile: &mut dyn FnMut(&str),
) -> Result<Finished, String> {
    let mark = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let outputs = ["out", "err"].map(|kind| directory.with_extension(kind));
    let create = |path: &Path| {
        File::create(path).map_err(|error| format!("cannot create {}: {error}", path.display()))
    };
    let temporary = Temporary::new(&mark)?;
    command.current_dir(directory).env(MARK, &mark).process_group(0).stdin(Stdio::null());
    command.env("TMPDIR", &temporary.0);
    command.stdout(create(&outputs[0])?).stderr(create(&outputs[1])?);
    let shown = crate::steps::shown(&command);
    let begin = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("cannot start {shown}: {error}"))?;
    let mark = format!("{MARK}={mark}");
    let status = wait(&mut child, limit, &mut || meanwhile(&mark))?;
    if status.is_none() {
        end_all(&mut child, &mark)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let strays = end_strays(&mark);
    let [stdout, stderr] = outputs.map(|path| {
        let bytes = fs::read(&path).unwrap_or_default();
        // What is left of it is in the log.
        let _ = fs::remove_file(&path);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let log = format!("$ {shown}\n--- output\n{stdout}--- errors\n{stderr}");
    Ok(Finished { status, stdout, stderr, seconds, strays, log })
}

/// Waits for the end; `None` if the limit comes first.
fn wait(
    child: &mut Child,
    limit: Duration,
    meanwhile: &mut dyn FnMut(),
) -> Result<Option<ExitStatus>, String> {
    let begin = Instant::now();
    loop {
        meanwhile();
        match child.try_wait() {
            Ok(None) if begin.elapsed() < limit => thread::sleep(POLL),
            Ok(status) => return Ok(status),
            Err(error) => return Err(format!("cannot wait for a program: {error}")),
        }
    }
}

/// Ends a run: first by asking the launcher, which removes its files then, and then by force.
fn end_all(child: &mut Child, mark: &str) -> Result<(), String> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // A process that has ended meanwhile needs no signal.
    let signal = |signal| group.map(|group| kill_process_group(group, signal));
    signal(Signal::TERM);
    wait(child, GRACE, &mut || ())?;
    signal(Signal::KILL);
    kill_marked(mark);
    child.wait().map_err(|error| format!("cannot wait for a program: {error}"))?;
    Ok(())
}

/// Gives processes time to end by themselves, and kills the rest; the outcome is how many.
fn end_strays(mark: &str) -> usize {
    let begin = Instant::now();
    while begin.elapsed() < GRACE {
        if traces::marked_processes(mark).is_empty() {
            return 0;
        }
        thread::sleep(POLL);
    }
    kill_marked(mark)
}

fn kill_marked(mark: &str) -> usize {
    let processes = traces::marked_processes(mark);
    for process in &processes {
        let _ = kill_process(*process, Signal::KILL);
    }
    processes.len()
}
