//! The buffer of a rank in another process of this node.
//!
//! Its owner says where its data lies, and leaves the call only when all ranks are done with it
//! (`exchange::agree`); a rank that is lost takes the whole job with it.
//!
//! Cost: a system call for every [`RUNS_MAX`] runs, and one copy.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

use super::{Buffer, FileWindow, Parcel};
use crate::comm::{ProcessMemory, RUNS_MAX, RemoteRun};
use crate::datatype::cursor::Runs;
use crate::datatype::layout::Layout;
use crate::datatype::wire::{Reader, Writer};
use crate::error::Result;
use crate::number::{narrow, wide};

/// Data in shorter pieces is packed by its owner instead: the system needs about as long for a
/// piece as for copying so many bytes.
const PIECE_BYTES_MIN: u64 = 512;
/// What must be said about the places of the data is not longer.
const WIRE_BYTES_MAX: usize = 1024;

/// Where the data of a rank of another process lies.
#[derive(Debug)]
pub(crate) struct RemoteBuffer {
    rank: u32,
    /// The address of offset 0; it need not be inside the memory itself.
    origin: usize,
    layout: Layout,
}

impl Buffer {
    /// Says to other processes where the data lies; `None` if they had better not use it.
    pub(crate) fn to_remote_wire(&self) -> Option<Vec<u8>> {
        let pieces = self.layout.pieces().max(1);
        if pieces > 1 && self.layout.size() / pieces < PIECE_BYTES_MIN {
            return None;
        }
        let mut writer = Writer::default();
        writer.unsigned(wide(self.span.address()));
        writer.layout(&self.layout);
        (writer.bytes.len() <= WIRE_BYTES_MAX).then_some(writer.bytes)
    }
}

impl RemoteBuffer {
    pub(crate) fn from_wire(rank: u32, wire: &[u8]) -> Result<RemoteBuffer> {
        let mut reader = Reader::new(wire);
        let origin = narrow(reader.unsigned()?);
        let layout = reader.layout()?;
        reader.finish()?;
        Ok(RemoteBuffer { rank, origin, layout })
    }

    /// Brings the data at some positions to consecutive bytes.
    pub(crate) fn pull(
        &self,
        memory: &ProcessMemory,
        positions: &Range<u64>,
        bytes: &mut [u8],
    ) -> Result<()> {
        let here = std::iter::once(0..bytes.len());
        in_calls(here, self.runs(positions), |here, there| {
            memory.read(self.rank, there, &mut slices_mut(bytes, here))
        })
    }

    /// Brings the data of a parcel to its place in a window.
    pub(crate) fn pull_into(
        &self,
        memory: &ProcessMemory,
        window: &mut FileWindow<'_>,
        parcel: &Parcel<'_>,
    ) -> Result<()> {
        in_calls(places(window.offset, parcel), self.runs(&parcel.positions), |here, there| {
            memory.read(self.rank, there, &mut slices_mut(window.bytes, here))
        })
    }

    /// Brings consecutive bytes to the data at some positions.
    pub(crate) fn push(
        &self,
        memory: &ProcessMemory,
        positions: &Range<u64>,
        bytes: &[u8],
    ) -> Result<()> {
        let here = std::iter::once(0..bytes.len());
        in_calls(here, self.runs(positions), |here, there| {
            self.write(memory, &slices(bytes, here), there)
        })
    }

    /// Brings the data of a parcel from its place in a window.
    pub(crate) fn push_from(
        &self,
        memory: &ProcessMemory,
        window: &FileWindow<'_>,
        parcel: &Parcel<'_>,
    ) -> Result<()> {
        in_calls(places(window.offset, parcel), self.runs(&parcel.positions), |here, there| {
            self.write(memory, &slices(window.bytes, here), there)
        })
    }

    fn write(
        &self,
        memory: &ProcessMemory,
        here: &[IoSlice<'_>],
        there: &[RemoteRun],
    ) -> Result<()> {
        // SAFETY: the rank has said where its target lies, and waits for the end of the call; this
        // rank alone serves these positions (rule 2 of the module above).
        unsafe { memory.write(self.rank, there, here) }
    }

    /// Where the data at some positions lies.
    fn runs(&self, positions: &Range<u64>) -> impl Iterator<Item = RemoteRun> {
        let origin = self.origin;
        Runs::new(&self.layout, positions.clone()).map(move |(offset, len)| {
            let address = origin.wrapping_add_signed(narrow(offset.cast_unsigned()).cast_signed());
            RemoteRun { address, len: narrow(len) }
        })
    }
}

/// Where the bytes of a parcel lie in a window that begins at a file offset, in ascending order.
fn places(first: u64, parcel: &Parcel<'_>) -> impl Iterator<Item = Range<usize>> {
    let (layout, data) = parcel.access.place(parcel.positions.start);
    Runs::new(layout, data..data + parcel.len()).map(move |(offset, len)| {
        let start = narrow(offset.cast_unsigned() - first);
        start..start + narrow(len)
    })
}

fn slices<'a>(bytes: &'a [u8], runs: &[Range<usize>]) -> Vec<IoSlice<'a>> {
    runs.iter().map(|run| IoSlice::new(&bytes[run.clone()])).collect()
}

