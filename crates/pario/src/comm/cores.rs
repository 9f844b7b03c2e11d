//! How many cores the ranks of a node have, and whether they are oversubscribed.
//!
//! The affinity of one rank says nothing of its node: launchers bind each rank to a core. And a job
//! may have only a part of the cores that are online. So each rank describes what it may use
//! ([`Affinity`], 16 bytes, exchanged when a communicator is made), and all ranks compute the same
//! number from that:
//!
//! * Cores of ranks with the same mask are counted once, those of different masks are added up.
//!   Launchers give ranks equal or disjoint masks; with masks that overlap in part the sum is too
//!   high, but never higher than what is online. (The masks themselves would be exact, for 128
//!   bytes of each rank in every open.)
//! * A quota of the control group bounds the number, as `docker run --cpus` sets it.
//!
//! | job | masks | cores |
//! | --- | --- | --- |
//! | `mpirun --bind-to core -n 2` | two, of a core each | 2 |
//! | the same without binding, on 8 cores | one | 8 |
//! | `taskset -c 0,1 mpirun`, not bound | one, of 2 cores | 2 |
//! | Slurm or `docker run --cpuset-cpus` | within the job's cpuset: the kernel sees to that | |
//! | `docker run --cpus 2`, bound or not | any | at most 2 |
//!
//! Cores count as the system numbers them: two hardware threads of a core are two.
//!
//! Unsafe: the kernel writes a mask into memory whose length it is given.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::OnceLock;

use crate::number::{narrow, wide};

/// Whether a node has more ranks than cores: then those that wait must not keep a
/// core busy, and it matters how often each has to wait. There is no other definition.
///
/// ```
/// assert!(pario::comm::is_oversubscribed(3, 2));
/// assert!(!pario::comm::is_oversubscribed(2, 2));
/// ```
pub fn is_oversubscribed(ranks: usize, cores: u32) -> bool {
    wide(ranks) > u64::from(cores)
}

/// The cores that one rank may use. Plain numbers, to be sent as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Affinity {
    /// Equal for equal masks.
    mask: u64,
    /// Cores in the mask.
    cores: u32,
    /// Cores that the ranks of the node may use in all.
    limit: u32,
}

impl Affinity {
    /// That of the calling thread, and the limit of its control group.
    pub fn of_this_thread() -> Affinity {
        let mask = mask();
        let cores: u32 = mask.iter().map(|word| word.count_ones()).sum();
        let mut hasher = DefaultHasher::new();
        mask.hash(&mut hasher);
        Affinity { mask: hasher.finish(), cores, limit: limit() }
    }

    /// Cores of a node, at least one, from what each of its ranks may use.
    pub fn cores_of_node(ranks: impl IntoIterator<Item = Affinity>) -> u32 {
        let (mut masks, mut limit) = (BTreeMap::new(), u32::MAX);
        for rank in ranks {
            masks.insert(rank.mask, rank.cores);
            limit = limit.min(rank.limit);
        }
        let sum = masks.values().fold(0, |sum: u32, cores| sum.saturating_add(*cores));
        sum.min(limit).max(1)
    }

    /// Cores of each node, from the node of each rank and what it may use.
    pub fn cores_of_nodes(nodes: &[u32], ranks: &[Affinity]) -> Vec<u32> {
        let count = nodes.iter().max().map_or(0, |last| narrow(u64::from(*last)) + 1);
        let mut members = vec![Vec::new(); count];
        for (node, rank) in nodes.iter().zip(ranks) {
            members[narrow(u64::from(*node))].push(*rank);
        }
        members.into_iter().map(Affinity::cores_of_node).collect()
    }
}

/// Cores that a process has whose ranks are its threads.
pub(super) fn own() -> u32 {
    Affinity::cores_of_node([Affinity::of_this_thread()])
}

/// The mask of the calling thread; empty if the system does not say.
fn mask() -> Vec<u64> {
    const WORDS_MAX: usize = 1 << 10;
    let mut words = 1024 / 64;
    while words <= WORDS_MAX {
        let mut mask = vec![0u64; words];
        let bytes = words * size_of::<u64>();
        // SAFETY: the mask is as long as the call is given, and any bits are words.
        let code = unsafe { libc::sched_getaffinity(0, bytes, mask.as_mut_ptr().cast()) };
        if code == 0 {
            return mask;
        }
        // Too short for the processors of this system.
        words *= 2;
    }
    Vec::new()
}

