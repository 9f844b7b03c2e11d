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
use crate::access::memory::{FileWindow, Parcel};
use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};
use crate::plan::Shuffled;
use crate::plan::two_phase::{Domain, Holes};
use crate::statistics::CallStatistics;

/// The window of an aggregator, and how far it got.
pub(super) struct Window {
    bytes: Vec<u8>,
    /// The file range that is in `bytes`.
    file: Range<u64>,
    holes: Holes,
    /// Whether the pieces of this round leave no hole.
    complete: bool,
    /// All bytes of the domain below this offset are done.
    pub(super) reached: u64,
    pub(super) error: Option<Error>,
    /// No more storage accesses: a failure here or elsewhere, or the end of the file.
    closed: bool,
}

impl Window {
    /// A window for a domain, as large as the plan's largest.
    pub(super) fn new(domain: &Domain, shuffled: &Shuffled) -> Window {
        let bytes = shuffled.window_bytes();
        let mut window = Window {
            bytes: Vec::new(),
            file: 0..0,
            holes: shuffled.holes(),
            complete: false,
            reached: domain.file.start,
            error: None,
            closed: false,
        };
        if window.bytes.try_reserve_exact(narrow(bytes)).is_err() {
            let text = format!("no memory for a window of {bytes} bytes; lower cb_buffer_size");
            window.fail(Error::new(ErrorClass::NoMemory, text));
        }
        window
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Makes this the last storage access.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
        self.closed = true;
    }

    /// Makes this the last storage access, with nothing of this round done.
    pub(super) fn fail_round(&mut self, error: Error) {
        self.reached = self.reached.min(self.file.start);
        self.fail(error);
    }

    /// The bytes, for pieces to be placed or taken.
    pub(super) fn contents(&mut self) -> FileWindow<'_> {
        FileWindow { offset: self.file.start, bytes: &mut self.bytes }
    }

    /// Prepares for the pieces of a write: reads what they leave untouched.
    pub(super) fn open_for_write(
        &mut self,
        job: &Job<'_>,
        round: u64,
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) {
        self.file = reach(parcels);
        if self.closed {
            return;
        }
        self.bytes.resize(narrow(self.file.end - self.file.start), 0);
        self.complete = job.prepared.is_complete(round, &self.file, parcels);
        if self.holes != Holes::Skipped && !self.complete {
            self.read(job, statistics);
        }
    }

    /// Stores the assembled pieces.
    pub(super) fn store(
        &mut self,
        job: &Job<'_>,
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) {
        if self.closed {
            return;
        }
        let stored = match self.holes != Holes::Skipped || self.complete {
            true => self.write(job, self.file.clone(), statistics),
            false => self.write_pieces(job, parcels, statistics),
        };
        match stored {
            Ok(()) => self.reached = self.file.end,
            Err(error) => {
                self.reached = self.file.start + error.moved();
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

    fn write(
        &self,
        job: &Job<'_>,
        file: Range<u64>,
        statistics: &mut CallStatistics,
    ) -> Result<()> {
        let start = narrow(file.start - self.file.start);
        let bytes = &self.bytes[start..start + narrow(file.end - file.start)];
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
        &self,
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

    /// Fetches what the pieces of a read need; returns the file offset behind the last byte.
    pub(super) fn fetch(
        &mut self,
        job: &Job<'_>,
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) -> u64 {
        self.file = reach(parcels);
        if self.closed {
            return self.file.start;
        }
        self.bytes.resize(narrow(self.file.end - self.file.start), 0);
        let end = self.read(job, statistics);
        self.reached = end;
        self.closed |= end < self.file.end;
        end
    }

    /// Fills the window from storage, with zeros behind the end of the file; returns the offset
    /// behind the last byte that was there.
    fn read(&mut self, job: &Job<'_>, statistics: &mut CallStatistics) -> u64 {
        statistics.storage_reads += 1;
        let (start, bytes) = (self.file.start, &mut self.bytes);
        match timed(&mut statistics.storage, || job.storage.read_at(start, bytes)) {
            Ok(count) => {
                statistics.storage_read_bytes += wide(count);
                self.bytes[count..].fill(0);
                start + wide(count)
            }
            Err(error) => {
                self.fail(error.at_offset(start));
                start
            }
        }
    }
}

/// The file range from the first to the last byte of some parcels, none of which is empty.
pub(super) fn reach(parcels: &[Parcel<'_>]) -> Range<u64> {
    let first = |parcel: &Parcel<'_>| parcel.access.offset_of(parcel.positions.start);
    let last = |parcel: &Parcel<'_>| parcel.access.offset_of(parcel.positions.end - 1) + 1;
    let start = parcels.iter().map(first).min().unwrap_or(0);
    start..parcels.iter().map(last).max().unwrap_or(start)
}
