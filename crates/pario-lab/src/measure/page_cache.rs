//! A limit on this machine's own page cache, by a control group.
//!
//! Memory counts for the group of the process that touches it first, and stays there. So the
//! process joins the group right before the calls that are measured, and leaves it right after
//! them: what the calls put in the page cache counts, the buffers of the ranks do not. The file is
//! written back and dropped from the page cache before, since pages that exist keep their group.
//!
//! Both versions of control groups will do. All ranks must be threads of this process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{Advice, fadvise};

use crate::failure::Failure;
use crate::sweep::{self, Sweeper};

const MOUNT: &str = "/sys/fs/cgroup";
const MEMBERS: &str = "cgroup.procs";

/// A control group with a limit; removed when this is dropped, or when the process is killed.
pub(crate) struct PageCache {
    group: PathBuf,
    /// The group that this process comes from.
    home: PathBuf,
    _sweeper: Option<Sweeper>,
}

/// Where groups are made, by the version that has the controller of memory.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// A new group is made in this one.
    parent: PathBuf,
    home: PathBuf,
    /// The file with the limit.
    limit: &'static str,
}

impl Place {
    /// From the lines of `/proc/self/cgroup`: number, controllers, path.
    fn find(lines: &str) -> Option<Place> {
        let mut lines = lines.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            Some((controllers, path.trim_start_matches('/')))
        });
        let memory = |(names, _): &(&str, &str)| names.split(',').any(|name| name == "memory");
        let mut unified = None;
        let old = lines.find(|line| {
            if line.0.is_empty() {
                unified = Some(line.1);
            }
            memory(line)
        });
        if let Some((_, path)) = old {
            let parent = Path::new(MOUNT).join("memory");
            let home = parent.join(path);
            return Some(Place { parent, home, limit: "memory.limit_in_bytes" });
        }
        // Only the root may have processes and groups with a limit side by side.
        let (parent, home) = (PathBuf::from(MOUNT), Path::new(MOUNT).join(unified?));
        Some(Place { parent, home, limit: "memory.max" })
    }

    /// Allows limits in groups of the parent, where that has to be asked for.
    fn prepare(&self) {
        let control = self.parent.join("cgroup.subtree_control");
        if self.limit == "memory.max" {
            // Without it the limit cannot be set, which is reported.
            let _ = fs::write(control, "+memory");
        }
    }
}

impl PageCache {
    /// Makes a group with a limit.
    ///
    /// # Errors
    /// `Usage` if this system or its administrator does not allow it.
    pub(crate) fn new(bytes: u64) -> Result<PageCache, Failure> {
        let refused = |what: String, error: std::io::Error| {
            Failure::Usage(format!("--page-cache: {what}: {error}; control groups need root"))
        };
        let lines = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let place = Place::find(&lines).filter(|place| place.parent.is_dir());
        let missing = || Failure::Usage("--page-cache: there are no control groups".to_owned());
        let place = place.ok_or_else(missing)?;
        let group = place.parent.join(format!("pario-{}", process::id()));
        let sweeper = Sweeper::start(&group);
        place.prepare();
        fs::create_dir(&group).map_err(|error| refused(group.display().to_string(), error))?;
        let home = if place.home.is_dir() { place.home } else { place.parent };
        let cache = PageCache { group, home, _sweeper: sweeper };
        let limit = cache.group.join(place.limit);
        fs::write(&limit, bytes.to_string())
            .map_err(|error| refused(limit.display().to_string(), error))?;
        Ok(cache)
    }

    /// Joins the group; the file is not in the page cache then.
    pub(crate) fn enter(&self, file: &File) -> Result<(), Failure> {
        let dropped = file.sync_all();
        dropped.map_err(|error| Failure::during("writing the file back", error))?;
        fadvise(file, 0, None, Advice::DontNeed)
            .map_err(|error| Failure::during("dropping the file from the page cache", error))?;
        join(&self.group)
    }

    pub(crate) fn leave(&self) -> Result<(), Failure> {
        join(&self.home)
    }
}

fn join(group: &Path) -> Result<(), Failure> {
    let joined = fs::write(group.join(MEMBERS), process::id().to_string());
    joined.map_err(|error| Failure::during(format!("joining {}", group.display()), error))
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let left = self.leave().is_ok() && fs::remove_dir(&self.group).is_ok();
        if !left {
            sweep::say(&format!("{} could not be removed", self.group.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_with_the_controller_of_memory_is_found() {
        let old = "9:pids:/user\n4:cpu,memory:/user/one\n0::/user\n";
        let place = Place::find(old).unwrap();
        assert_eq!(place.home, Path::new("/sys/fs/cgroup/memory/user/one"));
        assert_eq!(place.limit, "memory.limit_in_bytes");
        let place = Place::find("0::/user.slice/one\n").unwrap();
        assert_eq!(place.parent, Path::new("/sys/fs/cgroup"));
        assert_eq!(place.home, Path::new("/sys/fs/cgroup/user.slice/one"));
        assert_eq!(place.limit, "memory.max");
        assert_eq!(Place::find(""), None);
    }
}
