//! A virtual clock: what a plan would take on a machine that is described, not present.
//!
//! A [`Clock`] has the resources of a [`Machine`]: cores and links of nodes, storage servers with
//! their links, caches and devices. The caller presents activities one after another; each is told
//! when it may begin at the earliest (the end of what it depends on) and learns when it begins and
//! ends ([`Span`]). A resource serves activities in the order in which they are presented, so
//! present them in the order of time. Nothing is drawn by lot and nothing is measured: the same
//! activities give the same times on every machine.
//!
//! | activity | resources |
//! | --- | --- |
//! | [`Clock::compute`] | the core of the node that is free first |
//! | [`Clock::message`] between nodes | the link of the sender, latency, the link of the receiver |
//! | [`Clock::message`] within a node | a core of the sender's node |
//! | [`Clock::access`] | the servers of its stripes: processor, cache, device; links if remote |
//! | [`Clock::list`] | the same for regions that are one request to each server |
//! | [`Clock::flush`] | the devices of all servers, for what their caches still hold |
//!
//! Cost: memory for the machine (8 bytes for each core, 16 for each link) and the map of the caches
//! (one entry for each [`CACHE_GRAIN_BYTES`] of their size); none for activities. Time in
//! proportion to the activities and the servers that each of them meets.
//!
//! Limits: an activity does not give way to one that is presented later and could begin earlier,
//! but for messages, between which a link may have time for another one; a byte moves through link,
//! cache and device at the same time, so an access takes as long as the slowest of them and not the
//! sum; the cache writes back only what it needs the room of.

mod cache;
mod costs;
mod storage;

use super::Direction;
use super::presets::{Device, Link};
use crate::number::{narrow, real};
use storage::{Served, Server, Share};

pub use cache::CACHE_GRAIN_BYTES;
pub use costs::{CoreWork, Costs};

/// When something begins and ends, in seconds from the start of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// When the first resource begins to work.
    pub begin_s: f64,
    /// When all is done; what depends on it may begin.
    pub end_s: f64,
}

/// A machine: nodes with ranks, a network, and storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Number of nodes.
    pub nodes: u32,
    /// Ranks of each node; rank r is on node r / ranks_per_node.
    pub ranks_per_node: u32,
    /// Cores of each node.
    pub cores_per_node: u32,
    /// Messages within a node.
    pub node_link: Link,
    /// The link of each node, which its ranks share.
    pub network: Link,
    /// Where files are.
    pub storage: Storage,
}

/// Storage: servers, each with a device, a cache and maybe a link of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Storage {
    /// Number of servers.
    pub servers: u32,
    /// Bytes of the file on one server before the next server's begin.
    pub stripe_bytes: u64,
    /// Work of a server for each request, in which it does nothing else.
    pub request_us: f64,
    /// Work of a server for each contiguous region of a request.
    pub region_us: f64,
    /// The device of each server.
    pub device: Device,
    /// The page cache in front of the device of each server; 0 for none.
    pub cache_bytes: u64,
    /// The bandwidth of that cache.
    pub cache_bytes_per_s: f64,
    /// The link of each server; `None` for storage of the node itself.
    pub link: Option<Link>,
    /// The link of each node to the servers, if it is another one than that of its messages.
    pub network: Option<Link>,
    /// Clients divide longer accesses into requests of this size, one after the other.
    pub request_bytes_max: u64,
    /// Regions in a request of a list; 1 if servers know no lists.
    pub request_regions_max: u64,
}

impl Storage {
    /// One local device without a cache.
    pub fn local(device: Device) -> Storage {
        Storage {
            servers: 1,
            stripe_bytes: 1 << 20,
            request_us: 0.0,
            region_us: 0.0,
            device,
            cache_bytes: 0,
            cache_bytes_per_s: f64::INFINITY,
            link: None,
            network: None,
            request_bytes_max: u64::MAX,
            request_regions_max: 1,
        }
    }

