//! Memory that the ranks of a communicator on one node share.
//!
//! The first rank of the node makes it (`memfd`), the others open it through `/proc/PID/fd/N`; then
//! all tell each other whether that went well, and the descriptors are closed. Nothing has a name
//! in a file system, and nothing is left behind, however a rank ends.
//!
//! | part | what it is |
//! | --- | --- |
//! | lines | the shared file pointer, then the gate for writes ([`GateLine`]) |
//! | departures | for each rank of the node, whether it has left |
//! | controls | for each reader and each writer the numbers of their ring |
//! | rings | their bytes |
//! | windows | memory in common for windows of the file ([`CommonMemory`]) |
//!
//! The lines are used only where all ranks are on one node.
//!
//! Windows that are used at length get large pages (`mapping`): 16 processes would take thousands
//! of faults each otherwise.
//!
//! Cost: a page is there only once it was touched; rings take at most 64 MiB of a node together for
//! up to 128 ranks, windows 16 MiB.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use pario::comm::{CommonMemory, GateLine, Keeper};
use rustix::fs::MemfdFlags;
use rustix::process::{Resource, getrlimit};

use super::mapping::{LARGE_PAGE_BYTES, Mapping};
use super::place::Place;
use super::ring::{Control, Ring};

/// Bytes of all rings of a node, about; each has at least a page and at most [`RING_BYTES_MAX`].
const RINGS_BYTES: usize = 64 << 20;
const RING_BYTES_MAX: usize = 64 << 10;
const PAGE_BYTES: usize = 4096;
/// Bytes for windows: as many as are written at a time.
const WINDOWS_BYTES: usize = 16 << 20;

/// Where the parts of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    ranks: usize,
    members: usize,
    departures: usize,
    controls: usize,
    rings: usize,
    ring_bytes: usize,
    windows: usize,
    bytes: usize,
}

impl Layout {
    /// Of a communicator of so many ranks, `members` of them on this node.
    fn new(ranks: usize, members: usize) -> Layout {
        let pairs = members * members;
        let share = (RINGS_BYTES / pairs).clamp(PAGE_BYTES, RING_BYTES_MAX);
        // The greatest power of two that is not greater.
        let ring_bytes = 1 << share.ilog2();
        let departures = (2 + ranks) * size_of::<GateLine>();
        let departures_end = departures + members * size_of::<AtomicU32>();
        let controls = departures_end.next_multiple_of(align_of::<Control>());
        let rings = (controls + pairs * size_of::<Control>()).next_multiple_of(PAGE_BYTES);
        // What comes before the bytes of windows, which begin with a large page.
        let head = CommonMemory::bytes(ranks, 0);
        let rings_end = rings + pairs * ring_bytes;
        let windows = (rings_end + head).next_multiple_of(LARGE_PAGE_BYTES) - head;
        let bytes = windows + CommonMemory::bytes(ranks, WINDOWS_BYTES);
        Layout { ranks, members, departures, controls, rings, ring_bytes, windows, bytes }
    }
}

/// The shared memory of a communicator, as one rank sees it.
pub(crate) struct Segment {
    mapping: Mapping,
    layout: Layout,
}

impl Segment {
    /// The memory itself, still without length, on a rank that may be the first of its node.
    pub(crate) fn file() -> Option<File> {
        Some(File::from(rustix::fs::memfd_create("pario", MemfdFlags::CLOEXEC).ok()?))
    }

