//! On machines that are described, what `auto` chooses is the best of all strategies: real calls,
//! in virtual time.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pario::model::clock::{Machine, Storage};
use pario::model::presets::{Device, Link};
use pario::model::profile::Profile;
use pario::storage::{Emulated, Memory};
use pario::{CallStatistics, Datatype, File, Simulated, Strategy, View};

/// Four ranks on each of four nodes; each has every sixteenth piece of the file.
const NODES: u32 = 4;
const RANKS: u32 = 16;

/// Messages between nodes cost what copies cost.
const MEMORY: Link = Link { latency_us: 0.5, bytes_per_s: 10e9 };

#[derive(Debug)]
struct Scene {
    device: &'static str,
    network: Link,
    piece_bytes: u64,
    pieces: u64,
}

#[derive(Debug)]
struct Taken {
    ms: f64,
    statistics: CallStatistics,
}

impl Scene {
    fn profile(&self) -> Profile {
        let device = Device::named(self.device).unwrap();
        Profile::default().with_network(self.network).with_device(self.device, device)
    }

    fn machine(&self) -> Machine {
        let profile = self.profile();
        Machine {
            nodes: NODES,
            ranks_per_node: RANKS / NODES,
            cores_per_node: RANKS / NODES,
            node_link: profile.messages.node,
            network: self.network,
            storage: Storage::local(Device::named(self.device).unwrap()),
        }
    }

    /// The virtual time of one collective write.
    fn write(&self, strategy: &str) -> Taken {
        self.write_with(strategy, &[])
    }

    fn write_with(&self, strategy: &str, hints: &[(&str, &str)]) -> Taken {
        let driver = Arc::new(Emulated::simulated(Arc::new(Memory::new())));
        let options = File::options().read(true).write(true).create(true).driver(driver);
        let options = options.profile(self.profile()).hint("pario_strategy", strategy);
        let options =
            hints.iter().fold(options, |options, (key, value)| options.hint(*key, *value));
        let Scene { piece_bytes, pieces, .. } = *self;
        let mut taken = Simulated::on(self.machine()).run(|comm| {
            let options = options.clone();
            async move {
                let file = options.open_async(&*comm, "a").await.unwrap();
                let view = view(comm.rank(), piece_bytes);
                file.handle().set_view(&view).await.unwrap();
                // Ranks begin at about the same time, whatever was before.
                file.handle().agree_on(Ok(())).await.unwrap();
                let bytes = vec![1u8; usize::try_from(piece_bytes * pieces).unwrap()];
                let begin = Simulated::now();
                file.handle().write_all(0, &bytes).await.unwrap();
                let ms = (Simulated::now() - begin).as_secs_f64() * 1e3;
                Taken { ms, statistics: file.last_call() }
            }
        });
        let latest = taken.iter().map(|one| one.ms).fold(0.0, f64::max);
        Taken { ms: latest, ..taken.remove(0) }
    }
}

fn view(rank: u32, piece_bytes: u64) -> View {
    let byte = Datatype::byte();
    let piece = Datatype::contiguous(piece_bytes, &byte).unwrap();
    let turn = i64::try_from(piece_bytes * u64::from(RANKS)).unwrap();
    let every = Datatype::resized(0, turn, &piece).unwrap();
    View::new(u64::from(rank) * piece_bytes, &byte, &every)
}

impl Scene {
    /// What `auto` chooses, which takes at most 6 % more time than the best of all strategies.
    #[track_caller]
    fn best(&self) -> Taken {
        let auto = self.write("auto");
        for strategy in ["direct", "list", "sieve", "two-phase", "multi-phase"] {
            let fixed = self.write(strategy);
            let text = format!("{self:?}: {:?}, {strategy} takes {} ms", auto, fixed.ms);
            assert_eq!(fixed.statistics.strategy.to_string(), strategy);
            assert!(auto.ms <= fixed.ms * 1.06, "{text}");
        }
        auto
    }
}

/// Whether ranks store bytes of others.
fn is_collective(taken: &Taken) -> bool {
    matches!(taken.statistics.strategy, Strategy::TwoPhase | Strategy::MultiPhase)
}

/// Pieces as long as this, in the order of the papers' devices.
fn scenes(network: Link, piece_bytes: u64, pieces: u64) -> [Scene; 3] {
    ["hdd", "sata-ssd", "nvm"].map(|device| Scene { device, network, piece_bytes, pieces })
}

