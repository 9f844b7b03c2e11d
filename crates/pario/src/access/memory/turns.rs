//! Copies between one window and the data of several ranks.
//!
//! Where ranks have pieces shorter than a cache line in turn, each line of the window belongs to
//! several of them. Whole parcels one after the other would bring every line to the core once for
//! each rank; so they take turns, in steps so short that all lines which a turn touches stay in the
//! cache nearest to the core.
//!
//! Cost: one step for every [`TURN_BYTES`] of the window and each rank. Measured in a program that
//! does nothing else: 100 MiB in pieces of 4 bytes, read by 2 threads through windows to 16 buffers
//! past the cache, 14.7 ms instead of 19.7.

use std::marker::PhantomData;

use super::{Buffer, FileWindow, Parcel};
use crate::datatype::copy::{Copying, Side, Span, Stores};
use crate::datatype::layout::PACKED;
use crate::number::wide;

/// Pieces of a cache line and more are copied one parcel after the other.
const SHORT_BYTES: u64 = 64;
/// Bytes of the window that a turn of all ranks touches: half a cache.
const TURN_BYTES: u64 = 16 << 10;
/// A step is not shorter, however many ranks there are.
const STEP_BYTES_MIN: u64 = 256;

/// Copies between a window and the memory of ranks, to be made.
pub(crate) struct Turns<'a> {
    /// The window, in which file offsets are offsets.
    window: Span,
    copies: Vec<Copying<'a>>,
    short: bool,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Turns<'a> {
    pub(crate) fn new(window: &'a mut FileWindow<'_>) -> Turns<'a> {
        let span = Span::of_mut(window.bytes).based_at(window.offset.cast_signed());
        Turns { window: span, copies: Vec::new(), short: false, borrowed: PhantomData }
    }

    /// The data of a parcel is to go to its place in the window.
    pub(crate) fn fill(&mut self, buffer: &'a Buffer, parcel: &Parcel<'a>) {
        let source = buffer.side(parcel.positions.start);
        self.add(self.place(parcel), source, (parcel, Stores::Cached));
    }

    /// The data of a parcel is to come from its place in the window.
    pub(crate) fn take(&mut self, buffer: &'a Buffer, parcel: &Parcel<'a>) {
        let target = buffer.side(parcel.positions.start);
        self.add(target, self.place(parcel), (parcel, buffer.stores()));
    }

    /// Consecutive bytes of a parcel are to go to their places in the window.
    pub(crate) fn unpack(&mut self, bytes: &'a [u8], parcel: &Parcel<'a>) {
        let source = Side { span: Span::of(bytes), layout: &PACKED, position: 0 };
        self.add(self.place(parcel), source, (parcel, Stores::Cached));
    }

    /// The bytes of a parcel are to come from the window, one after the other.
    pub(crate) fn pack(&mut self, bytes: &'a mut [u8], parcel: &Parcel<'a>) {
        let target = Side { span: Span::of_mut(bytes), layout: &PACKED, position: 0 };
        self.add(target, self.place(parcel), (parcel, Stores::Cached));
    }

    /// Makes the copies. `apart` tells that no byte of the window is written twice; otherwise the
    /// last parcel wins.
    pub(crate) fn run(mut self, apart: bool) {
        let step = match self.short && apart {
            true => (TURN_BYTES / wide(self.copies.len())).max(STEP_BYTES_MIN),
            false => u64::MAX,
        };
        while !self.copies.is_empty() {
            self.copies.retain_mut(|copy| copy.step(step));
        }
    }

    /// Where a parcel lies in the window.
    fn place(&self, parcel: &Parcel<'a>) -> Side<'a> {
        let (layout, position) = parcel.access.place(parcel.positions.start);
        Side { span: self.window.clone(), layout, position }
    }

    fn add(&mut self, target: Side<'a>, source: Side<'a>, (parcel, stores): (&Parcel<'a>, Stores)) {
        self.short |= parcel.access.piece_bytes() < SHORT_BYTES;
        // SAFETY: rules 1 and 2 of the module above; window and bytes are borrowed for longer than
        // this lives, and the copies are made by one thread, one step after the other.
        self.copies.push(unsafe { Copying::new(target, source, parcel.len(), stores) });
    }
}
