//! All ranks in one thread, in an order that a seed decides.
//!
//! Each rank is a future. A step of the simulation polls a rank that can go on, or delivers a
//! message; a random number generator decides which. The same seed gives the same run, so that a
//! schedule that breaks something can be repeated.
//!
//! A rank can be lost after a number of steps, as if its process had died: its futures are dropped,
//! and what waits for it ends with `PeerLost`. Messages that it has sent still arrive.
//!
//! On a described machine time decides instead of the seed: the step that is earliest in virtual
//! time comes next ([`Simulated::on`]). The same program takes the same time everywhere. Copies and
//! planning take what [`Simulated::costs`] says.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::local::{Channel, Exchange, World, lock};
use super::timeline::{Timeline, Times};
use super::{Communicator, RankClock, Task, cores};
use crate::model::clock::{Costs, Machine};
use crate::number::{narrow, wide};

/// A simulation of ranks.
///
/// Rank programs are `async` and use [`File::handle`](crate::File::handle) for files.
///
/// ```
/// use pario::{Communicator, Simulated};
/// let ranks = Simulated::new(3, 42).run(|comm| async move { comm.rank() });
/// assert_eq!(ranks, [0, 1, 2]);
/// ```
#[derive(Clone, Debug)]
pub struct Simulated {
    size: u32,
    machine: Option<Machine>,
    costs: Costs,
    seed: u64,
    shared_bytes: usize,
    /// The rank that is lost, and after how many of its steps.
    loses: Option<(u32, u64)>,
}

impl Simulated {
    /// `size` ranks, at least one, scheduled by `seed`.
    pub fn new(size: u32, seed: u64) -> Simulated {
        let (machine, costs) = (None, Costs::default());
        Simulated { size: size.max(1), machine, costs, seed, shared_bytes: 0, loses: None }
    }

    /// The ranks of a described machine, in virtual time. Files that are opened with
    /// [`Emulated::simulated`](crate::storage::Emulated::simulated) take the time of its storage.
    ///
    /// ```
    /// use pario::model::clock::{Machine, Storage};
    /// use pario::model::presets::{Device, Link};
    /// use pario::storage::{Emulated, Memory};
    /// use pario::{Communicator, File, Simulated};
    /// use std::sync::Arc;
    ///
    /// let machine = Machine {
    ///     nodes: 2,
    ///     ranks_per_node: 1,
    ///     cores_per_node: 1,
    ///     node_link: Link::ETHERNET_100G,
    ///     network: Link::GIGABIT_ETHERNET,
    ///     storage: Storage::local(Device::HDD),
    /// };
    /// let disk = Emulated::simulated(Arc::new(Memory::new()));
    /// let options = File::options().write(true).create(true).driver(Arc::new(disk));
    /// let seconds = Simulated::on(machine).run(|comm| {
    ///     let options = options.clone();
    ///     async move {
    ///         let file = options.open_async(&*comm, "a").await.unwrap();
    ///         let begin = Simulated::now();
    ///         let place = u64::from(comm.rank()) * 1000;
    ///         file.handle().write_all(place, &[1u8; 1000]).await.unwrap();
    ///         (Simulated::now() - begin).as_secs_f64()
    ///     }
    /// });
    /// // Rank 0 is earlier, so that the arm moves once; each learns of the end by a message.
    /// assert!(seconds.iter().all(|one| (0.0126..0.0129).contains(one)), "{seconds:?}");
    /// ```
    pub fn on(machine: Machine) -> Simulated {
        let size = machine.nodes.max(1).saturating_mul(machine.ranks_per_node.max(1));
        Simulated { machine: Some(machine), ..Simulated::new(size, 0) }
    }

    /// What work of the machine's processors takes; nothing by default.
    pub fn costs(mut self, costs: Costs) -> Simulated {
        self.costs = costs;
        self
    }

    /// The virtual time of the rank that asks; 0 without a described machine.
    pub fn now() -> Duration {
        RankClock::current().map(|clock| clock.now()).unwrap_or_default()
    }

    /// How much memory ranks share for windows of a file; none by default: they send messages.
    pub fn shared_bytes(mut self, bytes: usize) -> Simulated {
        self.shared_bytes = bytes;
        self
    }

    /// Loses a rank after some of its steps.
    pub fn lose(mut self, rank: u32, steps: u64) -> Simulated {
        self.loses = Some((rank, steps));
        self
    }

