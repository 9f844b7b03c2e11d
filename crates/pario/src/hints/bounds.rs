//! The least and the greatest value of every hint that is a number.
//!
//! A value outside is ignored and reported. The upper bounds keep a slip of the pen from taking
//! the memory of a node.

use std::ops::RangeInclusive;

const GIB: u64 = 1 << 30;

/// Bounds of the collective buffer and the sieve buffers. As with ROMIO, any size of at least one
/// byte is taken; small ones are slow.
pub const BUFFER_BYTES: RangeInclusive<u64> = 1..=2 * GIB;
/// Bounds of the stripe size.
pub const STRIPE_BYTES: RangeInclusive<u64> = 1..=4 * GIB;
/// Bounds of the number of aggregators, in all and per node.
pub const AGGREGATORS: RangeInclusive<u32> = 1..=1 << 20;
/// Bounds of the smallest file domain.
pub const DOMAIN_MIN_BYTES: RangeInclusive<u64> = 0..=1024 * GIB;
/// Bounds of the number of phases.
pub const PHASES: RangeInclusive<u32> = 0..=32;
/// Bounds of the largest hole that is sieved.
pub const SIEVE_HOLE_BYTES: RangeInclusive<u64> = 0..=2 * GIB;
/// Bounds of the length from which on pieces are long.
pub const LONG_PIECE_BYTES: RangeInclusive<u64> = 1..=2 * GIB;
/// Bounds of the patience with a rank that does not arrive: one second to one week.
pub const COLLECTIVE_WAIT_S: RangeInclusive<u64> = 1..=604_800;
