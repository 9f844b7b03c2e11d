//! MPI datatypes as pario's.
//!
//! A type is taken apart as its program put it together (`MPI_Type_get_envelope` and
//! `MPI_Type_get_contents`, in their large-count forms where the library has them) and built again
//! in the compact form. Bounds always come from the library, since libraries differ in how they pad
//! structures. The result is kept as an attribute of the type: the second use costs one lookup.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use pario::{
    Darray, DarrayDimension, Datatype, Distribution, Error, ErrorClass, Field, Order, Result,
};

use crate::attribute;
use crate::binding::Mpi;

mod predefined;

/// The compact form of an MPI datatype.
///
/// # Errors
/// `Type` if the handle is null, or of a kind that is not known.
pub(crate) fn decode(mpi: &'static Mpi, datatype: usize) -> Result<Datatype> {
    let known = |datatype| {
        not_null(mpi, datatype)?;
        Ok(cached(mpi, datatype))
    };
    walk(mpi, datatype, known, |datatype, contents, decoded| {
        let decoded = with_bounds(mpi, datatype, decoded)?;
        keep(mpi, datatype, contents, &decoded);
        Ok(decoded)
    })
}

/// The form of an MPI datatype whose predefined types are replaced, with bounds that follow from
/// them: what a type becomes in a file where its elements have other sizes.
///
/// # Errors
/// As [`decode`], and what `replace` says.
pub(crate) fn replaced(
    mpi: &'static Mpi,
    datatype: usize,
    replace: &dyn Fn(usize) -> Result<Datatype>,
) -> Result<Datatype> {
    // A type that is in another one twice is replaced once.
    let done: RefCell<HashMap<usize, Datatype>> = RefCell::default();
    let known = |datatype| {
        not_null(mpi, datatype)?;
        if let Some(replaced) = done.borrow().get(&datatype) {
            return Ok(Some(replaced.clone()));
        }
        match is_predefined(mpi, datatype)? {
            true => replace(datatype).map(Some),
            false => Ok(None),
        }
    };
    walk(mpi, datatype, known, |datatype, _, replaced| {
        done.borrow_mut().insert(datatype, replaced.clone());
        Ok(replaced)
    })
}

/// Takes a type apart, down to those that are known, and puts it together again. Programs may nest
/// types as deep as they like, so the way back is a list and not the stack.
fn walk(
    mpi: &'static Mpi,
    datatype: usize,
    known: impl Fn(usize) -> Result<Option<Datatype>>,
    finish: impl Fn(usize, &Contents, Datatype) -> Result<Datatype>,
) -> Result<Datatype> {
    if let Some(known) = known(datatype)? {
        return Ok(known);
    }
    let mut opened = vec![Opened::new(mpi, datatype)?];
    loop {
        let Some(last) = opened.last_mut() else { return Err(invalid("a datatype of nothing")) };
        if let Some(&inner) = last.contents.types.get(last.inner.len()) {
            match known(inner)? {
                Some(known) => last.inner.push(known),
                None => opened.push(Opened::new(mpi, inner)?),
            }
            continue;
        }
        let Some(Opened { datatype, contents, inner }) = opened.pop() else { continue };
        let built = finish(datatype, &contents, contents.combine(datatype, &inner)?)?;
        match opened.last_mut() {
            Some(outer) => outer.inner.push(built),
            None => return Ok(built),
        }
    }
}

/// A type that has been taken apart, and what is known of its parts.
struct Opened {
    datatype: usize,
    contents: Contents,
    inner: Vec<Datatype>,
}

impl Opened {
    fn new(mpi: &'static Mpi, datatype: usize) -> Result<Opened> {
        Ok(Opened { datatype, contents: Contents::of(mpi, datatype)?, inner: Vec::new() })
    }
}

fn not_null(mpi: &Mpi, datatype: usize) -> Result<()> {
    match datatype == mpi.handle(mpi.abi.datatype_null) || datatype == 0 {
        true => Err(invalid("the datatype is MPI_DATATYPE_NULL")),
        false => Ok(()),
    }
}

/// Whether a type is predefined, so that it is never freed.
pub(crate) fn is_predefined(mpi: &'static Mpi, datatype: usize) -> Result<bool> {
    Ok(is_predefined_combiner(mpi, Contents::sizes(mpi, datatype)?.combiner))
}

