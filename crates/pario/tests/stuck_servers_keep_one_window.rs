//! A rank that is stuck in a read keeps one window; the others fetch all that have a slot. (Of a
//! write they would need its bytes.)

#![allow(clippy::expect_used)]

use std::sync::{Arc, Condvar, Mutex};

use pario::storage::{Memory, Operation};
use pario::{Datatype, File, Threads, View};
use pario_testkit::device::Hooked;
use pario_testkit::watchdog::Watchdog;

const RANKS: u32 = 6;
const PIECE: u64 = 64;
const WINDOW_BYTES: u64 = 384 * 16;

fn byte_of(offset: u64) -> u8 {
    u8::try_from(offset * 7 % 251).expect("small")
}

/// As many windows as there are slots: two for each aggregator.
fn windows(aggregators: u32) -> u64 {
    2 * u64::from(aggregators)
}

/// The bytes of a rank, in its order.
fn data_of(rank: u32, windows: u64) -> Vec<u8> {
    let rows = windows * WINDOW_BYTES / (PIECE * u64::from(RANKS));
    let piece = |row: u64| (row * u64::from(RANKS) + u64::from(rank)) * PIECE;
    (0..rows).flat_map(|row| (0..PIECE).map(move |byte| byte_of(piece(row) + byte))).collect()
}

/// Counts what ranks transfer. The first transfer of one of them waits until the others have made
/// all others, and these wait until it has begun.
#[derive(Default)]
struct Transfers {
    begun: Mutex<Begun>,
    changed: Condvar,
}

#[derive(Default)]
struct Begun {
    by_stuck: u64,
    by_others: u64,
}

impl Transfers {
    fn note(&self, operation: Operation, is_stuck: bool, windows: u64) {
        if !operation.reads() {
            return;
        }
        let mut begun = self.begun.lock().expect("nobody panics");
        match is_stuck {
            true => begun.by_stuck += 1,
            false => begun.by_others += 1,
        }
        self.changed.notify_all();
        let waits = |begun: &Begun| match is_stuck {
            true => begun.by_stuck == 1 && begun.by_others < windows - 1,
            false => begun.by_stuck == 0,
        };
        while waits(&begun) {
            begun = self.changed.wait(begun).expect("nobody panics");
        }
    }
}

#[test]
fn windows_of_a_stuck_server_are_served_by_others() {
    let watchdog = Watchdog::new("windows_of_a_stuck_server_are_served_by_others");
    for aggregators in 2..=4 {
        for stuck in 0..aggregators {
            watchdog.step(format!("{aggregators} aggregators, {stuck} is stuck"));
            check(aggregators, stuck);
        }
    }
}

fn check(aggregators: u32, stuck: u32) {
    let (memory, windows) = (Memory::new(), windows(aggregators));
    let file: Vec<u8> = (0..windows * WINDOW_BYTES).map(byte_of).collect();
    memory.put("f", &file);
    let transfers = Arc::new(Transfers::default());
    Threads::new(RANKS).run(|comm| {
        let rank = comm.rank();
        let seen = transfers.clone();
        let hooked = Hooked::new(memory.clone(), move |operation| {
            seen.note(operation, rank == stuck, windows);
            Ok(())
        });
        let options = File::options().read(true).write(true).create(true);
        let options = options.hint("pario_strategy", "two-phase");
        let options = options.hint("cb_nodes", aggregators.to_string());
        let options = options.hint("cb_buffer_size", WINDOW_BYTES.to_string());
        let options = options.hint("striping_unit", WINDOW_BYTES.to_string());
        let file = options.driver(Arc::new(hooked)).open(&*comm, "f").expect("opens");
        let byte = Datatype::byte();
        let once = Datatype::contiguous(PIECE, &byte).expect("a type");
        let row = i64::try_from(u64::from(RANKS) * PIECE).expect("short");
        let filetype = Datatype::resized(0, row, &once).expect("a type");
        let view = View::new(u64::from(rank) * PIECE, &byte, &filetype);
        file.set_view(&view).expect("a view");
        let data = data_of(rank, windows);
        let mut back = vec![0; data.len()];
        let status = file.read_all(0, &mut back).expect("reads");
        assert!(back == data, "{aggregators} aggregators, {stuck} is stuck, rank {rank}");
        assert_eq!(status.bytes, data.len() as u64);
        file.close().expect("closes");
    });
    let begun = transfers.begun.lock().expect("nobody panics");
    let counts = (begun.by_stuck, begun.by_others);
    assert_eq!(counts, (1, windows - 1), "{aggregators}, {stuck}");
}
