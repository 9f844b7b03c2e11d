//! A rank serves its own request: windows of runs, from or to its own memory.
//!
//! Cost: a dense window whose data is contiguous in memory goes to storage as it is, without a
//! copy. Other data is packed into a buffer first; a window with holes is read, changed and
//! written back under a lock.

use std::ops::Range;

use super::{Intent, Job, Part, Protection, lock};
use crate::access::memory::{FileWindow, Parcel};
use crate::access::windows::{Window, Windows};
use crate::comm::{catch_up, pause};
use crate::direction::Direction;
use crate::error::{Error, ErrorClass, Result};
use crate::number::narrow;
use crate::plan::{Independent, LockRule};
use crate::statistics::CallStatistics;
use crate::storage::{LockGuard, LockRange};

/// Runs in one vectored call.
const BATCH_MAX: usize = 1024;

/// Serves this rank's request; the outcome is its own alone.
pub(super) async fn serve(
    job: &Job<'_>,
    steps: &Independent,
    statistics: &mut CallStatistics,
) -> Part {
    let mut server = IndependentServer { job, steps, statistics, staging: Vec::new(), moved: 0 };
    let served = server.serve().await;
    let reached = job.prepared.own.positions().start + server.moved;
    Part { reached, error: served.err(), ..Part::new(&job.prepared.own) }
}

struct IndependentServer<'a> {
    job: &'a Job<'a>,
    steps: &'a Independent,
    statistics: &'a mut CallStatistics,
    /// Bytes between memory and storage.
    staging: Vec<u8>,
    /// Bytes of the request that moved.
    moved: u64,
}

/// Whether there is more to do.
enum Continuation {
    GoesOn,
    EndOfFile,
}

impl<'a> IndependentServer<'a> {
    async fn serve(&mut self) -> Result<()> {
        let own = &self.job.prepared.own;
        if own.is_empty() {
            return Ok(());
        }
        let whole = match self.steps.lock {
            LockRule::WholeRequest => {
                self.statistics.locks += 1;
                let exclusive = self.job.prepared.direction == Direction::Write;
                let range = LockRange { exclusive, ..LockRange::exclusive(&own.reach()) };
                Some(lock(self.job, range).await?)
            }
            _ => None,
        };
        let mut windows = Windows::new(own, self.steps.cut()).peekable();
        let mut runs = Vec::new();
        while let Some(window) = windows.next() {
            let progress = if window.is_dense() {
                runs.clear();
                runs.push(window);
                while self.steps.batched
                    && runs.len() < BATCH_MAX
                    && let Some(next) = windows.next_if(|next| self.fits(&runs, next))
                {
                    runs.push(next);
                }
                self.dense(&runs).await?
            } else {
                self.sieve(window).await?
            };
            if let Continuation::EndOfFile = progress {
                break;
            }
        }
        whole.map_or(Ok(()), LockGuard::release)
    }

    /// Whether a window can join a batch: its data must fit into the staging buffer with the
    /// others' if it is packed there.
    fn fits(&self, batch: &[Window], next: &Window) -> bool {
        next.positions.end - batch[0].positions.start <= self.steps.buffer_bytes
    }

    /// Runs that one storage access serves; several do, if the data of a long one must be packed.
    async fn dense(&mut self, runs: &[Window]) -> Result<Continuation> {
        let (first, last) = (&runs[0], &runs[runs.len() - 1]);
        let guard = self.protect(&(first.file.start..last.file.end), Intent::Write).await?;
        let whole = first.positions.start..last.positions.end;
        let is_straight = self.job.buffer.contiguous(&whole).is_some();
        let step = if is_straight { u64::MAX } else { self.steps.buffer_bytes };
        let mut progress = Continuation::GoesOn;
        let mut at = whole.start;
        while at < whole.end && matches!(progress, Continuation::GoesOn) {
            let part = at..at + step.min(whole.end - at);
            at = part.end;
            progress = match self.job.prepared.direction {
                Direction::Write => self.write_runs(runs, &part)?,
                Direction::Read => self.read_runs(runs, &part)?,
            };
            self.statistics.storage += catch_up(self.job.communicator).await;
        }
        guard.release()?;
        Ok(progress)
    }

    /// Writes the data at some positions, which are a part of one run or all of several.
    fn write_runs(&mut self, runs: &[Window], positions: &Range<u64>) -> Result<Continuation> {
        let (job, len) = (self.job, positions.end - positions.start);
        let bytes = match job.buffer.contiguous(positions) {
            Some(bytes) => bytes,
            None => {
                let bytes = room(&mut self.staging, len)?;
                job.buffer.pack(positions, bytes);
                job.charge_copy(&Parcel {
                    access: &job.prepared.own,
                    positions: positions.clone(),
                });
                bytes
            }
        };
        let written = match runs {
            [run] => job.write(&[(offset_in(run, positions), bytes)], self.statistics),
            _ => {
                let mut rest = bytes;
                let piece = |run: &Window| {
                    let piece = rest.split_off(..narrow(run.file.end - run.file.start));
                    (run.file.start, piece.unwrap_or_default())
                };
                let pieces: Vec<(u64, &[u8])> = runs.iter().map(piece).collect();
                job.write(&pieces, self.statistics)
            }
        };
        self.moved += written.as_ref().map_or_else(Error::moved, |()| len);
        written.map(|()| Continuation::GoesOn)
    }

