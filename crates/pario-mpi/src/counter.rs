//! A number that all ranks of a communicator can add to: the shared file pointer.
//!
//! On one node it is in memory that the ranks share (`node`). Between nodes rank 0 keeps it, and
//! answers the others whenever it is inside MPI or pario ([`Server`], `progress`): files whose
//! shared pointer is not used need nothing. Where rank 0 could not answer while its program
//! waits inside MPI, a legal program could wait for ever; there the number is in an RMA window,
//! made when the file is opened.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pario::{Error, ErrorClass, Result};

use crate::binding::Mpi;
use crate::comm::check;
use crate::failure::{Failure, of_transport};
use crate::messages::{StatusRoom, number};
use crate::node::Segment;
use crate::progress::{self, Service};
use crate::wait::Asked;

/// Tags that no message has: they would be of a fourth lane, like that of `failure`.
const REQUEST: c_int = 32763;
const REPLY: c_int = 32759;

pub(crate) struct Counter {
    kind: CounterPlace,
    /// The turn of the communicator (`kept`).
    turn: AtomicU32,
}

enum CounterPlace {
    /// One rank alone.
    Own(AtomicU64),
    Shared(Arc<Segment>),
    /// At rank 0, which this is.
    Served(Arc<Server>),
    /// At rank 0.
    Asked(Client),
    Window {
        mpi: &'static Mpi,
        window: usize,
    },
}

/// A communicator in the making.
pub(crate) struct Ranks<'a> {
    pub(crate) asked: Asked,
    pub(crate) size: u32,
    pub(crate) failure: &'a Arc<Failure>,
    /// Whether rank 0 carries tasks on while its program waits inside MPI; the same on all ranks.
    pub(crate) is_served: bool,
}

impl Counter {
    /// The counter of a new communicator; `lines` is what its ranks share.
    pub(crate) fn new(ranks: &Ranks<'_>, lines: Option<Arc<Segment>>) -> Result<Counter> {
        let Asked { mpi, comm, rank } = ranks.asked;
        let failure = ranks.failure.clone();
        let kind = match lines {
            _ if ranks.size == 1 => CounterPlace::Own(AtomicU64::new(0)),
            Some(lines) => CounterPlace::Shared(lines),
            None if !ranks.is_served => {
                CounterPlace::Window { mpi, window: make_window(mpi, comm)? }
            }
            None if rank == 0 => CounterPlace::Served(Server::start(ranks, failure)),
            None => {
                CounterPlace::Asked(Client { asked: ranks.asked, failure, turn: Mutex::new(()) })
            }
        };
        Ok(Counter { kind, turn: AtomicU32::new(0) })
    }

    /// Begins a turn, in which the number is 0 at first. Shared numbers are used in turns, and rank
    /// 0 sets that of the next turn to 0: all have left it, and none uses it before all, rank 0
    /// among them, have begun the next turn.
    pub(crate) fn begin_turn(&self, turn: u32, rank: u32) {
        match &self.kind {
            CounterPlace::Own(value) => value.store(0, Ordering::SeqCst),
            CounterPlace::Shared(lines) if rank == 0 => {
                lines.pointer(turn.wrapping_add(1)).store(0, Ordering::SeqCst);
            }
            _ => {}
        }
        self.turn.store(turn, Ordering::SeqCst);
    }

    fn turn(&self) -> u32 {
        self.turn.load(Ordering::SeqCst)
    }

    /// Whether rank 0 has to answer the others.
    pub(crate) fn is_at_rank_0(&self) -> bool {
        matches!(self.kind, CounterPlace::Served(_) | CounterPlace::Asked(_))
    }

