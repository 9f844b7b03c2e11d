//! Copies of pieces, as the exchange makes them: each common short length has a loop of its own,
//! and pieces in random order follow a list.

use std::collections::BTreeMap;
use std::hint::black_box;

/// Memory to copy between: windows, which are used again and again, and that of a program, which is
/// in no cache. In a window, pieces of another rank lie between those of this one.
pub(super) struct Copies {
    windows: Vec<u8>,
    program: Vec<u8>,
    /// Where the next measurement begins, in parts.
    part: usize,
    /// For each length of pieces, their places in the program's memory, in random order.
    places: BTreeMap<usize, Vec<usize>>,
}

/// Bytes of a measurement.
const PART_BYTES: usize = 1 << 20;

impl Copies {
    /// With this memory of a program and of windows.
    pub(super) fn new(bytes: usize, windows_bytes: usize) -> Copies {
        let bytes = bytes.max(2 * PART_BYTES) / (2 * PART_BYTES) * 2 * PART_BYTES;
        let (windows, program) = (vec![1; windows_bytes], vec![2; bytes]);
        Copies { windows, program, part: 0, places: BTreeMap::new() }
    }

    /// Copies pieces of this length, each after the other or in random order, and says how many.
    pub(super) fn run(&mut self, scatter: bool, random: bool, piece_bytes: usize) -> u64 {
        let start = self.part * PART_BYTES;
        self.part = (self.part + 1) % (self.program.len() / PART_BYTES);
        let window = &mut self.windows[..2 * PART_BYTES];
        let program = &mut self.program[start..start + PART_BYTES];
        match (random, piece_bytes) {
            (true, _) => {
                let bytes = self.program.len();
                let list = || places(piece_bytes, bytes);
                let places = self.places.entry(piece_bytes).or_insert_with(list);
                // Other pieces of the same list each time, which are in no cache.
                let places = &places[start % (bytes / 2) / piece_bytes..];
                let places = &places[..PART_BYTES / piece_bytes];
                // These windows are in no core's own cache, since another rank reads or writes them
                // from and to storage.
                let windows = self.windows.len();
                let window = &mut self.windows[2 * start % windows..][..2 * PART_BYTES];
                listed(scatter, (window, piece_bytes), (&mut self.program, places));
            }
            (false, 4) => short::<4>(scatter, window, program),
            (false, 16) => short::<16>(scatter, window, program),
            (false, 64) => short::<64>(scatter, window, program),
            (false, _) => long(scatter, piece_bytes, window, program),
        }
        black_box((&self.windows, &self.program));
        u64::try_from(PART_BYTES / piece_bytes).unwrap_or(u64::MAX)
    }
}

fn short<const LEN: usize>(scatter: bool, window: &mut [u8], program: &mut [u8]) {
    let (window, _) = window.as_chunks_mut::<LEN>();
    let (program, _) = program.as_chunks_mut::<LEN>();
    for (near, far) in window.iter_mut().step_by(2).zip(program) {
        match scatter {
            true => *far = *near,
            false => *near = *far,
        }
    }
}

fn long(scatter: bool, piece_bytes: usize, window: &mut [u8], program: &mut [u8]) {
    let window = window.chunks_exact_mut(piece_bytes).step_by(2);
    let program = program.chunks_exact_mut(piece_bytes);
    window.zip(program).for_each(|(near, far)| copy(scatter, near, far));
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

/// Pieces at these places.
fn listed(
    scatter: bool,
    (window, piece_bytes): (&mut [u8], usize),
    (program, places): (&mut [u8], &[usize]),
) {
    let window = window.chunks_exact_mut(piece_bytes).step_by(2);
    for (near, &place) in window.zip(places) {
        copy(scatter, near, &mut program[place..place + piece_bytes]);
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
                let mut copies = Copies::new(8 * PART_BYTES, 8 * PART_BYTES);
                let pieces = copies.run(true, random, piece_bytes);
                assert_eq!(pieces, u64::try_from(PART_BYTES / piece_bytes).unwrap());
                let ones = copies.program.iter().filter(|&&byte| byte == 1).count();
                assert_eq!(ones, PART_BYTES, "{piece_bytes} {random}");
                copies.program.fill(3);
                copies.run(false, random, piece_bytes);
                let threes = copies.windows.iter().filter(|&&byte| byte == 3).count();
                assert_eq!(threes, PART_BYTES, "{piece_bytes} {random}");
            }
        }
    }

    #[test]
    fn the_next_measurement_has_other_memory() {
        let mut copies = Copies::new(4 * PART_BYTES, 8 * PART_BYTES);
        copies.run(true, false, 64);
        assert!(copies.program[PART_BYTES..].iter().all(|&byte| byte == 2));
        copies.run(true, false, 64);
        let ones = copies.program.iter().filter(|&&byte| byte == 1).count();
        assert_eq!(ones, 2 * PART_BYTES);
    }
}
