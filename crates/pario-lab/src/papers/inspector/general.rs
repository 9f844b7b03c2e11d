//! The inspector for any distribution (paper 002, figures 9, 10 and 12).
//!
//! Every rank has a list of its entries, sorted by logical address. In each phase it sends one
//! half, and with it only where in its memory that half was. The partner finds the logical
//! addresses of what it received by tracing the entries back, phase by phase, to the first
//! distribution. So ranks exchange datatypes, with what is needed to trace them, never lists of
//! entries.
//!
//! Cost: entries that follow each other in memory and in the file are one run, and all work is on
//! runs. A finer grid of the same distribution has longer runs, not more of them.

use std::ops::Range;
use std::sync::Arc;

use super::{Inspection, Packing, Phase, Place, Tuple, equal_share, joined};
use crate::number::{index, rank_of};

/// Tuples of which the n-th entry can be found.
#[derive(Debug)]
pub(crate) struct Indexed {
    tuples: Vec<Tuple>,
    /// Number of entries up to the end of each tuple.
    ends: Vec<u64>,
}

impl Indexed {
    pub(super) fn new(tuples: Vec<Tuple>) -> Indexed {
        let ends = tuples.iter().scan(0, |len, tuple| {
            *len += tuple.len;
            Some(*len)
        });
        let ends = ends.collect();
        Indexed { tuples, ends }
    }

    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Address of the n-th entry (figure 9, `Phy2Log`).
    #[cfg(test)]
    pub(super) fn address(&self, entry: u64) -> u64 {
        self.addresses(entry..entry + 1).next().map_or(0, |tuple| tuple.offset)
    }

    /// Addresses of some entries.
    fn addresses(&self, entries: Range<u64>) -> impl Iterator<Item = Tuple> {
        let first = self.ends.partition_point(|&end| end <= entries.start);
        let inside = move |(tuple, &end): (&Tuple, &u64)| {
            let begin = end - tuple.len;
            let (from, to) = (begin.max(entries.start), end.min(entries.end));
            (from < to).then(|| Tuple { offset: tuple.offset + (from - begin), len: to - from })
        };
        self.tuples[first..].iter().zip(&self.ends[first..]).map_while(inside)
    }
}

/// Where the entries in a rank's memory came from.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    alloc_offset: u64,
    distribution: Arc<Indexed>,
    received: Vec<Received>,
}

#[derive(Clone, Debug)]
struct Received {
    offset: u64,
    message: Message,
}

/// What a rank sends to its partner besides the entries themselves.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// Their physical addresses on the sender, which knows more about them.
    sent: Arc<Indexed>,
    sender: Arc<Origins>,
}

impl Origins {
    /// Logical address of the entry at a physical one.
    #[cfg(test)]
    pub(super) fn logical(&self, physical: u64) -> u64 {
        self.runs(Tuple { offset: physical, len: 1 }).first().map_or(0, |run| run.logical)
    }

    /// The entries at some physical addresses, of which all came in one message or none did.
    fn runs(&self, physical: Tuple) -> Vec<Run> {
        let received = self.received.iter().find(|received| {
            let end = received.offset + received.message.sent.len();
            (received.offset..end).contains(&physical.offset)
        });
        let mut runs = Vec::new();
        let mut at = physical.offset;
        let mut add = |logical: u64, len: u64| {
            runs.push(Run { logical, physical: at, len });
            at += len;
        };
        let entries = |start: u64| physical.offset - start..physical.offset - start + physical.len;
        match received {
            None => {
                let addresses = self.distribution.addresses(entries(self.alloc_offset));
                addresses.for_each(|tuple| add(tuple.offset, tuple.len));
            }
            Some(Received { offset, message }) => {
                for sent in message.sent.addresses(entries(*offset)) {
                    for part in message.sender.parts(sent) {
                        let runs = message.sender.runs(part);
                        runs.into_iter().for_each(|run| add(run.logical, run.len));
                    }
                }
            }
        }
        runs
    }

    /// Physical addresses, divided where entries of one message end.
    fn parts(&self, physical: Tuple) -> Vec<Tuple> {
        let end = physical.offset + physical.len;
        let own = self.alloc_offset..self.alloc_offset + self.distribution.len();
        let regions = self
            .received
            .iter()
            .map(|received| received.offset..received.offset + received.message.sent.len());
        let mut cuts: Vec<u64> = regions
            .chain([own])
            .flat_map(|region| [region.start, region.end])
            .filter(|&cut| cut > physical.offset && cut < end)
            .chain([physical.offset, end])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        let part = |cut: &[u64]| Tuple { offset: cut[0], len: cut[1] - cut[0] };
        cuts.windows(2).map(part).collect()
    }
}

/// Entries that follow each other in memory and in the file; runs sort by their logical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(super) logical: u64,
    pub(super) physical: u64,
    pub(super) len: u64,
}

impl Run {
    fn physical(self) -> Tuple {
        Tuple { offset: self.physical, len: self.len }
    }
}

/// Sorts runs by their logical addresses and joins those that follow each other.
fn sort(runs: &mut Vec<Run>) {
    runs.sort_unstable();
    runs.dedup_by(|next, run| {
        let follows =
            run.logical + run.len == next.logical && run.physical + run.len == next.physical;
        if follows {
            run.len += next.len;
        }
        follows
    });
}

