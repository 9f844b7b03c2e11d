//! The normal form of a datatype as public data, for transports that build the same type in another
//! library.

use super::Datatype;
use super::layout::{Node, Shape};

/// Where the bytes of a datatype lie, relative to its first data byte.
#[derive(Clone, Debug, PartialEq)]
pub enum Loops {
    /// Contiguous bytes.
    Block(u64),
    /// A body at a constant stride.
    Strided {
        /// How often.
        count: u64,
        /// Bytes from one body to the next.
        stride: i64,
        /// What is there each time.
        body: Box<Loops>,
    },
    /// Bodies at offsets.
    Sequence(Vec<(i64, Loops)>),
    /// Blocks at offsets, with their lengths.
    List(Vec<(i64, u64)>),
}

impl Loops {
    fn of(node: &Node) -> Loops {
        let tree = match node {
            Node::Block(len) => return Loops::Block(*len),
            Node::Tree(tree) => tree,
        };
        match &tree.shape {
            Shape::Loop { count, stride, body } => {
                Loops::Strided { count: *count, stride: *stride, body: Box::new(Loops::of(body)) }
            }
            Shape::Sequence(parts) => Loops::Sequence(
                parts.iter().map(|part| (part.offset, Loops::of(&part.node))).collect(),
            ),
            Shape::List(list) => Loops::List(list.blocks().collect()),
        }
    }
}

impl Datatype {
    /// The offset of the first data byte, and where all of them lie from there.
    #[doc(hidden)]
    pub fn loops(&self) -> (i64, Loops) {
        let layout = &self.compiled.native.layout;
        (layout.origin, Loops::of(&layout.node))
    }
}
