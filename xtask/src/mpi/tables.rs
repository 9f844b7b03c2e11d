//! Rust code from the tables of constants: `crates/pario-mpi/src/abi/tables.rs` and beside it.
//!
//! There is one `Abi` for each application binary interface, which several versions of a library
//! share: newer ones have more names, but a name means the same in all. If that ever ends, so does
//! the generator, with an error.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Places;
use super::constants;

/// The interfaces: the name of its table in Rust, and the tables of its libraries.
const FAMILIES: [(&str, &[&str]); 3] = [
    ("MPICH", &["mpich5.txt", "mpich4.txt"]),
    ("OPENMPI", &["openmpi5.txt", "openmpi4.txt"]),
    ("STANDARD", &["standard.txt"]),
];

/// The names of a table with their values, in its order.
type NamedValues = Vec<(String, String)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConstantKind {
    /// A length or a place in bytes.
    Bytes,
    Handle,
    /// A special value for a pointer.
    Address,
    Number,
    Datatype,
}

const ABSENT: &str = "none";

/// Datatypes that the library itself uses; their handles are fields of the `Abi`, too.
const USED: [&str; 3] = ["MPI_BYTE", "MPI_INT", "MPI_LONG_LONG"];

/// Writes all files; the outcome is how many.
pub(super) fn write(places: &Places) -> Result<usize, String> {
    let files = files(places)?;
    for (path, code) in &files {
        let failed = |error| format!("cannot write {}: {error}", path.display());
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        fs::write(path, code).map_err(failed)?;
    }
    Ok(files.len())
}

/// Files that are not as the tables say.
pub(super) fn stale(places: &Places) -> Result<Vec<String>, String> {
    let differs = |(path, code): &(PathBuf, String)| {
        fs::read_to_string(path).is_ok_and(|found| found == *code).then_some(()).is_none()
    };
    let files = files(places)?.into_iter().filter(differs);
    Ok(files.map(|(path, _)| path.display().to_string()).collect())
}

fn files(places: &Places) -> Result<Vec<(PathBuf, String)>, String> {
    let mut families = Vec::new();
    for (name, tables) in FAMILIES {
        families.push((name, merged(places, tables)?));
    }
    let kinds = kinds(&families);
    let directory = places.package().join("src/abi");
    let names = families.first().map(|(_, table)| names(table)).unwrap_or_default();
    let mut files = vec![(directory.join("tables.rs"), definitions(&names, &kinds))];
    for (family, table) in &families {
        if self::names(table) != names {
            return Err(format!("the tables of {family} have other names"));
        }
        let path = directory.join("tables").join(format!("{}.rs", family.to_lowercase()));
        files.push((path, constant(family, table, &kinds)?));
    }
    files.into_iter().map(|(path, code)| Ok((path, formatted(places, &code)?))).collect()
}

fn names(table: &NamedValues) -> Vec<&str> {
    table.iter().map(|(name, _)| name.as_str()).collect()
}

/// One table of all versions of a library.
fn merged(places: &Places, tables: &[&str]) -> Result<NamedValues, String> {
    let mut merged: NamedValues = Vec::new();
    for file in tables {
        let path = constants::directory(places).join(file);
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let table = text.lines().filter_map(|line| line.split_once(' '));
        let table: NamedValues = table.map(|(name, value)| (name.into(), value.into())).collect();
        if merged.is_empty() {
            merged = table;
            continue;
        }
        if names(&merged) != names(&table) {
            return Err(format!("{file} has other names than {}", tables.join(", ")));
        }
        for ((name, value), (_, other)) in merged.iter_mut().zip(table) {
            *value = agreed(value, &other).ok_or(format!("{name} of {file} is {other}"))?;
        }
    }
    Ok(merged)
}

/// The value that both versions can mean; a datatype without a size is one that was not built.
fn agreed(one: &str, other: &str) -> Option<String> {
    let unknown = |value: &str| value == ABSENT || value.ends_with(" 0 0");
    match (one, other) {
        _ if one == other => Some(one.to_owned()),
        (ABSENT, _) => Some(other.to_owned()),
        (_, ABSENT) => Some(one.to_owned()),
        _ if one.split(' ').next() != other.split(' ').next() => None,
        _ if unknown(one) => Some(other.to_owned()),
        _ if unknown(other) => Some(one.to_owned()),
        _ => None,
    }
}

/// What each name stands for: a handle is one if it is a symbol in some library.
fn kinds(families: &[(&str, NamedValues)]) -> BTreeMap<String, ConstantKind> {
    let mut kinds = BTreeMap::new();
    for (name, value) in families.iter().flat_map(|(_, table)| table) {
        let kind = match value.split(' ').count() {
            3 => ConstantKind::Datatype,
            _ if !name.starts_with("MPI_") => ConstantKind::Bytes,
            _ if value.starts_with(|first: char| first.is_ascii_lowercase()) && value != ABSENT => {
                ConstantKind::Handle
            }
            _ if value.starts_with("0x") => ConstantKind::Address,
            _ => ConstantKind::Number,
        };
        let known = kinds.entry(name.clone()).or_insert(kind);
        let stronger = match (*known, kind) {
            (ConstantKind::Datatype, _) | (_, ConstantKind::Datatype) => ConstantKind::Datatype,
            (ConstantKind::Handle, _) | (_, ConstantKind::Handle) => ConstantKind::Handle,
            (ConstantKind::Address, _) | (_, ConstantKind::Address) => ConstantKind::Address,
            (known, _) => known,
        };
        *known = stronger;
    }
    kinds
}

