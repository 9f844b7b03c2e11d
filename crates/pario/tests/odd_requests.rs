//! Requests at the edges: of no bytes, far beyond 2^31, across the end of the file, by shared
//! pointers from many ranks, five hundred at a time.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::io::SeekFrom;
use std::path::Path;
use std::sync::Arc;

use pario::storage::{Driver, Memory, OpenMode, Posix};
use pario::{Datatype, ErrorClass, File, OpenOptions, Position, Strategy, Threads, View};
use pario_testkit::scratch::Scratch;
use pario_testkit::watchdog::Watchdog;

fn options(memory: &Memory) -> OpenOptions {
    File::options().read(true).write(true).create(true).driver(Arc::new(memory.clone()))
}

fn value(rank: u32) -> u8 {
    u8::try_from(rank + 1).expect("small")
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

/// A view of every `ranks`th piece of `piece` bytes, from a displacement on.
fn strided(displacement: u64, rank: u32, ranks: u32, piece: u64) -> View {
    let byte = Datatype::byte();
    let block = Datatype::contiguous(piece, &byte).expect("small");
    let extent = i64::from(ranks) * piece.cast_signed();
    let filetype = Datatype::resized(0, extent, &block).expect("small");
    View::new(displacement + u64::from(rank) * piece, &byte, &filetype)
}

fn transports(ranks: u32) -> [Threads; 4] {
    let threads = Threads::new(ranks);
    let (apart, processes) = (threads.clone().share_memory(false), threads.clone());
    [threads.clone(), apart, processes, threads.shared_bytes(1 << 10)]
}

/// A view that shows nothing has no position but the first, which is where it begins.
#[test]
fn an_empty_view_begins_at_its_displacement_and_has_no_other_position() {
    Threads::new(1).run(|comm| {
        let file = options(&Memory::new()).open(&*comm, "f").expect("opens");
        let nothing = Datatype::contiguous(0, &Datatype::byte()).expect("small");
        file.set_view(&View::new(24, &Datatype::byte(), &nothing)).expect("a view of nothing");
        assert_eq!(file.byte_offset(0).expect("the displacement"), 24);
        let error = file.byte_offset(1).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Arg);
        assert!(error.to_string().contains("shows no bytes"), "{error}");
    });
}

#[test]
fn requests_of_no_bytes_succeed_and_change_nothing() {
    let _watchdog = Watchdog::new("odd_requests: no bytes");
    for strategy in Strategy::all() {
        for threads in transports(3) {
            let memory = Memory::new();
            threads.run(|comm| {
                let options = options(&memory).hint("pario_strategy", strategy.name());
                let file = options.open(&*comm, "f").expect("opens");
                let nothing: [u8; 0] = [];
                for position in [0, 5, 1 << 40, u64::MAX] {
                    assert_eq!(file.write_all(position, &nothing).expect("writes").bytes, 0);
                    assert_eq!(file.write(position, &nothing).expect("writes").bytes, 0);
                    assert_eq!(file.read_all(position, &mut [0u8; 0]).expect("reads").bytes, 0);
                }
                file.write_all(Position::Shared, &nothing).expect("writes");
                assert_eq!(file.size().expect("known"), 0);
                assert_eq!(file.position_shared().expect("known"), 0);
                file.close().expect("closes");
            });
        }
    }
}

#[test]
fn a_view_without_bytes_takes_requests_of_no_bytes_only() {
    let _watchdog = Watchdog::new("odd_requests: empty view");
    let memory = Memory::new();
    for threads in transports(3) {
        memory.put("f", &[7; 30]);
        threads.run(|comm| {
            let file = options(&memory).open(&*comm, "f").expect("opens");
            let empty = Datatype::contiguous(0, &Datatype::byte()).expect("a datatype");
            // Rank 1 sees nothing; the others see bytes and write them.
            let filetype = if comm.rank() == 1 { empty } else { Datatype::byte() };
            file.set_view(&View::new(0, &Datatype::byte(), &filetype)).expect("a view");
            let data = vec![value(comm.rank()); if comm.rank() == 1 { 0 } else { 5 }];
            let position = u64::from(comm.rank()) * 5;
            let written = file.write_all(position, &data).expect("writes").bytes;
            assert_eq!(index(written), data.len());
            let position = if comm.rank() == 1 { 0 } else { position };
            let result = file.write_all(position, &[9u8; 5]);
            assert_eq!(result.expect_err("rank 1 has no room").class(), ErrorClass::Arg);
            file.close().expect("closes");
        });
        let expected = [[1; 5], [7; 5], [3; 5], [7; 5], [7; 5], [7; 5]].concat();
        assert_eq!(memory.contents("f").expect("there"), expected);
    }
}

