//! Common windows in which the bytes of each rank lie one after the other.
//!
//! Short pieces of many ranks lie in the same cache lines: ranks that place or take them by
//! themselves would all load every line. So whoever fetches or stores one has a short window of its
//! own, which stays in the cache of its core, and deals the bytes out from there, or puts them
//! together.
//!
//! A store to a line that another core has read takes the line away from there. Where the caches of
//! two cores are far from each other, that takes longer than to go past the caches; whoever finds
//! it so tells the others.
//!
//! Cost: each byte is copied once more than in other common windows, in the cache. Measured with 16
//! processes on 2 cores, pieces of 4 bytes: 8 to 12 GB/s into windows with near caches, 3 to 5 with
//! far ones.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::common::Common;
use super::window::reach;
use crate::access::memory::{Parcel, Turns};
use crate::datatype::copy::Stores;
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

/// How fast the parts of a window are packed.
#[derive(Default)]
struct Pace {
    /// Bytes in a microsecond, in the fastest part: what interrupts a rank does not matter.
    fastest: Option<u128>,
}

impl Pace {
    /// Near caches are faster.
    const SLOW: u128 = 6000;
    /// Parts with less tell nothing.
    const BYTES_MIN: u64 = 64 << 10;

    fn note(&mut self, bytes: u64, spent: Duration) {
        if bytes >= Pace::BYTES_MIN {
            let pace = u128::from(bytes) * 1000 / spent.as_nanos().max(1);
            self.fastest = self.fastest.max(Some(pace));
        }
    }

    fn is_slow(&self) -> bool {
        self.fastest.is_some_and(|pace| pace < Pace::SLOW)
    }
}

impl<'a> Common<'a> {
    /// Write: assembles a window from what ranks have packed, and stores it, part by part.
    pub(super) fn store_packed(&mut self, number: u32, parcels: &[Parcel<'a>]) {
        let (slot, round) = (self.slot(number), u64::from(number));
        let begins = Begin::of_all(parcels, true, u64::MAX);
        for part in self.shuffled.parts(reach(parcels)) {
            let (there, begins) = in_part(&part, parcels, &begins);
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
            let mut turns = Turns::new(&mut contents, there.len());
            for (parcel, begin) in there.iter().zip(begins) {
                if let Begin::At(first) = begin {
                    let bytes = slot.bytes(narrow(first), narrow(parcel.len()));
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
        let mut pace = Pace::default();
        for part in self.shuffled.parts(reached.clone()) {
            let (there, begins) = in_part(&part, parcels, begins);
            if there.is_empty() {
                continue;
            }
            let wanted = reach(&there);
            let end = self.window.fetch(self.job, (round, part.start), &wanted, self.statistics);
            let began = Instant::now();
            let stores = if self.board.is_slow() { Stores::Streamed } else { Stores::Cached };
            let bytes = there.iter().map(Parcel::len).sum();
            let mut contents = self.window.contents(round);
            if begins.contains(&Begin::InPlace) {
                let first = narrow(contents.offset - file.start);
                slot.bytes(first, contents.bytes.len()).copy_from_slice(contents.bytes);
            }
            let mut turns = Turns::new(&mut contents, there.len());
            for (parcel, begin) in there.into_iter().zip(begins) {
                let parcel = if end < wanted.end { parcel.before(end) } else { parcel };
                if let Begin::At(first) = begin {
                    let bytes = slot.bytes(narrow(first), narrow(parcel.len()));
                    turns.pack(bytes, &parcel, stores);
                }
            }
            turns.run(true);
            let spent = began.elapsed();
            self.statistics.packing += spent;
            pace.note(bytes, spent);
            if end < wanted.end {
                return end;
            }
        }
        if pace.is_slow() {
            self.board.find_slow();
        }
        reached.end
    }
}

/// What ranks have in a part of a window, and where it begins.
fn in_part<'a>(
    part: &Range<u64>,
    parcels: &[Parcel<'a>],
    begins: &[Begin],
) -> (Vec<Parcel<'a>>, Vec<Begin>) {
    let piece = |(parcel, &begin): (&Parcel<'a>, &Begin)| {
        let positions = parcel.access.within(part);
        let begin = match begin {
            Begin::At(first) => Begin::At(first + positions.start - parcel.positions.start),
            Begin::InPlace => Begin::InPlace,
        };
        let parcel = Parcel { access: parcel.access, positions };
        (parcel.len() > 0).then_some((parcel, begin))
    };
    parcels.iter().zip(begins).filter_map(piece).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_part_tells_whether_a_window_is_slow() {
        let spent = |micros| Duration::from_micros(micros);
        let mut pace = Pace::default();
        assert!(!pace.is_slow(), "nothing is known");
        pace.note(Pace::BYTES_MIN - 1, spent(1000));
        assert!(!pace.is_slow(), "too little is known");
        pace.note(600_000, spent(1000));
        assert!(pace.is_slow());
        pace.note(600_000, spent(100));
        pace.note(600_000, spent(1000));
        assert!(!pace.is_slow(), "one part was not");
    }
}
