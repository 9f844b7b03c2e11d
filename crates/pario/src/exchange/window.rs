//! A window: the bytes of the file that a server works on in a round.
//!
//! A write assembles the ranks' pieces in the window and stores it with one access; where pieces
//! leave holes, the window is read first. A read fetches from the first to the last wanted byte
//! with one access. In a blocking collective no other rank touches that part of the file; in others
//! the window is locked, if the storage has locks.
//!
//! After a failure the window stays closed: later rounds touch no storage.
//!
//! All storage accesses of plans are made here, those of ranks that serve themselves as well.

use std::ops::Range;

use super::{Job, coverage};
use crate::access::memory::{FileWindow, Parcel, Slot};
use crate::comm::since;
use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};
use crate::plan::{Holes, Shuffled, Storing};
use crate::statistics::CallStatistics;
use crate::storage::{MappedPart, accesses};

/// The window that a rank serves now.
pub(super) struct Window {
    /// Memory of this rank, for the bytes from the first to the last that is asked for.
    own: Vec<u8>,
    /// A slot of shared memory instead, for the whole window, and where that begins in the file.
    slot: Option<(Slot, u64)>,
    /// The file range that is there.
    file: Range<u64>,
    /// Whether the pieces in it leave no hole.
    complete: bool,
    holes: Holes,
    /// If windows are stored through a mapping of the file: what of it.
    mapped: Option<MappedPart>,
    pub(super) error: Option<Error>,
    /// No more storage accesses: a failure here or elsewhere, or the end of the file.
    closed: bool,
}

impl Window {
    /// With this number of bytes of this rank's own memory.
    pub(super) fn new(bytes: u64, shuffled: &Shuffled) -> Window {
        let mut own = Vec::new();
        let reserved = own.try_reserve_exact(narrow(bytes));
        let mapped = match shuffled.storing() {
            Storing::Mapped { new_bytes } => {
                Some(MappedPart { within: shuffled.reach(), new_bytes })
            }
            Storing::Plain => None,
        };
        let mut window = Window {
            own,
            slot: None,
            file: 0..0,
            complete: false,
            holes: shuffled.holes(),
            mapped,
            error: None,
            closed: false,
        };
        if reserved.is_err() {
            let text = format!("no memory for a window of {bytes} bytes; lower cb_buffer_size");
            window.fail(Error::new(ErrorClass::NoMemory, text));
        }
        window
    }

    /// Works from now on in a slot of shared memory, for the window that begins at an offset, or in
    /// this rank's own memory.
    pub(super) fn use_slot(&mut self, slot: Option<(Slot, u64)>) {
        self.slot = slot;
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

    /// Makes room for a range of the file.
    fn open(&mut self, file: Range<u64>) {
        if self.slot.is_none() {
            self.own.resize(narrow(file.end - file.start), 0);
        }
        self.file = file;
    }

    /// Bytes of a part of the range.
    fn bytes(&mut self, file: &Range<u64>) -> &mut [u8] {
        let len = narrow(file.end - file.start);
        match &mut self.slot {
            Some((slot, start)) => slot.bytes(narrow(file.start - *start), len),
            None => &mut self.own[narrow(file.start - self.file.start)..][..len],
        }
    }

    /// The bytes that are there, for pieces to be placed or taken.
    pub(super) fn contents(&mut self) -> FileWindow<'_> {
        let file = self.file.clone();
        FileWindow { offset: file.start, bytes: self.bytes(&file) }
    }

    /// Prepares for the pieces of a write: reads what they leave untouched.
    pub(super) fn prepare(
        &mut self,
        job: &Job<'_>,
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) {
        if self.closed {
            let start = reach(parcels).start;
            self.file = start..start;
            return;
        }
        self.adopt(job, parcels);
        if self.holes != Holes::Skipped && !self.complete {
            self.read(job, statistics);
        }
    }

