//! Windows in memory that the processes of a node have in common.
//!
//! The windows of all domains have numbers and go through a few slots of that memory, one after
//! the other (`comm::board`). A read: somebody fetches a window into its slot when that is free,
//! and each rank that has bytes there takes them. A write: somebody prepares the window, each rank
//! places its bytes, and the last one stores it. Nobody sends anything, and nobody waits for a
//! certain rank: whoever finds nothing of its own to copy fetches the next window. So there is work
//! for every processor while there is any rank that can run, whoever that is.
//!
//! Where hints say who may touch storage, or not every rank knows what all others ask for,
//! aggregators do that for the windows of their own domains ([`Servers::Aggregators`]).
//!
//! A rank that has given up says so on the board; from then on nothing is stored or fetched, but
//! all windows are opened and left as ever. What was not stored is told by those who should have
//! done it.
//!
//! Short pieces are packed in these windows (`packed`).
//!
//! Cost: each byte is copied once, by the rank whose it is, besides the storage access; no message.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::thread::sched_getcpu;

use super::agree::{Report, leading, reports};
use super::packed::Begin;
use super::shuffle::malformed;
use super::window::{Window, reach};
use super::{Job, Outcome};
use crate::access::Access;
use crate::access::memory::{CommonWindow, Parcel};
use crate::comm::board::{Board, Room, Waiting};
use crate::comm::collective::rank_of;
use crate::comm::{CommonMemory, Communicator, pause};
use crate::error::Result;
use crate::plan::two_phase::Servers;
use crate::plan::{Direction, Shuffled};
use crate::statistics::CallStatistics;

/// Carries a plan out; every rank returns the same error.
pub(super) async fn run(
    job: &Job<'_>,
    shuffled: &Shuffled,
    (servers, statistics): (Servers, &mut CallStatistics),
) -> Result<Outcome> {
    let (start, storage_before) = (Instant::now(), statistics.storage);
    let Some(memory) = job.communicator.common_memory() else {
        unreachable!("all ranks have agreed that they have common memory");
    };
    let mut common = Common::start((job, memory), shuffled, (servers, &mut *statistics));
    for number in 0..common.total {
        let positions = job.prepared.own.within(&common.file(number));
        if !positions.is_empty() {
            common.wait_for(number).await?;
            common.copy(number, Parcel { access: &job.prepared.own, positions });
            common.leave(number);
        }
    }
    common.serve_to_the_end().await?;
    let outcome = common.finish().await?;
    let storage = statistics.storage - storage_before;
    statistics.exchange += start.elapsed().saturating_sub(storage);
    Ok(outcome)
}

/// Waits until all ranks have ended their part of a call without common windows; whether all are
/// well, and no rank has anything else to tell. `worked_much`: see [`Leaving`].
pub(super) async fn all_are_well(job: &Job<'_>, is_well: bool, worked_much: bool) -> Result<bool> {
    let Some(memory) = job.communicator.common_memory() else {
        unreachable!("all ranks have agreed that they have common memory");
    };
    let nothing = Room { slots: 1, windows: 0, at_a_time: 1, processors: 1 };
    let board = Board::new(memory, job.communicator.rank(), nothing);
    let leaving = Leaving { board, worked_much };
    if !is_well {
        board.give_up();
    }
    let mut has_ended = || loop {
        if board.may_leave(worked_much) {
            board.go_on();
            return true;
        }
        if board.waits() {
            return false;
        }
        board.wait(leaving.waiting());
    };
    board.end(worked_much);
    let (communicator, call) = (job.communicator, job.call);
    let waited = poll_fn(|context| communicator.poll_common(call, &mut has_ended, context)).await;
    leaving.leave(communicator, waited).await?;
    Ok(!board.has_given_up())
}

/// So many bytes more than the average are much.
const MUCH_BYTES: u64 = 4 << 20;

