//! Storage fails somewhere in a collective, on ranks that run in an order which a seed decides,
//! with windows in shared memory or in messages: all ranks return the same class, nobody waits for
//! ever (the simulator panics then), a count names bytes that moved, and the next call works.
//!
//! A rank is lost somewhere: all others end, with success or with `PeerLost`.

#![allow(clippy::expect_used)]

use std::sync::Arc;

use pario::storage::{Driver, Fault, FaultPlan, Memory};
use pario::{Communicator, Datatype, ErrorClass, File, Simulated, View};
use pario_testkit::seed::{first_seed, number_from, random};
use pario_testkit::watchdog::Watchdog;
use rand::RngExt;

const STRATEGIES: [&str; 9] = [
    "auto",
    "two-phase",
    "direct",
    "list",
    "sieve",
    "two-phase",
    "gather",
    "multi-phase",
    "inspector-executor",
];
const OLD: u8 = 0xee;
const ENOSPC: i32 = 28;

#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    ranks: u32,
    strategy: &'static str,
    shared_bytes: usize,
    window_bytes: u64,
    named: bool,
    piece: u64,
    hole: u64,
    pieces: u64,
    writes: bool,
    /// The storage call of one rank that fails, and how many bytes it moves before.
    failing: (u32, u64, u64),
    persistent: bool,
}

impl Scenario {
    fn new(seed: u64) -> Scenario {
        let mut random = random(seed);
        let ranks = random.random_range(2..=5);
        Scenario {
            seed,
            ranks,
            strategy: STRATEGIES[random.random_range(0..STRATEGIES.len())],
            shared_bytes: [0, 256, 1024, 1 << 16][random.random_range(0..4usize)],
            window_bytes: [64, 256, 4096][random.random_range(0..3usize)],
            named: random.random(),
            piece: [4, 16, 64, 100][random.random_range(0..4usize)],
            hole: [0, 0, 8][random.random_range(0..3usize)],
            pieces: random.random_range(1..12),
            writes: random.random(),
            failing: (
                random.random_range(0..ranks),
                random.random_range(1..8),
                random.random_range(0..40),
            ),
            persistent: random.random(),
        }
    }

    fn row(&self) -> u64 {
        self.piece * u64::from(self.ranks) + self.hole
    }

    fn value(&self, rank: u32, index: u64) -> u8 {
        u8::try_from((index * 7 + u64::from(rank) * 31) % 200).expect("small")
    }

    /// The file offset of a byte of a rank's data.
    fn offset(&self, rank: u32, index: u64) -> usize {
        let (row, column) = (index / self.piece, index % self.piece);
        let offset = row * self.row() + u64::from(rank) * self.piece + column;
        usize::try_from(offset).expect("small")
    }

    fn len(&self) -> u64 {
        self.piece * self.pieces
    }

    fn data(&self, rank: u32) -> Vec<u8> {
        (0..self.len()).map(|index| self.value(rank, index)).collect()
    }

    /// One call that may fail, and one that must not; the outcome and the count of the first.
    async fn rank(
        self,
        comm: Arc<dyn Communicator>,
        driver: Arc<dyn Driver>,
    ) -> (Option<ErrorClass>, u64, Vec<u8>, bool) {
        let options = File::options().read(true).write(true).driver(driver);
        let options = options.hint("pario_strategy", self.strategy);
        let options = options.hint("cb_buffer_size", self.window_bytes.to_string());
        let options = options.hint("striping_unit", "16");
        let options = if self.named { options.hint("cb_nodes", "2") } else { options };
        let file = options.open_async(&*comm, "f").await.expect("opens");
        let byte = Datatype::byte();
        let once = Datatype::contiguous(self.piece, &byte).expect("a type");
        let filetype = Datatype::resized(0, self.row().cast_signed(), &once).expect("a type");
        let start = u64::from(comm.rank()) * self.piece;
        file.handle().set_view(&View::new(start, &byte, &filetype)).await.expect("a view");
        let mut data = if self.writes { self.data(comm.rank()) } else { vec![OLD; self.size()] };
        let first = match self.writes {
            true => file.handle().write_all(0, &data).await,
            false => file.handle().read_all(0, &mut data).await,
        };
        let (class, moved) = match &first {
            Ok(status) => (None, status.bytes),
            Err(error) => (Some(error.class()), error.moved()),
        };
        let shared = file.last_call().windows.contains("shared memory");
        // A device that stays broken fails the next call as well, or the fault comes only there.
        let again = file.handle().read_all(0, &mut vec![0; self.size()]).await;
        assert!(again.is_ok() || self.persistent || class.is_none(), "{self:?}: {again:?}");
        let _ = file.handle().close().await;
        (class, moved, data, shared)
    }

    /// Some collectives on a file; whether windows were in shared memory.
    async fn calls(
        self,
        comm: Arc<dyn Communicator>,
        driver: Arc<dyn Driver>,
    ) -> (pario::Result<()>, bool) {
        let mut shared = false;
        let outcome = self.try_calls(&*comm, driver, &mut shared).await;
        (outcome, shared)
    }

