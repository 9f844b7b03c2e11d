//! Who is measured: Block I/O, pario with a strategy at a level of requests, what the papers
//! compare with and pario does not have, and MPI's own functions.

use std::fmt;
use std::str::FromStr;

use pario::Strategy;

/// How a program makes its requests: the levels of papers 003 (section 3) and 004.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// An independent call for each contiguous piece, as with plain system calls.
    Pieces,
    /// A collective call for each piece; ranks with fewer of them take part with nothing.
    CollectivePieces,
    /// Independent calls with a view.
    View,
    /// Collective calls with a view.
    CollectiveView,
}

impl Level {
    /// The level of a number.
    pub(crate) fn new(number: u8) -> Option<Level> {
        let all = [Level::Pieces, Level::CollectivePieces, Level::View, Level::CollectiveView];
        all.get(usize::from(number)).copied()
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Level::Pieces => 0,
            Level::CollectivePieces => 1,
            Level::View => 2,
            Level::CollectiveView => 3,
        }
    }

    /// Whether all ranks make each call together.
    pub(crate) fn is_collective(self) -> bool {
        matches!(self, Level::CollectivePieces | Level::CollectiveView)
    }

    /// Whether each piece is a call of its own.
    pub(crate) fn is_by_piece(self) -> bool {
        matches!(self, Level::Pieces | Level::CollectivePieces)
    }

    /// The strategies that make a difference, of those that were asked for. A call with one piece
    /// has nothing to choose; independent calls cannot exchange anything.
    pub(crate) fn strategies(self, asked: &[Strategy], all: bool) -> Vec<Strategy> {
        let alone = [Strategy::Direct, Strategy::List, Strategy::Sieve, Strategy::Auto];
        let useful: Vec<Strategy> = match self {
            Level::Pieces => Vec::new(),
            Level::CollectivePieces if all => Vec::new(),
            Level::View => asked.iter().copied().filter(|one| alone.contains(one)).collect(),
            Level::CollectivePieces | Level::CollectiveView => asked.to_vec(),
        };
        if useful.is_empty() { vec![Strategy::Auto] } else { useful }
    }
}

/// How pario is asked to serve a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) strategy: Strategy,
    /// Number of phases, if it is given.
    pub(crate) phases: Option<u32>,
    pub(crate) level: Level,
}

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Every rank in one piece, in its own part of the file: the reference of paper 002.
    BlockIo,
    Pario(Way),
    /// Neither pario nor Block I/O.
    Plain(Plain),
    /// `MPI_File_*`, as a program in C calls them.
    Mpi {
        whose: Implementation,
        level: Level,
    },
}

/// Whose `MPI_File_*` are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// The MPI library's own.
    Library,
    /// Those of pario's drop-in library.
    DropIn,
}

/// Contenders of the papers that go to storage by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    /// A system call for each piece, no locks, nothing together.
    Posix,
    /// What papers 003 and 004 say of ROMIO, with views: sieving, or two-phase if all ranks call
    /// together.
    RomioLike { collective: bool },
}

impl Plain {
    /// What a contender of a name does at a level, if it is another thing than at a lower one.
    pub(crate) fn at(name: &str, level: Level) -> Option<Plain> {
        match (name, level) {
            (POSIX, Level::Pieces) => Some(Plain::Posix),
            (ROMIO_LIKE, Level::View) => Some(Plain::RomioLike { collective: false }),
            (ROMIO_LIKE, Level::CollectiveView) => Some(Plain::RomioLike { collective: true }),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Plain::Posix => POSIX,
            Plain::RomioLike { .. } => ROMIO_LIKE,
        }
    }

    fn level(self) -> Level {
        match self {
            Plain::Posix => Level::Pieces,
            Plain::RomioLike { collective: false } => Level::View,
            Plain::RomioLike { collective: true } => Level::CollectiveView,
        }
    }
}

/// Names of the contenders that are no strategies of pario.
pub(crate) const POSIX: &str = "posix";
pub(crate) const ROMIO_LIKE: &str = "romio-like";

/// Those that call `MPI_File_*`.
pub(crate) const MPI: &str = "mpi";
pub(crate) const DROP_IN: &str = "drop-in";

/// pario as a program gets it that asks for nothing: the strategy `auto`.
const PARIO: &str = "pario";

/// What a user may name in `--contenders`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// pario with a strategy.
    Pario(Strategy),
    /// One of `POSIX` and `ROMIO_LIKE`.
    Plain(&'static str),
    /// `MPI_File_*`.
    Mpi(Implementation),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        match text {
            POSIX => Ok(Choice::Plain(POSIX)),
            ROMIO_LIKE => Ok(Choice::Plain(ROMIO_LIKE)),
            MPI => Ok(Choice::Mpi(Implementation::Library)),
            DROP_IN => Ok(Choice::Mpi(Implementation::DropIn)),
            PARIO => Ok(Choice::Pario(Strategy::Auto)),
            _ => {
                let strategy = text.parse().map_err(|error: pario::Error| error.to_string());
                strategy.map(Choice::Pario)
            }
        }
    }
}

