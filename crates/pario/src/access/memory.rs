//! The memory side of a request: the user's buffer and where its data lies.
//!
//! Unsafe: a [`Buffer`] names memory by address, because C programs do, and the data of a
//! non-blocking call moves with it. What keeps it sound, and must be kept by all code in this
//! crate:
//!
//! 1. A buffer is used only while the [`Source`] or [`Target`] that it came from borrows the
//!    user's slice, and only by the call at hand: no other rank ever touches it. Bytes of a source
//!    are only read.
//! 2. For slots of shared memory, the rule of `shared` holds.
#![allow(unsafe_code)]

#[cfg(feature = "ndarray")]
mod array;
mod record;
mod shared;
mod turns;

use std::marker::PhantomData;
use std::ops::Range;

use crate::access::Access;
use crate::datatype::copy::{Side, Span, Stores, copy};
use crate::datatype::layout::{Layout, PACKED};
use crate::datatype::signature::{Form, Signature};
use crate::datatype::{Datatype, Elementary};
use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};

pub use record::{Record, Records, of_fields};
pub(crate) use shared::Slot;
pub(crate) use turns::Turns;

/// From this number of bytes on, reads use non-temporal stores: their beginning would not stay in
/// the cache to the end. So do writes to shared windows, whose lines other cores have just used.
const STREAMED_BYTES_MIN: u64 = 1 << 20;

/// Memory with data in it: an address, its bounds and a layout.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    span: Span,
    layout: Layout,
    signature: Signature,
}

/// How the bytes of a request lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InMemory {
    /// Whether they come in the same order as in the file, gaps aside.
    pub in_order: bool,
    /// Mean length of the contiguous pieces; the greatest number if there is only one.
    pub piece_bytes: u64,
}

impl InMemory {
    /// In one piece.
    pub const CONTIGUOUS: InMemory = InMemory { in_order: true, piece_bytes: u64::MAX };

    /// As values of a datatype.
    ///
    /// # Errors
    /// `Type` if their offsets overflow.
    pub fn of(datatype: &Datatype, count: u64) -> Result<InMemory> {
        Ok(InMemory::of_layout(&datatype.compiled(Form::Native)?.tiled(count)?))
    }

    fn of_layout(layout: &Layout) -> InMemory {
        let piece_bytes = (layout.size() / layout.pieces().max(1)).max(1);
        InMemory { in_order: layout.is_ascending(), piece_bytes }
    }
}

impl Buffer {
    fn new(span: Span, count: u64, datatype: &Datatype) -> Result<Buffer> {
        let layout = datatype.compiled(Form::Native)?.tiled(count)?;
        if !span.holds(&layout) {
            let text = format!(
                "{count} values of the datatype touch bytes {}..{}, outside the buffer",
                layout.lower(),
                layout.upper()
            );
            return Err(Error::new(ErrorClass::Count, text));
        }
        Ok(Buffer { span, layout, signature: datatype.signature().repeated(count) })
    }

    /// No data.
    pub(crate) fn nothing() -> Buffer {
        let layout = Layout::empty();
        Buffer { span: Span::of(&[]), layout, signature: Signature::empty() }
    }

    /// The memory of bytes, to be read or written as they are.
    pub(crate) fn of_bytes(bytes: &mut [u8]) -> Buffer {
        let len = bytes.len();
        plain::<u8>(Span::of_mut(bytes), len)
    }

    /// Bytes of data.
    pub(crate) fn len(&self) -> u64 {
        self.layout.size()
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.signature
    }

    /// How the data lies in memory.
    pub(crate) fn in_memory(&self) -> InMemory {
        InMemory::of_layout(&self.layout)
    }

    /// Whether all data is one run of memory.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// The data at some positions, if it is contiguous.
    pub(crate) fn contiguous(&self, positions: &Range<u64>) -> Option<&[u8]> {
        let offset = self.contiguous_at(positions)?;
        // SAFETY: rule 1 of this module; the span checks its bounds.
        Some(unsafe { self.span.bytes(offset, narrow(positions.end - positions.start)) })
    }

    /// The data at some positions, if it is contiguous, for writing.
    #[expect(clippy::mut_from_ref, reason = "a buffer names memory, as a cell does: rule 1")]
    pub(crate) fn contiguous_mut(&self, positions: &Range<u64>) -> Option<&mut [u8]> {
        let offset = self.contiguous_at(positions)?;
        // SAFETY: rule 1 of this module; the span checks its bounds.
        Some(unsafe { self.span.bytes_mut(offset, narrow(positions.end - positions.start)) })
    }