    /// Runs an asynchronous function on every rank; returns their results in rank order.
    ///
    /// # Panics
    /// If no rank can go on before all have ended: a deadlock.
    pub fn run<T, F>(&self, function: impl Fn(Arc<dyn Communicator>) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.try_run(function).into_iter().flatten().collect()
    }

    /// As [`Simulated::run`]; a rank that was lost has no result.
    ///
    /// # Panics
    /// If no rank can go on before all have ended: a deadlock.
    pub fn try_run<T, F>(&self, function: impl Fn(Arc<dyn Communicator>) -> F) -> Vec<Option<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let simulation = Arc::new(Simulation {
            timeline: self.machine.map(|machine| Arc::new(Timeline::new(machine, self.costs))),
            state: Mutex::new(SimulationState { random: self.seed, ..SimulationState::default() }),
        });
        let per_node = self.machine.map_or(self.size, |machine| machine.ranks_per_node.max(1));
        let cores = self.machine.map_or_else(cores::own, |machine| machine.cores_per_node.max(1));
        let nodes = (0..self.size).map(|rank| rank / per_node).collect();
        let world = World::new(nodes, cores, self.shared_bytes, Some(simulation.clone()));
        let results: Vec<Arc<Mutex<Option<T>>>> = (0..self.size).map(|_| Arc::default()).collect();
        for (rank, slot) in (0..).zip(&results) {
            let (future, slot) = (function(world.communicator(rank)), slot.clone());
            let task = async move {
                let result = future.await;
                *lock(&slot) = Some(result);
            };
            simulation.spawn(rank, Box::pin(task));
        }
        simulation.run_all(&world, self.seed, self.loses);
        let take = |slot: Arc<Mutex<Option<T>>>| lock(&slot).take();
        results.into_iter().map(take).collect()
    }
}

/// What lets simulated ranks go on, one at a time, and carries their messages.
pub(super) struct Simulation {
    timeline: Option<Arc<Timeline>>,
    state: Mutex<SimulationState>,
}

/// A message on its way.
struct Sent {
    exchange: Arc<Exchange>,
    /// When it arrives, where there is a timeline.
    arrival_s: f64,
    bytes: Vec<u8>,
}

/// What can happen next.
#[derive(Clone, Copy)]
enum Event {
    /// The task of this number goes on.
    Task(usize),
    /// The first message of a channel arrives.
    Message((u64, Channel)),
    /// Storage serves a rank.
    Access(u32),
}

#[derive(Default)]
struct SimulationState {
    random: u64,
    /// Tasks that have not been polled yet, and whose they are.
    spawned: Vec<(u32, Task)>,
    /// Messages on their way, by exchange and channel. Sorted, so that choices depend on the seed
    /// alone.
    sent: BTreeMap<(u64, Channel), VecDeque<Sent>>,
    /// The same by the times of arrival, where there is a timeline.
    arrivals: BinaryHeap<Arrival>,
    /// Messages that were sent.
    count: u64,
}

/// When a message arrives. The earliest, then the one that was sent first, is the greatest.
#[derive(Clone, Copy)]
struct Arrival {
    at_s: f64,
    number: u64,
    key: (u64, Channel),
}

impl Ord for Arrival {
    fn cmp(&self, other: &Arrival) -> Ordering {
        other.at_s.total_cmp(&self.at_s).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Arrival) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Arrival) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Arrival {}

impl SimulationState {
    /// A random number below `limit` (splitmix64).
    fn below(&mut self, limit: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        narrow((mixed ^ (mixed >> 31)) % wide(limit))
    }

    /// Delivers the first message of a channel.
    fn deliver(&mut self, key: (u64, Channel), timeline: Option<&Arc<Timeline>>) {
        let Some(queue) = self.sent.get_mut(&key) else { return };
        let Some(Sent { exchange, arrival_s, bytes }) = queue.pop_front() else { return };
        if queue.is_empty() {
            self.sent.remove(&key);
        }
        let (_, channel) = key;
        let is_awaited = exchange.deliver(channel, bytes);
        if let Some(timeline) = timeline {
            self.arrivals.pop();
            if is_awaited {
                timeline.times().delay(channel.to, arrival_s);
            }
        }
    }

