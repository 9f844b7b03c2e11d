//! One measurement: bytes move, a clock runs, every byte is compared.
//!
//! All of this runs on every rank, with a common start of each step. The calls are timed and, where
//! each step has a file of its own, the whole step from open to close.

mod plain;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pario::model::Direction;
use pario::{CallStatistics, File, Strategy};

use super::opened::{BenchFile, MpiTypes};
use super::page_cache::PageCache;
use super::part::Part;
use super::scratch::{Scratch, make_together, open_together};
use super::settings::{Directions, Files, Settings, with_strategy};
use super::team::Team;
use super::turn::{Measured, Span, Turn, difference, now};
use super::verify::{Expected, Pattern, Share, read_exact};
use crate::failure::Failure;
use crate::scenario::contender::{Contender, Implementation, Level, Way};
use crate::scenario::pieces::Piece;
use crate::scenario::workload::{Program, Ways, Workload};
use plain::Work;

/// A write and a read of the same bytes, as far as they were asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repetition {
    pub(crate) write: Option<Measured>,
    pub(crate) read: Option<Measured>,
}

/// What all ranks measure with.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) team: &'a Team<'a>,
    pub(crate) scratch: &'a Scratch,
    pub(crate) page_cache: Option<&'a PageCache>,
}

/// Whose order the bytes of a file are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// The workload's.
    Workload,
    /// One rank of a part after the other.
    Block(usize),
}

/// A file that is measured.
struct OnDisk {
    path: PathBuf,
    file: fs::File,
    /// What it has: the values, and in which order.
    content: Option<(Pattern, Layout)>,
    file_bytes: u64,
}

/// A program with this rank's part of it, ready to be measured.
pub(crate) struct Bed<'a> {
    bench: Bench<'a>,
    program: &'a Program,
    pub(crate) parts: Vec<Part<'a>>,
    files: Vec<OnDisk>,
    /// By part and implementation.
    mpi_types: Vec<((usize, Implementation), Rc<MpiTypes>)>,
    salt: u8,
    /// Files made so far, for their names.
    made: u64,
}

/// Salt of what belongs to nobody; measurements have others.
const HOLE_SALT: u8 = 0;

