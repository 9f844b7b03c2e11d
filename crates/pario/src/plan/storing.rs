//! How windows are stored: by plain writes, or through a mapping of the file.
//!
//! Some file systems let one process at a time write to a file. Through a mapping, several ranks
//! store at a time, but each of them has page faults. So it pays from some number of ranks on,
//! which the profile knows. The storage driver decides for each window whether it is possible.

use std::fmt;

use super::constants::{MAPPED_GAIN_MIN, MAPPED_WINDOW_BYTES_MIN};
use super::{Direction, Planning, Shuffled, index, rank_of};
use crate::hints::Switch;

/// How windows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storing {
    Plain,
    /// Through a mapping: what overwrites bytes of the file, and with `new_bytes` all.
    Mapped {
        new_bytes: bool,
    },
}

impl Storing {
    pub(super) fn new(planning: &Planning<'_>, shuffled: &Shuffled) -> Storing {
        let is_possible = planning.conditions.direction == Direction::Write
            && planning.file.mapped_writes
            && shuffled.window_bytes() > 0;
        match planning.hints.mapped_writes {
            Switch::Enable if is_possible => Storing::Mapped { new_bytes: true },
            Switch::Automatic if is_possible => Storing::fastest(planning, shuffled),
            _ => Storing::Plain,
        }
    }

    fn fastest(planning: &Planning<'_>, shuffled: &Shuffled) -> Storing {
        let writes = &planning.file.profile.storage.write;
        let (ranks, bytes) = (writers(planning, shuffled), shuffled.window_bytes());
        let pays = |gain: Option<f64>| gain.is_some_and(|gain| gain >= MAPPED_GAIN_MIN);
        match bytes >= MAPPED_WINDOW_BYTES_MIN && pays(writes.mapped_gain(ranks)) {
            true => Storing::Mapped { new_bytes: pays(writes.mapped_new_gain(ranks, bytes)) },
            false => Storing::Plain,
        }
    }
}

/// Ranks that store windows at a time, on the node that has the fewest.
fn writers(planning: &Planning<'_>, shuffled: &Shuffled) -> u32 {
    let domains = shuffled.domains();
    let is_aggregator = |rank: &u32| domains.iter().any(|domain| domain.aggregator == *rank);
    let of_node = |(ranks, cores): (Vec<u32>, u32)| {
        let all = shuffled.all_serve() || shuffled.phases().is_some();
        let servers = ranks.iter().filter(|rank| all || is_aggregator(rank)).count();
        rank_of(servers.min(index(cores)))
    };
    planning.file.members().map(of_node).filter(|&writers| writers > 0).min().unwrap_or(0)
}

impl fmt::Display for Storing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Storing::Plain => "by plain writes",
            Storing::Mapped { new_bytes: true } => "through a mapping of the file",
            Storing::Mapped { new_bytes: false } => {
                "through a mapping of the file, new bytes by plain writes"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::hints::Hints;
    use crate::model::profile::{Concurrency, Profile};
    use crate::plan::two_phase::two_phase;
    use crate::plan::{FileFacts, Request};

    /// A machine with 16 cores where writes through a mapping were measured, on this file system.
    fn measured(file_system: &str, new_file: [f64; 4]) -> Arc<Profile> {
        let curve = |gb_per_s: [f64; 4]| {
            let bytes_per_s = gb_per_s.map(|one| one * 1e9).to_vec();
            Some(Concurrency { ranks: vec![1, 2, 4, 16], bytes_per_s })
        };
        let mut profile = Profile::built_in(file_system).unwrap();
        profile.storage.write.mapped = curve([4.2, 5.8, 11.0, 36.0]);
        profile.storage.write.mapped_new_file = curve(new_file);
        Arc::new(profile)
    }

    fn storing(
        direction: Direction,
        (ranks, cores): (u32, u32),
        change: impl FnOnce(&mut Hints, &mut FileFacts),
    ) -> Storing {
        let mut hints = Hints::default();
        let mut file = FileFacts {
            cores: vec![cores],
            mapped_writes: true,
            profile: measured("tmpfs", [2.3, 2.8, 4.8, 4.8]),
            ..FileFacts::of_threads(index(ranks))
        };
        change(&mut hints, &mut file);
        let requests = vec![Request::of_pieces(0..1 << 30, 1 << 26, 512); index(ranks)];
        two_phase(&Planning::of(direction, &requests, true, &hints, &file)).storing()
    }

    #[test]
    fn many_writers_that_run_at_a_time_store_through_a_mapping() {
        use Direction::{Read, Write};
        let all = Storing::Mapped { new_bytes: true };
        for (direction, facts, expected) in [
            (Write, (1, 16), Storing::Plain),
            (Write, (2, 2), Storing::Plain),
            (Write, (16, 2), Storing::Plain),
            (Write, (4, 4), all),
            (Write, (16, 16), all),
            (Read, (16, 16), Storing::Plain),
        ] {
            assert_eq!(storing(direction, facts, |_, _| {}), expected, "{direction:?} {facts:?}");
        }
        let named = |hints: &mut Hints, _: &mut FileFacts| hints.aggregators = Some(2);
        assert_eq!(storing(Write, (16, 16), named), Storing::Plain);
        let ssd = |_: &mut Hints, file: &mut FileFacts| {
            file.profile = measured("ssd", [2.3, 2.3, 2.3, 2.3]);
        };
        assert_eq!(storing(Write, (16, 16), ssd), Storing::Mapped { new_bytes: false });
        for name in Profile::built_in_names() {
            let unmeasured = |_: &mut Hints, file: &mut FileFacts| {
                file.profile = Arc::new(Profile::built_in(name).unwrap());
            };
            assert_eq!(storing(Write, (16, 16), unmeasured), Storing::Plain, "{name}");
        }
    }

    #[test]
    fn hints_and_storage_decide_first() {
        let write = Direction::Write;
        let enable = |hints: &mut Hints, _: &mut FileFacts| hints.mapped_writes = Switch::Enable;
        assert_eq!(storing(write, (1, 1), enable), Storing::Mapped { new_bytes: true });
        let disable = |hints: &mut Hints, _: &mut FileFacts| hints.mapped_writes = Switch::Disable;
        assert_eq!(storing(write, (16, 16), disable), Storing::Plain);
        let elsewhere = |hints: &mut Hints, file: &mut FileFacts| {
            (hints.mapped_writes, file.mapped_writes) = (Switch::Enable, false);
        };
        assert_eq!(storing(write, (16, 16), elsewhere), Storing::Plain);
    }
}
