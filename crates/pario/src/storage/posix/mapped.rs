//! Writes through a mapping of the file: several at a time.
//!
//! tmpfs, ext4 and XFS let one process at a time write to a file: the lock of its inode serialises
//! them. A store through a shared mapping takes no such lock. The kernel does the copy
//! (`process_vm_readv` from this process to itself): where the program's own store would end in a
//! signal, since another program has cut the file or the device is full, it returns an error.
//! Whatever goes wrong, the caller writes the same bytes once more, and gets the error and the
//! count of that write.
//!
//! What a write does besides its bytes is done by a write of the last one: times, set-user-ID bits,
//! limits, watchers. The file never grows by a store; `fallocate` makes room for a new part, or
//! leaves the file as it is. Pages that are not in memory would be read from the device first: they
//! are written plainly.
//!
//! Cost: five system calls, and a page fault for each page that this open has not stored before.
//! The mapping is kept for later writes until [`STORED_BYTES_MAX`] went through it.
//!
//! Unsafe: memory of the mapping has only an address here. Nothing in this process but the kernel
//! touches it.
#![allow(unsafe_code)]

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::FallocateFlags;
use rustix::process::{Resource, getrlimit};

use super::super::{Capabilities, FileSystem, MappedPart, file_len, memory_len};

/// Where this has been measured, and where nothing but the page cache lies below a mapping.
const FILE_SYSTEMS: [&str; 3] = ["tmpfs", "ext4", "xfs"];

/// A mapping is given up after this number of bytes: no more of the file's pages than these belong
/// to it.
const STORED_BYTES_MAX: u64 = 512 << 20;

/// The smallest and the largest pages of any machine.
const PAGE_BYTES_MIN: u64 = 4 << 10;
const PAGE_BYTES_MAX: u64 = 64 << 10;

/// Whether writes to an open file can go through a mapping, if it is a plain one and open for both
/// reading and writing.
pub(super) fn is_possible(capabilities: &Capabilities) -> bool {
    let is_one = |system: FileSystem| FILE_SYSTEMS.contains(&system.name);
    capabilities.file_system.is_some_and(is_one) && is_supported() && has_addresses()
}

/// Whether the process may use any number of addresses: if not, they are for its own memory.
fn has_addresses() -> bool {
    getrlimit(Resource::As).current.is_none()
}

/// Whether the kernel has the calls, and permits them.
fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        let memory = MmapOptions::new().len(1).map_anon().map(MmapRaw::from);
        memory.is_ok_and(|memory| {
            // SAFETY: the memory is this function's own.
            let copied = || unsafe { copy(&[1], memory.as_mut_ptr()) };
            memory.advise(Advice::PopulateWrite).is_ok() && copied() == 1
        })
    })
}

/// The mapping of one open file.
#[derive(Default)]
pub(super) struct Mapped {
    kept: Mutex<Option<Arc<Mapping>>>,
}

impl Mapped {
    /// Stores bytes; whether all are in the file. If not, the caller writes them.
    pub(super) fn store(
        &self,
        (file, in_memory): (&File, bool),
        offset: u64,
        source: &[u8],
        part: &MappedPart,
    ) -> bool {
        let window = offset..offset + file_len(source.len());
        let reaches_there = || file.metadata().is_ok_and(|found| found.len() >= window.end);
        (reaches_there() || part.new_bytes && in_memory && extend(file, &window))
            && self.mapping(file, &window, part).is_some_and(|mapping| {
                (in_memory || mapping.is_resident(&window))
                    && write_last(file, offset, source)
                    && mapping.copy(offset, source)
            })
            && reaches_there()
    }

    /// Gives the mapping up.
    pub(super) fn end(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The mapping for a window, new or kept.
    fn mapping(&self, file: &File, window: &Range<u64>, part: &MappedPart) -> Option<Arc<Mapping>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.as_ref().is_some_and(|mapping| mapping.takes(window)) {
            // One at a time.
            *kept = None;
            let within = part.within.start.min(window.start)..part.within.end.max(window.end);
            *kept = Mapping::new(file, &within).map(Arc::new);
        }
        kept.clone()
    }
}

/// Makes room beyond the end of a file in memory, whole or not at all. It never cuts the file.
fn extend(file: &File, window: &Range<u64>) -> bool {
    let len = window.end - window.start;
    rustix::fs::fallocate(file, FallocateFlags::empty(), window.start, len).is_ok()
}

/// Writes the last byte.
fn write_last(file: &File, offset: u64, source: &[u8]) -> bool {
    source.split_last().is_some_and(|(last, before)| {
        file.write_at(&[*last], offset + file_len(before.len())).is_ok_and(|count| count == 1)
    })
}

/// A part of a file in the addresses of this process.
struct Mapping {
    memory: MmapRaw,
    file: Range<u64>,
    /// Bytes that went through it.
    stored: AtomicU64,
}

impl Mapping {
    fn new(file: &File, within: &Range<u64>) -> Option<Mapping> {
        let start = within.start / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
        let len = usize::try_from(within.end - start).ok()?;
        let memory = MmapOptions::new().offset(start).len(len).map_raw(file).ok()?;
        Some(Mapping { memory, file: start..within.end, stored: AtomicU64::new(0) })
    }

