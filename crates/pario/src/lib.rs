//! Parallel I/O for programs that run as many ranks.

pub mod error;
pub mod storage;

pub use error::{Error, ErrorClass, Result};
