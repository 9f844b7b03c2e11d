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
use super::executor::{Carrier, Executor};
use super::messages::malformed;
use super::outcome::leave;
use super::schedule::{Room, Schedule, Waiting};
use super::sync::Ordering;
use super::window::reach;
use crate::access::memory::{Parcel, Slot, Turns};
use crate::comm::{Condition, Region, named, wait_until};
use crate::datatype::copy::Stores;
use crate::error::Result;
use crate::number::narrow;
use crate::plan::two_phase::{Servers, Service, SharedWindows};
use crate::plan::{Direction, Shuffled};
use crate::virtual_time::Moment;

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
    /// Whether the server of the first window has to settle the region, before any other window is
    /// opened: this call uses all slots, and none before it did.
    fn is_unsettled(&self) -> bool {
        u64::from(self.count) >= self.windows.slots && !self.schedule.is_settled()
    }

    pub(super) fn new(
        job: &'a Job<'a>,
        shuffled: &'a Shuffled,
        windows: SharedWindows,
    ) -> Shared<'a> {
        let Some(region) = job.communicator.region() else {
            unreachable!("all ranks have agreed that they share memory");
        };
        let (rank, ranks) = (job.communicator.rank(), job.communicator.size());
        let count = shuffled.window_count();
        let room = Room { slots: windows.slots, windows: count, cores: windows.cores };
        let schedule = Schedule::new(region.numbers(), (rank, ranks), region.next_use(), room);
        let is_own = |number: &u32| shuffled.may_serve(rank, *number);
        let next = (0..count).find(is_own).unwrap_or(count);
        Shared { region, schedule, windows, count, next }
    }
}

/// Where the bytes of a rank begin in a slot, if they are not at their places in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    InPlace,
    At(u64),
}

impl Begin {
    /// Parcels one after the other, or in place if there is not room for all: what is read by
    /// several ranks may be more than the window.
    fn of_all(parcels: &[Parcel<'_>], packed: bool, room: u64) -> Vec<Begin> {
        let total: u64 = parcels.iter().map(Parcel::len).sum();
        let mut at = 0;
        let begin = |parcel: &Parcel<'_>| match packed && total <= room {
            true => {
                at += parcel.len();
                Begin::At(at - parcel.len())
            }
            false => Begin::InPlace,
        };
        parcels.iter().map(begin).collect()
    }

    fn to_word(self) -> u64 {
        match self {
            Begin::InPlace => u64::MAX,
            Begin::At(first) => first,
        }
    }

    fn from_word(word: u64) -> Begin {
        if word == u64::MAX { Begin::InPlace } else { Begin::At(word) }
    }
}

/// A rank waits until something is so, and serves meanwhile.
struct Serving<'a, 'b, F> {
    executor: &'b mut Executor<'a>,
    waiting: Waiting,
    is_so: F,
}

impl<F: Fn(&Schedule<'_>) -> bool + Send> Condition for Serving<'_, '_, F> {
    fn is_so(&mut self) -> bool {
        loop {
            let schedule = self.executor.shared().schedule;
            if (self.is_so)(&schedule) {
                schedule.go_on();
                return true;
            }
            if self.executor.serve_one() {
                continue;
            }
            if schedule.waits() {
                return false;
            }
            // Once it is published that this rank waits, one more look.
            schedule.wait(self.waiting);
            self.executor.wake(schedule.replace());
        }
    }

    fn call(&self) -> Option<u64> {
        Some(self.executor.job.call)
    }

    fn awaited(&self) -> (String, &'static str) {
        match &self.executor.carrier {
            Carrier::Shared(shared) => {
                (named(&shared.schedule.missing()), "does storage answer there?")
            }
            Carrier::Messages(_) => (named(&[]), ""),
        }
    }
}

