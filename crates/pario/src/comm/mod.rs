//! How ranks reach each other. Knows no files and no windows.
//!
//! A [`Communicator`] is what a transport must offer: messages that never block their sender, a
//! shared counter, memory that all ranks share where they are on one node, and a way to make
//! progress on work. Everything collective is written once on top of it (`collective`). One
//! transport lives here, that of the ranks of a process (`local`). They can be driven in three
//! ways: [`Solo`] (one rank), [`Threads`] (a thread for each rank) and [`Simulated`] (all ranks in
//! one thread, in an order that a seed decides).
//!
//! Calls that wait are futures. A blocking call drives its future to the end
//! ([`Communicator::block_on`]); a non-blocking one hands it over ([`Communicator::spawn`]); the
//! simulator polls all of them in an order that its seed decides. There is no other runtime.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::Result;
use crate::number::{index, rank_of};
use watchdog::Wait;

pub mod collective;
mod cores;
mod local;
mod region;
mod simulated;
mod threads;
mod timeline;
mod watchdog;

pub(crate) use region::{HEAD_NUMBERS, RANK_NUMBERS};
pub use simulated::Simulated;
pub use threads::{Solo, Threads};
pub(crate) use timeline::Due;

// For transports in other crates; no program needs them, and they may change at any time.
#[doc(hidden)]
pub use crate::model::clock::CoreWork;
#[doc(hidden)]
pub use cores::{Affinity, is_oversubscribed};
#[doc(hidden)]
pub use region::{Keeper, Region};
#[doc(hidden)]
pub use timeline::{RankClock, catch_up, charge, rest_until};
#[doc(hidden)]
pub use watchdog::Watchdog;
pub(crate) use watchdog::named;

/// Work that goes on while the program does something else.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What messages belong to: a call, and one of its streams.
///
/// Messages with the same sender, receiver and tag arrive in the order in which they were sent;
/// others have no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// Number of the collective call on this communicator. Numbers of calls that go on at the same
    /// time are less than 8192 apart, or a transport may take them for the same.
    pub call: u64,
    /// Stream inside the call.
    pub lane: Lane,
}

/// The streams of messages inside one collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lane {
    /// Agreements between all ranks.
    Control,
    /// Bytes of the users' buffers.
    Data,
    /// Answers to data.
    Answer,
}

/// Something that a rank waits for, and that no message announces.
#[doc(hidden)]
pub trait Condition: Send {
    /// Whether it is so now. It may do some work that brings it about.
    fn is_so(&mut self) -> bool;

    /// The collective call that waits; none for an independent one.
    fn call(&self) -> Option<u64>;

    /// What is waited for, such as the ranks that have to do something; and a question that may
    /// help to find the reason of a long wait.
    fn awaited(&self) -> (String, &'static str);
}

/// The ranks of a communicator, and where they are; the same on all of them but for `rank`.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Group {
    /// The rank whose communicator it is.
    pub rank: u32,
    /// The node of each rank.
    pub nodes: Vec<u32>,
    /// Cores of each node.
    pub cores: Vec<u32>,
    /// What carries messages.
    pub transport: &'static str,
    /// What the transport calls the communicator: MPI's handle of it.
    pub handle: usize,
}

/// A group of ranks that can send messages to each other.
///
/// Every rank has its own value; ranks are numbered from 0. A failure of a peer is an error of
/// class `PeerLost` in whatever waits for it, on every rank: nobody waits for ever. An error of the
/// transport is one of all ranks, too: a rank that gets one from [`Communicator::send`] or
/// [`Communicator::poll_receive`] leaves its collective, and all others get it from whatever they
/// wait for then, with the same class.
pub trait Communicator: Send + Sync {
    /// The ranks, and where they are.
    #[doc(hidden)]
    fn group(&self) -> &Group;

    /// What logs long waits for ranks of this communicator.
    #[doc(hidden)]
    fn watchdog(&self) -> &Watchdog;

    /// The number of this rank.
    fn rank(&self) -> u32 {
        self.group().rank
    }

    /// How many ranks there are.
    fn size(&self) -> u32 {
        rank_of(self.group().nodes.len())
    }

    /// The time of this rank, from some moment on: of the system, or virtual where the rank is
    /// simulated on a described machine.
    fn now(&self) -> Duration {
        self.clock().map_or_else(timeline::system_time, RankClock::now)
    }

    /// The virtual clock of this rank, if it is simulated on a described machine.
    #[doc(hidden)]
    fn clock(&self) -> Option<&RankClock> {
        None
    }

