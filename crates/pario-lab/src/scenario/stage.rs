//! The machines of the papers, as far as the papers describe them. The rest is assumed, and said
//! with each result.

use pario::model::clock::{Costs, Machine, Storage};
use pario::model::presets::{Device, Link};

/// A machine on which programs run in virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stage {
    pub(crate) machine: Machine,
    pub(crate) costs: Costs,
}

/// Within a node.
const NODE_LINK: Link = Link { latency_us: 2.0, bytes_per_s: 2e9 };

/// Processors of 800 MHz: copies of 300 MB/s; 0.01 us for a piece of a copy, 0.5 us for one of a
/// list of offsets (some hundred instructions); 15 us for a call of the library, five times as long
/// as in 2015.
const COSTS_2002: Costs = Costs {
    copy_bytes_per_s: 300e6,
    copy_piece_us: 0.01,
    plan_us: 15.0,
    call_us: 5.0,
    call_bytes_per_s: f64::INFINITY,
    list_piece_us: 0.5,
};

/// Time of MPI's layer for a call: an assumption.
const LAYER_US: f64 = 3.0;

/// A processor of today. ROMIO of MPICH 5 took 0.8 us for a piece of 512 bytes more than pario did,
/// with 4 ranks on one node.
const COSTS_2015: Costs = Costs {
    copy_bytes_per_s: 5e9,
    copy_piece_us: 0.005,
    plan_us: LAYER_US,
    call_us: 1.0,
    call_bytes_per_s: f64::INFINITY,
    list_piece_us: 0.4,
};

/// The axis of Figures 9 and 10 of paper 000 ends at 1.6 s. If the first bar is almost as high, a
/// request takes this time: there are 2,520 of each rank, and as many servers as ranks.
const PVFS_REQUEST_US: f64 = 500.0;

/// Regions in one list of PVFS, as ROMIO of that time used them.
const PVFS_LIST_MAX: u64 = 64;

/// Memory of a server of papers 000 and 002 that may be its page cache.
const PVFS_CACHE_BYTES: u64 = 512 << 20;

/// Page cache of the storage node of paper 001 that its NFS server has.
const NFS_CACHE_BYTES: u64 = 1 << 30;

impl Stage {
    /// The cluster of papers 000 and 002: a rank on each node, PVFS with stripes of 64 KB on
    /// servers that are reached by Myrinet. Messages go by `network`.
    pub(crate) fn pvfs(ranks: u32, servers: u32, network: Link) -> Stage {
        let apart = network != Link::MYRINET_2000;
        let storage = Storage {
            request_us: PVFS_REQUEST_US,
            network: apart.then_some(Link::MYRINET_2000),
            ..Storage::striped(servers, 64 << 10, Device::HDD, Link::MYRINET_2000)
        };
        let machine = Machine {
            nodes: ranks,
            ranks_per_node: 1,
            cores_per_node: 2,
            node_link: NODE_LINK,
            network,
            storage: storage.cached(PVFS_CACHE_BYTES),
        };
        Stage { machine, costs: COSTS_2002 }
    }

    /// The same for programs that use lists of PVFS.
    pub(crate) fn with_lists(mut self) -> Stage {
        self.machine.storage.request_regions_max = PVFS_LIST_MAX;
        self
    }

    /// What was assumed for [`Stage::pvfs`].
    pub(crate) const PVFS_ASSUMED: &'static str = "assumed: Myrinet 8 us, 240 MB/s; Fast Ethernet \
        70 us, 11.7 MB/s; a server takes 500 us for a request and 2 us for a region; its page \
        cache holds the file; copies of 300 MB/s; a call of the library takes 15 us; lists \
        of offsets cost 0.5 us a piece on each side";

    /// A machine of papers 003 and 004: a rank on each node, four servers with disks, as the SP of
    /// the papers had.
    pub(crate) fn mpp(ranks: u32) -> Stage {
        let network = Link { latency_us: 20.0, bytes_per_s: 100e6 };
        let storage = Storage::striped(4, 64 << 10, Device::HDD, network).cached(8 << 20);
        Stage {
            machine: Machine {
                nodes: ranks,
                ranks_per_node: 1,
                cores_per_node: 1,
                node_link: NODE_LINK,
                network,
                storage,
            },
            costs: COSTS_2002,
        }
    }

