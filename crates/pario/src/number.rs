//! Conversions between memory lengths, file lengths, and ranks: the only `as` of the library.

const _: () = assert!(usize::BITS == 64, "pario needs a 64-bit machine");

/// A length in memory as a length in a file.
pub(crate) const fn wide(len: usize) -> u64 {
    len as u64
}

/// A number of bytes or things for a computation of times; above 2^53 the nearest one that fits.
pub(crate) const fn real(count: u64) -> f64 {
    count as f64
}

/// A length that has been checked to lie in memory, as one.
pub(crate) const fn narrow(len: u64) -> usize {
    len as usize
}

/// Index of a rank in lists that have one entry a rank.
pub(crate) fn index(rank: u32) -> usize {
    narrow(u64::from(rank))
}

/// Rank of an index in lists that have one entry a rank.
pub(crate) fn rank_of(index: usize) -> u32 {
    u32::try_from(wide(index)).unwrap_or(u32::MAX)
}
