//! The performance model of paper 001: when does collective I/O pay?
//!
//! The paper compares collective I/O (aggregators shuffle data, then access storage sequentially)
//! with individual I/O (each rank accesses storage by itself, at random places), in five equations:
//!
//! | equation | function |
//! | --- | --- |
//! | 1 `T_collective = T_comm + T_IO + T_other` | [`collective_seconds`] |
//! | 2 `T_comm = sum over iterations of (Ts + Tw * msg_size * tau)` | [`shuffle_seconds`] |
//! | 3 `T_IO = sum of msg_size / bdw_seq` | [`sequential_io_seconds`] |
//! | 4 `T_individual = T_IO + T_other` | [`individual_seconds`] |
//! | 5 `T_IO = sum of msg_size / bdw_ran` | [`random_io_seconds`] |
//!
//! Its measured parameters are [`PAPER_001`], its validation is [`table_v`] and [`table_vi`], its
//! Figure 11 is [`figure_11`]. A megabyte (MB) is 2^20 bytes here: the paper's 16 GB are 16,384 MB.
//!
//! # Where the paper is unclear, and which reading is taken
//!
//! * Table III describes `Tw` as the constant part and `Ts` as the part in proportion to the size.
//!   The text and equation 2 have it the other way, and only that fits the values and their units:
//!   `Ts` is seconds for each message, `Tw` seconds for each megabyte.
//! * Equations 2 and 3 use one sum of message sizes for two amounts: what one rank exchanges with
//!   the slowest aggregator, and what goes to storage. The estimates of Tables V and VI need two
//!   values: [`Shuffle`] has the first, `stored_mb` is the second.
//! * Tables V and VI follow from 16,384 MB in all (the workload of section IV-B). Section IV-D,
//!   which describes them, gives sizes of 2 GB. On 4 nodes the shuffle is 256 iterations of 16 MB
//!   (4,096 MB, a quarter of all). On 2 nodes it is 64 iterations of 32 MB (2,048 MB, an eighth).
//!   This is a fit, not physics: each of two aggregators serves 8,192 MB. 128 iterations of 16 MB
//!   fit within 0.17 %.
//! * `tau` is 1 in Tables V and VI, though section IV-C estimates it as 0.75 ([`tau`]).
//! * Individual I/O on NVM is estimated with the sequential bandwidth in both tables
//!   (16,384 / 112.31 = 145.88 s); with the random one it would be 148.26 s.
//! * The estimate of collective I/O on HDD and 4 nodes follows from no reading: the paper has
//!   411.78 s, the equations give 420.54 s, 2.1 % more. The other eleven agree within 0.01 %.
//! * Some printed errors do not follow from the printed times: NVM collective in Table V is off by
//!   17.3 %, not 14.4; NVM individual by 0.32 %, not 3.2.
//! * Figure 11: with one message size in both equations collective I/O never pays on HDD (25.1 ms
//!   of shuffle for each MB against 20.2 ms of gain). What the text says of the figure holds if one
//!   iteration stores what four aggregators shuffle together, and if the benefit is the time saved
//!   in storage, without the shuffle that it is compared with.
//! * `T_other` is zero in the validation; it is a parameter here.

/// Time of messages: a constant part and a part in proportion to the size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// `Ts`: seconds for each message, whatever its size.
    pub ts_s: f64,
    /// `Tw`: seconds for each megabyte.
    pub tw_s_per_mb: f64,
}

/// End-to-end bandwidth between a compute node and storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// `bdw_seq`: sequential access.
    pub sequential_mb_per_s: f64,
    /// `bdw_ran`: random access.
    pub random_mb_per_s: f64,
}

/// A device of Table IV, seen through the paper's network and NFS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// HDD, SSD or NVM.
    pub name: &'static str,
    /// Its row of Table IV. The network limits SSD and NVM: these are no figures of the devices.
    pub bandwidth: Bandwidth,
}

/// What the slowest aggregator exchanges with one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shuffle {
    /// `iter`: how often it exchanges before it accesses storage.
    pub iterations: u32,
    /// `msg_size`: megabytes in each iteration, the same in all of them.
    pub message_mb: f64,
    /// `tau`: the part of these megabytes that really moves between ranks.
    pub tau: f64,
}

/// The parameters that do not depend on the application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The network of the compute nodes.
    pub network: Network,
    /// HDD, SSD and NVM.
    pub devices: [Device; 3],
    /// `T_other`: seconds besides shuffle and storage.
    pub other_s: f64,
}

