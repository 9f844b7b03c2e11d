//! A communicator over MPI.
//!
//! It is a duplicate of the user's communicator with an error handler that returns, so that
//! messages and errors of pario's stay apart from the program's. Which ranks share a node is
//! found out once, when it is made.
//!
//! Messages between ranks of one node go through memory that they share (`node`), all others
//! through MPI (`messages`). Where there are several nodes, rank 0 keeps the shared counter.
//!
//! Files of one node use duplicates that are kept from file to file (`kept`).
//!
//! An error of either is one of all ranks (`failure`); the communicator is not used after it.

use std::ffi::c_int;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pario::comm::collective::{all_gather, barrier};
use pario::comm::{Condition, Group, Region, Tag, Task, Watchdog, block_on};
use pario::{Communicator, Error, ErrorClass, Result};

use crate::binding::Mpi;
use crate::counter::{self, Counter};
use crate::failure::{Failure, of_transport};
use crate::kept::{Counted, Pool};
use crate::messages::{EAGER_BYTES, Messages, PIECE_BYTES};
use crate::node::traffic::Traffic;
use crate::node::{self, Answer, Gather, Place, Stream};
use crate::wait::{self, Asked, ByMpi};
use crate::{panics, progress};

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
    group: Group,
    watchdog: Watchdog,
    /// On how many nodes a test pretends to be.
    pretended_nodes: Option<u32>,
    counter: Option<Counter>,
    /// Messages between ranks of one node.
    traffic: Option<Arc<Traffic>>,
    /// All others.
    messages: Messages,
    /// Whether there are others.
    by_mpi: Option<ByMpi>,
    failure: Arc<Failure>,
    /// Whether tasks of all ranks go on while their programs wait inside MPI.
    pub(crate) all_go_on: bool,
    /// Duplicates for files.
    pub(crate) pool: Arc<Pool>,
    /// Whether all ranks have agreed that it may be kept for other files.
    keeps: bool,
    /// Counts it if it is.
    pub(crate) counted: Option<Counted>,
}

