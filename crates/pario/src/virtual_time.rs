//! Storage in virtual time: accesses are charged to the rank that makes them.
//!
//! A storage call moves its bytes at once and leaves its accesses on the timeline of the
//! [simulation](crate::Simulated). The rank goes on when they are done. A list is carried out as
//! the cost model assumes, short calls one after another and long ones some at once; or by the
//! servers, if they know lists.

use std::sync::Arc;
use std::time::Duration;

use crate::comm::{Due, RankClock};
use crate::model::clock::{Access, CoreWork, Storage};
use crate::number::{index, narrow};
use crate::plan::calls_at_once;
use crate::storage::{Driver, Emulated, Timer};

impl Emulated {
    /// Makes accesses of `inner` take virtual time: that of the storage of the machine on which the
    /// caller is simulated ([`Simulated::on`](crate::Simulated::on)). No thread sleeps.
    pub fn simulated(inner: Arc<dyn Driver>) -> Emulated {
        Emulated::timed(inner, Arc::new(VirtualTimer))
    }
}

/// The storage of the machine on which the caller is simulated.
struct VirtualTimer;

impl Timer for VirtualTimer {
    fn now(&self) -> Duration {
        RankClock::current().map(|clock| clock.now()).unwrap_or_default()
    }

    fn storage(&self) -> Option<Storage> {
        RankClock::current().map(|clock| clock.machine().storage)
    }

    fn wait(&self, _arrival: Duration, accesses: &[Access]) {
        let Some(clock) = RankClock::current() else { return };
        clock.charge(CoreWork::Call { bytes: accesses.iter().map(|access| access.bytes).sum() });
        let storage = &clock.machine().storage;
        if storage.request_regions_max > 1 && accesses.len() > 1 {
            let regions = accesses.chunks(narrow(storage.request_regions_max));
            return clock.add(regions.map(|regions| Due::List(regions.to_vec())));
        }
        let at_once = index(calls_at_once(storage.device.latency_us));
        for together in accesses.chunks(at_once) {
            clock.add(requests(storage, together).map(Due::Accesses));
        }
    }

    fn flush(&self, _arrival: Duration) {
        RankClock::current().iter().for_each(|clock| clock.add([Due::Flush]));
    }
}

/// Accesses that begin at once, divided into requests, the nth of each together.
fn requests<'a>(
    storage: &Storage,
    accesses: &'a [Access],
) -> impl Iterator<Item = Vec<Access>> + use<'a> {
    let bytes_max = storage.request_bytes_max.max(1);
    let longest = accesses.iter().map(|access| access.bytes).max().unwrap_or(0);
    let nth = move |number: u64| {
        let part = |access: &Access| {
            let skip = number.saturating_mul(bytes_max);
            let bytes = access.bytes.checked_sub(skip).filter(|&rest| rest > 0)?.min(bytes_max);
            Some(Access { offset: access.offset + skip, bytes, ..*access })
        };
        accesses.iter().filter_map(part).collect()
    };
    (0..longest.div_ceil(bytes_max)).map(nth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Direction;
    use crate::model::presets::Device;

    #[test]
    fn long_accesses_are_divided_into_requests() {
        let storage = Storage { request_bytes_max: 10, ..Storage::local(Device::NVM) };
        let access =
            |offset, bytes| Access { direction: Direction::Read, offset, bytes, regions: 1 };
        let all: Vec<Vec<Access>> = requests(&storage, &[access(0, 25), access(50, 10)]).collect();
        let expected =
            [vec![access(0, 10), access(50, 10)], vec![access(10, 10)], vec![access(20, 5)]];
        assert_eq!(all, expected);
    }
}
