//! What papers 003 and 004 say that ROMIO does, for comparison: no code of ROMIO, and none of
//! pario's plans.
//!
//! *Sieving*: windows of the size of the buffer from the first piece on, whatever the holes. A
//! write locks its window, reads it, changes it and writes it back. *Two-phase*: even file domains
//! over all ranks, or over `cb_nodes` of them, of each node the first ones. Lists of offsets and
//! lengths go to the aggregators. In each round, which is one window of `cb_buffer_size` of each
//! domain, aggregators announce to all ranks what they expect, bytes are exchanged, and then
//! storage is accessed.
//!
//! Calls are futures, so that threads, processes and simulated ranks can make them. Simulated ranks
//! pay for copies and lists; for others that costs nothing.
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
use pario::comm::{CoreWork, Lane, Tag, catch_up, charge, pause, receive};
use pario::model::Direction;
use pario::storage::{LockGuard, LockRange, Storage};
use pario::{CallStatistics, Communicator, Error, Hints};

use super::memory::CallerMemory;
use super::team::{Team, lost};
use crate::failure::Failure;
use crate::scenario::pieces::Piece;

/// An open file, what was done there, and the first error.
pub(crate) struct Disk<'a> {
    comm: &'a dyn Communicator,
    storage: Option<Arc<dyn Storage>>,
    error: Option<Error>,
    statistics: CallStatistics,
}

