//! One aggregator's window: the bytes of the file that it works on in a round.
//!
//! A write assembles the ranks' pieces in the window and stores it with one access; where pieces
//! leave holes, the window is read first. A read fetches from the first to the last wanted byte
//! with one access. No other aggregator touches this domain during the call; where ranks may do
//! so by themselves meanwhile, the window is locked.
//!
//! After a failure the window stays closed: later rounds touch no storage, so that `reached` says
//! exactly which bytes of the domain are done.

use std::ops::Range;

use super::coverage;
use super::{Job, timed};
use crate::access::memory::{CommonWindow, FileWindow, Parcel};
use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};
use crate::plan::two_phase::Holes;
use crate::statistics::CallStatistics;

/// The window of an aggregator, and how far it got.
pub(super) struct Window {
    /// Rounds take them in turn.
    rooms: Vec<Room>,
    holes: Holes,
    /// All bytes of the domain below this offset are done.
    pub(super) reached: u64,
    pub(super) error: Option<Error>,
    /// No more storage accesses: a failure here or elsewhere, or the end of the file.
    closed: bool,
}

/// Room for the bytes of a round.
struct Room {
    place: Place,
    /// The file range that is there.
    file: Range<u64>,
    /// Whether the pieces of this round leave no hole.
    complete: bool,
}

/// Where the bytes of a window are.
enum Place {
    /// In memory of this rank, from the first to the last byte that somebody asks for.
    Own(Vec<u8>),
    /// In memory of the node: the whole window, which begins at a file offset.
    Common(CommonWindow, u64),
}

impl Room {
    fn new(place: Place) -> Room {
        Room { place, file: 0..0, complete: false }
    }

    /// Makes room for a range of the window that begins at `start`.
    fn open(&mut self, start: u64, file: Range<u64>) {
        match &mut self.place {
            Place::Own(bytes) => bytes.resize(narrow(file.end - file.start), 0),
            Place::Common(_, first) => *first = start,
        }
        self.file = file;
    }

    /// Bytes of a part of the range.
    fn bytes(&mut self, file: &Range<u64>) -> &mut [u8] {
        let len = narrow(file.end - file.start);
        match &mut self.place {
            Place::Own(bytes) => &mut bytes[narrow(file.start - self.file.start)..][..len],
            Place::Common(window, first) => window.bytes(narrow(file.start - *first), len),
        }
    }
}

impl Window {
    /// A window of so many bytes; all before an offset is done.
    pub(super) fn new(wanted: u64, holes: Holes, reached: u64) -> Window {
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(narrow(wanted));
        let rooms = vec![Room::new(Place::Own(bytes))];
        let mut window = Window { rooms, holes, reached, error: None, closed: false };
        if reserved.is_err() {
            let text = format!("no memory for a window of {wanted} bytes; lower cb_buffer_size");
            window.fail(Error::new(ErrorClass::NoMemory, text));
        }
        window
    }

    /// Windows that this rank has in common with others.
    pub(super) fn in_common(common: Vec<CommonWindow>, holes: Holes) -> Window {
        let rooms = common.into_iter().map(|one| Room::new(Place::Common(one, 0))).collect();
        Window { rooms, holes, reached: 0, error: None, closed: false }
    }

    fn room(&mut self, round: u64) -> &mut Room {
        let count = wide(self.rooms.len());
        &mut self.rooms[narrow(round % count)]
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Makes this the last storage access.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Lets storage be used again, unless that has failed.
    pub(super) fn open_again(&mut self) {
        self.closed = self.error.is_some();
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
        self.closed = true;
    }

    /// Makes this the last storage access, with nothing of this round done.
    pub(super) fn fail_round(&mut self, round: u64, error: Error) {
        self.reached = self.reached.min(self.room(round).file.start);
        self.fail(error);
    }

    /// The bytes of a round, for pieces to be placed or taken.
    pub(super) fn contents(&mut self, round: u64) -> FileWindow<'_> {
        let room = self.room(round);
        let file = room.file.clone();
        FileWindow { offset: file.start, bytes: room.bytes(&file) }
    }

    /// Prepares for the pieces of a write: reads what they leave untouched. `start` is where the
    /// window of the round begins.
    pub(super) fn open_for_write(
        &mut self,
        job: &Job<'_>,
        (round, start): (u64, u64),
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) {
        if self.closed {
            let start = reach(parcels).start;
            self.room(round).file = start..start;
            return;
        }
        self.adopt(job, (round, start), parcels);
        if self.holes != Holes::Skipped && !self.room(round).complete {
            self.read(job, round, statistics);
        }
    }

