//! Tests of `schedule`, beside it because a model checker includes that file as it is.

use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex};
use std::thread;

use pario_testkit::watchdog::Watchdog;

use super::schedule::{HEAD, RANK, RUNNING_PER_CORE, Room, Schedule, Waiting};
use super::sync::{AtomicU64, Ordering};
use crate::number::index;

fn numbers(ranks: u32) -> Vec<AtomicU64> {
    (0..HEAD + index(ranks) * RANK).map(|_| AtomicU64::new(0)).collect()
}

/// The schedule of a use, as each rank sees it.
fn schedules(numbers: &[AtomicU64], ranks: u32, uses: u64, room: Room) -> Vec<Schedule<'_>> {
    (0..ranks).map(|rank| Schedule::new(numbers, (rank, ranks), uses, room)).collect()
}

const ROOM: Room = Room { slots: 2, windows: 9, cores: 1 };

#[test]
fn who_does_not_wait_is_missing() {
    let numbers = numbers(4);
    let all = schedules(&numbers, 4, 0, ROOM);
    all.iter().for_each(|schedule| schedule.wait(Waiting::Work));
    assert_eq!(all[0].missing(), []);
    all[2].go_on();
    all[1].wait(Waiting::Window(5));
    assert_eq!(all[0].missing(), [2]);
    // The next use: ranks 0 and 2 have begun it, and 2 works.
    let next = Schedule::new(&numbers, (0, 4), 1, ROOM);
    next.wait(Waiting::Work);
    let other = Schedule::new(&numbers, (2, 4), 1, ROOM);
    assert_eq!(next.missing(), [1, 2, 3]);
    other.wait(Waiting::Work);
    assert_eq!(next.missing(), [1, 3]);
}

#[test]
fn a_window_goes_its_way_through_its_slot() {
    let numbers = numbers(2);
    let [one, other] = schedules(&numbers, 2, 0, ROOM)[..] else { unreachable!() };
    let anything = &|_| true;
    assert_eq!((one.next(), one.is_free(0), one.is_free(1)), (0, true, true));
    assert!(!one.is_free(2));
    assert!(one.claim(0) && !other.claim(0), "one of them opens it");
    assert_eq!((other.next(), other.opened(0)), (1, None));
    one.open(0, 2, 42);
    assert_eq!((other.opened(0), other.opened(2)), (Some(42), None));
    assert!(!other.leave(0) && other.take_full(anything).is_none());
    assert!(one.leave(0), "the last one knows that it is");
    assert_eq!(other.take_full(&|number| number > 0), None, "it is another one's");
    assert_eq!((other.take_full(anything), one.take_full(anything)), (Some(0), None));
    assert!(!other.is_free(2));
    other.done(0);
    assert_eq!((one.is_free(2), one.after(0), one.after(7)), (true, Some(2), None));
    one.fail();
    assert!(other.has_failed());
}

#[test]
fn what_an_earlier_use_left_behind_means_nothing() {
    let numbers = numbers(1);
    let earlier = schedules(&numbers, 1, 0, ROOM)[0];
    for number in 0..3 {
        assert!(earlier.claim(number));
        earlier.open(number, usize::from(number == 2), 0);
        earlier.done(number);
    }
    earlier.fail();
    let later = schedules(&numbers, 1, 1, ROOM)[0];
    assert_eq!((later.next(), later.is_free(1), later.is_free(2)), (0, true, false));
    assert_eq!((later.opened(0), later.take_full(&|_| true)), (None, None));
    assert!(!later.has_failed() && !later.has_ended() && later.claim(0));
}

#[test]
fn as_many_ranks_are_woken_as_there_are_cores_for() {
    let numbers = numbers(8);
    let all = schedules(&numbers, 8, 0, Room { cores: 2, windows: 0, ..ROOM });
    all[2..].iter().for_each(|schedule| schedule.wait(Waiting::Window(0)));
    assert_eq!(all[0].wake(false), [], "nobody can go on");
    assert_eq!(all[0].replace(), []);
    all[0].open(0, 8, 0);
    assert_eq!(all[0].wake(false).len(), 2 * RUNNING_PER_CORE - 2, "two run already");
    assert_eq!(all[0].wake(false), [], "as many run as should");
    assert_eq!(all[0].replace().len(), 1, "this one will not");
    assert!(!all[2].waits() && all[7].waits());
    all[7].wait(Waiting::Work);
    assert_eq!(all[1].wake_those([1, 7].into_iter()), [7]);
    assert_eq!(all[1].wake_those([7].into_iter()), [], "it runs");
    all.iter().for_each(|schedule| schedule.wait(Waiting::Work));
    for schedule in &all {
        assert!(!schedule.has_ended());
        schedule.arrive();
    }
    assert!(all[0].has_ended());
    assert_eq!((all[7].part(), all[0].part()), (vec![0, 1], vec![2, 3]));
}

