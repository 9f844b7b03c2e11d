//! Windows in memory that all ranks share: each rank copies its own bytes.
//!
//! The windows of all domains are numbered and share a few slots of that memory (`schedule`). In a
//! read, a server fetches a window into its slot as soon as the slot is free, and each rank takes
//! its bytes from there. In a write, a server prepares the window, each rank places its bytes, and
//! a server stores the window when all ranks have. No messages are sent. A rank that has to wait
//! serves meanwhile, if the plan lets it, so that no core is idle while there is work.
//!
//! A rank that has failed says so in the schedule; from then on nothing is stored or fetched, but
//! all windows are still opened and left.
//!
//! Where short pieces of several ranks share cache lines, the plan packs them: in the slot the
//! bytes of each rank lie one after the other. The server assembles them in a window of its own
//! (write), or distributes them from there (read), part by part.
//!
//! Cost: each byte is copied once, by its own rank, besides the storage access; once more where
//! bytes are packed. No message.
//!
//! Unsafe: slots of shared memory, which the schedule gives to one rank or to all.
#![allow(unsafe_code)]

use std::ops::Range;

use super::Job;
use super::executor::Executor;
use super::messages::malformed;
use super::schedule::{Room, Schedule, Waiting};
use super::sync::Ordering;
use super::window::reach;
use crate::access::memory::{Parcel, Slot, Turns};
use crate::comm::{Condition, Region, named, since, wait_until};
use crate::datatype::copy::Stores;
use crate::direction::Direction;
use crate::error::Result;
use crate::plan::{Servers, Service, SharedWindows, Shuffled};

/// Shared windows, as one rank uses them in one call.
pub(super) struct Shared<'a> {
    region: &'a Region,
    pub(super) schedule: Schedule<'a>,
    windows: SharedWindows,
    /// How many windows there are.
    count: u32,
    /// The next window that this rank has to open, if windows have fixed servers.
    next: u32,
}

impl<'a> Shared<'a> {
    /// Whether the server of the first window must prefault the region, before any other window is
    /// opened: this call uses all slots, and none before it did.
    fn needs_prefault(&self) -> bool {
        u64::from(self.count) >= self.windows.slots && !self.schedule.is_prefaulted()
    }

    pub(super) fn new(
        job: &'a Job<'a>,
        shuffled: &'a Shuffled,
        windows: SharedWindows,
    ) -> Shared<'a> {
        let Some(region) = job.communicator.region() else {
            unreachable!("all ranks have agreed that they share memory");
        };
        let (rank, count) = (job.communicator.rank(), shuffled.window_count());
        let slots = u32::try_from(windows.slots).unwrap_or(u32::MAX);
        let room = Room { slots, windows: count, cores: windows.cores };
        let schedule = schedule(job, region, room);
        let is_own = |number: &u32| shuffled.may_serve(rank, *number);
        let next = (0..count).find(is_own).unwrap_or(count);
        Shared { region, schedule, windows, count, next }
    }
}

/// The schedule of the next use of a region.
pub(super) fn schedule<'a>(job: &Job<'_>, region: &'a Region, room: Room) -> Schedule<'a> {
    let ranks = (job.communicator.rank(), job.communicator.size());
    Schedule::new(region.numbers(), ranks, region.next_use(), room)
}

/// A rank waits in a schedule, and serves meanwhile.
struct Serving<'a, F> {
    job: &'a Job<'a>,
    schedule: Schedule<'a>,
    waiting: Waiting,
    /// Serves a window, if there is one for this rank.
    serve: F,
}

impl<F: FnMut() -> bool + Send> Condition for Serving<'_, F> {
    fn is_so(&mut self) -> bool {
        loop {
            if self.schedule.has_come(self.waiting) {
                self.schedule.go_on();
                return true;
            }
            if (self.serve)() {
                continue;
            }
            if self.schedule.waits() {
                return false;
            }
            // Once it is published that this rank waits, one more look.
            self.schedule.wait(self.waiting);
            wake(self.job, self.schedule.replace());
        }
    }

    fn call(&self) -> Option<u64> {
        Some(self.job.call)
    }

    fn awaited(&self) -> (String, &'static str) {
        (named(&self.schedule.missing()), "does storage answer there?")
    }
}

