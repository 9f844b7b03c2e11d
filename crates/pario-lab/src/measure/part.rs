//! A rank's part of a workload: its memory, its calls, and what is expected there.

use std::ops::Range;

use pario::model::Direction;
use pario::{Datatype, View};
use serde::{Deserialize, Serialize};

use super::opened::{BenchFile, CallData};
use super::team::Team;
use super::verify::{Mismatch, Pattern, check_gaps, fill_gaps};
use crate::failure::Failure;
use crate::scenario::contender::Level;
use crate::scenario::pieces::{Piece, Walk, complement, pieces, walk};
use crate::scenario::workload::{Memory, Workload};

/// A rank's bytes and pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    /// Pieces that are contiguous in the file.
    pub(crate) pieces: u64,
    /// Pieces that are contiguous in the file and in memory: calls of levels 0 and 1.
    pub(crate) calls: u64,
}

/// Sizes over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) bytes: u64,
    pub(crate) pieces: u64,
    /// Calls of all ranks, and of the one with the most.
    pub(crate) calls: u64,
    pub(crate) calls_max: u64,
}

/// A workload with this rank's part of it.
pub(crate) struct Part<'a> {
    pub(crate) workload: &'a dyn Workload,
    rank: u32,
    /// The rank whose bytes are read, and whether any rank reads others than its own.
    reader: u32,
    pub(crate) reorders: bool,
    view: View,
    read_view: View,
    memory: Option<Memory>,
    buffer: Vec<u8>,
    gaps: Vec<Range<usize>>,
    /// Data without gaps, for Block I/O; the buffer itself if that has none.
    packed: Option<Vec<u8>>,
    /// Bytes of each call, at this rank and at the one whose bytes are read.
    calls: [Vec<u64>; 2],
    /// This rank's place in the file of Block I/O.
    pub(crate) block_start: u64,
    pub(crate) sizes: Sizes,
    /// Bytes of no rank.
    pub(crate) holes: Vec<Range<u64>>,
}

/// What a rank makes by itself.
struct Own {
    view: View,
    read_view: View,
    memory: Option<Memory>,
    size: Size,
    calls: [Vec<u64>; 2],
    buffer: Vec<u8>,
    packed: Option<Vec<u8>>,
}

