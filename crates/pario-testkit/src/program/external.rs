//! The `external32` representation of MPI-4.1, section 14.5.2, one element at a time.
//!
//! Values are big-endian; C's `long` has 4 bytes, `wchar_t` 2, and `long double` is IEEE quadruple
//! precision. Memory is that of a little-endian machine with x87 extended precision.

use crate::recipe::{FieldRecipe, Recipe};
use crate::typemap::native_bytes;
use pario::Element;

/// The recipe of the same type in a file: elements that are shorter there become bytes.
pub(super) fn in_file(recipe: &Recipe) -> Recipe {
    let inside = |old: &Recipe| Box::new(in_file(old));
    let mut copy = recipe.clone();
    match &mut copy {
        Recipe::Element(element) => {
            let count = external_bytes(*element);
            if count != size(*element) {
                let count = u64::try_from(count).expect("small");
                return Recipe::Contiguous { count, old: Box::new(Recipe::Element(Element::Byte)) };
            }
        }
        Recipe::Structure { fields } => {
            let short = |field: &FieldRecipe| FieldRecipe {
                datatype: in_file(&field.datatype),
                ..field.clone()
            };
            *fields = fields.iter().map(short).collect();
        }
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
        | Recipe::Dup(old) => *old = inside(old),
    }
    copy
}

/// Bytes of an element in memory.
pub(super) fn size(element: Element) -> usize {
    usize::try_from(native_bytes(element)).expect("a size is positive")
}

/// Bytes of an element in the file.
pub(super) fn external_bytes(element: Element) -> usize {
    match element {
        Element::Long | Element::UnsignedLong => 4,
        Element::WideChar => 2,
        other => size(other),
    }
}

/// Makes any bytes the value of an element that can be written without loss.
pub(super) fn tame(element: Element, bytes: &mut [u8]) {
    match element {
        Element::Long => {
            let sign = if bytes[3] < 128 { 0 } else { 255 };
            bytes[4..].fill(sign);
        }
        Element::UnsignedLong => bytes[4..].fill(0),
        Element::WideChar => bytes[2..].fill(0),
        Element::LongDouble => {
            bytes[10..].fill(0);
            // A number with an exponent between the least and the greatest is normal.
            bytes[7] |= 128;
            bytes[8] = bytes[8].clamp(1, 254);
        }
        _ => {}
    }
}

/// One element of memory as it is in the file.
pub(super) fn encode(element: Element, memory: &[u8]) -> Vec<u8> {
    let mut bytes = match element {
        Element::LongDouble => {
            let mut quadruple = vec![0; 16];
            // Sign and exponent, then 63 bits of fraction without the leading one.
            quadruple[14..].copy_from_slice(&memory[8..10]);
            let fraction = u64::from_le_bytes(memory[..8].try_into().expect("eight bytes")) << 1;
            quadruple[6..14].copy_from_slice(&fraction.to_le_bytes());
            quadruple
        }
        _ => memory[..external_bytes(element)].to_vec(),
    };
    if element != Element::Byte {
        bytes.reverse();
    }
    bytes
}

/// One element of the file as it is in memory.
pub(super) fn decode(element: Element, file: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    if element != Element::Byte {
        bytes.reverse();
    }
    match element {
        Element::Long => {
            let sign = if bytes[3] < 128 { 0 } else { 255 };
            bytes.resize(8, sign);
        }
        Element::UnsignedLong => bytes.resize(8, 0),
        Element::WideChar => bytes.resize(4, 0),
        Element::LongDouble => bytes = extended(&bytes),
        _ => {}
    }
    bytes
}

/// Little-endian quadruple precision to extended precision, rounded to the nearest, ties to even.
fn extended(quadruple: &[u8]) -> Vec<u8> {
    let value = u128::from_le_bytes(quadruple.try_into().expect("sixteen bytes"));
    let (sign, magnitude) = (value >> 127, value << 1 >> 1);
    let infinite = 0x7fff << 112;
    // As a number of units in the last place of extended precision, rounding carries into the
    // exponent by itself.
    let unit = 1 << 49;
    let half = unit / 2;
    let mut units = magnitude / unit;
    let rest = magnitude % unit;
    if magnitude < infinite && (rest > half || rest == half && units % 2 == 1) {
        units += 1;
    }
    if magnitude > infinite && units % (1 << 63) == 0 {
        // What is not a number stays so: a quiet one.
        units += 1 << 62;
    }
    let (exponent, fraction) = (units >> 63, units % (1 << 63));
    let leading = u128::from(exponent != 0) << 63;
    let extended = (sign << 15 | exponent) << 64 | leading | fraction;
    extended.to_le_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_value_is_read_back() {
        for element in crate::generate::ELEMENTS {
            for seed in 0..200 {
                let mut value = super::super::noise(seed, size(element));
                tame(element, &mut value);
                let file = encode(element, &value);
                assert_eq!(file.len(), external_bytes(element));
                assert_eq!(decode(element, &file), value, "{element:?}");
            }
        }
    }

    #[test]
    fn one_and_a_half_is_as_in_the_standard() {
        let mut extended = [0; 16];
        extended[7..10].copy_from_slice(&[0xc0, 0xff, 0x3f]);
        let mut quadruple = [0; 16];
        quadruple[..3].copy_from_slice(&[0x3f, 0xff, 0x80]);
        assert_eq!(encode(Element::LongDouble, &extended), quadruple);
        assert_eq!(encode(Element::Long, &(-2i64).to_le_bytes()), [255, 255, 255, 254]);
    }
}
