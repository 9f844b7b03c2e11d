//! Random whole programs, and the file that they must produce.
//!
//! A [`Program`] is what ranks do with one file: open it, set views, read and write in every way
//! that pario has, move pointers, resize. It is made from a seed ([`Program::random`]), applied
//! to a plain vector of bytes by the [`oracle`], and run by real ranks ([`run::run`]), which
//! compare after every step. A program that fails is made small by [`reduce::smallest`].
//!
//! | file | concept |
//! | --- | --- |
//! | `draw` | random programs |
//! | `oracle` | what a program must do, byte by byte |
//! | `seen` | requests written out, byte by byte |
//! | `external` | the `external32` representation, byte by byte |
//! | `run` | ranks that run a program and compare |
//! | `actor` | one rank in one step |
//! | `memory` | the buffers of a program's calls |
//! | `barrier` | the barrier between steps |
//! | `device` | storage with fewer capabilities than memory has, or with a flaw; files |
//! | `reduce` | the smallest program that still fails |
//! | `print` | programs as text, one line a step |

mod actor;
mod barrier;
mod device;
mod draw;
mod external;
mod memory;
pub mod oracle;
mod print;
pub mod reduce;
pub mod run;
mod seen;

pub use device::Device;

use crate::recipe::Recipe;
use pario::AccessMode;
use std::io::SeekFrom;

/// What some ranks do with one file.
#[derive(Clone, Debug)]
pub struct Program {
    /// Decides the bytes in the file and in the buffers.
    pub seed: u64,
    /// Number of ranks.
    pub ranks: usize,
    /// How the file is opened.
    pub mode: AccessMode,
    /// What the file lies on.
    pub device: Device,
    /// Bytes in the file before it is opened; `None` if there is no file.
    pub initial_bytes: Option<usize>,
    /// Hints at the open.
    pub hints: Vec<(String, String)>,
    /// What is done then.
    pub steps: Vec<Step>,
}

/// What all ranks do before they compare.
#[derive(Clone, Debug)]
pub enum Step {
    /// Every rank sets its view.
    View(Views),
    /// Reads and writes that are under way together.
    Transfers(Vec<Transfer>),
    /// Every rank moves its own pointer.
    Seek(Vec<SeekFrom>),
    /// All ranks move the shared pointer.
    SeekShared(SeekFrom),
    /// The file is cut or extended.
    SetSize(u64),
    /// Room is made on the device.
    Preallocate(u64),
    /// Bytes go to the device.
    Sync,
    /// Atomic mode is switched.
    Atomicity(bool),
    /// More hints are given.
    Hints(Vec<(String, String)>),
}

/// The views of all ranks.
#[derive(Clone, Debug)]
pub struct Views {
    /// The unit of positions, the same on all ranks.
    pub etype: Recipe,
    /// Whether the file holds `external32`.
    pub external: bool,
    /// Displacement and filetype of each rank.
    pub ranks: Vec<(u64, Recipe)>,
}

/// One read or write of each rank.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Whether bytes go to the file.
    pub write: bool,
    /// Whether all ranks work together.
    pub collective: bool,
    /// Where it begins.
    pub pointer: Pointer,
    /// How it is called.
    pub call: Call,
    /// Whether the ranks go one after the other; only for independent calls.
    pub in_turns: bool,
    /// What each rank moves; `None` for a rank that stays out, or, in a collective, takes part
    /// with nothing.
    pub pieces: Vec<Option<Piece>>,
}

/// Which position a transfer begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// At [`Piece::at`].
    Explicit,
    /// At the rank's own pointer.
    Individual,
    /// At the shared pointer, in the order of the ranks.
    Shared,
}

/// How a transfer is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It returns when it is done.
    Blocking,
    /// It is waited for at the end of the step.
    Nonblocking,
    /// It is begun, and ended at the end of the step.
    Split,
    /// It is planned, and run so often.
    Planned(usize),
}

/// What one rank reads or writes in a transfer.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Position in etypes, for [`Pointer::Explicit`].
    pub at: u64,
    /// Number of values.
    pub count: u64,
    /// Their type in memory; `None` for plain bytes.
    pub memory: Option<Recipe>,
}

impl Program {
    /// The program that a seed gives.
    pub fn random(seed: u64) -> Program {
        draw::program(seed)
    }

    /// The same program with a hint added, at the open and after every change of hints.
    #[must_use]
    pub fn with_hint(&self, key: &str, value: &str) -> Program {
        let mut program = self.clone();
        let hint = (key.to_string(), value.to_string());
        program.hints.push(hint.clone());
        for step in &mut program.steps {
            if let Step::Hints(hints) = step {
                hints.push(hint.clone());
            }
        }
        program
    }

    fn initial(&self) -> Option<Vec<u8>> {
        self.initial_bytes.map(|len| noise(self.seed, len))
    }
}

impl Piece {
    fn typemap(&self) -> crate::typemap::Typemap {
        self.memory.as_ref().unwrap_or(&Recipe::Element(pario::Element::Byte)).typemap()
    }
}

/// Bytes that a seed decides.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut state = seed;
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend((mixed ^ (mixed >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
