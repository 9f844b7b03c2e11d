//! Numbers that look random and follow from a seed: the same on every rank and machine.

/// The generator splitmix64.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit, which is at least 1.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// The numbers below `count` in any order (Fisher and Yates).
    pub(super) fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count).collect();
        for last in (1..numbers.len()).rev() {
            let limit = u64::try_from(last).unwrap_or(u64::MAX - 1) + 1;
            let other = usize::try_from(self.below(limit)).unwrap_or(0);
            numbers.swap(last, other);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_each_number_once_and_follows_from_its_seed() {
        let numbers = Random::new(7).permutation(1000);
        assert_eq!(numbers, Random::new(7).permutation(1000));
        assert_ne!(numbers, Random::new(8).permutation(1000));
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_ne!(numbers, sorted);
        assert!(sorted.into_iter().eq(0..1000));
    }
}
