//! What a report can be made of, as the other commands write it.
//!
//! Only what is needed to draw is required: records of earlier versions lack keys, those of later
//! ones have more.

use std::collections::BTreeMap;

use pario::model::Direction;
use pario::plan::{self, Conditions, InMemory, Request};
use serde::Deserialize;
use serde_json::Value;

use super::sampled::Sampled;
use crate::scenario::workloads::Workloads;

/// A result of `pario bench --json`, or of `cargo xtask peers` of earlier versions.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Bench {
    pub(super) workload: String,
    #[serde(default)]
    pub(super) part: String,
    #[serde(default)]
    pub(super) shape: String,
    /// What was asked for; absent in those of `cargo xtask peers`.
    pub(super) strategy: Option<String>,
    pub(super) level: Option<u8>,
    /// What pario used.
    pub(super) served_by: Option<String>,
    pub(super) ranks: u32,
    #[serde(default = "one")]
    pub(super) nodes: u32,
    pub(super) transport: Option<String>,
    pub(super) mpi: Option<String>,
    /// `own` or `pario`: whose MPI-IO `cargo xtask peers` measured.
    pub(super) side: Option<String>,
    /// Bytes of the longest piece, where they are known.
    pub(super) block: Option<u64>,
    pub(super) bytes: u64,
    /// Calls of a rank in a step.
    pub(super) calls: Option<u64>,
    pub(super) memory: Option<String>,
    pub(super) files: Option<String>,
    pub(super) directory: Option<String>,
    /// The emulated device whose time was taken.
    pub(super) device: Option<String>,
    pub(super) direction: String,
    /// None if it took too long and was ended.
    pub(super) seconds: Option<f64>,
    pub(super) step_seconds: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) verified: Option<bool>,
    pub(super) times_of_rank: Option<u32>,
    #[serde(flatten)]
    pub(super) times: Times,
    pub(super) rounds: Option<u64>,
    pub(super) storage_calls: Option<u64>,
    pub(super) messages: Option<u64>,
    pub(super) sent_bytes: Option<u64>,
    pub(super) shared_bytes: Option<u64>,
    #[serde(alias = "predicted_seconds")]
    pub(super) predicted: Option<Predicted>,
    /// When the run began: seconds since 1970.
    pub(super) unix_seconds: Option<u64>,
    /// The version of pario.
    pub(super) pario: Option<String>,
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// What was asked for; records of earlier versions have none.
    pub(super) workloads: Option<Workloads>,
    #[serde(default)]
    pub(super) hints: BTreeMap<String, String>,
    pub(super) machine: Option<Machine>,
}

/// What is left of a time besides its parts.
pub(super) const REST: &str = "rest";

/// Where the time of one rank went.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Times {
    #[serde(default, alias = "meeting_seconds")]
    pub(crate) synchronisation_seconds: f64,
    #[serde(default)]
    pub(crate) planning_seconds: f64,
    /// With the phases.
    #[serde(default)]
    pub(crate) exchange_seconds: f64,
    #[serde(default)]
    pub(crate) storage_seconds: f64,
    #[serde(default)]
    pub(crate) phase_seconds: Vec<f64>,
}

