//! Workloads: which bytes of the file each rank has, where they lie in its memory, and how many
//! calls move them.
//!
//! A workload says all that twice: as datatypes, which pario is measured with, and as runs of
//! bytes, which buffers are filled and checked with. The second way shares no code with pario, so
//! that a wrong datatype or a wrong layout is found.
//!
//! | file | workload | where it is defined |
//! | --- | --- | --- |
//! | `block_cyclic` | a vector dealt out in blocks | paper 002, section 4.2 |
//! | `dist3d` | a cube, (block, block, block) | papers 003, section 7, and 004, section 5 |
//! | `btio` | NAS BT, multipartitioned | the same |
//! | `unstruc` | an irregular mesh | the same |
//! | `stem2` | an air quality model and its time steps | paper 000, sections 2 and 5 |
//! | `ior` | segments, blocks, transfers | paper 001, sections II-C and III-B |
//! | `hacc_io` | nine variables of particles | paper 001, sections II-C and III-A |
//! | `madbench2` | matrices in three phases | the same |
//! | `s3asim` | results of a sequence search | the same |
//! | `description` | any pattern, from a file | `docs/bench.md` |
//!
//! A new workload is one file here and one line in `KINDS`.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use pario::{Datatype, View};

mod block_cyclic;
mod btio;
pub(crate) mod description;
mod dist3d;
mod hacc_io;
mod ior;
mod madbench2;
mod parameter;
mod random;
mod s3asim;
mod stem2;
mod unstruc;

pub(crate) use parameter::{Chosen, Parameter, Values, parse as parse_parameters};

/// Ranges of bytes: of a file, or of a rank's memory.
pub(crate) type Runs<'a> = Box<dyn Iterator<Item = Range<u64>> + 'a>;

/// Which way the bytes of a workload go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// They are written; then they are read.
    Both,
    WriteOnly,
    ReadOnly,
    /// They are read; then others are written over them.
    ReadFirst,
}

/// How the data of one call lies in a rank's memory.
pub(crate) struct Memory {
    pub(crate) datatype: Datatype,
    /// Bytes from one call's data to the next one's.
    pub(crate) bytes: u64,
}

/// A pattern of bytes over ranks.
pub(crate) trait Workload: Send + Sync {
    /// The name by which a user chooses it.
    fn name(&self) -> &str;

    /// Which part of its program it is, if there are several.
    fn part(&self) -> &str {
        ""
    }

    /// How it is shaped, in a few words for the header.
    fn shape(&self) -> String;

    /// Bytes of a rank.
    fn rank_bytes(&self, rank: u32) -> u64 {
        self.runs(rank).map(|run| run.end - run.start).sum()
    }

    /// Bytes that a rank has in one piece, at most.
    fn block_bytes(&self) -> u64;

    /// Bytes of the whole file.
    fn file_bytes(&self) -> u64;

    /// What a rank sees of the file, in order of its data. Positions in it count bytes.
    fn view(&self, rank: u32) -> pario::Result<View>;

    /// The bytes of the file that a rank has, in order of its data; none twice.
    fn runs(&self, rank: u32) -> Runs<'_>;

    /// Bytes of each call of a rank, if there are several. All ranks make as many.
    fn calls(&self, _rank: u32) -> Option<Vec<u64>> {
        None
    }

    /// Where a rank's data lies, if not in one piece; it does so for each call.
    fn memory(&self, _rank: u32) -> pario::Result<Option<Memory>> {
        Ok(None)
    }

    /// The same as ranges of bytes, in order of the data of one call.
    fn memory_runs(&self, _rank: u32) -> Option<Runs<'_>> {
        None
    }

    /// The rank whose bytes a rank reads.
    fn reader(&self, rank: u32) -> u32 {
        rank
    }

    fn ways(&self) -> Ways {
        Ways::Both
    }

    /// Which of the program's files it is in.
    fn file(&self) -> usize {
        0
    }
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Index of the part whose bytes move.
    pub(crate) part: usize,
    /// Time that every rank computes before.
    pub(crate) compute: Duration,
}

/// Workloads that one program runs through, step by step.
pub(crate) struct Program {
    pub(crate) parts: Vec<Box<dyn Workload>>,
    pub(crate) steps: Vec<Step>,
}

