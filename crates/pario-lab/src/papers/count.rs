//! Real calls on a file in memory, counted: what pario's statistics say, and what reached storage.
//!
//! Ranks are threads that send each other messages. Every rank's storage calls are recorded by a
//! trace of its own. The bytes are compared at the end. Nothing here depends on time, so the counts
//! are the same on every run.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pario::storage::{Driver, Memory, OpenMode, Trace, TraceEvent};
use pario::{CallStatistics, Communicator, File, Threads};

use crate::failure::Failure;
use crate::scenario::pattern::Pattern;

/// What is called.
pub(crate) struct Request<'a> {
    pub(crate) pattern: &'a Pattern,
    /// Level of papers 003 and 004.
    pub(crate) level: u8,
    pub(crate) hints: Vec<(&'a str, String)>,
    /// How often the same call is made.
    pub(crate) times: u32,
}

impl<'a> Request<'a> {
    /// A collective write with a view and a strategy.
    pub(crate) fn collective(pattern: &'a Pattern, strategy: &str) -> Request<'a> {
        let hints = vec![("pario_strategy", strategy.to_owned())];
        Request { pattern, level: 3, hints, times: 1 }
    }

    /// The same at another level.
    pub(crate) fn at_level(self, level: u8) -> Request<'a> {
        Request { level, ..self }
    }

    pub(crate) fn hint(mut self, key: &'a str, value: impl ToString) -> Request<'a> {
        self.hints.push((key, value.to_string()));
        self
    }
}

/// What one rank did.
#[derive(Clone, Debug)]
pub(crate) struct Rank {
    pub(crate) statistics: CallStatistics,
    /// Contiguous runs that it wrote, in their order; what continues the one before is one run.
    pub(crate) writes: Vec<Range<u64>>,
    /// Calls, and pieces in lists, that reached storage.
    pub(crate) pieces: u64,
    /// Plans that were made.
    pub(crate) plans: u64,
}

/// What all ranks did.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) ranks: Vec<Rank>,
}

impl Counted {
    pub(crate) fn sum(&self, of: impl Fn(&Rank) -> u64) -> u64 {
        self.ranks.iter().map(of).sum()
    }
}

/// Events that a trace keeps of each rank.
const EVENTS_MAX: usize = 4 << 20;
const NAME: &str = "study";

/// Writes a pattern, and compares the bytes.
///
/// # Errors
/// A call failed, or a byte is wrong.
pub(crate) fn write(request: &Request<'_>) -> Result<Counted, Failure> {
    let memory: Arc<dyn Driver> = Arc::new(Memory::new());
    let threads = Threads::new(request.pattern.ranks).share_memory(false);
    let outcomes = threads.run(|comm| on_rank(request, &*comm, memory.clone()));
    let ranks: Vec<Rank> = outcomes.into_iter().collect::<Result<_, Failure>>()?;
    check(request.pattern, &*memory)?;
    Ok(Counted { ranks })
}

fn on_rank(
    request: &Request<'_>,
    comm: &dyn Communicator,
    memory: Arc<dyn Driver>,
) -> Result<Rank, Failure> {
    let failed = |error: pario::Error| Failure::during("writing to memory", error);
    let trace = Trace::new(memory, EVENTS_MAX);
    let options = File::options().read(true).write(true).create(true);
    let options = options.driver(Arc::new(trace.clone()));
    let options =
        request.hints.iter().fold(options, |options, (key, value)| options.hint(*key, value));
    let rank = comm.rank();
    let file = options.open(comm, NAME).map_err(failed)?;
    let pieces: Vec<Range<u64>> = request.pattern.runs(rank).collect();
    let data = vec![value(rank); len(pieces.iter().map(|run| run.end - run.start).sum())];
    if request.level >= 2 {
        let view = request.pattern.workload.view(rank).map_err(failed)?;
        file.set_view(&view).map_err(failed)?;
    }
    trace.clear();
    let mut plans = 0;
    for _ in 0..request.times {
        calls(request, &file, &pieces, &data).map_err(failed)?;
        plans += u64::from(file.last_call().planned);
    }
    let (events, missed) = (trace.events(), trace.missed());
    let statistics = file.statistics().total;
    file.close().map_err(failed)?;
    match missed {
        0 => Ok(Rank { statistics, writes: runs(&events), pieces: reached(&events), plans }),
        _ => Err(Failure::Run(format!("{missed} storage calls were not recorded"))),
    }
}

fn calls(
    request: &Request<'_>,
    file: &File,
    pieces: &[Range<u64>],
    data: &[u8],
) -> pario::Result<()> {
    match request.level {
        0 => {
            let mut at = 0;
            for run in pieces {
                let bytes = len(run.end - run.start);
                file.write(run.start, &data[at..at + bytes])?;
                at += bytes;
            }
            Ok(())
        }
        1 => {
            let pattern = request.pattern;
            let count = (0..pattern.ranks).map(|rank| pattern.runs(rank).count()).max();
            let mut at = 0;
            for number in 0..count.unwrap_or(0) {
                let run = pieces.get(number).cloned().unwrap_or(0..0);
                let bytes = len(run.end - run.start);
                file.write_all(run.start, &data[at..at + bytes])?;
                at += bytes;
            }
            Ok(())
        }
        2 => file.write(0, data).map(|_| ()),
        _ => file.write_all(0, data).map(|_| ()),
    }
}

fn len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// What a rank writes.
fn value(rank: u32) -> u8 {
    u8::try_from(rank % 251).unwrap_or(0) + 1
}

/// Written runs, joined where one continues the last.
fn runs(events: &[TraceEvent]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    let written = events.iter().filter(|event| writes_bytes(event));
    for event in written {
        let end = event.offset + event.len;
        match runs.last_mut() {
            Some(last) if last.end == event.offset => last.end = end,
            _ => runs.push(event.offset..end),
        }
    }
    runs
}

/// Whether bytes went to one place: a plain write, or a piece of a list.
fn writes_bytes(event: &TraceEvent) -> bool {
    use pario::storage::Operation::{Write, WritePiece};
    matches!(event.operation, Write | WritePiece)
}

/// Accesses of one place each.
fn reached(events: &[TraceEvent]) -> u64 {
    use pario::storage::Operation::{Read, ReadPiece, Write, WritePiece};
    let one =
        |event: &&TraceEvent| matches!(event.operation, Read | ReadPiece | Write | WritePiece);
    u64::try_from(events.iter().filter(one).count()).unwrap_or(u64::MAX)
}

/// Every byte must be that of its owner.
fn check(pattern: &Pattern, memory: &dyn Driver) -> Result<(), Failure> {
    let failed = |error: pario::Error| Failure::during("reading memory", error);
    let mode = OpenMode { read: true, ..OpenMode::default() };
    let file = memory.open(Path::new(NAME), mode).map_err(failed)?;
    let mut bytes = vec![0; len(pattern.reach().end)];
    let count = file.read_at(0, &mut bytes).map_err(failed)?;
    if count < bytes.len() {
        return Err(Failure::Run(format!("the file has {count} bytes, not {}", bytes.len())));
    }
    for rank in 0..pattern.ranks {
        for run in pattern.runs(rank) {
            let part = &bytes[len(run.start)..len(run.end)];
            if part.iter().any(|&byte| byte != value(rank)) {
                return Err(Failure::Run(format!("rank {rank}: wrong bytes in {run:?}")));
            }
        }
    }
    Ok(())
}
