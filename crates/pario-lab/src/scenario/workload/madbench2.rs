//! MADbench2 (paper 001, sections II-C and III-A): the I/O of a code for the microwave background.
//!
//! It has `no_bin` matrices of `no_pix` times `no_pix` doubles, one after the other in the file,
//! and three phases. S: all ranks together make one matrix after the other and write it. W: they
//! read each matrix and write the result over it. C: they read the results. In W and C the ranks
//! are `no_gang` gangs, which work on different matrices at the same time.
//!
//! A matrix is distributed block-cyclically in two dimensions, in blocks of `blocksize` times
//! `blocksize`, over a grid of ranks as even as possible (ScaLAPACK). A rank moves its local part
//! of a matrix in one piece, after those of the ranks before it, by one call. The computing
//! between the calls is left out.
//!
//! The paper has 5000, 8, 1 and 1024 on 4 ranks: 1.6 GB, though its text says 4. It calls W both
//! read-only and read/write; the benchmark itself reads and writes there.

use std::ops::Range;

use pario::{Datatype, View};

use super::{Kind, Made, Parameter, Program, Runs, Step, Values, Wanted, Ways, Workload};
use super::{bytes, distance, product, view};

const NAME: &str = "madbench2";
const ELEMENT_BYTES: u64 = 8;

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "no_pix",
            values: Values::Number(1),
            paper: 5000,
            quick: 256,
            about: "rows of a matrix, or as many as fit in --bytes",
        },
        Parameter {
            name: "no_bin",
            values: Values::Number(1),
            paper: 8,
            quick: 8,
            about: "matrices",
        },
        Parameter {
            name: "no_gang",
            values: Values::Number(1),
            paper: 1,
            quick: 2,
            about: "gangs of ranks in W and C",
        },
        Parameter {
            name: "blocksize",
            values: Values::Number(1),
            paper: 1024,
            quick: 32,
            about: "rows of a block of the distribution",
        },
    ],
    ranks: 4,
    on_request: true,
    about: "matrices: S writes, W reads and writes, C reads (paper 001)",
};

#[derive(Clone, Copy)]
struct Matrices {
    ranks: u32,
    rows: u64,
    bins: u64,
    block_rows: u64,
}

/// One phase, with its number of gangs.
struct Madbench2 {
    part: &'static str,
    ways: Ways,
    gangs: u64,
    matrices: Matrices,
}

fn make(wanted: &Wanted<'_>) -> Made {
    let (bins, gangs) = (wanted.number("no_bin"), wanted.number("no_gang"));
    let ranks = wanted.ranks;
    let fitting = |bytes: u64| (bytes / ELEMENT_BYTES / bins).isqrt().max(1);
    let rows = wanted.number_or("no_pix", fitting);
    product(&[rows, rows, bins, ELEMENT_BYTES], "no_pix, no_bin")?;
    if !u64::from(ranks).is_multiple_of(gangs) {
        return Err(format!("no_gang={gangs}: not a divisor of {ranks} ranks"));
    }
    let matrices = Matrices { ranks, rows, bins, block_rows: wanted.number("blocksize") };
    let phase = |part, ways, gangs| -> Box<dyn Workload> {
        Box::new(Madbench2 { part, ways, gangs, matrices })
    };
    let parts = vec![
        phase("S", Ways::WriteOnly, 1),
        phase("W", Ways::ReadFirst, gangs),
        phase("C", Ways::ReadOnly, gangs),
    ];
    let steps = (0..wanted.steps).flat_map(|_| [0, 1, 2]);
    let steps = steps.map(|part| Step { part, compute: Default::default() }).collect();
    Ok(vec![Program { parts, steps }])
}

/// A grid of two dimensions for some ranks, as even as possible.
fn grid(ranks: u64) -> (u64, u64) {
    let fits = |rows: &u64| ranks.is_multiple_of(*rows);
    let rows = (1..=ranks.isqrt()).rev().find(fits).unwrap_or(1);
    (rows, ranks / rows)
}

