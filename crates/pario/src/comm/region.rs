//! Memory that all ranks of a communicator share: atomic numbers and bytes.
//!
//! A transport offers it where all ranks are on one node. `exchange` gives the numbers and bytes
//! their meaning: it schedules windows and keeps writers apart with them.
//!
//! | part | what it is |
//! | --- | --- |
//! | head | [`HEAD_NUMBERS`] atomic numbers |
//! | ranks | [`RANK_NUMBERS`] atomic numbers for each rank |
//! | bytes | as many as the transport offers, from the beginning of a page on |
//!
//! Unsafe: memory is named by an address and a length; a keeper keeps it mapped. The numbers in it
//! are only used as atomic ones.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::datatype::copy::Span;
use crate::number::wide;

const PAGE_BYTES: usize = 4096;
/// Numbers of all ranks together.
pub(crate) const HEAD_NUMBERS: usize = 1024;
/// Numbers of each rank.
pub(crate) const RANK_NUMBERS: usize = 128;

/// Keeps memory where it is.
pub trait Keeper: Send + Sync {
    /// One rank is about to use most of the bytes for the first time, and others will soon.
    fn prefault(&self) {}
}

/// Memory of all ranks of a communicator, as one of them sees it.
pub struct Region {
    start: *mut u8,
    ranks: usize,
    bytes: usize,
    /// How often this rank has used it, as all ranks have.
    uses: AtomicU64,
    keeper: Arc<dyn Keeper>,
}

// SAFETY: it is an address and numbers; using the memory is what needs care (`Span`).
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Zeroed memory of this process in the place of shared memory. Pages that nobody touches take
/// none.
pub(super) struct Heap {
    memory: MmapRaw,
}

impl Heap {
    /// Room for a region.
    ///
    /// # Panics
    /// If the system has no memory for it.
    pub(super) fn new(ranks: usize, bytes: usize) -> Heap {
        match MmapOptions::new().len(Region::size(ranks, bytes)).map_anon() {
            Ok(memory) => Heap { memory: MmapRaw::from(memory) },
            Err(error) => panic!("no memory for a region of {bytes} bytes: {error}"),
        }
    }
}

impl Keeper for Heap {}

impl Region {
    /// Bytes of memory for a region of this number of ranks and bytes.
    pub fn size(ranks: usize, bytes: usize) -> usize {
        numbers_end(ranks).next_multiple_of(PAGE_BYTES) + bytes
    }

    /// A region at `start`, with this number of bytes.
    ///
    /// # Safety
    /// As many bytes as [`Region::size`] says are mapped for reading and writing from `start` on,
    /// aligned to 64 bytes, while `keeper` lives. They were zero before any rank had them, and are
    /// used by nothing else.
    pub unsafe fn new(
        start: *mut u8,
        ranks: usize,
        bytes: usize,
        keeper: Arc<dyn Keeper>,
    ) -> Region {
        Region { start, ranks, bytes, uses: AtomicU64::new(0), keeper }
    }

    /// A region in memory of this process, for ranks that are threads of it.
    pub(super) fn of_heap(heap: &Arc<Heap>, ranks: usize, bytes: usize) -> Region {
        assert!(heap.memory.len() >= Region::size(ranks, bytes), "enough memory");
        // SAFETY: the memory lives as long as the keeper, is aligned and zeroed, and there is
        // enough.
        unsafe { Region::new(heap.memory.as_mut_ptr(), ranks, bytes, heap.clone()) }
    }

    /// How many bytes it has besides the numbers.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The number of the next use: all ranks use it together, in the same order.
    pub(crate) fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes most of its bytes ready to be used; one rank does, once.
    pub(crate) fn prefault(&self) {
        self.keeper.prefault();
    }

    /// The numbers: those of all ranks together, then those of each rank.
    pub(crate) fn numbers(&self) -> &[AtomicU64] {
        let count = HEAD_NUMBERS + self.ranks * RANK_NUMBERS;
        // SAFETY: the memory begins with them, aligned, and is there as long as `self`; zeroed
        // memory is valid, and all ranks use it as the atomic numbers that it is made of.
        unsafe { std::slice::from_raw_parts(self.start.cast::<AtomicU64>(), count) }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> Span {
        let before = numbers_end(self.ranks).next_multiple_of(PAGE_BYTES);
        Span::at(self.start.wrapping_add(before), 0..wide(self.bytes).cast_signed())
    }
}

/// Where the numbers of this number of ranks end.
fn numbers_end(ranks: usize) -> usize {
    (HEAD_NUMBERS + ranks * RANK_NUMBERS) * size_of::<AtomicU64>()
}
