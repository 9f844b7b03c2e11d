//! A collective call that asks for the same bytes as one before uses its plan again; anything that
//! could make another plan better or necessary makes a new one.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pario::storage::Memory;
use pario::{Communicator, Datatype, File, HintSet, Threads, View};

const RANKS: u32 = 6;

fn open(memory: &Memory, comm: &dyn Communicator, strategy: &str) -> File {
    let options = File::options().driver(Arc::new(memory.clone())).hint("pario_strategy", strategy);
    options.read(true).write(true).create(true).open(comm, "f").unwrap()
}

/// Every rank sees every sixth pair of bytes, from `first` on.
fn interleaved(comm: &dyn Communicator, first: u64) -> View {
    let pair = Datatype::contiguous(2, &Datatype::byte()).unwrap();
    let spread = Datatype::resized(0, 2 * i64::from(RANKS), &pair).unwrap();
    View::new(first + 2 * u64::from(comm.rank()), &Datatype::byte(), &spread)
}

/// Whether each of some writes made a plan.
fn planned(file: &File, writes: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Vec<bool> {
    let write = |(position, data): (u64, Vec<u8>)| {
        file.write_all(position, &data).unwrap();
        file.last_call().planned
    };
    writes.into_iter().map(write).collect()
}

#[test]
fn the_same_request_is_planned_once() {
    for strategy in ["two-phase", "multi-phase", "inspector-executor", "list"] {
        for share_memory in [true, false] {
            let memory = Memory::new();
            Threads::new(RANKS).share_memory(share_memory).run(|comm| {
                let file = open(&memory, &*comm, strategy);
                file.set_view(&interleaved(&*comm, 0)).unwrap();
                let mine = |step: u8| (0, vec![step + u8::try_from(comm.rank()).unwrap(); 100]);
                let made = planned(&file, (0..100).map(mine));
                assert!(made[0] && !made[1..].contains(&true), "{strategy}: {made:?}");
                let mut back = [0; 100];
                assert_eq!(file.read_all(0, &mut back).unwrap().bytes, 100);
                assert!(file.last_call().planned, "a read is another request");
                assert_eq!(back.to_vec(), mine(99).1);
                file.close().unwrap();
            });
        }
    }
}

#[test]
fn another_position_view_or_hint_makes_another_plan() {
    let memory = Memory::new();
    Threads::new(RANKS).run(|comm| {
        let file = open(&memory, &*comm, "inspector-executor");
        file.set_view(&interleaved(&*comm, 0)).unwrap();
        let data = || vec![7; 40];
        let twice = |position| [(position, data()), (position, data())];
        assert_eq!(planned(&file, twice(0)), [true, false]);
        assert_eq!(planned(&file, twice(10)), [true, false]);
        assert_eq!(planned(&file, twice(0)), [false, false], "both plans are kept");
        file.set_view(&interleaved(&*comm, 5)).unwrap();
        assert_eq!(planned(&file, twice(0)), [true, false]);
        file.set_view(&interleaved(&*comm, 0)).unwrap();
        assert_eq!(planned(&file, twice(0)), [false, false], "an equal view is the same request");
        file.set_hints(&HintSet::new().with("cb_buffer_size", "4096")).unwrap();
        assert_eq!(planned(&file, twice(0)), [true, false]);
        assert_eq!(planned(&file, (1..21).map(|step| (step, data()))), [true; 20]);
        assert_eq!(planned(&file, twice(0)), [true, false], "not all plans are kept");
        file.close().unwrap();
    });
}

/// Ranks with nothing to write agree with the others; a rank that changes its request alone makes
/// all plan again.
#[test]
fn ranks_with_nothing_and_ranks_that_differ() {
    let memory = Memory::new();
    Threads::new(RANKS).run(|comm| {
        let file = open(&memory, &*comm, "inspector-executor");
        file.set_view(&interleaved(&*comm, 0)).unwrap();
        let rank = comm.rank();
        let data = |len| vec![u8::try_from(rank).unwrap(); if rank % 2 == 0 { len } else { 0 }];
        let made = planned(&file, [20, 40, 20, 40, 20].map(|len| (0, data(len))));
        assert_eq!(made, [true, true, false, false, false]);
        let alone = |len| (0, vec![9; if rank == 2 { len } else { 10 }]);
        let made = planned(&file, [10, 12, 10, 12].map(alone));
        assert_eq!(made, [true, true, false, false]);
        file.close().unwrap();
    });
    let file = memory.contents("f").unwrap();
    assert_eq!(&file[..4], [9; 4]);
    assert_eq!(file[2 * 2 + 5 * 12], 9, "the last pair of rank 2");
}
