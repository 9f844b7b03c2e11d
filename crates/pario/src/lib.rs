//! Parallel I/O for programs that run as many ranks.
//!
//! Many ranks of one program write and read one file, each its own small scattered pieces. pario
//! makes that mostly less than twice as slow as moving the same bytes in one piece. It compiles
//! MPI's datatypes and views to loops instead of lists. Every rank computes the others' shares from
//! these loops. One executor carries every strategy out.
//!
//! The modules are in the order of a call:
//!
//! | step | module | what |
//! | --- | --- | --- |
//! | | [`mod@file`] | the user's call: [`File::write_all`] |
//! | 1 | `request` | what was asked, checked |
//! | 2 | [`access`] | which bytes of memory are which of the file |
//! | 3 | `plan` | who does what, in which round; pure data |
//! | 4 | `exchange` | carries the rounds out between the ranks |
//! | 5 | [`storage`] | bytes on a device |
//!
//! [`datatype`] and [`comm`] support steps 1 to 4; [`hints`], [`error`] and [`statistics`] serve
//! all. [`model`] predicts times.
//!
//! ```
//! use pario::{Datatype, File, Position, Threads, View};
//!
//! // Sixteen ranks; each writes every sixteenth float of one file.
//! Threads::new(16).run(|comm| -> pario::Result<()> {
//!     let file = File::options().write(true).create(true).open(&*comm, "memory:floats")?;
//!     let float = Datatype::of::<f32>();
//!     let every_16th = Datatype::resized(0, 64, &float)?;
//!     file.set_view(&View::new(u64::from(comm.rank()) * 4, &float, &every_16th))?;
//!     let mine = vec![comm.rank() as f32; 1000];
//!     file.write_all(Position::Individual, &mine)?;
//!     file.close()
//! });
//! ```

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("pario runs on 64-bit Linux: it relies on its system calls and on 64-bit lengths");

pub mod access;
pub mod comm;
pub mod datatype;
mod direction;
pub mod error;
mod escaped;
mod exchange;
pub mod explain;
pub mod file;
pub mod hints;
mod log_to_stderr;
pub mod model;
mod number;
pub mod own_file;
mod plan;
mod request;
pub mod statistics;
pub mod storage;
mod view;
mod virtual_time;

pub use access::{OwnedBuffer, Source, Target, Typed};
pub use comm::{Communicator, Simulated, Solo, Threads};
pub use datatype::{
    Darray, DarrayDimension, Datatype, Distribution, Element, Elementary, Field, Order,
};
pub use error::{Error, ErrorClass, Result};
pub use escaped::{escaped, escaped_lines};
pub use file::{AccessMode, File, Handle, OpenOptions, Pending, Plan, Split, Status};
pub use hints::{
    EffectiveHint, Environment, HintOrigin, HintReport, HintSet, Hints, IgnoredHint, Recording,
    Statistics, Strategy, Switch,
};
pub use log_to_stderr::log_to_stderr;
pub use request::Position;
pub use statistics::{Asked, CallStatistics, FileStatistics, Platform, ServedCalls, Summary};
pub use view::{Representation, View};
