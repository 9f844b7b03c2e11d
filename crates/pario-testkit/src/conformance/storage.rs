//! What every storage driver promises: the contract of `Driver` and `Storage`.
//!
//! Each check gets a driver and a directory of its own, and is a story of a few calls with
//! literal bytes. What a driver does not claim in its capabilities is not asked of it; only the
//! error that says so is.
//!
//! Cost: some hundred calls and less than a mebibyte of data, in sparse files that reach to
//! 2^33 bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use pario::storage::{Driver, LockRange, MappedPart, OpenMode, Storage};
use pario::{ErrorClass, Result};

const READ: OpenMode = OpenMode { read: true, write: false, create: false, exclusive: false };
const WRITE: OpenMode = OpenMode { read: false, write: true, create: false, exclusive: false };
const BOTH: OpenMode = OpenMode { read: true, write: true, create: false, exclusive: false };
const CREATE: OpenMode = OpenMode { create: true, ..BOTH };
const CREATE_NEW: OpenMode = OpenMode { exclusive: true, ..CREATE };

/// One more than the greatest offset that a file can have.
const BEHIND_ALL: u64 = 1 << 63;

/// Runs the whole contract on a driver.
///
/// `make` gives a driver and a directory in which the suite may create files; the directory is
/// empty at first, and different each time unless the driver is.
///
/// # Panics
///
/// If the driver breaks the contract; the text says which part.
pub fn storage(make: impl Fn() -> (Arc<dyn Driver>, PathBuf)) {
    let checks: [fn(&Scratch); 19] = [
        open_modes_have_their_classes,
        opening_keeps_the_bytes,
        mode_of_the_open_is_obeyed,
        what_was_written_is_read,
        mapped_writes_equal_plain_ones,
        read_ends_where_the_file_ends,
        holes_are_zero,
        empty_calls_change_nothing,
        lists_equal_single_calls,
        list_read_stops_at_the_end,
        set_size_cuts_and_extends,
        preallocate_never_shrinks,
        deleted_file_lives_while_open,
        sync_keeps_the_bytes,
        closing_keeps_the_bytes,
        large_offsets_do_not_wrap,
        locks_exclude_each_other,
        threads_do_not_disturb_each_other,
        locks_make_updates_whole,
    ];
    for check in checks {
        let (driver, directory) = make();
        check(&Scratch { driver, directory });
    }
}

/// A driver and a place for files.
struct Scratch {
    driver: Arc<dyn Driver>,
    directory: PathBuf,
}

impl Scratch {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn open(&self, name: &str, mode: OpenMode) -> Arc<dyn Storage> {
        must("open", self.driver.open(&self.path(name), mode))
    }

    /// A new file with these bytes.
    fn file(&self, name: &str, bytes: &[u8]) -> Arc<dyn Storage> {
        let file = self.open(name, CREATE_NEW);
        must("write", file.write_at(0, bytes));
        file
    }
}

#[track_caller]
fn must<T>(what: &str, result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{what} fails: {error}"),
    }
}

#[track_caller]
fn must_fail<T>(what: &str, class: ErrorClass, result: Result<T>) {
    match result {
        Ok(_) => panic!("{what} succeeds and should be {class:?}"),
        Err(error) => assert_eq!(error.class(), class, "{what}: {error}"),
    }
}

/// All bytes of a file, read by one call that asks for one byte more.
#[track_caller]
fn contents(file: &Arc<dyn Storage>) -> Vec<u8> {
    let size = must("size", file.size());
    let len = usize::try_from(size).unwrap_or(usize::MAX);
    let mut target = vec![0xee; len + 1];
    assert_eq!(must("read", file.read_at(0, &mut target)), len, "a read reaches to the end");
    target.truncate(len);
    target
}

