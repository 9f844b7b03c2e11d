//! The normal form of datatypes: which bytes, in which order, as loops instead of lists.
//!
//! A [`Layout`] says where each byte of a stream of data lies relative to an origin (a buffer's
//! address, a view's displacement). It is a tree of four shapes: a contiguous block, a loop
//! (a body repeated at a constant stride), a sequence (bodies at listed offsets) and a list, which
//! is a sequence of blocks alone. A vector of 25 million blocks is one loop over one block and
//! stays that.
//!
//! Building normalises: neighbouring blocks merge, loops whose bodies touch collapse, loops of
//! loops with one stride become one loop, and repetitions inside sequences become loops again, if
//! they are long enough: random lists are full of short ones, which are faster to walk as they are.
//!
//! Cost: building is linear in the arguments of the constructor; every question (`size`, the
//! offset of data byte k, the data bytes below an offset) takes time in the depth of the tree and
//! the logarithm of its longest sequence, whatever the number of pieces.
//!
//! Arithmetic is checked here, when a tree is built: every offset inside a layout fits in an
//! `i64` and every data position in an `i64` too, so questions need no checks. An overflow is an
//! error of class `Type`.

use std::sync::Arc;

use super::list::List;
use crate::error::{Error, ErrorClass, Result};

/// Longest group of neighbours that is searched for repetitions inside a sequence.
const PERIOD_MAX: usize = 8;
/// Blocks of a list that a loop has to stand for, if there are others.
const LOOPED_MIN: usize = 16;
/// Deepest tree that is built without a need: a walk down and the drop of one have to fit on small
/// stacks. A sequence in a deeper tree takes in the parts of sequences that are its parts. What is
/// left are sequences between loops; a loop has two turns or more, and with 62 of them on one
/// another the data would not fit in 63 bits.
pub(crate) const DEPTH_MAX: u32 = 160;
/// Deepest tree that is accepted from another rank: loops around one of [`DEPTH_MAX`], and parts.
pub(super) const WIRE_DEPTH_MAX: u32 = 256;
/// Parts that a tree which is too deep may have to be made flat.
pub(super) const FLAT_MAX: usize = 1 << 22;
/// Parts of such a tree among which repetitions are looked for.
const FLAT_FOLDED_MAX: usize = 4096;

/// Where the bytes of a stream of data lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Offset of the first data byte.
    pub(super) origin: i64,
    pub(super) node: Node,
}

/// Bytes one after the other, as many as there may be: data that is packed.
pub(crate) static PACKED: Layout =
    Layout { origin: 0, node: Node::Block(i64::MAX.cast_unsigned()) };

/// A layout whose first data byte is at offset 0.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Block(u64),
    Tree(Arc<Tree>),
}

/// A loop or a sequence, with what is known about it.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) shape: Shape,
    pub(super) facts: Facts,
}

#[derive(Debug)]
pub(super) enum Shape {
    Loop { count: u64, stride: i64, body: Node },
    Sequence(Box<[Part]>),
    List(List),
}

/// One body of a sequence: its offset, and the data position at which it begins.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) offset: i64,
    pub(super) position: u64,
    pub(super) node: Node,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Bytes of data.
    pub(super) size: u64,
    /// Lowest offset, and the one after the highest.
    pub(super) lower: i64,
    pub(super) upper: i64,
    /// Offset of the last block in data order.
    last: i64,
    /// Number of blocks; neighbouring ones may touch where one loop follows another.
    pieces: u64,
    /// Each block begins where the previous one ended, or later.
    sorted: bool,
    /// Each block begins where the previous one began, or later.
    ascending: bool,
    depth: u32,
    fingerprint: u64,
}

fn overflow() -> Error {
    Error::new(
        ErrorClass::Type,
        "the datatype reaches beyond 2^63 bytes; use smaller counts, strides or displacements",
    )
}

