//! Copies of pieces, as the exchange makes them: each common short length has a loop of its own.

use std::hint::black_box;

/// Memory to copy between: a window, which is used again and again, and the pieces of a program,
/// which are as far apart as they are long, and in no cache.
pub(super) struct Copies {
    window: Vec<u8>,
    spread: Vec<u8>,
    /// Where the next measurement begins, in parts.
    part: usize,
}

/// Bytes of a measurement.
const PART_BYTES: usize = 1 << 20;

impl Copies {
    /// With pieces that take this memory, gaps included.
    pub(super) fn new(bytes: usize) -> Copies {
        let bytes = bytes.max(2 * PART_BYTES) / (2 * PART_BYTES) * 2 * PART_BYTES;
        Copies { window: vec![1; PART_BYTES], spread: vec![2; bytes], part: 0 }
    }

    /// Copies pieces of this length, each after the other or in random order, and says how many.
    pub(super) fn run(&mut self, scatter: bool, random: bool, piece_bytes: usize) -> u64 {
        let start = self.part * 2 * PART_BYTES;
        self.part = (self.part + 1) % (self.spread.len() / (2 * PART_BYTES));
        let window = &mut self.window[..];
        let near = &mut self.spread[start..start + 2 * PART_BYTES];
        match (random, piece_bytes) {
            (true, _) => anywhere(scatter, piece_bytes, window, (&mut self.spread, start)),
            (false, 4) => short::<4>(scatter, window, near),
            (false, 16) => short::<16>(scatter, window, near),
            (false, 64) => short::<64>(scatter, window, near),
            (false, _) => long(scatter, piece_bytes, window, near),
        }
        black_box((&self.window, &self.spread));
        u64::try_from(PART_BYTES / piece_bytes).unwrap_or(u64::MAX)
    }
}

fn short<const LEN: usize>(scatter: bool, window: &mut [u8], spread: &mut [u8]) {
    let (window, _) = window.as_chunks_mut::<LEN>();
    let (spread, _) = spread.as_chunks_mut::<LEN>();
    for (near, far) in window.iter_mut().zip(spread.iter_mut().step_by(2)) {
        match scatter {
            true => *far = *near,
            false => *near = *far,
        }
    }
}

fn long(scatter: bool, piece_bytes: usize, window: &mut [u8], spread: &mut [u8]) {
    let window = window.chunks_exact_mut(piece_bytes);
    let spread = spread.chunks_exact_mut(piece_bytes).step_by(2);
    window.zip(spread).for_each(|(near, far)| copy(scatter, near, far));
}

/// Pieces of all the memory, far from each other.
fn anywhere(
    scatter: bool,
    piece_bytes: usize,
    window: &mut [u8],
    (spread, start): (&mut [u8], usize),
) {
    // A power of two of places; the two steps below visit each of them once.
    let last = (spread.len() / piece_bytes / 2 + 1).next_power_of_two() - 1;
    for (index, near) in window.chunks_exact_mut(piece_bytes).enumerate() {
        let index = (start / piece_bytes + index) & last;
        let place = (index ^ (index >> 5)).wrapping_mul(0x9e37_79b1) & last;
        copy(scatter, near, &mut spread[place * piece_bytes..][..piece_bytes]);
    }
}

fn copy(scatter: bool, near: &mut [u8], far: &mut [u8]) {
    match scatter {
        true => far.copy_from_slice(near),
        false => near.copy_from_slice(far),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pieces_are_copied_as_a_part_has() {
        for piece_bytes in [4, 16, 64, 512, 1 << 20] {
            for random in [false, true] {
                let mut copies = Copies::new(8 * PART_BYTES);
                let pieces = copies.run(true, random, piece_bytes);
                assert_eq!(pieces, u64::try_from(PART_BYTES / piece_bytes).unwrap());
                let ones = copies.spread.iter().filter(|&&byte| byte == 1).count();
                assert_eq!(ones, PART_BYTES, "{piece_bytes} {random}");
                copies.spread.fill(3);
                copies.run(false, random, piece_bytes);
                assert!(copies.window.iter().all(|&byte| byte == 3));
            }
        }
    }

    #[test]
    fn the_next_measurement_has_other_memory() {
        let mut copies = Copies::new(4 * PART_BYTES);
        copies.run(true, false, 64);
        assert!(copies.spread[2 * PART_BYTES..].iter().all(|&byte| byte == 2));
        copies.run(true, false, 64);
        assert_eq!((copies.spread[2 * PART_BYTES], copies.spread[2 * PART_BYTES + 64]), (1, 2));
    }
}
