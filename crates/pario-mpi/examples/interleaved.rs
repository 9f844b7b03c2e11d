//! Ranks of an MPI job write one file together: each has every n-th block of floats.
//!
//!     cargo build --release -p pario-mpi --example interleaved
//!     mpirun -n 4 target/release/examples/interleaved interleaved.dat

use pario::{Communicator, Datatype, Error, ErrorClass, File, View};

const BLOCK: usize = 25;
const BLOCKS: usize = 4000;

fn main() -> pario::Result<()> {
    let path = std::env::args().nth(1).unwrap_or("interleaved.dat".to_owned());
    let universe = pario_mpi::initialize()?;
    let world = universe.world();
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));

    // A block of floats, and then those of all others.
    let float = Datatype::of::<f32>();
    let block = Datatype::contiguous(BLOCK as u64, &float)?;
    let block_bytes = (BLOCK * size_of::<f32>()) as u64;
    let mine = Datatype::resized(0, (size * block_bytes) as i64, &block)?;
    let view = View::new(rank * block_bytes, &float, &mine);

    let numbers =
        |rank: u64| (0..BLOCK * BLOCKS).map(move |index| (rank * 1000) as f32 + index as f32);
    let written: Vec<f32> = numbers(rank).collect();
    let file = File::options().read(true).write(true).create(true).open(&*world, &path)?;
    file.set_view(&view)?;
    file.write_all(0, &written)?;
    if rank == 0 {
        println!("{} ranks on {}\n{}", size, universe.version(), file.last_call());
    }

    // Every rank reads what another one has written.
    let other = (rank + 1) % size;
    file.set_view(&View::new(other * block_bytes, &float, &mine))?;
    let mut read = vec![0f32; BLOCK * BLOCKS];
    file.read_all(0, &mut read)?;
    file.close()?;
    if !read.iter().copied().eq(numbers(other)) {
        return Err(Error::new(ErrorClass::Other, "what was read is not what was written"));
    }
    println!("rank {rank}: all {} floats of rank {other} are right", read.len());
    Ok(())
}