pub(super) fn too_deep() -> Error {
    let text = format!(
        "the datatype has more than {DEPTH_MAX} levels and too many parts to be made flat; \
         build it from fewer levels, with one list of all displacements"
    );
    Error::new(ErrorClass::Type, text)
}

fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| overflow())
}

/// Mixes a number into a fingerprint (the finaliser of splitmix64).
fn mix(seed: u64, value: u64) -> u64 {
    let mut mixed = seed.rotate_left(25) ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Node {
    pub(super) fn facts(&self) -> Facts {
        match self {
            Node::Block(len) => Facts {
                size: *len,
                lower: 0,
                upper: len.cast_signed(),
                last: 0,
                pieces: u64::from(*len > 0),
                sorted: true,
                ascending: true,
                depth: 0,
                fingerprint: mix(1, *len),
            },
            Node::Tree(tree) => tree.facts,
        }
    }

    pub(super) fn size(&self) -> u64 {
        match self {
            Node::Block(len) => *len,
            Node::Tree(tree) => tree.facts.size,
        }
    }

    pub(super) fn block(len: u64) -> Result<Node> {
        signed(len)?;
        Ok(Node::Block(len))
    }

    /// `self` repeated at a stride; `count` and the size of `self` are not zero.
    pub(super) fn repeat(self, count: u64, stride: i64) -> Result<Node> {
        if count == 1 {
            return Ok(self);
        }
        if let Node::Block(len) = self
            && len.cast_signed() == stride
        {
            return Node::block(len.checked_mul(count).ok_or_else(overflow)?);
        }
        if let Node::Tree(tree) = &self
            && let Shape::Loop { count: inner, stride: inner_stride, body } = &tree.shape
            && i128::from(*inner) * i128::from(*inner_stride) == i128::from(stride)
        {
            let total = inner.checked_mul(count).ok_or_else(overflow)?;
            return body.clone().repeat(total, *inner_stride);
        }
        let body = self.facts();
        let size = body.size.checked_mul(count).ok_or_else(overflow)?;
        signed(size)?;
        let last_turn = signed(count - 1)?.checked_mul(stride).ok_or_else(overflow)?;
        let reach = |offset: i64| offset.checked_add(last_turn).ok_or_else(overflow);
        let span = i128::from(body.upper) - i128::from(body.lower);
        let facts = Facts {
            size,
            lower: body.lower.min(reach(body.lower)?),
            upper: body.upper.max(reach(body.upper)?),
            last: reach(body.last)?,
            pieces: body.pieces.saturating_mul(count),
            sorted: body.sorted && i128::from(stride) >= span,
            ascending: body.ascending && stride >= body.last,
            depth: body.depth + 1,
            fingerprint: mix(mix(mix(2, count), stride.cast_unsigned()), body.fingerprint),
        };
        let shape = Shape::Loop { count, stride, body: self };
        Ok(Node::Tree(Arc::new(Tree { shape, facts })))
    }

    /// Bodies one after the other; there are at least two, the first is at offset 0.
    pub(super) fn sequence(items: Vec<(i64, Node)>) -> Result<Node> {
        assert!(items.len() >= 2 && items[0].0 == 0, "a sequence begins at its origin");
        let mut facts = Facts { sorted: true, ascending: true, ..Node::Block(0).facts() };
        facts.fingerprint = 3;
        let mut positions = Vec::with_capacity(items.len());
        for (offset, node) in &items {
            let body = node.facts();
            let place = |inner: i64| inner.checked_add(*offset).ok_or_else(overflow);
            let (lower, upper) = (place(body.lower)?, place(body.upper)?);
            let first = positions.is_empty();
            facts.sorted &= body.sorted && (first || lower >= facts.upper);
            facts.ascending &= body.ascending && (first || *offset >= facts.last);
            positions.push(facts.size);
            facts.size = facts.size.checked_add(body.size).ok_or_else(overflow)?;
            facts.lower = facts.lower.min(lower);
            facts.upper = facts.upper.max(upper);
            facts.last = place(body.last)?;
            facts.pieces = facts.pieces.saturating_add(body.pieces);
            facts.depth = facts.depth.max(body.depth + 1);
            facts.fingerprint =
                mix(mix(facts.fingerprint, offset.cast_unsigned()), body.fingerprint);
        }
        signed(facts.size)?;
        let shape = match facts.depth {
            1 => Shape::List(List::new(items.iter().map(|(offset, node)| (*offset, node.size())))),
            _ => {
                let part = |((offset, node), position)| Part { offset, position, node };
                Shape::Sequence(items.into_iter().zip(positions).map(part).collect())
            }
        };
        Ok(Node::Tree(Arc::new(Tree { shape, facts })))
    }

    /// The same without sequences that are parts of sequences; `budget` parts at most.
    fn flat(&self, budget: &mut usize) -> Result<Layout> {
        let Node::Tree(tree) = self else {
            return Ok(Layout { origin: 0, node: self.clone() });
        };
        match &tree.shape {
            Shape::Loop { count, stride, body } => body.flat(budget)?.repeated(*count, *stride),
            Shape::Sequence(_) | Shape::List(_) => {
                let mut parts = Vec::new();
                self.spread(0, &mut parts, budget)?;
                // What was folded before, in fewer parts, would cost the square of the levels.
                let fold = parts.len() <= FLAT_FOLDED_MAX;
                Layout::join(parts, fold)
            }
        }
    }

    /// Adds the parts of sequences, at an offset, to a list.
    fn spread(&self, at: i64, parts: &mut Vec<Layout>, budget: &mut usize) -> Result<()> {
        match self {
            Node::Tree(tree) => match &tree.shape {
                Shape::Sequence(inner) => {
                    let mut spread = inner.iter();
                    return spread
                        .try_for_each(|part| part.node.spread(at + part.offset, parts, budget));
                }
                Shape::List(list) => {
                    *budget = budget.checked_sub(list.len()).ok_or_else(too_deep)?;
                    let blocks = list.blocks();
                    let block = |(offset, len)| Layout::block(at + offset, len);
                    parts.extend(blocks.map(block).collect::<Result<Vec<_>>>()?);
                    return Ok(());
                }
                Shape::Loop { .. } => {}
            },
            Node::Block(_) => {}
        }
        *budget = budget.checked_sub(1).ok_or_else(too_deep)?;
        parts.push(self.flat(budget)?.shifted(at)?);
        Ok(())
    }

    fn offset_of(&self, position: u64) -> i64 {
        let (mut node, mut position, mut offset) = (self, position, 0);
        loop {
            match node {
                Node::Block(_) => return offset + position.cast_signed(),
                Node::Tree(tree) => match &tree.shape {
                    Shape::Loop { stride, body, .. } => {
                        let turn = position / body.size();
                        offset += turn.cast_signed() * stride;
                        position %= body.size();
                        node = body;
                    }
                    Shape::Sequence(parts) => {
                        let part = &parts[part_at(parts, position)];
                        offset += part.offset;
                        position -= part.position;
                        node = &part.node;
                    }
                    Shape::List(list) => {
                        let (block, start, _) = list.block(list.at(position));
                        return offset + block + (position - start).cast_signed();
                    }
                },
            }
        }
    }

    fn bytes_below(&self, offset: i64) -> u64 {
        let (mut node, mut offset, mut below) = (self, offset, 0);
        loop {
            if offset <= 0 {
                return below;
            }
            match node {
                Node::Block(len) => return below + offset.cast_unsigned().min(*len),
                Node::Tree(tree) => match &tree.shape {
                    Shape::Loop { count, stride, body } => {
                        let turn = (offset / stride).cast_unsigned();
                        if turn >= *count {
                            return below + tree.facts.size;
                        }
                        below += turn * body.size();
                        offset -= turn.cast_signed() * stride;
                        node = body;
                    }
                    Shape::Sequence(parts) => {
                        let index = parts.partition_point(|part| part.offset < offset);
                        let part = &parts[index - 1];
                        below += part.position;
                        offset -= part.offset;
                        node = &part.node;
                    }
                    Shape::List(list) => {
                        let (block, start, len) = list.block(list.below(offset) - 1);
                        return below + start + (offset - block).cast_unsigned().min(len);
                    }
                },
            }
        }
    }
}

/// Index of the part that holds a data position.
pub(super) fn part_at(parts: &[Part], position: u64) -> usize {
    parts.partition_point(|part| part.position <= position) - 1
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Block(one), Node::Block(two)) => one == two,
            (Node::Tree(one), Node::Tree(two)) => {
                Arc::ptr_eq(one, two)
                    || one.facts.fingerprint == two.facts.fingerprint && one.shape == two.shape
            }
            _ => false,
        }
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        match (self, other) {
            (
                Shape::Loop { count, stride, body },
                Shape::Loop { count: other_count, stride: other_stride, body: other_body },
            ) => count == other_count && stride == other_stride && body == other_body,
            (Shape::Sequence(one), Shape::Sequence(two)) => {
                let same =
                    |(one, two): (&Part, &Part)| one.offset == two.offset && one.node == two.node;
                one.len() == two.len() && one.iter().zip(two.iter()).all(same)
            }
            (Shape::List(one), Shape::List(two)) => one == two,
            _ => false,
        }
    }
}

