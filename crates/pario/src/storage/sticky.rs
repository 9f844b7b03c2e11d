//! A failed sync stays failed.
//!
//! The kernel reports a lost write to one `fsync` of an open file and then forgets it; a second
//! `fsync` answers that all is well although the bytes are gone (Rebello and others, "Can
//! Applications Recover from fsync Failures?", USENIX ATC 2020). Each open file therefore keeps
//! its first failure here and repeats it.
//!
//! Cost: syncs of one open file run one after the other. They must: of two at once, only one
//! would get the error of the lost write, and the other would return a false success.

use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// The first failed sync of an open file, if there was one.
#[derive(Default)]
pub(super) struct StickySync {
    failure: Mutex<Option<Error>>,
}

impl StickySync {
    /// Runs `sync`, unless an earlier one failed: then it fails with the same class.
    pub(super) fn run(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = failure.as_ref() {
            let text = format!("sync: failed before, so written bytes may be lost: {first}");
            return Err(Error::new(first.class(), text));
        }
        sync().inspect_err(|error| *failure = Some(error.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn sync_error_is_sticky() {
        let sticky = StickySync::default();
        assert!(sticky.run(|| Ok(())).is_ok());
        let failing = || Err(Error::from_errno("sync", libc::ENOSPC));
        assert_eq!(sticky.run(failing).unwrap_err().class(), ErrorClass::NoSpace);
        let mut ran = false;
        let later = sticky.run(|| {
            ran = true;
            Ok(())
        });
        assert_eq!(later.unwrap_err().class(), ErrorClass::NoSpace);
        assert!(!ran, "the device is not asked again: it would say that all is well");
    }
}
