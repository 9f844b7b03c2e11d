//! MPI's datatype constructors (MPI-4.1, sections 5.1.2 to 5.1.8).
//!
//! Each builds the new type from the normal form of the old one: a vector is two loops, a
//! subarray one loop a dimension, a list a sequence. A type that contains elements of another
//! size in `external32` (C's `long`, `wchar_t`) is built twice, once for each representation:
//! strides and displacements that count extents then count the extents of that representation,
//! those in bytes are taken as they are.

use std::sync::Arc;

use super::layout::Layout;
use super::signature::{Form, Signature};
use super::{Both, Compiled, Datatype, Element};
use crate::error::{Error, ErrorClass, Result};
use crate::number::wide;

/// Which index of an array varies fastest in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last one, as in C and Rust.
    C,
    /// The first one, as in Fortran.
    Fortran,
}

/// One member of a structure.
#[derive(Clone, Debug)]
pub struct Field {
    /// Number of consecutive values.
    pub block_len: u64,
    /// Where the first one lies, in bytes.
    pub displacement: i64,
    /// Their type.
    pub datatype: Datatype,
}

/// How one dimension of an array is distributed over processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Not distributed.
    None,
    /// One block for each process.
    Block,
    /// Blocks dealt out in turn.
    Cyclic,
}

/// One dimension of a distributed array.
#[derive(Clone, Debug)]
pub struct DarrayDimension {
    /// Elements of the global array.
    pub size: u64,
    /// How they are distributed.
    pub distribution: Distribution,
    /// Elements of a block; by default as even as possible for `Block`, 1 for `Cyclic`.
    pub argument: Option<u64>,
    /// Processes along this dimension; 1 where it is not distributed.
    pub processes: u32,
}

/// One process's part of a distributed array (MPI_Type_create_darray).
#[derive(Clone, Debug)]
pub struct Darray {
    /// Number of processes: the product of those of the dimensions.
    pub size: u32,
    /// Which of them, counted with the last dimension of the process grid varying fastest.
    pub rank: u32,
    /// The dimensions of the global array.
    pub dimensions: Vec<DarrayDimension>,
    /// Storage order of the global array.
    pub order: Order,
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::Type, text)
}

fn overflow() -> Error {
    invalid("the datatype reaches beyond 2^63 bytes; use smaller counts, strides or displacements")
}

fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| overflow())
}

fn product(one: i64, two: i64) -> Result<i64> {
    one.checked_mul(two).ok_or_else(overflow)
}

impl Datatype {
    /// An elementary type.
    pub fn element(element: Element) -> Datatype {
        let compile = |size: u64, alignment| Compiled {
            layout: Layout::block(0, size).unwrap_or_else(|_| Layout::empty()),
            lower: 0,
            upper: size.cast_signed(),
            bounded: true,
            alignment,
        };
        let external = match element.has_external() {
            Ok(()) => (element.external_size() != element.size())
                .then(|| Ok(compile(element.external_size(), 1))),
            Err(error) => Some(Err(error)),
        };
        let native = compile(element.size(), element.alignment());
        Datatype::from_parts(native, external, Signature::element(element))
    }

    /// `count` values one after the other (MPI_Type_contiguous).
    ///
    /// # Errors
    /// `Type`, here and in all constructors, if a size or offset overflows.
    pub fn contiguous(count: u64, old: &Datatype) -> Result<Datatype> {
        Datatype::vector(1, count, 0, old)
    }

    /// `count` blocks of `block_len` values, `stride` extents apart (MPI_Type_vector).
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn vector(count: u64, block_len: u64, stride: i64, old: &Datatype) -> Result<Datatype> {
        old.derive(count.saturating_mul(block_len), |old| {
            blocks_at_stride(count, block_len, product(stride, old.extent())?, old)
        })
    }

