//! The messages of one rank to and from the ranks of its node.
//!
//! A message goes into the ring to its receiver as far as there is room; the rest waits here and
//! follows as the receiver makes room.
//!
//! What waits here must be sent whatever the program does next. A blocking call does not return
//! before its messages are in the rings: for that, the receivers only have to take part in the same
//! collective. Other messages become a task like those of non-blocking calls (`progress`).
//!
//! Cost: two copies of each byte.
//!
//! Hazard: MPI may call tasks that send and receive here from any of its functions, so no lock is
//! held while MPI is called or a rank is woken.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use pario::comm::Region;
use pario::{Error, Result};

use super::doorbell::Doorbell;
use super::frame::{Assembly, Frame, HEADER_BYTES, Stream};
use super::segment::{GONE, Segment};
use crate::binding::Mpi;
use crate::progress;

/// The messages of one rank on its node.
pub(crate) struct Traffic {
    pub(super) mpi: &'static Mpi,
    pub(super) segment: Arc<Segment>,
    /// Ranks of this node have a number here, in their order.
    pub(super) members: Vec<Option<usize>>,
    pub(super) own: usize,
    /// By number.
    pub(super) doorbells: Vec<&'static Doorbell>,
    /// Memory that all ranks share, where they are on one node.
    pub(super) region: Option<Region>,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    peers: Vec<Peer>,
    /// The last turn that is over on this rank: messages of it are not wanted any more.
    over: u32,
    /// Whether a task sends what waits.
    has_task: bool,
}

/// What concerns one other rank of the node.
#[derive(Default)]
struct Peer {
    outgoing: VecDeque<Outgoing>,
    assembly: Assembly,
    arrived: HashMap<Stream, VecDeque<Vec<u8>>>,
    /// Why there will be no more messages.
    broken: Option<Error>,
}

