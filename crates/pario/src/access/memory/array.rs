//! Arrays of the crate `ndarray` as memory, and their slices as views (feature `ndarray`).
//!
//! An array in memory is a nest of loops, one for each axis, whatever its strides; so is a slice
//! of a global array in the file. Data goes in the order of the indices, the last one fastest, on
//! both sides.
//!
//! Unsafe: an array names its elements by address and strides. They are borrowed as long as the
//! [`Source`] or [`Target`] that is made of them.

use ndarray::{ArrayBase, Data, DataMut, Dimension, SliceInfoElem};

use super::{Source, Target};
use crate::datatype::{Datatype, Elementary};
use crate::error::{Error, ErrorClass, Result};
use crate::number::wide;
use crate::view::View;

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::Arg, text)
}

/// A nest of loops over elements, from the outermost axis to the innermost: how often, and how
/// many elements apart.
fn nested<T: Elementary>(axes: &[(u64, i64)]) -> Result<Datatype> {
    let element = T::ELEMENT.size().cast_signed();
    axes.iter().rev().try_fold(Datatype::of::<T>(), |inner, &(count, stride)| {
        let overflow = || invalid("an array reaches beyond 2^63 bytes");
        let stride = stride.checked_mul(element).ok_or_else(overflow)?;
        Datatype::hvector(count, 1, stride, &inner)
    })
}

/// The elements of an array, relative to its first one.
fn in_memory<T: Elementary>(shape: &[usize], strides: &[isize]) -> Result<Datatype> {
    let stride = |&stride: &isize| i64::try_from(stride).unwrap_or(i64::MAX);
    let axes: Vec<(u64, i64)> =
        shape.iter().map(|&count| wide(count)).zip(strides.iter().map(stride)).collect();
    nested::<T>(&axes)
}

impl<'a> Source<'a> {
    /// The elements of an array or of a slice of one, such as a field without its halo.
    ///
    /// ```
    /// use ndarray::{Array2, s};
    /// use pario::{File, Solo, Source, Target, View};
    /// # fn main() -> pario::Result<()> {
    /// let comm = Solo::new();
    /// let file =
    ///     File::options().read(true).write(true).create(true).open(&*comm, "memory:array")?;
    /// // This rank has columns 2 and 3 of a global array of 4 x 8, with a halo of one.
    /// let field = Array2::<f64>::from_elem((6, 4), 1.5);
    /// file.set_view(&View::of_slice::<f64>(&[4, 8], s![.., 2..4])?)?;
    /// file.write_all(0, Source::of_array(&field.slice(s![1..-1, 1..-1]))?)?;
    ///
    /// let mut columns = Array2::<f64>::zeros((4, 2));
    /// file.read_all(0, Target::of_array(&mut columns)?)?;
    /// assert_eq!(columns, Array2::from_elem((4, 2), 1.5));
    /// # file.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Type` if sizes overflow.
    pub fn of_array<T, S, D>(array: &'a ArrayBase<S, D>) -> Result<Source<'a>>
    where
        T: Elementary,
        S: Data<Elem = T>,
        D: Dimension,
    {
        let datatype = in_memory::<T>(array.shape(), array.strides())?;
        // SAFETY: the datatype names the elements of the array, which is borrowed for `'a`.
        unsafe { Source::from_raw(array.as_ptr().cast(), 1, &datatype) }
    }
}

impl<'a> Target<'a> {
    /// The elements of an array or of a slice of one; see [`Source::of_array`] for an example.
    ///
    /// # Errors
    /// `Type` if sizes overflow.
    pub fn of_array<T, S, D>(array: &'a mut ArrayBase<S, D>) -> Result<Target<'a>>
    where
        T: Elementary,
        S: DataMut<Elem = T>,
        D: Dimension,
    {
        let datatype = in_memory::<T>(array.shape(), array.strides())?;
        // SAFETY: as above; the array is borrowed exclusively, and has each element once.
        unsafe { Target::from_raw(array.as_mut_ptr().cast(), 1, &datatype) }
    }
}

impl View {
    /// The view of a rank that has a slice of a global array, whose elements lie in the file in
    /// the order of their indices, the last one fastest. See [`Source::of_array`] for an example.
    ///
    /// # Errors
    /// `Arg` if the slice has another number of axes than the array, leaves it, or goes backwards;
    /// `Type` if sizes overflow.
    pub fn of_slice<T: Elementary>(
        shape: &[usize],
        slice: impl AsRef<[SliceInfoElem]>,
    ) -> Result<View> {
        let axes: Vec<SliceInfoElem> =
            slice.as_ref().iter().copied().filter(|axis| !axis.is_new_axis()).collect();
        if axes.len() != shape.len() {
            let text = format!("a slice of {} axes of an array of {}", axes.len(), shape.len());
            return Err(invalid(text));
        }
        let overflow = || invalid("an array reaches beyond 2^63 bytes");
        let (mut loops, mut first, mut stride) = (Vec::new(), 0i64, 1i64);
        for (&len, &axis) in shape.iter().zip(&axes).rev() {
            let (start, count, step) = indices(len, axis)?;
            let at = start.checked_mul(stride).and_then(|at| first.checked_add(at));
            first = at.ok_or_else(overflow)?;
            loops.push((count, step.checked_mul(stride).ok_or_else(overflow)?));
            let len = i64::try_from(len).map_err(|_| overflow())?;
            stride = stride.checked_mul(len).ok_or_else(overflow)?;
        }
        loops.reverse();
        let element = T::ELEMENT.size().cast_signed();
        let bytes = |elements: i64| elements.checked_mul(element).ok_or_else(overflow);
        let placed = Datatype::hindexed(&[1], &[bytes(first)?], &nested::<T>(&loops)?)?;
        let filetype = Datatype::resized(0, bytes(stride)?, &placed)?;
        Ok(View::new(0, &Datatype::of::<T>(), &filetype))
    }
}

/// The first index of an axis, how many there are, and how far apart.
fn indices(len: usize, axis: SliceInfoElem) -> Result<(i64, u64, i64)> {
    let outside = || invalid(format!("a slice leaves an axis of {len} elements"));
    let whole = isize::try_from(len).map_err(|_| outside())?;
    let from_end = |index: isize| if index < 0 { index + whole } else { index };
    let (start, end, step) = match axis {
        SliceInfoElem::Slice { start, end, step } => {
            (from_end(start), end.map_or(whole, from_end), step)
        }
        SliceInfoElem::Index(index) => (from_end(index), from_end(index) + 1, 1),
        SliceInfoElem::NewAxis => (0, 1, 1),
    };
    if start < 0 || end > whole || end < start {
        return Err(outside());
    }
    if step < 1 {
        let text = "a view goes forward: reverse the axis of the array in memory instead";
        return Err(invalid(text));
    }
    let count = (end - start).unsigned_abs().div_ceil(step.unsigned_abs());
    let signed = |value: isize| i64::try_from(value).map_err(|_| outside());
    Ok((signed(start)?, wide(count), signed(step)?))
}

#[cfg(test)]
mod tests {
    use ndarray::{Array3, Axis, s};

