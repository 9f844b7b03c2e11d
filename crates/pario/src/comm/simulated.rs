//! All ranks in one thread, in an order that a seed decides.
//!
//! Each rank is a future. A step of the simulation polls a rank that can go on, or delivers a
//! message; a random number generator decides which. The same seed gives the same run, so that a
//! schedule that breaks something can be repeated.
//!
//! A rank can be lost after a number of steps, as if its process had died: its futures are dropped,
//! and what waits for it ends with `PeerLost`. Messages that it has sent still arrive.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::collective::{index, rank_of};
use super::region::Heap;
use super::{Communicator, Condition, Region, Tag, Task, cores};
use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};

/// A simulation of ranks.
///
/// Rank programs are `async` and use [`File::handle`](crate::File::handle) for files.
///
/// ```
/// use pario::{Communicator, Simulated};
/// let ranks = Simulated::new(3, 42).run(|comm| async move { comm.rank() });
/// assert_eq!(ranks, [0, 1, 2]);
/// ```
#[derive(Clone, Debug)]
pub struct Simulated {
    size: u32,
    seed: u64,
    shared_bytes: usize,
    /// The rank that is lost, and after how many of its steps.
    loses: Option<(u32, u64)>,
}

impl Simulated {
    /// `size` ranks, at least one, scheduled by `seed`.
    pub fn new(size: u32, seed: u64) -> Simulated {
        Simulated { size: size.max(1), seed, shared_bytes: 0, loses: None }
    }

    /// How much memory ranks share for windows of a file; none by default: they send messages.
    pub fn shared_bytes(mut self, bytes: usize) -> Simulated {
        self.shared_bytes = bytes;
        self
    }

    /// Loses a rank after some of its steps.
    pub fn lose(mut self, rank: u32, steps: u64) -> Simulated {
        self.loses = Some((rank, steps));
        self
    }

    /// Runs an asynchronous function on every rank; returns their results in rank order.
    ///
    /// # Panics
    /// If no rank can go on before all have ended: a deadlock.
    pub fn run<T, F>(&self, function: impl Fn(Arc<dyn Communicator>) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.try_run(function).into_iter().flatten().collect()
    }

    /// As [`Simulated::run`]; a rank that was lost has no result.
    ///
    /// # Panics
    /// If no rank can go on before all have ended: a deadlock.
    pub fn try_run<T, F>(&self, function: impl Fn(Arc<dyn Communicator>) -> F) -> Vec<Option<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let world = Arc::new(World::new(self));
        let results: Vec<Arc<Mutex<Option<T>>>> = (0..self.size).map(|_| Arc::default()).collect();
        for rank in 0..self.size {
            let communicator = Arc::new(Rank::new(rank, world.clone(), 0));
            let (future, slot) = (function(communicator), results[index(rank)].clone());
            let task = async move {
                let result = future.await;
                *lock(&slot) = Some(result);
            };
            lock(&world.state).spawned.push((rank, Box::pin(task)));
        }
        world.run_all(self.seed, self.loses);
        let take = |slot: Arc<Mutex<Option<T>>>| lock(&slot).take();
        results.into_iter().map(take).collect()
    }
}

/// What all ranks of a simulation share.
struct World {
    size: u32,
    shared_bytes: usize,
    state: Mutex<State>,
}

/// A stream of messages: exchange, sender, receiver, tag.
type Channel = (u64, u32, u32, Tag);

#[derive(Default)]
struct State {
    random: u64,
    /// Tasks that have not been polled yet, and whose they are.
    spawned: Vec<(u32, Task)>,
    lost: Option<u32>,
    /// Messages on their way. Sorted, so that choices depend on the seed alone.
    sent: BTreeMap<Channel, VecDeque<Vec<u8>>>,
    arrived: HashMap<Channel, VecDeque<Vec<u8>>>,
    waiting: HashMap<Channel, Waker>,
    exchanges: HashMap<(u64, u64), u64>,
    counters: HashMap<u64, u64>,
    memories: HashMap<u64, Arc<Heap>>,
    /// Those who wait for a condition, by exchange and rank.
    watching: HashMap<(u64, u32), Waker>,
}

