//! The files of the operating system that this process has open as data, by device and number.
//!
//! What pario writes for itself must not go to one of them, under whatever name.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Identity = (u64, u64);

/// How often each file is open.
static OPEN: Mutex<BTreeMap<Identity, usize>> = Mutex::new(BTreeMap::new());

fn table() -> MutexGuard<'static, BTreeMap<Identity, usize>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Says that a file is open, until it is dropped.
pub(super) struct DataFile(Identity);

impl DataFile {
    pub(super) fn new(metadata: &Metadata) -> DataFile {
        let identity = identity(metadata);
        *table().entry(identity).or_default() += 1;
        DataFile(identity)
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        let mut table = table();
        if let Some(count) = table.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                table.remove(&self.0);
            }
        }
    }
}

/// Whether the process has a file open as data.
pub(crate) fn is_open(metadata: &Metadata) -> bool {
    table().contains_key(&identity(metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_until_its_last_open_ends() {
        let metadata = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
        let [first, second] = [(); 2].map(|()| DataFile::new(&metadata));
        drop(first);
        assert!(is_open(&metadata));
        drop(second);
        assert!(!is_open(&metadata));
    }
}