    /// `count` blocks of `block_len` values, `stride_bytes` apart (MPI_Type_create_hvector).
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn hvector(
        count: u64,
        block_len: u64,
        stride_bytes: i64,
        old: &Datatype,
    ) -> Result<Datatype> {
        old.derive(count.saturating_mul(block_len), |old| {
            blocks_at_stride(count, block_len, stride_bytes, old)
        })
    }

    /// Blocks of given lengths at given displacements, in extents (MPI_Type_indexed).
    ///
    /// # Errors
    /// As [`Datatype::contiguous`]; `Arg` if the lists differ in length.
    pub fn indexed(block_lens: &[u64], displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        same_len(block_lens, displacements)?;
        old.derive(total(block_lens), |old| {
            let blocks = block_lens.iter().zip(displacements);
            blocks_at(blocks.map(|(&len, &at)| Ok((len, product(at, old.extent())?))), old)
        })
    }

    /// Blocks of given lengths at given displacements, in bytes (MPI_Type_create_hindexed).
    ///
    /// # Errors
    /// As [`Datatype::indexed`].
    pub fn hindexed(
        block_lens: &[u64],
        displacements_bytes: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        same_len(block_lens, displacements_bytes)?;
        old.derive(total(block_lens), |old| {
            let blocks = block_lens.iter().zip(displacements_bytes);
            blocks_at(blocks.map(|(&len, &at)| Ok((len, at))), old)
        })
    }

    /// Blocks of one length at given displacements, in extents (MPI_Type_create_indexed_block).
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn indexed_block(
        block_len: u64,
        displacements: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        old.derive(block_len.saturating_mul(wide(displacements.len())), |old| {
            let place = |&at: &i64| Ok((block_len, product(at, old.extent())?));
            blocks_at(displacements.iter().map(place), old)
        })
    }

    /// Blocks of one length at given displacements, in bytes (MPI_Type_create_hindexed_block).
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn hindexed_block(
        block_len: u64,
        displacements_bytes: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        old.derive(block_len.saturating_mul(wide(displacements_bytes.len())), |old| {
            blocks_at(displacements_bytes.iter().map(|&at| Ok((block_len, at))), old)
        })
    }

    /// Values of several types (MPI_Type_create_struct). The extent is rounded up to the largest
    /// alignment of an element inside, as C pads its structures.
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn structure(fields: &[Field]) -> Result<Datatype> {
        let build = |form| {
            let mut bounds = Bounds::default();
            let mut layouts = Vec::with_capacity(fields.len());
            let mut alignment = 1;
            for field in fields {
                let old = field.datatype.compiled(form)?;
                let layout = old.tiled(field.block_len)?.shifted(field.displacement)?;
                bounds.add_block(field.block_len, field.displacement, old)?;
                if !layout.is_empty() {
                    alignment = alignment.max(old.alignment);
                }
                layouts.push(layout);
            }
            let mut built = bounds.around(Layout::joined(layouts)?, alignment)?;
            // The least increment to a multiple of the alignment, also of negative extents.
            let alignment = signed(alignment)?;
            let padding = (alignment - built.extent().rem_euclid(alignment)) % alignment;
            built.upper = built.upper.checked_add(padding).ok_or_else(overflow)?;
            built.upper.checked_sub(built.lower).ok_or_else(overflow)?;
            Ok(built)
        };
        let native = build(Form::Native)?;
        let changes = fields.iter().any(|field| field.datatype.compiled.external.is_some());
        let external = changes.then(|| build(Form::External));
        let signature = Signature::joined(
            fields.iter().map(|field| field.datatype.signature().repeated(field.block_len)),
        )?;
        Ok(Datatype::from_parts(native, external, signature))
    }

