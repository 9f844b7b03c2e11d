//! A call that is described, and every way to serve it.
//!
//! [`explain`] asks the planner as a call does, for any number of ranks and nodes. Nothing is
//! opened, sent or stored.

use std::path::Path;
use std::sync::Arc;

use pario::model::Direction;
use pario::model::profile::Profile;
use pario::plan::{Conditions, FileFacts, Plan, Planning, Request};
use pario::{Environment, Error, ErrorClass, HintSet, Result};

/// Windows of a plan that are listed.
pub(crate) const WINDOWS_LISTED: usize = 256;

/// A call that is described, the file and the machine.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// What each rank asks for.
    pub(crate) requests: Vec<Request>,
    /// What is the same on all ranks of the call.
    pub(crate) conditions: Conditions,
    /// The file, and the nodes of its ranks.
    pub(crate) file: FileFacts,
    /// The hints of the program.
    pub(crate) hints: HintSet,
}

const NOBODY: &str = "there are no ranks, nodes or cores";

fn wrong<T>(text: String) -> Result<T> {
    Err(Error::new(ErrorClass::Arg, format!("explain: {text}")))
}

impl Question {
    /// A collective call with regular accesses on one node with a core for each rank.
    pub(crate) fn new(direction: Direction, requests: Vec<Request>, profile: Profile) -> Question {
        let cores = u32::try_from(requests.len()).unwrap_or(u32::MAX).max(1);
        let nodes = vec![0; requests.len()];
        Question {
            requests,
            conditions: Conditions::collective(direction),
            file: FileFacts::on_nodes(nodes, vec![cores], Arc::new(profile)),
            hints: HintSet::new(),
        }
    }

    /// Puts the ranks of the file on nodes, those of a node one after the other.
    ///
    /// # Errors
    /// `Arg` if there are more nodes than ranks, or none, or no cores.
    pub(crate) fn on_nodes(self, ranks: u32, nodes: u32, cores: u32) -> Result<Question> {
        if ranks == 0 || nodes == 0 || cores == 0 {
            return wrong(NOBODY.to_owned());
        }
        if ranks < nodes {
            return wrong(format!("{nodes} nodes for {ranks} ranks"));
        }
        let per_node = ranks.div_ceil(nodes);
        let nodes: Vec<u32> = (0..ranks).map(|rank| rank / per_node).collect();
        let cores = nodes.chunk_by(|one, other| one == other).map(|_| cores).collect();
        let file = FileFacts::on_nodes(nodes, cores, self.file.profile);
        Ok(Question { file, ..self })
    }

    fn check(&self) -> Result<()> {
        let (nodes, cores) = (&self.file.nodes, &self.file.cores);
        if self.requests.is_empty() || cores.is_empty() || cores.contains(&0) {
            return wrong(NOBODY.to_owned());
        }
        if nodes.iter().any(|&node| usize::try_from(node).is_ok_and(|node| node >= cores.len())) {
            return wrong("a rank is on none of the nodes".to_owned());
        }
        if self.conditions.collective && nodes.len() != self.requests.len() {
            return wrong(format!("{} requests of {} ranks", self.requests.len(), nodes.len()));
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
            None => self.file.profile.check(),
        }
    }
}

/// A plan for each way to serve a call, whether or not hints allow it. The first one is taken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) ways: Vec<Plan>,
    /// Ranks of the file.
    pub(crate) ranks: u32,
}

impl Answer {
    /// The way that is taken.
    pub(crate) fn chosen(&self) -> &Plan {
        &self.ways[0]
    }

