//! The gate between plain writes and rewriters (`exchange/gate.rs`).

use loom::sync::{Arc, Mutex};
use loom::thread;

/// What the gate takes for the atomic numbers of the system.
mod sync {
    pub(super) use crate::every_order::Ordering;
    use crate::every_order::fence;

    /// A number whose sequentially consistent operations are that: a fence is before each.
    pub(super) struct AtomicU64(crate::every_order::AtomicU64);

    fn order(ordering: Ordering) -> Ordering {
        if ordering == Ordering::SeqCst {
            fence(Ordering::SeqCst);
        }
        ordering
    }

    impl AtomicU64 {
        pub(super) fn new(value: u64) -> AtomicU64 {
            AtomicU64(crate::every_order::AtomicU64::new(value))
        }

        pub(super) fn load(&self, ordering: Ordering) -> u64 {
            self.0.load(order(ordering))
        }

        pub(super) fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
            self.0.fetch_add(value, order(ordering))
        }

        pub(super) fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
            self.0.fetch_sub(value, order(ordering))
        }
    }
}

/// Where the gate's numbers are.
mod schedule {
    pub(super) use crate::schedule::{GATE, HEAD, RANK, WRITES, wide_index};
}

#[path = "../../pario/src/exchange/gate.rs"]
#[allow(dead_code, unreachable_pub)]
mod passes;

use passes::Gate;
use schedule::{HEAD, RANK};
use sync::{AtomicU64, Ordering};

use crate::every_order::AtomicU32;

/// What a rank does to the file.
#[derive(Clone, Copy)]
enum Act {
    /// It writes its own byte.
    Write,
    /// It reads all bytes, and writes them back with its own changed.
    Rewrite,
    /// The same if it needs not wait for writes: then there are far fewer orders.
    TryRewrite,
}

/// A file with a byte of each rank, and what the ranks share.
struct File {
    numbers: Vec<AtomicU64>,
    /// A range lock on all of it.
    lock: Mutex<()>,
    bytes: Vec<AtomicU32>,
}

impl File {
    fn new(ranks: u32) -> File {
        let count = HEAD + ranks as usize * RANK;
        File {
            numbers: (0..count).map(|_| AtomicU64::new(0)).collect(),
            lock: Mutex::new(()),
            bytes: (0..ranks).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Does what is said; how often it wrote its own byte.
    fn run(&self, rank: usize, acts: &[Act]) -> usize {
        let gate = Gate::new(&self.numbers, rank as u32, self.bytes.len() as u32);
        acts.iter().filter(|act| self.act(gate, rank, **act)).count()
    }

    fn act(&self, gate: Gate<'_>, rank: usize, act: Act) -> bool {
        if let Act::Write = act {
            let pass = gate.pass();
            let _lock = pass.is_none().then(|| self.lock.lock().unwrap());
            let old = self.bytes[rank].load(Ordering::Relaxed);
            self.bytes[rank].store(old + 1, Ordering::Relaxed);
            return true;
        }
        let _closed = gate.close();
        while !gate.writers().is_empty() {
            if let Act::TryRewrite = act {
                return false;
            }
            thread::yield_now();
        }
        let _lock = self.lock.lock().unwrap();
        let old: Vec<u32> = self.bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        for (index, (byte, old)) in self.bytes.iter().zip(old).enumerate() {
            byte.store(old + u32::from(index == rank), Ordering::Relaxed);
        }
        true
    }
}

/// Each rank does what is said, one thing after another. No write is lost.
fn check<const RANKS: usize>(preemptions_max: usize, acts: [&'static [Act]; RANKS]) {
    crate::check(preemptions_max, move || {
        let file = Arc::new(File::new(RANKS as u32));
        let others: Vec<_> = (1..RANKS)
            .map(|rank| {
                let file = file.clone();
                thread::spawn(move || file.run(rank, acts[rank]))
            })
            .collect();
        let mut counts = vec![file.run(0, acts[0])];
        counts.extend(others.into_iter().map(|thread| thread.join().unwrap()));
        for (byte, count) in file.bytes.iter().zip(counts) {
            assert_eq!(byte.load(Ordering::Relaxed) as usize, count, "a write is lost");
        }
    });
}

#[test]
fn a_plain_write_and_a_rewriter() {
    check(3, [&[Act::Write, Act::Write], &[Act::Rewrite]]);
}

#[test]
fn a_rewriter_that_opens_the_gate_again_and_closes_it() {
    check(3, [&[Act::Write], &[Act::Rewrite, Act::Rewrite]]);
}

#[test]
fn two_rewriters_and_a_plain_write() {
    check(2, [&[Act::Write], &[Act::TryRewrite], &[Act::TryRewrite]]);
}
