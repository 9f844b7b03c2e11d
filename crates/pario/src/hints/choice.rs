//! Hints that are a choice between names: [`Strategy`], [`Switch`] and [`Statistics`].
//!
//! Each has one table of names, from which both reading and printing follow.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorClass, Result};

/// How the bytes of a request move between memory and storage.
///
/// ```
/// use pario::Strategy;
/// assert_eq!("two-phase".parse::<Strategy>()?, Strategy::TwoPhase);
/// assert_eq!(Strategy::TwoPhase.to_string(), "two-phase");
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// The cheapest of the others, by the cost model.
    #[default]
    Auto,
    /// One storage access per run.
    Direct,
    /// Runs batched into vectored storage accesses.
    List,
    /// Large storage accesses over runs and holes.
    Sieve,
    /// File domains, aggregators and rounds of at most one collective buffer.
    TwoPhase,
    /// Everything through one rank.
    Gather,
    /// Exchanges between partners in phases, then each rank stores what it has.
    MultiPhase,
    /// All of these phases, so that each rank stores one block of the file.
    InspectorExecutor,
}

impl Strategy {
    /// All names.
    const NAMES: [(&str, Strategy); 8] = [
        ("auto", Strategy::Auto),
        ("direct", Strategy::Direct),
        ("list", Strategy::List),
        ("sieve", Strategy::Sieve),
        ("two-phase", Strategy::TwoPhase),
        ("gather", Strategy::Gather),
        ("multi-phase", Strategy::MultiPhase),
        ("inspector-executor", Strategy::InspectorExecutor),
    ];

    /// The strategies that can be chosen, `Auto` first.
    pub fn all() -> impl Iterator<Item = Strategy> {
        Strategy::NAMES.iter().map(|&(_, strategy)| strategy)
    }

    /// The name by which a hint chooses this strategy.
    pub fn name(self) -> &'static str {
        let named = Strategy::NAMES.iter().find(|(_, strategy)| *strategy == self);
        named.map_or("unnamed", |(name, _)| name)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Strategy> {
        let wanted = text.trim();
        let row = Strategy::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        row.map(|&(_, strategy)| strategy).ok_or_else(|| {
            let names: Vec<&str> = Strategy::all().map(Strategy::name).collect();
            unusable(format!("not a strategy; known are {}", names.join(", ")))
        })
    }
}

/// Whether a technique is used: always, never, or as pario decides.
///
/// ```
/// use pario::Switch;
/// assert_eq!("ENABLE".parse::<Switch>()?, Switch::Enable);
/// assert_eq!("false".parse::<Switch>()?, Switch::Disable);
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Switch {
    /// pario decides.
    #[default]
    Automatic,
    /// Always.
    Enable,
    /// Never.
    Disable,
}

impl Switch {
    /// The names that are read; the first one of a value is the one that is printed.
    const NAMES: [(&str, Switch); 5] = [
        ("automatic", Switch::Automatic),
        ("enable", Switch::Enable),
        ("disable", Switch::Disable),
        ("true", Switch::Enable),
        ("false", Switch::Disable),
    ];
}

impl fmt::Display for Switch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Switch::NAMES.iter().find(|(_, switch)| switch == self);
        formatter.pad(named.map_or("unnamed", |(name, _)| name))
    }
}

impl FromStr for Switch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Switch> {
        let wanted = text.trim();
        let row = Switch::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        row.map(|&(_, switch)| switch)
            .ok_or_else(|| unusable("not one of automatic, enable, disable".to_owned()))
    }
}

/// What the close of a file prints of it.
///
/// ```
/// use pario::Statistics;
/// assert_eq!("1".parse::<Statistics>()?, Statistics::Summary);
/// assert_eq!("full".parse::<Statistics>()?, Statistics::Full);
/// assert_eq!("run.jsonl".parse::<Statistics>()?.to_string(), "json:run.jsonl");
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Statistics {
    /// Nothing.
    #[default]
    Off,
    /// What was done, the hints that somebody gave, and those that were ignored.
    Summary,
    /// The same with all hints in effect, also for a file that was only opened and closed.
    Full,
    /// One line of JSON with every call.
    Record(Recording),
}

/// Where statistics go as JSON, and whether storage accesses are among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Recording {
    /// The file that a line is appended to; stderr if it is empty.
    pub path: String,
    /// Whether every storage access is written down, with its time. This has to be known when the
    /// file is opened.
    pub trace: bool,
}

