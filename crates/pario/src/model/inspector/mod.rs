//! What ranks exchange in several phases: the inspector of paper 002, for studies of its tables and
//! of its time. pario's own plans divide the file by ranges and need no inspector; tests compare
//! what they send with what the paper sends.
//!
//! It looks at how the entries of a vector are distributed and computes, for one rank, which
//! entries it sends in each phase, where it puts those that it receives, and in which order they
//! lie in the file: all that the executor needs, once for any number of writes. There are two ways
//! with one result: [`Inspection::regular`] computes it for block-cyclic distributions from
//! equations alone, [`Inspection::general`] follows the paper's algorithm for any distribution,
//! entry by entry.
//!
//! An entry has a *logical* address, its place in the file, and a *physical* one, its place in the
//! memory of a rank. That memory has a region for each rank that it exchanges with and one for its
//! own entries, in the order of their ranks; no region is written twice.
//!
//! Send datatypes take entries in the order of their physical addresses, so that those of a source
//! stay together (property 1 and figure 8 need this, though figure 12 does not say so); packing
//! takes them in the order of their logical ones. With the paper's 16 entries both are the same.
//!
//! Hazard: the paper halves *lists* of entries, not the file. What a rank packs is its part of the
//! file only if the halves agree, see [`halves_follow_file`]; a block-cyclic distribution must have
//! a multiple of the number of ranks as its number of blocks on each rank. (Figure 13 names eight
//! blocks with 16 ranks; if each rank has eight, the file is not in order.) The paper needs a power
//! of two of ranks and equal, even shares as well. An executor that divides the file instead, by
//! the ranges of `butterfly`, needs none of that, and sends the same where the paper applies.
//!
//! Cost: `regular` takes time in the number of ranks. `general` has a list of a rank's entries and
//! sorts it in each phase. Where the distribution is regular, a datatype has at most as many tuples
//! as there are sources, however many entries there are; otherwise up to one for each entry.

use crate::number::wide;
use crate::plan::butterfly::{Butterfly, reversed};

mod general;
mod regular;
#[cfg(test)]
mod tests;

pub use regular::BlockCyclic;

/// Neighbouring entries, as `MPI_Type_indexed` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub len: u64,
}

/// What a rank does in one phase; addresses are physical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// With whom the rank exchanges entries.
    pub partner: u32,
    /// The entries that it sends (Table 2).
    pub send: Vec<Tuple>,
    /// Where what the partner sends is put, one entry after the other (Table 3).
    pub receive_offset: u64,
    /// How many entries the partner sends.
    pub receive_len: u64,
}

/// The entries in memory in the order of the file: tuples, again and again, each time further by
/// the stride (an `MPI_Type_hvector` of an `MPI_Type_indexed`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The tuples that are taken again and again.
    pub tuples: Vec<Tuple>,
    /// How often.
    pub times: u64,
    /// 0 where the tuples are taken once.
    pub stride: u64,
}

/// What the executor of a rank needs to know. All numbers count entries.
///
/// ```
/// use pario::model::inspector::{BlockCyclic, Inspection};
///
/// // The case study of the paper: 16 entries on four ranks.
/// let vector = BlockCyclic { ranks: 4, block_len: 1, blocks: 4 };
/// assert_eq!(Inspection::regular(1, &vector).map(|one| one.file_offset), Some(8));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Physical address of the first of the rank's own entries (Table 1).
    pub alloc_offset: u64,
    /// What it exchanges in each phase.
    pub phases: Vec<Phase>,
    /// What it packs for the file.
    pub packing: Packing,
    /// Where in the file the rank writes what it packed (Table 4).
    pub file_offset: u64,
    /// How many entries that is.
    pub len: u64,
}

impl Inspection {
    /// Entries of memory that the rank needs: its own, and those of each phase (equation 2).
    pub fn memory_len(&self) -> u64 {
        self.len + self.phases.iter().map(|phase| phase.receive_len).sum::<u64>()
    }
}

/// The memory of one of a power of two of ranks.
#[derive(Clone, Copy, Debug)]
struct Place {
    butterfly: Butterfly,
    rank: u32,
    /// Entries of each rank.
    share: u64,
}

impl Place {
    /// Entries that are exchanged in a phase.
    fn half(self) -> u64 {
        self.share / 2
    }

