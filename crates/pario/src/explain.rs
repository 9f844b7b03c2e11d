//! Why a call is served as it is: every way to serve it, with its predicted time.
//!
//! [`explain`] plans a request that is only described, for any number of ranks and nodes, exactly
//! as a call plans one: planners get the same words ([`Request`], [`Conditions`]). Nothing is
//! opened, sent or stored. `pario explain` prints its answer.
//!
//! ```
//! use pario::explain::{Question, Request, explain};
//! use pario::model::Direction;
//! use pario::model::profile::Profile;
//!
//! // Four ranks write 64-byte blocks in turn to a disk.
//! let block = |rank: u64| {
//!     Request::of_pieces(rank * 64..(1 << 20) - (3 - rank) * 64, 1 << 18, 64)
//! };
//! let profile = Profile::built_in("hdd").expect("there is one for disks");
//! let question = Question::new(Direction::Write, (0..4).map(block).collect(), profile);
//! let answer = explain(&question)?;
//! assert_eq!(answer.chosen().strategy, pario::Strategy::TwoPhase);
//! # Ok::<(), pario::Error>(())
//! ```

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::direction::Direction;
use crate::error::{Error, ErrorClass, Result};
use crate::exchange::{SLOTS_MAX, WINDOWS_MAX};
use crate::hints::{Environment, HintSet, Strategy};
use crate::model::profile::Profile;
use crate::number::{narrow, wide};
use crate::plan::choose::{self, Candidate};
use crate::plan::{FileFacts, Plan, Planning, Steps};
use crate::request;
use crate::view::{CompiledView, View};

pub use crate::access::InMemory;
pub use crate::plan::{
    Cause, Conditions, Correction, Doubt, Factors, Observed, Part as TimePart, Request,
    Term as Share,
};

impl Request {
    /// What a rank asks for that moves the first bytes of a view, contiguous in memory.
    ///
    /// # Errors
    /// `Type` or `Arg` if there is no such view, or if it does not have that number of bytes.
    pub fn of_view(view: &View, bytes: u64) -> Result<Request> {
        let access = request::access(&CompiledView::new(view, false)?, 0, bytes)?;
        Ok(Request::new(&access, InMemory::CONTIGUOUS))
    }
}

/// A call that is described, and the machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question {
    /// What each rank asks for; the ranks of a node follow each other.
    pub requests: Vec<Request>,
    /// What is the same on all ranks of the call.
    pub conditions: Conditions,
    /// Nodes on which the ranks run.
    pub nodes: u32,
    /// The node of each rank of the file, where they do not follow each other, or where a rank
    /// calls for itself on a file of several; otherwise empty.
    pub node_of_rank: Vec<u32>,
    /// Cores of each node.
    pub cores: u32,
    /// The same where they differ; otherwise empty.
    pub cores_of_node: Vec<u32>,
    /// Bytes of memory that ranks of one node share for windows; none if they cannot.
    pub shared_bytes: u64,
    /// Multiples of this are where storage accesses best begin and end.
    pub block_bytes: u64,
    /// Whether the file is in memory and nowhere else.
    pub in_memory: bool,
    /// Whether the storage has range locks.
    pub range_locks: bool,
    /// Whether the file can be read.
    pub readable: bool,
    /// Whether the program promises that nobody else has the file open.
    pub unique_open: bool,
    /// What storage, copies and messages cost.
    pub profile: Profile,
    /// The hints of the program.
    pub hints: HintSet,
}

/// Shared memory of a node, as transports offer it.
const SHARED_BYTES: u64 = 16 << 20;

impl Question {
    /// A collective call with regular accesses on one node with a core for each rank.
    pub fn new(direction: Direction, requests: Vec<Request>, profile: Profile) -> Question {
        let cores = u32::try_from(requests.len()).unwrap_or(u32::MAX).max(1);
        let name = profile.machine.file_system.as_str();
        let in_memory = matches!(name, "tmpfs" | "ramfs" | "memory");
        Question {
            requests,
            conditions: Conditions::collective(direction),
            nodes: 1,
            node_of_rank: Vec::new(),
            cores,
            cores_of_node: Vec::new(),
            shared_bytes: SHARED_BYTES,
            block_bytes: 4096,
            in_memory,
            range_locks: true,
            readable: true,
            unique_open: false,
            profile,
            hints: HintSet::new(),
        }
    }

