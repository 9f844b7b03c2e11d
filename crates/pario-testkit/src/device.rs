//! Drivers that misbehave when a test wants it.
//!
//! [`Hooked`] asks a function before each call, which may refuse it or panic. [`Lockless`] grants
//! every lock, also two that conflict: a test of locks must fail on it, or it tests nothing.

use std::path::Path;
use std::sync::Arc;

use pario::Result;
use pario::storage::{Call, Driver, Layer, Operation, Proceed, Wrapper};

/// Decides before each storage call whether it happens.
pub type Hook = Arc<dyn Fn(Operation) -> Result<()> + Send + Sync>;

/// Asks a function before each call of a driver and its files; locks are released unasked.
#[derive(Clone)]
pub struct Hooked {
    inner: Arc<dyn Driver>,
    hook: Hook,
}

impl Hooked {
    /// Asks `hook` before each call to `inner`.
    pub fn new(
        inner: impl Driver + 'static,
        hook: impl Fn(Operation) -> Result<()> + Send + Sync + 'static,
    ) -> Hooked {
        Hooked { inner: Arc::new(inner), hook: Arc::new(hook) }
    }
}

impl Wrapper for Hooked {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn layer(&self, _: &Path) -> Arc<dyn Layer> {
        Arc::new(self.clone())
    }
}

impl Layer for Hooked {
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
        if call.operation != Operation::Unlock {
            (self.hook)(call.operation)?;
        }
        proceed(call.len)
    }
}

/// Says that it has locks, and lets everybody in.
#[derive(Clone)]
pub struct Lockless(pub Arc<dyn Driver>);

impl Wrapper for Lockless {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    fn layer(&self, _: &Path) -> Arc<dyn Layer> {
        Arc::new(self.clone())
    }
}

impl Layer for Lockless {
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
        match call.operation {
            Operation::Lock => Ok(1),
            _ => proceed(call.len),
        }
    }
}
