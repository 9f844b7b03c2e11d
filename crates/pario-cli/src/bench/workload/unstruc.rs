//! UNSTRUC of paper 003, section 7.3: the nodes of an irregular grid, 64 bytes each, dealt out to
//! the ranks at random. A rank has its nodes in the order of their numbers.

use pario::{Datatype, View};

use super::{ELEMENT_BYTES, Made, Runs, Wanted, Workload};

pub(super) const NAME: &str = "unstruc";

/// Elements of a node of the grid: 64 bytes.
const NODE_ELEMENTS: u64 = 16;

struct Unstruc {
    nodes: u64,
    ranks: u32,
}

pub(super) fn make(wanted: &Wanted) -> Made {
    let nodes = wanted.bytes / (NODE_ELEMENTS * ELEMENT_BYTES);
    if nodes == 0 {
        let least = NODE_ELEMENTS * ELEMENT_BYTES;
        return Err(format!("--bytes {}: {NAME} needs at least {least}", wanted.bytes));
    }
    Ok(vec![Box::new(Unstruc { nodes, ranks: wanted.ranks })])
}

impl Unstruc {
    /// The rank that has a node: any of them, always the same (splitmix64 of its number).
    fn owner(&self, node: u64) -> u32 {
        let mut mixed = node.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(self.ranks)).unwrap_or(0)
    }

    fn nodes_of(&self, rank: u32) -> impl Iterator<Item = u64> {
        (0..self.nodes).filter(move |&node| self.owner(node) == rank)
    }
}

impl Workload for Unstruc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self) -> String {
        let bytes = NODE_ELEMENTS * ELEMENT_BYTES;
        format!("{} nodes of {bytes} bytes dealt out at random", self.nodes)
    }

    fn block_bytes(&self) -> u64 {
        NODE_ELEMENTS * ELEMENT_BYTES
    }

    fn elements(&self) -> u64 {
        self.nodes * NODE_ELEMENTS
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let element = Datatype::of::<f32>();
        let node = Datatype::contiguous(NODE_ELEMENTS, &element)?;
        let places: Vec<i64> = self.nodes_of(rank).map(u64::cast_signed).collect();
        Ok(View::new(0, &element, &Datatype::indexed_block(1, &places, &node)?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        let run = |node: u64| node * NODE_ELEMENTS..(node + 1) * NODE_ELEMENTS;
        Box::new(self.nodes_of(rank).map(run))
    }
}
