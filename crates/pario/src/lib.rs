//! Parallel I/O for programs that run as many ranks.
//!
//! Many ranks of one program write and read one file, each its own small scattered pieces. pario
//! makes that mostly less than twice as slow as moving the same bytes in one piece. It compiles
//! MPI's datatypes and views to loops instead of lists. Every rank computes the others' shares from
//! these loops. One executor carries every strategy out.
//!
//! Five types make a program:
//!
//! | type | what it is |
//! | --- | --- |
//! | [`File`] | a file that all ranks have open; its reads and writes |
//! | [`Datatype`] | where the bytes of a value lie, in memory or in a file |
//! | [`View`] | what one rank sees of the file |
//! | [`Position`] | where in the view a call begins |
//! | [`Communicator`] | the ranks: [`Threads`], [`Solo`], [`Simulated`], or `MpiCommunicator` |
//!
//! [`Threads`] are ranks of one process, [`Solo`] is one rank, [`Simulated`] ranks run in one
//! thread in an order that a seed decides. `MpiCommunicator` is in the crate `pario-mpi`: its
//! ranks are the processes of an MPI job.
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
//!
//! What they take and give back:
//!
//! | for | see |
//! | --- | --- |
//! | memory | slices of numbers as they are; [`Source`] and [`Target`] for anything else |
//! | structs in memory | [`trait@Record`], with a derive macro |
//! | memory of non-blocking calls | [`OwnedBuffer`]: `Vec`, [`Records`], [`Typed`] |
//! | types | [`Elementary`], [`Element`], [`Order`], [`Field`], [`Darray`], [`Representation`] |
//! | opening | [`OpenOptions`], [`AccessMode`] |
//! | outcomes | [`Status`], [`Result`], [`Error`], [`ErrorClass`] |
//! | non-blocking and planned calls | [`Pending`], [`Split`], [`Plan`]; futures: [`Handle`] |
//! | hints | [`HintSet`], [`Strategy`]; [`HintReport`] says what became of them |
//! | what calls did | [`CallStatistics`], [`FileStatistics`], [`Summary`] |
//! | texts for people | [`log_to_stderr()`], [`escaped()`], [`escaped_lines()`] |
//!
//! The modules are in the order of a call:
//!
//! | step | module | what |
//! | --- | --- | --- |
//! | | [`mod@file`] | the user's call: [`File::write_all`] |
//! | 1 | `request` | what was asked, checked |
//! | 2 | [`access`] | which bytes of memory are which of the file |
//! | 3 | [`plan`] | who does what, in which round; pure data |
//! | 4 | `exchange` | carries the rounds out between the ranks |
//! | 5 | [`storage`] | bytes on a device, and drivers for them |
//!
//! [`datatype`] and [`comm`] support steps 1 to 4; [`hints`], [`error`] and [`statistics`] serve
//! all. Three more are for tools:
//!
//! * [`model`] has what predictions need: the costs of a machine, and a clock for described ones.
//! * [`plan`] plans calls that are only described, too, in every way, and predicts their times.
//! * [`own_file`] opens the files that pario reads and writes for itself, so that nobody waits.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("pario runs on 64-bit Linux: it relies on its system calls and on 64-bit lengths");

pub mod access;
pub mod comm;
pub mod datatype;
mod direction;
pub mod error;
mod escaped;
mod exchange;
pub mod file;
pub mod hints;
mod log_to_stderr;
pub mod model;
mod number;
pub mod own_file;
pub mod plan;
mod request;
pub mod statistics;
pub mod storage;
mod view;
mod virtual_time;

// The types of every program have their pages at the root.
#[doc(inline)]
pub use comm::{Communicator, Simulated, Solo, Threads};
#[doc(inline)]
pub use datatype::Datatype;
#[doc(inline)]
pub use file::File;
pub use request::Position;
pub use view::View;

// Memory and datatypes.
#[doc(inline)]
pub use access::Record;
pub use access::{OwnedBuffer, Records, Source, Target, Typed};
pub use datatype::{Darray, DarrayDimension, Distribution, Element, Elementary, Field, Order};
#[cfg(feature = "derive")]
#[doc(inline)]
pub use pario_derive::Record;
pub use view::Representation;

// Calls and their outcomes.
pub use error::{Error, ErrorClass, Result};
pub use file::{AccessMode, Handle, OpenOptions, Pending, Plan, Split, Status};

// Tuning, and what calls did.
pub use hints::{
    EffectiveHint, Environment, HintOrigin, HintReport, HintSet, Hints, IgnoredHint, Recording,
    Statistics, Strategy, Switch,
};
pub use statistics::{Asked, CallStatistics, FileStatistics, Platform, ServedCalls, Summary};

// Texts for people.
pub use escaped::{escaped, escaped_lines};
pub use log_to_stderr::log_to_stderr;
