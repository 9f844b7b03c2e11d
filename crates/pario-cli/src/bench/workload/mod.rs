//! Workloads: which bytes of the file each rank has, and where.
//!
//! A workload is a pattern of 4-byte elements that covers a file without gaps: each element
//! belongs to exactly one rank. It says so twice: as a view, which pario is measured with, and as
//! runs of global indices, which buffers are filled and checked with. The second way shares no
//! code with pario, so that a wrong datatype or a wrong layout is found.
//!
//! A new workload is one file here and one line in [`KINDS`].

use std::ops::Range;

use pario::View;

mod block_cyclic;
mod btio;
mod dist3d;
mod stem2;
mod unstruc;

/// Bytes of an element.
pub(crate) const ELEMENT_BYTES: u64 = 4;

/// Ranges of global element indices.
pub(crate) type Runs<'a> = Box<dyn Iterator<Item = Range<u64>> + 'a>;

/// A pattern of elements over ranks.
pub(crate) trait Workload: Send + Sync {
    /// The name by which a user chooses it.
    fn name(&self) -> &'static str;

    /// How it is shaped, in a few words for the header.
    fn shape(&self) -> String;

    /// Bytes that a rank has in one piece, at most.
    fn block_bytes(&self) -> u64;

    /// Elements of the whole file.
    fn elements(&self) -> u64;

    /// What a rank sees of the file, in order of its memory.
    fn view(&self, rank: u32) -> pario::Result<View>;

    /// The global indices of a rank's elements, in order of its memory; none twice.
    fn runs(&self, rank: u32) -> Runs<'_>;
}

/// What the user asked for; each kind of workload takes what concerns it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) ranks: u32,
    /// Size of the file, if the workload can have any.
    pub(crate) bytes: u64,
    /// Block sizes to sweep over.
    pub(crate) block_bytes: Vec<u64>,
    /// Edge of a cube of elements; by default the largest power of two that fits in `bytes`.
    pub(crate) edge: Option<u64>,
}

/// The workloads of one kind, or why there are none.
pub(crate) type Made = Result<Vec<Box<dyn Workload>>, String>;

/// A kind of workload.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Wanted) -> Made,
    /// Whether it runs only if it is named.
    pub(crate) on_request: bool,
}

/// All kinds, in the order in which they are run.
pub(crate) const KINDS: [Kind; 5] = [
    Kind { name: block_cyclic::NAME, make: block_cyclic::make, on_request: false },
    Kind { name: dist3d::NAME, make: dist3d::make, on_request: false },
    Kind { name: btio::NAME, make: btio::make, on_request: true },
    Kind { name: unstruc::NAME, make: unstruc::make, on_request: true },
    Kind { name: stem2::NAME, make: stem2::make, on_request: true },
];

#[cfg(test)]
mod tests {
    use super::*;
    use pario::{File, Position, Threads};

    fn wanted(ranks: u32, bytes: u64, block_bytes: &[u64], edge: u64) -> Wanted {
        Wanted { ranks, bytes, block_bytes: block_bytes.to_vec(), edge: Some(edge) }
    }

    /// Workloads of every kind, small, even and uneven.
    fn examples() -> Vec<(u32, Box<dyn Workload>)> {
        let cases = [
            wanted(1, 64, &[4, 16], 3),
            wanted(4, 4096, &[4, 64, 512], 8),
            wanted(3, 1000, &[4, 12, 40], 7),
            wanted(16, 4096, &[8, 256], 10),
            wanted(12, 768, &[64], 5),
            wanted(7, 28, &[4], 1),
        ];
        let all = cases.iter().flat_map(|wanted| {
            let of_kind = |kind: &Kind| (kind.make)(wanted).unwrap();
            // Arrays of a fixed size are too large for this, but for a few ranks.
            let small = |kind: &&Kind| !kind.on_request || wanted.ranks == 16;
            KINDS.iter().filter(small).flat_map(of_kind).map(|workload| (wanted.ranks, workload))
        });
        all.collect()
    }

    #[test]
    fn every_element_belongs_to_exactly_one_rank() {
        for (ranks, workload) in examples() {
            let mut owners = vec![0; usize::try_from(workload.elements()).unwrap()];
            for rank in 0..ranks {
                for index in workload.runs(rank).flatten() {
                    owners[usize::try_from(index).unwrap()] += 1;
                }
            }
            let (name, shape) = (workload.name(), workload.shape());
            assert!(owners.iter().all(|&owners| owners == 1), "{name}: {shape}, {ranks} ranks");
        }
    }

    #[test]
    fn no_piece_is_longer_than_a_block() {
        for (ranks, workload) in examples() {
            let limit = workload.block_bytes() / ELEMENT_BYTES;
            let runs = (0..ranks).flat_map(|rank| workload.runs(rank));
            assert_eq!(runs.map(|run| run.end - run.start).max(), Some(limit));
        }
    }

    /// The view and the runs name the same places in the same order: an element written through
    /// the view is found at the global index of its run.
    #[test]
    fn views_and_runs_agree() {
        for (number, (ranks, workload)) in examples().into_iter().enumerate() {
            let path = format!("memory:workload-{number}");
            let index_of = |rank: u32| -> Vec<u32> {
                workload.runs(rank).flatten().map(|index| u32::try_from(index).unwrap()).collect()
            };
            Threads::new(ranks).run(|comm| {
                let options = File::options().read(true).write(true).create(true);
                let file = options.open(&*comm, &path).unwrap();
                file.set_view(&workload.view(comm.rank()).unwrap()).unwrap();
                file.write_all(Position::Individual, &index_of(comm.rank())).unwrap();
                file.set_view(&View::bytes()).unwrap();
                let mut all = vec![0_u32; usize::try_from(workload.elements()).unwrap()];
                file.read_all(0, &mut all).unwrap();
                assert_eq!(file.size().unwrap(), workload.elements() * ELEMENT_BYTES);
                let right = (0_u32..).zip(&all).all(|(index, &found)| index == found);
                assert!(right, "{}: {}, {ranks} ranks", workload.name(), workload.shape());
                file.close().unwrap();
            });
            File::delete(&path).unwrap();
        }
    }
}
