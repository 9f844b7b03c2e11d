//! Who a rank is, and where it keeps memory for the others: what ranks exchange first.

use std::fs::File;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use pario::comm::Affinity;

use super::bell;
use crate::environment::NodeMemory;

/// What a rank sends to all others when a communicator is made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// A number for the node.
    pub(crate) host: u64,
    /// A number that no other process has.
    pub(super) nonce: u64,
    pub(super) process: i32,
    /// Descriptors in that process; below zero if there is none.
    pub(super) segment: i32,
    pub(super) bell: i32,
    pub(super) memory: u16,
    /// Whether it carries tasks on while its program waits inside MPI; a number that is not zero.
    pub(crate) goes_on: u16,
    /// The cores that it may use.
    pub(crate) affinity: Affinity,
}

impl Place {
    /// This process with a segment that it has made, and what it wants of its node.
    pub(crate) fn of_this_process(segment: Option<&File>, memory: NodeMemory) -> Place {
        Place {
            host: host(),
            nonce: nonce(),
            process: i32::try_from(std::process::id()).unwrap_or(0),
            segment: segment.map_or(-1, File::as_raw_fd),
            bell: bell::descriptor(),
            memory: u16::from(memory.level()),
            goes_on: 0,
            affinity: Affinity::of_this_thread(),
        }
    }

    /// How much of its node the rank wants to use: a [`NodeMemory::level`].
    pub(crate) fn level(&self) -> u32 {
        self.memory.into()
    }
}

/// The number that no other process has.
pub(super) fn nonce() -> u64 {
    static NONCE: OnceLock<u64> = OnceLock::new();
    *NONCE.get_or_init(|| RandomState::new().build_hasher().finish())
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

/// Nodes numbered from 0 in the order of their first ranks.
pub(crate) fn nodes(places: &[Place]) -> Vec<u32> {
    let mut hosts: Vec<u64> = Vec::new();
    let mut number = |host: u64| match hosts.iter().position(|&known| known == host) {
        Some(index) => index,
        None => {
            hosts.push(host);
            hosts.len() - 1
        }
    };
    places.iter().map(|place| u32::try_from(number(place.host)).unwrap_or(u32::MAX)).collect()
}
