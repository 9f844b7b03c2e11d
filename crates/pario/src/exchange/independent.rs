//! A rank serves its own request: windows of runs, from or to its own memory.
//!
//! Cost: a dense window whose data is contiguous in memory goes to storage as it is, without a
//! copy. Other data is packed into a buffer first; a window with holes is read, changed and
//! written back under a lock.

use std::ops::Range;

use super::{Job, Part, Protection, timed};
use crate::access::Buffer;
use crate::access::memory::{FileWindow, Parcel};
use crate::access::windows::{Window, Windows};
use crate::comm::pause;
use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};
use crate::plan::Direction;
use crate::plan::independent::{Independent, LockRule};
use crate::statistics::CallStatistics;
use crate::storage::{LockGuard, LockRange, accesses};
use crate::virtual_time::settle;

/// Runs in one vectored call.
const BATCH_MAX: usize = 1024;

/// Serves this rank's request; the outcome is its own alone.
pub(super) async fn serve(
    job: &Job<'_>,
    steps: &Independent,
    statistics: &mut CallStatistics,
) -> Part {
    let mut server = Server { job, steps, statistics, staging: Vec::new(), moved: 0 };
    let served = server.serve().await;
    let reached = job.prepared.own.positions().start + server.moved;
    Part { reached, error: served.err(), ..Part::new(&job.prepared.own) }
}

struct Server<'a> {
    job: &'a Job<'a>,
    steps: &'a Independent,
    statistics: &'a mut CallStatistics,
    /// Bytes between memory and storage.
    staging: Vec<u8>,
    /// Bytes of the request that moved.
    moved: u64,
}

/// Whether there is more to do.
enum Progress {
    GoesOn,
    EndOfFile,
}

