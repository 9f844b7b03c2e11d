//! One rank's storage fails, at any call of any collective: no rank hangs, all return the same
//! and right error class, the error says what really moved, and the handle stays usable.
//!
//! Each rank has a device of its own over one store. A clean run counts the storage calls of
//! every rank; then each of them is made to fail, once or from then on, before or after a part
//! of its bytes moved, for four reasons. `PARIO_FAULTS` sets the number of points per scenario.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::sync::{Arc, Barrier};

use pario::storage::{Fault, FaultPlan, Memory, Operation};
use pario::{Datatype, Error, ErrorClass, File, OpenOptions, Result, Status, Threads, View};
use pario_testkit::seed::{first_seed, number_from, random};
use pario_testkit::watchdog::Watchdog;
use rand::seq::SliceRandom;

const RANKS: u32 = 4;
/// Bytes of a piece.
const SHORT: u64 = 16;
const LONG: u64 = 64;
/// Bytes of a rank's request.
const REQUEST: u64 = 384;
const REQUEST_BYTES: usize = 384;
/// Bytes of a file that exists before: more than the ranks write.
const OLD_BYTES: u64 = 2500;

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EDQUOT: i32 = 122;
const EACCES: i32 = 13;

const REASONS: [(i32, ErrorClass); 4] = [
    (ENOSPC, ErrorClass::NoSpace),
    (EIO, ErrorClass::Io),
    (EDQUOT, ErrorClass::Quota),
    (EACCES, ErrorClass::Access),
];

/// A failure to be injected.
#[derive(Clone, Copy, Debug)]
struct Point {
    rank: u32,
    call: u64,
    errno: i32,
    class: ErrorClass,
    persistent: bool,
    moved_bytes: u64,
}

impl Point {
    fn plan(&self) -> FaultPlan {
        let FaultPlan { counts, .. } = FaultPlan::none();
        FaultPlan {
            call: self.call,
            errno: self.errno,
            persistent: self.persistent,
            moved_bytes: self.moved_bytes,
            counts,
        }
    }
}

/// Every failure of calls in `calls`, one range for each rank.
fn points(calls: &[std::ops::Range<u64>], moved: &[u64]) -> Vec<Point> {
    let mut points = Vec::new();
    for (rank, calls) in (0..).zip(calls) {
        for call in calls.start + 1..=calls.end {
            for (errno, class) in REASONS {
                for persistent in [false, true] {
                    for &moved_bytes in moved {
                        points.push(Point { rank, call, errno, class, persistent, moved_bytes });
                    }
                }
            }
        }
    }
    points
}

/// Shuffles the points and keeps as many as a scenario may have.
fn sample(mut points: Vec<Point>, seed: u64) -> Vec<Point> {
    points.shuffle(&mut random(seed));
    let limit = number_from("PARIO_FAULTS").unwrap_or(120);
    points.truncate(usize::try_from(limit).expect("small"));
    points
}

/// One device for each rank, all over one store; that of the failing rank is faulty.
fn devices(memory: &Memory, point: Option<&Point>) -> Vec<Fault> {
    devices_counting(memory, point, |_| true)
}

/// The same with some calls only that are counted, and fail.
fn devices_counting(
    memory: &Memory,
    point: Option<&Point>,
    counts: fn(Operation) -> bool,
) -> Vec<Fault> {
    let device = |rank| {
        let point = point.filter(|point| point.rank == rank);
        let plan = point.map_or_else(FaultPlan::none, Point::plan);
        Fault::new(Arc::new(memory.clone()), FaultPlan { counts, ..plan })
    };
    (0..RANKS).map(device).collect()
}

fn index(rank: u32) -> usize {
    usize::try_from(rank).expect("small")
}

