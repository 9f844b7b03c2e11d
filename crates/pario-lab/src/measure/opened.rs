//! An open file of pario or of MPI: the same calls of both.

use std::path::Path;
use std::rc::Rc;

use pario::model::Direction;
use pario::{CallStatistics, Datatype, File, Source, Target};
use pario_mpi::{MpiDatatype, MpiFile, MpiIo};

use super::part::Part;

/// Whose file it is.
pub(crate) enum BenchFile {
    Pario(File),
    Mpi(MpiFile, Rc<MpiTypes>),
}

/// What calls of MPI need of a part, made before any of them.
pub(crate) struct MpiTypes {
    io: MpiIo,
    /// Of writes and of reads.
    filetypes: [MpiDatatype; 2],
    memory: Option<MpiDatatype>,
}

impl MpiTypes {
    /// Of the MPI library, or of the drop-in in a file.
    pub(crate) fn new(drop_in: Option<&Path>, part: &Part<'_>) -> pario::Result<MpiTypes> {
        let io = drop_in.map_or_else(MpiIo::of_library, MpiIo::of_drop_in)?;
        let filetype = |direction| io.datatype(part.view(direction).filetype());
        let filetypes = [filetype(Direction::Write)?, filetype(Direction::Read)?];
        let memory = part.memory_datatype().map(|datatype| io.datatype(datatype)).transpose()?;
        Ok(MpiTypes { io, filetypes, memory })
    }

    /// Opens a file that is used with them.
    pub(crate) fn open<'a>(
        self: Rc<MpiTypes>,
        path: &Path,
        create: bool,
        hints: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> pario::Result<BenchFile> {
        let file = self.io.open(path, create, hints)?;
        Ok(BenchFile::Mpi(file, self))
    }
}

/// The bytes of one call: some from a place in the buffer on, or those of a datatype there.
pub(crate) struct CallData<'a> {
    pub(crate) buffer: &'a mut [u8],
    pub(crate) origin: usize,
    pub(crate) bytes: usize,
    pub(crate) datatype: Option<&'a Datatype>,
}

impl BenchFile {
    /// Shows a part of the file.
    pub(crate) fn set_view(&self, part: &Part<'_>, direction: Direction) -> pario::Result<()> {
        let view = part.view(direction);
        match self {
            BenchFile::Pario(file) => file.set_view(view),
            BenchFile::Mpi(file, types) => {
                let [write, read] = &types.filetypes;
                let filetype = if direction == Direction::Write { write } else { read };
                file.set_view(view.displacement(), filetype)
            }
        }
    }

    /// Makes a call.
    pub(crate) fn transfer(
        &self,
        direction: Direction,
        collective: bool,
        position: u64,
        data: CallData<'_>,
    ) -> pario::Result<()> {
        match self {
            BenchFile::Pario(file) => by_pario(file, direction, collective, position, data),
            BenchFile::Mpi(file, types) => {
                let memory = types.memory.as_ref().filter(|_| data.datatype.is_some());
                let end = match memory {
                    Some(_) => data.buffer.len(),
                    None => data.origin + data.bytes,
                };
                let bytes = &mut data.buffer[data.origin..end];
                match direction {
                    Direction::Write => file.write(position, bytes, memory, collective),
                    Direction::Read => file.read(position, bytes, memory, collective),
                }
            }
        }
    }

    /// What pario has done on the file so far; nobody knows that of MPI.
    pub(crate) fn statistics(&self) -> CallStatistics {
        match self {
            BenchFile::Pario(file) => file.statistics().total,
            BenchFile::Mpi(..) => CallStatistics::default(),
        }
    }

    /// Says which call it was, and why; sums have that of the last one.
    pub(crate) fn name_call(&self, statistics: &mut CallStatistics) {
        let BenchFile::Pario(file) = self else { return };
        let last = file.last_call();
        (statistics.call, statistics.strategy) = (last.call, last.strategy);
        (statistics.reason, statistics.aggregators) = (last.reason, last.aggregators);
    }

    pub(crate) fn close(self) -> pario::Result<()> {
        match self {
            BenchFile::Pario(file) => file.close(),
            BenchFile::Mpi(file, _) => file.close(),
        }
    }
}

fn by_pario(
    file: &File,
    direction: Direction,
    collective: bool,
    position: u64,
    data: CallData<'_>,
) -> pario::Result<()> {
    let CallData { buffer, origin, bytes, datatype } = data;
    let moved = match direction {
        Direction::Write => {
            let source = match datatype {
                Some(datatype) => Source::typed(buffer, origin, 1, datatype),
                None => Ok(Source::from(&buffer[origin..origin + bytes])),
            };
            match collective {
                true => file.try_write_all(position, source),
                false => file.write(position, source?),
            }
        }
        Direction::Read => {
            let target = match datatype {
                Some(datatype) => Target::typed(buffer, origin, 1, datatype),
                None => Ok(Target::from(&mut buffer[origin..origin + bytes])),
            };
            match collective {
                true => file.try_read_all(position, target),
                false => file.read(position, target?),
            }
        }
    };
    moved.map(|_| ())
}
