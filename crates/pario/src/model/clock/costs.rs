//! What processors take for work that is neither a message nor an access of a device.

use crate::number::real;

/// Times of a processor; none by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Bandwidth of a core that copies.
    pub copy_bytes_per_s: f64,
    /// For each contiguous piece of a copy.
    pub copy_piece_us: f64,
    /// A call of the library: it is checked and planned.
    pub plan_us: f64,
    /// For each piece of a list of offsets, by the rank that makes the list and by one that reads
    /// it.
    pub list_piece_us: f64,
    /// A call of the system.
    pub call_us: f64,
    /// What the system copies in such a call, where that takes time besides the device.
    pub call_bytes_per_s: f64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            copy_bytes_per_s: f64::INFINITY,
            copy_piece_us: 0.0,
            plan_us: 0.0,
            list_piece_us: 0.0,
            call_us: 0.0,
            call_bytes_per_s: f64::INFINITY,
        }
    }
}

/// Work of a rank's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreWork {
    /// Bytes are copied, in this number of contiguous pieces.
    Copy {
        /// All bytes.
        bytes: u64,
        /// Their pieces.
        pieces: u64,
    },
    /// The library plans a call.
    Plan,
    /// Pieces are written to a list of offsets, or read from it.
    List {
        /// Entries of the list.
        pieces: u64,
    },
    /// The system is called to move bytes.
    Call {
        /// What it moves.
        bytes: u64,
    },
}

impl Costs {
    /// The time that some work takes.
    ///
    /// ```
    /// use pario::model::clock::{Costs, CoreWork};
    ///
    /// let costs = Costs { copy_bytes_per_s: 1e9, copy_piece_us: 0.5, ..Costs::default() };
    /// assert_eq!(costs.us(CoreWork::Copy { bytes: 4000, pieces: 10 }), 9.0);
    /// assert_eq!(costs.us(CoreWork::Call { bytes: 4000 }), 0.0);
    /// ```
    pub fn us(&self, work: CoreWork) -> f64 {
        match work {
            CoreWork::Copy { bytes, pieces } => {
                real(bytes) / self.copy_bytes_per_s * 1e6 + real(pieces) * self.copy_piece_us
            }
            CoreWork::Plan => self.plan_us,
            CoreWork::List { pieces } => real(pieces) * self.list_piece_us,
            CoreWork::Call { bytes } => self.call_us + real(bytes) / self.call_bytes_per_s * 1e6,
        }
    }
}
