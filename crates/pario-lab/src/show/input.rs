//! Reads records: JSON objects one after the other, on one line each or not, or lists of them.
//!
//! Inputs are read as a stream. A recording goes to its reader as soon as it ends, and of its calls
//! no more are kept than `sampled` has room for, so a file of any length takes bounded memory.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use pario::own_file::{self, Streams};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;

use super::records::{Bench, Explained, Paper, Recording, Run, Study};
use crate::failure::Failure;
use crate::sweep;

/// Below this, reading takes no time that a bar would show.
const BAR_BYTES_MIN: u64 = 16 << 20;
const BUFFER_BYTES: usize = 1 << 16;

/// What recordings are given to, one after the other.
pub(super) type Reader<'a> = dyn FnMut(Recording) -> Result<(), Failure> + 'a;

/// Everything that was read besides recordings, kind by kind, in the order of the files.
#[derive(Default)]
pub(super) struct Records {
    pub(super) bench: Vec<Bench>,
    pub(super) studies: Vec<Study>,
    pub(super) papers: Vec<Paper>,
    pub(super) explained: Vec<Explained>,
    /// How many recordings there were, and how many with calls.
    pub(super) recordings: u64,
    pub(super) with_calls: u64,
}

/// Reads all inputs.
///
/// # Errors
/// `Run` with the file and the line of the first thing that is no record, or what the reader of
/// recordings says.
pub(super) fn read(paths: &[PathBuf], reader: &mut Reader<'_>) -> Result<Records, Failure> {
    let bar = bar(paths)?;
    let mut records = Records::default();
    for path in paths {
        match path.as_os_str() == "-" {
            true => records.add("standard input", io::stdin().lock(), (&bar, reader))?,
            false => {
                let name = path.display().to_string();
                let file = own_file::open(path, Streams::Accepted)
                    .map_err(|error| Failure::during(&name, error))?;
                records.add(&name, file, (&bar, reader))?;
            }
        }
    }
    bar.finish_and_clear();
    Ok(records)
}

/// Shows how much is read, if it is much, and stderr is a terminal.
fn bar(paths: &[PathBuf]) -> Result<ProgressBar, Failure> {
    let len = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let total: u64 = paths.iter().map(len).sum();
    if total < BAR_BYTES_MIN {
        return Ok(ProgressBar::hidden());
    }
    let bar = ProgressBar::new(total);
    let style = "{elapsed_precise} {wide_bar} {bytes}/{total_bytes} read";
    let style = ProgressStyle::with_template(style);
    bar.set_style(style.map_err(|error| Failure::during("progress bar", error))?);
    Ok(bar)
}

impl Records {
    /// Whether there is nothing but recordings, without a call in them.
    pub(super) fn is_without_calls(&self) -> bool {
        let Records { bench, studies, papers, explained, with_calls, .. } = self;
        bench.len() + studies.len() + papers.len() + explained.len() == 0 && *with_calls == 0
    }

