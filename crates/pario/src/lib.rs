//! Parallel I/O for programs that run as many ranks.

pub mod access;
pub mod comm;
pub mod datatype;
pub mod error;
mod exchange;
pub mod hints;
mod number;
mod plan;
pub mod statistics;
pub mod storage;
mod view;

pub use access::{OwnedBuffer, Source, Target, Typed};
pub use comm::{Communicator, Simulated, Solo, Threads};
pub use datatype::{
    Darray, DarrayDimension, Datatype, Distribution, Element, Elementary, Field, Order,
};
pub use error::{Error, ErrorClass, Result};
pub use hints::{
    EffectiveHint, Environment, HintOrigin, HintReport, HintSet, Hints, IgnoredHint, Strategy,
    Switch,
};
pub use statistics::{CallStatistics, FileStatistics};
pub use view::{Representation, View};
