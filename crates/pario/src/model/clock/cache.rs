//! A page cache in front of a device: which parts of a file are in memory, and which of them are
//! newer than the device.
//!
//! Parts of [`CACHE_GRAIN_BYTES`] come and go as a whole, the least recently used first. A read
//! that misses fetches the whole part, as read-ahead does. A write goes to memory; what is written
//! back is what was written, when its room is needed, a sixteenth of the cache at a time in the
//! order of the file, as an elevator does.

use std::collections::BTreeMap;

/// The unit in which a cache keeps bytes.
pub const CACHE_GRAIN_BYTES: u64 = 64 * 1024;

/// What the device has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) write: bool,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Grain {
    /// Its key in the order of use.
    stamp: u64,
    dirty_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    grains_max: usize,
    grains: BTreeMap<u64, Grain>,
    /// Grains by the time of their last use.
    used: BTreeMap<u64, u64>,
    next_stamp: u64,
}

impl Cache {
    /// A cache of this size; none if not a single grain has room.
    pub(super) fn new(bytes: u64) -> Option<Cache> {
        let grains_max = usize::try_from(bytes / CACHE_GRAIN_BYTES).ok().filter(|&max| max > 0)?;
        Some(Cache { grains_max, grains: BTreeMap::new(), used: BTreeMap::new(), next_stamp: 0 })
    }

    /// Bytes are written or read; what the device has to do for that, in order.
    pub(super) fn touch(
        &mut self,
        write: bool,
        offset: u64,
        bytes: u64,
        mut transfer: impl FnMut(Transfer),
    ) {
        let end = offset.saturating_add(bytes);
        let mut at = offset;
        while at < end {
            let index = at / CACHE_GRAIN_BYTES;
            let next = (index + 1).saturating_mul(CACHE_GRAIN_BYTES).min(end);
            let known = self.grains.get(&index).copied();
            if known.is_none() {
                self.make_room(&mut transfer);
            }
            if known.is_none() && !write {
                let offset = index * CACHE_GRAIN_BYTES;
                transfer(Transfer { write: false, offset, bytes: CACHE_GRAIN_BYTES });
            }
            let dirty_bytes = known.map_or(0, |grain| grain.dirty_bytes);
            let written = if write { next - at } else { 0 };
            self.put(index, known, (dirty_bytes + written).min(CACHE_GRAIN_BYTES));
            at = next;
        }
    }

    fn put(&mut self, index: u64, known: Option<Grain>, dirty_bytes: u64) {
        if let Some(grain) = known {
            self.used.remove(&grain.stamp);
        }
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        self.used.insert(stamp, index);
        self.grains.insert(index, Grain { stamp, dirty_bytes });
    }

    /// Gives up the least recently used grain. If it is dirty, the next ones are written back with
    /// it.
    fn make_room(&mut self, transfer: &mut impl FnMut(Transfer)) {
        if self.grains.len() < self.grains_max {
            return;
        }
        let Some((_, oldest)) = self.used.first_key_value() else {
            return;
        };
        let oldest = *oldest;
        if self.grains.get(&oldest).is_some_and(|grain| grain.dirty_bytes > 0) {
            let batch = (self.grains_max / 16).max(1);
            let mut indices: Vec<u64> = self.used.values().take(batch).copied().collect();
            indices.sort_unstable();
            self.write_back(&indices, transfer);
        }
        if let Some(grain) = self.grains.remove(&oldest) {
            self.used.remove(&grain.stamp);
        }
    }

    fn write_back(&mut self, indices: &[u64], transfer: &mut impl FnMut(Transfer)) {
        for index in indices {
            let Some(grain) = self.grains.get_mut(index) else { continue };
            let bytes = std::mem::take(&mut grain.dirty_bytes);
            if bytes > 0 {
                let offset = index * CACHE_GRAIN_BYTES;
                transfer(Transfer { write: true, offset, bytes });
            }
        }
    }

    /// Writes back all that is dirty, in the order of the file.
    pub(super) fn flush(&mut self, mut transfer: impl FnMut(Transfer)) {
        let indices: Vec<u64> = self.grains.keys().copied().collect();
        self.write_back(&indices, &mut transfer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAIN: u64 = CACHE_GRAIN_BYTES;

    fn touch(cache: &mut Cache, write: bool, offset: u64, bytes: u64) -> Vec<Transfer> {
        let mut all = Vec::new();
        cache.touch(write, offset, bytes, |transfer| all.push(transfer));
        all
    }

    #[test]
    fn a_read_that_misses_fetches_its_part_and_the_next_one_hits() {
        let mut cache = Cache::new(2 * GRAIN).unwrap();
        let fetched = Transfer { write: false, offset: 0, bytes: GRAIN };
        assert_eq!(touch(&mut cache, false, 100, 50), [fetched]);
        assert_eq!(touch(&mut cache, false, 0, GRAIN), []);
        assert_eq!(touch(&mut cache, true, 0, 10), []);
    }

    #[test]
    fn writes_reach_the_device_when_their_room_is_needed() {
        let mut cache = Cache::new(2 * GRAIN).unwrap();
        assert_eq!(touch(&mut cache, true, 0, 2 * GRAIN), []);
        let stored = Transfer { write: true, offset: 0, bytes: GRAIN };
        assert_eq!(touch(&mut cache, true, 2 * GRAIN, 10), [stored]);
        let mut all = Vec::new();
        cache.flush(|transfer| all.push(transfer));
        assert_eq!(
            all,
            [
                Transfer { write: true, offset: GRAIN, bytes: GRAIN },
                Transfer { write: true, offset: 2 * GRAIN, bytes: 10 },
            ]
        );
        cache.flush(|_| panic!("nothing is dirty any more"));
    }

    #[test]
    fn the_least_recently_used_part_goes_first() {
        let mut cache = Cache::new(2 * GRAIN).unwrap();
        touch(&mut cache, false, 0, 1);
        touch(&mut cache, false, GRAIN, 1);
        touch(&mut cache, false, 0, 1);
        assert_eq!(touch(&mut cache, false, 2 * GRAIN, 1).len(), 1);
        assert_eq!(touch(&mut cache, false, 0, 1), []);
        assert_eq!(touch(&mut cache, false, GRAIN, 1).len(), 1);
        assert!(Cache::new(GRAIN - 1).is_none());
    }

    #[test]
    fn scattered_writes_are_written_back_in_the_order_of_the_file() {
        let mut cache = Cache::new(32 * GRAIN).unwrap();
        for index in (0..32).rev() {
            assert_eq!(touch(&mut cache, true, index * GRAIN, GRAIN), []);
        }
        let stored = touch(&mut cache, true, 99 * GRAIN, 1);
        let offsets: Vec<u64> = stored.iter().map(|transfer| transfer.offset / GRAIN).collect();
        assert_eq!(offsets, [30, 31]);
    }
}
