//! Memory of other processes on the same node, read and written without their doing.
//!
//! Cost: one system call for up to [`RUNS_MAX`] runs of bytes on either side, and one copy of each
//! byte.
//!
//! Unsafe: the kernel writes into the slices that it is given, as far as they reach, and checks
//! every address of the other process. That nobody uses those bytes meanwhile, only the other
//! process can know: who writes them answers for that.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorClass, Result, is_bad_address};

/// Most runs in one call, on either side: the system's limit.
pub const RUNS_MAX: usize = 1024;

/// A run of bytes in the memory of another process; the system's `iovec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RemoteRun {
    /// Address of the first byte, in that process.
    pub address: usize,
    /// How many bytes.
    pub len: usize,
}

/// Says whether the memory of other processes may be written to, and hears when it cannot be used.
pub trait Permit: Send + Sync {
    /// Whether it may, from now until [`Permit::leave`]; if not, there is nothing to leave.
    fn enter(&self) -> bool;
    /// The memory is no longer written to.
    fn leave(&self);
    /// The system does not let this process use the memory of another one any more.
    fn refuse(&self);
}

/// The processes of a communicator whose memory can be reached from here.
///
/// That they can be reached was tried before. It may end all the same, on any of them: a filter of
/// system calls is installed, or rights are dropped. A rank that notices says so at the end of the
/// call ([`ProcessMemory::is_refused`]), and all together give this memory up.
#[derive(Default)]
pub struct ProcessMemory {
    processes: Vec<Option<u32>>,
    permit: Option<Arc<dyn Permit>>,
    /// Whether the system has refused this rank the memory of another one.
    refused: AtomicBool,
    given_up: AtomicBool,
}

impl fmt::Debug for ProcessMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = &self.processes;
        formatter
            .debug_struct("ProcessMemory")
            .field("processes", processes)
            .finish_non_exhaustive()
    }
}

impl ProcessMemory {
    /// Processes by rank; none for ranks on other nodes, or where the system does not permit it.
    pub fn new(processes: Vec<Option<u32>>) -> ProcessMemory {
        ProcessMemory { processes, ..ProcessMemory::default() }
    }

    /// The same, written to only while it is permitted: a transport that can fail makes ranks leave
    /// a call in which they have offered their memory.
    pub fn with_permit(self, permit: Arc<dyn Permit>) -> ProcessMemory {
        ProcessMemory { permit: Some(permit), ..self }
    }

    /// Whether the memory of a rank can be reached.
    pub fn reaches(&self, rank: u32) -> bool {
        !self.given_up.load(Ordering::Relaxed) && self.process(rank).is_ok()
    }

