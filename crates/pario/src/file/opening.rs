//! How all ranks open a file together: what they compare, who creates it, what they learn of it.
//!
//! Three steps, in each of which every rank waits for the others:
//!
//! 1. The ranks compare what they bring: an error, the access mode, the hints of rank 0.
//! 2. Rank 0 creates the file, if the mode says so. Otherwise there is no such step.
//! 3. Each rank opens the file, and says what it is like.
//!
//! An error of any rank is the outcome on all of them, and a file that was created is deleted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::handle::{Handle, State, same_values};
use super::kept::KeptPlans;
use super::options::{AccessMode, OpenOptions};
use super::reported::{Reported, Served, Visible};
use super::unsynced::{Unsynced, forget_failures};
use crate::comm::Communicator;
use crate::comm::collective::broadcast;
use crate::datatype::wire::{Reader, Writer};
use crate::error::{Error, ErrorClass, Result};
use crate::exchange::agree::bring;
use crate::hints::{Environment, HintReport, Hints};
use crate::model::profile::{self, Found, Profile};
use crate::number::wide;
use crate::plan::{FileFacts, Learned};
use crate::statistics::{CallStatistics, FileStatistics, OpenTime, Recorder, accesses_max};
use crate::storage::{self, AccessLog, Driver, OpenMode, Storage};
use crate::view::{CompiledView, View};

/// What every rank brings to an open, before a file is touched.
struct Agreed {
    hints: Hints,
    report: HintReport,
    environment: Environment,
}

/// Compares what the ranks bring to an open, and makes rank 0's hints those of all ranks; `path`
/// is the error of a rank that cannot even name the file.
async fn agree_on_open(
    comm: &dyn Communicator,
    options: &OpenOptions,
    path: Result<&Path>,
) -> Result<Agreed> {
    let environment = Environment::of_process();
    let found = path.map(|path| options.hints.resolve(path, &environment));
    let own = found.as_ref().map_err(Clone::clone).map(|(hints, _)| {
        let mut writer = Writer::default();
        writer.unsigned(options.mode.bits());
        // Only rank 0's count.
        writer.text(&if comm.rank() == 0 { hints.to_wire() } else { Vec::new() });
        writer.bytes
    });
    let brought = bring(comm, 0, own).await?;
    let (own, report) = found?;
    let mode = |wire: &Vec<u8>| Reader::new(wire).unsigned();
    let modes = brought.iter().map(mode).collect::<Result<Vec<u64>>>()?;
    same_values(&modes, "open: access mode")?;
    let mut first = Reader::new(&brought[0]);
    first.unsigned()?;
    let hints = match first.text()? {
        wire if comm.rank() == 0 || wire == own.to_wire() => own,
        wire => Hints::from_wire(wire)?,
    };
    let report = report.with_agreed(&hints);
    Ok(Agreed { hints, report, environment })
}

/// Has rank 0 create a file, if the mode says so, before any other rank opens it. Rank 0 gets the
/// file, and whether it was created.
async fn create_first(
    comm: &dyn Communicator,
    driver: &dyn Driver,
    (path, mode): (&Path, AccessMode),
) -> Result<Option<(Opened, bool)>> {
    if !mode.create {
        return Ok(None);
    }
    let own = (comm.rank() == 0).then(|| create(driver, path, mode)).transpose();
    let failed = own.as_ref().err().map(|error| error.clone().on_rank(0).to_wire());
    let failed = broadcast(comm, 0, failed.unwrap_or_default()).await?;
    match failed.is_empty() {
        true => own,
        false => Err(Error::from_wire(&failed)),
    }
}

