//! The form of a plan: what every planner emits, and the exchange carries out.
//!
//! Either every rank works for itself ([`Independent`]), or bytes go through windows of file
//! domains, in rounds ([`Shuffled`]): where these are, how bytes get there, who serves them, and
//! what becomes of holes.

use std::fmt;
use std::ops::Range;

use super::{Phases, Storing, index, rank_of};
use crate::access::windows::Cut;
use crate::number::wide;

/// What is done, round by round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// Every rank for itself, in one round without messages.
    Independent(Independent),
    /// Rounds of a shuffle to or from aggregators and a storage access by them.
    Shuffled(Shuffled),
}

impl Steps {
    /// The rounds of a shuffle, if it is one.
    pub(crate) fn shuffled(&self) -> Option<&Shuffled> {
        match self {
            Steps::Independent(_) => None,
            Steps::Shuffled(shuffled) => Some(shuffled),
        }
    }

    /// Where windows are, how bytes get there and who serves them, in words; what windows of
    /// sieving hold; nothing without windows.
    pub(crate) fn windows(&self) -> &'static str {
        match self {
            Steps::Independent(steps) => steps.in_words(),
            Steps::Shuffled(shuffled) => shuffled.in_words(),
        }
    }

    /// Number of rounds; the same on every rank.
    pub(crate) fn rounds(&self) -> u64 {
        match self {
            Steps::Independent(_) => 1,
            Steps::Shuffled(shuffled) => shuffled.rounds(),
        }
    }

    /// Number of ranks, of all, that may touch storage for others.
    pub(crate) fn aggregators(&self, ranks: u32) -> usize {
        match self {
            Steps::Independent(_) => 0,
            Steps::Shuffled(shuffled) if shuffled.all_serve() => index(ranks),
            Steps::Shuffled(shuffled) => shuffled.domains().len(),
        }
    }
}

/// How one rank serves its own request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Independent {
    /// Memory for windows with holes, and for data that is not contiguous in memory.
    pub(crate) buffer_bytes: u64,
    /// Largest hole that is moved rather than skipped.
    pub(crate) hole_bytes: u64,
    /// Whether runs are batched into vectored calls.
    pub(crate) batched: bool,
    pub(crate) lock: LockRule,
}

/// What a rank locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockRule {
    Nothing,
    /// What each storage call writes.
    EachWrite,
    /// The whole range of the request, while it is served.
    WholeRequest,
}

impl Independent {
    pub(crate) fn cut(&self) -> Cut {
        Cut { window_bytes: self.buffer_bytes, hole_bytes: self.hole_bytes }
    }

    /// What windows of sieving hold: papers 003 and 004 move all holes.
    pub(crate) fn in_words(&self) -> &'static str {
        match self.hole_bytes {
            0 => "",
            bytes if bytes >= self.buffer_bytes => "of pieces and all holes between them",
            _ => "of pieces and short holes; those above pario_sieve_hole_bytes are skipped",
        }
    }
}

impl fmt::Display for Independent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = match self.lock {
            LockRule::Nothing => "nothing",
            LockRule::EachWrite => "each write",
            LockRule::WholeRequest => "the whole request",
        };
        writeln!(formatter, "buffer     {} bytes", self.buffer_bytes)?;
        writeln!(
            formatter,
            "holes      up to {} bytes are moved, others skipped",
            self.hole_bytes
        )?;
        writeln!(formatter, "locks      {lock}")
    }
}

/// The part of the file that one aggregator owns, or the ranks of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) aggregator: u32,
    pub(crate) file: Range<u64>,
}

/// Rounds of a shuffle and a storage access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shuffled {
    pub(super) domains: Vec<Domain>,
    pub(super) window_bytes: u64,
    pub(super) rounds: u64,
    pub(super) holes: Holes,
    pub(super) storing: Storing,
    /// Whether others may rewrite bytes meanwhile, so that plain writes need protection too.
    pub(super) careful: bool,
    pub(super) placement: Placement,
}

/// Where windows are, and how bytes get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// In memory of the aggregator that serves them; bytes come and go in messages.
    Own(Route),
    /// In memory that all ranks share; each rank copies its own bytes.
    Shared(SharedWindows),
}

