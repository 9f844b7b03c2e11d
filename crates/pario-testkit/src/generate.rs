//! Random recipes of datatypes that may be used in memory, in views, and by many ranks at once.
//!
//! Types grow from the inside outwards: a leaf, then layer after layer around it. A layer is
//! drawn from shapes that programs really use (block-cyclic vectors, boxes, hand-made
//! progressions, structs, resizes); the typemap of the result then shows whether it is legal for
//! its use. An illegal layer is drawn again, and left out after some tries.
//!
//! The same seed gives the same recipes on every machine.

mod layers;
mod shared;

use crate::recipe::{FieldRecipe, Recipe};
use crate::typemap::Typemap;
use pario::{Element, Order};
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

/// All elementary types that have a form in `external32`.
pub const ELEMENTS: [Element; 19] = [
    Element::I8,
    Element::U8,
    Element::I16,
    Element::U16,
    Element::I32,
    Element::U32,
    Element::I64,
    Element::U64,
    Element::I128,
    Element::U128,
    Element::F16,
    Element::F32,
    Element::F64,
    Element::F128,
    Element::Byte,
    Element::Long,
    Element::UnsignedLong,
    Element::WideChar,
    Element::LongDouble,
];

/// Bytes that the inner layers get at least; every elementary type fits.
const LEAF_BYTES: u64 = 16;
/// Draws of one layer before it is left out.
const DRAWS_MAX: u32 = 8;
/// Blocks of one list, and copies of a type without data.
const BLOCKS_MAX: u64 = 64;
/// Elements of a global array, which the oracle visits one by one.
const SLOTS_MAX: u64 = 1024;
/// How far a type reaches beyond its data, as a factor.
const SPREAD_MAX: i64 = 16;
/// The largest reach of types with far gaps, and their largest gap, in bytes.
const FAR_REACH_MAX: i64 = 1 << 46;
const FAR_GAP_MAX: i64 = 1 << 40;

/// A source of random recipes.
///
/// ```
/// use pario_testkit::generate::Generator;
/// let (etype, filetype) = Generator::new(7).file_type(3, 256);
/// assert!(filetype.typemap().is_filetype_of(&etype.typemap()));
/// ```
pub struct Generator {
    random: Xoshiro256PlusPlus,
    far_gaps: bool,
}

/// The filetypes of several ranks that share one array in a file.
#[derive(Clone, Debug)]
pub struct Distributed {
    /// What the array is made of.
    pub etype: Recipe,
    /// One filetype per rank; equal extents, no byte twice.
    pub filetypes: Vec<Recipe>,
    /// Whether every element of the array belongs to a rank; otherwise there may be holes that
    /// nobody writes.
    pub complete: bool,
}

/// A recipe with its typemap, so that it need not be expanded again.
#[derive(Clone)]
struct Typed {
    recipe: Recipe,
    map: Typemap,
}

/// What a type must obey.
struct Rules {
    /// Bytes of data at most.
    bytes_max: u64,
    /// Bytes of reach and of extent at most.
    reach_max: i64,
    /// The etype, if the type is for a view.
    etype: Option<Typed>,
    /// Byte displacements are multiples of this.
    unit: i64,
}

/// Blocks of a list; displacements in the unit that was asked for.
struct Blocks {
    lens: Vec<u64>,
    displacements: Vec<i64>,
}

impl Typed {
    fn new(recipe: Recipe) -> Typed {
        let map = recipe.typemap();
        Typed { recipe, map }
    }

    fn boxed(&self) -> Box<Recipe> {
        Box::new(self.recipe.clone())
    }
}

impl Rules {
    fn accept(&self, map: &Typemap) -> bool {
        let reach = map.reach(1);
        let small = map.size() <= self.bytes_max
            && [reach.start, reach.end, map.extent(), map.lower_bound, map.upper_bound]
                .iter()
                .all(|place| place.abs() <= self.reach_max);
        let legal = match &self.etype {
            Some(etype) => map.is_filetype_of(&etype.map),
            None => !map.overlaps(1),
        };
        small && legal
    }

    fn in_file(&self) -> bool {
        self.etype.is_some()
    }

    /// Copies of a type that still fit.
    fn room(&self, old: &Typed) -> u64 {
        let by_data = self.bytes_max.checked_div(old.map.size()).unwrap_or(BLOCKS_MAX);
        let reach = u64::try_from(self.reach_max).expect("a limit is positive");
        let by_reach = reach.checked_div(old.map.extent().unsigned_abs()).unwrap_or(BLOCKS_MAX);
        by_data.min(by_reach).clamp(1, BLOCKS_MAX)
    }
}

