//! DIST3D of paper 003, section 7.1: a cube of integers, distributed (block, block, block).
//!
//! The file holds the global array in row-major order; the ranks form a grid as even as possible.
//! A piece is one row of a rank's block. The paper's cube has an edge of 512 (512 MB).

use std::ops::Range;

use pario::{Darray, DarrayDimension, Datatype, Distribution, Order, View};

use super::{ELEMENT_BYTES, Made, Runs, Wanted, Workload};

pub(super) const NAME: &str = "dist3d";

/// Larger cubes have more elements than fit in 48 bits.
const EDGE_MAX: u64 = 1 << 16;

struct Dist3d {
    edge: u64,
    grid: [u32; 3],
}

pub(super) fn make(wanted: &Wanted) -> Made {
    let fits = |edge: &u64| edge.pow(3) * ELEMENT_BYTES <= wanted.bytes;
    let powers = (0..16).map(|exponent| 1_u64 << exponent);
    let edge = wanted.edge.unwrap_or_else(|| powers.take_while(fits).last().unwrap_or(1));
    if !(1..=EDGE_MAX).contains(&edge) {
        return Err(format!("--edge {edge}: not between 1 and {EDGE_MAX}"));
    }
    Ok(vec![Box::new(Dist3d { edge, grid: grid(wanted.ranks) })])
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
}

impl Workload for Dist3d {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self) -> String {
        let ([first, second, third], edge) = (self.grid, self.edge);
        format!("{edge}^3 elements over {first}x{second}x{third} ranks")
    }

    fn block_bytes(&self) -> u64 {
        self.edge.div_ceil(u64::from(self.grid[2])) * ELEMENT_BYTES
    }

    fn elements(&self) -> u64 {
        self.edge.pow(3)
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
        let element = Datatype::of::<u32>();
        Ok(View::new(0, &element, &Datatype::darray(&darray, &element)?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let [planes, rows, columns] = self.part(rank);
        let rows = planes.flat_map(move |plane| rows.clone().map(move |row| (plane, row)));
        let run = move |(plane, row)| {
            let row_start = (plane * self.edge + row) * self.edge;
            row_start + columns.start..row_start + columns.end
        };
        Box::new(rows.map(run).filter(|run| !run.is_empty()))
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

    #[test]
    fn the_default_cube_fits_in_the_bytes() {
        let elements = |bytes| {
            let wanted = Wanted { ranks: 4, bytes, block_bytes: Vec::new(), edge: None };
            make(&wanted).unwrap()[0].elements()
        };
        assert_eq!(elements(100 << 20), 256 * 256 * 256);
        assert_eq!(elements(512 << 20), 512 * 512 * 512);
        assert_eq!(elements(4), 1);
    }
}