    /// What carries messages: `threads`, or the MPI library. Profiles are kept apart by it.
    fn transport(&self) -> &'static str {
        self.group().transport
    }

    /// The node on which a rank runs; nodes are numbered from 0 without gaps.
    fn node(&self, rank: u32) -> u32 {
        self.group().nodes[index(rank)]
    }

    /// Cores of a node that the ranks there may use, at least one; the same on all ranks. A rank
    /// that a launcher has bound to a core does not speak for its node.
    fn cores(&self, node: u32) -> u32 {
        self.group().cores[index(node)]
    }

    /// A communicator of the same ranks whose messages and counter are apart from those of this
    /// one. All ranks call it, in the same order; it may wait for them.
    fn duplicate(&self) -> Result<Arc<dyn Communicator>>;

    /// Sends a message; never waits for the receiver.
    fn send(&self, to: u32, tag: Tag, bytes: Vec<u8>) -> Result<()>;

    /// Takes the next message, or arranges for the waker to be called when there may be one.
    fn poll_receive(&self, from: u32, tag: Tag, context: &mut Context<'_>)
    -> Poll<Result<Vec<u8>>>;

    /// Adds to the number that all ranks of this communicator share; returns the old value. The
    /// first one is 0; a sum that would pass 2^64 is an error of class `Arg` and changes nothing.
    fn counter_add(&self, delta: u64) -> Result<u64>;

    /// Sets the number that all ranks share; nobody adds to it at the same time.
    fn counter_set(&self, value: u64) -> Result<()>;

    /// Memory that all ranks of this communicator share, if there is such memory on every rank.
    #[doc(hidden)]
    fn region(&self) -> Option<&Region>;

    /// Whether a condition holds; if not, the waker is called when it may, at the latest when
    /// another rank wakes this one ([`Communicator::wake`]).
    #[doc(hidden)]
    fn poll_until(
        &self,
        condition: &mut dyn Condition,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>>;

    /// Wakes a rank that waits for a condition.
    #[doc(hidden)]
    fn wake(&self, rank: u32);

    /// Carries a task forward while the program goes on. It may hold this communicator.
    fn spawn(&self, task: Task);

    /// Carries a task forward until it ends, and waits for that.
    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>);
}

/// The time that has passed on a rank since another time of it.
pub(crate) fn since(communicator: &dyn Communicator, began: Duration) -> Duration {
    communicator.now().saturating_sub(began)
}

/// Drives a future to its end on a communicator.
///
/// ```
/// use pario::comm::{Lane, Tag, block_on, receive};
/// use pario::{Communicator, Threads};
///
/// // Each rank sends its number to the next one.
/// Threads::new(3).run(|comm| {
///     let tag = Tag { call: 0, lane: Lane::Data };
///     let (next, previous) = ((comm.rank() + 1) % 3, (comm.rank() + 2) % 3);
///     comm.send(next, tag, comm.rank().to_le_bytes().to_vec()).unwrap();
///     let bytes = block_on(&*comm, receive(&*comm, previous, tag)).unwrap();
///     assert_eq!(bytes, previous.to_le_bytes());
/// });
/// ```
pub fn block_on<T: Send>(
    communicator: &dyn Communicator,
    future: impl Future<Output = T> + Send,
) -> T {
    let mut result = None;
    {
        let task = pin!(async { result = Some(future.await) });
        communicator.block_on(task);
    }
    let Some(result) = result else { unreachable!("a task that has ended has a result") };
    result
}

/// The next message from a rank.
///
/// # Errors
/// `PeerLost` if nothing can come from that rank any more.
pub async fn receive(communicator: &dyn Communicator, from: u32, tag: Tag) -> Result<Vec<u8>> {
    let mut wait = Wait::new(communicator, Some(tag.call));
    std::future::poll_fn(|context| {
        let poll = communicator.poll_receive(from, tag, context);
        wait.note(&poll, || (format!("rank {from}"), "has that rank made the call?"));
        poll
    })
    .await
}

/// Waits until a condition holds.
///
/// # Errors
/// `PeerLost` if a rank is lost that could have brought it about.
pub(crate) async fn wait_until(
    communicator: &dyn Communicator,
    condition: &mut dyn Condition,
) -> Result<()> {
    let mut wait = Wait::new(communicator, condition.call());
    std::future::poll_fn(|context| {
        let poll = communicator.poll_until(condition, context);
        wait.note(&poll, || condition.awaited());
        poll
    })
    .await
}

/// Something that nobody announces. Waiting ranks look again and again, after a while with pauses.
struct Unannounced<F, G> {
    is_so: F,
    awaited: G,
    looks: u32,
    /// Whether the rank has a thread, which others may need meanwhile.
    sleeps: bool,
}

impl<F, G> Condition for Unannounced<F, G>
where
    F: FnMut() -> bool + Send,
    G: Fn() -> (String, &'static str) + Send,
{
    fn is_so(&mut self) -> bool {
        const EAGER_LOOKS: u32 = 100;
        const LOOK_PAUSE: Duration = Duration::from_micros(50);
        self.looks += 1;
        if self.sleeps && self.looks > EAGER_LOOKS {
            std::thread::sleep(LOOK_PAUSE);
        }
        (self.is_so)()
    }

    fn call(&self) -> Option<u64> {
        None
    }

    fn awaited(&self) -> (String, &'static str) {
        (self.awaited)()
    }
}

/// Waits in an independent call until something is so that nobody announces; `awaited` is as that
/// of a [`Condition`].
///
/// # Errors
/// `PeerLost` if a rank is lost that could have brought it about.
pub(crate) async fn look_until(
    communicator: &dyn Communicator,
    is_so: impl FnMut() -> bool + Send,
    awaited: impl Fn() -> (String, &'static str) + Send,
) -> Result<()> {
    let sleeps = communicator.clock().is_none();
    let mut condition = Unannounced { is_so, awaited, looks: 0, sleeps };
    if condition.is_so() {
        return Ok(());
    }
    pause().await;
    wait_until(communicator, &mut condition).await
}

/// Whether all ranks are on one node and oversubscribe it; the same on all ranks. Then it matters
/// how often each of them has to wait, more than how many messages one sends.
pub(crate) fn oversubscribes_one_node(communicator: &dyn Communicator) -> bool {
    let ranks = communicator.size();
    is_oversubscribed(index(ranks), communicator.cores(0))
        && (0..ranks).all(|rank| communicator.node(rank) == 0)
}

/// Lets others go on before the caller does.
#[doc(hidden)]
pub async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
