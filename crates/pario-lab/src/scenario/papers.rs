//! The papers whose experiments are repeated.

/// The papers: number, title, authors and year.
const PAPERS: [(&str, &str); 5] = [
    (
        "000",
        "Multiple-Phase Collective I/O Technique for Improving Data Access Locality (Singh, \
         Isaila, Calderón, García, Carretero, 2007)",
    ),
    (
        "001",
        "Performance Evaluation and Modeling of HPC I/O on Non-Volatile Memory (Liu, Wu, Liu, \
         Chen, Li, 2017)",
    ),
    (
        "002",
        "A Collective I/O Implementation Based on Inspector–Executor Paradigm (Singh, Isaila, \
         Pichel, Carretero, 2009)",
    ),
    ("003", "Optimizing Noncontiguous Accesses in MPI-IO (Thakur, Gropp, Lusk, 2002)"),
    ("004", "Data Sieving and Collective I/O in ROMIO (Thakur, Gropp, Lusk, 1999)"),
];

/// The title of a paper by its number.
pub(crate) fn title_of(paper: &str) -> Option<&'static str> {
    PAPERS.iter().find(|(number, _)| *number == paper).map(|(_, title)| *title)
}
