//! Ranks that take their bytes out of shared windows by themselves do not know the lists of the
//! others, and yet fetch what all need, and no window that nobody does.

#![allow(clippy::expect_used)]

use std::sync::Arc;

use pario::storage::{Memory, Operation, Trace, TraceEvent};
use pario::{Datatype, File, Strategy, Threads, View};
use pario_testkit::seed::{first_seed, random};
use pario_testkit::watchdog::Watchdog;
use rand::RngExt;

const RANKS: u32 = 5;
/// Ranks with lists; the others have a few blocks, and nothing.
const IRREGULAR: usize = 3;
const WINDOW_BYTES: u64 = 4096;

/// Offsets and lengths.
type Blocks = Vec<(u64, u64)>;

fn byte_of(offset: u64) -> u8 {
    u8::try_from(offset * 7 % 251).expect("small")
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

/// Blocks that belong to one rank or another, in groups with long holes between them.
fn blocks_of_all(seed: u64) -> Vec<Blocks> {
    let mut random = random(seed);
    let mut blocks = vec![Blocks::new(); index(u64::from(RANKS))];
    let mut end = random.random_range(0..5000);
    for _ in 0..8 {
        for _ in 0..random.random_range(300..700) {
            let len = random.random_range(64..200);
            blocks[random.random_range(0..IRREGULAR)].push((end, len));
            end += len + [0, 0, 0, 1, 70][random.random_range(0..5usize)];
        }
        blocks[IRREGULAR].push((end, 100));
        end += random.random_range(100..20_000);
    }
    blocks
}

#[test]
fn all_get_their_bytes() {
    let watchdog = Watchdog::new("all_get_their_bytes");
    let seed = first_seed();
    for turn in 0..20 {
        let blocks = blocks_of_all(seed.wrapping_add(turn));
        let end = blocks.iter().flatten().map(|(offset, len)| offset + len).max().expect("some");
        // Every other file ends where somebody still has bytes.
        let file_bytes = if turn % 2 == 0 { end } else { end * (turn + 1) / 21 };
        watchdog.step(format!("PARIO_SEED={} {file_bytes} of {end}", seed.wrapping_add(turn)));
        check(&blocks, file_bytes);
    }
}

fn check(blocks: &[Blocks], file_bytes: u64) {
    let memory = Memory::new();
    memory.put("f", &(0..file_bytes).map(byte_of).collect::<Vec<u8>>());
    let threads = Threads::new(RANKS);
    let events = threads.shared_bytes(index(4 * WINDOW_BYTES)).run(|comm| {
        let own = &blocks[index(u64::from(comm.rank()))];
        let trace = Trace::new(Arc::new(memory.clone()), 10_000);
        let options = File::options().read(true).driver(Arc::new(trace.clone()));
        let options = options.hint("cb_buffer_size", "4096").hint("pario_strategy", "two-phase");
        let file = options.open(&*comm, "f").expect("opens");
        let (places, lens): (Vec<i64>, Vec<u64>) =
            own.iter().map(|&(offset, len)| (offset.cast_signed(), len)).unzip();
        let list = Datatype::hindexed(&lens, &places, &Datatype::byte()).expect("a type");
        let filetype = if own.is_empty() { &Datatype::byte() } else { &list };
        file.set_view(&View::new(0, &Datatype::byte(), filetype)).expect("a view");
        let mut bytes = vec![0; index(lens.iter().sum())];
        // The second call has the plan of the first.
        for _ in 0..2 {
            bytes.fill(0);
            let moved = file.read_all(0, &mut bytes).expect("reads");
            let offsets = own.iter().flat_map(|&(offset, len)| offset..offset + len);
            let there = offsets.clone().filter(|&offset| offset < file_bytes).count();
            assert_eq!(moved.bytes, u64::try_from(there).expect("few"));
            let expected = offsets.take(there).map(byte_of);
            assert!(bytes[..there].iter().copied().eq(expected), "rank {}", comm.rank());
            let call = file.last_call();
            assert_eq!((call.strategy, call.aggregators), (Strategy::TwoPhase, u64::from(RANKS)));
        }
        file.close().expect("closes");
        trace.events()
    });
    let reads = |event: &&TraceEvent| event.operation == Operation::Read;
    for read in events.iter().flatten().filter(reads) {
        let window = read.offset / WINDOW_BYTES;
        let inside = |offset: u64| offset / WINDOW_BYTES == window;
        let bytes = blocks.iter().flatten().flat_map(|&(offset, len)| offset..offset + len);
        let wanted: Vec<u64> = bytes.filter(|&offset| inside(offset)).collect();
        let (first, last) = (wanted.iter().min(), wanted.iter().max());
        assert_eq!((first, last), (Some(&read.offset), Some(&(read.offset + read.len - 1))));
    }
}
