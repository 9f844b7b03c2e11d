//! Which workloads are measured or explained, and of which sizes: as a user asks for them, and as
//! the records of a run have it.

use serde::{Deserialize, Serialize};

use super::workload::{Chosen, KINDS, Kind, Program, Wanted, description, parse_parameters};

const BLOCK_BYTES: [u64; 5] = [4, 64, 512, 4096, 65536];
/// Blocks are made of numbers of this size.
pub const ELEMENT_BYTES: u64 = 4;
/// How the name of a described pattern ends.
const DESCRIPTION: &str = ".toml";

/// Workloads with their sizes. What is not said is as in the papers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workloads {
    /// Names of workloads, or files FILE.toml that describe patterns; without any, those that need
    /// not be named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Their parameters, as the user writes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<(String, String)>,
    /// Bytes of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Block sizes of `block-cyclic`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<u64>,
    /// Edge of the cube of `dist3d` and `btio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<u64>,
    /// Small sizes instead of those of the papers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quick: bool,
}

impl Workloads {
    /// The kinds that are named, or those that need not be.
    fn kinds(&self) -> Vec<&'static Kind> {
        let chosen = |kind: &&Kind| match self.names.is_empty() {
            true => !kind.on_request,
            false => self.names.iter().any(|name| name == kind.name),
        };
        KINDS.iter().filter(chosen).collect()
    }

    /// The ranks of the papers; the fewest where several are run.
    pub(crate) fn default_ranks(&self) -> u32 {
        let ranks = self.kinds().iter().map(|kind| kind.ranks).min();
        if self.quick { 4 } else { ranks.unwrap_or(16) }
    }

    /// The programs on a number of ranks, each with some steps; those of files at the end.
    ///
    /// # Errors
    /// A parameter that there is not, sizes that do not fit, or a description with a mistake.
    pub(crate) fn programs(&self, ranks: u32, steps: u32) -> Result<Vec<Program>, String> {
        let kinds = self.kinds();
        let given = parse_parameters(&self.parameters, &kinds)?;
        let blocks = if self.blocks.is_empty() { &BLOCK_BYTES[..] } else { &self.blocks };
        let mut programs = Vec::new();
        for kind in kinds {
            let wanted = Wanted {
                ranks,
                bytes: self.bytes,
                quick: self.quick,
                named: !self.names.is_empty(),
                block_bytes: unique(blocks),
                edge: self.edge,
                steps,
                chosen: Chosen::new(kind.parameters, &given),
            };
            programs.extend((kind.make)(&wanted)?);
        }
        for name in self.names.iter().filter(|name| name.ends_with(DESCRIPTION)) {
            programs.push(description::make(name.as_ref(), ranks, steps)?);
        }
        Ok(programs)
    }
}

/// Reads the name of a workload, or that of a description.
///
/// # Errors
/// Which names there are.
pub fn parse_name(text: &str) -> Result<String, String> {
    if text.ends_with(DESCRIPTION) || KINDS.iter().any(|kind| kind.name == text) {
        return Ok(text.to_owned());
    }
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    Err(format!("use {} or FILE.toml", names.join(", ")))
}

/// Each value once, in the order of their first places.
pub(crate) fn unique<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}