impl Generator {
    /// A generator that a seed determines.
    pub fn new(seed: u64) -> Generator {
        Generator { random: Xoshiro256PlusPlus::seed_from_u64(seed), far_gaps: false }
    }

    /// Lets gaps reach to terabytes, for types that are never given real memory.
    #[must_use]
    pub fn with_far_gaps(mut self) -> Generator {
        self.far_gaps = true;
        self
    }

    /// Any type for memory: negative and disordered places, gaps, empty blocks, odd bounds.
    ///
    /// No two bytes of one copy overlap; before several copies are written to, ask
    /// [`Typemap::overlaps`].
    pub fn memory_type(&mut self, depth: u32, bytes_max: u64) -> Recipe {
        let unit = *self.one_of(&[1, 1, 2, 4, 8]);
        let rules = self.rules(bytes_max, unit, None);
        self.grow(depth, &rules).recipe
    }

    /// An etype, and a filetype made of it that is legal for writing.
    ///
    /// The filetype has at least one etype but for one time in 30, when it is empty. Mostly its
    /// extent reaches beyond its data; sometimes its bounds are left as the constructors make
    /// them, so that a type with a hole at its start follows itself with an overlap of holes.
    pub fn file_type(&mut self, depth: u32, bytes_max: u64) -> (Recipe, Recipe) {
        let etype = self.etype(bytes_max);
        let filetype = self.filetype_of(&etype, depth, bytes_max);
        (etype.recipe, filetype)
    }

    /// An etype.
    pub fn any_etype(&mut self, bytes_max: u64) -> Recipe {
        self.etype(bytes_max).recipe
    }

    /// A filetype made of a given etype, as [`Generator::file_type`] makes them.
    pub fn file_type_of(&mut self, etype: &Recipe, depth: u32, bytes_max: u64) -> Recipe {
        self.filetype_of(&Typed::new(etype.clone()), depth, bytes_max)
    }

    fn filetype_of(&mut self, etype: &Typed, depth: u32, bytes_max: u64) -> Recipe {
        let unit = etype.map.extent();
        let rules = self.rules(bytes_max.max(etype.map.size()), unit, Some(etype.clone()));
        let mut filetype = self.grow(depth, &rules);
        if filetype.map.bytes.is_empty() && !self.chance(30) {
            filetype = etype.clone();
        }
        if filetype.map.extent() < filetype.map.true_upper_bound() && !self.chance(8) {
            filetype = Typed::new(self.resized_in_file(&filetype, unit));
        }
        filetype.recipe
    }

    /// One filetype per rank, disjoint and complementary, for one array in a file.
    pub fn distributed(&mut self, ranks: u32) -> Vec<Recipe> {
        self.shared_array(ranks, true).filetypes
    }

    /// One filetype per rank, disjoint, for an array that may have holes that nobody writes.
    pub fn distributed_with_holes(&mut self, ranks: u32) -> Distributed {
        let complete = self.random.random();
        self.shared_array(ranks, complete)
    }

    fn rules(&mut self, bytes_max: u64, unit: i64, etype: Option<Typed>) -> Rules {
        let near = i64::try_from(bytes_max).expect("a small limit") * SPREAD_MAX;
        let reach_max = if self.far_gaps { FAR_REACH_MAX } else { near.max(4 * unit) };
        Rules { bytes_max, reach_max, etype, unit }
    }

    /// A leaf with layers around it.
    fn grow(&mut self, depth: u32, rules: &Rules) -> Typed {
        if depth == 0 {
            return match &rules.etype {
                Some(etype) => etype.clone(),
                None => self.leaf(rules.bytes_max),
            };
        }
        if self.chance(6)
            && let Some(part) = self.structure(depth, rules)
        {
            return part;
        }
        // The inner layers leave some of the bytes for the outer ones.
        let share = rules.bytes_max / self.random.random_range(1..=6);
        let least = rules.bytes_max.min(LEAF_BYTES);
        let inner = Rules { bytes_max: share.max(least), etype: rules.etype.clone(), ..*rules };
        let old = self.grow(depth - 1, &inner);
        for _ in 0..DRAWS_MAX {
            let part = Typed::new(self.layer(&old, rules));
            let emptied = part.map.bytes.is_empty() && !old.map.bytes.is_empty();
            if rules.accept(&part.map) && (!emptied || self.chance(4)) {
                return part;
            }
        }
        old
    }

