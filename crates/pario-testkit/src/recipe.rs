//! How a datatype is constructed: a tree that mirrors the constructors of MPI-4.1, section 5.1.
//!
//! A recipe gives the real datatype, and its typemap by literal expansion: one loop for each
//! loop in the definition of the standard, one copy of the old typemap for each block element.
//! Subarrays and distributed arrays visit every element of the global array in storage order and
//! ask whether it belongs to the type. Nothing is sorted, merged or computed in closed form, and
//! nothing is shared with the code under test but the names of the arguments.
//!
//! Recipes print as one line, for bug reports: `vector(3, 2, 4, I32)`.

use crate::typemap::Typemap;
use pario::{Darray, DarrayDimension, Datatype, Distribution, Element, Field, Order, Result};
use std::fmt;

/// The construction of a datatype.
///
/// ```
/// use pario_testkit::recipe::Recipe;
/// let every_third = Recipe::Vector {
///     count: 3,
///     block_len: 1,
///     stride: 3,
///     old: Box::new(Recipe::Element(pario::Element::Byte)),
/// };
/// assert_eq!(every_third.to_string(), "vector(3, 1, 3, Byte)");
/// assert_eq!(every_third.typemap().bytes, [0, 3, 6]);
/// ```
#[derive(Clone)]
pub enum Recipe {
    /// An elementary type.
    Element(Element),
    /// Copies one after the other.
    Contiguous {
        /// Number of copies.
        count: u64,
        /// What is copied.
        old: Box<Recipe>,
    },
    /// Equal blocks at equal distances, counted in extents.
    Vector {
        /// Number of blocks.
        count: u64,
        /// Copies in a block.
        block_len: u64,
        /// Distance of the blocks in extents of the old type.
        stride: i64,
        /// What is copied.
        old: Box<Recipe>,
    },
    /// Equal blocks at equal distances, counted in bytes.
    Hvector {
        /// Number of blocks.
        count: u64,
        /// Copies in a block.
        block_len: u64,
        /// Distance of the blocks in bytes.
        stride_bytes: i64,
        /// What is copied.
        old: Box<Recipe>,
    },
    /// Blocks anywhere, counted in extents.
    Indexed {
        /// Copies in each block.
        block_lens: Vec<u64>,
        /// Place of each block in extents of the old type.
        displacements: Vec<i64>,
        /// What is copied.
        old: Box<Recipe>,
    },
    /// Blocks anywhere, counted in bytes.
    Hindexed {
        /// Copies in each block.
        block_lens: Vec<u64>,
        /// Place of each block in bytes.
        displacements_bytes: Vec<i64>,
        /// What is copied.
        old: Box<Recipe>,
    },
    /// Equal blocks anywhere, counted in extents.
    IndexedBlock {
        /// Copies in a block.
        block_len: u64,
        /// Place of each block in extents of the old type.
        displacements: Vec<i64>,
        /// What is copied.
        old: Box<Recipe>,
    },
    /// Equal blocks anywhere, counted in bytes.
    HindexedBlock {
        /// Copies in a block.
        block_len: u64,
        /// Place of each block in bytes.
        displacements_bytes: Vec<i64>,
        /// What is copied.
        old: Box<Recipe>,
    },
    /// Blocks of different types.
    Structure {
        /// The blocks.
        fields: Vec<FieldRecipe>,
    },
    /// A box inside of an array.
    Subarray {
        /// Elements of the array in each dimension.
        sizes: Vec<u64>,
        /// Elements of the box in each dimension.
        subsizes: Vec<u64>,
        /// Where the box starts in each dimension.
        starts: Vec<u64>,
        /// Which dimension is the fastest.
        order: Order,
        /// An element of the array.
        old: Box<Recipe>,
    },
    /// The part of a distributed array that one rank owns.
    Darray {
        /// The array, the grid of processes, the rank.
        array: Darray,
        /// An element of the array.
        old: Box<Recipe>,
    },
    /// The same data with other bounds.
    Resized {
        /// The new lower bound.
        lower_bound: i64,
        /// The new extent.
        extent: i64,
        /// The data.
        old: Box<Recipe>,
    },
    /// A duplicate.
    Dup(Box<Recipe>),
}

