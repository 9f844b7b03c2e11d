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

use super::schedule::{GATE, HEAD, RANK, WRITES};
use super::sync::{AtomicU64, Ordering};
use crate::comm::{Communicator, look_until, named};
use crate::error::Result;
use crate::number::index;

/// The gate of a file that several ranks opened.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a> {
    numbers: &'a [AtomicU64],
    own: u32,
    ranks: u32,
}

impl<'a> Gate<'a> {
    /// The gate of a communicator, if its ranks share memory for one.
    pub(crate) fn of(communicator: &'a dyn Communicator) -> Option<Gate<'a>> {
        let numbers = communicator.region()?.numbers();
        Some(Gate { numbers, own: communicator.rank(), ranks: communicator.size() })
    }

    /// How many rewriters there are.
    fn rewriters(self) -> &'a AtomicU64 {
        &self.numbers[GATE]
    }

    /// How many writes of a rank are in flight.
    fn writes(self, rank: u32) -> &'a AtomicU64 {
        &self.numbers[HEAD + index(rank) * RANK + WRITES]
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

    /// Closes the gate until the pass is dropped, and waits for the writes that have passed it.
    ///
    /// # Errors
    /// `PeerLost` if a rank is lost meanwhile: its writes would never end.
    pub(crate) async fn close(self, communicator: &dyn Communicator) -> Result<Pass<'a>> {
        self.rewriters().fetch_add(1, Ordering::SeqCst);
        let closed = Pass { counted: self.rewriters() };
        let writers = || {
            let writes = |&rank: &u32| self.writes(rank).load(Ordering::SeqCst) > 0;
            (0..self.ranks).filter(writes).collect::<Vec<u32>>()
        };
        let awaited =
            || (format!("a write of {}", named(&writers())), "does storage answer there?");
        look_until(communicator, || writers().is_empty(), awaited).await?;
        Ok(closed)
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

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::comm::Solo;

    fn gate(numbers: &[AtomicU64], own: u32) -> Gate<'_> {
        Gate { numbers, own, ranks: 2 }
    }

    #[test]
    fn a_rewriter_waits_for_writers_and_keeps_new_ones_out() {
        let numbers: Vec<AtomicU64> = (0..HEAD + 2 * RANK).map(|_| AtomicU64::new(0)).collect();
        let (one, two, comm) = (gate(&numbers, 0), gate(&numbers, 1), Solo::new());
        let pass = one.pass();
        assert!(pass.is_some());
        let mut context = Context::from_waker(Waker::noop());
        let mut close = pin!(two.close(&*comm));
        assert!(close.as_mut().poll(&mut context).is_pending());
        assert!(one.pass().is_none(), "the gate is closed");
        drop(pass);
        let std::task::Poll::Ready(Ok(closed)) = close.as_mut().poll(&mut context) else {
            panic!("nobody writes any more")
        };
        assert!(one.pass().is_none(), "the gate is still closed");
        drop(closed);
        assert!(one.pass().is_some(), "the gate is open again");
    }
}
