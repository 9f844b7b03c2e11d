//! The first comment of a client program: what it needs and what it promises.
//!
//! A line `key: value` in it, in C or Fortran, is an instruction to the test command:
//!
//! | key | value |
//! | --- | --- |
//! | `ranks` | how many ranks, each a run of its own; must be there |
//! | `mpis` | names of MPI libraries; `all` (default): see [`Header::means`]; `none`: see `run` |
//! | `pario` | `yes` (default), `no` for the library's own MPI-IO, or `both` |
//! | `env` | `NAME=VALUE` pairs for the ranks |
//! | `leaves` | names of files it leaves in its directory |
//! | `same` | names of files that must be the same after both runs of `pario: both` |
//! | `calls` | `at least N` calls that pario serves on each rank (default 1), or `unknown` |
//! | `seconds` | time limit of a run (default 60) |
//! | `ends` | `well` (default), or `badly`: ends with an error after it printed `PASS` |
//! | `alone` | `yes`: nothing else runs at the same time, and MPICH is not slowed by patience |
//! | `bound` | `no`: ranks are not bound to cores, even if each has one |
//! | `tidies` | `no`: the MPI library may leave files of its own in shared memory |
//! | `under` | names of environments, each a run besides the usual one (see `under`) |
//! | `preload` | names of sources in `preload/`: libraries that come before pario |
//! | `link` | more words for the compiler |
//! | `needs` | what it is left out without: a group of Debian's packages, or `HDF5 1.14` |
//! | `after` | a program with arguments that runs in the directory and must end well |
//! | `expect` | a text that must be in the output of `after` |
//! | `says` | a text that must be on stderr once, whatever the number of ranks |
//!
//! All but `ranks` to `calls` is rarely needed. A key may be repeated; the values add up.
//! A line `TABLE text` that a program prints is shown in the table.

use super::library::Mpi;
use super::under::{self, Under};

/// What a client program asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) ranks: Vec<u32>,
    mpis: Vec<String>,
    pub(super) modes: Vec<Mode>,
    pub(super) env: Vec<(String, String)>,
    pub(super) leaves: Vec<String>,
    pub(super) same: Vec<String>,
    /// Calls served on each rank; `None` where they cannot be known.
    pub(super) calls_min: Option<u64>,
    pub(super) seconds: u64,
    pub(super) ends_well: bool,
    pub(super) alone: bool,
    pub(super) bound: bool,
    pub(super) tidies: bool,
    pub(super) under: Vec<Under>,
    pub(super) preload: Vec<String>,
    pub(super) link: Vec<String>,
    pub(super) needs: Vec<String>,
    pub(super) after: Vec<Vec<String>>,
    pub(super) expect: Vec<String>,
    pub(super) says: Vec<String>,
}

/// Whose MPI-IO serves a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    Native,
    Pario,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Pario => "pario",
        }
    }
}

impl Default for Header {
    fn default() -> Self {
        Self {
            ranks: Vec::new(),
            mpis: Vec::new(),
            modes: vec![Mode::Pario],
            env: Vec::new(),
            leaves: Vec::new(),
            same: Vec::new(),
            calls_min: Some(1),
            seconds: 60,
            ends_well: true,
            alone: false,
            bound: true,
            tidies: true,
            under: Vec::new(),
            preload: Vec::new(),
            link: Vec::new(),
            needs: Vec::new(),
            after: Vec::new(),
            expect: Vec::new(),
            says: Vec::new(),
        }
    }
}

impl Header {
    /// Reads the first comment of a source text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut header = Self::default();
        for line in comment(text) {
            let Some((key, value)) = line.split_once(": ") else { continue };
            if !key.is_empty() && key.chars().all(|character| character.is_ascii_lowercase()) {
                header.set(key, value.trim()).map_err(|reason| format!("`{line}`: {reason}"))?;
            }
        }
        match header.ranks.is_empty() {
            true => Err("the first comment has no line `ranks: 1 2 5`".to_owned()),
            false => Ok(header),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let words = || value.split_whitespace().map(str::to_owned);
        match key {
            "ranks" => self.ranks = numbers(value)?,
            "mpis" => self.mpis.extend(words()),
            "pario" => self.modes = modes(value)?,
            "env" => self.env.extend(pairs(value)?),
            "leaves" => self.leaves.extend(words()),
            "same" => self.same.extend(words()),
            "calls" => self.calls_min = calls(value)?,
            "seconds" => self.seconds = number(value)?,
            "ends" => self.ends_well = either(value, "well", "badly")?,
            "alone" => self.alone = either(value, "yes", "no")?,
            "bound" => self.bound = either(value, "yes", "no")?,
            "tidies" => self.tidies = either(value, "yes", "no")?,
            "under" => self.under.extend(under::all(value)?),
            "preload" => self.preload.extend(words()),
            "link" => self.link.extend(words()),
            "needs" => self.needs.push(value.to_owned()),
            "after" => self.after.push(words().collect()),
            "expect" => self.expect.push(value.to_owned()),
            "says" => self.says.push(value.to_owned()),
            _ => return Err("there is no such key".to_owned()),
        }
        Ok(())
    }