/// A frame on its way into a ring.
struct Outgoing {
    stream: Stream,
    header: [u8; HEADER_BYTES],
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    fn new(frame: Frame, bytes: Vec<u8>) -> Outgoing {
        Outgoing { stream: frame.stream, header: frame.header(), bytes, sent: 0 }
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
        let peers = (0..members).map(|_| Peer::default()).collect();
        State { peers, over: 0, has_task: false }
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

    pub(crate) fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    /// Whether nothing waits that its receiver still wants. What it does not want follows when it
    /// next takes messages: a frame that was begun must be finished.
    fn is_all_sent(&self, state: &State) -> bool {
        state.peers.iter().enumerate().all(|(member, peer)| {
            let over = || self.segment.departure(member).load(Ordering::Acquire);
            peer.outgoing.is_empty() || peer.outgoing.iter().all(|one| one.stream.is_over(over()))
        })
    }

    fn member(&self, rank: u32) -> Option<usize> {
        let member = self.members.get(usize::try_from(rank).ok()?)?;
        member.filter(|&member| member != self.own)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to another rank of the node.
    pub(crate) fn send(self: &Arc<Self>, to: u32, stream: Stream, bytes: Vec<u8>) -> Result<()> {
        let Some(member) = self.member(to) else { unreachable!("a rank of this node") };
        let mut state = self.lock();
        let outgoing = Outgoing::new(Frame { stream, len: bytes.len() }, bytes);
        state.peers[member].outgoing.push_back(outgoing);
        let pushed = self.push(&mut state, member);
        self.leave(state, member);
        pushed
    }

    /// Lets go of the state, wakes the receiver, and sees to it that what could not be sent will
    /// be.
    fn leave(self: &Arc<Self>, mut state: MutexGuard<'_, State>, pushed: usize) {
        let waits = !state.peers[pushed].outgoing.is_empty();
        let in_call = SENDER.get() == Sender::Call;
        let needs_task = waits && !in_call && !std::mem::replace(&mut state.has_task, true);
        drop(state);
        self.doorbells[pushed].ring();
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

    /// Sends what waits, as far as there is room; whether nothing waits any more.
    fn flush(&self) -> bool {
        let mut state = self.lock();
        self.push_all(&mut state);
        self.is_all_sent(&state) || self.segment.failure().is_some()
    }

    /// The same for a task, which ends when nothing waits any more.
    fn flush_in_task(&self) -> bool {
        let mut state = self.lock();
        self.push_all(&mut state);
        state.has_task = !self.is_all_sent(&state) && self.segment.failure().is_none();
        !state.has_task
    }

    fn push_all(&self, state: &mut State) {
        for member in 0..state.peers.len() {
            if state.peers[member].outgoing.is_empty() {
                continue;
            }
            if self.segment.departure(member).load(Ordering::Acquire) == GONE {
                state.peers[member].outgoing.clear();
                continue;
            }
            // An error is kept for those who wait for that rank.
            let _ = self.push(state, member);
            self.doorbells[member].ring();
        }
    }

    /// Takes all that a rank has sent out of its ring.
    fn drain<'a>(&'a self, state: &mut State, member: usize, rings: &mut Vec<&'a Doorbell>) {
        let ring = self.segment.ring(member, self.own);
        let over = state.over;
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
            if let Err(error) = peer.take(&mut reading, over) {
                peer.broken = Some(error);
                return;
            }
            let taken = before - reading.len();
            drop(reading);
            if taken == 0 {
                return;
            }
            if ring.is_room_wanted() {
                rings.push(self.doorbells[member]);
            }
        }
    }

    /// The next message from a rank of the node, if it is here and whole.
    pub(crate) fn poll_receive(
        self: &Arc<Self>,
        from: u32,
        stream: Stream,
    ) -> Poll<Result<Vec<u8>>> {
        let Some(member) = self.member(from) else { unreachable!("a rank of this node") };
        let mut state = self.lock();
        let mut rings = Vec::new();
        let mut arrived = state.peers[member].next(stream);
        if arrived.is_none() {
            self.drain(&mut state, member, &mut rings);
            arrived = state.peers[member].next(stream);
        }
        let broken = match arrived {
            None => state.peers[member].broken.clone(),
            Some(_) => None,
        };
        drop(state);
        rings.into_iter().for_each(Doorbell::ring);
        match (arrived, broken) {
            (Some(bytes), _) => Poll::Ready(Ok(bytes)),
            (None, Some(error)) => Poll::Ready(Err(error)),
            (None, None) => Poll::Pending,
        }
    }

    /// Notifies the ranks of the node that the transport has failed.
    pub(crate) fn tell_failure(&self, rank: u32, text: &str) {
        self.segment.tell_failure(rank, text);
        self.doorbells.iter().for_each(|doorbell| doorbell.ring());
    }

    /// Which rank has reported that the transport has failed, and how.
    pub(crate) fn failure(&self) -> Option<(u32, String)> {
        self.segment.failure()
    }

    /// Wakes a rank of the node, if it waits.
    pub(crate) fn wake(&self, rank: u32) {
        if let Some(member) = self.member(rank) {
            self.doorbells[member].ring();
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
        let finished = self.is_all_sent(&state);
        drop(state);
        rings.into_iter().for_each(Doorbell::ring);
        finished
    }

    /// Publishes that this rank neither sends nor receives any more.
    pub(crate) fn depart(&self) {
        self.leave_at(GONE);
    }

    /// Publishes that a turn is over on this rank, and forgets what is left of it.
    pub(crate) fn end_turn(&self, turn: u32) {
        let mut state = self.lock();
        state.over = turn;
        for peer in &mut state.peers {
            peer.arrived.retain(|stream, _| !stream.is_over(turn));
        }
        drop(state);
        self.leave_at(turn);
    }

    fn leave_at(&self, turn: u32) {
        self.segment.departure(self.own).store(turn, Ordering::Release);
        self.doorbells.iter().for_each(|doorbell| doorbell.ring());
    }
}

impl Peer {
    /// The next message of a stream.
    fn next(&mut self, stream: Stream) -> Option<Vec<u8>> {
        let queue = self.arrived.get_mut(&stream)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.arrived.remove(&stream);
        }
        next
    }

    /// Takes what is whole, but for messages of turns that are over.
    fn take(&mut self, reading: &mut super::ring::Reading<'_>, over: u32) -> Result<()> {
        while let Some((stream, bytes)) = self.assembly.next(reading)? {
            if !stream.is_over(over) {
                self.arrived.entry(stream).or_default().push_back(bytes);
            }
        }
        Ok(())
    }
}
