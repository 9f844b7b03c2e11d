//! The ranks of one node: memory that they share, and messages that go through it.
//!
//! | module | what it is |
//! | --- | --- |
//! | `place` | what ranks exchange to find each other's memory |
//! | `segment` | the memory of a communicator's ranks on one node |
//! | `found` | memory of another process, proved to be what it should be |
//! | `mapping` | a mapping of anonymous memory, with huge pages |
//! | `ring`, `shared_bytes`, `frame` | bytes, and messages, from one rank to another |
//! | `traffic` | all messages of one rank |
//! | `doorbell`, `futex` | how a rank sleeps and is woken |
//! | `doorbells` | the doorbells of the node's processes |
//!
//! All ranks use shared memory, or none does: they exchange what each has found before any of them
//! acts on it.

use std::fs::File;
use std::sync::{Arc, Mutex, Once};

use pario::comm::Affinity;
use pario::{Error, ErrorClass, Result};

mod doorbell;
pub(crate) mod doorbells;
mod found;
mod frame;
mod futex;
mod mapping;
mod place;
mod ring;
#[cfg(test)]
mod ring_tests;
mod segment;
mod shared_bytes;
pub(crate) mod traffic;

use doorbell::Doorbell;
pub(crate) use frame::Stream;
pub(crate) use place::{Place, nodes, same_choice};
pub(crate) use segment::Segment;
use traffic::{State, Traffic};

use crate::binding::Mpi;
use crate::environment::NodeMemory;
use crate::progress;

/// The atomic numbers of `ring` and `doorbell`; a model checker has its own.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

/// What is in the memory for messages makes no sense.
fn broken(what: &str) -> Error {
    let text = format!("the memory for messages of this node is broken: {what}");
    Error::new(ErrorClass::Intern, text)
}

/// What ranks exchange after they have looked for the shared memory. Numbers other than zero mean
/// yes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    /// Whether the memory that the node shares is there.
    shares: u32,
    /// Whether the communicator may be kept (`kept`).
    keeps: u32,
}

/// How ranks exchange what they know.
pub(crate) trait Gather {
    /// What every rank says, by rank.
    fn places(&self, own: Place) -> Result<Vec<Place>>;
    /// The same for answers.
    fn answers(&self, own: Answer) -> Result<Vec<Answer>>;
}

/// What the ranks of a node have in common.
pub(crate) struct Node {
    /// The node of each rank.
    pub(crate) numbers: Vec<u32>,
    /// Cores of each node.
    pub(crate) cores: Vec<u32>,
    /// Where all ranks are on one node.
    pub(crate) lines: Option<Arc<Segment>>,
    pub(crate) traffic: Option<Arc<Traffic>>,
    /// Whether rank 0 carries tasks on while its program waits inside MPI.
    pub(crate) first_goes_on: bool,
    /// Whether all ranks do. Each may have asked MPI for another level of threads.
    pub(crate) all_go_on: bool,
    /// Whether ranks of a node could not share memory although they wanted to.
    pub(crate) is_split: bool,
    /// Whether all ranks may keep the communicator, on one node.
    pub(crate) keeps: bool,
}

/// What one rank of a communicator knows before it meets the others.
pub(crate) struct Own {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The node that a test pretends.
    pub(crate) pretended_host: Option<u64>,
    /// Whether it may keep the communicator.
    pub(crate) keeps: bool,
}