/// One block of a [`Recipe::Structure`].
#[derive(Clone)]
pub struct FieldRecipe {
    /// Copies in the block.
    pub block_len: u64,
    /// Place of the block in bytes.
    pub displacement: i64,
    /// What is copied.
    pub datatype: Recipe,
}

impl Recipe {
    /// The real datatype.
    ///
    /// # Errors
    ///
    /// Whatever the constructors of [`Datatype`] report.
    pub fn build(&self) -> Result<Datatype> {
        match self {
            Recipe::Element(element) => Ok(Datatype::element(*element)),
            Recipe::Contiguous { count, old } => Datatype::contiguous(*count, &old.build()?),
            Recipe::Vector { count, block_len, stride, old } => {
                Datatype::vector(*count, *block_len, *stride, &old.build()?)
            }
            Recipe::Hvector { count, block_len, stride_bytes, old } => {
                Datatype::hvector(*count, *block_len, *stride_bytes, &old.build()?)
            }
            Recipe::Indexed { block_lens, displacements, old } => {
                Datatype::indexed(block_lens, displacements, &old.build()?)
            }
            Recipe::Hindexed { block_lens, displacements_bytes, old } => {
                Datatype::hindexed(block_lens, displacements_bytes, &old.build()?)
            }
            Recipe::IndexedBlock { block_len, displacements, old } => {
                Datatype::indexed_block(*block_len, displacements, &old.build()?)
            }
            Recipe::HindexedBlock { block_len, displacements_bytes, old } => {
                Datatype::hindexed_block(*block_len, displacements_bytes, &old.build()?)
            }
            Recipe::Structure { fields } => {
                let fields: Result<Vec<Field>> = fields.iter().map(FieldRecipe::build).collect();
                Datatype::structure(&fields?)
            }
            Recipe::Subarray { sizes, subsizes, starts, order, old } => {
                Datatype::subarray(sizes, subsizes, starts, *order, &old.build()?)
            }
            Recipe::Darray { array, old } => Datatype::darray(array, &old.build()?),
            Recipe::Resized { lower_bound, extent, old } => {
                Datatype::resized(*lower_bound, *extent, &old.build()?)
            }
            Recipe::Dup(old) => Ok(old.build()?.dup()),
        }
    }

    /// The oracle: the typemap by literal expansion.
    pub fn typemap(&self) -> Typemap {
        match self {
            Recipe::Element(element) => Typemap::element(*element),
            Recipe::Contiguous { count, old } => contiguous(*count, &old.typemap()),
            Recipe::Vector { count, block_len, stride, old } => {
                let old = old.typemap();
                hvector(*count, *block_len, stride * old.extent(), &old)
            }
            Recipe::Hvector { count, block_len, stride_bytes, old } => {
                hvector(*count, *block_len, *stride_bytes, &old.typemap())
            }
            Recipe::Indexed { block_lens, displacements, old } => {
                let old = old.typemap();
                hindexed(block_lens, &in_bytes(displacements, &old), &old)
            }
            Recipe::Hindexed { block_lens, displacements_bytes, old } => {
                hindexed(block_lens, displacements_bytes, &old.typemap())
            }
            Recipe::IndexedBlock { block_len, displacements, old } => {
                let old = old.typemap();
                hindexed_block(*block_len, &in_bytes(displacements, &old), &old)
            }
            Recipe::HindexedBlock { block_len, displacements_bytes, old } => {
                hindexed_block(*block_len, displacements_bytes, &old.typemap())
            }
            Recipe::Structure { fields } => structure(fields),
            Recipe::Subarray { sizes, subsizes, starts, order, old } => {
                array_part(sizes, *order, &old.typemap(), |index| {
                    (0..sizes.len()).all(|dimension| {
                        index[dimension] >= starts[dimension]
                            && index[dimension] < starts[dimension] + subsizes[dimension]
                    })
                })
            }
            Recipe::Darray { array, old } => darray(array, &old.typemap()),
            Recipe::Resized { lower_bound, extent, old } => {
                let mut map = old.typemap();
                map.bound(*lower_bound, *extent);
                map
            }
            Recipe::Dup(old) => old.typemap(),
        }
    }

