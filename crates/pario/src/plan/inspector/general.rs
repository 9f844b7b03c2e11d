//! The inspector for any distribution (paper 002, figures 9, 10 and 12).
//!
//! Every rank has a list of its entries, sorted by logical address. In each phase it sends one half
//! and tells its partner only where in its memory that was. The partner finds the logical addresses
//! of what it received by asking where those entries came from before, back to the distribution
//! that they started with. So what ranks tell each other is datatypes, with all that is needed to
//! follow them, never lists of entries.

use std::sync::Arc;

use super::{Inspection, Packing, Phase, Place, Tuple, equal_share, joined};
use crate::comm::collective::{index, rank_of};
use crate::plan::butterfly::Butterfly;

/// Tuples of which the n-th entry can be found.
#[derive(Debug)]
pub(super) struct Indexed {
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
    pub(super) fn address(&self, entry: u64) -> u64 {
        let tuple = self.ends.partition_point(|&end| end <= entry);
        let Tuple { offset, len } = self.tuples[tuple];
        offset + (entry + len - self.ends[tuple])
    }
}

/// Where the entries in a rank's memory came from.
#[derive(Clone, Debug)]
pub(super) struct Origins {
    alloc_offset: u64,
    distribution: Arc<Indexed>,
    received: Vec<Received>,
}

#[derive(Clone, Debug)]
struct Received {
    offset: u64,
    message: Message,
}

/// What a rank tells its partner of the entries that it sends.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Their physical addresses on the sender, which knows more about them.
    sent: Arc<Indexed>,
    sender: Arc<Origins>,
}

impl Origins {
    /// Logical address of the entry at a physical one.
    pub(super) fn logical(&self, physical: u64) -> u64 {
        let (mut origins, mut physical) = (self, physical);
        loop {
            let holds = |received: &&Received| {
                let end = received.offset + received.message.sent.len();
                (received.offset..end).contains(&physical)
            };
            let Some(received) = origins.received.iter().find(holds) else {
                return origins.distribution.address(physical - origins.alloc_offset);
            };
            physical = received.message.sent.address(physical - received.offset);
            origins = &received.message.sender;
        }
    }
}

/// An entry of the list; they sort by their logical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) logical: u64,
    pub(super) physical: u64,
}

/// One rank on its way through the phases.
#[derive(Debug)]
pub(super) struct Inspector {
    place: Place,
    pub(super) list: Vec<Entry>,
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
        let physical = origins.alloc_offset..origins.alloc_offset + place.share;
        let entry = |physical| Entry { logical: origins.logical(physical), physical };
        let mut list: Vec<Entry> = physical.map(entry).collect();
        list.sort_unstable();
        Inspector { place, list, origins, phases: Vec::new() }
    }

    /// Takes the half for the partner of the next phase out of the list.
    pub(super) fn send(&mut self) -> Message {
        let phase = rank_of(self.phases.len());
        let mut half = self.list.split_off(self.list.len() / 2);
        if !self.place.sends_second_half(phase) {
            std::mem::swap(&mut half, &mut self.list);
        }
        half.sort_unstable_by_key(|entry| entry.physical);
        let send = tuples(half.iter().map(|entry| entry.physical));
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
        let entry = |physical| Entry { logical: self.origins.logical(physical), physical };
        self.list.extend((offset..offset + receive_len).map(entry));
        self.list.sort_unstable();
    }

    pub(super) fn finish(self) -> Inspection {
        let addresses: Vec<u64> = self.list.iter().map(|entry| entry.physical).collect();
        self.place.inspection(self.phases, packing(&addresses))
    }
}

impl Inspection {
    /// What a rank does if its entries, and those of every other rank, are the given tuples of
    /// logical addresses, in the order of memory. Nothing if the paper's algorithm does not apply:
    /// it needs a power of two of ranks with equal, even shares. See
    /// [`halves_follow_file`](super::halves_follow_file) for when the file comes out in order.
    pub(crate) fn general(rank: u32, distributions: &[Vec<Tuple>]) -> Option<Inspection> {
        let ranks = rank_of(distributions.len());
        if rank >= ranks {
            return None;
        }
        let ranks = Butterfly::new(ranks);
        // A rank needs what its partner knows, which needs what its partner knew before.
        let needed = |other, done| ranks.class(other, done) == ranks.class(rank, done);
        inspect(distributions, needed)?.pop()
    }

    /// What all ranks do, with the work that they share done once.
    pub(crate) fn general_all(distributions: &[Vec<Tuple>]) -> Option<Vec<Inspection>> {
        inspect(distributions, |_, _| true)
    }
}

/// Takes the ranks through all phases, each as long as it is needed; messages are values here.
fn inspect(
    distributions: &[Vec<Tuple>],
    needed: impl Fn(u32, u32) -> bool,
) -> Option<Vec<Inspection>> {
    let share = equal_share(distributions)?;
    let butterfly = Butterfly::new(rank_of(distributions.len()));
    let start = |(rank, tuples): (usize, &Vec<Tuple>)| {
        Some(Inspector::new(Place { butterfly, rank: rank_of(rank), share }, tuples))
    };
    let mut inspectors: Vec<_> = distributions.iter().enumerate().map(start).collect();
    for phase in 0..butterfly.phases() {
        let send = |inspector: &mut Option<Inspector>| Some(inspector.as_mut()?.send());
        let messages: Vec<_> = inspectors.iter_mut().map(send).collect();
        for inspector in &mut inspectors {
            inspector.take_if(|one| !needed(one.place.rank, phase + 1));
            if let Some(inspector) = inspector {
                let partner = inspector.place.partner(phase);
                inspector.receive(messages[index(partner)].clone()?);
            }
        }
    }
    Some(inspectors.into_iter().flatten().map(Inspector::finish).collect())
}

/// Tuples of addresses, in the given order (figure 12, `Compute_Datatype`).
pub(super) fn tuples(addresses: impl IntoIterator<Item = u64>) -> Vec<Tuple> {
    joined(addresses.into_iter().map(|offset| Tuple { offset, len: 1 }))
}

/// The addresses as an interval that is repeated, if they are one: a new interval begins where
/// addresses stop growing (`Compute_Datatype_Intervaled`). Otherwise one interval of them all.
pub(super) fn packing(addresses: &[u64]) -> Packing {
    let mut intervals = addresses.chunk_by(|one, next| one < next);
    let first = intervals.next().unwrap_or(&[]);
    let second = addresses.get(first.len());
    let stride = second.and_then(|second| second.checked_sub(first[0])).filter(|&by| by > 0);
    let all = || Packing { tuples: tuples(addresses.iter().copied()), times: 1, stride: 0 };
    let Some(stride) = stride else { return all() };
    let mut times: u64 = 1;
    for interval in intervals {
        let shift = times * stride;
        let same = first.iter().map(|address| address + shift).eq(interval.iter().copied());
        if !same {
            return all();
        }
        times += 1;
    }
    Packing { tuples: tuples(first.iter().copied()), times, stride }
}
