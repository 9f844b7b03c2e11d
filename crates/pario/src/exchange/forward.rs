//! Store-and-forward in phases: partners pass bytes on, to the ranks that store them, or back.
//!
//! A rank forwards packets: a packet is the bytes of one source for one domain, in this round. In
//! each phase a rank sends one message with all packets that are not for its own class, and
//! receives those that come closer to theirs. Both sides know from the plan which packets a message
//! has, and in which order (by source, then by class). Their lengths precede them, since a rank
//! that only forwards packets may not know what irregular sources ask for.
//!
//! A packet is copied when it is forwarded, never when it stays: it remains a part of the message
//! in which it came. In reads, packets take the way of a write backwards.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::executor::Executor;
use super::messages::{GAVE_UP, malformed};
use crate::access::memory::Parcel;
use crate::comm::{CoreWork, Lane, catch_up, charge, since};
use crate::direction::Direction;
use crate::error::Result;
use crate::number::{narrow, wide};
use crate::plan::Phases;

/// Bytes of a length in a message.
const LEN_BYTES: usize = 8;

/// Bytes of one source for one domain: a part of the message in which they came.
#[derive(Clone, Default)]
pub(super) struct Packet {
    message: Arc<Vec<u8>>,
    place: Range<usize>,
}

impl Packet {
    pub(super) fn new(bytes: Vec<u8>) -> Packet {
        let place = 0..bytes.len();
        Packet { message: Arc::new(bytes), place }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.message.get(self.place.clone()).unwrap_or_default()
    }
}

/// The packets on a rank, by source and class.
pub(super) type Packets = HashMap<(u32, u32), Packet>;

/// One source and one class.
type PacketKey = (u32, u32);

/// The packets of a message from one rank to another, in the order in which they stand in it.
fn keys(phases: Phases, from: u32, to: u32, phase: u32) -> Vec<PacketKey> {
    let sources = phases.sources(from, phase).into_iter();
    let classes: Vec<u32> = phases.classes_of(to, phase + 1).collect();
    sources.flat_map(|source| classes.iter().map(move |&class| (source, class))).collect()
}

/// Takes a message apart.
fn unpack(bytes: Vec<u8>, keys: &[PacketKey], packets: &mut Packets) -> Result<()> {
    let (mut at, end) = (keys.len() * LEN_BYTES, bytes.len());
    let header = bytes.get(..at).ok_or_else(malformed)?;
    let lens: Vec<usize> = header
        .chunks_exact(LEN_BYTES)
        .map(|len| narrow(u64::from_le_bytes(len.try_into().unwrap_or_default())))
        .collect();
    let message = Arc::new(bytes);
    for (&key, len) in keys.iter().zip(lens) {
        let place = at..at.checked_add(len).filter(|&to| to <= end).ok_or_else(malformed)?;
        at = place.end;
        packets.insert(key, Packet { message: message.clone(), place });
    }
    if at == end { Ok(()) } else { Err(malformed()) }
}

