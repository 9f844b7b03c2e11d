//! Before the rounds: the ranks announce what they ask for, and all make the same plan.
//!
//! A regular access is some tens of bytes and goes to every rank; each then computes the share of
//! every rank in every window, so that no offset is sent. Of an irregular one (a long list), each
//! aggregator gets only the part that lies in its domain. Where shared windows are self-scheduled,
//! all ranks get its bounding extent in each window instead.
//!
//! Cost: one all-gather; for each irregular rank one message to each aggregator, or an all-gather
//! of a few bytes for each window.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::access::memory::Parcel;
use crate::access::{Access, InMemory};
use crate::comm::collective::all_gather;
use crate::comm::{Communicator, Lane, Tag, receive, since};
use crate::datatype::wire::{Reader, Writer};
use crate::direction::Direction;
use crate::error::{Error, ErrorClass, Result};
use crate::hints::Hints;
use crate::number::{index, wide};
use crate::plan::{
    Conditions, FileFacts, Learned, Lesson, Plan, Planning, Request, Service, SharedWindows,
    Shuffled, Steps,
};
use crate::statistics::Asked;

use super::agree::{most_specific, same_call};
use super::window::reach;
use super::{Prepared, coverage};

/// Accesses up to this size are sent to every rank.
const SENT_TO_ALL_BYTES: usize = 1024;
/// Up to this number of ranks, every rank compares all pairs of accesses. With more, each compares
/// its own with those of others, and all learn the outcome: one more all-gather for a new plan is
/// cheaper than half a million comparisons on each of 1,024 ranks.
const COMPARED_BY_ALL_MAX: usize = 64;

/// What the planners look at besides the request.
pub(crate) struct Circumstances<'a> {
    pub(crate) hints: &'a Hints,
    pub(crate) file: &'a FileFacts,
    pub(crate) atomic: bool,
    /// Whether this rank makes no other call on the file before the end of this one.
    pub(crate) blocking: bool,
    pub(crate) direction: Direction,
    /// The call's name, which all ranks of a collective must share.
    pub(crate) name: &'static str,
    /// How the bytes lie in memory.
    pub(crate) memory: InMemory,
    /// What was learned so far, and what this rank measured in its last collective.
    pub(crate) learned: Learned,
}

impl Circumstances<'_> {
    /// An independent request, which this rank knows and nobody else asks for.
    fn conditions(&self) -> Conditions {
        let (atomic, correction) = (self.atomic, self.learned.correction(self.direction));
        Conditions { atomic, correction, ..Conditions::independent(self.direction) }
    }

    fn plan(&self, requests: &[Request], conditions: Conditions) -> Plan {
        Plan::new(&Planning { requests, conditions, hints: self.hints, file: self.file })
    }
}

/// Plans a request that concerns nobody else.
pub(crate) fn alone(around: &Circumstances<'_>, own: Access) -> Prepared {
    let (request, conditions) = (Request::new(&own, around.memory), around.conditions());
    let plan = around.plan(&[request], conditions);
    prepared(around, own, plan, Asked::new(request, conditions))
}

/// What is planned of an independent request.
fn prepared(around: &Circumstances<'_>, own: Access, plan: Plan, asked: Asked) -> Prepared {
    Prepared {
        plan,
        direction: around.direction,
        own,
        asked,
        peers: Vec::new(),
        disjoint: true,
        ends_in_region: false,
        collective: false,
        complete: Mutex::default(),
    }
}

