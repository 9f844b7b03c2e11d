//! Rules of style that neither rustfmt nor clippy checks.
//!
//! They hold for all tracked Rust files. Literals are not checked.
//!
//! | module | what it finds |
//! | --- | --- |
//! | `layers` | a module that imports one it should not know, and a crate another crate |
//! | `names` | a name that stands for three types or more |
//! | `words` | words for which the field has a better one |

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::source;

mod layers;
mod names;
mod words;

const LINE_CHARACTERS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 800;

/// Where `unsafe` may stand: beginnings of paths.
const UNSAFE_ALLOWED: [&str; 10] = [
    "crates/pario/src/datatype/copy",
    "crates/pario/src/access/memory",
    "crates/pario/src/storage/posix",
    "crates/pario/src/comm/",
    "crates/pario/src/exchange/shared.rs",
    "crates/pario-derive/",
    "crates/pario-loom/",
    "crates/pario-testkit/src/allocation",
    "crates/pario-mpi/",
    "xtask/src/mpi/shared_memory.rs",
];

/// Where errno values may stand, besides tests.
const ERRNO_ALLOWED: [&str; 3] = [
    "crates/pario/src/error.rs",
    "crates/pario/src/storage/fault.rs",
    "crates/pario/src/storage/posix.rs",
];

/// Where the environment may be read, besides tests.
const ENVIRONMENT_ALLOWED: [&str; 7] = [
    "crates/pario/src/hints",
    "crates/pario-cli/",
    "crates/pario-lab/",
    "crates/pario-mpi/src/environment.rs",
    "crates/pario-mpi/src/launcher.rs",
    "crates/pario-testkit/",
    "xtask/",
];

/// What may stand nowhere, and what to do instead.
const FORBIDDEN: [(&str, &str); 4] = [
    ("#[ignore", "a test runs or does not exist"),
    ("todo!", "plans go to the issue list"),
    ("unimplemented!", "plans go to the issue list"),
    ("dbg!", "take the debugging output out"),
];

/// A line that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    rule: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.rule)
    }
}

/// A file, for the rules that look at all files together.
struct SourceText {
    path: String,
    /// Code of the library or program, without that of tests.
    code: String,
    all_code: String,
    comments: String,
}

impl SourceText {
    fn new(path: &str, text: &str) -> SourceText {
        let all_code = source::code_only(text);
        let is_library = path.contains("/src/") && !is_test(path);
        let code = if is_library { source::without_tests(&all_code) } else { String::new() };
        SourceText { path: path.to_owned(), code, all_code, comments: source::comments_only(text) }
    }

    fn finding(&self, line: usize, rule: String) -> Finding {
        Finding { path: self.path.clone(), line, rule }
    }
}

/// Checks all tracked files; the outcome is a line for the log.
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let paths = tracked(root)?;
    let (mut findings, mut sources) = (Vec::new(), Vec::new());
    for path in &paths {
        let full_path = root.join(path);
        // A file that was deleted stays in git's list until the deletion is staged.
        if full_path.exists() {
            let text = std::fs::read_to_string(full_path);
            let text = text.map_err(|error| format!("cannot read {path}: {error}"))?;
            findings.extend(check_file(path, &text));
            sources.push(SourceText::new(path, &text));
        }
    }
    findings.extend(layers::check(&sources));
    findings.extend(names::check(&sources));
    findings.extend(words::check(&sources));
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(format!("{} files in good style", paths.len())),
        count => Err(format!("{count} lines break the rules of style")),
    }
}

/// The tracked Rust files, relative to the root.
fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--", "*.rs"]).current_dir(root).stdin(Stdio::null());
    let output = git.output().map_err(|error| format!("cannot start git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let paths: Vec<String> =
        names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match paths.is_empty() {
        true => Err("git tracks no Rust files here".to_owned()),
        false => Ok(paths),
    }
}

/// All findings in one file.
fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line: usize, rule: String| {
        findings.push(Finding { path: path.to_owned(), line, rule });
    };
    if !text.starts_with("//!") {
        find(1, "a file begins with `//!` and what it is for".to_owned());
    }
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        find(lines, format!("a file has at most {FILE_LINES_MAX} lines; divide it by concept"));
    }
    for (index, line) in text.lines().enumerate() {
        if line.chars().count() > LINE_CHARACTERS_MAX {
            find(index + 1, format!("a line has at most {LINE_CHARACTERS_MAX} characters"));
        }
    }
    let code = source::code_only(text);
    let mut in_tests = is_test(path);
    let mut before = "";
    for (index, line) in code.lines().enumerate() {
        // Unit tests are the end of a file.
        in_tests |= before.trim() == "#[cfg(test)]" && line.trim().starts_with("mod ");
        before = line;
        for rule in broken_rules(path, line, in_tests) {
            find(index + 1, rule);
        }
    }
    findings
}