impl State {
    /// A random number below `limit` (splitmix64).
    fn below(&mut self, limit: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        narrow((mixed ^ (mixed >> 31)) % wide(limit))
    }

    /// An error if a rank is lost.
    fn check(&self, rank: u32) -> Result<()> {
        match self.lost {
            None => Ok(()),
            Some(lost) => {
                let text = format!("rank {lost} is lost while others wait for it in a collective");
                Err(Error::new(ErrorClass::PeerLost, text).on_rank(rank))
            }
        }
    }

    /// A rank is lost: what waits is woken, to learn it.
    fn lose(&mut self, rank: u32) -> Vec<Waker> {
        self.lost = Some(rank);
        let waiting = self.waiting.drain().map(|(_, waker)| waker);
        waiting.chain(self.watching.drain().map(|(_, waker)| waker)).collect()
    }

    /// Delivers one of the messages that are first in their channel.
    fn deliver(&mut self, choice: usize) {
        let Some(channel) = self.sent.keys().nth(choice).copied() else { return };
        let Some(queue) = self.sent.get_mut(&channel) else { return };
        let message = queue.pop_front();
        if queue.is_empty() {
            self.sent.remove(&channel);
        }
        self.arrived.entry(channel).or_default().extend(message);
        if let Some(waker) = self.waiting.remove(&channel) {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl World {
    fn new(simulated: &Simulated) -> World {
        let state = State { random: simulated.seed, ..State::default() };
        World {
            size: simulated.size,
            shared_bytes: simulated.shared_bytes,
            state: Mutex::new(state),
        }
    }

    fn run_all(&self, seed: u64, loses: Option<(u32, u64)>) {
        let mut running: Vec<Running> = Vec::new();
        let mut steps_left = loses.map_or(u64::MAX, |(_, steps)| steps);
        loop {
            let mut state = lock(&self.state);
            running.extend(state.spawned.drain(..).map(Running::new));
            if running.is_empty() {
                return;
            }
            let is_ready = |&number: &usize| running[number].ready.0.load(Ordering::Relaxed);
            let ready: Vec<usize> = (0..running.len()).filter(is_ready).collect();
            let events = ready.len() + state.sent.len();
            if events == 0 {
                let waits: Vec<&Channel> = state.waiting.keys().collect();
                panic!("simulation with seed {seed}: nobody can go on; waiting for {waits:?}");
            }
            let choice = state.below(events);
            let Some(&number) = ready.get(choice) else {
                state.deliver(choice - ready.len());
                continue;
            };
            drop(state);
            let rank = running[number].rank;
            if loses.is_some_and(|(losing, _)| losing == rank) {
                if steps_left == 0 {
                    // What is dropped may use the communicator, so that nothing is locked here.
                    running.retain(|task| task.rank != rank);
                    lock(&self.state).spawned.retain(|(owner, _)| *owner != rank);
                    let woken = lock(&self.state).lose(rank);
                    woken.into_iter().for_each(Waker::wake);
                    continue;
                }
                steps_left -= 1;
            }
            if running[number].poll() {
                drop(running.remove(number));
            }
        }
    }
}

/// A task that has been started.
struct Running {
    rank: u32,
    task: Task,
    ready: Arc<Ready>,
}

impl Running {
    fn new((rank, task): (u32, Task)) -> Running {
        Running { rank, task, ready: Arc::new(Ready(AtomicBool::new(true))) }
    }

    /// Lets it go on; whether it has ended.
    fn poll(&mut self) -> bool {
        self.ready.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(self.ready.clone());
        self.task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
    }
}

struct Rank {
    rank: u32,
    world: Arc<World>,
    exchange: u64,
    region: Option<Region>,
    duplicates: AtomicU64,
}

impl Rank {
    fn new(rank: u32, world: Arc<World>, exchange: u64) -> Rank {
        let (ranks, bytes) = (index(world.size), world.shared_bytes);
        let region = (bytes > 0).then(|| {
            let mut state = lock(&world.state);
            let memory = state.memories.entry(exchange);
            let heap = memory.or_insert_with(|| Arc::new(Heap::new(ranks, bytes)));
            Region::of_heap(heap, ranks, bytes)
        });
        Rank { rank, world, exchange, region, duplicates: AtomicU64::new(0) }
    }
}

impl Communicator for Rank {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.world.size
    }

    fn node(&self, _rank: u32) -> u32 {
        0
    }

    fn cores(&self, _node: u32) -> u32 {
        cores::own()
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        let nth = self.duplicates.fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&self.world.state);
        let fresh = wide(state.exchanges.len()) + 1;
        let exchange = *state.exchanges.entry((self.exchange, nth)).or_insert(fresh);
        drop(state);
        Ok(Arc::new(Rank::new(self.rank, self.world.clone(), exchange)))
    }

    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        let channel = (self.exchange, self.rank, to, tag);
        lock(&self.world.state).sent.entry(channel).or_default().push_back(bytes);
        Ok(())
    }

