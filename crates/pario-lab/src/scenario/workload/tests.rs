//! Every workload is what it says, twice the same, and as large as in its paper.

use super::*;
use crate::measure::opened::BenchFile;
use crate::measure::part::{Part, Size, Sizes, size};
use crate::measure::team::Team;
use crate::measure::verify::{Expected, Pattern, Share};
use crate::scenario::contender::Level;
use crate::scenario::pieces::pieces;
use pario::model::Direction;
use pario::{File, Threads};

/// Parameters that are set.
type Given<'a> = &'a [(&'a str, u64)];

/// What a user who says nothing gets.
fn wanted<'a>(kind: &Kind, ranks: u32, given: &'a [(String, u64)]) -> Wanted<'a> {
    Wanted {
        ranks,
        bytes: None,
        quick: false,
        named: true,
        block_bytes: vec![4, 64],
        edge: None,
        steps: 1,
        chosen: Chosen::new(kind.parameters, given),
    }
}

fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.name == name).unwrap()
}

/// The programs of a kind with some parameters set.
fn made(name: &str, ranks: u32, given: Given<'_>) -> Vec<Program> {
    let kind = kind(name);
    let given: Vec<(String, u64)> =
        given.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let unknown =
        given.iter().find(|(name, _)| !kind.parameters.iter().any(|one| one.name == name));
    assert_eq!(unknown, None);
    (kind.make)(&wanted(kind, ranks, &given)).unwrap()
}

const DESCRIPTIONS: [&str; 2] = [
    r#"
        name = "holes and gaps"
        repeat = { count = 3, stride = 500 }
        [[part]]
        start = "rank * 7"
        block = 5
        count = 3
        stride = "ranks * 7"
        dims = [{ count = 2, stride = 200 }]
        memory = { start = 3, gap = 2 }
        [[part]]
        ranks = [1]
        start = 450
        block = 11
    "#,
    "[[part]]\nstart = \"rank * 3\"\nblock = 3\ncount = 4\nstride = \"ranks * 3\"\n",
];