/// Plans a request of all ranks, unless all have the same plan for it. `own` may be an error that
/// this rank found in its arguments: then all ranks return it, and nobody waits.
pub(crate) async fn together(
    around: &Circumstances<'_>,
    communicator: &dyn Communicator,
    call: u64,
    own: Result<Access>,
    known: Known,
    synchronisation: &mut Duration,
) -> Result<(Learned, Outlook)> {
    let announcement = Announcement::new(around, &own);
    // What rank 0 has learned counts for all.
    let learned = match communicator.rank() {
        0 => around.learned,
        _ => Learned::default(),
    };
    let taught = (around.learned.lesson(), &learned);
    let began = communicator.now();
    let first = announcement.to_wire(around.name, &known, taught);
    let first = all_gather(communicator, call, first).await;
    *synchronisation += since(communicator, began);
    let mut gathered = first?;
    same_call(&gathered)?;
    let first = gathered.iter().map(|wire| opening(&mut Reader::new(wire)));
    let (known, taught): (Vec<Known>, Vec<(Lesson, Learned)>) =
        first.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let (lessons, all_learned): (Vec<Lesson>, Vec<Learned>) = taught.into_iter().unzip();
    let mut learned = all_learned[0];
    learned.learn(&lessons);
    if let Some(number) = Known::agreed(&known) {
        return Ok((learned, Outlook::Known(number)));
    }
    if known.iter().any(|one| !one.0.is_empty()) {
        let nothing = (Lesson::default(), &Learned::default());
        let whole = announcement.to_wire(around.name, &Known::default(), nothing);
        gathered = all_gather(communicator, call, whole).await?;
    }
    let announcements: Vec<Announcement> =
        gathered.iter().map(|wire| Announcement::from_wire(wire)).collect::<Result<_>>()?;
    if let Some(error) = most_specific(announcements.iter().map(|one| one.error.clone())) {
        return Err(error);
    }
    let own = own.map_err(|_| {
        Error::new(ErrorClass::Intern, format!("{}: a rank's request got lost", around.name))
    })?;
    let requests: Vec<Request> = announcements.iter().map(|one| one.request).collect();
    // All ranks look at the same words, so that they come to the same conclusion.
    let undisturbed = announcements.iter().all(|one| one.blocking);
    let regular = announcements.iter().all(|one| one.access.is_some());
    let direction = around.direction;
    let (correction, doubt) = (learned.correction(direction), learned.doubt(direction));
    let mut conditions = Conditions {
        collective: true,
        undisturbed,
        regular,
        correction,
        doubt,
        ..around.conditions()
    };
    let mut plan = around.plan(&requests, conditions);
    let (mut peers, mut disjoint) = (Vec::new(), true);
    if let Steps::Shuffled(shuffled) = &plan.steps {
        let accesses = announcements.into_iter().map(|one| one.access).collect();
        peers = learn(communicator, call, shuffled, &own, accesses).await?;
        if around.direction == Direction::Write {
            disjoint = match shuffled.shared() {
                _ if regular => are_apart(communicator, call, &peers).await?,
                Some(_) => are_disjoint(communicator, call, shuffled, &peers).await?,
                None => all_disjoint(&peers),
            };
            // Two ranks must not copy to a byte at once, and all must know that none do.
            if !disjoint && shuffled.shared().is_some() {
                conditions.overlaps = true;
                plan = around.plan(&requests, conditions);
            }
        }
    }
    learned.weigh(direction, plan.chance);
    let asked = Asked::new(requests[index(communicator.rank())], conditions);
    let prepared = Prepared {
        peers,
        disjoint,
        ends_in_region: undisturbed && around.file.shared_bytes > 0,
        collective: true,
        ..prepared(around, own, plan, asked)
    };
    Ok((learned, Outlook::New(Arc::new(prepared))))
}

/// The plans that a rank has for its request, by their numbers. There may be several, if its
/// request was the same while those of others were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known(pub(crate) Vec<u64>);

impl Known {
    fn write(&self, writer: &mut Writer) {
        writer.unsigned(wide(self.0.len()));
        self.0.iter().for_each(|&number| writer.unsigned(number));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Known> {
        let count = reader.unsigned()?;
        (0..count).map(|_| reader.unsigned()).collect::<Result<_>>().map(Known)
    }

    /// The latest plan that all ranks have for their requests, if there is one.
    fn agreed(all: &[Known]) -> Option<u64> {
        let (first, others) = all.split_first()?;
        let common = |number: &&u64| others.iter().all(|one| one.0.contains(number));
        first.0.iter().filter(common).max().copied()
    }
}

/// What all ranks do about a request.
pub(crate) enum Outlook {
    /// They use the plan of this number again.
    Known(u64),
    /// They have made a plan.
    New(Arc<Prepared>),
}

/// The beginning of what a rank announces: the plans that it has for its request, what it measured
/// in its last call, and if it is rank 0, what was learned before.
fn opening(reader: &mut Reader<'_>) -> Result<(Known, (Lesson, Learned))> {
    reader.text()?;
    Ok((Known::read(reader)?, (Lesson::read(reader)?, Learned::read(reader)?)))
}

/// What each rank announces of its request to all others.
struct Announcement {
    blocking: bool,
    error: Option<Error>,
    request: Request,
    /// The access itself, if it is short.
    access: Option<Access>,
}

impl Announcement {
    fn new(around: &Circumstances<'_>, own: &Result<Access>) -> Announcement {
        let (error, request, access) = match own {
            Ok(access) => (None, Request::new(access, around.memory), Some(access.clone())),
            Err(error) => (Some(error.clone()), Request::NOTHING, None),
        };
        Announcement { blocking: around.blocking, error, request, access }
    }