impl Layout {
    /// No bytes.
    pub(crate) fn empty() -> Layout {
        Layout { origin: 0, node: Node::Block(0) }
    }

    /// `len` contiguous bytes.
    pub(crate) fn block(offset: i64, len: u64) -> Result<Layout> {
        Layout { origin: 0, node: Node::block(len)? }.shifted(offset)
    }

    /// The same bytes, moved.
    pub(crate) fn shifted(&self, by: i64) -> Result<Layout> {
        if self.is_empty() {
            return Ok(Layout::empty());
        }
        let facts = self.node.facts();
        let origin = self.origin.checked_add(by).ok_or_else(overflow)?;
        origin.checked_add(facts.lower).ok_or_else(overflow)?;
        origin.checked_add(facts.upper).ok_or_else(overflow)?;
        Ok(Layout { origin, node: self.node.clone() })
    }

    /// `count` copies, each `stride` bytes after the previous one.
    pub(crate) fn repeated(&self, count: u64, stride: i64) -> Result<Layout> {
        if count == 0 || self.is_empty() {
            return Ok(Layout::empty());
        }
        let node = self.node.clone().repeat(count, stride)?;
        Layout { origin: 0, node }.shifted(self.origin)
    }

    /// Several layouts, one after the other in data order.
    pub(crate) fn joined(parts: impl IntoIterator<Item = Layout>) -> Result<Layout> {
        let joined = Layout::join(parts, true)?;
        match joined.node.facts().depth > DEPTH_MAX {
            false => Ok(joined),
            true => joined.node.flat(&mut FLAT_MAX.clone())?.shifted(joined.origin),
        }
    }