/// All ranks have the error of the point, from the rank that failed, with the file's name.
fn assert_agreed(errors: &[&Error], point: &Point, context: &str) {
    for error in errors {
        assert_eq!(error.class(), point.class, "{context}: {error}");
        assert_eq!(error.rank(), Some(point.rank), "{context}: {error}");
        assert!(error.to_string().contains("file f"), "{context}: {error}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Write,
    Read,
}

/// A collective read or write through interleaved views.
#[derive(Clone, Debug)]
struct Scenario {
    threads: Threads,
    strategy: &'static str,
    /// Whether a hint says how many ranks touch storage.
    told: bool,
    direction: Direction,
    /// Bytes that a rank has in turn.
    piece_bytes: u64,
    /// Bytes between the ranks' turns that nobody asks for.
    hole_bytes: u64,
    /// Whether the file exists before.
    exists: bool,
}

/// What one run of a scenario showed.
struct Run {
    /// Calls of each rank's device before and after the collective.
    calls: Vec<std::ops::Range<u64>>,
    failures: u64,
    results: Vec<Result<Status>>,
    /// Each rank's buffer after the collective.
    buffers: Vec<Vec<u8>>,
    /// The file after the collective.
    file: Vec<u8>,
    retried: Vec<Result<Status>>,
    /// Buffers and file after the retry.
    buffers_at_end: Vec<Vec<u8>>,
    file_at_end: Vec<u8>,
}

impl Scenario {
    fn period(&self) -> u64 {
        u64::from(RANKS) * self.piece_bytes + self.hole_bytes
    }

    /// File offset of a byte of a rank's request.
    fn offset(&self, rank: u32, byte: u64) -> usize {
        let piece = u64::from(rank) * self.piece_bytes + byte / self.piece_bytes * self.period();
        usize::try_from(piece + byte % self.piece_bytes).expect("small")
    }

    fn view(&self, rank: u32) -> View {
        let byte = Datatype::byte();
        let piece = Datatype::contiguous(self.piece_bytes, &byte).expect("small");
        let extent = i64::try_from(self.period()).expect("small");
        let filetype = Datatype::resized(0, extent, &piece).expect("small");
        View::new(u64::from(rank) * self.piece_bytes, &byte, &filetype)
    }

    fn options(&self, device: &Fault) -> OpenOptions {
        let options = match self.told {
            true => File::options().hint("cb_nodes", "3"),
            false => File::options(),
        };
        options
            .read(true)
            .write(true)
            .create(true)
            .hint("pario_strategy", self.strategy)
            .hint("pario_shared_windows", "enable")
            .hint("pario_phases", "1")
            .hint("cb_buffer_size", "256")
            .hint("striping_unit", "64")
            .hint("romio_ds_read", "enable")
            .hint("romio_ds_write", "enable")
            .hint("ind_rd_buffer_size", "256")
            .hint("ind_wr_buffer_size", "256")
            .driver(Arc::new(device.clone()))
    }

    fn old(&self) -> Vec<u8> {
        match self.exists {
            true => (0..OLD_BYTES).map(|offset| u8::try_from(offset % 97 + 100).unwrap()).collect(),
            false => Vec::new(),
        }
    }

    /// Number of bytes of a rank's request, from its first one on, that are where they belong.
    fn arrived(&self, run: &Run, rank: u32) -> u64 {
        let old = self.old();
        let there = |byte: &u64| {
            let offset = self.offset(rank, *byte);
            match self.direction {
                Direction::Write => run.file.get(offset) == Some(&value(rank)),
                Direction::Read => {
                    run.buffers[index(rank)][usize::try_from(*byte).unwrap()] == old[offset]
                }
            }
        };
        u64::try_from((0..REQUEST).take_while(there).count()).unwrap()
    }

    fn run(&self, point: Option<&Point>) -> Run {
        let memory = Memory::new();
        if self.exists {
            memory.put("f", &self.old());
        }
        let devices = devices(&memory, point);
        let barrier = Barrier::new(index(RANKS));
        let ranks = self.threads.run(|comm| {
            let device = &devices[index(comm.rank())];
            let file = self.options(device).open(&*comm, "f").expect("opens");
            file.set_view(&self.view(comm.rank())).expect("a good view");
            let mut buffer = match self.direction {
                Direction::Write => vec![value(comm.rank()); REQUEST_BYTES],
                Direction::Read => vec![0; REQUEST_BYTES],
            };
            barrier.wait();
            let before = device.calls();
            let result = self.call(&file, &mut buffer);
            let calls = before..device.calls();
            barrier.wait();
            let failures = device.failures();
            let first = (memory.contents("f").expect("there"), buffer.clone());
            barrier.wait();
            // A fault that did not happen must not happen in the retry.
            if point.is_some_and(|point| point.persistent) || failures == 0 {
                device.repair();
            }
            barrier.wait();
            let retried = self.call(&file, &mut buffer);
            device.repair();
            file.close().expect("closes");
            (calls, failures, result, first, retried, buffer)
        });
        let file = ranks[0].3.0.clone();
        let mut run = Run {
            calls: Vec::new(),
            failures: 0,
            results: Vec::new(),
            buffers: Vec::new(),
            file,
            retried: Vec::new(),
            buffers_at_end: Vec::new(),
            file_at_end: memory.contents("f").expect("there"),
        };
        for (calls, failures, result, (_, buffer), retried, at_end) in ranks {
            run.calls.push(calls);
            run.failures += failures;
            run.results.push(result);
            run.buffers.push(buffer);
            run.retried.push(retried);
            run.buffers_at_end.push(at_end);
        }
        run
    }

    fn call(&self, file: &File, buffer: &mut Vec<u8>) -> Result<Status> {
        match self.direction {
            Direction::Write => file.write_all(0, &*buffer),
            Direction::Read => file.read_all(0, buffer),
        }
    }

    /// What the file must contain when all writes have arrived.
    fn complete(&self) -> Vec<u8> {
        let mut file = self.old();
        if self.direction == Direction::Write {
            for rank in 0..RANKS {
                for byte in 0..REQUEST {
                    let offset = self.offset(rank, byte);
                    if file.len() <= offset {
                        file.resize(offset + 1, 0);
                    }
                    file[offset] = value(rank);
                }
            }
        }
        file
    }

    /// Bytes that differ from the old ones have been written by the rank that owns them.
    fn assert_nothing_else_changed(&self, run: &Run, context: &str) {
        let (old, complete) = (self.old(), self.complete());
        for (offset, &byte) in run.file.iter().enumerate() {
            let before = old.get(offset).copied().unwrap_or(0);
            let written = complete.get(offset).copied();
            let expected = byte == before || Some(byte) == written;
            assert!(expected, "{context}: byte {offset} is {byte}, was {before}");
        }
        assert!(run.file.len() <= complete.len(), "{context}: the file is too long");
        assert!(run.file.len() >= old.len(), "{context}: the file is too short");
    }

    fn assert_retry_completes(&self, run: &Run, context: &str) {
        for (rank, retried) in (0..RANKS).zip(&run.retried) {
            let retried = retried.as_ref().expect("a retry succeeds").bytes;
            assert_eq!(retried, REQUEST, "{context}: rank {rank}");
        }
        assert_eq!(run.file_at_end, self.complete(), "{context}: the file after a retry");
        if self.direction == Direction::Read {
            let old = self.old();
            for (rank, buffer) in (0..RANKS).zip(&run.buffers_at_end) {
                for (byte, &found) in (0..).zip(buffer) {
                    assert_eq!(found, old[self.offset(rank, byte)], "{context}: rank {rank}");
                }
            }
        }
    }

    /// Injects one failure and checks everything; returns whether it happened.
    fn check(&self, point: &Point) -> bool {
        let context = format!("{self:?} {point:?}");
        let run = self.run(Some(point));
        self.assert_nothing_else_changed(&run, &context);
        self.assert_retry_completes(&run, &context);
        if run.failures == 0 {
            // A lock was free at the first attempt where the clean run needed two; or another
            // aggregator was faster, and has made that call.
            assert!(run.results.iter().all(Result::is_ok), "{context}");
            return false;
        }
        let errors: Vec<&Error> =
            run.results.iter().map(|result| result.as_ref().expect_err(&context)).collect();
        assert_agreed(&errors, point, &context);
        for (rank, error) in (0..RANKS).zip(&errors) {
            let (moved, arrived) = (error.moved(), self.arrived(&run, rank));
            assert!(moved <= arrived, "{context}: rank {rank}: {moved} of {arrived}");
            // A failing read may leave bytes in the buffer that nobody counts.
            if self.direction == Direction::Write || point.moved_bytes == 0 {
                assert_eq!(moved, arrived, "{context}: rank {rank}");
            }
        }
        true
    }
}

/// What a rank writes; never a byte of the file before.
fn value(rank: u32) -> u8 {
    u8::try_from(rank + 1).expect("small")
}

fn transports() -> [Threads; 5] {
    let threads = Threads::new(RANKS);
    let (apart, processes) = (threads.clone().share_memory(false), threads.clone());
    // Three windows, each as long as the hint says.
    let common = threads.clone().shared_bytes(768);
    [threads.clone(), apart, processes, common, threads.nodes(2)]
}

fn scenarios(direction: Direction) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for threads in transports() {
        let shuffled = ["two-phase", "gather", "multi-phase", "inspector-executor"];
        let strategies = ["direct", "list", "sieve"].into_iter().chain(shuffled);
        let told = strategies.map(|strategy| (strategy, true, SHORT));
        // Short pieces are packed in some windows.
        let others = [("two-phase", false, SHORT), ("two-phase", false, LONG)];
        for (strategy, told, piece_bytes) in told.chain(others) {
            for (hole_bytes, exists) in [(16, true), (0, true), (16, false)] {
                if exists || direction == Direction::Write {
                    let threads = threads.clone();
                    scenarios.push(Scenario {
                        threads,
                        strategy,
                        told,
                        direction,
                        piece_bytes,
                        hole_bytes,
                        exists,
                    });
                }
            }
        }
    }
    scenarios
}

/// mpich#6585 and ADIOS2#5037 are two of these points.
fn survive(direction: Direction) {
    let watchdog = Watchdog::new("faults_never_hang");
    let seed = first_seed();
    let (mut visited, mut happened) = (0, 0);
    for scenario in scenarios(direction) {
        watchdog.step(format!("clean {scenario:?}"));
        let clean = scenario.run(None);
        assert!(clean.results.iter().all(Result::is_ok), "{scenario:?}");
        scenario.assert_retry_completes(&clean, "clean");
        let used = clean.calls.iter().filter(|calls| !calls.is_empty()).count();
        assert!(used > 0, "{scenario:?} uses storage");
        for point in sample(points(&clean.calls, &[0, 37]), seed) {
            watchdog.step(format!("PARIO_SEED={seed} {scenario:?} {point:?}"));
            visited += 1;
            happened += u32::from(scenario.check(&point));
        }
    }
    println!("{direction:?}: {visited} fault points, {happened} faults happened");
    assert!(happened >= 1000, "only {happened} faults happened");
}

#[test]
fn a_failing_rank_ends_a_collective_write_on_all_ranks_with_true_counts() {
    survive(Direction::Write);
}

#[test]
fn a_failing_rank_ends_a_collective_read_on_all_ranks_with_true_counts() {
    survive(Direction::Read);
}

/// The rank that stores a window need not be the one that should have read its holes.
#[test]
fn a_window_whose_holes_cannot_be_read_is_not_stored() {
    let watchdog = Watchdog::new("faults_never_hang: holes");
    let mut happened = 0;
    for (number, threads) in (0..20).flat_map(|number| transports().map(|one| (number, one))) {
        let (strategy, direction) = ("two-phase", Direction::Write);
        let (told, piece_bytes) = (number % 4 == 0, if number % 4 == 1 { SHORT } else { LONG });
        let (hole_bytes, exists) = (16, true);
        let scenario =
            Scenario { threads, strategy, told, direction, piece_bytes, hole_bytes, exists };
        watchdog.step(format!("{scenario:?}"));
        let memory = Memory::new();
        memory.put("f", &scenario.old());
        let counts = |operation| operation == Operation::Read;
        let plan = FaultPlan { counts, persistent: true, ..FaultPlan::fail_call(1, EIO) };
        let faulty = Fault::new(Arc::new(memory.clone()), plan);
        let healthy = Fault::new(Arc::new(memory.clone()), FaultPlan::none());
        let results = scenario.threads.run(|comm| {
            let device = if comm.rank() == 0 { &faulty } else { &healthy };
            let file = scenario.options(device).open(&*comm, "f").expect("opens");
            file.set_view(&scenario.view(comm.rank())).expect("a good view");
            let buffer = vec![value(comm.rank()); REQUEST_BYTES];
            let result = file.write_all(0, &buffer[..]);
            file.close().expect("closes");
            result
        });
        let failed = faulty.failures() > 0;
        happened += u32::from(failed);
        assert!(results.iter().all(|result| result.is_err() == failed), "{scenario:?}");
        let (old, complete) = (scenario.old(), scenario.complete());
        for (offset, &byte) in memory.contents("f").expect("there").iter().enumerate() {
            let expected = [old.get(offset), complete.get(offset)].contains(&Some(&byte));
            assert!(expected, "{scenario:?}: byte {offset} is {byte}");
        }
    }
    assert!(happened > 20, "only {happened} faults happened");
}

/// A collective that is not a read or write.
struct Metadata {
    name: &'static str,
    create: bool,
    append: bool,
    delete_on_close: bool,
    call: fn(File) -> Result<()>,
}

const METADATA: [Metadata; 8] = [
    Metadata { name: "open", ..plain(|file| file.close()) },
    Metadata { name: "open, create", create: true, ..plain(|file| file.close()) },
    Metadata { name: "open, append", append: true, ..plain(|file| file.close()) },
    Metadata { name: "open, create, append", create: true, append: true, ..plain(File::close) },
    Metadata { name: "delete on close", delete_on_close: true, ..plain(File::close) },
    plain(|file| file.set_size(5000)),
    plain(|file| file.preallocate(5000)),
    plain(|file| {
        file.set_view(&View::new(8, &Datatype::byte(), &Datatype::byte()))?;
        file.set_size(5000)
    }),
];

const fn plain(call: fn(File) -> Result<()>) -> Metadata {
    Metadata { name: "", create: false, append: false, delete_on_close: false, call }
}

impl Metadata {
    /// Opens, calls, and returns each rank's outcome with the number of storage calls.
    fn run(&self, threads: &Threads, memory: &Memory, devices: &[Fault]) -> Vec<Result<()>> {
        if !self.create {
            memory.put("f", &[7; 100]);
        }
        threads.run(|comm| {
            let options = File::options()
                .read(true)
                .write(true)
                .create(self.create)
                .exclusive(self.create)
                .append(self.append)
                .delete_on_close(self.delete_on_close)
                .driver(Arc::new(devices[index(comm.rank())].clone()));
            (self.call)(options.open(&*comm, "f")?)
        })
    }
}

#[test]
fn a_failing_rank_ends_open_close_and_resizing_on_all_ranks() {
    let watchdog = Watchdog::new("faults_never_hang: metadata");
    let mut visited = 0;
    for threads in transports() {
        for metadata in &METADATA {
            let memory = Memory::new();
            // A file whose close fails is there, or deleted, as if it had not: see below.
            let counts = |operation| operation != Operation::Close;
            let clean = devices_counting(&memory, None, counts);
            let outcomes = metadata.run(&threads, &memory, &clean);
            assert!(outcomes.iter().all(Result::is_ok), "{} {outcomes:?}", metadata.name);
            let calls: Vec<_> = clean.iter().map(|device| 0..device.calls()).collect();
            for point in points(&calls, &[0]) {
                let context = format!("{} {threads:?} {point:?}", metadata.name);
                watchdog.step(context.clone());
                let memory = Memory::new();
                let devices = devices_counting(&memory, Some(&point), counts);
                let outcomes = metadata.run(&threads, &memory, &devices);
                let errors: Vec<&Error> =
                    outcomes.iter().map(|outcome| outcome.as_ref().expect_err(&context)).collect();
                assert_agreed(&errors, &point, &context);
                // What an open created, it removes, unless the device refuses that too.
                let stuck = point.rank == 0 && point.persistent;
                if metadata.create && !stuck {
                    assert_eq!(memory.contents("f"), None, "{context}");
                }
                if !metadata.create {
                    assert_eq!(memory.contents("f").expect("there"), [7; 100], "{context}");
                }
                visited += 1;
            }
        }
    }
    println!("metadata: {visited} fault points");
    assert!(visited >= 300, "only {visited} points");
}

/// Over a network, a full disk may be found only when a file is closed.
#[test]
fn a_failing_close_is_an_error_on_all_ranks() {
    let _watchdog = Watchdog::new("faults_never_hang: close");
    for threads in transports() {
        for (rank, delete_on_close) in (0..RANKS).flat_map(|rank| [(rank, false), (rank, true)]) {
            let (errno, class) = REASONS[index(rank) % REASONS.len()];
            let (call, persistent, moved_bytes) = (1, false, 0);
            let point = Point { rank, call, errno, class, persistent, moved_bytes };
            let memory = Memory::new();
            let counts = |operation| operation == Operation::Close;
            let devices = devices_counting(&memory, Some(&point), counts);
            let errors = threads.run(|comm| {
                let file = File::options()
                    .write(true)
                    .create(true)
                    .delete_on_close(delete_on_close)
                    .driver(Arc::new(devices[index(comm.rank())].clone()))
                    .open(&*comm, "f")
                    .expect("opens");
                file.write_all(u64::from(comm.rank()), &[7u8]).expect("writes");
                file.close().unwrap_err()
            });
            let errors: Vec<&Error> = errors.iter().collect();
            assert_agreed(&errors, &point, &format!("{threads:?}"));
            let left = (!delete_on_close).then(|| vec![7; index(RANKS)]);
            assert_eq!(memory.contents("f"), left, "{point:?}");
        }
    }
}

/// A second sync that said "all is well" would be a lie: the bytes may be lost. Ranks need not wait
/// for each other in a sync; they learn of the failure from a later call.
#[test]
fn a_failed_sync_fails_again_and_reaches_all_ranks() {
    let watchdog = Watchdog::new("faults_never_hang: sync");
    for (threads, together) in
        transports().into_iter().flat_map(|one| [(one.clone(), false), (one, true)])
    {
        let context = format!("{threads:?}, collective write: {together}");
        watchdog.step(context.clone());
        let (rank, call, errno, class) = (2, 1, EIO, ErrorClass::Io);
        let point = Point { rank, call, errno, class, persistent: false, moved_bytes: 0 };
        let memory = Memory::new();
        let counts = |operation| operation == Operation::Sync;
        let devices = devices_counting(&memory, Some(&point), counts);
        let outcomes = threads.run(|comm| {
            let driver = Arc::new(devices[index(comm.rank())].clone());
            let options = File::options().write(true).create(true).driver(driver);
            let file = options.open(&*comm, "f").expect("opens");
            let place = u64::from(comm.rank());
            let written = match together {
                true => file.write_all(place, &[7u8]),
                false => file.write(place, &[7u8]),
            };
            written.expect("writes");
            let first = file.sync();
            file.agree_on(Ok(())).expect("the ranks meet");
            let second = file.sync();
            let comm = file.communicator();
            let one_node = (0..comm.size()).all(|rank| comm.node(rank) == 0);
            (one_node, comm.region().is_some(), first, second, file.close())
        });
        for (rank, (one_node, shares_memory, first, second, closed)) in (0..).zip(&outcomes) {
            let failed = |outcome: &Result<()>| outcome.as_ref().err().map(Error::class);
            let all_sync = together && !one_node;
            if rank == point.rank || all_sync {
                assert_eq!(failed(first), Some(class), "{context}: first, rank {rank}");
            }
            if rank == point.rank || all_sync || *shares_memory {
                assert_eq!(failed(second), Some(class), "{context}: second, rank {rank}");
            }
            assert_eq!(failed(closed), Some(class), "{context}: close, rank {rank}");
        }
    }
}

/// A program may sync after every step, on all ranks, whichever of them wrote.
#[test]
fn a_sync_waits_for_nobody_and_only_moves_what_was_written() {
    let _watchdog = Watchdog::new("faults_never_hang: sync alone");
    let memory = Memory::new();
    let devices = devices_counting(&memory, None, |operation| operation == Operation::Sync);
    let barrier = Barrier::new(index(RANKS));
    let (syncs, barrier, devices) = (|rank: u32| devices[index(rank)].calls(), &barrier, &devices);
    Threads::new(RANKS).run(|comm| {
        let rank = comm.rank();
        let driver = Arc::new(devices[index(rank)].clone());
        let options = File::options().read(true).write(true).create(true).driver(driver);
        let file = options.open(&*comm, "f").expect("opens");
        if rank == 1 {
            file.sync().expect("nothing to sync");
            assert_eq!(syncs(rank), 0);
            file.write(0, &[1u8; 8]).expect("writes");
            file.sync().expect("the others do not sync yet");
            file.sync().expect("nothing is left");
            assert_eq!(syncs(rank), 1);
            file.read(0, &mut [0u8; 8]).expect("reads");
            file.iwrite(8, vec![1u8; 8]).wait().0.expect("writes");
            file.sync().expect("again");
            assert_eq!(syncs(rank), 2);
        }
        barrier.wait();
        (0..4).for_each(|_| file.sync().expect("this rank wrote nothing"));
        assert_eq!(syncs(rank), if rank == 1 { 2 } else { 0 });
        for (place, change) in [1, 2].into_iter().zip([true, false]) {
            match change {
                true => file.write_all(u64::from(rank), &[2u8]).map(drop),
                false => file.set_size(100),
            }
            .expect("all ranks change the file");
            file.sync().expect("bytes of this rank may be another's to store");
            let before = if rank == 1 { 2 } else { 0 };
            assert_eq!(syncs(rank), before + place);
        }
        file.close().expect("closes");
    });
}

/// The storage calls of a rank, and how many of them failed.
type Calls = (std::ops::Range<u64>, u64);

impl Scenario {
    /// A non-blocking or a split write: the storage calls and the outcome of each rank.
    fn run_in_background(
        &self,
        split: bool,
        point: Option<&Point>,
    ) -> (Vec<Calls>, Vec<Result<Status>>) {
        let memory = Memory::new();
        memory.put("f", &self.old());
        let devices = devices(&memory, point);
        let ranks = self.threads.run(|comm| {
            let device = &devices[index(comm.rank())];
            let file = self.options(device).open(&*comm, "f").expect("opens");
            file.set_view(&self.view(comm.rank())).expect("a good view");
            let before = device.calls();
            let data = vec![value(comm.rank()); REQUEST_BYTES];
            let outcome = match split {
                false => file.iwrite_all(0, data).wait().0,
                true => file.write_all_begin(0, data).expect("no other").end().0,
            };
            ((before..device.calls(), device.failures()), outcome)
        });
        ranks.into_iter().unzip()
    }
}

/// Non-blocking and split calls end with the same error as blocking ones.
#[test]
fn a_failing_rank_ends_calls_in_the_background_too() {
    let watchdog = Watchdog::new("faults_never_hang: background");
    for threads in transports() {
        let scenario = Scenario {
            threads,
            told: true,
            strategy: "two-phase",
            direction: Direction::Write,
            piece_bytes: SHORT,
            hole_bytes: 16,
            exists: true,
        };
        // The plan may be another one than that of a blocking call: count again.
        for split in [false, true] {
            let (clean, outcomes) = scenario.run_in_background(split, None);
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            let calls: Vec<_> = clean.iter().map(|(calls, _)| calls.clone()).collect();
            let mut happened = 0;
            for point in sample(points(&calls, &[0]), 1) {
                watchdog.step(format!("{scenario:?} {split} {point:?}"));
                let (devices, outcomes) = scenario.run_in_background(split, Some(&point));
                let failures: u64 = devices.iter().map(|(_, failures)| failures).sum();
                if failures == 0 {
                    // Another aggregator was faster, and has made that call.
                    assert!(outcomes.iter().all(Result::is_ok), "{point:?}: {outcomes:?}");
                    continue;
                }
                happened += 1;
                let errors: Vec<&Error> =
                    outcomes.iter().map(|outcome| outcome.as_ref().unwrap_err()).collect();
                assert_agreed(&errors, &point, "background");
            }
            assert!(happened > 0, "no fault happened: {scenario:?}, split: {split}");
        }
    }
}