fn open_modes_have_their_classes(scratch: &Scratch) {
    let driver = &scratch.driver;
    let path = scratch.path("file");
    for mode in [READ, WRITE, BOTH] {
        must_fail("opening a missing file", ErrorClass::NoSuchFile, driver.open(&path, mode));
    }
    must_fail("deleting a missing file", ErrorClass::NoSuchFile, driver.delete(&path));
    must_fail("a mode of nothing", ErrorClass::Amode, driver.open(&path, OpenMode::default()));
    let mode = OpenMode { create: true, ..READ };
    must_fail("creating to read", ErrorClass::Amode, driver.open(&path, mode));
    must_fail("refused opens create no file", ErrorClass::NoSuchFile, driver.open(&path, READ));

    scratch.open("file", CREATE_NEW);
    must_fail("creating twice", ErrorClass::FileExists, driver.open(&path, CREATE_NEW));
    for mode in [READ, WRITE, BOTH, CREATE, OpenMode { exclusive: true, ..BOTH }] {
        scratch.open("file", mode);
    }
    must("delete", driver.delete(&path));
    must_fail("opening a deleted file", ErrorClass::NoSuchFile, driver.open(&path, BOTH));
    directory_is_no_file(driver, &scratch.directory);
}

/// A driver without directories has no file of that name either.
fn directory_is_no_file(driver: &Arc<dyn Driver>, directory: &Path) {
    for mode in [READ, WRITE, BOTH] {
        match driver.open(directory, mode) {
            Ok(_) => panic!("a directory opens as a file with {mode:?}"),
            Err(error) => assert!(
                [ErrorClass::BadFile, ErrorClass::NoSuchFile].contains(&error.class()),
                "a directory is a bad file: {error}"
            ),
        }
    }
}

fn opening_keeps_the_bytes(scratch: &Scratch) {
    scratch.file("file", b"data");
    for mode in [CREATE, BOTH] {
        assert_eq!(contents(&scratch.open("file", mode)), b"data");
    }
}

fn mode_of_the_open_is_obeyed(scratch: &Scratch) {
    scratch.file("file", b"data");
    let reader = scratch.open("file", READ);
    let amode = ErrorClass::Amode;
    must_fail("a reader's write", amode, reader.write_at(0, b"x"));
    must_fail("a reader's list", amode, reader.write_list(&[(0, b"x")]));
    must_fail("a reader's set_size", amode, reader.set_size(0));
    must_fail("a reader's preallocate", amode, reader.preallocate(100));
    must("a reader's sync", reader.sync());
    let writer = scratch.open("file", WRITE);
    must_fail("a writer's read", amode, writer.read_at(0, &mut [0]));
    must_fail("a writer's list", amode, writer.read_list(&mut [(0, &mut [0])]));
    assert_eq!(contents(&reader), b"data");
}

fn what_was_written_is_read(scratch: &Scratch) {
    let file = scratch.file("file", b"0123456789");
    must("write", file.write_at(3, b"abc"));
    let other = scratch.open("file", READ);
    for file in [&file, &other] {
        assert_eq!(contents(file), b"012abc6789", "all opens see a write at once");
    }
    let block_bytes = file.capabilities().block_bytes;
    assert!(block_bytes > 0, "a block has bytes");
}

/// Within the file, at its end and beyond it.
fn mapped_writes_equal_plain_ones(scratch: &Scratch) {
    let file = scratch.file("file", b"0123456789");
    let mut expected = b"0123456789".to_vec();
    for (new_bytes, offset) in [(false, 2), (true, 4), (false, 8), (true, 11), (false, 20)] {
        let part = MappedPart { within: 0..5000, new_bytes };
        let mapped = must("write", file.write_mapped(offset, b"abc", &part));
        assert!(mapped == 0 || mapped == 3 && file.capabilities().mapped_writes, "{mapped} mapped");
        let end = usize::try_from(offset + 3).expect("small");
        expected.resize(expected.len().max(end), 0);
        expected[end - 3..end].copy_from_slice(b"abc");
        assert_eq!(contents(&file), expected, "all bytes after a write at {offset}");
    }
    let part = MappedPart { within: 0..5000, new_bytes: true };
    must("write", file.write_mapped(100, b"", &part));
    assert_eq!(contents(&file), expected, "no bytes change nothing");
    must_fail("beyond all", ErrorClass::Type, file.write_mapped(BEHIND_ALL, b"x", &part));
    let reader = scratch.open("file", READ);
    must_fail("a reader's write", ErrorClass::Amode, reader.write_mapped(0, b"x", &part));
}