/// Whether a rank that fetches or stores so many bytes leaves before others ([`Leaving`]).
pub(super) fn works_much(job: &Job<'_>, shuffled: &Shuffled, bytes: u64) -> bool {
    let ranks = job.communicator.size();
    let total: u64 = shuffled.domains().iter().map(|one| one.file.end - one.file.start).sum();
    shuffled.is_oversubscribed() && bytes > total / u64::from(ranks) + MUCH_BYTES
}

/// How often, and how long, a rank waits for those that have worked more than it.
const LEAVING_NAPS: u32 = 20;
const LEAVING_NAP: Duration = Duration::from_micros(20);

/// How a rank leaves a call that all have ended.
///
/// Where ranks share processors, systems let those go on first that have had less of them. Whoever
/// has served all others would be the last to leave, while they look again and again whether it
/// comes. So it leaves before they are woken.
#[derive(Clone, Copy)]
struct Leaving<'a> {
    board: Board<'a>,
    worked_much: bool,
}

impl Leaving<'_> {
    fn waiting(&self) -> Waiting {
        if self.worked_much { Waiting::ToLeave } else { Waiting::Others }
    }

    /// Leaves, once this rank has waited for its turn.
    async fn leave(&self, communicator: &dyn Communicator, waited: Result<()>) -> Result<()> {
        // Who has left may be gone for good; before that, it would be lost.
        if !self.board.has_ended() {
            return waited;
        }
        let ring =
            |ranks: Vec<u32>| ranks.into_iter().for_each(|rank| communicator.wake_common(rank));
        ring(self.board.part_first());
        if self.worked_much {
            ring(self.board.part());
            self.board.left();
            return Ok(());
        }
        for _ in 0..LEAVING_NAPS {
            if !self.board.is_anybody_staying() {
                break;
            }
            std::thread::sleep(LEAVING_NAP);
            pause().await;
        }
        self.board.let_all_leave();
        ring(self.board.part());
        Ok(())
    }
}

pub(super) struct Common<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) shuffled: &'a Shuffled,
    pub(super) statistics: &'a mut CallStatistics,
    memory: &'a CommonMemory,
    pub(super) board: Board<'a>,
    servers: Servers,
    /// Whether whoever opens the first window has to settle the memory first.
    unsettled: bool,
    /// How many windows there are.
    total: u32,
    /// Those in the slots; where bytes are packed there, one of this rank's own.
    pub(super) window: Window,
    /// The next window that this aggregator has to open.
    next: u32,
    /// Windows that this aggregator has opened and has yet to store.
    open: VecDeque<u32>,
    /// Windows that this rank has fetched or stored.
    served: u32,
    /// The first position of this rank's own request whose byte was not there to be taken.
    missing_from: u64,
    /// What this rank should have stored but has not.
    undone: Vec<Range<u64>>,
    /// Whether this rank has told that it is done: what it did then, nobody would wait for.
    has_ended: bool,
}

