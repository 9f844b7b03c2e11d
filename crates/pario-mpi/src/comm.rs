//! A communicator over MPI.
//!
//! It is a duplicate of the user's communicator with an error handler that returns, so that no
//! message and no error of pario's meets one of the program's. `messages` carries the messages.
//! Which ranks share a node is found out once, when it is made.
//!
//! Ranks of one node share some numbers in memory (`shared`); where there are several nodes, the
//! shared counter is a window of MPI.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pario::comm::{GateLine, Message, Tag, Task};
use pario::{Communicator, Error, ErrorClass, Result};

use crate::binding::Mpi;
use crate::counter::Counter;
use crate::messages::{Messages, PIECE_BYTES};
use crate::progress;
use crate::shared::{Place, SharedLines};

/// The ranks of an MPI communicator.
///
/// A program that starts MPI by itself uses [`initialize`](crate::initialize) and
/// [`Universe::world`](crate::Universe::world). Where somebody else has started it, the world is
/// taken as it is:
///
/// ```no_run
/// use pario::{Communicator, File};
/// use pario_mpi::MpiCommunicator;
///
/// # fn main() -> pario::Result<()> {
/// let world = MpiCommunicator::world()?;
/// let file = File::options().write(true).create(true).open(&*world, "ranks.dat")?;
/// file.write_all(u64::from(world.rank()) * 4, &world.rank().to_le_bytes()[..])?;
/// file.close()
/// # }
/// ```
///
/// It may be used from several threads at once only if MPI was initialised for
/// `MPI_THREAD_MULTIPLE`, as [`initialize`](crate::initialize) does.
pub struct MpiCommunicator {
    mpi: &'static Mpi,
    comm: usize,
    /// Whether the MPI communicator is this value's own, to be freed with it.
    owned: bool,
    rank: u32,
    size: u32,
    nodes: Vec<u32>,
    /// On how many nodes a test pretends to be.
    pretended_nodes: Option<u32>,
    counter: Option<Counter>,
    messages: Messages,
}

/// An error if an MPI function failed.
pub(crate) fn check(code: c_int, what: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::new(ErrorClass::Other, format!("{what} failed with MPI error {code}"))),
    }
}

/// A communicator handle as C and the crate `mpi` have it: a number in MPICH and its relatives,
/// an address elsewhere.
pub trait RawCommunicator {
    /// The handle as pario passes it on.
    fn to_word(self) -> usize;
}

impl RawCommunicator for c_int {
    fn to_word(self) -> usize {
        // Handles of MPICH use all 32 bits; they sit in the low half of a word.
        usize::try_from(u32::from_ne_bytes(self.to_ne_bytes())).unwrap_or(0)
    }
}

impl<T> RawCommunicator for *mut T {
    fn to_word(self) -> usize {
        self.addr()
    }
}

impl RawCommunicator for usize {
    fn to_word(self) -> usize {
        self
    }
}

impl MpiCommunicator {
    /// The world of a program in which MPI has been initialised, by whomever. All ranks call it.
    ///
    /// # Errors
    /// `Other` if no MPI library is loaded, or it is not initialised.
    pub fn world() -> Result<Arc<MpiCommunicator>> {
        let mpi = Mpi::get().map_err(|reason| Error::new(ErrorClass::Other, reason))?;
        // SAFETY: the world is a valid communicator while MPI is active, which is checked.
        unsafe { MpiCommunicator::from_raw(mpi.handle(mpi.abi.comm_world)) }
    }

