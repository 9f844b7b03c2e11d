//! Hints: tuning from the caller; they never change the result, only the time.
//!
//! A hint is a key and a value, both text. Known are MPI's own (MPI-4.1, section 14.2.8), those of
//! ROMIO, under their names and with their values, and those of pario, which begin with `pario_`.
//! [`HintSet::resolve`] turns them into [`Hints`], typed and inside their [`bounds`], and into a
//! [`HintReport`] that says what became of each.
//!
//! Precedence, the strongest first:
//!
//! 1. the environment (`PARIO_HINTS`, `PARIO_STATS`, and Cray's `MPICH_MPIIO_HINTS` and
//!    `MPICH_MPIIO_STATS`): it is there to tune a program without changing it,
//! 2. the program,
//! 3. the hint file (`ROMIO_HINTS`): as with ROMIO, a default for programs that say nothing,
//! 4. the defaults, which are those of ROMIO where it has one.
//!
//! There is one exception, which ROMIO has as well: `romio_no_indep_rw=true` in the hint file
//! counts more than the program's `romio_cb_read` and `romio_cb_write`.
//!
//! Within one source a later value replaces an earlier one. A value that cannot be read or is out
//! of bounds is never an error: the next weaker one stays, and the report says why. Of a hint that
//! has no effect and does not come from the program, rank 0 warns as well (`shown`). This is the
//! only place that reads the environment.
//!
//! Hazard: ranks may be given different hints, or see different environments. So one rank resolves
//! them and sends the outcome to the others.

use std::path::Path;

use crate::error::{Error, ErrorClass, Result};

pub mod bounds;
mod choice;
mod environment;
mod keys;
mod parse;
mod places;
mod report;
mod shown;

pub use choice::{Recording, Statistics, Strategy, Switch};
pub use environment::Environment;
pub(crate) use report::printable;
pub use report::{EffectiveHint, HintOrigin, HintReport, IgnoredHint};

use environment::Found;
use keys::Meaning;
pub(crate) use keys::{SERVED_READ, SERVED_WRITE, is_served};

/// The values of all hints in effect, as the rest of pario uses them.
///
/// Sizes are `u64` because plans compare them with lengths in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// Memory that an aggregator fills in one round (`cb_buffer_size`).
    pub collective_buffer_bytes: u64,
    /// Whether windows have exactly that size, as far as memory allows, instead of at most that
    /// size (`pario_exact_windows`).
    pub exact_windows: bool,
    /// Number of aggregators (`cb_nodes`); chosen by pario unless set.
    pub aggregators: Option<u32>,
    /// Greatest number of aggregators on one node (`cb_config_list`); chosen by pario unless set,
    /// `u32::MAX` for every rank.
    pub aggregators_per_node: Option<u32>,
    /// Whether collective reads go through aggregators (`romio_cb_read`).
    pub collective_read: Switch,
    /// Whether collective writes go through aggregators (`romio_cb_write`).
    pub collective_write: Switch,
    /// The program promises to make no independent reads and writes (`romio_no_indep_rw`); then
    /// collective reads and writes both go through aggregators.
    pub no_independent: bool,
    /// Smallest file domain of an aggregator (`romio_min_fdomain_size`).
    pub domain_min_bytes: u64,
    /// Memory for sieving reads (`ind_rd_buffer_size`).
    pub sieve_read_buffer_bytes: u64,
    /// Memory for sieving writes (`ind_wr_buffer_size`).
    pub sieve_write_buffer_bytes: u64,
    /// Whether reads are sieved (`romio_ds_read`).
    pub sieve_read: Switch,
    /// Whether writes are sieved (`romio_ds_write`).
    pub sieve_write: Switch,
    /// Size of a stripe, to which file domains are aligned (`striping_unit`); asked from the
    /// storage unless set.
    pub stripe_bytes: Option<u64>,
    /// The strategy (`pario_strategy`).
    pub strategy: Strategy,
    /// Number of phases of a multi-phase exchange (`pario_phases`); chosen by pario unless set.
    pub phases: Option<u32>,
    /// Larger holes are not sieved (`pario_sieve_hole_bytes`).
    pub sieve_hole_bytes: u64,
    /// Where the pieces of a collective have this mean length or more, each rank reads or writes
    /// its own, without windows (`pario_long_piece_bytes`); chosen by pario unless set.
    pub long_piece_bytes: Option<u64>,
    /// Whether ranks of one node copy their own bytes to or from windows in shared memory, where
    /// that is possible, or send them to the aggregators (`pario_shared_windows`).
    pub shared_windows: Switch,
    /// Whether windows are stored through a mapping of the file, where the file system permits
    /// several writers at a time only so (`pario_mapped_writes`).
    pub mapped_writes: Switch,
    /// After this many seconds a waiting rank logs which rank it waits for
    /// (`pario_collective_wait_s`).
    pub collective_wait_s: u64,
    /// Whether the close of a file prints or records what was done (`pario_statistics`).
    pub statistics: Statistics,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints {
            collective_buffer_bytes: 16 << 20,
            exact_windows: false,
            aggregators: None,
            aggregators_per_node: None,
            collective_read: Switch::Automatic,
            collective_write: Switch::Automatic,
            no_independent: false,
            domain_min_bytes: 0,
            sieve_read_buffer_bytes: 4 << 20,
            sieve_write_buffer_bytes: 512 << 10,
            sieve_read: Switch::Automatic,
            sieve_write: Switch::Automatic,
            stripe_bytes: None,
            strategy: Strategy::Auto,
            phases: None,
            sieve_hole_bytes: 4096,
            long_piece_bytes: None,
            shared_windows: Switch::Automatic,
            mapped_writes: Switch::Automatic,
            collective_wait_s: 60,
            statistics: Statistics::Off,
        }
    }
}

