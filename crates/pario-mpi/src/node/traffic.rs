//! The messages of one rank to and from the ranks of its node.
//!
//! A message goes into the ring to its receiver as far as there is room; the rest waits here and
//! follows as the receiver makes room. A long one is lent where the receiver can read this
//! process's memory: the ring carries its address, the receiver copies the bytes when it asks for
//! the message, not before, and says then that they are no longer needed. If the system does not
//! let it copy them, it says that, and they follow through the ring; none are lent to it again.
//!
//! What waits here, or is lent, must go on whatever the program does next. If it is from a blocking
//! call, that call does not return before it is in the ring, or was taken: all that it needs is
//! that the receivers take part in the same collective. Otherwise it becomes a task like those of
//! non-blocking calls (`progress`).
//!
//! Cost: two copies of each byte of a short message, one of a long one and a system call.
//!
//! Hazard: MPI may call tasks that send and receive here from any of its functions, so no lock is
//! held while MPI is called or somebody is woken.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use pario::comm::{CommonMemory, ProcessMemory, RemoteRun, Tag};
use pario::{Error, Result};

use super::bell::Bell;
use super::frame::{Arrival, Assembly, Frame, HEADER_BYTES, room_for};
use super::reach;
use super::segment::Segment;
use crate::binding::Mpi;
use crate::progress;

/// Longer messages are lent, where they can be. Up to here a second copy costs less than the system
/// call and the answer: between two ranks 5 to 19 us of CPU time through the ring and 16 us lent at
/// 16 KiB, 22 and 18 us at 32 KiB, 350 and 155 us at 256 KiB.
const RING_MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The messages of one rank on its node.
pub(crate) struct Traffic {
    pub(super) mpi: &'static Mpi,
    pub(super) segment: Arc<Segment>,
    /// Ranks of this node have a number here, in their order.
    pub(super) members: Vec<Option<usize>>,
    pub(super) own: usize,
    /// By number.
    pub(super) bells: Vec<&'static Bell>,
    pub(super) memory: Option<ProcessMemory>,
    pub(super) windows: CommonMemory,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    peers: Vec<Peer>,
    /// Whether a task sends what waits.
    has_task: bool,
}

/// What concerns one other rank of the node.
#[derive(Default)]
struct Peer {
    outgoing: VecDeque<Outgoing>,
    assembly: Assembly,
    arrived: HashMap<Tag, VecDeque<Arrived>>,
    /// Bytes that the other rank may read, by their address.
    lent: HashMap<usize, Vec<u8>>,
    /// Whether it could not, once.
    refuses: bool,
    /// Why there will be no more messages.
    broken: Option<Error>,
}

enum Arrived {
    Bytes(Vec<u8>),
    Lent(RemoteRun),
    /// Lent at an address, but it could not be read: its bytes will come.
    Refused(usize),
}

/// A frame on its way into a ring.
struct Outgoing {
    header: [u8; HEADER_BYTES],
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    fn new(frame: Frame, bytes: Vec<u8>) -> Outgoing {
        Outgoing { header: frame.header(), bytes, sent: 0 }
    }

    /// What has yet to be sent.
    fn rest(&self) -> [&[u8]; 2] {
        let of_header = self.sent.min(HEADER_BYTES);
        [&self.header[of_header..], &self.bytes[self.sent - of_header..]]
    }

    fn is_sent(&self) -> bool {
        self.sent == HEADER_BYTES + self.bytes.len()
    }
}

impl State {
    pub(super) fn new(members: usize) -> State {
        State { peers: (0..members).map(|_| Peer::default()).collect(), has_task: false }
    }

    /// Whether nothing waits, and nothing is lent.
    fn is_all_taken(&self) -> bool {
        self.peers.iter().all(|peer| peer.outgoing.is_empty() && peer.lent.is_empty())
    }
}

/// On whose behalf a thread sends.
#[derive(Clone, Copy, PartialEq)]
enum Sender {
    /// A blocking call, which sees to what waits before it returns.
    Call,
    /// Anybody else.
    Other,
}

