//! Turns a hang into a failure: "never hangs" must be a sentence that a test can refute.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{PTracer, set_ptracer};

use crate::fair_clock::FairClock;
use crate::stacks;

/// How long one step of a test may last, where no other program takes the processors. A step takes
/// milliseconds.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// How often the clock is looked at.
const TICK: Duration = Duration::from_secs(1);

/// Watches a test while it lives, and aborts the process if one step of it lasts a minute; longer
/// where other programs take the processors. It then shows where each thread is.
///
/// ```
/// use pario_testkit::watchdog::Watchdog;
/// let watchdog = Watchdog::new("an example");
/// watchdog.step("first step".to_string());
/// ```
pub struct Watchdog {
    step: Arc<Mutex<String>>,
    steps: Sender<()>,
}

impl Watchdog {
    /// Begins to watch the test of this name.
    pub fn new(test: &'static str) -> Watchdog {
        // gdb is a child of this process. A system without such a rule knows no such call.
        let _ = set_ptracer(PTracer::Any);
        let step = Arc::new(Mutex::new("its start".to_string()));
        let (steps, received) = mpsc::channel();
        let watched = step.clone();
        thread::spawn(move || {
            let mut clock = FairClock::new();
            loop {
                match received.recv_timeout(TICK) {
                    Ok(()) => clock = FairClock::new(),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let own = std::iter::once(std::process::id());
                        if clock.look_at(own) > STEP_LIMIT {
                            let step = watched.lock().unwrap_or_else(PoisonError::into_inner);
                            let own = std::iter::once(std::process::id());
                            eprintln!("{test} hangs at: {step}\n{}", stacks::of(own));
                            std::process::abort();
                        }
                    }
                }
            }
        });
        Watchdog { step, steps }
    }

    /// Says what the test does next; the time limit starts again.
    pub fn step(&self, step: String) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
        self.steps.send(()).expect("the watching thread outlives its test");
    }
}
