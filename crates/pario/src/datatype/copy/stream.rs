//! Copies with non-temporal (streaming) stores.
//!
//! A plain store first loads its cache line, and keeps it: both are wasted for a target that is
//! longer than the cache. Where another core has just read the line, a plain store has to
//! invalidate that copy as well. Non-temporal stores write whole lines and load nothing.
//!
//! Short blocks have few whole lines, or none. Those of a contiguous target are assembled to lines
//! first, on the stack. Plain stores serve all other short blocks; blocks of lists, where
//! assembling costs more than it saves; and the first and the last line, of which others may have
//! a part.
//!
//! Cost: as the copies above, with about two thirds of the memory traffic. Measured: 100 MiB in
//! blocks of 2 KiB, read by 16 threads on 2 cores, 17 ms instead of 20 (medians of 24 runs). Lines
//! that another core has just read are written with 26 GB/s instead of 7 to 38, depending on how
//! many there are, and with 12 to 26 instead of 1 to 3 where the caches are far from each other.

use std::mem::MaybeUninit;
use std::ptr;

use super::Stretch;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Blocks of this number of bytes and more have enough whole lines by themselves.
const LONG: usize = 4 * LINE;
/// A block is prefetched this number of bytes before it is copied: cores do not foresee blocks that
/// lie apart. Measured on cores that share no cache: 16 processes on 2 cores read
/// blocks of 512 bytes in 29 ms instead of 34; with a shared cache it makes no difference.
const AHEAD: usize = 2048;
/// Bytes that are put together at a time.
const STAGE: usize = 64 * LINE;

/// As its namesake above, with non-temporal stores.
///
/// # Safety
/// As its namesake.
pub(super) unsafe fn copy_blocks(to: *mut u8, from: *const u8, stretch: Stretch) {
    let Stretch { len, count, to_stride, from_stride } = stretch;
    let packed = len.cast_signed();
    // SAFETY: passed on from the caller; each block is inside the stretch.
    unsafe {
        if count == 1 || to_stride == packed && from_stride == packed {
            copy_run(to, from, len * count);
        } else if len >= LONG || to_stride != packed && are_lines(to, stretch) {
            let (mut to, mut from) = (to, from);
            let ahead = AHEAD.div_ceil(len);
            for index in 0..count {
                if index + ahead < count {
                    let next = from.wrapping_offset(from_stride * ahead.cast_signed());
                    fetch(next, len.min(AHEAD));
                }
                copy_run(to, from, len);
                to = to.wrapping_offset(to_stride);
                from = from.wrapping_offset(from_stride);
            }
        } else if to_stride != packed {
            super::copy_blocks(to, from, stretch);
        } else {
            let mut stage = Stage::new(to);
            stage.blocks(from, stretch);
            stage.finish();
        }
    }
}

/// Whether blocks are whole lines of the target.
fn are_lines(to: *const u8, stretch: Stretch) -> bool {
    let places = [to.addr(), stretch.to_stride.cast_unsigned(), stretch.len];
    places.iter().all(|place| place.is_multiple_of(LINE))
}

/// How many bytes from a place in a contiguous target on end where a line does.
pub(super) fn to_line_end(to: *const u8, bytes: u64) -> u64 {
    let end = to.addr().wrapping_add(crate::number::narrow(bytes));
    bytes.saturating_add(crate::number::wide(end.wrapping_neg() % LINE))
}

/// Blocks on their way to a contiguous target.
#[repr(align(64))]
struct Stage {
    bytes: [MaybeUninit<u8>; STAGE],
    /// Where they go: the beginning of a line.
    to: *mut u8,
    /// The bytes that are there.
    start: usize,
    end: usize,
}

impl Stage {
    fn new(to: *mut u8) -> Stage {
        let start = to.addr() % LINE;
        let bytes = [const { MaybeUninit::uninit() }; STAGE];
        Stage { bytes, to: to.wrapping_sub(start), start, end: start }
    }

