//! Pieces: what is contiguous both in the file and in a rank's memory.
//!
//! The runs of the file and those of memory are walked in step. A piece ends where a run of
//! either does, and where a call does. Neighbours that follow each other on both sides within a
//! call are one piece.

use std::iter::Peekable;
use std::ops::Range;

use super::workload::{Runs, Workload};

/// Bytes of a rank, contiguous in the file and in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Offset in memory.
    pub(crate) memory: u64,
    pub(crate) len: u64,
}

impl Piece {
    /// Its place in memory; buffers fit in memory, so that their offsets do.
    pub(crate) fn range(&self) -> Range<usize> {
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        at(self.memory)..at(self.memory + self.len)
    }
}

/// The side of memory: runs of one call, which start again with each call.
enum Place<'a> {
    /// One byte after the other.
    Packed,
    Typed {
        workload: &'a dyn Workload,
        rank: u32,
        bytes: u64,
        runs: Runs<'a>,
        rest: Range<u64>,
    },
}

/// Walks through the pieces of a rank, in order of its data.
pub(crate) struct Pieces<'a> {
    file: Runs<'a>,
    file_rest: Range<u64>,
    place: Place<'a>,
    /// Bytes of the calls to come, and what is left of the current one.
    calls: std::vec::IntoIter<u64>,
    call_rest: u64,
    call: u64,
    position: u64,
}

/// Pieces of a rank; `memory_bytes` is the size of its memory for one call, unless its data is
/// packed there.
pub(crate) fn pieces(
    workload: &dyn Workload,
    rank: u32,
    memory_bytes: Option<u64>,
) -> impl Iterator<Item = (u64, Piece)> {
    Merged { pieces: raw(workload, rank, memory_bytes).peekable() }
}

/// The same for what is filled and compared: neighbours need not be one piece there. Packed data of
/// one call, which may have millions of short runs, is walked without further ado.
pub(crate) enum Walk<'a> {
    Packed { runs: Runs<'a>, position: u64 },
    Any(Pieces<'a>),
}

/// Pieces of a rank that may be neighbours; as [`pieces`] otherwise.
pub(crate) fn walk(workload: &dyn Workload, rank: u32, memory_bytes: Option<u64>) -> Walk<'_> {
    match memory_bytes.is_none() && workload.calls(rank).is_none() {
        true => Walk::Packed { runs: workload.runs(rank), position: 0 },
        false => Walk::Any(raw(workload, rank, memory_bytes)),
    }
}

impl Iterator for Walk<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        match self {
            Walk::Any(pieces) => pieces.next().map(|(_, piece)| piece),
            Walk::Packed { runs, position } => {
                let run = runs.next()?;
                let (memory, len) = (*position, run.end - run.start);
                *position += len;
                Some(Piece { offset: run.start, memory, len })
            }
        }
    }
}

fn raw(workload: &dyn Workload, rank: u32, memory_bytes: Option<u64>) -> Pieces<'_> {
    let mut calls = workload.calls(rank).unwrap_or_else(|| vec![u64::MAX]).into_iter();
    let call_rest = calls.next().unwrap_or(0);
    let typed = memory_bytes.and_then(|bytes| {
        let runs = workload.memory_runs(rank)?;
        Some(Place::Typed { workload, rank, bytes, runs, rest: 0..0 })
    });
    Pieces {
        file: workload.runs(rank),
        file_rest: 0..0,
        place: typed.unwrap_or(Place::Packed),
        calls,
        call_rest,
        call: 0,
        position: 0,
    }
}

impl Pieces<'_> {
    /// Goes on to the call that the next byte belongs to.
    fn next_call(&mut self) -> Option<()> {
        while self.call_rest == 0 {
            self.call_rest = self.calls.next()?;
            self.call += 1;
            if let Place::Typed { workload, rank, runs, rest, .. } = &mut self.place {
                (*runs, *rest) = (workload.memory_runs(*rank)?, 0..0);
            }
        }
        Some(())
    }

    /// Where the next bytes lie in memory.
    fn memory(&mut self) -> Option<Range<u64>> {
        match &mut self.place {
            Place::Packed => Some(self.position..u64::MAX),
            Place::Typed { bytes, runs, rest, .. } => {
                while rest.is_empty() {
                    *rest = runs.next()?;
                }
                let base = *bytes * self.call;
                Some(base + rest.start..base + rest.end)
            }
        }
    }

    /// Takes bytes off everything.
    fn advance(&mut self, len: u64) {
        self.file_rest.start += len;
        self.call_rest -= len;
        self.position += len;
        if let Place::Typed { rest, .. } = &mut self.place {
            rest.start += len;
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = (u64, Piece);

    fn next(&mut self) -> Option<(u64, Piece)> {
        while self.file_rest.is_empty() {
            self.file_rest = self.file.next()?;
        }
        self.next_call()?;
        let memory = self.memory()?;
        let len = (self.file_rest.end - self.file_rest.start).min(self.call_rest);
        let len = len.min(memory.end - memory.start);
        let piece = Piece { offset: self.file_rest.start, memory: memory.start, len };
        self.advance(len);
        Some((self.call, piece))
    }
}

/// Makes one piece of neighbours.
struct Merged<'a> {
    pieces: Peekable<Pieces<'a>>,
}

