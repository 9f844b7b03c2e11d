//! What a program must do: a vector of bytes, some pointers, and a loop over bytes.
//!
//! The rules, where the standard leaves room:
//!
//! * A read ends before the first byte, in data order, that lies at or beyond the end of the
//!   file; what follows in memory stays as it was. In `external32` only whole elements are read.
//! * [`Outcome::moved`] counts bytes in memory.
//! * Pointers move by what was asked for, also where the file ends. A plan moves the individual
//!   pointer when it is made, not when it runs.
//! * The end of a view is after the last etype that has a byte in the file.
//! * Calls that are under way together may share bytes only if all of them read. Calls that read
//!   while others write end before the end of the file.

use super::external;
use super::seen::{Request, SeenFile};
use super::{Call, Device, Piece, Pointer, Program, Step, Transfer, Views};
use crate::typemap::Typemap;
use pario::Element;
use std::collections::HashMap;
use std::io::SeekFrom;
use std::sync::Arc;

/// Largest file of a program.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// What must be true after a step.
#[derive(Debug)]
pub struct Expected {
    /// All bytes of the file.
    pub file: Vec<u8>,
    /// The individual pointers.
    pub pointers: Vec<u64>,
    /// The shared pointer.
    pub shared: u64,
    /// For each transfer and each rank that takes part, one outcome for each run.
    pub outcomes: Vec<Vec<Vec<Outcome>>>,
}

/// What one call does to the rank's memory.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The memory before the call.
    pub before: Vec<u8>,
    /// The memory after the call.
    pub after: Vec<u8>,
    /// Index of the datatype's offset 0.
    pub origin: usize,
    /// Bytes that moved.
    pub moved: u64,
}

/// A file and its pointers.
#[derive(Clone)]
pub struct Oracle {
    seed: u64,
    readable: bool,
    writable: bool,
    sequential: bool,
    locks: bool,
    pub(super) file: Vec<u8>,
    pub(super) views: Vec<Arc<SeenFile>>,
    pointers: Vec<u64>,
    shared: u64,
}

/// Applies a whole program; an error says why it is none.
///
/// # Errors
///
/// If the program breaks a rule, so that its outcome is not defined.
pub fn apply(program: &Program) -> Result<Vec<Expected>, String> {
    let mut oracle = Oracle::new(program)?;
    program.steps.iter().enumerate().map(|(number, step)| oracle.step(number, step)).collect()
}

pub(super) fn require(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_string()) }
}

impl Oracle {
    /// The file as the program finds it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened like this.
    pub fn new(program: &Program) -> Result<Oracle, String> {
        let mode = &program.mode;
        let initial = program.initial();
        require(initial.is_some() || mode.create, "there is no file")?;
        require(initial.is_none() || !mode.exclusive, "the file exists")?;
        require(mode.write || !mode.create, "create needs write")?;
        require(mode.create || !mode.exclusive, "exclusive needs create")?;
        require(mode.read || mode.write, "neither read nor write")?;
        require(!(mode.sequential && mode.read && mode.write), "sequential in both directions")?;
        require(!mode.read || program.device != Device::WriteOnly, "not readable")?;
        let file = initial.unwrap_or_default();
        let start = if mode.append { wide(file.len()) } else { 0 };
        let byte = Typemap::element(Element::Byte);
        let view = Arc::new(SeenFile::new(0, &byte, &byte, mode.write)?);
        Ok(Oracle {
            seed: program.seed,
            readable: mode.read,
            writable: mode.write,
            sequential: mode.sequential,
            locks: program.device != Device::WithoutLocks || program.ranks == 1,
            file,
            views: vec![view; program.ranks],
            pointers: vec![start; program.ranks],
            shared: start,
        })
    }