thread_local! {
    static SENDER: Cell<Sender> = const { Cell::new(Sender::Other) };
    /// Where messages of this thread's blocking call wait.
    static UNSENT: RefCell<Vec<Arc<Traffic>>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread sends on behalf of somebody.
pub(crate) struct OnBehalf(Sender);

impl OnBehalf {
    /// Of a blocking call, which calls [`flush_unsent`] until that is done.
    pub(crate) fn call() -> OnBehalf {
        OnBehalf(SENDER.replace(Sender::Call))
    }

    /// Of a task.
    pub(crate) fn task() -> OnBehalf {
        OnBehalf(SENDER.replace(Sender::Other))
    }
}

impl Drop for OnBehalf {
    fn drop(&mut self) {
        SENDER.set(self.0);
    }
}

/// Sends what waits on behalf of this thread's blocking call; whether nothing waits any more.
pub(crate) fn flush_unsent() -> bool {
    UNSENT.with_borrow_mut(|unsent| {
        unsent.retain(|traffic| !traffic.flush());
        unsent.is_empty()
    })
}

impl Traffic {
    /// Whether messages to and from a rank go this way.
    pub(crate) fn reaches(&self, rank: u32) -> bool {
        self.member(rank).is_some()
    }

    pub(crate) fn memory(&self) -> Option<&ProcessMemory> {
        self.memory.as_ref()
    }

    pub(crate) fn windows(&self) -> &CommonMemory {
        &self.windows
    }

    fn member(&self, rank: u32) -> Option<usize> {
        let member = self.members.get(usize::try_from(rank).ok()?)?;
        member.filter(|&member| member != self.own)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to another rank of the node.
    pub(crate) fn send(self: &Arc<Self>, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()> {
        let Some(member) = self.member(to) else { unreachable!("a rank of this node") };
        let mut state = self.lock();
        let mut rings = Vec::new();
        if !state.peers[member].lent.is_empty() {
            self.drain(&mut state, member, &mut rings);
        }
        let peer = &mut state.peers[member];
        let is_lent = bytes.len() > RING_MESSAGE_BYTES_MAX && self.memory.is_some();
        let outgoing = match is_lent && !peer.refuses {
            false => Outgoing::new(Frame::Bytes(tag, bytes.len()), bytes),
            true => {
                let run = RemoteRun { address: bytes.as_ptr().addr(), len: bytes.len() };
                peer.lent.insert(run.address, bytes);
                Outgoing::new(Frame::Lent(tag, run), Vec::new())
            }
        };
        peer.outgoing.push_back(outgoing);
        let pushed = self.push(&mut state, member);
        self.leave(state, member, rings);
        pushed
    }

    /// Lets go of the state, wakes the receiver and those who want room, and sees to it that what
    /// could not be sent will be.
    fn leave(self: &Arc<Self>, mut state: MutexGuard<'_, State>, pushed: usize, rings: Vec<&Bell>) {
        let peer = &state.peers[pushed];
        let waits = !peer.outgoing.is_empty() || !peer.lent.is_empty();
        let in_call = SENDER.get() == Sender::Call;
        let needs_task = waits && !in_call && !std::mem::replace(&mut state.has_task, true);
        drop(state);
        self.bells[pushed].ring();
        rings.into_iter().for_each(Bell::ring);
        if needs_task {
            let traffic = self.clone();
            let task = std::future::poll_fn(move |_| match traffic.flush_in_task() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            });
            progress::spawn(self.mpi, Box::pin(task));
        } else if waits && in_call {
            UNSENT.with_borrow_mut(|unsent| {
                if !unsent.iter().any(|known| Arc::ptr_eq(known, self)) {
                    unsent.push(self.clone());
                }
            });
        }
    }

    /// Puts into the ring to a rank what there is room for.
    fn push(&self, state: &mut State, member: usize) -> Result<()> {
        let peer = &mut state.peers[member];
        let ring = self.segment.ring(self.own, member);
        let mut wanting = false;
        while let Some(outgoing) = peer.outgoing.front_mut() {
            match ring.write(outgoing.rest()) {
                Ok(count) => outgoing.sent += count,
                Err(error) => {
                    peer.outgoing.clear();
                    peer.lent.clear();
                    peer.broken = Some(error.clone());
                    return Err(error);
                }
            }
            if outgoing.is_sent() {
                peer.outgoing.pop_front();
            } else if wanting {
                return Ok(());
            } else {
                ring.want_room();
                wanting = true;
            }
        }
        ring.want_nothing();
        Ok(())
    }

    /// Sends what waits, as far as there is room, and sees to what is lent; whether there is
    /// nothing of either any more.
    fn flush(&self) -> bool {
        let mut state = self.lock();
        let mut rings = Vec::new();
        self.attend(&mut state, &mut rings);
        let done = state.is_all_taken() || self.segment.failure().is_some();
        drop(state);
        rings.into_iter().for_each(Bell::ring);
        done
    }

    /// The same for a task, which ends when there is nothing of either any more.
    fn flush_in_task(&self) -> bool {
        let mut state = self.lock();
        let mut rings = Vec::new();
        self.attend(&mut state, &mut rings);
        state.has_task = !state.is_all_taken() && self.segment.failure().is_none();
        let done = !state.has_task;
        drop(state);
        rings.into_iter().for_each(Bell::ring);
        done
    }

    /// Hears what became of what is lent, and sends what waits.
    fn attend<'a>(&'a self, state: &mut State, rings: &mut Vec<&'a Bell>) {
        for member in 0..state.peers.len() {
            if !state.peers[member].lent.is_empty() {
                self.drain(state, member, rings);
            }
        }
        self.push_all(state);
    }

    fn push_all(&self, state: &mut State) {
        for member in 0..state.peers.len() {
            let Peer { outgoing, lent, .. } = &state.peers[member];
            if outgoing.is_empty() && lent.is_empty() {
                continue;
            }
            if self.segment.departure(member).load(Ordering::Acquire) != 0 {
                state.peers[member].outgoing.clear();
                state.peers[member].lent.clear();
                continue;
            }
            if state.peers[member].outgoing.is_empty() {
                continue;
            }
            // An error is kept for whoever waits for that rank.
            let _ = self.push(state, member);
            self.bells[member].ring();
        }
    }

    /// Takes all that a rank has sent out of its ring.
    fn drain<'a>(&'a self, state: &mut State, member: usize, rings: &mut Vec<&'a Bell>) {
        let ring = self.segment.ring(member, self.own);
        let peer = &mut state.peers[member];
        if peer.broken.is_some() {
            return;
        }
        loop {
            let mut reading = match ring.read() {
                Ok(reading) if reading.len() == 0 => return,
                Ok(reading) => reading,
                Err(error) => {
                    peer.broken = Some(error);
                    return;
                }
            };
            let before = reading.len();
            if let Err(error) = peer.take(&mut reading) {
                peer.broken = Some(error);
                return;
            }
            let taken = before - reading.len();
            drop(reading);
            if taken == 0 {
                return;
            }
            if ring.is_room_wanted() {
                rings.push(self.bells[member]);
            }
        }
    }

    /// The next message from a rank of the node, if it is here and whole.
    pub(crate) fn poll_receive(self: &Arc<Self>, from: u32, tag: Tag) -> Poll<Result<Vec<u8>>> {
        let Some(member) = self.member(from) else { unreachable!("a rank of this node") };
        let mut state = self.lock();
        let mut rings = Vec::new();
        let mut arrived = state.peers[member].next(tag);
        if arrived.is_none() {
            self.drain(&mut state, member, &mut rings);
            arrived = state.peers[member].next(tag);
        }
        let broken = match arrived {
            None => state.peers[member].broken.clone(),
            Some(_) => None,
        };
        if arrived.is_none() {
            // What others have returned is freed while this rank has nothing else to do.
            for member in 0..state.peers.len() {
                if !state.peers[member].lent.is_empty() {
                    self.drain(&mut state, member, &mut rings);
                }
            }
        }
        drop(state);
        rings.into_iter().for_each(Bell::ring);
        match (arrived, broken) {
            (Some(Arrived::Bytes(bytes)), _) => Poll::Ready(Ok(bytes)),
            (Some(Arrived::Lent(run)), _) => match self.fetch(from, member, run) {
                Ok(Some(bytes)) => Poll::Ready(Ok(bytes)),
                Ok(None) => self
                    .ask_for(member, tag, run)
                    .map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending),
                Err(error) => Poll::Ready(Err(error)),
            },
            (Some(Arrived::Refused(_)), _) => unreachable!("`next` leaves it where it is"),
            (None, Some(error)) => Poll::Ready(Err(error)),
            (None, None) => Poll::Pending,
        }
    }

    /// Copies a message out of the memory of its sender; `None` if the system does not let it.
    fn fetch(
        self: &Arc<Self>,
        from: u32,
        member: usize,
        run: RemoteRun,
    ) -> Result<Option<Vec<u8>>> {
        let Some(memory) = &self.memory else {
            return Err(super::ring::broken("a message is lent that cannot be reached"));
        };
        let mut bytes = room_for(run.len)?;
        bytes.resize(run.len, 0);
        if memory.read(from, &[run], &mut [IoSliceMut::new(&mut bytes)]).is_err() {
            return Ok(None);
        }
        self.answer(member, Frame::Returned(run.address), None).map(|()| Some(bytes))
    }

    /// Asks the sender of a message that cannot be copied for its bytes. It stays the next one of
    /// its tag.
    fn ask_for(self: &Arc<Self>, member: usize, tag: Tag, run: RemoteRun) -> Result<()> {
        reach::give_up();
        self.answer(member, Frame::Refused(run.address), Some(tag))
    }

    /// Sends a frame about the message at an address.
    fn answer(self: &Arc<Self>, member: usize, frame: Frame, refused: Option<Tag>) -> Result<()> {
        let mut state = self.lock();
        let peer = &mut state.peers[member];
        if let (Some(tag), Frame::Refused(address)) = (refused, frame) {
            peer.arrived.entry(tag).or_default().push_front(Arrived::Refused(address));
        }
        peer.outgoing.push_back(Outgoing::new(frame, Vec::new()));
        let pushed = self.push(&mut state, member);
        self.leave(state, member, Vec::new());
        pushed
    }

    /// Tells the ranks of the node that the transport has failed; then none of them uses the memory
    /// of another one any more.
    pub(crate) fn tell_failure(&self, rank: u32, text: &str) {
        self.segment.tell_failure(rank, text);
        self.bells.iter().for_each(|bell| bell.ring());
        self.segment.wait_until_unused();
    }

    /// Which rank has told that the transport has failed, and how.
    pub(crate) fn failure(&self) -> Option<(u32, String)> {
        self.segment.failure()
    }

    /// Leaves lent messages where they are for good: after a failure, others may read them at any
    /// time.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.peers.iter_mut().for_each(|peer| std::mem::forget(std::mem::take(&mut peer.lent)));
    }

    /// Wakes a rank of the node, if it waits.
    pub(crate) fn wake(&self, rank: u32) {
        if let Some(member) = self.member(rank) {
            self.bells[member].ring();
        }
    }

    /// Sends and takes what it can; whether this rank has nothing that others still need.
    pub(crate) fn is_finished(&self) -> bool {
        let mut state = self.lock();
        let mut rings = Vec::new();
        for member in 0..state.peers.len() {
            if member != self.own {
                self.drain(&mut state, member, &mut rings);
            }
        }
        self.push_all(&mut state);
        let finished = state.is_all_taken();
        drop(state);
        rings.into_iter().for_each(Bell::ring);
        finished
    }

    /// Tells all others that this rank neither sends nor takes any more.
    pub(crate) fn depart(&self) {
        self.segment.departure(self.own).store(1, Ordering::Release);
        self.bells.iter().for_each(|bell| bell.ring());
    }
}