/// Opens a file in three steps, each of which all ranks take together: they compare what they
/// bring; rank 0 creates the file, if somebody must; each opens it and says what it is like.
pub(super) async fn open(
    options: &OpenOptions,
    communicator: &Arc<dyn Communicator>,
    path: Result<&Path>,
) -> Result<Handle> {
    let comm = &**communicator;
    let mode = options.mode;
    let named = path.and_then(|path| match &options.driver {
        Some(driver) => Ok((driver.clone(), path)),
        None => storage::for_path(path),
    });
    let given = options.profile.as_ref().map_or(Ok(()), Profile::check);
    let named = mode.check().and(given).and(named);
    let path = named.as_ref().map(|named| named.1).map_err(Clone::clone);
    let Agreed { hints, report, environment } = agree_on_open(comm, options, path).await?;
    let (driver, path) = named?;
    let first = create_first(comm, &*driver, (path, mode)).await?;
    let created = first.as_ref().is_some_and(|(_, created)| *created);
    let opened = match first {
        Some((opened, _)) => Ok(opened),
        None => open_storage(&*driver, path, mode),
    };
    let opened = opened.and_then(|opened| {
        let start = if mode.append { opened.storage.size()? } else { 0 };
        let deletes = mode.delete_on_close && comm.rank() == 0;
        let deletion = if deletes { driver.deletion(path)? } else { None };
        if comm.rank() == 0 {
            comm.counter_set(start)?;
            forget_failures(comm);
        }
        Ok((opened, start, deletion))
    });
    let storage = opened.as_ref().map(|(opened, ..)| opened).map_err(Clone::clone);
    let (facts, reported) = match gather_facts(comm, storage, options).await {
        Ok(gathered) => gathered,
        Err(error) => {
            drop(opened);
            if created {
                // No rank has it open: leave nothing. The first error is the one to report.
                let _ = driver.delete(path);
            }
            return Err(error);
        }
    };
    let (opened, start, deletion) = opened?;
    let report = report.and_of_file(reported.keys(&hints, &facts));
    if comm.rank() == 0 {
        report.warn();
        environment.show_hints(path, &report);
    }
    let view = CompiledView::new(&View::bytes(), mode.write)?;
    comm.watchdog().watch(path.display(), Duration::from_secs(hints.collective_wait_s));
    let opened_at = OpenTime::now();
    let traces = hints.statistics.recording().is_some_and(|recording| recording.trace);
    let accesses =
        traces.then(|| Arc::new(AccessLog::new(opened_at.instant, accesses_max(comm.size()))));
    let storage = match &accesses {
        None => opened.storage,
        Some(log) => storage::over_file(opened.storage, log.clone()),
    };
    let state = State {
        view: Arc::new(view),
        hints: Arc::new(hints),
        report: Arc::new(report),
        given: options.hints.clone(),
        pointer: start,
        shared_moved: mode.append,
        atomic: false,
        split_active: false,
        running: Vec::new(),
        statistics: FileStatistics::default(),
        plans: KeptPlans::default(),
        learned: Learned::default(),
        last_call: CallStatistics::default(),
        last_timed: None,
        served: Served::default(),
        recorder: Recorder::default(),
    };
    Ok(Handle {
        communicator: communicator.clone(),
        storage,
        opened: opened_at,
        accesses,
        facts,
        reported,
        mode,
        path: path.to_owned(),
        driver,
        deletion: Mutex::new(deletion),
        calls: AtomicU64::new(1),
        alone: Arc::default(),
        handed_over: AtomicBool::new(false),
        unsynced: Unsynced::default(),
        closed: AtomicBool::new(false),
        state: Mutex::new(state),
    })
}

/// An opened file, and whether it can be read.
struct Opened {
    storage: Arc<dyn Storage>,
    readable: bool,
}

/// Opens a file that exists. One that the user only writes is opened for reading too, unless
/// that is not permitted.
fn open_storage(driver: &dyn Driver, path: &Path, mode: AccessMode) -> Result<Opened> {
    match driver.open(path, mode.storage()) {
        Err(error) if error.class() == ErrorClass::Access && !mode.read => {
            let storage = driver.open(path, OpenMode { read: false, ..mode.storage() })?;
            Ok(Opened { storage, readable: false })
        }
        opened => Ok(Opened { storage: opened?, readable: true }),
    }
}