    /// Applies one step.
    ///
    /// # Errors
    ///
    /// If its outcome is not defined; the oracle is then of no more use.
    pub fn step(&mut self, number: usize, step: &Step) -> Result<Expected, String> {
        let mut outcomes = Vec::new();
        match step {
            Step::View(views) => self.set_views(views)?,
            Step::Transfers(transfers) => outcomes = self.transfers(number, transfers)?,
            Step::Seek(targets) => {
                require(!self.sequential, "seek in a sequential file")?;
                require(targets.len() == self.pointers.len(), "a target for each rank")?;
                for (rank, target) in targets.iter().enumerate() {
                    self.pointers[rank] = self.seek(rank, *target, self.pointers[rank])?;
                }
            }
            Step::SeekShared(target) => {
                require(!self.sequential, "seek in a sequential file")?;
                let ends: Result<Vec<u64>, String> = (0..self.views.len())
                    .map(|rank| self.seek(rank, *target, self.shared))
                    .collect();
                let ends = ends?;
                require(ends.iter().all(|end| *end == ends[0]), "the ranks differ")?;
                self.shared = ends[0];
            }
            Step::SetSize(bytes) => {
                require(self.writable && *bytes <= FILE_BYTES_MAX, "set_size")?;
                self.file.resize(narrow(*bytes), 0);
            }
            Step::Preallocate(bytes) => {
                require(self.writable && *bytes <= FILE_BYTES_MAX, "preallocate")?;
                self.file.resize(narrow(*bytes).max(self.file.len()), 0);
            }
            Step::Atomicity(on) => require(!on || self.locks, "no range locks")?,
            Step::Sync | Step::Hints(_) => {}
        }
        let (file, pointers) = (self.file.clone(), self.pointers.clone());
        Ok(Expected { file, pointers, shared: self.shared, outcomes })
    }

    fn set_views(&mut self, views: &Views) -> Result<(), String> {
        require(views.ranks.len() == self.views.len(), "a view for each rank")?;
        let map = |recipe: &crate::recipe::Recipe| match views.external {
            true => external::in_file(recipe).typemap(),
            false => recipe.typemap(),
        };
        let etype = map(&views.etype);
        for (rank, (displacement, filetype)) in views.ranks.iter().enumerate() {
            let mut view = SeenFile::new(*displacement, &etype, &map(filetype), self.writable)?;
            view.external = views.external;
            self.views[rank] = Arc::new(view);
        }
        self.pointers.fill(0);
        self.shared = 0;
        Ok(())
    }

    fn seek(&self, rank: usize, target: SeekFrom, current: u64) -> Result<u64, String> {
        let (base, distance) = match target {
            SeekFrom::Start(position) => return Ok(position),
            SeekFrom::Current(distance) => (current, distance),
            SeekFrom::End(distance) => (self.end_position(rank)?, distance),
        };
        base.checked_add_signed(distance).ok_or_else(|| "before the start".to_string())
    }

    /// The number of etypes that have a byte in the file.
    pub(super) fn end_position(&self, rank: usize) -> Result<u64, String> {
        let view = &self.views[rank];
        require(view.sorted, "the end of a view that names bytes twice")?;
        let inside = |data: &u64| view.offset(*data).is_some_and(|at| at < self.file.len());
        let bytes = wide((0..).take_while(inside).count());
        Ok(bytes.div_ceil(view.etype_bytes))
    }

    fn transfers(
        &mut self,
        number: usize,
        transfers: &[Transfer],
    ) -> Result<Vec<Vec<Vec<Outcome>>>, String> {
        let mixed = transfers.iter().any(|one| one.write) && transfers.iter().any(|one| !one.write);
        let splits = transfers.iter().filter(|one| one.call == Call::Split).count();
        require(splits <= 1, "one split collective at a time")?;
        let size_before = self.file.len();
        let mut users = HashMap::new();
        let mut outcomes = Vec::new();
        for (nth, transfer) in transfers.iter().enumerate() {
            self.check(transfer, transfers.len())?;
            let mut of_ranks = vec![Vec::new(); self.views.len()];
            for (rank, piece) in transfer.pieces.iter().enumerate() {
                let Some(piece) = piece else { continue };
                let seed = mix(self.seed, &[number, nth, rank]);
                let request = self.request(transfer, rank, piece, seed)?;
                if mixed && !transfer.write {
                    let inside = request.offsets.iter().all(|offset| *offset < size_before);
                    require(inside, "reads at the end of a file that grows")?;
                }
                if !transfer.in_turns {
                    share(&mut users, (nth, rank), transfer.write, &request.offsets)?;
                }
                for run in 0..transfer.call.runs() {
                    of_ranks[rank].push(self.run(transfer.write, &request, run)?);
                }
            }
            outcomes.push(of_ranks);
        }
        Ok(outcomes)
    }