impl Peer {
    /// Sends bytes that were lent in vain.
    fn send_content(&mut self, address: usize) -> Result<()> {
        self.refuses = true;
        let lost = || super::ring::broken("bytes are asked for that were not lent");
        let bytes = self.lent.remove(&address).ok_or_else(lost)?;
        let frame = Frame::Content(address, bytes.len());
        self.outgoing.push_back(Outgoing::new(frame, bytes));
        Ok(())
    }

    /// Makes a message of bytes that were asked for.
    fn place_content(&mut self, address: usize, bytes: Vec<u8>) -> Result<()> {
        let mut all = self.arrived.values_mut().flatten();
        let is_it = |one: &&mut Arrived| matches!(one, Arrived::Refused(at) if *at == address);
        let lost = || super::ring::broken("bytes come that were not asked for");
        *all.find(is_it).ok_or_else(lost)? = Arrived::Bytes(bytes);
        Ok(())
    }

    /// The next message of a tag.
    fn next(&mut self, tag: Tag) -> Option<Arrived> {
        let queue = self.arrived.get_mut(&tag)?;
        if let Some(Arrived::Refused(_)) = queue.front() {
            return None;
        }
        let next = queue.pop_front();
        if queue.is_empty() {
            self.arrived.remove(&tag);
        }
        next
    }

    fn take(&mut self, reading: &mut super::ring::Reading<'_>) -> Result<()> {
        while let Some(arrival) = self.assembly.next(reading)? {
            let (tag, arrived) = match arrival {
                Arrival::Bytes(tag, bytes) => (tag, Arrived::Bytes(bytes)),
                Arrival::Lent(tag, run) => (tag, Arrived::Lent(run)),
                Arrival::Returned(address) => {
                    self.lent.remove(&address);
                    continue;
                }
                Arrival::Refused(address) => {
                    self.send_content(address)?;
                    continue;
                }
                Arrival::Content(address, bytes) => {
                    self.place_content(address, bytes)?;
                    continue;
                }
            };
            self.arrived.entry(tag).or_default().push_back(arrived);
        }
        Ok(())
    }
}