    /// The same behind a page cache of this size, with 5 GB/s.
    pub fn cached(self, cache_bytes: u64) -> Storage {
        Storage { cache_bytes, cache_bytes_per_s: 5e9, ..self }
    }

    /// Servers with stripes, each with this device and reached by this link. A request costs a
    /// server 100 us, a region of it 2 us: an assumption for the parallel file systems of the
    /// papers.
    pub fn striped(servers: u32, stripe_bytes: u64, device: Device, link: Link) -> Storage {
        let (request_us, region_us) = (100.0, 2.0);
        let link = Some(link);
        Storage { servers, stripe_bytes, request_us, region_us, link, ..Storage::local(device) }
    }
}

/// One request of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which way.
    pub direction: Direction,
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes from there that the devices move.
    pub bytes: u64,
    /// Contiguous regions of a list; 1 for a plain access.
    pub regions: u64,
}

/// The resources of a machine and how long each is in use.
///
/// ```
/// use pario::model::Direction;
/// use pario::model::clock::{Access, Clock, Machine, Storage};
/// use pario::model::presets::{Device, Link};
///
/// // Two nodes of one rank; each sends half a megabyte to the other, then stores a megabyte.
/// let network = Link { latency_us: 100.0, bytes_per_s: 1e9 };
/// let disk = Device { positioning_us: 1000.0, latency_us: 0.0, read_bytes_per_s: 1e9,
///     write_bytes_per_s: 1e9 };
/// let mut clock = Clock::new(Machine {
///     nodes: 2,
///     ranks_per_node: 1,
///     cores_per_node: 1,
///     node_link: network,
///     network,
///     storage: Storage::local(disk),
/// });
/// let sent = [clock.message(0, 1, 500_000, 0.0), clock.message(1, 0, 500_000, 0.0)];
/// assert!((sent[0].end_s - 0.0006).abs() < 1e-9);
/// for rank in 0..2 {
///     let offset = u64::from(rank) * 1_000_000;
///     let write = Access { direction: Direction::Write, offset, bytes: 1_000_000, regions: 1 };
///     clock.access(rank, write, sent[1].end_s);
/// }
/// // One positioning: the second access continues the first.
/// assert!((clock.total_s() - 0.0036).abs() < 1e-9);
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    machine: Machine,
    /// When each core is free, those of a node together.
    cores: Vec<f64>,
    /// When the link of each node is free, out and in.
    links: Vec<Duplex>,
    /// The same of the links to storage, where those are others.
    storage_links: Vec<Duplex>,
    servers: Vec<Server>,
    total_s: f64,
    busy: Busy,
}

/// Both ways of a link.
#[derive(Clone, Debug, Default)]
struct Duplex {
    out_free_s: f64,
    inward: Inward,
}

/// When a link brings bytes to its node: spans in the order of time. Ranks announce messages when
/// they send them; those of different nodes arrive in between each other.
#[derive(Clone, Debug, Default)]
struct Inward {
    spans: Vec<(f64, f64)>,
}

impl Inward {
    /// No more spans are kept: the time between the first ones is over.
    const SPANS_MAX: usize = 1024;

    /// When the link is free for good.
    fn free_s(&self) -> f64 {
        self.spans.last().map_or(0.0, |(_, end_s)| *end_s)
    }

    /// Takes the first time that is long enough; when it begins.
    fn take(&mut self, after_s: f64, time_s: f64) -> f64 {
        let mut begin_s = after_s;
        let mut place = self.spans.partition_point(|(_, end_s)| *end_s <= after_s);
        while let Some((next_s, end_s)) = self.spans.get(place) {
            if begin_s + time_s <= *next_s {
                break;
            }
            begin_s = begin_s.max(*end_s);
            place += 1;
        }
        let end_s = begin_s + time_s;
        match place.checked_sub(1).and_then(|before| self.spans.get_mut(before)) {
            Some(before) if before.1 >= begin_s => before.1 = end_s,
            _ => self.spans.insert(place, (begin_s, end_s)),
        }
        if self.spans.len() > Inward::SPANS_MAX {
            self.spans.drain(..Inward::SPANS_MAX / 2);
        }
        begin_s
    }
}