    /// Adds to the number; the inner error is of the number, the outer one of the transport.
    pub(crate) fn add(&self, delta: u64) -> Result<Result<u64>> {
        match &self.kind {
            CounterPlace::Own(value) => Ok(add_atomic(value, delta)),
            CounterPlace::Shared(lines) => Ok(add_atomic(lines.pointer(self.turn()), delta)),
            CounterPlace::Served(server) => Ok(add_atomic(&server.value, delta)),
            CounterPlace::Asked(client) => client.ask(Operation::Add, delta),
            CounterPlace::Window { mpi, window } => {
                let old = change_window(mpi, *window, delta, mpi.abi.sum)?;
                if old.checked_add(delta).is_some() {
                    return Ok(Ok(old));
                }
                change_window(mpi, *window, delta.wrapping_neg(), mpi.abi.sum)?;
                Ok(Err(too_far()))
            }
        }
    }

    /// Forgets a counter whose ranks do not end it together.
    pub(crate) fn abandon(mut self) {
        if let CounterPlace::Window { .. } = self.kind {
            self.kind = CounterPlace::Own(AtomicU64::new(0));
        }
    }

    /// Sets the value; nobody adds to it at the same time.
    pub(crate) fn set(&self, value: u64) -> Result<()> {
        match &self.kind {
            CounterPlace::Own(place) => place.store(value, Ordering::SeqCst),
            CounterPlace::Shared(lines) => {
                lines.pointer(self.turn()).store(value, Ordering::SeqCst)
            }
            CounterPlace::Served(server) => server.value.store(value, Ordering::SeqCst),
            CounterPlace::Asked(client) => drop(client.ask(Operation::Set, value)?),
            CounterPlace::Window { mpi, window } => {
                let old = change_window(mpi, *window, 0, mpi.abi.sum)?;
                change_window(mpi, *window, value.wrapping_sub(old), mpi.abi.sum)?;
            }
        }
        Ok(())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        match &mut self.kind {
            // A code of these cannot be acted on: the window is not used any more.
            CounterPlace::Window { mpi, window } if mpi.is_active() => unsafe {
                // SAFETY: all ranks drop their counters together, when a file is closed.
                (mpi.call.Win_unlock_all)(*window);
                (mpi.call.Win_free)(window);
            },
            CounterPlace::Served(server) => server.end(),
            _ => {}
        }
    }
}

fn too_far() -> Error {
    Error::new(ErrorClass::Arg, "the shared file pointer would pass 2^64")
}

fn add_atomic(value: &AtomicU64, delta: u64) -> Result<u64> {
    let add = |value: u64| value.checked_add(delta);
    let added = value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    added.map_err(|_| too_far())
}

/// What a rank asks rank 0 for.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Add = 0,
    Set = 1,
}

/// A request: what to do, and a number. A reply: whether it was done, and the number before.
type Words = [u64; 2];

/// Sends two words; they are never freed, since MPI may need them after a failure.
struct Letter {
    words: &'static mut Words,
    request: usize,
}

impl Letter {
    fn send((mpi, comm): (&Mpi, usize), to: u32, tag: c_int, words: Words) -> Result<Letter> {
        let mut letter = Letter { words: Box::leak(Box::new(words)), request: 0 };
        let (byte, len) = (mpi.handle(mpi.abi.byte), number(size_of::<Words>()));
        let bytes = ptr::from_ref::<Words>(letter.words).cast::<c_void>();
        // SAFETY: the words stay where they are until the request has ended.
        let code = unsafe {
            (mpi.call.Isend)(bytes, len, byte, number(to), tag, comm, &mut letter.request)
        };
        check(code, "MPI_Isend").map(|()| letter)
    }

    /// Whether it is sent; then its memory is free again.
    fn is_sent(&mut self, mpi: &Mpi) -> Result<bool> {
        let (mut done, mut status) = (0, StatusRoom::new());
        // SAFETY: the request is one that MPI gave and that has not ended.
        let code = unsafe { (mpi.call.Test)(&mut self.request, &mut done, status.as_mut_ptr()) };
        check(code, "MPI_Test")?;
        if done != 0 {
            // SAFETY: the words came from a box, and nobody uses them any more.
            drop(unsafe { Box::from_raw(ptr::from_mut(self.words)) });
        }
        Ok(done != 0)
    }
}