    /// Reads the data at such positions.
    fn read_runs(&mut self, runs: &[Window], positions: &Range<u64>) -> Result<Continuation> {
        let (job, len) = (self.job, positions.end - positions.start);
        let straight = job.buffer.contiguous_mut(positions);
        let is_packed = straight.is_none();
        let bytes = match straight {
            Some(bytes) => bytes,
            None => room(&mut self.staging, len)?,
        };
        let count = match runs {
            [run] => job.read(&mut [(offset_in(run, positions), &mut *bytes)], self.statistics)?,
            _ => {
                let mut rest = &mut *bytes;
                let piece = |run: &Window| {
                    let piece = rest.split_off_mut(..narrow(run.file.end - run.file.start));
                    (run.file.start, piece.unwrap_or_default())
                };
                let mut pieces: Vec<(u64, &mut [u8])> = runs.iter().map(piece).collect();
                job.read(&mut pieces, self.statistics)?
            }
        };
        if is_packed {
            let there = positions.start..positions.start + count;
            job.buffer.unpack(&there, &bytes[..narrow(count)]);
            job.charge_copy(&Parcel { access: &job.prepared.own, positions: there });
        }
        self.moved += count;
        Ok(if count < len { Continuation::EndOfFile } else { Continuation::GoesOn })
    }

    /// A window with holes: one large access instead of many small ones.
    async fn sieve(&mut self, window: Window) -> Result<Continuation> {
        let guard = self.protect(&window.file, Intent::Rewrite).await?;
        let (start, len) = (window.file.start, window.file.end - window.file.start);
        let job = self.job;
        let bytes = room(&mut self.staging, len)?;
        let count = job.read(&mut [(start, &mut *bytes)], self.statistics)?;
        self.statistics.storage += catch_up(self.job.communicator).await;
        bytes[narrow(count)..].fill(0);
        let own = &job.prepared.own;
        let mut contents = FileWindow { offset: start, bytes };
        let mut parcel = Parcel { access: own, positions: window.positions };
        if job.prepared.direction == Direction::Read {
            let there = own.within(&(start..start + count));
            parcel.positions.end = there.end.clamp(parcel.positions.start, parcel.positions.end);
            self.moved += parcel.len();
            job.charge_copy(&parcel);
            job.buffer.take(&contents, parcel);
            self.statistics.packing += catch_up(job.communicator).await;
            return Ok(if count < len { Continuation::EndOfFile } else { Continuation::GoesOn });
        }
        job.buffer.fill(&mut contents, parcel.clone());
        job.charge_copy(&parcel);
        self.statistics.packing += catch_up(job.communicator).await;
        // Between reading and writing others must not get in: the lock is what keeps them out.
        pause().await;
        let written = job.write(&[(start, &self.staging[..narrow(len)])], self.statistics);
        self.statistics.storage += catch_up(self.job.communicator).await;
        let moved = written.as_ref().map_or_else(Error::moved, |()| len);
        let done = own.within(&(start..start + moved));
        self.moved += done.end.saturating_sub(parcel.positions.start).min(parcel.len());
        written?;
        guard.release()?;
        Ok(Continuation::GoesOn)
    }

    /// Protects bytes that are about to be written, where others may sieve.
    async fn protect(&mut self, file: &Range<u64>, intent: Intent) -> Result<Protection<'a>> {
        match self.steps.lock {
            LockRule::EachWrite => self.job.protect(file, intent, self.statistics).await,
            _ => Ok(Protection::default()),
        }
    }
}

/// Where the data at a position is in the file.
fn offset_in(run: &Window, positions: &Range<u64>) -> u64 {
    run.file.start + (positions.start - run.positions.start)
}

/// Room for `len` bytes in the staging buffer.
fn room(staging: &mut Vec<u8>, len: u64) -> Result<&mut [u8]> {
    let len = narrow(len);
    if staging.len() < len {
        let missing = len - staging.len();
        staging.try_reserve_exact(missing).map_err(|_| {
            let text = format!("no memory for a buffer of {len} bytes; lower ind_wr_buffer_size");
            Error::new(ErrorClass::NoMemory, text)
        })?;
        staging.resize(len, 0);
    }
    Ok(&mut staging[..len])
}