/// How long resources of each kind were in use, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// Cores.
    pub cores_s: f64,
    /// Links of nodes, each way by itself.
    pub links_s: f64,
    /// Servers: requests and regions.
    pub servers_s: f64,
    /// Devices: positioning and transfer.
    pub devices_s: f64,
}

impl Clock {
    /// A clock at 0 with all resources free and all caches empty.
    pub fn new(machine: Machine) -> Clock {
        let (nodes, cores) = (machine.nodes.max(1), machine.cores_per_node.max(1));
        let count = u64::from(nodes) * u64::from(cores);
        Clock {
            machine,
            cores: vec![0.0; narrow(count)],
            links: vec![Duplex::default(); narrow(u64::from(nodes))],
            storage_links: vec![Duplex::default(); narrow(u64::from(nodes))],
            servers: (0..machine.storage.servers.max(1))
                .map(|_| Server::new(&machine.storage))
                .collect(),
            total_s: 0.0,
            busy: Busy::default(),
        }
    }

    /// The end of the last activity so far.
    pub fn total_s(&self) -> f64 {
        self.total_s
    }

    /// How long resources were in use so far.
    pub fn busy(&self) -> Busy {
        self.busy
    }

    fn node(&self, rank: u32) -> usize {
        let node = rank / self.machine.ranks_per_node.max(1);
        narrow(u64::from(node.min(self.machine.nodes.max(1) - 1)))
    }

    fn done(&mut self, begin_s: f64, end_s: f64) -> Span {
        self.total_s = self.total_s.max(end_s);
        Span { begin_s, end_s }
    }

    /// A rank computes or copies for this time, on a core of its node.
    pub fn compute(&mut self, rank: u32, us: f64, after_s: f64) -> Span {
        let per_node = narrow(u64::from(self.machine.cores_per_node.max(1)));
        let first = self.node(rank) * per_node;
        let cores = &mut self.cores[first..first + per_node];
        let mut core = 0;
        for index in 1..cores.len() {
            if cores[index] < cores[core] {
                core = index;
            }
        }
        let begin_s = after_s.max(cores[core]);
        let end_s = begin_s + us / 1e6;
        cores[core] = end_s;
        self.busy.cores_s += us / 1e6;
        self.done(begin_s, end_s)
    }

    /// A message from one rank to another; it ends when its last byte has arrived.
    pub fn message(&mut self, from: u32, to: u32, bytes: u64, after_s: f64) -> Span {
        let (source, target) = (self.node(from), self.node(to));
        if source == target {
            let us = self.machine.node_link.message_us(bytes);
            return self.compute(from, us, after_s);
        }
        let Link { latency_us, bytes_per_s } = self.machine.network;
        let transfer_s = real(bytes) / bytes_per_s;
        let begin_s = after_s.max(self.links[source].out_free_s);
        self.links[source].out_free_s = begin_s + transfer_s;
        let arrival_s = self.links[target].inward.take(begin_s + latency_us / 1e6, transfer_s);
        self.busy.links_s += 2.0 * transfer_s;
        self.done(begin_s, arrival_s + transfer_s)
    }

