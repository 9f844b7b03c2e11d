//! Datatypes of the MPI library, made from pario's as a program in C makes them.
//!
//! A loop over blocks becomes a vector, a loop of loops an hvector, blocks of one length at
//! irregular places an indexed block, and parts of several shapes a struct. Nothing that is regular
//! becomes a list. All of it is made of bytes.

use std::ffi::c_int;

use pario::datatype::Loops;
use pario::{Datatype, Error, ErrorClass, Result};

use super::check;
use crate::binding::Mpi;

/// Longer blocks than MPI can count are made of such.
const LONG_BLOCK_BYTES: c_int = 1 << 30;

/// A committed datatype of the MPI library.
pub struct MpiDatatype {
    made: Made,
    size: u64,
    /// Where its bytes lie.
    lower: i64,
    upper: i64,
}

impl MpiDatatype {
    pub(super) fn new(mpi: &'static Mpi, datatype: &Datatype) -> Result<MpiDatatype> {
        let mut made = make(&Library(mpi), datatype)?;
        // SAFETY: the type was just made.
        let code = unsafe { (mpi.call.Type_commit)(&mut made.handle) };
        check(mpi, code, "MPI_Type_commit")?;
        let lower = datatype.true_lower_bound();
        let upper = lower + datatype.true_extent();
        Ok(MpiDatatype { made, size: datatype.size(), lower, upper })
    }

    /// Contiguous bytes.
    pub(super) fn bytes(mpi: &'static Mpi, len: usize) -> Result<MpiDatatype> {
        let count = u64::try_from(len).unwrap_or(u64::MAX);
        MpiDatatype::new(mpi, &Datatype::contiguous(count, &Datatype::byte())?)
    }

    pub(super) fn handle(&self) -> usize {
        self.made.handle
    }

    /// Bytes of data.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// An error if a value reaches out of memory of this length.
    pub(super) fn check_inside(&self, len: usize) -> Result<()> {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        match self.size == 0 || (0 <= self.lower && self.upper <= len) {
            true => Ok(()),
            false => {
                let reach = format!("{}..{}", self.lower, self.upper);
                let text = format!("the datatype touches bytes {reach} of {len}");
                Err(Error::new(ErrorClass::Count, text))
            }
        }
    }
}

/// MPI's constructors, as far as they are needed; strides and places are in bytes.
trait Constructors {
    type Type;

    fn contiguous(&self, len: c_int) -> Result<Self::Type>;
    fn vector(&self, count: c_int, len: c_int, stride: c_int) -> Result<Self::Type>;
    fn hvector(&self, count: c_int, stride: isize, of: &Self::Type) -> Result<Self::Type>;
    fn hindexed(&self, lens: &[c_int], places: &[isize]) -> Result<Self::Type>;
    fn hindexed_block(&self, len: c_int, places: &[isize]) -> Result<Self::Type>;
    fn structure(&self, places: &[isize], of: &[Self::Type]) -> Result<Self::Type>;
    fn resized(&self, lower: isize, extent: isize, of: &Self::Type) -> Result<Self::Type>;
}

/// A type with the bytes and the bounds of one of pario's.
fn make<C: Constructors>(by: &C, datatype: &Datatype) -> Result<C::Type> {
    let (origin, loops) = datatype.loops();
    let made = from_loops(by, &loops)?;
    let made = match origin {
        0 => made,
        _ => by.structure(&[place(origin)?], &[made])?,
    };
    let (lower, extent) = (datatype.lower_bound(), datatype.extent());
    match (lower, extent) == (datatype.true_lower_bound(), datatype.true_extent()) {
        true => Ok(made),
        false => by.resized(place(lower)?, place(extent)?, &made),
    }
}

