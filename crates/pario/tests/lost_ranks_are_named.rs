//! A rank that panics, before a collective or inside of it, is named to all others: they return
//! an error of class `PeerLost`, and no rank waits for it in silence.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use pario::storage::{Fault, FaultPlan, Memory};
use pario::{Datatype, Error, ErrorClass, File, OpenOptions, Threads, View};
use pario_testkit::device::Hooked;
use pario_testkit::watchdog::Watchdog;

const RANKS: u32 = 4;
/// What no call reads or writes.
const LEFT_ALONE: u8 = 0xaa;
const STRATEGIES: [&str; 7] =
    ["direct", "list", "sieve", "two-phase", "gather", "multi-phase", "inspector-executor"];

fn transports() -> [Threads; 4] {
    let threads = Threads::new(RANKS);
    // Four windows, each as long as the hint says.
    let common = threads.clone().shared_bytes(256);
    [threads.clone(), threads.clone().share_memory(false), common, threads.nodes(2)]
}

fn index(rank: u32) -> usize {
    usize::try_from(rank).expect("small")
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Write,
    Read,
    WriteInBackground,
}

#[derive(Clone, Debug)]
struct Scenario {
    threads: Threads,
    strategy: &'static str,
    call: Call,
}

impl Scenario {
    fn options(&self) -> OpenOptions {
        File::options()
            .read(true)
            .write(true)
            .hint("pario_strategy", self.strategy)
            .hint("pario_phases", "1")
            .hint("cb_nodes", "2")
            .hint("cb_buffer_size", "64")
            .hint("striping_unit", "32")
            .hint("ind_wr_buffer_size", "64")
    }

    fn set_view(&self, file: &File, rank: u32) -> pario::Result<()> {
        let byte = Datatype::byte();
        let piece = Datatype::contiguous(8, &byte)?;
        let filetype = Datatype::resized(0, 40, &piece)?;
        file.set_view(&View::new(u64::from(rank) * 8, &byte, &filetype))
    }

    /// Makes the call; returns the buffer as well.
    fn call(&self, file: &File, rank: u32) -> (pario::Result<()>, Vec<u8>) {
        let mut data = vec![u8::try_from(rank + 1).expect("small"); 64];
        let result = match self.call {
            Call::Write => file.write_all(0, &data).map(drop),
            Call::Read => file.read_all(0, &mut data).map(drop),
            Call::WriteInBackground => {
                let (result, data) = file.iwrite_all(0, data).wait();
                return (result.map(drop), data);
            }
        };
        (result, data)
    }

    /// Storage calls of each rank in the collective of a clean run.
    fn calls(&self) -> Vec<u64> {
        let memory = store();
        self.threads.run(|comm| {
            let fault = Fault::new(Arc::new(memory.clone()), FaultPlan::none());
            let file = self.options().driver(Arc::new(fault.clone())).open(&*comm, "f");
            let file = file.expect("opens");
            self.set_view(&file, comm.rank()).expect("a good view");
            let before = fault.calls();
            self.call(&file, comm.rank()).0.expect("moves");
            fault.calls() - before
        })
    }

    /// Rank `lost` panics in its `number`th storage call of the collective, or before it if the
    /// number is zero. All others must name it. Whether that happened: another aggregator may have
    /// been faster, and made the call.
    fn lose(&self, lost: u32, number: u64) -> bool {
        let context = format!("{self:?}, rank {lost} panics at call {number}");
        let memory = store();
        let barrier = Barrier::new(index(RANKS));
        let happens = Arc::new(AtomicBool::new(number == 0));
        let kept: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let results = self.threads.try_run(|comm| {
            let left = Arc::new(AtomicU64::new(u64::MAX));
            let (countdown, happens) = (left.clone(), happens.clone());
            let driver = Hooked::new(memory.clone(), move |_| {
                let left = countdown.fetch_sub(1, Ordering::SeqCst);
                happens.fetch_or(left == 1, Ordering::SeqCst);
                assert!(left != 1, "a driver panics as planned");
                Ok(())
            });
            let file = self.options().driver(Arc::new(driver)).open(&*comm, "f").expect("opens");
            self.set_view(&file, comm.rank()).expect("a good view");
            barrier.wait();
            if comm.rank() == lost {
                assert!(number != 0, "a rank panics as planned");
                left.store(number, Ordering::SeqCst);
            }
            let (first, mut buffer) = self.call(&file, comm.rank());
            if first.is_err() {
                // It is this rank's again: nobody writes to it any more.
                buffer.fill(LEFT_ALONE);
                kept.lock().expect("nobody panics here").push(buffer);
            }
            left.store(u64::MAX, Ordering::SeqCst);
            // Whatever is called next returns too.
            let second = catch_unwind(AssertUnwindSafe(|| file.set_atomicity(false)));
            (first, second.ok())
        });
        let kept = kept.into_inner().expect("nobody panics there");
        assert!(kept.iter().flatten().all(|&byte| byte == LEFT_ALONE), "{context}");
        let happened = happens.load(Ordering::SeqCst);
        for (rank, result) in (0..RANKS).zip(results) {
            match result {
                Err(_) => assert_eq!(rank, lost, "{context}"),
                Ok((first, second)) if !happened => {
                    first.expect(&context);
                    second.expect("it does not panic").expect(&context);
                }
                Ok((first, second)) => {
                    assert_ne!(rank, lost, "{context}: the panic is not hidden");
                    assert_named(first.expect_err(&context), lost, &context);
                    let second = second.expect("it does not panic");
                    assert_named(second.expect_err(&context), lost, &context);
                }
            }
        }
        happened
    }
}