impl<'a> Executor<'a> {
    fn shared(&mut self) -> &mut Shared<'a> {
        match &mut self.carrier {
            Carrier::Shared(shared) => shared,
            Carrier::Messages(_) => unreachable!("windows are in shared memory here"),
        }
    }

    /// The slot of a window.
    fn slot(&mut self, number: u32) -> Slot {
        let bytes = self.shuffled.window_bytes();
        let Shared { region, schedule, .. } = self.shared();
        // SAFETY: the region lives as long as the job. The schedule gives the slot to this rank as
        // the rule of `Slot` says: callers have claimed, entered or taken the window.
        unsafe { Slot::new(region, schedule.slot_of(number), bytes) }
    }

    /// Copies this rank's bytes to or from the windows of a round, as they are open.
    pub(super) async fn copy_own(&mut self, round: u64) -> Result<()> {
        for number in self.shuffled.windows_of(round) {
            let own = &self.job.prepared.own;
            let positions = own.within(&self.shuffled.numbered(number).1);
            if !positions.is_empty() {
                // Mostly it is open, and then nobody has to be asked.
                if self.shared().schedule.opened(number).is_none() {
                    let is_open = move |schedule: &Schedule<'_>| schedule.opened(number).is_some();
                    self.wait(Waiting::Window(number), is_open).await?;
                }
                self.copy(number, Parcel { access: own, positions });
                self.leave(number);
            }
        }
        Ok(())
    }

    /// Serves until all windows are done and all ranks have arrived.
    pub(super) async fn serve_to_the_end(&mut self) -> Result<()> {
        let (communicator, schedule) = (self.job.communicator, self.shared().schedule);
        schedule.arrive();
        let waited = self.wait(Waiting::Work, |schedule| schedule.has_ended()).await;
        leave(communicator, &schedule, waited)
    }

    /// Waits until something is so; serves meanwhile.
    async fn wait(
        &mut self,
        waiting: Waiting,
        is_so: impl Fn(&Schedule<'_>) -> bool + Send,
    ) -> Result<()> {
        let communicator = self.job.communicator;
        let mut serving = Serving { executor: self, waiting, is_so };
        wait_until(communicator, &mut serving).await
    }

    fn wake(&self, ranks: Vec<u32>) {
        ranks.into_iter().for_each(|rank| self.job.communicator.wake(rank));
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
        self.wake(ranks);
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
        if !may_open || !schedule.is_free(number) || number > 0 && shared.is_unsettled() {
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
        let (job, packed) = (self.job, self.shared().windows.packed);
        if number == 0 && self.shared().is_unsettled() {
            let Shared { region, schedule, .. } = self.shared();
            region.settle();
            schedule.set_settled();
            self.wake_servers(1);
        }
        let file = self.shuffled.numbered(number).1;
        let (ranks, parcels) = self.parcels(&file, |_| true);
        let schedule = self.shared().schedule;
        if schedule.has_failed() {
            self.window.close();
        }
        let begins = Begin::of_all(&parcels, packed, file.end - file.start);
        if !packed {
            let slot = self.slot(number);
            self.window.use_slot(slot, file.start);
        }
        let end = match job.prepared.direction {
            _ if parcels.is_empty() => file.start,
            Direction::Read if packed => self.fetch_packed(number, &parcels, &begins),
            Direction::Read => self.window.fetch(job, &reach(&parcels), self.statistics),
            Direction::Write => {
                if !packed {
                    self.window.prepare(job, &parcels, self.statistics);
                }
                file.end
            }
        };
        if self.window.error.is_some() {
            schedule.fail();
        }
        for (&rank, &begin) in ranks.iter().zip(&begins) {
            schedule.place(number, rank).store(begin.to_word(), Ordering::Relaxed);
        }
        // A window of nobody is this rank's, so that no other one takes it for full.
        schedule.open(number, ranks.len().max(1), end);
        match ranks.is_empty() {
            true => self.finish_window(number),
            false => self.wake(schedule.wake(false)),
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
        let (began, offset) = (Moment::now(), file.start);
        match (self.job.prepared.direction, Begin::from_word(place)) {
            _ if self.job.refused.is_some() => return,
            (Direction::Write, Begin::InPlace) => buffer.fill_slot(&mut slot, offset, &parcel),
            (Direction::Read, Begin::InPlace) => buffer.take_slot(&slot, offset, &parcel),
            (_, Begin::At(first)) if !slot.holds(first, parcel.len()) => {
                self.part.miss(wanted.start);
                self.window.fail(malformed());
                return schedule.fail();
            }
            (Direction::Write, Begin::At(first)) => buffer.pack_slot(&mut slot, first, &parcel),
            (Direction::Read, Begin::At(first)) => buffer.unpack_slot(&mut slot, first, &parcel),
        }
        self.statistics.shared_bytes += parcel.len();
        self.statistics.packing += began.elapsed();
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
        let packed = self.shared().windows.packed;
        let end = match packed {
            _ if self.window.is_closed() => reached.start,
            true => self.store_packed(number, &parcels),
            false => {
                let slot = self.slot(number);
                self.window.use_slot(slot, file.start);
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
        let begins = Begin::of_all(parcels, true, u64::MAX);
        let mut end = reach(parcels).start;
        for part in self.shared().windows.parts(reach(parcels)) {
            let (there, begins) = in_part(&part, parcels, &begins);
            if there.is_empty() {
                continue;
            }
            // Parcels are apart here, so that nothing about holes is remembered for the window.
            self.window.prepare(self.job, &there, self.statistics);
            if self.window.is_closed() {
                return end;
            }
            let began = Moment::now();
            let mut contents = self.window.contents();
            let mut turns = Turns::new(&mut contents, there.len());
            let packed = slot.stretches(&stretches(&there, &begins));
            for (parcel, bytes) in there.iter().zip(packed) {
                turns.unpack(bytes, parcel);
            }
            turns.run(self.job.prepared.disjoint);
            self.statistics.packing += began.elapsed();
            end = self.window.store(self.job, &there, self.statistics);
            if self.window.is_closed() {
                return end;
            }
        }
        end
    }

    /// Fetches a window part by part, and packs what ranks are to take; returns where the file
    /// ends, or later.
    fn fetch_packed(&mut self, number: u32, parcels: &[Parcel<'a>], begins: &[Begin]) -> u64 {
        let mut slot = self.slot(number);
        let (file, reached) = (self.shuffled.numbered(number).1, reach(parcels));
        for part in self.shared().windows.parts(reached.clone()) {
            let (there, begins) = in_part(&part, parcels, begins);
            if there.is_empty() {
                continue;
            }
            let wanted = reach(&there);
            let end = self.window.fetch(self.job, &wanted, self.statistics);
            let began = Moment::now();
            let mut contents = self.window.contents();
            if begins.contains(&Begin::InPlace) {
                let first = narrow(contents.offset - file.start);
                slot.bytes(first, contents.bytes.len()).copy_from_slice(contents.bytes);
            } else {
                let there_at_end = |parcel: Parcel<'a>| match end < wanted.end {
                    true => parcel.before(end),
                    false => parcel,
                };
                let there: Vec<Parcel<'a>> = there.into_iter().map(there_at_end).collect();
                let mut turns = Turns::new(&mut contents, there.len());
                let packed = slot.stretches(&stretches(&there, &begins));
                for (parcel, bytes) in there.iter().zip(packed) {
                    turns.pack(bytes, parcel, Stores::Cached);
                }
                turns.run(true);
            }
            self.statistics.packing += began.elapsed();
            if end < wanted.end {
                return end;
            }
        }
        reached.end
    }
}

/// What ranks have in a part of a window, and where it begins.
fn in_part<'a>(
    part: &Range<u64>,
    parcels: &[Parcel<'a>],
    begins: &[Begin],
) -> (Vec<Parcel<'a>>, Vec<Begin>) {
    let piece = |(parcel, &begin): (&Parcel<'a>, &Begin)| {
        let positions = parcel.access.within(part);
        let begin = match begin {
            Begin::At(first) => Begin::At(first + positions.start - parcel.positions.start),
            Begin::InPlace => Begin::InPlace,
        };
        let parcel = Parcel { access: parcel.access, positions };
        (parcel.len() > 0).then_some((parcel, begin))
    };
    parcels.iter().zip(begins).filter_map(piece).unzip()
}

/// Where packed parcels begin, and their lengths.
fn stretches(parcels: &[Parcel<'_>], begins: &[Begin]) -> Vec<(u64, u64)> {
    let stretch = |(parcel, begin): (&Parcel<'_>, &Begin)| match begin {
        Begin::At(first) => (*first, parcel.len()),
        Begin::InPlace => (0, 0),
    };
    parcels.iter().zip(begins).map(stretch).collect()
}
