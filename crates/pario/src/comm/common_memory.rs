//! Memory that ranks in different processes of one node have in common.
//!
//! Each rank has a part, and all ranks of the node can use all parts. Who uses which bytes when is
//! agreed by messages (`exchange::common`); here is only where they are.
//!
//! Unsafe: an address and a length, for whoever keeps them mapped.
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use crate::datatype::copy::Span;
use crate::number::wide;

/// Memory of a communicator's ranks on one node, as one of them sees it.
pub struct CommonMemory {
    start: *mut u8,
    part_bytes: usize,
    /// The number of each rank's part; none for ranks on other nodes.
    parts: Vec<Option<usize>>,
    /// Keeps the memory where it is.
    _keeper: Arc<dyn Any + Send + Sync>,
}

// SAFETY: it is an address and numbers; using the memory is what needs care (`Span`).
unsafe impl Send for CommonMemory {}
// SAFETY: as above.
unsafe impl Sync for CommonMemory {}

impl CommonMemory {
    /// Memory at `start` in parts of `part_bytes` bytes, whose numbers are given by rank; none for
    /// ranks that do not have this memory.
    ///
    /// # Safety
    /// All parts are mapped for reading and writing while `keeper` lives, and used by nothing else.
    pub unsafe fn new(
        start: *mut u8,
        part_bytes: usize,
        parts: Vec<Option<usize>>,
        keeper: Arc<dyn Any + Send + Sync>,
    ) -> CommonMemory {
        CommonMemory { start, part_bytes, parts, _keeper: keeper }
    }

    /// Memory of this process, for ranks that are threads of it.
    pub(super) fn of_threads(bytes: &Arc<Vec<AtomicU8>>, nodes: &[u32], node: u32) -> CommonMemory {
        let part = |(rank, one): (usize, &u32)| (*one == node).then_some(rank);
        let parts: Vec<Option<usize>> = nodes.iter().enumerate().map(part).collect();
        let start = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the bytes live as long as the keeper; atomic numbers may be written to by
        // whoever shares them.
        unsafe { CommonMemory::new(start, bytes.len() / nodes.len().max(1), parts, bytes.clone()) }
    }

    /// Whether a rank has this memory too.
    pub fn reaches(&self, rank: u32) -> bool {
        self.number(rank).is_some()
    }

    /// Bytes of each part.
    pub fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    fn number(&self, rank: u32) -> Option<usize> {
        self.parts.get(usize::try_from(rank).ok()?).copied().flatten()
    }

    /// The part of a rank.
    pub(crate) fn part(&self, rank: u32) -> Option<Span> {
        let start = self.start.wrapping_add(self.number(rank)? * self.part_bytes);
        Some(Span::at(start, 0..wide(self.part_bytes).cast_signed()))
    }
}

impl fmt::Debug for CommonMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommonMemory { part_bytes, parts, .. } = self;
        formatter
            .debug_struct("CommonMemory")
            .field("part_bytes", part_bytes)
            .field("parts", parts)
            .finish_non_exhaustive()
    }
}