    /// Takes over what another rank has prepared for the pieces of a write.
    pub(super) fn adopt(&mut self, job: &Job<'_>, parcels: &[Parcel<'_>]) {
        let file = reach(parcels);
        self.complete = job.prepared.is_complete(&file, parcels);
        self.open(file);
    }

    /// Stores the assembled pieces; returns the offset after the last byte that is done.
    pub(super) fn store(
        &mut self,
        job: &Job<'_>,
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) -> u64 {
        let file = self.file.clone();
        if self.closed {
            return file.start;
        }
        let stored = match self.holes != Holes::Skipped || self.complete {
            true => {
                let mapped = self.mapped.clone();
                job.store((file.start, self.bytes(&file)), mapped.as_ref(), statistics)
            }
            false => self.write_pieces(job, parcels, statistics),
        };
        match stored {
            Ok(()) => file.end,
            Err(error) => {
                let moved = error.moved();
                self.fail(error);
                file.start + moved
            }
        }
    }

    /// Fetches a range that the pieces of a read are in; returns the offset after the last byte
    /// that was there.
    pub(super) fn fetch(
        &mut self,
        job: &Job<'_>,
        file: &Range<u64>,
        statistics: &mut CallStatistics,
    ) -> u64 {
        if self.closed {
            self.file = file.start..file.start;
            return file.start;
        }
        self.open(file.clone());
        self.read(job, statistics)
    }

    /// Fills the window from storage, with zeros beyond the end of the file; returns the offset
    /// after the last byte that was there.
    fn read(&mut self, job: &Job<'_>, statistics: &mut CallStatistics) -> u64 {
        let FileWindow { offset, bytes } = self.contents();
        match job.read(&mut [(offset, &mut *bytes)], statistics) {
            Ok(count) => {
                bytes[narrow(count)..].fill(0);
                offset + count
            }
            Err(error) => {
                self.fail(error);
                offset
            }
        }
    }

    /// Stores the pieces without the holes between them, in ascending order, many runs of bytes by
    /// one call: for holes that cannot be read or locked, or that are others'.
    fn write_pieces(
        &mut self,
        job: &Job<'_>,
        parcels: &[Parcel<'_>],
        statistics: &mut CallStatistics,
    ) -> Result<()> {
        const RUNS_OF_A_CALL: usize = 1024;
        let runs = coverage::runs(&self.file, parcels);
        let FileWindow { offset, bytes } = self.contents();
        let bytes_of =
            |run: &Range<u64>| &bytes[narrow(run.start - offset)..narrow(run.end - offset)];
        for runs in runs.chunks(RUNS_OF_A_CALL) {
            let list: Vec<(u64, &[u8])> =
                runs.iter().map(|run| (run.start, bytes_of(run))).collect();
            job.write(&list, statistics).map_err(|error| {
                let moved = offset_after(runs, error.moved()) - offset;
                error.after_moving(moved)
            })?;
        }
        Ok(())
    }
}

/// The offset after this number of bytes of some runs.
fn offset_after(runs: &[Range<u64>], mut bytes: u64) -> u64 {
    let mut end = 0;
    for run in runs {
        let len = run.end - run.start;
        end = run.start + len.min(bytes);
        if bytes < len {
            return end;
        }
        bytes -= len;
    }
    end
}

/// The file range from the first to the last byte of some parcels, none of which is empty.
pub(super) fn reach(parcels: &[Parcel<'_>]) -> Range<u64> {
    let first = |parcel: &Parcel<'_>| parcel.access.offset_of(parcel.positions.start);
    let last = |parcel: &Parcel<'_>| parcel.access.offset_of(parcel.positions.end - 1) + 1;
    let start = parcels.iter().map(first).min().unwrap_or(0);
    start..parcels.iter().map(last).max().unwrap_or(start)
}

/// Storage accesses, counted and timed.
impl Job<'_> {
    /// Reads runs of the file, in ascending order, by one call; returns how many of their bytes
    /// were there.
    pub(super) fn read(
        &self,
        runs: &mut [(u64, &mut [u8])],
        statistics: &mut CallStatistics,
    ) -> Result<u64> {
        let offset = runs.first().map_or(0, |(offset, _)| *offset);
        statistics.storage_reads += accesses(runs);
        let began = self.communicator.now();
        let read = match runs {
            [(offset, bytes)] => self.storage.read_at(*offset, bytes),
            _ => self.storage.read_list(runs),
        };
        statistics.storage += since(self.communicator, began);
        let count = wide(read.map_err(|error| error.at_offset(offset))?);
        statistics.storage_read_bytes += count;
        Ok(count)
    }

    /// Writes runs of the file, in ascending order, by one call; an error says how many of their
    /// bytes were written.
    pub(super) fn write(
        &self,
        runs: &[(u64, &[u8])],
        statistics: &mut CallStatistics,
    ) -> Result<()> {
        match runs {
            [run] => self.store(*run, None, statistics),
            _ => self.counted(runs, statistics, || self.storage.write_list(runs).map(|()| 0)),
        }
    }

    /// Writes one run, through a mapping of the file if that is wanted.
    fn store(
        &self,
        run: (u64, &[u8]),
        mapped: Option<&MappedPart>,
        statistics: &mut CallStatistics,
    ) -> Result<()> {
        let (offset, bytes) = run;
        self.counted(&[run], statistics, || match mapped {
            Some(part) => self.storage.write_mapped(offset, bytes, part),
            None => self.storage.write_at(offset, bytes).map(|()| 0),
        })
    }

    /// Counts what a call writes that returns how many bytes went through a mapping.
    fn counted(
        &self,
        runs: &[(u64, &[u8])],
        statistics: &mut CallStatistics,
        write: impl FnOnce() -> Result<u64>,
    ) -> Result<()> {
        let offset = runs.first().map_or(0, |(offset, _)| *offset);
        statistics.storage_writes += accesses(runs);
        let began = self.communicator.now();
        let written = write();
        statistics.storage += since(self.communicator, began);
        let len = || runs.iter().map(|(_, bytes)| wide(bytes.len())).sum();
        statistics.storage_written_bytes += written.as_ref().map_or_else(Error::moved, |_| len());
        statistics.storage_mapped_bytes += written.as_ref().copied().unwrap_or(0);
        written.map(drop).map_err(|error| error.at_offset(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that fails says how many bytes of its runs it has stored.
    #[test]
    fn bytes_of_runs_are_found_in_the_file() {
        let runs = [10..14, 20..30, 40..41];
        for (bytes, offset) in [(0, 10), (3, 13), (4, 20), (5, 21), (14, 40), (15, 41)] {
            assert_eq!(offset_after(&runs, bytes), offset, "{bytes}");
        }
    }
}
