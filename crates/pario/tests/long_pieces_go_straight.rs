//! Pieces that fill a window and are long enough are read into the ranks' memory without it; every
//! byte is where the obvious loop puts it.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use pario::storage::{Driver, Memory, Posix};
use pario::{Datatype, File, Source, Target, Threads, View};
use pario_testkit::seed;
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// What all ranks of a case do: blocks dealt out in turn, from a displacement on.
struct Case {
    ranks: u32,
    block: usize,
    blocks: usize,
    displacement: u64,
    /// Bytes between the blocks in memory.
    gap: usize,
    buffer_bytes: u64,
}

impl Case {
    fn random(random: &mut impl Rng) -> Case {
        Case {
            ranks: random.random_range(1..=6),
            block: random.random_range(1..=3000),
            blocks: random.random_range(1..=40),
            displacement: random.random_range(0..=5000),
            gap: *[0, 0, 1, 7].get(random.random_range(0..4)).unwrap(),
            buffer_bytes: random.random_range(64..=20_000),
        }
    }

    /// Byte `byte` of a block of a rank.
    fn value(&self, rank: u32, block: usize, byte: usize) -> u8 {
        u8::try_from((rank as usize * 89 + block * 31 + byte * 7) % 251 + 1).unwrap()
    }

    fn memory(&self, rank: u32) -> Vec<u8> {
        let mut memory = vec![0; self.blocks * (self.block + self.gap)];
        for block in 0..self.blocks {
            for byte in 0..self.block {
                memory[block * (self.block + self.gap) + byte] = self.value(rank, block, byte);
            }
        }
        memory
    }

    fn file(&self) -> Vec<u8> {
        let mut file = vec![0; usize::try_from(self.displacement).unwrap()];
        for block in 0..self.blocks {
            for rank in 0..self.ranks {
                file.extend((0..self.block).map(|byte| self.value(rank, block, byte)));
            }
        }
        file
    }

    /// The time in which windows were emptied, over all ranks.
    fn run(&self, threads: &Threads, driver: &Arc<dyn Driver>, path: &str) -> Duration {
        let byte = Datatype::byte();
        let whole = self.file();
        let packing = threads.run(|comm| {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .driver(driver.clone())
                .hint("pario_strategy", "two-phase")
                .hint("pario_long_piece_bytes", "1")
                .hint("cb_buffer_size", self.buffer_bytes.to_string())
                .open(&*comm, path)
                .unwrap();
            let block = Datatype::contiguous(self.block as u64, &byte).unwrap();
            let extent = (self.block * self.ranks as usize) as i64;
            let turn = Datatype::resized(0, extent, &block).unwrap();
            let start = self.displacement + u64::from(comm.rank()) * self.block as u64;
            file.set_view(&View::new(start, &byte, &turn)).unwrap();
            let stride = (self.block + self.gap) as i64;
            let in_memory = Datatype::resized(0, stride, &block).unwrap();
            let count = self.blocks as u64;
            let memory = self.memory(comm.rank());
            let source = Source::typed(&memory, 0, count, &in_memory).unwrap();
            file.write_all(0, source).unwrap();
            let mut found = vec![0; memory.len()];
            let target = Target::typed(&mut found, 0, count, &in_memory).unwrap();
            assert_eq!(file.read_all(0, target).unwrap().bytes, (self.block * self.blocks) as u64);
            let packing = file.last_call().packing;
            assert!(found == memory);
            // Behind the end of the file nothing is read.
            let cut = self.displacement + (whole.len() as u64 - self.displacement) / 2;
            file.set_size(cut).unwrap();
            let mut found = vec![255; memory.len()];
            let target = Target::typed(&mut found, 0, count, &in_memory).unwrap();
            let moved = file.read_all(0, target).unwrap().bytes;
            let mut data = 0;
            for block in 0..self.blocks {
                for byte in 0..self.block {
                    let index = block * (self.block + self.gap) + byte;
                    let expected = if data < moved { memory[index] } else { 255 };
                    assert_eq!(found[index], expected);
                    data += 1;
                }
            }
            file.set_size(whole.len() as u64).unwrap();
            let source = Source::typed(&memory, 0, count, &in_memory).unwrap();
            file.write_all(0, source).unwrap();
            file.set_view(&View::bytes()).unwrap();
            let mut all = vec![0u8; whole.len()];
            file.read(0, &mut all).unwrap();
            assert!(all == whole);
            file.close().unwrap();
            packing
        });
        packing.into_iter().sum()
    }
}

#[test]
fn every_byte_is_in_its_place() {
    let seed = seed::first_seed();
    println!("PARIO_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let directory = std::env::temp_dir();
    let mut straight = 0;
    for number in 0..150 {
        let case = Case::random(&mut random);
        let threads = Threads::new(case.ranks);
        let memory: Arc<dyn Driver> = Arc::new(Memory::new());
        let packing = case.run(&threads, &memory, "long");
        straight += u32::from(packing == Duration::ZERO);
        let processes = threads.clone().as_processes();
        case.run(&processes, &(Arc::new(Memory::new()) as Arc<dyn Driver>), "long");
        if number % 10 == 0 {
            let path = directory.join(format!("pario-long-{}-{number}", std::process::id()));
            let posix: Arc<dyn Driver> = Arc::new(Posix);
            case.run(&threads, &posix, path.to_str().unwrap());
            std::fs::remove_file(path).unwrap();
        }
    }
    assert!(straight > 100, "only {straight} of 150 cases used no window");
}
