//! The profile for a file: found once for each process, host and file system.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Machine, Places, Profile};
use crate::error::Result;

/// A profile, and a number that is the same for equal ones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) profile: Arc<Profile>,
    pub(crate) fingerprint: u64,
}

impl Found {
    pub(crate) fn new(profile: Profile) -> Found {
        let mut hasher = DefaultHasher::new();
        profile.to_text().unwrap_or_default().hash(&mut hasher);
        Found { profile: Arc::new(profile), fingerprint: hasher.finish() }
    }

    /// The profile that another rank has, as text.
    pub(crate) fn parse(text: &[u8]) -> Result<Found> {
        Ok(Found::new(Profile::parse(&String::from_utf8_lossy(text))?))
    }
}

/// What was found so far, by transport and file system.
static KNOWN: Mutex<Vec<((&str, &str), Found)>> = Mutex::new(Vec::new());

/// The stored profile of this host for a transport and a file system, else the built-in one.
pub(crate) fn find(transport: &'static str, file_system: &'static str) -> Found {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (transport, file_system);
    if let Some((_, found)) = known.iter().find(|(one, _)| *one == key) {
        return found.clone();
    }
    let found = Found::new(look(transport, file_system));
    known.push((key, found.clone()));
    found
}

fn look(transport: &str, file_system: &str) -> Profile {
    match stored(transport, file_system) {
        Some((_, Ok(profile))) => return profile,
        Some((_, Err(error))) => log::warn!("{error}; the built-in profile is used"),
        None => {}
    }
    Profile::built_in(Profile::built_in_name(file_system, false)).unwrap_or_default()
}

/// The profile that the environment names (a file, or a built-in one), or that is stored for this
/// host, a transport and a file system; with where it is from. None if there is no such thing.
pub fn stored(transport: &str, file_system: &str) -> Option<(PathBuf, Result<Profile>)> {
    let places = Places::of_process();
    let machine = Machine {
        host: host(),
        transport: transport.to_owned(),
        file_system: file_system.to_owned(),
        cores: 1,
    };
    let is_named = places.profile.is_some();
    let path = places.path(&machine).filter(|path| is_named || path.exists())?;
    let built_in = path.to_str().filter(|_| is_named).and_then(Profile::built_in);
    let profile = built_in.map_or_else(|| Profile::load(&path), Ok);
    Some((path, profile))
}

/// The name of this host, as in the names of profiles.
pub fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_profiles_have_equal_fingerprints() {
        let one = Found::new(Profile::built_in("hdd").unwrap());
        let text = one.profile.to_text().unwrap();
        assert_eq!(Found::parse(text.as_bytes()).unwrap(), one);
        let other = Found::new(Profile::built_in("ssd").unwrap());
        assert_ne!(other.fingerprint, one.fingerprint);
        assert!(Found::parse(b"nonsense").is_err());
    }
}
