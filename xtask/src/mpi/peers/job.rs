//! What is measured: workloads of several shapes, each at several levels.
//!
//! The program in C knows how bytes are dealt out to ranks; here are the sizes.

/// Levels of the ROMIO papers that are measured: one independent call for each piece, one
/// independent call with a view, one collective call with a view.
pub(super) const LEVELS: [u32; 3] = [0, 2, 3];

/// The workloads of the program in C.
pub(super) const WORKLOADS: [&str; 6] =
    ["block-cyclic", "dist3d", "btio", "unstruc", "stem2", "contiguous"];

/// One more, whose calls are timed one by one.
pub(super) const SMALL: &str = "small";

/// What most programs do with a file: open, view, one call, close.
pub(super) const STEP: &str = "step";

const MIB: u64 = 1 << 20;

/// How large the problems are.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) quick: bool,
    /// Elements of `unstruc`.
    pub(super) elements: u64,
}

/// How often a call is made, and how long it may take.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Calls after the first.
    pub(super) calls: u32,
    /// Seconds for all calls of one direction.
    pub(super) budget: f64,
    /// Whether a smaller problem first gives an estimate for the whole one.
    pub(super) probe: bool,
}

/// One shape of a workload at one level on some ranks.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) workload: &'static str,
    /// What distinguishes it from others of its workload.
    pub(super) shape: String,
    pub(super) block: Option<u64>,
    pub(super) level: u32,
    pub(super) ranks: u32,
    numbers: Vec<(&'static str, u64)>,
}

impl Job {
    /// The word by which the program knows it.
    pub(super) fn word(&self, pace: Pace) -> String {
        let mut word = format!("workload={},level={}", self.workload, self.level);
        let numbers = self.numbers.iter().map(|(name, number)| format!(",{name}={number}"));
        word.extend(numbers);
        let probe = u32::from(pace.probe);
        word + &format!(",calls={},budget={},probe={probe}", pace.calls, pace.budget)
    }
}

/// The jobs of a workload on some ranks at one level; none if it cannot be dealt out to them.
pub(super) fn jobs(workload: &str, level: u32, ranks: u32, sizes: Sizes) -> Vec<Job> {
    let Sizes { quick, elements } = sizes;
    let pick = |whole: u64, small: u64| if quick { small } else { whole };
    let each = u64::from(ranks);
    let job = |workload, shape: String, block, numbers: &[(&'static str, u64)]| Job {
        workload,
        shape,
        block,
        level,
        ranks,
        numbers: numbers.to_vec(),
    };
    let cyclic = |block: u64| {
        // The largest block of the quick ones once for each rank.
        let numbers = [("block", block), ("bytes", pick(100 * MIB, 4096 * each.max(16)))];
        job("block-cyclic", format!("{block} B"), Some(block), &numbers)
    };
    match workload {
        "block-cyclic" if quick => [4, 64, 4096].map(cyclic).to_vec(),
        "block-cyclic" => [4, 64, 512, 4096, 65536].map(cyclic).to_vec(),
        "dist3d" => {
            let edge = pick(512, 32);
            vec![job("dist3d", format!("{edge}^3"), None, &[("edge", edge)])]
        }
        "btio" if each.isqrt().pow(2) == each => {
            let edge = pick(162, 24);
            vec![job("btio", format!("{edge}^3"), None, &[("edge", edge)])]
        }
        "unstruc" => {
            let elements = pick(elements, 4000);
            let shape = match elements.is_multiple_of(1_000_000) {
                true => format!("{} million", elements / 1_000_000),
                false => elements.to_string(),
            };
            vec![job("unstruc", shape, Some(64), &[("elements", elements), ("seed", 1)])]
        }
        "stem2" => {
            let arrays = [("SL1", 61, 2520), ("SL2", 61, 5040), ("SL3", 92, 2520)];
            let array = |(name, x, rest): (&str, u64, u64)| {
                let numbers = [("x", x), ("y", 61), ("rest", pick(rest, rest / 252))];
                job("stem2", name.to_owned(), None, &numbers)
            };
            arrays.map(array).to_vec()
        }
        "contiguous" => {
            let large = [("bytes", pick(100 * MIB, MIB))];
            let calls = pick(1000, 10);
            let small = [("bytes", 4096 * calls * each), ("transfers", calls)];
            vec![
                job("contiguous", "large".to_owned(), None, &large),
                job("contiguous", "4 KiB calls".to_owned(), Some(4096), &small),
            ]
        }
        STEP if level == 3 => {
            let step = |(name, bytes): (&str, u64)| {
                let numbers = [("bytes", pick(bytes, 16 << 10)), ("block", 512)];
                job(STEP, name.to_owned(), Some(512), &numbers)
            };
            [("16 KiB", 16 << 10), ("1 MiB", MIB), ("100 MiB", 100 * MIB)].map(step).to_vec()
        }
        SMALL => {
            let calls = pick(100, 10);
            let bytes = 4096 * calls * each;
            let numbers = [("bytes", bytes), ("block", 64), ("transfers", calls)];
            vec![job(SMALL, "4 KiB a call".to_owned(), Some(64), &numbers)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { quick: false, elements: 1_000_000 };

    #[test]
    fn a_job_is_one_word() {
        let pace = Pace { calls: 5, budget: 1.5, probe: true };
        let word = jobs("block-cyclic", 3, 4, SIZES)[1].word(pace);
        let expected =
            "workload=block-cyclic,level=3,block=64,bytes=104857600,calls=5,budget=1.5,probe=1";
        assert_eq!(word, expected);
    }

    #[test]
    fn every_workload_has_jobs_in_both_sizes() {
        for workload in WORKLOADS.into_iter().chain([SMALL, STEP]) {
            for quick in [false, true] {
                assert!(!jobs(workload, 3, 16, Sizes { quick, ..SIZES }).is_empty());
            }
        }
    }

    #[test]
    fn btio_needs_a_square_of_ranks() {
        let count = |ranks| jobs("btio", 3, ranks, SIZES).len();
        assert_eq!([4, 9, 16, 5, 8].map(count), [1, 1, 1, 0, 0]);
    }
}