    /// The recipes directly inside of this one.
    pub fn parts(&self) -> Vec<&Recipe> {
        match self {
            Recipe::Element(_) => vec![],
            Recipe::Structure { fields } => fields.iter().map(|field| &field.datatype).collect(),
            Recipe::Contiguous { old, .. }
            | Recipe::Vector { old, .. }
            | Recipe::Hvector { old, .. }
            | Recipe::Indexed { old, .. }
            | Recipe::Hindexed { old, .. }
            | Recipe::IndexedBlock { old, .. }
            | Recipe::HindexedBlock { old, .. }
            | Recipe::Subarray { old, .. }
            | Recipe::Darray { old, .. }
            | Recipe::Resized { old, .. }
            | Recipe::Dup(old) => vec![old],
        }
    }
}

impl FieldRecipe {
    /// The real field.
    fn build(&self) -> Result<Field> {
        let datatype = self.datatype.build()?;
        Ok(Field { block_len: self.block_len, displacement: self.displacement, datatype })
    }
}

fn contiguous(count: u64, old: &Typemap) -> Typemap {
    let mut map = Typemap::default();
    for copy in 0..signed(count) {
        map.place(old, copy * old.extent());
    }
    map
}

fn hvector(count: u64, block_len: u64, stride_bytes: i64, old: &Typemap) -> Typemap {
    let mut map = Typemap::default();
    for block in 0..signed(count) {
        for copy in 0..signed(block_len) {
            map.place(old, block * stride_bytes + copy * old.extent());
        }
    }
    map
}

fn hindexed(block_lens: &[u64], displacements_bytes: &[i64], old: &Typemap) -> Typemap {
    assert_eq!(block_lens.len(), displacements_bytes.len(), "every block has a length and a place");
    let mut map = Typemap::default();
    for (&block_len, displacement) in block_lens.iter().zip(displacements_bytes) {
        for copy in 0..signed(block_len) {
            map.place(old, displacement + copy * old.extent());
        }
    }
    map
}

fn hindexed_block(block_len: u64, displacements_bytes: &[i64], old: &Typemap) -> Typemap {
    let mut map = Typemap::default();
    for displacement in displacements_bytes {
        for copy in 0..signed(block_len) {
            map.place(old, displacement + copy * old.extent());
        }
    }
    map
}

fn structure(fields: &[FieldRecipe]) -> Typemap {
    let mut map = Typemap::default();
    for field in fields {
        let old = field.datatype.typemap();
        for copy in 0..signed(field.block_len) {
            map.place(&old, field.displacement + copy * old.extent());
        }
    }
    map.pad();
    map
}

/// The elements of an array for which `belongs` holds, in storage order; bounds of the array.
fn array_part(
    sizes: &[u64],
    order: Order,
    old: &Typemap,
    belongs: impl Fn(&[u64]) -> bool,
) -> Typemap {
    let slots = sizes.iter().product();
    let mut map = Typemap::default();
    for slot in 0..slots {
        if belongs(&index_of_slot(slot, sizes, order)) {
            map.place(old, signed(slot) * old.extent());
        }
    }
    map.bound(0, signed(slots) * old.extent());
    map
}

