//! What is measured, and where its value goes in a profile.

use std::fmt;

use pario::model::Direction;
use pario::model::profile::Pattern;

/// Lengths of accesses through the page cache, of those of whole pages, and of pieces in memory.
pub(super) const CACHED_BYTES: [u64; 5] = [4, 512, 4096, 65536, 1 << 20];
pub(super) const PAGES_BYTES: [u64; 3] = [4096, 65536, 1 << 20];
pub(super) const PIECE_BYTES: [u64; 7] = [4, 16, 64, 512, 4096, 65536, 1 << 20];

/// Working sets: from what the caches of processors hold to more than that.
pub(super) const WORKING_SETS: [u64; 6] = [1 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20];

/// Lengths of messages, for latency and bandwidth. Plans make messages of about the latter.
pub(super) const MESSAGE_BYTES: [u64; 2] = [8, 32 << 10];

/// Pieces of an irregular list, for the cost of planning.
pub(super) const PLANNED_PIECES: u64 = 4096;

/// The ranks and their nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub(super) ranks: u32,
    /// Cores of the first node.
    pub(super) cores: u32,
    /// A rank of the first one's node, and one of another node, if there are any.
    pub(super) same_node: Option<u32>,
    pub(super) other_node: Option<u32>,
}

impl Situation {
    /// Ranks of which each has a core.
    pub(super) fn with_a_core(&self) -> u32 {
        self.ranks.min(self.cores).max(1)
    }

    /// Numbers of ranks that work at the same time: one, half of the cores, all of them.
    pub(super) fn groups(&self) -> Vec<u32> {
        let all = self.with_a_core();
        let mut groups = vec![1, all / 2, all];
        groups.retain(|&ranks| ranks > 0);
        groups.dedup();
        groups
    }
}

/// One thing to measure; the seconds are those of one access, piece, message, barrier or plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// One access by the first rank.
    Access { direction: Direction, pattern: Pattern, bytes: u64 },
    /// An access of 1 MiB by each of these ranks, with the memory of a window or of a program.
    AccessTogether { direction: Direction, pattern: Pattern, ranks: u32 },
    /// The same writes, one after the other in the file, through a mapping of it.
    MappedTogether { ranks: u32 },
    /// One piece copied by the first rank.
    Copy { scatter: bool, random: bool, bytes: u64 },
    /// 1 MiB copied by each of these ranks.
    CopyTogether { ranks: u32 },
    /// A KiB read or written by each of the ranks that have a core, again and again in this
    /// working set.
    AccessReused { direction: Direction, working_set: u64 },
    /// A KiB copied in the same way.
    CopyReused { working_set: u64 },
    /// One message from the first rank to this one.
    Message { to: u32, bytes: u64 },
    /// A barrier of all ranks.
    Barrier,
    /// A barrier to which the first rank comes when all others sleep, from then on.
    Wake,
    /// The plan of a collective with irregular lists of this number of pieces; 1 is a regular one.
    Plan { pieces: u64 },
}

impl Probe {
    /// All that can be measured here.
    pub(super) fn all(situation: &Situation) -> Vec<Probe> {
        let mut all = Vec::new();
        for direction in [Direction::Read, Direction::Write] {
            let accesses = |pattern, lengths: &[u64]| {
                let access = |&bytes: &u64| Probe::Access { direction, pattern, bytes };
                lengths.iter().map(access).collect::<Vec<Probe>>()
            };
            all.extend(accesses(Pattern::Sequential, &CACHED_BYTES));
            all.extend(accesses(Pattern::Contiguous, &CACHED_BYTES));
            all.extend(accesses(Pattern::Scattered, &CACHED_BYTES));
            all.extend(accesses(Pattern::Aligned, &PAGES_BYTES));
            all.extend(accesses(Pattern::Direct, &PAGES_BYTES));
            if direction == Direction::Write {
                all.extend(accesses(Pattern::NewFile, &CACHED_BYTES));
            }
            for pattern in [Pattern::Sequential, Pattern::Contiguous] {
                let groups = situation.groups().into_iter();
                all.extend(groups.map(|ranks| Probe::AccessTogether { direction, pattern, ranks }));
            }
            if direction == Direction::Write {
                let groups = situation.groups().into_iter();
                all.extend(groups.map(|ranks| Probe::MappedTogether { ranks }));
            }
            let reused = |working_set| Probe::AccessReused { direction, working_set };
            all.extend(WORKING_SETS.map(reused));
        }
        for scatter in [false, true] {
            for random in [false, true] {
                all.extend(PIECE_BYTES.map(|bytes| Probe::Copy { scatter, random, bytes }));
            }
        }
        all.extend(situation.groups().into_iter().map(|ranks| Probe::CopyTogether { ranks }));
        all.extend(WORKING_SETS.map(|working_set| Probe::CopyReused { working_set }));
        for to in [situation.same_node, situation.other_node].into_iter().flatten() {
            all.extend(MESSAGE_BYTES.map(|bytes| Probe::Message { to, bytes }));
        }
        if situation.ranks > 1 {
            all.extend([Probe::Barrier, Probe::Wake, Probe::Plan { pieces: 1 }]);
            all.push(Probe::Plan { pieces: PLANNED_PIECES });
        }
        all
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Probe::Access { direction, pattern, bytes } => {
                write!(formatter, "{} {bytes} bytes, {}", verb(*direction), adverb(*pattern))
            }
            Probe::AccessTogether { direction, pattern, ranks } => {
                write!(formatter, "{} by {ranks} ranks, {}", verb(*direction), adverb(*pattern))
            }
            Probe::MappedTogether { ranks } => {
                write!(formatter, "write through a mapping by {ranks} ranks")
            }
            Probe::Copy { bytes, .. } => write!(formatter, "copy pieces of {bytes} bytes"),
            Probe::CopyTogether { ranks } => write!(formatter, "copy by {ranks} ranks"),
            Probe::AccessReused { direction, working_set } => {
                write!(formatter, "{} {working_set} bytes again and again", verb(*direction))
            }
            Probe::CopyReused { working_set } => {
                write!(formatter, "copy {working_set} bytes again and again")
            }
            Probe::Message { bytes, .. } => write!(formatter, "messages of {bytes} bytes"),
            Probe::Barrier => write!(formatter, "barriers"),
            Probe::Wake => write!(formatter, "ranks that sleep"),
            Probe::Plan { .. } => write!(formatter, "plans"),
        }
    }
}

fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

fn adverb(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Sequential => "sequential",
        Pattern::Contiguous => "contiguous",
        Pattern::Scattered => "scattered",
        Pattern::Aligned => "aligned",
        Pattern::NewFile => "new",
        Pattern::Direct => "direct",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_one_half_and_all_cores() {
        let situation =
            |ranks, cores| Situation { ranks, cores, same_node: None, other_node: None };
        assert_eq!(situation(16, 16).groups(), [1, 8, 16]);
        assert_eq!(situation(16, 2).groups(), [1, 2]);
        assert_eq!(situation(1, 8).groups(), [1]);
        assert_eq!(situation(3, 8).groups(), [1, 3]);
    }

    #[test]
    fn one_rank_sends_no_messages() {
        let alone = Situation { ranks: 1, cores: 4, same_node: None, other_node: None };
        let none = |probe: &Probe| {
            !matches!(probe, Probe::Message { .. } | Probe::Barrier | Probe::Plan { .. })
        };
        assert!(Probe::all(&alone).iter().all(none));
        let two = Situation { ranks: 2, same_node: Some(1), ..alone };
        assert!(Probe::all(&two).contains(&Probe::Message { to: 1, bytes: 8 }));
    }
}
