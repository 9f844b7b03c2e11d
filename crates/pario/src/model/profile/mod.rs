//! The parameters of a machine, as a readable file.
//!
//! A [`Profile`] says what storage, copies, messages, synchronisation and planning cost, for one
//! host, one transport (threads, or an MPI library) and one file system. `pario calibrate` measures
//! it; [`Profile::built_in`] has defaults by kind of file system, each with a comment that says
//! where its values come from. The format is TOML, units are part of the names.
//!
//! What is loaded was written by somebody: a file that makes no sense (negative, not a number, a
//! larger access that takes less time, another version) is refused with its name, the key and the
//! reason ([`check`](Profile::check)).
//!
//! Cost: a file of at most 64 KiB is parsed once; predictions are interpolations in tables of at
//! most 64 values.

mod check;
mod curve;
mod found;
mod places;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::clock;
use super::presets::{Device, Link};
use crate::error::{Error, ErrorClass, Result};
use crate::number::real;
use crate::own_file;

pub use curve::{Concurrency, Curve, Reuse};
pub(crate) use found::{Found, find};
pub use found::{host, stored};
pub use places::Places;

/// The version of the format that is written and read.
pub const VERSION: u32 = 1;

/// The greatest size of a file.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// The key of the links between nodes.
const NETWORK: &str = "messages.network";

/// The parameters of a machine.
///
/// ```
/// use pario::model::profile::{Access, Pattern, Profile};
/// use pario::model::Direction;
///
/// let profile = Profile::built_in("hdd").expect("there is one for disks");
/// let small = Access { bytes: 4096, pattern: Pattern::Direct, ..Access::default() };
/// let large = Access { bytes: 4 << 20, ..small };
/// // On a disk, a thousand times the bytes take a few times as long.
/// let us = |access| profile.access_us(Direction::Read, access);
/// assert!(us(large) < 10.0 * us(small));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The version of the format: [`VERSION`].
    pub version: u32,
    /// What the parameters are of.
    pub machine: Machine,
    /// System calls that read and write files.
    pub storage: Storage,
    /// Copies in memory.
    pub memory: Memory,
    /// Messages between ranks.
    pub messages: Messages,
    /// Waiting for all ranks.
    pub synchronisation: Synchronisation,
    /// Making plans.
    pub planning: Planning,
    /// Keys whose values were not measured here, and why not.
    #[serde(default)]
    pub defaults: BTreeMap<String, String>,
}

/// What a profile is of; the parts of its file name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name of the host.
    pub host: String,
    /// `threads`, or the MPI library.
    pub transport: String,
    /// The file system, as mount(8) names it.
    pub file_system: String,
    /// Cores of a node that ranks may use.
    pub cores: u32,
}

/// Costs of storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Reads.
    pub read: Accesses,
    /// Writes.
    pub write: Accesses,
}

/// Costs of reads or of writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accesses {
    /// A system call that moves next to nothing.
    pub call_us: f64,
    /// Accesses of windows: in the order of the file, from or to memory that is used again and
    /// again and begins at a page; through the page cache; writes overwrite.
    pub sequential: Curve,
    /// Accesses in the order of the file, from or to the memory of a program: in no cache, and
    /// where malloc(3) puts it. As `sequential` if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contiguous: Option<Curve>,
    /// The same in another order.
    pub scattered: Curve,
    /// As `scattered`, of whole pages of the file. As `scattered` if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aligned: Option<Curve>,
    /// Accesses in the order of the file to a new file; only for writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_file: Option<Curve>,
    /// Scattered accesses without the page cache (`O_DIRECT`), where the file system has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<Curve>,
    /// Time in which a device without a cache does nothing else, before an access that does not
    /// continue the last one. It is part of `scattered` and `direct`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub positioning_us: f64,
    /// All ranks together, each with its own part of one file, in large accesses as `sequential`.
    pub concurrent: Concurrency,
    /// The same as `contiguous`. As `concurrent` if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_contiguous: Option<Concurrency>,
    /// As `concurrent`, through a mapping of the file; only for writes. Not there where nobody has
    /// measured it: then writes are plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<Concurrency>,
    /// The same to a new file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_new_file: Option<Concurrency>,
    /// All ranks together, as `contiguous`, again and again with the same bytes.
    #[serde(default, skip_serializing_if = "Reuse::is_empty")]
    pub reused: Reuse,
}

