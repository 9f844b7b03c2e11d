//! The inspector for block-cyclic distributions, from equations alone (paper 002, section 3.3.2).
//!
//! The paper gives the number of tuples and their length and calls the factors of their offsets
//! "empirically determined" (equation 4). They follow from where entries came from. Before phase
//! `ph`, a rank has of each source one piece, `1/2^ph` of the source's entries. Its own piece lies
//! in its own region. Every other one came in the phase of the highest bit in which source and rank
//! differ, after the pieces of the sources before it; since then, pieces only lost one half or
//! the other.

use super::{Inspection, Packing, Phase, Place, Tuple, joined, reversed};

/// Entries dealt out in blocks, to one rank after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockCyclic {
    /// Number of ranks, a power of two.
    pub(crate) ranks: u32,
    /// Entries of a block.
    pub(crate) block_len: u64,
    /// Blocks of each rank. The paper's text has them once as all blocks, its examples as here.
    pub(crate) blocks: u64,
}

impl BlockCyclic {
    /// Entries of each rank.
    pub(crate) fn share(&self) -> u64 {
        self.block_len * self.blocks
    }

    /// Logical address of one of a rank's entries (equation 6).
    pub(crate) fn logical(&self, rank: u32, entry: u64) -> u64 {
        let turn = u64::from(self.ranks) * self.block_len;
        u64::from(rank) * self.block_len + entry / self.block_len * turn + entry % self.block_len
    }

    /// A rank's entries as tuples of logical addresses.
    pub(crate) fn tuples(&self, rank: u32) -> Vec<Tuple> {
        let first = |block| self.logical(rank, block * self.block_len);
        let tuples =
            (0..self.blocks).map(|block| Tuple { offset: first(block), len: self.block_len });
        joined(tuples)
    }
}

impl Inspection {
    /// What a rank does for a block-cyclic distribution; nothing if the number of ranks is not a
    /// power of two that divides the number of blocks of each rank, because only then halves
    /// follow the file (and never cut a block).
    pub(crate) fn regular(rank: u32, distribution: &BlockCyclic) -> Option<Inspection> {
        let BlockCyclic { ranks, block_len, blocks } = *distribution;
        if !ranks.is_power_of_two() || !blocks.is_multiple_of(u64::from(ranks)) {
            return None;
        }
        let place = Place::new(rank, ranks, distribution.share());
        let phases = (0..place.phases).map(|phase| place.phase(phase)).collect();
        let pieces = (0..ranks).map(|source| place.piece(source, place.phases));
        let packing = match blocks / u64::from(ranks) {
            0 => Packing { tuples: Vec::new(), times: 1, stride: 0 },
            // A rank alone has one piece, whatever its blocks.
            turns if ranks == 1 || turns == 1 => {
                let len = turns * block_len;
                let tuples = joined(pieces.map(|offset| Tuple { offset, len }));
                Packing { tuples, times: 1, stride: 0 }
            }
            times => {
                let tuples = joined(pieces.map(|offset| Tuple { offset, len: block_len }));
                Packing { tuples, times, stride: block_len }
            }
        };
        Some(place.inspection(phases, packing))
    }
}

impl Place {
    /// One half of each piece goes to the partner: `2^phase` tuples of a length (equations 3, 5).
    fn phase(self, phase: u32) -> Phase {
        let len = self.share >> (phase + 1);
        let skipped = if self.sends_second_half(phase) { len } else { 0 };
        let first = self.rank >> phase << phase;
        let sources = (0..1 << phase).map(|number| first + number);
        let send = sources.map(|source| Tuple { offset: self.piece(source, phase) + skipped, len });
        Phase {
            partner: self.partner(phase),
            send: joined(send),
            receive_offset: self.receive_offset(phase),
            receive_len: self.half(),
        }
    }

    /// Physical address of the piece of a source after this number of phases (equation 4).
    fn piece(self, source: u32, phases: u32) -> u64 {
        let (region, arrived, before) = match (source ^ self.rank).checked_ilog2() {
            None => (self.alloc_offset(), 0, 0),
            Some(phase) => {
                let before = u64::from(source) % (1 << phase);
                (self.receive_offset(phase), phase + 1, before)
            }
        };
        let lost = self.first_entry(phases) - self.first_entry(arrived);
        region + before * (self.share >> arrived) + lost
    }

    /// The first of a source's entries that come to ranks with these last bits of its number.
    fn first_entry(self, phases: u32) -> u64 {
        reversed(self.rank, phases) * (self.share >> phases)
    }
}