    fn contiguous_at(&self, positions: &Range<u64>) -> Option<i64> {
        if positions.is_empty() {
            return None;
        }
        let first = self.layout.offset_of(positions.start);
        let contiguous = self.layout.is_contiguous() || {
            let mut cursor = crate::datatype::cursor::Cursor::new(&self.layout, positions.clone());
            let mut end = first;
            while let Some(chunk) = cursor.chunk() {
                if chunk.offset != end || chunk.count > 1 && chunk.stride != chunk.len.cast_signed()
                {
                    return None;
                }
                end += chunk.bytes().cast_signed();
                cursor.advance(chunk.bytes());
            }
            true
        };
        contiguous.then_some(first)
    }

    /// Copies the data at some positions to consecutive bytes.
    pub(crate) fn pack(&self, positions: &Range<u64>, target: &mut [u8]) {
        self.pack_by(positions, target, Stores::Cached);
    }

    fn pack_by(&self, positions: &Range<u64>, target: &mut [u8], stores: Stores) {
        let len = positions.end - positions.start;
        let target = Side { span: Span::of_mut(target), layout: &PACKED, position: 0 };
        // SAFETY: rule 1 of this module; `target` is borrowed exclusively.
        unsafe { copy(target, self.side(positions.start), len, stores) }
    }

    /// Copies consecutive bytes to the data at some positions.
    pub(crate) fn unpack(&self, positions: &Range<u64>, source: &[u8]) {
        let len = positions.end - positions.start;
        let source = Side { span: Span::of(source), layout: &PACKED, position: 0 };
        // SAFETY: rule 1 of this module; `source` is borrowed.
        unsafe { copy(self.side(positions.start), source, len, self.stores()) }
    }

    /// Copies the data at some positions to their places in a window of the file.
    pub(crate) fn fill(&self, window: &mut FileWindow<'_>, parcel: Parcel<'_>) {
        // SAFETY: rule 1 of this module; the window is borrowed exclusively.
        unsafe { self.copy_to(&Span::of_mut(window.bytes), window.offset, &parcel, Stores::Cached) }
    }

    /// Copies from a window of the file to the data at some positions.
    pub(crate) fn take(&self, window: &FileWindow<'_>, parcel: Parcel<'_>) {
        // SAFETY: rule 1 of this module; the window is borrowed.
        unsafe { self.copy_from(&Span::of(window.bytes), window.offset, &parcel) }
    }

    /// Copies the data of a parcel to its place in memory that begins at a file offset.
    ///
    /// # Safety
    /// As `copy`, for the bytes of the parcel on both sides.
    unsafe fn copy_to(&self, window: &Span, offset: u64, parcel: &Parcel<'_>, stores: Stores) {
        let span = window.based_at(offset.cast_signed());
        let (layout, data) = parcel.access.place(parcel.positions.start);
        let target = Side { span, layout, position: data };
        // SAFETY: passed on from the caller.
        unsafe { copy(target, self.side(parcel.positions.start), parcel.len(), stores) }
    }

    /// Copies the data of a parcel from its place in such memory.
    ///
    /// # Safety
    /// As `copy`, for the bytes of the parcel on both sides.
    unsafe fn copy_from(&self, window: &Span, offset: u64, parcel: &Parcel<'_>) {
        let span = window.based_at(offset.cast_signed());
        let (layout, data) = parcel.access.place(parcel.positions.start);
        let source = Side { span, layout, position: data };
        // SAFETY: passed on from the caller.
        unsafe { copy(self.side(parcel.positions.start), source, parcel.len(), self.stores()) }
    }

    /// How the bytes of this buffer are stored where they do not stay in the cache of a core.
    fn stores(&self) -> Stores {
        match self.len() >= STREAMED_BYTES_MIN {
            true => Stores::Streamed,
            false => Stores::Cached,
        }
    }

    fn side(&self, position: u64) -> Side<'_> {
        Side { span: self.span.clone(), layout: &self.layout, position }
    }
}

/// Some bytes of the file in memory.
pub(crate) struct FileWindow<'a> {
    /// File offset of the first byte.
    pub(crate) offset: u64,
    pub(crate) bytes: &'a mut [u8],
}

/// Some positions of one rank's request, with where they lie in the file.
#[derive(Clone)]
pub(crate) struct Parcel<'a> {
    pub(crate) access: &'a Access,
    pub(crate) positions: Range<u64>,
}

