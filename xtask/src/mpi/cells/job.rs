//! What is measured: workloads of the papers.

/// `auto`, and the fixed strategies that it is compared with.
pub(super) const STRATEGIES: [&str; 8] =
    ["auto", "direct", "list", "sieve", "two-phase", "gather", "multi-phase", "inspector-executor"];

/// One workload, as `pario bench` is asked for it.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) words: Vec<String>,
}

/// The workloads that some ranks can have, with files of about this size.
pub(super) fn all(ranks: u32, bytes: &str) -> Vec<Job> {
    let job = |name: &str, words: &str| {
        let words = words.replace("BYTES", bytes);
        let words = words.split_whitespace().map(str::to_owned).collect();
        Job { name: name.to_owned(), words }
    };
    let mut jobs = vec![
        job("block-cyclic 64", "block-cyclic --blocks 64 --bytes BYTES"),
        job("block-cyclic 4K", "block-cyclic --blocks 4K --bytes BYTES"),
        job("block-cyclic 64K", "block-cyclic --blocks 64K --bytes BYTES"),
        job("block-cyclic 1M", "block-cyclic --blocks 1M --bytes BYTES"),
        job("dist3d", "dist3d --bytes BYTES"),
        job("dist3d small", "dist3d --set edge=64"),
        job("unstruc", "unstruc --bytes BYTES"),
        job("stem2 SL1", "stem2 --set array=SL1"),
        job("stem2 SL2", "stem2 --set array=SL2"),
        job("hacc-io", "hacc-io --set layout=soa --bytes BYTES"),
    ];
    let side = ranks.isqrt();
    if side * side == ranks {
        jobs.push(job("btio", "btio --set problem_size=81"));
        jobs.push(job("btio small", "btio --set problem_size=32"));
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 2, 4 and 16 ranks, two directions, two file systems and three transports.
    #[test]
    fn there_are_many_cells() {
        let jobs: usize = [2, 4, 16].map(|ranks| all(ranks, "32M").len()).iter().sum();
        assert!(jobs * 2 >= 60, "{jobs}");
        assert!(all(2, "1M").iter().all(|job| !job.name.starts_with("btio")));
        assert_eq!(all(4, "1M")[0].words.last().unwrap(), "1M");
    }
}
