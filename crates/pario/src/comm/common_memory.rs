//! Memory that ranks in different processes of one node have in common.
//!
//! It has room for windows of the file, and what the ranks agree by who uses them when (`board`).
//!
//! Unsafe: an address and a length, for whoever keeps them mapped; and atomic numbers there.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::board::{Notes, SLOTS_MAX};
use super::collective::index;
use crate::datatype::copy::Span;
use crate::number::{narrow, wide};

const PAGE_BYTES: usize = 4096;

/// Keeps memory where it is.
pub trait Keeper: Send + Sync {
    /// One rank is about to use most of the memory for the first time, and others will soon.
    fn settle(&self) {}
}

impl<T: Send + Sync> Keeper for Vec<T> {}

/// Memory of a communicator's ranks on one node, as one of them sees it.
///
/// | part | what it is |
/// | --- | --- |
/// | notes | what the ranks agree by |
/// | states | what each of them does |
/// | places | for each window in use, a number for each rank |
/// | windows | bytes of the file, from the beginning of a page on |
pub struct CommonMemory {
    start: *mut u8,
    window_bytes: usize,
    /// Whether a rank has this memory, by rank.
    reaches: Vec<bool>,
    /// How often this rank has used it, as all ranks have.
    uses: AtomicU64,
    /// Whether it has been settled, or is so now.
    settled: AtomicBool,
    keeper: Arc<dyn Keeper>,
}

// SAFETY: it is an address and numbers; using the memory is what needs care (`Span`).
unsafe impl Send for CommonMemory {}
// SAFETY: as above.
unsafe impl Sync for CommonMemory {}

/// Some memory of this process in the place of common memory.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Line([AtomicU64; 8]);

impl Line {
    const BYTES: usize = size_of::<Line>();

    /// So many bytes, or a few more.
    pub(super) fn lines(bytes: usize) -> Vec<Line> {
        std::iter::repeat_with(Line::default).take(bytes.div_ceil(Line::BYTES)).collect()
    }
}

impl CommonMemory {
    /// Bytes of the memory of a communicator with so many ranks, with so many bytes for windows.
    pub fn bytes(ranks: usize, window_bytes: usize) -> usize {
        numbers_end(ranks).next_multiple_of(PAGE_BYTES) + window_bytes
    }

    /// Memory at `start` with room for so many bytes of windows, of those ranks of a communicator
    /// for which `reaches` says so.
    ///
    /// # Safety
    /// As many bytes as [`CommonMemory::bytes`] says are mapped for reading and writing from
    /// `start` on, aligned to 64 bytes, while `keeper` lives. They were zero before any rank had
    /// them, and are used by nothing else.
    pub unsafe fn new(
        start: *mut u8,
        window_bytes: usize,
        reaches: Vec<bool>,
        keeper: Arc<dyn Keeper>,
    ) -> CommonMemory {
        let (uses, settled) = (AtomicU64::new(0), AtomicBool::new(false));
        CommonMemory { start, window_bytes, reaches, uses, settled, keeper }
    }

    /// Memory of this process, for ranks that are threads of it.
    pub(super) fn of_threads(
        lines: &Arc<Vec<Line>>,
        window_bytes: usize,
        (nodes, node): (&[u32], u32),
    ) -> CommonMemory {
        let reaches = nodes.iter().map(|&one| one == node).collect();
        let start = lines.as_ptr().cast_mut().cast();
        // SAFETY: the lines live as long as the keeper, and there are enough; atomic numbers may be
        // written to by whoever shares them.
        unsafe { CommonMemory::new(start, window_bytes, reaches, lines.clone()) }
    }

    /// Whether a rank has this memory too.
    pub fn reaches(&self, rank: u32) -> bool {
        self.reaches.get(index(rank)).is_some_and(|&reaches| reaches)
    }

    /// Bytes for windows.
    pub fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// The number of the next use: all ranks use it together, in the same order.
    pub(crate) fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether it has to be settled before the first use of all its windows; the same on all ranks.
    pub(crate) fn must_settle(&self) -> bool {
        !self.settled.swap(true, Ordering::Relaxed)
    }

    /// Makes it ready for that; one rank does.
    pub(crate) fn settle(&self) {
        self.keeper.settle();
    }

    /// What the ranks agree by.
    pub(crate) fn notes(&self) -> &Notes {
        // SAFETY: the memory begins with them, aligned, and is there as long as `self`; zeroed
        // memory is valid, and all ranks use it as the atomic numbers that it is made of.
        unsafe { &*self.start.cast::<Notes>() }
    }

    /// What each rank does, then where, and then a number for each rank and slot.
    fn numbers(&self) -> &[AtomicU64] {
        let count = self.reaches.len() * (2 + SLOTS_MAX);
        // SAFETY: as above; `numbers_end` counts so many.
        unsafe {
            let first = self.start.add(size_of::<Notes>()).cast::<AtomicU64>();
            std::slice::from_raw_parts(first, count)
        }
    }

    /// What each rank does.
    pub(crate) fn states(&self) -> &[AtomicU64] {
        &self.numbers()[..self.reaches.len()]
    }

    /// The processor that each rank was on when it last told.
    pub(crate) fn processors(&self) -> &[AtomicU64] {
        &self.numbers()[self.reaches.len()..2 * self.reaches.len()]
    }

    /// A number for each slot of windows and rank.
    pub(crate) fn place(&self, slot: u64, rank: u32) -> &AtomicU64 {
        &self.numbers()[(2 + narrow(slot)) * self.reaches.len() + index(rank)]
    }

    /// The bytes for windows.
    pub(crate) fn windows(&self) -> Span {
        let before = numbers_end(self.reaches.len()).next_multiple_of(PAGE_BYTES);
        Span::at(self.start.wrapping_add(before), 0..wide(self.window_bytes).cast_signed())
    }
}

/// Where the numbers of so many ranks end.
fn numbers_end(ranks: usize) -> usize {
    size_of::<Notes>() + ranks * (2 + SLOTS_MAX) * size_of::<AtomicU64>()
}

impl fmt::Debug for CommonMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommonMemory { window_bytes, reaches, .. } = self;
        formatter
            .debug_struct("CommonMemory")
            .field("window_bytes", window_bytes)
            .field("reaches", reaches)
            .finish_non_exhaustive()
    }
}
