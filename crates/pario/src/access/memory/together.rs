//! Copies between a window of the file and the data of many ranks, carried out together.
//!
//! Cost: one pass over the bytes; the window goes through the cache nearest to the core a tile at
//! a time, however many ranks have pieces in it.

use std::marker::PhantomData;

use super::{Buffer, FileWindow, Parcel};
use crate::datatype::copy::{Place, Span, Walk, Window, copy_in_tiles};
use crate::datatype::cursor::Cursor;
use crate::number::wide;

/// Copies that share a window.
pub(crate) struct Together<'a> {
    window: Span,
    /// Offset of the window's first byte.
    first: i64,
    side: Window,
    walks: Vec<Walk<'a>>,
    /// Window, buffers and bytes are borrowed until the copies are done.
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Together<'a> {
    /// Copies to a window.
    pub(crate) fn onto(window: &'a mut FileWindow<'_>) -> Together<'a> {
        let first = window.offset.cast_signed();
        let window = Span::of_mut(window.bytes).based_at(first);
        Together { window, first, side: Window::Target, walks: Vec::new(), borrowed: PhantomData }
    }

    /// Copies from a window.
    pub(crate) fn out_of(window: &'a FileWindow<'_>) -> Together<'a> {
        let first = window.offset.cast_signed();
        let window = Span::of(window.bytes).based_at(first);
        Together { window, first, side: Window::Source, walks: Vec::new(), borrowed: PhantomData }
    }

    /// Adds a parcel whose data is in, or goes to, a buffer.
    pub(crate) fn buffer(&mut self, buffer: &'a Buffer, parcel: &Parcel<'a>) {
        let memory = buffer.side(parcel.positions.start).place(parcel.len());
        self.add(memory, parcel);
    }

    /// Adds a parcel whose data is these bytes, one after the other. Only for copies to a window.
    pub(crate) fn bytes(&mut self, bytes: &'a [u8], parcel: &Parcel<'a>) {
        debug_assert_eq!(self.side, Window::Target);
        let cursor = Cursor::packed(wide(bytes.len()).min(parcel.len()));
        self.add(Place { span: Span::of(bytes), cursor }, parcel);
    }

    /// Adds a parcel whose data goes to these bytes, one after the other.
    pub(crate) fn room(&mut self, bytes: &'a mut [u8], parcel: &Parcel<'a>) {
        let cursor = Cursor::packed(wide(bytes.len()).min(parcel.len()));
        self.add(Place { span: Span::of_mut(bytes), cursor }, parcel);
    }

    fn add(&mut self, memory: Place<'a>, parcel: &Parcel<'a>) {
        let (layout, position) = parcel.access.place(parcel.positions.start);
        let cursor = Cursor::new(layout, position..position + parcel.len());
        let window = Place { span: self.window.clone(), cursor };
        self.walks.push(match self.side {
            Window::Target => Walk::new(window, memory, self.side),
            Window::Source => Walk::new(memory, window, self.side),
        });
    }

    /// Carries the copies out. Where parcels may share bytes of the window, one comes after the
    /// other, whole.
    pub(crate) fn run(self, apart: bool) {
        // SAFETY: rules 1 and 2 of the module above; window and bytes are borrowed, what is copied
        // to exclusively. Tiles are for parcels that have no byte in common.
        unsafe {
            match apart && self.walks.len() > 1 {
                true => copy_in_tiles(self.walks, self.first),
                false => self.walks.into_iter().for_each(|mut walk| walk.copy_below(i64::MAX)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    /// Many ranks' pieces, in tiles, end where they end one by one.
    #[test]
    fn tiles_change_nothing() {
        const RANKS: u64 = 7;
        for (len, count, first) in [(4u64, 3000u64, 0), (24, 700, 5), (1, 20_000, 3), (900, 40, 1)]
        {
            let stride = (len * RANKS).cast_signed();
            let accesses: Vec<Access> = (0..RANKS)
                .map(|rank| {
                    let start = (first + rank * len).cast_signed();
                    let block = Layout::block(start, len).unwrap();
                    let layout = block.repeated(count, stride).unwrap();
                    Access::new(&layout, 0, len * count).unwrap()
                })
                .collect();
            let data: Vec<Vec<u8>> = (0..RANKS)
                .map(|rank| (0..len * count).map(|k| ((k * 7 + rank * 31) % 251) as u8).collect())
                .collect();
            let whole = narrow(first + len * count * RANKS);
            let (mut one, mut two) = (vec![0u8; whole], vec![0u8; whole]);
            for (bytes, apart) in [(&mut one, true), (&mut two, false)] {
                let mut window = FileWindow { offset: 0, bytes };
                let mut together = Together::onto(&mut window);
                for (access, data) in accesses.iter().zip(&data) {
                    together.bytes(data, &Parcel { access, positions: access.positions() });
                }
                together.run(apart);
            }
            assert!(one == two, "{len} {count}");
            let window = FileWindow { offset: 0, bytes: &mut one };
            let mut rooms: Vec<Vec<u8>> = data.iter().map(|data| vec![0; data.len()]).collect();
            let mut together = Together::out_of(&window);
            for (access, room) in accesses.iter().zip(&mut rooms) {
                together.room(room, &Parcel { access, positions: access.positions() });
            }
            together.run(true);
            assert!(rooms == data, "{len} {count}");
        }
    }
}
