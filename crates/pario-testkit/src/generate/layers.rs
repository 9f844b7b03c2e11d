//! One layer around a type: each constructor with arguments as programs give them.
//!
//! A layer need not be legal; the caller looks at its typemap. In files blocks go upwards in
//! multiples of the etype, in memory they go anywhere.

use super::{Blocks, Generator, Rules, SLOTS_MAX, Typed, round_up, signed};
use crate::recipe::Recipe;
use pario::{Darray, DarrayDimension, Distribution};
use rand::RngExt;
use rand::seq::SliceRandom;

impl Generator {
    /// One layer around a type; perhaps not a legal one.
    pub(super) fn layer(&mut self, old: &Typed, rules: &Rules) -> Recipe {
        match self.random.random_range(0..16) {
            0 => Recipe::Contiguous { count: self.some_or_none(rules.room(old)), old: old.boxed() },
            1..=3 => self.vector(old, rules),
            4 => self.hvector(old, rules),
            5..=9 => self.list(old, rules),
            10 | 11 => self.subarray(old, rules),
            12 | 13 => self.darray(old, rules),
            14 => match rules.in_file() {
                true => self.resized_in_file(old, rules.unit),
                false => self.resized_in_memory(old, rules.unit),
            },
            _ => Recipe::Dup(old.boxed()),
        }
    }

    fn vector(&mut self, old: &Typed, rules: &Rules) -> Recipe {
        let room = rules.room(old);
        let block_len = self.some_or_none(room.isqrt() + 1);
        let count = self.some_or_none(room / block_len.max(1));
        let gap = self.gap(old.map.extent());
        let stride = self.direction(rules) * (signed(block_len) + gap);
        Recipe::Vector { count, block_len, stride, old: old.boxed() }
    }

    fn hvector(&mut self, old: &Typed, rules: &Rules) -> Recipe {
        let room = rules.room(old);
        let block_len = self.some_or_none(room.isqrt() + 1);
        let count = self.some_or_none(room / block_len.max(1));
        let block_bytes = signed(block_len) * old.map.extent().abs().max(old.map.true_extent());
        let gap = self.gap(rules.unit) * rules.unit;
        let stride_bytes = self.direction(rules) * (round_up(block_bytes, rules.unit) + gap);
        Recipe::Hvector { count, block_len, stride_bytes, old: old.boxed() }
    }

    /// A list of blocks in one of the four forms that MPI has for it.
    fn list(&mut self, part: &Typed, rules: &Rules) -> Recipe {
        let extent = part.map.extent().abs().max(1);
        let old = part.boxed();
        let equal = self.random.random();
        if self.random.random() {
            let Blocks { lens, displacements } = self.blocks(rules, part, (extent, equal));
            match equal {
                true => Recipe::IndexedBlock { block_len: first(&lens), displacements, old },
                false => Recipe::Indexed { block_lens: lens, displacements, old },
            }
        } else {
            let Blocks { lens, mut displacements } = self.blocks(rules, part, (rules.unit, equal));
            displacements.iter_mut().for_each(|displacement| *displacement *= rules.unit);
            let displacements_bytes = displacements;
            match equal {
                true => Recipe::HindexedBlock { block_len: first(&lens), displacements_bytes, old },
                false => Recipe::Hindexed { block_lens: lens, displacements_bytes, old },
            }
        }
    }

    /// Blocks one after the other, or, in memory, in any order; `unit` and whether the lengths
    /// are equal come from the form of the list.
    ///
    /// Half of the lists are arithmetic progressions as programs make them by hand, and some of
    /// those have one flaw.
    fn blocks(&mut self, rules: &Rules, old: &Typed, (unit, equal): (i64, bool)) -> Blocks {
        let room = rules.room(old);
        let count = self.some_or_none(room);
        let len_max = (room / count.max(1)).max(1);
        let (len, gap) = (self.some(len_max), self.gap(unit));
        let regular: bool = self.random.random();
        let flaw = if self.chance(3) { self.random.random_range(0..=count) } else { count };
        let extent = old.map.extent().abs();
        let mut blocks = Blocks { lens: Vec::new(), displacements: Vec::new() };
        let mut cursor = if self.random.random() { 0 } else { self.gap(unit) };
        for number in 0..count {
            let free = !regular || number == flaw;
            let block_len = match free && !equal {
                true if self.chance(8) => 0,
                true => self.some(len_max),
                false => len,
            };
            blocks.lens.push(block_len);
            blocks.displacements.push(cursor);
            let gap = if free { self.gap(unit) } else { gap };
            cursor += round_up(signed(block_len) * extent, unit) / unit + gap;
        }
        if !rules.in_file() {
            self.disorder(&mut blocks);
        }
        blocks
    }

