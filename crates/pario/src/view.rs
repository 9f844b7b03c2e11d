//! Views: what one rank sees of a file (MPI-4.1, section 14.3).

use crate::datatype::layout::Layout;
use crate::datatype::signature::Form;
use crate::datatype::{Datatype, Elementary, Order};
use crate::error::{Error, ErrorClass, Result};

/// How values are represented in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Representation {
    /// As in memory.
    #[default]
    Native,
    /// Portable between pario programs; here the same as in memory.
    Internal,
    /// Big-endian IEEE, as the MPI standard defines it: portable between all implementations.
    External32,
}

impl Representation {
    /// MPI's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Representation::Native => "native",
            Representation::Internal => "internal",
            Representation::External32 => "external32",
        }
    }

    pub(crate) fn form(self) -> Form {
        match self {
            Representation::Native | Representation::Internal => Form::Native,
            Representation::External32 => Form::External,
        }
    }
}

impl std::str::FromStr for Representation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Representation> {
        use Representation::*;
        let known = [Native, Internal, External32].into_iter().find(|one| one.name() == name);
        known.ok_or_else(|| {
            let text = format!("data representation {name:?}: use native, internal or external32");
            Error::new(ErrorClass::UnsupportedDatarep, text)
        })
    }
}

/// What one rank sees of a file: the bytes that its filetype, repeated from a displacement on,
/// covers.
///
/// ```
/// use pario::{Datatype, View};
/// // Rank 3 of 16 sees every 16th float, from the third on.
/// let float = Datatype::of::<f32>();
/// let every_16th = Datatype::resized(0, 64, &float)?;
/// let view = View::new(12, &float, &every_16th);
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct View {
    displacement: u64,
    etype: Datatype,
    filetype: Datatype,
    representation: Representation,
}

impl View {
    /// A view from `displacement` (in bytes) on, in the native representation. Positions in the
    /// file count etypes; the filetype is made of etypes.
    pub fn new(displacement: u64, etype: &Datatype, filetype: &Datatype) -> View {
        View {
            displacement,
            etype: etype.clone(),
            filetype: filetype.clone(),
            representation: Representation::Native,
        }
    }

    /// The whole file as bytes: the view of a file that has just been opened.
    pub fn bytes() -> View {
        View::new(0, &Datatype::byte(), &Datatype::byte())
    }

    /// The view of a rank that has a part of a global array, whose elements lie in the file in the
    /// order of their indices, the last one fastest.
    ///
    /// ```
    /// use pario::View;
    /// // Rows 10 to 19 and columns 0 to 49 of an array of 100 x 200 numbers.
    /// let view = View::subarray::<f64>(&[100, 200], &[10, 50], &[10, 0])?;
    /// # Ok::<(), pario::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Datatype::subarray`].
    pub fn subarray<T: Elementary>(
        sizes: &[u64],
        subsizes: &[u64],
        starts: &[u64],
    ) -> Result<View> {
        let element = Datatype::of::<T>();
        let filetype = Datatype::subarray(sizes, subsizes, starts, Order::C, &element)?;
        Ok(View::new(0, &element, &filetype))
    }

    /// The same view in another representation.
    pub fn with_representation(mut self, representation: Representation) -> View {
        self.representation = representation;
        self
    }

    /// Where the view begins, in bytes.
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The unit of positions.
    pub fn etype(&self) -> &Datatype {
        &self.etype
    }

    /// The pattern of visible bytes.
    pub fn filetype(&self) -> &Datatype {
        &self.filetype
    }

    /// How values are represented.
    pub fn representation(&self) -> Representation {
        self.representation
    }
}

/// A view that has been checked, ready for requests.
#[derive(Clone, Debug)]
pub(crate) struct CompiledView {
    pub(crate) view: View,
    /// All visible bytes: the filetype repeated as often as offsets fit in 63 bits.
    pub(crate) layout: Layout,
    /// Bytes of data of an etype in the file.
    pub(crate) etype_bytes: u64,
    /// Extent of an etype in the file, which all ranks have in common.
    pub(crate) etype_extent: i64,
    /// Bytes of data in one filetype; zero for a view that shows nothing.
    pub(crate) filetype_bytes: u64,
}

fn invalid(text: String) -> Error {
    Error::new(ErrorClass::Type, text)
}

