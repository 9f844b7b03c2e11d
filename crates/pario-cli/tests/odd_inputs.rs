//! Files that the program reads or writes: a FIFO is refused at once, a pipe of the shell is read.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output, Stdio};

use pario_testkit::scratch::Scratch;
use pario_testkit::watchdog::Watchdog;
use rustix::fs::{CWD, Mode, mkfifoat};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_fifo_is_refused_wherever_a_file_is_named() {
    let watchdog = Watchdog::new("a_fifo_is_refused_wherever_a_file_is_named");
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo.toml");
    mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
    let fifo = fifo.display();
    let results = scratch.path("paper.json");
    let explain =
        Command::new(env!("CARGO_BIN_EXE_pario")).args(["explain", "paper", "--json"]).output();
    std::fs::write(&results, explain.unwrap().stdout).unwrap();
    let results = results.display();
    let words = [
        format!("report {fifo} --output {fifo}.html"),
        format!("explain {fifo}"),
        format!("bench --quick {fifo}"),
        format!("explain block-cyclic --profile {fifo}"),
        format!("run --library {fifo} -- true"),
        format!("run --stats=json:{fifo} -- true"),
        format!("bench --quick --device {fifo}"),
        format!("report {results} --output {fifo}"),
        format!("report {results} --csv {fifo}"),
        format!("report {results} --perfetto {fifo}"),
        format!("calibrate --output {fifo}"),
        format!("study 001 --mode count --output {fifo}"),
        format!("study 001 --mode count --json --output {fifo}"),
        format!("explain paper --svg {fifo}"),
        format!("explain block-cyclic --svg {fifo}"),
    ];
    for words in words {
        watchdog.step(words.clone());
        let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
        let output = command.args(words.split(' ')).stdin(Stdio::null()).output().unwrap();
        let printed = text(&output);
        assert!(!output.status.success(), "{words}: {printed}");
        assert!(printed.contains("not a regular file but a pipe or FIFO"), "{words}: {printed}");
    }
}

#[test]
fn the_output_of_a_command_is_read_as_a_file() {
    let _watchdog = Watchdog::new("the_output_of_a_command_is_read_as_a_file");
    let script = format!("{} report <(echo nonsense)", env!("CARGO_BIN_EXE_pario"));
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let printed = text(&output);
    assert!(printed.contains("/dev/fd/") && printed.contains("not JSON"), "{printed}");
}
