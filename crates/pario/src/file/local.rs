//! What a file says and does on one rank alone, at once: the same for a [`File`] and its
//! [`Handle`](super::Handle).

use std::io::SeekFrom;
use std::path::Path;
use std::sync::Arc;

use super::{AccessMode, File};
use crate::comm::Communicator;
use crate::error::Result;
use crate::hints::{EffectiveHint, HintReport};
use crate::statistics::{CallStatistics, FileStatistics, Summary};
use crate::view::View;

impl File {
    /// The file's name, without a driver prefix.
    pub fn path(&self) -> &Path {
        self.handle.path()
    }

    /// The access mode it was opened with.
    pub fn mode(&self) -> AccessMode {
        self.handle.mode()
    }

    /// The ranks that opened it.
    pub fn communicator(&self) -> &dyn Communicator {
        self.handle.communicator()
    }

    /// The hints in effect, and those that were ignored, with the reasons.
    pub fn hints(&self) -> Arc<HintReport> {
        self.handle.hints()
    }

    /// What `MPI_File_get_info` shows: the hints in effect, what the file says of itself, and how
    /// the last collective read and write were served (`pario_write_strategy`,
    /// `pario_write_reason`, `pario_write_predicted_us`; the same with `read`). Where there was no
    /// collective in a direction, that is about this rank's last call, if it was in that direction.
    ///
    /// Given back as hints, the last ones change nothing and are not reported as ignored.
    ///
    /// ```
    /// use pario::{File, Solo};
    /// let file = File::options().write(true).create(true).open(&*Solo::new(), "memory:info")?;
    /// file.write_all(0, &[1u8; 4])?;
    /// let info = file.info();
    /// let strategy = info.iter().find(|key| key.name == "pario_write_strategy");
    /// assert_eq!(strategy.map(|key| key.value.as_str()), Some("direct"));
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn info(&self) -> Vec<EffectiveHint> {
        self.handle.info()
    }

    /// This rank's view.
    pub fn view(&self) -> View {
        self.handle.view()
    }

    /// Whether atomic mode is on.
    pub fn atomicity(&self) -> bool {
        self.handle.atomicity()
    }

    /// What all calls on this file did, on this rank.
    pub fn statistics(&self) -> FileStatistics {
        self.handle.statistics()
    }

    /// What all calls on this file did, on this rank, in the form in which the close of the file
    /// prints it for all ranks when the hint `pario_statistics` is set.
    pub fn summary(&self) -> Summary {
        self.handle.summary()
    }

    /// What the last read or write did, on this rank.
    pub fn last_call(&self) -> CallStatistics {
        self.handle.last_call()
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// `Io` or more specific if the storage fails.
    pub fn size(&self) -> Result<u64> {
        self.handle.size()
    }

    /// This rank's file pointer, in etypes of the view.
    pub fn position(&self) -> u64 {
        self.handle.position()
    }

    /// The shared file pointer, in etypes of the view.
    ///
    /// # Errors
    /// `PeerLost` if the rank that keeps it is gone.
    pub fn position_shared(&self) -> Result<u64> {
        self.handle.position_shared()
    }

    /// Offset in the file of a position in the view.
    ///
    /// # Errors
    /// `Type` if it lies beyond 2^63, `Arg` if the view shows nothing.
    pub fn byte_offset(&self, position: u64) -> Result<u64> {
        self.handle.byte_offset(position)
    }

    /// Moves this rank's file pointer.
    ///
    /// # Errors
    /// `Arg` if it would become negative, `UnsupportedOperation` on sequential files.
    pub fn seek(&self, to: SeekFrom) -> Result<u64> {
        self.handle.seek(to)
    }
}
