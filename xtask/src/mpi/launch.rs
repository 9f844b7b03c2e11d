//! One run of a program on an MPI, with a time limit.
//!
//! Launchers put ranks into process groups of their own, so a group is not enough to end all that a
//! run has started. Each run therefore carries a mark in its environment, by which its processes
//! are found; after a time limit they are killed, and after any other end there must be none.
//! Limits are times of a [`FairClock`], which other programs do not use up.
//!
//! Each run has a thread, whose `/dev/shm` is its own where that is possible.
//!
//! Each also has a directory of its own for temporary files. Launchers of Open MPI make one for all
//! runs of a user, and the last run that ends removes it; another one that begins at that moment
//! would fail.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::library::{Mpi, Start};
use super::shared_memory::SharedMemory;
use super::traces;
use crate::fair_clock::FairClock;

const POLL: Duration = Duration::from_millis(5);
/// How often the clock of a limit is looked at; a look reads the counts of all threads.
const TICK: Duration = Duration::from_secs(1);
/// How often the files of a run are looked at, where that is needed.
const LOOK: Duration = Duration::from_millis(50);
/// How long processes may take to end after their launcher has.
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
    /// Files in shared memory that were still there after all processes had ended.
    pub(super) left_in_memory: Vec<String>,
    /// The command and all output.
    pub(super) log: String,
}

impl Finished {
    /// What is wrong with a run that the time limit ended.
    pub(super) fn hangs(&self) -> String {
        format!("hangs: killed after {:.0} s", self.seconds)
    }
}

/// A directory for temporary files, removed in the end. Its name is short: it is a part of the
/// names of sockets.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Result<Temporary, String> {
        let path = std::env::temp_dir().join(format!("pario-{name}"));
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
    command: Command,
    directory: &Path,
    limit: Duration,
    meanwhile: &mut (dyn FnMut(&str) + Send),
) -> Result<Finished, String> {
    let run = || {
        let memory = SharedMemory::for_this_thread(directory);
        let name = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let mark = format!("{MARK}={name}");
        RunIdentity { name, mark, memory }.carry_out(command, directory, limit, meanwhile)
    };
    let run = thread::scope(|scope| scope.spawn(run).join());
    run.map_err(|_| "the thread of a run panicked".to_owned())?
}

/// What a run is known by.
struct RunIdentity {
    name: String,
    /// The pair in the environment of its processes.
    mark: String,
    memory: SharedMemory,
}

