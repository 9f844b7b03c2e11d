//! Datatypes agree with the byte oracle: bounds, places of all bytes, packing and unpacking.
//!
//! `PARIO_PROGRAMS` sets the number of random types, `PARIO_SEED` the seed of the first; type
//! number n has the seed of the first plus n, so that one failure can be run alone.

#![allow(clippy::expect_used)]

use pario::{Darray, DarrayDimension, Datatype, Distribution, Element, Order};
use pario_testkit::generate::Generator;
use pario_testkit::recipe::{FieldRecipe, Recipe};
use pario_testkit::shrink;
use pario_testkit::typemap::Typemap;
use std::env;

/// Types that reach farther are not given memory to pack from.
const MEMORY_BYTES_MAX: i64 = 1 << 22;

/// What a target is filled with; data never has this value, see [`data`].
const GAP: u8 = 0xA5;

fn number_from(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Compares this number of random types, and reports the first that differs in its smallest form.
fn compare_all(share: u64, draw: impl Fn(&mut Generator, u32, u64) -> Vec<Recipe>) {
    let first_seed = number_from("PARIO_SEED").unwrap_or_else(rand::random);
    let programs = number_from("PARIO_PROGRAMS").unwrap_or(20_000).div_ceil(share);
    println!("PARIO_SEED={first_seed} PARIO_PROGRAMS={programs}");
    for number in 0..programs {
        let seed = first_seed.wrapping_add(number);
        let mut generator = Generator::new(seed);
        if seed.is_multiple_of(7) {
            generator = generator.with_far_gaps();
        }
        let depth = u32::try_from(seed % 6).expect("small");
        let bytes_max = if seed % 31 == 1 { 4096 } else { 256 };
        for recipe in draw(&mut generator, depth, bytes_max) {
            if let Err(difference) = compare(&recipe) {
                let smallest = shrink::smallest(&recipe, |candidate| compare(candidate).is_err());
                let reason = compare(&smallest).expect_err("the smallest recipe fails, too");
                panic!(
                    "PARIO_SEED={seed} PARIO_PROGRAMS=1: {recipe}\n  {difference}\n\
                     smallest: {smallest}\n  {reason}"
                );
            }
        }
    }
}

/// What differs between the datatype and its typemap; a panic of the datatype is a difference.
fn compare(recipe: &Recipe) -> Result<(), String> {
    let map = recipe.typemap();
    shrink::quietly(|| {
        let datatype = recipe.build().map_err(|error| format!("build: {error}"))?;
        same_bounds(&datatype, &map)?;
        same_places(&datatype, &map)?;
        (0..=3).try_for_each(|count| same_packing(&datatype, &map, count))
    })
    .unwrap_or_else(|| Err("panics".to_string()))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, real: T, oracle: T) -> Result<(), String> {
    if real == oracle { Ok(()) } else { Err(format!("{what}: {real:?}, oracle {oracle:?}")) }
}

fn same_bounds(datatype: &Datatype, map: &Typemap) -> Result<(), String> {
    same("size", datatype.size(), map.size())?;
    same("lower bound", datatype.lower_bound(), map.lower_bound)?;
    same("upper bound", datatype.upper_bound(), map.upper_bound)?;
    same("extent", datatype.extent(), map.extent())?;
    same("true lower bound", datatype.true_lower_bound(), map.true_lower_bound())?;
    same("true extent", datatype.true_extent(), map.true_extent())
}

fn same_places(datatype: &Datatype, map: &Typemap) -> Result<(), String> {
    for (byte, &offset) in (0..).zip(&map.bytes) {
        same(&format!("offset_of({byte})"), datatype.offset_of(byte), Some(offset))?;
    }
    for byte in [map.size(), map.size() + 1, u64::MAX] {
        same(&format!("offset_of({byte})"), datatype.offset_of(byte), None)?;
    }
    let mut bytes = Vec::new();
    for (offset, len) in datatype.runs() {
        if len > map.size() {
            return Err(format!("run of {len} bytes at {offset}, but the size is {}", map.size()));
        }
        bytes.extend((0..len).map(|byte| offset + i64::try_from(byte).expect("small")));
    }
    same("bytes of runs", &bytes, &map.bytes)
}

fn same_packing(datatype: &Datatype, map: &Typemap, count: u64) -> Result<(), String> {
    let reach = map.reach(count);
    let (start, end) = (reach.start.min(0), reach.end.max(0));
    if end - start > MEMORY_BYTES_MAX {
        return Ok(());
    }
    let origin = usize::try_from(-start).expect("not negative");
    let memory = data(usize::try_from(end - start).expect("not negative"));
    let packed = datatype.pack(count, &memory, origin).map_err(|error| format!("pack: {error}"))?;
    same(&format!("pack of {count}"), &packed, &map.pack(count, &memory, origin))?;
    if end > 0 && reach.end == end {
        let short = datatype.pack(count, &memory[..memory.len() - 1], origin);
        same("pack beyond the end fails", short.is_err(), true)?;
    }
    if start < 0 {
        let short = datatype.pack(count, &memory[1..], origin - 1);
        same("pack before the start fails", short.is_err(), true)?;
    }
    if map.overlaps(count) {
        return Ok(());
    }
    same_unpacking(datatype, map, (count, &packed, origin, memory.len()))
}

fn same_unpacking(
    datatype: &Datatype,
    map: &Typemap,
    (count, packed, origin, len): (u64, &[u8], usize, usize),
) -> Result<(), String> {
    let mut real = vec![GAP; len];
    let mut oracle = real.clone();
    datatype
        .unpack(count, packed, &mut real, origin)
        .map_err(|error| format!("unpack: {error}"))?;
    map.unpack(count, packed, &mut oracle, origin);
    same(&format!("unpack of {count}"), &real, &oracle)?;
    let Some((_, short)) = packed.split_last() else { return Ok(()) };
    let outcome = datatype.unpack(count, short, &mut real, origin);
    same("unpack of too little data fails", outcome.is_err(), true)
}

/// Bytes that follow from their place, and are never [`GAP`].
fn data(len: usize) -> Vec<u8> {
    (0..len).map(|place| u8::try_from(place % 163).expect("small")).collect()
}

#[test]
fn memory_types_match_the_oracle() {
    compare_all(2, |generator, depth, bytes_max| vec![generator.memory_type(depth, bytes_max)]);
}

#[test]
fn file_types_match_the_oracle() {
    compare_all(4, |generator, depth, bytes_max| {
        let (etype, filetype) = generator.file_type(depth, bytes_max);
        vec![etype, filetype]
    });
}

#[test]
fn types_of_distributed_arrays_match_the_oracle() {
    compare_all(40, |generator, depth, _| generator.distributed_with_holes(depth + 1).filetypes);
}

fn element(element: Element) -> Box<Recipe> {
    Box::new(Recipe::Element(element))
}

fn structure(fields: &[(i64, Recipe)]) -> Recipe {
    let field = |(displacement, datatype): &(i64, Recipe)| FieldRecipe {
        block_len: 1,
        displacement: *displacement,
        datatype: datatype.clone(),
    };
    Recipe::Structure { fields: fields.iter().map(field).collect() }
}

fn matches(recipe: &Recipe) {
    assert_eq!(compare(recipe), Ok(()), "{recipe}");
}

/// A part without entries is nowhere: it widens no bounds and asks for no alignment.
#[test]
fn empty_parts_contribute_nothing() {
    let byte = Recipe::Element(Element::Byte);
    let empty = Recipe::Contiguous { count: 0, old: element(Element::U32) };
    matches(&structure(&[(1, empty.clone())]));
    matches(&structure(&[(0, byte.clone()), (2, empty.clone())]));
    let padded = structure(&[(0, empty.clone()), (1, byte)]);
    matches(&Recipe::Contiguous { count: 3, old: Box::new(padded) });
    let old = Box::new(empty);
    matches(&Recipe::HindexedBlock { block_len: 1, displacements_bytes: vec![-1, 1], old });
}

/// A rank without a share has a type without data, whose true bounds are zero.
#[test]
fn ranks_without_data_have_no_true_bounds() {
    let distribution = Distribution::Block;
    let dimension = |size| DarrayDimension { size, distribution, argument: None, processes: 2 };
    let (dimensions, order) = (vec![dimension(3), dimension(1)], Order::C);
    let array = Darray { size: 4, rank: 3, dimensions, order };
    matches(&Recipe::Darray { array, old: element(Element::Byte) });
}

/// MPICH and Open MPI agree on these bounds with each other and with the standard.
#[test]
fn struct_keeps_a_negative_extent() {
    for extent in [-4, -8] {
        let resized = Recipe::Resized { lower_bound: 0, extent, old: element(Element::I32) };
        matches(&structure(&[(0, resized)]));
    }
}

/// The extent is rounded to the next multiple of the alignment, also if it is negative.
#[test]
fn struct_pads_a_negative_extent() {
    for extent in [-1, -9, -19] {
        let old = element(Element::F64);
        let resized = Recipe::Resized { lower_bound: 0, extent, old };
        matches(&structure(&[(0, resized)]));
    }
}

/// What counts for a displacement is the extent of 16 bytes, not how far away the data is.
#[test]
fn far_types_with_small_extents_can_be_displaced_far() {
    let displacements = vec![1 << 31];
    let long = Recipe::IndexedBlock { block_len: 1, displacements, old: element(Element::Long) };
    let far = structure(&[(0, long), (8 + (8 << 31), Recipe::Element(Element::Byte))]);
    let (displacements, old) = (vec![1_073_741_821], Box::new(far));
    matches(&Recipe::IndexedBlock { block_len: 1, displacements, old });
}
