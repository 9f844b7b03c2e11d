//! Writes JSON objects (RFC 8259).
//!
//! By hand, since the crate `serde_json` compares its values with every number: a program that has
//! it among its dependencies must say the types of empty lists and of sums that it compares.
//! What pario writes is flat, and names are its own.

use std::fmt::{Display, Write};

/// An object that grows.
#[derive(Debug)]
pub(super) struct Object {
    text: String,
}

impl Object {
    pub(super) fn new() -> Object {
        Object { text: "{".to_owned() }
    }

    /// Adds a number, or a truth value.
    pub(super) fn number(self, name: &str, number: impl Display) -> Object {
        self.raw(name, &number.to_string())
    }

    pub(super) fn text(self, name: &str, text: &str) -> Object {
        let quoted = quoted(text);
        self.raw(name, &quoted)
    }

    /// Adds a list of what is JSON already.
    pub(super) fn list<T: AsRef<str>>(
        self,
        name: &str,
        items: impl IntoIterator<Item = T>,
    ) -> Object {
        let mut list = String::new();
        for item in items {
            let comma = if list.is_empty() { "" } else { "," };
            list += comma;
            list += item.as_ref();
        }
        self.raw(name, &format!("[{list}]"))
    }

    /// Adds a value that is JSON already.
    pub(super) fn raw(mut self, name: &str, value: &str) -> Object {
        let comma = if self.text.len() > 1 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(self.text, "{comma}\"{name}\":{value}");
        self
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for character in text.chars() {
        match character {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            control if u32::from(control) < 0x20 => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_all_kinds_of_values() {
        let empty: [&str; 0] = [];
        let object = Object::new().text("a", "x").number("b", 0.25).number("c", true);
        let object = object.list("d", ["1", "{}"]).list("e", empty).raw("f", "null");
        assert_eq!(object.finish(), r#"{"a":"x","b":0.25,"c":true,"d":[1,{}],"e":[],"f":null}"#);
        assert_eq!(Object::new().finish(), "{}");
    }

    #[test]
    fn quotes_and_control_characters_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n\u{1}ä"), r#""a\"b\\c\u000a\u0001ä""#);
    }
}
