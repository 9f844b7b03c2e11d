//! The right value of every byte, and whether it is there.
//!
//! The values follow from the offset in the file and from a salt that changes with every
//! measurement: each word of 4 bytes has another value (up to 2^32 of them), and two salts differ
//! in every byte, so that data at the wrong place, or a byte left over from an earlier
//! measurement, is found. Files are read with plain system calls, not through pario.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::failure::Failure;
use crate::scenario::pieces::Piece;

/// Odd, so that multiples of it are all different.
const STEP: u32 = 0x9e37_79b1;
/// Bytes of a word.
const WORD: u64 = 4;
/// Bytes that are read or written at once.
const CHUNK_BYTES: u64 = 1 << 20;
/// What gaps in memory are filled with, and must have after a read.
const GAP: u8 = 0xc5;

/// The values of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    mask: u32,
}

/// Which part of a file's chunks is worked on: one of `count`, numbered from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) number: u32,
    pub(crate) count: u32,
}

/// What a file must have: a pattern, and what belongs to nobody.
pub(crate) struct Expected<'a> {
    pub(crate) pattern: Pattern,
    pub(crate) file_bytes: u64,
    /// Bytes of no rank, in order, with what they have: a pattern, or zeros in a new file.
    pub(crate) holes: &'a [Range<u64>],
    pub(crate) hole_pattern: Option<Pattern>,
}

/// A byte that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Its offset in the file.
    pub(crate) offset: u64,
    pub(crate) expected: u8,
    pub(crate) found: u8,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { offset, expected, found } = self;
        write!(formatter, "byte {offset}: expected {expected:#04x}, found {found:#04x}")
    }
}

impl Pattern {
    pub(crate) fn new(salt: u8) -> Pattern {
        Pattern { mask: u32::from_ne_bytes([salt; 4]) }
    }

    /// A pattern that differs from this one in every bit.
    pub(crate) fn complement(self) -> Pattern {
        Pattern { mask: !self.mask }
    }

    /// The value of a word, before the mask.
    fn base(word: u64) -> u32 {
        let low = u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        low.wrapping_mul(STEP)
    }

    /// The value of one byte.
    fn byte(self, offset: u64) -> u8 {
        let index = usize::try_from(offset % WORD).unwrap_or(0);
        (Pattern::base(offset / WORD) ^ self.mask).to_ne_bytes()[index]
    }

    /// Sets consecutive bytes from an offset on.
    fn fill_run(self, target: &mut [u8], offset: u64) {
        let head_len = head_len(offset, target.len());
        let (head, rest) = target.split_at_mut(head_len);
        let (words, tail) = rest.as_chunks_mut::<4>();
        let first = offset.div_ceil(WORD);
        for (at, byte) in (offset..).zip(head) {
            *byte = self.byte(at);
        }
        let mut base = Pattern::base(first);
        for word in &mut *words {
            *word = (base ^ self.mask).to_ne_bytes();
            base = base.wrapping_add(STEP);
        }
        let words_len = u64::try_from(words.len()).unwrap_or(u64::MAX);
        for (at, byte) in ((first + words_len) * WORD..).zip(tail) {
            *byte = self.byte(at);
        }
    }

    /// Compares consecutive bytes from an offset on.
    fn check_run(self, found: &[u8], offset: u64) -> Result<(), Mismatch> {
        let (head, rest) = found.split_at(head_len(offset, found.len()));
        let (words, tail) = rest.as_chunks::<4>();
        let first = offset.div_ceil(WORD);
        let mut base = Pattern::base(first);
        let mut difference = 0;
        for &word in words {
            difference |= u32::from_ne_bytes(word) ^ base ^ self.mask;
            base = base.wrapping_add(STEP);
        }
        let tail_start = offset + u64::try_from(found.len() - tail.len()).unwrap_or(u64::MAX);
        let right = |start: u64, bytes: &[u8]| {
            (start..).zip(bytes).all(|(at, &byte)| byte == self.byte(at))
        };
        if difference == 0 && right(offset, head) && right(tail_start, tail) {
            return Ok(());
        }
        let wrong = (offset..).zip(found).find(|&(at, &byte)| byte != self.byte(at));
        match wrong {
            None => Ok(()),
            Some((offset, &found)) => Err(Mismatch { offset, expected: self.byte(offset), found }),
        }
    }

    /// Sets a rank's bytes in its memory.
    pub(crate) fn fill(self, target: &mut [u8], pieces: impl Iterator<Item = Piece>) {
        for piece in pieces {
            if let Some(part) = target.get_mut(piece.range()) {
                self.fill_run(part, piece.offset);
            }
        }
    }

    /// Compares a rank's bytes in its memory.
    pub(crate) fn check(
        self,
        found: &[u8],
        mut pieces: impl Iterator<Item = Piece>,
    ) -> Result<(), Mismatch> {
        pieces.try_for_each(|piece| match found.get(piece.range()) {
            Some(part) => self.check_run(part, piece.offset),
            None => Ok(()),
        })
    }
}

