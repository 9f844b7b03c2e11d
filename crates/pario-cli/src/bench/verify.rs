//! The right value of every byte, and whether it is there.
//!
//! An element's value follows from its global index and from a salt that changes with every
//! measurement. Two indices never have the same value (up to 2^32 of them), and two salts differ
//! in every byte, so that an element at the wrong place, or a byte left over from an earlier
//! measurement, is found. Files are read with plain system calls, not through pario.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::workload::{ELEMENT_BYTES, Runs};
use crate::failure::Failure;

/// Odd, so that multiples of it are all different.
const STEP: u32 = 0x9e37_79b1;
/// Elements that are read or written at once.
const CHUNK_LEN: u64 = 1 << 18;

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

/// An element that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Index among the elements that were looked at.
    pub(crate) position: u64,
    /// Its global index.
    pub(crate) index: u64,
    pub(crate) expected: u32,
    pub(crate) found: u32,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { index, expected, found, .. } = self;
        write!(formatter, "element {index}: expected {expected:#010x}, found {found:#010x}")
    }
}

impl Pattern {
    pub(crate) fn new(salt: u8) -> Pattern {
        Pattern { mask: u32::from_ne_bytes([salt; 4]) }
    }

    /// The value of an index, before the mask.
    fn base(index: u64) -> u32 {
        let low = u32::try_from(index & u64::from(u32::MAX)).unwrap_or(0);
        low.wrapping_mul(STEP)
    }

    /// Sets consecutive elements from a global index on.
    fn fill_run(self, target: &mut [u32], start: u64) {
        let mut base = Pattern::base(start);
        for element in target {
            *element = base ^ self.mask;
            base = base.wrapping_add(STEP);
        }
    }

    /// Compares consecutive elements from a global index on; `position` is that of the first.
    fn check_run(self, found: &[u32], start: u64, position: u64) -> Result<(), Mismatch> {
        let mut base = Pattern::base(start);
        let mut difference = 0;
        for &element in found {
            difference |= element ^ base ^ self.mask;
            base = base.wrapping_add(STEP);
        }
        if difference == 0 {
            return Ok(());
        }
        let expected = |distance: u64| Pattern::base(start + distance) ^ self.mask;
        let wrong = (0..).zip(found).find(|&(distance, &found)| found != expected(distance));
        match wrong {
            None => Ok(()),
            Some((distance, &found)) => Err(Mismatch {
                position: position + distance,
                index: start + distance,
                expected: expected(distance),
                found,
            }),
        }
    }

    /// Sets a rank's elements, which `runs` names.
    pub(crate) fn fill(self, target: &mut [u32], runs: Runs<'_>) {
        let mut rest = target;
        for run in runs {
            let run_len = usize::try_from(run.end - run.start).unwrap_or(usize::MAX);
            let Some(part) = rest.split_off_mut(..run_len) else { return };
            self.fill_run(part, run.start);
        }
    }

    /// Compares a rank's elements, which `runs` names.
    pub(crate) fn check(self, found: &[u32], runs: Runs<'_>) -> Result<(), Mismatch> {
        let (mut rest, mut position) = (found, 0);
        for run in runs {
            let run_len = usize::try_from(run.end - run.start).unwrap_or(usize::MAX);
            let Some(part) = rest.split_off(..run_len) else { return Ok(()) };
            self.check_run(part, run.start, position)?;
            position += run.end - run.start;
        }
        Ok(())
    }

    /// Writes a share of a file in the order of the global indices.
    pub(crate) fn write_file(
        self,
        file: &File,
        elements: u64,
        share: Share,
    ) -> Result<(), Failure> {
        each_chunk(elements, share, |chunk, buffer| {
            self.fill_run(buffer, chunk.start);
            let written =
                file.write_all_at(bytemuck::cast_slice(buffer), chunk.start * ELEMENT_BYTES);
            written.map_err(|error| Failure::during("writing the file", error))
        })
    }

    /// Compares a share of a file in the order of the global indices, and the length of all.
    ///
    /// The error names the wrong place; the caller says what was measured.
    pub(crate) fn check_file(
        self,
        file: &File,
        elements: u64,
        share: Share,
    ) -> Result<(), Failure> {
        check_len(file, elements)?;
        each_chunk(elements, share, |chunk, buffer| {
            read_exact(file, buffer, chunk.start)?;
            let checked = self.check_run(buffer, chunk.start, chunk.start);
            checked.map_err(|mismatch| wrong_in_file(&mismatch))
        })
    }

    /// Compares a part of a file, from element `start` on, that holds a rank's elements one after
    /// the other.
    pub(crate) fn check_part(
        self,
        file: &File,
        start: u64,
        buffer: &mut [u32],
        runs: Runs<'_>,
    ) -> Result<(), Failure> {
        read_exact(file, buffer, start)?;
        let checked = self.check(buffer, runs);
        checked.map_err(|mismatch| {
            wrong_in_file(&Mismatch { position: start + mismatch.position, ..mismatch })
        })
    }
}

