//! One layer for all that watches, delays or fails storage.
//!
//! A [`Layer`] sees each call of a driver and of its files once: what is called, where, and how
//! many bytes. It lets the call go on, now or later, whole or in part, or refuses it, and sees the
//! outcome. [`Trace`](super::Trace) and the log of accesses record, [`Emulated`](super::Emulated)
//! delays, [`Fault`](super::Fault) fails. No layer sees the bytes.
//!
//! Cost: two calls through a pointer for each call, and 16 bytes for each piece of a list. A file
//! without a layer costs nothing more.

use std::path::Path;
use std::sync::Arc;

use super::{
    Capabilities, Deletion, Driver, LockGuard, LockRange, MappedPart, OpenMode, Storage, file_len,
    memory_len,
};
use crate::error::{Error, ErrorClass, Result};

/// A kind of storage call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A file was opened.
    Open,
    /// A file was deleted.
    Delete,
    /// One run was read.
    Read,
    /// One run was written.
    Write,
    /// A list was read; `offset` is that of its first piece, `len` counts all pieces.
    ReadList,
    /// A list was written; `offset` is that of its first piece, `len` counts all pieces.
    WriteList,
    /// One piece of the list just read. This is a part of a call, not a call.
    ReadPiece,
    /// One piece of the list just written. This is a part of a call, not a call.
    WritePiece,
    /// The size was asked for.
    Size,
    /// The size was set; `len` is the new one.
    SetSize,
    /// Room was reserved for `len` bytes.
    Preallocate,
    /// Written bytes were moved to the device.
    Sync,
    /// A lock was asked for; in a trace: was obtained.
    Lock,
    /// A lock was released.
    Unlock,
    /// A file was closed.
    Close,
}

impl Operation {
    /// Whether this is a call, or a part of a call, that reads bytes.
    pub fn reads(self) -> bool {
        matches!(self, Operation::Read | Operation::ReadList | Operation::ReadPiece)
    }

    /// Whether this is a call, or a part of a call, that writes bytes.
    pub fn writes(self) -> bool {
        matches!(self, Operation::Write | Operation::WriteList | Operation::WritePiece)
    }

    /// Whether this is a call of its own and not a piece of a list.
    pub fn is_call(self) -> bool {
        !matches!(self, Operation::ReadPiece | Operation::WritePiece)
    }
}

/// A call, as a [`Layer`] sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// What is called; never a piece of a list.
    pub operation: Operation,
    /// The first byte it concerns; zero for calls that concern the whole file.
    pub offset: u64,
    /// The number of bytes it concerns; zero where there are none.
    pub len: u64,
    /// Offset and length of each piece of a list; empty for all other calls.
    pub pieces: &'a [(u64, u64)],
}

impl<'a> Call<'a> {
    fn new(operation: Operation, offset: u64, len: u64) -> Call<'a> {
        Call { operation, offset, len, pieces: &[] }
    }

    fn whole_file(operation: Operation) -> Call<'a> {
        Call::new(operation, 0, 0)
    }

    fn list(operation: Operation, pieces: &'a [(u64, u64)]) -> Call<'a> {
        let offset = pieces.first().map_or(0, |&(offset, _)| offset);
        let len = pieces.iter().fold(0, |sum: u64, &(_, len)| sum.saturating_add(len));
        Call { operation, offset, len, pieces }
    }

    /// Whatever a layer says: a write has moved all bytes, or has failed.
    fn written(&self, moved: u64) -> Result<()> {
        match moved < self.len {
            true => {
                let error = Error::new(ErrorClass::Io, "write: a layer let only a part pass");
                Err(error.at_offset(self.offset).after_moving(moved))
            }
            false => Ok(()),
        }
    }
}

/// Carries a call out, for at most so many of its first bytes. Says how many bytes a read or write
/// has moved, what the size is, or with 1 that a lock was obtained; all else is 0.
pub type Proceed<'a> = dyn FnMut(u64) -> Result<u64> + 'a;

