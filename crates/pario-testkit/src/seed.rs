//! Seeds of random tests: printed, and taken from the environment to repeat a failure.

use std::env;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The source of random numbers of tests; the same seed gives the same numbers everywhere.
pub type Random = Xoshiro256PlusPlus;

/// The seed of this run: `PARIO_SEED`, or a new one. Prints it.
pub fn first_seed() -> u64 {
    let seed = number_from("PARIO_SEED").unwrap_or_else(rand::random);
    println!("PARIO_SEED={seed}");
    seed
}

/// A number from the environment.
pub fn number_from(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// The numbers that belong to a seed.
pub fn random(seed: u64) -> Random {
    Random::seed_from_u64(seed)
}