fn wrong_in_file(mismatch: &Mismatch) -> Failure {
    Failure::during(format!("offset {}", mismatch.position * ELEMENT_BYTES), mismatch)
}

/// A file must end where its last element does.
pub(crate) fn check_len(file: &File, elements: u64) -> Result<(), Failure> {
    let expected = elements * ELEMENT_BYTES;
    match file.metadata() {
        Err(error) => Err(Failure::during("size of the file", error)),
        Ok(metadata) if metadata.len() == expected => Ok(()),
        Ok(metadata) => {
            Err(Failure::Run(format!("file size: expected {expected}, found {}", metadata.len())))
        }
    }
}

fn read_exact(file: &File, buffer: &mut [u32], start: u64) -> Result<(), Failure> {
    let read = file.read_exact_at(bytemuck::cast_slice_mut(buffer), start * ELEMENT_BYTES);
    read.map_err(|error| Failure::during("reading the file back", error))
}

/// Works on every `share.count`-th chunk of a file.
fn each_chunk(
    elements: u64,
    share: Share,
    work: impl Fn(Range<u64>, &mut [u32]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut buffer = Vec::new();
    let step = usize::try_from(share.count).unwrap_or(usize::MAX);
    for chunk in (u64::from(share.number)..elements.div_ceil(CHUNK_LEN)).step_by(step) {
        let start = chunk * CHUNK_LEN;
        let end = elements.min(start + CHUNK_LEN);
        buffer.resize(usize::try_from(end - start).unwrap_or(usize::MAX), 0);
        work(start..end, &mut buffer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    fn runs(ranges: &[Range<u64>]) -> Runs<'_> {
        Box::new(ranges.iter().cloned())
    }

    #[test]
    fn filled_elements_are_right_and_others_are_found() {
        let places = [10..13, 20..25, 2..3];
        let pattern = Pattern::new(7);
        let mut elements = [0; 9];
        pattern.fill(&mut elements, runs(&places));
        assert_eq!(pattern.check(&elements, runs(&places)), Ok(()));
        for position in 0..9_usize {
            let mut wrong = elements;
            wrong[position] ^= 1 << 31;
            let mismatch = pattern.check(&wrong, runs(&places)).unwrap_err();
            assert_eq!(usize::try_from(mismatch.position), Ok(position));
            assert_eq!(mismatch.expected, elements[position]);
            assert_eq!(mismatch.found, wrong[position]);
            let index = places.iter().cloned().flatten().nth(position);
            assert_eq!(Some(mismatch.index), index);
        }
    }

    #[test]
    fn another_salt_differs_in_every_byte() {
        let (mut one, mut two) = ([0; 100], [0; 100]);
        Pattern::new(255).fill(&mut one, runs(slice::from_ref(&(5..105))));
        Pattern::new(0).fill(&mut two, runs(slice::from_ref(&(5..105))));
        let bytes = |elements: &[u32]| bytemuck::cast_slice::<u32, u8>(elements).to_vec();
        assert!(bytes(&one).iter().zip(bytes(&two)).all(|(&one, two)| one != two));
    }

    #[test]
    fn swapped_elements_are_found() {
        let pattern = Pattern::new(1);
        let mut elements = [0; 64];
        pattern.fill(&mut elements, runs(slice::from_ref(&(0..64))));
        elements.swap(3, 60);
        let mismatch = pattern.check(&elements, runs(slice::from_ref(&(0..64)))).unwrap_err();
        assert_eq!(mismatch.index, 3);
    }

    #[test]
    fn a_wrong_byte_in_a_file_is_found_at_its_offset() {
        let name = format!("pario-verify-{}.tmp", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap();
        std::fs::remove_file(&path).unwrap();
        let (pattern, elements) = (Pattern::new(3), CHUNK_LEN * 2 + 5);
        let text = |checked: Result<(), Failure>| match checked {
            Err(Failure::Run(text)) => text,
            _ => "right".to_owned(),
        };
        let shares = [0, 1].map(|number| Share { number, count: 2 });
        for share in shares {
            pattern.write_file(&file, elements, share).unwrap();
        }
        let check = || {
            let mut checked = shares.map(|share| pattern.check_file(&file, elements, share));
            let wrong = checked.iter().position(Result::is_err).unwrap_or(0);
            text(std::mem::replace(&mut checked[wrong], Ok(())))
        };
        assert_eq!(check(), "right");
        let mut byte = [0];
        for offset in [0, CHUNK_LEN * 4 + 6, elements * 4 - 1] {
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[!byte[0]], offset).unwrap();
            let found = check();
            let place = format!("offset {}: element {}: ", offset / 4 * 4, offset / 4);
            assert!(found.starts_with(&place), "{found}");
            file.write_all_at(&byte, offset).unwrap();
        }
        file.set_len(elements * 4 + 1).unwrap();
        assert!(check().starts_with("file size: "));
    }
}