/// The parameters of the paper's cluster: 1 Gb Ethernet, NFS, one storage node (sections III, IV-C
/// and Table IV).
pub const PAPER_001: Parameters = Parameters {
    network: Network { ts_s: 5.39e-3, tw_s_per_mb: 3.35e-2 },
    devices: [
        Device {
            name: "HDD",
            bandwidth: Bandwidth { sequential_mb_per_s: 58.11, random_mb_per_s: 26.72 },
        },
        Device {
            name: "SSD",
            bandwidth: Bandwidth { sequential_mb_per_s: 110.98, random_mb_per_s: 101.86 },
        },
        Device {
            name: "NVM",
            bandwidth: Bandwidth { sequential_mb_per_s: 112.31, random_mb_per_s: 110.51 },
        },
    ],
    other_s: 0.0,
};

/// The paper's estimate of `tau`: ranks that are not aggregators, of all ranks.
///
/// ```
/// assert_eq!(pario_lab::predict::paper::model::tau(2, 8), 0.75);
/// ```
pub fn tau(aggregators: u32, ranks: u32) -> f64 {
    f64::from(ranks.saturating_sub(aggregators)) / f64::from(ranks.max(1))
}

/// Equation 2: the time of the shuffle. Aggregators work at the same time, so it is that of the
/// slowest one; ranks send to it at the same time, so it is that of one rank.
pub fn shuffle_seconds(network: Network, shuffle: Shuffle) -> f64 {
    let iteration = network.ts_s + network.tw_s_per_mb * shuffle.message_mb * shuffle.tau;
    f64::from(shuffle.iterations) * iteration
}

/// Equation 3: the time of storage after a shuffle, which makes access sequential.
pub fn sequential_io_seconds(bandwidth: Bandwidth, stored_mb: f64) -> f64 {
    stored_mb / bandwidth.sequential_mb_per_s
}

/// Equation 5: the time of storage without a shuffle.
pub fn random_io_seconds(bandwidth: Bandwidth, stored_mb: f64) -> f64 {
    stored_mb / bandwidth.random_mb_per_s
}

/// Equation 1: the time of collective I/O of `stored_mb` megabytes.
///
/// ```
/// use pario_lab::predict::paper::model::{PAPER_001, Shuffle};
/// use pario_lab::predict::paper::model::{collective_seconds, individual_seconds};
///
/// let [hdd, _, nvm] = PAPER_001.devices;
/// let shuffle = Shuffle { iterations: 256, message_mb: 16.0, tau: 1.0 };
/// let collective = |bandwidth| collective_seconds(&PAPER_001, bandwidth, shuffle, 16384.0);
/// let individual = |bandwidth| individual_seconds(&PAPER_001, bandwidth, 16384.0);
/// assert!(collective(hdd.bandwidth) < individual(hdd.bandwidth));
/// assert!(collective(nvm.bandwidth) > individual(nvm.bandwidth));
/// ```
pub fn collective_seconds(
    parameters: &Parameters,
    bandwidth: Bandwidth,
    shuffle: Shuffle,
    stored_mb: f64,
) -> f64 {
    let shuffled = shuffle_seconds(parameters.network, shuffle);
    shuffled + sequential_io_seconds(bandwidth, stored_mb) + parameters.other_s
}

/// Equation 4: the time of individual I/O of `stored_mb` megabytes.
pub fn individual_seconds(parameters: &Parameters, bandwidth: Bandwidth, stored_mb: f64) -> f64 {
    random_io_seconds(bandwidth, stored_mb) + parameters.other_s
}

/// A technique that the paper compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technique {
    /// Aggregators shuffle, then access storage.
    Collective,
    /// Each rank accesses storage by itself.
    Individual,
}

impl Technique {
    /// As in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Technique::Collective => "collective",
            Technique::Individual => "individual",
        }
    }
}

/// Three times of one technique on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The paper's measurement.
    pub measured_s: f64,
    /// The paper's estimate.
    pub estimated_s: f64,
    /// The estimate of the functions here.
    pub ours_s: f64,
}

impl Times {
    /// Our estimate relative to the paper's, minus 1.
    pub fn difference(&self) -> f64 {
        self.ours_s / self.estimated_s - 1.0
    }
}

/// A device's column of Table V or VI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validation {
    /// HDD, SSD or NVM.
    pub device: &'static str,
    /// Collective I/O.
    pub collective: Times,
    /// Individual I/O.
    pub individual: Times,
}

