//! A clock for time limits on a machine that other programs use, too.
//!
//! In one second of it the watched threads get the processor time that they would get alone in one
//! second. Where other programs take half of that, the clock runs at half speed: a limit is hit by
//! a hang, not by a busy machine. Threads that sleep lose nothing to others, and neither do those
//! that wait for each other's cores; for them it is wall-clock time.
//!
//! Linux counts for every thread how long it ran and how long it was ready and did not run
//! (`/proc/PID/task/TID/schedstat`). Without these counts the clock is the wall clock.
//!
//! Hazard: a program that hangs but polls now and then looks starved on a busy machine. The clock
//! is therefore never slower than by the factor `SLOWEST`: every hang is ended.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds on the wall for one of this clock, at most.
const SLOWEST: f64 = 20.0;

/// The part of the time that threads may wait for a processor on a quiet machine.
const NOISE: f64 = 0.01;

/// Time that ready threads spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// On a processor, in seconds.
    pub(crate) ran: f64,
    /// Ready, without a processor, in seconds.
    pub(crate) waited: f64,
}

/// Counts the time of a limit.
pub(crate) struct FairClock {
    fair_seconds: f64,
    last: Instant,
    /// What each thread had used when it was last looked at.
    threads: BTreeMap<PathBuf, Usage>,
}

impl FairClock {
    /// A clock that begins now.
    pub(crate) fn new() -> Self {
        Self { fair_seconds: 0.0, last: Instant::now(), threads: BTreeMap::new() }
    }

    /// Looks at the threads of some processes; the outcome is the time since the clock began.
    pub(crate) fn look_at(&mut self, processes: impl Iterator<Item = u32>) -> Duration {
        let now: BTreeMap<PathBuf, Usage> = processes.flat_map(threads).collect();
        let mut spent = Usage::default();
        for (thread, usage) in &now {
            let before = self.threads.get(thread).copied().unwrap_or_default();
            spent.ran += usage.ran - before.ran;
            spent.waited += usage.waited - before.waited;
        }
        self.threads = now;
        let elapsed = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let processors = u32::try_from(processors).map_or(1.0, f64::from);
        self.fair_seconds += elapsed * speed(elapsed, spent, processors);
        Duration::from_secs_f64(self.fair_seconds)
    }
}

/// How fast the clock runs in a time in which threads spent this: what they got of the processors,
/// divided by what they would have got alone.
fn speed(elapsed: f64, spent: Usage, processors: f64) -> f64 {
    if spent.waited <= NOISE * elapsed {
        return 1.0;
    }
    let alone = (spent.ran + spent.waited).min(processors * elapsed);
    (spent.ran / alone).clamp(1.0 / SLOWEST, 1.0)
}

/// The threads of a process with what each has used.
fn threads(process: u32) -> impl Iterator<Item = (PathBuf, Usage)> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    // A thread may end while it is looked at.
    paths.filter_map(|path| usage(&path).map(|usage| (path, usage)))
}

/// Reads `ran waited slices`, the times in nanoseconds.
fn usage(thread: &Path) -> Option<Usage> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    let mut seconds = text.split_whitespace().map_while(|word| word.parse().ok());
    let mut seconds = || seconds.next().map(|nanoseconds: f64| nanoseconds / 1e9);
    Some(Usage { ran: seconds()?, waited: seconds()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The speed in a second on two processors.
    fn on_two(ran: f64, waited: f64) -> f64 {
        speed(1.0, Usage { ran, waited }, 2.0)
    }

    #[test]
    fn a_hang_on_a_quiet_machine_takes_no_longer_than_its_limit() {
        // Asleep; one thread that polls; sixteen that poll on two processors.
        assert_eq!([on_two(0.0, 0.0), on_two(1.0, 0.001), on_two(2.0, 14.0)], [1.0; 3]);
    }

    #[test]
    fn other_programs_slow_the_clock_down() {
        // One thread beside three of others; sixteen beside sixteen.
        assert_eq!(on_two(0.5, 0.5), 0.5);
        assert_eq!(on_two(1.0, 15.0), 0.5);
        assert_eq!(on_two(0.1, 0.9), 0.1);
    }

    #[test]
    fn the_clock_never_stands_still() {
        assert_eq!([on_two(0.0, 1.0), on_two(0.001, 4.0)], [1.0 / SLOWEST; 2]);
    }

    #[test]
    fn a_thread_that_works_is_seen_to_run() {
        let own = || threads(std::process::id()).map(|(_, usage)| usage.ran).sum::<f64>();
        if !Path::new("/proc/thread-self/schedstat").exists() {
            println!("skipped: this system does not count the time of threads");
            return;
        }
        // Work until it is counted: a count that stays at zero would be a hang here.
        let before = own();
        while own() <= before {}
    }
}