    /// Adds the records of a source; recordings go to the reader.
    pub(super) fn add(
        &mut self,
        name: &str,
        source: impl Read,
        (bar, reader): (&ProgressBar, &mut Reader<'_>),
    ) -> Result<(), Failure> {
        let mut source = Source::new(source, bar);
        let mut run = Run { command: Vec::new(), unix_seconds: None };
        let before = self.recordings;
        let mut found = false;
        while let Some(first) = source.first_byte().map_err(|error| Failure::during(name, error))? {
            let line = source.line();
            found = true;
            let item = match item(&mut source, first) {
                Err(error) if error.is_eof() && self.recordings > before => {
                    sweep::say(&format!("{name}:{line}: the recording was cut off here"));
                    break;
                }
                item => item.map_err(|error| failed((name, line), &error))?,
            };
            let wrong = |reason: String| Failure::Run(format!("{name}:{line}: {reason}"));
            match item {
                Item::Recording(mut recording) => {
                    recording.command.clone_from(&run.command);
                    recording.unix_seconds = recording.unix_seconds.or(run.unix_seconds);
                    self.hand_on(*recording, reader)?;
                }
                Item::Other(value) if value.get("kind").and_then(Value::as_str) == Some("run") => {
                    run = take(value, "the head of a recording").map_err(wrong)?;
                }
                Item::Other(value) => self.add_value(value, reader, &wrong)?,
            }
        }
        match found {
            true => Ok(()),
            false => Err(Failure::Run(format!("{name}:1: there is no record"))),
        }
    }

    fn hand_on(&mut self, recording: Recording, reader: &mut Reader<'_>) -> Result<(), Failure> {
        self.recordings += 1;
        self.with_calls += u64::from(recording.has_calls());
        reader(recording)
    }

    fn add_value(
        &mut self,
        value: Value,
        reader: &mut Reader<'_>,
        wrong: &dyn Fn(String) -> Failure,
    ) -> Result<(), Failure> {
        if let Value::Array(all) = value {
            return all.into_iter().try_for_each(|one| self.add_value(one, reader, wrong));
        }
        if value.get("kind").and_then(Value::as_str) == Some("statistics") {
            let recording = take(value, "a recording").map_err(wrong)?;
            return self.hand_on(recording, reader);
        }
        self.add_object(value).map_err(wrong)
    }

    fn add_object(&mut self, value: Value) -> Result<(), String> {
        let has = |key: &str| value.get(key).is_some();
        match value.get("kind").and_then(Value::as_str) {
            Some("study") => self.studies.push(take(value, "a study")?),
            Some("explain") => self.explained.push(take(value, "an outcome of explain")?),
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

/// A value of an input.
enum Item {
    Recording(Box<Recording>),
    Other(Value),
}

/// The value that begins with a byte.
fn item<R: Read>(source: &mut Source<'_, R>, first: u8) -> serde_json::Result<Item> {
    let mut deserializer = serde_json::Deserializer::from_reader(source);
    match first {
        b'{' => deserializer.deserialize_map(Object),
        _ => Value::deserialize(&mut deserializer).map(Item::Other),
    }
}

/// Reads an object. That of a recording, which says so first, is never in memory as a whole.
struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Item;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if object.is_empty() && key == "kind" && value == "statistics" {
                let recording = Recording::deserialize(MapAccessDeserializer::new(map))?;
                return Ok(Item::Recording(Box::new(recording)));
            }
            object.insert(key, value);
        }
        Ok(Item::Other(Value::Object(object)))
    }
}

fn take<T: DeserializeOwned>(value: Value, what: &str) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("not {what}: {error}"))
}

/// Says what is wrong with a value that begins on a line.
fn failed((name, line): (&str, usize), error: &serde_json::Error) -> Failure {
    let text = error.to_string();
    // The place is said before the reason.
    let plain = text.split(" at line ").next().unwrap_or(&text);
    match error.classify() {
        Category::Io => Failure::during(name, plain),
        Category::Data => Failure::Run(format!("{name}:{line}: not a recording: {plain}")),
        Category::Syntax | Category::Eof => {
            let line = line + error.line().saturating_sub(1);
            Failure::Run(format!("{name}:{line}: not JSON: {plain}"))
        }
    }
}

/// A buffer before a source, which knows the line where it is.
struct Source<'a, R> {
    inner: R,
    buffer: Vec<u8>,
    filled: usize,
    place: usize,
    /// Lines before `counted`, a place in the buffer.
    lines: usize,
    counted: usize,
    bar: &'a ProgressBar,
}

impl<'a, R: Read> Source<'a, R> {
    fn new(inner: R, bar: &'a ProgressBar) -> Source<'a, R> {
        let buffer = vec![0; BUFFER_BYTES];
        Source { inner, buffer, filled: 0, place: 0, lines: 0, counted: 0, bar }
    }

    /// Fills an empty buffer; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.place < self.filled {
            return Ok(true);
        }
        self.count_lines();
        self.filled = loop {
            match self.inner.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => break outcome?,
            }
        };
        (self.place, self.counted) = (0, 0);
        self.bar.inc(u64::try_from(self.filled).unwrap_or(0));
        Ok(self.filled > 0)
    }

    fn count_lines(&mut self) {
        let passed = &self.buffer[self.counted..self.place];
        self.lines += passed.iter().filter(|byte| **byte == b'\n').count();
        self.counted = self.place;
    }

    /// The line of the next byte, from 1.
    fn line(&mut self) -> usize {
        self.count_lines();
        self.lines + 1
    }

    /// Skips blanks; the first byte after them, if there is one.
    fn first_byte(&mut self) -> io::Result<Option<u8>> {
        while self.fill()? {
            let byte = self.buffer[self.place];
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.place += 1;
        }
        Ok(None)
    }
}