    /// Whether the program is for this MPI. `all` means those that are the same for everybody:
    /// Debian's Open MPI is there for Fortran and for PnetCDF, and C programs have to name it.
    pub(super) fn means(&self, mpi: &Mpi, fortran: bool) -> bool {
        if fortran && mpi.mpif90.is_none() {
            return false;
        }
        let all = self.mpis.is_empty() || self.mpis.iter().any(|name| name == "all");
        self.mpis.iter().any(|name| name == mpi.name) || all && (fortran || mpi.primary)
    }
}

/// The lines of the first comment without their marks.
fn comment(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut in_block = false;
    for line in text.lines().map(str::trim) {
        let fortran = line.starts_with('!');
        if !in_block && !fortran && !line.starts_with("/*") {
            if lines.is_empty() && line.is_empty() {
                continue;
            }
            break;
        }
        in_block |= line.starts_with("/*");
        in_block &= !line.ends_with("*/");
        let inner = line.trim_start_matches(['/', '*', '!']).trim_end_matches(['*', '/']);
        lines.push(inner.trim());
    }
    lines
}

fn number<N: std::str::FromStr>(value: &str) -> Result<N, String> {
    value.parse().map_err(|_| format!("`{value}` is not a number"))
}

fn numbers(value: &str) -> Result<Vec<u32>, String> {
    value.split_whitespace().map(number).collect()
}

fn modes(value: &str) -> Result<Vec<Mode>, String> {
    match value {
        "yes" => Ok(vec![Mode::Pario]),
        "no" => Ok(vec![Mode::Native]),
        "both" => Ok(vec![Mode::Native, Mode::Pario]),
        _ => Err("it is yes, no or both".to_owned()),
    }
}

fn pairs(value: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').ok_or("it is NAME=VALUE")?;
        Ok((name.to_owned(), value.to_owned()))
    };
    value.split_whitespace().map(pair).collect()
}

fn calls(value: &str) -> Result<Option<u64>, String> {
    match value.strip_prefix("at least ") {
        Some(count) => number(count).map(Some),
        None if value == "unknown" => Ok(None),
        None => Err("it is `at least N` or `unknown`".to_owned()),
    }
}

fn either(value: &str, yes: &str, no: &str) -> Result<bool, String> {
    match value {
        _ if value == yes => Ok(true),
        _ if value == no => Ok(false),
        _ => Err(format!("it is {yes} or {no}")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::library;
    use super::*;

    #[test]
    fn each_key_is_read_from_comments_in_c_and_fortran() {
        let c = "/* What it is for: nothing.\n * ranks: 1 2 5\n * pario: both\n * env: A=1 B=2=3\n\
                 \x20* calls: at least 3\n * ends: badly */\nint ranks: 7;\n";
        let header = Header::parse(c).unwrap();
        assert_eq!(header.ranks, [1, 2, 5]);
        assert_eq!(header.modes, [Mode::Native, Mode::Pario]);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(header.env, [pair("A", "1"), pair("B", "2=3")]);
        assert_eq!((header.calls_min, header.ends_well), (Some(3), false));
        assert!(header.bound && !Header::parse("/* ranks: 2\n bound: no */").unwrap().bound);
        assert!(header.tidies && !Header::parse("/* ranks: 2\n tidies: no */").unwrap().tidies);
        let lines = "/* ranks: 4 */\n/* leaves: a b */\n/* after: cat a */\n\nint main;\n";
        let header = Header::parse(lines).unwrap();
        assert_eq!(header.leaves, ["a", "b"]);
        assert_eq!(header.after, [["cat", "a"]]);
        let fortran = Header::parse("! A program.\n! ranks: 2\n! seconds: 9\nprogram x\n").unwrap();
        assert_eq!((fortran.ranks, fortran.seconds), (vec![2], 9));
    }

    #[test]
    fn mistakes_are_told() {
        for text in ["", "int x;", "/* rank: 2 */", "/* ranks: two */", "/* ranks: 2\n pario: 1 */"]
        {
            assert!(Header::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_leaves_out_only_what_has_to_be_named() {
        let header = |mpis: &str| Header::parse(&format!("/* ranks: 1\n mpis: {mpis} */")).unwrap();
        let openmpi = library::openmpi_5(Path::new("/e"));
        let mut other = library::openmpi_5(Path::new("/e"));
        (other.primary, other.name) = (false, "other");
        assert!(header("all").means(&openmpi, false));
        assert!(!header("all").means(&openmpi, true));
        assert!(!header("mpich5").means(&openmpi, false));
        assert!(!header("all").means(&other, false));
        assert!(header("all other").means(&other, false));
    }
}
