//! Memory that the ranks of a communicator on one node share.
//!
//! Rank 0 makes it (`memfd`), the others open it through `/proc/PID/fd/N`; then all tell each other
//! whether that went well, and the descriptors are closed. Nothing has a name in a file system,
//! and nothing is left behind, however a rank ends.
//!
//! Its lines are numbers on cache lines of their own: first the shared file pointer, then the gate
//! for writes ([`GateLine`]).

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use memmap2::MmapRaw;
use pario::comm::GateLine;
use rustix::fs::MemfdFlags;

/// Where a rank runs, and where it keeps memory for the others.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// A number for the node.
    pub(crate) host: u64,
    process: i32,
    descriptor: i32,
}

impl Place {
    pub(crate) fn of_this_process(segment: Option<&File>) -> Place {
        let process = i32::try_from(std::process::id()).unwrap_or(0);
        let descriptor = segment.map_or(-1, File::as_raw_fd);
        Place { host: host(), process, descriptor }
    }
}

/// A number that processes share if they can map each other's memory: those of one kernel, one
/// host name and one `/dev/shm`.
fn host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| {
        use std::os::unix::fs::MetadataExt;
        let read = |path| std::fs::read(path).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        read("/proc/sys/kernel/hostname").hash(&mut hasher);
        read("/proc/sys/kernel/random/boot_id").hash(&mut hasher);
        std::fs::metadata("/dev/shm").map_or(0, |metadata| metadata.dev()).hash(&mut hasher);
        hasher.finish()
    })
}

/// The shared lines of a communicator, as one rank sees them.
pub(crate) struct SharedLines {
    mapping: MmapRaw,
    ranks: usize,
}

impl SharedLines {
    /// Lines of the pointer, of rewriters and of each rank.
    fn count(ranks: usize) -> usize {
        2 + ranks
    }

    /// The memory itself, on the rank that makes it.
    pub(crate) fn segment(ranks: usize) -> Option<File> {
        let file = File::from(rustix::fs::memfd_create("pario", MemfdFlags::CLOEXEC).ok()?);
        let bytes = SharedLines::count(ranks) * size_of::<GateLine>();
        file.set_len(u64::try_from(bytes).ok()?).ok()?;
        Some(file)
    }

    /// Maps the memory of rank 0; `own` is the file on that rank.
    pub(crate) fn map(own: Option<&File>, owner: Place, ranks: usize) -> Option<SharedLines> {
        let mapping = match own {
            Some(file) => MmapRaw::map_raw(file),
            None if owner.descriptor < 0 => return None,
            None => {
                let path = format!("/proc/{}/fd/{}", owner.process, owner.descriptor);
                MmapRaw::map_raw(&File::options().read(true).write(true).open(path).ok()?)
            }
        };
        let bytes = SharedLines::count(ranks) * size_of::<GateLine>();
        mapping
            .ok()
            .filter(|mapping| mapping.len() >= bytes)
            .map(|mapping| SharedLines { mapping, ranks })
    }

    /// The shared file pointer.
    pub(crate) fn pointer(&self) -> &AtomicU64 {
        // SAFETY: the mapping is aligned to a page, long enough, and lives as long as `self`; all
        // processes use its first line as an atomic number only.
        unsafe { &*self.mapping.as_ptr().cast::<AtomicU64>() }
    }

    /// The gate for writes.
    pub(crate) fn gate(&self) -> &[GateLine] {
        // SAFETY: as above for the lines behind the first; zeroed memory is a valid line.
        unsafe {
            let first = self.mapping.as_ptr().cast::<GateLine>().add(1);
            std::slice::from_raw_parts(first, SharedLines::count(self.ranks) - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn another_mapping_sees_the_same_numbers() {
        let segment = SharedLines::segment(3).unwrap();
        let place = Place::of_this_process(Some(&segment));
        let own = SharedLines::map(Some(&segment), place, 3).unwrap();
        let other = SharedLines::map(None, place, 3).unwrap();
        own.pointer().store(7, Ordering::SeqCst);
        assert_eq!(other.pointer().load(Ordering::SeqCst), 7);
        assert_eq!(other.gate().len(), 4);
        assert!(SharedLines::map(None, Place::of_this_process(None), 3).is_none());
    }
}
