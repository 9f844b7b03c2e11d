//! `pario calibrate` stores a profile that the library reads, and leaves nothing else.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pario::model::profile::Profile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A new directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path =
            std::env::temp_dir().join(format!("pario-calibrate-{name}-{}", std::process::id()));
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

/// The command with a home of its own, so that no test changes the user's profiles.
fn calibrate(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
    command.arg("calibrate").args(arguments);
    command.env_remove("PARIO_PROFILE").env_remove("XDG_CONFIG_HOME").env("HOME", home);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_profile_is_stored_where_configuration_is_and_the_scratch_file_is_removed() {
    let (home, scratch) = (Directory::new("home"), Directory::new("scratch"));
    let directory = scratch.0.to_str().unwrap();
    let output =
        calibrate(&home.0, &["--seconds", "2", "--dir", directory, "--json"]).output().unwrap();
    succeeded(&output);
    assert_eq!(scratch.names(), Vec::<String>::new());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let path = PathBuf::from(document["path"].as_str().unwrap());
    assert_eq!(path.parent(), Some(home.0.join(".config/pario").as_path()));
    let profile = Profile::load(&path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("profile-") && name.contains("-threads-"), "{name}");
    assert_eq!(document["profile"]["machine"]["transport"], "threads");
    let findings = document["findings"].as_array().unwrap();
    for finding in findings {
        let key = finding["key"].as_str().unwrap();
        // Measured, or kept with a reason that the profile has too.
        assert_eq!(finding["spread"].is_null(), profile.defaults.contains_key(key), "{finding}");
        assert_eq!(finding["default"].as_str(), profile.defaults.get(key).map(String::as_str));
    }
    assert!(findings.len() > 15, "{document}");
}

#[test]
fn the_table_names_every_key_and_the_file() {
    let (home, scratch) = (Directory::new("home-2"), Directory::new("scratch-2"));
    let file = home.0.join("here").join("mine.toml");
    let (directory, path) = (scratch.0.to_str().unwrap(), file.to_str().unwrap());
    let arguments = ["--seconds", "1", "--dir", directory, "--output", path];
    let output = calibrate(&home.0, &arguments).output().unwrap();
    succeeded(&output);
    let table = text(&output.stdout);
    for word in ["storage.read.sequential", "memory.gather", "planning.piece_us", path] {
        assert!(table.contains(word), "{word}: {table}");
    }
    // There is one node.
    assert!(table.contains("all ranks are on one node"), "{table}");
    assert_eq!(text(&output.stderr), "");
    Profile::load(&file).unwrap();
    assert_eq!(home.names(), ["here"]);
}

#[test]
fn the_variable_names_the_profile() {
    let home = Directory::new("home-3");
    let file = home.0.join("by-variable.toml");
    let mut command = calibrate(&home.0, &["--seconds", "1"]);
    succeeded(&command.env("PARIO_PROFILE", &file).output().unwrap());
    Profile::load(&file).unwrap();
    assert_eq!(home.names(), ["by-variable.toml"]);
}

/// Waits until the scratch file is there, or the command has ended.
fn wait_for_scratch(scratch: &Directory, child: &mut Child) {
    while scratch.names().is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "ended before it made its file");
        std::thread::yield_now();
    }
}

#[test]
fn an_interrupted_calibration_leaves_neither_scratch_file_nor_profile() {
    let (home, scratch) = (Directory::new("home-4"), Directory::new("scratch-4"));
    let directory = scratch.0.to_str().unwrap();
    let mut command = calibrate(&home.0, &["--seconds", "25", "--dir", directory]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_scratch(&scratch, &mut child);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(scratch.names(), Vec::<String>::new());
    assert_eq!(home.names(), Vec::<String>::new());
}

#[test]
fn arguments_that_make_no_sense_are_refused_with_code_2() {
    let home = Directory::new("home-5");
    let cases: [(&[&str], &str); 4] = [
        (&["--seconds", "0"], "--seconds"),
        (&["--seconds", "60"], "--seconds"),
        (&["--dir", "/does/not/exist"], "No such file"),
        (&["--fast"], "--fast"),
    ];
    for (arguments, reason) in cases {
        let output = calibrate(&home.0, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(reason), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = calibrate(&home.0, &["--seconds", "1"]).env_remove("HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--output"), "{}", text(&output.stderr));
}

#[test]
fn a_profile_that_cannot_be_stored_is_an_error() {
    let home = Directory::new("home-6");
    let output = calibrate(&home.0, &["--seconds", "1", "--output", "/proc/no/p.toml"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/proc/no/p.toml"), "{}", text(&output.stderr));
}
