//! Bytes from one process to another, through memory that both map.
//!
//! A ring has one writer and one reader. `tail` counts the bytes written, `head` those read; each
//! is stored by one side only, after the bytes (release), and loaded by the other before them
//! (acquire). The place of a byte is its number modulo the capacity, a power of two.
//!
//! A writer that finds no room sets `wanting` and looks once more; a reader that has made room
//! looks at `wanting`, and then rings the writer's doorbell. A sequentially consistent fence
//! between the two steps, on either side, keeps both from overlooking the other.
//!
//! Hazard: the process on the other side may be broken; whatever it left in the memory leads to
//! errors, never to an access outside of it.
//!
//! Unsafe: the bytes are shared with another process, so a side only copies from and to the bytes
//! that belong to it by the two counters.
//!
//! A model checker includes this file as it is (`pario-loom`).

use super::shared_bytes::SharedBytes;
use super::sync::{AtomicU64, Ordering, fence};
use super::{Result, broken};

/// The numbers of a ring, those of each side on a cache line of their own. Zeroed memory is the
/// control of an empty ring.
#[derive(Default)]
#[repr(C)]
pub(super) struct Control {
    pub(super) read: ReadSide,
    pub(super) written: WriteSide,
}

#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct ReadSide {
    pub(super) head: AtomicU64,
}

#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct WriteSide {
    pub(super) tail: AtomicU64,
    wanting: AtomicU64,
}

/// A ring, as one side sees it.
#[derive(Clone, Copy)]
pub(super) struct Ring<'a> {
    control: &'a Control,
    bytes: SharedBytes<'a>,
}

impl<'a> Ring<'a> {
    /// # Safety
    /// The bytes, as many as a power of two, are used by the ring of this control only. One thread
    /// at a time writes, and one reads.
    pub(super) unsafe fn new(control: &'a Control, bytes: SharedBytes<'a>) -> Ring<'a> {
        debug_assert!(bytes.len().is_power_of_two(), "places are numbers modulo the capacity");
        Ring { control, bytes }
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes written and not read.
    fn used(&self, head: u64, tail: u64) -> Result<usize> {
        let used = usize::try_from(tail.wrapping_sub(head)).unwrap_or(usize::MAX);
        match used <= self.capacity() {
            true => Ok(used),
            false => Err(broken("more bytes than there is room for")),
        }
    }

    /// Place of a byte, and how many bytes from there to the end of the memory.
    fn place(&self, number: u64) -> (usize, usize) {
        let mask = u64::try_from(self.capacity() - 1).unwrap_or(0);
        let start = usize::try_from(number & mask).unwrap_or(0);
        (start, self.capacity() - start)
    }

    /// Writes the first bytes of two parts, as many as there is room for; how many those were.
    pub(super) fn write(&self, parts: [&[u8]; 2]) -> Result<usize> {
        let WriteSide { tail, .. } = &self.control.written;
        let begin = tail.load(Ordering::Relaxed);
        let used = self.used(self.control.read.head.load(Ordering::Acquire), begin)?;
        let (mut room, mut end) = (self.capacity() - used, begin);
        for part in parts {
            let part = &part[..part.len().min(room)];
            let (start, until_end) = self.place(end);
            let (first, second) = part.split_at(part.len().min(until_end));
            // SAFETY: the reader does not touch the `room` bytes after `begin`, and both pieces
            // lie in them, hence in the memory.
            unsafe {
                self.bytes.write(start, first);
                self.bytes.write(0, second);
            }
            room -= part.len();
            end = end.wrapping_add(u64::try_from(part.len()).unwrap_or(0));
        }
        tail.store(end, Ordering::Release);
        Ok(self.capacity() - used - room)
    }

    /// Asks the reader to ring when it has made room. There may be room already when this returns.
    pub(super) fn want_room(&self) {
        self.control.written.wanting.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The writer has no more to write.
    pub(super) fn want_nothing(&self) {
        self.control.written.wanting.store(0, Ordering::Relaxed);
    }

    /// Whether the writer wants to know that room was made.
    pub(super) fn is_room_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.control.written.wanting.load(Ordering::Relaxed) != 0
    }

    /// What is there to be read now.
    pub(super) fn read(&self) -> Result<Reading<'a>> {
        let head = self.control.read.head.load(Ordering::Relaxed);
        let tail = self.control.written.tail.load(Ordering::Acquire);
        Ok(Reading { ring: *self, head, left: self.used(head, tail)? })
    }
}

/// Bytes that are being read; room for others is made when this ends.
pub(super) struct Reading<'a> {
    ring: Ring<'a>,
    head: u64,
    left: usize,
}

impl Reading<'_> {
    /// Bytes that are there.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// Takes `len` bytes and appends them to others.
    pub(super) fn take(&mut self, len: usize, target: &mut Vec<u8>) {
        assert!(len <= self.left, "only what is there is taken");
        target.reserve(len);
        let (start, until_end) = self.ring.place(self.head);
        let first = len.min(until_end);
        // SAFETY: the writer does not touch the `left` bytes after `head`, and both pieces lie in
        // them, hence in the memory.
        unsafe {
            self.ring.bytes.read(start..start + first, target);
            self.ring.bytes.read(0..len - first, target);
        }
        self.left -= len;
        self.head = self.head.wrapping_add(u64::try_from(len).unwrap_or(0));
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.ring.control.read.head.store(self.head, Ordering::Release);
    }
}
