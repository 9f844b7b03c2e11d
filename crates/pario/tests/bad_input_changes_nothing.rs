//! Whatever is wrong with a call, it returns an error of the right class on all ranks that take
//! part, with a text that names the file; and it changes nothing: no byte, no size, no pointer.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::io::SeekFrom;
use std::sync::Arc;

use pario::storage::{Driver, Memory, Operation};
use pario::{
    Datatype, Error, ErrorClass, File, HintSet, OpenOptions, Position, Representation, Result,
    Solo, Source, Target, Threads, Typed, View,
};
use pario_testkit::device::Hooked;
use pario_testkit::scratch::Scratch;
use pario_testkit::watchdog::Watchdog;

const OLD: [u8; 100] = [7; 100];

fn store() -> Memory {
    let memory = Memory::new();
    memory.put("f", &OLD);
    memory
}

fn options(memory: &Memory) -> OpenOptions {
    File::options().driver(Arc::new(memory.clone()))
}

fn index(rank: u32) -> usize {
    usize::try_from(rank).expect("small")
}

fn assert_error(error: &Error, class: ErrorClass, word: &str) {
    assert_eq!(error.class(), class, "{error}");
    let text = error.to_string();
    assert!(text.contains("file f"), "names the file: {text}");
    assert!(text.contains(word), "says {word:?}: {text}");
}

/// Makes a wrong call on an open file of `ranks` ranks. All must return this class; then the file
/// and the pointers are as before, and the handle still works.
fn refuse(
    ranks: u32,
    mode: fn(OpenOptions) -> OpenOptions,
    (class, word): (ErrorClass, &str),
    wrong: impl Fn(&File, u32) -> Result<()> + Sync,
) {
    let watchdog = Watchdog::new("bad_input_changes_nothing");
    let threads = Threads::new(ranks);
    let (apart, processes) = (threads.clone().share_memory(false), threads.clone());
    let common = threads.clone().shared_bytes(1 << 10);
    for threads in [threads, apart, processes, common] {
        watchdog.step(format!("{threads:?} {class:?} {word}"));
        let memory = store();
        threads.run(|comm| {
            let file = mode(options(&memory)).open(&*comm, "f").expect("opens");
            if !file.mode().sequential {
                file.seek(SeekFrom::Start(5)).expect("seeks");
                file.seek_shared(SeekFrom::Start(9)).expect("seeks");
            }
            let before = (file.position(), file.position_shared().expect("known"));
            let view = format!("{:?}", file.view());
            let error = wrong(&file, comm.rank()).expect_err("the call is wrong");
            assert_error(&error, class, word);
            let after = (file.position(), file.position_shared().expect("known"));
            assert_eq!(before, after, "pointers: {error}");
            assert_eq!(view, format!("{:?}", file.view()), "view: {error}");
            assert_eq!(file.size().expect("known"), 100);
            assert!(!file.atomicity());
            file.sync().expect("the handle works");
            if file.mode().read && !file.mode().sequential {
                let mut bytes = [0u8; 10];
                assert_eq!(file.read_all(50, &mut bytes).expect("reads").bytes, 10);
                assert_eq!(bytes, [7; 10]);
            }
            file.close().expect("closes");
        });
        assert_eq!(memory.contents("f").expect("there"), OLD, "{class:?} {word}");
    }
}

fn both(options: OpenOptions) -> OpenOptions {
    options.read(true).write(true)
}

fn reading(options: OpenOptions) -> OpenOptions {
    options.read(true)
}

fn writing(options: OpenOptions) -> OpenOptions {
    options.write(true)
}

fn byte() -> Datatype {
    Datatype::byte()
}

fn blocks(places: &[i64]) -> Datatype {
    Datatype::hindexed_block(4, places, &byte()).expect("a datatype")
}

#[test]
fn a_filetype_that_breaks_a_rule_is_refused() {
    let of_bytes = |filetype: &Datatype| View::new(0, &byte(), filetype);
    let negative = Datatype::resized(-4, 12, &blocks(&[-4, 4])).expect("a datatype");
    let backwards = Datatype::hvector(3, 4, -8, &byte()).expect("a datatype");
    let empty = Datatype::contiguous(0, &byte()).expect("a datatype");
    let cases = [
        (of_bytes(&negative), "negative"),
        (of_bytes(&blocks(&[8, 0])), "decrease"),
        (of_bytes(&backwards), ""),
        (of_bytes(&blocks(&[0, 2])), "overlaps itself"),
        (View::new(0, &Datatype::of::<f64>(), &Datatype::of::<f32>()), "not made of etypes"),
        (View::new(0, &empty, &byte()), "no data"),
        (View::new(u64::MAX, &byte(), &byte()), "2^63"),
        (View::new(i64::MAX.unsigned_abs(), &byte(), &byte()), "2^63"),
    ];
    for (view, word) in &cases {
        refuse(1, both, (ErrorClass::Type, word), |file, _| file.set_view(view));
        // One rank alone is wrong: all ranks keep their view.
        refuse(3, both, (ErrorClass::Type, word), |file, rank| {
            let good = View::new(1, &byte(), &byte());
            file.set_view(if rank == 1 { view } else { &good })
        });
    }
}

