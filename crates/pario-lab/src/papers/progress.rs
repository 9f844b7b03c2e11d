//! Signs of life while an experiment measures: on a terminal the bar says what runs; elsewhere a
//! line says so now and then.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::sweep;

/// Between two lines where there is no bar.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of one experiment.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    name: String,
    measurements: Cell<u32>,
    said: Cell<Instant>,
}

impl Progress {
    pub(super) fn new(bar: &ProgressBar, name: String) -> Progress {
        bar.set_message(name.clone());
        let (measurements, said) = (Cell::new(0), Cell::new(Instant::now()));
        Progress { bar: bar.clone(), name, measurements, said }
    }

    /// Another measurement begins.
    pub(super) fn measure(&self) {
        self.measurements.set(self.measurements.get() + 1);
        let text = format!("{}: measurement {}", self.name, self.measurements.get());
        if self.bar.is_hidden() && self.said.get().elapsed() >= LINE_EVERY {
            self.said.set(Instant::now());
            sweep::say(&text);
        }
        self.bar.set_message(text);
    }
}