/// Indices of one of `count` parts of a dimension that is dealt out in blocks (ScaLAPACK's NUMROC).
fn local_len(len: u64, block: u64, number: u64, count: u64) -> u64 {
    let (blocks, rest) = (len / block, len % block);
    let whole = blocks / count + u64::from(number < blocks % count);
    whole * block + if number == blocks % count { rest } else { 0 }
}

impl Madbench2 {
    fn matrix_bytes(&self) -> u64 {
        self.matrices.rows.pow(2) * ELEMENT_BYTES
    }

    /// Ranks of a gang.
    fn gang_ranks(&self) -> u64 {
        u64::from(self.matrices.ranks) / self.gangs
    }

    /// Bytes of a rank's local part of a matrix, by its number in the gang.
    fn local_bytes(&self, member: u64) -> u64 {
        let (rows, columns) = grid(self.gang_ranks());
        let Matrices { rows: len, block_rows, .. } = self.matrices;
        let height = local_len(len, block_rows, member / columns, rows);
        height * local_len(len, block_rows, member % columns, columns) * ELEMENT_BYTES
    }

    /// Where a rank's local part begins in a matrix, and its gang.
    fn place(&self, rank: u32) -> (Range<u64>, u64) {
        let (gang, member) =
            (u64::from(rank) / self.gang_ranks(), u64::from(rank) % self.gang_ranks());
        let start: u64 = (0..member).map(|before| self.local_bytes(before)).sum();
        (start..start + self.local_bytes(member), gang)
    }

    /// The matrices of a gang.
    fn bins(&self, gang: u64) -> impl Iterator<Item = u64> {
        let (bins, gangs) = (self.matrices.bins, self.gangs);
        (0..bins.div_ceil(gangs))
            .map(move |turn| turn * gangs + gang)
            .filter(move |bin| *bin < bins)
    }
}

impl Workload for Madbench2 {
    fn name(&self) -> &str {
        NAME
    }

    fn part(&self) -> &str {
        self.part
    }

    fn shape(&self) -> String {
        let Matrices { rows, bins, block_rows, .. } = self.matrices;
        let gangs = self.gangs;
        format!("{bins} matrices of {rows}x{rows} doubles, blocks of {block_rows}, {gangs} gang(s)")
    }

    fn block_bytes(&self) -> u64 {
        (0..self.gang_ranks()).map(|member| self.local_bytes(member)).max().unwrap_or(0)
    }

    fn file_bytes(&self) -> u64 {
        self.matrix_bytes() * self.matrices.bins
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let (place, gang) = self.place(rank);
        let extent = distance(self.matrix_bytes() * self.gangs);
        let filetype = Datatype::resized(0, extent, &bytes(place.end - place.start)?)?;
        Ok(view(gang * self.matrix_bytes() + place.start, &filetype))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let (place, gang) = self.place(rank);
        let run = move |bin: u64| {
            let matrix = bin * self.matrix_bytes();
            matrix + place.start..matrix + place.end
        };
        Box::new(self.bins(gang).map(run).filter(|run| !run.is_empty()))
    }

    fn calls(&self, rank: u32) -> Option<Vec<u64>> {
        let (place, gang) = self.place(rank);
        let turns = self.matrices.bins.div_ceil(self.gangs);
        let mut calls = vec![place.end - place.start; self.bins(gang).count()];
        // A gang without a matrix in the last turn takes part with nothing.
        calls.resize(usize::try_from(turns).unwrap_or(usize::MAX), 0);
        Some(calls)
    }

    fn ways(&self) -> Ways {
        self.ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_dealt_out_as_in_scalapack() {
        assert_eq!([0, 1].map(|number| local_len(5000, 1024, number, 2)), [2952, 2048]);
        assert_eq!([0, 1, 2].map(|number| local_len(10, 3, number, 3)), [4, 3, 3]);
        assert_eq!([1, 4, 6, 7, 12].map(grid), [(1, 1), (2, 2), (2, 3), (1, 7), (3, 4)]);
    }
}