impl<'a> Server<'a> {
    async fn serve(&mut self) -> Result<()> {
        let own = &self.job.prepared.own;
        if own.is_empty() {
            return Ok(());
        }
        let whole = match self.steps.lock {
            LockRule::WholeRequest => Some(self.lock(&own.reach()).await?),
            _ => None,
        };
        let mut windows = Windows::new(own, self.steps.cut()).peekable();
        while let Some(window) = windows.next() {
            let progress = if self.steps.batched && windows.peek().is_some() {
                let mut batch = vec![window];
                while batch.len() < BATCH_MAX
                    && let Some(next) = windows.next_if(|next| self.fits(&batch, next))
                {
                    batch.push(next);
                }
                self.batch(&batch).await?
            } else if window.is_dense() {
                self.dense(window).await?
            } else {
                self.sieve(window).await?
            };
            if let Progress::EndOfFile = progress {
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

    /// A run that one storage call serves, or several if its data must be packed.
    async fn dense(&mut self, window: Window) -> Result<Progress> {
        let guard = self.protect(&window.file).await?;
        let (file, positions) = (window.file, window.positions);
        let whole = file.end - file.start;
        let straight = self.job.buffer.contiguous(&positions).is_some();
        let step = if straight { whole } else { self.steps.buffer_bytes.min(whole) };
        let mut done = 0;
        let mut progress = Progress::GoesOn;
        while done < whole && matches!(progress, Progress::GoesOn) {
            let len = step.min(whole - done);
            let part = positions.start + done..positions.start + done + len;
            progress = match self.job.prepared.direction {
                Direction::Write => self.write_run(file.start + done, &part)?,
                Direction::Read => self.read_run(file.start + done, &part)?,
            };
            settle(&mut self.statistics.storage).await;
            done += len;
        }
        release(guard)?;
        Ok(progress)
    }

    fn write_run(&mut self, offset: u64, positions: &Range<u64>) -> Result<Progress> {
        let (buffer, staging) = (self.job.buffer, &mut self.staging);
        let bytes = match buffer.contiguous(positions) {
            Some(bytes) => bytes,
            None => packed(buffer, positions, staging)?,
        };
        self.statistics.storage_writes += 1;
        let storage = self.job.storage;
        let written = timed(&mut self.statistics.storage, || storage.write_at(offset, bytes));
        let moved = written.as_ref().map_or_else(Error::moved, |()| wide(bytes.len()));
        self.statistics.storage_written_bytes += moved;
        self.moved += moved;
        written.map_err(|error| error.at_offset(offset))?;
        Ok(Progress::GoesOn)
    }

    fn read_run(&mut self, offset: u64, positions: &Range<u64>) -> Result<Progress> {
        let (buffer, storage) = (self.job.buffer, self.job.storage);
        let len = positions.end - positions.start;
        let mut read = |bytes: &mut [u8]| {
            self.statistics.storage_reads += 1;
            let count = timed(&mut self.statistics.storage, || storage.read_at(offset, bytes));
            count.map(wide).map_err(|error| error.at_offset(offset))
        };
        let count = match buffer.contiguous_mut(positions) {
            Some(bytes) => read(bytes)?,
            None => {
                let bytes = room(&mut self.staging, len)?;
                let count = read(bytes)?;
                let there = positions.start..positions.start + count;
                buffer.unpack(&there, &bytes[..narrow(count)]);
                count
            }
        };
        self.statistics.storage_read_bytes += count;
        self.moved += count;
        Ok(if count < len { Progress::EndOfFile } else { Progress::GoesOn })
    }

    /// A window with holes: one large access instead of many small ones.
    async fn sieve(&mut self, window: Window) -> Result<Progress> {
        let guard = self.protect_rewrite(&window.file).await?;
        let (start, len) = (window.file.start, window.file.end - window.file.start);
        let (job, storage) = (self.job, self.job.storage);
        let bytes = room(&mut self.staging, len)?;
        self.statistics.storage_reads += 1;
        let count = timed(&mut self.statistics.storage, || storage.read_at(start, bytes))
            .map_err(|error| error.at_offset(start))?;
        settle(&mut self.statistics.storage).await;
        self.statistics.storage_read_bytes += wide(count);
        bytes[count..].fill(0);
        let own = &job.prepared.own;
        let mut contents = FileWindow { offset: start, bytes };
        let mut parcel = Parcel { access: own, positions: window.positions };
        if job.prepared.direction == Direction::Read {
            let there = own.within(&(start..start + wide(count)));
            parcel.positions.end = there.end.clamp(parcel.positions.start, parcel.positions.end);
            self.moved += parcel.len();
            job.buffer.take(&contents, parcel);
            return Ok(if wide(count) < len { Progress::EndOfFile } else { Progress::GoesOn });
        }
        job.buffer.fill(&mut contents, parcel.clone());
        // Between reading and writing others must not get in: the lock is what keeps them out.
        pause().await;
        let bytes = &self.staging[..narrow(len)];
        self.statistics.storage_writes += 1;
        let written = timed(&mut self.statistics.storage, || storage.write_at(start, bytes));
        settle(&mut self.statistics.storage).await;
        let moved = written.as_ref().map_or_else(Error::moved, |()| len);
        self.statistics.storage_written_bytes += moved;
        let done = own.within(&(start..start + moved));
        self.moved += done.end.saturating_sub(parcel.positions.start).min(parcel.len());
        written.map_err(|error| error.at_offset(start))?;
        release(guard)?;
        Ok(Progress::GoesOn)
    }

    /// Many runs in one vectored call.
    async fn batch(&mut self, batch: &[Window]) -> Result<Progress> {
        let (first, last) = (&batch[0], &batch[batch.len() - 1]);
        let guard = self.protect(&(first.file.start..last.file.end)).await?;
        let positions = first.positions.start..last.positions.end;
        let len = positions.end - positions.start;
        let (buffer, storage) = (self.job.buffer, self.job.storage);
        let offset = first.file.start;
        let moved = match self.job.prepared.direction {
            Direction::Write => {
                let bytes = match buffer.contiguous(&positions) {
                    Some(bytes) => bytes,
                    None => packed(buffer, &positions, &mut self.staging)?,
                };
                let mut rest = bytes;
                let pieces: Vec<(u64, &[u8])> = batch
                    .iter()
                    .map(|window| {
                        let piece = rest.split_off(..narrow(window.file.end - window.file.start));
                        (window.file.start, piece.unwrap_or_default())
                    })
                    .collect();
                self.statistics.storage_writes += accesses(&pieces);
                let written = timed(&mut self.statistics.storage, || storage.write_list(&pieces));
                let moved = written.as_ref().map_or_else(Error::moved, |()| len);
                self.statistics.storage_written_bytes += moved;
                self.moved += moved;
                written.map_err(|error| error.at_offset(offset))?;
                moved
            }
            Direction::Read => {
                let straight = buffer.contiguous_mut(&positions);
                let packed = straight.is_none();
                let bytes = match straight {
                    Some(bytes) => bytes,
                    None => room(&mut self.staging, len)?,
                };
                let mut rest = &mut *bytes;
                let mut pieces: Vec<(u64, &mut [u8])> = batch
                    .iter()
                    .map(|window| {
                        let len = narrow(window.file.end - window.file.start);
                        (window.file.start, rest.split_off_mut(..len).unwrap_or_default())
                    })
                    .collect();
                self.statistics.storage_reads += accesses(&pieces);
                let read = timed(&mut self.statistics.storage, || storage.read_list(&mut pieces));
                let moved = wide(read.map_err(|error| error.at_offset(offset))?);
                self.statistics.storage_read_bytes += moved;
                self.moved += moved;
                if packed {
                    let there = positions.start..positions.start + moved;
                    buffer.unpack(&there, &bytes[..narrow(moved)]);
                }
                moved
            }
        };
        settle(&mut self.statistics.storage).await;
        release(guard)?;
        Ok(if moved < len { Progress::EndOfFile } else { Progress::GoesOn })
    }

    /// Protects bytes that are about to be written, where others may sieve.
    async fn protect(&mut self, file: &Range<u64>) -> Result<Option<Protection<'a>>> {
        match self.steps.lock {
            LockRule::EachWrite => self.job.protect_write(file, self.statistics).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Protects bytes of others that are about to be read and written back.
    async fn protect_rewrite(&mut self, file: &Range<u64>) -> Result<Option<Protection<'a>>> {
        match self.steps.lock {
            LockRule::EachWrite => self.job.protect_rewrite(file, self.statistics).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn lock(&mut self, file: &Range<u64>) -> Result<LockGuard> {
        let range = LockRange {
            offset: file.start,
            len: file.end - file.start,
            exclusive: self.job.prepared.direction == Direction::Write,
        };
        self.statistics.locks += 1;
        super::lock(self.job, range).await
    }
}

/// Ends the protection of bytes, if there was one.
fn release(protection: Option<Protection<'_>>) -> Result<()> {
    protection.map_or(Ok(()), Protection::release)
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

/// The data at some positions, packed into the staging buffer.
fn packed<'a>(
    buffer: &Buffer,
    positions: &Range<u64>,
    staging: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    let bytes = room(staging, positions.end - positions.start)?;
    buffer.pack(positions, bytes);
    Ok(bytes)
}