fn from_loops<C: Constructors>(by: &C, loops: &Loops) -> Result<C::Type> {
    match loops {
        Loops::Block(len) => block(by, *len),
        Loops::Strided { count, stride, body } => {
            let count = number(*count)?;
            if let Loops::Block(len) = **body
                && let (Ok(len), Ok(stride)) = (c_int::try_from(len), c_int::try_from(*stride))
            {
                return by.vector(count, len, stride);
            }
            by.hvector(count, place(*stride)?, &from_loops(by, body)?)
        }
        Loops::Sequence(parts) => {
            let places = parts.iter().map(|(offset, _)| place(*offset));
            let types = parts.iter().map(|(_, part)| from_loops(by, part));
            by.structure(&places.collect::<Result<Vec<_>>>()?, &types.collect::<Result<Vec<_>>>()?)
        }
        Loops::List(blocks) => {
            let places = blocks.iter().map(|(offset, _)| place(*offset));
            let places = places.collect::<Result<Vec<isize>>>()?;
            let lens =
                blocks.iter().map(|(_, len)| number(*len)).collect::<Result<Vec<c_int>>>()?;
            match lens.iter().all(|len| *len == lens[0]) {
                true => by.hindexed_block(lens[0], &places),
                false => by.hindexed(&lens, &places),
            }
        }
    }
}

/// Contiguous bytes, also more than MPI can count.
fn block<C: Constructors>(by: &C, len: u64) -> Result<C::Type> {
    if let Ok(len) = c_int::try_from(len) {
        return by.contiguous(len);
    }
    let long = u64::from(LONG_BLOCK_BYTES.unsigned_abs());
    let (count, rest) = (number(len / long)?, number(len % long)?);
    let whole = by.hvector(count, place(long.cast_signed())?, &by.contiguous(LONG_BLOCK_BYTES)?)?;
    let end = place((len - len % long).cast_signed())?;
    by.structure(&[0, end], &[whole, by.contiguous(rest)?])
}

fn number(count: u64) -> Result<c_int> {
    let text = || format!("MPI's datatypes cannot count to {count}; take less bytes or more ranks");
    c_int::try_from(count).map_err(|_| Error::new(ErrorClass::Type, text()))
}

fn place(bytes: i64) -> Result<isize> {
    let text = || format!("MPI's datatypes cannot reach {bytes} bytes");
    isize::try_from(bytes).map_err(|_| Error::new(ErrorClass::Type, text()))
}

/// A datatype of the library, freed at its end. Types that were made of it stay.
struct Made {
    mpi: &'static Mpi,
    handle: usize,
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.mpi.is_active() {
            // SAFETY: the type was made by `Library`, and this is its only owner.
            unsafe { (self.mpi.call.Type_free)(&mut self.handle) };
        }
    }
}

