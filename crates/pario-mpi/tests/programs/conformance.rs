//! The contract of communicators, on MPI. Started by `cargo xtask mpi-test`, with `mpirun`.
//!
//! Arguments: a level of threads (`single` or `multiple`), and maybe the length of a very long
//! message, which needs three times that much memory.

#![allow(clippy::expect_used)]

use std::collections::{BTreeMap, VecDeque};

use pario::Communicator;
use pario::comm::{Lane, Tag, block_on, collective::broadcast, receive};
use pario_mpi::Threading;
use pario_testkit::{conformance, seed};
use rand::RngExt;

const PIECE: usize = 1000;
const LENGTHS: [usize; 6] = [PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 5, 100 * PIECE];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threading = match arguments.first().map(String::as_str) {
        Some("multiple") => Threading::Multiple,
        Some("single") => Threading::Single,
        _ => panic!("an argument says `single` or `multiple`"),
    };
    let universe = pario_mpi::initialize_with(threading).expect("MPI begins");
    let world = universe.world();
    let seed = common_seed(&*world);

    conformance::communicator(world.clone(), seed, &[5_000_000]);
    // Pieces that are short enough for a test take the way of messages beyond 2 GiB.
    let pieces = world.with_piece_bytes(PIECE).expect("a duplicate");
    conformance::communicator(pieces, seed, &LENGTHS);
    // Between nodes the counter is a window of MPI.
    for nodes in [2, 3] {
        let spread = world.with_nodes(nodes).expect("a duplicate");
        let last = spread.size() - 1;
        assert_eq!(spread.node(last) > 0, last > 0, "the last rank is elsewhere");
        conformance::communicator(spread, seed, &[]);
    }
    if world.size() == 2 {
        block_on(&*world, two_ranks_talk(&*world, seed));
    }
    if let Some(len) = arguments.get(1) {
        let len = len.parse().expect("a length");
        conformance::communicator(world.clone(), seed, &[len]);
    }

    if world.rank() == 0 {
        println!("{}, {:?}, {:?}", universe.version(), universe.family(), universe.threading());
        println!("memory is shared: {}", world.region().is_some());
        println!("PASS");
    }
}

/// Many messages of all lengths in either direction. Those of a batch are taken in another order
/// than they were sent in, but for those of one tag.
async fn two_ranks_talk(world: &dyn Communicator, seed: u64) {
    const BATCHES: u64 = 1000;
    const BATCH: u32 = 100;
    const LANES: [Lane; 3] = [Lane::Control, Lane::Data, Lane::Answer];
    let peer = 1 - world.rank();
    // What a rank sends in a batch: sender and receiver both know it.
    let batch = |from: u32, number: u64| {
        let mut random = seed::random(seed ^ number << 1 ^ u64::from(from));
        let lengths = [0, 10, 200, 3000, 9000, 100_000];
        let message = move |_| {
            let lane = LANES[random.random_range(0..LANES.len())];
            // Few are long.
            let kind = random.random_range(0..lengths.len()).min(random.random_range(0..50));
            let bytes = vec![random.random(); random.random_range(0..=lengths[kind])];
            (Tag { call: random.random_range(10..14), lane }, bytes)
        };
        (0..BATCH).map(message)
    };
    let mut random = seed::random(seed ^ u64::from(peer));
    for number in 0..BATCHES {
        for (tag, bytes) in batch(world.rank(), number) {
            world.send(peer, tag, bytes).expect("a message is sent");
        }
        let mut expected: BTreeMap<Tag, VecDeque<Vec<u8>>> = BTreeMap::new();
        for (tag, bytes) in batch(peer, number) {
            expected.entry(tag).or_default().push_back(bytes);
        }
        while !expected.is_empty() {
            let chosen = random.random_range(0..expected.len());
            let tag = *expected.keys().nth(chosen).expect("one of them");
            let found = receive(world, peer, tag).await.expect("a message arrives");
            let queue = expected.get_mut(&tag).expect("it is expected");
            let bytes = queue.pop_front().expect("it is expected");
            assert_eq!(found.len(), bytes.len(), "length of a message in batch {number}, {tag:?}");
            assert!(found == bytes, "bytes of a message in batch {number}, {tag:?}");
            if queue.is_empty() {
                expected.remove(&tag);
            }
        }
    }
}

/// The seed of rank 0, which prints it.
fn common_seed(world: &dyn Communicator) -> u64 {
    let own = match world.rank() {
        0 => seed::first_seed(),
        _ => 0,
    };
    let bytes = block_on(world, broadcast(world, 0, own.to_le_bytes().to_vec()));
    let bytes = bytes.expect("a broadcast");
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
