//! Copying between two layouts: the kernels under every pack, unpack, shuffle and sieve.
//!
//! Two cursors walk in step. Each step takes the longest stretch in which both sides are strided
//! (or contiguous) with one block length, and copies it with a loop specialised for that length.
//!
//! Cost: one pass over the bytes; per block one load and one store for blocks of 1, 2, 4, 8 and
//! 16 bytes, a few for the other common sizes up to 64, a `memcpy` for larger ones. Where the
//! caller asks for it, non-temporal stores keep the target out of the cache (`stream`).
//!
//! Unsafe: memory is named by raw spans, because slots of shared memory are used by several ranks
//! at a time, and MPI buffers may lie on both sides of their origin. A [`Span`] carries its bounds,
//! and each stretch is checked against them before a byte is touched.
#![allow(unsafe_code)]

mod stream;
#[cfg(target_arch = "x86_64")]
mod weave;

use std::ops::Range;
use std::ptr;

use super::cursor::{Chunk, Cursor};
use super::layout::Layout;
use crate::number::{narrow, wide};

/// Memory into which the offsets of a layout point.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// The address of offset 0; it need not be inside the memory itself.
    origin: *mut u8,
    /// The offsets that are inside the memory.
    reach: Range<i64>,
}

// SAFETY: a span is an address and bounds; using it is what needs care, and every use is unsafe
// and says by whom the memory may be touched at that time.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// The memory of a slice; offset 0 is its first byte. Only for copying from it.
    pub(crate) fn of(slice: &[u8]) -> Span {
        Span::at(slice.as_ptr().cast_mut(), 0..wide(slice.len()).cast_signed())
    }

    /// The memory of a slice; offset 0 is its first byte.
    pub(crate) fn of_mut(slice: &mut [u8]) -> Span {
        Span::at(slice.as_mut_ptr(), 0..wide(slice.len()).cast_signed())
    }

    /// Memory around an address; `reach` are the offsets from it that may be touched.
    pub(crate) fn at(origin: *mut u8, reach: Range<i64>) -> Span {
        Span { origin, reach }
    }

    /// The same memory, seen so that offset `offset` is where offset 0 was.
    pub(crate) fn based_at(&self, offset: i64) -> Span {
        let reach = self.reach.start.saturating_add(offset)..self.reach.end.saturating_add(offset);
        let back = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
        let origin = match offset >= 0 {
            true => self.origin.wrapping_sub(back),
            false => self.origin.wrapping_add(back),
        };
        Span { origin, reach }
    }

    /// A part of the memory.
    pub(crate) fn cut(self, reach: Range<i64>) -> Span {
        let inside = reach.start.max(self.reach.start)..reach.end.min(self.reach.end);
        Span { origin: self.origin, reach: inside }
    }

    /// Whether all these offsets are inside this memory.
    pub(crate) fn reaches(&self, offsets: Range<i64>) -> bool {
        self.reach.start <= offsets.start && offsets.end <= self.reach.end
    }

    /// Whether a layout stays inside this memory.
    pub(crate) fn holds(&self, layout: &Layout) -> bool {
        layout.is_empty() || layout.lower() >= self.reach.start && layout.upper() <= self.reach.end
    }

    /// The contiguous bytes at an offset.
    ///
    /// # Safety
    /// The memory is alive and nobody writes these bytes for the lifetime that is chosen.
    pub(crate) unsafe fn bytes<'a>(&self, offset: i64, len: usize) -> &'a [u8] {
        let start = self.checked(Chunk { offset, len: wide(len), stride: 0, count: 1 });
        // SAFETY: `checked` found the range inside the span; the caller answers for the rest.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// The contiguous bytes at an offset, for writing.
    ///
    /// # Safety
    /// The memory is alive and nobody else touches these bytes for the lifetime that is chosen.
    pub(crate) unsafe fn bytes_mut<'a>(&self, offset: i64, len: usize) -> &'a mut [u8] {
        let start = self.checked(Chunk { offset, len: wide(len), stride: 0, count: 1 });
        // SAFETY: `checked` found the range inside the span; the caller answers for the rest.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// The address of a chunk's first block.
    ///
    /// # Panics
    /// If a block of the chunk is not inside the span.
    #[inline]
    fn checked(&self, chunk: Chunk) -> *mut u8 {
        let end = i64::try_from(chunk.len).ok().and_then(|len| chunk.offset.checked_add(len));
        let inside = end.is_some_and(|end| end <= self.reach.end);
        if chunk.count != 1 || chunk.offset < self.reach.start || !inside {
            self.check_all(chunk);
        }
        let distance = usize::try_from(chunk.offset.unsigned_abs()).unwrap_or(usize::MAX);
        match chunk.offset >= 0 {
            true => self.origin.wrapping_add(distance),
            false => self.origin.wrapping_sub(distance),
        }
    }

    /// Prefetches the first line of what is at an offset; nothing happens to it.
    #[inline]
    fn prefetch(&self, offset: Option<i64>) {
        if let Some(distance) = offset.and_then(|offset| isize::try_from(offset).ok()) {
            stream::fetch(self.origin.wrapping_offset(distance), 1);
        }
    }

    /// Panics if a block of the chunk is not inside the span.
    fn check_all(&self, chunk: Chunk) {
        let last_turn = i128::from(chunk.count.saturating_sub(1)) * i128::from(chunk.stride);
        let first = i128::from(chunk.offset);
        let lower = first + last_turn.min(0);
        let upper = first + last_turn.max(0) + i128::from(chunk.len);
        assert!(
            lower >= i128::from(self.reach.start) && upper <= i128::from(self.reach.end),
            "a copy stays inside its memory: {chunk:?} in {:?}",
            self.reach
        );
    }
}

/// A block of a list is prefetched this number of blocks before it is copied.
const BLOCKS_AHEAD: usize = 16;

/// Copies that can be made together ([`Copying::step_together`]).
pub(crate) const GROUP: usize = 4;

/// One side of a copy: where the data bytes from `position` on lie in a span.
pub(crate) struct Side<'a> {
    pub(crate) span: Span,
    pub(crate) layout: &'a Layout,
    pub(crate) position: u64,
}

