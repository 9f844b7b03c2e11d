//! What every communicator promises: the contract of `Communicator`, and of what is built on it.
//!
//! Each check runs on all ranks and has a duplicate of the communicator to itself. Checks are
//! futures, so that a simulation runs them as well as ranks that block.
//!
//! Cost: some thousand messages between every two ranks, a few mebibytes in all, besides the long
//! messages that the caller asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use pario::comm::collective::{all_gather, barrier, broadcast};
use pario::comm::{Lane, Tag, block_on, receive};
use pario::{Communicator, ErrorClass, Result};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::seed::{Random, random};

const LANES: [Lane; 3] = [Lane::Control, Lane::Data, Lane::Answer];

/// Runs the whole contract on a rank's communicator; all ranks call it, with the same arguments.
///
/// `seed` decides the random traffic. `long` are the lengths of long messages that are tried
/// besides, where a transport has its difficulties.
///
/// ```
/// pario::Threads::new(2).run(|comm| pario_testkit::conformance::communicator(comm, 1, &[100]));
/// ```
///
/// # Panics
///
/// If the communicator breaks the contract; the text says which part.
pub fn communicator(comm: Arc<dyn Communicator>, seed: u64, long: &[usize]) {
    block_on(&*comm, communicator_steps(comm.clone(), seed, long));
}

/// The same for ranks that must not block.
///
/// # Panics
///
/// As [`communicator`].
pub async fn communicator_steps(comm: Arc<dyn Communicator>, seed: u64, long: &[usize]) {
    let rank = |number: u64| {
        let comm = must("duplicate", comm.duplicate());
        Rank { comm, seed: seed.wrapping_add(number) }
    };
    numbers_agree(&rank(0)).await;
    messages_keep_their_order(&rank(1)).await;
    tags_are_kept_apart(&rank(2)).await;
    empty_messages_arrive(&rank(3)).await;
    sending_never_waits(&rank(4)).await;
    random_traffic_arrives(&rank(6)).await;
    counters_lose_nothing(&rank(7)).await;
    duplicates_are_apart(&rank(8)).await;
    collectives_are_right(&rank(9)).await;
    spawned_tasks_go_on(&rank(10)).await;
    tasks_and_calls_go_on_together(&rank(11)).await;
    long_messages_are_whole(&rank(12), long).await;
    must("the last barrier", barrier(&*comm, 0).await);
}

/// One rank of a check.
struct Rank {
    comm: Arc<dyn Communicator>,
    seed: u64,
}

impl Rank {
    fn rank(&self) -> u32 {
        self.comm.rank()
    }

    fn size(&self) -> u32 {
        self.comm.size()
    }

    fn next(&self) -> u32 {
        (self.rank() + 1) % self.size()
    }

    fn previous(&self) -> u32 {
        (self.rank() + self.size() - 1) % self.size()
    }

    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) {
        must("send", self.comm.send(to, tag, bytes));
    }

    async fn receive(&self, from: u32, tag: Tag) -> Vec<u8> {
        must("receive", receive(&*self.comm, from, tag).await)
    }

    async fn barrier(&self, call: u64) {
        must("barrier", barrier(&*self.comm, call).await);
    }
}

fn data(call: u64) -> Tag {
    Tag { call, lane: Lane::Data }
}

fn byte(number: u32) -> u8 {
    number.to_le_bytes()[0]
}

#[track_caller]
fn must<T>(what: &str, result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{what} fails: {error}"),
    }
}

