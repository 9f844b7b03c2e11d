//! Structs as records: memory with a datatype that follows from the fields.
//!
//! Unsafe: a slice of structs has padding, whose bytes are not initialised, so it cannot be seen as
//! a slice of bytes. It is named by its address, and only the bytes that the datatype names are
//! touched. That is sound by the rules of [`Record`]; the bounds are checked all the same.

use std::marker::PhantomData;
use std::ops::Range;

use super::{Buffer, OwnedBuffer, Source, Target};
use crate::datatype::copy::Span;
use crate::datatype::{Datatype, Field};
use crate::error::Result;
use crate::number::wide;

/// A type whose values can be read and written as they lie in memory: a number, an array of
/// records, or a struct of records.
///
/// Derive it for a `#[repr(C)]` struct (feature `derive`, which is on by default). Padding is not
/// moved, and each number is converted where the view says so, as in `external32`.
///
/// ```
/// use pario::{File, Record, Solo, Source, Target};
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
/// struct Particle {
///     kind: u8, // and 7 bytes of padding
///     place: [f64; 3],
/// }
///
/// let comm = Solo::new();
/// let file =
///     File::options().read(true).write(true).create(true).open(&*comm, "memory:particles")?;
/// let particles: Vec<Particle> =
///     (0..9).map(|kind| Particle { kind, place: [0.5, 1.5, 2.5] }).collect();
/// let status = file.write_all(0, Source::records(&particles)?)?;
/// assert_eq!((status.bytes, status.records::<Particle>()), (9 * 25, 9));
///
/// let mut found = [Particle::default(); 9];
/// file.read_all(0, Target::records(&mut found)?)?;
/// assert_eq!(found, *particles);
/// file.close()?;
/// # Ok::<(), pario::Error>(())
/// ```
///
/// [`Record::datatype`] as the filetype of a view leaves the file the gaps that memory has.
///
/// Types with bytes that are no value of theirs are not records: `bool`, `char`, enums, references.
///
/// ```compile_fail,E0277
/// #[repr(C)]
/// #[derive(pario::Record)]
/// struct Cell {
///     full: bool,
/// }
/// ```
///
/// Neither are structs without `#[repr(C)]`, since another build may lay them out otherwise.
///
/// ```compile_fail
/// #[derive(pario::Record)]
/// struct Cell {
///     id: u64,
/// }
/// ```
///
/// # Safety
/// * The datatype names bytes inside a value only, each at most once, and its extent is the size of
///   a value.
/// * These bytes are initialised in every value: none of them is padding.
/// * Where they are overwritten with any others, the value stays a valid one.
/// * None of them is in a cell, whose contents change through a shared reference.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a record of pario",
    label = "not a record",
    note = "records are the numbers from 8 to 64 bits, arrays of records, and `#[repr(C)]` structs \
            of records with `#[derive(pario::Record)]`"
)]
pub unsafe trait Record: Send + Sync + 'static {
    /// Where the data of a value lies in it.
    fn datatype() -> Datatype;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        // SAFETY: a number is all data, without padding, and any bytes are one.
        $(unsafe impl Record for $number {
            fn datatype() -> Datatype {
                Datatype::of::<$number>()
            }
        })*
    };
}
numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

// SAFETY: an array is its elements, one size apart, which is their extent.
unsafe impl<T: Record, const LEN: usize> Record for [T; LEN] {
    fn datatype() -> Datatype {
        of_blocks::<Self>(&[(0, wide(LEN), T::datatype())])
    }
}

/// A complex number is a record of its real and its imaginary part (feature `num-complex`).
// SAFETY: it is declared with `repr(C)` and has these two fields, so it lies as an array of two.
#[cfg(feature = "num-complex")]
unsafe impl<T: Record> Record for num_complex::Complex<T> {
    fn datatype() -> Datatype {
        <[T; 2]>::datatype()
    }
}

/// The datatype of a struct: the offset and the datatype of each field. For the derive macro.
#[doc(hidden)]
pub fn of_fields<T>(fields: &[(usize, Datatype)]) -> Datatype {
    let blocks: Vec<(usize, u64, Datatype)> =
        fields.iter().map(|(offset, datatype)| (*offset, 1, datatype.clone())).collect();
    of_blocks::<T>(&blocks)
}

/// Blocks of values at offsets, together as large as a value of a type.
fn of_blocks<T>(blocks: &[(usize, u64, Datatype)]) -> Datatype {
    let field = |(offset, block_len, datatype): &(usize, u64, Datatype)| Field {
        block_len: *block_len,
        displacement: wide(*offset).cast_signed(),
        datatype: datatype.clone(),
    };
    let fields: Vec<Field> = blocks.iter().map(field).collect();
    let extent = wide(size_of::<T>()).cast_signed();
    let built = Datatype::structure(&fields);
    match built.and_then(|fields| Datatype::resized(0, extent, &fields)) {
        Ok(datatype) => datatype,
        // Sizes of types fit in 63 bits, so this takes a type of thousands of nested structs.
        Err(error) => panic!("{} has no datatype: {error}", std::any::type_name::<T>()),
    }
}

