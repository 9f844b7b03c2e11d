//! Predefined datatypes, known by their handles.
//!
//! A handle is compared with those of the tables of constants; what it stands for follows from the
//! constant, and the sizes from the library. Names that programs see (`MPI_Type_get_name`) are not
//! looked at, since any type may be given any name.
//!
//! A type that is not in the tables moves as it is, and is refused where its form has to be known.

use pario::{Datatype, Element, Field, Result};

use crate::abi::{Family, Handle};
use crate::binding::Mpi;

use super::{invalid, size};

/// What a predefined type consists of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Predefined {
    /// Equal parts, as many as are given.
    Parts(u64, PartKind),
    /// A value of such a type, and an `int` where C puts it.
    Pair(PartKind),
}

/// What a part is; the library says how long.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PartKind {
    Byte,
    Integer,
    Real,
    Short,
    Long,
    UnsignedLong,
    WideChar,
    LongDouble,
    /// Neither integer nor real, or not known.
    Opaque,
}

/// A named predefined type.
pub(super) fn named(mpi: &Mpi, datatype: usize) -> Result<Datatype> {
    let size = size(mpi, datatype)?;
    match kind(mpi, datatype) {
        Predefined::Parts(count, part) => {
            Datatype::contiguous(count, &part.datatype(size / count.max(1))?)
        }
        Predefined::Pair(part) => {
            let value = part.datatype(size.saturating_sub(4))?;
            pair(&[value, Datatype::element(Element::I32)])
        }
    }
}

/// A value and its index, as the members of a C structure (`MPI_Type_get_value_index`).
pub(super) fn pair(members: &[Datatype]) -> Result<Datatype> {
    let [value, number] = members else {
        return Err(invalid("a pair that is not made of two types"));
    };
    let place = value.size().next_multiple_of(number.size().max(1));
    let place = i64::try_from(place).map_err(|_| invalid("a pair that is too long"))?;
    let member = |displacement, datatype: &Datatype| Field {
        block_len: 1,
        displacement,
        datatype: datatype.clone(),
    };
    Datatype::structure(&[member(0, value), member(place, number)])
}

/// `MPI_Type_create_f90_integer`; its length in `external32` follows from the range (MPI-4.1,
/// section 19.1.9).
pub(super) fn f90_integer(size: u64, range: i64) -> Result<Datatype> {
    let external = match range {
        ..=2 => 1,
        3..=4 => 2,
        5..=9 => 4,
        10..=18 => 8,
        _ => 16,
    };
    let part = if size == external { PartKind::Integer } else { PartKind::Opaque };
    part.datatype(size)
}

/// `MPI_Type_create_f90_real`, as [`f90_integer`]. Of 16 bytes, C's `long double` is what has
/// enough digits first.
pub(super) fn f90_real(size: u64, digits: i64, range: i64) -> Result<Datatype> {
    const LONG_DOUBLE_DIGITS: i64 = if cfg!(target_arch = "x86_64") { 18 } else { 33 };
    let external = match (digits, range) {
        (16.., _) | (_, 308..) => 16,
        (7.., _) | (_, 38..) => 8,
        _ => 4,
    };
    let part = match size == external {
        true if size == 16 && digits <= LONG_DOUBLE_DIGITS => PartKind::LongDouble,
        true => PartKind::Real,
        false => PartKind::Opaque,
    };
    part.datatype(size)
}

/// What a handle stands for.
fn kind(mpi: &Mpi, datatype: usize) -> Predefined {
    let is_it = |handle: Handle| same(mpi, mpi.handle(handle), datatype);
    let known = mpi.abi.datatypes.all();
    let name = known.iter().find(|(_, entry)| entry.handle.is_some_and(is_it));
    match name {
        Some((name, _)) => kind_of(name),
        // The extension of MPICH for C's _Float16.
        None if mpi.family == Family::Mpich && same(mpi, 0x4c00_0246, datatype) => {
            Predefined::Parts(1, PartKind::Real)
        }
        None => Predefined::Parts(1, PartKind::Opaque),
    }
}

