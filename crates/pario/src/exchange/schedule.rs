//! Which rank uses which window of the shared region, and when: agreed on by atomic numbers,
//! without messages.
//!
//! The windows of a call are numbered, and share a few slots of the region: with S slots, window n
//! has slot n modulo S. A server *claims* a window when the window before it in its slot is *done*,
//! and *opens* it. Each rank that has bytes in it *leaves* it when they are copied. A read is done
//! when all ranks have left; a write is then *taken* by a server, stored, and done. The call has
//! ended when all windows are done and all ranks have arrived at its end.
//!
//! Every number carries the epoch, so slots need no reset between calls: numbers of earlier epochs
//! are ignored. No rank begins an epoch before all have left the one before it, since every call
//! begins with a gather.
//!
//! Each rank also publishes whether it runs or waits. On oversubscribed nodes, ranks are woken as
//! cores become free, not all at once. A rank that opens a window or frees a slot wakes others only
//! if few ranks run for each core ([`RUNNING_PER_CORE`]); a rank that is about to wait wakes one
//! that can run in its place.
//!
//! No wake-up is lost: a rank that enables others to go on is running, and looks for them before it
//! waits or leaves. A rank that waits publishes that, and looks for its window once more; there is
//! a fence in between. A server opens the window, and looks for waiting ranks; there is a fence in
//! between as well. So at least one of them sees the other.
//!
//! Cost: an atomic number or two for each rank and window, and a look at the states of all ranks.

use super::sync::{AtomicU64, Ordering, fence};

/// Windows that are in use at a time, at most.
pub(super) const SLOTS_MAX: usize = 64;
/// There are fewer windows.
pub(super) const WINDOWS_MAX: u32 = WAITS;

/// Numbers of a cache line: those that different ranks change lie apart.
const LINE: usize = 8;
/// The next window that a server may claim.
const NEXT: usize = 0;
/// The last epoch in which a rank has failed.
const FAILED: usize = LINE;
/// Whether the region was prefaulted, once for all epochs.
const PREFAULTED: usize = LINE + 1;
/// How many windows are done, and ranks have arrived.
const FINISHED: usize = 2 * LINE;
/// The first line of the gate.
pub(super) const GATE: usize = 3 * LINE;
/// The sync of the file that failed first, if one did (`file/unsynced.rs`).
pub(crate) const SYNC_FAILED: usize = GATE + 1;
/// The slots, a line each.
const SLOTS: usize = 4 * LINE;
/// Numbers of all ranks together.
pub(super) const HEAD: usize = SLOTS + SLOTS_MAX * LINE;

/// In the line of a slot: the last window that was opened there,
const OPENED: usize = 0;
/// what its server says of it,
const WORD: usize = 1;
/// the last window that was done there,
const DONE: usize = 2;
/// ranks that have not left the window yet,
const LEFT: usize = 3;
/// and the last window there that a server has taken to store it.
const TAKEN: usize = 4;

/// Among the numbers of a rank: its writes on their way (the gate),
pub(super) const WRITES: usize = 0;
/// what it does,
const STATE: usize = 1;
/// and a number for each slot.
const PLACES: usize = LINE;
/// Numbers of each rank.
pub(super) const RANK: usize = PLACES + SLOTS_MAX;

/// What a rank does, as the lower half of its state; below these it waits for the window of that
/// number.
const RUNS: u32 = u32::MAX;
/// It waits for anything that it can do, or for the end.
const WAITS: u32 = u32::MAX - 1;
/// How many ranks should run for each core: where one waits, another one is there already.
pub(super) const RUNNING_PER_CORE: usize = 2;

/// What windows there are, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) slots: u32,
    pub(crate) windows: u32,
    pub(crate) cores: u32,
}

/// The schedule of one call, for one rank.
#[derive(Clone, Copy)]
pub(crate) struct Schedule<'a> {
    numbers: &'a [AtomicU64],
    ranks: u32,
    rank: u32,
    /// The use of the region, as far as it fits.
    epoch: u32,
    room: Room,
}

/// What a rank waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The window of that number, or anything that it can do meanwhile.
    Window(u32),
    /// Anything that it can do, or the end.
    Work,
}