    /// A part of an array of any dimension (MPI_Type_create_subarray); the extent is that of the
    /// whole array.
    ///
    /// # Errors
    /// `Arg` if the lists differ in length, are empty, or the part is not inside the array;
    /// otherwise as [`Datatype::contiguous`].
    pub fn subarray(
        sizes: &[u64],
        subsizes: &[u64],
        starts: &[u64],
        order: Order,
        old: &Datatype,
    ) -> Result<Datatype> {
        if sizes.is_empty() || sizes.len() != subsizes.len() || sizes.len() != starts.len() {
            let text = "a subarray needs as many sizes, subsizes and starts as it has dimensions";
            return Err(Error::new(ErrorClass::Arg, text));
        }
        for dimension in 0..sizes.len() {
            let end = starts[dimension].checked_add(subsizes[dimension]);
            if end.is_none_or(|end| end > sizes[dimension]) {
                let text = format!(
                    "dimension {dimension} of a subarray: start {} and subsize {} leave size {}",
                    starts[dimension], subsizes[dimension], sizes[dimension]
                );
                return Err(Error::new(ErrorClass::Arg, text));
            }
        }
        let values = subsizes.iter().fold(1u64, |product, &size| product.saturating_mul(size));
        old.derive(values, |old| {
            array(sizes, order, old, |dimension, inner, stride| {
                let start = product(signed(starts[dimension])?, stride)?;
                inner.repeated(subsizes[dimension], stride)?.shifted(start)
            })
        })
    }

    /// One process's part of a distributed array (MPI_Type_create_darray); the extent is that of
    /// the whole array.
    ///
    /// # Errors
    /// `Arg` if the grid of processes does not have `size` processes, `rank` is not one of them,
    /// or a block distribution has blocks too small for the array; otherwise as
    /// [`Datatype::contiguous`].
    pub fn darray(darray: &Darray, old: &Datatype) -> Result<Datatype> {
        let coordinates = grid_coordinates(darray)?;
        let owned: Vec<Owned> = darray
            .dimensions
            .iter()
            .zip(&coordinates)
            .map(|(dimension, &coordinate)| Owned::new(dimension, coordinate))
            .collect::<Result<_>>()?;
        let sizes: Vec<u64> = darray.dimensions.iter().map(|dimension| dimension.size).collect();
        let values = owned.iter().fold(1u64, |product, owned| product.saturating_mul(owned.len()));
        old.derive(values, |old| {
            array(&sizes, darray.order, old, |dimension, inner, stride| {
                owned[dimension].layout(inner, stride)
            })
        })
    }

    /// The same data with other bounds (MPI_Type_create_resized).
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn resized(lower_bound: i64, extent: i64, old: &Datatype) -> Result<Datatype> {
        let upper = lower_bound.checked_add(extent).ok_or_else(overflow)?;
        old.derive(1, |old| {
            Ok(Compiled { lower: lower_bound, upper, bounded: true, ..old.clone() })
        })
    }

    /// The same type again (MPI_Type_dup).
    pub fn dup(&self) -> Datatype {
        self.clone()
    }

    fn from_parts(
        native: Compiled,
        external: Option<Result<Compiled>>,
        signature: Signature,
    ) -> Datatype {
        Datatype { compiled: Arc::new(Both { native, external, signature }) }
    }

    /// A type made of `values` values of this one, built for each representation.
    fn derive(
        &self,
        values: u64,
        build: impl Fn(&Compiled) -> Result<Compiled>,
    ) -> Result<Datatype> {
        let native = build(&self.compiled.native)?;
        let external = self.compiled.external.as_ref();
        let external = external.map(|old| old.as_ref().map_err(Clone::clone).and_then(build));
        Ok(Datatype::from_parts(native, external, self.signature().repeated(values)))
    }
}

/// The smallest lower and largest upper bound of the values of a type.
#[derive(Default)]
struct Bounds {
    found: Option<(i64, i64)>,
}