const FAR: [u64; 6] = [(1 << 31) - 1, 1 << 31, (1 << 32) - 3, (1 << 32) + 1, 1 << 40, 1 << 42];

/// Writes and reads interleaved pieces at an offset, with every strategy.
fn move_far(driver: &Arc<dyn Driver>, path: &Path, offset: u64) {
    for strategy in Strategy::all() {
        for threads in transports(3) {
            threads.run(|comm| {
                let options = File::options().read(true).write(true).create(true);
                let options = options.driver(driver.clone()).delete_on_close(true);
                let options = options.hint("pario_strategy", strategy.name());
                let file = options.open(&*comm, path).expect("opens");
                file.set_view(&strided(offset, comm.rank(), 3, 5)).expect("a view");
                let data: Vec<u8> = (0..60).map(|byte| byte * 4 + value(comm.rank())).collect();
                file.write_all(0, &data).expect("writes");
                let mut back = vec![0u8; 60];
                assert_eq!(file.read_all(0, &mut back).expect("reads").bytes, 60);
                assert_eq!(back, data, "{strategy} at {offset}");
                assert_eq!(file.size().expect("known"), offset + 180);
                file.set_view(&View::bytes()).expect("a view");
                let mut all = vec![9u8; 182];
                assert_eq!(file.read(offset - 2, &mut all).expect("reads").bytes, 182);
                assert_eq!(all[..2], [0, 0], "nothing before");
                for (place, &byte) in all[2..].iter().enumerate() {
                    let (rank, piece) = (place / 5 % 3, place / 15 * 5 + place % 5);
                    assert_eq!(usize::from(byte), piece * 4 + rank + 1, "{strategy} {offset}");
                }
                file.close().expect("closes");
            });
        }
    }
}

#[test]
fn offsets_far_behind_two_gigabytes_are_exact_in_memory() {
    let watchdog = Watchdog::new("odd_requests: far in memory");
    let driver: Arc<dyn Driver> = Arc::new(Memory::new());
    for offset in FAR {
        watchdog.step(format!("{offset}"));
        move_far(&driver, Path::new("far"), offset);
    }
}

#[test]
fn offsets_far_behind_two_gigabytes_are_exact_in_sparse_files() {
    let watchdog = Watchdog::new("odd_requests: far in files");
    let scratch = Scratch::new();
    let driver: Arc<dyn Driver> = Arc::new(Posix);
    for offset in FAR {
        watchdog.step(format!("{offset}"));
        move_far(&driver, &scratch.path("far"), offset);
    }
    assert_eq!(scratch.names(), [""; 0], "deleted on close");
}

/// Reads that cross the end count the bytes before it, whatever the strategy.
#[test]
fn reads_across_the_end_count_the_bytes_before_it() {
    let watchdog = Watchdog::new("odd_requests: end of file");
    let contents: Vec<u8> = (0..100).map(|offset| offset + 1).collect();
    let memory = Memory::new();
    for strategy in Strategy::all() {
        for threads in transports(3) {
            for size in [0, 1, 14, 15, 16, 47, 60, 99, 100] {
                watchdog.step(format!("{strategy} {threads:?} {size}"));
                memory.put("f", &contents[..size]);
                threads.run(|comm| {
                    let options = options(&memory).hint("pario_strategy", strategy.name());
                    let options = options.hint("cb_buffer_size", "64").hint("cb_nodes", "2");
                    let options = options.hint("striping_unit", "16");
                    let file = options.hint("ind_rd_buffer_size", "64").open(&*comm, "f");
                    let file = file.expect("opens");
                    // Strided: pieces of 5 bytes.
                    file.set_view(&strided(0, comm.rank(), 3, 5)).expect("a view");
                    let place =
                        |byte: usize| byte / 5 * 15 + index(u64::from(comm.rank())) * 5 + byte % 5;
                    let expected = (0..60).take_while(|&byte| place(byte) < size).count();
                    let mut data = vec![0u8; 60];
                    let status = file.read_all(0, &mut data).expect("reads");
                    let context = format!("{strategy} size {size} rank {}", comm.rank());
                    assert_eq!(index(status.bytes), expected, "{context}");
                    for (byte, &found) in data.iter().enumerate() {
                        let there = if byte < expected { contents[place(byte)] } else { 0 };
                        assert_eq!(found, there, "{context}");
                    }
                    let mut alone = vec![0u8; 60];
                    let status = file.read(0, &mut alone).expect("reads");
                    assert_eq!(index(status.bytes), expected, "{context}, alone");
                    assert_eq!(alone, data, "{context}, alone");
                    // Contiguous: each rank its 40 bytes.
                    file.set_view(&View::bytes()).expect("a view");
                    let start = index(u64::from(comm.rank())) * 40;
                    let expected = size.saturating_sub(start).min(40);
                    let mut data = vec![0u8; 40];
                    let position = u64::from(comm.rank()) * 40;
                    let status = file.read_all(position, &mut data).expect("reads");
                    assert_eq!(index(status.bytes), expected, "{context}, contiguous");
                    if expected > 0 {
                        assert_eq!(data[..expected], contents[start..start + expected]);
                    }
                    assert!(data[expected..].iter().all(|&byte| byte == 0), "{context}");
                    file.close().expect("closes");
                });
            }
        }
    }
}