/// The index in each dimension of the element that is number `slot` in storage order.
fn index_of_slot(slot: u64, sizes: &[u64], order: Order) -> Vec<u64> {
    let mut rest = slot;
    let mut index = vec![0; sizes.len()];
    let from_fastest: Vec<usize> = match order {
        Order::C => (0..sizes.len()).rev().collect(),
        Order::Fortran => (0..sizes.len()).collect(),
    };
    for dimension in from_fastest {
        index[dimension] = rest % sizes[dimension];
        rest /= sizes[dimension];
    }
    index
}

fn darray(array: &Darray, old: &Typemap) -> Typemap {
    let sizes: Vec<u64> = array.dimensions.iter().map(|dimension| dimension.size).collect();
    // The ranks fill the process grid like the elements of a C array, whatever the array's order.
    let grid: Vec<u64> = array.dimensions.iter().map(|dim| u64::from(dim.processes)).collect();
    let place = index_of_slot(u64::from(array.rank), &grid, Order::C);
    array_part(&sizes, array.order, old, |index| {
        (0..sizes.len()).all(|d| owner(index[d], &array.dimensions[d]) == place[d])
    })
}

/// The place in the process grid, in one dimension, that owns an index of this dimension.
fn owner(index: u64, dimension: &DarrayDimension) -> u64 {
    let processes = u64::from(dimension.processes);
    match dimension.distribution {
        Distribution::None => 0,
        Distribution::Block => {
            index / dimension.argument.unwrap_or(dimension.size.div_ceil(processes))
        }
        Distribution::Cyclic => index / dimension.argument.unwrap_or(1) % processes,
    }
}

/// Displacements that count extents of the old type, in bytes.
fn in_bytes(displacements: &[i64], old: &Typemap) -> Vec<i64> {
    displacements.iter().map(|displacement| displacement * old.extent()).collect()
}

/// A count as a factor of displacements.
fn signed(count: u64) -> i64 {
    i64::try_from(count).expect("the oracle handles small counts")
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipe::Element(element) => write!(f, "{element:?}"),
            Recipe::Contiguous { count, old } => write!(f, "contiguous({count}, {old})"),
            Recipe::Vector { count, block_len, stride, old } => {
                write!(f, "vector({count}, {block_len}, {stride}, {old})")
            }
            Recipe::Hvector { count, block_len, stride_bytes, old } => {
                write!(f, "hvector({count}, {block_len}, {stride_bytes}, {old})")
            }
            Recipe::Indexed { block_lens, displacements, old } => {
                write!(f, "indexed({block_lens:?}, {displacements:?}, {old})")
            }
            Recipe::Hindexed { block_lens, displacements_bytes, old } => {
                write!(f, "hindexed({block_lens:?}, {displacements_bytes:?}, {old})")
            }
            Recipe::IndexedBlock { block_len, displacements, old } => {
                write!(f, "indexed_block({block_len}, {displacements:?}, {old})")
            }
            Recipe::HindexedBlock { block_len, displacements_bytes, old } => {
                write!(f, "hindexed_block({block_len}, {displacements_bytes:?}, {old})")
            }
            Recipe::Structure { fields } => {
                f.write_str("structure")?;
                f.debug_list().entries(fields).finish()
            }
            Recipe::Subarray { sizes, subsizes, starts, order, old } => {
                write!(f, "subarray({sizes:?}, {subsizes:?}, {starts:?}, {order:?}, {old})")
            }
            Recipe::Darray { array, old } => {
                write!(f, "darray(rank {} of {}, [", array.rank, array.size)?;
                for (number, dimension) in array.dimensions.iter().enumerate() {
                    let comma = if number > 0 { ", " } else { "" };
                    let DarrayDimension { size, distribution, argument, processes } = dimension;
                    write!(f, "{comma}{size} {distribution:?}")?;
                    argument.iter().try_for_each(|argument| write!(f, "({argument})"))?;
                    write!(f, " over {processes}")?;
                }
                write!(f, "], {:?}, {old})", array.order)
            }
            Recipe::Resized { lower_bound, extent, old } => {
                write!(f, "resized({lower_bound}, {extent}, {old})")
            }
            Recipe::Dup(old) => write!(f, "dup({old})"),
        }
    }
}

