//! Parts of layouts: the data bytes in a range, as a layout of their own.
//!
//! Cost: the depth of the tree, plus the parts of sequences and lists that lie inside the range.

use std::ops::Range;

use super::layout::{Layout, Node, Shape, part_at};
use crate::error::Result;

impl Layout {
    /// The data bytes in `range` alone.
    pub(crate) fn sliced(&self, range: Range<u64>) -> Result<Layout> {
        assert!(range.start <= range.end && range.end <= self.size(), "a range inside the data");
        slice(&self.node, range)?.shifted(self.origin)
    }
}

fn slice(node: &Node, range: Range<u64>) -> Result<Layout> {
    if range.is_empty() {
        return Ok(Layout::empty());
    }
    if range == (0..node.size()) {
        return Ok(Layout { origin: 0, node: node.clone() });
    }
    let tree = match node {
        Node::Block(_) => {
            return Layout::block(range.start.cast_signed(), range.end - range.start);
        }
        Node::Tree(tree) => tree,
    };
    match &tree.shape {
        Shape::Loop { stride, body, .. } => {
            let size = body.size();
            let turn_at = |turn: u64| turn.cast_signed() * stride;
            let (first, last) = (range.start / size, range.end / size);
            let (skip, rest) = (range.start % size, range.end % size);
            if first == last {
                return slice(body, skip..rest)?.shifted(turn_at(first));
            }
            let whole = first + u64::from(skip > 0);
            let head = match skip {
                0 => Layout::empty(),
                _ => slice(body, skip..size)?.shifted(turn_at(first))?,
            };
            let middle =
                Layout { origin: 0, node: body.clone() }.repeated(last - whole, *stride)?;
            let tail = slice(body, 0..rest)?.shifted(turn_at(last))?;
            Layout::joined([head, middle.shifted(turn_at(whole))?, tail])
        }
        Shape::Sequence(parts) => {
            let first = part_at(parts, range.start);
            let last = part_at(parts, range.end - 1);
            let cut = parts[first..=last].iter().map(|part| {
                let start = range.start.saturating_sub(part.position);
                let end = (range.end - part.position).min(part.node.size());
                slice(&part.node, start..end)?.shifted(part.offset)
            });
            Layout::joined(cut.collect::<Result<Vec<_>>>()?)
        }
        Shape::List(list) => {
            let (first, last) = (list.at(range.start), list.at(range.end - 1));
            let cut = (first..=last).map(|index| {
                let (offset, position, len) = list.block(index);
                let start = range.start.saturating_sub(position);
                let end = (range.end - position).min(len);
                Layout::block(offset + start.cast_signed(), end - start)
            });
            Layout::joined(cut.collect::<Result<Vec<_>>>()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_the_offsets_of_its_range() {
        let list = [(0, 3), (5, 2), (9, 4)];
        let body = Layout::joined(list.map(|(o, l)| Layout::block(o, l).unwrap())).unwrap();
        let strided = Layout::block(20, 2).unwrap().repeated(5, 6).unwrap();
        let layout = Layout::joined([body, strided]).unwrap().repeated(4, 60).unwrap();
        let layout = layout.shifted(11).unwrap();
        for start in 0..layout.size() {
            for end in start..=layout.size() {
                let slice = layout.sliced(start..end).unwrap();
                let found: Vec<i64> = (0..slice.size()).map(|k| slice.offset_of(k)).collect();
                let expected: Vec<i64> = (start..end).map(|k| layout.offset_of(k)).collect();
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_slice_of_a_loop_is_a_loop() {
        let layout = Layout::block(0, 4).unwrap().repeated(1_000_000_000, 64).unwrap();
        let slice = layout.sliced(400..4_000_000).unwrap();
        assert_eq!((slice.depth(), slice.pieces()), (1, 999_900));
    }
}
