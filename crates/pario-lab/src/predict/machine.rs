//! The machine that is described: a profile, and what replaces parts of it.

use std::path::Path;

use pario::model::profile::{Profile, stored};
use pario::storage::FileSystem;

use crate::failure::Failure;

/// A profile and where it comes from.
pub(super) struct Described {
    pub(super) profile: Profile,
    pub(super) origin: String,
}

/// The profile of a name or a file; without one, that of the file system of a directory.
///
/// # Errors
/// `Usage` if there is no such profile or it makes no sense.
pub(super) fn profile(
    named: Option<&str>,
    transport: &str,
    directory: Option<&Path>,
) -> Result<Described, Failure> {
    if let Some(name) = named {
        if let Some(profile) = Profile::built_in(name) {
            return Ok(Described { profile, origin: format!("{name}, built in") });
        }
        let names: Vec<&str> = Profile::built_in_names().collect();
        let loaded = Profile::load(Path::new(name)).map_err(|error| {
            Failure::Usage(format!("--profile: {error}; or use {}", names.join(", ")))
        })?;
        return Ok(Described { profile: loaded, origin: name.to_owned() });
    }
    let name_of = |path| FileSystem::of_path(path).map_or("other", |known| known.name);
    let file_system = directory.map_or("tmpfs", name_of);
    if let Some((path, profile)) = stored(transport, file_system) {
        let profile = profile.map_err(|error| Failure::Usage(format!("profile: {error}")))?;
        return Ok(Described { profile, origin: path.display().to_string() });
    }
    let name = Profile::built_in_name(file_system, false);
    let origin = format!("{name}, built in; `pario calibrate` measures this machine");
    Ok(Described { profile: Profile::built_in(name).unwrap_or_default(), origin })
}
