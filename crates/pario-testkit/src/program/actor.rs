//! A rank in one step of a program: it makes its calls and compares their outcomes.

use super::memory::{Memorized, Running};
use super::oracle::{self, Expected, Outcome};
use super::run::{World, difference};
use super::{Call, Piece, Pointer, Step, Transfer, Views};
use pario::{File, HintSet, OwnedBuffer, Position, Representation, Status, View};

/// A rank in a step.
pub(super) struct Actor<'a> {
    pub(super) world: &'a World,
    pub(super) file: &'a File,
    pub(super) rank: usize,
    pub(super) number: usize,
}

/// The text of an error, or of a value that is not the expected one.
pub(super) type Checked = Result<(), String>;

fn text(error: pario::Error) -> String {
    error.to_string()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Checked {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{what} is {found:?}, expected {wanted:?}")),
    }
}

impl Actor<'_> {
    pub(super) fn differ(&self, text: &str) {
        self.world.differ(format!("rank {}, step {}: {text}", self.rank, self.number));
    }

    fn expected(&self) -> &Expected {
        &self.world.expected[self.number]
    }

    /// What the last rank compares while the others wait.
    pub(super) fn compare(&self) {
        let expected = self.expected();
        self.world.compare_file(&format!("step {}", self.number), Some(&expected.file));
        let shared = self.file.position_shared().map_err(text);
        let size = self.file.size().map_err(text);
        let checked = shared
            .and_then(|found| same("the shared pointer", found, expected.shared))
            .and(size.and_then(|found| same("the size", found, oracle::wide(expected.file.len()))));
        if let Err(text) = checked {
            self.differ(&text);
        }
    }

    pub(super) async fn step(&self) -> Checked {
        let file = self.file;
        match &self.world.program.steps[self.number] {
            Step::View(views) => self.set_view(views).await?,
            Step::Transfers(transfers) => self.transfers(transfers).await?,
            Step::Seek(targets) => {
                let position = file.seek(targets[self.rank]).map_err(text)?;
                same("the result of seek", position, self.expected().pointers[self.rank])?;
            }
            Step::SeekShared(target) => {
                let position = match self.world.may_block {
                    true => file.seek_shared(*target),
                    false => file.handle().seek_shared(*target).await,
                };
                same("the result of seek_shared", position.map_err(text)?, self.expected().shared)?;
            }
            Step::SetSize(bytes) => match self.world.may_block {
                true => file.set_size(*bytes).map_err(text)?,
                false => file.handle().set_size(*bytes).await.map_err(text)?,
            },
            Step::Preallocate(bytes) => match self.world.may_block {
                true => file.preallocate(*bytes).map_err(text)?,
                false => file.handle().preallocate(*bytes).await.map_err(text)?,
            },
            Step::Sync => match self.world.may_block {
                true => file.sync().map_err(text)?,
                false => file.handle().sync().await.map_err(text)?,
            },
            Step::Atomicity(on) => {
                match self.world.may_block {
                    true => file.set_atomicity(*on).map_err(text)?,
                    false => file.handle().set_atomicity(*on).await.map_err(text)?,
                }
                same("atomicity", file.atomicity(), *on)?;
            }
            Step::Hints(hints) => {
                let given =
                    hints.iter().fold(HintSet::new(), |set, (key, value)| set.with(key, value));
                match self.world.may_block {
                    true => file.set_hints(&given).map_err(text)?,
                    false => file.handle().set_hints(&given).await.map_err(text)?,
                }
            }
        }
        same("the own pointer", file.position(), self.expected().pointers[self.rank])
    }

    async fn set_view(&self, views: &Views) -> Checked {
        let (displacement, filetype) = &views.ranks[self.rank];
        let etype = views.etype.build().map_err(text)?;
        let filetype = filetype.build().map_err(text)?;
        let representation = match views.external {
            true => Representation::External32,
            false => Representation::Native,
        };
        let view = View::new(*displacement, &etype, &filetype).with_representation(representation);
        match self.world.may_block {
            true => self.file.set_view(&view).map_err(text),
            false => self.file.handle().set_view(&view).await.map_err(text),
        }
    }

    /// Begins all calls of a step, then waits for those that are under way.
    async fn transfers(&self, transfers: &[Transfer]) -> Checked {
        let mut checked = Ok(());
        let mut running = Vec::new();
        for (nth, transfer) in transfers.iter().enumerate() {
            if transfer.in_turns {
                for turn in 0..self.world.program.ranks {
                    if turn == self.rank {
                        let begun = self.begin(nth, transfer);
                        checked = checked.and(self.end(nth, begun).await);
                    }
                    self.world.barrier.meet(|| {}).await;
                }
                continue;
            }
            let begun = self.begin(nth, transfer);
            match transfer.call {
                Call::Nonblocking | Call::Split => running.push((nth, begun)),
                _ => checked = checked.and(self.end(nth, begun).await),
            }
        }
        for (nth, begun) in running {
            checked = checked.and(self.end(nth, begun).await);
        }
        checked
    }

    /// Waits for a call if it is under way, and compares.
    async fn end(&self, nth: usize, begun: Result<Option<Running>, String>) -> Checked {
        let Some(running) = begun? else { return Ok(()) };
        let (status, buffer) = running.end(self.file).await;
        self.check(nth, 0, status, &buffer)
    }

    /// Makes or begins one call; returns it if it must be waited for.
    fn begin(&self, nth: usize, transfer: &Transfer) -> Result<Option<Running>, String> {
        let nothing = Piece { at: 0, count: 0, memory: None };
        let piece = match &transfer.pieces[self.rank] {
            None if !transfer.collective => return Ok(None),
            piece => piece.as_ref().unwrap_or(&nothing),
        };
        let position = match transfer.pointer {
            Pointer::Explicit => Position::At(piece.at),
            Pointer::Individual => Position::Individual,
            Pointer::Shared => Position::Shared,
        };
        let call = match (transfer.call, self.world.may_block) {
            (Call::Planned(_), true) => return self.planned(nth, transfer, (position, piece)),
            (Call::Planned(_), false) => Call::Blocking,
            (call, _) => call,
        };
        let last = transfer.call.runs() - 1;
        let buffer = Memorized::new(piece, self.outcome(nth, last))?;
        let file = self.file;
        let started = match (call, transfer.write, transfer.collective) {
            (Call::Blocking, ..) if self.world.may_block => {
                let (status, buffer) = self.blocking(transfer, position, buffer);
                return self.check(nth, 0, status, &buffer).map(|()| None);
            }
            (Call::Blocking, write, true) => {
                return Ok(Some(Running::Blocking { write, position, buffer }));
            }
            (Call::Split, true, _) if self.world.may_block => {
                let split = file.write_all_begin(position, buffer).map_err(text)?;
                return Ok(Some(Running::Split(split)));
            }
            (Call::Split, false, _) if self.world.may_block => {
                let split = file.read_all_begin(position, buffer).map_err(text)?;
                return Ok(Some(Running::Split(split)));
            }
            (_, true, true) => file.iwrite_all(position, buffer),
            (_, true, false) => file.iwrite(position, buffer),
            (_, false, true) => file.iread_all(position, buffer),
            (_, false, false) => file.iread(position, buffer),
        };
        Ok(Some(Running::Pending(started)))
    }

    fn blocking(
        &self,
        transfer: &Transfer,
        position: Position,
        mut buffer: Memorized,
    ) -> (pario::Result<Status>, Memorized) {
        let file = self.file;
        let status = match (transfer.write, transfer.collective) {
            (true, true) => buffer.source().and_then(|source| file.write_all(position, source)),
            (true, false) => buffer.source().and_then(|source| file.write(position, source)),
            (false, true) => buffer.target().and_then(|target| file.read_all(position, target)),
            (false, false) => buffer.target().and_then(|target| file.read(position, target)),
        };
        (status, buffer)
    }

    /// Plans a call and runs the plan as often as the program says.
    fn planned(
        &self,
        nth: usize,
        transfer: &Transfer,
        (position, piece): (Position, &Piece),
    ) -> Result<Option<Running>, String> {
        let datatype = match &piece.memory {
            Some(memory) => memory.build().map_err(text)?,
            None => pario::Datatype::byte(),
        };
        let plan = match transfer.write {
            true => self.file.plan_write_all(position, piece.count, &datatype),
            false => self.file.plan_read_all(position, piece.count, &datatype),
        };
        let plan = plan.map_err(text)?;
        let mut checked = Ok(None);
        for run in 0..transfer.call.runs() {
            let mut buffer = Memorized::new(piece, self.outcome(nth, run))?;
            let status = match transfer.write {
                true => buffer.source().and_then(|from| self.file.write_planned(&plan, from)),
                false => buffer.target().and_then(|into| self.file.read_planned(&plan, into)),
            };
            checked = checked.and(self.check(nth, run, status, &buffer).map(|()| None));
        }
        checked
    }

    /// What must become of a call of this rank; `None` if it has nothing to move.
    fn outcome(&self, nth: usize, run: usize) -> Option<&Outcome> {
        self.expected().outcomes[nth][self.rank].get(run)
    }

    fn check(
        &self,
        nth: usize,
        run: usize,
        status: pario::Result<Status>,
        buffer: &Memorized,
    ) -> Checked {
        let status = status.map_err(text)?;
        // Where plans are not available, the last of their runs is the only one.
        let run = if self.world.may_block { run } else { self.last_run(nth) };
        let (moved, after) = match self.outcome(nth, run) {
            Some(outcome) => (outcome.moved, outcome.after.as_slice()),
            None => (0, &[][..]),
        };
        same("Status::bytes", status.bytes, moved)?;
        match difference(buffer.bytes(), after) {
            Some(text) => Err(format!("memory of transfer {nth}: {text}")),
            None => Ok(()),
        }
    }

    fn last_run(&self, nth: usize) -> usize {
        self.expected().outcomes[nth][self.rank].len().saturating_sub(1)
    }
}
