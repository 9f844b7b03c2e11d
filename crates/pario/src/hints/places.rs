//! Where profiles are, by the environment.

use std::path::PathBuf;

use super::environment::is_privileged;
use crate::model::profile::Places;

impl Places {
    /// What the environment of this process says; nothing if the process has more rights than its
    /// user.
    pub fn of_process() -> Places {
        if is_privileged() {
            return Places::default();
        }
        let path =
            |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Places {
            profile: path("PARIO_PROFILE"),
            config_home: path("XDG_CONFIG_HOME"),
            home: path("HOME"),
        }
    }
}
