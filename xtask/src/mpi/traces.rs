//! What a run left behind: files in its directory, and processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

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

fn processes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(number))
        .map(|e| e.path())
        .collect()
}

pub(super) fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_process_is_found_by_its_environment() {
        let mark = format!("XTASK_MARK={}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("600").env(name, value).spawn().unwrap();
        // A process has its new environment only once it runs its new program.
        let mut found = marked_processes(&mark);
        while found.is_empty() && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(5));
            found = marked_processes(&mark);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.len(), 1);
        assert!(marked_processes(&mark).is_empty());
    }
}
