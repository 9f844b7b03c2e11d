//! BTIO of paper 003, section 7.2: the solution of NAS BT, five doubles for each point of a cube,
//! stored in the order of Fortran. The ranks form a square of q times q; the cube is divided into
//! q^3 cells, of which each rank has q, one in each layer, along a diagonal (multipartitioning).

use std::ops::Range;

use pario::{Datatype, Field, Order, View};

use super::{ELEMENT_BYTES, Made, Runs, Wanted, Workload};

pub(super) const NAME: &str = "btio";

/// Edge of the cube of class C.
const EDGE: u64 = 162;
/// Larger cubes have more elements than fit in 48 bits.
const EDGE_MAX: u64 = 1 << 14;
/// Elements of a point: five doubles.
const POINT_ELEMENTS: u64 = 10;

struct Btio {
    edge: u64,
    /// Cells of each rank.
    cells: u64,
}

pub(super) fn make(wanted: &Wanted) -> Made {
    let ranks = u64::from(wanted.ranks);
    let cells = ranks.isqrt();
    if cells * cells != ranks {
        return Err(format!("--ranks {ranks}: {NAME} needs a square, such as 4, 9 or 16"));
    }
    let edge = wanted.edge.unwrap_or(EDGE);
    if !(cells..=EDGE_MAX).contains(&edge) {
        return Err(format!("--edge {edge}: not between {cells} and {EDGE_MAX}"));
    }
    Ok(vec![Box::new(Btio { edge, cells })])
}

impl Btio {
    /// The points of one of the parts into which an edge is divided, as evenly as possible.
    fn part(&self, number: u64) -> Range<u64> {
        let at = |number: u64| number * self.edge / self.cells;
        at(number)..at(number + 1)
    }

    /// A rank's cell in a layer: its points in x, y and z.
    fn cell(&self, rank: u32, layer: u64) -> [Range<u64>; 3] {
        let (column, row) = (u64::from(rank) % self.cells, u64::from(rank) / self.cells);
        let x = (column + layer) % self.cells;
        let y = (row + self.cells - layer) % self.cells;
        [self.part(x), self.part(y), self.part(layer)]
    }
}

impl Workload for Btio {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self) -> String {
        let (edge, cells) = (self.edge, self.cells);
        format!(
            "{edge}^3 points of five doubles, {cells} cells for each of {} ranks",
            cells * cells
        )
    }

    fn block_bytes(&self) -> u64 {
        let longest = match self.cells {
            // All of the file.
            1 => self.edge.pow(3),
            cells => self.edge.div_ceil(cells),
        };
        longest * POINT_ELEMENTS * ELEMENT_BYTES
    }

    fn elements(&self) -> u64 {
        self.edge.pow(3) * POINT_ELEMENTS
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let element = Datatype::of::<f32>();
        let point = Datatype::contiguous(POINT_ELEMENTS, &element)?;
        let sizes = [self.edge; 3];
        let cell = |layer: u64| {
            let cell = self.cell(rank, layer);
            let lens = cell.clone().map(|range| range.end - range.start);
            let starts = cell.map(|range| range.start);
            Datatype::subarray(&sizes, &lens, &starts, Order::Fortran, &point)
        };
        let cells = (0..self.cells).map(cell).collect::<pario::Result<Vec<_>>>()?;
        let field = |datatype| Field { block_len: 1, displacement: 0, datatype };
        let fields: Vec<Field> = cells.into_iter().map(field).collect();
        Ok(View::new(0, &element, &Datatype::structure(&fields)?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        if self.cells == 1 {
            return Box::new(std::iter::once(0..self.elements()));
        }
        Box::new((0..self.cells).flat_map(move |layer| {
            let [x, y, z] = self.cell(rank, layer);
            let rows = z.flat_map(move |z| y.clone().map(move |y| (z * self.edge + y) * self.edge));
            rows.map(move |row| (row + x.start) * POINT_ELEMENTS..(row + x.end) * POINT_ELEMENTS)
        }))
    }
}
