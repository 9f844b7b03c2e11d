//! How each launcher of MPI programs passes variables on to the ranks.
//!
//! Launchers differ in which variables they pass on by default, above all to other hosts. Their own
//! options always pass them on, and do not preload the library into the launcher.
//!
//! Variables that a user gives on the command line win: `LD_PRELOAD` given there is kept, and the
//! library added after it; other variables given there are left alone.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::slurm;
use super::variables::{PRELOAD, Variables};

/// Who starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launcher {
    /// MPICH's, and that of its relatives.
    Hydra,
    OpenMpi,
    Slurm,
    /// No launcher, or one that is not known.
    None,
}

/// A command line, and what its process gets in its environment.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(String, OsString)>,
}

/// Where a command is, as the system finds it.
///
/// # Errors
/// `NotFound` if there is none, `PermissionDenied` if it cannot be executed.
pub(super) fn in_path(program: &OsStr) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return executable(program.into());
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut missing = io::Error::new(io::ErrorKind::NotFound, "not found in PATH");
    for place in std::env::split_paths(&directories) {
        match executable(place.join(program)) {
            Ok(path) => return Ok(path),
            // Another directory may have one that can be executed.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => missing = error,
            Err(_) => {}
        }
    }
    Err(missing)
}

/// A path of a file that somebody may execute.
fn executable(path: PathBuf) -> io::Result<PathBuf> {
    let data = path.metadata()?;
    match data.is_file() && data.permissions().mode() & 0o111 != 0 {
        true => Ok(path),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "not an executable file")),
    }
}

/// Whether a command has a name that many launchers have.
pub(super) fn has_common_name(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default();
    name == "mpirun" || name == "mpiexec"
}

impl Launcher {
    /// Recognises a launcher by its name, or by that of a link's target; `mpirun` and `mpiexec`
    /// that are still unknown are asked for their version.
    pub(super) fn recognise(program: &OsStr, path: &Path) -> Launcher {
        let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
        let given = name(Path::new(program));
        if let Some(launcher) = Launcher::named(&given) {
            return launcher;
        }
        if !has_common_name(program) {
            return Launcher::None;
        }
        let real = path.canonicalize().ok().and_then(|real| Launcher::named(&name(&real)));
        real.unwrap_or_else(|| Launcher::of_version(&version(path)))
    }

    fn named(name: &str) -> Option<Launcher> {
        match name {
            "srun" => Some(Launcher::Slurm),
            "mpiexec.hydra" | "mpiexec.mpich" | "mpirun.mpich" => Some(Launcher::Hydra),
            "orterun" | "prterun" | "mpirun.openmpi" | "mpiexec.openmpi" => Some(Launcher::OpenMpi),
            _ => None,
        }
    }

    fn of_version(text: &str) -> Launcher {
        let contains = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match () {
            () if contains(&["Open MPI", "OpenRTE", "PRRTE"]) => Launcher::OpenMpi,
            () if contains(&["HYDRA", "Intel(R) MPI"]) => Launcher::Hydra,
            () => Launcher::None,
        }
    }

    /// The command line that gives the ranks their variables.
    pub(super) fn prepare(self, words: &[OsString], variables: Variables) -> Prepared {
        let (words, preload) = match self {
            Launcher::Hydra => (hydra(words, &variables), None),
            Launcher::OpenMpi => (open_mpi(words, &variables), None),
            Launcher::Slurm => {
                let default = std::env::var("SLURM_EXPORT_ENV").ok();
                let (words, preload) = slurm::export(words, default.as_deref(), &variables);
                (words, Some(preload))
            }
            Launcher::None => (words.to_owned(), Some(variables.preload())),
        };
        let preload = preload.map(|value| (PRELOAD.to_owned(), value));
        Prepared { words, environment: variables.others.into_iter().chain(preload).collect() }
    }
}

/// What a launcher says about itself.
fn version(path: &Path) -> String {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null());
    let output = command.output().map(|output| [output.stdout, output.stderr].concat());
    String::from_utf8_lossy(&output.unwrap_or_default()).into_owned()
}

