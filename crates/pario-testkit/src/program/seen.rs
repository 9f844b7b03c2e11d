//! Requests written out: every byte of a view, every element of a buffer.

use super::external;
use super::noise;
use super::oracle::{mix, narrow, require};
use crate::typemap::Typemap;
use pario::Element;

/// Bytes around the data of a buffer, which nobody may touch.
const MARGIN_BYTES: usize = 3;

/// A view, written out.
pub(super) struct SeenFile {
    displacement: i64,
    /// The offsets of the bytes of one filetype.
    bytes: Vec<i64>,
    extent: i64,
    pub(super) etype_bytes: u64,
    pub(super) external: bool,
    /// Whether offsets increase, also from one filetype to the next.
    pub(super) sorted: bool,
}

/// One rank's part of a transfer, with its place in the file.
pub(super) struct Request {
    pub(super) rank: usize,
    pub(super) map: Typemap,
    pub(super) count: u64,
    /// The offset in the file of every byte.
    pub(super) offsets: Vec<usize>,
    /// Decides the bytes in memory.
    pub(super) seed: u64,
}

impl SeenFile {
    pub(super) fn new(
        displacement: u64,
        etype: &Typemap,
        filetype: &Typemap,
        writable: bool,
    ) -> Result<SeenFile, String> {
        require(!etype.bytes.is_empty(), "an etype without data")?;
        require(filetype.size().is_multiple_of(etype.size()), "a filetype of broken etypes")?;
        let increase = |map: &Typemap| map.bytes.windows(2).all(|pair| pair[0] < pair[1]);
        let tiles = filetype.bytes.is_empty()
            || filetype.extent() >= filetype.true_extent() && filetype.extent() > 0;
        let sorted = increase(filetype) && tiles;
        require(!writable || sorted && increase(etype), "overlap in a view for writing")?;
        require(filetype.bytes.is_empty() || filetype.extent() > 0, "a view that ends")?;
        // For reading, the places of etypes ascend; `bytes` has them one etype after the other.
        let starts: Vec<i64> = filetype.bytes.iter().step_by(etype.bytes.len()).copied().collect();
        require(starts.is_sorted() && increase(etype), "a filetype that goes backwards")?;
        let lower = etype.true_lower_bound().min(filetype.true_lower_bound());
        require(lower >= 0, "a negative displacement")?;
        Ok(SeenFile {
            displacement: i64::try_from(displacement).map_err(|error| error.to_string())?,
            bytes: filetype.bytes.clone(),
            extent: filetype.extent(),
            etype_bytes: etype.size(),
            external: false,
            sorted,
        })
    }

    /// Offset in the file of a byte of data.
    pub(super) fn offset(&self, data: u64) -> Option<usize> {
        let (data, len) = (narrow(data), self.bytes.len());
        let tile = i64::try_from(data.checked_div(len)?).ok()?;
        usize::try_from(self.displacement + tile * self.extent + self.bytes[data % len]).ok()
    }
}

impl Request {
    /// The memory before a run, and the index of offset 0.
    pub(super) fn memory(&self, run: usize) -> (Vec<u8>, usize) {
        let reach = self.map.reach(self.count);
        let (start, end) = (reach.start.min(0), reach.end.max(0));
        let len = usize::try_from(end - start).expect("not negative") + 2 * MARGIN_BYTES;
        let origin = usize::try_from(-start).expect("not negative") + MARGIN_BYTES;
        let plain = self.map == Typemap::element(Element::Byte);
        let (len, origin) = if plain { (narrow(self.count), 0) } else { (len, origin) };
        (noise(mix(self.seed, &[run]), len), origin)
    }

    fn elements(&self) -> impl Iterator<Item = Element> {
        let all = (0..self.count).flat_map(|_| &self.map.elements);
        all.copied()
    }

    /// Makes the bytes in memory values that `external32` can hold.
    pub(super) fn tame(&self, memory: &mut [u8], origin: usize) {
        let mut packed = self.map.pack(self.count, memory, origin);
        let mut rest = packed.as_mut_slice();
        for element in self.elements() {
            let (value, others) = rest.split_at_mut(external::size(element));
            external::tame(element, value);
            rest = others;
        }
        self.map.unpack(self.count, &packed, memory, origin);
    }

    pub(super) fn encode(&self, native: &[u8]) -> Vec<u8> {
        let mut rest = native;
        let mut data = Vec::new();
        for element in self.elements() {
            let (value, others) = rest.split_at(external::size(element));
            data.extend(external::encode(element, value));
            rest = others;
        }
        data
    }

    /// The whole elements of what was read.
    pub(super) fn decode(&self, file: &[u8]) -> Vec<u8> {
        let mut rest = file;
        let mut data = Vec::new();
        for element in self.elements() {
            let Some((value, others)) = rest.split_at_checked(external::external_bytes(element))
            else {
                break;
            };
            data.extend(external::decode(element, value));
            rest = others;
        }
        data
    }
}
