//! Datatypes as MPI defines them (MPI-4.1, chapter 5), compiled to a compact normal form.
//!
//! | file | concept |
//! | --- | --- |
//! | `construct` | MPI's constructors, each a few lines over the normal form |
//! | `layout` | the normal form: loops, sequences, blocks; what can be asked of it |
//! | `cursor` | walking a layout, a strided chunk at a time |
//! | `slice`, `disjoint` | parts of layouts; whether two share a byte |
//! | `copy` | copying between two layouts |
//! | `wire` | layouts as bytes for other ranks |
//! | `loops` | the normal form as public data, for other libraries |
//! | `element`, `signature` | elementary types and their `external32` form |

use std::sync::Arc;

use crate::error::{Error, ErrorClass, Result};
use crate::number::{narrow, wide};

mod construct;
pub(crate) mod copy;
pub(crate) mod cursor;
pub(crate) mod disjoint;
mod element;
pub(crate) mod layout;
mod list;
mod loops;
pub(crate) mod signature;
mod slice;
pub(crate) mod wire;

pub use construct::{Darray, DarrayDimension, Distribution, Field, Order};
pub use element::Element;
#[doc(hidden)]
pub use loops::Loops;

use copy::copy_slices;
use cursor::Runs;
use layout::Layout;
use signature::{Form, Signature};

/// Where the bytes of a value lie: in memory, or in a file.
///
/// Cheap to clone. Counts and displacements are 64 bits wide; what does not fit is an error of
/// class [`ErrorClass::Type`], never a wrap.
///
/// ```
/// use pario::Datatype;
/// // Every 16th float, a thousand million of them: a few numbers, whatever the count.
/// let column = Datatype::vector(1_000_000_000, 1, 16, &Datatype::of::<f32>())?;
/// assert_eq!(column.size(), 4_000_000_000);
/// assert_eq!(column.offset_of(4_000), Some(64_000));
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Datatype {
    compiled: Arc<Both>,
}

#[derive(Debug)]
struct Both {
    native: Compiled,
    /// The type in `external32`, where its sizes differ from the native ones; an error if it is
    /// too large there, or has no form there.
    external: Option<Result<Compiled>>,
    signature: Signature,
}

/// A datatype in one representation.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) layout: Layout,
    /// Lower and upper bound; their distance is the extent.
    pub(crate) lower: i64,
    pub(crate) upper: i64,
    /// Whether data or a resize decides the bounds; otherwise they are 0 and count for nothing.
    bounded: bool,
    /// The largest alignment of an element inside.
    alignment: u64,
}

impl Compiled {
    pub(crate) fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    /// `count` values one extent apart.
    pub(crate) fn tiled(&self, count: u64) -> Result<Layout> {
        self.layout.repeated(count, self.extent())
    }
}

/// A type of Rust whose values can be read and written.
pub trait Elementary: bytemuck::Pod + Send + Sync {
    /// The elementary datatype of its values.
    const ELEMENT: Element;
}

macro_rules! elementary {
    ($($rust:ty => $element:ident),* $(,)?) => {
        $(impl Elementary for $rust { const ELEMENT: Element = Element::$element; })*
    };
}
elementary! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
    f32 => F32, f64 => F64,
}

impl Datatype {
    /// The datatype of a type of Rust.
    pub fn of<T: Elementary>() -> Datatype {
        Datatype::element(T::ELEMENT)
    }

    /// A single byte.
    pub fn byte() -> Datatype {
        Datatype::element(Element::Byte)
    }

    /// Bytes of data.
    pub fn size(&self) -> u64 {
        self.compiled.native.layout.size()
    }

    /// Distance from the lower to the upper bound: how far apart consecutive values are.
    pub fn extent(&self) -> i64 {
        self.compiled.native.extent()
    }

    /// Lower bound.
    pub fn lower_bound(&self) -> i64 {
        self.compiled.native.lower
    }

    /// Upper bound.
    pub fn upper_bound(&self) -> i64 {
        self.compiled.native.upper
    }

    /// Lowest offset of a data byte, whatever the bounds say.
    pub fn true_lower_bound(&self) -> i64 {
        self.compiled.native.layout.lower()
    }

    /// Reach of the data bytes, whatever the bounds say.
    pub fn true_extent(&self) -> i64 {
        self.compiled.native.layout.upper() - self.true_lower_bound()
    }

