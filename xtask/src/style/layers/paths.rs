//! The paths in a file that begin at the root of its crate.
//!
//! Read from the text, without macros: `crate::a::b`, `use crate::{a::b, c}`, and `super::` as
//! often as it takes to get to the root.

/// Something that a file imports or names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) line: usize,
    /// From the root of the crate on, with `::` between names.
    pub(super) path: String,
}

/// The module at the root of a crate that a file belongs to.
pub(super) fn module(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

/// All paths from the root of the crate that stand in the code of a file.
pub(super) fn imports(file: &str, code: &str) -> Vec<Import> {
    let depth = depth(file);
    let mut imports = Vec::new();
    let mut from = 0;
    while let Some((start, after)) = next_root(code, from, depth) {
        let line = 1 + code[..start].matches('\n').count();
        let mut paths = Vec::new();
        read_tree(&code[after..], "", &mut paths);
        imports.extend(paths.into_iter().map(|path| Import { line, path }));
        from = after;
    }
    imports
}

/// How many modules a file is below the root.
fn depth(file: &str) -> usize {
    let names = file.split('/').filter(|name| *name != "mod.rs");
    names.count()
}

/// The next path from the root: where it begins, and where its first name or group does.
fn next_root(code: &str, from: usize, depth: usize) -> Option<(usize, usize)> {
    let to_root = "super::".repeat(depth);
    let find = |prefix: &str| {
        let starts = code[from..].match_indices(prefix).map(|(start, _)| from + start);
        let in_name = |last: char| last.is_alphanumeric() || last == '_' || last == ':';
        let mut starts = starts.filter(|start| !code[..*start].ends_with(in_name));
        starts.next().map(|start| (start, start + prefix.len()))
    };
    [find("crate::"), find(&to_root)].into_iter().flatten().min()
}

/// Reads a path or a group of paths; returns the rest of the text.
fn read_tree<'a>(text: &'a str, before: &str, paths: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = read_tree(rest, before, paths).trim_start();
            let Some(next) = rest.strip_prefix(',') else {
                return rest.strip_prefix('}').unwrap_or(rest);
            };
            rest = next;
        }
    }
    let in_name = |character: char| character.is_alphanumeric() || character == '_';
    let len = text.find(|character| !in_name(character)).unwrap_or(text.len());
    let (name, rest) = text.split_at(len);
    let path = match (before, name) {
        (_, "" | "self") => before.to_owned(),
        ("", _) => name.to_owned(),
        _ => format!("{before}::{name}"),
    };
    let goes_on = |rest: &str| rest.starts_with(|next: char| next == '{' || in_name(next));
    if let Some(inner) = rest.strip_prefix("::").filter(|rest| goes_on(rest)) {
        return read_tree(inner, &path, paths);
    }
    // A trailing comma ends a group without another path.
    if !(path.is_empty() || name.is_empty() && rest.starts_with('}')) {
        paths.push(path);
    }
    rest.strip_prefix("::*").or_else(|| rest.strip_prefix('*')).unwrap_or(rest_after_name(rest))
}

/// What follows a name and the other name that an import gives it.
fn rest_after_name(rest: &str) -> &str {
    let Some(other) = rest.strip_prefix(" as ") else { return rest };
    let in_name = |character: char| character.is_alphanumeric() || character == '_';
    other.trim_start_matches(in_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(file: &str, code: &str) -> Vec<String> {
        imports(file, code).into_iter().map(|import| import.path).collect()
    }

    #[test]
    fn every_form_of_a_path_is_read() {
        let cases: [(&str, &[&str]); 9] = [
            ("use crate::a;", &["a"]),
            ("pub(crate) use crate::a::b::C;", &["a::b::C"]),
            (
                "use crate::a::{self, B, c::{D, E as F},\n    g::*,\n};",
                &["a", "a::B", "a::c::D", "a::c::E", "a::g"],
            ),
            ("use crate::{a::b, c};", &["a::b", "c"]),
            ("f(crate::a::g(), crate::b::H::<u8>::new())", &["a::g", "b::H"]),
            ("impl crate::a::T for U {", &["a::T"]),
            ("$crate::a::b!()", &["a::b"]),
            ("mycrate::a; thecrate::b", &[]),
            ("use super::a::b;", &["a::b"]),
        ];
        for (code, expected) in cases {
            assert_eq!(paths("view.rs", code), expected, "{code}");
        }
    }

    #[test]
    fn super_counts_from_the_depth_of_the_file() {
        assert_eq!(paths("plan/mod.rs", "use super::a;"), ["a"]);
        assert_eq!(paths("plan/cost.rs", "use super::a;"), [] as [&str; 0]);
        assert_eq!(paths("plan/cost.rs", "use super::super::a::{B};"), ["a::B"]);
    }

    #[test]
    fn the_line_is_the_one_where_the_path_begins() {
        let found = imports("view.rs", "\n\nuse crate::{\n    a,\n};");
        assert_eq!(found, [Import { line: 3, path: "a".to_owned() }]);
    }
}