/// The rules that a line of code breaks.
fn broken_rules(path: &str, code: &str, in_tests: bool) -> Vec<String> {
    let allowed = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    let mut rules: Vec<String> = FORBIDDEN
        .iter()
        .filter(|(word, _)| has_word(code, word))
        .map(|(word, advice)| format!("`{word}`: {advice}"))
        .collect();
    if has_word(code, "unsafe") && !allowed(&UNSAFE_ALLOWED) {
        rules.push("`unsafe` is for copy kernels and transports; see UNSAFE_ALLOWED".to_owned());
    }
    if has_errno(code) && !in_tests && !allowed(&ERRNO_ALLOWED) {
        rules.push("errno values belong in error.rs".to_owned());
    }
    if reads_environment(code) && !in_tests && !allowed(&ENVIRONMENT_ALLOWED) {
        rules.push("the environment is read in hints only".to_owned());
    }
    rules
}

/// Whether a whole file is a test.
fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// Whether a word stands in the code, not as a part of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    let in_name = |character: char| character.is_alphanumeric() || character == '_';
    let ends_in_name = word.ends_with(in_name);
    code.match_indices(word).any(|(start, _)| {
        let (before, from) = code.split_at(start);
        let after = from.strip_prefix(word).unwrap_or_default();
        let begins = !word.starts_with(in_name) || !before.ends_with(in_name);
        begins && (!ends_in_name || !after.starts_with(in_name))
    })
}

/// Whether one of libc's errno constants stands in the code.
fn has_errno(code: &str) -> bool {
    const OTHERS: [&str; 2] = ["POLL", "XIT_"];
    code.match_indices("libc::E").any(|(start, found)| {
        let name = code.split_at(start + found.len()).1;
        let constant = |first: char| first.is_ascii_uppercase() || first.is_ascii_digit();
        name.starts_with(constant) && !OTHERS.iter().any(|other| name.starts_with(other))
    })
}

/// Whether the code reads environment variables at run time.
fn reads_environment(code: &str) -> bool {
    ["env::var", "env::var_os", "env::vars", "env::vars_os"]
        .iter()
        .any(|function| has_word(code, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "crates/pario/src/plan/mod.rs";

    fn rules(path: &str, code: &str) -> usize {
        let findings = check_file(path, &format!("//! What it is for.\n{code}\n"));
        assert!(findings.iter().all(|finding| finding.line > 1), "{findings:?}");
        findings.len()
    }

    #[test]
    fn good_code_has_no_findings() {
        let code = "// unsafe, todo!\nfn f() { g(\"dbg!(unsafe) env::var libc::EIO #[ignore\") }";
        assert_eq!(rules(PLACE, code), 0);
        assert_eq!(rules(PLACE, "#![deny(unsafe_code)]\nf(libc::EPOLLIN, libc::EXIT_FAILURE);"), 0);
    }

    #[test]
    fn unfinished_code_is_found_everywhere() {
        for code in ["todo!()", "dbg!(1)", "unimplemented!()", "#[ignore]", "#[ignore = \"x\"]"] {
            assert_eq!(rules(PLACE, code), 1, "{code}");
            assert_eq!(rules("crates/pario/tests/x.rs", code), 1, "{code}");
        }
        assert_eq!(rules(PLACE, "my_todo!()"), 0);
    }

    #[test]
    fn unsafe_is_found_outside_its_places_also_in_tests() {
        let code = "#[cfg(test)]\nunsafe { f() }";
        assert_eq!(rules(PLACE, code), 1);
        assert_eq!(rules("crates/pario/src/comm/threads.rs", code), 0);
        assert_eq!(rules("crates/pario/src/datatype/copy.rs", code), 0);
    }

    #[test]
    fn errno_and_environment_are_for_their_places_and_for_tests() {
        for code in ["libc::EIO", "std::env::var(name)", "env::var_os(name)", "env::vars()"] {
            assert_eq!(rules(PLACE, code), 1, "{code}");
            assert_eq!(rules(PLACE, &format!("#[cfg(test)]\nmod tests {{\n{code}\n}}")), 0);
            assert_eq!(rules(PLACE, &format!("#[cfg(test)]\nuse x;\n{code}")), 1);
            assert_eq!(rules("crates/pario/tests/x.rs", code), 0);
            assert_eq!(rules("crates/pario/src/hints/tests.rs", code), 0);
        }
        assert_eq!(rules("crates/pario/src/error.rs", "libc::EIO"), 0);
        assert_eq!(rules("crates/pario/src/hints/environment.rs", "std::env::var(name)"), 0);
        assert_eq!(rules(PLACE, "env!(\"X\") + std::env::temp_dir() + libc::Elf64_Addr"), 0);
    }

    #[test]
    fn shape_of_a_file_is_checked() {
        let wide = |len: usize| format!("//! {}\n", "ä".repeat(len - 4));
        assert_eq!(check_file(PLACE, &wide(100)), []);
        assert_eq!(check_file(PLACE, &wide(101)).len(), 1);
        assert_eq!(check_file(PLACE, "fn f() {}\n").len(), 1);
        assert_eq!(check_file(PLACE, "").len(), 1);
        assert_eq!(check_file(PLACE, &"//!\n".repeat(800)), []);
        let long = check_file(PLACE, &"//!\n".repeat(801));
        assert_eq!(long.iter().map(|finding| finding.line).collect::<Vec<_>>(), [801]);
    }
}
