//! What a report says: sections of charts, tables and facts, before it has a form.

use std::collections::HashMap;

use super::chart::Chart;

/// All of a report.
#[derive(Default)]
pub(super) struct Document {
    pub(super) sections: Vec<Section>,
}

/// One thing that was measured, computed or recorded.
#[derive(Default)]
pub(super) struct Section {
    pub(super) title: String,
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
}

/// A place in a table.
pub(super) enum Cell {
    Text(String),
    Number(String),
    /// A verdict of a study.
    Verdict(String),
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    pub(super) fn number(number: impl ToString) -> Cell {
        Cell::Number(number.to_string())
    }

    fn is_empty(&self) -> bool {
        let (Cell::Text(text) | Cell::Number(text) | Cell::Verdict(text)) = self;
        text.is_empty()
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
    /// All charts with names of their own, and no table with empty columns.
    pub(super) fn new(sections: Vec<Section>) -> Document {
        let mut document = Document { sections };
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
