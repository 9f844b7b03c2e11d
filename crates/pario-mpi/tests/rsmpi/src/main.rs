//! A program of the `mpi` crate that writes and reads a file with pario.
//!
//! It uses MPI as such programs do: the crate initialises MPI, divides the world, and sends
//! messages of its own while pario uses a duplicate of the same communicator.

use mpi::collective::SystemOperation;
use mpi::raw::AsRaw;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator as _, CommunicatorCollectives, Destination, Source};
use pario::{Communicator as _, Datatype, File, View};
use pario_mpi::MpiCommunicator;

const COUNT: u64 = 10_000;

fn main() {
    let universe = mpi::initialize().expect("MPI begins");
    let world = universe.world();
    through(&world, "world.dat");

    // Ranks of odd and even numbers have files of their own.
    let half = world.rank() % 2;
    let color = Color::with_value(half);
    let part = world.split_by_color(color).expect("every rank has a color");
    through(&part, &format!("part-{half}.dat"));
    world.barrier();

    let mut all_right = 0;
    world.all_reduce_into(&1, &mut all_right, SystemOperation::sum());
    if world.rank() == 0 && all_right == world.size() {
        println!("PASS");
    }
}

/// Writes and reads a file by all ranks of a communicator.
fn through(theirs: &SimpleCommunicator, path: &str) {
    // SAFETY: the handle is that of a communicator that lives.
    let comm = unsafe { MpiCommunicator::from_raw(theirs.as_raw().0) }.expect("a duplicate");
    assert_eq!(i64::from(comm.rank()), i64::from(theirs.rank()));
    assert_eq!(i64::from(comm.size()), i64::from(theirs.size()));

    // A message in flight while pario works must not be taken for one of pario's.
    let next = theirs.process_at_rank((theirs.rank() + 1) % theirs.size());
    let previous = theirs.process_at_rank((theirs.rank() + theirs.size() - 1) % theirs.size());
    let sent = theirs.rank();
    mpi::request::scope(|scope| {
        let sending = next.immediate_send(scope, &sent);
        write_and_read(&comm, path);
        let (received, _) = previous.receive::<i32>();
        assert_eq!(received, (theirs.rank() + theirs.size() - 1) % theirs.size());
        sending.wait();
    });
    theirs.barrier();
    if theirs.rank() == 0 {
        std::fs::remove_file(path).expect("the file is there");
    }
}

/// Every rank writes every n-th number, and reads the whole file.
fn write_and_read(comm: &MpiCommunicator, path: &str) {
    let (rank, size) = (u64::from(comm.rank()), u64::from(comm.size()));
    let number = Datatype::of::<u64>();
    let every = Datatype::resized(0, i64::try_from(size * 8).unwrap(), &number).unwrap();
    let options = File::options().read(true).write(true).create(true);
    let file = options.open(comm, path).expect("a file");
    file.set_view(&View::new(rank * 8, &number, &every)).expect("a view");
    let mine: Vec<u64> = (0..COUNT).map(|index| index * size + rank).collect();
    file.write_all(0, &mine).expect("a write");
    file.set_view(&View::new(0, &number, &number)).expect("a view");
    let mut all = vec![0u64; mine.len() * comm.size() as usize];
    file.read_all(0, &mut all).expect("a read");
    assert!(all.iter().copied().eq(0..COUNT * size), "all numbers are in order");
    file.close().expect("a close");
}
