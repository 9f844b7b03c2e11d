//! Model checks of what ranks do in shared memory, in every order that the memory model allows.
//!
//! | module | what is checked |
//! | --- | --- |
//! | `windows` | the scheduler of shared windows |
//! | `gate` | the gate between plain writes and rewriters |
//! | `messages` | the rings and doorbells of the ranks of a node |
//!
//! The algorithms are the library's own source files, compiled with loom's atomic numbers.
//!
//! Hazard: loom takes a sequentially consistent operation for an acquire and a release. Where a
//! file needs more, it has fences, or the model has numbers with them (`gate`).
#![cfg(test)]

mod every_order;
mod gate;
mod messages;
mod windows;

/// What the scheduler takes for the atomic numbers of the system. Those of `every_order` would take
/// minutes.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

#[path = "../../pario/src/exchange/schedule.rs"]
#[allow(dead_code, unreachable_pub)]
mod schedule;

/// Runs a model in every order of its threads in which at most so many steps are preemptions.
fn check(preemptions_max: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions_max);
    model.check(run);
}
