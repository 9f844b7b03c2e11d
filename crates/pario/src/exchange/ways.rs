//! How bytes get from a rank to the one that stores them, and back: found out before the rounds.
//!
//! A rank offers its buffer to those that can use its memory: threads of its process copy from it
//! and to it, processes of its node have the system do that. Its bytes for all others travel in
//! messages, straight or from partner to partner. Where phases are planned and every rank can use
//! every other's memory, the offers go through the phases, and no byte has to.
//!
//! Cost: one message to each aggregator, or in each phase, of some tens of bytes for each rank.

use std::sync::Arc;
use std::time::Instant;

use super::Job;
use crate::access::Exposure;
use crate::access::memory::{ExposureGuard, RemoteBuffer};
use crate::comm::collective::{index, rank_of};
use crate::comm::{Communicator, Lane, Message, Tag, receive};
use crate::datatype::wire::{Reader, Writer};
use crate::error::Result;
use crate::plan::two_phase::Route;
use crate::plan::{Direction, Phases, Shuffled};
use crate::statistics::CallStatistics;

/// How bytes get from a rank to the one that stores them and back.
#[derive(Clone)]
pub(super) enum Way {
    /// They are the same rank.
    Own,
    /// By the rank's memory, in this process.
    Memory(Arc<Exposure>),
    /// By the rank's memory, in another process of this node.
    Process(Arc<RemoteBuffer>),
    Messages,
    /// By other ranks; the bytes are among the packets.
    Relayed,
}

/// What a rank says of its buffer; nothing, if it is not to be used.
#[derive(Clone, Default)]
struct Offer {
    /// To threads of its process.
    exposure: Option<Arc<Exposure>>,
    /// To processes of its node: where the data lies.
    place: Vec<u8>,
}

impl Offer {
    fn is_nothing(&self) -> bool {
        self.exposure.is_none() && self.place.is_empty()
    }

    /// The way that this offer of a rank opens to another one.
    fn way(self, communicator: &dyn Communicator, from: u32, other: Way) -> Result<Way> {
        if let Some(exposure) = self.exposure {
            return Ok(Way::Memory(exposure));
        }
        match self.place.is_empty() || !reaches(communicator, from) {
            true => Ok(other),
            false => Ok(Way::Process(Arc::new(RemoteBuffer::from_wire(from, &self.place)?))),
        }
    }
}

/// Whether the memory of a rank can be used, in this process or another one.
fn reaches(communicator: &dyn Communicator, rank: u32) -> bool {
    let by_system = || communicator.process_memory().is_some_and(|memory| memory.reaches(rank));
    communicator.shares_memory(rank) || by_system()
}

/// The ways between this rank and all others.
pub(super) struct Ways {
    /// From each rank to this one.
    from: Vec<Way>,
    /// Keeps this rank's buffer usable for those that share its memory.
    exposure: Option<ExposureGuard>,
    /// Whether those that reach this rank's memory use it.
    offered: bool,
    /// Whether all bytes of this rank's domain come from, and go to, memory of this process.
    in_memory: bool,
    /// The sources whose bytes go from partner to partner, as far as they come by here.
    relayed: Vec<bool>,
}

impl Ways {
    /// Offers this rank's buffer, and learns what is offered to it.
    pub(super) async fn find(
        job: &Job<'_>,
        shuffled: &Shuffled,
        statistics: &mut CallStatistics,
    ) -> Result<Ways> {
        let communicator = job.communicator;
        let rank = communicator.rank();
        let count = job.prepared.peers.len();
        let everybody = || (0..communicator.size()).all(|other| reaches(communicator, other));
        let ways = match shuffled.route() {
            Route::Direct => {
                Ways::new(job, count, Way::Messages).with_aggregators(job, shuffled).await
            }
            Route::Phases(phases) if everybody() => {
                Ways::new(job, count, Way::Relayed).through_phases(job, phases, statistics).await
            }
            Route::Phases(_) => {
                let relayed = vec![true; count];
                Ok(Ways { relayed, exposure: None, ..Ways::new(job, count, Way::Relayed) })
            }
        };
        let mut ways = ways?;
        ways.from[index(rank)] = Way::Own;
        Ok(ways)
    }

    fn new(job: &Job<'_>, count: usize, way: Way) -> Ways {
        // Several ranks write to one buffer at once: then no byte may be named twice.
        let usable = job.refused.is_none()
            && (job.prepared.direction == Direction::Write || job.buffer.is_sorted());
        let exposure = usable.then(|| ExposureGuard::new(job.buffer.clone()));
        let (from, relayed) = (vec![way; count], vec![false; count]);
        Ways { from, exposure, offered: false, in_memory: false, relayed }
    }

    /// The way of a rank's bytes to this one, and back.
    pub(super) fn from(&self, rank: u32) -> &Way {
        &self.from[index(rank)]
    }

    /// The ways to this aggregator for other threads of its process, if they can stand in for it.
    pub(super) fn for_others(&self) -> Option<Vec<Way>> {
        let own = || self.exposure.as_ref().map(|own| Way::Memory(own.share()));
        let way = |way: &Way| match way {
            Way::Own => own().unwrap_or(Way::Messages),
            way => way.clone(),
        };
        self.in_memory.then(|| self.from.iter().map(way).collect())
    }