    use super::*;
    use crate::{File, Solo};

    /// Writes a slice of an array through a view of a slice of a global one; returns the file.
    fn written(view: &View, source: Source<'_>, name: &str) -> Vec<i32> {
        let comm = Solo::new();
        let options = File::options().read(true).write(true).create(true);
        let file = options.open(&*comm, name).unwrap();
        file.set_size(4 * 4 * 5 * 6).unwrap();
        file.set_view(view).unwrap();
        file.write(0, source).unwrap();
        file.set_view(&View::bytes()).unwrap();
        let mut all = vec![-1; 4 * 5 * 6];
        file.read(0, &mut all).unwrap();
        all
    }

    #[test]
    fn a_slice_of_an_array_goes_to_a_slice_of_the_file() {
        let memory = Array3::from_shape_fn((7, 9, 8), |(x, y, z)| (100 * x + 10 * y + z) as i32);
        let mut transposed = memory.view();
        transposed.swap_axes(0, 2);
        transposed.invert_axis(Axis(1));
        let part = transposed.slice(s![1..4, 2..8;3, -3..]);
        let slice = s![1.., 1..5;3, ..3];
        let view = View::of_slice::<i32>(&[4, 5, 6], slice).unwrap();
        let found = written(&view, Source::of_array(&part).unwrap(), "memory:a_slice_of_an_array");
        let mut expected = Array3::<i32>::zeros((4, 5, 6));
        expected.slice_mut(slice).assign(&part);
        assert_eq!(found, expected.into_raw_vec_and_offset().0);
    }

    #[test]
    fn an_index_is_a_slice_of_one() {
        let plane = ndarray::Array2::from_shape_fn((4, 6), |(x, z)| (1 + 10 * x + z) as i32);
        let view = View::of_slice::<i32>(&[4, 5, 6], s![.., 2, ..]).unwrap();
        let found = written(&view, Source::of_array(&plane).unwrap(), "memory:an_index_is");
        let mut expected = Array3::<i32>::zeros((4, 5, 6));
        expected.slice_mut(s![.., 2, ..]).assign(&plane);
        assert_eq!(found, expected.into_raw_vec_and_offset().0);
    }

    #[test]
    fn a_slice_that_does_not_fit_is_refused() {
        let class = |view: Result<View>| view.unwrap_err().class();
        assert_eq!(class(View::of_slice::<u8>(&[4, 4], s![..])), ErrorClass::Arg);
        assert_eq!(class(View::of_slice::<u8>(&[4], s![2..5])), ErrorClass::Arg);
        assert_eq!(class(View::of_slice::<u8>(&[4], s![..;-1])), ErrorClass::Arg);
        assert_eq!(class(View::of_slice::<u8>(&[4], s![7])), ErrorClass::Arg);
        assert_eq!(class(View::of_slice::<u8>(&[usize::MAX, 9], s![.., ..])), ErrorClass::Arg);
    }
}
