//! A layer that remembers when each access began and how long it took.
//!
//! The recording of statistics puts it over a file when accesses are to be traced.
//!
//! Cost: two looks at the clock, a lock and 48 bytes for each access. The number is bounded; what
//! comes later is only counted.

use std::time::{Duration, Instant};

use super::trace::Record;
use super::{Call, Layer, Operation, Proceed};
use crate::error::Result;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedAccess {
    pub(crate) what: &'static str,
    /// Since the start of the log.
    pub(crate) begin: Duration,
    pub(crate) lasted: Duration,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// The accesses to one file on one rank.
#[derive(Debug)]
pub(crate) struct AccessLog {
    start: Instant,
    record: Record<TimedAccess>,
}

impl AccessLog {
    pub(crate) fn new(start: Instant, accesses_max: usize) -> AccessLog {
        AccessLog { start, record: Record::new(accesses_max) }
    }

    /// The accesses so far, and how many had no room.
    pub(crate) fn kept(&self) -> (Vec<TimedAccess>, u64) {
        self.record.kept()
    }
}

impl Layer for AccessLog {
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
        let Some(what) = name(call.operation) else { return proceed(call.len) };
        let begin = self.start.elapsed();
        let outcome = proceed(call.len);
        let lasted = self.start.elapsed() - begin;
        let &Call { offset, len, .. } = call;
        self.record.extend([TimedAccess { what, begin, lasted, offset, len }]);
        outcome
    }
}

/// How a recording names an access; other calls are not recorded.
fn name(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Read => Some("read"),
        Operation::Write => Some("write"),
        Operation::ReadList => Some("read list"),
        Operation::WriteList => Some("write list"),
        Operation::SetSize => Some("set size"),
        Operation::Preallocate => Some("preallocate"),
        Operation::Sync => Some("sync"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::storage::{Driver, Memory, OpenMode, over_file};

    #[test]
    fn accesses_are_kept_in_order_up_to_their_number() {
        let mode = OpenMode { read: true, write: true, create: true, exclusive: false };
        let inner = Memory::new().open(Path::new("a"), mode).unwrap();
        let log = Arc::new(AccessLog::new(Instant::now(), 2));
        let file = over_file(inner, log.clone());
        file.write_at(3, b"abc").unwrap();
        file.write_list(&[(8, b"x"), (20, b"yz")]).unwrap();
        file.sync().unwrap();
        let (kept, missed) = log.kept();
        let found: Vec<_> = kept.iter().map(|one| (one.what, one.offset, one.len)).collect();
        assert_eq!((found.as_slice(), missed), (&[("write", 3, 3), ("write list", 8, 3)][..], 1));
        assert!(kept[0].begin + kept[0].lasted <= kept[1].begin);
    }
}
