//! Random programs: steps are drawn until the oracle accepts them.

use super::oracle::{Oracle, wide};
use super::{Call, Device, Piece, Pointer, Program, Step, Transfer, Views};
use crate::generate::Generator;
use crate::recipe::Recipe;
use pario::{AccessMode, Element};
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::io::SeekFrom;

/// Draws of one step before it is left out.
const DRAWS_MAX: u32 = 6;
/// Distance between the parts of ranks that do not share.
const REGION_BYTES: u64 = 700;

struct Draw {
    random: Xoshiro256PlusPlus,
    types: Generator,
    program: Program,
    oracle: Oracle,
    /// The etype of the current views, if they are `external32`.
    external_etype: Option<Recipe>,
}

pub(super) fn program(seed: u64) -> Program {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let ranks = *[1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 11, 16].choose(&mut random).expect("a choice");
    let mut program = Program {
        seed,
        ranks,
        mode: AccessMode::default(),
        device: Device::Memory,
        initial_bytes: None,
        hints: Vec::new(),
        steps: Vec::new(),
    };
    opening(&mut program, &mut random);
    program.hints = hints(&mut random);
    let types = Generator::new(random.random());
    let oracle = Oracle::new(&program).expect("the file can be opened");
    let mut draw = Draw { random, types, program, oracle, external_etype: None };
    if !draw.chance(4) {
        draw.add(|draw| Step::View(draw.views()));
    }
    for _ in 0..draw.random.random_range(1..=6) {
        draw.add(Draw::step);
    }
    draw.program
}

/// Access mode, initial contents and device.
fn opening(program: &mut Program, random: &mut Xoshiro256PlusPlus) {
    program.initial_bytes = match random.random_range(0..12) {
        0 | 1 => None,
        2 => Some(0),
        3 => Some(random.random_range(1..=64)),
        // Beyond the first page of a file in memory.
        4 if random.random_ratio(1, 4) => Some(random.random_range(65_000..=70_000)),
        _ => Some(random.random_range(500..=7000)),
    };
    let exists = program.initial_bytes.is_some();
    let mode = &mut program.mode;
    let kind = random.random_range(0..20);
    (mode.read, mode.write) = match kind {
        0..=2 if exists => (true, false),
        3..=5 => (false, true),
        6 if exists => (true, false),
        7 => (false, true),
        _ => (true, true),
    };
    mode.sequential = kind == 7 || kind == 6 && exists;
    mode.create = !exists || mode.write && random.random();
    mode.exclusive = !exists && random.random();
    mode.append = random.random_ratio(1, 10);
    mode.delete_on_close = random.random_ratio(1, 20);
    mode.unique_open = random.random();
    program.device = match random.random_range(0..8) {
        0 => Device::WithoutLocks,
        1..=3 if !mode.read => Device::WriteOnly,
        _ => Device::Memory,
    };
}

/// Hints, mostly nasty ones.
fn hints(random: &mut Xoshiro256PlusPlus) -> Vec<(String, String)> {
    let switches = ["automatic", "enable", "disable"];
    let strategies = [
        "auto",
        "direct",
        "list",
        "sieve",
        "two-phase",
        "gather",
        "multi-phase",
        "multi-phase",
        "inspector-executor",
    ];
    let mut hints = Vec::new();
    let mut give = |key: &str, value: String| hints.push((key.to_string(), value));
    let mut some = |times: u32| random.random_ratio(1, times);
    let wanted: Vec<bool> =
        [1, 2, 2, 2, 3, 3, 3, 3, 2, 3, 2, 6, 2, 1, 4, 2].map(&mut some).to_vec();
    let size = |random: &mut Xoshiro256PlusPlus| match random.random_range(0..4) {
        // At times shorter than a cache line, and than most elements: such programs take long.
        0 if random.random_ratio(1, 32) => random.random_range(1..64),
        0 => 64,
        1 => random.random_range(64..=256),
        2 => random.random_range(64..=2000),
        _ => random.random_range(64..=1 << 20),
    };
    for (number, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
        let switch = (*switches.choose(random).expect("a choice")).to_string();
        match number {
            0 => give("cb_buffer_size", size(random).to_string()),
            1 => give("cb_nodes", random.random_range(1..=8).to_string()),
            2 => give("ind_rd_buffer_size", size(random).to_string()),
            3 => give("ind_wr_buffer_size", size(random).to_string()),
            4 => give("romio_cb_read", switch),
            5 => give("romio_cb_write", switch),
            6 => give("romio_ds_read", switch),
            7 => give("romio_ds_write", switch),
            8 => {
                let strategy = strategies.choose(random).expect("a choice");
                give("pario_strategy", (*strategy).to_string());
            }
            9 => give("pario_sieve_hole_bytes", random.random_range(0..=4096).to_string()),
            10 => give("striping_unit", random.random_range(1..=300).to_string()),
            11 => give("pario_phases", random.random_range(0..=5).to_string()),
            12 => give("pario_long_piece_bytes", random.random_range(1..=40).to_string()),
            13 => give("pario_shared_windows", switch),
            14 => give("pario_exact_windows", "true".to_string()),
            _ => give("romio_min_fdomain_size", random.random_range(0..=1000).to_string()),
        }
    }
    hints
}

