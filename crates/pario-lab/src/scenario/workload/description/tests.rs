//! Descriptions are read as they are meant, and mistakes in them have a line.

use super::*;

fn runs(described: &Described, rank: u32) -> Vec<Range<u64>> {
    described.runs(rank).collect()
}

#[test]
fn blocks_are_where_the_formulas_say() {
    let text = r#"
        unit = 2
        repeat = { count = 2, stride = 100 }
        [[part]]
        start = "rank * 3"
        block = 3
        count = 2
        stride = "ranks * 3"
        dims = [{ count = 2, stride = "40 + 0 * rank" }]
        memory = { start = 1, gap = 2 }
    "#;
    let described = read(text, "stem", 2).unwrap();
    let first = [6..12, 18..24, 86..92, 98..104];
    let second = first.clone().map(|run| run.start + 200..run.end + 200);
    assert_eq!(runs(&described, 1), [first, second].concat());
    assert_eq!(described.calls(1), Some(vec![24, 24]));
    let memory: Vec<Range<u64>> = described.memory_runs(1).unwrap().collect();
    assert_eq!(memory, [2..8, 12..18, 22..28, 32..38]);
    assert_eq!(described.memory(1).unwrap().unwrap().bytes, 42);
    assert_eq!((described.name(), described.file_bytes()), ("stem", 304));
    assert_eq!(described.ways(), Ways::Both);
}

#[test]
fn parts_may_belong_to_some_ranks_and_come_in_any_order() {
    let text = r#"
        name = "mixed"
        [[part]]
        ranks = [1]
        start = 50
        block = 10
        [[part]]
        start = "rank * 20"
        block = 4
        count = 2
        stride = 10
    "#;
    let described = read(text, "stem", 2).unwrap();
    assert_eq!(runs(&described, 0), [0..4, 10..14]);
    assert_eq!(runs(&described, 1), [20..24, 30..34, 50..60]);
    // The part that comes first lies first in memory.
    let memory: Vec<Range<u64>> = described.memory_runs(1).unwrap().collect();
    assert_eq!(memory, [10..14, 14..18, 0..10]);
    assert!(described.memory_runs(0).is_none());
}

#[test]
fn ranks_that_overlap_only_read() {
    let text = "[[part]]\nstart = \"rank * 5\"\nblock = 10\n";
    let described = read(text, "halo", 3).unwrap();
    assert_eq!(described.ways(), Ways::ReadOnly);
    assert!(described.shape().contains("overlap at byte 5"));
}

#[test]
fn mistakes_have_a_line_and_a_reason() {
    let part = "[[part]]\nstart = 0\nblock = 8\n";
    let cases = [
        ("", "missing field `part`"),
        ("part = 3", "line 1: "),
        ("[[part]]\nstart = 0\n", "missing field `block`"),
        ("[[part]]\nstart = 0\nblock = 8\nblok = 9\n", "line 4: unknown field `blok`"),
        ("[[part]]\nstart = \n", "line 2: "),
        ("[[part]]\nstart = 0\nblock = 'rank *'\n", "line 3: a number, `rank`"),
        ("[[part]]\nstart = 'rank - 1'\nblock = 8\n", "line 2: negative for rank 0"),
        ("[[part]]\nstart = 0\nblock = 1.5\n", "line 3: use a whole number"),
        ("[[part]]\nstart = 0\nblock = 8\ncount = 2\n", "line 4: count needs a stride"),
        ("[[part]]\nstart = 0\nblock = 8\ncount = 2\nstride = 4\n", "rank 0 overlap at byte 4"),
        ("[[part]]\nstart = 0\nblock = 1\ncount = 99999999\nstride = 2\n", "more than"),
        ("[[part]]\nstart = 0\nblock = 1\ncount = 9\nstride = 9000000000000000000\n", "line 5: "),
        ("[[part]]\nstart = 0\nblock = 0\n", "no rank has a byte"),
        (&format!("ranks = 5\n{part}"), "made for 5 ranks, run with 2"),
        (&format!("unit = 0\n{part}"), "unit"),
        (&format!("repeat = {{ count = 2, stride = 7 }}\n{part}"), "less than the 8 bytes"),
    ];
    for (text, reason) in cases {
        let error = read(text, "bad", 2).err().unwrap_or_default();
        assert!(error.contains(reason), "{text:?}: {error}");
    }
}