/// Ranks that read the same short pieces want more bytes of a window than it has. There are many
/// ranks for each core, so that bytes are packed in shared windows where there are such.
#[test]
fn many_ranks_read_the_same_short_pieces() {
    let watchdog = Watchdog::new("odd_requests: the same pieces");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ranks = u32::try_from(4 * cores).expect("not too many");
    let contents: Vec<u8> = (0..5000u32).map(|offset| (offset % 251) as u8).collect();
    let memory = Memory::new();
    memory.put("f", &contents);
    for threads in transports(ranks) {
        watchdog.step(format!("{threads:?}"));
        threads.run(|comm| {
            let options = options(&memory).hint("pario_strategy", "two-phase");
            let file = options.open(&*comm, "f").expect("opens");
            // Ranks 0 and 1 have pieces in turn, and all others the same as rank 1.
            file.set_view(&strided(0, comm.rank().min(1), 2, 4)).expect("a view");
            let first = index(u64::from(comm.rank().min(1))) * 4;
            let mut data = vec![0u8; 2500];
            let status = file.read_all(0, &mut data).expect("reads");
            assert_eq!(status.bytes, 2500);
            let place = |byte: usize| byte / 4 * 8 + first + byte % 4;
            assert!((0..2500).all(|byte| data[byte] == contents[place(byte)]));
            file.close().expect("closes");
        });
    }
}

#[test]
fn delete_on_close_leaves_nothing() {
    let scratch = Scratch::new();
    Threads::new(3).run(|comm| {
        let options = File::options().write(true).create(true).delete_on_close(true);
        let file = options.open(&*comm, scratch.path("f")).expect("opens");
        file.write_all(u64::from(comm.rank()), &[1u8]).expect("writes");
        file.close().expect("closes");
    });
    assert_eq!(scratch.names(), [""; 0]);
}

#[test]
fn append_begins_at_the_end() {
    let memory = Memory::new();
    memory.put("f", &[7; 10]);
    Threads::new(2).run(|comm| {
        let file = options(&memory).append(true).open(&*comm, "f").expect("opens");
        assert_eq!((file.position(), file.position_shared().expect("known")), (10, 10));
        file.write_all(Position::Shared, &[value(comm.rank()); 3]).expect("writes");
        file.close().expect("closes");
    });
    assert_eq!(memory.contents("f").expect("there")[10..], [1, 1, 1, 2, 2, 2]);
}

#[test]
fn unique_open_changes_no_byte() {
    for unique in [false, true] {
        let memory = Memory::new();
        Threads::new(3).run(|comm| {
            let file = options(&memory).unique_open(unique).open(&*comm, "f").expect("opens");
            file.set_view(&strided(0, comm.rank(), 3, 4)).expect("a view");
            file.write_all(0, &[value(comm.rank()); 40]).expect("writes");
            file.write(40, &[value(comm.rank()); 40]).expect("writes");
            file.close().expect("closes");
        });
        let contents = memory.contents("f").expect("there");
        assert_eq!(contents.len(), 240);
        assert!(contents.iter().enumerate().all(|(offset, &byte)| {
            byte == value(u32::try_from(offset / 4 % 3).expect("small"))
        }));
    }
}

