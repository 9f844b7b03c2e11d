//! Walking through a layout in data order, a strided chunk at a time.
//!
//! A [`Chunk`] is an innermost loop: `count` blocks of `len` bytes at a stride. A regular pattern
//! of millions of blocks is one chunk, so that a copy costs a step per chunk and not per block.

use std::ops::Range;

use super::layout::{Layout, Node, Shape, part_at};
use super::list::List;
use crate::number::{narrow, wide};

/// Blocks of equal length at a constant stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Offset of the first block.
    pub(crate) offset: i64,
    /// Bytes of each block.
    pub(crate) len: u64,
    /// Distance between the beginnings of blocks.
    pub(crate) stride: i64,
    /// Number of blocks.
    pub(crate) count: u64,
}

impl Chunk {
    pub(crate) fn bytes(&self) -> u64 {
        self.len * self.count
    }
}

/// A place in a layout that moves forward in data order.
pub(crate) struct Cursor<'a> {
    /// The loops and sequences above the current chunk that have more bodies after it.
    frames: Vec<Frame<'a>>,
    chunk: Chunk,
    /// Bytes of the chunk's first block that the cursor has passed.
    passed: u64,
    remaining: u64,
    origin: i64,
}

struct Frame<'a> {
    shape: &'a Shape,
    base: i64,
    index: u64,
}

impl<'a> Cursor<'a> {
    /// A cursor over the data bytes in `range`.
    pub(crate) fn new(layout: &'a Layout, range: Range<u64>) -> Cursor<'a> {
        assert!(range.start <= range.end && range.end <= layout.size(), "a range inside the data");
        let mut cursor = Cursor {
            frames: Vec::new(),
            chunk: Chunk { offset: 0, len: 0, stride: 0, count: 0 },
            passed: 0,
            remaining: range.end - range.start,
            origin: layout.origin,
        };
        if cursor.remaining > 0 {
            cursor.descend(&layout.node, 0, range.start);
        }
        cursor
    }

    /// The blocks from here on that form one chunk; `None` at the end of the range.
    pub(crate) fn chunk(&self) -> Option<Chunk> {
        if self.remaining == 0 {
            return None;
        }
        let Chunk { offset, len, stride, count } = self.chunk;
        let offset = self.origin + offset + self.passed.cast_signed();
        if self.passed > 0 || self.remaining < len {
            let len = (len - self.passed).min(self.remaining);
            return Some(Chunk { offset, len, stride: 0, count: 1 });
        }
        Some(Chunk { offset, len, stride, count: count.min(self.remaining / len) })
    }

    /// Moves forward by `bytes`, at most to the end of the current chunk.
    pub(crate) fn advance(&mut self, bytes: u64) {
        debug_assert!(self.chunk().is_some_and(|chunk| bytes <= chunk.bytes()));
        self.remaining -= bytes;
        let passed = self.passed + bytes;
        // Inside a block, or at the end of a single one: irregular data is all of these.
        if passed < self.chunk.len {
            self.passed = passed;
            return;
        }
        if passed == self.chunk.len && self.chunk.count == 1 {
            self.passed = 0;
            if self.remaining > 0 {
                self.ascend();
            }
            return;
        }
        let blocks = passed / self.chunk.len;
        self.passed = passed % self.chunk.len;
        self.chunk.count -= blocks;
        if self.chunk.count > 0 {
            self.chunk.offset += blocks.cast_signed() * self.chunk.stride;
        } else if self.remaining > 0 {
            self.ascend();
        }
    }

    /// Bytes that are left.
    pub(crate) fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The blocks of the list that the cursor is in, from its place on; elsewhere the one block
    /// that it is at. `None` in a loop of blocks, and at the end of the range.
    pub(crate) fn blocks(&self) -> Option<Blocks<'a>> {
        let chunk = self.chunk().filter(|chunk| chunk.count == 1)?;
        let single = Blocks {
            list: None,
            base: 0,
            index: 0,
            passed: self.passed,
            offset: chunk.offset,
            len: chunk.len,
        };
        match self.frames.last() {
            Some(&Frame { shape: Shape::List(list), base, index }) => {
                let base = self.origin + base;
                Some(Blocks { list: Some(list), base, index: narrow(index), ..single })
            }
            _ => Some(single),
        }
    }

