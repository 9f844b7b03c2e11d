//! What all ranks agree on: which call they make, and its error.
//!
//! Every rank contributes its error, if it has one. All return the same one: of the greatest
//! (most specific) class, from the lowest rank that has it, with that rank's text.

use std::ops::Range;

use crate::comm::Communicator;
use crate::comm::collective::all_gather;
use crate::datatype::wire::{Reader, Writer};
use crate::error::{Error, ErrorClass, Result};
use crate::number::wide;

/// What one rank says at the end: what its storage did, and its error.
#[derive(Default)]
pub(super) struct Report {
    /// Ranges of the file that it should have stored but has not.
    pub(super) undone: Vec<Range<u64>>,
    pub(super) error: Option<Error>,
}

impl Report {
    fn to_wire(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.unsigned(wide(self.undone.len()));
        for file in &self.undone {
            writer.unsigned(file.start);
            writer.unsigned(file.end);
        }
        writer.error(self.error.as_ref());
        writer.bytes
    }

    fn from_wire(wire: &[u8]) -> Result<Report> {
        let mut reader = Reader::new(wire);
        let undone = (0..reader.unsigned()?)
            .map(|_| Ok(reader.unsigned()?..reader.unsigned()?))
            .collect::<Result<_>>()?;
        Ok(Report { undone, error: reader.error()? })
    }
}

/// Exchanges the reports of all ranks; returns them and the agreed error.
pub(super) async fn reports(
    communicator: &dyn Communicator,
    call: u64,
    own: Report,
) -> Result<(Vec<Report>, Option<Error>)> {
    let own = Report { error: own.error.map(|error| error.on_rank(communicator.rank())), ..own };
    let gathered = all_gather(communicator, call, own.to_wire()).await?;
    let mut reports =
        gathered.iter().map(|wire| Report::from_wire(wire)).collect::<Result<Vec<Report>>>()?;
    let error = most_specific(reports.iter_mut().map(|report| report.error.take()));
    Ok((reports, error))
}

/// The error that all ranks report.
pub(super) fn most_specific(errors: impl Iterator<Item = Option<Error>>) -> Option<Error> {
    let mut agreed: Option<Error> = None;
    for (rank, error) in (0..).zip(errors) {
        let Some(error) = error.map(|error| error.on_rank(rank)) else { continue };
        if agreed.as_ref().is_none_or(|agreed| error.class() > agreed.class()) {
            agreed = Some(error);
        }
    }
    agreed
}

/// Makes the result of a rank that of all ranks: an error if anybody has one.
pub(crate) async fn agree_on<T>(
    communicator: &dyn Communicator,
    call: u64,
    own: Result<T>,
) -> Result<T> {
    // A rank's own error is among those that are brought.
    let brought = own.as_ref().map(|_| Vec::new()).map_err(Error::clone);
    bring(communicator, call, brought).await?;
    own
}

/// What every rank brings, in the order of the ranks; an error if anybody has one.
pub(crate) async fn bring(
    communicator: &dyn Communicator,
    call: u64,
    own: Result<Vec<u8>>,
) -> Result<Vec<Vec<u8>>> {
    let own = own.map_err(|error| error.on_rank(communicator.rank()));
    let mut writer = Writer::default();
    writer.error(own.as_ref().err());
    writer.text(&own.unwrap_or_default());
    let gathered = all_gather(communicator, call, writer.bytes).await?;
    agreed(&gathered, |reader| Ok((reader.error()?, reader.text()?.to_vec())))
}

/// What all ranks have said, unless one of them has an error.
fn agreed<T>(
    gathered: &[Vec<u8>],
    read: impl Fn(&mut Reader<'_>) -> Result<(Option<Error>, T)>,
) -> Result<Vec<T>> {
    let said = gathered.iter().map(|wire| read(&mut Reader::new(wire)));
    let (errors, all): (Vec<_>, Vec<_>) = said.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    most_specific(errors.into_iter()).map_or(Ok(all), Err)
}

/// The first step of a collective: all ranks learn which call every rank makes, the error of any
/// of them, and one number of each.
///
/// # Errors
/// `NotSame` on all ranks if they make different calls; otherwise the agreed error.
pub(crate) async fn enter(
    communicator: &dyn Communicator,
    call: u64,
    name: &str,
    own: Result<u64>,
) -> Result<Vec<u64>> {
    let own = own.map_err(|error| error.on_rank(communicator.rank()));
    let mut writer = Writer::default();
    writer.text(name.as_bytes());
    writer.error(own.as_ref().err());
    writer.unsigned(own.unwrap_or(0));
    let gathered = all_gather(communicator, call, writer.bytes).await?;
    same_call(&gathered)?;
    agreed(&gathered, |reader| {
        reader.text()?;
        Ok((reader.error()?, reader.unsigned()?))
    })
}

/// An error unless all ranks make the same call, whose name each contribution begins with.
pub(super) fn same_call(gathered: &[Vec<u8>]) -> Result<()> {
    let name = |wire| Reader::new(wire).text();
    let Some(first) = gathered.first() else { return Ok(()) };
    let first = name(first)?;
    for (rank, wire) in gathered.iter().enumerate() {
        let other = name(wire)?;
        if other != first {
            let text = format!(
                "rank 0 calls {} while rank {rank} calls {}: all ranks of a file must make the \
                 same collective calls in the same order",
                String::from_utf8_lossy(first),
                String::from_utf8_lossy(other),
            );
            return Err(Error::new(ErrorClass::NotSame, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Simulated;

    #[test]
    fn all_ranks_get_the_most_specific_error() {
        let errors = Simulated::new(5, 9).run(|comm| async move {
            let own = match comm.rank() {
                1 => Err(Error::new(ErrorClass::Io, "vague")),
                3 => Err(Error::new(ErrorClass::NoSpace, "full")),
                4 => Err(Error::new(ErrorClass::NoSpace, "also full")),
                _ => Ok(()),
            };
            agree_on(&*comm, 0, own).await.unwrap_err()
        });
        for error in errors {
            assert_eq!((error.class(), error.rank()), (ErrorClass::NoSpace, Some(3)));
            assert_eq!(error.to_string(), "full (rank 3)");
        }
    }

    #[test]
    fn all_ranks_get_what_each_brings_or_one_error() {
        let brought = Simulated::new(5, 9).run(|comm| async move {
            let own = vec![1; comm.rank() as usize];
            let all = bring(&*comm, 0, Ok(own)).await.unwrap();
            let own = match comm.rank() {
                2 => Err(Error::new(ErrorClass::NoSpace, "full")),
                _ => Ok(vec![7]),
            };
            (all, bring(&*comm, 1, own).await.unwrap_err())
        });
        for (all, error) in brought {
            assert_eq!(all, [vec![], vec![1], vec![1; 2], vec![1; 3], vec![1; 4]]);
            assert_eq!((error.class(), error.rank()), (ErrorClass::NoSpace, Some(2)));
        }
    }
}
