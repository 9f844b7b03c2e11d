//! Ranks of one process: the transport of [`Threads`](super::Threads), of
//! [`Solo`](super::Solo) and of [`Simulated`](super::Simulated).
//!
//! Each rank has a mailbox; sending puts a message into the receiver's and wakes it. In a
//! simulation, messages are on their way for a while, and no rank has a thread.
//!
//! A rank that panics, is lost, or ends while others wait for it, breaks the whole world: every
//! wait that would last returns an error of class `PeerLost` that names it.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use super::region::Heap;
use super::simulated::Simulation;
use super::threads::{Progress, park_until_done};
use super::{Communicator, Condition, Group, RankClock, Region, Tag, Task, Watchdog};
use crate::error::{Error, ErrorClass, Result};
use crate::number::index;

/// What all ranks share.
pub(super) struct World {
    /// The ranks, as rank 0 sees them.
    group: Group,
    /// Bytes of the memory that ranks share; none on several nodes.
    shared_bytes: usize,
    /// What lets the ranks go on, if they have no threads.
    simulation: Option<Arc<Simulation>>,
    exchanges: Mutex<Exchanges>,
    fate: Mutex<Fate>,
}

/// The exchanges of all communicators.
#[derive(Default)]
struct Exchanges {
    count: u64,
    /// Those that not every rank has asked for yet, and how many have.
    expected: HashMap<ExchangeKey, (Arc<Exchange>, usize)>,
    alive: Vec<Weak<Exchange>>,
}

/// Which ranks have ended, and the first one that broke the world.
#[derive(Default)]
struct Fate {
    ended: Vec<bool>,
    lost: Option<(u32, &'static str)>,
}

/// Names an exchange: the nth duplicate of another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ExchangeKey {
    parent: u64,
    nth: u64,
}

/// The mailboxes and the counter of one communicator.
pub(super) struct Exchange {
    pub(super) id: u64,
    mailboxes: Vec<Mutex<Mailbox>>,
    counter: AtomicU64,
    memory: Option<Arc<Heap>>,
    /// Those who wait for a condition, by rank.
    watching: Vec<Mutex<Option<Waker>>>,
}

/// The messages of a rank, and the waits for them, by sender and tag.
#[derive(Default)]
struct Mailbox {
    messages: HashMap<(u32, Tag), VecDeque<Vec<u8>>>,
    waiting: HashMap<(u32, Tag), Waker>,
}

/// A stream of messages inside an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Channel {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) tag: Tag,
}

