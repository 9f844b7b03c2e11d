//! The workload of paper 002, section 4.2: a vector of 4-byte elements, dealt out in blocks.
//!
//! Nx elements go to the ranks in blocks of Bx: block b belongs to rank b mod P. With small blocks
//! this is the worst that collective I/O meets; the paper sweeps over Bx with 16 ranks and 100,
//! 300 and 500 MB. Here Nx need not be a multiple of anything: the last block may be short.

use pario::{Datatype, View};

use super::{ELEMENT_BYTES, Made, Runs, Wanted, Workload};

pub(super) const NAME: &str = "block-cyclic";

struct BlockCyclic {
    ranks: u32,
    elements: u64,
    block_len: u64,
}

/// One workload for each block size.
pub(super) fn make(wanted: &Wanted) -> Made {
    if !wanted.bytes.is_multiple_of(ELEMENT_BYTES) {
        return Err(format!("--bytes {}: not a multiple of {ELEMENT_BYTES}", wanted.bytes));
    }
    let workload = |&block_bytes: &u64| -> Result<Box<dyn Workload>, String> {
        let turn = block_bytes.checked_mul(u64::from(wanted.ranks));
        if turn.is_none_or(|turn| turn > wanted.bytes) {
            return Err(format!(
                "--bytes {}: too few for a block of {block_bytes} bytes on each of {} ranks",
                wanted.bytes, wanted.ranks
            ));
        }
        let elements = wanted.bytes / ELEMENT_BYTES;
        let block_len = block_bytes / ELEMENT_BYTES;
        Ok(Box::new(BlockCyclic { ranks: wanted.ranks, elements, block_len }))
    };
    wanted.block_bytes.iter().map(workload).collect()
}

impl BlockCyclic {
    /// Elements from one block of a rank to its next.
    fn turn_len(&self) -> u64 {
        self.block_len * u64::from(self.ranks)
    }
}

impl Workload for BlockCyclic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self) -> String {
        format!("{} elements of {ELEMENT_BYTES} bytes dealt out in blocks", self.elements)
    }

    fn block_bytes(&self) -> u64 {
        self.block_len * ELEMENT_BYTES
    }

    fn elements(&self) -> u64 {
        self.elements
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let element = Datatype::of::<u32>();
        let block = Datatype::contiguous(self.block_len, &element)?;
        // `make` has checked that a turn fits in the file.
        let extent = i64::try_from(self.turn_len() * ELEMENT_BYTES).unwrap_or(i64::MAX);
        let filetype = Datatype::resized(0, extent, &block)?;
        Ok(View::new(u64::from(rank) * self.block_bytes(), &element, &filetype))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let first = u64::from(rank) * self.block_len;
        let turn_len = usize::try_from(self.turn_len()).unwrap_or(usize::MAX);
        let starts = (first..self.elements).step_by(turn_len);
        Box::new(starts.map(|start| start..self.elements.min(start + self.block_len)))
    }
}
