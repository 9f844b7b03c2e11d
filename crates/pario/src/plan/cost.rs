//! What a plan costs: the predicted time of a call, from the profile of the machine.
//!
//! A prediction has the same parts as the statistics of a call: planning, synchronisation, exchange
//! and storage, each the elapsed time of a rank. Ranks of a node share its cores, so that work of
//! the processors is added up over the ranks of the busiest node and divided by the cores that it
//! has for them. Storage that makes ranks wait is not: there, all of them wait at once.
//!
//! Every rank computes the same numbers: only additions, multiplications, divisions and
//! comparisons, in one order.
//!
//! Cost: some interpolations in the tables of the profile, and a pass over the requests.

use super::cause::Cause;
use super::choose::total;
use super::{
    Direction, FileFacts, Holes, Independent, LockRule, PAGE_BYTES, Phases, Placement, Planning,
    Request, Route, SharedWindows, Shuffled, Steps, Storing, rank_of,
};
use crate::model::profile::{Access, Accesses, Curve, Pattern, Profile};
use crate::number::{real, wide};

/// A storage call that takes longer waits for a device or a server; a shorter one computes.
const WAITING_CALL_US: f64 = 20.0;
/// Storage calls that are on their way at once where many are handed over together.
const CALLS_AT_ONCE: u32 = 32;
/// A rank that waits longer than this sleeps.
const POLLED_US: f64 = 20.0;
/// The last rank comes later than the first by about this part of their work.
const UNEVEN: f64 = 1.0 / 3.0;
/// System calls that a range lock takes.
const CALLS_OF_A_LOCK: f64 = 2.0;

/// Storage calls of a list that are on their way at once, if each takes this time alone.
pub(crate) fn calls_at_once(call_us: f64) -> u32 {
    if call_us > WAITING_CALL_US { CALLS_AT_ONCE } else { 1 }
}

/// Whether calls of storage make ranks wait for a device or a server.
pub(super) fn is_slow(accesses: &Accesses) -> bool {
    accesses.call_us > WAITING_CALL_US || accesses.positioning_us > 0.0
}

/// A part of the time of a call, as the statistics have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Until the plan is known.
    Planning,
    /// Until all ranks are there.
    Synchronisation,
    /// Copies, messages, and waiting for others.
    Exchange,
    /// Calls of storage.
    Storage,
}

/// The time that one cause takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// What takes the time.
    pub cause: Cause,
    /// Predicted microseconds.
    pub us: f64,
}

impl Term {
    /// The part of the time that it belongs to.
    pub fn part(&self) -> Part {
        self.cause.part()
    }
}

/// Kinds of plans. What the model does not know of a machine differs between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every rank for itself.
    #[default]
    Independent,
    /// The same with windows of pieces and holes.
    Sieve,
    /// Windows in shared memory.
    Shared,
    /// Windows in the memory of aggregators.
    Messages,
    /// The same in that of all ranks, after all phases.
    Phases,
    /// Some phases, after which each rank stores the pieces that it has.
    SomePhases,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] = [
        Kind::Independent,
        Kind::Sieve,
        Kind::Shared,
        Kind::Messages,
        Kind::Phases,
        Kind::SomePhases,
    ];

    fn of(steps: &Steps) -> Kind {
        match steps {
            Steps::Independent(Independent { hole_bytes: 0, .. }) => Kind::Independent,
            Steps::Independent(_) => Kind::Sieve,
            Steps::Shuffled(shuffled) => match shuffled.placement() {
                Placement::Shared(_) => Kind::Shared,
                Placement::Own(Route::Direct) => Kind::Messages,
                Placement::Own(Route::Phases(phases)) if phases.is_complete() => Kind::Phases,
                Placement::Own(Route::Phases(_)) => Kind::SomePhases,
            },
        }
    }
}

/// How measured times of one kind of plans compare with predicted ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Time in the exchange in proportion to what the profile says.
    pub exchange: f64,
    /// The same for storage calls, whatever they move: positioning and locks, too.
    pub storage_call: f64,
    /// The same for the bytes that storage moves.
    pub storage_byte: f64,
}