    /// What was assumed for [`Stage::mpp`].
    pub(crate) const MPP_ASSUMED: &'static str = "assumed: a rank on each node, links of 20 us and \
        100 MB/s; 4 servers, each a disk (12.7 ms, 115 MB/s) with 8 MB of cache, 100 us for a \
        request; copies of 300 MB/s; a call of the library takes 15 us";

    /// A node of today with its files in memory.
    pub(crate) fn fast_node(ranks: u32) -> Stage {
        let memory = Device {
            latency_us: 0.0,
            read_bytes_per_s: 40e9,
            write_bytes_per_s: 40e9,
            ..Device::NVM
        };
        let node = Stage::node(ranks, memory, 0);
        let costs = Costs { call_us: 0.3, call_bytes_per_s: 4e9, ..node.costs };
        let mut fast = Stage { costs, ..node };
        fast.machine.storage.request_bytes_max = u64::MAX;
        fast.machine.node_link = Link { latency_us: 1.0, bytes_per_s: 5e9 };
        fast
    }

    /// What was assumed for [`Stage::fast_node`].
    pub(crate) const FAST_ASSUMED: &'static str = "assumed: one node, a core for each rank; files \
        in memory: 0.3 us and 4 GB/s for a call, 40 GB/s for all; copies of 5 GB/s; lists of \
        offsets cost 0.4 us a piece on each side";

    /// One node of paper 001 with a local device behind a page cache.
    pub(crate) fn node(ranks: u32, device: Device, cache_bytes: u64) -> Stage {
        let storage = Storage { request_bytes_max: 1 << 20, ..Storage::local(device) };
        let storage = if cache_bytes > 0 { storage.cached(cache_bytes) } else { storage };
        Stage {
            machine: Machine {
                nodes: 1,
                ranks_per_node: ranks,
                cores_per_node: ranks,
                node_link: NODE_LINK,
                network: Link::GIGABIT_ETHERNET,
                storage,
            },
            costs: COSTS_2015,
        }
    }

    /// What was assumed for [`Stage::node`].
    pub(crate) const NODE_ASSUMED: &'static str = "assumed: HDD 12.7 ms, 115 MB/s; SATA SSD 50 us, \
        550 and 270 MB/s; NVM 1 us, 4 GB/s; a page cache of 5 GB/s; what stays in the cache is not \
        part of the time";

    /// The cluster of paper 001: nodes that reach one NFS server by 1 Gb Ethernet, in requests of
    /// at most 1 MiB.
    pub(crate) fn nfs(nodes: u32, ranks_per_node: u32, device: Device) -> Stage {
        let link = Link::GIGABIT_ETHERNET;
        let storage = Storage {
            request_us: 100.0,
            link: Some(link),
            network: Some(link),
            request_bytes_max: 1 << 20,
            ..Storage::local(device)
        };
        let storage = storage.cached(NFS_CACHE_BYTES);
        Stage {
            machine: Machine {
                nodes,
                ranks_per_node,
                cores_per_node: 8,
                node_link: NODE_LINK,
                network: Link::PAPER_001,
                storage,
            },
            costs: COSTS_2015,
        }
    }

    /// What was assumed for [`Stage::nfs`].
    pub(crate) const NFS_ASSUMED: &'static str = "the paper's Ts and Tw for messages; assumed: \
        1 Gb Ethernet (50 us, 116.5 MB/s) to one NFS server with requests of at most 1 MiB that \
        take it 100 us, and 1 GiB of page cache; HDD 12.7 ms, 115 MB/s; SATA SSD 50 us, 550 and \
        270 MB/s; NVM 1 us, 4 GB/s";

    pub(crate) fn ranks(&self) -> u32 {
        self.machine.nodes * self.machine.ranks_per_node
    }
}
