//! What stands in a ring: frames, each a header and, for messages that travel in the ring, their
//! bytes.

use pario::Result;
use pario::comm::{Lane, RemoteRun, Tag};

use super::ring::{Reading, broken};

pub(super) const HEADER_BYTES: usize = 32;

/// What a header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message of so many bytes, which follow.
    Bytes(Tag, usize),
    /// A message whose bytes are in the memory of its sender.
    Lent(Tag, RemoteRun),
    /// The bytes at this address are no longer needed.
    Returned(usize),
    /// The bytes at this address cannot be read, and have to be sent.
    Refused(usize),
    /// This number of bytes, which were at this address, follows.
    Content(usize, usize),
}

const BYTES: u8 = 0;
const LENT: u8 = 1;
const RETURNED: u8 = 2;
const REFUSED: u8 = 3;
const CONTENT: u8 = 4;
const LANES: [Lane; 3] = [Lane::Control, Lane::Data, Lane::Answer];

impl Frame {
    pub(super) fn header(self) -> [u8; HEADER_BYTES] {
        const NO_TAG: Tag = Tag { call: 0, lane: Lane::Control };
        let (kind, tag, len, address) = match self {
            Frame::Bytes(tag, len) => (BYTES, tag, len, 0),
            Frame::Lent(tag, run) => (LENT, tag, run.len, run.address),
            Frame::Returned(address) => (RETURNED, NO_TAG, 0, address),
            Frame::Refused(address) => (REFUSED, NO_TAG, 0, address),
            Frame::Content(address, len) => (CONTENT, NO_TAG, len, address),
        };
        let number = |value: usize| u64::try_from(value).unwrap_or(u64::MAX).to_le_bytes();
        let mut header = [0; HEADER_BYTES];
        header[0] = kind;
        header[1] = tag.lane as u8;
        header[8..16].copy_from_slice(&tag.call.to_le_bytes());
        header[16..24].copy_from_slice(&number(len));
        header[24..].copy_from_slice(&number(address));
        header
    }

