//! The contract of communicators, on MPI. Started by `cargo xtask mpi-test`, with `mpirun`.
//!
//! Arguments: a level of threads (`single` or `multiple`), and maybe the length of a very long
//! message, which needs three times that much memory.

#![allow(clippy::expect_used)]

use pario::Communicator;
use pario::comm::{block_on, collective::broadcast};
use pario_mpi::Threading;
use pario_testkit::{conformance, seed};

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
    if let Some(len) = arguments.get(1) {
        let len = len.parse().expect("a length");
        conformance::communicator(world.clone(), seed, &[len]);
    }

    if world.rank() == 0 {
        println!("{}, {:?}, {:?}", universe.version(), universe.family(), universe.threading());
        println!("PASS");
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
