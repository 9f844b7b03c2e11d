//! Copies of pieces, as the exchange makes them: each common short length has a loop of its own.

use std::hint::black_box;

/// Memory to copy between. Pieces are as far apart as they are long.
pub(super) struct Copies {
    contiguous: Vec<u8>,
    spread: Vec<u8>,
}

/// Bytes of a measurement, and of all that there are: caches are smaller.
const PART_BYTES: usize = 1 << 20;
const BYTES: usize = PARTS * PART_BYTES;
const PARTS: usize = 4;

impl Copies {
    pub(super) fn new() -> Copies {
        Copies { contiguous: vec![1; BYTES], spread: vec![2; 2 * BYTES] }
    }

    /// Copies the pieces of this length of one of the parts, and says how many.
    pub(super) fn run(&mut self, scatter: bool, piece_bytes: usize, part: usize) -> u64 {
        let start = part % PARTS * PART_BYTES;
        let contiguous = &mut self.contiguous[start..start + PART_BYTES];
        let spread = &mut self.spread[2 * start..2 * (start + PART_BYTES)];
        match piece_bytes {
            4 => short::<4>(scatter, contiguous, spread),
            16 => short::<16>(scatter, contiguous, spread),
            64 => short::<64>(scatter, contiguous, spread),
            _ => long(scatter, piece_bytes, contiguous, spread),
        }
        black_box((&self.contiguous, &self.spread));
        u64::try_from(PART_BYTES / piece_bytes).unwrap_or(u64::MAX)
    }
}

fn short<const LEN: usize>(scatter: bool, contiguous: &mut [u8], spread: &mut [u8]) {
    let (contiguous, _) = contiguous.as_chunks_mut::<LEN>();
    let (spread, _) = spread.as_chunks_mut::<LEN>();
    for (near, far) in contiguous.iter_mut().zip(spread.iter_mut().step_by(2)) {
        match scatter {
            true => *far = *near,
            false => *near = *far,
        }
    }
}

fn long(scatter: bool, piece_bytes: usize, contiguous: &mut [u8], spread: &mut [u8]) {
    let contiguous = contiguous.chunks_exact_mut(piece_bytes);
    let spread = spread.chunks_exact_mut(piece_bytes).step_by(2);
    for (near, far) in contiguous.zip(spread) {
        match scatter {
            true => far.copy_from_slice(near),
            false => near.copy_from_slice(far),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_piece_of_a_part_is_copied() {
        for piece_bytes in [4, 16, 64, 512, 1 << 20] {
            let mut copies = Copies::new();
            let pieces = copies.run(true, piece_bytes, 1);
            assert_eq!(pieces, u64::try_from(PART_BYTES / piece_bytes).unwrap());
            let ones = copies.spread.iter().filter(|&&byte| byte == 1).count();
            let first = 2 * PART_BYTES;
            let seen = (ones, copies.spread[first], copies.spread[first + piece_bytes]);
            assert_eq!(seen, (PART_BYTES, 1, 2));
            copies.spread.fill(3);
            for part in 0..PARTS {
                copies.run(false, piece_bytes, part);
            }
            assert!(copies.contiguous.iter().all(|&byte| byte == 3));
        }
    }
}
