//! Which elementary types a stream of data consists of, and their conversion to `external32`.
//!
//! A signature is as compact as a layout: repetitions are counted, not listed. Only conversions
//! need it; data in the native representation never looks at it. As layouts, signatures are no
//! deeper than [`DEPTH_MAX`].

use std::ops::Range;
use std::sync::Arc;

use super::element::Element;
use super::layout::{DEPTH_MAX, FLAT_MAX, too_deep};
use crate::error::Result;
use crate::number::narrow;

/// The elementary types of a stream of data, in order, with what is known about them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    shape: Shape,
    /// Bytes in each representation; they fit, since they fit for the layout.
    native: u64,
    external: u64,
    /// Whether every element has a form in `external32`.
    converts: bool,
    depth: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Repeat { count: u64, element: Element },
    Loop { count: u64, body: Arc<Signature> },
    Sequence(Arc<[Signature]>),
}

/// The two representations of data, with the functions that depend on which one is meant.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Form {
    Native,
    External,
}

impl Signature {
    pub(crate) fn empty() -> Signature {
        Signature::sequence(Vec::new())
    }

    pub(crate) fn element(element: Element) -> Signature {
        Signature::repeat(1, element)
    }

    fn repeat(count: u64, element: Element) -> Signature {
        Signature {
            shape: Shape::Repeat { count, element },
            native: count.saturating_mul(element.size()),
            external: count.saturating_mul(element.external_size()),
            converts: element.has_external().is_ok(),
            depth: 0,
        }
    }

    fn turns(count: u64, body: Arc<Signature>) -> Signature {
        Signature {
            native: count.saturating_mul(body.native),
            external: count.saturating_mul(body.external),
            converts: body.converts,
            depth: body.depth + 1,
            shape: Shape::Loop { count, body },
        }
    }

    fn sequence(parts: Vec<Signature>) -> Signature {
        Signature {
            native: parts.iter().fold(0, |bytes, part| bytes.saturating_add(part.native)),
            external: parts.iter().fold(0, |bytes, part| bytes.saturating_add(part.external)),
            converts: parts.iter().all(|part| part.converts),
            depth: parts.iter().map(|part| part.depth + 1).max().unwrap_or(0),
            shape: Shape::Sequence(parts.into()),
        }
    }

    /// Bytes of the stream in a representation.
    pub(crate) fn bytes(&self, form: Form) -> u64 {
        match form {
            Form::Native => self.native,
            Form::External => self.external,
        }
    }

    pub(crate) fn repeated(&self, times: u64) -> Signature {
        match &self.shape {
            _ if times == 0 => Signature::empty(),
            _ if times == 1 => self.clone(),
            Shape::Repeat { count, element } => {
                Signature::repeat(count.saturating_mul(times), *element)
            }
            Shape::Loop { count, body } => {
                Signature::turns(count.saturating_mul(times), body.clone())
            }
            Shape::Sequence(parts) if parts.is_empty() => self.clone(),
            Shape::Sequence(_) => Signature::turns(times, Arc::new(self.clone())),
        }
    }

    /// Several streams, one after the other.
    ///
    /// # Errors
    /// `Type` if it is too deep and has too many parts to be made flat.
    pub(crate) fn joined(parts: impl IntoIterator<Item = Signature>) -> Result<Signature> {
        let joined = Signature::join(parts);
        match joined.depth > DEPTH_MAX {
            false => Ok(joined),
            true => joined.flat(&mut FLAT_MAX.clone()),
        }
    }

    fn join(parts: impl IntoIterator<Item = Signature>) -> Signature {
        let mut joined: Vec<Signature> = Vec::new();
        for part in parts.into_iter().filter(|part| part.native > 0) {
            match (joined.last_mut(), &part.shape) {
                (
                    Some(Signature { shape: Shape::Repeat { count, element }, .. }),
                    Shape::Repeat { count: more, element: other },
                ) if element == other => {
                    let merged = Signature::repeat(count.saturating_add(*more), *element);
                    joined.pop();
                    joined.push(merged);
                }
                _ => joined.push(part),
            }
        }
        match <[Signature; 1]>::try_from(joined) {
            Ok([only]) => only,
            Err(parts) => Signature::sequence(parts),
        }
    }

    /// The same without sequences that are parts of sequences; `budget` parts at most.
    fn flat(&self, budget: &mut usize) -> Result<Signature> {
        match &self.shape {
            Shape::Repeat { .. } => Ok(self.clone()),
            Shape::Loop { count, body } => Ok(body.flat(budget)?.repeated(*count)),
            Shape::Sequence(_) => {
                let mut parts = Vec::new();
                self.spread(&mut parts, budget)?;
                Ok(Signature::join(parts))
            }
        }
    }

    fn spread(&self, parts: &mut Vec<Signature>, budget: &mut usize) -> Result<()> {
        if let Shape::Sequence(inner) = &self.shape {
            return inner.iter().try_for_each(|part| part.spread(parts, budget));
        }
        *budget = budget.checked_sub(1).ok_or_else(too_deep)?;
        parts.push(self.flat(budget)?);
        Ok(())
    }

    /// Checks that every element has a form in a representation.
    ///
    /// # Errors
    /// `UnsupportedDatarep` if one has none.
    pub(crate) fn check(&self, form: Form) -> Result<()> {
        match form == Form::Native || self.converts {
            true => Ok(()),
            false => Element::Opaque.has_external(),
        }
    }

