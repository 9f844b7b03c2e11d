//! The memory of a rank's part of a step, and the calls that use it.

use super::Piece;
use super::oracle::Outcome;
use pario::{File, OwnedBuffer, Pending, Position, Source, Split, Status, Target, Typed};

/// A call that has begun.
pub(super) enum Running {
    Pending(Pending<Memorized>),
    Split(Split<Memorized>),
    /// A blocking collective of a rank that must not block its thread.
    Blocking {
        write: bool,
        position: Position,
        buffer: Memorized,
    },
}

impl Running {
    pub(super) async fn end(self, file: &File) -> (pario::Result<Status>, Memorized) {
        match self {
            Running::Pending(pending) => pending.await,
            Running::Split(split) => split.end(),
            Running::Blocking { write, position, mut buffer } => {
                let status = match write {
                    true => match buffer.source() {
                        Ok(source) => file.handle().write_all(position, source).await,
                        Err(error) => Err(error),
                    },
                    false => match buffer.target() {
                        Ok(target) => file.handle().read_all(position, target).await,
                        Err(error) => Err(error),
                    },
                };
                (status, buffer)
            }
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