/// Takes the entries from number `half` on out of a list.
fn split_off(list: &mut Vec<Run>, half: u64) -> Vec<Run> {
    let mut below = 0;
    let place = list.iter().position(|run| {
        below += run.len;
        below > half
    });
    let Some(place) = place else { return Vec::new() };
    let mut second = list.split_off(place);
    if let Some(run) = second.first_mut() {
        let kept = run.len - (below - half);
        if kept > 0 {
            list.push(Run { len: kept, ..*run });
        }
        *run =
            Run { logical: run.logical + kept, physical: run.physical + kept, len: run.len - kept };
    }
    second
}

/// One rank on its way through the phases.
#[derive(Debug)]
pub(crate) struct Inspector {
    place: Place,
    pub(super) list: Vec<Run>,
    pub(super) origins: Origins,
    phases: Vec<Phase>,
}

impl Inspector {
    /// The list of a rank's own entries ("memory mapping list").
    pub(super) fn new(place: Place, distribution: &[Tuple]) -> Inspector {
        let origins = Origins {
            alloc_offset: place.alloc_offset(),
            distribution: Arc::new(Indexed::new(distribution.to_vec())),
            received: Vec::new(),
        };
        let mut list = origins.runs(Tuple { offset: origins.alloc_offset, len: place.share });
        sort(&mut list);
        Inspector { place, list, origins, phases: Vec::new() }
    }

    /// Takes the half for the partner of the next phase out of the list.
    pub(super) fn send(&mut self) -> Message {
        let phase = rank_of(self.phases.len());
        let mut half = split_off(&mut self.list, self.place.half());
        if !self.place.sends_second_half(phase) {
            std::mem::swap(&mut half, &mut self.list);
        }
        half.sort_unstable_by_key(|run| run.physical);
        let send = joined(half.iter().map(|run| run.physical()));
        let sent = Arc::new(Indexed::new(send.clone()));
        self.phases.push(Phase {
            partner: self.place.partner(phase),
            send,
            receive_offset: self.place.receive_offset(phase),
            receive_len: self.place.half(),
        });
        Message { sent, sender: Arc::new(self.origins.clone()) }
    }

    /// Adds what the partner sent, after [`Inspector::send`] of the same phase.
    pub(super) fn receive(&mut self, message: Message) {
        let Some(&Phase { receive_offset: offset, receive_len, .. }) = self.phases.last() else {
            return;
        };
        assert!(message.sent.len() == receive_len, "partners send each other equal halves");
        self.origins.received.push(Received { offset, message });
        self.list.extend(self.origins.runs(Tuple { offset, len: receive_len }));
        sort(&mut self.list);
    }

    pub(super) fn finish(self) -> Inspection {
        let packing = packing(self.list.iter().map(|run| run.physical()));
        self.place.inspection(self.phases, packing)
    }
}

impl Inspection {
    /// What every rank does if its entries are the given tuples of logical addresses, in the order
    /// of memory. Nothing if the paper's algorithm does not apply: it needs a power of two of ranks
    /// with equal, even shares. Messages are values here.
    pub(crate) fn general(distributions: &[Vec<Tuple>]) -> Option<Vec<Inspection>> {
        let share = equal_share(distributions)?;
        let ranks = rank_of(distributions.len());
        let place = |rank| Place::new(rank_of(rank), ranks, share);
        let start = |(rank, tuples): (usize, &Vec<Tuple>)| Inspector::new(place(rank), tuples);
        let mut inspectors: Vec<_> = distributions.iter().enumerate().map(start).collect();
        for phase in 0..ranks.trailing_zeros() {
            let messages: Vec<_> = inspectors.iter_mut().map(Inspector::send).collect();
            for inspector in &mut inspectors {
                let partner = inspector.place.partner(phase);
                inspector.receive(messages[index(partner)].clone());
            }
        }
        Some(inspectors.into_iter().map(Inspector::finish).collect())
    }
}

/// The addresses as an interval that is repeated, if they are one: a new interval begins where
/// addresses stop growing (figure 12, `Compute_Datatype_Intervaled`). Otherwise one interval of
/// them all (`Compute_Datatype`).
pub(super) fn packing(addresses: impl IntoIterator<Item = Tuple>) -> Packing {
    let addresses = joined(addresses);
    let mut intervals = addresses.chunk_by(|one, next| one.offset + one.len <= next.offset);
    let first = intervals.next().unwrap_or(&[]);
    let second = addresses.get(first.len());
    let stride = second.and_then(|second| second.offset.checked_sub(first[0].offset));
    let all = || Packing { tuples: addresses.clone(), times: 1, stride: 0 };
    let Some(stride) = stride.filter(|&by| by > 0) else { return all() };
    let mut times: u64 = 1;
    for interval in intervals {
        let shift = times * stride;
        let shifted = first.iter().map(|one| Tuple { offset: one.offset + shift, len: one.len });
        if !shifted.eq(interval.iter().copied()) {
            return all();
        }
        times += 1;
    }
    Packing { tuples: first.to_vec(), times, stride }
}
