//! The environment variables of the drop-in, read once.
//!
//! A process with more rights than its user reads none of them.
//!
//! | variable | effect |
//! | --- | --- |
//! | `PARIO_DISABLE=1` | calls are passed on to the MPI library's own MPI-IO |
//! | `PARIO_MPI_COUNT=1` | each rank says at its end how many calls pario served |
//!
//! `PARIO_HINTS`, `PARIO_STATS` and `ROMIO_HINTS` are read with the hints of each file, by `pario`.

use std::sync::OnceLock;

fn is_set(name: &str) -> bool {
    // SAFETY: the function only looks at what the kernel gave the process.
    let privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let value = std::env::var_os(name).filter(|_| !privileged);
    value.is_some_and(|value| !value.is_empty() && value != "0")
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