fn read_ends_where_the_file_ends(scratch: &Scratch) {
    let file = scratch.file("file", b"0123456789");
    for (offset, expected) in [(7, &b"789"[..]), (10, b""), (11, b""), (1 << 40, b"")] {
        let mut target = [0xee; 5];
        let count = must("read", file.read_at(offset, &mut target));
        assert_eq!(&target[..count], expected, "read at {offset}");
    }
    assert_eq!(must("size", file.size()), 10, "reading does not extend");
}

fn holes_are_zero(scratch: &Scratch) {
    let file = scratch.file("file", b"ab");
    must("write", file.write_at(200_000, b"cd"));
    let expected = [&b"ab"[..], &[0; 199_998], b"cd"].concat();
    assert!(contents(&file) == expected, "a hole reads as zeros");
}

fn empty_calls_change_nothing(scratch: &Scratch) {
    let file = scratch.file("file", b"ab");
    must("an empty write", file.write_at(100, b""));
    must("an empty list", file.write_list(&[]));
    must("a list of an empty piece", file.write_list(&[(100, b"")]));
    assert_eq!(must("an empty read", file.read_at(0, &mut [])), 0);
    assert_eq!(must("an empty list", file.read_list(&mut [])), 0);
    assert_eq!(contents(&file), b"ab");
}

/// Pieces in many shapes: adjacent and apart, empty and across blocks, more of them than one
/// vectored call of any system takes.
fn shapes() -> Vec<Vec<(u64, usize)>> {
    let offset = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let mut shapes = vec![
        (0..2500).map(|index| (offset(index), 1)).collect(),
        (0..2500).map(|index| (offset(index + index / 2), 1)).collect(),
        vec![(0, 3), (3, 0), (3, 4), (7, 0), (9, 0), (10, 1)],
    ];
    for hole in [0, 1, 70_000] {
        for len in [1, 7, 5000] {
            let piece = |index| (offset(3 + index * (len + hole)), len);
            shapes.push((0..6).map(piece).collect());
        }
    }
    shapes
}

/// Bytes without a short period, so that a misplaced piece is seen.
fn pattern(len: usize) -> Vec<u8> {
    (1..=251).cycle().take(len).collect()
}

/// Divides `data` into one slice for each piece.
fn divide<'a>(shape: &[(u64, usize)], mut data: &'a [u8]) -> Vec<(u64, &'a [u8])> {
    let piece = |&(offset, len): &(u64, usize)| {
        let (first, rest) = data.split_at(len);
        data = rest;
        (offset, first)
    };
    shape.iter().map(piece).collect()
}

fn divide_mut<'a>(shape: &[(u64, usize)], mut data: &'a mut [u8]) -> Vec<(u64, &'a mut [u8])> {
    let piece = |&(offset, len): &(u64, usize)| {
        let (first, rest) = std::mem::take(&mut data).split_at_mut(len);
        data = rest;
        (offset, first)
    };
    shape.iter().map(piece).collect()
}

fn lists_equal_single_calls(scratch: &Scratch) {
    for (index, shape) in shapes().iter().enumerate() {
        let data = pattern(shape.iter().map(|(_, len)| len).sum());
        let pieces = divide(shape, &data);
        let single = scratch.file(&format!("single-{index}"), &[0xaa; 100]);
        for (offset, piece) in &pieces {
            must("write", single.write_at(*offset, piece));
        }
        let list = scratch.file(&format!("list-{index}"), &[0xaa; 100]);
        must("write_list", list.write_list(&pieces));
        assert!(contents(&list) == contents(&single), "shape {index}: the files are equal");

        let mut found = vec![0xee; data.len()];
        let count = must("read_list", single.read_list(&mut divide_mut(shape, &mut found)));
        assert_eq!(count, data.len(), "shape {index}: all bytes are counted");
        assert!(found == data, "shape {index}: the bytes read are those written");
    }
}

fn list_read_stops_at_the_end(scratch: &Scratch) {
    let file = scratch.file("file", b"0123456789");
    for (shape, expected) in [
        ([(0, 2), (2, 2), (8, 5)], &b"012389"[..]),
        ([(6, 2), (8, 2), (10, 3)], b"6789"),
        ([(8, 2), (11, 2), (20, 3)], b"89"),
        ([(9, 3), (12, 3), (15, 3)], b"9"),
        ([(10, 1), (11, 1), (12, 1)], b""),
    ] {
        let mut found = [0xee; 9];
        let len = shape.iter().map(|(_, len)| len).sum();
        let mut pieces = divide_mut(&shape, &mut found[..len]);
        let count = must("read_list", file.read_list(&mut pieces));
        assert_eq!(&found[..count], expected, "{shape:?}");
    }
}