impl Draw {
    /// Adds a step that the oracle accepts; none if it refuses too often.
    fn add(&mut self, draw: impl Fn(&mut Draw) -> Step) {
        for _ in 0..DRAWS_MAX {
            let step = draw(self);
            let mut oracle = self.oracle.clone();
            if oracle.step(self.program.steps.len(), &step).is_err() {
                continue;
            }
            if let Step::View(views) = &step {
                self.external_etype = views.external.then(|| views.etype.clone());
            }
            self.oracle = oracle;
            self.program.steps.push(step);
            return;
        }
    }

    fn step(&mut self) -> Step {
        match self.random.random_range(0..30) {
            0..=4 => Step::View(self.views()),
            5 => Step::Seek((0..self.program.ranks).map(|rank| self.target(rank)).collect()),
            6 => Step::SeekShared(self.target(0)),
            7 => Step::SetSize(self.size()),
            8 => Step::Preallocate(self.size()),
            9 => match self.random.random_range(0..3) {
                0 => Step::Sync,
                1 => Step::Atomicity(self.random.random()),
                _ => Step::Hints(hints(&mut self.random)),
            },
            10..=14 => {
                let count = self.random.random_range(2..=3);
                Step::Transfers((0..count).map(|_| self.transfer(true)).collect())
            }
            _ => Step::Transfers(vec![self.transfer(false)]),
        }
    }

    fn chance(&mut self, times: u32) -> bool {
        self.random.random_ratio(1, times)
    }

    fn size(&mut self) -> u64 {
        let now = wide(self.oracle.file.len());
        match self.random.random_range(0..4) {
            0 => 0,
            1 => now / 2,
            2 => now,
            _ => self.random.random_range(0..=5000),
        }
    }

    fn target(&mut self, rank: usize) -> SeekFrom {
        let distance = self.random.random_range(-20..=20);
        match self.random.random_range(0..3) {
            0 => SeekFrom::Start(self.position(rank)),
            1 => SeekFrom::Current(distance),
            _ => SeekFrom::End(distance.min(5)),
        }
    }

    /// A position in the view: at its start, somewhere, or near the end of the file.
    fn position(&mut self, rank: usize) -> u64 {
        match self.random.random_range(0..4) {
            0 => 0,
            1 => {
                let end = self.oracle.end_position(rank).unwrap_or(0);
                self.random.random_range(end.saturating_sub(12)..=end + 3)
            }
            _ => self.random.random_range(0..=24),
        }
    }

    fn displacement(&mut self) -> u64 {
        match self.random.random_range(0..24) {
            0..=9 => 0,
            // Across the border of two pages of a file in memory.
            10 => self.random.random_range(65_300..65_600),
            11 | 12 => self.random.random_range(0..=2000),
            _ => self.random.random_range(0..=100),
        }
    }

    fn views(&mut self) -> Views {
        let ranks = self.program.ranks;
        let external = self.chance(5);
        if self.chance(8) {
            let etype = Recipe::Element(Element::Byte);
            let displacement = self.displacement();
            return Views { external, ranks: vec![(displacement, etype.clone()); ranks], etype };
        }
        let mut views = match self.random.random_range(0..8) {
            0..=3 => self.shared_array(),
            4..=5 if !self.program.mode.write => self.overlapping(),
            _ => self.own_parts(),
        };
        views.external = external;
        for view in &mut views.ranks {
            if self.chance(25) {
                let old = Box::new(views.etype.clone());
                view.1 = Recipe::Contiguous { count: 0, old };
            }
        }
        views
    }

    /// An array that is distributed over the ranks.
    fn shared_array(&mut self) -> Views {
        let ranks = u32::try_from(self.program.ranks).expect("few ranks");
        let array = self.types.distributed_with_holes(ranks);
        let displacement = self.displacement();
        let ranks = array.filetypes.into_iter().map(|filetype| (displacement, filetype)).collect();
        Views { etype: array.etype, external: false, ranks }
    }

    /// A filetype for each rank, mostly in a part of the file that it has for itself.
    fn own_parts(&mut self) -> Views {
        let etype = self.types.any_etype(16);
        let depth = self.random.random_range(0..=5);
        let (base, apart) = (self.displacement(), !self.chance(4));
        let common = self.chance(4).then(|| self.types.file_type_of(&etype, depth, 32));
        let mut ranks = Vec::new();
        for rank in 0..self.program.ranks {
            let own = match apart {
                true => wide(rank) * REGION_BYTES,
                false => self.random.random_range(0..=60),
            };
            let filetype = match &common {
                Some(filetype) => filetype.clone(),
                None => self.types.file_type_of(&etype, depth, 32),
            };
            ranks.push((base + own, filetype));
        }
        Views { etype, external: false, ranks }
    }

