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
use super::messages::{GAVE_UP, GOES_ON, malformed};
use crate::access::memory::Parcel;
use crate::comm::Lane;
use crate::error::Result;
use crate::number::{narrow, wide};
use crate::plan::Phases;
use crate::virtual_time::Moment;

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
type Key = (u32, u32);

/// The packets of a message from one rank to another, in the order in which they stand in it.
fn keys(phases: Phases, from: u32, to: u32, phase: u32) -> Vec<Key> {
    let sources = phases.sources(from, phase).into_iter();
    let classes: Vec<u32> = phases.classes_of(to, phase + 1).collect();
    sources.flat_map(|source| classes.iter().map(move |&class| (source, class))).collect()
}

/// Takes a message apart; returns whether its sender goes on.
fn unpack(bytes: Vec<u8>, keys: &[Key], packets: &mut Packets) -> Result<u8> {
    let (&state, rest) = bytes.split_last().ok_or_else(malformed)?;
    let mut at = keys.len() * LEN_BYTES;
    if rest.is_empty() && state == GAVE_UP {
        return Ok(state);
    }
    let header = rest.get(..at).ok_or_else(malformed)?;
    let lens: Vec<usize> = header
        .chunks_exact(LEN_BYTES)
        .map(|len| narrow(u64::from_le_bytes(len.try_into().unwrap_or_default())))
        .collect();
    let end = rest.len();
    let message = Arc::new(bytes);
    for (&key, len) in keys.iter().zip(lens) {
        let place = at..at.checked_add(len).filter(|&to| to <= end).ok_or_else(malformed)?;
        at = place.end;
        packets.insert(key, Packet { message: message.clone(), place });
    }
    Ok(state)
}