    /// Whether a window lies in it and may still go through it.
    fn takes(&self, window: &Range<u64>) -> bool {
        let len = window.end - window.start;
        let is_inside = self.file.start <= window.start && window.end <= self.file.end;
        is_inside && self.stored.load(Ordering::Relaxed).saturating_add(len) <= STORED_BYTES_MAX
    }

    /// Whether all pages of a window are in memory.
    fn is_resident(&self, window: &Range<u64>) -> bool {
        let start = window.start / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
        let len = memory_len(window.end - start);
        let mut pages = vec![1u8; len.div_ceil(memory_len(PAGE_BYTES_MIN))];
        let address = self.memory.as_mut_ptr().wrapping_add(memory_len(start - self.file.start));
        // SAFETY: the window is inside of the mapping (`Mapped::mapping`). The kernel sets a byte
        // for each page, and there are as many for the smallest pages.
        let known = unsafe { libc::mincore(address.cast(), len, pages.as_mut_ptr()) } == 0;
        known && pages.iter().all(|page| page & 1 == 1)
    }

    /// Copies bytes to their place; whether all are there.
    fn copy(&self, offset: u64, source: &[u8]) -> bool {
        self.stored.fetch_add(file_len(source.len()), Ordering::Relaxed);
        let at = memory_len(offset - self.file.start);
        let populated = self.memory.advise_range(Advice::PopulateWrite, at, source.len());
        let target = self.memory.as_mut_ptr().wrapping_add(at);
        // SAFETY: the target is in the mapping (`Mapped::mapping`), which `self` keeps.
        populated.is_ok() && unsafe { copy(source, target) } == source.len()
    }
}