    /// Whether pario must accept a transfer.
    fn check(&self, transfer: &Transfer, together: usize) -> Result<(), String> {
        let Transfer { write, collective, pointer, call, in_turns, pieces } = transfer;
        require(pieces.len() == self.views.len(), "a piece for each rank")?;
        require(if *write { self.writable } else { self.readable }, "not permitted")?;
        require(!self.sequential || *pointer == Pointer::Shared, "a sequential file")?;
        let alone = *pointer == Pointer::Shared && !collective;
        require(!alone || *in_turns, "the order of the ranks is not defined")?;
        require(!in_turns || !collective && together == 1, "turns in company")?;
        match call {
            Call::Blocking | Call::Nonblocking => Ok(()),
            Call::Split => require(*collective, "split calls are collective"),
            Call::Planned(_) => {
                let native = self.views.iter().all(|view| !view.external);
                let planned = *collective && *pointer != Pointer::Shared && native;
                require(planned, "plans are collective, native, and stay where they are")
            }
        }
    }

    /// Finds the place of a piece, and moves the pointer.
    fn request(
        &mut self,
        transfer: &Transfer,
        rank: usize,
        piece: &Piece,
        seed: u64,
    ) -> Result<Request, String> {
        let view = self.views[rank].clone();
        let map = piece.typemap();
        require(transfer.write || !map.overlaps(piece.count), "memory that overlaps")?;
        let in_file = |element: &Element| match view.external {
            true => wide(external::external_bytes(*element)),
            false => wide(external::size(*element)),
        };
        let len = map.elements.iter().map(in_file).sum::<u64>() * piece.count;
        require(len.is_multiple_of(view.etype_bytes), "not a whole number of etypes")?;
        let etypes = len / view.etype_bytes;
        let pointer = match transfer.pointer {
            Pointer::Explicit => &mut piece.at.clone(),
            Pointer::Individual => &mut self.pointers[rank],
            Pointer::Shared => &mut self.shared,
        };
        let start = *pointer * view.etype_bytes;
        *pointer += etypes;
        let offsets: Option<Vec<usize>> =
            (start..start + len).map(|data| view.offset(data)).collect();
        let offsets = offsets.ok_or("a view without bytes")?;
        let far = offsets.iter().any(|offset| wide(*offset) >= FILE_BYTES_MAX);
        require(!far, "the file becomes too large")?;
        Ok(Request { rank, map, count: piece.count, offsets, seed })
    }

    /// One call of one rank.
    fn run(&mut self, write: bool, request: &Request, run: usize) -> Result<Outcome, String> {
        let external = self.views[request.rank].external;
        let (mut before, origin) = request.memory(run);
        if external {
            request.tame(&mut before, origin);
        }
        let mut after = before.clone();
        let packed = request.map.pack(request.count, &before, origin);
        if write {
            let data = if external { request.encode(&packed) } else { packed };
            for (byte, &offset) in data.iter().zip(&request.offsets) {
                if offset >= self.file.len() {
                    self.file.resize(offset + 1, 0);
                }
                self.file[offset] = *byte;
            }
            let moved = request.map.size() * request.count;
            return Ok(Outcome { before, after, origin, moved });
        }
        let there = request.offsets.iter().map_while(|offset| self.file.get(*offset));
        let data: Vec<u8> = there.copied().collect();
        let data = if external { request.decode(&data) } else { data };
        request.map.unpack(request.count, &data, &mut after, origin);
        Ok(Outcome { before, after, origin, moved: wide(data.len()) })
    }
}

impl Call {
    /// How often the bytes move.
    pub(super) fn runs(self) -> usize {
        if let Call::Planned(runs) = self { runs } else { 1 }
    }
}

/// Who uses a byte, and whether to write.
type Users = HashMap<usize, ((usize, usize), bool)>;

/// Refuses bytes that one call writes and another one uses.
fn share(
    users: &mut Users,
    who: (usize, usize),
    write: bool,
    offsets: &[usize],
) -> Result<(), String> {
    for &offset in offsets {
        let (user, writes) = *users.entry(offset).or_insert((who, write));
        require(user == who || !write && !writes, "two calls share a byte")?;
    }
    Ok(())
}

pub(super) fn mix(seed: u64, numbers: &[usize]) -> u64 {
    numbers.iter().fold(seed, |mixed, &number| {
        (mixed ^ wide(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

pub(super) fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("a length fits in 64 bits")
}

pub(super) fn narrow(len: u64) -> usize {
    usize::try_from(len).expect("the oracle handles small files")
}
