//! What a run left behind: files in its directory, in shared memory, and processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

const SHARED_MEMORY: &str = "/dev/shm";

/// How long launchers may take to remove their files.
const GRACE: Duration = Duration::from_secs(2);

/// How the files of MPI libraries begin, which remain after a run that was killed.
const OF_LIBRARIES: [&str; 6] =
    ["mpich", "sm_segment.", "vader_segment.", "osc_", "ucx_shm", "psm2_shm"];

/// The files in shared memory before a run.
pub(super) struct SharedMemory {
    before: BTreeSet<String>,
}

impl SharedMemory {
    pub(super) fn now() -> Self {
        Self { before: names(Path::new(SHARED_MEMORY)) }
    }

    /// Files that came since and that no process uses: those of other runs are in use.
    pub(super) fn left(&self) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let now = names(Path::new(SHARED_MEMORY));
            let new: Vec<&String> = now.difference(&self.before).collect();
            let used = match new.is_empty() {
                true => return Vec::new(),
                false => used_files(),
            };
            let unused = |name: &&String| !used.contains(&Path::new(SHARED_MEMORY).join(name));
            let left: Vec<String> = new.into_iter().filter(unused).cloned().collect();
            if left.is_empty() || begin.elapsed() > GRACE {
                return left;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Whether a file in shared memory is an MPI library's own.
pub(super) fn is_of_library(name: &str) -> bool {
    OF_LIBRARIES.iter().any(|beginning| name.starts_with(beginning))
}

/// The names in a directory, without those that are allowed.
pub(super) fn unexpected(directory: &Path, allowed: &[String]) -> Vec<String> {
    names(directory).into_iter().filter(|name| !allowed.contains(name)).collect()
}

/// All processes with this in their environment.
pub(super) fn marked_processes(mark: &str) -> Vec<Pid> {
    let marked = |process: &Path| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
    };
    let number = |process: PathBuf| {
        let name = process.file_name()?.to_str()?.parse().ok()?;
        Pid::from_raw(name)
    };
    processes().into_iter().filter(|process| marked(process)).filter_map(number).collect()
}

/// Files in shared memory that some process has open or mapped.
fn used_files() -> BTreeSet<PathBuf> {
    let mut used = BTreeSet::new();
    for process in processes() {
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        let mapped = maps.lines().filter_map(|line| Some(&line[line.find(SHARED_MEMORY)?..]));
        used.extend(mapped.map(PathBuf::from));
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        used.extend(open.filter_map(|entry| fs::read_link(entry.path()).ok()));
    }
    used
}

fn processes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(number))
        .map(|e| e.path())
        .collect()
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_left_behind_when_nobody_uses_it() {
        let before = SharedMemory::now();
        let name = format!("xtask-{}", std::process::id());
        let path = Path::new(SHARED_MEMORY).join(&name);
        let file = fs::File::create(&path).unwrap();
        assert!(!before.left().contains(&name));
        drop(file);
        assert!(before.left().contains(&name));
        fs::remove_file(&path).unwrap();
        assert!(!before.left().contains(&name));
    }

    #[test]
    fn a_process_is_found_by_its_environment() {
        let mark = format!("XTASK_MARK={}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("600").env(name, value).spawn().unwrap();
        // A process has its new environment only once it runs its new program.
        let begin = Instant::now();
        let mut found = marked_processes(&mark);
        while found.is_empty() && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(5));
            found = marked_processes(&mark);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.len(), 1);
        assert!(marked_processes(&mark).is_empty());
    }
}
