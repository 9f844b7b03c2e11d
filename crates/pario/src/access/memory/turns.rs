//! Copies between one window and the data of several ranks.
//!
//! Where pieces are shorter than a cache line, each line of the window has pieces of several ranks.
//! Copied one parcel after the other, every line would be loaded once for each rank. So copies are
//! cache-blocked: all parcels are copied round-robin, in steps so short that the lines which one
//! turn of all ranks touches stay in the second-level cache.
//!
//! Where their pieces lie side by side, those of several ranks are copied at once ([`GROUP`]).
//!
//! Cost: one step for every [`TURN_BYTES`] of the window and each rank. Measured in a program that
//! does nothing else: 100 MiB in pieces of 4 bytes, read by 2 threads through windows to 16 buffers
//! with non-temporal stores, 14.7 ms instead of 19.7 (with turns of 16 KiB).

use std::marker::PhantomData;

use super::{Buffer, FileWindow, Parcel};
use crate::datatype::copy::{Copying, GROUP, Side, Span, Stores};
use crate::datatype::layout::PACKED;
use crate::number::wide;

/// Pieces of a cache line and more are copied one parcel after the other.
const SHORT_BYTES: u64 = 64;
/// Bytes of the window that a turn of all ranks touches: a small part of the second-level cache.
/// With less, beginning a step costs more than the first-level cache saves. (100 MiB read by 16
/// threads, times Block I/O, with 16 KiB and with 64 KiB: pieces of 4 bytes 1.10 and 1.05, of 8
/// bytes 1.53 and 1.38, of 32 bytes 1.71 and 1.36.)
const TURN_BYTES: u64 = 64 << 10;
/// A step is not shorter, however many ranks there are.
const STEP_BYTES_MIN: u64 = 256;
/// A step is whole lines, so that copies which go together stay together.
const LINE: u64 = 64;

/// Copies between a window and the memory of ranks, to be made.
pub(crate) struct Turns<'a> {
    /// The window, in which file offsets are offsets.
    window: Span,
    copies: Vec<Copying<'a>>,
    /// Whether they go to the window; otherwise they come from there.
    into_window: bool,
    short: bool,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Turns<'a> {
    /// With room for about this number of copies.
    pub(crate) fn new(window: &'a mut FileWindow<'_>, copies: usize) -> Turns<'a> {
        let span = Span::of_mut(window.bytes).based_at(window.offset.cast_signed());
        let (copies, borrowed) = (Vec::with_capacity(copies), PhantomData);
        Turns { window: span, copies, into_window: false, short: false, borrowed }
    }

    /// The data of a parcel is to go to its place in the window.
    pub(crate) fn fill(&mut self, buffer: &'a Buffer, parcel: &Parcel<'a>) {
        let source = buffer.side(parcel.positions.start);
        self.into_window = true;
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
        self.into_window = true;
        self.add(self.place(parcel), source, (parcel, Stores::Cached));
    }

    /// The bytes of a parcel are to come from the window, one after the other.
    pub(crate) fn pack(&mut self, bytes: &'a mut [u8], parcel: &Parcel<'a>, stores: Stores) {
        let target = Side { span: Span::of_mut(bytes), layout: &PACKED, position: 0 };
        self.add(target, self.place(parcel), (parcel, stores));
    }

    /// Makes the copies. `apart` says that no byte of the window is written twice; otherwise the
    /// last parcel wins.
    pub(crate) fn run(mut self, apart: bool) {
        if !self.short || !apart {
            for copy in &mut self.copies {
                copy.step(u64::MAX);
            }
            return;
        }
        let step = (TURN_BYTES / wide(self.copies.len())).max(STEP_BYTES_MIN) / LINE * LINE;
        let (mut turn, into_window) = (0, self.into_window);
        while !self.copies.is_empty() {
            // Copies that follow each other in the window are side by side; a first step may
            // change that order, where the window begins inside a piece.
            if turn < 2 {
                self.copies.sort_by_key(|copy| copy.next(into_window));
            }
            for group in self.copies.chunks_mut(GROUP) {
                if !Copying::step_together(group, step) {
                    group.iter_mut().for_each(|copy| copy.step(step));
                }
            }
            self.copies.retain(|copy| !copy.is_done());
            turn += 1;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::datatype::layout::Layout;
    use crate::number::narrow;

    /// Ranks with pieces in turn, and a window that begins and ends anywhere among them.
    #[test]
    fn every_byte_gets_to_its_place() {
        const PIECES: u64 = 600;
        for (ranks, piece) in
            [1, 3, 4, 5, 8, 16].into_iter().flat_map(|ranks| [1, 4, 8, 12, 16].map(|p| (ranks, p)))
        {
            let row = ranks * piece;
            let file: Vec<u8> = (0..PIECES * row).map(|index| (index * 31 % 251) as u8).collect();
            let access = |rank: u64| {
                let first = Layout::block((rank * piece).cast_signed(), piece).unwrap();
                let view = first.repeated(PIECES, row.cast_signed()).unwrap();
                Access::new(&view, 0, PIECES * piece).unwrap()
            };
            let accesses: Vec<Access> = (0..ranks).map(access).collect();
            let data = |rank: u64| -> Vec<u8> {
                let pieces = file.chunks_exact(narrow(piece)).skip(narrow(rank));
                pieces.step_by(narrow(ranks)).flatten().copied().collect()
            };
            for start in [0, 2, piece, row - 1, 5 * row + piece / 2] {
                let window = start..wide(file.len()) - start / 2;
                let parcel = |access| {
                    let positions = Access::within(access, &window);
                    Parcel { access, positions }
                };
                let parcels: Vec<Parcel<'_>> = accesses.iter().map(parcel).collect();
                let mut all: Vec<Vec<u8>> = (0..ranks).map(data).collect();
                let buffers: Vec<Buffer> =
                    all.iter_mut().map(|all| Buffer::of_bytes(all)).collect();
                let mut bytes = vec![0; narrow(window.end - window.start)];
                let mut contents = FileWindow { offset: window.start, bytes: &mut bytes };
                let mut turns = Turns::new(&mut contents, parcels.len());
                for (buffer, parcel) in buffers.iter().zip(&parcels) {
                    turns.fill(buffer, parcel);
                }
                turns.run(true);
                let wanted = &file[narrow(window.start)..narrow(window.end)];
                assert!(bytes == wanted, "fill: {ranks} ranks, {piece} bytes, from {start}");

                let wanted = all.clone();
                for (all, parcel) in all.iter_mut().zip(&parcels) {
                    all[narrow(parcel.positions.start)..narrow(parcel.positions.end)].fill(0);
                }
                let buffers: Vec<Buffer> =
                    all.iter_mut().map(|all| Buffer::of_bytes(all)).collect();
                let mut contents = FileWindow { offset: window.start, bytes: &mut bytes };
                let mut turns = Turns::new(&mut contents, parcels.len());
                for (buffer, parcel) in buffers.iter().zip(&parcels) {
                    turns.take(buffer, parcel);
                }
                turns.run(true);
                assert!(all == wanted, "take: {ranks} ranks, {piece} bytes, from {start}");
            }
        }
    }
}
