//! Writers on one file whose bytes do not overlap all keep their bytes, also where some of them
//! sieve: read a range, change parts of it and write it back, with the neighbours' bytes in it.
//!
//! Two public bugs of this kind: open-mpi/ompi#4144 (contiguous writers did not lock while
//! others sieved) and pmodels/mpich#4956.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario::storage::{Driver, Memory, Posix};
use pario::{Communicator, Datatype, File, OpenOptions, Pending, Simulated, Threads, View};
use pario_testkit::device::Lockless;
use pario_testkit::scratch::Scratch;
use pario_testkit::seed::{Random, first_seed, number_from, random};
use pario_testkit::watchdog::Watchdog;
use rand::RngExt;
use rand::seq::SliceRandom;

const RANKS: u32 = 4;
/// Every row of the file: 8 bytes of rank 0, 8 of rank 1, 8 of rank 2, 8 of rank 3, 8 of nobody.
const ROW_BYTES: u64 = 40;
const PIECE_BYTES: u64 = 8;
const ROWS: u64 = 12;
const OLD: u8 = 0xEE;

/// What one schedule does.
#[derive(Clone, Debug)]
struct Race {
    seed: u64,
    hints: Vec<(&'static str, &'static str)>,
    /// Whether all ranks first begin a collective write of half of their rows, some the first
    /// half, some the second, and then write the other half by themselves meanwhile.
    collective: bool,
}

impl Race {
    fn new(seed: u64, collective: bool) -> Race {
        let mut random = random(seed);
        let sieving = match random.random_range(0..4) {
            0 => vec![("pario_strategy", "sieve")],
            1 => vec![("romio_ds_write", "enable")],
            2 => vec![("pario_strategy", "sieve"), ("ind_wr_buffer_size", "96")],
            _ => vec![("romio_ds_write", "enable"), ("ind_wr_buffer_size", "64")],
        };
        let mut hints = sieving;
        if collective {
            let write = ["enable", "disable"][random.random_range(0..2)];
            hints.extend([("romio_cb_write", write), ("cb_buffer_size", "128")]);
            hints.extend([("cb_nodes", "2"), ("striping_unit", "16")]);
        }
        Race { seed, hints, collective }
    }

    fn options(&self, driver: &Arc<dyn Driver>) -> OpenOptions {
        let options = File::options().read(true).write(true).driver(driver.clone());
        self.hints.iter().fold(options, |options, (key, value)| options.hint(*key, *value))
    }

    /// The order in which a rank writes its rows, in groups: a group of several is one strided
    /// request, which is sieved, a single one is contiguous.
    fn groups(&self, rank: u32) -> Vec<(u64, u64)> {
        let mut random: Random = random(self.seed ^ u64::from(rank + 1) << 32);
        let rows = match self.collective {
            true => (ROWS / 2 - self.collective_row(rank))..(ROWS - self.collective_row(rank)),
            false => 0..ROWS,
        };
        let (mut groups, mut row) = (Vec::new(), rows.start);
        while row < rows.end {
            let contiguous = rank % 2 == 1 || random.random_range(0..4) == 0;
            let count = if contiguous { 1 } else { random.random_range(1..=rows.end - row) };
            groups.push((row, count));
            row += count;
        }
        groups.shuffle(&mut random);
        groups
    }

    /// First row of a rank's part in the collective write of half the rows.
    fn collective_row(&self, rank: u32) -> u64 {
        let second_half = self.seed >> rank & 1;
        second_half * ROWS / 2
    }

    /// Begins the rank's calls; the view is set already.
    fn begin(&self, file: &File, rank: u32) -> Vec<Pending<Vec<u8>>> {
        let data = |rows: u64| vec![value(rank); usize::try_from(rows * PIECE_BYTES).unwrap()];
        let mut pending = Vec::new();
        if self.collective {
            let position = self.collective_row(rank) * PIECE_BYTES;
            pending.push(file.iwrite_all(position, data(ROWS / 2)));
        }
        for (row, count) in self.groups(rank) {
            pending.push(file.iwrite(row * PIECE_BYTES, data(count)));
        }
        pending
    }

    async fn rank(self, comm: Arc<dyn Communicator>, driver: Arc<dyn Driver>) {
        let file = self.options(&driver).open_async(&*comm, "f").await.expect("opens");
        file.handle().set_view(&view(comm.rank())).await.expect("a good view");
        for pending in self.begin(&file, comm.rank()) {
            pending.await.0.expect("writes");
        }
        file.handle().close().await.expect("closes");
    }

    /// Runs the schedule of the seed; returns the first byte that got lost.
    fn simulate(&self, wrap: impl Fn(Memory) -> Arc<dyn Driver>) -> Option<usize> {
        let memory = Memory::new();
        memory.put("f", &old());
        let driver = wrap(memory.clone());
        Simulated::new(RANKS, self.seed)
            .shared_bytes(if self.seed.is_multiple_of(2) { 1 << 10 } else { 0 })
            .run(|comm| self.clone().rank(comm, driver.clone()));
        lost(&memory.contents("f").expect("there"))
    }

    /// Runs it on threads; blocking calls of a rank run beside its calls in the background.
    fn run_on_threads(&self, driver: &Arc<dyn Driver>, path: &Path) {
        Threads::new(RANKS).run(|comm| {
            let file = self.options(driver).open(&*comm, path).expect("opens");
            file.set_view(&view(comm.rank())).expect("a good view");
            let data = |rows: u64| vec![value(comm.rank()); usize::try_from(rows * 8).unwrap()];
            let position = self.collective_row(comm.rank()) * PIECE_BYTES;
            let pending = self.collective.then(|| file.iwrite_all(position, data(ROWS / 2)));
            for (row, count) in self.groups(comm.rank()) {
                file.write(row * PIECE_BYTES, &data(count)).expect("writes");
            }
            if let Some(pending) = pending {
                pending.wait().0.expect("writes");
            }
            file.close().expect("closes");
        });
    }
}

