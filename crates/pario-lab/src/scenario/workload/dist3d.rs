//! DIST3D of papers 003 (section 7) and 004 (section 5): a cube of integers, distributed (block,
//! block, block).
//!
//! The file holds the global array in row-major order; the ranks form a grid as even as possible.
//! A piece is one row of a rank's block. The papers' cube has an edge of 512 (512 MB). They say
//! nothing of ghost cells; with the parameter `ghost` each rank has that number of them on each
//! side of its block, as the programs have that DIST3D stands for.

use std::ops::Range;

use pario::{Darray, DarrayDimension, Datatype, Distribution, Order, View};

use super::{Kind, Made, Memory, Parameter, Program, Runs, Values, Wanted, Workload, view};

const NAME: &str = "dist3d";
const ELEMENT_BYTES: u64 = 4;
/// Larger cubes have more elements than fit in 48 bits.
const EDGE_MAX: u64 = 1 << 16;
/// Edge where the workload is measured since none is named.
pub(super) const UNNAMED_EDGE: u64 = 256;

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "edge",
            values: Values::Number(1),
            paper: 512,
            quick: 64,
            about: "edge of the cube; 256 if no workload is named; a power of two with --bytes",
        },
        Parameter {
            name: "ghost",
            values: Values::Number(0),
            paper: 0,
            quick: 0,
            about: "ghost cells in memory on each side of a block",
        },
    ],
    ranks: 16,
    on_request: false,
    about: "a cube of integers, (block, block, block) (papers 003 and 004)",
};

struct Dist3d {
    edge: u64,
    ghost: u64,
    grid: [u32; 3],
}

fn make(wanted: &Wanted<'_>) -> Made {
    let fitting = |bytes: u64| {
        let fits = |edge: &u64| edge.pow(3) * ELEMENT_BYTES <= bytes;
        let powers = (0..16).map(|exponent| 1_u64 << exponent);
        powers.take_while(fits).last().unwrap_or(1)
    };
    let default = match wanted.named || wanted.quick || wanted.bytes.is_some() {
        true => wanted.number_or("edge", fitting),
        false => UNNAMED_EDGE,
    };
    let edge = wanted.edge.unwrap_or(default);
    let ghost = wanted.number("ghost");
    if !(1..=EDGE_MAX).contains(&edge) || ghost > EDGE_MAX {
        return Err(format!("--edge {edge}, ghost {ghost}: not between 1 and {EDGE_MAX}"));
    }
    Ok(vec![Program::of(Dist3d { edge, ghost, grid: grid(wanted.ranks) }, wanted)])
}

/// A grid of three dimensions for some ranks, as even as possible, the largest dimension first
/// (as `MPI_Dims_create`).
fn grid(ranks: u32) -> [u32; 3] {
    let divisors = |number: u32| (1..=number).filter(move |&one| number.is_multiple_of(one));
    let grids = divisors(ranks).flat_map(|first| {
        let rest = ranks / first;
        divisors(rest).map(move |second| [first, second, rest / second])
    });
    let sorted = grids.filter(|[first, second, third]| first >= second && second >= third);
    sorted.min_by_key(|[first, _, third]| first - third).unwrap_or([ranks, 1, 1])
}

/// Rows of a part of a row-major array, in bytes.
fn rows(part: [Range<u64>; 3], sizes: [u64; 3]) -> Runs<'static> {
    let [planes, rows, columns] = part;
    let rows = planes.flat_map(move |plane| rows.clone().map(move |row| (plane, row)));
    let run = move |(plane, row): (u64, u64)| {
        let start = (plane * sizes[1] + row) * sizes[2];
        (start + columns.start) * ELEMENT_BYTES..(start + columns.end) * ELEMENT_BYTES
    };
    Box::new(rows.map(run).filter(|run| !run.is_empty()))
}

impl Dist3d {
    /// The indices of a rank in each dimension.
    fn part(&self, rank: u32) -> [Range<u64>; 3] {
        let [_, second, third] = self.grid;
        let coordinates = [rank / (second * third), rank / third % second, rank % third];
        let range = |dimension: usize| {
            let block_len = self.edge.div_ceil(u64::from(self.grid[dimension]));
            let start = u64::from(coordinates[dimension]) * block_len;
            start.min(self.edge)..(start + block_len).min(self.edge)
        };
        [range(0), range(1), range(2)]
    }

    /// A rank's array in memory: its sizes with ghost cells, and its own part of them.
    fn local(&self, rank: u32) -> ([u64; 3], [Range<u64>; 3]) {
        let lens = self.part(rank).map(|range| range.end - range.start);
        let own = lens.map(|len| self.ghost..self.ghost + len);
        (lens.map(|len| len + 2 * self.ghost), own)
    }
}

impl Workload for Dist3d {
    fn name(&self) -> &str {
        NAME
    }

    fn shape(&self) -> String {
        let ([first, second, third], edge, ghost) = (self.grid, self.edge, self.ghost);
        format!("{edge}^3 integers over {first}x{second}x{third} ranks, {ghost} ghost cells")
    }

    fn block_bytes(&self) -> u64 {
        self.edge.div_ceil(u64::from(self.grid[2])) * ELEMENT_BYTES
    }

    fn file_bytes(&self) -> u64 {
        self.edge.pow(3) * ELEMENT_BYTES
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let dimension = |&processes: &u32| DarrayDimension {
            size: self.edge,
            distribution: Distribution::Block,
            argument: None,
            processes,
        };
        let darray = Darray {
            size: self.grid.iter().product(),
            rank,
            dimensions: self.grid.iter().map(dimension).collect(),
            order: Order::C,
        };
        Ok(view(0, &Datatype::darray(&darray, &Datatype::of::<u32>())?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        rows(self.part(rank), [self.edge; 3])
    }

    fn memory(&self, rank: u32) -> pario::Result<Option<Memory>> {
        let (sizes, own) = self.local(rank);
        if self.ghost == 0 || own.iter().any(Range::is_empty) {
            return Ok(None);
        }
        let lens = own.clone().map(|range| range.end - range.start);
        let starts = own.map(|range| range.start);
        let element = Datatype::of::<u32>();
        let datatype = Datatype::subarray(&sizes, &lens, &starts, Order::C, &element)?;
        Ok(Some(Memory { datatype, bytes: sizes.iter().product::<u64>() * ELEMENT_BYTES }))
    }

    fn memory_runs(&self, rank: u32) -> Option<Runs<'_>> {
        let (sizes, own) = self.local(rank);
        (self.ghost > 0).then(|| rows(own, sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_as_even_as_possible() {
        let cases = [
            (1, [1, 1, 1]),
            (2, [2, 1, 1]),
            (6, [3, 2, 1]),
            (7, [7, 1, 1]),
            (8, [2, 2, 2]),
            (12, [3, 2, 2]),
            (16, [4, 2, 2]),
            (64, [4, 4, 4]),
        ];
        for (ranks, expected) in cases {
            assert_eq!(grid(ranks), expected);
        }
    }
}
