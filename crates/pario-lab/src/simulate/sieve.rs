//! Data sieving: windows of pieces and holes. Writes read the window first and lock it meanwhile.
//!
//! ROMIO's windows begin at a piece and are as long as the buffer, up to the end of the request,
//! whatever the holes (papers 003 and 004). pario's end at the last piece that fits, and at holes
//! that are too large.

use std::ops::Range;

use pario::model::Direction;
use pario::model::clock::Access;

use super::{Taken, World, in_order, index};
use crate::scenario::pattern::Pattern;
use crate::scenario::stage::Stage;

/// How windows are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sieve {
    pub(crate) buffer_bytes: u64,
    /// Larger holes end a window; `None` for ROMIO's way.
    pub(crate) hole_bytes: Option<u64>,
}

impl Sieve {
    /// Windows as papers 003 and 004 have them: 4 MB for reads, 512 KB for writes.
    pub(crate) fn romio(direction: Direction) -> Sieve {
        let buffer_bytes = match direction {
            Direction::Read => 4 << 20,
            Direction::Write => 512 << 10,
        };
        Sieve { buffer_bytes, hole_bytes: None }
    }

    /// The same with holes of more than 4 KiB left out, as pario does by default.
    pub(crate) fn pario(direction: Direction) -> Sieve {
        Sieve { hole_bytes: Some(4096), ..Sieve::romio(direction) }
    }
}

/// A window: its range of the file, and what a rank has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    file: Range<u64>,
    bytes: u64,
    pieces: u64,
}

impl Window {
    /// Whether the rank has all of it.
    fn is_dense(&self) -> bool {
        self.bytes == self.file.end - self.file.start
    }
}

/// The windows of a rank.
struct Windows<I: Iterator<Item = Range<u64>>> {
    runs: I,
    rest: Option<Range<u64>>,
    end: u64,
    sieve: Sieve,
}

impl<I: Iterator<Item = Range<u64>>> Iterator for Windows<I> {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        let first = self.rest.take().or_else(|| self.runs.next())?;
        let start = first.start;
        let limit = start.saturating_add(self.sieve.buffer_bytes);
        let mut window = Window { file: start..start, bytes: 0, pieces: 0 };
        let mut next = Some(first);
        while let Some(run) = next {
            let hole = run.start - window.file.end;
            let apart = self.sieve.hole_bytes.is_some_and(|most| hole > most);
            if run.start >= limit || apart {
                self.rest = Some(run);
                break;
            }
            let end = run.end.min(limit);
            window.bytes += end - run.start;
            window.pieces += 1;
            window.file.end = end;
            if end < run.end {
                self.rest = Some(end..run.end);
                break;
            }
            next = self.runs.next();
        }
        if self.sieve.hole_bytes.is_none() {
            window.file.end = limit.min(self.end);
        }
        Some(window)
    }
}

/// Every rank sieves its own request.
pub(crate) fn sieve(stage: &Stage, pattern: &Pattern, direction: Direction, sieve: Sieve) -> Taken {
    let mut world = World::new(stage);
    let windows = |rank: u32| {
        let end = pattern.runs(rank).last().map_or(0, |run| run.end);
        let all = Windows { runs: pattern.runs(rank), rest: None, end, sieve };
        all.peekable()
    };
    let mut all: Vec<_> = (0..pattern.ranks).map(windows).collect();
    let mut locks = Locks::default();
    let begin_s = vec![0.0; all.len()];
    let ends_s = in_order(&begin_s, |rank, at_s| {
        let own = &mut all[index(rank)];
        let file = own.peek()?.file.clone();
        if direction == Direction::Write {
            // A rank that holds a part of the window comes first; then it is tried again.
            if let Some(free_s) = locks.held(&file, at_s) {
                return Some(free_s);
            }
        }
        let window = own.next()?;
        let end_s = serve(&mut world, rank, direction, &window, at_s);
        if direction == Direction::Write {
            locks.all.push((file, end_s));
        }
        Some(end_s)
    });
    world.taken(&ends_s)
}

fn serve(world: &mut World, rank: u32, direction: Direction, window: &Window, at_s: f64) -> f64 {
    let (offset, bytes) = (window.file.start, window.file.end - window.file.start);
    let access = |direction| Access { direction, offset, bytes, regions: 1 };
    if window.is_dense() {
        return world.access(rank, access(direction), at_s);
    }
    let read_s = world.access(rank, access(Direction::Read), at_s);
    let copied_s = world.copy(rank, window.bytes, window.pieces, read_s);
    match direction {
        Direction::Read => copied_s,
        Direction::Write => {
            world.counts.locks += 1;
            world.access(rank, access(Direction::Write), copied_s)
        }
    }
}

/// Ranges that are locked, and until when.
#[derive(Default)]
struct Locks {
    all: Vec<(Range<u64>, f64)>,
}

impl Locks {
    /// When a range is free, if it is not now.
    fn held(&mut self, file: &Range<u64>, at_s: f64) -> Option<f64> {
        self.all.retain(|(_, end_s)| *end_s > at_s);
        let meets =
            |(range, _): &&(Range<u64>, f64)| range.start < file.end && file.start < range.end;
        self.all.iter().filter(meets).map(|(_, end_s)| *end_s).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(runs: &[Range<u64>], sieve: Sieve) -> Vec<(Range<u64>, u64)> {
        let end = runs.last().unwrap().end;
        let all = Windows { runs: runs.iter().cloned(), rest: None, end, sieve };
        all.map(|window| (window.file, window.bytes)).collect()
    }

    #[test]
    fn windows_of_romio_are_as_long_as_the_buffer() {
        let romio = Sieve { buffer_bytes: 100, hole_bytes: None };
        let runs = [10..20, 50..60, 105..120, 300..310];
        assert_eq!(windows(&runs, romio), [(10..110, 25), (110..210, 10), (300..310, 10)]);
        let skips = Sieve { buffer_bytes: 100, hole_bytes: Some(35) };
        let expected = [(10..60, 20), (105..120, 15), (300..310, 10)];
        assert_eq!(windows(&runs, skips), expected);
    }
}
