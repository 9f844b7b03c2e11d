//! Output for the user. A file is whole or not there: what ends a write early, a full disk or
//! Ctrl-C, leaves the file of before. Directories of its path are made.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Writes a file: a new one beside it, which then takes its name. A terminal, a pipe or a device is
/// written to as it is.
///
/// # Errors
/// `Run` with the file and the reason.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = match fs::metadata(path) {
        Ok(found) if !found.is_file() => fs::write(path, bytes),
        _ => replace(path, |file| file.write_all(bytes)),
    };
    written.map_err(|error| Failure::of_output(path.display(), &error))
}

/// Prints on stdout, for people or as JSON for programs. People see no control characters of names.
///
/// # Errors
/// `Unread` if nobody reads it any more, `Run` with another reason.
pub(crate) fn print(text: &str, json: bool) -> Result<(), Failure> {
    let text = if json { Cow::Borrowed(text) } else { pario::escaped_lines(text) };
    let mut output = io::stdout().lock();
    let printed = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    printed.map_err(|error| Failure::of_output("printing results", &error))
}

/// Replaces a regular file, or makes it; `fill` writes what it has.
fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    make_directory(path)?;
    // A link stays one: what it leads to is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let new = path.with_file_name(format!(".pario-{}.tmp", std::process::id()));
    let written = permissions(&path).and_then(|permissions| {
        let mut file = File::create(&new)?;
        permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
        fill(&mut file)?;
        // Some file systems find out only now that there is no room.
        file.sync_all()?;
        fs::rename(&new, &path)
    });
    written.inspect_err(|_| {
        // What is left of it helps nobody; the error above is the one to report.
        let _ = fs::remove_file(&new);
    })
}

/// Those of a file that is there, if it may be written to.
fn permissions(path: &Path) -> io::Result<Option<fs::Permissions>> {
    match File::options().write(true).open(path) {
        Ok(file) => Ok(Some(file.metadata()?.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the directory of a file.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.map_or(Ok(()), fs::create_dir_all)
}

/// A file of lines that are there as soon as they are added, each as a whole.
pub(crate) struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    /// Makes the file, without lines.
    pub(crate) fn new(path: PathBuf) -> Result<Lines, Failure> {
        let file = make_directory(&path).and_then(|()| File::create(&path));
        let file = file.map_err(|error| Failure::during(path.display(), error))?;
        Ok(Lines { path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line.
    ///
    /// # Errors
    /// `Run` with the file and the reason; nothing is left of the line then.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), Failure> {
        self.add_by(|file| file.write_all(line.as_bytes()))
    }

    fn add_by(&mut self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Failure> {
        let before = self.file.metadata().map(|data| data.len());
        let written = fill(&mut self.file);
        written.map_err(|error| {
            // A pipe has no length, and what went there is gone.
            let _ = before.and_then(|bytes| self.file.set_len(bytes));
            Failure::of_output(self.path.display(), &error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    /// A new directory that is removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path =
                std::env::temp_dir().join(format!("pario-output-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Directory(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// A disk that is full after some bytes.
    fn half(file: &mut File) -> io::Result<()> {
        file.write_all(b"half of the ne")?;
        Err(io::ErrorKind::StorageFull.into())
    }

    #[test]
    fn a_full_disk_leaves_the_file_of_before_and_nothing_else() {
        let directory = Directory::new("full");
        let path = directory.0.join("page.html");
        assert!(replace(&path, half).is_err());
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
        write(&path, b"old").unwrap();
        assert!(replace(&path, half).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
    }

    #[test]
    fn a_line_that_finds_no_room_leaves_those_before_it() {
        let directory = Directory::new("lines");
        let path = directory.0.join("made/for/it.jsonl");
        let mut lines = Lines::new(path.clone()).unwrap();
        lines.add("one\n").unwrap();
        assert!(lines.add_by(half).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    }

    #[test]
    fn a_new_file_keeps_links_and_permissions_and_gets_its_directories() {
        let directory = Directory::new("link");
        let (path, link) = (directory.0.join("made/for/it"), directory.0.join("link"));
        write(&path, b"old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// `calibrate --output /dev/null` must not make a file of the device.
    #[test]
    fn what_is_no_regular_file_is_written_to_as_it_is() {
        let (mut reader, writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
        write(&path, b"text").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }
}
