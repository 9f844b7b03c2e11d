//! Ranks as threads of this process, or one rank alone.
//!
//! Ranks can be spread over pretended nodes, and sharing memory can be switched off, so that what
//! happens between nodes can be tested on one.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::local::{World, lock};
use super::{Communicator, Task, cores};

/// A communicator of one rank: a program without parallel peers, and independent requests.
///
/// ```
/// use pario::{Communicator, Solo};
/// let solo = Solo::new();
/// assert_eq!((solo.rank(), solo.size()), (0, 1));
/// ```
pub struct Solo;

impl Solo {
    /// A new communicator.
    #[allow(clippy::new_ret_no_self)] // Programs use communicators as trait objects.
    pub fn new() -> Arc<dyn Communicator> {
        Threads::new(1).share_memory(false).world().communicator(0)
    }
}

/// Starts ranks as threads.
///
/// ```
/// use pario::{Communicator, Threads};
/// let ranks = Threads::new(4).run(|comm| comm.rank());
/// assert_eq!(ranks, [0, 1, 2, 3]);
/// ```
#[derive(Clone, Debug)]
pub struct Threads {
    size: u32,
    nodes: u32,
    shared_bytes: usize,
}

/// Default for the memory that ranks share for windows of a file.
const SHARED_BYTES: usize = 16 << 20;

impl Threads {
    /// `size` ranks, at least one.
    pub fn new(size: u32) -> Threads {
        Threads { size: size.max(1), nodes: 1, shared_bytes: SHARED_BYTES }
    }

    /// Pretends that the ranks run on several nodes, each with a range of neighbouring ranks. Then
    /// they send messages.
    pub fn nodes(mut self, nodes: u32) -> Threads {
        self.nodes = nodes.clamp(1, self.size);
        self
    }

    /// Whether ranks of one node share memory; if not, they send messages.
    pub fn share_memory(self, share: bool) -> Threads {
        self.shared_bytes(if share { SHARED_BYTES } else { 0 })
    }

    /// How much memory ranks share for windows of a file; none if it is zero.
    pub fn shared_bytes(mut self, bytes: usize) -> Threads {
        self.shared_bytes = bytes;
        self
    }

    /// Runs a function on every rank; returns their results in the order of the ranks.
    ///
    /// # Panics
    /// If a rank panics, after all others have ended.
    pub fn run<T: Send>(&self, function: impl Fn(Arc<dyn Communicator>) -> T + Sync) -> Vec<T> {
        let results = self.try_run(function).into_iter();
        results.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    }

    /// Runs a function on every rank; a rank that panicked has an error.
    pub fn try_run<T: Send>(
        &self,
        function: impl Fn(Arc<dyn Communicator>) -> T + Sync,
    ) -> Vec<thread::Result<T>> {
        let world = self.world();
        let function = &function;
        thread::scope(|scope| {
            let start = |rank| {
                let world = world.clone();
                scope.spawn(move || {
                    let communicator = world.communicator(rank);
                    let result = catch_unwind(AssertUnwindSafe(|| function(communicator)));
                    match &result {
                        Ok(_) => world.end(rank),
                        Err(_) => world.lose(rank, "panicked"),
                    }
                    result
                })
            };
            let threads: Vec<_> = (0..self.size).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(Err)).collect()
        })
    }

    fn world(&self) -> Arc<World> {
        let per_node = self.size.div_ceil(self.nodes);
        let nodes = (0..self.size).map(|rank| rank / per_node).collect();
        World::new(nodes, cores::own(), self.shared_bytes, None)
    }
}

/// A thread that carries tasks forward, one after the other; started when first needed.
#[derive(Default)]
pub(super) struct Progress {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
}

type Job = (Task, Box<dyn FnOnce() + Send>);