    /// Any event, by the seed.
    fn any_event(&mut self, running: &[Running]) -> Option<Event> {
        let ready: Vec<usize> = (0..running.len()).filter(|&one| running[one].is_ready()).collect();
        let events = ready.len() + self.sent.len();
        let choice = (events > 0).then(|| self.below(events))?;
        match ready.get(choice) {
            Some(&number) => Some(Event::Task(number)),
            None => self.sent.keys().nth(choice - ready.len()).copied().map(Event::Message),
        }
    }

    /// The earliest event on a timeline, and when it is. Of tasks with equal times, the one comes
    /// first that has not gone on for longest.
    fn first_event(&self, times: &Times, running: &[Running]) -> Option<(Event, f64)> {
        let task = |(number, task): (usize, &Running)| {
            let at_s = times.at_s(task.rank);
            let event = match times.is_due(task.rank) {
                true => Some(Event::Access(task.rank)),
                false => (task.is_ready() && !task.again).then_some(Event::Task(number)),
            };
            event.map(|event| (event, at_s, task.last_step))
        };
        let message = |first: &Arrival| (Event::Message(first.key), first.at_s, 0);
        let tasks = running.iter().enumerate().filter_map(task);
        let events = tasks.chain(self.arrivals.peek().map(message));
        let first = events.min_by(|one, other| one.1.total_cmp(&other.1).then(one.2.cmp(&other.2)));
        first.map(|(event, at_s, _)| (event, at_s))
    }

    /// The earliest event. Tasks that wait for something that others have to do look again after
    /// it, or at once if there is no other. Looking again changes nothing for others that do so.
    fn earliest_event(&self, timeline: &Timeline, running: &mut [Running]) -> Option<Event> {
        let mut times = timeline.times();
        let first = self.first_event(&times, running);
        if let Some((event @ Event::Task(number), _)) = first
            && running[number].has_looked
        {
            return Some(event);
        }
        for task in running.iter_mut().filter(|task| task.again) {
            task.again = false;
            times.delay(task.rank, first.map_or(0.0, |(_, at_s)| at_s));
        }
        let first = first.or_else(|| self.first_event(&times, running));
        first.map(|(event, _)| event)
    }
}

struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

impl Simulation {
    /// Sends a message on its way.
    pub(super) fn send(&self, exchange: &Arc<Exchange>, channel: Channel, bytes: Vec<u8>) {
        let arrival = |timeline: &Arc<Timeline>| {
            timeline.times().message(channel.from, channel.to, wide(bytes.len()))
        };
        let arrival_s = self.timeline.as_ref().map(arrival);
        let mut state = lock(&self.state);
        let SimulationState { sent, arrivals, count, .. } = &mut *state;
        *count += 1;
        let key = (exchange.id, channel);
        let queue = sent.entry(key).or_default();
        // Messages of a channel arrive in their order.
        let before_s = queue.back().map_or(0.0, |before| before.arrival_s);
        let at_s = arrival_s.unwrap_or(0.0).max(before_s);
        queue.push_back(Sent { exchange: exchange.clone(), arrival_s: at_s, bytes });
        if arrival_s.is_some() {
            arrivals.push(Arrival { at_s, number: *count, key });
        }
    }

    /// The virtual clock of a rank.
    pub(super) fn clock(&self, rank: u32) -> Option<RankClock> {
        self.timeline.clone().map(|timeline| RankClock::new(timeline, rank))
    }

    /// Whether a message is on its way.
    pub(super) fn carries(&self, exchange: &Exchange, channel: Channel) -> bool {
        lock(&self.state).sent.contains_key(&(exchange.id, channel))
    }

    /// Adds a task of a rank.
    pub(super) fn spawn(&self, rank: u32, task: Task) {
        lock(&self.state).spawned.push((rank, task));
    }

    fn run_all(&self, world: &World, seed: u64, loses: Option<(u32, u64)>) {
        let mut running: Vec<Running> = Vec::new();
        let mut steps_left = loses.map_or(u64::MAX, |(_, steps)| steps);
        let mut steps = 0;
        loop {
            let mut state = lock(&self.state);
            running.extend(state.spawned.drain(..).map(Running::new));
            if running.is_empty() {
                return;
            }
            let event = match &self.timeline {
                Some(timeline) => state.earliest_event(timeline, &mut running),
                None => state.any_event(&running),
            };
            let number = match event {
                Some(Event::Task(number)) => number,
                Some(Event::Message(key)) => {
                    state.deliver(key, self.timeline.as_ref());
                    continue;
                }
                Some(Event::Access(rank)) => {
                    self.timeline.iter().for_each(|timeline| timeline.times().serve(rank));
                    continue;
                }
                None => {
                    let waits = world.waits();
                    panic!("simulation with seed {seed}: nobody can go on; waiting for {waits:?}");
                }
            };
            drop(state);
            let rank = running[number].rank;
            if loses.is_some_and(|(losing, _)| losing == rank) {
                if steps_left == 0 {
                    // What is dropped may use the communicator, so that nothing is locked here.
                    running.retain(|task| task.rank != rank);
                    lock(&self.state).spawned.retain(|(owner, _)| *owner != rank);
                    world.lose(rank, "is lost");
                    continue;
                }
                steps_left -= 1;
            }
            steps += 1;
            if self.go_on(&mut running[number], steps) {
                drop(running.remove(number));
            }
        }
    }