/// Names of multi-phase with a number of phases.
const PHASED: [&str; 10] = [
    "multi-phase 0",
    "multi-phase 1",
    "multi-phase 2",
    "multi-phase 3",
    "multi-phase 4",
    "multi-phase 5",
    "multi-phase 6",
    "multi-phase 7",
    "multi-phase 8",
    "multi-phase 9",
];

impl Contender {
    /// The name of the strategy in the output for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::BlockIo => "block",
            Contender::Plain(plain) => plain.name(),
            Contender::Mpi { whose: Implementation::Library, .. } => MPI,
            Contender::Mpi { whose: Implementation::DropIn, .. } => DROP_IN,
            Contender::Pario(Way { strategy, phases: None, .. }) => strategy.name(),
            Contender::Pario(Way { phases: Some(phases), .. }) => {
                let index = usize::try_from(phases).unwrap_or(usize::MAX);
                PHASED.get(index).copied().unwrap_or("multi-phase")
            }
        }
    }

    /// Whether it calls `MPI_File_*`.
    pub(crate) fn calls_mpi(self) -> bool {
        matches!(self, Contender::Mpi { .. })
    }

    pub(crate) fn level(self) -> Option<Level> {
        match self {
            Contender::BlockIo => None,
            Contender::Pario(way) => Some(way.level),
            Contender::Plain(plain) => Some(plain.level()),
            Contender::Mpi { level, .. } => Some(level),
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.level()) {
            (_, None) => formatter.pad("Block I/O"),
            (_, Some(Level::CollectiveView)) => formatter.pad(self.name()),
            (Contender::Plain(Plain::Posix), _) => formatter.pad(POSIX),
            (Contender::Pario(_), Some(Level::Pieces)) => formatter.pad("level 0"),
            (_, Some(level)) => formatter.pad(&format!("level {} {}", level.number(), self.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_strategies_that_make_a_difference() {
        let asked = [Strategy::Sieve, Strategy::TwoPhase];
        assert_eq!(Level::Pieces.strategies(&asked, false), [Strategy::Auto]);
        assert_eq!(Level::CollectivePieces.strategies(&asked, false), asked);
        assert_eq!(Level::CollectivePieces.strategies(&asked, true), [Strategy::Auto]);
        assert_eq!(Level::View.strategies(&asked, false), [Strategy::Sieve]);
        assert_eq!(Level::View.strategies(&asked[1..], false), [Strategy::Auto]);
        assert_eq!(Level::CollectiveView.strategies(&asked, false), asked);
    }

    #[test]
    fn names_say_the_level_unless_it_is_the_usual_one() {
        let name = |strategy, phases, level| {
            let level = Level::new(level).unwrap();
            Contender::Pario(Way { strategy, phases, level }).to_string()
        };
        assert_eq!(name(Strategy::Sieve, None, 2), "level 2 sieve");
        assert_eq!(name(Strategy::Auto, None, 0), "level 0");
        assert_eq!(name(Strategy::MultiPhase, Some(3), 3), "multi-phase 3");
        assert_eq!(Level::new(4), None);
        let plain = |name, level| {
            let plain = Plain::at(name, Level::new(level).unwrap())?;
            Some(Contender::Plain(plain).to_string())
        };
        assert_eq!(plain(POSIX, 0).as_deref(), Some("posix"));
        assert_eq!(plain(ROMIO_LIKE, 2).as_deref(), Some("level 2 romio-like"));
        assert_eq!(plain(ROMIO_LIKE, 3).as_deref(), Some("romio-like"));
        assert_eq!((plain(POSIX, 3), plain(ROMIO_LIKE, 1)), (None, None));
        let mpi =
            |whose, level| Contender::Mpi { whose, level: Level::new(level).unwrap() }.to_string();
        assert_eq!(mpi(Implementation::Library, 3), "mpi");
        assert_eq!(mpi(Implementation::Library, 0), "level 0 mpi");
        assert_eq!(mpi(Implementation::DropIn, 2), "level 2 drop-in");
    }

    #[test]
    fn contenders_are_named_like_strategies() {
        let pario = Choice::Pario(Strategy::Auto);
        let mpi = [Implementation::Library, Implementation::DropIn].map(Choice::Mpi);
        let plain = [POSIX, ROMIO_LIKE].map(Choice::Plain);
        let expected = [pario, pario, plain[0], plain[1], mpi[0], mpi[1]];
        let names = ["pario", "auto", "posix", "romio-like", "mpi", "drop-in"];
        assert_eq!(names.map(|name| name.parse()), expected.map(Ok));
        assert!("ompio".parse::<Choice>().is_err());
    }
}
