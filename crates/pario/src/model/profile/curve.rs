//! Bandwidth by length and by number of ranks.

use serde::{Deserialize, Serialize};

use crate::number::real;

/// Bandwidth of accesses or copies by their length.
///
/// ```
/// use pario::model::profile::Curve;
///
/// let curve = Curve { bytes: vec![1000, 3000], bytes_per_s: vec![1e9, 1e9] };
/// assert_eq!(curve.us(2000), 2.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Lengths, rising.
    pub bytes: Vec<u64>,
    /// The bandwidth at each of them, calls included.
    pub bytes_per_s: Vec<f64>,
}

impl Curve {
    /// The lengths with their times.
    pub fn times_us(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let both = self.bytes.iter().zip(&self.bytes_per_s);
        both.map(|(&bytes, &bytes_per_s)| (bytes, real(bytes) / bytes_per_s * 1e6))
    }

    /// A curve from lengths with their times.
    pub fn from_times_us(times: impl IntoIterator<Item = (u64, f64)>) -> Curve {
        let mut curve = Curve::default();
        for (bytes, us) in times {
            curve.bytes.push(bytes);
            curve.bytes_per_s.push(real(bytes) / us * 1e6);
        }
        curve
    }

    /// The time of one access or copy. Between two lengths the time is interpolated; a shorter one
    /// takes as long as the shortest; a longer one has the bandwidth of the longest.
    pub fn us(&self, bytes: u64) -> f64 {
        let longest = self.bytes.last().copied().unwrap_or(0);
        let us = interpolated(self.times_us(), bytes).unwrap_or(0.0);
        if bytes > longest { us * real(bytes) / real(longest.max(1)) } else { us }
    }
}

/// Bandwidth of all ranks together, by their number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// Numbers of ranks, rising, 1 first.
    pub ranks: Vec<u32>,
    /// The bandwidth of all of them together.
    pub bytes_per_s: Vec<f64>,
}

impl Concurrency {
    /// How many times longer the bytes of one rank take when this number of ranks move as many at
    /// the same time. Between two numbers of ranks the bandwidth is interpolated; with more ranks
    /// than the greatest it stays.
    pub fn slowdown(&self, ranks: u32) -> f64 {
        let Some(alone) = self.bytes_per_s.first() else {
            return 1.0;
        };
        (f64::from(ranks.max(1)) * alone / self.together(ranks.max(1))).max(1.0)
    }

    /// Microseconds that `bytes` of one rank take longer when this number of ranks move as many at
    /// the same time, however fast it moves them.
    pub fn wait_us(&self, bytes: f64, ranks: u32) -> f64 {
        let Some(alone) = self.bytes_per_s.first() else {
            return 0.0;
        };
        let ranks = ranks.max(1);
        let longer = f64::from(ranks) / self.together(ranks) - 1.0 / alone;
        (bytes * longer * 1e6).max(0.0)
    }

    /// The bandwidth of a number of ranks.
    pub(super) fn together(&self, ranks: u32) -> f64 {
        let numbers = self.ranks.iter().map(|&number| u64::from(number));
        let both = numbers.zip(self.bytes_per_s.iter().copied());
        interpolated(both, ranks.into()).unwrap_or(f64::INFINITY)
    }
}

/// Bandwidth of bytes that are used again and again, by how many they are: few of them stay in the
/// caches of processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reuse {
    /// Bytes that all ranks use, half of them memory and half of them of the file; rising. The most
    /// are in no cache.
    pub bytes: Vec<u64>,
    /// The bandwidth of each of the ranks, with a core each.
    pub bytes_per_s: Vec<f64>,
}

impl Reuse {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Microseconds that moving `bytes` takes less than what is in no cache, if it takes `far_us`
    /// then, and the working set is this large.
    pub fn saved_us(&self, bytes: f64, working_set: u64, far_us: f64) -> f64 {
        let Some(far) = self.us_per_byte(u64::MAX) else {
            return 0.0;
        };
        let near = self.us_per_byte(working_set).unwrap_or(far);
        (bytes * (far - near)).min(far_us - bytes * near).max(0.0)
    }

    /// The time of a byte. Between two working sets it is interpolated.
    fn us_per_byte(&self, working_set: u64) -> Option<f64> {
        let times = self.bytes_per_s.iter().map(|bytes_per_s| 1e6 / bytes_per_s);
        interpolated(self.bytes.iter().copied().zip(times), working_set)
    }
}

/// The value at a place of a table, whose places rise. Before the first place it is that of the
/// first, behind the last that of the last. None if the table is empty.
fn interpolated(table: impl Iterator<Item = (u64, f64)>, at: u64) -> Option<f64> {
    let mut before: Option<(u64, f64)> = None;
    for (place, value) in table {
        if at <= place {
            return Some(match before {
                Some((earlier, less)) => {
                    let part = real(at - earlier) / real(place - earlier);
                    less + (value - less) * part
                }
                None => value,
            });
        }
        before = Some((place, value));
    }
    before.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_interpolated_and_continued() {
        let curve = Curve { bytes: vec![100, 1100], bytes_per_s: vec![1e8, 1.1e9] };
        assert_eq!([0, 1, 100, 600, 1100].map(|bytes| curve.us(bytes)), [1.0; 5]);
        assert!((curve.us(11_000) - 10.0).abs() < 1e-9);
        let again = Curve::from_times_us(curve.times_us());
        assert_eq!(again.bytes, curve.bytes);
        assert!((again.us(600) - 1.0).abs() < 1e-9);
        assert_eq!(Curve::default().us(7), 0.0);
    }

    #[test]
    fn few_bytes_that_are_used_again_are_faster_by_what_a_cache_saves() {
        let reuse = Reuse { bytes: vec![1000, 3000], bytes_per_s: vec![2e9, 1e9] };
        let saved = |working_set, far_us| reuse.saved_us(1e3, working_set, far_us);
        assert_eq!(
            [10, 1000, 2000, 3000, 4000].map(|set| saved(set, 9.0)),
            [0.5, 0.5, 0.25, 0.0, 0.0]
        );
        // What is as fast as a cache, or faster, gains nothing.
        assert_eq!([1.0, 0.75, 0.5, 0.25].map(|far_us| saved(1000, far_us)), [0.5, 0.25, 0.0, 0.0]);
        assert_eq!(Reuse::default().saved_us(1e3, 1, 9.0), 0.0);
    }

    #[test]
    fn ranks_share_what_does_not_grow_with_them() {
        let waits = |concurrency: &Concurrency, ranks: [u32; 5]| {
            ranks.map(|ranks| concurrency.wait_us(1e3, ranks).round())
        };
        let one_writer = Concurrency { ranks: vec![1, 4], bytes_per_s: vec![5e9, 5e9] };
        assert_eq!(waits(&one_writer, [0, 1, 6, 11, 16]), [0.0, 0.0, 1.0, 2.0, 3.0]);
        let grows = Concurrency { ranks: vec![1, 4], bytes_per_s: vec![1e9, 4e9] };
        assert_eq!(waits(&grows, [1, 2, 4, 8, 12]), [0.0, 0.0, 0.0, 1.0, 2.0]);
        assert_eq!(waits(&Concurrency::default(), [1, 2, 3, 4, 5]), [0.0; 5]);
        assert_eq!([1, 2, 4, 8].map(|ranks| one_writer.slowdown(ranks)), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!([0, 1, 2, 4, 8].map(|ranks| grows.slowdown(ranks)), [1.0, 1.0, 1.0, 1.0, 2.0]);
    }
}
