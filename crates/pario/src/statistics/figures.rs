//! The figures of a call: one table. Sums over calls and ranks, messages between ranks and JSON
//! follow from it, so that a new figure is one line here, and what counts it.

use std::time::Duration;

use super::Asked;
use crate::hints::Strategy;

macro_rules! figures {
    (
        counts { $($(#[doc = $count_text:literal])* $count:ident,)* }
        times { $($(#[doc = $time_text:literal])* $time:ident,)* }
    ) => {
        /// What one rank did in one read or write.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct CallStatistics {
            /// The call, such as `write_all`.
            pub call: &'static str,
            /// The number of a collective call on this file, the same on all ranks.
            pub number: u64,
            /// The strategy that served it.
            pub strategy: Strategy,
            /// Why this strategy.
            pub reason: &'static str,
            /// Where windows were, how bytes got there, and who served them; which holes sieving
            /// moved; nothing without windows.
            pub windows: &'static str,
            /// Rounds of the plan.
            pub rounds: u64,
            /// Ranks that may have touched storage for others.
            pub aggregators: u64,
            /// Whether the plan was made for this call; false if a kept one was used again.
            pub planned: bool,
            /// Where the bytes are in the file, and what else the planner knew; nothing in sums.
            pub asked: Option<Asked>,
            $($(#[doc = $count_text])* pub $count: u64,)*
            $($(#[doc = $time_text])* pub $time: Duration,)*
            /// Time in each phase of a multi-phase exchange, a part of the time in the shuffle.
            pub phases: Vec<Duration>,
        }

        impl CallStatistics {
            /// The names of the counts, which add up over calls and over ranks.
            pub const COUNTS: [&'static str; [$(stringify!($count)),*].len()] =
                [$(stringify!($count)),*];
            /// The names of the times, which add up over calls; of several ranks the longest
            /// counts.
            pub const TIMES: [&'static str; [$(stringify!($time)),*].len()] =
                [$(stringify!($time)),*];

            /// The counts, in the order of their names.
            pub fn counts(&self) -> [u64; CallStatistics::COUNTS.len()] {
                [$(self.$count),*]
            }

            /// The same, to change them.
            pub fn counts_mut(&mut self) -> [&mut u64; CallStatistics::COUNTS.len()] {
                [$(&mut self.$count),*]
            }

            /// The times, in the order of their names.
            pub fn times(&self) -> [Duration; CallStatistics::TIMES.len()] {
                [$(self.$time),*]
            }

            /// The same, to change them.
            pub fn times_mut(&mut self) -> [&mut Duration; CallStatistics::TIMES.len()] {
                [$(&mut self.$time),*]
            }
        }
    };
}

figures! {
    counts {
        /// Bytes that this rank asked for.
        requested_bytes,
        /// Bytes of this rank's request that really moved.
        moved_bytes,
        /// Messages that this rank sent while bytes were shuffled.
        messages,
        /// Bytes that this rank sent in messages.
        sent_bytes,
        /// Bytes that this rank copied to or from windows in shared memory.
        shared_bytes,
        /// Storage accesses of this rank that read. A list counts as often as the system gets an
        /// access for it: once for each run of adjacent pieces, also where io_uring takes several
        /// at a time.
        storage_reads,
        /// Bytes that they read.
        storage_read_bytes,
        /// Storage accesses of this rank that wrote, counted in the same way.
        storage_writes,
        /// Bytes that they wrote.
        storage_written_bytes,
        /// Those of them that were stored through a mapping of the file.
        storage_mapped_bytes,
        /// Ranges that this rank locked.
        locks,
    }
    times {
        /// Time until all ranks had announced which call they make: mostly synchronisation skew,
        /// which is waiting for the last one.
        synchronisation,
        /// Time until the plan was known, without the synchronisation.
        planning,
        /// Time in the shuffle: copying, sending, waiting for others.
        exchange,
        /// Time in storage calls.
        storage,
        /// Time that the cost model predicted for all of it; nothing for a call without a plan.
        predicted,
        /// Time in which windows were filled or emptied, a part of the time in the shuffle.
        packing,
    }
}
