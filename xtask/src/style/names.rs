//! Names of types: one that stands for three or more things says nothing to its reader.
//!
//! Counted are structs, enums, unions, traits and type aliases of libraries and programs, private
//! ones as well; those of tests and associated types are not.

use std::collections::BTreeMap;

use super::{Finding, SourceText};

/// So many things may have one name.
const THINGS_MAX: usize = 2;

/// Names that stand for more today, and for how many. Numbers may only become smaller.
const MORE_TODAY: &[(&str, usize)] = &[
    ("Access", 4),
    ("Arguments", 7),
    ("Asked", 3),
    ("Bed", 3),
    ("Call", 3),
    ("Case", 3),
    ("Choice", 3),
    ("Device", 3),
    ("Document", 4),
    ("Done", 3),
    ("Factors", 3),
    ("Found", 4),
    ("Group", 3),
    ("Job", 3),
    ("Kind", 6),
    ("Known", 3),
    ("Layout", 3),
    ("Line", 3),
    ("Machine", 4),
    ("Measured", 4),
    ("Memory", 4),
    ("Node", 3),
    ("Outcome", 3),
    ("Own", 3),
    ("Part", 5),
    ("Pattern", 3),
    ("Piece", 3),
    ("Place", 9),
    ("Places", 3),
    ("Rank", 4),
    ("Reader", 3),
    ("Report", 5),
    ("Request", 4),
    ("Row", 3),
    ("Run", 4),
    ("Scratch", 3),
    ("Served", 3),
    ("Source", 3),
    ("Span", 3),
    ("Step", 3),
    ("Storage", 4),
    ("Table", 4),
    ("Times", 4),
    ("Transport", 3),
    ("Window", 4),
    ("World", 4),
];

/// All names that stand for too much, and exceptions that are too large.
pub(super) fn check(sources: &[SourceText]) -> Vec<Finding> {
    check_with(sources, MORE_TODAY)
}

fn check_with(sources: &[SourceText], exceptions: &[(&str, usize)]) -> Vec<Finding> {
    let mut named: BTreeMap<&str, Vec<(&SourceText, usize)>> = BTreeMap::new();
    for source in sources {
        for (index, line) in source.code.lines().enumerate() {
            if let Some(name) = type_name(line) {
                named.entry(name).or_default().push((source, index + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, places) in &named {
        let exception = exceptions.iter().find(|(excepted, _)| excepted == name);
        let most = exception.map_or(THINGS_MAX, |(_, most)| *most);
        if places.len() > most {
            let count = places.len();
            let rule = format!("`{name}` names {count} types; say which one this is");
            findings
                .extend(places.iter().map(|(source, line)| source.finding(*line, rule.clone())));
        }
    }
    for (name, most) in exceptions {
        let count = named.get(name).map_or(0, Vec::len);
        if count < *most {
            let rule = format!("`{name}` names {count} types now: lower its limit of {most}");
            findings.push(Finding { path: "xtask/src/style/names.rs".to_owned(), line: 1, rule });
        }
    }
    findings
}

/// The name of the type that a line of code defines.
fn type_name(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let is_outer = item.len() == line.len();
    let item = match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => item,
    };
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    let (keyword, rest) = item.split_once(' ')?;
    let defines = match keyword {
        "struct" | "enum" | "union" | "trait" => true,
        // Others are associated types.
        "type" => is_outer,
        _ => false,
    };
    let in_name = |character: char| character.is_alphanumeric() || character == '_';
    let len = rest.find(|character| !in_name(character)).unwrap_or(rest.len());
    Some(rest.split_at(len).0).filter(|name| defines && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(codes: &[&str]) -> Vec<SourceText> {
        let path = |index| format!("crates/pario/src/plan/file_{index}.rs");
        codes.iter().enumerate().map(|(index, code)| SourceText::new(&path(index), code)).collect()
    }

    #[test]
    fn a_name_of_three_types_is_found_at_each() {
        let two = ["struct Place;", "pub(crate) enum Place {\n}"];
        assert_eq!(check_with(&sources(&two), &[]), []);
        let three = [two[0], two[1], "//! Text.\npub type Place = u32;"];
        let found = check_with(&sources(&three), &[]);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 1, 2]);
        assert!(found[0].rule.starts_with("`Place` names 3 types"), "{}", found[0]);
    }

    #[test]
    fn an_exception_is_a_limit_that_only_becomes_smaller() {
        let three = sources(&["struct Place;", "struct Place;", "struct Place;"]);
        assert_eq!(check_with(&three, &[("Place", 3)]), []);
        let lower = check_with(&three, &[("Place", 4)]);
        assert_eq!(lower.len(), 1);
        assert!(lower[0].rule.contains("lower its limit of 4"), "{}", lower[0]);
        assert_eq!(check_with(&three[..1], &[("Place", 3)]).len(), 1);
    }

    #[test]
    fn types_of_tests_and_associated_types_do_not_count() {
        let tests = "#[cfg(test)]\nmod tests {\n    struct Place;\n}";
        let associated = "impl Iterator for A {\n    type Place = u32;\n}";
        let uses = "fn f(place: Place) -> Place {\n    Place { x: 1 }\n}\n// struct Place;";
        assert_eq!(check_with(&sources(&[tests, associated, uses, "struct Place;"]), &[]), []);
        let in_tests = ["crates/a/tests/b.rs", "crates/a/src/tests.rs", "crates/a/src/b_tests.rs"];
        let in_tests = in_tests.map(|path| SourceText::new(path, "struct Place;"));
        assert_eq!(check_with(&in_tests, &[]), []);
    }

    #[test]
    fn every_form_of_a_definition_is_read() {
        for code in [
            "struct A<'a> {",
            "pub struct A(u32);",
            "pub(super) trait A: B {",
            "    enum A {",
            "pub unsafe trait A {",
            "type A = B;",
            "pub(in crate::a) struct A;",
            "union A {",
        ] {
            assert_eq!(type_name(code), Some("A"), "{code}");
        }
        for code in ["    type A = B;", "let struct_a = 1;", "impl A {", "fn f() {", "use a::A;"] {
            assert_eq!(type_name(code), None, "{code}");
        }
    }
}
