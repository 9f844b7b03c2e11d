//! Every driver, and every wrapper around one, keeps the contract of storage.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pario::model::presets::Device;
use pario::storage::{Driver, Emulated, Fault, FaultPlan, Memory, Posix, Trace};
use pario_testkit::conformance;

/// A directory of this process that goes away with the test, whether it passes or not.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        let path = std::env::temp_dir().join(format!("pario-conforms-{}", std::process::id()));
        assert!(std::fs::create_dir(&path).is_ok(), "{} can be made", path.display());
        Directory(path)
    }

    /// A new directory inside of this one.
    fn inner(&self, index: u32) -> PathBuf {
        let path = self.0.join(index.to_string());
        assert!(std::fs::create_dir(&path).is_ok(), "{} can be made", path.display());
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the suite on what `wrap` makes of a new store in memory.
fn over_memory(wrap: impl Fn(Arc<dyn Driver>) -> Arc<dyn Driver>) {
    conformance::storage(|| (wrap(Arc::new(Memory::new())), PathBuf::from("scratch")));
}

#[test]
fn posix_conforms() {
    let directory = Directory::new();
    let count = AtomicU32::new(0);
    conformance::storage(|| {
        (Arc::new(Posix), directory.inner(count.fetch_add(1, Ordering::Relaxed)))
    });
}

#[test]
fn memory_conforms() {
    over_memory(|memory| memory);
}

#[test]
fn fault_without_faults_conforms() {
    over_memory(|memory| Arc::new(Fault::new(memory, FaultPlan::none())));
}

#[test]
fn trace_conforms_also_when_full() {
    over_memory(|memory| Arc::new(Trace::new(memory, 10)));
}

#[test]
fn an_emulated_device_conforms_with_and_without_a_cache() {
    for cache_bytes in [0, 1 << 20] {
        over_memory(|memory| Arc::new(Emulated::new(memory, Device::NVM, cache_bytes)));
    }
}

#[test]
fn wrappers_over_wrappers_conform() {
    over_memory(|memory| {
        let emulated = Arc::new(Emulated::new(memory, Device::NVM, 0));
        let fault = Arc::new(Fault::new(emulated, FaultPlan::none()));
        Arc::new(Trace::new(fault, 10))
    });
}
