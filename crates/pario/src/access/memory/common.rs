//! Windows of the file in memory that the ranks of a node have in common.
//!
//! Rule 3 of the module above, for these bytes: an aggregator alone uses its window until it says
//! that it is open. From then on each rank touches the bytes of its own parcels only, until it says
//! that it is done; no byte is in the parcels of two ranks, or none is written. When all have said
//! so, the window is the aggregator's alone again.

use super::{Buffer, Parcel};
use crate::comm::CommonMemory;
use crate::datatype::copy::Span;
use crate::number::wide;

/// How many windows an aggregator has: while one is stored, the next can be filled.
pub(crate) const COMMON_WINDOWS: u64 = 2;

/// A window of an aggregator, wherever it is looked at from.
#[derive(Clone)]
pub(crate) struct CommonWindow {
    span: Span,
}

impl CommonWindow {
    /// The window that an aggregator of this node uses in a round.
    pub(crate) fn of(memory: &CommonMemory, aggregator: u32, round: u64) -> Option<CommonWindow> {
        let bytes = common_window_bytes(memory).cast_signed();
        let first = (round % COMMON_WINDOWS).cast_signed() * bytes;
        Some(CommonWindow { span: memory.part(aggregator)?.based_at(-first).cut(0..bytes) })
    }

    /// Its bytes, for the aggregator while they are its alone.
    pub(crate) fn bytes(&mut self, start: usize, len: usize) -> &mut [u8] {
        // SAFETY: rule 3; the span checks its bounds.
        unsafe { self.span.bytes_mut(wide(start).cast_signed(), len) }
    }
}

/// Bytes of one window.
pub(crate) fn common_window_bytes(memory: &CommonMemory) -> u64 {
    wide(memory.part_bytes()) / COMMON_WINDOWS
}

impl Buffer {
    /// Copies the data of this rank's parcel to its place in a window that begins at a file offset.
    pub(crate) fn fill_common(&self, window: &CommonWindow, offset: u64, parcel: &Parcel<'_>) {
        // SAFETY: rules 1 to 3.
        unsafe { self.copy_to(&window.span, offset, parcel) }
    }

    /// Copies the data of this rank's parcel from its place in such a window.
    pub(crate) fn take_common(&self, window: &CommonWindow, offset: u64, parcel: &Parcel<'_>) {
        // SAFETY: rules 1 to 3.
        unsafe { self.copy_from(&window.span, offset, parcel) }
    }
}