    fn join(parts: impl IntoIterator<Item = Layout>, fold: bool) -> Result<Layout> {
        let mut items = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            append(&mut items, (part.origin, part.node))?;
        }
        if fold {
            items = folded(items)?;
        }
        let Some(origin) = items.first().map(|item| item.0) else {
            return Ok(Layout::empty());
        };
        for item in &mut items {
            item.0 = item.0.checked_sub(origin).ok_or_else(overflow)?;
        }
        let node = match <[(i64, Node); 1]>::try_from(items) {
            Ok([(_, node)]) => node,
            Err(items) => Node::sequence(group_blocks(items)?)?,
        };
        Layout { origin: 0, node }.shifted(origin)
    }

    /// Bytes of data.
    pub(crate) fn size(&self) -> u64 {
        self.node.size()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// Lowest offset of a data byte.
    pub(crate) fn lower(&self) -> i64 {
        self.origin + self.node.facts().lower
    }

    /// Offset after the highest data byte.
    pub(crate) fn upper(&self) -> i64 {
        self.origin + self.node.facts().upper
    }

    /// Number of contiguous blocks; an upper bound where neighbours touch.
    pub(crate) fn pieces(&self) -> u64 {
        self.node.facts().pieces
    }

    /// Whether blocks come in the order of their offsets and none overlaps another.
    pub(crate) fn is_sorted(&self) -> bool {
        self.node.facts().sorted
    }

    /// Whether no block begins before the previous one began.
    pub(crate) fn is_ascending(&self) -> bool {
        self.node.facts().ascending
    }

    /// Whether the bytes are one block.
    pub(crate) fn is_contiguous(&self) -> bool {
        matches!(self.node, Node::Block(_))
    }

    /// Depth of the tree; a block has depth 0.
    #[cfg(test)]
    pub(crate) fn depth(&self) -> u32 {
        self.node.facts().depth
    }

    /// A number that equal layouts share and different ones almost never do.
    pub(crate) fn fingerprint(&self) -> u64 {
        mix(self.node.facts().fingerprint, self.origin.cast_unsigned())
    }

    /// Offset of data byte `position`, which is less than the size.
    pub(crate) fn offset_of(&self, position: u64) -> i64 {
        assert!(position < self.size(), "a data position lies inside its layout");
        self.origin + self.node.offset_of(position)
    }

    /// Number of data bytes at offsets below `offset`; the layout is sorted. The data bytes in a
    /// range of offsets are those from one such number to another.
    pub(crate) fn bytes_below(&self, offset: i64) -> u64 {
        debug_assert!(self.is_sorted(), "only sorted layouts can be searched by offset");
        self.node.bytes_below(offset.saturating_sub(self.origin))
    }
}

