//! The scheduler of shared windows (`exchange/schedule.rs`).

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::schedule::{HEAD, RANK, Room, Schedule, Waiting};
use crate::sync::{AtomicU64, Ordering};

/// What a rank sleeps on until it is woken: it never wakes by itself.
struct Bed {
    rung: Mutex<bool>,
    ring: Condvar,
}

impl Bed {
    fn new() -> Bed {
        Bed { rung: Mutex::new(false), ring: Condvar::new() }
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !std::mem::replace(&mut *rung, false) {
            rung = self.ring.wait(rung).unwrap();
        }
    }

    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.ring.notify_one();
    }
}

/// What all ranks share.
struct World {
    numbers: Vec<AtomicU64>,
    beds: Vec<Bed>,
    /// A byte of each slot: what it holds is checked, not synchronised by it.
    bytes: Vec<loom::cell::UnsafeCell<u32>>,
    copied: std::sync::atomic::AtomicU32,
    stored: std::sync::atomic::AtomicU32,
    ranks: u32,
    room: Room,
    writes: bool,
}

impl World {
    fn new(ranks: u32, room: Room, writes: bool) -> World {
        let count = HEAD + ranks as usize * RANK;
        World {
            numbers: (0..count).map(|_| AtomicU64::new(0)).collect(),
            beds: (0..ranks).map(|_| Bed::new()).collect(),
            bytes: (0..room.slots).map(|_| loom::cell::UnsafeCell::new(0)).collect(),
            copied: 0.into(),
            stored: 0.into(),
            ranks,
            room,
            writes,
        }
    }
}

/// One rank in one call.
struct Rank<'a> {
    world: &'a World,
    schedule: Schedule<'a>,
    rank: u32,
}

impl Rank<'_> {
    fn ring(&self, ranks: Vec<u32>) {
        ranks.into_iter().for_each(|rank| self.world.beds[rank as usize].ring());
    }

    /// The server alone uses the slot.
    #[allow(unsafe_code)]
    fn use_slot(&self, number: u32, change: impl FnOnce(&mut u32)) {
        let slot = self.schedule.slot_of(number) as usize;
        // SAFETY: the model checker panics if another thread uses it now.
        self.world.bytes[slot].with_mut(|byte| change(unsafe { &mut *byte }));
    }

    /// All ranks look at the slot at once.
    #[allow(unsafe_code)]
    fn look_at_slot(&self, number: u32) -> u32 {
        let slot = self.schedule.slot_of(number) as usize;
        // SAFETY: the model checker panics if another thread changes it now.
        self.world.bytes[slot].with(|byte| unsafe { *byte })
    }

    fn finish_window(&self, number: u32) {
        self.schedule.done(number);
        if self.schedule.after(number).is_some() {
            self.ring(self.schedule.wake(true));
        }
    }

    fn serve(&self) -> bool {
        let number = self.schedule.next();
        if number < self.world.room.windows && self.schedule.is_free(number) {
            if self.schedule.claim(number) {
                self.use_slot(number, |byte| *byte = number + 100);
                self.schedule.open(number, self.world.ranks as usize, 0);
                self.ring(self.schedule.wake(false));
            }
            return true;
        }
        let full = self.schedule.take_full(&|_| self.world.writes);
        let Some(full) = full.filter(|_| self.world.writes) else { return false };
        self.use_slot(full, |byte| assert_eq!(*byte, full + 100, "another window was stored"));
        self.world.stored.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.finish_window(full);
        true
    }

    fn wait(&self, waiting: Waiting, is_so: &dyn Fn() -> bool) {
        while !is_so() {
            if self.serve() {
                continue;
            }
            if self.schedule.waits() {
                self.world.beds[self.rank as usize].sleep();
            } else {
                self.schedule.wait(waiting);
                self.ring(self.schedule.replace());
            }
        }
        self.schedule.go_on();
    }

    fn run(&self) {
        for number in 0..self.world.room.windows {
            let is_open = || self.schedule.opened(number).is_some();
            self.wait(Waiting::Window(number), &is_open);
            assert_eq!(self.look_at_slot(number), number + 100, "another window is in the slot");
            self.world.copied.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if self.schedule.leave(number) {
                match self.world.writes {
                    true => self.ring(self.schedule.wake(true)),
                    false => self.finish_window(number),
                }
            }
        }
        self.schedule.arrive();
        self.wait(Waiting::Work, &|| self.schedule.has_ended());
        self.ring(self.schedule.part());
    }
}

fn run_rank(world: &World, rank: u32) {
    let schedule = Schedule::new(&world.numbers, (rank, world.ranks), 0, world.room);
    Rank { world, schedule, rank }.run();
}

/// Runs one call on all ranks, in every order.
fn check(ranks: u32, room: Room, writes: bool) {
    crate::check(2, move || {
        let world = Arc::new(World::new(ranks, room, writes));
        let others: Vec<_> = (1..ranks)
            .map(|rank| {
                let world = world.clone();
                thread::spawn(move || run_rank(&world, rank))
            })
            .collect();
        run_rank(&world, 0);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        let of = |count: &std::sync::atomic::AtomicU32| count.load(Ordering::Relaxed);
        assert_eq!(of(&world.copied), ranks * room.windows);
        assert_eq!(of(&world.stored), if writes { room.windows } else { 0 });
    });
}

/// Nobody sleeps for ever, every window is copied by all ranks and stored once, and no slot is used
/// by two windows at a time.
#[test]
fn two_ranks_write_a_window() {
    check(2, Room { slots: 1, windows: 1, cores: 1 }, true);
}

#[test]
fn two_ranks_read_two_windows_through_one_slot() {
    check(2, Room { slots: 1, windows: 2, cores: 1 }, false);
}

#[test]
fn two_ranks_arrive_at_the_end_of_a_call_without_windows() {
    check(2, Room { slots: 1, windows: 0, cores: 1 }, true);
}