/// Sees each call of a driver and its files.
///
/// ```
/// use pario::Result;
/// use pario::storage::{Call, Driver, Layer, Memory, OpenMode, Proceed, Wrapper};
/// use std::path::Path;
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// #[derive(Clone, Default)]
/// struct Counting {
///     memory: Memory,
///     written: Arc<AtomicU64>,
/// }
///
/// impl Layer for Counting {
///     fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
///         let moved = proceed(call.len)?;
///         if call.operation.writes() {
///             self.written.fetch_add(moved, Ordering::Relaxed);
///         }
///         Ok(moved)
///     }
/// }
///
/// impl Wrapper for Counting {
///     fn inner(&self) -> &dyn Driver {
///         &self.memory
///     }
///
///     fn layer(&self, _: &Path) -> Arc<dyn Layer> {
///         Arc::new(self.clone())
///     }
/// }
///
/// let counting = Counting::default();
/// let mode = OpenMode { write: true, create: true, ..OpenMode::default() };
/// counting.open(Path::new("a"), mode)?.write_at(5, b"abc")?;
/// assert_eq!(counting.written.load(Ordering::Relaxed), 3);
/// # Ok::<(), pario::Error>(())
/// ```
pub trait Layer: Send + Sync {
    /// Lets a call pass, with `proceed(call.len)`; the outcome is that of the call. A lock of which
    /// a layer says, without `proceed`, that it was obtained, excludes nobody.
    ///
    /// # Errors
    /// Those of `proceed`, or that of the layer.
    fn pass(&self, call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64>;

    /// What a file can do, if the one below it can do this.
    fn capabilities(&self, inner: Capabilities) -> Capabilities {
        inner
    }
}

/// A driver that is a [`Layer`] over another one.
pub trait Wrapper: Send + Sync {
    /// The driver below.
    fn inner(&self) -> &dyn Driver;

    /// What sees the calls that concern a file: one layer for each open, or the same for all.
    fn layer(&self, path: &Path) -> Arc<dyn Layer>;
}

#[deny(clippy::missing_trait_methods)]
impl<W: Wrapper> Driver for W {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        let layer = self.layer(path);
        let mut inner = Err(Error::new(ErrorClass::Other, "open: a layer has let nothing pass"));
        pass(&*layer, &Call::whole_file(Operation::Open), || {
            inner = Ok(self.inner().open(path, mode)?);
            Ok(())
        })
        .and(inner)
        .map(|inner| over_file(inner, layer))
        .map_err(|error| error.in_file(path))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let call = Call::whole_file(Operation::Delete);
        pass(&*self.layer(path), &call, || self.inner().delete(path))
            .map_err(|error| error.in_file(path))
    }

    fn deletion(&self, path: &Path) -> Result<Option<Deletion>> {
        let layer = self.layer(path);
        let layered = |inner: Deletion| {
            Deletion::new(move || {
                let mut inner = Some(inner);
                let call = Call::whole_file(Operation::Delete);
                pass(&*layer, &call, || inner.take().map_or(Ok(()), Deletion::run))
            })
        };
        Ok(self.inner().deletion(path)?.map(layered))
    }
}

/// A file whose calls pass a layer.
pub(crate) fn over_file(inner: Arc<dyn Storage>, layer: Arc<dyn Layer>) -> Arc<dyn Storage> {
    Arc::new(LayeredFile { inner, layer })
}

struct LayeredFile {
    inner: Arc<dyn Storage>,
    layer: Arc<dyn Layer>,
}

#[deny(clippy::missing_trait_methods)]
impl Storage for LayeredFile {
    fn capabilities(&self) -> Capabilities {
        self.layer.capabilities(self.inner.capabilities())
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        let call = Call::new(Operation::Read, offset, file_len(target.len()));
        let count = self.layer.pass(&call, &mut |most| {
            let most = memory_len(most).min(target.len());
            self.inner.read_at(offset, &mut target[..most]).map(file_len)
        });
        count.map(memory_len)
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        let call = Call::new(Operation::Write, offset, file_len(source.len()));
        let count = self.layer.pass(&call, &mut |most| {
            let first = &source[..memory_len(most).min(source.len())];
            self.inner.write_at(offset, first).map(|()| file_len(first.len()))
        });
        count.and_then(|moved| call.written(moved))
    }

    fn write_mapped(&self, offset: u64, source: &[u8], part: &MappedPart) -> Result<u64> {
        let call = Call::new(Operation::Write, offset, file_len(source.len()));
        let mut mapped = 0;
        let count = self.layer.pass(&call, &mut |most| {
            let first = &source[..memory_len(most).min(source.len())];
            mapped = self.inner.write_mapped(offset, first, part)?;
            Ok(file_len(first.len()))
        });
        count.and_then(|moved| call.written(moved)).map(|()| mapped)
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        let places = places(pieces);
        let call = Call::list(Operation::ReadList, &places);
        let count = self.layer.pass(&call, &mut |most| {
            if most >= call.len {
                return self.inner.read_list(pieces).map(file_len);
            }
            let first = pieces.iter_mut().zip(parts(&places, most));
            let first = first.map(|((offset, target), part)| (*offset, &mut target[..part]));
            self.inner.read_list(&mut first.collect::<Vec<_>>()).map(file_len)
        });
        count.map(memory_len)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        let places = places(pieces);
        let call = Call::list(Operation::WriteList, &places);
        let count = self.layer.pass(&call, &mut |most| {
            if most >= call.len {
                return self.inner.write_list(pieces).map(|()| call.len);
            }
            let first = pieces.iter().zip(parts(&places, most));
            let first = first.map(|((offset, source), part)| (*offset, &source[..part]));
            self.inner.write_list(&first.collect::<Vec<_>>()).map(|()| most)
        });
        count.and_then(|moved| call.written(moved))
    }

