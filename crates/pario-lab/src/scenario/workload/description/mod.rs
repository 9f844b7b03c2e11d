//! Any pattern, from a description in TOML.
//!
//! `docs/bench.md` has the reference and `benchmarks/pattern.toml` an example. In short: parts,
//! each a block that is repeated `count` times `stride` apart, and that again in further
//! dimensions; every number may be a formula of `rank` and `ranks`. In memory the blocks follow
//! each other, with gaps if the description says so. `repeat` makes several calls of it.
//!
//! Blocks of one rank must not overlap. If those of several ranks do, the pattern is only read.

use std::ops::Range;
use std::path::Path;

use pario::own_file::{self, Streams};
use pario::{Datatype, View};
use serde::Deserialize;
use toml::{Spanned, Value};

use super::{Memory, Program, Runs, Step, Ways, Workload, bytes, distance, view};
use formula::{Names, evaluate};

mod formula;

/// Pieces of all ranks and calls together.
const PIECES_MAX: u64 = 20_000_000;

/// A number or a formula, with its place in the file.
type Number = Spanned<Value>;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: Option<String>,
    ranks: Option<u32>,
    unit: Option<u64>,
    repeat: Option<Dimension>,
    part: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    /// Ranks that have it; all if it is not there.
    ranks: Option<Vec<u32>>,
    start: Number,
    block: Number,
    count: Option<Number>,
    stride: Option<Number>,
    #[serde(default)]
    dims: Vec<Dimension>,
    memory: Option<Place>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dimension {
    count: Number,
    stride: Number,
}

/// Where a part lies in memory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    /// What is free before the first block.
    start: Option<Number>,
    /// What is free after each block.
    gap: Option<Number>,
}

/// A block of a rank in the file and in memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    offset: u64,
    memory: u64,
    len: u64,
}

/// What a rank has, of one call.
#[derive(Clone, Debug, Default)]
struct Own {
    /// In the order of the file.
    pieces: Vec<Piece>,
    memory_bytes: u64,
    /// The blocks as nested loops from an offset on, if they are in order so.
    nest: Option<(u64, Vec<Loop>)>,
}

/// The innermost one has a stride of one byte.
#[derive(Clone, Copy, Debug)]
struct Loop {
    count: u64,
    stride: u64,
}

struct Described {
    name: String,
    ranks: Vec<Own>,
    /// Calls, and bytes from one to the next.
    repeat: Loop,
    file_bytes: u64,
    overlap: Option<u64>,
}

/// Reads a description for a number of ranks.
///
/// # Errors
/// What is wrong, with the line.
pub(crate) fn make(path: &Path, ranks: u32, steps: u32) -> Result<Program, String> {
    let shown = path.display();
    let opened = own_file::open(path, Streams::Accepted);
    let text = opened.and_then(std::io::read_to_string);
    let text = text.map_err(|error| format!("{shown}: {error}"))?;
    let stem = path.file_stem().map(|stem| stem.display().to_string()).unwrap_or_default();
    let described = read(&text, &stem, ranks).map_err(|reason| format!("{shown}: {reason}"))?;
    let step = Step { part: 0, compute: Default::default() };
    let count = usize::try_from(steps).unwrap_or(usize::MAX);
    Ok(Program { parts: vec![Box::new(described)], steps: vec![step; count] })
}

fn read(text: &str, stem: &str, ranks: u32) -> Result<Described, String> {
    let description: Description = toml::from_str(text).map_err(|error| located(text, &error))?;
    if let Some(asked) = description.ranks.filter(|&asked| asked != ranks) {
        return Err(format!("made for {asked} ranks, run with {ranks}"));
    }
    let source = Source { text, unit: description.unit.unwrap_or(1), ranks };
    if source.unit == 0 {
        return Err("unit: must be more than 0".to_owned());
    }
    let repeat = match &description.repeat {
        None => Loop { count: 1, stride: 0 },
        Some(repeat) => source.dimension(repeat, 0)?,
    };
    let own = (0..ranks).map(|rank| source.own(&description.part, rank, repeat.count));
    let own = own.collect::<Result<Vec<Own>, String>>()?;
    Described::new(description.name.unwrap_or_else(|| stem.to_owned()), own, repeat)
}

/// A mistake in the TOML, in one line.
fn located(text: &str, error: &toml::de::Error) -> String {
    match error.span() {
        Some(span) => format!("line {}: {}", line(text, span.start), error.message()),
        None => error.message().to_owned(),
    }
}

/// The line of a byte, counted from 1.
fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|&&byte| byte == b'\n').count() + 1
}

/// What numbers are read with.
struct Source<'a> {
    text: &'a str,
    /// Bytes that a number stands for.
    unit: u64,
    ranks: u32,
}

