//! Links and devices that papers and studies talk about.
//!
//! Figures of devices and figures measured end to end (through a network and a file system, as in
//! Table IV of paper 001) are kept apart: the former are here, the latter are
//! in the lab (`predict::paper::model`). Papers 000 and 002 name their networks without figures,
//! so those presets are assumptions: print them beside what is made of them.

use serde::{Deserialize, Serialize};

use crate::number::real;

/// A link between ranks or nodes: a constant time for each message, and a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Time of a message of no length, one way.
    pub latency_us: f64,
    /// Bandwidth, each way; the ranks of a node share it.
    pub bytes_per_s: f64,
}

impl Link {
    /// Myrinet 2000: 2 Gb/s, messages of 8 us. Typical of MPI over GM; an assumption for papers 000
    /// and 002.
    pub const MYRINET_2000: Link = Link { latency_us: 8.0, bytes_per_s: 240e6 };
    /// Fast Ethernet: 100 Mb/s less 6 % for headers; the latency is typical of TCP at that time. An
    /// assumption for papers 000 and 002.
    pub const FAST_ETHERNET: Link = Link { latency_us: 70.0, bytes_per_s: 11.7e6 };
    /// 1 Gb Ethernet: 116.5 MB/s were measured for MPI messages on a link of 1 Gb/s; the latency is
    /// typical of TCP.
    pub const GIGABIT_ETHERNET: Link = Link { latency_us: 50.0, bytes_per_s: 116.5e6 };
    /// 10 Gb Ethernet less 6 % for headers; the latency is typical of TCP.
    pub const ETHERNET_10G: Link = Link { latency_us: 20.0, bytes_per_s: 1.17e9 };
    /// 100 Gb Ethernet less 3 % for headers; the latency is typical of RDMA.
    pub const ETHERNET_100G: Link = Link { latency_us: 2.0, bytes_per_s: 12.1e9 };
    /// The network of paper 001 as its own ping-pong saw it: Ts 5.39 ms, Tw 33.5 ms/MB.
    pub const PAPER_001: Link = Link { latency_us: 5390.0, bytes_per_s: 1_048_576.0 / 0.0335 };

    /// All presets by the names that users give.
    pub const PRESETS: [(&'static str, Link); 6] = [
        ("myrinet-2000", Link::MYRINET_2000),
        ("fast-ethernet", Link::FAST_ETHERNET),
        ("1gbe", Link::GIGABIT_ETHERNET),
        ("10gbe", Link::ETHERNET_10G),
        ("100gbe", Link::ETHERNET_100G),
        ("paper-001", Link::PAPER_001),
    ];

    /// The preset of a name.
    ///
    /// ```
    /// use pario::model::presets::Link;
    ///
    /// assert_eq!(Link::named("1gbe"), Some(Link::GIGABIT_ETHERNET));
    /// assert_eq!(Link::named("token-ring"), None);
    /// ```
    pub fn named(name: &str) -> Option<Link> {
        Link::PRESETS.iter().find(|(known, _)| *known == name).map(|(_, link)| *link)
    }

    /// Time of one message.
    pub fn message_us(&self, bytes: u64) -> f64 {
        self.latency_us + real(bytes) / self.bytes_per_s * 1e6
    }
}

/// A storage device by itself, without a network or a cache in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Time in which the device does nothing else, before an access that does not continue the
    /// last one: an arm moves, a disk turns.
    pub positioning_us: f64,
    /// Time before the first byte of each access; other accesses use the device meanwhile.
    pub latency_us: f64,
    /// Bandwidth of reads.
    pub read_bytes_per_s: f64,
    /// Bandwidth of writes.
    pub write_bytes_per_s: f64,
}

impl Device {
    /// A disk of 7,200 turns a minute, as paper 001's: a mean seek of 8.5 ms, half a turn of
    /// 4.17 ms, 115 MB/s. Data sheets of the class, not measured.
    pub const HDD: Device = Device {
        positioning_us: 8500.0 + 4167.0,
        latency_us: 0.0,
        read_bytes_per_s: 115e6,
        write_bytes_per_s: 115e6,
    };
    /// A SATA SSD, as paper 001's: 550 and 270 MB/s, 50 us. Data sheets of the class, not measured.
    pub const SATA_SSD: Device = Device {
        positioning_us: 0.0,
        latency_us: 50.0,
        read_bytes_per_s: 550e6,
        write_bytes_per_s: 270e6,
    };
    /// Memory behind a block driver, as paper 001 emulates NVM: 4 GB/s and 1 us for the driver. An
    /// assumption; Table I of the paper has 1 GB/s for memory, which no memory of its time has.
    pub const NVM: Device = Device {
        positioning_us: 0.0,
        latency_us: 1.0,
        read_bytes_per_s: 4e9,
        write_bytes_per_s: 4e9,
    };

    /// All presets by the names that users give.
    pub const PRESETS: [(&'static str, Device); 3] =
        [("hdd", Device::HDD), ("sata-ssd", Device::SATA_SSD), ("nvm", Device::NVM)];

    /// The preset of a name.
    pub fn named(name: &str) -> Option<Device> {
        Device::PRESETS.iter().find(|(known, _)| *known == name).map(|(_, device)| *device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_paper_001_takes_its_time() {
        let message_us = Link::PAPER_001.message_us(16 << 20);
        assert!((message_us / 541_390.0 - 1.0).abs() < 1e-9, "{message_us}");
    }

    #[test]
    fn names_find_presets() {
        assert_eq!(Device::named("hdd"), Some(Device::HDD));
        assert_eq!(Device::named("tape"), None);
    }
}
