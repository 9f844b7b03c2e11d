//! Random whole programs do to a file exactly what a plain vector of bytes says.
//!
//! `PARIO_PROGRAMS` sets the number of programs of all tests together, `PARIO_SEED` the seed of
//! the first; program number n of a test has the seed of the first plus n, so that one failure
//! can be run alone.

#![allow(clippy::expect_used)]

use pario_testkit::program::run::{Transport, run};
use pario_testkit::program::{Device, Program, reduce};
use pario_testkit::watchdog::Watchdog;
use std::env;

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