impl Executor<'_> {
    /// Write: brings the packets of this round to the ranks that store them.
    pub(super) async fn forward_writes(&mut self, phases: Phases, round: u64) -> Result<()> {
        self.mail.packets.clear();
        let rank = self.job.communicator.rank();
        for phase in 0..phases.count {
            let began = self.job.communicator.now();
            if let Some(to) = phases.target(rank, phase) {
                self.send_packets(to, &keys(phases, rank, to, phase), round).await?;
            }
            for from in phases.senders(rank, phase) {
                self.receive_packets(from, &keys(phases, from, rank, phase)).await?;
            }
            self.statistics.add_phase(phase, since(self.job.communicator, began));
        }
        Ok(())
    }

    /// A message of packets that this rank has; its own come from its buffer in a write. A rank
    /// that has given up writes nothing, but passes on what is read.
    fn pack(&mut self, keys: &[PacketKey], round: u64) -> Vec<u8> {
        let rank = self.job.communicator.rank();
        let writes = self.job.prepared.direction == Direction::Write;
        if writes && self.mail.gave_up {
            return vec![GAVE_UP];
        }
        let (mut own, mut passed) = (Vec::new(), Vec::new());
        for key in keys {
            let is_own = writes && key.0 == rank;
            own.push(if is_own { self.own_positions(key.1, round) } else { 0..0 });
            passed.push(self.mail.packets.remove(key).unwrap_or_default());
        }
        let parts = || own.iter().zip(passed.iter().map(Packet::bytes));
        let len = |own: &Range<u64>, passed: &[u8]| narrow(own.end - own.start) + passed.len();
        let total: usize = parts().map(|(own, passed)| len(own, passed)).sum();
        let mut message = Vec::with_capacity(total + keys.len() * LEN_BYTES + 1);
        for (own, passed) in parts() {
            message.extend(wide(len(own, passed)).to_le_bytes());
        }
        for (own, passed) in parts() {
            let at = message.len();
            message.extend_from_slice(passed);
            if !passed.is_empty() {
                let bytes = wide(passed.len());
                charge(self.job.communicator, || CoreWork::Copy { bytes, pieces: 1 });
            }
            if !own.is_empty() {
                message.resize(at + len(own, passed), 0);
                self.job.buffer.pack(own, &mut message[at..]);
                let access = &self.job.prepared.own;
                self.job.charge_copy(&Parcel { access, positions: own.clone() });
            }
        }
        message.push(self.mail.state());
        message
    }

    /// The positions of this rank's own data that a class stores in a round.
    fn own_positions(&self, class: u32, round: u64) -> Range<u64> {
        let own = &self.job.prepared.own;
        let domain = self.shuffled.domain_of(class);
        domain.map_or(0..0, |domain| own.within(&self.shuffled.window(domain, round)))
    }

    /// Read: brings the packets of this round from the ranks that fetched them to those that asked
    /// for them. A rank that has given up still passes on what it gets.
    pub(super) async fn forward_reads(&mut self, phases: Phases, round: u64) -> Result<()> {
        let rank = self.job.communicator.rank();
        for phase in (0..phases.count).rev() {
            let began = self.job.communicator.now();
            for to in phases.senders(rank, phase) {
                self.send_packets(to, &keys(phases, to, rank, phase), round).await?;
            }
            if let Some(from) = phases.target(rank, phase) {
                self.receive_packets(from, &keys(phases, rank, from, phase)).await?;
            }
            self.statistics.add_phase(phase, since(self.job.communicator, began));
        }
        let mut packets = std::mem::take(&mut self.mail.packets);
        for domain in self.shuffled.domains() {
            let positions = self.own_positions(domain.aggregator, round);
            if !positions.is_empty() && self.shuffled.holder(rank, domain) != rank {
                let packet = packets.remove(&(rank, domain.aggregator)).unwrap_or_default();
                let parcel = Parcel { access: &self.job.prepared.own, positions };
                self.unpack_own(&parcel, packet.bytes());
            }
        }
        self.statistics.packing += catch_up(self.job.communicator).await;
        Ok(())
    }

    /// Sends packets, if there are any.
    async fn send_packets(&mut self, to: u32, keys: &[PacketKey], round: u64) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let message = self.pack(keys, round);
        self.statistics.packing += catch_up(self.job.communicator).await;
        self.send(to, Lane::Data, message)
    }

    /// Receives packets, if there are any.
    async fn receive_packets(&mut self, from: u32, keys: &[PacketKey]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let bytes = self.receive_data(from).await?;
        let is_nothing = bytes.is_empty() && self.mail.gave_up;
        if !is_nothing && unpack(bytes, keys, &mut self.mail.packets).is_err() {
            self.refuse();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_cut_or_changed_is_refused() {
        let keys = [(0, 1), (2, 1)];
        let mut message = Vec::new();
        for len in [3u64, 2] {
            message.extend(len.to_le_bytes());
        }
        message.extend(b"abcde");
        let mut packets = Packets::new();
        unpack(message.clone(), &keys, &mut packets).unwrap();
        assert_eq!(packets[&(0, 1)].bytes(), b"abc");
        assert_eq!(packets[&(2, 1)].bytes(), b"de");
        for len in 0..message.len() {
            assert!(unpack(message[..len].to_vec(), &keys, &mut Packets::new()).is_err(), "{len}");
        }
        let longer = [&message[..], b"f"].concat();
        assert!(unpack(longer, &keys, &mut Packets::new()).is_err());
        let mut long = message.clone();
        long[0] = 255;
        long[7] = 255;
        assert!(unpack(long, &keys, &mut Packets::new()).is_err());
    }
}
