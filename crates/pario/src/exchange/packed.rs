//! Common windows in which the bytes of each rank lie one after the other.
//!
//! Short pieces of many ranks lie in the same cache lines: ranks that place or take them by
//! themselves would all load every line. So whoever fetches or stores one has a short window of its
//! own, which stays in the cache of its core, and deals the bytes out from there, or puts them
//! together.
//!
//! Cost: each byte is copied once more than in other common windows, in the cache.

use std::ops::Range;
use std::time::Instant;

use super::common::Common;
use super::window::reach;
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

    pub(super) fn to_word(self) -> u64 {
        match self {
            Begin::InPlace => u64::MAX,
            Begin::At(first) => first,
        }
    }

    pub(super) fn from_word(word: u64) -> Begin {
        if word == u64::MAX { Begin::InPlace } else { Begin::At(word) }
    }
}

impl<'a> Common<'a> {
    /// Write: assembles a window from what ranks have packed, and stores it, part by part.
    pub(super) fn store_packed(&mut self, number: u32, parcels: &[Parcel<'a>]) {
        let (slot, round) = (self.slot(number), u64::from(number));
        let begins = Begin::of_all(parcels, true, u64::MAX);
        for part in self.shuffled.parts(reach(parcels)) {
            let pieces = pieces(&part, parcels, &begins);
            let there: Vec<Parcel<'a>> = pieces.iter().map(|piece| piece.parcel.clone()).collect();
            if there.is_empty() {
                continue;
            }
            // Parcels are apart here, so that nothing about holes is remembered for the window.
            self.window.open_for_write(self.job, (round, part.start), &there, self.statistics);
            if self.window.is_closed() {
                return;
            }
            let began = Instant::now();
            let mut contents = self.window.contents(round);
            let mut turns = Turns::new(&mut contents);
            for Piece { parcel, begin } in &pieces {
                if let Begin::At(first) = begin {
                    let bytes = slot.bytes(narrow(*first), narrow(parcel.len()));
                    turns.unpack(bytes, parcel);
                }
            }
            turns.run(self.job.prepared.disjoint);
            self.statistics.packing += began.elapsed();
            self.window.store(self.job, round, &there, self.statistics);
        }
    }

    /// Read: fetches a window part by part, and packs what ranks are to take; returns where the
    /// file ends, or later.
    pub(super) fn fetch_packed(
        &mut self,
        number: u32,
        parcels: &[Parcel<'a>],
        begins: &[Begin],
    ) -> u64 {
        let (slot, round) = (self.slot(number), u64::from(number));
        let (file, reached) = (self.file(number), reach(parcels));
        for part in self.shuffled.parts(reached.clone()) {
            let pieces = pieces(&part, parcels, begins);
            let there: Vec<Parcel<'a>> = pieces.iter().map(|piece| piece.parcel.clone()).collect();
            if there.is_empty() {
                continue;
            }
            let wanted = reach(&there);
            let end = self.window.fetch(self.job, (round, part.start), &wanted, self.statistics);
            let began = Instant::now();
            let mut contents = self.window.contents(round);
            if begins.contains(&Begin::InPlace) {
                let first = narrow(contents.offset - file.start);
                slot.bytes(first, contents.bytes.len()).copy_from_slice(contents.bytes);
            }
            let mut turns = Turns::new(&mut contents);
            for Piece { parcel, begin } in pieces {
                let parcel = if end < wanted.end { parcel.before(end) } else { parcel };
                if let Begin::At(first) = begin {
                    let bytes = slot.bytes(narrow(first), narrow(parcel.len()));
                    turns.pack(bytes, &parcel);
                }
            }
            turns.run(true);
            self.statistics.packing += began.elapsed();
            if end < wanted.end {
                return end;
            }
        }
        reached.end
    }
}

/// What a rank has in a part of a window.
struct Piece<'a> {
    parcel: Parcel<'a>,
    begin: Begin,
}

fn pieces<'a>(part: &Range<u64>, parcels: &[Parcel<'a>], begins: &[Begin]) -> Vec<Piece<'a>> {
    let piece = |(parcel, &begin): (&Parcel<'a>, &Begin)| {
        let positions = parcel.access.within(part);
        let begin = match begin {
            Begin::At(first) => Begin::At(first + positions.start - parcel.positions.start),
            Begin::InPlace => Begin::InPlace,
        };
        let parcel = Parcel { access: parcel.access, positions };
        (parcel.len() > 0).then_some(Piece { parcel, begin })
    };
    parcels.iter().zip(begins).filter_map(piece).collect()
}