/// The offsets inside a slice.
fn reach<T>(slice: &[T]) -> Range<i64> {
    0..wide(size_of_val(slice)).cast_signed()
}

impl<'a> Source<'a> {
    /// Records, without their padding. See [`Record`] for an example.
    ///
    /// # Errors
    /// None for derived records; `Count` if a datatype that was written by hand leaves the slice.
    pub fn records<T: Record>(slice: &'a [T]) -> Result<Source<'a>> {
        let span = Span::at(slice.as_ptr().cast::<u8>().cast_mut(), reach(slice));
        let buffer = Buffer::new(span, wide(slice.len()), &T::datatype())?;
        Ok(Source { buffer, lifetime: PhantomData })
    }
}

impl<'a> Target<'a> {
    /// Room for records, whose padding stays as it is. See [`Record`] for an example.
    ///
    /// # Errors
    /// As [`Source::records`].
    pub fn records<T: Record>(slice: &'a mut [T]) -> Result<Target<'a>> {
        let reach = reach(slice);
        let span = Span::at(slice.as_mut_ptr().cast::<u8>(), reach);
        let buffer = Buffer::new(span, wide(slice.len()), &T::datatype())?;
        Ok(Target { buffer, lifetime: PhantomData })
    }
}

/// Records for non-blocking calls; see [`Source::records`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records<T>(pub Vec<T>);

impl<T: Record> OwnedBuffer for Records<T> {
    fn source(&self) -> Result<Source<'_>> {
        Source::records(&self.0)
    }

    fn target(&mut self) -> Result<Target<'_>> {
        Target::records(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct as the derive macro makes it a record.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Sample {
        kind: u8,
        values: [u16; 2],
        weight: u8,
    }

    // SAFETY: the fields of the struct, at their places.
    unsafe impl Record for Sample {
        fn datatype() -> Datatype {
            of_fields::<Sample>(&[
                (std::mem::offset_of!(Sample, kind), u8::datatype()),
                (std::mem::offset_of!(Sample, values), <[u16; 2]>::datatype()),
                (std::mem::offset_of!(Sample, weight), u8::datatype()),
            ])
        }
    }

    #[test]
    fn padding_is_not_data() {
        let datatype = Sample::datatype();
        assert_eq!((datatype.size(), datatype.extent()), (6, 8));
        let offsets: Vec<i64> = (0..6).filter_map(|byte| datatype.offset_of(byte)).collect();
        assert_eq!(offsets, [0, 2, 3, 4, 5, 6]);
        let samples = [Sample { kind: 1, values: [0x0302, 0x0504], weight: 6 }; 3];
        let source = Source::records(&samples).unwrap();
        let mut packed = [0; 12];
        source.buffer.pack(&(3..15), &mut packed);
        assert_eq!(packed, [4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3]);
    }

    #[test]
    fn records_of_no_bytes_are_no_data() {
        assert_eq!(Source::records(&[[0u64; 0]; 5]).unwrap().buffer.len(), 0);
        assert_eq!(Source::records::<Sample>(&[]).unwrap().buffer.len(), 0);
        assert_eq!(of_fields::<()>(&[]).extent(), 0);
    }

    #[test]
    fn records_without_padding_are_contiguous() {
        let rows = [[[1u32, 2], [3, 4]]; 5];
        let source = Source::records(&rows).unwrap();
        assert!(source.buffer.is_contiguous());
        assert_eq!(source.buffer.len(), 80);
    }

    #[cfg(feature = "num-complex")]
    #[test]
    fn complex_numbers_are_records_of_two_floats() {
        use crate::{File, Representation, Solo, View};
        use num_complex::Complex;

        let numbers = [Complex::new(1.5f32, -2.0), Complex::new(0.25, 8.0)];
        let comm = Solo::new();
        let options = File::options().read(true).write(true).create(true);
        let file = options.open(&*comm, "memory:complex_numbers").unwrap();
        let float = Datatype::of::<f32>();
        let view = View::new(0, &float, &float).with_representation(Representation::External32);
        file.set_view(&view).unwrap();
        file.write(0, Source::records(&numbers).unwrap()).unwrap();
        let mut found = [Complex::default(); 2];
        file.read(0, Target::records(&mut found).unwrap()).unwrap();
        assert_eq!(found, numbers);
        file.set_view(&View::bytes()).unwrap();
        let mut bytes = [0u8; 16];
        file.read(0, &mut bytes).unwrap();
        let expected = [1.5f32, -2.0, 0.25, 8.0].map(f32::to_be_bytes);
        assert_eq!(bytes, *expected.as_flattened());
        file.close().unwrap();
    }
}
