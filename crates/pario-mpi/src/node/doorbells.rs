//! The doorbells of the processes of a node.
//!
//! Each process has one doorbell for all its communicators, since a call on one of them may wait
//! for messages of another. It is in anonymous memory of its own (`memfd`), which other processes
//! of the node map once and keep.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};

use memmap2::MmapRaw;
use rustix::fs::MemfdFlags;

use super::doorbell::Doorbell;
use super::found;
use super::place::{Place, nonce};

/// What the system calls the memory of a doorbell.
const NAME: &str = "pario-doorbell";

/// The doorbell of this process, with the file that others map.
fn own_file() -> &'static (Option<File>, &'static Doorbell) {
    static OWN: OnceLock<(Option<File>, &'static Doorbell)> = OnceLock::new();
    OWN.get_or_init(|| match make() {
        Some((file, doorbell)) => (Some(file), doorbell),
        // No other process can ring it; sleeps have a time limit.
        None => (None, Box::leak(Box::default())),
    })
}

fn make() -> Option<(File, &'static Doorbell)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create(NAME, flags).ok()?);
    file.set_len(u64::try_from(size_of::<Doorbell>()).ok()?).ok()?;
    found::seal(&file)?;
    let doorbell = map(&file)?;
    doorbell.nonce.store(nonce(), Ordering::SeqCst);
    Some((file, doorbell))
}

/// Maps a doorbell for good.
fn map(file: &File) -> Option<&'static Doorbell> {
    let mapping = MmapRaw::map_raw(file).ok().filter(|map| map.len() >= size_of::<Doorbell>())?;
    let place = Box::leak(Box::new(mapping)).as_mut_ptr().cast::<Doorbell>();
    // SAFETY: the mapping is aligned to a page, long enough and never undone; zeroed memory is a
    // doorbell, and all processes use it as the atomic numbers that it is made of.
    Some(unsafe { &*place })
}

/// The doorbell of this process.
pub(crate) fn own() -> &'static Doorbell {
    own_file().1
}

/// The descriptor of its file, for others; below zero if there is none.
pub(super) fn descriptor() -> i32 {
    own_file().0.as_ref().map_or(-1, File::as_raw_fd)
}

/// The doorbell of another process of this node, if it can be mapped.
pub(super) fn of(place: &Place) -> Option<&'static Doorbell> {
    static KNOWN: Mutex<Option<HashMap<(i32, u64), &'static Doorbell>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let key = (place.process, place.nonce);
    if let Some(doorbell) = known.get(&key) {
        return Some(doorbell);
    }
    let doorbell = map(&found::open(place, (place.doorbell, NAME), size_of::<Doorbell>())?)?;
    Some(*known.entry(key).or_insert(doorbell))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use pario_testkit::watchdog::Watchdog;

    use super::*;
    use crate::environment::NodeMemory;

    const LONG: Duration = Duration::from_secs(3600);

    /// A file that is no doorbell.
    fn tempfile() -> File {
        let file = File::from(rustix::fs::memfd_create("other", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(3).unwrap();
        file
    }

    #[test]
    fn a_ring_between_listening_and_sleeping_is_not_lost() {
        let doorbell = Doorbell::default();
        let listening = doorbell.listen();
        doorbell.ring();
        listening.sleep(LONG);
        drop(listening);
        doorbell.ring();
        assert_eq!(doorbell.rings.load(Ordering::SeqCst), 1, "nobody listened to the second ring");
    }

    /// Two threads pass a number to and fro; a lost ring would leave both asleep for an hour.
    #[test]
    fn a_rank_that_sleeps_is_woken() {
        let _watchdog = Watchdog::new("a_rank_that_sleeps_is_woken");
        let (doorbells, turn) = ([Doorbell::default(), Doorbell::default()], AtomicU64::new(0));
        std::thread::scope(|scope| {
            for own in 0..2u64 {
                let (doorbells, turn) = (&doorbells, &turn);
                scope.spawn(move || {
                    let (doorbell, other) =
                        (&doorbells[own as usize], &doorbells[1 - own as usize]);
                    for round in 0..20_000u64 {
                        while turn.load(Ordering::Relaxed) != 2 * round + own {
                            let listening = doorbell.listen();
                            if turn.load(Ordering::Relaxed) != 2 * round + own {
                                listening.sleep(LONG);
                            }
                        }
                        turn.store(2 * round + own + 1, Ordering::Relaxed);
                        other.ring();
                    }
                });
            }
        });
        assert_eq!(turn.into_inner(), 40_000);
    }

    #[test]
    fn a_doorbell_is_found_by_the_place_of_its_process_only() {
        let mut place = Place::of_this_process(None, NodeMemory::Segment);
        let other = of(&place).unwrap();
        let listening = own().listen();
        other.ring();
        listening.sleep(LONG);
        place.nonce ^= 1;
        assert!(of(&place).is_none(), "another process has that number now");
        place.doorbell = -1;
        assert!(of(&place).is_none());
        let file = tempfile();
        place.doorbell = file.as_raw_fd();
        assert!(of(&place).is_none(), "another file has that descriptor now");
        assert_eq!(file.metadata().unwrap().len(), 3);
    }
}
