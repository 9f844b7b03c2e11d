//! Ranks that work for themselves: an access for each piece, lists of pieces, one block.

use std::iter::Peekable;
use std::ops::Range;

use pario::model::Direction;
use pario::model::clock::Access;

use super::{Taken, World, in_order, index};
use crate::scenario::pattern::{Merged, Pattern};
use crate::scenario::stage::Stage;

/// How a rank asks for its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One after another, as `posix` and level 0 do.
    Each,
    /// In lists of limited numbers of pieces and of bytes.
    List { pieces_max: u64, bytes_max: u64 },
}

impl Way {
    /// Lists of PVFS, as ROMIO of that time used them.
    pub(crate) const PVFS_LIST: Way = Way::List { pieces_max: 64, bytes_max: u64::MAX };

    /// The next regions of a rank, for one call.
    fn next(self, runs: &mut Peekable<Merged<'_>>) -> Option<Vec<Range<u64>>> {
        let first = runs.next()?;
        let Way::List { pieces_max, bytes_max } = self else { return Some(vec![first]) };
        let (mut bytes, mut regions) = (first.end - first.start, vec![first]);
        let limit = usize::try_from(pieces_max).unwrap_or(usize::MAX);
        while regions.len() < limit
            && let Some(next) = runs.next_if(|next| bytes + next.end - next.start <= bytes_max)
        {
            bytes += next.end - next.start;
            regions.push(next);
        }
        Some(regions)
    }
}

/// Every rank moves its pieces by itself.
pub(crate) fn independent(
    stage: &Stage,
    pattern: &Pattern,
    direction: Direction,
    way: Way,
) -> Taken {
    let mut world = World::new(stage);
    let mut runs: Vec<Peekable<Merged<'_>>> =
        (0..pattern.ranks).map(|rank| pattern.runs(rank).peekable()).collect();
    let begin_s = vec![0.0; runs.len()];
    let ends_s = match way {
        Way::List { .. } => in_order(&begin_s, |rank, at_s| {
            let regions = way.next(&mut runs[index(rank)])?;
            Some(world.list(rank, direction, &regions, at_s))
        }),
        Way::Each => {
            let access = |Range { start, end }| Access {
                direction,
                offset: start,
                bytes: end - start,
                regions: 1,
            };
            world.run(&begin_s, runs.into_iter().map(|runs| runs.map(access)).collect())
        }
    };
    world.taken(&ends_s)
}

/// Every rank makes its calls by itself, each of which takes a layer some time.
pub(crate) fn individual(
    stage: &Stage,
    pattern: &Pattern,
    direction: Direction,
    layer_us: f64,
) -> Taken {
    let costs =
        crate::scenario::stage::Costs { call_us: stage.costs.call_us + layer_us, ..stage.costs };
    let mut world = World::new(&Stage { costs, ..*stage });
    let accesses = |rank| {
        let pieces = pattern.calls(rank).into_iter().flatten();
        pieces.map(move |Range { start, end }| Access {
            direction,
            offset: start,
            bytes: end - start,
            regions: 1,
        })
    };
    let begin_s = vec![0.0; index(pattern.ranks)];
    let ends_s = world.run(&begin_s, (0..pattern.ranks).map(accesses).collect());
    world.taken(&ends_s)
}

/// A collective call for each piece: ranks whose pieces do not interleave serve their own, and all
/// wait for all.
pub(crate) fn level_1(stage: &Stage, pattern: &Pattern, direction: Direction) -> Taken {
    let mut world = World::new(stage);
    let mut runs: Vec<Merged<'_>> = (0..pattern.ranks).map(|rank| pattern.runs(rank)).collect();
    let mut ready_s = vec![0.0; runs.len()];
    loop {
        let pieces: Vec<Option<Range<u64>>> = runs.iter_mut().map(Iterator::next).collect();
        if pieces.iter().all(Option::is_none) {
            return world.taken(&ready_s);
        }
        // All announce their ranges to all, and later agree on the outcome.
        let announced_s = world.barrier(&ready_s);
        for (rank, piece) in (0..).zip(pieces) {
            ready_s[index(rank)] = match piece {
                Some(Range { start, end }) => {
                    let access =
                        Access { direction, offset: start, bytes: end - start, regions: 1 };
                    world.access(rank, access, announced_s)
                }
                None => announced_s,
            };
        }
        let agreed_s = world.barrier(&ready_s);
        ready_s.fill(agreed_s);
    }
}

/// Block I/O: every rank has its bytes in one piece of the file.
pub(crate) fn block(stage: &Stage, pattern: &Pattern, direction: Direction) -> Taken {
    let mut world = World::new(stage);
    let mut start = 0;
    let mut ends_s = Vec::new();
    for rank in 0..pattern.ranks {
        let bytes = pattern.bytes_of(rank);
        let access = Access { direction, offset: start, bytes, regions: 1 };
        ends_s.push(world.access(rank, access, 0.0));
        start += bytes;
    }
    world.taken(&ends_s)
}