/// The name of a field: `MPI_2INT` is `two_int`.
fn field(name: &str) -> String {
    let name = name.strip_prefix("MPI_").unwrap_or(name).to_lowercase();
    match name.strip_prefix('2') {
        Some(rest) => format!("two_{rest}"),
        None => name,
    }
}

/// The types and the list of datatypes.
fn definitions(names: &[&str], kinds: &BTreeMap<String, ConstantKind>) -> String {
    let mut abi = String::new();
    let mut datatypes = String::new();
    let mut all = String::new();
    for name in names {
        let field = field(name);
        let kind = match kinds.get(*name).copied().unwrap_or(ConstantKind::Number) {
            ConstantKind::Datatype => {
                // Writing to a string cannot fail.
                let _ = writeln!(datatypes, "pub(crate) {field}: Datatype,");
                let _ = writeln!(all, "({name:?}, self.{field}),");
                if !USED.contains(name) {
                    continue;
                }
                "Handle"
            }
            ConstantKind::Bytes | ConstantKind::Address => "usize",
            ConstantKind::Handle => "Handle",
            ConstantKind::Number => "i64",
        };
        let _ = writeln!(abi, "pub(crate) {field}: {kind},");
    }
    let count = all.lines().count();
    include_str!("tables.template")
        .replace("ABI_FIELDS", &abi)
        .replace("DATATYPE_FIELDS", &datatypes)
        .replace("DATATYPE_COUNT", &count.to_string())
        .replace("DATATYPE_LIST", &all)
}

/// The table of one interface.
fn constant(
    family: &str,
    table: &NamedValues,
    kinds: &BTreeMap<String, ConstantKind>,
) -> Result<String, String> {
    let mut abi = String::new();
    let mut datatypes = String::new();
    for (name, value) in table {
        let field = field(name);
        let kind = kinds.get(name).copied().unwrap_or(ConstantKind::Number);
        let text = match kind {
            ConstantKind::Datatype => {
                let _ = writeln!(datatypes, "{field}: {},", datatype(value));
                if !USED.contains(&name.as_str()) {
                    continue;
                }
                handle(value.split(' ').next().unwrap_or_default())
            }
            ConstantKind::Number if value == ABSENT => "ABSENT".to_owned(),
            _ if value == ABSENT => return Err(format!("{family} has no {name}")),
            ConstantKind::Handle => handle(value),
            _ => value.clone(),
        };
        let _ = writeln!(abi, "{field}: {text},");
    }
    let absent = if abi.contains("ABSENT") { "ABSENT, " } else { "" };
    let handle = if abi.contains("Handle::") { ", Handle" } else { "" };
    Ok(format!(
        "//! Constants of one ABI. Generated by `cargo xtask abi`: change the tables instead.\n\n\
         use super::{{{absent}Abi, Datatype, Datatypes{handle}}};\n\n\
         pub(crate) static {family}: Abi = Abi {{\n\
         {abi}datatypes: Datatypes {{\n{datatypes}}},\n}};\n"
    ))
}

fn handle(value: &str) -> String {
    match value.starts_with("0x") {
        true => format!("Handle::Value({value})"),
        false => format!("symbol!({value:?})"),
    }
}

fn datatype(value: &str) -> String {
    let mut words = value.split(' ');
    let handle = match words.next() {
        None | Some(ABSENT) => "None".to_owned(),
        Some(word) => format!("Some({})", handle(word)),
    };
    let [size, extent] = [words.next(), words.next()].map(|word| word.unwrap_or("0"));
    format!("Datatype {{ handle: {handle}, size: {size}, extent: {extent} }}")
}

/// The code as rustfmt writes it.
fn formatted(places: &Places, code: &str) -> Result<String, String> {
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024", "--config-path"]).arg(&places.root);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let failed = |error: std::io::Error| format!("rustfmt: {error}");
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(code.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err("rustfmt does not like the generated code".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_library_may_differ_only_by_what_they_lack() {
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(agreed("3", "3"), value("3"));
        assert_eq!(agreed("none", "3"), value("3"));
        assert_eq!(agreed("a 0 0", "a 32 32"), value("a 32 32"));
        assert_eq!(agreed("a 4 4", "a 0 0"), value("a 4 4"));
        for (one, other) in [("3", "4"), ("a 0 0", "b 4 4"), ("a 4 4", "a 8 8")] {
            assert_eq!(agreed(one, other), None);
        }
    }

    #[test]
    fn values_become_rust() {
        assert_eq!(field("MPI_2INT"), "two_int");
        assert_eq!(field("HANDLE_SIZE"), "handle_size");
        assert_eq!(handle("0x44"), "Handle::Value(0x44)");
        assert_eq!(handle("ompi_x"), "symbol!(\"ompi_x\")");
        let none = "Datatype { handle: None, size: 0, extent: 0 }";
        assert_eq!(datatype("none"), none);
    }
}