    fn size(&self) -> Result<u64> {
        self.layer.pass(&Call::whole_file(Operation::Size), &mut |_| self.inner.size())
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        let call = Call::new(Operation::SetSize, 0, bytes);
        pass(&*self.layer, &call, || self.inner.set_size(bytes))
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        let call = Call::new(Operation::Preallocate, 0, bytes);
        pass(&*self.layer, &call, || self.inner.preallocate(bytes))
    }

    fn sync(&self) -> Result<()> {
        pass(&*self.layer, &Call::whole_file(Operation::Sync), || self.inner.sync())
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        let call = Call::new(Operation::Lock, lock.offset, lock.len);
        let mut guard = None;
        let obtained = self.layer.pass(&call, &mut |_| {
            guard = self.inner.try_lock(lock)?;
            Ok(u64::from(guard.is_some()))
        });
        if obtained? == 0 {
            return Ok(None);
        }
        let layer = Arc::clone(&self.layer);
        Ok(Some(LockGuard::new(move || {
            let call = Call::new(Operation::Unlock, lock.offset, lock.len);
            pass(&*layer, &call, || guard.take().map_or(Ok(()), LockGuard::release))
        })))
    }

    fn close(&self) -> Result<()> {
        pass(&*self.layer, &Call::whole_file(Operation::Close), || self.inner.close())
    }
}

/// Lets a call pass that moves no bytes.
fn pass(layer: &dyn Layer, call: &Call<'_>, mut act: impl FnMut() -> Result<()>) -> Result<()> {
    layer.pass(call, &mut |_| act().map(|()| 0)).map(drop)
}

/// Where the pieces of a list are in the file.
fn places(pieces: &[(u64, impl AsRef<[u8]>)]) -> Vec<(u64, u64)> {
    pieces.iter().map(|(offset, piece)| (*offset, file_len(piece.as_ref().len()))).collect()
}

/// How much of each piece is among the first bytes of a list.
fn parts(pieces: &[(u64, u64)], first: u64) -> impl Iterator<Item = usize> {
    let mut left = first;
    pieces.iter().map(move |&(_, len)| {
        let part = len.min(left);
        left -= part;
        memory_len(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;

    const CREATE: OpenMode = OpenMode { read: true, write: true, create: true, exclusive: false };

    /// Lets the first bytes of each call pass; if there are none, not even an open.
    #[derive(Clone)]
    struct First(Memory, u64);

    impl Wrapper for First {
        fn inner(&self) -> &dyn Driver {
            &self.0
        }

        fn layer(&self, _path: &Path) -> Arc<dyn Layer> {
            Arc::new(self.clone())
        }
    }

    impl Layer for First {
        fn pass(&self, _call: &Call<'_>, proceed: &mut Proceed<'_>) -> Result<u64> {
            if self.1 == 0 { Ok(0) } else { proceed(self.1) }
        }
    }

    #[test]
    fn shortened_write_has_failed() {
        let memory = Memory::new();
        let file = First(memory.clone(), 2).open(Path::new("a"), CREATE).unwrap();
        assert_eq!(file.write_at(0, b"xyz").unwrap_err().moved(), 2);
        assert_eq!(file.write_list(&[(0, b"a"), (5, b"bc")]).unwrap_err().moved(), 2);
        assert_eq!(memory.contents("a").unwrap(), b"ay\0\0\0b");
    }

    #[test]
    fn shortened_read_is_short() {
        let memory = Memory::new();
        memory.put("a", b"abcd");
        let file = First(memory, 3).open(Path::new("a"), CREATE).unwrap();
        let (mut first, mut second) = ([0; 2], [0; 2]);
        assert_eq!(file.read_at(0, &mut [0; 4]).unwrap(), 3);
        assert_eq!(file.read_list(&mut [(0, &mut first), (2, &mut second)]).unwrap(), 3);
        assert_eq!((first, second), (*b"ab", *b"c\0"));
    }

    #[test]
    fn open_that_does_not_pass_is_an_error() {
        let outcome = First(Memory::new(), 0).open(Path::new("a"), CREATE);
        assert_eq!(outcome.err().unwrap().class(), ErrorClass::Other);
    }
}
