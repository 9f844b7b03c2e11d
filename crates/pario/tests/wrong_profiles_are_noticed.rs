//! A profile that is ten times off is noticed while a program runs: plans change where another way
//! is faster, predictions come near to what is measured, log and statistics say what is wrong.
//!
//! Ranks are simulated on a described machine, so that all times are virtual.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex, Once};

use pario::model::clock::{Machine, Storage};
use pario::model::presets::{Device, Link};
use pario::model::profile::Profile;
use pario::storage::{Emulated, Memory};
use pario::{Datatype, File, Simulated, Strategy, View};

const RANKS: u32 = 4;
const PIECE_BYTES: u64 = 4096;
const PIECES: u64 = 16;
const CALLS: usize = 16;

const SLOW_LINK: Link = Link { latency_us: 10.0, bytes_per_s: 3e6 };
const FAST_LINK: Link = Link { bytes_per_s: 30e6, ..SLOW_LINK };
const SLOW_DEVICE: Device = Device {
    positioning_us: 1000.0,
    latency_us: 0.0,
    read_bytes_per_s: 20e6,
    write_bytes_per_s: 20e6,
};
const FAST_DEVICE: Device = Device {
    positioning_us: 100.0,
    latency_us: 0.0,
    read_bytes_per_s: 200e6,
    write_bytes_per_s: 200e6,
};

/// A link and a device: what a profile says, or what is true.
type Costs = (Link, Device);

/// One call on rank 0, in virtual time.
#[derive(Clone, Debug)]
struct Call {
    strategy: Strategy,
    predicted_ms: f64,
    measured_ms: f64,
}

struct Seen {
    calls: Vec<Call>,
    summary: String,
    warnings: Vec<String>,
}

/// A program that writes the same again and again.
fn program(name: &'static str, told: Costs, truth: Costs, strategy: &'static str) -> Seen {
    program_at(name, (told, truth), strategy, |_| 0)
}

/// A program whose calls write there, in numbers of what one of them writes.
fn program_at(
    name: &'static str,
    (told, truth): (Costs, Costs),
    strategy: &'static str,
    place: fn(u64) -> u64,
) -> Seen {
    collect_warnings();
    let machine = Machine {
        nodes: RANKS,
        ranks_per_node: 1,
        cores_per_node: 1,
        node_link: Link::ETHERNET_100G,
        network: truth.0,
        storage: Storage::local(truth.1),
    };
    let profile = Profile::default().with_network(told.0).with_device("told", told.1);
    let driver = Arc::new(Emulated::simulated(Arc::new(Memory::new())));
    let options = File::options().read(true).write(true).create(true).driver(driver);
    let options = options.profile(profile).hint("pario_strategy", strategy);
    let mut seen = Simulated::on(machine).run(|comm| {
        let options = options.clone();
        async move {
            let file = options.open_async(&*comm, name).await.unwrap();
            file.handle().set_view(&view(comm.rank())).await.unwrap();
            let bytes = vec![1u8; usize::try_from(PIECE_BYTES * PIECES).unwrap()];
            let mut calls = Vec::new();
            for number in 0..CALLS {
                let position = place(number.try_into().unwrap()) * PIECE_BYTES * PIECES;
                let begin = Simulated::now();
                file.handle().write_all(position, &bytes).await.unwrap();
                let measured_ms = (Simulated::now() - begin).as_secs_f64() * 1e3;
                let call = file.last_call();
                let predicted_ms = call.predicted.as_secs_f64() * 1e3;
                calls.push(Call { strategy: call.strategy, predicted_ms, measured_ms });
            }
            let summary = file.summary().to_string();
            file.handle().close().await.unwrap();
            (calls, summary)
        }
    });
    let (calls, summary) = seen.remove(0);
    let warnings = WARNINGS.lock().unwrap().clone();
    let warnings = warnings.into_iter().filter(|text| text.starts_with(name)).collect();
    Seen { calls, summary, warnings }
}

/// Every fourth piece.
fn view(rank: u32) -> View {
    let byte = Datatype::byte();
    let piece = Datatype::contiguous(PIECE_BYTES, &byte).unwrap();
    let turn = i64::try_from(PIECE_BYTES * u64::from(RANKS)).unwrap();
    let every = Datatype::resized(0, turn, &piece).unwrap();
    View::new(u64::from(rank) * PIECE_BYTES, &byte, &every)
}

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collector;