impl<'a> Parcel<'a> {
    /// As much of it as lies before an offset, where the file ends: the first of its positions.
    pub(crate) fn before(self, end: u64) -> Parcel<'a> {
        let there = self.access.within(&(0..end)).end.max(self.positions.start);
        Parcel { positions: self.positions.start..there.min(self.positions.end), ..self }
    }

    pub(crate) fn len(&self) -> u64 {
        self.positions.end - self.positions.start
    }

    /// Its contiguous pieces of the file, if all are as long as the mean.
    pub(crate) fn pieces(&self) -> u64 {
        self.len().div_ceil(self.access.piece_bytes())
    }
}

/// Data to write: a slice of numbers, or bytes with a datatype.
#[derive(Debug)]
pub struct Source<'a> {
    pub(crate) buffer: Buffer,
    lifetime: PhantomData<&'a [u8]>,
}

/// Room for data to read: a slice of numbers, or bytes with a datatype.
#[derive(Debug)]
pub struct Target<'a> {
    pub(crate) buffer: Buffer,
    lifetime: PhantomData<&'a mut [u8]>,
}

fn plain<T: Elementary>(span: Span, len: usize) -> Buffer {
    // The length fits, since it is that of a slice.
    let layout = Layout::block(0, wide(len * size_of::<T>())).unwrap_or_else(|_| Layout::empty());
    Buffer { span, layout, signature: Signature::element(T::ELEMENT).repeated(wide(len)) }
}

/// The span of a slice in which the element of index `origin` is offset 0.
fn span_at<T: Elementary>(span: &Span, origin: usize) -> Result<Span> {
    let bytes = wide(origin).checked_mul(T::ELEMENT.size());
    let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok()).ok_or_else(|| {
        let text = format!("origin {origin} is far outside any buffer");
        Error::new(ErrorClass::Count, text)
    })?;
    Ok(span.based_at(-bytes))
}

impl<'a> Source<'a> {
    /// `count` values of a datatype in a slice; offset 0 of the datatype is `slice[origin]`.
    ///
    /// ```
    /// # fn run() -> pario::Result<()> {
    /// use pario::{Datatype, File, Order, Solo, Source};
    /// // A field of 6 x 6 numbers with a halo of one on each side; its 4 x 4 numbers are written.
    /// let field = vec![1.5f64; 36];
    /// let number = Datatype::of::<f64>();
    /// let inner = Datatype::subarray(&[6, 6], &[4, 4], &[1, 1], Order::C, &number)?;
    /// let comm = Solo::new();
    /// let file = File::options().write(true).create(true).open(&*comm, "memory:field")?;
    /// assert_eq!(file.write(0, Source::typed(&field, 0, 1, &inner)?)?.count::<f64>(), 16);
    /// # file.close()
    /// # }
    /// # run().unwrap();
    /// ```
    ///
    /// # Errors
    /// `Count` if a value lies outside the slice, `Type` if sizes overflow.
    pub fn typed<T: Elementary>(
        slice: &'a [T],
        origin: usize,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Source<'a>> {
        let span = span_at::<T>(&Span::of(bytemuck::cast_slice(slice)), origin)?;
        Ok(Source { buffer: Buffer::new(span, count, datatype)?, lifetime: PhantomData })
    }
}

impl<'a> Target<'a> {
    /// `count` values of a datatype in a slice; offset 0 of the datatype is `slice[origin]`.
    /// See [`Source::typed`] for an example.
    ///
    /// # Errors
    /// `Count` if a value lies outside the slice, `Type` if sizes overflow.
    pub fn typed<T: Elementary>(
        slice: &'a mut [T],
        origin: usize,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Target<'a>> {
        let span = span_at::<T>(&Span::of_mut(bytemuck::cast_slice_mut(slice)), origin)?;
        Ok(Target { buffer: Buffer::new(span, count, datatype)?, lifetime: PhantomData })
    }
}

impl Source<'_> {
    /// `count` values of a datatype around an address, for callers that have no slices, such as
    /// C programs.
    ///
    /// # Safety
    /// Every byte that the values name is alive and not written for the lifetime that is chosen.
    ///
    /// # Errors
    /// `Type` if sizes overflow.
    pub unsafe fn from_raw<'a>(
        origin: *const u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Source<'a>> {
        let span = Span::at(origin.cast_mut(), i64::MIN..i64::MAX);
        Ok(Source { buffer: Buffer::new(span, count, datatype)?, lifetime: PhantomData })
    }
}

