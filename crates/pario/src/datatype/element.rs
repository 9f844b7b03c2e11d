//! Elementary types: their sizes in memory and in the `external32` representation.

use crate::error::{Error, ErrorClass, Result};

/// An elementary type, as C and Fortran programs have them on 64-bit Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Element {
    /// Uninterpreted bytes; never converted.
    Byte,
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    I64,
    /// 64-bit unsigned integer.
    U64,
    /// 128-bit signed integer.
    I128,
    /// 128-bit unsigned integer.
    U128,
    /// 16-bit floating point, IEEE half precision.
    F16,
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// 128-bit floating point, IEEE quadruple precision: Fortran's `REAL*16`.
    F128,
    /// C's `long`: 8 bytes here, 4 in `external32`.
    Long,
    /// C's `unsigned long`: 8 bytes here, 4 in `external32`.
    UnsignedLong,
    /// C's `wchar_t`: 4 bytes here, 2 in `external32`.
    WideChar,
    /// C's `long double`: 16 bytes, on x86 of x87 extended precision; IEEE quadruple in
    /// `external32`.
    LongDouble,
    /// A byte of a value whose inner form is not known. It moves as it is, and `external32` refuses
    /// it.
    Opaque,
}

impl Element {
    /// Bytes in memory.
    pub fn size(self) -> u64 {
        match self {
            Element::Byte | Element::I8 | Element::U8 | Element::Opaque => 1,
            Element::I16 | Element::U16 | Element::F16 => 2,
            Element::I32 | Element::U32 | Element::F32 | Element::WideChar => 4,
            Element::I64 | Element::U64 | Element::F64 => 8,
            Element::Long | Element::UnsignedLong => 8,
            Element::I128 | Element::U128 | Element::F128 | Element::LongDouble => 16,
        }
    }

    /// Bytes in the `external32` representation (MPI-4.1, section 14.5.2).
    pub fn external_size(self) -> u64 {
        match self {
            Element::Long | Element::UnsignedLong => 4,
            Element::WideChar => 2,
            other => other.size(),
        }
    }

    /// Whether `external32` has a form for it.
    ///
    /// # Errors
    /// `UnsupportedDatarep` if it has none.
    pub(super) fn has_external(self) -> Result<()> {
        let unknown = self == Element::Opaque
            || self == Element::LongDouble && LONG_DOUBLE == LongDoubleForm::Other;
        match unknown {
            false => Ok(()),
            true => Err(Error::new(
                ErrorClass::UnsupportedDatarep,
                "external32 has no form for a type in this data; use native, or another type",
            )),
        }
    }

    /// What the address of such an element in a C structure is a multiple of.
    pub fn alignment(self) -> u64 {
        self.size()
    }

    /// Converts elements in memory order to `external32`.
    pub(super) fn encode(self, native: &[u8], external: &mut Vec<u8>) -> Result<()> {
        match self {
            Element::Byte | Element::I8 | Element::U8 => external.extend(native),
            Element::Long => {
                for value in chunks::<8>(native) {
                    let value = i64::from_ne_bytes(value);
                    external
                        .extend(i32::try_from(value).map_err(|_| out_of_range())?.to_be_bytes());
                }
            }
            Element::UnsignedLong => {
                for value in chunks::<8>(native) {
                    let value = u64::from_ne_bytes(value);
                    external
                        .extend(u32::try_from(value).map_err(|_| out_of_range())?.to_be_bytes());
                }
            }
            Element::WideChar => {
                for value in chunks::<4>(native) {
                    let value = u32::from_ne_bytes(value);
                    external
                        .extend(u16::try_from(value).map_err(|_| out_of_range())?.to_be_bytes());
                }
            }
            Element::LongDouble if LONG_DOUBLE == LongDoubleForm::Extended => {
                for value in chunks::<16>(native) {
                    external.extend(quadruple(u128::from_le_bytes(value)).to_be_bytes());
                }
            }
            Element::Opaque => return self.has_external(),
            Element::I16 | Element::U16 | Element::F16 => swap::<2>(native, external),
            Element::I32 | Element::U32 | Element::F32 => swap::<4>(native, external),
            Element::I64 | Element::U64 | Element::F64 => swap::<8>(native, external),
            Element::I128 | Element::U128 | Element::F128 | Element::LongDouble => {
                self.has_external()?;
                swap::<16>(native, external);
            }
        }
        Ok(())
    }

