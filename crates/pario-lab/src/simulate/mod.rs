//! Programs of ranks on the machines of the papers, in virtual time.
//!
//! Each rank runs a program whose calls are real: pario's own, or those of a contender. They send
//! messages and access storage on a described machine ([`Simulated::on`]), and the program with its
//! times is the same everywhere.
//!
//! Memory that is not there is not touched: files have a size and no bytes (`SizedFiles`), and
//! programs write zeros that nobody has written.

mod files;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pario::comm::collective::all_gather;
use pario::comm::rest_until;
use pario::storage::{Driver, Emulated};
use pario::{CallStatistics, Communicator, Simulated};

use crate::failure::Failure;
use crate::scenario::stage::Stage;
use files::SizedFiles;

pub(crate) use files::NAME;

/// A number for a time; above 2^53 the nearest one that fits.
pub(crate) fn real(number: u64) -> f64 {
    number as f64
}

/// What a program took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    /// From the first rank that began to the last one that ended.
    pub(crate) seconds: f64,
    /// What each rank did.
    pub(crate) ranks: Vec<CallStatistics>,
}

impl Taken {
    /// A count of all ranks.
    pub(crate) fn sum(&self, of: impl Fn(&CallStatistics) -> u64) -> u64 {
        self.ranks.iter().map(of).sum()
    }

    /// Time in which bytes were exchanged, and time of storage accesses, of the rank that accessed
    /// storage longest. In the exchange of others is that they wait for it.
    pub(crate) fn parts_s(&self) -> (f64, f64) {
        let busiest = self.ranks.iter().max_by_key(|rank| rank.storage);
        let parts = |rank: &CallStatistics| (rank.exchange, rank.storage);
        let (exchange, storage) = busiest.map(parts).unwrap_or_default();
        (exchange.as_secs_f64(), storage.as_secs_f64())
    }

    /// Time of each phase, the mean of all ranks: one that is early waits in its next phase.
    pub(crate) fn phase_s(&self) -> Vec<f64> {
        let count = self.ranks.iter().map(|rank| rank.phases.len()).max().unwrap_or(0);
        let ranks = u32::try_from(self.ranks.len()).unwrap_or(u32::MAX);
        let mean = |phase: usize| {
            let of = |rank: &CallStatistics| rank.phases.get(phase).copied().unwrap_or_default();
            self.ranks.iter().map(of).sum::<Duration>().as_secs_f64() / f64::from(ranks)
        };
        (0..count).map(mean).collect()
    }
}

/// One rank of a program.
pub(crate) struct StageRank {
    pub(crate) comm: Arc<dyn Communicator>,
    /// Opens files on the storage of the machine.
    pub(crate) driver: Arc<dyn Driver>,
}

/// What is measured of a rank: when it began and ended, and what it did.
pub(crate) struct RankTaken {
    began: Duration,
    ended: Duration,
    statistics: CallStatistics,
}

impl StageRank {
    /// Waits for all ranks; they begin at the same time.
    ///
    /// # Errors
    /// A rank has ended.
    pub(crate) async fn start(&self) -> Result<Duration, Failure> {
        let failed = |error| Failure::during("starting together", error);
        let comm = self.comm.duplicate().map_err(failed)?;
        let own = comm.now().as_nanos().to_le_bytes().to_vec();
        let all = all_gather(&*comm, 0, own).await.map_err(failed)?;
        let times = all.iter().filter_map(|bytes| bytes.as_slice().try_into().ok());
        let latest = times.map(u128::from_le_bytes).max().unwrap_or(0);
        let latest = Duration::from_nanos(u64::try_from(latest).unwrap_or(u64::MAX));
        // Whatever the messages took.
        let start = latest + Duration::from_secs(1);
        rest_until(&*comm, start).await;
        Ok(start)
    }

    /// This rank is done.
    pub(crate) fn end(&self, began: Duration, statistics: CallStatistics) -> RankTaken {
        RankTaken { began, ended: self.comm.now(), statistics }
    }
}

/// Runs a program on all ranks of a stage; files have this size already.
///
/// # Errors
/// That of the first rank that has one.
pub(crate) fn run<F>(
    stage: &Stage,
    file_bytes: u64,
    program: impl Fn(StageRank) -> F,
) -> Result<Taken, Failure>
where
    F: Future<Output = Result<RankTaken, Failure>> + Send + 'static,
{
    let driver: Arc<dyn Driver> =
        Arc::new(Emulated::simulated(Arc::new(SizedFiles::new(file_bytes))));
    let ranks = Simulated::on(stage.machine).costs(stage.costs);
    let all = ranks.run(|comm| program(StageRank { comm, driver: driver.clone() }));
    let all: Vec<RankTaken> = all.into_iter().collect::<Result<_, Failure>>()?;
    let began = all.iter().map(|one| one.began).min().unwrap_or_default();
    let ended = all.iter().map(|one| one.ended).max().unwrap_or_default();
    let ranks = all.into_iter().map(|one| one.statistics).collect();
    Ok(Taken { seconds: (ended - began).as_secs_f64(), ranks })
}
