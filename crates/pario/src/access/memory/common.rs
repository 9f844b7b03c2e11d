//! Windows of the file in memory that the ranks of a node have in common.
//!
//! Rule 3 of the module above, for these bytes: an aggregator alone uses its window until it says
//! that it is open. From then on each rank touches the bytes of its own parcels only, until it says
//! that it is done; no byte is in the parcels of two ranks, or none is written. When all have said
//! so, the window is the aggregator's alone again.

use super::{Buffer, Parcel};
use crate::comm::CommonMemory;
use crate::datatype::copy::Span;
use crate::number::{narrow, wide};

/// A window of an aggregator, wherever it is looked at from.
#[derive(Clone)]
pub(crate) struct CommonWindow {
    span: Span,
}

impl CommonWindow {
    /// The one of an aggregator's windows, `count` in all, that is used in a round.
    pub(crate) fn of(
        memory: &CommonMemory,
        aggregator: u32,
        (round, count): (u64, u64),
    ) -> Option<CommonWindow> {
        let bytes = (wide(memory.part_bytes()) / count).cast_signed();
        let first = (round % count).cast_signed() * bytes;
        Some(CommonWindow { span: memory.part(aggregator)?.based_at(-first).cut(0..bytes) })
    }

    /// Its bytes, for the aggregator while they are its alone.
    pub(crate) fn bytes<'a>(&self, start: usize, len: usize) -> &'a mut [u8] {
        // SAFETY: rule 3; the span checks its bounds.
        unsafe { self.span.bytes_mut(wide(start).cast_signed(), len) }
    }

    /// Whether so many bytes are in it.
    pub(crate) fn holds(&self, first: u64, len: u64) -> bool {
        let end = first.checked_add(len).and_then(|end| i64::try_from(end).ok());
        end.is_some_and(|end| self.span.reaches(0..end))
    }
}

impl Buffer {
    /// Copies the data of this rank's parcel to its place in a window that begins at a file offset.
    pub(crate) fn fill_common(&self, window: &CommonWindow, offset: u64, parcel: &Parcel<'_>) {
        // SAFETY: rules 1 to 3.
        unsafe { self.copy_to(&window.span, offset, parcel) }
    }

    /// Copies the data of this rank's parcel to a window, packed from its byte `first` on.
    pub(crate) fn pack_common(&self, window: &CommonWindow, first: u64, parcel: &Parcel<'_>) {
        self.pack(&parcel.positions, window.bytes(narrow(first), narrow(parcel.len())));
    }

    /// Copies the data of this rank's parcel from such bytes.
    pub(crate) fn unpack_common(&self, window: &CommonWindow, first: u64, parcel: &Parcel<'_>) {
        self.unpack(&parcel.positions, window.bytes(narrow(first), narrow(parcel.len())));
    }

    /// Copies the data of this rank's parcel from its place in such a window.
    pub(crate) fn take_common(&self, window: &CommonWindow, offset: u64, parcel: &Parcel<'_>) {
        // SAFETY: rules 1 to 3.
        unsafe { self.copy_from(&window.span, offset, parcel) }
    }
}