impl<'a> Disk<'a> {
    pub(crate) fn new(
        comm: &'a dyn Communicator,
        storage: pario::Result<Arc<dyn Storage>>,
    ) -> Disk<'a> {
        let (storage, error) = match storage {
            Ok(storage) => (Some(storage), None),
            Err(error) => (None, Some(error)),
        };
        Disk { comm, storage, error, statistics: CallStatistics::default() }
    }

    /// Closes the file; the statistics, or the first error.
    pub(crate) fn close(self) -> pario::Result<CallStatistics> {
        let closed = self.storage.map_or(Ok(()), |storage| storage.close());
        match self.error {
            Some(error) => Err(error),
            None => closed.map(|()| self.statistics),
        }
    }

    /// Reads; what is not in the file is zero.
    async fn read(&mut self, offset: u64, target: &mut [u8]) {
        let Some(storage) = self.storage.as_ref().filter(|_| self.error.is_none()) else { return };
        self.statistics.storage_reads += 1;
        match storage.read_at(offset, target) {
            Ok(count) => {
                self.statistics.storage_read_bytes += long(count);
                target[count..].fill(0);
            }
            Err(error) => self.error = Some(error),
        }
        catch_up(self.comm).await;
    }

    async fn write(&mut self, offset: u64, source: &[u8]) {
        let Some(storage) = self.storage.as_ref().filter(|_| self.error.is_none()) else { return };
        self.statistics.storage_writes += 1;
        self.statistics.storage_written_bytes += long(source.len());
        if let Err(error) = storage.write_at(offset, source) {
            self.error = Some(error);
        }
        catch_up(self.comm).await;
    }

    /// One access for each piece.
    pub(crate) async fn each(
        &mut self,
        direction: Direction,
        pieces: impl IntoIterator<Item = Piece>,
        memory: &mut CallerMemory<'_>,
    ) {
        for piece in pieces {
            self.count(piece.len);
            match direction {
                Direction::Write => self.write(piece.offset, memory.of(&piece)).await,
                Direction::Read => self.read(piece.offset, memory.of(&piece)).await,
            }
        }
    }

    /// Bytes that the program asked for.
    fn count(&mut self, bytes: u64) {
        self.statistics.requested_bytes += bytes;
        self.statistics.moved_bytes += bytes;
    }

    /// Locks a range; `None` after an error.
    async fn lock(&mut self, file: &Range<u64>) -> Option<LockGuard> {
        let storage = self.storage.clone().filter(|_| self.error.is_none())?;
        let range = LockRange { offset: file.start, len: file.end - file.start, exclusive: true };
        self.statistics.locks += 1;
        loop {
            match storage.try_lock(range) {
                Ok(Some(guard)) => return Some(guard),
                Ok(None) => {
                    if self.comm.clock().is_none() {
                        thread::yield_now();
                    }
                    pause().await;
                }
                Err(error) => {
                    self.error = Some(error);
                    return None;
                }
            }
        }
    }

    fn release(&mut self, guard: Option<LockGuard>) {
        if let Some(Err(error)) = guard.map(LockGuard::release) {
            self.error.get_or_insert(error);
        }
    }

    /// Bytes are copied.
    async fn copied(&self, bytes: u64, pieces: usize) {
        charge(self.comm, || CoreWork::Copy { bytes, pieces: long(pieces) });
        catch_up(self.comm).await;
    }

    /// A list of offsets is made or read.
    async fn listed(&self, pieces: usize) {
        charge(self.comm, || CoreWork::List { pieces: long(pieces) });
        catch_up(self.comm).await;
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
pub(crate) struct Romio<'a, 'b> {
    team: &'a Team<'a>,
    hints: &'a Hints,
    disk: &'a mut Disk<'b>,
}

impl<'a, 'b> Romio<'a, 'b> {
    pub(crate) fn new(
        team: &'a Team<'a>,
        hints: &'a Hints,
        disk: &'a mut Disk<'b>,
    ) -> Romio<'a, 'b> {
        Romio { team, hints, disk }
    }

    /// Data sieving of this rank's pieces, which are in the order of the file.
    pub(crate) async fn sieve(
        &mut self,
        direction: Direction,
        pieces: &[Piece],
        memory: &mut CallerMemory<'_>,
    ) {
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
            self.window(direction, &file, (&parts, memory), &mut window).await;
            let done = |piece: &&Piece| piece.offset + piece.len <= file.end;
            at += pieces[at..].iter().take_while(done).count();
            next = pieces.get(at).map_or(end, |piece| piece.offset.max(file.end));
        }
    }

    async fn window(
        &mut self,
        direction: Direction,
        file: &Range<u64>,
        (parts, memory): (&[Piece], &mut CallerMemory<'_>),
        window: &mut Vec<u8>,
    ) {
        let bytes: u64 = parts.iter().map(|part| part.len).sum();
        let dense = bytes == file.end - file.start && parts.len() == 1;
        self.disk.count(bytes);
        let guard = match direction {
            Direction::Read => None,
            Direction::Write => self.disk.lock(file).await,
        };
        match direction {
            Direction::Read if dense => self.disk.read(file.start, memory.of(&parts[0])).await,
            Direction::Write if dense => self.disk.write(file.start, memory.of(&parts[0])).await,
            _ => {
                window.resize(short(file.end - file.start), 0);
                self.disk.read(file.start, window).await;
                self.disk.copied(bytes, parts.len()).await;
                match direction {
                    Direction::Read => memory.take(parts, file.start, window),
                    Direction::Write => {
                        memory.fill(parts, file.start, window);
                        self.disk.write(file.start, window).await;
                    }
                }
            }
        }
        self.disk.release(guard);
    }

    /// Two-phase I/O of all ranks' pieces.
    ///
    /// # Errors
    /// `Lost` if ranks cannot reach each other; errors of storage stay with the disk.
    pub(crate) async fn collective(
        &mut self,
        direction: Direction,
        pieces: &[Piece],
        memory: &mut CallerMemory<'_>,
    ) -> Result<(), Failure> {
        let (comm, before) = (self.team.comm(), self.disk.statistics.storage);
        let began = comm.now();
        self.disk.count(pieces.iter().map(|piece| piece.len).sum());
        let mut ways = self.ways(pieces).await?;
        let mut served = self.exchange_lists(&ways).await?;
        let rounds = self.rounds(served.as_ref()).await?;
        self.disk.statistics.rounds += rounds;
        for _ in 0..rounds {
            match direction {
                Direction::Write => self.write_round(&mut ways, served.as_mut(), memory).await?,
                Direction::Read => self.read_round(&mut ways, served.as_mut(), memory).await?,
            }
        }
        let storage = self.disk.statistics.storage - before;
        let elapsed = comm.now().saturating_sub(began);
        self.disk.statistics.exchange += elapsed.saturating_sub(storage);
        Ok(())
    }

    /// The aggregators: the first rank of each node, then the second one of each, and so on, but
    /// no more than hints say; in the order of their numbers.
    fn aggregators(&self) -> Vec<u32> {
        let (comm, size) = (self.team.comm(), self.team.size());
        let place =
            |rank: u32| (0..rank).filter(|&other| comm.node(other) == comm.node(rank)).count();
        let mut ranks: Vec<u32> = (0..size).collect();
        if let Some(count) = self.hints.aggregators.filter(|&count| count < size) {
            ranks.sort_by_cached_key(|&rank| place(rank));
            ranks.truncate(short(u64::from(count.max(1))));
            ranks.sort_unstable();
        }
        ranks
    }

    /// This rank's pieces for each aggregator. Domains are equal parts of what all ranks touch.
    async fn ways(&self, pieces: &[Piece]) -> Result<Vec<Cursor>, Failure> {
        let first = pieces.first().map_or(u64::MAX, |piece| piece.offset);
        let last = pieces.last().map_or(0, |piece| piece.offset + piece.len);
        let all = self.all(&[first, last]).await?;
        let start = all.iter().map(|pair| pair[0]).min().unwrap_or(0);
        let end = all.iter().map(|pair| pair[1]).max().unwrap_or(0).max(start);
        let aggregators = self.aggregators();
        let share = (end - start).div_ceil(long(aggregators.len()));
        let bound = |number: u64| end.min(start.saturating_add(share.saturating_mul(number)));
        let way = |(number, aggregator): (u64, u32)| {
            let domain = bound(number)..bound(number + 1);
            let first = pieces.partition_point(|piece| piece.offset + piece.len <= domain.start);
            let inside = pieces[first..].iter().take_while(|piece| piece.offset < domain.end);
            let parts = inside.filter_map(|piece| clip(piece, &domain)).collect();
            Cursor { aggregator, parts, at: 0, done: 0 }
        };
        Ok((0..).zip(aggregators).map(way).collect())
    }

    /// Numbers of all ranks.
    async fn all(&self, own: &[u64]) -> Result<Vec<Vec<u64>>, Failure> {
        let bytes = own.iter().flat_map(|number| number.to_le_bytes()).collect();
        let all = all_gather(self.team.comm(), self.team.next_call(), bytes).await;
        let all = all.map_err(|error| lost(&error))?;
        Ok(all.iter().map(|bytes| numbers(bytes).collect()).collect())
    }

    fn send(&mut self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<(), Failure> {
        self.disk.statistics.messages += 1;
        self.disk.statistics.sent_bytes += long(bytes.len());
        self.team.comm().send(to, tag, bytes).map_err(|error| lost(&error))
    }

    async fn receive(&self, from: u32, tag: Tag) -> Result<Vec<u8>, Failure> {
        receive(self.team.comm(), from, tag).await.map_err(|error| lost(&error))
    }

    fn tag(&self, lane: Lane, call: u64) -> Tag {
        Tag { call, lane }
    }

    /// Aggregators learn the offsets and lengths of all ranks in their domains.
    async fn exchange_lists(&mut self, ways: &[Cursor]) -> Result<Option<Served>, Failure> {
        let tag = self.tag(Lane::Control, self.team.next_call());
        let rank = self.team.rank();
        let mut own = None;
        for way in ways {
            self.disk.listed(way.parts.len()).await;
            let pairs = way.parts.iter().flat_map(|part| [part.offset, part.len]);
            let list = pairs.flat_map(u64::to_le_bytes).collect();
            match way.aggregator == rank {
                true => own = Some(list),
                false => self.send(way.aggregator, tag, list)?,
            }
        }
        let Some(mut own) = own else { return Ok(None) };
        let mut lists = Vec::new();
        for from in 0..self.team.size() {
            let list = match from == rank {
                true => std::mem::take(&mut own),
                false => self.receive(from, tag).await?,
            };
            self.disk.listed(list.len() / LISTED_BYTES).await;
            lists.push(list);
        }
        Ok(Some(Served::new(lists, self.hints.collective_buffer_bytes)))
    }

    /// As many rounds as the aggregator with the most windows needs.
    async fn rounds(&self, served: Option<&Served>) -> Result<u64, Failure> {
        let own = served.map_or(0, Served::windows);
        let all = self.all(&[own]).await?;
        Ok(all.iter().map(|one| one[0]).max().unwrap_or(0))
    }

    /// Aggregators announce what they move in this round; what each of them moves of this rank.
    async fn announce(
        &mut self,
        call: u64,
        ways: &[Cursor],
        window: Option<&Window>,
    ) -> Result<Vec<u64>, Failure> {
        let (tag, rank) = (self.tag(Lane::Control, call), self.team.rank());
        if let Some(window) = window {
            for to in (0..self.team.size()).filter(|&to| to != rank) {
                self.send(to, tag, window.bytes(to).to_le_bytes().to_vec())?;
            }
        }
        let mut all = Vec::new();
        for from in ways.iter().map(|way| way.aggregator) {
            all.push(match (from == rank, window) {
                (true, Some(window)) => window.bytes(rank),
                (true, None) => 0,
                (false, _) => numbers(&self.receive(from, tag).await?).next().unwrap_or(0),
            });
        }
        Ok(all)
    }

    async fn write_round(
        &mut self,
        ways: &mut [Cursor],
        served: Option<&mut Served>,
        memory: &mut CallerMemory<'_>,
    ) -> Result<(), Failure> {
        let call = self.team.next_call();
        let window = served.map(Served::next);
        let expected = self.announce(call, ways, window.as_ref()).await?;
        let (tag, rank) = (self.tag(Lane::Data, call), self.team.rank());
        let mut own = Vec::new();
        for (way, &bytes) in ways.iter_mut().zip(&expected) {
            if bytes > 0 {
                let parts = way.take(bytes);
                let packed = memory.pack(&parts);
                if way.aggregator == rank {
                    own = packed;
                    continue;
                }
                self.disk.copied(bytes, parts.len()).await;
                self.send(way.aggregator, tag, packed)?;
            }
        }
        let Some(window) = window.filter(|window| !window.file.is_empty()) else { return Ok(()) };
        let mut bytes = memory.room(short(window.file.end - window.file.start));
        if window.has_holes() {
            let began = self.team.comm().now();
            self.disk.read(window.file.start, &mut bytes).await;
            self.disk.statistics.storage += self.team.comm().now().saturating_sub(began);
        }
        for (from, parts) in (0..).zip(&window.parts) {
            if !parts.is_empty() {
                let data = match from == rank {
                    true => std::mem::take(&mut own),
                    false => self.receive(from, tag).await?,
                };
                memory.place(parts, window.file.start, &mut bytes, data);
                self.disk.copied(window.bytes(from), parts.len()).await;
            }
        }
        let began = self.team.comm().now();
        self.disk.write(window.file.start, &bytes).await;
        self.disk.statistics.storage += self.team.comm().now().saturating_sub(began);
        memory.give_back(bytes);
        Ok(())
    }

    async fn read_round(
        &mut self,
        ways: &mut [Cursor],
        served: Option<&mut Served>,
        memory: &mut CallerMemory<'_>,
    ) -> Result<(), Failure> {
        let call = self.team.next_call();
        let window = served.map(Served::next);
        let expected = self.announce(call, ways, window.as_ref()).await?;
        let (tag, rank) = (self.tag(Lane::Data, call), self.team.rank());
        let mut own = Vec::new();
        if let Some(window) = window.filter(|window| !window.file.is_empty()) {
            let mut bytes = memory.room(short(window.file.end - window.file.start));
            let began = self.team.comm().now();
            self.disk.read(window.file.start, &mut bytes).await;
            self.disk.statistics.storage += self.team.comm().now().saturating_sub(began);
            for (to, parts) in (0..).zip(&window.parts) {
                if !parts.is_empty() {
                    let packed = memory.pick(parts, window.file.start, &bytes);
                    self.disk.copied(window.bytes(to), parts.len()).await;
                    match to == rank {
                        true => own = packed,
                        false => self.send(to, tag, packed)?,
                    }
                }
            }
            memory.give_back(bytes);
        }
        for (way, &bytes) in ways.iter_mut().zip(&expected) {
            if bytes > 0 {
                let parts = way.take(bytes);
                if way.aggregator == rank {
                    memory.unpack(&parts, std::mem::take(&mut own));
                    continue;
                }
                memory.unpack(&parts, self.receive(way.aggregator, tag).await?);
                self.disk.copied(bytes, parts.len()).await;
            }
        }
        Ok(())
    }
}

/// Bytes of an offset and a length in a list.
const LISTED_BYTES: usize = 16;

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

/// A rank's pieces of one domain, and how far they have moved.
struct Cursor {
    aggregator: u32,
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
    /// Offsets and lengths of each rank as they came, and the first that is not done.
    lists: Vec<(Vec<u8>, usize)>,
    /// From the first to the last byte of any rank.
    file: Range<u64>,
    window_bytes: u64,
    next: u64,
}

/// An entry of a list.
fn listed(list: &[u8], at: usize) -> Option<Range<u64>> {
    let entry = list.get(at * LISTED_BYTES..(at + 1) * LISTED_BYTES)?;
    let mut pair = numbers(entry);
    let start = pair.next()?;
    Some(start..start + pair.next()?)
}

impl Served {
    fn new(lists: Vec<Vec<u8>>, window_bytes: u64) -> Served {
        let last = |list: &Vec<u8>| listed(list, (list.len() / LISTED_BYTES).checked_sub(1)?);
        let firsts = lists.iter().filter_map(|list| listed(list, 0));
        let start = firsts.map(|range| range.start).min().unwrap_or(0);
        let end = lists.iter().filter_map(last).map(|range| range.end).max().unwrap_or(start);
        let lists = lists.into_iter().map(|list| (list, 0)).collect();
        Served { lists, file: start..end, window_bytes: window_bytes.max(1), next: start }
    }

    fn windows(&self) -> u64 {
        (self.file.end - self.file.start).div_ceil(self.window_bytes)
    }

    /// The next window: from the first to the last byte of any rank there; empty after the last
    /// one.
    fn next(&mut self) -> Window {
        let file = self.next..self.file.end.min(self.next.saturating_add(self.window_bytes));
        self.next = file.end;
        let mut parts = Vec::new();
        for (list, at) in &mut self.lists {
            let mut own = Vec::new();
            while let Some(range) = listed(list, *at).filter(|range| range.start < file.end) {
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
        Window { file: start..end, parts }
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
        // Each rank's ranges are in order, which a stable sort makes use of.
        all.sort_by_key(|range| range.start);
        let mut end = self.file.start;
        for range in all {
            if range.start > end {
                return true;
            }
            end = end.max(range.end);
        }
        end < self.file.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_an_aggregator_have_all_ranges_in_order() {
        let lists: [&[[u64; 2]]; 3] = [&[[0, 4], [10, 20]], &[[4, 4]], &[]];
        let bytes =
            |list: &[[u64; 2]]| list.iter().flatten().flat_map(|one| one.to_le_bytes()).collect();
        let lists = lists.map(bytes).into();
        let mut served = Served::new(lists, 16);
        assert_eq!(served.windows(), 2);
        let first = served.next();
        assert_eq!((first.file.clone(), first.has_holes()), (0..16, true));
        assert_eq!([0, 1, 2].map(|rank| first.bytes(rank)), [10, 4, 0]);
        let second = served.next();
        assert_eq!((second.file.clone(), second.has_holes()), (16..30, false));
        assert!(served.next().file.is_empty());
    }

    #[test]
    fn a_cursor_goes_on_where_it_stopped() {
        let parts = vec![
            Piece { offset: 100, memory: 0, len: 10 },
            Piece { offset: 200, memory: 10, len: 5 },
        ];
        let mut cursor = Cursor { aggregator: 0, parts, at: 0, done: 0 };
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
