//! How Slurm's `srun` passes variables on.
//!
//! It passes its whole environment on unless `--export`, or the variable `SLURM_EXPORT_ENV` (which
//! `sbatch --export` leaves in a job), says otherwise. Values in `--export` must not contain
//! commas, which hints do, and with `ALL` the environment wins over values given there. So
//! variables are put into the environment of `srun`, and `--export` gets their names. The library
//! thus is preloaded into `srun` as well, where it does nothing.

use std::ffi::{OsStr, OsString};

use super::launcher::value_of;
use super::variables::{PRELOAD, Variables};

/// Short options without a value.
const SHORT_FLAGS: &str = "EHIKOQXZehkKlsuvV";

/// Long options whose value, if they have one, follows an `=`.
const LONG_FLAGS: [&str; 37] = [
    "async",
    "bcast",
    "compress",
    "contiguous",
    "disable-status",
    "exact",
    "exclusive",
    "external",
    "get-user-env",
    "help",
    "hold",
    "immediate",
    "interactive",
    "kill-on-bad-exit",
    "label",
    "multi-prog",
    "nice",
    "no-allocate",
    "no-kill",
    "overcommit",
    "overlap",
    "oversubscribe",
    "preserve-env",
    "propagate",
    "pty",
    "quiet",
    "quit-on-interrupt",
    "reboot",
    "resv-ports",
    "send-libs",
    "spread-job",
    "test-only",
    "unbuffered",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
];

/// The command line, and the value of `LD_PRELOAD` for its environment.
///
/// `default` is what `--export` is where it is not given.
pub(super) fn export(
    words: &[OsString],
    default: Option<&str>,
    variables: &Variables,
) -> (Vec<OsString>, OsString) {
    let mut merging = Merging { variables, preload: variables.preload() };
    let mut prepared: Vec<OsString> = words.iter().take(1).cloned().collect();
    // Parts of a heterogeneous job are separated by colons.
    for (index, part) in words[prepared.len()..].split(|word| word == ":").enumerate() {
        if index > 0 {
            prepared.push(":".into());
        }
        let mut part = part.to_owned();
        if !merging.options(&mut part)
            && let Some(default) = default
        {
            prepared.push(option(&merging.list(default.as_ref())));
        }
        prepared.extend(part);
    }
    (prepared, merging.preload)
}

fn option(list: &OsStr) -> OsString {
    [OsStr::new("--export"), list].join(OsStr::new("="))
}

struct Merging<'a> {
    variables: &'a Variables,
    preload: OsString,
}

impl Merging<'_> {
    /// Changes what is given with `--export` before the program; says whether there was any.
    fn options(&mut self, words: &mut [OsString]) -> bool {
        let mut given = false;
        let mut index = 0;
        while let Some(word) = words.get(index).filter(|word| is_option(word)) {
            if let Some(list) = value_of(word, "--export") {
                words[index] = option(&self.list(list));
                given = true;
            } else if *word == "--export" && index + 1 < words.len() {
                words[index + 1] = self.list(&words[index + 1].clone());
                given = true;
            }
            index += 1 + usize::from(takes_next(&words[index]));
        }
        given
    }

    /// A list for `--export` with our names in it.
    fn list(&mut self, given: &OsStr) -> OsString {
        // What is no text cannot be divided into names and values; it is kept as it is.
        let Some(text) = given.to_str() else { return given.to_owned() };
        let mut all = false;
        let mut entries: Vec<&str> = Vec::new();
        for entry in text.split(',') {
            match entry.split_once('=') {
                Some((PRELOAD, value)) => {
                    self.preload = self.variables.preload_behind(value.as_ref());
                }
                _ if ["NONE", "NIL", PRELOAD].contains(&entry) => {}
                _ => entries.push(entry),
            }
            all |= entry == "ALL";
        }
        let ours = [PRELOAD].into_iter().chain(self.variables.others.keys().map(String::as_str));
        let is = |entry: &&str, name: &str| entry.split('=').next() == Some(name);
        let missing: Vec<&str> = match all {
            true => Vec::new(),
            false => ours.filter(|name| !entries.iter().any(|entry| is(entry, name))).collect(),
        };
        entries.extend(missing);
        entries.join(",").into()
    }
}

fn is_option(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 1 && bytes.starts_with(b"-") && bytes != b"--"
}

/// Whether the value of an option is the next word.
fn takes_next(option: &OsStr) -> bool {
    let Some(text) = option.to_str() else { return false };
    match text.strip_prefix("--") {
        Some(name) => !name.contains('=') && !LONG_FLAGS.contains(&name),
        None => {
            let mut rest = text.chars().skip(1).skip_while(|&letter| SHORT_FLAGS.contains(letter));
            rest.next().is_some() && rest.next().is_none()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "LD_PRELOAD,PARIO_HINTS,PARIO_STATS";

    fn exported(line: &str, default: Option<&str>) -> (String, String) {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let (words, preload) = export(&words, default, &Variables::sample("/e.so"));
        let line = words.join(OsStr::new(" "));
        (line.into_string().unwrap(), preload.into_string().unwrap())
    }

    #[test]
    fn nothing_is_needed_where_all_is_passed_on() {
        for line in ["srun -n 4 ./a --export=X", "srun --export=ALL -n4 ./a", "srun -n 2 -- ./a"] {
            assert_eq!(exported(line, None), (line.to_owned(), "/e.so:/p.so".to_owned()));
        }
        assert_eq!(exported("srun ./a", Some("ALL")).0, "srun --export=ALL ./a");
    }

    #[test]
    fn a_list_gets_our_names() {
        let cases = [
            ("srun --export=A,B=1 ./a", format!("srun --export=A,B=1,{NAMES} ./a")),
            ("srun -l -N 2 --export NONE ./a", format!("srun -l -N 2 --export {NAMES} ./a")),
            ("srun --exact --export=NIL ./a", format!("srun --exact --export={NAMES} ./a")),
            (
                "srun --mpi pmi2 --export=A ./a x",
                format!("srun --mpi pmi2 --export=A,{NAMES} ./a x"),
            ),
            (
                "srun --export=PARIO_STATS=0 ./a --export=A",
                "srun --export=PARIO_STATS=0,LD_PRELOAD,PARIO_HINTS ./a --export=A".to_owned(),
            ),
            ("srun ./a : --export=B ./b", format!("srun ./a : --export=B,{NAMES} ./b")),
        ];
        for (line, expected) in cases {
            assert_eq!(exported(line, None).0, expected);
        }
        let (line, _) = exported("srun -n 2 ./a : -n 1 ./b", Some("NONE"));
        assert_eq!(line, format!("srun --export={NAMES} -n 2 ./a : --export={NAMES} -n 1 ./b"));
    }

    #[test]
    fn a_library_given_with_export_comes_before_ours() {
        let (line, preload) = exported("srun --export=ALL,LD_PRELOAD=/t.so -uln 2 ./a", None);
        assert_eq!(
            (line.as_str(), preload.as_str()),
            ("srun --export=ALL -uln 2 ./a", "/t.so:/p.so")
        );
        let (line, preload) = exported("srun --export=LD_PRELOAD=/t.so,A ./a", None);
        assert_eq!(
            (line, preload),
            (format!("srun --export=A,{NAMES} ./a"), "/t.so:/p.so".to_owned())
        );
    }
}
