//! Bugs that other MPI-IO libraries had or have, as their public reports describe them: pario
//! does not have them.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::sync::Arc;

use pario::storage::{Fault, FaultPlan, Memory, Operation, Trace};
use pario::{
    Darray, DarrayDimension, Datatype, Distribution, ErrorClass, File, OpenOptions, Order,
    Position, Strategy, Threads, View,
};
use pario_testkit::seed::{first_seed, random};
use pario_testkit::watchdog::Watchdog;
use rand::RngExt;
use rand::seq::SliceRandom;

fn options(memory: &Memory) -> OpenOptions {
    File::options().read(true).write(true).create(true).driver(Arc::new(memory.clone()))
}

fn transports(ranks: u32) -> [Threads; 2] {
    [Threads::new(ranks), Threads::new(ranks).share_memory(false)]
}

fn value(rank: u32) -> u8 {
    u8::try_from(rank + 1).expect("small")
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

/// A view of every `ranks`th piece of `piece` bytes.
fn interleaved(rank: u32, ranks: u32, piece: u64) -> View {
    let byte = Datatype::byte();
    let block = Datatype::contiguous(piece, &byte).expect("small");
    let extent = i64::from(ranks) * piece.cast_signed();
    let filetype = Datatype::resized(0, extent, &block).expect("small");
    View::new(u64::from(rank) * piece, &byte, &filetype)
}

/// Fails one storage call of rank 1 inside a collective of many rounds, and returns the classes
/// that the ranks see.
fn classes_after(errno: i32, counts: fn(Operation) -> bool, write: bool) -> Vec<ErrorClass> {
    let memory = Memory::new();
    memory.put("f", &[9; 4096]);
    Threads::new(4).share_memory(false).run(|comm| {
        let call = if comm.rank() == 1 { 2 } else { 0 };
        let plan = FaultPlan { counts, ..FaultPlan::fail_call(call, errno) };
        let fault = Fault::new(Arc::new(memory.clone()), plan);
        let options = File::options().read(true).write(true).driver(Arc::new(fault));
        let options = options.hint("cb_nodes", "2").hint("cb_config_list", "*:2");
        let options = options.hint("cb_buffer_size", "128").hint("striping_unit", "64");
        let file = options.hint("collective_buffering", "true").open(&*comm, "f").expect("opens");
        file.set_view(&interleaved(comm.rank(), 4, 16)).expect("a good view");
        let mut data = vec![value(comm.rank()); 1024];
        let result = match write {
            true => file.write_all(0, &data),
            false => file.read_all(0, &mut data),
        };
        result.expect_err("rank 1 fails").class()
    })
}

/// A read error on one aggregator hangs the other ranks (pmodels/mpich#6585).
#[test]
fn mpich_6585_a_read_error_on_one_rank_reaches_all() {
    let _watchdog = Watchdog::new("mpich#6585");
    const EIO: i32 = 5;
    assert_eq!(classes_after(EIO, Operation::reads, false), [ErrorClass::Io; 4]);
}

/// An exceeded quota on one aggregator hangs the job (ornladios/ADIOS2#5037).
#[test]
fn adios2_5037_an_exceeded_quota_on_one_aggregator_reaches_all() {
    let _watchdog = Watchdog::new("ADIOS2#5037");
    const EDQUOT: i32 = 122;
    assert_eq!(classes_after(EDQUOT, Operation::writes, true), [ErrorClass::Quota; 4]);
}

/// Wrong bytes with indexed views (open-mpi/ompi#6296, #10546, #11917): blocks of unequal length
/// at irregular places, dealt out to the ranks at random, several filetypes per request.
#[test]
fn ompi_6296_10546_11917_indexed_views_move_the_right_bytes() {
    let watchdog = Watchdog::new("ompi#6296");
    let seed = first_seed();
    for turn in 0..60 {
        let mut random = random(seed.wrapping_add(turn));
        let ranks = random.random_range(1..6u32);
        let (mut blocks, mut end) = (vec![Vec::new(); index(u64::from(ranks))], 0i64);
        for _ in 0..random.random_range(1..60) {
            let len = random.random_range(1..30u64);
            let rank = random.random_range(0..blocks.len());
            blocks[rank].push((len, end));
            end += len.cast_signed() + random.random_range(0..20i64);
        }
        let strategies: Vec<Strategy> = Strategy::all().collect();
        let strategy = strategies[random.random_range(0..strategies.len())];
        let context = format!("PARIO_SEED={} {strategy} {blocks:?}", seed.wrapping_add(turn));
        watchdog.step(context.clone());
        let memory = Memory::new();
        for threads in transports(ranks) {
            memory.put("f", &[]);
            threads.run(|comm| {
                let (lens, places): (Vec<u64>, Vec<i64>) =
                    blocks[index(u64::from(comm.rank()))].iter().copied().unzip();
                let list = Datatype::hindexed(&lens, &places, &Datatype::byte()).expect("small");
                let filetype = Datatype::resized(0, end, &list).expect("small");
                let options = options(&memory).hint("pario_strategy", strategy.name());
                let options = options.hint("cb_buffer_size", "64").hint("striping_unit", "8");
                let file = options.open(&*comm, "f").expect("opens");
                file.set_view(&View::new(5, &Datatype::byte(), &filetype)).expect("a view");
                let data = vec![value(comm.rank()); index(filetype.size() * 3)];
                let mut back = vec![0u8; data.len()];
                file.write_all(0, &data).expect("writes");
                file.read_all(0, &mut back).expect("reads");
                assert_eq!(back, data, "{context}");
                file.close().expect("closes");
            });
            let mut expected = Vec::new();
            for (rank, blocks) in (0..).zip(&blocks) {
                for repetition in 0..3 {
                    for &(len, place) in blocks {
                        let start = index((5 + repetition * end + place).cast_unsigned());
                        let stop = start + index(len);
                        expected.resize(expected.len().max(stop), 0);
                        expected[start..stop].fill(value(rank));
                    }
                }
            }
            assert_eq!(memory.contents("f").expect("there"), expected, "{context}");
        }
    }
}

/// Wrong bytes with darrays that are block in one dimension and cyclic in the other
/// (open-mpi/ompi#3975).
#[test]
fn ompi_3975_block_and_cyclic_darrays_move_the_right_bytes() {
    let _watchdog = Watchdog::new("ompi#3975");
    const ROWS: u64 = 7;
    const COLUMNS: u64 = 10;
    for (first, second) in [
        (Distribution::Block, Distribution::Cyclic),
        (Distribution::Cyclic, Distribution::Block),
        (Distribution::Cyclic, Distribution::Cyclic),
    ] {
        let dimension = |size, distribution, argument| DarrayDimension {
            size,
            distribution,
            argument,
            processes: 2,
        };
        let argument = (second == Distribution::Cyclic).then_some(3);
        let dimensions = vec![dimension(ROWS, first, None), dimension(COLUMNS, second, argument)];
        let memory = Memory::new();
        for threads in transports(4) {
            memory.put("f", &[]);
            threads.run(|comm| {
                let darray = Darray {
                    size: 4,
                    rank: comm.rank(),
                    dimensions: dimensions.clone(),
                    order: Order::C,
                };
                let filetype = Datatype::darray(&darray, &Datatype::byte()).expect("small");
                let file = options(&memory).open(&*comm, "f").expect("opens");
                file.set_view(&View::new(0, &Datatype::byte(), &filetype)).expect("a view");
                file.write_all(0, &vec![value(comm.rank()); index(filetype.size())])
                    .expect("writes");
                file.close().expect("closes");
            });
            let owner = |place: u64, size: u64, distribution, block: u64| match distribution {
                Distribution::Block => place / size.div_ceil(2),
                _ => place / block % 2,
            };
            let expected: Vec<u8> = (0..ROWS * COLUMNS)
                .map(|cell| {
                    let row = owner(cell / COLUMNS, ROWS, first, 1);
                    let column = owner(cell % COLUMNS, COLUMNS, second, 3);
                    value(u32::try_from(row * 2 + column).expect("small"))
                })
                .collect();
            assert_eq!(memory.contents("f").expect("there"), expected, "{first:?} {second:?}");
        }
    }
}

/// The status counts what was asked for, not what was read (pmodels/mpich#2348, p4est#288).
#[test]
fn mpich_2348_a_read_at_the_end_of_the_file_counts_what_was_there() {
    let _watchdog = Watchdog::new("mpich#2348");
    let memory = Memory::new();
    memory.put("f", &[7; 100]);
    for threads in transports(3) {
        threads.run(|comm| {
            let file = options(&memory).open(&*comm, "f").expect("opens");
            let mut data = [0u8; 64];
            assert_eq!(file.read_all(60, &mut data).expect("reads").bytes, 40);
            assert_eq!(file.read_all(100, &mut data).expect("reads").bytes, 0);
            assert_eq!(file.read(99, &mut data).expect("reads").bytes, 1);
            assert_eq!(file.read(1 << 40, &mut data).expect("reads").bytes, 0);
            file.close().expect("closes");
        });
    }
}

/// A rank with nothing to write must still take part (Unidata/netcdf-c#719).
#[test]
fn netcdf_c_719_ranks_with_a_count_of_zero_take_part() {
    let _watchdog = Watchdog::new("netcdf-c#719");
    for strategy in Strategy::all() {
        for busy in 0..8u32 {
            let memory = Memory::new();
            Threads::new(3).share_memory(busy % 2 == 0).run(|comm| {
                let options = options(&memory).hint("pario_strategy", strategy.name());
                let file = options.open(&*comm, "f").expect("opens");
                file.set_view(&interleaved(comm.rank(), 3, 4)).expect("a view");
                let len = if busy >> comm.rank() & 1 == 1 { 20 } else { 0 };
                let data = vec![value(comm.rank()); len];
                let written = file.write_all(Position::Individual, &data).expect("writes");
                assert_eq!(index(written.bytes), len);
                file.close().expect("closes");
            });
            let contents = memory.contents("f").expect("there");
            for rank in (0..3).filter(|rank| busy >> rank & 1 == 1) {
                let count = contents.iter().filter(|&&byte| byte == value(rank)).count();
                assert_eq!(count, 20, "{strategy} {busy:#b}");
            }
        }
    }
}

/// Aggregators write ranges that overlap, or that are not aligned to stripes
/// (open-mpi/ompi#13376): their ranges must be disjoint, and end at stripes.
#[test]
fn ompi_13376_aggregators_write_disjoint_aligned_ranges() {
    let _watchdog = Watchdog::new("ompi#13376");
    const STRIPE: u64 = 128;
    // Aggregators that are threads may do the rounds of one that comes late.
    for (threads, writers) in transports(6).into_iter().zip([1..=3, 3..=3]) {
        let memory = Memory::new();
        memory.put("f", &[9; 5000]);
        let events = threads.run(|comm| {
            let trace = Trace::new(Arc::new(memory.clone()), 10_000);
            let options = File::options().read(true).write(true).driver(Arc::new(trace.clone()));
            let options = options.hint("romio_cb_write", "enable").hint("cb_nodes", "3");
            let options = options.hint("striping_unit", "128").hint("cb_buffer_size", "256");
            let file = options.open(&*comm, "f").expect("opens");
            file.set_view(&interleaved(comm.rank(), 7, 8)).expect("a view");
            file.write_all(3, &vec![value(comm.rank()); 700]).expect("writes");
            file.close().expect("closes");
            trace.events()
        });
        let writes = |events: &Vec<pario::storage::TraceEvent>| -> Vec<(u64, u64)> {
            let writes = events.iter().filter(|event| event.operation == Operation::Write);
            writes.map(|event| (event.offset, event.offset + event.len)).collect()
        };
        let by_rank: Vec<Vec<(u64, u64)>> = events.iter().map(writes).collect();
        let wrote = by_rank.iter().filter(|writes| !writes.is_empty()).count();
        assert!(writers.contains(&wrote), "{wrote} ranks wrote");
        let mut all: Vec<(u64, u64)> = by_rank.concat();
        all.sort_unstable();
        let stripe = |offset: u64| offset / STRIPE;
        for pair in all.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "two writes overlap: {pair:?}");
            assert!(stripe(pair[0].1 - 1) < stripe(pair[1].0), "a stripe is shared: {pair:?}");
        }
        assert!(all.iter().all(|(start, end)| end - start <= 256), "{all:?}");
    }
}

