//! Etypes that differ between ranks: their extents have to be equal, their sizes not (MPI-4.1,
//! section 14.3). Each rank counts its own etypes.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::io::SeekFrom;
use std::sync::Arc;

use pario::storage::Memory;
use pario::{Datatype, ErrorClass, File, OpenOptions, Position, Threads, View};

/// Rank 0 sees two bytes of eight, rank 1 all of the first four, rank 2 all eight.
fn etype(rank: u32) -> Datatype {
    let bytes = Datatype::contiguous([2, 4, 8][rank as usize], &Datatype::byte());
    Datatype::resized(0, 8, &bytes.expect("small")).expect("small")
}

fn options(memory: &Memory) -> OpenOptions {
    File::options().read(true).write(true).create(true).driver(Arc::new(memory.clone()))
}

fn size(rank: u32) -> usize {
    usize::try_from(etype(rank).size()).unwrap()
}

fn letters(rank: u32, count: usize) -> Vec<u8> {
    vec![[b'a', b'b', b'c'][rank as usize]; count * size(rank)]
}

/// What a value of a rank is in a file of slots of eight bytes.
fn slot(rank: u32) -> Vec<u8> {
    let mut slot = letters(rank, 1);
    slot.resize(8, b'.');
    slot
}

fn contents(memory: &Memory) -> Vec<u8> {
    let mut bytes = memory.contents("f").expect("is there");
    bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'.');
    bytes.resize(bytes.len().next_multiple_of(8), b'.');
    bytes
}

#[test]
fn explicit_positions_count_slots_of_the_extent() {
    let memory = Memory::new();
    Threads::new(3).run(|comm| {
        let (file, rank) = (options(&memory).open(&*comm, "f").expect("opens"), comm.rank());
        file.set_view(&View::new(0, &etype(rank), &etype(rank))).expect("one extent");
        file.write_all(u64::from(rank), &letters(rank, 1)).expect("writes");
    });
    assert_eq!(contents(&memory), [slot(0), slot(1), slot(2)].concat());
}

#[test]
fn ordered_calls_take_slots_in_the_order_of_ranks() {
    let memory = Memory::new();
    Threads::new(3).run(|comm| {
        let (file, rank) = (options(&memory).open(&*comm, "f").expect("opens"), comm.rank());
        file.set_view(&View::new(0, &etype(rank), &etype(rank))).expect("one extent");
        // As many values as the rank has number, and one more.
        let count = rank as usize + 1;
        file.write_all(Position::Shared, &letters(rank, count)).expect("writes");
        assert_eq!(file.position_shared().expect("known"), 6);
        file.seek_shared(SeekFrom::Start(0)).expect("seeks");
        let mut back = vec![0; count * size(rank)];
        file.read_all(Position::Shared, &mut back).expect("reads");
        assert_eq!(back, letters(rank, count));
    });
    let slots = [slot(0), slot(1), slot(1), slot(2), slot(2), slot(2)];
    assert_eq!(contents(&memory), slots.concat());
}

#[test]
fn the_shared_pointer_counts_etypes_of_the_rank_that_moves_it() {
    let memory = Memory::new();
    Threads::new(3).run(|comm| {
        let (file, rank) = (options(&memory).open(&*comm, "f").expect("opens"), comm.rank());
        file.set_view(&View::new(0, &etype(rank), &etype(rank))).expect("one extent");
        file.write(Position::Shared, &letters(rank, 2)).expect("writes");
    });
    let bytes = contents(&memory);
    // Ranks come in any order; each has two slots, one after the other.
    let mut pairs: Vec<&[u8]> = bytes.chunks(16).collect();
    pairs.sort();
    let two = |rank| [slot(rank), slot(rank)].concat();
    assert_eq!(pairs, [two(0), two(1), two(2)]);
}

#[test]
fn etypes_of_one_size_and_different_extents_are_refused() {
    let memory = Memory::new();
    Threads::new(2).run(|comm| {
        let file = options(&memory).open(&*comm, "f").expect("opens");
        let extent = 4 + 4 * i64::from(comm.rank());
        let etype = Datatype::resized(0, extent, &Datatype::of::<i32>()).expect("small");
        let error = file.set_view(&View::new(0, &etype, &etype)).expect_err("extents differ");
        assert_eq!(error.class(), ErrorClass::NotSame);
        assert!(error.to_string().contains("extent of the etype"), "{error}");
    });
}
