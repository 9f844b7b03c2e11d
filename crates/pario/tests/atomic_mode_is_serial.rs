//! In atomic mode, concurrent requests that overlap give the outcome of some serial order of
//! whole requests (MPI-4.1, section 14.6.1).
//!
//! Writers and readers use strided ranges of one file that overlap in part. The test tries all
//! orders of the requests: in one of them, every reader must have seen what it saw, and the file
//! must be what it is.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::sync::Arc;

use pario::storage::{Driver, Memory, Posix};
use pario::{Communicator, Datatype, File, OpenOptions, Simulated, Threads, View};
use pario_testkit::device::Lockless;
use pario_testkit::scratch::Scratch;
use pario_testkit::seed::{first_seed, number_from, random};
use pario_testkit::watchdog::Watchdog;
use rand::RngExt;

const RANKS: u32 = 5;
const PIECE_BYTES: u64 = 4;
const PERIOD_BYTES: u64 = 12;
const PIECES: u64 = 10;
const FILE_BYTES: u64 = PERIOD_BYTES * PIECES;

/// What one rank asks for: pieces of the strided view that all share.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Request {
    writes: bool,
    first: u64,
    count: u64,
}

#[derive(Clone, Debug)]
struct Race {
    seed: u64,
    strategy: &'static str,
    collective: bool,
    requests: Vec<Request>,
}

impl Race {
    fn new(seed: u64, collective: bool) -> Race {
        let mut random = random(seed);
        let strategies = ["direct", "list", "sieve", "auto", "two-phase"];
        let strategy = strategies[random.random_range(0..strategies.len())];
        let same = random.random_range(0..2) == 0;
        let mut request = |rank: u32| {
            let first = if same { 0 } else { random.random_range(0..PIECES / 2) };
            let count = if same { PIECES } else { random.random_range(1..=PIECES - first) };
            // A collective call is the same on all ranks.
            Request { writes: collective || rank < 3, first, count }
        };
        let requests = (0..RANKS).map(&mut request).collect();
        Race { seed, strategy, collective, requests }
    }

    fn options(&self, driver: &Arc<dyn Driver>) -> OpenOptions {
        let options = File::options().read(true).write(true).driver(driver.clone());
        let options = options.hint("pario_strategy", self.strategy);
        options.hint("ind_wr_buffer_size", "64").hint("ind_rd_buffer_size", "64")
    }

    fn request(&self, rank: u32) -> Request {
        self.requests[usize::try_from(rank).expect("small")]
    }

    fn buffer(&self, rank: u32) -> Vec<u8> {
        let Request { writes, count, .. } = self.request(rank);
        let byte = if writes { u8::try_from(rank + 1).expect("small") } else { 0 };
        vec![byte; usize::try_from(count * PIECE_BYTES).expect("small")]
    }

    async fn rank(self, comm: Arc<dyn Communicator>, driver: Arc<dyn Driver>) -> Vec<u8> {
        let file = self.options(&driver).open_async(&*comm, "f").await.expect("opens");
        file.handle().set_view(&view()).await.expect("a good view");
        file.handle().set_atomicity(true).await.expect("the store has locks");
        let Request { writes, first, .. } = self.request(comm.rank());
        let (position, buffer) = (first * PIECE_BYTES, self.buffer(comm.rank()));
        let pending = match (writes, self.collective) {
            (true, true) => file.iwrite_all(position, buffer),
            (true, false) => file.iwrite(position, buffer),
            (false, _) => file.iread(position, buffer),
        };
        let (result, buffer) = pending.await;
        result.expect("moves");
        file.handle().close().await.expect("closes");
        buffer
    }

    /// Runs the schedule of the seed; returns whether the outcome is that of a serial order.
    fn is_serial_when_simulated(&self, wrap: impl Fn(Memory) -> Arc<dyn Driver>) -> bool {
        let memory = Memory::new();
        memory.put("f", &old());
        let driver = wrap(memory.clone());
        let seen =
            Simulated::new(RANKS, self.seed).run(|comm| self.clone().rank(comm, driver.clone()));
        self.is_serial(&seen, &memory.contents("f").expect("there"))
    }

    fn run_on_threads(&self, driver: &Arc<dyn Driver>, path: &std::path::Path) -> Vec<Vec<u8>> {
        Threads::new(RANKS).run(|comm| {
            let file = self.options(driver).open(&*comm, path).expect("opens");
            file.set_view(&view()).expect("a good view");
            file.set_atomicity(true).expect("there are locks");
            let Request { writes, first, .. } = self.request(comm.rank());
            let (position, mut buffer) = (first * PIECE_BYTES, self.buffer(comm.rank()));
            match (writes, self.collective) {
                (true, true) => file.write_all(position, &buffer),
                (true, false) => file.write(position, &buffer),
                (false, _) => file.read(position, &mut buffer),
            }
            .expect("moves");
            file.close().expect("closes");
            buffer
        })
    }

    /// Tries all orders.
    fn is_serial(&self, seen: &[Vec<u8>], file: &[u8]) -> bool {
        let left: Vec<u32> = (0..RANKS).collect();
        self.some_order(&old(), &left, seen, file)
    }

