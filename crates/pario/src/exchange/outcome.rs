//! One outcome out of each rank's part.
//!
//! A rank knows by itself what it could not read, and what it should have stored but has not. If
//! all ranks share memory and are well, nothing more is exchanged. Otherwise all ranks exchange
//! reports and return the same error (`agree`); each counts its bytes up to the first that did not
//! move.

use std::ops::Range;

use super::agree::{Report, reports};
use super::schedule::Room;
use super::{Job, shared};
use crate::access::Access;
use crate::comm::Region;
use crate::error::{Error, Result};

/// What became of one rank's part of a call.
#[derive(Debug)]
pub(super) struct Part {
    /// Positions of the rank's own request from this one on did not move, as far as it knows.
    pub(super) reached: u64,
    /// Parts of the file that this rank should have stored but has not.
    pub(super) undone: Vec<Range<u64>>,
    pub(super) error: Option<Error>,
}

impl Part {
    pub(super) fn new(own: &Access) -> Part {
        Part { reached: own.positions().end, undone: Vec::new(), error: None }
    }

    /// The rank's own data from a position on is not there.
    pub(super) fn miss(&mut self, position: u64) {
        self.reached = self.reached.min(position);
    }

    /// A part of the file is not stored.
    pub(super) fn leave_undone(&mut self, file: Range<u64>) {
        match self.undone.last_mut() {
            _ if file.is_empty() => {}
            Some(last) if last.end == file.start => last.end = file.end,
            _ => self.undone.push(file),
        }
    }
}

/// The outcome of a call: the bytes of the rank's own request that moved, or the error of all
/// ranks, which knows them too. `has_failed` says whether a rank has failed, if all know that
/// already; `counts` says which ranges that a rank left undone are of this rank's concern.
pub(super) async fn conclude(
    job: &Job<'_>,
    part: Part,
    has_failed: Option<bool>,
    counts: impl Fn(u32, &Range<u64>) -> bool,
) -> Result<u64> {
    let own = &job.prepared.own;
    let first = own.positions().start;
    let moved = part.reached.saturating_sub(first);
    if !job.prepared.collective {
        return moved_or(moved, part.error);
    }
    let is_well = part.error.is_none() && part.undone.is_empty();
    let all_are_well = match (has_failed, job.communicator.region()) {
        (Some(has_failed), _) => !has_failed,
        (None, Some(region)) if job.prepared.ends_in_region => {
            all_are_well(job, region, is_well).await?
        }
        (None, _) => false,
    };
    if all_are_well {
        return Ok(moved);
    }
    let report = Report { error: part.error, undone: part.undone };
    let (reports, error) = reports(job.communicator, job.call, report).await?;
    let undone = (0..).zip(reports).flat_map(|(from, report)| {
        let of_concern = |file: &Range<u64>| counts(from, file);
        report.undone.into_iter().filter(of_concern).collect::<Vec<Range<u64>>>()
    });
    let moved = match job.refused {
        None => moved.min(leading(own, undone)),
        Some(_) => 0,
    };
    moved_or(moved, error)
}

/// The bytes that moved, or the error, which knows them too.
fn moved_or(moved: u64, error: Option<Error>) -> Result<u64> {
    error.map_or(Ok(moved), |error| Err(error.after_moving(moved)))
}

/// How many bytes of a request, from its first one on, are in none of the parts of the file that
/// are not done: what lies after the first gap is not claimed, whether it moved or not.
fn leading(own: &Access, undone: impl Iterator<Item = Range<u64>>) -> u64 {
    let first = own.positions().start;
    let missing = undone.map(|file| own.within(&file)).filter(|positions| !positions.is_empty());
    missing.map(|positions| positions.start - first).min().unwrap_or(own.len())
}

/// Waits until all ranks have arrived at the end of a call without shared windows; whether all are
/// well.
async fn all_are_well(job: &Job<'_>, region: &Region, is_well: bool) -> Result<bool> {
    let room = Room { slots: 1, windows: 0, cores: job.communicator.cores(0) };
    let schedule = shared::schedule(job, region, room);
    if !is_well {
        schedule.fail();
    }
    shared::end(job, schedule, || false).await?;
    Ok(!schedule.has_failed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::layout::Layout;

    #[test]
    fn what_lies_behind_a_gap_does_not_count() {
        let layout = Layout::block(0, 4).unwrap().repeated(10, 10).unwrap();
        let own = Access::new(&layout, 0, 40).unwrap();
        let leading = |undone: &[Range<u64>]| leading(&own, undone.iter().cloned());
        assert_eq!(leading(&[]), 40);
        assert_eq!(leading(&[50..50, 100..200]), 40, "nothing of the request is there");
        assert_eq!(leading(&[34..40, 94..99]), 40, "nor in the holes");
        assert_eq!(leading(&[52..53, 54..60]), 22);
        assert_eq!(leading(&[90..94, 20..21, 60..100]), 8);
        assert_eq!(leading(&[0..100, 52..53]), 0);
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let own = Access::new(&Layout::block(0, 9).unwrap(), 0, 9).unwrap();
        let mut part = Part::new(&own);
        for file in [3..5, 5..5, 5..9, 12..14] {
            part.leave_undone(file);
        }
        assert_eq!(part.undone, [3..9, 12..14]);
        part.miss(7);
        part.miss(8);
        assert_eq!(part.reached, 7);
    }
}