impl Times {
    /// The parts with their names, in the order in which they are drawn.
    pub(super) fn parts(&self) -> [(&'static str, f64); 5] {
        let phases: f64 = self.phase_seconds.iter().sum();
        [
            ("planning", self.planning_seconds),
            ("synchronisation", self.synchronisation_seconds),
            ("phases", phases),
            ("shuffle", (self.exchange_seconds - phases).max(0.0)),
            ("storage", self.storage_seconds),
        ]
    }

    /// The parts of a measured time, which they add up to. `rest` is what they leave: the rank
    /// waits for others, or does what is not timed. Parts that overlapped, and so are longer
    /// together, are all shortened by the same factor.
    pub(super) fn within(&self, whole_seconds: f64) -> [(&'static str, f64); 6] {
        let parts = self.parts();
        let sum: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
        let factor = if sum > whole_seconds { whole_seconds / sum } else { 1.0 };
        let [one, two, three, four, five] = parts.map(|(name, seconds)| (name, seconds * factor));
        [one, two, three, four, five, (REST, (whole_seconds - sum).max(0.0))]
    }

    /// Whether anything was measured.
    pub(super) fn is_known(&self) -> bool {
        self.parts().iter().any(|(_, seconds)| *seconds > 0.0)
    }
}

/// The time that a model expects.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Predicted {
    Seconds(f64),
    Whole { seconds: f64 },
}

impl Predicted {
    pub(super) fn seconds(self) -> f64 {
        match self {
            Predicted::Seconds(seconds) | Predicted::Whole { seconds } => seconds,
        }
    }
}

/// The machine of a run: whatever was written down of it.
pub(crate) type Machine = BTreeMap<String, Value>;

/// The outcome of `pario explain paper --json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Paper {
    pub(super) profile: String,
    pub(super) tables: Vec<PaperRow>,
    pub(super) figure_11: Vec<PaperPoint>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PaperRow {
    pub(super) table: String,
    pub(super) nodes: u32,
    pub(super) ranks: u32,
    pub(super) device: String,
    pub(super) technique: String,
    pub(super) measured_s: f64,
    pub(super) estimated_s: f64,
    pub(super) ours_s: f64,
    pub(super) difference: f64,
    pub(super) winner: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PaperPoint {
    pub(super) device: String,
    pub(super) message_mb: f64,
    pub(super) shuffle_s: f64,
    pub(super) benefit_s: f64,
    pub(super) pays: bool,
}

/// The outcome of one study.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Study {
    pub(super) id: String,
    #[serde(default)]
    pub(super) paper: Value,
    #[serde(default)]
    pub(super) question: String,
    #[serde(default)]
    pub(super) mode: String,
    pub(super) rows: Vec<StudyRow>,
    #[serde(default)]
    pub(super) series: Vec<StudySeries>,
    /// Where in the paper it is.
    #[serde(default)]
    pub(super) place: String,
    /// `quick` or `full`.
    #[serde(default)]
    pub(super) size: String,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    /// As it is typed, in one piece or in words.
    #[serde(default)]
    pub(super) command: Value,
    pub(super) machine: Option<Machine>,
    /// When it was measured: seconds since 1970.
    pub(super) unix_seconds: Option<u64>,
}

/// The outcome of `pario explain` for one call: every way to serve it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Explained {
    pub(super) workload: String,
    #[serde(default)]
    pub(super) shape: String,
    pub(super) direction: String,
    pub(super) ranks: u32,
    #[serde(default = "one")]
    pub(super) nodes: u32,
    #[serde(default)]
    pub(super) profile: String,
    #[serde(default)]
    pub(super) advice: String,
    #[serde(default)]
    pub(super) plan: String,
    /// How many recorded calls it is about; none if a workload was described.
    pub(super) calls: Option<u64>,
    pub(super) ways: Vec<Way>,
    /// Records of earlier versions have none.
    #[serde(default)]
    pub(super) moves: Vec<Move>,
}

/// What an aggregator moves in a round.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Move {
    pub(super) round: u64,
    pub(super) aggregator: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// One way to serve a call, with the time that the model predicts.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Way {
    pub(super) strategy: String,
    #[serde(default)]
    pub(super) chosen: bool,
    pub(super) predicted_ms: f64,
    /// If it was run.
    pub(super) measured_ms: Option<f64>,
    #[serde(default)]
    pub(super) planning_ms: f64,
    #[serde(default)]
    pub(super) synchronisation_ms: f64,
    #[serde(default)]
    pub(super) exchange_ms: f64,
    #[serde(default)]
    pub(super) storage_ms: f64,
    #[serde(default)]
    pub(super) aggregators: u64,
    #[serde(default)]
    pub(super) rounds: u64,
    #[serde(default)]
    pub(super) windows: String,
}

