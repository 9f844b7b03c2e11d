//! The one error type of pario.
//!
//! Its class is the MPI error class (MPI-4.1, section 14.7); its text says what was done, in
//! which file, at which offset, on which rank, and what the user can do. An error can travel to
//! another rank as bytes, which is how all ranks of a collective come to report the same one.
//!
//! errno values appear here, and in drivers that must distinguish them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::escaped::{escaped, escaped_lines};

/// `Result` with pario's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure happened; the names are those of MPI's error classes.
///
/// The order is from the vaguest to the most specific: where several ranks of a collective fail
/// in different ways, all report the greatest class among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ErrorClass {
    /// A failure that has no class of its own.
    Other = 0,
    /// pario broke one of its own rules; please report it.
    Intern,
    /// An input or output error that has no class of its own.
    Io,
    /// A rank of the collective ended or panicked.
    PeerLost,
    /// An argument is invalid.
    Arg,
    /// A count is negative, too large or does not fit the buffer.
    Count,
    /// A datatype is invalid, or an offset or length computed from it overflows.
    Type,
    /// The access mode is invalid, or does not permit the call.
    Amode,
    /// The file handle is invalid or closed.
    File,
    /// A hint has a value that cannot be used.
    InfoValue,
    /// A collective argument differs between the ranks.
    NotSame,
    /// The operation is not supported on this file.
    UnsupportedOperation,
    /// The data representation is unknown.
    UnsupportedDatarep,
    /// The data representation is registered already.
    DupDatarep,
    /// A conversion between data representations failed.
    Conversion,
    /// The call is not allowed while another one is active on the file.
    RequestActive,
    /// Memory is exhausted.
    NoMemory,
    /// The file name is invalid.
    BadFile,
    /// The file is in use.
    FileInUse,
    /// The file exists already.
    FileExists,
    /// The file does not exist.
    NoSuchFile,
    /// Permission denied.
    Access,
    /// The file or its file system is read-only.
    ReadOnly,
    /// The quota is exceeded.
    Quota,
    /// The disk is full.
    NoSpace,
}

impl ErrorClass {
    const ALL: [ErrorClass; 25] = {
        use ErrorClass::*;
        [
            Other,
            Intern,
            Io,
            PeerLost,
            Arg,
            Count,
            Type,
            Amode,
            File,
            InfoValue,
            NotSame,
            UnsupportedOperation,
            UnsupportedDatarep,
            DupDatarep,
            Conversion,
            RequestActive,
            NoMemory,
            BadFile,
            FileInUse,
            FileExists,
            NoSuchFile,
            Access,
            ReadOnly,
            Quota,
            NoSpace,
        ]
    };

    /// For messages between ranks.
    #[doc(hidden)]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The class of a number that another rank sent.
    #[doc(hidden)]
    pub fn of_number(number: u8) -> ErrorClass {
        ErrorClass::ALL.get(usize::from(number)).copied().unwrap_or(ErrorClass::Other)
    }

    /// The class of a failed system call.
    pub fn from_errno(errno: i32) -> ErrorClass {
        match errno {
            libc::ENOSPC | libc::EFBIG => ErrorClass::NoSpace,
            libc::EDQUOT => ErrorClass::Quota,
            libc::EROFS => ErrorClass::ReadOnly,
            libc::EACCES | libc::EPERM => ErrorClass::Access,
            libc::ENOENT => ErrorClass::NoSuchFile,
            libc::EEXIST => ErrorClass::FileExists,
            libc::ETXTBSY | libc::EBUSY => ErrorClass::FileInUse,
            libc::EISDIR | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP => ErrorClass::BadFile,
            libc::ENOMEM => ErrorClass::NoMemory,
            libc::EOPNOTSUPP | libc::ENOSYS => ErrorClass::UnsupportedOperation,
            _ => ErrorClass::Io,
        }
    }
}

/// A failure, with the place where it happened.
///
/// ```
/// use pario::{Error, ErrorClass};
/// let error = Error::new(ErrorClass::NoSpace, "write: no space left").at_offset(4096).on_rank(3);
/// assert_eq!(error.class(), ErrorClass::NoSpace);
/// assert_eq!(error.to_string(), "write: no space left (offset 4096, rank 3)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    // Boxed, so that a `Result` stays as small as a pointer on the paths that do not fail.
    detail: Box<Detail>,
}

#[derive(Clone, Debug)]
struct Detail {
    class: ErrorClass,
    text: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    rank: Option<u32>,
    moved: u64,
    /// The failure below this one, where it happened in this process.
    source: Option<Arc<std::io::Error>>,
}

impl Detail {
    /// What another rank can know of it.
    fn shared(&self) -> impl PartialEq + '_ {
        (self.class, &self.text, &self.file, self.offset, self.rank, self.moved)
    }
}

impl PartialEq for Detail {
    fn eq(&self, other: &Detail) -> bool {
        self.shared() == other.shared()
    }
}

