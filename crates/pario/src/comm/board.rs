//! How ranks of a node agree, without messages, who uses which window in common memory when.
//!
//! The windows of a use of that memory have numbers, and go one after the other through a few slots
//! of it: number n has the slot n modulo their count. A window is *opened* by one rank, when the
//! one before it in its slot is *done*; each rank that has bytes in it *leaves* it when they are
//! copied; the last to leave it, or whoever opened it, ends what is to be done with it.
//!
//! All numbers carry that of the use of the memory, so that nothing has to be cleared between uses,
//! and what an earlier one left behind means nothing: whoever begins one has ended those before it.
//!
//! Each rank also notes what it does: it runs, or it waits for a window. Ranks are woken as a
//! processor is free for them, not all at once: whoever opens a window or lets a slot go wakes
//! others only if few ranks run for each processor ([`AT_ONCE`]), and whoever is about to wait
//! wakes one that can go on in its place. Nobody is forgotten: whoever makes it possible for others
//! to go on runs, and looks for them before it waits or leaves. A rank that waits has noted that
//! before it looks for its window a last time, with a fence in between; and so has the other
//! between opening the window and looking for ranks. (16 processes on 2 processors, each in a
//! session of its own, read 100 MiB in pieces of 512 bytes: 20 to 22 ms if all are woken at once,
//! 16 to 18 so, both with 4 windows of 1 MiB.)
//!
//! Cost: an atomic number or two for each rank and window, and a look at the notes of all ranks.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::CommonMemory;
use super::collective::{index, rank_of};
use super::idle_first::IdleFirst;
use crate::number::{narrow, wide};

/// Windows that are in use at a time, at most.
pub(crate) const SLOTS_MAX: usize = 16;

/// What ranks agree by. Zeroed memory is one.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Notes {
    /// The next window that somebody may open.
    next: Line,
    /// The last use in which a rank has given up.
    gave_up: Line,
    /// The use in which a rank stores windows now.
    storing: Line,
    /// How many ranks have ended their part of a use.
    ended: Line,
    /// How many of those that have worked more than others have not left yet.
    staying: Line,
    /// The last use in which a rank watches for that, so that all others can be woken.
    watched: Line,
    /// The last use in which it took long to store to windows that others have read.
    slow: Line,
    slots: [Slot; SLOTS_MAX],
}

#[derive(Default)]
#[repr(C, align(64))]
struct Line(AtomicU64);

#[derive(Default)]
#[repr(C, align(64))]
struct Slot {
    /// The last window that was opened here.
    opened: AtomicU64,
    /// What its opener says of it.
    word: AtomicU64,
    /// The last window that was done here.
    done: AtomicU64,
    /// Ranks that have not left the window yet.
    left: AtomicU64,
    /// The last window here that a rank has taken to store it.
    taken: AtomicU64,
}

/// What a rank does, as the lower half of a word; below these it waits for the window of that
/// number.
const RUNS: u32 = u32::MAX;
/// It waits for something that others tell it of.
const WAITS: u32 = u32::MAX - 1;
/// It has worked more than others, and waits for the end.
const WAITS_TO_LEAVE: u32 = u32::MAX - 2;
/// How many ranks should run for each processor: where one waits, another one is there already.
const AT_ONCE: usize = 2;
/// There are fewer windows.
pub(crate) const WINDOWS_MAX: u32 = WAITS_TO_LEAVE;

/// The notes, for one use by one rank.
#[derive(Clone, Copy)]
pub(crate) struct Board<'a> {
    notes: &'a Notes,
    /// What ranks do.
    states: &'a [AtomicU64],
    /// Where they were when they last told.
    processors: &'a [AtomicU64],
    rank: u32,
    /// The use of the memory, as far as it fits.
    turn: u32,
    room: Room,
}

/// What a rank waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The window of that number.
    Window(u32),
    /// Something that others tell it of.
    Others,
    /// The end, after more work than others had.
    ToLeave,
}

/// What windows there are, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) slots: u64,
    pub(crate) windows: u32,
    /// A rank is woken for so many of them, or the last ones; for no more than there are slots.
    pub(crate) at_a_time: u32,
    pub(crate) processors: u32,
}

