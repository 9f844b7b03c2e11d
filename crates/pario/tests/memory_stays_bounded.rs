//! Promise 4: memory beyond the user's buffers is bounded by the hints, whatever the request.
//!
//! The bound, as ARCHITECTURE.md documents it, for ranks that are threads of one process:
//! three collective buffers and an eighth for each aggregator (its window, two rounds of messages
//! on their way to it, the bitmap of a window with overlaps), one sieving buffer for each rank
//! that serves itself, and a fixed part for each rank.

#![allow(clippy::unwrap_used)]

use pario::{Datatype, File, Threads, View};
use pario_testkit::allocation::Counting;
use pario_testkit::void::Void;
use std::sync::{Arc, Barrier};

#[global_allocator]
static COUNTING: Counting = Counting::new();

const RANKS: u32 = 4;
const TOTAL: u64 = 1 << 30;
const BUFFER: u64 = 1 << 20;
/// What each rank may need besides buffers: its thread, its mailboxes, lists of runs.
const FIXED_PER_RANK: u64 = 256 << 10;

fn bound(strategy: &str, aggregators: u64) -> usize {
    let buffers = match strategy {
        "two-phase" | "gather" => aggregators * (3 * BUFFER + BUFFER / 8),
        // Every rank has a window, what it passes on, and messages on their way.
        "multi-phase" | "inspector-executor" => u64::from(RANKS) * (3 * BUFFER + BUFFER / 8),
        _ => u64::from(RANKS) * BUFFER,
    };
    usize::try_from(buffers + u64::from(RANKS) * FIXED_PER_RANK).unwrap()
}

/// Writes and reads 1 GiB through an interleaved view; returns the peaks of both calls.
fn peaks(strategy: &str, aggregators: u64, threads: &Threads) -> (usize, usize) {
    let void = Void::new(TOTAL);
    let moments = Barrier::new(4);
    let each = usize::try_from(TOTAL / u64::from(RANKS)).unwrap();
    let peaks = threads.run(|comm| {
        let file = File::options()
            .read(true)
            .write(true)
            .driver(Arc::new(void.clone()))
            .hint("pario_strategy", strategy)
            .hint("cb_buffer_size", BUFFER.to_string())
            .hint("cb_nodes", aggregators.to_string())
            .hint("ind_rd_buffer_size", BUFFER.to_string())
            .hint("ind_wr_buffer_size", BUFFER.to_string())
            .open(&*comm, "void")
            .unwrap();
        let block = Datatype::contiguous(1024, &Datatype::byte()).unwrap();
        let turn = Datatype::resized(0, 1024 * i64::from(RANKS), &block).unwrap();
        file.set_view(&View::new(1024 * u64::from(comm.rank()), &block, &turn)).unwrap();
        let mut data = vec![1u8; each];
        let measured = |call: &mut dyn FnMut()| {
            moments.wait();
            if comm.rank() == 0 {
                COUNTING.reset();
            }
            moments.wait();
            call();
            moments.wait();
            COUNTING.peak_bytes()
        };
        let write = measured(&mut || {
            assert_eq!(file.write_all(0, &data).unwrap().bytes, TOTAL / u64::from(RANKS));
        });
        let read = measured(&mut || {
            assert_eq!(file.read_all(0, &mut data).unwrap().bytes, TOTAL / u64::from(RANKS));
        });
        assert!(data.iter().all(|&byte| byte == 0), "the void reads as zeros");
        file.close().unwrap();
        (write, read)
    });
    assert!(void.written_bytes() >= TOTAL);
    peaks[0]
}

/// One test, since the counters belong to the whole process.
#[test]
fn a_gibibyte_needs_no_more_than_the_documented_bound() {
    let shuffled = [
        ("two-phase", 1),
        ("two-phase", 4),
        ("gather", 1),
        ("multi-phase", 4),
        ("inspector-executor", 4),
    ];
    let alone = [("direct", 1), ("list", 1), ("sieve", 1)];
    let threads = Threads::new(RANKS);
    let messages = shuffled.iter().map(|&case| (case, threads.clone().share_memory(false)));
    let small = shuffled.iter().map(|&case| (case, threads.clone().shared_bytes(2 << 20)));
    let memory = shuffled.iter().chain(&alone).map(|&case| (case, threads.clone()));
    for ((strategy, aggregators), threads) in memory.chain(messages).chain(small) {
        let bound = bound(strategy, aggregators);
        let (write, read) = peaks(strategy, aggregators, &threads);
        println!(
            "{strategy} with {aggregators} aggregators, {threads:?}: \
             write {write}, read {read} of {bound} bytes"
        );
        assert!(write <= bound, "{strategy}: a write allocated {write} of {bound} bytes");
        assert!(read <= bound, "{strategy}: a read allocated {read} of {bound} bytes");
    }
}