    /// Bytes of data in the `external32` representation.
    pub fn external_size(&self) -> u64 {
        self.compiled.signature.bytes(Form::External)
    }

    /// Extent in the `external32` representation.
    ///
    /// # Errors
    /// `Type` if the type is too large in it, `UnsupportedDatarep` if it has no form there.
    pub fn external_extent(&self) -> Result<i64> {
        Ok(self.compiled(Form::External)?.extent())
    }

    /// Offset of data byte `byte`, or `None` after the last.
    pub fn offset_of(&self, byte: u64) -> Option<i64> {
        let layout = &self.compiled.native.layout;
        (byte < layout.size()).then(|| layout.offset_of(byte))
    }

    /// Number of data bytes at offsets below `offset`: where a file offset is in the data.
    /// `None` for types whose bytes are not in the order of their offsets.
    pub fn bytes_below(&self, offset: i64) -> Option<u64> {
        let layout = &self.compiled.native.layout;
        layout.is_sorted().then(|| layout.bytes_below(offset))
    }

    /// The contiguous runs in data order, as (offset, length).
    pub fn runs(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        Runs::new(&self.compiled.native.layout, 0..self.size())
    }

    /// Number of contiguous pieces; an upper bound where pieces of neighbouring parts touch.
    pub fn pieces(&self) -> u64 {
        self.compiled.native.layout.pieces()
    }

    /// Share of the reach that is data, from 0 to 1.
    pub fn density(&self) -> f64 {
        match self.true_extent() {
            0 => 1.0,
            reach => self.size() as f64 / reach as f64,
        }
    }

    /// A number that equal datatypes share and different ones almost never do.
    pub fn fingerprint(&self) -> u64 {
        let native = &self.compiled.native;
        native.layout.fingerprint()
            ^ native.lower.rotate_left(17).cast_unsigned()
            ^ native.upper.rotate_left(43).cast_unsigned()
    }

    /// Packs `count` values; `origin` is the index in `source` of offset 0.
    ///
    /// # Errors
    /// `Count` if a value lies outside `source`, `Type` if the size overflows.
    pub fn pack(&self, count: u64, source: &[u8], origin: usize) -> Result<Vec<u8>> {
        let layout = self.placed(count, source.len(), origin)?;
        let packed = Layout::block(0, layout.size())?;
        let mut target = vec![0; narrow(layout.size())];
        copy_slices((&mut target, &packed, 0), (source, &layout, 0), layout.size());
        Ok(target)
    }

    /// Unpacks `count` values; `origin` is the index in `target` of offset 0. Bytes of `target`
    /// between the data stay as they are.
    ///
    /// # Errors
    /// `Count` if a value lies outside `target` or `packed` has another size than the data,
    /// `Type` if the size overflows.
    pub fn unpack(
        &self,
        count: u64,
        packed: &[u8],
        target: &mut [u8],
        origin: usize,
    ) -> Result<()> {
        let layout = self.placed(count, target.len(), origin)?;
        if layout.size() != wide(packed.len()) {
            let text = format!("{} packed bytes for {} bytes of data", packed.len(), layout.size());
            return Err(Error::new(ErrorClass::Count, text));
        }
        let source = Layout::block(0, layout.size())?;
        copy_slices((target, &layout, 0), (packed, &source, 0), layout.size());
        Ok(())
    }

    /// The layout of `count` values in a slice, whose index `origin` is offset 0.
    fn placed(&self, count: u64, len: usize, origin: usize) -> Result<Layout> {
        let origin = i64::try_from(origin).unwrap_or(i64::MAX);
        let layout = self.compiled.native.tiled(count)?.shifted(origin)?;
        let inside = layout.lower() >= 0 && layout.upper() <= wide(len).cast_signed();
        if !layout.is_empty() && !inside {
            let reach = format!("{}..{}", layout.lower(), layout.upper());
            let text = format!("the datatype touches bytes {reach} of a buffer of {len} bytes");
            return Err(Error::new(ErrorClass::Count, text));
        }
        Ok(layout)
    }

    /// The type in a representation.
    pub(crate) fn compiled(&self, form: Form) -> Result<&Compiled> {
        match (form, &self.compiled.external) {
            (Form::External, Some(external)) => external.as_ref().map_err(Clone::clone),
            _ => Ok(&self.compiled.native),
        }
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.compiled.signature
    }
}
