//! The typemap of a datatype, written out byte by byte (MPI-4.1, section 5.1).
//!
//! The standard defines a datatype as a list of elementary types with displacements, and every
//! constructor as a way to append displaced copies of such lists. This module does exactly that,
//! with one list entry per byte.
//!
//! Bounds follow these rules: a displaced copy reaches from its lower to its upper bound, and a
//! type reaches over all its copies. A struct is then padded at its end, until its extent is a
//! multiple of the largest alignment of the elementary types inside; a resize inside a struct
//! does not change that. A list without any entry, and without explicit bounds, reaches nowhere:
//! its bounds are 0, and as a part of another type it contributes nothing.
//!
//! Cost: 8 bytes of memory per byte of data. For types of a few thousand bytes.

use pario::Element;
use std::collections::HashSet;
use std::ops::Range;

/// A datatype as the list of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typemap {
    /// The offset of every byte of data, in data order.
    pub bytes: Vec<i64>,
    /// The elementary types, in data order.
    pub elements: Vec<Element>,
    /// The lower bound; a resize moves it away from the data.
    pub lower_bound: i64,
    /// The upper bound; a resize or padding moves it away from the data.
    pub upper_bound: i64,
    /// Whether anything, data or an explicit bound, decides the bounds.
    pub bounded: bool,
}

/// Bytes that an elementary type has in memory.
///
/// # Panics
///
/// For an elementary type that the oracle does not know.
pub fn native_bytes(element: Element) -> i64 {
    match element {
        Element::I8 | Element::U8 | Element::Byte => 1,
        Element::I16 | Element::U16 | Element::F16 => 2,
        Element::I32 | Element::U32 | Element::F32 | Element::WideChar => 4,
        Element::I64 | Element::U64 | Element::F64 | Element::Long | Element::UnsignedLong => 8,
        Element::I128 | Element::U128 | Element::F128 | Element::LongDouble => 16,
        unknown => panic!("tell the oracle how long {unknown:?} is"),
    }
}

impl Typemap {
    /// The typemap of an elementary type: its bytes, one after the other.
    pub fn element(element: Element) -> Typemap {
        let size = native_bytes(element);
        Typemap {
            bytes: (0..size).collect(),
            elements: vec![element],
            lower_bound: 0,
            upper_bound: size,
            bounded: true,
        }
    }

    /// Appends a copy of another typemap, displaced by some bytes.
    pub fn place(&mut self, old: &Typemap, displacement: i64) {
        if !old.bounded {
            return;
        }
        self.bytes.extend(old.bytes.iter().map(|offset| offset + displacement));
        self.elements.extend(&old.elements);
        let lower_bound = old.lower_bound + displacement;
        let upper_bound = old.upper_bound + displacement;
        if self.bounded {
            self.lower_bound = self.lower_bound.min(lower_bound);
            self.upper_bound = self.upper_bound.max(upper_bound);
        } else {
            self.lower_bound = lower_bound;
            self.upper_bound = upper_bound;
            self.bounded = true;
        }
    }

    /// Sets explicit bounds.
    pub fn bound(&mut self, lower_bound: i64, extent: i64) {
        self.lower_bound = lower_bound;
        self.upper_bound = lower_bound + extent;
        self.bounded = true;
    }

    /// Raises the upper bound until the extent is a multiple of the largest alignment inside.
    pub fn pad(&mut self) {
        let alignment = self.elements.iter().map(|&element| native_bytes(element)).max();
        while self.extent() % alignment.unwrap_or(1) != 0 {
            self.upper_bound += 1;
        }
    }

    /// Each elementary type with its displacement, as the standard writes typemaps.
    pub fn entries(&self) -> Vec<(Element, i64)> {
        let mut first_byte = 0;
        let mut entries = Vec::new();
        for &element in &self.elements {
            entries.push((element, self.bytes[first_byte]));
            first_byte += usize::try_from(native_bytes(element)).expect("a size is positive");
        }
        entries
    }

    /// Bytes of data.
    pub fn size(&self) -> u64 {
        u64::try_from(self.bytes.len()).expect("a length fits in 64 bits")
    }

    /// Upper bound minus lower bound; the distance between consecutive copies.
    pub fn extent(&self) -> i64 {
        self.upper_bound - self.lower_bound
    }

    /// The smallest offset of a byte of data; 0 if there is none.
    pub fn true_lower_bound(&self) -> i64 {
        self.bytes.iter().copied().min().unwrap_or(0)
    }

    /// One more than the largest offset of a byte of data; 0 if there is none.
    pub fn true_upper_bound(&self) -> i64 {
        self.bytes.iter().map(|offset| offset + 1).max().unwrap_or(0)
    }

    /// The reach of the data, whatever the bounds.
    pub fn true_extent(&self) -> i64 {
        self.true_upper_bound() - self.true_lower_bound()
    }

