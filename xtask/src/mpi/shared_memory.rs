//! `/dev/shm` of a run: what its own processes leave there, and nothing that others do.
//!
//! Each run gets a file system of its own in that place, in a mount namespace, so that all that is
//! there in the end is the run's. That takes root. Where it is not to be had, what counts are new
//! files that processes of the run were seen to use: a file that is made and closed between two
//! looks is missed, which is said once.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::Pid;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::traces;

const DIRECTORY: &str = "/dev/shm";

/// How the files of MPI libraries begin, which remain after a run that was killed.
const OF_LIBRARIES: [&str; 6] =
    ["mpich", "sm_segment.", "vader_segment.", "osc_", "ucx_shm", "psm2_shm"];

/// Where a run finds shared memory.
pub(super) enum SharedMemory {
    /// In a file system of its own.
    Own,
    /// In that of the machine, with the files of before and those that the run was seen to use.
    Common { before: BTreeSet<String>, used: BTreeSet<String> },
}

impl SharedMemory {
    /// Memory for what this thread runs until it ends. A run whose directory is in `/dev/shm` has
    /// to share it with all others.
    pub(super) fn for_this_thread(directory: &Path) -> Self {
        if directory.starts_with(DIRECTORY) {
            return Self::common();
        }
        match mount_own() {
            Ok(()) => Self::Own,
            Err(reason) => {
                say_once(&reason);
                Self::common()
            }
        }
    }

    fn common() -> Self {
        Self::Common { before: traces::names(Path::new(DIRECTORY)), used: BTreeSet::new() }
    }

    /// Whether [`SharedMemory::look_at`] has to be called now and then.
    pub(super) fn needs_looks(&self) -> bool {
        matches!(self, Self::Common { .. })
    }

    /// Looks which files the run's processes use.
    pub(super) fn look_at(&mut self, processes: &[Pid]) {
        if let Self::Common { before, used } = self {
            let new = processes.iter().flat_map(|process| files_of(*process));
            used.extend(new.filter(|name| !before.contains(name)));
        }
    }

    /// Files that the run left; it has ended.
    pub(super) fn left(&self) -> Vec<String> {
        let now = traces::names(Path::new(DIRECTORY));
        match self {
            Self::Own => now.into_iter().collect(),
            Self::Common { used, .. } => now.intersection(used).cloned().collect(),
        }
    }
}

/// Whether a file in shared memory is an MPI library's own.
pub(super) fn is_of_library(name: &str) -> bool {
    OF_LIBRARIES.iter().any(|beginning| name.starts_with(beginning))
}

fn say_once(reason: &io::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        println!(
            "runs have no {DIRECTORY} of their own ({reason}); what counts as left there are new \
             files that a run was seen to use"
        );
    });
}

/// Gives this thread a file system of its own as `/dev/shm`.
#[allow(unsafe_code)]
fn mount_own() -> io::Result<()> {
    // SAFETY: only `UnshareFlags::FILES` takes descriptors away from other threads.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // What is mounted here must not appear elsewhere.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", DIRECTORY, "tmpfs", flags, c"mode=1777").map_err(Into::into)
}

/// The names of files in shared memory that a process has open or mapped.
fn files_of(process: Pid) -> BTreeSet<String> {
    let process = PathBuf::from(format!("/proc/{}", process.as_raw_nonzero()));
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let name = |path: PathBuf| Some(path.strip_prefix(DIRECTORY).ok()?.display().to_string());
    mapped.chain(open).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// A process with a file of its own in shared memory, which it keeps open until its input ends.
    fn user_of(name: &str) -> Child {
        let script = format!("exec 3> {DIRECTORY}/{name}; echo; read x");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = [0];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        child
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// A run that leaves a file while another program makes one; the outcome is what counts.
    fn left(kind: &str, make: fn(&Path) -> SharedMemory) -> Vec<String> {
        let name = |whose: &str| format!("xtask-{kind}-{whose}-{}", std::process::id());
        let (made, others) = (Barrier::new(2), Barrier::new(2));
        let run = || {
            let mut memory = make(Path::new("/"));
            made.wait();
            others.wait();
            let child = user_of(&name("own"));
            let process = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
            memory.look_at(&[process]);
            end(child);
            let left = memory.left();
            fs::remove_file(Path::new(DIRECTORY).join(name("own"))).unwrap();
            assert!(memory.left().is_empty());
            left
        };
        let left = thread::scope(|scope| {
            let run = scope.spawn(run);
            made.wait();
            end(user_of(&name("other")));
            others.wait();
            run.join().unwrap()
        });
        // It is there, and not in a place of the run.
        fs::remove_file(Path::new(DIRECTORY).join(name("other"))).unwrap();
        left
    }

    #[test]
    fn only_what_a_run_has_made_is_left_by_it() {
        let own = |kind: &str| format!("xtask-{kind}-own-{}", std::process::id());
        assert_eq!(left("own", SharedMemory::for_this_thread), [own("own")]);
        assert_eq!(left("common", |_| SharedMemory::common()), [own("common")]);
    }

    #[test]
    fn a_run_in_shared_memory_is_not_cut_off_from_its_directory() {
        let memory = SharedMemory::for_this_thread(&Path::new(DIRECTORY).join("scratch"));
        assert!(memory.needs_looks());
    }
}
