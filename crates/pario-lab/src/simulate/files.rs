//! Files that have a size and no bytes: what is written is forgotten, and what is read leaves the
//! reader's memory as it is.

use std::path::Path;
use std::sync::Arc;

use pario::Result;
use pario::storage::{Call, Driver, Layer, Memory, Proceed, Wrapper};

/// The file of a simulated program.
pub(crate) const NAME: &str = "simulated";

/// Files of one size. Sizes and locks are those of files in memory.
#[derive(Clone)]
pub(super) struct SizedFiles {
    bytes: u64,
    memory: Memory,
}

impl SizedFiles {
    pub(super) fn new(bytes: u64) -> SizedFiles {
        SizedFiles { bytes, memory: Memory::new() }
    }
}

impl Wrapper for SizedFiles {
    fn inner(&self) -> &dyn Driver {
        &self.memory
    }

    fn layer(&self, _: &Path) -> Arc<dyn Layer> {
        Arc::new(self.clone())
    }
}

impl Layer for SizedFiles {
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
        use pario::storage::Operation::Size;
        match call.operation {
            Size => Ok(self.bytes),
            operation if operation.writes() => Ok(call.len),
            operation if operation.reads() => {
                let end = call.pieces.last().map_or(call.offset + call.len, |last| last.0 + last.1);
                Ok(call.len.saturating_sub(end.saturating_sub(self.bytes)))
            }
            _ => proceed(call.len),
        }
    }
}