    /// Converts elements from `external32` to memory order.
    pub(super) fn decode(self, external: &[u8], native: &mut Vec<u8>) {
        match self {
            Element::Byte | Element::I8 | Element::U8 | Element::Opaque => native.extend(external),
            Element::Long => chunks::<4>(external).for_each(|value| {
                native.extend(i64::from(i32::from_be_bytes(value)).to_ne_bytes())
            }),
            Element::UnsignedLong => chunks::<4>(external).for_each(|value| {
                native.extend(u64::from(u32::from_be_bytes(value)).to_ne_bytes())
            }),
            Element::WideChar => chunks::<2>(external).for_each(|value| {
                native.extend(u32::from(u16::from_be_bytes(value)).to_ne_bytes())
            }),
            Element::LongDouble if LONG_DOUBLE == LongDoubleForm::Extended => {
                chunks::<16>(external).for_each(|value| {
                    native.extend(extended(u128::from_be_bytes(value)).to_le_bytes())
                })
            }
            Element::I16 | Element::U16 | Element::F16 => swap::<2>(external, native),
            Element::I32 | Element::U32 | Element::F32 => swap::<4>(external, native),
            Element::I64 | Element::U64 | Element::F64 => swap::<8>(external, native),
            Element::I128 | Element::U128 | Element::F128 | Element::LongDouble => {
                swap::<16>(external, native)
            }
        }
    }
}

/// What C's `long double` is on a machine.
#[derive(Clone, Copy, PartialEq)]
enum LongDoubleForm {
    /// x87 extended precision.
    Extended,
    /// IEEE quadruple precision.
    Quadruple,
    /// A pair of doubles on some machines, a double on others: never converted.
    Other,
}

const LONG_DOUBLE: LongDoubleForm = if cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
    LongDoubleForm::Extended
} else if cfg!(any(
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "loongarch64",
    target_arch = "s390x"
)) {
    LongDoubleForm::Quadruple
} else {
    LongDoubleForm::Other
};

fn out_of_range() -> Error {
    Error::new(
        ErrorClass::Conversion,
        "a value does not fit the external32 representation of its type; write it as a wider type",
    )
}

fn chunks<const LEN: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; LEN]> {
    bytes.as_chunks::<LEN>().0.iter().copied()
}

/// Between the byte order of this machine and big-endian, either way.
fn swap<const LEN: usize>(source: &[u8], target: &mut Vec<u8>) {
    for mut value in chunks::<LEN>(source) {
        if cfg!(target_endian = "little") {
            value.reverse();
        }
        target.extend(value);
    }
}

/// Bits of the fraction that quadruple precision has beyond extended precision.
const EXTRA_BITS: u32 = 49;

/// x87 extended precision to IEEE quadruple precision; exact.
fn quadruple(extended: u128) -> u128 {
    let mut sign_and_exponent = extended >> 64 & 0xffff;
    let fraction = extended & (u128::MAX >> 65);
    // The integer bit is explicit. A denormal that has it is the least normal number; a larger
    // number without it is not a number for the processor.
    match (sign_and_exponent & 0x7fff, extended >> 63 & 1) {
        (0, 1) => sign_and_exponent |= 1,
        (1.., 0) => return sign_and_exponent << 112 | 0xffff << 111,
        _ => {}
    }
    sign_and_exponent << 112 | fraction << EXTRA_BITS
}