/// The turn of messages outside of all turns.
const OUTSIDE: u32 = 0;
/// The number of the last call on a communicator: its end.
const LAST_CALL: u64 = u64::MAX;

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
        Ok(Arc::new(MpiCommunicator::borrow(mpi, comm)?.own_duplicate(false)?))
    }

    /// A duplicate that pretends that its ranks run on this number of nodes, at least one, each
    /// with a range of neighbouring ranks; all ranks call it with the same number. So one node can
    /// test what ranks of several nodes do.
    ///
    /// # Errors
    /// As [`Communicator::duplicate`].
    pub fn with_nodes(&self, nodes: u32) -> Result<Arc<MpiCommunicator>> {
        self.duplicate_as(self.messages.piece_bytes, Some(nodes), false).map(Arc::new)
    }

    /// A duplicate that sends messages in pieces of this size, at least one byte; all ranks call it
    /// with the same number. MPI counts bytes in an `int`, so long messages must be divided; this
    /// lets a test see that without sending gigabytes.
    ///
    /// # Errors
    /// As [`Communicator::duplicate`].
    pub fn with_piece_bytes(&self, bytes: usize) -> Result<Arc<MpiCommunicator>> {
        self.duplicate_as(bytes, self.pretended_nodes, false).map(Arc::new)
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
            group: Group {
                handle: comm,
                rank: number(rank),
                // Until it is known, each is on a node of its own.
                nodes: (0..number(size)).collect(),
                cores: vec![1],
                transport: mpi.family.name(),
            },
            watchdog: Watchdog::default(),
            pretended_nodes: None,
            counter: None,
            traffic: None,
            messages: Messages::new(mpi, comm, number(rank)),
            by_mpi: None,
            failure: Arc::new(Failure::new(mpi, comm)),
            all_go_on: false,
            pool: Pool::new(false),
            keeps: false,
            counted: None,
        })
    }

    /// A new duplicate, and whether this rank could keep it.
    pub(crate) fn own_duplicate(&self, keeps: bool) -> Result<MpiCommunicator> {
        self.duplicate_as(self.messages.piece_bytes, self.pretended_nodes, keeps)
    }

    /// Whether all ranks keep it, and no message comes by MPI.
    pub(crate) fn is_kept(&self) -> bool {
        self.keeps && self.by_mpi.is_none()
    }

    /// An error on all ranks where some of them pass their calls on to the MPI library's own MPI-IO
    /// and others do not. This one does.
    pub(crate) fn agree_to_pass_on(&self) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        node::same_choice(&self.bare_duplicate()?.places(Place::of_one_that_passes_on())?)
    }

    /// A duplicate whose ranks know nothing of each other.
    fn bare_duplicate(&self) -> Result<MpiCommunicator> {
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
        duplicate.by_mpi = Some(ByMpi::new());
        Ok(duplicate)
    }

    fn duplicate_as(
        &self,
        piece_bytes: usize,
        pretended_nodes: Option<u32>,
        keeps: bool,
    ) -> Result<MpiCommunicator> {
        let mpi = self.mpi;
        let mut duplicate = self.bare_duplicate()?;
        duplicate.pool = Pool::new(true);
        duplicate.messages.piece_bytes = piece_bytes.clamp(1, PIECE_BYTES);
        duplicate.pretended_nodes = pretended_nodes;
        let pretended = pretended_nodes.map(|nodes| {
            u64::from(self.rank() / self.size().div_ceil(nodes.clamp(1, self.size())))
        });
        let own =
            node::Own { rank: self.rank(), size: self.size(), pretended_host: pretended, keeps };
        let node = node::meet(mpi, &own, &duplicate)?;
        let own = node.numbers[self.rank() as usize];
        let (neighbours, cores) =
            (node.numbers.iter().filter(|&&one| one == own).count(), node.cores[own as usize]);
        wait::note_neighbours(neighbours, cores);
        (duplicate.group.cores, duplicate.keeps) = (node.cores, node.keeps);
        duplicate.all_go_on = node.all_go_on;
        if node.is_split {
            // The same on all ranks, and before any message that it concerns.
            duplicate.messages.piece_bytes = piece_bytes.clamp(1, EAGER_BYTES);
        }
        let ranks = counter::Ranks {
            asked: duplicate.asked(),
            size: self.size(),
            failure: &duplicate.failure,
            is_served: node.first_goes_on,
        };
        duplicate.counter = Some(Counter::new(&ranks, node.lines)?);
        duplicate.traffic = node.traffic;
        duplicate.group.nodes = node.numbers;
        let by_mpi = |rank| rank != self.rank() && !duplicate.goes_by_node(rank);
        duplicate.by_mpi = (0..self.size()).any(by_mpi).then(ByMpi::new);
        Ok(duplicate)
    }

    /// Whether messages to and from a rank go through memory of the node.
    fn goes_by_node(&self, rank: u32) -> bool {
        self.traffic.as_ref().is_some_and(|traffic| traffic.reaches(rank))
    }

    fn asked(&self) -> Asked {
        Asked { mpi: self.mpi, comm: self.comm, rank: self.rank() }
    }

    /// What every rank says, by rank.
    ///
    /// # Safety
    /// `T` is plain bytes, and any are valid.
    unsafe fn gather<T: Copy>(&self, call: u64, own: T) -> Result<Vec<T>> {
        let bytes = size_of::<T>();
        // SAFETY: as the caller says.
        let own = unsafe { std::slice::from_raw_parts((&raw const own).cast::<u8>(), bytes) };
        let all = all_gather(self, call, own.to_vec());
        let parse = |one: Vec<u8>| match one.len() == bytes {
            // SAFETY: as the caller says; there are as many bytes as it takes.
            true => Ok(unsafe { one.as_ptr().cast::<T>().read_unaligned() }),
            false => {
                Err(Error::new(ErrorClass::Intern, "ranks are of different versions of pario"))
            }
        };
        block_on(self, all)?.into_iter().map(parse).collect()
    }

    /// One number of every rank, by rank, outside of all turns.
    pub(crate) fn gather_numbers(&self, call: u64, own: u64) -> Result<Vec<u64>> {
        // SAFETY: a number is its bytes.
        unsafe { self.gather(call, own) }
    }

    /// Begins a turn, on all ranks; the one before it is over on all of them.
    pub(crate) fn begin_turn(&self, turn: u32) {
        if let Some(counter) = &self.counter {
            counter.begin_turn(turn, self.rank());
        }
    }

    /// Ends a turn on this rank; whether there may be another one.
    pub(crate) fn end_turn(&self, turn: u32) -> bool {
        if !self.mpi.is_active() {
            return false;
        }
        panics::end_if_unwinding(self.mpi, "a rank with an open file");
        if let Some(traffic) = &self.traffic {
            self.asked().until(|_| traffic.is_finished() || self.failed().is_some());
            traffic.end_turn(turn);
        }
        self.messages.forget_own();
        self.failed().is_none()
    }

    /// Sends a message of a turn.
    pub(crate) fn send_in(&self, turn: u32, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        if let Some(error) = self.failed() {
            return Err(error);
        }
        let sent = match &self.traffic {
            Some(traffic) if traffic.reaches(to) => traffic.send(to, Stream { turn, tag }, bytes),
            _ => self.messages.send(to, tag, bytes),
        };
        sent.map_err(|error| self.fail(&error))
    }

    /// Takes the next message of a turn, if it is here.
    pub(crate) fn poll_receive_in(&self, turn: u32, from: u32, tag: Tag) -> Poll<Result<Vec<u8>>> {
        if let Some(error) = self.failed() {
            return Poll::Ready(Err(error));
        }
        let polled = match &self.traffic {
            Some(traffic) if traffic.reaches(from) => {
                traffic.poll_receive(from, Stream { turn, tag })
            }
            _ => self.messages.poll_receive(from, tag),
        };
        if polled.is_pending() && self.by_mpi.is_some() {
            match self.failure.look() {
                Ok(None) => return Poll::Pending,
                Ok(Some(error)) => return Poll::Ready(Err(self.learn(error))),
                Err(error) => return Poll::Ready(Err(self.fail(&error))),
            }
        }
        if polled.is_ready() {
            wait::note_message();
        }
        polled.map_err(|error| self.fail(&error))
    }

    /// The error of the transport, if this rank knows of one.
    fn failed(&self) -> Option<Error> {
        let told = || {
            let (rank, text) = self.traffic.as_ref()?.failure()?;
            Some(self.learn(of_transport(rank, &text)))
        };
        self.failure.known().or_else(told)
    }

    /// Remembers an error of the transport that another rank has reported.
    fn learn(&self, error: Error) -> Error {
        let error = self.failure.learn(error);
        if let Some(traffic) = &self.traffic {
            traffic.tell_failure(error.rank().unwrap_or(self.rank()), error.text());
        }
        error
    }

    /// Notifies all ranks of an error of the transport that this one has got.
    fn fail(&self, error: &Error) -> Error {
        let error = of_transport(self.rank(), error.text());
        if !self.failure.meet(&error) {
            return self.failed().unwrap_or(error);
        }
        let others = (0..self.size()).filter(|&rank| rank != self.rank());
        let by_mpi: Vec<u32> = others.filter(|&rank| !self.goes_by_node(rank)).collect();
        self.failure.tell(self.rank(), error.text(), &by_mpi);
        self.learn(error)
    }
}