/// A filetype may be longer than its extent; only what overlaps cannot be written.
#[test]
fn filetypes_that_overlap_their_repetitions_are_written_one_at_a_time() {
    let long = Datatype::resized(0, 4, &blocks(&[0, 8])).expect("a datatype");
    let view = View::new(0, &byte(), &long);
    let memory = store();
    Threads::new(3).run(|comm| {
        let file = both(options(&memory)).open(&*comm, "f").expect("opens");
        file.set_view(&view).expect("a view");
        let len = if comm.rank() == 1 { 20 } else { 8 };
        let error = file.write_all(0, &[9u8; 20][..len]).expect_err("rank 1 overlaps itself");
        assert_error(&error, ErrorClass::Type, "one filetype at a time");
        file.close().expect("closes");
    });
    assert_eq!(memory.contents("f").expect("there"), OLD);
    let file = both(options(&memory)).open(&*Solo::new(), "f").expect("opens");
    file.set_view(&view).expect("a view");
    file.write(0, b"abcdefgh").expect("the first filetype");
    file.write(8, b"ABCDEFGH").expect("the second filetype");
    file.close().expect("closes");
    assert_eq!(&memory.contents("f").expect("there")[..16], b"abcdABCDefghEFGH");
}

#[test]
fn views_that_must_agree_and_do_not_are_refused() {
    refuse(3, both, (ErrorClass::NotSame, "etype"), |file, rank| {
        let etype = if rank == 2 { Datatype::of::<u16>() } else { byte() };
        file.set_view(&View::new(0, &etype, &etype))
    });
    refuse(2, both, (ErrorClass::NotSame, "representation"), |file, rank| {
        let view = View::new(0, &byte(), &byte());
        let external = view.clone().with_representation(Representation::External32);
        file.set_view(if rank == 1 { &external } else { &view })
    });
}

#[test]
fn positions_and_counts_that_overflow_are_refused() {
    let data = [1u8; 8];
    for position in [u64::MAX, u64::MAX - 7, i64::MAX.unsigned_abs(), (1 << 63) - 8] {
        refuse(1, both, (ErrorClass::Type, ""), |file, _| file.write(position, &data).map(drop));
        refuse(1, both, (ErrorClass::Type, ""), |file, _| {
            file.read(position, &mut [0u8; 8]).map(drop)
        });
        refuse(3, both, (ErrorClass::Type, ""), |file, rank| {
            let position = if rank == 1 { position } else { 0 };
            file.write_all(position, &data).map(drop)
        });
        refuse(2, both, (ErrorClass::Type, ""), |file, _| {
            file.iwrite_all(position, data.to_vec()).wait().0.map(drop)
        });
    }
    for position in [u64::MAX, i64::MAX.unsigned_abs()] {
        refuse(1, both, (ErrorClass::Type, ""), |file, _| file.byte_offset(position).map(drop));
    }
    refuse(2, both, (ErrorClass::Type, ""), |file, _| file.set_size(u64::MAX));
    refuse(2, both, (ErrorClass::Type, ""), |file, _| file.preallocate(1 << 63));
    for count in [u64::MAX, u64::MAX / 8, 1 << 62] {
        refuse(2, both, (ErrorClass::Type, ""), |file, _| {
            file.plan_write_all(0, count, &Datatype::of::<f64>()).map(drop)
        });
    }
}