    fn check(&self) -> Result<()> {
        let wrong = |text: String| Err(Error::new(ErrorClass::Arg, format!("explain: {text}")));
        if self.requests.is_empty() || self.nodes == 0 || self.cores == 0 {
            return wrong("there are no ranks, nodes or cores".to_owned());
        }
        let ranks = self.node_of_rank.len().max(self.requests.len());
        if wide(ranks) < u64::from(self.nodes) {
            return wrong(format!("{} nodes for {ranks} ranks", self.nodes));
        }
        if !self.node_of_rank.is_empty() && self.node_of_rank.iter().any(|&node| node >= self.nodes)
        {
            return wrong("a rank is on none of the nodes".to_owned());
        }
        if self.conditions.collective && ranks != self.requests.len() {
            return wrong(format!("{} requests of {ranks} ranks", self.requests.len()));
        }
        if !self.conditions.correction.is_sound() {
            return wrong("a factor is not more than 0".to_owned());
        }
        // A view that names bytes twice has more of them than room.
        let fits = |one: &Request| {
            one.start <= one.end
                && (!one.sorted || one.bytes <= one.reach())
                && one.end <= i64::MAX.unsigned_abs()
        };
        match self.requests.iter().position(|one| !fits(one)) {
            Some(rank) => wrong(format!("the request of rank {rank} does not fit into its range")),
            None => self.profile.check(),
        }
    }

    fn facts(&self) -> FileFacts {
        let per_node = self.requests.len().div_ceil(narrow(u64::from(self.nodes))).max(1);
        let node = |rank: usize| u32::try_from(rank / per_node).unwrap_or(u32::MAX);
        let nodes = match self.node_of_rank.is_empty() {
            true => (0..self.requests.len()).map(node).collect(),
            false => self.node_of_rank.clone(),
        };
        let count = nodes.iter().max().map_or(1, |last| last + 1);
        FileFacts {
            nodes,
            shared_bytes: if count == 1 { self.shared_bytes } else { 0 },
            slots_max: wide(SLOTS_MAX),
            windows_max: WINDOWS_MAX,
            cores: match self.cores_of_node.len() == narrow(u64::from(count)) {
                true => self.cores_of_node.clone(),
                false => vec![self.cores; narrow(u64::from(count))],
            },
            block_bytes: self.block_bytes.max(1),
            in_memory: self.in_memory,
            range_locks: self.range_locks,
            readable: self.readable,
            unique_open: self.unique_open,
            profile: Arc::new(self.profile.clone()),
        }
    }
}

/// One way to serve a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Way {
    /// The strategy.
    pub strategy: Strategy,
    /// Ranks that touch storage for others.
    pub aggregators: u64,
    /// Phases of the exchange, where it has some.
    pub phases: Option<u32>,
    /// Rounds.
    pub rounds: u64,
    /// Bytes of a window; none without windows.
    pub window_bytes: u64,
    /// Where windows are, how bytes get there, and who serves them.
    pub windows: &'static str,
    /// Where the predicted time goes.
    pub times: Vec<Share>,
}

impl Way {
    fn new(candidate: &Candidate, ranks: u32, correction: Correction) -> Way {
        let (steps, factors) = (&candidate.steps, correction.of(candidate.base.kind));
        let corrected = |share: &Share| Share { us: share.us * factors.of(share.cause), ..*share };
        let (phases, window_bytes) = match &candidate.steps {
            Steps::Independent(_) => (None, 0),
            Steps::Shuffled(shuffled) => {
                (shuffled.phases().map(|phases| phases.count), shuffled.window_bytes())
            }
        };
        Way {
            strategy: candidate.strategy,
            aggregators: wide(steps.aggregators(ranks)),
            phases,
            rounds: steps.rounds(),
            window_bytes,
            windows: steps.windows(),
            times: candidate.base.terms.iter().map(corrected).collect(),
        }
    }

    /// The predicted time.
    pub fn total_us(&self) -> f64 {
        self.times.iter().fold(0.0, |sum, share| sum + share.us)
    }

    /// The predicted time of one part.
    pub fn part_us(&self, part: TimePart) -> f64 {
        let of_part = self.times.iter().filter(|share| share.part() == part);
        of_part.fold(0.0, |sum, share| sum + share.us)
    }
}

