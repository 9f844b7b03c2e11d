//! The contents of a ring: frames, each the header of a message and its bytes.

use pario::Result;
use pario::comm::{Lane, Tag};

use super::broken;
use super::ring::Reading;

pub(super) const HEADER_BYTES: usize = 24;

const LANES: [Lane; 3] = [Lane::Control, Lane::Data, Lane::Answer];

/// What a message belongs to: a turn of the communicator (`kept`; 0 outside of all turns), and a
/// call in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stream {
    pub(crate) turn: u32,
    pub(crate) tag: Tag,
}

impl Stream {
    /// Whether it belongs to a turn that is over, if all turns up to one are.
    pub(super) fn is_over(self, turn: u32) -> bool {
        self.turn != 0 && self.turn <= turn
    }
}

/// What a header announces: a message of this number of bytes, which follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) stream: Stream,
    pub(super) len: usize,
}

impl Frame {
    pub(super) fn header(self) -> [u8; HEADER_BYTES] {
        let Frame { stream: Stream { turn, tag }, len } = self;
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        let mut header = [0; HEADER_BYTES];
        header[0] = tag.lane as u8;
        header[4..8].copy_from_slice(&turn.to_le_bytes());
        header[8..16].copy_from_slice(&tag.call.to_le_bytes());
        header[16..].copy_from_slice(&len.to_le_bytes());
        header
    }

    fn parse(header: &[u8]) -> Result<Frame> {
        let number = |start: usize| {
            let bytes = header.get(start..start + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let [lane, ..] = header else { return Err(broken("a frame without a header")) };
        let lane = LANES.get(usize::from(*lane)).ok_or_else(|| broken("a frame of no lane"))?;
        let len = usize::try_from(number(16)).unwrap_or(usize::MAX);
        // No vector is longer.
        if isize::try_from(len).is_err() {
            return Err(broken("a frame that is too long"));
        }
        let turn = header.get(4..8).and_then(|bytes| bytes.try_into().ok());
        let turn = u32::from_le_bytes(turn.unwrap_or_default());
        Ok(Frame { stream: Stream { turn, tag: Tag { call: number(8), lane: *lane } }, len })
    }
}

/// Puts messages together that come in parts.
#[derive(Default)]
pub(super) struct Assembly {
    /// That of which a part is here: its stream, its bytes and how many they will be.
    begun: Option<(Stream, Vec<u8>, usize)>,
}

impl Assembly {
    /// The next message that is whole. `None` if more bytes are needed.
    pub(super) fn next(&mut self, reading: &mut Reading<'_>) -> Result<Option<(Stream, Vec<u8>)>> {
        let (stream, mut bytes, len) = match self.begun.take() {
            Some(begun) => begun,
            None if reading.len() < HEADER_BYTES => return Ok(None),
            None => {
                let mut header = Vec::with_capacity(HEADER_BYTES);
                reading.take(HEADER_BYTES, &mut header);
                let Frame { stream, len } = Frame::parse(&header)?;
                (stream, room_for(len)?, len)
            }
        };
        let part = reading.len().min(len - bytes.len());
        reading.take(part, &mut bytes);
        if bytes.len() < len {
            self.begun = Some((stream, bytes, len));
            return Ok(None);
        }
        Ok(Some((stream, bytes)))
    }
}

fn room_for(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| broken("a message that no memory can hold"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::ring::{Control, Ring};
    use super::super::shared_bytes::SharedBytes;
    use super::*;

    const CAPACITY: usize = 128;

    fn with_ring(test: impl FnOnce(Ring<'_>)) {
        let (control, mut bytes) = (Control::default(), [0u8; CAPACITY]);
        // SAFETY: the memory outlives the ring and is used by nobody else.
        test(unsafe { Ring::new(&control, SharedBytes::new(bytes.as_mut_ptr(), CAPACITY)) });
    }

    fn stream(call: u64, lane: Lane) -> Stream {
        Stream { turn: 5, tag: Tag { call, lane } }
    }

    #[test]
    fn every_frame_is_what_its_header_says() {
        for lane in LANES {
            for (call, len) in [(u64::MAX, 0), (0, isize::MAX as usize), (7, 1 << 40)] {
                for turn in [0, 1, u32::MAX] {
                    let frame = Frame { stream: Stream { turn, ..stream(call, lane) }, len };
                    assert_eq!(Frame::parse(&frame.header()).unwrap(), frame);
                }
            }
        }
    }

    #[test]
    fn a_message_longer_than_the_ring_streams_through_it() {
        with_ring(|ring| {
            let long: Vec<u8> = (0..1000u32).map(|index| (index * 7 % 251) as u8).collect();
            let streams = [stream(3, Lane::Data), stream(4, Lane::Answer)];
            let frames = [
                &Frame { stream: streams[0], len: long.len() }.header()[..],
                &long,
                &Frame { stream: streams[1], len: 0 }.header(),
            ]
            .concat();
            let (mut sent, mut assembly, mut arrived) = (0, Assembly::default(), Vec::new());
            while sent < frames.len() {
                // In pieces of other lengths than the ring's, so that headers are torn, too.
                let end = frames.len().min(sent + 50);
                sent += ring.write([&frames[sent..end], &[]]).unwrap();
                let mut reading = ring.read().unwrap();
                while let Some(one) = assembly.next(&mut reading).unwrap() {
                    arrived.push(one);
                }
            }
            let expected = [(streams[0], long), (streams[1], Vec::new())];
            assert_eq!(arrived, expected);
        });
    }

    #[test]
    fn a_frame_that_makes_no_sense_is_an_error() {
        let good = Frame { stream: stream(1, Lane::Data), len: 8 }.header();
        for (place, value) in [(0, 3), (0, 255), (23, 0x80), (23, 0xff), (22, 0xff)] {
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
