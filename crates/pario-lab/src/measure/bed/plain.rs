//! One timed step of a contender that goes to storage by itself: `posix`, `romio-like`, and Block
//! I/O on an emulated device.

use std::path::Path;
use std::sync::Arc;

use pario::CallStatistics;
use pario::comm::block_on;
use pario::model::Direction;
use pario::storage::{Driver, OpenMode, Posix, Storage};

use super::super::memory::CallerMemory;
use super::super::romio::{Disk, Romio};
use super::super::turn::{Turn, now};
use super::{Bed, failed};
use crate::failure::Failure;
use crate::scenario::contender::Plain;
use crate::scenario::pieces::Piece;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// One piece of a rank, in its own part of the file.
    Block,
    Plain(Plain),
}

/// Opens a file for a step.
fn open(
    driver: &dyn Driver,
    path: &Path,
    direction: Direction,
    create: bool,
) -> pario::Result<Arc<dyn Storage>> {
    let write = direction == Direction::Write;
    // Sieving writes read, too.
    driver.open(path, OpenMode { read: true, write, create: create && write, exclusive: false })
}

impl Bed<'_> {
    pub(super) fn plain_turn(
        &mut self,
        part: usize,
        work: Work,
        direction: Direction,
    ) -> Result<(Turn, CallStatistics), Failure> {
        let (is_new, team) = (self.is_new(), self.bench.team);
        let posix: Arc<dyn Driver> = Arc::new(Posix);
        let device = self.bench.settings.device.as_ref();
        let driver = device.map_or(posix, |(_, driver)| Arc::clone(driver));
        let path = self.on_disk(part).path.clone();
        let before = match is_new {
            true => None,
            false => Some(open(&*driver, &path, direction, false).map_err(failed)),
        };
        let (storage, own) = match before.transpose() {
            Ok(storage) => (storage, Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        team.agree(own)?;
        let calls = self.plain_calls(part, work, direction);
        let step_begin = team.start_together()?;
        let storage = match storage {
            Some(storage) => Ok(storage),
            None => open(&*driver, &path, direction, true),
        };
        // A rank that cannot open its file takes part in what all do together.
        let mut disk = Disk::new(team.comm(), storage);
        let begin = if is_new { now() } else { step_begin };
        let lost = self.plain_work(part, work, (direction, &calls), &mut disk);
        let end = now();
        let statistics = disk.close();
        let step = is_new.then(|| (step_begin, now()));
        lost?;
        let statistics = statistics.map_err(failed)?;
        Ok((Turn::new(team.clock(), (begin, end), step, &statistics), statistics))
    }

    /// The pieces of each call.
    fn plain_calls(&self, part: usize, work: Work, direction: Direction) -> Vec<Vec<Piece>> {
        let own = &self.parts[part];
        match work {
            Work::Block => {
                let len = u64::try_from(own.bytes()).unwrap_or(u64::MAX);
                vec![vec![Piece { offset: own.block_start, memory: 0, len }]]
            }
            Work::Plain(Plain::Posix) => vec![own.piece_calls(direction)],
            Work::Plain(Plain::RomioLike { .. }) => {
                let mut calls = own.pieces_by_call(direction);
                for pieces in &mut calls {
                    pieces.sort_unstable_by_key(|piece| piece.offset);
                }
                calls
            }
        }
    }

    fn plain_work(
        &mut self,
        part: usize,
        work: Work,
        (direction, calls): (Direction, &[Vec<Piece>]),
        disk: &mut Disk<'_>,
    ) -> Result<(), Failure> {
        let (team, hints) = (self.bench.team, &self.bench.settings.hints);
        let own = &mut self.parts[part];
        let mut memory = CallerMemory::Bytes(match work {
            Work::Block => own.packed(),
            Work::Plain(_) => own.buffer(),
        });
        let calls = async {
            for pieces in calls {
                match work {
                    Work::Block | Work::Plain(Plain::Posix) => {
                        disk.each(direction, pieces.iter().copied(), &mut memory).await;
                    }
                    Work::Plain(Plain::RomioLike { collective }) => {
                        let mut romio = Romio::new(team, hints, disk);
                        match collective {
                            true => romio.collective(direction, pieces, &mut memory).await?,
                            false => romio.sieve(direction, pieces, &mut memory).await,
                        }
                    }
                }
            }
            Ok(())
        };
        block_on(team.comm(), calls)
    }
}
