//! Step 1 of a call: what was asked, checked.

use crate::access::Access;
use crate::error::{Error, ErrorClass, Result};
use crate::file::AccessMode;
use crate::view::CompiledView;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From storage to memory.
    Read,
    /// From memory to storage.
    Write,
}

impl Direction {
    /// `read` or `write`.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
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
