//! Blocks at listed offsets: what irregular data is made of.
//!
//! There may be millions of blocks; if they are short, the list is as long as the data itself, and
//! each call walks through all of it. So a block is two numbers. A search begins where the block
//! would be if all were evenly spread (interpolation): bisecting a list that is in no cache costs a
//! dozen loads from memory, one after the other.
//!
//! Cost: 16 bytes a block; a search takes a few steps near its guess, and never more than twice the
//! steps of bisection.

/// How far from the guess a search looks first.
const NEAR: usize = 32;

/// Two blocks or more.
#[derive(Debug, PartialEq)]
pub(super) struct List {
    /// The blocks, and after them the end of the data.
    places: Box<[BlockPlace]>,
}

/// Where a block lies, and the data position at which it begins; it ends where the next one does.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BlockPlace {
    offset: i64,
    position: u64,
}

impl List {
    /// Blocks of these numbers of bytes at these offsets; their sum has been checked to fit.
    pub(super) fn new(blocks: impl ExactSizeIterator<Item = (i64, u64)>) -> List {
        let mut places = Vec::with_capacity(blocks.len() + 1);
        let mut position = 0;
        for (offset, len) in blocks {
            places.push(BlockPlace { offset, position });
            position += len;
        }
        places.push(BlockPlace { offset: i64::MAX, position });
        List { places: places.into_boxed_slice() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - 1
    }

    /// Offset, position and length of a block.
    pub(super) fn block(&self, index: usize) -> (i64, u64, u64) {
        let BlockPlace { offset, position } = self.places[index];
        (offset, position, self.places[index + 1].position - position)
    }

    /// The offset of a block, if there is one of this index.
    pub(super) fn offset(&self, index: usize) -> Option<i64> {
        self.places[..self.len()].get(index).map(|place| place.offset)
    }

    /// Offsets and lengths of all blocks.
    pub(super) fn blocks(&self) -> impl ExactSizeIterator<Item = (i64, u64)> {
        let block = |pair: &[BlockPlace]| (pair[0].offset, pair[1].position - pair[0].position);
        self.places.windows(2).map(block)
    }

    /// The block that holds a data position.
    pub(super) fn at(&self, position: u64) -> usize {
        let size = self.places[self.len()].position;
        self.first(self.guess(position, size), |place| place.position > position) - 1
    }

    /// How many blocks begin below an offset; the list is sorted.
    pub(super) fn below(&self, offset: i64) -> usize {
        let last = self.places[self.len() - 1].offset;
        let guess = self.guess(offset.max(0).cast_unsigned(), last.cast_unsigned());
        self.first(guess, |place| place.offset >= offset)
    }

    /// The block at `part` of `whole`, if all are alike.
    fn guess(&self, part: u64, whole: u64) -> usize {
        let share = u128::from(part.min(whole)) * u128::from(crate::number::wide(self.len()));
        usize::try_from(share / u128::from(whole.max(1))).unwrap_or(0)
    }

    /// The first place that is after what is looked for, or the end; all that follow are, too.
    fn first(&self, guess: usize, is_behind: impl Fn(&BlockPlace) -> bool) -> usize {
        let blocks = &self.places[..self.len()];
        let (mut low, mut high, mut step) = (guess, guess, NEAR);
        // All below `low` are before it, all from `high` on are after it.
        while low > 0 && is_behind(&blocks[low - 1]) {
            (low, high, step) = (low.saturating_sub(step), low - 1, 2 * step);
        }
        while high < blocks.len() && !is_behind(&blocks[high]) {
            (low, high, step) = (high + 1, blocks.len().min(high + step), 2 * step);
        }
        low + blocks[low..high].partition_point(|place| !is_behind(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists that are evenly spread, and such whose blocks are all at one end.
    fn lists() -> Vec<Vec<(i64, u64)>> {
        let even = (0..1000).map(|index| (index * 10, 3)).collect();
        let dense_first = (0..1000).map(|index| (index * index, 1)).collect();
        let long_last = (0..999).map(|index| (index * 2, 1)).chain([(5000, 1 << 40)]).collect();
        let far_last = (0..999).map(|index| (index * 2, 2)).chain([(i64::MAX - 9, 8)]).collect();
        vec![even, dense_first, long_last, far_last, vec![(0, 1), (1, 1)], vec![(0, 7), (9, 2)]]
    }

    #[test]
    fn searches_agree_with_counting() {
        for blocks in lists() {
            let list = List::new(blocks.iter().copied());
            assert_eq!(list.blocks().collect::<Vec<_>>(), blocks);
            let mut start = 0;
            for (index, &(offset, len)) in blocks.iter().enumerate() {
                assert_eq!(list.block(index), (offset, start, len));
                assert_eq!((list.at(start), list.at(start + len - 1)), (index, index));
                let below = |offset: i64| blocks.iter().filter(|block| block.0 < offset).count();
                for offset in [offset - 1, offset, offset + 1] {
                    assert_eq!(list.below(offset), below(offset), "{blocks:?}: {offset}");
                }
                start += len;
            }
            assert_eq!(list.below(i64::MAX), blocks.len());
        }
    }
}
