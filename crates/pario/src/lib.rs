//! Parallel I/O for programs that run as many ranks.

pub mod error;
pub mod hints;
pub mod storage;

pub use error::{Error, ErrorClass, Result};
pub use hints::{
    EffectiveHint, Environment, HintOrigin, HintReport, HintSet, Hints, IgnoredHint, Strategy,
    Switch,
};
