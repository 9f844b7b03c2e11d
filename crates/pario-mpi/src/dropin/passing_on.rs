//! Whether all ranks pass their calls on to the MPI library's own MPI-IO.
//!
//! `PARIO_DISABLE` is read by every process for itself. Ranks that pass the open of a file on and
//! ranks that serve it would wait for each other for ever. So a rank that passes calls on joins the
//! first step in which ranks that serve them make a duplicate of the program's communicator
//! (`node::meet`), and where ranks differ, the open fails on all of them.
//!
//! Cost: nothing for ranks that serve calls, where the answer is part of what they say anyway. The
//! others make a duplicate and a gather for the first open on each communicator.

use std::ffi::{c_char, c_int};

use pario::Result;

use super::{errors, files, manage};
use crate::binding::Mpi;
use crate::comm::MpiCommunicator;
use crate::panics;

/// The outcome of MPI_File_open on a rank that passes calls on, if the library must not be asked.
///
/// # Safety
/// The arguments are those of the MPI call.
pub(super) unsafe fn refuse_open(
    comm: usize,
    _name: *const c_char,
    _amode: c_int,
    _info: usize,
    out: *mut usize,
) -> Option<c_int> {
    let mpi = Mpi::get().ok().filter(|mpi| mpi.is_active())?;
    let error = panics::end_the_job(mpi, "MPI_File_open", || {
        // What is wrong with the communicator, the library finds as well.
        let ranks = manage::communicator(mpi, comm).ok()?;
        agree(&ranks).err()
    })?;
    // SAFETY: the program passes room for a file handle, or null.
    unsafe { manage::write_to(out, files::null(mpi)) };
    Some(errors::raise(mpi, None, &error))
}

/// An error on all ranks of a communicator unless all of them pass calls on.
fn agree(ranks: &MpiCommunicator) -> Result<()> {
    if !ranks.pool.all_pass_on() {
        ranks.agree_to_pass_on()?;
        ranks.pool.note_all_pass_on();
    }
    Ok(())
}