    async fn try_calls(
        &self,
        comm: &dyn Communicator,
        driver: Arc<dyn Driver>,
        shared: &mut bool,
    ) -> pario::Result<()> {
        let options = File::options().read(true).write(true).driver(driver);
        let options = options.hint("pario_strategy", self.strategy);
        let options = options.hint("cb_buffer_size", self.window_bytes.to_string());
        let file = options.open_async(comm, "f").await?;
        let byte = Datatype::byte();
        let once = Datatype::contiguous(self.piece, &byte)?;
        let filetype = Datatype::resized(0, self.row().cast_signed(), &once)?;
        let start = u64::from(comm.rank()) * self.piece;
        file.handle().set_view(&View::new(start, &byte, &filetype)).await?;
        let mut data = self.data(comm.rank());
        for _ in 0..3 {
            file.handle().write_all(0, &data).await?;
            *shared |= file.last_call().windows.contains("shared memory");
            file.handle().read_all(0, &mut data).await?;
        }
        file.handle().close().await
    }

    fn size(&self) -> usize {
        usize::try_from(self.len()).expect("small")
    }

    /// Whether the fault was met, and whether windows were in shared memory.
    fn check(&self) -> (bool, bool) {
        let memory = Memory::new();
        let whole = usize::try_from(self.row() * self.pieces).expect("small");
        let mut before = vec![OLD; whole];
        if !self.writes {
            for rank in 0..self.ranks {
                for index in 0..self.len() {
                    before[self.offset(rank, index)] = self.value(rank, index);
                }
            }
        }
        memory.put("f", &before);
        let (failing, call, moved_bytes) = self.failing;
        let plan = FaultPlan {
            persistent: self.persistent,
            moved_bytes,
            counts: |operation| operation.reads() || operation.writes(),
            ..FaultPlan::fail_call(call, ENOSPC)
        };
        let fault = Fault::new(Arc::new(memory.clone()), plan);
        let simulated = Simulated::new(self.ranks, self.seed).shared_bytes(self.shared_bytes);
        let results = simulated.run(|comm| {
            let driver: Arc<dyn Driver> = match comm.rank() == failing {
                true => Arc::new(fault.clone()),
                false => Arc::new(memory.clone()),
            };
            self.clone().rank(comm, driver)
        });
        let contents = memory.contents("f").expect("there");
        let class = results[0].0;
        assert!(class.is_none() || class == Some(ErrorClass::NoSpace), "{self:?}: {class:?}");
        for (rank, (of_rank, moved, data, _)) in (0..).zip(&results) {
            assert_eq!(*of_rank, class, "{self:?}: rank {rank}");
            assert!(*moved == self.len() || class.is_some(), "{self:?}: rank {rank}");
            for index in 0..*moved {
                let found = match self.writes {
                    true => contents[self.offset(rank, index)],
                    false => data[usize::try_from(index).expect("small")],
                };
                let expected = self.value(rank, index);
                assert_eq!(found, expected, "{self:?}: rank {rank}, byte {index} of {moved}");
            }
        }
        (class.is_some(), results[0].3)
    }
}

/// Whether a rank was lost before all was done, and whether windows were in shared memory.
fn check_lost(scenario: &Scenario) -> (bool, bool) {
    let memory = Memory::new();
    let whole = usize::try_from(scenario.row() * scenario.pieces).expect("small");
    memory.put("f", &vec![OLD; whole]);
    let (lost, number, more) = scenario.failing;
    // One step is a poll: from the open on to after the close.
    let steps = number * 5 + more;
    let simulated = Simulated::new(scenario.ranks, scenario.seed)
        .shared_bytes(scenario.shared_bytes)
        .lose(lost, steps);
    let results = simulated.try_run(|comm| scenario.clone().calls(comm, Arc::new(memory.clone())));
    let mut shared = false;
    for (rank, result) in (0..).zip(&results) {
        match result {
            None => assert_eq!(rank, lost, "{scenario:?}"),
            Some((outcome, is_shared)) => {
                let class = outcome.as_ref().err().map(pario::Error::class);
                let known = class.is_none() || class == Some(ErrorClass::PeerLost);
                assert!(known, "{scenario:?}: rank {rank}: {outcome:?}");
                shared |= is_shared;
            }
        }
    }
    (results[usize::try_from(lost).expect("small")].is_none(), shared)
}

#[test]
fn all_ranks_end_when_one_is_lost_in_any_order() {
    let watchdog = Watchdog::new("all_ranks_end_when_one_is_lost_in_any_order");
    let (first, count) = (first_seed(), number_from("PARIO_SCHEDULES").unwrap_or(10_000));
    let (mut met, mut shared) = (0, 0);
    for number in 0..count {
        let scenario = Scenario::new(first.wrapping_add(number));
        watchdog.step(format!("{scenario:?}, one is lost"));
        let (is_met, is_shared) = check_lost(&scenario);
        met += u64::from(is_met && !is_shared);
        shared += u64::from(is_met && is_shared);
    }
    let enough = |met: u64| count < 1000 || met > count / 20;
    assert!(enough(met) && enough(shared), "of {count} only {met} and {shared} lost a rank");
}

#[test]
fn all_ranks_learn_of_a_fault_in_any_order() {
    let watchdog = Watchdog::new("all_ranks_learn_of_a_fault_in_any_order");
    let (first, count) = (first_seed(), number_from("PARIO_SCHEDULES").unwrap_or(10_000));
    let (mut met, mut shared) = (0, 0);
    for number in 0..count {
        let scenario = Scenario::new(first.wrapping_add(number));
        watchdog.step(format!("{scenario:?}"));
        let (is_met, is_shared) = scenario.check();
        met += u64::from(is_met && !is_shared);
        shared += u64::from(is_met && is_shared);
    }
    let enough = |met: u64| count < 1000 || met > count / 20;
    assert!(enough(met) && enough(shared), "of {count} only {met} and {shared} met their fault");
}