    /// A duplicate of any communicator, such as one of the crate `mpi`. All its ranks call this.
    ///
    /// ```text
    /// use mpi::raw::AsRaw;
    /// let universe = mpi::initialize().unwrap();
    /// let world = universe.world();
    /// let comm = unsafe { pario_mpi::MpiCommunicator::from_raw(world.as_raw().0) }?;
    /// let file = pario::File::options().read(true).open(&*comm, "data")?;
    /// ```
    ///
    /// # Safety
    /// `comm` is a valid communicator handle of the MPI library in this process. It may be freed
    /// afterwards.
    ///
    /// # Errors
    /// `Other` if no MPI library is loaded, or it is not initialised; `Arg` for the null
    /// communicator and for intercommunicators.
    pub unsafe fn from_raw(comm: impl RawCommunicator) -> Result<Arc<MpiCommunicator>> {
        let mpi = Mpi::get().map_err(|reason| Error::new(ErrorClass::Other, reason))?;
        if !mpi.is_active() {
            return Err(Error::new(ErrorClass::Other, "MPI is not initialised, or finalised"));
        }
        let comm = comm.to_word();
        if comm == mpi.handle(mpi.abi.comm_null) {
            return Err(Error::new(ErrorClass::Arg, "the communicator is MPI_COMM_NULL"));
        }
        let mut inter = 0;
        // SAFETY: the handle is valid, as the caller says.
        check(unsafe { (mpi.call.Comm_test_inter)(comm, &mut inter) }, "MPI_Comm_test_inter")?;
        if inter != 0 {
            return Err(Error::new(ErrorClass::Arg, "files need an intracommunicator"));
        }
        Ok(Arc::new(MpiCommunicator::borrow(mpi, comm)?.own_duplicate()?))
    }

    /// A duplicate that pretends that its ranks run on so many nodes, at least one, each with a
    /// range of neighbouring ranks; all ranks call it with the same number. What ranks of
    /// different nodes do can so be tested on one.
    ///
    /// # Errors
    /// As [`Communicator::duplicate`].
    pub fn with_nodes(&self, nodes: u32) -> Result<Arc<MpiCommunicator>> {
        self.duplicate_as(self.messages.piece_bytes, Some(nodes)).map(Arc::new)
    }

    /// A duplicate that sends messages in pieces of so many bytes, at least one; all ranks call it
    /// with the same number. MPI counts bytes in an `int`, so long messages must be divided; this
    /// lets a test see that without sending gigabytes.
    ///
    /// # Errors
    /// As [`Communicator::duplicate`].
    pub fn with_piece_bytes(&self, bytes: usize) -> Result<Arc<MpiCommunicator>> {
        self.duplicate_as(bytes, self.pretended_nodes).map(Arc::new)
    }

    /// A communicator to be duplicated, with nothing of its own.
    pub(crate) fn borrow(mpi: &'static Mpi, comm: usize) -> Result<MpiCommunicator> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the handle is valid, as the callers say.
        unsafe {
            check((mpi.call.Comm_rank)(comm, &mut rank), "MPI_Comm_rank")?;
            check((mpi.call.Comm_size)(comm, &mut size), "MPI_Comm_size")?;
        }
        let number = |value: c_int| u32::try_from(value).unwrap_or(0);
        Ok(MpiCommunicator {
            mpi,
            comm,
            owned: false,
            rank: number(rank),
            size: number(size),
            nodes: vec![0; number(size) as usize],
            pretended_nodes: None,
            counter: None,
            messages: Messages::new(mpi, comm, number(rank)),
        })
    }

    fn own_duplicate(&self) -> Result<MpiCommunicator> {
        self.duplicate_as(self.messages.piece_bytes, self.pretended_nodes)
    }

    fn duplicate_as(
        &self,
        piece_bytes: usize,
        pretended_nodes: Option<u32>,
    ) -> Result<MpiCommunicator> {
        let mpi = self.mpi;
        let mut comm = 0;
        // SAFETY: the communicator is valid, and all ranks call this.
        unsafe {
            check((mpi.call.Comm_dup)(self.comm, &mut comm), "MPI_Comm_dup")?;
            let handler = mpi.handle(mpi.abi.errors_return);
            check((mpi.call.Comm_set_errhandler)(comm, handler), "MPI_Comm_set_errhandler")?;
        }
        let mut duplicate = MpiCommunicator::borrow(mpi, comm)?;
        duplicate.owned = true;
        duplicate.messages.piece_bytes = piece_bytes.clamp(1, PIECE_BYTES);
        duplicate.pretended_nodes = pretended_nodes;
        let ranks = self.size as usize;
        let segment = (ranks > 1 && self.rank == 0).then(|| SharedLines::segment(ranks)).flatten();
        let mut place = Place::of_this_process(segment.as_ref());
        if let Some(nodes) = pretended_nodes {
            place.host = u64::from(self.rank / self.size.div_ceil(nodes.clamp(1, self.size)));
        }
        let places = duplicate.gather_places(place)?;
        duplicate.nodes = nodes(&places);
        let lines = duplicate.share_lines(segment.as_ref(), &places)?;
        duplicate.counter = Some(Counter::new(mpi, comm, self.size, lines)?);
        Ok(duplicate)
    }

