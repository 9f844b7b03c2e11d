//! All experiments.

use super::{Mode, Outcome, Run};
use super::{paper_000, paper_001, paper_002, paper_003, paper_004};

/// An experiment of a paper.
pub(crate) struct Experiment {
    pub(crate) id: &'static str,
    pub(crate) paper: &'static str,
    /// Figure, table or section.
    pub(crate) place: &'static str,
    pub(crate) question: &'static str,
    pub(crate) modes: &'static [Mode],
    pub(crate) run: fn(&Run) -> Outcome,
}

const COUNT: &[Mode] = &[Mode::Count];
const VIRTUAL: &[Mode] = &[Mode::Virtual];
const COUNT_HERE: &[Mode] = &[Mode::Count, Mode::Here];
const VIRTUAL_HERE: &[Mode] = &[Mode::Virtual, Mode::Here];
const ALL: &[Mode] = &Mode::ALL;

macro_rules! experiment {
    ($id:literal, $place:literal, $modes:expr, $run:expr, $question:literal) => {
        Experiment {
            id: $id,
            paper: first_three($id),
            place: $place,
            question: $question,
            modes: $modes,
            run: $run,
        }
    };
}

/// The number of the paper, with which identifiers begin.
const fn first_three(id: &'static str) -> &'static str {
    id.split_at(3).0
}

/// In the order of the papers.
pub(crate) const EXPERIMENTS: [Experiment; 39] = [
    experiment!(
        "000-eq1",
        "Equation 1",
        COUNT,
        paper_000::eq1,
        "How many bytes does a rank send in a phase?"
    ),
    experiment!(
        "000-fig4",
        "Figure 4",
        COUNT,
        paper_000::fig4,
        "Does each phase halve the number of pieces, down to one block a rank?"
    ),
    experiment!(
        "000-fig6",
        "Figure 6",
        VIRTUAL_HERE,
        paper_000::fig6,
        "Does the time fall with each phase, and do all phases beat the other techniques?"
    ),
    experiment!(
        "000-fig7",
        "Figure 7",
        VIRTUAL_HERE,
        paper_000::fig7,
        "Does twice the data (SL2) take twice the time?"
    ),
    experiment!(
        "000-fig8",
        "Figure 8",
        VIRTUAL_HERE,
        paper_000::fig8,
        "Do longer pieces (SL3) cost only those who store single blocks?"
    ),
    experiment!(
        "000-fig9",
        "Figure 9",
        VIRTUAL_HERE,
        paper_000::fig9,
        "Does every phase cost about the same on Myrinet?"
    ),
    experiment!(
        "000-fig10",
        "Figure 10",
        VIRTUAL,
        paper_000::fig10,
        "Does the last phase gain less on Fast Ethernet, and are all phases still best?"
    ),
    experiment!(
        "000-scale",
        "Section 6",
        VIRTUAL,
        paper_000::scale,
        "Does the volume of a phase fall with the number of ranks?"
    ),
    experiment!(
        "001-fig4",
        "Figure 4",
        VIRTUAL_HERE,
        paper_001::fig4,
        "How much does a small page cache cost HACC-IO on HDD, SSD and NVM?"
    ),
    experiment!(
        "001-fig5",
        "Figure 5",
        VIRTUAL_HERE,
        paper_001::fig5,
        "How much does a small page cache cost MADbench2, phase W?"
    ),
    experiment!(
        "001-fig6",
        "Figure 6",
        VIRTUAL_HERE,
        paper_001::fig6,
        "How much does a small page cache cost the reads of S3aSim?"
    ),
    experiment!(
        "001-fig7",
        "Figure 7",
        VIRTUAL_HERE,
        paper_001::fig7,
        "What does the layer of MPI individual I/O cost on one node?"
    ),
    experiment!(
        "001-fig8",
        "Figure 8",
        VIRTUAL,
        paper_001::fig8,
        "What does the layer of MPI individual I/O cost on several nodes?"
    ),
    experiment!(
        "001-fig9",
        "Figure 9",
        VIRTUAL_HERE,
        paper_001::fig9,
        "On which devices does collective I/O lose, with one rank a node?"
    ),
    experiment!(
        "001-fig10",
        "Figure 10",
        VIRTUAL_HERE,
        paper_001::fig10,
        "On which devices does collective I/O pay, with four ranks a node?"
    ),
    experiment!(
        "001-table2",
        "Table II",
        VIRTUAL_HERE,
        paper_001::table2,
        "Does the shuffle take the same time on every device, and which part of all?"
    ),
    experiment!(
        "001-table4",
        "Table IV",
        VIRTUAL,
        paper_001::table4,
        "How much slower is random access than sequential access, end to end?"
    ),
    experiment!(
        "001-table5",
        "Table V",
        COUNT,
        paper_001::table5,
        "What does the model estimate on 4 nodes, and does it name the winner?"
    ),
    experiment!(
        "001-table6",
        "Table VI",
        COUNT,
        paper_001::table6,
        "What does the model estimate on 2 nodes, and does it name the winner?"
    ),
    experiment!(
        "001-fig11",
        "Figure 11",
        COUNT,
        paper_001::fig11,
        "From which message size on does collective I/O pay?"
    ),
    experiment!(
        "002-examples",
        "Tables 1, 3, 4; Figure 8",
        COUNT,
        paper_002::examples,
        "Does the inspector compute what the paper prints?"
    ),
    experiment!(
        "002-fig13",
        "Figure 13",
        COUNT_HERE,
        paper_002::fig13,
        "Does the inspector's time grow less than linearly with Nx?"
    ),
    experiment!(
        "002-fig14",
        "Figure 14",
        COUNT_HERE,
        paper_002::fig14,
        "Does the inspector's time grow less than linearly with the ranks?"
    ),
    experiment!(
        "002-amortise",
        "Section 3",
        COUNT_HERE,
        paper_002::amortise,
        "Is one inspection enough for many writes?"
    ),
    experiment!(
        "002-fig15",
        "Figure 15",
        VIRTUAL_HERE,
        paper_002::fig15,
        "Is the executor's time independent of Bx on Myrinet?"
    ),
    experiment!(
        "002-fig16",
        "Figure 16",
        VIRTUAL,
        paper_002::fig16,
        "Is the executor's time flat on Fast Ethernet, and what changes with the network?"
    ),
    experiment!(
        "002-fig17",
        "Figure 17",
        VIRTUAL_HERE,
        paper_002::fig17,
        "From which Bx on do two-phase and list I/O reach inspector-executor (100 MB, Myrinet)?"
    ),
    experiment!(
        "002-fig18",
        "Figure 18",
        VIRTUAL,
        paper_002::fig18,
        "From which Bx on do two-phase and list I/O reach inspector-executor (500 MB, Myrinet)?"
    ),
    experiment!(
        "002-fig19",
        "Figure 19",
        VIRTUAL,
        paper_002::fig19,
        "Who is slower on Fast Ethernet, and who is ahead at large Bx (100 MB)?"
    ),
    experiment!(
        "002-fig20",
        "Figure 20",
        VIRTUAL,
        paper_002::fig20,
        "Who is slower on Fast Ethernet, and who is ahead at large Bx (500 MB)?"
    ),
    experiment!(
        "003-level1",
        "Figure 2",
        ALL,
        paper_003::level1,
        "Are collective calls of single pieces like independent ones?"
    ),
    experiment!(
        "003-sieve-buffer",
        "Section 5",
        VIRTUAL_HERE,
        paper_003::sieve_buffer,
        "Is 512 KB a good buffer for sieving writes?"
    ),
    experiment!(
        "004-table1",
        "Table 1",
        VIRTUAL_HERE,
        paper_004::table1,
        "DIST3D, reads: how far are Unix-style access, sieving and collective I/O apart?"
    ),
    experiment!(
        "004-table2",
        "Table 2",
        VIRTUAL_HERE,
        paper_004::table2,
        "DIST3D, writes: how far are Unix-style access, sieving and collective I/O apart?"
    ),
    experiment!(
        "004-table3",
        "Table 3",
        VIRTUAL_HERE,
        paper_004::table3,
        "BTIO, reads: does sieving lose to Unix-style access where holes are large?"
    ),
    experiment!(
        "004-table4",
        "Table 4",
        VIRTUAL_HERE,
        paper_004::table4,
        "BTIO, writes: does sieving lose to Unix-style access where holes are large?"
    ),
    experiment!(
        "004-table5",
        "Table 5",
        VIRTUAL_HERE,
        paper_004::table5,
        "UNSTRUC, reads: does collective I/O beat sieving?"
    ),
    experiment!(
        "004-table6",
        "Table 6",
        VIRTUAL_HERE,
        paper_004::table6,
        "UNSTRUC, writes: does collective I/O beat sieving?"
    ),
    experiment!(
        "004-fast",
        "beyond the paper",
        VIRTUAL_HERE,
        paper_004::fast,
        "Does the order of the levels flip on fast storage?"
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_unique_and_begin_with_their_paper() {
        for (index, one) in EXPERIMENTS.iter().enumerate() {
            assert!(EXPERIMENTS[..index].iter().all(|other| other.id != one.id), "{}", one.id);
            assert!(one.id.starts_with(&format!("{}-", one.paper)), "{}", one.id);
            assert!(!one.modes.is_empty() && one.question.ends_with('?'), "{}", one.id);
        }
    }
}