    /// A request of storage by a rank; it ends when the last server has answered.
    pub fn access(&mut self, rank: u32, access: Access, after_s: f64) -> Span {
        let storage = self.machine.storage;
        let (mut begin_s, mut end_s) = (f64::INFINITY, after_s);
        let shares = storage::shares(&storage, access.offset, access.bytes);
        let count = shares.len().max(1);
        // Regions are spread over the servers that the request meets, at least one for each.
        let regions = access.regions.div_ceil(u64::try_from(count).unwrap_or(1)).max(1);
        let node = self.node(rank);
        for share in shares {
            let request = (access.direction, share, regions);
            let (served, carried_s) = match storage.link {
                Some(link) => self.serve_remote(node, request, link, after_s),
                None => (self.servers[share.server].serve(&storage, request, after_s), after_s),
            };
            self.busy.servers_s += served.work_s;
            self.busy.devices_s += served.device_s;
            begin_s = begin_s.min(served.span.begin_s);
            end_s = end_s.max(served.span.end_s).max(carried_s);
        }
        self.done(begin_s.min(end_s), end_s)
    }

    /// A list of regions by a rank: each server that has some gets one request with its own.
    pub fn list(&mut self, rank: u32, regions: &[Access], after_s: f64) -> Span {
        let (mut begin_s, mut end_s) = (f64::INFINITY, after_s);
        for request in storage::requests_of_list(&self.machine.storage, regions) {
            let span = self.access(rank, request, after_s);
            (begin_s, end_s) = (begin_s.min(span.begin_s), end_s.max(span.end_s));
        }
        Span { begin_s: begin_s.min(end_s), end_s }
    }

    /// A server serves a share whose bytes pass the links of node and server; also when the last of
    /// them has passed. The device of a write works as the bytes arrive, the link of a read as the
    /// device delivers them.
    fn serve_remote(
        &mut self,
        node: usize,
        request: (Direction, Share, u64),
        link: Link,
        after_s: f64,
    ) -> (Served, f64) {
        let storage = self.machine.storage;
        let (direction, share, _) = request;
        let sent_s = after_s + link.latency_us / 1e6;
        match direction {
            Direction::Write => {
                let carried = self.carry(node, &share, direction, sent_s);
                let served = self.servers[share.server].serve(&storage, request, carried.begin_s);
                (served, carried.end_s)
            }
            Direction::Read => {
                let served = self.servers[share.server].serve(&storage, request, sent_s);
                let carried = self.carry(node, &share, direction, served.first_byte_s);
                (served, carried.end_s)
            }
        }
    }

    /// The bytes of a share pass the links of node and server.
    fn carry(&mut self, node: usize, share: &Share, direction: Direction, at_s: f64) -> Span {
        let Storage { network, link, .. } = self.machine.storage;
        let (network, links) = match network {
            Some(network) => (network, &mut self.storage_links),
            None => (self.machine.network, &mut self.links),
        };
        let link_bytes_per_s = link.map_or(f64::INFINITY, |link| link.bytes_per_s);
        let transfer_s = real(share.bytes) / network.bytes_per_s.min(link_bytes_per_s);
        let [server_in_s, server_out_s] = &mut self.servers[share.server].link_free_s;
        let link = &mut links[node];
        let (node_free_s, server_free_s) = match direction {
            Direction::Write => (link.out_free_s, server_in_s),
            Direction::Read => (link.inward.free_s(), server_out_s),
        };
        let begin_s = at_s.max(node_free_s).max(*server_free_s);
        let end_s = begin_s + transfer_s;
        *server_free_s = end_s;
        match direction {
            Direction::Write => link.out_free_s = end_s,
            Direction::Read => {
                link.inward.take(begin_s, transfer_s);
            }
        }
        self.busy.links_s += transfer_s;
        Span { begin_s, end_s }
    }

    /// All servers write back what their caches hold.
    pub fn flush(&mut self, after_s: f64) -> Span {
        let storage = self.machine.storage;
        let (mut begin_s, mut end_s) = (f64::INFINITY, after_s);
        for server in &mut self.servers {
            let served = server.flush(&storage, after_s);
            self.busy.devices_s += served.device_s;
            begin_s = begin_s.min(served.span.begin_s);
            end_s = end_s.max(served.span.end_s);
        }
        self.done(begin_s.min(end_s), end_s)
    }
}

#[cfg(test)]
mod tests;
