//! Conversions between numbers of ranks and bytes, and indices. None of them changes a value on
//! machines that pario runs on, which have 64 bits.

/// A length of a list as a number.
pub(crate) fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Index of a rank in lists that have one entry for each rank.
pub(crate) fn index(rank: u32) -> usize {
    usize::try_from(rank).unwrap_or(usize::MAX)
}

/// Rank of an index in such lists.
pub(crate) fn rank_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