    /// Adds the blocks of a stretch.
    ///
    /// # Safety
    /// They are valid and shorter than [`LONG`], and there is room for them in the target.
    unsafe fn blocks(&mut self, mut from: *const u8, stretch: Stretch) {
        let Stretch { len, from_stride, .. } = stretch;
        let mut left = stretch.count;
        while left > 0 {
            let count = left.min((STAGE - self.end) / len).min(AHEAD.div_ceil(len));
            if len >= LINE {
                for index in count..left.min(2 * count) {
                    fetch(from.wrapping_offset(from_stride * index.cast_signed()), len);
                }
            }
            let blocks = Stretch { count, to_stride: len.cast_signed(), ..stretch };
            // SAFETY: passed on from the caller; this number of blocks fits.
            unsafe {
                super::copy_blocks(self.at(self.end), from, blocks);
                self.end += count * len;
                self.flush();
            }
            from = from.wrapping_offset(from_stride * count.cast_signed());
            left -= count;
        }
    }

    /// Brings the rest to the target.
    ///
    /// # Safety
    /// There is room for all that was added.
    unsafe fn finish(mut self) {
        // SAFETY: passed on from the caller; `blocks` has left less than a line.
        unsafe {
            copy_rest(self.to.wrapping_add(self.start), self.at(self.start), self.end - self.start)
        }
    }

    /// Brings the lines that are whole to the target.
    ///
    /// # Safety
    /// As [`Stage::finish`].
    unsafe fn flush(&mut self) {
        let lines = self.end / LINE;
        if lines == 0 {
            return;
        }
        let first = self.start.div_ceil(LINE);
        // SAFETY: passed on from the caller. A first line that is not whole is stored as usual.
        unsafe {
            let (to, before) = (self.to, first * LINE - self.start);
            copy_rest(to.wrapping_add(self.start), self.at(self.start), before);
            copy_lines(to.wrapping_add(first * LINE), self.at(first * LINE), lines - first);
            copy_rest(self.at(0), self.at(lines * LINE), self.end % LINE);
        }
        (self.start, self.end) = (0, self.end % LINE);
        self.to = self.to.wrapping_add(lines * LINE);
    }

    fn at(&mut self, index: usize) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_add(index).cast()
    }
}

/// Copies a run of bytes, its whole lines with non-temporal stores.
///
/// # Safety
/// The run is valid on both sides, which do not overlap.
#[inline]
pub(super) unsafe fn copy_run(to: *mut u8, from: *const u8, len: usize) {
    let before = to.align_offset(LINE).min(len);
    let lines = (len - before) / LINE;
    let behind = before + lines * LINE;
    // SAFETY: three parts of the run; the middle one begins at a line.
    unsafe {
        copy_rest(to, from, before);
        copy_lines(to.wrapping_add(before), from.wrapping_add(before), lines);
        copy_rest(to.wrapping_add(behind), from.wrapping_add(behind), len - behind);
    }
}

/// Prefetches bytes; nothing happens to them.
#[inline]
pub(super) fn fetch(from: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..len).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: this is a hint, which any address may be given to.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, len);
}

/// Copies what is less than a line; often nothing is left.
///
/// # Safety
/// The bytes are valid on both sides, which do not overlap.
#[inline]
unsafe fn copy_rest(to: *mut u8, from: *const u8, len: usize) {
    if len > 0 {
        // SAFETY: passed on from the caller.
        unsafe { ptr::copy_nonoverlapping(from, to, len) };
    }
}

/// Copies whole lines with non-temporal stores.
///
/// # Safety
/// `lines` lines are valid on both sides, which do not overlap; `to` is the beginning of one.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_lines(to: *mut u8, from: *const u8, lines: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let (mut to, mut from) = (to.cast::<__m128i>(), from.cast::<__m128i>());
    for _ in 0..lines {
        // SAFETY: a line is four of these; loads need no alignment, and `to` has it.
        unsafe {
            let parts = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.wrapping_add(part)));
            for (part, bytes) in parts.into_iter().enumerate() {
                _mm_stream_si128(to.wrapping_add(part), bytes);
            }
        }
        (to, from) = (to.wrapping_add(4), from.wrapping_add(4));
    }
}

/// Copies whole lines; there is no such store here.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn copy_lines(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: passed on from the caller.
    unsafe { ptr::copy_nonoverlapping(from, to, lines * LINE) }
}

/// Makes non-temporal stores come before all stores after this one, as plain ones do by themselves:
/// those later stores announce the bytes to other ranks.
pub(super) fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