impl Bounds {
    /// Adds the bounds of `len` values one extent apart, the first one displaced.
    fn add_block(&mut self, len: u64, displacement: i64, old: &Compiled) -> Result<()> {
        if len == 0 || !old.bounded {
            return Ok(());
        }
        let last = product(signed(len - 1)?, old.extent())?;
        for turn in [0, last] {
            let place = |bound: i64| {
                displacement
                    .checked_add(turn)
                    .and_then(|at| bound.checked_add(at))
                    .ok_or_else(overflow)
            };
            let (lower, upper) = (place(old.lower)?, place(old.upper)?);
            let (lowest, highest) = self.found.unwrap_or((lower, upper));
            self.found = Some((lowest.min(lower), highest.max(upper)));
        }
        Ok(())
    }

    /// A layout with these bounds; without any, they are 0 and count for nothing.
    fn around(&self, layout: Layout, alignment: u64) -> Result<Compiled> {
        let (lower, upper) = self.found.unwrap_or((0, 0));
        upper.checked_sub(lower).ok_or_else(overflow)?;
        Ok(Compiled { layout, lower, upper, bounded: self.found.is_some(), alignment })
    }
}

fn blocks_at_stride(
    count: u64,
    block_len: u64,
    stride_bytes: i64,
    old: &Compiled,
) -> Result<Compiled> {
    let layout = old.tiled(block_len)?.repeated(count, stride_bytes)?;
    let mut bounds = Bounds::default();
    if count > 0 {
        bounds.add_block(block_len, 0, old)?;
        bounds.add_block(block_len, product(signed(count - 1)?, stride_bytes)?, old)?;
    }
    bounds.around(layout, old.alignment)
}

/// Blocks given as (length, displacement in bytes).
fn blocks_at(
    blocks: impl Iterator<Item = Result<(u64, i64)>> + Clone,
    old: &Compiled,
) -> Result<Compiled> {
    let mut bounds = Bounds::default();
    for block in blocks.clone() {
        let (len, displacement) = block?;
        bounds.add_block(len, displacement, old)?;
    }
    // The first pass has seen every error of a block's place.
    let places = blocks.flatten().map(|(len, at)| old.tiled(len)?.shifted(at));
    let layouts: Vec<Layout> = places.collect::<Result<_>>()?;
    bounds.around(Layout::joined(layouts)?, old.alignment)
}

/// An array, dimension by dimension from the one that varies fastest: `part` places the inner
/// dimensions along one more, whose elements are a stride apart.
fn array(
    sizes: &[u64],
    order: Order,
    old: &Compiled,
    part: impl Fn(usize, &Layout, i64) -> Result<Layout>,
) -> Result<Compiled> {
    let mut layout = old.layout.clone();
    let mut stride = old.extent();
    for step in 0..sizes.len() {
        let dimension = match order {
            Order::C => sizes.len() - 1 - step,
            Order::Fortran => step,
        };
        layout = part(dimension, &layout, stride)?;
        stride = product(signed(sizes[dimension])?, stride)?;
    }
    Ok(Compiled { layout, lower: 0, upper: stride, bounded: true, alignment: old.alignment })
}

/// The indices of one dimension that one process owns: full blocks at a stride, then a shorter
/// one.
struct Owned {
    start: u64,
    block: u64,
    stride: u64,
    full_blocks: u64,
    rest: u64,
}

impl Owned {
    fn new(dimension: &DarrayDimension, coordinate: u32) -> Result<Owned> {
        let (processes, coordinate) = (u64::from(dimension.processes), u64::from(coordinate));
        let size = dimension.size;
        let block = match (dimension.distribution, dimension.argument) {
            (_, Some(0)) => {
                return Err(Error::new(ErrorClass::Arg, "a darray block has at least one element"));
            }
            (Distribution::None, _) => size,
            (Distribution::Block, None) => size.div_ceil(processes).max(1),
            (Distribution::Block, Some(block)) if block.saturating_mul(processes) < size => {
                let text =
                    format!("{processes} blocks of {block} do not cover a dimension of {size}");
                return Err(Error::new(ErrorClass::Arg, text));
            }
            (Distribution::Cyclic, None) => 1,
            (_, Some(block)) => block,
        };
        let block = block.max(1);
        let start = coordinate.saturating_mul(block);
        let stride = block.checked_mul(processes).ok_or_else(overflow)?;
        let available = size.saturating_sub(start);
        let (full_blocks, tail) = (available / stride, available % stride);
        let (full_blocks, rest) =
            if tail >= block { (full_blocks + 1, 0) } else { (full_blocks, tail) };
        Ok(Owned { start, block, stride, full_blocks, rest })
    }

