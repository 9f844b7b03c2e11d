//! The direction of a transfer: the same word for requests, plans, storage and models.

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
