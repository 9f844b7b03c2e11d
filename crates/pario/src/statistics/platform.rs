//! The machine that a process runs on, as far as it explains a time.

use serde::Serialize;

/// Cores, processor and system of this machine.
///
/// ```
/// assert!(pario::Platform::here().cores >= 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Platform {
    /// Cores that this process may use.
    pub cores: u32,
    /// What the processor calls itself; empty if the system does not say.
    pub processor: String,
    /// The kernel with its version.
    pub system: String,
}

impl Platform {
    /// That of this process.
    pub fn here() -> Platform {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo");
        let processor = processor.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "model name").then(|| value.trim().to_owned())
        });
        let release = read("/proc/sys/kernel/osrelease");
        Platform {
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            processor: processor.unwrap_or_default(),
            system: format!("Linux {}", release.trim()),
        }
    }
}