impl CompiledView {
    /// Checks a view by the rules of the standard and compiles it.
    ///
    /// A filetype for writing must be sorted and free of overlap. For reading, ascending
    /// displacements are enough: such a view is served piece by piece. A filetype may be longer
    /// than its extent, as PnetCDF's are, which use it once: a write that reaches into a
    /// repetition that overlaps is refused then, not the view.
    pub(crate) fn new(view: &View, writable: bool) -> Result<CompiledView> {
        let form = view.representation.form();
        let (etype, filetype) = (view.etype.compiled(form)?, view.filetype.compiled(form)?);
        let etype_bytes = etype.layout.size();
        let filetype_bytes = filetype.layout.size();
        if etype_bytes == 0 {
            return Err(invalid("set_view: the etype has no data; use at least one byte".into()));
        }
        if filetype_bytes % etype_bytes != 0 {
            return Err(invalid(format!(
                "set_view: the filetype ({filetype_bytes} bytes of data) is not made of etypes \
                 ({etype_bytes} bytes)"
            )));
        }
        for (name, one) in [("etype", etype), ("filetype", filetype)] {
            if !one.layout.is_empty() && one.layout.lower() < 0 {
                let lower = one.layout.lower();
                return Err(invalid(format!(
                    "set_view: the {name} has a negative displacement ({lower})"
                )));
            }
            if !one.layout.is_ascending() {
                return Err(invalid(format!(
                    "set_view: the displacements of the {name} decrease; sort its blocks"
                )));
            }
            if writable && !one.layout.is_sorted() {
                return Err(invalid(format!(
                    "set_view: the {name} overlaps itself, which is allowed for reading only"
                )));
            }
        }
        let layout = tiled(&filetype.layout, filetype.extent(), view.displacement)?;
        let etype_extent = etype.extent();
        Ok(CompiledView { view: view.clone(), layout, etype_bytes, etype_extent, filetype_bytes })
    }
}

/// A filetype repeated from a displacement on, as often as offsets and positions fit.
fn tiled(filetype: &Layout, extent: i64, displacement: u64) -> Result<Layout> {
    let too_far = || invalid(format!("set_view: displacement {displacement} is beyond 2^63"));
    let displacement = i64::try_from(displacement).map_err(|_| too_far())?;
    if filetype.is_empty() {
        return Ok(Layout::empty());
    }
    let room = i64::MAX - displacement.checked_add(filetype.upper()).ok_or_else(too_far)?;
    let by_offset = match extent {
        ..=0 => 0,
        extent => (room / extent).cast_unsigned(),
    };
    let by_position = i64::MAX.cast_unsigned() / filetype.size() - 1;
    filetype.repeated(by_offset.min(by_position) + 1, extent)?.shifted(displacement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(filetype: &Datatype, writable: bool) -> Result<CompiledView> {
        CompiledView::new(&View::new(0, &Datatype::byte(), filetype), writable)
    }

    #[test]
    fn a_contiguous_view_is_one_block() {
        let view = compile(&Datatype::of::<f64>(), true).unwrap();
        assert!(view.layout.is_contiguous());
        assert!(view.layout.size() > 1 << 62);
    }

    #[test]
    fn a_resized_element_is_one_loop() {
        let view = compile(&Datatype::resized(0, 64, &Datatype::of::<f32>()).unwrap(), true);
        assert_eq!(view.unwrap().layout.depth(), 1);
    }

    #[test]
    fn the_rules_of_the_standard_are_checked() {
        let byte = Datatype::byte();
        let class = |result: Result<CompiledView>| result.unwrap_err().class();
        let list = |places: &[i64]| Datatype::hindexed_block(4, places, &byte).unwrap();
        assert_eq!(class(compile(&list(&[-4, 0]), false)), ErrorClass::Type);
        assert_eq!(class(compile(&list(&[8, 0]), false)), ErrorClass::Type);
        assert_eq!(class(compile(&list(&[0, 2]), true)), ErrorClass::Type);
        assert!(compile(&list(&[0, 2]), false).is_ok());
        let short = Datatype::resized(0, 4, &list(&[0, 8])).unwrap();
        assert!(compile(&short, true).is_ok_and(|view| !view.layout.is_sorted()));
        let view = View::new(0, &Datatype::of::<f64>(), &Datatype::of::<f32>());
        assert_eq!(class(CompiledView::new(&view, false)), ErrorClass::Type);
        let view = View::new(u64::MAX, &byte, &byte);
        assert_eq!(class(CompiledView::new(&view, false)), ErrorClass::Type);
    }

    #[test]
    fn an_unknown_representation_has_its_own_class() {
        let error = "native64".parse::<Representation>().unwrap_err();
        assert_eq!(error.class(), ErrorClass::UnsupportedDatarep);
    }
}