impl log::Log for Collector {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        WARNINGS.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

fn collect_warnings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Collector).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    });
}

impl Seen {
    /// The first prediction was wrong, the last one is near; log and statistics say why, once.
    #[track_caller]
    fn is_noticed(&self, what: &str) {
        let off = |call: &Call| {
            let ratio = call.predicted_ms / call.measured_ms;
            ratio.max(1.0 / ratio)
        };
        let (first, last) = (&self.calls[0], &self.calls[CALLS - 1]);
        assert!(off(first) > 3.0, "{first:?}");
        assert!(off(last) < 1.5, "{:?}", self.calls);
        assert_eq!(self.warnings.len(), 1, "{:?}", self.warnings);
        for text in [&self.warnings[0], &self.summary] {
            assert!(text.contains(what) && text.contains("calibrate"), "{text}");
        }
    }

    fn is_shuffled(&self, call: usize) -> bool {
        let strategy = self.calls[call].strategy;
        matches!(strategy, Strategy::TwoPhase | Strategy::MultiPhase)
    }
}

#[test]
fn storage_that_is_slower_than_the_profile_makes_calls_collective() {
    let seen = program("slow", (SLOW_LINK, FAST_DEVICE), (SLOW_LINK, SLOW_DEVICE), "auto");
    assert!(!seen.is_shuffled(0) && seen.is_shuffled(CALLS - 1), "{:?}", seen.calls);
    assert!(seen.calls[CALLS - 1].measured_ms < 0.75 * seen.calls[0].measured_ms);
    seen.is_noticed("writes: storage takes ");
}

#[test]
fn storage_that_is_faster_than_the_profile_makes_calls_independent() {
    let seen = program("fast", (SLOW_LINK, SLOW_DEVICE), (SLOW_LINK, FAST_DEVICE), "auto");
    assert!(seen.is_shuffled(0) && !seen.is_shuffled(CALLS - 1), "{:?}", seen.calls);
    assert!(seen.calls[CALLS - 1].measured_ms < seen.calls[0].measured_ms);
    // A tenth; ranks that begin at different times wait for each other.
    let is_tenth = |text: &&str| seen.summary.contains(&format!("writes: storage takes {text}"));
    assert!(["0.09", "0.10", "0.11"].iter().any(is_tenth), "{}", seen.summary);
}

#[test]
fn messages_that_are_slower_than_the_profile_make_calls_independent() {
    let seen = program("link", (FAST_LINK, FAST_DEVICE), (SLOW_LINK, FAST_DEVICE), "auto");
    assert!(seen.is_shuffled(0) && !seen.is_shuffled(CALLS - 1), "{:?}", seen.calls);
    assert!(seen.calls[CALLS - 1].measured_ms < seen.calls[0].measured_ms);
    seen.is_noticed("writes: the exchange takes ");
}

/// A hint keeps the strategy; the predictions are corrected all the same.
#[test]
fn messages_that_are_faster_than_the_profile_are_noticed() {
    let told = (SLOW_LINK, FAST_DEVICE);
    let seen = program("hint", told, (FAST_LINK, FAST_DEVICE), "two-phase");
    assert!(seen.is_shuffled(CALLS - 1));
    seen.is_noticed("the exchange takes 0.");
}

/// A program that writes each step behind the last one asks for other bytes in each call, so that
/// no plan is used twice.
#[test]
fn messages_are_learned_from_where_every_call_is_new() {
    let costs = ((FAST_LINK, FAST_DEVICE), (SLOW_LINK, FAST_DEVICE));
    let seen = program_at("steps", costs, "two-phase", |number| number);
    assert!(seen.is_shuffled(CALLS - 1));
    seen.is_noticed("writes: the exchange takes ");
}

/// Nothing is said, and nothing changes, where the profile is right.
#[test]
fn a_right_profile_is_not_complained_of() {
    for (name, costs) in
        [("right 1", (SLOW_LINK, FAST_DEVICE)), ("right 2", (FAST_LINK, SLOW_DEVICE))]
    {
        let seen = program(name, costs, costs, "auto");
        assert!(seen.warnings.is_empty() && !seen.summary.contains("profile "), "{}", seen.summary);
        let first = seen.calls[0].strategy;
        assert!(seen.calls.iter().all(|call| call.strategy == first), "{:?}", seen.calls);
    }
}
