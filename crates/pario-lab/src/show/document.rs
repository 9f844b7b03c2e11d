//! What a report says: sections of charts, tables and facts, before it has a form.

use std::collections::HashMap;

use super::chart::{Chart, grouped, size};

/// All of a report.
#[derive(Default)]
pub(super) struct Document {
    pub(super) sections: Vec<Section>,
}

/// Where a section is in the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    Alone,
    /// Begins a group, and stands for it in the navigation.
    Head,
    /// One of the group before it.
    Member,
}

/// One thing that was measured, computed or recorded.
#[derive(Default)]
pub(super) struct Section {
    pub(super) title: String,
    /// A short title for the navigation; without one, the title.
    pub(super) link: String,
    /// Its name in links; without one, it gets a number.
    pub(super) anchor: String,
    pub(super) place: Place,
    /// What it is, in a sentence.
    pub(super) summary: String,
    pub(super) charts: Vec<Chart>,
    pub(super) tables: Vec<Table>,
    /// Names and values: the machine, the hints.
    pub(super) facts: Vec<(String, String)>,
    /// Commands that repeat it.
    pub(super) commands: Vec<String>,
    /// What must be known to read it right.
    pub(super) notes: Vec<String>,
}

/// A table; columns of numbers are aligned to the right.
#[derive(Default)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// Rows that are to be seen first.
    pub(super) strong: Vec<usize>,
    /// Shown only when it is opened.
    pub(super) is_folded: bool,
}

/// A place in a table.
pub(super) enum Cell {
    Text(String),
    Number(String),
    /// A verdict of a study.
    Verdict(String),
    /// Bytes: a size that people read, with the number behind it.
    Bytes(u64),
    /// The title of a section, and its anchor.
    Link(String, String),
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    pub(super) fn number(number: impl ToString) -> Cell {
        Cell::Number(number.to_string())
    }

    fn is_empty(&self) -> bool {
        match self {
            Cell::Text(text) | Cell::Number(text) | Cell::Verdict(text) => text.is_empty(),
            Cell::Bytes(_) | Cell::Link(..) => false,
        }
    }

    /// Bytes, or nothing.
    pub(super) fn bytes(bytes: Option<u64>) -> Cell {
        bytes.map_or_else(|| Cell::Number(String::new()), Cell::Bytes)
    }

    /// A number, or nothing.
    pub(super) fn maybe(number: Option<impl ToString>) -> Cell {
        Cell::Number(number.map_or(String::new(), |number| number.to_string()))
    }
}

impl Table {
    /// Leaves out columns that have no value in any row.
    fn drop_empty_columns(&mut self) {
        for column in (0..self.columns.len()).rev() {
            let empty = |row: &Vec<Cell>| row.get(column).is_none_or(Cell::is_empty);
            if self.rows.iter().all(empty) {
                self.columns.remove(column);
                let rows = self.rows.iter_mut().filter(|row| column < row.len());
                rows.for_each(|row| drop(row.remove(column)));
            }
        }
    }
}

impl Document {
    /// All charts and links with names of their own, and no table with empty columns.
    pub(super) fn new(sections: Vec<Section>) -> Document {
        let mut document = Document { sections };
        name_apart(&mut document.sections);
        let tables = document.sections.iter_mut().flat_map(|section| &mut section.tables);
        tables.for_each(Table::drop_empty_columns);
        let mut names = Names::default();
        let charts = document.sections.iter_mut().flat_map(|section| &mut section.charts);
        charts.for_each(|chart| chart.id = names.free(slug(&chart.id)));
        document
    }

    pub(super) fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.sections.iter().flat_map(|section| &section.charts)
    }
}

/// Gives sections titles, links and anchors that nobody else has.
fn name_apart(sections: &mut [Section]) {
    let mut titles = Names::default();
    for (index, section) in sections.iter_mut().enumerate() {
        section.title = titles.free_numbered(section.title.clone());
        if section.anchor.is_empty() {
            section.anchor = format!("s{index}");
        }
        if section.link.is_empty() {
            section.link.clone_from(&section.title);
        }
    }
    let mut links: HashMap<String, u32> = HashMap::new();
    for section in sections.iter() {
        *links.entry(section.link.clone()).or_default() += 1;
    }
    let is_shared = |link: &String| links.get(link).is_some_and(|count| *count > 1);
    let shared = sections.iter_mut().filter(|section| is_shared(&section.link));
    shared.for_each(|section| section.link.clone_from(&section.title));
}

/// Names that are taken, each with the last number that was tried after it.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// The name, or the first that is free with a number after it.
    fn free(&mut self, name: String) -> String {
        let mut number = self.0.get(&name).copied().unwrap_or(0);
        let mut free = name.clone();
        while self.0.contains_key(&free) {
            number = number.max(1) + 1;
            free = format!("{name}-{number}");
        }
        self.0.insert(name, number);
        self.0.entry(free.clone()).or_insert(0);
        free
    }

    /// The same for people: "name (2)".
    fn free_numbered(&mut self, name: String) -> String {
        let free = self.free(name.clone());
        match free.strip_prefix(&format!("{name}-")) {
            Some(number) => format!("{name} ({number})"),
            None => free,
        }
    }
}

/// A size for people, and its number of bytes behind it.
pub(super) fn exact(bytes: u64) -> (String, String) {
    let shown = match bytes {
        0 => "0".to_owned(),
        // A cast that rounds only beyond 2^53 bytes.
        bytes => size(bytes as f64),
    };
    (shown, format!("{} bytes", grouped(bytes)))
}

/// A text as the name of a file.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars() {
        match character.is_ascii_alphanumeric() {
            true => slug.push(character.to_ascii_lowercase()),
            false if slug.ends_with('-') || slug.is_empty() => {}
            false => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// Words as one would type them.
pub(super) fn shell(words: &[String]) -> String {
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "-_./=,:+@%".contains(character);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(slug("Block-cyclic, 4 B: write (MB/s)"), "block-cyclic-4-b-write-mb-s");
        assert_eq!(slug("../../etc"), "etc");
    }

    #[test]
    fn names_that_are_taken_get_a_number() {
        let mut names = Names::default();
        let found = ["a", "a", "a-2", "a", "b"].map(|name| names.free(name.to_owned()));
        assert_eq!(found, ["a", "a-2", "a-2-2", "a-3", "b"]);
    }

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["pario", "bench", "--hint", "cb_config_list=*:2", "it's"].map(str::to_owned);
        assert_eq!(shell(&words), "pario bench --hint 'cb_config_list=*:2' 'it'\\''s'");
    }
}
