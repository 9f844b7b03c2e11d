//! What a file reports of itself beside the hints: three keys of ROMIO that no caller can set, and
//! how its last calls were served.
//!
//! HDF5 acts on `romio_visibility_immediate`: where it is `false`, it syncs after collective writes
//! and refuses independent ones. So the key is given only where the answer is known, and it is the
//! same on all ranks.

use std::time::Duration;

use crate::direction::Direction;
use crate::hints::{EffectiveHint, HintOrigin, Hints, SERVED_READ, SERVED_WRITE, Strategy};
use crate::plan::{self, FileFacts};
use crate::request::Kind;
use crate::statistics::CallStatistics;
use crate::storage::FileSystem;

/// Whether other ranks see a write as soon as it has returned, without a sync; the least certain
/// answer of any rank counts for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Visible {
    AfterSync,
    Unknown,
    AtOnce,
}

impl Visible {
    /// What one rank knows.
    ///
    /// Ranks of one node go through one page cache, or one client, on every file system: pario has
    /// no buffer of its own that outlives a call. Between nodes it is up to the file system.
    pub(super) fn of(nodes: &[u32], file_system: Option<FileSystem>) -> Visible {
        let one_node = nodes.windows(2).all(|pair| pair[0] == pair[1]);
        match file_system.and_then(|file_system| file_system.coherent) {
            _ if one_node => Visible::AtOnce,
            Some(true) => Visible::AtOnce,
            Some(false) => Visible::AfterSync,
            None => Visible::Unknown,
        }
    }

    /// A number for it, to agree on the least.
    pub(super) fn level(self) -> u64 {
        match self {
            Visible::AfterSync => 0,
            Visible::Unknown => 1,
            Visible::AtOnce => 2,
        }
    }

    pub(super) fn of_level(level: u64) -> Visible {
        match level {
            0 => Visible::AfterSync,
            1 => Visible::Unknown,
            _ => Visible::AtOnce,
        }
    }
}

/// How the last collectives were served: the same on all ranks, which the last calls need not be.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    read: Option<Choice>,
    write: Option<Choice>,
}

#[derive(Clone, Copy, Debug)]
struct Choice {
    strategy: Strategy,
    reason: &'static str,
    predicted: Duration,
}

impl Choice {
    /// None for a call that was refused.
    fn of(call: &CallStatistics) -> Option<Choice> {
        let CallStatistics { strategy, reason, predicted, .. } = *call;
        (strategy != Strategy::Auto).then_some(Choice { strategy, reason, predicted })
    }

    fn keys(self, direction: Direction) -> impl Iterator<Item = EffectiveHint> {
        let names = match direction {
            Direction::Read => SERVED_READ,
            Direction::Write => SERVED_WRITE,
        };
        let us = format!("{:.1}", self.predicted.as_secs_f64() * 1e6);
        let values = [self.strategy.name().to_owned(), self.reason.to_owned(), us];
        let all = names.into_iter().zip(values);
        all.map(|(name, value)| EffectiveHint { name, value, origin: HintOrigin::File })
    }
}

impl Served {
    /// A call has ended.
    pub(super) fn add(&mut self, call: &CallStatistics) {
        let place = match call.call {
            name if name == Kind::READ_ALL.name => &mut self.read,
            name if name == Kind::WRITE_ALL.name => &mut self.write,
            _ => return,
        };
        *place = Choice::of(call).or(*place);
    }

    /// The keys with their values; in a direction without collectives those of the last call.
    pub(super) fn keys(&self, last: &CallStatistics) -> Vec<EffectiveHint> {
        let of_last = |kind: Kind| (last.call == kind.name).then(|| Choice::of(last)).flatten();
        let read = self.read.or_else(|| of_last(Kind::READ));
        let write = self.write.or_else(|| of_last(Kind::WRITE));
        let read = read.into_iter().flat_map(|choice| choice.keys(Direction::Read));
        read.chain(write.into_iter().flat_map(|choice| choice.keys(Direction::Write))).collect()
    }
}

/// What is known of an open file beside what planners need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    pub(super) visible: Visible,
    pub(super) file_system: Option<FileSystem>,
}

impl Reported {
    /// The keys with their values, under the hints in effect.
    pub(super) fn keys(self, hints: &Hints, facts: &FileFacts) -> Vec<EffectiveHint> {
        let visible = match self.visible {
            Visible::AfterSync => Some("false".to_owned()),
            Visible::Unknown => None,
            Visible::AtOnce => Some("true".to_owned()),
        };
        let servers = plan::may_serve(hints, facts).iter().map(u32::to_string).collect::<Vec<_>>();
        let keys = [
            ("romio_visibility_immediate", visible),
            ("romio_filesystem_type", Some(self.kind())),
            ("romio_aggregator_list", Some(servers.join(" "))),
        ];
        let known = keys.into_iter().filter_map(|(name, value)| Some((name, value?)));
        known.map(|(name, value)| EffectiveHint { name, value, origin: HintOrigin::File }).collect()
    }

    /// ROMIO's word for the driver, then who serves it on what.
    fn kind(self) -> String {
        match self.file_system {
            None => "UFS: pario".to_owned(),
            Some(FileSystem { name, .. }) => {
                let word = match name {
                    "nfs" | "lustre" | "gpfs" | "panfs" => name.to_uppercase(),
                    _ => "UFS".to_owned(),
                };
                format!("{word}: pario on {name}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_visible_at_once_on_one_node_and_where_the_file_system_is_coherent() {
        let with = |coherent| Some(FileSystem { name: "nfs", coherent });
        let cases = [
            (vec![0], with(Some(false)), Visible::AtOnce),
            (vec![0, 0, 0], None, Visible::AtOnce),
            (vec![0, 1], with(Some(false)), Visible::AfterSync),
            (vec![0, 1], with(Some(true)), Visible::AtOnce),
            (vec![0, 0, 1], with(None), Visible::Unknown),
            (vec![0, 0, 1], None, Visible::Unknown),
        ];
        for (nodes, file_system, expected) in cases {
            let visible = Visible::of(&nodes, file_system);
            assert_eq!(visible, expected, "{nodes:?} {file_system:?}");
            assert_eq!(Visible::of_level(visible.level()), visible);
        }
    }
}
