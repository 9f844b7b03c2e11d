//! Memory that the ranks of a communicator on one node share.
//!
//! The first rank of the node makes it (`memfd`), sets its length and seals it before others learn
//! of it. They open it through `/proc/PID/fd/N` once it is ready, and prove that it is the segment
//! before they map it (`found`). Then all ranks exchange whether that went well, and the
//! descriptors are closed. Nothing has a name in a file system, and nothing is left, however
//! a rank ends.
//!
//! | part | what it is |
//! | --- | --- |
//! | head | the owner's nonce, and whether the transport has failed ([`Head`]) |
//! | pointers | the shared file pointer, of even turns and of odd ones (`kept`) |
//! | members | for each rank of the node, which turn it has left, or all |
//! | controls | for each reader and each writer the counters of their ring |
//! | rings | their bytes |
//! | region | memory for pario to use ([`Region`]) |
//!
//! Pointer and region are used only where all ranks are on one node.
//!
//! Windows get huge pages (`mapping`) when a call first uses all slots: without, 16 processes would
//! take thousands of page faults each.
//!
//! Cost: a page takes memory only once it was touched. All rings of a node together take at most
//! 64 MiB for up to 128 ranks, windows 16 MiB.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use pario::comm::{Keeper, Region};
use rustix::fs::MemfdFlags;
use rustix::process::{Resource, getrlimit};

use super::found;
use super::mapping::{HUGE_PAGE_BYTES, Mapping};
use super::place::Place;
use super::ring::{Control, Ring};
use super::shared_bytes::SharedBytes;
use crate::failure::{TEXT_BYTES_MAX, short};

/// What the system calls the memory.
const NAME: &str = "pario";
/// Bytes of all rings of a node, about; each has at least a page and at most [`RING_BYTES_MAX`].
const RINGS_BYTES: usize = 64 << 20;
const RING_BYTES_MAX: usize = 64 << 10;
const PAGE_BYTES: usize = 4096;
/// Bytes of the region: as many as are written at a time.
const REGION_BYTES: usize = 16 << 20;

/// What a segment begins with. Zeroed memory is one.
#[repr(C, align(64))]
struct Head {
    /// That of the process that has made the segment.
    nonce: AtomicU64,
    /// Whether the transport has failed: 0, or how far a rank is in reporting it.
    failed: AtomicU32,
    rank: AtomicU32,
    text_bytes: AtomicU32,
    text: [AtomicU8; TEXT_BYTES_MAX],
}

const TELLING: u32 = 1;
const TOLD: u32 = 2;

/// A number on a cache line of its own. Zeroed memory is one.
#[repr(C, align(64))]
struct LineNumber(AtomicU64);

/// What a rank of the node publishes. Zeroed memory is one.
#[derive(Default)]
#[repr(C, align(64))]
struct Member {
    departed: AtomicU32,
}

/// What a rank has left that is gone: all turns.
pub(super) const GONE: u32 = u32::MAX;
/// Shared file pointers: one in use, and one that is made ready for the next turn.
const POINTERS: usize = 2;

/// Where the parts of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    ranks: usize,
    members: usize,
    pointer: usize,
    states: usize,
    controls: usize,
    rings: usize,
    ring_bytes: usize,
    region: usize,
    bytes: usize,
}

impl Layout {
    /// Of a communicator of `ranks` ranks, `members` of them on this node.
    fn new(ranks: usize, members: usize) -> Layout {
        let pairs = members * members;
        let share = (RINGS_BYTES / pairs).clamp(PAGE_BYTES, RING_BYTES_MAX);
        // The greatest power of two that is not greater.
        let ring_bytes = 1 << share.ilog2();
        let pointer = size_of::<Head>();
        let states = pointer + POINTERS * size_of::<LineNumber>();
        let states_end = states + members * size_of::<Member>();
        let controls = states_end.next_multiple_of(align_of::<Control>());
        let rings = (controls + pairs * size_of::<Control>()).next_multiple_of(PAGE_BYTES);
        // What comes before the bytes of the region, which begin with a huge page.
        let head = Region::size(ranks, 0);
        let rings_end = rings + pairs * ring_bytes;
        let region = (rings_end + head).next_multiple_of(HUGE_PAGE_BYTES) - head;
        let bytes = region + Region::size(ranks, REGION_BYTES);
        Layout { ranks, members, pointer, states, controls, rings, ring_bytes, region, bytes }
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
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        Some(File::from(rustix::fs::memfd_create(NAME, flags).ok()?))
    }

