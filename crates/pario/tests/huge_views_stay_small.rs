//! A view of 10^9 blocks costs no more than one of ten: neither memory nor time grows with it.

#![allow(clippy::unwrap_used)]

use pario::{Datatype, ErrorClass, File, Position, Strategy, Threads, View};
use pario_testkit::allocation::Counting;
use std::os::unix::fs::FileExt;

#[global_allocator]
static COUNTING: Counting = Counting::new();

const BLOCKS: u64 = 1_000_000_000;
const RANKS: u32 = 4;
/// Bytes from one block of a rank to its next.
const TURN: u64 = 4 * RANKS as u64;

/// The largest amount of memory this process ever had, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn datatype_questions_take_no_walk() {
    COUNTING.reset();
    let column = Datatype::vector(BLOCKS, 1, i64::from(RANKS), &Datatype::of::<f32>()).unwrap();
    assert_eq!(column.size(), 4 * BLOCKS);
    assert_eq!(column.extent().cast_unsigned(), (BLOCKS - 1) * TURN + 4);
    assert_eq!(column.pieces(), BLOCKS);
    let last = 4 * BLOCKS - 1;
    assert_eq!(column.offset_of(last).unwrap().cast_unsigned(), (BLOCKS - 1) * TURN + 3);
    assert_eq!(column.offset_of(last + 1), None);
    // Beyond 2^31 and 2^32, and back.
    for block in [1u64 << 28, (1 << 28) + 1, 1 << 29, 999_999_999] {
        let offset = (block * TURN).cast_signed();
        assert_eq!(column.offset_of(block * 4), Some(offset));
        assert_eq!(column.bytes_below(offset), Some(block * 4));
        assert_eq!(column.bytes_below(offset + 3), Some(block * 4 + 3));
        assert_eq!(column.bytes_below(offset + 9), Some(block * 4 + 4));
    }
    assert!((column.density() - 0.25).abs() < 1e-6);
    let nested = Datatype::vector(1000, 1, 2, &column).unwrap();
    assert_eq!(nested.pieces(), 1000 * BLOCKS);
    assert!(COUNTING.calls() < 100, "{} allocations", COUNTING.calls());
    assert!(COUNTING.peak_bytes() < 10_000);
    let too_far = Datatype::vector(BLOCKS, 1, i64::MAX / 8, &column).unwrap_err();
    assert_eq!(too_far.class(), ErrorClass::Type);
}

/// Writes a few numbers at the beginning, in the middle and near the end of the view.
fn a_sparse_file_gets_its_few_bytes(strategy: Strategy) {
    let path = std::env::temp_dir().join(format!("pario-huge-{}-{strategy}", std::process::id()));
    let places = [0, BLOCKS / 2 + 7, BLOCKS - 100];
    Threads::new(RANKS).run(|comm| {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .hint("pario_strategy", strategy.name())
            .open(&*comm, &path)
            .unwrap();
        let number = Datatype::of::<u32>();
        let column = Datatype::vector(BLOCKS, 1, i64::from(RANKS), &number).unwrap();
        let rank = comm.rank();
        file.set_view(&View::new(4 * u64::from(rank), &number, &column)).unwrap();
        for place in places {
            let mine: Vec<u32> = (0..100).map(|turn| turn * RANKS + rank).collect();
            assert_eq!(file.write_all(place, &mine).unwrap().count::<u32>(), 100);
            let mut back = vec![0u32; 100];
            assert_eq!(file.read_all(place, &mut back).unwrap().bytes, 400);
            assert_eq!(back, mine);
        }
        // The second tile of the filetype begins right after the first.
        assert_eq!(
            file.byte_offset(BLOCKS).unwrap(),
            4 * u64::from(rank) + column.extent().cast_unsigned()
        );
        let beyond = file.write_all(u64::MAX / 2, &[1u32]).unwrap_err();
        assert_eq!(beyond.class(), ErrorClass::Type);
        file.close().unwrap();
    });
    let file = std::fs::File::open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), BLOCKS * TURN);
    for place in places {
        let mut bytes = vec![0; 400 * usize::try_from(RANKS).unwrap()];
        file.read_exact_at(&mut bytes, place * TURN).unwrap();
        for (index, number) in bytes.chunks(4).enumerate() {
            assert_eq!(number, u32::try_from(index).unwrap().to_ne_bytes());
        }
    }
    std::fs::remove_file(&path).unwrap();
}

/// Blocks so far apart that no strategy may look at what lies between.
fn blocks_a_tebibyte_apart_are_written(strategy: Strategy) {
    Threads::new(2).run(|comm| {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .hint("pario_strategy", strategy.name())
            .open(&*comm, format!("memory:far-{strategy}"))
            .unwrap();
        let far = Datatype::resized(0, 1 << 40, &Datatype::of::<u64>()).unwrap();
        let start = 8 * u64::from(comm.rank());
        file.set_view(&View::new(start, &Datatype::of::<u64>(), &far)).unwrap();
        let mine: Vec<u64> = (0..1000).map(|turn| turn * 2 + u64::from(comm.rank())).collect();
        file.write_all(Position::Individual, &mine).unwrap();
        let mut back = vec![0u64; 1000];
        file.read_all(0, &mut back).unwrap();
        assert_eq!(back, mine);
        assert_eq!(file.size().unwrap(), 999 * (1 << 40) + 16);
        file.close().unwrap();
    });
    File::delete(format!("memory:far-{strategy}")).unwrap();
}

/// One test, since the memory it measures is that of the whole process.
#[test]
fn a_billion_blocks_need_less_than_fifty_megabytes() {
    datatype_questions_take_no_walk();
    for strategy in Strategy::all() {
        a_sparse_file_gets_its_few_bytes(strategy);
    }
    assert!(resident_bytes() < 50 << 20, "{} bytes resident", resident_bytes());
    for strategy in Strategy::all() {
        blocks_a_tebibyte_apart_are_written(strategy);
    }
}
