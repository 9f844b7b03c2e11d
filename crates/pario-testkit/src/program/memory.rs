//! The memory of a rank's piece, and calls that have it.

use super::Piece;
use super::oracle::Outcome;
use pario::{OwnedBuffer, Pending, Source, Split, Status, Target, Typed};

/// A call that has begun.
pub(super) enum Running {
    Pending(Pending<Memorized>),
    Split(Split<Memorized>),
}

impl Running {
    pub(super) async fn end(self) -> (pario::Result<Status>, Memorized) {
        match self {
            Running::Pending(pending) => pending.await,
            Running::Split(split) => split.end(),
        }
    }
}

/// The memory of a piece.
pub(super) enum Memorized {
    Plain(Vec<u8>),
    Typed(Typed),
}

impl Memorized {
    pub(super) fn new(piece: &Piece, outcome: Option<&Outcome>) -> Result<Memorized, String> {
        let (bytes, origin) = match outcome {
            Some(outcome) => (outcome.before.clone(), outcome.origin),
            None => (Vec::new(), 0),
        };
        Ok(match &piece.memory {
            None => Memorized::Plain(bytes),
            Some(memory) => {
                let datatype = memory.build().map_err(|error| error.to_string())?;
                Memorized::Typed(Typed { values: bytes, origin, count: piece.count, datatype })
            }
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Memorized::Plain(bytes) => bytes,
            Memorized::Typed(typed) => &typed.values,
        }
    }
}

impl OwnedBuffer for Memorized {
    fn source(&self) -> pario::Result<Source<'_>> {
        match self {
            Memorized::Plain(bytes) => bytes.source(),
            Memorized::Typed(typed) => typed.source(),
        }
    }

    fn target(&mut self) -> pario::Result<Target<'_>> {
        match self {
            Memorized::Plain(bytes) => bytes.target(),
            Memorized::Typed(typed) => typed.target(),
        }
    }
}
