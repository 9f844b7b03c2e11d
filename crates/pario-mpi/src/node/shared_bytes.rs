//! The bytes of a ring: memory that two processes share.
//!
//! Unsafe: memory that is named by its address. Who may copy from and to which bytes when is known
//! to the ring; the bounds are checked here in debug builds.

use std::marker::PhantomData;
use std::ops::Range;

/// Bytes that live as long as `'a`.
#[derive(Clone, Copy)]
pub(super) struct SharedBytes<'a> {
    start: *mut u8,
    len: usize,
    lifetime: PhantomData<&'a u8>,
}

impl SharedBytes<'_> {
    /// # Safety
    /// The `len` bytes from `start` live as long as the value, and nothing but such values uses
    /// them.
    pub(super) unsafe fn new(start: *mut u8, len: usize) -> Self {
        SharedBytes { start, len, lifetime: PhantomData }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies `source` to the bytes from `start`.
    ///
    /// # Safety
    /// There are as many, and nobody else uses them meanwhile.
    pub(super) unsafe fn write(&self, start: usize, source: &[u8]) {
        debug_assert!(start + source.len() <= self.len, "inside the memory");
        // SAFETY: the caller says so.
        unsafe {
            self.start.add(start).copy_from_nonoverlapping(source.as_ptr(), source.len());
        }
    }

    /// Appends a range of the bytes to others.
    ///
    /// # Safety
    /// They are there, and nobody else changes them meanwhile.
    pub(super) unsafe fn read(&self, range: Range<usize>, target: &mut Vec<u8>) {
        debug_assert!(range.start <= range.end && range.end <= self.len, "inside the memory");
        target.reserve(range.len());
        // SAFETY: the caller says so, and `target` has room for them after its own.
        unsafe {
            let end = target.as_mut_ptr().add(target.len());
            end.copy_from_nonoverlapping(self.start.add(range.start), range.len());
            target.set_len(target.len() + range.len());
        }
    }
}