    fn len(&self) -> u64 {
        self.full_blocks * self.block + self.rest
    }

    fn layout(&self, inner: &Layout, stride: i64) -> Result<Layout> {
        let at = |index: u64| product(signed(index)?, stride);
        let full = match self.full_blocks {
            0 => Layout::empty(),
            1 => inner.repeated(self.block, stride)?,
            count => inner.repeated(self.block, stride)?.repeated(count, at(self.stride)?)?,
        };
        if self.rest == 0 {
            return if self.len() == 0 { Ok(full) } else { full.shifted(at(self.start)?) };
        }
        let rest_at = self.full_blocks.checked_mul(self.stride).ok_or_else(overflow)?;
        let rest = inner.repeated(self.rest, stride)?.shifted(at(rest_at)?)?;
        Layout::joined([full, rest])?.shifted(at(self.start)?)
    }
}

/// The place of a darray's process in the grid, whose last dimension varies fastest.
fn grid_coordinates(darray: &Darray) -> Result<Vec<u32>> {
    let wrong = |text: String| Err(Error::new(ErrorClass::Arg, text));
    if darray.dimensions.is_empty() {
        return wrong("a darray has at least one dimension".into());
    }
    let mut processes = 1u64;
    for (index, dimension) in darray.dimensions.iter().enumerate() {
        if dimension.processes == 0 {
            return wrong(format!("dimension {index} of a darray has no processes"));
        }
        if dimension.distribution == Distribution::None && dimension.processes != 1 {
            return wrong(format!(
                "dimension {index} of a darray is not distributed, so it has 1 process"
            ));
        }
        processes = processes.saturating_mul(u64::from(dimension.processes));
    }
    if processes != u64::from(darray.size) || darray.rank >= darray.size {
        return wrong(format!(
            "rank {} of {} processes in a darray with a grid of {processes}",
            darray.rank, darray.size
        ));
    }
    let mut rest = darray.rank;
    let mut coordinates = vec![0; darray.dimensions.len()];
    for (coordinate, dimension) in coordinates.iter_mut().zip(&darray.dimensions).rev() {
        *coordinate = rest % dimension.processes;
        rest /= dimension.processes;
    }
    Ok(coordinates)
}

fn same_len(block_lens: &[u64], displacements: &[i64]) -> Result<()> {
    match block_lens.len() == displacements.len() {
        true => Ok(()),
        false => {
            let (lens, places) = (block_lens.len(), displacements.len());
            let text = format!("{lens} block lengths for {places} displacements");
            Err(Error::new(ErrorClass::Arg, text))
        }
    }
}

