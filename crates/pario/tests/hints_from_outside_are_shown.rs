//! What variables and hint files say of hints has an effect, or is warned of; hints in effect are
//! printed as users of ROMIO and Cray ask for it.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use pario::{File, Position, Threads};
use pario_testkit::scratch::Scratch;

const DATA: &str = "PARIO_TEST_DATA";

/// Two ranks write to one file after the other, with a hint of their own that has no effect.
fn program() {
    pario::log_to_stderr();
    let directory = std::env::var_os(DATA).unwrap();
    let results = Threads::new(2).run(|comm| -> pario::Result<()> {
        for name in ["one", "two"] {
            let options = File::options().write(true).create(true).hint("nobody_knows", "1");
            let file = options.open(&*comm, std::path::Path::new(&directory).join(name))?;
            file.write_all(Position::At(u64::from(comm.rank()) * 4), &[1u8; 4])?;
            file.close()?;
        }
        Ok(())
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// Environment and streams belong to the whole process, so a test runs itself again. What it
/// printed on stdout and stderr.
fn run_again(test: &str, scratch: &Scratch, variables: &[(&str, &str)]) -> (String, String) {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact", "--nocapture"]).env(DATA, scratch.directory());
    let Output { status, stdout, stderr } = again.envs(variables.iter().copied()).output().unwrap();
    let texts = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(status.success(), "{texts:?}");
    texts.into()
}

#[test]
fn a_hint_without_effect_is_warned_of_once_unless_it_is_the_programs() {
    let test = "a_hint_without_effect_is_warned_of_once_unless_it_is_the_programs";
    if std::env::var_os(DATA).is_some() {
        return program();
    }
    let scratch = Scratch::new();
    let hint_file = scratch.path("hints");
    std::fs::write(&hint_file, "cb_bufer_size 4096\nind_rd_buffer_size 49\n").unwrap();
    let variables = [
        ("PARIO_HINTS", "*:direct_io=true:cb_nodes=many,*:pario_phases=1,*:pario_phases=2"),
        ("MPICH_MPIIO_HINTS", "*:cb_nods=4"),
        ("ROMIO_HINTS", hint_file.to_str().unwrap()),
    ];
    let (_, printed) = run_again(test, &scratch, &variables);
    let warnings: Vec<&str> = printed.lines().filter(|line| line.starts_with("pario: ")).collect();
    let expected = [
        "pario: cb_bufer_size=4096 (hint file) has no effect: unknown hint; did you mean \
         cb_buffer_size?",
        "pario: cb_nods=4 (environment) has no effect: unknown hint; did you mean cb_nodes?",
        "pario: direct_io=true (environment) has no effect: pario always uses the page cache",
        "pario: cb_nodes=many (environment) has no effect: not a number",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn hints_in_effect_are_printed_once_for_each_open() {
    let test = "hints_in_effect_are_printed_once_for_each_open";
    if std::env::var_os(DATA).is_some() {
        return program();
    }
    let scratch = Scratch::new();
    let hints = ("PARIO_HINTS", "*:ind_rd_buffer_size=49");
    let (out, err) = run_again(test, &scratch, &[hints, ("ROMIO_PRINT_HINTS", "1")]);
    let line = "key = ind_rd_buffer_size        value = 49\n";
    assert_eq!((out.matches(line).count(), err.matches("=").count()), (2, 0), "{out}{err}");
    let display = [hints, ("MPICH_MPIIO_HINTS_DISPLAY", "1")];
    let (out, err) = run_again(test, &scratch, &display);
    assert_eq!((out.matches("cb_buffer_size").count(), err.matches("= 49\n").count()), (0, 2));
    for name in ["one", "two"] {
        let head = format!("PE 0: MPIIO hints for {}:\n", scratch.path(name).display());
        assert_eq!(err.matches(&head).count(), 1, "{err}");
    }
    let off = [("ROMIO_PRINT_HINTS", "0"), ("MPICH_MPIIO_HINTS_DISPLAY", "")];
    let (out, err) = run_again(test, &scratch, &off);
    assert_eq!((out.contains("cb_buffer_size"), err.as_str()), (false, ""));
}

#[test]
fn timers_of_cray_print_the_statistics_of_each_file() {
    let test = "timers_of_cray_print_the_statistics_of_each_file";
    if std::env::var_os(DATA).is_some() {
        return program();
    }
    let scratch = Scratch::new();
    let timers = ("MPICH_MPIIO_TIMERS", "1");
    let times = |variables: &[(&str, &str)]| {
        let (_, printed) = run_again(test, &scratch, variables);
        printed.lines().filter(|line| line.starts_with("  time ")).count()
    };
    assert_eq!(times(&[timers]), 2);
    assert_eq!(times(&[timers, ("PARIO_STATS", "0")]), 0);
    assert_eq!(times(&[("MPICH_MPIIO_TIMERS", "0")]), 0);
}
