//! What a call did, and what all calls on a file did together.

use std::fmt;
use std::time::Duration;

use crate::hints::Strategy;

/// What one rank did in one read or write.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CallStatistics {
    /// The call, such as `write_all`.
    pub call: &'static str,
    /// The strategy that served it, and why that one.
    pub strategy: Strategy,
    /// Why this strategy.
    pub reason: &'static str,
    /// Rounds of the plan.
    pub rounds: u64,
    /// Ranks that touched storage for others.
    pub aggregators: u64,
    /// Whether the plan was made for this call, or had been made before.
    pub planned: bool,
    /// Bytes that this rank asked for.
    pub requested_bytes: u64,
    /// Bytes of this rank's request that really moved.
    pub moved_bytes: u64,
    /// Messages that this rank sent while bytes were shuffled.
    pub messages: u64,
    /// Bytes that this rank sent in messages.
    pub sent_bytes: u64,
    /// Bytes that this rank copied straight from or to other ranks' memory.
    pub shared_bytes: u64,
    /// Storage calls of this rank that read.
    pub storage_reads: u64,
    /// Bytes that they read.
    pub storage_read_bytes: u64,
    /// Storage calls of this rank that wrote.
    pub storage_writes: u64,
    /// Bytes that they wrote.
    pub storage_written_bytes: u64,
    /// Ranges that this rank locked.
    pub locks: u64,
    /// Time until the plan was known, with the exchange of requests.
    pub planning: Duration,
    /// Time in the shuffle: copying, sending, waiting for others.
    pub exchange: Duration,
    /// Time in storage calls.
    pub storage: Duration,
}

/// What one rank did on a file, over all its reads and writes.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FileStatistics {
    /// Number of reads and writes.
    pub calls: u64,
    /// Their sums; strategy and reason are those of the last one.
    pub total: CallStatistics,
}

impl FileStatistics {
    pub(crate) fn add(&mut self, call: &CallStatistics) {
        self.calls += 1;
        let sum = &mut self.total;
        (sum.call, sum.strategy, sum.reason) = (call.call, call.strategy, call.reason);
        sum.planned = call.planned;
        sum.aggregators = sum.aggregators.max(call.aggregators);
        sum.rounds += call.rounds;
        sum.requested_bytes += call.requested_bytes;
        sum.moved_bytes += call.moved_bytes;
        sum.messages += call.messages;
        sum.sent_bytes += call.sent_bytes;
        sum.shared_bytes += call.shared_bytes;
        sum.storage_reads += call.storage_reads;
        sum.storage_read_bytes += call.storage_read_bytes;
        sum.storage_writes += call.storage_writes;
        sum.storage_written_bytes += call.storage_written_bytes;
        sum.locks += call.locks;
        sum.planning += call.planning;
        sum.exchange += call.exchange;
        sum.storage += call.storage;
    }
}

impl fmt::Display for CallStatistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        writeln!(formatter, "strategy    {} ({})", self.strategy, self.reason)?;
        writeln!(formatter, "rounds      {} by {} aggregators", self.rounds, self.aggregators)?;
        writeln!(formatter, "bytes       {} of {}", self.moved_bytes, self.requested_bytes)?;
        writeln!(
            formatter,
            "between     {} bytes in {} messages, {} bytes copied straight",
            self.sent_bytes, self.messages, self.shared_bytes
        )?;
        writeln!(
            formatter,
            "storage     {} reads of {} bytes, {} writes of {} bytes, {} locks",
            self.storage_reads,
            self.storage_read_bytes,
            self.storage_writes,
            self.storage_written_bytes,
            self.locks
        )?;
        writeln!(
            formatter,
            "time        {:.3} ms planning, {:.3} ms exchange, {:.3} ms storage",
            ms(self.planning),
            ms(self.exchange),
            ms(self.storage)
        )
    }
}

impl fmt::Display for FileStatistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "calls       {}, the last one {}", self.calls, self.total.call)?;
        write!(formatter, "{}", self.total)
    }
}
