//! What the ranks must find in their environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use pario_lab::hint;

pub(super) const PRELOAD: &str = "LD_PRELOAD";
const HINTS: &str = "PARIO_HINTS";
const STATISTICS: &str = "PARIO_STATS";
const DISABLE: &str = "PARIO_DISABLE";
const PNETCDF: &str = "PNETCDF_HINTS";
/// What is passed on beside what begins with `PARIO_`.
const OTHERS: [&str; 7] = [
    "ROMIO_HINTS",
    "ROMIO_PRINT_HINTS",
    "MPICH_MPIIO_HINTS",
    "MPICH_MPIIO_HINTS_DISPLAY",
    "MPICH_MPIIO_STATS",
    "MPICH_MPIIO_TIMERS",
    PNETCDF,
];

/// What the ranks must find in their environment.
#[derive(Clone, Debug)]
pub(super) struct Variables {
    library: OsString,
    /// What is preloaded already.
    preloaded: OsString,
    /// The other variables, with those of pario that are set already.
    pub(super) others: BTreeMap<String, OsString>,
}

impl Variables {
    /// Those of this process, and what the arguments add.
    pub(super) fn new(
        library: &Path,
        statistics: Option<&str>,
        hints: &[(String, String)],
    ) -> Variables {
        let ours = |name: &str| name.starts_with("PARIO_") || OTHERS.contains(&name);
        let set = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            ours(&name).then_some((name, value))
        });
        let preloaded = std::env::var_os(PRELOAD).unwrap_or_default();
        let mut variables = Variables { library: library.into(), preloaded, others: set.collect() };
        if let Some(level) = statistics {
            variables.others.insert(STATISTICS.to_owned(), level.into());
        }
        if !variables.is_disabled() {
            let given = variables.others.get(PNETCDF).cloned().unwrap_or_default();
            variables.others.insert(PNETCDF.to_owned(), with_driver(given));
        }
        if !hints.is_empty() {
            let entry = hint_entry(hints);
            let value = match variables.others.get(HINTS).filter(|value| !value.is_empty()) {
                // Where several entries match a file, the last one wins.
                Some(value) => [value.as_os_str(), OsStr::new(&entry)].join(OsStr::new(",")),
                None => entry.into(),
            };
            variables.others.insert(HINTS.to_owned(), value);
        }
        variables
    }

    /// The value of `LD_PRELOAD`.
    pub(super) fn preload(&self) -> OsString {
        self.preload_behind(&self.preloaded)
    }

    /// The library after others: tools that use PMPI must come first, to see the program's calls.
    pub(super) fn preload_behind(&self, others: &OsStr) -> OsString {
        let separators = [b':', b' '];
        let mut paths = others.as_encoded_bytes().split(|byte| separators.contains(byte));
        if others.is_empty() {
            return self.library.clone();
        }
        match paths.any(|path| path == self.library.as_encoded_bytes()) {
            true => others.to_owned(),
            false => [others, self.library.as_os_str()].join(OsStr::new(":")),
        }
    }

    /// Whether calls will be passed on to the MPI library's own MPI-IO.
    pub(super) fn is_disabled(&self) -> bool {
        self.others.get(DISABLE).is_some_and(|value| !value.is_empty() && value != "0")
    }
}

/// PnetCDF's hints with the driver that calls MPI-IO, unless they name one. Pairs are separated by
/// semicolons.
fn with_driver(hints: OsString) -> OsString {
    const DRIVER: &str = "nc_driver";
    let named = hints.as_encoded_bytes().split(|byte| *byte == b';').any(|pair| {
        let key = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        key.trim_ascii() == DRIVER.as_bytes()
    });
    match (named, hints.is_empty()) {
        (true, _) => hints,
        (false, true) => format!("{DRIVER}=mpiio").into(),
        (false, false) => [hints, format!("{DRIVER}=mpiio").into()].join(OsStr::new(";")),
    }
}

/// Why the ranks cannot be given a hint, if so.
pub(super) fn refusal(hint: &(String, String)) -> Option<String> {
    let quotes = hint.1.contains('#').then(|| "a value in PARIO_HINTS has no `#`".to_owned());
    hint::without_effect(hint).or(quotes)
}

/// The hints as an entry of `PARIO_HINTS` for all files. All of them have an effect: their keys
/// contain no separators.
fn hint_entry(hints: &[(String, String)]) -> String {
    let mut entry = "*".to_owned();
    for (key, value) in hints {
        let quote = if value.contains([',', ':']) { "#" } else { "" };
        entry += &format!(":{key}={quote}{value}{quote}");
    }
    entry
}

#[cfg(test)]
impl Variables {
    /// Some variables, for tests.
    pub(super) fn sample(preloaded: &str) -> Variables {
        let others = [("PARIO_HINTS", "*:cb_nodes=1,x:cb_nodes=2"), ("PARIO_STATS", "1")];
        let others = others.map(|(name, value)| (name.to_owned(), OsString::from(value)));
        Variables { library: "/p.so".into(), preloaded: preloaded.into(), others: others.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_last_and_once() {
        let cases = [
            ("", "/p.so"),
            ("/tool.so", "/tool.so:/p.so"),
            ("/a.so /b.so", "/a.so /b.so:/p.so"),
            ("/p.so", "/p.so"),
            ("/p.so /b.so", "/p.so /b.so"),
        ];
        for (preloaded, expected) in cases {
            assert_eq!(Variables::sample(preloaded).preload(), expected);
        }
    }

    #[test]
    fn pnetcdf_is_given_the_driver_that_calls_mpi_io_unless_its_user_chose() {
        let cases = [
            ("", "nc_driver=mpiio"),
            ("nc_num_aggrs_per_node=4", "nc_num_aggrs_per_node=4;nc_driver=mpiio"),
            ("a=1; nc_driver = gio;b=2", "a=1; nc_driver = gio;b=2"),
            ("nc_driver=mpiio", "nc_driver=mpiio"),
            ("not_nc_driver=1", "not_nc_driver=1;nc_driver=mpiio"),
        ];
        for (given, expected) in cases {
            assert_eq!(with_driver(given.into()), expected);
        }
    }

    #[test]
    fn hints_are_written_as_the_library_reads_them() {
        let given = [("cb_nodes", "4"), ("cb_config_list", "*:4")];
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(given.each_ref().map(refusal), [None, None]);
        let entry = hint_entry(&given);
        assert_eq!(entry, "*:cb_nodes=4:cb_config_list=#*:4#");
        let environment = pario::Environment { hints: Some(entry), ..Default::default() };
        let (hints, report) = pario::HintSet::new().resolve("x".as_ref(), &environment);
        assert_eq!((hints.aggregators, hints.aggregators_per_node), (Some(4), Some(4)));
        assert!(report.ignored.is_empty());
        let quoted = ("pario_statistics".to_owned(), "json:a#b".to_owned());
        assert!(refusal(&quoted).is_some());
        let separators = ("cb_nodes:x".to_owned(), "1".to_owned());
        assert!(refusal(&separators).is_some());
    }
}
