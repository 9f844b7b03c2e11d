//! Messages between the ranks of an MPI communicator.
//!
//! A message is an `MPI_Isend`, found by `MPI_Improbe` and taken by `MPI_Imrecv`: nothing here
//! waits. One that is not shorter than `piece_bytes` travels in pieces: a piece of exactly that
//! length says that another one follows, so that every length fits MPI's `int` and short messages
//! pay nothing. What a rank sends to itself stays where it is.
//!
//! Hazard: MPI may call back from any of its functions (see `progress`), and the task that it calls
//! may send and receive here. So no lock is held while MPI is called.

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use pario::comm::Tag;
use pario::{Error, ErrorClass, Result};

use crate::binding::Mpi;
use crate::comm::check;

/// Longest piece, unless a test wants shorter ones.
pub(crate) const PIECE_BYTES: usize = 1 << 30;
/// The same where ranks of a node cannot share memory, for whatever reason. MPI libraries copy
/// longer messages straight from one process to another, and fail where that is not permitted.
pub(crate) const EAGER_BYTES: usize = 4 << 10;
/// Lanes of a call; tags are a call's number and its lane.
const LANES: u64 = 4;
/// The highest tag that every MPI library has.
const TAG_MAX: u64 = 32767;

/// The messages of one rank.
pub(crate) struct Messages {
    mpi: &'static Mpi,
    comm: usize,
    rank: u32,
    pub(crate) piece_bytes: usize,
    /// Calls whose tags differ.
    calls: u64,
    /// To this rank, from itself.
    own: Mutex<HashMap<Tag, VecDeque<Vec<u8>>>>,
    /// Requests of MPI, with what they send.
    sending: Mutex<Vec<(usize, Arc<Vec<u8>>)>>,
    /// Messages of which a part is here or on its way.
    arriving: Mutex<HashMap<(u32, Tag), Arriving>>,
}

/// A message that is not whole yet.
#[derive(Default)]
struct Arriving {
    bytes: Vec<u8>,
    /// The request that fills the end of `bytes`, and how many bytes those are.
    request: Option<(usize, usize)>,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn number(value: impl TryInto<c_int>) -> c_int {
    value.try_into().unwrap_or(c_int::MAX)
}

impl Messages {
    pub(crate) fn new(mpi: &'static Mpi, comm: usize, rank: u32) -> Messages {
        Messages {
            mpi,
            comm,
            rank,
            piece_bytes: PIECE_BYTES,
            calls: (tag_max(mpi) + 1) / LANES,
            own: Mutex::default(),
            sending: Mutex::default(),
            arriving: Mutex::default(),
        }
    }

    fn byte(&self) -> usize {
        self.mpi.handle(self.mpi.abi.byte)
    }

    fn mpi_tag(&self, tag: Tag) -> c_int {
        number(tag.call % self.calls * LANES + tag.lane as u64)
    }

    pub(crate) fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        if to == self.rank {
            lock(&self.own).entry(tag).or_default().push_back(bytes);
            return Ok(());
        }
        self.finish_sends()?;
        let bytes = Arc::new(bytes);
        let mut sent = 0;
        loop {
            let len = (bytes.len() - sent).min(self.piece_bytes);
            self.send_piece(to, tag, (&bytes, sent, len))?;
            sent += len;
            if len < self.piece_bytes {
                return Ok(());
            }
        }
    }

    /// Sends `len` bytes from `start` on.
    fn send_piece(
        &self,
        to: u32,
        tag: Tag,
        (bytes, start, len): (&Arc<Vec<u8>>, usize, usize),
    ) -> Result<()> {
        let mut request = 0;
        let piece = &bytes[start..start + len];
        // SAFETY: the bytes stay where they are until the request has ended, because `sending`
        // keeps them; nobody changes them.
        let code = unsafe {
            (self.mpi.call.Isend)(
                piece.as_ptr().cast(),
                number(len),
                self.byte(),
                number(to),
                self.mpi_tag(tag),
                self.comm,
                &mut request,
            )
        };
        check(code, "MPI_Isend")?;
        lock(&self.sending).push((request, bytes.clone()));
        Ok(())
    }

    /// Frees what MPI has sent.
    ///
    /// # Errors
    /// If something could not be sent: its receiver may wait for it, and has to be notified.
    fn finish_sends(&self) -> Result<()> {
        let mut sending = std::mem::take(&mut *lock(&self.sending));
        if sending.is_empty() {
            return Ok(());
        }
        let mut outcome = Ok(());
        sending.retain_mut(|(request, bytes)| match self.ended(request) {
            Ok(ended) => ended.is_none(),
            Err(error) => {
                outcome = Err(error);
                // MPI may still read them.
                std::mem::forget(bytes.clone());
                false
            }
        });
        lock(&self.sending).append(&mut sending);
        outcome
    }

    /// Whether a request has ended well, and its status then; MPI forgets it.
    fn ended(&self, request: &mut usize) -> Result<Option<StatusRoom>> {
        let (mut done, mut status) = (0, StatusRoom::new());
        // SAFETY: the request is one that MPI gave and that has not ended.
        let code = unsafe { (self.mpi.call.Test)(request, &mut done, status.as_mut_ptr()) };
        check(code, "MPI_Test")?;
        Ok((done != 0).then_some(status))
    }