/// Arrives at the end of a call, and waits until all ranks have; serves meanwhile.
pub(super) async fn end(
    job: &Job<'_>,
    schedule: Schedule<'_>,
    serve: impl FnMut() -> bool + Send,
) -> Result<()> {
    schedule.arrive();
    let mut serving = Serving { job, schedule, waiting: Waiting::Work, serve };
    let waited = wait_until(job.communicator, &mut serving).await;
    // Ranks that have left may be gone for good; before that, they would be lost.
    if !schedule.has_ended() {
        return waited;
    }
    wake(job, schedule.part());
    Ok(())
}

fn wake(job: &Job<'_>, ranks: Vec<u32>) {
    ranks.into_iter().for_each(|rank| job.communicator.wake(rank));
}

/// Stands for the beginning of a rank's bytes in a slot where they are at their places in the file.
const IN_PLACE: u64 = u64::MAX;

/// Where parcels begin that are packed one after the other.
fn packed(parcels: &[Parcel<'_>]) -> Vec<u64> {
    let begin = |at: &mut u64, parcel: &Parcel<'_>| {
        let begin = *at;
        *at += parcel.len();
        Some(begin)
    };
    parcels.iter().scan(0, begin).collect()
}

impl<'a> Executor<'a> {
    fn shared(&mut self) -> &mut Shared<'a> {
        let Some(shared) = &mut self.shared else {
            unreachable!("windows are in shared memory here");
        };
        shared
    }

    /// The slot of a window.
    fn slot(&mut self, number: u32) -> Slot {
        let bytes = self.shuffled.window_bytes();
        let Shared { region, schedule, .. } = self.shared();
        // SAFETY: the region lives as long as the job. The schedule gives the slot to this rank as
        // the rule of `Slot` says: callers have claimed, entered or taken the window.
        unsafe { Slot::new(region, u64::from(schedule.slot_of(number)), bytes) }
    }

    /// Copies this rank's bytes to or from the windows of a round, as they are open.
    pub(super) async fn copy_own(&mut self, round: u64) -> Result<()> {
        for number in self.shuffled.windows_of(round) {
            let own = &self.job.prepared.own;
            let positions = own.within(&self.shuffled.numbered(number).1);
            if !positions.is_empty() {
                // Mostly it is open, and then nobody has to be asked.
                let (job, schedule) = (self.job, self.shared().schedule);
                let waiting = Waiting::Window(number);
                if !schedule.has_come(waiting) {
                    let serve = || self.serve_one();
                    let mut serving = Serving { job, schedule, waiting, serve };
                    wait_until(job.communicator, &mut serving).await?;
                }
                self.copy(number, Parcel { access: own, positions });
                self.leave(number);
            }
        }
        Ok(())
    }

    /// Serves until all windows are done and all ranks have arrived.
    pub(super) async fn serve_to_the_end(&mut self) -> Result<()> {
        let (job, schedule) = (self.job, self.shared().schedule);
        end(job, schedule, || self.serve_one()).await
    }

    /// Wakes those who can serve a window now.
    fn wake_servers(&mut self, number: u32) {
        let (shuffled, Shared { schedule, windows, .. }) = (self.shuffled, self.shared());
        let ranks = match windows.service {
            Service::SelfScheduled(Servers::All) => schedule.wake(true),
            Service::SelfScheduled(Servers::Aggregators) => {
                schedule.wake_those(shuffled.domains().iter().map(|domain| domain.aggregator))
            }
            Service::Fixed => {
                schedule.wake_those(std::iter::once(shuffled.numbered(number).0.aggregator))
            }
        };
        wake(self.job, ranks);
    }

    /// Opens or stores a window, if there is one for this rank; whether there was, or may be
    /// another one now.
    fn serve_one(&mut self) -> bool {
        let (rank, shuffled) = (self.job.communicator.rank(), self.shuffled);
        let shared = self.shared();
        let (schedule, count) = (shared.schedule, shared.count);
        let number = match shared.windows.service {
            Service::SelfScheduled(_) => schedule.next(),
            Service::Fixed => shared.next,
        };
        let may_open = number < count && shuffled.may_serve(rank, number);
        if !may_open || !schedule.is_free(number) || number > 0 && shared.needs_prefault() {
            return self.store_one();
        }
        match shared.windows.service {
            Service::SelfScheduled(_) if !schedule.claim(number) => return true,
            Service::SelfScheduled(_) => {}
            Service::Fixed => {
                let is_own = |next: &u32| shuffled.may_serve(rank, *next);
                shared.next = (number + 1..count).find(is_own).unwrap_or(count);
            }
        }
        self.open(number);
        true
    }

    /// Fetches a window, or prepares it for bytes that ranks place there, and opens it.
    fn open(&mut self, number: u32) {
        let (job, is_packed) = (self.job, self.shared().windows.packed);
        if number == 0 && self.shared().needs_prefault() {
            let Shared { region, schedule, .. } = self.shared();
            region.prefault();
            schedule.set_prefaulted();
            self.wake_servers(1);
        }
        let file = self.shuffled.numbered(number).1;
        let (ranks, parcels) = self.parcels(&file, |_| true);
        let schedule = self.shared().schedule;
        if schedule.has_failed() {
            self.window.close();
        }
        // What is read by several ranks may be more than the window.
        let total: u64 = parcels.iter().map(Parcel::len).sum();
        let begins = (is_packed && total <= file.end - file.start).then(|| packed(&parcels));
        let slot = begins.is_none().then(|| (self.slot(number), file.start));
        self.window.use_slot(slot);
        let end = match (job.prepared.direction, &begins) {
            _ if parcels.is_empty() => file.start,
            (Direction::Read, Some(begins)) => self.fetch_packed(number, &parcels, begins),
            (Direction::Read, None) => self.window.fetch(job, &reach(&parcels), self.statistics),
            (Direction::Write, Some(_)) => file.end,
            (Direction::Write, None) => {
                self.window.prepare(job, &parcels, self.statistics);
                file.end
            }
        };
        if self.window.error.is_some() {
            schedule.fail();
        }
        for (at, &rank) in ranks.iter().enumerate() {
            let begin = begins.as_ref().map_or(IN_PLACE, |begins| begins[at]);
            schedule.place(number, rank).store(begin, Ordering::Relaxed);
        }
        // A window of nobody is this rank's, so that no other one takes it for full.
        schedule.open(number, ranks.len().max(1), end);
        match ranks.is_empty() {
            true => self.finish_window(number),
            false => wake(job, schedule.wake(false)),
        }
    }

    /// Copies the bytes of this rank's parcel to or from an open window.
    fn copy(&mut self, number: u32, parcel: Parcel<'a>) {
        let Job { buffer, communicator, .. } = self.job;
        let schedule = self.shared().schedule;
        let place = schedule.place(number, communicator.rank()).load(Ordering::Relaxed);
        let Some(end) = schedule.opened(number) else {
            unreachable!("a window stays open until this rank has left it");
        };
        let (file, mut slot) = (self.shuffled.numbered(number).1, self.slot(number));
        let wanted = parcel.positions.clone();
        let parcel = if end < file.end { parcel.before(end) } else { parcel };
        if parcel.positions.end < wanted.end {
            self.part.miss(parcel.positions.end);
        }
        let (began, offset) = (communicator.now(), file.start);
        match (self.job.prepared.direction, place) {
            _ if self.job.refused.is_some() => return,
            (Direction::Write, IN_PLACE) => buffer.fill_slot(&mut slot, offset, &parcel),
            (Direction::Read, IN_PLACE) => buffer.take_slot(&slot, offset, &parcel),
            (_, first) if !slot.holds(first, parcel.len()) => {
                self.part.miss(wanted.start);
                self.window.fail(malformed());
                return schedule.fail();
            }
            (Direction::Write, first) => buffer.pack_slot(&mut slot, first, &parcel),
            (Direction::Read, first) => buffer.unpack_slot(&mut slot, first, &parcel),
        }
        self.job.charge_copy(&parcel);
        self.statistics.shared_bytes += parcel.len();
        self.statistics.packing += since(self.job.communicator, began);
    }

    /// This rank needs a window no more. After the last one a read is done, and a write is to be
    /// stored: by a rank that waits, so that this one goes on to windows that wait for it alone.
    fn leave(&mut self, number: u32) {
        match self.job.prepared.direction {
            _ if !self.shared().schedule.leave(number) => {}
            Direction::Read => self.finish_window(number),
            Direction::Write => self.wake_servers(number),
        }
    }

    /// Lets the slot of a window go to the next one.
    fn finish_window(&mut self, number: u32) {
        let schedule = self.shared().schedule;
        schedule.done(number);
        if let Some(next) = schedule.after(number) {
            self.wake_servers(next);
        }
    }

    /// Stores a window in which all ranks have placed their bytes, if there is one for this rank.
    fn store_one(&mut self) -> bool {
        if self.job.prepared.direction == Direction::Read {
            return false;
        }
        let (rank, shuffled) = (self.job.communicator.rank(), self.shuffled);
        let schedule = self.shared().schedule;
        let taken = schedule.take_full(&|number| shuffled.may_serve(rank, number));
        taken.map(|number| self.store(number)).is_some()
    }

    fn store(&mut self, number: u32) {
        let (job, schedule) = (self.job, self.shared().schedule);
        let file = self.shuffled.numbered(number).1;
        let (_, parcels) = self.parcels(&file, |_| true);
        if schedule.has_failed() {
            self.window.close();
        }
        let reached = reach(&parcels);
        let is_packed = self.shared().windows.packed;
        let end = match is_packed {
            _ if self.window.is_closed() => reached.start,
            true => self.store_packed(number, &parcels),
            false => {
                let slot = self.slot(number);
                self.window.use_slot(Some((slot, file.start)));
                self.window.adopt(job, &parcels);
                self.window.store(job, &parcels, self.statistics)
            }
        };
        self.part.leave_undone(end..reached.end);
        if self.window.is_closed() {
            schedule.fail();
        }
        self.finish_window(number);
    }

    /// Assembles a window from what ranks have packed, and stores it, part by part; returns the
    /// offset after the last byte that is done.
    fn store_packed(&mut self, number: u32, parcels: &[Parcel<'a>]) -> u64 {
        let mut slot = self.slot(number);
        let begins = packed(parcels);
        let mut end = reach(parcels).start;
        for part in self.shared().windows.parts(reach(parcels)) {
            let (there, stretches) = in_part(&part, parcels, &begins);
            if there.is_empty() {
                continue;
            }
            // Parcels are apart here, so that nothing about holes is remembered for the window.
            self.window.prepare(self.job, &there, self.statistics);
            if self.window.is_closed() {
                return end;
            }
            let began = self.job.communicator.now();
            let mut contents = self.window.contents();
            let mut turns = Turns::new(&mut contents, there.len());
            for (parcel, bytes) in there.iter().zip(slot.stretches(&stretches)) {
                turns.unpack(bytes, parcel);
            }
            turns.run(self.job.prepared.disjoint);
            self.statistics.packing += since(self.job.communicator, began);
            end = self.window.store(self.job, &there, self.statistics);
            if self.window.is_closed() {
                return end;
            }
        }
        end
    }

    /// Fetches a window part by part, and packs what ranks are to take; returns where the file
    /// ends, or later.
    fn fetch_packed(&mut self, number: u32, parcels: &[Parcel<'a>], begins: &[u64]) -> u64 {
        let mut slot = self.slot(number);
        let reached = reach(parcels);
        for part in self.shared().windows.parts(reached.clone()) {
            let (mut there, mut stretches) = in_part(&part, parcels, begins);
            if there.is_empty() {
                continue;
            }
            let wanted = reach(&there);
            let end = self.window.fetch(self.job, &wanted, self.statistics);
            if end < wanted.end {
                (there, stretches) = in_part(&(part.start..end), parcels, begins);
            }
            let began = self.job.communicator.now();
            let mut contents = self.window.contents();
            let mut turns = Turns::new(&mut contents, there.len());
            for (parcel, bytes) in there.iter().zip(slot.stretches(&stretches)) {
                turns.pack(bytes, parcel, Stores::Cached);
            }
            turns.run(true);
            self.statistics.packing += since(self.job.communicator, began);
            if end < wanted.end {
                return end;
            }
        }
        reached.end
    }
}

/// What ranks have in a part of a window; where that begins in the slot, and its length.
fn in_part<'a>(
    part: &Range<u64>,
    parcels: &[Parcel<'a>],
    begins: &[u64],
) -> (Vec<Parcel<'a>>, Vec<(u64, u64)>) {
    let piece = |(parcel, begin): (&Parcel<'a>, &u64)| {
        let positions = parcel.access.within(part);
        let first = begin + positions.start.saturating_sub(parcel.positions.start);
        let parcel = Parcel { access: parcel.access, positions };
        let len = parcel.len();
        (len > 0).then_some((parcel, (first, len)))
    };
    parcels.iter().zip(begins).filter_map(piece).unzip()
}
