//! One rank alone: a program without parallel peers, and independent requests.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use super::threads::{Progress, park_until_done};
use super::{Communicator, Tag, Task, cores};
use crate::error::{Error, ErrorClass, Result};

/// A communicator of one rank.
///
/// ```
/// use pario::{Communicator, Solo};
/// let solo = Solo::new();
/// assert_eq!((solo.rank(), solo.size()), (0, 1));
/// ```
#[derive(Default)]
pub struct Solo {
    messages: Mutex<HashMap<Tag, VecDeque<Vec<u8>>>>,
    counter: AtomicU64,
    progress: Progress,
}

impl Solo {
    /// A new communicator.
    pub fn new() -> Arc<Solo> {
        Arc::default()
    }
}

impl Communicator for Solo {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn node(&self, _rank: u32) -> u32 {
        0
    }

    fn cores(&self, _node: u32) -> u32 {
        cores::own()
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        Ok(Solo::new())
    }

    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        assert_eq!(to, 0, "a message goes to a rank of the communicator");
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.entry(tag).or_default().push_back(bytes);
        Ok(())
    }

    fn poll_receive(&self, _from: u32, tag: Tag, _: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let next = messages.get_mut(&tag).and_then(VecDeque::pop_front);
        let nobody = || Error::new(ErrorClass::Intern, "a rank alone waits for a message");
        Poll::Ready(next.ok_or_else(nobody))
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        let add = |value: u64| value.checked_add(delta);
        let added = self.counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
        added.map_err(|_| Error::new(ErrorClass::Arg, "the shared file pointer would pass 2^64"))
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        self.counter.store(value, Ordering::SeqCst);
        Ok(())
    }

    fn spawn(&self, task: Task) {
        self.progress.spawn(task, || {});
    }

    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        park_until_done(task);
    }
}
