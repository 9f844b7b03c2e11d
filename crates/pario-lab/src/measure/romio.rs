//! What papers 003 and 004 say that ROMIO does, for comparison: no code of ROMIO, and none of
//! pario's plans.
//!
//! *Sieving*: windows of the size of the buffer from the first piece on, whatever the holes. A
//! write locks its window, reads it, changes it and writes it back. *Two-phase*: even file domains
//! over all ranks, or the first `cb_nodes` of them; lists of offsets and lengths go to the
//! aggregators; in each round, which is one window of `cb_buffer_size` of each domain, aggregators
//! announce to all ranks what they expect, bytes are exchanged, and then storage is accessed.
//!
//! Hints: `cb_nodes`, `cb_buffer_size`, `ind_rd_buffer_size`, `ind_wr_buffer_size`. Unlike
//! ROMIO, contiguous windows of a sieving write are locked as well; otherwise other ranks could
//! undo them.
//!
//! A rank that meets an error of storage keeps it and stays in the rounds, so that nobody waits for
//! it.

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use pario::comm::collective::all_gather;
use pario::comm::{Lane, Tag, block_on, receive};
use pario::model::Direction;
use pario::storage::{LockRange, Storage};
use pario::{CallStatistics, Error, Hints};

use super::team::{Team, lost};
use crate::failure::Failure;
use crate::scenario::pieces::Piece;

/// An open file, what was done there, and the first error.
pub(super) struct Disk {
    storage: Option<Arc<dyn Storage>>,
    error: Option<Error>,
    statistics: CallStatistics,
}

impl Disk {
    pub(super) fn new(storage: pario::Result<Arc<dyn Storage>>) -> Disk {
        let (storage, error) = match storage {
            Ok(storage) => (Some(storage), None),
            Err(error) => (None, Some(error)),
        };
        Disk { storage, error, statistics: CallStatistics::default() }
    }

    /// Closes the file; the statistics, or the first error.
    pub(super) fn close(self) -> pario::Result<CallStatistics> {
        let closed = self.storage.map_or(Ok(()), |storage| storage.close());
        match self.error {
            Some(error) => Err(error),
            None => closed.map(|()| self.statistics),
        }
    }

