//! Bounded memory for recordings of any length: lists of which a part is kept, and the files with
//! the most time.
//!
//! Of a long list of calls, every second, fourth, eighth ... of each rank is kept, so that the same
//! collective calls stay on all ranks. At least one call of each rank stays.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use super::records::{Call, Event};

/// What is in a list that can be sampled.
pub(crate) trait Ranked {
    /// How many of a list are kept at most while it is read, if there are not more ranks.
    const MAX: usize;

    /// The rank, and whether it is a collective: those that are counted together.
    fn lane(&self) -> (u32, bool);
}

impl Ranked for Call {
    const MAX: usize = 1 << 16;

    fn lane(&self) -> (u32, bool) {
        (self.rank, self.is_collective())
    }
}

impl Ranked for Event {
    const MAX: usize = 1 << 17;

    fn lane(&self) -> (u32, bool) {
        (self.rank, false)
    }
}

/// A list of which every so many are kept.
#[derive(Clone, Debug)]
pub(crate) struct Sampled<T> {
    kept: Vec<T>,
    /// How many there were.
    count: u64,
    every: u64,
}

impl<T> Default for Sampled<T> {
    fn default() -> Sampled<T> {
        Sampled { kept: Vec::new(), count: 0, every: 1 }
    }
}

impl<T> Deref for Sampled<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.kept
    }
}

impl<'a, T> IntoIterator for &'a Sampled<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.kept.iter()
    }
}

impl<T: Ranked> Sampled<T> {
    /// Keeps those that a function likes.
    pub(crate) fn retain(&mut self, is_liked: impl FnMut(&T) -> bool) {
        self.kept.retain(is_liked);
    }

    /// Keeps every second of each rank, until there are few enough or nothing more can go.
    pub(crate) fn thin(&mut self, max: usize) {
        while self.kept.len() > max {
            let before = self.kept.len();
            let mut seen: HashMap<(u32, bool), u64> = HashMap::new();
            self.kept.retain(|one| {
                let index = seen.entry(one.lane()).or_default();
                *index += 1;
                *index % 2 == 1
            });
            if self.kept.len() == before {
                break;
            }
            self.every *= 2;
        }
        // Many of these lists are kept: none has room for what went.
        self.kept.shrink_to_fit();
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// A sum over what is kept, for all that there was.
    pub(crate) fn scaled(&self, sum: f64) -> f64 {
        // A cast that rounds only beyond 2^53.
        sum * self.every as f64
    }

    /// What is said of a list of which not all is known.
    pub(crate) fn note(&self, names: &str) -> Option<String> {
        let Sampled { count, every, .. } = self;
        (*every > 1).then(|| format!("Of {count} {names} of all ranks, 1 in {every} was read."))
    }

    /// What is said of a chart in which not all is drawn.
    pub(crate) fn drawn_note(&self, names: &str) -> Option<String> {
        let every = self.every;
        (every > 1).then(|| format!("Of the {names} of each rank, 1 in {every} is drawn."))
    }
}

impl<'de, T: Ranked + Deserialize<'de>> Deserialize<'de> for Sampled<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sampled<T>, D::Error> {
        deserializer.deserialize_seq(Sampler(PhantomData))
    }
}

struct Sampler<T>(PhantomData<T>);

impl<'de, T: Ranked + Deserialize<'de>> Visitor<'de> for Sampler<T> {
    type Value = Sampled<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sampled<T>, A::Error> {
        let mut sampled = Sampled::default();
        let mut seen: HashMap<(u32, bool), u64> = HashMap::new();
        // Where there are more ranks than that, the limit grows, so that time stays linear.
        let mut limit = T::MAX;
        while let Some(one) = list.next_element::<T>()? {
            sampled.count += 1;
            let index = seen.entry(one.lane()).or_default();
            if index.is_multiple_of(sampled.every) {
                sampled.kept.push(one);
            }
            *index += 1;
            if sampled.kept.len() > limit {
                sampled.thin(T::MAX);
                limit = limit.max(2 * sampled.kept.len());
            }
        }
        Ok(sampled)
    }
}