impl Gather for MpiCommunicator {
    fn places(&self, own: Place) -> Result<Vec<Place>> {
        // SAFETY: a place is numbers without gaps between them.
        unsafe { self.gather(0, own) }
    }

    fn answers(&self, own: Answer) -> Result<Vec<Answer>> {
        // SAFETY: as above.
        unsafe { self.gather(0, own) }
    }
}

impl Communicator for MpiCommunicator {
    fn group(&self) -> &Group {
        &self.group
    }

    fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        self.pool.duplicate(self)
    }

    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        self.send_in(OUTSIDE, to, tag, bytes)
    }

    fn poll_receive(
        &self,
        from: u32,
        tag: Tag,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Vec<u8>>> {
        self.poll_receive_in(OUTSIDE, from, tag)
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        let added = self.counter.as_ref().ok_or_else(no_counter)?.add(delta);
        added.map_err(|error| self.fail(&error))?
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        let set = self.counter.as_ref().ok_or_else(no_counter)?.set(value);
        set.map_err(|error| self.fail(&error))
    }

    fn region(&self) -> Option<&Region> {
        self.traffic.as_ref()?.region()
    }

    fn poll_until(
        &self,
        condition: &mut dyn Condition,
        _context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        // A rank that waits hears the doorbell, and asks again before it sleeps.
        if !condition.is_so() {
            return self.failed().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
        }
        wait::note_progress();
        Poll::Ready(Ok(()))
    }

    fn wake(&self, rank: u32) {
        if let Some(traffic) = &self.traffic {
            traffic.wake(rank);
        }
    }

    fn spawn(&self, task: Task) {
        progress::spawn(self.mpi, task);
    }

    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        self.asked().block_on(task);
    }
}

impl MpiCommunicator {
    /// Ends a communicator whose transport has failed: nobody waits for anything, and what MPI or
    /// other ranks may still use stays. The communicator of MPI is not freed, since that takes all
    /// ranks.
    fn abandon(&mut self) {
        if let Some(traffic) = self.traffic.take() {
            traffic.depart();
        }
        self.messages.abandon();
        if let Some(counter) = self.counter.take() {
            counter.abandon();
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
        panics::end_if_unwinding(self.mpi, "a rank with an open file");
        if self.counter.as_ref().is_some_and(Counter::is_at_rank_0) {
            // Rank 0 answers until nobody asks. After a failure nobody waits for it.
            let _ = block_on(&*self, barrier(&*self, LAST_CALL));
        }
        if self.failed().is_some() {
            return self.abandon();
        }
        if let Some(traffic) = self.traffic.take() {
            self.asked().until(|_| traffic.is_finished());
            traffic.depart();
        }
        self.messages.finish();
        self.counter = None;
        // SAFETY: this value made the communicator, and nobody uses it any more.
        unsafe { (self.mpi.call.Comm_free)(&mut self.comm) };
    }
}
