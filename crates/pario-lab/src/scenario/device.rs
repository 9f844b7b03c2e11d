//! Devices whose time is taken: presets, and descriptions in files.

use std::path::Path;
use std::sync::Arc;

use pario::model::clock::Storage;
use pario::model::presets::Device;
use pario::model::profile::Profile;
use pario::own_file;
use pario::storage::{Driver, Emulated, Posix};

/// A description has some lines.
const DESCRIPTION_BYTES_MAX: u64 = 64 << 10;

/// A device by its name, maybe behind a page cache.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceChoice {
    name: String,
    device: Device,
    cache_bytes: u64,
}

impl DeviceChoice {
    /// The same behind a page cache of this size; 0 for none.
    #[must_use]
    pub fn cached(self, cache_bytes: u64) -> DeviceChoice {
        DeviceChoice { cache_bytes, ..self }
    }

    /// Its name with its page cache.
    pub(crate) fn full_name(&self) -> String {
        match self.cache_bytes {
            0 => self.name.clone(),
            bytes => format!("{} with a page cache of {bytes} bytes", self.name),
        }
    }

    /// Files of the system with its times.
    pub(crate) fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(Emulated::new(Arc::new(Posix), self.device, self.cache_bytes))
    }

    /// A machine whose storage it is: what planners learn from [`DeviceChoice::driver`].
    pub(crate) fn of_machine(&self, profile: Profile) -> Profile {
        let storage = Storage::local(self.device);
        let storage = if self.cache_bytes > 0 { storage.cached(self.cache_bytes) } else { storage };
        profile.with_storage(&self.name, storage)
    }
}

/// Reads the name of a preset, or that of a file.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<DeviceChoice, String> {
    let name = text.to_owned();
    if let Some(device) = Device::named(text) {
        return Ok(DeviceChoice { name, device, cache_bytes: 0 });
    }
    if !text.ends_with(".toml") {
        let names: Vec<&str> = Device::PRESETS.iter().map(|(name, _)| *name).collect();
        return Err(format!("use {} or FILE.toml", names.join(", ")));
    }
    let described = own_file::read_small(Path::new(text), DESCRIPTION_BYTES_MAX);
    let described = described.map_err(|error| error.to_string())?;
    let device: Device = toml::from_str(&described).map_err(|error| error.to_string())?;
    check(&device)?;
    Ok(DeviceChoice { name, device, cache_bytes: 0 })
}

/// Refuses what makes no sense.
fn check(device: &Device) -> Result<(), String> {
    const MINUTE_US: f64 = 60e6;
    let times = [("positioning_us", device.positioning_us), ("latency_us", device.latency_us)];
    let speeds = [
        ("read_bytes_per_s", device.read_bytes_per_s),
        ("write_bytes_per_s", device.write_bytes_per_s),
    ];
    if let Some((key, _)) = times.iter().find(|(_, us)| !(0.0..=MINUTE_US).contains(us)) {
        return Err(format!("{key}: not a time from 0 to a minute"));
    }
    match speeds.iter().find(|(_, speed)| !(1.0..=f64::MAX).contains(speed)) {
        Some((key, _)) => Err(format!("{key}: not at least 1")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_names_and_senseless_devices_are_refused() {
        assert_eq!(parse("hdd").unwrap().device, Device::HDD);
        assert!(parse("tape").unwrap_err().contains("sata-ssd"));
        assert!(parse("there-is-no-such-file.toml").is_err());
        for device in [
            Device { latency_us: -1.0, ..Device::NVM },
            Device { positioning_us: f64::NAN, ..Device::NVM },
            Device { read_bytes_per_s: 0.0, ..Device::NVM },
            Device { write_bytes_per_s: f64::INFINITY, ..Device::NVM },
        ] {
            assert!(check(&device).is_err(), "{device:?}");
        }
        check(&Device::HDD).unwrap();
    }
}