impl<'a> Board<'a> {
    /// The rank runs from now on.
    pub(crate) fn new(memory: &'a CommonMemory, rank: u32, room: Room) -> Board<'a> {
        let [_, turn] = halves(memory.next_use());
        let (notes, states, processors) = (memory.notes(), memory.states(), memory.processors());
        let board = Board { notes, states, processors, rank, turn, room };
        board.note(RUNS);
        board
    }

    /// Notes what this rank does.
    fn note(&self, state: u32) {
        self.states[index(self.rank)].store(self.word(state), Ordering::SeqCst);
    }

    /// Tells which processor this rank is on. Systems wake it there, unless another one is idle.
    pub(crate) fn is_on(&self, processor: usize) {
        let (told, now) = (&self.processors[index(self.rank)], wide(processor));
        if told.load(Ordering::Relaxed) != now {
            told.store(now, Ordering::Relaxed);
        }
    }

    /// This rank waits from now on.
    pub(crate) fn wait(&self, waiting: Waiting) {
        self.note(match waiting {
            Waiting::Window(number) => number,
            Waiting::Others => WAITS,
            Waiting::ToLeave => WAITS_TO_LEAVE,
        });
        fence(Ordering::SeqCst);
    }

    /// Whether it is known that this rank waits; others change that when they wake it.
    pub(crate) fn waits(&self) -> bool {
        self.states[index(self.rank)].load(Ordering::SeqCst) != self.word(RUNS)
    }

    /// This rank waits no more.
    pub(crate) fn go_on(&self) {
        if self.waits() {
            self.note(RUNS);
        }
    }

    /// This rank has ended its part, and will wait for the others; `worked_much` tells that it has
    /// to leave before those who have not. Returns one that can go on in its place.
    pub(crate) fn end(&self, worked_much: bool) -> Vec<u32> {
        if worked_much {
            self.count(&self.notes.staying, |count| count + 1);
        }
        self.count(&self.notes.ended, |count| count + 1);
        self.replace()
    }

    /// This rank, which has worked much, leaves: it wakes nobody any more.
    pub(crate) fn left(&self) {
        self.count(&self.notes.staying, |count| count.saturating_sub(1));
    }

    /// Nobody waits any longer for those who have not left yet.
    pub(crate) fn let_all_leave(&self) {
        self.count(&self.notes.staying, |_| 0);
    }

    /// Whether a rank that has worked much has not left yet, once all have ended.
    pub(crate) fn is_anybody_staying(&self) -> bool {
        self.count_of(self.notes.staying.0.load(Ordering::SeqCst)) > 0
    }

    /// Whether all have ended, and this rank may leave now: those who have worked much may at once,
    /// then one that watches until they have left, then all.
    pub(crate) fn may_leave(&self, worked_much: bool) -> bool {
        let is_first = || worked_much || !self.is_anybody_staying();
        self.has_ended() && (is_first() || self.claim_line(&self.notes.watched))
    }

    /// Makes this rank the only one that has written the key of the use to a line.
    fn claim_line(&self, line: &Line) -> bool {
        let (line, key) = (&line.0, self.key(0));
        let old = line.load(Ordering::Relaxed);
        old != key && line.compare_exchange(old, key, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    fn count(&self, line: &Line, change: impl Fn(u32) -> u32) {
        let changed = |word: u64| Some(self.word(change(self.count_of(word))));
        let _ = line.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
    }

    /// Whether all ranks have ended their part.
    pub(crate) fn has_ended(&self) -> bool {
        index(self.count_of(self.notes.ended.0.load(Ordering::SeqCst))) == self.states.len()
    }

    /// Ranks that wait and are to be woken now: those that can go on, as far as processors are
    /// free for them. `anybody` tells that every rank can. The caller wakes them.
    pub(crate) fn wake(&self, anybody: bool) -> Vec<u32> {
        fence(Ordering::SeqCst);
        let running = (0..rank_of(self.states.len())).filter(|&rank| self.runs(rank)).count();
        self.wake_some((AT_ONCE * index(self.room.processors)).saturating_sub(running), anybody)
    }

    /// A rank to be woken instead of this one, which is about to wait or to leave.
    pub(crate) fn replace(&self) -> Vec<u32> {
        fence(Ordering::SeqCst);
        self.wake_some(1, false)
    }

    /// Ranks to be woken first by one that has seen that all have ended.
    pub(crate) fn part_first(&self) -> Vec<u32> {
        self.wake_where(usize::MAX, &|number| number == WAITS_TO_LEAVE)
    }

    /// Ranks to be woken by one that has seen that all have ended: it wakes some, and these wake
    /// others before they do anything else. Whoever were to wake all would have to wait for its
    /// processor after each.
    pub(crate) fn part(&self) -> Vec<u32> {
        self.wake_some(AT_ONCE, true)
    }

    /// A certain rank, if it waits.
    pub(crate) fn wake_one(&self, rank: u32) -> Option<u32> {
        fence(Ordering::SeqCst);
        self.awake(rank, &|_| true).then_some(rank)
    }

    fn wake_some(&self, limit: usize, anybody: bool) -> Vec<u32> {
        let is_open = |number| self.was_opened(self.enough_from(number));
        self.wake_where(limit, &|number| anybody || number < WINDOWS_MAX && is_open(number))
    }

    /// Those come first whose processor has the least to do: systems leave a processor idle for up
    /// to a millisecond before they bring it a rank that waits for another one. (16 processes on 2
    /// cores, reads of 512 bytes: 3.9 of 34 ms of processor time were idle, now 2.6 of 28.)
    fn wake_where(&self, limit: usize, can_go: &dyn Fn(u32) -> bool) -> Vec<u32> {
        if limit == 0 {
            return Vec::new();
        }
        let count = rank_of(self.states.len());
        let others = (1..count).map(|distance| (self.rank + distance) % count);
        let waiting: Vec<u32> =
            others.filter(|&rank| self.waiting(rank).is_some_and(|(_, low)| can_go(low))).collect();
        if waiting.is_empty() {
            return Vec::new();
        }
        let processor = |rank: u32| self.processors[index(rank)].load(Ordering::Relaxed);
        let busy = (0..count).filter(|&rank| self.runs(rank)).map(processor);
        let waiting = waiting.into_iter().map(|rank| (rank, processor(rank)));
        IdleFirst::new(waiting, busy).take(limit, |rank| self.awake(rank, can_go))
    }

    /// The last of so many windows from one on that it is worth while to wake a rank for them.
    fn enough_from(&self, number: u32) -> u32 {
        let last = self.room.windows.saturating_sub(1);
        last.min(number.saturating_add(self.room.at_a_time.saturating_sub(1)))
    }

    /// Makes a rank that waits, and can go on, one that runs.
    fn awake(&self, rank: u32, can_go: &dyn Fn(u32) -> bool) -> bool {
        let Some((old, number)) = self.waiting(rank) else { return false };
        let (state, runs) = (&self.states[index(rank)], self.word(RUNS));
        let exchange = || state.compare_exchange(old, runs, Ordering::SeqCst, Ordering::Relaxed);
        can_go(number) && exchange().is_ok()
    }

    /// What a rank waits for, if it does: its word, and the lower half of that.
    fn waiting(&self, rank: u32) -> Option<(u64, u32)> {
        let word = self.states[index(rank)].load(Ordering::Relaxed);
        let [turn, low] = halves(word);
        (turn == self.turn && low <= WAITS).then_some((word, low))
    }

    fn runs(&self, rank: u32) -> bool {
        self.states[index(rank)].load(Ordering::Relaxed) == self.word(RUNS)
    }

    fn word(&self, low: u32) -> u64 {
        u64::from(self.turn) << 32 | u64::from(low)
    }

    /// The slot of a window.
    pub(crate) fn place(&self, number: u32) -> u64 {
        u64::from(number) % self.room.slots
    }

    /// The window that has the slot of another one after it.
    pub(crate) fn after(&self, number: u32) -> Option<u32> {
        u32::try_from(u64::from(number) + self.room.slots).ok()
    }

    fn slot(&self, number: u32) -> &'a Slot {
        &self.notes.slots[narrow(self.place(number))]
    }

    /// The number of a window among those of all uses, never 0.
    fn key(&self, number: u32) -> u64 {
        self.word(number).wrapping_add(1)
    }

    /// The next window that somebody may open.
    pub(crate) fn next(&self) -> u32 {
        self.count_of(self.notes.next.0.load(Ordering::Acquire))
    }

    /// A number that is counted up from 0 in each use.
    fn count_of(&self, word: u64) -> u32 {
        let [turn, count] = halves(word);
        if turn == self.turn { count } else { 0 }
    }

    /// Makes this rank the one that opens a window, if that is the next one and no other rank is
    /// faster.
    pub(crate) fn claim(&self, number: u32) -> bool {
        let next = &self.notes.next.0;
        let (old, new) = (next.load(Ordering::Acquire), self.key(number));
        let exchange = || next.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
        self.count_of(old) == number && exchange().is_ok()
    }

    /// Whether the slot of a window is free for it.
    pub(crate) fn is_free(&self, number: u32) -> bool {
        let Some(before) = u64::from(number).checked_sub(self.room.slots) else { return true };
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        self.slot(number).done.load(Ordering::Acquire) == self.key(before)
    }

    /// Opens a window for so many ranks.
    pub(crate) fn open(&self, number: u32, ranks: usize, word: u64) {
        let slot = self.slot(number);
        slot.left.store(wide(ranks), Ordering::Relaxed);
        slot.word.store(word, Ordering::Relaxed);
        slot.opened.store(self.key(number), Ordering::Release);
    }

    /// What the opener of a window says, if it is open.
    pub(crate) fn opened(&self, number: u32) -> Option<u64> {
        let slot = self.slot(number);
        let is_open = slot.opened.load(Ordering::Acquire) == self.key(number);
        is_open.then(|| slot.word.load(Ordering::Relaxed))
    }

    /// Whether a window is open, or was so before another one had its slot.
    pub(crate) fn was_opened(&self, number: u32) -> bool {
        let opened = self.slot(number).opened.load(Ordering::Acquire);
        let [turn, _] = halves(opened.wrapping_sub(1));
        turn == self.turn && opened >= self.key(number)
    }

    /// This rank has copied its bytes of an open window; whether it is the last one.
    pub(crate) fn leave(&self, number: u32) -> bool {
        self.slot(number).left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether all ranks have left an open window.
    pub(crate) fn is_left(&self, number: u32) -> bool {
        self.slot(number).left.load(Ordering::Acquire) == 0
    }

    /// The first window that all ranks have left and that is not done.
    pub(crate) fn full(&self) -> Option<u32> {
        self.first_full(|_, _| true)
    }

    fn first_full(&self, is_wanted: impl Fn(&Slot, u64) -> bool) -> Option<u32> {
        let window = |slot: &Slot| {
            let opened = slot.opened.load(Ordering::Acquire);
            let [turn, number] = halves(opened.wrapping_sub(1));
            let is_full = slot.left.load(Ordering::Acquire) == 0
                && slot.done.load(Ordering::Acquire) != opened
                && is_wanted(slot, opened);
            (opened > 0 && turn == self.turn && is_full).then_some(number)
        };
        self.notes.slots[..narrow(self.room.slots)].iter().filter_map(window).min()
    }

    /// Makes this rank the one that stores the first window that all have left and nobody stores;
    /// there may be none.
    pub(crate) fn take_full(&self) -> Option<u32> {
        loop {
            let is_free = |slot: &Slot, opened| slot.taken.load(Ordering::Acquire) != opened;
            let number = self.first_full(is_free)?;
            let (taken, key) = (&self.slot(number).taken, self.key(number));
            // By now it may be done, and a later one of this use taken.
            let is_later = |old: u64| halves(old.wrapping_sub(1))[0] == self.turn && old >= key;
            let take = |old: u64| (!is_later(old)).then_some(key);
            if taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
                return Some(number);
            }
        }
    }

    /// Makes this rank the one that stores windows, unless another one does.
    pub(crate) fn begin_storing(&self) -> bool {
        fence(Ordering::SeqCst);
        self.claim_line(&self.notes.storing)
    }

    /// From now on another rank may store windows.
    pub(crate) fn end_storing(&self) {
        self.notes.storing.0.store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Lets the slot of a window go.
    pub(crate) fn done(&self, number: u32) {
        self.slot(number).done.store(self.key(number), Ordering::Release);
    }

    /// Tells all ranks that this one has given up.
    pub(crate) fn give_up(&self) {
        self.notes.gave_up.0.store(self.key(0), Ordering::Release);
    }

    /// Whether a rank has given up.
    pub(crate) fn has_given_up(&self) -> bool {
        self.notes.gave_up.0.load(Ordering::Acquire) == self.key(0)
    }

    /// It takes long to store to windows that others have read.
    pub(crate) fn find_slow(&self) {
        self.notes.slow.0.store(self.key(0), Ordering::Relaxed);
    }

    /// Whether a rank has found that.
    pub(crate) fn is_slow(&self) -> bool {
        self.notes.slow.0.load(Ordering::Relaxed) == self.key(0)
    }
}

/// The ranks that a rank waits for in the memory that all have in common: those that have not come
/// to this use of it yet, and those that work.
pub(crate) fn missing(memory: &CommonMemory, rank: u32) -> Vec<u32> {
    let states = memory.states();
    let state = |rank: u32| halves(states[index(rank)].load(Ordering::Relaxed));
    let [turn, _] = state(rank);
    let waits = |other: u32| matches!(state(other), [at, low] if at == turn && low <= WAITS);
    (0..rank_of(states.len())).filter(|&other| other != rank && !waits(other)).collect()
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Condvar, Mutex};
    use std::thread;

    use pario_testkit::watchdog::Watchdog;

    use super::super::common_memory::Line;
    use super::*;

    /// The memory as each rank sees it.
    fn memories(ranks: usize) -> Vec<CommonMemory> {
        let lines = Arc::new(Line::lines(CommonMemory::bytes(ranks, 1)));
        let memory = |_| CommonMemory::of_threads(&lines, 1, (&vec![0; ranks], 0));
        (0..ranks).map(memory).collect()
    }

    fn boards(memories: &[CommonMemory], (slots, processors): (u64, u32)) -> Vec<Board<'_>> {
        let at_a_time = u32::try_from(slots / 2).unwrap();
        let room = Room { slots, windows: 9, at_a_time, processors };
        (0..).zip(memories).map(|(rank, memory)| Board::new(memory, rank, room)).collect()
    }

    #[test]
    fn who_does_not_wait_is_missing() {
        let memories = memories(4);
        let boards = boards(&memories, (2, 1));
        boards.iter().for_each(|board| board.wait(Waiting::Others));
        assert_eq!(missing(&memories[0], 0), []);
        boards[2].go_on();
        boards[1].wait(Waiting::Window(5));
        assert_eq!(missing(&memories[0], 0), [2]);
        // The next use: ranks 0 and 2 have come, and 2 works.
        let room = Room { slots: 2, windows: 9, at_a_time: 1, processors: 1 };
        let next = Board::new(&memories[0], 0, room);
        next.wait(Waiting::ToLeave);
        let other = Board::new(&memories[2], 2, room);
        assert_eq!(missing(&memories[0], 0), [1, 2, 3]);
        other.wait(Waiting::Others);
        assert_eq!(missing(&memories[0], 0), [1, 3]);
    }

    #[test]
    fn a_full_window_is_taken_once() {
        const RANKS: usize = 4;
        const WINDOWS: u32 = 20_000;
        let _watchdog = Watchdog::new("a_full_window_is_taken_once");
        let memories = memories(RANKS);
        let room = Room { slots: 3, windows: WINDOWS, at_a_time: 1, processors: 1 };
        let taken: Vec<AtomicUsize> = (0..WINDOWS).map(|_| AtomicUsize::new(0)).collect();
        thread::scope(|scope| {
            for (rank, memory) in (0..).zip(&memories) {
                let (board, taken) = (Board::new(memory, rank, room), &taken);
                scope.spawn(move || {
                    let mut number = board.next();
                    while number < WINDOWS {
                        if board.is_free(number) && board.claim(number) {
                            board.open(number, 1, 0);
                            assert!(board.leave(number));
                        }
                        if let Some(full) = board.take_full() {
                            taken[index(full)].fetch_add(1, Ordering::Relaxed);
                            board.done(full);
                        }
                        number = board.next();
                    }
                    while let Some(full) = board.take_full() {
                        taken[index(full)].fetch_add(1, Ordering::Relaxed);
                        board.done(full);
                    }
                });
            }
        });
        assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_window_goes_its_way_through_its_slot() {
        let memories = memories(2);
        let [one, other] = boards(&memories, (2, 1))[..] else { unreachable!() };
        assert_eq!(
            (one.next(), one.is_free(0), one.is_free(1), one.is_free(2)),
            (0, true, true, false)
        );
        assert!(one.claim(0) && !other.claim(0), "one of them opens it");
        assert_eq!((other.next(), other.opened(0)), (1, None));
        one.open(0, 2, 42);
        assert_eq!((other.opened(0), other.opened(2), other.full()), (Some(42), None, None));
        assert!(!other.leave(0) && !one.is_left(0));
        assert!(one.leave(0) && other.is_left(0), "the last one knows that it is");
        assert_eq!((other.full(), other.is_free(2)), (Some(0), false));
        assert!(one.begin_storing() && !other.begin_storing());
        one.done(0);
        one.end_storing();
        assert_eq!((other.full(), other.is_free(2), one.after(0)), (None, true, Some(2)));
        assert!(other.begin_storing());
        one.give_up();
        assert!(other.has_given_up());
        assert!(!other.is_slow());
        one.find_slow();
        assert!(other.is_slow());
    }

    #[test]
    fn what_an_earlier_use_left_behind_means_nothing() {
        let memories = memories(1);
        let earlier = boards(&memories, (2, 1))[0];
        for number in 0..3 {
            assert!(earlier.claim(number));
            earlier.open(number, usize::from(number == 2), 0);
            earlier.done(number);
        }
        earlier.give_up();
        earlier.find_slow();
        assert!(earlier.begin_storing());
        let later = boards(&memories, (2, 1))[0];
        assert_eq!((later.next(), later.is_free(1), later.is_free(2)), (0, true, false));
        assert_eq!((later.opened(0), later.full(), later.has_given_up()), (None, None, false));
        assert!(later.begin_storing() && later.claim(0) && !later.is_slow());
    }

    #[test]
    fn as_many_ranks_are_woken_as_there_are_processors_for() {
        let memories = memories(8);
        let boards = boards(&memories, (2, 2));
        for board in &boards[2..] {
            board.wait(Waiting::Window(0));
        }
        assert_eq!(boards[0].wake(false), [], "nobody can go on");
        assert_eq!(boards[0].replace(), []);
        boards[0].open(0, 8, 0);
        let wanted = 2 * AT_ONCE - 2;
        assert_eq!(boards[0].wake(false).len(), wanted, "two run already");
        assert_eq!(boards[0].wake(false), [], "as many run as should");
        assert_eq!(boards[0].replace().len(), 1, "this one will not");
        assert!(!boards[2].waits() && boards[7].waits());
        boards[7].wait(Waiting::Others);
        assert_eq!(boards[1].wake_one(7), Some(7));
        assert_eq!(boards[1].wake_one(7), None, "it runs");
        boards.iter().for_each(|board| board.wait(Waiting::Others));
        for board in &boards {
            assert!(!board.has_ended());
            assert_eq!(board.end(false), []);
        }
        assert!(boards[0].has_ended());
        assert_eq!((boards[7].part(), boards[0].part()), (vec![0, 1], vec![2, 3]));
    }

    #[test]
    fn those_are_woken_first_whose_processor_has_the_least_to_do() {
        let memories = memories(9);
        let boards = boards(&memories, (2, 3));
        for (board, processor) in boards.iter().zip([0, 0, 0, 0, 0, 1, 1, 1, 1]) {
            board.is_on(processor);
        }
        boards[2..].iter().for_each(|board| board.wait(Waiting::Window(0)));
        boards[0].open(0, 9, 0);
        // Two run on the first processor already.
        assert_eq!(boards[0].wake(false), [5, 6, 2, 7]);
        // Three run on each; where one has gone, another one takes its place.
        boards[7].wait(Waiting::Others);
        assert_eq!(boards[7].replace(), [8]);
        boards[0].wait(Waiting::Others);
        assert_eq!(boards[0].replace(), [3]);
    }

    #[test]
    fn those_who_have_worked_much_leave_first() {
        let memories = memories(4);
        let boards = boards(&memories, (2, 1));
        let worked = [false, true, false, true];
        for (board, worked_much) in boards.iter().zip(worked) {
            assert!(!board.may_leave(worked_much), "not all have ended");
            board.end(worked_much);
        }
        boards[1].wait(Waiting::ToLeave);
        boards[2].wait(Waiting::Others);
        assert!(boards[3].may_leave(true));
        assert_eq!(boards[3].part_first(), [1]);
        assert_eq!(boards[3].part(), [2]);
        boards[3].left();
        assert!(boards[2].may_leave(false), "it watches");
        assert!(!boards[0].may_leave(false), "another one does");
        assert!(boards[2].is_anybody_staying() && boards[1].may_leave(true));
        boards[1].left();
        assert!(!boards[2].is_anybody_staying() && boards[0].may_leave(false));
        boards[0].end(true);
        assert!(boards[2].is_anybody_staying());
        boards[2].let_all_leave();
        boards[0].left();
        assert!(!boards[2].is_anybody_staying(), "nobody waits for ever");
    }

    /// Windows that are nobody's, or have another owner, may be far ahead.
    #[test]
    fn a_rank_is_woken_for_windows_that_were_open_before() {
        let memories = memories(2);
        let boards = boards(&memories, (4, 1));
        boards[1].wait(Waiting::Window(0));
        boards[0].open(0, 1, 0);
        assert_eq!(boards[0].replace(), [], "one window is not enough");
        for number in [1, 5] {
            boards[0].open(number, 0, 0);
            boards[0].done(number);
        }
        assert_eq!(boards[0].replace(), [1]);
    }

    /// What ranks sleep on: nobody wakes by itself here, as those do whom a forgotten ring only
    /// delays.
    #[derive(Default)]
    struct Bed {
        rung: Mutex<bool>,
        ring: Condvar,
    }

    impl Bed {
        fn sleep(&self) {
            let mut rung = self.rung.lock().unwrap();
            while !std::mem::take(&mut *rung) {
                rung = self.ring.wait(rung).unwrap();
            }
        }

        fn ring(&self) {
            *self.rung.lock().unwrap() = true;
            self.ring.notify_one();
        }
    }

    /// A rank that is forgotten sleeps for ever.
    #[test]
    fn nobody_is_forgotten() {
        const RANKS: u32 = 7;
        const WINDOWS: u32 = 300;
        let _watchdog = Watchdog::new("nobody_is_forgotten");
        let memories = memories(index(RANKS));
        let beds: Vec<Bed> = (0..RANKS).map(|_| Bed::default()).collect();
        for turn in 0..20u32 {
            let (slots, processors) = (1 + turn % 5, 1 + turn % 3);
            let copied = AtomicUsize::new(0);
            thread::scope(|scope| {
                for rank in 0..RANKS {
                    let (memory, beds, copied) = (&memories[index(rank)], &beds, &copied);
                    scope.spawn(move || {
                        let (windows, at_a_time) = (WINDOWS, 1 + turn % slots);
                        let slots = u64::from(slots);
                        let room = Room { slots, windows, at_a_time, processors };
                        let board = Board::new(memory, rank, room);
                        let ring = |ranks: Vec<u32>| {
                            ranks.into_iter().for_each(|rank| beds[index(rank)].ring());
                        };
                        let serve = || {
                            let number = board.next();
                            if number == WINDOWS || !board.is_free(number) {
                                return false;
                            }
                            if board.claim(number) {
                                board.open(number, index(RANKS), 0);
                                ring(board.wake(false));
                            }
                            true
                        };
                        for number in 0..WINDOWS {
                            while board.opened(number).is_none() {
                                if serve() {
                                    continue;
                                }
                                if board.waits() {
                                    beds[index(rank)].sleep();
                                } else {
                                    board.wait(Waiting::Window(number));
                                    ring(board.replace());
                                }
                            }
                            board.go_on();
                            copied.fetch_add(1, Ordering::Relaxed);
                            if board.leave(number) {
                                board.done(number);
                                ring(board.wake(true));
                            }
                        }
                        let worked_much = turn % 2 == 1 && rank % 3 == turn % 3;
                        let waiting = if worked_much { Waiting::ToLeave } else { Waiting::Others };
                        ring(board.end(worked_much));
                        while !board.may_leave(worked_much) {
                            match board.waits() {
                                true => beds[index(rank)].sleep(),
                                false => board.wait(waiting),
                            }
                        }
                        board.go_on();
                        ring(board.part_first());
                        while !worked_much && board.is_anybody_staying() {
                            thread::yield_now();
                        }
                        ring(board.part());
                        if worked_much {
                            board.left();
                        }
                    });
                }
            });
            assert_eq!(copied.into_inner(), index(RANKS) * narrow(u64::from(WINDOWS)));
        }
    }
}