    /// The ways to an aggregator for which this rank stands in.
    pub(super) fn of_another(from: Vec<Way>) -> Ways {
        let relayed = vec![false; from.len()];
        Ways { from, exposure: None, offered: false, in_memory: true, relayed }
    }

    /// Whether this rank's bytes get to an aggregator without its doing.
    pub(super) fn is_used_by(&self, communicator: &dyn Communicator, aggregator: u32) -> bool {
        self.offered && reaches(communicator, aggregator)
    }

    /// Whether a source's bytes go from partner to partner.
    pub(super) fn is_relayed(&self, source: u32) -> bool {
        self.relayed[index(source)]
    }

    pub(super) fn anything_relayed(&self) -> bool {
        self.relayed.contains(&true)
    }

    fn offer(&mut self, job: &Job<'_>) -> Offer {
        let communicator = job.communicator;
        let exposure = self.exposure.as_ref().map(ExposureGuard::share);
        let place = match communicator.process_memory() {
            Some(_) if exposure.is_some() => job.buffer.to_remote_wire().unwrap_or_default(),
            _ => Vec::new(),
        };
        let shared = communicator.process_memory().is_none();
        let offer = Offer { exposure: exposure.filter(|_| shared), place };
        self.offered = !offer.is_nothing();
        offer
    }

    async fn with_aggregators(mut self, job: &Job<'_>, shuffled: &Shuffled) -> Result<Ways> {
        let communicator = job.communicator;
        let rank = communicator.rank();
        let tag = Tag { call: job.call, lane: Lane::Data };
        let offer = self.offer(job);
        for domain in shuffled.domains() {
            let to = domain.aggregator;
            let concerned = !job.prepared.own.within(&domain.file).is_empty();
            if to != rank && concerned && reaches(communicator, to) {
                let shared = offer.exposure.clone().map(|exposure| exposure as _);
                communicator.send(to, tag, Message { bytes: offer.place.clone(), shared })?;
            }
        }
        let Some(domain) = shuffled.domain_of(rank) else { return Ok(self) };
        self.in_memory = true;
        for (peer, access) in job.prepared.peers.iter().enumerate() {
            let from = rank_of(peer);
            let concerned = !access.within(&domain.file).is_empty();
            if from == rank {
                self.in_memory &= !concerned || self.exposure.is_some();
            } else if concerned && reaches(communicator, from) {
                let Message { bytes: place, shared } = receive(communicator, from, tag).await?;
                let exposure = shared.and_then(|shared| shared.downcast().ok());
                let offer = Offer { exposure, place };
                self.from[peer] = offer.way(communicator, from, Way::Messages)?;
                self.in_memory &= matches!(self.from[peer], Way::Memory(_));
            } else {
                self.in_memory &= !concerned;
            }
        }
        Ok(self)
    }

    /// In each phase a rank passes on all offers that it has, and gets those that its partner has.
    async fn through_phases(
        mut self,
        job: &Job<'_>,
        phases: Phases,
        statistics: &mut CallStatistics,
    ) -> Result<Ways> {
        let communicator = job.communicator;
        let rank = communicator.rank();
        let tag = Tag { call: job.call, lane: Lane::Data };
        let mut offers: Vec<Option<Offer>> = vec![None; self.from.len()];
        offers[index(rank)] = Some(self.offer(job));
        for phase in 0..phases.count {
            let began = Instant::now();
            if let Some(to) = phases.target(rank, phase) {
                let sources = phases.sources(rank, phase);
                let passed: Vec<Offer> = sources
                    .iter()
                    .map(|&source| offers[index(source)].clone().unwrap_or_default())
                    .collect();
                let mut writer = Writer::default();
                passed.iter().for_each(|offer| writer.text(&offer.place));
                let exposures: Vec<Option<Arc<Exposure>>> =
                    passed.into_iter().map(|offer| offer.exposure).collect();
                let shared = Some(Arc::new(exposures) as _);
                communicator.send(to, tag, Message { bytes: writer.bytes, shared })?;
            }
            for from in phases.senders(rank, phase) {
                let message = receive(communicator, from, tag).await?;
                let exposures = message
                    .shared
                    .and_then(|shared| shared.downcast::<Vec<Option<Arc<Exposure>>>>().ok());
                let mut reader = Reader::new(&message.bytes);
                for (number, source) in phases.sources(from, phase).into_iter().enumerate() {
                    let exposure = exposures.as_ref().and_then(|all| all.get(number)?.clone());
                    let place = reader.text()?.to_vec();
                    offers[index(source)] = Some(Offer { exposure, place });
                }
                reader.finish()?;
            }
            statistics.add_phase(phase, began.elapsed());
        }
        for (source, offer) in offers.into_iter().enumerate() {
            let Some(offer) = offer else { continue };
            self.relayed[source] = offer.is_nothing();
            self.from[source] = offer.way(communicator, rank_of(source), Way::Relayed)?;
        }
        Ok(self)
    }
}