    /// How many bytes a status counts.
    fn count(&self, status: &mut StatusRoom) -> Result<usize> {
        let mut count = 0;
        // SAFETY: MPI has filled the status.
        let code =
            unsafe { (self.mpi.call.Get_count)(status.as_mut_ptr(), self.byte(), &mut count) };
        check(code, "MPI_Get_count")?;
        let text = "MPI_Get_count does not know the length of a message";
        usize::try_from(count).map_err(|_| Error::new(ErrorClass::Other, text))
    }

    /// The next message from a rank, if it is here and whole.
    pub(crate) fn poll_receive(&self, from: u32, tag: Tag) -> Poll<Result<Vec<u8>>> {
        if from == self.rank {
            let next = lock(&self.own).get_mut(&tag).and_then(VecDeque::pop_front);
            return next.map_or(Poll::Pending, |message| Poll::Ready(Ok(message)));
        }
        if let Err(error) = self.finish_sends() {
            return Poll::Ready(Err(error));
        }
        let begun = lock(&self.arriving).remove(&(from, tag));
        let mut arriving = begun.unwrap_or_default();
        let polled = self.advance(from, tag, &mut arriving);
        if polled.is_pending() {
            if arriving.request.is_some() || !arriving.bytes.is_empty() {
                lock(&self.arriving).insert((from, tag), arriving);
            }
            return Poll::Pending;
        }
        match polled {
            Poll::Ready(Err(error)) => {
                // MPI may still write to it.
                std::mem::forget(arriving);
                Poll::Ready(Err(error))
            }
            polled => polled.map_ok(|()| arriving.bytes),
        }
    }

    /// Takes pieces until the message is whole or one is not here.
    fn advance(&self, from: u32, tag: Tag, arriving: &mut Arriving) -> Poll<Result<()>> {
        loop {
            if let Some((request, len)) = &mut arriving.request {
                let len = *len;
                match self.is_received(request, len) {
                    Ok(false) => return Poll::Pending,
                    Ok(true) => arriving.request = None,
                    Err(error) => return Poll::Ready(Err(error)),
                }
                if len < self.piece_bytes {
                    return Poll::Ready(Ok(()));
                }
            }
            match self.begin_piece(from, tag, &mut arriving.bytes) {
                Ok(None) => return Poll::Pending,
                Ok(begun) => arriving.request = begun,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Whether a piece is here, all of it.
    fn is_received(&self, request: &mut usize, len: usize) -> Result<bool> {
        let Some(mut status) = self.ended(request)? else { return Ok(false) };
        match self.count(&mut status)? {
            received if received == len => Ok(true),
            received => {
                let text = format!("MPI delivered {received} of {len} bytes of a message");
                Err(Error::new(ErrorClass::Other, text))
            }
        }
    }

    /// Has MPI append the next piece to what has arrived, if there is one.
    fn begin_piece(
        &self,
        from: u32,
        tag: Tag,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<(usize, usize)>> {
        let (mut found, mut message, mut status) = (0, 0usize, StatusRoom::new());
        let (from, tag) = (number(from), self.mpi_tag(tag));
        let call = &self.mpi.call;
        // SAFETY: all places for answers are valid; the communicator is alive.
        let code = unsafe {
            (call.Improbe)(from, tag, self.comm, &mut found, &mut message, status.as_mut_ptr())
        };
        check(code, "MPI_Improbe")?;
        if found == 0 {
            return Ok(None);
        }
        let (start, len) = (bytes.len(), self.count(&mut status)?);
        bytes.resize(start + len, 0);
        let target = bytes[start..].as_mut_ptr().cast();
        let mut request = 0;
        // SAFETY: the message is the one that was found, and `bytes` has room for it; it neither
        // moves nor is touched until the request has ended.
        let code =
            unsafe { (call.Imrecv)(target, number(len), self.byte(), &mut message, &mut request) };
        check(code, "MPI_Imrecv")?;
        Ok(Some((request, len)))
    }

    /// Forgets messages of this rank to itself that it did not take.
    pub(crate) fn forget_own(&self) {
        lock(&self.own).clear();
    }

    /// Waits until MPI needs none of this memory any more.
    pub(crate) fn finish(&self) {
        while !lock(&self.sending).is_empty() {
            // Nobody waits for what could not be sent: all ranks have ended their calls.
            let _ = self.finish_sends();
            std::thread::yield_now();
        }
        let arriving = std::mem::take(&mut *lock(&self.arriving));
        for (mut request, _) in arriving.into_values().filter_map(|one| one.request) {
            while self.ended(&mut request).is_ok_and(|ended| ended.is_none()) {
                std::thread::yield_now();
            }
        }
    }

    /// Leaves memory to MPI for good: after a failure, it may use it at any time.
    pub(crate) fn abandon(&self) {
        std::mem::forget(std::mem::take(&mut *lock(&self.sending)));
        std::mem::forget(std::mem::take(&mut *lock(&self.arriving)));
    }
}

/// The highest tag that the library has.
fn tag_max(mpi: &Mpi) -> u64 {
    let (mut value, mut found) = (std::ptr::null::<c_int>(), 0);
    let key = number(mpi.abi.tag_ub);
    let world = mpi.handle(mpi.abi.comm_world);
    // SAFETY: MPI gives the address of a number that lives as long as it does.
    let highest = unsafe {
        let place = (&raw mut value).cast();
        let code = (mpi.call.Comm_get_attr)(world, key, place, &mut found);
        (code == 0 && found != 0 && !value.is_null()).then(|| value.read())
    };
    highest.and_then(|highest| u64::try_from(highest).ok()).unwrap_or(TAG_MAX).max(TAG_MAX)
}