fn total(block_lens: &[u64]) -> u64 {
    block_lens.iter().fold(0, |total, &len| total.saturating_add(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(datatype: &Datatype) -> Vec<(i64, u64)> {
        datatype.runs().collect()
    }

    #[test]
    fn a_vector_repeats_its_blocks() {
        let vector = Datatype::vector(3, 2, 4, &Datatype::of::<i32>()).unwrap();
        assert_eq!(runs(&vector), [(0, 8), (16, 8), (32, 8)]);
        assert_eq!((vector.size(), vector.extent()), (24, 40));
    }

    #[test]
    fn a_structure_is_padded_like_in_c() {
        let field = |displacement, datatype| Field { block_len: 1, displacement, datatype };
        let fields = [field(0, Datatype::of::<f64>()), field(8, Datatype::of::<u8>())];
        let structure = Datatype::structure(&fields).unwrap();
        assert_eq!((structure.size(), structure.extent(), structure.true_extent()), (9, 16, 9));
    }

    #[test]
    fn a_subarray_is_a_loop_a_dimension() {
        let byte = Datatype::byte();
        let c = Datatype::subarray(&[4, 6], &[2, 3], &[1, 2], Order::C, &byte).unwrap();
        assert_eq!(runs(&c), [(8, 3), (14, 3)]);
        let fortran = Datatype::subarray(&[6, 4], &[3, 2], &[2, 1], Order::Fortran, &byte).unwrap();
        assert_eq!(runs(&fortran), runs(&c));
        assert_eq!((c.extent(), c.lower_bound()), (24, 0));
    }

    #[test]
    fn a_cyclic_dimension_ends_with_a_shorter_block() {
        let part = |rank| {
            let dimension = DarrayDimension {
                size: 10,
                distribution: Distribution::Cyclic,
                argument: Some(2),
                processes: 2,
            };
            let darray = Darray { size: 2, rank, dimensions: vec![dimension], order: Order::C };
            Datatype::darray(&darray, &Datatype::byte()).unwrap()
        };
        assert_eq!(runs(&part(0)), [(0, 2), (4, 2), (8, 2)]);
        assert_eq!(runs(&part(1)), [(2, 2), (6, 2)]);
        assert_eq!(part(1).extent(), 10);
    }

    #[test]
    fn bounds_follow_resized_types() {
        let wide = Datatype::resized(-2, 12, &Datatype::of::<i32>()).unwrap();
        let two = Datatype::contiguous(2, &wide).unwrap();
        assert_eq!((two.lower_bound(), two.extent(), two.size()), (-2, 24, 8));
        assert_eq!(runs(&two), [(0, 4), (12, 4)]);
    }

    #[test]
    fn overflow_is_an_error_of_class_type() {
        let class = |result: Result<Datatype>| result.unwrap_err().class();
        let double = Datatype::of::<f64>();
        assert_eq!(class(Datatype::contiguous(u64::MAX, &double)), ErrorClass::Type);
        assert_eq!(class(Datatype::vector(3, 1, i64::MAX / 8, &double)), ErrorClass::Type);
        assert_eq!(class(Datatype::hindexed(&[1], &[i64::MAX], &double)), ErrorClass::Type);
        let big = [u64::MAX / 2; 2];
        assert_eq!(
            class(Datatype::subarray(&big, &[1, 1], &[0, 0], Order::C, &double)),
            ErrorClass::Type
        );
    }

    #[test]
    fn bad_arguments_have_class_arg() {
        let byte = Datatype::byte();
        let class = |result: Result<Datatype>| result.unwrap_err().class();
        assert_eq!(class(Datatype::indexed(&[1], &[0, 1], &byte)), ErrorClass::Arg);
        let outside = Datatype::subarray(&[4], &[3], &[2], Order::C, &byte);
        assert_eq!(class(outside), ErrorClass::Arg);
    }

    #[test]
    fn lists_built_by_hand_become_loops() {
        let places: Vec<i64> = (0..100_000).map(|index| index * 48).collect();
        let list = Datatype::hindexed_block(1, &places, &Datatype::of::<f32>()).unwrap();
        let vector = Datatype::hvector(100_000, 1, 48, &Datatype::of::<f32>()).unwrap();
        assert_eq!(list.fingerprint(), vector.fingerprint());
    }

    #[test]
    fn a_long_is_smaller_in_external32() {
        let long = Datatype::element(Element::Long);
        let vector = Datatype::vector(2, 1, 3, &long).unwrap();
        assert_eq!((vector.size(), vector.extent()), (16, 32));
        assert_eq!((vector.external_size(), vector.external_extent().unwrap()), (8, 16));
    }
}