impl Executor<'_> {
    /// Write: brings the packets of this round to the ranks that store them.
    pub(super) async fn relay_forth(&mut self, phases: Phases, round: u64) -> Result<()> {
        self.mail().packets.clear();
        let rank = self.job.communicator.rank();
        for phase in 0..phases.count {
            let began = Moment::now();
            if let Some((to, keys)) = self.keys_forth(phases, phase) {
                let message = match self.mail().gave_up {
                    true => vec![GAVE_UP],
                    false => self.pack(&keys, round),
                };
                self.send(to, Lane::Data, message)?;
            }
            for from in phases.senders(rank, phase) {
                let keys = keys(phases, from, rank, phase);
                if !keys.is_empty() {
                    let bytes = self.receive(from, Lane::Data).await?;
                    self.take_packets(bytes, &keys)?;
                }
            }
            self.statistics.add_phase(phase, began.elapsed());
        }
        Ok(())
    }

    /// The rank to which this one sends packets in a phase of a write, and which.
    fn keys_forth(&self, phases: Phases, phase: u32) -> Option<(u32, Vec<Key>)> {
        let rank = self.job.communicator.rank();
        let to = phases.target(rank, phase)?;
        let keys = keys(phases, rank, to, phase);
        (!keys.is_empty()).then_some((to, keys))
    }

    /// A message of packets that this rank has; its own come from its buffer.
    fn pack(&mut self, keys: &[Key], round: u64) -> Vec<u8> {
        let rank = self.job.communicator.rank();
        let own: Vec<Range<u64>> = keys
            .iter()
            .map(|&(source, class)| match source == rank {
                true => self.own_positions(class, round),
                false => 0..0,
            })
            .collect();
        let buffer = self.job.buffer;
        let packets = &mut self.mail().packets;
        let passed = |key: &Key| packets.get(key).map_or(&[][..], Packet::bytes);
        let len = |(key, own): (&Key, &Range<u64>)| match key.0 == rank {
            true => narrow(own.end - own.start),
            false => passed(key).len(),
        };
        let lens: Vec<usize> = keys.iter().zip(&own).map(len).collect();
        let total = lens.iter().sum::<usize>() + keys.len() * LEN_BYTES + 1;
        let mut message = Vec::with_capacity(total);
        lens.iter().for_each(|&len| message.extend(wide(len).to_le_bytes()));
        for ((key, own), len) in keys.iter().zip(&own).zip(lens) {
            if key.0 == rank && len > 0 {
                let at = message.len();
                message.resize(at + len, 0);
                if let Some(room) = message.get_mut(at..) {
                    buffer.pack(own, room);
                }
            } else {
                message.extend_from_slice(passed(key));
            }
        }
        for key in keys {
            packets.remove(key);
        }
        message.push(GOES_ON);
        message
    }

    /// The positions of this rank's own data that a class stores in a round.
    fn own_positions(&self, class: u32, round: u64) -> Range<u64> {
        let mut domains = self.shuffled.domains().iter();
        let domain = domains.find(|domain| domain.aggregator == class);
        domain.map_or(0..0, |domain| {
            self.job.prepared.own.within(&self.shuffled.window(domain, round))
        })
    }

    /// Read: brings the packets of this round from the ranks that fetched them to those that asked
    /// for them. A rank that has given up still passes on what it gets.
    pub(super) async fn relay_back(&mut self, phases: Phases, round: u64) -> Result<()> {
        let rank = self.job.communicator.rank();
        for phase in (0..phases.count).rev() {
            let began = Moment::now();
            for to in phases.senders(rank, phase) {
                let keys = keys(phases, to, rank, phase);
                if !keys.is_empty() {
                    let message = self.pack_back(&keys);
                    self.send(to, Lane::Data, message)?;
                }
            }
            if let Some((from, keys)) = self.keys_forth(phases, phase) {
                let bytes = self.receive(from, Lane::Data).await?;
                self.take_packets(bytes, &keys)?;
            }
            self.statistics.add_phase(phase, began.elapsed());
        }
        let mut packets = std::mem::take(&mut self.mail().packets);
        for domain in self.shuffled.domains() {
            let positions = self.own_positions(domain.aggregator, round);
            if !positions.is_empty() && self.shuffled.holder(rank, domain) != rank {
                let packet = packets.remove(&(rank, domain.aggregator)).unwrap_or_default();
                let parcel = Parcel { access: &self.job.prepared.own, positions };
                self.unpack_own(&parcel, packet.bytes())?;
            }
        }
        Ok(())
    }

    /// Takes a message apart.
    fn take_packets(&mut self, bytes: Vec<u8>, keys: &[Key]) -> Result<()> {
        let mail = self.mail();
        mail.gave_up |= unpack(bytes, keys, &mut mail.packets)? == GAVE_UP;
        Ok(())
    }

    fn pack_back(&mut self, keys: &[Key]) -> Vec<u8> {
        let packets: Vec<Packet> =
            keys.iter().map(|key| self.mail().packets.remove(key).unwrap_or_default()).collect();
        let total: usize = packets.iter().map(|packet| packet.bytes().len()).sum();
        let mut message = Vec::with_capacity(total + keys.len() * LEN_BYTES + 1);
        for packet in &packets {
            message.extend(wide(packet.bytes().len()).to_le_bytes());
        }
        packets.iter().for_each(|packet| message.extend_from_slice(packet.bytes()));
        message.push(if self.mail().gave_up { GAVE_UP } else { GOES_ON });
        message
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
        message.extend(b"abcde\0");
        let mut packets = Packets::new();
        assert_eq!(unpack(message.clone(), &keys, &mut packets).unwrap(), GOES_ON);
        assert_eq!(packets[&(0, 1)].bytes(), b"abc");
        assert_eq!(packets[&(2, 1)].bytes(), b"de");
        for len in 0..message.len() - 1 {
            assert!(unpack(message[..len].to_vec(), &keys, &mut Packets::new()).is_err(), "{len}");
        }
        let mut long = message.clone();
        long[0] = 255;
        long[7] = 255;
        assert!(unpack(long, &keys, &mut Packets::new()).is_err());
        assert_eq!(unpack(vec![GAVE_UP], &keys, &mut Packets::new()).unwrap(), GAVE_UP);
    }
}