fn is_predefined_combiner(mpi: &Mpi, combiner: i64) -> bool {
    let abi = mpi.abi;
    let named = [abi.combiner_named, abi.combiner_value_index];
    let fortran = [abi.combiner_f90_real, abi.combiner_f90_complex, abi.combiner_f90_integer];
    named.contains(&combiner) || fortran.contains(&combiner)
}

fn failed(what: &str, code: c_int) -> Error {
    Error::new(ErrorClass::Type, format!("{what} failed with MPI error {code}; a valid datatype?"))
}

fn invalid(text: &str) -> Error {
    Error::new(ErrorClass::Type, text)
}

/// How a type was made. It owns references to the types inside.
struct Contents {
    mpi: &'static Mpi,
    combiner: i64,
    integers: Vec<i64>,
    addresses: Vec<i64>,
    /// Numbers of types that were made by large-count constructors; empty for others.
    counts: Vec<i64>,
    types: Vec<usize>,
}

impl Contents {
    fn of(mpi: &'static Mpi, datatype: usize) -> Result<Contents> {
        let abi = mpi.abi;
        let sizes = Contents::sizes(mpi, datatype)?;
        let combiner = sizes.combiner;
        let [integers, addresses, counts, types] = sizes.lens;
        let mut contents = Contents {
            mpi,
            combiner,
            integers: Vec::new(),
            addresses: Vec::new(),
            counts: Vec::new(),
            types: Vec::new(),
        };
        if contents.is_named() {
            return Ok(contents);
        }
        let mut integer_list = vec![0 as c_int; integers];
        let mut address_list = vec![0isize; addresses];
        let mut count_list = vec![0i64; counts];
        let mut type_list = vec![0u8; types * abi.handle_size];
        let number = |len: usize| c_int::try_from(len).unwrap_or(c_int::MAX);
        let large = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
        // SAFETY: the lists have the lengths that the envelope asked for.
        let code = unsafe {
            match mpi.call.Type_get_contents_c {
                Some(get) => get(
                    datatype,
                    large(integers),
                    large(addresses),
                    large(counts),
                    large(types),
                    integer_list.as_mut_ptr(),
                    address_list.as_mut_ptr(),
                    count_list.as_mut_ptr(),
                    type_list.as_mut_ptr().cast(),
                ),
                None => (mpi.call.Type_get_contents)(
                    datatype,
                    number(integers),
                    number(addresses),
                    number(types),
                    integer_list.as_mut_ptr(),
                    address_list.as_mut_ptr(),
                    type_list.as_mut_ptr().cast(),
                ),
            }
        };
        if code != 0 {
            return Err(failed("MPI_Type_get_contents", code));
        }
        contents.integers = integer_list.into_iter().map(i64::from).collect();
        contents.addresses =
            address_list.into_iter().map(|address| i64::try_from(address).unwrap_or(0)).collect();
        contents.counts = count_list;
        contents.types = handles(&type_list, abi.handle_size);
        Ok(contents)
    }

    fn sizes(mpi: &Mpi, datatype: usize) -> Result<Envelope> {
        let mut combiner = 0;
        let lens = match mpi.call.Type_get_envelope_c {
            Some(get) => {
                let mut lens = [0i64; 4];
                let [integers, addresses, counts, types] = &mut lens;
                // SAFETY: all places for answers are valid.
                let code =
                    unsafe { get(datatype, integers, addresses, counts, types, &mut combiner) };
                if code != 0 {
                    return Err(failed("MPI_Type_get_envelope_c", code));
                }
                lens
            }
            None => {
                let mut lens = [0 as c_int; 3];
                let [integers, addresses, types] = &mut lens;
                let get = mpi.call.Type_get_envelope;
                // SAFETY: all places for answers are valid.
                let code = unsafe { get(datatype, integers, addresses, types, &mut combiner) };
                if code != 0 {
                    return Err(failed("MPI_Type_get_envelope", code));
                }
                let [integers, addresses, types] = lens;
                [i64::from(integers), i64::from(addresses), 0, i64::from(types)]
            }
        };
        let lens = lens.map(|len| usize::try_from(len).unwrap_or(0));
        Ok(Envelope { combiner: i64::from(combiner), lens })
    }

    /// Whether it is predefined and has no contents.
    fn is_named(&self) -> bool {
        self.combiner == self.mpi.abi.combiner_named
    }

