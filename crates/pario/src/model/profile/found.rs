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

/// What was found for a transport and a file system.
struct Known {
    key: (&'static str, &'static str),
    found: Found,
    /// Why the stored one is not used, until rank 0 has said it.
    unsaid: Option<String>,
}

impl Known {
    /// The found profile. Rank 0 says what is wrong, once, since its profile is that of all ranks.
    fn told_to(&mut self, rank: u32) -> (Found, Option<String>) {
        let unsaid = if rank == 0 { self.unsaid.take() } else { None };
        (self.found.clone(), unsaid)
    }
}

/// What was found so far.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The stored profile of this host for a transport and a file system, else the built-in one.
pub(crate) fn find(transport: &'static str, file_system: &'static str, rank: u32) -> Found {
    let (found, unsaid) = find_silently((transport, file_system), rank);
    unsaid.into_iter().for_each(|text| log::warn!("{text}"));
    found
}

/// The same with what is to be said.
fn find_silently(key: (&'static str, &'static str), rank: u32) -> (Found, Option<String>) {
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.iter_mut().find(|known| known.key == key) {
        return known.told_to(rank);
    }
    let mut known = look(key);
    let answer = known.told_to(rank);
    all.push(known);
    answer
}

fn look(key: (&'static str, &'static str)) -> Known {
    let (transport, file_system) = key;
    let stored = stored(transport, file_system).map(|(_, stored)| stored).transpose();
    let unsaid =
        stored.as_ref().err().map(|error| format!("{error}; the built-in profile is used"));
    let built_in = || Profile::built_in(Profile::built_in_name(file_system, false));
    let profile = stored.ok().flatten().or_else(built_in).unwrap_or_default();
    Known { key, found: Found::new(profile), unsaid }
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

    /// Under MPI every rank finds out by itself that a profile cannot be read.
    #[test]
    fn only_rank_0_says_what_is_wrong_with_a_profile_and_only_once() {
        let found = Found::new(Profile::default());
        let unsaid = Some("no such file".to_owned());
        let mut known = Known { key: ("threads", "tmpfs"), found, unsaid: unsaid.clone() };
        assert_eq!(known.told_to(1).1, None);
        assert_eq!(known.told_to(0).1, unsaid);
        assert_eq!(known.told_to(0).1, None);
    }
}
