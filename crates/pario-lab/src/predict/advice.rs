//! What a caller can change, and what it would gain by that.

use std::fmt;

use pario::plan::{Cause, Part};
use pario::{Environment, HintSet};
use serde::Serialize;

use super::answer::{Row, Term, part_name, time};
use crate::scenario::question::{Answer, Question, explain};

/// A change counts if it leaves less than this part of the time.
pub(super) const WORTH: f64 = 0.9;

/// Something to change, and the time that is predicted for it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    /// In words.
    pub(super) what: String,
    /// The hint, if it is one.
    pub(super) hint: Option<String>,
    /// Its better value; none to leave it out.
    pub(super) value: Option<String>,
    pub(super) predicted_ms: f64,
}

/// What calls take as they are made now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) predicted_ms: f64,
    pub(super) measured_ms: Option<f64>,
}

impl Now {
    /// Whether a change leaves less than this part of what is predicted, and less than what was
    /// measured.
    pub(super) fn is_worth(&self, change_ms: f64, part: f64) -> bool {
        change_ms < part * self.predicted_ms && self.measured_ms.is_none_or(|ms| change_ms < ms)
    }
}

impl fmt::Display for Now {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&time(self.predicted_ms))?;
        match self.measured_ms {
            Some(ms) => write!(formatter, " (measured: {})", time(ms)),
            None => Ok(()),
        }
    }
}

/// A hint that somebody gave.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) name: String,
    pub(super) value: String,
    /// As `program` or `environment`.
    pub(super) origin: String,
}

/// The hints of some, as a program gives them.
pub(super) fn hint_set<'a>(given: impl IntoIterator<Item = &'a Given>) -> HintSet {
    given.into_iter().map(|hint| (hint.name.clone(), hint.value.clone())).collect()
}

/// The hint that is better left out, or all of them; none if that gains nothing in comparison with
/// what is predicted and measured now.
///
/// # Errors
/// As [`explain`].
pub(super) fn hint_change(
    question: &Question,
    given: &[Given],
    now: Now,
) -> pario::Result<Option<Change>> {
    let mut best: Option<Change> = None;
    for index in 0..given.len() {
        let others = given.iter().enumerate().filter(|(other, _)| *other != index);
        let hints = hint_set(others.map(|(_, hint)| hint));
        let answer = with_hints(question, hints)?;
        let chosen = answer.chosen();
        let predicted_ms = chosen.total_us() / 1e3;
        let is_best = best.as_ref().is_none_or(|best| predicted_ms < best.predicted_ms);
        if is_best && now.is_worth(predicted_ms, WORTH) {
            let strategy = chosen.strategy.to_string();
            best = Some(without(&given[index], &strategy, (predicted_ms, now)));
        }
    }
    if best.is_some() || given.len() < 2 {
        return Ok(best);
    }
    let answer = with_hints(question, HintSet::new())?;
    let predicted_ms = answer.chosen().total_us() / 1e3;
    let names: Vec<String> = given.iter().map(Given::shown).collect();
    let what = format!(
        "leave out the hints {}: {} is predicted to take {} instead of {now}",
        names.join(", "),
        answer.chosen().strategy,
        time(predicted_ms),
    );
    let change = Change { what, hint: None, value: None, predicted_ms };
    Ok(now.is_worth(predicted_ms, WORTH).then_some(change))
}

fn with_hints(question: &Question, hints: HintSet) -> pario::Result<Answer> {
    let mut question = question.clone();
    question.hints = hints;
    explain(&question)
}

