//! Windows of the file in memory that the ranks of a node have in common.
//!
//! Rule 3 of the module above, for these bytes: one rank alone uses a window until it opens it
//! (`comm::board`). From then on each rank touches the bytes of its own parcels only, until it
//! leaves the window; no byte is in the parcels of two ranks, or none is written. When all have
//! left it, the window belongs to one rank again, until its slot is given to the next.

use super::{Buffer, Parcel};
use crate::comm::CommonMemory;
use crate::datatype::copy::Span;
use crate::number::{narrow, wide};

/// The slot of a window, wherever it is looked at from.
#[derive(Clone)]
pub(crate) struct CommonWindow {
    span: Span,
}

impl CommonWindow {
    /// A slot of so many bytes.
    pub(crate) fn of(memory: &CommonMemory, slot: u64, bytes: u64) -> CommonWindow {
        let first = slot.saturating_mul(bytes).cast_signed();
        CommonWindow { span: memory.windows().based_at(-first).cut(0..bytes.cast_signed()) }
    }

    /// Its bytes, for one rank while they are its alone.
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
        unsafe { self.copy_to(&window.span, offset, parcel, self.stores()) }
    }

    /// Copies the data of this rank's parcel to a window, packed from its byte `first` on.
    pub(crate) fn pack_common(&self, window: &CommonWindow, first: u64, parcel: &Parcel<'_>) {
        let bytes = window.bytes(narrow(first), narrow(parcel.len()));
        self.pack_by(&parcel.positions, bytes, self.stores());
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