impl Storage {
    /// What storage costs that is described and has no cache.
    fn of(described: &clock::Storage) -> Storage {
        let device = described.device;
        Storage {
            read: Accesses::of(described, device.read_bytes_per_s),
            write: Accesses::of(described, device.write_bytes_per_s),
        }
    }
}

impl Accesses {
    /// What accesses cost, from the bytes per second of each device.
    fn of(described: &clock::Storage, bytes_per_s: f64) -> Accesses {
        const LENGTHS: [u64; 6] = [4, 512, 4096, 65536, 1 << 20, 16 << 20];
        let clock::Storage { device, link, request_us, region_us, .. } = *described;
        let (way_us, way_bytes_per_s) =
            link.map_or((0.0, f64::INFINITY), |link| (link.latency_us, link.bytes_per_s));
        let bytes_per_s = bytes_per_s.min(way_bytes_per_s) * f64::from(described.servers.max(1));
        let call_us = device.latency_us + request_us + region_us + way_us;
        let us = |bytes: u64, before_us: f64| before_us + real(bytes) / bytes_per_s * 1e6;
        let curve = |before_us: f64| {
            Curve::from_times_us(LENGTHS.map(|bytes| (bytes, us(bytes, before_us))))
        };
        Accesses {
            call_us,
            sequential: curve(call_us),
            contiguous: None,
            scattered: curve(call_us + device.positioning_us),
            aligned: None,
            new_file: None,
            direct: Some(curve(call_us + device.positioning_us)),
            positioning_us: device.positioning_us,
            concurrent: Concurrency { ranks: vec![1], bytes_per_s: vec![bytes_per_s] },
            concurrent_contiguous: None,
            mapped: None,
            mapped_new_file: None,
            reused: Reuse::default(),
        }
    }
}

/// Costs of copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Pieces of this length from the memory of a program to a window, in which they lie apart.
    pub gather: Curve,
    /// The same from a window to the memory of a program.
    pub scatter: Curve,
    /// As `gather`, from pieces in random order. As `gather` if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gather_random: Option<Curve>,
    /// As `scatter`, to pieces in random order. As `scatter` if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scatter_random: Option<Curve>,
    /// All ranks together, in long contiguous copies.
    pub concurrent: Concurrency,
    /// The same, again and again with the same bytes.
    #[serde(default, skip_serializing_if = "Reuse::is_empty")]
    pub reused: Reuse,
}

/// Costs of messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Between ranks of one node.
    pub node: Link,
    /// Between nodes.
    pub network: Link,
}

/// Costs of waiting for all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synchronisation {
    /// A barrier of ranks that have a core each, for each doubling of their number.
    pub barrier_step_us: f64,
    /// A barrier of oversubscribed ranks, for each rank of a core.
    pub oversubscribed_rank_us: f64,
    /// Until a rank runs again that has waited so long that it sleeps.
    #[serde(default)]
    pub wake_us: f64,
}

/// Costs of planning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planning {
    /// A collective call, for each of its ranks.
    pub rank_us: f64,
    /// A collective call of irregular lists, for each piece of a rank.
    pub piece_us: f64,
}

/// How an access meets the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// In the order of the file, with the memory of a window.
    #[default]
    Sequential,
    /// In the order of the file, with the memory of a program.
    Contiguous,
    /// In another order, with the memory of a program.
    Scattered,
    /// The same with whole pages of the file.
    Aligned,
    /// In the order of a file that is new; reads count as sequential.
    NewFile,
    /// Without the page cache; scattered where the file system has no such access.
    Direct,
}

/// One access of storage, as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its length.
    pub bytes: u64,
    /// Its place.
    pub pattern: Pattern,
    /// Ranks that do the same at the same time, this one among them.
    pub ranks: u32,
    /// Bytes of memory and of the file that all of them use, again and again.
    pub working_set: u64,
}

impl Default for Access {
    /// What is in no cache of a processor.
    fn default() -> Access {
        Access { bytes: 0, pattern: Pattern::Sequential, ranks: 1, working_set: u64::MAX }
    }
}

