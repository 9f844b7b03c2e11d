//! What became of every hint: the values in effect, and those that were ignored, with the reason.
//!
//! A hint that has no effect is listed here; if a program gives a great many of them, the rest is
//! counted.

use std::fmt;

use super::{Hints, keys};
use crate::escaped::escaped;

/// Where a value comes from, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HintOrigin {
    /// Nobody gave a value.
    Default,
    /// The file itself; nobody can set it.
    File,
    /// The file that `ROMIO_HINTS` names.
    HintFile,
    /// The program, with the open or a later call.
    Program,
    /// `PARIO_HINTS`, `PARIO_STATS`, or those of Cray.
    Environment,
}

impl fmt::Display for HintOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            HintOrigin::Default => "default",
            HintOrigin::File => "file",
            HintOrigin::HintFile => "hint file",
            HintOrigin::Program => "program",
            HintOrigin::Environment => "environment",
        })
    }
}

/// A hint in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectiveHint {
    /// The key, as a program gives it.
    pub name: &'static str,
    /// The value; as a hint it would have the same effect again.
    pub value: String,
    /// Who gave it.
    pub origin: HintOrigin,
}

/// A hint without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredHint {
    /// The key, or the variable that could not be used.
    pub name: String,
    /// The value as it was given.
    pub value: String,
    /// Why it has no effect.
    pub reason: String,
    /// Who gave it.
    pub origin: HintOrigin,
}

/// What became of every hint of one file. `Display` prints it as a table.
///
/// ```
/// use pario::{Environment, HintSet};
/// use std::path::Path;
///
/// let given = HintSet::new().with("cb_node", "4");
/// let (_, report) = given.resolve(Path::new("out.dat"), &Environment::default());
/// assert_eq!(report.ignored[0].reason, "unknown hint; did you mean cb_nodes?");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HintReport {
    /// The values in effect, and what the file says of itself. A hint whose value is left to pario
    /// is not among them.
    pub effective: Vec<EffectiveHint>,
    /// The hints without effect, in the order in which they were met.
    pub ignored: Vec<IgnoredHint>,
}

impl HintReport {
    /// The report of a rank, with the values that all ranks agreed on.
    pub(crate) fn with_agreed(mut self, agreed: &Hints) -> HintReport {
        let own = std::mem::take(&mut self.effective);
        let origin_of = |name, value: &str| {
            let same = own.iter().find(|hint| hint.name == name && hint.value == value);
            same.map_or(HintOrigin::Program, |hint| hint.origin)
        };
        let effective = keys::values(agreed).map(|(name, value)| {
            let origin = origin_of(name, &value);
            EffectiveHint { name, value, origin }
        });
        self.effective = effective.collect();
        self
    }

    /// The report with what the file says of itself.
    pub(crate) fn and_of_file(mut self, keys: Vec<EffectiveHint>) -> HintReport {
        self.effective.extend(keys);
        self
    }

    /// Whether the file itself says this.
    pub(crate) fn says_of_file(&self, name: &str, value: &str) -> bool {
        let same = |hint: &&EffectiveHint| hint.name == name && hint.value == value;
        self.effective.iter().find(same).is_some_and(|hint| hint.origin == HintOrigin::File)
    }

    /// The value of a hint in effect.
    pub fn value(&self, name: &str) -> Option<&str> {
        let hint = self.effective.iter().find(|hint| hint.name == name)?;
        Some(&hint.value)
    }
}

impl fmt::Display for HintReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["hint", "value", "origin", ""].map(str::to_owned)];
        for hint in &self.effective {
            let row = [hint.name, &hint.value, &hint.origin.to_string(), ""];
            rows.push(row.map(printable));
        }
        for hint in &self.ignored {
            let verdict = format!("ignored: {}", hint.reason);
            let row = [&hint.name, &hint.value, &hint.origin.to_string(), &verdict];
            rows.push(row.map(|cell| printable(cell)));
        }
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let (names, values, origins) = (width(0), width(1), width(2));
        for [name, value, origin, verdict] in &rows {
            let line = format!("{name:names$}  {value:values$}  {origin:origins$}  {verdict}");
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The text with its control characters escaped, and not longer than a line takes.
pub(crate) fn printable(text: &str) -> String {
    const CHARACTERS_MAX: usize = 120;
    let start: String = text.chars().take(CHARACTERS_MAX).collect();
    let mut shown = escaped(&start).into_owned();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(value: &str) -> IgnoredHint {
        IgnoredHint {
            name: "cb_node".to_owned(),
            value: value.to_owned(),
            reason: "unknown hint".to_owned(),
            origin: HintOrigin::Program,
        }
    }

    #[test]
    fn the_table_shows_effective_and_ignored_hints() {
        let effective = EffectiveHint {
            name: "cb_buffer_size",
            value: "16777216".to_owned(),
            origin: HintOrigin::Default,
        };
        let report = HintReport { effective: vec![effective], ignored: vec![ignored("4")] };
        let lines = [
            "hint            value     origin\n",
            "cb_buffer_size  16777216  default\n",
            "cb_node         4         program  ignored: unknown hint\n",
        ];
        assert_eq!(report.to_string(), lines.concat());
        assert_eq!(report.value("cb_buffer_size"), Some("16777216"));
        assert_eq!(report.value("cb_node"), None);
    }

    #[test]
    fn the_table_sends_no_control_characters_to_a_terminal() {
        let hostile = format!("\u{1b}[2J\n{}", "x".repeat(1000));
        let report = HintReport { effective: vec![], ignored: vec![ignored(&hostile)] };
        let table = report.to_string();
        assert_eq!(table.lines().count(), 2);
        assert!(!table.contains('\u{1b}') && table.len() < 500, "{table}");
    }
}
