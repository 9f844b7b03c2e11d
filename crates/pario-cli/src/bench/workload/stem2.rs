//! The arrays of STEM-II, an air quality model (paper 000, table 1): SL(x, y, z, l, ph), stored in
//! the order of Fortran, with y in blocks over the ranks. Only x is contiguous.

use std::ops::Range;

use pario::{Datatype, Order, View};

use super::{ELEMENT_BYTES, Made, Runs, Wanted, Workload};

pub(super) const NAME: &str = "stem2";

/// Names and dimensions; those after y are one, since only y is distributed.
const ARRAYS: [(&str, u64, u64, u64); 3] = [
    ("SL1, 61x61x15x56x3", 61, 61, 15 * 56 * 3),
    ("SL2, 61x61x15x56x6", 61, 61, 15 * 56 * 6),
    ("SL3, 92x61x15x56x3", 92, 61, 15 * 56 * 3),
];

struct Stem2 {
    name: &'static str,
    x: u64,
    y: u64,
    rest: u64,
    ranks: u32,
}

pub(super) fn make(wanted: &Wanted) -> Made {
    let array = |&(name, x, y, rest): &(&'static str, u64, u64, u64)| -> Box<dyn Workload> {
        Box::new(Stem2 { name, x, y, rest, ranks: wanted.ranks })
    };
    Ok(ARRAYS.iter().map(array).collect())
}

impl Stem2 {
    fn block_len(&self) -> u64 {
        self.y.div_ceil(u64::from(self.ranks))
    }

    /// The y of a rank; the last ranks may have fewer, or none.
    fn part(&self, rank: u32) -> Range<u64> {
        let start = (u64::from(rank) * self.block_len()).min(self.y);
        start..(start + self.block_len()).min(self.y)
    }
}

impl Workload for Stem2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self) -> String {
        format!("{} floats, y over {} ranks", self.name, self.ranks)
    }

    fn block_bytes(&self) -> u64 {
        // All of a plane belongs to a rank that is alone.
        let rows = match self.ranks {
            1 => self.y * self.rest,
            _ => self.block_len(),
        };
        self.x * rows * ELEMENT_BYTES
    }

    fn elements(&self) -> u64 {
        self.x * self.y * self.rest
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let element = Datatype::of::<f32>();
        let part = self.part(rank);
        let sizes = [self.x, self.y, self.rest];
        let own = [self.x, part.end - part.start, self.rest];
        let filetype = match part.is_empty() {
            true => Datatype::contiguous(0, &element)?,
            false => {
                Datatype::subarray(&sizes, &own, &[0, part.start, 0], Order::Fortran, &element)?
            }
        };
        Ok(View::new(0, &element, &filetype))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let part = self.part(rank);
        let plane = self.x * self.y;
        let run = move |number: u64| {
            number * plane + part.start * self.x..number * plane + part.end * self.x
        };
        let runs = (0..self.rest).map(run).filter(|run| !run.is_empty());
        match self.ranks {
            1 => Box::new(std::iter::once(0..self.elements())),
            _ => Box::new(runs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of paper 000: 35.7, 71.4 and 53.9 MB (of 2^20 bytes).
    #[test]
    fn the_arrays_have_the_sizes_of_the_paper() {
        let wanted = Wanted { ranks: 16, bytes: 0, block_bytes: Vec::new(), edge: None };
        let bytes = make(&wanted).unwrap().iter().map(|one| one.elements() * 4).collect::<Vec<_>>();
        let tenths = bytes.iter().map(|bytes| (bytes * 10) >> 20).collect::<Vec<_>>();
        assert_eq!(tenths, [357, 715, 539]);
    }
}