    /// Lets a task go on; whether it has ended.
    fn go_on(&self, task: &mut Running, step: u64) -> bool {
        task.last_step = step;
        let Some(timeline) = &self.timeline else { return task.poll() };
        let has_ended = timeline.run(task.rank, || task.poll());
        task.again = task.is_ready() && !timeline.times().is_due(task.rank);
        task.has_looked = task.again;
        has_ended
    }
}

/// A task that has been started.
struct Running {
    rank: u32,
    task: Task,
    ready: Arc<Ready>,
    /// The last step that it took.
    last_step: u64,
    /// Whether its last step only looked for something that others have to do.
    has_looked: bool,
    /// Whether it waits until others have done something, to look again.
    again: bool,
}

impl Running {
    fn new((rank, task): (u32, Task)) -> Running {
        let ready = Arc::new(Ready(AtomicBool::new(true)));
        Running { rank, task, ready, last_step: 0, has_looked: false, again: false }
    }

    fn is_ready(&self) -> bool {
        self.ready.0.load(Relaxed)
    }

    /// Lets it go on; whether it has ended.
    fn poll(&mut self) -> bool {
        self.ready.0.store(false, Relaxed);
        let waker = Waker::from(self.ready.clone());
        self.task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Lane, Tag, collective, pause, receive};
    use super::*;
    use crate::error::{Error, ErrorClass};
    use crate::model::clock::Storage;
    use crate::model::presets::{Device, Link};
    use crate::storage::{Emulated, Memory};
    use crate::{Datatype, File, View};

    const TAG: Tag = Tag { call: 0, lane: Lane::Data };

    fn order_of_arrival(seed: u64) -> Vec<u32> {
        let log = Arc::new(Mutex::new(Vec::new()));
        Simulated::new(6, seed).run(|comm| {
            let log = log.clone();
            async move {
                collective::barrier(&*comm, 0).await.unwrap();
                pause().await;
                lock(&log).push(comm.rank());
            }
        });

        lock(&log).clone()
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(order_of_arrival(1), order_of_arrival(1));
        assert!((2..10).any(|seed| order_of_arrival(seed) != order_of_arrival(1)));
    }

    #[test]
    fn a_lost_rank_is_named_to_all_others() {
        for steps in 0..3 {
            let results = Simulated::new(3, 4).lose(1, steps).try_run(|comm| async move {
                for call in 0..10 {
                    collective::barrier(&*comm, call).await?;
                }
                Ok::<(), Error>(())
            });
            assert!(results[1].is_none());
            for result in [&results[0], &results[2]] {
                let error = result.as_ref().unwrap().as_ref().unwrap_err();
                assert_eq!(error.class(), ErrorClass::PeerLost);
                assert!(error.to_string().contains("rank 1 is lost"), "{error}");
            }
        }
    }

    /// 1 GB/s, 100 us; a disk with 1 ms and 1 GB/s.
    fn machine(nodes: u32) -> Machine {
        let link = Link { latency_us: 100.0, bytes_per_s: 1e9 };
        let disk = Device {
            positioning_us: 1000.0,
            latency_us: 0.0,
            read_bytes_per_s: 1e9,
            write_bytes_per_s: 1e9,
        };
        let storage = Storage::local(disk);
        let (ranks_per_node, cores_per_node) = (1, 1);
        Machine { nodes, ranks_per_node, cores_per_node, node_link: link, network: link, storage }
    }

    fn now_us() -> u128 {
        (Simulated::now() + Duration::from_nanos(500)).as_micros()
    }