    /// The offsets of all bytes of consecutive copies, in data order.
    pub fn offsets(&self, count: u64) -> impl Iterator<Item = i64> + '_ {
        let count = i64::try_from(count).expect("the oracle handles few copies");
        (0..count).flat_map(move |copy| {
            self.bytes.iter().map(move |offset| offset + copy * self.extent())
        })
    }

    /// The smallest range that contains all data of consecutive copies; `0..0` without data.
    pub fn reach(&self, count: u64) -> Range<i64> {
        let start = self.offsets(count).min().unwrap_or(0);
        let end = self.offsets(count).map(|offset| offset + 1).max().unwrap_or(0);
        start..end
    }

    /// Whether two bytes of data of consecutive copies are in the same place.
    ///
    /// Such a type may be read from but not written to, in memory as in a file.
    pub fn overlaps(&self, count: u64) -> bool {
        let mut seen = HashSet::new();
        self.offsets(count).any(|offset| !seen.insert(offset))
    }

    /// Whether the type can be the filetype of a view with this etype, for writing.
    ///
    /// It is made of whole etypes, which stand at increasing, non-negative multiples of the
    /// etype's extent without overlap, also from one copy to the next (MPI-4.1, section 14.1.1).
    pub fn is_filetype_of(&self, etype: &Typemap) -> bool {
        let unit = etype.extent();
        if etype.bytes.is_empty() || unit <= 0 {
            return false;
        }
        let whole = self.bytes.chunks(etype.bytes.len()).all(|chunk| {
            let displacement = chunk[0] - etype.bytes[0];
            let moved = etype.bytes.iter().map(|offset| offset + displacement);
            displacement % unit == 0 && moved.eq(chunk.iter().copied())
        });
        let ordered = self.bytes.windows(2).all(|pair| pair[0] < pair[1]);
        let tiles = self.extent() % unit == 0 && self.extent() >= self.true_extent();
        whole && ordered && tiles && self.true_lower_bound() >= 0 && self.lower_bound >= 0
    }

    /// Collects the data of consecutive copies; `origin` is the index of offset 0 in `source`.
    ///
    /// # Panics
    ///
    /// When data lies outside of `source`.
    pub fn pack(&self, count: u64, source: &[u8], origin: usize) -> Vec<u8> {
        self.offsets(count).map(|offset| source[index(offset, origin)]).collect()
    }

    /// Puts packed data in its place; the reverse of [`Typemap::pack`].
    ///
    /// # Panics
    ///
    /// When data lies outside of `target`.
    pub fn unpack(&self, count: u64, packed: &[u8], target: &mut [u8], origin: usize) {
        for (offset, byte) in self.offsets(count).zip(packed) {
            target[index(offset, origin)] = *byte;
        }
    }
}

/// The place of an offset in a slice that has offset 0 at `origin`.
fn index(offset: i64, origin: usize) -> usize {
    let origin = i64::try_from(origin).expect("a length fits in 63 bits");
    usize::try_from(origin + offset).expect("the slice starts before the data")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two bytes with a gap between them, and one more at the end.
    fn holey() -> Typemap {
        let byte = Typemap::element(Element::Byte);
        let mut map = Typemap::default();
        map.place(&byte, 0);
        map.place(&byte, 2);
        map.bound(0, 4);
        map
    }

    #[test]
    fn pack_takes_data_and_skips_gaps() {
        assert_eq!(holey().pack(2, b"abcdefgh", 0), b"aceg");
        assert_eq!(holey().pack(1, b"abcdefgh", 3), b"df");
    }

    #[test]
    fn unpack_leaves_gaps_untouched() {
        let mut target = *b"........";
        holey().unpack(2, b"1234", &mut target, 0);
        assert_eq!(&target, b"1.2.3.4.");
    }

    #[test]
    fn copies_overlap_when_the_extent_is_smaller_than_the_data() {
        let mut map = holey();
        assert!(!map.overlaps(3));
        map.bound(0, 1);
        assert!(!map.overlaps(2), "the copies interleave");
        assert!(map.overlaps(3), "the third copy starts at the end of the first");
    }

    #[test]
    fn an_empty_typemap_contributes_no_bounds() {
        let mut map = Typemap::default();
        map.place(&Typemap::default(), 100);
        assert_eq!(map, Typemap::default());
    }

    #[test]
    fn filetypes_hold_whole_etypes_in_order() {
        let etype = Typemap::element(Element::I16);
        let at = |displacements: &[i64], extent: i64| {
            let mut map = Typemap::default();
            displacements.iter().for_each(|&displacement| map.place(&etype, displacement));
            map.bound(0, extent);
            map.is_filetype_of(&etype)
        };
        assert!(at(&[0, 4, 6], 8));
        assert!(at(&[2], 2), "copies at 2, 4, 6");
        assert!(!at(&[4, 0], 8), "not increasing");
        assert!(!at(&[0, 0], 8), "overlap");
        assert!(!at(&[0, 3], 8), "a hole of half an etype");
        assert!(!at(&[-2, 0], 8), "negative");
        assert!(!at(&[0, 4], 4), "the second copy overlaps the first");
        assert!(!at(&[0, 4], 7), "a hole of half an etype at the end");
    }
}