impl Exchange {
    /// Gives a message to its receiver; whether that waits for it.
    pub(super) fn deliver(&self, Channel { from, to, tag }: Channel, bytes: Vec<u8>) -> bool {
        let mut mailbox = lock(&self.mailboxes[index(to)]);
        mailbox.messages.entry((from, tag)).or_default().push_back(bytes);
        let waiting = mailbox.waiting.remove(&(from, tag));
        drop(mailbox);
        waiting.map(Waker::wake).is_some()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere is reported as a lost rank; the data under these locks stays whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(watching: &Mutex<Option<Waker>>) {
    let waker = lock(watching).take();
    waker.into_iter().for_each(Waker::wake);
}

impl World {
    /// Ranks on these nodes, each of which has this number of cores.
    pub(super) fn new(
        nodes: Vec<u32>,
        cores: u32,
        shared_bytes: usize,
        simulation: Option<Arc<Simulation>>,
    ) -> Arc<World> {
        let shared_bytes = if nodes.last() == Some(&0) { shared_bytes } else { 0 };
        let fate = Mutex::new(Fate { ended: vec![false; nodes.len()], lost: None });
        let node_count = nodes.last().map_or(0, |last| index(*last) + 1);
        let cores = vec![cores; node_count];
        let group = Group { rank: 0, nodes, cores, transport: "threads", handle: 0 };
        let exchanges = Mutex::default();
        Arc::new(World { group, shared_bytes, simulation, exchanges, fate })
    }

    /// The communicator of a rank.
    pub(super) fn communicator(self: &Arc<World>, rank: u32) -> Arc<dyn Communicator> {
        let exchange = self.exchange(ExchangeKey { parent: 0, nth: 0 });
        Arc::new(Rank::new(rank, self.clone(), exchange))
    }

    /// The exchange of a name; the rank that asks first makes it, every rank asks once.
    fn exchange(&self, key: ExchangeKey) -> Arc<Exchange> {
        let mut exchanges = lock(&self.exchanges);
        let Exchanges { count, expected, alive } = &mut *exchanges;
        let (exchange, asked) = expected.entry(key).or_insert_with(|| {
            *count += 1;
            let exchange = Arc::new(Exchange {
                id: *count,
                mailboxes: self.group.nodes.iter().map(|_| Mutex::default()).collect(),
                counter: AtomicU64::new(0),
                memory: (self.shared_bytes > 0)
                    .then(|| Arc::new(Heap::new(self.group.nodes.len(), self.shared_bytes))),
                watching: self.group.nodes.iter().map(|_| Mutex::default()).collect(),
            });
            alive.retain(|exchange| exchange.strong_count() > 0);
            alive.push(Arc::downgrade(&exchange));
            (exchange, 0)
        });
        *asked += 1;
        let (exchange, complete) = (exchange.clone(), *asked == self.group.nodes.len());
        if complete {
            expected.remove(&key);
        }
        exchange
    }

    /// A rank has ended: those who still wait for it will not get anything.
    pub(super) fn end(&self, rank: u32) {
        lock(&self.fate).ended[index(rank)] = true;
        self.wake_all();
    }

    /// A rank breaks the world.
    pub(super) fn lose(&self, rank: u32, why: &'static str) {
        lock(&self.fate).lost.get_or_insert((rank, why));
        self.wake_all();
    }

    fn alive(&self) -> Vec<Arc<Exchange>> {
        lock(&self.exchanges).alive.iter().filter_map(Weak::upgrade).collect()
    }

    fn wake_all(&self) {
        for exchange in self.alive() {
            for mailbox in &exchange.mailboxes {
                let waiting = std::mem::take(&mut lock(mailbox).waiting);
                waiting.into_values().for_each(Waker::wake);
            }
            exchange.watching.iter().for_each(wake);
        }
    }

    /// What ranks wait for: exchange, receiver, sender and tag.
    pub(super) fn waits(&self) -> Vec<(u64, usize, u32, Tag)> {
        let mut waits = Vec::new();
        for exchange in self.alive() {
            for (to, mailbox) in exchange.mailboxes.iter().enumerate() {
                let waiting = lock(mailbox).waiting.keys().copied().collect::<Vec<_>>();
                waits.extend(waiting.into_iter().map(|(from, tag)| (exchange.id, to, from, tag)));
            }
        }
        waits
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
    group: Group,
    watchdog: Watchdog,
    world: Arc<World>,
    exchange: Arc<Exchange>,
    duplicates: AtomicU64,
    region: Option<Region>,
    progress: Progress,
    clock: Option<RankClock>,
}

impl Rank {
    fn new(rank: u32, world: Arc<World>, exchange: Arc<Exchange>) -> Rank {
        let region = exchange.memory.as_ref();
        let ranks = world.group.nodes.len();
        Rank {
            group: Group { rank, ..world.group.clone() },
            watchdog: Watchdog::default(),
            duplicates: AtomicU64::new(0),
            region: region.map(|heap| Region::of_heap(heap, ranks, world.shared_bytes)),
            progress: Progress::default(),
            clock: world.simulation.as_ref().and_then(|simulation| simulation.clock(rank)),
            world,
            exchange,
        }
    }

    /// The end of a wait of which nothing can come, and of all others.
    fn give_up<T>(&self, error: Error) -> Poll<Result<T>> {
        self.world.wake_all();
        Poll::Ready(Err(error.on_rank(self.rank())))
    }
}

impl Communicator for Rank {
    fn group(&self) -> &Group {
        &self.group
    }

    fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    fn clock(&self) -> Option<&RankClock> {
        self.clock.as_ref()
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        let nth = self.duplicates.fetch_add(1, Ordering::Relaxed);
        let exchange = self.world.exchange(ExchangeKey { parent: self.exchange.id, nth });
        Ok(Arc::new(Rank::new(self.rank(), self.world.clone(), exchange)))
    }

    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        let channel = Channel { from: self.rank(), to, tag };
        match &self.world.simulation {
            Some(simulation) => simulation.send(&self.exchange, channel, bytes),
            None => {
                self.exchange.deliver(channel, bytes);
            }
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
        let mut mailbox = lock(&self.exchange.mailboxes[index(self.rank())]);
        if let Some(queue) = mailbox.messages.get_mut(&key)
            && let Some(message) = queue.pop_front()
        {
            if queue.is_empty() {
                mailbox.messages.remove(&key);
            }
            return Poll::Ready(Ok(message));
        }
        let is_on_its_way = || {
            let channel = Channel { from, to: self.rank(), tag };
            let simulation = self.world.simulation.as_ref();
            simulation.is_some_and(|simulation| simulation.carries(&self.exchange, channel))
        };
        // The mailbox stays locked until the waker is in it: a rank that breaks the world after
        // this check finds the waker.
        if let Err(error) = self.world.check(from..from + 1)
            && !is_on_its_way()
        {
            drop(mailbox);
            return self.give_up(error);
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
        // A rank that breaks the world after the check finds the waker, as above. Ranks that ended
        // take no part in collectives any more; what is independent goes on without them.
        let needed = if condition.call().is_some() { 0..self.size() } else { 0..0 };
        let mut watching = lock(&self.exchange.watching[index(self.rank())]);
        if let Err(error) = self.world.check(needed) {
            drop(watching);
            return self.give_up(error);
        }
        if condition.call().is_none() {
            // Nobody announces the end of what is independent.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        *watching = Some(context.waker().clone());
        drop(watching);
        if condition.is_so() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn wake(&self, rank: u32) {
        wake(&self.exchange.watching[index(rank)]);
    }

    fn spawn(&self, task: Task) {
        let (world, rank) = (self.world.clone(), self.rank());
        match &self.world.simulation {
            Some(simulation) => simulation.spawn(rank, task),
            None => self.progress.spawn(task, move || world.lose(rank, "panicked")),
        }
    }

    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        let rank = self.rank();
        assert!(
            self.world.simulation.is_none(),
            "simulated rank {rank} would block the others: await the call on File::handle"
        );
        park_until_done(task);
    }
}