/// The constructors of the MPI library.
struct Library(&'static Mpi);

impl Library {
    /// Gives a constructor the handle of a byte and the place for that of the new type.
    fn made(
        &self,
        name: &str,
        constructor: impl FnOnce(usize, *mut usize) -> c_int,
    ) -> Result<Made> {
        let Library(mpi) = *self;
        let mut handle = 0;
        let code = constructor(mpi.handle(mpi.abi.byte), &mut handle);
        check(mpi, code, name)?;
        Ok(Made { mpi, handle })
    }
}

fn len_of<T>(list: &[T]) -> Result<c_int> {
    number(u64::try_from(list.len()).unwrap_or(u64::MAX))
}

// SAFETY, of all calls below: MPI is active, handles are those of types that live, lists have the
// lengths that are passed, and there is a place for the new handle.
impl Constructors for Library {
    type Type = Made;

    fn contiguous(&self, len: c_int) -> Result<Made> {
        let call = self.0.call.Type_contiguous;
        // SAFETY: as above.
        self.made("MPI_Type_contiguous", |byte, new| unsafe { call(len, byte, new) })
    }

    fn vector(&self, count: c_int, len: c_int, stride: c_int) -> Result<Made> {
        let call = self.0.call.Type_vector;
        // SAFETY: as above.
        self.made("MPI_Type_vector", |byte, new| unsafe { call(count, len, stride, byte, new) })
    }

    fn hvector(&self, count: c_int, stride: isize, of: &Made) -> Result<Made> {
        let (call, name) = (self.0.call.Type_create_hvector, "MPI_Type_create_hvector");
        // SAFETY: as above.
        self.made(name, |_, new| unsafe { call(count, 1, stride, of.handle, new) })
    }

    fn hindexed(&self, lens: &[c_int], places: &[isize]) -> Result<Made> {
        let (call, name) = (self.0.call.Type_create_hindexed, "MPI_Type_create_hindexed");
        let (count, lens, places) = (len_of(lens)?, lens.as_ptr(), places.as_ptr());
        // SAFETY: as above.
        self.made(name, |byte, new| unsafe { call(count, lens, places, byte, new) })
    }

    fn hindexed_block(&self, len: c_int, places: &[isize]) -> Result<Made> {
        let call = self.0.call.Type_create_hindexed_block;
        let (count, places) = (len_of(places)?, places.as_ptr());
        // SAFETY: as above.
        self.made("MPI_Type_create_hindexed_block", |byte, new| unsafe {
            call(count, len, places, byte, new)
        })
    }

    fn structure(&self, places: &[isize], of: &[Made]) -> Result<Made> {
        let (call, name) = (self.0.call.Type_create_struct, "MPI_Type_create_struct");
        let size = self.0.abi.sizeof_datatype;
        let handles: Vec<u8> =
            of.iter().flat_map(|one| one.handle.to_ne_bytes().into_iter().take(size)).collect();
        let (count, lens) = (len_of(places)?, vec![1; places.len()]);
        let (lens, places, types) = (lens.as_ptr(), places.as_ptr(), handles.as_ptr().cast());
        // SAFETY: as above; handles have that number of bytes, the low ones of a word.
        self.made(name, |_, new| unsafe { call(count, lens, places, types, new) })
    }

    fn resized(&self, lower: isize, extent: isize, of: &Made) -> Result<Made> {
        let (call, name) = (self.0.call.Type_create_resized, "MPI_Type_create_resized");
        // SAFETY: as above.
        self.made(name, |_, new| unsafe { call(of.handle, lower, extent, new) })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pario::{Darray, DarrayDimension, Distribution, Field, Order};

    use super::*;

    /// pario's own constructors, by the rules of MPI, and the names of those that were called.
    #[derive(Default)]
    struct Own(RefCell<Vec<&'static str>>);

    fn wide(list: &[isize]) -> Vec<i64> {
        list.iter().map(|&place| i64::try_from(place).unwrap()).collect()
    }

    fn count(number: c_int) -> u64 {
        u64::try_from(number).unwrap()
    }

    impl Constructors for Own {
        type Type = Datatype;

        fn contiguous(&self, len: c_int) -> Result<Datatype> {
            self.0.borrow_mut().push("contiguous");
            Datatype::contiguous(count(len), &Datatype::byte())
        }

        fn vector(&self, times: c_int, len: c_int, stride: c_int) -> Result<Datatype> {
            self.0.borrow_mut().push("vector");
            Datatype::vector(count(times), count(len), stride.into(), &Datatype::byte())
        }

        fn hvector(&self, times: c_int, stride: isize, of: &Datatype) -> Result<Datatype> {
            self.0.borrow_mut().push("hvector");
            Datatype::hvector(count(times), 1, wide(&[stride])[0], of)
        }

        fn hindexed(&self, lens: &[c_int], places: &[isize]) -> Result<Datatype> {
            self.0.borrow_mut().push("hindexed");
            let lens: Vec<u64> = lens.iter().map(|&len| count(len)).collect();
            Datatype::hindexed(&lens, &wide(places), &Datatype::byte())
        }

        fn hindexed_block(&self, len: c_int, places: &[isize]) -> Result<Datatype> {
            self.0.borrow_mut().push("hindexed_block");
            Datatype::hindexed_block(count(len), &wide(places), &Datatype::byte())
        }

        fn structure(&self, places: &[isize], of: &[Datatype]) -> Result<Datatype> {
            self.0.borrow_mut().push("struct");
            let field = |(displacement, datatype): (i64, &Datatype)| Field {
                block_len: 1,
                displacement,
                datatype: datatype.clone(),
            };
            let fields: Vec<Field> = wide(places).into_iter().zip(of).map(field).collect();
            Datatype::structure(&fields)
        }

        fn resized(&self, lower: isize, extent: isize, of: &Datatype) -> Result<Datatype> {
            self.0.borrow_mut().push("resized");
            let bounds = wide(&[lower, extent]);
            Datatype::resized(bounds[0], bounds[1], of)
        }
    }

    /// The constructors that make a type; the result must have its bytes and its bounds.
    fn calls(datatype: &Datatype) -> Vec<&'static str> {
        let by = Own::default();
        let made = make(&by, datatype).unwrap();
        assert_eq!(made.size(), datatype.size());
        assert_eq!(
            (made.lower_bound(), made.extent()),
            (datatype.lower_bound(), datatype.extent())
        );
        let pieces = |datatype: &Datatype| datatype.runs().take(100_000).collect::<Vec<_>>();
        assert_eq!(pieces(&made), pieces(datatype));
        by.0.into_inner()
    }

    #[test]
    fn a_regular_type_takes_a_few_constructors_whatever_its_size() {
        let double = Datatype::of::<f64>();
        let vector = Datatype::vector(25_000_000, 1, 16, &double).unwrap();
        assert_eq!(calls(&vector), ["vector"]);
        assert_eq!(calls(&Datatype::resized(0, 64, &double).unwrap()), ["contiguous", "resized"]);
        let part = |order| {
            Datatype::subarray(&[64, 64, 64], &[32, 16, 8], &[3, 2, 1], order, &double).unwrap()
        };
        let expected = ["vector", "hvector", "struct", "resized"];
        assert_eq!([Order::C, Order::Fortran].map(|order| calls(&part(order))), [expected; 2]);
        let dimension = DarrayDimension {
            size: 64,
            distribution: Distribution::Block,
            argument: None,
            processes: 2,
        };
        let darray = Darray { size: 8, rank: 5, dimensions: vec![dimension; 3], order: Order::C };
        assert_eq!(calls(&Datatype::darray(&darray, &double).unwrap()), expected);
        // A stride that is no int.
        let far = Datatype::hvector(3, 1, 1 << 40, &double).unwrap();
        assert_eq!(calls(&far), ["contiguous", "hvector"]);
    }

    /// As BTIO: two arrays in one, each of several rows.
    #[test]
    fn parts_of_several_shapes_are_a_struct() {
        let part = |start| {
            let starts = [start, 0, start];
            Datatype::subarray(&[8, 8, 8], &[4, 3 + start, 4], &starts, Order::C, &Datatype::byte())
        };
        let field = |start| Field { block_len: 1, displacement: 0, datatype: part(start).unwrap() };
        let both = Datatype::structure(&[field(0), field(4)]).unwrap();
        let calls = calls(&both);
        assert!(calls.contains(&"struct") && calls.contains(&"hvector"), "{calls:?}");
        assert!(!calls.contains(&"hindexed"), "{calls:?}");
    }

    #[test]
    fn irregular_blocks_are_a_list() {
        let element = Datatype::contiguous(64, &Datatype::byte()).unwrap();
        let places: Vec<i64> = (2..1000).map(|index| index * index).collect();
        let scattered = Datatype::indexed_block(1, &places, &element).unwrap();
        assert!(calls(&scattered).contains(&"hindexed_block"));
        let lens: Vec<u64> = (0..1000).map(|index| 1 + index * 7 % 5).collect();
        let places: Vec<i64> = (0..1000).map(|index| 10 * index + index % 3).collect();
        let uneven = Datatype::hindexed(&lens, &places, &Datatype::byte()).unwrap();
        assert!(calls(&uneven).contains(&"hindexed"));
    }

    #[test]
    fn what_mpi_cannot_count_is_divided_or_refused() {
        let long = |len: u64| Datatype::contiguous(len, &Datatype::byte()).unwrap();
        assert_eq!(calls(&long(0)), ["contiguous"]);
        assert_eq!(calls(&long(u64::from(c_int::MAX.unsigned_abs()))), ["contiguous"]);
        assert_eq!(calls(&long((5 << 30) + 3)), ["contiguous", "hvector", "contiguous", "struct"]);
        let many = Datatype::hvector(1 << 40, 1, 16, &Datatype::byte()).unwrap();
        let error = make(&Own::default(), &many).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Type);
    }
}