/// Makes or finds the memory of this rank's node; all ranks of a communicator call it.
pub(crate) fn meet(mpi: &'static Mpi, own: &Own, ranks: &dyn Gather) -> Result<Node> {
    let &Own { rank, size, pretended_host, keeps } = own;
    // Who is the first rank of its node is not known yet.
    let file = (size > 1).then(Segment::file).flatten();
    let mut place = Place::of_this_process(file.as_ref(), wanted(rank));
    place.host = pretended_host.unwrap_or(place.host);
    place.goes_on = u8::from(progress::go_on_by_themselves(mpi));
    let places = ranks.places(place)?;
    same_choice(&places)?;
    let first_goes_on = places.first().is_some_and(|first| first.goes_on != 0);
    let all_go_on = places.iter().all(|place| place.goes_on != 0);
    let wanted = NodeMemory::of_level(places.iter().map(Place::level).min());
    let numbers = nodes(&places);
    let one_node = numbers.iter().all(|&node| node == 0);
    let affinities: Vec<Affinity> = places.iter().map(|place| place.affinity).collect();
    let cores = Affinity::cores_of_nodes(&numbers, &affinities);
    let mut node = Node {
        numbers,
        cores,
        lines: None,
        traffic: None,
        first_goes_on,
        all_go_on,
        is_split: false,
        keeps: keeps && size == 1,
    };
    if size == 1 || wanted == NodeMemory::None && !one_node {
        return Ok(node);
    }
    let neighbours = Neighbours { mpi, rank, host: place.host, places, file };
    let made = neighbours.make_segment();
    // Nobody looks for the segment before it is ready.
    ranks.answers(Answer::default())?;
    let shared =
        made.or_else(|| neighbours.find_segment()).map(Arc::new).zip(neighbours.doorbells());
    let answer = Answer { shares: u32::from(shared.is_some()), keeps: u32::from(keeps) };
    let answers = ranks.answers(answer)?;
    let all_share = answers.iter().all(|answer| answer.shares != 0);
    node.is_split = wanted != NodeMemory::None && !all_share;
    let Some((segment, doorbells)) = shared.filter(|_| all_share) else { return Ok(node) };
    node.lines = one_node.then(|| segment.clone());
    if wanted != NodeMemory::None {
        node.keeps = one_node && answers.iter().all(|answer| answer.keeps != 0);
        node.traffic = Some(neighbours.traffic(segment, doorbells, one_node));
    }
    Ok(node)
}

/// What this rank wants; the first rank says if the environment makes no sense.
fn wanted(rank: u32) -> NodeMemory {
    static TOLD: Once = Once::new();
    let (wanted, ignored) = crate::environment::node_memory();
    if let Some(value) = ignored.filter(|_| rank == 0) {
        TOLD.call_once(|| {
            log::warn!("PARIO_NODE_MEMORY={} is ignored: it is segment or none", value.display());
        });
    }
    wanted
}

/// What a rank knows of the others, to find those of its node.
struct Neighbours {
    mpi: &'static Mpi,
    rank: u32,
    host: u64,
    places: Vec<Place>,
    /// Memory that this rank has made.
    file: Option<File>,
}

impl Neighbours {
    /// Ranks of this node and their places.
    fn members(&self) -> impl Iterator<Item = (u32, &Place)> {
        (0..).zip(&self.places).filter(|(_, place)| place.host == self.host)
    }

    /// Ranks of the communicator, and of this node.
    fn counts(&self) -> (usize, usize) {
        (self.places.len(), self.members().count())
    }

    /// The segment, on the first rank of this node.
    fn make_segment(&self) -> Option<Segment> {
        let (_, place) = self.members().next().filter(|&(first, _)| first == self.rank)?;
        Segment::make(self.file.as_ref()?, place.nonce, self.counts())
    }

    /// The segment, on all other ranks.
    fn find_segment(&self) -> Option<Segment> {
        let (_, place) = self.members().next().filter(|&(first, _)| first != self.rank)?;
        Segment::find(place, self.counts())
    }

    fn doorbells(&self) -> Option<Vec<&'static Doorbell>> {
        self.members().map(|(_, place)| doorbells::of(place)).collect()
    }

    fn traffic(
        &self,
        segment: Arc<Segment>,
        doorbells: Vec<&'static Doorbell>,
        one_node: bool,
    ) -> Arc<Traffic> {
        let mut numbers = 0..;
        let mut member =
            |place: &Place| (place.host == self.host).then(|| numbers.next()).flatten();
        let members: Vec<Option<usize>> = self.places.iter().map(&mut member).collect();
        let own = members.get(usize::try_from(self.rank).unwrap_or(0)).copied().flatten();
        Arc::new(Traffic {
            mpi: self.mpi,
            region: one_node.then(|| segment.region()),
            segment,
            own: own.unwrap_or(0),
            state: Mutex::new(State::new(doorbells.len())),
            members,
            doorbells,
        })
    }
}
