//! Models of time: what a way of doing I/O costs before anybody does it.
//!
//! | module | what |
//! | --- | --- |
//! | [`paper`] | the model of paper 001: equations 1 to 5 and its measured parameters |
//! | [`profile`] | the parameters of a machine, as a file; defaults by kind of file system |
//! | [`presets`] | links and devices of the papers and of today |
//! | [`inspector`] | the inspector of paper 002 |
//! | [`clock`] | a virtual clock: resources of a described machine, and when activities end |
//!
//! Nothing here opens a data file or sends a message, and the same input gives the same time on
//! every machine and every rank.

pub mod clock;
pub mod inspector;
pub mod paper;
pub mod presets;
pub mod profile;

pub use crate::direction::Direction;