    fn partner(self, phase: u32) -> u32 {
        self.rank ^ (1 << phase)
    }

    /// Where its own entries are: after the regions of partners with lower ranks, one for each bit
    /// of its number that is 1 (figure 2, L2).
    fn alloc_offset(self) -> u64 {
        u64::from(self.rank.count_ones()) * self.half()
    }

    /// Where the entries that come in a phase are put (figure 4).
    fn receive_offset(self, phase: u32) -> u64 {
        let partner = self.partner(phase);
        let below = (0..self.butterfly.phases()).filter(|&other| partner > self.partner(other));
        let own = if partner > self.rank { self.share } else { 0 };
        wide(below.count()) * self.half() + own
    }

    /// Where in the file its entries lie in the end (figure 2, L8).
    fn file_offset(self) -> u64 {
        u64::from(reversed(self.rank, self.butterfly.phases())) * self.share
    }

    /// Whether its partner keeps the part of the file after its own (property 4).
    fn sends_second_half(self, phase: u32) -> bool {
        self.partner(phase) > self.rank
    }

    fn inspection(self, phases: Vec<Phase>, packing: Packing) -> Inspection {
        Inspection {
            alloc_offset: self.alloc_offset(),
            phases,
            packing,
            file_offset: self.file_offset(),
            len: self.share,
        }
    }
}

/// Joins tuples that touch and leaves empty ones out (figure 12, a tuple at a time).
fn joined(tuples: impl IntoIterator<Item = Tuple>) -> Vec<Tuple> {
    let mut joined: Vec<Tuple> = Vec::new();
    for tuple in tuples {
        match joined.last_mut() {
            _ if tuple.len == 0 => {}
            Some(last) if last.offset + last.len == tuple.offset => last.len += tuple.len,
            _ => joined.push(tuple),
        }
    }
    joined
}

/// The entries of each rank, if the paper's algorithm applies: a power of two of ranks with equal
/// shares that can be halved.
fn equal_share(distributions: &[Vec<Tuple>]) -> Option<u64> {
    let share = |tuples: &Vec<Tuple>| tuples.iter().map(|tuple| tuple.len).sum::<u64>();
    let first = share(distributions.first()?);
    let even = distributions.len() == 1 || first.is_multiple_of(2);
    let equal = distributions.iter().all(|tuples| share(tuples) == first);
    (distributions.len().is_power_of_two() && even && equal).then_some(first)
}

/// Whether halving lists of entries gives every rank its part of the file.
///
/// The ranks' tuples, which together name each entry of the file once, are halved at the same
/// addresses if, for every phase `ph`, each `2^ph` ranks that have exchanged data so far (those
/// with the same higher bits) have the same number of entries, half a share, in each of the
/// `2^(ph+1)` equal parts of the file. That is necessary, too: otherwise a rank sends away an
/// entry of its own part, and some parts of the file are written in the wrong order.
pub fn halves_follow_file(distributions: &[Vec<Tuple>]) -> bool {
    let Some(share) = equal_share(distributions) else { return false };
    let ranks = distributions.len();
    if share == 0 {
        return true;
    }
    // Entries of each rank in each part of the file that is as long as a share.
    let counts = distributions.iter().map(|tuples| {
        let inside = |part: usize| tuples.iter().map(move |tuple| overlap(tuple, part, share));
        (0..ranks).map(|part| inside(part).sum::<u64>()).collect::<Vec<_>>()
    });
    let counts: Vec<Vec<u64>> = counts.collect();
    let phases = ranks.trailing_zeros();
    (0..phases).all(|phase| {
        let (group, part) = (1_usize << phase, ranks >> (phase + 1));
        counts.chunks(group).all(|members| {
            (0..ranks).step_by(part).all(|first| {
                let of_member = |member: &Vec<u64>| member[first..first + part].iter().sum::<u64>();
                members.iter().map(of_member).sum::<u64>() == share / 2
            })
        })
    })
}

/// Entries of a tuple in one of the parts of the file.
fn overlap(tuple: &Tuple, part: usize, part_len: u64) -> u64 {
    let start = wide(part) * part_len;
    let end = (start + part_len).min(tuple.offset + tuple.len);
    end.saturating_sub(start.max(tuple.offset))
}