    fn leaf(&mut self, bytes_max: u64) -> Typed {
        let element = *self.one_of(&ELEMENTS);
        let part = Typed::new(Recipe::Element(element));
        if part.map.size() <= bytes_max { part } else { Typed::new(Recipe::Element(Element::Byte)) }
    }

    /// An etype: mostly a byte or another elementary type, sometimes a derived one.
    fn etype(&mut self, bytes_max: u64) -> Typed {
        let leaf = self.leaf(bytes_max.max(1));
        let old = leaf.boxed();
        let size = leaf.map.extent();
        let recipe = match self.random.random_range(0..10) {
            0..=3 => Recipe::Element(Element::Byte),
            4..=6 => leaf.recipe,
            7 => Recipe::Contiguous { count: self.random.random_range(1..=5), old },
            8 => Recipe::Resized { lower_bound: 0, extent: 2 * size, old },
            _ => Recipe::Structure {
                fields: vec![
                    FieldRecipe {
                        block_len: 1,
                        displacement: 0,
                        datatype: Recipe::Element(Element::I16),
                    },
                    FieldRecipe { block_len: 2, displacement: size.max(2), datatype: leaf.recipe },
                ],
            },
        };
        Typed::new(recipe)
    }

    /// Blocks of different types one after the other, or, in memory, in any order.
    fn structure(&mut self, depth: u32, rules: &Rules) -> Option<Typed> {
        let count = self.random.random_range(1..=5);
        let inner = Rules {
            bytes_max: (rules.bytes_max / count).max(1),
            etype: rules.etype.clone(),
            ..*rules
        };
        let mut cursor = self.gap(rules.unit) * rules.unit;
        let mut fields = Vec::new();
        for _ in 0..count {
            let inner_depth = self.random.random_range(0..depth);
            let part = self.grow(inner_depth, &inner);
            let block_len = if self.chance(10) { 0 } else { self.some(inner.room(&part).min(4)) };
            let mut block = Typemap::default();
            for copy in 0..signed(block_len) {
                block.place(&part.map, copy * part.map.extent());
            }
            // In a file the first place must be a multiple of the unit, not the first byte.
            let reach = block.reach(1);
            let displacement = round_up((cursor - reach.start).max(0), rules.unit);
            let gap = self.gap(rules.unit) * rules.unit;
            cursor = round_up(displacement + reach.end, rules.unit) + gap;
            fields.push(FieldRecipe { block_len, displacement, datatype: part.recipe });
        }
        if !rules.in_file() {
            let shift = self.shift();
            fields.iter_mut().for_each(|field| field.displacement -= shift * rules.unit);
            if self.chance(3) {
                fields.shuffle(&mut self.random);
            }
        }
        let part = Typed::new(Recipe::Structure { fields });
        rules.accept(&part.map).then_some(part)
    }

    fn order(&mut self) -> Order {
        if self.random.random() { Order::C } else { Order::Fortran }
    }

    /// In memory blocks may go downwards.
    fn direction(&mut self, rules: &Rules) -> i64 {
        if !rules.in_file() && self.chance(4) { -1 } else { 1 }
    }

    /// How far memory types reach below zero: mostly not.
    fn shift(&mut self) -> i64 {
        if self.chance(3) { self.random.random_range(1..=20) } else { 0 }
    }

    /// A hole between blocks in units of some bytes; often none.
    fn gap(&mut self, unit: i64) -> i64 {
        if self.far_gaps && self.chance(6) {
            return self.random.random_range(1..=(FAR_GAP_MAX / unit.abs().max(1)).max(1));
        }
        match self.random.random_range(0..6) {
            0 | 1 => 0,
            2..=4 => self.random.random_range(1..=3),
            _ => self.random.random_range(1..=12),
        }
    }

    /// A count, seldom 1, where small ones are as likely as large ones.
    fn some(&mut self, max: u64) -> u64 {
        if max < 2 || self.chance(8) {
            return 1;
        }
        let power = self.random.random_range(0..=max.ilog2());
        self.random.random_range(2..=(2 << power).min(max))
    }

    /// A count that is sometimes zero.
    fn some_or_none(&mut self, max: u64) -> u64 {
        if self.chance(40) { 0 } else { self.some(max) }
    }

