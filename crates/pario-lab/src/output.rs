//! Output for the user. A file is whole or not there: what ends a write early, a full disk or
//! Ctrl-C, leaves the file of before. Directories of its path are made.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use pario::own_file;

use crate::failure::Failure;

/// Writes a file: a new one beside it, which then takes its name. A terminal, a pipe or a device is
/// written to as it is.
///
/// # Errors
/// `Run` with the file and the reason.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = match stream(path) {
        Some(stream) => stream.and_then(|mut file| file.write_all(bytes)),
        None => replace(path, |file| file.write_all(bytes)),
    };
    written.map_err(|error| Failure::of_output(path.display(), &error))
}

/// A file that is written in parts, and has its name when it is whole. A terminal, a pipe or a
/// device is written to as it is.
pub struct Growing {
    path: PathBuf,
    /// Where it is until then.
    new: Option<PathBuf>,
    writer: BufWriter<File>,
}

impl Growing {
    /// Begins the file.
    ///
    /// # Errors
    /// `Run` with the file and the reason.
    pub fn create(path: &Path) -> Result<Growing, Failure> {
        let begun = match stream(path) {
            Some(stream) => stream.map(|file| (path.to_owned(), None, file)),
            None => begin(path).map(|(path, new, file)| (path, Some(new), file)),
        };
        let (path, new, file) =
            begun.map_err(|error| Failure::of_output(path.display(), &error))?;
        Ok(Growing { path, new, writer: BufWriter::new(file) })
    }

    /// Adds a part.
    ///
    /// # Errors
    /// `Run` with the file and the reason.
    pub fn add(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.writer.write_all(text.as_bytes());
        written.map_err(|error| Failure::of_output(self.path.display(), &error))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// `Run` with the file and the reason; it is not there then.
    pub fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.writer.flush();
        let ended = flushed.and_then(|()| match &self.new {
            Some(new) => end(self.writer.get_ref(), new, &self.path),
            None => Ok(()),
        });
        ended.map_err(|error| Failure::of_output(self.path.display(), &error))
    }
}

impl Drop for Growing {
    /// Removes what did not become whole; otherwise it has another name.
    fn drop(&mut self) {
        let _ = self.new.as_ref().map(fs::remove_file);
    }
}

/// Refuses what cannot be written to as it is, before long work whose outcome would go there.
///
/// # Errors
/// As [`write()`].
pub fn check(path: &Path) -> Result<(), Failure> {
    let opened = stream(path).transpose();
    opened.map(drop).map_err(|error| Failure::of_output(path.display(), &error))
}

/// Prints on stdout, for people or as JSON for programs. People see no control characters of names.
///
/// # Errors
/// `Unread` if nobody reads it any more, `Run` with another reason.
pub fn print(text: &str, json: bool) -> Result<(), Failure> {
    let text = if json { Cow::Borrowed(text) } else { pario::escaped_lines(text) };
    let mut output = io::stdout().lock();
    let printed = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    printed.map_err(|error| Failure::of_output("printing results", &error))
}

/// What is there instead of a regular file, opened.
fn stream(path: &Path) -> Option<io::Result<File>> {
    let found = fs::metadata(path).ok().filter(|found| !found.is_file());
    found.map(|found| {
        let stream = own_file::open_stream_for_output(path)?;
        match found.file_type().is_fifo() {
            true => for_writing_only(&stream),
            false => Ok(stream),
        }
    })
}

/// The same pipe, opened for writing alone: who could read it as well never learns that nobody else
/// does, and would wait for room in it for ever.
fn for_writing_only(pipe: &File) -> io::Result<File> {
    File::options().write(true).open(format!("/proc/self/fd/{}", pipe.as_raw_fd()))
}

/// Replaces a regular file, or makes it; `fill` writes what it has.
fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let (path, new, mut file) = begin(path)?;
    let written = fill(&mut file).and_then(|()| end(&file, &new, &path));
    written.inspect_err(|_| {
        // What is left of it helps nobody; the error above is the one to report.
        let _ = fs::remove_file(&new);
    })
}

/// The place of a regular file, and a new one beside it, with its name.
fn begin(path: &Path) -> io::Result<(PathBuf, PathBuf, File)> {
    make_directory(path)?;
    // A link stays one: what it leads to is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let permissions = permissions(&path)?;
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let new = path.with_file_name(name);
    let file = File::create(&new)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    Ok((path, new, file))
}

/// Gives a new file its name.
fn end(file: &File, new: &Path, path: &Path) -> io::Result<()> {
    // Some file systems find out only now that there is no room.
    file.sync_all()?;
    fs::rename(new, path)
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
pub fn make_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.map_or(Ok(()), fs::create_dir_all)
}

/// A file of lines that are there as soon as they are added, each as a whole.
pub struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    /// Makes the file, without lines.
    pub fn new(path: PathBuf) -> Result<Lines, Failure> {
        let create = || make_directory(&path).and_then(|()| File::create(&path));
        let file = stream(&path).unwrap_or_else(create);
        let file = file.map_err(|error| Failure::during(path.display(), error))?;
        Ok(Lines { path, file })
    }

    /// Where the lines go.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line.
    ///
    /// # Errors
    /// `Run` with the file and the reason; nothing is left of the line then.
    pub fn add(&mut self, line: &str) -> Result<(), Failure> {
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

    #[test]
    fn a_growing_file_is_whole_or_not_there() {
        let directory = Directory::new("growing");
        let path = directory.0.join("made/for/it");
        let mut file = Growing::create(&path).unwrap();
        file.add("text").unwrap();
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        drop(Growing::create(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let link = directory.0.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        Growing::create(&link).unwrap().finish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        let device = Growing::create(Path::new("/dev/null")).unwrap();
        device.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
