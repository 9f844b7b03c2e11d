//! STEM-II, an air quality model (paper 000, sections 2 and 5): arrays SL(x, y, z, l, ph) of
//! floats in the order of Fortran, with y in blocks over the ranks. Only x is contiguous.
//!
//! SL1 to SL3 are the arrays of table 1. Every rank has room for the whole array and uses its own
//! entries of it (figure 3). `loop` is the program of figure 1: in each time step the ranks
//! compute, then write SL1 for the visualisation; every few steps they write the complete state,
//! here all three arrays, as a checkpoint into a file of its own.

use std::ops::Range;
use std::time::Duration;

use pario::{Datatype, Field, Order, View};

use super::{Kind, Made, Memory, Parameter, Program, Runs, Step, Values, Wanted, Workload};
use super::{bytes, distance, product, view};

const NAME: &str = "stem2";
const ELEMENT_BYTES: u64 = 4;

/// Names, and Nx, Ny, Nz and Nph of table 1.
const ARRAYS: [(&str, [u64; 4]); 3] =
    [("SL1", [61, 61, 15, 3]), ("SL2", [61, 61, 15, 6]), ("SL3", [92, 61, 15, 3])];
const ALL: u64 = 0;
const LOOP: u64 = 4;

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "array",
            values: Values::Words(&["all", "SL1", "SL2", "SL3", "loop"]),
            paper: ALL,
            quick: ALL,
            about: "all, SL1, SL2, SL3, or the loop over time steps",
        },
        Parameter {
            name: "Nl",
            values: Values::Number(1),
            paper: 56,
            quick: 4,
            about: "chemical species, the fourth dimension",
        },
        Parameter {
            name: "Ntime_steps",
            values: Values::Number(1),
            paper: 4,
            quick: 2,
            about: "time steps of the loop",
        },
        Parameter {
            name: "checkpoint",
            values: Values::Number(1),
            paper: 2,
            quick: 2,
            about: "time steps from one checkpoint to the next",
        },
        Parameter {
            name: "compute_ms",
            values: Values::Number(0),
            paper: 100,
            quick: 1,
            about: "milliseconds of computing in each time step",
        },
    ],
    ranks: 16,
    on_request: true,
    about: "an air quality model: its arrays and its time steps (paper 000)",
};

#[derive(Clone, Copy)]
struct Array {
    x: u64,
    y: u64,
    /// z, l and ph are one dimension, since only y is distributed.
    rest: u64,
    /// Where it begins in the file, and in memory.
    start: u64,
}

struct Stem2 {
    part: &'static str,
    arrays: Vec<Array>,
    file: usize,
    ranks: u32,
}

fn make(wanted: &Wanted<'_>) -> Made {
    let species = wanted.number("Nl");
    let chosen = wanted.number("array");
    let mut programs = Vec::new();
    for (number, &(part, sizes)) in (1..).zip(&ARRAYS) {
        if chosen == ALL || chosen == number {
            let stem2 = Stem2::new(part, &[sizes], species, wanted.ranks)?;
            programs.push(Program::of(stem2, wanted));
        }
    }
    if chosen == ALL || chosen == LOOP {
        programs.push(time_steps(wanted, species)?);
    }
    Ok(programs)
}

/// The loop over time steps: compute, output, and now and then a checkpoint.
fn time_steps(wanted: &Wanted<'_>, species: u64) -> Result<Program, String> {
    let output = Stem2::new("output", &[ARRAYS[0].1], species, wanted.ranks)?;
    let all = ARRAYS.map(|(_, sizes)| sizes);
    let checkpoint = Stem2::new("checkpoint", &all, species, wanted.ranks)?;
    let checkpoint = Stem2 { file: 1, ..checkpoint };
    let compute = Duration::from_millis(wanted.number("compute_ms"));
    let mut steps = Vec::new();
    for step in 1..=wanted.number("Ntime_steps") {
        steps.push(Step { part: 0, compute });
        if step.is_multiple_of(wanted.number("checkpoint")) {
            steps.push(Step { part: 1, compute: Duration::ZERO });
        }
    }
    Ok(Program { parts: vec![Box::new(output), Box::new(checkpoint)], steps })
}