/// Cores that are online, or fewer if the control group has a quota.
fn limit() -> u32 {
    static LIMIT: OnceLock<u32> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        // SAFETY: asks for a number.
        let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        let online = u32::try_from(online).unwrap_or(1);
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        quota(Path::new("/sys/fs/cgroup"), &groups).map_or(online, |quota| online.min(quota))
    })
}

/// The least quota of the control groups that this process is in, in cores, at least one.
/// `groups` is the text of `/proc/self/cgroup`.
fn quota(root: &Path, groups: &str) -> Option<u32> {
    let quotas = groups.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let is_cpu = controllers.split(',').any(|name| name == "cpu");
        let mount = match controllers {
            "" => root.to_owned(),
            _ if is_cpu => root.join(controllers),
            _ => return None,
        };
        // A container may see the path that the group has outside, but only its own part of it:
        // the parents that are there count.
        let group = mount.join(path.trim_start_matches('/'));
        let groups = group.ancestors().take_while(|group| group.starts_with(&mount));
        groups.filter_map(quota_of_group).min()
    });
    quotas.min()
}

/// The quota of one control group: its version 2, or 1.
fn quota_of_group(group: &Path) -> Option<u32> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let text = read("cpu.max").or_else(|| {
        Some(format!("{} {}", read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?))
    })?;
    let mut numbers = text.split_whitespace();
    // No quota is the word `max`, or -1.
    let quota: u64 = numbers.next()?.parse().ok()?;
    let period: u64 = numbers.next()?.parse().ok()?;
    u32::try_from(quota.checked_div(period)?.max(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affinity(mask: u64, limit: u32) -> Affinity {
        Affinity { mask, cores: mask.count_ones(), limit }
    }

    #[test]
    fn a_node_has_the_cores_of_all_its_ranks() {
        let cores = |masks: &[u64], limit| {
            Affinity::cores_of_node(masks.iter().map(|mask| affinity(*mask, limit)))
        };
        for (masks, limit, expected) in [
            (&[0b11, 0b11][..], 8, 2),
            (&[0b01, 0b10], 8, 2),
            (&[0b01, 0b10, 0b01, 0b10], 8, 2),
            (&[0b0011, 0b1100], 8, 4),
            (&[0b1111], 2, 2),
            (&[0b01, 0b10, 0b100], 2, 2),
            // A thread that is bound beside ranks that are not.
            (&[0b0001, 0b1111], 4, 4),
            (&[0], 8, 1),
            (&[], 8, 1),
        ] {
            assert_eq!(cores(masks, limit), expected, "{masks:?} of {limit}");
        }
    }

    #[test]
    fn nodes_have_cores_of_their_own() {
        let ranks = [0b1, 0b1, 0b10, 0b1110].map(|mask| affinity(mask, 8));
        assert_eq!(Affinity::cores_of_nodes(&[0, 1, 0, 1], &ranks), [2, 4]);
    }

    #[test]
    fn a_thread_has_the_cores_that_the_system_says() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(narrow(u64::from(own())), cores);
    }

    #[test]
    fn a_quota_of_any_parent_counts() {
        let root = std::env::temp_dir().join(format!("pario-quota-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("job/cpu.max", "250000 100000\n");
        write("job/step/cpu.max", "max 100000\n");
        write("cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
        write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        write("cpu,cpuacct/free/cpu.cfs_quota_us", "-1\n");
        write("cpu,cpuacct/free/cpu.cfs_period_us", "100000\n");
        for (groups, expected) in [
            ("0::/job/step\n", Some(2)),
            ("0::/\n", None),
            ("0::/gone/from/here\n", None),
            ("3:cpuset:/job\n", None),
            ("4:cpu,cpuacct:/free\n0::/job\n", Some(1)),
            ("nonsense", None),
        ] {
            assert_eq!(quota(&root, groups), expected, "{groups:?}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