impl RunIdentity {
    fn carry_out(
        mut self,
        mut command: Command,
        directory: &Path,
        limit: Duration,
        meanwhile: &mut dyn FnMut(&str),
    ) -> Result<Finished, String> {
        let outputs = ["out", "err"].map(|kind| directory.with_extension(kind));
        let create = |path: &Path| {
            File::create(path).map_err(|error| format!("cannot create {}: {error}", path.display()))
        };
        let temporary = Temporary::new(&self.name)?;
        command.current_dir(directory).env(MARK, &self.name).process_group(0).stdin(Stdio::null());
        command.env("TMPDIR", &temporary.0);
        command.stdout(create(&outputs[0])?).stderr(create(&outputs[1])?);
        let shown = crate::steps::shown(&command);
        let begin = Instant::now();
        let child = command.spawn();
        let mut child = child.map_err(|error| format!("cannot start {shown}: {error}"))?;
        let status = self.wait(&mut child, limit, meanwhile)?;
        let mut stacks = String::new();
        if status.is_none() {
            stacks = crate::stacks::of(numbers(&self.mark));
            self.end_all(&mut child)?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let strays = self.end_strays();
        let left_in_memory = self.memory.left();
        let [stdout, stderr] = outputs.map(|path| {
            let bytes = fs::read(&path).unwrap_or_default();
            // What is left of it is in the log.
            let _ = fs::remove_file(&path);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let log = format!("$ {shown}\n--- output\n{stdout}--- errors\n{stderr}{stacks}");
        Ok(Finished { status, stdout, stderr, seconds, strays, left_in_memory, log })
    }

    /// Waits for the end; `None` if the limit comes first.
    fn wait(
        &mut self,
        child: &mut Child,
        limit: Duration,
        meanwhile: &mut dyn FnMut(&str),
    ) -> Result<Option<ExitStatus>, String> {
        let mut limit = Limit::new(limit);
        let mut looked = Instant::now();
        loop {
            meanwhile(&self.mark);
            if self.memory.needs_looks() && looked.elapsed() > LOOK {
                looked = Instant::now();
                self.memory.look_at(&traces::marked_processes(&self.mark));
            }
            match child.try_wait() {
                Ok(None) if !limit.is_over(&self.mark) => thread::sleep(POLL),
                Ok(status) => return Ok(status),
                Err(error) => return Err(format!("cannot wait for a program: {error}")),
            }
        }
    }

    /// Ends a run: first by asking the launcher, which removes its files then, and then by force.
    fn end_all(&mut self, child: &mut Child) -> Result<(), String> {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // A process that has ended meanwhile needs no signal.
        let signal = |signal| group.map(|group| kill_process_group(group, signal));
        signal(Signal::TERM);
        self.wait(child, GRACE, &mut |_| ())?;
        signal(Signal::KILL);
        kill_marked(&self.mark);
        child.wait().map_err(|error| format!("cannot wait for a program: {error}"))?;
        Ok(())
    }

    /// Gives processes time to end by themselves, and kills the rest; the outcome is how many.
    fn end_strays(&self) -> usize {
        let mut limit = Limit::new(GRACE);
        while !traces::marked_processes(&self.mark).is_empty() {
            if limit.is_over(&self.mark) {
                return kill_marked(&self.mark);
            }
            thread::sleep(POLL);
        }
        0
    }
}

/// A time limit of the processes with a mark.
struct Limit {
    limit: Duration,
    clock: FairClock,
    looked: Instant,
}

impl Limit {
    fn new(limit: Duration) -> Self {
        Self { limit, clock: FairClock::new(), looked: Instant::now() }
    }

    fn is_over(&mut self, mark: &str) -> bool {
        // The clock is never ahead of the one on the wall.
        if self.looked.elapsed() < TICK.min(self.limit) {
            return false;
        }
        self.looked = Instant::now();
        self.clock.look_at(numbers(mark)) >= self.limit
    }
}

/// The numbers of the processes with a mark.
fn numbers(mark: &str) -> impl Iterator<Item = u32> {
    let processes = traces::marked_processes(mark).into_iter();
    processes.filter_map(|process| process.as_raw_nonzero().get().try_into().ok())
}

fn kill_marked(mark: &str) -> usize {
    let processes = traces::marked_processes(mark);
    for process in &processes {
        let _ = kill_process(*process, Signal::KILL);
    }
    processes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of a shell script in a directory of its own.
    fn run(name: &str, script: &str, limit: Duration) -> Finished {
        let name = format!("xtask-launch-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let finished = carry_out(command, &directory, limit, &mut |_| ()).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        finished
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_all_that_it_started() {
        let limit = Duration::from_millis(100);
        // One that sleeps, and one that polls, each with a child in a session of its own.
        for script in ["setsid sleep 600 & sleep 600", "setsid sleep 600 & while :; do :; done"] {
            let finished = run("hang", script, limit);
            assert!(finished.status.is_none() && finished.strays == 0, "{script}");
        }
    }

    #[test]
    fn a_program_that_ends_is_not_touched_and_what_it_leaves_is_known() {
        let minutes = Duration::from_secs(600);
        let finished = run("left", "echo out; : > /dev/shm/pario-left-$$", minutes);
        assert!(finished.status.is_some_and(|status| status.success()));
        assert_eq!(finished.stdout, "out\n");
        let found = finished.left_in_memory.iter().any(|name| name.starts_with("pario-left-"));
        // Without a place of its own, a file that is not kept open is not seen.
        let is_root = rustix::process::geteuid().is_root();
        assert!(found || !is_root, "{:?}", finished.left_in_memory);
    }
}
