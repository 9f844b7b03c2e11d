//! Opening files (MPI-4.1, section 14.2.1).

use std::path::Path;
use std::sync::Arc;

use super::{File, Handle};
use crate::comm::{Communicator, block_on};
use crate::error::Result;
use crate::hints::HintSet;
use crate::model::profile::Profile;
pub use crate::request::AccessMode;
use crate::storage::{Driver, OpenMode};

impl AccessMode {
    /// What the storage must allow. Sieving and holes need reading, also in files that the user
    /// only writes.
    pub(super) fn storage(&self) -> OpenMode {
        OpenMode { read: true, write: self.write, create: false, exclusive: false }
    }
}

/// Options to open a file with; all ranks of a communicator open it together, with the same ones.
///
/// ```
/// use pario::{File, Solo};
/// let comm = Solo::new();
/// let file = File::options()
///     .read(true)
///     .write(true)
///     .create(true)
///     .hint("cb_buffer_size", "4M")
///     .open(&*comm, "memory:example")?;
/// file.write(0, &[1u32, 2, 3])?;
/// file.close()?;
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct OpenOptions {
    pub(super) mode: AccessMode,
    pub(super) hints: HintSet,
    pub(super) driver: Option<Arc<dyn Driver>>,
    pub(super) profile: Option<Profile>,
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])*
        pub fn $name(mut self, $name: bool) -> OpenOptions {
            self.mode.$name = $name;
            self
        })*
    };
}

impl OpenOptions {
    /// Options that allow nothing yet.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    flags! {
        /// Allows reading.
        read,
        /// Allows writing.
        write,
        /// Creates the file if it does not exist.
        create,
        /// With `create`: fails if the file exists.
        exclusive,
        /// Begins at the end of the file.
        append,
        /// Allows access by the shared file pointer only.
        sequential,
        /// Deletes the file when it is closed.
        delete_on_close,
        /// Says that nobody else opens the file meanwhile.
        unique_open,
    }

    /// Gives a hint: ROMIO's names with ROMIO's meaning, and pario's own.
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> OpenOptions {
        self.hints = self.hints.with(key, value);
        self
    }

    /// Opens the file with a given driver, whatever the file name says.
    pub fn driver(mut self, driver: Arc<dyn Driver>) -> OpenOptions {
        self.driver = Some(driver);
        self
    }

    /// Predicts times from a given profile, whatever is stored for this machine.
    pub fn profile(mut self, profile: Profile) -> OpenOptions {
        self.profile = Some(profile);
        self
    }

    /// Opens a file on all ranks of a communicator together.
    ///
    /// # Errors
    /// The same class on every rank, if any rank cannot open the file; then a file that this
    /// call created is deleted again.
    pub fn open(&self, communicator: &dyn Communicator, path: impl AsRef<Path>) -> Result<File> {
        self.try_open(communicator, Ok(path.as_ref()))
    }

    /// Opens a file; an error that this rank found in its name is the outcome on all ranks, and
    /// nobody waits for it.
    ///
    /// # Errors
    /// As [`OpenOptions::open`], and the error that was given.
    #[doc(hidden)]
    pub fn try_open(&self, communicator: &dyn Communicator, path: Result<&Path>) -> Result<File> {
        let opening = Handle::open(self, communicator, path);
        Ok(File::new(block_on(communicator, opening)?))
    }

    /// The same as a future, for the simulator and for programs that poll.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub async fn open_async(
        &self,
        communicator: &dyn Communicator,
        path: impl AsRef<Path> + Send,
    ) -> Result<File> {
        Ok(File::new(Handle::open(self, communicator, Ok(path.as_ref())).await?))
    }
}
