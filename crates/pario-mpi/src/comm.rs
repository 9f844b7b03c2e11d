//! A communicator over MPI.
//!
//! Messages are `MPI_Isend` and `MPI_Improbe`/`MPI_Mrecv` on a duplicate of the user's
//! communicator, with its own error handler. A message longer than [`PIECE_BYTES`] travels in
//! pieces: a piece of exactly that length says that another one follows.
//!
//! The shared counter lies in anonymous memory of rank 0 that the other ranks of its node map when
//! they first need it; between nodes it is a window of MPI.

use std::ffi::{c_int, c_void};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pario::comm::{Message, Tag, Task};
use pario::{Communicator, Error, ErrorClass, Result};

use crate::binding::Mpi;
use crate::counter::{Counter, Place};
use crate::progress;

/// Longest single message of MPI.
const PIECE_BYTES: usize = 1 << 30;
/// Calls whose messages may be on their way at the same time: tags up to 32767 always exist.
const CALLS: u64 = 8192;

/// What has arrived of a long message, with its sender and tag.
type Partial = ((u32, Tag), Vec<u8>);

/// The ranks of an MPI communicator.
pub struct MpiCommunicator {
    mpi: &'static Mpi,
    comm: usize,
    /// Whether the MPI communicator is this value's own, to be freed with it.
    owned: bool,
    rank: u32,
    size: u32,
    nodes: Vec<u32>,
    counter: Option<Counter>,
    /// Messages that MPI has not sent yet.
    sending: Mutex<Vec<(usize, Vec<u8>)>>,
    /// Pieces of long messages that have arrived.
    partial: Mutex<Vec<Partial>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error if an MPI function failed.
fn check(code: c_int, what: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::new(ErrorClass::Other, format!("{what} failed with MPI error {code}"))),
    }
}

/// Room for a status of any MPI library.
#[repr(C, align(8))]
pub(crate) struct StatusRoom([u8; 64]);

impl StatusRoom {
    pub(crate) fn new() -> StatusRoom {
        StatusRoom([0; 64])
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

impl MpiCommunicator {
    /// The world of a program that `mpirun` started and that has called `MPI_Init`.
    ///
    /// # Errors
    /// `Other` if no MPI library is loaded, or it is not initialised.
    pub fn world() -> Result<Arc<MpiCommunicator>> {
        let mpi = Mpi::get().map_err(|reason| Error::new(ErrorClass::Other, reason))?;
        // SAFETY: the world is a valid communicator while MPI is active, which is checked.
        unsafe { MpiCommunicator::from_raw(mpi.handle(mpi.abi.comm_world)) }
    }

    /// Any communicator, such as one of the `mpi` crate (`AsRaw::as_raw`, as a number).
    ///
    /// # Safety
    /// `comm` is a valid communicator handle of the MPI library in this process, and stays one as
    /// long as the value lives.
    ///
    /// # Errors
    /// `Other` if no MPI library is loaded, or it is not initialised.
    pub unsafe fn from_raw(comm: usize) -> Result<Arc<MpiCommunicator>> {
        let mpi = Mpi::get().map_err(|reason| Error::new(ErrorClass::Other, reason))?;
        if !mpi.is_active() {
            return Err(Error::new(ErrorClass::Other, "MPI is not initialised, or finalised"));
        }
        Ok(Arc::new(MpiCommunicator::borrow(mpi, comm)?))
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
            counter: None,
            sending: Mutex::default(),
            partial: Mutex::default(),
        })
    }

    fn byte(&self) -> usize {
        self.mpi.handle(self.mpi.abi.byte)
    }

    fn mpi_tag(tag: Tag) -> c_int {
        let number = tag.call % CALLS * 4 + tag.lane as u64;
        c_int::try_from(number).unwrap_or(0)
    }

    /// Frees what MPI has sent.
    fn finish_sends(&self) {
        let mut sending = lock(&self.sending);
        sending.retain_mut(|(request, _)| {
            let (mut done, mut status) = (0, StatusRoom::new());
            // SAFETY: the request is one that `Isend` gave and that has not ended.
            let code = unsafe { (self.mpi.call.Test)(request, &mut done, status.as_mut_ptr()) };
            code == 0 && done == 0
        });
    }