/// Pointers that stand at the end of all offsets do not wrap to the beginning.
#[test]
fn pointers_do_not_wrap() {
    let memory = store();
    for position in [u64::MAX, u64::MAX - 3, (1 << 63) - 4] {
        Threads::new(2).run(|comm| {
            let file = both(options(&memory)).open(&*comm, "f").expect("opens");
            file.seek(SeekFrom::Start(position)).expect("seeks");
            let error = file.write(Position::Individual, &[1u8; 8]).expect_err("too far");
            assert_error(&error, ErrorClass::Type, "");
            assert_eq!(file.position(), position);
            file.seek_shared(SeekFrom::Start(position)).expect("seeks");
            let error = file.write_all(Position::Shared, &[1u8; 8]).expect_err("too far");
            assert!([ErrorClass::Type, ErrorClass::Arg].contains(&error.class()), "{error}");
            assert!(file.position_shared().expect("known") >= position);
            if comm.rank() == 0 {
                let error = file.write(Position::Shared, &[1u8; 8]).expect_err("too far");
                assert!([ErrorClass::Type, ErrorClass::Arg].contains(&error.class()), "{error}");
            }
            assert!(file.position_shared().expect("known") >= position);
            file.close().expect("closes");
        });
    }
    assert_eq!(memory.contents("f").expect("there"), OLD);
}

#[test]
fn bytes_that_are_not_whole_etypes_are_refused() {
    let memory = store();
    Threads::new(2).run(|comm| {
        let file = both(options(&memory)).open(&*comm, "f").expect("opens");
        let int = Datatype::of::<i32>();
        file.set_view(&View::new(0, &int, &int)).expect("a good view");
        let error = file.write_all(0, &[1u8; 7]).expect_err("not whole");
        assert_error(&error, ErrorClass::Count, "whole number of etypes");
        file.close().expect("closes");
    });
    assert_eq!(memory.contents("f").expect("there"), OLD);
}

#[test]
fn hints_that_cannot_be_used_are_listed_and_the_open_succeeds() {
    let wrong = [
        ("no_such_hint", "1"),
        ("cb_buffer_size", "-1"),
        ("cb_buffer_size", "0"),
        ("cb_nodes", "0"),
        ("cb_nodes", "many"),
        ("romio_cb_write", "perhaps"),
        ("pario_strategy", "fastest"),
        ("ind_wr_buffer_size", "99999999999999999999999"),
        ("striping_unit", "ä"),
        ("", ""),
        ("cb_node", "2"),
    ];
    let memory = store();
    Threads::new(2).run(|comm| {
        let options = wrong
            .iter()
            .fold(both(options(&memory)), |options, (key, value)| options.hint(*key, *value));
        let file = options.open(&*comm, "f").expect("hints never fail an open");
        let report = file.hints();
        for (key, value) in wrong {
            let listed = |hint: &&pario::IgnoredHint| hint.name == key && hint.value == value;
            let ignored = report.ignored.iter().find(listed).expect("listed");
            assert!(!ignored.reason.is_empty(), "{key}={value}");
        }
        let clean = both(self::options(&memory)).open(&*comm, "f").expect("opens");
        assert_eq!(report.effective, clean.hints().effective);
        file.close().and(clean.close()).expect("closes");
    });
}

/// Opens on three ranks; all must fail with this class and leave things as they are.
fn refuse_open(options: &OpenOptions, path: &std::path::Path, class: ErrorClass) {
    let watchdog = Watchdog::new("bad_input_changes_nothing: open");
    watchdog.step(format!("{} {class:?}", path.display()));
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let errors = Threads::new(3).run(|comm| options.open(&*comm, path).err().expect("refused"));
    for error in errors {
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(&*pario::escaped(&name)), "names the file: {error}");
    }
}

#[test]
fn files_that_cannot_be_opened_have_their_class_on_all_ranks() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("directory")).expect("made");
    std::fs::write(scratch.path("there"), b"x").expect("written");
    let create = both(File::options()).create(true);
    refuse_open(&reading(File::options()), &scratch.path("directory"), ErrorClass::BadFile);
    refuse_open(&create, &scratch.path("directory"), ErrorClass::BadFile);
    refuse_open(&both(File::options()), &scratch.path("missing"), ErrorClass::NoSuchFile);
    refuse_open(&create, &scratch.path("missing/deeper"), ErrorClass::NoSuchFile);
    refuse_open(&create, &scratch.path("there/deeper"), ErrorClass::BadFile);
    refuse_open(&create.clone().exclusive(true), &scratch.path("there"), ErrorClass::FileExists);
    refuse_open(&create, &scratch.path(&"long".repeat(100)), ErrorClass::BadFile);
    refuse_open(&create, &scratch.path("with\0zero"), ErrorClass::BadFile);
    assert_eq!(scratch.names(), ["directory", "there"], "nothing was made");
    assert_eq!(std::fs::read(scratch.path("there")).expect("read"), b"x");
}

