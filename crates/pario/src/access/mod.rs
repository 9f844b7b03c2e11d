//! Step 2 of a call: which bytes of memory are which bytes of the file.
//!
//! An `Access` is the file side of one rank's request: a layout and the part of its data that
//! is asked for. A `Buffer` is the memory side. Data byte k of one is data byte k of the other;
//! that is the whole access pattern, and neither side is ever expanded into a list.

use std::ops::Range;

use crate::datatype::disjoint::disjoint;
use crate::datatype::layout::Layout;
use crate::datatype::wire::{Reader, Writer};
use crate::error::{Error, ErrorClass, Result};

pub(crate) mod memory;
pub(crate) mod windows;

pub(crate) use memory::Buffer;
#[doc(hidden)]
pub use memory::of_fields;
pub use memory::{InMemory, OwnedBuffer, Record, Records, Source, Target, Typed};

/// The file side of a request, or of a part of one.
///
/// Positions count the bytes of the whole request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    layout: Layout,
    /// Position of the first byte known here, and the layout's data byte that it is.
    first_position: u64,
    first_data: u64,
    len: u64,
}

impl Access {
    /// `len` bytes of a view from data byte `start` on.
    ///
    /// # Errors
    /// `Type` if the request leaves the view, which ends where offsets pass 2^63.
    pub(crate) fn new(layout: &Layout, start: u64, len: u64) -> Result<Access> {
        let inside = start.checked_add(len).is_some_and(|end| end <= layout.size());
        if len > 0 && !inside {
            let text = format!("{len} bytes at position {start} lie beyond 2^63 in this view");
            return Err(Error::new(ErrorClass::Type, text));
        }
        if len > 0 && !layout.is_sorted() {
            // A part of it may be in order, such as one of several filetypes that overlap.
            let part = layout.sliced(start..start + len)?;
            if part.is_sorted() {
                return Ok(Access { layout: part, first_position: 0, first_data: 0, len });
            }
        }
        let first_data = if len == 0 { 0 } else { start };
        Ok(Access { layout: layout.clone(), first_position: 0, first_data, len })
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The positions known here.
    pub(crate) fn positions(&self) -> Range<u64> {
        self.first_position..self.first_position + self.len
    }

    /// The file range from the first to the last byte; empty at 0 if there are none. That of the
    /// whole view where bytes are not in order.
    pub(crate) fn reach(&self) -> Range<u64> {
        match self.len {
            0 => 0..0,
            _ if !self.is_sorted() => {
                let (lower, upper) = (self.layout.lower(), self.layout.upper());
                lower.cast_unsigned()..upper.cast_unsigned()
            }
            len => {
                let (first, last) = (self.first_data, self.first_data + len - 1);
                let offset = |data| self.layout.offset_of(data).cast_unsigned();
                offset(first)..offset(last) + 1
            }
        }
    }

    /// File offset of the byte at a position.
    pub(crate) fn offset_of(&self, position: u64) -> u64 {
        self.layout.offset_of(self.data_at(position)).cast_unsigned()
    }

    /// The positions whose bytes lie in a file range; the access is sorted.
    pub(crate) fn within(&self, file: &Range<u64>) -> Range<u64> {
        let below = |offset: u64| {
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            let data = self.layout.bytes_below(offset);
            data.clamp(self.first_data, self.first_data + self.len) - self.first_data
        };
        match self.len {
            0 => 0..0,
            _ => self.first_position + below(file.start)..self.first_position + below(file.end),
        }
    }

    /// The layout, and the data byte in it that a position is.
    pub(crate) fn place(&self, position: u64) -> (&Layout, u64) {
        (&self.layout, self.data_at(position))
    }

    fn data_at(&self, position: u64) -> u64 {
        position - self.first_position + self.first_data
    }

    /// Whether bytes come in the order of their offsets, none twice.
    pub(crate) fn is_sorted(&self) -> bool {
        self.layout.is_sorted()
    }

    /// Mean length of the contiguous pieces.
    pub(crate) fn piece_bytes(&self) -> u64 {
        (self.layout.size() / self.layout.pieces().max(1)).max(1).min(self.len.max(1))
    }

    /// Only the given positions, with nothing of the layout that they do not need.
    pub(crate) fn part(&self, positions: &Range<u64>) -> Result<Access> {
        let data = self.data_at(positions.start)..self.data_at(positions.end);
        let len = positions.end - positions.start;
        let layout = self.layout.sliced(data)?;
        Ok(Access { layout, first_position: positions.start, first_data: 0, len })
    }

    /// Without the first `skip` bytes; positions count from there.
    pub(crate) fn without_first(&self, skip: u64) -> Access {
        let skip = skip.min(self.len);
        let first_data = self.first_data + skip;
        Access { first_data, len: self.len - skip, ..self.clone() }
    }

    /// A number that equal accesses share and different ones almost never do.
    pub(crate) fn fingerprint(&self) -> u64 {
        let place = self.first_data.rotate_left(21) ^ self.len.rotate_left(42);
        self.layout.fingerprint() ^ place
    }

    /// Whether it shares no byte with another one, as far as that can be seen quickly. Neither has
    /// a layout that goes on after its request.
    pub(crate) fn is_apart_from(&self, other: &Access) -> bool {
        let (own, others) = (self.reach(), other.reach());
        self.is_empty()
            || other.is_empty()
            || own.end <= others.start
            || others.end <= own.start
            || disjoint(
                self.place(self.positions().start).0,
                other.place(other.positions().start).0,
            )
    }

    /// Its bounding extent in each of some windows of the file, which are in ascending order: from
    /// the first byte there to the last.
    pub(crate) fn extents(&self, windows: impl Iterator<Item = Range<u64>>) -> Result<Access> {
        let extent = |window: Range<u64>| {
            let positions = self.within(&window);
            let last = positions.end.checked_sub(1).filter(|last| positions.contains(last))?;
            let (start, end) = (self.offset_of(positions.start), self.offset_of(last) + 1);
            Some(Layout::block(start.cast_signed(), end - start))
        };
        let layout = Layout::joined(windows.filter_map(extent).collect::<Result<Vec<_>>>()?)?;
        Access::new(&layout, 0, layout.size())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.layout(&self.layout);
        writer.unsigned(self.first_position);
        writer.unsigned(self.first_data);
        writer.unsigned(self.len);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Access> {
        let layout = reader.layout()?;
        let (first_position, first_data) = (reader.unsigned()?, reader.unsigned()?);
        let len = reader.unsigned()?;
        let inside = first_data.checked_add(len).is_some_and(|end| end <= layout.size());
        let fits = first_position.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok());
        let in_file = layout.is_empty() || layout.lower() >= 0;
        if !inside || !fits || !in_file {
            return Err(Error::new(ErrorClass::Intern, "a rank sent a malformed request"));
        }
        Ok(Access { layout, first_position, first_data, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let view = Layout::block(100, 4).unwrap().repeated(1000, 10).unwrap();
        Access::new(&view, 6, 20).unwrap()
    }

    #[test]
    fn positions_count_from_the_start_of_the_request() {
        let access = access();
        assert_eq!(access.reach(), 112..162);
        assert_eq!(access.within(&(0..1000)), 0..20);
        assert_eq!(access.within(&(120..140)), 2..10);
        assert_eq!(access.offset_of(2), 120);
    }

    #[test]
    fn a_part_keeps_its_positions() {
        let whole = access();
        let part = whole.part(&(5..11)).unwrap();
        for position in 5..11 {
            assert_eq!(part.offset_of(position), whole.offset_of(position));
        }
        let mut writer = Writer::default();
        part.write(&mut writer);
        let read = Access::read(&mut Reader::new(&writer.bytes)).unwrap();
        assert_eq!((read.positions(), read.reach()), (part.positions(), part.reach()));
    }

    #[test]
    fn a_request_beyond_the_view_has_class_type() {
        let view = Layout::block(0, 100).unwrap();
        let error = Access::new(&view, 90, 11).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Type);
        assert_eq!(Access::new(&view, u64::MAX, 2).unwrap_err().class(), ErrorClass::Type);
        assert!(Access::new(&view, u64::MAX, 0).unwrap().is_empty());
    }
}
