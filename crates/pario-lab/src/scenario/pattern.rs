//! The access patterns of experiments: workloads of `pario bench`, with parameters.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use crate::failure::Failure;
use crate::scenario::workload::{Chosen, KINDS, Program, Runs, Wanted, Workload, parse_parameters};

/// A workload on some ranks.
#[derive(Clone)]
pub(crate) struct Pattern {
    pub(crate) workload: Arc<dyn Workload>,
    pub(crate) ranks: u32,
}

impl Pattern {
    /// The first part of a workload with parameters, as `--set` takes them.
    pub(crate) fn new(name: &str, ranks: u32, set: &[(&str, u64)]) -> Result<Pattern, Failure> {
        let text: Vec<(String, String)> =
            set.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())).collect();
        Pattern::parts(name, ranks, &text)?
            .into_iter()
            .next()
            .ok_or_else(|| Failure::Run(format!("{name}: has no parts")))
    }

    /// All parts of a workload.
    pub(crate) fn parts(
        name: &str,
        ranks: u32,
        set: &[(String, String)],
    ) -> Result<Vec<Pattern>, Failure> {
        let unknown = || Failure::Run(format!("{name}: no such workload"));
        let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(unknown)?;
        let given = parse_parameters(set, &[kind]).map_err(Failure::Run)?;
        let wanted = Wanted {
            ranks,
            bytes: None,
            quick: false,
            named: true,
            block_bytes: Vec::new(),
            edge: None,
            steps: 1,
            chosen: Chosen::new(kind.parameters, &given),
        };
        let programs = (kind.make)(&wanted).map_err(Failure::Run)?;
        let parts = programs.into_iter().flat_map(|program: Program| program.parts);
        Ok(parts.map(|workload| Pattern { workload: workload.into(), ranks }).collect())
    }

    /// One of the arrays of STEM-II (paper 000).
    pub(crate) fn stem2(array: &str, ranks: u32, species: u64) -> Result<Pattern, Failure> {
        let set = [("array", array.to_owned()), ("Nl", species.to_string())];
        let set = set.map(|(key, value)| (key.to_owned(), value));
        let parts = Pattern::parts("stem2", ranks, &set)?;
        parts.into_iter().next().ok_or_else(|| Failure::Run(format!("{array}: no such array")))
    }

    /// The pieces of a rank, in the order of the file; neighbours are one piece.
    pub(crate) fn runs(&self, rank: u32) -> Merged<'_> {
        Merged { runs: self.workload.runs(rank).peekable() }
    }

    /// The pieces of each call of a rank.
    pub(crate) fn calls(&self, rank: u32) -> Vec<Vec<Range<u64>>> {
        let runs = self.workload.runs(rank);
        let Some(calls) = self.workload.calls(rank) else { return vec![runs.collect()] };
        let (mut runs, mut rest) = (runs, 0..0);
        let mut all = Vec::new();
        for bytes in calls {
            let (mut own, mut left) = (Vec::new(), bytes);
            while left > 0 {
                if rest.is_empty() {
                    let Some(next) = runs.next() else { break };
                    rest = next;
                }
                let end = rest.end.min(rest.start + left);
                own.push(rest.start..end);
                left -= end - rest.start;
                rest.start = end;
            }
            all.push(own);
        }
        all
    }

    /// Bytes of all ranks.
    pub(crate) fn bytes(&self) -> u64 {
        (0..self.ranks).map(|rank| self.bytes_of(rank)).sum()
    }

    pub(crate) fn bytes_of(&self, rank: u32) -> u64 {
        self.workload.runs(rank).map(|run| run.end - run.start).sum()
    }

    /// From the first to the last byte of any rank.
    pub(crate) fn reach(&self) -> Range<u64> {
        let (mut start, mut end) = (u64::MAX, 0);
        for rank in 0..self.ranks {
            for run in self.workload.runs(rank) {
                (start, end) = (start.min(run.start), end.max(run.end));
            }
        }
        start.min(end)..end
    }
}

/// Runs with neighbours joined.
pub(crate) struct Merged<'a> {
    runs: Peekable<Runs<'a>>,
}

impl Iterator for Merged<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let mut run = self.runs.next()?;
        while let Some(next) = self.runs.next_if(|next| next.start == run.end) {
            run.end = next.end;
        }
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_the_pieces_of_their_workloads() {
        let pattern = Pattern::new("block-cyclic", 4, &[("Nx", 64), ("Bx", 2)]).unwrap();
        let runs: Vec<Range<u64>> = pattern.runs(1).collect();
        assert_eq!(runs.len(), 8);
        assert_eq!(runs[..2], [8..16, 40..48]);
        assert_eq!((pattern.bytes(), pattern.reach()), (256, 0..256));
        let alone = Pattern::new("block-cyclic", 1, &[("Nx", 64), ("Bx", 2)]).unwrap();
        assert!(alone.runs(0).eq(std::iter::once(0..256)));
    }

    #[test]
    fn calls_have_the_bytes_that_the_workload_says() {
        let set = [("segmentCount", 2), ("blockSize", 32), ("transferSize", 16)];
        let pattern = Pattern::new("ior", 2, &set).unwrap();
        let calls: Vec<Vec<Range<u64>>> =
            vec![vec![32..48], vec![48..64], vec![96..112], vec![112..128]];
        assert_eq!(pattern.calls(1), calls);
    }
}
