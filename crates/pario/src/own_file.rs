//! Files that pario opens for itself: hint files, profiles, statistics, and what the command line
//! program reads and writes.
//!
//! The environment names most of them, and nobody may wait for a slip in it. So an open never
//! blocks, and what it finds must be a regular file. Where a stream makes sense, it may also be a
//! terminal, `/dev/null`, or a pipe that the process was started with, such as `/dev/stderr` or a
//! process substitution of the shell. A FIFO is refused everywhere: whether somebody is at its
//! other end, only time tells.
//!
//! Statistics are appended to an empty file, or to one that begins as a recording does, and never
//! to a file that the process has open as data. An empty file that only another process has open as
//! data takes them: to ask all others costs more than the slip.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstatfs};

use crate::storage::data_files;

/// What a file may be besides a regular one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Streams {
    /// Nothing else.
    Refused,
    /// A terminal or another device of characters, or a pipe that the process was started with.
    Accepted,
}

/// Opens a file for reading. This does not wait for anybody.
///
/// # Errors
/// What the system says, or what the file is instead of a regular one.
///
/// ```
/// use pario::own_file::{Streams, open};
/// use std::path::Path;
///
/// assert!(open(Path::new("/dev/null"), Streams::Accepted).is_ok());
/// let refused = open(Path::new("/dev/null"), Streams::Refused).unwrap_err();
/// assert_eq!(refused.to_string(), "not a regular file but a device");
/// ```
pub fn open(path: &Path, streams: Streams) -> io::Result<File> {
    checked(OpenOptions::new().read(true), path, streams)
}

/// The text of a small regular file.
///
/// # Errors
/// As [`open`], and where the file has more than `bytes_max` bytes.
pub fn read_small(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut contents = Vec::new();
    let file = open(path, Streams::Refused)?;
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut contents)?;
    match u64::try_from(contents.len()).is_ok_and(|len| len <= bytes_max) {
        true => Ok(String::from_utf8_lossy(&contents).into_owned()),
        false => Err(refused(format!("longer than {bytes_max} bytes"))),
    }
}

/// Opens a file that statistics are appended to; makes it if there is none.
///
/// # Errors
/// As [`open`], and where the file holds something else than statistics.
pub fn open_for_statistics(path: &Path) -> io::Result<File> {
    // Reading is for the first bytes. It also keeps the open of a FIFO from failing in another way.
    let mut options = OpenOptions::new();
    let file = checked(options.read(true).append(true).create(true), path, Streams::Accepted)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        // See `append`.
        fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
        return Ok(file);
    }
    if data_files::is_open(&metadata) {
        return Err(refused("the program has this file open as data"));
    }
    match is_output(path) || begins_as_recording(&file)? {
        true => Ok(file),
        false => Err(refused("the file has other contents than statistics")),
    }
}

/// Appends to what [`open_for_statistics`] has opened. The reader of a pipe may be gone, which a
/// process does not see that can read the pipe itself, as this one can. So a full pipe is waited
/// for while somebody reads it, and some seconds more.
///
/// # Errors
/// `TimedOut` if nobody reads a full pipe, and what the system says.
pub fn append(file: &File, bytes: &[u8]) -> io::Result<()> {
    append_patiently(file, bytes, 1000)
}

/// Gives up when a pipe stays full for this number of looks, 10 ms apart.
fn append_patiently(mut file: &File, mut bytes: &[u8], looks: u32) -> io::Result<()> {
    let mut full = 0;
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => (bytes, full) = (&bytes[written..], 0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && full < looks => {
                full += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(io::Error::new(ErrorKind::TimedOut, "nobody reads this pipe"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a file is empty, or begins as `pario run --stats` or the first close of a file has it.
fn begins_as_recording(file: &File) -> io::Result<bool> {
    const BEGINS: [&[u8]; 2] = [b"{\"kind\":\"run\"", b"{\"kind\":\"statistics\""];
    let mut found = Vec::new();
    // This moves the position of the file, which appending does not look at.
    file.take(32).read_to_end(&mut found)?;
    Ok(found.is_empty() || BEGINS.iter().any(|begin| found.starts_with(begin)))
}

/// Opens what is there instead of a regular file to write to it: a terminal, a device, or a pipe
/// that the process was started with.
///
/// # Errors
/// As [`open`].
pub fn open_stream_for_output(path: &Path) -> io::Result<File> {
    // Reading keeps the open of a FIFO from failing in another way.
    checked(OpenOptions::new().read(true).write(true), path, Streams::Accepted)
}

/// As [`open_for_statistics`]; earlier statistics in the file go away.
///
/// # Errors
/// As [`open_for_statistics`].
pub fn begin_statistics(path: &Path) -> io::Result<File> {
    let file = open_for_statistics(path)?;
    if file.metadata()?.is_file() && !is_output(path) {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Whether a name is that of the process's output. This may be a regular file, and then has what
/// the program printed.
fn is_output(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|top| path.starts_with(top))
}

/// Opens a file without waiting, and looks at what it is.
fn checked(options: &mut OpenOptions, path: &Path, streams: Streams) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(file);
    }
    let is_stream = metadata.file_type().is_char_device() || is_own_pipe(&file, &metadata);
    if streams == Streams::Refused || !is_stream {
        return Err(refused(format!("not a regular file but {}", kind(&metadata))));
    }
    // From here on it is as if the process had been given the stream: a full pipe is waited for.
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Whether a file is a pipe without a name, which only processes that share it can have.
fn is_own_pipe(file: &File, metadata: &Metadata) -> bool {
    /// What statfs(2) says of such pipes.
    const PIPEFS_MAGIC: u32 = 0x5049_5045;
    let in_pipefs = || fstatfs(file).is_ok_and(|system| system.f_type == PIPEFS_MAGIC.into());
    metadata.file_type().is_fifo() && in_pipefs()
}

fn kind(metadata: &Metadata) -> &'static str {
    match FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(metadata)) {
        FileType::Fifo => "a pipe or FIFO",
        FileType::Directory => "a directory",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Socket => "a socket",
        _ => "something else",
    }
}

fn refused(reason: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_pipe_is_waited_for_only_while_somebody_reads_it() {
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", writer.as_raw_fd());
        let statistics = open_for_statistics(Path::new(&path)).unwrap();
        drop(writer);
        let long = vec![b'a'; 1 << 20];
        let read = std::thread::spawn(move || {
            let mut found = vec![0; 1 << 20];
            reader.read_exact(&mut found).map(|()| (reader, found))
        });
        append(&statistics, &long).unwrap();
        let (reader, found) = read.join().unwrap().unwrap();
        assert_eq!(found, long);
        drop(reader);
        let error = append_patiently(&statistics, &long, 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
