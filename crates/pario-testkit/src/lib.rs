//! Byte oracle, generators and conformance suites for pario.
//!
//! A [`recipe::Recipe`] says how a datatype is constructed. From it come the real datatype
//! ([`recipe::Recipe::build`]) and, independently, its [`typemap::Typemap`]: the offset of every
//! single byte, found by writing the definitions of the MPI standard as loops. Where the two
//! differ, pario has a bug. [`generate::Generator`] makes random recipes, [`shrink`] makes the
//! recipe of a failure small. A [`program::Program`] is what ranks do with a file, checked against
//! plain bytes after every step.
//!
//! Tests of what goes wrong use [`device`] (drivers that fail, panic or do not lock),
//! [`watchdog`] (a hang becomes a failure), [`seed`] and [`scratch`].

#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod allocation;
pub mod conformance;
pub mod device;
mod fair_clock;
pub mod generate;
pub mod program;
pub mod recipe;
pub mod scratch;
pub mod seed;
pub mod shrink;
mod stacks;
pub mod typemap;
pub mod void;
pub mod watchdog;