    /// Gives the memory of this process its length, for `members` ranks on this node of a
    /// communicator of `ranks` ranks, and maps it.
    pub(crate) fn make(
        own: &File,
        nonce: u64,
        (ranks, members): (usize, usize),
    ) -> Option<Segment> {
        let layout = Layout::new(ranks, members);
        let bytes = u64::try_from(layout.bytes).ok()?;
        // Beyond this limit the system would send a signal.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
            return None;
        }
        own.set_len(bytes).ok()?;
        found::seal(own)?;
        let segment = Segment { mapping: Mapping::new(own, layout.bytes)?, layout };
        segment.head().nonce.store(nonce, Ordering::SeqCst);
        Some(segment)
    }

    /// Maps the memory that another rank of the node has made ready, if it is that.
    pub(crate) fn find(first: &Place, (ranks, members): (usize, usize)) -> Option<Segment> {
        let layout = Layout::new(ranks, members);
        let file = found::open(first, (first.segment, NAME), layout.bytes)?;
        Some(Segment { mapping: Mapping::new(&file, layout.bytes)?, layout })
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping is aligned to a page, long enough, and lives as long as `self`; all
        // processes use it as the atomic numbers that it is made of.
        unsafe { &*self.mapping.as_ptr().cast::<Head>() }
    }

    /// Notifies all ranks of the node that the transport has failed, unless one has.
    pub(super) fn tell_failure(&self, rank: u32, text: &str) {
        let (head, text) = (self.head(), short(text));
        let order = Ordering::SeqCst;
        if head.failed.compare_exchange(0, TELLING, order, order).is_err() {
            return;
        }
        head.rank.store(rank, Ordering::Relaxed);
        for (place, byte) in head.text.iter().zip(text.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
        head.text_bytes.store(u32::try_from(text.len()).unwrap_or(0), Ordering::Relaxed);
        head.failed.store(TOLD, order);
    }

    /// Which rank has reported that the transport has failed, and how.
    pub(super) fn failure(&self) -> Option<(u32, String)> {
        let head = self.head();
        if head.failed.load(Ordering::SeqCst) != TOLD {
            return None;
        }
        let len = usize::try_from(head.text_bytes.load(Ordering::Relaxed)).unwrap_or(0);
        let bytes: Vec<u8> =
            head.text.iter().take(len).map(|byte| byte.load(Ordering::Relaxed)).collect();
        let rank = head.rank.load(Ordering::Relaxed);
        Some((rank, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The shared file pointer of a turn.
    pub(crate) fn pointer(&self, turn: u32) -> &AtomicU64 {
        let index = usize::try_from(turn).unwrap_or(0) % POINTERS;
        // SAFETY: as above; `Layout::new` has aligned lines for them, which all processes use as
        // atomic numbers only.
        unsafe {
            let first = self.mapping.as_ptr().add(self.layout.pointer);
            &(*first.cast::<LineNumber>().add(index)).0
        }
    }

    fn member(&self, member: usize) -> &Member {
        assert!(member < self.layout.members, "a member of this node");
        // SAFETY: as above; `Layout::new` has an aligned state for each member.
        unsafe {
            let first = self.mapping.as_ptr().add(self.layout.states);
            &*first.cast::<Member>().add(member)
        }
    }

    /// The last turn that a member has left, or [`GONE`].
    pub(super) fn departure(&self, member: usize) -> &AtomicU32 {
        &self.member(member).departed
    }

    /// The region of all ranks.
    pub(super) fn region(self: &Arc<Self>) -> Region {
        let start = self.mapping.as_mut_ptr().wrapping_add(self.layout.region);
        // SAFETY: `Layout::new` has room for it, aligned, which nothing else uses; the segment
        // keeps it mapped, and was zero when it was made.
        unsafe { Region::new(start, self.layout.ranks, REGION_BYTES, self.clone()) }
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
            Ring::new(&*control, SharedBytes::new(bytes, ring_bytes))
        }
    }
}

impl Keeper for Segment {
    fn prefault(&self) {
        let end = self.layout.bytes;
        // Without them, it is only slower.
        let _ = self.mapping.use_huge_pages(end - REGION_BYTES..end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::nonce;
    use super::*;
    use crate::environment::NodeMemory;

    #[test]
    fn another_mapping_sees_the_same_numbers() {
        let file = Segment::file().unwrap();
        let place = Place::of_this_process(Some(&file), NodeMemory::Segment);
        assert!(Segment::find(&place, (3, 2)).is_none(), "it is not ready yet");
        let own = Segment::make(&file, nonce(), (3, 2)).unwrap();
        let other = Segment::find(&place, (3, 2)).unwrap();
        own.pointer(3).store(7, Ordering::SeqCst);
        let pointers = [0, 1, 2].map(|turn| other.pointer(turn).load(Ordering::SeqCst));
        assert_eq!(pointers, [0, 7, 0]);
        own.departure(1).store(1, Ordering::SeqCst);
        assert_eq!(other.departure(0).load(Ordering::SeqCst), 0);
        assert_eq!(other.departure(1).load(Ordering::SeqCst), 1);
        assert_eq!(own.ring(0, 1).write([&[1, 2], &[3]]).unwrap(), 3);
        assert_eq!(other.ring(1, 0).read().unwrap().len(), 0);
        let mut taken = Vec::new();
        other.ring(0, 1).read().unwrap().take(3, &mut taken);
        assert_eq!(taken, [1, 2, 3]);
        let nothing = Place::of_this_process(None, NodeMemory::Segment);
        assert!(Segment::find(&nothing, (3, 2)).is_none());
    }

    /// Where processes have numbers of their own, a descriptor may be anything.
    #[test]
    fn what_is_not_the_segment_is_not_touched() {
        let bytes = Layout::new(3, 2).bytes as u64;
        let name = std::env::temp_dir().join(format!("pario-segment-{}", std::process::id()));
        let options =
            || File::options().read(true).write(true).create_new(true).open(&name).unwrap();
        let unsealed = File::from(rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC).unwrap());
        let other = Segment::file().unwrap();
        let strangers = Segment::make(&other, nonce() ^ 1, (3, 2)).unwrap();
        for (file, len) in [(options(), bytes + 12345), (unsealed, bytes), (other, bytes)] {
            // A sealed one has its length.
            let _ = file.set_len(len);
            let place = Place::of_this_process(Some(&file), NodeMemory::Segment);
            assert!(Segment::find(&place, (3, 2)).is_none());
            assert_eq!(file.metadata().unwrap().len(), len);
        }
        drop(strangers);
        std::fs::remove_file(&name).unwrap();
    }

    #[test]
    fn a_failure_is_told_once() {
        let file = Segment::file().unwrap();
        let place = Place::of_this_process(Some(&file), NodeMemory::Segment);
        let own = Segment::make(&file, nonce(), (3, 2)).unwrap();
        let other = Segment::find(&place, (3, 2)).unwrap();
        assert!(other.failure().is_none());
        own.tell_failure(2, "it broke");
        other.tell_failure(1, "it broke, too");
        assert_eq!(own.failure(), Some((2, "it broke".to_owned())));
        assert_eq!(other.failure(), own.failure());
    }

    #[test]
    fn parts_do_not_overlap_and_rings_stay_bounded() {
        for members in [1, 2, 3, 16, 17, 100, 128, 300] {
            let layout = Layout::new(members + 5, members);
            let pairs = members * members;
            assert!(layout.states >= layout.pointer + POINTERS * size_of::<LineNumber>());
            assert!(layout.controls >= layout.states + size_of::<Member>() * members);
            assert_eq!(layout.controls % align_of::<Control>(), 0);
            assert!(layout.rings >= layout.controls + pairs * size_of::<Control>());
            assert!(layout.ring_bytes.is_power_of_two() && layout.ring_bytes >= PAGE_BYTES);
            assert!(members > 128 || pairs * layout.ring_bytes <= RINGS_BYTES);
            assert!(layout.region >= layout.rings + pairs * layout.ring_bytes);
            assert_eq!(layout.region % 64, 0);
            let head = Region::size(members + 5, 0);
            assert_eq!((layout.region + head) % HUGE_PAGE_BYTES, 0);
            let common = Region::size(members + 5, REGION_BYTES);
            assert_eq!(layout.bytes, layout.region + common);
        }
    }
}