    /// Maps the memory that the first of `members` ranks on this node has made, of a communicator
    /// with so many `ranks`; `own` is the file on that rank.
    pub(crate) fn map(
        own: Option<&File>,
        first: &Place,
        (ranks, members): (usize, usize),
    ) -> Option<Segment> {
        let layout = Layout::new(ranks, members);
        let bytes = u64::try_from(layout.bytes).ok()?;
        // Beyond this limit the system would send a signal.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
            return None;
        }
        let opened = match own {
            Some(_) => None,
            None => Some(first.open(first.segment)?),
        };
        let file = own.or(opened.as_ref())?;
        // Each rank gives it the same length, so that none has to wait for another.
        file.set_len(bytes).ok()?;
        Some(Segment { mapping: Mapping::new(file, layout.bytes)?, layout })
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
            std::slice::from_raw_parts(first, 1 + self.layout.ranks)
        }
    }

    /// Whether a member has left, as a number that is not zero.
    pub(super) fn departure(&self, member: usize) -> &AtomicU32 {
        assert!(member < self.layout.members, "a member of this node");
        // SAFETY: as above; `Layout::new` has an aligned number for each member.
        unsafe {
            let first = self.mapping.as_ptr().add(self.layout.departures);
            &*first.cast::<AtomicU32>().add(member)
        }
    }

    /// The memory in common of some ranks.
    pub(super) fn windows(self: &Arc<Self>, reaches: Vec<bool>) -> CommonMemory {
        assert!(reaches.len() == self.layout.ranks, "all ranks of the communicator");
        let start = self.mapping.as_mut_ptr().wrapping_add(self.layout.windows);
        // SAFETY: `Layout::new` has room for it, from the beginning of a page on, which nothing
        // else uses; the segment keeps it mapped, and was zero when it was made.
        unsafe { CommonMemory::new(start, WINDOWS_BYTES, reaches, self.clone()) }
    }

    /// The ring from one member to another. Only one thread of `from` writes at a time, and only
    /// one of `to` reads.
    pub(super) fn ring(&self, from: usize, to: usize) -> Ring<'_> {
        let Layout { members, controls, rings, ring_bytes, .. } = self.layout;
        assert!(from < members && to < members, "members of this node");
        // All that a reader looks at is in one place.
        let pair = to * members + from;
        // SAFETY: as above; `Layout::new` has an aligned control and `ring_bytes` bytes, a power of
        // two, for each pair, which no other pair uses.
        unsafe {
            let control = self.mapping.as_ptr().add(controls).cast::<Control>().add(pair);
            let bytes = self.mapping.as_mut_ptr().add(rings + pair * ring_bytes);
            Ring::new(&*control, bytes, ring_bytes)
        }
    }
}

impl Keeper for Segment {
    fn settle(&self) {
        let end = self.layout.bytes;
        // Without them, it is only slower.
        let _ = self.mapping.use_large_pages(end - WINDOWS_BYTES..end);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::environment::NodeMemory;

    #[test]
    fn another_mapping_sees_the_same_numbers() {
        let file = Segment::file().unwrap();
        let place = Place::of_this_process(Some(&file), NodeMemory::Process);
        let own = Segment::map(Some(&file), &place, (3, 2)).unwrap();
        let other = Segment::map(None, &place, (3, 2)).unwrap();
        own.pointer().store(7, Ordering::SeqCst);
        assert_eq!(other.pointer().load(Ordering::SeqCst), 7);
        assert_eq!(other.gate().len(), 4);
        own.departure(1).store(1, Ordering::SeqCst);
        assert_eq!(other.departure(0).load(Ordering::SeqCst), 0);
        assert_eq!(other.departure(1).load(Ordering::SeqCst), 1);
        assert_eq!(own.ring(0, 1).write([&[1, 2], &[3]]).unwrap(), 3);
        assert_eq!(other.ring(1, 0).read().unwrap().len(), 0);
        let mut taken = Vec::new();
        other.ring(0, 1).read().unwrap().take(3, &mut taken);
        assert_eq!(taken, [1, 2, 3]);
        let nothing = Place::of_this_process(None, NodeMemory::Process);
        assert!(Segment::map(None, &nothing, (3, 2)).is_none());
    }

    #[test]
    fn parts_do_not_overlap_and_rings_stay_bounded() {
        for members in [1, 2, 3, 16, 17, 100, 128, 300] {
            let layout = Layout::new(members + 5, members);
            let pairs = members * members;
            assert!(layout.departures >= (2 + layout.ranks) * size_of::<GateLine>());
            assert!(layout.controls >= layout.departures + 4 * members);
            assert_eq!(layout.controls % align_of::<Control>(), 0);
            assert!(layout.rings >= layout.controls + pairs * size_of::<Control>());
            assert!(layout.ring_bytes.is_power_of_two() && layout.ring_bytes >= PAGE_BYTES);
            assert!(members > 128 || pairs * layout.ring_bytes <= RINGS_BYTES);
            assert!(layout.windows >= layout.rings + pairs * layout.ring_bytes);
            assert_eq!(layout.windows % PAGE_BYTES, 0);
            let head = CommonMemory::bytes(members + 5, 0);
            assert_eq!((layout.windows + head) % LARGE_PAGE_BYTES, 0);
            let common = CommonMemory::bytes(members + 5, WINDOWS_BYTES);
            assert_eq!(layout.bytes, layout.windows + common);
        }
    }
}