fn value(rank: u32) -> u8 {
    u8::try_from(rank + 1).expect("small")
}

fn view(rank: u32) -> View {
    let byte = Datatype::byte();
    let piece = Datatype::contiguous(PIECE_BYTES, &byte).expect("small");
    let filetype = Datatype::resized(0, ROW_BYTES.cast_signed(), &piece).expect("small");
    View::new(u64::from(rank) * PIECE_BYTES, &byte, &filetype)
}

fn old() -> Vec<u8> {
    vec![OLD; usize::try_from(ROWS * ROW_BYTES).expect("small")]
}

fn lost(file: &[u8]) -> Option<usize> {
    let expected = |offset: usize| {
        let column = u64::try_from(offset).expect("small") % ROW_BYTES / PIECE_BYTES;
        u32::try_from(column).ok().filter(|&rank| rank < RANKS).map_or(OLD, value)
    };
    assert_eq!(file.len(), old().len());
    (0..file.len()).find(|&offset| file[offset] != expected(offset))
}

fn simulate_many(collective: bool) {
    let watchdog = Watchdog::new("sieving_keeps_neighbours");
    let first = first_seed();
    for number in 0..number_from("PARIO_SCHEDULES").unwrap_or(3000) {
        let race = Race::new(first.wrapping_add(number), collective);
        watchdog.step(format!("{race:?}"));
        let lost = race.simulate(|memory| Arc::new(memory));
        assert_eq!(lost, None, "lost byte: PARIO_SEED={} PARIO_SCHEDULES=1 {race:?}", race.seed);
    }
}

/// open-mpi/ompi#4144, pmodels/mpich#4956.
#[test]
fn no_simulated_schedule_loses_a_byte_of_a_neighbour() {
    simulate_many(false);
}

/// A collective in the background shares the file with independent writers, too.
#[test]
fn no_simulated_schedule_of_a_collective_in_the_background_loses_a_byte() {
    simulate_many(true);
}

fn threads_many(driver: &Arc<dyn Driver>, path: &Path, put: impl Fn(), get: impl Fn() -> Vec<u8>) {
    let watchdog = Watchdog::new("sieving_keeps_neighbours on threads");
    let first = first_seed();
    for number in 0..number_from("PARIO_SCHEDULES").unwrap_or(300) {
        let race = Race::new(first.wrapping_add(number), number % 2 == 1);
        watchdog.step(format!("{race:?}"));
        put();
        race.run_on_threads(driver, path);
        assert_eq!(lost(&get()), None, "PARIO_SEED={} {race:?}", race.seed);
    }
}

#[test]
fn threads_on_memory_lose_no_byte_of_a_neighbour() {
    let memory = Memory::new();
    let driver: Arc<dyn Driver> = Arc::new(memory.clone());
    let get = || memory.contents("f").expect("there");
    threads_many(&driver, Path::new("f"), || memory.put("f", &old()), get);
}

#[test]
fn threads_on_posix_files_lose_no_byte_of_a_neighbour() {
    let scratch = Scratch::new();
    let path: PathBuf = scratch.path("f");
    let put = || std::fs::write(&path, old()).expect("written");
    let get = || std::fs::read(&path).expect("read");
    let driver: Arc<dyn Driver> = Arc::new(Posix);
    threads_many(&driver, &path, put, get);
    assert_eq!(scratch.names(), ["f"], "no side files");
}

/// A rank that runs a plan does not wait for the others: one may still write by itself.
#[test]
fn a_planned_write_keeps_the_bytes_of_a_rank_that_comes_late() {
    let watchdog = Watchdog::new("sieving_keeps_neighbours with plans");
    let memory = Memory::new();
    for turn in 0..300 {
        watchdog.step(format!("turn {turn}"));
        memory.put("f", &old());
        Threads::new(RANKS).run(|comm| {
            let options = File::options().read(true).write(true).driver(Arc::new(memory.clone()));
            let options = options.hint("pario_strategy", "two-phase").hint("cb_nodes", "1");
            let file = options.open(&*comm, "f").expect("opens");
            file.set_view(&view(comm.rank())).expect("a good view");
            let planned = if comm.rank() < 2 { ROWS } else { 0 } * PIECE_BYTES;
            let plan = file.plan_write_all(0, planned, &Datatype::byte()).expect("a plan");
            for row in 0..if comm.rank() < 2 { 0 } else { ROWS } {
                file.write(row * PIECE_BYTES, &[value(comm.rank()); 8]).expect("writes");
            }
            let data = vec![value(comm.rank()); usize::try_from(planned).expect("small")];
            file.write_planned(&plan, &data).expect("writes");
            file.close().expect("closes");
        });
        assert_eq!(lost(&memory.contents("f").expect("there")), None, "turn {turn}");
    }
}

/// Proves that the tests above can fail: with locks that lock nothing, schedules lose bytes.
#[test]
fn without_locks_some_schedule_loses_a_byte() {
    let watchdog = Watchdog::new("sieving_keeps_neighbours without locks");
    let first = first_seed();
    for collective in [false, true] {
        let losing = (0..300).filter(|&number| {
            let race = Race::new(first.wrapping_add(number), collective);
            watchdog.step(format!("{race:?}"));
            race.simulate(|memory| Arc::new(Lockless(Arc::new(memory)))).is_some()
        });
        let losing = losing.count();
        println!("collective {collective}: {losing} of 300 schedules lose bytes without locks");
        assert!(losing > 0, "no schedule shows what locks are for");
    }
}