/// Lets the kernel copy bytes to an address; returns how many of them it has copied, fewer if it
/// cannot write there.
///
/// # Safety
/// As many bytes from `target` on belong to a mapping that stays, and no reference to them exists.
unsafe fn copy(source: &[u8], target: *mut u8) -> usize {
    let len = source.len();
    let to = libc::iovec { iov_base: target.cast(), iov_len: len };
    let from = libc::iovec { iov_base: source.as_ptr().cast_mut().cast(), iov_len: len };
    // SAFETY: the kernel reads `source`, which is borrowed, and writes to the target, as the caller
    // promises. It stops at a page that is not there.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    usize::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, SystemTime};

    use super::super::{Posix, tests::Scratch};
    use super::*;
    use crate::storage::{Driver, OpenMode, Storage};

    const BOTH: OpenMode = OpenMode { read: true, write: true, create: true, exclusive: false };
    const LEN: u64 = 300_000;

    /// Directories in memory and on a device.
    fn places(name: &str) -> impl Iterator<Item = Scratch> {
        let parents = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
        let there = parents.into_iter().filter(|parent| parent.is_dir());
        there.map(move |parent| Scratch::below(&parent, &format!("mapped-{name}")))
    }

    /// A file of old bytes, if it can be written through a mapping.
    fn file(path: &Path) -> Option<Arc<dyn Storage>> {
        std::fs::write(path, vec![7; memory_len(LEN)]).unwrap();
        let file = Posix.open(path, BOTH).unwrap();
        let is_possible = file.capabilities().mapped_writes;
        if !is_possible {
            println!("{}: no writes through a mapping are tested", path.display());
        }
        is_possible.then_some(file)
    }

    fn part(new_bytes: bool) -> MappedPart {
        MappedPart { within: 0..LEN, new_bytes }
    }

    fn bytes(len: u64) -> Vec<u8> {
        (0..=250).cycle().take(memory_len(len)).collect()
    }

    #[test]
    fn bytes_are_stored_at_their_places_and_nowhere_else() {
        for scratch in places("places") {
            let path = scratch.path("file");
            let Some(file) = file(&path) else { continue };
            let mut expected = std::fs::read(&path).unwrap();
            for (offset, len) in
                [(0, 1), (5, 4091), (4096, 8192), (100_000, 70_001), (LEN - 1, 1), (1, LEN - 1)]
            {
                let source = bytes(len);
                assert_eq!(file.write_mapped(offset, &source, &part(false)).unwrap(), len);
                expected[memory_len(offset)..][..source.len()].copy_from_slice(&source);
                assert!(std::fs::read(&path).unwrap() == expected, "{len} bytes at {offset}");
            }
            assert_eq!(file.write_mapped(5, &[], &part(false)).unwrap(), 0);
        }
    }

    /// Also if a write reaches beyond the part that was named.
    #[test]
    fn a_file_grows_as_by_writes() {
        for scratch in places("grows") {
            let path = scratch.path("file");
            let Some(file) = file(&path) else { continue };
            let in_memory = file.capabilities().in_memory;
            for (new_bytes, offset) in [(false, LEN - 9), (true, LEN + 1000), (true, 3 * LEN)] {
                let source = bytes(10_000);
                let mapped = file.write_mapped(offset, &source, &part(new_bytes)).unwrap();
                assert_eq!(mapped, if new_bytes && in_memory { 10_000 } else { 0 });
                let found = std::fs::read(&path).unwrap();
                assert_eq!(file_len(found.len()), offset + 10_000);
                assert!(found[memory_len(offset)..] == source);
            }
            let found = std::fs::read(&path).unwrap();
            assert!(found[memory_len(LEN + 11_000)..memory_len(3 * LEN)].iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn a_file_that_was_cut_grows_again() {
        for scratch in places("cut") {
            let path = scratch.path("file");
            let Some(file) = file(&path) else { continue };
            let other = File::options().write(true).open(&path).unwrap();
            for cut in [0, 5, LEN / 2, LEN - 5, LEN - 1] {
                file.write_mapped(0, &bytes(LEN), &part(false)).unwrap();
                other.set_len(cut).unwrap();
                assert_eq!(file.write_mapped(0, &bytes(LEN), &part(false)).unwrap(), 0);
                assert!(std::fs::read(&path).unwrap() == bytes(LEN), "cut to {cut}");
            }
        }
    }

    /// No signal ends this process, and no byte is lost that nobody cuts off.
    #[test]
    fn a_file_may_be_cut_at_any_moment() {
        for scratch in places("race") {
            let path = scratch.path("file");
            let Some(file) = file(&path) else { continue };
            let other = File::options().write(true).open(&path).unwrap();
            let ends = AtomicBool::new(false);
            let mapped = std::thread::scope(|scope| {
                scope.spawn(|| {
                    for cut in (0..LEN).step_by(997).cycle() {
                        other.set_len(cut).unwrap();
                        other.set_len(LEN).unwrap();
                        if ends.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                });
                let write = |_| file.write_mapped(1, &bytes(LEN - 1), &part(true)).unwrap();
                let mapped: u64 = (0..100).map(write).sum();
                ends.store(true, Ordering::Relaxed);
                mapped
            });
            println!("{}: {mapped} bytes mapped", path.display());
            file.write_mapped(0, &bytes(LEN), &part(false)).unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes(LEN));
        }
    }

    /// A store by itself would change no time in memory, nor a page that it has dirtied before.
    #[test]
    fn time_of_modification_is_that_of_the_last_store() {
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for scratch in places("times") {
            let path = scratch.path("file");
            let Some(file) = file(&path) else { continue };
            let other = File::options().write(true).open(&path).unwrap();
            for _ in 0..2 {
                other.set_modified(old).unwrap();
                assert_eq!(file.write_mapped(0, &bytes(LEN), &part(false)).unwrap(), LEN);
                let modified = other.metadata().unwrap().modified().unwrap();
                assert!(modified > old + Duration::from_secs(1_000_000));
            }
        }
    }

    /// Otherwise each of its pages would be read before it is overwritten.
    #[test]
    fn what_is_not_in_the_page_cache_is_written_plainly() {
        for scratch in places("cold") {
            let path = scratch.path("file");
            let Some(file) = file(&path) else { continue };
            let other = File::options().read(true).write(true).open(&path).unwrap();
            other.sync_all().unwrap();
            rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            let mapped = file.write_mapped(0, &bytes(LEN), &part(false)).unwrap();
            assert_eq!(mapped, if file.capabilities().in_memory { LEN } else { 0 });
            assert_eq!(file.write_mapped(0, &bytes(LEN), &part(false)).unwrap(), LEN);
            assert!(std::fs::read(&path).unwrap() == bytes(LEN));
        }
    }

    #[test]
    fn a_mapping_is_given_up_after_its_bytes_and_at_the_close() {
        for scratch in places("bound") {
            let path = scratch.path("file");
            if file(&path).is_none() {
                continue;
            }
            let file = super::super::PosixFile::open(&path, BOTH).unwrap();
            let maps = || {
                let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
                maps.lines().filter(|line| line.contains(path.to_str().unwrap())).count()
            };
            file.write_mapped(0, &bytes(LEN), &part(false)).unwrap();
            let first = file.mapped.kept.lock().unwrap().clone().unwrap();
            file.write_mapped(9, &bytes(9), &part(false)).unwrap();
            assert_eq!((maps(), first.stored.load(Ordering::Relaxed)), (1, LEN + 9));
            first.stored.store(STORED_BYTES_MAX - 8, Ordering::Relaxed);
            file.write_mapped(9, &bytes(9), &part(false)).unwrap();
            drop(first);
            assert_eq!(maps(), 1);
            file.close().unwrap();
            assert_eq!(maps(), 0);
        }
    }

    #[test]
    fn who_may_only_write_writes_plainly() {
        for scratch in places("plain") {
            let path = scratch.path("file");
            if file(&path).is_none() {
                continue;
            }
            let file = Posix.open(&path, OpenMode { read: false, ..BOTH }).unwrap();
            assert!(!file.capabilities().mapped_writes);
            assert_eq!(file.write_mapped(0, &bytes(LEN), &part(true)).unwrap(), 0);
            assert!(std::fs::read(&path).unwrap() == bytes(LEN));
        }
    }
}