/// All ways to serve a call, and the one that is taken.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The ways, whether or not hints allow them.
    pub ways: Vec<Way>,
    /// The place of the one that is taken.
    pub chosen: usize,
    /// Why that one.
    pub reason: &'static str,
    /// The plan in words.
    pub plan: String,
    /// What its rounds move, the first round first; none where every rank works for itself, and
    /// at most [`WINDOWS_LISTED`].
    pub windows: Vec<Window>,
}

/// Windows of a plan that are listed.
pub const WINDOWS_LISTED: usize = 256;

/// What one aggregator moves in one round: a part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// Counted from 0.
    pub round: u64,
    /// The rank that owns it. Windows in shared memory may be served by other ranks, too.
    pub aggregator: u32,
    /// Offset of its first byte.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
}

impl Answer {
    /// The way that is taken.
    pub fn chosen(&self) -> &Way {
        &self.ways[self.chosen]
    }

    /// The best way of each strategy, the fastest first.
    pub fn best_of_each(&self) -> Vec<&Way> {
        let mut best: Vec<&Way> = Vec::new();
        for way in &self.ways {
            match best.iter_mut().find(|known| known.strategy == way.strategy) {
                Some(known) if way.total_us() < known.total_us() => *known = way,
                Some(_) => {}
                None => best.push(way),
            }
        }
        best.sort_by(|one, other| one.total_us().total_cmp(&other.total_us()));
        best
    }
}

/// Plans a call that is described, in every way.
///
/// # Errors
/// `Arg` or `InfoValue` if the description makes no sense.
pub fn explain(question: &Question) -> Result<Answer> {
    question.check()?;
    let facts = question.facts();
    let (hints, _) = question.hints.resolve(Path::new(""), &Environment::default());
    let (requests, conditions) = (&question.requests, question.conditions);
    let planning = Planning { requests, conditions, hints: &hints, file: &facts };
    let ranks = u32::try_from(facts.nodes.len()).unwrap_or(u32::MAX);
    let mut candidates = choose::all_candidates(&planning);
    let plan = Plan::new(&planning);
    let is_plan = |one: &Candidate| one.strategy == plan.strategy && one.steps == plan.steps;
    let chosen = match candidates.iter().position(is_plan) {
        Some(place) => place,
        None => {
            let (strategy, steps) = (plan.strategy, plan.steps.clone());
            candidates.push(Candidate { strategy, steps, base: plan.base.clone() });
            candidates.len() - 1
        }
    };
    let correction = conditions.correction;
    let ways = candidates.iter().map(|candidate| Way::new(candidate, ranks, correction)).collect();
    let windows = windows(&plan.steps);
    Ok(Answer { ways, chosen, reason: plan.reason, plan: plan.to_string(), windows })
}