/// Recipes that print the same are the same.
impl PartialEq for Recipe {
    fn eq(&self, other: &Recipe) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Recipe {}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for FieldRecipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", self.block_len, self.displacement, self.datatype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Element::{Byte, F32, F64, I8, I32};

    fn element(element: Element) -> Box<Recipe> {
        Box::new(Recipe::Element(element))
    }

    fn field(block_len: u64, displacement: i64, datatype: Recipe) -> FieldRecipe {
        FieldRecipe { block_len, displacement, datatype }
    }

    /// The old type of the examples in the standard: {(double, 0), (char, 8)}, extent 16.
    fn double_char() -> Box<Recipe> {
        let fields = vec![field(1, 0, Recipe::Element(F64)), field(1, 8, Recipe::Element(I8))];
        Box::new(Recipe::Structure { fields })
    }

    /// Displacements of the doubles of copies of `double_char`, whose chars stand 8 bytes later.
    fn doubles(recipe: &Recipe) -> Vec<i64> {
        let entries = recipe.typemap().entries();
        for pair in entries.chunks(2) {
            assert_eq!((pair[0].0, pair[1].0), (F64, I8));
            assert_eq!(pair[1].1, pair[0].1 + 8);
        }
        entries.iter().step_by(2).map(|entry| entry.1).collect()
    }

    /// Lower bound and extent.
    fn bounds(recipe: &Recipe) -> (i64, i64) {
        let map = recipe.typemap();
        (map.lower_bound, map.extent())
    }

    #[test]
    fn struct_is_padded_to_its_largest_alignment() {
        let map = double_char().typemap();
        assert_eq!(map.entries(), [(F64, 0), (I8, 8)]);
        assert_eq!((map.size(), map.extent(), map.true_extent()), (9, 16, 9));
        let late = Recipe::Structure { fields: vec![field(1, 3, Recipe::Element(I32))] };
        assert_eq!(bounds(&late), (3, 4), "the extent counts, not the upper bound");
    }

    #[test]
    fn struct_pads_also_around_a_resized_part() {
        let old = Recipe::Resized { lower_bound: 0, extent: 5, old: element(I32) };
        assert_eq!(bounds(&Recipe::Structure { fields: vec![field(1, 0, old)] }), (0, 8));
    }

    #[test]
    fn contiguous_repeats_at_the_extent() {
        let recipe = Recipe::Contiguous { count: 3, old: double_char() };
        assert_eq!(doubles(&recipe), [0, 16, 32]);
        assert_eq!(bounds(&recipe), (0, 48));
    }

    /// The examples of MPI_Type_vector in the standard.
    #[test]
    fn vector_strides_forwards_and_backwards() {
        let old = double_char();
        let recipe = Recipe::Vector { count: 2, block_len: 3, stride: 4, old: old.clone() };
        assert_eq!(doubles(&recipe), [0, 16, 32, 64, 80, 96]);
        assert_eq!(bounds(&recipe), (0, 112));
        let recipe = Recipe::Vector { count: 3, block_len: 1, stride: -2, old };
        assert_eq!(doubles(&recipe), [0, -32, -64]);
        assert_eq!(bounds(&recipe), (-64, 80));
    }

    #[test]
    fn hvector_strides_in_bytes() {
        let recipe = Recipe::Hvector { count: 3, block_len: 2, stride_bytes: 5, old: element(I8) };
        assert_eq!(recipe.typemap().bytes, [0, 1, 5, 6, 10, 11]);
        assert_eq!(bounds(&recipe), (0, 12));
    }

    /// The example of MPI_Type_indexed in the standard.
    #[test]
    fn indexed_keeps_the_order_of_its_blocks() {
        let (block_lens, displacements) = (vec![3, 1], vec![4, 0]);
        let recipe = Recipe::Indexed { block_lens, displacements, old: double_char() };
        assert_eq!(doubles(&recipe), [64, 80, 96, 0]);
        assert_eq!(bounds(&recipe), (0, 112));
    }