    /// True one time in `times`.
    fn chance(&mut self, times: u32) -> bool {
        self.random.random_ratio(1, times)
    }

    fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        choices.choose(&mut self.random).expect("there is a choice")
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).expect("generated counts are small")
}

fn round_up(bytes: i64, unit: i64) -> i64 {
    bytes + (-bytes).rem_euclid(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// What part of the drawn recipes has a property, in percent.
    fn percent(recipes: &[Recipe], holds: impl Fn(&Recipe) -> bool) -> usize {
        recipes.iter().filter(|recipe| holds(recipe)).count() * 100 / recipes.len()
    }

    #[test]
    fn memory_types_never_overlap_and_stay_small() {
        for seed in 0..2000 {
            let recipe = Generator::new(seed).memory_type(5, 512);
            let map = recipe.typemap();
            assert!(!map.overlaps(1) && map.size() <= 512, "seed {seed}: {recipe}");
        }
    }

    #[test]
    fn file_types_are_legal_for_writing() {
        for seed in 0..2000 {
            let (etype, filetype) = Generator::new(seed).file_type(5, 512);
            let (etype_map, map) = (etype.typemap(), filetype.typemap());
            assert!(map.is_filetype_of(&etype_map), "seed {seed}: {etype} in {filetype}");
            assert!(!map.overlaps(3), "seed {seed}: {filetype}");
        }
    }

    #[test]
    fn distributed_types_share_the_array_without_overlap() {
        for seed in 0..1000 {
            let mut generator = Generator::new(seed);
            let ranks = generator.random.random_range(1..=9);
            let shared = generator.distributed_with_holes(ranks);
            let etype = shared.etype.typemap();
            let maps: Vec<Typemap> = shared.filetypes.iter().map(Recipe::typemap).collect();
            let mut owned = HashSet::new();
            for (map, recipe) in maps.iter().zip(&shared.filetypes) {
                assert!(map.is_filetype_of(&etype), "seed {seed}: {recipe}");
                assert_eq!(map.extent(), maps[0].extent(), "seed {seed}: {recipe}");
                assert!(map.bytes.iter().all(|&byte| owned.insert(byte)), "seed {seed}: {recipe}");
            }
            assert_eq!(maps.len(), usize::try_from(ranks).unwrap());
            let slots = maps[0].extent() / etype.extent();
            let all = slots * signed(etype.size());
            assert!(!shared.complete || all == i64::try_from(owned.len()).unwrap(), "seed {seed}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_recipe() {
        let draw = || {
            let mut generator = Generator::new(42).with_far_gaps();
            (generator.memory_type(5, 4096), generator.file_type(5, 4096))
        };
        assert_eq!(draw(), draw());
    }

    #[test]
    fn shapes_are_varied() {
        let memory: Vec<Recipe> =
            (0..2000).map(|seed| Generator::new(seed).memory_type(4, 1024)).collect();
        let maps = |recipe: &Recipe| recipe.typemap();
        let between = |name: &str, percent: usize, low: usize, high: usize| {
            assert!((low..=high).contains(&percent), "{name}: {percent} %");
        };
        between("empty", percent(&memory, |r| maps(r).bytes.is_empty()), 1, 15);
        between("below zero", percent(&memory, |r| maps(r).true_lower_bound() < 0), 10, 60);
        between("disordered", percent(&memory, |r| !maps(r).bytes.is_sorted()), 10, 60);
        between(
            "contiguous",
            percent(&memory, |r| {
                let map = maps(r);
                map.true_extent() == signed(map.size())
            }),
            5,
            50,
        );
        between("large", percent(&memory, |r| maps(r).size() > 100), 15, 90);
        for word in [
            "contiguous",
            "vector",
            "hvector",
            "indexed(",
            "hindexed(",
            "indexed_block(",
            "hindexed_block(",
            "structure",
            "subarray",
            "darray",
            "resized",
            "dup",
        ] {
            between(word, percent(&memory, |r| r.to_string().contains(word)), 5, 70);
        }
    }

    #[test]
    fn far_gaps_reach_beyond_four_gigabytes() {
        let far = (0..200).filter(|&seed| {
            let (_, filetype) = Generator::new(seed).with_far_gaps().file_type(4, 256);
            filetype.typemap().true_upper_bound() > 1 << 32
        });
        assert!(far.count() > 20);
    }
}