async fn numbers_agree(this: &Rank) {
    let (comm, size) = (&this.comm, this.size());
    assert!(this.rank() < size, "a rank is below the size");
    let nodes: Vec<u32> = (0..size).map(|rank| comm.node(rank)).collect();
    let used: BTreeSet<u32> = nodes.iter().copied().collect();
    let expected: BTreeSet<u32> = (0..count(used.len())).collect();
    assert_eq!(used, expected, "nodes are numbered from 0 without gaps");
    let one_node = nodes.iter().all(|&node| node == 0);
    assert!(one_node || comm.region().is_none(), "memory is shared on one node only");
    let cores: Vec<u32> = used.iter().map(|node| comm.cores(*node)).collect();
    assert!(!cores.contains(&0), "every node has a core");
    let numbers = [this.rank(), size].into_iter().chain(nodes.iter().copied()).chain(cores);
    let own: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
    let all = must("all_gather", all_gather(&**comm, 0, own.clone()).await);
    assert_eq!(all.len(), nodes.len(), "as many ranks as the size says");
    for (rank, one) in (0..).zip(&all) {
        assert_eq!(one[..4], u32::to_le_bytes(rank), "every rank has its own number");
        assert_eq!(one[4..], own[4..], "all ranks know the same size, nodes and cores");
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// To every rank, the own one too.
async fn messages_keep_their_order(this: &Rank) {
    const COUNT: u32 = 200;
    for number in 0..COUNT {
        for to in 0..this.size() {
            let bytes = [number, this.rank(), to].map(u32::to_le_bytes).concat();
            this.send(to, data(0), bytes);
        }
    }
    for from in 0..this.size() {
        for number in 0..COUNT {
            let expected = [number, from, this.rank()].map(u32::to_le_bytes).concat();
            assert_eq!(this.receive(from, data(0)).await, expected, "message {number} of {from}");
        }
    }
}

/// Received in the opposite order of being sent, also where tags differ by a power of two.
async fn tags_are_kept_apart(this: &Rank) {
    let calls = [0, 1, 2, 255, 256, 4095, 4096, 8191];
    let tags = calls.iter().flat_map(|&call| LANES.map(|lane| Tag { call, lane }));
    let tags: Vec<(u8, Tag)> = (0..).zip(tags).collect();
    for &(number, tag) in &tags {
        this.send(this.next(), tag, vec![number, byte(this.rank())]);
    }
    for &(number, tag) in tags.iter().rev() {
        let expected = [number, byte(this.previous())];
        assert_eq!(this.receive(this.previous(), tag).await, expected, "{tag:?}");
    }
}

async fn empty_messages_arrive(this: &Rank) {
    for to in 0..this.size() {
        for bytes in [vec![], vec![1], vec![], vec![]] {
            this.send(to, data(0), bytes);
        }
        this.send(to, data(1), vec![]);
    }
    for from in 0..this.size() {
        assert_eq!(this.receive(from, data(1)).await, [], "an empty message alone");
        for expected in [vec![], vec![1], vec![], vec![]] {
            assert_eq!(this.receive(from, data(0)).await, expected, "from {from}");
        }
    }
}

/// All ranks send all before anybody receives: many messages, and more bytes than a transport
/// keeps for itself.
async fn sending_never_waits(this: &Rank) {
    const COUNT: u64 = 300;
    let len = |number: u64| if number.is_multiple_of(50) { 300_000 } else { 100 };
    for number in 0..COUNT {
        for to in 0..this.size() {
            this.send(to, data(number), pattern(this.seed ^ number, len(number)));
        }
    }
    this.barrier(COUNT).await;
    for number in (0..COUNT).rev() {
        for from in 0..this.size() {
            let found = this.receive(from, data(number)).await;
            assert!(found == pattern(this.seed ^ number, len(number)), "message {number}");
        }
    }
}

/// A message of the random traffic, which sender and receiver both know.
#[derive(Clone, Copy)]
struct Parcel {
    tag: Tag,
    len: usize,
    content: u64,
}

/// What one rank sends to another.
fn parcels(seed: u64, from: u32, to: u32) -> Vec<Parcel> {
    let mut random = random(seed ^ (u64::from(from) << 32 | u64::from(to)));
    let count = random.random_range(0..60);
    let parcel = |random: &mut Random| {
        let lane = *LANES.choose(random).expect("there are lanes");
        let tag = Tag { call: random.random_range(0..4), lane };
        let longest = *[1, 100, 5000, 100_000].choose(random).expect("there are lengths");
        Parcel { tag, len: random.random_range(0..=longest), content: random.next_u64() }
    };
    (0..count).map(|_| parcel(&mut random)).collect()
}

/// Every rank sends and receives in an order of its own.
async fn random_traffic_arrives(this: &Rank) {
    let rank = this.rank();
    let mut random = random(this.seed.wrapping_mul(31) ^ u64::from(rank));
    let mut outgoing: Vec<(u32, Vec<Parcel>)> =
        (0..this.size()).map(|to| (to, parcels(this.seed, rank, to))).collect();
    let mut incoming: BTreeMap<(u32, Tag), Vec<Parcel>> = BTreeMap::new();
    for from in 0..this.size() {
        for parcel in parcels(this.seed, from, rank) {
            incoming.entry((from, parcel.tag)).or_default().push(parcel);
        }
    }
    outgoing.retain(|(_, parcels)| !parcels.is_empty());
    while !outgoing.is_empty() {
        let chosen = random.random_range(0..outgoing.len());
        let (to, parcels) = &mut outgoing[chosen];
        let parcel = parcels.remove(0);
        this.send(*to, parcel.tag, pattern(parcel.content, parcel.len));
        outgoing.retain(|(_, parcels)| !parcels.is_empty());
    }
    while !incoming.is_empty() {
        let keys: Vec<(u32, Tag)> = incoming.keys().copied().collect();
        let &(from, tag) = keys.choose(&mut random).expect("something is to come");
        let queue = incoming.entry((from, tag)).or_default();
        let parcel = queue.remove(0);
        if queue.is_empty() {
            incoming.remove(&(from, tag));
        }
        let found = this.receive(from, tag).await;
        assert_eq!(found.len(), parcel.len, "length of a message from {from}, {tag:?}");
        assert!(found == pattern(parcel.content, parcel.len), "bytes from {from}, {tag:?}");
    }
}

/// Bytes without a short period that follow from a number.
fn pattern(content: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (index, chunk) in (0..).zip(bytes.chunks_mut(8)) {
        chunk.copy_from_slice(&word(content, index)[..chunk.len()]);
    }
    bytes
}

/// Word `index` of a pattern.
fn word(content: u64, index: u64) -> [u8; 8] {
    (content ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_le_bytes()
}

async fn counters_lose_nothing(this: &Rank) {
    const ADDS: u64 = 100;
    let comm = &this.comm;
    let olds: Vec<u8> =
        (0..ADDS).flat_map(|_| must("add", comm.counter_add(1)).to_le_bytes()).collect();
    let all = must("all_gather", all_gather(&**comm, 0, olds).await).concat();
    let seen: BTreeSet<u64> = all
        .chunks_exact(8)
        .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")))
        .collect();
    let expected: BTreeSet<u64> = (0..ADDS * u64::from(this.size())).collect();
    assert!(seen == expected, "each rank sees old values that no other sees");
    if this.rank() == this.size() - 1 {
        must("set", comm.counter_set(u64::MAX - 10));
    }
    this.barrier(1).await;
    assert_eq!(must("add", comm.counter_add(0)), u64::MAX - 10, "all ranks see what one sets");
    this.barrier(2).await;
    if this.rank() == 0 {
        let error = comm.counter_add(11).expect_err("a sum beyond 2^64 is refused");
        assert_eq!(error.class(), ErrorClass::Arg, "{error}");
        assert_eq!(must("add", comm.counter_add(10)), u64::MAX - 10, "nothing was added");
    }
    this.barrier(3).await;
    assert_eq!(must("add", comm.counter_add(0)), u64::MAX);
}

async fn duplicates_are_apart(this: &Rank) {
    let one = must("duplicate", this.comm.duplicate());
    let two = must("duplicate", one.duplicate());
    let three = must("duplicate", this.comm.duplicate());
    let all = [(0, &this.comm), (1, &one), (2, &two), (3, &three)];
    for (number, comm) in all {
        assert_eq!((comm.rank(), comm.size()), (this.rank(), this.size()));
        must("send", comm.send(this.next(), data(0), vec![number]));
        must("add", comm.counter_add(u64::from(number)));
    }
    for (number, comm) in all.into_iter().rev() {
        let message = must("receive", receive(&**comm, this.previous(), data(0)).await);
        assert_eq!(message, [number], "messages stay in their duplicate");
    }
    this.barrier(1).await;
    for (number, comm) in all {
        let sum = u64::from(this.size()) * u64::from(number);
        assert_eq!(must("add", comm.counter_add(0)), sum, "counters stay in their duplicate");
    }
    drop((one, two));
    must("the barrier of a duplicate", barrier(&*three, 1).await);
}

async fn collectives_are_right(this: &Rank) {
    let (comm, size) = (&*this.comm, this.size());
    let own = |rank: u32| vec![byte(rank); usize::try_from(rank % 5).unwrap_or(0) * 40_000];
    for call in 0..3 {
        let all = must("all_gather", all_gather(comm, call, own(this.rank())).await);
        assert!(all.iter().eq((0..size).map(own).collect::<Vec<_>>().iter()), "all_gather");
    }
    for (call, len) in [(3, 0), (4, 1), (5, 100_000)] {
        let sent = if this.rank() == 0 { pattern(this.seed, len) } else { vec![9; 3] };
        let found = must("broadcast", broadcast(comm, call, sent).await);
        assert!(found == pattern(this.seed, len), "all have what rank 0 has");
    }
    for call in 6..20 {
        must("add", comm.counter_add(1));
        this.barrier(2 * call).await;
        let sum = must("add", comm.counter_add(0));
        assert_eq!(sum, u64::from(size) * (call - 5), "nobody leaves a barrier early");
        this.barrier(2 * call + 1).await;
    }
}

/// A value that a task makes and another one waits for.
struct Slot<T>(Arc<Mutex<(Option<T>, Option<Waker>)>>);

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot(Arc::new(Mutex::new((None, None))))
    }

    fn set(&self, value: T) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0 = Some(value);
        if let Some(waker) = inner.1.take() {
            waker.wake();
        }
    }

    async fn take(&self) -> T {
        std::future::poll_fn(|context| {
            let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match inner.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    inner.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Tasks wait for messages that come later; the caller waits for the tasks alone.
async fn spawned_tasks_go_on(this: &Rank) {
    const TASKS: u64 = 20;
    let alone = this.size() == 1;
    let send = |number: u64| this.send(this.next(), data(number), pattern(number, 20_000));
    if alone {
        (0..TASKS).for_each(send);
    }
    let mut slots = Vec::new();
    for number in 0..TASKS {
        let (comm, from, slot) = (this.comm.clone(), this.previous(), Slot::new());
        let result = Slot(slot.0.clone());
        this.comm.spawn(Box::pin(async move {
            result.set(receive(&*comm, from, data(number)).await);
        }));
        slots.push(slot);
    }
    if !alone {
        (0..TASKS).rev().for_each(send);
    }
    for (number, slot) in (0..).zip(slots) {
        let bytes = must("receive in a task", slot.take().await);
        assert!(bytes == pattern(number, 20_000), "what task {number} got");
    }
}

/// Collectives in tasks of one duplicate while the caller has some of its own.
async fn tasks_and_calls_go_on_together(this: &Rank) {
    const CALLS: u64 = 10;
    let other = must("duplicate", this.comm.duplicate());
    let mut slots = Vec::new();
    for call in 0..CALLS {
        let (comm, slot) = (other.clone(), Slot::new());
        let result = Slot(slot.0.clone());
        other.spawn(Box::pin(async move {
            let own = vec![byte(comm.rank()); 1000];
            result.set(all_gather(&*comm, call, own).await);
        }));
        slots.push(slot);
        this.barrier(call).await;
    }
    let expected: Vec<Vec<u8>> = (0..this.size()).map(|rank| vec![byte(rank); 1000]).collect();
    for slot in slots {
        let all = must("all_gather in a task", slot.take().await);
        assert_eq!(all, expected, "a collective of tasks");
    }
    this.barrier(CALLS).await;
}

/// From the first rank to the last one, all lengths at once, each before a short one.
async fn long_messages_are_whole(this: &Rank, lengths: &[usize]) {
    let (first, last) = (0, this.size() - 1);
    if this.rank() == first {
        for &len in lengths {
            this.send(last, data(0), pattern(this.seed, len));
            this.send(last, data(0), vec![1, 2, 3]);
        }
    }
    if this.rank() == last {
        for &len in lengths {
            let found = this.receive(first, data(0)).await;
            assert_eq!(found.len(), len, "length of a long message");
            assert!(is_pattern(this.seed, &found), "bytes of a message of {len}");
            assert_eq!(this.receive(first, data(0)).await, [1, 2, 3], "after {len} bytes");
        }
    }
    this.barrier(1).await;
}

/// Compares without a copy of the whole.
fn is_pattern(content: u64, found: &[u8]) -> bool {
    (0..).zip(found.chunks(8)).all(|(index, chunk)| *chunk == word(content, index)[..chunk.len()])
}
