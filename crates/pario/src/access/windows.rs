//! An access cut into windows: neighbouring pieces that one storage call can serve.
//!
//! Pieces join a window while the hole before the next one is at most `hole_bytes` and the window
//! stays within `window_bytes`. With no holes allowed, windows are the contiguous runs; with
//! larger ones they are what data sieving reads and writes, and holes too large to pay are never
//! touched: the "intelligent" sieving that papers 003 and 004 leave open.
//!
//! Cost: a step for each innermost loop, not for each piece, where holes inside it are small.

use std::ops::Range;

use super::Access;
use crate::datatype::cursor::{Chunk, Cursor};

/// Consecutive positions that one storage call serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The file range from the first to the last byte.
    pub(crate) file: Range<u64>,
    /// The positions of the request inside it.
    pub(crate) positions: Range<u64>,
}

impl Window {
    /// Whether every byte of the file range is asked for.
    pub(crate) fn is_dense(&self) -> bool {
        self.positions.end - self.positions.start == self.file.end - self.file.start
    }
}

/// How windows are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Largest window; a contiguous run is not cut.
    pub(crate) window_bytes: u64,
    /// Largest hole inside a window; 0 makes every window one run.
    pub(crate) hole_bytes: u64,
}

pub(crate) struct Windows<'a> {
    cursor: Cursor<'a>,
    position: u64,
    cut: Cut,
}

impl<'a> Windows<'a> {
    pub(crate) fn new(access: &'a Access, cut: Cut) -> Windows<'a> {
        let positions = access.positions();
        let (layout, data) = access.place(positions.start);
        let cursor = Cursor::new(layout, data..data + access.len());
        Windows { cursor, position: positions.start, cut }
    }

    /// How many blocks of a chunk, at most, can follow a window that ends at `file.end`.
    fn fitting(&self, chunk: &Chunk, file: &Range<u64>) -> u64 {
        let offset = chunk.offset.cast_unsigned();
        let hole = chunk.stride - chunk.len.cast_signed();
        let many = chunk.count > 1 && (0..=self.cut.hole_bytes.cast_signed()).contains(&hole);
        let limit = file.start.saturating_add(self.cut.window_bytes);
        match limit.checked_sub(offset + chunk.len) {
            None => 0,
            Some(_) if !many => 1,
            Some(room) => (room / chunk.stride.cast_unsigned() + 1).min(chunk.count),
        }
    }
}

impl Iterator for Windows<'_> {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        let first = self.cursor.chunk()?;
        let start = self.position;
        let offset = first.offset.cast_unsigned();
        let mut file = offset..offset;
        while let Some(chunk) = self.cursor.chunk() {
            let offset = chunk.offset.cast_unsigned();
            let joins =
                offset.checked_sub(file.end).is_some_and(|hole| hole <= self.cut.hole_bytes);
            if !joins {
                break;
            }
            let blocks = match self.fitting(&chunk, &file) {
                // A single run larger than a window is one window.
                0 if self.position == start => 1,
                0 => break,
                blocks => blocks,
            };
            let last = offset + (blocks - 1) * chunk.stride.cast_unsigned();
            file.end = last + chunk.len;
            self.position += blocks * chunk.len;
            self.cursor.advance(blocks * chunk.len);
        }
        Some(Window { file, positions: start..self.position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::layout::Layout;

    fn windows(layout: &Layout, window_bytes: u64, hole_bytes: u64) -> Vec<(u64, u64, u64)> {
        let access = Access::new(layout, 0, layout.size()).unwrap();
        Windows::new(&access, Cut { window_bytes, hole_bytes })
            .map(|window| (window.file.start, window.file.end, window.positions.end))
            .collect()
    }

    #[test]
    fn without_holes_windows_are_runs() {
        let layout = Layout::block(10, 4).unwrap().repeated(3, 20).unwrap();
        assert_eq!(windows(&layout, 1000, 0), [(10, 14, 4), (30, 34, 8), (50, 54, 12)]);
    }

    #[test]
    fn small_holes_are_bridged_and_large_ones_are_not() {
        let row = Layout::block(0, 4).unwrap().repeated(5, 10).unwrap();
        let layout = row.repeated(2, 1000).unwrap();
        assert_eq!(windows(&layout, 1000, 6), [(0, 44, 20), (1000, 1044, 40)]);
        assert_eq!(windows(&layout, 2000, 960), [(0, 1044, 40)]);
        assert_eq!(windows(&layout, 1000, 5).len(), 10);
    }

    #[test]
    fn windows_stay_within_their_size() {
        let layout = Layout::block(0, 4).unwrap().repeated(100, 10).unwrap();
        let cut = windows(&layout, 50, 100);
        assert_eq!(cut[0], (0, 44, 20));
        assert_eq!(cut.len(), 20);
        let big = Layout::block(0, 500).unwrap();
        assert_eq!(windows(&big, 50, 0), [(0, 500, 500)]);
    }

    #[test]
    fn runs_that_overlap_are_served_one_by_one() {
        let layout = Layout::block(0, 8).unwrap().repeated(3, 4).unwrap();
        assert_eq!(windows(&layout, 1000, 0), [(0, 8, 8), (4, 12, 16), (8, 16, 24)]);
    }
}
