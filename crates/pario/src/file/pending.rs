//! Calls that have been handed over: [`Pending`] and [`Split`].

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Status;
use super::handle::Handle;
use crate::comm::{Task, block_on};
use crate::error::{Error, ErrorClass, Result};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a call has ended; wakes those that wait for it.
#[derive(Default)]
pub(super) struct Done {
    state: Mutex<DoneState>,
}

#[derive(Default)]
struct DoneState {
    done: bool,
    waiting: Vec<Waker>,
}

impl Done {
    pub(super) fn is_done(&self) -> bool {
        lock(&self.state).done
    }

    fn finish(&self) {
        let mut state = lock(&self.state);
        state.done = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.done {
            return Poll::Ready(());
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    }

    pub(super) async fn wait(&self) {
        std::future::poll_fn(|context| self.poll(context)).await;
    }
}

/// Calls `finish` when the task ends, or is dropped because it panicked.
struct Finish(Arc<Done>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish();
    }
}

type Ending<B> = (Result<Status>, B);

/// A non-blocking call on its way. It goes on by itself; `wait` gives its outcome and the buffer
/// back. It is also a future.
///
/// Dropping it does not stop the call: it ends in the background, and the buffer with it.
#[must_use = "the outcome of the call, and its buffer, come from wait()"]
pub struct Pending<B> {
    handle: Arc<Handle>,
    done: Arc<Done>,
    ending: Arc<Mutex<Option<Ending<B>>>>,
}

impl<B: Send + 'static> Pending<B> {
    /// Hands a call over; `run` is its future.
    pub(super) fn spawn<F>(handle: Arc<Handle>, run: F) -> Pending<B>
    where
        F: Future<Output = Ending<B>> + Send + 'static,
    {
        let (done, ending) = (Arc::new(Done::default()), Arc::new(Mutex::new(None)));
        let pending = Pending { handle, done: done.clone(), ending: ending.clone() };
        {
            let mut state = pending.handle.state();
            state.running.push(done.clone());
            pending.handle.handed_over.store(true, Ordering::SeqCst);
        }
        let finish = Finish(done);
        let task: Task = Box::pin(async move {
            let finish = finish;
            let outcome = run.await;
            *lock(&ending) = Some(outcome);
            drop(finish);
        });
        pending.handle.communicator.spawn(task);
        pending
    }

    /// Whether the call has ended; never waits.
    pub fn is_done(&self) -> bool {
        self.done.is_done()
    }

    /// Waits for the end of the call; returns its outcome and the buffer.
    ///
    /// # Panics
    /// If the call panicked in the background.
    pub fn wait(self) -> (Result<Status>, B) {
        let handle = self.handle.clone();
        block_on(&*handle.communicator, self)
    }
}

impl<B> Future for Pending<B> {
    type Output = (Result<Status>, B);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.done.poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let ending = lock(&self.ending).take();
                Poll::Ready(ending.unwrap_or_else(|| panic!("a non-blocking call panicked")))
            }
        }
    }
}

/// A split collective call between its begin and its end. A file has at most one at a time.
#[must_use = "a split collective must be ended with end()"]
pub struct Split<B> {
    handle: Arc<Handle>,
    pending: Option<Pending<B>>,
}

impl<B: Send + 'static> Split<B> {
    /// Marks the file as busy with a split collective.
    pub(super) fn reserve(handle: &Arc<Handle>) -> Result<()> {
        let mut state = handle.state();
        if state.split_active {
            let text = "a split collective is active on this file; end it before the next begins";
            return Err(Error::new(ErrorClass::RequestActive, text));
        }
        state.split_active = true;
        Ok(())
    }

    pub(super) fn new(handle: Arc<Handle>, pending: Pending<B>) -> Split<B> {
        Split { handle, pending: Some(pending) }
    }

    /// Ends the call: waits for it, and returns its outcome and the buffer.
    pub fn end(mut self) -> (Result<Status>, B) {
        match self.pending.take() {
            Some(pending) => pending.wait(),
            None => unreachable!("a split collective is ended once"),
        }
    }
}

impl<B> Drop for Split<B> {
    fn drop(&mut self) {
        self.handle.state().split_active = false;
    }
}