/// A relation of the paper beside ours. Values are numbers or words.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct StudyRow {
    pub(super) name: String,
    #[serde(default)]
    pub(super) paper: Value,
    #[serde(default)]
    pub(super) ours: Value,
    #[serde(default)]
    pub(super) unit: Value,
    #[serde(default)]
    pub(super) tolerance: Value,
    #[serde(default)]
    pub(super) verdict: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct StudySeries {
    pub(super) name: String,
    #[serde(default)]
    pub(super) x_label: String,
    #[serde(default)]
    pub(super) y_label: String,
    pub(super) points: Vec<[f64; 2]>,
}

/// What was done with one file: a line of a recording.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Recording {
    pub(crate) file: String,
    pub(crate) ranks: u32,
    #[serde(default = "one")]
    pub(crate) nodes: u32,
    #[serde(default)]
    pub(crate) node_of_rank: Vec<u32>,
    #[serde(default)]
    pub(crate) cores_of_node: Vec<u32>,
    #[serde(default)]
    pub(crate) mode: String,
    pub(crate) storage: Option<Storage>,
    /// The name of a built-in profile, or the text of another one.
    #[serde(default)]
    pub(crate) profile: String,
    /// Whether all ranks closed the file; otherwise the records are those of rank 0.
    #[serde(default = "yes")]
    pub(crate) of_all_ranks: bool,
    pub(crate) pario: Option<String>,
    pub(crate) machine: Option<Machine>,
    /// When the run began: seconds since 1970.
    pub(crate) unix_seconds: Option<u64>,
    #[serde(default)]
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) hints: Vec<Hint>,
    #[serde(default)]
    pub(crate) ignored_hints: Vec<Hint>,
    #[serde(default)]
    pub(crate) calls: Sampled<Call>,
    #[serde(default)]
    pub(crate) calls_missed: u64,
    #[serde(default)]
    pub(crate) events: Sampled<Event>,
    #[serde(default)]
    pub(crate) events_missed: u64,
}

impl Recording {
    /// Whether the program read or wrote.
    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty() || self.calls_missed > 0
    }

    /// The time of all ranks in its calls.
    pub(crate) fn seconds(&self) -> f64 {
        self.calls.scaled(self.calls.iter().map(|call| call.seconds).sum())
    }
}

/// What planners knew of a file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Storage {
    pub(crate) shared_bytes: u64,
    pub(crate) block_bytes: u64,
    pub(crate) in_memory: bool,
    pub(crate) range_locks: bool,
    pub(crate) readable: bool,
    /// Recordings of earlier versions do not have it.
    #[serde(default)]
    pub(crate) mapped_writes: bool,
    pub(crate) unique_open: bool,
}

/// The first line of a recording that `pario run` began.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Run {
    pub(super) command: Vec<String>,
    /// When it began: seconds since 1970.
    pub(super) unix_seconds: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Hint {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) origin: String,
    #[serde(default)]
    pub(crate) reason: String,
}

/// One call of one rank.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Call {
    pub(crate) rank: u32,
    /// Of a collective, the same on all ranks; absent in recordings of earlier versions.
    pub(crate) number: Option<u64>,
    pub(crate) call: String,
    pub(crate) strategy: String,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) windows: String,
    #[serde(default)]
    pub(crate) rounds: u64,
    #[serde(default)]
    pub(crate) aggregators: u64,
    #[serde(default)]
    pub(crate) requested_bytes: u64,
    /// Offsets of the first byte and after the last one.
    #[serde(default)]
    pub(crate) offset: u64,
    #[serde(default)]
    pub(crate) end_offset: u64,
    /// Absent in recordings of earlier versions.
    pub(crate) pieces: Option<u64>,
    #[serde(flatten)]
    asked: Asked,
    #[serde(default)]
    pub(crate) moved_bytes: u64,
    #[serde(default)]
    pub(crate) storage_reads: u64,
    #[serde(default)]
    pub(crate) storage_writes: u64,
    pub(crate) begin_seconds: f64,
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) times: Times,
}

