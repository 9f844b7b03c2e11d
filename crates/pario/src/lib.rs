//! Parallel I/O for programs that run as many ranks.

pub mod comm;
pub mod datatype;
pub mod error;
mod number;

pub use comm::{Communicator, Simulated, Solo, Threads};
pub use datatype::{
    Darray, DarrayDimension, Datatype, Distribution, Element, Elementary, Field, Order,
};
pub use error::{Error, ErrorClass, Result};
