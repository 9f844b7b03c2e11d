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
        let mut before: Option<(u64, f64)> = None;
        for (length, us) in self.times_us() {
            if bytes <= length {
                return match before {
                    Some((shorter, shorter_us)) => {
                        let part = real(bytes - shorter) / real(length - shorter);
                        shorter_us + (us - shorter_us) * part
                    }
                    None => us,
                };
            }
            before = Some((length, us));
        }
        before.map_or(0.0, |(length, us)| us * real(bytes) / real(length))
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
    fn together(&self, ranks: u32) -> f64 {
        let mut before: Option<(u32, f64)> = None;
        for (&number, &bytes_per_s) in self.ranks.iter().zip(&self.bytes_per_s) {
            if ranks <= number {
                return match before {
                    Some((fewer, less)) => {
                        let part = f64::from(ranks - fewer) / f64::from(number - fewer);
                        less + (bytes_per_s - less) * part
                    }
                    None => bytes_per_s,
                };
            }
            before = Some((number, bytes_per_s));
        }
        before.map_or(f64::INFINITY, |(_, bytes_per_s)| bytes_per_s)
    }
}

/// Bandwidth of bytes that are used again and again, by how many they are: few of them stay in the
/// caches of processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reuse {
    /// Bytes that are used, those on both sides of a copy and those of all ranks; rising. The
    /// longest are in no cache.
    pub bytes: Vec<u64>,
    /// The bandwidth of each of the ranks, with a core each.
    pub bytes_per_s: Vec<f64>,
}

impl Reuse {
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
        let mut before: Option<(u64, f64)> = None;
        for (&bytes, &bytes_per_s) in self.bytes.iter().zip(&self.bytes_per_s) {
            let us = 1e6 / bytes_per_s;
            if working_set <= bytes {
                return Some(match before {
                    Some((fewer, less_us)) => {
                        let part = real(working_set - fewer) / real(bytes - fewer);
                        less_us + (us - less_us) * part
                    }
                    None => us,
                });
            }
            before = Some((bytes, us));
        }
        before.map(|(_, us)| us)
    }
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
