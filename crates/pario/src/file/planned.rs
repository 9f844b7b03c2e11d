//! Collective calls that are planned once and run many times.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::exchange::Prepared;
use crate::hints::Strategy;
use crate::request::Kind;

/// A collective read or write, planned: the inspector has run, the executor can run often.
///
/// Made by [`File::plan_write_all`](super::File::plan_write_all) and
/// [`File::plan_read_all`](super::File::plan_read_all). It keeps the view and the position it was
/// made with.
///
/// ```
/// use pario::{Datatype, File, Threads};
/// Threads::new(2).run(|comm| -> pario::Result<()> {
///     let file = File::options().write(true).create(true).open(&*comm, "memory:planned")?;
///     let position = u64::from(comm.rank()) * 8;
///     let plan = file.plan_write_all(position, 8, &Datatype::of::<u8>())?;
///     for step in 0..10u8 {
///         file.write_planned(&plan, &[step; 8])?;
///     }
///     file.close()
/// });
/// ```
#[derive(Debug)]
pub struct Plan {
    pub(super) prepared: Arc<Prepared>,
    pub(super) kind: Kind,
    pub(super) len: u64,
    planning: Duration,
}

impl Plan {
    pub(super) fn new(prepared: Arc<Prepared>, kind: Kind, len: u64, planning: Duration) -> Plan {
        Plan { prepared, kind, len, planning }
    }

    /// The strategy that serves it.
    pub fn strategy(&self) -> Strategy {
        self.prepared.plan.strategy
    }

    /// Number of rounds; the same on every rank.
    pub fn rounds(&self) -> u64 {
        self.prepared.plan.steps.rounds()
    }

    /// Time that it took to make.
    pub fn planning(&self) -> Duration {
        self.planning
    }

    /// A number that equal requests of this rank share and different ones almost never do.
    pub fn fingerprint(&self) -> u64 {
        self.prepared.own.fingerprint()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "call       {} of {} bytes", self.kind.name, self.len)?;
        write!(formatter, "{}", self.prepared.plan)
    }
}