/// Windows in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedWindows {
    /// How many there are at a time.
    pub(crate) slots: u64,
    /// Whether the bytes of a rank lie one after the other there; otherwise they are where they are
    /// in the file.
    pub(crate) packed: bool,
    /// Bytes of the parts in which a packed window is assembled and stored.
    pub(crate) part_bytes: u64,
    pub(crate) service: Service,
    /// Cores of the node.
    pub(crate) cores: u32,
}

impl SharedWindows {
    /// The parts of a window.
    pub(crate) fn parts(&self, window: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let bytes = self.part_bytes;
        let (first, last) = (window.start / bytes, window.end / bytes);
        let bound = move |part: u64| (part * bytes).clamp(window.start, window.end);
        (first..=last).map(move |part| bound(part)..bound(part + 1)).filter(|part| !part.is_empty())
    }
}

/// Which ranks fetch and store shared windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// A rank that has nothing to copy takes the next window.
    SelfScheduled(Servers),
    /// Each aggregator serves its domain.
    Fixed,
}

/// Which ranks take windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    All,
    /// Those that hints name.
    Aggregators,
}

/// How bytes get from the ranks to the domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Straight from each rank to each aggregator.
    Direct,
    /// Store-and-forward between partners; a domain's aggregator is a class of ranks.
    Phases(Phases),
}

impl Route {
    pub(crate) fn phases(self) -> Option<Phases> {
        match self {
            Route::Direct => None,
            Route::Phases(phases) => Some(phases),
        }
    }
}

/// What becomes of the bytes of a window that nobody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holes {
    /// They are read and written back.
    Rewritten,
    /// The same under a lock; windows without holes are locked as well.
    Locked,
    /// They are not touched: pieces are written one by one.
    Skipped,
}

impl Shuffled {
    pub(super) fn count_rounds(&mut self) {
        self.rounds = self.domains.iter().map(|domain| self.windows(domain)).max().unwrap_or(0);
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.rounds
    }

    pub(crate) fn holes(&self) -> Holes {
        self.holes
    }

    pub(crate) fn storing(&self) -> Storing {
        self.storing
    }

    /// The part of the file that windows are in.
    pub(crate) fn reach(&self) -> Range<u64> {
        let start = self.domains.first().map_or(0, |first| first.file.start);
        start..self.domains.last().map_or(start, |last| last.file.end)
    }

    /// Whether writes that carry no bytes of others need protection from those that do.
    pub(crate) fn is_careful(&self) -> bool {
        self.careful
    }

    /// Windows of all domains. They are numbered in turn, so that the first ones of all domains
    /// come first.
    pub(crate) fn window_count(&self) -> u32 {
        u32::try_from(self.rounds.saturating_mul(wide(self.domains.len()))).unwrap_or(u32::MAX)
    }

    /// The numbers of the windows of a round.
    pub(crate) fn windows_of(&self, round: u64) -> std::ops::Range<u32> {
        let domains = wide(self.domains.len());
        let number = |round: u64| u32::try_from(round.saturating_mul(domains)).unwrap_or(u32::MAX);
        number(round)..number(round + 1)
    }

    /// The domain and the part of the file of a window.
    pub(crate) fn numbered(&self, number: u32) -> (&Domain, Range<u64>) {
        let domains = rank_of(self.domains.len());
        let domain = &self.domains[index(number % domains)];
        (domain, self.window(domain, u64::from(number / domains)))
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// Where windows are, how bytes get there, and who serves them.
    pub(crate) fn in_words(&self) -> &'static str {
        match self.placement {
            Placement::Own(Route::Direct) => "of the aggregators, by messages",
            Placement::Own(Route::Phases(_)) => "of the ranks, by messages between partners",
            Placement::Shared(SharedWindows { packed, service, .. }) => match (packed, service) {
                (false, Service::SelfScheduled(_)) => "in shared memory, self-scheduled",
                (true, Service::SelfScheduled(_)) => "in shared memory, packed, self-scheduled",
                (false, Service::Fixed) => "in shared memory, served by their aggregators",
                (true, Service::Fixed) => "in shared memory, packed, served by their aggregators",
            },
        }
    }