/// The first windows of a plan, round by round.
fn windows(steps: &Steps) -> Vec<Window> {
    let Steps::Shuffled(shuffled) = steps else { return Vec::new() };
    let of_round = |round: u64| {
        shuffled.domains().iter().map(move |domain| {
            let Range { start, end } = shuffled.window(domain, round);
            Window { round, aggregator: domain.aggregator, start, end }
        })
    };
    let all = (0..shuffled.rounds()).flat_map(of_round);
    all.filter(|window| window.start < window.end).take(WINDOWS_LISTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::presets::{Device, Link};

    /// Blocks dealt out in turn.
    fn cyclic(ranks: u64, block: u64, blocks: u64) -> Vec<Request> {
        let one = |rank: u64| {
            let end = (blocks - 1) * ranks * block + (rank + 1) * block;
            Request::of_pieces(rank * block..end, blocks * block, block)
        };
        (0..ranks).map(one).collect()
    }

    #[test]
    fn questions_that_make_no_sense_are_refused() {
        let question = |change: fn(&mut Question)| {
            let profile = Profile::default();
            let mut question = Question::new(Direction::Write, cyclic(4, 64, 8), profile);
            change(&mut question);
            explain(&question).map(|answer| answer.ways.len())
        };
        assert!(question(|_| {}).is_ok());
        assert!(question(|one| one.node_of_rank = vec![0; 4]).is_ok());
        type Wrong = (fn(&mut Question), &'static str);
        let cases: [Wrong; 5] = [
            (|one| one.node_of_rank = vec![0, 0, 1, 1], "on none of the nodes"),
            (|one| one.node_of_rank = vec![0; 5], "4 requests of 5 ranks"),
            (|one| one.nodes = 5, "5 nodes for 4 ranks"),
            (|one| one.conditions.correction.shared.storage_byte = 0.0, "a factor"),
            (|one| one.requests[2].bytes = 1 << 20, "rank 2 does not fit"),
        ];
        for (change, words) in cases {
            let error = question(change).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    /// What a program has learned of its storage counts here as well.
    #[test]
    fn factors_correct_the_parts_of_all_ways() {
        let of = |factors| {
            let profile = Profile::built_in("tmpfs").unwrap();
            let mut question = Question::new(Direction::Write, cyclic(4, 64, 512), profile);
            let [exchange, storage] = factors;
            question.conditions.correction = Correction::of_all(Factors::new(exchange, storage));
            explain(&question).unwrap()
        };
        let (plain, slow) = (of([1.0, 1.0]), of([1.0, 10.0]));
        for (one, other) in plain.ways.iter().zip(&slow.ways) {
            let (storage, slower) =
                (one.part_us(TimePart::Storage), other.part_us(TimePart::Storage));
            assert!((slower - 10.0 * storage).abs() < 1e-9 * slower, "{one:?}");
            assert_eq!(one.part_us(TimePart::Exchange), other.part_us(TimePart::Exchange));
        }
    }

    fn asked(requests: Vec<Request>, nodes: u32, device: &str, network: Link) -> Answer {
        let profile = Profile::default().with_network(network);
        let profile = profile.with_device(device, Device::named(device).unwrap());
        let ranks = u32::try_from(requests.len()).unwrap();
        let mut question = Question::new(Direction::Write, requests, profile);
        (question.nodes, question.cores) = (nodes, ranks / nodes);
        explain(&question).unwrap()
    }

    fn best(answer: &Answer, strategy: Strategy) -> &Way {
        let ways = answer.best_of_each();
        ways.into_iter().find(|way| way.strategy == strategy).unwrap()
    }

    /// The windows of all rounds are the file, each byte once.
    #[test]
    fn windows_are_the_parts_of_the_file_that_rounds_move() {
        let mut question = Question::new(
            Direction::Write,
            cyclic(4, 1 << 16, 64),
            Profile::built_in("hdd").unwrap(),
        );
        question.shared_bytes = 0;
        let hints = [("pario_strategy", "two-phase"), ("cb_nodes", "2"), ("cb_buffer_size", "1M")];
        question.hints =
            hints.iter().fold(HintSet::new(), |set, (key, text)| set.with(*key, *text));
        let answer = explain(&question).unwrap();
        let mut windows = answer.windows.clone();
        assert_eq!(windows.last().unwrap().round + 1, answer.chosen().rounds);
        assert!(windows.iter().all(|window| window.end - window.start <= 1 << 20));
        assert!(windows.windows(2).all(|pair| pair[0].round <= pair[1].round));
        windows.sort_by_key(|window| window.start);
        assert_eq!((windows[0].start, windows[windows.len() - 1].end), (0, 16 << 20));
        assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start));
        let mut owners: Vec<u32> = windows.iter().map(|window| window.aggregator).collect();
        owners.dedup();
        assert_eq!(owners.len(), 2);
        question.hints = HintSet::new().with("pario_strategy", "list");
        assert_eq!(explain(&question).unwrap().windows, []);
    }

    /// As paper 001 says: on a disk collective I/O pays; on SSD and NVM its shuffle costs more than
    /// it saves, with the network of the paper, and hardly anything with memory as the network.
    #[test]
    fn the_choice_follows_the_device() {
        let memory = Link { latency_us: 0.5, bytes_per_s: 10e9 };
        let of = |device, network| asked(cyclic(16, 64 << 10, 1024), 4, device, network);
        for network in [Link::PAPER_001, memory] {
            let on_disk = of("hdd", network);
            assert!(matches!(on_disk.chosen().strategy, Strategy::TwoPhase | Strategy::MultiPhase));
            let individual_us = best(&on_disk, Strategy::List).total_us();
            assert!(best(&on_disk, Strategy::TwoPhase).total_us() < individual_us / 5.0);
            for device in ["sata-ssd", "nvm"] {
                let answer = of(device, network);
                assert_eq!(answer.chosen().strategy, Strategy::List, "{device}");
                assert!(answer.reason.contains("costs more than it saves"), "{}", answer.reason);
                let loss =
                    best(&answer, Strategy::TwoPhase).total_us() / answer.chosen().total_us();
                let is_memory = network == memory;
                let least = if device == "nvm" { 4.0 } else { 1.8 };
                assert!(if is_memory { loss < 1.3 } else { loss > least }, "{device}: {loss}");
            }
        }
    }

    /// The phases that `auto` takes on 16 nodes; none for a direct exchange, or for none at all.
    fn phases(profile: Profile, network: Link, block: u64, blocks: u64) -> u32 {
        let requests = cyclic(16, block, blocks);
        let profile = profile.with_network(network);
        let mut question = Question::new(Direction::Write, requests, profile);
        (question.nodes, question.cores) = (16, 1);
        explain(&question).unwrap().chosen().phases.unwrap_or(0)
    }

    /// More phases send bytes more often, fewer send more messages or store shorter pieces: with a
    /// tenth of the bandwidth there are fewer of them.
    #[test]
    fn a_slower_link_has_fewer_phases() {
        let slower = |link: Link| Link { bytes_per_s: link.bytes_per_s / 10.0, ..link };
        let all = 4;
        let nfs = || Profile::built_in("nfs").unwrap();
        for (network, block, blocks) in [
            (Link::MYRINET_2000, 64, 64),
            (Link::FAST_ETHERNET, 64, 64),
            (Link::PAPER_001, 64, 4096),
        ] {
            let text = format!("{network:?}");
            assert_eq!(phases(nfs(), network, block, blocks), all, "{text}");
            assert!(phases(nfs(), slower(network), block, blocks) < all, "{text}");
        }
        // Where scattered accesses cost little, some phases remain.
        let nvm = || Profile::default().with_device("nvm", Device::NVM);
        assert_eq!(phases(nvm(), Link::MYRINET_2000, 16, 256), all);
        let some = phases(nvm(), slower(Link::MYRINET_2000), 16, 256);
        assert!((1..all).contains(&some), "{some}");
    }

    /// The windows of all aggregators on one disk would make its arm move.
    #[test]
    fn one_disk_has_one_aggregator() {
        let on = |device| {
            let answer = asked(cyclic(16, 64, 1024), 4, device, Link::GIGABIT_ETHERNET);
            best(&answer, Strategy::TwoPhase).aggregators
        };
        assert_eq!((on("hdd"), on("sata-ssd")), (1, 16));
    }

    /// Messages that wait long are fewer with longer windows; otherwise shorter windows are stored
    /// while the next ones come.
    #[test]
    fn windows_are_longer_where_messages_wait() {
        let rounds = |network| {
            let answer = asked(cyclic(16, 64 << 10, 64), 4, "nvm", network);
            best(&answer, Strategy::TwoPhase).rounds
        };
        let (waiting, quick) = (rounds(Link::PAPER_001), rounds(Link::ETHERNET_100G));
        assert!(waiting < quick, "{waiting} {quick}");
    }

    #[test]
    fn tens_of_thousands_of_ranks_are_planned() {
        let lustre = Profile::built_in("lustre").unwrap();
        let requests = cyclic(65536, 512, 100);
        let mut question = Question::new(Direction::Read, requests, lustre);
        (question.nodes, question.cores) = (1024, 64);
        let answer = explain(&question).unwrap();
        let numbers: Vec<u64> = answer.ways.iter().map(|way| way.aggregators).collect();
        assert!(numbers.contains(&1024) && numbers.contains(&65536), "{numbers:?}");
        assert_eq!(explain(&question).unwrap(), answer, "equal questions have equal answers");
    }

    #[test]
    fn nonsense_is_refused() {
        let profile = Profile::default();
        let none = Question::new(Direction::Read, Vec::new(), profile.clone());
        assert!(explain(&none).is_err());
        let beyond = Request::of_pieces(0..4, 5, 1);
        let error = explain(&Question::new(Direction::Read, vec![beyond], profile));
        assert!(error.unwrap_err().to_string().contains("rank 0"));
    }
}
