//! A panic ends the job.
//!
//! The rank has left a collective in the middle, and the others wait for it. An error code would
//! let the program call MPI again, in another order than the others. So the rank prints what
//! happened, and ends all ranks.
//!
//! Rust's own panic hook has printed the place in the source before that.

use std::any::Any;
use std::ffi::c_int;
use std::fmt::Display;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::binding::Mpi;
use crate::universe::abort;

/// What a Rust program ends with after a panic.
pub(crate) const PANICKED: c_int = 101;

/// A launcher that is asked to end a job may drop what its ranks have just printed.
const PASSED_ON: Duration = Duration::from_millis(300);

/// Runs a part of pario; if it panics, ends all ranks.
pub(crate) fn end_the_job<T>(mpi: &Mpi, part: impl Display, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        report(mpi, part, text(&*panic));
        match mpi.is_active() {
            true => abort(mpi, PANICKED),
            false => std::process::exit(PANICKED),
        }
    })
}

/// Ends all ranks if this thread is unwinding from a panic: for what would wait for the others
/// before the panic is caught.
pub(crate) fn end_if_unwinding(mpi: &Mpi, part: &str) {
    if std::thread::panicking() {
        report(mpi, part, "the other ranks would wait for this one");
        abort(mpi, PANICKED);
    }
}

/// The same for a function that MPI calls, from which it cannot be called: only the process ends,
/// and the launcher ends the others.
pub(crate) fn end_the_process<T>(part: impl Display, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        if let Ok(mpi) = Mpi::get() {
            report(mpi, part, text(&*panic));
        }
        std::process::abort()
    })
}

fn report(mpi: &Mpi, part: impl Display, text: &str) {
    print(&line(rank(mpi), part, text));
    std::thread::sleep(PASSED_ON);
}

/// Prints a line on stderr, whatever logger the program has: what a rank says before it ends the
/// job, and what was asked for by name.
pub(crate) fn print(line: &str) {
    // A closed stderr cannot be reported. One write, so that lines do not mix.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn line(rank: Option<c_int>, part: impl Display, text: &str) -> String {
    let rank = rank.map_or(String::new(), |rank| format!("rank {rank}: "));
    format!("pario: {rank}a panic in {part} ends the job: {text}\n")
}

/// What was said when it began.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason was given")
}

/// This rank among all ranks of the job.
fn rank(mpi: &Mpi) -> Option<c_int> {
    let mut rank = -1;
    if mpi.is_active() {
        // SAFETY: MPI is active, and the place for the answer is valid.
        unsafe { (mpi.call.Comm_rank)(mpi.handle(mpi.abi.comm_world), &mut rank) };
    }
    (rank >= 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_rank_the_part_and_the_reason() {
        let panic = catch_unwind(|| panic!("{} is not two", 3)).unwrap_err();
        let expected = "pario: rank 7: a panic in MPI_File_sync ends the job: 3 is not two\n";
        assert_eq!(line(Some(7), "MPI_File_sync", text(&*panic)), expected);
        let panic = catch_unwind(|| panic!("plain")).unwrap_err();
        let expected = "pario: a panic in x ends the job: plain\n";
        assert_eq!(line(None, "x", text(&*panic)), expected);
    }
}
