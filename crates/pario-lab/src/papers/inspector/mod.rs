//! What ranks exchange in several phases: the inspector of paper 002, for its tables and its time.
//!
//! pario's own plans divide the file by ranges and need no inspector.
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
//! file only if the halves agree; a block-cyclic distribution must have
//! a multiple of the number of ranks as its number of blocks on each rank. (Figure 13 names eight
//! blocks with 16 ranks; if each rank has eight, the file is not in order.) The paper needs a power
//! of two of ranks and equal, even shares as well. An executor that divides the file instead, as
//! pario's, needs none of that, and sends the same where the paper applies.
//!
//! Cost: `regular` takes time in the number of ranks. `general` has a list of a rank's entries and
//! sorts it in each phase. Where the distribution is regular, a datatype has at most as many tuples
//! as there are sources, however many entries there are; otherwise up to one for each entry.

use crate::number::wide;

mod general;
mod regular;
#[cfg(test)]
mod tests;

pub(crate) use regular::BlockCyclic;

/// Neighbouring entries, as `MPI_Type_indexed` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    /// Where they begin.
    pub(crate) offset: u64,
    /// How many they are.
    pub(crate) len: u64,
}

/// What a rank does in one phase; addresses are physical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// With whom the rank exchanges entries.
    pub(crate) partner: u32,
    /// The entries that it sends (Table 2).
    pub(crate) send: Vec<Tuple>,
    /// Where what the partner sends is put, one entry after the other (Table 3).
    pub(crate) receive_offset: u64,
    /// How many entries the partner sends.
    pub(crate) receive_len: u64,
}

/// The entries in memory in the order of the file: tuples, again and again, each time further by
/// the stride (an `MPI_Type_hvector` of an `MPI_Type_indexed`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    /// The tuples that are taken again and again.
    pub(crate) tuples: Vec<Tuple>,
    /// How often.
    pub(crate) times: u64,
    /// 0 where the tuples are taken once.
    pub(crate) stride: u64,
}

/// What the executor of a rank needs to know. All numbers count entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// Physical address of the first of the rank's own entries (Table 1).
    pub(crate) alloc_offset: u64,
    /// What it exchanges in each phase.
    pub(crate) phases: Vec<Phase>,
    /// What it packs for the file.
    pub(crate) packing: Packing,
    /// Where in the file the rank writes what it packed (Table 4).
    pub(crate) file_offset: u64,
    /// How many entries that is.
    pub(crate) len: u64,
}

impl Inspection {
    /// Entries of memory that the rank needs: its own, and those of each phase (equation 2).
    pub(crate) fn memory_len(&self) -> u64 {
        self.len + self.phases.iter().map(|phase| phase.receive_len).sum::<u64>()
    }
}

/// The memory of one of a power of two of ranks.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Phases after which every rank has a part of the file of its own.
    phases: u32,
    rank: u32,
    /// Entries of each rank.
    share: u64,
}

impl Place {
    fn new(rank: u32, ranks: u32, share: u64) -> Place {
        Place { phases: ranks.trailing_zeros(), rank, share }
    }

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
        let below = (0..self.phases).filter(|&other| partner > self.partner(other));
        let own = if partner > self.rank { self.share } else { 0 };
        wide(below.count()) * self.half() + own
    }

    /// Where in the file its entries lie in the end (figure 2, L8).
    fn file_offset(self) -> u64 {
        reversed(self.rank, self.phases) * self.share
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

/// The last bits of a rank, backwards: the number of its part of the file (`perm_bin_rank`).
fn reversed(rank: u32, bits: u32) -> u64 {
    u64::from(rank.reverse_bits()) >> (u32::BITS - bits)
}