#[test]
fn illegal_access_modes_are_refused_before_a_file_is_touched() {
    // read, write, create, exclusive, sequential
    for bits in 0..32u32 {
        let [read, write, create, exclusive, sequential] =
            [1, 2, 4, 8, 16].map(|bit| bits & bit != 0);
        let useless = !read && !write;
        let incomplete = create && !write || exclusive && !create;
        let both_ways = sequential && read && write;
        let legal = !(useless || incomplete || both_ways);
        let memory = Memory::new();
        let options = options(&memory)
            .read(read)
            .write(write)
            .create(create)
            .exclusive(exclusive)
            .sequential(sequential);
        let results = Threads::new(2).run(|comm| options.open(&*comm, "f").map(File::close));
        for result in results {
            match (legal, result) {
                (false, Err(error)) => assert_error(&error, ErrorClass::Amode, "open"),
                (true, Err(error)) => {
                    assert_eq!((error.class(), create), (ErrorClass::NoSuchFile, false));
                }
                (true, Ok(closed)) => assert!(closed.is_ok() && create),
                (false, Ok(_)) => panic!("an illegal mode was accepted: {bits:#b}"),
            }
        }
        let made = legal && create;
        assert_eq!(memory.contents("f").is_some(), made, "{bits:#b}");
    }
}

#[test]
fn an_access_mode_that_differs_between_ranks_is_not_same() {
    let memory = Memory::new();
    let errors = Threads::new(3).run(|comm| {
        let options = options(&memory).write(true).create(true).read(comm.rank() != 1);
        options.open(&*comm, "f").err().expect("refused")
    });
    errors.iter().for_each(|error| assert_error(error, ErrorClass::NotSame, "access mode"));
    assert_eq!(memory.contents("f"), None, "nothing was created");
}

#[test]
fn a_file_that_one_rank_may_not_open_is_opened_by_none() {
    const EACCES: i32 = 13;
    for exists in [true, false] {
        for denied in 0..3 {
            let memory = if exists { store() } else { Memory::new() };
            let errors = Threads::new(3).run(|comm| {
                let deny = comm.rank() == denied;
                let driver = Hooked::new(memory.clone(), move |operation| match operation {
                    Operation::Open if deny => Err(Error::from_errno("open", EACCES)),
                    _ => Ok(()),
                });
                let options = both(File::options()).create(true).driver(Arc::new(driver));
                options.open(&*comm, "f").err().expect("refused")
            });
            for error in errors {
                assert_error(&error, ErrorClass::Access, "open");
                assert_eq!(error.rank(), Some(denied));
            }
            assert_eq!(memory.contents("f"), exists.then(|| OLD.to_vec()), "rank {denied}");
        }
    }
}

/// A file that may be written but not read can be written; a read is refused with the reason.
#[test]
fn a_file_that_may_not_be_read_is_opened_for_writing_only() {
    struct Unreadable(Memory);
    impl Driver for Unreadable {
        fn open(
            &self,
            path: &std::path::Path,
            mode: pario::storage::OpenMode,
        ) -> Result<Arc<dyn pario::storage::Storage>> {
            match mode.read {
                true => Err(Error::from_errno("open", 13)),
                false => self.0.open(path, mode),
            }
        }
        fn delete(&self, path: &std::path::Path) -> Result<()> {
            self.0.delete(path)
        }
    }
    let memory = store();
    Threads::new(2).run(|comm| {
        let driver = Arc::new(Unreadable(memory.clone()));
        let refused = both(File::options()).driver(driver.clone()).open(&*comm, "f");
        assert_error(&refused.err().expect("refused"), ErrorClass::Access, "open");
        let options = writing(File::options()).driver(driver).hint("romio_cb_write", "enable");
        let file = options.open(&*comm, "f").expect("opens for writing");
        let filetype = Datatype::resized(0, 10, &byte()).expect("a datatype");
        file.set_view(&View::new(u64::from(comm.rank()), &byte(), &filetype)).expect("a view");
        file.write_all(0, &[1u8; 5]).expect("holes need no reading");
        file.close().expect("closes");
    });
    let expected: Vec<u8> =
        (0..100).map(|offset| if offset % 10 < 2 && offset < 50 { 1 } else { 7 }).collect();
    assert_eq!(memory.contents("f").expect("there"), expected);
}

