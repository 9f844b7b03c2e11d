//! What a rank measured in its last call, as it announces it.

use crate::datatype::wire::{Reader, Writer};
use crate::error::Result;

/// Times of one rank in a collective; none, if the call is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lesson {
    pub(crate) call: u64,
    pub(crate) exchange_ns: u64,
    pub(crate) storage_ns: u64,
}

impl Lesson {
    pub(crate) fn write(self, writer: &mut Writer) {
        for number in [self.call, self.exchange_ns, self.storage_ns] {
            writer.unsigned(number);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Lesson> {
        let (call, exchange_ns) = (reader.unsigned()?, reader.unsigned()?);
        Ok(Lesson { call, exchange_ns, storage_ns: reader.unsigned()? })
    }
}