impl<'a> Part<'a> {
    /// Makes the buffers; `packed` leaves gaps in memory out.
    pub(crate) fn new(
        team: &Team<'_>,
        workload: &'a dyn Workload,
        packed: bool,
    ) -> Result<Part<'a>, Failure> {
        let rank = team.rank();
        let (own, size) = match Own::new(workload, rank, packed) {
            Ok(own) => {
                let size = own.size;
                (Some(own), Ok(size))
            }
            Err(failure) => (None, Err(failure)),
        };
        let all = team.all(size)?;
        let own = own.ok_or(Failure::Told(1))?;
        let sizes = Sizes::of(&all);
        let before = all.iter().zip(0..rank).map(|(size, _)| size.bytes);
        let mut part = Part {
            workload,
            rank,
            reader: workload.reader(rank),
            reorders: (0..team.size()).any(|rank| workload.reader(rank) != rank),
            view: own.view,
            read_view: own.read_view,
            memory: own.memory,
            buffer: own.buffer,
            gaps: Vec::new(),
            packed: own.packed,
            calls: own.calls,
            block_start: before.sum(),
            sizes,
            holes: holes(workload, team.size(), &sizes),
        };
        part.find_gaps();
        Ok(part)
    }

    fn find_gaps(&mut self) {
        let taken =
            self.pieces(Direction::Write).map(|piece| piece.memory..piece.memory + piece.len);
        let end = u64::try_from(self.buffer.len()).unwrap_or(u64::MAX);
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        self.gaps = match self.packed {
            None => Vec::new(),
            Some(_) => complement(taken.collect(), end)
                .into_iter()
                .map(|gap| at(gap.start)..at(gap.end))
                .collect(),
        };
        fill_gaps(&mut self.buffer, &self.gaps);
    }

    /// How data lies in memory, in a word.
    pub(crate) fn memory_name(&self) -> &'static str {
        match (&self.memory, self.gaps.is_empty()) {
            (None, _) => "packed",
            (Some(_), true) => "reordered",
            (Some(_), false) => "gaps",
        }
    }

    /// Number of calls at levels 2 and 3.
    pub(crate) fn call_count(&self) -> u64 {
        len(&self.calls[0])
    }

    /// What is moved in one direction: this rank's bytes, or those that it reads.
    fn owner(&self, direction: Direction) -> u32 {
        match direction {
            Direction::Write => self.rank,
            Direction::Read => self.reader,
        }
    }

    /// Pieces in the file and in the buffer.
    fn pieces(&self, direction: Direction) -> Walk<'a> {
        walk(self.workload, self.owner(direction), self.memory_bytes())
    }

    /// Bytes of memory for one call, unless data is packed there.
    fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_ref().map(|memory| memory.bytes)
    }

    /// Pieces in the file and in the data without gaps.
    fn packed_pieces(&self) -> Walk<'a> {
        walk(self.workload, self.rank, None)
    }

    /// What has to move at levels 0 and 1, one call each.
    pub(crate) fn piece_calls(&self, direction: Direction) -> Vec<Piece> {
        let pieces = pieces(self.workload, self.owner(direction), self.memory_bytes());
        pieces.map(|(_, piece)| piece).collect()
    }

    /// The same, by the calls of levels 2 and 3.
    pub(crate) fn pieces_by_call(&self, direction: Direction) -> Vec<Vec<Piece>> {
        let count = usize::try_from(self.call_count()).unwrap_or(usize::MAX);
        let mut calls = vec![Vec::new(); count];
        let pieces = pieces(self.workload, self.owner(direction), self.memory_bytes());
        for (call, piece) in pieces {
            if let Some(call) = usize::try_from(call).ok().and_then(|call| calls.get_mut(call)) {
                call.push(piece);
            }
        }
        calls
    }

    /// The memory of all calls.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The data of Block I/O.
    pub(crate) fn packed(&mut self) -> &mut [u8] {
        self.packed.as_mut().unwrap_or(&mut self.buffer)
    }

    /// Fills the memory that is moved next.
    pub(crate) fn fill(&mut self, pattern: Pattern, direction: Direction, block: bool) {
        if block {
            let pieces = self.packed_pieces();
            pattern.fill(self.packed(), pieces);
        } else {
            let pieces = self.pieces(direction);
            pattern.fill(&mut self.buffer, pieces);
        }
    }

    /// Compares what was read; gaps must be untouched.
    pub(crate) fn check(&self, pattern: Pattern, block: bool) -> Result<(), Failure> {
        let explain = |mismatch: Mismatch| Failure::during(format!("rank {}", self.rank), mismatch);
        if block {
            let packed = self.packed.as_ref().unwrap_or(&self.buffer);
            return pattern.check(packed, self.packed_pieces()).map_err(explain);
        }
        pattern.check(&self.buffer, self.pieces(Direction::Read)).map_err(explain)?;
        check_gaps(&self.buffer, &self.gaps)
    }

    /// Compares this rank's part of a file of Block I/O.
    pub(crate) fn check_block(&self, pattern: Pattern, found: &[u8]) -> Result<(), Failure> {
        let checked = pattern.check(found, self.packed_pieces());
        checked.map_err(|mismatch| Failure::during("in Block I/O", mismatch))
    }

    /// Bytes of this rank.
    pub(crate) fn bytes(&self) -> usize {
        self.packed.as_ref().unwrap_or(&self.buffer).len()
    }

    pub(crate) fn view(&self, direction: Direction) -> &View {
        match direction {
            Direction::Write => &self.view,
            Direction::Read => &self.read_view,
        }
    }

    /// How data of a call lies in memory, if not in one piece.
    pub(crate) fn memory_datatype(&self) -> Option<&Datatype> {
        self.memory.as_ref().map(|memory| &memory.datatype)
    }

    /// Makes all calls of a step.
    ///
    /// A rank that fails in an independent call does not make its other ones.
    ///
    /// # Errors
    /// The first error of a call.
    pub(crate) fn perform(
        &mut self,
        file: &BenchFile,
        level: Level,
        direction: Direction,
        piece_calls: &[Piece],
    ) -> pario::Result<()> {
        match level.is_by_piece() {
            true => self.perform_pieces(file, level, direction, piece_calls),
            false => self.perform_calls(file, level, direction),
        }
    }

    fn perform_pieces(
        &mut self,
        file: &BenchFile,
        level: Level,
        direction: Direction,
        piece_calls: &[Piece],
    ) -> pario::Result<()> {
        let collective = level.is_collective();
        let own = u64::try_from(piece_calls.len()).unwrap_or(u64::MAX);
        let missing = if collective { self.sizes.calls_max - own } else { 0 };
        let nothing = Piece { offset: 0, memory: 0, len: 0 };
        let nothing = (0..missing).map(|_| nothing);
        for piece in piece_calls.iter().copied().chain(nothing) {
            let (origin, bytes) = (piece.range().start, piece.range().len());
            let data = CallData { buffer: &mut self.buffer, origin, bytes, datatype: None };
            file.transfer(direction, collective, piece.offset, data)?;
        }
        Ok(())
    }

    fn perform_calls(
        &mut self,
        file: &BenchFile,
        level: Level,
        direction: Direction,
    ) -> pario::Result<()> {
        let calls = match direction {
            Direction::Write => &self.calls[0],
            Direction::Read => &self.calls[1],
        };
        let (mut position, mut origin) = (0, 0);
        for &call in calls {
            let bytes = usize::try_from(call).unwrap_or(usize::MAX);
            let memory = self.memory.as_ref().filter(|_| bytes > 0);
            let datatype = memory.map(|memory| &memory.datatype);
            let data = CallData { buffer: &mut self.buffer, origin, bytes, datatype };
            file.transfer(direction, level.is_collective(), position, data)?;
            position += call;
            origin += match &self.memory {
                Some(memory) => usize::try_from(memory.bytes).unwrap_or(usize::MAX),
                None => bytes,
            };
        }
        Ok(())
    }
}

