//! A mapping of an anonymous file, aligned for huge pages.
//!
//! Each process that touches a page of shared memory for the first time takes a page fault. Huge
//! pages take 512 times fewer; but systems use them for shared memory only on request, and only
//! where offset and address are multiples of a huge page.
//!
//! Unsafe: mappings of the system, named by address; they live as long as [`Mapping`] does.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// The size of huge pages on most systems; where they are longer, none are used.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The first bytes of a file.
pub(super) struct Mapping {
    /// A multiple of a huge page.
    start: *mut u8,
    bytes: usize,
    /// The room around it, and its length.
    room: *mut u8,
    room_bytes: usize,
}

// SAFETY: it is an address of memory that any thread may use; using it is what needs care.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first `bytes` bytes of a file that has them; `None` if the system does not map them.
    pub(super) fn new(file: &File, bytes: usize) -> Option<Mapping> {
        let room_bytes = bytes.checked_add(HUGE_PAGE_BYTES)?;
        let (nothing, all) = (ProtFlags::empty(), ProtFlags::READ | ProtFlags::WRITE);
        let (private, fixed) = (MapFlags::PRIVATE | MapFlags::NORESERVE, MapFlags::FIXED);
        // SAFETY: the system chooses a place where nothing is.
        let room = unsafe { mmap_anonymous(null_mut(), room_bytes, nothing, private) };
        let room = room.ok()?.cast::<u8>();
        let start = room.wrapping_add(room.align_offset(HUGE_PAGE_BYTES));
        let mapping = Mapping { start, bytes, room, room_bytes };
        // SAFETY: the place is inside the room that was found above.
        unsafe { mmap(start.cast(), bytes, all, MapFlags::SHARED | fixed, file, 0) }.ok()?;
        Some(mapping)
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.start
    }

    pub(super) fn as_mut_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Has the system put a range into huge pages, if it can; otherwise nothing changes. Its bytes
    /// stay, and may be in use meanwhile.
    pub(super) fn use_huge_pages(&self, range: Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.bytes, "a range of the mapping");
        for offset in range.clone().step_by(HUGE_PAGE_BYTES) {
            // SAFETY: a byte of the mapping, which lives as long as `self`.
            let byte = unsafe { AtomicU8::from_ptr(self.start.add(offset)) };
            // Where nothing was touched, there is nothing that the system could put together.
            black_box(byte.load(Ordering::Relaxed));
        }
        // SAFETY: pages of this mapping; the advice changes no byte of them.
        let answer = unsafe {
            let (start, bytes) = (self.start.add(range.start), range.end - range.start);
            libc::madvise(start.cast(), bytes, libc::MADV_COLLAPSE)
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody uses the room but this mapping, which ends here.
        let _ = unsafe { munmap(self.room.cast(), self.room_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::node::segment::Segment;

    #[test]
    fn huge_pages_change_no_byte() {
        let file = Segment::file().unwrap();
        file.set_len(6 << 20).unwrap();
        let one = Mapping::new(&file, 5 << 20).unwrap();
        let two = Mapping::new(&file, 6 << 20).unwrap();
        assert_eq!(one.start.addr() % HUGE_PAGE_BYTES, 0);
        let byte = |mapping: &Mapping, offset| {
            // SAFETY: inside both mappings; this test has them for itself.
            unsafe { AtomicU8::from_ptr(mapping.start.add(offset)) }.load(Ordering::Relaxed)
        };
        let places = [0, 4095, 4096, (2 << 20) - 1, 2 << 20, (4 << 20) + 77, (5 << 20) - 1];
        for (number, &place) in (1..).zip(&places) {
            // SAFETY: as above.
            unsafe { AtomicU8::from_ptr(one.start.add(place)) }.store(number, Ordering::Relaxed);
        }
        let _ = two.use_huge_pages(0..6 << 20);
        let _ = one.use_huge_pages(2 << 20..4 << 20);
        for (number, &place) in (1..).zip(&places) {
            assert_eq!((byte(&one, place), byte(&two, place)), (number, number));
        }
        drop(one);
        assert_eq!(byte(&two, 4095), 2);
    }

    /// Where the system has huge pages for memory that was touched all over, it has them for
    /// memory that was not touched at all. It may be short of them, but not refuse the range.
    #[test]
    fn untouched_memory_gets_huge_pages_too() {
        let mapping = |touched: &[u8]| {
            let file = Segment::file().unwrap();
            file.write_all_at(touched, 0).unwrap();
            file.set_len(4 << 20).unwrap();
            Mapping::new(&file, 4 << 20).unwrap()
        };
        let is_refused = |mapping: Mapping| {
            let answer = mapping.use_huge_pages(0..4 << 20);
            answer.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
        };
        assert_eq!(is_refused(mapping(&[])), is_refused(mapping(&vec![1; 4 << 20])));
    }
}