impl<R: Read> Read for Source<'_, R> {
    #[inline]
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.place == self.filled && !self.fill()? {
            return Ok(0);
        }
        let len = target.len().min(self.filled - self.place);
        target[..len].copy_from_slice(&self.buffer[self.place..self.place + len]);
        self.place += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    const RESULT: &str = r#"{"workload":"w","direction":"read","ranks":2,"block":4,"bytes":8,
        "seconds":0.5,"meeting_seconds":0.25,"unknown":[1]}"#;

    fn read_text(text: &str) -> Result<(Records, Vec<Recording>), String> {
        let (mut records, mut recordings) = (Records::default(), Vec::new());
        let mut reader = |recording| {
            recordings.push(recording);
            Ok(())
        };
        let added = records.add("in.jsonl", text.as_bytes(), (&ProgressBar::hidden(), &mut reader));
        match added {
            Err(Failure::Run(text)) => Err(text),
            added => {
                added.unwrap();
                Ok((records, recordings))
            }
        }
    }

    #[test]
    fn objects_and_lists_of_objects_are_read_on_one_line_or_several() {
        let text = format!("{RESULT}\n[{RESULT},{RESULT}]\n\n{RESULT}");
        let (records, _) = read_text(&text).unwrap();
        assert_eq!(records.bench.len(), 4);
        assert_eq!(records.bench[0].times.synchronisation_seconds, 0.25);
        assert_eq!(records.bench[0].nodes, 1);
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_file_and_line() {
        let good = RESULT.replace('\n', " ");
        let missing = r#"{"workload":"w","direction":"read"}"#;
        let no_file = r#"{"kind":"statistics","ranks":2}"#;
        let cases = [
            (String::new(), "in.jsonl:1: there is no record"),
            (format!("{good}\n{{\"a\":"), "in.jsonl:2: not JSON: EOF"),
            (format!("{good}\n\n{{}}\n"), "in.jsonl:3: not a record of bench"),
            (format!("{good}\n{missing}"), "in.jsonl:2: not a result of bench: missing field"),
            (format!("{good}\n\"x\""), "in.jsonl:2: not a record of bench"),
            (format!("{no_file}\n{{\"a\":"), "in.jsonl:1: not a recording: missing field `file`"),
            (format!("{good}\n{no_file}"), "in.jsonl:2: not a recording: missing field `file`"),
            (format!("{good}\n[{no_file}]"), "in.jsonl:2: not a recording: missing field `file`"),
            ("{\"kind\":\"new\"}".to_owned(), "in.jsonl:1: a record of the unknown kind \"new\""),
            ("pario 0.1.0 bench".to_owned(), "in.jsonl:1: not JSON: "),
        ];
        for (text, expected) in cases {
            let error = read_text(&text).map(|_| ()).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    /// A source without an end of its own: lines of a recording, made as they are read.
    struct Endless {
        line: Vec<u8>,
        place: usize,
        lines: u64,
        /// Lines that were read and not handed on.
        ahead: Rc<Cell<u64>>,
    }

    impl Read for Endless {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            if self.place == self.line.len() {
                if self.lines == 0 {
                    return Ok(0);
                }
                (self.place, self.lines) = (0, self.lines - 1);
                self.ahead.set(self.ahead.get() + 1);
            }
            let len = target.len().min(self.line.len() - self.place);
            target[..len].copy_from_slice(&self.line[self.place..self.place + len]);
            self.place += len;
            Ok(len)
        }
    }

    /// Each recording is handed on before the next one is read: no more than one is in memory.
    #[test]
    fn recordings_are_handed_on_while_the_input_is_read() {
        let line = br#"{"kind":"statistics","file":"f","ranks":1,"calls":[{"rank":0,"call":"write",
            "strategy":"list","begin_seconds":0,"seconds":1}]}
            "#;
        let ahead = Rc::new(Cell::new(0));
        let (line, place) = (line.to_vec(), line.len());
        let source = Endless { line, place, lines: 2000, ahead: ahead.clone() };
        let (mut count, mut most) = (0_u64, 0);
        let mut reader = |recording: Recording| {
            assert_eq!(recording.calls.len(), 1);
            count += 1;
            ahead.set(ahead.get() - 1);
            most = most.max(ahead.get());
            Ok(())
        };
        let mut records = Records::default();
        records.add("x", source, (&ProgressBar::hidden(), &mut reader)).unwrap();
        assert_eq!((count, ahead.get()), (2000, 0));
        assert!(most <= 1, "{most} recordings were read ahead");
    }
}