    fn parse(header: &[u8]) -> Result<Frame> {
        let number = |start: usize| {
            let bytes = header.get(start..start + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let size = |start: usize| usize::try_from(number(start)).unwrap_or(usize::MAX);
        let [kind, lane, ..] = header else { return Err(broken("a frame without a header")) };
        let lane = LANES.get(usize::from(*lane)).ok_or_else(|| broken("a frame of no lane"))?;
        let (tag, len) = (Tag { call: number(8), lane: *lane }, size(16));
        // No vector is longer.
        if isize::try_from(len).is_err() {
            return Err(broken("a frame that is too long"));
        }
        match *kind {
            BYTES => Ok(Frame::Bytes(tag, len)),
            LENT => Ok(Frame::Lent(tag, RemoteRun { address: size(24), len })),
            RETURNED => Ok(Frame::Returned(size(24))),
            REFUSED => Ok(Frame::Refused(size(24))),
            CONTENT => Ok(Frame::Content(size(24), len)),
            _ => Err(broken("a frame of no kind")),
        }
    }
}

/// What came out of a ring.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Bytes(Tag, Vec<u8>),
    Lent(Tag, RemoteRun),
    Returned(usize),
    Refused(usize),
    /// The bytes that were at an address.
    Content(usize, Vec<u8>),
}

/// What the bytes of a frame are.
#[derive(Clone, Copy)]
enum Payload {
    Message(Tag),
    /// Of a message that was lent, at an address.
    Content(usize),
}

/// Puts messages together that come in parts.
#[derive(Default)]
pub(super) struct Assembly {
    /// That of which a part is here: what it is, its bytes and how many they will be.
    begun: Option<(Payload, Vec<u8>, usize)>,
}

impl Assembly {
    /// The next thing that is whole. `None` if more bytes are needed.
    pub(super) fn next(&mut self, reading: &mut Reading<'_>) -> Result<Option<Arrival>> {
        let (payload, mut bytes, len) = match self.begun.take() {
            Some(begun) => begun,
            None if reading.len() < HEADER_BYTES => return Ok(None),
            None => {
                let mut header = Vec::with_capacity(HEADER_BYTES);
                reading.take(HEADER_BYTES, &mut header);
                match Frame::parse(&header)? {
                    Frame::Lent(tag, run) => return Ok(Some(Arrival::Lent(tag, run))),
                    Frame::Returned(address) => return Ok(Some(Arrival::Returned(address))),
                    Frame::Refused(address) => return Ok(Some(Arrival::Refused(address))),
                    Frame::Bytes(tag, len) => (Payload::Message(tag), room_for(len)?, len),
                    Frame::Content(address, len) => {
                        (Payload::Content(address), room_for(len)?, len)
                    }
                }
            }
        };
        let part = reading.len().min(len - bytes.len());
        reading.take(part, &mut bytes);
        if bytes.len() < len {
            self.begun = Some((payload, bytes, len));
            return Ok(None);
        }
        Ok(Some(match payload {
            Payload::Message(tag) => Arrival::Bytes(tag, bytes),
            Payload::Content(address) => Arrival::Content(address, bytes),
        }))
    }
}

pub(super) fn room_for(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| broken("a message that no memory can hold"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::ring::{Control, Ring};
    use super::*;

    const CAPACITY: usize = 128;

    fn with_ring(test: impl FnOnce(Ring<'_>)) {
        let (control, mut bytes) = (Control::default(), [0u8; CAPACITY]);
        // SAFETY: the memory outlives the ring and is used by nobody else.
        test(unsafe { Ring::new(&control, bytes.as_mut_ptr(), CAPACITY) });
    }

    fn tag(call: u64, lane: Lane) -> Tag {
        Tag { call, lane }
    }

    #[test]
    fn every_frame_is_what_its_header_says() {
        let run = RemoteRun { address: usize::MAX - 5, len: 1 << 40 };
        for lane in LANES {
            let frames = [
                Frame::Bytes(tag(u64::MAX, lane), 0),
                Frame::Bytes(tag(0, lane), isize::MAX as usize),
                Frame::Lent(tag(7, lane), run),
                Frame::Returned(1 << 47),
                Frame::Refused(1 << 47),
                Frame::Content(1 << 47, 1 << 40),
            ];
            for frame in frames {
                assert_eq!(Frame::parse(&frame.header()).unwrap(), frame);
            }
        }
    }

    #[test]
    fn a_message_longer_than_the_ring_streams_through_it() {
        with_ring(|ring| {
            let long: Vec<u8> = (0..1000u32).map(|index| (index * 7 % 251) as u8).collect();
            let tags = [tag(3, Lane::Data), tag(4, Lane::Answer)];
            let stream = [
                &Frame::Bytes(tags[0], long.len()).header()[..],
                &long,
                &Frame::Bytes(tags[1], 0).header(),
            ]
            .concat();
            let (mut sent, mut assembly, mut arrived) = (0, Assembly::default(), Vec::new());
            while sent < stream.len() {
                // In pieces of other lengths than the ring's, so that headers are torn, too.
                let end = stream.len().min(sent + 50);
                sent += ring.write([&stream[sent..end], &[]]).unwrap();
                let mut reading = ring.read().unwrap();
                while let Some(one) = assembly.next(&mut reading).unwrap() {
                    arrived.push(one);
                }
            }
            let expected = [Arrival::Bytes(tags[0], long), Arrival::Bytes(tags[1], Vec::new())];
            assert_eq!(arrived, expected);
        });
    }

    #[test]
    fn a_frame_that_makes_no_sense_is_an_error() {
        let good = Frame::Bytes(tag(1, Lane::Data), 8).header();
        for (place, value) in [(0, 5), (1, 3), (23, 0x80), (23, 0xff), (22, 0xff)] {
            let mut header = good;
            header[place] = value;
            with_ring(|ring| {
                ring.write([&header, &[0; 8]]).unwrap();
                let arrival = Assembly::default().next(&mut ring.read().unwrap());
                assert!(arrival.is_err(), "byte {place} is {value}: {arrival:?}");
            });
        }
    }
}