impl<'a> Bed<'a> {
    /// Makes the buffers, and files of the right size that have been written once.
    pub(crate) fn new(bench: Bench<'a>, program: &'a Program) -> Result<Bed<'a>, Failure> {
        let packed = bench.settings.packed;
        let workloads = program.parts.iter().map(|workload| &**workload);
        let parts = workloads.map(|workload| Part::new(bench.team, workload, packed));
        let parts = parts.collect::<Result<Vec<Part<'a>>, Failure>>()?;
        let (files, mpi_types) = (Vec::new(), Vec::new());
        let mut bed = Bed { bench, program, parts, files, mpi_types, salt: HOLE_SALT, made: 0 };
        for number in 0..program.files() {
            let on_disk = bed.make_file(program.file_bytes(number))?;
            bed.files.push(on_disk);
        }
        let first = |number| program.parts.iter().position(|part| part.file() == number);
        let owners: Vec<usize> = (0..program.files()).filter_map(first).collect();
        for part in owners {
            bed.lay_out(part, Pattern::new(HOLE_SALT), Layout::Workload)?;
        }
        Ok(bed)
    }

    /// A new empty file with a name of its own.
    fn make_file(&mut self, file_bytes: u64) -> Result<OnDisk, Failure> {
        let path = self.next_path();
        let file = make_together(self.bench.team, &path)?;
        Ok(OnDisk { path, file, content: None, file_bytes })
    }

    fn next_path(&mut self) -> PathBuf {
        self.made += 1;
        self.bench.scratch.file(&format!("file-{}", self.made))
    }

    /// This rank's part of work on a whole file.
    fn share(&self) -> Share {
        Share { number: self.bench.team.rank(), count: self.bench.team.size() }
    }

    fn on_disk(&self, part: usize) -> &OnDisk {
        &self.files[self.program.parts[part].file()]
    }

    fn on_disk_mut(&mut self, part: usize) -> &mut OnDisk {
        let number = self.program.parts[part].file();
        &mut self.files[number]
    }

    /// Whether writes find nothing in the file.
    fn is_fresh(&self) -> bool {
        self.bench.settings.fresh || self.bench.settings.files == Files::New
    }

    fn expected(&self, part: usize, pattern: Pattern) -> Expected<'_> {
        Expected {
            pattern,
            file_bytes: self.on_disk(part).file_bytes,
            holes: &self.parts[part].holes,
            hole_pattern: (!self.is_fresh()).then(|| Pattern::new(HOLE_SALT)),
        }
    }

    /// About how many storage calls a strategy needs, at most.
    pub(crate) fn storage_calls(&self, part: usize, way: Way) -> u64 {
        let sizes = &self.parts[part].sizes;
        let pieces = sizes.pieces;
        let hints = &self.bench.settings.hints;
        let ranks = u64::from(self.bench.settings.ranks);
        let bytes = self.program.parts[part].file_bytes();
        if way.level == Level::Pieces {
            return sizes.calls;
        }
        // Scattered pieces need a system call each, also when they come as a list.
        match way.strategy {
            Strategy::Direct | Strategy::List => pieces,
            // Each phase halves the number of pieces; with all of them there is one.
            Strategy::MultiPhase => match way.phases.or(hints.phases) {
                Some(phases) if 1 << phases < ranks => pieces >> phases,
                _ => 0,
            },
            Strategy::Sieve => {
                let hole_bytes = bytes.saturating_mul(ranks - 1) / pieces.max(1);
                let window_bytes =
                    hints.sieve_read_buffer_bytes.min(hints.sieve_write_buffer_bytes);
                match hole_bytes <= hints.sieve_hole_bytes {
                    true => bytes.div_ceil(window_bytes).saturating_mul(2 * ranks).min(pieces),
                    false => pieces,
                }
            }
            _ => 0,
        }
    }

    /// Runs the program once with a contender; every byte is compared. The outcomes of its steps,
    /// each with the index of its part.
    pub(crate) fn repeat(
        &mut self,
        contender: Contender,
        skipped: &[bool],
    ) -> Result<Vec<(usize, Repetition)>, Failure> {
        let mut open: Vec<Option<BenchFile>> = self.parts.iter().map(|_| None).collect();
        let mut outcomes = Vec::new();
        for step in &self.program.steps {
            if skipped[step.part] {
                continue;
            }
            compute(step.compute);
            let mut repetition = Repetition::default();
            for direction in self.directions(step.part) {
                let file = &mut open[step.part];
                match direction {
                    Direction::Write => {
                        repetition.write = Some(self.write(step.part, contender, file)?);
                    }
                    Direction::Read => {
                        repetition.read = Some(self.read(step.part, contender, file)?);
                    }
                }
            }
            outcomes.push((step.part, repetition));
        }
        for file in open.into_iter().flatten() {
            file.close().map_err(|error| Failure::during("closing the file", error))?;
        }
        Ok(outcomes)
    }

    /// Removes the files: those of the next program have the same names.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        self.bench.team.first(|| self.files.iter().try_for_each(|on_disk| remove(&on_disk.path)))
    }

    /// What is measured of a part, in its order.
    fn directions(&self, part: usize) -> Vec<Direction> {
        let asked = self.bench.settings.directions;
        in_order(self.program.parts[part].ways(), asked)
    }

    fn next_pattern(&mut self) -> Pattern {
        self.salt = self.salt.wrapping_add(1);
        if self.salt == HOLE_SALT {
            self.salt += 1;
        }
        Pattern::new(self.salt)
    }

    fn write(
        &mut self,
        part: usize,
        contender: Contender,
        open: &mut Option<BenchFile>,
    ) -> Result<Measured, Failure> {
        let block = contender == Contender::BlockIo;
        let layout = if block { Layout::Block(part) } else { Layout::Workload };
        self.prepare_write(part, layout)?;
        let pattern = self.next_pattern();
        self.parts[part].fill(pattern, Direction::Write, block);
        let measured = self.transfer(part, contender, (Direction::Write, pattern), open)?;
        if self.is_new() {
            let path = self.on_disk(part).path.clone();
            self.on_disk_mut(part).file = open_together(self.bench.team, &path)?;
        }
        let checked = match block {
            true => self.check_block(part, pattern),
            false => {
                let expected = self.expected(part, pattern);
                expected.check_file(&self.on_disk(part).file, self.share())
            }
        };
        let explain = |failure| self.explain(part, contender, Direction::Write, failure);
        self.bench.team.agree(checked.map_err(explain))?;
        self.on_disk_mut(part).content = Some((pattern, layout));
        Ok(measured)
    }

    /// Whether each step that only writes has a file of its own.
    fn is_new(&self) -> bool {
        self.bench.settings.files == Files::New
    }

    /// Makes the file ready for a write: new, empty, or with the right bytes where nobody writes.
    fn prepare_write(&mut self, part: usize, layout: Layout) -> Result<(), Failure> {
        let rewrites = self.program.parts[part].ways() == Ways::ReadFirst;
        if self.is_new() && !rewrites {
            let (old, next) = (self.on_disk(part).path.clone(), self.next_path());
            self.bench.team.first(|| remove(&old))?;
            self.on_disk_mut(part).path = next;
            return Ok(());
        }
        if self.bench.settings.fresh && !rewrites {
            let file = &self.on_disk(part).file;
            return self.bench.team.first(|| {
                let cut = file.set_len(0);
                cut.map_err(|error| Failure::during("cutting the file", error))
            });
        }
        let disturbed = !matches!(self.on_disk(part).content, Some((_, Layout::Workload)));
        if !self.parts[part].holes.is_empty() && layout == Layout::Workload && disturbed {
            let pattern = self.next_pattern();
            return self.lay_out(part, pattern, Layout::Workload);
        }
        Ok(())
    }

    fn read(
        &mut self,
        part: usize,
        contender: Contender,
        open: &mut Option<BenchFile>,
    ) -> Result<Measured, Failure> {
        let block = contender == Contender::BlockIo;
        let layout = if block { Layout::Block(part) } else { Layout::Workload };
        let pattern = match self.on_disk(part).content {
            Some((pattern, there)) if there == layout => pattern,
            _ => {
                let pattern = self.next_pattern();
                self.lay_out(part, pattern, layout)?;
                pattern
            }
        };
        // No byte of what was written may pass for something that was read.
        self.parts[part].fill(pattern.complement(), Direction::Read, block);
        let measured = self.transfer(part, contender, (Direction::Read, pattern), open)?;
        let checked = self.parts[part].check(pattern, block);
        let explain = |failure| self.explain(part, contender, Direction::Read, failure);
        self.bench.team.agree(checked.map_err(explain))?;
        Ok(measured)
    }

    /// Writes what a contender will read, by plain system calls.
    fn lay_out(&mut self, part: usize, pattern: Pattern, layout: Layout) -> Result<(), Failure> {
        let written = match layout {
            Layout::Workload => {
                self.expected(part, pattern).write_file(&self.on_disk(part).file, self.share())
            }
            Layout::Block(_) => {
                let own = &mut self.parts[part];
                own.fill(pattern, Direction::Write, true);
                let number = self.program.parts[part].file();
                let start = own.block_start;
                let written = self.files[number].file.write_all_at(own.packed(), start);
                written.map_err(|error| Failure::during("writing the file", error))
            }
        };
        self.bench.team.agree(written)?;
        self.on_disk_mut(part).content = Some((pattern, layout));
        Ok(())
    }

    /// Compares this rank's part of a file of Block I/O.
    fn check_block(&self, part: usize, pattern: Pattern) -> Result<(), Failure> {
        let own = &self.parts[part];
        let mut found = vec![0; own.bytes()];
        read_exact(&self.on_disk(part).file, &mut found, own.block_start)?;
        own.check_block(pattern, &found)
    }

    /// Adds to a failure what was measured.
    fn explain(
        &self,
        part: usize,
        contender: Contender,
        direction: Direction,
        failure: Failure,
    ) -> Failure {
        let (Failure::Usage(text) | Failure::Run(text)) = failure else { return failure };
        let workload = &self.program.parts[part];
        Failure::Run(format!(
            "{}, blocks of {} bytes, {contender}, {}: {text}",
            full_name(&**workload),
            workload.block_bytes(),
            direction.name()
        ))
    }

    /// Moves the bytes of all ranks, with the clock running.
    fn transfer(
        &mut self,
        part: usize,
        contender: Contender,
        (direction, pattern): (Direction, Pattern),
        open: &mut Option<BenchFile>,
    ) -> Result<Measured, Failure> {
        self.enter_page_cache(part)?;
        let turn = match contender {
            Contender::BlockIo if self.bench.settings.device.is_some() => {
                self.plain_turn(part, Work::Block, direction)
            }
            Contender::BlockIo => self.block_turn(part, direction),
            Contender::Plain(plain) => self.plain_turn(part, Work::Plain(plain), direction),
            Contender::Pario(Way { level, .. }) | Contender::Mpi { level, .. } => {
                match self.is_new() {
                    true => self.new_turn(part, (contender, level), direction),
                    false => self.same_turn(part, (contender, level), (direction, pattern), open),
                }
            }
        };
        let turn = turn.map_err(|failure| self.explain(part, contender, direction, failure));
        let (own, statistics) = match turn {
            Ok((turn, statistics)) => (Ok(turn), statistics),
            Err(failure) => (Err(failure), CallStatistics::default()),
        };
        let all = self.bench.team.all(own);
        if let Some(page_cache) = self.bench.page_cache {
            self.bench.team.first(|| page_cache.leave())?;
        }
        Ok(Measured::of(&all?, statistics))
    }

    /// Limits the page cache for all ranks; the file is not in it then.
    fn enter_page_cache(&self, part: usize) -> Result<(), Failure> {
        let Some(page_cache) = self.bench.page_cache else { return Ok(()) };
        self.bench.team.first(|| page_cache.enter(&self.on_disk(part).file))
    }

    /// A rank of Block I/O: one plain system call. Nothing can fail before the start.
    fn block_turn(
        &mut self,
        part: usize,
        direction: Direction,
    ) -> Result<(Turn, CallStatistics), Failure> {
        let (is_new, team) = (self.is_new(), self.bench.team);
        let number = self.program.parts[part].file();
        let on_disk = &self.files[number];
        let own = &mut self.parts[part];
        let offset = own.block_start;
        let step_begin = team.start_together()?;
        let opened = is_new.then(|| open_plain(&on_disk.path, direction)).transpose();
        let opened = opened.map_err(|error| Failure::during("opening the file", error))?;
        let file = opened.as_ref().unwrap_or(&on_disk.file);
        let begin = if is_new { now() } else { step_begin };
        let moved = match direction {
            Direction::Write => file.write_all_at(own.packed(), offset),
            Direction::Read => file.read_exact_at(own.packed(), offset),
        };
        let end = now();
        drop(opened);
        let step = is_new.then(|| (step_begin, now()));
        moved.map_err(|error| Failure::Run(error.to_string()))?;
        let len = u64::try_from(own.bytes()).unwrap_or(u64::MAX);
        let statistics = block_statistics(direction, len, end.saturating_sub(begin));
        Ok((Turn::new(team.clock(), (begin, end), step, &statistics), statistics))
    }

    /// How pario opens the file of a part.
    fn options(&self, way: Way) -> pario::OpenOptions {
        let hint_set = &self.bench.settings.hint_set;
        let hints = with_strategy(hint_set, way.strategy, way.phases);
        let mut options = File::options().read(true).write(true);
        if let Some((_, driver)) = &self.bench.settings.device {
            options = options.driver(Arc::clone(driver));
        }
        hints.iter().fold(options, |options, (key, value)| options.hint(key, value))
    }

    /// Makes the datatypes of MPI for calls of a part, once.
    fn mpi_types(
        &mut self,
        part: usize,
        contender: Contender,
    ) -> Result<Option<Rc<MpiTypes>>, Failure> {
        let Contender::Mpi { whose, .. } = contender else { return Ok(None) };
        if let Some((_, types)) = self.mpi_types.iter().find(|(of, _)| *of == (part, whose)) {
            return Ok(Some(Rc::clone(types)));
        }
        let drop_in = self.bench.settings.drop_in.as_deref();
        let drop_in = drop_in.filter(|_| whose == Implementation::DropIn);
        let types = MpiTypes::new(drop_in, &self.parts[part]).map(Rc::new);
        // All ranks go on, or none.
        let made = types.as_ref().map(|_| ()).map_err(|error| failed(error.clone()));
        self.bench.team.agree(made)?;
        let types = types.map_err(failed)?;
        self.mpi_types.push(((part, whose), Rc::clone(&types)));
        Ok(Some(types))
    }

    /// What opens the file of a part; ready, so that nothing else is in the time of a step.
    fn opener<'t>(
        &'t self,
        part: usize,
        contender: Contender,
        types: Option<Rc<MpiTypes>>,
        create: bool,
    ) -> impl FnOnce() -> pario::Result<BenchFile> + use<'t> {
        let options = match contender {
            Contender::Pario(way) => Some(self.options(way).create(create)),
            _ => None,
        };
        let (comm, path) = (self.bench.team.comm(), &self.on_disk(part).path);
        let hints = self.bench.settings.hint_set.iter();
        move || match (options, types) {
            (Some(options), _) => options.open(comm, path).map(BenchFile::Pario),
            (None, Some(types)) => types.open(path, create, hints),
            (None, None) => unreachable!("the contender opens no file of pario or MPI"),
        }
    }

    /// The file that stays open, opened if it is not, with the view of a direction.
    fn file_with_view(
        &mut self,
        part: usize,
        (contender, level): (Contender, Level),
        direction: Direction,
        open: Option<BenchFile>,
    ) -> Result<BenchFile, Failure> {
        let types = self.mpi_types(part, contender)?;
        let is_first = open.is_none();
        let file = match open {
            Some(file) => file,
            None => self.opener(part, contender, types, false)().map_err(failed)?,
        };
        let own = &self.parts[part];
        if !level.is_by_piece() && (is_first || own.reorders) {
            file.set_view(own, direction).map_err(failed)?;
        }
        Ok(file)
    }

    /// A step on a file that stays open. What comes before the start fails on all ranks or on
    /// none, so that nobody waits there for ever.
    fn same_turn(
        &mut self,
        part: usize,
        (contender, level): (Contender, Level),
        (direction, pattern): (Direction, Pattern),
        open: &mut Option<BenchFile>,
    ) -> Result<(Turn, CallStatistics), Failure> {
        let file = self.file_with_view(part, (contender, level), direction, open.take());
        let (file, opened) = match file {
            Ok(file) => (Some(file), Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        // MPI's own functions may fail on one rank.
        self.bench.team.agree(opened)?;
        let file = file.ok_or(Failure::Told(1))?;
        let (own, team) = (&mut self.parts[part], self.bench.team);
        let pieces = piece_calls(own, level, direction);
        let mut calls = |own: &mut Part<'_>| own.perform(&file, level, direction, &pieces);
        if self.bench.settings.planned {
            plan(own, direction, pattern, &mut calls)?;
        }
        let before = file.statistics();
        let begin = team.start_together()?;
        let moved = calls(own);
        let end = now();
        let mut statistics = difference(file.statistics(), &before);
        file.name_call(&mut statistics);
        moved.map_err(failed)?;
        *open = Some(file);
        Ok((Turn::new(team.clock(), (begin, end), None, &statistics), statistics))
    }

    /// A step with a file of its own: open, view, calls, close.
    fn new_turn(
        &mut self,
        part: usize,
        (contender, level): (Contender, Level),
        direction: Direction,
    ) -> Result<(Turn, CallStatistics), Failure> {
        let types = self.mpi_types(part, contender)?;
        let pieces = piece_calls(&self.parts[part], level, direction);
        let open = self.opener(part, contender, types, direction == Direction::Write);
        let team = self.bench.team;
        let step_begin = team.start_together()?;
        let file = open().map_err(failed)?;
        let own = &mut self.parts[part];
        if !level.is_by_piece() {
            file.set_view(own, direction).map_err(failed)?;
        }
        let begin = now();
        let moved = own.perform(&file, level, direction, &pieces);
        let end = now();
        let mut statistics = file.statistics();
        file.name_call(&mut statistics);
        // The others wait for this rank in the close, whatever has happened to it.
        let closed = file.close();
        let step: Span = (step_begin, now());
        moved.map_err(failed)?;
        closed.map_err(failed)?;
        Ok((Turn::new(team.clock(), (begin, end), Some(step), &statistics), statistics))
    }
}

fn failed(error: pario::Error) -> Failure {
    Failure::Run(error.to_string())
}

/// Makes the calls once, so that their plan is known; what they move must not pass for what the
/// measured ones do.
fn plan<'a>(
    own: &mut Part<'a>,
    direction: Direction,
    pattern: Pattern,
    calls: &mut impl FnMut(&mut Part<'a>) -> pario::Result<()>,
) -> Result<(), Failure> {
    own.fill(pattern.complement(), direction, false);
    calls(own).map_err(failed)?;
    let right = match direction {
        Direction::Write => pattern,
        Direction::Read => pattern.complement(),
    };
    own.fill(right, direction, false);
    Ok(())
}

fn piece_calls(own: &Part<'_>, level: Level, direction: Direction) -> Vec<Piece> {
    match level.is_by_piece() {
        true => own.piece_calls(direction),
        false => Vec::new(),
    }
}

fn block_statistics(direction: Direction, len: u64, storage: Duration) -> CallStatistics {
    let mut statistics = CallStatistics::default();
    statistics.storage = storage;
    (statistics.requested_bytes, statistics.moved_bytes) = (len, len);
    match direction {
        Direction::Write => {
            (statistics.storage_writes, statistics.storage_written_bytes) = (1, len);
        }
        Direction::Read => (statistics.storage_reads, statistics.storage_read_bytes) = (1, len),
    }
    statistics
}

fn open_plain(path: &Path, direction: Direction) -> std::io::Result<fs::File> {
    match direction {
        Direction::Write => OpenOptions::new().write(true).create(true).truncate(false).open(path),
        Direction::Read => OpenOptions::new().read(true).open(path),
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::during(format!("removing {}", path.display()), error))
        }
        _ => Ok(()),
    }
}

