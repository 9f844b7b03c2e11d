//! IOR (paper 001, sections II-C and III-B): segments of blocks, moved in transfers.
//!
//! The file is `segmentCount` segments; a segment has one block of `blockSize` bytes for each
//! rank. A rank moves its blocks one after the other, in calls of `transferSize` bytes. For reads
//! the ranks are reordered, so that none finds its own bytes in its cache: with
//! `reorderTasksRandom` by a permutation that follows from `reorderTasksRandomSeed`, with
//! `reorderTasksConstant` by `taskPerNodeOffset` ranks.
//!
//! The paper has 2 segments, 256 MB, 16 MB and random reordering on 4 ranks. Its text speaks of a
//! file of 16 GB; these parameters make 2 GiB.

use pario::{Datatype, View};

use super::random::Random;
use super::{Kind, Made, Parameter, Program, Runs, Values, Wanted, Workload};
use super::{bytes, distance, product, view};

const NAME: &str = "ior";
const MIB: u64 = 1 << 20;

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "segmentCount",
            values: Values::Number(1),
            paper: 2,
            quick: 2,
            about: "segments (-s)",
        },
        Parameter {
            name: "blockSize",
            values: Values::Number(1),
            paper: 256 * MIB,
            quick: MIB,
            about: "bytes of a rank in each segment (-b), or what --bytes leaves",
        },
        Parameter {
            name: "transferSize",
            values: Values::Number(1),
            paper: 16 * MIB,
            quick: MIB / 4,
            about: "bytes of a call (-t)",
        },
        Parameter {
            name: "reorderTasksConstant",
            values: Values::Number(0),
            paper: 0,
            quick: 0,
            about: "1: read what the rank taskPerNodeOffset further on wrote (-C)",
        },
        Parameter {
            name: "taskPerNodeOffset",
            values: Values::Number(1),
            paper: 1,
            quick: 1,
            about: "distance to that rank (-Q)",
        },
        Parameter {
            name: "reorderTasksRandom",
            values: Values::Number(0),
            paper: 1,
            quick: 1,
            about: "1: each rank reads what a random rank wrote (-Z)",
        },
        Parameter {
            name: "reorderTasksRandomSeed",
            values: Values::Number(0),
            paper: 0,
            quick: 0,
            about: "seed of that order (-X)",
        },
    ],
    ranks: 4,
    on_request: true,
    about: "segments of blocks, moved in transfers (paper 001)",
};

struct Ior {
    ranks: u32,
    segments: u64,
    block_bytes: u64,
    transfer_bytes: u64,
    /// The rank whose bytes each rank reads.
    readers: Vec<u32>,
    order: String,
}

fn make(wanted: &Wanted<'_>) -> Made {
    let segments = wanted.number("segmentCount");
    let transfer_bytes = wanted.number("transferSize");
    let ranks = u64::from(wanted.ranks);
    let fitting = |bytes: u64| {
        let share = bytes / segments / ranks;
        share - share % transfer_bytes
    };
    let block_bytes = wanted.number_or("blockSize", fitting);
    if block_bytes == 0 || !block_bytes.is_multiple_of(transfer_bytes) {
        return Err(format!(
            "blockSize={block_bytes}: not a multiple of transferSize={transfer_bytes}"
        ));
    }
    product(&[segments, block_bytes, ranks], "segmentCount, blockSize")?;
    let (readers, order) = readers(wanted);
    let ior = Ior { ranks: wanted.ranks, segments, block_bytes, transfer_bytes, readers, order };
    Ok(vec![Program::of(ior, wanted)])
}

/// Who reads whose bytes, and what that is called.
fn readers(wanted: &Wanted<'_>) -> (Vec<u32>, String) {
    if wanted.number("reorderTasksRandom") > 0 {
        let seed = wanted.number("reorderTasksRandomSeed");
        let order = Random::new(seed).permutation(wanted.ranks);
        return (order, format!("reads reordered at random, seed {seed}"));
    }
    let offset = match wanted.number("reorderTasksConstant") {
        0 => 0,
        _ => wanted.number("taskPerNodeOffset") % u64::from(wanted.ranks),
    };
    let offset = u32::try_from(offset).unwrap_or(0);
    let order = (0..wanted.ranks).map(|rank| (rank + offset) % wanted.ranks);
    (order.collect(), format!("reads from {offset} ranks further on"))
}

impl Ior {
    fn segment_bytes(&self) -> u64 {
        self.block_bytes * u64::from(self.ranks)
    }
}

impl Workload for Ior {
    fn name(&self) -> &str {
        NAME
    }

    fn shape(&self) -> String {
        let (segments, block, transfer) = (self.segments, self.block_bytes, self.transfer_bytes);
        format!("{segments} segments, blocks of {block}, transfers of {transfer}, {}", self.order)
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn file_bytes(&self) -> u64 {
        self.segment_bytes() * self.segments
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let extent = distance(self.segment_bytes());
        let filetype = Datatype::resized(0, extent, &bytes(self.block_bytes)?)?;
        Ok(view(u64::from(rank) * self.block_bytes, &filetype))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let start =
            move |segment| segment * self.segment_bytes() + u64::from(rank) * self.block_bytes;
        let run = move |segment| start(segment)..start(segment) + self.block_bytes;
        Box::new((0..self.segments).map(run))
    }

    fn calls(&self, _rank: u32) -> Option<Vec<u64>> {
        let count = self.segments * (self.block_bytes / self.transfer_bytes);
        Some(vec![self.transfer_bytes; usize::try_from(count).unwrap_or(usize::MAX)])
    }

    fn reader(&self, rank: u32) -> u32 {
        let index = usize::try_from(rank).unwrap_or(usize::MAX);
        self.readers.get(index).copied().unwrap_or(rank)
    }
}
