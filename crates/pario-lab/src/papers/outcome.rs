//! What an experiment has found: the paper's figure or relation beside ours, and a verdict.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::{Number, Value};

/// What is to say of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Relation and factor are those of the paper, within the tolerance.
    Same,
    /// The relation holds, the factor is another one.
    SameOrder,
    NotSame,
    /// Nothing was run, for this reason.
    Cannot(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Same => formatter.pad("the same"),
            Verdict::SameOrder => formatter.pad("the same order"),
            Verdict::NotSame => formatter.pad("not the same"),
            Verdict::Cannot(reason) => formatter.pad(&format!("cannot run here: {reason}")),
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) paper: Value,
    pub(crate) ours: Value,
    pub(crate) unit: String,
    pub(crate) tolerance: String,
    pub(crate) verdict: Verdict,
}

/// Values to draw.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// All that one run of an experiment has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) rows: Vec<Row>,
    pub(crate) series: Vec<Series>,
    /// What was assumed, and what else is to know.
    pub(crate) notes: Vec<String>,
}

/// A number with six significant digits, so that the last bits of a sum never show.
pub(crate) fn rounded(number: f64) -> f64 {
    const NOTHING: f64 = 1e-9;
    if number.abs() < NOTHING {
        return 0.0;
    }
    format!("{number:.5e}").parse().unwrap_or(number)
}

/// A number for people and programs.
pub(crate) fn value(number: f64) -> Value {
    let rounded = rounded(number);
    Number::from_f64(rounded).map_or_else(|| Value::from(rounded.to_string()), Value::Number)
}

impl Row {
    fn new(name: impl Into<String>, paper: Value, ours: Value, verdict: Verdict) -> Row {
        let (unit, tolerance) = (String::new(), String::new());
        Row { name: name.into(), paper, ours, unit, tolerance, verdict }
    }

    fn with(self, unit: &str, tolerance: impl Into<String>) -> Row {
        Row { unit: unit.to_owned(), tolerance: tolerance.into(), ..self }
    }

    /// A number that has to lie in a range.
    pub(crate) fn within(
        name: impl Into<String>,
        paper: impl Into<Value>,
        (ours, unit): (f64, &str),
        range: RangeInclusive<f64>,
    ) -> Row {
        let verdict = if range.contains(&ours) { Verdict::Same } else { Verdict::NotSame };
        Row::new(name, paper.into(), value(ours), verdict).with(unit, shown(&range))
    }

    /// A number that has to be that of the paper.
    pub(crate) fn near(name: impl Into<String>, paper: f64, ours: (f64, &str), part: f64) -> Row {
        let off = paper.abs() * part;
        let row = Row::within(name, value(paper), ours, paper - off..=paper + off);
        Row { tolerance: format!("{} %", rounded(part * 100.0)), ..row }
    }

    /// A value that has to be exactly that of the paper.
    pub(crate) fn equal(name: impl Into<String>, paper: impl ToString, ours: impl ToString) -> Row {
        let (paper, ours) = (paper.to_string(), ours.to_string());
        let verdict = if paper == ours { Verdict::Same } else { Verdict::NotSame };
        Row::new(name, Value::from(paper), Value::from(ours), verdict).with("", "exact")
    }

    /// A relation that holds or not, with what was found.
    pub(crate) fn relation(
        name: impl Into<String>,
        paper: &str,
        ours: impl Into<String>,
        holds: bool,
    ) -> Row {
        let verdict = if holds { Verdict::Same } else { Verdict::NotSame };
        Row::new(name, Value::from(paper), Value::from(ours.into()), verdict)
            .with("", "the relation")
    }

    /// A factor that has to be more than 1, and is the paper's if it lies in a range.
    pub(crate) fn factor(
        name: impl Into<String>,
        paper: impl Into<Value>,
        ours: f64,
        range: RangeInclusive<f64>,
    ) -> Row {
        let verdict = match () {
            () if range.contains(&ours) => Verdict::Same,
            () if ours > 1.0 => Verdict::SameOrder,
            () => Verdict::NotSame,
        };
        let tolerance = format!("{}; more than 1 for the order", shown(&range));
        Row::new(name, paper.into(), value(ours), verdict).with("times", tolerance)
    }

    /// What was not run.
    pub(crate) fn cannot(name: impl Into<String>, paper: &str, reason: impl Into<String>) -> Row {
        let verdict = Verdict::Cannot(reason.into());
        Row::new(name, Value::from(paper), Value::Null, verdict)
    }
}

/// A range in words.
fn shown(range: &RangeInclusive<f64>) -> String {
    let (start, end) = (rounded(*range.start()), rounded(*range.end()));
    match (start == f64::NEG_INFINITY || start == 0.0, end.is_infinite()) {
        (_, true) => format!("at least {start}"),
        (true, false) => format!("at most {end}"),
        (false, false) => format!("{start} to {end}"),
    }
}

impl Findings {
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn draw(
        &mut self,
        name: impl Into<String>,
        (x_label, y_label): (&str, &str),
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        let points = points.into_iter().map(|(x, y)| (rounded(x), rounded(y))).collect();
        let (x_label, y_label) = (x_label.to_owned(), y_label.to_owned());
        self.series.push(Series { name: name.into(), x_label, y_label, points });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_can_be_right_right_in_order_or_wrong() {
        let verdict = |ours| Row::factor("", 2.0, ours, 1.5..=3.0).verdict;
        assert_eq!(verdict(2.0), Verdict::Same);
        assert_eq!(verdict(9.0), Verdict::SameOrder);
        assert_eq!(verdict(1.0), Verdict::NotSame);
        assert_eq!(verdict(f64::NAN), Verdict::NotSame);
    }

    #[test]
    fn ranges_are_words_and_numbers_have_six_digits() {
        assert_eq!(shown(&(0.45..=0.55)), "0.45 to 0.55");
        assert_eq!(shown(&(0.0..=1.2)), "at most 1.2");
        assert_eq!(shown(&(2.0..=f64::INFINITY)), "at least 2");
        assert_eq!(rounded(1.234_567_89), 1.23457);
        let row = Row::near("", 200.0, (201.0, "s"), 0.01);
        assert_eq!((row.verdict, row.tolerance.as_str()), (Verdict::Same, "1 %"));
    }
}