/// Paper 001: collective I/O pays on a disk, and on SSD and NVM its shuffle costs more than it
/// saves.
#[test]
fn the_choice_flips_with_the_device_on_the_network_of_the_paper() {
    let [hdd, ssd, nvm] = scenes(Link::PAPER_001, 64 << 10, 64);
    let on_disk = hdd.best();
    assert!(is_collective(&on_disk), "{on_disk:?}");
    assert!(hdd.write("list").ms > 5.0 * on_disk.ms);
    for scene in [ssd, nvm] {
        let chosen = scene.best();
        assert_eq!(chosen.statistics.strategy, Strategy::List);
        assert!(chosen.statistics.reason.contains("the shuffle costs more than it saves"));
        let loss = if scene.device == "nvm" { 10.0 } else { 2.0 };
        assert!(scene.write("two-phase").ms > loss * chosen.ms);
    }
}

/// With memory as the network the shuffle costs next to nothing: where there are storage calls to
/// save, it pays on every device, and where there are none it does no harm.
#[test]
fn the_choice_does_not_flip_with_memory_as_the_network() {
    for scene in scenes(MEMORY, 8, 8192) {
        let chosen = scene.best();
        assert!(is_collective(&chosen), "{chosen:?}");
        assert!(chosen.statistics.reason.contains("costs less than the storage calls it saves"));
    }
    for scene in scenes(MEMORY, 64 << 10, 64) {
        let chosen = scene.best();
        assert!(scene.write("two-phase").ms < 1.05 * chosen.ms, "{chosen:?}");
    }
}

/// The same program takes the same time again.
#[test]
fn virtual_time_does_not_depend_on_the_machine() {
    let [_, ssd, _] = scenes(Link::PAPER_001, 64, 100);
    for strategy in ["list", "sieve", "two-phase", "multi-phase"] {
        assert_eq!(ssd.write(strategy).ms, ssd.write(strategy).ms, "{strategy}");
    }
}

/// Windows and numbers of aggregators that users may set by hand.
const BY_HAND: [[(&str, &str); 3]; 4] = [
    [("cb_nodes", "1"), ("cb_buffer_size", "1048576"), ("pario_exact_windows", "true")],
    [("cb_nodes", "1"), ("cb_buffer_size", "16777216"), ("pario_exact_windows", "true")],
    [("cb_nodes", "4"), ("cb_buffer_size", "16777216"), ("pario_exact_windows", "true")],
    [("cb_nodes", "16"), ("cb_buffer_size", "1048576"), ("pario_exact_windows", "true")],
];

/// On four networks and three devices with four patterns, `auto` is seldom slower than the best of
/// all strategies, windows and numbers of aggregators, and it knows how long it will take.
#[test]
fn auto_is_near_the_best_of_what_users_may_set() {
    let (mut near, mut count, mut errors) = (0, 0, 0.0);
    for network in [Link::PAPER_001, Link::GIGABIT_ETHERNET, Link::ETHERNET_100G, MEMORY] {
        for (piece_bytes, pieces) in [(64, 1024), (4096, 256), (64 << 10, 64), (1 << 20, 4)] {
            for scene in scenes(network, piece_bytes, pieces) {
                let auto = scene.write("auto");
                let strategies = ["list", "sieve", "gather", "two-phase", "multi-phase"];
                let fixed = strategies.map(|strategy| scene.write(strategy).ms);
                let by_hand = BY_HAND.map(|hints| scene.write_with("two-phase", &hints).ms);
                let best = fixed.into_iter().chain(by_hand).fold(f64::INFINITY, f64::min);
                let predicted = auto.statistics.predicted.as_secs_f64() * 1e3 / auto.ms;
                let CallStatistics { strategy, aggregators, rounds, .. } = auto.statistics;
                println!(
                    "{:8} {:6} us {piece_bytes:7} x {pieces:4}: {strategy} {aggregators} {rounds} \
                     {:.3} ms, {:.2} of the best, predicted {predicted:.2} of it",
                    scene.device,
                    network.latency_us,
                    auto.ms,
                    auto.ms / best
                );
                assert!(auto.ms < 1.3 * best, "{scene:?}: {auto:?}, best {best} ms");
                (near, count) = (near + u32::from(auto.ms < 1.1 * best), count + 1);
                errors += (predicted - 1.0).abs();
            }
        }
    }
    println!("near the best {near} of {count}, mean error {:.3}", errors / f64::from(count));
    assert!(f64::from(near) >= 0.95 * f64::from(count), "{near} of {count}");
    assert!(errors / f64::from(count) < 0.15, "{errors} of {count}");
}