/// Bytes before the first whole word.
fn head_len(offset: u64, len: usize) -> usize {
    let head = (WORD - offset % WORD) % WORD;
    usize::try_from(head).unwrap_or(0).min(len)
}

impl Expected<'_> {
    /// The bytes of a chunk.
    fn chunk(&self, chunk: &Range<u64>, buffer: &mut [u8]) {
        self.pattern.fill_run(buffer, chunk.start);
        let first = self.holes.partition_point(|hole| hole.end <= chunk.start);
        for hole in self.holes[first..].iter().take_while(|hole| hole.start < chunk.end) {
            let part = hole.start.max(chunk.start)..hole.end.min(chunk.end);
            let at = |offset: u64| usize::try_from(offset - chunk.start).unwrap_or(usize::MAX);
            let bytes = &mut buffer[at(part.start)..at(part.end)];
            match self.hole_pattern {
                Some(pattern) => pattern.fill_run(bytes, part.start),
                None => bytes.fill(0),
            }
        }
    }

    /// Writes a share of the file.
    pub(crate) fn write_file(&self, file: &File, share: Share) -> Result<(), Failure> {
        each_chunk(self.file_bytes, share, |chunk, buffer| {
            self.chunk(&chunk, buffer);
            let written = file.write_all_at(buffer, chunk.start);
            written.map_err(|error| Failure::during("writing the file", error))
        })
    }

    /// Compares a share of the file, and the length of all.
    ///
    /// The error names the wrong place; the caller says what was measured.
    pub(crate) fn check_file(&self, file: &File, share: Share) -> Result<(), Failure> {
        check_len(file, self.file_bytes)?;
        let mut right = Vec::new();
        each_chunk(self.file_bytes, share, |chunk, buffer| {
            read_exact(file, buffer, chunk.start)?;
            if self.holes.is_empty() {
                let checked = self.pattern.check_run(buffer, chunk.start);
                return checked.map_err(|mismatch| wrong(&mismatch));
            }
            right.resize(buffer.len(), 0);
            self.chunk(&chunk, &mut right);
            compare(&right, buffer, chunk.start)
        })
    }
}

fn compare(right: &[u8], found: &[u8], start: u64) -> Result<(), Failure> {
    if right == found {
        return Ok(());
    }
    let pairs = (start..).zip(right.iter().zip(found));
    match pairs.into_iter().find(|(_, (right, found))| right != found) {
        None => Ok(()),
        Some((offset, (&expected, &found))) => Err(wrong(&Mismatch { offset, expected, found })),
    }
}

fn wrong(mismatch: &Mismatch) -> Failure {
    Failure::Run(mismatch.to_string())
}

/// Fills gaps in memory with a value of their own.
pub(crate) fn fill_gaps(buffer: &mut [u8], gaps: &[Range<usize>]) {
    for gap in gaps {
        buffer[gap.clone()].fill(GAP);
    }
}

/// Gaps in memory must be as they were filled.
pub(crate) fn check_gaps(buffer: &[u8], gaps: &[Range<usize>]) -> Result<(), Failure> {
    let touched = |gap: &Range<usize>| {
        let found = buffer[gap.clone()].iter().position(|&byte| byte != GAP)?;
        Some(gap.start + found)
    };
    match gaps.iter().find_map(touched) {
        None => Ok(()),
        Some(at) => Err(Failure::Run(format!("byte {at} of memory is in a gap and was changed"))),
    }
}

/// A file must end where its last byte does.
fn check_len(file: &File, expected: u64) -> Result<(), Failure> {
    match file.metadata() {
        Err(error) => Err(Failure::during("size of the file", error)),
        Ok(metadata) if metadata.len() == expected => Ok(()),
        Ok(metadata) => {
            Err(Failure::Run(format!("file size: expected {expected}, found {}", metadata.len())))
        }
    }
}

/// Reads a part of a file by plain system calls.
pub(crate) fn read_exact(file: &File, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
    let read = file.read_exact_at(buffer, offset);
    read.map_err(|error| Failure::during("reading the file back", error))
}

