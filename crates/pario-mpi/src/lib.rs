//! pario on MPI, bound at run time.
//!
//! One library serves MPICH, Open MPI and every MPI with the standard ABI, and is built without
//! any of them.
//!
//! A Rust program gets a communicator for [`pario::File`] from [`initialize`], or from whatever has
//! started MPI in its process ([`MpiCommunicator::from_raw`]).
//!
//! The drop-in is part of this crate. A program that is linked with it and with an MPI library, as
//! those of the crate `mpi` are, therefore has its `MPI_File_*` calls served by pario too, such as
//! those of a C library in it; `PARIO_DISABLE=1` passes them on.

mod abi;
mod attribute;
mod binding;
mod comm;
mod counter;
mod datatype;
mod dropin;
mod environment;
mod failure;
mod kept;
mod launcher;
mod locate;
mod messages;
mod mpi_io;
mod node;
mod panics;
mod progress;
mod universe;
mod wait;

pub use abi::Family;
pub use comm::{MpiCommunicator, RawCommunicator};
pub use launcher::{Launch, launched};
#[doc(hidden)]
pub use mpi_io::{MpiDatatype, MpiFile, MpiIo};
pub use universe::{Threading, Universe, initialize, initialize_with};
