//! What is missing here: skipped, reported, and counted at the end.
//!
//! What needs a package manager, root or a Python that is not there is skipped everywhere. What was
//! tried and failed, most often for want of a network, is skipped too, so that the rest still runs,
//! but not on continuous integration: there all can be had, and a skip would hide that it was not.

use std::env;

/// What is not here, and why.
#[derive(Default)]
pub(super) struct Skips {
    /// Whether a failure is an error.
    strict: bool,
    texts: Vec<String>,
}

impl Skips {
    /// Strict where `CI` says that this is continuous integration, as all its services do.
    pub(super) fn new() -> Self {
        let set = |value: String| !["", "0", "false"].contains(&value.as_str());
        Self { strict: env::var("CI").is_ok_and(set), texts: Vec::new() }
    }

    /// What it takes is not here.
    pub(super) fn cannot(&mut self, what: &str, reason: &str) {
        let text = format!("{what}: {reason}");
        println!("skipped: {text}");
        self.texts.push(text);
    }

    /// It was tried. The first line of the reason is what failed, the others what that printed.
    pub(super) fn failed(&mut self, what: &str, reason: &str) -> Result<(), String> {
        let reason = reason.trim_end();
        let advice = "check the network and the package registries, then run cargo xtask setup";
        if self.strict {
            return Err(format!("{what}: {reason}\n{advice}; it is an error only where CI is set"));
        }
        println!("{what}: {reason}");
        let first = reason.lines().next().unwrap_or_default().trim_end_matches(':');
        self.cannot(what, &format!("{first}; {advice}"));
        Ok(())
    }

    pub(super) fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_skipped_in_one_line_unless_all_must_be_there() {
        let skips = |strict| Skips { strict, texts: Vec::new() };
        let mut lenient = skips(false);
        lenient.cannot("a", "only root may");
        assert_eq!(lenient.failed("b", "pip failed:\nno network\n"), Ok(()));
        let texts = lenient.into_texts();
        assert_eq!((texts.len(), texts[0].as_str()), (2, "a: only root may"));
        assert!(texts[1].starts_with("b: pip failed; check the network"), "{}", texts[1]);
        let mut strict = skips(true);
        strict.cannot("a", "only root may");
        let error = strict.failed("b", "pip failed:\nno network").unwrap_err();
        assert!(error.starts_with("b: pip failed:\nno network\ncheck the network"), "{error}");
        assert_eq!(strict.into_texts().len(), 1);
    }
}
