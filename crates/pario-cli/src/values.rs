//! Values on the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pario_lab::scenario::workloads::ELEMENT_BYTES;
use pario_lab::size;

/// A word, what the help says of it, and what it stands for.
pub(crate) type Named<T> = (&'static str, &'static str, T);

/// Reads one of some words.
pub(crate) fn one_of<T>(all: &'static [Named<T>]) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync,
{
    let words = all.iter().map(|(word, about, _)| PossibleValue::new(word).help(about));
    let missing = || "not one of the words".to_owned();
    PossibleValuesParser::new(words).try_map(move |text| {
        let found = all.iter().find(|(word, ..)| *word == text);
        found.map(|(_, _, value)| value.clone()).ok_or_else(missing)
    })
}

/// A number that is not less than another one.
pub(crate) fn count(text: &str, least: u64) -> Result<u64, String> {
    let number: i128 = text.parse().map_err(|_| "not a whole number".to_owned())?;
    match u64::try_from(number) {
        Ok(count) if count >= least => Ok(count),
        Err(_) if number > 0 => Err("too large".to_owned()),
        _ => Err(format!("must be at least {least}")),
    }
}

/// The size of a block.
pub(crate) fn block(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text)?;
    match bytes.is_multiple_of(ELEMENT_BYTES) {
        true => Ok(bytes),
        false => Err(format!("not a multiple of {ELEMENT_BYTES} bytes, the size of an element")),
    }
}

/// A directory that is there.
pub(crate) fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err("not a directory".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_made_of_elements() {
        assert_eq!(block("8"), Ok(8));
        assert!(block("6").is_err());
    }
}