impl Program {
    /// A program with one part, which is run `steps` times.
    fn of(workload: impl Workload + 'static, wanted: &Wanted<'_>) -> Program {
        let step = Step { part: 0, compute: Duration::ZERO };
        let count = usize::try_from(wanted.steps).unwrap_or(usize::MAX);
        Program { parts: vec![Box::new(workload)], steps: vec![step; count] }
    }

    /// Number of files.
    pub(crate) fn files(&self) -> usize {
        self.parts.iter().map(|part| part.file() + 1).max().unwrap_or(0)
    }

    /// Size of one of the files.
    pub(crate) fn file_bytes(&self, file: usize) -> u64 {
        let own = self.parts.iter().filter(|part| part.file() == file);
        own.map(|part| part.file_bytes()).max().unwrap_or(0)
    }
}

/// What the user asked for; each kind of workload takes what concerns it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) ranks: u32,
    /// Size of the file, if it was given.
    pub(crate) bytes: Option<u64>,
    /// Small sizes instead of those of the papers.
    pub(crate) quick: bool,
    /// Whether the workload was named, or is measured since none was.
    pub(crate) named: bool,
    /// Block sizes to sweep over.
    pub(crate) block_bytes: Vec<u64>,
    /// Edge of a cube, if it was given.
    pub(crate) edge: Option<u64>,
    /// How often a program with one part is run in each repetition.
    pub(crate) steps: u32,
    pub(crate) chosen: Chosen<'a>,
}

impl Wanted<'_> {
    /// The value of a parameter of the workload.
    fn number(&self, name: &str) -> u64 {
        self.chosen.number(name, self.quick)
    }

    /// The same, unless it was not given and follows from the bytes that were.
    fn number_or(&self, name: &str, from_bytes: impl FnOnce(u64) -> u64) -> u64 {
        match self.bytes {
            Some(bytes) if !self.chosen.is_given(name) => from_bytes(bytes),
            _ => self.number(name),
        }
    }
}

/// The programs of one kind, or why there are none.
pub(crate) type Made = Result<Vec<Program>, String>;

/// A kind of workload.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Wanted<'_>) -> Made,
    /// What can be set, with the values of the paper and those of a quick run.
    pub(crate) parameters: &'static [Parameter],
    /// Ranks in the paper's experiments.
    pub(crate) ranks: u32,
    /// Whether it runs only if it is named.
    pub(crate) on_request: bool,
    pub(crate) about: &'static str,
}

/// All kinds, in the order in which they are run.
pub(crate) const KINDS: [Kind; 9] = [
    block_cyclic::KIND,
    dist3d::KIND,
    btio::KIND,
    unstruc::KIND,
    stem2::KIND,
    ior::KIND,
    hacc_io::KIND,
    madbench2::KIND,
    s3asim::KIND,
];

/// A table of all kinds and their parameters.
pub struct Catalogue;

impl fmt::Display for Catalogue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "Workloads and their parameters (--set NAME=VALUE):")?;
        for kind in &KINDS {
            let (name, ranks) = (kind.name, kind.ranks);
            writeln!(formatter, "\n  {name}: {} [{ranks} ranks]", kind.about)?;
            for parameter in kind.parameters {
                writeln!(formatter, "    {parameter}")?;
            }
        }
        writeln!(formatter, "\n  FILE.toml: any pattern, described in a file; see docs/bench.md")
    }
}

/// A view in bytes.
fn view(displacement: u64, filetype: &Datatype) -> View {
    View::new(displacement, &Datatype::byte(), filetype)
}

/// `count` bytes in one piece.
fn bytes(count: u64) -> pario::Result<Datatype> {
    Datatype::contiguous(count, &Datatype::byte())
}

/// A distance in bytes as datatypes take it.
fn distance(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A product of sizes that came from the command line.
fn product(factors: &[u64], what: &str) -> Result<u64, String> {
    let product = factors.iter().try_fold(1_u64, |product, &one| product.checked_mul(one));
    let product = product.filter(|&product| i64::try_from(product).is_ok());
    product.ok_or_else(|| format!("{what}: more bytes than a file can have"))
}

/// The indices of one of `count` parts of `len` indices, the first ones one longer if need be.
fn share(len: u64, number: u64, count: u64) -> Range<u64> {
    let (least, rest) = (len / count, len % count);
    let start = number * least + number.min(rest);
    start..start + least + u64::from(number < rest)
}

#[cfg(test)]
mod tests;
