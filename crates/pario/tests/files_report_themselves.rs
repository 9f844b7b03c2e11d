//! A file reports what no caller can set: whether writes are visible at once, the file system, the
//! aggregators. HDF5 acts on the first.

#![allow(clippy::unwrap_used)]

use pario::{File, HintOrigin, HintSet, Threads};
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