/// The things with the most time, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Most<T> {
    room: u64,
    used: u64,
    kept: Vec<Kept<T>>,
    came: u64,
    left_seconds: f64,
}

#[derive(Debug)]
struct Kept<T> {
    number: u64,
    seconds: f64,
    weight: u64,
    one: T,
}

impl<T> Most<T> {
    /// There is room for so much weight, and for one thing in any case.
    pub(crate) fn new(room: u64) -> Most<T> {
        Most { room, used: 0, kept: Vec::new(), came: 0, left_seconds: 0.0 }
    }

    /// Adds a thing, which is made only if it stays for now; what has the least time goes instead.
    pub(crate) fn add(&mut self, (seconds, weight): (f64, u64), make: impl FnOnce() -> T) {
        let number = self.came;
        self.came += 1;
        let is_more = |kept: &Kept<T>| kept.seconds < seconds;
        let stays = self.used + weight <= self.room || self.kept.iter().any(is_more);
        if !stays && !self.kept.is_empty() {
            self.left_seconds += seconds;
            return;
        }
        self.used += weight;
        self.kept.push(Kept { number, seconds, weight, one: make() });
        while self.used > self.room && self.kept.len() > 1 {
            let shorter = |one: &usize, other: &usize| {
                self.kept[*one].seconds.total_cmp(&self.kept[*other].seconds)
            };
            let Some(least) = (0..self.kept.len()).min_by(shorter) else { break };
            let gone = self.kept.swap_remove(least);
            self.used -= gone.weight;
            self.left_seconds += gone.seconds;
        }
    }

    /// How many came and did not stay, and their time.
    pub(crate) fn left_out(&self) -> (u64, f64) {
        let kept = u64::try_from(self.kept.len()).unwrap_or(u64::MAX);
        (self.came - kept, self.left_seconds)
    }

    /// How many stay.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn into_vec(mut self) -> Vec<T> {
        self.kept.sort_by_key(|kept| kept.number);
        self.kept.into_iter().map(|kept| kept.one).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// Calls of some ranks, as many of each, rank after rank as in a recording.
    fn text(ranks: u32, calls: u32) -> String {
        let mut text = String::new();
        for rank in 0..ranks {
            for index in 0..calls {
                let comma = if text.is_empty() { "" } else { "," };
                let _ = write!(
                    text,
                    r#"{comma}{{"rank":{rank},"call":"write_all","strategy":"list",
                    "begin_seconds":{index},"seconds":1}}"#
                );
            }
        }
        format!("[{text}]")
    }

    #[test]
    fn of_a_long_list_the_same_calls_of_all_ranks_are_kept() {
        let all: Sampled<Call> = serde_json::from_str(&text(3, 30_000)).unwrap();
        assert!(all.len() <= Call::MAX && all.len() > Call::MAX / 4, "{}", all.len());
        let begins = |rank| -> Vec<f64> {
            let own = all.iter().filter(|call| call.rank == rank);
            own.map(|call| call.begin_seconds).collect()
        };
        assert_eq!(begins(0)[..3], [0.0, 2.0, 4.0]);
        assert_eq!((begins(0), begins(1)), (begins(1), begins(2)));
        let note = all.note("calls").unwrap();
        assert_eq!(note, "Of 90000 calls of all ranks, 1 in 2 was read.");
    }

    #[test]
    fn a_short_list_is_whole_and_every_rank_has_a_call_left() {
        let mut all: Sampled<Call> = serde_json::from_str(&text(7, 5)).unwrap();
        assert_eq!((all.len(), all.note("calls")), (35, None));
        all.thin(3);
        assert_eq!(all.len(), 7);
    }

    #[test]
    fn what_has_the_most_time_stays_in_its_order() {
        let mut most = Most::new(3);
        for seconds in [5.0, 1.0, 7.0, 2.0, 6.0] {
            most.add((seconds, 1), || seconds);
        }
        assert_eq!(most.left_out(), (2, 3.0));
        assert_eq!(most.into_vec(), [5.0, 7.0, 6.0]);
        let mut heavy = Most::new(3);
        heavy.add((1.0, 10), || "first");
        heavy.add((2.0, 10), || "second");
        assert_eq!(heavy.into_vec(), ["second"]);
    }
}