impl Hints {
    /// The hints as bytes for the other ranks; see [`Hints::from_wire`].
    ///
    /// They travel as the text that a user would give, one `key=value` a line, so that the
    /// receiver checks them with the same code.
    pub(crate) fn to_wire(&self) -> Vec<u8> {
        let lines = keys::values(self).map(|(name, value)| format!("{name}={value}\n"));
        lines.collect::<String>().into_bytes()
    }

    /// The hints that another rank turned into bytes.
    ///
    /// # Errors
    ///
    /// `Intern` unless the bytes are exactly what [`Hints::to_wire`] makes of the outcome: then
    /// nothing was lost, repeated, unknown or out of bounds.
    pub(crate) fn from_wire(wire: &[u8]) -> Result<Hints> {
        let malformed = || Error::new(ErrorClass::Intern, "a rank sent malformed hints");
        let text = std::str::from_utf8(wire).map_err(|_| malformed())?;
        let mut hints = Hints::default();
        for line in text.lines() {
            let (name, value) = line.split_once('=').ok_or_else(malformed)?;
            keys::set(&mut hints, name, value).map_err(|_| malformed())?;
        }
        match hints.to_wire() == wire {
            true => Ok(hints),
            false => Err(malformed()),
        }
    }
}

/// How many hints without effect are kept of a program that gives ever new ones.
const WITHOUT_EFFECT_MAX: usize = 100;

/// The hints of a program for one file, in the order in which it gave them.
///
/// ```
/// use pario::{Environment, HintSet, Strategy};
/// use std::path::Path;
///
/// let given = HintSet::new().with("cb_buffer_size", "64M").with("pario_strategy", "two-phase");
/// let (hints, report) = given.resolve(Path::new("out.dat"), &Environment::default());
/// assert_eq!(hints.collective_buffer_bytes, 64 << 20);
/// assert_eq!(hints.strategy, Strategy::TwoPhase);
/// assert!(report.ignored.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintSet {
    given: Vec<(String, String)>,
    /// Hints without effect that are no longer in the list, since there were too many.
    unlisted: u64,
}

impl HintSet {
    /// A program that gives no hints.
    pub fn new() -> HintSet {
        HintSet::default()
    }

    /// Adds a hint.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> HintSet {
        self.given.push((key.into(), value.into()));
        self
    }

    /// Adds hints that a program gives later: a value replaces the earlier one of its key, unless
    /// it cannot be used. So the list does not grow with the number of calls.
    pub(crate) fn and_later(mut self, later: &HintSet) -> HintSet {
        for (key, value) in &later.given {
            let usable = keys::is_usable(key, value);
            self.given.retain(|(known, old)| {
                known != key || !usable && keys::has_effect(key) && keys::is_usable(known, old)
            });
            // A key may stand for several: the order counts, and the new one goes to the end.
            self.given.push((key.clone(), value.clone()));
        }
        let without_effect = |(key, _): &(String, String)| !keys::has_effect(key);
        let listed = self.given.iter().filter(|hint| without_effect(hint)).count();
        for _ in WITHOUT_EFFECT_MAX..listed {
            let oldest = self.given.iter().position(without_effect);
            oldest.into_iter().for_each(|index| drop(self.given.remove(index)));
            self.unlisted += 1;
        }
        self
    }

    /// Whether a hint is among these, and none that was given later sets the same.
    pub(crate) fn holds(&self, key: &str, value: &str) -> bool {
        let mut later = self.given.iter().skip_while(|(one, other)| one != key || other != value);
        later.next().is_some() && !later.any(|(other, _)| keys::overlap(key, other))
    }

    /// The hints as they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.given.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The values in effect for a file, from these hints, the environment and the defaults, and
    /// what became of each hint.
    ///
    /// `file_name` is compared with the patterns in the environment. The hint file is read here:
    /// call this on one rank.
    pub fn resolve(&self, file_name: &Path, environment: &Environment) -> (Hints, HintReport) {
        let unlisted = (self.unlisted > 0).then(|| IgnoredHint {
            name: "...".to_owned(),
            value: self.unlisted.to_string(),
            reason: "number of earlier hints without effect that are not listed".to_owned(),
            origin: HintOrigin::Program,
        });
        let ignored = unlisted.into_iter().collect();
        let program = Found { hints: self.given.clone(), ignored };
        let mut resolution = Resolution::default();
        resolution.apply(environment.hint_file(), HintOrigin::HintFile);
        resolution.apply(program, HintOrigin::Program);
        resolution.keep_promise();
        resolution.apply(environment.hints_for(file_name), HintOrigin::Environment);
        resolution.finish()
    }
}

