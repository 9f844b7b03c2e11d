//! `cargo xtask install --prefix DIR`: the program in `bin`, the drop-in library in `lib`.
//!
//! Each file is made beside its place and then moved there: programs that run with the old one
//! keep it, and an installation that fails half-way leaves no half a file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::open_command;

/// What is installed: the name, and the directory below the prefix.
const FILES: [(&str, &str); 2] = [("pario", "bin"), ("libpario_mpi.so", "lib")];

/// Where to install.
#[derive(Args)]
pub(crate) struct InstallArguments {
    /// The directory that gets bin/pario and lib/libpario_mpi.so; it is made if need be.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Builds and installs; the outcome is a line for the end of the log.
pub(crate) fn run(root: &Path, arguments: &InstallArguments) -> Result<String, String> {
    let built = build(root)?;
    let prefix = &arguments.prefix;
    install(&built, prefix)?;
    let program = prefix.join("bin/pario");
    Ok(format!("installed; try {} run --help", program.display()))
}

/// Builds the program and the library; the outcome is their directory.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let words = ["build", "--release", "--package", "pario-cli", "--package", "pario-mpi"];
    open_command::cargo(&words, root)?;
    Ok(crate::steps::target_path(root).join("release"))
}

fn install(built: &Path, prefix: &Path) -> Result<(), String> {
    for (name, directory) in FILES {
        let directory = prefix.join(directory);
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        put(&built.join(name), &directory.join(name))?;
    }
    Ok(())
}

/// Puts a copy of a file in its place at once.
fn put(source: &Path, target: &Path) -> Result<(), String> {
    let new = target.with_extension(format!("new-{}", std::process::id()));
    let put = fs::copy(source, &new)
        .and_then(|_| fs::set_permissions(&new, Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&new, target));
    put.map_err(|error| {
        // What there is of it is of no use.
        let _ = fs::remove_file(&new);
        format!("cannot install {} as {}: {error}", source.display(), target.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_put_in_place_over_old_ones_and_nothing_else_is_left() {
        let top = std::env::temp_dir().join(format!("xtask-install-{}", std::process::id()));
        let (built, prefix) = (top.join("built"), top.join("deep/prefix"));
        fs::create_dir_all(&built).unwrap();
        for text in ["old", "new"] {
            FILES.iter().for_each(|(name, _)| fs::write(built.join(name), text).unwrap());
            install(&built, &prefix).unwrap();
        }
        for (name, directory) in FILES {
            let place = prefix.join(directory);
            assert_eq!(fs::read_to_string(place.join(name)).unwrap(), "new");
            assert_eq!(place.join(name).metadata().unwrap().permissions().mode() & 0o777, 0o755);
            assert_eq!(fs::read_dir(place).unwrap().count(), 1);
        }
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_prefix_that_cannot_be_made_is_named() {
        let reason = install(Path::new("/does/not/exist"), Path::new("/dev/null/x")).unwrap_err();
        assert!(reason.starts_with("cannot make /dev/null/x/bin: "), "{reason}");
    }
}
