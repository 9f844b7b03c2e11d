//! Where the drop-in library is.

use std::io::Read;
use std::path::{Path, PathBuf};

use pario::own_file::{self, Streams};

use pario_lab::failure::Failure;

const NAME: &str = "libpario_mpi.so";

/// The library: as given, or beside this program, or where an installation has it.
///
/// # Errors
/// `Run` if there is none, or it cannot be loaded.
pub(crate) fn find(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = match given {
        Some(path) => path.to_owned(),
        None => {
            let program = std::env::current_exe();
            let program = program.map_err(|error| Failure::during("this program's path", error))?;
            beside(&program)?
        }
    };
    let shown = found.display().to_string();
    // A rank may have another working directory.
    let found = found.canonicalize().map_err(|error| Failure::during(&shown, error))?;
    check_path(&found)
        .and_then(|()| check_kind(&found))
        .map_err(|reason| Failure::Run(format!("{shown} cannot be loaded: {reason}")))?;
    Ok(found)
}

/// The library of the build or installation that a program belongs to.
fn beside(program: &Path) -> Result<PathBuf, Failure> {
    let directory = program.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(NAME), directory.with_file_name("lib").join(NAME)];
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        return Ok(found.clone());
    }
    let [first, second] = places.map(|place| place.display().to_string());
    Err(Failure::Run(format!(
        "there is no {NAME}; looked for\n  {first}\n  {second}\n\
         `cargo build --release` at the top of the sources makes the first, \
         `cargo xtask install --prefix DIR`\ninstalls both program and library; \
         --library PATH names another"
    )))
}

/// The loader takes a list of paths between colons or blanks.
fn check_path(path: &Path) -> Result<(), String> {
    match path.as_os_str().as_encoded_bytes().iter().any(|byte| b": \t\n".contains(byte)) {
        true => Err("its path contains a colon or a blank".to_owned()),
        false => Ok(()),
    }
}

/// The library must be a shared object for the same kind of machine as this program.
fn check_kind(path: &Path) -> Result<(), String> {
    let library = Kind::of(path)?;
    let this = Kind::of(Path::new("/proc/self/exe"))?;
    match library == this {
        true => Ok(()),
        false => Err("it is for another kind of machine than this program".to_owned()),
    }
}

/// What the first bytes of a shared object say.
#[derive(PartialEq, Eq)]
struct Kind {
    class: u8,
    order: u8,
    machine: [u8; 2],
}

impl Kind {
    fn of(path: &Path) -> Result<Kind, String> {
        let mut head = [0; 20];
        let file = own_file::open(path, Streams::Refused);
        let read = file.and_then(|mut file| file.read_exact(&mut head));
        match read {
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                Err(error.to_string())
            }
            Ok(()) => Kind::read(&head).ok_or_else(|| "it is not a shared object".to_owned()),
            Err(_) => Err("it is not a shared object".to_owned()),
        }
    }

    /// Reads the head of an ELF file whose type is that of shared objects.
    fn read(head: &[u8; 20]) -> Option<Kind> {
        const SHARED_OBJECT: u8 = 3;
        let shared = head[16..18].contains(&SHARED_OBJECT);
        let kind = Kind { class: head[4], order: head[5], machine: [head[18], head[19]] };
        (head.starts_with(b"\x7fELF") && shared).then_some(kind)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_library_beside_the_program_comes_before_the_installed_one() {
        let top = std::env::temp_dir().join(format!("pario-library-{}", std::process::id()));
        let (bin, lib) = (top.join("bin"), top.join("lib"));
        for directory in [&bin, &lib] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let program = bin.join("pario");
        let Err(Failure::Run(text)) = beside(&program) else { panic!("there is no library") };
        for part in [bin.join(NAME).display().to_string(), lib.join(NAME).display().to_string()] {
            assert!(text.contains(&part), "{text}");
        }
        std::fs::write(lib.join(NAME), "").unwrap();
        assert_eq!(beside(&program).unwrap(), lib.join(NAME));
        std::fs::write(bin.join(NAME), "").unwrap();
        assert_eq!(beside(&program).unwrap(), bin.join(NAME));
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn only_shared_objects_for_this_machine_are_preloaded() {
        let this = Path::new("/proc/self/exe");
        assert!(check_kind(this).is_ok());
        assert!(check_kind(Path::new("/proc/self/status")).is_err());
        assert!(check_kind(Path::new("/dev/null")).is_err());
        assert!(check_kind(Path::new("/does/not/exist")).is_err());
        let mut head = [0; 20];
        File::open(this).unwrap().read_exact(&mut head).unwrap();
        head[16..18].fill(0);
        assert!(Kind::read(&head).is_none());
        assert!(check_path(Path::new("/a/b.so")).is_ok());
        assert!(check_path(Path::new("/a:b/c.so")).is_err());
        assert!(check_path(Path::new("/a b/c.so")).is_err());
    }
}
