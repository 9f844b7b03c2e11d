//! Why a call takes time: the reasons that the model knows.

use std::fmt;

use super::Part;

/// One reason why a call takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Requests are planned.
    Planning,
    /// Ranks wait for each other.
    Barriers,
    /// Sleeping ranks are woken.
    Waking,
    /// Pieces are copied between users' memory and windows, or a sieving buffer.
    PiecesCopied,
    /// Pieces are packed for messages.
    PiecesPacked,
    /// Windows are assembled from what was packed.
    WindowsAssembled,
    /// Ranks wait for windows in shared memory.
    WaitForWindows,
    /// Windows are handed over to ranks that serve them.
    WindowsHandedOver,
    /// Ranks wait for each other in every round.
    WaitForRounds,
    /// Messages, by their number; in phases also those between nodes.
    Messages,
    /// Bytes in messages on a node.
    BytesOnNode,
    /// Messages between nodes, by their number.
    MessagesBetweenNodes,
    /// Bytes in messages between nodes.
    BytesBetweenNodes,
    /// Calls of storage, by their number.
    StorageCalls,
    /// Bytes that storage moves.
    StorageBytes,
    /// Calls that read what is between pieces, before it is written back.
    ReadFirstCalls,
    /// Bytes that they read.
    ReadFirstBytes,
    /// A device positions.
    Positioning,
    /// Range locks.
    Locks,
}

impl Cause {
    /// The part of the time that it belongs to.
    pub fn part(self) -> Part {
        match self {
            Cause::Planning => Part::Planning,
            Cause::Barriers | Cause::Waking => Part::Synchronisation,
            Cause::PiecesCopied
            | Cause::PiecesPacked
            | Cause::WindowsAssembled
            | Cause::WaitForWindows
            | Cause::WindowsHandedOver
            | Cause::WaitForRounds
            | Cause::Messages
            | Cause::BytesOnNode
            | Cause::MessagesBetweenNodes
            | Cause::BytesBetweenNodes => Part::Exchange,
            Cause::StorageCalls
            | Cause::StorageBytes
            | Cause::ReadFirstCalls
            | Cause::ReadFirstBytes
            | Cause::Positioning
            | Cause::Locks => Part::Storage,
        }
    }

    /// Whether storage takes the time for bytes, and not for the number of its calls.
    pub fn is_of_bytes(self) -> bool {
        matches!(self, Cause::StorageBytes | Cause::ReadFirstBytes)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Planning => "requests are planned",
            Cause::Barriers => "ranks wait for each other",
            Cause::Waking => "sleeping ranks are woken",
            Cause::PiecesCopied => "pieces are copied",
            Cause::PiecesPacked => "pieces are packed",
            Cause::WindowsAssembled => "windows are assembled",
            Cause::WaitForWindows => "ranks wait for windows",
            Cause::WindowsHandedOver => "windows are handed over",
            Cause::WaitForRounds => "ranks wait for rounds",
            Cause::Messages => "messages",
            Cause::BytesOnNode => "bytes on a node",
            Cause::MessagesBetweenNodes => "messages between nodes",
            Cause::BytesBetweenNodes => "bytes between nodes",
            Cause::StorageCalls => "storage calls",
            Cause::StorageBytes => "bytes",
            Cause::ReadFirstCalls => "calls that read first",
            Cause::ReadFirstBytes => "bytes that are read first",
            Cause::Positioning => "the device positions",
            Cause::Locks => "locks",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
