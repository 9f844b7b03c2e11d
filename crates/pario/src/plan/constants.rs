//! The numbers that plans depend on, each with what it balances.
//!
//! They were found by measuring, mostly on nodes of 2 cores with files in memory; the runs are in
//! `docs/performance.md`. A hint wins over each of those that have one.

/// More rounds than these are not planned: their number is counted on all ranks.
pub(crate) const ROUNDS_MAX: u64 = 1 << 20;
/// Windows in shared memory at a time, at most: the region has room for the states of these.
pub(crate) const SHARED_SLOTS_MAX: usize = 64;
/// Fewer windows than these are in shared memory: what a rank waits for is a number below them.
pub(crate) const SHARED_WINDOWS_MAX: u32 = u32::MAX - 1;
/// A window in shared memory. Longer ones leave the caches of the cores before they are stored;
/// with shorter ones, waiting for each other costs more than copying.
pub(crate) const SHARED_WINDOW_BYTES: u64 = 1 << 20;
/// Where a node has many cores, windows are shorter, down to this, so that each core has some.
pub(crate) const SHARED_WINDOW_BYTES_MIN: u64 = 128 << 10;
/// Shared windows for each core: one is copied while another is fetched or stored.
pub(crate) const SLOTS_PER_CORE: u64 = 2;
/// On nodes of few cores, this number of windows is read at a time: more leave the cache that cores
/// share, with fewer ranks wait for slots.
pub(crate) const READ_SLOTS_MIN: u64 = 8;
/// The same for writes, whose bytes are stored by non-temporal stores.
pub(crate) const WRITE_SLOTS_MIN: u64 = 16;
/// Pieces of different ranks that are shorter than a cache line are packed by rank in a shared
/// window: otherwise cores take lines away from each other.
pub(crate) const CACHE_LINE_BYTES: u64 = 64;
/// In how many parts a packed window of a file in memory is assembled and stored: each part stays
/// in the cache of a core. Devices get whole windows.
pub(crate) const PACKED_PARTS: u64 = 4;
/// Ranks for each core of a node on which most of them sleep at any time. Then reads are packed by
/// the ranks that run; with fewer, each rank picks its own pieces.
pub(crate) const MANY_PER_CORE: usize = 4;

/// Shorter windows are stored by plain writes, whose one call is less than what a mapping needs.
pub(crate) const MAPPED_WINDOW_BYTES_MIN: u64 = 64 << 10;
/// Windows are stored through a mapping of the file where the profile says that it is faster by
/// this factor: a profile of another machine knows no better.
pub(crate) const MAPPED_GAIN_MIN: f64 = 1.5;

/// A window of a rank that needs no messages: small enough to stay in the cache of its core while
/// it is assembled and stored.
pub(crate) const CACHED_WINDOW_BYTES: u64 = 1 << 20;
/// Bytes of a message, if all ranks have as many in each window. MPI libraries send longer ones
/// only when the receiver is ready for them.
pub(crate) const MESSAGE_BYTES: u64 = 32 << 10;
/// A window where every rank has one and bytes are copied in each phase: all of them stay in cache.
pub(crate) const FORWARDED_WINDOW_BYTES: u64 = 512 << 10;
/// Longer windows of aggregators on several nodes, from which the cost model chooses: fewer
/// messages and storage calls, but less of the exchange goes on while storage works.
pub(crate) const LONGER_WINDOWS_BYTES: [u64; 3] = [1 << 20, 4 << 20, 16 << 20];
/// A buffer for sieving writes on storage whose calls wait, as reads have it: fewer calls, but it
/// leaves the cache of a core.
pub(crate) const LONGER_SIEVE_BYTES: u64 = 4 << 20;