impl Given {
    fn shown(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// The advice to do without a hint.
fn without(hint: &Given, strategy: &str, (predicted_ms, now): (f64, Now)) -> Change {
    let (_, defaults) = HintSet::new().resolve("".as_ref(), &Environment::default());
    let value = defaults.value(&hint.name).map(str::to_owned);
    let (name, shown) = (&hint.name, hint.shown());
    let mut what = format!(
        "leave out the hint {shown} ({}): {strategy} is predicted to take {} instead of {now}",
        hint.origin,
        time(predicted_ms),
    );
    if let Some(value) = &value {
        what += &format!("; to try it: pario run --hint {name}={value} -- COMMAND");
    }
    Change { what, hint: Some(name.clone()), value, predicted_ms }
}

/// The reason for a choice, if a way that `auto` leaves to hints is predicted to be faster.
pub(super) fn honest(reason: &str, chosen: &Row, rows: &[Row]) -> String {
    let fastest = rows.iter().find(|row| row.predicted_ms < chosen.predicted_ms);
    match (reason.strip_prefix("predicted fastest"), fastest) {
        (Some(rest), Some(row)) => format!(
            "predicted fastest of what auto takes by itself (not {}, which hints can name){rest}",
            row.strategy
        ),
        _ => reason.to_owned(),
    }
}

/// What takes most of the time: of the measured one where there is one, and what would change that.
pub(super) fn longest(chosen: &Row) -> String {
    let of_part = |part: Option<Part>| {
        let fits = move |term: &&Term| part.is_none_or(|part| term.cause.part() == part);
        let terms = chosen.terms.iter().filter(fits);
        terms.max_by(|one, other| one.ms.total_cmp(&other.ms))
    };
    if let Some((part, percent)) = chosen.longest_part() {
        let (name, cause) = (part_name(part), of_part(Some(part)).map(|term| term.cause));
        let help = cause.map_or_else(|| help_of_part(part), help);
        let cause = cause.map_or(String::new(), |cause| format!(", mostly {cause} by the model"));
        return help.after(&format!("{percent:.0} % of the measured time: {name}{cause}"));
    }
    let Some(term) = of_part(None) else { return "there is nothing to do".to_owned() };
    let percent = 100.0 * term.ms / chosen.predicted_ms.max(f64::MIN_POSITIVE);
    help(term.cause).after(&format!("{percent:.0} % of the predicted time: {}", term.cause))
}

/// What would make something faster.
enum Help {
    /// A change of the program.
    Change(&'static str),
    /// Nothing that a program or a hint can do.
    Machine(&'static str),
}

impl Help {
    /// A line. What the program can change is never called nothing.
    fn after(self, what: &str) -> String {
        match self {
            Help::Change(help) => format!("{what}; {help}"),
            Help::Machine(help) => format!("nothing to change: {what}; {help}"),
        }
    }
}

/// Whether calls are better made together is computed, and is a [`Change`] then.
fn help(cause: Cause) -> Help {
    match cause {
        Cause::StorageCalls | Cause::ReadFirstCalls => {
            Help::Change("make pieces longer, or calls larger")
        }
        Cause::ReadFirstBytes => Help::Change("leave no holes: they are read and written back"),
        Cause::StorageBytes => Help::Machine("only faster storage helps"),
        Cause::Messages | Cause::MessagesBetweenNodes => {
            Help::Change("use fewer aggregators (cb_nodes), or a larger cb_buffer_size")
        }
        Cause::BytesBetweenNodes => {
            Help::Machine("only a faster network helps, or aggregators on more nodes")
        }
        Cause::PiecesCopied | Cause::PiecesPacked | Cause::WindowsAssembled => {
            Help::Change("make pieces longer in the file, if you can")
        }
        Cause::Positioning => Help::Change("make calls larger, or leave cb_nodes to pario"),
        Cause::Waking => Help::Change("make calls larger, or fewer"),
        Cause::Planning => Help::Change("keep the file open: a plan is kept for equal calls"),
        Cause::Locks => Help::Change("write without holes: no locks then"),
        cause => help_of_part(cause.part()),
    }
}

/// Where the model expects nothing in this part.
fn help_of_part(part: Part) -> Help {
    match part {
        Part::Planning => Help::Change("keep the file open: a plan is kept for equal calls"),
        Part::Synchronisation => {
            Help::Change("let all ranks reach the call at the same time, and give each a core")
        }
        Part::Exchange => Help::Change("run one rank for each core"),
        Part::Storage => Help::Machine("only faster storage helps"),
    }
}

/// Whether two ways come to the same: a list of one run is served directly.
fn is_same(one: &Row, other: &Row) -> bool {
    let parts = one.parts_ms().into_iter().zip(other.parts_ms());
    one.aggregators == other.aggregators && parts.into_iter().all(|(one, other)| one == other)
}

/// Where a way is faster and where it is slower than the best of those that work in another manner:
/// with aggregators or without.
pub(super) fn comparison(chosen: &Row, rows: &[Row]) -> String {
    let others = || rows.iter().filter(|row| !is_same(row, chosen));
    let unlike = |row: &&Row| (row.aggregators == 0) != (chosen.aggregators == 0);
    let Some(other) = others().find(unlike).or_else(|| others().next()) else {
        return String::new();
    };
    let names = ["planning", "waiting", "exchange", "storage"];
    let parts = names.into_iter().zip(chosen.parts_ms().into_iter().zip(other.parts_ms()));
    // What differs by less than a hundredth of the time does not decide.
    let least_ms = 0.01 * chosen.predicted_ms.min(other.predicted_ms);
    let differences: Vec<String> = parts
        .filter(|(_, (own, others))| (own - others).abs() > least_ms)
        .map(|(name, (own, others))| match own > others {
            true => format!("{} more {name}", time(own - others)),
            false => format!("{} less {name}", time(others - own)),
        })
        .collect();
    match differences.is_empty() {
        true => format!("compared with {}: the same time", other.strategy),
        false => format!("compared with {}: {}", other.strategy, differences.join(", ")),
    }
}

/// That no other way is predicted to be faster, and by how much.
pub(super) fn best(chosen: &Row, rows: &[Row]) -> String {
    let others = rows.iter().filter(|row| !is_same(row, chosen));
    let next = others.min_by(|one, other| one.predicted_ms.total_cmp(&other.predicted_ms));
    match next {
        None => "no other way: all come to the same".to_owned(),
        Some(next) if next.predicted_ms > chosen.predicted_ms => {
            let more = 100.0 * (next.predicted_ms / chosen.predicted_ms.max(1e-9) - 1.0);
            format!(
                "no other way is predicted to be faster: {} takes {}",
                next.strategy,
                match more < 100.0 {
                    true => format!("{more:.0} % more"),
                    false => format!("{:.1} times as long", 1.0 + more / 100.0),
                }
            )
        }
        Some(next) if chosen.measured_ms.is_some_and(|ms| ms <= next.predicted_ms) => format!(
            "no other way is predicted to be faster than what was measured: {} takes {}",
            next.strategy,
            time(next.predicted_ms)
        ),
        Some(next) => format!(
            "no other way is predicted to be clearly faster: {} takes about as long",
            next.strategy
        ),
    }
}
