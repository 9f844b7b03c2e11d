//! The environment variables of the drop-in, read once.
//!
//! A process with more rights than its user reads none of them.
//!
//! | variable | effect |
//! | --- | --- |
//! | `PARIO_DISABLE=1` | calls are passed on to the MPI library's own MPI-IO |
//! | `PARIO_MPI_COUNT=1` | each rank says at its end how many calls pario served |
//! | `PARIO_MPI_LIBRARY` | the MPI library that a program built without MPI loads |
//! | `PARIO_NODE_MEMORY` | whether ranks of one node share memory: [`NodeMemory`] |
//!
//! `PARIO_HINTS`, `PARIO_STATS` and those of ROMIO and Cray are read with the hints of each file,
//! by
//! `pario`.

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

/// The value of a variable, unless it is empty.
pub(crate) fn value(name: &str) -> Option<OsString> {
    // SAFETY: the function only looks at what the kernel gave the process.
    let privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var_os(name).filter(|value| !privileged && !value.is_empty())
}

fn is_set(name: &str) -> bool {
    value(name).is_some_and(|value| value != "0")
}

/// Whether calls are passed on to the MPI library's own MPI-IO (`PARIO_DISABLE=1`).
pub(crate) fn is_disabled() -> bool {
    static DISABLED: OnceLock<bool> = OnceLock::new();
    *DISABLED.get_or_init(|| is_set("PARIO_DISABLE"))
}

/// Whether each rank says at its end how many calls pario served (`PARIO_MPI_COUNT=1`).
pub(crate) fn tells_count() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| is_set("PARIO_MPI_COUNT"))
}

/// Whether statistics of files are wanted: by `PARIO_STATS`, or else by a variable of Cray's.
pub(crate) fn wants_statistics() -> bool {
    let cray = ["MPICH_MPIIO_STATS", "MPICH_MPIIO_TIMERS"];
    match value("PARIO_STATS") {
        Some(level) => level != "0",
        None => cray.into_iter().any(is_set),
    }
}

/// Whether ranks of one node share memory, the least first. The least that any rank of a
/// communicator has is used by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeMemory {
    /// Messages go through MPI (`none`).
    None,
    /// Messages and windows go through memory that the ranks share (`segment`).
    Segment,
}

impl NodeMemory {
    const ALL: [NodeMemory; 2] = [NodeMemory::None, NodeMemory::Segment];

    fn parse(value: &OsStr) -> Option<NodeMemory> {
        match value.to_str()? {
            "none" => Some(NodeMemory::None),
            "segment" => Some(NodeMemory::Segment),
            _ => None,
        }
    }

    /// A number for it; more use has a higher one.
    pub(crate) fn level(self) -> u8 {
        match self {
            NodeMemory::None => 0,
            NodeMemory::Segment => 1,
        }
    }

    /// What has a number.
    pub(crate) fn of_level(level: Option<u32>) -> NodeMemory {
        let has = |memory: &NodeMemory| Some(u32::from(memory.level())) == level;
        NodeMemory::ALL.into_iter().find(has).unwrap_or(NodeMemory::None)
    }
}

/// Whether ranks of one node share memory (`PARIO_NODE_MEMORY`), and the value that was
/// ignored because it means nothing.
pub(crate) fn node_memory() -> (NodeMemory, Option<&'static OsStr>) {
    static MEMORY: OnceLock<(NodeMemory, Option<OsString>)> = OnceLock::new();
    let (memory, ignored) = MEMORY.get_or_init(|| match value("PARIO_NODE_MEMORY") {
        None => (NodeMemory::Segment, None),
        Some(value) => match NodeMemory::parse(&value) {
            Some(memory) => (memory, None),
            None => (NodeMemory::Segment, Some(value)),
        },
    });
    (*memory, ignored.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_levels_of_node_memory_agree() {
        for (word, memory) in ["none", "segment"].into_iter().zip(NodeMemory::ALL) {
            assert_eq!(NodeMemory::parse(OsStr::new(word)), Some(memory));
            assert_eq!(NodeMemory::of_level(Some(memory.level().into())), memory);
        }
        assert_eq!(NodeMemory::parse(OsStr::new("Segment")), None);
        assert_eq!(NodeMemory::of_level(None), NodeMemory::None);
    }
}
