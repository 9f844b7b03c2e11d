//! BTIO of papers 003 (section 7) and 004 (section 5): the solution of NAS BT, five doubles for
//! each point of a cube, stored in the order of Fortran.
//!
//! The ranks form a square of q times q; the cube is divided into q^3 cells, of which each rank
//! has q, one in each layer, along a diagonal (multipartitioning). A piece is one row of a cell.
//! In memory each cell is an array of its own with room for the largest cell and two ghost cells
//! on each side, as the benchmark declares it. Class C is 162^3 points (170 MB).

use std::ops::Range;

use pario::{Datatype, Field, Order, View};

use super::{Kind, Made, Memory, Parameter, Program, Runs, Values, Wanted, Workload};
use super::{bytes, distance, share, view};

const NAME: &str = "btio";
/// Larger cubes have more elements than fit in 48 bits.
const EDGE_MAX: u64 = 1 << 14;
/// Five doubles.
const POINT_BYTES: u64 = 40;

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "problem_size",
            values: Values::Number(1),
            paper: 162,
            quick: 40,
            about: "points on an edge of the cube; also --edge",
        },
        Parameter {
            name: "ghost",
            values: Values::Number(0),
            paper: 2,
            quick: 2,
            about: "ghost cells in memory on each side of a cell",
        },
    ],
    ranks: 16,
    on_request: true,
    about: "NAS BT, class C, on a square number of ranks (papers 003 and 004)",
};

struct Btio {
    edge: u64,
    ghost: u64,
    /// Cells of each rank.
    cells: u64,
}

fn make(wanted: &Wanted<'_>) -> Made {
    let ranks = u64::from(wanted.ranks);
    let cells = ranks.isqrt();
    if cells * cells != ranks {
        return Err(format!("--ranks {ranks}: {NAME} needs a square, such as 4, 9 or 16"));
    }
    let fitting = |bytes: u64| {
        let fits = |edge: &u64| edge.pow(3) * POINT_BYTES <= bytes;
        (cells..=EDGE_MAX).take_while(fits).last().unwrap_or(cells)
    };
    let edge = wanted.edge.unwrap_or_else(|| wanted.number_or("problem_size", fitting));
    let ghost = wanted.number("ghost");
    if !(cells..=EDGE_MAX).contains(&edge) || ghost > EDGE_MAX {
        return Err(format!("--edge {edge}, ghost {ghost}: not between {cells} and {EDGE_MAX}"));
    }
    Ok(vec![Program::of(Btio { edge, ghost, cells }, wanted)])
}

/// Rows of a part of an array in the order of Fortran, in bytes.
fn rows(part: [Range<u64>; 3], sizes: [u64; 3]) -> impl Iterator<Item = Range<u64>> {
    let [x, y, z] = part;
    let rows = z.flat_map(move |z| y.clone().map(move |y| (z * sizes[1] + y) * sizes[0]));
    rows.map(move |row| (row + x.start) * POINT_BYTES..(row + x.end) * POINT_BYTES)
}

impl Btio {
    /// A rank's cell in a layer: its points in x, y and z.
    fn cell(&self, rank: u32, layer: u64) -> [Range<u64>; 3] {
        let (column, row) = (u64::from(rank) % self.cells, u64::from(rank) / self.cells);
        let x = (column + layer) % self.cells;
        let y = (row + self.cells - layer) % self.cells;
        [x, y, layer].map(|number| share(self.edge, number, self.cells))
    }

    /// Points on an edge of a cell's array in memory.
    fn room(&self) -> u64 {
        self.edge.div_ceil(self.cells) + 2 * self.ghost
    }

    /// Bytes of a cell's array in memory.
    fn room_bytes(&self) -> u64 {
        self.room().pow(3) * POINT_BYTES
    }

    /// A part of an array in the order of Fortran.
    fn part(sizes: [u64; 3], part: [Range<u64>; 3]) -> pario::Result<Datatype> {
        let lens = part.clone().map(|range| range.end - range.start);
        let starts = part.map(|range| range.start);
        Datatype::subarray(&sizes, &lens, &starts, Order::Fortran, &bytes(POINT_BYTES)?)
    }

    /// A cell's own points in its array in memory.
    fn local(&self, rank: u32, layer: u64) -> [Range<u64>; 3] {
        let lens = self.cell(rank, layer).map(|range| range.end - range.start);
        lens.map(|len| self.ghost..self.ghost + len)
    }

    /// All cells of a rank as one type, `stride` bytes apart.
    fn structure(
        &self,
        stride: u64,
        cell: impl Fn(u64) -> pario::Result<Datatype>,
    ) -> pario::Result<Datatype> {
        let field = |layer: u64| {
            let displacement = distance(layer * stride);
            Ok(Field { block_len: 1, displacement, datatype: cell(layer)? })
        };
        let fields = (0..self.cells).map(field).collect::<pario::Result<Vec<Field>>>()?;
        Datatype::structure(&fields)
    }
}

impl Workload for Btio {
    fn name(&self) -> &str {
        NAME
    }

    fn shape(&self) -> String {
        let (edge, cells, ghost) = (self.edge, self.cells, self.ghost);
        format!(
            "{edge}^3 points of five doubles, {cells} cells for each of {} ranks, {ghost} ghost \
             cells",
            cells * cells
        )
    }

    fn block_bytes(&self) -> u64 {
        self.edge.div_ceil(self.cells) * POINT_BYTES
    }

    fn file_bytes(&self) -> u64 {
        self.edge.pow(3) * POINT_BYTES
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let cell = |layer| Btio::part([self.edge; 3], self.cell(rank, layer));
        Ok(view(0, &self.structure(0, cell)?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let cell = move |layer| rows(self.cell(rank, layer), [self.edge; 3]);
        Box::new((0..self.cells).flat_map(cell))
    }

    fn memory(&self, rank: u32) -> pario::Result<Option<Memory>> {
        let cell = |layer| Btio::part([self.room(); 3], self.local(rank, layer));
        let datatype = self.structure(self.room_bytes(), cell)?;
        Ok(Some(Memory { datatype, bytes: self.cells * self.room_bytes() }))
    }

    fn memory_runs(&self, rank: u32) -> Option<Runs<'_>> {
        let cell = move |layer| {
            let base = layer * self.room_bytes();
            let rows = rows(self.local(rank, layer), [self.room(); 3]);
            rows.map(move |row| base + row.start..base + row.end)
        };
        Some(Box::new((0..self.cells).flat_map(cell)))
    }
}
