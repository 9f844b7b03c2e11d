//! The layers: which module may import which, and which crate another crate.
//!
//! `ARCHITECTURE.md` says why ("The one idea"). A module imports those that stand above it in its
//! table, so that there are no cycles, and of these only the ones that it names. What breaks this
//! today is an exception with its reason; one that is not needed any more is a finding, too.

use super::{Finding, SourceText};
use paths::{Import, imports};

mod paths;

/// A module at the root of a crate, and what it may import.
struct Layer {
    module: &'static str,
    /// Paths from the root of the crate, each with all that is inside.
    may: &'static [&'static str],
    /// Of these, what it may not import.
    not: &'static [&'static str],
    /// Why it may import nothing else.
    rule: &'static str,
}

const fn layer(module: &'static str, may: &'static [&'static str], rule: &'static str) -> Layer {
    Layer { module, may, not: &[], rule }
}

/// The modules of one crate, the lowest one first.
struct Tower {
    source: &'static str,
    layers: &'static [Layer],
    exceptions: &'static [Exception],
}

/// An import that breaks the rules.
struct Exception {
    file: &'static str,
    import: &'static str,
    /// Why it is there; for those who read the table.
    #[expect(dead_code)]
    reason: &'static str,
}

const fn but(file: &'static str, import: &'static str, reason: &'static str) -> Exception {
    Exception { file, import, reason }
}

const SERVES_ALL: &str = "it serves all layers and knows none";
const IS_AN_END: &str = "nothing may import it";

const PARIO: Tower = Tower {
    source: "crates/pario/src/",
    layers: &[
        layer("number", &[], SERVES_ALL),
        layer("escaped", &[], SERVES_ALL),
        layer("direction", &[], SERVES_ALL),
        layer("error", &["escaped"], SERVES_ALL),
        layer("log_to_stderr", &["escaped"], SERVES_ALL),
        layer("datatype", &["error", "number"], "it knows no files, no ranks and no plans"),
        layer("view", &["datatype", "error"], "it is what one rank sees of a file"),
        layer("storage", &["direction", "error", "number"], "it knows no ranks and no plans"),
        layer("own_file", &["storage::data_files"], "it opens pario's own files, without ranks"),
        layer("model", &["direction", "error", "number"], "it opens no file and sends no message"),
        layer(
            "hints",
            &["error", "escaped", "model::profile", "number", "own_file"],
            "they serve all layers, and no layer steers them",
        ),
        layer(
            "comm",
            &["datatype", "error", "escaped", "model::clock", "number"],
            "it knows no files, no plans",
        ),
        layer(
            "access",
            &["comm::Region", "datatype", "error", "number", "view"],
            "it says which bytes of memory are which of the file, and moves none to others",
        ),
        layer(
            "request",
            &["access", "direction", "error", "view"],
            "it is what was asked, before anything is planned",
        ),
        layer(
            "plan",
            &[
                "access",
                "datatype",
                "direction",
                "error",
                "hints",
                "model::profile",
                "number",
                "request",
                "view",
            ],
            "it opens no file and sends no message",
        ),
        layer(
            "virtual_time",
            &["comm", "model", "number", "plan::calls_at_once", "storage"],
            "it is the time of storage, and carries nothing out",
        ),
        layer(
            "statistics",
            &[
                "access",
                "datatype",
                "direction",
                "error",
                "hints",
                "model::profile",
                "number",
                "own_file",
                "plan",
                "request",
                "storage",
            ],
            "they count what others do, and do nothing themselves",
        ),
        Layer {
            module: "exchange",
            may: &[
                "access",
                "comm",
                "datatype",
                "direction",
                "error",
                "hints",
                "number",
                "plan",
                "statistics",
                "storage",
            ],
            not: &[
                "plan::butterfly",
                "plan::choose",
                "plan::cost",
                "plan::independent",
                "plan::phased",
                "plan::two_phase",
            ],
            rule: "it knows rounds, not strategies, and no file of the user",
        },
        layer(
            "file",
            &[
                "access",
                "comm",
                "datatype",
                "direction",
                "error",
                "escaped",
                "exchange",
                "hints",
                "model::profile",
                "number",
                "plan",
                "request",
                "statistics",
                "storage",
                "view",
            ],
            IS_AN_END,
        ),
    ],
    exceptions: &[
        but("model/profile/mod.rs", "own_file", "a profile reads its own file"),
        but("storage/emulated.rs", "model", "a described device needs the clock of the model"),
        but("storage/mod.rs", "model", "a driver describes its device in the words of the model"),
    ],
};

const PARIO_LAB: Tower = Tower {
    source: "crates/pario-lab/src/",
    layers: &[
        layer("failure", &[], SERVES_ALL),
        layer("date", &[], SERVES_ALL),
        layer("number", &[], SERVES_ALL),
        layer("size", &[], SERVES_ALL),
        layer("hint", &["failure"], SERVES_ALL),
        layer("output", &["failure"], SERVES_ALL),
        layer("sweep", &["failure"], SERVES_ALL),
        layer(
            "scenario",
            &["failure", "size"],
            "it says what is measured, simulated and predicted",
        ),
        layer("simulate", &["failure", "scenario"], "it is the only engine of virtual time"),
        layer(
            "measure",
            &["date", "failure", "hint", "output", "scenario", "sweep"],
            "it measures, and others show what it has written",
        ),
        layer(
            "calibrate",
            &["failure", "measure", "output", "sweep"],
            "it measures a machine, and others use the profile",
        ),
        layer(
            "show",
            &["date", "failure", "output", "scenario", "sweep"],
            "it reads what the other commands write, and measures nothing",
        ),
        layer(
            "predict",
            &["failure", "hint", "measure", "output", "scenario", "show"],
            "it explains calls, and is no part of another command",
        ),
        layer(
            "papers",
            &[
                "date",
                "failure",
                "measure",
                "number",
                "output",
                "predict::paper",
                "scenario",
                "show",
                "simulate",
                "sweep",
            ],
            "it runs experiments, and is no part of another command",
        ),
    ],
    exceptions: &[],
};

/// Each crate, and the crates of the workspace that its library or program may use.
const CRATES: [(&str, &[&str]); 8] = [
    ("crates/pario/", &[]),
    ("crates/pario-cli/", &["pario", "pario_lab", "pario_mpi"]),
    ("crates/pario-lab/", &["pario", "pario_mpi"]),
    // What it writes down names `::pario`, which it does not use itself.
    ("crates/pario-derive/", &["pario"]),
    ("crates/pario-loom/", &[]),
    ("crates/pario-mpi/", &["pario"]),
    ("crates/pario-testkit/", &["pario"]),
    ("xtask/", &[]),
];

const CRATE_NAMES: [&str; 5] = ["pario", "pario_cli", "pario_lab", "pario_mpi", "pario_testkit"];

/// All imports that no table allows, and exceptions that no import needs.
pub(super) fn check(sources: &[SourceText]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tower in [PARIO, PARIO_LAB] {
        findings.extend(tower.check(sources));
    }
    for source in sources {
        findings.extend(wrong_crates(source));
    }
    findings
}

impl Tower {
    fn check(&self, sources: &[SourceText]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut needed = vec![false; self.exceptions.len()];
        for source in sources {
            let Some(file) = source.path.strip_prefix(self.source) else { continue };
            if matches!(file, "lib.rs" | "main.rs") {
                continue;
            }
            for import in imports(file, &source.code) {
                let Err(rule) = self.allows(file, &import) else { continue };
                let exception = |exception: &Exception| {
                    exception.file == file && is_inside(&import.path, exception.import)
                };
                match self.exceptions.iter().position(exception) {
                    Some(index) => needed[index] = true,
                    None => findings.push(source.finding(import.line, rule)),
                }
            }
        }
        let unneeded = self.exceptions.iter().zip(needed).filter(|(_, needed)| !needed);
        findings.extend(unneeded.map(|(exception, _)| {
            let Exception { file, import, .. } = exception;
            let rule = format!("the exception for `{import}` is not needed; see layers.rs");
            Finding { path: format!("{}{file}", self.source), line: 1, rule }
        }));
        findings
    }

    /// Whether a file may import something, or else the rule that it breaks.
    fn allows(&self, file: &str, import: &Import) -> Result<(), String> {
        let module = paths::module(file);
        let find = |name: &str| self.layers.iter().find(|layer| layer.module == name);
        let Some(layer) = find(module) else {
            return Err(format!("the module `{module}` is in no layer; see layers.rs"));
        };
        let path = &import.path;
        let target = path.split("::").next().unwrap_or_default();
        if target == module {
            return Ok(());
        }
        if find(target).is_none() {
            return Err(format!("`{target}` is no module: name the module that it is from"));
        }
        let may = layer.may.iter().any(|allowed| is_inside(path, allowed));
        let may_not = layer.not.iter().any(|refused| is_inside(path, refused));
        match may && !may_not {
            true => Ok(()),
            false => Err(format!("`{module}` may not import `{path}`: {}", layer.rule)),
        }
    }
}

/// Whether a path is another one or inside it.
fn is_inside(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Crates of the workspace that a file may not use.
fn wrong_crates(source: &SourceText) -> Vec<Finding> {
    let Some((_, may)) = CRATES.iter().find(|(place, _)| source.path.starts_with(place)) else {
        return vec![source.finding(1, "a crate has its line in CRATES; see layers.rs".to_owned())];
    };
    let mut findings = Vec::new();
    for (index, line) in source.code.lines().enumerate() {
        for name in CRATE_NAMES.iter().filter(|name| !may.contains(name)) {
            if super::has_word(line, &format!("{name}::")) {
                let rule = format!("this crate may not use `{name}`; see layers.rs");
                findings.push(source.finding(index + 1, rule));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOWER: Tower = Tower {
        source: "crates/pario/src/",
        layers: &[
            layer("error", &[], "it knows none"),
            layer("storage", &["error"], "it knows no ranks"),
            layer("comm", &["error"], "it knows no files"),
            Layer {
                module: "plan",
                may: &["error", "storage::Size"],
                not: &["error::Hidden"],
                rule: "it sends no message",
            },
        ],
        exceptions: &[],
    };

    fn rules(tower: &Tower, file: &str, code: &str) -> Vec<String> {
        let source = SourceText::new(&format!("crates/pario/src/{file}"), code);
        tower.check(&[source]).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_wrong_import_is_found_with_its_rule() {
        for code in ["use crate::comm::Communicator;", "fn f() { crate::comm::f() }"] {
            let found = rules(&TOWER, "plan/cost.rs", code);
            assert_eq!(found.len(), 1, "{code}");
            assert!(found[0].ends_with("it sends no message"), "{found:?}");
        }
        assert_eq!(rules(&TOWER, "storage/posix.rs", "use crate::comm::rank;").len(), 1);
        assert_eq!(rules(&TOWER, "storage.rs", "use super::comm::rank;").len(), 1);
        assert_eq!(rules(&TOWER, "storage/a/b.rs", "use super::super::super::comm;").len(), 1);
        assert_eq!(
            rules(&TOWER, "comm.rs", "use crate::{\n    error::{A, B},\n    plan,\n};").len(),
            1
        );
    }

    #[test]
    fn what_the_table_names_may_be_imported() {
        let code = "use crate::error::{self, Error};\nuse super::cost;\nuse crate::plan::choose;";
        assert_eq!(rules(&TOWER, "plan/cost.rs", code), [] as [&str; 0]);
        assert_eq!(rules(&TOWER, "plan/mod.rs", "use crate::storage::{Size, Driver};").len(), 1);
        assert_eq!(rules(&TOWER, "plan/mod.rs", "use crate::error::{Error, Hidden};").len(), 1);
    }

    #[test]
    fn tests_comments_and_the_root_may_import_anything() {
        let code = "// crate::comm\n#[cfg(test)]\nuse crate::comm;\n\
            #[cfg(test)]\nmod tests {\n    use crate::comm;\n}";
        assert_eq!(rules(&TOWER, "plan/mod.rs", code), [] as [&str; 0]);
        for file in ["lib.rs", "plan/tests.rs", "plan/cost_tests.rs"] {
            assert_eq!(rules(&TOWER, file, "use crate::comm;"), [] as [&str; 0]);
        }
    }

    #[test]
    fn names_of_the_root_and_new_modules_are_found() {
        assert_eq!(rules(&TOWER, "plan/mod.rs", "use crate::Error;").len(), 1);
        assert_eq!(rules(&TOWER, "fresh.rs", "use crate::error::Error;").len(), 1);
    }

    #[test]
    fn an_exception_holds_for_its_file_and_must_be_needed() {
        const EXCEPTIONS: &[Exception] = &[but("plan/cost.rs", "comm", "for a test")];
        let tower = Tower { exceptions: EXCEPTIONS, ..TOWER };
        assert_eq!(rules(&tower, "plan/cost.rs", "use crate::comm::f;").len(), 0);
        assert_eq!(rules(&tower, "plan/cost.rs", "use crate::error::f;").len(), 1, "not needed");
        assert_eq!(rules(&tower, "plan/mod.rs", "use crate::comm::f;").len(), 2);
    }

    #[test]
    fn a_crate_uses_those_of_its_line() {
        let found = |path: &str, code: &str| wrong_crates(&SourceText::new(path, code)).len();
        assert_eq!(found("crates/pario/src/plan/mod.rs", "use pario_mpi::Mpi;"), 1);
        assert_eq!(found("crates/pario-mpi/src/comm.rs", "pario_testkit::scratch()"), 1);
        assert_eq!(found("crates/pario-cli/src/main.rs", "use pario_mpi::Mpi; pario::File"), 0);
        assert_eq!(found("crates/fresh/src/lib.rs", "fn f() {}"), 1);
    }

    #[test]
    fn each_layer_imports_only_what_stands_above_it() {
        for tower in [PARIO, PARIO_LAB] {
            for (index, layer) in tower.layers.iter().enumerate() {
                for path in layer.may {
                    let target = path.split("::").next().unwrap_or_default();
                    let above = tower.layers[..index].iter().any(|one| one.module == target);
                    assert!(above, "{} imports {path}", layer.module);
                }
            }
        }
    }
}
