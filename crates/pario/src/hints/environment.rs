//! Hints from outside the program: the process's environment, and the file it names.
//!
//! | variable | contents |
//! | --- | --- |
//! | `PARIO_HINTS` | hints by file name, in the syntax of Cray's `MPICH_MPIIO_HINTS` |
//! | `ROMIO_HINTS` | the path of a hint file: lines of a key and a value; `#` begins a comment |
//! | `PARIO_STATS` | `1`, `full`, `json:FILE`, ...: the hint `pario_statistics` on every file |
//! | `MPICH_MPIIO_HINTS`, `MPICH_MPIIO_STATS` | the same as Cray's users know them; weaker |
//! | `MPICH_MPIIO_TIMERS` | `1`: times of every file, which are in the statistics, too |
//! | `ROMIO_PRINT_HINTS`, `MPICH_MPIIO_HINTS_DISPLAY` | `1`: print hints; see [`super::shown`] |
//!
//! In `PARIO_HINTS="*.nc:cb_nodes=8:romio_cb_write=enable,/scratch/*:cb_buffer_size=64M"` commas
//! separate the file names, colons the hints. A name may contain `*` (any characters, also `/`)
//! and `?` (one character) and is compared with the whole name of the file and with its last
//! component; where several match, the last one wins. A value that contains commas or colons
//! stands between `#`, as in `cb_config_list=#*:4#`.
//!
//! Nothing from here is trusted: both sources are read up to a size limit, only known keys with
//! values inside their bounds have an effect, and a process with more rights than its user
//! (set-uid, set-gid or file capabilities) reads nothing at all. What cannot be used is reported.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{getegid, geteuid, getgid, getuid};

use super::Statistics;
use super::report::{HintOrigin, IgnoredHint};
use crate::number::wide;
use crate::own_file;

const HINTS: &str = "PARIO_HINTS";
const CRAY_HINTS: &str = "MPICH_MPIIO_HINTS";

/// Limit on `PARIO_HINTS` and on the hint file.
pub(super) const SOURCE_BYTES_MAX: usize = 64 * 1024;

/// What the environment says on hints; the default is an empty environment.
///
/// ```
/// use pario::{Environment, HintSet};
/// use std::path::Path;
///
/// let hints = Some("*.nc:cb_nodes=8".to_owned());
/// let environment = Environment { hints, ..Environment::default() };
/// let given = HintSet::new().with("cb_nodes", "2");
/// assert_eq!(given.resolve(Path::new("run/out.nc"), &environment).0.aggregators, Some(8));
/// assert_eq!(given.resolve(Path::new("run/out.dat"), &environment).0.aggregators, Some(2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The contents of `PARIO_HINTS`.
    pub hints: Option<String>,
    /// The contents of `ROMIO_HINTS`.
    pub hint_file_path: Option<PathBuf>,
    /// The contents of `PARIO_STATS`.
    pub statistics: Option<String>,
    /// The contents of `MPICH_MPIIO_HINTS`.
    pub cray_hints: Option<String>,
    /// The contents of `MPICH_MPIIO_STATS`.
    pub cray_statistics: Option<String>,
    /// Whether `MPICH_MPIIO_TIMERS` is switched on.
    pub cray_timers: bool,
    /// Whether `MPICH_MPIIO_HINTS_DISPLAY` is switched on.
    pub cray_shows_hints: bool,
    /// Whether `ROMIO_PRINT_HINTS` is switched on.
    pub romio_shows_hints: bool,
}

/// Hints from one source, and those of its parts that are none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) hints: Vec<(String, String)>,
    pub(super) ignored: Vec<IgnoredHint>,
}