    /// The name of the call and the plans that the rank has for it; if it has none, its request.
    fn to_wire(&self, name: &str, known: &Known, (lesson, learned): (Lesson, &Learned)) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.text(name.as_bytes());
        known.write(&mut writer);
        lesson.write(&mut writer);
        learned.write(&mut writer);
        if !known.0.is_empty() {
            return writer.bytes;
        }
        writer.unsigned(u64::from(self.blocking));
        writer.error(self.error.as_ref());
        self.request.write(&mut writer);
        let mut access = Writer::default();
        if let Some(own) = &self.access {
            own.write(&mut access);
        }
        if access.bytes.len() > SENT_TO_ALL_BYTES {
            access.bytes.clear();
        }
        writer.text(&access.bytes);
        writer.bytes
    }

    fn from_wire(wire: &[u8]) -> Result<Announcement> {
        let mut reader = Reader::new(wire);
        opening(&mut reader)?;
        let blocking = reader.unsigned()? != 0;
        let error = reader.error()?;
        let request = Request::read(&mut reader)?;
        let access = match reader.text()? {
            [] => None,
            bytes => Some(Access::read(&mut Reader::new(bytes))?),
        };
        reader.finish()?;
        Ok(Announcement { blocking, error, request, access })
    }
}

/// The accesses of all ranks, as far as this rank needs them; irregular ones were not announced.
async fn learn(
    communicator: &dyn Communicator,
    call: u64,
    shuffled: &Shuffled,
    own: &Access,
    announced: Vec<Option<Access>>,
) -> Result<Vec<Access>> {
    match shuffled.shared() {
        _ if announced.iter().all(Option::is_some) => Ok(announced.into_iter().flatten().collect()),
        Some(SharedWindows { service: Service::SelfScheduled(_), .. }) => {
            extents(communicator, call, shuffled, own, announced).await
        }
        _ => complete(communicator, call, shuffled, own, announced).await,
    }
}

/// The accesses of all ranks in the domain of this one.
///
/// Irregular ranks send each aggregator its part; a rank that is no aggregator learns nothing of
/// them and needs nothing.
async fn complete(
    communicator: &dyn Communicator,
    call: u64,
    shuffled: &Shuffled,
    own: &Access,
    announced: Vec<Option<Access>>,
) -> Result<Vec<Access>> {
    let tag = Tag { call, lane: Lane::Control };
    let rank = communicator.rank();
    if announced[index(rank)].is_none() {
        for domain in shuffled.domains() {
            let holder = shuffled.holder(rank, domain);
            if holder != rank {
                let mut writer = Writer::default();
                own.part(&own.within(&domain.file))?.write(&mut writer);
                communicator.send(holder, tag, writer.bytes)?;
            }
        }
    }
    let domain = shuffled.domain_of(rank);
    let holds = |source| domain.is_some_and(|domain| shuffled.holder(source, domain) == rank);
    let nothing = own.part(&(own.positions().start..own.positions().start))?;
    let mut peers = Vec::with_capacity(announced.len());
    for (peer, access) in (0..).zip(announced) {
        peers.push(match access {
            _ if peer == rank => own.clone(),
            Some(access) => access,
            None if holds(peer) => {
                let message = receive(communicator, peer, tag).await?;
                Access::read(&mut Reader::new(&message))?
            }
            None => nothing.clone(),
        });
    }
    Ok(peers)
}

