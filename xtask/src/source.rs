//! Rust source without what is not code: comments and the contents of literals become blanks.
//!
//! Lines stay where they are, so that a finding in the outcome has the line number of the file.
//! This is no parser: it knows just enough of Rust's tokens not to take a quote for code.

/// What a part of a source text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Code,
    Comment,
    Literal,
}

/// A place in the source from where the rest is read.
struct Scanner<'a> {
    rest: &'a str,
    code: String,
    comments: String,
}

/// The code of a source text, line by line as the original.
pub(crate) fn code_only(text: &str) -> String {
    scan(text).code
}

/// The comments of a source text, line by line as the original.
pub(crate) fn comments_only(text: &str) -> String {
    scan(text).comments
}

/// Code without what is only built for tests, line by line as the original.
///
/// An item ends with its line, or with the first line that closes it at its own indentation, as
/// rustfmt puts it.
pub(crate) fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        match line.trim_start().strip_prefix("#[cfg(test)]") {
            None => kept.push_str(line),
            Some(_) => {
                let indentation = line.len() - line.trim_start().len();
                for dropped in lines.by_ref() {
                    kept.push('\n');
                    if ends_item(dropped, indentation) {
                        break;
                    }
                }
            }
        }
        kept.push('\n');
    }
    kept
}

/// Whether a line is the last one of an item with an indentation.
fn ends_item(line: &str, indentation: usize) -> bool {
    let item = line.trim();
    let is_outer = line.len() - line.trim_start().len() == indentation;
    let ends = item.ends_with(';') || item.ends_with('}') || item.ends_with("},");
    is_outer && ends && !item.starts_with("#[")
}

fn scan(text: &str) -> Scanner<'_> {
    let room = || String::with_capacity(text.len());
    let mut scanner = Scanner { rest: text, code: room(), comments: room() };
    while let Some(next) = scanner.rest.chars().next() {
        let rest = scanner.rest;
        let after_name = scanner.code.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let (token, len) = if rest.starts_with("//") {
            (Token::Comment, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (Token::Comment, block_comment_len(rest))
        } else if let Some(len) = raw_string_len(rest).filter(|_| !after_name) {
            (Token::Literal, len)
        } else if next == '"' {
            (Token::Literal, quoted_len(rest, '"'))
        } else if let Some(len) = character_len(rest) {
            (Token::Literal, len)
        } else {
            (Token::Code, next.len_utf8())
        };
        scanner.take(token, len);
    }
    scanner
}

impl Scanner<'_> {
    /// Passes a part of the text, which stays in its kind of text and is blank in the other.
    fn take(&mut self, token: Token, len: usize) {
        let (part, rest) = self.rest.split_at(len);
        for character in part.chars() {
            let blank = if character == '\n' { '\n' } else { ' ' };
            self.code.push(if token == Token::Code { character } else { blank });
            self.comments.push(if token == Token::Comment { character } else { blank });
        }
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
    fn comments_are_kept_where_they_are() {
        let text = "a(\"// no\"); // b\n/* c */ d";
        assert_eq!(comments_only(text), "            // b\n/* c */  ");
    }

    #[test]
    fn items_of_tests_become_empty_lines() {
        let cases = [
            ("a\n#[cfg(test)]\nuse b;\nc", "a\n\n\nc\n"),
            ("#[cfg(test)]\nuse b::{\n    c,\n};\nd", "\n\n\n\nd\n"),
            (
                "#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n    x {\n    }\n}\ny",
                "\n\n\n\n\n\ny\n",
            ),
            (
                "    #[cfg(test)]\n    fn f(\n        a: A,\n    ) {\n        g();\n    }\n}",
                "\n\n\n\n\n\n}\n",
            ),
        ];
        for (code, kept) in cases {
            assert_eq!(without_tests(code), kept, "{code}");
        }
    }

    #[test]
    fn this_file_keeps_its_lines() {
        let text = include_str!("source.rs");
        assert_eq!(code_only(text).lines().count(), text.lines().count());
        assert!(code_only(text).contains("fn this_file_keeps_its_lines"));
    }
}
