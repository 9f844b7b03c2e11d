//! Windows that are stored through a mapping fail as writes do: a full file system and a limit on
//! the size of files are an error of one class on all ranks with true counts, and never a signal.
//!
//! A test runs itself once more as a process of its own, which has the limit, or a small file
//! system in a mount namespace. Where the system forbids that, it says so.

#![allow(clippy::expect_used)]

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;

use pario::{CallStatistics, Datatype, ErrorClass, File, OpenOptions, Result, Status};
use pario::{Threads, View};
use pario_testkit::scratch::Scratch;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const RANKS: u64 = 4;
const PIECE: u64 = 512;
/// Bytes of all ranks.
const BYTES: u64 = 4 << 20;
/// Says to the second process where its files are.
const DIRECTORY: &str = "PARIO_TEST_DIRECTORY";
const POINTS: u64 = 20;

/// Where a byte of a rank's data is in the file.
fn offset(rank: u32, index: u64) -> u64 {
    (index / PIECE * RANKS + u64::from(rank)) * PIECE + index % PIECE
}

/// Never a zero, as in holes.
fn value(offset: u64) -> u8 {
    u8::try_from(offset * 7 % 251 + 1).expect("small")
}

fn data(rank: u32) -> Vec<u8> {
    (0..BYTES / RANKS).map(|index| value(offset(rank, index))).collect()
}

/// Many short windows.
fn options() -> OpenOptions {
    let options = File::options().read(true).write(true).create(true);
    let options = options.hint("pario_strategy", "two-phase").hint("cb_buffer_size", "65536");
    options.hint("pario_mapped_writes", "enable")
}

type Outcome = (Result<Status>, CallStatistics);

/// Opens a file, and writes it after a step that one thread makes: the outcomes of all ranks.
fn write(path: &Path, step: &(dyn Fn() + Sync)) -> Vec<Outcome> {
    let ranks = u32::try_from(RANKS).expect("few");
    let barrier = Barrier::new(usize::try_from(ranks).expect("few"));
    Threads::new(ranks).run(|comm| {
        let file = options().open(&*comm, path).expect("opens");
        let byte = Datatype::byte();
        let piece = Datatype::contiguous(PIECE, &byte).expect("a type");
        let extent = (RANKS * PIECE).cast_signed();
        let filetype = Datatype::resized(0, extent, &piece).expect("a type");
        let start = u64::from(comm.rank()) * PIECE;
        file.set_view(&View::new(start, &byte, &filetype)).expect("a view");
        if barrier.wait().is_leader() {
            step();
        }
        barrier.wait();
        let result = file.write_all(0, &data(comm.rank())[..]);
        let call = file.last_call();
        file.close().expect("closes");
        (result, call)
    })
}

/// Checks that all ranks have an error of this class, and that what they count is in the file.
fn assert_failed(path: &Path, outcomes: &[Outcome], class: ErrorClass, context: &str) {
    let found = std::fs::read(path).expect("there");
    for (rank, (result, _)) in (0..).zip(outcomes) {
        let error = result.as_ref().expect_err(context);
        assert_eq!(error.class(), class, "{context}: rank {rank}: {error}");
        for index in 0..error.moved() {
            let offset = offset(rank, index);
            let byte = found.get(usize::try_from(offset).expect("small"));
            assert_eq!(byte, Some(&value(offset)), "{context}: rank {rank}, byte {index}");
        }
    }
}

fn assert_complete(path: &Path, outcomes: &[Outcome], context: &str) {
    for (result, _) in outcomes {
        let status = result.as_ref().unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(status.bytes, BYTES / RANKS, "{context}");
    }
    let expected: Vec<u8> = (0..BYTES).map(value).collect();
    assert!(std::fs::read(path).expect("there") == expected, "{context}");
}

fn mapped_bytes(outcomes: &[Outcome]) -> u64 {
    outcomes.iter().map(|(_, call)| call.storage_mapped_bytes).sum()
}

/// Runs the same test as a process of its own, which `words` begin; they get a directory as their
/// first argument. It must not fail, if such a process can run.
fn runs_alone(test: &str, parent: &Path, words: &[&str]) {
    let scratch = Scratch::below(parent);
    let command = |program: &[OsString]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(scratch.directory()).args(program);
        command.env(DIRECTORY, scratch.directory());
        command
    };
    if !command(&["true".into()]).status().is_ok_and(|status| status.success()) {
        println!("{test}: not tested, {words:?} does not run here");
        return;
    }
    let exe = std::env::current_exe().expect("a test has a name");
    let words = ["--exact", test, "--nocapture"].map(OsString::from);
    let program: Vec<OsString> = std::iter::once(exe.into()).chain(words).collect();
    let output = command(&program).output().expect("runs");
    std::io::stdout().write_all(&output.stdout).expect("prints");
    std::io::stdout().write_all(&output.stderr).expect("prints");
    assert!(output.status.success(), "{test}: {}", output.status);
}

/// A device and memory, where they are.
fn parents() -> impl Iterator<Item = PathBuf> {
    [std::env::temp_dir(), PathBuf::from("/dev/shm")].into_iter().filter(|parent| parent.is_dir())
}

/// The directory of the second process.
fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Bytes that a file system has left.
fn room(directory: &Path) -> u64 {
    let system = rustix::fs::statvfs(directory).expect("a file system");
    system.f_bavail * system.f_bsize
}