    /// The best way of each strategy, the fastest first.
    pub(crate) fn best_of_each(&self) -> Vec<&Plan> {
        let mut best: Vec<&Plan> = Vec::new();
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
pub(crate) fn explain(question: &Question) -> Result<Answer> {
    question.check()?;
    let Question { requests, conditions, file, hints } = question;
    let (hints, _) = hints.resolve(Path::new(""), &Environment::default());
    let ways = Plan::ways(&Planning { requests, conditions: *conditions, hints: &hints, file });
    Ok(Answer { ways, ranks: u32::try_from(file.nodes.len()).unwrap_or(u32::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario::Strategy;
    use pario::model::presets::{Device, Link};
    use pario::plan::{Correction, Factors, Part};

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
        assert!(question(|one| one.file.nodes = vec![0; 4]).is_ok());
        type Wrong = (fn(&mut Question), &'static str);
        let cases: [Wrong; 4] = [
            (|one| one.file.nodes = vec![0, 0, 1, 1], "on none of the nodes"),
            (|one| one.file.nodes = vec![0; 5], "4 requests of 5 ranks"),
            (|one| one.conditions.correction.shared.storage_byte = 0.0, "a factor"),
            (|one| one.requests[2].bytes = 1 << 20, "rank 2 does not fit"),
        ];
        let few = Question::new(Direction::Write, cyclic(4, 64, 8), Profile::default());
        let error = few.on_nodes(4, 5, 1).unwrap_err().to_string();
        assert!(error.contains("5 nodes for 4 ranks"), "{error}");
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
            let (storage, slower) = (one.part_us(Part::Storage), other.part_us(Part::Storage));
            assert!((slower - 10.0 * storage).abs() < 1e-9 * slower, "{one:?}");
            assert_eq!(one.part_us(Part::Exchange), other.part_us(Part::Exchange));
        }
    }

    fn asked(requests: Vec<Request>, nodes: u32, device: &str, network: Link) -> Answer {
        let profile = Profile::default().with_network(network);
        let profile = profile.with_device(device, Device::named(device).unwrap());
        let ranks = u32::try_from(requests.len()).unwrap();
        let question = Question::new(Direction::Write, requests, profile);
        explain(&question.on_nodes(ranks, nodes, ranks / nodes).unwrap()).unwrap()
    }

    fn best(answer: &Answer, strategy: Strategy) -> &Plan {
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
        question.file.shared_bytes = 0;
        let hints = [("pario_strategy", "two-phase"), ("cb_nodes", "2"), ("cb_buffer_size", "1M")];
        question.hints =
            hints.iter().fold(HintSet::new(), |set, (key, text)| set.with(*key, *text));
        let answer = explain(&question).unwrap();
        let mut windows: Vec<_> = answer.chosen().windows().collect();
        assert_eq!(windows.last().unwrap().round + 1, answer.chosen().rounds());
        assert!(windows.iter().all(|window| window.end - window.start <= 1 << 20));
        assert!(windows.windows(2).all(|pair| pair[0].round <= pair[1].round));
        windows.sort_by_key(|window| window.start);
        assert_eq!((windows[0].start, windows[windows.len() - 1].end), (0, 16 << 20));
        assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start));
        let mut owners: Vec<u32> = windows.iter().map(|window| window.aggregator).collect();
        owners.dedup();
        assert_eq!(owners.len(), 2);
        question.hints = HintSet::new().with("pario_strategy", "list");
        assert_eq!(explain(&question).unwrap().chosen().windows().count(), 0);
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
                assert!(
                    answer.chosen().reason.contains("costs more than it saves"),
                    "{}",
                    answer.chosen().reason
                );
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
        let question = Question::new(Direction::Write, requests, profile);
        let answer = explain(&question.on_nodes(16, 16, 1).unwrap()).unwrap();
        answer.chosen().phases().unwrap_or(0)
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
            best(&answer, Strategy::TwoPhase).aggregators(16)
        };
        assert_eq!((on("hdd"), on("sata-ssd")), (1, 16));
    }

    /// Messages that wait long are fewer with longer windows; otherwise shorter windows are stored
    /// while the next ones come.
    #[test]
    fn windows_are_longer_where_messages_wait() {
        let rounds = |network| {
            let answer = asked(cyclic(16, 64 << 10, 64), 4, "nvm", network);
            best(&answer, Strategy::TwoPhase).rounds()
        };
        let (waiting, quick) = (rounds(Link::PAPER_001), rounds(Link::ETHERNET_100G));
        assert!(waiting < quick, "{waiting} {quick}");
    }

    #[test]
    fn tens_of_thousands_of_ranks_are_planned() {
        let lustre = Profile::built_in("lustre").unwrap();
        let requests = cyclic(65536, 512, 100);
        let question = Question::new(Direction::Read, requests, lustre);
        let question = question.on_nodes(65536, 1024, 64).unwrap();
        let answer = explain(&question).unwrap();
        let numbers: Vec<u64> = answer.ways.iter().map(|way| way.aggregators(65536)).collect();
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
