//! Ranks as threads of this process.
//!
//! Each rank has a mailbox; sending puts a message into the receiver's and wakes it. Ranks can be
//! spread over pretended nodes, and sharing memory can be switched off, so that what happens
//! between nodes can be tested on one.
//!
//! A rank that panics, or ends while others wait for it, breaks the whole group: every wait that
//! would last returns an error of class `PeerLost` that names it.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::collective::{index, rank_of};
use super::region::Heap;
use super::{Communicator, Condition, Region, Tag, Task, cores};
use crate::error::{Error, ErrorClass, Result};

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
        let group = Arc::new(Group::new(self));
        let function = &function;
        thread::scope(|scope| {
            let start = |rank| {
                let group = group.clone();
                scope.spawn(move || {
                    let world = group.exchange(Key { parent: 0, nth: 0 });
                    let communicator = Arc::new(Rank::new(rank, group.clone(), world));
                    let result = catch_unwind(AssertUnwindSafe(|| function(communicator)));
                    match &result {
                        Ok(_) => group.end(rank),
                        Err(_) => group.lose(rank, "panicked"),
                    }
                    result
                })
            };
            let threads: Vec<_> = (0..self.size).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(Err)).collect()
        })
    }
}

/// What all ranks share.
struct Group {
    nodes: Vec<u32>,
    /// Cores of this process, and so of each node.
    cores: u32,
    /// Bytes of the memory that ranks share; none on several nodes.
    shared_bytes: usize,
    exchanges: Mutex<Exchanges>,
    fate: Mutex<Fate>,
}

/// The exchanges of all communicators.
#[derive(Default)]
struct Exchanges {
    count: u64,
    /// Those that not every rank has asked for yet, and how many have.
    expected: HashMap<Key, (Arc<Exchange>, usize)>,
    alive: Vec<Weak<Exchange>>,
}

/// Which ranks have ended, and the first one that broke the group.
#[derive(Default)]
struct Fate {
    ended: Vec<bool>,
    lost: Option<(u32, &'static str)>,
}

/// Names an exchange: the nth duplicate of another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    parent: u64,
    nth: u64,
}

/// The mailboxes and the counter of one communicator.
struct Exchange {
    id: u64,
    mailboxes: Vec<Mutex<Mailbox>>,
    counter: AtomicU64,
    memory: Option<Arc<Heap>>,
    /// Those who wait for a condition, by rank.
    watching: Vec<Mutex<Option<Waker>>>,
}

#[derive(Default)]
struct Mailbox {
    messages: HashMap<(u32, Tag), VecDeque<Vec<u8>>>,
    waiting: HashMap<(u32, Tag), Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere is reported as a lost rank; the data under these locks stays whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(watching: &Mutex<Option<Waker>>) {
    let waker = lock(watching).take();
    waker.into_iter().for_each(Waker::wake);
}

impl Group {
    fn new(threads: &Threads) -> Group {
        let per_node = threads.size.div_ceil(threads.nodes);
        let cores = cores::own();
        Group {
            nodes: (0..threads.size).map(|rank| rank / per_node).collect(),
            cores,
            shared_bytes: if threads.nodes == 1 { threads.shared_bytes } else { 0 },
            exchanges: Mutex::default(),
            fate: Mutex::new(Fate { ended: vec![false; index(threads.size)], lost: None }),
        }
    }

    /// The exchange of a name; the rank that asks first makes it, every rank asks once.
    fn exchange(&self, key: Key) -> Arc<Exchange> {
        let mut exchanges = lock(&self.exchanges);
        let Exchanges { count, expected, alive } = &mut *exchanges;
        let (exchange, asked) = expected.entry(key).or_insert_with(|| {
            *count += 1;
            let exchange = Arc::new(Exchange {
                id: *count,
                mailboxes: self.nodes.iter().map(|_| Mutex::default()).collect(),
                counter: AtomicU64::new(0),
                memory: (self.shared_bytes > 0)
                    .then(|| Arc::new(Heap::new(self.nodes.len(), self.shared_bytes))),
                watching: self.nodes.iter().map(|_| Mutex::default()).collect(),
            });
            alive.retain(|exchange| exchange.strong_count() > 0);
            alive.push(Arc::downgrade(&exchange));
            (exchange, 0)
        });
        *asked += 1;
        let (exchange, complete) = (exchange.clone(), *asked == self.nodes.len());
        if complete {
            expected.remove(&key);
        }
        exchange
    }

    /// A rank has ended: those who still wait for it will not get anything.
    fn end(&self, rank: u32) {
        lock(&self.fate).ended[index(rank)] = true;
        self.wake_all();
    }

    /// A rank breaks the group.
    fn lose(&self, rank: u32, why: &'static str) {
        lock(&self.fate).lost.get_or_insert((rank, why));
        self.wake_all();
    }