/// Works on every `share.count`-th chunk of a file.
fn each_chunk(
    file_bytes: u64,
    share: Share,
    mut work: impl FnMut(Range<u64>, &mut [u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut buffer = Vec::new();
    let step = usize::try_from(share.count).unwrap_or(usize::MAX);
    for chunk in (u64::from(share.number)..file_bytes.div_ceil(CHUNK_BYTES)).step_by(step) {
        let start = chunk * CHUNK_BYTES;
        let end = file_bytes.min(start + CHUNK_BYTES);
        buffer.resize(usize::try_from(end - start).unwrap_or(usize::MAX), 0);
        work(start..end, &mut buffer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a packed buffer.
    fn pieces(places: &[Range<u64>]) -> impl Iterator<Item = Piece> {
        places.iter().scan(0, |memory, place| {
            let len = place.end - place.start;
            *memory += len;
            Some(Piece { offset: place.start, memory: *memory - len, len })
        })
    }

    #[test]
    fn filled_bytes_are_right_and_others_are_found() {
        let places = [10..13, 21..37, 2..3, 40..41, 100..111];
        let pattern = Pattern::new(7);
        let mut bytes = [0; 32];
        pattern.fill(&mut bytes, pieces(&places));
        assert_eq!(pattern.check(&bytes, pieces(&places)), Ok(()));
        for position in 0..32_usize {
            let mut wrong = bytes;
            wrong[position] ^= 1 << 7;
            let mismatch = pattern.check(&wrong, pieces(&places)).unwrap_err();
            assert_eq!(Some(mismatch.offset), places.iter().cloned().flatten().nth(position));
            assert_eq!((mismatch.expected, mismatch.found), (bytes[position], wrong[position]));
        }
    }

    /// A byte has one value, whatever run it is filled in.
    #[test]
    fn the_value_of_a_byte_follows_from_its_offset() {
        let pattern = Pattern::new(9);
        let mut whole = [0; 64];
        pattern.fill_run(&mut whole, 0);
        for start in 0..8_usize {
            for end in start..24 {
                let mut part = vec![0; end - start];
                pattern.fill_run(&mut part, u64::try_from(start).unwrap());
                assert_eq!(part, whole[start..end]);
                assert_eq!(pattern.check_run(&part, u64::try_from(start).unwrap()), Ok(()));
            }
        }
    }

    #[test]
    fn another_salt_and_the_complement_differ_in_every_byte() {
        let filled = |pattern: Pattern| {
            let mut bytes = [0; 100];
            pattern.fill_run(&mut bytes, 5);
            bytes
        };
        let one = filled(Pattern::new(255));
        for other in [Pattern::new(0), Pattern::new(255).complement(), Pattern::new(3)] {
            assert!(one.iter().zip(filled(other)).all(|(&one, other)| one != other));
        }
    }

    #[test]
    fn swapped_words_are_found() {
        let pattern = Pattern::new(1);
        let mut bytes = [0; 256];
        pattern.fill_run(&mut bytes, 0);
        for index in 0..4 {
            bytes.swap(12 + index, 240 + index);
        }
        let offset = pattern.check_run(&bytes, 0).unwrap_err().offset;
        assert!((12..16).contains(&offset));
    }

    #[test]
    fn a_touched_gap_is_found() {
        let mut bytes = [0; 20];
        let gaps = [3..6, 10..20];
        fill_gaps(&mut bytes, &gaps);
        assert!(check_gaps(&bytes, &gaps).is_ok());
        bytes[8] = 1;
        assert!(check_gaps(&bytes, &gaps).is_ok());
        bytes[19] ^= 1;
        assert!(
            matches!(check_gaps(&bytes, &gaps), Err(Failure::Run(text)) if text.contains("19"))
        );
    }

    fn text(checked: Result<(), Failure>) -> String {
        match checked {
            Err(Failure::Run(text)) => text,
            _ => "right".to_owned(),
        }
    }

    fn scratch(name: &str) -> File {
        let name = format!("pario-verify-{name}-{}.tmp", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        std::fs::remove_file(&path).unwrap();
        file.unwrap()
    }

    #[test]
    fn a_wrong_byte_in_a_file_is_found_at_its_offset() {
        let file = scratch("file");
        let file_bytes = CHUNK_BYTES * 2 + 5;
        let expected =
            Expected { pattern: Pattern::new(3), file_bytes, holes: &[], hole_pattern: None };
        let shares = [0, 1].map(|number| Share { number, count: 2 });
        for share in shares {
            expected.write_file(&file, share).unwrap();
        }
        let check = || {
            let found = shares.map(|share| text(expected.check_file(&file, share)));
            found.into_iter().find(|text| text != "right").unwrap_or_default()
        };
        assert_eq!(check(), "");
        let mut byte = [0];
        for offset in [0, CHUNK_BYTES + 6, file_bytes - 1] {
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[!byte[0]], offset).unwrap();
            let found = check();
            assert!(found.starts_with(&format!("byte {offset}: ")), "{found}");
            file.write_all_at(&byte, offset).unwrap();
        }
        file.set_len(file_bytes + 1).unwrap();
        assert!(check().starts_with("file size: "));
    }

    #[test]
    fn holes_must_keep_what_they_had() {
        let file = scratch("holes");
        let holes = [2..9, CHUNK_BYTES - 3..CHUNK_BYTES + 3];
        let share = Share { number: 0, count: 1 };
        for hole_pattern in [Some(Pattern::new(0)), None] {
            let file_bytes = CHUNK_BYTES + 50;
            let pattern = Pattern::new(3);
            let expected = Expected { pattern, file_bytes, holes: &holes, hole_pattern };
            expected.write_file(&file, share).unwrap();
            expected.check_file(&file, share).unwrap();
            // What a careless sieve does: holes get what their neighbours have.
            let mut byte = [0];
            pattern.fill_run(&mut byte, CHUNK_BYTES);
            file.write_all_at(&byte, CHUNK_BYTES).unwrap();
            let found = text(expected.check_file(&file, share));
            assert!(found.starts_with(&format!("byte {CHUNK_BYTES}: ")), "{found}");
        }
    }
}