    #[test]
    fn hindexed_and_block_forms_agree_with_indexed() {
        let old = double_char();
        let lens = vec![2, 2];
        let indexed = Recipe::Indexed {
            block_lens: lens.clone(),
            displacements: vec![3, -1],
            old: old.clone(),
        };
        assert_eq!(doubles(&indexed), [48, 64, -16, 0]);
        let displacements_bytes = vec![48, -16];
        let same = [
            Recipe::Hindexed {
                block_lens: lens,
                displacements_bytes: displacements_bytes.clone(),
                old: old.clone(),
            },
            Recipe::HindexedBlock { block_len: 2, displacements_bytes, old: old.clone() },
            Recipe::IndexedBlock { block_len: 2, displacements: vec![3, -1], old },
        ];
        for recipe in same {
            assert_eq!(recipe.typemap(), indexed.typemap(), "{recipe}");
        }
    }

    /// The example of MPI_Type_create_struct in the standard.
    #[test]
    fn struct_mixes_types() {
        let fields = vec![
            field(2, 0, Recipe::Element(F32)),
            field(1, 16, *double_char()),
            field(3, 26, Recipe::Element(I8)),
        ];
        let recipe = Recipe::Structure { fields };
        let entries = [(F32, 0), (F32, 4), (F64, 16), (I8, 24), (I8, 26), (I8, 27), (I8, 28)];
        assert_eq!(recipe.typemap().entries(), entries);
        assert_eq!(bounds(&recipe), (0, 32));
        let printed = "structure[(2, 0, F32), (1, 16, structure[(1, 0, F64), (1, 8, I8)]), \
                       (3, 26, I8)]";
        assert_eq!(recipe.to_string(), printed);
    }

    /// The example of MPI_Type_create_resized in the standard.
    #[test]
    fn resized_bounds_carry_outwards() {
        let old = Box::new(Recipe::Resized { lower_bound: -3, extent: 9, old: element(I32) });
        assert_eq!(bounds(&old), (-3, 9));
        let recipe = Recipe::Contiguous { count: 2, old };
        assert_eq!(recipe.typemap().entries(), [(I32, 0), (I32, 9)]);
        assert_eq!(bounds(&recipe), (-3, 18));
        assert_eq!(recipe.typemap().true_extent(), 13);
    }

    #[test]
    fn negative_extent_counts_downwards() {
        let old = Box::new(Recipe::Resized { lower_bound: 0, extent: -8, old: element(I32) });
        let recipe = Recipe::Contiguous { count: 3, old };
        assert_eq!(recipe.typemap().entries(), [(I32, 0), (I32, -8), (I32, -16)]);
        assert_eq!(bounds(&recipe), (-16, 8));
    }

    #[test]
    fn empty_types_and_empty_blocks_contribute_nothing() {
        let none = Recipe::Contiguous { count: 0, old: element(I32) };
        assert_eq!(none.typemap(), Typemap::default());
        let fields = vec![
            field(0, -50, Recipe::Element(F64)),
            field(2, 10, Recipe::Element(Byte)),
            field(3, 100, none),
        ];
        assert_eq!(bounds(&Recipe::Structure { fields }), (10, 2));
        let (block_lens, displacements) = (vec![0, 1], vec![-9, 2]);
        let recipe = Recipe::Indexed { block_lens, displacements, old: element(I32) };
        assert_eq!(bounds(&recipe), (8, 4));
    }

    #[test]
    fn subarray_follows_the_storage_order() {
        let subarray = |order| Recipe::Subarray {
            sizes: vec![3, 4],
            subsizes: vec![2, 2],
            starts: vec![1, 2],
            order,
            old: element(Byte),
        };
        assert_eq!(subarray(Order::C).typemap().bytes, [6, 7, 10, 11]);
        assert_eq!(subarray(Order::Fortran).typemap().bytes, [7, 8, 10, 11]);
        assert_eq!(bounds(&subarray(Order::C)), (0, 12));
    }