/// IEEE quadruple precision to x87 extended precision, rounded to the nearest, ties to even.
fn extended(quadruple: u128) -> u128 {
    let exponent = quadruple >> 112 & 0x7fff;
    let fraction = quadruple & (u128::MAX >> 16);
    let mut mantissa = fraction >> EXTRA_BITS;
    let integer_bit = u128::from(exponent != 0) << 63;
    let head = quadruple >> 112;
    let (rest, half) = (fraction & ((1 << EXTRA_BITS) - 1), 1 << (EXTRA_BITS - 1));
    if exponent != 0x7fff && (rest > half || rest == half && mantissa & 1 == 1) {
        mantissa += 1;
        if mantissa >> 63 == 1 {
            // The fraction overflowed: the next power of two.
            return (head + 1) << 64 | 1 << 63;
        }
    }
    if exponent == 0x7fff && fraction != 0 && mantissa == 0 {
        // What is not a number must not become infinite: the first bit makes it a quiet one.
        mantissa = 1 << 62;
    }
    head << 64 | integer_bit | mantissa
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both_ways(element: Element, native: &[u8]) -> Vec<u8> {
        let (mut external, mut back) = (Vec::new(), Vec::new());
        element.encode(native, &mut external).unwrap();
        element.decode(&external, &mut back);
        assert_eq!(back, native);
        external
    }

    #[test]
    fn numbers_become_big_endian() {
        assert_eq!(both_ways(Element::I32, &1i32.to_ne_bytes()), [0, 0, 0, 1]);
        assert_eq!(both_ways(Element::F64, &1f64.to_ne_bytes()), [0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(both_ways(Element::Long, &(-2i64).to_ne_bytes()), [255, 255, 255, 254]);
        assert_eq!(both_ways(Element::WideChar, &65u32.to_ne_bytes()), [0, 65]);
    }

    #[test]
    fn sixteen_bytes_are_what_their_type_says() {
        let quadruple = 0x3fff_8000_u128 << 96;
        let native = quadruple.to_ne_bytes();
        assert_eq!(both_ways(Element::F128, &native), quadruple.to_be_bytes());
        assert_eq!(both_ways(Element::I128, &(-2i128).to_ne_bytes()), (-2i128).to_be_bytes());
        assert_eq!(both_ways(Element::U128, &7u128.to_ne_bytes()), 7u128.to_be_bytes());
        assert_eq!(both_ways(Element::F16, &0x3e00u16.to_ne_bytes()), [0x3e, 0]);
    }

    #[test]
    fn what_is_not_known_has_no_external_form() {
        let error = Element::Opaque.encode(&[1], &mut Vec::new()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::UnsupportedDatarep);
    }

    #[test]
    fn odd_values_of_extended_precision_are_those_of_the_processor() {
        // A denormal with an integer bit is 2^-16382; a number without one is not a number.
        assert_eq!(quadruple(1 << 63), 1 << 112);
        let unnormal = quadruple(0x3fff_u128 << 64 | 5);
        assert_eq!((unnormal >> 112 & 0x7fff, unnormal & (u128::MAX >> 16) != 0), (0x7fff, true));
    }

    #[test]
    fn a_value_too_large_is_an_error_of_class_conversion() {
        let native = (1i64 << 40).to_ne_bytes();
        let error = Element::Long.encode(&native, &mut Vec::new()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Conversion);
    }

    #[test]
    fn extended_precision_is_kept() {
        // 1.0, -2.5, the smallest denormal, infinity.
        let one = 0x3fff_u128 << 64 | 1 << 63;
        let minus = 0xc000_u128 << 64 | 0xa000_0000_0000_0000;
        for value in [0, one, minus, 1, 0x7fff_u128 << 64 | 1 << 63] {
            both_ways(Element::LongDouble, &value.to_le_bytes());
        }
        let external = both_ways(Element::LongDouble, &one.to_le_bytes());
        assert_eq!(external[..4], [0x3f, 0xff, 0, 0]);
    }

    #[test]
    fn what_is_not_a_number_does_not_become_infinite() {
        let infinite = 0x7fff_u128 << 112;
        assert_eq!(extended(infinite), 0x7fff << 64 | 1 << 63);
        assert_eq!(extended(infinite | 1), 0x7fff << 64 | 3 << 62);
    }
}