/// Whether copied bytes stay in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    Cached,
    /// The target is too long for the cache: what is stored there would only drive out the source,
    /// and its old contents would be loaded first.
    Streamed,
}

/// Copies `len` data bytes from one layout to another.
///
/// # Safety
/// Both spans are alive; nobody writes the source bytes and nobody else touches the target bytes
/// during the call; source and target bytes do not overlap.
///
/// # Panics
/// If a layout leaves its span.
pub(crate) unsafe fn copy(target: Side<'_>, source: Side<'_>, len: u64, stores: Stores) {
    // SAFETY: passed on from the caller.
    unsafe { Copying::new(target, source, len, stores) }.step(u64::MAX);
}

/// A copy that is made step by step, so that several can be made round-robin.
pub(crate) struct Copying<'a> {
    to: Cursor<'a>,
    from: Cursor<'a>,
    to_span: Span,
    from_span: Span,
    stores: Stores,
}

impl<'a> Copying<'a> {
    /// # Safety
    /// As [`copy`], for as long as it lives.
    pub(crate) unsafe fn new(
        target: Side<'a>,
        source: Side<'a>,
        len: u64,
        stores: Stores,
    ) -> Copying<'a> {
        Copying {
            to: Cursor::new(target.layout, target.position..target.position + len),
            from: Cursor::new(source.layout, source.position..source.position + len),
            to_span: target.span,
            from_span: source.span,
            stores,
        }
    }

    /// Copies about this number of the bytes that are left, or all.
    ///
    /// # Panics
    /// As [`copy`].
    pub(crate) fn step(&mut self, bytes: u64) {
        let mut left = bytes;
        while let (Some(to_chunk), Some(from_chunk)) = (self.to.chunk(), self.from.chunk()) {
            if left == 0 {
                return;
            }
            // SAFETY: `new`'s caller has promised.
            let listed = unsafe { self.copy_list(left) };
            if listed > 0 {
                left = left.saturating_sub(listed);
                continue;
            }
            let limit = match self.stores {
                Stores::Cached => left,
                Stores::Streamed => stream::to_line_end(self.to_span.checked(to_chunk), left),
            };
            let (to_chunk, from_chunk) = in_step(to_chunk, from_chunk, limit);
            let to_start = self.to_span.checked(to_chunk);
            let from_start = self.from_span.checked(from_chunk);
            let stretch = Stretch::new(to_chunk, from_chunk);
            // SAFETY: both chunks lie inside their spans (`checked`); `new`'s caller answers for
            // the spans being alive, unshared and apart.
            unsafe {
                match self.stores {
                    Stores::Cached => copy_blocks(to_start, from_start, stretch),
                    Stores::Streamed => stream::copy_blocks(to_start, from_start, stretch),
                }
            }
            self.to.advance(to_chunk.bytes());
            self.from.advance(from_chunk.bytes());
            left = left.saturating_sub(to_chunk.bytes());
        }
    }

    /// Makes a step of about this number of bytes of each of these copies at once, if there are
    /// [`GROUP`] of them and their short blocks lie side by side; returns whether it has.
    ///
    /// # Panics
    /// As [`copy`].
    pub(crate) fn step_together(copies: &mut [Copying<'_>], bytes: u64) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Ok(copies) = copies.try_into() {
            return weave::step(copies, bytes);
        }
        let _ = (copies, bytes);
        false
    }

    /// Whether all is copied.
    pub(crate) fn is_done(&self) -> bool {
        self.to.chunk().is_none()
    }

    /// The offset of the next byte, in the target or in the source.
    pub(crate) fn next(&self, in_target: bool) -> Option<i64> {
        let cursor = if in_target { &self.to } else { &self.from };
        cursor.chunk().map(|chunk| chunk.offset)
    }

    /// Copies along a list to or from another list or a contiguous stretch, where the cursors are
    /// at such; returns how many bytes it has copied.
    ///
    /// Nothing but the list knows where its next blocks lie. So they are prefetched: loads from
    /// memory overlap, also where lengths differ and a core cannot foresee the copies.
    ///
    /// # Safety
    /// As [`copy`].
    ///
    /// # Panics
    /// As [`copy`].
    unsafe fn copy_list(&mut self, limit: u64) -> u64 {
        let (Some(mut to), Some(mut from)) = (self.to.blocks(), self.from.blocks()) else {
            return 0;
        };
        if !to.is_list() && !from.is_list() {
            return 0;
        }
        let (remaining, mut bytes) = (self.to.remaining(), 0);
        while bytes < limit.min(remaining) {
            let ((to_offset, to_len), (from_offset, from_len)) = (to.block(), from.block());
            let len = to_len.min(from_len).min(remaining - bytes);
            if len == 0 {
                break;
            }
            self.to_span.prefetch(to.ahead(BLOCKS_AHEAD));
            self.from_span.prefetch(from.ahead(BLOCKS_AHEAD));
            let block = |offset| Chunk { offset, len, stride: 0, count: 1 };
            let target = self.to_span.checked(block(to_offset));
            let source = self.from_span.checked(block(from_offset));
            // SAFETY: both sides lie inside their spans; the caller answers for the rest.
            unsafe { copy_block(target, source, narrow(len)) };
            to.pass(len);
            from.pass(len);
            bytes += len;
        }
        self.to.follow(&to, bytes);
        self.from.follow(&from, bytes);
        bytes
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        if self.stores == Stores::Streamed {
            stream::finish();
        }
    }
}

