//! Step 1 of a call: what was asked, checked.

use std::fmt;

use crate::access::Access;
use crate::direction::Direction;
use crate::error::{Error, ErrorClass, Result};
use crate::view::CompiledView;

/// How a file is opened: MPI's access mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessMode {
    /// Reading is allowed.
    pub read: bool,
    /// Writing is allowed.
    pub write: bool,
    /// The file is created if it does not exist.
    pub create: bool,
    /// With `create`: it is an error if the file exists.
    pub exclusive: bool,
    /// All file pointers begin at the end of the file.
    pub append: bool,
    /// The file is accessed by the shared file pointer only.
    pub sequential: bool,
    /// The file is deleted when it is closed.
    pub delete_on_close: bool,
    /// Nobody else opens the file meanwhile.
    pub unique_open: bool,
}

impl AccessMode {
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = match self {
            mode if !mode.read && !mode.write => "neither read nor write is set",
            mode if mode.create && !mode.write => "create needs write",
            mode if mode.exclusive && !mode.create => "exclusive needs create",
            mode if mode.sequential && mode.read && mode.write => {
                "a sequential file is either read or written"
            }
            _ => return Ok(()),
        };
        Err(Error::new(ErrorClass::Amode, format!("open: {wrong}")))
    }

    /// The mode as a number, to compare it between ranks.
    pub(crate) fn bits(&self) -> u64 {
        self.flags().iter().fold(0, |bits, &(_, flag)| bits << 1 | u64::from(flag))
    }

    fn flags(&self) -> [(&'static str, bool); 8] {
        [
            ("read", self.read),
            ("write", self.write),
            ("create", self.create),
            ("exclusive", self.exclusive),
            ("append", self.append),
            ("sequential", self.sequential),
            ("delete_on_close", self.delete_on_close),
            ("unique_open", self.unique_open),
        ]
    }
}

impl fmt::Display for AccessMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.flags().into_iter().filter(|(_, set)| *set).map(|(name, _)| name);
        formatter.pad(&names.collect::<Vec<_>>().join(" "))
    }
}

/// Where in the file a call begins.
///
/// Every read and write takes one; a plain number is [`Position::At`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// At a position in the view, counted in etypes; no pointer moves.
    At(u64),
    /// At this rank's own file pointer, which then moves on.
    Individual,
    /// At the file pointer that all ranks share, which then moves on, by as many etypes of its own
    /// as the rank moves. Collective calls take their places in the order of the ranks.
    Shared,
}

impl From<u64> for Position {
    fn from(position: u64) -> Position {
        Position::At(position)
    }
}

/// The kind of a data access call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) direction: Direction,
    pub(crate) collective: bool,
    pub(crate) name: &'static str,
}

impl Kind {
    pub(crate) const READ: Kind = Kind::new(Direction::Read, false, "read");
    pub(crate) const WRITE: Kind = Kind::new(Direction::Write, false, "write");
    pub(crate) const READ_ALL: Kind = Kind::new(Direction::Read, true, "read_all");
    pub(crate) const WRITE_ALL: Kind = Kind::new(Direction::Write, true, "write_all");

    const fn new(direction: Direction, collective: bool, name: &'static str) -> Kind {
        Kind { direction, collective, name }
    }

    /// Whether the access mode allows this call at this position.
    pub(crate) fn is_allowed(&self, mode: &AccessMode, position: Position) -> bool {
        let direction = match self.direction {
            Direction::Write => mode.write,
            Direction::Read => mode.read,
        };
        direction && (!mode.sequential || position == Position::Shared)
    }

    /// Checks that the access mode allows this call at this position.
    pub(crate) fn check(&self, mode: &AccessMode, position: Position) -> Result<()> {
        let name = self.name;
        let refused = match self.direction {
            Direction::Write if !mode.write => {
                (ErrorClass::ReadOnly, format!("{name}: the file was opened for reading only"))
            }
            Direction::Read if !mode.read => {
                (ErrorClass::Access, format!("{name}: the file was opened for writing only"))
            }
            _ if mode.sequential && position != Position::Shared => (
                ErrorClass::UnsupportedOperation,
                format!("{name}: a sequential file has a shared file pointer only"),
            ),
            _ => return Ok(()),
        };
        Err(Error::new(refused.0, refused.1))
    }
}

/// Number of etypes in `len` bytes of data.
pub(crate) fn etypes(view: &CompiledView, len: u64) -> Result<u64> {
    let etype = view.etype_bytes;
    if len > 0 && view.filetype_bytes == 0 {
        let text = "the view shows no bytes of the file, so that nothing can be read or written";
        return Err(Error::new(ErrorClass::Arg, text));
    }
    match len % etype {
        0 => Ok(len / etype),
        _ => {
            let text = format!("{len} bytes are not a whole number of etypes of {etype} bytes");
            Err(Error::new(ErrorClass::Count, text))
        }
    }
}

/// The access of `len` bytes from an etype position on.
pub(crate) fn access(view: &CompiledView, position: u64, len: u64) -> Result<Access> {
    let start = position.checked_mul(view.etype_bytes).ok_or_else(|| {
        let text = format!("position {position} lies beyond 2^63 bytes");
        Error::new(ErrorClass::Type, text)
    })?;
    Access::new(&view.layout, start, len)
}
