//! Random whole programs do to a file exactly what a plain vector of bytes says.
//!
//! `PARIO_PROGRAMS` sets the number of programs of all tests together, `PARIO_SEED` the seed of
//! the first; program number n of a test has the seed of the first plus n, so that one failure
//! can be run alone.

#![allow(clippy::expect_used)]

use pario::storage::{Driver, OpenMode, Posix};
use pario_testkit::program::run::{Transport, run, run_counting};
use pario_testkit::program::{Device, Program, reduce};
use pario_testkit::scratch::Scratch;
use pario_testkit::watchdog::Watchdog;
use std::cell::Cell;
use std::env;
use std::path::Path;

fn number_from(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Runs a share, in percent, of all programs; reports the first failure in its smallest form.
fn run_all(name: &'static str, percent: u64, check: impl Fn(&Program) -> Result<(), String>) {
    let first_seed = number_from("PARIO_SEED").unwrap_or_else(rand::random);
    let programs = (number_from("PARIO_PROGRAMS").unwrap_or(4000) * percent).div_ceil(100);
    println!("{name}: PARIO_SEED={first_seed}, {programs} programs");
    let watchdog = Watchdog::new(name);
    let again = |seed| {
        format!(
            "PARIO_SEED={seed} PARIO_PROGRAMS=1 cargo test -p pario --release --test \
             programs_match_oracle {name}"
        )
    };
    for number in 0..programs {
        let seed = first_seed.wrapping_add(number);
        watchdog.step(again(seed));
        let program = Program::random(seed);
        let Err(text) = check(&program) else { continue };
        let smallest = reduce::smallest(&program, |candidate| {
            watchdog.step(format!("{candidate}"));
            check(candidate).is_err()
        });
        let reason = check(&smallest).err().unwrap_or_else(|| "passes now and then".to_string());
        panic!(
            "{name}: program\n{program}{text}\n\nsmallest\n{smallest}{reason}\n\nto run it again:\n\
             {}\n",
            again(seed)
        );
    }
}

#[test]
fn programs_on_shared_memory_match_the_oracle() {
    run_all("programs_on_shared_memory_match_the_oracle", 20, |program| {
        run(program, Transport::SharedMemory)
    });
}

#[test]
fn programs_with_little_memory_match_the_oracle() {
    run_all("programs_with_little_memory_match_the_oracle", 30, |program| {
        run(program, Transport::LittleMemory)
    });
}

#[test]
fn programs_on_messages_match_the_oracle() {
    run_all("programs_on_messages_match_the_oracle", 15, |program| {
        let nodes = u32::try_from(program.seed % 4).expect("small") + 1;
        run(program, Transport::Messages(nodes))
    });
}

#[test]
fn simulated_programs_match_the_oracle() {
    run_all("simulated_programs_match_the_oracle", 25, |program| {
        run(program, Transport::Simulated(program.seed))
    });
}

/// Hints never change a byte: every strategy leaves the file that the oracle says.
#[test]
fn strategies_agree() {
    run_all("strategies_agree", 10, |program| {
        pario::Strategy::all().try_for_each(|strategy| {
            let program = program.with_hint("pario_strategy", strategy.name());
            let outcome = run(&program, Transport::SharedMemory);
            outcome.map_err(|text| format!("strategy {strategy}: {text}"))
        })
    });
}

/// Whether files in a directory can be written through a mapping.
fn is_mapped(parent: &Path) -> bool {
    let scratch = Scratch::below(parent);
    let mode = OpenMode { read: true, write: true, create: true, exclusive: true };
    let file = Posix.open(&scratch.path("file"), mode).expect("a file can be made");
    file.capabilities().mapped_writes
}

/// Files in shared memory and on a device, whose windows are written through a mapping.
#[test]
fn mapped_writes_match_the_oracle() {
    let shared_memory = Path::new("/dev/shm");
    let places = [(false, env::temp_dir()), (true, shared_memory.to_owned())];
    for (shared_memory, parent) in places.into_iter().filter(|(_, parent)| parent.is_dir()) {
        let (programs, mapped_bytes) = (Cell::new(0), Cell::new(0));
        run_all("mapped_writes_match_the_oracle", 10, |program| {
            let strategies = ["two-phase", "two-phase", "gather", "multi-phase", "auto"];
            let strategy = strategies[usize::try_from(program.seed % 5).expect("small")];
            let program = program.with_hint("pario_strategy", strategy);
            let mut program = program.with_hint("pario_mapped_writes", "enable");
            if program.device != Device::Memory {
                return Ok(());
            }
            program.device = Device::File { shared_memory };
            let transport = match program.seed % 4 {
                0 => Transport::Messages(1),
                1 => Transport::LittleMemory,
                _ => Transport::SharedMemory,
            };
            mapped_bytes.set(mapped_bytes.get() + run_counting(&program, transport)?);
            programs.set(programs.get() + 1);
            Ok(())
        });
        println!("{}: {} bytes mapped", parent.display(), mapped_bytes.get());
        let is_expected = is_mapped(&parent) && programs.get() > 100;
        assert!(!is_expected || mapped_bytes.get() > 0, "no window of {}", parent.display());
    }
}

/// Buffers that are shorter than a cache line, or than an element, are slow and nothing else.
#[test]
fn tiny_buffers_change_no_byte() {
    run_all("tiny_buffers_change_no_byte", 1, |program| {
        [1, 7, 49].into_iter().try_for_each(|bytes: u32| {
            let keys = ["cb_buffer_size", "ind_rd_buffer_size", "ind_wr_buffer_size"];
            let given = |program: Program, key: &&str| program.with_hint(key, &bytes.to_string());
            let program = keys.iter().fold(program.clone(), given);
            let outcome = run(&program, Transport::SharedMemory)
                .and_then(|()| run(&program, Transport::Messages(2)));
            outcome.map_err(|text| format!("buffers of {bytes} bytes: {text}"))
        })
    });
}

/// A single wrong bit on the device is seen by the comparison, and cut down to its cause.
#[test]
fn a_flipped_bit_is_found() {
    let mut found = 0;
    let mut steps = Vec::new();
    for seed in 0..200 {
        let mut program = Program::random(seed);
        if program.device != Device::Memory || run(&program, Transport::SharedMemory).is_err() {
            continue;
        }
        program.device = Device::Flawed(0);
        let fails = |program: &Program| run(program, Transport::SharedMemory).is_err();
        if fails(&program) {
            found += 1;
            if found <= 5 {
                steps.push(reduce::smallest(&program, fails).steps.len());
            }
        }
    }
    assert!(found > 50, "only {found} flaws were found");
    assert!(steps.iter().all(|&steps| steps <= 2), "not cut down: {steps:?} steps");
}
