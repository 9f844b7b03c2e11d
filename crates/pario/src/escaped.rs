//! Text from outside, as people may read it: names of files and values of hints can have control
//! characters, which a terminal would obey.

use std::borrow::Cow;

/// The text with its control characters escaped, as `\u{1b}` and `\n`: for names.
///
/// ```
/// assert_eq!(pario::escaped("a\u{1b}[2J\n.dat"), "a\\u{1b}[2J\\n.dat");
/// assert_eq!(pario::escaped("größe.dat"), "größe.dat");
/// ```
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but(text, &[])
}

/// The same for a text of several lines, with names in it: line feeds and tabs stay.
///
/// ```
/// assert_eq!(pario::escaped_lines("one\n\u{7}two\n"), "one\n\\u{7}two\n");
/// ```
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escaped_but(text, &['\n', '\t'])
}

fn escaped_but<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let is_escaped = |character: char| character.is_control() && !kept.contains(&character);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_escaped(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}
