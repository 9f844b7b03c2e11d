//! How a rank waits inside pario.
//!
//! A rank that waits sleeps until its doorbell is rung (`node::doorbell`). Sleeping and being woken
//! cost more than a message. So a rank polls for a moment first, if every rank of the node has a
//! core of its own; on an oversubscribed node it yields its core a few times first: often a rank
//! that runs then has what it waits for. (16 ranks on 2 cores, CPU time of all of them for a
//! barrier: 410 us without that, 200 us with it.)
//!
//! Sleeps are short: MPI does not ring, and another rank may need this one to make progress on
//! MPI's own messages, such as one that the program sent before it called pario.
//!
//! A thread that waits inside MPI polls pario's tasks again and again ([`poll_inside_mpi`]); it
//! sleeps, too, if it has no core of its own, or has lost it to another program.
//!
//! Where messages of pario's come by MPI, no doorbell announces them. A rank that waits then polls
//! MPI, and yields its core in between; on an oversubscribed node it soon sleeps for a moment each
//! time. (16 ranks on 4 nodes that share 2 cores, 100 MiB: 450 ms of CPU time without that, 350
//! with it, in the same time.)

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use pario::comm::is_oversubscribed;

use crate::binding::Mpi;
use crate::messages::StatusRoom;
use crate::node::doorbells;
use crate::node::traffic::{OnBehalf, flush_unsent};
use crate::progress;

/// Longest sleep, at first. It doubles while nothing happens.
const SLEEP: Duration = Duration::from_millis(1);
const SLEEP_MAX: Duration = Duration::from_millis(4);
/// Longest time without a call of MPI, for a rank that others wake again and again. (16 ranks on 2
/// cores: a call of MPI takes 2.5 us, as long as to wake a rank.)
const SILENCE: Duration = Duration::from_millis(4);
/// The same while there are non-blocking calls, which may wait for something that does not ring.
const NAP: Duration = Duration::from_micros(100);
/// How long a rank with a core of its own polls before it sleeps.
const LOOK: Duration = Duration::from_micros(20);

/// How often a rank without a core of its own yields it before it sleeps.
const YIELDS: u32 = 4;
/// If a yield took less than this, no other rank ran. That is so under launchers that start each
/// rank in a session of its own, between which the scheduler divides time.
const TURN: Duration = Duration::from_micros(2);
/// This number of times it then sleeps without yielding.
const VAIN: u32 = 16;

/// How often a rank without a core of its own asks MPI before it sleeps for a moment in between.
const ASKS: u32 = 8;
const MOMENT: Duration = Duration::from_micros(20);

/// Communicators of this process with messages that come by MPI.
static BY_MPI: AtomicUsize = AtomicUsize::new(0);
/// Whether the ranks of a communicator oversubscribe this node.
static OVERSUBSCRIBED: AtomicBool = AtomicBool::new(false);

/// While it lives, waiting means asking MPI.
pub(crate) struct ByMpi(());

impl ByMpi {
    pub(crate) fn new() -> ByMpi {
        BY_MPI.fetch_add(1, Ordering::Relaxed);
        ByMpi(())
    }
}