/// Whether a handle is that of a table. MPICH's carry the size of the type, which depends on how
/// Fortran was compiled.
fn same(mpi: &Mpi, known: usize, datatype: usize) -> bool {
    const BUILTIN: usize = 0x4c00_0000;
    const SIZE: usize = 0xff00;
    let is_builtin = known & !0xffff == BUILTIN && mpi.family == Family::Mpich;
    known != 0
        && match is_builtin {
            true => known & !SIZE == datatype & !SIZE,
            false => known == datatype,
        }
}

/// What a constant of MPI stands for.
fn kind_of(constant: &str) -> Predefined {
    match constant {
        "MPI_BYTE" | "MPI_PACKED" | "MPI_CHAR" | "MPI_SIGNED_CHAR" | "MPI_UNSIGNED_CHAR"
        | "MPI_CHARACTER" => Predefined::Parts(1, PartKind::Byte),
        "MPI_WCHAR" => Predefined::Parts(1, PartKind::WideChar),
        "MPI_LONG" => Predefined::Parts(1, PartKind::Long),
        "MPI_UNSIGNED_LONG" => Predefined::Parts(1, PartKind::UnsignedLong),
        "MPI_SHORT"
        | "MPI_UNSIGNED_SHORT"
        | "MPI_INT"
        | "MPI_UNSIGNED"
        | "MPI_LONG_LONG"
        | "MPI_LONG_LONG_INT"
        | "MPI_UNSIGNED_LONG_LONG"
        | "MPI_C_BOOL"
        | "MPI_CXX_BOOL"
        | "MPI_INT8_T"
        | "MPI_INT16_T"
        | "MPI_INT32_T"
        | "MPI_INT64_T"
        | "MPI_UINT8_T"
        | "MPI_UINT16_T"
        | "MPI_UINT32_T"
        | "MPI_UINT64_T"
        | "MPI_AINT"
        | "MPI_OFFSET"
        | "MPI_COUNT"
        | "MPI_INTEGER"
        | "MPI_INTEGER1"
        | "MPI_INTEGER2"
        | "MPI_INTEGER4"
        | "MPI_INTEGER8"
        | "MPI_INTEGER16"
        | "MPI_LOGICAL"
        | "MPI_LOGICAL1"
        | "MPI_LOGICAL2"
        | "MPI_LOGICAL4"
        | "MPI_LOGICAL8"
        | "MPI_LOGICAL16" => Predefined::Parts(1, PartKind::Integer),
        "MPI_FLOAT"
        | "MPI_DOUBLE"
        | "MPI_REAL"
        | "MPI_DOUBLE_PRECISION"
        | "MPI_REAL2"
        | "MPI_REAL4"
        | "MPI_REAL8"
        | "MPI_REAL16" => Predefined::Parts(1, PartKind::Real),
        "MPI_LONG_DOUBLE" => Predefined::Parts(1, PartKind::LongDouble),
        "MPI_C_COMPLEX"
        | "MPI_C_FLOAT_COMPLEX"
        | "MPI_C_DOUBLE_COMPLEX"
        | "MPI_CXX_FLOAT_COMPLEX"
        | "MPI_CXX_DOUBLE_COMPLEX"
        | "MPI_COMPLEX"
        | "MPI_DOUBLE_COMPLEX"
        | "MPI_COMPLEX4"
        | "MPI_COMPLEX8"
        | "MPI_COMPLEX16"
        | "MPI_COMPLEX32"
        | "MPI_2REAL"
        | "MPI_2DOUBLE_PRECISION" => Predefined::Parts(2, PartKind::Real),
        "MPI_C_LONG_DOUBLE_COMPLEX" | "MPI_CXX_LONG_DOUBLE_COMPLEX" => {
            Predefined::Parts(2, PartKind::LongDouble)
        }
        "MPI_2COMPLEX" | "MPI_2DOUBLE_COMPLEX" => Predefined::Parts(4, PartKind::Real),
        "MPI_2INT" | "MPI_2INTEGER" => Predefined::Parts(2, PartKind::Integer),
        "MPI_SHORT_INT" => Predefined::Pair(PartKind::Short),
        "MPI_FLOAT_INT" | "MPI_DOUBLE_INT" => Predefined::Pair(PartKind::Real),
        "MPI_LONG_INT" => Predefined::Pair(PartKind::Long),
        "MPI_LONG_DOUBLE_INT" => Predefined::Pair(PartKind::LongDouble),
        // Marks of bounds without data, and what a later table may bring.
        _ => Predefined::Parts(1, PartKind::Opaque),
    }
}