    /// Moves blocks below zero, turns them round, or mixes them.
    fn disorder(&mut self, blocks: &mut Blocks) {
        let shift = self.shift();
        blocks.displacements.iter_mut().for_each(|displacement| *displacement -= shift);
        if self.chance(5) {
            blocks.displacements.reverse();
            blocks.lens.reverse();
        }
        if self.chance(5) {
            let lens = blocks.lens.iter().copied();
            let mut pairs: Vec<_> = lens.zip(blocks.displacements.iter().copied()).collect();
            pairs.shuffle(&mut self.random);
            (blocks.lens, blocks.displacements) = pairs.into_iter().unzip();
        }
    }

    /// Sizes of a global array whose part fits in the limits.
    fn sizes(&mut self, slots_max: u64, dimensions: usize) -> Vec<u64> {
        let mut slots_left = slots_max.max(1);
        let mut sizes: Vec<u64> = (0..dimensions)
            .map(|_| {
                let size = self.random.random_range(1..=slots_left.isqrt() + 1).min(slots_left);
                slots_left /= size;
                size
            })
            .collect();
        sizes.shuffle(&mut self.random);
        sizes
    }

    fn subarray(&mut self, old: &Typed, rules: &Rules) -> Recipe {
        let dimensions = self.random.random_range(1..=4);
        let slots_max = (rules.room(old) * 4).min(SLOTS_MAX);
        let sizes = self.sizes(slots_max, dimensions);
        let order = self.order();
        let subsizes: Vec<u64> = sizes
            .iter()
            .map(|&size| if self.chance(3) { size } else { self.random.random_range(1..=size) })
            .collect();
        let starts = sizes
            .iter()
            .zip(&subsizes)
            .map(|(size, subsize)| self.random.random_range(0..=size - subsize))
            .collect();
        Recipe::Subarray { sizes, subsizes, starts, order, old: old.boxed() }
    }

    fn darray(&mut self, old: &Typed, rules: &Rules) -> Recipe {
        let count = self.random.random_range(1..=4);
        let slots_max = (rules.room(old) * 4).min(SLOTS_MAX);
        let sizes = self.sizes(slots_max, count);
        let grid: Vec<u32> = (0..count).map(|_| self.random.random_range(1..=3)).collect();
        let size = grid.iter().product();
        let dimensions = self.dimensions(&sizes, &grid);
        let rank = self.random.random_range(0..size);
        let array = Darray { size, rank, dimensions, order: self.order() };
        Recipe::Darray { array, old: old.boxed() }
    }

    /// A legal distribution of each dimension over the process grid.
    pub(super) fn dimensions(&mut self, sizes: &[u64], grid: &[u32]) -> Vec<DarrayDimension> {
        sizes
            .iter()
            .zip(grid)
            .map(|(&size, &processes)| {
                let fair = size.div_ceil(u64::from(processes));
                let (distribution, argument) = match self.random.random_range(0..6) {
                    0 if processes == 1 => (Distribution::None, None),
                    0 | 1 => (Distribution::Block, None),
                    2 => (Distribution::Block, Some(fair + self.random.random_range(0..=2))),
                    3 => (Distribution::Cyclic, None),
                    _ => (Distribution::Cyclic, Some(self.random.random_range(1..=fair + 1))),
                };
                DarrayDimension { size, distribution, argument, processes }
            })
            .collect()
    }

    /// Bounds around the data, with a hole at the end, and sometimes a later lower bound.
    pub(super) fn resized_in_file(&mut self, old: &Typed, unit: i64) -> Recipe {
        let hole = self.gap(unit) * unit;
        let extent = round_up(old.map.true_upper_bound(), unit) + hole;
        let first = old.map.true_lower_bound() / unit;
        let lower_bound =
            if self.chance(4) { self.random.random_range(0..=first) * unit } else { 0 };
        Recipe::Resized { lower_bound, extent, old: old.boxed() }
    }

    /// Any bounds: around the data, inside of it so that copies interleave, empty, or negative.
    fn resized_in_memory(&mut self, old: &Typed, unit: i64) -> Recipe {
        let map = &old.map;
        let piece = map.bytes.windows(2).take_while(|pair| pair[0] + 1 == pair[1]).count() + 1;
        let tight = map.true_extent();
        let extent = match self.random.random_range(0..10) {
            0..=2 => tight,
            3..=5 => round_up(tight, unit) + self.gap(unit) * unit,
            6 | 7 => i64::try_from(piece).expect("a small type"),
            8 => -round_up(tight, unit),
            _ => 0,
        };
        let lower_bound = match self.random.random_range(0..3) {
            0 => 0,
            1 => map.true_lower_bound(),
            _ => self.random.random_range(-8..=8) * unit,
        };
        Recipe::Resized { lower_bound, extent, old: old.boxed() }
    }
}

fn first(lens: &[u64]) -> u64 {
    lens.first().copied().unwrap_or(1)
}