fn assert_named(error: Error, lost: u32, context: &str) {
    assert_eq!(error.class(), ErrorClass::PeerLost, "{context}: {error}");
    let text = error.to_string();
    assert!(text.contains(&format!("rank {lost} ")), "{context}: {text}");
    assert!(text.contains("file f"), "{context}: {text}");
}

fn store() -> Memory {
    let memory = Memory::new();
    memory.put("f", &[9; 400]);
    memory
}

fn lose_everywhere(call: Call) {
    let watchdog = Watchdog::new("lost_ranks_are_named");
    let mut points = 0;
    for threads in transports() {
        for strategy in STRATEGIES {
            let scenario = Scenario { threads: threads.clone(), strategy, call };
            let calls = scenario.calls();
            for lost in 0..RANKS {
                // Each of the first calls, and the last one; how often a sieving rank tries to
                // get a lock is not the same in every run.
                let last = calls[index(lost)];
                let also_last = last > 5 && strategy != "sieve";
                for number in (0..=last.min(5)).chain(also_last.then_some(last)) {
                    watchdog.step(format!("{scenario:?} rank {lost} call {number}"));
                    points += u32::from(scenario.lose(lost, number));
                }
            }
        }
    }
    println!("{call:?}: {points} places to lose a rank");
    assert!(points >= 100);
}

#[test]
fn a_rank_lost_in_a_collective_write_is_named() {
    lose_everywhere(Call::Write);
}

#[test]
fn a_rank_lost_in_a_collective_read_is_named() {
    lose_everywhere(Call::Read);
}

#[test]
fn a_rank_lost_in_a_collective_in_the_background_is_named() {
    lose_everywhere(Call::WriteInBackground);
}

#[test]
fn a_rank_lost_in_open_close_or_resizing_is_named() {
    type Step = fn(&File) -> pario::Result<()>;
    let steps: [(&str, Step); 5] = [
        ("set_view", |file| file.set_view(&View::bytes())),
        ("set_size", |file| file.set_size(10)),
        ("preallocate", |file| file.preallocate(1000)),
        ("set_atomicity", |file| file.set_atomicity(true)),
        ("seek_shared", |file| file.seek_shared(std::io::SeekFrom::Start(3)).map(drop)),
    ];
    let watchdog = Watchdog::new("lost_ranks_are_named: metadata");
    for threads in transports() {
        for lost in 0..RANKS {
            watchdog.step(format!("{threads:?} open, rank {lost}"));
            let memory = store();
            let options = File::options().read(true).write(true).driver(Arc::new(memory.clone()));
            let errors = threads.try_run(|comm| {
                assert!(comm.rank() != lost, "a rank panics as planned");
                options.open(&*comm, "f").err().expect("a rank is lost")
            });
            for error in errors.into_iter().flatten() {
                assert_named(error, lost, "open");
            }
            for (name, step) in steps {
                watchdog.step(format!("{threads:?} {name}, rank {lost}"));
                let barrier = Barrier::new(index(RANKS));
                let results = threads.try_run(|comm| {
                    let file = options.open(&*comm, "f").expect("opens");
                    barrier.wait();
                    assert!(comm.rank() != lost, "a rank panics as planned");
                    (step(&file).expect_err(name), file.close().expect_err("lost"))
                });
                assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
                for (error, at_close) in results.into_iter().flatten() {
                    assert_named(error, lost, name);
                    assert_named(at_close, lost, "close");
                }
            }
        }
    }
}

/// A rank that returns instead of calling is as lost as one that panics.
#[test]
fn a_rank_that_ends_early_is_named() {
    let _watchdog = Watchdog::new("lost_ranks_are_named: early end");
    let memory = store();
    let barrier = Barrier::new(index(RANKS));
    let errors = Threads::new(RANKS).run(|comm| {
        let options = File::options().read(true).write(true).driver(Arc::new(memory.clone()));
        let file = options.open(&*comm, "f").expect("opens");
        barrier.wait();
        (comm.rank() != 2).then(|| file.write_all(0, &[1u8; 10]).expect_err("rank 2 is gone"))
    });
    for error in errors.into_iter().flatten() {
        assert_named(error, 2, "an early end");
    }
    assert_eq!(memory.contents("f").expect("there"), [9; 400]);
}