impl Drop for ByMpi {
    fn drop(&mut self) {
        BY_MPI.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Remembers how many ranks of a communicator run on this node, and how many cores they have.
pub(crate) fn note_neighbours(ranks: usize, cores: u32) {
    if is_oversubscribed(ranks, cores) {
        OVERSUBSCRIBED.store(true, Ordering::Relaxed);
    }
}

/// Whether each rank of this node has a core of its own.
fn has_own_core() -> bool {
    !OVERSUBSCRIBED.load(Ordering::Relaxed)
}

/// A thread that spins has lost its core if it does not come back for this time.
const LOST: Duration = Duration::from_millis(1);
/// For this time it then counts as one that shares its core.
const SHARED: Duration = Duration::from_millis(100);
/// Between two calls of one wait inside MPI there is less time.
const APART: Duration = Duration::from_micros(10);

/// What a thread knows of its wait inside MPI.
#[derive(Clone, Copy, Default)]
struct Spin {
    /// When it last got something, or began to wait.
    idle_since: Option<Instant>,
    last: Option<Instant>,
    /// Until when it counts as one that shares its core.
    shared_until: Option<Instant>,
    /// How often others were given its core.
    preempted: libc::c_long,
}

impl Spin {
    /// Whether a thread that found nothing to do should give its core away.
    fn should_rest(
        &mut self,
        awaited: Awaited,
        now: Instant,
        preempted: impl FnOnce() -> libc::c_long,
    ) -> bool {
        let apart = self.last.replace(now).map_or(Duration::MAX, |last| now.duration_since(last));
        if apart >= APART {
            self.idle_since = Some(now);
        }
        if (LOST..Duration::MAX).contains(&apart) {
            let before = std::mem::replace(&mut self.preempted, preempted());
            if self.preempted != before {
                self.shared_until = now.checked_add(SHARED);
            }
        }
        let shares = !has_own_core() || self.shared_until.is_some_and(|until| now < until);
        let idle = self.idle_since.map_or(Duration::ZERO, |since| now.duration_since(since));
        (shares || awaited == Awaited::Request) && idle >= LOOK
    }
}

/// How often the system has taken the core from this thread for another one.
fn preemptions() -> libc::c_long {
    // SAFETY: zeroed memory is such a record, and a valid place for the answer.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}

/// What a thread waits for inside MPI.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Awaited {
    /// Anything, such as a message of MPI's, which does not ring.
    Anything,
    /// A request of pario's.
    Request,
}

/// Polls tasks on behalf of a thread that waits inside MPI, which calls this again and again. If
/// nothing goes on, a thread that waits for a request of pario's sleeps for a moment, like one that
/// waits inside pario. Any other thread does so if ranks share cores, or other programs want them:
/// the rank that it waits for may need its core.
pub(crate) fn poll_inside_mpi(awaited: Awaited) {
    if progress::is_polling() {
        return;
    }
    progress::poll();
    if GOT.take() || progress::is_idle() {
        SPIN.set(Spin { idle_since: None, last: None, ..SPIN.get() });
        return;
    }
    let mut spin = SPIN.get();
    let rests = spin.should_rest(awaited, Instant::now(), preemptions);
    if rests {
        let listening = doorbells::own().listen();
        progress::poll();
        if !GOT.take() {
            // MPI does not ring.
            listening.sleep(if BY_MPI.load(Ordering::Relaxed) > 0 { MOMENT } else { NAP });
        }
        // The sleep is no sign that others want the core, nor the end of the wait.
        spin.last = Some(Instant::now());
    }
    SPIN.set(spin);
}

/// Wakes this process.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
        doorbells::own().ring();
    }
}

thread_local! {
    static WOKEN: (Arc<Woken>, Waker) = {
        let woken = Arc::new(Woken::default());
        (woken.clone(), Waker::from(woken))
    };
    /// When this thread last let MPI carry its messages forward.
    static PROGRESSED: Cell<Option<Instant>> = const { Cell::new(None) };
    static SPIN: Cell<Spin> = const {
        Cell::new(Spin { idle_since: None, last: None, shared_until: None, preempted: 0 })
    };
    /// Whether this thread has got something in a task, since it last looked.
    static GOT: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread has got something that it waited for, since it last looked.
    static WENT_ON: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread has got something in a task, since it last looked.
pub(crate) fn has_got() -> bool {
    GOT.take()
}

/// How long the thread that stands by sleeps if no doorbell wakes it, after it has found neither
/// tasks nor somebody who asks for a service this number of times.
pub(crate) fn pause_in_background(quiet: u32) -> Duration {
    const QUIET: u32 = 1000;
    match quiet {
        QUIET.. => SLEEP,
        _ if BY_MPI.load(Ordering::Relaxed) > 0 => MOMENT,
        _ => NAP,
    }
}

/// Remembers that this thread has got something that it waited for.
pub(crate) fn note_progress() {
    WENT_ON.set(true);
    GOT.set(true);
}

/// Remembers that this thread has got a message.
pub(crate) fn note_message() {
    GOT.set(true);
}

/// A communicator of MPI's, by which MPI is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) mpi: &'static Mpi,
    pub(crate) comm: usize,
    pub(crate) rank: u32,
}

impl Asked {
    /// Polls a task until it has ended, and all that it sent is on its way.
    pub(crate) fn block_on(self, mut task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        let _call = OnBehalf::call();
        // Most calls end at once; the others are polled again with a waker before anybody sleeps.
        let mut ended = task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if ended && flush_unsent() {
            return;
        }
        self.until(|context| {
            ended = ended || task.as_mut().poll(context).is_ready();
            flush_unsent() && ended
        });
    }