impl Progress {
    /// Queues a task; `on_panic` is called if it panics.
    pub(super) fn spawn(&self, task: Task, on_panic: impl FnOnce() + Send + 'static) {
        let mut queue = lock(&self.queue);
        let sender = queue.get_or_insert_with(|| {
            let (sender, jobs) = mpsc::channel::<Job>();
            // The thread ends when the communicator is dropped and its jobs are done.
            thread::spawn(move || {
                for (mut task, on_panic) in jobs {
                    let run = AssertUnwindSafe(|| park_until_done(task.as_mut()));
                    if catch_unwind(run).is_err() {
                        on_panic();
                    }
                }
            });
            sender
        });
        let sent = sender.send((task, Box::new(on_panic)));
        assert!(sent.is_ok(), "the progress thread outlives its queue");
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a task until it is done; sleeps in between. Now and then it polls without being woken,
/// so that a wait can notice how long it lasts.
pub(super) fn park_until_done(mut task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
    const NOTICE: Duration = Duration::from_millis(500);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    while task.as_mut().poll(&mut context).is_pending() {
        thread::park_timeout(NOTICE);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Lane, Tag, block_on, collective, receive};
    use super::*;
    use crate::error::ErrorClass;

    const TAG: Tag = Tag { call: 0, lane: Lane::Data };

    #[test]
    fn messages_of_a_lane_keep_their_order() {
        Threads::new(3).run(|comm| {
            let (rank, size) = (comm.rank(), comm.size());
            for number in 0..100u8 {
                comm.send((rank + 1) % size, TAG, vec![number]).unwrap();
            }
            for number in 0..100u8 {
                let from = (rank + size - 1) % size;
                let message = block_on(&*comm, receive(&*comm, from, TAG)).unwrap();
                assert_eq!(message, [number]);
            }
        });
    }

    #[test]
    fn a_rank_that_panics_is_named_to_all_others() {
        let results = Threads::new(5).try_run(|comm| {
            assert!(comm.rank() != 3, "rank 3 gives up");
            block_on(&*comm, collective::barrier(&*comm, 0)).unwrap_err()
        });
        for (rank, result) in results.into_iter().enumerate() {
            match result {
                Ok(error) => {
                    assert_eq!(error.class(), ErrorClass::PeerLost);
                    assert!(error.to_string().contains("rank 3 panicked"), "{error}");
                }
                Err(_) => assert_eq!(rank, 3),
            }
        }
    }

    #[test]
    fn a_rank_that_ends_early_is_named() {
        let errors = Threads::new(4).run(|comm| match comm.rank() {
            2 => None,
            _ => Some(block_on(&*comm, collective::barrier(&*comm, 0)).unwrap_err()),
        });
        let mut errors = errors.into_iter().flatten();
        assert!(errors.all(|error| error.to_string().contains("rank 2 has ended")));
    }

    #[test]
    fn duplicates_do_not_see_each_others_messages() {
        Threads::new(2).run(|comm| {
            let (one, two) = (comm.duplicate().unwrap(), comm.duplicate().unwrap());
            let peer = 1 - comm.rank();
            one.send(peer, TAG, vec![1]).unwrap();
            two.send(peer, TAG, vec![2]).unwrap();
            assert_eq!(block_on(&*two, receive(&*two, peer, TAG)).unwrap(), [2]);
            assert_eq!(block_on(&*one, receive(&*one, peer, TAG)).unwrap(), [1]);
            one.counter_add(5).unwrap();
            block_on(&*one, collective::barrier(&*one, 1)).unwrap();
            assert_eq!(one.counter_add(0).unwrap(), 10);
            assert_eq!(two.counter_add(0).unwrap(), 0);
        });
    }

    #[test]
    fn a_spawned_task_runs_by_itself() {
        Threads::new(2).run(|comm| {
            let peer = 1 - comm.rank();
            let (sender, done) = mpsc::channel();
            let held = comm.clone();
            comm.spawn(Box::pin(async move {
                let message = receive(&*held, peer, TAG).await.unwrap();
                sender.send(message).unwrap();
            }));
            comm.send(peer, TAG, vec![7]).unwrap();
            assert_eq!(done.recv().unwrap(), [7]);
        });
    }
}