    fn dimension(size: u64, distribution: Distribution, argument: Option<u64>) -> DarrayDimension {
        DarrayDimension { size, distribution, argument, processes: 2 }
    }

    fn part(rank: u32, dimensions: &[DarrayDimension], order: Order) -> Recipe {
        let size = dimensions.iter().map(|dimension| dimension.processes).product();
        let array = Darray { size, rank, dimensions: dimensions.to_vec(), order };
        Recipe::Darray { array, old: element(Byte) }
    }

    #[test]
    fn darray_in_blocks_numbers_the_processes_in_c_order() {
        let blocks =
            [dimension(4, Distribution::Block, None), dimension(4, Distribution::Block, None)];
        assert_eq!(part(1, &blocks, Order::C).typemap().bytes, [2, 3, 6, 7]);
        assert_eq!(part(2, &blocks, Order::C).typemap().bytes, [8, 9, 12, 13]);
        assert_eq!(part(1, &blocks, Order::Fortran).typemap().bytes, [8, 9, 12, 13]);
        assert_eq!(bounds(&part(1, &blocks, Order::C)), (0, 16));
    }

    #[test]
    fn darray_deals_cyclic_blocks_in_turn() {
        let cyclic = [dimension(7, Distribution::Cyclic, Some(2))];
        assert_eq!(part(0, &cyclic, Order::C).typemap().bytes, [0, 1, 4, 5]);
        assert_eq!(part(1, &cyclic, Order::C).typemap().bytes, [2, 3, 6]);
        let single =
            [dimension(3, Distribution::Cyclic, None), dimension(3, Distribution::Cyclic, None)];
        assert_eq!(part(0, &single, Order::C).typemap().bytes, [0, 2, 6, 8]);
        assert_eq!(part(3, &single, Order::C).typemap().bytes, [4]);
    }

    #[test]
    fn darray_leaves_late_ranks_without_data() {
        let mut uneven = dimension(5, Distribution::Block, None);
        uneven.processes = 4;
        let owned = |rank| part(rank, std::slice::from_ref(&uneven), Order::C).typemap().bytes;
        assert_eq!(
            [owned(0), owned(1), owned(2), owned(3)],
            [vec![0, 1], vec![2, 3], vec![4], vec![]]
        );
        assert_eq!(bounds(&part(3, &[uneven], Order::C)), (0, 5));
    }

    /// CYCLIC(2), *, BLOCK as in the standard's example of HPF, with smaller numbers.
    #[test]
    fn darray_mixes_distributions() {
        let mut whole = dimension(2, Distribution::None, None);
        whole.processes = 1;
        let mixed = [
            dimension(5, Distribution::Cyclic, Some(2)),
            whole,
            dimension(4, Distribution::Block, Some(3)),
        ];
        // Rank 1 is at (0, 0, 1): indices 0, 1, 4 of the first dimension and 3 of the third.
        let recipe = part(1, &mixed, Order::Fortran);
        assert_eq!(recipe.typemap().bytes, [30, 31, 34, 35, 36, 39]);
        let printed = "darray(rank 1 of 4, [5 Cyclic(2) over 2, 2 None over 1, 4 Block(3) over 2], \
                       Fortran, Byte)";
        assert_eq!(recipe.to_string(), printed);
    }

    #[test]
    fn array_of_resized_elements_counts_their_extent() {
        let old = Box::new(Recipe::Resized { lower_bound: -4, extent: 12, old: element(I32) });
        let (sizes, subsizes, starts) = (vec![4], vec![2], vec![1]);
        let recipe = Recipe::Subarray { sizes, subsizes, starts, order: Order::C, old };
        assert_eq!(recipe.typemap().entries(), [(I32, 12), (I32, 24)]);
        assert_eq!(bounds(&recipe), (0, 48));
    }
}
