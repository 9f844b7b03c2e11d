//! Whether two layouts share no byte, decided without walking them.
//!
//! Regular patterns of different ranks interleave: block-cyclic views have one stride and
//! different phases. Comparing one turn of each loop is then enough. The answer errs on the side
//! of caution: `true` is proved, `false` means "not seen to be disjoint".

use super::layout::{Layout, Node, Shape};

/// Comparisons after which the answer is "not seen".
const COMPARISONS_MAX: u32 = 4096;

/// Whether two sorted layouts have no byte in common, as far as that can be seen quickly.
pub(crate) fn disjoint(one: &Layout, two: &Layout) -> bool {
    debug_assert!(one.is_sorted() && two.is_sorted());
    let mut budget = COMPARISONS_MAX;
    one.is_empty() || two.is_empty() || apart(Placed::of(one), Placed::of(two), None, &mut budget)
}

#[derive(Clone, Copy)]
struct Placed<'a> {
    node: &'a Node,
    offset: i128,
}

impl<'a> Placed<'a> {
    fn of(layout: &'a Layout) -> Placed<'a> {
        Placed { node: &layout.node, offset: i128::from(layout.origin) }
    }

    fn end(&self) -> i128 {
        self.offset + i128::from(self.node.facts().upper)
    }

    fn span(&self) -> i128 {
        i128::from(self.node.facts().upper)
    }
}

/// Whether `one` has no byte in common with `two`; with a period, with no copy of `two` shifted
/// by a multiple of it.
fn apart(one: Placed<'_>, two: Placed<'_>, period: Option<i128>, budget: &mut u32) -> bool {
    if *budget == 0 {
        return false;
    }
    *budget -= 1;
    if let Some(period) = period
        && one.span() <= period
        && two.span() <= period
    {
        // Only the copies next to `one` can overlap it.
        let phase = (two.offset - one.offset).rem_euclid(period);
        let after = Placed { offset: one.offset + phase, ..two };
        let before = Placed { offset: after.offset - period, ..two };
        return apart(one, after, None, budget) && apart(one, before, None, budget);
    }
    if period.is_none() && (one.end() <= two.offset || two.end() <= one.offset) {
        return true;
    }
    if let Some(all) = all_parts(one, |part| apart(part, two, period, budget)) {
        return all;
    }
    // A shift of the loop by its stride does not change the periodic copies of the other.
    if let (Some(Shape::Loop { stride, body, .. }), Some(period)) = (shape(one.node), period)
        && i128::from(*stride) % period == 0
    {
        let body = Placed { node: body, offset: one.offset };
        return apart(body, two, Some(period), budget);
    }
    if let Some(all) = all_parts(two, |part| apart(one, part, period, budget)) {
        return all;
    }
    match (shape(one.node), shape(two.node), period) {
        (Some(Shape::Loop { stride, body, .. }), Some(Shape::Loop { stride: other, .. }), None)
            if stride < other =>
        {
            let body = Placed { node: body, offset: one.offset };
            apart(two, body, Some(i128::from(*stride)), budget)
        }
        (_, Some(Shape::Loop { stride, body, .. }), None) => {
            let body = Placed { node: body, offset: two.offset };
            apart(one, body, Some(i128::from(*stride)), budget)
        }
        (Some(Shape::Loop { stride, body, .. }), None, None) => {
            let body = Placed { node: body, offset: one.offset };
            apart(two, body, Some(i128::from(*stride)), budget)
        }
        _ => false,
    }
}

/// Whether something holds for all bodies of a sequence or a list; `None` if it is neither.
fn all_parts(whole: Placed<'_>, mut holds: impl FnMut(Placed<'_>) -> bool) -> Option<bool> {
    let mut holds_at = |node: &Node, offset: i64| {
        holds(Placed { node, offset: whole.offset + i128::from(offset) })
    };
    match shape(whole.node)? {
        Shape::Loop { .. } => None,
        Shape::Sequence(parts) => Some(parts.iter().all(|part| holds_at(&part.node, part.offset))),
        Shape::List(list) => {
            Some(list.blocks().all(|(offset, len)| holds_at(&Node::Block(len), offset)))
        }
    }
}

fn shape(node: &Node) -> Option<&Shape> {
    match node {
        Node::Block(_) => None,
        Node::Tree(tree) => Some(&tree.shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::cursor::Runs;

    fn nest(offset: i64, len: u64, loops: &[(u64, i64)]) -> Layout {
        let block = Layout::block(0, len).unwrap();
        let nest = loops.iter().fold(block, |body, &(n, s)| body.repeated(n, s).unwrap());
        nest.shifted(offset).unwrap()
    }

    fn share_a_byte(one: &Layout, two: &Layout) -> bool {
        let runs = |layout: &Layout| Runs::new(layout, 0..layout.size()).collect::<Vec<_>>();
        let meet = |a: &(i64, u64), b: &(i64, u64)| {
            a.0 < b.0 + b.1.cast_signed() && b.0 < a.0 + a.1.cast_signed()
        };
        runs(one).iter().any(|a| runs(two).iter().any(|b| meet(a, b)))
    }

    #[test]
    fn interleaved_patterns_are_seen_to_be_apart() {
        let cyclic = |rank: i64| nest(rank * 4, 4, &[(1_000_000, 64)]);
        assert!((1..16).all(|rank| disjoint(&cyclic(0), &cyclic(rank))));
        assert!(!disjoint(&cyclic(1), &nest(6, 4, &[(1_000_000, 64)])));
        // Blocks of a three-dimensional array.
        let cube = |x: i64, y: i64, z: i64| {
            nest(x * 100 + y * 10 * 400 + z * 10 * 160_000, 100, &[(10, 400), (10, 160_000)])
        };
        assert!(disjoint(&cube(0, 0, 0), &cube(1, 0, 0)));
        assert!(disjoint(&cube(0, 0, 0), &cube(3, 1, 0)));
        assert!(disjoint(&cube(2, 1, 0), &cube(1, 1, 1)));
    }

    #[test]
    fn what_is_called_disjoint_is_disjoint() {
        let mut state = 7u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % limit
        };
        let mut proved = 0;
        for _ in 0..20_000 {
            let mut make = || {
                let len = 1 + random(4);
                let inner = (1 + random(4), (len + random(8)).cast_signed());
                let reach = inner.0 * inner.1.cast_unsigned();
                let stride = [reach + random(10), 24, 32][random(3) as usize];
                nest(random(40).cast_signed(), len, &[inner, (1 + random(4), stride.cast_signed())])
            };
            let (one, two) = (make(), make());
            if one.is_sorted() && two.is_sorted() && disjoint(&one, &two) {
                assert!(!share_a_byte(&one, &two), "{one:?} {two:?}");
                proved += 1;
            }
        }
        assert!(proved > 1000, "only {proved} of the disjoint pairs were seen");
    }
}
