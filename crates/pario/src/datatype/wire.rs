//! Layouts as bytes, to send them to another rank.
//!
//! Numbers are variable-length (7 bits a byte), signed ones zigzag; offsets inside a sequence are
//! differences. A vector of any size is some ten bytes, an irregular list three to six bytes an
//! entry. Reading checks everything: a malformed message is an error, never a panic, and never
//! allocates more than in proportion to its own length.

use super::layout::{Layout, Node, Shape, WIRE_DEPTH_MAX};
use crate::error::{Error, ErrorClass, Result};
use crate::number::wide;

const BLOCK: u64 = 0;
const LOOP: u64 = 1;
const SEQUENCE: u64 = 2;

/// Appends numbers to a message.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }

    pub(crate) fn signed(&mut self, value: i64) {
        self.unsigned((value << 1 ^ value >> 63).cast_unsigned());
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) {
        self.unsigned(wide(bytes.len()));
        self.bytes.extend(bytes);
    }

    /// An error, or that there is none.
    pub(crate) fn error(&mut self, error: Option<&Error>) {
        self.text(&error.map(Error::to_wire).unwrap_or_default());
    }

    pub(crate) fn layout(&mut self, layout: &Layout) {
        self.signed(layout.origin);
        self.node(&layout.node);
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Block(len) => {
                self.unsigned(BLOCK);
                self.unsigned(*len);
            }
            Node::Tree(tree) => match &tree.shape {
                Shape::Loop { count, stride, body } => {
                    self.unsigned(LOOP);
                    self.unsigned(*count);
                    self.signed(*stride);
                    self.node(body);
                }
                Shape::Sequence(parts) => {
                    self.unsigned(SEQUENCE);
                    self.unsigned(wide(parts.len()));
                    let mut previous = 0;
                    for part in parts {
                        self.signed(part.offset.wrapping_sub(previous));
                        self.node(&part.node);
                        previous = part.offset;
                    }
                }
                Shape::List(list) => {
                    self.unsigned(SEQUENCE);
                    self.unsigned(wide(list.len()));
                    let mut previous = 0;
                    for (offset, len) in list.blocks() {
                        self.signed(offset.wrapping_sub(previous));
                        self.node(&Node::Block(len));
                        previous = offset;
                    }
                }
            },
        }
    }
}

/// Takes numbers from a message.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

fn malformed() -> Error {
    Error::new(ErrorClass::Intern, "a rank sent a malformed description of its request")
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(crate) fn unsigned(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first().ok_or_else(malformed)?;
            self.bytes = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(malformed());
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(malformed())
    }

    pub(crate) fn signed(&mut self) -> Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(crate) fn text(&mut self) -> Result<&'a [u8]> {
        let len = usize::try_from(self.unsigned()?).map_err(|_| malformed())?;
        let (text, rest) = self.bytes.split_at_checked(len).ok_or_else(malformed)?;
        self.bytes = rest;
        Ok(text)
    }

    pub(crate) fn error(&mut self) -> Result<Option<Error>> {
        let wire = self.text()?;
        Ok((!wire.is_empty()).then(|| Error::from_wire(wire)))
    }

    pub(crate) fn layout(&mut self) -> Result<Layout> {
        let origin = self.signed()?;
        let node = self.node(0)?;
        Layout { origin: 0, node }.shifted(origin)
    }

    /// Whether everything has been taken.
    pub(crate) fn finish(self) -> Result<()> {
        match self.bytes.is_empty() {
            true => Ok(()),
            false => Err(malformed()),
        }
    }

    fn node(&mut self, depth: u32) -> Result<Node> {
        if depth > WIRE_DEPTH_MAX {
            return Err(malformed());
        }
        match self.unsigned()? {
            BLOCK => Node::block(self.unsigned()?),
            LOOP => {
                let (count, stride) = (self.unsigned()?, self.signed()?);
                let body = self.node(depth + 1)?;
                if count == 0 || body.size() == 0 {
                    return Err(malformed());
                }
                body.repeat(count, stride)
            }
            SEQUENCE => self.sequence(depth),
            _ => Err(malformed()),
        }
    }

    fn sequence(&mut self, depth: u32) -> Result<Node> {
        let count = usize::try_from(self.unsigned()?).map_err(|_| malformed())?;
        // Each part is at least three bytes long.
        if count < 2 || count > self.bytes.len() / 3 {
            return Err(malformed());
        }
        let mut items = Vec::with_capacity(count);
        let mut offset = 0i64;
        for index in 0..count {
            offset = offset.checked_add(self.signed()?).ok_or_else(malformed)?;
            let node = self.node(depth + 1)?;
            if node.size() == 0 || index == 0 && offset != 0 {
                return Err(malformed());
            }
            items.push((offset, node));
        }
        Node::sequence(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Layout {
        let list = [(0, 3), (7, 2), (1000, 4), (1010, 9)];
        let body = Layout::joined(list.map(|(o, l)| Layout::block(o, l).unwrap())).unwrap();
        body.repeated(1_000_000, 4096).unwrap().shifted(-77).unwrap()
    }

    #[test]
    fn a_layout_survives_the_wire() {
        for layout in [Layout::empty(), Layout::block(-5, 9).unwrap(), sample()] {
            let mut writer = Writer::default();
            writer.layout(&layout);
            assert!(writer.bytes.len() < 40);
            let mut reader = Reader::new(&writer.bytes);
            assert_eq!(reader.layout().unwrap(), layout);
            reader.finish().unwrap();
        }
    }

    #[test]
    fn malformed_bytes_are_an_error() {
        let mut writer = Writer::default();
        writer.layout(&sample());
        for end in 0..writer.bytes.len() {
            assert!(Reader::new(&writer.bytes[..end]).layout().is_err());
        }
        let mut state = 12345u64;
        for _ in 0..20_000 {
            let mut bytes = writer.bytes.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let index = (state >> 33) as usize % bytes.len();
                bytes[index] = (state >> 20) as u8;
            }
            // Whatever it says, it says it without a panic.
            let _ = Reader::new(&bytes).layout();
        }
    }

    /// On a stack as small as threads have it somewhere.
    #[test]
    fn a_message_of_any_depth_is_an_error_or_a_layout() {
        let test = || {
            for depth in [100, 5_000, 1_000_000] {
                let mut writer = Writer::default();
                writer.signed(0);
                for _ in 0..depth {
                    writer.unsigned(SEQUENCE);
                    writer.unsigned(2);
                    writer.signed(0);
                }
                writer.unsigned(BLOCK);
                writer.unsigned(1);
                for level in 0..depth {
                    writer.signed(3 + level % 2);
                    writer.unsigned(BLOCK);
                    writer.unsigned(1);
                }
                let read = Reader::new(&writer.bytes).layout();
                assert_eq!(read.is_ok(), depth <= i64::from(WIRE_DEPTH_MAX));
            }
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(test).unwrap().join().unwrap();
    }

    #[test]
    fn numbers_of_every_size_survive() {
        for value in [0, 1, 127, 128, u64::MAX, 1 << 63] {
            let mut writer = Writer::default();
            writer.unsigned(value);
            writer.signed(value.cast_signed());
            let mut reader = Reader::new(&writer.bytes);
            assert_eq!(reader.unsigned().unwrap(), value);
            assert_eq!(reader.signed().unwrap(), value.cast_signed());
        }
    }
}
