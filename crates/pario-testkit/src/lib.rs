//! Byte oracle, generators and conformance suites for pario.

pub mod conformance;