/// Opens a file as the first rank: creates it where the mode says so. Returns whether it did.
fn create(driver: &dyn Driver, path: &Path, mode: AccessMode) -> Result<(Opened, bool)> {
    if !mode.create {
        return Ok((open_storage(driver, path, mode)?, false));
    }
    let fresh = OpenMode { create: true, exclusive: true, ..mode.storage() };
    match driver.open(path, fresh) {
        Ok(storage) => Ok((Opened { storage, readable: true }, true)),
        Err(error) if error.class() == ErrorClass::FileExists && !mode.exclusive => {
            let existing = open_storage(driver, path, mode);
            let opened = match existing {
                // The name is a symbolic link, and what it points to is not there yet.
                Err(error) if error.class() == ErrorClass::NoSuchFile => {
                    let through = OpenMode { exclusive: false, ..fresh };
                    Opened { storage: driver.open(path, through)?, readable: true }
                }
                existing => existing?,
            };
            // A link is not this open's own, to be deleted if others cannot open the file.
            Ok((opened, false))
        }
        Err(error) => Err(error),
    }
}

/// What one rank knows of a file that it has opened.
struct OwnFacts {
    /// What it sends to the others.
    numbers: [u64; 8],
    found: Found,
    reported: Reported,
}

impl OwnFacts {
    fn of(
        communicator: &dyn Communicator,
        nodes: &[u32],
        opened: &Opened,
        options: &OpenOptions,
    ) -> OwnFacts {
        let capabilities = opened.storage.capabilities();
        let file_system = match capabilities.file_system {
            _ if capabilities.in_memory => "tmpfs",
            known => known.map_or("other", |known| known.name),
        };
        let known = || profile::find(communicator.transport(), file_system, communicator.rank());
        let found = match (&options.profile, capabilities.described) {
            (Some(profile), _) => Found::new(profile.clone()),
            (None, Some(described)) => {
                let profile = known().profile;
                Found::new(Profile::clone(&profile).with_storage("described", described))
            }
            (None, None) => known(),
        };
        let reported = Reported {
            visible: Visible::of(nodes, capabilities.file_system),
            file_system: capabilities.file_system,
        };
        let numbers = [
            communicator.region().map_or(0, |region| wide(region.len())),
            capabilities.block_bytes,
            u64::from(capabilities.in_memory),
            u64::from(capabilities.range_locks),
            u64::from(opened.readable),
            u64::from(capabilities.mapped_writes),
            reported.visible.level(),
            found.fingerprint,
        ];
        OwnFacts { numbers, found, reported }
    }

    fn to_wire(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        self.numbers.iter().for_each(|&number| writer.unsigned(number));
        writer.bytes
    }
}

/// What the planners must know of the file, the same on every rank; the error of a rank that
/// could not open it, on all of them.
async fn gather_facts(
    communicator: &dyn Communicator,
    opened: Result<&Opened>,
    options: &OpenOptions,
) -> Result<(FileFacts, Reported)> {
    let nodes: Vec<u32> = (0..communicator.size()).map(|rank| communicator.node(rank)).collect();
    let own = opened.map(|opened| OwnFacts::of(communicator, &nodes, opened, options));
    let wires = bring(communicator, 0, own.as_ref().map(OwnFacts::to_wire).map_err(Clone::clone));
    let wires = wires.await?;
    let OwnFacts { found: own, mut reported, .. } = own?;
    let node_count = nodes.iter().max().map_or(0, |last| last + 1);
    let mut facts = FileFacts {
        nodes,
        shared_bytes: u64::MAX,
        cores: (0..node_count).map(|node| communicator.cores(node)).collect(),
        block_bytes: 1,
        in_memory: true,
        range_locks: true,
        readable: true,
        mapped_writes: true,
        unique_open: options.mode.unique_open,
        profile: own.profile.clone(),
    };
    let mut fingerprints = Vec::new();
    for wire in &wires {
        let mut reader = Reader::new(wire);
        facts.shared_bytes = facts.shared_bytes.min(reader.unsigned()?);
        facts.block_bytes = facts.block_bytes.max(reader.unsigned()?);
        facts.in_memory &= reader.unsigned()? != 0;
        facts.range_locks &= reader.unsigned()? != 0;
        facts.readable &= reader.unsigned()? != 0;
        facts.mapped_writes &= reader.unsigned()? != 0;
        reported.visible = reported.visible.min(Visible::of_level(reader.unsigned()?));
        fingerprints.push(reader.unsigned()?);
    }
    if fingerprints.iter().any(|&one| one != fingerprints[0]) {
        let text = own.profile.to_text()?.into_bytes();
        facts.profile = Found::parse(&broadcast(communicator, 0, text).await?)?.profile;
    }
    Ok((facts, reported))
}