/// The value in `NAME=VALUE`, if the word has this name.
pub(super) fn value_of<'a>(word: &'a OsStr, name: &str) -> Option<&'a OsStr> {
    let rest = word.as_bytes().strip_prefix(name.as_bytes())?;
    rest.strip_prefix(b"=").map(OsStr::from_bytes)
}

/// `NAME=VALUE`.
fn pair(name: &str, value: &OsStr) -> OsString {
    OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat())
}

/// Hydra: `-genv NAME VALUE` for all programs of the command line, `-env` for one of them.
fn hydra(words: &[OsString], variables: &Variables) -> Vec<OsString> {
    let mut words = words.to_owned();
    // What is given for all programs.
    let mut given: Vec<OsString> = Vec::new();
    for index in 1..words.len().saturating_sub(1) {
        let global = ["-genv", "--genv"].iter().any(|option| words[index] == *option);
        let local = ["-env", "--env"].iter().any(|option| words[index] == *option);
        if !global && !local {
            continue;
        }
        let name = words[index + 1].clone();
        if global {
            given.push(name.clone());
        }
        if name == PRELOAD && index + 2 < words.len() {
            words[index + 2] = variables.preload_behind(&words[index + 2]);
        }
    }
    let all = [(PRELOAD, variables.preload())].into_iter();
    let all =
        all.chain(variables.others.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let missing = all.filter(|(name, _)| given.iter().all(|given| given != name));
    let options = missing.flat_map(|(name, value)| ["-genv".into(), name.into(), value]);
    let options: Vec<OsString> = options.collect();
    words.splice(1..1, options);
    words
}

/// Open MPI: `-x NAME=VALUE`, or `-x NAME` for a variable of the launcher's own; in each of the
/// programs that a colon separates.
fn open_mpi(words: &[OsString], variables: &Variables) -> Vec<OsString> {
    let mut prepared: Vec<OsString> = words.iter().take(1).cloned().collect();
    for (index, program) in words[prepared.len()..].split(|word| word == ":").enumerate() {
        if index > 0 {
            prepared.push(":".into());
        }
        prepared.extend(open_mpi_program(program, variables));
    }
    prepared
}

fn open_mpi_program(words: &[OsString], variables: &Variables) -> Vec<OsString> {
    let mut words = words.to_owned();
    let mut given: Vec<OsString> = Vec::new();
    for index in 1..words.len() {
        if words[index - 1] != "-x" && words[index - 1] != "--x" {
            continue;
        }
        if let Some(value) = value_of(&words[index], PRELOAD) {
            words[index] = pair(PRELOAD, &variables.preload_behind(value));
        } else if words[index] == PRELOAD {
            words[index] = pair(PRELOAD, &variables.preload());
        }
        let name = words[index].as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
        given.push(OsStr::from_bytes(name).to_owned());
    }
    let others = variables.others.keys().map(|name| (name.as_str(), OsString::from(name)));
    let all = [(PRELOAD, pair(PRELOAD, &variables.preload()))].into_iter().chain(others);
    let missing = all.filter(|(name, _)| given.iter().all(|given| given != name));
    let options = missing.flat_map(|(_, word)| ["-x".into(), word]);
    options.chain(words.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(launcher: Launcher, line: &str, preloaded: &str) -> String {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let prepared = launcher.prepare(&words, Variables::sample(preloaded));
        let names = prepared.environment.iter().map(|(name, _)| name.as_str());
        let preloads = names.clone().any(|name| name == PRELOAD);
        assert_eq!(preloads, launcher == Launcher::None, "the launcher itself is not preloaded");
        assert!(names.clone().any(|name| name == "PARIO_HINTS"));
        prepared.words.join(OsStr::new(" ")).into_string().unwrap()
    }

    const HINTS: &str = "PARIO_HINTS *:cb_nodes=1,x:cb_nodes=2";

    #[test]
    fn hydra_gets_global_options_before_its_own() {
        let line = prepared(Launcher::Hydra, "mpiexec -n 2 ./a : -n 1 ./b x", "");
        let expected = format!(
            "mpiexec -genv LD_PRELOAD /p.so -genv {HINTS} -genv PARIO_STATS 1 \
             -n 2 ./a : -n 1 ./b x"
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn hydra_keeps_what_its_user_says_of_a_variable() {
        let line =
            "mpiexec -genv LD_PRELOAD /t.so -n 2 -env LD_PRELOAD /u.so ./a -genv PARIO_STATS 0";
        let expected = format!(
            "mpiexec -genv {HINTS} -genv LD_PRELOAD /t.so:/p.so \
             -n 2 -env LD_PRELOAD /u.so:/p.so ./a -genv PARIO_STATS 0"
        );
        assert_eq!(prepared(Launcher::Hydra, line, "/e.so"), expected);
        let line = prepared(Launcher::Hydra, "mpiexec ./a -env", "/e.so");
        assert!(
            line.starts_with("mpiexec -genv LD_PRELOAD /e.so:/p.so ") && line.ends_with("-env")
        );
    }

    #[test]
    fn open_mpi_gets_options_for_each_program() {
        let ours = "-x LD_PRELOAD=/e.so:/p.so -x PARIO_HINTS -x PARIO_STATS";
        let line = prepared(Launcher::OpenMpi, "mpirun -n 2 ./a : -n 1 ./b x", "/e.so");
        assert_eq!(line, format!("mpirun {ours} -n 2 ./a : {ours} -n 1 ./b x"));
    }

    #[test]
    fn open_mpi_keeps_what_its_user_says_of_a_variable() {
        let line = "mpirun -x LD_PRELOAD=/t.so -x PARIO_STATS=0 ./a : -x LD_PRELOAD ./b";
        let expected = "mpirun -x PARIO_HINTS -x LD_PRELOAD=/t.so:/p.so -x PARIO_STATS=0 ./a : \
                        -x PARIO_HINTS -x PARIO_STATS -x LD_PRELOAD=/e.so:/p.so ./b";
        assert_eq!(prepared(Launcher::OpenMpi, line, "/e.so"), expected);
    }

    #[test]
    fn other_commands_stay_as_they_are() {
        for line in ["./a -x LD_PRELOAD=/t.so", "time mpirun -n 2 ./a", "python3 a.py : b"] {
            assert_eq!(prepared(Launcher::None, line, ""), line);
        }
    }

    #[test]
    fn launchers_are_known_by_their_names_and_by_what_they_say() {
        let recognise = |name: &str| Launcher::recognise(OsStr::new(name), Path::new("/dev/null"));
        assert_eq!(recognise("/opt/bin/srun"), Launcher::Slurm);
        assert_eq!(recognise("mpiexec.hydra"), Launcher::Hydra);
        assert_eq!(recognise("mpirun.openmpi"), Launcher::OpenMpi);
        assert_eq!(recognise("./mpirun-wrapper"), Launcher::None);
        assert_eq!(recognise("mpirun"), Launcher::None);
        let cases = [
            ("HYDRA build details:\n    Version: 5.0.2", Launcher::Hydra),
            ("Intel(R) MPI Library for Linux* OS, Version 2021.13", Launcher::Hydra),
            ("mpiexec (Open MPI) 5.0.11", Launcher::OpenMpi),
            ("mpirun.openmpi (OpenRTE) 4.1.4", Launcher::OpenMpi),
            ("prterun (PRRTE) 3.0.0", Launcher::OpenMpi),
            ("something else", Launcher::None),
        ];
        for (text, expected) in cases {
            assert_eq!(Launcher::of_version(text), expected, "{text}");
        }
    }

    #[test]
    fn a_link_leads_to_the_launcher_and_a_script_is_asked() {
        let top = std::env::temp_dir().join(format!("pario-launcher-{}", std::process::id()));
        std::fs::create_dir(&top).unwrap();
        let link = top.join("mpirun");
        std::os::unix::fs::symlink("orterun", &link).unwrap();
        std::fs::write(top.join("orterun"), "").unwrap();
        assert_eq!(Launcher::recognise(link.as_os_str(), &link), Launcher::OpenMpi);
        let script = top.join("mpiexec");
        std::fs::write(&script, "#!/bin/sh\necho HYDRA build details: $*\n").unwrap();
        let mode = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        assert_eq!(Launcher::recognise(script.as_os_str(), &script), Launcher::Hydra);
        std::fs::remove_dir_all(&top).unwrap();
    }
}