impl Validation {
    /// The faster technique by one of the three times.
    pub fn winner(&self, time: impl Fn(&Times) -> f64) -> Technique {
        match time(&self.collective) < time(&self.individual) {
            true => Technique::Collective,
            false => Technique::Individual,
        }
    }
}

/// Megabytes that Tables V and VI store.
const STORED_MB: f64 = 16384.0;

/// Measured and estimated seconds of the paper, for HDD, SSD and NVM.
type Printed = [(f64, f64); 3];

/// Table V: 4 nodes, 4 ranks on each.
pub fn table_v() -> [Validation; 3] {
    let shuffle = Shuffle { iterations: 256, message_mb: 16.0, tau: 1.0 };
    let collective = [(385.86, 411.78), (277.46, 286.21), (242.54, 284.46)];
    let individual = [(593.04, 613.17), (146.50, 160.84), (146.35, 145.88)];
    validation(shuffle, &collective, &individual)
}

/// Table VI: 2 nodes, 8 ranks on each.
pub fn table_vi() -> [Validation; 3] {
    let shuffle = Shuffle { iterations: 64, message_mb: 32.0, tau: 1.0 };
    let collective = [(354.59, 350.90), (217.74, 216.58), (213.01, 214.83)];
    let individual = [(580.32, 613.17), (146.40, 160.84), (146.55, 145.88)];
    validation(shuffle, &collective, &individual)
}

fn validation(shuffle: Shuffle, collective: &Printed, individual: &Printed) -> [Validation; 3] {
    [0, 1, 2].map(|index| {
        let Device { name, bandwidth } = PAPER_001.devices[index];
        // The paper's individual estimates on NVM use the sequential bandwidth.
        let random_mb_per_s = match name {
            "NVM" => bandwidth.sequential_mb_per_s,
            _ => bandwidth.random_mb_per_s,
        };
        let individual_bandwidth = Bandwidth { random_mb_per_s, ..bandwidth };
        let times = |(measured_s, estimated_s): (f64, f64), ours_s: f64| Times {
            measured_s,
            estimated_s,
            ours_s,
        };
        Validation {
            device: name,
            collective: times(
                collective[index],
                collective_seconds(&PAPER_001, bandwidth, shuffle, STORED_MB),
            ),
            individual: times(
                individual[index],
                individual_seconds(&PAPER_001, individual_bandwidth, STORED_MB),
            ),
        }
    })
}

/// One point of Figure 11, for one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tradeoff {
    /// Megabytes that a rank and an aggregator exchange.
    pub message_mb: f64,
    /// Time of the shuffle.
    pub shuffle_s: f64,
    /// Time that sequential access saves in storage.
    pub benefit_s: f64,
}

impl Tradeoff {
    /// Whether collective I/O saves more than its shuffle costs.
    pub fn pays(&self) -> bool {
        self.benefit_s > self.shuffle_s
    }
}

/// Figure 11: cost and benefit of one iteration, on 4 nodes with 4 ranks and one aggregator each.
///
/// ```
/// use pario_lab::predict::paper::model::{PAPER_001, figure_11};
///
/// let [hdd, ssd, _] = PAPER_001.devices;
/// assert!(figure_11(hdd.bandwidth, 16.0).pays());
/// assert!(!figure_11(ssd.bandwidth, 16.0).pays());
/// ```
pub fn figure_11(bandwidth: Bandwidth, message_mb: f64) -> Tradeoff {
    const AGGREGATORS: u32 = 4;
    let shuffle = Shuffle { iterations: 1, message_mb, tau: tau(AGGREGATORS, 16) };
    let stored_mb = f64::from(AGGREGATORS) * message_mb;
    Tradeoff {
        message_mb,
        shuffle_s: shuffle_seconds(PAPER_001.network, shuffle),
        benefit_s: random_io_seconds(bandwidth, stored_mb)
            - sequential_io_seconds(bandwidth, stored_mb),
    }
}

/// Time of a direct exchange among `ranks` ranks: each sends an equal share of its `volume_mb`
/// megabytes to every other one, one message after another.
pub fn direct_exchange_seconds(network: Network, ranks: u32, volume_mb: f64) -> f64 {
    let ranks = f64::from(ranks.max(1));
    (ranks - 1.0) * (network.ts_s + network.tw_s_per_mb * volume_mb / ranks)
}

