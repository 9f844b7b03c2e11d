//! A shared/exclusive gate for writes: open while no rank rewrites bytes of others.
//!
//! A rank that sieves, or fills holes, reads bytes of others and writes them back (a rewriter). A
//! rank that wrote such a byte in between would lose it. Range locks keep the two apart, but cost a
//! plain write two system calls, and rewriters are rare. So a plain write passes the gate with two
//! atomic operations. A rewriter closes the gate and waits for the writes in flight; from then on
//! every writer locks, until the gate opens again.
//!
//! All operations are sequentially consistent: a writer announces itself and then looks whether the
//! gate is closed; a rewriter closes it and then looks for writers. So at least one of them sees
//! the other.

//!
//! A model checker includes this file as it is (`pario-loom`).

use super::schedule::{GATE, HEAD, RANK, WRITES, wide_index};
use super::sync::{AtomicU64, Ordering};

/// The gate of a file that several ranks opened.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a> {
    numbers: &'a [AtomicU64],
    own: u32,
    ranks: u32,
}

impl<'a> Gate<'a> {
    /// The gate of ranks that share these numbers, for one of them.
    pub(super) fn new(numbers: &'a [AtomicU64], own: u32, ranks: u32) -> Gate<'a> {
        Gate { numbers, own, ranks }
    }

    /// How many rewriters there are.
    fn rewriters(self) -> &'a AtomicU64 {
        &self.numbers[GATE]
    }

    /// How many writes of a rank are in flight.
    fn writes(self, rank: u32) -> &'a AtomicU64 {
        &self.numbers[HEAD + wide_index(rank) * RANK + WRITES]
    }

    /// Lets a write pass until the pass is dropped; `None` while a rank rewrites.
    pub(crate) fn pass(self) -> Option<Pass<'a>> {
        self.writes(self.own).fetch_add(1, Ordering::SeqCst);
        let pass = Pass { counted: self.writes(self.own) };
        match self.rewriters().load(Ordering::SeqCst) {
            0 => Some(pass),
            _ => None,
        }
    }

    /// Closes the gate until the pass is dropped. The rewriter may begin when there are no
    /// [`Gate::writers`] any more.
    pub(super) fn close(self) -> Pass<'a> {
        self.rewriters().fetch_add(1, Ordering::SeqCst);
        Pass { counted: self.rewriters() }
    }

    /// Ranks with a write in flight.
    pub(super) fn writers(self) -> Vec<u32> {
        let writes = |&rank: &u32| self.writes(rank).load(Ordering::SeqCst) > 0;
        (0..self.ranks).filter(writes).collect()
    }
}

/// One write in flight, or one rewriter.
pub(crate) struct Pass<'a> {
    counted: &'a AtomicU64,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.counted.fetch_sub(1, Ordering::SeqCst);
    }
}
