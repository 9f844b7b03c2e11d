//! Reads records: JSON objects one after the other, on one line each or not, or lists of them.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::records::{Bench, Explained, Paper, Recording, Run, Study};
use crate::failure::Failure;

/// Everything that was read, kind by kind, in the order of the files.
#[derive(Default)]
pub(super) struct Records {
    pub(super) bench: Vec<Bench>,
    pub(super) studies: Vec<Study>,
    pub(super) papers: Vec<Paper>,
    pub(super) explained: Vec<Explained>,
    pub(super) recordings: Vec<Recording>,
}

/// Reads all inputs.
///
/// # Errors
/// `Run` with the file and the line of the first thing that is no record.
pub(super) fn read(paths: &[PathBuf]) -> Result<Records, Failure> {
    let mut records = Records::default();
    for path in paths {
        let (name, text) = contents(path)?;
        records.add(&name, &text).map_err(Failure::Run)?;
    }
    Ok(records)
}

/// The name of an input for messages, and what is in it.
fn contents(path: &Path) -> Result<(String, String), Failure> {
    let (name, read) = match path.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            ("standard input".to_owned(), read.map(|_| text))
        }
        false => (path.display().to_string(), std::fs::read_to_string(path)),
    };
    match read {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Failure::during(name, error)),
    }
}

impl Records {
    /// Adds the records of a text.
    pub(super) fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let (mut found, first) = (false, self.recordings.len());
        let mut command = Vec::new();
        loop {
            let start = values.byte_offset();
            let Some(value) = values.next() else { break };
            // The offset is that of the end of the value before.
            let blank = text[start..].len() - text[start..].trim_start().len();
            let value = value
                .map_err(|error| format!("{name}:{}: not JSON: {}", error.line(), plain(&error)))?;
            let line = 1 + text[..start + blank].matches('\n').count();
            found = true;
            if value.get("kind").and_then(Value::as_str) == Some("run") {
                command = take::<Run>(value, "the head of a recording")
                    .map_err(|reason| format!("{name}:{line}: {reason}"))?
                    .command;
                continue;
            }
            self.add_value(value).map_err(|reason| format!("{name}:{line}: {reason}"))?;
        }
        for recording in &mut self.recordings[first..] {
            recording.command.clone_from(&command);
        }
        match found {
            true => Ok(()),
            false => Err(format!("{name}:1: there is no record")),
        }
    }

    fn add_value(&mut self, value: Value) -> Result<(), String> {
        if let Value::Array(all) = value {
            return all.into_iter().try_for_each(|one| self.add_value(one));
        }
        let has = |key: &str| value.get(key).is_some();
        match value.get("kind").and_then(Value::as_str) {
            Some("study") => self.studies.push(take(value, "a study")?),
            Some("explain") => self.explained.push(take(value, "an outcome of explain")?),
            Some("statistics") => self.recordings.push(take(value, "a recording")?),
            Some(kind) => return Err(format!("a record of the unknown kind {kind:?}")),
            None if has("tables") && has("figure_11") => {
                self.papers.push(take(value, "an outcome of explain paper")?);
            }
            None if has("workload") && has("direction") => {
                self.bench.push(take(value, "a result of bench")?);
            }
            None => {
                return Err("not a record of bench, study, explain or statistics".to_owned());
            }
        }
        Ok(())
    }
}

fn take<T: DeserializeOwned>(value: Value, what: &str) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("not {what}: {error}"))
}

/// The text of an error without its place, which is said before it.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{"workload":"w","direction":"read","ranks":2,"block":4,"bytes":8,
        "seconds":0.5,"meeting_seconds":0.25,"unknown":[1]}"#;

    fn read_text(text: &str) -> Result<Records, String> {
        let mut records = Records::default();
        records.add("in.jsonl", text).map(|()| records)
    }

    #[test]
    fn objects_and_lists_of_objects_are_read_on_one_line_or_several() {
        let text = format!("{RESULT}\n[{RESULT},{RESULT}]\n\n{RESULT}");
        let records = read_text(&text).unwrap();
        assert_eq!(records.bench.len(), 4);
        assert_eq!(records.bench[0].times.synchronisation_seconds, 0.25);
        assert_eq!(records.bench[0].nodes, 1);
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_file_and_line() {
        let good = RESULT.replace('\n', " ");
        let missing = r#"{"workload":"w","direction":"read"}"#;
        let cases = [
            (String::new(), "in.jsonl:1: there is no record"),
            (format!("{good}\n{{\"a\":"), "in.jsonl:2: not JSON: EOF"),
            (format!("{good}\n\n{{}}\n"), "in.jsonl:3: not a record of bench"),
            (format!("{good}\n{missing}"), "in.jsonl:2: not a result of bench: missing field"),
            (format!("{good}\n\"x\""), "in.jsonl:2: not a record of bench"),
            ("{\"kind\":\"new\"}".to_owned(), "in.jsonl:1: a record of the unknown kind \"new\""),
            ("pario 0.1.0 bench".to_owned(), "in.jsonl:1: not JSON: "),
        ];
        for (text, expected) in cases {
            let error = read_text(&text).map(|_| ()).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