/// What a workload and the user want, in the workload's order.
fn in_order(ways: Ways, asked: Directions) -> Vec<Direction> {
    let order: &[Direction] = match ways {
        Ways::Both => &[Direction::Write, Direction::Read],
        Ways::WriteOnly => &[Direction::Write],
        Ways::ReadOnly => &[Direction::Read],
        Ways::ReadFirst => &[Direction::Read, Direction::Write],
    };
    let wanted = |direction: &&Direction| match direction {
        Direction::Write => asked.writes(),
        Direction::Read => asked.reads(),
    };
    order.iter().filter(wanted).copied().collect()
}

/// A workload and its part.
pub(crate) fn full_name(workload: &dyn Workload) -> String {
    match workload.part() {
        "" => workload.name().to_owned(),
        part => format!("{} {part}", workload.name()),
    }
}

/// Keeps this rank's processor busy.
fn compute(time: Duration) {
    let end = now() + time;
    while now() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_moves_its_bytes_in_its_own_order() {
        let (write, read) = (Direction::Write, Direction::Read);
        assert_eq!(in_order(Ways::Both, Directions::Both), [write, read]);
        assert_eq!(in_order(Ways::ReadFirst, Directions::Both), [read, write]);
        assert_eq!(in_order(Ways::ReadOnly, Directions::Both), [read]);
        assert_eq!(in_order(Ways::Both, Directions::Read), [read]);
        assert_eq!(in_order(Ways::WriteOnly, Directions::Read), []);
    }
}