    /// Takes over what another rank has prepared for the pieces of a write.
    pub(super) fn adopt(
        &mut self,
        job: &Job<'_>,
        (round, start): (u64, u64),
        parcels: &[Parcel<'_>],
    ) {
        let file = reach(parcels);
        let complete = job.prepared.is_complete(&file, parcels);
        let room = self.room(round);
        room.open(start, file);
        room.complete = complete;
    }

    /// Stores the assembled pieces.
    pub(super) fn store(
        &mut self,
        job: &Job<'_>,
        round: u64,
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) {
        if self.closed {
            return;
        }
        let holes = self.holes;
        let room = self.room(round);
        let file = room.file.clone();
        let stored = match holes != Holes::Skipped || room.complete {
            true => room.write(job, file.clone(), statistics),
            false => room.write_pieces(job, parcels, statistics),
        };
        match stored {
            Ok(()) => self.reached = file.end,
            Err(error) => {
                self.reached = file.start + error.moved();
                self.fail(error);
            }
        }
    }

    /// Notes what became of fetching a range of the file: how many bytes there were.
    pub(super) fn fetched(&mut self, file: Range<u64>, outcome: Result<u64>) {
        match outcome {
            Ok(bytes) => {
                self.reached = file.start + bytes;
                self.closed |= self.reached < file.end;
            }
            Err(error) => {
                self.reached = file.start;
                self.fail(error.at_offset(file.start));
            }
        }
    }

    /// Fetches a range that the pieces of a read are in; returns the file offset behind the last
    /// byte that was there.
    pub(super) fn fetch(
        &mut self,
        job: &Job<'_>,
        (round, start): (u64, u64),
        file: &Range<u64>,
        statistics: &mut CallStatistics,
    ) -> u64 {
        if self.closed {
            self.room(round).file = file.start..file.start;
            return file.start;
        }
        self.room(round).open(start, file.clone());
        let end = self.read(job, round, statistics);
        self.reached = end;
        end
    }

    /// Fills the window from storage, with zeros behind the end of the file; returns the offset
    /// behind the last byte that was there.
    fn read(&mut self, job: &Job<'_>, round: u64, statistics: &mut CallStatistics) -> u64 {
        statistics.storage_reads += 1;
        let FileWindow { offset, bytes } = self.contents(round);
        match timed(&mut statistics.storage, || job.storage.read_at(offset, bytes)) {
            Ok(count) => {
                statistics.storage_read_bytes += wide(count);
                bytes[count..].fill(0);
                offset + wide(count)
            }
            Err(error) => {
                self.fail(error.at_offset(offset));
                offset
            }
        }
    }
}

impl Room {
    fn write(
        &mut self,
        job: &Job<'_>,
        file: Range<u64>,
        statistics: &mut CallStatistics,
    ) -> Result<()> {
        let bytes = self.bytes(&file);
        statistics.storage_writes += 1;
        let storage = &mut statistics.storage;
        let written = timed(storage, || job.storage.write_at(file.start, bytes));
        let moved = written.as_ref().map_or_else(Error::moved, |()| wide(bytes.len()));
        statistics.storage_written_bytes += moved;
        written.map_err(|error| error.at_offset(file.start))
    }

    /// Stores the pieces without the holes between them, each run of bytes by one access, in
    /// ascending order: for holes that cannot be read or locked, or that are others'.
    fn write_pieces(
        &mut self,
        job: &Job<'_>,
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) -> Result<()> {
        for run in coverage::runs(&self.file, parcels) {
            let before = run.start - self.file.start;
            let written = self.write(job, run, statistics);
            written.map_err(|error| {
                let moved = before + error.moved();
                error.after_moving(moved)
            })?;
        }
        Ok(())
    }
}

/// The file range from the first to the last byte of some parcels, none of which is empty.
pub(super) fn reach(parcels: &[Parcel<'_>]) -> Range<u64> {
    let first = |parcel: &Parcel<'_>| parcel.access.offset_of(parcel.positions.start);
    let last = |parcel: &Parcel<'_>| parcel.access.offset_of(parcel.positions.end - 1) + 1;
    let start = parcels.iter().map(first).min().unwrap_or(0);
    start..parcels.iter().map(last).max().unwrap_or(start)
}
