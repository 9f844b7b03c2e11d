//! A run that is interrupted or killed leaves no files, and its results so far are named.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};

/// A new directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("pario-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn start(words: &str, directory: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
    command.args(words.split_whitespace()).arg("--dir").arg(directory);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Two workloads: the first ends soon, the second makes a million calls, again and again.
const LONG: &str = "bench --quick --json block-cyclic --blocks 64K,4 --strategies list --all \
                    --repeat 50";
const ENDLESS: &str = "bench --quick --json dist3d --repeat 1000 --steps 1000 --strategies auto";

/// Waits until the first result is there.
fn wait_for_result(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("\"workload\""), "{line}");
    lines
}

fn wait_for_files(directory: &Directory, child: &mut Child) {
    while directory.names().is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "ended before it made its file");
        std::thread::yield_now();
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// All that was said until nobody can say any more: the process, and what cleans up after it.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn an_interrupted_benchmark_names_its_results() {
    let directory = Directory::new("interrupted");
    let mut child = start(LONG, &directory.0);
    let lines = wait_for_result(&mut child);
    send(&child, Signal::INT);
    let text = said(&mut child);
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(
        text.contains("pario: interrupted; the results of 1 of 2 workloads are on stdout"),
        "{text}"
    );
    assert_eq!(directory.names(), Vec::<String>::new());
}

#[test]
fn a_killed_benchmark_leaves_no_files_and_its_results_are_named() {
    let directory = Directory::new("killed");
    let mut child = start(ENDLESS, &directory.0);
    wait_for_files(&directory, &mut child);
    send(&child, Signal::KILL);
    let text = said(&mut child);
    assert_eq!(child.wait().unwrap().code(), None);
    assert_eq!(directory.names(), Vec::<String>::new());
    assert!(text.contains("pario: killed; "), "{text}");
}

/// What else makes files for a while: a calibration, and ways that `explain` runs.
#[test]
fn calibrations_and_explanations_leave_no_files_either() {
    let explain = "explain dist3d --ranks 4 --run --set edge=256";
    let calibrate = "calibrate --seconds 25 --output /dev/null";
    let none = "there are no results yet";
    // A calibration says so at first, until it has its file.
    for (words, places) in [(calibrate, &["no profile", none][..]), (explain, &[none])] {
        for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
            let directory = Directory::new("others");
            let mut child = start(words, &directory.0);
            wait_for_files(&directory, &mut child);
            send(&child, signal);
            let text = said(&mut child);
            assert_eq!(child.wait().unwrap().code(), code, "{words}: {text}");
            assert_eq!(directory.names(), Vec::<String>::new(), "{words}");
            assert!(places.iter().any(|place| text.contains(place)), "{words}: {text}");
        }
    }
}

/// The measurement of a study that is killed ends as well, before its time.
#[test]
fn a_killed_study_takes_its_measurement_with_it() {
    // Children of the study become children of this process, so that their ends are seen.
    set_child_subreaper(Some(Pid::INIT)).unwrap();
    let directory = Directory::new("study-killed");
    let mut child = start("study 001-fig4 --mode here --json", &directory.0);
    wait_for_files(&directory, &mut child);
    let name = directory.names().remove(0);
    let (_, number) = name.strip_suffix(".tmp").unwrap().rsplit_once('-').unwrap();
    send(&child, Signal::KILL);
    child.wait().unwrap();
    let bench = Pid::from_raw(number.parse().unwrap());
    let (_, status) = waitpid(bench, WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.exit_status(), Some(130));
    assert_eq!(directory.names(), Vec::<String>::new());
}