    fn is_predefined(&self) -> bool {
        is_predefined_combiner(self.mpi, self.combiner)
    }

    /// The compact form of a type, from those of the types inside.
    fn combine(&self, datatype: usize, inner: &[Datatype]) -> Result<Datatype> {
        let mpi = self.mpi;
        let abi = mpi.abi;
        let mut numbers = Numbers::new(self);
        let old = || inner.first().ok_or_else(|| invalid("a datatype made of nothing"));
        match self.combiner {
            it if it == abi.combiner_named => predefined::named(mpi, datatype),
            it if it == abi.combiner_dup => Ok(old()?.clone()),
            it if it == abi.combiner_contiguous => Datatype::contiguous(numbers.count()?, old()?),
            it if it == abi.combiner_vector => {
                let (count, len) = (numbers.count()?, numbers.count()?);
                Datatype::vector(count, len, numbers.number()?, old()?)
            }
            it if it == abi.combiner_hvector => {
                let (count, len) = (numbers.count()?, numbers.count()?);
                Datatype::hvector(count, len, numbers.address()?, old()?)
            }
            it if it == abi.combiner_indexed => {
                let count = numbers.count()?;
                let lens = numbers.counts(count)?;
                Datatype::indexed(&lens, &numbers.numbers(count)?, old()?)
            }
            it if it == abi.combiner_hindexed => {
                let count = numbers.count()?;
                let lens = numbers.counts(count)?;
                Datatype::hindexed(&lens, &numbers.addresses(count)?, old()?)
            }
            it if it == abi.combiner_indexed_block => {
                let (count, len) = (numbers.count()?, numbers.count()?);
                Datatype::indexed_block(len, &numbers.numbers(count)?, old()?)
            }
            it if it == abi.combiner_hindexed_block => {
                let (count, len) = (numbers.count()?, numbers.count()?);
                Datatype::hindexed_block(len, &numbers.addresses(count)?, old()?)
            }
            it if it == abi.combiner_struct => {
                let count = numbers.count()?;
                let lens = numbers.counts(count)?;
                let places = numbers.addresses(count)?;
                let fields: Vec<Field> = lens
                    .into_iter()
                    .zip(places)
                    .zip(inner)
                    .map(|((block_len, displacement), datatype)| Field {
                        block_len,
                        displacement,
                        datatype: datatype.clone(),
                    })
                    .collect();
                Datatype::structure(&fields)
            }
            it if it == abi.combiner_subarray => self.subarray(mpi, old()?),
            it if it == abi.combiner_darray => self.darray(mpi, old()?),
            it if it == abi.combiner_resized => {
                let (lower, extent) = (numbers.address()?, numbers.address()?);
                Datatype::resized(lower, extent, old()?)
            }
            it if it == abi.combiner_value_index => predefined::pair(inner),
            it if it == abi.combiner_f90_integer => {
                predefined::f90_integer(size(mpi, datatype)?, numbers.number()?)
            }
            it if it == abi.combiner_f90_real => {
                let (digits, range) = (numbers.number()?, numbers.number()?);
                predefined::f90_real(size(mpi, datatype)?, digits, range)
            }
            it if it == abi.combiner_f90_complex => {
                let (digits, range) = (numbers.number()?, numbers.number()?);
                let real = predefined::f90_real(size(mpi, datatype)? / 2, digits, range)?;
                Datatype::contiguous(2, &real)
            }
            other => Err(invalid(&format!("a datatype of the unknown kind {other}"))),
        }
    }

    fn order(&self, mpi: &Mpi, order: i64) -> Order {
        match order == mpi.abi.order_fortran {
            true => Order::Fortran,
            false => Order::C,
        }
    }

    fn subarray(&self, mpi: &Mpi, old: &Datatype) -> Result<Datatype> {
        let mut integers = List::new(&self.integers);
        let dimensions = integers.count()?;
        let mut large = List::new(&self.counts);
        let lists = if self.counts.is_empty() { &mut integers } else { &mut large };
        let sizes = lists.counts(dimensions)?;
        let subsizes = lists.counts(dimensions)?;
        let starts = lists.counts(dimensions)?;
        let order = self.order(mpi, integers.number()?);
        Datatype::subarray(&sizes, &subsizes, &starts, order, old)
    }

