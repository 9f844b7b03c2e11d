//! `pario run` starts any command with the library preloaded, and is then that command.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An installation in a directory of its own, with some shared object as the library: the
/// programs here make no MPI calls. Removed at the end.
struct Installation(PathBuf);

impl Installation {
    fn new(name: &str) -> Installation {
        let top = std::env::temp_dir().join(format!("pario-run-{name}-{}", std::process::id()));
        std::fs::create_dir_all(top.join("bin")).unwrap();
        std::fs::create_dir(top.join("lib")).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_pario"), top.join("bin/pario")).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let some = maps.lines().find(|line| line.contains("/libgcc_s")).unwrap();
        let some = some.get(some.find('/').unwrap()..).unwrap();
        std::fs::copy(some, top.join("lib/libpario_mpi.so")).unwrap();
        Installation(top.canonicalize().unwrap())
    }

    fn library(&self) -> String {
        self.0.join("lib/libpario_mpi.so").display().to_string()
    }

    /// A script that shows its arguments and variables, under the name of a launcher.
    fn launcher(&self, name: &str, version: &str) -> PathBuf {
        let path = self.0.join(name);
        let text = format!(
            "#!/bin/sh\n[ \"$*\" = --version ] && echo '{version}' && exit\n\
             echo \"$* [$LD_PRELOAD] [$PARIO_STATS] [$PARIO_HINTS]\"\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0.join("bin/pario"));
        command.arg("run").args(arguments).env_remove("LD_PRELOAD");
        // What is set for pario is passed on; here that is only what a test sets.
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            let others = ["PNETCDF_", "ROMIO_", "MPICH_MPIIO_"];
            if others.iter().chain(&["PARIO_"]).any(|prefix| name_text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finished(&mut self.command(arguments))
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn finished(command: &mut Command) -> Output {
    // Another test that starts a process at the wrong moment holds the copied program open.
    loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            output => return output.unwrap(),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const SHOW: &str = "echo \"$LD_PRELOAD [$PARIO_STATS] [$PARIO_HINTS]\"";

#[test]
fn a_plain_program_gets_everything_in_its_environment() {
    let installation = Installation::new("plain");
    let library = installation.library();
    let output = installation.run(&["--", "/bin/sh", "-c", SHOW]);
    assert_eq!(text(&output.stdout), format!("{library} [] []\n"), "{}", text(&output.stderr));
    let hints = ["--stats", "--hint", "cb_nodes=2", "--hint", "cb_config_list=*:*"];
    let output = installation.run(&[&hints[..], &["--", "sh", "-c", SHOW]].concat());
    let expected = format!("{library} [1] [*:cb_nodes=2:cb_config_list=#*:*#]\n");
    assert_eq!(text(&output.stdout), expected);
    let mut command = installation.command(&["--hint", "cb_nodes=2", "sh", "-c", SHOW]);
    command.env("LD_PRELOAD", &library).env("PARIO_HINTS", "x:cb_nodes=1");
    let output = finished(&mut command);
    let expected = format!("{library} [] [x:cb_nodes=1,*:cb_nodes=2]\n");
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn pnetcdf_gets_its_driver_and_full_statistics_are_asked_for_by_name() {
    let installation = Installation::new("pnetcdf");
    let show = "echo \"$PNETCDF_HINTS $PARIO_STATS\"";
    let shown = |given: &str, arguments: &[&str]| {
        let mut command = installation.command(&[arguments, &["--", "sh", "-c", show]].concat());
        text(&finished(command.env("PNETCDF_HINTS", given)).stdout)
    };
    assert_eq!(shown("", &[]), "nc_driver=mpiio \n");
    assert_eq!(shown("a=1", &["--stats=full"]), "a=1;nc_driver=mpiio full\n");
    assert_eq!(shown("nc_driver=gio", &["--stats"]), "nc_driver=gio 1\n");
    let mut off = installation.command(&["--", "sh", "-c", show]);
    let output = finished(off.env("PARIO_DISABLE", "1"));
    assert_eq!(text(&output.stdout), " \n", "the driver is pario's affair only");
}

/// Ranks may have other working directories, so they get the whole path.
#[test]
fn a_recording_begins_with_the_command_and_ranks_get_its_whole_path() {
    let installation = Installation::new("recording");
    let shown = |stats: &str| {
        let output = installation.run(&[stats, "--", "sh", "-c", "echo \"$PARIO_STATS\""]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let name = format!("pario-recording-{}.jsonl", std::process::id());
    let path = std::env::current_dir().unwrap().join(&name);
    std::fs::write(&path, "{\"kind\":\"run\"}\nof an earlier run\n").unwrap();
    assert_eq!(shown(&format!("--stats={name}")), format!("json:{}\n", path.display()));
    let head = std::fs::read_to_string(&path).unwrap();
    assert_eq!(shown(&format!("--stats=trace:{name}")), format!("trace:{}\n", path.display()));
    std::fs::remove_file(&path).unwrap();
    let head: serde_json::Value = serde_json::from_str(&head).unwrap();
    assert_eq!((&head["kind"], &head["command"][0]), (&"run".into(), &"pario".into()));
    assert_eq!(head["command"][2], format!("--stats={name}"), "{head}");
    assert_eq!(shown("--stats=json"), "json\n");
    for wrong in ["--stats=off", "--stats=false", "--stats=run.txt", "--stats=json:"] {
        assert_eq!(installation.run(&[wrong, "--", "true"]).status.code(), Some(2), "{wrong}");
    }
    let nowhere = installation.run(&["--stats=/dev/null/exist.jsonl", "--", "true"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text(&nowhere.stderr).contains("--stats: /dev/null/exist.jsonl: "));
}

#[test]
fn the_command_has_its_own_exit_code_signals_and_arguments() {
    let installation = Installation::new("exit");
    let output = installation.run(&["--", "sh", "-c", "exit 42"]);
    assert_eq!(output.status.code(), Some(42));
    let output = installation.run(&["--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(15));
    let output = installation.run(&["--", "echo", "--stats", "--", "--help", ""]);
    assert_eq!(text(&output.stdout), "--stats -- --help \n");
}

#[test]
fn launchers_get_their_own_options() {
    let installation = Installation::new("launchers");
    let library = installation.library();
    let shown = |launcher: &Path, rest: &[&str]| {
        let launcher = launcher.display().to_string();
        let output = installation.run(&[&["--stats", "--", &launcher], rest].concat());
        assert_eq!(text(&output.stderr), "");
        text(&output.stdout)
    };
    let hydra = installation.launcher("mpiexec", "HYDRA build details:");
    let pnetcdf = "-genv PNETCDF_HINTS nc_driver=mpiio";
    let expected =
        format!("-genv LD_PRELOAD {library} -genv PARIO_STATS 1 {pnetcdf} -n 4 ./a [] [1] []\n");
    assert_eq!(shown(&hydra, &["-n", "4", "./a"]), expected);
    let open_mpi = installation.launcher("mpirun", "mpirun (Open MPI) 5.0.11");
    let ours = format!("-x LD_PRELOAD={library} -x PARIO_STATS -x PNETCDF_HINTS");
    let expected = format!("{ours} -n 1 ./a : {ours} ./b [] [1] []\n");
    assert_eq!(shown(&open_mpi, &["-n", "1", "./a", ":", "./b"]), expected);
    let slurm = installation.launcher("srun", "");
    let expected =
        format!("--export=A,LD_PRELOAD,PARIO_STATS,PNETCDF_HINTS ./a [{library}] [1] []\n");
    assert_eq!(shown(&slurm, &["--export=A", "./a"]), expected);
}

#[test]
fn an_unknown_launcher_and_a_switched_off_library_are_told() {
    let installation = Installation::new("told");
    let unknown = installation.launcher("mpirun", "a launcher").display().to_string();
    let mut command = installation.command(&["--stats", "--", &unknown, "./a"]);
    let output = finished(command.env("PARIO_DISABLE", "1"));
    let library = installation.library();
    assert_eq!(text(&output.stdout), format!("./a [{library}] [1] []\n"));
    let told = text(&output.stderr);
    for part in
        ["a launcher that is not known", "PARIO_DISABLE is set, so that there are no statistics"]
    {
        assert!(told.contains(part), "{told}");
    }
}

/// MPI ignores hints that it does not know, and so do the variables of pario.
#[test]
fn a_hint_without_effect_is_warned_of_once_and_the_command_starts() {
    let installation = Installation::new("hints");
    let cases = [
        ("direct_io=true", "pario always uses the page cache"),
        ("cb_node=4", "unknown hint; did you mean cb_nodes?"),
        ("nobody_knows=1", "unknown hint"),
        ("cb_nodes=many", "not a number"),
        ("a,b:cb_nodes=3", "unknown hint"),
        ("pario_statistics=json:a#b", "a value in PARIO_HINTS has no `#`"),
    ];
    for (hint, reason) in cases {
        let arguments = ["--hint", hint, "--hint", "cb_nodes=2", "--", "sh", "-c", SHOW];
        let output = installation.run(&arguments);
        let warning = format!("pario: warning: --hint {hint} has no effect: {reason}\n");
        assert_eq!(text(&output.stderr), warning);
        assert_eq!(output.status.code(), Some(0), "{hint}");
        let shown = format!("{} [] [*:cb_nodes=2]\n", installation.library());
        assert_eq!(text(&output.stdout), shown, "{hint}");
    }
}

#[test]
fn variables_of_romio_and_cray_are_passed_on() {
    let installation = Installation::new("others");
    let names = ["ROMIO_PRINT_HINTS", "MPICH_MPIIO_HINTS_DISPLAY", "MPICH_MPIIO_TIMERS"];
    let hydra = installation.launcher("mpiexec", "HYDRA build details:").display().to_string();
    let mut command = installation.command(&["--", &hydra, "./a"]);
    let output = finished(command.envs(names.map(|name| (name, "1"))));
    let line = text(&output.stdout);
    for name in names {
        assert!(line.contains(&format!("-genv {name} 1 ")), "{line}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let installation = Installation::new("refused");
    let cases: [(&[&str], i32, &str); 5] = [
        (&[], 2, "<COMMAND>"),
        (&["--"], 2, "<COMMAND>"),
        (&["--hint", "cb_nodes", "--", "true"], 2, "KEY=VALUE"),
        (&["--library", "/does/not/exist.so", "--", "true"], 1, "No such file"),
        (&["--library", "/etc/passwd", "--", "true"], 1, "not a shared object"),
    ];
    for (arguments, code, reason) in cases {
        let output = installation.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let message = text(&output.stderr);
        assert!(message.contains(reason), "{arguments:?}: {message}");
    }
    std::fs::remove_file(installation.library()).unwrap();
    let output = installation.run(&["--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    let beside = installation.0.join("bin/libpario_mpi.so").display().to_string();
    for part in [&beside, &installation.library(), "cargo build --release", "cargo xtask install"] {
        assert!(message.contains(part), "{message}");
    }
}

/// The exit codes are those of shells. Nothing is said before, and no recording is begun.
#[test]
fn a_command_that_is_missing_or_not_executable_is_the_first_thing_said() {
    let installation = Installation::new("missing");
    let plain = installation.0.join("plain");
    std::fs::write(&plain, "").unwrap();
    let plain = plain.display().to_string();
    let top = installation.0.display().to_string();
    std::fs::remove_file(installation.library()).unwrap();
    let cases = [
        ("mpirun", 127, "cannot start mpirun: not found in PATH"),
        ("./does-not-exist", 127, "cannot start ./does-not-exist: No such file"),
        ("plain", 126, "cannot start plain: not an executable file"),
        (&plain, 126, "not an executable file"),
        (&top, 126, "not an executable file"),
    ];
    for (program, code, reason) in cases {
        let recording = installation.0.join("run.jsonl");
        let stats = format!("--stats={}", recording.display());
        let mut command = installation.command(&[&stats, "--", program, "-n", "4", "./a"]);
        let output = finished(command.env("PATH", &top).env("PARIO_DISABLE", "1"));
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{program}: {message}");
        assert!(message.starts_with("pario: cannot start "), "{program}: {message}");
        assert!(message.contains(reason) && message.lines().count() == 1, "{program}: {message}");
        assert!(!recording.exists(), "{program}");
    }
}

#[test]
fn a_program_that_the_loader_protects_is_told_of() {
    let installation = Installation::new("set-id");
    let program = installation.launcher("protected", "");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    let output = installation.run(&["--", &program.display().to_string()]);
    let message = text(&output.stderr);
    assert!(message.contains("lets nobody preload a library into it"), "{message}");
    assert!(output.status.success());
}

#[test]
fn help_has_examples() {
    let installation = Installation::new("help");
    let help = text(&installation.run(&["--help"]).stdout);
    for part in ["Examples:", "pario run -- mpirun -n 16 ./program", "PARIO_DISABLE=1", "srun"] {
        assert!(help.contains(part), "{help}");
    }
}
