//! Common windows in which the bytes of each rank lie one after the other.
//!
//! Short pieces of many ranks lie in the same cache lines: ranks that place or take them by
//! themselves would all load every line. So the aggregator has a short window of its own, which
//! stays in the cache of its core, and deals the bytes out from there, or puts them together.
//!
//! Cost: each byte is copied once more than in other common windows, in the cache.

use std::ops::Range;
use std::time::Instant;

use super::shuffle::Shuffle;
use crate::access::memory::{Parcel, Turns};
use crate::number::narrow;

/// Where the bytes of a rank begin in a common window, if they are not at their places in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    InPlace,
    At(u64),
}

impl Begin {
    /// Parcels one after the other, or in place if there is not room for all: what is read by
    /// several ranks may be more than the window.
    pub(super) fn of_all(parcels: &[Parcel<'_>], packed: bool, room: u64) -> Vec<Begin> {
        let total: u64 = parcels.iter().map(Parcel::len).sum();
        let mut at = 0;
        let begin = |parcel: &Parcel<'_>| match packed && total <= room {
            true => {
                at += parcel.len();
                Begin::At(at - parcel.len())
            }
            false => Begin::InPlace,
        };
        parcels.iter().map(begin).collect()
    }

    pub(super) fn to_wire(self) -> u64 {
        match self {
            Begin::InPlace => u64::MAX,
            Begin::At(first) => first,
        }
    }

    pub(super) fn from_wire(wire: u64) -> Begin {
        if wire == u64::MAX { Begin::InPlace } else { Begin::At(wire) }
    }
}

impl<'a> Shuffle<'a> {
    /// Write, as an aggregator: assembles the window of a round from what ranks have packed, and
    /// stores it, part by part.
    pub(super) fn store_packed(&mut self, round: u64, ranks: &[u32], parcels: &[Parcel<'a>]) {
        let common = self.common_window(round, self.job.communicator.rank());
        let begins = Begin::of_all(parcels, true, u64::MAX);
        let Some((domain, window)) = &mut self.window else { return };
        for part in self.shuffled.parts(self.shuffled.window(domain, round)) {
            let pieces = pieces(&part, (ranks, parcels), &begins);
            let there: Vec<Parcel<'a>> = pieces.iter().map(|piece| piece.parcel.clone()).collect();
            if there.is_empty() {
                continue;
            }
            // Parcels are apart here, so that nothing about holes is remembered for the round.
            window.open_for_write(self.job, (round, part.start), &there, self.statistics);
            if window.is_closed() {
                return;
            }
            let began = Instant::now();
            let mut contents = window.contents(round);
            let mut turns = Turns::new(&mut contents);
            for Piece { rank, parcel, begin } in &pieces {
                match begin {
                    _ if *rank == self.job.communicator.rank() => {
                        turns.fill(self.job.buffer, parcel);
                    }
                    Begin::At(first) => {
                        let bytes = common.bytes(narrow(*first), narrow(parcel.len()));
                        turns.unpack(bytes, parcel);
                    }
                    Begin::InPlace => {}
                }
            }
            turns.run(self.job.prepared.disjoint);
            self.statistics.packing += began.elapsed();
            window.store(self.job, round, &there, self.statistics);
        }
    }

    /// Read, as an aggregator: fetches the window of a round part by part, packs what other ranks
    /// are to take, and takes its own bytes; returns where the file ends, or later.
    pub(super) fn fetch_packed(
        &mut self,
        round: u64,
        (ranks, parcels): (&[u32], &[Parcel<'a>]),
        begins: &[Begin],
    ) -> u64 {
        let common = self.common_window(round, self.job.communicator.rank());
        let Some((domain, window)) = &mut self.window else { return 0 };
        let file = self.shuffled.window(domain, round);
        for part in self.shuffled.parts(file.clone()) {
            let pieces = pieces(&part, (ranks, parcels), begins);
            let there: Vec<Parcel<'a>> = pieces.iter().map(|piece| piece.parcel.clone()).collect();
            if there.is_empty() {
                continue;
            }
            let end = window.fetch(self.job, (round, part.start), &there, self.statistics);
            let began = Instant::now();
            let mut contents = window.contents(round);
            if begins.contains(&Begin::InPlace) {
                let first = narrow(contents.offset - file.start);
                common.bytes(first, contents.bytes.len()).copy_from_slice(contents.bytes);
            }
            let mut turns = Turns::new(&mut contents);
            for Piece { rank, parcel, begin } in pieces {
                let parcel = parcel.before(end);
                match begin {
                    _ if rank == self.job.communicator.rank() => {
                        if self.job.refused.is_none() {
                            turns.take(self.job.buffer, &parcel);
                        }
                    }
                    Begin::At(first) => {
                        let bytes = common.bytes(narrow(first), narrow(parcel.len()));
                        turns.pack(bytes, &parcel);
                    }
                    Begin::InPlace => {}
                }
            }
            turns.run(true);
            self.statistics.packing += began.elapsed();
            if window.is_closed() {
                return end;
            }
        }
        file.end
    }
}

/// What a rank has in a part of a window.
struct Piece<'a> {
    rank: u32,
    parcel: Parcel<'a>,
    begin: Begin,
}

fn pieces<'a>(
    part: &Range<u64>,
    (ranks, parcels): (&[u32], &[Parcel<'a>]),
    begins: &[Begin],
) -> Vec<Piece<'a>> {
    let piece = |((&rank, parcel), &begin): ((&u32, &Parcel<'a>), &Begin)| {
        let positions = parcel.access.within(part);
        let begin = match begin {
            Begin::At(first) => Begin::At(first + positions.start - parcel.positions.start),
            Begin::InPlace => Begin::InPlace,
        };
        let parcel = Parcel { access: parcel.access, positions };
        (parcel.len() > 0).then_some(Piece { rank, parcel, begin })
    };
    ranks.iter().zip(parcels).zip(begins).filter_map(piece).collect()
}