impl PartKind {
    /// A part of this size.
    fn datatype(self, size: u64) -> Result<Datatype> {
        match self.element(size) {
            Some(element) => Ok(Datatype::element(element)),
            None => Datatype::contiguous(size, &Datatype::element(Element::Opaque)),
        }
    }

    fn element(self, size: u64) -> Option<Element> {
        Some(match (self, size) {
            (PartKind::Byte, 1) => Element::Byte,
            (PartKind::Long, 8) => Element::Long,
            (PartKind::UnsignedLong, 8) => Element::UnsignedLong,
            (PartKind::WideChar, 4) => Element::WideChar,
            (PartKind::LongDouble, 16) => Element::LongDouble,
            (PartKind::Integer, 1) => Element::I8,
            (PartKind::Integer | PartKind::Short | PartKind::WideChar, 2) => Element::I16,
            (PartKind::Integer | PartKind::Long | PartKind::UnsignedLong, 4) => Element::I32,
            (PartKind::Integer, 8) => Element::I64,
            (PartKind::Integer, 16) => Element::I128,
            (PartKind::Real, 2) => Element::F16,
            (PartKind::Real, 4) => Element::F32,
            (PartKind::Real, 8) => Element::F64,
            (PartKind::Real, 16) => Element::F128,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_of_every_table_is_known() {
        for family in [Family::Mpich, Family::OpenMpi, Family::Standard] {
            for (name, entry) in family.table().datatypes.all() {
                if entry.size == 0 {
                    continue;
                }
                let size = u64::try_from(entry.size).unwrap();
                let element = match kind_of(name) {
                    Predefined::Parts(count, part) => part.element(size / count),
                    Predefined::Pair(part) => part.element(size - 4),
                };
                assert!(element.is_some_and(|it| it != Element::Opaque), "{family:?}: {name}");
            }
        }
    }

    #[test]
    fn an_index_lies_where_c_puts_it() {
        let [short, long] = [Element::I16, Element::I64].map(Datatype::element);
        let far = pair(&[short.clone(), long.clone()]).unwrap();
        assert_eq!(far.runs().collect::<Vec<_>>(), [(0, 2), (8, 8)]);
        let near = pair(&[long, short]).unwrap();
        assert_eq!((near.size(), near.extent()), (10, 16));
        assert_eq!(near.runs().collect::<Vec<_>>(), [(0, 10)]);
    }

    #[test]
    fn fortran_kinds_are_as_long_as_the_standard_says() {
        let real = |size, digits, range| f90_real(size, digits, range).unwrap().external_extent();
        assert_eq!(real(4, 6, 37), Ok(4));
        assert_eq!(real(8, 15, -1), Ok(8));
        assert_eq!(real(16, 18, 4000), Ok(16));
        // 4 bytes in memory would be 8 in the file.
        assert!(real(4, 7, -1).is_err());
        assert_eq!(f90_integer(4, 9).unwrap().external_extent(), Ok(4));
        assert!(f90_integer(4, 4).unwrap().external_extent().is_err());
    }
}
