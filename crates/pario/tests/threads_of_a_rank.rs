//! Several threads of a rank make collective calls on one file at the same time: each call moves
//! the right bytes, and no two of them use the same shared windows.

#![allow(clippy::expect_used)]

use std::sync::Arc;

use pario::storage::Memory;
use pario::{Datatype, File, Threads, View};
use pario_testkit::watchdog::Watchdog;

const RANKS: u32 = 3;
const THREADS: u32 = 3;
const PIECE: u64 = 64;
const PIECES: u64 = 500;

fn byte_of(offset: u64) -> u8 {
    u8::try_from(offset * 13 % 251).expect("small")
}

#[test]
fn collectives_of_several_threads_do_not_mix() {
    let _watchdog = Watchdog::new("collectives_of_several_threads_do_not_mix");
    let memory = Memory::new();
    let file: Vec<u8> = (0..PIECE * PIECES * u64::from(RANKS)).map(byte_of).collect();
    memory.put("f", &file);
    for _ in 0..20 {
        Threads::new(RANKS).shared_bytes(32 << 10).run(|comm| {
            let options = File::options().read(true).driver(Arc::new(memory.clone()));
            let options = options.hint("cb_buffer_size", "4096");
            let file = options.hint("pario_strategy", "two-phase").open(&*comm, "f");
            let file = file.expect("opens");
            let byte = Datatype::byte();
            let once = Datatype::contiguous(PIECE, &byte).expect("a type");
            let row = (PIECE * u64::from(RANKS)).cast_signed();
            let filetype = Datatype::resized(0, row, &once).expect("a type");
            let start = u64::from(comm.rank()) * PIECE;
            file.set_view(&View::new(start, &byte, &filetype)).expect("a view");
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let mut data = vec![0; usize::try_from(PIECE * PIECES).expect("small")];
                        file.read_all(0, &mut data).expect("reads");
                        for (index, &found) in (0..).zip(&data) {
                            let offset =
                                index / PIECE * row.cast_unsigned() + start + index % PIECE;
                            assert_eq!(found, byte_of(offset), "byte {index}");
                        }
                    });
                }
            });
            file.close().expect("closes");
        });
    }
}