/// Appends an item to others, merged with the last one where they touch.
fn append(items: &mut Vec<(i64, Node)>, item: (i64, Node)) -> Result<()> {
    if let Some((offset, node)) = items.last_mut()
        && let Some(merged) = merged((*offset, node), &item)?
    {
        *node = merged;
        return Ok(());
    }
    items.push(item);
    Ok(())
}

/// One node for two neighbours: two blocks that touch, or a loop and its next turns.
fn merged(first: (i64, &Node), second: &(i64, Node)) -> Result<Option<Node>> {
    let distance = i128::from(second.0) - i128::from(first.0);
    match (first.1, &second.1) {
        (Node::Block(one), Node::Block(two)) if distance == i128::from(*one) => {
            Ok(Some(Node::block(one.checked_add(*two).ok_or_else(overflow)?)?))
        }
        (Node::Tree(tree), other) => {
            let Shape::Loop { count, stride, body } = &tree.shape else { return Ok(None) };
            if distance != i128::from(*count) * i128::from(*stride) {
                return Ok(None);
            }
            let turns = match other {
                other if other == body => 1,
                Node::Tree(other) => match &other.shape {
                    Shape::Loop { count, stride: other_stride, body: other_body }
                        if stride == other_stride && body == other_body =>
                    {
                        *count
                    }
                    _ => return Ok(None),
                },
                _ => return Ok(None),
            };
            let total = count.checked_add(turns).ok_or_else(overflow)?;
            Ok(Some(body.clone().repeat(total, *stride)?))
        }
        _ => Ok(None),
    }
}

/// Turns repetitions into loops, and repetitions of those.
fn folded(mut items: Vec<(i64, Node)>) -> Result<Vec<(i64, Node)>> {
    loop {
        let before = items.len();
        items = fold_repetitions(items)?;
        if items.len() == before {
            return Ok(items);
        }
    }
}

