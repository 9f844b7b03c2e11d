//! The memory of a program whose requests are served without pario.
//!
//! In virtual time it is not there: what is written is zero, and what is read is dropped. Then
//! messages and windows have lengths, but nobody touches their bytes.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::scenario::pieces::Piece;

/// A rank's memory.
pub(crate) enum CallerMemory<'a> {
    Bytes(&'a mut [u8]),
    Nothing(Nothing),
}

/// CallerMemory that is not there. Clones share what stands for its bytes.
#[derive(Clone, Default)]
pub(crate) struct Nothing {
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
    /// As long as the longest piece until now.
    longest: Vec<u8>,
}

impl Nothing {
    /// Spare zeros that are kept for messages and windows.
    const SPARE_MAX: usize = 64;

    /// Zeros, which no one has to write.
    fn zeros(&self, len: usize) -> Vec<u8> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        match spare.iter().position(|one| one.len() == len) {
            Some(at) => spare.swap_remove(at),
            None => vec![0; len],
        }
    }

    fn give_back(&self, zeros: Vec<u8>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() == Nothing::SPARE_MAX {
            spare.remove(0);
        }
        spare.push(zeros);
    }
}

fn bytes_of(parts: &[Piece]) -> usize {
    parts.iter().map(|part| part.range().len()).sum()
}

/// Where a part of a window is in its bytes.
fn place(part: &Range<u64>, window: u64) -> Range<usize> {
    let at = |offset: u64| usize::try_from(offset - window).unwrap_or(usize::MAX);
    at(part.start)..at(part.end)
}

fn range_of(part: &Piece) -> Range<u64> {
    part.offset..part.offset + part.len
}

impl CallerMemory<'_> {
    /// The bytes of a piece.
    pub(super) fn of(&mut self, piece: &Piece) -> &mut [u8] {
        match self {
            CallerMemory::Bytes(bytes) => &mut bytes[piece.range()],
            CallerMemory::Nothing(Nothing { longest, .. }) => {
                let len = piece.range().len();
                if longest.len() < len {
                    *longest = vec![0; len];
                }
                &mut longest[..len]
            }
        }
    }

    /// Room for a window.
    pub(super) fn room(&self, len: usize) -> Vec<u8> {
        match self {
            CallerMemory::Bytes(_) => vec![0; len],
            CallerMemory::Nothing(nothing) => nothing.zeros(len),
        }
    }

    /// A window or a message is not needed any more.
    pub(super) fn give_back(&self, bytes: Vec<u8>) {
        if let CallerMemory::Nothing(nothing) = self {
            nothing.give_back(bytes);
        }
    }

    /// The bytes of pieces, one after the other.
    pub(super) fn pack(&self, parts: &[Piece]) -> Vec<u8> {
        match self {
            CallerMemory::Nothing(nothing) => nothing.zeros(bytes_of(parts)),
            CallerMemory::Bytes(bytes) => {
                let mut packed = Vec::with_capacity(bytes_of(parts));
                parts.iter().for_each(|part| packed.extend_from_slice(&bytes[part.range()]));
                packed
            }
        }
    }

    /// Puts such bytes to their pieces.
    pub(super) fn unpack(&mut self, parts: &[Piece], data: Vec<u8>) {
        match self {
            CallerMemory::Nothing(nothing) => nothing.give_back(data),
            CallerMemory::Bytes(bytes) => {
                let mut rest = &data[..];
                for part in parts {
                    let (first, others) = rest.split_at(part.range().len());
                    bytes[part.range()].copy_from_slice(first);
                    rest = others;
                }
            }
        }
    }

    /// Copies pieces to their places in a window that begins at an offset.
    pub(super) fn fill(&self, parts: &[Piece], window: u64, target: &mut [u8]) {
        if let CallerMemory::Bytes(bytes) = self {
            for part in parts {
                target[place(&range_of(part), window)].copy_from_slice(&bytes[part.range()]);
            }
        }
    }

    /// Copies pieces from there.
    pub(super) fn take(&mut self, parts: &[Piece], window: u64, source: &[u8]) {
        if let CallerMemory::Bytes(bytes) = self {
            for part in parts {
                bytes[part.range()].copy_from_slice(&source[place(&range_of(part), window)]);
            }
        }
    }

    /// Puts the bytes of a message to their places in a window.
    pub(super) fn place(
        &self,
        parts: &[Range<u64>],
        window: u64,
        target: &mut [u8],
        data: Vec<u8>,
    ) {
        match self {
            CallerMemory::Nothing(nothing) => nothing.give_back(data),
            CallerMemory::Bytes(_) => {
                let mut rest = &data[..];
                for part in parts {
                    let place = place(part, window);
                    let (first, others) = rest.split_at(place.len());
                    target[place].copy_from_slice(first);
                    rest = others;
                }
            }
        }
    }

    /// The bytes of a window that go to a rank.
    pub(super) fn pick(&self, parts: &[Range<u64>], window: u64, source: &[u8]) -> Vec<u8> {
        let len = parts.iter().map(|part| place(part, window).len()).sum();
        match self {
            CallerMemory::Nothing(nothing) => nothing.zeros(len),
            CallerMemory::Bytes(_) => {
                let mut packed = Vec::with_capacity(len);
                parts
                    .iter()
                    .for_each(|part| packed.extend_from_slice(&source[place(part, window)]));
                packed
            }
        }
    }
}