impl Array {
    fn plane_bytes(&self) -> u64 {
        self.x * self.y * ELEMENT_BYTES
    }

    fn bytes(&self) -> u64 {
        self.plane_bytes() * self.rest
    }

    fn block_len(&self, ranks: u32) -> u64 {
        self.y.div_ceil(u64::from(ranks))
    }

    /// The y of a rank; the last ranks may have fewer, or none.
    fn own(&self, rank: u32, ranks: u32) -> Range<u64> {
        let block_len = self.block_len(ranks);
        let start = (u64::from(rank) * block_len).min(self.y);
        start..(start + block_len).min(self.y)
    }

    /// A rank's bytes of each plane.
    fn runs(self, rank: u32, ranks: u32) -> impl Iterator<Item = Range<u64>> {
        let own = self.own(rank, ranks);
        let row_bytes = self.x * ELEMENT_BYTES;
        let run = move |number: u64| {
            let plane = self.start + number * self.plane_bytes();
            plane + own.start * row_bytes..plane + own.end * row_bytes
        };
        (0..self.rest).map(run).filter(|run| !run.is_empty())
    }

    fn datatype(&self, rank: u32, ranks: u32) -> pario::Result<Datatype> {
        let own = self.own(rank, ranks);
        let sizes = [self.x, self.y, self.rest];
        let part = [self.x, own.end - own.start, self.rest];
        let starts = [0, own.start, 0];
        Datatype::subarray(&sizes, &part, &starts, Order::Fortran, &Datatype::of::<f32>())
    }
}

impl Stem2 {
    /// Arrays one after the other.
    fn new(
        part: &'static str,
        all: &[[u64; 4]],
        species: u64,
        ranks: u32,
    ) -> Result<Stem2, String> {
        let (mut arrays, mut start) = (Vec::new(), 0);
        for &[x, y, z, phases] in all {
            product(&[x, y, z, phases, species, ELEMENT_BYTES, 8], "Nl")?;
            let array = Array { x, y, rest: z * species * phases, start };
            start += array.bytes();
            arrays.push(array);
        }
        Ok(Stem2 { part, arrays, file: 0, ranks })
    }

    /// A rank's part of the arrays; the same in the file and in memory.
    fn datatype(&self, rank: u32) -> pario::Result<Datatype> {
        let own = |array: &&Array| !array.own(rank, self.ranks).is_empty();
        let field = |array: &Array| {
            let datatype = array.datatype(rank, self.ranks)?;
            Ok(Field { block_len: 1, displacement: distance(array.start), datatype })
        };
        let fields = self.arrays.iter().filter(own).map(field);
        let fields = fields.collect::<pario::Result<Vec<Field>>>()?;
        match fields.is_empty() {
            true => bytes(0),
            false => Datatype::structure(&fields),
        }
    }
}

impl Workload for Stem2 {
    fn name(&self) -> &str {
        NAME
    }

    fn part(&self) -> &str {
        self.part
    }

    fn shape(&self) -> String {
        let shape = |array: &Array| format!("{}x{}x{}", array.x, array.y, array.rest);
        let shapes: Vec<String> = self.arrays.iter().map(shape).collect();
        format!("{} floats, y over {} ranks", shapes.join(" and "), self.ranks)
    }

    fn block_bytes(&self) -> u64 {
        let longest = |array: &Array| array.x * array.block_len(self.ranks) * ELEMENT_BYTES;
        self.arrays.iter().map(longest).max().unwrap_or(0)
    }

    fn file_bytes(&self) -> u64 {
        self.arrays.iter().map(Array::bytes).sum()
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        Ok(view(0, &self.datatype(rank)?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        Box::new(self.arrays.iter().flat_map(move |array| array.runs(rank, self.ranks)))
    }

    fn memory(&self, rank: u32) -> pario::Result<Option<Memory>> {
        Ok(Some(Memory { datatype: self.datatype(rank)?, bytes: self.file_bytes() }))
    }

    fn memory_runs(&self, rank: u32) -> Option<Runs<'_>> {
        Some(self.runs(rank))
    }

    fn file(&self) -> usize {
        self.file
    }
}
