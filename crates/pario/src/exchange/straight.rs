//! Long pieces that fill a window are read straight into the ranks' memory.
//!
//! Between threads of one process a vectored storage call can name the memory of all ranks. Where
//! each piece of the file is one of memory, and together they fill the window, the call moves them
//! to their places by itself. Not so for writes: file systems take one long piece faster than many
//! of a few kibibytes, by more than what the copy to a window costs.
//!
//! Cost: no copy; one storage call for as many pieces as the driver takes at a time.

use std::ops::Range;

use super::shuffle::{Gone, Shuffle, hold};
use super::ways::{Way, Ways};
use super::window::reach;
use super::{Job, timed};
use crate::access::Buffer;
use crate::access::memory::{Held, Parcel};
use crate::datatype::cursor::Runs;
use crate::error::Result;
use crate::number::wide;
use crate::plan::Shuffled;
use crate::statistics::CallStatistics;

/// A piece of the file, and whose memory it is.
struct Piece<'a> {
    offset: u64,
    buffer: &'a Buffer,
    positions: Range<u64>,
}

impl Piece<'_> {
    /// Where its data goes, if that is contiguous.
    fn room<'a>(&self) -> Option<(u64, &'a mut [u8])> {
        Some((self.offset, self.buffer.contiguous_mut(&self.positions)?))
    }
}

impl<'a> Shuffle<'a> {
    /// Read: fetches the pieces of a window. Whether that was possible; if not, nothing is done.
    pub(super) fn fetch_straight(
        &mut self,
        ranks: &[u32],
        parcels: &[Parcel<'a>],
    ) -> std::result::Result<bool, Gone> {
        let Shuffle { job, ways, window: Some((_, window)), statistics, .. } = self else {
            return Ok(false);
        };
        if window.is_closed() || !are_long(job, self.shuffled, ways, (ranks, parcels)) {
            return Ok(false);
        }
        let held = hold(ways, ranks)?;
        let Some(pieces) = pieces(job, ways, ranks, parcels, &held) else { return Ok(false) };
        let Some(fetched) = fetch(job, &pieces, statistics) else { return Ok(false) };
        statistics.shared_bytes += shared(ways, ranks, parcels);
        window.fetched(reach(parcels), fetched);
        Ok(true)
    }
}

/// Whether the pieces of a window are long, fill it, and are in memory of this process.
fn are_long(
    job: &Job<'_>,
    shuffled: &Shuffled,
    ways: &Ways,
    (ranks, parcels): (&[u32], &[Parcel<'_>]),
) -> bool {
    let here = |&rank: &u32| match ways.from(rank) {
        Way::Own => job.refused.is_none(),
        way => matches!(way, Way::Memory(_)),
    };
    let is_long = |parcel: &Parcel<'_>| parcel.access.piece_bytes() >= shuffled.long_piece_bytes();
    let fill =
        |file: Range<u64>| parcels.iter().map(Parcel::len).sum::<u64>() == file.end - file.start;
    parcels.iter().all(is_long) && ranks.iter().all(here) && fill(reach(parcels))
}

/// Bytes of other ranks.
fn shared(ways: &Ways, ranks: &[u32], parcels: &[Parcel<'_>]) -> u64 {
    let is_other = |rank: u32| !matches!(ways.from(rank), Way::Own);
    let others = ranks.iter().zip(parcels).filter(|(rank, _)| is_other(**rank));
    others.map(|(_, parcel)| parcel.len()).sum()
}

/// The pieces in the order of the file, if each begins where the one before it ends.
fn pieces<'a>(
    job: &'a Job<'_>,
    ways: &Ways,
    ranks: &[u32],
    parcels: &[Parcel<'_>],
    held: &'a [Option<Held<'_>>],
) -> Option<Vec<Piece<'a>>> {
    let mut pieces = Vec::new();
    for ((&rank, parcel), held) in ranks.iter().zip(parcels).zip(held) {
        let buffer = match ways.from(rank) {
            Way::Own => job.buffer,
            _ => held.as_deref()?,
        };
        let (layout, data) = parcel.access.place(parcel.positions.start);
        let mut at = parcel.positions.start;
        for (offset, len) in Runs::new(layout, data..data + parcel.len()) {
            pieces.push(Piece { offset: offset.cast_unsigned(), buffer, positions: at..at + len });
            at += len;
        }
    }
    pieces.sort_unstable_by_key(|piece| piece.offset);
    let len = |piece: &Piece<'_>| piece.positions.end - piece.positions.start;
    let touch = |pair: &[Piece<'_>]| pair[0].offset + len(&pair[0]) == pair[1].offset;
    pieces.windows(2).all(touch).then_some(pieces)
}

/// Fetches pieces, and tells how many bytes there were; nothing if one of them is not contiguous
/// in memory.
fn fetch(
    job: &Job<'_>,
    pieces: &[Piece<'_>],
    statistics: &mut CallStatistics,
) -> Option<Result<u64>> {
    let mut list = pieces.iter().map(Piece::room).collect::<Option<Vec<(u64, &mut [u8])>>>()?;
    let read = timed(&mut statistics.storage, || job.storage.read_list(&mut list)).map(wide);
    statistics.storage_reads += 1;
    statistics.storage_read_bytes += read.as_ref().map_or(0, |&bytes| bytes);
    Some(read)
}
