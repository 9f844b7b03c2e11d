//! A rank that waits for a lock which another program holds is released when a rank of its own job
//! is lost, and says meanwhile what it waits for.

#![allow(clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pario::storage::{Driver, LockRange, Memory, OpenMode, Operation};
use pario::{Datatype, ErrorClass, File, Threads, View};
use pario_testkit::device::Hooked;
use pario_testkit::watchdog::Watchdog;

#[test]
fn a_wait_for_a_lock_ends_with_a_lost_rank() {
    let _watchdog = Watchdog::new("a_wait_for_a_lock_ends_with_a_lost_rank");
    for share in [true, false] {
        let memory = Memory::new();
        memory.put("f", &[7; 4096]);
        let mode = OpenMode { read: true, write: true, ..OpenMode::default() };
        let other = memory.open(Path::new("f"), mode).expect("another program opens it");
        let range = LockRange { offset: 0, len: 4096, exclusive: true };
        let held = other.try_lock(range).expect("locks").expect("nobody else holds it");
        let waits = Arc::new(AtomicBool::new(false));
        let results = Threads::new(2).share_memory(share).try_run(|comm| {
            let tries = waits.clone();
            let hooked = Hooked::new(memory.clone(), move |operation| {
                tries.fetch_or(operation == Operation::Lock, Ordering::SeqCst);
                Ok(())
            });
            let options = File::options().read(true).write(true).driver(Arc::new(hooked));
            let file = options.hint("pario_strategy", "sieve").open(&*comm, "f").expect("opens");
            let byte = Datatype::byte();
            let holes = Datatype::resized(0, 16, &byte).expect("a type");
            file.set_view(&View::new(0, &byte, &holes)).expect("a view");
            if comm.rank() == 1 {
                while !waits.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                std::panic::resume_unwind(Box::new("a rank is lost as planned"));
            }
            file.write(0, &[1u8; 64])
        });
        drop(held);
        let mut results = results.into_iter();
        let (waited, lost) = (results.next().expect("rank 0"), results.next().expect("rank 1"));
        assert!(lost.is_err(), "rank 1 is lost");
        let error = waited.expect("rank 0 goes on").expect_err("its write cannot be made");
        assert_eq!(error.class(), ErrorClass::PeerLost, "{error}");
    }
}