impl Factors {
    /// Those of an exchange, and of storage with calls and bytes that are equally wrong.
    pub fn new(exchange: f64, storage: f64) -> Factors {
        Factors { exchange, storage_call: storage, storage_byte: storage }
    }

    /// The factor of what takes time for this cause.
    pub fn of(&self, cause: Cause) -> f64 {
        match cause.part() {
            Part::Exchange => self.exchange,
            Part::Storage if cause.is_of_bytes() => self.storage_byte,
            Part::Storage => self.storage_call,
            Part::Planning | Part::Synchronisation => 1.0,
        }
    }
}

impl Default for Factors {
    fn default() -> Factors {
        Factors::new(1.0, 1.0)
    }
}

/// How measured times compare with predicted ones, learned from earlier calls on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Correction {
    /// Where every rank works for itself.
    pub independent: Factors,
    /// Where it does so with windows of pieces and holes.
    pub sieve: Factors,
    /// Where windows are in shared memory.
    pub shared: Factors,
    /// Where they are in the memory of aggregators.
    pub messages: Factors,
    /// Where they are in that of all ranks, after all phases.
    pub phases: Factors,
    /// Where each rank stores the pieces that it has after some phases.
    pub some_phases: Factors,
}

impl Correction {
    /// The same factors for all kinds of plans.
    pub fn of_all(factors: Factors) -> Correction {
        let mut correction = Correction::default();
        Kind::ALL.into_iter().for_each(|kind| *correction.of_mut(kind) = factors);
        correction
    }

    /// Whether all factors are numbers above 0.
    pub fn is_sound(&self) -> bool {
        let factors = Kind::ALL.iter().map(|&kind| self.of(kind));
        let numbers = factors.flat_map(|one| [one.exchange, one.storage_call, one.storage_byte]);
        numbers.into_iter().all(|one| one > 0.0 && one.is_finite())
    }

    pub(crate) fn of(&self, kind: Kind) -> Factors {
        match kind {
            Kind::Independent => self.independent,
            Kind::Sieve => self.sieve,
            Kind::Shared => self.shared,
            Kind::Messages => self.messages,
            Kind::Phases => self.phases,
            Kind::SomePhases => self.some_phases,
        }
    }

    pub(crate) fn of_mut(&mut self, kind: Kind) -> &mut Factors {
        match kind {
            Kind::Independent => &mut self.independent,
            Kind::Sieve => &mut self.sieve,
            Kind::Shared => &mut self.shared,
            Kind::Messages => &mut self.messages,
            Kind::Phases => &mut self.phases,
            Kind::SomePhases => &mut self.some_phases,
        }
    }
}

/// The predicted time of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) kind: Kind,
    /// Ranks of a node that are in storage at a time.
    pub(crate) ranks_in_storage: u32,
    pub(crate) terms: Vec<Term>,
}

impl Cost {
    fn add(&mut self, cause: Cause, us: f64) {
        if us > 0.0 {
            self.terms.push(Term { cause, us });
        }
    }

    /// Whether bytes go through messages between nodes.
    pub(crate) fn is_between_nodes(&self, file: &FileFacts) -> bool {
        !matches!(self.kind, Kind::Independent | Kind::Sieve | Kind::Shared) && file.cores.len() > 1
    }

    /// The time of one part.
    pub(crate) fn of(&self, part: Part) -> f64 {
        self.terms.iter().filter(|term| term.part() == part).map(|term| term.us).sum()
    }

    /// The time of storage for such causes.
    pub(super) fn storage_us(&self, is_counted: impl Fn(Cause) -> bool) -> f64 {
        let counts = |term: &&Term| term.part() == Part::Storage && is_counted(term.cause);
        self.terms.iter().filter(counts).map(|term| term.us).sum()
    }

    /// The time of one part, corrected.
    pub(super) fn corrected_of(&self, part: Part, correction: Correction) -> f64 {
        let factors = correction.of(self.kind);
        let terms = self.terms.iter().filter(|term| term.part() == part);
        terms.map(|term| term.us * factors.of(term.cause)).sum()
    }

    /// The time of all parts, corrected.
    pub(crate) fn corrected_us(&self, correction: Correction) -> f64 {
        let factors = correction.of(self.kind);
        self.terms.iter().map(|term| term.us * factors.of(term.cause)).sum()
    }
}

