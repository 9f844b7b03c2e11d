//! A file that is dropped without a close says so, on rank 0; a closed one and a panic do not.

#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use pario::{File, Solo, Threads};

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collector;

impl log::Log for Collector {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LOGGED.lock().unwrap().push(format!("{} {}", record.level(), record.args()));
    }

    fn flush(&self) {}
}

/// The lines about one file.
fn said_of(name: &str) -> Vec<String> {
    let logged = LOGGED.lock().unwrap();
    logged.iter().filter(|line| line.contains(name)).cloned().collect()
}

/// What is logged is the process's, so this is one test.
#[test]
fn only_files_that_nobody_closes_are_logged() {
    log::set_logger(&Collector).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let options = File::options().read(true).write(true).create(true);

    Threads::new(3).run(|comm| drop(options.open(&*comm, "memory:lost").unwrap()));
    let text = "dropped without close; call close on all ranks to learn of late errors";
    assert_eq!(said_of("lost"), [format!("WARN lost: {text}")]);

    Threads::new(3).run(|comm| options.open(&*comm, "memory:shut").unwrap().close().unwrap());
    Threads::new(3).run(|comm| {
        // A handle outlives its file.
        let handle = options.open(&*comm, "memory:shut").unwrap().handle().clone();
        pario::comm::block_on(&*comm, handle.close()).unwrap();
    });
    assert_eq!(said_of("shut"), <[String; 0]>::default());

    // A call in the background still uses the file, which is dropped with the last of them.
    let comm = Solo::new();
    let file = options.open(&*comm, "memory:behind").unwrap();
    let pending = file.iwrite(0, vec![1u8; 9]);
    drop(file);
    assert_eq!(said_of("behind"), <[String; 0]>::default());
    pending.wait().0.unwrap();

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let comm = Solo::new();
        let _file = options.open(&*comm, "memory:panicked").unwrap();
        panic!("with an open file");
    }));
    assert!(panicked.is_err());
    assert_eq!(said_of("panicked"), <[String; 0]>::default());
}
