//! A barrier of ranks, on any transport.
//!
//! The last rank that arrives does some work before all go on. A rank that panics breaks the
//! barrier, so that no rank waits for it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

pub(super) struct Barrier {
    size: usize,
    state: Mutex<BarrierState>,
}

#[derive(Default)]
struct BarrierState {
    here: usize,
    /// How often all ranks have passed.
    number: u64,
    waiting: Vec<Waker>,
    broken: bool,
}

impl Barrier {
    pub(super) fn new(size: usize) -> Barrier {
        Barrier { size, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all ranks; the last one does `last` before any rank goes on.
    pub(super) async fn meet(&self, last: impl FnOnce()) {
        let mut last = Some(last);
        let mut mine = None;
        std::future::poll_fn(|context| {
            let mut state = self.state();
            let number = *mine.get_or_insert_with(|| {
                state.here += 1;
                state.number
            });
            if state.broken || number != state.number {
                return Poll::Ready(());
            }
            if state.here == self.size
                && let Some(last) = last.take()
            {
                last();
                state.here = 0;
                state.number += 1;
                state.waiting.drain(..).for_each(Waker::wake);
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Lets everybody go, now and from now on.
    fn break_up(&self) {
        let mut state = self.state();
        state.broken = true;
        state.waiting.drain(..).for_each(Waker::wake);
    }
}

/// Breaks the barrier when its rank panics.
pub(super) struct Attendance<'a>(pub(super) &'a Barrier);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_up();
        }
    }
}