impl<'a> Common<'a> {
    fn start(
        (job, memory): (&'a Job<'a>, &'a CommonMemory),
        shuffled: &'a Shuffled,
        (servers, statistics): (Servers, &'a mut CallStatistics),
    ) -> Common<'a> {
        let rank = job.communicator.rank();
        let (slots, windows) = (shuffled.slots(), shuffled.windows_in_all());
        let at_a_time = match job.prepared.direction {
            // A window is stored in the time that a few ranks need to wake.
            Direction::Write if !shuffled.packs_common() => u32::try_from(slots / 2).unwrap_or(1),
            _ => 1,
        };
        let room = Room { slots, windows, at_a_time, processors: shuffled.processors() };
        let board = Board::new(memory, rank, room);
        let unsettled = u64::from(windows) >= slots && memory.must_settle();
        let slot = |slot: u64| CommonWindow::of(memory, slot, shuffled.window_bytes());
        let window = match shuffled.packs_common() {
            true => Window::new(shuffled.part_bytes(), shuffled.holes(), 0),
            false => Window::in_common((0..slots).map(slot).collect(), shuffled.holes()),
        };
        let of_own = |number: &u32| shuffled.numbered(*number).0.aggregator == rank;
        let next = (0..windows).find(of_own).unwrap_or(windows);
        if job.refused.is_some() || window.error.is_some() {
            board.give_up();
        }
        Common {
            job,
            shuffled,
            statistics,
            memory,
            board,
            servers,
            unsettled,
            total: windows,
            window,
            next,
            open: VecDeque::new(),
            served: 0,
            missing_from: job.prepared.own.positions().end,
            undone: Vec::new(),
            has_ended: false,
        }
    }

    /// The part of the file that a window is.
    pub(super) fn file(&self, number: u32) -> Range<u64> {
        let (domain, round) = self.shuffled.numbered(number);
        self.shuffled.window(domain, round)
    }

    /// The ranks that have bytes in a part of the file, and their parcels.
    fn parcels(&self, file: &Range<u64>) -> (Vec<u32>, Vec<Parcel<'a>>) {
        let parcel = |(rank, access): (usize, &'a Access)| {
            let positions = access.within(file);
            (!positions.is_empty()).then_some((rank_of(rank), Parcel { access, positions }))
        };
        self.job.prepared.peers.iter().enumerate().filter_map(parcel).unzip()
    }

    /// The slot of a window.
    pub(super) fn slot(&self, number: u32) -> CommonWindow {
        let bytes = self.shuffled.window_bytes();
        CommonWindow::of(self.memory, self.board.place(number), bytes)
    }

    /// Waits until a window is open; serves others meanwhile.
    async fn wait_for(&mut self, number: u32) -> Result<()> {
        // Mostly it is, and then nobody has to be asked.
        if self.board.opened(number).is_some() {
            return Ok(());
        }
        self.wait(Waiting::Window(number), |common| common.board.opened(number).is_some()).await
    }

    /// Serves until there is nothing left that only this rank can do, and waits until that is so
    /// for all.
    async fn serve_to_the_end(&mut self) -> Result<()> {
        if self.servers == Servers::Aggregators {
            let is_done = |common: &Self| common.next == common.total && common.open.is_empty();
            self.wait(Waiting::Others, is_done).await?;
        }
        if self.servers == Servers::Anybody {
            while self.store_one() {}
        }
        self.has_ended = true;
        let served = u64::from(self.served) * self.shuffled.window_bytes();
        let worked_much = works_much(self.job, self.shuffled, served);
        let leaving = Leaving { board: self.board, worked_much };
        self.ring(self.board.end(worked_much));
        let may_leave = |common: &Self| common.board.may_leave(worked_much);
        let waited = self.wait(leaving.waiting(), may_leave).await;
        leaving.leave(self.job.communicator, waited).await
    }

    /// Waits until something is so, such as that a window is open; serves others meanwhile.
    async fn wait(&mut self, waiting: Waiting, is_so: impl Fn(&Self) -> bool + Sync) -> Result<()> {
        let (communicator, call) = (self.job.communicator, self.job.call);
        let mut go_on = || loop {
            self.board.is_on(sched_getcpu());
            if is_so(self) {
                self.board.go_on();
                return true;
            }
            if self.serve() {
                continue;
            }
            if self.board.waits() {
                return false;
            }
            // Once it is known that this rank waits, one more look.
            self.board.wait(waiting);
            self.ring(self.board.replace());
        };
        poll_fn(|context| communicator.poll_common(call, &mut go_on, context)).await
    }

    /// Wakes ranks.
    fn ring(&self, ranks: impl IntoIterator<Item = u32>) {
        ranks.into_iter().for_each(|rank| self.job.communicator.wake_common(rank));
    }

    /// Wakes those who can go on since a slot is free for a window.
    fn ring_for_slot(&self, number: u32) {
        match self.servers {
            Servers::Anybody => self.ring(self.board.wake(true)),
            Servers::Aggregators => {
                let aggregator = self.shuffled.numbered(number).0.aggregator;
                self.ring(self.board.wake_one(aggregator));
            }
        }
    }

    /// Opens or stores a window, if there is one for this rank to open or store; whether there was,
    /// or may be another one now.
    fn serve(&mut self) -> bool {
        match self.servers {
            Servers::Anybody => {
                let number = self.board.next();
                let is_settled = !self.unsettled || number == 0 || self.board.was_opened(0);
                if number == self.total || !self.board.is_free(number) || !is_settled {
                    return self.store_one();
                }
                if self.board.claim(number) {
                    self.open(number);
                }
            }
            Servers::Aggregators => match self.open.front() {
                Some(&first) if self.board.is_left(first) => {
                    self.open.pop_front();
                    self.store(first);
                }
                _ if self.next == self.total || !self.board.is_free(self.next) => return false,
                _ => {
                    let number = self.next;
                    self.next = self.total.min(number.saturating_add(self.shuffled.stride()));
                    self.open(number);
                }
            },
        }
        true
    }

    /// Fetches a window, or prepares it for bytes that ranks place there, and opens it.
    fn open(&mut self, number: u32) {
        if self.unsettled && number == 0 {
            self.memory.settle();
        }
        self.served += u32::from(self.job.prepared.direction == Direction::Read);
        let file = self.file(number);
        let (ranks, parcels) = self.parcels(&file);
        if self.board.has_given_up() {
            self.window.close();
        }
        let (packed, at) = (self.shuffled.packs_common(), (u64::from(number), file.start));
        let begins = Begin::of_all(&parcels, packed, file.end - file.start);
        let end = match self.job.prepared.direction {
            _ if parcels.is_empty() => file.start,
            Direction::Read if packed => self.fetch_packed(number, &parcels, &begins),
            Direction::Read => self.window.fetch(self.job, at, &reach(&parcels), self.statistics),
            Direction::Write => {
                if !packed {
                    self.window.open_for_write(self.job, at, &parcels, self.statistics);
                }
                file.end
            }
        };
        if self.window.error.is_some() {
            self.board.give_up();
        }
        for (&rank, &begin) in ranks.iter().zip(&begins) {
            let place = self.memory.place(self.board.place(number), rank);
            place.store(begin.to_word(), Ordering::Relaxed);
        }
        // A window of nobody is this rank's, so that no other one takes it for full.
        self.board.open(number, ranks.len().max(1), end);
        match (self.job.prepared.direction, self.servers) {
            _ if ranks.is_empty() => return self.let_go(number),
            (Direction::Write, Servers::Aggregators) => self.open.push_back(number),
            _ => {}
        }
        self.ring(self.board.wake(false));
    }

    /// Copies the bytes of this rank's parcel to or from an open window.
    fn copy(&mut self, number: u32, parcel: Parcel<'a>) {
        let Job { buffer, communicator, .. } = self.job;
        let place = self.memory.place(self.board.place(number), communicator.rank());
        let Some(end) = self.board.opened(number) else {
            unreachable!("a window stays open until this rank has left it");
        };
        let (file, slot) = (self.file(number), self.slot(number));
        let wanted = parcel.positions.clone();
        let parcel = if end < file.end { parcel.before(end) } else { parcel };
        if parcel.positions.end < wanted.end {
            self.missing_from = self.missing_from.min(parcel.positions.end);
        }
        let (began, offset) = (Instant::now(), file.start);
        match (self.job.prepared.direction, Begin::from_word(place.load(Ordering::Relaxed))) {
            _ if self.job.refused.is_some() => return,
            (Direction::Write, Begin::InPlace) => buffer.fill_common(&slot, offset, &parcel),
            (Direction::Read, Begin::InPlace) => buffer.take_common(&slot, offset, &parcel),
            (_, Begin::At(first)) if !slot.holds(first, parcel.len()) => {
                self.missing_from = self.missing_from.min(wanted.start);
                self.window.fail(malformed());
                return self.board.give_up();
            }
            (Direction::Write, Begin::At(first)) => buffer.pack_common(&slot, first, &parcel),
            (Direction::Read, Begin::At(first)) => buffer.unpack_common(&slot, first, &parcel),
        }
        self.statistics.shared_bytes += parcel.len();
        self.statistics.packing += began.elapsed();
    }

    /// This rank needs a window no more. The last one ends it, unless its aggregator does.
    fn leave(&mut self, number: u32) {
        if !self.board.leave(number) {
            return;
        }
        match (self.job.prepared.direction, self.servers) {
            // It takes longer to put bytes together than to store them: so this rank goes on to
            // the windows that it is the last one in as well, and others put together what is full.
            (Direction::Write, Servers::Anybody) if self.shuffled.packs_common() => {
                self.ring(self.board.wake(true));
            }
            (Direction::Write, Servers::Anybody) => self.store_full(),
            // Whoever has opened it stores it.
            (Direction::Write, Servers::Aggregators) => self.ring_for_slot(number),
            (Direction::Read, _) => self.let_go(number),
        }
    }

    /// Lets the slot of a window go to the next one.
    fn let_go(&mut self, number: u32) {
        self.board.done(number);
        if let Some(next) = self.board.after(number).filter(|&next| next < self.total) {
            self.ring_for_slot(next);
        }
    }

    /// Stores a packed window that is full, if there is one that nobody else stores.
    fn store_one(&mut self) -> bool {
        let writes = self.job.prepared.direction == Direction::Write;
        if !self.shuffled.packs_common() || !writes || self.has_ended {
            return false;
        }
        let taken = self.board.take_full();
        taken.map(|number| self.store(number)).is_some()
    }

    /// Stores what is full, unless another rank does: file systems let one rank write to a file at
    /// a time, and the others have better things to do than to wait for that.
    fn store_full(&mut self) {
        while self.board.full().is_some() && self.board.begin_storing() {
            while let Some(number) = self.board.full() {
                self.store(number);
                self.serve();
            }
            self.board.end_storing();
        }
    }

    /// Stores a window in which all ranks have placed their bytes.
    fn store(&mut self, number: u32) {
        self.served += 1;
        let file = self.file(number);
        let (_, parcels) = self.parcels(&file);
        if self.board.has_given_up() {
            self.window.close();
        }
        let round = u64::from(number);
        self.window.reached = reach(&parcels).start;
        match self.shuffled.packs_common() {
            _ if self.window.is_closed() => {}
            true => self.store_packed(number, &parcels),
            false => {
                self.window.adopt(self.job, (round, file.start), &parcels);
                self.window.store(self.job, round, &parcels, self.statistics);
            }
        }
        if self.window.is_closed() {
            self.undone.push(self.window.reached..file.end);
            self.board.give_up();
        }
        self.let_go(number);
    }

    /// After the last window: what became of this rank's request, and the error of all.
    async fn finish(self) -> Result<Outcome> {
        let Job { communicator, call, prepared, refused, .. } = self.job;
        let taken = self.missing_from - prepared.own.positions().start;
        if !self.board.has_given_up() {
            return Ok(Outcome { moved: taken, ..Outcome::default() });
        }
        let error = refused.clone().or(self.window.error);
        let report = Report { error, undone: self.undone, ..Report::default() };
        let (reports, error) = reports(*communicator, *call, report).await?;
        let moved = match prepared.direction {
            _ if refused.is_some() => 0,
            Direction::Read => taken,
            Direction::Write => {
                let undone = reports.into_iter().flat_map(|report| report.undone);
                leading(&prepared.own, undone)
            }
        };
        Ok(Outcome { moved, error, must_repeat: false })
    }
}