fn set_size_cuts_and_extends(scratch: &Scratch) {
    let file = scratch.file("file", b"0123456789");
    must("set_size", file.set_size(4));
    assert_eq!(contents(&file), b"0123");
    must("set_size", file.set_size(8));
    assert_eq!(contents(&file), b"0123\0\0\0\0", "cut bytes do not come back");
    must("set_size", file.set_size(200_000));
    must("set_size", file.set_size(0));
    assert_eq!(contents(&file), b"");
}

fn preallocate_never_shrinks(scratch: &Scratch) {
    let file = scratch.file("file", b"0123456789");
    for (bytes, size) in [(0, 10), (4, 10), (10, 10), (20, 20), (15, 20)] {
        must("preallocate", file.preallocate(bytes));
        assert_eq!(must("size", file.size()), size, "after preallocate({bytes})");
    }
    assert_eq!(contents(&file), [&b"0123456789"[..], &[0; 10]].concat());
}

fn deleted_file_lives_while_open(scratch: &Scratch) {
    let old = scratch.file("file", b"old");
    must("delete", scratch.driver.delete(&scratch.path("file")));
    let new = scratch.file("file", b"new");
    must("write", old.write_at(3, b"er"));
    assert_eq!(contents(&old), b"older");
    assert_eq!(contents(&new), b"new");
}

fn sync_keeps_the_bytes(scratch: &Scratch) {
    let file = scratch.file("file", b"data");
    must("sync", file.sync());
    must("sync", file.sync());
    assert_eq!(contents(&file), b"data");
}

fn large_offsets_do_not_wrap(scratch: &Scratch) {
    let offset = (1 << 33) + 3;
    let file = scratch.file("file", b"ab");
    must("write", file.write_at(offset, b"far"));
    must("write_list", file.write_list(&[(offset + 3, b"th"), (offset + 5, b"er")]));
    assert_eq!(must("size", file.size()), offset + 7);
    let mut target = [0xee; 10];
    assert_eq!(must("read", file.read_at(offset - 3, &mut target)), 10);
    assert_eq!(&target, b"\0\0\0farther");
    assert_eq!(must("read", file.read_at(0, &mut target[..4])), 4);
    assert_eq!(&target[..4], b"ab\0\0", "32 bits are not enough for an offset");

    let wrong = ErrorClass::Type;
    for offset in [BEHIND_ALL - 1, BEHIND_ALL, u64::MAX] {
        must_fail("a write behind all", wrong, file.write_at(offset, b"x"));
        must_fail("a list behind all", wrong, file.write_list(&[(0, b"x"), (offset, b"x")]));
        must_fail("a read behind all", wrong, file.read_at(offset, &mut [0]));
        must_fail("a list behind all", wrong, file.read_list(&mut [(offset, &mut [0])]));
    }
    for bytes in [BEHIND_ALL, u64::MAX] {
        must_fail("a size behind all", wrong, file.set_size(bytes));
        must_fail("room behind all", wrong, file.preallocate(bytes));
    }
    assert_eq!(must("size", file.size()), offset + 7, "a refused call moves nothing");
    assert_eq!(must("read", file.read_at(0, &mut target[..1])), 1);
    assert_eq!(target[0], b'a', "a refused list moves nothing");
}

fn exclusive(offset: u64, len: u64) -> LockRange {
    LockRange { offset, len, exclusive: true }
}

fn shared(offset: u64, len: u64) -> LockRange {
    LockRange { offset, len, exclusive: false }
}

