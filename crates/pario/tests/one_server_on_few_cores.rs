//! More ranks than cores, and one of them serves all others: every rank leaves the call with its
//! bytes.

#![allow(clippy::expect_used)]

use std::sync::Arc;

use pario::storage::Memory;
use pario::{Datatype, File, Threads, View};
use pario_testkit::watchdog::Watchdog;

const BYTES_IN_ALL: u64 = 16 << 20;
const CALLS: u8 = 4;

fn byte_of(rank: u32, call: u8, index: usize) -> u8 {
    u8::try_from((index * 7 + usize::from(call) * 31 + rank as usize) % 251).expect("small")
}

#[test]
fn every_rank_leaves_with_its_bytes() {
    let _watchdog = Watchdog::new("every_rank_leaves_with_its_bytes");
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let ranks = u32::try_from(2 * processors + 3).expect("few processors");
    let threads = |common: usize| Threads::new(ranks).shared_bytes(common);
    for (common_bytes, windows) in [(1 << 20, "disable"), (1 << 20, "enable"), (8 << 20, "enable")]
    {
        for piece in [4, 512] {
            let memory = Memory::new();
            threads(common_bytes).run(|comm| {
                let options = File::options().read(true).write(true).create(true);
                let options = options.hint("cb_nodes", "1").hint("pario_strategy", "two-phase");
                let options = options.hint("pario_shared_windows", windows);
                let file = options.driver(Arc::new(memory.clone())).open(&*comm, "f");
                let file = file.expect("opens");
                let (rank, byte) = (comm.rank(), Datatype::byte());
                let once = Datatype::contiguous(piece, &byte).expect("a type");
                let row = i64::try_from(u64::from(ranks) * piece).expect("short");
                let filetype = Datatype::resized(0, row, &once).expect("a type");
                let view = View::new(u64::from(rank) * piece, &byte, &filetype);
                file.set_view(&view).expect("a view");
                let len = BYTES_IN_ALL / u64::from(ranks) / piece * piece;
                let len = usize::try_from(len).expect("fits");
                for call in 0..CALLS {
                    let data: Vec<u8> = (0..len).map(|index| byte_of(rank, call, index)).collect();
                    assert_eq!(file.write_all(0, &data).expect("writes").bytes, len as u64);
                    let mut back = vec![0; len];
                    assert_eq!(file.read_all(0, &mut back).expect("reads").bytes, len as u64);
                    assert!(back == data, "{windows}, pieces of {piece}, call {call}");
                }
                file.close().expect("closes");
            });
        }
    }
}
