//! Plans of collective calls, kept for equal calls that follow.
//!
//! A program that writes its arrays again and again asks for the same bytes each time. Each rank
//! announces the numbers of the plans that it has for its request. If all ranks have a number in
//! common, that plan is used again, and no access is described, sent or planned.
//!
//! Collective calls on a file come in the same order on all ranks, so that all keep the same plans
//! under the same numbers.

use std::sync::Arc;

use crate::access::Access;
use crate::exchange::Prepared;
use crate::exchange::inspect::Known;
use crate::hints::Hints;

/// How many plans are kept; the one that was not used for longest goes first.
const PLANS_MAX: usize = 8;

/// What, besides the request, a plan depends on.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) blocking: bool,
    pub(super) atomic: bool,
    pub(super) hints: Arc<Hints>,
}

impl Setting {
    fn is(&self, other: &Setting) -> bool {
        self.name == other.name
            && self.blocking == other.blocking
            && self.atomic == other.atomic
            && Arc::ptr_eq(&self.hints, &other.hints)
    }
}

/// The plans of a file, the last one used at the end.
#[derive(Default)]
pub(super) struct KeptPlans {
    made: u64,
    plans: Vec<Kept>,
}

/// A plan with its number.
struct Kept {
    number: u64,
    setting: Setting,
    prepared: Arc<Prepared>,
    /// How often another plan for the request was given up.
    switches: u32,
}

impl KeptPlans {
    /// The plans for a request.
    pub(super) fn known(&self, setting: &Setting, access: &Access) -> Known {
        let fits = |kept: &&Kept| setting.is(&kept.setting) && kept.prepared.own == *access;
        Known(self.plans.iter().filter(fits).map(|kept| kept.number).collect())
    }

    /// The plan of a number, which all ranks use now, and how often another one was given up.
    pub(super) fn take(&mut self, number: u64) -> Option<(Arc<Prepared>, u32)> {
        let index = self.plans.iter().position(|kept| kept.number == number)?;
        let kept = self.plans.remove(index);
        let (prepared, switches) = (kept.prepared.clone(), kept.switches);
        self.plans.push(kept);
        Some((prepared, switches))
    }

    /// Forgets a plan, which all ranks do.
    pub(super) fn forget(&mut self, number: u64) {
        self.plans.retain(|kept| kept.number != number);
    }

    /// Keeps a plan that all ranks have just made.
    pub(super) fn keep(&mut self, setting: Setting, prepared: &Arc<Prepared>, switches: u32) {
        if self.plans.len() == PLANS_MAX {
            self.plans.remove(0);
        }
        self.made += 1;
        let (number, prepared) = (self.made, prepared.clone());
        self.plans.push(Kept { number, setting, prepared, switches });
    }
}