/// The accesses of all ranks, as far as it takes to fetch windows for all of them: of irregular
/// ones, where in each window they begin and end.
async fn extents(
    communicator: &dyn Communicator,
    call: u64,
    shuffled: &Shuffled,
    own: &Access,
    announced: Vec<Option<Access>>,
) -> Result<Vec<Access>> {
    let mut writer = Writer::default();
    if announced[index(communicator.rank())].is_none() {
        let rounds = 0..shuffled.rounds();
        let windows = |domain| rounds.clone().map(move |round| shuffled.window(domain, round));
        own.extents(shuffled.domains().iter().flat_map(windows))?.write(&mut writer);
    }
    let extents = all_gather(communicator, call, writer.bytes).await?;
    let access = |(access, extents): (Option<Access>, Vec<u8>)| match access {
        Some(access) => Ok(access),
        None => Access::read(&mut Reader::new(&extents)),
    };
    announced.into_iter().zip(extents).map(access).collect()
}

/// Whether no two ranks have the same byte in any window, where each aggregator knows all pieces of
/// its domain; the same on every rank.
async fn are_disjoint(
    communicator: &dyn Communicator,
    call: u64,
    shuffled: &Shuffled,
    peers: &[Access],
) -> Result<bool> {
    let is_clean = |file: Range<u64>| {
        let parcel = |access| Parcel { access, positions: Access::within(access, &file) };
        let parcels: Vec<Parcel<'_>> =
            peers.iter().map(parcel).filter(|parcel| parcel.len() > 0).collect();
        parcels.is_empty() || coverage::is_disjoint(&reach(&parcels), &parcels)
    };
    let verdict = shuffled.domain_of(communicator.rank()).is_none_or(|domain| {
        (0..shuffled.rounds()).all(|round| is_clean(shuffled.window(domain, round)))
    });
    all_say(communicator, call, verdict).await
}

/// Whether all ranks come to a good verdict.
async fn all_say(communicator: &dyn Communicator, call: u64, verdict: bool) -> Result<bool> {
    let verdicts = all_gather(communicator, call, vec![u8::from(verdict)]).await?;
    Ok(verdicts.iter().all(|verdict| *verdict == [1]))
}

/// Whether no two of the accesses of all ranks share a byte, as far as that can be seen quickly;
/// the same on every rank.
async fn are_apart(communicator: &dyn Communicator, call: u64, all: &[Access]) -> Result<bool> {
    if all.len() <= COMPARED_BY_ALL_MAX {
        return Ok(all_disjoint(all));
    }
    let own = index(communicator.rank());
    let verdict = pairs_disjoint(all, compared_by(own, all.len()));
    all_say(communicator, call, verdict).await
}

/// The pairs of accesses that a rank compares, so that together all ranks compare every pair once:
/// each the half of the circle of ranks that follows it.
fn compared_by(own: usize, ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    let of_even = move |distance: usize| 2 * distance < ranks || own < ranks / 2;
    let distances = (1..=ranks / 2).filter(move |&distance| of_even(distance));
    distances.map(move |distance| (own, (own + distance) % ranks))
}

/// Whether no two of the accesses that this rank knows share a byte, as far as that can be seen
/// quickly.
fn all_disjoint(peers: &[Access]) -> bool {
    let others = |one: usize| (one + 1..peers.len()).map(move |two| (one, two));
    peers.len() <= COMPARED_BY_ALL_MAX && pairs_disjoint(peers, (0..peers.len()).flat_map(others))
}

