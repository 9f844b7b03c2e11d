//! The inspector of paper 002, as the paper has it: what a rank sends, receives and packs for a
//! block-cyclic vector, in entries.
//!
//! pario's own plans divide the file by ranges and need no inspector; this is the paper's, for
//! studies of its tables and of its time.

use crate::plan::inspector::{BlockCyclic, Inspection, Tuple};

/// Neighbouring entries: where they begin, and how many they are.
pub type Entries = (u64, u64);

/// What one rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Where its own entries are in its memory (Table 1).
    pub alloc_offset: u64,
    /// Entries that it sends in each phase.
    pub send: Vec<Vec<Entries>>,
    /// Where it puts those that it receives in each phase (Table 3).
    pub receive_offsets: Vec<u64>,
    /// The entries in the order of the file, how often that is repeated, and how far apart.
    pub packing: (Vec<Entries>, u64, u64),
    /// Where it writes in the file (Table 4).
    pub file_offset: u64,
    /// Entries of memory that it needs (equation 2).
    pub memory_len: u64,
}

/// A vector dealt out in blocks, to one rank after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Number of ranks, a power of two.
    pub ranks: u32,
    /// Entries of a block.
    pub block_len: u64,
    /// Blocks of each rank, a multiple of the ranks.
    pub blocks: u64,
}

impl Vector {
    fn regular(self) -> BlockCyclic {
        let Vector { ranks, block_len, blocks } = self;
        BlockCyclic { ranks, block_len, blocks }
    }
}

/// What a rank does, from equations alone; nothing where the paper's algorithm does not apply.
///
/// ```
/// use pario::model::inspector::{Vector, by_equations};
///
/// // The case study of the paper: 16 entries on four ranks.
/// let vector = Vector { ranks: 4, block_len: 1, blocks: 4 };
/// assert_eq!(by_equations(&vector, 1).map(|one| one.file_offset), Some(8));
/// ```
pub fn by_equations(vector: &Vector, rank: u32) -> Option<Inspected> {
    Inspection::closed_form(rank, &vector.regular()).map(Inspected::from)
}

/// What all ranks do, by the algorithm for any distribution, entry by entry.
pub fn by_algorithm(vector: &Vector) -> Option<Vec<Inspected>> {
    let regular = vector.regular();
    let distributions: Vec<Vec<Tuple>> =
        (0..vector.ranks).map(|rank| regular.tuples(rank)).collect();
    let all = Inspection::general_all(&distributions)?;
    Some(all.into_iter().map(Inspected::from).collect())
}

fn pairs(tuples: &[Tuple]) -> Vec<Entries> {
    tuples.iter().map(|tuple| (tuple.offset, tuple.len)).collect()
}

impl From<Inspection> for Inspected {
    fn from(one: Inspection) -> Inspected {
        let memory_len = one.memory_len();
        Inspected {
            alloc_offset: one.alloc_offset,
            send: one.phases.iter().map(|phase| pairs(&phase.send)).collect(),
            receive_offsets: one.phases.iter().map(|phase| phase.receive_offset).collect(),
            packing: (pairs(&one.packing.tuples), one.packing.times, one.packing.stride),
            file_offset: one.file_offset,
            memory_len,
        }
    }
}