impl Source<'_> {
    fn refuse<T>(&self, number: &Number, reason: impl std::fmt::Display) -> Result<T, String> {
        Err(format!("line {}: {reason}", line(self.text, number.span().start)))
    }

    /// A number that is not negative.
    fn number(&self, number: &Number, rank: u32) -> Result<u64, String> {
        let value = match number.get_ref() {
            Value::Integer(value) => Ok(*value),
            Value::String(text) => evaluate(text, Names { rank, ranks: self.ranks }),
            _ => Err("use a whole number or a formula in quotes".to_owned()),
        };
        match value.map(u64::try_from) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => self.refuse(number, format!("negative for rank {rank}")),
            Err(reason) => self.refuse(number, reason),
        }
    }

    /// A number of units, in bytes.
    fn bytes(&self, number: &Number, rank: u32) -> Result<u64, String> {
        let bytes = self.number(number, rank)?.checked_mul(self.unit);
        // Sums of a few of these must fit in 63 bits.
        match bytes.filter(|&bytes| bytes < 1 << 60) {
            Some(bytes) => Ok(bytes),
            None => self.refuse(number, "too large"),
        }
    }

    fn dimension(&self, dimension: &Dimension, rank: u32) -> Result<Loop, String> {
        let count = self.number(&dimension.count, rank)?;
        let stride = self.bytes(&dimension.stride, rank)?;
        match count.checked_mul(stride.max(1)).filter(|&reach| reach < 1 << 60) {
            Some(_) => Ok(Loop { count, stride }),
            None => self.refuse(&dimension.count, "reaches too far"),
        }
    }

    /// The loops of a part, the innermost first: the bytes of a block.
    fn loops(&self, part: &Part, rank: u32) -> Result<Vec<Loop>, String> {
        let block = self.bytes(&part.block, rank)?;
        let mut loops = vec![Loop { count: block, stride: 1 }];
        match (&part.count, &part.stride) {
            (Some(count), Some(stride)) => {
                let (count, stride) = (count.clone(), stride.clone());
                loops.push(self.dimension(&Dimension { count, stride }, rank)?);
            }
            (None, None) => {}
            (Some(alone), None) => return self.refuse(alone, "count needs a stride"),
            (None, Some(alone)) => return self.refuse(alone, "stride needs a count"),
        }
        for dimension in &part.dims {
            loops.push(self.dimension(dimension, rank)?);
        }
        Ok(loops)
    }

    /// What a rank has of all parts.
    fn own(&self, parts: &[Part], rank: u32, calls: u64) -> Result<Own, String> {
        let mut own = Own::default();
        let has = |part: &&Part| part.ranks.as_ref().is_none_or(|ranks| ranks.contains(&rank));
        let mut nests = Vec::new();
        for part in parts.iter().filter(has) {
            let start = self.bytes(&part.start, rank)?;
            let loops = self.loops(part, rank)?;
            let blocks = loops[1..].iter().try_fold(1_u64, |all, one| all.checked_mul(one.count));
            let all = blocks.and_then(|blocks| blocks.checked_mul(calls * u64::from(self.ranks)));
            if all.is_none_or(|all| all > PIECES_MAX) {
                return self.refuse(&part.start, format!("more than {PIECES_MAX} pieces"));
            }
            let place = part.memory.as_ref();
            let bytes =
                |number: Option<&Number>| number.map_or(Ok(0), |number| self.bytes(number, rank));
            own.memory_bytes += bytes(place.and_then(|place| place.start.as_ref()))?;
            let gap = bytes(place.and_then(|place| place.gap.as_ref()))?;
            own.add(start, &loops, gap);
            nests.push((start, loops));
        }
        let in_order = own.pieces.is_sorted();
        own.pieces.sort_unstable();
        own.nest = nests.pop().filter(|_| in_order && nests.is_empty());
        own.check(rank)?;
        Ok(own)
    }
}

impl Own {
    /// Adds the blocks of a part, with a gap in memory after each.
    fn add(&mut self, start: u64, loops: &[Loop], gap: u64) {
        let Some((block, outer)) = loops.split_first() else { return };
        let blocks: u64 = outer.iter().map(|one| one.count).product();
        for number in 0..blocks {
            let (mut rest, mut offset) = (number, start);
            for one in outer {
                offset += rest % one.count * one.stride;
                rest /= one.count;
            }
            if block.count > 0 {
                self.pieces.push(Piece { offset, memory: self.memory_bytes, len: block.count });
                self.memory_bytes += block.count + gap;
            }
        }
    }

    fn check(&self, rank: u32) -> Result<(), String> {
        let overlap = |pair: &&[Piece]| pair[0].offset + pair[0].len > pair[1].offset;
        match self.pieces.windows(2).find(overlap) {
            Some(pair) => {
                Err(format!("blocks of rank {rank} overlap at byte {} of the file", pair[1].offset))
            }
            None => Ok(()),
        }
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len).sum()
    }

    /// Whether data lies in memory as in the file, without gaps.
    fn is_packed(&self) -> bool {
        let mut end = 0;
        let follows = |piece: &Piece| {
            let follows = piece.memory == end;
            end = piece.memory + piece.len;
            follows
        };
        self.pieces.iter().all(follows) && self.memory_bytes == self.bytes()
    }

    /// The blocks of one call as a datatype, and where it is in the file.
    fn filetype(&self) -> pario::Result<(u64, Datatype)> {
        let Some((start, loops)) = &self.nest else {
            return Ok((0, listed(&self.pieces, |piece| piece.offset)?));
        };
        let block = bytes(loops[0].count)?;
        let nest = loops[1..].iter().try_fold(block, |inner, one| {
            Datatype::hvector(one.count, 1, distance(one.stride), &inner)
        });
        Ok((*start, nest?))
    }
}