impl Accesses {
    fn curve(&self, pattern: Pattern) -> &Curve {
        match pattern {
            Pattern::Sequential => &self.sequential,
            Pattern::Contiguous => self.contiguous.as_ref().unwrap_or(&self.sequential),
            Pattern::Scattered => &self.scattered,
            Pattern::Aligned => self.aligned.as_ref().unwrap_or(&self.scattered),
            Pattern::NewFile => self.new_file.as_ref().unwrap_or(&self.sequential),
            Pattern::Direct => self.direct.as_ref().unwrap_or(&self.scattered),
        }
    }

    fn concurrency(&self, pattern: Pattern) -> &Concurrency {
        let of_programs = self.concurrent_contiguous.as_ref();
        match pattern {
            Pattern::Contiguous | Pattern::Scattered | Pattern::Aligned => {
                of_programs.unwrap_or(&self.concurrent)
            }
            Pattern::Sequential | Pattern::NewFile | Pattern::Direct => &self.concurrent,
        }
    }

    /// How many times more bytes these ranks write in a time through a mapping than without.
    pub(crate) fn mapped_gain(&self, ranks: u32) -> Option<f64> {
        Some(self.mapped.as_ref()?.together(ranks) / self.concurrent.together(ranks))
    }

    /// The same in a new file, in windows of this length.
    pub(crate) fn mapped_new_gain(&self, ranks: u32, bytes: u64) -> Option<f64> {
        let mapped = self.mapped_new_file.as_ref()?.together(ranks);
        let longer = self.curve(Pattern::NewFile).us(bytes) / self.sequential.us(bytes);
        Some(mapped / self.concurrent.together(ranks) * longer)
    }

    /// Calls cost what they cost; the bytes of all ranks share what the storage can move.
    fn access_us(&self, access: Access) -> f64 {
        let alone_us = self.curve(access.pattern).us(access.bytes);
        let bytes_us = (alone_us - self.call_us).max(0.0);
        let far_us = bytes_us * self.concurrency(access.pattern).slowdown(access.ranks);
        let saved_us = self.reused.saved_us(real(access.bytes), access.working_set, far_us);
        alone_us.min(self.call_us) + far_us - saved_us
    }
}

const BUILT_IN: [(&str, &str); 5] = [
    ("tmpfs", include_str!("built_in/tmpfs.toml")),
    ("ssd", include_str!("built_in/ssd.toml")),
    ("hdd", include_str!("built_in/hdd.toml")),
    ("nfs", include_str!("built_in/nfs.toml")),
    ("lustre", include_str!("built_in/lustre.toml")),
];

impl Default for Profile {
    /// The built-in profile for files in memory.
    fn default() -> Profile {
        match Profile::built_in("tmpfs") {
            Some(profile) => profile,
            None => unreachable!("the built-in profiles are tested"),
        }
    }
}

