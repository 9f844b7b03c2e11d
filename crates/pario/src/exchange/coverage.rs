//! Whether pieces cover a range without a hole, counted byte by byte in a bitmap.
//!
//! Used where requests may overlap, so that adding up their lengths proves nothing.
//! Memory: an eighth of the range. Time: a few operations for each piece.

use std::ops::Range;

use crate::access::memory::Parcel;
use crate::datatype::cursor::Runs;
use crate::number::{narrow, wide};

/// Whether the parcels together name every byte of `file`.
pub(super) fn is_complete(file: &Range<u64>, parcels: &[Parcel<'_>]) -> bool {
    count(file, parcels) == file.end - file.start
}

/// Whether no byte of `file` is named twice.
pub(super) fn is_disjoint(file: &Range<u64>, parcels: &[Parcel<'_>]) -> bool {
    count(file, parcels) == parcels.iter().map(Parcel::len).sum()
}

/// How many bytes of `file` the parcels name.
fn count(file: &Range<u64>, parcels: &[Parcel<'_>]) -> u64 {
    named(file, parcels).iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The runs of bytes of `file` that the parcels name, in ascending order.
pub(super) fn runs(file: &Range<u64>, parcels: &[Parcel<'_>]) -> Vec<Range<u64>> {
    let bits = named(file, parcels);
    let end = narrow(file.end - file.start);
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(start) = find(&bits, at..end, true) {
        at = find(&bits, start..end, false).unwrap_or(end);
        runs.push(file.start + wide(start)..file.start + wide(at));
    }
    runs
}

/// One bit for each byte of `file`.
fn named(file: &Range<u64>, parcels: &[Parcel<'_>]) -> Vec<u64> {
    let mut named = vec![0u64; narrow(file.end - file.start).div_ceil(64)];
    for parcel in parcels {
        let (layout, data) = parcel.access.place(parcel.positions.start);
        for (offset, run_len) in Runs::new(layout, data..data + parcel.len()) {
            let start = narrow(offset.cast_unsigned() - file.start);
            set(&mut named, start..start + narrow(run_len));
        }
    }
    named
}

/// The first bit of a value in a range.
fn find(bits: &[u64], range: Range<usize>, value: bool) -> Option<usize> {
    let mut at = range.start;
    while at < range.end {
        let word = bits[at / 64] >> (at % 64);
        let skipped = if value { word.trailing_zeros() } else { word.trailing_ones() };
        let left = 64 - at % 64;
        let skipped = narrow(u64::from(skipped)).min(left);
        at += skipped;
        if skipped < left {
            return (at < range.end).then_some(at);
        }
    }
    None
}

fn set(bits: &mut [u64], range: Range<usize>) {
    let mut start = range.start;
    while start < range.end {
        let word = start / 64;
        let end = range.end.min((word + 1) * 64);
        let mask = (u64::MAX >> (64 - (end - start))) << (start % 64);
        bits[word] |= mask;
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::datatype::layout::Layout;

    #[test]
    fn runs_of_many_pieces_are_merged() {
        let layout = Layout::block(0, 3).unwrap().repeated(100, 7).unwrap().shifted(50).unwrap();
        let access = Access::new(&layout, 0, 300).unwrap();
        let beside = layout.shifted(3).unwrap();
        let beside = Access::new(&beside, 0, 300).unwrap();
        let parcel = |access| Parcel { access, positions: Access::positions(access) };
        let file = 50..50 + 99 * 7 + 6;
        let found = runs(&file, &[parcel(&beside), parcel(&access)]);
        assert_eq!(found, (0..100).map(|k| 50 + k * 7..56 + k * 7).collect::<Vec<_>>());
        let whole = Access::new(&Layout::block(50, 699).unwrap(), 0, 699).unwrap();
        assert_eq!(runs(&file, &[parcel(&whole)]), vec![file.clone()]);
    }

    #[test]
    fn an_overlap_does_not_hide_a_hole() {
        let access =
            |offset, len| Access::new(&Layout::block(offset, len).unwrap(), 0, len).unwrap();
        let (one, two, three) = (access(100, 70), access(150, 60), access(210, 90));
        let parcel = |access| Parcel { access, positions: Access::positions(access) };
        assert!(is_complete(&(100..300), &[parcel(&one), parcel(&two), parcel(&three)]));
        let parcels = [parcel(&one), parcel(&one), parcel(&three)];
        assert!(!is_complete(&(100..300), &parcels));
        assert!(!is_disjoint(&(100..300), &parcels));
        assert!(is_disjoint(&(100..300), &[parcel(&one), parcel(&three)]));
    }
}
