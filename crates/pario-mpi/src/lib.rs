//! pario on MPI, bound at run time.
//!
//! One library serves MPICH, Open MPI and every MPI with the standard ABI, and is built without
//! any of them.

mod abi;
mod attribute;
mod binding;
mod comm;
mod counter;
mod datatype;
mod dropin;
mod environment;
mod progress;

pub use abi::Family;
pub use comm::MpiCommunicator;