    /// Moves to where a walk over its blocks has come, by this number of bytes.
    pub(crate) fn follow(&mut self, blocks: &Blocks<'a>, bytes: u64) {
        let (Some(list), Some(frame)) = (blocks.list, self.frames.last_mut()) else {
            return self.advance(bytes);
        };
        self.remaining -= bytes;
        if self.remaining == 0 {
            return;
        }
        let base = frame.base;
        match blocks.index < list.len() {
            true => {
                frame.index = wide(blocks.index);
                self.enter(list, base, blocks.index);
                self.passed = blocks.passed;
            }
            false => {
                frame.index = wide(list.len());
                self.passed = 0;
                self.ascend();
            }
        }
    }

    /// Goes down to the chunk that holds data position `skip` of `node`.
    fn descend(&mut self, mut node: &'a Node, mut base: i64, mut skip: u64) {
        loop {
            let tree = match node {
                Node::Block(len) => {
                    self.chunk = Chunk { offset: base, len: *len, stride: 0, count: 1 };
                    self.passed = skip;
                    return;
                }
                Node::Tree(tree) => tree,
            };
            let shape = &tree.shape;
            match shape {
                Shape::Loop { count, stride, body: Node::Block(len) } => {
                    let index = skip / len;
                    let offset = base + index.cast_signed() * stride;
                    self.chunk = Chunk { offset, len: *len, stride: *stride, count: count - index };
                    self.passed = skip % len;
                    return;
                }
                Shape::Loop { stride, body, .. } => {
                    let index = skip / body.size();
                    self.frames.push(Frame { shape, base, index });
                    base += index.cast_signed() * stride;
                    skip %= body.size();
                    node = body;
                }
                Shape::Sequence(parts) => {
                    let index = part_at(parts, skip);
                    let part = &parts[index];
                    self.frames.push(Frame { shape, base, index: wide(index) });
                    base += part.offset;
                    skip -= part.position;
                    node = &part.node;
                }
                Shape::List(list) => {
                    let index = list.at(skip);
                    self.frames.push(Frame { shape, base, index: wide(index) });
                    skip -= self.enter(list, base, index);
                    self.passed = skip;
                    return;
                }
            }
        }
    }

    /// Makes a block of a list the current chunk; returns the data position where it begins.
    fn enter(&mut self, list: &List, base: i64, index: usize) -> u64 {
        let (offset, position, len) = list.block(index);
        self.chunk = Chunk { offset: base + offset, len, stride: 0, count: 1 };
        position
    }

    /// Goes up to the next body that is not yet walked, and down into it.
    fn ascend(&mut self) {
        while let Some(frame) = self.frames.last_mut() {
            frame.index += 1;
            let (index, base) = (frame.index, frame.base);
            match frame.shape {
                Shape::Loop { count, stride, body } if index < *count => {
                    return self.descend(body, base + index.cast_signed() * stride, 0);
                }
                Shape::Sequence(parts) => {
                    if let Some(part) = parts.get(narrow(index)) {
                        return self.descend(&part.node, base + part.offset, 0);
                    }
                }
                Shape::List(list) if narrow(index) < list.len() => {
                    self.enter(list, base, narrow(index));
                    return;
                }
                Shape::Loop { .. } | Shape::List(_) => {}
            }
            self.frames.pop();
        }
        unreachable!("a cursor with bytes remaining has a next body");
    }
}

/// A walk over the blocks of a list, or over a single block.
pub(crate) struct Blocks<'a> {
    list: Option<&'a List>,
    base: i64,
    index: usize,
    /// Bytes of the current block that are behind, where the rest of it is, and its length: 0 after
    /// the last block.
    passed: u64,
    offset: i64,
    len: u64,
}