    /// Views for reading that name bytes more than once.
    fn overlapping(&mut self) -> Views {
        let etype =
            Recipe::Element(*[Element::Byte, Element::I16].choose(&mut self.random).expect("2"));
        let unit = etype.typemap().extent();
        let mut ranks = Vec::new();
        for _ in 0..self.program.ranks {
            let block_len = self.random.random_range(1..=6);
            let mut place = 0;
            let displacements: Vec<i64> = (0..self.random.random_range(1..=5))
                .map(|_| {
                    place += self.random.random_range(1..=8);
                    place
                })
                .collect();
            let extent = self.random.random_range(1..=place + 8) * unit;
            let old = Box::new(etype.clone());
            let old = Box::new(Recipe::IndexedBlock { block_len, displacements, old });
            ranks.push((self.displacement(), Recipe::Resized { lower_bound: 0, extent, old }));
        }
        Views { etype, external: false, ranks }
    }

    fn transfer(&mut self, in_company: bool) -> Transfer {
        let mode = self.program.mode;
        // Calls that are under way together must not overlap; writes at own pointers seldom do.
        let writes = if in_company { 4 } else { 2 };
        let write = mode.write && (!mode.read || !self.chance(writes));
        let collective = self.random.random_ratio(3, 5);
        let pointer = match self.random.random_range(0..10) {
            _ if mode.sequential => Pointer::Shared,
            0..=3 if !in_company => Pointer::Explicit,
            0 | 1 => Pointer::Explicit,
            2..=7 => Pointer::Individual,
            _ => Pointer::Shared,
        };
        let call = match self.random.random_range(0..10) {
            0..=2 => Call::Nonblocking,
            3 if collective => Call::Split,
            4 | 5 if collective => Call::Planned(self.random.random_range(1..=3)),
            4..=6 if in_company => Call::Nonblocking,
            _ => Call::Blocking,
        };
        let alone = pointer == Pointer::Shared && !collective;
        let in_turns = !collective && !in_company && (alone || self.chance(3));
        let mut pieces: Vec<Option<Piece>> =
            (0..self.program.ranks).map(|rank| self.piece(rank)).collect();
        if self.chance(6) {
            // Only one rank has something to do.
            let one = self.random.random_range(0..self.program.ranks);
            let others = pieces.iter_mut().enumerate().filter(|(rank, _)| *rank != one);
            others.for_each(|(_, piece)| *piece = None);
        }
        Transfer { write, collective, pointer, call, in_turns, pieces }
    }

    fn piece(&mut self, rank: usize) -> Option<Piece> {
        if self.chance(8) {
            return None;
        }
        let at = self.position(rank);
        let view = self.oracle.views[rank].clone();
        let etypes = match self.random.random_range(0..8) {
            _ if view.offset(0).is_none() => 0,
            0 => 0,
            1..=3 => self.random.random_range(1..=4),
            4..=6 => self.random.random_range(1..=24),
            _ => self.random.random_range(1..=400 / view.etype_bytes.max(2)),
        };
        let plain = Piece { at, count: etypes * view.etype_bytes, memory: None };
        if let Some(etype) = self.external_etype.clone() {
            return Some(self.typed_elements(at, etypes, etype));
        }
        if etypes == 0 || self.random.random() {
            return Some(plain);
        }
        let depth = self.random.random_range(0..=4);
        let memory = self.types.memory_type(depth, 48);
        // The least number of values that is a whole number of etypes, and some times that.
        let size = memory.typemap().size();
        let whole =
            (1..=view.etype_bytes).find(|count| (count * size).is_multiple_of(view.etype_bytes));
        let least = whole.unwrap_or(1);
        let turns = (plain.count / (least * size).max(1)).clamp(1, 64);
        match least * turns * size {
            1..=800 => Some(Piece { at, count: least * turns, memory: Some(memory) }),
            _ => Some(plain),
        }
    }

    /// Values whose elements are those of an etype, for `external32`.
    fn typed_elements(&mut self, at: u64, etypes: u64, etype: Recipe) -> Piece {
        let stride = self.random.random_range(1..=3);
        let old = Box::new(etype.clone());
        match self.random.random_range(0..3) {
            0 => Piece { at, count: etypes, memory: Some(etype) },
            1 => {
                let memory = Recipe::Vector { count: etypes, block_len: 1, stride, old };
                Piece { at, count: 1, memory: Some(memory) }
            }
            _ => {
                let (block_len, count) = (2, etypes / 2);
                let displacements = vec![3 * stride, 0];
                let memory = Recipe::IndexedBlock { block_len, displacements, old };
                Piece { at, count: count / 2, memory: Some(memory) }
            }
        }
    }
}
