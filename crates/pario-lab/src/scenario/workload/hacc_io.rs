//! HACC-IO (paper 001, sections II-C and III-A): the checkpoint of a cosmology code.
//!
//! Each rank has `numparticles` particles with nine variables, 38 bytes together: xx, yy, zz, vx,
//! vy, vz and phi of 4 bytes, pid of 8, mask of 2. Each variable is an array in memory and is
//! moved by a call of its own. The benchmark's two layouts of the file: `aos` keeps the arrays of
//! a rank together, one after the other; `soa` keeps the arrays of a variable together, one rank
//! after the other. The header, a few bytes that rank 0 writes, is left out.
//!
//! The paper has 13,107,200 particles on each of 4 ranks, though its text says in total: 1.99 GB.

use std::ops::Range;

use pario::{Datatype, View};

use super::{Kind, Made, Parameter, Program, Runs, Values, Wanted, Workload};
use super::{bytes, distance, product, view};

const NAME: &str = "hacc-io";
/// Bytes of xx, yy, zz, vx, vy, vz, phi, pid and mask.
const VARIABLES: [u64; 9] = [4, 4, 4, 4, 4, 4, 4, 8, 2];
const PARTICLE_BYTES: u64 = 38;

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "numparticles",
            values: Values::Number(1),
            paper: 13_107_200,
            quick: 25_000,
            about: "particles of each rank, or as many as fit in --bytes",
        },
        Parameter {
            name: "layout",
            values: Values::Words(&["aos", "soa"]),
            paper: 0,
            quick: 1,
            about: "aos (a rank's arrays together) or soa (a variable's arrays together)",
        },
    ],
    ranks: 4,
    on_request: true,
    about: "nine variables, 38 bytes of each particle (paper 001)",
};

struct HaccIo {
    ranks: u32,
    particles: u64,
    by_variable: bool,
}

fn make(wanted: &Wanted<'_>) -> Made {
    let ranks = u64::from(wanted.ranks);
    let particles = wanted.number_or("numparticles", |bytes| bytes / PARTICLE_BYTES / ranks);
    if particles == 0 {
        return Err(format!("{NAME} needs at least {PARTICLE_BYTES} bytes for each rank"));
    }
    product(&[particles, PARTICLE_BYTES, ranks], "numparticles")?;
    let by_variable = wanted.number("layout") == 1;
    let hacc_io = HaccIo { ranks: wanted.ranks, particles, by_variable };
    Ok(vec![Program::of(hacc_io, wanted)])
}

impl HaccIo {
    /// A rank's arrays in the file, one for each variable.
    fn arrays(&self, rank: u32) -> impl Iterator<Item = Range<u64>> {
        let (particles, rank, ranks) = (self.particles, u64::from(rank), u64::from(self.ranks));
        let by_variable = self.by_variable;
        let start = move |before: u64, bytes: u64| match by_variable {
            true => (before * ranks + bytes * rank) * particles,
            false => (before + PARTICLE_BYTES * rank) * particles,
        };
        VARIABLES.into_iter().scan(0, move |before, bytes| {
            let start = start(*before, bytes);
            *before += bytes;
            Some(start..start + bytes * particles)
        })
    }
}

impl Workload for HaccIo {
    fn name(&self) -> &str {
        NAME
    }

    fn shape(&self) -> String {
        let layout = if self.by_variable { "soa" } else { "aos" };
        format!("{} particles of 38 bytes on each rank, {layout}", self.particles)
    }

    fn block_bytes(&self) -> u64 {
        8 * self.particles
    }

    fn file_bytes(&self) -> u64 {
        PARTICLE_BYTES * self.particles * u64::from(self.ranks)
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let arrays: Vec<Range<u64>> = self.arrays(rank).collect();
        let lens: Vec<u64> = arrays.iter().map(|array| array.end - array.start).collect();
        let places: Vec<i64> = arrays.iter().map(|array| distance(array.start)).collect();
        Ok(view(0, &Datatype::hindexed(&lens, &places, &bytes(1)?)?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        Box::new(self.arrays(rank))
    }

    fn calls(&self, _rank: u32) -> Option<Vec<u64>> {
        Some(VARIABLES.map(|bytes| bytes * self.particles).to_vec())
    }
}
