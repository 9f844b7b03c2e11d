//! Memory of another process, found through `/proc/PID/fd/N`.
//!
//! A process number of another rank may name a different process here: ranks in containers may
//! be in different PID namespaces. So what is found has to be proved to be what was meant:
//! anonymous memory of the right name, sealed by its owner so that its length
//! stays, of the right length, with the owner's nonce at its start. Nothing of it is changed before
//! that, and nothing but such memory is even opened: opening a device or a pipe can do harm.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals};

use super::place::Place;

/// Its length stays, and so do the seals.
fn seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

/// Seals memory of this process, which has its length.
pub(super) fn seal(file: &File) -> Option<()> {
    fcntl_add_seals(file, seals()).ok()
}

/// Memory of this length that the process of a place holds by a descriptor, under a name.
pub(super) fn open(place: &Place, (descriptor, name): (i32, &str), bytes: usize) -> Option<File> {
    if descriptor < 0 {
        return None;
    }
    let path = format!("/proc/{}/fd/{descriptor}", place.process);
    let link = std::fs::read_link(&path).ok()?;
    if link.to_str() != Some(&format!("/memfd:{name} (deleted)")) {
        return None;
    }
    // By now the descriptor may be another file: such a one is opened without further effect.
    let flags = libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().read(true).write(true).custom_flags(flags).open(path).ok()?;
    let is_sealed = fcntl_get_seals(&file).is_ok_and(|found| found == seals());
    let has_length = file.metadata().is_ok_and(|found| u64::try_from(bytes) == Ok(found.len()));
    let is_meant = || nonce_of(&file).is_ok_and(|nonce| nonce == place.nonce);
    (is_sealed && has_length && is_meant()).then_some(file)
}

/// The number at the start of memory.
fn nonce_of(file: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(u64::from_ne_bytes(bytes))
}