    /// The memory that all ranks share, if they run on one node and all of them can map it.
    fn share_lines(&self, own: Option<&File>, places: &[Place]) -> Result<Option<SharedLines>> {
        let owner = places[0];
        if places.len() == 1 || places.iter().any(|place| place.host != owner.host) {
            return Ok(None);
        }
        let lines = SharedLines::map(own, owner, places.len());
        let mut answer = owner;
        answer.host = u64::from(lines.is_some());
        let all = self.gather_places(answer)?.iter().all(|answer| answer.host == 1);
        Ok(lines.filter(|_| all))
    }

    /// What every rank must know of every other.
    fn gather_places(&self, own: Place) -> Result<Vec<Place>> {
        let mut places = vec![Place::default(); self.size as usize];
        let bytes = c_int::try_from(size_of::<Place>()).unwrap_or(0);
        let byte = self.mpi.handle(self.mpi.abi.byte);
        let (from, to) = ((&raw const own).cast::<c_void>(), places.as_mut_ptr().cast());
        // SAFETY: a `Place` is plain bytes, and there is room for one of each rank.
        let code =
            unsafe { (self.mpi.call.Allgather)(from, bytes, byte, to, bytes, byte, self.comm) };
        check(code, "MPI_Allgather")?;
        Ok(places)
    }
}

impl Communicator for MpiCommunicator {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn node(&self, rank: u32) -> u32 {
        self.nodes[rank as usize]
    }

    fn shares_memory(&self, rank: u32) -> bool {
        rank == self.rank
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        Ok(Arc::new(self.own_duplicate()?))
    }

    fn send(&self, to: u32, tag: Tag, message: Message) -> Result<()> {
        self.messages.send(to, tag, message).map_err(|error| error.on_rank(self.rank))
    }

    fn poll_receive(
        &self,
        from: u32,
        tag: Tag,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Message>> {
        self.messages.poll_receive(from, tag).map_err(|error| error.on_rank(self.rank))
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        self.counter.as_ref().ok_or_else(no_counter)?.add(delta)
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        self.counter.as_ref().ok_or_else(no_counter)?.set(value)
    }

    fn gate(&self) -> Option<&[GateLine]> {
        self.counter.as_ref()?.gate()
    }

    fn spawn(&self, task: Task) {
        progress::spawn(self.mpi, task);
    }

    fn block_on(&self, mut task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        let mut context = Context::from_waker(Waker::noop());
        while task.as_mut().poll(&mut context).is_pending() {
            progress::poll();
            self.messages.finish_sends();
            // Ranks often share a core; whoever waits makes room.
            std::thread::yield_now();
        }
    }
}

fn no_counter() -> Error {
    Error::new(ErrorClass::Intern, "only a duplicated communicator has a counter")
}

impl Drop for MpiCommunicator {
    fn drop(&mut self) {
        if !self.owned || !self.mpi.is_active() {
            return;
        }
        self.messages.finish();
        self.counter = None;
        // SAFETY: this value made the communicator, and nobody uses it any more.
        unsafe { (self.mpi.call.Comm_free)(&mut self.comm) };
    }
}

/// Nodes numbered from 0 in the order of their first ranks.
fn nodes(places: &[Place]) -> Vec<u32> {
    let mut hosts: Vec<u64> = Vec::new();
    let mut number = |host: u64| match hosts.iter().position(|&known| known == host) {
        Some(index) => index,
        None => {
            hosts.push(host);
            hosts.len() - 1
        }
    };
    places.iter().map(|place| u32::try_from(number(place.host)).unwrap_or(u32::MAX)).collect()
}
