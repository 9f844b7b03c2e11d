//! What a planner is asked: the request of each rank, and the conditions of the call.
//!
//! A call and `pario explain` ask in the same words. Statistics keep them
//! ([`Asked`](crate::Asked)), so that a recorded call can be planned again.

use std::ops::Range;

use super::{Correction, Doubt};
use crate::access::{Access, InMemory};
use crate::datatype::wire::{Reader, Writer};
use crate::direction::Direction;
use crate::error::Result;
use crate::request;
use crate::view::{CompiledView, View};

/// What the planner knows of one rank's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Offset of its first byte in the file.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Mean length of its contiguous pieces.
    pub piece_bytes: u64,
    /// Whether its bytes come in the order of their offsets, none twice.
    pub sorted: bool,
    /// How its bytes lie in memory.
    pub memory: InMemory,
}

impl Request {
    /// No bytes.
    pub(crate) const NOTHING: Request = Request::of_pieces(0..0, 0, 1);

    /// Bytes in the order of their offsets, contiguous in memory, within a range of the file.
    pub const fn of_pieces(within: Range<u64>, bytes: u64, piece_bytes: u64) -> Request {
        let Range { start, end } = within;
        let (sorted, memory) = (true, InMemory::CONTIGUOUS);
        Request { start, end, bytes, piece_bytes, sorted, memory }
    }

    /// What a rank asks for that moves the first bytes of a view, contiguous in memory.
    ///
    /// # Errors
    /// `Type` or `Arg` if there is no such view, or if it does not have that number of bytes.
    pub fn of_view(view: &View, bytes: u64) -> Result<Request> {
        let access = request::access(&CompiledView::new(view, false)?, 0, bytes)?;
        Ok(Request::new(&access, InMemory::CONTIGUOUS))
    }

    pub(crate) fn new(access: &Access, memory: InMemory) -> Request {
        let Range { start, end } = access.reach();
        let (bytes, piece_bytes) = (access.len(), access.piece_bytes());
        Request { start, end, bytes, piece_bytes, sorted: access.is_sorted(), memory }
    }

    /// The number of its contiguous pieces.
    pub fn pieces(&self) -> u64 {
        self.bytes.div_ceil(self.piece_bytes.max(1))
    }

    /// Bytes from its first to its last one.
    pub fn reach(&self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let Request { start, end, bytes, piece_bytes, sorted, memory } = *self;
        let orders = u64::from(sorted) | u64::from(memory.in_order) << 1;
        for number in [start, end, bytes, piece_bytes, orders, memory.piece_bytes] {
            writer.unsigned(number);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Request> {
        let (start, end) = (reader.unsigned()?, reader.unsigned()?);
        let (bytes, piece_bytes) = (reader.unsigned()?, reader.unsigned()?.max(1));
        let orders = reader.unsigned()?;
        let (sorted, in_order) = (orders & 1 != 0, orders & 2 != 0);
        let memory = InMemory { in_order, piece_bytes: reader.unsigned()?.max(1) };
        Ok(Request { start, end, bytes, piece_bytes, sorted, memory })
    }
}

/// What a plan depends on besides the requests, the hints, the file and the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Which way the bytes go.
    pub direction: Direction,
    /// Whether all ranks make the call together.
    pub collective: bool,
    /// Whether every rank knows every piece of all requests: regular accesses, not long lists.
    pub regular: bool,
    /// Whether requests must be serialised as a whole (MPI's atomic mode).
    pub atomic: bool,
    /// Whether no rank makes other calls on the file meanwhile: so it is in a blocking
    /// collective, which no rank leaves before all have entered it and are done.
    pub undisturbed: bool,
    /// Whether two requests may name the same byte.
    pub overlaps: bool,
    /// How times that were measured compare with predicted ones.
    pub correction: Correction,
    /// What is not known of ways that no call has used, if the profile is wrong.
    pub doubt: Option<Doubt>,
}

impl Conditions {
    /// Those of a call that one rank makes by itself.
    pub fn independent(direction: Direction) -> Conditions {
        Conditions {
            direction,
            collective: false,
            regular: true,
            atomic: false,
            undisturbed: false,
            overlaps: false,
            correction: Correction::default(),
            doubt: None,
        }
    }

    /// Those of a blocking collective with regular accesses, which do not overlap.
    pub fn collective(direction: Direction) -> Conditions {
        Conditions { collective: true, undisturbed: true, ..Conditions::independent(direction) }
    }
}
