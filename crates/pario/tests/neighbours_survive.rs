//! A rank that writes a window back, holes included, must not undo what others write there.

#![allow(clippy::unwrap_used)]

use pario::storage::Memory;
use pario::{Datatype, File, Position, Simulated, Solo, Strategy, Threads, View};
use std::sync::Arc;

/// Two ranks with every second block of four bytes each; both write theirs, in all orders that
/// the seeds give. What `hints` say must not matter.
fn both_survive(hints: &[(&str, &str)], collective_first: bool) {
    for seed in 0..100 {
        let memory = Memory::new();
        let mut options =
            File::options().read(true).write(true).create(true).driver(Arc::new(memory.clone()));
        for (key, value) in hints {
            options = options.hint(*key, *value);
        }
        Simulated::new(2, seed).run(|comm| {
            let options = options.clone();
            async move {
                let file = options.open_async(&*comm, "a").await.unwrap();
                let block = Datatype::contiguous(4, &Datatype::byte()).unwrap();
                let every_second = Datatype::resized(0, 8, &block).unwrap();
                let view = View::new(u64::from(comm.rank()) * 4, &Datatype::byte(), &every_second);
                file.handle().set_view(&view).await.unwrap();
                let mut calls = Vec::new();
                if collective_first {
                    let mine = if comm.rank() == 0 { vec![1u8; 40] } else { Vec::new() };
                    calls.push(file.iwrite_all(Position::Individual, mine));
                }
                if comm.rank() == 1 || !collective_first {
                    calls.push(file.iwrite(Position::At(0), vec![comm.rank() as u8 + 1; 40]));
                }
                for call in calls {
                    call.await.0.unwrap();
                }
                file.handle().close().await.unwrap();
            }
        });
        let wanted: Vec<u8> = (0..80).map(|offset| offset / 4 % 2 + 1).collect();
        assert_eq!(memory.contents("a").unwrap(), wanted, "seed {seed}, hints {hints:?}");
    }
}

/// A collective that was handed over may carry holes into which a rank writes by itself.
#[test]
fn writes_beside_a_collective_survive() {
    for strategy in pario::Strategy::all() {
        for switch in ["automatic", "enable", "disable"] {
            let hints = [("pario_strategy", strategy.name()), ("romio_ds_write", switch)];
            both_survive(&hints, true);
        }
    }
}

#[test]
fn independent_writes_survive_each_other() {
    for strategy in pario::Strategy::all() {
        for switch in ["automatic", "enable", "disable"] {
            let hints = [("pario_strategy", strategy.name()), ("romio_ds_write", switch)];
            both_survive(&hints, false);
        }
    }
}

/// Ranks that open one file each for themselves, as programs do with MPI_COMM_SELF, do not know of
/// each other: by default nobody carries bytes of others along.
#[test]
fn separate_opens_of_one_file_keep_each_others_bytes() {
    let store = Memory::new();
    Threads::new(4).run(|comm| {
        let solo = Solo::new();
        let options = File::options().read(true).write(true).create(true);
        let options = options.driver(Arc::new(store.clone()));
        let file = options.open(&*solo, "separate").unwrap();
        let byte = Datatype::byte();
        let every_fourth = Datatype::resized(0, 4, &byte).unwrap();
        file.set_view(&View::new(u64::from(comm.rank()), &byte, &every_fourth)).unwrap();
        let mine = vec![u8::try_from(comm.rank()).unwrap() + 1; 1000];
        file.write(0, &mine).unwrap();
        assert_eq!(file.last_call().strategy, Strategy::List);
        assert_eq!(file.last_call().storage_reads, 0);
        file.close().unwrap();
    });
    let bytes = store.contents("separate").unwrap();
    assert!(bytes.iter().enumerate().all(|(index, &byte)| usize::from(byte) == index % 4 + 1));
}