    fn darray(&self, mpi: &Mpi, old: &Datatype) -> Result<Datatype> {
        let abi = mpi.abi;
        let mut integers = List::new(&self.integers);
        let (size, rank) = (integers.count()?, integers.count()?);
        let dimensions = integers.count()?;
        let sizes = match self.counts.is_empty() {
            true => integers.counts(dimensions)?,
            false => List::new(&self.counts).counts(dimensions)?,
        };
        let distributions = integers.numbers(dimensions)?;
        let arguments = integers.numbers(dimensions)?;
        let processes = integers.counts(dimensions)?;
        let order = self.order(mpi, integers.number()?);
        let small = |value: u64| u32::try_from(value).map_err(|_| invalid("a darray too large"));
        let mut described = Vec::new();
        for index in 0..sizes.len() {
            let distribution = match distributions[index] {
                it if it == abi.distribute_block => Distribution::Block,
                it if it == abi.distribute_cyclic => Distribution::Cyclic,
                _ => Distribution::None,
            };
            let argument = (arguments[index] != abi.distribute_dflt_darg)
                .then(|| u64::try_from(arguments[index]).unwrap_or(0));
            described.push(DarrayDimension {
                size: sizes[index],
                distribution,
                argument,
                processes: small(processes[index])?,
            });
        }
        let darray =
            Darray { size: small(size)?, rank: small(rank)?, dimensions: described, order };
        Datatype::darray(&darray, old)
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        for &inner in &self.types {
            if !is_predefined(self.mpi, inner).unwrap_or(true) {
                let mut inner = inner;
                // SAFETY: `get_contents` gave this reference to its caller.
                unsafe { (self.mpi.call.Type_free)(&mut inner) };
            }
        }
    }
}

struct Envelope {
    combiner: i64,
    /// Integers, addresses, large counts, types.
    lens: [usize; 4],
}

fn handles(bytes: &[u8], size: usize) -> Vec<usize> {
    let read = |handle: &[u8]| {
        let mut whole = [0u8; 8];
        whole[..handle.len()].copy_from_slice(handle);
        usize::from_ne_bytes(whole)
    };
    bytes.chunks_exact(size).map(read).collect()
}

/// Numbers of a type in the order in which its constructor took them.
struct List<'a> {
    rest: &'a [i64],
}

impl<'a> List<'a> {
    fn new(list: &'a [i64]) -> List<'a> {
        List { rest: list }
    }

    fn numbers(&mut self, count: u64) -> Result<Vec<i64>> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| invalid("a datatype cut short"))?;
        self.rest = rest;
        Ok(taken.to_vec())
    }

    fn number(&mut self) -> Result<i64> {
        Ok(self.numbers(1)?[0])
    }

    fn counts(&mut self, count: u64) -> Result<Vec<u64>> {
        let positive = |&number: &i64| {
            u64::try_from(number).map_err(|_| invalid("a datatype with a negative count"))
        };
        self.numbers(count)?.iter().map(positive).collect()
    }

    fn count(&mut self) -> Result<u64> {
        Ok(self.counts(1)?[0])
    }
}

/// Counts and displacements, wherever the library keeps them: integers and addresses, or large
/// counts for both.
struct Numbers<'a> {
    plain: List<'a>,
    addresses: List<'a>,
    large: bool,
}

