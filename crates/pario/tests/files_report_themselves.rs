//! A file reports what no caller can set: whether writes are visible at once, the file system, the
//! aggregators, and how its last calls were served. HDF5 acts on the first.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pario::{Datatype, File, HintOrigin, HintSet, Strategy, Threads, View};
use pario_testkit::scratch::Scratch;

fn value(file: &File, name: &str) -> Option<String> {
    let report = file.hints();
    let hint = report.effective.iter().find(|hint| hint.name == name)?;
    assert_eq!(hint.origin, HintOrigin::File);
    Some(hint.value.clone())
}

#[test]
fn a_file_reports_its_visibility_its_file_system_and_its_aggregators() {
    let scratch = Scratch::new();
    let path = scratch.path("f");
    for (threads, visible) in [(Threads::new(4), true), (Threads::new(4).nodes(2), false)] {
        threads.run(|comm| {
            let options = File::options().read(true).write(true).create(true).hint("cb_nodes", "2");
            let file = options.open(&*comm, &path).unwrap();
            let immediate = value(&file, "romio_visibility_immediate");
            // A local file system on two nodes: nobody knows, and nothing is said.
            assert_eq!(immediate.as_deref(), visible.then_some("true"));
            assert!(value(&file, "romio_filesystem_type").unwrap().contains(": pario"));
            let two = if visible { "0 1" } else { "0 2" };
            assert_eq!(value(&file, "romio_aggregator_list").as_deref(), Some(two));
            // They follow the hints, and given back they are neither hints nor ignored.
            let all: HintSet =
                file.hints().effective.iter().map(|hint| (hint.name, hint.value.clone())).collect();
            file.set_hints(&all.with("pario_strategy", "gather")).unwrap();
            assert_eq!(value(&file, "romio_aggregator_list").as_deref(), Some("0"));
            assert_eq!(file.hints().ignored, []);
            file.close().unwrap();
        });
    }
}

/// What a file reports of its last calls, by key.
fn served(file: &File) -> Vec<(String, String)> {
    let info = file.info();
    let is_served = |name: &str| name.contains("_read_") || name.contains("_write_");
    let keys = info.iter().filter(|key| key.name.starts_with("pario_") && is_served(key.name));
    keys.map(|key| (key.name.to_owned(), key.value.clone())).collect()
}

/// Pieces of 64 bytes of the ranks in turn.
fn turns(file: &File, rank: u32, ranks: i64) {
    let byte = Datatype::byte();
    let block = Datatype::contiguous(64, &byte).unwrap();
    let turn = Datatype::resized(0, ranks * 64, &block).unwrap();
    file.set_view(&View::new(u64::from(rank) * 64, &byte, &turn)).unwrap();
}

#[test]
fn a_file_reports_how_its_last_calls_were_served() {
    let all = Threads::new(4).run(|comm| {
        let options = File::options().read(true).write(true).create(true);
        let file = options.hint("romio_cb_write", "enable").open(&*comm, "memory:served").unwrap();
        assert_eq!(served(&file), [], "nothing was called");
        turns(&file, comm.rank(), 4);
        file.write_all(0, &vec![7u8; 64 * 512]).unwrap();
        let call = file.last_call();
        let write = served(&file);
        let values: Vec<&str> = write.iter().map(|(_, value)| value.as_str()).collect();
        let us = format!("{:.1}", call.predicted.as_secs_f64() * 1e6);
        assert_eq!(values, ["two-phase", "collective buffering is switched on", &us]);
        assert_eq!(write[0].0, "pario_write_strategy");
        // Calls of one rank alone change nothing of that: ranks would differ.
        if comm.rank() == 2 {
            file.write(0, &[1u8; 128]).unwrap();
            file.read(0, &mut [1u8; 128]).unwrap();
        }
        file.read_all(0, &mut vec![0u8; 64 * 512]).unwrap();
        let both = served(&file);
        assert_eq!(both.len(), 6);
        assert_eq!(both[3..], write);
        assert!(both.iter().all(|(name, value)| name.len() < 32 && value.len() < 255));
        file.close().unwrap();
        both
    });
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
}

#[test]
fn without_collectives_the_last_call_of_a_rank_is_reported() {
    let options = File::options().read(true).write(true).create(true);
    let file = options.open(&*pario::Solo::new(), "memory:alone").unwrap();
    file.write(0, &[1u8; 16]).unwrap();
    let keys = served(&file);
    assert_eq!(keys[0], ("pario_write_strategy".to_owned(), Strategy::Direct.to_string()));
    assert_eq!(keys[1].1, "one run of bytes");
    file.close().unwrap();
}

/// HDF5 gives the info of a file back to it around every transfer, and to other files.
#[test]
fn what_is_reported_of_calls_is_neither_a_hint_nor_ignored() {
    Threads::new(2).run(|comm| {
        let options = || File::options().read(true).write(true).create(true);
        let file = options().open(&*comm, "memory:back").unwrap();
        turns(&file, comm.rank(), 2);
        let report = file.hints();
        let info =
            |file: &File| file.info().iter().map(|key| (key.name, key.value.clone())).collect();
        for strategy in ["two-phase", "list"] {
            file.write_all(0, &vec![7u8; 64 * 512]).unwrap();
            let earlier: HintSet = info(&file);
            file.read_all(0, &mut vec![0u8; 64 * 512]).unwrap();
            // Values of now, values of before, and values that no call ever had.
            let strange = HintSet::new().with("pario_write_strategy", strategy);
            for given in [info(&file), earlier, strange] {
                file.set_hints(&given).unwrap();
                file.try_set_view_with(Ok(&file.view()), &given, 0).unwrap();
                assert!(Arc::ptr_eq(&file.hints(), &report), "nothing is resolved again");
            }
        }
        // Beside a hint that does change something, they are not reported either.
        let changed: HintSet = info(&file);
        file.set_hints(&changed.with("cb_nodes", "1")).unwrap();
        assert_eq!(file.hints().ignored, []);
        assert_eq!(file.hints().value("cb_nodes"), Some("1"));
        let given: HintSet = info(&file);
        let other = given.iter().fold(options(), |options, (key, value)| options.hint(key, value));
        let other = other.open(&*comm, "memory:other").unwrap();
        let ignored = other.hints().ignored.clone();
        assert!(ignored.iter().all(|hint| hint.name.starts_with("romio_")), "{ignored:?}");
        assert_eq!(served(&other), []);
        other.close().unwrap();
        file.close().unwrap();
    });
}
