//! Files that pario opens for itself: a FIFO in their place stops nobody, and statistics do not get
//! into data.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pario::model::profile::Profile;
use pario::own_file::{self, Streams};
use pario::{Environment, File, HintSet, Position, Threads};
use pario_testkit::scratch::Scratch;
use pario_testkit::watchdog::Watchdog;
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};

const DATA: &str = "PARIO_TEST_DATA";

fn fifo(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("fifo");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    path
}

/// Two ranks write 8 bytes to the file that the environment names.
fn program() {
    pario::log_to_stderr();
    let path = std::env::var_os(DATA).unwrap();
    let results = Threads::new(2).run(|comm| -> pario::Result<()> {
        let file = File::options().write(true).create(true).open(&*comm, Path::new(&path))?;
        file.write_all(Position::At(u64::from(comm.rank()) * 4), &[1u8; 4])?;
        file.close()
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// Environment and stderr belong to the whole process, so a test runs itself again. What the
/// program wrote, and what it printed.
fn run_again(test: &str, scratch: &Scratch, variables: &[(&str, String)]) -> (Vec<u8>, String) {
    let data = scratch.path("data");
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact", "--nocapture"]).env(DATA, &data);
    let Output { status, stderr, .. } =
        again.envs(variables.iter().map(|(name, value)| (name, value))).output().unwrap();
    let printed = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{printed}");
    (std::fs::read(data).unwrap(), printed)
}

#[test]
fn fifos_in_all_variables_are_named_and_the_program_goes_on() {
    let test = "fifos_in_all_variables_are_named_and_the_program_goes_on";
    let _watchdog = Watchdog::new(test);
    if std::env::var_os(DATA).is_some() {
        return program();
    }
    let scratch = Scratch::new();
    let fifo = fifo(&scratch).display().to_string();
    let variables = [
        ("PARIO_STATS", format!("json:{fifo}")),
        ("PARIO_PROFILE", fifo.clone()),
        ("ROMIO_HINTS", fifo.clone()),
    ];
    let (written, printed) = run_again(test, &scratch, &variables);
    assert_eq!(written, [1; 8]);
    for part in ["statistics cannot be written to", "read profile"] {
        let line = printed.lines().find(|line| line.contains(part)).unwrap_or(&printed);
        let reason = "not a regular file but a pipe or FIFO";
        assert!(line.contains(&fifo) && line.contains(reason), "{part}: {line}");
        assert_eq!(printed.matches(part).count(), 1, "one rank says it for all: {printed}");
    }
    let (_, printed) =
        run_again(test, &scratch, &[("PARIO_STATS", "1".into()), variables[2].clone()]);
    let ignored = format!("ROMIO_HINTS={fifo} (environment): cannot be read: not a regular file");
    assert!(printed.contains(&ignored), "{printed}");
}

#[test]
fn no_reader_waits_for_a_fifo() {
    let _watchdog = Watchdog::new("no_reader_waits_for_a_fifo");
    let scratch = Scratch::new();
    let path = fifo(&scratch);
    assert!(Profile::load(&path).unwrap_err().text().contains("pipe or FIFO"));
    let environment = Environment { hint_file_path: Some(path.clone()), ..Environment::default() };
    let (_, report) = HintSet::new().resolve(Path::new("a"), &environment);
    assert!(report.ignored[0].reason.contains("pipe or FIFO"), "{report}");
    for streams in [Streams::Refused, Streams::Accepted] {
        let error = own_file::open(&path, streams).unwrap_err();
        assert_eq!(error.to_string(), "not a regular file but a pipe or FIFO");
    }
    assert!(own_file::open_for_statistics(&path).is_err());
    assert!(own_file::open_for_statistics(scratch.directory()).is_err());
}

#[test]
fn pipes_that_the_process_has_are_streams() {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    let _watchdog = Watchdog::new("pipes_that_the_process_has_are_streams");
    let (reader, writer) = std::io::pipe().unwrap();
    let name = |number: i32| PathBuf::from(format!("/dev/fd/{number}"));
    let mut statistics = own_file::open_for_statistics(&name(writer.as_raw_fd())).unwrap();
    statistics.write_all(b"{}").unwrap();
    drop((statistics, writer));
    let input = name(reader.as_raw_fd());
    assert!(own_file::open(&input, Streams::Refused).is_err());
    let mut text = String::new();
    own_file::open(&input, Streams::Accepted).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "{}");
}

#[test]
fn the_data_of_the_program_is_no_place_for_statistics() {
    let test = "the_data_of_the_program_is_no_place_for_statistics";
    if std::env::var_os(DATA).is_some() {
        return program();
    }
    let scratch = Scratch::new();
    let data = scratch.path("data");
    std::fs::write(&data, "").unwrap();
    let other_name = scratch.path("link");
    std::fs::hard_link(&data, &other_name).unwrap();
    for name in [&data, &other_name] {
        let variables = [("PARIO_STATS", format!("json:{}", name.display()))];
        let (written, printed) = run_again(test, &scratch, &variables);
        assert_eq!(written, [1; 8]);
        let expected = "the program has this file open as data";
        assert!(printed.contains(expected), "{printed}");
        assert!(printed.contains(&name.display().to_string()), "{printed}");
    }
    // Data that is not open any more, or on another rank; here it is JSON.
    let text = scratch.path("mine.json");
    std::fs::write(&text, "{\"my\": \"data\"}").unwrap();
    assert!(own_file::open_for_statistics(&text).is_err());
    assert!(own_file::begin_statistics(&text).is_err());
    assert_eq!(std::fs::read_to_string(&text).unwrap(), "{\"my\": \"data\"}");
    let error = own_file::open_for_statistics(&data).unwrap_err();
    assert_eq!(error.to_string(), "the file has other contents than statistics");
    assert!(own_file::begin_statistics(&data).is_err());
    assert_eq!(std::fs::read(&data).unwrap(), [1; 8]);
}

#[test]
fn a_recording_that_another_process_keeps_locked_is_not_waited_for() {
    let test = "a_recording_that_another_process_keeps_locked_is_not_waited_for";
    let _watchdog = Watchdog::new(test);
    if std::env::var_os(DATA).is_some() {
        return program();
    }
    let scratch = Scratch::new();
    let recording = scratch.path("recording.jsonl");
    let held = std::fs::File::create(&recording).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let variables = [("PARIO_STATS", recording.display().to_string())];
    let (written, _) = run_again(test, &scratch, &variables);
    assert_eq!(written, [1; 8]);
    assert!(std::fs::read_to_string(&recording).unwrap().starts_with("{\"kind\":\"statistics\""));
}