    #[test]
    fn a_message_takes_the_time_of_the_link_and_its_sender_goes_on() {
        let times_us = Simulated::on(machine(2)).run(|comm| async move {
            if comm.rank() == 0 {
                comm.send(1, TAG, vec![0; 1_000_000]).unwrap();
            } else {
                receive(&*comm, 0, TAG).await.unwrap();
            }
            now_us()
        });
        assert_eq!(times_us, [0, 1100]);
        assert_eq!(Simulated::now(), Duration::ZERO, "no rank is simulated here");
    }

    /// Every access takes 1 ms and 5 us; the ranks alternate, so that none is done before the
    /// fourth of six.
    #[test]
    fn ranks_share_a_device_in_the_order_of_their_times() {
        let disk = Arc::new(Emulated::simulated(Arc::new(Memory::new())));
        let options = File::options().write(true).create(true).driver(disk);
        let options = options.hint("pario_strategy", "direct");
        let taken_us = Simulated::on(machine(3)).run(|comm| {
            let options = options.clone();
            async move {
                let file = options.open_async(&*comm, "a").await.unwrap();
                let piece = Datatype::contiguous(5000, &Datatype::byte()).unwrap();
                let every = Datatype::resized(0, 100_000, &piece).unwrap();
                let start = u64::from(comm.rank()) * 10_000;
                let view = View::new(start, &Datatype::byte(), &every);
                file.handle().set_view(&view).await.unwrap();
                file.handle().write_all(0, &[1u8; 10_000]).await.unwrap();
                (file.last_call().storage + Duration::from_nanos(500)).as_micros()
            }
        });
        // Messages make some ranks begin a little later than others.
        let mut sorted = taken_us.clone();
        sorted.sort_unstable();
        for (us, accesses) in sorted.into_iter().zip(4..) {
            assert!((accesses * 1005 - 300..=accesses * 1005).contains(&us), "{taken_us:?}");
        }
    }

    /// Rank 0 gathers and stores: others pack 1 ms, and it unpacks what comes, one after the other.
    #[test]
    fn copies_and_plans_take_the_time_of_processors() {
        let time = |costs: Costs| {
            let disk = Arc::new(Emulated::simulated(Arc::new(Memory::new())));
            let options = File::options().write(true).create(true).driver(disk);
            let options = options.hint("pario_strategy", "gather");
            let ended = Simulated::on(machine(3)).costs(costs).run(|comm| {
                let options = options.clone();
                async move {
                    let file = options.open_async(&*comm, "a").await.unwrap();
                    let begin = comm.now();
                    let place = u64::from(comm.rank()) * 100_000;
                    file.handle().write_all(place, &[1u8; 100_000]).await.unwrap();
                    (comm.now() - begin, file.last_call())
                }
            });
            let packing = ended[0].1.packing;
            (ended.into_iter().map(|(time, _)| time).max().unwrap().as_secs_f64(), packing)
        };
        let (free_s, packing) = time(Costs::default());
        assert_eq!(packing, Duration::ZERO);
        let copies = Costs { copy_bytes_per_s: 1e8, ..Costs::default() };
        let (copied_s, packing) = time(copies);
        assert!((3.0..5.0).contains(&((copied_s - free_s) * 1e3)), "{free_s} and {copied_s}");
        assert!(packing >= Duration::from_millis(3), "{packing:?}");
        let (planned_s, _) = time(Costs { plan_us: 5000.0, ..Costs::default() });
        assert!((planned_s - free_s - 0.005).abs() < 1e-6, "{free_s} and {planned_s}");
    }

    /// A rank may wait for one that is ahead of it, and that sends no message.
    #[test]
    fn a_rank_that_looks_again_lets_others_go_on() {
        let seen = Arc::new(AtomicBool::new(false));
        let times_us = Simulated::on(machine(3)).run(|comm| {
            let seen = seen.clone();
            async move {
                if comm.rank() == 1 {
                    comm.send(2, TAG, vec![0; 1000]).unwrap();
                } else if comm.rank() == 2 {
                    receive(&*comm, 1, TAG).await.unwrap();
                    seen.store(true, Relaxed);
                }
                while !seen.load(Relaxed) {
                    pause().await;
                }
                now_us()
            }
        });
        assert_eq!(times_us, [101, 101, 101]);
    }

    #[test]
    #[should_panic(expected = "nobody can go on")]
    fn a_deadlock_is_seen() {
        Simulated::new(2, 0).run(|comm| async move {
            let _ = receive(&*comm, 1 - comm.rank(), TAG).await;
        });
    }
}