/// The predicted time of a plan, without correction.
pub(super) fn cost(planning: &Planning<'_>, steps: &Steps) -> Cost {
    let scene = Scene::new(planning);
    let mut cost = Cost { kind: Kind::of(steps), ranks_in_storage: 1, terms: Vec::new() };
    if planning.conditions.collective {
        scene.together(&mut cost);
    }
    match steps {
        Steps::Independent(steps) => scene.independent(steps, &mut cost),
        Steps::Shuffled(shuffled) => scene.shuffled(shuffled, &mut cost),
    }
    scene.end(&mut cost);
    cost
}

/// What all predictions for a request have in common.
struct Scene<'a> {
    planning: &'a Planning<'a>,
    profile: &'a Profile,
    total: Request,
    ranks: u32,
    nodes: u32,
    /// Ranks of the busiest node, and its cores.
    node_ranks: u32,
    cores: u32,
}

/// Storage calls of one length.
#[derive(Clone, Copy)]
struct Calls {
    direction: Direction,
    /// On the busiest node.
    count: f64,
    bytes: u64,
    pattern: Pattern,
    /// Nodes that make as many, and ranks of each of them.
    nodes: u32,
    servers: u32,
    /// Whether many are handed over together.
    batched: bool,
    /// Whether each of them continues the last one.
    continued: bool,
    /// Whether they go through a mapping of the file.
    mapped: bool,
}

