//! Words for which the field has a better one; the glossary of `ARCHITECTURE.md` has those.
//!
//! They are found in names (of files, types, functions, fields, variables) and in comments. Names
//! are read word by word: `in_two_words` has the words of "two words". Words with a second, plain
//! meaning (help, notes, numbers, use) are left to the reader.

use super::{Finding, SourceText};

/// A word or more, as their beginnings, and what to say instead.
const WORDS: [(&str, &str); 15] = [
    ("bell", "doorbell"),
    ("bells", "doorbells"),
    ("crowded", "oversubscribed"),
    ("from partner to partner", "store-and-forward"),
    ("large page*", "huge pages"),
    ("lent", "single-copy read, or who has it for how long"),
    ("meeting*", "barrier, synchronisation, or arrival skew"),
    ("nobody rewrites", "the gate is shared"),
    ("outline*", "bounding extent of a window"),
    ("past the cache*", "non-temporal store"),
    ("relay*", "store-and-forward"),
    ("settle*", "prefault, agree, or wait"),
    ("share* processor*", "oversubscribed"),
    ("take* turns", "round-robin, or alternate"),
    ("whoever", "the rank that, who"),
];

/// Words that are left today: the file, the word and how often. Numbers may only become smaller.
const LEFT_TODAY: &[(&str, &str, usize)] = &[];

/// All words that have a better one, and exceptions that are too large.
pub(super) fn check(sources: &[SourceText]) -> Vec<Finding> {
    check_with(sources, LEFT_TODAY)
}

fn check_with(sources: &[SourceText], exceptions: &[(&str, &str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let words = [file_words(&source.path), code_words(source), comment_words(source)];
        for (phrase, instead) in WORDS {
            let lines: Vec<usize> =
                words.iter().flat_map(|words| lines_of(phrase, words)).collect();
            let exception = |(path, excepted, _): &&(&str, &str, usize)| {
                *path == source.path && *excepted == phrase
            };
            let most = exceptions.iter().find(exception).map_or(0, |(_, _, most)| *most);
            let shown = phrase.replace('*', "");
            if lines.len() > most {
                let rule = format!("`{shown}` has a better word: {instead}");
                findings.extend(lines.iter().map(|line| source.finding(*line, rule.clone())));
            }
            if lines.len() < most {
                let rule = format!("`{shown}` is less often here: lower its limit in words.rs");
                findings.push(source.finding(1, rule));
            }
        }
    }
    for (path, phrase, _) in exceptions {
        if !sources.iter().any(|source| source.path == *path) {
            let rule = format!("the file is not there: take out its `{phrase}` in words.rs");
            findings.push(Finding { path: (*path).to_owned(), line: 1, rule });
        }
    }
    findings
}

/// A word of a text, in small letters, and its line.
type Word = (String, usize);

/// The words of the names of a file and its directories.
fn file_words(path: &str) -> Vec<Word> {
    words(path.strip_suffix(".rs").unwrap_or(path), 1)
}

/// The words of the names in the code; a blank word stands between names.
fn code_words(source: &SourceText) -> Vec<Word> {
    let in_name = |character: char| character.is_alphanumeric() || character == '_';
    let mut found = Vec::new();
    for (index, line) in source.all_code.lines().enumerate() {
        for name in line.split(|character| !in_name(character)).filter(|name| !name.is_empty()) {
            found.extend(words(name, index + 1));
            found.push((String::new(), index + 1));
        }
    }
    found
}

/// The words of the comments, across the ends of lines.
fn comment_words(source: &SourceText) -> Vec<Word> {
    let lines = source.comments.lines().enumerate();
    lines.flat_map(|(index, line)| words(line, index + 1)).collect()
}

/// The words of a text, also those inside of names as `LikeThis` and `like_this`.
fn words(text: &str, line: usize) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let (mut word, mut before_is_small) = (String::new(), false);
    for character in text.chars().chain([' ']) {
        let begins = character.is_uppercase() && before_is_small;
        if (begins || !character.is_alphabetic()) && !word.is_empty() {
            found.push((std::mem::take(&mut word), line));
        }
        if character.is_alphabetic() {
            word.extend(character.to_lowercase());
        }
        before_is_small = character.is_lowercase();
    }
    found
}

/// The lines in which a phrase begins.
fn lines_of(phrase: &str, words: &[Word]) -> Vec<usize> {
    let patterns: Vec<&str> = phrase.split(' ').collect();
    let fits = |(pattern, (word, _)): (&&str, &Word)| match pattern.strip_suffix('*') {
        Some(beginning) => word.starts_with(beginning),
        None => word == pattern,
    };
    let all_fit = |part: &&[Word]| patterns.iter().zip(*part).all(fits);
    words.windows(patterns.len()).filter(all_fit).map(|part| part[0].1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let findings = check_with(&[SourceText::new(path, text)], &[]);
        findings.iter().map(|finding| finding.line).collect()
    }

    const PLACE: &str = "crates/pario/src/plan/mod.rs";

    #[test]
    fn words_are_found_in_names_and_comments() {
        for code in [
            "struct Bell;",
            "fn relay_forth() {}",
            "let is_settled = x.settle;",
            "mod meeting;",
            "fn use_large_pages() {}",
            "const CROWDED: u32 = 1;",
            "// Stored past the caches.",
            "/// Ranks take\n/// turns.",
            "//! Whoever waits.",
            "/* lent */",
            "fn relayed() {}",
        ] {
            assert!(!found(PLACE, code).is_empty(), "{code}");
        }
        assert_eq!(found("crates/pario/src/exchange/relay.rs", "//! Text."), [1]);
        assert_eq!(found(PLACE, "\n// Ranks\n// share processors."), [3]);
        assert_eq!(found(PLACE, "#[cfg(test)]\nmod tests {\n    fn bell() {}\n}"), [3]);
    }

    #[test]
    fn parts_of_words_literals_and_neighbours_are_no_words() {
        for code in [
            "struct Doorbell;",
            "// silent and equivalent",
            "print(\"the bell\");",
            "fn delay() {}",
            "let large = pages;",
            "// a large one\nfn pages() {}",
            "// turns a datatype round",
        ] {
            assert!(found(PLACE, code).is_empty(), "{code}");
        }
    }

    #[test]
    fn an_exception_is_a_limit_that_only_becomes_smaller() {
        let sources = [SourceText::new(PLACE, "fn bell() {}\n// bell")];
        assert_eq!(check_with(&sources, &[(PLACE, "bell", 2)]), []);
        assert_eq!(check_with(&sources, &[(PLACE, "bell", 1)]).len(), 2);
        assert_eq!(check_with(&sources, &[(PLACE, "bell", 3)]).len(), 1);
        assert_eq!(check_with(&[], &[(PLACE, "bell", 3)]).len(), 1);
    }
}