/// A file of this length; its bytes are a hole.
fn make(path: &Path, bytes: u64) {
    let file = std::fs::File::create(path).expect("a file");
    file.set_len(bytes).expect("needs no room");
}

/// New files, and long ones without bytes, where a store finds no room for a page.
#[test]
fn a_full_file_system_is_no_space_on_all_ranks() {
    let Some(directory) = directory() else {
        let script = "mount -t tmpfs -o size=8m none \"$0\" && exec \"$@\"";
        let words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script];
        runs_alone("a_full_file_system_is_no_space_on_all_ranks", &std::env::temp_dir(), &words);
        return;
    };
    let (path, ballast) = (directory.join("file"), directory.join("ballast"));
    let mut mapped = 0;
    for (point, bytes) in (0..POINTS).flat_map(|point| [(point, 0), (point, BYTES)]) {
        let context = format!("room for {point} in {POINTS} parts, {bytes} bytes before");
        make(&path, bytes);
        let fill = || {
            let rest = room(&directory) - point * BYTES / POINTS;
            let rest = vec![1; usize::try_from(rest).expect("few")];
            std::fs::write(&ballast, rest).expect("room for the rest");
        };
        let failed = write(&path, &fill);
        assert_failed(&path, &failed, ErrorClass::NoSpace, &context);
        mapped += mapped_bytes(&failed);
        if bytes == 0 {
            // Writes make a file no longer than what they store, and no value is zero.
            assert_ne!(std::fs::read(&path).expect("there").last(), Some(&0), "{context}");
        }
        std::fs::remove_file(&ballast).expect("is there");
        assert_complete(&path, &write(&path, &|| ()), &context);
        std::fs::remove_file(&path).expect("is there");
    }
    assert!(mapped > 0, "nothing was stored through a mapping");
}

/// The limit lies inside of a window or between two; the file is new, or longer than it.
#[test]
fn a_limit_on_the_size_of_files_holds() {
    let Some(directory) = directory() else {
        for parent in parents() {
            let words = ["sh", "-c", "trap '' XFSZ; exec \"$@\""];
            runs_alone("a_limit_on_the_size_of_files_holds", &parent, &words);
        }
        return;
    };
    let path = directory.join("file");
    let before = getrlimit(Resource::Fsize);
    for (limit, bytes) in [1, 65536, 1_000_000].into_iter().flat_map(|one| [(one, 0), (one, BYTES)])
    {
        let context = format!("a limit of {limit}, {bytes} bytes before");
        std::fs::write(&path, vec![0; usize::try_from(bytes).expect("few")]).expect("a file");
        let limited = || {
            let lower = Rlimit { current: Some(limit), ..before };
            setrlimit(Resource::Fsize, lower).expect("a lower limit");
        };
        let outcomes = write(&path, &limited);
        setrlimit(Resource::Fsize, before).expect("as before");
        assert_failed(&path, &outcomes, ErrorClass::NoSpace, &context);
        let found = std::fs::read(&path).expect("there");
        let beyond = found.get(usize::try_from(limit).expect("small")..).unwrap_or_default();
        assert!(beyond.iter().all(|&byte| byte == 0), "{context}: bytes beyond it");
    }
}

/// A mapping would take addresses from the program's own memory.
#[test]
fn where_addresses_are_limited_nothing_is_mapped() {
    let Some(directory) = directory() else {
        let words = ["sh", "-c", "exec \"$@\""];
        let parent = std::env::temp_dir();
        return runs_alone("where_addresses_are_limited_nothing_is_mapped", &parent, &words);
    };
    let limit = Rlimit { current: Some(1 << 40), ..getrlimit(Resource::As) };
    setrlimit(Resource::As, limit).expect("a lower limit");
    let path = directory.join("file");
    make(&path, BYTES);
    let outcomes = write(&path, &|| ());
    assert_complete(&path, &outcomes, "limited addresses");
    assert_eq!(mapped_bytes(&outcomes), 0);
}

/// A process that is killed while it stores leaves bytes as they were or as they should be, and
/// nothing that disturbs the next one.
#[test]
fn a_killed_process_leaves_old_or_new_bytes() {
    let name = "a_killed_process_leaves_old_or_new_bytes";
    if let Some(directory) = directory() {
        loop {
            assert_complete(&directory.join("file"), &write(&directory.join("file"), &|| ()), name);
        }
    }
    for parent in parents() {
        let scratch = Scratch::below(&parent);
        let path = scratch.path("file");
        std::fs::write(&path, vec![0; usize::try_from(BYTES).expect("few")]).expect("a file");
        let exe = std::env::current_exe().expect("a test has a name");
        let mut command = Command::new(exe);
        command.args(["--exact", name]).env(DIRECTORY, scratch.directory());
        let mut writer = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        let found = loop {
            let found = std::fs::read(&path).expect("there");
            if found.iter().any(|&byte| byte != 0) {
                break found;
            }
            assert!(writer.try_wait().expect("a child").is_none(), "the writer has ended");
        };
        writer.kill().expect("a child");
        writer.wait().expect("a child");
        for (offset, &byte) in (0..).zip(&std::fs::read(&path).expect("there")) {
            assert!(byte == 0 || byte == value(offset), "byte {offset} is {byte}");
        }
        assert_eq!(found.len(), usize::try_from(BYTES).expect("few"));
        assert_complete(&path, &write(&path, &|| ()), name);
    }
}