    /// Reads; what is not in the file is zero.
    fn read(&mut self, offset: u64, target: &mut [u8]) {
        let Some(storage) = self.storage.as_ref().filter(|_| self.error.is_none()) else { return };
        self.statistics.storage_reads += 1;
        match storage.read_at(offset, target) {
            Ok(count) => {
                self.statistics.storage_read_bytes += long(count);
                target[count..].fill(0);
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn write(&mut self, offset: u64, source: &[u8]) {
        let Some(storage) = self.storage.as_ref().filter(|_| self.error.is_none()) else { return };
        self.statistics.storage_writes += 1;
        self.statistics.storage_written_bytes += long(source.len());
        if let Err(error) = storage.write_at(offset, source) {
            self.error = Some(error);
        }
    }

    /// One access for each piece.
    pub(super) fn each(&mut self, direction: Direction, pieces: &[Piece], buffer: &mut [u8]) {
        for piece in pieces {
            self.count(piece.len);
            match direction {
                Direction::Write => self.write(piece.offset, &buffer[piece.range()]),
                Direction::Read => self.read(piece.offset, &mut buffer[piece.range()]),
            }
        }
    }

    /// Bytes that the program asked for.
    fn count(&mut self, bytes: u64) {
        self.statistics.requested_bytes += bytes;
        self.statistics.moved_bytes += bytes;
    }

    /// Does something while a range is locked.
    fn locked(&mut self, file: &Range<u64>, work: impl FnOnce(&mut Disk)) {
        let Some(storage) = self.storage.clone().filter(|_| self.error.is_none()) else { return };
        let range = LockRange { offset: file.start, len: file.end - file.start, exclusive: true };
        self.statistics.locks += 1;
        let guard = loop {
            match storage.try_lock(range) {
                Ok(Some(guard)) => break guard,
                Ok(None) => thread::yield_now(),
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
        };
        work(self);
        if let Err(error) = guard.release() {
            self.error.get_or_insert(error);
        }
    }
}

fn long(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

fn short(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// The part of a piece in a range of the file.
fn clip(piece: &Piece, file: &Range<u64>) -> Option<Piece> {
    let start = piece.offset.max(file.start);
    let end = (piece.offset + piece.len).min(file.end);
    let memory = piece.memory + start.checked_sub(piece.offset)?;
    (start < end).then(|| Piece { offset: start, memory, len: end - start })
}

/// One call of a rank.
pub(super) struct Romio<'a> {
    team: &'a Team<'a>,
    hints: &'a Hints,
    disk: &'a mut Disk,
}

impl<'a> Romio<'a> {
    pub(super) fn new(team: &'a Team<'a>, hints: &'a Hints, disk: &'a mut Disk) -> Romio<'a> {
        Romio { team, hints, disk }
    }

    /// Data sieving of this rank's pieces, which are in the order of the file.
    pub(super) fn sieve(&mut self, direction: Direction, pieces: &[Piece], buffer: &mut [u8]) {
        let buffer_bytes = match direction {
            Direction::Read => self.hints.sieve_read_buffer_bytes,
            Direction::Write => self.hints.sieve_write_buffer_bytes,
        };
        let end = pieces.last().map_or(0, |piece| piece.offset + piece.len);
        let mut window = Vec::new();
        let (mut at, mut next) = (0, pieces.first().map_or(0, |piece| piece.offset));
        while at < pieces.len() {
            let file = next..end.min(next.saturating_add(buffer_bytes));
            let inside = pieces[at..].iter().take_while(|piece| piece.offset < file.end);
            let parts: Vec<Piece> = inside.filter_map(|piece| clip(piece, &file)).collect();
            self.window(direction, &file, (&parts, buffer), &mut window);
            let done = |piece: &&Piece| piece.offset + piece.len <= file.end;
            at += pieces[at..].iter().take_while(done).count();
            next = pieces.get(at).map_or(end, |piece| piece.offset.max(file.end));
        }
    }

    fn window(
        &mut self,
        direction: Direction,
        file: &Range<u64>,
        (parts, buffer): (&[Piece], &mut [u8]),
        window: &mut Vec<u8>,
    ) {
        let bytes: u64 = parts.iter().map(|part| part.len).sum();
        let dense = bytes == file.end - file.start && parts.len() == 1;
        self.disk.count(bytes);
        window.resize(short(file.end - file.start), 0);
        let place = |part: &Piece| {
            let start = short(part.offset - file.start);
            start..start + short(part.len)
        };
        match direction {
            Direction::Read if dense => {
                self.disk.read(file.start, &mut buffer[parts[0].range()]);
            }
            Direction::Read => {
                self.disk.read(file.start, window);
                for part in parts {
                    buffer[part.range()].copy_from_slice(&window[place(part)]);
                }
            }
            Direction::Write if dense => {
                let source = &buffer[parts[0].range()];
                self.disk.locked(file, |disk| disk.write(file.start, source));
            }
            Direction::Write => self.disk.locked(file, |disk| {
                disk.read(file.start, window);
                for part in parts {
                    window[place(part)].copy_from_slice(&buffer[part.range()]);
                }
                disk.write(file.start, window);
            }),
        }
    }

    /// Two-phase I/O of all ranks' pieces.
    ///
    /// # Errors
    /// `Lost` if ranks cannot reach each other; errors of storage stay with the disk.
    pub(super) fn collective(
        &mut self,
        direction: Direction,
        pieces: &[Piece],
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        self.disk.count(pieces.iter().map(|piece| piece.len).sum());
        let domains = self.domains(pieces)?;
        let mut ways = Vec::new();
        for domain in &domains {
            let parts: Vec<Piece> = pieces.iter().filter_map(|piece| clip(piece, domain)).collect();
            ways.push(Cursor { parts, at: 0, done: 0 });
        }
        let mut served = self.exchange_lists(&ways)?;
        let rounds = self.rounds(served.as_ref())?;
        self.disk.statistics.rounds += rounds;
        for _ in 0..rounds {
            match direction {
                Direction::Write => self.write_round(&mut ways, served.as_mut(), buffer)?,
                Direction::Read => self.read_round(&mut ways, served.as_mut(), buffer)?,
            }
        }
        Ok(())
    }

    /// Equal parts of what all ranks touch, one for each aggregator; those are the first ranks.
    fn domains(&self, pieces: &[Piece]) -> Result<Vec<Range<u64>>, Failure> {
        let first = pieces.first().map_or(u64::MAX, |piece| piece.offset);
        let last = pieces.last().map_or(0, |piece| piece.offset + piece.len);
        let all = self.all(&[first, last])?;
        let start = all.iter().map(|pair| pair[0]).min().unwrap_or(0);
        let end = all.iter().map(|pair| pair[1]).max().unwrap_or(0).max(start);
        let ranks = self.team.size();
        let count = u64::from(self.hints.aggregators.unwrap_or(ranks).clamp(1, ranks));
        let share = (end - start).div_ceil(count);
        let bound = |number: u64| end.min(start.saturating_add(share.saturating_mul(number)));
        Ok((0..count).map(|number| bound(number)..bound(number + 1)).collect())
    }

    /// Numbers of all ranks.
    fn all(&self, own: &[u64]) -> Result<Vec<Vec<u64>>, Failure> {
        let comm = self.team.comm();
        let bytes = own.iter().flat_map(|number| number.to_le_bytes()).collect();
        let all = block_on(comm, all_gather(comm, self.team.next_call(), bytes));
        let all = all.map_err(|error| lost(&error))?;
        Ok(all.iter().map(|bytes| numbers(bytes)).collect())
    }

    fn send(&mut self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<(), Failure> {
        self.disk.statistics.messages += 1;
        self.disk.statistics.sent_bytes += long(bytes.len());
        self.team.comm().send(to, tag, bytes).map_err(|error| lost(&error))
    }

    fn receive(&self, from: u32, tag: Tag) -> Result<Vec<u8>, Failure> {
        let comm = self.team.comm();
        block_on(comm, receive(comm, from, tag)).map_err(|error| lost(&error))
    }

    fn tag(&self, lane: Lane, call: u64) -> Tag {
        Tag { call, lane }
    }

    /// Aggregators learn the offsets and lengths of all ranks in their domains.
    fn exchange_lists(&mut self, ways: &[Cursor]) -> Result<Option<Served>, Failure> {
        let tag = self.tag(Lane::Control, self.team.next_call());
        let rank = self.team.rank();
        for (aggregator, way) in (0..).zip(ways) {
            if aggregator != rank {
                let pairs = way.parts.iter().flat_map(|part| [part.offset, part.len]);
                self.send(aggregator, tag, pairs.flat_map(u64::to_le_bytes).collect())?;
            }
        }
        let Some(own) = ways.get(short(u64::from(rank))) else { return Ok(None) };
        let mut lists = Vec::new();
        for from in 0..self.team.size() {
            let list = match from == rank {
                true => own.parts.iter().map(|part| part.offset..part.offset + part.len).collect(),
                false => {
                    let pairs = numbers(&self.receive(from, tag)?);
                    pairs.chunks_exact(2).map(|pair| pair[0]..pair[0] + pair[1]).collect()
                }
            };
            lists.push(list);
        }
        Ok(Some(Served::new(lists, self.hints.collective_buffer_bytes)))
    }

    /// As many rounds as the aggregator with the most windows needs.
    fn rounds(&self, served: Option<&Served>) -> Result<u64, Failure> {
        let own = served.map_or(0, Served::windows);
        let all = self.all(&[own])?;
        Ok(all.iter().map(|one| one[0]).max().unwrap_or(0))
    }

    /// Aggregators announce what they move in this round; what each of them moves of this rank.
    fn announce(
        &mut self,
        call: u64,
        aggregators: usize,
        window: Option<&Window>,
    ) -> Result<Vec<u64>, Failure> {
        let (tag, rank) = (self.tag(Lane::Control, call), self.team.rank());
        if let Some(window) = window {
            for to in (0..self.team.size()).filter(|&to| to != rank) {
                self.send(to, tag, window.bytes(to).to_le_bytes().to_vec())?;
            }
        }
        let mut all = Vec::new();
        for from in (0..).zip(0..aggregators).map(|(from, _)| from) {
            all.push(match (from == rank, window) {
                (true, Some(window)) => window.bytes(rank),
                (true, None) => 0,
                (false, _) => numbers(&self.receive(from, tag)?).first().copied().unwrap_or(0),
            });
        }
        Ok(all)
    }

    fn write_round(
        &mut self,
        ways: &mut [Cursor],
        served: Option<&mut Served>,
        buffer: &[u8],
    ) -> Result<(), Failure> {
        let call = self.team.next_call();
        let window = served.and_then(Served::next);
        let expected = self.announce(call, ways.len(), window.as_ref())?;
        let (tag, rank) = (self.tag(Lane::Data, call), self.team.rank());
        let mut own = Vec::new();
        for (aggregator, (way, &bytes)) in (0..).zip(ways.iter_mut().zip(&expected)) {
            if bytes > 0 {
                let packed: Vec<u8> = way
                    .take(bytes)
                    .iter()
                    .flat_map(|part| &buffer[part.range()])
                    .copied()
                    .collect();
                match aggregator == rank {
                    true => own = packed,
                    false => self.send(aggregator, tag, packed)?,
                }
            }
        }
        let Some(window) = window else { return Ok(()) };
        let mut bytes = vec![0; short(window.file.end - window.file.start)];
        if window.has_holes() {
            self.disk.read(window.file.start, &mut bytes);
        }
        for (from, parts) in (0..).zip(&window.parts) {
            if !parts.is_empty() {
                let data = match from == rank {
                    true => std::mem::take(&mut own),
                    false => self.receive(from, tag)?,
                };
                let mut at = 0;
                for part in parts {
                    let place = window.place(part);
                    let len = place.len();
                    bytes[place].copy_from_slice(&data[at..at + len]);
                    at += len;
                }
            }
        }
        if !bytes.is_empty() {
            self.disk.write(window.file.start, &bytes);
        }
        Ok(())
    }

    fn read_round(
        &mut self,
        ways: &mut [Cursor],
        served: Option<&mut Served>,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        let call = self.team.next_call();
        let window = served.and_then(Served::next);
        let expected = self.announce(call, ways.len(), window.as_ref())?;
        let (tag, rank) = (self.tag(Lane::Data, call), self.team.rank());
        let mut own = Vec::new();
        if let Some(window) = &window {
            let mut bytes = vec![0; short(window.file.end - window.file.start)];
            if !bytes.is_empty() {
                self.disk.read(window.file.start, &mut bytes);
            }
            for (to, parts) in (0..).zip(&window.parts) {
                if !parts.is_empty() {
                    let slices = parts.iter().flat_map(|part| &bytes[window.place(part)]);
                    let packed: Vec<u8> = slices.copied().collect();
                    match to == rank {
                        true => own = packed,
                        false => self.send(to, tag, packed)?,
                    }
                }
            }
        }
        for (aggregator, (way, &bytes)) in (0..).zip(ways.iter_mut().zip(&expected)) {
            if bytes > 0 {
                let data = match aggregator == rank {
                    true => std::mem::take(&mut own),
                    false => self.receive(aggregator, tag)?,
                };
                let mut at = 0;
                for part in way.take(bytes) {
                    let len = short(part.len);
                    buffer[part.range()].copy_from_slice(&data[at..at + len]);
                    at += len;
                }
            }
        }
        Ok(())
    }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// A rank's pieces of one domain, and how far they have moved.
struct Cursor {
    parts: Vec<Piece>,
    at: usize,
    done: u64,
}

impl Cursor {
    /// The next bytes.
    fn take(&mut self, mut bytes: u64) -> Vec<Piece> {
        let mut taken = Vec::new();
        while bytes > 0
            && let Some(part) = self.parts.get(self.at)
        {
            let len = bytes.min(part.len - self.done);
            let (offset, memory) = (part.offset + self.done, part.memory + self.done);
            taken.push(Piece { offset, memory, len });
            bytes -= len;
            self.done += len;
            if self.done == part.len {
                (self.at, self.done) = (self.at + 1, 0);
            }
        }
        taken
    }
}

/// What an aggregator serves.
struct Served {
    /// Ranges of each rank, and the first that is not done.
    lists: Vec<(Vec<Range<u64>>, usize)>,
    /// From the first to the last byte of any rank.
    file: Range<u64>,
    window_bytes: u64,
    next: u64,
}

impl Served {
    fn new(lists: Vec<Vec<Range<u64>>>, window_bytes: u64) -> Served {
        let start = lists.iter().flatten().map(|range| range.start).min().unwrap_or(0);
        let end = lists.iter().flatten().map(|range| range.end).max().unwrap_or(start);
        let lists = lists.into_iter().map(|list| (list, 0)).collect();
        Served { lists, file: start..end, window_bytes: window_bytes.max(1), next: start }
    }

    fn windows(&self) -> u64 {
        (self.file.end - self.file.start).div_ceil(self.window_bytes)
    }

    /// The next window: from the first to the last byte of any rank there.
    fn next(&mut self) -> Option<Window> {
        if self.next >= self.file.end {
            return None;
        }
        let file = self.next..self.file.end.min(self.next.saturating_add(self.window_bytes));
        self.next = file.end;
        let mut parts = Vec::new();
        for (list, at) in &mut self.lists {
            let mut own = Vec::new();
            while let Some(range) = list.get(*at).filter(|range| range.start < file.end) {
                own.push(range.start.max(file.start)..range.end.min(file.end));
                if range.end > file.end {
                    break;
                }
                *at += 1;
            }
            parts.push(own);
        }
        let start = parts.iter().flatten().map(|part| part.start).min().unwrap_or(file.start);
        let end = parts.iter().flatten().map(|part| part.end).max().unwrap_or(start);
        Some(Window { file: start..end, parts })
    }
}

/// A window of an aggregator, with the ranges of each rank there.
struct Window {
    file: Range<u64>,
    parts: Vec<Vec<Range<u64>>>,
}

impl Window {
    fn bytes(&self, rank: u32) -> u64 {
        let own = self.parts.get(short(u64::from(rank)));
        own.map_or(0, |parts| parts.iter().map(|part| part.end - part.start).sum())
    }

    /// Whether some byte belongs to nobody: the ranges, in order, leave a gap.
    fn has_holes(&self) -> bool {
        let mut all: Vec<&Range<u64>> = self.parts.iter().flatten().collect();
        all.sort_unstable_by_key(|range| range.start);
        let mut end = self.file.start;
        for range in all {
            if range.start > end {
                return true;
            }
            end = end.max(range.end);
        }
        end < self.file.end
    }

    fn place(&self, part: &Range<u64>) -> Range<usize> {
        short(part.start - self.file.start)..short(part.end - self.file.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_an_aggregator_have_all_ranges_in_order() {
        let lists = vec![vec![0..4, 10..30], vec![4..8], vec![]];
        let mut served = Served::new(lists, 16);
        assert_eq!(served.windows(), 2);
        let first = served.next().unwrap();
        assert_eq!((first.file.clone(), first.has_holes()), (0..16, true));
        assert_eq!([0, 1, 2].map(|rank| first.bytes(rank)), [10, 4, 0]);
        let second = served.next().unwrap();
        assert_eq!((second.file.clone(), second.has_holes()), (16..30, false));
        assert!(served.next().is_none());
    }

    #[test]
    fn a_cursor_goes_on_where_it_stopped() {
        let parts = vec![
            Piece { offset: 100, memory: 0, len: 10 },
            Piece { offset: 200, memory: 10, len: 5 },
        ];
        let mut cursor = Cursor { parts, at: 0, done: 0 };
        assert_eq!(cursor.take(4), [Piece { offset: 100, memory: 0, len: 4 }]);
        let rest =
            [Piece { offset: 104, memory: 4, len: 6 }, Piece { offset: 200, memory: 10, len: 2 }];
        assert_eq!(cursor.take(8), rest);
        assert_eq!(cursor.take(9), [Piece { offset: 202, memory: 12, len: 3 }]);
    }

    #[test]
    fn pieces_are_cut_at_domains() {
        let piece = Piece { offset: 10, memory: 3, len: 10 };
        assert_eq!(clip(&piece, &(0..15)), Some(Piece { offset: 10, memory: 3, len: 5 }));
        assert_eq!(clip(&piece, &(15..99)), Some(Piece { offset: 15, memory: 8, len: 5 }));
        assert_eq!(clip(&piece, &(20..99)), None);
    }
}
