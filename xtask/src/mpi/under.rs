//! Environments in which containers run programs: namespaces and filters of system calls.
//!
//! Each rank is started in one of its own. Where such a one cannot be made, or the MPI library
//! itself does not work in it, the run is skipped, which is reported: the program is started there
//! without pario first, with the argument `probe`, and only passes a barrier.

use std::ffi::OsString;

/// An environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Under {
    pub(super) name: &'static str,
    /// What it is.
    pub(super) text: &'static str,
    /// Words before the program.
    words: &'static [&'static str],
    /// For programs that make it by themselves.
    env: Option<(&'static str, &'static str)>,
}

/// The variable by which a program is asked to filter its own system calls.
const FILTER: &str = "PARIO_TEST_FILTER";

const ALL: [Under; 8] = [
    Under {
        name: "pid",
        text: "process numbers of its own",
        words: &["unshare", "--pid", "--fork", "--mount-proc"],
        env: None,
    },
    Under { name: "ipc", text: "System V IPC of its own", words: &["unshare", "--ipc"], env: None },
    Under {
        name: "user",
        text: "user numbers of its own",
        words: &["unshare", "--user", "--map-root-user"],
        env: None,
    },
    Under {
        name: "hostname",
        text: "a host name of its own, as on a node of its own",
        words: &["unshare", "--uts", "sh", "-c", "hostname pario-$$ && exec \"$@\"", "sh"],
        env: None,
    },
    Under {
        name: "no-shm",
        text: "no /dev/shm",
        words: &["unshare", "--mount", "sh", "-c", "umount -l /dev/shm && exec \"$@\"", "sh"],
        env: None,
    },
    Under {
        name: "read-only-shm",
        text: "a read-only /dev/shm",
        words: &[
            "unshare",
            "--mount",
            "sh",
            "-c",
            "mount -o remount,bind,ro /dev/shm && exec \"$@\"",
            "sh",
        ],
        env: None,
    },
    Under {
        name: "no-process-memory",
        text: "process_vm_readv, process_vm_writev, ptrace and pidfd_getfd refused",
        words: &[],
        env: Some((FILTER, "process-memory")),
    },
    Under {
        name: "no-memfd",
        text: "memfd_create refused",
        words: &[],
        env: Some((FILTER, "memfd")),
    },
];

/// The environments of some names.
pub(super) fn all(names: &str) -> Result<Vec<Under>, String> {
    let named = |name: &str| {
        let known = ALL.iter().find(|under| under.name == name).copied();
        known.ok_or_else(|| format!("no environment is named {name}"))
    };
    names.split_whitespace().map(named).collect()
}

impl Under {
    /// The words that start a program there.
    pub(super) fn words(&self, program: Vec<OsString>) -> Vec<OsString> {
        self.words.iter().map(OsString::from).chain(program).collect()
    }

    pub(super) fn env(&self) -> Option<(String, String)> {
        self.env.map(|(name, value)| (name.to_owned(), value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_known_by_their_names() {
        assert_eq!(all("pid no-shm").unwrap().len(), 2);
        assert!(all("nowhere").is_err());
        let words = all("ipc").unwrap()[0].words(vec!["a".into()]);
        assert_eq!(words, ["unshare", "--ipc", "a"]);
    }
}