impl Environment {
    /// The environment of this process; empty if the process has more rights than its user.
    pub fn of_process() -> Environment {
        if is_privileged() {
            return Environment::default();
        }
        let text = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let is_on = |name| text(name).is_some_and(|value| !matches!(value.trim(), "" | "0"));
        Environment {
            hints: text(HINTS),
            hint_file_path: std::env::var_os("ROMIO_HINTS").map(PathBuf::from),
            statistics: text("PARIO_STATS"),
            cray_hints: text(CRAY_HINTS),
            cray_statistics: text("MPICH_MPIIO_STATS"),
            cray_timers: is_on("MPICH_MPIIO_TIMERS"),
            cray_shows_hints: is_on("MPICH_MPIIO_HINTS_DISPLAY"),
            romio_shows_hints: is_on("ROMIO_PRINT_HINTS"),
        }
    }

    /// The hints of the variables for one file, the stronger ones last.
    pub(super) fn hints_for(&self, file_name: &Path) -> Found {
        let mut found = Found::default();
        let cray = (self.cray_statistics(), CRAY_HINTS, &self.cray_hints);
        for (statistics, name, hints) in [cray, (self.statistics.clone(), HINTS, &self.hints)] {
            let statistics = statistics.into_iter();
            found.hints.extend(statistics.map(|value| ("pario_statistics".to_owned(), value)));
            match hints {
                None => {}
                Some(text) if text.len() > SOURCE_BYTES_MAX => {
                    let reason = format!("longer than {SOURCE_BYTES_MAX} bytes");
                    found.ignored.push(from_environment(name, "", reason));
                }
                Some(text) => hints_by_name(name, text, file_name, &mut found),
            }
        }
        found
    }

    /// What Cray's variables say of statistics. Those have the times, so one of the two variables
    /// is enough.
    fn cray_statistics(&self) -> Option<String> {
        let given = self.cray_statistics.clone();
        let is_off = |text: &String| text.parse() == Ok(Statistics::Off);
        match self.cray_timers && given.as_ref().is_none_or(is_off) {
            true => Some("1".to_owned()),
            false => given,
        }
    }

    /// The hints of the file that `ROMIO_HINTS` names.
    pub(super) fn hint_file(&self) -> Found {
        let Some(path) = &self.hint_file_path else {
            return Found::default();
        };
        match own_file::read_small(path, wide(SOURCE_BYTES_MAX) - 1) {
            Ok(text) => hint_lines(&text),
            Err(error) => {
                let reason = format!("cannot be read: {error}");
                let path = path.display().to_string();
                Found::nothing(from_environment("ROMIO_HINTS", &path, reason))
            }
        }
    }
}

/// Whether this process has more rights than its user, found out once.
pub(super) fn is_privileged() -> bool {
    static PRIVILEGED: OnceLock<bool> = OnceLock::new();
    *PRIVILEGED.get_or_init(has_more_rights)
}

