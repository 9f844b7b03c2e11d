//! The workload of paper 002, section 4.2: a vector of 4-byte elements, dealt out in blocks.
//!
//! Nx elements go to the ranks in blocks of Bx: block b belongs to rank b mod P. With small blocks
//! this is the worst case for collective I/O; the paper sweeps over Bx with 16 ranks and 100,
//! 300 and 500 MB. Here Nx need not be a multiple of anything: the last block may be short.

use pario::{Datatype, View};

use super::{Kind, Made, Parameter, Program, Runs, Values, Wanted, Workload};
use super::{bytes, distance, product, view};

const NAME: &str = "block-cyclic";
const ELEMENT_BYTES: u64 = 4;

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "Nx",
            values: Values::Number(1),
            paper: 26_214_400,
            quick: 1 << 20,
            about: "elements of 4 bytes, or the bytes of --bytes",
        },
        Parameter {
            name: "Bx",
            values: Values::Number(0),
            paper: 0,
            quick: 0,
            about: "elements of a block; 0 for each of the sizes in bytes of --blocks",
        },
    ],
    ranks: 16,
    on_request: false,
    about: "a vector dealt out in blocks (paper 002, section 4.2)",
};

struct BlockCyclic {
    ranks: u32,
    file_bytes: u64,
    block_bytes: u64,
}

/// One program for each block size.
fn make(wanted: &Wanted<'_>) -> Made {
    let file_bytes = match wanted.bytes {
        Some(bytes) if !wanted.chosen.is_given("Nx") => bytes,
        _ => product(&[wanted.number("Nx"), ELEMENT_BYTES], "Nx")?,
    };
    if !file_bytes.is_multiple_of(ELEMENT_BYTES) {
        return Err(format!("--bytes {file_bytes}: not a multiple of {ELEMENT_BYTES}"));
    }
    let sizes = match wanted.number("Bx") {
        0 => wanted.block_bytes.clone(),
        elements => vec![product(&[elements, ELEMENT_BYTES], "Bx")?],
    };
    let program = |&block_bytes: &u64| {
        let turn = block_bytes.checked_mul(u64::from(wanted.ranks));
        if turn.is_none_or(|turn| turn > file_bytes) {
            return Err(format!(
                "--bytes {file_bytes}: too few for a block of {block_bytes} bytes on each of {} \
                 ranks",
                wanted.ranks
            ));
        }
        let workload = BlockCyclic { ranks: wanted.ranks, file_bytes, block_bytes };
        Ok(Program::of(workload, wanted))
    };
    sizes.iter().map(program).collect()
}

impl BlockCyclic {
    /// Bytes from one block of a rank to its next.
    fn turn_bytes(&self) -> u64 {
        self.block_bytes * u64::from(self.ranks)
    }
}

impl Workload for BlockCyclic {
    fn name(&self) -> &str {
        NAME
    }

    fn shape(&self) -> String {
        let elements = self.file_bytes / ELEMENT_BYTES;
        format!("{elements} elements of {ELEMENT_BYTES} bytes dealt out in blocks")
    }

    fn rank_bytes(&self, rank: u32) -> u64 {
        let (whole, rest) =
            (self.file_bytes / self.turn_bytes(), self.file_bytes % self.turn_bytes());
        let first = u64::from(rank) * self.block_bytes;
        whole * self.block_bytes + rest.saturating_sub(first).min(self.block_bytes)
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        // `make` has checked that a turn fits in the file.
        let extent = distance(self.turn_bytes());
        let filetype = Datatype::resized(0, extent, &bytes(self.block_bytes)?)?;
        Ok(view(u64::from(rank) * self.block_bytes, &filetype))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let first = u64::from(rank) * self.block_bytes;
        let turn_bytes = usize::try_from(self.turn_bytes()).unwrap_or(usize::MAX);
        let starts = (first..self.file_bytes).step_by(turn_bytes);
        Box::new(starts.map(|start| start..self.file_bytes.min(start + self.block_bytes)))
    }
}
