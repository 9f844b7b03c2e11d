//! UNSTRUC of papers 003 (section 7) and 004 (section 5): an irregular mesh.
//!
//! The file has the elements in the order of their global numbers. Each rank has as many of them,
//! in a local array in no order: a random mapping, which follows from the seed, says where each
//! element of the local arrays is in the file. The papers have 8 million elements of 64 bytes on
//! 8 to 256 ranks, a power of two; here any number of ranks and bytes will do.

use std::ops::Range;

use pario::{Datatype, View};

use super::random::Random;
use super::{Kind, Made, Memory, Parameter, Program, Runs, Values, Wanted, Workload};
use super::{bytes, product, share, view};

const NAME: &str = "unstruc";

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "elements",
            values: Values::Number(1),
            paper: 8_000_000,
            quick: 50_000,
            about: "elements of the mesh, or as many as fit in --bytes",
        },
        Parameter {
            name: "element_bytes",
            values: Values::Number(1),
            paper: 64,
            quick: 64,
            about: "bytes of an element",
        },
        Parameter {
            name: "seed",
            values: Values::Number(0),
            paper: 1,
            quick: 1,
            about: "seed of the random mapping",
        },
    ],
    ranks: 16,
    on_request: true,
    about: "an irregular mesh, in random order in memory (papers 003 and 004)",
};

struct Unstruc {
    ranks: u32,
    element_bytes: u64,
    seed: u64,
    /// For each element its place in the local arrays of all ranks, one after the other.
    places: Vec<u32>,
}

fn make(wanted: &Wanted<'_>) -> Made {
    let element_bytes = wanted.number("element_bytes");
    let elements = wanted.number_or("elements", |bytes| bytes / element_bytes);
    product(&[elements, element_bytes], "elements")?;
    if elements == 0 {
        let bytes = wanted.bytes.unwrap_or(0);
        return Err(format!("--bytes {bytes}: {NAME} needs at least {element_bytes}"));
    }
    let Ok(count) = u32::try_from(elements) else {
        return Err(format!("elements={elements}: {NAME} can have {} at most", u32::MAX));
    };
    let seed = wanted.number("seed");
    let places = Random::new(seed).permutation(count);
    let workload = Unstruc { ranks: wanted.ranks, element_bytes, seed, places };
    Ok(vec![Program::of(workload, wanted)])
}

impl Unstruc {
    fn elements(&self) -> u64 {
        u64::try_from(self.places.len()).unwrap_or(u64::MAX)
    }

    /// A rank's part of all local arrays.
    fn own(&self, rank: u32) -> Range<u64> {
        share(self.elements(), u64::from(rank), u64::from(self.ranks))
    }

    /// A rank's elements in the order of the file: their global and their local numbers.
    fn pairs(&self, rank: u32) -> impl Iterator<Item = (u64, u64)> {
        let own = self.own(rank);
        let pairs = (0..).zip(&self.places).map(|(global, &place)| (global, u64::from(place)));
        let pairs = pairs.filter(move |(_, place)| own.contains(place));
        let start = self.own(rank).start;
        pairs.map(move |(global, place)| (global, place - start))
    }

    fn run(&self, number: u64) -> Range<u64> {
        number * self.element_bytes..(number + 1) * self.element_bytes
    }

    fn datatype(&self, numbers: impl Iterator<Item = u64>) -> pario::Result<Datatype> {
        let numbers: Vec<i64> = numbers.map(u64::cast_signed).collect();
        Datatype::indexed_block(1, &numbers, &bytes(self.element_bytes)?)
    }
}

impl Workload for Unstruc {
    fn name(&self) -> &str {
        NAME
    }

    fn shape(&self) -> String {
        let (elements, bytes, seed) = (self.elements(), self.element_bytes, self.seed);
        format!("{elements} elements of {bytes} bytes, in random order in memory, seed {seed}")
    }

    fn block_bytes(&self) -> u64 {
        self.element_bytes
    }

    fn file_bytes(&self) -> u64 {
        self.elements() * self.element_bytes
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        Ok(view(0, &self.datatype(self.pairs(rank).map(|(global, _)| global))?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        Box::new(self.pairs(rank).map(|(global, _)| self.run(global)))
    }

    fn memory(&self, rank: u32) -> pario::Result<Option<Memory>> {
        let own = self.own(rank);
        let datatype = self.datatype(self.pairs(rank).map(|(_, local)| local))?;
        Ok(Some(Memory { datatype, bytes: (own.end - own.start) * self.element_bytes }))
    }

    fn memory_runs(&self, rank: u32) -> Option<Runs<'_>> {
        Some(Box::new(self.pairs(rank).map(|(_, local)| self.run(local))))
    }
}
