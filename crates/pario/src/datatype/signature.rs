//! Which elementary types a stream of data consists of, and their conversion to `external32`.
//!
//! A signature is as compact as a layout: repetitions are counted, not listed. Only conversions
//! need it; data in the native representation never looks at it.

use std::ops::Range;
use std::sync::Arc;

use super::element::Element;
use crate::error::Result;
use crate::number::narrow;

/// The elementary types of a stream of data, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Signature {
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
        Signature::Sequence(Arc::new([]))
    }

    pub(crate) fn element(element: Element) -> Signature {
        Signature::Repeat { count: 1, element }
    }

    /// Bytes of the stream in a representation. Fits, since it fits for the layout.
    pub(crate) fn bytes(&self, form: Form) -> u64 {
        match self {
            Signature::Repeat { count, element } => count.saturating_mul(size(*element, form)),
            Signature::Loop { count, body } => count.saturating_mul(body.bytes(form)),
            Signature::Sequence(parts) => parts.iter().map(|part| part.bytes(form)).sum(),
        }
    }

    pub(crate) fn repeated(&self, times: u64) -> Signature {
        match self {
            _ if times == 0 => Signature::empty(),
            _ if times == 1 => self.clone(),
            Signature::Repeat { count, element } => {
                Signature::Repeat { count: count.saturating_mul(times), element: *element }
            }
            Signature::Loop { count, body } => {
                Signature::Loop { count: count.saturating_mul(times), body: body.clone() }
            }
            Signature::Sequence(parts) if parts.is_empty() => self.clone(),
            Signature::Sequence(_) => {
                Signature::Loop { count: times, body: Arc::new(self.clone()) }
            }
        }
    }

    pub(crate) fn joined(parts: impl IntoIterator<Item = Signature>) -> Signature {
        let mut joined: Vec<Signature> = Vec::new();
        for part in parts.into_iter().filter(|part| part.bytes(Form::Native) > 0) {
            match (joined.last_mut(), &part) {
                (
                    Some(Signature::Repeat { count, element }),
                    Signature::Repeat { count: more, element: other },
                ) if element == other => *count = count.saturating_add(*more),
                _ => joined.push(part),
            }
        }
        match <[Signature; 1]>::try_from(joined) {
            Ok([only]) => only,
            Err(parts) => Signature::Sequence(parts.into()),
        }
    }

    /// Checks that every element has a form in a representation.
    ///
    /// # Errors
    /// `UnsupportedDatarep` if one has none.
    pub(crate) fn check(&self, form: Form) -> Result<()> {
        match self {
            _ if form == Form::Native => Ok(()),
            Signature::Repeat { element, .. } => element.has_external(),
            Signature::Loop { body, .. } => body.check(form),
            Signature::Sequence(parts) => parts.iter().try_for_each(|part| part.check(form)),
        }
    }

    /// Where the element that holds byte `position` of one representation begins, in both:
    /// (native, external).
    pub(crate) fn boundary(&self, position: u64, form: Form) -> (u64, u64) {
        match self {
            Signature::Repeat { count, element } => {
                let index = (position / size(*element, form)).min(*count);
                (index * element.size(), index * element.external_size())
            }
            Signature::Loop { count, body } => {
                let turn = (position / body.bytes(form)).min(*count);
                let inner = body.boundary(position - turn * body.bytes(form), form);
                let inner = if turn == *count { (0, 0) } else { inner };
                let (native, external) = (body.bytes(Form::Native), body.bytes(Form::External));
                (turn * native + inner.0, turn * external + inner.1)
            }
            Signature::Sequence(parts) => {
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
        match self {
            Signature::Repeat { element, .. } => match range.is_empty() {
                true => Ok(()),
                false => visitor(*element, range.end - range.start),
            },
            Signature::Loop { body, .. } => {
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
            Signature::Sequence(parts) => {
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
        Signature::joined([Signature::joined(pair).repeated(2), Signature::element(Element::I8)])
    }

    #[test]
    fn sizes_count_both_representations() {
        assert_eq!(sample().bytes(Form::Native), 29);
        assert_eq!(sample().bytes(Form::External), 21);
    }

    #[test]
    fn one_unknown_element_refuses_the_whole() {
        assert!(sample().check(Form::External).is_ok());
        let whole = Signature::joined([sample(), Signature::element(Element::Opaque)]).repeated(3);
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
