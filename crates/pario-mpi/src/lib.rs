//! pario on MPI, bound at run time.
//!
//! One library serves MPICH, Open MPI and every MPI with the standard ABI, and is built without
//! any of them.
//!
//! A Rust program gets a communicator for [`pario::File`] from [`initialize`], or from whatever has
//! started MPI in its process ([`MpiCommunicator::from_raw`]).

mod abi;
mod attribute;
mod binding;
mod comm;
mod counter;
mod datatype;
mod dropin;
mod environment;
mod launcher;
mod locate;
mod messages;
mod progress;
mod universe;

pub use abi::Family;
pub use comm::{MpiCommunicator, RawCommunicator};
pub use launcher::{Launch, launched};
pub use universe::{Threading, Universe, initialize, initialize_with};
