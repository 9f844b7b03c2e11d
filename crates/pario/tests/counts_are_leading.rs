//! A count names bytes from the start of a request: all of them are right, whatever came after.
//!
//! The file is shorter for the time of one storage call, as if somebody had cut it and written it
//! again; each call of a read in turn. So there are windows in the middle that were not read, and
//! whole ones after them.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario::storage::{Memory, Operation};
use pario::{Datatype, File, Representation, Threads, View};
use pario_testkit::device::Hooked;
use pario_testkit::watchdog::Watchdog;

const RANKS: u32 = 4;
const PIECE: u64 = 16;
const REQUEST: u64 = 384;
/// Where the file ends while it is short.
const CUT: usize = 500;

fn size(len: u64) -> usize {
    usize::try_from(len).unwrap()
}

/// The byte at an offset; never zero.
fn byte(offset: u64) -> u8 {
    u8::try_from(offset % 251 + 1).unwrap()
}

fn offset(rank: u32, position: u64) -> u64 {
    let piece = position / PIECE * u64::from(RANKS) + u64::from(rank);
    piece * PIECE + position % PIECE
}

/// A file that is cut while its nth read goes on.
fn driver(nth: u64) -> (Hooked, Arc<AtomicU64>) {
    let whole: Vec<u8> = (0..REQUEST * u64::from(RANKS)).map(byte).collect();
    let memory = Memory::new();
    memory.put("f", &whole);
    let reads = Arc::new(AtomicU64::new(0));
    let (store, counted) = (memory.clone(), reads.clone());
    let hook = move |operation: Operation| {
        if operation.reads() {
            match counted.fetch_add(1, Ordering::SeqCst) + 1 {
                number if number == nth => store.put("f", &whole[..CUT]),
                number if number == nth + 1 => store.put("f", &whole),
                _ => {}
            }
        }
        Ok(())
    };
    (Hooked::new(memory, hook), reads)
}

#[derive(Clone, Copy, Debug)]
struct Case {
    strategy: &'static str,
    aggregators: &'static str,
    representation: Representation,
    collective: bool,
}

/// Reads while the nth call finds the file short; each rank's count. Says whether there was such a
/// call.
fn check(threads: &Threads, case: Case, nth: u64) -> bool {
    let (driver, reads) = driver(nth);
    let counts = threads.run(|comm| {
        let file = File::options()
            .read(true)
            .hint("pario_strategy", case.strategy)
            .hint("cb_nodes", case.aggregators)
            .hint("pario_phases", "1")
            .hint("cb_buffer_size", "128")
            .hint("striping_unit", "64")
            .hint("romio_ds_read", "enable")
            .hint("ind_rd_buffer_size", "128")
            .driver(Arc::new(driver.clone()))
            .open(&*comm, "f")
            .expect("opens");
        let byte_type = Datatype::byte();
        let piece = Datatype::contiguous(PIECE, &byte_type).unwrap();
        let extent = i64::try_from(PIECE * u64::from(RANKS)).unwrap();
        let filetype = Datatype::resized(0, extent, &piece).unwrap();
        let view = View::new(u64::from(comm.rank()) * PIECE, &byte_type, &filetype);
        file.set_view(&view.with_representation(case.representation)).expect("a view");
        let mut buffer = vec![0u8; size(REQUEST)];
        let status = match case.collective {
            true => file.read_all(0, &mut buffer),
            false => file.read(0, &mut buffer),
        };
        let count = status.expect("the end of a file is no error").bytes;
        for (position, &found) in (0..count).zip(&buffer) {
            let expected = byte(offset(comm.rank(), position));
            assert_eq!(found, expected, "{threads:?} {case:?}: {position} of {count} is wrong");
        }
        file.close().expect("closes");
        count
    });
    let happened = reads.load(Ordering::SeqCst) >= nth;
    assert!(happened || counts.iter().all(|count| *count == REQUEST), "{threads:?} {case:?}");
    happened
}

#[test]
fn what_a_count_names_was_read() {
    let watchdog = Watchdog::new("counts_are_leading");
    let threads = Threads::new(RANKS);
    let (apart, processes) = (threads.clone().share_memory(false), threads.clone());
    let common = threads.clone().shared_bytes(384);
    let strategies = ["direct", "list", "sieve", "two-phase", "gather", "multi-phase"];
    for threads in [threads.clone(), apart, processes, common, threads.nodes(2)] {
        for strategy in strategies.into_iter().chain(["inspector-executor", "auto"]) {
            for representation in [Representation::Native, Representation::External32] {
                for (aggregators, collective) in [("2", true), ("4", true), ("2", false)] {
                    let case = Case { strategy, aggregators, representation, collective };
                    watchdog.step(format!("{threads:?} {case:?}"));
                    let happened = (1..).take_while(|&nth| check(&threads, case, nth)).count();
                    assert!(happened > 0, "{threads:?} {case:?}: nothing was read");
                }
            }
        }
    }
}