fn len(calls: &[u64]) -> u64 {
    u64::try_from(calls.len()).unwrap_or(u64::MAX)
}

impl Own {
    fn new(workload: &dyn Workload, rank: u32, packed: bool) -> Result<Own, Failure> {
        let failed = |error: pario::Error| Failure::during("making datatypes", error);
        let view = workload.view(rank).map_err(failed)?;
        let reader = workload.reader(rank);
        let read_view = match reader == rank {
            true => view.clone(),
            false => workload.view(reader).map_err(failed)?,
        };
        let memory = match packed {
            true => None,
            false => workload.memory(rank).map_err(failed)?,
        };
        let size = size(workload, rank, memory.as_ref().map(|memory| memory.bytes));
        let calls = |rank| workload.calls(rank).unwrap_or_else(|| vec![size.bytes]);
        let calls = [calls(rank), calls(reader)];
        let memory_bytes = match &memory {
            Some(memory) => memory.bytes.saturating_mul(len(&calls[0])),
            None => size.bytes,
        };
        let buffer = allocate(memory_bytes, rank)?;
        let packed = memory.as_ref().map(|_| allocate(size.bytes, rank)).transpose()?;
        Ok(Own { view, read_view, memory, size, calls, buffer, packed })
    }
}

/// A rank's bytes and pieces.
pub(crate) fn size(workload: &dyn Workload, rank: u32, memory_bytes: Option<u64>) -> Size {
    let mut size = Size { bytes: 0, pieces: 0, calls: 0 };
    let mut end = None;
    for run in workload.runs(rank) {
        size.bytes += run.end - run.start;
        size.pieces += u64::from(end != Some(run.start));
        end = Some(run.end);
    }
    size.calls = match memory_bytes.is_none() && workload.calls(rank).is_none() {
        // Packed data of one call is contiguous in memory wherever it is in the file.
        true => size.pieces,
        false => u64::try_from(pieces(workload, rank, memory_bytes).count()).unwrap_or(u64::MAX),
    };
    size
}

impl Sizes {
    pub(crate) fn of(all: &[Size]) -> Sizes {
        Sizes {
            bytes: all.iter().map(|size| size.bytes).sum(),
            pieces: all.iter().map(|size| size.pieces).sum(),
            calls: all.iter().map(|size| size.calls).sum(),
            calls_max: all.iter().map(|size| size.calls).max().unwrap_or(0),
        }
    }
}

/// Bytes that no rank has. A file with as many bytes as the ranks together has none.
fn holes(workload: &dyn Workload, ranks: u32, sizes: &Sizes) -> Vec<Range<u64>> {
    if sizes.bytes == workload.file_bytes() {
        return Vec::new();
    }
    let all = (0..ranks).flat_map(|rank| workload.runs(rank)).collect();
    complement(all, workload.file_bytes())
}

fn allocate(bytes: u64, rank: u32) -> Result<Vec<u8>, Failure> {
    let mut buffer = Vec::new();
    let room = usize::try_from(bytes).ok().filter(|&len| buffer.try_reserve_exact(len).is_ok());
    let room = room.ok_or_else(|| {
        Failure::Run(format!("no memory for {bytes} bytes of rank {rank}; use less --bytes"))
    })?;
    buffer.resize(room, 0);
    Ok(buffer)
}
