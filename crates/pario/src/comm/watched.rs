//! A watchdog: a long wait is logged, with the rank that is waited for.
//!
//! A rank that does not make a collective call that the others make leaves them waiting. They
//! cannot end that, but they can name the rank: after some time, again after twice that time, and
//! so on, a waiting rank logs for which rank it waits.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::{Communicator, Condition, Region, Tag, Task};
use crate::error::Result;

/// A communicator whose waits are watched; files use it for their messages.
///
/// ```
/// use pario::comm::Watched;
/// use pario::{Communicator, Solo};
/// use std::time::Duration;
///
/// let watched = Watched::new(Solo::new(), "an example".to_owned(), Duration::from_secs(60));
/// assert_eq!(watched.size(), 1);
/// ```
pub struct Watched {
    inner: Arc<dyn Communicator>,
    /// What the messages are about.
    subject: String,
    /// A wait is mentioned after this time; never if it is zero.
    patience_ms: AtomicU64,
    waits: Mutex<HashMap<Awaited, Wait>>,
}

/// What a rank waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Awaited {
    Message {
        from: u32,
        tag: Tag,
    },
    /// A condition, in a collective call or an independent one.
    Condition {
        call: Option<u64>,
    },
}

/// A wait that has begun.
struct Wait {
    since: Instant,
    mentioned_next: Duration,
}

impl Wait {
    /// Whether it is time to log a wait that has lasted this time.
    fn is_due(&mut self, lasted: Duration) -> bool {
        let due = lasted >= self.mentioned_next;
        if due {
            self.mentioned_next = self.mentioned_next.saturating_mul(2);
        }
        due
    }
}

impl Watched {
    /// Mentions waits that last `patience`, and what the messages are about; none if that is
    /// zero.
    pub fn new(inner: Arc<dyn Communicator>, subject: String, patience: Duration) -> Watched {
        Watched {
            inner,
            subject,
            patience_ms: AtomicU64::new(milliseconds(patience)),
            waits: Mutex::default(),
        }
    }

    /// Changes the patience; waits that have begun keep theirs.
    pub fn set_patience(&self, patience: Duration) {
        self.patience_ms.store(milliseconds(patience), Ordering::Relaxed);
    }

    /// Records that a wait goes on, or that it has ended; `whom` names what is waited for, and a
    /// question that may help to find the reason.
    fn note(&self, awaited: Awaited, waits: bool, whom: &dyn Fn() -> (String, &'static str)) {
        let patience = Duration::from_millis(self.patience_ms.load(Ordering::Relaxed));
        if patience.is_zero() {
            return;
        }
        let mut noted = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if !waits {
            noted.remove(&awaited);
            return;
        }
        let wait = noted
            .entry(awaited)
            .or_insert_with(|| Wait { since: Instant::now(), mentioned_next: patience });
        let lasted = wait.since.elapsed();
        if wait.is_due(lasted) {
            let (whom, question) = whom();
            let call = match awaited {
                Awaited::Message { tag: Tag { call, .. }, .. }
                | Awaited::Condition { call: Some(call) } => format!("collective call {call}"),
                Awaited::Condition { call: None } => "an independent call".to_owned(),
            };
            log::warn!(
                "rank {} has been waiting for {whom} for {} s in {call} on {}; {question}",
                self.rank(),
                lasted.as_secs(),
                self.subject
            );
        }
    }
}

fn milliseconds(patience: Duration) -> u64 {
    u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)
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

#[deny(clippy::missing_trait_methods)]
impl Communicator for Watched {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn transport(&self) -> &'static str {
        self.inner.transport()
    }

    fn node(&self, rank: u32) -> u32 {
        self.inner.node(rank)
    }

    fn cores(&self, node: u32) -> u32 {
        self.inner.cores(node)
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        self.inner.duplicate()
    }

    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        self.inner.send(to, tag, bytes)
    }

    fn poll_receive(
        &self,
        from: u32,
        tag: Tag,
        context: &mut Context<'_>,
    ) -> Poll<Result<Vec<u8>>> {
        let poll = self.inner.poll_receive(from, tag, context);
        let whom = || (format!("rank {from}"), "has that rank made the call?");
        self.note(Awaited::Message { from, tag }, poll.is_pending(), &whom);
        poll
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        self.inner.counter_add(delta)
    }

    fn region(&self) -> Option<&Region> {
        self.inner.region()
    }

    fn poll_until(
        &self,
        condition: &mut dyn Condition,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let poll = self.inner.poll_until(condition, context);
        let awaited = Awaited::Condition { call: condition.call() };
        self.note(awaited, poll.is_pending(), &|| condition.awaited());
        poll
    }

    fn wake(&self, rank: u32) {
        self.inner.wake(rank);
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        self.inner.counter_set(value)
    }

    fn spawn(&self, task: Task) {
        self.inner.spawn(task);
    }

    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        self.inner.block_on(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::{Lane, Solo};

    #[test]
    fn a_patience_that_is_changed_counts_for_the_next_wait() {
        let watched = Watched::new(Solo::new(), "a file".to_owned(), Duration::ZERO);
        let noted = |call| {
            let awaited = Awaited::Condition { call: Some(call) };
            watched.note(awaited, true, &|| (named(&[1]), "?"));
            let waits = watched.waits.lock().unwrap();
            waits.get(&awaited).map(|wait| wait.mentioned_next)
        };
        assert_eq!(noted(1), None);
        watched.set_patience(Duration::from_secs(9));
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
        let watched = Watched::new(Solo::new(), "a file".to_owned(), patience);
        let awaited = Awaited::Message { from: 0, tag: Tag { call: 77, lane: Lane::Control } };
        let since = Instant::now().checked_sub(Duration::from_secs(9)).unwrap();
        let wait = Wait { since, mentioned_next: patience };
        watched.waits.lock().unwrap().insert(awaited, wait);
        watched.note(awaited, true, &|| (named(&[0]), "has that rank made the call?"));
        let expected = "WARN pario::comm::watched: rank 0 has been waiting for rank 0 for 9 s in \
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
        let patience = Duration::from_secs(10);
        let mut wait = Wait { since: Instant::now(), mentioned_next: patience };
        let due: Vec<u64> =
            (0..100).filter(|&second| wait.is_due(Duration::from_secs(second))).collect();
        assert_eq!(due, [10, 20, 40, 80]);
    }
}