/// Small workloads of every kind, even and uneven, with their ranks.
fn examples() -> Vec<(u32, Program)> {
    let cases: [(&str, u32, Given<'_>); 24] = [
        ("block-cyclic", 1, &[("Nx", 16)]),
        ("block-cyclic", 3, &[("Nx", 250)]),
        ("block-cyclic", 16, &[("Nx", 1000), ("Bx", 3)]),
        ("dist3d", 1, &[("edge", 3)]),
        ("dist3d", 7, &[("edge", 1)]),
        ("dist3d", 12, &[("edge", 7), ("ghost", 1)]),
        ("dist3d", 16, &[("edge", 10), ("ghost", 3)]),
        ("btio", 1, &[("problem_size", 5)]),
        ("btio", 4, &[("problem_size", 7)]),
        ("btio", 16, &[("problem_size", 10), ("ghost", 0)]),
        ("unstruc", 1, &[("elements", 40)]),
        ("unstruc", 5, &[("elements", 203), ("element_bytes", 7), ("seed", 9)]),
        ("unstruc", 4, &[("elements", 3), ("element_bytes", 64)]),
        ("stem2", 1, &[("Nl", 1), ("array", 1)]),
        ("stem2", 16, &[("Nl", 1)]),
        ("ior", 1, &[("blockSize", 12), ("transferSize", 4)]),
        ("ior", 5, &[("segmentCount", 3), ("blockSize", 60), ("transferSize", 20)]),
        ("ior", 4, &[("blockSize", 9), ("transferSize", 9), ("reorderTasksRandom", 0)]),
        ("hacc-io", 3, &[("numparticles", 11), ("layout", 0)]),
        ("hacc-io", 4, &[("numparticles", 10), ("layout", 1)]),
        ("madbench2", 4, &[("no_pix", 10), ("no_bin", 3), ("no_gang", 2), ("blocksize", 3)]),
        ("madbench2", 6, &[("no_pix", 7), ("no_bin", 2), ("no_gang", 3), ("blocksize", 1024)]),
        ("s3asim", 3, &[("query_count", 3), ("result_count_max", 20), ("result_size_max", 50)]),
        ("s3asim", 4, &[("query_count", 2), ("result_count_max", 2), ("result_size_max", 3)]),
    ];
    let of_kinds = cases.iter().flat_map(|&(name, ranks, given)| {
        made(name, ranks, given).into_iter().map(move |program| (ranks, program))
    });
    let described = DESCRIPTIONS.map(|text| (4, description::program(text, 4)));
    of_kinds.chain(described).collect()
}

fn each_example(mut check: impl FnMut(u32, &dyn Workload, &str)) {
    for (ranks, program) in examples() {
        for part in &program.parts {
            let what = format!("{} {}: {}, {ranks} ranks", part.name(), part.part(), part.shape());
            check(ranks, &**part, &what);
        }
    }
}

#[test]
fn there_is_an_example_of_every_kind() {
    let all = examples();
    for kind in &KINDS {
        let mut parts = all.iter().flat_map(|(_, program)| &program.parts);
        assert!(parts.any(|part| part.name() == kind.name), "{}", kind.name);
    }
}

/// Only descriptions may leave bytes to nobody.
#[test]
fn every_byte_belongs_to_exactly_one_rank() {
    each_example(|ranks, workload, what| {
        let mut owners = vec![0; usize::try_from(workload.file_bytes()).unwrap()];
        for rank in 0..ranks {
            for offset in workload.runs(rank).flatten() {
                owners[usize::try_from(offset).unwrap()] += 1;
            }
        }
        let least = if workload.name() == "holes and gaps" { 0 } else { 1 };
        assert!(owners.iter().all(|&owners| owners == 1 || owners == least), "{what}");
        assert_eq!(owners.last(), Some(&1), "{what}");
    });
}

#[test]
fn no_run_is_longer_than_a_block() {
    each_example(|ranks, workload, what| {
        let runs = (0..ranks).flat_map(|rank| workload.runs(rank));
        let longest = runs.map(|run| run.end - run.start).max();
        assert_eq!(longest, Some(workload.block_bytes()), "{what}");
    });
}

#[test]
fn calls_and_memory_have_all_bytes_of_a_rank() {
    each_example(|ranks, workload, what| {
        let counts = (0..ranks).map(|rank| {
            let bytes: u64 = workload.runs(rank).map(|run| run.end - run.start).sum();
            let calls = workload.calls(rank).unwrap_or_else(|| vec![bytes]);
            assert_eq!(calls.iter().sum::<u64>(), bytes, "{what}");
            let memory = workload.memory(rank).unwrap();
            if let Some(memory) = &memory {
                let runs = workload.memory_runs(rank).unwrap();
                let taken: u64 = runs.map(|run| run.end - run.start).sum();
                assert!(calls.iter().all(|&call| call == taken), "{what}");
                assert_eq!(memory.datatype.size(), taken, "{what}");
            }
            let walked = pieces(workload, rank, memory.map(|memory| memory.bytes));
            assert_eq!(walked.map(|(_, piece)| piece.len).sum::<u64>(), bytes, "{what}");
            calls.len()
        });
        let counts: Vec<usize> = counts.collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{what}: {counts:?}");
    });
}

/// What datatypes and runs say is the same, at every level: bytes that are written are where the
/// runs say, bytes that are read come to where they say, holes and gaps stay as they are.
#[test]
fn every_level_moves_every_byte_to_its_place() {
    let mut number = 0;
    each_example(|ranks, workload, what| {
        for (level, packed) in [(0, false), (1, false), (2, true), (2, false), (3, false)] {
            number += 1;
            move_all(&format!("workload-{number}"), ranks, workload, (level, packed), what);
        }
    });
}

fn move_all(
    name: &str,
    ranks: u32,
    workload: &dyn Workload,
    (level, packed): (u8, bool),
    what: &str,
) {
    let level = Level::new(level).unwrap();
    let path = std::env::temp_dir().join(format!("pario-{name}-{}.tmp", std::process::id()));
    let file =
        std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let everything = Share { number: 0, count: 1 };
    Threads::new(ranks).run(|comm| {
        let team = Team::new(&*comm);
        let mut part = Part::new(&team, workload, packed).unwrap();
        let expected = |part: &Part<'_>, salt| {
            let (file_bytes, hole_pattern) = (workload.file_bytes(), Some(Pattern::new(0)));
            let pattern = Pattern::new(salt);
            let holes = part.holes.clone();
            move |work: &dyn Fn(&Expected<'_>)| {
                work(&Expected { pattern, file_bytes, holes: &holes, hole_pattern });
            }
        };
        team.first(|| {
            expected(&part, 1)(&|expected| expected.write_file(&file, everything).unwrap());
            Ok(())
        })
        .unwrap();
        let opened = File::options().read(true).write(true).open(&*comm, &path).unwrap();
        let opened = BenchFile::Pario(opened);
        for (direction, salt) in [(Direction::Write, 2), (Direction::Read, 2)] {
            if !level.is_by_piece() {
                opened.set_view(&part, direction).unwrap();
            }
            let pattern = Pattern::new(salt);
            match direction {
                Direction::Write => part.fill(pattern, direction, false),
                Direction::Read => part.fill(pattern.complement(), direction, false),
            }
            let calls = part.piece_calls(direction);
            part.perform(&opened, level, direction, &calls).unwrap();
            team.barrier().unwrap();
            let right = match direction {
                Direction::Write => {
                    let check = expected(&part, salt);
                    check(&|expected| {
                        let checked = expected.check_file(&file, everything);
                        assert!(checked.is_ok(), "{what}, level {level:?}: {checked:?}");
                    });
                    Ok(())
                }
                Direction::Read => part.check(pattern, false),
            };
            assert!(right.is_ok(), "{what}, level {level:?}: {right:?}");
            team.barrier().unwrap();
        }
        opened.close().unwrap();
    });
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn reads_are_reordered_and_each_byte_is_read_once() {
    for (ranks, given) in [
        (5, [("reorderTasksRandom", 1), ("reorderTasksConstant", 0)]),
        (4, [("reorderTasksRandom", 0), ("reorderTasksConstant", 1)]),
    ] {
        let program = &made("ior", ranks, &given)[0];
        let mut readers: Vec<u32> = (0..ranks).map(|rank| program.parts[0].reader(rank)).collect();
        assert!((0..ranks).any(|rank| program.parts[0].reader(rank) != rank));
        readers.sort_unstable();
        assert!(readers.into_iter().eq(0..ranks));
    }
}

/// Sizes of a part on all ranks.
fn sizes(workload: &dyn Workload, ranks: u32) -> Sizes {
    let of_rank = |rank| size(workload, rank, None);
    Sizes::of(&(0..ranks).map(of_rank).collect::<Vec<Size>>())
}

/// Paper 002, section 4.2: Nx = 26,214,400 elements (100 MB) on 16 ranks, Bx = 1.
#[test]
fn block_cyclic_is_that_of_paper_002() {
    let program = &made("block-cyclic", 16, &[("Bx", 1)])[0];
    let part = &*program.parts[0];
    assert_eq!(part.file_bytes(), 100 << 20);
    let sizes = sizes(part, 16);
    assert_eq!((sizes.bytes, sizes.pieces, sizes.calls_max), (100 << 20, 26_214_400, 1_638_400));
}

/// `pario bench` without a workload takes a smaller cube than the paper, and the help says so.
#[test]
fn the_help_names_the_cube_of_a_bench_without_a_workload() {
    let about = super::dist3d::KIND.parameters[0].about;
    let named = format!("{} if no workload is named", super::dist3d::UNNAMED_EDGE);
    assert!(about.contains(&named), "{about}");
}

/// Papers 003 and 004: 512 x 512 x 512 integers, 512 MB.
#[test]
fn dist3d_is_that_of_papers_003_and_004() {
    for (ranks, rows, row_bytes) in
        [(8, 256 * 256, 1024), (16, 128 * 256, 1024), (64, 128 * 128, 512)]
    {
        let program = &made("dist3d", ranks, &[])[0];
        let part = &*program.parts[0];
        assert_eq!((part.file_bytes(), part.block_bytes()), (512 << 20, row_bytes));
        let sizes = sizes(part, ranks);
        assert_eq!((sizes.bytes, sizes.pieces), (512 << 20, rows * u64::from(ranks)));
    }
}

/// Class C of papers 003 and 004: 5 x 162 x 162 x 162 doubles, about 162 MB. Holes: bytes between
/// the first and the last byte of rank 0 that are not its own, over those that are.
#[test]
fn btio_is_that_of_papers_003_and_004() {
    for (ranks, ratio_tenths) in [(4, 30), (9, 80), (16, 149), (36, 349), (64, 627)] {
        let program = &made("btio", ranks, &[])[0];
        let part = &*program.parts[0];
        assert_eq!(part.file_bytes(), 5 * 162 * 162 * 162 * 8);
        assert_eq!((part.file_bytes() + (1 << 19)) >> 20, 162);
        let runs: Vec<Range<u64>> = part.runs(0).collect();
        let reach = runs.last().unwrap().end - runs[0].start;
        let own: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let tenths = ((reach - own) * 100 / own + 5) / 10;
        assert_eq!(tenths, ratio_tenths, "{ranks} ranks");
    }
    let pieces = sizes(&*made("btio", 64, &[])[0].parts[0], 64).pieces;
    assert_eq!(pieces, 162 * 162 * 8);
}

/// Papers 003 and 004: 8 million elements of 64 bytes.
#[test]
fn unstruc_is_that_of_papers_003_and_004() {
    let program = &made("unstruc", 8, &[])[0];
    let part = &*program.parts[0];
    assert_eq!(part.file_bytes(), 8_000_000 * 64);
    let runs: Vec<usize> = (0..8).map(|rank| part.runs(rank).count()).collect();
    assert_eq!(runs, [1_000_000; 8]);
    // No order in memory: hardly any element follows the one before it.
    let follows = |pair: &[Range<u64>]| pair[0].end == pair[1].start;
    let memory: Vec<Range<u64>> = part.memory_runs(3).unwrap().collect();
    assert!(memory.windows(2).filter(|pair| follows(pair)).count() < 20);
}

/// Table 1 of paper 000: 35.7, 71.4 and 53.9 MB (of 2^20 bytes), and a piece for each z, l and ph.
#[test]
fn stem2_is_that_of_paper_000() {
    let programs = made("stem2", 16, &[]);
    let table = [("SL1", 357, 61 * 4 * 4, 2520), ("SL2", 715, 61 * 4 * 4, 5040)];
    let table = [table[0], table[1], ("SL3", 539, 92 * 4 * 4, 2520)];
    for (program, (name, tenths, block_bytes, pieces)) in programs.iter().zip(table) {
        let part = &*program.parts[0];
        assert_eq!((part.part(), part.block_bytes()), (name, block_bytes));
        assert_eq!((part.file_bytes() * 10) >> 20, tenths);
        assert_eq!(part.runs(0).count(), pieces);
        // Every rank has room for the whole array.
        assert_eq!(part.memory(3).unwrap().unwrap().bytes, part.file_bytes());
    }
    let time_steps = &programs[3];
    let state: u64 = programs[..3].iter().map(|program| program.parts[0].file_bytes()).sum();
    assert_eq!(time_steps.parts[1].file_bytes(), state);
    let order: Vec<usize> = time_steps.steps.iter().map(|step| step.part).collect();
    assert_eq!(order, [0, 0, 1, 0, 0, 1]);
    assert!(time_steps.steps.iter().all(|step| step.compute.is_zero() == (step.part == 1)));
}

/// Paper 001, section III-B: 2 segments of 256 MB in transfers of 16 MB on 4 ranks.
#[test]
fn ior_is_that_of_paper_001() {
    let program = &made("ior", 4, &[])[0];
    let part = &*program.parts[0];
    assert_eq!((part.file_bytes(), part.block_bytes()), (2 << 30, 256 << 20));
    assert_eq!(part.calls(0), Some(vec![16 << 20; 32]));
}

/// Paper 001, section III-A: 13,107,200 particles of 38 bytes on each of 4 ranks, about 2 GB.
#[test]
fn hacc_io_is_that_of_paper_001() {
    for layout in [0, 1] {
        let program = &made("hacc-io", 4, &[("layout", layout)])[0];
        let part = &*program.parts[0];
        assert_eq!(part.file_bytes(), 13_107_200 * 38 * 4);
        let calls = [4, 4, 4, 4, 4, 4, 4, 8, 2].map(|bytes| bytes * 13_107_200);
        assert_eq!(part.calls(2), Some(calls.to_vec()));
        // A rank's arrays are neighbours, or those of a variable are.
        assert_eq!(sizes(part, 4).pieces, if layout == 0 { 4 } else { 36 });
    }
}

/// Paper 001, section III-A: 8 matrices of 5000 x 5000 doubles, 1.6 GB.
#[test]
fn madbench2_is_that_of_paper_001() {
    let program = &made("madbench2", 4, &[])[0];
    let phases: Vec<(&str, Ways)> =
        program.parts.iter().map(|part| (part.part(), part.ways())).collect();
    let ways = [("S", Ways::WriteOnly), ("W", Ways::ReadFirst), ("C", Ways::ReadOnly)];
    assert_eq!(phases, ways);
    for part in &program.parts {
        assert_eq!(part.file_bytes(), 1_600_000_000);
        assert_eq!(part.calls(0), Some(vec![2952 * 2952 * 8; 8]));
        assert_eq!(sizes(&**part, 4).pieces, 32);
    }
    // With gangs each rank has larger parts of fewer matrices.
    let gangs = &made("madbench2", 4, &[("no_gang", 2)])[0];
    assert_eq!(gangs.parts[0].calls(0), Some(vec![2952 * 2952 * 8; 8]));
    assert_eq!(gangs.parts[1].calls(0), Some(vec![2952 * 5000 * 8; 4]));
}

/// Paper 001, section III-A: 100 queries with up to 10,000 results of up to 5,000 bytes.
#[test]
fn s3asim_is_that_of_paper_001() {
    let program = &made("s3asim", 4, &[])[0];
    let part = &*program.parts[0];
    assert_eq!(part.calls(1).unwrap().len(), 100);
    assert!((4990..=5000).contains(&part.block_bytes()));
    // On the average 100 x 5,000 x 2,500 bytes.
    assert!((1_000_000_000..1_500_000_000).contains(&part.file_bytes()), "{}", part.file_bytes());
    let other = &made("s3asim", 4, &[("seed", 2)])[0];
    assert_ne!(other.parts[0].file_bytes(), part.file_bytes());
}

#[test]
fn the_bytes_that_were_asked_for_decide_the_size() {
    let bytes = |name: &str, bytes: u64| {
        let kind = kind(name);
        let wanted = Wanted { bytes: Some(bytes), ..wanted(kind, 4, &[]) };
        (kind.make)(&wanted).unwrap()[0].parts[0].file_bytes()
    };
    assert_eq!(bytes("block-cyclic", 1 << 20), 1 << 20);
    assert_eq!(bytes("dist3d", 100 << 20), 256 * 256 * 256 * 4);
    assert_eq!(bytes("dist3d", 4), 4);
    assert_eq!(bytes("unstruc", 1000), 15 * 64);
    assert_eq!(bytes("ior", 200 << 20), 128 << 20);
    assert_eq!(bytes("hacc-io", 1000), 6 * 4 * 38);
    assert_eq!(bytes("madbench2", 100 * 64), 10 * 10 * 64);
    assert_eq!(bytes("btio", 40 * 1000 + 5), 40 * 1000);
}

#[test]
fn impossible_sizes_are_refused() {
    let cases: [(&str, u32, Given<'_>, &str); 9] = [
        ("btio", 5, &[], "needs a square"),
        ("btio", 16, &[("problem_size", 3)], "not between 4"),
        ("dist3d", 4, &[("edge", 1 << 20)], "not between 1"),
        ("ior", 4, &[("blockSize", 10), ("transferSize", 3)], "not a multiple of transferSize=3"),
        ("ior", 4, &[("segmentCount", 1 << 60)], "more bytes than a file can have"),
        ("madbench2", 4, &[("no_gang", 3)], "not a divisor of 4 ranks"),
        ("madbench2", 4, &[("no_pix", 1 << 40)], "more bytes than a file can have"),
        ("hacc-io", 4, &[("numparticles", 1 << 61)], "more bytes than a file can have"),
        ("unstruc", 4, &[("elements", 1 << 40)], "at most"),
    ];
    for (name, ranks, given, reason) in cases {
        let kind = kind(name);
        let given: Vec<(String, u64)> =
            given.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let refused = (kind.make)(&wanted(kind, ranks, &given)).err().unwrap_or_default();
        assert!(refused.contains(reason), "{name}: {refused}");
    }
}
