//! The three binary interfaces that MPI libraries have, as tables of constants.
//!
//! `tables.rs` is generated (`cargo xtask abi`) from what each library's own `mpi.h` says; a test
//! prints the constants again with each `mpicc` and compares.
//!
//! Handles are `usize` wherever they go: MPICH's are 32-bit integers, which sit in the low half of
//! a register or of a zeroed `usize` (little-endian); the others' are pointers.

use std::sync::OnceLock;

/// The address of a variable of the library, as a handle.
macro_rules! symbol {
    ($name:literal) => {{
        static SYMBOL: $crate::abi::Symbol = $crate::abi::Symbol::new($name);
        $crate::abi::Handle::Symbol(&SYMBOL)
    }};
}

mod tables;

pub(crate) use tables::Abi;

/// A predefined handle: a number, or the address of a variable of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handle {
    Value(usize),
    Symbol(&'static Symbol),
}

/// A variable of the library, looked up when it is first needed.
#[derive(Debug)]
pub(crate) struct Symbol {
    name: &'static str,
    address: OnceLock<usize>,
}

impl Symbol {
    const fn new(name: &'static str) -> Symbol {
        Symbol { name, address: OnceLock::new() }
    }

    /// The variable's address, which `find` is asked for once.
    pub(crate) fn address(&self, find: impl FnOnce(&str) -> usize) -> usize {
        *self.address.get_or_init(|| find(self.name))
    }
}

/// Which interface a library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// MPICH and its relatives.
    Mpich,
    /// Open MPI.
    OpenMpi,
    /// The interface that the MPI-5 standard defines.
    Standard,
}

impl Family {
    /// A name for it, as profiles have it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Mpich => "mpich",
            Family::OpenMpi => "openmpi",
            Family::Standard => "mpi",
        }
    }

    pub(crate) fn table(self) -> &'static Abi {
        match self {
            Family::Mpich => &tables::MPICH,
            Family::OpenMpi => &tables::OPENMPI,
            Family::Standard => &tables::STANDARD,
        }
    }
}