impl Iterator for Merged<'_> {
    type Item = (u64, Piece);

    fn next(&mut self) -> Option<(u64, Piece)> {
        let (call, mut piece) = self.pieces.next()?;
        let follows = |piece: &Piece, (other_call, other): &(u64, Piece)| {
            let after = (piece.offset + piece.len, piece.memory + piece.len);
            *other_call == call && (other.offset, other.memory) == after
        };
        while let Some((_, next)) = self.pieces.next_if(|next| follows(&piece, next)) {
            piece.len += next.len;
        }
        Some((call, piece))
    }
}

/// What ranges leave out of `0..end`; they come in any order and may overlap.
pub(crate) fn complement(mut ranges: Vec<Range<u64>>, end: u64) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut left_out, mut covered) = (Vec::new(), 0);
    for range in ranges {
        if range.start > covered {
            left_out.push(covered..range.start.min(end));
        }
        covered = covered.max(range.end);
    }
    if covered < end {
        left_out.push(covered..end);
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario::{Datatype, View};

    /// Two calls of six bytes; in memory pairs with a gap of one byte, if asked for.
    struct Small;

    impl Workload for Small {
        fn name(&self) -> &str {
            "small"
        }

        fn shape(&self) -> String {
            String::new()
        }

        fn block_bytes(&self) -> u64 {
            4
        }

        fn file_bytes(&self) -> u64 {
            40
        }

        fn view(&self, _rank: u32) -> pario::Result<View> {
            Ok(View::new(0, &Datatype::byte(), &Datatype::byte()))
        }

        fn runs(&self, _rank: u32) -> Runs<'_> {
            Box::new([3..6, 6..7, 20..24, 30..34].into_iter())
        }

        fn calls(&self, _rank: u32) -> Option<Vec<u64>> {
            Some(vec![0, 6, 6])
        }

        fn memory_runs(&self, _rank: u32) -> Option<Runs<'_>> {
            Some(Box::new([0..2, 3..5, 6..8].into_iter()))
        }
    }

    fn all(memory_bytes: Option<u64>) -> Vec<(u64, [u64; 3])> {
        let flat = |(call, piece): (u64, Piece)| (call, [piece.offset, piece.memory, piece.len]);
        pieces(&Small, 0, memory_bytes).map(flat).collect()
    }

    #[test]
    fn pieces_end_with_runs_and_calls() {
        let packed = [(1, [3, 0, 4]), (1, [20, 4, 2]), (2, [22, 6, 2]), (2, [30, 8, 4])];
        assert_eq!(all(None), packed);
        let gaps = [
            (1, [3, 9, 2]),
            (1, [5, 12, 2]),
            (1, [20, 15, 2]),
            (2, [22, 18, 2]),
            (2, [30, 21, 2]),
            (2, [32, 24, 2]),
        ];
        assert_eq!(all(Some(9)), gaps);
    }

    /// Which way data is walked makes no difference for what is filled.
    #[test]
    fn walks_have_the_bytes_of_pieces() {
        let bytes = |pieces: &mut dyn Iterator<Item = Piece>| -> Vec<(u64, u64)> {
            let bytes =
                |piece: Piece| (0..piece.len).map(move |at| (piece.offset + at, piece.memory + at));
            pieces.flat_map(bytes).collect()
        };
        for memory_bytes in [None, Some(9)] {
            let mut merged = pieces(&Small, 0, memory_bytes).map(|(_, piece)| piece);
            assert_eq!(bytes(&mut walk(&Small, 0, memory_bytes)), bytes(&mut merged));
        }
        let mut packed = Walk::Packed { runs: Small.runs(0), position: 0 };
        let mut any = walk(&Small, 0, None);
        assert_eq!(bytes(&mut packed), bytes(&mut any));
    }

    #[test]
    fn what_is_left_out_is_found() {
        assert_eq!(complement(vec![5..7, 2..3, 6..8], 10), [0..2, 3..5, 8..10]);
        assert_eq!(complement(vec![0..4, 4..10], 10), []);
        assert_eq!(complement(vec![20..30, 1..2], 3), [0..1, 2..3]);
        assert_eq!(complement(vec![], 3).first(), Some(&(0..3)));
    }
}