/// Two words from a rank or from any, if they are here.
fn receive((mpi, comm): (&Mpi, usize), from: i64, tag: c_int) -> Result<Option<Words>> {
    let (mut found, mut message, mut status) = (0, 0usize, StatusRoom::new());
    let (call, byte) = (&mpi.call, mpi.handle(mpi.abi.byte));
    // SAFETY: all places for answers are valid; the communicator is alive.
    let code = unsafe {
        (call.Improbe)(number(from), tag, comm, &mut found, &mut message, status.as_mut_ptr())
    };
    check(code, "MPI_Improbe")?;
    if found == 0 {
        return Ok(None);
    }
    // If it cannot be received now, MPI may write to it later.
    let words: &'static mut Words = Box::leak(Box::new([0; 2]));
    let (mut request, mut done) = (0, 0);
    // SAFETY: there is room for the message, which stays where it is until it has arrived.
    unsafe {
        let (room, len) = (ptr::from_mut(words).cast(), number(size_of::<Words>()));
        let code = (call.Imrecv)(room, len, byte, &mut message, &mut request);
        check(code, "MPI_Imrecv")?;
        // It is so short that it is here already.
        while done == 0 {
            let code = (call.Test)(&mut request, &mut done, status.as_mut_ptr());
            check(code, "MPI_Test")?;
        }
    }
    // SAFETY: the words came from a box, and nobody uses them any more.
    Ok(Some(*unsafe { Box::from_raw(ptr::from_mut(words)) }))
}

/// How long rank 0 does not look for requests after it has looked in vain.
const PAUSE: Duration = Duration::from_micros(10);

/// The number at rank 0.
struct Server {
    asked: Asked,
    value: AtomicU64,
    failure: Arc<Failure>,
    size: u32,
    state: Mutex<Serving>,
}

struct Serving {
    looked: Instant,
    replies: Vec<Letter>,
    /// Whether the communicator ends.
    is_over: bool,
}

impl Server {
    fn start(ranks: &Ranks<'_>, failure: Arc<Failure>) -> Arc<Server> {
        let serving = Serving { looked: Instant::now(), replies: Vec::new(), is_over: false };
        let server = Arc::new(Server {
            asked: ranks.asked,
            value: AtomicU64::new(0),
            failure,
            size: ranks.size,
            state: Mutex::new(serving),
        });
        let service: Arc<dyn Service> = server.clone();
        progress::serve(ranks.asked.mpi, Arc::downgrade(&service));
        server
    }

    /// Forgets replies that are sent.
    fn finish(&self, replies: &mut Vec<Letter>) -> Result<()> {
        let mut sent = Ok(());
        replies.retain_mut(|letter| match letter.is_sent(self.asked.mpi) {
            Ok(is_sent) => !is_sent,
            Err(error) => {
                sent = Err(error);
                false
            }
        });
        sent
    }

    /// Serves no more. All ranks have what they asked for.
    fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_over = true;
        let is_well = self.failure.known().is_none();
        while is_well && !state.replies.is_empty() && self.finish(&mut state.replies).is_ok() {
            std::thread::yield_now();
        }
    }

    /// Answers all requests that are here; whether there were any.
    fn answer(&self, replies: &mut Vec<Letter>) -> Result<bool> {
        let Asked { mpi, comm, .. } = self.asked;
        self.finish(replies)?;
        let mut answered = false;
        while let Some([what, value]) = receive((mpi, comm), mpi.abi.any_source, REQUEST)? {
            let (rank, operation) = (what >> 1, what & 1);
            let done = match operation == Operation::Set as u64 {
                true => Ok(self.value.swap(value, Ordering::SeqCst)),
                false => add_atomic(&self.value, value),
            };
            let reply = [u64::from(done.is_ok()), done.unwrap_or(0)];
            let rank = u32::try_from(rank).unwrap_or(u32::MAX);
            replies.push(Letter::send((mpi, comm), rank, REPLY, reply)?);
            answered = true;
        }
        Ok(answered)
    }
}