/// MPI-4.1, sections 14.2.4 to 14.2.6.
#[test]
fn set_size_cuts_and_extends_and_preallocate_only_extends() {
    let scratch = Scratch::new();
    let memory = Memory::new();
    let drivers: [(Arc<dyn Driver>, _); 2] =
        [(Arc::new(memory), scratch.path("a")), (Arc::new(Posix), scratch.path("b"))];
    for (driver, path) in &drivers {
        Threads::new(2).run(|comm| {
            let options = File::options().read(true).write(true).create(true);
            let file = options.driver(driver.clone()).open(&*comm, path).expect("opens");
            file.write_all(u64::from(comm.rank()) * 50, &[5u8; 50]).expect("writes");
            file.seek(SeekFrom::Start(70)).expect("seeks");
            for (bytes, preallocate, expected) in [
                (50, true, 100),
                (200, true, 200),
                (150, true, 200),
                (60, false, 60),
                (300, false, 300),
                (0, true, 300),
            ] {
                match preallocate {
                    true => file.preallocate(bytes).expect("room"),
                    false => file.set_size(bytes).expect("cuts or extends"),
                }
                assert_eq!(file.size().expect("known"), expected);
                assert_eq!(file.position(), 70, "pointers stay");
            }
            let mut all = vec![9u8; 300];
            assert_eq!(file.read_all(0, &mut all).expect("reads").bytes, 300);
            assert_eq!(all[..60], [5; 60]);
            assert!(all[60..].iter().all(|&byte| byte == 0), "what was cut does not come back");
            file.set_size(0).expect("cuts");
            assert_eq!(file.size().expect("known"), 0);
            file.close().expect("closes");
        });
    }
}

/// Records of different length by the shared pointer: all are there, none overlap.
#[test]
fn shared_pointer_writes_of_many_ranks_never_overlap() {
    let _watchdog = Watchdog::new("odd_requests: shared pointer");
    const RANKS: u32 = 8;
    for threads in transports(RANKS) {
        let memory = Memory::new();
        threads.run(|comm| {
            let file = options(&memory).open(&*comm, "f").expect("opens");
            let len = index(u64::from(comm.rank())) + 2;
            let mut pending = Vec::new();
            for turn in 0..50u8 {
                // A record: its writer, its number, and its writer again as often as it takes.
                let mut record = vec![value(comm.rank()); len];
                record[1] = 100 + turn;
                match turn % 2 {
                    0 => {
                        file.write(Position::Shared, &record).expect("writes");
                    }
                    _ => pending.push(file.iwrite(Position::Shared, record)),
                }
            }
            for one in pending {
                one.wait().0.expect("writes");
            }
            file.close().expect("closes");
        });
        let contents = memory.contents("f").expect("there");
        let mut seen = vec![Vec::new(); index(u64::from(RANKS))];
        let mut rest = &contents[..];
        while let [writer, turn, ..] = *rest {
            let len = usize::from(writer) + 1;
            assert!(rest[2..len].iter().all(|&byte| byte == writer), "a record is whole");
            seen[usize::from(writer) - 1].push(turn - 100);
            rest = &rest[len..];
        }
        for mut turns in seen {
            turns.sort_unstable();
            assert_eq!(turns, (0..50).collect::<Vec<u8>>(), "every record once");
        }
    }
}

/// Collective calls by the shared pointer take their places in the order of the ranks.
#[test]
fn ordered_writes_are_in_the_order_of_the_ranks() {
    let _watchdog = Watchdog::new("odd_requests: ordered");
    const RANKS: u32 = 7;
    for threads in transports(RANKS) {
        let memory = Memory::new();
        threads.run(|comm| {
            let file = options(&memory).open(&*comm, "f").expect("opens");
            for turn in 0..20u32 {
                let len = (comm.rank() + turn) % 4;
                let data = vec![value(comm.rank()); index(u64::from(len))];
                file.write_all(Position::Shared, &data).expect("writes");
            }
            let end = file.position_shared().expect("known");
            assert_eq!(end, file.size().expect("known"));
            file.seek_shared(SeekFrom::Start(0)).expect("seeks");
            for turn in 0..20u32 {
                let mut data = vec![0u8; index(u64::from((comm.rank() + turn) % 4))];
                file.read_all(Position::Shared, &mut data).expect("reads");
                assert!(data.iter().all(|&byte| byte == value(comm.rank())), "turn {turn}");
            }
            file.close().expect("closes");
        });
        let expected: Vec<u8> = (0..20u32)
            .flat_map(|turn| (0..RANKS).map(move |rank| (turn, rank)))
            .flat_map(|(turn, rank)| vec![value(rank); index(u64::from((rank + turn) % 4))])
            .collect();
        assert_eq!(memory.contents("f").expect("there"), expected);
    }
}