/// Time of `phases` phases of a multi-phase exchange (papers 000 and 002): in each one, a rank
/// sends half of its `volume_mb` megabytes to one partner. All phases are log2 of the number of
/// ranks.
pub fn multi_phase_seconds(network: Network, phases: u32, volume_mb: f64) -> f64 {
    f64::from(phases) * (network.ts_s + network.tw_s_per_mb * volume_mb / 2.0)
}

/// The volume of a rank, in megabytes, at which a direct exchange among `2^phases` ranks takes as
/// long as one of all phases. With less, phases win: they send fewer messages. With more, the
/// direct exchange wins: each byte moves once instead of `phases / 2` times.
///
/// Only the ratio `Ts / Tw` counts. Two ranks do the same either way: the volume is infinite.
///
/// ```
/// use pario_lab::predict::paper::model::{Network, break_even_mb};
///
/// let network = Network { ts_s: 1e-3, tw_s_per_mb: 0.05 };
/// assert_eq!(format!("{:.3}", break_even_mb(network, 4)), "0.207");
/// assert_eq!(break_even_mb(network, 1), f64::INFINITY);
/// ```
pub fn break_even_mb(network: Network, phases: u32) -> f64 {
    let ranks = 2f64.powi(i32::try_from(phases).unwrap_or(i32::MAX));
    let fewer_messages = ranks - 1.0 - f64::from(phases);
    let more_volumes = f64::from(phases) / 2.0 - (ranks - 1.0) / ranks;
    match more_volumes > 0.0 {
        true => network.ts_s / network.tw_s_per_mb * fewer_messages / more_volumes,
        false => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use pario::Strategy;
    use pario::model::Direction;
    use pario::model::presets::{Device, Link};
    use pario::model::profile::Profile;
    use pario::plan::{Cause, Plan, Request};

    use super::*;
    use crate::scenario::question::{Question, explain};

    #[test]
    fn eleven_estimates_of_tables_v_and_vi_agree_and_the_twelfth_nearly() {
        let differences: Vec<f64> = [table_v(), table_vi()]
            .iter()
            .flatten()
            .flat_map(|column| [column.collective, column.individual])
            .map(|times| times.difference().abs())
            .collect();
        assert_eq!(differences.len(), 12);
        assert_eq!(differences.iter().filter(|difference| **difference <= 0.002).count(), 11);
        let worst = differences.iter().copied().fold(0.0, f64::max);
        assert!(worst > 0.002 && worst < 0.025, "{worst}");
    }

    #[test]
    fn the_model_finds_the_winner_that_was_measured_in_all_six_cases() {
        for column in table_v().iter().chain(&table_vi()) {
            let measured = column.winner(|times| times.measured_s);
            assert_eq!(column.winner(|times| times.ours_s), measured, "{}", column.device);
            assert_eq!(column.winner(|times| times.estimated_s), measured, "{}", column.device);
            let expected = match column.device {
                "HDD" => Technique::Collective,
                _ => Technique::Individual,
            };
            assert_eq!(measured, expected, "{}", column.device);
        }
    }

    #[test]
    fn the_other_reading_of_table_vi_is_within_the_stated_bound() {
        let shuffle = Shuffle { iterations: 128, message_mb: 16.0, tau: 1.0 };
        for (device, column) in PAPER_001.devices.iter().zip(table_vi()) {
            let ours = collective_seconds(&PAPER_001, device.bandwidth, shuffle, STORED_MB);
            assert!((ours / column.collective.estimated_s - 1.0).abs() < 0.0017);
        }
    }

    /// 32 KB, 2 MB and 16 MB.
    const MESSAGES_MB: [f64; 3] = [0.03125, 2.0, 16.0];

    #[test]
    fn collective_io_pays_on_hdd_with_large_messages_only_and_never_on_ssd_and_nvm() {
        let [hdd, ssd, nvm] =
            PAPER_001.devices.map(|device| MESSAGES_MB.map(|mb| figure_11(device.bandwidth, mb)));
        assert_eq!(hdd.map(|point| point.pays()), [false, true, true]);
        assert_eq!(ssd.map(|point| point.pays()), [false; 3]);
        assert_eq!(nvm.map(|point| point.pays()), [false; 3]);
        let rounded = |seconds: f64| (seconds * 1e4).round() / 10.0;
        assert_eq!(hdd.map(|point| rounded(point.benefit_s)), [2.5, 161.7, 1293.9]);
        assert_eq!(hdd.map(|point| rounded(point.shuffle_s)), [6.2, 55.6, 407.4]);
    }

    #[test]
    fn with_one_size_in_both_equations_collective_io_never_pays_on_hdd() {
        let hdd = PAPER_001.devices[0].bandwidth;
        for message_mb in MESSAGES_MB {
            let point = figure_11(hdd, message_mb);
            assert!(point.benefit_s / 4.0 < point.shuffle_s, "{message_mb} MB");
        }
    }

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.002, "{value} is not {expected}");
    }

    #[test]
    fn break_even_of_direct_and_multi_phase_exchange_follows_from_ts_tw_and_ranks() {
        let ratio_of_50 = Network { ts_s: 1e-3, tw_s_per_mb: 0.05 };
        near(break_even_mb(ratio_of_50, 4), 0.207);
        near(break_even_mb(ratio_of_50, 10), 5.06);
        near(break_even_mb(PAPER_001.network, 4), 1.666);
        near(break_even_mb(PAPER_001.network, 10), 40.74);
        let slower = Network { tw_s_per_mb: 0.5, ..ratio_of_50 };
        near(break_even_mb(slower, 4), 0.0207);
    }

    #[test]
    fn phases_win_below_the_break_even_and_lose_above() {
        for phases in [3, 4, 10] {
            let (network, ranks) = (PAPER_001.network, 1 << phases);
            let volume_mb = break_even_mb(network, phases);
            let direct = |volume_mb| direct_exchange_seconds(network, ranks, volume_mb);
            let phased = |volume_mb| multi_phase_seconds(network, phases, volume_mb);
            near(direct(volume_mb), phased(volume_mb));
            assert!(phased(volume_mb * 0.5) < direct(volume_mb * 0.5));
            assert!(phased(volume_mb * 2.0) > direct(volume_mb * 2.0));
        }
        assert_eq!(break_even_mb(PAPER_001.network, 1), f64::INFINITY);
    }

    /// A link in the units of the paper.
    fn network(link: Link) -> Network {
        let tw_s_per_mb = f64::from(1 << 20) / link.bytes_per_s;
        Network { ts_s: link.latency_us / 1e6, tw_s_per_mb }
    }

    #[test]
    fn the_link_of_paper_001_is_its_network() {
        let Network { ts_s, tw_s_per_mb } = network(Link::PAPER_001);
        assert!((ts_s / PAPER_001.network.ts_s - 1.0).abs() < 1e-9);
        assert!((tw_s_per_mb / PAPER_001.network.tw_s_per_mb - 1.0).abs() < 1e-9);
    }

    /// Below the volume at which both take as long, the planner predicts that all phases are faster
    /// than direct messages.
    #[test]
    fn phases_pay_below_the_break_even() {
        let link = Link { latency_us: 25.0, bytes_per_s: 250e6 };
        let even = break_even_mb(network(link), 4) * f64::from(1 << 20);
        // Volumes that divide a window, so that there is one round.
        for (blocks, phases_win) in [(64_u32, true), (256, false)] {
            assert_eq!(f64::from(blocks * 512) < even, phases_win, "{even}");
            let answer = explain(&sixteen_nodes(link, u64::from(blocks))).unwrap();
            let sent_us = |strategy: Strategy, phases: Option<u32>| {
                let is_it = |way: &&Plan| way.strategy == strategy && way.phases() == phases;
                let way = answer.ways.iter().rfind(is_it).unwrap();
                assert_eq!(way.rounds(), 1);
                let sent = [Cause::Messages, Cause::MessagesBetweenNodes, Cause::BytesBetweenNodes];
                let shares = way.terms().filter(|share| sent.contains(&share.cause));
                shares.map(|share| share.us).sum::<f64>()
            };
            let direct_us = sent_us(Strategy::TwoPhase, None);
            let phased_us = sent_us(Strategy::MultiPhase, Some(4));
            assert_eq!(phased_us < direct_us, phases_win, "{phased_us} {direct_us}");
        }
    }

    /// A rank of each node writes blocks of 512 bytes in turn with the others.
    fn sixteen_nodes(network: Link, blocks: u64) -> Question {
        const BLOCK: u64 = 512;
        let request = |rank: u64| {
            let end = ((blocks - 1) * 16 + rank + 1) * BLOCK;
            Request::of_pieces(rank * BLOCK..end, blocks * BLOCK, BLOCK)
        };
        let profile = Profile::default().with_network(network).with_device("nvm", Device::NVM);
        let requests = (0..16).map(request).collect();
        let question = Question::new(Direction::Write, requests, profile);
        question.on_nodes(16, 16, 1).unwrap()
    }
}
