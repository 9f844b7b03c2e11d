//! Models of time: the costs of a machine, and a clock for machines that are described.
//!
//! | module | what |
//! | --- | --- |
//! | [`profile`] | the parameters of a machine, as a file; defaults by kind of file system |
//! | [`presets`] | links and devices of the papers and of today |
//! | [`clock`] | a virtual clock: resources of a described machine, and when activities end |
//!
//! Nothing here opens a data file or sends a message, and the same input gives the same time on
//! every machine and every rank.

pub mod clock;
pub mod presets;
pub mod profile;

pub use crate::direction::Direction;