/// A hint does the opposite of what it says (open-mpi/ompi#13377).
#[test]
fn ompi_13377_collective_buffering_is_not_inverted() {
    let _watchdog = Watchdog::new("ompi#13377");
    for (value, two_phase) in [("true", true), ("enable", true), ("false", false)] {
        let memory = Memory::new();
        let strategies = Threads::new(3).run(|comm| {
            let options = options(&memory).hint("collective_buffering", value);
            let file = options.open(&*comm, "f").expect("opens");
            file.set_view(&interleaved(comm.rank(), 3, 4)).expect("a view");
            file.write_all(0, &[1u8; 400]).expect("writes");
            let written = file.last_call().strategy;
            file.read_all(0, &mut [0u8; 400]).expect("reads");
            (written, file.last_call().strategy)
        });
        for (written, read) in strategies {
            assert_eq!(written == Strategy::TwoPhase, two_phase, "{value}: {written}");
            assert_eq!(read == Strategy::TwoPhase, two_phase, "{value}: {read}");
        }
    }
}

/// Hints that differ between the ranks end in a hang or a crash (pmodels/mpich#3736, #5604):
/// here rank 0 decides, and every rank can see what is in effect.
#[test]
fn mpich_3736_5604_hints_that_differ_between_ranks_are_those_of_rank_0() {
    let watchdog = Watchdog::new("mpich#3736");
    let seed = first_seed();
    for turn in 0..40 {
        let mut random = random(seed.wrapping_add(turn));
        let mut pool = vec![
            ("pario_strategy", "two-phase"),
            ("pario_strategy", "list"),
            ("pario_strategy", "gather"),
            ("cb_nodes", "1"),
            ("cb_nodes", "3"),
            ("cb_buffer_size", "64"),
            ("cb_buffer_size", "4K"),
            ("striping_unit", "16"),
            ("romio_cb_write", "disable"),
            ("romio_ds_write", "disable"),
        ];
        let mut draw = || {
            pool.shuffle(&mut random);
            pool[..4].to_vec()
        };
        let hints: Vec<_> = (0..4).map(|_| draw()).collect();
        watchdog.step(format!("{hints:?}"));
        let memory = Memory::new();
        let threads = &transports(4)[index(turn % 2)];
        let reports = threads.run(|comm| {
            let own = &hints[index(u64::from(comm.rank()))];
            let options = own
                .iter()
                .fold(options(&memory), |options, (key, value)| options.hint(*key, *value));
            let file = options.open(&*comm, "f").expect("opens");
            file.set_view(&interleaved(comm.rank(), 4, 8)).expect("a view");
            file.write_all(0, &vec![value(comm.rank()); 160]).expect("writes");
            let effective = |file: &File| {
                let report = file.hints();
                report.effective.iter().map(|hint| (hint.name, hint.value.clone())).collect()
            };
            let report: Vec<(&str, String)> = effective(&file);
            let strategy = file.last_call().strategy;
            file.close().expect("closes");
            (report, strategy)
        });
        assert!(reports.iter().all(|report| *report == reports[0]), "{hints:?} {reports:?}");
        let contents = memory.contents("f").expect("there");
        for (offset, &byte) in contents.iter().enumerate() {
            assert_eq!(byte, value(u32::try_from(offset / 8 % 4).expect("small")), "{hints:?}");
        }
    }
}

/// Byte offsets beyond 2^31 come out negative or cut (open-mpi/ompi#14379).
#[test]
fn ompi_14379_byte_offsets_beyond_two_gigabytes_are_right() {
    let memory = Memory::new();
    Threads::new(2).run(|comm| {
        let file = options(&memory).open(&*comm, "f").expect("opens");
        let int = Datatype::of::<i32>();
        let filetype = Datatype::resized(0, 12, &int).expect("small");
        file.set_view(&View::new(4, &int, &filetype)).expect("a view");
        for position in [0, 1, 1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) + 1, 1 << 40] {
            assert_eq!(file.byte_offset(position).expect("there"), 4 + position * 12);
        }
        file.close().expect("closes");
    });
}
