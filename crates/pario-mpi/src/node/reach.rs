//! Whether the ranks of a node can use each other's memory.
//!
//! The system lets a process read and write another one of the same user, except where a policy
//! (Yama) allows that to ancestors only, or a container forbids it. So every rank tries every other
//! rank of its node, once in the life of both. Where that fails, each allows it to the descendants
//! of the process that started it, which on a node usually is one and the same for all ranks, and
//! all try again.
//!
//! A process that has failed says so from then on, and nobody tries again: at once, or later, when
//! the system no longer permits what it had permitted.

use std::collections::HashSet;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pario::Result;
use pario::comm::{ProcessMemory, RemoteRun};
use rustix::process::{PTracer, getppid, set_ptracer};

use super::place::Place;

/// Whether this process has failed with another one.
static FAILED: AtomicBool = AtomicBool::new(false);
/// Processes whose memory was used with success.
static REACHED: Mutex<Option<HashSet<(i32, u64)>>> = Mutex::new(None);

pub(super) fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Does not try again in this process.
pub(super) fn give_up() {
    FAILED.store(true, Ordering::Relaxed);
}

/// The processes of one node, by rank; `None` for ranks elsewhere.
pub(super) fn processes(places: &[Place], host: u64) -> ProcessMemory {
    let process = |place: &Place| match place.host == host {
        true => u32::try_from(place.process).ok(),
        false => None,
    };
    ProcessMemory::new(places.iter().map(process).collect())
}

/// Whether the memory of all other ranks of a node can be used.
pub(super) fn all(memory: &ProcessMemory, places: &[Place], own: u32) -> bool {
    let mut reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    let reached = reached.get_or_insert_default();
    let mut others = (0..).zip(places).filter(|&(rank, _)| rank != own && memory.reaches(rank));
    others.all(|(rank, place)| {
        let key = (place.process, place.nonce);
        reached.contains(&key) || attempt(memory, rank, place).is_ok() && reached.insert(key)
    })
}

/// Reads a word of another rank and writes it.
fn attempt(memory: &ProcessMemory, rank: u32, place: &Place) -> Result<()> {
    let mut word = [0; 8];
    let run = RemoteRun { address: usize::try_from(place.word).unwrap_or(0), len: word.len() };
    memory.read(rank, &[run], &mut [IoSliceMut::new(&mut word)])?;
    if word != place.nonce.to_ne_bytes() {
        return Err(super::ring::broken("another process than it was said to be"));
    }
    // SAFETY: the word is there for this purpose, and what is written is what it holds.
    unsafe { memory.write(rank, &[run], &[IoSlice::new(&word)]) }
}

/// Allows the use of this process's memory to the descendants of the one that started it.
pub(super) fn allow() {
    // Where there is no such policy, this fails and changes nothing.
    let _ = getppid().map(|parent| set_ptracer(PTracer::ProcessID(parent)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::NodeMemory;

    #[test]
    fn a_process_is_reached_if_it_is_the_one_that_was_meant() {
        let own = Place::of_this_process(None, NodeMemory::Process);
        let memory = processes(&[own, own], own.host);
        assert!(memory.reaches(1) && attempt(&memory, 1, &own).is_ok());
        let other = Place { nonce: own.nonce ^ 1, ..own };
        assert!(attempt(&memory, 1, &other).is_err());
        assert!(!all(&memory, &[own, other], 0));
        assert!(attempt(&memory, 1, &Place { word: 8, ..own }).is_err());
        let elsewhere = Place { host: own.host ^ 1, ..own };
        assert!(!processes(&[own, elsewhere], own.host).reaches(1));
    }
}