/// Turns repetitions among neighbours into loops.
///
/// At each place the group of at most [`PERIOD_MAX`] items is taken whose repetitions cover most
/// items. Most attempts fail at their first comparison, so this is linear in practice.
fn fold_repetitions(items: Vec<(i64, Node)>) -> Result<Vec<(i64, Node)>> {
    let mut folded = Vec::with_capacity(items.len().min(1024));
    let mut index = 0;
    while index < items.len() {
        let rest = &items[index..];
        let best = (1..=PERIOD_MAX.min(rest.len() / 2))
            .map(|period| (period, turns(rest, period)))
            .filter(|&(period, turns)| worth_a_loop(&items, &rest[..period], turns))
            .max_by_key(|&(period, turns)| (period * turns, PERIOD_MAX - period));
        let Some((period, turns)) = best else {
            append(&mut folded, rest[0].clone())?;
            index += 1;
            continue;
        };
        let origin = rest[0].0;
        let stride = rest[period].0 - origin;
        let body = match period {
            1 => rest[0].1.clone(),
            _ => {
                let part = |(offset, node): &(i64, Node)| {
                    let origin = offset.checked_sub(origin).ok_or_else(overflow)?;
                    Ok(Layout { origin, node: node.clone() })
                };
                let parts = rest[..period].iter().map(part).collect::<Result<Vec<_>>>()?;
                Layout::join(parts, true)?.node
            }
        };
        let turns_wide = u64::try_from(turns).map_err(|_| overflow())?;
        append(&mut folded, (origin, body.repeat(turns_wide, stride)?))?;
        index += period * turns;
    }
    Ok(folded)
}

/// Whether this number of turns of a group of items becomes a loop: a few turns do if the items are
/// all in the group, or not only blocks.
fn worth_a_loop(items: &[(i64, Node)], group: &[(i64, Node)], turns: usize) -> bool {
    let (covered, few) = (group.len() * turns, if group.len() == 1 { 3 } else { 8 });
    let is_tree = |item: &(i64, Node)| matches!(item.1, Node::Tree(_));
    let few_do = covered == items.len() || group.iter().any(is_tree);
    turns >= 2 && covered >= if few_do { few } else { LOOPED_MIN }
}

/// Makes one list of blocks that follow each other, where there are many; the others stay.
fn group_blocks(items: Vec<(i64, Node)>) -> Result<Vec<(i64, Node)>> {
    let is_block = |item: &(i64, Node)| matches!(item.1, Node::Block(_));
    if items.iter().all(is_block) {
        return Ok(items);
    }
    let mut grouped = Vec::new();
    for run in items.chunk_by(|one, two| is_block(one) && is_block(two)) {
        if run.len() < LOOPED_MIN {
            grouped.extend_from_slice(run);
            continue;
        }
        let origin = run[0].0;
        let place = |(offset, node): &(i64, Node)| {
            Ok((offset.checked_sub(origin).ok_or_else(overflow)?, node.clone()))
        };
        let list = run.iter().map(place).collect::<Result<_>>()?;
        grouped.push((origin, Node::sequence(list)?));
    }
    Ok(grouped)
}