impl Eq for Detail {}

impl Error {
    /// An error of a class, with a text that says what failed and what to do about it.
    pub fn new(class: ErrorClass, text: impl Into<String>) -> Error {
        let text = text.into();
        let (file, offset, rank, moved, source) = (None, None, None, 0, None);
        Error { detail: Box::new(Detail { class, text, file, offset, rank, moved, source }) }
    }

    /// The error of a failed system call; `operation` says what was attempted.
    pub fn from_errno(operation: &str, errno: i32) -> Error {
        let reason = std::io::Error::from_raw_os_error(errno);
        let text = format!("{operation}: {reason}");
        let mut error = Error::new(ErrorClass::from_errno(errno), text);
        error.detail.source = Some(Arc::new(reason));
        error
    }

    /// The error of a failed operation of the standard library.
    pub fn from_io(operation: &str, error: &std::io::Error) -> Error {
        match error.raw_os_error() {
            Some(errno) => Error::from_errno(operation, errno),
            None => Error::new(ErrorClass::Io, format!("{operation}: {error}")),
        }
    }

    /// Adds the file's name, unless one is known already.
    pub fn in_file(mut self, path: impl AsRef<Path>) -> Error {
        self.detail.file.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// Adds the offset in the file, unless one is known already.
    pub fn at_offset(mut self, offset: u64) -> Error {
        self.detail.offset.get_or_insert(offset);
        self
    }

    /// Adds the rank on which it happened, unless one is known already.
    pub fn on_rank(mut self, rank: u32) -> Error {
        self.detail.rank.get_or_insert(rank);
        self
    }

    /// Adds how many bytes of the failed operation did reach their place.
    pub fn after_moving(mut self, bytes: u64) -> Error {
        self.detail.moved = bytes;
        self
    }

    /// What the standard library calls such a failure: by the system's error where there is one.
    fn kind(&self) -> std::io::ErrorKind {
        use std::io::ErrorKind;
        if let Some(source) = &self.detail.source {
            return source.kind();
        }
        match self.class() {
            ErrorClass::NoSpace => ErrorKind::StorageFull,
            ErrorClass::Quota => ErrorKind::QuotaExceeded,
            ErrorClass::NoSuchFile => ErrorKind::NotFound,
            ErrorClass::FileExists => ErrorKind::AlreadyExists,
            ErrorClass::Access => ErrorKind::PermissionDenied,
            ErrorClass::ReadOnly => ErrorKind::ReadOnlyFilesystem,
            ErrorClass::NoMemory => ErrorKind::OutOfMemory,
            ErrorClass::Arg
            | ErrorClass::Count
            | ErrorClass::Type
            | ErrorClass::Amode
            | ErrorClass::InfoValue => ErrorKind::InvalidInput,
            ErrorClass::UnsupportedOperation | ErrorClass::UnsupportedDatarep => {
                ErrorKind::Unsupported
            }
            _ => ErrorKind::Other,
        }
    }

    /// The class of this error.
    pub fn class(&self) -> ErrorClass {
        self.detail.class
    }

    /// What happened, without the place where it did.
    pub fn text(&self) -> &str {
        &self.detail.text
    }

    /// The rank on which it happened, where known.
    pub fn rank(&self) -> Option<u32> {
        self.detail.rank
    }

    /// The offset in the file, where known.
    pub fn offset(&self) -> Option<u64> {
        self.detail.offset
    }

    /// The file, where known.
    pub fn file(&self) -> Option<&Path> {
        self.detail.file.as_deref()
    }

    /// How many bytes did reach their place before the failure.
    pub fn moved(&self) -> u64 {
        self.detail.moved
    }

    /// The error as bytes for another rank; see [`Error::from_wire`].
    pub(crate) fn to_wire(&self) -> Vec<u8> {
        const TEXT_MAX: usize = 1024;
        let detail = &self.detail;
        let mut text = detail.text.clone();
        let end = (0..=text.len().min(TEXT_MAX)).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        let mut wire = vec![detail.class as u8];
        wire.extend(detail.offset.unwrap_or(u64::MAX).to_le_bytes());
        wire.extend(detail.rank.unwrap_or(u32::MAX).to_le_bytes());
        wire.extend(text.into_bytes());
        wire
    }

    /// The error that another rank turned into bytes.
    pub(crate) fn from_wire(wire: &[u8]) -> Error {
        let parts = wire.split_first_chunk::<13>();
        let Some((head, text)) = parts else {
            return Error::new(ErrorClass::Intern, "a rank sent a malformed error");
        };
        let [class, offset @ .., a, b, c, d] = *head;
        let mut error = Error::new(ErrorClass::of_number(class), String::from_utf8_lossy(text));
        error.detail.offset = Some(u64::from_le_bytes(offset)).filter(|&offset| offset != u64::MAX);
        error.detail.rank = Some(u32::from_le_bytes([a, b, c, d])).filter(|&rank| rank != u32::MAX);
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = &self.detail;
        let places = [
            detail
                .file
                .as_ref()
                .map(|file| format!("file {}", escaped(&file.display().to_string()))),
            detail.offset.map(|offset| format!("offset {offset}")),
            detail.rank.map(|rank| format!("rank {rank}")),
        ];
        let places: Vec<String> = places.into_iter().flatten().collect();
        let text = escaped_lines(&detail.text);
        match places.is_empty() {
            true => write!(formatter, "{text}"),
            false => write!(formatter, "{text} ({})", places.join(", ")),
        }
    }
}

impl std::error::Error for Error {
    /// The system's error, where this one came from it on this rank.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.detail.source.as_deref()?;
        Some(source)
    }
}