impl Blocks<'_> {
    pub(crate) fn is_list(&self) -> bool {
        self.list.is_some()
    }

    /// Offset and length of what is left of the current block; no bytes at the end.
    #[inline]
    pub(crate) fn block(&self) -> (i64, u64) {
        (self.offset, self.len)
    }

    /// Where the block lies that comes this number of blocks later, if there is one.
    #[inline]
    pub(crate) fn ahead(&self, blocks: usize) -> Option<i64> {
        let place = self.list?.offset(self.index + blocks)?;
        Some(self.base.wrapping_add(place))
    }

    /// Moves forward by bytes of the current block.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: u64) {
        self.passed += bytes;
        self.offset += bytes.cast_signed();
        self.len -= bytes;
        if self.len > 0 {
            return;
        }
        self.index += 1;
        if let Some(list) = self.list.filter(|list| self.index < list.len()) {
            let (offset, _, len) = list.block(self.index);
            (self.passed, self.offset, self.len) = (0, self.base + offset, len);
        }
    }
}

/// The contiguous runs of a range, neighbours merged where they touch.
pub(crate) struct Runs<'a> {
    cursor: Cursor<'a>,
    pending: Option<(i64, u64)>,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(layout: &'a Layout, range: Range<u64>) -> Runs<'a> {
        Runs { cursor: Cursor::new(layout, range), pending: None }
    }

    fn next_block(&mut self) -> Option<(i64, u64)> {
        let chunk = self.cursor.chunk()?;
        self.cursor.advance(chunk.len);
        Some((chunk.offset, chunk.len))
    }
}

impl Iterator for Runs<'_> {
    type Item = (i64, u64);

    fn next(&mut self) -> Option<(i64, u64)> {
        let (offset, mut len) = self.pending.take().or_else(|| self.next_block())?;
        while let Some((next_offset, next_len)) = self.next_block() {
            if offset + len.cast_signed() != next_offset {
                self.pending = Some((next_offset, next_len));
                break;
            }
            len += next_len;
        }
        Some((offset, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Layout {
        let pieces = [(0, 3), (5, 2), (9, 4)];
        let body = Layout::joined(pieces.map(|(o, l)| Layout::block(o, l).unwrap())).unwrap();
        let strided = Layout::block(2, 2).unwrap().repeated(5, 6).unwrap();
        let both = Layout::joined([body, strided.shifted(20).unwrap()]).unwrap();
        both.repeated(3, 60).unwrap()
    }

    #[test]
    fn a_regular_pattern_is_one_chunk() {
        let layout = Layout::block(4, 4).unwrap().repeated(1_000_000_000, 64).unwrap();
        let cursor = Cursor::new(&layout, 400..4_000_000_000);
        let chunk = cursor.chunk().unwrap();
        assert_eq!(chunk, Chunk { offset: 6404, len: 4, stride: 64, count: 999_999_900 });
    }

    #[test]
    fn every_range_walks_its_bytes() {
        let layout = sample();
        let size = layout.size();
        for start in 0..size {
            for end in start..=size {
                let mut bytes = Vec::new();
                let mut cursor = Cursor::new(&layout, start..end);
                while let Some(chunk) = cursor.chunk() {
                    let step = 1 + (start + end) % chunk.bytes();
                    for byte in 0..step {
                        let block = (byte / chunk.len).cast_signed() * chunk.stride;
                        bytes.push(chunk.offset + block + (byte % chunk.len).cast_signed());
                    }
                    cursor.advance(step);
                }
                let expected: Vec<i64> = (start..end).map(|k| layout.offset_of(k)).collect();
                assert_eq!(bytes, expected, "range {start}..{end}");
                let runs: u64 = Runs::new(&layout, start..end).map(|run| run.1).sum();
                assert_eq!(runs, end - start);
            }
        }
    }

    #[test]
    fn runs_merge_across_bodies() {
        let body = [(0, 2), (6, 2)].map(|(o, l)| Layout::block(o, l).unwrap());
        let layout = Layout::joined(body).unwrap().repeated(3, 8).unwrap();
        let runs: Vec<_> = Runs::new(&layout, 0..layout.size()).collect();
        assert_eq!(runs, [(0, 2), (6, 4), (14, 4), (22, 2)]);
    }
}