/// What else planners knew of a call; recordings of earlier versions lack most of it.
#[derive(Clone, Debug, Deserialize)]
struct Asked {
    piece_bytes: Option<u64>,
    sorted: Option<bool>,
    #[serde(default = "yes")]
    memory_in_order: bool,
    memory_piece_bytes: Option<u64>,
    collective: Option<bool>,
    #[serde(default = "yes")]
    regular: bool,
    #[serde(default)]
    atomic: bool,
    undisturbed: Option<bool>,
    #[serde(default)]
    overlaps: bool,
    correction: Option<Correction>,
    doubt: Option<plan::Doubt>,
    /// In recordings of earlier versions.
    exchange_factor: Option<f64>,
    storage_factor: Option<f64>,
}

/// How measured times compared with predicted ones.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Correction {
    independent: Factors,
    sieve: Option<Factors>,
    shared: Factors,
    messages: Factors,
    phases: Option<Factors>,
    some_phases: Option<Factors>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Factors {
    exchange: f64,
    storage_call: Option<f64>,
    storage_byte: Option<f64>,
    /// Both, in recordings of earlier versions.
    storage: Option<f64>,
}

impl From<Factors> for plan::Factors {
    fn from(factors: Factors) -> plan::Factors {
        let Factors { exchange, storage_call, storage_byte, storage } = factors;
        let storage = storage.unwrap_or(1.0);
        plan::Factors {
            exchange,
            storage_call: storage_call.unwrap_or(storage),
            storage_byte: storage_byte.unwrap_or(storage),
        }
    }
}

impl Asked {
    fn correction(&self) -> plan::Correction {
        let (exchange, storage) = (self.exchange_factor, self.storage_factor);
        let (exchange, storage) = (exchange.unwrap_or(1.0), storage.unwrap_or(1.0));
        match self.correction {
            Some(Correction { independent, sieve, shared, messages, phases, some_phases }) => {
                plan::Correction {
                    independent: independent.into(),
                    sieve: sieve.unwrap_or(independent).into(),
                    shared: shared.into(),
                    messages: messages.into(),
                    phases: phases.unwrap_or(messages).into(),
                    some_phases: some_phases.unwrap_or(messages).into(),
                }
            }
            None => plan::Correction::of_all(plan::Factors::new(exchange, storage)),
        }
    }
}

impl Call {
    /// Whether all ranks make it together.
    pub(crate) fn is_collective(&self) -> bool {
        self.call.ends_with("_all")
    }

    /// What its rank asked for.
    pub(crate) fn request(&self) -> Request {
        let (start, end, bytes) = (self.offset, self.end_offset, self.requested_bytes);
        let pieces = self.pieces.unwrap_or(1).max(1);
        let piece_bytes = self.asked.piece_bytes.unwrap_or((bytes / pieces).max(1));
        // A view that names bytes twice has more of them than room.
        let has_room = bytes <= end.saturating_sub(start);
        let memory = InMemory {
            in_order: self.asked.memory_in_order,
            piece_bytes: self.asked.memory_piece_bytes.unwrap_or(u64::MAX).max(1),
        };
        let within = start..end.max(start);
        let request = Request::of_pieces(within, bytes, piece_bytes.max(1));
        Request { sorted: self.asked.sorted.unwrap_or(has_room), memory, ..request }
    }

    /// What was the same on all ranks of the call.
    pub(crate) fn conditions(&self) -> Conditions {
        let direction = match self.call.starts_with("read") {
            true => Direction::Read,
            false => Direction::Write,
        };
        let collective = self.asked.collective.unwrap_or(self.is_collective());
        Conditions {
            collective,
            regular: self.asked.regular,
            atomic: self.asked.atomic,
            undisturbed: self.asked.undisturbed.unwrap_or(collective),
            overlaps: self.asked.overlaps,
            correction: self.asked.correction(),
            doubt: self.asked.doubt,
            ..Conditions::independent(direction)
        }
    }
}

/// One storage access of one rank.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) rank: u32,
    pub(crate) what: String,
    pub(crate) begin_seconds: f64,
    pub(crate) seconds: f64,
    #[serde(default)]
    pub(crate) offset: u64,
    #[serde(default)]
    pub(crate) bytes: u64,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}
