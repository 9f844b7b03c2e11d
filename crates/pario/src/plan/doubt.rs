//! What one measured time does not tell: whether storage took its time for calls or for bytes.
//!
//! If a profile is wrong, a way that no call has used may be faster than the factors say that were
//! learned from other ways. The calls and bytes of all ways that were used bound its time: that of
//! a way with half as many calls and as many bytes is between half and all of theirs.
//!
//! It is predicted to take no less and no more. It is tried if it may be clearly faster, and as
//! soon as a trial pays for itself: when the time that it may lose is at most [`PATIENCE`] times
//! what was missed until then by not trying it.

use serde::Deserialize;

use super::{Cause, Correction, Cost, Kind, Part};

/// A way is given up, and another one is tried, for less than this part of its time.
pub(super) const CLEARLY_FASTER: f64 = 0.75;
/// A plan that followed another one is given up for a way that calls have used, if that takes less
/// than this part of its time.
pub(super) const FASTER: f64 = 0.9;
/// A trial may lose this many times what was missed without it: it may save as much in every later
/// call.
const PATIENCE: f64 = 4.0;
/// No time is nothing: so it can be divided by.
const LEAST_US: f64 = 1e-3;

/// What a call showed of storage: how long it took, and what was predicted of it without correction
/// for calls and for bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Observed {
    /// The measured time.
    pub us: f64,
    /// What was predicted for calls.
    pub calls_us: f64,
    /// What was predicted for bytes.
    pub bytes_us: f64,
}

/// What is not known of ways that no call has used. Kinds of plans are in the order of
/// [`Correction`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Doubt {
    /// The kinds that no call has used.
    pub untried: [bool; Kind::ALL.len()],
    /// What the last call of each kind showed.
    pub observed: [Option<Observed>; Kind::ALL.len()],
    /// Time that a trial might have saved until now.
    pub missed_us: f64,
}

/// A way that may be faster than the one in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chance {
    /// Its place among the others.
    pub(super) place: usize,
    /// What it saves at best.
    pub(super) gain_us: f64,
    /// Whether a trial pays for itself.
    pub(crate) pays: bool,
}

impl Observed {
    /// The factor of a call if all of the time is that of calls, and of a byte likewise.
    fn most(&self) -> [f64; 2] {
        [self.us / self.calls_us.max(LEAST_US), self.us / self.bytes_us.max(LEAST_US)]
    }
}

impl Doubt {
    /// The time of a way by what was learned, within what is possible.
    pub(super) fn predicted_us(&self, cost: &Cost, correction: Correction) -> f64 {
        let us = cost.corrected_us(correction);
        let [least_us, most_us] = self.bounds(cost, correction);
        us.max(least_us).min(most_us)
    }

    /// The best of the ways that no call has used and that may be clearly faster.
    pub(super) fn chance<'a>(
        &self,
        own_us: f64,
        others: impl Iterator<Item = (usize, &'a Cost)>,
        correction: Correction,
    ) -> Option<Chance> {
        let of = |(place, cost): (usize, &Cost)| {
            let [least_us, most_us] = self.bounds(cost, correction);
            let gain_us = own_us - least_us;
            let pays = most_us - own_us <= PATIENCE * (self.missed_us + gain_us);
            (least_us < CLEARLY_FASTER * own_us).then_some(Chance { place, gain_us, pays })
        };
        let untried = others.filter(|(_, cost)| !self.knows(cost.kind));
        let better = |one: Chance, other: Chance| {
            let is_better = (other.pays, other.gain_us) > (one.pays, one.gain_us);
            if is_better { other } else { one }
        };
        untried.filter_map(of).reduce(better)
    }

    /// Whether calls have used plans of a kind.
    pub(super) fn knows(&self, kind: Kind) -> bool {
        Kind::ALL.into_iter().zip(self.untried).any(|(one, untried)| one == kind && !untried)
    }

    /// What calls have shown of a kind.
    fn observed(&self, kind: Kind) -> Option<Observed> {
        let of_kind = |(one, observed)| if one == kind { observed } else { None };
        Kind::ALL.into_iter().zip(self.observed).find_map(of_kind)
    }

    /// The factors of a call and of a byte: the least ones and the greatest ones.
    fn factors(&self) -> [[f64; 2]; 2] {
        let observed = || self.observed.iter().flatten();
        let most = observed().map(Observed::most);
        let [call_max, byte_max] =
            most.fold([f64::MAX; 2], |[one, two], [call, byte]| [one.min(call), two.min(byte)]);
        let least = observed().map(|one| {
            let call = (one.us - byte_max * one.bytes_us) / one.calls_us.max(LEAST_US);
            [call, (one.us - call_max * one.calls_us) / one.bytes_us.max(LEAST_US)]
        });
        let least = least
            .fold([0.0; 2], |[one, two]: [f64; 2], [call, byte]| [one.max(call), two.max(byte)]);
        [least, [call_max, byte_max]]
    }

    /// The least and the greatest time of a way, whatever a call and a byte cost. Of a kind that
    /// calls have used, a plan with more calls or more bytes takes longer than theirs.
    fn bounds(&self, cost: &Cost, correction: Correction) -> [f64; 2] {
        let calls_us = cost.storage_us(|cause| !cause.is_of_bytes());
        let bytes_us = cost.storage_us(Cause::is_of_bytes);
        let rest_us = cost.corrected_us(correction) - cost.corrected_of(Part::Storage, correction);
        let [[call_min, byte_min], [call_max, byte_max]] = self.factors();
        if self.knows(cost.kind) {
            let more = |one: &Observed| [calls_us - one.calls_us, bytes_us - one.bytes_us];
            let own = self.observed(cost.kind).map(|one| (one.us, more(&one)));
            return match own {
                Some((us, [calls_us, bytes_us])) if calls_us >= 0.0 && bytes_us >= 0.0 => {
                    [rest_us + us + call_min * calls_us + byte_min * bytes_us, f64::MAX]
                }
                _ => [0.0, f64::MAX],
            };
        }
        let least_us = call_min * calls_us + byte_min * bytes_us;
        let most_us = call_max * calls_us + byte_max * bytes_us;
        let (mut least_us, mut most_us) = (least_us, most_us);
        for one in self.observed.iter().flatten() {
            let (calls, bytes) =
                (calls_us / one.calls_us.max(LEAST_US), bytes_us / one.bytes_us.max(LEAST_US));
            least_us = least_us.max(one.us * calls.min(bytes));
            most_us = most_us.min(one.us * calls.max(bytes));
        }
        [rest_us + least_us, rest_us + most_us.max(least_us)]
    }
}