#[test]
fn split_collectives_move_the_same_bytes_as_blocking_ones() {
    let _watchdog = Watchdog::new("odd_requests: split");
    for threads in transports(3) {
        let memory = Memory::new();
        threads.run(|comm| {
            let file = options(&memory).open(&*comm, "f").expect("opens");
            file.set_view(&strided(0, comm.rank(), 3, 4)).expect("a view");
            for turn in 0..10u64 {
                let data = vec![value(comm.rank()); 40];
                let split = file.write_all_begin(turn * 40, data).expect("begins");
                // Independent calls are allowed meanwhile.
                let mut byte = [0u8];
                file.read(0, &mut byte).expect("reads");
                let (result, data) = split.end();
                assert_eq!(result.expect("writes").bytes, 40);
                let split = file.read_all_begin(turn * 40, vec![0u8; 40]).expect("begins");
                let (result, back) = split.end();
                assert_eq!((result.expect("reads").bytes, back), (40, data));
            }
            file.close().expect("closes");
        });
        let contents = memory.contents("f").expect("there");
        assert_eq!(contents.len(), 1200);
        assert!(contents.iter().enumerate().all(|(offset, &byte)| {
            byte == value(u32::try_from(offset / 4 % 3).expect("small"))
        }));
    }
}

#[test]
fn five_hundred_calls_at_a_time_all_end() {
    let _watchdog = Watchdog::new("odd_requests: 500 calls");
    const CALLS: u64 = 500;
    for threads in transports(3) {
        let memory = Memory::new();
        threads.run(|comm| {
            let file = options(&memory).open(&*comm, "f").expect("opens");
            file.set_view(&strided(0, comm.rank(), 3, 4)).expect("a view");
            let data = || vec![value(comm.rank()); 4];
            let write = |call: u64| match call % 5 {
                0 => file.iwrite_all(call * 4, data()),
                _ => file.iwrite(call * 4, data()),
            };
            let pending: Vec<_> = (0..CALLS).map(write).collect();
            for one in pending {
                assert_eq!(one.wait().0.expect("writes").bytes, 4);
            }
            let reads: Vec<_> = (0..CALLS)
                .map(|call| match call % 5 {
                    0 => file.iread_all(call * 4, vec![0u8; 4]),
                    _ => file.iread(call * 4, vec![0u8; 4]),
                })
                .collect();
            for one in reads {
                let (result, back) = one.wait();
                assert_eq!((result.expect("reads").bytes, back), (4, data()));
            }
            // Closing waits for what is still on its way, also if nobody waits for it.
            for call in 0..CALLS {
                drop(file.iwrite((CALLS + call) * 4, data()));
            }
            file.close().expect("closes");
        });
        let contents = memory.contents("f").expect("there");
        assert_eq!(index(CALLS * 2 * 12), contents.len());
        assert!(contents.iter().enumerate().all(|(offset, &byte)| {
            byte == value(u32::try_from(offset / 4 % 3).expect("small"))
        }));
    }
}

/// Files that somebody cut meanwhile are short, and nothing worse.
#[test]
fn a_file_cut_by_somebody_else_is_read_short() {
    let memory = Memory::new();
    memory.put("f", &[7; 100]);
    Threads::new(2).run(|comm| {
        let file = options(&memory).open(&*comm, "f").expect("opens");
        file.read_all(0, &mut [0u8; 100]).expect("reads");
        if comm.rank() == 0 {
            let mode = OpenMode { write: true, ..OpenMode::default() };
            let other = memory.open(Path::new("f"), mode).expect("opens");
            other.set_size(30).expect("cuts");
        }
        file.sync().expect("syncs");
        let mut data = [0u8; 100];
        assert_eq!(file.read_all(0, &mut data).expect("reads").bytes, 30);
        file.close().expect("closes");
    });
}