/// Whether this process has more rights than its user.
fn has_more_rights() -> bool {
    /// The key of the kernel's own answer, by which the loader, too, ignores the environment.
    const AT_SECURE: usize = 23;
    if getuid() != geteuid() || getgid() != getegid() {
        return true;
    }
    match std::fs::read("/proc/self/auxv") {
        Ok(pairs) => auxiliary(&pairs, AT_SECURE).is_some_and(|value| value != 0),
        // A process without such rights may read it, where it is mounted at all.
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// The value of a key in the kernel's list of pairs of words.
fn auxiliary(pairs: &[u8], key: usize) -> Option<usize> {
    let (words, _) = pairs.as_chunks::<{ size_of::<usize>() }>();
    let mut pairs = words.chunks_exact(2).map(|pair| [pair[0], pair[1]].map(usize::from_ne_bytes));
    pairs.find(|[met, _]| *met == key).map(|[_, value]| value)
}

impl Found {
    fn nothing(ignored: IgnoredHint) -> Found {
        Found { hints: Vec::new(), ignored: vec![ignored] }
    }
}

fn from_environment(name: &str, value: &str, reason: String) -> IgnoredHint {
    let origin = HintOrigin::Environment;
    IgnoredHint { name: name.to_owned(), value: value.to_owned(), reason, origin }
}

/// Adds the parts of a variable that apply to a file.
fn hints_by_name(variable: &str, text: &str, file_name: &Path, found: &mut Found) {
    for entry in split_unquoted(text, ',') {
        let entry = entry.trim();
        if entry.is_empty() {
            continue;
        }
        match Entry::read(entry) {
            Ok(entry) if entry.applies_to(file_name) => found.hints.extend(entry.hints),
            Ok(_) => {}
            Err(reason) => found.ignored.push(from_environment(variable, entry, reason)),
        }
    }
}

/// A pattern of file names with its hints.
struct Entry {
    pattern: String,
    hints: Vec<(String, String)>,
}

impl Entry {
    /// Reads `pattern:key=value:key=value`. A part without `=` continues the one before it, so
    /// that neither `memory:name` nor `cb_config_list=*:4` needs quotes.
    fn read(text: &str) -> Result<Entry, String> {
        let mut parts = split_unquoted(text, ':').into_iter();
        let mut pattern = parts.next().unwrap_or_default().to_owned();
        let mut hints: Vec<(String, String)> = Vec::new();
        for part in parts {
            match (part.split_once('='), hints.last_mut()) {
                (Some((key, value)), _) => {
                    hints.push((key.trim().to_owned(), value.trim().to_owned()));
                }
                (None, Some((_, value))) => value.extend([":", part]),
                (None, None) => pattern.extend([":", part]),
            }
        }
        for (_, value) in &mut hints {
            let quoted = value.strip_prefix('#').and_then(|value| value.strip_suffix('#'));
            if let Some(inner) = quoted {
                *value = inner.to_owned();
            }
        }
        match hints.is_empty() {
            true => Err("no key=value after the file name".to_owned()),
            false => Ok(Entry { pattern: pattern.trim().to_owned(), hints }),
        }
    }

    fn applies_to(&self, file_name: &Path) -> bool {
        let last = file_name.file_name().map(|name| name.to_string_lossy());
        matches(&self.pattern, &file_name.to_string_lossy())
            || last.is_some_and(|last| matches(&self.pattern, &last))
    }
}

/// Splits at a separator that does not stand between two `#`.
fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let mut quoted = false;
    let parts = text.split(move |character: char| {
        quoted ^= character == '#';
        character == separator && !quoted
    });
    parts.collect()
}

/// Whether a name matches a pattern of `*`, `?` and characters that stand for themselves.
///
/// When a comparison fails, only the last `*` need take one character more: what an earlier one
/// could gain, the last one gains as well. So the time is at most the product of the lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pattern = pattern.chars();
    let mut name = name.chars();
    let mut retry = None;
    loop {
        let (mut pattern_rest, mut name_rest) = (pattern.clone(), name.clone());
        match (pattern_rest.next(), name_rest.next()) {
            (Some('*'), _) => {
                retry = Some((pattern_rest.clone(), name.clone()));
                pattern = pattern_rest;
                continue;
            }
            (Some(wanted), Some(met)) if wanted == '?' || wanted == met => {
                (pattern, name) = (pattern_rest, name_rest);
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((after_star, taken)) = &mut retry else {
            return false;
        };
        if taken.next().is_none() {
            return false;
        }
        (pattern, name) = (after_star.clone(), taken.clone());
    }
}

/// The lines of a hint file: a key, white space, a value. Of equal keys the first counts, as in
/// ROMIO.
fn hint_lines(text: &str) -> Found {
    let mut found = Found::default();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(key), Some(value), None) if found.hints.iter().any(|(known, _)| known == key) => {
                found.ignored.push(IgnoredHint {
                    name: key.to_owned(),
                    value: value.to_owned(),
                    reason: "an earlier line of the hint file sets it".to_owned(),
                    origin: HintOrigin::HintFile,
                });
            }
            (Some(key), Some(value), None) => found.hints.push((key.to_owned(), value.to_owned())),
            _ => found.ignored.push(IgnoredHint {
                name: "ROMIO_HINTS".to_owned(),
                value: line.to_owned(),
                reason: "not a line of one key and one value".to_owned(),
                origin: HintOrigin::HintFile,
            }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(found: &Found) -> Vec<(&str, &str)> {
        found.hints.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    fn by_name(text: &str, file_name: &Path) -> Found {
        let mut found = Found::default();
        hints_by_name(HINTS, text, file_name, &mut found);
        found
    }

    /// The obvious way, exponential in the number of stars.
    fn matches_slowly(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], name) => name.is_empty(),
            ([b'*', rest @ ..], name) => {
                (0..=name.len()).any(|taken| matches_slowly(rest, &name[taken..]))
            }
            ([wanted, pattern @ ..], [met, name @ ..]) => {
                (*wanted == b'?' || wanted == met) && matches_slowly(pattern, name)
            }
            (_, []) => false,
        }
    }

    #[test]
    fn the_kernel_says_whether_a_process_has_more_rights() {
        let words: [usize; 6] = [6, 4096, 23, 1, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(auxiliary(&bytes, 23), Some(1));
        assert_eq!(auxiliary(&bytes[..24], 23), None);
        assert!(!has_more_rights());
    }

    #[test]
    fn a_star_matches_any_characters_and_a_question_mark_one() {
        let cases = [
            ("*", "", true),
            ("*.nc", "a/b.nc", true),
            ("*.nc", "b.nc4", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("?", "ä", true),
            ("/scratch/*/dump.*", "/scratch/me/dump.7", true),
            ("", "", true),
            ("", "a", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn short_patterns_match_as_the_obvious_matcher_says() {
        let words = |letters: &[u8]| {
            let mut words = vec![Vec::new()];
            for start in 0..(letters.len().pow(4) - 1) / (letters.len() - 1) {
                let word: Vec<u8> = words[start].clone();
                words.extend(letters.iter().map(|&letter| [word.as_slice(), &[letter]].concat()));
            }
            words
        };
        for pattern in words(b"ab*?") {
            for name in words(b"ab") {
                let expected = matches_slowly(&pattern, &name);
                let [pattern, name] = [&pattern, &name].map(|word| String::from_utf8_lossy(word));
                assert_eq!(matches(&pattern, &name), expected, "{pattern} {name}");
            }
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = "a*".repeat(1000) + "b";
        assert!(!matches(&pattern, &"a".repeat(4000)));
    }

    #[test]
    fn hints_apply_to_the_whole_name_and_to_its_last_component() {
        let text = "out.nc:cb_nodes=1,/data/*:cb_nodes=2:pario_phases=3,other:cb_nodes=4";
        let found = by_name(text, Path::new("/data/out.nc"));
        assert_eq!(pairs(&found), [("cb_nodes", "1"), ("cb_nodes", "2"), ("pario_phases", "3")]);
        assert_eq!(found.ignored, []);
    }

    #[test]
    fn a_value_may_contain_separators_between_hashes() {
        let text = "*:cb_config_list=#*:*#:cb_nodes=2,*:io_node_list=#a:1,b:2#";
        let found = by_name(text, Path::new("x"));
        let expected = [("cb_config_list", "*:*"), ("cb_nodes", "2"), ("io_node_list", "a:1,b:2")];
        assert_eq!(pairs(&found), expected);
    }

    #[test]
    fn a_colon_without_a_key_after_it_separates_nothing() {
        let text = "memory:x:cb_config_list=*:4:cb_nodes=2";
        let found = by_name(text, Path::new("memory:x"));
        assert_eq!(pairs(&found), [("cb_config_list", "*:4"), ("cb_nodes", "2")]);
    }

    #[test]
    fn an_entry_without_hints_is_reported() {
        let found = by_name("cb_nodes=4, ,*:cb_nodes=2,*", Path::new("x"));
        assert_eq!(pairs(&found), [("cb_nodes", "2")]);
        let ignored: Vec<&str> = found.ignored.iter().map(|hint| hint.value.as_str()).collect();
        assert_eq!(ignored, ["cb_nodes=4", "*"]);
    }

    #[test]
    fn a_variable_beyond_the_limit_is_ignored_as_a_whole() {
        let mut text = "*:cb_nodes=2".to_owned();
        text.extend(std::iter::repeat_n(' ', SOURCE_BYTES_MAX - text.len()));
        let environment =
            |text: &String| Environment { hints: Some(text.clone()), ..Environment::default() };
        assert_eq!(environment(&text).hints_for(Path::new("x")).hints.len(), 1);
        text.push(' ');
        let found = environment(&text).hints_for(Path::new("x"));
        assert_eq!((found.hints.len(), found.ignored.len()), (0, 1));
    }

    #[test]
    fn hint_files_have_comments_and_one_hint_per_line() {
        let text = "# a comment\n\ncb_nodes 4\n\tromio_ds_write\tdisable \r\nstray\na b c\nx 1";
        let found = hint_lines(text);
        assert_eq!(pairs(&found), [("cb_nodes", "4"), ("romio_ds_write", "disable"), ("x", "1")]);
        assert_eq!(found.ignored.len(), 2);
    }

    #[test]
    fn a_hint_file_that_cannot_be_read_is_reported() {
        let paths = ["/nonexistent/hints", "/", "/dev/null"];
        for path in paths {
            let hint_file_path = Some(PathBuf::from(path));
            let environment = Environment { hint_file_path, ..Environment::default() };
            let found = environment.hint_file();
            assert_eq!((found.hints.len(), found.ignored.len()), (0, 1), "{path}");
            assert_eq!(found.ignored[0].name, "ROMIO_HINTS");
        }
    }

    /// Variables cannot be set in a process with threads, so the test runs itself again.
    #[test]
    fn the_environment_of_the_process_is_read() {
        let variables = [
            ("PARIO_HINTS", "*:cb_nodes=3"),
            ("ROMIO_HINTS", "a/path"),
            ("PARIO_STATS", "1"),
            ("MPICH_MPIIO_HINTS", "*:cb_nodes=4"),
            ("MPICH_MPIIO_STATS", "2"),
            ("MPICH_MPIIO_TIMERS", "1"),
            ("MPICH_MPIIO_HINTS_DISPLAY", "0"),
            ("ROMIO_PRINT_HINTS", "1"),
        ];
        let set = |(name, value)| std::env::var_os(name).is_some_and(|met| met == value);
        if variables.into_iter().all(set) {
            let expected = Environment {
                hints: Some("*:cb_nodes=3".to_owned()),
                hint_file_path: Some(PathBuf::from("a/path")),
                statistics: Some("1".to_owned()),
                cray_hints: Some("*:cb_nodes=4".to_owned()),
                cray_statistics: Some("2".to_owned()),
                cray_timers: true,
                cray_shows_hints: false,
                romio_shows_hints: true,
            };
            assert_eq!(Environment::of_process(), expected);
            return;
        }
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "hints::environment::tests::the_environment_of_the_process_is_read";
        let output = again.args([name, "--exact"]).envs(variables).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    /// A hint file that fills the reader's buffer is not read beyond it, as ROMIO may do.
    #[test]
    fn a_hint_file_is_read_up_to_its_limit_and_not_further() {
        let path = std::env::temp_dir().join(format!("pario-hints-{}", std::process::id()));
        let line = "cb_nodes 4\n";
        let fill = |bytes: usize| line.to_owned() + &"#".repeat(bytes - line.len());
        let read = |bytes| {
            std::fs::write(&path, fill(bytes)).unwrap();
            let hint_file_path = Some(path.clone());
            let found = Environment { hint_file_path, ..Environment::default() }.hint_file();
            (found.hints.len(), found.ignored.len())
        };
        let counts = [read(4096), read(SOURCE_BYTES_MAX - 1), read(SOURCE_BYTES_MAX)];
        std::fs::remove_file(&path).unwrap();
        assert_eq!(counts, [(1, 0), (1, 0), (0, 1)]);
    }
}
