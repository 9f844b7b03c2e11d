//! Parameters of workloads, named as the originals name them.
//!
//! Each has two values: that of the paper, and a small one for quick runs.

use std::fmt;

use crate::size;

/// What a parameter can be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// A number of at least this, maybe with K, M or G.
    Number(u64),
    /// One of these words; its number is its index.
    Words(&'static [&'static str]),
}

/// A parameter of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) values: Values,
    /// As in the paper.
    pub(crate) paper: u64,
    pub(crate) quick: u64,
    pub(crate) about: &'static str,
}

impl Parameter {
    /// Reads a value.
    fn parse(&self, text: &str) -> Result<u64, String> {
        let refuse = |reason: String| Err(format!("--set {}={text}: {reason}", self.name));
        match self.values {
            Values::Number(least) => match parse_number(text) {
                Ok(number) if number >= least => Ok(number),
                Ok(_) => refuse(format!("less than {least}")),
                Err(reason) => refuse(reason),
            },
            Values::Words(words) => match (0..).zip(words).find(|(_, word)| **word == text) {
                Some((index, _)) => Ok(index),
                None => refuse(format!("use {}", words.join(" or "))),
            },
        }
    }

    /// A value as a user writes it.
    pub(crate) fn shown(&self, value: u64) -> String {
        let index = usize::try_from(value).unwrap_or(usize::MAX);
        match self.values {
            Values::Number(_) => value.to_string(),
            Values::Words(words) => words.get(index).copied().unwrap_or_default().to_owned(),
        }
    }
}

/// A number, also 0, maybe with a suffix.
fn parse_number(text: &str) -> Result<u64, String> {
    match text {
        "0" => Ok(0),
        text => size::parse(text).map_err(|_| "not a number, as 512, 64K or 16M".to_owned()),
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (paper, quick) = (self.shown(self.paper), self.shown(self.quick));
        write!(formatter, "{:<22} {} [paper: {paper}", self.name, self.about)?;
        match paper == quick {
            true => write!(formatter, "]"),
            false => write!(formatter, ", --quick: {quick}]"),
        }
    }
}

/// The parameters of a kind of workload, with what the user has set.
#[derive(Clone, Debug)]
pub(crate) struct Chosen<'a> {
    parameters: &'static [Parameter],
    given: &'a [(String, u64)],
}

impl<'a> Chosen<'a> {
    pub(crate) fn new(parameters: &'static [Parameter], given: &'a [(String, u64)]) -> Chosen<'a> {
        Chosen { parameters, given }
    }

    fn given(&self, name: &str) -> Option<u64> {
        let last = self.given.iter().rev().find(|(given, _)| given == name);
        last.map(|&(_, value)| value)
    }

    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    /// The value of a parameter.
    pub(crate) fn number(&self, name: &str, quick: bool) -> u64 {
        let parameter = self.parameters.iter().find(|one| one.name == name);
        let default = parameter.map(|one| if quick { one.quick } else { one.paper });
        self.given(name).or(default).unwrap_or(0)
    }
}

/// Reads what the user has set for some kinds of workload.
///
/// # Errors
/// A name that none of them knows, or a value that it cannot have.
pub(crate) fn parse(
    given: &[(String, String)],
    kinds: &[&super::Kind],
) -> Result<Vec<(String, u64)>, String> {
    let known = || kinds.iter().flat_map(|kind| kind.parameters);
    let one = |(name, value): &(String, String)| {
        let Some(parameter) = known().find(|parameter| parameter.name == name) else {
            let names: Vec<&str> = known().map(|parameter| parameter.name).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(format!(
                "--set {name}={value}: no such parameter here; there are: {names}"
            ));
        };
        Ok((name.clone(), parameter.parse(value)?))
    };
    given.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::KINDS;
    use super::*;

    #[test]
    fn values_are_read_and_others_refused() {
        let kinds: Vec<&super::super::Kind> = KINDS.iter().collect();
        let read = |name: &str, value: &str| {
            let parsed = parse(&[(name.to_owned(), value.to_owned())], &kinds)?;
            Ok::<u64, String>(parsed[0].1)
        };
        assert_eq!(read("transferSize", "16M"), Ok(16 << 20));
        assert_eq!(read("reorderTasksRandom", "0"), Ok(0));
        assert_eq!(read("layout", "soa"), Ok(1));
        for (name, value, reason) in [
            ("transferSize", "0", "less than 1"),
            ("transferSize", "x", "not a number"),
            ("layout", "both", "use aos or soa"),
            ("transfersize", "1M", "there are: "),
        ] {
            let error = read(name, value).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn the_last_value_counts() {
        let given = [("ghost".to_owned(), 3), ("ghost".to_owned(), 5)];
        let parameters: &'static [Parameter] = KINDS[2].parameters;
        let chosen = Chosen::new(parameters, &given);
        assert_eq!(chosen.number("ghost", false), 5);
        assert_eq!(Chosen::new(parameters, &[]).number("ghost", false), 2);
        assert!(chosen.is_given("ghost") && !chosen.is_given("seed"));
    }
}