impl Target<'_> {
    /// `count` values of a datatype around an address, for callers that have no slices, such as
    /// C programs.
    ///
    /// # Safety
    /// Every byte that the values name is alive, and nobody else touches it for the lifetime that
    /// is chosen.
    ///
    /// # Errors
    /// `Type` if sizes overflow.
    pub unsafe fn from_raw<'a>(
        origin: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Target<'a>> {
        let span = Span::at(origin, i64::MIN..i64::MAX);
        Ok(Target { buffer: Buffer::new(span, count, datatype)?, lifetime: PhantomData })
    }
}

impl<'a, T: Elementary> From<&'a [T]> for Source<'a> {
    fn from(slice: &'a [T]) -> Source<'a> {
        let span = Span::of(bytemuck::cast_slice(slice));
        Source { buffer: plain::<T>(span, slice.len()), lifetime: PhantomData }
    }
}

impl<'a, T: Elementary> From<&'a Vec<T>> for Source<'a> {
    fn from(slice: &'a Vec<T>) -> Source<'a> {
        Source::from(slice.as_slice())
    }
}

impl<'a, T: Elementary, const LEN: usize> From<&'a [T; LEN]> for Source<'a> {
    fn from(slice: &'a [T; LEN]) -> Source<'a> {
        Source::from(slice.as_slice())
    }
}

impl<'a, T: Elementary> From<&'a mut [T]> for Target<'a> {
    fn from(slice: &'a mut [T]) -> Target<'a> {
        let len = slice.len();
        let span = Span::of_mut(bytemuck::cast_slice_mut(slice));
        Target { buffer: plain::<T>(span, len), lifetime: PhantomData }
    }
}

impl<'a, T: Elementary> From<&'a mut Vec<T>> for Target<'a> {
    fn from(slice: &'a mut Vec<T>) -> Target<'a> {
        Target::from(slice.as_mut_slice())
    }
}

impl<'a, T: Elementary, const LEN: usize> From<&'a mut [T; LEN]> for Target<'a> {
    fn from(slice: &'a mut [T; LEN]) -> Target<'a> {
        Target::from(slice.as_mut_slice())
    }
}

/// A buffer that a non-blocking call takes and gives back at its end.
pub trait OwnedBuffer: Send + 'static {
    /// The data to write.
    ///
    /// # Errors
    /// As [`Source::typed`].
    fn source(&self) -> Result<Source<'_>>;

    /// The room to read into.
    ///
    /// # Errors
    /// As [`Target::typed`].
    fn target(&mut self) -> Result<Target<'_>>;
}

impl<T: Elementary> OwnedBuffer for Vec<T> {
    fn source(&self) -> Result<Source<'_>> {
        Ok(Source::from(self))
    }

    fn target(&mut self) -> Result<Target<'_>> {
        Ok(Target::from(self))
    }
}

/// Memory with a datatype, for non-blocking calls; see [`Source::typed`].
#[derive(Clone, Debug)]
pub struct Typed<T = u8> {
    /// The memory.
    pub values: Vec<T>,
    /// Index of the datatype's offset 0.
    pub origin: usize,
    /// Number of values.
    pub count: u64,
    /// Their type.
    pub datatype: Datatype,
}

impl<T: Elementary> OwnedBuffer for Typed<T> {
    fn source(&self) -> Result<Source<'_>> {
        Source::typed(&self.values, self.origin, self.count, &self.datatype)
    }

    fn target(&mut self) -> Result<Target<'_>> {
        Target::typed(&mut self.values, self.origin, self.count, &self.datatype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datatype_that_leaves_the_buffer_is_refused() {
        let ints = Datatype::vector(3, 1, 2, &Datatype::of::<i32>()).unwrap();
        let error = Source::typed(&[0u8; 19], 0, 1, &ints).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Count);
        assert!(Source::typed(&[0u8; 20], 0, 1, &ints).is_ok());
        let before = Datatype::hindexed(&[1], &[-8], &Datatype::of::<i32>()).unwrap();
        assert!(Source::typed(&[0u8; 20], 4, 1, &before).is_err());
        assert!(Source::typed(&[0u8; 20], 8, 1, &before).is_ok());
    }

    #[test]
    fn contiguous_stretches_are_found() {
        let ints = Datatype::vector(3, 2, 4, &Datatype::of::<i32>()).unwrap();
        let bytes: Vec<u8> = (0..40).collect();
        let source = Source::typed(&bytes, 0, 1, &ints).unwrap();
        let stretch = |positions| source.buffer.contiguous(&positions);
        assert_eq!(stretch(9..16).unwrap(), &bytes[17..24]);
        assert!(stretch(6..9).is_none());
    }
}
