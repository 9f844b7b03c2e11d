//! Hints that are in effect already change nothing: they are not resolved again, and neither the
//! report nor the memory of a file grows with the number of calls.
//!
//! HDF5 passes the info of `MPI_File_get_info` to `MPI_File_set_view` before and after every typed
//! transfer.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pario::storage::Memory;
use pario::{Communicator, File, HintReport, HintSet, Solo, Threads, View};
use pario_testkit::allocation::Counting;

#[global_allocator]
static COUNTING: Counting = Counting::new();

const CALLS: usize = 5000;
/// What a file may keep of all these calls: a report and the keys that were given.
const KEPT_BYTES: usize = 64 << 10;

fn open(comm: &dyn Communicator, memory: &Memory) -> File {
    let options = File::options().driver(Arc::new(memory.clone())).hint("cb_nodes", "1");
    options.read(true).write(true).create(true).open(comm, "f").unwrap()
}

/// The hints that `MPI_File_get_info` gives.
fn in_effect(file: &File) -> HintSet {
    file.info().iter().map(|hint| (hint.name, hint.value.clone())).collect()
}

/// How often hints were resolved: each time makes another report.
struct Resolved {
    last: Arc<HintReport>,
    times: usize,
}

impl Resolved {
    fn since(file: &File) -> Resolved {
        Resolved { last: file.hints(), times: 0 }
    }

    fn look(&mut self, file: &File) {
        let now = file.hints();
        if !Arc::ptr_eq(&now, &self.last) {
            (self.last, self.times) = (now, self.times + 1);
        }
    }
}

/// Makes the calls with one rank; gives the number of times that hints were resolved.
fn repeat(file: &File, mut call: impl FnMut(&File, usize)) -> usize {
    let lines = file.hints().to_string().lines().count();
    let mut resolved = Resolved::since(file);
    COUNTING.reset();
    for index in 0..CALLS {
        call(file, index);
        resolved.look(file);
        let (peak, now) = (COUNTING.peak_bytes(), file.hints().to_string().lines().count());
        assert!(peak <= KEPT_BYTES, "{peak} bytes after call {index}");
        assert!(now <= lines + 150, "{now} lines of the report after call {index}, {lines} before");
    }
    resolved.times
}

/// One test, since the counters belong to the whole process.
#[test]
fn repeated_hints_take_no_time_and_no_memory() {
    let solo = Solo::new();
    let file = open(&*solo, &Memory::new());
    let again = in_effect(&file);
    assert_eq!(repeat(&file, |file, _| file.set_hints(&in_effect(file)).unwrap()), 0);
    let with_view = |file: &File, _| {
        file.try_set_view_with(Ok(&View::bytes()), &in_effect(file), 0).unwrap();
    };
    assert_eq!(repeat(&file, with_view), 0);
    // What is reported of the last call changes with every other call. The memory of the file is
    // not counted.
    file.write_all(0, &[1u8; 64]).unwrap();
    let around_a_call = |file: &File, index: usize| {
        let before = in_effect(file);
        match index.is_multiple_of(2) {
            true => file.write_all(0, &[1u8; 64]).unwrap(),
            false => file.write(0, &[1u8; 64]).unwrap(),
        };
        file.set_hints(&before).unwrap();
        with_view(file, index);
    };
    assert_eq!(repeat(&file, around_a_call), 0);
    assert_eq!(file.hints().ignored, []);

    // Values that are not written as the report writes them, have no effect, or stand for several.
    let given = HintSet::new().with("cb_buffer_size", "64K").with("nobody_knows", "1");
    let given = given.with("cb_nodes", "none").with("collective_buffering", "true");
    assert_eq!(repeat(&file, |file, _| file.set_hints(&given).unwrap()), 1);
    let ignored: Vec<String> = file.hints().ignored.iter().map(|hint| hint.name.clone()).collect();
    assert_eq!(ignored, ["nobody_knows", "cb_nodes"]);

    assert_eq!(file.hints().value("cb_nodes"), Some("1"), "an unusable value replaces none");

    // Values that do change replace each other.
    let values = ["65536", "131072"];
    let turn = |index: usize| HintSet::new().with("cb_buffer_size", values[index % 2]);
    let changed = repeat(&file, |file, index| {
        file.set_hints(&turn(index + 1)).unwrap();
        assert_eq!(file.hints().value("cb_buffer_size"), Some(values[(index + 1) % 2]));
    });
    assert_eq!(changed, CALLS);

    // A new name with every call.
    let made = repeat(&file, |file, index| {
        file.set_hints(&HintSet::new().with(format!("name_{index}"), "1")).unwrap();
    });
    assert_eq!(made, CALLS);
    let last = format!("name_{}", CALLS - 1);
    assert!(file.hints().ignored.iter().any(|hint| hint.name == last), "{}", file.hints());
    file.set_hints(&again).unwrap();
    file.close().unwrap();
    hints_of_some_ranks_only();
}

/// Ranks with hints and ranks without take the same steps; rank 0's hints count.
fn hints_of_some_ranks_only() {
    for whose in 0..3 {
        let memory = Memory::new();
        Threads::new(3).run(|comm| {
            let file = open(&*comm, &memory);
            let mine = comm.rank() == whose;
            let mut given = HintSet::new();
            for value in ["4096", "4096", "8192"] {
                if mine {
                    given = HintSet::new().with("cb_buffer_size", value);
                }
                file.try_set_view_with(Ok(&View::bytes()), &given, 0).unwrap();
                file.set_hints(&given).unwrap();
                file.write_all(u64::from(comm.rank()), &[1u8]).unwrap();
                let expected = if whose == 0 { value } else { "16777216" };
                assert_eq!(file.hints().value("cb_buffer_size"), Some(expected));
            }
            // A view that is refused changes no hint.
            let refused = pario::Error::new(pario::ErrorClass::Type, "no view");
            let hints = HintSet::new().with("cb_buffer_size", "64");
            file.try_set_view_with(Err(refused), &hints, 0).unwrap_err();
            assert_ne!(file.hints().value("cb_buffer_size"), Some("64"));
            file.close().unwrap();
        });
    }
}