/// How often the first `period` items come again with a constant shift.
fn turns(items: &[(i64, Node)], period: usize) -> usize {
    let Some(stride) = items[period].0.checked_sub(items[0].0) else { return 1 };
    let repeats = |index: usize| {
        let (before, after) = (&items[index], &items[index + period]);
        before.0.checked_add(stride) == Some(after.0) && before.1 == after.1
    };
    let matching = (0..items.len() - period).take_while(|&index| repeats(index)).count();
    matching / period + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(list: &[(i64, u64)]) -> Layout {
        Layout::joined(list.iter().map(|&(offset, len)| Layout::block(offset, len).unwrap()))
            .unwrap()
    }

    #[test]
    fn touching_blocks_become_one() {
        let layout = blocks(&[(8, 4), (12, 4), (16, 1)]);
        assert!(layout.is_contiguous());
        assert_eq!((layout.lower(), layout.upper(), layout.size()), (8, 17, 9));
    }

    #[test]
    fn loops_of_touching_bodies_collapse() {
        let row = Layout::block(0, 4).unwrap().repeated(10, 4).unwrap();
        assert!(row.is_contiguous());
        let nested = Layout::block(0, 4).unwrap().repeated(5, 16).unwrap().repeated(7, 80).unwrap();
        assert_eq!(nested, Layout::block(0, 4).unwrap().repeated(35, 16).unwrap());
    }

    #[test]
    fn progressions_in_lists_become_loops() {
        let list: Vec<(i64, u64)> = (0..1000).map(|index| (index * 64, 4)).collect();
        assert_eq!(blocks(&list), Layout::block(0, 4).unwrap().repeated(1000, 64).unwrap());
        let planes: Vec<(i64, u64)> = (0..20)
            .flat_map(|plane| (0..30).map(move |row| (plane * 10_000 + row * 100, 8)))
            .collect();
        let rows = Layout::block(0, 8).unwrap().repeated(30, 100).unwrap();
        assert_eq!(blocks(&planes), rows.repeated(20, 10_000).unwrap());
    }

    #[test]
    fn repeated_groups_become_loops() {
        let list: Vec<(i64, u64)> =
            (0..100).flat_map(|turn| [(turn * 50, 2), (turn * 50 + 10, 4)]).collect();
        let layout = blocks(&list);
        assert_eq!(layout, blocks(&list[..2]).repeated(100, 50).unwrap());
        assert_eq!(layout.depth(), 2);
    }

    #[test]
    fn questions_agree_with_a_list() {
        let body = blocks(&[(3, 2), (9, 5), (20, 1)]);
        let layout = body.repeated(4, 30).unwrap().repeated(3, 200).unwrap().shifted(7).unwrap();
        let offsets: Vec<i64> = (0..layout.size()).map(|k| layout.offset_of(k)).collect();
        assert!(layout.is_sorted() && offsets.windows(2).all(|pair| pair[0] < pair[1]));
        for offset in -5..layout.upper() + 5 {
            let below = offsets.iter().filter(|&&other| other < offset).count();
            assert_eq!(layout.bytes_below(offset), u64::try_from(below).unwrap());
        }
        assert_eq!(layout.lower(), offsets[0]);
        assert_eq!(layout.upper(), offsets[offsets.len() - 1] + 1);
    }

    /// Blocks with random gaps, where short progressions are common.
    fn irregular(count: i64, start: i64) -> Vec<(i64, u64)> {
        let gap = |index: i64| [10, 20, 20, 20, 30, 20, 40][(index * index % 7) as usize];
        let mut end = start;
        let mut next = |index: i64| {
            end += gap(index + index / 50);
            (end, 1 + (index % 3 / 2).cast_unsigned())
        };
        (0..count).map(&mut next).collect()
    }

    #[test]
    fn short_progressions_in_lists_stay_as_they_are() {
        let few = [(0, 1), (10, 1), (20, 1), (30, 1), (47, 1)];
        assert_eq!((blocks(&few).depth(), blocks(&few).pieces()), (1, 5));
        assert_eq!(blocks(&few[..4]), Layout::block(0, 1).unwrap().repeated(4, 10).unwrap());
        // Groups of a few rows are still loops inside of one.
        let rows = |plane: i64| (0..4).map(move |row| (plane * 1000 + row * 10, 2));
        let planes: Vec<(i64, u64)> = (0..20).flat_map(rows).collect();
        let plane = Layout::block(0, 2).unwrap().repeated(4, 10).unwrap();
        assert_eq!(blocks(&planes), plane.repeated(20, 1000).unwrap());
    }

    #[test]
    fn a_long_progression_parts_a_list() {
        let mut list = irregular(300, 5);
        list.extend((0..50).map(|index| (100_000 + index * 64, 4)));
        list.extend(irregular(300, 200_000));
        let layout = blocks(&list);
        let Node::Tree(tree) = &layout.node else { panic!("{layout:?}") };
        let Shape::Sequence(parts) = &tree.shape else { panic!("{layout:?}") };
        assert_eq!((parts.len(), layout.depth(), layout.pieces()), (3, 2, 650));
        let bytes = |&(offset, len): &(i64, u64)| (offset..).take(usize::try_from(len).unwrap());
        let offsets: Vec<i64> = list.iter().flat_map(bytes).collect();
        let found: Vec<i64> = (0..layout.size()).map(|k| layout.offset_of(k)).collect();
        assert_eq!(found, offsets);
        for offset in (0..layout.upper() + 5).step_by(3) {
            let below = offsets.partition_point(|&other| other < offset);
            assert_eq!(layout.bytes_below(offset), u64::try_from(below).unwrap());
        }
        let mut writer = crate::datatype::wire::Writer::default();
        writer.layout(&layout);
        assert_eq!(crate::datatype::wire::Reader::new(&writer.bytes).layout().unwrap(), layout);
    }

    #[test]
    fn a_deep_tree_is_made_flat() {
        let mut deep = Layout::block(0, 2).unwrap();
        let mut offsets = vec![0, 1];
        for level in 1..5000 {
            let at = level * 7 + level * level % 5;
            deep = Layout::joined([deep, Layout::block(at, 2).unwrap()]).unwrap();
            offsets.extend([at, at + 1]);
            assert!(deep.depth() <= DEPTH_MAX);
        }
        let found: Vec<i64> = (0..deep.size()).map(|k| deep.offset_of(k)).collect();
        assert_eq!(found, offsets);
    }

    /// As many levels as there can be: sequences up to the limit, then loops until data is full.
    fn deepest(origin: i64) -> Layout {
        let mut deep = Layout::block(0, 2).unwrap();
        for level in 1..=i64::from(DEPTH_MAX) {
            let at = level * 7 + level * level % 5;
            deep = Layout::joined([deep, Layout::block(at, 2).unwrap()]).unwrap();
        }
        let mut stride = 2000;
        while let Ok(deeper) = deep.repeated(2, stride) {
            (deep, stride) = (deeper, 2 * stride + 1);
        }
        deep.shifted(origin).unwrap()
    }

    #[test]
    fn the_deepest_tree_is_walked_on_a_small_stack() {
        use crate::datatype::{disjoint::disjoint, wire};
        let test = || {
            let (one, same, other) = (deepest(0), deepest(0), deepest(3));
            assert!(one.depth() > DEPTH_MAX + 40, "{} levels", one.depth());
            assert_eq!(one, same);
            assert!(!format!("{one:?}").is_empty());
            disjoint(&one, &other);
            let part = one.sliced(1..one.size() - 1).unwrap();
            assert_eq!(part.offset_of(0), 1);
            let mut writer = wire::Writer::default();
            writer.layout(&part);
            assert_eq!(wire::Reader::new(&writer.bytes).layout().unwrap(), part);
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(test).unwrap().join().unwrap();
    }

    #[test]
    fn order_and_overlap_are_seen() {
        assert!(!blocks(&[(10, 4), (0, 4)]).is_sorted());
        assert!(!blocks(&[(0, 4), (2, 4)]).is_sorted());
        assert!(blocks(&[(0, 4), (2, 4)]).is_ascending());
        assert!(!Layout::block(0, 8).unwrap().repeated(3, 4).unwrap().is_sorted());
        assert!(!Layout::block(0, 8).unwrap().repeated(3, -16).unwrap().is_ascending());
    }

    #[test]
    fn overflow_is_an_error_of_class_type() {
        let block = Layout::block(0, 8).unwrap();
        let class = |result: Result<Layout>| result.unwrap_err().class();
        assert_eq!(class(block.repeated(u64::MAX, 8)), ErrorClass::Type);
        assert_eq!(class(block.repeated(2, i64::MAX)), ErrorClass::Type);
        assert_eq!(class(block.shifted(i64::MAX)), ErrorClass::Type);
        assert_eq!(class(Layout::block(i64::MAX, 1)), ErrorClass::Type);
    }
}
