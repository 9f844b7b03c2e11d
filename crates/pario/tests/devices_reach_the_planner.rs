//! Files on an emulated device are planned for that device, in the first call, although nobody has
//! given a profile: the question of paper 001 in real runs.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pario::model::Direction;
use pario::model::clock::{Machine, Storage};
use pario::model::presets::{Device, Link};
use pario::model::profile::Profile;
use pario::plan::{Conditions, FileFacts, Plan, Planning, Request};
use pario::storage::{Emulated, Memory};
use pario::{
    Datatype, Environment, File, HintSet, OpenOptions, Simulated, Strategy, Threads, View,
};

const RANKS: u32 = 4;
/// Bytes of each rank.
const RANK_BYTES: u64 = 256 << 10;
const DEVICES: [&str; 3] = ["hdd", "sata-ssd", "nvm"];
/// Bytes of the pieces that the ranks have in turn.
const PIECES: [u64; 4] = [64, 4096, 16 << 10, 64 << 10];

fn view(rank: u32, piece_bytes: u64) -> View {
    let byte = Datatype::byte();
    let piece = Datatype::contiguous(piece_bytes, &byte).unwrap();
    let turn = i64::try_from(piece_bytes * u64::from(RANKS)).unwrap();
    let every = Datatype::resized(0, turn, &piece).unwrap();
    View::new(u64::from(rank) * piece_bytes, &byte, &every)
}

fn options(driver: Emulated) -> OpenOptions {
    File::options().read(true).write(true).create(true).driver(Arc::new(driver))
}

/// One node with a core for each rank; messages cost what copies cost.
fn machine(storage: Storage) -> Machine {
    let link = Link { latency_us: 0.5, bytes_per_s: 10e9 };
    Machine {
        nodes: 1,
        ranks_per_node: RANKS,
        cores_per_node: RANKS,
        node_link: link,
        network: link,
        storage,
    }
}

/// What serves the first call on a described machine, and the virtual time of the call in ms.
fn first_call(
    direction: Direction,
    device: Device,
    piece_bytes: u64,
    strategy: &str,
) -> (Strategy, f64) {
    let memory = Memory::new();
    memory.put("a", &vec![1; usize::try_from(RANK_BYTES * u64::from(RANKS)).unwrap()]);
    let disk = Emulated::simulated(Arc::new(memory));
    let options = options(disk).hint("pario_strategy", strategy);
    let taken = Simulated::on(machine(Storage::local(device))).run(|comm| {
        let options = options.clone();
        async move {
            let file = options.open_async(&*comm, "a").await.unwrap();
            file.handle().set_view(&view(comm.rank(), piece_bytes)).await.unwrap();
            file.handle().agree_on(Ok(())).await.unwrap();
            let mut bytes = vec![1u8; usize::try_from(RANK_BYTES).unwrap()];
            let begin = Simulated::now();
            match direction {
                Direction::Write => file.handle().write_all(0, &bytes).await.unwrap(),
                Direction::Read => file.handle().read_all(0, &mut bytes).await.unwrap(),
            };
            let ms = (Simulated::now() - begin).as_secs_f64() * 1e3;
            (file.last_call().strategy, ms)
        }
    });
    let latest = taken.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
    (taken[0].0, latest)
}

/// The plan that is found for the same call, described, without shared memory.
fn planned(direction: Direction, profile: Profile, piece_bytes: u64) -> Strategy {
    let of = |rank| Request::of_view(&view(rank, piece_bytes), RANK_BYTES).unwrap();
    let requests: Vec<Request> = (0..RANKS).map(of).collect();
    let facts = FileFacts::on_nodes(vec![0; requests.len()], vec![RANKS], Arc::new(profile));
    let file = &FileFacts { shared_bytes: 0, ..facts };
    let (hints, _) = HintSet::new().resolve("a".as_ref(), &Environment::default());
    let conditions = Conditions::collective(direction);
    Plan::new(&Planning { requests: &requests, conditions, hints: &hints, file }).strategy
}

#[test]
fn the_first_call_is_served_as_planned_and_near_the_best() {
    for name in DEVICES {
        let device = Device::named(name).unwrap();
        for piece_bytes in PIECES {
            for direction in [Direction::Write, Direction::Read] {
                let of = |strategy| first_call(direction, device, piece_bytes, strategy);
                let (taken, ms) = of("auto");
                let profile = Profile::default().with_device(name, device);
                let scene = format!("{name}, {piece_bytes} bytes, {direction:?}: {taken} {ms} ms");
                assert_eq!(taken, planned(direction, profile, piece_bytes), "{scene}");
                // Simulated ranks whose calls take equally long write their pieces in the order of
                // the file, all of them together: then the arm of a disk stands still.
                let has_arm = device.positioning_us > 0.0;
                let others =
                    if has_arm { &["two-phase"][..] } else { &["list", "sieve", "two-phase"] };
                for fixed in others {
                    let (_, fixed_ms) = of(fixed);
                    assert!(ms < 1.1 * fixed_ms, "{scene}, {fixed} takes {fixed_ms} ms");
                }
            }
        }
    }
}

/// Collective where the arm of a disk moves, each rank for itself on NVM.
#[test]
fn the_choice_flips_with_the_device() {
    let taken = |name: &str| {
        let device = Device::named(name).unwrap();
        first_call(Direction::Write, device, 64 << 10, "auto").0
    };
    assert_eq!(taken("hdd"), Strategy::TwoPhase);
    assert_eq!(taken("nvm"), Strategy::List);
}

/// Threads that really wait.
#[test]
fn a_call_on_an_emulated_disk_is_collective_at_once() {
    let disk = Emulated::new(Arc::new(Memory::new()), Device::HDD, 0);
    let options = options(disk);
    let taken = Threads::new(RANKS).run(|comm| {
        let file = options.open(&*comm, "a").unwrap();
        file.set_view(&view(comm.rank(), 64 << 10)).unwrap();
        file.write_all(0, &vec![1u8; usize::try_from(RANK_BYTES).unwrap()]).unwrap();
        let strategy = file.last_call().strategy;
        file.close().unwrap();
        strategy
    });
    assert_eq!(taken, [Strategy::TwoPhase; 4]);
}

/// A profile that the program gives wins.
#[test]
fn a_given_profile_wins_over_the_device() {
    let nvm = Profile::default().with_device("nvm", Device::NVM);
    let options = options(Emulated::simulated(Arc::new(Memory::new()))).profile(nvm);
    let taken = Simulated::on(machine(Storage::local(Device::HDD))).run(|comm| {
        let options = options.clone();
        async move {
            let file = options.open_async(&*comm, "a").await.unwrap();
            file.handle().set_view(&view(comm.rank(), 64 << 10)).await.unwrap();
            let bytes = vec![1u8; usize::try_from(RANK_BYTES).unwrap()];
            file.handle().write_all(0, &bytes).await.unwrap();
            file.last_call().strategy
        }
    });
    assert_eq!(taken, [Strategy::List; 4]);
}
