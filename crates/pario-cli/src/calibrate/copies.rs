//! Copies of pieces, as the exchange makes them: each common short length has a loop of its own, and
//! pieces in random order follow a list.

use std::collections::BTreeMap;
use std::hint::black_box;

/// Memory to copy between: windows, which are used again and again, and the pieces of a program,
/// which are as far apart as they are long, and in no cache.
pub(super) struct Copies {
    windows: Vec<u8>,
    spread: Vec<u8>,
    /// Where the next measurement begins, in parts.
    part: usize,
    /// For each length of pieces, their places in the program's memory, in random order.
    places: BTreeMap<usize, Vec<usize>>,
}

/// Bytes of a measurement.
const PART_BYTES: usize = 1 << 20;

/// Memory of windows. Pieces in order are copied to and from the first one: processors see them
/// come. Pieces in random order meet windows that are in no core's own cache, since another rank
/// reads or writes them from and to storage.
const WINDOWS_BYTES: usize = 8 * PART_BYTES;

impl Copies {
    /// With pieces that take this memory, gaps included.
    pub(super) fn new(bytes: usize) -> Copies {
        let bytes = bytes.max(2 * PART_BYTES) / (2 * PART_BYTES) * 2 * PART_BYTES;
        let (windows, spread) = (vec![1; WINDOWS_BYTES], vec![2; bytes]);
        Copies { windows, spread, part: 0, places: BTreeMap::new() }
    }

    /// Copies pieces of this length, each after the other or in random order, and says how many.
    pub(super) fn run(&mut self, scatter: bool, random: bool, piece_bytes: usize) -> u64 {
        let start = self.part * 2 * PART_BYTES;
        let parts = self.spread.len() / (2 * PART_BYTES);
        self.part = (self.part + 1) % parts;
        let window = &mut self.windows[..PART_BYTES];
        let near = &mut self.spread[start..start + 2 * PART_BYTES];
        match (random, piece_bytes) {
            (true, _) => {
                let bytes = self.spread.len();
                let list = || places(piece_bytes, bytes);
                let places = self.places.entry(piece_bytes).or_insert_with(list);
                // Other pieces of the same list each time, which are in no cache.
                let own = PART_BYTES / piece_bytes;
                let places = &places[start / 2 / piece_bytes..][..own];
                let window = &mut self.windows[start % WINDOWS_BYTES..][..2 * PART_BYTES];
                listed(scatter, (window, piece_bytes), (&mut self.spread, places));
            }
            (false, 4) => short::<4>(scatter, window, near),
            (false, 16) => short::<16>(scatter, window, near),
            (false, 64) => short::<64>(scatter, window, near),
            (false, _) => long(scatter, piece_bytes, window, near),
        }
        black_box((&self.windows, &self.spread));
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

/// Where half of the pieces of some memory are, in random order.
fn places(piece_bytes: usize, bytes: usize) -> Vec<usize> {
    let count = bytes / 2 / piece_bytes;
    let mut places: Vec<usize> = (0..count).map(|index| 2 * index * piece_bytes).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_usize;
    for index in (1..count).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        places.swap(index, random % (index + 1));
    }
    places
}

/// Pieces at these places; in the window, those of another rank lie between them.
fn listed(
    scatter: bool,
    (window, piece_bytes): (&mut [u8], usize),
    (spread, places): (&mut [u8], &[usize]),
) {
    let window = window.chunks_exact_mut(piece_bytes).step_by(2);
    for (near, &place) in window.zip(places) {
        copy(scatter, near, &mut spread[place..place + piece_bytes]);
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
                let threes = copies.windows.iter().filter(|&&byte| byte == 3).count();
                assert_eq!(threes, PART_BYTES, "{piece_bytes} {random}");
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
