//! A storage server: its processor, its cache and its device.

use std::collections::BTreeMap;

use super::cache::{Cache, Transfer};
use super::{Access, Device, Direction, Span, Storage};
use crate::number::{narrow, real};

/// The part of a request that one server has, as its own contiguous object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) server: usize,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// The servers that hold bytes of a range of the file.
pub(super) fn shares(storage: &Storage, offset: u64, bytes: u64) -> Vec<Share> {
    let servers = u64::from(storage.servers.max(1));
    let stripe = storage.stripe_bytes.max(1);
    let end = offset.saturating_add(bytes);
    // Bytes of the file before a place that are on a server.
    let below = |place: u64, server: u64| {
        let cycle = stripe.saturating_mul(servers);
        let within = (place % cycle).saturating_sub(server * stripe).min(stripe);
        place / cycle * stripe + within
    };
    let share = |server: u64| {
        let (first, last) = (below(offset, server), below(end, server));
        Share { server: narrow(server), offset: first, bytes: last - first }
    };
    (0..servers).map(share).filter(|share| share.bytes > 0).collect()
}

/// The requests of a list. An access is one contiguous range, so what a server has of the list is
/// moved to the begin of a stripe, where its bytes stay on that server. Lists that have more for a
/// server are long enough to be spread over all of them, as one range is.
pub(super) fn requests_of_list(storage: &Storage, regions: &[Access]) -> Vec<Access> {
    let (stripe, servers) = (storage.stripe_bytes.max(1), u64::from(storage.servers.max(1)));
    let mut shares: BTreeMap<u64, Access> = BTreeMap::new();
    for region in regions {
        let number = region.offset / stripe;
        let none = Access { offset: number * stripe, bytes: 0, regions: 0, ..*region };
        let share = shares.entry(number % servers).or_insert(none);
        share.bytes += region.bytes;
        share.regions += region.regions;
    }
    let spread = |whole: Access, share: &Access| Access {
        bytes: whole.bytes + share.bytes,
        regions: whole.regions + share.regions,
        ..whole
    };
    match (regions.first(), shares.values().any(|share| share.bytes > stripe)) {
        (Some(first), true) => {
            let offset = first.offset / stripe * stripe;
            let none = Access { offset, bytes: 0, regions: 0, ..*first };
            vec![shares.values().fold(none, spread)]
        }
        _ => shares.into_values().collect(),
    }
}

/// What became of a share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) span: Span,
    /// When the first byte of a read is there.
    pub(super) first_byte_s: f64,
    /// Time of the server's processor.
    pub(super) work_s: f64,
    /// Time of the device.
    pub(super) device_s: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Server {
    processor_free_s: f64,
    /// The link of the server: in and out.
    pub(super) link_free_s: [f64; 2],
    cache: Option<Cache>,
    cache_free_s: f64,
    arm: Arm,
}

/// The state of a device.
#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    free_s: f64,
    /// Where the next access continues the last one.
    next_offset: Option<u64>,
}

/// One access of a device.
#[derive(Clone, Copy, Debug)]
struct Moved {
    first_byte_s: f64,
    end_s: f64,
    busy_s: f64,
}

impl Arm {
    fn access(&mut self, device: &Device, transfer: Transfer, regions: u64, at_s: f64) -> Moved {
        let begin_s = (at_s + device.latency_us / 1e6).max(self.free_s);
        let continues = self.next_offset == Some(transfer.offset);
        let positionings = real(regions - u64::from(continues));
        let positioned_s = begin_s + positionings * device.positioning_us / 1e6;
        let bytes_per_s = match transfer.write {
            true => device.write_bytes_per_s,
            false => device.read_bytes_per_s,
        };
        let end_s = positioned_s + real(transfer.bytes) / bytes_per_s;
        self.free_s = end_s;
        self.next_offset = Some(transfer.offset.saturating_add(transfer.bytes));
        Moved { first_byte_s: positioned_s, end_s, busy_s: end_s - begin_s }
    }
}

impl Server {
    pub(super) fn new(storage: &Storage) -> Server {
        Server {
            processor_free_s: 0.0,
            link_free_s: [0.0; 2],
            cache: Cache::new(storage.cache_bytes),
            cache_free_s: 0.0,
            arm: Arm::default(),
        }
    }

    /// Serves a share whose request is here at `at_s`.
    pub(super) fn serve(
        &mut self,
        storage: &Storage,
        (direction, share, regions): (Direction, Share, u64),
        at_s: f64,
    ) -> Served {
        let work_s = (storage.request_us + real(regions) * storage.region_us) / 1e6;
        let begin_s = at_s.max(self.processor_free_s);
        self.processor_free_s = begin_s + work_s;
        let write = direction == Direction::Write;
        let transfer = Transfer { write, offset: share.offset, bytes: share.bytes };
        let mut served = match self.cache {
            Some(_) => self.through_cache(storage, transfer, begin_s + work_s),
            None => {
                let moved =
                    self.arm.access(&storage.device, transfer, regions.max(1), begin_s + work_s);
                Served {
                    span: Span { begin_s, end_s: moved.end_s },
                    first_byte_s: moved.first_byte_s,
                    work_s,
                    device_s: moved.busy_s,
                }
            }
        };
        (served.span.begin_s, served.work_s) = (begin_s, work_s);
        served
    }

    /// The bytes go to or from the cache; the device works at the same time.
    fn through_cache(&mut self, storage: &Storage, transfer: Transfer, at_s: f64) -> Served {
        let begin_s = at_s.max(self.cache_free_s);
        let mut end_s = begin_s + real(transfer.bytes) / storage.cache_bytes_per_s;
        self.cache_free_s = end_s;
        let (mut device_s, mut first_byte_s) = (0.0, None);
        let Server { cache, arm, .. } = self;
        if let Some(cache) = cache {
            cache.touch(transfer.write, transfer.offset, transfer.bytes, |needed| {
                let moved = arm.access(&storage.device, needed, 1, at_s);
                device_s += moved.busy_s;
                end_s = end_s.max(moved.end_s);
                first_byte_s.get_or_insert(moved.first_byte_s);
            });
        }
        let first_byte_s = first_byte_s.unwrap_or(begin_s);
        Served { span: Span { begin_s, end_s }, first_byte_s, work_s: 0.0, device_s }
    }

    pub(super) fn flush(&mut self, storage: &Storage, at_s: f64) -> Served {
        let (mut end_s, mut device_s) = (at_s, 0.0);
        let Server { cache, arm, .. } = self;
        if let Some(cache) = cache {
            cache.flush(|needed| {
                let moved = arm.access(&storage.device, needed, 1, at_s);
                device_s += moved.busy_s;
                end_s = end_s.max(moved.end_s);
            });
        }
        let span = Span { begin_s: at_s, end_s };
        Served { span, first_byte_s: at_s, work_s: 0.0, device_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_divided_into_one_object_for_each_server() {
        let storage = Storage { servers: 3, stripe_bytes: 10, ..Storage::local(Device::HDD) };
        let share = |server, offset, bytes| Share { server, offset, bytes };
        assert_eq!(shares(&storage, 0, 10), [share(0, 0, 10)]);
        assert_eq!(shares(&storage, 5, 10), [share(0, 5, 5), share(1, 0, 5)]);
        assert_eq!(shares(&storage, 0, 65), [share(0, 0, 25), share(1, 0, 20), share(2, 0, 20)]);
        assert_eq!(
            shares(&storage, 35, 30),
            [share(0, 15, 10), share(1, 10, 10), share(2, 10, 10)]
        );
        assert_eq!(shares(&storage, 35, 0), []);
    }
}