impl<'a> Scene<'a> {
    fn new(planning: &'a Planning<'a>) -> Scene<'a> {
        let file = planning.file;
        let ranks = rank_of(planning.requests.len()).max(1);
        let busiest = file.members().max_by_key(|(ranks, _)| ranks.len());
        let (members, cores) = busiest.unwrap_or_default();
        // An independent call is of one rank, and others may be busy as well: it has a core.
        let node_ranks =
            if planning.conditions.collective { rank_of(members.len()).max(1) } else { 1 };
        Scene {
            planning,
            profile: &file.profile,
            total: total(planning.requests),
            ranks,
            nodes: if planning.conditions.collective {
                rank_of(file.cores.len()).max(1)
            } else {
                1
            },
            node_ranks,
            cores: cores.max(1),
        }
    }

    /// The part of all bytes and pieces that belongs to the busiest node.
    fn node_share(&self) -> f64 {
        f64::from(self.node_ranks) / f64::from(self.ranks)
    }

    /// Ranks of a node that run at a time.
    fn running(&self, of: u32) -> u32 {
        of.min(self.cores).max(1)
    }

    fn pieces(&self) -> f64 {
        real(self.total.bytes) / real(self.total.piece_bytes.max(1))
    }

    /// All ranks announce what they ask for, and at the end how it went.
    fn together(&self, cost: &mut Cost) {
        let network = self.profile.messages.network;
        let steps = f64::from(self.nodes.next_power_of_two().trailing_zeros());
        let barrier_us = self.barrier_us() + 2.0 * steps * network.latency_us;
        cost.add(Cause::Barriers, 2.0 * barrier_us);
        let irregular = match self.planning.conditions.regular {
            true => 0.0,
            false => self.pieces() / f64::from(self.ranks),
        };
        let planning = &self.profile.planning;
        let us = f64::from(self.ranks) * planning.rank_us + irregular * planning.piece_us;
        cost.add(Cause::Planning, us);
    }

    /// Ranks that have done their part sleep until the last one wakes them. On oversubscribed nodes
    /// that is part of a barrier.
    fn end(&self, cost: &mut Cost) {
        let work_us = cost.of(Part::Exchange) + cost.of(Part::Storage);
        let has_waited = UNEVEN * work_us > POLLED_US;
        if has_waited && (2..=self.cores).contains(&self.node_ranks) {
            let us = self.profile.synchronisation.wake_us;
            cost.add(Cause::Waking, us);
        }
    }

    /// A barrier of the ranks of a node, with the cores that it really has.
    fn barrier_us(&self) -> f64 {
        let synchronisation = &self.profile.synchronisation;
        match self.node_ranks {
            1 => 0.0,
            ranks if ranks <= self.cores => {
                let steps = f64::from(ranks.next_power_of_two().trailing_zeros());
                steps * synchronisation.barrier_step_us
            }
            ranks => {
                let per_core = f64::from(ranks) / f64::from(self.cores);
                per_core * synchronisation.oversubscribed_rank_us
            }
        }
    }

    /// Calls of storage, by what they cost before the first byte and for the bytes.
    fn storage(&self, calls: Calls, cost: &mut Cost, causes: [Cause; 2]) {
        let accesses = match calls.direction {
            Direction::Read => &self.profile.storage.read,
            Direction::Write => &self.profile.storage.write,
        };
        let waits = accesses.call_us > WAITING_CALL_US;
        let at_once = match waits {
            true => calls.servers.max(1),
            false => self.running(calls.servers),
        };
        cost.ranks_in_storage = at_once;
        let ranks = at_once.saturating_mul(calls.nodes);
        let Calls { bytes, pattern, .. } = calls;
        let access = Access { bytes, pattern, ranks, working_set: self.working_set() };
        let each_us = self.profile.access_us(calls.direction, access);
        let call_us = each_us.min(accesses.call_us);
        let gain = accesses.mapped_gain(ranks).filter(|_| calls.mapped).unwrap_or(1.0);
        let bytes_us = (each_us - call_us) / gain;
        let at_most = if calls.batched { calls_at_once(accesses.call_us) } else { 1 };
        let overlap = f64::from(at_most).min(calls.count).max(1.0);
        // While calls wait, the bytes of others are moved.
        let alone = Access { ranks: 1, ..access };
        let alone_us = self.profile.access_us(calls.direction, alone) - call_us;
        let beside_us = match waits {
            true => bytes_us - alone_us / overlap,
            false => 0.0,
        };
        let turns = calls.count / f64::from(at_once);
        cost.add(causes[0], turns * (call_us / overlap - beside_us.max(0.0)));
        let positioning_us = match pattern {
            // Their curves have it.
            Pattern::Scattered | Pattern::Aligned | Pattern::Direct if alone_us > 0.0 => {
                turns * bytes_us * (accesses.positioning_us / alone_us).min(1.0)
            }
            _ if calls.continued => accesses.positioning_us,
            _ => turns * f64::from(ranks) * accesses.positioning_us,
        };
        let is_in_curve =
            matches!(pattern, Pattern::Scattered | Pattern::Aligned | Pattern::Direct);
        let in_curve_us = if is_in_curve { positioning_us } else { 0.0 };
        cost.add(causes[1], turns * bytes_us - in_curve_us);
        cost.add(Cause::Positioning, positioning_us);
    }

    /// Copies of the pieces of the busiest node between users' memory and something contiguous.
    fn user_copies_us(&self) -> f64 {
        let memory = &self.profile.memory;
        let (usual, random) = match self.planning.conditions.direction {
            Direction::Write => (&memory.gather, &memory.gather_random),
            Direction::Read => (&memory.scatter, &memory.scatter_random),
        };
        let random = random.as_ref().filter(|_| !self.total.memory.in_order);
        self.copied_us(random.unwrap_or(usual), self.node_bytes(), self.node_ranks)
    }

    /// Copies of pieces between memory that ranks have for them and something contiguous.
    fn copies_us(&self, bytes: f64, of: u32) -> f64 {
        let curve = match self.planning.conditions.direction {
            Direction::Write => &self.profile.memory.gather,
            Direction::Read => &self.profile.memory.scatter,
        };
        self.copied_us(curve, bytes, of)
    }

    fn copied_us(&self, curve: &Curve, bytes: f64, of: u32) -> f64 {
        let running = self.running(of);
        let piece_bytes = self.copied_piece_bytes();
        let own = bytes / f64::from(running);
        let memory = &self.profile.memory;
        let wait_us = memory.concurrent.wait_us(own, running);
        let far_us = own / real(piece_bytes) * curve.us(piece_bytes) + wait_us;
        far_us - memory.reused.saved_us(own, self.working_set(), far_us)
    }

    /// A copy ends where a piece of the file or of memory ends.
    fn copied_piece_bytes(&self) -> u64 {
        self.total.piece_bytes.min(self.total.memory.piece_bytes).max(1)
    }

    /// Bytes that a node uses again and again, as far as a request tells: the file up to its end,
    /// and as much memory. Calls before this one have used what is before it in the file.
    fn working_set(&self) -> u64 {
        (self.total.end / u64::from(self.nodes)).saturating_mul(2)
    }

    /// Whether pieces are whole pages of the file, as far as means can tell.
    fn has_whole_pages(&self) -> bool {
        let mut busy = self.planning.requests.iter().filter(|one| one.bytes > 0);
        busy.all(|one| one.piece_bytes % PAGE_BYTES == 0 && one.start % PAGE_BYTES == 0)
    }

    fn node_bytes(&self) -> f64 {
        real(self.total.bytes) * self.node_share()
    }

    fn independent(&self, steps: &Independent, cost: &mut Cost) {
        let direction = self.planning.conditions.direction;
        let pieces = self.pieces() * self.node_share();
        // Views may reach as far as offsets go.
        let lens = self.planning.requests.iter().map(Request::reach);
        let reach = lens.fold(0, u64::saturating_add);
        let hole_bytes = real(reach.saturating_sub(self.total.bytes)) / self.pieces().max(1.0);
        let holes = hole_bytes >= 1.0;
        let sieves = holes && hole_bytes <= real(steps.hole_bytes);
        let pattern = match holes {
            true if self.has_whole_pages() => Pattern::Aligned,
            true => Pattern::Scattered,
            false => Pattern::Contiguous,
        };
        let bytes = self.total.piece_bytes;
        let (nodes, servers, batched) = (self.nodes, self.node_ranks, steps.batched);
        let continued = self.ranks == 1 && pattern == Pattern::Contiguous;
        let mut calls = Calls {
            direction,
            count: pieces,
            bytes,
            pattern,
            nodes,
            servers,
            batched,
            continued,
            mapped: false,
        };
        if sieves {
            let range = reach / wide(self.planning.requests.len()).max(1);
            calls.bytes = steps.buffer_bytes.min(range).max(1);
            calls.count = real(range.div_ceil(calls.bytes)) * f64::from(self.node_ranks);
            calls.pattern = Pattern::Sequential;
        }
        // What is contiguous in the file and not in memory is packed as well.
        if sieves || self.copied_piece_bytes() < self.total.piece_bytes {
            cost.add(Cause::PiecesCopied, self.user_copies_us());
        }
        if sieves && direction == Direction::Write {
            // A device goes back to write what it has read.
            calls.continued = false;
            // One after the other, where they lock what they read and write back.
            let locked = steps.lock != LockRule::Nothing;
            if locked {
                calls.count *= f64::from(self.nodes);
                (calls.nodes, calls.servers) = (1, 1);
            }
            let read = Calls { direction: Direction::Read, ..calls };
            self.storage(read, cost, [Cause::ReadFirstCalls, Cause::ReadFirstBytes]);
        }
        self.storage(calls, cost, [Cause::StorageCalls, Cause::StorageBytes]);
        // On one node, who writes without holes passes a gate instead.
        let has_gate = !sieves && self.planning.file.cores.len() == 1;
        if steps.lock == LockRule::WholeRequest || steps.lock == LockRule::EachWrite && !has_gate {
            let call_us = CALLS_OF_A_LOCK * self.profile.storage.write.call_us;
            let locks = if steps.lock == LockRule::WholeRequest { 1.0 } else { calls.count };
            cost.add(Cause::Locks, locks * call_us / f64::from(self.running(servers)));
        }
    }

    fn shuffled(&self, shuffled: &Shuffled, cost: &mut Cost) {
        match shuffled.placement() {
            Placement::Shared(shared) => self.shared(shuffled, shared, cost),
            Placement::Own(Route::Direct) => self.messages(shuffled, cost),
            Placement::Own(Route::Phases(phases)) => self.phases(shuffled, phases, cost),
        }
    }

    /// Bytes of a file range in windows: more than those asked for where there are holes.
    fn touched(&self) -> u64 {
        self.total.reach()
    }

    /// Windows of all aggregators of the busiest node, moved by storage calls of `bytes`.
    fn windows(&self, shuffled: &Shuffled, bytes: u64, servers: u32, cost: &mut Cost) {
        let direction = self.planning.conditions.direction;
        let bytes = bytes.clamp(1, self.touched().max(1));
        let nodes = self.nodes.min(rank_of(shuffled.domains().len())).max(1);
        let count = (real(self.touched()) / real(bytes)).max(1.0) / f64::from(nodes);
        let (pattern, batched) = (Pattern::Sequential, false);
        let continued = nodes * servers == 1;
        let mapped = false;
        let calls =
            Calls { direction, count, bytes, pattern, nodes, servers, batched, continued, mapped };
        let has_holes = self.total.bytes < self.touched();
        if direction == Direction::Write && has_holes {
            match shuffled.holes() {
                Holes::Skipped => {
                    let count = self.pieces() / f64::from(nodes);
                    let bytes = self.total.piece_bytes;
                    let pattern = Pattern::Scattered;
                    let pieces = Calls { count, bytes, pattern, batched: true, ..calls };
                    return self.storage(pieces, cost, [Cause::StorageCalls, Cause::StorageBytes]);
                }
                Holes::Rewritten | Holes::Locked => {
                    let read = Calls { direction: Direction::Read, ..calls };
                    self.storage(read, cost, [Cause::ReadFirstCalls, Cause::ReadFirstBytes]);
                }
            }
        }
        let mapped = shuffled.storing() != Storing::Plain;
        let calls = Calls { mapped, ..calls };
        self.storage(calls, cost, [Cause::StorageCalls, Cause::StorageBytes]);
    }

    /// Each rank copies its own bytes; windows are served meanwhile.
    fn shared(&self, shuffled: &Shuffled, shared: SharedWindows, cost: &mut Cost) {
        let all = self.node_ranks;
        let bytes = if shared.packed { shared.part_bytes } else { shuffled.window_bytes() };
        let servers = match shuffled.all_serve() {
            true => all,
            false => rank_of(shuffled.domains().len()),
        };
        self.windows(shuffled, bytes.min(shuffled.window_bytes()), servers, cost);
        cost.add(Cause::PiecesCopied, self.user_copies_us());
        if shared.packed {
            let us = self.copies_us(self.node_bytes(), all);
            cost.add(Cause::WindowsAssembled, us);
        }
        let windows = f64::from(shuffled.window_count());
        let turns = windows / real(shared.slots.max(1));
        cost.add(Cause::WaitForWindows, turns * self.barrier_us());
        // Otherwise the rank that has filled a window stores it, and who has fetched one uses it.
        if servers < self.running(all) {
            let synchronisation = &self.profile.synchronisation;
            let us = match all <= self.cores {
                true => synchronisation.barrier_step_us,
                false => synchronisation.oversubscribed_rank_us,
            };
            cost.add(Cause::WindowsHandedOver, windows * us);
        }
    }

    /// Ranks that have bytes in a window, on average.
    fn senders(&self, window_bytes: u64) -> f64 {
        let touched = real(self.touched()).max(1.0);
        let busy = || self.planning.requests.iter().filter(|one| one.bytes > 0);
        let reach = |one: &Request| real(one.reach());
        let covered: f64 = busy().map(|one| (reach(one) + real(window_bytes)).min(touched)).sum();
        (covered / touched).clamp(1.0, f64::from(self.ranks))
    }

    /// Each rank sends each aggregator its bytes of a window, or gets them.
    fn messages(&self, shuffled: &Shuffled, cost: &mut Cost) {
        let aggregators = rank_of(shuffled.domains().len()).max(1);
        let serving_nodes = self.nodes.min(aggregators);
        let on_node = aggregators.div_ceil(self.nodes);
        let away = 1.0 - 1.0 / f64::from(self.nodes);
        let (node, network) = (self.profile.messages.node, self.profile.messages.network);
        let messages = self.senders(shuffled.window_bytes()) * real(shuffled.rounds());
        cost.add(Cause::Messages, messages * (1.0 - away) * node.latency_us);
        // The links of the nodes that have aggregators carry the bytes of all others.
        let carried = real(self.total.bytes) * away / f64::from(serving_nodes);
        let away_us = [messages * away * network.latency_us, carried / network.bytes_per_s * 1e6];
        let local = real(self.total.bytes) * (1.0 - away) / f64::from(serving_nodes);
        let running = f64::from(self.running(self.node_ranks));
        cost.add(Cause::BytesOnNode, local / node.bytes_per_s * 1e6 / running);
        self.packed(aggregators, on_node, cost);
        self.windows(shuffled, shuffled.window_bytes(), on_node, cost);
        // Messages of the next windows are under way while one is fetched or stored.
        let [latency_us, bytes_us] = away_us;
        let storage_us = cost.of(Part::Storage);
        let beside_us = storage_us * (1.0 - 1.0 / real(shuffled.rounds().max(1)));
        let all_us = (latency_us + bytes_us).max(f64::MIN_POSITIVE);
        let seen = (1.0 - beside_us / all_us).max(1.0 / real(shuffled.rounds().max(1)));
        cost.add(Cause::MessagesBetweenNodes, latency_us * seen);
        cost.add(Cause::BytesBetweenNodes, bytes_us * seen);
        self.rounds(shuffled, cost);
    }

    /// Bytes are packed by the ranks, and put into windows by the aggregators; or the other way.
    fn packed(&self, aggregators: u32, on_node: u32, cost: &mut Cost) {
        cost.add(Cause::PiecesPacked, self.user_copies_us());
        let serving_nodes = f64::from(self.nodes.min(aggregators));
        let assembled = real(self.total.bytes) / serving_nodes;
        cost.add(Cause::WindowsAssembled, self.copies_us(assembled, on_node));
    }

    /// Oversubscribed ranks wait for each other in every round.
    fn rounds(&self, shuffled: &Shuffled, cost: &mut Cost) {
        if self.node_ranks > self.cores {
            let us = real(shuffled.rounds()) * self.barrier_us();
            cost.add(Cause::WaitForRounds, us);
        }
    }

    /// In each phase a rank exchanges half of what it has with one partner.
    fn phases(&self, shuffled: &Shuffled, phases: Phases, cost: &mut Cost) {
        let (node, network) = (self.profile.messages.node, self.profile.messages.network);
        let rounds = real(shuffled.rounds());
        let half = real(self.total.bytes) / f64::from(self.ranks) / 2.0;
        let per_node = self.ranks.div_ceil(self.nodes).max(1);
        let (mut messages_us, mut away_us, mut local_us) = (0.0, 0.0, 0.0);
        let running = f64::from(self.running(self.node_ranks));
        let ranks = f64::from(self.node_ranks);
        for phase in 0..phases.count {
            let is_away = 1u64 << phase >= u64::from(per_node) && self.nodes > 1;
            let link = if is_away { network } else { node };
            messages_us += rounds * link.latency_us;
            match is_away {
                true => away_us += half * ranks / link.bytes_per_s * 1e6,
                false => local_us += half * ranks / link.bytes_per_s * 1e6 / running,
            }
        }
        cost.add(Cause::Messages, messages_us);
        cost.add(Cause::BytesBetweenNodes, away_us);
        cost.add(Cause::BytesOnNode, local_us);
        let forwarded = self.node_bytes() / 2.0 * f64::from(phases.count);
        // Each byte is once in users' memory, whose order may be random.
        let usual_us = self.copies_us(self.node_bytes(), self.node_ranks);
        let packed_us =
            self.copies_us(forwarded, self.node_ranks) + self.user_copies_us() - usual_us;
        cost.add(Cause::PiecesPacked, packed_us);
        match phases.is_complete() {
            true => {
                let us = self.copies_us(self.node_bytes(), self.node_ranks);
                cost.add(Cause::WindowsAssembled, us);
                self.windows(shuffled, shuffled.window_bytes(), self.node_ranks, cost);
            }
            false => self.stored_by_classes(phases, cost),
        }
        self.rounds(shuffled, cost);
    }

    /// With some phases only, the ranks of a class store what came together: longer pieces.
    fn stored_by_classes(&self, phases: Phases, cost: &mut Cost) {
        let together = 1u64.checked_shl(phases.count).unwrap_or(u64::MAX);
        let bytes = self.total.piece_bytes.saturating_mul(together);
        let count = (self.node_bytes() / real(bytes.max(1))).max(1.0);
        let (direction, servers) = (self.planning.conditions.direction, self.node_ranks);
        let (nodes, pattern, batched) = (self.nodes, Pattern::Scattered, true);
        let continued = false;
        let mapped = false;
        let calls =
            Calls { direction, count, bytes, pattern, nodes, servers, batched, continued, mapped };
        self.storage(calls, cost, [Cause::StorageCalls, Cause::StorageBytes]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::hints::{Hints, Strategy};
    use crate::model::profile::Reuse;
    use crate::plan::FileFacts;
    use crate::plan::choose::all_candidates;

    /// Two ranks that alternate with pieces of 4096 bytes, beginning at `first`.
    fn requests(first: u64, turns: u64) -> Vec<Request> {
        let one = |rank: u64| {
            Request::of_pieces(
                first + rank * 4096..first + (2 * turns + rank - 1) * 4096,
                turns * 4096,
                4096,
            )
        };
        vec![one(0), one(1)]
    }

    /// The cost of one strategy with a changed profile.
    fn cost_of(
        strategy: Strategy,
        requests: &[Request],
        change: impl FnOnce(&mut Profile),
    ) -> Cost {
        let mut file = FileFacts::of_threads(requests.len());
        let mut profile = Profile::built_in("tmpfs").unwrap();
        change(&mut profile);
        file.profile = Arc::new(profile);
        let hints = Hints::default();
        let planning = Planning::of(Direction::Write, requests, true, &hints, &file);
        let found = all_candidates(&planning).into_iter().find(|one| one.strategy == strategy);
        found.expect("a candidate").base
    }

    #[test]
    fn pieces_of_memory_are_packed() {
        let mut requests = requests(0, 100);
        let exchanged =
            |requests: &[Request]| cost_of(Strategy::List, requests, |_| {}).of(Part::Exchange);
        assert!(exchanged(&requests) <= 0.0);
        requests.iter_mut().for_each(|one| one.memory.piece_bytes = 64);
        let short = exchanged(&requests);
        assert!(short > 0.0);
        requests.iter_mut().for_each(|one| one.memory.piece_bytes = 8);
        requests.iter_mut().for_each(|one| one.memory.in_order = false);
        assert!(exchanged(&requests) > 2.0 * short);
    }

    /// A rank without a request has no piece.
    #[test]
    fn whole_pages_have_a_curve() {
        let storage = |requests: &[Request]| {
            let slow = |profile: &mut Profile| {
                let aligned = profile.storage.write.aligned.as_mut().unwrap();
                aligned.bytes_per_s.iter_mut().for_each(|rate| *rate /= 100.0);
            };
            let slow_us = cost_of(Strategy::List, requests, slow).of(Part::Storage);
            slow_us / cost_of(Strategy::List, requests, |_| {}).of(Part::Storage)
        };
        let mut whole = requests(0, 100);
        assert!(storage(&whole) > 10.0);
        assert!(storage(&requests(1, 100)) < 1.01);
        whole.push(Request::of_pieces(0..0, 0, 1));
        assert!(storage(&whole) > 10.0);
    }

    /// What calls before this one have used is in the caches as well.
    #[test]
    fn caches_save_time_as_long_as_they_suffice() {
        let faster = |requests: &[Request], strategy: Strategy, part: Part| {
            let caches = |profile: &mut Profile| {
                let (bytes, bytes_per_s) = (vec![1 << 20, 64 << 20], vec![20e9, 10e9]);
                profile.memory.reused = Reuse { bytes, bytes_per_s };
                profile.storage.write.reused = profile.memory.reused.clone();
            };
            cost_of(strategy, requests, |_| {}).of(part)
                / cost_of(strategy, requests, caches).of(part)
        };
        for (strategy, part) in
            [(Strategy::List, Part::Storage), (Strategy::TwoPhase, Part::Exchange)]
        {
            assert!(faster(&requests(0, 100), strategy, part) > 1.05, "{strategy:?}");
            assert!(faster(&requests(0, 10_000), strategy, part) < 1.0001, "{strategy:?}");
            assert!(faster(&requests(40 << 20, 100), strategy, part) < 1.0001, "{strategy:?}");
        }
    }
}