/// Pieces as a list.
fn listed(pieces: &[Piece], place: impl Fn(&Piece) -> u64) -> pario::Result<Datatype> {
    let lens: Vec<u64> = pieces.iter().map(|piece| piece.len).collect();
    let places: Vec<i64> = pieces.iter().map(|piece| distance(place(piece))).collect();
    match pieces.is_empty() {
        true => bytes(0),
        false => Datatype::hindexed(&lens, &places, &bytes(1)?),
    }
}

impl Described {
    fn new(name: String, ranks: Vec<Own>, repeat: Loop) -> Result<Described, String> {
        let mut described = Described { name, ranks, repeat, file_bytes: 0, overlap: None };
        let mut all: Vec<Range<u64>> = Vec::new();
        for rank in 0..described.ranks.len() {
            all.extend(described.runs(u32::try_from(rank).unwrap_or(u32::MAX)));
        }
        if all.is_empty() || repeat.count == 0 {
            return Err("no rank has a byte".to_owned());
        }
        all.sort_unstable_by_key(|run| run.start);
        described.file_bytes = all.iter().map(|run| run.end).max().unwrap_or(0);
        let overlap = all.windows(2).find(|pair| pair[0].end > pair[1].start);
        described.overlap = overlap.map(|pair| pair[1].start);
        let reach = |own: &Own| Some(own.pieces.last()?.offset + own.pieces.last()?.len);
        let reach = described.ranks.iter().filter_map(reach).max().unwrap_or(0);
        let starts = described.ranks.iter().filter_map(|own| own.pieces.first());
        let start = starts.map(|piece| piece.offset).min().unwrap_or(0);
        if repeat.count > 1 && repeat.stride < reach - start {
            return Err(format!(
                "repeat: a stride of {} bytes is less than the {} bytes of a call",
                repeat.stride,
                reach - start
            ));
        }
        Ok(described)
    }

    fn own(&self, rank: u32) -> Option<&Own> {
        self.ranks.get(usize::try_from(rank).ok()?)
    }
}

impl Workload for Described {
    fn name(&self) -> &str {
        &self.name
    }

    fn shape(&self) -> String {
        let pieces: usize = self.ranks.iter().map(|own| own.pieces.len()).sum();
        let calls = self.repeat.count;
        let overlap = match self.overlap {
            Some(offset) => format!("; ranks overlap at byte {offset}, so that it is only read"),
            None => String::new(),
        };
        format!("described in a file, {pieces} pieces in each of {calls} call(s){overlap}")
    }

    fn block_bytes(&self) -> u64 {
        let lens = self.ranks.iter().flat_map(|own| &own.pieces).map(|piece| piece.len);
        lens.max().unwrap_or(0)
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let Some(own) = self.own(rank) else { return Ok(View::bytes()) };
        let (start, filetype) = own.filetype()?;
        let filetype = match self.repeat.count {
            1 => filetype,
            _ => Datatype::resized(0, distance(self.repeat.stride), &filetype)?,
        };
        Ok(view(start, &filetype))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let Some(own) = self.own(rank) else { return Box::new(std::iter::empty()) };
        Box::new((0..self.repeat.count).flat_map(move |call| {
            let base = call * self.repeat.stride;
            own.pieces.iter().map(move |piece| {
                let start = base + piece.offset;
                start..start + piece.len
            })
        }))
    }

    fn calls(&self, rank: u32) -> Option<Vec<u64>> {
        let count = usize::try_from(self.repeat.count).unwrap_or(usize::MAX);
        Some(vec![self.own(rank)?.bytes(); count])
    }

    fn memory(&self, rank: u32) -> pario::Result<Option<Memory>> {
        let Some(own) = self.own(rank).filter(|own| !own.is_packed()) else { return Ok(None) };
        let datatype = listed(&own.pieces, |piece| piece.memory)?;
        Ok(Some(Memory { datatype, bytes: own.memory_bytes }))
    }

    fn memory_runs(&self, rank: u32) -> Option<Runs<'_>> {
        let own = self.own(rank).filter(|own| !own.is_packed())?;
        Some(Box::new(own.pieces.iter().map(|piece| piece.memory..piece.memory + piece.len)))
    }

    fn ways(&self) -> Ways {
        match self.overlap {
            Some(_) => Ways::ReadOnly,
            None => Ways::Both,
        }
    }
}

/// A description for the tests of all workloads.
#[cfg(test)]
pub(super) fn program(text: &str, ranks: u32) -> Program {
    let described = read(text, "test", ranks).unwrap_or_else(|reason| panic!("{reason}"));
    let steps = vec![Step { part: 0, compute: Default::default() }];
    Program { parts: vec![Box::new(described)], steps }
}

#[cfg(test)]
mod tests;