impl<Key: Into<String>, Value: Into<String>> FromIterator<(Key, Value)> for HintSet {
    fn from_iter<Pairs: IntoIterator<Item = (Key, Value)>>(pairs: Pairs) -> HintSet {
        let given = pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        HintSet { given, unlisted: 0 }
    }
}

/// The state of [`HintSet::resolve`] between two sources, which come from weak to strong.
#[derive(Default)]
struct Resolution {
    hints: Hints,
    /// The hints that set a field, at most one for each.
    accepted: Vec<Accepted>,
    ignored: Vec<IgnoredHint>,
}

struct Accepted {
    /// The key of the field.
    key: &'static str,
    /// The hint by which it was set; its name may stand for several keys.
    name: String,
    value: String,
    origin: HintOrigin,
}

impl Resolution {
    fn apply(&mut self, found: Found, origin: HintOrigin) {
        self.ignored.extend(found.ignored);
        for (name, value) in found.hints {
            if origin == HintOrigin::Program && is_served(&name) {
                continue;
            }
            match keys::meaning(&name) {
                Meaning::Sets => {
                    for (key, text) in keys::settings(&name, &value) {
                        let (name, value) = (name.clone(), value.clone());
                        self.set(Accepted { key, name, value, origin }, &text);
                    }
                }
                Meaning::Nothing(reason) => {
                    self.ignored.push(IgnoredHint { name, value, reason, origin });
                }
            }
        }
    }

    /// Sets a field to the value that a hint means for it.
    fn set(&mut self, hint: Accepted, text: &str) {
        if let Err(reason) = keys::set(&mut self.hints, hint.key, text) {
            return self.ignore(hint, reason);
        }
        let weaker = self.accepted.iter().position(|accepted| accepted.key == hint.key);
        if let Some(weaker) = weaker.map(|index| self.accepted.swap_remove(index)) {
            let reason =
                format!("overridden by {}={} from the {}", hint.name, hint.value, hint.origin);
            self.ignore(weaker, reason);
        }
        self.accepted.push(hint);
    }

    /// Reports a hint once, also if it stands for several keys.
    fn ignore(&mut self, hint: Accepted, reason: String) {
        let Accepted { name, value, origin, .. } = hint;
        let ignored = IgnoredHint { name, value, reason, origin };
        if self.ignored.last() != Some(&ignored) {
            self.ignored.push(ignored);
        }
    }

    /// Has the promise of a hint file switch collective buffering on again after the program has
    /// switched it off: ROMIO looks at the promise last.
    fn keep_promise(&mut self) {
        let is_promise = |hint: &&Accepted| {
            hint.key == keys::NO_INDEPENDENT && hint.origin == HintOrigin::HintFile
        };
        let Some(promise) = self.accepted.iter().find(is_promise) else { return };
        let (name, value, origin) = (promise.name.clone(), promise.value.clone(), promise.origin);
        for (key, text) in keys::settings(&name, &value) {
            let of_program =
                |hint: &Accepted| hint.key == key && hint.origin == HintOrigin::Program;
            if self.accepted.iter().any(of_program) {
                let (name, value) = (name.clone(), value.clone());
                self.set(Accepted { key, name, value, origin }, &text);
            }
        }
    }

    /// Ends the promise of no independent accesses where a hint has switched collective buffering
    /// off again, as ROMIO does.
    fn end_promise(&mut self) {
        let buffered = |switch| switch == Switch::Enable;
        let kept = buffered(self.hints.collective_read) && buffered(self.hints.collective_write);
        if self.hints.no_independent && !kept {
            self.hints.no_independent = false;
            self.accepted.retain(|hint| hint.key != keys::NO_INDEPENDENT);
        }
    }

    fn finish(mut self) -> (Hints, HintReport) {
        self.end_promise();
        let origin_of = |key| {
            let accepted = self.accepted.iter().find(|accepted| accepted.key == key);
            accepted.map_or(HintOrigin::Default, |accepted| accepted.origin)
        };
        let effective = keys::values(&self.hints)
            .map(|(name, value)| EffectiveHint { name, value, origin: origin_of(name) })
            .collect();
        let report = HintReport { effective, ignored: self.ignored };
        (self.hints, report)
    }
}

#[cfg(test)]
mod tests;
