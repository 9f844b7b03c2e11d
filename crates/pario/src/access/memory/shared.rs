//! Slots of shared memory, for windows of the file.
//!
//! Rule 2 of `memory`: the server that has claimed a window uses its slot alone until it opens the
//! window (`exchange::schedule`). From then on each rank touches the bytes of its own parcels only,
//! until it leaves the window; no byte that is written is in the parcels of two ranks. When all
//! ranks have left, the slot belongs to one server again, until the window is done.

use super::{Buffer, Parcel};
use crate::comm::Region;
use crate::datatype::copy::Span;
use crate::number::{narrow, wide};

/// A slot, as the rank that uses it sees it.
pub(crate) struct Slot {
    span: Span,
}

impl Slot {
    /// A slot of this number of bytes.
    ///
    /// # Safety
    /// The region outlives the slot, and the caller keeps to the rule above.
    pub(crate) unsafe fn new(region: &Region, number: u64, bytes: u64) -> Slot {
        let first = number.saturating_mul(bytes).cast_signed();
        Slot { span: region.bytes().based_at(-first).cut(0..bytes.cast_signed()) }
    }

    /// Some of its bytes.
    pub(crate) fn bytes(&mut self, start: usize, len: usize) -> &mut [u8] {
        // SAFETY: the rule above; the span checks its bounds.
        unsafe { self.span.bytes_mut(wide(start).cast_signed(), len) }
    }

    /// Several stretches of its bytes, each after the one before it.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn stretches(&mut self, places: &[(u64, u64)]) -> Vec<&mut [u8]> {
        let mut end = 0;
        let mut stretch = |&(start, len): &(u64, u64)| {
            assert!(start >= end, "stretches do not overlap");
            end = start + len;
            // SAFETY: as above, and no byte is in two of them.
            unsafe { self.span.bytes_mut(start.cast_signed(), narrow(len)) }
        };
        places.iter().map(&mut stretch).collect()
    }

    /// Whether this number of bytes from `first` on is in it.
    pub(crate) fn holds(&self, first: u64, len: u64) -> bool {
        let end = first.checked_add(len).and_then(|end| i64::try_from(end).ok());
        end.is_some_and(|end| self.span.reaches(0..end))
    }
}

impl Buffer {
    /// Copies the data of this rank's parcel to its place in a window that begins at an offset.
    pub(crate) fn fill_slot(&self, slot: &mut Slot, offset: u64, parcel: &Parcel<'_>) {
        // SAFETY: rules 1 and 2.
        unsafe { self.copy_to(&slot.span, offset, parcel, self.stores()) }
    }

    /// Copies the data of this rank's parcel from its place in such a window.
    pub(crate) fn take_slot(&self, slot: &Slot, offset: u64, parcel: &Parcel<'_>) {
        // SAFETY: rules 1 and 2.
        unsafe { self.copy_from(&slot.span, offset, parcel) }
    }

    /// Copies the data of this rank's parcel to a slot, packed from its byte `first` on.
    pub(crate) fn pack_slot(&self, slot: &mut Slot, first: u64, parcel: &Parcel<'_>) {
        let bytes = slot.bytes(narrow(first), narrow(parcel.len()));
        self.pack_by(&parcel.positions, bytes, self.stores());
    }

    /// Copies the data of this rank's parcel from such bytes.
    pub(crate) fn unpack_slot(&self, slot: &mut Slot, first: u64, parcel: &Parcel<'_>) {
        self.unpack(&parcel.positions, slot.bytes(narrow(first), narrow(parcel.len())));
    }
}