    /// The windows in shared memory, if they are there.
    pub(crate) fn shared(&self) -> Option<SharedWindows> {
        match self.placement {
            Placement::Shared(shared) => Some(shared),
            Placement::Own(_) => None,
        }
    }

    /// Whether every rank may serve every window.
    pub(crate) fn all_serve(&self) -> bool {
        let all = Service::SelfScheduled(Servers::All);
        self.shared().is_some_and(|windows| windows.service == all)
    }

    /// Whether a rank may serve a window of a number.
    pub(crate) fn may_serve(&self, rank: u32, number: u32) -> bool {
        match self.placement {
            Placement::Shared(SharedWindows {
                service: Service::SelfScheduled(servers), ..
            }) => servers == Servers::All || self.domain_of(rank).is_some(),
            _ => self.numbered(number).0.aggregator == rank,
        }
    }

    /// The phases through which bytes go, if they do.
    pub(crate) fn phases(&self) -> Option<Phases> {
        match self.placement {
            Placement::Own(route) => route.phases(),
            Placement::Shared(_) => None,
        }
    }

    /// The rank that stores a source's bytes of a domain.
    pub(crate) fn holder(&self, source: u32, domain: &Domain) -> u32 {
        let holder = |phases: Phases| phases.holder(source, domain.aggregator);
        self.phases().map_or(domain.aggregator, holder)
    }

    pub(crate) fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The domain that a rank owns.
    pub(crate) fn domain_of(&self, rank: u32) -> Option<&Domain> {
        let aggregator = self.phases().map_or(rank, |phases| phases.class(rank));
        self.domains.iter().find(|domain| domain.aggregator == aggregator)
    }

    /// Largest window of any round.
    pub(crate) fn window_bytes(&self) -> u64 {
        let longest = self.domains.iter().map(|domain| domain.file.end - domain.file.start).max();
        self.window_bytes.min(longest.unwrap_or(0))
    }

    /// The part of a domain that its aggregator works on in a round; may be empty.
    pub(crate) fn window(&self, domain: &Domain, round: u64) -> Range<u64> {
        // Windows end at multiples of their size, so that all but the first are aligned.
        let base = domain.file.start / self.window_bytes * self.window_bytes;
        let at = |window: u64| base.saturating_add(window.saturating_mul(self.window_bytes));
        let clamp = |offset: u64| offset.clamp(domain.file.start, domain.file.end);
        clamp(at(round))..clamp(at(round + 1))
    }

    fn windows(&self, domain: &Domain) -> u64 {
        let base = domain.file.start / self.window_bytes;
        domain.file.end.div_ceil(self.window_bytes) - base
    }
}

impl fmt::Display for Shuffled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "window     {} bytes", self.window_bytes())?;
        match self.placement {
            Placement::Own(Route::Direct) => {
                writeln!(formatter, "placement  in the memory of its aggregator; by messages")?;
            }
            Placement::Own(Route::Phases(phases)) => {
                let count = phases.count;
                writeln!(formatter, "placement  in the memory of its aggregator; {count} phases")?;
            }
            Placement::Shared(SharedWindows { slots, packed, service, .. }) => {
                let place = if packed { "packed by rank" } else { "in place" };
                writeln!(formatter, "placement  in shared memory, {slots} at a time; {place}")?;
                let servers = match service {
                    Service::SelfScheduled(Servers::All) => "self-scheduled among all ranks",
                    Service::SelfScheduled(Servers::Aggregators) => {
                        "self-scheduled among the aggregators"
                    }
                    Service::Fixed => "each aggregator its domain",
                };
                writeln!(formatter, "service    {servers}")?;
            }
        }
        let holes = match self.holes {
            Holes::Rewritten => "are read and written back",
            Holes::Locked => "are read and written back under a lock",
            Holes::Skipped => "are skipped",
        };
        writeln!(formatter, "holes      {holes}")?;
        writeln!(formatter, "stores     {}", self.storing)?;
        for Domain { aggregator, file } in &self.domains {
            writeln!(formatter, "domain     rank {aggregator}: {}..{}", file.start, file.end)?;
        }
        Ok(())
    }
}