impl Service for Server {
    fn serve(&self) -> bool {
        // Another thread serves at this moment.
        let Ok(mut state) = self.state.try_lock() else { return false };
        let now = Instant::now();
        if state.is_over
            || self.failure.known().is_some()
            || now.duration_since(state.looked) < PAUSE
        {
            return false;
        }
        let answered = self.answer(&mut state.replies);
        if !matches!(answered, Ok(true)) {
            state.looked = now;
        }
        answered.unwrap_or_else(|error| {
            // Ranks that wait for an answer have to be notified.
            let error = of_transport(self.asked.rank, error.text());
            if self.failure.meet(&error) {
                let others: Vec<u32> = (1..self.size).collect();
                self.failure.tell(self.asked.rank, error.text(), &others);
            }
            false
        })
    }
}

/// How a rank uses the number at rank 0.
struct Client {
    asked: Asked,
    failure: Arc<Failure>,
    /// Replies carry no sign of what they are replies to: one thread asks at a time.
    turn: Mutex<()>,
}

impl Client {
    /// What rank 0 says to a request.
    fn ask(&self, operation: Operation, value: u64) -> Result<Result<u64>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let Asked { mpi, comm, rank } = self.asked;
        let what = u64::from(rank) << 1 | operation as u64;
        let mut letter = Some(Letter::send((mpi, comm), 0, REQUEST, [what, value])?);
        let mut answer = None;
        self.asked.until(|_| {
            answer = self.next_answer(&mut letter).transpose();
            answer.is_some()
        });
        match answer {
            Some(Ok([0, _])) => Ok(Err(too_far())),
            Some(Ok([_, old])) => Ok(Ok(old)),
            Some(Err(error)) => Err(error),
            None => unreachable!("it was waited for"),
        }
    }

    /// The answer, if it is here.
    fn next_answer(&self, letter: &mut Option<Letter>) -> Result<Option<Words>> {
        let Asked { mpi, comm, .. } = self.asked;
        if let Some(error) = self.failure.known() {
            return Err(error);
        }
        if let Some(told) = self.failure.look()? {
            return Err(self.failure.learn(told));
        }
        if let Some(sending) = letter
            && sending.is_sent(mpi)?
        {
            *letter = None;
        }
        match letter {
            None => receive((mpi, comm), 0, REPLY),
            Some(_) => Ok(None),
        }
    }
}

fn make_window(mpi: &'static Mpi, comm: usize) -> Result<usize> {
    let (mut base, mut window) = (ptr::null_mut::<c_void>(), 0);
    let info = mpi.handle(mpi.abi.info_null);
    // SAFETY: collective over a valid communicator; all places for answers are valid.
    unsafe {
        let code = (mpi.call.Win_allocate)(8, 8, info, comm, &mut base, &mut window);
        check(code, "shared file pointer: MPI_Win_allocate")?;
        check((mpi.call.Win_lock_all)(0, window), "shared file pointer: MPI_Win_lock_all")?;
        base.cast::<u64>().write(0);
        check((mpi.call.Win_sync)(window), "shared file pointer: MPI_Win_sync")?;
        // Nobody adds to a number that its rank has yet to set.
        check((mpi.call.Barrier)(comm), "shared file pointer: MPI_Barrier")?;
    }
    Ok(window)
}

fn change_window(
    mpi: &Mpi,
    window: usize,
    delta: u64,
    operation: crate::abi::Handle,
) -> Result<u64> {
    let mut old = 0u64;
    let long = mpi.handle(mpi.abi.long_long);
    // SAFETY: the window is locked for all ranks; the places are valid until the flush.
    unsafe {
        let code = (mpi.call.Fetch_and_op)(
            (&raw const delta).cast(),
            (&raw mut old).cast(),
            long,
            0,
            0,
            mpi.handle(operation),
            window,
        );
        check(code, "shared file pointer: MPI_Fetch_and_op")?;
        check((mpi.call.Win_flush)(0, window), "shared file pointer: MPI_Win_flush")?;
    }
    Ok(old)
}