impl<'a> Schedule<'a> {
    /// The schedule of the next use of a region's numbers. The rank runs from now on.
    pub(crate) fn new(
        numbers: &'a [AtomicU64],
        (rank, ranks): (u32, u32),
        uses: u64,
        room: Room,
    ) -> Schedule<'a> {
        assert!(numbers.len() >= HEAD + wide_index(ranks) * RANK, "numbers for all ranks");
        // Zeroed numbers are of no epoch but the first one.
        let [_, epoch] = halves(uses.wrapping_add(1));
        let schedule = Schedule { numbers, ranks, rank, epoch, room };
        schedule.publish(RUNS);
        schedule
    }

    fn number(&self, at: usize) -> &'a AtomicU64 {
        &self.numbers[at]
    }

    fn slot(&self, number: u32, field: usize) -> &'a AtomicU64 {
        self.number(SLOTS + wide_index(self.slot_of(number)) * LINE + field)
    }

    fn state(&self, rank: u32) -> &'a AtomicU64 {
        self.number(HEAD + wide_index(rank) * RANK + STATE)
    }

    /// A number for each window in use and rank, which the server of the window sets.
    pub(crate) fn place(&self, number: u32, rank: u32) -> &'a AtomicU64 {
        let slot = wide_index(self.slot_of(number));
        self.number(HEAD + wide_index(rank) * RANK + PLACES + slot)
    }

    /// Publishes what this rank does.
    fn publish(&self, state: u32) {
        self.state(self.rank).store(self.word(state), Ordering::SeqCst);
    }

    /// This rank waits from now on.
    pub(crate) fn wait(&self, waiting: Waiting) {
        self.publish(match waiting {
            Waiting::Window(number) => number,
            Waiting::Work => WAITS,
        });
        fence(Ordering::SeqCst);
    }

    /// Whether what a rank waits for is so.
    pub(crate) fn has_come(&self, waiting: Waiting) -> bool {
        match waiting {
            Waiting::Window(number) => self.opened(number).is_some(),
            Waiting::Work => self.has_ended(),
        }
    }

    /// Whether it is published that this rank waits; others change that when they wake it.
    pub(crate) fn waits(&self) -> bool {
        self.state(self.rank).load(Ordering::SeqCst) != self.word(RUNS)
    }

    /// This rank waits no more.
    pub(crate) fn go_on(&self) {
        if self.waits() {
            self.publish(RUNS);
        }
    }

    /// This rank has arrived at the end of the call.
    pub(crate) fn arrive(&self) {
        self.finish();
    }

    /// A window is done: its slot is free.
    pub(crate) fn done(&self, number: u32) {
        self.slot(number, DONE).store(self.key(number), Ordering::Release);
        self.finish();
    }

    /// Counts a window or a rank that has finished.
    fn finish(&self) {
        let one_more = |word: u64| Some(self.word(self.count_of(word) + 1));
        let finished = self.number(FINISHED);
        let _ = finished.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
    }

    /// Whether all windows are done and all ranks have arrived.
    pub(crate) fn has_ended(&self) -> bool {
        let finished = self.count_of(self.number(FINISHED).load(Ordering::SeqCst));
        u64::from(finished) == u64::from(self.room.windows) + u64::from(self.ranks)
    }

    /// Ranks that wait and are to be woken now, as far as cores are free for them: those whose
    /// window is open, or all, if there is something that every rank can serve. The caller wakes
    /// them.
    pub(crate) fn wake(&self, all: bool) -> Vec<u32> {
        fence(Ordering::SeqCst);
        let runs = |rank: &u32| self.state(*rank).load(Ordering::Relaxed) == self.word(RUNS);
        let running = (0..self.ranks).filter(runs).count();
        let wanted = RUNNING_PER_CORE * wide_index(self.room.cores);
        self.wake_some(wanted.saturating_sub(running), all)
    }

    /// A rank to be woken instead of this one, which is about to wait or to leave.
    pub(crate) fn replace(&self) -> Vec<u32> {
        fence(Ordering::SeqCst);
        self.wake_some(1, false)
    }

    /// Ranks to be woken by one that has seen the end: it wakes some, and these wake others before
    /// they do anything else. A rank that woke all would have to wait for its core after each.
    pub(crate) fn part(&self) -> Vec<u32> {
        fence(Ordering::SeqCst);
        self.wake_some(RUNNING_PER_CORE, true)
    }

    /// Those of some ranks that wait, because there is something that only they can serve.
    pub(crate) fn wake_those(&self, ranks: impl Iterator<Item = u32>) -> Vec<u32> {
        fence(Ordering::SeqCst);
        ranks.filter(|&rank| rank != self.rank && self.awake(rank, &|_| true)).collect()
    }

    fn wake_some(&self, limit: usize, all: bool) -> Vec<u32> {
        let others = (1..self.ranks).map(|distance| (self.rank + distance) % self.ranks);
        let can_go = |number: u32| all || number < WAITS && self.was_opened(number);
        others.filter(|&rank| self.awake(rank, &can_go)).take(limit).collect()
    }

    /// Makes a rank that waits, and can go on, one that runs.
    fn awake(&self, rank: u32, can_go: &dyn Fn(u32) -> bool) -> bool {
        let state = self.state(rank);
        let old = state.load(Ordering::Relaxed);
        let [epoch, number] = halves(old);
        let exchange =
            || state.compare_exchange(old, self.word(RUNS), Ordering::SeqCst, Ordering::Relaxed);
        epoch == self.epoch && number <= WAITS && can_go(number) && exchange().is_ok()
    }

    /// The ranks that this one waits for: those that have not begun this use of the region yet, and
    /// those that work.
    pub(crate) fn missing(&self) -> Vec<u32> {
        let waits = |rank: u32| {
            let [epoch, low] = halves(self.state(rank).load(Ordering::Relaxed));
            epoch == self.epoch && low <= WAITS
        };
        (0..self.ranks).filter(|&rank| rank != self.rank && !waits(rank)).collect()
    }

    fn word(&self, low: u32) -> u64 {
        u64::from(self.epoch) << 32 | u64::from(low)
    }

    /// The slot of a window.
    pub(crate) fn slot_of(&self, number: u32) -> u32 {
        number % self.room.slots
    }

    /// The window that has the slot of another one after it, if there is one.
    pub(crate) fn after(&self, number: u32) -> Option<u32> {
        number.checked_add(self.room.slots).filter(|&next| next < self.room.windows)
    }

    /// The number of a window among those of all epochs, never 0.
    fn key(&self, number: u32) -> u64 {
        self.word(number).wrapping_add(1)
    }

    /// A number that is counted up from 0 in each epoch.
    fn count_of(&self, word: u64) -> u32 {
        let [epoch, count] = halves(word);
        if epoch == self.epoch { count } else { 0 }
    }

    /// The next window that a server may claim; as many as there are, if none is left.
    pub(crate) fn next(&self) -> u32 {
        self.count_of(self.number(NEXT).load(Ordering::Acquire))
    }

    /// Makes this rank the server that opens a window, if that is the next one and no other rank is
    /// faster.
    pub(crate) fn claim(&self, number: u32) -> bool {
        let next = self.number(NEXT);
        let (old, new) = (next.load(Ordering::Acquire), self.key(number));
        let exchange = || next.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
        self.count_of(old) == number && exchange().is_ok()
    }

    /// Whether the slot of a window is free for it.
    pub(crate) fn is_free(&self, number: u32) -> bool {
        let Some(before) = number.checked_sub(self.room.slots) else { return true };
        self.slot(number, DONE).load(Ordering::Acquire) == self.key(before)
    }

    /// Opens a window for this number of ranks.
    pub(crate) fn open(&self, number: u32, ranks: usize, word: u64) {
        let ranks = u64::try_from(ranks).unwrap_or(u64::MAX);
        self.slot(number, LEFT).store(ranks, Ordering::Relaxed);
        self.slot(number, WORD).store(word, Ordering::Relaxed);
        self.slot(number, OPENED).store(self.key(number), Ordering::Release);
    }

    /// What the server of a window says, if it is open.
    pub(crate) fn opened(&self, number: u32) -> Option<u64> {
        let is_open = self.slot(number, OPENED).load(Ordering::Acquire) == self.key(number);
        is_open.then(|| self.slot(number, WORD).load(Ordering::Relaxed))
    }

    /// Whether a window is open, or was so before another one had its slot.
    pub(crate) fn was_opened(&self, number: u32) -> bool {
        let opened = self.slot(number, OPENED).load(Ordering::Acquire);
        let [epoch, _] = halves(opened.wrapping_sub(1));
        epoch == self.epoch && opened >= self.key(number)
    }

    /// This rank has copied its bytes of an open window; whether it is the last one.
    pub(crate) fn leave(&self, number: u32) -> bool {
        self.slot(number, LEFT).fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The first window that all ranks have left and that no server has taken, among those that
    /// `is_mine` says.
    fn full(&self, is_mine: &dyn Fn(u32) -> bool) -> Option<u32> {
        let window = |slot: u32| {
            let of = |field| self.slot(slot, field).load(Ordering::Acquire);
            let opened = of(OPENED);
            let [epoch, number] = halves(opened.wrapping_sub(1));
            let is_full = || of(LEFT) == 0 && of(DONE) != opened && of(TAKEN) != opened;
            (opened > 0 && epoch == self.epoch && is_full() && is_mine(number)).then_some(number)
        };
        (0..self.room.slots).filter_map(window).min()
    }

    /// Makes this rank the one that stores the first full window of those that `is_mine` says;
    /// there may be none.
    pub(crate) fn take_full(&self, is_mine: &dyn Fn(u32) -> bool) -> Option<u32> {
        loop {
            let number = self.full(is_mine)?;
            let (taken, key) = (self.slot(number, TAKEN), self.key(number));
            // By now it may be done, and a later one of this epoch taken.
            let is_later = |old: u64| halves(old.wrapping_sub(1))[0] == self.epoch && old >= key;
            let take = |old: u64| (!is_later(old)).then_some(key);
            if taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
                return Some(number);
            }
        }
    }

    /// Whether the region may be used at length.
    pub(crate) fn is_prefaulted(&self) -> bool {
        self.number(PREFAULTED).load(Ordering::Acquire) != 0
    }

    /// From now on it may.
    pub(crate) fn set_prefaulted(&self) {
        self.number(PREFAULTED).store(1, Ordering::Release);
    }

    /// This rank has failed: nothing is fetched or stored any more in this call.
    pub(crate) fn fail(&self) {
        self.number(FAILED).store(self.key(0), Ordering::Release);
    }

    /// Whether a rank has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.number(FAILED).load(Ordering::Acquire) == self.key(0)
    }
}

/// An index of as many as there are ranks.
pub(super) fn wide_index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}
