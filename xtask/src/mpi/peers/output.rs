//! What the program in C prints, brought together over several runs.

use std::collections::BTreeMap;

/// What was measured in one direction on one side of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Of the first call after the file was opened, one for each run.
    pub(super) first_seconds: Vec<f64>,
    /// Of each later call of each run.
    pub(super) seconds: Vec<f64>,
    /// Of the rank that took longest, for the same calls.
    pub(super) longest_seconds: Vec<f64>,
    /// Of all processors, for the same calls.
    pub(super) cpu_seconds: Vec<f64>,
    pub(super) peak_bytes: u64,
    pub(super) bytes: u64,
    pub(super) wrong_bytes: u64,
    /// How often it came to its end.
    pub(super) done: usize,
    /// What it was not run for.
    pub(super) skipped: Option<Skipped>,
}

/// Why something was not measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Skipped {
    /// This number of calls on one rank.
    Calls(u64),
    /// It takes longer than this number of seconds.
    Longer(f64),
    /// The program did not come to its end.
    Failed,
}

impl Figures {
    /// Seconds of a call: the median of those after the first, or the first if there are no others.
    pub(super) fn median_seconds(&self) -> Option<f64> {
        median(&self.seconds).or_else(|| median(&self.first_seconds))
    }
}

/// Which figures: the number of the job, `write` or `read`, `block` or `mpi`.
pub(super) type Key = (usize, String, String);

/// Adds what a run printed. Estimates beyond the budget are shown as the budget, since that is what
/// is known.
pub(super) fn collect(
    stdout: &str,
    budget: f64,
    figures: &mut BTreeMap<Key, Figures>,
) -> Result<(), String> {
    let mut open: BTreeMap<Key, Figures> = BTreeMap::new();
    for line in stdout.lines() {
        let mut words = line.split_whitespace();
        let Some(kind @ ("CALL" | "DONE" | "SKIP" | "WRONG")) = words.next() else { continue };
        let words: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
        let text = |name: &str| words.get(name).copied().unwrap_or("mpi").to_owned();
        let broken = || format!("the program printed what cannot be read: {line}");
        let number = |name: &str| -> Result<f64, String> {
            words.get(name).and_then(|word| word.parse().ok()).ok_or_else(broken)
        };
        let count = |name: &str| -> Result<u64, String> {
            words.get(name).and_then(|word| word.parse().ok()).ok_or_else(broken)
        };
        let job = usize::try_from(count("job")?).map_err(|_| broken())?;
        let key = (job, text("direction"), text("side"));
        let entry = open.entry(key).or_default();
        match kind {
            "CALL" if count("index")? == 0 => entry.first_seconds.push(number("seconds")?),
            "CALL" => {
                entry.seconds.push(number("seconds")?);
                entry.longest_seconds.push(number("longest")?);
                entry.cpu_seconds.push(number("cpu")?);
            }
            "WRONG" => entry.wrong_bytes += count("bytes")?,
            "DONE" => {
                entry.bytes = count("bytes")?;
                entry.peak_bytes = count("peak")?;
                entry.done += 1;
            }
            _ if words.contains_key("calls") => {
                entry.skipped = Some(Skipped::Calls(count("calls")?));
            }
            _ => entry.skipped = Some(Skipped::Longer(budget)),
        }
    }
    // What did not come to its end was not verified to its end.
    for (key, new) in open.into_iter().filter(|(_, new)| new.done > 0 || new.skipped.is_some()) {
        let old = figures.entry(key).or_default();
        old.first_seconds.extend(new.first_seconds);
        old.seconds.extend(new.seconds);
        old.longest_seconds.extend(new.longest_seconds);
        old.cpu_seconds.extend(new.cpu_seconds);
        old.peak_bytes = old.peak_bytes.max(new.peak_bytes);
        old.bytes = old.bytes.max(new.bytes);
        old.wrong_bytes += new.wrong_bytes;
        old.done += new.done;
        old.skipped = new.skipped.or(old.skipped.take());
    }
    Ok(())
}

/// The one in the middle; of two, the mean.
pub(super) fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count.is_multiple_of(2) => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    fn collected(runs: &[&str]) -> BTreeMap<Key, Figures> {
        let mut figures = BTreeMap::new();
        runs.iter().for_each(|run| collect(run, 9.0, &mut figures).unwrap());
        figures
    }

    fn key(job: usize, direction: &str, side: &str) -> Key {
        (job, direction.to_owned(), side.to_owned())
    }

    #[test]
    fn runs_are_brought_together_and_the_first_call_counts_apart() {
        let run = |first: &str, later: &str| {
            format!(
                "warning: of MPI\n\
                 CALL job=0 direction=write side=mpi index=0 seconds={first} longest=1 cpu=1\n\
                 CALL job=0 direction=write side=mpi index=1 seconds={later} longest=1 cpu=2\n\
                 DONE job=0 direction=write side=mpi bytes=8 peak=16\n"
            )
        };
        let all = collected(&[&run("5.0", "1.0"), &run("6.0", "2.0")]);
        let figures = &all[&key(0, "write", "mpi")];
        assert_eq!(figures.first_seconds, [5.0, 6.0]);
        assert_eq!(figures.median_seconds(), Some(1.5));
        assert_eq!((figures.bytes, figures.peak_bytes, figures.done), (8, 16, 2));
    }

    #[test]
    fn what_was_cut_off_is_not_there() {
        let all = collected(&["CALL job=0 direction=read side=mpi index=0 seconds=5 cpu=1\n"]);
        assert!(all.is_empty());
    }

    #[test]
    fn what_was_not_run_says_why() {
        let all = collected(&["SKIP job=0 direction=read calls=7\n\
             SKIP job=1 direction=read estimate=300.5\n"]);
        assert_eq!(all[&key(0, "read", "mpi")].skipped, Some(Skipped::Calls(7)));
        assert_eq!(all[&key(1, "read", "mpi")].skipped, Some(Skipped::Longer(9.0)));
    }

    #[test]
    fn nonsense_is_an_error() {
        let line = "DONE job=0 direction=read side=mpi bytes=many peak=0";
        assert!(collect(line, 1.0, &mut BTreeMap::new()).is_err());
    }
}