    /// Whether the system has refused the memory of another rank, which it had permitted.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed) && !self.given_up.load(Ordering::Relaxed)
    }

    /// Uses this memory no more: all ranks do that together, between two uses of it.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.permit.iter().for_each(|permit| permit.refuse());
    }

    /// What became of a call that should have moved this number of bytes.
    fn outcome(&self, moved: libc::ssize_t, bytes: usize, rank: u32) -> Result<()> {
        let error = std::io::Error::last_os_error();
        // A buffer that is not there is the program's mistake.
        if moved < 0 && !is_bad_address(&error) {
            self.refused.store(true, Ordering::Relaxed);
        }
        outcome(moved, &error, (bytes, rank))
    }

    fn process(&self, rank: u32) -> Result<libc::pid_t> {
        let index = usize::try_from(rank).unwrap_or(usize::MAX);
        let process = self.processes.get(index).copied().flatten();
        process.and_then(|process| libc::pid_t::try_from(process).ok()).ok_or_else(|| {
            let text = format!("the memory of rank {rank} cannot be reached");
            Error::new(ErrorClass::Intern, text)
        })
    }

    /// Copies bytes of a rank's memory, one run after the other, to places here. Both sides have
    /// the same number of bytes, and at most [`RUNS_MAX`] runs. The places may be shorter
    /// afterwards, as [`IoSliceMut::advance_slices`] leaves them.
    ///
    /// # Errors
    /// `Intern` if the process has ended, or its memory is not what it said.
    pub fn read(&self, rank: u32, from: &[RemoteRun], to: &mut [IoSliceMut<'_>]) -> Result<()> {
        let process = self.process(rank)?;
        let bytes = to.iter().map(|slice| slice.len()).sum();
        let moved = until_all_moved(from, to, |from, to| {
            let (to, to_count) = (to.as_ptr().cast(), number(to.len()));
            let (from, from_count) = (from.as_ptr().cast(), number(from.len()));
            // SAFETY: both lists are laid out like `iovec`s (guaranteed for `IoSliceMut`), and the
            // slices are borrowed exclusively for this call.
            unsafe { libc::process_vm_readv(process, to, to_count, from, from_count, 0) }
        });
        self.outcome(moved, bytes, rank)
    }

    /// Copies bytes from places here to a rank's memory, one run after the other. Both sides have
    /// the same number of bytes, and at most [`RUNS_MAX`] runs.
    ///
    /// # Safety
    /// The process has offered these bytes, and waits with using them until it knows that this
    /// call has ended.
    ///
    /// # Errors
    /// `Intern` if the process has ended, or its memory is not what it said.
    pub unsafe fn write(&self, rank: u32, to: &[RemoteRun], from: &[IoSlice<'_>]) -> Result<()> {
        let process = self.process(rank)?;
        let bytes = from.iter().map(|slice| slice.len()).sum();
        let (from, from_count) = (from.as_ptr().cast(), number(from.len()));
        if self.permit.as_ref().is_some_and(|permit| !permit.enter()) {
            let text = format!("the memory of rank {rank} may not be used after a failure");
            return Err(Error::new(ErrorClass::Other, text));
        }
        // SAFETY: as in `read`; the caller answers for the other process.
        let moved = unsafe {
            let to_start = to.as_ptr().cast();
            libc::process_vm_writev(process, from, from_count, to_start, number(to.len()), 0)
        };
        let written = self.outcome(moved, bytes, rank);
        self.permit.iter().for_each(|permit| permit.leave());
        written
    }
}

fn number(len: usize) -> libc::c_ulong {
    libc::c_ulong::try_from(len).unwrap_or(libc::c_ulong::MAX)
}

/// Repeats a transfer until all bytes have moved: a system call moves less than 2 GiB. Returns how
/// many moved, or what the last transfer returned if it failed.
fn until_all_moved<'a>(
    from: &[RemoteRun],
    mut to: &mut [IoSliceMut<'a>],
    mut transfer: impl FnMut(&[RemoteRun], &mut [IoSliceMut<'a>]) -> libc::ssize_t,
) -> libc::ssize_t {
    let (mut from, mut total) = (Cow::Borrowed(from), 0);
    loop {
        let moved = transfer(&from, to);
        let Ok(count) = usize::try_from(moved) else { return moved };
        total += moved;
        let left = to.iter().map(|slice| slice.len()).sum::<usize>() - count;
        if count == 0 || left == 0 {
            return total;
        }
        IoSliceMut::advance_slices(&mut to, count);
        from = Cow::Owned(after(&from, count));
    }
}

/// Runs without their first bytes.
fn after(runs: &[RemoteRun], mut bytes: usize) -> Vec<RemoteRun> {
    let mut rest = runs.to_vec();
    rest.retain_mut(|run| {
        let skipped = run.len.min(bytes);
        bytes -= skipped;
        *run = RemoteRun { address: run.address + skipped, len: run.len - skipped };
        run.len > 0
    });
    rest
}

fn outcome(
    moved: libc::ssize_t,
    error: &std::io::Error,
    (bytes, rank): (usize, u32),
) -> Result<()> {
    let text = match usize::try_from(moved) {
        Ok(moved) if moved == bytes => return Ok(()),
        Ok(moved) => format!(
            "only {moved} of {bytes} bytes are in the memory of rank {rank}; is its buffer as long \
             as the count says?"
        ),
        Err(_) => format!(
            "the memory of rank {rank} cannot be used: {error}; is its buffer as long as the count \
             says?"
        ),
    };
    Err(Error::new(ErrorClass::Intern, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: &[u8]) -> RemoteRun {
        RemoteRun { address: bytes.as_ptr().addr(), len: bytes.len() }
    }

    #[test]
    fn runs_need_not_be_divided_alike() {
        let memory = ProcessMemory::new(vec![None, Some(std::process::id())]);
        let there: Vec<u8> = (0..100).collect();
        let (mut one, mut two) = ([0; 7], [0; 13]);
        let mut to = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        memory.read(1, &[run(&there[10..12]), run(&there[40..58])], &mut to).unwrap();
        assert_eq!(one, [10, 11, 40, 41, 42, 43, 44]);
        assert_eq!(two[..2], [45, 46]);
        let room = vec![0u8; 3];
        // SAFETY: nobody looks at `room` meanwhile.
        unsafe { memory.write(1, &[run(&room)], &[IoSlice::new(&[7, 8, 9])]) }.unwrap();
        assert_eq!(std::hint::black_box(room), [7, 8, 9]);
    }

    /// The system moves less than 2 GiB in one call; messages may be longer.
    #[test]
    fn a_transfer_that_stops_early_goes_on() {
        let memory = ProcessMemory::new(vec![Some(std::process::id())]);
        let there: Vec<u8> = (0..100).collect();
        let from = [run(&there[10..12]), run(&there[40..41]), run(&there[50..67])];
        for most in 1..=21 {
            let (mut one, mut two, mut calls) = ([0; 7], [0; 13], 0);
            let mut to = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
            let moved = until_all_moved(&from, &mut to, |from, to| {
                calls += 1;
                let len = from.iter().map(|run| run.len).sum::<usize>().min(most);
                let mut part = vec![0; len];
                memory.read(0, from, &mut [IoSliceMut::new(&mut part)]).unwrap();
                let mut part = part.as_slice();
                for slice in to.iter_mut() {
                    let (now, later) = part.split_at(slice.len().min(part.len()));
                    slice[..now.len()].copy_from_slice(now);
                    part = later;
                }
                libc::ssize_t::try_from(len).unwrap()
            });
            assert_eq!((moved, calls), (20, 20usize.div_ceil(most)));
            let all: Vec<u8> = one.into_iter().chain(two).collect();
            assert_eq!(all, [&there[10..12], &there[40..41], &there[50..67]].concat(), "{most}");
        }
    }

    #[test]
    fn a_transfer_that_moves_nothing_ends() {
        let there = [1; 8];
        let mut here = [0; 8];
        let mut counts = [5, 0].into_iter();
        let moved = until_all_moved(&[run(&there)], &mut [IoSliceMut::new(&mut here)], |_, _| {
            counts.next().unwrap()
        });
        assert_eq!(moved, 5);
        let mut counts = [5, -1].into_iter();
        let moved = until_all_moved(&[run(&there)], &mut [IoSliceMut::new(&mut here)], |_, _| {
            counts.next().unwrap()
        });
        assert_eq!(moved, -1);
    }

    /// A program that passes a wrong address learns of it, on all ranks; nobody waits for ever.
    #[test]
    fn a_buffer_that_is_not_there_fails_the_collective_on_all_ranks() {
        use crate::access::{Source, Target};
        use crate::{Datatype, File, Threads, View};
        for (block, direction) in [(4u64, "write"), (4, "read"), (4096, "write"), (4096, "read")] {
            let path = format!("memory:a_buffer_that_is_not_there_{block}_{direction}");
            let classes = Threads::new(3).as_processes().run(|comm| {
                let options = File::options().read(true).write(true).create(true);
                let options = options.hint("pario_strategy", "two-phase").hint("cb_nodes", "1");
                let file = options.open(&*comm, &path).unwrap();
                file.write(u64::from(comm.rank()) * 8192, &[1u8; 8192]).unwrap();
                let block_type = Datatype::contiguous(block, &Datatype::byte()).unwrap();
                let turn = Datatype::resized(0, block.cast_signed() * 3, &block_type).unwrap();
                let start = u64::from(comm.rank()) * block;
                file.set_view(&View::new(start, &Datatype::byte(), &turn)).unwrap();
                let mut memory = vec![comm.rank() as u8; 8192];
                let address = match comm.rank() {
                    2 => std::ptr::without_provenance_mut(64),
                    _ => memory.as_mut_ptr(),
                };
                let byte = Datatype::byte();
                // SAFETY: rank 0 serves all; what rank 2 names is only asked of the system.
                let moved = unsafe {
                    match direction {
                        "write" => {
                            file.write_all(0, Source::from_raw(address, 8192, &byte).unwrap())
                        }
                        _ => file.read_all(0, Target::from_raw(address, 8192, &byte).unwrap()),
                    }
                };
                let error = moved.unwrap_err();
                file.close().unwrap();
                (error.class(), error.rank())
            });
            File::delete(&path).unwrap();
            assert_eq!(classes, [(ErrorClass::Intern, Some(2)); 3], "{block} {direction}");
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let memory = ProcessMemory::new(vec![None, Some(std::process::id())]);
        let nowhere = RemoteRun { address: 16, len: 4 };
        let mut byte = [0; 4];
        let error = memory.read(1, &[nowhere], &mut [IoSliceMut::new(&mut byte)]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Intern);
        assert!(!memory.reaches(0) && memory.reaches(1) && !memory.reaches(2));
        assert!(memory.read(0, &[nowhere], &mut [IoSliceMut::new(&mut byte)]).is_err());
    }
}