fn locks_exclude_each_other(scratch: &Scratch) {
    let one = scratch.file("file", b"data");
    let other = scratch.open("file", BOTH);
    if !one.capabilities().range_locks {
        let class = ErrorClass::UnsupportedOperation;
        return must_fail("a lock without locks", class, one.try_lock(exclusive(0, 1)));
    }
    let free = |file: &Arc<dyn Storage>, lock| must("try_lock", file.try_lock(lock)).is_some();
    for file in [&one, &other] {
        let guard = must("try_lock", one.try_lock(exclusive(10, 10)));
        assert!(guard.is_some(), "a free range is locked, also behind the end");
        for lock in [exclusive(10, 1), shared(19, 1), shared(0, 100)] {
            assert!(!free(file, lock), "{lock:?} is held");
        }
        assert!(free(file, exclusive(0, 10)) && free(file, exclusive(20, 10)));
        drop(guard);
        assert!(free(file, exclusive(0, 100)), "a dropped guard unlocks");

        let guards = [&one, file].map(|file| must("try_lock", file.try_lock(shared(10, 10))));
        assert!(guards.iter().all(Option::is_some), "shared locks do not conflict");
        assert!(!free(file, exclusive(15, 1)), "a shared lock keeps exclusive ones away");
        let [first, second] = guards;
        drop(first);
        assert!(!free(file, exclusive(15, 1)), "one of two shared locks is still held");
        drop(second);
        assert!(free(file, exclusive(15, 1)));
    }
    must_fail("a lock of nothing", ErrorClass::Arg, one.try_lock(exclusive(5, 0)));
    must_fail("a lock behind all", ErrorClass::Type, one.try_lock(exclusive(5, BEHIND_ALL)));
}

fn threads_do_not_disturb_each_other(scratch: &Scratch) {
    const THREADS: u64 = 4;
    const BLOCKS: u64 = 64;
    let common = scratch.file("file", b"");
    thread::scope(|scope| {
        for index in 0..THREADS {
            let file = match index % 2 {
                0 => Arc::clone(&common),
                _ => scratch.open("file", BOTH),
            };
            scope.spawn(move || {
                for block in 0..BLOCKS {
                    let data = [u8::try_from(index + 1).unwrap_or(0); 100];
                    let offset = 100 * (block * THREADS + index);
                    must("write", file.write_at(offset, &data));
                    let mut found = [0; 100];
                    assert_eq!(must("read", file.read_at(offset, &mut found)), 100);
                    assert_eq!(found, data, "a thread reads what it has written");
                }
            });
        }
    });
    let expected: Vec<u8> = [[1; 100], [2; 100], [3; 100], [4; 100]].concat();
    assert!(contents(&common).chunks(400).all(|blocks| blocks == expected));
    assert_eq!(must("size", common.size()), 100 * THREADS * BLOCKS);
}

/// Every open file can be closed, whatever its mode, and others keep it.
fn closing_keeps_the_bytes(scratch: &Scratch) {
    let file = scratch.file("file", b"bytes");
    let reader = scratch.open("file", OpenMode { read: true, ..OpenMode::default() });
    let writer = scratch.open("file", OpenMode { write: true, ..OpenMode::default() });
    must("close", file.close());
    drop(file);
    must("close of a writer", writer.close());
    drop(writer);
    assert_eq!(contents(&reader), b"bytes", "others still have the file open");
    must("close of a reader", reader.close());
    drop(reader);
    assert_eq!(contents(&scratch.open("file", BOTH)), b"bytes", "what was written is there");
}

/// Four threads count in one byte; without exclusion they would lose counts.
fn locks_make_updates_whole(scratch: &Scratch) {
    let common = scratch.file("file", &[0]);
    if !common.capabilities().range_locks {
        return;
    }
    thread::scope(|scope| {
        for index in 0..4 {
            let file = match index % 2 {
                0 => Arc::clone(&common),
                _ => scratch.open("file", BOTH),
            };
            scope.spawn(move || (0..50).for_each(|_| count_one(&file)));
        }
    });
    assert_eq!(contents(&common), [200], "no update is lost between opens or within one");
}

fn count_one(file: &Arc<dyn Storage>) {
    // Far more attempts than a fair scheduler needs: a lock that is never granted is an error
    // and not a test that never ends.
    const ATTEMPTS_MAX: usize = 100_000_000;
    for _ in 0..ATTEMPTS_MAX {
        if let Some(_guard) = must("try_lock", file.try_lock(exclusive(0, 1))) {
            let mut count = [0];
            must("read", file.read_at(0, &mut count));
            must("write", file.write_at(0, &[count[0] + 1]));
            return;
        }
        thread::yield_now();
    }
    panic!("a lock that all release is granted at last");
}