impl<'a> Numbers<'a> {
    fn new(contents: &'a Contents) -> Numbers<'a> {
        let large = !contents.counts.is_empty();
        let plain = if large { &contents.counts } else { &contents.integers };
        Numbers { plain: List::new(plain), addresses: List::new(&contents.addresses), large }
    }

    fn count(&mut self) -> Result<u64> {
        self.plain.count()
    }

    fn counts(&mut self, count: u64) -> Result<Vec<u64>> {
        self.plain.counts(count)
    }

    fn number(&mut self) -> Result<i64> {
        self.plain.number()
    }

    fn numbers(&mut self, count: u64) -> Result<Vec<i64>> {
        self.plain.numbers(count)
    }

    fn address(&mut self) -> Result<i64> {
        Ok(self.addresses(1)?[0])
    }

    fn addresses(&mut self, count: u64) -> Result<Vec<i64>> {
        match self.large {
            true => self.plain.numbers(count),
            false => self.addresses.numbers(count),
        }
    }
}

/// Bytes of data in a type.
fn size(mpi: &Mpi, datatype: usize) -> Result<u64> {
    let mut size = 0;
    // SAFETY: the place for the answer is valid.
    let code = unsafe { (mpi.call.Type_size_x)(datatype, &mut size) };
    match u64::try_from(size) {
        Ok(size) if code == 0 => Ok(size),
        _ => Err(failed("MPI_Type_size_x", code)),
    }
}

/// The type with the bounds that the library gives it.
fn with_bounds(mpi: &Mpi, datatype: usize, decoded: Datatype) -> Result<Datatype> {
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: the places for answers are valid.
    let code = unsafe { (mpi.call.Type_get_extent_x)(datatype, &mut lower, &mut extent) };
    if code != 0 {
        return Err(failed("MPI_Type_get_extent_x", code));
    }
    match (decoded.lower_bound(), decoded.extent()) == (lower, extent) {
        true => Ok(decoded),
        false => Datatype::resized(lower, extent, &decoded),
    }
}

/// Predefined types, each at a place that its handle gives; they live as long as the process. A
/// second type of one place is not kept.
static PREDEFINED: [OnceLock<Predefined>; PREDEFINED_PLACES] =
    [const { OnceLock::new() }; PREDEFINED_PLACES];
const PREDEFINED_PLACES: usize = 256;

struct Predefined {
    handle: usize,
    decoded: Datatype,
    /// Its size, if values of it are one run of bytes.
    run_bytes: Option<usize>,
}

/// The size of a predefined type whose values are one run of bytes, if it was used before.
pub(crate) fn run_bytes(datatype: usize) -> Option<usize> {
    predefined(datatype).get().filter(|known| known.handle == datatype)?.run_bytes
}

fn predefined(datatype: usize) -> &'static OnceLock<Predefined> {
    // MPICH numbers its types in the lowest byte; those of Open MPI are some hundred bytes long.
    let mixed = datatype ^ datatype >> 8 ^ datatype >> 16;
    &PREDEFINED[mixed % PREDEFINED_PLACES]
}

fn cached(mpi: &'static Mpi, datatype: usize) -> Option<Datatype> {
    if let Some(known) = predefined(datatype).get()
        && known.handle == datatype
    {
        return Some(known.decoded.clone());
    }
    let key = keyval(mpi)?;
    let (mut value, mut found) = (ptr::null_mut::<c_void>(), 0);
    // SAFETY: the places for answers are valid; the key is this library's own.
    let code =
        unsafe { (mpi.call.Type_get_attr)(datatype, key, (&raw mut value).cast(), &mut found) };
    if code != 0 || found == 0 || value.is_null() {
        return None;
    }
    // SAFETY: values under this key are boxed datatypes (`keep`), freed with their MPI type.
    Some(unsafe { &*value.cast::<Datatype>() }.clone())
}

fn keep(mpi: &'static Mpi, datatype: usize, contents: &Contents, decoded: &Datatype) {
    if contents.is_predefined() {
        let dense = decoded.pieces() == 1 && i64::try_from(decoded.size()) == Ok(decoded.extent());
        let run_bytes = usize::try_from(decoded.size()).ok().filter(|_| dense);
        let known = Predefined { handle: datatype, decoded: decoded.clone(), run_bytes };
        let _ = predefined(datatype).set(known);
        return;
    }
    if let Some(key) = keyval(mpi) {
        let value = Box::into_raw(Box::new(decoded.clone()));
        // SAFETY: the key is this library's own; `forget` frees the value.
        let code = unsafe { (mpi.call.Type_set_attr)(datatype, key, value.cast()) };
        if code != 0 {
            // SAFETY: nobody else has got the value.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

/// The attribute under which decoded types are kept.
fn keyval(mpi: &'static Mpi) -> Option<c_int> {
    static KEY: OnceLock<Option<c_int>> = OnceLock::new();
    *KEY.get_or_init(|| {
        // A duplicate of a type is decoded again.
        let (copy, delete) = attribute::callbacks(forget);
        let mut key = 0;
        // SAFETY: the callbacks have the signatures of MPI's.
        let code =
            unsafe { (mpi.call.Type_create_keyval)(copy, delete, &mut key, ptr::null_mut()) };
        (code == 0).then_some(key)
    })
}

unsafe extern "C" fn forget(
    _datatype: usize,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    if !value.is_null() {
        // SAFETY: the value is one that `keep` boxed, and MPI gives it back once.
        drop(unsafe { Box::from_raw(value.cast::<Datatype>()) });
    }
    0
}