/// So that `?` works in functions that return [`std::io::Result`]. The [`Error`] is the inner
/// error: `downcast` gives it back.
///
/// ```
/// use pario::{File, Solo};
/// fn length(path: &str) -> std::io::Result<u64> {
///     let file = File::options().read(true).open(&*Solo::new(), path)?;
///     let bytes = file.size()?;
///     file.close()?;
///     Ok(bytes)
/// }
/// let error = length("memory:missing").unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// assert_eq!(error.downcast::<pario::Error>()?.class(), pario::ErrorClass::NoSuchFile);
/// # Ok::<(), std::io::Error>(())
/// ```
impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        std::io::Error::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_as_numbered() {
        for (index, class) in ErrorClass::ALL.iter().enumerate() {
            assert_eq!(index, *class as usize);
        }
        assert_eq!(ErrorClass::ALL.last(), Some(&ErrorClass::NoSpace));
    }

    #[test]
    fn full_disk_and_quota_have_their_own_class() {
        assert_eq!(ErrorClass::from_errno(libc::ENOSPC), ErrorClass::NoSpace);
        assert_eq!(ErrorClass::from_errno(libc::EDQUOT), ErrorClass::Quota);
        assert_eq!(ErrorClass::from_errno(libc::EIO), ErrorClass::Io);
    }

    #[test]
    fn the_error_of_the_system_is_the_source() {
        use std::error::Error as _;
        let error = Error::from_errno("write", libc::ENOSPC);
        let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(source.and_then(std::io::Error::raw_os_error), Some(libc::ENOSPC));
        assert!(Error::new(ErrorClass::Arg, "wrong").source().is_none());
    }

    #[test]
    fn an_error_of_the_standard_library_has_its_kind_and_gives_the_error_back() {
        use std::io::ErrorKind;
        let of = |class| std::io::Error::from(Error::new(class, "x")).kind();
        let kinds = [
            (ErrorClass::NoSpace, ErrorKind::StorageFull),
            (ErrorClass::Quota, ErrorKind::QuotaExceeded),
            (ErrorClass::NoSuchFile, ErrorKind::NotFound),
            (ErrorClass::FileExists, ErrorKind::AlreadyExists),
            (ErrorClass::Access, ErrorKind::PermissionDenied),
            (ErrorClass::ReadOnly, ErrorKind::ReadOnlyFilesystem),
            (ErrorClass::NoMemory, ErrorKind::OutOfMemory),
            (ErrorClass::Type, ErrorKind::InvalidInput),
            (ErrorClass::UnsupportedDatarep, ErrorKind::Unsupported),
            (ErrorClass::NotSame, ErrorKind::Other),
        ];
        kinds.iter().for_each(|&(class, kind)| assert_eq!(of(class), kind, "{class:?}"));
        // The system's error says more than the class.
        let error = Error::from_errno("write", libc::EFBIG).at_offset(7);
        let other = std::io::Error::from(error.clone());
        assert_eq!((error.class(), other.kind()), (ErrorClass::NoSpace, ErrorKind::FileTooLarge));
        assert_eq!(other.to_string(), error.to_string());
        assert_eq!(other.downcast::<Error>().unwrap(), error);
    }

    #[test]
    fn names_in_errors_send_no_control_characters_to_a_terminal() {
        let error = Error::new(ErrorClass::Io, "open \u{1b}[31m").in_file("a\u{1b}[2J\n.dat");
        let text = error.to_string();
        assert_eq!(text, "open \\u{1b}[31m (file a\\u{1b}[2J\\n.dat)");
    }

    #[test]
    fn an_error_survives_the_wire() {
        let error = Error::from_errno("write", libc::EDQUOT).at_offset(7).on_rank(2);
        assert_eq!(Error::from_wire(&error.to_wire()), error);
        let bare = Error::new(ErrorClass::Io, "ä".repeat(1000));
        assert_eq!(Error::from_wire(&bare.to_wire()).class(), ErrorClass::Io);
        assert_eq!(Error::from_wire(&[1, 2]).class(), ErrorClass::Intern);
    }
}