    fn wake_all(&self) {
        let exchanges: Vec<Arc<Exchange>> =
            lock(&self.exchanges).alive.iter().filter_map(Weak::upgrade).collect();
        for mailbox in exchanges.iter().flat_map(|exchange| &exchange.mailboxes) {
            let waiting = std::mem::take(&mut lock(mailbox).waiting);
            waiting.into_values().for_each(Waker::wake);
        }
        for watching in exchanges.iter().flat_map(|exchange| &exchange.watching) {
            wake(watching);
        }
    }

    /// An error if nothing can come from one of these ranks any more.
    fn check(&self, mut from: Range<u32>) -> Result<()> {
        let mut fate = lock(&self.fate);
        if let Some(ended) = from.find(|&rank| fate.ended[index(rank)]) {
            fate.lost.get_or_insert((ended, "has ended"));
        }
        match fate.lost {
            None => Ok(()),
            Some((rank, why)) => {
                let text = format!("rank {rank} {why} while others wait for it in a collective");
                Err(Error::new(ErrorClass::PeerLost, text))
            }
        }
    }
}

/// One rank's communicator.
struct Rank {
    rank: u32,
    group: Arc<Group>,
    exchange: Arc<Exchange>,
    duplicates: AtomicU64,
    region: Option<Region>,
    progress: Progress,
}

impl Rank {
    fn new(rank: u32, group: Arc<Group>, exchange: Arc<Exchange>) -> Rank {
        let (duplicates, progress) = (AtomicU64::new(0), Progress::default());
        let region = exchange.memory.as_ref();
        let region =
            region.map(|heap| Region::of_heap(heap, group.nodes.len(), group.shared_bytes));
        Rank { rank, group, exchange, duplicates, region, progress }
    }
}

impl Communicator for Rank {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        rank_of(self.group.nodes.len())
    }

    fn node(&self, rank: u32) -> u32 {
        self.group.nodes[index(rank)]
    }

    fn cores(&self, _node: u32) -> u32 {
        self.group.cores
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        let nth = self.duplicates.fetch_add(1, Ordering::Relaxed);
        let exchange = self.group.exchange(Key { parent: self.exchange.id, nth });
        Ok(Arc::new(Rank::new(self.rank, self.group.clone(), exchange)))
    }

    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        let key = (self.rank, tag);
        let mut mailbox = lock(&self.exchange.mailboxes[index(to)]);
        mailbox.messages.entry(key).or_default().push_back(bytes);
        let waiting = mailbox.waiting.remove(&key);
        drop(mailbox);
        if let Some(waker) = waiting {
            waker.wake();
        }
        Ok(())
    }

    fn poll_receive(
        &self,
        from: u32,
        tag: Tag,
        context: &mut Context<'_>,
    ) -> Poll<Result<Vec<u8>>> {
        let key = (from, tag);
        let mut mailbox = lock(&self.exchange.mailboxes[index(self.rank)]);
        if let Some(queue) = mailbox.messages.get_mut(&key)
            && let Some(message) = queue.pop_front()
        {
            if queue.is_empty() {
                mailbox.messages.remove(&key);
            }
            return Poll::Ready(Ok(message));
        }
        // The mailbox stays locked until the waker is in it: a rank that breaks the group after
        // this check finds the waker.
        if let Err(error) = self.group.check(from..from + 1) {
            drop(mailbox);
            self.group.wake_all();
            return Poll::Ready(Err(error.on_rank(self.rank)));
        }
        mailbox.waiting.insert(key, context.waker().clone());
        Poll::Pending
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        let add = |value: u64| value.checked_add(delta);
        let added = self.exchange.counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
        added.map_err(|_| Error::new(ErrorClass::Arg, "the shared file pointer would pass 2^64"))
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        self.exchange.counter.store(value, Ordering::SeqCst);
        Ok(())
    }

    fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    fn poll_until(
        &self,
        condition: &mut dyn Condition,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if condition.is_so() {
            return Poll::Ready(Ok(()));
        }
        // A rank that breaks the group after the check finds the waker, as above. Ranks that ended
        // take no part in collectives any more; what is independent goes on without them.
        let needed = if condition.call().is_some() { 0..self.size() } else { 0..0 };
        let mut watching = lock(&self.exchange.watching[index(self.rank)]);
        if let Err(error) = self.group.check(needed) {
            drop(watching);
            self.group.wake_all();
            return Poll::Ready(Err(error.on_rank(self.rank)));
        }
        *watching = Some(context.waker().clone());
        drop(watching);
        match condition.is_so() {
            true => Poll::Ready(Ok(())),
            // Nobody announces the end of what is independent.
            false if condition.call().is_none() => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            false => Poll::Pending,
        }
    }

    fn wake(&self, rank: u32) {
        wake(&self.exchange.watching[index(rank)]);
    }

    fn spawn(&self, task: Task) {
        let (group, rank) = (self.group.clone(), self.rank);
        self.progress.spawn(task, move || group.lose(rank, "panicked"));
    }

    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        park_until_done(task);
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
    use super::super::{Lane, block_on, collective, receive};
    use super::*;

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