impl Profile {
    /// A built-in profile: `tmpfs`, `ssd`, `hdd`, `nfs` or `lustre`.
    pub fn built_in(name: &str) -> Option<Profile> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        let profile = Profile::parse(text);
        debug_assert!(profile.is_ok(), "built-in profile {name}: {profile:?}");
        profile.ok()
    }

    /// The links between nodes, if they were not measured.
    pub(crate) fn assumed_network(&self) -> Option<Link> {
        let is_default = ["all", NETWORK].iter().any(|key| self.defaults.contains_key(*key));
        is_default.then_some(self.messages.network)
    }

    /// The same machine with another network.
    #[must_use]
    pub fn with_network(mut self, network: Link) -> Profile {
        self.messages.network = network;
        self.defaults.insert(NETWORK.to_owned(), "described, not measured".to_owned());
        self
    }

    /// The same machine with storage on a device by itself, without a cache.
    #[must_use]
    pub fn with_device(self, name: &str, device: Device) -> Profile {
        self.with_storage(name, clock::Storage::local(device))
    }

    /// The same machine with storage that is described. Every access has the latency of the device
    /// and of the way there, and one that does not continue the last one has to position. All ranks
    /// together have the bandwidth of the devices; the accesses of several ranks do not continue
    /// each other. Behind a page cache, accesses cost what they cost on this machine, as if the
    /// cache held them all.
    #[must_use]
    pub fn with_storage(mut self, name: &str, described: clock::Storage) -> Profile {
        if described.cache_bytes == 0 {
            self.storage = Storage::of(&described);
        }
        self.machine.file_system = name.to_owned();
        self.defaults.insert("storage".to_owned(), "described, not measured".to_owned());
        self
    }

    /// The names of the built-in profiles.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The built-in profile for a file system, by the name that mount(8) has for it. A local one
    /// may be on a device that turns. A network file system without a profile of its own counts as
    /// NFS.
    pub fn built_in_name(file_system: &str, rotational: bool) -> &'static str {
        match file_system {
            "tmpfs" | "ramfs" | "memory" => "tmpfs",
            "lustre" | "gpfs" | "beegfs" | "panfs" | "ceph" => "lustre",
            "nfs" | "fuse" => "nfs",
            _ if rotational => "hdd",
            _ => "ssd",
        }
    }

    /// Reads a profile from text.
    ///
    /// # Errors
    /// `InfoValue` with the line or the key that is wrong.
    pub fn parse(text: &str) -> Result<Profile> {
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start)).unwrap_or_default();
            refused(format!("{line}{}", error.message().trim().replace('\n', " ")))
        })?;
        profile.check()?;
        Ok(profile)
    }

    /// Reads a profile from a file.
    ///
    /// # Errors
    /// As [`Profile::parse`], with the name of the file; or what the system says.
    pub fn load(path: &Path) -> Result<Profile> {
        let read = own_file::read_small(path, FILE_BYTES_MAX);
        let text = read.map_err(|error| Error::from_io("read profile", &error).in_file(path))?;
        Profile::parse(&text).map_err(|error| error.in_file(path))
    }

    /// The profile as text that [`Profile::parse`] reads.
    ///
    /// # Errors
    /// `InfoValue` if it makes no sense.
    pub fn to_text(&self) -> Result<String> {
        self.check()?;
        toml::to_string(self).map_err(|error| refused(error.to_string()))
    }

    /// Whether the values make sense.
    ///
    /// # Errors
    /// `InfoValue` with the key and the reason.
    pub fn check(&self) -> Result<()> {
        check::check(self).map_err(|(key, reason)| refused(format!("{key}: {reason}")))
    }

    /// Time of one access of storage.
    pub fn access_us(&self, direction: super::Direction, access: Access) -> f64 {
        match direction {
            super::Direction::Read => self.storage.read.access_us(access),
            super::Direction::Write => self.storage.write.access_us(access),
        }
    }

    /// Time in which each of `ranks` ranks copies `bytes` bytes from pieces of `piece_bytes` to
    /// a contiguous buffer.
    pub fn gather_us(&self, bytes: u64, piece_bytes: u64, ranks: u32) -> f64 {
        self.copy_us(&self.memory.gather, bytes, piece_bytes, ranks)
    }

    /// Time in which each of `ranks` ranks copies `bytes` bytes from a contiguous buffer to pieces
    /// of `piece_bytes`.
    pub fn scatter_us(&self, bytes: u64, piece_bytes: u64, ranks: u32) -> f64 {
        self.copy_us(&self.memory.scatter, bytes, piece_bytes, ranks)
    }

    fn copy_us(&self, curve: &Curve, bytes: u64, piece_bytes: u64, ranks: u32) -> f64 {
        let piece_bytes = piece_bytes.clamp(1, bytes.max(1));
        let pieces = real(bytes) / real(piece_bytes);
        pieces * curve.us(piece_bytes) + self.memory.concurrent.wait_us(real(bytes), ranks)
    }

    /// Time of a barrier of ranks of one node.
    pub fn barrier_us(&self, ranks: u32) -> f64 {
        let cores = self.machine.cores.max(1);
        match ranks {
            0 | 1 => 0.0,
            _ if ranks <= cores => {
                let steps = ranks.next_power_of_two().trailing_zeros();
                f64::from(steps) * self.synchronisation.barrier_step_us
            }
            _ => f64::from(ranks) / f64::from(cores) * self.synchronisation.oversubscribed_rank_us,
        }
    }

    /// Time of planning a collective of `ranks` ranks with `pieces` irregular pieces each.
    pub fn planning_us(&self, ranks: u32, pieces: u64) -> f64 {
        f64::from(ranks) * self.planning.rank_us + real(pieces) * self.planning.piece_us
    }
}

/// What is not written to a file.
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn refused(reason: String) -> Error {
    Error::new(ErrorClass::InfoValue, format!("profile: {reason}"))
}

/// The line of a text at a byte, as the beginning of a message.
fn line_of(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or_default();
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    format!("line {number}, `{line}`: ")
}

#[cfg(test)]
mod tests;
