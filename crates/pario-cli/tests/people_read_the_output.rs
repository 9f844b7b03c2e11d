//! What people see of the program: no control characters of names, and no complaint when they have
//! seen enough.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output, Stdio};

use pario::{File, Position, Threads};
use pario_testkit::scratch::Scratch;
use pario_testkit::watchdog::Watchdog;

/// A name that clears a screen and sets the title of a terminal.
const NAME: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\n.jsonl";

fn pario(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
    command.args(words).stdin(Stdio::null());
    for name in ["PARIO_HINTS", "PARIO_PROFILE", "PARIO_STATS", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    command
}

/// Two ranks write to a file, and its calls are recorded.
fn record(file: &str, recording: &std::path::Path) {
    let results = Threads::new(2).run(|comm| -> pario::Result<()> {
        let options = File::options().write(true).create(true).hint("cb_node", "\u{1b}[2J");
        let options = options.hint("pario_statistics", format!("json:{}", recording.display()));
        let file = options.open(&*comm, file)?;
        file.write_all(Position::At(u64::from(comm.rank()) * 4), &[1u8; 4])?;
        file.close()
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// `pario ... | head -1` is no error.
#[test]
fn nothing_is_said_when_nobody_reads_the_output_any_more() {
    let watchdog = Watchdog::new("nothing_is_said_when_nobody_reads_the_output_any_more");
    let scratch = Scratch::new();
    let (recording, directory) = (scratch.path("run.jsonl"), scratch.directory().to_owned());
    record("memory:unread", &recording);
    let (recording, directory) = (recording.to_str().unwrap(), directory.to_str().unwrap());
    let profile = scratch.path("profile.toml");
    let calibrate = ["calibrate", "--seconds=1", "--output", profile.to_str().unwrap()];
    for words in [
        &["explain", recording][..],
        &["explain", recording, "--json"],
        &["explain", "dist3d"],
        &["explain", "paper"],
        &["study"],
        &["study", "000-fig4", "--mode=count", "--output=/dev/null"],
        &["report", "--csv=/dev/stdout", "../../benchmarks/studies/expected.jsonl"],
        &["bench", "--quick", "--embedded", "--dir", directory, "--json"],
        &calibrate,
        &["help"],
        &["--version"],
    ] {
        watchdog.step(words.join(" "));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let Output { status, stderr, .. } = pario(words).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        for complaint in ["pipe", "panicked", "printing", "stdout"] {
            assert!(!said.contains(complaint), "{words:?}: {said}");
        }
        assert!(matches!(status.code(), Some(0 | 141)), "{words:?}: {status}");
    }
    let left = std::fs::read_dir(directory).unwrap().count();
    assert!(left <= 2, "recording and profile, and no files of measurements: {left}");
}

#[test]
fn names_send_no_control_characters_to_a_terminal() {
    let watchdog = Watchdog::new("names_send_no_control_characters_to_a_terminal");
    let scratch = Scratch::new();
    let (recording, nothing) = (scratch.path(NAME), scratch.path(&format!("not-{NAME}")));
    record(&format!("memory:{NAME}"), &recording);
    let page = scratch.path("page\u{1b}[2J.html");
    let [recording, nothing, page] = [&recording, &nothing, &page].map(|path| path.to_str());
    let [recording, nothing, page] = [recording, nothing, page].map(Option::unwrap);
    for words in [
        &["explain", recording][..],
        &["explain", nothing],
        &["explain", recording, "--profile", nothing],
        &["report", recording, "--output", page],
        &["report", nothing],
        &["run", "--", nothing],
        &["run", "--library", nothing, "--", "true"],
    ] {
        watchdog.step(format!("{words:?}"));
        let Output { stdout, stderr, .. } = pario(words).output().unwrap();
        let printed = String::from_utf8([stdout, stderr].concat()).unwrap();
        let sent = printed.chars().find(|one| one.is_control() && !['\n', '\t'].contains(one));
        assert_eq!(sent, None, "{words:?}: {printed:?}");
        assert!(printed.contains("\\u{1b}[2J"), "{words:?}: {printed}");
    }
}
