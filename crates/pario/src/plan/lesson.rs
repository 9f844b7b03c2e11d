//! What calls teach a rank, as it announces it: times that it measured, and what it has learned.

use super::{Correction, Factors, Kind};
use crate::datatype::wire::{Reader, Writer};
use crate::error::Result;

/// Times of one rank in a collective (none, if the call is 0), and what it has learned from such
/// times. What rank 0 has learned counts for all, since calls may end in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lesson {
    pub(crate) call: u64,
    pub(crate) exchange_ns: u64,
    pub(crate) storage_ns: u64,
    pub(crate) correction: Correction,
    /// Whether a plan may be given up for a faster one.
    pub(crate) may_switch: bool,
}

impl Lesson {
    pub(crate) fn write(self, writer: &mut Writer) {
        for number in [self.call, self.exchange_ns, self.storage_ns, u64::from(self.may_switch)] {
            writer.unsigned(number);
        }
        // Most files have learned nothing yet.
        let is_corrected = self.correction != Correction::default();
        writer.unsigned(u64::from(is_corrected));
        let kinds = if is_corrected { &Kind::ALL[..] } else { &[] };
        for Factors { exchange, storage } in kinds.iter().map(|&kind| self.correction.of(kind)) {
            writer.unsigned(exchange.to_bits());
            writer.unsigned(storage.to_bits());
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Lesson> {
        let (call, exchange_ns) = (reader.unsigned()?, reader.unsigned()?);
        let (storage_ns, may_switch) = (reader.unsigned()?, reader.unsigned()? != 0);
        let mut correction = Correction::default();
        let kinds = if reader.unsigned()? != 0 { &Kind::ALL[..] } else { &[] };
        for &kind in kinds {
            let exchange = f64::from_bits(reader.unsigned()?);
            *correction.of_mut(kind) =
                Factors { exchange, storage: f64::from_bits(reader.unsigned()?) };
        }
        Ok(Lesson { call, exchange_ns, storage_ns, correction, may_switch })
    }
}
