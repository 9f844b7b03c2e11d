//! Counts what a program allocates.
//!
//! A test binary makes it its allocator and asks for the peak between two moments:
//!
//! ```
//! use pario_testkit::allocation::Counting;
//! #[global_allocator]
//! static COUNTING: Counting = Counting::new();
//!
//! COUNTING.reset();
//! let bytes = vec![0u8; 1 << 20];
//! drop(bytes);
//! assert!(COUNTING.peak_bytes() >= 1 << 20);
//! ```
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with counters.
pub struct Counting {
    live: AtomicUsize,
    peak: AtomicUsize,
    base: AtomicUsize,
    calls: AtomicUsize,
}

impl Counting {
    /// An allocator that has counted nothing yet.
    pub const fn new() -> Counting {
        Counting {
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        }
    }

    /// Starts counting again from zero.
    pub fn reset(&self) {
        let live = self.live.load(Relaxed);
        self.base.store(live, Relaxed);
        self.peak.store(live, Relaxed);
        self.calls.store(0, Relaxed);
    }

    /// The most bytes that were allocated at any moment since the last reset, above those that
    /// were allocated at the reset.
    pub fn peak_bytes(&self) -> usize {
        self.peak.load(Relaxed).saturating_sub(self.base.load(Relaxed))
    }

    /// Number of allocations since the last reset.
    pub fn calls(&self) -> usize {
        self.calls.load(Relaxed)
    }

    fn add(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(live, Relaxed);
        self.calls.fetch_add(1, Relaxed);
    }
}

impl Default for Counting {
    fn default() -> Counting {
        Counting::new()
    }
}

// SAFETY: every call is passed on to the system's allocator as it is; the counters allocate
// nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: passed on from the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.live.fetch_sub(layout.size(), Relaxed);
        // SAFETY: passed on from the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.add(size);
        self.live.fetch_sub(layout.size(), Relaxed);
        // SAFETY: passed on from the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
