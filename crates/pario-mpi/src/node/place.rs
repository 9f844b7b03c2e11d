//! Who a rank is, and where it keeps memory for the others: what ranks exchange first.

use std::fs::File;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use pario::comm::Affinity;
use pario::{Error, ErrorClass, Result};

use super::doorbells;
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
    pub(super) doorbell: i32,
    pub(super) memory: u16,
    /// Whether it carries tasks on while its program waits inside MPI; a number that is not zero.
    pub(crate) goes_on: u8,
    /// Whether it passes its calls on to the MPI library's own MPI-IO; a number that is not zero.
    passes_on: u8,
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
            doorbell: doorbells::descriptor(),
            memory: u16::from(memory.level()),
            goes_on: 0,
            passes_on: 0,
            affinity: Affinity::of_this_thread(),
        }
    }

    /// A rank that passes its calls on, and shares nothing.
    pub(crate) fn of_one_that_passes_on() -> Place {
        Place { passes_on: 1, ..Place::default() }
    }

    /// How much of its node the rank wants to use: a [`NodeMemory::level`].
    pub(crate) fn level(&self) -> u32 {
        self.memory.into()
    }
}

/// An error where some ranks pass their calls on and others do not.
///
/// # Errors
/// `NotSame` with the ranks that differ from rank 0; the same on all ranks.
pub(crate) fn same_choice(places: &[Place]) -> Result<()> {
    let first = places.first().is_some_and(|first| first.passes_on != 0);
    let others = (0u32..).zip(places).filter(|(_, place)| (place.passes_on != 0) != first);
    let others: Vec<String> = others.map(|(rank, _)| rank.to_string()).collect();
    let Some(one) = others.first() else { return Ok(()) };
    let more = match others.len() - 1 {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let (set, not) = match first {
        true => ("rank 0".to_owned(), format!("rank {one}{more}")),
        false => (format!("rank {one}{more}"), "rank 0".to_owned()),
    };
    let text = format!(
        "open: PARIO_DISABLE is set on {set} and not on {not}; set it on all ranks or on none"
    );
    Err(Error::new(ErrorClass::NotSame, text))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(passing_on: &[bool]) -> Result<()> {
        let served = Place::default();
        let place = |&passes| if passes { Place::of_one_that_passes_on() } else { served };
        same_choice(&passing_on.iter().map(place).collect::<Vec<_>>())
    }

    #[test]
    fn ranks_that_choose_alike_go_on() {
        for alike in [&[][..], &[false], &[true], &[false; 3], &[true; 3]] {
            assert_eq!(choice(alike), Ok(()), "{alike:?}");
        }
    }

    #[test]
    fn ranks_that_differ_are_named() {
        let texts = [
            (&[true, false][..], "is set on rank 0 and not on rank 1;"),
            (&[false, true], "is set on rank 1 and not on rank 0;"),
            (&[false, false, true, true], "is set on rank 2 and 1 more and not on rank 0;"),
            (&[true, false, true, false, false], "is set on rank 0 and not on rank 1 and 2 more;"),
        ];
        for (passing_on, text) in texts {
            let error = choice(passing_on).unwrap_err();
            assert_eq!(error.class(), ErrorClass::NotSame);
            assert!(error.text().contains(text), "{passing_on:?}: {error}");
        }
    }
}