#[test]
fn calls_that_the_access_mode_forbids_are_refused() {
    let read_only = ErrorClass::ReadOnly;
    refuse(2, reading, (read_only, "reading only"), |file, _| file.write(0, &[1u8]).map(drop));
    refuse(2, reading, (read_only, "reading only"), |file, _| file.write_all(0, &[1u8]).map(drop));
    refuse(2, reading, (read_only, "reading only"), |file, _| {
        file.write_all(Position::Individual, &[1u8]).map(drop)
    });
    refuse(2, reading, (read_only, "reading only"), |file, _| {
        file.write_all(Position::Shared, &[1u8]).map(drop)
    });
    refuse(2, reading, (read_only, "reading only"), |file, _| {
        file.iwrite(0, vec![1u8]).wait().0.map(drop)
    });
    refuse(2, reading, (read_only, "reading only"), |file, _| file.set_size(5));
    refuse(2, reading, (read_only, "reading only"), |file, _| file.preallocate(500));
    let access = ErrorClass::Access;
    refuse(2, writing, (access, "writing only"), |file, _| file.read(0, &mut [0u8]).map(drop));
    refuse(2, writing, (access, "writing only"), |file, _| file.read_all(0, &mut [0u8]).map(drop));
    refuse(2, writing, (access, "writing only"), |file, _| {
        file.iread(0, vec![0u8]).wait().0.map(drop)
    });
}

fn sequential(options: OpenOptions) -> OpenOptions {
    options.write(true).sequential(true)
}