    fn some_order(&self, now: &[u8], left: &[u32], seen: &[Vec<u8>], file: &[u8]) -> bool {
        if left.is_empty() {
            return now == file;
        }
        left.iter().any(|&rank| {
            let Request { writes, first, count } = self.request(rank);
            let others: Vec<u32> = left.iter().copied().filter(|&other| other != rank).collect();
            let own = &seen[usize::try_from(rank).expect("small")];
            let offsets = (first * PIECE_BYTES..(first + count) * PIECE_BYTES).map(offset);
            let mut then = now.to_vec();
            for (offset, &byte) in offsets.zip(own) {
                match writes {
                    true => then[offset] = byte,
                    false if now[offset] != byte => return false,
                    false => {}
                }
            }
            self.some_order(&then, &others, seen, file)
        })
    }
}

/// File offset of a byte of the view.
fn offset(byte: u64) -> usize {
    usize::try_from(byte / PIECE_BYTES * PERIOD_BYTES + byte % PIECE_BYTES).expect("small")
}

fn view() -> View {
    let byte = Datatype::byte();
    let piece = Datatype::contiguous(PIECE_BYTES, &byte).expect("small");
    let filetype = Datatype::resized(0, PERIOD_BYTES.cast_signed(), &piece).expect("small");
    View::new(0, &byte, &filetype)
}

fn old() -> Vec<u8> {
    vec![0xEE; usize::try_from(FILE_BYTES).expect("small")]
}

fn simulate_many(collective: bool) {
    let watchdog = Watchdog::new("atomic_mode_is_serial");
    let first = first_seed();
    for number in 0..number_from("PARIO_SCHEDULES").unwrap_or(800) {
        let race = Race::new(first.wrapping_add(number), collective);
        watchdog.step(format!("{race:?}"));
        let serial = race.is_serial_when_simulated(|memory| Arc::new(memory));
        assert!(serial, "not serial: PARIO_SEED={} PARIO_SCHEDULES=1 {race:?}", race.seed);
    }
}

#[test]
fn every_simulated_schedule_of_reads_and_writes_is_serial() {
    simulate_many(false);
}

#[test]
fn every_simulated_schedule_of_a_collective_write_is_serial() {
    simulate_many(true);
}

#[test]
fn requests_of_threads_are_serial() {
    let watchdog = Watchdog::new("atomic_mode_is_serial on threads");
    let scratch = Scratch::new();
    let (memory, path) = (Memory::new(), scratch.path("f"));
    let (in_memory, posix): (Arc<dyn Driver>, Arc<dyn Driver>) =
        (Arc::new(memory.clone()), Arc::new(Posix));
    let first = first_seed();
    for number in 0..number_from("PARIO_SCHEDULES").unwrap_or(400) {
        let race = Race::new(first.wrapping_add(number), number % 4 == 3);
        watchdog.step(format!("{race:?}"));
        let (seen, file) = match number % 2 {
            0 => {
                memory.put("f", &old());
                let seen = race.run_on_threads(&in_memory, "f".as_ref());
                (seen, memory.contents("f").expect("there"))
            }
            _ => {
                std::fs::write(&path, old()).expect("written");
                (race.run_on_threads(&posix, &path), std::fs::read(&path).expect("read"))
            }
        };
        assert!(race.is_serial(&seen, &file), "PARIO_SEED={} {race:?} {file:?}", race.seed);
    }
}

/// Proves that the tests above can fail: with locks that lock nothing, outcomes mix.
#[test]
fn without_locks_some_schedule_is_not_serial() {
    let watchdog = Watchdog::new("atomic_mode_is_serial without locks");
    let first = first_seed();
    for collective in [false, true] {
        let mixed = (0..300).filter(|&number| {
            let race = Race::new(first.wrapping_add(number), collective);
            watchdog.step(format!("{race:?}"));
            !race.is_serial_when_simulated(|memory| Arc::new(Lockless(Arc::new(memory))))
        });
        let mixed = mixed.count();
        println!("collective {collective}: {mixed} of 300 schedules are not serial without locks");
        assert!(mixed > 0, "no schedule shows what locks are for");
    }
}

/// The order is that of whole requests, also if one is far larger than a sieve buffer.
#[test]
fn all_bytes_of_an_overlap_come_from_one_rank() {
    let watchdog = Watchdog::new("atomic_mode_is_serial: one rank");
    for (turn, strategy) in
        ["direct", "list", "sieve", "auto"].into_iter().cycle().take(40).enumerate()
    {
        watchdog.step(format!("{strategy} {turn}"));
        let memory = Memory::new();
        memory.put("f", &vec![0; 120_000]);
        Threads::new(4).run(|comm| {
            let options = File::options().read(true).write(true).driver(Arc::new(memory.clone()));
            let options = options.hint("pario_strategy", strategy);
            let file = options.hint("ind_wr_buffer_size", "4K").open(&*comm, "f").expect("opens");
            file.set_view(&view()).expect("a good view");
            file.set_atomicity(true).expect("the store has locks");
            let value = u8::try_from(comm.rank() + 1).expect("small");
            match turn % 2 {
                0 => file.write(0, &vec![value; 40_000]),
                _ => file.write_all(0, &vec![value; 40_000]),
            }
            .expect("writes");
            let mut seen = vec![0u8; 40_000];
            file.read(0, &mut seen).expect("reads");
            assert!(seen.iter().all(|&byte| byte == seen[0]), "{strategy}: a mixed read");
            file.close().expect("closes");
        });
        let contents = memory.contents("f").expect("there");
        assert!((0..40_000).all(|byte| contents[offset(byte)] == contents[0]), "{strategy}");
    }
}