/// The runs, which are in ascending order and apart.
fn slices_mut<'a>(bytes: &'a mut [u8], runs: &[Range<usize>]) -> Vec<IoSliceMut<'a>> {
    let (mut rest, mut at) = (bytes, 0);
    let mut slices = Vec::with_capacity(runs.len());
    for run in runs {
        let (_, from_here) = rest.split_at_mut(run.start - at);
        let (slice, behind) = from_here.split_at_mut(run.len());
        slices.push(IoSliceMut::new(slice));
        (rest, at) = (behind, run.end);
    }
    slices
}

/// Divides runs here and runs there, equally many bytes, into calls of as many runs as the system
/// takes.
fn in_calls(
    mut here: impl Iterator<Item = Range<usize>>,
    mut there: impl Iterator<Item = RemoteRun>,
    mut call: impl FnMut(&[Range<usize>], &[RemoteRun]) -> Result<()>,
) -> Result<()> {
    let (mut ours, mut theirs): (Vec<Range<usize>>, Vec<RemoteRun>) = (Vec::new(), Vec::new());
    let (mut one, mut two) = (here.next(), there.next());
    while let (Some(run), Some(remote)) = (&mut one, &mut two) {
        let len = run.len().min(remote.len);
        let joins_ours = ours.last().is_some_and(|last| last.end == run.start);
        let joins_theirs =
            theirs.last().is_some_and(|last| last.address + last.len == remote.address);
        let full =
            !joins_ours && ours.len() == RUNS_MAX || !joins_theirs && theirs.len() == RUNS_MAX;
        if full {
            call(&ours, &theirs)?;
            ours.clear();
            theirs.clear();
        }
        match ours.last_mut() {
            Some(last) if joins_ours && !full => last.end += len,
            _ => ours.push(run.start..run.start + len),
        }
        match theirs.last_mut() {
            Some(last) if joins_theirs && !full => last.len += len,
            _ => theirs.push(RemoteRun { address: remote.address, len }),
        }
        run.start += len;
        (remote.address, remote.len) = (remote.address + len, remote.len - len);
        if run.start == run.end {
            one = here.next();
        }
        if remote.len == 0 {
            two = there.next();
        }
    }
    match ours.is_empty() {
        true => Ok(()),
        false => call(&ours, &theirs),
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    fn strided(start: i64, len: u64, count: u64, stride: i64) -> Layout {
        Layout::block(start, len).unwrap().repeated(count, stride).unwrap()
    }

    /// Buffers of this process, taken for another's, give what a plain copy gives.
    #[test]
    fn another_process_is_copied_from_and_to() {
        let memory = ProcessMemory::new(vec![Some(std::process::id())]);
        let layouts = [
            strided(-700, 600, 50, 700),
            strided(0, 30_000, 1, 0),
            strided(3, 3000, 10, 3001),
            strided(0, 1, 30_000, 2),
        ];
        let file = [strided(10, 8, 5000, 9), strided(10, 40_000, 1, 0), strided(11, 600, 60, 1600)];
        for (layout, file) in layouts.iter().flat_map(|one| file.iter().map(move |two| (one, two)))
        {
            let mut bytes: Vec<u8> = (0..70_000u32).map(|index| (index % 251) as u8).collect();
            let mut twin = bytes.clone();
            let buffer = |bytes: &mut [u8]| Buffer {
                span: Span::of_mut(bytes).based_at(-1000),
                layout: layout.clone(),
                signature: Signature::empty(),
            };
            let (near, far) = (buffer(&mut twin), buffer(&mut bytes));
            let wire = far.to_remote_wire();
            assert_eq!(wire.is_none(), layout.pieces() > 1000);
            let Some(wire) = wire else { continue };
            let remote = RemoteBuffer::from_wire(0, &wire).unwrap();
            let access = Access::new(file, 0, layout.size()).unwrap();
            for positions in [0..layout.size(), 1..layout.size() - 1, 599..601, 5000..6000] {
                let parcel = Parcel { access: &access, positions: positions.clone() };
                let len = narrow(parcel.len());
                let (mut one, mut two) = (vec![0; 100_000], vec![0; 100_000]);
                near.pack(&positions, &mut one[..len]);
                remote.pull(&memory, &positions, &mut two[..len]).unwrap();
                assert!(one == two);
                let mut window = FileWindow { offset: 10, bytes: &mut one };
                near.fill(&mut window, parcel.clone());
                let mut window = FileWindow { offset: 10, bytes: &mut two };
                remote.pull_into(&memory, &mut window, &parcel).unwrap();
                assert!(one == two);
                one.iter_mut().for_each(|byte| *byte ^= 255);
                let window = FileWindow { offset: 10, bytes: &mut one };
                near.take(&window, parcel.clone());
                remote.push_from(&memory, &window, &parcel).unwrap();
                near.unpack(&(7..9), &[1, 2]);
                remote.push(&memory, &(7..9), &[1, 2]).unwrap();
                assert!(std::hint::black_box(&bytes) == &twin);
            }
        }
    }
}