/// Windows that are nobody's, or of another domain, may be far ahead.
#[test]
fn a_rank_is_woken_for_a_window_that_was_open_before() {
    let numbers = numbers(2);
    let all = schedules(&numbers, 2, 0, ROOM);
    all[1].wait(Waiting::Window(1));
    all[0].open(0, 1, 0);
    assert_eq!(all[0].replace(), []);
    all[0].open(1, 1, 0);
    all[0].done(1);
    all[0].open(3, 1, 0);
    assert_eq!(all[0].replace(), [1]);
}

/// What ranks sleep on: nobody wakes by itself here, so that a forgotten rank sleeps for ever.
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

struct Rank<'a> {
    schedule: Schedule<'a>,
    beds: &'a [Bed],
    copied: &'a AtomicUsize,
    stored: &'a AtomicUsize,
    rank: u32,
    ranks: u32,
    room: Room,
    /// Ranks below this one serve.
    servers: u32,
}

impl Rank<'_> {
    fn ring(&self, ranks: Vec<u32>) {
        ranks.into_iter().for_each(|rank| self.beds[index(rank)].ring());
    }

    fn ring_servers(&self) {
        match self.servers == self.ranks {
            true => self.ring(self.schedule.wake(true)),
            false => self.ring(self.schedule.wake_those(0..self.servers)),
        }
    }

    fn serve(&self) -> bool {
        let (schedule, number) = (&self.schedule, self.schedule.next());
        if self.rank >= self.servers {
            return false;
        }
        if number < self.room.windows && schedule.is_free(number) {
            if schedule.claim(number) {
                schedule.open(number, index(self.ranks), 0);
                self.ring(schedule.wake(false));
            }
            return true;
        }
        let Some(full) = schedule.take_full(&|_| true) else { return false };
        self.stored.fetch_add(1, Ordering::Relaxed);
        schedule.done(full);
        self.ring_servers();
        true
    }

    fn wait(&self, waiting: Waiting, is_so: &dyn Fn() -> bool) {
        while !is_so() {
            if self.serve() {
                continue;
            }
            if self.schedule.waits() {
                self.beds[index(self.rank)].sleep();
            } else {
                self.schedule.wait(waiting);
                self.ring(self.schedule.replace());
            }
        }
        self.schedule.go_on();
    }

    fn run(&self) {
        let schedule = &self.schedule;
        for number in 0..self.room.windows {
            self.wait(Waiting::Window(number), &|| schedule.opened(number).is_some());
            self.copied.fetch_add(1, Ordering::Relaxed);
            if schedule.leave(number) {
                self.ring_servers();
            }
        }
        schedule.arrive();
        self.wait(Waiting::Work, &|| schedule.has_ended());
        self.ring(schedule.part());
    }
}

#[test]
fn nobody_is_forgotten_and_every_window_is_stored_once() {
    const RANKS: u32 = 7;
    const WINDOWS: u32 = 300;
    let _watchdog = Watchdog::new("nobody_is_forgotten_and_every_window_is_stored_once");
    let numbers = numbers(RANKS);
    let beds: Vec<Bed> = (0..RANKS).map(|_| Bed::default()).collect();
    for uses in 0..30u32 {
        let room = Room { slots: 1 + uses % 5, windows: WINDOWS, cores: 1 + uses % 3 };
        let servers = [RANKS, 1, 3][index(uses / 5 % 3)];
        let (copied, stored) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for rank in 0..RANKS {
                let (numbers, beds) = (&numbers, &beds);
                let (copied, stored) = (&copied, &stored);
                scope.spawn(move || {
                    let key = (rank, RANKS);
                    let schedule = Schedule::new(numbers, key, u64::from(uses), room);
                    Rank { schedule, beds, copied, stored, rank, ranks: RANKS, room, servers }
                        .run();
                });
            }
        });
        assert_eq!(copied.into_inner(), index(RANKS * WINDOWS));
        assert_eq!(stored.into_inner(), index(WINDOWS));
    }
}
