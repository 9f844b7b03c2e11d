//! The environment variables of the drop-in, read once.

use std::sync::OnceLock;

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
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
