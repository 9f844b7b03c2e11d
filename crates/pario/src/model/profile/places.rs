//! Where profiles are.

use std::path::PathBuf;

use super::Machine;

/// What the environment says on the place of profiles; [`Places::of_process`] reads it.
///
/// ```
/// use pario::model::profile::{Machine, Places};
///
/// let places = Places { home: Some("/home/ada".into()), ..Places::default() };
/// let machine = Machine {
///     host: "node1".to_owned(),
///     transport: "threads".to_owned(),
///     file_system: "ext4".to_owned(),
///     cores: 8,
/// };
/// let path = places.path(&machine).expect("there is a home");
/// assert_eq!(path.to_str(), Some("/home/ada/.config/pario/profile-node1-threads-ext4.toml"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The one profile for everything, by `PARIO_PROFILE`.
    pub profile: Option<PathBuf>,
    /// The directory of configuration, by `XDG_CONFIG_HOME`.
    pub config_home: Option<PathBuf>,
    /// The user's directory, by `HOME`.
    pub home: Option<PathBuf>,
}

impl Places {
    /// The file of a machine's profile; none if there is neither a variable nor a home. As the XDG
    /// specification says, a directory that is not absolute counts as none.
    pub fn path(&self, machine: &Machine) -> Option<PathBuf> {
        if let Some(path) = &self.profile {
            return Some(path.clone());
        }
        let configured = self.config_home.clone().filter(|path| path.is_absolute());
        let home = || self.home.as_ref().map(|home| home.join(".config"));
        let parts = [&machine.host, &machine.transport, &machine.file_system];
        let name = format!("profile-{}.toml", parts.map(|part| file_name(part)).join("-"));
        Some(configured.or_else(home)?.join("pario").join(name))
    }
}

/// A word as a part of a file name.
fn file_name(word: &str) -> String {
    const LEN_MAX: usize = 64;
    let keep = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' => character,
        _ => '_',
    };
    word.chars().take(LEN_MAX).map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(host: &str) -> Machine {
        let (transport, file_system) = ("MPICH 5".to_owned(), "ext4".to_owned());
        Machine { host: host.to_owned(), transport, file_system, cores: 1 }
    }

    #[test]
    fn the_stronger_place_wins() {
        let mut places = Places { home: Some("/home/a".into()), ..Places::default() };
        let shown = |places: &Places, host: &str| {
            places.path(&machine(host)).map(|path| path.display().to_string())
        };
        let file = "pario/profile-n1-MPICH_5-ext4.toml";
        assert_eq!(shown(&places, "n1"), Some(format!("/home/a/.config/{file}")));
        places.config_home = Some("relative".into());
        assert_eq!(shown(&places, "n1"), Some(format!("/home/a/.config/{file}")));
        places.config_home = Some("/etc/xdg".into());
        assert_eq!(shown(&places, "n1"), Some(format!("/etc/xdg/{file}")));
        places.profile = Some("mine.toml".into());
        assert_eq!(shown(&places, "n1").as_deref(), Some("mine.toml"));
        assert_eq!(shown(&Places::default(), "n1"), None);
    }

    #[test]
    fn a_strange_host_stays_in_its_directory() {
        let places = Places { config_home: Some("/c".into()), ..Places::default() };
        let path = places.path(&machine("../../etc/x y")).unwrap();
        assert_eq!(path.display().to_string(), "/c/pario/profile-.._.._etc_x_y-MPICH_5-ext4.toml");
    }
}