#[test]
fn a_sequential_file_has_its_shared_pointer_only() {
    let unsupported = (ErrorClass::UnsupportedOperation, "shared file pointer");
    refuse(2, sequential, unsupported, |file, _| file.write(0, &[1u8]).map(drop));
    refuse(2, sequential, unsupported, |file, _| {
        file.write(Position::Individual, &[1u8]).map(drop)
    });
    refuse(2, sequential, unsupported, |file, _| file.write_all(0, &[1u8]).map(drop));
    refuse(2, sequential, unsupported, |file, _| file.seek(SeekFrom::Start(0)).map(drop));
    let memory = Memory::new();
    Threads::new(2).run(|comm| {
        let options = options(&memory).write(true).create(true).sequential(true);
        let file = options.open(&*comm, "f").expect("opens");
        let value = u8::try_from(comm.rank() + 1).expect("small");
        file.write_all(Position::Shared, &[value; 4]).expect("the shared pointer works");
        file.close().expect("closes");
    });
    assert_eq!(memory.contents("f").expect("there"), [1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn ranks_that_make_different_calls_all_learn_it() {
    refuse(3, both, (ErrorClass::NotSame, "read_all"), |file, rank| match rank {
        1 => file.read_all(0, &mut [0u8; 8]).map(drop),
        _ => file.write_all(0, &[1u8; 8]).map(drop),
    });
    refuse(2, both, (ErrorClass::NotSame, "set_size"), |file, rank| {
        file.set_size(200 + u64::from(rank))
    });
    refuse(2, both, (ErrorClass::NotSame, "set_atomicity"), |file, rank| {
        file.set_atomicity(rank == 0)
    });
    refuse(2, both, (ErrorClass::NotSame, "seek_shared"), |file, rank| {
        file.seek_shared(SeekFrom::Start(u64::from(rank))).map(drop)
    });
}

/// Calls that do not fit each other at all: every rank returns with an error, none hangs, and
/// no byte is written.
#[test]
fn ranks_that_make_unrelated_calls_do_not_hang() {
    type Call = fn(&File) -> Result<()>;
    let calls: [(&str, Call); 6] = [
        ("write_all", |file| file.write_all(0, &[1u8; 8]).map(drop)),
        ("read_all", |file| file.read_all(0, &mut [0u8; 8]).map(drop)),
        ("set_view", |file| file.set_view(&View::bytes())),
        ("set_size", |file| file.set_size(50)),
        ("preallocate", |file| file.preallocate(500)),
        ("set_atomicity", |file| file.set_atomicity(true)),
    ];
    let watchdog = Watchdog::new("unrelated calls");
    for (one_name, one) in calls {
        for (other_name, other) in calls {
            if one_name == other_name {
                continue;
            }
            watchdog.step(format!("{one_name} and {other_name}"));
            let memory = store();
            let results = Threads::new(3).run(|comm| {
                let file = both(options(&memory)).open(&*comm, "f").expect("opens");
                let result = if comm.rank() == 1 { other(&file) } else { one(&file) };
                (result, comm.rank())
            });
            for (result, rank) in results {
                let context = format!("{one_name}, rank 1 {other_name}: rank {rank}");
                let error = result.expect_err(&context);
                assert_eq!(error.class(), ErrorClass::NotSame, "{context}: {error}");
                for name in [one_name, other_name] {
                    assert!(error.to_string().contains(name), "{context}: {error}");
                }
            }
            assert_eq!(memory.contents("f").expect("there"), OLD, "{one_name} {other_name}");
        }
    }
}

#[test]
fn one_bad_argument_in_a_collective_reaches_all_ranks() {
    let far = Datatype::resized(0, 64, &byte()).expect("a datatype");
    refuse(3, both, (ErrorClass::Type, ""), |file, rank| {
        let position = if rank == 2 { u64::MAX } else { 0 };
        file.write_all(position, &[1u8; 8]).map(drop)
    });
    refuse(3, both, (ErrorClass::Count, "outside the buffer"), |file, rank| {
        let count = if rank == 2 { 5 } else { 1 };
        let data = Typed { values: vec![1u8; 65], origin: 0, count, datatype: far.clone() };
        file.iwrite_all(0, data).wait().0.map(drop)
    });
    // The pointers of the ranks without an error stay, too.
    refuse(3, both, (ErrorClass::Count, "outside the buffer"), |file, rank| {
        let count = if rank == 2 { 5 } else { 1 };
        let data = Typed { values: vec![1u8; 65], origin: 0, count, datatype: far.clone() };
        file.iwrite_all(Position::Individual, data).wait().0.map(drop)
    });
    refuse(3, both, (ErrorClass::Count, "outside the buffer"), |file, rank| {
        let count = if rank == 2 { 5 } else { 1 };
        let data = Typed { values: vec![1u8; 65], origin: 0, count, datatype: far.clone() };
        file.iwrite_all(Position::Shared, data).wait().0.map(drop)
    });
}

/// As above, where a conversion divides the call into parts before anything else.
#[test]
fn one_bad_argument_in_a_converted_collective_leaves_all_pointers() {
    let watchdog = Watchdog::new("converted collectives");
    watchdog.step("write_all".to_owned());
    let memory = store();
    Threads::new(3).run(|comm| {
        let file = both(options(&memory)).open(&*comm, "f").expect("opens");
        let int = Datatype::of::<i32>();
        let view = View::new(0, &int, &int).with_representation(Representation::External32);
        file.set_view(&view).expect("a view");
        file.seek(SeekFrom::Start(3)).expect("seeks");
        let wrong = Error::new(ErrorClass::Count, "a negative count");
        let data = [1i32, 2];
        let source = if comm.rank() == 1 { Err(wrong) } else { Ok(Source::from(&data)) };
        let error = file.try_write_all(Position::Individual, source).expect_err("rank 1 is wrong");
        assert_error(&error, ErrorClass::Count, "a negative count");
        assert_eq!(file.position(), 3);
        file.close().expect("closes");
    });
    assert_eq!(memory.contents("f").expect("there"), OLD);
}

/// Every collective that takes an argument: what a caller finds wrong on one rank, before pario
/// sees it, ends the call on all ranks.
#[test]
fn an_error_found_by_the_caller_on_one_rank_reaches_all_ranks() {
    type Call = fn(&File, Result<()>) -> Result<()>;
    let calls: [(&str, Call); 9] = [
        ("set_size", |file, own| file.try_set_size(own.map(|()| 50))),
        ("preallocate", |file, own| file.try_preallocate(own.map(|()| 500))),
        ("seek_shared", |file, own| {
            file.try_seek_shared(own.map(|()| SeekFrom::Start(2))).map(drop)
        }),
        ("set_hints", |file, own| {
            let hints = HintSet::new().with("cb_nodes", "1");
            file.try_set_hints(own.map(|()| &hints))
        }),
        ("set_view", |file, own| {
            let view = View::new(4, &byte(), &byte());
            file.try_set_view(own.map(|()| &view))
        }),
        ("set_view_with", |file, own| {
            let (view, hints) = (View::bytes(), HintSet::new().with("cb_nodes", "1"));
            file.try_set_view_with(own.map(|()| &view), &hints, 1)
        }),
        ("read_all", |file, own| {
            let mut target = [0u8; 4];
            let target = own.map(|()| Target::from(&mut target));
            file.try_read_all(Position::Individual, target).map(drop)
        }),
        ("write_all", |file, own| {
            let source = own.map(|()| Source::from(&[1u8; 4]));
            file.try_write_all(Position::Shared, source).map(drop)
        }),
        ("agree_on", |file, own| file.agree_on(own)),
    ];
    for (name, call) in calls {
        for wrong in 0..3 {
            refuse(3, both, (ErrorClass::Count, name), |file, rank| {
                let found = Error::new(ErrorClass::Count, format!("{name}: wrong"));
                call(file, if rank == wrong { Err(found) } else { Ok(()) })
            });
        }
    }
}

/// A name that one rank does not have.
#[test]
fn an_open_without_a_name_on_one_rank_fails_on_all() {
    let watchdog = Watchdog::new("open without a name");
    for wrong in 0..3 {
        watchdog.step(format!("rank {wrong}"));
        let memory = Memory::new();
        let errors = Threads::new(3).run(|comm| {
            let found = Error::new(ErrorClass::Arg, "no name");
            let path = std::path::Path::new("f");
            let path = if comm.rank() == wrong { Err(found) } else { Ok(path) };
            let options = both(options(&memory)).create(true);
            options.try_open(&*comm, path).err().expect("refused")
        });
        for error in errors {
            assert_eq!((error.class(), error.rank()), (ErrorClass::Arg, Some(wrong)), "{error}");
        }
        assert_eq!(memory.contents("f"), None, "nothing was created");
    }
}

/// MPI lets ranks give hints or not, each for itself: rank 0's count.
#[test]
fn hints_of_some_ranks_only_are_taken_with_a_view() {
    let watchdog = Watchdog::new("hints of some ranks");
    for givers in 0..8u32 {
        watchdog.step(format!("{givers:#b}"));
        let memory = store();
        Threads::new(3).run(|comm| {
            let file = both(options(&memory)).open(&*comm, "f").expect("opens");
            let gives = givers >> comm.rank() & 1 != 0;
            let hints = match gives {
                true => HintSet::new().with("cb_buffer_size", "8192"),
                false => HintSet::new(),
            };
            file.try_set_view_with(Ok(&View::bytes()), &hints, 0).expect("a view");
            let of_rank_0 = givers & 1 != 0;
            assert_eq!(file.hints().value("cb_buffer_size") == Some("8192"), of_rank_0);
            file.read_all(0, &mut [0u8; 10]).expect("the ranks are in step");
            file.close().expect("closes");
        });
    }
    refuse(2, both, (ErrorClass::NotSame, "representation"), |file, rank| {
        file.try_set_view_with(Ok(&View::bytes()), &HintSet::new(), u64::from(rank))
    });
}

#[test]
fn a_datatype_outside_the_slice_is_refused_before_the_call() {
    let ints = Datatype::vector(3, 1, 2, &Datatype::of::<i32>()).expect("a datatype");
    let class = |error: Error| error.class();
    assert_eq!(
        Source::typed(&[0u8; 19], 0, 1, &ints).map_err(class).err(),
        Some(ErrorClass::Count)
    );
    assert_eq!(
        Target::typed(&mut [0u8; 20], 1, 1, &ints).map_err(class).err(),
        Some(ErrorClass::Count)
    );
    for count in [u64::MAX, u64::MAX / 20, 1 << 62] {
        let error = Source::typed(&[0u8; 20], 0, count, &ints).map_err(class).err();
        assert!(matches!(error, Some(ErrorClass::Type | ErrorClass::Count)), "{error:?}");
    }
    let error = Source::typed(&[0u8; 20], usize::MAX, 1, &ints).map_err(class).err();
    assert_eq!(error, Some(ErrorClass::Count));
}

#[test]
fn seeking_out_of_the_file_is_refused() {
    for to in [
        SeekFrom::Current(-6),
        SeekFrom::End(-101),
        SeekFrom::Current(i64::MIN),
        SeekFrom::End(i64::MIN),
    ] {
        refuse(1, both, (ErrorClass::Arg, "before the start"), |file, _| file.seek(to).map(drop));
    }
    refuse(2, both, (ErrorClass::Arg, "before the start"), |file, _| {
        file.seek_shared(SeekFrom::Current(-10)).map(drop)
    });
    refuse(2, both, (ErrorClass::Arg, "before the start"), |file, rank| {
        let distance = if rank == 1 { -101 } else { -100 };
        file.seek_shared(SeekFrom::End(distance)).map(drop)
    });
}

#[test]
fn a_second_split_collective_is_refused() {
    let memory = store();
    Threads::new(2).run(|comm| {
        let file = both(options(&memory)).open(&*comm, "f").expect("opens");
        let first = file.write_all_begin(0, vec![7u8; 10]).expect("begins");
        for _ in 0..2 {
            let error = file.write_all_begin(0, vec![1u8; 10]).err().expect("refused");
            assert_error(&error, ErrorClass::RequestActive, "end it");
            let error = file.read_all_begin(0, vec![1u8; 10]).err().expect("refused");
            assert_error(&error, ErrorClass::RequestActive, "end it");
        }
        first.end().0.expect("writes");
        let second = file.read_all_begin(0, vec![1u8; 10]).expect("begins after the end");
        assert_eq!(second.end().1, [7; 10]);
        file.close().expect("closes");
    });
    assert_eq!(memory.contents("f").expect("there"), OLD);
}

/// The rank whose split collective is active announces the error; the others do not wait for it.
#[test]
fn a_second_split_collective_of_one_rank_is_refused_on_all() {
    let watchdog = Watchdog::new("a second split collective of one rank");
    for wrong in 0..2 {
        watchdog.step(format!("rank {wrong}"));
        let memory = store();
        Threads::new(2).run(|comm| {
            let file = both(options(&memory)).open(&*comm, "f").expect("opens");
            let first = file.write_all_begin(0, vec![7u8; 10]).expect("begins");
            let first = match comm.rank() == wrong {
                true => Some(first),
                false => {
                    first.end().0.expect("writes");
                    None
                }
            };
            let error = match file.write_all_begin(0, vec![1u8; 10]) {
                Ok(second) => second.end().0.expect_err("the other rank is wrong"),
                Err(error) => error,
            };
            assert_error(&error, ErrorClass::RequestActive, "end it");
            first.into_iter().for_each(|first| assert!(first.end().0.is_ok()));
            file.read_all(0, &mut [0u8; 10]).expect("the ranks are in step");
            file.close().expect("closes");
        });
        assert_eq!(memory.contents("f").expect("there"), OLD);
    }
}

#[test]
fn a_plan_with_another_length_or_direction_is_refused() {
    refuse(1, both, (ErrorClass::Arg, "plan for write_all of 8 bytes"), |file, _| {
        let plan = file.plan_write_all(0, 8, &byte())?;
        file.write_planned(&plan, &[1u8; 7]).map(drop)
    });
    refuse(1, both, (ErrorClass::Arg, "plan for write_all of 8 bytes"), |file, _| {
        let plan = file.plan_write_all(0, 8, &byte())?;
        file.read_planned(&plan, &mut [1u8; 8]).map(drop)
    });
}

/// Ranks that run a plan do not ask each other first. So others may have written when a rank's
/// buffer is refused; but all learn of it, nobody waits, and the counts are true.
#[test]
fn a_buffer_that_does_not_fit_its_plan_is_told_to_all_ranks() {
    let watchdog = Watchdog::new("plans that do not fit");
    for threads in [Threads::new(3), Threads::new(3).share_memory(false)] {
        for strategy in pario::Strategy::all() {
            watchdog.step(format!("{threads:?} {strategy}"));
            let memory = store();
            let moved = threads.run(|comm| {
                let options = both(options(&memory)).hint("pario_strategy", strategy.name());
                let file = options.hint("cb_nodes", "2").open(&*comm, "f").expect("opens");
                let position = u64::from(comm.rank()) * 8;
                let write = file.plan_write_all(position, 8, &byte()).expect("a plan");
                let read = file.plan_read_all(position, 8, &byte()).expect("a plan");
                let wrong = comm.rank() == 1;
                let data = vec![1u8; if wrong { 7 } else { 8 }];
                let error = file.write_planned(&write, &data).expect_err("rank 1 is wrong");
                assert_error(&error, ErrorClass::Arg, "plan for write_all of 8 bytes");
                assert_eq!(error.rank(), Some(1));
                let mut target = vec![0u8; if wrong { 9 } else { 8 }];
                let refused = file.read_planned(&read, &mut target).expect_err("rank 1 is wrong");
                assert_error(&refused, ErrorClass::Arg, "plan for read_all of 8 bytes");
                assert!(!wrong || target == [0; 9], "the wrong buffer is not touched");
                file.close().expect("closes");
                error.moved()
            });
            let contents = memory.contents("f").expect("there");
            assert_eq!(contents.len(), 100);
            for (rank, moved) in moved.into_iter().enumerate() {
                let own = &contents[rank * 8..rank * 8 + 8];
                let arrived = own.iter().filter(|&&byte| byte == 1).count();
                assert_eq!(usize::try_from(moved), Ok(arrived), "{strategy} rank {rank}");
            }
            assert_eq!(contents[8..16], [7; 8], "nothing of the refused buffer is written");
            assert_eq!(contents[24..], OLD[24..]);
        }
    }
}

#[test]
fn a_missing_file_is_not_deleted() {
    let error = File::delete("memory:bad_input/missing").expect_err("missing");
    assert_eq!(error.class(), ErrorClass::NoSuchFile);
    assert!(error.to_string().contains("bad_input/missing"), "{error}");
    let solo = Solo::new();
    let opened = File::options().read(true).open(&*solo, "memory:bad_input/missing");
    assert_eq!(opened.err().map(|error| error.class()), Some(ErrorClass::NoSuchFile));
    assert_eq!(index(solo.rank()), 0);
}
