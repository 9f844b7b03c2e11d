//! A watchdog: a long wait is logged, with the rank that is waited for.
//!
//! A rank that does not make a collective call that the others make leaves them waiting. They
//! cannot end that, but they can name the rank: after some time, again after twice that time, and
//! so on, a waiting rank logs for which rank it waits.

use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use super::Communicator;
use crate::escaped::escaped;

/// When the waits of a rank on one communicator are logged; never, unless that is asked for.
#[derive(Default)]
pub struct Watchdog {
    /// What the messages are about.
    subject: OnceLock<String>,
    /// A wait is logged after this time; never if it is zero.
    patience_ms: AtomicU64,
}

impl Watchdog {
    /// From now on, waits that last `patience` are logged with what the messages are about, which
    /// stays the same; none if that is zero. Waits that have begun keep their patience.
    pub(crate) fn watch(&self, subject: impl Display, patience: Duration) {
        self.subject.get_or_init(|| escaped(&subject.to_string()).into_owned());
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.patience_ms.store(patience_ms, Ordering::Relaxed);
    }
}

/// A wait of a rank, in a collective call or an independent one.
pub(super) struct Wait<'a> {
    communicator: &'a dyn Communicator,
    call: Option<u64>,
    /// When it began, and after what time it is logged next.
    begun: Option<(Instant, Duration)>,
}

impl<'a> Wait<'a> {
    pub(super) fn new(communicator: &'a dyn Communicator, call: Option<u64>) -> Wait<'a> {
        Wait { communicator, call, begun: None }
    }

    /// Logs a wait that goes on for long; `whom` names what is waited for, and a question that may
    /// help to find the reason.
    pub(super) fn note<T>(
        &mut self,
        poll: &Poll<T>,
        whom: impl FnOnce() -> (String, &'static str),
    ) {
        if poll.is_pending()
            && let Some(lasted) = self.lasts_long()
        {
            let (whom, question) = whom();
            let call = match self.call {
                Some(call) => format!("collective call {call}"),
                None => "an independent call".to_owned(),
            };
            log::warn!(
                "rank {} has been waiting for {whom} for {} s in {call} on {}; {question}",
                self.communicator.rank(),
                lasted.as_secs(),
                self.communicator.watchdog().subject.get().map_or("", String::as_str),
            );
        }
    }

    /// How long it has lasted, if that is to be logged now.
    fn lasts_long(&mut self) -> Option<Duration> {
        let Some((since, next)) = &mut self.begun else {
            let patience_ms = self.communicator.watchdog().patience_ms.load(Ordering::Relaxed);
            let patience = Duration::from_millis(patience_ms);
            self.begun = (!patience.is_zero()).then(|| (Instant::now(), patience));
            return None;
        };
        let lasted = since.elapsed();
        is_due(next, lasted).then_some(lasted)
    }
}

/// Whether it is time to log a wait that has lasted this time.
fn is_due(next: &mut Duration, lasted: Duration) -> bool {
    let due = lasted >= *next;
    if due {
        *next = next.saturating_mul(2);
    }
    due
}

/// How many ranks are named.
const NAMED_MAX: usize = 8;

/// Some ranks, the first of them by name.
pub(crate) fn named(ranks: &[u32]) -> String {
    let names: Vec<String> = ranks.iter().take(NAMED_MAX).map(u32::to_string).collect();
    match (names.as_slice(), ranks.len() - names.len()) {
        ([], _) => "other ranks".to_owned(),
        ([one], _) => format!("rank {one}"),
        (_, 0) => format!("ranks {}", names.join(", ")),
        (_, more) => format!("ranks {} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Solo;
    use std::sync::Mutex;

    fn watch(communicator: &dyn Communicator, patience: Duration) {
        communicator.watchdog().watch("a file", patience);
    }

    #[test]
    fn a_patience_that_is_changed_counts_for_the_next_wait() {
        let solo = Solo::new();
        watch(&*solo, Duration::ZERO);
        let noted = |call| {
            let mut wait = Wait::new(&*solo, Some(call));
            wait.note(&Poll::<()>::Pending, || (named(&[1]), "?"));
            wait.begun.map(|(_, next)| next)
        };
        assert_eq!(noted(1), None);
        watch(&*solo, Duration::from_secs(9));
        assert_eq!(noted(2), Some(Duration::from_secs(9)));
    }

    /// What was logged in this process.
    static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    struct Kept;

    impl log::Log for Kept {
        fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            let line = format!("{} {}: {}", record.level(), record.target(), record.args());
            LOGGED.lock().unwrap().push(line);
        }

        fn flush(&self) {}
    }

    #[test]
    fn a_wait_that_lasts_is_logged() {
        log::set_logger(&Kept).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        let patience = Duration::from_millis(1);
        let solo = Solo::new();
        watch(&*solo, patience);
        let since = Instant::now().checked_sub(Duration::from_secs(9)).unwrap();
        let mut wait = Wait::new(&*solo, Some(77));
        wait.begun = Some((since, patience));
        wait.note(&Poll::<()>::Pending, || (named(&[0]), "has that rank made the call?"));
        let expected = "WARN pario::comm::watchdog: rank 0 has been waiting for rank 0 for 9 s in \
                        collective call 77 on a file; has that rank made the call?";
        let logged = LOGGED.lock().unwrap();
        assert!(logged.iter().any(|line| line == expected), "{logged:?}");
    }

    #[test]
    fn ranks_are_named_up_to_a_number() {
        assert_eq!(named(&[]), "other ranks");
        assert_eq!(named(&[7]), "rank 7");
        assert_eq!(named(&[1, 2]), "ranks 1, 2");
        let many: Vec<u32> = (0..100).collect();
        assert_eq!(named(&many), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more");
    }

    #[test]
    fn a_wait_is_mentioned_ever_more_rarely() {
        let mut next = Duration::from_secs(10);
        let due: Vec<u64> =
            (0..100).filter(|&second| is_due(&mut next, Duration::from_secs(second))).collect();
        assert_eq!(due, [10, 20, 40, 80]);
    }
}
