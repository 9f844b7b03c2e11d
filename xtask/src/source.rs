//! Rust source without what is not code: comments and the contents of literals become blanks.
//!
//! Lines stay where they are, so that a finding in the outcome has the line number of the file.
//! This is no parser: it knows just enough of Rust's tokens not to take a quote for code.

/// A place in the source from where the rest is read.
struct Reader<'a> {
    rest: &'a str,
    code: String,
}

/// The code of a source text, line by line as the original.
pub(crate) fn code_only(text: &str) -> String {
    let mut reader = Reader { rest: text, code: String::with_capacity(text.len()) };
    while let Some(next) = reader.rest.chars().next() {
        let rest = reader.rest;
        let after_name = reader.code.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        if rest.starts_with("//") {
            reader.blank(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            reader.blank(block_comment_len(rest));
        } else if let Some(len) = raw_string_len(rest).filter(|_| !after_name) {
            reader.blank(len);
        } else if next == '"' {
            reader.blank(quoted_len(rest, '"'));
        } else if let Some(len) = character_len(rest) {
            reader.blank(len);
        } else {
            reader.keep(next.len_utf8());
        }
    }
    reader.code
}

impl Reader<'_> {
    fn keep(&mut self, len: usize) {
        let (kept, rest) = self.rest.split_at(len);
        self.code.push_str(kept);
        self.rest = rest;
    }

    fn blank(&mut self, len: usize) {
        let (dropped, rest) = self.rest.split_at(len);
        self.code.extend(dropped.chars().map(|character| match character {
            '\n' => '\n',
            _ => ' ',
        }));
        self.rest = rest;
    }
}

/// The length of a comment that begins here; comments nest.
fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut len = 0;
    while let Some(rest) = text.get(len..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            len += 2;
        } else if rest.starts_with("*/") {
            depth = depth.saturating_sub(1);
            len += 2;
            if depth == 0 {
                return len;
            }
        } else {
            len += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a raw string that begins here, as `r"..."` or `br#"..."#`.
fn raw_string_len(text: &str) -> Option<usize> {
    let after_prefix = ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let after_hashes = after_prefix.trim_start_matches('#');
    let hashes = after_prefix.len() - after_hashes.len();
    let contents = after_hashes.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let rest = contents.split_once(&end).map_or("", |(_, rest)| rest);
    Some(text.len() - rest.len())
}

/// The length of a literal that begins here with a quote and ends with the same.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return index + quote.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal that begins here; `None` for a lifetime.
fn character_len(text: &str) -> Option<usize> {
    let contents = text.strip_prefix('\'')?;
    let mut characters = contents.chars();
    let first = characters.next()?;
    (first == '\\' || characters.next() == Some('\'')).then(|| quoted_len(text, '\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_blanks() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y", 'z')"#, "f(      ,    )"),
            (r##"f(r#"x"y"#, br"\")"##, "f(        ,      )"),
            ("let var = r; \"x\"", "let var = r;    "),
            ("&'a str '\\'' '\"' b", "&'a str          b"),
            ("\"a\nb\" c", "  \n   c"),
            ("\"open", "     "),
            ("/* open", "       "),
        ];
        for (text, code) in cases {
            assert_eq!(code_only(text), code, "{text}");
        }
    }

    #[test]
    fn this_file_keeps_its_lines() {
        let text = include_str!("source.rs");
        assert_eq!(code_only(text).lines().count(), text.lines().count());
        assert!(code_only(text).contains("fn this_file_keeps_its_lines"));
    }
}
