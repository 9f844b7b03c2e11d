//! The contracts of pario's traits, as code.
//!
//! The doc comment of a trait says what an implementation promises; a suite here checks it. A new
//! driver or transport runs its suite in one test:
//!
//! ```
//! use pario::storage::Memory;
//! use std::{path::PathBuf, sync::Arc};
//!
//! pario_testkit::conformance::storage(|| (Arc::new(Memory::new()), PathBuf::from("scratch")));
//! ```

mod communicator;
mod storage;

pub use communicator::{communicator, communicator_steps};
pub use storage::storage;