/// Copies one block; those of one cache line are common.
///
/// # Safety
/// The block is valid on both sides, which do not overlap.
#[inline]
unsafe fn copy_block(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: passed on from the caller.
    unsafe {
        match len {
            64 => ptr::copy_nonoverlapping(from, to, 64),
            8 => ptr::copy_nonoverlapping(from, to, 8),
            4 => ptr::copy_nonoverlapping(from, to, 4),
            _ => ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// Copies `len` data bytes between two slices; the offsets of the layouts are indices.
pub(crate) fn copy_slices(
    (target, target_layout, target_position): (&mut [u8], &Layout, u64),
    (source, source_layout, source_position): (&[u8], &Layout, u64),
    len: u64,
) {
    let (to, from) = (Span::of_mut(target), Span::of(source));
    let target = Side { span: to, layout: target_layout, position: target_position };
    let source = Side { span: from, layout: source_layout, position: source_position };
    // SAFETY: the slices are borrowed for this call, one of them exclusively.
    unsafe { copy(target, source, len, Stores::Cached) }
}

/// Cuts two chunks to the same number of blocks of the same length, about `limit` bytes or less.
fn in_step(one: Chunk, two: Chunk, limit: u64) -> (Chunk, Chunk) {
    let len = one.len.min(two.len);
    let is_single = |chunk: Chunk| chunk.len == len && chunk.count == 1;
    if is_single(one) || is_single(two) {
        let len = len.min(limit);
        let block = |chunk: Chunk| Chunk { len, stride: 0, count: 1, ..chunk };
        return (block(one), block(two));
    }
    // A longer block is a contiguous stretch of several shorter ones.
    let split = |chunk: Chunk| match chunk.len == len {
        true => chunk,
        false => Chunk { len, stride: len.cast_signed(), count: chunk.len / len, ..chunk },
    };
    let (one, two) = (split(one), split(two));
    let count = one.count.min(two.count).min(limit.div_ceil(len));
    (Chunk { count, ..one }, Chunk { count, ..two })
}

/// What the kernels copy: `count` blocks of `len` bytes, each side at its stride.
#[derive(Clone, Copy)]
struct Stretch {
    len: usize,
    count: usize,
    to_stride: isize,
    from_stride: isize,
}

impl Stretch {
    fn new(to: Chunk, from: Chunk) -> Stretch {
        // These fit: `checked` has found the chunks inside memory.
        Stretch {
            len: narrow(to.len),
            count: narrow(to.count),
            to_stride: narrow(to.stride.cast_unsigned()).cast_signed(),
            from_stride: narrow(from.stride.cast_unsigned()).cast_signed(),
        }
    }
}

/// Copies blocks, by a loop for their length.
///
/// # Safety
/// All blocks on both sides are valid, and the two sides do not overlap.
unsafe fn copy_blocks(to: *mut u8, from: *const u8, stretch: Stretch) {
    let Stretch { len, count, to_stride, from_stride } = stretch;
    let packed = len.cast_signed();
    // SAFETY: passed on from the caller; a packed stretch is one block of `len * count` bytes.
    unsafe {
        if count == 1 && len > 64 {
            return ptr::copy_nonoverlapping(from, to, len);
        }
        if to_stride == packed && from_stride == packed {
            return ptr::copy_nonoverlapping(from, to, len * count);
        }
        match len {
            1 => copy_fixed::<1>(to, from, stretch),
            2 => copy_fixed::<2>(to, from, stretch),
            4 => copy_fixed::<4>(to, from, stretch),
            8 => copy_fixed::<8>(to, from, stretch),
            12 => copy_fixed::<12>(to, from, stretch),
            16 => copy_fixed::<16>(to, from, stretch),
            20 => copy_fixed::<20>(to, from, stretch),
            24 => copy_fixed::<24>(to, from, stretch),
            32 => copy_fixed::<32>(to, from, stretch),
            40 => copy_fixed::<40>(to, from, stretch),
            48 => copy_fixed::<48>(to, from, stretch),
            64 => copy_fixed::<64>(to, from, stretch),
            _ => copy_any(to, from, stretch),
        }
    }
}

/// Copies blocks of a length known to the compiler, which turns each into plain moves.
///
/// # Safety
/// As [`copy_blocks`], with `stretch.len == LEN`.
unsafe fn copy_fixed<const LEN: usize>(to: *mut u8, from: *const u8, stretch: Stretch) {
    let (mut to, mut from) = (to.cast::<[u8; LEN]>(), from.cast::<[u8; LEN]>());
    for _ in 0..stretch.count {
        // SAFETY: a block of the stretch; arrays of bytes have alignment 1.
        unsafe { ptr::copy_nonoverlapping(from, to, 1) };
        to = to.wrapping_byte_offset(stretch.to_stride);
        from = from.wrapping_byte_offset(stretch.from_stride);
    }
}

/// Copies blocks of any length.
///
/// # Safety
/// As [`copy_blocks`].
unsafe fn copy_any(mut to: *mut u8, mut from: *const u8, stretch: Stretch) {
    for _ in 0..stretch.count {
        // SAFETY: a block of the stretch.
        unsafe { ptr::copy_nonoverlapping(from, to, stretch.len) };
        to = to.wrapping_offset(stretch.to_stride);
        from = from.wrapping_offset(stretch.from_stride);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The safe twin: one byte at a time.
    fn copy_bytewise(
        (target, target_layout): (&mut [u8], &Layout),
        (source, source_layout): (&[u8], &Layout),
        range: Range<u64>,
    ) {
        for position in range {
            let to = usize::try_from(target_layout.offset_of(position)).unwrap();
            let from = usize::try_from(source_layout.offset_of(position)).unwrap();
            target[to] = source[from];
        }
    }

    /// All ways to copy: at once and in short steps, through the cache and past it.
    fn in_all_ways(
        (target_layout, source_layout): (&Layout, &Layout),
        source: &[u8],
        range: Range<u64>,
        check: impl Fn(&[u8]),
    ) {
        let mut target = vec![0; source.len()];
        for stores in [Stores::Cached, Stores::Streamed] {
            for step in [u64::MAX, 100] {
                target.fill(0);
                let side = |span, layout| Side { span, layout, position: range.start };
                let to = side(Span::of_mut(&mut target), target_layout);
                let from = side(Span::of(source), source_layout);
                // SAFETY: both slices are borrowed by this function.
                let mut copying =
                    unsafe { Copying::new(to, from, range.end - range.start, stores) };
                while !copying.is_done() {
                    copying.step(step);
                }
                drop(copying);
                check(&target);
            }
        }
    }

    fn strided(len: u64, count: u64, gap: i64) -> Layout {
        Layout::block(3, len).unwrap().repeated(count, len.cast_signed() + gap).unwrap()
    }

    #[test]
    fn kernels_agree_with_the_safe_twin() {
        const SIZE: u64 = 960;
        let lens = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 32, 40, 48, 60, 64, 80, 96];
        let layouts: Vec<Layout> = lens
            .iter()
            .filter(|&&len| SIZE.is_multiple_of(len))
            .flat_map(|&len| [strided(len, SIZE / len, 0), strided(len, SIZE / len, 3)])
            .collect();
        let source: Vec<u8> = (0..8192u32).map(|index| (index * 31 % 251) as u8).collect();
        for one in &layouts {
            for two in &layouts {
                for range in [0..SIZE, 1..SIZE - 1, 7..500, 333..334] {
                    let mut slow = vec![0; 8192];
                    copy_bytewise((&mut slow, one), (&source, two), range.clone());
                    in_all_ways((one, two), &source, range, |fast| assert!(fast == slow));
                }
            }
        }
    }

    /// Whole lines, which one of these offsets has, and blocks that are long enough to have some.
    #[test]
    fn lines_that_lie_apart_agree_with_the_safe_twin() {
        let source: Vec<u8> = (0..16_384u32).map(|index| (index * 31 % 251) as u8).collect();
        for (len, gap) in [(64, 64), (64, 4), (128, 192), (192, 0), (256, 3), (300, 64), (700, 9)] {
            let size = len * 12;
            let run = Layout::block(5, size).unwrap();
            let woven = strided(len, 12, 128);
            for offset in [0, 16, 32, 48] {
                let apart = Layout::block(offset, len).unwrap();
                let apart = apart.repeated(12, len.cast_signed() + gap).unwrap();
                for from in [&run, &woven] {
                    for range in [0..size, 1..size - 1, len..size] {
                        let mut slow = vec![0; source.len()];
                        copy_bytewise((&mut slow, &apart), (&source, from), range.clone());
                        in_all_ways((&apart, from), &source, range, |fast| assert!(fast == slow));
                    }
                }
            }
        }
    }

    /// Lists against everything that the other side may be, from every position.
    #[test]
    fn lists_agree_with_the_safe_twin() {
        let list = |lens: &[u64]| {
            let mut offset = 1;
            let block = |&len: &u64| {
                let block = Layout::block(offset, len).unwrap();
                offset += len.cast_signed() + 1 + (offset % 5);
                block
            };
            Layout::joined(lens.iter().map(block).collect::<Vec<_>>()).unwrap()
        };
        let layouts = [
            list(&[64, 4, 8, 64, 100, 1, 64, 64, 7, 8]),
            list(&[4; 96]),
            strided(384, 1, 0),
            strided(8, 48, 1),
            Layout::joined([strided(4, 10, 3), strided(64, 1, 0).shifted(100).unwrap()])
                .unwrap()
                .repeated(3, 300)
                .unwrap(),
            list(&[3, 5, 90, 30]).repeated(3, 500).unwrap(),
            list(&[7, 300, 5, 64, 256, 1]),
        ];
        let source: Vec<u8> = (0..4096u32).map(|index| (index * 31 % 251) as u8).collect();
        for (one, two) in layouts.iter().flat_map(|one| layouts.iter().map(move |two| (one, two))) {
            let size = one.size().min(two.size());
            for start in 0..size {
                for end in [start + 1, start + 64, start + 65, size].map(|end| end.min(size)) {
                    let mut slow = vec![0; 4096];
                    copy_bytewise((&mut slow, one), (&source, two), start..end);
                    in_all_ways((one, two), &source, start..end, |fast| {
                        assert!(fast == slow, "{one:?} {two:?} {start}..{end}");
                    });
                }
            }
        }
    }

    /// More blocks than are put together at a time, to targets that begin anywhere in a line.
    #[test]
    fn streams_agree_with_the_safe_twin() {
        let source: Vec<u8> = (0..40_000u32).map(|index| (index * 31 % 251) as u8).collect();
        for len in [1, 4, 12, 63, 64, 65, 255, 256, 300] {
            let size = 9000 / len * len;
            let from = strided(len, size / len, 1 + (len % 7).cast_signed());
            for start in [0, 1, 16, 63] {
                let to = Layout::block(start, size).unwrap();
                let mut slow = vec![0; 40_000];
                copy_bytewise((&mut slow, &to), (&source, &from), 0..size);
                in_all_ways((&to, &from), &source, 0..size, |fast| assert!(fast == slow));
            }
        }
    }

    /// Several copies side by side, from and to every place in a line, with every step.
    #[test]
    fn copies_together_agree_with_the_safe_twin() {
        const ROWS: u64 = 700;
        let source: Vec<u8> = (0..200_000u32).map(|index| (index * 31 % 251) as u8).collect();
        for (len, gap) in [(4, 0), (4, 3), (8, 0), (8, 100), (16, 0), (16, 1), (2, 0), (12, 4)] {
            let stride = wide(GROUP) * len + gap;
            let size = ROWS * len;
            let woven: Vec<Layout> = (0..wide(GROUP))
                .map(|index| {
                    let first = Layout::block((7 + index * len).cast_signed(), len).unwrap();
                    first.repeated(ROWS, stride.cast_signed()).unwrap()
                })
                .collect();
            // The copies of this one begin at different places in a line.
            let runs: Vec<Layout> = (0..wide(GROUP))
                .map(|index| Layout::block((index * (size + 24)).cast_signed(), size).unwrap())
                .collect();
            for ((to, from), range) in [(&woven, &runs), (&runs, &woven)]
                .into_iter()
                .flat_map(|sides| [0..size, len..size - len, 1..size].map(|range| (sides, range)))
            {
                let mut slow = vec![0; source.len()];
                for (to, from) in to.iter().zip(from) {
                    copy_bytewise((&mut slow, to), (&source, from), range.clone());
                }
                for (stores, step) in [Stores::Cached, Stores::Streamed]
                    .into_iter()
                    .flat_map(|stores| [u64::MAX, 1024, 100].map(|step| (stores, step)))
                {
                    let mut fast = vec![0; source.len()];
                    let (to_span, from_span) = (Span::of_mut(&mut fast), Span::of(&source));
                    let position = range.start;
                    let copying = |(to, from)| {
                        let to = Side { span: to_span.clone(), layout: to, position };
                        let from = Side { span: from_span.clone(), layout: from, position };
                        // SAFETY: the targets are apart, and borrowed by this function.
                        unsafe { Copying::new(to, from, range.end - range.start, stores) }
                    };
                    let mut copies: Vec<Copying<'_>> = to.iter().zip(from).map(copying).collect();
                    let mut together = 0;
                    while !copies.iter().all(Copying::is_done) {
                        match Copying::step_together(&mut copies, step) {
                            true => together += 1,
                            false => copies.iter_mut().for_each(|copy| copy.step(step)),
                        }
                    }
                    drop(copies);
                    assert!(fast == slow, "{len} + {gap}, {range:?}, {stores:?}, {step}");
                    let is_short = [4, 8, 16].contains(&len) && cfg!(target_arch = "x86_64");
                    if !is_short || range.start.is_multiple_of(len) {
                        assert_eq!(together > 0, is_short, "{len} + {gap}, {range:?}, {step}");
                    }
                }
            }
        }
    }

    #[test]
    fn copies_that_are_not_side_by_side_do_not_go_together() {
        let source: Vec<u8> = (0..4096u32).map(|index| (index * 31 % 251) as u8).collect();
        let mut target = vec![0; 4096];
        let column =
            |offset, stride| Layout::block(offset, 4).unwrap().repeated(40, stride).unwrap();
        let side_by_side = [column(0, 64), column(4, 64), column(8, 64), column(12, 64)];
        let gap = [column(0, 64), column(4, 64), column(8, 64), column(16, 64)];
        let stride = [column(0, 64), column(4, 64), column(8, 64), column(12, 68)];
        let order = [column(4, 64), column(0, 64), column(8, 64), column(12, 64)];
        let cases = [(side_by_side, true), (gap, false), (stride, false), (order, false)];
        for (columns, goes) in cases {
            let runs: Vec<Layout> =
                (0..4).map(|index| Layout::block(index * 160, 160).unwrap()).collect();
            let (to_span, from_span) = (Span::of_mut(&mut target), Span::of(&source));
            let copying = |(layout, run)| {
                let to = Side { span: to_span.clone(), layout: run, position: 0 };
                let from = Side { span: from_span.clone(), layout, position: 0 };
                // SAFETY: as above.
                unsafe { Copying::new(to, from, 160, Stores::Cached) }
            };
            let mut copies: Vec<Copying<'_>> = columns.iter().zip(&runs).map(copying).collect();
            let went = Copying::step_together(&mut copies, 160);
            assert_eq!(went, goes && cfg!(target_arch = "x86_64"));
            assert!(!Copying::step_together(&mut copies[..3], 160), "too few");
        }
    }

    #[test]
    fn negative_strides_are_walked_backwards() {
        let backwards = Layout::block(40, 4).unwrap().repeated(11, -4).unwrap();
        let source: Vec<u8> = (0..44).collect();
        let mut target = vec![0; 44];
        let plain = Layout::block(0, 44).unwrap();
        copy_slices((&mut target, &plain, 0), (&source, &backwards, 0), 44);
        assert_eq!(target[..8], [40, 41, 42, 43, 36, 37, 38, 39]);
    }

    #[test]
    #[should_panic(expected = "stays inside its memory")]
    fn a_layout_that_leaves_its_memory_is_refused() {
        let layout = Layout::block(0, 4).unwrap().repeated(3, 8).unwrap();
        let plain = Layout::block(0, 12).unwrap();
        copy_slices((&mut [0; 19], &layout, 0), (&[1; 12], &plain, 0), 12);
    }

    #[test]
    fn a_moved_span_names_the_same_memory() {
        let bytes: Vec<u8> = (0..10).collect();
        let span = Span::of(&bytes).based_at(100);
        // SAFETY: `bytes` is alive and nobody writes it.
        assert_eq!(unsafe { span.bytes(103, 2) }, [3, 4]);
    }
}