    /// Waits until something is so.
    pub(crate) fn until(self, mut is_so: impl FnMut(&mut Context<'_>) -> bool) {
        WOKEN.with(|(woken, waker)| {
            let mut context = Context::from_waker(waker);
            let mut turn = || {
                progress::poll();
                is_so(&mut context)
            };
            let mut since = Instant::now();
            let mut yields = 0;
            let mut vain = 0u32;
            let mut asked = 0u32;
            let mut sleep = SLEEP;
            let mut has_slept = false;
            while !turn() {
                if std::mem::take(&mut has_slept) {
                    self.progress(SILENCE);
                }
                if WENT_ON.take() {
                    yields = 0;
                }
                if woken.0.swap(false, Ordering::Acquire) {
                    continue;
                }
                if BY_MPI.load(Ordering::Relaxed) > 0 {
                    // What is awaited may come by the node, and others need MPI here meanwhile.
                    self.ask();
                    asked += 1;
                    if asked > ASKS && !has_own_core() {
                        std::thread::sleep(MOMENT);
                    } else {
                        std::thread::yield_now();
                    }
                    continue;
                }
                if has_own_core() {
                    if since.elapsed() < LOOK {
                        std::hint::spin_loop();
                        continue;
                    }
                } else if yields < YIELDS && vain == 0 {
                    let before = Instant::now();
                    std::thread::yield_now();
                    let has_let_run = before.elapsed() >= TURN;
                    (yields, vain) = if has_let_run { (yields + 1, 0) } else { (YIELDS, VAIN) };
                    continue;
                }
                (yields, vain) = (0, vain.saturating_sub(1));
                let listening = doorbells::own().listen();
                if turn() {
                    return;
                }
                listening.sleep(if progress::is_idle() { sleep } else { NAP });
                sleep = SLEEP_MAX.min(sleep * 2);
                drop(listening);
                has_slept = true;
                since = Instant::now();
            }
        });
    }

    /// By which MPI is asked on behalf of a thread that waits for a request.
    pub(crate) fn alone(mpi: &'static Mpi) -> Asked {
        Asked { mpi, comm: mpi.handle(mpi.abi.comm_self), rank: 0 }
    }

    /// Lets tasks and MPI go on, for a thread that waits for a request of pario's inside MPI; MPICH
    /// does nothing else for it meanwhile.
    pub(crate) fn poll_for_request(self) {
        poll_inside_mpi(Awaited::Request);
        self.progress(NAP);
    }

    /// Lets MPI carry its own messages forward, if that was longer ago than `silence`.
    fn progress(self, silence: Duration) {
        let now = Instant::now();
        let recent = |then: Instant| now.duration_since(then) < silence;
        if PROGRESSED.get().is_some_and(recent) {
            return;
        }
        PROGRESSED.set(Some(now));
        self.ask();
    }

    /// Calls MPI to no other purpose than to let it carry its messages forward.
    fn ask(self) {
        /// The highest tag that every MPI library has.
        const TAG: std::ffi::c_int = 32767;
        let (mut found, mut status) = (0, StatusRoom::new());
        let rank = std::ffi::c_int::try_from(self.rank).unwrap_or(0);
        // SAFETY: the communicator is alive, and all places for answers are valid. It only looks,
        // so the program loses no message.
        unsafe {
            (self.mpi.call.Iprobe)(rank, TAG, self.comm, &mut found, status.as_mut_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread on a core of its own spins, however long it waits, until others are given its core.
    #[test]
    fn a_thread_rests_only_if_it_has_lost_its_core() {
        let begin = Instant::now();
        let mut spin = Spin::default();
        let at = |micros: u64| begin + Duration::from_micros(micros);
        assert!((0..100).all(|micros| !spin.should_rest(Awaited::Anything, at(micros), || 0)));
        // The program did something else, and was not disturbed.
        assert!(!spin.should_rest(Awaited::Anything, at(5000), || 0));
        assert!(!spin.should_rest(Awaited::Anything, at(5001), || 0));
        assert!(!spin.should_rest(Awaited::Anything, at(9000), || 1), "it has just come back");
        let rests: Vec<u64> = (9001..9100)
            .filter(|&micros| spin.should_rest(Awaited::Anything, at(micros), || 1))
            .collect();
        assert_eq!(rests.first(), Some(&9020));
        assert!(!spin.should_rest(Awaited::Anything, at(300_000), || 1));
        assert!((300_001..300_100).all(|micros| !spin.should_rest(
            Awaited::Anything,
            at(micros),
            || 1
        )));
    }
}