impl Statistics {
    /// The names that are read; the first one of a value is the one that is printed. The numbers
    /// are those of `MPICH_MPIIO_STATS`.
    const NAMES: [(&str, Statistics); 8] = [
        ("false", Statistics::Off),
        ("true", Statistics::Summary),
        ("full", Statistics::Full),
        ("0", Statistics::Off),
        ("1", Statistics::Summary),
        ("2", Statistics::Full),
        ("disable", Statistics::Off),
        ("enable", Statistics::Summary),
    ];

    /// How a file of a recording ends, if only its name is given.
    const ENDS: [&str; 2] = [".json", ".jsonl"];

    /// Where statistics are recorded, if they are.
    pub fn recording(&self) -> Option<&Recording> {
        match self {
            Statistics::Record(recording) => Some(recording),
            _ => None,
        }
    }

    /// Reads `json`, `json:FILE`, `trace`, `trace:FILE` or a name that ends in `.json` or `.jsonl`.
    fn parse_recording(text: &str) -> Option<Recording> {
        let (word, path) = match text.split_once(':') {
            Some((word, path)) => (word, Some(path)),
            None => (text, None),
        };
        let trace = word.eq_ignore_ascii_case("trace");
        let named = trace || word.eq_ignore_ascii_case("json");
        let path = match (named, path) {
            (true, None) => "",
            (true, Some(path)) if !path.is_empty() => path,
            (false, _) if Statistics::ENDS.iter().any(|end| text.ends_with(end)) => text,
            _ => return None,
        };
        // Hints travel as lines of text.
        let plain = !path.chars().any(char::is_control);
        plain.then(|| Recording { path: path.to_owned(), trace })
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Statistics::Record(Recording { path, trace }) = self {
            let word = if *trace { "trace" } else { "json" };
            let colon = if path.is_empty() { "" } else { ":" };
            return formatter.pad(&format!("{word}{colon}{path}"));
        }
        let named = Statistics::NAMES.into_iter().find(|(_, level)| level == self);
        formatter.pad(named.map_or("unnamed", |(name, _)| name))
    }
}

impl FromStr for Statistics {
    type Err = Error;

    fn from_str(text: &str) -> Result<Statistics> {
        let wanted = text.trim();
        let row = Statistics::NAMES.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let recording = || Statistics::parse_recording(wanted).map(Statistics::Record);
        row.map(|(_, level)| level).or_else(recording).ok_or_else(|| {
            unusable(
                "not one of true, false, full, json, json:FILE, trace, trace:FILE, FILE.json, \
                 FILE.jsonl"
                    .to_owned(),
            )
        })
    }
}

fn unusable(reason: String) -> Error {
    Error::new(ErrorClass::InfoValue, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_is_read_back_from_its_name() {
        assert_eq!(Strategy::all().next(), Some(Strategy::Auto));
        assert_eq!(Strategy::all().count(), 8);
        for strategy in Strategy::all() {
            assert_eq!(strategy.to_string().parse::<Strategy>().unwrap(), strategy);
        }
    }

    #[test]
    fn an_unknown_strategy_is_refused_with_those_that_are_known() {
        let error = "fast".parse::<Strategy>().unwrap_err();
        assert_eq!(error.class(), ErrorClass::InfoValue);
        assert!(error.to_string().contains("two-phase"), "{error}");
    }

    #[test]
    fn recordings_are_read_back_from_what_is_printed() {
        let cases = [
            ("json", "", false),
            ("JSON:/a b/c", "/a b/c", false),
            ("json:a:b", "a:b", false),
            ("trace", "", true),
            ("trace:x.jsonl", "x.jsonl", true),
            (" run.json ", "run.json", false),
            ("/a:b/run.jsonl", "/a:b/run.jsonl", false),
        ];
        for (text, path, trace) in cases {
            let read = text.parse::<Statistics>().unwrap();
            let recording = Recording { path: path.to_owned(), trace };
            assert_eq!(read, Statistics::Record(recording), "{text}");
            assert_eq!(read.to_string().parse::<Statistics>().unwrap(), read);
        }
        for text in ["json:", "trace:", "jsonx", "run.csv", "json:a\nb", "yes"] {
            assert!(text.parse::<Statistics>().is_err(), "{text}");
        }
    }

    #[test]
    fn switches_are_read_in_any_case_and_as_truth_values() {
        let cases = [
            ("automatic", Switch::Automatic),
            ("ENABLE", Switch::Enable),
            (" Disable ", Switch::Disable),
            ("true", Switch::Enable),
            ("FALSE", Switch::Disable),
        ];
        for (text, switch) in cases {
            assert_eq!(text.parse::<Switch>().unwrap(), switch);
            assert_eq!(switch.to_string().parse::<Switch>().unwrap(), switch);
        }
        assert!("enabled".parse::<Switch>().is_err());
    }
}