    /// The next message of MPI from a rank, if one has arrived.
    fn take_piece(&self, from: u32, tag: Tag) -> Result<Option<Vec<u8>>> {
        let (mut found, mut message, mut status) = (0, 0usize, StatusRoom::new());
        let from = c_int::try_from(from).unwrap_or(0);
        let tag = MpiCommunicator::mpi_tag(tag);
        let call = &self.mpi.call;
        // SAFETY: all places for answers are valid; the communicator is alive.
        let code = unsafe {
            (call.Improbe)(from, tag, self.comm, &mut found, &mut message, status.as_mut_ptr())
        };
        check(code, "MPI_Improbe")?;
        if found == 0 {
            return Ok(None);
        }
        let mut count = 0;
        // SAFETY: `Improbe` has filled the status.
        let code = unsafe { (call.Get_count)(status.as_mut_ptr(), self.byte(), &mut count) };
        check(code, "MPI_Get_count")?;
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
        let target = bytes.as_mut_ptr().cast();
        // SAFETY: the message is the one that was found, and `bytes` has room for it.
        let code =
            unsafe { (call.Mrecv)(target, count, self.byte(), &mut message, status.as_mut_ptr()) };
        check(code, "MPI_Mrecv")?;
        Ok(Some(bytes))
    }

    /// What every rank must know of every other.
    fn gather_places(&self, own: Place) -> Result<Vec<Place>> {
        let mut places = vec![Place::default(); self.size as usize];
        let bytes = c_int::try_from(size_of::<Place>()).unwrap_or(0);
        // SAFETY: a `Place` is plain bytes, and there is room for one of each rank.
        let code = unsafe {
            (self.mpi.call.Allgather)(
                (&raw const own).cast(),
                bytes,
                self.byte(),
                places.as_mut_ptr().cast(),
                bytes,
                self.byte(),
                self.comm,
            )
        };
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
        let segment = Counter::segment(self.rank == 0);
        let places = duplicate.gather_places(Place::of_this_process(&segment))?;
        duplicate.nodes = nodes(&places);
        duplicate.counter = Some(Counter::new(mpi, comm, &places, segment)?);
        Ok(Arc::new(duplicate))
    }

    fn send(&self, to: u32, tag: Tag, message: Message) -> Result<()> {
        self.finish_sends();
        let mut rest = message.bytes;
        loop {
            let more = rest.len() >= PIECE_BYTES;
            let next = if more { rest.split_off(PIECE_BYTES) } else { Vec::new() };
            let mut request = 0;
            let count = c_int::try_from(rest.len()).unwrap_or(c_int::MAX);
            // SAFETY: the bytes stay where they are until the request has ended: moving a vector
            // does not move its elements, and `sending` keeps it.
            let code = unsafe {
                (self.mpi.call.Isend)(
                    rest.as_ptr().cast(),
                    count,
                    self.byte(),
                    c_int::try_from(to).unwrap_or(0),
                    MpiCommunicator::mpi_tag(tag),
                    self.comm,
                    &mut request,
                )
            };
            check(code, "MPI_Isend")?;
            lock(&self.sending).push((request, rest));
            if !more {
                return Ok(());
            }
            rest = next;
        }
    }

    fn poll_receive(
        &self,
        from: u32,
        tag: Tag,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Message>> {
        self.finish_sends();
        loop {
            let piece = match self.take_piece(from, tag) {
                Ok(Some(piece)) => piece,
                Ok(None) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error.on_rank(self.rank))),
            };
            let mut partial = lock(&self.partial);
            let known = partial.iter().position(|(key, _)| *key == (from, tag));
            match (piece.len() >= PIECE_BYTES, known) {
                (true, Some(index)) => partial[index].1.extend(piece),
                (true, None) => partial.push(((from, tag), piece)),
                (false, None) => return Poll::Ready(Ok(Message::from(piece))),
                (false, Some(index)) => {
                    let (_, mut bytes) = partial.swap_remove(index);
                    bytes.extend(piece);
                    return Poll::Ready(Ok(Message::from(bytes)));
                }
            }
        }
    }

    fn counter_add(&self, delta: u64) -> Result<u64> {
        self.counter.as_ref().ok_or_else(no_counter)?.add(delta)
    }

    fn counter_set(&self, value: u64) -> Result<()> {
        self.counter.as_ref().ok_or_else(no_counter)?.set(value)
    }

    fn spawn(&self, task: Task) {
        progress::spawn(self.mpi, task);
    }

    fn block_on(&self, mut task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        let mut context = Context::from_waker(Waker::noop());
        while task.as_mut().poll(&mut context).is_pending() {
            progress::poll();
            self.finish_sends();
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
        while !lock(&self.sending).is_empty() {
            self.finish_sends();
        }
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
