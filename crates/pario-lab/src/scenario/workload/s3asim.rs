//! S3aSim (paper 001, sections II-C and III-A): the results of a parallel sequence search.
//!
//! Each query finds a number of results, up to `result_count_max`, each of a number of bytes, up
//! to `result_size_max`; both follow from the seed, and so does the rank that found it. The file
//! has the queries one after the other, and the results of a query in the order of their scores,
//! so that the results of different ranks alternate. Each query is one call, with the pieces of
//! each rank as a list. Results are written so by S3aSim's workers; the paper measures the reads.
//!
//! The paper has 100 queries, sizes up to 5,000 and counts up to 10,000 on 4 ranks. It says 2 GB;
//! with even distributions these are 1.25 GB.

use std::ops::Range;

use pario::{Datatype, View};

use super::random::Random;
use super::{Kind, Made, Parameter, Program, Runs, Values, Wanted, Workload};
use super::{bytes, product, view};

const NAME: &str = "s3asim";

pub(super) const KIND: Kind = Kind {
    name: NAME,
    make,
    parameters: &[
        Parameter {
            name: "query_count",
            values: Values::Number(1),
            paper: 100,
            quick: 5,
            about: "queries",
        },
        Parameter {
            name: "result_size_max",
            values: Values::Number(1),
            paper: 5000,
            quick: 5000,
            about: "bytes of a result, at most",
        },
        Parameter {
            name: "result_count_max",
            values: Values::Number(1),
            paper: 10_000,
            quick: 500,
            about: "results of a query, at most",
        },
        Parameter {
            name: "seed",
            values: Values::Number(0),
            paper: 1,
            quick: 1,
            about: "seed of counts, sizes and owners",
        },
    ],
    ranks: 4,
    on_request: true,
    about: "results of a sequence search, in the order of their scores (paper 001)",
};

struct S3aSim {
    ranks: u32,
    seed: u64,
    size_max: u64,
    /// Number of results, and the first byte in the file, of each query.
    queries: Vec<(u64, u64)>,
    results: u64,
    file_bytes: u64,
    longest: u64,
}

/// A result: the rank that found it, and its bytes of the file.
type Found = (u64, Range<u64>);

fn make(wanted: &Wanted<'_>) -> Made {
    let (count, size_max) = (wanted.number("query_count"), wanted.number("result_size_max"));
    let count_max = wanted.number("result_count_max");
    product(&[count, count_max, size_max], "query_count")?;
    let mut s3asim = S3aSim {
        ranks: wanted.ranks,
        seed: wanted.number("seed"),
        size_max,
        queries: Vec::new(),
        results: 0,
        file_bytes: 0,
        longest: 0,
    };
    let mut random = Random::new(s3asim.seed);
    for query in 0..count {
        let results = 1 + random.below(count_max);
        s3asim.queries.push((results, s3asim.file_bytes));
        let mut end = s3asim.file_bytes;
        for (_, bytes) in s3asim.found(query) {
            s3asim.longest = s3asim.longest.max(bytes.end - bytes.start);
            end = bytes.end;
        }
        (s3asim.results, s3asim.file_bytes) = (s3asim.results + results, end);
    }
    Ok(vec![Program::of(s3asim, wanted)])
}

impl S3aSim {
    /// All results of a query, in the order of the file.
    fn found(&self, query: u64) -> impl Iterator<Item = Found> + use<> {
        let index = usize::try_from(query).unwrap_or(usize::MAX);
        let (count, start) = self.queries.get(index).copied().unwrap_or((0, 0));
        let (ranks, size_max) = (u64::from(self.ranks), self.size_max);
        let mut random = Random::new(self.seed ^ (query + 1).rotate_left(32));
        (0..count).scan(start, move |end, _| {
            let (owner, size) = (random.below(ranks), 1 + random.below(size_max));
            let bytes = *end..*end + size;
            *end = bytes.end;
            Some((owner, bytes))
        })
    }

    /// A rank's results of a query.
    fn own(&self, query: u64, rank: u32) -> impl Iterator<Item = Range<u64>> + use<> {
        let found = self.found(query).filter(move |(owner, _)| *owner == u64::from(rank));
        found.map(|(_, bytes)| bytes)
    }

    fn queries(&self) -> Range<u64> {
        0..u64::try_from(self.queries.len()).unwrap_or(u64::MAX)
    }
}

impl Workload for S3aSim {
    fn name(&self) -> &str {
        NAME
    }

    fn shape(&self) -> String {
        let (queries, results, seed) = (self.queries.len(), self.results, self.seed);
        format!(
            "{queries} queries with {results} results of up to {} bytes, seed {seed}",
            self.size_max
        )
    }

    fn block_bytes(&self) -> u64 {
        self.longest
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn view(&self, rank: u32) -> pario::Result<View> {
        let own = self.runs(rank).map(|run| (run.end - run.start, run.start.cast_signed()));
        let (lens, places): (Vec<u64>, Vec<i64>) = own.unzip();
        Ok(view(0, &Datatype::hindexed(&lens, &places, &bytes(1)?)?))
    }

    fn runs(&self, rank: u32) -> Runs<'_> {
        Box::new(self.queries().flat_map(move |query| self.own(query, rank)))
    }

    fn calls(&self, rank: u32) -> Option<Vec<u64>> {
        let of_query = |query| self.own(query, rank).map(|run| run.end - run.start).sum();
        Some(self.queries().map(of_query).collect())
    }
}