/// Whether the accesses of no pair share a byte.
fn pairs_disjoint(all: &[Access], mut pairs: impl Iterator<Item = (usize, usize)>) -> bool {
    // Views go on after the request, where they may well overlap.
    let asked = |access: &Access| access.part(&access.positions());
    let Ok(asked) = all.iter().map(asked).collect::<Result<Vec<Access>>>() else { return false };
    pairs.all(|(one, two)| asked[one].is_apart_from(&asked[two]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::layout::Layout;
    use crate::plan::Factors;

    /// A filetype that ends after its last element overlaps with those of others when it is
    /// repeated; a request of one of them does not.
    #[test]
    fn only_what_is_asked_for_must_be_disjoint() {
        let access = |rank: i64, len| {
            let once = Layout::block(4 * rank, 4).unwrap().repeated(1000, 16).unwrap();
            let view = once.repeated(50, 999 * 16 + 4).unwrap();
            Access::new(&view, 0, len).unwrap()
        };
        let all = |len| (0..4).map(|rank| access(rank, len)).collect::<Vec<_>>();
        assert!(all_disjoint(&all(4000)));
        assert!(!all_disjoint(&all(4004)));
    }

    #[test]
    fn every_pair_of_ranks_is_compared_once() {
        for ranks in [1, 2, 3, 8, 9, 1024] {
            let mut compared = vec![0; ranks * ranks];
            for own in 0..ranks {
                let pairs: Vec<(usize, usize)> = compared_by(own, ranks).collect();
                assert!(pairs.len() <= ranks / 2, "{} pairs of {ranks} ranks", pairs.len());
                for (one, two) in pairs {
                    compared[one.min(two) * ranks + one.max(two)] += 1;
                }
            }
            for (one, two) in (0..ranks).flat_map(|one| (one + 1..ranks).map(move |two| (one, two)))
            {
                assert_eq!(compared[one * ranks + two], 1, "ranks {one} and {two} of {ranks}");
            }
        }
    }

    /// With many ranks each compares its own access only; an overlap of two others still counts.
    #[test]
    fn all_of_many_ranks_learn_of_an_overlap() {
        use crate::comm::Simulated;
        for (size, overlap) in [(3, true), (3, false), (90, true), (90, false)] {
            let apart = Simulated::new(size, 5).run(|comm| async move {
                let access = |rank: u32| {
                    let moved = i64::from(overlap && rank == 2);
                    let start = 4 * i64::from(rank) - moved;
                    let layout = Layout::block(start, 4).unwrap();
                    let layout = layout.repeated(10, 4 * i64::from(size)).unwrap();
                    Access::new(&layout, 0, 40).unwrap()
                };
                let all: Vec<Access> = (0..size).map(access).collect();
                are_apart(&*comm, 0, &all).await.unwrap()
            });
            assert_eq!(apart, vec![!overlap; index(size)], "{size} ranks");
        }
    }

    /// Calls may end in another order on each rank, so that ranks learn at different times.
    #[test]
    fn what_rank_0_has_learned_counts_for_all() {
        use crate::comm::Simulated;
        let plans = Simulated::new(4, 7).run(|comm| async move {
            let rank = comm.rank();
            let (hints, file) = (Hints::default(), FileFacts::of_threads(4));
            let mut around = Circumstances {
                hints: &hints,
                file: &file,
                atomic: false,
                blocking: true,
                direction: Direction::Write,
                name: "write_all",
                memory: InMemory::CONTIGUOUS,
                learned: Learned::default(),
            };
            let mut strategies = Vec::new();
            for storage in [0.01, 100.0] {
                let first = if rank == 0 { storage } else { 1.0 / storage };
                let factors = Factors::new(1.0, first);
                around.learned = Learned::of_writes(factors);
                let layout = Layout::block(512 * i64::from(rank), 512).unwrap();
                let layout = layout.repeated(100, 4 * 512).unwrap();
                let own = Access::new(&layout, 0, layout.size());
                let known = Known::default();
                let mut time = Duration::default();
                let (_, outlook) =
                    together(&around, &*comm, 1, own, known, &mut time).await.unwrap();
                let Outlook::New(prepared) = outlook else { panic!("nothing is known") };
                strategies.push(prepared.plan.strategy);
            }
            strategies
        });
        assert!(plans.iter().all(|one| *one == plans[0]), "{plans:?}");
        assert_ne!(plans[0][0], plans[0][1], "the correction decides");
    }

    #[test]
    fn all_ranks_must_have_the_same_plan() {
        let known = |lists: &[&[u64]]| -> Vec<Known> {
            lists.iter().map(|list| Known(list.to_vec())).collect()
        };
        assert_eq!(Known::agreed(&known(&[&[3], &[1, 3, 4], &[3, 4]])), Some(3));
        assert_eq!(Known::agreed(&known(&[&[1, 3], &[3, 1]])), Some(3));
        assert_eq!(Known::agreed(&known(&[&[3], &[4]])), None);
        assert_eq!(Known::agreed(&known(&[&[3], &[]])), None);
    }
}
