//! Filetypes of several ranks that share one array: every element belongs to at most one rank.

use super::{Blocks, Distributed, Generator, Typed, signed};
use crate::recipe::{FieldRecipe, Recipe};
use pario::Darray;
use rand::RngExt;
use rand::seq::SliceRandom;

impl Generator {
    pub(super) fn shared_array(&mut self, ranks: u32, complete: bool) -> Distributed {
        assert!(ranks > 0, "an array is distributed over at least one rank");
        let etype = self.etype(16);
        let filetypes = match self.random.random_range(0..4) {
            0 if complete => self.shared_darray(ranks, &etype),
            1 if complete => self.shared_boxes(ranks, &etype),
            2 if complete => self.interleaved(ranks, &etype),
            2 => self.interleaved(ranks + 1, &etype).split_off(1),
            _ => self.scattered(ranks, &etype, complete),
        };
        Distributed { etype: etype.recipe, filetypes, complete }
    }

    /// A process grid of this number of ranks.
    fn grid(&mut self, ranks: u32) -> Vec<u32> {
        let mut rest = ranks;
        let mut grid = Vec::new();
        for _ in 0..self.random.random_range(0..3) {
            let divisors: Vec<u32> = (1..=rest).filter(|&part| rest.is_multiple_of(part)).collect();
            let processes = *self.one_of(&divisors);
            grid.push(processes);
            rest /= processes;
        }
        grid.push(rest);
        grid.shuffle(&mut self.random);
        grid
    }

    fn shared_darray(&mut self, size: u32, etype: &Typed) -> Vec<Recipe> {
        let grid = self.grid(size);
        let sizes: Vec<u64> = grid
            .iter()
            .map(|&processes| self.random.random_range(1..=u64::from(processes) * 3 + 2))
            .collect();
        let dimensions = self.dimensions(&sizes, &grid);
        let order = self.order();
        (0..size)
            .map(|rank| {
                let array = Darray { size, rank, dimensions: dimensions.clone(), order };
                Recipe::Darray { array, old: etype.boxed() }
            })
            .collect()
    }

    /// A grid of boxes of different sizes.
    fn shared_boxes(&mut self, ranks: u32, etype: &Typed) -> Vec<Recipe> {
        let grid = self.grid(ranks);
        let order = self.order();
        // For each dimension the start of each box, and the end of the last.
        let cuts: Vec<Vec<u64>> = grid
            .iter()
            .map(|&processes| {
                let mut end = 0;
                let mut cuts = vec![0];
                for _ in 0..processes {
                    end += self.random.random_range(1..=4);
                    cuts.push(end);
                }
                cuts
            })
            .collect();
        let sizes: Vec<u64> = cuts.iter().map(|cuts| cuts[cuts.len() - 1]).collect();
        let mut filetypes = Vec::new();
        for rank in 0..usize::try_from(ranks).expect("few ranks") {
            let mut rest = rank;
            let (mut starts, mut subsizes) = (Vec::new(), Vec::new());
            for cuts in &cuts {
                let place = rest % (cuts.len() - 1);
                rest /= cuts.len() - 1;
                starts.push(cuts[place]);
                subsizes.push(cuts[place + 1] - cuts[place]);
            }
            let (sizes, old) = (sizes.clone(), etype.boxed());
            filetypes.push(Recipe::Subarray { sizes, subsizes, starts, order, old });
        }
        filetypes
    }

    /// Block-cyclic: a vector for each rank, starting one block after that of the rank before.
    fn interleaved(&mut self, ranks: u32, etype: &Typed) -> Vec<Recipe> {
        let block_len = self.random.random_range(1..=6);
        let count = self.random.random_range(1..=8);
        let stride = signed(block_len) * i64::from(ranks);
        let unit = etype.map.extent();
        let extent = stride * signed(count) * unit;
        (0..i64::from(ranks))
            .map(|rank| {
                let datatype = Recipe::Vector { count, block_len, stride, old: etype.boxed() };
                let displacement = rank * signed(block_len) * unit;
                let field = FieldRecipe { block_len: 1, displacement, datatype };
                let old = Box::new(Recipe::Structure { fields: vec![field] });
                Recipe::Resized { lower_bound: 0, extent, old }
            })
            .collect()
    }

    /// Each block of the array goes to any rank, or, unless the array is complete, to none.
    fn scattered(&mut self, ranks: u32, etype: &Typed, complete: bool) -> Vec<Recipe> {
        let unit = etype.map.extent();
        let mut lists: Vec<Blocks> =
            (0..ranks).map(|_| Blocks { lens: Vec::new(), displacements: Vec::new() }).collect();
        let mut cursor = 0;
        for _ in 0..self.random.random_range(1..=ranks * 8) {
            let block_len = self.random.random_range(1..=4);
            if complete || !self.chance(4) {
                let owner = self.random.random_range(0..lists.len());
                lists[owner].lens.push(block_len);
                lists[owner].displacements.push(cursor);
            }
            cursor += signed(block_len);
        }
        lists
            .into_iter()
            .map(|Blocks { lens: block_lens, displacements }| {
                let old = etype.boxed();
                let old = Box::new(Recipe::Indexed { block_lens, displacements, old });
                Recipe::Resized { lower_bound: 0, extent: cursor * unit, old }
            })
            .collect()
    }
}