    fn poll_receive(
        &self,
        from: u32,
        tag: Tag,
        context: &mut Context<'_>,
    ) -> Poll<Result<Vec<u8>>> {
        let channel = (self.exchange, from, self.rank, tag);
        let mut state = lock(&self.world.state);
        if let Some(message) = state.arrived.get_mut(&channel).and_then(VecDeque::pop_front) {
            return Poll::Ready(Ok(message));
        }
        if !state.sent.contains_key(&channel) {
            state.check(self.rank)?;
        }
        state.waiting.insert(channel, context.waker().clone());
        Poll::Pending
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        let mut state = lock(&self.world.state);
        let value = state.counters.entry(self.exchange).or_default();
        let old = *value;
        *value = old.checked_add(delta).ok_or_else(|| {
            Error::new(ErrorClass::Arg, "the shared file pointer would pass 2^64")
        })?;
        Ok(old)
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        lock(&self.world.state).counters.insert(self.exchange, value);
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
        if condition.call().is_some() {
            let key = (self.exchange, self.rank);
            let mut state = lock(&self.world.state);
            state.check(self.rank)?;
            state.watching.insert(key, context.waker().clone());
        } else {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn wake(&self, rank: u32) {
        let waker = lock(&self.world.state).watching.remove(&(self.exchange, rank));
        waker.into_iter().for_each(Waker::wake);
    }

    fn spawn(&self, task: Task) {
        lock(&self.world.state).spawned.push((self.rank, task));
    }

    fn block_on(&self, _task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        let rank = rank_of(index(self.rank));
        panic!("simulated rank {rank} would block the others: await the call on File::handle");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Lane, collective, pause, receive};
    use super::*;

    const TAG: Tag = Tag { call: 0, lane: Lane::Data };

    fn order_of_arrival(seed: u64) -> Vec<u32> {
        let log = Arc::new(Mutex::new(Vec::new()));
        Simulated::new(6, seed).run(|comm| {
            let log = log.clone();
            async move {
                collective::barrier(&*comm, 0).await.unwrap();
                pause().await;
                lock(&log).push(comm.rank());
            }
        });

        lock(&log).clone()
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(order_of_arrival(1), order_of_arrival(1));
        assert!((2..10).any(|seed| order_of_arrival(seed) != order_of_arrival(1)));
    }

    #[test]
    fn a_lost_rank_is_named_to_all_others() {
        for steps in 0..3 {
            let results = Simulated::new(3, 4).lose(1, steps).try_run(|comm| async move {
                for call in 0..10 {
                    collective::barrier(&*comm, call).await?;
                }
                Ok::<(), Error>(())
            });
            assert!(results[1].is_none());
            for result in [&results[0], &results[2]] {
                let error = result.as_ref().unwrap().as_ref().unwrap_err();
                assert_eq!(error.class(), ErrorClass::PeerLost);
                assert!(error.to_string().contains("rank 1 is lost"), "{error}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "nobody can go on")]
    fn a_deadlock_is_seen() {
        Simulated::new(2, 0).run(|comm| async move {
            let _ = receive(&*comm, 1 - comm.rank(), TAG).await;
        });
    }
}