    /// Where the element that holds byte `position` of one representation begins, in both:
    /// (native, external).
    pub(crate) fn boundary(&self, position: u64, form: Form) -> (u64, u64) {
        match &self.shape {
            Shape::Repeat { count, element } => {
                let index = (position / size(*element, form)).min(*count);
                (index * element.size(), index * element.external_size())
            }
            Shape::Loop { count, body } => {
                let turn = (position / body.bytes(form)).min(*count);
                let inner = body.boundary(position - turn * body.bytes(form), form);
                let inner = if turn == *count { (0, 0) } else { inner };
                let (native, external) = (body.bytes(Form::Native), body.bytes(Form::External));
                (turn * native + inner.0, turn * external + inner.1)
            }
            Shape::Sequence(parts) => {
                let (mut position, mut before) = (position, (0, 0));
                for part in parts.iter() {
                    if position < part.bytes(form) {
                        let inner = part.boundary(position, form);
                        return (before.0 + inner.0, before.1 + inner.1);
                    }
                    position -= part.bytes(form);
                    before.0 += part.bytes(Form::Native);
                    before.1 += part.bytes(Form::External);
                }
                before
            }
        }
    }

    /// Converts the native bytes in `range`, which begins and ends between elements.
    pub(crate) fn encode(&self, range: Range<u64>, native: &[u8]) -> Result<Vec<u8>> {
        let mut external = Vec::with_capacity(native.len());
        let mut taken = 0;
        self.visit(range, Form::Native, &mut |element, len| {
            let end = taken + narrow(len);
            element.encode(&native[taken..end], &mut external)?;
            taken = end;
            Ok(())
        })?;
        Ok(external)
    }

    /// Converts the external bytes in `range`, which begins and ends between elements.
    pub(crate) fn decode(&self, range: Range<u64>, external: &[u8]) -> Result<Vec<u8>> {
        let mut native = Vec::with_capacity(external.len());
        let mut taken = 0;
        self.visit(range, Form::External, &mut |element, len| {
            let end = taken + narrow(len);
            element.decode(&external[taken..end], &mut native);
            taken = end;
            Ok(())
        })?;
        Ok(native)
    }

    /// Calls `visitor` for each stretch of one element type in `range`, with its bytes.
    fn visit(
        &self,
        range: Range<u64>,
        form: Form,
        visitor: &mut dyn FnMut(Element, u64) -> Result<()>,
    ) -> Result<()> {
        match &self.shape {
            Shape::Repeat { element, .. } => match range.is_empty() {
                true => Ok(()),
                false => visitor(*element, range.end - range.start),
            },
            Shape::Loop { body, .. } => {
                let bytes = body.bytes(form);
                let mut start = range.start;
                while start < range.end {
                    let turn = start / bytes * bytes;
                    let end = range.end.min(turn + bytes);
                    body.visit(start - turn..end - turn, form, visitor)?;
                    start = end;
                }
                Ok(())
            }
            Shape::Sequence(parts) => {
                let mut before = 0;
                for part in parts.iter() {
                    let bytes = part.bytes(form);
                    let start = range.start.clamp(before, before + bytes) - before;
                    let end = range.end.clamp(before, before + bytes) - before;
                    if start < end {
                        part.visit(start..end, form, visitor)?;
                    }
                    before += bytes;
                }
                Ok(())
            }
        }
    }
}

fn size(element: Element, form: Form) -> u64 {
    match form {
        Form::Native => element.size(),
        Form::External => element.external_size(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Signature {
        let pair =
            [Signature::element(Element::Long), Signature::element(Element::I16).repeated(3)];
        let pair = Signature::joined(pair).unwrap();
        Signature::joined([pair.repeated(2), Signature::element(Element::I8)]).unwrap()
    }

    #[test]
    fn sizes_count_both_representations() {
        assert_eq!(sample().bytes(Form::Native), 29);
        assert_eq!(sample().bytes(Form::External), 21);
    }

    #[test]
    fn a_deep_signature_is_made_flat() {
        let elements = [Element::I16, Element::F32].map(Signature::element);
        let mut deep = Signature::empty();
        for level in 0..5000 {
            deep = Signature::joined([deep, elements[level % 2].clone()]).unwrap();
            assert!(deep.depth <= DEPTH_MAX);
        }
        assert_eq!(deep.bytes(Form::Native), 15_000);
        assert_eq!(deep.boundary(14_999, Form::Native), (14_996, 14_996));
    }

    #[test]
    fn one_unknown_element_refuses_the_whole() {
        assert!(sample().check(Form::External).is_ok());
        let whole = Signature::joined([sample(), Signature::element(Element::Opaque)]).unwrap();
        let whole = whole.repeated(3);
        let class = whole.check(Form::External).unwrap_err().class();
        assert_eq!(class, crate::ErrorClass::UnsupportedDatarep);
        assert!(whole.check(Form::Native).is_ok());
    }

    #[test]
    fn every_cut_between_elements_converts_alike() {
        let signature = sample();
        let native: Vec<u8> =
            (0..29).map(|byte| if byte % 14 < 4 { byte + 1 } else { 0 }).collect();
        let whole = signature.encode(0..29, &native).unwrap();
        for cut in 0..=29 {
            let (at, external) = signature.boundary(cut, Form::Native);
            let mut parts = signature.encode(0..at, &native[..narrow(at)]).unwrap();
            assert_eq!(parts.len(), narrow(external));
            parts.extend(signature.encode(at..29, &native[narrow(at)..]).unwrap());
            assert_eq!(parts, whole);
        }
        assert_eq!(signature.decode(0..21, &whole).unwrap(), native);
    }
}
