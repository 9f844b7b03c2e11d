//! A gate for writes: open while nobody rewrites bytes of others.
//!
//! A rank that sieves, or fills holes, reads bytes of others and writes them back; whoever writes
//! such a byte meanwhile would lose it. Range locks keep them apart, but cost a plain write two
//! system calls, and almost always nobody rewrites. So a plain write passes the gate with two
//! atomic operations; a rewriter closes the gate, waits for the writes that are on their way, and
//! from then on everybody locks until the gate opens again.
//!
//! The order of all of it is that of sequential consistency: a writer announces itself and then
//! looks whether the gate is closed, a rewriter closes it and then looks for writers. One of them
//! sees the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Communicator, pause};

/// A number in shared memory, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct GateLine(AtomicU64);

impl GateLine {
    /// The lines of a gate: first the number of rewriters, then each rank's writes on their way.
    pub fn lines(ranks: u32) -> Vec<GateLine> {
        (0..=ranks).map(|_| GateLine::default()).collect()
    }
}

/// Looks at the gate before a rewriter sleeps between them.
const EAGER_LOOKS: u32 = 100;
const LOOK_PAUSE: Duration = Duration::from_micros(50);

/// The gate of a file that several ranks opened.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a> {
    rewriters: &'a AtomicU64,
    writers: &'a [GateLine],
    own: &'a AtomicU64,
}

impl<'a> Gate<'a> {
    /// The gate of a communicator, if its ranks share memory for one.
    pub(crate) fn of(communicator: &'a dyn Communicator) -> Option<Gate<'a>> {
        let (rewriters, writers) = communicator.gate()?.split_first()?;
        let own = writers.get(usize::try_from(communicator.rank()).ok()?)?;
        Some(Gate { rewriters: &rewriters.0, writers, own: &own.0 })
    }

    /// Lets a write pass until the pass is dropped; `None` while somebody rewrites.
    pub(crate) fn pass(self) -> Option<Pass<'a>> {
        self.own.fetch_add(1, Ordering::SeqCst);
        let pass = Pass { counted: self.own };
        match self.rewriters.load(Ordering::SeqCst) {
            0 => Some(pass),
            _ => None,
        }
    }

    /// Closes the gate until the pass is dropped, and waits for the writes that have passed it.
    pub(crate) async fn close(self) -> Pass<'a> {
        self.rewriters.fetch_add(1, Ordering::SeqCst);
        let closed = Pass { counted: self.rewriters };
        let mut looks = 0;
        while self.writers.iter().any(|writer| writer.0.load(Ordering::SeqCst) > 0) {
            looks += 1;
            if looks > EAGER_LOOKS {
                std::thread::sleep(LOOK_PAUSE);
            }
            pause().await;
        }
        closed
    }
}

/// One writer on its way, or one rewriter.
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

    fn gate(lines: &[GateLine], rank: usize) -> Gate<'_> {
        Gate { rewriters: &lines[0].0, writers: &lines[1..], own: &lines[1 + rank].0 }
    }

    #[test]
    fn a_rewriter_waits_for_writers_and_keeps_new_ones_out() {
        let lines = GateLine::lines(2);
        let (one, two) = (gate(&lines, 0), gate(&lines, 1));
        let pass = one.pass();
        assert!(pass.is_some());
        let mut context = Context::from_waker(Waker::noop());
        let mut close = pin!(two.close());
        assert!(close.as_mut().poll(&mut context).is_pending());
        assert!(one.pass().is_none(), "the gate is closed");
        drop(pass);
        let std::task::Poll::Ready(closed) = close.as_mut().poll(&mut context) else {
            panic!("nobody writes any more")
        };
        assert!(one.pass().is_none(), "the gate is still closed");
        drop(closed);
        assert!(one.pass().is_some(), "the gate is open again");
    }
}
